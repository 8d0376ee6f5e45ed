"""Integrator, filters, linear systems and PID controller match analytic solutions and SciPy."""

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
def test_error_of_the_low_pass_block_has_the_order_of_the_integrator(method, order):
    def error(n):
        y = outputs(LowPass(0.3, y0=1.0), 1 / n, n, lambda _: {"u": 2.0}, method=method)
        return abs(float(y[-1]) - (2 - np.exp(-1 / 0.3)))

    assert np.log2(error(40) / error(80)) == pytest.approx(order, abs=0.15)


def test_sampled_and_continuous_low_pass_agree_for_a_piecewise_constant_input(rng):
    u = rng.normal(size=51)
    sampled = outputs(LowPass(0.02, sample_time=H), H, 50, lambda t: {"u": u[round(t / H)]})
    # the sample at the end of a step reads the input of that step
    y = [0.0]
    for k in range(50):
        y.append(u[k + 1] + (y[-1] - u[k + 1]) * np.exp(-H / 0.02))
    assert_allclose(sampled, y, rtol=1e-13)


def test_integrator_stops_at_its_limits_without_windup():
    block = Integrator(lower=-0.2, upper=0.5, y0=0.1)
    y = outputs(block, H, 200, lambda t: {"u": 1.0 if t < 0.995 else -2.0})
    t = np.arange(201) * H
    up = np.minimum(0.1 + t, 0.5)
    expected = np.where(t < 1.005, up, np.maximum(0.5 - 2 * (t - 1), -0.2))
    limit = (t == t[40]) | (t == t[135])  # stages of a step that ends at a limit exceed the limit
    assert_allclose(y[~limit], expected[~limit], atol=1e-12)
    assert_allclose(y[limit], expected[limit], atol=H / 2)


@pytest.mark.parametrize("sample_time", [None, H])
def test_active_reset_input_holds_an_integrator_at_its_initial_value(sample_time):
    block = Integrator(y0=3.0, reset=True, sample_time=sample_time)
    y = outputs(block, H, 60, lambda t: {"u": 1.0, "reset": 0.195 < t < 0.305})
    assert_allclose(y[[19, 25, 30]], [3.19, 3.0, 3.0], atol=1e-12)
    assert_allclose(y[-1], 3.3, atol=H + 1e-12)  # a sampled reset ends one sample later


def test_output_of_the_sampled_integrator_equals_the_forward_euler_sum(rng):
    u = rng.normal(size=31)
    y = outputs(Integrator(sample_time=H, y0=1.0), H, 30, lambda t: {"u": u[round(t / H)]})
    assert_allclose(y, 1 + H * np.concatenate([[0], np.cumsum(u[:-1])]), rtol=1e-13)


def test_filtered_derivative_of_a_ramp_converges_to_its_slope():
    y = outputs(Derivative(0.05, sample_time=H), H, 100, lambda t: {"u": 3 * t})
    assert_allclose(y, 3 * (1 - (1 + H / 0.05) ** -np.arange(101.0)), atol=1e-11)
    assert_allclose(
        outputs(Derivative(0.0, sample_time=H), H, 100, lambda t: {"u": 3 * t})[1:], 3, atol=1e-10
    )
    y = outputs(Derivative(0.05), H, 100, lambda _: {"u": 1.0})  # step input
    growth = 1 - 0.2 + 0.2**2 / 2 - 0.2**3 / 6 + 0.2**4 / 24  # RK4 value of exp(-H / 0.05)
    assert_allclose(y, growth ** np.arange(101.0) / 0.05, atol=1e-13)


@pytest.mark.parametrize(
    ("num", "den"),
    [((1.0,), (0.2, 1.0)), ((2.0, 0.0, 1.0), (1.0, 3.0, 5.0, 2.0)), ((3.0, 1.0), (2.0, 4.0))],
)
def test_transfer_function_has_the_frequency_response_of_scipy(num, den):
    linear = linearize(TransferFunction(num, den))
    w = np.logspace(-2, 2, 20)
    _, expected = scipy.signal.freqs(num, den, w)
    assert_allclose(response(linear, 1j * w), expected, rtol=1e-11)


@pytest.mark.parametrize(("num", "den"), [((0.5, 0.1), (1.0, -0.9, 0.2)), ((1.0, 2.0), (2.0, 1.0))])
def test_response_of_the_sampled_transfer_function_matches_lfilter_of_scipy(num, den, rng):
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


