"""Loop solvers compared with each other and with the equations that they solve (RBDA 8.5)."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import null_space as scipy_null_space

from loop_models import DEPENDENT, INDEPENDENT, LOOP_MODELS, loop_model
from rigidblocks.dynamics import bias_force, crba, expanded_parent
from rigidblocks.dynamics.joint_kinematics import velocity_names
from rigidblocks.dynamics.loops import loop_constraints
from rigidblocks.dynamics.loops.constraint_solvers import SOLVERS, solver, svd_null_space
from rigidblocks.dynamics.loops.loop_dynamics import closed_loop_dynamics
from rigidblocks.robot.joints import LoopJoint, Revolute, Spherical
from rigidblocks.robot.model import Model
from rigidblocks.spatial.linear_algebra import null_space, reduction, svd
from rigidblocks.spatial.spatial import identity, mcI, xlt
from rigidblocks.tracing.trace import trace

# linear systems: the rounding error grows with the condition number of H (about 100) and with the
# square of the condition number of K (about 10)
RTOL = 1e-11
TRACED = 1e-10  # same operations in a different order


def equal(actual, expected, rtol=RTOL):
    assert_allclose(
        np.asarray(actual, float),
        expected,
        rtol=0,
        atol=rtol * max(1.0, np.max(np.abs(expected), initial=0)),
    )


@pytest.fixture(params=LOOP_MODELS)
def name(request):
    return request.param


@pytest.fixture(params=SOLVERS)
def method(request):
    return request.param


class System:
    """Equation of motion of a model in a state that satisfies the loop constraints."""

    def __init__(self, name, seed=0):
        self.model, self.state = loop_model(name, seed)
        q, qd, _, tau = self.state
        self.H, self.f = crba(self.model, q), tau - bias_force(self.model, q, qd)
        self.K, self.k, _ = loop_constraints(self.model, q, qd)
        self.parent, self.blocks = expanded_parent(self.model), self.model.constraint_slices

    def solve(self, method, **options):
        return SOLVERS[method](self.H, self.f, self.K, self.k, self.parent, self.blocks, **options)

    @property
    def rank(self):
        return np.linalg.matrix_rank(self.K, tol=1e-9)

    @property
    def kkt(self):
        return np.block([[self.H, self.K.T], [self.K, np.zeros((len(self.K),) * 2)]])


# all solvers


@pytest.mark.parametrize("seed", range(3))
def test_loop_solver_results_satisfy_the_equation_of_motion_and_the_constraints(name, method, seed):
    s = System(name, seed)
    qdd, lam = s.solve(method)
    equal(s.H @ qdd, s.f + s.K.T @ lam)
    equal(s.K @ qdd, s.k)


@pytest.mark.parametrize("seed", range(3))
def test_accelerations_of_loop_solvers_match_the_null_space_solution_of_scipy(name, method, seed):
    s = System(name, seed)
    x, G = np.linalg.lstsq(s.K, s.k, rcond=1e-9)[0], scipy_null_space(s.K, rcond=1e-9)
    qdd = x if G.shape[1] == 0 else x + G @ np.linalg.solve(G.T @ s.H @ G, G.T @ (s.f - s.H @ x))
    equal(s.solve(method).qdd, qdd)


@pytest.mark.parametrize("name", INDEPENDENT)
def test_constraint_forces_of_independent_constraints_equal_the_kkt_solution(name, method):
    s = System(name)
    solution = np.linalg.solve(s.kkt, np.concatenate([s.f, s.k]))
    qdd, lam = s.solve(method)
    equal(qdd, solution[: len(s.H)])
    equal(lam, -solution[len(s.H) :])


@pytest.mark.parametrize("name", DEPENDENT)
def test_joint_forces_of_dependent_constraints_do_not_depend_on_the_loop_solver(name, method):
    s = System(name)
    assert s.rank < len(s.K)
    equal(s.K.T @ s.solve(method).lam, s.K.T @ s.solve("elimination").lam)


def test_accelerations_of_loop_solvers_do_not_depend_on_the_use_of_sparsity(name, method):
    s = System(name)
    equal(SOLVERS[method](s.H, s.f, s.K, s.k).qdd, s.solve(method).qdd)


def test_constrained_accelerations_satisfy_gauss_principle_of_least_constraint(name, method):
    # principle of Gauss: no other admissible acceleration has a smaller distance to the free
    # acceleration in the metric H
    s = System(name)
    free, qdd = np.linalg.solve(s.H, s.f), s.solve(method).qdd

    def distance(a):
        return (a - free) @ s.H @ (a - free)

    for step in scipy_null_space(s.K, rcond=1e-9).T:
        assert distance(qdd) <= min(distance(qdd + 1e-2 * step), distance(qdd - 1e-2 * step))


@pytest.mark.parametrize("method", SOLVERS)
@pytest.mark.parametrize("name", ["planar loops", "spatial four-bar"])
def test_traced_and_numpy_results_of_loop_solvers_agree(name, method):
    s = System(name)

    def solution(*values):
        return SOLVERS[method](*values, s.parent, s.blocks)._asdict()

    values = {"H": s.H, "f": s.f, "K": s.K, "k": s.k}
    graph = trace(method, solution, {key: value.shape for key, value in values.items()})
    expected = np.concatenate(list(solution(*values.values()).values()))
    equal(graph(np.concatenate([value.ravel() for value in values.values()])), expected, TRACED)


@pytest.mark.slow
@pytest.mark.parametrize("method", SOLVERS)
def test_traced_and_numpy_results_of_closed_loop_dynamics_agree(method):
    model, s = loop_model("spatial four-bar")

    def dynamics(q, qd, tau):
        motion = closed_loop_dynamics(model, q, qd, tau, method=method)
        return {"qdd": motion.qdd, "lam": motion.lam}

    graph = trace(method, dynamics, {"q": (model.nq,), "qd": (model.nv,), "tau": (model.nv,)})
    expected = np.concatenate(list(dynamics(s.q, s.qd, s.tau).values()))
    equal(graph(np.concatenate([s.q, s.qd, s.tau])), expected, TRACED)


def test_accelerations_at_a_singular_configuration_are_bounded(method):
    # flat parallelogram: the rank of K drops by one, and the accelerations are bounded and satisfy
    # the remaining constraints
    model = parallelogram()
    q = np.array([0.0, 0.0, np.pi])
    qdd = closed_loop_dynamics(model, q, np.zeros(3), np.zeros(3), method=method).qdd
    c = loop_constraints(model, q, np.zeros(3))
    assert np.linalg.matrix_rank(c.K, tol=1e-9) == 1
    equal(c.K @ qdd, c.k)
    assert np.max(np.abs(qdd)) < 100.0


@pytest.mark.parametrize("angle", [1e-1, 1e-3, 1e-5, 1e-7])
def test_acceleration_error_near_singular_configurations_grows_with_the_condition_number(
    method, angle
):
    # the crank angle determines the parallelogram, so one equation gives the exact accelerations
    # even if the parallelogram is nearly flat
    model, G = parallelogram(), np.array([1.0, -1.0, 1.0])
    q, tau = np.array([angle, -angle, angle + np.pi]), np.array([1.0, 2.0, 3.0])
    exact = G * (G @ (tau - bias_force(model, q, G)) / (G @ crba(model, q) @ G))
    qdd = closed_loop_dynamics(model, q, G, tau, method=method).qdd
    assert_allclose(qdd, exact, rtol=0, atol=5e-15 / angle * np.max(np.abs(exact)))


def test_unknown_loop_solver_is_rejected():
    message = "unknown solver 'lu' for loops; expected one of elimination, kkt, multipliers"
    with pytest.raises(ValueError, match=message):
        solver("lu")


def parallelogram():
    """Return links of 1, 2 and 1 m with joints about z, on supports 2 m apart."""
    link = [
        mcI(l, [l / 2, 0, 0], np.diag([0.01, l * l / 12, l * l / 12]) * l) for l in (1.0, 2.0, 1.0)
    ]
    loop = LoopJoint(Revolute(), -1, 2, xlt([2.0, 0, 0]), xlt([1.0, 0, 0]))
    Xtree = (identity(), xlt([1.0, 0, 0]), xlt([2.0, 0, 0]))
    return Model(
        "parallelogram",
        (-1, 0, 1),
        (Revolute(),) * 3,
        Xtree,
        link,
        np.array([0.0, -9.81, 0.0]),
        loops=(loop,),
    )


# the KKT system


def test_rank_of_the_kkt_matrix_is_the_sum_of_the_ranks_of_inertia_and_constraints(name):
    # n + rank(K) (RBDA 8.1)
    s = System(name)
    assert np.linalg.matrix_rank(s.kkt, tol=1e-9) == len(s.H) + s.rank


@pytest.mark.parametrize("name", DEPENDENT)
def test_removed_dependent_constraints_have_zero_force_and_no_effect_on_accelerations(name):
    s = System(name)
    kept = reduction(s.K, s.k).kept == 1.0
    assert np.sum(kept) == s.rank
    qdd, lam = s.solve("kkt")
    equal(lam[~kept], np.zeros(np.sum(~kept)))
    equal(SOLVERS["kkt"](s.H, s.f, s.K[kept], s.k[kept]).qdd, qdd)


# multipliers


def test_delassus_matrix_is_positive_semidefinite_with_the_rank_of_the_constraints(name):
    # A = K H^-1 K^T is positive semidefinite (RBDA Eq 8.40)
    s = System(name)
    A = s.K @ np.linalg.solve(s.H, s.K.T)
    assert np.min(np.linalg.eigvalsh(A)) > -1e-12 * np.max(A)
    assert np.linalg.matrix_rank(A, tol=1e-10) == s.rank


@pytest.mark.parametrize("name", DEPENDENT)
def test_constraint_forces_in_the_null_space_do_not_change_the_accelerations(name, rng):
    # lam = A^+ b + (1 - A^+ A) z, with K^T (1 - A^+ A) = 0 for any z
    s = System(name)
    A = s.K @ np.linalg.solve(s.H, s.K.T)
    z = rng.uniform(-10, 10, len(A))
    qdd, lam = s.solve("multipliers")
    idle = z - np.linalg.pinv(A, rcond=1e-10) @ (A @ z)
    assert np.linalg.norm(idle) > 0.1
    equal(np.linalg.solve(s.H, s.f + s.K.T @ (lam + idle)), qdd, 1e-10)


@pytest.mark.parametrize("method", ["multipliers", "svd"])
@pytest.mark.parametrize("name", DEPENDENT)
def test_constraint_forces_of_dependent_constraints_have_the_smallest_norm(name, method):
    s = System(name)
    qdd, lam = s.solve(method)
    equal(lam, np.linalg.lstsq(s.K.T, s.H @ qdd - s.f, rcond=1e-9)[0], 1e-10)


# null space


def test_velocities_in_the_null_space_basis_satisfy_the_constraints(name):
    s = System(name)
    G, g, independent = null_space(s.K, s.k)
    n = len(s.H)
    assert G.shape == (n, n - s.rank)
    assert len(independent) == n - s.rank
    equal(s.K @ G, np.zeros((len(s.K), n - s.rank)))
    equal(s.K @ g, s.k)
    equal(G[list(independent)], np.eye(n - s.rank))
    equal(g[list(independent)], np.zeros(n - s.rank))


def test_null_space_basis_contains_an_identity_block(name):
    # at least (n - r)(n - r - 1) (RBDA 8.9)
    s = System(name)
    G = null_space(s.K, s.k).G
    free = G.shape[1]
    assert np.sum(G == 0.0) >= free * (free - 1)


def test_variables_of_joints_outside_all_loops_are_independent(name):
    s = System(name)
    idle = {j for j in range(len(s.H)) if not np.any(s.K[:, j])}
    assert idle <= set(null_space(s.K, s.k).independent)


def test_accelerations_do_not_depend_on_the_choice_of_independent_variables():
    s = System("planar loops")
    chosen = null_space(s.K, s.k, independent=(0, 3, 5))
    assert chosen.independent == (0, 3, 5)
    equal(s.K @ chosen.G, np.zeros((4, 3)))
    equal(s.K @ chosen.g, s.k)
    equal(chosen.G[[0, 3, 5]], np.eye(3))
    equal(s.solve("null_space", independent=(0, 3, 5)).qdd, s.solve("kkt").qdd)


def test_traced_null_space_with_chosen_variables_matches_the_results_of_numpy():
    s = System("planar loops")

    def solution(K, k):
        return null_space(K, k, (0, 3, 5))._asdict() | {"independent": np.zeros(0)}

    graph = trace("null_space", solution, {"K": s.K.shape, "k": s.k.shape})
    G, g, _ = null_space(s.K, s.k, (0, 3, 5))
    equal(graph(np.concatenate([s.K.ravel(), s.k])), np.concatenate([G.ravel(), g]), TRACED)
    with pytest.raises(ValueError, match="the null space of a traced matrix needs `independent`"):
        trace(
            "null_space", lambda K, k: null_space(K, k)._asdict(), {"K": s.K.shape, "k": s.k.shape}
        )


def test_error_for_dependent_null_space_coordinates_lists_the_dependent_variables():
    # the constraint ties rod to crank; no constraint contains slide
    K = np.array([[1.0, -1.0, 0.0], [0.0, 0.0, 0.0]])
    names = ("crank", "rod", "slide")
    with pytest.raises(
        ValueError,
        match="crank, rod are not independent: the constraints couple crank and rod",
    ):
        null_space(K, np.zeros(2), (0, 1), names)
    with pytest.raises(
        ValueError, match="crank do not determine slide; of the 3 variables, 2 are independent"
    ):
        null_space(K, np.zeros(2), (0,), names)
    with pytest.raises(ValueError, match=r"slide are not independent: the constraints fix slide"):
        null_space(np.array([[0.0, 0.0, 2.0]]), np.zeros(1), (0, 1, 2), names)


def test_velocity_variables_are_named_after_their_joints():
    model = Model(
        "rod",
        (-1, 0),
        (Spherical(), Revolute()),
        (identity(),) * 2,
        (mcI(1.0, np.zeros(3), np.eye(3)),) * 2,
    )
    assert velocity_names(model) == ("joint1[0]", "joint1[1]", "joint1[2]", "joint2")


# singular values


@pytest.mark.parametrize("columns", range(1, 13))
@pytest.mark.parametrize("kind", ["general", "graded", "nearly dependent", "dependent", "equal"])
def test_svd_by_jacobi_rotations_matches_the_singular_values_and_vectors_of_numpy(
    columns, kind, rng
):
    A = rng.normal(size=(15, columns))
    if kind == "graded":
        A = A * 10.0 ** rng.uniform(-6, 2, columns)
    if "dependent" in kind:
        half = columns // 2
        A[:, columns - half :] = (
            A[:, :half] + (kind == "nearly dependent") * 1e-7 * A[:, columns - half :]
        )
    if kind == "equal":
        V = np.linalg.qr(rng.normal(size=(columns, columns)))[0]
        A = np.linalg.qr(A)[0] @ np.diag(rng.choice([1.0, 2.0], columns)) @ V
    for B in (A, A.T):
        U, s, V = svd(B)
        size = s[0]
        assert_allclose(s, np.linalg.svd(B)[1], rtol=0, atol=1e-14 * size)
        assert np.all(np.diff(s) <= 1e-15 * size)
        assert_allclose((U * s) @ V.T, B, rtol=0, atol=1e-13 * size)
        for Q in (U[:, s > 1e-12 * size], V[:, s > 1e-12 * size]):
            assert_allclose(
                Q.T @ Q, np.eye(Q.shape[1]), rtol=0, atol=1e-13 if kind != "graded" else 1e-12
            )


@pytest.mark.slow
def test_traced_and_numpy_singular_values_agree(rng):
    A = rng.normal(size=(12, 12))
    A[8:] = A[:4] + A[4:8]
    graph = trace("svd", lambda A: {"s": svd(A).s}, {"A": A.shape})
    assert_allclose(graph(A.ravel()), np.linalg.svd(A)[1], rtol=0, atol=1e-13 * np.linalg.norm(A))


def test_pseudo_inverse_equals_the_moore_penrose_inverse_of_numpy(name):
    s = System(name)
    equal(svd(s.K).pseudo_inverse(), np.linalg.pinv(s.K, rcond=1e-9))
    assert svd(s.K).rank() == s.rank


def test_condition_number_is_the_ratio_of_the_extreme_singular_values():
    s = System("three loops")
    equal(svd(s.K).condition, np.linalg.cond(s.K))
    assert svd(np.zeros((2, 3))).condition == 1e300
    assert svd(np.diag([1.0, 0.0])).condition == 1e300


def test_damped_loop_solver_bounds_the_accelerations_and_has_a_second_order_error():
    # s / (s^2 + d^2): the relative error of K qdd against k is d^2 / (s^2 + d^2) (thesis 3.3)
    s = System("three loops")
    exact, sizes = s.solve("svd").qdd, np.array([1e-2, 1e-3])
    errors = [np.linalg.norm(s.solve("svd", damping=damping).qdd - exact) for damping in sizes]
    assert errors[0] / errors[1] == pytest.approx(100.0, rel=0.2)
    K, k = np.diag([1.0, 1e-6]), np.array([0.0, 1.0])
    sharp, damped = (
        svd_null_space(np.eye(2), np.zeros(2), K, k, damping=d).qdd for d in (0.0, 1e-3)
    )
    equal(sharp, [0.0, 1e6])
    assert np.linalg.norm(damped) < 0.5 / 1e-3
