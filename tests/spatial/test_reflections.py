"""Bases that reflections make, against what orthonormal means."""

import numpy as np
import pytest

from rigidblocks.algebra.linear import completion, orthonormal
from rigidblocks.algebra.reflections import Columns, normal_to
from rigidblocks.tracing.evaluation import Evaluation
from rigidblocks.tracing.trace import trace

RNG = np.random.default_rng(7)


def directions(n, m, dropped=()):
    """Orthonormal columns (n, m), with zeros in the place of those that are dropped, and their
    sizes.
    """
    Q = np.linalg.qr(RNG.normal(size=(n, m)))[0]
    sizes = RNG.uniform(1e-6, 1.0, m)
    Q[:, list(dropped)], sizes[list(dropped)] = 0.0, 0.0
    return Q, tuple(sizes)


def dense(basis, n):
    """P of a basis."""
    return np.array([basis.sum(unit) for unit in np.eye(basis.size)]).T.reshape(n, basis.size)


@pytest.mark.parametrize("dropped", [(), (2,), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize(("n", "spare"), [(9, (6, 7, 8)), (7, (1, 3, 4, 6)), (3, (0, 1, 2))])
def test_reflected_basis_is_orthonormal_and_normal_to_the_directions(n, spare, dropped):
    Q, sizes = directions(n, 3, dropped)
    basis = normal_to(Q, sizes, spare)
    P, k = dense(basis, n), n - len(spare)
    np.testing.assert_allclose(P.T @ P, np.eye(k), atol=1e-14)
    np.testing.assert_allclose(P.T @ Q, 0.0, atol=1e-14)
    x = RNG.normal(size=n)
    np.testing.assert_allclose(basis.parts(x), P.T @ x, atol=1e-14)


@pytest.mark.parametrize("dropped", [(), (2,), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize(("n", "spare"), [(9, (7,)), (8, (1, 4)), (6, ()), (3, (1,)), (3, ())])
def test_directions_without_a_spare_place_shut_another(n, spare, dropped):
    Q, sizes = directions(n, 3, dropped)
    P = dense(normal_to(Q, sizes, spare), n)
    assert P.shape[1] == n - len(spare)
    some = P.any(axis=0)
    assert some.sum() == n - max(len(spare), 3 - len(dropped))
    np.testing.assert_allclose(P.T @ P, np.diag(1.0 * some), atol=1e-14)
    np.testing.assert_allclose(P.T @ Q, 0.0, atol=1e-14)


@pytest.mark.parametrize("dropped", [(), (2,), (0, 1, 2)])
@pytest.mark.parametrize("spare", [(6, 7, 8), (0, 2, 5, 7), (3,), ()])
def test_vectors_without_spare_places_are_in_directions_and_basis(dropped, spare):
    Q, sizes = directions(9, 3, dropped)
    vectors = RNG.normal(size=(9, 4))
    vectors[list(spare)] = 0.0
    P = dense(normal_to(Q, sizes, spare), 9)
    np.testing.assert_allclose(Q @ (Q.T @ vectors) + P @ (P.T @ vectors), vectors, atol=1e-14)


def test_reflections_pass_directions_in_their_places_and_beside_them():
    for Q in (np.eye(5)[:, 2:4], np.eye(5)[:, :2], -np.eye(5)[:, [2, 0]]):
        P = dense(normal_to(Q, (1.0, 1.0), (2, 3, 4)), 5)
        np.testing.assert_allclose(P.T @ P, np.eye(2), atol=1e-15)
        np.testing.assert_allclose(P.T @ Q, 0.0, atol=1e-15)


def test_traced_reflections_give_what_those_of_numbers_give():
    shapes = {"M": (9, 3), "x": (9,)}

    def parts(M, x):
        Q, _, sizes = orthonormal(M, 1e-18)
        basis = normal_to(Q, sizes, (6, 7, 8))
        return {"parts": basis.parts(x), "back": basis.sum(basis.parts(x))}

    M, x = RNG.normal(size=(9, 3)), RNG.normal(size=9)
    values = Evaluation(trace("parts", parts, shapes))(np.concatenate([M.ravel(), x]))
    np.testing.assert_allclose(values, np.concatenate([*parts(M, x).values()]), atol=1e-14)


def test_completion_leaves_the_triangle_of_its_vectors():
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
