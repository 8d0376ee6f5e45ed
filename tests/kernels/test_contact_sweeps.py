"""Projected Gauss-Seidel sweeps for contacts with friction converge to the exact contact forces."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from contact_scenes import frictional, random_problem
from rigidblocks.contact import complementarity, contact_residual, projected_sweeps, pyramid_forces
from rigidblocks.contact.event_driven.gauss_seidel_kernel import compiled_sweeps
from rigidblocks.tracing.trace import trace

# rounding of sums and solutions of up to some hundred values, relative to the largest
RTOL = 1e-9


@pytest.mark.slow
def test_accelerated_gauss_seidel_sweeps_converge_faster_than_plain_sweeps(rng):
    # single calls are plain Gauss-Seidel sweeps, without conjugate gradients between them
    left = []
    for _ in range(12):
        M, d, mu = frictional(rng, 12, 12, 12)
        lam = np.zeros(36)
        for _ in range(40):
            lam = projected_sweeps(M, d, mu, sweeps=1, start=lam)
        together = projected_sweeps(M, d, mu, sweeps=40)
        left.append([contact_residual(M, d, one, mu) / np.abs(d).max() for one in (together, lam)])
    together, separate = np.median(left, axis=0)
    assert together < 0.5 * separate


@pytest.mark.slow
@pytest.mark.parametrize("cone", [False, True])
def test_residual_of_gauss_seidel_sweeps_with_friction_converges_to_zero(rng, cone):
    for _ in range(8):
        M, d, mu = frictional(rng, 4, 3, 40)
        lam = projected_sweeps(M, d, mu, sweeps=300, cone=cone)
        assert contact_residual(M, d, lam, mu, cone=cone) <= RTOL * np.abs(d).max()
        if not cone:
            exact = pyramid_forces(M, d, mu)
            assert contact_residual(M, d, exact, mu, cone=False) <= RTOL * np.abs(d).max()


@pytest.mark.slow
def test_gauss_seidel_sweeps_without_friction_converge_to_the_exact_forces(rng):
    for _ in range(4):
        Y, d = random_problem(rng, 5, 30)
        exact = complementarity(Y.T @ Y, d)
        assert_allclose(
            projected_sweeps(Y.T @ Y, d, sweeps=1000),
            exact.lam,
            rtol=0,
            atol=RTOL * np.abs(exact.lam).max(),
        )


@pytest.mark.slow
def test_friction_forces_of_gauss_seidel_sweeps_are_in_the_cone_and_oppose_sliding(rng):
    for _ in range(8):
        M, d, mu = frictional(rng, 3, 3, 30)
        lam = projected_sweeps(M, d, mu, sweeps=500)
        f, v = lam[3:].reshape(3, 2), (M @ lam + d)[3:].reshape(3, 2)
        length, speed = np.linalg.norm(f, axis=1), np.linalg.norm(v, axis=1)
        size = np.abs(d).max()
        assert (length <= mu * lam[:3] * (1 + RTOL)).all()
        sliding = speed > 1e-6 * size
        assert_allclose(length[sliding], (mu * lam[:3])[sliding], rtol=RTOL)
        assert_allclose(
            f[sliding] * speed[sliding, None],
            -v[sliding] * length[sliding, None],
            rtol=0,
            atol=1e-6 * size,
        )


def test_gauss_seidel_sweeps_that_start_at_exact_contact_forces_do_not_change_these_forces(rng):
    for _ in range(20):
        M, d, mu = frictional(rng, 6, 6, 9)
        exact = pyramid_forces(M, d, mu)
        swept = projected_sweeps(M, d, mu, sweeps=2, cone=False, start=exact)
        assert_allclose(swept, exact, rtol=0, atol=1e3 * RTOL * np.abs(exact).max())


def test_contact_residual_is_zero_only_for_exact_contact_forces(rng):
    M, d, mu = frictional(rng, 4, 4, 20)
    exact = pyramid_forces(M, d, mu)
    assert contact_residual(M, d, exact, mu, cone=False) <= RTOL * np.abs(d).max()
    assert exact.any()
    for i in np.flatnonzero(exact):
        assert (
            contact_residual(M, d, exact + 0.1 * np.eye(12)[i], mu, cone=False)
            > 1e-3 * np.abs(d).max()
        )


@pytest.mark.parametrize("cone", [False, True])
def test_traced_and_numpy_results_of_gauss_seidel_sweeps_agree(rng, cone):
    M, d, mu = frictional(rng, 3, 2, 6)
    shapes = {"M": M.shape, "d": d.shape, "mu": mu.shape, "c": (2,)}

    def solved(M, d, mu, c):
        lam = projected_sweeps(M, d, mu, c, sweeps=4, cone=cone)
        return {"lam": lam, "residual": np.asarray(contact_residual(M, d, lam, mu, c, cone))}

    values, c = trace("sweeps", solved, shapes), rng.uniform(0, 0.2, 2)
    flat = values(np.concatenate([M.ravel(), d, mu, c]))
    expected = solved(M, d, mu, c)
    assert_allclose(flat[:-1], expected["lam"], rtol=0, atol=RTOL * np.abs(expected["lam"]).max())
    assert_allclose(flat[-1], expected["residual"], rtol=0, atol=RTOL * np.abs(d).max())


@pytest.mark.slow
@pytest.mark.parametrize("cone", [False, True])
@pytest.mark.parametrize(("n", "k"), [(5, 5), (5, 2), (3, 0)])
def test_results_of_gauss_seidel_sweeps_in_numpy_and_in_c_agree(rng, n, k, cone):
    M, d, mu = frictional(rng, n, k, 9)
    c, start = rng.uniform(0, 0.2, k), rng.uniform(0, 1, n + 2 * k)
    lam, w, left = compiled_sweeps(n, k, 12, cone)(M, d, mu, c, start)
    expected = projected_sweeps(M, d, mu, c, 12, cone, start)
    size = np.abs(d).max() + np.abs(M).max() * np.abs(expected).max()
    assert_allclose(lam, expected, rtol=0, atol=RTOL * max(1.0, np.abs(expected).max()))
    assert_allclose(w, M @ expected + d, rtol=0, atol=RTOL * size)
    assert_allclose(left, contact_residual(M, d, expected, mu, c, cone), rtol=0, atol=RTOL * size)
