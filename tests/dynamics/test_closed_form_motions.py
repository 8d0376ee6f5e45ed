"""Motions, forces and inertia matrices compared with closed-form solutions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp
from scipy.special import ellipk

from rigidblocks.dynamics import aba, bias_force, crba, energy, rnea
from rigidblocks.robot.robots import planar2, planar_n

RTOL = 1e-12  # about twelve rounding errors
G = 9.81
DOWN_Y = (0.0, -G, 0.0)


def period(amplitude):
    """Simulate the one-link pendulum with DOP853 (tolerance 1e-12) and return its period."""
    pendulum = planar_n(1).with_gravity(DOWN_Y)

    def derivative(_, x):
        return np.concatenate([x[1:], aba(pendulum, x[:1], x[1:], np.zeros(1))])

    def angle_from_bottom(_, x):
        return x[0] + np.pi / 2  # q = 0 is along x, straight down is -pi/2

    start = [-np.pi / 2 + amplitude, 0.0]
    solution = solve_ivp(
        derivative, (0, 4), start, "DOP853", rtol=1e-12, atol=1e-13, events=angle_from_bottom
    )
    first, second = solution.t_events[0][:2]
    return 2 * (second - first)


# rod of mass m and length l that rotates about its end: I = m l^2 / 3, centre of mass at l / 2
ROD_FREQUENCY = np.sqrt(0.5 * G / (1 / 3))


def test_small_swing_of_a_rod_has_the_harmonic_period():
    # the next term of the period is amplitude^2 / 16
    assert_allclose(period(1e-3), 2 * np.pi / ROD_FREQUENCY, rtol=1e-6 / 16 * 1.1)


@pytest.mark.slow
@pytest.mark.parametrize("amplitude", [0.5, 2.0])
def test_large_swing_of_a_rod_has_the_elliptic_period(amplitude):
    # 4 K(sin(amplitude / 2)) / omega; tolerance: integrator tolerance times some hundred steps
    assert_allclose(
        period(amplitude), 4 * ellipk(np.sin(amplitude / 2) ** 2) / ROD_FREQUENCY, rtol=1e-9
    )


def test_two_link_arm_has_the_textbook_inertia_matrix_and_bias_force(rng):
    robot = planar2().with_gravity(DOWN_Y)
    for _ in range(10):
        (q1, q2), (w1, w2) = q, qd = rng.uniform(-3, 3, (2, 2))
        c2, s2 = np.cos(q2), np.sin(q2)
        H = [[5 / 3 + c2, 1 / 3 + c2 / 2], [1 / 3 + c2 / 2, 1 / 3]]
        C = [
            -s2 / 2 * (2 * w1 * w2 + w2**2) + G * (1.5 * np.cos(q1) + 0.5 * np.cos(q1 + q2)),
            s2 / 2 * w1**2 + G * 0.5 * np.cos(q1 + q2),
        ]
        assert_allclose(crba(robot, q), H, rtol=RTOL, atol=RTOL)
        assert_allclose(bias_force(robot, q, qd), C, rtol=RTOL, atol=100 * RTOL)


def test_stretched_two_link_arm_has_the_kinetic_energy_of_one_rigid_rod(rng):
    # both links rotate as one rod of length 2 and mass 2 about its end: I = 8/3
    w = rng.uniform(1, 2)
    assert_allclose(energy(planar2(), np.zeros(2), np.array([w, 0.0])), 8 / 3 * w**2 / 2, rtol=RTOL)


def test_gravity_parallel_to_the_joint_axes_causes_no_joint_torque(rng):
    q, qd = rng.uniform(-3, 3, (2, 2))
    robot = planar2()
    assert_allclose(
        bias_force(robot, q, qd),
        bias_force(robot, q, qd, gravity=np.zeros(3)),
        rtol=RTOL,
        atol=RTOL,
    )


# six-link zigzag chain of RBDA 10.2 (Figure 10.3): links at rest, joint angles of alternately +75
# and -75 degrees

ZIGZAG = np.radians([75.0, -75, 75, -75, 75, -75])


def test_inverse_dynamics_of_the_zigzag_chain_equals_the_joint_forces_in_rbda():
    tau = rnea(planar_n(6), ZIGZAG, np.zeros(6), np.ones(6))
    printed = [126.493676, 97.466324, 69.976228, 43.799848, 21.937181, 6.164686]
    assert_allclose(tau, printed, rtol=0, atol=1e-6)


def test_zigzag_accelerations_for_rounded_joint_forces_match_rbda():
    # forces rounded to three digits change the accelerations by a third; the first acceleration is
    # computed from the book's H, because the printed 0.6952 is a misprint
    qdd = aba(planar_n(6), ZIGZAG, np.zeros(6), np.array([126, 97.5, 70.0, 43.8, 21.9, 6.16]))
    assert_allclose(qdd, [0.6592, 1.3654, 1.3808, 0.5894, 0.9057, 1.0705], rtol=0, atol=5e-5)


def test_zigzag_inertia_matrix_has_the_condition_number_of_rbda():
    condition = np.linalg.cond(crba(planar_n(6), ZIGZAG))
    assert_allclose(condition, 725, atol=0.5)
    assert condition < 4 * 6**4  # the book's estimate of the worst case


def test_inertia_matrix_of_a_chain_does_not_depend_on_its_first_joint_angle():
    turned = ZIGZAG + np.array([1.0, 0, 0, 0, 0, 0])
    assert_allclose(crba(planar_n(6), turned), crba(planar_n(6), ZIGZAG), rtol=RTOL)
