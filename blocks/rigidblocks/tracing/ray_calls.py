"""Casting of rays in expression graphs and in C code.

One call in the graph casts all rays of a sensor to the shapes of one body. The C code contains the
shapes as tables (`c/algorithms/ray_casting.h`).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import casadi as ca
import numpy as np

from rigidblocks.spatial.spatial import Array
from rigidblocks.tracing.c_notation import IN_LANES, Assignment, Notation
from rigidblocks.tracing.matrix_products import call_assignment

INPUTS = 12  # position (3) and rotation matrix (9)
HIT = 7  # numbers per ray: distance, vector n / (n . d), hit point
_CALL = re.compile(r"(rays|hits)_[0-9a-f]{16}")
_SCALAR_TEXT = """static void {name}(const double *x, double *y)
{{
    rb_cast_rays(&{scene}, {rays}, {directions}, {start}, {hits}, x, y);
}}
"""
_IN_LANES_TEXT = """static void {name}(const real *x, real *y)
{{
    for (int k = 0; k < RB_LANES; k++) {{
        double one[{inputs}], result[{out}];
        for (int i = 0; i < {inputs}; i++)
            one[i] = x[i][k];
        rb_cast_rays(&{scene}, {rays}, {directions}, {start}, {hits}, one, result);
        for (int i = 0; i < {out}; i++)
            y[i][k] = result[i];
    }}
}}
"""


class Fan(Protocol):
    """Rays of a sensor and the shapes of one body (`robot.ray_casting.RayFan`)."""

    scene: Any
    directions: Array
    start: float

    @property
    def name(self) -> str:
        """Identifier of the form rays_<digest>."""

    def distances(self, x: Array) -> Array:
        """Return the distances (n,) [m]; x (12,) is the pose of the sensor (`ray_expression`)."""

    def hits(self, x: Array) -> Array:
        """Return the distance t, the vector n / (n . d) and the hit point of each ray (n, 7)."""


class RayCall(ca.Callback):
    """CasADi function that casts rays.

    CasADi treats the results as constants when it differentiates. `ray_expression` adds the terms
    with the exact first derivatives.

    Args:
        fan: Rays and shapes.
        hits: True for the hits (n, 7), False for the distances (n,).
    """

    def __init__(self, fan: Fan, hits: bool):
        ca.Callback.__init__(self)
        self.fan, self.hits = fan, hits
        self.size = len(fan.directions) * (HIT if hits else 1)
        self.label = fan.name.replace("rays_", "hits_") if hits else fan.name
        self.construct(self.label, {"never_inline": True})

    def get_n_in(self) -> int:
        """Return the number of arguments."""
        return 1

    def get_n_out(self) -> int:
        """Return the number of results."""
        return 1

    def get_sparsity_in(self, i: int) -> ca.Sparsity:
        """Return the dense sparsity pattern (12, 1) of the argument, the pose of the sensor."""
        del i
        return ca.Sparsity.dense(INPUTS, 1)

    def get_sparsity_out(self, i: int) -> ca.Sparsity:
        """Return the dense sparsity pattern of the result, all distances or hits as a column."""
        del i
        return ca.Sparsity.dense(self.size, 1)

    def eval(self, arg: Sequence[ca.DM]) -> list[ca.DM]:
        """Return the numerical result."""
        x = np.asarray(arg[0]).ravel()
        if not np.all(np.isfinite(x)):
            return [ca.DM(np.full(self.size, np.nan))]
        return [ca.DM(np.ravel(self.fan.hits(x) if self.hits else self.fan.distances(x)))]

    def has_forward(self, nfwd: int) -> bool:
        """Return True: `get_forward` exists."""
        del nfwd
        return True

    def has_reverse(self, nadj: int) -> bool:
        """Return True: `get_reverse` exists."""
        del nadj
        return True

    def get_forward(self, n: int, name: str, *names_and_options: Any) -> ca.Function:
        """Return the forward derivative, which is zero."""
        return self._zero(n, name, INPUTS, self.size, *names_and_options)

    def get_reverse(self, n: int, name: str, *names_and_options: Any) -> ca.Function:
        """Return the adjoint derivative, which is zero."""
        return self._zero(n, name, self.size, INPUTS, *names_and_options)

    def _zero(self, n: int, name: str, seeds: int, out: int, *more: Any) -> ca.Function:
        x, y = ca.SX.sym("x", INPUTS), ca.SX.sym("y", self.size)
        return ca.Function(name, [x, y, ca.SX.sym("s", seeds, n)], [ca.SX.zeros(out, n)], *more)

    # ---- C code ----

    def c_name(self, notation: Notation) -> str:
        """Return the name of the C function for scalars or for SIMD lanes."""
        return f"{self.label}_lanes" if notation is IN_LANES else self.label

    def c_texts(self, notation: Notation) -> Iterator[str]:
        """Yield the C code of the shapes, the directions and the function."""
        scene, name = self.fan.scene.name, self.c_name(notation)
        directions = self.fan.name.replace("rays_", "directions_")
        yield _guard(scene, scene_text(self.fan.scene))
        yield _guard(
            directions,
            _table("double", f"{directions}[][3]", _rows(np.asarray(self.fan.directions, float))),
        )
        text = _IN_LANES_TEXT if notation is IN_LANES else _SCALAR_TEXT
        yield _guard(
            name,
            text.format(
                name=name,
                scene=scene,
                rays=len(self.fan.directions),
                directions=directions,
                start=repr(float(self.fan.start)),
                hits=int(self.hits),
                inputs=INPUTS,
                out=self.size,
            ),
        )

    def assignment(
        self, targets: Mapping[int, str], operands: Sequence[str], notation: Notation
    ) -> Assignment:
        """Return the C statement that calls the function and assigns the results to variables.

        Args:
            targets: Names of the used results, by index of the result.
            operands: C expressions of the arguments.
            notation: Notation of numbers and operations.
        """
        return call_assignment(self.c_name(notation), targets, operands, self.size, notation)


_CALLS: dict[str, RayCall] = {}


def ray_call(name: str) -> RayCall | None:
    """Return the CasADi function `name` if it casts rays, else None."""
    return _CALLS[name] if _CALL.fullmatch(name) else None


def ray_expression(fan: Fan, x: ca.SX, differentiable: bool) -> ca.SX:
    """Return the expressions of the distances (n,) of the rays.

    A ray starts at p and has the direction d. Near a hit at the distance t0 and the point r0, the
    distance is, up to second-order terms,

        t = t0 + g . (r0 - p - t0 d)

    because the point p + t d stays in the tangent plane. g = n / (n . d0) contains the surface
    normal n and the direction d0 at the hit. A graph for derivatives contains this expression, with
    t0, g and r0 as constants.

    Args:
        fan: Rays and shapes.
        x: Position p of the sensor (3) and its rotation matrix (9, by rows).
        differentiable: True for the graph that is differentiated.
    """
    call = _call(fan, differentiable)
    y = call(x)
    if not differentiable:
        return y
    found = []
    for k, direction in enumerate(np.asarray(fan.directions, float)):
        t, g, point = y[HIT * k], y[HIT * k + 1 : HIT * k + 4], y[HIT * k + 4 : HIT * k + 7]
        d = ca.vertcat(*[ca.dot(x[3 + 3 * i : 6 + 3 * i], ca.DM(direction)) for i in range(3)])
        found.append(t + ca.dot(g, point - x[:3] - t * d))
    return ca.vertcat(*found)


def _call(fan: Fan, hits: bool) -> RayCall:
    name = fan.name.replace("rays_", "hits_") if hits else fan.name
    if name not in _CALLS:
        _CALLS[name] = RayCall(fan, hits)
    return _CALLS[name]


def ray_texts(calls: Iterable[str], notation: Notation) -> Iterator[str]:
    """Yield the C code of each ray call among the called functions `calls`."""
    for name in dict.fromkeys(calls):
        if call := ray_call(name):
            yield from call.c_texts(notation)


def scene_text(scene: Any) -> str:
    """Return the C code of the tables of a scene (`robot.ray_casting.RayScene`)."""
    name, fields = scene.name, []
    shapes, heights = [], [np.zeros(0, np.float32)]
    for one in scene.shapes:
        size = [*one.size, 0.0, 0.0, 0.0, 0.0][:4]
        if one.kind == "sphere":
            size = [one.size[0]] * 3 + [0.0]
        elif one.kind == "ellipsoid":
            size = [1.0 / radius for radius in one.size] + [0.0]
        rows, columns = one.heights.shape
        first = sum(map(len, heights))
        heights.append(np.ravel(one.heights).astype(np.float32))
        kind = f"RB_{one.kind.upper()}"
        X = one.placement
        numbers = ", ".join(
            f"{{{', '.join(repr(float(v)) for v in part)}}}" for part in (size, X.E.ravel(), X.r)
        )
        shapes.append(f"{{{kind}, {rows}, {columns}, {first}, {numbers}}}")
    boxes, items = scene.tree
    box_rows = [
        f"{{{{{_floats(one.lower)}}}, {{{_floats(one.upper)}}}, {one.following}, {one.size}}}"
        for one in boxes
    ]
    corners = [f"{{{', '.join(map(str, row))}}}" for row in scene.triangles.tolist()]
    text = ""
    for kind, member, brackets, rows_of in (
        ("RbRayShape", "shape", "[]", shapes),
        ("double", "vertex", "[][3]", _rows(scene.vertices)),
        ("int", "corner", "[][3]", corners),
        ("RbRayBox", "box", "[]", box_rows),
        ("int", "item", "[]", list(map(str, items))),
        ("float", "height", "[]", [_floats([one]) for one in np.concatenate(heights)]),
    ):
        if rows_of:
            text += _table(kind, f"{name}_{member}{brackets}", rows_of)
            fields.append(f"{name}_{member}")
        else:
            fields.append("0")
    counts = f"{scene.planes}, {len(scene.shapes)}, {len(scene.triangles)}, {len(boxes)}"
    return f"{text}static const RbRayScene {name} = {{{counts}, {', '.join(fields)}}};\n"


def _table(kind: str, name: str, rows: Sequence[str]) -> str:
    lines = (", ".join(rows[k : k + 4]) for k in range(0, len(rows), 4))
    body = ",\n".join(f"    {line}" for line in lines)
    return f"static const {kind} {name} = {{\n{body}\n}};\n"


def _rows(values: Array) -> list[str]:
    return [f"{{{', '.join(map(repr, row))}}}" for row in values.tolist()]


def _floats(values: Iterable[Any]) -> str:
    """Return C literals of single-precision numbers."""
    texts = (str(np.float32(value)) for value in values)
    return ", ".join(f"{one}f" if any(c in one for c in ".en") else f"{one}.0f" for one in texts)


def _guard(name: str, text: str) -> str:
    return f"#ifndef HAS_{name}\n#define HAS_{name}\n{text}#endif\n"
