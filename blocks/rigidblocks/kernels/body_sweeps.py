"""C of an algorithm as sweeps over the bodies of a model that call the leaf functions of their
types.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import accumulate

import numpy as np

from rigidblocks.joint import Joint
from rigidblocks.joint.subspace import subspace_rate
from rigidblocks.kernels.columns import MATRICES
from rigidblocks.kernels.leaves import (
    ALGORITHMS,
    ROWS_IN_PLANE,
    Algorithm,
    BodyType,
    body_numbers,
    body_types,
    traced_body,
)
from rigidblocks.kernels.loop_rows import LoopRows
from rigidblocks.kernels.second_columns import TENSORS
from rigidblocks.kernels.structure import structure_header
from rigidblocks.model.model import Model
from rigidblocks.tracing.ccode import c_number, c_text
from rigidblocks.tracing.notation import SCALAR, Notation
from rigidblocks.tracing.trace import Shapes
from rigidblocks.tracing.written import WrittenFunction


def body_sweeps(
    model: Model,
    name: str,
    notation: Notation = SCALAR,
    loops: LoopRows | None = None,
    in_plane: bool = False,
) -> WrittenFunction:
    """The algorithm `name` for a model of any size, in C that does not grow with it but for its
    data: "aba", "rnea", "crba", or the derivatives "daba" and "drnea"; with the rows of `loops`,
    whose C grows with their number, "dclosed". Where the model moves `in_plane`, parallel to z = 0,
    those of "daba" and "drnea" have vectors of three elements.
    """
    n, own, algorithm = model.nv, _moving_variables(model), (ALGORITHMS | MATRICES | TENSORS)[name]
    if "own" in algorithm.columns:
        algorithm = replace(algorithm, columns={**algorithm.columns, "own": own})
    if in_plane:
        rows = {key: len(ROWS_IN_PLANE.get(key, ())) for key in algorithm.columns}
        algorithm = replace(algorithm, columns=rows, in_plane=True)
    place, types = body_types(model)
    bodies = [traced_body(model, i, pattern, algorithm, notation) for i, pattern in types]
    text = [structure_header(model, own, in_plane)] if algorithm.columns else []
    text += [loops.text] if loops else []
    text += map(c_text, algorithm.texts)
    text += _tables(model, place, [pattern for _, pattern in types])
    text += [leaf for k, body in enumerate(bodies) for leaf in _leaves(name, k, body)]
    cells = max(body.cells for body in bodies)  # as the leaves have made it
    text += _body(model, algorithm, name, bodies, cells, notation)
    work = model.nb * cells + n * (sum(algorithm.columns.values()) + algorithm.scratch * n)
    shapes = _shapes(model, algorithm)
    work += loops.room if loops else 0
    wide = bool(algorithm.matrices)
    count = sum(bodies[k].operations for k in place)
    return WrittenFunction(name, *shapes, "\n".join([*text, "}\n"]), work, wide, count)


def _shapes(model: Model, algorithm: Algorithm) -> tuple[Shapes, Shapes]:
    """Those of the inputs and the outputs."""
    inputs = {key: (model.nq if key == "q" else model.nv,) for key in algorithm.inputs}
    outputs: dict[str, tuple[int, ...]] = {}
    if algorithm.output:
        outputs[algorithm.output] = (model.nv,)
    outputs |= dict.fromkeys(algorithm.matrices, (model.nv,) * 2)
    return inputs, outputs | dict.fromkeys(algorithm.tensors, (model.nv,) * 3)


def _moving_variables(model: Model) -> int:
    """The most variables of a joint where S of some joint changes with its position, else 0."""
    return max(j.nv for j in model.joint) if any(map(_moves_subspace, model.joint)) else 0


def _moves_subspace(joint: Joint) -> bool:
    q = joint.neutral() + 0.5
    return any(np.any(subspace_rate(joint, q, unit)) for unit in np.eye(joint.nv))


def _leaves(name: str, number: int, body: BodyType) -> Iterator[str]:
    """The C functions of the passes at bodies of this type, in order."""
    for k, step in enumerate(body.algorithm.passes):
        head = f"static void {name}_{k}_{number}({_parameters(body.algorithm, body.notation.real)})"
        yield f"{head}\n{{\n{body.leaf(step)}\n}}\n"


def _parameters(algorithm: Algorithm, real: str) -> str:
    inputs = "".join(f", const {real} *{name}" for name in algorithm.inputs)
    output = f", {real} *{algorithm.output}" if algorithm.output else ""
    columns = f", {real} *m" if algorithm.columns else ""
    return f"const double *k, {real} *w, {real} *p{inputs}{output}{columns}"


def _tables(model: Model, place: list[int], patterns: list[np.ndarray]) -> Iterator[str]:
    """The numbers of the bodies that their types leave open, and where each body has its own."""
    open_numbers = [body_numbers(model, i)[np.isnan(patterns[k])] for i, k in enumerate(place)]
    starts = list(accumulate(map(len, open_numbers), initial=0))[:-1]
    yield _table("double", "K", map(c_number, np.concatenate([*open_numbers, [0.0]])))
    parents = [max(p, 0) for p in model.parent]  # of those on the base nothing is read
    variables = [s.start for s in model.q_slices], [s.start for s in model.v_slices]
    for name, column in zip(
        ("PARENT", "TYPE", "K_AT", "Q_AT", "V_AT"),
        (parents, place, starts, *variables),
        strict=True,
    ):
        yield _table("int", name, map(str, column))


def _table(kind: str, name: str, values: Iterable[str]) -> str:
    return f"static const {kind} {name}[] = {{{', '.join(values)}}};"


def _body(
    model: Model,
    algorithm: Algorithm,
    name: str,
    types: list[BodyType],
    cells: int,
    notation: Notation,
) -> Iterator[str]:
    """The function, but for its end: a sweep for each pass, outward or inward."""
    real, nb = notation.real, model.nb
    yield f"\nstatic void {name}(const {real} *in, {real} *cells, {real} *out)\n{{"
    yield from _places(model, algorithm, nb * cells, real)
    names = (*algorithm.inputs, algorithm.output, "m" if algorithm.columns else "")
    at = [f"{key} + {'Q_AT' if key == 'q' else 'V_AT'}[i]" for key in names if key]
    of_body = "K + K_AT[i]", f"cells + i * {cells}", f"cells + PARENT[i] * {cells}"
    arguments = ", ".join((*of_body, *at))
    for k, step in enumerate(algorithm.passes):
        sweep = f"i = 0; i < {nb}; i++" if step.outward else f"i = {nb - 1}; i >= 0; i--"
        yield f"    for (int {sweep})\n        switch (TYPE[i]) {{"
        for number in range(len(types)):
            label = f"case {number}:" if number < len(types) - 1 else "default:"
            call = f"{name}_{k}_{number}({arguments});"
            yield f"        {label}\n            {call}\n            break;"
        yield "        }"
        if step.after:
            yield f"    {step.after.format(cells=cells, f=types[0].offsets.get('f'))}"


def _places(model: Model, algorithm: Algorithm, columns: int, real: str) -> Iterator[str]:
    """Where the inputs, the output, the columns behind the cells, and room for matrices are."""
    start = 0
    for key in algorithm.inputs:
        yield f"    const {real} *{key} = in + {start};"
        start += model.nq if key == "q" else model.nv
    if algorithm.output:
        yield f"    {real} *{algorithm.output} = out;"
    if algorithm.columns:
        yield f"    {real} *m = cells + {columns};"
    if algorithm.scratch:
        yield f"    {real} *work = m + {sum(algorithm.columns.values()) * model.nv};"
