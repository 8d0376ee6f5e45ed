"""Validation of models: functions that reject invalid fields when a model is created."""

from collections import Counter
from math import isfinite
from typing import Any

import numpy as np

from rigidblocks.common.arrays import LazyTuple
from rigidblocks.robot.joints import Joint, LoopJoint, Prismatic, Revolute, StringConstraint
from rigidblocks.robot.shapes import Shape
from rigidblocks.robot.tree import Tree
from rigidblocks.spatial import planar
from rigidblocks.spatial.spatial import (
    STRAIGHT,
    RigidInertia,
    check_frame,
    check_symmetric,
    is_frame,
)


class ImmobileError(ValueError):
    """Error for a joint that moves no inertia; `joint` is the joint index."""

    def __init__(self, message: str, joint: int):
        super().__init__(message)
        self.joint = joint


def check_spatial_model(model: Any) -> None:
    """Check a model of rigid bodies in space.

    Raises:
        ValueError: A field of the model is invalid.
        TypeError: A joint, a shape or a transform of a loop joint has the wrong type.
    """
    check_structure(model)
    for i in range(model.nb):
        if not _is_plain(model, i):  # the following checks take much longer
            _check_sizes(model, i)
            check_rotation(model, i)
            _check_inertia(model, i)
    check_massless(model)
    if model.unphysical:
        _check_named(model, model.unphysical, "unphysical")
    check_loops(model)
    _check_shapes(model, "appearance")
    _check_shapes(model, "contact")


def _is_plain(model: Any, i: int) -> bool:
    """Return True if body i and its joint need no detailed check.

    The joint must have one of the types `_PLAIN`, and the transform and the inertia must pass a
    fast check.
    """
    X, body = model.Xtree[i], model.inertia[i]
    E, r, h, I = X.E, X.r, body.h, body.I
    try:
        if not E.shape == I.shape == (3, 3) or not r.shape == h.shape == (3,):
            return False
    except AttributeError:  # not an array
        return False
    if type(model.joint[i]) not in _PLAIN or model.body_names[i] in model.massless:
        return False
    if E is STRAIGHT:  # a read-only identity matrix, which needs no check
        return all(map(isfinite, r.tolist())) and _is_sound(body.m, h.tolist(), I.tolist())
    return is_frame(E.tolist(), r.tolist()) and _is_sound(body.m, h.tolist(), I.tolist())


_PLAIN = (Revolute, Prismatic)


def check_planar_model(model: Any) -> None:
    """Check a model of rigid bodies in the plane.

    Raises:
        ValueError: A field of the model is invalid.
        TypeError: A loop joint has a transform of the wrong type.
    """
    check_structure(model)
    for i in range(model.nb):
        _check_planar(model, i)
        check_rotation(model, i)
        _check_planar_inertia(model, i)
    check_massless(model)
    check_loops(model)


def check_structure(tree: Tree) -> None:
    """Check the lists of a kinematic tree.

    Raises:
        ValueError: The lists differ in length, or two names are equal. The model has no bodies, or
            the index of a parent is not below the index of its child.
    """
    _check_lengths(tree)
    for names in (tree.body_names, tree.joint_names):
        if double := _duplicates(names):
            raise ValueError(
                f"model '{tree.name}' has several bodies or joints with the same name: "
                f"{', '.join(double)}"
            )
    if not tree.parent:
        raise ValueError(f"model '{tree.name}' has no bodies")
    for i, p in enumerate(tree.parent):
        if not -1 <= p < i:
            raise ValueError(
                f"body {i} of model '{tree.name}' has the parent {p}; a parent must have a "
                f"smaller index than its child: -1 (the base) .. {i - 1}"
            )


def _duplicates(names: tuple[str, ...]) -> list[str]:
    """Return the names that occur more than once, sorted."""
    if len(set(names)) == len(names):
        return []
    return sorted(name for name, count in Counter(names).items() if count > 1)


def _check_lengths(tree: Tree) -> None:
    names = ("parent", "joint", "Xtree", "inertia", "body_names", "joint_names")
    lists = (getattr(tree, name) for name in names)
    if len(set(sizes := tuple(map(len, lists)))) > 1:
        lengths, n = dict(zip(names, sizes, strict=True)), min(sizes)
        short = " and ".join(name for name, length in lengths.items() if length == n)
        raise ValueError(
            f"every list of model '{tree.name}' needs one entry for each body, not {lengths}; "
            f"joint {n} has no {short}"
        )


