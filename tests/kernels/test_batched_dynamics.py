"""Dynamics in lanes: what NumPy computes row by row, the same bits whatever the lanes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from loop_models import closed, four_bar
from random_models import MODELS, random_state
from rigidblocks import (
    aba,
    auto_tree,
    closed_loop_dynamics,
    compiled,
    compiled_dynamics,
    crba,
    derivatives,
    equivalent,
    rnea,
)
from rigidblocks.kernels.body_sweeps import body_sweeps
from rigidblocks.kernels.dynamics import MOST_BODIES_IN_LANES
from rigidblocks.tracing.batch import CompiledBatch
from rigidblocks.tracing.lanes import LANES
from rigidblocks.tracing.notation import IN_LANES

RTOL = 1e-12  # of the largest element, and of the condition of H where it is solved with
FUNCTIONS = {"aba": aba, "rnea": rnea, "crba": crba}
ROWS = 11  # no multiple of the lanes


def arguments(model, algorithm, rng):
    """Rows of what an algorithm takes."""
    states = [random_state(rng, model) for _ in range(ROWS)]
    names = {"aba": ("q", "qd", "tau"), "rnea": ("q", "qd", "qdd"), "crba": ("q",)}[algorithm]
    return [np.array([getattr(state, name) for state in states]) for name in names]


def close(actual, expected, condition=1.0):
    largest = max(1.0, np.max(np.abs(expected)))
    assert_allclose(actual, expected, rtol=0.0, atol=RTOL * condition * largest)


def check(model, algorithm, batch, rng):
    """A batch against NumPy."""
    values = arguments(model, algorithm, rng)
    result = batch(*values)
    for k, row in enumerate(zip(*values, strict=True)):
        condition = np.linalg.cond(crba(model, row[0])) if algorithm == "aba" else 1.0
        close(result[k], FUNCTIONS[algorithm](model, *row), condition)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", FUNCTIONS)
@pytest.mark.parametrize("name", ["six-axis", "all joints", "satellite"])
def test_a_batch_is_the_algorithm_in_numpy(name, algorithm, rng):
    model = MODELS[name]()
    check(model, algorithm, compiled_dynamics(model, algorithm, batch=True), rng)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["aba", "rnea"])
def test_loops_over_the_bodies_run_in_lanes(algorithm, rng):
    model = auto_tree(4, 2, 0.7)
    loops = body_sweeps(equivalent(model), algorithm, IN_LANES)
    one, other = (CompiledBatch(loops, lanes=n) for n in (2, 8))
    check(model, algorithm, one, rng)
    values = arguments(model, algorithm, rng)
    assert_array_equal(one(*values), other(*values))


@pytest.mark.slow
def test_large_models_are_loops_in_a_batch_too(rng):
    model = auto_tree(MOST_BODIES_IN_LANES + 1, 2, 0.7)
    check(model, "rnea", compiled_dynamics(model, "rnea", batch=True), rng)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["aba", "rnea"])
def test_derivatives_run_in_lanes(algorithm, rng):
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
def test_dynamics_with_loops_run_in_lanes(rng):
    model = four_bar()
    q = closed(model, np.array([1.2, -0.9, -0.6]))

    def accelerations(q, qd, tau):
        return {"qdd": closed_loop_dynamics(model, q, qd, tau).qdd}

    shapes = {"q": (model.nq,), "qd": (model.nv,), "tau": (model.nv,)}
    batches = [compiled("four_bar", accelerations, shapes, batch=True, lanes=n) for n in LANES]
    values = [
        q + rng.normal(scale=1e-3, size=(ROWS, model.nq)),
        *rng.normal(size=(2, ROWS, model.nv)),
    ]
    results = [batch(*values) for batch in batches]
    for k, row in enumerate(zip(*values, strict=True)):
        close(results[0][k], accelerations(*row)["qdd"], 1e2)
    for other in results[1:]:
        assert_array_equal(other, results[0])
