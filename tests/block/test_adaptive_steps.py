"""Adaptive inner steps: error, step size memory, and equality of C and NumPy.

Compiled and NumPy steps are bitwise equal for blocks that use only + - *. The step size control
adds only the square root, which is exact. The tests compare errors with the tolerance.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp

from rigidblocks import Block, Port, RobotPlant, planar2
from rigidblocks.block import adaptive_step
from rigidblocks.block.adaptive_methods import (
    ACTIVE_METHOD,
    ADAPTIVE,
    ENOUGH_VOTES,
    EXHAUSTED_STEPS,
    METHODS,
    STEP_SIZE,
    STIFF_DETECTIONS,
    Adaptive,
    longest_step,
    memory_for,
    method_of,
)
from rigidblocks.block.integrators import INTEGRATORS, RK4
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.port import Record
from rigidblocks.block.stepper import StepError
from rigidblocks.fmi.documentation import most_operations
from rigidblocks.kernels.compiled_stepper import compiled_stepper, numpy_stepper
from rigidblocks.kernels.traced_evaluator import TracedEvaluator
from rigidblocks.library import ClosedLoopPlant
from rigidblocks.robot.robots import five_bar

CHOOSING = [name for name, method in METHODS.items() if isinstance(method, Adaptive)]


@dataclass(frozen=True)
class VanDerPol(Block):
    """Van der Pol oscillator, d2x/dt2 = mu (1 - x^2) dx/dt - x."""

    mu: float = 5.0
    nominal: float = 1.0

    @property
    def states(self):
        return (Port("x", (2,), "1", "x and its rate", (2.0, 0.0), nominal=self.nominal),)

    @property
    def outputs(self):
        return self.states

    def derivative(self, x):
        a, b = x.x
        return {"x": np.array([b, self.mu * ((1 - a * a) * b) - a])}


@dataclass(frozen=True)
class Circle(Block):
    """Point on the unit circle with projection, which moves at the angular velocity w."""

    inputs = (Port("w", (), "rad/s", "speed", 1.0),)
    states = (Port("r", (2,), "1", "place", (1.0, 0.0)),)
    outputs = states

    def derivative(self, x, u):
        return {"r": u.w * np.array([-x.r[1], x.r[0]])}

    def project(self, x):
        return {"r": x.r / np.sqrt(x.r[0] * x.r[0] + x.r[1] * x.r[1])}


def walked(block, method, dt, n, form=compiled_stepper):
    """Return the memory values after n steps of dt, and the memory layout."""
    memory = memory_for(block, method)
    stepper, m = form(memory, method), memory.start()
    stepper.initialize(m, 0.0)
    for k in range(n):
        stepper.step(m, k * dt, dt)
    return m, memory


@pytest.mark.slow
@pytest.mark.parametrize("bound", [None, 4])
@pytest.mark.parametrize("name", CHOOSING)
@pytest.mark.parametrize("mu", [5.0, 300.0])
def test_adaptive_steps_in_numpy_and_in_c_have_bitwise_equal_results(mu, name, bound):
    method = method_of(name, 1e-5, max_inner_steps=bound)
    compiled, _ = walked(VanDerPol(mu), method, 0.05, 60)
    plain, _ = walked(VanDerPol(mu), method, 0.05, 60, numpy_stepper)
    assert compiled.tobytes() == plain.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("bound", [None, 4])
@pytest.mark.parametrize("name", CHOOSING)
def test_adaptive_steps_with_projection_have_equal_results_in_numpy_and_in_c(name, bound):
    # tracing rounds quotients differently; the step size has this rounding divided by its error
    method = method_of(name, 1e-5, max_inner_steps=bound)
    compiled, memory = walked(Circle(), method, 0.05, 60)
    plain, _ = walked(Circle(), method, 0.05, 60, numpy_stepper)
    assert_allclose(compiled[memory.x], plain[memory.x], rtol=0, atol=1e-14)
    assert_allclose(compiled[memory.s], plain[memory.s], rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHOOSING)
@pytest.mark.parametrize("rtol", [1e-4, 1e-6, 1e-8])
def test_adaptive_integration_error_is_below_300_times_the_tolerance(name, rtol):
    block = VanDerPol()
    exact = solve_ivp(
        lambda _, x: block.derivative(Record({"x": x}))["x"],
        (0, 8),
        (2.0, 0.0),
        method="DOP853",
        rtol=1e-13,
        atol=1e-13,
    ).y[:, -1]
    for dt in (8.0, 0.1):
        m, memory = walked(block, method_of(name, rtol), dt, round(8.0 / dt))
        # the relaxation oscillation amplifies an error several hundred times before it decays
        assert np.abs(m[memory.x] - exact).max() < 300 * rtol


def test_dormand_prince_error_estimate_is_of_fifth_order():
    pair = INTEGRATORS["dormand-prince"]
    moments = [sum(w * c**q for w, c in zip(pair.error, pair.c, strict=True)) for q in range(5)]
    assert_allclose(moments[:4], 0.0, atol=1e-15)
    assert abs(moments[4]) > 1e-4


def evaluations(block, dt, n, method=ADAPTIVE):
    """Return the number of derivative evaluations in n steps of dt."""
    memory = memory_for(block, method)
    stepper, calls = numpy_stepper(memory, method), []
    derivative = stepper.evaluator.derivative
    object.__setattr__(stepper.evaluator, "derivative", lambda m: calls.append(0) or derivative(m))
    m = memory.start()
    stepper.initialize(m, 0.0)
    for k in range(n):
        stepper.step(m, k * dt, dt)
    return len(calls)


@pytest.mark.parametrize("name", CHOOSING)
def test_operation_count_of_a_step_is_bounded_by_max_inner_steps(name):
    block, method = VanDerPol(1e3), method_of(name, 1e-9, max_inner_steps=5)
    evaluator = TracedEvaluator(memory_for(block, method))
    rates = evaluator.graph("derivative").operation_count
    assert rates * evaluations(block, 0.5, 20, method) < 20 * most_operations(evaluator, method, 5)


def test_modelled_cost_of_a_rosenbrock_step_equals_its_number_of_evaluations():
    # per inner step: six stages, and difference quotients for two states and the time
    method = METHODS["adaptive or stiff"]
    assert method.relative_cost(2) * 6 == pytest.approx(3 + 6, rel=0.06)


@dataclass(frozen=True)
class Rotations(Block):
    """Two states that decay fast, and two states that oscillate fast without damping."""

    speed: float = 300.0
    states = outputs = (Port("x", (4,), "1", "x", (1.0, 1.0, 1.0, 0.0)),)

    def derivative(self, x):
        a, b, c, d = x.x
        w = self.speed
        return {"x": np.array([-20.0 * w * a, -30.0 * w * b, -w * d, w * c])}


@pytest.mark.slow
def test_automatic_selection_does_not_alternate_between_methods_in_a_fast_rotation():
    block, method = Rotations(), method_of("adaptive or stiff", 1e-4)
    m, memory = walked(block, method, 2.0, 5)
    assert m[memory.s][STIFF_DETECTIONS] < 8
    exact = np.array([np.cos(300.0 * 10), np.sin(300.0 * 10)])
    assert np.abs(m[memory.x][2:] - exact).max() < 0.5  # phase after 500 revolutions


@pytest.mark.slow
def test_communication_step_starts_with_the_last_inner_step_size_of_the_previous_step():
    # ten short steps need about as many evaluations as one long step: no new search per step
    assert evaluations(VanDerPol(), 1.0, 10) < 1.3 * evaluations(VanDerPol(), 10.0, 1)


def test_communication_step_of_smooth_motion_needs_four_derivative_evaluations():
    assert evaluations(Circle(), 1e-3, 20) == 80


@pytest.mark.slow
def test_adaptive_step_sizes_do_not_depend_on_units_if_nominal_values_are_converted():
    """States in another unit with the same nominal value in this unit take the same steps."""

    @dataclass(frozen=True)
    class Decay(Block):
        unit: float = 1.0

        @property
        def states(self):
            return (Port("x", (), "1", "x", self.unit, nominal=self.unit),)

        @property
        def outputs(self):
            return self.states

        def derivative(self, t, x):
            return {"x": -3.0 * (x.x - self.unit * np.cos(40.0 * t))}

    unit = 2.0**-20  # a power of two, so that the scaling is exact
    small, memory = walked(Decay(unit), ADAPTIVE, 0.5, 4)
    large, _ = walked(Decay(), ADAPTIVE, 0.5, 4)
    assert small[memory.s].tobytes() == large[memory.s].tobytes()
    assert small[1] == unit * large[1]


@pytest.mark.slow
@pytest.mark.parametrize("form", [compiled_stepper, numpy_stepper])
def test_automatic_method_selection_switches_to_implicit_steps_for_a_stiff_problem(form):
    m, memory = walked(VanDerPol(1e3), method_of("adaptive", 1e-4), 0.1, 3, form)
    assert m[memory.s][STIFF_DETECTIONS] > 0
    assert m[memory.s][ACTIVE_METHOD] == 0
    m, memory = walked(VanDerPol(1e3), method_of("adaptive or stiff", 1e-4), 0.1, 3, form)
    assert m[memory.s][STIFF_DETECTIONS] == 1
    assert m[memory.s][ACTIVE_METHOD] > 0
    # Jacobian on the slow manifold: mu (1 - x^2) = -3 mu
    assert_allclose(m[memory.s][5], 3e3, rtol=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("dt", [1e-3, 0.1])
def test_nonstiff_mechanism_is_integrated_with_the_explicit_method(dt):
    mechanism = five_bar()
    plant = ClosedLoopPlant(mechanism.model, mechanism.q0)
    m, memory = walked(plant, ADAPTIVE, dt, round(3.0 / dt))
    assert m[memory.s][STIFF_DETECTIONS] == 0
    assert m[memory.s][4] < ENOUGH_VOTES


@pytest.mark.slow
@pytest.mark.parametrize("form", [compiled_stepper, numpy_stepper])
def test_communication_steps_that_reach_max_inner_steps_are_counted_and_give_finite_states(form):
    for name in ("adaptive", "stiff"):
        method = method_of(name, 1e-9, max_inner_steps=3)
        m, memory = walked(VanDerPol(1e3), method, 0.5, 40, form)
        assert m[memory.s][EXHAUSTED_STEPS] > 2
        assert np.isfinite(m).all()
    assert np.abs(m[memory.x]).max() < 2e3  # linearly implicit Euler completes the step
    m, memory = walked(VanDerPol(), ADAPTIVE, 0.5, 40, form)
    assert m[memory.s][EXHAUSTED_STEPS] == 0


@pytest.mark.slow
def test_adaptive_step_with_a_state_that_grows_to_infinity_raises_an_error():
    @dataclass(frozen=True)
    class Explosion(Block):
        states = outputs = (Port("x", (), "1", "1 / (1 - t)", 1.0),)

        def derivative(self, x):
            return {"x": x.x * x.x}

    for form in (compiled_stepper, numpy_stepper):
        with pytest.raises(StepError, match="Explosion is not finite at t = 2 s: x"):
            walked(Explosion(), ADAPTIVE, 2.0, 1, form)


def test_initialization_resets_the_stored_step_size():
    memory = memory_for(VanDerPol(), ADAPTIVE)
    stepper, m = compiled_stepper(memory, ADAPTIVE), memory.start()
    ends = []
    for _ in range(2):
        m[memory.x] = 2.0, 0.0
        stepper.initialize(m, 0.0)
        assert not m[memory.s].any()
        stepper.step(m, 0.0, 3.0)
        ends.append(m.tobytes())
    assert ends[0] == ends[1]
    assert m[memory.s][STEP_SIZE] > 0


@pytest.mark.slow
def test_result_of_an_adaptive_step_depends_only_on_the_block_memory():
    memory = memory_for(VanDerPol(30.0), METHODS["adaptive or stiff"])
    stepper = compiled_stepper(memory, METHODS["adaptive or stiff"])
    m = memory.start()
    stepper.initialize(m, 0.0)
    for k in range(5):
        stepper.step(m, k * 0.3, 0.3)
    kept = m.copy()
    stepper.step(m, 1.5, 0.3)
    stepper.step(kept, 1.5, 0.3)
    assert kept.tobytes() == m.tobytes()


@pytest.mark.slow
def test_adaptive_inner_steps_are_not_longer_than_the_step_limit_h():
    memory = memory_for(Circle(), ADAPTIVE)
    m, stepper = memory.start(), compiled_stepper(memory, ADAPTIVE, 1e-3)
    stepper.initialize(m, 0.0)
    stepper.step(m, 0.0, 0.1)
    exact = np.array([np.cos(0.1), np.sin(0.1)])
    assert_allclose(m[memory.x], exact, rtol=0, atol=1e-14)  # the tolerance requires 7 digits


@pytest.mark.slow
def test_unknown_integrators_and_invalid_tolerances_are_rejected():
    assert method_of("rk4") is RK4
    assert method_of(RK4) is RK4
    assert method_of("adaptive", 1e-5) == Adaptive("adaptive", ADAPTIVE.explicit, rtol=1e-5)
    with pytest.raises(KeyError, match=r"unknown method 'adaptve'; .*did you mean adaptive"):
        method_of("adaptve")
    with pytest.raises(ValueError, match="'rk4' takes fixed steps and does not support rtol"):
        method_of("rk4", rtol=1e-3)
    for wrong in ({"rtol": 0.0}, {"rtol": np.nan}, {"atol": -1.0}, {"max_inner_steps": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            method_of("adaptive", **wrong)
    with pytest.raises(ValueError, match="inner step h must be positive"):
        longest_step(ADAPTIVE, -1.0)
    with pytest.raises(ValueError, match="memory of VanDerPol does not fit 'adaptive'"):
        compiled_stepper(Memory(VanDerPol()), ADAPTIVE)


@pytest.mark.slow
@pytest.mark.parametrize("form", [numpy_stepper, compiled_stepper])
def test_step_that_needs_more_than_a_million_inner_steps_raises_an_error(form, monkeypatch):
    if form is numpy_stepper:  # a million tries in NumPy take too long
        monkeypatch.setattr(adaptive_step, "PROBATION_TRIES", 20)
    block, method = RobotPlant(planar2(), qd0=[1e9, -1e9]), METHODS["adaptive or stiff"]
    memory = memory_for(block, method)
    stepper, m = form(memory, method), memory.start()
    stepper.initialize(m, 0.0)
    with pytest.raises(StepError, match=r"or more than 1e\+06 were needed"):
        stepper.step(m, 0.0, 1.0)


def test_normalized_error_is_at_most_one_if_and_only_if_the_error_is_at_most_the_tolerance(rng):
    # C compares error and tolerance, NumPy divides them: equal results also at adjacent floats
    tolerance = 10.0 ** rng.uniform(-300, 300, 100_000)
    for error in (tolerance, np.nextafter(tolerance, np.inf), np.nextafter(tolerance, 0.0)):
        assert np.array_equal(error / tolerance <= 1.0, error <= tolerance)