def check_rotation(tree: Tree, i: int) -> None:
    """Check the transform `Xtree[i]`.

    Raises:
        ValueError: `Xtree[i]` is not finite, or its E is not a rotation.
    """
    check_frame(tree.Xtree[i], f"Xtree[{i}] ({tree.joint_names[i]}) of model '{tree.name}'")


def check_massless(tree: Tree) -> None:
    """Check the massless bodies of a kinematic tree.

    Raises:
        ValueError: `massless` contains a name that is not a body name.
        ImmobileError: A joint moves only massless bodies.
    """
    if not tree.massless:
        return
    _check_named(tree, tree.massless, "massless")
    moved = [name not in tree.massless for name in tree.body_names]
    for i in reversed(range(tree.nb)):
        if tree.joint[i].nv and not moved[i]:
            raise ImmobileError(
                f"{tree.joint_names[i]} of model '{tree.name}' moves no mass: body {i} "
                f"({tree.body_names[i]}) and all its descendants are massless",
                i,
            )
        if (p := tree.parent[i]) >= 0:
            moved[p] = moved[p] or moved[i]


def _check_named(tree: Tree, names: tuple[str, ...], subject: str) -> None:
    if unknown := sorted(set(names) - set(tree.body_names)):
        raise ValueError(
            f"unknown body {', '.join(unknown)} in `{subject}` of model '{tree.name}'; expected "
            f"names of {tree.body_names}"
        )


def check_loops(tree: Tree) -> None:
    """Check the loop joints and the cables (`StringConstraint`).

    Raises:
        TypeError: Xp or Xs is not a transform of the model's algebra.
        ValueError: Two joints have the same name, or a cable is invalid. A loop joint
            connects a body to itself or to an unknown body, belongs to another algebra, or has a
            frame that is not finite.
    """
    if not (tree.loops or tree.strings):
        return
    if double := _duplicates((*tree.joint_names, *tree.loop_names)):
        raise ValueError(
            f"model '{tree.name}' has several joints with the same name: {', '.join(double)}; "
            "joints and loop joints need unique names"
        )
    for name, loop in zip(tree.loop_names, tree.loops, strict=False):
        where = f"loop joint {name} of model '{tree.name}'"
        _check_ends(tree, loop, where)
        for role in ("Xp", "Xs"):
            if not isinstance(X := getattr(loop, role), tree.algebra.Transform):
                raise TypeError(
                    f"{role} of {where} is {X!r}; it must be a {tree.algebra.__name__}.Transform"
                )
            check_frame(X, f"{role} of {where}")
        size = len(tree.algebra.zero())
        joint = loop.joint.evaluate_at(0.0)
        if len(joint.jcalc(joint.neutral(), np.zeros(joint.nv)).S) != size:
            raise ValueError(
                f"{where} is {loop.joint}, but the model needs a joint with motion vectors of "
                f"{size} components"
            )
    for name, string in zip(tree.loop_names[len(tree.loops) :], tree.strings, strict=True):
        _check_string(tree, string, f"string {name} of model '{tree.name}'")


def _check_string(tree: Tree, string: StringConstraint, place: str) -> None:
    """Raise ValueError if a cable has unknown bodies or invalid geometry."""
    for body, point in string.points:
        if not -1 <= body < tree.nb:
            raise ValueError(
                f"{place} has a point on unknown body {body}; the bodies are -1 (the base) .. "
                f"{tree.nb - 1}"
            )
        if np.shape(point) != tree.gravity.shape or not np.all(np.isfinite(point)):
            raise ValueError(
                f"{place} has the point {point}; it needs {len(tree.gravity)} finite coordinates"
            )
    if len(string.points) < (least := 3 if string.closed else 2):
        raise ValueError(f"{place} has {len(string.points)} points; it needs at least {least}")
    for (one, p), (other, q) in string.segments():
        if one == other and not (string.closed or np.any(np.asarray(p) != np.asarray(q))):
            raise ValueError(f"{place} connects a point of body {one} with itself")
    if not string.rheonomic and not 0.0 < float(string.length) < np.inf:  # type: ignore[arg-type]
        raise ValueError(f"the length of {place} must be positive and finite, not {string.length}")
    if string.radius < 0.0:
        raise ValueError(f"the radius of {place} must not be negative, but is {string.radius} m")
    if string.radius and not string.closed:
        raise ValueError(
            f"{place} is open, but has the radius {string.radius} m; only a closed string can have "
            "a radius"
        )