def test_response_of_the_state_space_block_matches_scipy(rng):
    u = rng.normal(size=(80, 2))
    exact = scipy.signal.cont2discrete((A, B, C, D), H)[:4]
    x, expected = np.array([0.1, 0.2, 0.3]), []
    for one in u:  # the input is constant in each step: y = C x at the end of the step
        x = exact[0] @ x + exact[1] @ one
        expected.append(C @ x)
    block = StateSpace(A, B, C, x0=(0.1, 0.2, 0.3))
    y = outputs(block, H, 80, lambda t: {"u": u[min(int(t / H + 0.5), 79)]})
    assert_allclose(y[1:], expected, atol=1e-8)
    sampled = StateSpace(*exact, sample_time=H, x0=(0.1, 0.2, 0.3))
    y = outputs(sampled, H, 79, lambda t: {"u": u[round(t / H)]})
    _, expected, _ = scipy.signal.dlsim((*exact, H), u, x0=(0.1, 0.2, 0.3))
    assert_allclose(y, expected, atol=1e-12)


def test_state_space_block_is_created_from_scipy_and_python_control_systems():
    block = StateSpace.from_system(scipy.signal.StateSpace(A, B, C, D))
    assert block.sample_time is None
    assert_array_equal(linearize(block).D, D)
    sampled = scipy.signal.StateSpace(A / 9, B, C, D, dt=H)
    assert StateSpace.from_system(sampled).sample_time == H
    # in python-control dt is 0 for continuous systems, True for an unspecified sample time
    theirs = SimpleNamespace(A=A, B=B, C=C, D=D, dt=0)
    assert StateSpace.from_system(theirs).sample_time is None
    theirs.dt = True
    assert StateSpace.from_system(theirs, sample_time=H).sample_time == H
    with pytest.raises(ValueError, match=r"dt = True, but the given sample time is None"):
        StateSpace.from_system(theirs)
    theirs.dt = 0.1
    with pytest.raises(ValueError, match=r"dt = 0.1, but the given sample time is 0.01"):
        StateSpace.from_system(theirs, sample_time=H)
    with pytest.raises(TypeError, match=r"has no A, B, C, D; pass a state space"):
        StateSpace.from_system(scipy.signal.TransferFunction([1.0], [1.0, 2.0]))


def test_continuous_pid_response_matches_its_transfer_function():
    kp, ki, kd, Tf = 3.0, 5.0, 0.4, 0.02
    linear = linearize(PID(kp, ki, kd, Tf), inputs=["ref"])
    s = 1j * np.logspace(-2, 3, 30)
    assert_allclose(response(linear, s), kp + ki / s + kd * s / (Tf * s + 1), rtol=1e-11)
    weighted = linearize(PID(kp, ki, kd, Tf, b=0.3, c=0.0), inputs=["ref"])
    assert_allclose(response(weighted, s), 0.3 * kp + ki / s, rtol=1e-11)


def test_output_of_the_sampled_pid_satisfies_its_difference_equations(rng):
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
    """Return the closed loop of a lag of 1 s, an actuator limited to 1.2 and the reference 1."""
    system = System()
    system.add("pid", controller, start={"ref": 1.0})
    system.add("limit", Saturation(-1.2, 1.2))
    system.add("lag", TransferFunction(1.0, (1.0, 1.0)))
    system.connect("pid.y", "limit.u")
    system.connect("limit.y", "lag.u")
    system.connect("lag.y", "pid.meas")
    return ContinuousSystem(system)


@pytest.mark.slow
def test_anti_windup_reduces_the_overshoot_and_does_not_change_the_final_value():
    def overshoot(controller):
        y = outputs(closed_loop(controller), H, 3000, lambda _: {}, "lag.y")
        assert y[-1] == pytest.approx(1.0, abs=1e-4)
        return y.max() - 1

    wound, unwound = (overshoot(PID(2.0, 4.0)), overshoot(PID(2.0, 4.0, lower=-1.2, upper=1.2)))
    assert unwound < 0.5 * wound


def test_linearization_of_a_feedback_loop_matches_the_closed_loop_transfer_function():
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
        (lambda: Derivative(0.0), "needs T > 0, or a sample time and T = 0"),
        (lambda: Integrator(lower=1.0, upper=0.0), "an integrator needs lower <= upper"),
        (lambda: TransferFunction((1.0, 2.0), (1.0,)), "num of no higher degree than den"),
        (lambda: TransferFunction(1.0, (0.0, 1.0)), "a nonzero first coefficient of den"),
        (lambda: StateSpace(A, B, C.T), "needs A (n, n), B (n, m), C (p, n) and D (p, m)"),
        (lambda: PID(1.0, kd=1.0), "needs a derivative filter with Tf > 0, not None s"),
        (lambda: PID(0.0, 1.0, upper=1.0), "needs the anti-windup time constant Tt"),
        (lambda: PID((1.0, 2.0), ki=(1.0, 2.0, 3.0)), "of shape (2,) needs ki of that shape"),
    ],
)
def test_inconsistent_arguments_of_filter_blocks_are_rejected(make, said):
    with pytest.raises(ValueError, match=r".") as caught:
        make()
    assert said in caught.value.args[0]
