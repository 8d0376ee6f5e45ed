"""Blocks that call C or Python functions that are not traced.

The sample update of a `WrittenBlock` is a C function. A `StagedBlock` calls a C function between
its traced functions. A `PythonBlock` calls a Python function, for example to evaluate a neural
network or to read a device.
"""

import abc
import ctypes
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from importlib.resources import files
from typing import Any

import numpy as np

from rigidblocks.block.block import Block
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.port import Port, Record, Values
from rigidblocks.spatial.scalar import is_traced
from rigidblocks.spatial.spatial import Array


class BlockInC(Block):
    """Base class of blocks that call a C function with data tables.

    The NumPy evaluators of such a block call the same C function.
    """

    @property
    @abc.abstractmethod
    def function(self) -> str:
        """Name of the C function."""

    @property
    @abc.abstractmethod
    def tables(self) -> str:
        """C code of the data tables, which precedes the `headers` in the generated code."""

    @property
    @abc.abstractmethod
    def headers(self) -> tuple[str, ...]:
        """Paths of the C files in the folder `c`, in the order of inclusion."""

    @abc.abstractmethod
    def structure(self) -> Block:
        """Return a traceable block that represents this block in the dependency analysis.

        The traceable block has the ports of this block, and its output values have no meaning. Each
        result of the C function is assumed to depend on all arguments.
        """

    def written_text(self) -> str:
        """Return the C code of the data tables, the C function and all included files."""
        headers = ("kernel/workspace.h", *self.headers)
        parts = (files("rigidblocks").joinpath("c", path).read_text() for path in headers)
        lines = "".join(parts).splitlines()
        kept = (line for line in lines if not line.startswith('#include "'))
        return "\n".join((self.tables, *kept, ""))


class WrittenBlock(BlockInC):
    """Sampled block whose `update` is a C function in all forms of execution.

        static inline void NAME(const double *state, const double *ARGUMENT, ..., double *out)

    NAME is the property `function`. `state` contains all sampled states before the update, and
    `out` receives all sampled states after the update. Each ARGUMENT is an input, a parameter or
    the time (`arguments`). In NumPy runs, the block calls a library that is compiled at the first
    use. Kernels and native FMUs include the C code, which is shorter than traced code.

    The block cannot be traced. `linearize` therefore rejects the block, and a fused system calls
    the C function. Outputs have direct feedthrough only if `reads_at_once` is true. Otherwise the
    C function computes the next sample from the last sample and the held inputs. For the
    dependency analysis, every output depends on every state.
    """

    @property
    def start_function(self) -> str | None:
        """Name of the C function that initializes the sampled states, or None.

        The function has the same arguments as the C function for `update`. If the name is None, the
        initial sampled states are the start values.
        """
        return None

    @property
    def reads_at_once(self) -> bool:
        """True if the sampled states depend on the inputs at the same sample instant.

        Sensors return True and plants return False.
        """
        return False

    @property
    @abc.abstractmethod
    def arguments(self) -> tuple[str, ...]:
        """Names of the inputs and parameters of the C function, in order; "t" is the time."""

    def update_text(self, memory: Memory) -> str:
        """Return C functions `initial` and `update`, which read the memory vector of the block.

        The generated C file must contain this code after `written_text`. Parameters outside the
        memory vector are constants in the code.
        """
        start = {port.name: port.start for port in (*self.inputs, *self.parameters)}
        lines, given = list[str](), list[str]()
        for k, name in enumerate(self.arguments):
            if name == "t":
                given.append("in + RB_T")
            elif name in memory.where:
                given.append(f"in + {memory.where[name].start}")
            else:
                numbers = np.ravel(np.asarray(start[name], dtype=float))
                text = ", ".join(repr(float(number)) for number in numbers)
                lines.append(f"    static const double a{k}[] = {{{text}}};")
                given.append(f"a{k}")
        arguments = ", ".join(("in + RB_Z", *given, "out"))
        size = sum(port.size for port in self.sampled)
        copy = f"    memcpy(out, in + RB_Z, {size} * sizeof *out);"  # the states do not change
        head = "static inline void {}(const double *in, double *out)\n{{"
        begin = [f"    {self.start_function}({arguments});"] if self.start_function else []
        initial = (head.format("initial"), *(lines if begin else []), copy, *begin, "}")
        update = (head.format("update"), *lines, f"    {self.function}({arguments});", "}")
        return "\n".join((*initial, *update, ""))

    @cached_property
    def _library(self) -> Any:
        """Compiled library with the C functions of `update` and `initial`."""
        own = [f"a{k}" for k in range(len(self.arguments))]  # names of ports may be words of C
        given = ", ".join(f"const double *{name}" for name in ("state", *own))
        names = ", ".join(("state", *own, "out"))
        exported = {
            name: (f"{given}, double *out", f"{function}({names});")
            for name, function in (("written", self.function), ("started", self.start_function))
            if function
        }
        return library(self.written_text(), exported)

    def update(self, x: Record, u: Record, p: Record) -> Values:
        if is_traced(*vars(x).values(), *vars(u).values(), *vars(p).values()):
            raise TypeError(
                f"the update of {type(self).__name__} is a C function and cannot be traced; use "
                "the block only in simulations and FMUs, as a single block or as a part of a "
                "system"
            )
        return self._call_library("written", x, u, p)

    def initial(self, x: Record, u: Record, p: Record) -> Values:
        """Return the initial sampled states: results of `start_function`, or the start values."""
        if self.start_function:
            return self._call_library("started", x, u, p)
        return {port.name: getattr(x, port.name) for port in self.sampled}

    def _call_library(self, name: str, x: Record, u: Record, p: Record) -> Values:
        """Call the function `name` of the compiled library, and return the sampled states."""
        state = np.concatenate([np.ravel(getattr(x, port.name)) for port in self.sampled])
        numbers = {**vars(p), **vars(u)}
        given = [np.ravel(np.asarray(numbers[name], dtype=float)) for name in self.arguments]
        state = state.astype(float)
        out, k, values = state.copy(), 0, {}
        arrays = (state, *given, out)  # keeps the arrays alive during the call
        getattr(self._library, name)(*map(address, arrays))
        for port in self.sampled:
            values[port.name] = out[k : (k := k + port.size)].reshape(port.shape)
        return values

    def structure(self) -> Block:
        """Return a traceable block that represents this block in the dependency analysis.

        The traceable block has the ports of this block, and its output values have no meaning. Each
        sampled state depends on all states and parameters. If `reads_at_once` is true, it also
        depends on all inputs.
        """
        return WrittenStructure(self)