def _check_ends(tree: Tree, loop: LoopJoint, place: str) -> None:
    for role in ("predecessor", "successor"):
        if not -1 <= getattr(loop, role) < tree.nb:
            raise ValueError(
                f"{place} has the unknown {role} {getattr(loop, role)}; the bodies are -1 (the "
                f"base) .. {tree.nb - 1}"
            )
    if loop.predecessor == loop.successor:
        body = ("the base", *tree.body_names)[loop.predecessor + 1]
        raise ValueError(f"{place} is between {body} and itself; it must connect two bodies")


def _check_sizes(model: Any, i: int) -> None:
    """Reject body i if its joint is inconsistent or an array does not have the spatial shape."""
    joint = model.joint[i]
    where = f"[{i}] ({model.joint_names[i]}) of model '{model.name}'"
    if type(joint) not in _PLAIN:
        _check_joint(joint, where)
    _check_array_sizes(model, i, where)


def _check_joint(joint: Any, place: str) -> None:
    if not isinstance(joint, Joint):
        raise TypeError(
            f"joint{place} is {joint!r}; it must be a joint of rigidblocks.robot.joints"
        )
    sizes = (
        (len(joint.neutral()), joint.nq, len(joint.q_units)),
        (joint.nv, len(joint.qd_units), len(joint.tau_units)),
    )
    if any(len(set(size)) > 1 for size in sizes):
        raise ValueError(
            f"joint{place} needs one unit per variable; {joint!r} has {sizes[0]} for q and "
            f"{sizes[1]} for qd"
        )
    S = joint.evaluate_at(0.0).jcalc(joint.neutral(), np.zeros(joint.nv)).S
    if (shape := S.shape) != (6, joint.nv):
        raise ValueError(
            f"joint{place} has an S of shape {shape}; spatial vectors need {(6, joint.nv)}"
        )


def _check_array_sizes(model: Any, i: int, place: str) -> None:
    X, inertia = model.Xtree[i], model.inertia[i]
    if np.shape(X.E) == np.shape(inertia.I) == (3, 3) and np.shape(X.r) == (3,) == inertia.h.shape:
        return
    arrays = (
        ("Xtree", "E", X.E, (3, 3)),
        ("Xtree", "r", X.r, (3,)),
        ("inertia", "h", inertia.h, (3,)),
        ("inertia", "I", inertia.I, (3, 3)),
    )
    for part, name, value, needed in arrays:
        if np.shape(value) != needed:
            raise ValueError(
                f"{part}{place} has {name} of shape {np.shape(value)}; it needs {needed}"
            )


def _check_inertia(model: Any, i: int) -> None:
    """Reject body i if its mass is not positive, or its inertia is asymmetric or unphysical."""
    inertia, name = model.inertia[i], model.body_names[i]
    where, kept = f"body {i} ({name}) of model '{model.name}'", name in model.unphysical
    if not _has_mass(model, i, where) and not kept:
        return
    check_symmetric(inertia.I, f"the rotational inertia of {where}")
    if not kept and (why := inertia_defect(inertia)):
        raise ValueError(f"the rotational inertia of {where} is not physical: {why}")


def _is_sound(m: float, h: list[float], I_O: list[list[float]]) -> bool:
    """Return True if an inertia is exactly symmetric and physically consistent with mass m > 0.

    `h` is the first moment of mass, and `I_O` the rotational inertia about the origin.
    """
    (_, b, c), (d, _, f), (g, e, _) = I_O
    return m > 0.0 and b == d and c == g and f == e and _is_physical(m, h, I_O)


def inertia_defect(inertia: RigidInertia) -> str:
    """Return the reason why an inertia of nonzero mass is physically impossible, or ""."""
    m, h, I_O = inertia.m, inertia.h, inertia.I
    if _is_physical(m, h.tolist(), I_O.tolist()):
        return ""  # fast check; eigenvalues take 10 times longer
    c = h / m
    moments = np.linalg.eigvalsh(I_O - m * (c @ c * np.eye(3) - np.outer(c, c)))
    # rounding error of the moments of inertia, and of their shift from the origin
    slack = 1e-9 * moments[2] + 1e-14 * np.trace(I_O)
    if moments[0] >= -slack and moments[0] + moments[1] >= moments[2] - slack:
        return ""
    return (
        f"its principal moments about the centre of mass are {moments.tolist()} kg m^2; none may "
        "be negative, and the two smaller must sum to at least the largest"
    )


