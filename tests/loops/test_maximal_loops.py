"""Maximal coordinates: each joint is a constraint between free bodies (RBDA 8.13)."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import solve_banded
from scipy.sparse import csr_array

from loop_models import INDEPENDENT, LOOP_JOINTS, LOOP_MODELS, loop_model, one_loop, with_loops
from random_models import random_state, random_tree
from rigidblocks.dynamics import aba, body_accelerations, crba
from rigidblocks.dynamics.loops import closed_loop_dynamics
from rigidblocks.dynamics.loops.maximal_coordinates import (
    factorization,
    maximal_dynamics,
    maximal_equations,
    maximal_system,
    sparse_matrix,
    sparse_maximal_dynamics,
    sparse_solution,
)
from rigidblocks.robot.configuration import random_configuration
from rigidblocks.robot.joints import Revolute, Spherical
from rigidblocks.robot.robots import n_four_bar

# systems of up to 80 equations: the rounding error grows with the condition number, up to 1e4
RTOL = 1e-9


def equal(actual, expected, rtol=RTOL):
    assert_allclose(
        actual, expected, rtol=0, atol=rtol * max(1.0, np.max(np.abs(expected), initial=0))
    )


@pytest.fixture(params=[*LOOP_MODELS, *(f"one {name}" for name in LOOP_JOINTS)])
def closed_loops(request, rng):
    name = request.param
    return loop_model(name) if name in LOOP_MODELS else one_loop(name.removeprefix("one "), rng)


def test_maximal_coordinate_and_spanning_tree_accelerations_agree(closed_loops, rng):
    model, s = closed_loops
    f_ext, gravity = (
        rng.uniform(-5, 5, (model.nb, len(model.algebra.zero()))),
        rng.uniform(-10, 10, len(model.gravity)),
    )
    free = maximal_dynamics(model, s.q, s.qd, s.tau, f_ext, gravity)
    expected = (
        closed_loop_dynamics(model, s.q, s.qd, s.tau, f_ext, gravity).qdd if model.nc else None
    )
    equal(free.qdd, aba(model, s.q, s.qd, s.tau, f_ext, gravity) if expected is None else expected)
    equal(free.a, body_accelerations(model, s.q, s.qd, free.qdd))


def test_sparse_and_dense_maximal_coordinate_dynamics_agree(closed_loops, rng):
    model, s = closed_loops
    f_ext = rng.uniform(-5, 5, (model.nb, len(model.algebra.zero())))
    dense = maximal_dynamics(model, s.q, s.qd, s.tau, f_ext)
    sparse = sparse_maximal_dynamics(model, s.q, s.qd, s.tau, f_ext)
    equal(sparse.qdd, dense.qdd)
    equal(sparse.a, dense.a)


@pytest.mark.parametrize("name", INDEPENDENT)
def test_maximal_coordinate_and_spanning_tree_constraint_forces_agree(name):
    model, s = loop_model(name)
    equal(
        maximal_dynamics(model, s.q, s.qd, s.tau).lam,
        closed_loop_dynamics(model, s.q, s.qd, s.tau).lam,
    )


def test_maximal_coordinate_dynamics_of_trees_match_the_accelerations_of_aba(rng):
    model = random_tree(rng, (-1, 0, 0, 1, 2))
    s = random_state(rng, model)
    equal(
        maximal_dynamics(model, s.q, s.qd, s.tau, s.f_ext).qdd,
        aba(model, s.q, s.qd, s.tau, s.f_ext),
    )


def test_maximal_coordinate_matrix_has_blocks_only_for_connected_bodies_and_joints(closed_loops):
    # one block per body and at most four blocks per joint (RBDA 8.13)
    model, s = closed_loops
    matrix, right, blocks = maximal_system(model, s.q, s.qd, s.tau)
    equal(matrix, matrix.T, 1e-15)
    assert len(right) == blocks[-1].stop
    filled = sum(bool(np.any(matrix[a, b])) for a in blocks for b in blocks)
    assert filled <= model.nb + 4 * (model.nb + len(model.loops))
    assert len(blocks) == 2 * model.nb + len(model.loops)


# the ladder of RBDA Figure 8.4


def ladder(rungs, rng):
    """Return a ladder with bodies 0 2 4 ... along one side and 1 3 5 ... along the other.

    The tree consists of one side and the rungs; the joints of the other side are loop joints.
    """
    nb = 2 * rungs
    parent = tuple(i - 1 if i % 2 else i - 2 if i else -1 for i in range(nb))
    model = random_tree(
        rng, parent, tuple(Revolute() if i == 0 else Spherical() for i in range(nb))
    )
    q = random_configuration(model, rng)
    return with_loops(model, q, [(Spherical(), i, i + 2) for i in range(1, nb - 2, 2)], rng), q


def ladder_order(model):
    """Return the block indices in the row order of the book.

    The order is bodies 1, 2, joints 12, 13, 24, bodies 3, 4, and so on.
    """
    nb, order = model.nb, [model.nb]  # the joint to the base first
    for i in range(0, nb, 2):
        order += [i, i + 1, nb + i + 1]
        if i + 2 < nb:
            order += [nb + i + 2, 2 * nb + i // 2]
    return order


@pytest.mark.parametrize("rungs", [3, 6])
def test_matrix_of_a_ladder_of_loops_has_a_fixed_bandwidth_in_the_order_of_rbda(rungs, rng):
    model, q = ladder(rungs, rng)
    matrix, right, blocks = maximal_system(
        model, q, np.zeros(model.nv), rng.uniform(-1, 1, model.nv)
    )
    order = ladder_order(model)
    assert sorted(order) == list(range(len(blocks)))
    place = {block: k for k, block in enumerate(order)}
    meets = [
        (a, b)
        for a in range(len(blocks))
        for b in range(len(blocks))
        if np.any(matrix[blocks[a], blocks[b]])
    ]
    assert max(abs(place[a] - place[b]) for a, b in meets) == 3

    # the factors have the same bandwidth, so the cost is proportional to the length
    rows = np.concatenate([np.arange(len(right))[blocks[block]] for block in order])
    banded = matrix[np.ix_(rows, rows)]
    width = max(abs(i - j) for i, j in zip(*np.nonzero(banded), strict=True))
    assert width < 24
    diagonals = np.array(
        [np.pad(np.diag(banded, k), (max(k, 0), max(-k, 0))) for k in range(width, -width - 1, -1)]
    )
    solution = np.empty(len(right))
    solution[rows] = solve_banded((width, width), diagonals, right[rows])
    equal(matrix @ solution, right)


def test_number_of_inertia_matrix_nonzeros_grows_quadratically_with_the_ladder_length(rng):
    # three times as many nonzeros for twice the length
    filled = [np.count_nonzero(crba(*ladder(rungs, rng))) for rungs in (3, 6, 12)]
    assert filled[2] / filled[1] > 3.0


def parallelogram(windows):
    """Return a chain of four-bars with its state and random joint forces."""
    model = n_four_bar(windows).model
    signs = np.where(np.arange(model.nv) % 2, -1.0, 1.0)
    return model, signs, -1.5 * signs, np.random.default_rng(0).uniform(-10, 10, model.nv)


@pytest.mark.slow
@pytest.mark.parametrize("windows", [5, 20, 320])
def test_sparse_accelerations_of_a_chain_of_loops_equal_the_closed_form(windows):
    # all bars rotate equally: G = signs, and signs^T H signs is the bracketed term of n_four_bar
    model, q, qd, tau = parallelogram(windows)
    motion = sparse_maximal_dynamics(model, q, qd, tau, gravity=np.array([0.0, -9.81]))
    n, angle = windows, 1.0
    weight = 9.81 * np.cos(angle) * ((n + 1) / 2 + n)
    expected = (tau @ np.sign(q) - weight) / ((n + 1) / 3 + n)
    assert_allclose(motion.qdd, expected * np.sign(q), rtol=1e-10)


@pytest.mark.slow
def test_sparse_factor_size_of_a_chain_of_loops_grows_linearly_with_its_length():
    filled = []
    for windows in (5, 20, 80, 320):
        equations = maximal_equations(*parallelogram(windows))
        softness = np.where(np.arange(len(equations.right)) < 3 * (2 * windows + 1), 0.0, 1e-8)
        factors = factorization(sparse_matrix(equations), softness)
        filled.append(factors.nnz / windows)
    assert max(filled[1:]) < 1.1 * filled[0]


def test_contradictory_constraints_are_rejected_by_the_sparse_solver():
    # one body in one dimension with the contradicting accelerations 0 and 1
    W = csr_array([[2.0, 1, 1], [1, 0, 0], [1, 0, 0]])
    assert_allclose(sparse_solution(W, np.array([2.0, 3, 3]), 1), [3, -2, -2], rtol=1e-12)
    assert not np.any(sparse_solution(W, np.zeros(3), 1))  # an exact solution ends the iteration
    with pytest.raises(ArithmeticError, match="are inconsistent or nearly dependent"):
        sparse_solution(W, np.array([0.0, 0, 1]), 1)
