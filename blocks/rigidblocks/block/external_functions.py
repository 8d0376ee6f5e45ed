"""Blocks with a part that is written in C, with loops over tables, not traced: their sample."""

import abc
import ctypes
from collections.abc import Mapping
from functools import cached_property
from importlib.resources import files
from typing import Any

import numpy as np

from rigidblocks.algebra.scalar import is_traced
from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Block
from rigidblocks.block.memory import Memory
from rigidblocks.block.record import Record, Values


class BlockInC(Block):
    """A block of which a part is a function in C, over tables of what is particular to the block:
    the same text in all forms.
    """

    @property
    @abc.abstractmethod
    def function(self) -> str:
        """The name of the function."""

    @property
    @abc.abstractmethod
    def tables(self) -> str:
        """C text of what is particular to this block, before `headers`."""

    @property
    @abc.abstractmethod
    def headers(self) -> tuple[str, ...]:
        """The C files with the function, by their paths in the folder `c`, each after those that it
        uses.
        """

    @abc.abstractmethod
    def structure(self) -> Block:
        """A block with the same ports that can be traced, in which whatever goes through the C
        depends on all that this gets; its values mean nothing.
        """

    def written_text(self) -> str:
        """The C of the function, all in one text."""
        parts = (files("rigidblocks").joinpath("c", path).read_text() for path in self.headers)
        lines = "".join(parts).splitlines()
        kept = (line for line in lines if not line.startswith('#include "'))
        return "\n".join((self.tables, *kept, ""))


class WrittenBlock(BlockInC):
    """A sampled block whose `update` is a function in C, the same one in all forms.

        static inline void NAME(const double *state, const double *ARGUMENT, ..., double *out)

    It gets the sampled states one after the other, the `arguments`, which are inputs and
    parameters, and writes the sampled states. In NumPy it is called in a library that is compiled
    when it is first needed; a kernel and a native FMU have its text in theirs. So its code does not
    grow as a trace would, but it cannot be part of another trace: `linearize` refuses it, a fused
    system calls it. It is the step of a plant from the sample before, over which the inputs are
    held: no output reads an input at once unless it `reads_at_once`, and every output is taken to
    depend on every state.
    """

    @property
    def start_function(self) -> str | None:
        """The name of one with the same arguments that writes the sampled states at the start of a
        run over those that are there; None where nothing is to be computed.
        """
        return None

    @property
    def reads_at_once(self) -> bool:
        """Whether the sampled states depend on the inputs at the sample instant: those of a sensor,
        not those of a plant.
        """
        return False

    @property
    @abc.abstractmethod
    def arguments(self) -> tuple[str, ...]:
        """The names of the inputs and parameters that it gets, in order."""

    def update_text(self, memory: Memory) -> str:
        """The C of `initial` and `update` on the flat memory, after `written_text`; parameters that
        are not in the memory are constants.
        """
        start = {port.name: port.start for port in (*self.inputs, *self.parameters)}
        lines, given = list[str](), list[str]()
        for name in self.arguments:
            if name in memory.where:
                given.append(f"in + {memory.where[name].start}")
            else:
                numbers = np.ravel(np.asarray(start[name], dtype=float))
                text = ", ".join(repr(float(number)) for number in numbers)
                lines.append(f"    static const double {name}[] = {{{text}}};")
                given.append(name)
        arguments = ", ".join(("in + RB_Z", *given, "out"))
        size = sum(port.size for port in self.sampled)
        copy = f"    memcpy(out, in + RB_Z, {size} * sizeof *out);"  # the states as they are
        head = "static inline void {}(const double *in, double *out)\n{{"
        begin = [f"    {self.start_function}({arguments});"] if self.start_function else []
        initial = (head.format("initial"), *(lines if begin else []), copy, *begin, "}")
        update = (head.format("update"), *lines, f"    {self.function}({arguments});", "}")
        return "\n".join((*initial, *update, ""))

    @cached_property
    def _library(self) -> Any:
        """The function as a library."""
        given = ", ".join(f"const double *{name}" for name in ("state", *self.arguments))
        names = ", ".join(("state", *self.arguments, "out"))
        exported = {
            name: (f"{given}, double *out", f"{function}({names});")
            for name, function in (("written", self.function), ("started", self.start_function))
            if function
        }
        return library(self.written_text(), exported)

    def update(self, x: Record, u: Record, p: Record) -> Values:
        if is_traced(*vars(x).values(), *vars(u).values(), *vars(p).values()):
            raise TypeError(
                f"the sample of {type(self).__name__} is written in C and cannot be traced: it "
                "runs in simulations and FMUs, alone and in systems"
            )
        return self._called("written", x, u, p)

    def initial(self, x: Record, u: Record, p: Record) -> Values:
        """The states as they are, for nothing has moved, with what is computed at the start."""
        if self.start_function:
            return self._called("started", x, u, p)
        return {port.name: getattr(x, port.name) for port in self.sampled}

    def _called(self, name: str, x: Record, u: Record, p: Record) -> Values:
        """The sampled states that a function of the library writes over those that are there."""
        state = np.concatenate([np.ravel(getattr(x, port.name)) for port in self.sampled])
        numbers = {**vars(p), **vars(u)}
        given = [np.ravel(np.asarray(numbers[name], dtype=float)) for name in self.arguments]
        state = state.astype(float)
        out, k, values = state.copy(), 0, {}
        arrays = (state, *given, out)  # kept as long as their addresses are in use
        getattr(self._library, name)(*map(address, arrays))
        for port in self.sampled:
            values[port.name] = out[k : (k := k + port.size)].reshape(port.shape)
        return values

    def structure(self) -> Block:
        """A block with the same ports that can be traced, and in which everything depends on all
        states and parameters.
        """
        return _Structure(self)


class _Structure(Block):
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
    """A library of C text with functions, by name their arguments and the statements in them."""
    # a packaged block runs its kernel, and needs no compiler
    from rigidblocks.tracing.compiler import shared_library

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
    """Where the numbers of an array are, for a function in C."""
    return ctypes.c_void_p(array.ctypes.data)
