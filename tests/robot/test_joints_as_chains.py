"""Joints with several degrees of freedom compared with chains of simple joints.

A reversed joint equals the forward joint of the mechanism with exchanged bodies.
"""

from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose

from integration import states
from maximal import jacobians, poses
from random_models import random_axis, random_inertia, random_state, random_transform
from rigidblocks.dynamics import aba, crba, rnea
from rigidblocks.robot.configuration import neutral, normalize_quaternions, rate
from rigidblocks.robot.joints import (
    Cylindrical,
    EulerSpherical,
    Fixed,
    Joint,
    Planar,
    Prismatic,
    RackAndPinion,
    Reversed,
    Revolute,
    SixDoF,
    Spherical,
    Universal,
)
from rigidblocks.robot.model import Model
from rigidblocks.spatial.spatial import Array, RigidInertia, identity

RTOL = 1e-12  # rounding errors of a few hundred products, relative to the largest element
SOLVE = 1e-12  # relative error of a solution with H, per unit of its condition number
INTEGRATED = 1e-9  # RK4 at h = 1 ms for 0.1 s: h^4 times a fifth derivative of a few hundred
X, Y, Z = np.eye(3).tolist()


def close(actual, expected, rtol=RTOL):
    assert_allclose(
        actual, expected, rtol=0, atol=rtol * max(1.0, np.max(np.abs(expected), initial=0.0))
    )


def condition(H):
    return np.linalg.cond(H) if len(H) else 1.0


MASSLESS = RigidInertia(0.0, np.zeros(3), np.zeros((3, 3)))


class Chain(NamedTuple):
    """Joint with several degrees of freedom and a chain of simple joints with the same motion."""

    joint: Joint
    links: tuple[Joint, ...]


SLIDES = (Prismatic(tuple(X)), Prismatic(tuple(Y)), Prismatic(tuple(Z)))
TURNS = (Revolute(tuple(Z)), Revolute(tuple(Y)), Revolute(tuple(X)))
AXES = random_axis(np.random.default_rng(1)), random_axis(np.random.default_rng(2))
COORDINATE_CHAINS = {
    "cylindrical": Chain(Cylindrical(AXES[0]), (Revolute(AXES[0]), Prismatic(AXES[0]))),
    "universal": Chain(Universal(*AXES), (Revolute(AXES[0]), Revolute(AXES[1]))),
    "euler spherical": Chain(EulerSpherical(), TURNS),
    "fixed": Chain(Revolute(AXES[0]), (Fixed(), Revolute(AXES[0]), Fixed())),
}
CHAINS = COORDINATE_CHAINS | {
    "planar": Chain(Planar(), (*SLIDES[:2], TURNS[0])),
    "spherical": Chain(Spherical(), TURNS),
    "six-dof": Chain(SixDoF(), (*SLIDES, *TURNS)),
    "reversed six-dof": Chain(Reversed(SixDoF()), (*SLIDES, *TURNS)),
    "reversed universal": Chain(
        Reversed(Universal(*AXES)), tuple(Reversed(Revolute(axis)) for axis in AXES[::-1])
    ),
}


def two_forms(chain, rng):
    """Return a model with the joint and a model with the chain.

    Each model has a body and a link; the inner bodies of the chain are massless.
    """
    Xtree, Xlink, bodies = (
        random_transform(rng),
        random_transform(rng),
        (random_inertia(rng), random_inertia(rng)),
    )
    one = Model("one", (-1, 0), (chain.joint, Revolute()), (Xtree, Xlink), bodies)
    n = len(chain.links)
    names = (*(f"inner{k}" for k in range(n - 1)), "body", "link")
    other = Model(
        "other",
        tuple(range(-1, n)),
        (*chain.links, Revolute()),
        (Xtree, *[identity()] * (n - 1), Xlink),
        (*[MASSLESS] * (n - 1), *bodies),
        body_names=names,
        massless=names[: n - 1],
    )
    return one, other


