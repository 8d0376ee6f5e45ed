"""NumPy functions that are traced to C, compiled and called from Python.

Functions that process a batch of arguments use SIMD lanes and threads. A lane is one element of a
vector register. A vector instruction processes all lanes at once.
"""

import ctypes
import os
import platform
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache, partial
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from itertools import accumulate
from math import prod
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

from rigidblocks.common.compiler import (
    PORTABLE_FLAGS,
    CacheError,
    CompilerError,
    compiler,
    kernel_compiler,
    shared_library,
    version,
)
from rigidblocks.spatial.spatial import Array
from rigidblocks.tracing.c_notation import IN_LANES
from rigidblocks.tracing.ccode import WrittenFunction, c_function, c_text
from rigidblocks.tracing.trace import Graph, Shapes, trace

LANES = (2, 4, 8)
_ALIGNED = 64  # alignment [bytes]
_PROCESSORS = {4: "x86-64-v3", 8: "x86-64-v4"}


@cache
def widest() -> int:
    """Return the largest number of SIMD lanes that the CPU supports.

    The number is 8 with AVX-512 (x86-64-v4), 4 with AVX2 (x86-64-v3), else 2. All x86-64 and 64-bit
    ARM processors support 2 lanes. The function requires a C compiler.
    """
    sources = {file: c_text(f"lanes/{file}") for file in _C}
    flags = (*PORTABLE_FLAGS, "-Wno-psabi", "-DRB_LANES=2", "-DRB_VECTOR_WIDTH")
    return int(ctypes.CDLL(str(shared_library(sources, _C[0], flags))).rb_widest())


def lane_count(lanes: int | None) -> int:
    """Return a supported number of SIMD lanes: `lanes`, by default the largest.

    Raises:
        ValueError: The number is not supported.
    """
    if lanes is None:
        return widest()
    if lanes not in LANES:
        raise ValueError(f"lanes must be one of {', '.join(map(str, LANES))}, not {lanes!r}")
    return lanes


def lane_flags(lanes: int) -> tuple[str, ...]:
    """Return the compiler flags for code with `lanes` SIMD lanes.

    The flags enable the vector instructions of this processor. The results of the compiled code do
    not depend on the flags.
    """
    here = platform.machine().lower() in ("x86_64", "amd64")
    own = _PROCESSORS.get(min(lanes, widest())) if here else None
    # -O3 unrolls the loops over lanes
    more = ["-O3", "-Wno-psabi", f"-DRB_LANES={lanes}"]
    if "Free Software Foundation" in version(compiler()):  # with gcc: more values in registers
        more += ["-fschedule-insns", "-fsched-pressure"]
    return (*PORTABLE_FLAGS, *more, *([f"-march={own}"] if own else []))


def wide_flags() -> tuple[str, ...]:
    """Return the compiler flags for AVX2 vector instructions, or () if the CPU lacks AVX2.

    The results of the compiled code do not depend on the flags.
    """
    here = platform.machine().lower() in ("x86_64", "amd64")
    return ("-mavx2",) if here and widest() >= 4 else ()