class WrittenStructure(Block):
    """Traceable block that represents a `WrittenBlock` in the dependency analysis."""

    def __init__(self, block: WrittenBlock):
        self._block, self.sample_time = block, block.sample_time

    @property
    def inputs(self) -> Any:
        return self._block.inputs

    @property
    def outputs(self) -> Any:
        return self._block.outputs

    @property
    def sampled(self) -> Any:
        return self._block.sampled

    @property
    def parameters(self) -> Any:
        return self._block.parameters

    def initial(self, x: Record, u: Record, p: Record) -> Values:
        if self._block.start_function:
            return self.update(x, u, p)
        return {port.name: getattr(x, port.name) for port in self.sampled}

    def update(self, x: Record, u: Record, p: Record) -> Values:
        given = [np.sum(vars(x)[port.name]) for port in self.sampled]
        given += [np.sum(getattr(p, port.name, 0.0)) for port in self.parameters]
        if self._block.reads_at_once:
            given += [np.sum(vars(u)[port.name]) for port in self.inputs]
        whole = np.sum(given)
        return {port.name: np.full(port.shape, whole) for port in self.sampled}


def library(text: str, exported: Mapping[str, tuple[str, str]]) -> Any:
    """Compile C code to a shared library, and load the library.

    Args:
        text: C code.
        exported: Argument list and body in C of each exported function, by function name.

    Returns:
        Loaded library, whose functions have no return value.
    """
    # imported here because a packaged block needs no compiler
    from rigidblocks.common.compiler import shared_library

    head = (
        "#if defined(_WIN32)\n#define RB_OUTSIDE __declspec(dllexport)\n#else\n"
        '#define RB_OUTSIDE __attribute__((visibility("default")))\n#endif\n'
    )
    functions = [
        f"RB_OUTSIDE void {name}({arguments});\n"
        f"RB_OUTSIDE void {name}({arguments})\n{{\n    {body}\n}}\n"
        for name, (arguments, body) in exported.items()
    ]
    whole = text + head + "".join(functions)
    loaded = ctypes.CDLL(str(shared_library({"written.c": whole}, "written.c")))
    for name in exported:
        getattr(loaded, name).restype = None
    return loaded


def address(array: Array) -> Any:
    """Return the address of an array's data as an argument of a C function."""
    return ctypes.c_void_p(array.ctypes.data)


STAGED = ("derivative", "switching_functions", "output")  # block functions that use the C function


