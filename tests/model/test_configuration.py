"""Configurations of whole models, and the algorithms on random trees of all joint types."""

import re
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from integration import states
from maximal import forward_dynamics, jacobians, poses
from random_models import (
    random_axis,
    random_inertia,
    random_parents,
    random_state,
    random_transform,
    random_tree,
)
from rigidblocks.algebra.spatial import Array, RigidInertia, Transform, identity, xlt
from rigidblocks.dynamics import aba, bias_force, crba, energy, kinetic_energy, rnea
from rigidblocks.dynamics.equivalence import aligned
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
from rigidblocks.model.configuration import (
    checked,
    difference,
    integrate,
    neutral,
    normalized,
    random_configuration,
    rate,
)
from rigidblocks.model.model import Model
from rigidblocks.robots import planar2
from rigidblocks.tracing.trace import trace

RTOL = 1e-12  # sums of some hundred products; relative to the largest element
SOLVE = 1e-12  # what solving with H loses, times its condition
# fourth-order differences with step 1e-3: 3e-14 times a fifth derivative, up to (sum of speeds)^5
DIFFERENCE = 1e-6
INTEGRATED = 1e-9  # RK4 at h = 1 ms for 0.1 s: h^4 times a fifth derivative of some hundred

X, Y, Z = np.eye(3).tolist()
trees = given(st.integers(0, 2**32 - 1), st.integers(1, 8))


def close(actual, expected, rtol=RTOL):
    assert_allclose(
        actual, expected, rtol=0, atol=rtol * max(1.0, np.max(np.abs(expected), initial=0.0))
    )


def slope(f, h=1e-3):
    return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)


def condition(H):
    return np.linalg.cond(H) if len(H) else 1.0


def any_tree(seed, nb):
    rng = np.random.default_rng(seed)
    model = random_tree(rng, random_parents(rng, nb))
    return model, random_state(rng, model)


# configurations


def test_configuration_is_that_of_the_joints(model, rng):
    q, dq = random_configuration(model, rng), rng.uniform(-1, 1, model.nv)
    for i, joint in enumerate(model.joint):
        k, l = model.q_slices[i], model.v_slices[i]
        assert_array_equal(rate(model, q, dq)[k], joint.rate(q[k], dq[l]))
        assert_array_equal(integrate(model, q, dq)[k], joint.integrate(q[k], dq[l]))
        assert_array_equal(neutral(model)[k], joint.neutral())


def test_difference_undoes_integrate(model, rng):
    q, dq = random_configuration(model, rng), rng.uniform(-1, 1, model.nv)
    close(difference(model, q, integrate(model, q, dq)), dq)


def test_rate_is_that_of_integrate(model, rng):
    q, qd = random_configuration(model, rng), rng.uniform(-1, 1, model.nv)
    close(rate(model, q, qd), slope(lambda t: integrate(model, q, t * qd)), DIFFERENCE)


def test_normalized_configuration_has_unit_quaternions():
    model = quaternions()
    q = normalized(model, [3.0, 0.0, 4.0, 0.0, 0.5, 0.0, 0.0, 0.0, -2.0, 7.0, 8.0, 9.0])
    close(q, [0.6, 0.0, 0.8, 0.0, 0.5, 0.0, 0.0, 0.0, -1.0, 7.0, 8.0, 9.0])


def quaternions():
    rng = np.random.default_rng(3)
    model = random_tree(rng, (-1, 0, 1), (Spherical(), Revolute(), Reversed(SixDoF())))
    return replace(model, joint_names=("ball", "hinge", "free"), name="bodies")


