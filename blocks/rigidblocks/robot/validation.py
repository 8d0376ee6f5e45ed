"""What a model must be; every way in which one can be wrong is refused where it is made."""

from collections import Counter
from math import isfinite
from typing import Any

import numpy as np

from rigidblocks.algebra import planar
from rigidblocks.algebra.frames import check_frame, is_frame
from rigidblocks.algebra.spatial import STRAIGHT, RigidInertia
from rigidblocks.algebra.symmetric import check_symmetric
from rigidblocks.joint import Joint, LoopJoint, Prismatic, Revolute, StringConstraint
from rigidblocks.model.later import Later
from rigidblocks.model.shapes import Shape
from rigidblocks.model.tree import Tree


class ImmobileError(ValueError):
    """A joint moves no inertia: joint number `joint` of the model."""

    def __init__(self, message: str, joint: int):
        super().__init__(message)
        self.joint = joint


def check_spatial_model(model: Any) -> None:
    """Raises ValueError or TypeError for what is no model of rigid bodies in space."""
    check_structure(model)
    for i in range(model.nb):
        if not _is_plain(model, i):  # what follows takes several times as long
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
    """Whether body i is one that most bodies are: of sound numbers, on a joint that is known to
    fit.
    """
    X, body = model.Xtree[i], model.inertia[i]
    E, r, h, I = X.E, X.r, body.h, body.I
    try:
        if not E.shape == I.shape == (3, 3) or not r.shape == h.shape == (3,):
            return False
    except AttributeError:  # what is no array
        return False
    if type(model.joint[i]) not in _PLAIN or model.body_names[i] in model.massless:
        return False
    if E is STRAIGHT:  # which no one can write to
        return all(map(isfinite, r.tolist())) and _is_sound(body.m, h.tolist(), I.tolist())
    return is_frame(E.tolist(), r.tolist()) and _is_sound(body.m, h.tolist(), I.tolist())


_PLAIN = (Revolute, Prismatic)


def check_planar_model(model: Any) -> None:
    """Raises ValueError or TypeError for what is no model of rigid bodies in the plane."""
    check_structure(model)
    for i in range(model.nb):
        _check_planar(model, i)
        check_rotation(model, i)
        _check_planar_inertia(model, i)
    check_massless(model)
    check_loops(model)


def check_structure(tree: Tree) -> None:
    """Raises ValueError for lists of different lengths, names that are not unique, no bodies, and a
    misnumbered parent.
    """
    _check_lengths(tree)
    for names in (tree.body_names, tree.joint_names):
        if double := _doubled(names):
            raise ValueError(
                f"model '{tree.name}' has two bodies or two joints with the name "
                f"{', '.join(double)}"
            )
    if not tree.parent:
        raise ValueError(f"model '{tree.name}' has no bodies")
    for i, p in enumerate(tree.parent):
        if not -1 <= p < i:
            raise ValueError(
                f"body {i} of model '{tree.name}' has parent {p}; a parent must be numbered below "
                f"its child, so one of -1 (the base) .. {i - 1}"
            )


def _doubled(names: tuple[str, ...]) -> list[str]:
    """The names that are there twice."""
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
            f"model '{tree.name}' needs one entry a body in every list, not {lengths}; joint {n} "
            f"has no {short}"
        )


def check_rotation(tree: Tree, i: int) -> None:
    """Raises ValueError where `Xtree[i]` is not finite or its E is no rotation."""
    check_frame(tree.Xtree[i], f"Xtree[{i}] ({tree.joint_names[i]}) of model '{tree.name}'")


def check_massless(tree: Tree) -> None:
    """Raises ValueError for a massless name that is no body, and ImmobileError for a joint that has
    only massless bodies to move.
    """
    if not tree.massless:
        return
    _check_named(tree, tree.massless, "massless")
    moved = [name not in tree.massless for name in tree.body_names]
    for i in reversed(range(tree.nb)):
        if tree.joint[i].nv and not moved[i]:
            raise ImmobileError(
                f"{tree.joint_names[i]} of model '{tree.name}' moves no mass: body {i} "
                f"({tree.body_names[i]}) and all "
                "that hangs on it is massless",
                i,
            )
        if (p := tree.parent[i]) >= 0:
            moved[p] = moved[p] or moved[i]


def _check_named(tree: Tree, names: tuple[str, ...], what: str) -> None:
    if unknown := sorted(set(names) - set(tree.body_names)):
        raise ValueError(
            f"model '{tree.name}' has no body {', '.join(unknown)} to be {what}; it has "
            f"{tree.body_names}"
        )


