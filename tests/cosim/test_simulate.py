"""Co-simulation: all forms agree and converge to continuous control.

A run that ends early returns its result.
"""

import csv
import signal

import numpy as np
import pytest
from numpy.testing import assert_allclose

from campaign import sized
from planar2ctrl import REFERENCE, parts, wired
from rigidblocks import (
    FusedSystem,
    PDController,
    RobotPlant,
    SimulationError,
    System,
    planar2,
    simulate,
)
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.stepper import NumpyStepper
from rigidblocks.cosim.masters import masters
from rigidblocks.cosim.results.recording import Recording
from rigidblocks.cosim.simulate import Interrupted
from runaway import Runaway

FORMS_AGREE = 1e-12  # rounding relative to the signal size; the closed loop keeps it bounded


def deviation(result, t):
    """Return the largest error of q [rad] at a time of the reference."""
    k = round(t / (result.time[1] - result.time[0]))
    return np.abs(result["robot.q"][k] - REFERENCE[t][:2]).max()


def assert_one_run(runs):
    """Assert that all runs have equal columns, and equal values except for rounding."""
    first, *others = runs
    size = np.maximum(np.abs(first.values).max(0), 1.0)
    for run in others:
        assert run.columns == first.columns
        assert (np.abs(run.values - first.values) / size).max() < FORMS_AGREE


@pytest.mark.parametrize("order", ["gauss-seidel", "jacobi"])
@pytest.mark.parametrize("gravity", [(0.0, 0.0, -9.81), (0.0, -9.81, 0.0)])
def test_results_in_numpy_in_c_and_as_one_fused_block_agree(gravity, order):
    runs = [
        simulate(wired(parts(gravity)), 0.3, 1e-3, form=form, order=order, progress=False)
        for form in ("numpy", "compiled", "fused")
    ]
    assert_one_run(runs)


@pytest.mark.slow
@pytest.mark.parametrize("gravity", [(0.0, 0.0, -9.81), (0.0, -9.81, 0.0)])
def test_results_in_numpy_in_c_and_as_one_fused_block_agree_after_the_transient(gravity):
    runs = [
        simulate(wired(parts(gravity)), sized(4.0, 2.0), 1e-3, form=form)
        for form in ("numpy", "compiled", "fused")
    ]
    assert_one_run(runs)


@pytest.mark.slow
def test_fused_run_with_any_chunk_size_matches_the_results_of_separate_compiled_parts(monkeypatch):
    runs = [simulate(wired(parts()), 8.0, 1e-3, t_start=3.0)]
    for look in (0.0, np.inf):  # single steps, and the largest possible chunks
        monkeypatch.setattr(masters, "LOOK", look)
        runs.append(simulate(wired(parts()), 8.0, 1e-3, t_start=3.0, form="fused"))
    assert_one_run(runs)
    assert np.array_equal(runs[1].values, runs[2].values)


@pytest.mark.parametrize("form", ["compiled", "fused"])
def test_control_with_steps_of_1_ms_deviates_by_less_than_1_mrad_from_continuous_control(form):
    result = simulate(wired(parts()), 10.0, 1e-3, form=form)
    assert max(deviation(result, t) for t in REFERENCE) < 1e-3


@pytest.mark.slow
def test_deviation_from_continuous_control_is_proportional_to_the_communication_step():
    steps = np.array([2e-3, 1e-3, 5e-4, 2.5e-4])
    runs = [simulate(wired(parts()), 10.0, dt, form="fused") for dt in steps]
    for t in REFERENCE:
        slope = np.polyfit(np.log(steps), np.log([deviation(run, t) for run in runs]), 1)[0]
        assert abs(slope - 1.0) < 0.1, f"order {slope} at t = {t}"


@pytest.mark.slow
def test_results_do_not_depend_on_the_order_in_which_parts_are_added():
    a = simulate(wired(parts()), 0.1, 1e-3)
    b = simulate(wired(dict(reversed(parts().items()))), 0.1, 1e-3)
    for name in ("robot.q", "pd.tau", "command.y"):
        assert np.array_equal(a[name], b[name])