@pytest.mark.parametrize("name", COORDINATE_CHAINS)
def test_joint_has_the_equation_of_motion_of_the_equivalent_chain_of_single_dof_joints(name, rng):
    one, other = two_forms(COORDINATE_CHAINS[name], rng)
    s = random_state(rng, one)
    close(crba(one, s.q), crba(other, s.q))
    close(rnea(one, s.q, s.qd, s.qdd), rnea(other, s.q, s.qd, s.qdd))
    tolerance = SOLVE * condition(crba(one, s.q))
    close(aba(one, s.q, s.qd, s.tau), aba(other, s.q, s.qd, s.tau), tolerance)


def simulated(model: Model, q: Array, qd: Array, steps: int = 100, h: float = 1e-3) -> Array:
    """Simulate a fall under gravity with RK4; return the poses (2, 6, 6) of the last two bodies."""

    def f(x):
        q, qd = x[: model.nq], x[model.nq :]
        return np.concatenate([rate(model, q, qd), aba(model, q, qd, np.zeros(model.nv))])

    def with_unit_quaternions(x):
        return np.concatenate([normalize_quaternions(model, x[: model.nq]), x[model.nq :]])

    x = states(f, np.concatenate([q, qd]), h, steps, with_unit_quaternions)[-1]
    return np.array(poses(model, x[: model.nq])[-2:])


@pytest.mark.slow
@pytest.mark.parametrize("name", CHAINS)
def test_joint_moves_like_the_equivalent_chain_of_single_dof_joints(name, rng):
    one, other = two_forms(CHAINS[name], rng)
    q, qd = neutral(other), rng.uniform(-2, 2, other.nv)
    velocities = np.concatenate([J @ qd for J in jacobians(other, q)[-2:]])
    qd_one = np.linalg.lstsq(np.vstack(jacobians(one, neutral(one))), velocities, rcond=None)[0]
    moved = simulated(other, q, qd)
    close(simulated(one, neutral(one), qd_one), moved, INTEGRATED)
    assert np.abs(moved - np.array(poses(other, q)[-2:])).max() > 0.1


def test_reversed_joint_has_the_dynamics_of_the_forward_joint_with_exchanged_bodies(rng):
    # the first model has a free body with the rack and a second body with the pinion; the second
    # model has exchanged bodies and the reversed joint
    place, other_place = random_transform(rng), random_transform(rng)
    first, second = random_inertia(rng), random_inertia(rng)
    joint = RackAndPinion(0.3)

    def free_pair(root, leaf, here, there, joint):
        return Model(
            "pair",
            (-1, 0),
            (SixDoF(), joint),
            (identity(), here),
            (root, leaf.transform_to_parent(there.inverse())),
        )

    forward = free_pair(first, second, place, other_place, joint)
    back = free_pair(second, first, other_place, place, Reversed(joint))
    tau, q, qd = np.array([*np.zeros(6), 3.0]), 0.4, 1.5
    X = poses(forward, np.array([1.0, 0, 0, 0, 0, 0, 0, q]))
    # same motion with the second body as root; `other_place` is the pose of its frame in the
    # successor frame of the joint
    to_second = other_place.inverse().matrix() @ X[1]
    v = np.linalg.inv(X[1]) @ joint.jcalc(np.array([q]), np.array([qd])).vJ
    root = rotated_root(to_second)
    start = np.concatenate([root, [q]])
    one = aba(forward, np.array([1.0, 0, 0, 0, 0, 0, 0, q]), np.array([*np.zeros(6), qd]), tau)
    other = aba(back, start, np.concatenate([to_second @ v, [qd]]), tau)
    close(other[-1], one[-1], 1e-10)


def rotated_root(X):
    """Return the configuration of a 6-DoF joint with the given 6x6 transform."""
    E, rx = X[:3, :3], -X[:3, :3].T @ X[3:, :3]
    joint, start = Spherical(), np.array([1.0, 0.0, 0.0, 0.0])
    angle = np.arccos(np.clip((np.trace(E) - 1) / 2, -1, 1))
    axis = np.array([E[1, 2] - E[2, 1], E[2, 0] - E[0, 2], E[0, 1] - E[1, 0]]) / (2 * np.sin(angle))
    return np.concatenate([joint.integrate(start, angle * axis), [rx[2, 1], rx[0, 2], rx[1, 0]]])
