"""Batched dynamics agree with NumPy and do not depend on the number of SIMD lanes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from loop_models import closed, four_bar
from random_models import MODELS, random_state
from rigidblocks import (
    aba,
    auto_tree,
    compiled_dynamics,
    crba,
    derivatives,
    rnea,
)
from rigidblocks.dynamics import equivalent
from rigidblocks.dynamics.loops import closed_loop_dynamics
from rigidblocks.kernels.compiled_dynamics import MOST_BODIES_IN_LANES, body_sweeps
from rigidblocks.tracing.c_notation import IN_LANES
from rigidblocks.tracing.compiled_functions import LANES, CompiledBatch, compile_function

RTOL = 1e-12  # relative to the largest element, times the condition number of H for solutions
FUNCTIONS = {"aba": aba, "rnea": rnea, "crba": crba}
ROWS = 11  # not a multiple of the number of lanes


def arguments(model, algorithm, rng):
    """Return rows of arguments of an algorithm."""
    states = [random_state(rng, model) for _ in range(ROWS)]
    names = {"aba": ("q", "qd", "tau"), "rnea": ("q", "qd", "qdd"), "crba": ("q",)}[algorithm]
    return [np.array([getattr(state, name) for state in states]) for name in names]


def close(actual, expected, condition=1.0):
    largest = max(1.0, np.max(np.abs(expected)))
    assert_allclose(actual, expected, rtol=0.0, atol=RTOL * condition * largest)


def check(model, algorithm, batch, rng):
    """Compare a batch with NumPy."""
    values = arguments(model, algorithm, rng)
    result = batch(*values)
    for k, row in enumerate(zip(*values, strict=True)):
        condition = np.linalg.cond(crba(model, row[0])) if algorithm == "aba" else 1.0
        close(result[k], FUNCTIONS[algorithm](model, *row), condition)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", FUNCTIONS)
@pytest.mark.parametrize("name", ["six-axis", "all joints", "satellite"])
def test_batched_dynamics_match_the_results_of_numpy(name, algorithm, rng):
    model = MODELS[name]()
    check(model, algorithm, compiled_dynamics(model, algorithm, batch=True), rng)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["aba", "rnea"])
def test_c_code_with_loops_over_bodies_matches_numpy_for_any_number_of_simd_lanes(algorithm, rng):
    model = auto_tree(4, 2, 0.7)
    loops = body_sweeps(equivalent(model), algorithm, IN_LANES)
    one, other = (CompiledBatch(loops, lanes=n) for n in (2, 8))
    check(model, algorithm, one, rng)
    values = arguments(model, algorithm, rng)
    assert_array_equal(one(*values), other(*values))


@pytest.mark.slow
def test_batched_dynamics_of_models_with_many_bodies_match_the_results_of_numpy(rng):
    model = auto_tree(MOST_BODIES_IN_LANES + 1, 2, 0.7)
    check(model, "rnea", compiled_dynamics(model, "rnea", batch=True), rng)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["aba", "rnea"])
def test_batched_derivatives_match_derivatives_of_single_states_for_any_number_of_lanes(
    algorithm, rng
):
    model = auto_tree(3, 2, 0.7)
    scalar = derivatives(model, algorithm)
    batches = [derivatives(model, algorithm, batch=True, lanes=n) for n in LANES]
    values = arguments(model, algorithm, rng)
    results = [batch(*values) for batch in batches]
    for k, row in enumerate(zip(*values, strict=True)):
        for one, other in zip(scalar(*row), results[0], strict=True):
            close(other[k], one, np.linalg.cond(crba(model, row[0])))
    for other in results[1:]:
        for one, same in zip(results[0], other, strict=True):
            assert_array_equal(one, same)


@pytest.mark.slow
def test_batched_closed_loop_dynamics_match_numpy_for_any_number_of_simd_lanes(rng):
    model = four_bar()
    q = closed(model, np.array([1.2, -0.9, -0.6]))

    def accelerations(q, qd, tau):
        return {"qdd": closed_loop_dynamics(model, q, qd, tau).qdd}

    shapes = {"q": (model.nq,), "qd": (model.nv,), "tau": (model.nv,)}
    batches = [
        compile_function("four_bar", accelerations, shapes, batch=True, lanes=n) for n in LANES
    ]
    values = [
        q + rng.normal(scale=1e-3, size=(ROWS, model.nq)),
        *rng.normal(size=(2, ROWS, model.nv)),
    ]
    results = [batch(*values) for batch in batches]
    for k, row in enumerate(zip(*values, strict=True)):
        close(results[0][k], accelerations(*row)["qdd"], 1e2)
    for other in results[1:]:
        assert_array_equal(other, results[0])
