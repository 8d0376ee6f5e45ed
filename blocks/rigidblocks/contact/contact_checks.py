"""Checks and default values for the arguments of plants with contact."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rigidblocks.contact.joint_tables import LoopTables, adjacent_bodies, check_kinds, free_bodies
from rigidblocks.contact.shape_tables import central_inertia
from rigidblocks.dynamics.loops.assembly import closure_errors, consistent_velocity
from rigidblocks.library.common_ports import check_open
from rigidblocks.robot.joints import SixDoF
from rigidblocks.robot.model import Model
from rigidblocks.robot.robot_description import JointProperties
from rigidblocks.robot.shapes import Shape, Sphere, Surface
from rigidblocks.spatial.spatial import Array

CLOSED = 1e-6  # tolerance of loop errors of the initial configuration [rad, m]; found by trial

LARGE_MODEL = 400  # more bodies have fewer contacts each (default_max_contacts); found by trial


def check_joints(model: Model) -> None:
    """Check that rigid contact supports all joints, including loop joints.

    Raises:
        ValueError: A joint is not supported.
    """
    check_open(replace(model, loops=()), "RigidContactPlant")
    LoopTables(model).check()
    check_kinds(model)


def check_ground(value: Any) -> tuple[Shape | Surface, ...]:
    """Return the shapes of the ground as a checked tuple.

    `value` is one shape or surface, or a sequence of shapes and surfaces.

    Raises:
        TypeError: An element is not a shape or surface.
    """
    shapes = (value,) if isinstance(value, Shape | Surface | str) else value
    if not isinstance(shapes, Iterable):
        raise TypeError(f"`ground` must be shapes or surfaces, such as Plane(), not {value!r}")
    ground = tuple(shapes)
    for shape in ground:
        if not isinstance(shape, Shape | Surface):
            raise TypeError(
                f"`ground` must be shapes or surfaces, such as Plane(), not {shape!r:.60}"
            )
    return ground


def consistent_start_velocity(model: Model, q0: Array, qd0: Array) -> Array:
    """Return the joint velocities (nv,) nearest to qd0 that satisfy the loop constraints.

    If the result differs from qd0, the function issues a warning.

    Raises:
        ValueError: q0 does not close the loops.
    """
    open_ = {name: e for name, e in closure_errors(model, q0).items() if max(e) > CLOSED}
    if open_:
        name, (angle, way) = next(iter(open_.items()))
        raise ValueError(
            f"q0 leaves loop joint '{name}' of model '{model.name}' open by {angle:.3g} rad and "
            f"{way:.3g} m; use assemble(model, q0) to close the loops"
        )
    return consistent_velocity(model, q0, qd0)


def check_exclusions(
    model: Model, pairs: Iterable[tuple[str, str]], only_with_shapes: bool = False
) -> tuple[tuple[str, str], ...]:
    """Convert the collision exclusions to a tuple, and check their body names.

    Raises:
        ValueError: A body is unknown, or `only_with_shapes` is True and a body has no shapes.
    """
    exclusions = tuple((a, b) for a, b in pairs)
    bodies = zip(model.body_names, model.contact, strict=True)
    names = (*(name for name, shapes in bodies if shapes or not only_with_shapes), "ground")
    for name in (name for pair in exclusions for name in pair):
        if name not in names:
            which = " with shapes" if only_with_shapes else ""
            raise ValueError(
                f"unknown body{which} '{name}' of model '{model.name}' in `collision_exclusions`; "
                f"expected two of {', '.join(names)}"
            )
    return exclusions


def excluded_pairs(
    model: Model, exclusions: Sequence[tuple[str, str]]
) -> tuple[tuple[int, int], ...]:
    """Return the pairs of body indices without contact: adjacent bodies and exclusions.

    The ground, which consists of all fixed shapes, has the index nb.
    """
    names = (*model.body_names, "ground")
    named = ((names.index(a), names.index(b)) for a, b in exclusions)
    return (*adjacent_bodies(model), *named)


def check_joint_properties(model: Model, properties: JointProperties) -> None:
    """Check that rigid contact supports the stops, friction, springs and rotors of the joints.

    Raises:
        ValueError: The length of the arrays in `properties` is not nv. A joint with nq > nv has
            stops, dry friction or springs. A six-degree-of-freedom joint has rotor inertia along
            its translations. A free body has rotor inertia or damping.
    """
    if len(properties.lower) != model.nv:
        raise ValueError(
            f"`joint_properties` has {len(properties.lower)} degrees of freedom, but model "
            f"'{model.name}' has {model.nv}"
        )
    held = (
        np.isfinite(properties.lower)
        | np.isfinite(properties.upper)
        | (properties.friction > 0)
        | (properties.stiffness > 0)
    )
    is_free = free_bodies(model)
    for i, (name, joint) in enumerate(zip(model.joint_names, model.joint, strict=True)):
        if held[model.v_slices[i]].any() and joint.nq > joint.nv:
            raise ValueError(
                f"joint '{name}' of model '{model.name}' has nq > nv (more position than "
                "velocity variables); it supports dampers and rotors, but no stops, dry friction "
                "or springs"
            )
        of = model.v_slices[i]
        if isinstance(joint, SixDoF) and (
            np.any(properties.armature[of][3:])
            or (is_free[i] and np.any([properties.armature[of], properties.damping[of]]))
        ):
            raise ValueError(
                f"rigid contact does not support rotor inertia or damping of the free joint "
                f"'{name}' of model '{model.name}'; use compliant contact"
            )


SINGULAR = 1e-12  # ratio of the moments of inertia of a singular inertia, above rounding errors


def check_free_inertias(model: Model) -> None:
    """Check that the rotational inertias of the free bodies are regular.

    Raises:
        ValueError: The inertia of a free body about its centre of mass is singular.
    """
    for name, body, is_free in zip(
        model.body_names, model.inertia, free_bodies(model), strict=True
    ):
        if not is_free:
            continue
        I = central_inertia(body)
        moments = np.abs(np.linalg.eigvalsh(I))
        if moments.min() <= SINGULAR * moments.max():
            raise ValueError(
                f"the rotational inertia of the free body '{name}' of model '{model.name}' about "
                f"its centre of mass is singular: {I.tolist()} kg m^2; rigid contact needs a "
                "positive definite inertia, for example `box_inertia`"
            )


def default_max_contacts(model: Model) -> int:
    """Return the default of `max_contacts`, which is sufficient for a pile of the bodies.

    A close-packed sphere has twelve contacts, and two spheres share each contact. A body with only
    spheres therefore counts as six contacts, and any other body as twelve. In a model with more
    than `LARGE_MODEL` bodies, a body with only spheres counts as four contacts, a number that was
    found by trial.
    """
    of_ball = 6 if model.nb <= LARGE_MODEL else 4
    return sum(
        of_ball if all(isinstance(shape, Sphere) for shape in shapes) else 12
        for shapes in model.contact
    )
