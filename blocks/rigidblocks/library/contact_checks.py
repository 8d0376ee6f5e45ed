"""What plants in contact ask of their models: joints, closed loops, names, freedoms."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.contact.loop_tables import LoopTables
from rigidblocks.contact.tree_tables import check_kinds
from rigidblocks.formats.description import Freedoms
from rigidblocks.library.ports import check_open
from rigidblocks.loops.assembly import closure_errors, consistent_velocity
from rigidblocks.model.model import Model
from rigidblocks.model.shapes import Shape, Sphere, Surface

CLOSED = 1e-6  # [rad, m]: of loops at the start

MANY = 400  # bodies


def check_joints(model: Model) -> None:
    """Raises ValueError for joints that rigid contact does not know, also in loops."""
    check_open(replace(model, loops=()), "RigidContactPlant")
    LoopTables(model).check()
    check_kinds(model)


def checked_ground(given: Any) -> tuple[Shape | Surface, ...]:
    """What is at rest, one thing or several; raises TypeError for what is no shape or surface."""
    shapes = (given,) if isinstance(given, Shape | Surface | str) else given
    if not isinstance(shapes, Iterable):
        raise TypeError(f"ground lists shapes and surfaces, such as Plane(), not {given!r}")
    ground = tuple(shapes)
    for one in ground:
        if not isinstance(one, Shape | Surface):
            raise TypeError(f"ground lists shapes and surfaces, such as Plane(), not {one!r:.60}")
    return ground


def closed_start(model: Model, q0: Array, qd0: Array) -> Array:
    """The velocities, or near ones that keep the loops closed, with a warning; raises ValueError
    where the loops are open.
    """
    open_ = {name: e for name, e in closure_errors(model, q0).items() if max(e) > CLOSED}
    if open_:
        name, (angle, way) = next(iter(open_.items()))
        raise ValueError(
            f"q0 leaves loop joint '{name}' of model '{model.name}' open by {angle:.3g} rad and "
            f"{way:.3g} m: assemble(model, q0) gives a configuration that closes the loops"
        )
    return consistent_velocity(model, q0, qd0)


def check_apart(
    model: Model, apart: Sequence[tuple[str, str]], only_with_shapes: bool = False
) -> None:
    """Raises ValueError for a pair of what are no bodies, or none with shapes."""
    bodies = zip(model.body_names, model.contact, strict=True)
    names = (*(name for name, shapes in bodies if shapes or not only_with_shapes), "ground")
    for name in (name for pair in apart for name in pair):
        if name not in names:
            which = " with shapes" if only_with_shapes else ""
            raise ValueError(
                f"'{name}' in `apart` is no body of model '{model.name}'{which}: take two of "
                f"{', '.join(names)}"
            )


def check_freedoms(model: Model, freedoms: Freedoms) -> None:
    """Raises ValueError for what is not of as many freedoms, and for stops and springs of joints
    without coordinates.
    """
    if len(freedoms.lower) != model.nv:
        raise ValueError(
            f"`freedoms` is of {len(freedoms.lower)} freedoms, model '{model.name}' has {model.nv}"
        )
    held = (
        np.isfinite(freedoms.lower)
        | np.isfinite(freedoms.upper)
        | (freedoms.friction > 0)
        | (freedoms.stiffness > 0)
    )
    for i, (name, joint) in enumerate(zip(model.joint_names, model.joint, strict=True)):
        if held[model.v_slices[i]].any() and joint.nq > joint.nv:
            raise ValueError(
                f"joint '{name}' of model '{model.name}' has no coordinates, so it can have "
                "dampers and rotors, but no stops, dry friction or springs"
            )


def usual_contacts(model: Model) -> int:
    """Room for as many contacts as bodies have in a pile: half of the twelve of a ball that is
    packed, but of very many balls for as many as a heap of them has, which fits on a stack.
    """
    of_ball = 6 if model.nb <= MANY else 4
    return sum(
        of_ball if all(isinstance(shape, Sphere) for shape in shapes) else 12
        for shapes in model.contact
    )