def check_loops(tree: Tree) -> None:
    """Raises TypeError or ValueError for a loop joint between a body and itself, of bodies that are
    not there, of another algebra, or with frames that are not finite, and for two with one name.
    """
    if not (tree.loops or tree.strings):
        return
    if double := _doubled((*tree.joint_names, *tree.loop_names)):
        raise ValueError(
            f"model '{tree.name}' has two joints with the name {', '.join(double)}; a loop joint "
            "needs its own"
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
        joint = loop.joint.at(0.0)
        if len(joint.jcalc(joint.neutral(), np.zeros(joint.nv)).S) != size:
            raise ValueError(f"{where} is {loop.joint}, which is none for vectors of {size}")
    for name, string in zip(tree.loop_names[len(tree.loops) :], tree.strings, strict=True):
        _check_string(tree, string, f"string {name} of model '{tree.name}'")


def _check_string(tree: Tree, string: StringConstraint, where: str) -> None:
    """Raises ValueError for points that are not there or too few, and lengths that are none."""
    for body, point in string.points:
        if not -1 <= body < tree.nb:
            raise ValueError(
                f"{where} has a point on body {body}; the bodies are -1 (the base) .. {tree.nb - 1}"
            )
        if np.shape(point) != tree.gravity.shape or not np.all(np.isfinite(point)):
            raise ValueError(
                f"{where} has the point {point}; it needs {len(tree.gravity)} finite coordinates"
            )
    if len(string.points) < (least := 3 if string.closed else 2):
        raise ValueError(f"{where} has {len(string.points)} points; it needs {least} or more")
    for (one, p), (other, q) in string.segments():
        if one == other and not (string.closed or np.any(np.asarray(p) != np.asarray(q))):
            raise ValueError(f"{where} goes from a point to the same point of body {one}")
    if not string.rheonomic and not 0.0 < float(string.length) < np.inf:  # type: ignore[arg-type]
        raise ValueError(f"the length of {where} must be positive and finite, not {string.length}")
    if string.radius < 0.0 or (string.radius and not string.closed):
        raise ValueError(
            f"{where} has the radius {string.radius} m; only a closed string goes round "
            "discs, of a radius that is not negative"
        )


def _check_ends(tree: Tree, loop: LoopJoint, where: str) -> None:
    for role in ("predecessor", "successor"):
        if not -1 <= getattr(loop, role) < tree.nb:
            raise ValueError(
                f"{where} has {role} {getattr(loop, role)}; the bodies are -1 (the base) .. "
                f"{tree.nb - 1}"
            )
    if loop.predecessor == loop.successor:
        body = ("the base", *tree.body_names)[loop.predecessor + 1]
        raise ValueError(f"{where} is between {body} and itself; it must connect two bodies")


def _check_sizes(model: Any, i: int) -> None:
    """Refuses what has not the sizes of spatial vectors, and a joint whose sizes and units do not
    agree.
    """
    joint = model.joint[i]
    where = f"[{i}] ({model.joint_names[i]}) of model '{model.name}'"
    if type(joint) not in _PLAIN:
        _check_joint(joint, where)
    _check_array_sizes(model, i, where)


def _check_joint(joint: Any, where: str) -> None:
    if not isinstance(joint, Joint):
        raise TypeError(f"joint{where} is {joint!r}; it must be a joint of rigidblocks.joint")
    sizes = (
        (len(joint.neutral()), joint.nq, len(joint.q_units)),
        (joint.nv, len(joint.qd_units), len(joint.tau_units)),
    )
    if any(len(set(size)) > 1 for size in sizes):
        raise ValueError(
            f"joint{where} needs one unit a variable; {joint!r} has {sizes[0]} for q and "
            f"{sizes[1]} for qd"
        )
    S = joint.at(0.0).jcalc(joint.neutral(), np.zeros(joint.nv)).S
    if (shape := S.shape) != (6, joint.nv):
        raise ValueError(
            f"joint{where} has an S of shape {shape}; spatial vectors need {(6, joint.nv)}"
        )


def _check_array_sizes(model: Any, i: int, where: str) -> None:
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
                f"{part}{where} has {name} of shape {np.shape(value)}; it needs {needed}"
            )


def _check_inertia(model: Any, i: int) -> None:
    """Refuses a mass that is not positive, and moments that are not symmetric or not physical."""
    inertia, name = model.inertia[i], model.body_names[i]
    where, kept = f"body {i} ({name}) of model '{model.name}'", name in model.unphysical
    if not _has_mass(model, i, where) and not kept:
        return
    check_symmetric(inertia.I, f"the rotational inertia of {where}")
    if not kept and (why := unphysical(inertia)):
        raise ValueError(f"the rotational inertia of {where} is not physical: {why}")


