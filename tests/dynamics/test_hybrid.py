"""Hybrid dynamics with given forces or accelerations at each joint (RBDA 9.1, 9.2)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from planar_models import random_planar_state, random_planar_tree
from random_models import MODELS, random_parents, random_state, random_tree
from rigidblocks.dynamics import (
    aba,
    bias_force,
    crba,
    forward_dynamics_crba,
    hybrid_dynamics,
    hybrid_dynamics_crba,
    inertia_times,
    rnea,
)
from rigidblocks.dynamics.forward import crba_of, reduced_parent
from rigidblocks.dynamics.joint_kinematics import supporting_joints
from rigidblocks.robot.joints import Revolute
from rigidblocks.robot.model import Model
from rigidblocks.robot.robots import auto_tree, planar_n
from rigidblocks.spatial.spatial import RigidInertia, mcI, xlt

RTOL = 1e-12  # rounding errors of a few hundred products, relative to the largest element
SOLVE = 1e-13  # relative error of solutions with H, per unit of its condition number
METHODS = (hybrid_dynamics, hybrid_dynamics_crba)


def close(actual, expected, rtol=RTOL):
    assert_allclose(
        actual, expected, rtol=0, atol=rtol * max(1.0, np.max(np.abs(expected), initial=0))
    )


def variables_of_joints(model, fd):
    return np.repeat(np.asarray(fd, bool), [joint.nv for joint in model.joint])


@pytest.mark.parametrize("method", METHODS)
def test_hybrid_dynamics_with_all_joint_forces_known_matches_forward_dynamics(model, rng, method):
    s = random_state(rng, model)
    result = method(model, [True] * model.nb, s.q, s.qd, np.full(model.nv, np.nan), s.tau, s.f_ext)
    close(
        result.qdd, aba(model, s.q, s.qd, s.tau, s.f_ext), SOLVE * np.linalg.cond(crba(model, s.q))
    )
    assert_array_equal(result.tau, s.tau)


@pytest.mark.parametrize("method", METHODS)
def test_hybrid_dynamics_with_all_joint_accelerations_known_matches_inverse_dynamics(
    model, rng, method
):
    s = random_state(rng, model)
    result = method(model, [False] * model.nb, s.q, s.qd, s.qdd, np.full(model.nv, np.nan), s.f_ext)
    close(result.tau, rnea(model, s.q, s.qd, s.qdd, s.f_ext))
    assert_array_equal(result.qdd, s.qdd)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("mask", range(4))
def test_hybrid_dynamics_satisfies_the_equation_of_motion(model, rng, method, mask):
    s, g = random_state(rng, model), rng.uniform(-9, 9, 3)
    fd = np.random.default_rng(mask).integers(0, 2, model.nb)
    known = variables_of_joints(model, fd)
    qdd_in, tau_in = np.where(known, np.nan, s.qdd), np.where(known, s.tau, np.nan)
    qdd, tau = method(model, fd, s.q, s.qd, qdd_in, tau_in, s.f_ext, g)
    H = crba(model, s.q)
    residual = H @ qdd + bias_force(model, s.q, s.qd, s.f_ext, g) - tau
    assert np.max(np.abs(residual)) <= SOLVE * np.linalg.cond(H) * np.max(np.abs(tau))
    assert_array_equal(qdd[~known], s.qdd[~known])
    assert_array_equal(tau[known], s.tau[known])


@pytest.mark.parametrize("method", METHODS)
def test_hybrid_dynamics_recovers_the_missing_accelerations_and_forces(rng, method):
    # test_HD of spatial_v1: the given half of qdd and tau determines the other half
    for _ in range(4):
        tree = auto_tree(int(rng.integers(2, 12)), rng.uniform(1, 2), rng.uniform(-1, 1), 0.95)
        s = random_state(rng, tree)
        tau = rnea(tree, s.q, s.qd, s.qdd, s.f_ext)
        fd = rng.integers(0, 2, tree.nb)
        result = method(tree, fd, s.q, s.qd, np.where(fd, 0, s.qdd), np.where(fd, tau, 0), s.f_ext)
        condition = np.linalg.cond(crba(tree, s.q))
        close(result.qdd, s.qdd, SOLVE * condition)
        close(result.tau, tau, SOLVE * condition)


@pytest.mark.parametrize("method", METHODS)
def test_hybrid_dynamics_supports_planar_models(rng, method):
    model = random_planar_tree(rng, (-1, 0, 0, 1, 2, 2))
    s, fd = random_planar_state(rng, model), np.array([1, 0, 1, 1, 0, 1])
    qdd, tau = method(model, fd, s.q, s.qd, s.qdd, s.tau, s.f_ext)
    H = crba(model, s.q)
    close(H @ qdd + bias_force(model, s.q, s.qd, s.f_ext), tau, SOLVE * np.linalg.cond(H))
    close(inertia_times(model, s.q, qdd), H @ qdd)


def test_hybrid_forward_dynamics_inverts_hybrid_inverse_dynamics(rng):
    # test_FD of spatial_v1
    for forward in (aba, forward_dynamics_crba):
        tree = auto_tree(12, 1.5, np.pi / 3, 0.9)
        s = random_state(rng, tree)
        tau = rnea(tree, s.q, s.qd, s.qdd, s.f_ext)
        close(
            forward(tree, s.q, s.qd, tau, s.f_ext), s.qdd, SOLVE * np.linalg.cond(crba(tree, s.q))
        )


def test_motion_with_prescribed_acceleration_is_the_limit_of_a_stiff_acceleration_servo(rng):
    # a servo with gain k on the acceleration error has an acceleration error of about 1/k
    model = MODELS["mixed"]()
    s = random_state(rng, model)
    fd = np.array([0, 1, 1, 0, 1, 1, 1], bool)
    ideal = hybrid_dynamics(model, fd, s.q, s.qd, s.qdd, s.tau)
    H, C = crba(model, s.q), bias_force(model, s.q, s.qd)
    errors = []
    for gain in (1e4, 1e5, 1e6):
        K = np.diag(np.where(fd, 0.0, gain))
        qdd = np.linalg.solve(H + K, np.where(fd, s.tau, 0.0) - C + K @ s.qdd)
        errors.append(np.max(np.abs(qdd - ideal.qdd)))
    assert_allclose(np.divide(errors[:-1], errors[1:]), 10, rtol=0.05)
    assert errors[-1] < 1e-3


def test_hybrid_dynamics_adds_rotor_inertia_to_the_diagonal_of_the_inertia_matrix(model, rng):
    s, rotor = random_state(rng, model), rng.uniform(0, 5, model.nv)
    fd = np.arange(model.nb) % 2
    result = hybrid_dynamics(model, fd, s.q, s.qd, s.qdd, s.tau, s.f_ext, rotor_inertia=rotor)
    H = crba(model, s.q) + np.diag(rotor)
    residual = H @ result.qdd + bias_force(model, s.q, s.qd, s.f_ext) - result.tau
    assert np.max(np.abs(residual)) <= SOLVE * np.linalg.cond(H) * np.max(np.abs(result.tau))


# inertia matrix of the unknown accelerations


def test_inertia_matrix_of_selected_joints_equals_the_submatrix_of_the_full_inertia_matrix(
    model, rng
):
    q = random_state(rng, model).q
    for _ in range(4):
        fd = rng.integers(0, 2, model.nb)
        known = variables_of_joints(model, fd)
        close(crba_of(model, q, fd), crba(model, q)[np.ix_(known, known)])


def test_reduced_parent_array_of_hybrid_dynamics_matches_rbda_figure_9_1():
    # RBDA Fig 9.1: joints 1 and 2 are inverse-dynamics joints, so bodies 1 and 2 merge with the
    # base and bodies 3 .. 7 become 1 .. 5; the tree is chosen to fit the caption of the figure
    reduced, number = reduced_parent((-1, 0, 1, 1, 2, 2, 3), (0, 0, 1, 1, 1, 1, 1))
    assert number == (-1, -1, 0, 1, 2, 3, 4)
    assert reduced == (-1, -1, 0, 0, 1)


def test_joint_supports_the_bodies_of_its_subtree():
    assert supporting_joints((-1, 0, 0, 1, 2), (0, 1, 0, 0, 0)) == (False, True, False, True, False)
    assert supporting_joints((-1, 0, 0, 1, 2), (1, 0, 0, 0, 0)) == (True,) * 5


# rejected inputs


@pytest.mark.parametrize(
    "fd", [[True], [True, False, 2], [0.5, 1, 0], ["yes", "no", "no"], [[1, 0, 1]]]
)
@pytest.mark.parametrize("method", METHODS)
def test_hybrid_dynamics_rejects_a_joint_mask_of_wrong_length_or_type(fd, method):
    arm, zero = planar_n(3), np.zeros(3)
    with pytest.raises(
        ValueError, match="fd needs one boolean for each of the 3 joints of model 'planar3', not"
    ):
        method(arm, fd, zero, zero, zero, zero)


def upright_wrist():
    """Return a mass point on two joints.

    At q = 0 the mass is on the axis of the first joint, so the inertia about this axis is zero.
    """
    point = mcI(1.0, [0.0, 0.0, 1.0], np.zeros((3, 3)))
    return Model(
        "wrist",
        (-1, 0),
        (Revolute(), Revolute((1.0, 0.0, 0.0))),
        (xlt(np.zeros(3)), xlt(np.zeros(3))),
        (RigidInertia(0.0, np.zeros(3), np.zeros((3, 3))), point),
        massless=("body1",),
    )


@pytest.mark.parametrize(
    ("method", "message"),
    [(METHODS[0], r"joint 0 \(joint1\) of model 'wrist'"), (METHODS[1], "pivot")],
)
def test_hybrid_dynamics_rejects_a_force_input_at_a_joint_without_inertia(method, message):
    wrist, zero = upright_wrist(), np.zeros(2)
    with pytest.raises(ValueError, match=message):
        method(wrist, [True, True], zero, zero, zero, zero)
    assert np.all(np.isfinite(method(wrist, [False, True], zero, zero, np.ones(2), np.ones(2)).qdd))


# random trees and masks


@pytest.mark.slow
@given(st.integers(0, 10_000), st.integers(1, 10))
def test_hybrid_dynamics_of_random_trees_satisfies_the_equation_of_motion(seed, nb):
    rng = np.random.default_rng(seed)
    model = random_tree(rng, random_parents(rng, nb))
    s, fd = random_state(rng, model), rng.integers(0, 2, nb)
    H, C = crba(model, s.q), bias_force(model, s.q, s.qd, s.f_ext)
    for method in METHODS:
        qdd, tau = method(model, fd, s.q, s.qd, s.qdd, s.tau, s.f_ext)
        scale = max(1.0, np.max(np.abs(tau), initial=0), np.max(np.abs(C), initial=0))
        condition = np.linalg.cond(H) if model.nv else 1.0
        assert np.max(np.abs(H @ qdd + C - tau), initial=0) <= SOLVE * condition * scale