def _is_physical(m: float, h: list[float], I_O: list[list[float]]) -> bool:
    """Return True if the matrix of second moments is positive definite.

        J = (tr I / 2) 1 - I

    J is the matrix of second moments, 1 the identity, and I the rotational inertia, all (3, 3) and
    about the centre of mass. The function tests the three pivots of J, with a smaller tolerance
    than `inertia_defect`. The arguments are as in `_is_sound`.
    """
    (a, _, _), (d, b, _), (e, f, c) = I_O
    x, y, z = h[0] / m, h[1] / m, h[2] / m
    xx, yy, zz = x * x, y * y, z * z
    trace_O = a + b + c
    trace = trace_O - 2.0 * m * (xx + yy + zz)
    half = trace / 2.0 + 1e-10 * trace + 4e-15 * trace_O
    a, b, c = half - a + m * (yy + zz), half - b + m * (zz + xx), half - c + m * (xx + yy)
    d, e, f = -d - m * x * y, -e - m * z * x, -f - m * y * z
    if not (a > 0.0 and (second := b - d * d / a) > 0.0):
        return False
    across = f - d * e / a
    return c - e * e / a - across * across / second > 0.0


def _has_mass(tree: Tree, i: int, place: str) -> bool:
    """Check the mass of body i; return True if it is positive, False if it is zero.

    Only bodies in `massless` or `unphysical` may have zero mass.
    """
    m, h, I_O = tree.inertia[i].m, tree.inertia[i].h, tree.inertia[i].I
    numbers = [m, *np.ravel(h).tolist(), *np.ravel(I_O).tolist()]
    if not all(map(isfinite, numbers)):
        raise ValueError(f"the inertia of {place} is not finite: {_inertia_text(tree.inertia[i])}")
    if tree.body_names[i] in tree.massless:
        if any(numbers):
            text = f"{place} is in `massless` but has {_inertia_text(tree.inertia[i])}"
            raise ValueError(text)
        return False
    if m == 0 and tree.body_names[i] in tree.unphysical:
        return False
    if m <= 0:
        raise ValueError(
            f"{place} has mass {m} kg; the mass must be positive, or the whole inertia must be 0 "
            "and `massless` must contain the body"
        )
    return True


def _inertia_text(body: Any) -> str:
    return f"m = {body.m}, h = {np.asarray(body.h).tolist()}, I = {np.asarray(body.I).tolist()}"


def _check_shapes(model: Any, field: str) -> None:
    """Reject a list of shapes unless it has one entry per body and contains only `Shape`."""
    lists = getattr(model, field)
    if isinstance(lists, LazyTuple):
        return  # from a file reader, which creates only valid shapes
    if len(lists) not in (0, model.nb):
        raise ValueError(
            f"{field} of model '{model.name}' has {len(lists)} lists of shapes; it needs one list, "
            f"which may be empty, for each of the {model.nb} bodies"
        )
    for name, some in zip(model.body_names, lists, strict=False):
        for shape in some:
            if not isinstance(shape, Shape):
                raise TypeError(
                    f"{field} of body {name} of model '{model.name}' has {shape!r}; it must be a "
                    "Shape, such as Box, Cylinder or Sphere"
                )


def _check_planar(model: Any, i: int) -> None:
    """Reject a body of a planar model with a spatial joint, transform or inertia.

    A joint is planar if its transform XJ has the class `planar.Transform`. The function compares
    classes, because some spatial and planar classes have the same name.
    """
    joint = model.joint[i]
    moves = isinstance(joint, Joint) and isinstance(
        joint.evaluate_at(0.0).jcalc(joint.neutral(), np.zeros(joint.nv)).XJ, planar.Transform
    )
    planar_parts = {"joint": moves, "Xtree": isinstance(model.Xtree[i], planar.Transform)}
    planar_parts["inertia"] = isinstance(model.inertia[i], planar.RigidInertia)
    for name, is_planar in planar_parts.items():
        if not is_planar:
            part = type(getattr(model, name)[i])
            raise ValueError(
                f"{name}[{i}] of planar model '{model.name}' must be planar, not a "
                f"{part.__module__}.{part.__name__}"
            )


def _check_planar_inertia(model: Any, i: int) -> None:
    """Reject a planar body i with a nonpositive mass or a negative moment of inertia."""
    inertia = model.inertia[i]
    where = f"body {i} ({model.body_names[i]}) of planar model '{model.name}'"
    if not _has_mass(model, i, where):
        return
    I_C = inertia.I - inertia.h @ inertia.h / inertia.m
    if I_C < -1e-14 * inertia.I:  # rounding error of the shift from the origin
        raise ValueError(
            f"{where} has the rotational inertia {I_C} kg m^2 about its centre of mass, which must "
            "not be negative"
        )
