"""The constraints of loop joints and their changes as C: traced as a whole, for a loop concerns the
few joints along it, and what is not zero alone.
"""

from collections.abc import Iterable
from typing import NamedTuple

import casadi as ca
import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.loops.constraints import loop_constraints
from rigidblocks.model.configuration import displaced
from rigidblocks.model.model import Model
from rigidblocks.tracing.ccode import c_functions
from rigidblocks.tracing.notation import SCALAR, Notation
from rigidblocks.tracing.trace import Graph, Traced


class LoopRows(NamedTuple):
    """The C text that c/algorithms/closed_loops.h needs before it, and how many numbers this keeps
    at work.
    """

    text: str
    room: int


def loop_rows(model: Model, notation: Notation = SCALAR) -> LoopRows:
    """Of a model with loops K qdd = k and its position errors, and what a change of q and of qd
    makes of K qdd - k and of K^T lam at given qdd and lam.

    A constraint that no joint can violate, whatever the configuration, has no row. Raises
    ValueError where there is no other.
    """
    q, qd = ca.SX.sym("q", model.nq), ca.SX.sym("qd", model.nv)
    still = loop_constraints(model, _traced(q), _traced(qd))
    some = [c for c, row in enumerate(still.K) if any(isinstance(x, Traced) or x for x in row)]
    if not some:
        raise ValueError(
            f"no loop of model '{model.name}' constrains its joints; its derivatives are those of "
            "aba"
        )
    K, k, delta = (_matrix(part[some]) for part in still)
    rows = _graph("loop_rows", {"q": q, "qd": qd}, [*_nonzeros(K), k, delta])
    matrices, changes = _changes(model, q, qd, some)
    functions = c_functions([rows, changes], [{}, {}], inline=True, notation=notation)
    sparse = {"K": ca.sparsify(K)} | matrices
    counts = {f"{name}_COUNT": matrix.nnz() for name, matrix in sparse.items()}
    n, nc = model.nv, len(some)
    values = max(graph.function.numel_out(0) for graph in (rows, changes))
    sizes = {"NC": nc, "NQ": model.nq, **counts, "VALUES": values}
    sizes["LOOP_ROOM"] = nc * (4 * n + nc + 4) + values + model.nq + 2 * n  # of struct loops
    enum = ", ".join(f"RB_{name} = {size}" for name, size in sizes.items())
    head = f"#ifndef RB_LOOPS_H\n#define RB_LOOPS_H\n\n#include <math.h>\n\nenum {{ {enum} }};"
    tables = [_table(name, _places(matrix)) for name, matrix in sparse.items()]
    return LoopRows("\n".join([head, *tables, functions, "#endif\n"]), sizes["LOOP_ROOM"])


def _changes(model: Model, q: ca.SX, qd: ca.SX, some: list[int]) -> tuple[dict[str, ca.SX], Graph]:
    """E = d(K qdd - k) by q and by qd, and F = d(K^T lam) by q, of some of the constraints, and the
    function of (q, qd, qdd, lam) that gives what is not zero of them.
    """
    qdd, dq, lam = (
        ca.SX.sym(name, n) for name, n in (("qdd", model.nv), ("dq", model.nv), ("lam", len(some)))
    )
    moved = loop_constraints(model, displaced(model, _traced(q), _traced(dq)), _traced(qd))
    K, k = (_matrix(part[some]) for part in moved[:2])
    error = ca.mtimes(K, qdd) - k
    E = ca.horzcat(ca.jacobian(error, dq), ca.jacobian(error, qd))
    F = ca.jacobian(ca.mtimes(K.T, lam), dq)
    still = ca.SX.zeros(model.nv)
    found = {name: ca.sparsify(ca.substitute(one, dq, still)) for name, one in (("E", E), ("F", F))}
    values = [value for one in found.values() for value in _nonzeros(one)]
    return found, _graph("loop_changes", {"q": q, "qd": qd, "qdd": qdd, "lam": lam}, values)


def _traced(symbol: ca.SX) -> Array:
    elements = np.empty(symbol.numel(), dtype=object)
    elements[:] = [Traced(symbol[k]) for k in range(symbol.numel())]
    return elements


def _matrix(values: Array) -> ca.SX:
    """An array of traced values and floats, its exact zeros left out."""
    columns = values.reshape(len(values), -1)
    matrix = ca.SX(*columns.shape)
    for (row, column), value in np.ndenumerate(columns):
        if isinstance(value, Traced):
            matrix[row, column] = value.sx
        elif value:
            matrix[row, column] = float(value)
    return matrix


def _nonzeros(matrix: ca.SX) -> list[ca.SX]:
    sparse = ca.sparsify(matrix)
    return [sparse[at] for at in zip(*sparse.sparsity().get_triplet(), strict=True)]


def _graph(name: str, inputs: dict[str, ca.SX], values: list[ca.SX]) -> Graph:
    """The graph of all elements of these values."""
    flat = ca.cse(ca.densify(ca.vertcat(*values)))
    function = ca.Function(name, [ca.vertcat(*inputs.values())], [flat])
    shapes = {key: (symbol.numel(),) for key, symbol in inputs.items()}
    return Graph(name, shapes, {"values": (function.numel_out(0),)}, function)


def _places(matrix: ca.SX) -> list[int]:
    """Where in the matrix by rows what is not zero is, in CasADi's order."""
    rows, columns = matrix.sparsity().get_triplet()
    return [row * matrix.size2() + column for row, column in zip(rows, columns, strict=True)]


def _table(name: str, numbers: Iterable[int]) -> str:
    return f"static const int RB_{name}_AT[] = {{{', '.join(map(str, [*numbers, 0]))}}};"
