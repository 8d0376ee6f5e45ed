/* Extension module that calls a compiled function with NumPy arrays.

   CompiledFunction of tracing/compiled_functions.py creates a `Call`. If all arguments are aligned,
   C-contiguous arrays of doubles with the declared shapes, the call runs in C. Otherwise it calls
   `fallback`, which converts or rejects the arguments. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>
#include <stddef.h>
#include <string.h>

typedef void (*Function)(const double *in, double *work, double *out);

typedef struct {
    int n_dimensions;
    npy_intp lengths[NPY_MAXDIMS];
    size_t size; /* number of elements */
} Shape;

typedef struct {
    PyObject_HEAD vectorcallfunc vectorcall;
    Function function;
    double *in, *work, *out; /* buffers, which the caller owns */
    Py_ssize_t n_inputs, n_outputs;
    Shape *shapes; /* of the inputs, then of the outputs */
    PyObject *fallback;
    int is_long; /* other threads may run during a call */
} Call;

static int is_plain(PyObject *value, const Shape *shape)
{
    PyArrayObject *array = (PyArrayObject *)value;
    if (!PyArray_CheckExact(value) || PyArray_TYPE(array) != NPY_DOUBLE ||
        !PyArray_ISCARRAY_RO(array) || PyArray_NDIM(array) != shape->n_dimensions)
        return 0;
    for (int k = 0; k < shape->n_dimensions; k++)
        if (PyArray_DIM(array, k) != shape->lengths[k])
            return 0;
    return 1;
}

/* Return a new array with the values, and advance the pointer to the next output. */
static PyObject *new_array(const Shape *shape, const double **values)
{
    PyObject *array =
        PyArray_SimpleNew(shape->n_dimensions, (npy_intp *)shape->lengths, NPY_DOUBLE);
    if (array) {
        memcpy(PyArray_DATA((PyArrayObject *)array), *values, shape->size * sizeof(double));
        *values += shape->size;
    }
    return array;
}

static void evaluate(const Call *call)
{
    PyThreadState *state = call->is_long ? PyEval_SaveThread() : NULL;
    call->function(call->in, call->work, call->out);
    if (state)
        PyEval_RestoreThread(state);
}

static PyObject *call_function(PyObject *self, PyObject *const *arguments, size_t flags,
                               PyObject *names)
{
    const Call *call = (const Call *)self;
    double *in = call->in;
    if (names || PyVectorcall_NARGS(flags) != call->n_inputs)
        return PyObject_Vectorcall(call->fallback, arguments, flags, names);
    for (Py_ssize_t k = 0; k < call->n_inputs; k++) {
        const Shape *shape = call->shapes + k;
        if (!is_plain(arguments[k], shape))
            return PyObject_Vectorcall(call->fallback, arguments, flags, names);
        memcpy(in, PyArray_DATA((PyArrayObject *)arguments[k]), shape->size * sizeof(double));
        in += shape->size;
    }
    evaluate(call);
    const double *values = call->out;
    const Shape *shapes = call->shapes + call->n_inputs;
    if (call->n_outputs == 1)
        return new_array(shapes, &values);
    PyObject *results = PyTuple_New(call->n_outputs);
    for (Py_ssize_t k = 0; results && k < call->n_outputs; k++) {
        PyObject *array = new_array(shapes + k, &values);
        if (!array) {
            Py_CLEAR(results);
            break;
        }
        PyTuple_SET_ITEM(results, k, array);
    }
    return results;
}

/* Evaluate the function on its buffers. */
static PyObject *run(PyObject *self, PyObject *unused)
{
    (void)unused;
    evaluate((const Call *)self);
    return Py_NewRef(Py_None);
}

/* Read a tuple of shapes. Returns 0 after an error. */
static int read_shapes(PyObject *sequence, Shape *shapes)
{
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(sequence); k++, shapes++) {
        PyObject *lengths = PyTuple_GET_ITEM(sequence, k);
        if (!PyTuple_Check(lengths) || PyTuple_GET_SIZE(lengths) > NPY_MAXDIMS) {
            PyErr_SetString(PyExc_ValueError,
                            "a shape must be a tuple of at most NPY_MAXDIMS lengths");
            return 0;
        }
        shapes->n_dimensions = (int)PyTuple_GET_SIZE(lengths);
        shapes->size = 1;
        for (int i = 0; i < shapes->n_dimensions; i++) {
            shapes->lengths[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(lengths, i));
            if (shapes->lengths[i] < 0)
                return 0; /* PyLong_AsSsize_t has set the error */
            shapes->size *= (size_t)shapes->lengths[i];
        }
    }
    return 1;
}

static PyObject *new_call(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"function", "buffers", "inputs", "outputs",
                               "fallback", "is_long", NULL};
    PyObject *inputs, *outputs, *fallback, *addresses[4];
    int is_long;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O!(O!O!O!)O!O!Op", keywords, &PyLong_Type,
                                     addresses, &PyLong_Type, addresses + 1, &PyLong_Type,
                                     addresses + 2, &PyLong_Type, addresses + 3, &PyTuple_Type,
                                     &inputs, &PyTuple_Type, &outputs, &fallback, &is_long))
        return NULL;
    Call *call = (Call *)type->tp_alloc(type, 0);
    if (!call)
        return NULL;
    call->vectorcall = call_function;
    void *function = PyLong_AsVoidPtr(addresses[0]);
    memcpy(&call->function, &function, sizeof function);
    call->in = PyLong_AsVoidPtr(addresses[1]);
    call->work = PyLong_AsVoidPtr(addresses[2]);
    call->out = PyLong_AsVoidPtr(addresses[3]);
    call->is_long = is_long;
    call->n_inputs = PyTuple_GET_SIZE(inputs);
    call->n_outputs = PyTuple_GET_SIZE(outputs);
    call->shapes = PyMem_New(Shape, (size_t)(call->n_inputs + call->n_outputs));
    Py_INCREF(fallback);
    call->fallback = fallback;
    if (!call->shapes)
        PyErr_NoMemory();
    if (!call->shapes || !read_shapes(inputs, call->shapes) ||
        !read_shapes(outputs, call->shapes + call->n_inputs)) {
        Py_DECREF(call);
        return NULL;
    }
    return (PyObject *)call;
}

static int visit_references(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(((Call *)self)->fallback);
    return 0;
}

static int clear_references(PyObject *self)
{
    Py_CLEAR(((Call *)self)->fallback);
    return 0;
}

static void free_call(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    PyMem_Free(((Call *)self)->shapes);
    clear_references(self);
    Py_TYPE(self)->tp_free(self);
}

static PyMethodDef methods[] = {
    {"run", run, METH_NOARGS, "Evaluate the function on its buffers."},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject call_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "rb_call.Call",
    .tp_basicsize = sizeof(Call),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "Compiled function with buffers at fixed addresses.",
    .tp_methods = methods,
    .tp_new = new_call,
    .tp_dealloc = free_call,
    .tp_traverse = visit_references,
    .tp_clear = clear_references,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Call, vectorcall),
};

static PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "rb_call", .m_size = -1};

PyMODINIT_FUNC PyInit_rb_call(void)
{
    import_array();
    PyObject *made = PyModule_Create(&module);
    if (made && PyModule_AddType(made, &call_type) < 0)
        Py_CLEAR(made);
    return made;
}
