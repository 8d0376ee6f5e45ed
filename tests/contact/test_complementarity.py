"""Complementarity problems of contact (RBDA 11.5) compared with quadratic programs and SciPy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import lsq_linear, minimize, nnls

from contact_scenes import frictional, random_problem
from rigidblocks.contact import (
    acceleration_programme,
    complementarity,
    force_programme,
    frictional_complementarity,
    projected_sweeps,
    pyramid_forces,
)
from rigidblocks.contact.event_driven.gauss_seidel_kernel import compiled_sweeps

# rounding of sums and solutions of up to some hundred values, relative to the largest value. Pivots
# are above 1e-10 of the diagonal, and random normals have much larger pivots
RTOL = 1e-9
SEARCH = 1e-5  # error of a general minimizer, which stops at a small gradient


def assert_solution(M, d, s):
    """Check lam >= 0, w >= 0 and lam_i w_i = 0 for every contact."""
    w, size = M @ s.lam + d, np.abs(d).max()
    assert s.feasible
    assert (s.lam >= 0).all()
    assert (s.w >= 0).all()
    assert_allclose(s.w, w, rtol=0, atol=RTOL * size)
    assert not (s.w * s.lam).any()


def residual(M, d, mu, lam, c=0.0):
    """Return the violation of the laws of the friction pyramid, by projections onto its limits.

    It uses no code of the package.
    """
    k, n = len(mu), len(d) - 2 * len(mu)
    w = M @ lam + d
    limit = np.repeat(mu * lam[:k] + c, 2)
    normal = np.minimum(lam[:n], w[:n])
    tangential = lam[n:] - np.clip(lam[n:] - w[n:], -limit, limit)
    return max(np.abs(normal).max(initial=0.0), np.abs(tangential).max(initial=0.0))


# one and two contacts


@pytest.mark.parametrize("d", [-3.0, 0.0, 2.0])
def test_complementarity_solution_of_one_contact_matches_the_analytic_solution(d):
    # RBDA Eq 11.10
    M = 0.7
    s = complementarity([[M]], [d])
    assert_allclose([s.lam[0], s.w[0]], [max(0.0, -d / M), max(0.0, d)], rtol=RTOL, atol=0)


def slot(d):
    """Solve the disc in a slot of RBDA Example 11.1, with two opposite normals."""
    m = 2.0
    return complementarity([[m, -m], [-m, m]], d)


def test_contact_forces_on_a_disc_in_a_narrowing_slot_have_no_solution():
    for d in ([-1.0, 0.5], [0.2, -0.3], [-1.0, -1.0]):
        assert not slot(d).feasible


def test_contact_forces_on_a_disc_at_one_wall_of_a_slot_have_one_solution():
    s = slot([-1.0, 2.0])
    assert s.feasible
    assert s.unique
    assert_allclose(s.lam, [0.5, 0.0], rtol=RTOL)
    assert_allclose(s.w, [0.0, 1.0], rtol=RTOL)


def test_only_the_difference_of_the_forces_of_two_parallel_walls_on_a_disc_is_unique():
    s = slot([-1.0, 1.0])
    assert s.feasible
    assert not s.unique
    assert_allclose(s.lam[0] - s.lam[1], 0.5, rtol=RTOL)
    assert_array_equal(s.w, [0.0, 0.0])
    assert s.active.sum() == 1
    assert s.redundant.sum() == 1


# laws on random problems


@pytest.mark.slow
def test_complementarity_solution_satisfies_the_three_complementarity_conditions(rng):
    for _ in range(200):
        Y, d = random_problem(rng, rng.integers(1, 61), rng.integers(1, 40))
        assert_solution(Y.T @ Y, d, complementarity(Y.T @ Y, d))


def test_contact_force_is_zero_if_no_contact_closes(rng):
    for n in (1, 5, 30):
        Y, _ = random_problem(rng, n, 6)
        d = rng.uniform(0, 1, n)
        s = complementarity(Y.T @ Y, d)
        assert_array_equal(s.lam, np.zeros(n))
        assert_allclose(s.w, d, rtol=1e-14)


def test_complementarity_solution_scales_with_units_and_lengths_of_contact_normals(rng):
    for _ in range(20):
        Y, d = random_problem(rng, 12, 20)
        M, s = Y.T @ Y, complementarity(Y.T @ Y, d)
        size, a = np.abs(d).max(), np.exp(rng.uniform(-5, 5, 12))
        assert_allclose(
            Y @ complementarity(M, 1e6 * d).lam, 1e6 * Y @ s.lam, rtol=0, atol=1e6 * RTOL * size
        )
        assert_allclose(
            Y @ complementarity(1e-6 * M, d).lam, 1e6 * Y @ s.lam, rtol=0, atol=1e6 * RTOL * size
        )
        other = complementarity(M * np.outer(a, a), a * d)
        assert_allclose(Y @ (a * other.lam), Y @ s.lam, rtol=0, atol=RTOL * size)


def test_contact_order_does_not_change_unique_contact_forces(rng):
    for _ in range(50):
        Y, d = random_problem(rng, 10, rng.integers(3, 14))
        turned = rng.permutation(10)
        s, t = (
            complementarity(Y.T @ Y, d),
            complementarity(Y[:, turned].T @ Y[:, turned], d[turned]),
        )
        size = np.abs(d).max()
        assert s.unique == t.unique
        assert_allclose(t.w, s.w[turned], rtol=0, atol=RTOL * size)
        assert_allclose(Y[:, turned] @ t.lam, Y @ s.lam, rtol=0, atol=RTOL * size)
        if s.unique:
            assert_allclose(
                t.lam, s.lam[turned], rtol=0, atol=1e3 * RTOL * max(size, np.abs(s.lam).max())
            )


def test_contact_forces_that_are_reported_as_unique_have_no_second_solution(rng):
    found = 0
    for _ in range(60):
        Y, d = random_problem(rng, 9, rng.integers(2, 9))
        M, s = Y.T @ Y, complementarity(Y.T @ Y, d)
        # search a second solution with the same Y lam and a larger force at contact i
        for i in range(9):
            rows = np.vstack([1e6 * Y, 1e6 * (s.w > 0) * np.eye(9), np.eye(9)[i]])
            other = nnls(rows, np.concatenate([1e6 * (Y @ s.lam), np.zeros(9), [s.lam[i] + 1.0]]))[
                0
            ]
            differs = other[i] - s.lam[i] > 1e-3
            found += differs
            assert not (differs and s.unique)
            if differs:
                assert_allclose(M @ other + d, s.w, rtol=0, atol=1e-4)
        assert s.unique or found
    assert found


def test_active_contacts_are_a_maximal_independent_set_of_the_closed_contacts(rng):
    for _ in range(60):
        Y, d = random_problem(rng, rng.integers(4, 30), rng.integers(2, 10))
        s = complementarity(Y.T @ Y, d)
        closed = s.w == 0
        rank = np.linalg.matrix_rank(Y[:, closed], tol=1e-6) if closed.any() else 0
        assert s.active.sum() == rank
        assert np.linalg.matrix_rank(Y[:, s.active], tol=1e-6) == rank if rank else True
        assert not (s.lam[~s.active]).any()
        assert_array_equal(s.redundant | s.active, closed)


def test_contact_whose_normal_is_a_positive_combination_of_other_normals_has_no_effect(rng):
    # RBDA 11.6: normal and acceleration are sums of the others with positive weights
    for _ in range(30):
        Y, d = random_problem(rng, 8, 20)
        weights = rng.uniform(0, 1, (8, 3))
        more, d_more = np.hstack([Y, Y @ weights]), np.concatenate([d, weights.T @ d])
        s, t = complementarity(Y.T @ Y, d), complementarity(more.T @ more, d_more)
        assert_allclose(more @ t.lam, Y @ s.lam, rtol=0, atol=RTOL * np.abs(d).max())


def test_infeasible_contact_problem_has_a_certificate_of_farkas_lemma(rng):
    found = 0
    for _ in range(100):
        Y, d = random_problem(rng, 8, 4, solvable=False)
        s = complementarity(Y.T @ Y, d)
        # Farkas: no lam exists if and only if some r >= 0 has Y r = 0 and d . r < 0
        r, rest = nnls(np.vstack([Y, d]), np.append(np.zeros(4), -1.0))
        assert s.feasible == (rest > 1e-7)
        found += not s.feasible
        assert s.feasible or (d @ r < 0 and np.abs(Y @ r).max() < 1e-6)
    assert 0 < found < 100


# quadratic programs


def test_contact_forces_solve_the_quadratic_program(rng):
    # RBDA Eq 11.43
    for n in (1, 4, 9):
        Y, d = random_problem(rng, n, 6)
        P = force_programme(Y.T @ Y, d)
        s = complementarity(Y.T @ Y, d)
        found = minimize(
            lambda x, P=P: (x @ P.P @ x / 2 + P.c @ x, P.P @ x + P.c),
            np.ones(n),
            jac=True,
            bounds=[(0, None)] * n,
            options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 5000},
        )
        assert_allclose(Y @ found.x, Y @ s.lam, rtol=0, atol=SEARCH * np.abs(d).max())


def test_accelerations_satisfy_gauss_principle_of_least_constraint(rng):
    # RBDA Eq 11.44: the motion is the admissible motion nearest to the free motion in the metric H
    for n in (1, 4, 8):
        L, T = rng.normal(size=(5, 5)) + 3 * np.eye(5), rng.normal(size=(5, n))
        H, free, bias = L.T @ L, rng.normal(size=5), rng.normal(size=n) if n < 5 else np.zeros(n)
        P = acceleration_programme(H, free, T, bias)
        s = complementarity(T.T @ np.linalg.solve(H, T), T.T @ free + bias)
        qdd = free + np.linalg.solve(H, T @ s.lam)
        found = minimize(
            lambda x, P=P: x @ P.P @ x / 2 + P.c @ x,
            qdd + rng.normal(size=5),
            jac=lambda x, P=P: P.P @ x + P.c,
            constraints={
                "type": "ineq",
                "fun": lambda x, P=P: P.A @ x + P.b,
                "jac": lambda _, P=P: P.A,
            },
            method="SLSQP",
            options={"ftol": 1e-11, "maxiter": 1000},
        )
        assert found.success
        assert (P.A @ qdd + P.b >= -RTOL).all()
        assert_allclose(found.x, qdd, rtol=0, atol=SEARCH * np.abs(qdd).max())


@pytest.mark.slow
def test_complementarity_solution_matches_scipy_in_1000_problems(rng):
    for k in range(1000):
        n, rank = rng.integers(1, 61), rng.integers(1, 40)
        Y, d = random_problem(rng, n, rank)
        s = complementarity(Y.T @ Y, d)
        assert_solution(Y.T @ Y, d, s)
        # 1/2 lam^T M lam + lam^T d is 1/2 |Y lam + z|^2 with d = Y^T z
        z = np.linalg.lstsq(Y.T, d, rcond=None)[0]
        lam = nnls(Y, -z, maxiter=10000)[0]
        assert_allclose(Y @ s.lam, Y @ lam, rtol=0, atol=RTOL * max(1.0, np.abs(z).max()))
        if k % 10 == 0:
            lam = lsq_linear(Y, -z, (0, np.inf), method="bvls", tol=1e-14, max_iter=10000).x
            assert_allclose(Y @ s.lam, Y @ lam, rtol=0, atol=1e-6 * max(1.0, np.abs(z).max()))


# friction


def test_friction_pyramid_solution_satisfies_coulombs_law(rng):
    for _ in range(150):
        n = rng.integers(1, 13)
        M, d, mu = frictional(rng, n, rng.integers(0, n + 1), rng.integers(1, 30))
        c = rng.uniform(0, 0.3, len(mu)) * (rng.random() < 0.3)
        s = frictional_complementarity(M, d, mu, c)
        assert s.feasible
        assert (s.lam[:n] >= 0).all()
        assert residual(M, d, mu, s.lam, c) <= RTOL * np.abs(d).max() * max(
            1.0, np.abs(s.lam).max()
        )


def test_friction_pyramid_with_zero_friction_equals_the_frictionless_solution(rng):
    for _ in range(30):
        Y, d = random_problem(rng, 12, 9)
        s, t = complementarity(Y.T @ Y, d), frictional_complementarity(Y.T @ Y, d, [])
        assert_allclose(Y @ t.lam, Y @ s.lam, rtol=0, atol=RTOL * np.abs(d).max())


def test_friction_pyramid_forces_dissipate_power(rng):
    for _ in range(50):
        M, d, mu = frictional(rng, 8, 8, 12)
        lam = pyramid_forces(M, d, mu)
        w = M @ lam + d
        power = lam[8:] * w[8:]
        assert (power <= RTOL * np.abs(d).max() * max(1.0, np.abs(lam).max())).all()


def brick(push):
    """Return the problem of a mass on the ground with a lateral push: w = (z, x, y)."""
    m, g, mu = 2.0, 9.81, 0.5
    return np.eye(3) / m, np.array([-g, push / m, 0.0]), np.array([mu]), m * g


@pytest.mark.parametrize("solve", [pyramid_forces, projected_sweeps])
@pytest.mark.parametrize("push", [3.0, -3.0, 9.8, 20.0, -20.0])
def test_brick_sticks_below_and_slips_above_the_friction_limit(solve, push):
    M, d, mu, weight = brick(push)
    lam = solve(M, d, mu)
    assert_allclose(
        lam, [weight, -np.clip(push, -mu[0] * weight, mu[0] * weight), 0.0], rtol=1e-12, atol=1e-12
    )


def test_forces_of_redundant_contacts_satisfy_coulombs_law(rng):
    # feet of six points close together, of which three are sufficient
    for _ in range(30):
        feet = [rng.normal(size=(3, 18)) for _ in range(4)]
        turns = rng.normal(size=(4, 3, 18)) * 0.05
        rows = [
            foot + np.cos(a) * turn + np.sin(a) * turn[::-1]
            for foot, turn in zip(feet, turns, strict=True)
            for a in range(6)
        ]
        Y = np.array(rows)[:, [2, 0, 1]]
        Y = np.concatenate([Y[:, 0], Y[:, 1:].reshape(48, 18)]).T
        M, d, mu = Y.T @ Y, Y.T @ rng.normal(size=18), np.full(24, 0.6)
        s = frictional_complementarity(M, d, mu)
        assert s.feasible
        assert residual(M, d, mu, s.lam) <= RTOL * np.abs(d).max() * max(1.0, np.abs(s.lam).max())


# invalid arguments


def test_invalid_complementarity_arguments_are_rejected():
    with pytest.raises(ValueError, match=r"needs M \(n, n\) and d \(n,\), not shapes"):
        complementarity(np.eye(3), np.ones(2))
    with pytest.raises(ValueError, match="must be finite"):
        complementarity([[np.nan]], [1.0])
    with pytest.raises(ValueError, match="must be symmetric"):
        complementarity([[1.0, 0.5], [0.0, 1.0]], [1.0, 1.0])
    with pytest.raises(ValueError, match=r"positive semidefinite; M\[1, 1\] is -2.0"):
        complementarity(np.diag([1.0, -2.0]), [1.0, 1.0])
    with pytest.raises(
        ValueError, match=r"mu of a contact must be finite and not negative, not \[-0.5\]"
    ):
        frictional_complementarity(np.eye(3), np.ones(3), [-0.5])
    with pytest.raises(
        ValueError, match="needs one coefficient for each contact with friction, at most 1"
    ):
        frictional_complementarity(np.eye(3), np.ones(3), [0.5, 0.5])
    with pytest.raises(ValueError, match="need n >= 1, 0 <= k <= n and"):
        compiled_sweeps(2, 3)


def test_complementarity_problem_without_contacts_has_an_empty_solution():
    s = complementarity(np.zeros((0, 0)), np.zeros(0))
    assert s.feasible
    assert s.unique
    assert (
        s.lam.shape
        == frictional_complementarity(np.zeros((0, 0)), np.zeros(0), []).lam.shape
        == (0,)
    )


def test_approaching_contact_of_an_immobile_body_is_infeasible():
    M = np.diag([1.0, 0.0])
    s = complementarity(M, [-1.0, 2.0])
    assert_array_equal(s.lam, [1.0, 0.0])
    assert not complementarity(M, [-1.0, -2.0]).feasible
    assert_array_equal(projected_sweeps(M, np.array([-1.0, 2.0])), [1.0, 0.0])