@pytest.mark.parametrize(
    ("q", "message"),
    [
        (
            [0.0] * 12,
            "the quaternion of ball of model 'bodies' must not be zero; its configuration was "
            "[0.0, 0.0",
        ),
        (
            [1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3],
            "the quaternion of free of model 'bodies' must not be zero; its",
        ),
        (
            [1e-200, 0, 0, 0, 0, 1, 0, 0, 0, 1, 2, 3],
            "the quaternion of ball of model 'bodies' must not be zero; its",
        ),
        (
            [1, 0, 0, np.nan, 0, 1, 0, 0, 0, 1, 2, 3],
            "the configuration of ball of model 'bodies' must be finite, not",
        ),
        (
            [1, 0, 0, 0, np.inf, 1, 0, 0, 0, 1, 2, 3],
            "the configuration of hinge of model 'bodies' must be finite, not",
        ),
        (
            [1, 0, 0, 0, 0, 1, 0],
            "q of model 'bodies' needs shape (12,), not (7,); free has q[5:12]",
        ),
        ([1, 0, 0, 0], "q of model 'bodies' needs shape (12,), not (4,); hinge has q[4:5]"),
        ([0.0] * 13, "q of model 'bodies' needs shape (12,), not (13,)"),
    ],
)
@pytest.mark.parametrize(
    "function",
    [
        checked,
        normalized,
        lambda model, q: integrate(model, q, np.zeros(10)),
        lambda model, q: difference(model, q, neutral(model)),
        lambda model, q: difference(model, neutral(model), q),
    ],
)
def test_what_is_no_configuration_is_refused(function, q, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        function(quaternions(), q)


def test_velocities_of_another_length_are_refused():
    model = quaternions()
    with pytest.raises(
        ValueError,
        match=re.escape("dq of model 'bodies' needs shape (10,), not (3,); hinge has dq[3:4]"),
    ):
        integrate(model, neutral(model), np.zeros(3))
    with pytest.raises(
        ValueError, match=re.escape("qd of model 'bodies' needs shape (10,), not (12,)")
    ):
        rate(model, neutral(model), np.zeros(12))


# the algorithms on random trees of all joint types


@trees
def test_forward_and_inverse_dynamics_undo_each_other(seed, nb):
    model, s = any_tree(seed, nb)
    tolerance = SOLVE * condition(crba(model, s.q))
    close(aba(model, s.q, s.qd, rnea(model, s.q, s.qd, s.qdd, s.f_ext), s.f_ext), s.qdd, tolerance)
    close(rnea(model, s.q, s.qd, aba(model, s.q, s.qd, s.tau, s.f_ext), s.f_ext), s.tau, tolerance)


@trees
def test_inertia_matrix_is_symmetric_positive_definite_and_gives_the_kinetic_energy(seed, nb):
    model, s = any_tree(seed, nb)
    H = crba(model, s.q)
    close(H, H.T)
    assert np.all(np.linalg.eigvalsh(H) > 0)
    close(s.qd @ H @ s.qd / 2, kinetic_energy(model, s.q, s.qd))
    close(H @ s.qdd + bias_force(model, s.q, s.qd), rnea(model, s.q, s.qd, s.qdd))


@trees
def test_power_is_the_rate_of_the_energy(seed, nb):
    model, s = any_tree(seed, nb)
    qdd = aba(model, s.q, s.qd, s.tau)

    def later(t):
        return energy(model, integrate(model, s.q, t * s.qd), s.qd + t * qdd)

    # qdd is as wrong as H is ill-conditioned, and large: its fifth power needs a shorter step
    close(slope(later, 1e-4), s.tau @ s.qd, DIFFERENCE + SOLVE * condition(crba(model, s.q)))


@trees
def test_forward_dynamics_equal_the_maximal_coordinate_form(seed, nb):
    model, s = any_tree(seed, nb)
    expected = forward_dynamics(model, s.q, s.qd, s.tau, s.f_ext).qdd
    close(
        aba(model, s.q, s.qd, s.tau, s.f_ext), expected, 100 * SOLVE * condition(crba(model, s.q))
    )


# one mechanism in two forms

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


# turned frames


@trees
def test_aligned_model_is_the_same_mechanism(seed, nb):
    model, s = any_tree(seed, nb)
    other = aligned(model)
    close(crba(other, s.q), crba(model, s.q))
    close(rnea(other, s.q, s.qd, s.qdd, s.f_ext), rnea(model, s.q, s.qd, s.qdd, s.f_ext))
    close(energy(other, s.q, s.qd), energy(model, s.q, s.qd))
    tolerance = SOLVE * condition(crba(model, s.q))
    close(aba(other, s.q, s.qd, s.tau, s.f_ext), aba(model, s.q, s.qd, s.tau, s.f_ext), tolerance)


@pytest.mark.parametrize("function", [rnea, aba])
def test_general_axes_cost_no_more_than_those_along_z_when_aligned(function, rng):
    arm = random_tree(rng, tuple(range(-1, 5)), tuple(Revolute(random_axis(rng)) for _ in range(6)))
    along_z = replace(arm, joint=(Revolute(),) * 6)

    def count(model):
        return trace(
            "f", lambda *x: {"out": function(model, *x)}, dict.fromkeys("abc", (6,))
        ).operation_count

    assert count(aligned(arm)) <= count(along_z) < 0.8 * count(arm)


def test_model_with_coordinate_axes_is_aligned_as_it_is():
    for model in (planar2(), quaternions()):
        assert aligned(model) is model


# fixed joints


def test_body_on_a_fixed_joint_is_a_part_of_its_parent(rng):
    arm = random_tree(rng, (-1, 0, 1, 2), (Revolute(), Fixed(), Cylindrical(), Fixed()))
    s = random_state(rng, arm)
    I = arm.inertia
    merged = Model(
        "merged",
        (-1, 0),
        (Revolute(), Cylindrical()),
        (arm.Xtree[0], arm.Xtree[2] @ arm.Xtree[1]),
        (I[0] + I[1].to_parent(arm.Xtree[1]), I[2] + I[3].to_parent(arm.Xtree[3])),
        gravity=arm.gravity,
    )
    close(crba(arm, s.q), crba(merged, s.q))
    close(rnea(arm, s.q, s.qd, s.qdd), rnea(merged, s.q, s.qd, s.qdd))
    close(
        aba(arm, s.q, s.qd, s.tau), aba(merged, s.q, s.qd, s.tau), SOLVE * condition(crba(arm, s.q))
    )
    close(energy(arm, s.q, s.qd), energy(merged, s.q, s.qd))


def test_model_without_freedoms_has_nothing_to_compute(rng):
    model, none = random_tree(rng, (-1, 0), (Fixed(), Fixed())), np.zeros(0)
    assert aba(model, none, none, none).shape == rnea(model, none, none, none).shape == (0,)
    assert crba(model, none).shape == (0, 0)
    assert kinetic_energy(model, none, none) == 0


# free bodies


def test_free_body_falls_with_gravity_and_turns_by_euler(rng):
    # about the centre of mass: I wd = -w x I w, while the frame falls with g
    moments = np.array([1.0, 2.0, 2.5])
    body = RigidInertia(3.0, np.zeros(3), np.diag(moments))
    model = Model("body", (-1,), (SixDoF(),), (xlt([0.0, 0.0, 0.0]),), (body,))
    s = random_state(rng, model)
    w, v = s.qd[:3], s.qd[3:]
    expected_v = rotation(model, s.q) @ model.gravity - np.cross(w, v)
    close(aba(model, s.q, s.qd, np.zeros(6)), [*(-np.cross(w, moments * w) / moments), *expected_v])


def rotation(model: Model, q: Array) -> Array:
    X: Transform = model.joint[0].jcalc(q, np.zeros(6)).XJ
    return X.E


def test_joint_forces_of_a_satellite_do_not_move_its_momentum(rng):
    # 6 + n freedoms; the rate of the momentum in base coordinates is the force on the free joint,
    # which is zero
    model = random_tree(rng, (-1, 0, 1, 0), (SixDoF(), Revolute(), Universal(), Revolute(tuple(Y))))
    model = model.with_gravity(np.zeros(3))
    assert model.nv == 6 + 4
    s = random_state(rng, model)
    tau = np.concatenate([np.zeros(6), s.tau[6:]])
    qdd = aba(model, s.q, s.qd, tau)

    def momentum(t):
        q, qd = integrate(model, s.q, t * s.qd), s.qd + t * qdd
        return sum(
            x.T @ body.matrix() @ x @ J @ qd
            for x, body, J in zip(poses(model, q), model.inertia, jacobians(model, q), strict=True)
        )

    close(slope(momentum), np.zeros(6), DIFFERENCE * np.max(np.abs(tau)))
    assert np.abs(qdd[:6]).max() > 0.1


def test_planar_robot_keeps_its_coordinates():
    assert_array_equal(neutral(planar2()), np.zeros(2))
    assert_array_equal(rate(planar2(), np.ones(2), np.array([2.0, 3.0])), [2.0, 3.0])
