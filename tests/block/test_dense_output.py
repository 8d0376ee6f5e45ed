"""States within an integrator step, and the time of an event within a step (RBDA 11.5)."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import solve_ivp

from rigidblocks.block.block import Block, Port
from rigidblocks.block.dense_output import first_event, interpolant
from rigidblocks.block.evaluators import NumpyEvaluator
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
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.stepper import advance, initialize
from rigidblocks.kernels.traced_evaluator import numpy_evaluator
from rigidblocks.library import PDController, RobotPlant
from rigidblocks.robot.robots import planar2

ORDER = 0.1  # tolerance of the fitted slope of log error over log step
ROUNDING = 1e-14  # rounding of a few operations on values of magnitude 1
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
    """Return the interpolant of one step."""
    return interpolant(method, derivative, t, np.array(x), h, position)


def slope(states, delta, h=0.1):
    """Return the slope of an interpolant of degree three or less, by an exact difference."""
    e = 0.1
    values = [states(delta + s * e) for s in (-2, -1, 1, 2)]
    return (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * e * h)


# the interpolant


@EXPLICIT
def test_interpolant_equals_the_integrator_states_at_both_ends_of_the_step(method):
    states = inside(method)
    assert_array_equal(states(0.0), [1.2, -0.5])
    expected = integrate(method, pendulum, 0.3, np.array([1.2, -0.5]), 0.1, POSITION)
    assert_allclose(states(1.0), expected, rtol=ROUNDING)


def test_derivative_of_the_interpolant_equals_the_state_derivatives_of_the_stages():
    for method, places in (
        (EULER, {0.0: 0, 1.0: 0}),
        (HEUN, {0.0: 0, 1.0: 1}),
        (HEUN_OF_THE_BOOK, {0.0: 0, 2 / 3: 1}),
    ):
        states = inside(method)
        for delta, stage in places.items():
            assert_allclose(slope(states, delta), states.k[stage], rtol=1e-12)
    states = inside(RK4)  # its slope is the parabola of Simpson's rule
    for delta, rate in (
        (0.0, states.k[0]),
        (0.5, (states.k[1] + states.k[2]) / 2),
        (1.0, states.k[3]),
    ):
        assert_allclose(slope(states, delta), rate, rtol=1e-12)


def test_semi_implicit_euler_interpolates_positions_with_the_new_velocity():
    states = inside(SEMI_IMPLICIT_EULER)
    for delta in (0.25, 0.8):
        assert_allclose(states(delta)[0], 1.2 + delta * 0.1 * states(1.0)[1], rtol=ROUNDING)


def test_interpolant_of_heun_2_3_matches_rbda_equation_11_51():
    # RBDA Eq 11.51
    states, x, h = inside(HEUN_OF_THE_BOOK), np.array([1.2, -0.5]), 0.1
    k_1, k_2 = states.k
    for delta in (0.2, 0.5, 0.9):
        expected = x + h * ((delta - 3 / 4 * delta**2) * k_1 + 3 / 4 * delta**2 * k_2)
        assert_allclose(states(delta), expected, rtol=ROUNDING)


@pytest.mark.parametrize(
    ("method", "degree"), [(EULER, 1), (HEUN, 2), (HEUN_OF_THE_BOOK, 2), (RK4, 3)]
)
def test_interpolant_is_exact_for_polynomials_up_to_its_degree(method, degree):
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
def test_order_of_the_interpolation_error_is_the_polynomial_degree_plus_one(method, degree):
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


def test_event_location_with_a_method_without_interpolant_is_rejected():
    for method in (ROS2, replace(RK4, dense=None)):
        with pytest.raises(
            ValueError,
            match=f"'{method.name}' has no interpolant for states inside a step",
        ):
            inside(method)


# events


@dataclass(frozen=True, eq=False)
class Ball(Block):
    """A ball that is thrown up in air.

    A second state is a unit vector, which a projection normalizes.
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
    """Return the distance of the ball from the floor [m]."""
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
    """Return the exact time at which the ball lands."""

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


@pytest.mark.slow
@ALL
def test_event_time_error_has_the_order_of_the_method(method):
    # all events are at 0.4 of their step, because the error depends on the position in the step
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
def test_event_state_is_at_or_just_after_the_zero_crossing(method):
    t, m, happened = first_event(BALL, begun(), 0.0, 1.5, gap, method, 0.05)
    assert happened
    assert m[0] == t
    assert -1e-14 < m[FLAT.where["z"]][0] <= 0.0
    assert_allclose(np.linalg.norm(m[FLAT.where["n"]]), 1.0, rtol=ROUNDING)
    assert m[FLAT.where["gap"]] == m[FLAT.where["z"]]  # outputs are evaluated at the event time


@ALL
def test_event_search_without_an_event_does_not_change_the_result_of_a_step(method):
    t, m, happened = first_event(BALL, begun(), 0.0, 0.2, gap, method, 0.03)
    assert (t, happened) == (0.2, False)
    assert_array_equal(m, advance(BALL, begun(), 0.0, 0.2, method, 0.03))


def test_run_that_continues_from_an_event_does_not_locate_this_event_again():
    # bounces with loss: each flight is shorter than the previous flight
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


def test_first_of_several_events_in_a_step_is_located():
    def summit_or_floor(t, x, u, p):
        return min(x.v, gap(t, x, u, p))

    summit = first_event(BALL, begun(), 0.0, 1.5, summit_or_floor, RK4, 0.01)
    assert abs(summit.m[FLAT.where["v"]][0]) < 1e-13
    assert summit.t < first_event(BALL, begun(), 0.0, 1.5, gap, RK4, 0.01).t


def test_time_events_and_jumps_of_event_functions_are_located():
    at = first_event(BALL, begun(), 0.0, 0.5, lambda t, *_: 0.123 - t, RK4, 0.01)
    assert_allclose(at.t, 0.123, rtol=ROUNDING)
    jump = first_event(BALL, begun(), 0.0, 0.5, lambda t, *_: 1.0 if t < 0.321 else -1.0, RK4, 0.01)
    assert_allclose(jump.t, 0.321, rtol=ROUNDING)


def test_event_at_the_end_of_a_step_is_located_at_this_end():
    end = first_event(BALL, begun(), 0.0, 0.25, lambda t, *_: 0.25 - t, RK4, 0.25)
    assert (end.t, end.happened) == (0.25, True)
    assert_array_equal(end.m, advance(BALL, begun(), 0.0, 0.25, RK4, 0.25))


@pytest.mark.slow
def test_event_function_locates_the_singular_configuration_of_an_elbow():
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
    )  # error of h^4


def test_event_location_of_a_sampled_block_is_rejected():
    flat = Memory(PDController((60.0, 30.0), (8.0, 4.0), sample_time=2e-3))
    with pytest.raises(
        ValueError,
        match=r"requires a block without a sample time, but PDController samples every 0.002 s",
    ):
        first_event(NumpyEvaluator(flat), flat.start(), 0.0, 2e-3, lambda *_: 1.0)
