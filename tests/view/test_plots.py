"""Figures of results: their curves equal the named signals."""

from dataclasses import replace

import numpy as np
import pytest

from rigidblocks import Port, Result, RobotPlant, System, linearize, planar2, prepare, simulate
from rigidblocks.block.port import number
from rigidblocks.cli.run import _planar2ctrl
from rigidblocks.cosim.prepare import inner_steps
from rigidblocks.cosim.results.recording import ZeroCrossing
from rigidblocks.library import StateSpace
from rigidblocks.view.analysis_figures import (
    plot_contact,
    plot_energy,
    plot_phase,
    plot_steps,
    plot_tracking,
    work,
)

pytest.importorskip("matplotlib")


def curves(figure):
    """Return the label and the values of each curve of each panel."""
    return [
        {line.get_label(): np.array(line.get_ydata()) for line in axis.lines}
        for axis in figure.axes
    ]


def oscillation():
    t = np.linspace(0, 10, 2001)
    q, qd = np.sin(2 * t), 2 * np.cos(2 * t)
    ports = {"a.q": ("rad", q), "a.qd": ("rad/s", qd), "a.energy": ("J", qd**2 / 2)}
    ports |= {"a.q_ref": ("rad", 0.5 * q), "a.weight": ("N.m", -3 + 0 * q)}
    signals = [(Port(name, (1,), unit), values) for name, (unit, values) in ports.items()]
    force = np.stack([0 * t, 0.1 * t, 1 + t, 0 * t, 0 * t, 2 - 0 * t], axis=1)
    signals.append((Port("a.force", (2, 3), "N"), force))
    return Result.from_signals(t, signals, {}, (ZeroCrossing(3.0, "a.q"), ZeroCrossing(5.0, "b")))


