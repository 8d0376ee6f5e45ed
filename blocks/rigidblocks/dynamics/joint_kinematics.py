"""The position and velocity kinematics that all algorithms start with (RBDA 4.4, Table 5.1).

Lists are indexed by body; their last entry, which is number -1, is the base.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.factored import factored
from rigidblocks.algebra.scalar import is_traced
from rigidblocks.algebra.spatial import Array
from rigidblocks.model.configuration import check_quaternions
from rigidblocks.model.tree import Tree


def joint_kinematics(model: Tree, i: int, q: Array, qd: Array) -> tuple[Any, Array, Array, Array]:
    """The transform from the parent to body i, and S, vJ and cJ of its joint (RBDA Table 5.1)."""
    XJ, S, vJ, cJ = model.joint[i].jcalc(q[model.q_slices[i]], qd[model.v_slices[i]])
    return to_body(model, i, XJ, q), S, vJ, cJ


def transforms_and_subspaces(model: Tree, q: Array, base: int = -1) -> tuple[list[Any], list[Any]]:
    """Xup and S of the joints behind body `base`, by body."""
    (Xup, S), still = per_body(model, 2), np.zeros(model.nv)
    for i in range(base + 1, model.nb):
        Xup[i], S[i], _, _ = joint_kinematics(model, i, q, still)
    return Xup, S


def to_body(model: Tree, i: int, XJ: Any, q: Array) -> Any:
    """Xup = XJ Xtree, from the parent to body i; in factors in a trace, where q is traced."""
    X = model.Xtree[i]
    return factored(XJ, X) if is_traced(q) else XJ @ X


class Base(NamedTuple):
    """What the bodies hang on: body number `body`, the transform X from fixed-base to its
    coordinates, and its velocity v in them; -1 is the fixed base itself.
    """

    body: int
    X: Any
    v: Array


def fixed_base(model: Tree) -> Base:
    """The base that does not move."""
    return Base(-1, model.algebra.identity(), model.algebra.zero())


def base_transforms(model: Tree, Xup: list[Any], base: Base | None = None) -> list[Any]:
    """The transforms from fixed-base to body coordinates of all bodies behind `base`, from those of
    their parents; None for the bodies before it.
    """
    base = base or fixed_base(model)
    X0: list[Any] = [None] * (model.nb + 1)
    X0[base.body] = base.X
    for i in range(base.body + 1, model.nb):
        X0[i] = Xup[i] @ X0[model.parent[i]]
    return X0[:-1]


def less_external_forces(
    model: Tree, base: Base, Xup: list[Any], f: list[Any], f_ext: Array | None
) -> list[Any]:
    """The forces on the bodies without their shares in f_ext, in fixed-base coordinates."""
    if f_ext is None:
        return f
    X0 = base_transforms(model, Xup, base)
    return [f[i] if X0[i] is None else f[i] - X0[i].force(f_ext[i]) for i in range(model.nb)]


def minus_gravity(model: Tree, gravity: Array | None) -> Array:
    """The fictitious acceleration of the base, -a_g, that stands for uniform gravity (RBDA 5.3)."""
    a_g: Array = model.algebra.uniform(np.asarray(model.gravity if gravity is None else gravity))
    return -a_g


def per_body(model: Tree, count: int) -> tuple[list[Any], ...]:
    """As many empty lists, each with a place for every body and the base."""
    return tuple([None] * (model.nb + 1) for _ in range(count))


def supported(parent: Sequence[int], fd: Sequence[Any]) -> tuple[bool, ...]:
    """nu(fd): for every body whether a joint of `fd` supports it (RBDA Eq 9.5)."""
    nu = [bool(known) for known in fd]
    for i, p in enumerate(parent):
        nu[i] = nu[i] or (p >= 0 and nu[p])
    return tuple(nu)


def support(model: Tree, body: str | int) -> list[int]:
    """kappa(body): the joints on the way from the base to the body, given by its name or number, in
    that order (RBDA 4.1.4).

    Raises ValueError for a body that the model has not.
    """
    path, i = list[int](), body_number(model, body)
    while i >= 0:
        path.append(i)
        i = model.parent[i]
    return path[::-1]


def joint_number(model: Tree, joint: str | int) -> int:
    """The number of a joint given by its name or number; raises ValueError for one that there is
    not.
    """
    return _number(model, "joint", joint, model.joint_names)


def body_number(model: Tree, body: str | int) -> int:
    """The number of a body given by its name or number; raises ValueError for one that there is
    not.
    """
    return _number(model, "body", body, model.body_names)


def _number(model: Tree, what: str, wanted: str | int, names: tuple[str, ...]) -> int:
    if wanted in names:
        return names.index(str(wanted))
    if isinstance(wanted, int | np.integer) and 0 <= wanted < model.nb:
        return int(wanted)
    raise ValueError(
        f"model '{model.name}' has no {what} {wanted!r}; it has: {', '.join(names)}, or 0 to "
        f"{model.nb - 1}"
    )


def check_lengths(model: Tree, f_ext: Array | None = None, **vectors: Array) -> None:
    """Raises ValueError for a vector of another length than the model's, naming the first joint
    that has none of it.

    q has nq elements, all others nv; f_ext has a row for every body. A zero quaternion in q is
    refused too, unless traced.
    """
    if f_ext is not None and len(f_ext) != model.nb:
        raise ValueError(
            f"f_ext has {len(f_ext)} rows, but model '{model.name}' has {model.nb} bodies"
        )
    for name, vector in vectors.items():
        places = model.q_slices if name == "q" else model.v_slices
        if (given := len(vector)) != (needed := places[-1].stop):
            raise ValueError(
                f"{name} of model '{model.name}' needs {needed} elements, not "
                f"{given}{_missing(model, name, given)}"
            )
    if "q" in vectors and model.nq > model.nv and (q := np.asarray(vectors["q"])).dtype != object:
        check_quaternions(model, q)


def _missing(model: Tree, name: str, given: int) -> str:
    """What may have been forgotten: the variables of a floating base, or those of a joint."""
    places = model.q_slices if name == "q" else model.v_slices
    body = behind_six_freedoms(model)
    if body is not None and given == places[-1].stop - places[body].stop:
        return (
            "; without the variables of its floating base it is for aba_floating and rnea_floating"
        )
    for joint, place in zip(model.joint_names, places, strict=True):
        if place.stop > given:
            return f"; {joint} has {name}[{place.start}:{place.stop}]"
    return ""


def behind_six_freedoms(model: Tree) -> int | None:
    """The body that the first six freedoms carry, if the bodies before it are an unbranched chain
    without mass, and all others hang on it: that is a floating base.
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
