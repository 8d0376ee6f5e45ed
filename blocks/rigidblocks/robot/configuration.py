"""Configurations of a whole model: the position variables q of all its joints, which need not be
coordinates.

With a quaternion among them there are more position than velocity variables, and q + dq means
nothing. Everything works on floats and on traced scalars. Lengths are checked; floats are also
refused, with ValueError, where they are no configuration: not finite, or with a quaternion of
length zero.
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra.spatial import Array
from rigidblocks.model.tree import Tree


def neutral(model: Tree) -> Array:
    """The configuration (nq,) in which the two frames of every joint coincide: zeros, and
    quaternions (1, 0, 0, 0).
    """
    return np.concatenate([joint.neutral() for joint in model.joint])


def random_configuration(model: Tree, rng: np.random.Generator) -> Array:
    """A random configuration (nq,): angles within half a turn, distances within 1 m, rotations of
    all directions.
    """
    return np.concatenate([joint.random(rng) for joint in model.joint])


def rate(model: Tree, q: Array, qd: Array) -> Array:
    """The rate of change dq/dt (nq,) of the configuration q at the joint velocities qd (nv,) (RBDA
    Eq 3.7).

    Values are not checked: this is the right-hand side that a simulation integrates.
    """
    _check_length(model, "q", q, model.q_slices)
    _check_length(model, "qd", qd, model.v_slices)
    return np.concatenate(
        [
            joint.rate(q[k], qd[l])
            for joint, k, l in zip(model.joint, model.q_slices, model.v_slices, strict=True)
        ]
    )


def integrate(model: Tree, q: ArrayLike, dq: ArrayLike) -> Array:
    """The configuration (nq,) after unit time at the constant joint velocities dq (nv,), from q;
    also called q (+) dq.
    """
    q, dq = checked(model, q), np.asarray(dq)
    _check_length(model, "dq", dq, model.v_slices)
    return displaced(model, q, dq)


def displaced(model: Tree, q: Array, dq: Array) -> Array:
    """The same as `integrate` without the checks: for a step of a simulation."""
    return np.concatenate(
        [
            joint.integrate(q[k], dq[l])
            for joint, k, l in zip(model.joint, model.q_slices, model.v_slices, strict=True)
        ]
    )


def difference(model: Tree, q0: ArrayLike, q1: ArrayLike) -> Array:
    """The constant joint velocities (nv,) that lead from q0 to q1 in unit time, over the smaller
    angle of two.
    """
    q0, q1 = checked(model, q0), checked(model, q1)
    return _each_joint(model, lambda joint, k: joint.difference(q0[k], q1[k]))


def normalized(model: Tree, q: ArrayLike) -> Array:
    """The configuration q (nq,) with its quaternions made unit ones."""
    return unit_quaternions(model, checked(model, q))


def unit_quaternions(model: Tree, q: Array) -> Array:
    """The same as `normalized` without the checks: not finite where a quaternion is zero."""
    return _each_joint(model, lambda joint, k: joint.normalized(q[k]))


def singular_joints(model: Tree, q: Array) -> Iterator[str]:
    """Which joints have coordinates that are singular at q (nq,), and how, for messages."""
    for name, joint, k in zip(model.joint_names, model.joint, model.q_slices, strict=True):
        if how := joint.singular(q[k]):
            yield f"{name} of model '{model.name}' {how}"


def checked(model: Tree, q: ArrayLike) -> Array:
    """The configuration q (nq,) as an array.

    Raises ValueError, naming the joint, for a wrong length, and for floats that are not finite or a
    zero quaternion.
    """
    q = np.asarray(q)
    _check_length(model, "q", q, model.q_slices)
    if q.dtype == object:
        return q
    q = q.astype(float)
    for name, k in zip(model.joint_names, model.q_slices, strict=True):
        where = f"{name} of model '{model.name}'"
        if not np.all(np.isfinite(q[k])):
            raise ValueError(f"the configuration of {where} must be finite, not {q[k].tolist()}")
    check_quaternions(model, q)
    return q


def check_quaternions(model: Tree, q: Array) -> None:
    """Raises ValueError, naming the joint, where a quaternion in q (nq,) is zero; what is not
    finite passes.
    """
    for i, (joint, k) in enumerate(zip(model.joint, model.q_slices, strict=True)):
        if joint.nq > joint.nv and np.all(np.isfinite(q[k])):
            with np.errstate(all="ignore"):
                unit = joint.normalized(q[k])
            if not np.all(np.isfinite(unit)):
                where = f"{model.joint_names[i]} of model '{model.name}'"
                raise ValueError(
                    f"the quaternion of {where} must not be zero; its configuration was "
                    f"{q[k].tolist()}"
                )


def _each_joint(model: Tree, function: Callable[..., Array]) -> Array:
    return np.concatenate(
        [function(joint, k) for joint, k in zip(model.joint, model.q_slices, strict=True)]
    )


def _check_length(model: Tree, name: str, values: Array, places: tuple[slice, ...]) -> None:
    """Raises ValueError for another length than the model's, naming the first joint that is left
    without values.
    """
    needed, given = places[-1].stop, np.shape(values)
    if given == (needed,):
        return
    short = len(given) == 1 and given[0] < needed
    joint = next((i for i, place in enumerate(places) if short and place.stop > given[0]), None)
    reason = (
        ""
        if joint is None
        else f"; {model.joint_names[joint]} has {name}[{places[joint].start}:{places[joint].stop}]"
    )
    raise ValueError(f"{name} of model '{model.name}' needs shape ({needed},), not {given}{reason}")
