"""Joints of several freedoms are chains of simple ones, and reversed joints those of the mechanism
seen from the other body.
"""

from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose

from integration import states
from maximal import jacobians, poses
from random_models import random_axis, random_inertia, random_state, random_transform
from rigidblocks.algebra.spatial import Array, RigidInertia, identity
from rigidblocks.dynamics import aba, crba, rnea
from rigidblocks.joint import (
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
from rigidblocks.model.configuration import neutral, normalized, rate
from rigidblocks.model.model import Model

RTOL = 1e-12  # sums of some hundred products; relative to the largest element
SOLVE = 1e-12  # what solving with H loses, times its condition
INTEGRATED = 1e-9  # RK4 at h = 1 ms for 0.1 s: h^4 times a fifth derivative of some hundred
X, Y, Z = np.eye(3).tolist()


def close(actual, expected, rtol=RTOL):
    assert_allclose(
        actual, expected, rtol=0, atol=rtol * max(1.0, np.max(np.abs(expected), initial=0.0))
    )


def condition(H):
    return np.linalg.cond(H) if len(H) else 1.0


MASSLESS = RigidInertia(0.0, np.zeros(3), np.zeros((3, 3)))


class Chain(NamedTuple):
    """A joint of several freedoms and the chain of simple joints that allows the same motion."""

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
    """A body on the joint with a link on it, and the same with the chain, whose inner bodies have
    no mass.
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
def test_joint_is_a_chain_of_simple_joints_through_massless_bodies(name, rng):
    one, other = two_forms(COORDINATE_CHAINS[name], rng)
    s = random_state(rng, one)
    close(crba(one, s.q), crba(other, s.q))
    close(rnea(one, s.q, s.qd, s.qdd), rnea(other, s.q, s.qd, s.qdd))
    tolerance = SOLVE * condition(crba(one, s.q))
    close(aba(one, s.q, s.qd, s.tau), aba(other, s.q, s.qd, s.tau), tolerance)


def simulated(model: Model, q: Array, qd: Array, steps: int = 100, h: float = 1e-3) -> Array:
    """The poses (2, 6, 6) of the last two bodies after a fall under gravity, by RK4."""

    def f(x):
        q, qd = x[: model.nq], x[model.nq :]
        return np.concatenate([rate(model, q, qd), aba(model, q, qd, np.zeros(model.nv))])

    def with_unit_quaternions(x):
        return np.concatenate([normalized(model, x[: model.nq]), x[model.nq :]])

    x = states(f, np.concatenate([q, qd]), h, steps, with_unit_quaternions)[-1]
    return np.array(poses(model, x[: model.nq])[-2:])


@pytest.mark.parametrize("name", CHAINS)
def test_joint_moves_as_its_chain_of_simple_joints(name, rng):
    one, other = two_forms(CHAINS[name], rng)
    q, qd = neutral(other), rng.uniform(-2, 2, other.nv)
    velocities = np.concatenate([J @ qd for J in jacobians(other, q)[-2:]])
    qd_one = np.linalg.lstsq(np.vstack(jacobians(one, neutral(one))), velocities, rcond=None)[0]
    moved = simulated(other, q, qd)
    close(simulated(one, neutral(one), qd_one), moved, INTEGRATED)
    assert np.abs(moved - np.array(poses(other, q)[-2:])).max() > 0.1


def test_reversed_joint_is_the_forward_joint_of_the_mechanism_seen_from_the_other_body(rng):
    # body 1 free, body 2 on its rack: the pinion on body 1 and the rack on body 2 is the reversed
    # joint
    place, other_place = random_transform(rng), random_transform(rng)
    first, second = random_inertia(rng), random_inertia(rng)
    joint = RackAndPinion(0.3)

    def free_pair(root, leaf, here, there, joint):
        return Model(
            "pair",
            (-1, 0),
            (SixDoF(), joint),
            (identity(), here),
            (root, leaf.to_parent(there.inverse())),
        )

    forward = free_pair(first, second, place, other_place, joint)
    back = free_pair(second, first, other_place, place, Reversed(joint))
    tau, q, qd = np.array([*np.zeros(6), 3.0]), 0.4, 1.5
    X = poses(forward, np.array([1.0, 0, 0, 0, 0, 0, 0, q]))
    # the same motion seen from the second body, whose own frame is at other_place of the joint's
    # successor frame
    to_second = other_place.inverse().matrix() @ X[1]
    v = np.linalg.inv(X[1]) @ joint.jcalc(np.array([q]), np.array([qd])).vJ
    root = rotated_root(to_second)
    start = np.concatenate([root, [q]])
    one = aba(forward, np.array([1.0, 0, 0, 0, 0, 0, 0, q]), np.array([*np.zeros(6), qd]), tau)
    other = aba(back, start, np.concatenate([to_second @ v, [qd]]), tau)
    close(other[-1], one[-1], 1e-10)


def rotated_root(X):
    """The configuration of a 6-DoF joint from its 6x6 transform."""
    E, rx = X[:3, :3], -X[:3, :3].T @ X[3:, :3]
    joint, start = Spherical(), np.array([1.0, 0.0, 0.0, 0.0])
    angle = np.arccos(np.clip((np.trace(E) - 1) / 2, -1, 1))
    axis = np.array([E[1, 2] - E[2, 1], E[2, 0] - E[0, 2], E[0, 1] - E[1, 0]]) / (2 * np.sin(angle))
    return np.concatenate([joint.integrate(start, angle * axis), [rx[2, 1], rx[0, 2], rx[1, 0]]])
