"""How redundant contacts share a load: the least elastic energy of their supports."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import LinearConstraint, minimize

from rigidblocks.algebra.spatial import identity, mcI
from rigidblocks.contact import complementarity, rigid_contact, shared_forces
from rigidblocks.contact.unilateral import PointContact
from rigidblocks.joint import SixDoF
from rigidblocks.model.model import Model

RTOL = 1e-9  # pivoting on a matrix of condition 1e3


def table_problem(corners, centre, mass=10.0):
    """M and d of a rigid table on legs at (x, y), its weight at `centre`: z, roll and pitch."""
    x, y = np.transpose(corners)
    T = np.array([np.ones(len(x)), y, -x])
    inertia = np.diag([mass, 1.0, 2.0])
    weight = -9.81 * mass * np.array([1.0, centre[1], -centre[0]])
    return T, T.T @ np.linalg.solve(inertia, T), T.T @ np.linalg.solve(inertia, weight), weight


SQUARE = [(0.5, 0.5), (-0.5, 0.5), (-0.5, -0.5), (0.5, -0.5)]


def test_table_on_four_equal_legs_stands_on_all_of_them():
    _, M, d, _ = table_problem(SQUARE, (0, 0))
    lam = complementarity(M, d).lam
    assert np.count_nonzero(lam) < 4  # what pivoting finds is one of many
    assert_allclose(shared_forces(M, lam), 98.1 / 4, rtol=RTOL)


def test_legs_off_the_centre_carry_as_springs_do():
    # closed form: the load of a corner falls linearly with the distance of the weight
    T, M, d, weight = table_problem(SQUARE, (0.1, -0.05))
    forces = shared_forces(M, complementarity(M, d).lam, 1e5)
    expected = [98.1 / 4 * (1 + 4 * (x * 0.1 + y * -0.05)) for x, y in SQUARE]
    assert_allclose(forces, expected, rtol=RTOL)
    assert_allclose(T @ forces, -weight, rtol=RTOL)


def test_softer_leg_carries_less():
    K = np.array([1e5, 1e5, 1e5, 2e4])
    T, M, d, weight = table_problem(SQUARE, (0, 0))
    forces = shared_forces(M, complementarity(M, d).lam, K)
    # the plane that the table sinks to: T K T^T s = -weight
    sunk = np.linalg.solve(T * K @ T.T, -weight)
    assert_allclose(forces, K * (T.T @ sunk), rtol=RTOL)


@pytest.mark.parametrize("seed", range(20))
def test_forces_have_the_least_energy_of_all(seed):
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


def test_forces_of_independent_contacts_stay():
    _, M, d, _ = table_problem(SQUARE[:3], (-0.1, 0.1))
    lam = complementarity(M, d).lam
    assert_allclose(shared_forces(M, lam), lam, rtol=RTOL)


def test_block_on_four_corners_by_the_dynamics():
    block = Model(
        "block", (-1,), (SixDoF(),), (identity(),), (mcI(2.0, [0, 0, 0], 0.1 * np.eye(3)),)
    )
    q = np.array([1.0, 0, 0, 0, 0, 0, 0.2])
    legs = [PointContact(0, (x, y, 0.0), (0.0, 0.0, 1.0)) for x, y in SQUARE]
    motion = rigid_contact(block, q, np.zeros(6), np.zeros(6), legs, stiffness=1e6)
    assert_allclose(motion.lam, 2.0 * 9.81 / 4, rtol=1e-4)
    assert_allclose(motion.qdd, 0, atol=1e-9)


def test_wrong_stiffness_and_pulling_forces_are_refused():
    _, M, _, _ = table_problem(SQUARE, (0, 0))
    with pytest.raises(ValueError, match="stiffness of supports must be positive, not"):
        shared_forces(M, np.ones(4), [1.0, 0.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="contacts can only push"):
        shared_forces(M, -np.ones(4))
