"""Compiled functions of many arguments at once, in lanes and in threads."""

import ctypes
from collections.abc import Iterable
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.tracing.ccode import c_function, c_text
from rigidblocks.tracing.compiler import shared_library
from rigidblocks.tracing.lanes import in_threads, lane_count, lane_flags, room
from rigidblocks.tracing.notation import IN_LANES
from rigidblocks.tracing.trace import Graph, Shapes
from rigidblocks.tracing.written import WrittenFunction

_C = ("lanes.h", "sine.h", "rows.h")
_FEWEST, _MOST = 256, 1024  # rows that threads are worth it for, and of one call in a thread
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
    """A traced function as compiled C of many arguments: `f(q, qd, tau)` of arrays (n, ...), n
    being the same for all, returns arrays (n, ...).

    It takes `lanes` of them at once, 2, 4 or 8, by default as many as the processor has operations
    for, and divides them among threads. The numbers are the same to the last bit whatever the
    lanes and threads, and those of `CompiledFunction` to rounding: sine and cosine are the
    library's own (c/lanes/sine.h), within 1 ulp; all other functions are those of the C library. A
    row that is not finite has no effect on the others. Any number of threads may call one.
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
        self._batch = lane_library("batch", {"function.h": text}, self.lanes).batch
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
        """The outputs of these inputs, in the order of `inputs`: one array (n, ...), or a tuple of
        them.

        C-contiguous arrays of doubles are read where they are, anything else that NumPy converts
        to doubles without loss is copied first. `threads` is how many work at once, by default one
        for each processor, where there are rows enough. Raises ValueError for another number of
        inputs, or one of another shape, and TypeError for numbers that are not real.
        """
        arrays = [self._array(k, value) for k, value in enumerate(values)]
        n = self._rows(arrays)
        results = [np.empty((n, *shape)) for shape in self.outputs.values()]
        places = _addresses(arrays), _addresses(results)

        def work(first: int, last: int) -> None:
            own = room(self._room, self.lanes)
            self._batch(*places, first, last, own.ctypes.data)

        alone = threads == 1 or n <= _FEWEST
        in_threads(work, n, 1 if alone else threads, n if alone else _MOST)
        return results[0] if len(results) == 1 else tuple(results)

    def _array(self, k: int, value: Any) -> Array:
        given = np.asarray(value)
        if not np.can_cast(given.dtype, float) or given.dtype == bool:
            name = list(self.inputs)[k] if k < len(self.inputs) else f"argument {k + 1}"
            raise TypeError(
                f"{self.graph.name}: {name} has elements of type {given.dtype}; they must be real "
                "numbers that a double holds"
            )
        return np.ascontiguousarray(given, dtype=float)

    def _rows(self, arrays: list[Array]) -> int:
        """How many rows there are; raises ValueError where the shapes do not fit."""
        needed = list(self.inputs.values())
        n = arrays[0].shape[0] if arrays and arrays[0].ndim else 0
        if [array.shape for array in arrays] != [(n, *shape) for shape in needed]:
            given = ", ".join(str(array.shape) for array in arrays)
            wanted = ", ".join(
                f"{name} {('n', *shape)}".replace("'", "") for name, shape in self.inputs.items()
            )
            raise ValueError(f"{self.graph.name} was given shapes {given}; it needs {wanted}")
        return n


def lane_library(name: str, generated: dict[str, str], lanes: int) -> ctypes.CDLL:
    """The library of a file of c/lanes and the headers that are generated for it."""
    sources = {file: c_text(f"lanes/{file}") for file in (*_C, f"{name}.c")}
    path = shared_library(sources | generated, f"{name}.c", lane_flags(lanes))
    return ctypes.CDLL(str(path))


def in_header(name: str, text: str) -> str:
    """The text of a generated header."""
    guard = f"RB_{name.upper()}_H"
    return f'#ifndef {guard}\n#define {guard}\n\n#include "sine.h"\n\n{text}\n#endif\n'


def function_header(graph: Graph | WrittenFunction) -> tuple[str, int]:
    """The text of function.h, which c/lanes/batch.c wants, and how many numbers `evaluate` needs
    room for.
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
    return in_header("function", text + evaluate), size


def _numbers(shapes: Iterable[tuple[int, ...]]) -> int:
    return sum(map(prod, shapes))


def _calls(call: str, shapes: Shapes) -> str:
    """The text of a macro: a call for each array with its number, its size and its place."""
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
