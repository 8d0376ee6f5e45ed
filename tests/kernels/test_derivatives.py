"""Derivatives of dynamics match finite differences, identities, tracing and Pinocchio.

The identities come from mechanics, such as the inertia matrix as a derivative of inverse
dynamics. The traced derivatives come from automatic differentiation of the algorithms.
"""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pinocchio_trees import in_pinocchio
from random_models import random_parents, random_state, random_tree
from rigidblocks.dynamics import aba, crba, energy, kinetic_energy, potential_energy, rnea
from rigidblocks.kernels import compiled_dynamics
from rigidblocks.kernels.compiled_dynamics import derivatives
from rigidblocks.kernels.derivative_columns import is_deep
from rigidblocks.robot.configuration import integrate
from rigidblocks.robot.joints import Helical, Prismatic, Revolute, Spherical
from rigidblocks.robot.robots import auto_tree
from rigidblocks.spatial.scalar import clip
from rigidblocks.spatial.spatial import Transform
from rigidblocks.tracing.compiled_functions import CompiledFunction
from rigidblocks.tracing.trace import jacobian, trace

# exact derivatives: rounding, times the condition number of H for solutions with H
RTOL = 1e-11
# central differences with STEP: rounding eps / STEP and method error STEP^2, times the magnitude of
# higher derivatives
STEP = 1e-5
DIFFERENCES = 1e-7


def differences(function, x):
    """Return the derivative of a vector function by central differences, with its index last."""
    steps = STEP * np.eye(len(x))
    return np.stack([(function(x + h) - function(x - h)) / (2 * STEP) for h in steps], axis=-1)


def close(actual, expected, tolerance, condition=1.0):
    assert_allclose(
        actual,
        expected,
        rtol=0,
        atol=tolerance * condition * max(1.0, np.max(np.abs(expected), initial=0.0)),
    )


def outputs_by_name(graph, *values):
    """Return the outputs of a graph by name."""
    flat, parts, k = graph(np.concatenate([np.ravel(value) for value in values])), {}, 0
    for name, shape in graph.outputs.items():
        parts[name] = flat[k : k + int(np.prod(shape))].reshape(shape)
        k += parts[name].size
    return parts


def shapes(**values):
    return {name: np.shape(value) for name, value in values.items()}


# Jacobians of traced functions


def test_derivative_of_inverse_dynamics_by_acceleration_is_the_inertia_matrix(model, rng):
    s = random_state(rng, model)
    graph = trace("rnea", lambda *a: {"tau": rnea(model, *a)}, shapes(q=s.q, qd=s.qd, qdd=s.qdd))
    close(
        outputs_by_name(jacobian(graph, "tau", "qdd"), s.q, s.qd, s.qdd)["dtau_dqdd"],
        crba(model, s.q),
        RTOL,
    )


def test_velocity_gradient_of_kinetic_energy_is_the_generalized_momentum(model, rng):
    s = random_state(rng, model)
    graph = trace(
        "energy", lambda q, qd: {"T": kinetic_energy(model, q, qd)}, shapes(q=s.q, qd=s.qd)
    )
    close(
        outputs_by_name(jacobian(graph, "T", "qd"), s.q, s.qd)["dT_dqd"],
        crba(model, s.q) @ s.qd,
        RTOL,
    )


def test_position_gradient_of_potential_energy_is_the_gravity_torque(model, rng):
    s = random_state(rng, model)
    still = np.zeros(model.nv)

    def potential(q, dq):
        return {"V": potential_energy(model, integrate(model, q, dq))}

    graph = jacobian(trace("potential", potential, shapes(q=s.q, dq=still)), "V", "dq")
    close(outputs_by_name(graph, s.q, still)["dV_ddq"], rnea(model, s.q, still, still), RTOL)