def lane_workspace(numbers: int, lanes: int) -> Array:
    """Return an aligned array with `numbers` doubles for each SIMD lane."""
    whole = np.zeros(numbers * lanes + _ALIGNED // 8)
    skipped = -whole.ctypes.data % _ALIGNED // 8
    return whole[skipped : skipped + numbers * lanes]


def run_in_threads(
    work: Callable[[int, int], None], n: int, threads: int | None, most: int
) -> None:
    """Process n rows in several threads; each call of `work` processes consecutive rows.

    Args:
        work: Function (first, last) that processes the rows from `first` to `last` - 1.
        n: Number of rows.
        threads: Number of threads, by default the number of processors.
        most: Approximate maximum number of rows per call of `work`. In all calls except the last,
            the number of rows is a multiple of the largest number of lanes.

    Raises:
        ValueError: `threads` is less than 1.
        Exception: The first exception of `work`, after all threads have ended.
    """
    count = _processors() if threads is None else threads
    if count < 1:
        raise ValueError(f"threads must be at least 1, not {threads}")
    size = max(LANES) * max(-(-min(most, -(-n // count)) // max(LANES)), 1)
    if n <= size:
        if n:
            work(0, n)
        return
    starts, stopped = iter(range(0, n, size)), threading.Event()

    def parts() -> None:
        for first in starts:  # the threads share the iterator, so each part is processed once
            if stopped.is_set():
                return
            work(first, min(first + size, n))

    others = [_pool().submit(parts) for _ in range(min(count, -(-n // size)) - 1)]
    try:
        parts()
        for other in others:
            other.result()
    except BaseException:
        stopped.set()
        wait(others)
        raise


def _processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_lock = threading.Lock()
_pools: dict[int, ThreadPoolExecutor] = {}


def _pool() -> ThreadPoolExecutor:
    """Return the thread pool of the current process; a forked process creates its own pool."""
    with _lock:
        if os.getpid() not in _pools:
            _pools.clear()
            _pools[os.getpid()] = ThreadPoolExecutor(thread_name_prefix="rigidblocks-lanes")
        return _pools[os.getpid()]


_C = ("lane_library.c", "lanes.h")
_FEWEST, _MOST = 256, 1024  # maximum numbers of rows for a single thread, and per call
_EVALUATE = """
static void evaluate(const real *in, real *out, real *work)
{{
    {body}
}}

enum {{ RB_IN = {numbers_in}, RB_OUT = {numbers_out} }};
#define RB_READ(count) \\
{reads}
#define RB_WRITE(count) \\
{writes}
"""


class CompiledBatch:
    """Traced function that is compiled to C for batches of arguments.

    A call such as `f(q, qd, tau)` takes arrays (n, ...) and returns arrays (n, ...). Row k of the
    results is the value of the function for row k of the arguments.

    The function computes 2, 4 or 8 rows at once and divides the rows among threads. The results are
    bitwise identical for any number of lanes and threads. They differ from the results of
    `CompiledFunction` only by rounding errors. c/lanes/lanes.h computes sine and cosine within
    1 ulp. The C library computes all other mathematical functions. A row with values that are
    not finite does not affect other rows. Any number of threads may call the object at the same
    time.

    Args:
        graph: Traced function.
        lanes: Number of SIMD lanes, 2, 4 or 8; by default the maximum of the processor.
    """

    def __init__(
        self,
        graph: Graph | WrittenFunction,
        *,
        lanes: int | None = None,
    ):
        self.graph = graph
        self.lanes = lane_count(lanes)
        self.inputs: Shapes = dict(graph.inputs)
        self.outputs: Shapes = dict(graph.outputs)
        text, work = function_header(graph)
        self._batch = lane_library({"function.h": text}, self.lanes).rb_evaluate_rows
        self._batch.restype = None
        self._batch.argtypes = (
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_long,
            ctypes.c_long,
            ctypes.c_void_p,
        )
        self._room = _numbers(self.inputs.values()) + _numbers(self.outputs.values()) + work

    def __call__(self, *values: Any, threads: int | None = None) -> Any:
        """Return the outputs of the compiled function for a batch of n arguments.

        The function reads C-contiguous arrays of doubles in place. Other values, which NumPy must
        be able to convert to doubles without loss, are copied first.

        Args:
            values: The inputs (n, ...), in the order of `inputs`.
            threads: Number of threads; the default is the number of processors. Up to 256 rows use
                a single thread.

        Returns:
            Output (n, ...), or a tuple of the outputs.

        Raises:
            ValueError: The number of inputs or the shape of an input is wrong.
            TypeError: Values are not real numbers.
        """
        arrays = [self._array(k, value) for k, value in enumerate(values)]
        n = self._rows(arrays)
        results = [np.empty((n, *shape)) for shape in self.outputs.values()]
        places = _addresses(arrays), _addresses(results)

        def work(first: int, last: int) -> None:
            own = lane_workspace(self._room, self.lanes)
            self._batch(*places, first, last, own.ctypes.data)

        single_thread = threads == 1 or n <= _FEWEST
        run_in_threads(work, n, 1 if single_thread else threads, n if single_thread else _MOST)
        return results[0] if len(results) == 1 else tuple(results)

    def _array(self, k: int, value: Any) -> Array:
        given = np.asarray(value)
        if not np.can_cast(given.dtype, float) or given.dtype == bool:
            name = list(self.inputs)[k] if k < len(self.inputs) else f"argument {k + 1}"
            raise TypeError(
                f"{self.graph.name}: {name} has elements of type {given.dtype}; they must be real "
                "numbers that a double can represent"
            )
        return np.ascontiguousarray(given, dtype=float)

    def _rows(self, arrays: list[Array]) -> int:
        """Return the number of rows of the inputs.

        Raise ValueError if the shapes of the inputs do not match.
        """
        needed = list(self.inputs.values())
        n = arrays[0].shape[0] if arrays and arrays[0].ndim else 0
        if [array.shape for array in arrays] != [(n, *shape) for shape in needed]:
            given = ", ".join(str(array.shape) for array in arrays)
            wanted = ", ".join(
                f"{name} {('n', *shape)}".replace("'", "") for name, shape in self.inputs.items()
            )
            raise ValueError(
                f"the inputs of {self.graph.name} have the shapes {given}; expected {wanted}"
            )
        return n


def lane_library(generated: dict[str, str], lanes: int) -> ctypes.CDLL:
    """Compile c/lanes/lane_library.c with generated headers, and return the loaded library.

    `generated` contains the text of function.h or steps.h by file name.
    """
    sources = {file: c_text(f"lanes/{file}") for file in _C}
    flags = (*lane_flags(lanes), *["-DRB_RUNS"] * ("steps.h" in generated))
    path = shared_library(sources | generated, "lane_library.c", flags)
    return ctypes.CDLL(str(path))


def header_text(name: str, text: str) -> str:
    """Return the text of a C header with the content `text` and an include guard for `name`."""
    guard = f"RB_{name.upper()}_H"
    return f'#ifndef {guard}\n#define {guard}\n\n#include "lanes.h"\n\n{text}\n#endif\n'


def function_header(graph: Graph | WrittenFunction) -> tuple[str, int]:
    """Return the C code of function.h, which c/lanes/lane_library.c includes.

    Returns:
        C code, and number of doubles in the workspace of its function `evaluate`.
    """
    if isinstance(graph, WrittenFunction):
        text, body, size = graph.text, f"{graph.name}(in, work, out);", graph.work
    else:
        text, size = c_function(graph, notation=IN_LANES), 0
        body = f"(void)work;\n    {graph.name}(in, out);"
    inputs, outputs = graph.inputs, graph.outputs
    evaluate = _EVALUATE.format(
        body=body,
        numbers_in=_numbers(inputs.values()),
        numbers_out=_numbers(outputs.values()),
        reads=_calls("read_rows(inputs[{0}] + row * {1}, {1}, count, in + {2});", inputs),
        writes=_calls("write_rows(outputs[{0}] + row * {1}, {1}, count, out + {2});", outputs),
    )
    return header_text("function", text + evaluate), size


def _numbers(shapes: Iterable[tuple[int, ...]]) -> int:
    return sum(map(prod, shapes))


def _calls(call: str, shapes: Shapes) -> str:
    """Return the body of a C macro, with one statement for each nonempty array.

    `call` is the template of the statement. Its placeholders are the index of the array, its number
    of elements, and its start index in the flat vector.
    """
    sizes = [prod(shape) for shape in shapes.values()]
    starts = accumulate(sizes, initial=0)
    calls = (
        call.format(k, size, at)
        for k, (size, at) in enumerate(zip(sizes, starts, strict=False))
        if size
    )
    return " \\\n".join(f"    {one}" for one in calls)


def _addresses(arrays: list[Array]) -> Any:
    return (ctypes.c_void_p * (len(arrays) + 1))(*(array.ctypes.data for array in arrays))


_EXPORT = """
#if defined(_WIN32)
__declspec(dllexport)
#else
__attribute__((visibility("default")))
#endif
void call(const double *in, double *work, double *out);

void call(const double *in, double *work, double *out)
{{
    {body}
}}
"""


# number of characters of C code above which a call releases Python's global interpreter lock; code
# of this length runs for about 1 us, and releasing the lock takes 0.1 us
_LONG = 100_000


class CompiledFunction:
    """Traced function that is compiled to C and called from Python, such as `f(q, qd, tau)`.

    For minimum overhead, write to the buffer `inputs["q"]`, call `run()`, and read the buffer
    `outputs["qdd"]`. The buffers have the declared shapes and exist as long as the object. Several
    threads must not use one object at the same time.

    Args:
        graph: Traced function.
    """

    def __init__(self, graph: Graph | WrittenFunction):
        self.graph = graph
        text, size = _source(graph)
        wide = isinstance(graph, WrittenFunction) and graph.wide
        flags = (*PORTABLE_FLAGS, *wide_flags()) if wide else PORTABLE_FLAGS
        command = None if isinstance(graph, WrittenFunction) else kernel_compiler()
        path = shared_library({"function.c": text}, "function.c", flags, command)
        library = ctypes.CDLL(str(path))
        self.inputs, inputs = _buffer(graph.inputs)
        self.outputs, outputs = _buffer(graph.outputs)
        buffers = (inputs, np.zeros(size), outputs)
        self._buffers = buffers  # keeps the arrays alive, because the library uses their addresses
        addresses = tuple(flat.ctypes.data for flat in buffers)
        self._c_call = partial(library.call, *map(ctypes.c_void_p, addresses))
        library.call.restype = None
        self.run: Callable[[], Any] = self._c_call
        self._call: Any = _CheckedCall(graph, self.inputs, self.outputs, self.run)
        if (extension := call_extension()) is not None:
            function = ctypes.cast(library.call, ctypes.c_void_p).value
            shapes = (tuple(shapes.values()) for shapes in (graph.inputs, graph.outputs))
            is_long = isinstance(graph, WrittenFunction) or len(text) > _LONG
            self._call = extension(function, addresses, *shapes, self._call, is_long)
            self.run = self._call.run

    def __call__(self, *values: Any) -> Any:
        """Return the outputs of the compiled function for its inputs.

        Args:
            values: The inputs, in the order of `graph.inputs`.

        Returns:
            Output, or a tuple of the outputs.

        Raises:
            ValueError: The number of inputs or the shape of an input is wrong.
            TypeError: Elements are complex, boolean, strings or masked.
        """
        return self._call(*values)


@dataclass(frozen=True, eq=False)
class _CheckedCall:
    """Callable that checks the arguments of a compiled function and converts them to doubles."""

    graph: Graph | WrittenFunction
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    run: Callable[[], Any]

    def __call__(self, *values: Any) -> Any:
        shapes = [
            value.shape if isinstance(value, np.ndarray) else np.shape(value) for value in values
        ]
        if shapes != [buffer.shape for buffer in self.inputs.values()]:
            given = ", ".join(map(str, shapes))
            raise ValueError(
                f"the inputs of {self.graph.name} have the shapes {given}; expected "
                f"{self.graph.inputs}"
            )
        for k, (buffer, value) in enumerate(zip(self.inputs.values(), values, strict=True)):
            is_plain = type(value) is np.ndarray and value.dtype is _DOUBLE
            buffer[...] = value if is_plain else self._real(k, value)
        self.run()
        results = [buffer.copy() for buffer in self.outputs.values()]
        return results[0] if len(results) == 1 else tuple(results)

    def _real(self, k: int, value: Any) -> Array:
        """Return the value of argument k as an array.

        Raise TypeError if its elements are not real numbers.
        """
        array = np.asarray(value)
        is_real = array.dtype.kind in "fiuO" and not np.ma.is_masked(value)
        if not is_real:
            kind = "masked" if np.ma.is_masked(value) else f"of type {array.dtype}"
            raise TypeError(
                f"{self.graph.name}: {list(self.inputs)[k]} has elements {kind}; all elements "
                "must be real numbers"
            )
        return array


_DOUBLE = np.dtype(float)


@cache
def call_extension() -> Any | None:
    """Return the class `Call` of the extension module c/python/call.c.

    The class calls compiled functions with low overhead. The result is None if the headers of
    Python or a C compiler are missing, or on Windows.
    """
    include = sysconfig.get_path("include")
    if os.name != "posix" or not Path(include, "Python.h").exists():
        return None
    versions = f"/* {sys.implementation.cache_tag}, NumPy {np.__version__} */\n"
    flags = (*PORTABLE_FLAGS, "-isystem", include, "-isystem", np.get_include())
    link = ("-undefined", "dynamic_lookup") if sys.platform == "darwin" else ()
    sources = {"call.c": versions + c_text("python/call.c")}
    try:
        path = str(shared_library(sources, "call.c", flags, link=link))
        spec = spec_from_file_location("rb_call", path, loader=ExtensionFileLoader("rb_call", path))
        module = module_from_spec(spec)  # type: ignore[arg-type]  # there is a loader
    except (CompilerError, CacheError, ImportError):
        return None
    return module.Call


def compiled_form(
    graph: Graph | WrittenFunction,
    batch: bool,
    lanes: int | None = None,
) -> CompiledFunction | CompiledBatch:
    """Compile a traced function.

    Args:
        graph: Traced function.
        batch: True for batches of arguments, False for single arguments.
        lanes: Number of SIMD lanes of a batch; by default the maximum of the processor.

    Raises:
        ValueError: `lanes` is given without `batch`, or the number is not supported.
    """
    if batch:
        return CompiledBatch(graph, lanes=lanes)
    if lanes is not None:
        raise ValueError(f"lanes = {lanes} needs batch=True")
    return CompiledFunction(graph)


@overload
def compile_function(
    name: str, function: Callable[..., Mapping[str, Array]], inputs: Shapes
) -> CompiledFunction: ...


@overload
def compile_function(
    name: str,
    function: Callable[..., Mapping[str, Array]],
    inputs: Shapes,
    *,
    batch: Literal[True],
    lanes: int | None = None,
) -> CompiledBatch: ...


def compile_function(
    name: str,
    function: Callable[..., Mapping[str, Array]],
    inputs: Shapes,
    *,
    batch: bool = False,
    lanes: int | None = None,
) -> CompiledFunction | CompiledBatch:
    """Trace a NumPy function and compile it to C.

    Args:
        name: Name of the compiled function.
        function: Function with `inputs` as positional arguments, which returns its outputs by name.
        inputs: Shapes of the inputs by name.
        batch: True to compile for arrays (n, ...) of inputs, in SIMD lanes and threads.
        lanes: Number of SIMD lanes of a batch; by default the maximum of the processor.

    Raises:
        TraceError: The function branches on a traced value.
        CompilerError: No C compiler is installed.
    """
    return compiled_form(trace(name, function, inputs), batch, lanes)


def _source(graph: Graph | WrittenFunction) -> tuple[str, int]:
    """Return the C code of a shared library for a traced function, and the workspace size.

    The library exports the function `call`. The workspace size is a number of doubles.
    """
    if isinstance(graph, WrittenFunction):
        text, body, size = graph.text, f"{graph.name}(in, work, out);", graph.work
    else:
        text, body, size = c_function(graph), f"(void)work;\n    {graph.name}(in, out);", 0
    return "#include <math.h>\n" + text + _EXPORT.format(body=body), size


def _buffer(shapes: Shapes) -> tuple[dict[str, Array], Array]:
    """Return a flat array of zeros, and views of its parts with the given shapes by name.

    The views are the first element of the result.
    """
    flat = np.zeros(sum(prod(shape) for shape in shapes.values()))
    parts, k = {}, 0
    for name, shape in shapes.items():
        parts[name] = flat[k : k + prod(shape)].reshape(shape)
        k += prod(shape)
    return parts, flat
