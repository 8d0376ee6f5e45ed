"""Compiled functions: a NumPy function traced to C and called from Python."""

import ctypes
from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import Any

import numpy as np

from rigidblocks.ccode import c_function
from rigidblocks.compile import shared_library
from rigidblocks.spatial import Array
from rigidblocks.trace import Graph, Shapes, trace

_EXPORT = """
#if defined(_WIN32)
__declspec(dllexport)
#else
__attribute__((visibility("default")))
#endif
void call(const double *in, double *out);

void call(const double *in, double *out)
{{
    {name}(in, out);
}}
"""


class CompiledFunction:
    """A traced function as compiled C, with buffers of its own: `f(q, qd, tau)`.

    For the least overhead write into `inputs["q"]`, call `run()`, and read `outputs["qdd"]`: arrays of the declared
    shapes that stay the same. One such function serves one thread.
    """

    def __init__(self, graph: Graph):
        self.graph = graph
        text = "#include <math.h>\n" + c_function(graph) + _EXPORT.format(name=graph.name)
        library = ctypes.CDLL(str(shared_library({"function.c": text}, "function.c")))
        self.inputs, inputs = _buffer(graph.inputs)
        self.outputs, outputs = _buffer(graph.outputs)
        self.run: Callable[[], Any] = partial(
            library.call, *(ctypes.c_void_p(flat.ctypes.data) for flat in (inputs, outputs))
        )
        self.run.func.restype = None  # type: ignore[attr-defined]  # it is a partial

    def __call__(self, *values: Any) -> Any:
        """The outputs of these inputs, in the order of `graph.inputs`: one array, or a tuple of them.

        Raises ValueError for another number of inputs, or one of another shape.
        """
        if len(values) != len(self.inputs) or any(
            np.shape(value) != buffer.shape for value, buffer in zip(values, self.inputs.values(), strict=False)
        ):
            given = ", ".join(str(np.shape(value)) for value in values)
            raise ValueError(f"{self.graph.name} was given shapes {given}; it needs {self.graph.inputs}")
        for buffer, value in zip(self.inputs.values(), values, strict=True):
            buffer[...] = value
        self.run()
        results = tuple(buffer.copy() for buffer in self.outputs.values())
        return results[0] if len(results) == 1 else results


def compiled(name: str, function: Callable[..., Mapping[str, Array]], inputs: Shapes) -> CompiledFunction:
    """`function`, which takes `inputs` by position and returns its outputs by name, traced and compiled to C.

    Raises TraceError where it branches on a traced value, and CompilerError without a C compiler.
    """
    return CompiledFunction(trace(name, function, inputs))


def _buffer(shapes: Shapes) -> tuple[dict[str, Array], Array]:
    """Arrays of these shapes by name, and the flat array that they are parts of."""
    flat = np.zeros(sum(prod(shape) for shape in shapes.values()))
    parts, k = {}, 0
    for name, shape in shapes.items():
        parts[name] = flat[k : k + prod(shape)].reshape(shape)
        k += prod(shape)
    return parts, flat