def test_jacobian_of_a_function_has_a_block_for_each_pair_of_output_and_input(rng):
    def f(a, b):
        return {"y": a * b[0] + np.sin(b[1]), "z": a[0, 1] * b}

    a, b = rng.normal(size=(2, 3)), rng.normal(size=2)
    graph = jacobian(trace("f", f, shapes(a=a, b=b)), ("y", "z"), ("b", "a"))
    assert graph.outputs == {
        "dy_db": (2, 3, 2),
        "dy_da": (2, 3, 2, 3),
        "dz_db": (2, 2),
        "dz_da": (2, 2, 3),
    }
    parts = outputs_by_name(graph, a, b)
    close(parts["dy_db"], differences(lambda b: f(a, b)["y"], b), DIFFERENCES)
    close(parts["dz_db"], a[0, 1] * np.eye(2), RTOL)
    assert_array_equal(parts["dy_da"], b[0] * np.eye(6).reshape(2, 3, 2, 3))
    assert_array_equal(parts["dz_da"][:, 0, 1], b)
    assert np.count_nonzero(parts["dz_da"]) == 2
    assert all(
        (value == parts[name]).all()
        for name, value in zip(parts, CompiledFunction(graph)(a, b), strict=True)
    )


def test_derivative_with_respect_to_an_input_without_influence_is_exactly_zero():
    graph = trace(
        "f", lambda a: {"y": np.array([a[0] * a[1], np.sin(a[2]), 2.0 * a[3]])}, {"a": (4,)}
    )
    derivative = jacobian(graph, "y", "a")
    assert derivative.operation_count == 0  # no arithmetic: constants and a cosine
    assert_array_equal(derivative(np.array([3.0, 5.0, 0.0, 1.0])).reshape(3, 4) != 0, graph.depends)


def test_hessian_of_a_traced_energy_is_symmetric(rng):
    model = auto_tree(3, 1, 0.7)
    s = random_state(rng, model)
    graph = trace("energy", lambda q, qd: {"E": energy(model, q, qd)}, shapes(q=s.q, qd=s.qd))
    second = jacobian(jacobian(graph, "E", "q"), "dE_dq", "q")
    hessian = outputs_by_name(second, s.q, s.qd)["ddE_dq_dq"]
    close(hessian, hessian.T, RTOL)
    close(
        hessian,
        differences(lambda q: outputs_by_name(jacobian(graph, "E", "q"), q, s.qd)["dE_dq"], s.q),
        DIFFERENCES,
    )


def test_derivative_of_the_clip_function_is_the_derivative_of_its_active_branch():
    graph = jacobian(trace("f", lambda a: {"y": clip(3 * a, -1.0, 1.0)}, {"a": (3,)}), "y", "a")
    assert_array_equal(graph(np.array([0.1, 2.0, -5.0])).reshape(3, 3), np.diag([3, 0, 0]))


def test_jacobian_with_respect_to_an_unknown_input_is_rejected():
    graph = trace("f", lambda a: {"y": a}, {"a": (2,)})
    with pytest.raises(KeyError, match="f has no output z; it has: y"):
        jacobian(graph, ("y", "z"), "a")
    with pytest.raises(KeyError, match="f has no input b; it has: a"):
        jacobian(graph, "y", "b")


# forward and inverse dynamics


@pytest.fixture(params=range(4))
def pair(request):
    """Return a random tree of joints of all types, and a random state."""
    rng = np.random.default_rng(request.param)
    model = random_tree(rng, random_parents(rng, int(rng.integers(2, 5))))
    return model, random_state(rng, model)


