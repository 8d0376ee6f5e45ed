"""Branch-induced sparsity (RBDA 6.4, 6.5): factors and products skip and preserve zeros."""

from collections import Counter
from typing import ClassVar

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from random_models import random_state
from rigidblocks.dynamics import (
    aba,
    crba,
    expand_lambda,
    expanded_parent,
    factorization_counts,
    forward_dynamics_crba,
    inertia_times,
    ltdl,
    ltl,
    mpy_h,
    mpy_l,
    mpy_li,
    mpy_lit,
    mpy_lt,
    solve_ltdl,
    solve_ltl,
)
from rigidblocks.spatial.branch_sparsity import elimination_parent

RTOL = 1e-12  # rounding errors of about ten products, relative to the largest element
SOLVE = 1e-13  # relative error of a solution, per unit of the condition number

TREES = {
    "chain": (-1, 0, 1, 2, 3, 4),
    "star": (-1, -1, -1, -1, -1),
    "figure 6.3": (-1, 0, 0, 1, 1, 2, 2),
    "expanded": (-1, 0, 1, 2, 0, 3, 3, 4),
    "two trees": (-1, 0, -1, 2, 2, 1),
}


@pytest.fixture(params=TREES)
def tree(request):
    return TREES[request.param]


def zeros_of(parent):
    """Return a mask of the branch-induced zeros."""
    related = np.eye(len(parent), dtype=bool)
    for k, p in enumerate(parent):
        if p >= 0:
            related[k] |= related[p]
    return ~(related | related.T)


def lower(rng, parent):
    """Return a random well-conditioned lower triangular matrix with the sparsity of the tree."""
    L = np.tril(rng.uniform(-1, 1, (len(parent),) * 2))
    L[zeros_of(parent)] = 0.0
    np.fill_diagonal(L, rng.uniform(1, 2, len(parent)))
    return L


def close(actual, expected, rtol=RTOL):
    assert_allclose(actual, expected, rtol=0, atol=rtol * max(1.0, np.max(np.abs(expected))))


def test_expanded_parent_array_matches_rbda():
    # RBDA Table 6.4: joint 2 has three degrees of freedom; the book counts from 1
    parent = [p - 1 for p in (0, 1, 1, 2, 2, 3)]
    assert expand_lambda(parent, (1, 3, 1, 1, 1, 1)) == tuple(
        p - 1 for p in (0, 1, 2, 3, 1, 4, 4, 5)
    )


def test_expanded_parent_array_of_single_dof_joints_equals_the_parent_array(tree):
    assert expand_lambda(tree, (1,) * len(tree)) == tree


def test_expanded_parent_array_connects_children_of_a_fixed_joint_to_its_parent():
    assert expand_lambda((-1, 0, 1, 1, 0), (2, 0, 1, 3, 0)) == (-1, 0, 1, 1, 3, 4)
    assert expand_lambda((-1, 0), (0, 2)) == (-1, 0)


def test_factorization_operation_counts_match_the_examples_of_rbda():
    assert factorization_counts(TREES["expanded"]) == (17, 34)  # 42 of 64 elements are not zero
    assert (~zeros_of(TREES["expanded"])).sum() == 8 + 2 * 17 == 42
    assert factorization_counts(TREES["figure 6.3"]) == (10, 14)
    assert factorization_counts(TREES["star"]) == (0, 0)


