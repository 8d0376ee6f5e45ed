"""Shared forces of redundant contacts minimize the elastic energy of their supports."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import LinearConstraint, minimize

from rigidblocks.contact import complementarity, rigid_contact, shared_forces
from rigidblocks.contact.event_driven.unilateral_constraints import PointContact
from rigidblocks.robot.joints import SixDoF
from rigidblocks.robot.model import Model
from rigidblocks.spatial.spatial import identity, mcI

RTOL = 1e-9  # rounding of pivoting on a matrix with condition number 1e3


def table_problem(corners, centre, mass=10.0):
    """Return T, M, d and the weight of a rigid table on legs at (x, y), with mass at `centre`."""
    x, y = np.transpose(corners)
    T = np.array([np.ones(len(x)), y, -x])
    inertia = np.diag([mass, 1.0, 2.0])
    weight = -9.81 * mass * np.array([1.0, centre[1], -centre[0]])
    return T, T.T @ np.linalg.solve(inertia, T), T.T @ np.linalg.solve(inertia, weight), weight


SQUARE = [(0.5, 0.5), (-0.5, 0.5), (-0.5, -0.5), (0.5, -0.5)]


def test_four_equal_table_legs_share_the_weight_equally():
    _, M, d, _ = table_problem(SQUARE, (0, 0))
    lam = complementarity(M, d).lam
    assert np.count_nonzero(lam) < 4  # pivoting finds one of many solutions
    assert_allclose(shared_forces(M, lam), 98.1 / 4, rtol=RTOL)


def test_table_legs_share_an_eccentric_load_like_springs():
    # analytic solution: the force on a corner is linear in the position of the weight
    T, M, d, weight = table_problem(SQUARE, (0.1, -0.05))
    forces = shared_forces(M, complementarity(M, d).lam, 1e5)
    expected = [98.1 / 4 * (1 + 4 * (x * 0.1 + y * -0.05)) for x, y in SQUARE]
    assert_allclose(forces, expected, rtol=RTOL)
    assert_allclose(T @ forces, -weight, rtol=RTOL)


def test_softer_table_leg_carries_a_smaller_load():
    K = np.array([1e5, 1e5, 1e5, 2e4])
    T, M, d, weight = table_problem(SQUARE, (0, 0))
    forces = shared_forces(M, complementarity(M, d).lam, K)
    # deflection of the table: T K T^T s = -weight
    sunk = np.linalg.solve(T * K @ T.T, -weight)
    assert_allclose(forces, K * (T.T @ sunk), rtol=RTOL)


@pytest.mark.parametrize("seed", range(20))
def test_shared_forces_minimize_elastic_energy(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 9))
    corners, K = rng.uniform(-1, 1, (n, 2)), rng.uniform(1, 10, n)
    lam = np.maximum(0, rng.uniform(-2, 5, n))
    T, M, *_ = table_problem(corners, (0, 0))
    forces = shared_forces(M, lam, K)
    assert np.all(forces >= 0)
    assert_allclose(T @ forces, T @ lam, atol=1e-8 * np.abs(T @ lam).max())
    best = minimize(
        lambda f: np.sum(f**2 / K), lam, jac=lambda f: 2 * f / K, bounds=[(0, None)] * n,
        constraints=LinearConstraint(T, T @ lam, T @ lam),
        method="SLSQP", options={"ftol": 1e-14, "maxiter": 500},
    )  # fmt: skip
    assert_allclose(np.sum(forces**2 / K), best.fun, rtol=1e-6)


def test_shared_forces_of_independent_contacts_equal_the_contact_forces():
    _, M, d, _ = table_problem(SQUARE[:3], (-0.1, 0.1))
    lam = complementarity(M, d).lam
    assert_allclose(shared_forces(M, lam), lam, rtol=RTOL)


def test_four_corner_contacts_of_a_block_share_its_weight_equally():
    block = Model(
        "block", (-1,), (SixDoF(),), (identity(),), (mcI(2.0, [0, 0, 0], 0.1 * np.eye(3)),)
    )
    q = np.array([1.0, 0, 0, 0, 0, 0, 0.2])
    legs = [PointContact(0, (x, y, 0.0), (0.0, 0.0, 1.0)) for x, y in SQUARE]
    motion = rigid_contact(block, q, np.zeros(6), np.zeros(6), legs, stiffness=1e6)
    assert_allclose(motion.lam, 2.0 * 9.81 / 4, rtol=1e-4)
    assert_allclose(motion.qdd, 0, atol=1e-9)


def test_nonpositive_stiffness_and_pulling_forces_are_rejected():
    _, M, _, _ = table_problem(SQUARE, (0, 0))
    with pytest.raises(ValueError, match="stiffness of supports must be positive, not"):
        shared_forces(M, np.ones(4), [1.0, 0.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="contact forces must not be negative"):
        shared_forces(M, -np.ones(4))
