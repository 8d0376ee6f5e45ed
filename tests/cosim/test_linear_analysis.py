"""Poles, zeros, responses, margins and loops of linear systems: laws and python-control."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks import (
    FusedSystem,
    PDController,
    RobotPlant,
    System,
    linearize,
    planar2,
)
from rigidblocks.library import Gain, LowPass, StateSpace, Sum, TransferFunction

CONNECTIONS = (("robot.q", "pd.q"), ("robot.qd", "pd.qd"), ("pd.tau", "robot.tau"))


def linear(num, den, sample_time=None):
    return linearize(TransferFunction(num, den, sample_time=sample_time))


def arm_with_controller(delay=0.02):
    """Return an arm whose controller acts through a low-pass filter."""
    system = System()
    system.add("robot", RobotPlant(planar2()))
    system.add("pd", PDController(kp=[60.0, 30.0], kd=[8.0, 4.0]), start={"q_ref": [0.5, -0.3]})
    system.add("motor", LowPass(delay, shape=2, unit="N.m"))
    for source, target in (*CONNECTIONS[:2], ("pd.tau", "motor.u"), ("motor.y", "robot.tau")):
        system.connect(source, target)
    return system


def sort_roots(roots):
    """Return roots by their real part, and conjugate pairs by their imaginary part."""
    return np.array(sorted(roots, key=lambda s: (round(s.real, 6), s.imag)))


# closed forms


def test_poles_and_zeros_are_the_roots_of_denominator_and_numerator():
    G = linear([2.0, 8.0, 26.0], [1.0, 4.0, 5.0, 2.0])
    assert_allclose(sort_roots(G.poles), [-2, -1, -1], atol=1e-6)
    assert_allclose(sort_roots(G.zeros), [-2 - 3j, -2 + 3j], atol=1e-12)
    assert linear([1.0], [1.0, 2.0, 1.0]).zeros.size == 0


def test_margins_of_a_triple_lag_match_the_closed_form():
    """L = k / (s + 1)^3: the phase is -180 deg at sqrt(3), where |L| = k / 8."""
    k = 4.0
    found = linear([k], [1.0, 3.0, 3.0, 1.0]).margins()
    w = np.sqrt(k ** (2 / 3) - 1)
    phase = np.pi - 3 * np.arctan(w)
    assert_allclose(found.gain, 8 / k, rtol=1e-12)
    assert_allclose(found.omega_gain, np.sqrt(3), rtol=1e-12)
    assert_allclose(found.omega_phase, w, rtol=1e-12)
    assert_allclose(found.phase, np.degrees(phase), rtol=1e-10)
    assert_allclose(found.delay, phase / w, rtol=1e-10)


@pytest.mark.parametrize("k", [1e-9, 1.0, 1e9])
def test_gain_crossover_frequency_of_a_double_integrator_is_the_square_root_of_its_gain(k):
    found = linear([k], [1.0, 0.0, 0.0]).margins()
    assert_allclose(found.omega_phase, np.sqrt(k), rtol=1e-12)
    assert_allclose(found.phase, 0.0, atol=1e-9)


def test_loop_without_crossovers_has_infinite_margins():
    found = linear([0.5], [1.0, 1.0]).margins()
    assert found.gain == found.phase == found.delay == np.inf
    assert np.isnan(found.omega_gain)
    assert_allclose(found.modulus, 1.0, rtol=1e-4)


def test_gain_margin_of_a_negative_static_gain_is_the_inverse_of_its_magnitude():
    """With L = -2, the loop 1 / (1 + k L) is singular at k = 1 / 2."""
    found = linearize(Gain(-2.0)).margins()
    assert found.gain == 0.5
    assert_allclose(found.modulus, 1.0, rtol=1e-15)
    assert linearize(Gain(2.0)).margins()[:3] == (np.inf, np.inf, np.inf)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_all_pass_loop_with_unit_gain_has_no_gain_crossover(sign):
    """L = (1 - s) / (1 + s) has |L| = 1 at all frequencies."""
    found = linear([-sign, sign], [1.0, 1.0]).margins()
    assert found.phase == np.inf
    assert np.isnan(found.omega_phase)


def test_step_response_of_a_lag_matches_the_closed_form():
    t = np.linspace(0, 3, 31)
    found = linear([2.0], [0.5, 1.0]).step(t=t)
    assert_allclose(found.y[:, 0], 2 * (1 - np.exp(-2 * t)), atol=1e-13)
    assert_allclose(linear([2.0], [0.5, 1.0]).step().y[-1], 2.0, rtol=2e-3)


def test_frequency_response_matches_the_formula_and_its_plots_are_drawn(tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    w = np.geomspace(0.01, 100, 50)
    found = linear([3.0], [1.0, 0.2, 4.0]).bode(omega=w)
    expected = 3 / ((1j * w) ** 2 + 0.2j * w + 4)
    assert_allclose(found.response, expected, rtol=1e-12)
    assert_allclose(found.decibel, 20 * np.log10(np.abs(expected)), rtol=1e-10, atol=1e-10)
    assert found.phase[-1] < -170
    found.plot(tmp_path / "bode.png")
    found.plot(tmp_path / "nyquist.png", nyquist=True)
    assert all((tmp_path / f"{name}.png").stat().st_size > 1000 for name in ("bode", "nyquist"))


def test_integrator_has_an_infinite_gain_at_zero_frequency():
    found = linear([1.0], [1.0, 0.0]).bode(omega=[0.0, 1.0])
    assert found.gain[0] > 1e200
    assert_allclose(found.response[1], -1j, rtol=1e-15)


# open loops


def test_open_loop_of_a_cut_chain_is_the_product_of_its_transfer_functions():
    """The loop has the blocks G = 2 / (s + 1)^2 and H = 3 / (0.1 s + 1): L = G H."""
    system = System()
    system.add("G", TransferFunction([2.0], [1.0, 2.0, 1.0]))
    system.add("H", TransferFunction([3.0], [0.1, 1.0]))
    system.add("error", Sum("+-"))
    for source, target in (("error.y", "G.u"), ("G.y", "H.u"), ("H.y", "error.u2")):
        system.connect(source, target)
    w = np.geomspace(0.01, 100, 30)
    expected = 2 / (1j * w + 1) ** 2 * 3 / (0.1j * w + 1)
    for cut in ("G.y", "H.y", "error.y"):
        found = linearize(system, cut=cut)
        assert_allclose(found.bode(omega=w).response, expected, rtol=1e-10, err_msg=cut)
        assert_allclose(
            sort_roots(found.poles), [-10, -1, -1], rtol=1e-6, err_msg="the loop is open"
        )


def test_cut_of_a_loop_with_feedthrough_opens_the_algebraic_loop():
    """L = k g with the gains k and g, and the closed loop is 1 / (1 + k g)."""
    system = System()
    system.add("k", Gain(-4.0))
    system.add("lag", TransferFunction([0.5, 2.0], [1.0, 1.0]))
    system.connect("k.y", "lag.u")
    system.connect("lag.y", "k.u")
    w = np.array([0.1, 1.0, 10.0])
    expected = 4.0 * (0.5j * w + 2) / (1j * w + 1)
    assert_allclose(linearize(system, cut="lag.y").bode(omega=w).response, expected, rtol=1e-12)


def test_closed_loop_poles_are_zeros_of_one_plus_the_open_loop_transfer_function():
    system = arm_with_controller()
    at = {"robot.q": [0.5, -0.3]}
    closed, L = linearize(system, at=at), linearize(system, at=at, cut="pd.tau")
    assert L.input_names == ("pd.tau[1]", "pd.tau[2]")
    for s in closed.poles:
        G = L.C @ np.linalg.solve(s * np.eye(len(L.A)) - L.A, L.B) + L.D
        assert abs(np.linalg.det(np.eye(2) + G)) < 1e-8
    assert_allclose(L.y, closed_torque(system, at), atol=1e-12)


def closed_torque(system, at):
    found = linearize(system, at=at)
    return found.y[[found.output_names.index(f"pd.tau[{k}]") for k in (1, 2)]]


def test_cut_of_one_signal_element_does_not_open_the_loop_of_the_other_element():
    system, at = arm_with_controller(), {"robot.q": [0.5, -0.3]}
    closed, L = linearize(system, at=at), linearize(system, at=at, cut="pd.tau[1]")
    whole = linearize(system, at=at, cut="pd.tau")
    w = np.geomspace(0.1, 100, 20)
    found = L.bode(omega=w).response
    for one, omega in zip(found, w, strict=True):
        G = whole.C @ np.linalg.solve(1j * omega * np.eye(len(whole.A)) - whole.A, whole.B)
        # closing the second loop: L11 - L12 L21 / (1 + L22)
        assert_allclose(one, G[0, 0] - G[0, 1] * G[1, 0] / (1 + G[1, 1]), rtol=1e-8)
    margins = L.margins()
    assert margins.phase > 0
    assert (closed.poles.real < 0).all()


def test_loop_multiplied_by_its_gain_margin_is_at_the_stability_limit():
    system = arm_with_controller(0.2)
    at = {"robot.q": [0.5, -0.3]}
    L = linearize(system, at=at, cut="pd.tau[1]")
    margin = L.margins()
    assert np.isfinite(margin.phase)
    G = L.bode(omega=[margin.omega_phase]).response[0]
    assert_allclose(abs(G), 1.0, rtol=1e-10)
    assert_allclose(G * np.exp(-1j * np.radians(margin.phase)), -1.0, atol=1e-9)


@pytest.mark.parametrize(
    ("cut", "error", "text"),
    [
        ("robot.energy", ValueError, "cannot cut robot.energy: it is not connected to an input"),
        ("robot.nothing", KeyError, "nothing"),
        ("nobody.tau", KeyError, "unknown part 'nobody'"),
    ],
)
def test_cut_option_of_linearize_rejects_unsupported_signals(cut, error, text):
    with pytest.raises(error, match=text):
        linearize(arm_with_controller(), cut=cut)


def test_cut_option_of_linearize_rejects_blocks_and_sampled_systems():
    with pytest.raises(ValueError, match="`cut` needs a System of continuous blocks"):
        linearize(RobotPlant(planar2()), cut="q")
    with pytest.raises(ValueError, match="`cut` needs a System of continuous blocks"):
        linearize(FusedSystem(arm_with_controller(), 1e-3), cut="pd.tau")
    with pytest.raises(ValueError, match="leave out inputs and outputs"):
        linearize(arm_with_controller(), cut="pd.tau", inputs="pd.q_ref")


def test_input_channel_of_a_system_with_several_inputs_must_be_selected_by_name():
    G = linearize(RobotPlant(planar2()))
    with pytest.raises(ValueError, match=r"choose one input by name, such as u='tau\[1\]'"):
        G.bode()
    with pytest.raises(KeyError, match=r"no input 'tau'; available: .*did you mean tau"):
        G.bode("tau", "q[1]")
    assert G.select("tau[1]", "q[1]").bode().input == "tau[1]"
    with pytest.raises(ValueError, match="equally spaced"):
        G.step("tau[1]", [0.0, 1.0, 3.0])


# python-control


def closed_poles(loop, gain):
    """Return the poles of the loop with a gain and negative feedback."""
    A, B, C, D = loop.A, gain * loop.B, loop.C, gain * loop.D
    return np.linalg.eigvals(A - B @ np.linalg.solve(np.eye(1) + D, C))


def check_gain_margin(loop, margins):
    """The closed loop has a pole on the stability limit at the gain margin, and none before."""

    def distance(s):
        return s.real if loop.dt is None else np.abs(s) - 1

    end = margins.gain if 0 < margins.gain < np.inf else 1e3
    if end < np.inf and margins.gain < np.inf:
        poles = closed_poles(loop, end)
        assert np.abs(distance(poles)).min() < 1e-7 * max(1, np.abs(poles).max())
    between = np.exp(np.linspace(0, 1, 40)[1:-1] * np.log(end))
    d = -float(loop.D[0, 0])  # 1 + gain D must not vanish between the gains
    if d > 0 and min(1, end) <= 1 / d <= max(1, end):
        return
    assert len({int(np.sum(distance(closed_poles(loop, g)) > 0)) for g in between}) == 1


@pytest.mark.interop
@pytest.mark.parametrize("dt", [None, 0.05])
@pytest.mark.parametrize("seed", range(12))
def test_poles_zeros_margins_and_responses_match_python_control(seed, dt):
    control = pytest.importorskip("control", reason="python-control is not installed")
    np.random.seed(seed)  # noqa: NPY002 - the generator of python-control
    n = 2 + seed % 5
    theirs = (control.rss if dt is None else control.drss)(n, 1, 1, strictly_proper=seed % 2 == 0)
    if dt is not None:
        theirs.dt = dt
    one = linearize(StateSpace([[-1.0]], [[1.0]], [[1.0]]))
    ours = replace(one, A=theirs.A, B=theirs.B, C=theirs.C, D=theirs.D, dt=dt)
    assert_allclose(sort_roots(ours.poles), sort_roots(theirs.poles()), rtol=1e-9)
    expected = sort_roots(theirs.zeros())
    expected = expected[np.abs(expected) < 1e6]  # their infinite zeros
    assert_allclose(sort_roots(ours.zeros), expected, rtol=1e-7, atol=1e-7)
    w = np.geomspace(1e-2, 50.0, 60)
    s = 1j * w if dt is None else np.exp(1j * w * dt)
    assert_allclose(ours.bode(omega=w).response, theirs(s), rtol=1e-9)
    t = np.linspace(0, 4, 81)
    step = control.step_response(theirs, t)
    assert_allclose(ours.step(t=t).y[:, 0], step.outputs, rtol=1e-9, atol=1e-9)
    for factor in (0.5, 5.0, 50.0):
        loop = replace(ours, C=factor * ours.C, D=factor * ours.D)
        gain, phase, _, omega_gain, omega_phase, _ = control.stability_margins(factor * theirs)
        found = loop.margins()
        check_gain_margin(loop, found)
        if dt is None or found.omega_gain < 0.999 * np.pi / dt:  # they omit z = -1
            assert_allclose(found.gain, gain, rtol=1e-7)
        assert_allclose(found.phase, phase, rtol=1e-7)
        if np.isfinite(gain) and found.gain == pytest.approx(gain, rel=1e-6):
            assert_allclose(found.omega_gain, omega_gain, rtol=1e-7)
        if np.isfinite(phase):
            assert_allclose(found.omega_phase, omega_phase, rtol=1e-7)


@pytest.mark.interop
def test_zeros_of_systems_with_several_channels_match_scipy():
    """The zeros are the finite generalized eigenvalues of ([A B; C D], [1 0; 0 0])."""
    linalg = pytest.importorskip("scipy.linalg")
    rng = np.random.default_rng(5)
    for direct in (1.0, 0.0):
        A, B, C = (rng.normal(size=size) for size in ((5, 5), (5, 2), (2, 5)))
        D = direct * rng.normal(size=(2, 2))
        expected = linalg.eigvals(np.block([[A, B], [C, D]]), linalg.block_diag(np.eye(5), 0 * D))
        expected = sort_roots(expected[np.abs(expected) < 1e6])
        found = sort_roots(linearize(StateSpace(A, B, C, D)).zeros)
        assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    ("num", "den", "modulus"),
    [
        ([-1e3], [1.0, 1.0], 1.0),  # |1 + L|^2 = (w^2 + 999^2) / (w^2 + 1) decreases to 1
        ([1.0], [1.0, 0.0], 1.0),  # |1 + L|^2 = 1 + 1 / w^2
        ([-0.5], [1.0, 1.0], 0.5),  # at zero frequency
    ],
)
def test_modulus_margin_includes_the_limits_at_zero_and_infinite_frequency(num, den, modulus):
    assert linear(num, den).margins().modulus == pytest.approx(modulus, abs=1e-9)
