"""Configurations of a model: the position variables q of all joints.

A joint with a quaternion has more position variables than velocity variables, so q + dq is not
defined. The functions accept floats and traced scalars, and check the lengths of their arguments.
Functions that check values raise ValueError for non-finite floats and zero quaternions.
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.robot.tree import Tree
from rigidblocks.spatial.spatial import Array


def neutral(model: Tree) -> Array:
    """Return the neutral configuration (nq,), in which the two frames of every joint coincide.

    The elements are zero, except the first element of each quaternion, which is 1.
    """
    return np.concatenate([joint.neutral() for joint in model.joint])


def random_configuration(model: Tree, rng: np.random.Generator) -> Array:
    """Return a random configuration (nq,).

    Angles are in [-pi, pi], and distances are in [-1 m, 1 m]. Quaternions represent random
    orientations.

    Args:
        model: The model.
        rng: The random number generator.
    """
    return np.concatenate([joint.random(rng) for joint in model.joint])


def rate(model: Tree, q: Array, qd: Array) -> Array:
    """Return dq/dt (nq,) at the configuration q (nq,) and the joint velocities qd (nv,).

    The function implements RBDA Eq 3.7. It checks the lengths of the arguments but not the values,
    because simulations call it in every step.
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
    """Return the configuration (nq,) after motion for unit time at constant joint velocities.

    Args:
        model: The model.
        q: The initial configuration (nq,).
        dq: The constant joint velocities (nv,).
    """
    q, dq = configuration_array(model, q), np.asarray(dq)
    _check_length(model, "dq", dq, model.v_slices)
    return integrate_unchecked(model, q, dq)


def integrate_unchecked(model: Tree, q: Array, dq: Array) -> Array:
    """Return the result (nq,) of `integrate` without checks of the arguments."""
    return np.concatenate(
        [
            joint.integrate(q[k], dq[l])
            for joint, k, l in zip(model.joint, model.q_slices, model.v_slices, strict=True)
        ]
    )


def difference(model: Tree, q0: ArrayLike, q1: ArrayLike) -> Array:
    """Return the constant joint velocities (nv,) that move the model from q0 to q1 in unit time.

    If two rotations lead to the same orientation, the function uses the smaller rotation angle.

    Args:
        model: The model.
        q0: The initial configuration (nq,).
        q1: The final configuration (nq,).
    """
    q0, q1 = configuration_array(model, q0), configuration_array(model, q1)
    return _each_joint(model, lambda joint, k: joint.difference(q0[k], q1[k]))


def normalize_quaternions(model: Tree, q: ArrayLike) -> Array:
    """Return the configuration q (nq,) with normalized quaternions."""
    return unit_quaternions(model, configuration_array(model, q))


def unit_quaternions(model: Tree, q: Array) -> Array:
    """Return q (nq,) with normalized quaternions, without checks of q.

    The result for a zero quaternion is not finite.
    """
    return _each_joint(model, lambda joint, k: joint.normalize(q[k]))


def singular_joints(model: Tree, q: Array) -> Iterator[str]:
    """Yield a message about each joint whose coordinates are singular at q (nq,)."""
    for name, joint, k in zip(model.joint_names, model.joint, model.q_slices, strict=True):
        if how := joint.singular(q[k]):
            yield f"{name} of model '{model.name}' {how}"


def configuration_array(model: Tree, q: ArrayLike) -> Array:
    """Check the configuration q (nq,) and return it as an array.

    Raises:
        ValueError: The length is wrong, a float is not finite or a quaternion is zero; the message
            contains the joint name.
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
    """Check the quaternions in q (nq,); ignore joints with non-finite values.

    Raises:
        ValueError: A quaternion is zero; the message contains the joint name.
    """
    for i, (joint, k) in enumerate(zip(model.joint, model.q_slices, strict=True)):
        if joint.nq > joint.nv and np.all(np.isfinite(q[k])):
            with np.errstate(all="ignore"):
                unit = joint.normalize(q[k])
            if not np.all(np.isfinite(unit)):
                where = f"{model.joint_names[i]} of model '{model.name}'"
                raise ValueError(
                    f"the quaternion of {where} must not be zero; its configuration is "
                    f"{q[k].tolist()}"
                )


def _each_joint(model: Tree, function: Callable[..., Array]) -> Array:
    return np.concatenate(
        [function(joint, k) for joint, k in zip(model.joint, model.q_slices, strict=True)]
    )


def _check_length(model: Tree, name: str, values: Array, slices: tuple[slice, ...]) -> None:
    """Raise ValueError if `values` does not have one element per variable.

    `slices` contains the indices of each joint in `values`. If the array is too short, the message
    names the first joint with missing values.
    """
    needed, given = slices[-1].stop, np.shape(values)
    if given == (needed,):
        return
    short = len(given) == 1 and given[0] < needed
    joint = next((i for i, k in enumerate(slices) if short and k.stop > given[0]), None)
    reason = (
        ""
        if joint is None
        else f"; {model.joint_names[joint]} has {name}[{slices[joint].start}:{slices[joint].stop}]"
    )
    raise ValueError(f"{name} of model '{model.name}' needs shape ({needed},), not {given}{reason}")