class StagedBlock(BlockInC):
    """Continuous block whose derivatives, outputs and switching functions depend on a C function.

        w = NAME(stage_inputs(x, u, p))
        dx/dt = rates(t, x, u, p, w),   y = results(t, x, u, p, w),   g = changes(x, u, p, w)

        static inline void NAME(const double *in, double *out)

    g are the switching functions. `stage_inputs`, `rates`, `changes` and `results` are NumPy
    functions and can be traced. NAME is the property `function`. The C function NAME reads the
    values of `stage_inputs` and writes `stage_size` values w. An integrator evaluates the C
    function in every stage, and a kernel calls it between the traced functions. In NumPy runs, the
    block calls a compiled library. The C function loops over tables, so its code size does not
    depend on the sizes of the tables.

    The block as a whole cannot be traced. `linearize` and methods that need an exact Jacobian
    reject the block. Methods with finite differences, such as the default method, support the
    block.
    """

    @property
    @abc.abstractmethod
    def stage_size(self) -> int:
        """Number of values w that the C function writes."""

    @abc.abstractmethod
    def stage_inputs(self, x: Record, u: Record, p: Record) -> Array:
        """Return the arguments (n,) of the C function."""

    @abc.abstractmethod
    def rates(self, t: Any, x: Record, u: Record, p: Record, w: Array) -> Values:
        """Return the state derivatives by name; w (stage_size,) are the C function's results."""

    @abc.abstractmethod
    def results(self, t: Any, x: Record, u: Record, p: Record, w: Array) -> Values:
        """Return the outputs by name; w (stage_size,) are the C function's results."""

    def changes(self, x: Record, u: Record, p: Record, w: Array) -> Array:
        """Return the switching functions (n,); w (stage_size,) are the C function's results."""
        del x, u, p, w
        return np.zeros(0)

    def derivative(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        return self.rates(t, x, u, p, self._call_stage(x, u, p))

    def switching_functions(self, x: Record, u: Record, p: Record) -> Array:
        return self.changes(x, u, p, self._call_stage(x, u, p))

    def output(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        return self.results(t, x, u, p, self._call_stage(x, u, p))

    def insert_stage_results(self, w: Array) -> "AfterStage":
        """Return a traceable variant of the block that uses w instead of the C function's results.

        w has the shape (stage_size,).
        """
        return AfterStage(self, w)

    def structure(self) -> Block:
        return _StageStructure(self)

    def _call_stage(self, x: Record, u: Record, p: Record) -> Array:
        numbers = self.stage_inputs(x, u, p)
        if is_traced(numbers):
            raise TypeError(
                f"{type(self).__name__} calls a C function, which cannot be traced; do not "
                "use the block in a fused system or in an FMU with other blocks, and choose a "
                "method without an exact Jacobian, for example method='adaptive or stiff'"
            )
        given, out = np.asarray(numbers, dtype=float), np.empty(self.stage_size)
        self._library.stage(address(given), address(out))
        return out

    @cached_property
    def _library(self) -> Any:
        body = (("const double *in, double *out"), f"{self.function}(in, out);")
        return library(self.written_text(), {"stage": body})


class AfterStage(Block):
    """Traceable variant of a `StagedBlock` with known results w of the C function.

    Args:
        block: Block with a C function.
        w: Results of the C function (stage_size,).
    """

    def __init__(self, block: StagedBlock, w: Array):
        self._block, self._w = block, w

    @property
    def inputs(self) -> tuple[Port, ...]:
        return self._block.inputs

    @property
    def outputs(self) -> tuple[Port, ...]:
        return self._block.outputs

    @property
    def states(self) -> tuple[Port, ...]:
        return self._block.states

    @property
    def parameters(self) -> tuple[Port, ...]:
        return self._block.parameters

    def _c_outputs(self, x: Record, u: Record, p: Record) -> Array:
        del x, u, p
        return self._w

    def derivative(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        return self._block.rates(t, x, u, p, self._c_outputs(x, u, p))

    def switching_functions(self, x: Record, u: Record, p: Record) -> Array:
        return self._block.changes(x, u, p, self._c_outputs(x, u, p))

    def output(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        return self._block.results(t, x, u, p, self._c_outputs(x, u, p))


class _StageStructure(AfterStage):
    """Variant of a `StagedBlock` for dependency analysis.

    In this variant, each result of the C function depends on all arguments.
    """

    def __init__(self, block: StagedBlock):
        super().__init__(block, np.zeros(0))

    def _c_outputs(self, x: Record, u: Record, p: Record) -> Array:
        whole = np.sum(self._block.stage_inputs(x, u, p))
        return np.full(self._block.stage_size, whole)


class PythonBlock(Block):
    """Block that calls an arbitrary Python function, which is not traced.

        y = function(t, u)        at the end of every step, or at each sample with a `sample_time`

    The function declares only the arguments that it uses: t [s] and the names of inputs. It
    receives floats and arrays. The function returns the outputs by name. For a block with one
    output, it may return only the value.

    In a run with the option `form` "numpy", "traced" or "compiled", the block calls the function
    through a callback. Fused runs, native FMUs and `linearize` reject the block, because it has no
    C code.

    The dependency analysis assumes direct feedthrough from every input to every output. Saved
    states do not include data that the function stores. At the start and at events, the block calls
    the function more than once per step.

    Args:
        function: Python function.
        inputs: Input ports.
        outputs: Output ports.
        sample_time: Sample time [s]; None: the function is called at the end of every step.

    Raises:
        TypeError: The function takes an argument that is not an input.
        ValueError: The block has no outputs.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        inputs: Iterable[Port] = (),
        outputs: Iterable[Port] = (),
        sample_time: float | None = None,
    ):
        self.function, self.sample_time = function, sample_time
        self._inputs, self._outputs = tuple(inputs), tuple(outputs)
        if not self._outputs:
            raise ValueError(f"the Python block of '{self.name}' needs at least one output")
        self._takes = self._accepted_arguments()

    @property
    def name(self) -> str:
        """Name of the Python function."""
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def _accepted_arguments(self) -> tuple[str, ...]:
        known = ("t", *(port.name for port in self._inputs))
        arguments = inspect.signature(self.function).parameters.values()
        if any(one.kind is one.VAR_KEYWORD for one in arguments):
            return known
        taken = tuple(
            one.name for one in arguments if one.default is one.empty or one.name in known
        )
        if unknown := [name for name in taken if name not in known]:
            raise TypeError(
                f"the Python block of '{self.name}' takes {', '.join(unknown)}, which "
                f"are not inputs; allowed arguments are: {', '.join(known)}"
            )
        return taken

    @property
    def inputs(self) -> tuple[Port, ...]:
        """Input ports of the block."""
        return self._inputs

    @property
    def outputs(self) -> tuple[Port, ...]:
        """Output ports of the block."""
        return self._outputs

    @property
    def sampled(self) -> tuple[Port, ...]:
        """Output ports if the block has a sample time, else no ports."""
        if self.sample_time is None:
            return ()
        return tuple(
            replace(port, start=port.clip(0.0) if port.start is None else port.start)
            for port in self._outputs
        )

    def update(self, t: Any, u: Record) -> Values:
        return {} if self.sample_time is None else self._call_function(t, u)

    def output(self, t: Any, u: Record) -> Values:
        return {} if self.sample_time is not None else self._call_function(t, u)

    def _call_function(self, t: Any, u: Record) -> Values:
        if is_traced(t, *vars(u).values()):
            raise TypeError(self.refusal())
        given = {"t": float(t)} | {name: _plain(value) for name, value in vars(u).items()}
        values = self.function(**{name: given[name] for name in self._takes})
        if isinstance(values, Mapping) or len(self._outputs) > 1:
            return values  # type: ignore[no-any-return]  # the caller checks the values
        (port,) = self._outputs
        return {port.name: np.asarray(values, dtype=float).reshape(np.shape(values))}

    def refusal(self) -> str:
        """Return the error message for a form of execution that requires C code, with a remedy."""
        return (
            f"'{self.name}' is a Python function that is not traced, so it has no C code: run it "
            "with form='numpy' or 'compiled'; for an FMU, build a separate Python FMU (a subclass "
            "of pythonfmu's Fmi2Slave, `pythonfmu build -f script.py`) and add that file as a part"
        )


def python_block(
    inputs: Iterable[Port] = (), outputs: Iterable[Port] = (), sample_time: float | None = None
) -> Callable[[Callable[..., Any]], PythonBlock]:
    """Return a decorator that converts a Python function to a `PythonBlock`.

    Args:
        inputs: Input ports.
        outputs: Output ports.
        sample_time: Sample time [s]; None: the function is called at the end of every step.
    """
    return lambda function: PythonBlock(function, inputs, outputs, sample_time)


def _plain(value: Any) -> Any:
    """Return a scalar as a float, and an array unchanged."""
    return float(value) if np.ndim(value) == 0 else value