def test_gauss_seidel_masters_read_new_outputs_and_jacobi_masters_read_old_outputs():
    gauss_seidel = simulate(wired(parts()), 0.05, 1e-3)
    jacobi = simulate(wired(parts()), 0.05, 1e-3, order="jacobi")
    for run, delay in ((gauss_seidel, 0), (jacobi, 1)):
        e = run["command.y"] - run["robot.q"]
        de = run["command.slope"] - run["robot.qd"]
        tau = 1000.0 * e + 15.0 * de
        assert_allclose(run["pd.tau"][1:], tau[1 - delay : len(tau) - delay], rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_sampled_controller_uses_the_backward_difference_of_its_error():
    system = System()
    system.add("robot", RobotPlant(planar2()))
    system.add(
        "pd",
        PDController(kp=[1000.0, 1000.0], kd=[15.0, 15.0], sample_time=2e-3),
        start={"q_ref": [0.3, 0.2]},
    )
    system.connect("robot.q", "pd.q")
    system.connect("pd.tau", "robot.tau")
    runs = {form: simulate(system, 0.1, 1e-3, form=form) for form in ("numpy", "compiled", "fused")}
    e = np.array([0.3, 0.2]) - runs["numpy"]["robot.q"][::2]
    expected = 1000.0 * e + 15.0 * np.diff(e, axis=0, prepend=e[:1]) / 2e-3
    for run in runs.values():
        assert_allclose(run["pd.tau"][::2], expected, rtol=1e-9, atol=1e-7)
        assert np.array_equal(run["pd.tau"][1::2], run["pd.tau"][:-1:2])  # held between the samples
        assert_allclose(run.values, runs["numpy"].values, rtol=FORMS_AGREE, atol=1e-8)


@pytest.mark.slow
def test_start_values_take_effect_in_numpy_in_c_and_in_fused_systems():
    system = System()
    start = {"q": [0.1, -0.2], "qd": [0.3, 0.4], "tau": [0.5, -0.6], "gravity": [0.0, -9.81, 0.0]}
    system.add("robot", RobotPlant(planar2()), start=start)
    model = planar2().with_gravity(start["gravity"])
    other = System()
    other.add(
        "robot", RobotPlant(model, q0=start["q"], qd0=start["qd"]), start={"tau": start["tau"]}
    )
    expected = simulate(other, 0.05, 1e-3, form="numpy")
    for form in ("numpy", "compiled", "fused"):
        assert_allclose(
            simulate(system, 0.05, 1e-3, form=form).values, expected.values, rtol=1e-10, atol=1e-12
        )


def test_recorded_times_are_multiples_of_dt_without_accumulated_rounding():
    assert np.array_equal(simulate(wired(parts()), 1.0, 1e-3).time, 1e-3 * np.arange(1001))


@pytest.mark.parametrize(
    ("t_stop", "dt", "message"),
    [
        (
            1.0,
            0.3,
            "dt = 0.3 s does not divide the duration of the run, 1.0 s; use for example dt "
            "= 0.333333333 s",
        ),
        (
            1.0,
            0.0,
            "a run needs finite t_stop > t_start and dt > 0, not t_start = 0.0, t_stop = 1.0, dt = "
            "0.0",
        ),
        (
            np.inf,
            1e-3,
            "a run needs finite t_stop > t_start and dt > 0, not t_start = 0.0, t_stop = inf, dt = "
            "0.001",
        ),
        (
            0.0,
            1e-3,
            "a run needs finite t_stop > t_start and dt > 0, not t_start = 0.0, t_stop = 0.0, dt = "
            "0.001",
        ),
    ],
)
def test_communication_step_that_does_not_divide_the_run_is_rejected(t_stop, dt, message):
    with pytest.raises(ValueError, match="dt") as caught:
        simulate(wired(parts()), t_stop, dt)
    assert str(caught.value) == message


@pytest.mark.parametrize(("key", "value"), [("form", "matlab"), ("order", "random")])
def test_unknown_value_of_the_form_or_order_option_of_simulate_is_rejected(key, value):
    with pytest.raises(ValueError, match=f"{key} must be one of .*, not '{value}'"):
        simulate(wired(parts()), 1.0, 1e-3, **{key: value})


@pytest.mark.slow
@pytest.mark.parametrize("form", ["numpy", "compiled", "fused"])
def test_run_that_ends_at_nonfinite_values_saves_the_samples_before_these_values(form, tmp_path):
    system = System()
    system.add("runaway", Runaway())
    with pytest.raises(
        SimulationError,
        match=r"run stopped at t = 1(\.\d+)? s: .* not finite .*: (runaway\.)?x( \(.*)?; "
        r"runaway\.x grew first, to .*\n.* is about numbers that are not finite$",
    ) as caught:
        simulate(system, 2.0, 1e-2, form=form, save=tmp_path / "partial.csv")
    result = caught.value.result
    assert 1.0 <= result.time[-1] < 2.0
    assert np.isfinite(result.values).all()
    with open(tmp_path / "partial.csv") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["time", "runaway.x"]
    assert len(rows) == len(result.time) + 1


@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("form", "add"), [("numpy", "add"), ("compiled", "commit"), ("fused", "commit")]
)
def test_interrupted_run_saves_its_result(form, add, ending, tmp_path, monkeypatch):
    original = getattr(Recording, add)

    def add_and_interrupt(recording, *rows):
        original(recording, *rows)
        if recording.k >= 5:
            signal.raise_signal(ending)

    monkeypatch.setattr(Recording, add, add_and_interrupt)
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with pytest.raises(Interrupted, match=r"(Ctrl-C|SIGTERM) ended the run at t = ") as caught:
        simulate(wired(parts()), 10.0, 1e-5, form=form, save=tmp_path / "partial.csv")
    assert handlers == (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))
    assert 6 <= len(caught.value.result.time) < 10_000  # one chunk of a million rows
    with open(tmp_path / "partial.csv") as file:
        assert sum(1 for _ in file) == len(caught.value.result.time) + 1


