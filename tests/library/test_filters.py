"""Integrals, filters, linear systems and the PID controller against closed forms and SciPy."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.signal
from numpy.testing import assert_allclose, assert_array_equal

from rigidblocks import ContinuousSystem, System, linearize
from rigidblocks.block.integrators import EULER, HEUN, RK4
from rigidblocks.library import (
    PID,
    Derivative,
    Integrator,
    LowPass,
    Saturation,
    StateSpace,
    Sum,
    TransferFunction,
)
from signal_runs import outputs

H = 0.01  # s
A = np.array([[-1.0, 2.0, 0.0], [-2.0, -1.0, 0.5], [0.0, 0.3, -4.0]])
B, C = np.array([[1.0, 0.0], [0.5, 1.0], [0.0, 2.0]]), np.array([[1.0, 0.0, 1.0]])
D = np.array([[0.5, -1.0]])


@pytest.mark.parametrize(("method", "order"), [(EULER, 1), (HEUN, 2), (RK4, 4)])
def test_a_lag_errs_at_the_order_of_the_integrator(method, order):
    def error(n):
        y = outputs(LowPass(0.3, y0=1.0), 1 / n, n, lambda _: {"u": 2.0}, method=method)
        return abs(float(y[-1]) - (2 - np.exp(-1 / 0.3)))

    assert np.log2(error(40) / error(80)) == pytest.approx(order, abs=0.15)


def test_sampled_lag_is_the_continuous_one_of_an_input_that_is_held(rng):
    u = rng.normal(size=51)
    sampled = outputs(LowPass(0.02, sample_time=H), H, 50, lambda t: {"u": u[round(t / H)]})
    # the sample at the end of a step reads what is held over the step
    y = [0.0]
    for k in range(50):
        y.append(u[k + 1] + (y[-1] - u[k + 1]) * np.exp(-H / 0.02))
    assert_allclose(sampled, y, rtol=1e-13)


def test_an_integrator_stops_at_its_limits_and_turns_back_at_once():
    block = Integrator(lower=-0.2, upper=0.5, y0=0.1)
    y = outputs(block, H, 200, lambda t: {"u": 1.0 if t < 0.995 else -2.0})
    t = np.arange(201) * H
    up = np.minimum(0.1 + t, 0.5)
    expected = np.where(t < 1.005, up, np.maximum(0.5 - 2 * (t - 1), -0.2))
    limit = (t == t[40]) | (t == t[135])  # a step that ends at a limit has stages beyond it
    assert_allclose(y[~limit], expected[~limit], atol=1e-12)
    assert_allclose(y[limit], expected[limit], atol=H / 2)


@pytest.mark.parametrize("sample_time", [None, H])
def test_a_reset_holds_the_start_value(sample_time):
    block = Integrator(y0=3.0, reset=True, sample_time=sample_time)
    y = outputs(block, H, 60, lambda t: {"u": 1.0, "reset": 0.195 < t < 0.305})
    assert_allclose(y[[19, 25, 30]], [3.19, 3.0, 3.0], atol=1e-12)
    assert_allclose(y[-1], 3.3, atol=H + 1e-12)  # a sampled one lets go a sample later


def test_the_sampled_integrator_is_eulers_sum(rng):
    u = rng.normal(size=31)
    y = outputs(Integrator(sample_time=H, y0=1.0), H, 30, lambda t: {"u": u[round(t / H)]})
    assert_allclose(y, 1 + H * np.concatenate([[0], np.cumsum(u[:-1])]), rtol=1e-13)


def test_a_derivative_of_a_ramp_comes_to_its_slope():
    y = outputs(Derivative(0.05, sample_time=H), H, 100, lambda t: {"u": 3 * t})
    assert_allclose(y, 3 * (1 - (1 + H / 0.05) ** -np.arange(101.0)), atol=1e-11)
    assert_allclose(
        outputs(Derivative(0.0, sample_time=H), H, 100, lambda t: {"u": 3 * t})[1:], 3, atol=1e-10
    )
    y = outputs(Derivative(0.05), H, 100, lambda _: {"u": 1.0})  # of a step
    growth = 1 - 0.2 + 0.2**2 / 2 - 0.2**3 / 6 + 0.2**4 / 24  # of RK4, for exp(-H / 0.05)
    assert_allclose(y, growth ** np.arange(101.0) / 0.05, atol=1e-13)


@pytest.mark.parametrize(
    ("num", "den"),
    [((1.0,), (0.2, 1.0)), ((2.0, 0.0, 1.0), (1.0, 3.0, 5.0, 2.0)), ((3.0, 1.0), (2.0, 4.0))],
)
def test_a_transfer_function_has_the_frequency_response_of_scipy(num, den):
    linear = linearize(TransferFunction(num, den))
    w = np.logspace(-2, 2, 20)
    _, expected = scipy.signal.freqs(num, den, w)
    assert_allclose(response(linear, 1j * w), expected, rtol=1e-11)


@pytest.mark.parametrize(("num", "den"), [((0.5, 0.1), (1.0, -0.9, 0.2)), ((1.0, 2.0), (2.0, 1.0))])
def test_a_sampled_transfer_function_filters_as_scipy_does(num, den, rng):
    u = rng.normal(size=(60, 2))
    block = TransferFunction(num, den, 2, sample_time=H)
    y = outputs(block, H, 59, lambda t: {"u": u[round(t / H)]})
    padded = np.concatenate([np.zeros(len(den) - len(num)), num])
    assert_allclose(y, scipy.signal.lfilter(padded, den, u, axis=0), atol=1e-12)


def response(linear, s):
    n = len(linear.A)
    return np.array(
        [
            (linear.C @ np.linalg.solve(z * np.eye(n) - linear.A, linear.B) + linear.D)[0, 0]
            for z in s
        ]
        if n
        else [linear.D[0, 0]] * len(s)
    )


def test_a_state_space_moves_as_scipy_has_it(rng):
    u = rng.normal(size=(80, 2))
    exact = scipy.signal.cont2discrete((A, B, C, D), H)[:4]
    x, expected = np.array([0.1, 0.2, 0.3]), []
    for one in u:  # an input held over each step: C x of its end
        x = exact[0] @ x + exact[1] @ one
        expected.append(C @ x)
    block = StateSpace(A, B, C, x0=(0.1, 0.2, 0.3))
    y = outputs(block, H, 80, lambda t: {"u": u[min(int(t / H + 0.5), 79)]})
    assert_allclose(y[1:], expected, atol=1e-8)
    sampled = StateSpace(*exact, sample_time=H, x0=(0.1, 0.2, 0.3))
    y = outputs(sampled, H, 79, lambda t: {"u": u[round(t / H)]})
    _, expected, _ = scipy.signal.dlsim((*exact, H), u, x0=(0.1, 0.2, 0.3))
    assert_allclose(y, expected, atol=1e-12)


def test_systems_of_other_libraries_become_blocks():
    block = StateSpace.of(scipy.signal.StateSpace(A, B, C, D))
    assert block.sample_time is None
    assert_array_equal(linearize(block).D, D)
    sampled = scipy.signal.StateSpace(A / 9, B, C, D, dt=H)
    assert StateSpace.of(sampled).sample_time == H
    # as python-control has it: dt is 0 for continuous systems, True for an open sample time
    theirs = SimpleNamespace(A=A, B=B, C=C, D=D, dt=0)
    assert StateSpace.of(theirs).sample_time is None
    theirs.dt = True
    assert StateSpace.of(theirs, sample_time=H).sample_time == H
    with pytest.raises(ValueError, match=r"dt = True, and the sample time given is None"):
        StateSpace.of(theirs)
    theirs.dt = 0.1
    with pytest.raises(ValueError, match=r"dt = 0.1, and the sample time given is 0.01"):
        StateSpace.of(theirs, sample_time=H)
    with pytest.raises(TypeError, match=r"has no A, B, C, D; give a state space"):
        StateSpace.of(scipy.signal.TransferFunction([1.0], [1.0, 2.0]))


def test_a_pid_is_the_sum_of_its_transfer_functions():
    kp, ki, kd, Tf = 3.0, 5.0, 0.4, 0.02
    linear = linearize(PID(kp, ki, kd, Tf), inputs=["ref"])
    s = 1j * np.logspace(-2, 3, 30)
    assert_allclose(response(linear, s), kp + ki / s + kd * s / (Tf * s + 1), rtol=1e-11)
    weighted = linearize(PID(kp, ki, kd, Tf, b=0.3, c=0.0), inputs=["ref"])
    assert_allclose(response(weighted, s), 0.3 * kp + ki / s, rtol=1e-11)


def test_a_sampled_pid_is_its_recurrence(rng):
    kp, ki, kd, Tf, Tt = 2.0, 30.0, 0.05, 0.015, 0.04
    block = PID(kp, ki, kd, Tf, -1.0, 1.5, Tt=Tt, b=0.8, c=0.5, sample_time=H)
    ref, meas = rng.normal(size=(2, 80))
    y = outputs(block, H, 79, lambda t: {"ref": ref[round(t / H)], "meas": meas[round(t / H)]})
    integral, D, last, expected = 0.0, 0.0, 0.5 * ref[0] - meas[0], []
    for r, m in zip(ref, meas, strict=True):
        e = 0.5 * r - m
        D, last = (Tf * D + kd * (e - last)) / (Tf + H), e
        v = kp * (0.8 * r - m) + integral + D
        expected.append(min(max(v, -1.0), 1.5))
        integral += H * (ki * (r - m) + (expected[-1] - v) / Tt)
    assert_allclose(y, expected, rtol=1e-11)


def closed_loop(controller):
    """A lag of 1 s behind an actuator of 1.2, told to go to 1."""
    system = System()
    system.add("pid", controller, start={"ref": 1.0})
    system.add("limit", Saturation(-1.2, 1.2))
    system.add("lag", TransferFunction(1.0, (1.0, 1.0)))
    system.connect("pid.y", "limit.u")
    system.connect("limit.y", "lag.u")
    system.connect("lag.y", "pid.meas")
    return ContinuousSystem(system)


@pytest.mark.slow
def test_anti_windup_lowers_the_overshoot_and_keeps_the_end():
    def overshoot(controller):
        y = outputs(closed_loop(controller), H, 3000, lambda _: {}, "lag.y")
        assert y[-1] == pytest.approx(1.0, abs=1e-4)
        return y.max() - 1

    wound, unwound = (overshoot(PID(2.0, 4.0)), overshoot(PID(2.0, 4.0, lower=-1.2, upper=1.2)))
    assert unwound < 0.5 * wound


def test_a_loop_of_blocks_is_the_closed_loop_of_the_transfer_functions():
    system = System()
    system.add("sum", Sum("+-"))
    system.add("pid", TransferFunction((2.0, 3.0), (0.01, 1.0)))
    system.add("plant", StateSpace(A, B[:, :1], C))
    system.connect("sum.y", "pid.u")
    system.connect("pid.y", "plant.u")
    system.connect("plant.y", "sum.u2")
    linear = linearize(system, inputs=["sum.u1"], outputs=["plant.y"])
    s = 1j * np.logspace(-1, 2, 15)
    plant = np.array([(C @ np.linalg.solve(z * np.eye(3) - A, B[:, :1]))[0, 0] for z in s])
    open_loop = plant * (2 * s + 3) / (0.01 * s + 1)
    assert_allclose(response(linear, s), open_loop / (1 + open_loop), rtol=1e-10)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Derivative(0.0), "needs a lag T above zero, or a sample time and T = 0"),
        (lambda: Integrator(lower=1.0, upper=0.0), "an integrator needs lower <= upper"),
        (lambda: TransferFunction((1.0, 2.0), (1.0,)), "num of no higher degree than den"),
        (lambda: TransferFunction(1.0, (0.0, 1.0)), "whose first coefficient is not zero"),
        (lambda: StateSpace(A, B, C.T), "needs A (n, n), B (n, m), C (p, n) and D (p, m)"),
        (lambda: PID(1.0, kd=1.0), "needs the lag Tf of its derivative above zero, not None s"),
        (lambda: PID(0.0, 1.0, upper=1.0), "needs the time constant Tt of its anti-windup"),
        (lambda: PID((1.0, 2.0), ki=(1.0, 2.0, 3.0)), "of shape (2,) needs ki of that shape"),
    ],
)
def test_what_makes_no_sense_is_refused(make, said):
    with pytest.raises(ValueError, match=r".") as caught:
        make()
    assert said in caught.value.args[0]
