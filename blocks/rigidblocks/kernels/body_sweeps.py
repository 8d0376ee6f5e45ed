"""C of an algorithm as sweeps over the bodies of a model that call the leaf functions of their
types.
"""

from collections.abc import Iterable, Iterator
from itertools import accumulate

import numpy as np

from rigidblocks.dynamics.sweeps import minus_gravity
from rigidblocks.kernels.leaves import (
    ALGORITHMS,
    Algorithm,
    BodyType,
    body_numbers,
    body_types,
    traced_body,
)
from rigidblocks.model.model import Model
from rigidblocks.tracing.ccode import c_number
from rigidblocks.tracing.notation import SCALAR, Notation
from rigidblocks.tracing.written import WrittenFunction


def body_sweeps(model: Model, name: str, notation: Notation = SCALAR) -> WrittenFunction:
    """The algorithm `name` ("aba" or "rnea") for a model of any size, in C that does not grow with
    it but for its data.
    """
    algorithm = ALGORITHMS[name]
    place, types = body_types(model)
    bodies = [traced_body(model, i, pattern, algorithm, notation) for i, pattern in types]
    leaves = [leaf for k, body in enumerate(bodies) for leaf in _leaves(name, k, body)]
    cells = max(body.cells for body in bodies)  # as the leaves have made it
    shapes = {
        key: (model.nq if key == "q" else model.nv,)
        for key in (*algorithm.inputs, algorithm.output)
    }
    output = {algorithm.output: shapes.pop(algorithm.output)}
    base, a = np.zeros(cells), bodies[0].offsets["a"]
    base[a : a + 6] = minus_gravity(model, None)
    tables = _tables(model, place, [pattern for _, pattern in types], base)
    real = notation.real
    head = f"\nstatic void {name}(const {real} *in, {real} *cells, {real} *out)\n{{"
    body = _body(model, algorithm, name, len(types), cells, notation)
    text = "\n".join([*tables, *leaves, head, *body, "}\n"])
    return WrittenFunction(name, shapes, output, text, (model.nb + 1) * cells)


def _leaves(name: str, number: int, body: BodyType) -> Iterator[str]:
    """The C functions of the passes at bodies of this type, in order."""
    for k, step in enumerate(body.algorithm.passes):
        head = f"static void {name}_{k}_{number}({_parameters(body.algorithm, body.notation.real)})"
        yield f"{head}\n{{\n{body.leaf(step)}\n}}\n"


def _parameters(algorithm: Algorithm, real: str) -> str:
    inputs = ", ".join(f"const {real} *{name}" for name in algorithm.inputs)
    return f"const double *k, {real} *w, {real} *p, {inputs}, {real} *{algorithm.output}"


def _tables(
    model: Model, place: list[int], patterns: list[np.ndarray], base: np.ndarray
) -> Iterator[str]:
    """The numbers of the bodies that their types leave open, and where each body has its own."""
    open_numbers = [body_numbers(model, i)[np.isnan(patterns[k])] for i, k in enumerate(place)]
    starts = list(accumulate(map(len, open_numbers), initial=0))[:-1]
    yield _table("double", "K", map(c_number, np.concatenate([*open_numbers, [0.0]])))
    yield _table("double", "BASE", map(c_number, base))
    parents = [p if p >= 0 else model.nb for p in model.parent]
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
    model: Model, algorithm: Algorithm, name: str, types: int, cells: int, notation: Notation
) -> Iterator[str]:
    """The sweeps: one for each pass, outward or inward."""
    start, real = 0, notation.real
    for key in algorithm.inputs:
        yield f"    const {real} *{key} = in + {start};"
        start += model.nq if key == "q" else model.nv
    yield f"    {real} *{algorithm.output} = out, *base = cells + {model.nb * cells};"
    of_base = notation.number("BASE[j]")
    yield f"    for (int j = 0; j < {cells}; j++)\n        base[j] = {of_base};"
    at = ", ".join(
        f"{key} + {'Q_AT' if key == 'q' else 'V_AT'}[i]"
        for key in (*algorithm.inputs, algorithm.output)
    )
    arguments = f"K + K_AT[i], cells + i * {cells}, cells + PARENT[i] * {cells}, {at}"
    for k, step in enumerate(algorithm.passes):
        sweep = (
            f"i = 0; i < {model.nb}; i++" if step.outward else f"i = {model.nb - 1}; i >= 0; i--"
        )
        yield f"    for (int {sweep})\n        switch (TYPE[i]) {{"
        for number in range(types):
            label = f"case {number}:" if number < types - 1 else "default:"
            yield (
                f"        {label}\n            {name}_{k}_{number}({arguments});\n            "
                "break;"
            )
        yield "        }"