@pytest.mark.slow
def test_tracking_figure_shows_the_measured_signal_and_the_tracking_error(tmp_path):
    result = oscillation()
    above, below = curves(plot_tracking(result, "a.q_ref", "a.q", tmp_path / "new" / "t.png"))
    np.testing.assert_array_equal(above["a.q[1]"], result["a.q"][:, 0])
    np.testing.assert_allclose(below["error [1]"], -0.5 * result["a.q"][:, 0])
    assert (tmp_path / "new" / "t.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="both must have the same shape and unit"):
        plot_tracking(result, "a.q", "a.qd")
    with pytest.raises(KeyError, match="no signal 'x'"):
        plot_tracking(result, "x", "a.q")


def test_phase_plot_of_an_oscillation_is_an_ellipse():
    (axis,) = plot_phase(oscillation(), "a.q", "a.qd").axes
    x, y = axis.lines[0].get_data()
    np.testing.assert_allclose(x**2 + (y / 2) ** 2, 1.0)
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("a.q [rad]", "a.qd [rad/s]")


def test_plotted_work_of_a_constant_force_is_force_times_distance():
    result = oscillation()
    way = result["a.q"][:, 0] - result["a.q"][0, 0]
    np.testing.assert_allclose(work(result, "a.weight", "a.q"), -3.0 * way, atol=1e-12)
    above, rest = curves(plot_energy(result, "a.energy", [("a.weight", "a.q")]))
    total = above["work of a.weight"] + rest["not explained"]
    np.testing.assert_allclose(total, above["a.energy since the start"], atol=1e-12)


def test_contact_figure_shows_normal_tangential_and_total_forces():
    top, middle, low = curves(plot_contact(oscillation(), "a.force"))
    t = oscillation().time
    np.testing.assert_allclose(top["point 1"], 1 + t)
    np.testing.assert_allclose(next(iter(middle.values())), 0.1 * t)
    np.testing.assert_allclose(low["z"], 3 + t)
    with pytest.raises(ValueError, match="contact force must have"):
        plot_contact(oscillation(), "a.q")


def test_plotted_frequency_response_of_a_first_order_lag_matches_its_transfer_function():
    linear = linearize(StateSpace(A=[[-4.0]], B=[[4.0]], C=[[1.0]], D=[[0.0]]))
    u, y = linear.input_names[0], linear.output_names[0]
    f = np.array([0.1, 1.0, 10.0])
    s = 2j * np.pi * f
    np.testing.assert_allclose(linear.bode(u, y, s.imag).response, 4 / (s + 4), rtol=1e-12)
    gain, phase = curves(linear.bode(u, y).plot())
    (values,) = gain.values()
    assert values[0] == pytest.approx(0.0, abs=0.01)
    assert next(iter(phase.values()))[-1] == pytest.approx(-90.0, abs=6.0)
    with pytest.raises(KeyError, match="'x'"):
        linear.bode("x", y)


def test_figure_of_an_empty_result_has_empty_curves():
    full = oscillation()
    empty = replace(full, time=full.time[:0], values=full.values[:0], events=())
    panels = curves(empty.plot())
    assert {len(values) for axis in panels for values in axis.values()} == {0}


def test_step_figure_of_a_run_shows_sample_intervals_and_events():
    steps, events = curves(plot_steps(oscillation()))
    np.testing.assert_allclose(steps["from row to row"], 0.005)
    assert list(events) == ["a.q: 1", "b: 1"]


@pytest.mark.slow
def test_recorded_inner_steps_are_shorter_for_faster_motion(tmp_path):
    """The robot starts fast, and a lag decays slowly.

    The fast robot takes shorter inner steps than the lag; the error of each step is within its
    tolerance.
    """
    system = System()
    system.add("robot", RobotPlant(planar2(), qd0=[9.0, -9.0]), start={"tau": [0.0, 0.0]})
    lag = StateSpace(A=[[-2.0]], B=[[1.0]], C=[[1.0]], D=[[0.0]])
    system.add("lag", lag, start={"u": [0.0], "x": [1.0]})
    result = inner_steps(prepare(system, 0.05, form="numpy"), 0.5)
    assert len(result.time) == 10
    fast, slow = (result[f"{name}.steps.length"] for name in ("robot", "lag"))
    assert (fast > 0).all()
    assert (slow > fast).all()
    for name in ("robot", "lag"):
        assert (result[f"{name}.steps.error"] <= 1.0).all()
    steps, errors = curves(plot_steps(result, tmp_path / "steps.png"))
    np.testing.assert_array_equal(steps["next inner step of robot"], fast)
    np.testing.assert_array_equal(errors["error of lag"], result["lag.steps.error"])
    with pytest.raises(
        ValueError, match=r"no part of <Run of robot, lag, .*> has an adaptive method"
    ):
        inner_steps(prepare(system, 0.05, form="numpy", method="rk4"), 0.1)


@pytest.mark.slow
def test_figures_of_a_controlled_robot_have_titles_and_labels_and_are_saved_as_images():
    system = _planar2ctrl()
    result = simulate(system, 4.0, 1e-3, progress=False)
    balance = plot_energy(result, "robot.energy", [("pd.tau", "robot.q")])
    assert abs(curves(balance)[1]["not explained"]).max() < 1e-6  # of 8 J: error of RK4 at 1 ms
    response = linearize(RobotPlant(planar2()), at={"q": [0.3, 0.4]}).bode("tau[1]", "q[1]")
    assert response.plot().axes[0].get_ylabel() == "gain [dB re rad per N.m]"
    for figure in (
        result.plot(),
        plot_tracking(result, "command.y", "robot.q"),
        balance,
        response.plot(),
    ):
        assert figure._repr_png_().startswith(b"\x89PNG")
        assert figure.get_suptitle()
        assert all(axis.get_ylabel() for axis in figure.axes)


def result_with_texts():
    t = np.linspace(0, 1, 5)
    ports = [
        Port("part.u", (2,), "m"),
        Port("part.says", type="String"),
        Port("part.raw", type="Binary"),
    ]
    texts = [number("north"), number(b"\x01")]
    values = np.column_stack([t, -t, *(np.full(5, one) for one in texts)])
    return Result(t, tuple(ports), values, {})


def test_plot_omits_string_signals_and_accepts_single_elements():
    result = result_with_texts()
    (panel,) = curves(result.plot())
    assert list(panel) == ["part.u[1]", "part.u[2]"]
    (panel,) = curves(result.plot("part.u[2]"))
    np.testing.assert_array_equal(panel["part.u[2]"], -result.time)
    for name in ("part.says", "part.raw"):
        with pytest.raises(ValueError, match=f"cannot plot '{name}': its values are strings"):
            result.plot(name)


def test_plot_error_without_matplotlib_suggests_the_package_to_install(monkeypatch):
    monkeypatch.setattr("rigidblocks.cosim.results.result.find_spec", lambda _: None)
    with pytest.raises(ImportError, match=r"a figure needs matplotlib: pip install matplotlib$"):
        result_with_texts().plot()
