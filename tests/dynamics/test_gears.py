"""Gears, rotors, friction and springs (RBDA 9.6)."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from random_models import MODELS, random_state, random_tree
from rigidblocks.dynamics import (
    aba,
    aba_with_rotors,
    bias_force,
    coulomb_friction,
    crba,
    geared_forward_dynamics,
    geared_inverse_dynamics,
    gears,
    joint_spring,
    projected_dynamics,
    viscous_friction,
)
from rigidblocks.robot.configuration import random_configuration
from rigidblocks.robot.joints import Planar, Prismatic, Revolute, SixDoF, Spherical
from rigidblocks.robot.model import Model
from rigidblocks.robot.robots import planar_n
from rigidblocks.spatial.spatial import mcI, xlt
from rigidblocks.tracing.trace import trace

RTOL = 1e-12  # rounding errors of a few hundred products, relative to the largest element
SOLVE = 1e-13  # relative error of solutions with H, per unit of its condition number
RHO = (100.0, -50.0)


def close(actual, expected, rtol=RTOL):
    assert_allclose(
        actual, expected, rtol=0, atol=rtol * max(1.0, np.max(np.abs(expected), initial=0))
    )


def geared_arm(rotor=1e-4):
    """Return the arm of RBDA Fig 9.2.

    The bodies are upper arm, rotor of the base motor, forearm and rotor of the upper arm motor.
    """
    link, small = planar_n(1).inertia[0], mcI(0.1, np.zeros(3), rotor * np.eye(3))
    X = (xlt([0.0, 0, 0]), xlt([0.0, 0.1, 0]), xlt([1.0, 0, 0]), xlt([1.0, 0.1, 0]))
    return Model(
        "geared arm",
        (-1, -1, 0, 0),
        (Revolute(),) * 4,
        X,
        (link, small, link, small),
        np.array([1.0, -9.0, 0]),
    )


def pairs(model):
    return gears(model, {1: {0: RHO[0]}, 3: {2: RHO[1]}})


def test_gear_map_has_one_column_per_independent_variable():
    # RBDA 9.6: q2 = rho1 q1 and q4 = rho2 q3
    coupling = pairs(geared_arm())
    assert_array_equal(coupling.G, [[1, 0], [RHO[0], 0], [0, 1], [0, RHO[1]]])
    assert coupling.independent == (0, 2)


def test_inertia_matrix_of_independent_joints_equals_the_gear_formula_of_rbda(rng):
    # RBDA Eq 9.27, with the zeros of H in the book
    arm = geared_arm()
    H = crba(arm, rng.uniform(-3, 3, 4))
    assert not H[[0, 1, 1, 2], [1, 2, 3, 3]].any()
    (a, b), coupling = RHO, H[0, 2] + RHO[1] * H[0, 3]
    expected = [[H[0, 0] + a**2 * H[1, 1], coupling], [coupling, H[2, 2] + b**2 * H[3, 3]]]
    close(projected_dynamics(H, np.zeros(4), pairs(arm).G).H, expected)


def test_accelerations_of_geared_models_match_explicit_gear_constraints(rng):
    # H qdd + C = tau + K^T lambda with K qdd = 0
    arm, coupling = geared_arm(), pairs(geared_arm())
    y, yd, tau = rng.uniform(-2, 2, 2), rng.uniform(-2, 2, 2), rng.uniform(-2, 2, 4)
    q, qd = coupling.G @ y, coupling.G @ yd
    H, C = crba(arm, q), bias_force(arm, q, qd)
    K = np.array([[RHO[0], -1, 0, 0], [0, 0, RHO[1], -1]])
    system = np.block([[H, K.T], [K, np.zeros((2, 2))]])
    qdd = np.linalg.solve(system, np.concatenate([tau - C, np.zeros(2)]))[:4]
    ydd = geared_forward_dynamics(arm, coupling, y, yd, tau)
    close(coupling.G @ ydd, qdd, SOLVE * np.linalg.cond(system))


def test_inverse_dynamics_of_geared_models_inverts_forward_dynamics(rng):
    arm, coupling = geared_arm(), pairs(geared_arm())
    y, yd = rng.uniform(-2, 2, 2), rng.uniform(-2, 2, 2)
    motors, f_ext = np.array([0, 0.3, 0, -0.2]), rng.uniform(-1, 1, (4, 6))
    ydd = geared_forward_dynamics(arm, coupling, y, yd, motors, f_ext)
    u = geared_inverse_dynamics(arm, coupling, y, yd, ydd, f_ext)
    close(u, [RHO[0] * 0.3, RHO[1] * -0.2], 1e-9)
    assert u.shape == (2,)


def test_differential_distributes_the_cage_torque_equally_to_both_wheels(rng):
    # the cage angle is the mean of the wheel angles: q2 = (q0 + q1)/2
    wheels = random_tree(rng, (-1, -1, -1), (Revolute(),) * 3).with_gravity(np.zeros(3))
    coupling = gears(wheels, {2: {0: 0.5, 1: 0.5}})
    y, yd = rng.uniform(-2, 2, 2), rng.uniform(-2, 2, 2)
    on_the_cage = geared_forward_dynamics(wheels, coupling, y, yd, np.array([0.0, 0.0, 4.0]))
    on_the_wheels = geared_forward_dynamics(wheels, coupling, y, yd, np.array([2.0, 2.0, 0.0]))
    close(on_the_cage, on_the_wheels)


def test_nonlinear_gear_causes_a_velocity_dependent_acceleration(rng):
    # q1 = sin(q0): G = [1; cos y], g = [0; -sin(y) yd^2] (RBDA Eq 9.26); the reference is the
    # constraint K qdd = k
    model = planar_n(2).with_gravity((1.0, -9.0, 0.0))
    y, yd = 0.7, 1.9
    q, qd = np.array([y, np.sin(y)]), np.array([yd, np.cos(y) * yd])
    G, g = np.array([[1.0], [np.cos(y)]]), np.array([0.0, -np.sin(y) * yd**2])
    H, C, tau = crba(model, q), bias_force(model, q, qd), rng.uniform(-1, 1, 2)
    HG, CG = projected_dynamics(H, C, G, g)
    K, k = np.array([[np.cos(y), -1.0]]), np.array([np.sin(y) * yd**2])
    qdd = np.linalg.solve(
        np.block([[H, K.T], [K, np.zeros((1, 1))]]), np.concatenate([tau - C, k])
    )[:2]
    close(G @ np.linalg.solve(HG, G.T @ tau - CG) + g, qdd)


def test_computation_of_the_projected_inertia_matrix_has_the_operation_count_of_rbda():
    # RBDA Eq 9.27: 5 multiplications and 3 additions if the squares of the ratios are computed once
    def inertia(h, rho):
        H = np.array(
            [
                [h[0], 0.0, h[1], h[2]],
                [0.0, h[3], 0.0, 0.0],
                [h[1], 0.0, h[4], 0.0],
                [h[2], 0.0, 0.0, h[5]],
            ]
        )
        G = np.array([[1.0, 0.0], [rho[0], 0.0], [0.0, 1.0], [0.0, rho[1]]])
        return {"H": projected_dynamics(H, np.zeros(4), G).H}

    graph = trace("inertia", inertia, {"h": (6,), "rho": (2,)})
    assert graph.operation_count <= 5 + 3


# rotors


def test_crba_and_aba_add_rotor_inertia_to_the_diagonal_of_the_inertia_matrix(rng):
    model = MODELS["six-axis"]()
    s, rotor = random_state(rng, model), rng.uniform(0.1, 3, 6)
    H = crba(model, s.q, rotor)
    assert_array_equal(H, crba(model, s.q) + np.diag(rotor))
    expected = np.linalg.solve(H, s.tau - bias_force(model, s.q, s.qd, s.f_ext))
    close(
        aba_with_rotors(model, s.q, s.qd, s.tau, rotor, s.f_ext),
        expected,
        SOLVE * np.linalg.cond(H),
    )
    assert_array_equal(
        aba_with_rotors(model, s.q, s.qd, s.tau, np.zeros(6)) - aba(model, s.q, s.qd, s.tau) < 1e-9,
        True,
    )


def test_accelerations_of_aba_with_rotor_inertia_converge_to_geared_dynamics_at_high_ratios(rng):
    # RBDA Example 9.5: at constant reflected inertia rho^2 I the neglected terms are of order 1/rho
    y, yd, u = rng.uniform(-2, 2, 2), rng.uniform(-2, 2, 2), rng.uniform(-2, 2, 2)
    arm, errors = planar_n(2).with_gravity((1.0, -9.0, 0.0)), []
    for rho in (10.0, 100.0, 1000.0):
        reflected = 0.5
        full = geared_arm(reflected / rho**2)
        weightless = tuple(
            b if i % 2 == 0 else mcI(1e-12, np.zeros(3), b.I) for i, b in enumerate(full.inertia)
        )
        full = Model("arm", full.parent, full.joint, full.Xtree, weightless, full.gravity)
        coupling = gears(full, {1: {0: rho}, 3: {2: rho}})
        exact = geared_forward_dynamics(
            full, coupling, y, yd, np.array([0, u[0] / rho, 0, u[1] / rho])
        )
        quick = aba_with_rotors(arm, y, yd, u, np.full(2, reflected))
        errors.append(np.max(np.abs(quick - exact)) / np.max(np.abs(exact)))
    assert_allclose(np.divide(errors[:-1], errors[1:]), 10, rtol=0.3)
    assert errors[-1] < 1e-2


# friction and springs


def test_friction_dissipates_energy_and_the_spring_force_is_conservative(rng):
    qd, q = rng.uniform(-2, 2, 5), rng.uniform(-2, 2, 5)
    assert np.all(viscous_friction(qd, [1, 2, 3, 4, 5]) * qd < 0)
    assert np.all(coulomb_friction(qd, 2.0, 0.01) * qd < 0)
    h, k, rest = 1e-4, np.array([10.0, 20, 30, 40, 50]), 0.3

    def spring_energy(q):
        return k * (q - rest) ** 2 / 2

    close(joint_spring(q, k, rest), -(spring_energy(q + h) - spring_energy(q - h)) / (2 * h), 1e-10)


def test_coulomb_friction_is_constant_above_its_width_and_zero_at_rest():
    force = coulomb_friction(np.array([-1.0, 0.0, 1.0]), [1.0, 2.0, 3.0], 0.05)
    close(force, [1.0, 0.0, -3.0])
    assert_array_equal(viscous_friction(np.zeros(3), 2.0), np.zeros(3))


# rejected inputs


@pytest.mark.parametrize("width", [0.0, -1.0, [0.1, np.nan]])
def test_coulomb_friction_is_rejected_if_its_smoothing_width_is_not_positive(width):
    with pytest.raises(ValueError, match="width of dry friction must be positive, not"):
        coulomb_friction(np.zeros(2), 1.0, width)


def test_invalid_gears_are_rejected():
    arm = geared_arm()
    with pytest.raises(
        ValueError,
        match=r"gear of variable 3 refers to the variables \[1\], but the independent variables",
    ):
        gears(arm, {1: {0: 2.0}, 3: {1: 3.0}})
    with pytest.raises(ValueError, match="the gear of variable 7"):
        gears(arm, {7: {0: 2.0}})
    ball = random_tree(np.random.default_rng(0), (-1, 0), (SixDoF(), Prismatic()))
    with pytest.raises(ValueError, match="has 8 positions and 7 velocities; gears need as many"):
        gears(ball, {6: {0: 1.0}})


def test_aba_with_rotors_satisfies_the_equation_of_motion_with_multi_dof_joints(rng):
    model = random_tree(rng, (-1, 0, 1, 1), (SixDoF(), Spherical(), Prismatic(), Planar()))
    q, (qd, tau) = random_configuration(model, rng), rng.normal(size=(2, model.nv))
    inertia = rng.uniform(0.0, 2.0, model.nv)
    qdd = aba_with_rotors(model, q, qd, tau, inertia)
    left = (crba(model, q) + np.diag(inertia)) @ qdd + bias_force(model, q, qd)
    close(left, tau, 1e-9)
