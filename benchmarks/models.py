"""The models that are timed, the same in Pinocchio, and whether both give the same."""

import numpy as np
import pinocchio

from rigidblocks import Model, auto_tree, planar2


def models() -> dict[str, Model]:
    """A planar robot, and chains of revolute joints with twisted axes."""
    return {
        "planar2": planar2(),
        "7 joints": auto_tree(7, skew=0.7),
        "30 joints": auto_tree(30, skew=0.7),
    }


def check_equal(what: str, ours: np.ndarray, theirs: np.ndarray, tolerance: float = 1e-12) -> None:
    """Raises RuntimeError unless two answers are equal to `tolerance`, relative to the largest.

    What is timed is compared first: a call that gives NaN or something else is no comparison.
    """
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    difference, largest = np.abs(ours - theirs).max(), np.abs(theirs).max()
    if not difference <= tolerance * largest:
        raise RuntimeError(f"{what}: two answers of {largest:.1e} differ by {difference:.1e}")


def in_pinocchio(model: Model) -> pinocchio.Model:
    """The same tree of revolute joints as a Pinocchio model."""
    other = pinocchio.Model()
    other.gravity.linear = model.gravity
    joints: list[int] = []
    for i, p in enumerate(model.parent):
        X, body = model.Xtree[i], model.inertia[i]
        placement = pinocchio.SE3(X.E.T, np.asarray(X.r, dtype=float))
        joints.append(
            other.addJoint(
                joints[p] if p >= 0 else 0, pinocchio.JointModelRZ(), placement, f"joint{i}"
            )
        )
        c = body.h / body.m
        I_C = body.I - body.m * (c @ c * np.eye(3) - np.outer(c, c))
        other.appendBodyToJoint(
            joints[i], pinocchio.Inertia(float(body.m), c, I_C), pinocchio.SE3.Identity()
        )
    return other