def _is_sound(m: float, h: list[float], I_O: list[list[float]]) -> bool:
    """Whether a rigid body has this inertia, all of it numbers, without a question of rounding."""
    (_, b, c), (d, _, f), (g, e, _) = I_O
    return m > 0.0 and b == d and c == g and f == e and _is_physical(m, h, I_O)


def unphysical(inertia: RigidInertia) -> str:
    """Why no rigid body with a mass has this inertia, in words; nothing where one has."""
    m, h, I_O = inertia.m, inertia.h, inertia.I
    if _is_physical(m, h.tolist(), I_O.tolist()):
        return ""  # what follows takes ten times as long
    c = h / m
    moments = np.linalg.eigvalsh(I_O - m * (c @ c * np.eye(3) - np.outer(c, c)))
    # rounding of the moments, and of their shift from the origin
    slack = 1e-9 * moments[2] + 1e-14 * np.trace(I_O)
    if moments[0] >= -slack and moments[0] + moments[1] >= moments[2] - slack:
        return ""
    return (
        f"its principal moments about the centre of mass are {moments.tolist()} kg m^2; none may "
        "be negative, and the two smaller must sum to at least the largest"
    )


def _is_physical(m: float, h: list[float], I_O: list[list[float]]) -> bool:
    """Whether the second moments of the mass about its centre, (tr I / 2) 1 - I, are positive
    definite but for less rounding than is let pass: three pivots.
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


def _has_mass(tree: Tree, i: int, where: str) -> bool:
    """Whether body i has a mass; refuses one that is not positive nor declared to be zero."""
    m, h, I_O = tree.inertia[i].m, tree.inertia[i].h, tree.inertia[i].I
    numbers = [m, *np.ravel(h).tolist(), *np.ravel(I_O).tolist()]
    if not all(map(isfinite, numbers)):
        raise ValueError(f"the inertia of {where} is not finite: {_written(tree.inertia[i])}")
    if tree.body_names[i] in tree.massless:
        if any(numbers):
            text = f"{where} is declared massless; it has {_written(tree.inertia[i])}"
            raise ValueError(text)
        return False
    if m == 0 and tree.body_names[i] in tree.unphysical:
        return False
    if m <= 0:
        raise ValueError(
            f"{where} has mass {m} kg; a mass must be positive, unless all of it is 0 and "
            "`massless` says so"
        )
    return True


def _written(body: Any) -> str:
    return f"m = {body.m}, h = {np.asarray(body.h).tolist()}, I = {np.asarray(body.I).tolist()}"


def _check_shapes(model: Any, field: str) -> None:
    """Refuses shapes that are not a list for each body, and what is no shape."""
    lists = getattr(model, field)
    if isinstance(lists, Later):
        return  # readers of files make nothing else
    if len(lists) not in (0, model.nb):
        raise ValueError(
            f"{field} of model '{model.name}' lists shapes for {len(lists)} bodies; it needs a "
            f"list for each of its {model.nb}, which may be empty"
        )
    for name, some in zip(model.body_names, lists, strict=False):
        for shape in some:
            if not isinstance(shape, Shape):
                raise TypeError(
                    f"{field} of body {name} of model '{model.name}' has {shape!r}; it must be a "
                    "Shape, such as Box, Cylinder or Sphere"
                )


def _check_planar(model: Any, i: int) -> None:
    """Refuses spatial parts, some of which have the same names; any joint with a planar transform
    is planar.
    """
    joint = model.joint[i]
    moves = isinstance(joint, Joint) and isinstance(
        joint.at(0.0).jcalc(joint.neutral(), np.zeros(joint.nv)).XJ, planar.Transform
    )
    planar_parts = {"joint": moves, "Xtree": isinstance(model.Xtree[i], planar.Transform)}
    planar_parts["inertia"] = isinstance(model.inertia[i], planar.RigidInertia)
    for name, is_planar in planar_parts.items():
        if not is_planar:
            part = type(getattr(model, name)[i])
            raise ValueError(
                f"{name}[{i}] of planar model '{model.name}' must be one for planar vectors, not a "
                f"{part.__module__}.{part.__name__}"
            )


def _check_planar_inertia(model: Any, i: int) -> None:
    """Refuses a mass that is not positive, and a negative moment about the centre of mass."""
    inertia = model.inertia[i]
    where = f"body {i} ({model.body_names[i]}) of planar model '{model.name}'"
    if not _has_mass(model, i, where):
        return
    I_C = inertia.I - inertia.h @ inertia.h / inertia.m
    if I_C < -1e-14 * inertia.I:  # the rounding of the shift from the origin
        raise ValueError(
            f"{where} has the rotational inertia {I_C} kg m^2 about its centre of mass; it may not "
            "be negative"
        )