ALGORITHMS = {"aba": (aba, "qdd", "tau"), "rnea": (rnea, "tau", "qdd")}


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_dynamics_derivatives_match_automatic_differentiation(algorithm, pair):
    model, s = pair
    function, y, u = ALGORITHMS[algorithm]

    def moved(dq, q, qd, given):
        return {y: function(model, integrate(model, q, dq), qd, given)}

    values = np.zeros(model.nv), s.q, s.qd, getattr(s, u)
    graph = trace(
        algorithm, moved, dict(zip(("dq", "q", "qd", u), map(np.shape, values), strict=True))
    )
    expected = outputs_by_name(jacobian(graph, y, ("dq", "qd", u)), *values).values()
    result = derivatives(model, algorithm)
    assert list(result.outputs) == [y, f"d{y}_dq", f"d{y}_dqd", f"d{y}_d{u}"]
    condition = np.linalg.cond(crba(model, s.q)) if algorithm == "aba" else 1.0
    value, *matrices = result(s.q, s.qd, getattr(s, u))
    close(value, function(model, s.q, s.qd, getattr(s, u)), RTOL, condition)
    for actual, wanted in zip(matrices, expected, strict=True):
        close(actual, wanted, RTOL, condition)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_dynamics_derivatives_match_finite_differences(algorithm, model, rng):
    s = random_state(rng, model)
    function, _, u = ALGORITHMS[algorithm]
    given = getattr(s, u)
    expected = (
        differences(
            lambda dq: function(model, integrate(model, s.q, dq), s.qd, given), np.zeros(model.nv)
        ),
        differences(lambda qd: function(model, s.q, qd, given), s.qd),
        differences(lambda given: function(model, s.q, s.qd, given), given),
    )
    condition = np.linalg.cond(crba(model, s.q)) if algorithm == "aba" else 1.0
    for actual, wanted in zip(
        derivatives(model, algorithm)(s.q, s.qd, given)[1:], expected, strict=True
    ):
        close(actual, wanted, DIFFERENCES, condition)


@pytest.mark.slow
def test_derivatives_of_forward_and_inverse_dynamics_are_related_by_the_chain_rule(pair):
    # rnea(q, qd, aba(q, qd, tau)) = tau for all q, qd and tau
    model, s = pair
    qdd, *forward = derivatives(model, "aba")(s.q, s.qd, s.tau)
    _, dtau_dq, dtau_dqd, H = derivatives(model, "rnea")(s.q, s.qd, qdd)
    condition = np.linalg.cond(H)
    close(dtau_dq + H @ forward[0], 0 * H, RTOL, condition * np.abs(dtau_dq).max(initial=1.0))
    close(dtau_dqd + H @ forward[1], 0 * H, RTOL, condition * np.abs(dtau_dqd).max(initial=1.0))
    close(H @ forward[2], np.eye(model.nv), RTOL, condition)
    assert_array_equal(forward[2], forward[2].T)


def deep_tree(rng):
    """Return a trunk of 60 joints with two branches of 50 joints, with small joint distances."""
    parents = (*range(-1, 59), 59, 59, *range(60, 158))
    joints = [Revolute(), Prismatic(), Helical(0.3), Revolute(), Spherical()]
    model = random_tree(rng, parents, tuple(joints[i % 5] for i in range(160)))
    Xtree = tuple(Transform(X.E, 0.05 * X.r) for X in model.Xtree)
    return replace(model, Xtree=Xtree)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [False, True])
def test_derivatives_of_deep_trees_satisfy_the_chain_rule(rng, batch):
    model = deep_tree(rng)
    assert is_deep(model)
    s = random_state(rng, model)
    if batch:
        values = (np.stack([one, 0.5 * one, one]) for one in (s.q, s.qd, s.tau))
        qdd, *forward = (x[2] for x in derivatives(model, "aba", batch=True, lanes=2)(*values))
    else:
        qdd, *forward = derivatives(model, "aba")(s.q, s.qd, s.tau)
    _, dtau_dq, dtau_dqd, H = derivatives(model, "rnea")(s.q, s.qd, qdd)
    condition = np.linalg.cond(H)
    assert condition < 1e9
    close(dtau_dq + H @ forward[0], 0 * H, RTOL, condition * np.abs(dtau_dq).max())
    close(dtau_dqd + H @ forward[1], 0 * H, RTOL, condition * np.abs(dtau_dqd).max())
    close(H @ forward[2], np.eye(model.nv), RTOL, condition)
    assert_array_equal(forward[2], forward[2].T)


