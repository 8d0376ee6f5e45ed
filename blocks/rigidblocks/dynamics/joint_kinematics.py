"""Joint kinematics, joint indices and checks of vector lengths, shared by all algorithms.

Position and velocity kinematics follow RBDA 4.4 and Table 5.1. Lists are indexed by body. The last
entry of a list (index -1) is for the base.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.common.name_hints import close_match_hint
from rigidblocks.robot.configuration import check_quaternions
from rigidblocks.robot.tree import Tree, check_model
from rigidblocks.spatial.scalar import is_traced
from rigidblocks.spatial.spatial import Array, multiply_transforms


def joint_kinematics(model: Tree, i: int, q: Array, qd: Array) -> tuple[Any, Array, Array, Array]:
    """Return the transform Xup, motion subspace S, velocity vJ and bias acceleration cJ of joint i.

    Xup is the transform from the parent to body i. S, vJ and cJ are in coordinates of body i.
    """
    XJ, S, vJ, cJ = model.joint[i].jcalc(q[model.q_slices[i]], qd[model.v_slices[i]])
    return body_transform(model, i, XJ, q), S, vJ, cJ


def transforms_and_subspaces(model: Tree, q: Array, base: int = -1) -> tuple[list[Any], list[Any]]:
    """Return the transforms Xup and the motion subspaces S of the joints with index above `base`.

    Xup[i] is the transform from the parent to body i.
    """
    (Xup, S), still = body_lists(model, 2), np.zeros(model.nv)
    for i in range(base + 1, model.nb):
        Xup[i], S[i], _, _ = joint_kinematics(model, i, q, still)
    return Xup, S


def body_transform(model: Tree, i: int, XJ: Any, q: Array) -> Any:
    """Return the transform Xup = XJ Xtree from the parent to body i.

    If q is traced, the result stores XJ and Xtree as factors instead of their product.
    """
    X = model.Xtree[i]
    return multiply_transforms(XJ, X) if is_traced(q) else XJ @ X


class Base(NamedTuple):
    """Body at which a recursion over the bodies starts.

    `body` is the index of this body, or -1 for the fixed base. `X` is the transform from fixed-base
    to body coordinates, `v` the velocity in body coordinates.
    """

    body: int
    X: Any
    v: Array


def fixed_base(model: Tree) -> Base:
    """Return the fixed base, from which a recursion over all bodies starts."""
    return Base(-1, model.algebra.identity(), model.algebra.zero())


def base_transforms(model: Tree, Xup: list[Any], base: Base | None = None) -> list[Any]:
    """Return the transforms from fixed-base coordinates to the body `base` and its descendants.

    `Xup` contains the transforms from the parents. The entries of bodies with a lower index than
    `base` are None.
    """
    base = base or fixed_base(model)
    X0: list[Any] = [None] * (model.nb + 1)
    X0[base.body] = base.X
    for i in range(base.body + 1, model.nb):
        X0[i] = Xup[i] @ X0[model.parent[i]]
    return X0[:-1]


def subtract_external_forces(
    model: Tree, base: Base, Xup: list[Any], f: list[Any], f_ext: Array | None
) -> list[Any]:
    """Subtract the external wrenches f_ext (fixed-base coordinates) from the body forces f."""
    if f_ext is None:
        return f
    X0 = base_transforms(model, Xup, base)
    return [f[i] if X0[i] is None else f[i] - X0[i].force(f_ext[i]) for i in range(model.nb)]


def minus_gravity(model: Tree, gravity: Array | None) -> Array:
    """Return the fictitious base acceleration -a_g, which replaces uniform gravity (RBDA 5.3)."""
    a_g: Array = model.algebra.uniform_field(
        np.asarray(model.gravity if gravity is None else gravity)
    )
    return -a_g


def body_lists(model: Tree, count: int) -> tuple[list[Any], ...]:
    """Return `count` lists with nb + 1 items, initially None, for the bodies and the base."""
    return tuple([None] * (model.nb + 1) for _ in range(count))


def supporting_joints(parent: Sequence[int], fd: Sequence[Any]) -> tuple[bool, ...]:
    """Return a mask of the bodies that selected joints support, nu of RBDA Eq 9.5.

    `fd` is True for the selected joints. Element i of the mask is True if at least one selected
    joint is on the path from the base to body i.
    """
    nu = [bool(known) for known in fd]
    for i, p in enumerate(parent):
        nu[i] = nu[i] or (p >= 0 and nu[p])
    return tuple(nu)


def support(model: Tree, body: str | int) -> list[int]:
    """Return the support kappa: the joints on the path from the base to a body (RBDA 4.1.4).

    The body is given by name or index. The joints are in the order of the path.

    Raises:
        ValueError: The model does not have the body.
    """
    path, i = list[int](), body_number(model, body)
    while i >= 0:
        path.append(i)
        i = model.parent[i]
    return path[::-1]


def joint_number(model: Tree, joint: str | int) -> int:
    """Return the index of a joint given by name or index; raise ValueError if it is unknown."""
    return _number(model, "joint", joint, model.joint_names)


def body_number(model: Tree, body: str | int) -> int:
    """Return the index of a body given by name or index; raise ValueError if it is unknown."""
    return _number(model, "body", body, model.body_names)


def _number(model: Tree, kind: str, identifier: str | int, names: tuple[str, ...]) -> int:
    if identifier in names:
        return names.index(str(identifier))
    if isinstance(identifier, int | np.integer) and 0 <= identifier < model.nb:
        return int(identifier)
    raise ValueError(
        f"model '{model.name}' has no {kind} {identifier!r}; it has: {', '.join(names)}, or 0 to "
        f"{model.nb - 1}{close_match_hint(str(identifier), names)}"
    )


def check_lengths(model: Tree, f_ext: Array | None = None, **vectors: Array) -> None:
    """Check that q has nq elements, other joint vectors nv elements, and f_ext one row per body.

    Raises:
        TypeError: `model` is not a robot model.
        ValueError: A length is wrong, or q contains a zero quaternion and is not traced. The
            message names the first joint whose elements are missing.
    """
    check_model(model, "the model of a dynamics function")
    if f_ext is not None and len(f_ext) != model.nb:
        raise ValueError(
            f"f_ext has {len(f_ext)} rows, but model '{model.name}' has {model.nb} bodies"
        )
    for name, vector in vectors.items():
        places = model.q_slices if name == "q" else model.v_slices
        if (count := len(vector)) != (needed := places[-1].stop):
            raise ValueError(
                f"{name} of model '{model.name}' needs {needed} elements, not "
                f"{count}{_missing_elements_hint(model, name, count)}"
            )
    if "q" in vectors and model.nq > model.nv and (q := np.asarray(vectors["q"])).dtype != object:
        check_quaternions(model, q)


def _missing_elements_hint(model: Tree, name: str, count: int) -> str:
    """Return a hint that names the joint or floating base whose elements are missing."""
    places = model.q_slices if name == "q" else model.v_slices
    body = floating_base_body(model)
    if body is not None and count == places[-1].stop - places[body].stop:
        return "; aba_floating and rnea_floating take vectors without the floating base"
    for joint, place in zip(model.joint_names, places, strict=True):
        if place.stop > count:
            return f"; {joint} has {name}[{place.start}:{place.stop}]"
    return ""


def floating_base_body(model: Tree) -> int | None:
    """Return the index of the floating base, or None if the model has no floating base.

    The floating base is the body that the first six degrees of freedom move. The bodies before the
    floating base must be a massless unbranched chain. All other bodies must be its descendants.
    """
    freedoms = np.cumsum([joint.nv for joint in model.joint])
    body = int(np.argmax(freedoms == 6))
    chain = model.parent[: body + 1] == tuple(range(-1, body)) and all(
        model.inertia[i].m == 0 for i in range(body)
    )
    return (
        body
        if freedoms[body] == 6 and chain and min(model.parent[body + 1 :], default=body) >= body
        else None
    )


def joint_numbers(tree: Tree, joints: Iterable[str | int], purpose: str) -> list[int]:
    """Return the indices 0 .. nb-1 of the given joints, without duplicates, in the given order.

    Args:
        tree: Model with the joints.
        joints: Joint names or indices.
        purpose: Adjective for the joints in the error message, such as actuated.

    Raises:
        ValueError: A joint is unknown.
    """
    numbers = []
    for joint in joints:
        known = joint in tree.joint_names if isinstance(joint, str) else 0 <= joint < tree.nb
        if not known:
            raise ValueError(
                f"unknown {purpose} joint {joint!r} in model '{tree.name}'; expected one "
                f"of {', '.join(tree.joint_names)}, or 0 .. {tree.nb - 1}"
            )
        numbers.append(tree.joint_names.index(joint) if isinstance(joint, str) else int(joint))
    return list(dict.fromkeys(numbers))


def velocity_columns(tree: Tree, joints: Iterable[str | int], purpose: str) -> list[int]:
    """Return the indices in qd of the velocity variables of the given joints.

    The arguments are as in `joint_numbers`.
    """
    places = [tree.v_slices[i] for i in joint_numbers(tree, joints, purpose)]
    return [column for place in places for column in range(place.start, place.stop)]


def velocity_names(model: Tree) -> tuple[str, ...]:
    """Return the names of the velocity variables (nv,).

    The name of a variable is the joint name, followed by an index in brackets if the joint has
    several variables.
    """
    return tuple(
        name if joint.nv == 1 else f"{name}[{k}]"
        for name, joint in zip(model.joint_names, model.joint, strict=True)
        for k in range(joint.nv)
    )