@pytest.mark.parametrize("n", [1, 6, 9])
def test_factorization_of_a_chain_has_the_operation_count_of_dense_factorization(n):
    # RBDA Eq 6.28
    assert factorization_counts(tuple(range(-1, n - 1))) == ((n**2 - n) // 2, (n**3 - n) // 6)


def test_ltl_and_ltdl_factors_multiply_to_the_matrix(rng, tree):
    L = lower(rng, tree)
    H = L.T @ L
    close(ltl(H, tree), L, SOLVE * np.linalg.cond(H))
    unit, D = ltdl(H, tree)
    close(unit.T @ D @ unit, H)
    assert_array_equal(np.diag(unit), np.ones(len(tree)))
    assert_array_equal(D, np.diag(np.diag(D)))


def test_integer_inertia_matrix_is_factored_in_floating_point():
    H = [[2, 1], [1, 4]]
    L, (unit, D) = ltl(H, (-1, 0)), ltdl(H, (-1, 0))
    close(L.T @ L, H)
    close(unit.T @ D @ unit, H)


def test_ltl_and_ltdl_factors_have_no_fill_in(rng, tree):
    # exactly: every branch-induced zero of H is a zero of the factors, which are triangular
    L = lower(rng, tree)
    H = L.T @ L
    assert not H[zeros_of(tree)].any()
    for factor in (ltl(H, tree), ltdl(H, tree)[0]):
        assert not factor[zeros_of(tree)].any()
        assert not np.triu(factor, 1).any()


def test_sparse_factorization_reads_neither_upper_triangle_nor_branch_induced_zeros(rng, tree):
    L = lower(rng, tree)
    H = L.T @ L
    spoilt = np.where(zeros_of(tree) | np.triu(np.ones(H.shape, bool), 1), np.nan, H)
    x = rng.uniform(-1, 1, len(tree))
    close(np.where(zeros_of(tree), 0.0, ltl(spoilt, tree)), L, SOLVE * np.linalg.cond(H))
    close(mpy_h(spoilt, tree, x), H @ x)
    assert_array_equal(solve_ltdl(spoilt, tree, x), solve_ltdl(H, tree, x))


@pytest.mark.parametrize("columns", [(), (3,), (0,)])
def test_sparse_and_dense_matrix_products_agree(rng, tree, columns):
    L, x = lower(rng, tree), rng.uniform(-1, 1, (len(tree), *columns))
    H, condition = L.T @ L, np.linalg.cond(L)
    if 0 not in columns:
        close(mpy_h(H, tree, x), H @ x)
        close(mpy_l(L, tree, x), L @ x)
        close(mpy_lt(L, tree, x), L.T @ x)
        close(mpy_li(L, tree, x), np.linalg.solve(L, x), SOLVE * condition)
        close(mpy_lit(L, tree, x), np.linalg.solve(L.T, x), SOLVE * condition)
    for product in (mpy_h, mpy_l, mpy_lt, mpy_li, mpy_lit):
        assert product(L, tree, x).shape == x.shape


def test_unit_diagonal_option_does_not_change_solutions_with_a_unit_triangular_matrix(rng, tree):
    L, x = lower(rng, tree), rng.uniform(-1, 1, len(tree))
    np.fill_diagonal(L, 1.0)
    assert_array_equal(mpy_li(L, tree, x, unit=True), mpy_li(L, tree, x))
    assert_array_equal(mpy_lit(L, tree, x, unit=True), mpy_lit(L, tree, x))


def test_ltl_system_is_solved_with_the_transposed_factor_first(rng, tree):
    # the order is the reverse of that for the Cholesky factorization (RBDA 6.5)
    L, b = lower(rng, tree), rng.uniform(-1, 1, len(tree))
    H = L.T @ L
    close(mpy_li(L, tree, mpy_lit(L, tree, b)), np.linalg.solve(H, b), SOLVE * np.linalg.cond(H))
    for solve in (solve_ltl, solve_ltdl):
        close(solve(H, tree, b), np.linalg.solve(H, b), SOLVE * np.linalg.cond(H))


class Counted:
    """Number that counts its arithmetic operations."""

    done: ClassVar[Counter] = Counter()

    def __init__(self, value):
        self.value = value

    def _record(self, symbol, value):
        Counted.done[symbol] += 1
        return Counted(value)

    def __add__(self, other):
        return self._record("a", self.value + other.value)

    def __sub__(self, other):
        return self._record("a", self.value - other.value)

    def __mul__(self, other):
        return self._record("m", self.value * other.value)

    def __truediv__(self, other):
        return self._record("d", self.value / other.value)

    def sqrt(self):
        return self._record("r", self.value**0.5)


def count_operations(array):
    return np.vectorize(Counted, otypes=[object])(array)


def test_operation_counts_of_sparse_products_match_rbda_table_6_6(rng, tree):
    # RBDA Table 6.6; d divisions, r roots, m multiplications, a additions and subtractions
    n, (D1, D2) = len(tree), factorization_counts(tree)
    L, x = lower(rng, tree), rng.uniform(-1, 1, n)
    H = L.T @ L
    expected = {
        ltl: (n, D1, D2, D2),
        ltdl: (0, D1, D2, D2),
        mpy_l: (0, 0, n + D1, D1),
        mpy_lt: (0, 0, n + D1, D1),
        mpy_li: (0, n, D1, D1),
        mpy_lit: (0, n, D1, D1),
        mpy_h: (0, 0, n + 2 * D1, 2 * D1),
        solve_ltl: (n, D1 + 2 * n, D2 + 2 * D1, D2 + 2 * D1),
        solve_ltdl: (0, D1 + n, D2 + 2 * D1, D2 + 2 * D1),
    }
    for function, (r, d, m, a) in expected.items():
        Counted.done = Counter()
        factorization = function in (ltl, ltdl)
        of_H = factorization or function in (mpy_h, solve_ltl, solve_ltdl)
        function(
            count_operations(H if of_H else L),
            tree,
            *(() if factorization else (count_operations(x),)),
        )
        assert Counted.done == Counter(r=r, d=d, m=m, a=a), function.__name__


def test_inertia_matrix_has_the_branch_induced_zeros(model, rng):
    H = crba(model, random_state(rng, model).q)
    parent = expanded_parent(model)
    assert len(parent) == model.nv
    assert not H[zeros_of(parent)].any()
    L, (unit, D) = ltl(H, parent), ltdl(H, parent)
    close(L.T @ L, H)
    close(unit.T @ D @ unit, H)


@pytest.mark.parametrize("solve", [solve_ltl, solve_ltdl])
def test_forward_dynamics_by_crba_and_by_aba_give_equal_accelerations(model, rng, solve):
    s, g = random_state(rng, model), rng.uniform(-9, 9, 3)
    expected = aba(model, s.q, s.qd, s.tau, s.f_ext, g)
    actual = forward_dynamics_crba(model, s.q, s.qd, s.tau, s.f_ext, g, solve=solve)
    close(actual, expected, SOLVE * np.linalg.cond(crba(model, s.q)))


def test_product_of_sparse_inertia_and_vector_equals_the_matrix_vector_product(model, rng):
    s = random_state(rng, model)
    close(inertia_times(model, s.q, s.qdd), crba(model, s.q) @ s.qdd)


def test_invalid_parent_arrays_and_shapes_are_rejected():
    H = np.eye(3)
    with pytest.raises(ValueError, match="entry 1 of the parent array is 1; it must be one of -1"):
        ltl(H, (-1, 1, 0))
    with pytest.raises(ValueError, match="has 2 entries, but the matrix has 3 rows"):
        ltdl(H, (-1, 0))
    with pytest.raises(ValueError, match="must be square"):
        ltl(np.ones((3, 2)), (-1, 0, 1))
    with pytest.raises(ValueError, match="the vector has 2 elements, but the matrix has 3 rows"):
        mpy_li(H, (-1, 0, 1), np.ones(2))
    with pytest.raises(
        ValueError, match="the number of degrees of freedom of each joint, not 1 numbers for 2"
    ):
        expand_lambda((-1, 0), (1,))
    for factorize in (ltl, ltdl):
        with pytest.raises(ValueError, match="not positive definite: pivot 1 is -"):
            factorize(np.diag([1.0, -2.0, 3.0]), (-1, 0, 1))


def test_elimination_tree_contains_all_fill_in_of_the_factors(rng):
    # for a matrix with a random sparsity pattern
    for n in range(1, 12):
        A = rng.normal(size=(n, n)) * (rng.uniform(size=(n, n)) < 0.2)
        H = A + A.T + 2 * n * np.eye(n)
        L = ltl(H, elimination_parent(H != 0))
        assert_allclose(L.T @ L, H, rtol=0, atol=RTOL * n)


def test_elimination_tree_of_branch_induced_zeros_is_the_kinematic_tree(tree):
    assert elimination_parent(~zeros_of(tree)) == tree
