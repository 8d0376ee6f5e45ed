"""Functions of robot models and blocks for JAX and PyTorch, with exact derivatives.

A compiled function computes the values. Another compiled function of the same kind computes the
derivative in reverse mode, so derivatives of any order exist.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, reduce
from math import prod
from typing import Any

import numpy as np

from rigidblocks.block.block import Block
from rigidblocks.common.name_hints import explain_calls
from rigidblocks.common.optional_imports import module_of
from rigidblocks.kernels.casadi_functions import function_graph
from rigidblocks.robot.tree import Tree
from rigidblocks.spatial.spatial import Array
from rigidblocks.tracing.compiled_functions import CompiledBatch
from rigidblocks.tracing.trace import Graph, adjoint


class _Rows:
    """Compiled function that maps each row (n,) of an array (..., n) to a row (m,).

    Args:
        graph: Graph of the function.
    """

    def __init__(self, graph: Graph):
        function = graph.differentiable.function
        self.sizes = function.size1_in(0), function.size1_out(0)
        n, m = self.sizes
        self.graph = replace(graph, inputs={"x": (n,)}, outputs={"y": (m,)})

    @cached_property
    def _batch(self) -> CompiledBatch:
        return CompiledBatch(self.graph)

    @cached_property
    def adjoint(self) -> "_Rows":
        """Compiled function that maps x (n,) and l (m,) to J^T l (n,) with the Jacobian J at x."""
        return _Rows(adjoint(self.graph))

    def __call__(self, x: Array) -> Array:
        rows = np.ascontiguousarray(np.reshape(x, (-1, self.sizes[0])), dtype=float)
        values: Array = np.reshape(self._batch(rows), (*np.shape(x)[:-1], self.sizes[1]))
        return values.astype(np.asarray(x).dtype)


@explain_calls()
def jax_function(target: Tree | Block, function: str) -> Callable[..., Any]:
    """Return a JAX function of a robot model or a block, with exact derivatives in reverse mode.

        f = jax_function(model, "aba")
        jax.jit(jax.grad(lambda q: f(q, qd, tau).sum()))(q)

    `function` and the arguments are as in `casadi_function`. The function supports `jax.jit`,
    `jax.vmap`, `jax.grad` and `jax.vjp`, also nested, and arguments with leading axes (..., nq). It
    does not support derivatives in forward mode (`jax.jvp`). JAX calls the compiled function on the
    CPU, by `jax.pure_callback`. The function computes in doubles and returns the type of its
    arguments, with at least 32 bits. Integers have the default type of JAX.

    Args:
        target: Robot model, or block.
        function: Name of the function, such as "aba" or "derivative".

    Raises:
        ImportError: JAX is not installed.
        ValueError: As for `casadi_function`.
        TypeError: `target` is neither a model nor a block.
    """
    jax = module_of("jax", "jax_function")
    graph = function_graph(target, function)
    return _name_arguments(graph, jax.numpy, _jax_rows(jax, _Rows(graph)), "axis")


def _jax_rows(jax: Any, rows: _Rows) -> Callable[[Any], Any]:
    """Return the JAX function (..., n) -> (..., m) of a compiled function."""
    followed: list[Callable[[Any], Any]] = []  # the function of the adjoint, made at its first use

    @jax.custom_vjp  # type: ignore[untyped-decorator]
    def evaluate(x: Any) -> Any:
        result = jax.ShapeDtypeStruct((*x.shape[:-1], rows.sizes[1]), x.dtype)
        return jax.pure_callback(
            lambda values: rows(np.asarray(values)), result, x, vmap_method="broadcast_all"
        )

    def backward(x: Any, multipliers: Any) -> tuple[Any]:
        if not followed:
            followed.append(_jax_rows(jax, rows.adjoint))
        return (followed[0](jax.numpy.concatenate([x, multipliers], -1)),)

    evaluate.defvjp(lambda x: (evaluate(x), x), backward)
    return evaluate  # type: ignore[no-any-return]


@explain_calls()
def torch_function(target: Tree | Block, function: str) -> Callable[..., Any]:
    """Return a PyTorch function of a robot model or a block, with exact derivatives.

        f = torch_function(model, "aba")
        f(q, qd, tau).sum().backward()

    `function` and the arguments are as in `casadi_function`. The arguments may have leading axes
    (..., nq), which are broadcast. The function computes in doubles on the CPU and returns the type
    of its arguments, with at least 32 bits. Its derivatives are differentiable
    (`create_graph=True`). It does not support `torch.func` and `torch.vmap`.

    Args:
        target: Robot model, or block.
        function: Name of the function, such as "aba" or "derivative".

    Raises:
        ImportError: PyTorch is not installed.
        ValueError: As for `casadi_function`.
        TypeError: `target` is neither a model nor a block.
    """
    torch = module_of("torch", "torch_function")
    graph = function_graph(target, function)
    return _name_arguments(graph, torch, _torch_rows(torch, _Rows(graph)), "dim")


def _torch_rows(torch: Any, rows: _Rows) -> Callable[[Any], Any]:
    """Return the PyTorch function (..., n) -> (..., m) of a compiled function."""
    followed: list[Callable[[Any], Any]] = []  # the function of the adjoint, made at its first use

    class Rows(torch.autograd.Function):
        """Compiled function with its adjoint."""

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            """Return the values, and save the arguments for the adjoint."""
            ctx.save_for_backward(x)
            values = rows(x.detach().cpu().numpy())
            return torch.from_numpy(values).to(x.device)

        @staticmethod
        def backward(ctx: Any, multipliers: Any) -> Any:
            """Return J^T l for the multipliers l, with the Jacobian J at the saved arguments."""
            (x,) = ctx.saved_tensors
            if not followed:
                followed.append(_torch_rows(torch, rows.adjoint))
            return followed[0](torch.cat([x, multipliers], dim=-1))

    return Rows.apply  # type: ignore[no-any-return]


def _name_arguments(
    graph: Graph, numpy: Any, evaluate: Callable[[Any], Any], axis: str
) -> Callable[..., Any]:
    """Return a function of the inputs of a graph that calls `evaluate` with the flat vector.

    Args:
        graph: Graph with one output.
        numpy: Module with the array functions: jax.numpy or torch.
        evaluate: Function (..., n) -> (..., m).
        axis: Name of the argument of `concatenate` for the axis.
    """
    shapes = dict(graph.inputs)
    (shape_out,) = graph.outputs.values()

    def call(*values: Any) -> Any:
        if len(values) != len(shapes):
            raise TypeError(
                f"{graph.name} takes {len(shapes)} arguments ({', '.join(shapes)}), not "
                f"{len(values)}"
            )
        leading, flat = [], []
        for (name, shape), value in zip(shapes.items(), values, strict=True):
            array = value if hasattr(value, "requires_grad") else numpy.asarray(value)
            cut = len(array.shape) - len(shape)
            if cut < 0 or tuple(array.shape[cut:]) != shape:
                raise ValueError(
                    f"the argument {name} of {graph.name} has the shape {tuple(array.shape)}; "
                    f"expected (..., {', '.join(map(str, shape))})"
                )
            leading.append(tuple(array.shape[:cut]))
            flat.append(array.reshape((*leading[-1], prod(shape))))
        common = np.broadcast_shapes(*leading)
        flat = [numpy.broadcast_to(one, (*common, one.shape[-1])) for one in flat]
        if not_real := [
            n for n, one in zip(shapes, flat, strict=True) if "complex" in str(one.dtype)
        ]:
            raise ValueError(
                f"the argument {not_real[0]} of {graph.name} is complex; expected real numbers"
            )
        kind = _common_type(numpy, flat)
        joined = numpy.concatenate([_cast(one, kind) for one in flat], **{axis: -1})
        return evaluate(joined).reshape((*common, *shape_out))

    call.__name__ = call.__qualname__ = graph.name
    return call


def _common_type(numpy: Any, arrays: list[Any]) -> Any:
    """Return the common floating-point type of at least 32 bits; integers have the default type."""
    kinds = [one.dtype for one in arrays if "float" in str(one.dtype)]
    return reduce(numpy.promote_types, kinds, numpy.float32) if kinds else numpy.zeros(()).dtype


def _cast(array: Any, kind: Any) -> Any:
    return array.astype(kind) if hasattr(array, "astype") else array.to(kind)