@pytest.mark.slow
def test_unconnected_input_of_a_system_is_an_input_of_the_fused_block():
    system = System()
    system.add("robot", RobotPlant(planar2().with_gravity((0.0, -9.81, 0.0))))
    fused = Memory(FusedSystem(system, 1e-3))
    plant = Memory(RobotPlant(planar2().with_gravity((0.0, -9.81, 0.0))))
    a, b = fused.start(), plant.start()
    a[fused.where["robot.tau"]] = b[plant.where["tau"]] = [3.0, -1.0]
    NumpyStepper(fused).initialize(a, 0.0)
    NumpyStepper(plant).initialize(b, 0.0)
    for k in range(20):
        NumpyStepper(fused).step(a, k * 1e-3, 1e-3)
        NumpyStepper(plant).step(b, k * 1e-3, 1e-3)
    for name in ("q", "qd", "qdd", "energy"):
        assert_allclose(
            a[fused.where[f"robot.{name}"]], b[plant.where[name]], rtol=1e-12, atol=1e-12
        )


def test_saved_csv_and_parquet_files_have_the_values_of_the_dataframe(tmp_path):
    pandas = pytest.importorskip("pandas")
    result = simulate(wired(parts()), 0.01, 1e-3)
    frame = result.to_dataframe()
    assert list(frame.columns) == ["time", *result.columns]
    assert frame.attrs["units"]["pd.tau[1]"] == "N.m"
    text = pandas.read_csv(result.save(tmp_path / "run.csv"))
    table = pandas.read_parquet(result.save(tmp_path / "run.parquet"))
    for other in (text, table):
        assert np.array_equal(other.to_numpy(), frame.to_numpy())
    assert {path.name for path in tmp_path.iterdir()} == {
        "run.csv",
        "run.csv-metadata.json",
        "run.parquet",
    }


def test_result_returns_signals_elements_and_units_by_name():
    result = simulate(wired(parts()), 0.01, 1e-3)
    assert result["robot.q"].shape == (11, 2)
    assert result["robot.energy"].shape == (11,)
    assert np.array_equal(result["robot.q[2]"], result["robot.q"][:, 1])
    assert result.unit("robot.qdd") == "rad/s2"
    with pytest.raises(KeyError, match=r"no signal 'robot.x'; available: robot.q, robot.qd"):
        result["robot.x"]
    with pytest.raises(KeyError, match=r"\(did you mean pd.tau\?\)"):
        result["pd.tua"]
    with pytest.raises(ValueError, match=r"must end in one of .arrow, .csv, .mf4, .parquet"):
        result.save("run.xls")


@pytest.mark.slow
def test_plot_of_a_result_has_a_panel_for_each_unit(tmp_path):
    pytest.importorskip("matplotlib")
    result = simulate(wired(parts()), 0.01, 1e-3)
    figure = result.plot("robot.q", "command.y", "pd.tau", path=tmp_path / "run.png")
    assert [axis.get_ylabel() for axis in figure.axes] == ["rad", "N.m"]
    lines = figure.axes[0].lines
    assert [line.get_color() for line in lines[:2]] == [line.get_color() for line in lines[2:]]
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 4
    assert figure.get_suptitle() == "robot.q, command.y, pd.tau from 0 to 0.01 s"
    assert figure._repr_png_().startswith(b"\x89PNG")  # image for notebooks
    assert (tmp_path / "run.png").stat().st_size > 10_000
    usual = result.plot()
    assert sum(len(axis.lines) for axis in usual.axes) == len(result.columns)
    assert usual.get_suptitle() == "7 signals from 0 to 0.01 s"
