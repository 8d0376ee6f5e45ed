"""Derivatives of planar models equal traced derivatives and the derivatives of spatial models."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from planar_models import embedded, random_planar_state, random_planar_tree
from rigidblocks.dynamics import aba, crba, rnea
from rigidblocks.dynamics.loops import closed_loop_dynamics, loop_constraints
from rigidblocks.kernels.compiled_dynamics import derivatives, second_derivatives
from rigidblocks.robot.joints import PlanarPrismatic, PlanarRevolute, Reversed, Rheonomic
from rigidblocks.robot.joints.planar import spatial_joint
from rigidblocks.robot.model import PlanarModel
from rigidblocks.robot.robots import five_bar, four_bar, slider_crank
from rigidblocks.spatial.planar import identity, mcI, xlt
from rigidblocks.tracing.compiled_functions import LANES
from rigidblocks.tracing.trace import jacobian, trace

RTOL = 1e-12  # of two exact methods, relative to the largest element, times the condition of H
ALGORITHMS = {"rnea": (rnea, "tau", "qdd"), "aba": (aba, "qdd", "tau")}
PARENT = (-1, 0, 1, 0, 3, 3, -1, 6)


def close(actual, expected, condition=1.0):
    largest = max(1.0, np.max(np.abs(expected), initial=0.0))
    assert_allclose(actual, expected, rtol=0, atol=RTOL * condition * largest)


def traced_derivatives(function, y, names, model, values):
    """Return y and its derivatives with respect to `names`, by automatic differentiation."""
    shapes = {name: value.shape for name, value in zip(names, values, strict=True)}
    graph = trace("f", lambda *a: {y: function(model, *a)}, shapes)
    flat = jacobian(graph, y, names)(np.concatenate(values))
    return function(model, *values), *flat.reshape(3, model.nv, model.nv)


def check(model, s, algorithm):
    function, y, u = ALGORITHMS[algorithm]
    values = s.q, s.qd, getattr(s, u)
    expected = traced_derivatives(function, y, ("q", "qd", u), model, values)
    condition = np.linalg.cond(crba(model, s.q)) if algorithm == "aba" else 1.0
    for actual, wanted in zip(derivatives(model, algorithm)(*values), expected, strict=True):
        close(actual, wanted, condition)


@pytest.mark.slow
def test_planar_inverse_dynamics_derivatives_match_automatic_differentiation(rng):
    model = random_planar_tree(rng, PARENT)
    check(model, random_planar_state(rng, model), "rnea")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_derivatives_of_random_planar_trees_match_automatic_differentiation(seed):
    rng = np.random.default_rng(seed)
    model = random_planar_tree(rng, tuple(int(rng.integers(-1, i)) for i in range(2 + 3 * seed)))
    for algorithm in ALGORITHMS:
        check(model, random_planar_state(rng, model), algorithm)


@pytest.mark.slow
def test_derivatives_of_reversed_and_driven_joints_match_automatic_differentiation(rng):
    drive = Rheonomic(PlanarRevolute(), PlanarPrismatic("y"), lambda t: 0.3 * t * t)
    joints = (Reversed(PlanarPrismatic("y")), drive, Reversed(PlanarRevolute()), PlanarRevolute())
    model = random_planar_tree(rng, (-1, 0, 1, 1), joints).evaluate_at(0.7)
    for algorithm in ALGORITHMS:
        check(model, random_planar_state(rng, model), algorithm)


@pytest.mark.slow
def test_planar_and_spatial_dynamics_derivatives_agree(rng):
    """The chain of 29 bodies is long, so that its values are large."""
    model = random_planar_tree(rng, tuple(range(-1, 29)))
    s = random_planar_state(rng, model)
    condition = np.linalg.cond(crba(model, s.q))
    for algorithm, (_, _, u) in ALGORITHMS.items():
        both = (derivatives(one, algorithm) for one in (model, embedded(model)))
        mine, theirs = (one(s.q, s.qd, getattr(s, u)) for one in both)
        for actual, wanted in zip(mine, theirs, strict=True):
            close(actual, wanted, condition if algorithm == "aba" else 1.0)


@pytest.mark.slow
def test_batched_planar_derivatives_match_derivatives_of_single_states(rng):
    model = random_planar_tree(rng, PARENT)
    states = [random_planar_state(rng, model) for _ in range(9)]
    q, qd, tau = (np.array([getattr(s, name) for s in states]) for name in ("q", "qd", "tau"))
    batches = [derivatives(model, "aba", batch=True, lanes=n)(q, qd, tau) for n in LANES]
    one = derivatives(model, "aba")
    for results in zip(*batches, strict=True):
        for other in results[1:]:
            assert_array_equal(results[0], other)
    for k in range(len(q)):
        condition = np.linalg.cond(crba(model, q[k]))
        for batched, single in zip(batches[0], one(q[k], qd[k], tau[k]), strict=True):
            close(batched[k], single, condition)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [five_bar(), four_bar(), slider_crank()])
def test_planar_closed_loop_derivatives_match_automatic_differentiation(mechanism, rng):
    model, q, _ = mechanism
    K = loop_constraints(model, q, np.zeros(model.nv)).K
    free = np.linalg.svd(K)[2][np.linalg.matrix_rank(K) :].T
    qd, tau = free @ rng.normal(size=free.shape[1]), rng.normal(size=model.nv)

    def motion(model, *state):
        return closed_loop_dynamics(model, *state).qdd

    expected = traced_derivatives(motion, "qdd", ("q", "qd", "tau"), model, (q, qd, tau))
    actual = derivatives(model, "closed_loop_dynamics")(q, qd, tau)
    condition = np.linalg.cond(crba(model, q)) * np.linalg.cond(K)
    for mine, theirs in zip(actual, expected, strict=True):
        close(mine, theirs, condition)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_planar_second_derivatives_match_automatic_differentiation(algorithm, rng):
    model = random_planar_tree(rng, (-1, 0, 1, 0))
    s, n = random_planar_state(rng, model), model.nv
    function, y, u = ALGORITHMS[algorithm]
    values = {"q": s.q, "qd": s.qd, u: getattr(s, u)}
    shapes = {name: value.shape for name, value in values.items()}
    graph = trace("f", lambda *a: {y: function(model, *a)}, shapes)
    flat = np.concatenate([*values.values()])
    by_q = jacobian(jacobian(graph, y, "q"), f"d{y}_dq", ("q", "qd", u))(flat)
    by_qd = jacobian(jacobian(graph, y, "qd"), f"d{y}_dqd", "qd")(flat)
    expected = (*by_q.reshape(3, n, n, n), by_qd.reshape(n, n, n))
    condition = np.linalg.cond(crba(model, s.q)) ** 2 if algorithm == "aba" else 1.0
    actual = second_derivatives(model, algorithm)(*values.values())[4:]
    for mine, theirs in zip(actual, expected, strict=True):
        close(mine, theirs, condition)


def test_planar_model_with_a_massless_body_becomes_a_spatial_model_with_this_massless_body():
    bodies = (mcI(0.0, np.zeros(2), 0.0), mcI(2.0, [0.3, 0.1], 0.05))
    model = PlanarModel(
        "cross",
        (-1, 0),
        (PlanarPrismatic("x"), PlanarRevolute()),
        (identity(), xlt([0.2, 0.0])),
        bodies,
        np.array([0.0, -9.81]),
        body_names=("slide", "bar"),
        massless=("slide",),
    )
    q, qd, tau = np.array([0.1, 0.7]), np.array([0.3, -2.0]), np.array([1.0, 0.5])
    assert model.spatial_model().massless == ("slide",)
    close(aba(model.spatial_model(), q, qd, tau), aba(model, q, qd, tau), 10.0)


def test_derivatives_of_a_planar_joint_without_spatial_equivalent_are_rejected():
    joint = PlanarRevolute()
    assert spatial_joint(Reversed(joint)) == Reversed(spatial_joint(joint))
    with pytest.raises(ValueError, match="no spatial joint exists for"):
        spatial_joint(spatial_joint(joint))
