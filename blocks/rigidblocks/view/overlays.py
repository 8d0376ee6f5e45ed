"""What is drawn over a robot where one asks for it, each in a layer of its own: axes of joints,
frames, centres of mass, inertias, and where loops are closed.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array, Transform, xlt
from rigidblocks.model.shapes import Cylinder
from rigidblocks.model.tree import Tree
from rigidblocks.view.solids import (
    DARK,
    THIN,
    Solid,
    axis_of,
    centre_of_mass,
    in_space,
    places_on,
    usual_length,
)

RED, GREEN, BLUE, YELLOW = (0.82, 0.2, 0.2), (0.2, 0.6, 0.25), (0.15, 0.35, 0.8), (1.0, 0.8, 0.1)
SPECK = 1e-9  # of the whole mass: less stands in for a mass that a file lacks
LONG = 0.3  # of the length of a usual link: an axis of a frame


def overlays(model: Tree) -> tuple[Solid, ...]:
    """The solids of all layers but the robot itself."""
    length = usual_length(model)
    radius = THIN * length
    bodies = range(model.nb)
    return tuple(
        chain(
            chain.from_iterable(_axis(model, i, radius) for i in bodies),
            chain.from_iterable(_frame(i, LONG * length, 0.3 * radius) for i in (-1, *bodies)),
            _masses(model, radius),
            _closures(model, radius),
        )
    )


def _axis(model: Tree, body: int, radius: float) -> Iterator[Solid]:
    """A pin along the axis of a joint that has one."""
    axis = axis_of(model.joint[body])
    if axis is not None:
        X = in_space(model.Xtree[body])
        a = X.r + 3.0 * radius * (X.E.T @ axis)
        long = Cylinder.between(2 * X.r - a, a, radius)
        size = (0.55 * radius, 2.0 * float(long.height))
        yield Solid("cylinder", model.parent[body], size, DARK, long.placement, "joint axes")


def _frame(body: int, length: float, radius: float) -> Iterator[Solid]:
    """The axes x, y and z of a body in red, green and blue."""
    for end, colour in zip(length * np.eye(3), (RED, GREEN, BLUE), strict=True):
        X = Cylinder.between(np.zeros(3), end, radius).placement
        yield Solid("cylinder", body, (radius, length), colour, X, "frames")


def _masses(model: Tree, radius: float) -> Iterator[Solid]:
    """A ball at the centre of mass of each body, and around it the solid ellipsoid of one density
    that has the mass and the inertia of the body.
    """
    least = SPECK * sum(float(body.m) for body in model.inertia)
    for i, name in enumerate(model.body_names):
        inertia = model.inertia[i]
        if name in model.massless or not inertia.m > least:
            continue
        c = centre_of_mass(model, i)
        yield Solid("sphere", i, (1.2 * radius,), YELLOW, xlt(c), "centres of mass")
        axes, E = semi_axes(inertia.m, rotational_inertia(inertia, c))
        size = tuple(np.maximum(axes, 0.02 * float(axes.max())).tolist())
        if axes.max() > 0:
            X = Transform(E, c)
            yield Solid("ellipsoid", i, size, YELLOW, X, "inertias", opacity=0.45)


def rotational_inertia(inertia: Any, c: Array) -> Array:
    """The inertia (3, 3) [kg m^2] of a body about its centre of mass c (3,); one in the plane is
    that of a disc.
    """
    I = np.asarray(inertia.I, dtype=float)
    if I.ndim < 2:
        about = float(I) - inertia.m * float(c @ c)
        return np.diag([about / 2, about / 2, about])
    return np.asarray(I - inertia.m * (float(c @ c) * np.eye(3) - np.outer(c, c)))


def semi_axes(m: float, I: Array) -> tuple[Array, Array]:
    """The semi-axes (3,) [m] of the solid ellipsoid with mass m and inertia I about its centre, and
    the rotation (3, 3) to their frame: I_x = m (b^2 + c^2) / 5.
    """
    principal, axes = np.linalg.eigh(I)
    squares = 2.5 / m * (float(np.sum(principal)) - 2.0 * principal)
    E = axes.T
    E[2] *= np.sign(np.linalg.det(E))
    return np.sqrt(np.maximum(squares, 0.0)), E


def _closures(model: Tree, radius: float) -> Iterator[Solid]:
    """The two frames of each loop joint as balls, and a rod between them, which has no length where
    the loop is closed.
    """
    for loop in model.loops:
        ends = [(loop.predecessor, in_space(loop.Xp).r), (loop.successor, in_space(loop.Xs).r)]
        for (body, r), size, colour in zip(ends, (2.3, 2.6), (RED, DARK), strict=True):
            yield Solid("sphere", body, (size * radius,), colour, xlt(r), "loops", opacity=0.6)
        (p, start), (s, end) = ends
        yield Solid("rod", p, (0.5 * radius,), RED, layer="loops", other=s, start=start, end=end)


def tips(model: Tree) -> Iterator[tuple[int, Array]]:
    """The bodies that carry no other, and the point (3,) of each that is farthest out."""
    for i in range(model.nb):
        if i not in model.parent:
            at = [*places_on(model, i), 2.0 * centre_of_mass(model, i), np.zeros(3)]
            at += [p for shape in _shown(model, i) for p in _far_end(shape)]
            yield i, max(at, key=lambda p: float(np.linalg.norm(p)))


def _shown(model: Tree, body: int) -> tuple[Any, ...]:
    shown = getattr(model, "appearance", ())
    return tuple(shown[body]) if shown else ()


def _far_end(shape: Any) -> list[Array]:
    """The middle of the points of a shape that are farthest out."""
    far = np.linalg.norm(shape.points, axis=1)
    return [shape.points[far > far.max() - 1e-6 * float(far.max()) - 1e-12].mean(axis=0)]
