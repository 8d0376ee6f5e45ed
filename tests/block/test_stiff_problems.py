"""Stiff problems with published solutions (`stiff_problems`, `stiff_mechanisms`, `squeezer`).

The final error is at most ten times the tolerance. It may be much smaller, because the largest
error of all states determines the step size, and fast states damp it.
"""

import numpy as np
import pytest

import squeezer
from rigidblocks.block.adaptive_methods import (
    ACTIVE_METHOD,
    COLLOCATION,
    EXHAUSTED_STEPS,
    ROSENBROCK,
    STIFF_DETECTIONS,
    memory_for,
    method_of,
)
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.library import ClosedLoopPlant
from stiff_mechanisms import HEIGHTS, flyball_governor, stiff_arm
from stiff_problems import PROBLEMS

DECADES = [1e-4, 1e-5, 1e-6, 1e-7, 1e-8]


def walked(block, method, dt, n=1, **inputs):
    """Return the memory values after n steps of dt, and the memory layout."""
    memory = memory_for(block, method)
    m, stepper = memory.start(), compiled_stepper(memory, method)
    for name, value in inputs.items():
        m[memory.where[name]] = value
    stepper.initialize(m, 0.0)
    for k in range(n):
        stepper.step(m, k * dt, dt)
    return m, memory


@pytest.mark.parametrize("rtol", DECADES)
@pytest.mark.parametrize("method", ["stiff", "adaptive or stiff"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_errors_of_stiff_problems_are_below_ten_times_the_tolerance(name, method, rtol):
    problem = PROBLEMS[name]
    m, memory = walked(problem, method_of(method, rtol), problem.end)
    assert np.max(np.abs(m[memory.x] / problem.solution - 1.0)) < 10.0 * rtol


@pytest.mark.slow
@pytest.mark.parametrize("rtol", [DECADES[0], DECADES[-1]])
@pytest.mark.parametrize("name", PROBLEMS)
def test_radau_collocation_solves_stiff_problems_within_the_tolerance(name, rtol):
    problem = PROBLEMS[name]
    m, memory = walked(problem, method_of("radau", rtol), problem.end)
    assert np.max(np.abs(m[memory.x] / problem.solution - 1.0)) < 10.0 * rtol


@pytest.mark.slow
@pytest.mark.parametrize("rtol", DECADES)
def test_flyball_governor_heights_match_the_published_heights(rtol):
    plant, method = flyball_governor(), method_of("adaptive or stiff", rtol)
    for t, height in HEIGHTS.items():
        m, memory = walked(plant, method, t / 5, 5)
        # the published heights have ten digits
        assert abs(m[memory.where["q"]][1] - height) < 10.0 * rtol + 5e-10


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 30])
@pytest.mark.parametrize("rtol", DECADES)
def test_andrews_squeezer_angles_match_the_published_final_angles(rtol, n):
    start, end = squeezer.angles(squeezer.START), squeezer.angles(squeezer.END)
    plant = ClosedLoopPlant(squeezer.MODEL, start, elements=(squeezer.SPRING,))
    tau = np.eye(7)[0] * squeezer.TORQUE
    m, memory = walked(plant, method_of("adaptive or stiff", rtol), 0.03 / n, n, tau=tau)
    assert np.max(np.abs(m[memory.where["q"]] / end - 1.0)) < 10.0 * rtol
    assert m[memory.s][STIFF_DETECTIONS] == 0


@pytest.fixture(scope="module")
def arm():
    """Return the arm, and its states after 1 s computed with a tolerance of 1e-11."""
    block = stiff_arm()
    m, memory = walked(block, method_of("stiff", 1e-11), 1.0)
    return block, m[memory.x]


@pytest.mark.slow
@pytest.mark.parametrize("rtol", DECADES)
def test_error_of_an_arm_with_a_stiff_controller_is_within_the_tolerance(arm, rtol):
    block, exact = arm
    m, memory = walked(block, method_of("adaptive or stiff", rtol), 0.01, 100)
    error = np.abs(m[memory.x] - exact) / np.maximum(np.abs(exact), 1.0)
    assert np.max(error) < 10.0 * rtol
    assert m[memory.s][EXHAUSTED_STEPS] == 0
    assert m[memory.s][STIFF_DETECTIONS] < 5


def ends_with(block, end, n, rtol, **options):
    """Return the active method after n communication steps to the end time."""
    m, memory = walked(block, method_of("adaptive or stiff", rtol, **options), end / n, n)
    return m[memory.s][ACTIVE_METHOD]


@pytest.mark.slow
def test_automatic_method_selection_uses_the_implicit_method_of_lower_cost():
    governor = flyball_governor()
    assert ends_with(governor, 5.0, 1, 1e-8) == COLLOCATION
    assert ends_with(governor, 5.0, 2000, 1e-4) == ROSENBROCK
    # a limit on inner steps also limits the time
    assert ends_with(governor, 5.0, 1, 1e-4, max_inner_steps=10_000) == ROSENBROCK
