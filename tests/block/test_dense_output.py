"""The states inside a step, and the moment at which something happens in it (RBDA 11.5)."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import solve_ivp

from rigidblocks.block.block import Block, Port
from rigidblocks.block.dense import first_event, interpolant
from rigidblocks.block.evaluate import NumpyEvaluator
from rigidblocks.block.integrators import (
    EULER,
    HEUN,
    INTEGRATORS,
    RK4,
    ROS2,
    SEMI_IMPLICIT_EULER,
    Integrator,
    integrate,
)
from rigidblocks.block.memory import Memory
from rigidblocks.block.step import advance, initialize
from rigidblocks.kernels.evaluator import numpy_evaluator
from rigidblocks.library import PDController, RobotPlant
from rigidblocks.robots import planar2

ORDER = 0.1  # how far the fitted slope of log error over log step may be from the order
ROUNDING = 1e-14  # a few operations on numbers of size one
ALL = pytest.mark.parametrize("method", INTEGRATORS.values(), ids=lambda method: method.name)
EXPLICIT = pytest.mark.parametrize(
    "method",
    [method for method in INTEGRATORS.values() if method.implicit is None],
    ids=lambda method: method.name,
)
HEUN_OF_THE_BOOK = Integrator(
    "heun 2/3",
    2,
    a=((), (2 / 3,)),
    b=(0.25, 0.75),
    c=(0.0, 2 / 3),
    dense=((1.0, -0.75), (0.0, 0.75)),
)
POSITION = np.array([True, False])


def pendulum(t, x):
    return np.array([x[1], -9.81 * np.sin(x[0]) + np.cos(3.0 * t)])


def inside(method, derivative=pendulum, t=0.3, x=(1.2, -0.5), h=0.1, position=POSITION):
    """The interpolant of a step."""
    return interpolant(method, derivative, t, np.array(x), h, position)


def slope(states, delta, h=0.1):
    """The rate of an interpolant of degree three at most, for which this difference is exact."""
    e = 0.1
    values = [states(delta + s * e) for s in (-2, -1, 1, 2)]
    return (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * e * h)


# the interpolant


@EXPLICIT
def test_interpolant_is_the_state_at_the_ends_of_the_step(method):
    states = inside(method)
    assert_array_equal(states(0.0), [1.2, -0.5])
    expected = integrate(method, pendulum, 0.3, np.array([1.2, -0.5]), 0.1, POSITION)
    assert_allclose(states(1.0), expected, rtol=ROUNDING)


def test_interpolants_have_the_rates_of_the_stages():
    for method, places in (
        (EULER, {0.0: 0, 1.0: 0}),
        (HEUN, {0.0: 0, 1.0: 1}),
        (HEUN_OF_THE_BOOK, {0.0: 0, 2 / 3: 1}),
    ):
        states = inside(method)
        for delta, stage in places.items():
            assert_allclose(slope(states, delta), states.k[stage], rtol=1e-12)
    states = inside(RK4)  # a parabola, as Simpson's rule integrates
    for delta, rate in (
        (0.0, states.k[0]),
        (0.5, (states.k[1] + states.k[2]) / 2),
        (1.0, states.k[3]),
    ):
        assert_allclose(slope(states, delta), rate, rtol=1e-12)


def test_positions_of_semi_implicit_euler_go_with_the_new_velocities():
    states = inside(SEMI_IMPLICIT_EULER)
    for delta in (0.25, 0.8):
        assert_allclose(states(delta)[0], 1.2 + delta * 0.1 * states(1.0)[1], rtol=ROUNDING)


def test_interpolant_of_the_books_heun_method_is_its_formula():
    # RBDA Eq 11.51
    states, x, h = inside(HEUN_OF_THE_BOOK), np.array([1.2, -0.5]), 0.1
    k_1, k_2 = states.k
    for delta in (0.2, 0.5, 0.9):
        expected = x + h * ((delta - 3 / 4 * delta**2) * k_1 + 3 / 4 * delta**2 * k_2)
        assert_allclose(states(delta), expected, rtol=ROUNDING)


@pytest.mark.parametrize(
    ("method", "degree"), [(EULER, 1), (HEUN, 2), (HEUN_OF_THE_BOOK, 2), (RK4, 3)]
)
def test_interpolant_is_exact_on_polynomials_in_time_up_to_its_degree(method, degree):
    # dx/dt = degree t^(degree - 1)
    t, h = 0.3, 0.7
    states = inside(
        method,
        lambda t, _: np.array([degree * t ** (degree - 1)]),
        t,
        [t**degree],
        h,
        np.array([False]),
    )
    for delta in (0.1, 0.5, 0.75):
        assert_allclose(states(delta), [(t + delta * h) ** degree], rtol=ROUNDING)


@pytest.mark.parametrize(
    ("method", "degree"), [(EULER, 1), (SEMI_IMPLICIT_EULER, 1), (HEUN, 2), (RK4, 3)]
)
def test_error_inside_a_step_falls_one_order_above_the_interpolants_degree(method, degree):
    steps, errors = 0.2 / 2.0 ** np.arange(4, 8), []
    for h in steps:
        states = inside(method, h=h)
        exact = solve_ivp(
            pendulum,
            (0.3, 0.3 + h),
            [1.2, -0.5],
            "DOP853",
            rtol=1e-13,
            atol=1e-15,
            dense_output=True,
        ).sol
        errors.append(
            max(np.abs(states(delta) - exact(0.3 + delta * h)).max() for delta in (0.3, 0.5, 0.8))
        )
    fitted = np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert fitted > degree + 1 - ORDER


def test_method_without_an_interpolant_is_named():
    for method in (ROS2, replace(RK4, dense=None)):
        with pytest.raises(
            ValueError,
            match=f"'{method.name}' has no interpolant: the states inside a step are those of",
        ):
            inside(method)


# events


@dataclass(frozen=True, eq=False)
class Ball(Block):
    """A ball in air, thrown up; its direction of flight is a unit vector beside it, which is put
    back to length one.
    """

    drag: float = 1.0
    states = (
        Port("z", (), "m", "", 1.0, rate="v"),
        Port("v", (), "m/s", "", 3.0),
        Port("n", (2,), "1", "", [1.0, 0.0]),
    )
    inputs = (Port("f", (), "N", "", 0.0),)
    parameters = (Port("floor", (), "m", "", 0.0),)
    outputs = (*states, Port("gap", (), "m"))

    def derivative(self, t, x, u):
        turn = np.array([-x.n[1], x.n[0]])
        return {
            "z": x.v,
            "v": -9.81 + u.f * np.sin(15.0 * t) * x.z - self.drag * x.v**3 / (1.0 + x.v**2),
            "n": 5.0 * turn,
        }

    def project(self, x):
        return {"n": x.n / np.sqrt(x.n @ x.n)}

    def output(self, x, p):
        return {"gap": x.z - p.floor}


def gap(t, x, u, p):
    """How far the ball is from the floor [m]."""
    del t, u
    return x.z - p.floor


FLAT = Memory(Ball())
BALL = numpy_evaluator(FLAT)


def begun(**values):
    m = FLAT.start()
    for name, value in values.items():
        m[FLAT.where[name]] = value
    return initialize(BALL, m, 0.0)


def landing():
    """The exact time at which the ball lands."""

    def rates(t, x):
        m = begun(f=5.0)
        m[0], m[FLAT.x] = t, x
        return BALL.derivative(m)

    def floor(t, x):
        del t
        return x[0]

    floor.terminal, floor.direction = True, -1
    found = solve_ivp(
        rates, (0, 2), FLAT.start()[FLAT.x], "DOP853", rtol=1e-13, atol=1e-14, events=floor
    )
    return found.t_events[0][0]


@ALL
def test_error_of_the_events_time_falls_at_the_order_of_the_method(method):
    # every time the event is at 0.4 of its step, for the error is not the same everywhere in a step
    exact = landing()
    counts = np.array([80, 120, 180, 280]) if method.order < 5 else np.array([8, 12, 18, 28])
    steps = exact / (counts + 0.4)
    found = [
        first_event(BALL, begun(f=5.0), 0.0, (n + 2) * h, gap, method, h)
        for n, h in zip(counts, steps, strict=True)
    ]
    errors = [abs(event.t - exact) for event in found]
    assert abs(np.polyfit(np.log(steps), np.log(errors), 1)[0] - method.order) < ORDER


@ALL
def test_event_is_a_zero_to_rounding_and_not_before_it(method):
    t, m, happened = first_event(BALL, begun(), 0.0, 1.5, gap, method, 0.05)
    assert happened
    assert m[0] == t
    assert -1e-14 < m[FLAT.where["z"]][0] <= 0.0
    assert_allclose(np.linalg.norm(m[FLAT.where["n"]]), 1.0, rtol=ROUNDING)
    assert m[FLAT.where["gap"]] == m[FLAT.where["z"]]  # the outputs are those of that moment


@ALL
def test_steps_up_to_the_event_are_those_of_a_run(method):
    t, m, happened = first_event(BALL, begun(), 0.0, 0.2, gap, method, 0.03)
    assert (t, happened) == (0.2, False)
    assert_array_equal(m, advance(BALL, begun(), 0.0, 0.2, method, 0.03))


def test_run_goes_on_from_an_event_which_does_not_happen_again():
    # bounces with a loss: each flight is shorter than the one before
    m, t, bounces = begun(), 0.0, []
    while t < 3.0:
        t, m, happened = first_event(BALL, m, t, 3.0 - t, gap, RK4, 0.01)
        if happened:
            bounces.append(t)
            m[FLAT.where["v"]] *= -0.8
    flights = np.diff(bounces)
    assert len(bounces) > 3
    assert np.all(np.diff(flights) < 0)
    assert np.all(flights > 0.1)


def test_first_of_several_events_is_found():
    def summit_or_floor(t, x, u, p):
        return min(x.v, gap(t, x, u, p))

    summit = first_event(BALL, begun(), 0.0, 1.5, summit_or_floor, RK4, 0.01)
    assert abs(summit.m[FLAT.where["v"]][0]) < 1e-13
    assert summit.t < first_event(BALL, begun(), 0.0, 1.5, gap, RK4, 0.01).t


def test_event_may_depend_on_the_time_and_on_a_jump():
    at = first_event(BALL, begun(), 0.0, 0.5, lambda t, *_: 0.123 - t, RK4, 0.01)
    assert_allclose(at.t, 0.123, rtol=ROUNDING)
    jump = first_event(BALL, begun(), 0.0, 0.5, lambda t, *_: 1.0 if t < 0.321 else -1.0, RK4, 0.01)
    assert_allclose(jump.t, 0.321, rtol=ROUNDING)


def test_event_at_the_end_of_the_step_happens_then():
    end = first_event(BALL, begun(), 0.0, 0.25, lambda t, *_: 0.25 - t, RK4, 0.25)
    assert (end.t, end.happened) == (0.25, True)
    assert_array_equal(end.m, advance(BALL, begun(), 0.0, 0.25, RK4, 0.25))


def test_robot_is_stopped_where_its_elbow_is_stretched():
    flat = Memory(RobotPlant(planar2(), q0=(0.2, 0.5), qd0=(0.0, -1.0)))
    m = initialize(NumpyEvaluator(flat), flat.start(), 0.0)
    kept = m.copy()
    t, m, happened = first_event(
        NumpyEvaluator(flat), m, 0.0, 1.0, lambda *arguments: arguments[1].q[1], RK4, 0.01
    )
    assert happened
    assert abs(m[flat.where["q"]][1]) < 1e-14
    assert_allclose(
        advance(NumpyEvaluator(flat), kept, 0.0, t, RK4, 0.01)[flat.x], m[flat.x], atol=1e-8
    )  # h^4


def test_block_that_samples_is_refused():
    flat = Memory(PDController((60.0, 30.0), (8.0, 4.0), sample_time=2e-3))
    with pytest.raises(
        ValueError,
        match=r"events are located between samples, and PDController samples every 0.002 s",
    ):
        first_event(NumpyEvaluator(flat), flat.start(), 0.0, 2e-3, lambda *_: 1.0)
