"""Compiled functions: a NumPy function traced to C and called from Python."""

import ctypes
from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import Any, Literal, overload

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.tracing.batch import CompiledBatch
from rigidblocks.tracing.ccode import c_function
from rigidblocks.tracing.compiler import PORTABLE_FLAGS, shared_library, straight_line_compiler
from rigidblocks.tracing.lanes import wide_flags
from rigidblocks.tracing.trace import Graph, Shapes, trace
from rigidblocks.tracing.written import WrittenFunction

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


class CompiledFunction:
    """A traced function as compiled C, with buffers of its own: `f(q, qd, tau)`.

    For the least overhead write into `inputs["q"]`, call `run()`, and read `outputs["qdd"]`: arrays
    of the declared shapes that stay the same. One such function serves one thread.
    """

    def __init__(self, graph: Graph | WrittenFunction):
        self.graph = graph
        text, size = _source(graph)
        wide = isinstance(graph, WrittenFunction) and graph.wide
        flags = (*PORTABLE_FLAGS, *wide_flags()) if wide else PORTABLE_FLAGS
        command = None if isinstance(graph, WrittenFunction) else straight_line_compiler()
        path = shared_library({"function.c": text}, "function.c", flags, command)
        library = ctypes.CDLL(str(path))
        self.inputs, inputs = _buffer(graph.inputs)
        self._shapes = [buffer.shape for buffer in self.inputs.values()]
        self.outputs, outputs = _buffer(graph.outputs)
        buffers = (inputs, np.zeros(size), outputs)
        self._buffers = buffers  # the addresses are in use as long as the function is
        self.run: Callable[[], Any] = partial(
            library.call, *(ctypes.c_void_p(flat.ctypes.data) for flat in buffers)
        )
        self.run.func.restype = None  # type: ignore[attr-defined]  # it is a partial

    def __call__(self, *values: Any) -> Any:
        """The outputs of these inputs, in the order of `graph.inputs`: one array, or a tuple of
        them.

        Raises ValueError for another number of inputs, or one of another shape.
        """
        shapes = [
            value.shape if isinstance(value, np.ndarray) else np.shape(value) for value in values
        ]
        if shapes != self._shapes:
            given = ", ".join(map(str, shapes))
            raise ValueError(
                f"{self.graph.name} was given shapes {given}; it needs {self.graph.inputs}"
            )
        for buffer, value in zip(self.inputs.values(), values, strict=False):  # as many as shapes
            buffer[...] = value
        self.run()
        results = [buffer.copy() for buffer in self.outputs.values()]
        return results[0] if len(results) == 1 else tuple(results)


def compiled_form(
    graph: Graph | WrittenFunction,
    batch: bool,
    lanes: int | None = None,
) -> CompiledFunction | CompiledBatch:
    """A function compiled for one argument or, in lanes, for many."""
    if batch:
        return CompiledBatch(graph, lanes=lanes)
    if lanes is not None:
        raise ValueError(f"lanes = {lanes} are those of a batch; take batch=True")
    return CompiledFunction(graph)


@overload
def compiled(
    name: str, function: Callable[..., Mapping[str, Array]], inputs: Shapes
) -> CompiledFunction: ...


@overload
def compiled(
    name: str,
    function: Callable[..., Mapping[str, Array]],
    inputs: Shapes,
    *,
    batch: Literal[True],
    lanes: int | None = None,
) -> CompiledBatch: ...


def compiled(
    name: str,
    function: Callable[..., Mapping[str, Array]],
    inputs: Shapes,
    *,
    batch: bool = False,
    lanes: int | None = None,
) -> CompiledFunction | CompiledBatch:
    """`function`, which takes `inputs` by position and returns its outputs by name, traced and
    compiled to C; a `batch` takes arrays (n, ...) of them in `lanes` and threads.

    Raises TraceError where it branches on a traced value, and CompilerError without a C compiler.
    """
    return compiled_form(trace(name, function, inputs), batch, lanes)


def _source(graph: Graph | WrittenFunction) -> tuple[str, int]:
    """The C text, and how many numbers `work` has."""
    if isinstance(graph, WrittenFunction):
        text, body, size = graph.text, f"{graph.name}(in, work, out);", graph.work
    else:
        text, body, size = c_function(graph), f"(void)work;\n    {graph.name}(in, out);", 0
    return "#include <math.h>\n" + text + _EXPORT.format(body=body), size


def _buffer(shapes: Shapes) -> tuple[dict[str, Array], Array]:
    """Arrays of these shapes by name, and the flat array that they are parts of."""
    flat = np.zeros(sum(prod(shape) for shape in shapes.values()))
    parts, k = {}, 0
    for name, shape in shapes.items():
        parts[name] = flat[k : k + prod(shape)].reshape(shape)
        k += prod(shape)
    return parts, flat
