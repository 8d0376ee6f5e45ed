"""Inner steps that know their error: what they keep to, what they remember, and that the C does the
same as NumPy.

Blocks of + - * alone give the same bytes in both, for the control of the steps has nothing else but
the square root, which is exact. Errors are compared with the tolerance asked for.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp

from rigidblocks import Block, Port, RobotPlant, planar2
from rigidblocks.block import control
from rigidblocks.block.adaptive import (
    ADAPTIVE,
    CUT_SHORT,
    ENOUGH_SIGNS,
    IS_STIFF,
    LENGTH,
    METHODS,
    STIFFNESS,
    Adaptive,
    longest_step,
    memory_for,
    method_of,
)
from rigidblocks.block.integrators import INTEGRATORS, RK4
from rigidblocks.block.memory import Memory
from rigidblocks.block.record import Record
from rigidblocks.block.stepper import StepError
from rigidblocks.fmi.documentation import most_operations
from rigidblocks.kernels.evaluator import TracedEvaluator
from rigidblocks.kernels.stepper import compiled_stepper, numpy_stepper
from rigidblocks.library import ClosedLoopPlant
from rigidblocks.mechanisms import five_bar

CHOOSING = [name for name, method in METHODS.items() if isinstance(method, Adaptive)]


@dataclass(frozen=True)
class VanDerPol(Block):
    """d2x/dt2 = mu (1 - x^2) dx/dt - x."""

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
    """A point on the unit circle, kept there by projection, driven by the input w."""

    inputs = (Port("w", (), "rad/s", "speed", 1.0),)
    states = (Port("r", (2,), "1", "place", (1.0, 0.0)),)
    outputs = states

    def derivative(self, x, u):
        return {"r": u.w * np.array([-x.r[1], x.r[0]])}

    def project(self, x):
        return {"r": x.r / np.sqrt(x.r[0] * x.r[0] + x.r[1] * x.r[1])}


def walked(block, method, dt, n, form=compiled_stepper):
    """The memory after n steps of dt, and its layout."""
    memory = memory_for(block, method)
    stepper, m = form(memory, method), memory.start()
    stepper.initialize(m, 0.0)
    for k in range(n):
        stepper.step(m, k * dt, dt)
    return m, memory


@pytest.mark.parametrize("bound", [None, 4])
@pytest.mark.parametrize("name", CHOOSING)
@pytest.mark.parametrize("mu", [5.0, 300.0])
def test_numpy_and_c_choose_the_same_steps_to_the_last_bit(mu, name, bound):
    method = method_of(name, 1e-5, max_inner_steps=bound)
    compiled, _ = walked(VanDerPol(mu), method, 0.05, 60)
    plain, _ = walked(VanDerPol(mu), method, 0.05, 60, numpy_stepper)
    assert compiled.tobytes() == plain.tobytes()


@pytest.mark.parametrize("bound", [None, 4])
@pytest.mark.parametrize("name", CHOOSING)
def test_numpy_and_c_agree_with_a_projection(name, bound):
    # traced, a quotient is rounded otherwise; a length of a step is known to that over its error
    method = method_of(name, 1e-5, max_inner_steps=bound)
    compiled, memory = walked(Circle(), method, 0.05, 60)
    plain, _ = walked(Circle(), method, 0.05, 60, numpy_stepper)
    assert_allclose(compiled[memory.x], plain[memory.x], rtol=0, atol=1e-14)
    assert_allclose(compiled[memory.s], plain[memory.s], rtol=1e-6)


@pytest.mark.parametrize("name", CHOOSING)
@pytest.mark.parametrize("rtol", [1e-4, 1e-6, 1e-8])
def test_error_is_about_the_tolerance(name, rtol):
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
        # the relaxation multiplies an error by some hundred before it damps it again
        assert np.abs(m[memory.x] - exact).max() < 300 * rtol


def test_the_error_of_the_pair_is_of_fifth_order_and_no_lower():
    pair = INTEGRATORS["dormand-prince"]
    moments = [sum(w * c**q for w, c in zip(pair.error, pair.c, strict=True)) for q in range(5)]
    assert_allclose(moments[:4], 0.0, atol=1e-15)
    assert abs(moments[4]) > 1e-4


def evaluations(block, dt, n, method=ADAPTIVE):
    """How often the rates were asked for in n steps of dt."""
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
def test_a_bound_of_inner_steps_bounds_the_operations(name):
    block, method = VanDerPol(1e3), method_of(name, 1e-9, max_inner_steps=5)
    evaluator = TracedEvaluator(memory_for(block, method))
    rates = evaluator.graph("derivative").operation_count
    assert rates * evaluations(block, 0.5, 20, method) < 20 * most_operations(evaluator, method, 5)


def test_a_linearly_implicit_step_costs_what_the_choice_says():
    # per inner step: six stages, and quotients by two states and the time
    method = METHODS["adaptive or stiff"]
    assert method.dearness(2) * 6 == pytest.approx(3 + 6, rel=0.06)


@dataclass(frozen=True)
class Rotations(Block):
    """Two states that decay at once, and two that go round fast and for ever."""

    speed: float = 300.0
    states = outputs = (Port("x", (4,), "1", "x", (1.0, 1.0, 1.0, 0.0)),)

    def derivative(self, x):
        a, b, c, d = x.x
        w = self.speed
        return {"x": np.array([-20.0 * w * a, -30.0 * w * b, -w * d, w * c])}


def test_the_choice_does_not_flip_back_and_forth_where_neither_pays():
    block, method = Rotations(), method_of("adaptive or stiff", 1e-4)
    m, memory = walked(block, method, 2.0, 5)
    assert m[memory.s][STIFFNESS] < 8
    exact = np.array([np.cos(300.0 * 10), np.sin(300.0 * 10)])
    assert np.abs(m[memory.x][2:] - exact).max() < 0.5  # the phase of 500 turns


def test_the_next_step_goes_on_from_what_is_remembered():
    # ten steps cost about as much as one of ten times the length, not each its own search
    assert evaluations(VanDerPol(), 1.0, 10) < 1.3 * evaluations(VanDerPol(), 10.0, 1)


def test_where_nothing_happens_a_step_costs_four_evaluations():
    assert evaluations(Circle(), 1e-3, 20) == 80


def test_tolerance_is_relative_to_the_nominal_value():
    """States in a unit a million times smaller with a nominal value a million times smaller take
    the same steps.
    """

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

    unit = 2.0**-20  # exact
    small, memory = walked(Decay(unit), ADAPTIVE, 0.5, 4)
    large, _ = walked(Decay(), ADAPTIVE, 0.5, 4)
    assert small[memory.s].tobytes() == large[memory.s].tobytes()
    assert small[1] == unit * large[1]


@pytest.mark.parametrize("form", [compiled_stepper, numpy_stepper])
def test_stiffness_is_found_and_the_method_changed_where_it_can_be(form):
    m, memory = walked(VanDerPol(1e3), method_of("adaptive", 1e-4), 0.1, 3, form)
    assert m[memory.s][STIFFNESS] > 0
    assert m[memory.s][IS_STIFF] == 0
    m, memory = walked(VanDerPol(1e3), method_of("adaptive or stiff", 1e-4), 0.1, 3, form)
    assert m[memory.s][STIFFNESS] == 1
    assert m[memory.s][IS_STIFF] > 0
    # the slope where it is slow: mu (1 - x^2) = -3 mu
    assert_allclose(m[memory.s][5], 3e3, rtol=0.1)


@pytest.mark.parametrize("dt", [1e-3, 0.1])
def test_what_is_not_stiff_is_not_called_so(dt):
    mechanism = five_bar()
    plant = ClosedLoopPlant(mechanism.model, mechanism.q0)
    m, memory = walked(plant, ADAPTIVE, dt, round(3.0 / dt))
    assert m[memory.s][STIFFNESS] == 0
    assert m[memory.s][4] < ENOUGH_SIGNS


@pytest.mark.parametrize("form", [compiled_stepper, numpy_stepper])
def test_inner_steps_that_are_used_up_are_counted_and_never_not_finite(form):
    for name in ("adaptive", "stiff"):
        method = method_of(name, 1e-9, max_inner_steps=3)
        m, memory = walked(VanDerPol(1e3), method, 0.5, 40, form)
        assert m[memory.s][CUT_SHORT] > 2
        assert np.isfinite(m).all()
    assert np.abs(m[memory.x]).max() < 2e3  # linearly implicit Euler at the end of the step
    m, memory = walked(VanDerPol(), ADAPTIVE, 0.5, 40, form)
    assert m[memory.s][CUT_SHORT] == 0


@pytest.mark.slow
def test_a_state_that_leaves_the_numbers_is_an_error_and_no_endless_step():
    @dataclass(frozen=True)
    class Explosion(Block):
        states = outputs = (Port("x", (), "1", "1 / (1 - t)", 1.0),)

        def derivative(self, x):
            return {"x": x.x * x.x}

    for form in (compiled_stepper, numpy_stepper):
        with pytest.raises(StepError, match="Explosion is not finite at t = 2 s: x"):
            walked(Explosion(), ADAPTIVE, 2.0, 1, form)


def test_start_of_a_run_forgets_the_steps_of_the_one_before():
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
    assert m[memory.s][LENGTH] > 0


def test_memory_holds_all_that_the_next_step_depends_on():
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


def test_an_inner_step_is_no_longer_than_asked_for():
    memory = memory_for(Circle(), ADAPTIVE)
    m, stepper = memory.start(), compiled_stepper(memory, ADAPTIVE, 1e-3)
    stepper.initialize(m, 0.0)
    stepper.step(m, 0.0, 0.1)
    exact = np.array([np.cos(0.1), np.sin(0.1)])
    assert_allclose(m[memory.x], exact, rtol=0, atol=1e-14)  # 7 digits would do


def test_methods_are_found_by_name_and_refused_with_the_near_ones():
    assert method_of("rk4") is RK4
    assert method_of(RK4) is RK4
    assert method_of("adaptive", 1e-5) == Adaptive("adaptive", ADAPTIVE.explicit, rtol=1e-5)
    with pytest.raises(KeyError, match=r"no method 'adaptve'; there are: .*did you mean adaptive"):
        method_of("adaptve")
    with pytest.raises(ValueError, match="'rk4' takes steps of fixed length"):
        method_of("rk4", rtol=1e-3)
    for wrong in ({"rtol": 0.0}, {"rtol": np.nan}, {"atol": -1.0}, {"max_inner_steps": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            method_of("adaptive", **wrong)
    with pytest.raises(ValueError, match="inner step h must be positive"):
        longest_step(ADAPTIVE, -1.0)
    with pytest.raises(ValueError, match="memory of VanDerPol is not one for 'adaptive'"):
        compiled_stepper(Memory(VanDerPol()), ADAPTIVE)


@pytest.mark.parametrize("form", [numpy_stepper, compiled_stepper])
def test_a_step_that_would_take_a_million_inner_ones_fails_in_words(form, monkeypatch):
    if form is numpy_stepper:  # which takes its time
        monkeypatch.setattr(control, "TEST_TRIES", 20)
    block, method = RobotPlant(planar2(), qd0=[1e9, -1e9]), METHODS["adaptive or stiff"]
    memory = memory_for(block, method)
    stepper, m = form(memory, method), memory.start()
    stepper.initialize(m, 0.0)
    with pytest.raises(StepError, match=r"or more than 1e\+06 are needed"):
        stepper.step(m, 0.0, 1.0)


def test_an_error_is_at_most_a_tolerance_just_where_their_quotient_is_at_most_one(rng):
    # C compares where NumPy divides: at the tolerance, and at its neighbours too
    tolerance = 10.0 ** rng.uniform(-300, 300, 100_000)
    for error in (tolerance, np.nextafter(tolerance, np.inf), np.nextafter(tolerance, 0.0)):
        assert np.array_equal(error / tolerance <= 1.0, error <= tolerance)
