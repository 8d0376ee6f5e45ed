"""Orthonormal bases computed by Householder reflections."""

import numpy as np
import pytest

from rigidblocks.spatial.linear_algebra import Columns, completion, normal_to, orthonormal
from rigidblocks.tracing.trace import Evaluation, trace

RNG = np.random.default_rng(7)


def directions(n, m, dropped=()):
    """Return orthonormal columns (n, m) and their sizes; dropped columns and sizes are zero."""
    Q = np.linalg.qr(RNG.normal(size=(n, m)))[0]
    sizes = RNG.uniform(1e-6, 1.0, m)
    Q[:, list(dropped)], sizes[list(dropped)] = 0.0, 0.0
    return Q, tuple(sizes)


def dense(basis, n):
    """Return the matrix P (n, k) of a basis."""
    return np.array([basis.combine(unit) for unit in np.eye(basis.size)]).T.reshape(n, basis.size)


@pytest.mark.parametrize("dropped", [(), (2,), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize(("n", "spare"), [(9, (6, 7, 8)), (7, (1, 3, 4, 6)), (3, (0, 1, 2))])
def test_householder_basis_is_orthonormal_and_normal_to_the_input_directions(n, spare, dropped):
    Q, sizes = directions(n, 3, dropped)
    basis = normal_to(Q, sizes, spare)
    P, k = dense(basis, n), n - len(spare)
    np.testing.assert_allclose(P.T @ P, np.eye(k), atol=1e-14)
    np.testing.assert_allclose(P.T @ Q, 0.0, atol=1e-14)
    x = RNG.normal(size=n)
    np.testing.assert_allclose(basis.parts(x), P.T @ x, atol=1e-14)


@pytest.mark.parametrize("dropped", [(), (2,), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize(("n", "spare"), [(9, (7,)), (8, (1, 4)), (6, ()), (3, (1,)), (3, ())])
def test_householder_basis_has_a_zero_column_for_each_direction_beyond_the_unused_axes(
    n, spare, dropped
):
    Q, sizes = directions(n, 3, dropped)
    P = dense(normal_to(Q, sizes, spare), n)
    assert P.shape[1] == n - len(spare)
    some = P.any(axis=0)
    assert some.sum() == n - max(len(spare), 3 - len(dropped))
    np.testing.assert_allclose(P.T @ P, np.diag(1.0 * some), atol=1e-14)
    np.testing.assert_allclose(P.T @ Q, 0.0, atol=1e-14)


@pytest.mark.parametrize("dropped", [(), (2,), (0, 1, 2)])
@pytest.mark.parametrize("spare", [(6, 7, 8), (0, 2, 5, 7), (3,), ()])
def test_input_directions_and_householder_basis_span_all_vectors_with_zero_unused_components(
    dropped, spare
):
    Q, sizes = directions(9, 3, dropped)
    vectors = RNG.normal(size=(9, 4))
    vectors[list(spare)] = 0.0
    P = dense(normal_to(Q, sizes, spare), 9)
    np.testing.assert_allclose(Q @ (Q.T @ vectors) + P @ (P.T @ vectors), vectors, atol=1e-14)


def test_householder_basis_is_orthonormal_for_coordinate_directions():
    for Q in (np.eye(5)[:, 2:4], np.eye(5)[:, :2], -np.eye(5)[:, [2, 0]]):
        P = dense(normal_to(Q, (1.0, 1.0), (2, 3, 4)), 5)
        np.testing.assert_allclose(P.T @ P, np.eye(2), atol=1e-15)
        np.testing.assert_allclose(P.T @ Q, 0.0, atol=1e-15)


def test_traced_and_numpy_values_of_householder_bases_agree():
    shapes = {"M": (9, 3), "x": (9,)}

    def parts(M, x):
        Q, _, sizes = orthonormal(M, 1e-18)
        basis = normal_to(Q, sizes, (6, 7, 8))
        return {"parts": basis.parts(x), "back": basis.combine(basis.parts(x))}

    M, x = RNG.normal(size=(9, 3)), RNG.normal(size=9)
    values = Evaluation(trace("parts", parts, shapes))(np.concatenate([M.ravel(), x]))
    np.testing.assert_allclose(values, np.concatenate([*parts(M, x).values()]), atol=1e-14)


def test_basis_completion_is_a_qr_decomposition_orthogonal_to_the_given_basis():
    Q, _ = directions(8, 2, (1,))
    vectors = RNG.normal(size=(8, 4))
    vectors[:, 2] = vectors[:, 0] - 2.0 * vectors[:, 1]
    P, R = completion(Q, list(vectors.T))
    np.testing.assert_allclose(R, P.T @ vectors, atol=1e-13)
    np.testing.assert_allclose(np.tril(R, -1), 0.0, atol=0.0)
    assert not P[:, 2].any()
    np.testing.assert_allclose(Q @ (Q.T @ vectors) + P @ R, vectors, atol=1e-13)
    x = RNG.normal(size=8)
    np.testing.assert_allclose(Columns(P).parts(x), P.T @ x)