@pytest.mark.slow
def test_derivatives_of_deep_trees_match_those_from_a_factorized_inertia_matrix(rng, monkeypatch):
    model = deep_tree(rng)
    s = random_state(rng, model)
    deep = derivatives(model, "aba")(s.q, s.qd, s.tau)
    monkeypatch.setattr(compiled_dynamics, "is_deep", lambda _: False)
    factors = derivatives(model, "aba")(s.q, s.qd, s.tau)
    condition = np.linalg.cond(crba(model, s.q))
    for one, other in zip(deep, factors, strict=True):
        close(one, other, RTOL, condition)
        assert np.abs(one - other).max() > 0.0


@pytest.mark.slow
def test_dynamics_derivatives_between_joints_of_different_branches_are_exactly_zero():
    # three arms on one base do not depend on each other
    rng = np.random.default_rng(3)
    model = random_tree(rng, (-1, -1, -1, 0, 1, 2), (Revolute(),) * 6)
    s = random_state(rng, model)
    arm = np.array([0, 1, 2, 0, 1, 2])
    for algorithm in ALGORITHMS:
        for matrix in derivatives(model, algorithm)(s.q, s.qd, s.tau)[1:]:
            assert not np.any(matrix[arm[:, None] != arm])
            assert np.all(np.count_nonzero(matrix, axis=1))


@pytest.mark.slow
def test_dynamics_derivatives_do_not_depend_on_the_simd_vector_width(monkeypatch, rng):
    model = auto_tree(6, 2, 0.7)
    s = random_state(rng, model)
    wide = derivatives(model, "aba")(s.q, s.qd, s.tau)
    monkeypatch.setattr("rigidblocks.tracing.compiled_functions.wide_flags", tuple)
    for one, other in zip(wide, derivatives(model, "aba")(s.q, s.qd, s.tau), strict=True):
        assert_array_equal(one, other)


def test_derivatives_of_unsupported_dynamics_algorithms_are_rejected():
    with pytest.raises(
        ValueError,
        match=r"the derivatives of '.*' are not available; expected aba, rnea or "
        r"closed_loop_dynamics",
    ):
        derivatives(auto_tree(2), "crba")


# comparison with Pinocchio, which numbers bodies depth first


def depth_first_parents(rng, nb):
    """Return random parents of bodies that are numbered depth first."""
    parent = [-1]
    for i in range(1, nb):
        path = [i - 1]
        while path[-1] >= 0:
            path.append(parent[path[-1]])
        parent.append(int(rng.choice(path)))
    return tuple(parent)


def scalar_last(model, q):
    """Return the configuration with quaternions in Pinocchio's scalar-last order."""
    return np.concatenate(
        [np.roll(q[k], -1) if k.stop - k.start == 4 else q[k] for k in model.q_slices]
    )


@pytest.mark.interop
@pytest.mark.parametrize("seed", range(4))
def test_dynamics_derivatives_match_pinocchio(seed):
    pin = pytest.importorskip("pinocchio", reason="Pinocchio is not installed (`pip install pin`)")
    rng = np.random.default_rng(seed)
    parent, types = (
        depth_first_parents(rng, int(rng.integers(2, 8))),
        (Revolute(), Prismatic(), Helical(0.3), Spherical()),
    )
    model = random_tree(rng, parent, tuple(types[k] for k in rng.integers(4, size=len(parent))))
    other, s = in_pinocchio(pin, model), random_state(rng, model)
    q, condition = scalar_last(model, s.q), np.linalg.cond(crba(model, s.q))
    forward = pin.computeABADerivatives(*other, q, s.qd, s.tau)
    for actual, wanted in zip(
        derivatives(model, "aba")(s.q, s.qd, s.tau)[1:], forward, strict=True
    ):
        close(actual, wanted, RTOL, condition)
    inverse = pin.computeRNEADerivatives(*other, q, s.qd, s.qdd)
    for actual, wanted in zip(
        derivatives(model, "rnea")(s.q, s.qd, s.qdd)[1:], inverse, strict=True
    ):
        close(actual, wanted, RTOL)
