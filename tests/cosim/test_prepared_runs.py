"""Prepared runs: whole runs again and again, and step by step, equal runs made anew."""

import gc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from foreign_fmu import calls, foreign_fmu
from planar2ctrl import parts, wired
from rigidblocks import (
    FusedSystem,
    GravityCompensation,
    PDController,
    RobotPlant,
    Sine,
    System,
    export_fmu,
    planar2,
    prepare,
    simulate,
)
from rigidblocks.system.fmu import FmuError
from runaway import Runaway

FORMS = pytest.mark.parametrize("form", ["compiled", "numpy", "fused"])
START = {"robot.q": [0.3, -0.2], "pd.kp": [500.0, 700.0]}


def arm(kp=(60.0, 30.0), **start):
    """An arm whose command is an open input."""
    system = System()
    system.add("robot", RobotPlant(planar2()), start=start)
    system.add("pd", PDController(kp, (8.0, 4.0)), start={"q_ref": [0.0, 0.0]})
    for a, b in (("robot.q", "pd.q"), ("robot.qd", "pd.qd"), ("pd.tau", "robot.tau")):
        system.connect(a, b)
    return system


@FORMS
def test_other_start_values_are_those_of_a_system_made_with_them(form):
    run = prepare(arm(), 1e-2, form=form)
    first = run.simulate(0.2)
    other = run.simulate(0.2, start={"robot.q": [0.3, -0.2], "pd.kp": [20.0, 10.0]})
    again = run.simulate(0.2)
    expected = simulate(arm((20.0, 10.0), q=[0.3, -0.2]), 0.2, 1e-2, form=form)
    assert np.array_equal(other.values, expected.values)
    assert np.array_equal(first.values, again.values)
    assert not np.array_equal(first.values[-1], other.values[-1])
    assert "[20.0, 10.0]" in other.meta["parts"]
    assert "[20.0, 10.0]" not in again.meta["parts"]


@FORMS
def test_steps_are_those_of_a_whole_run(form):
    result = simulate(wired(parts()), 0.2, 1e-2, form=form)
    run = prepare(wired(parts()), 1e-2, form=form)
    for _ in range(2):
        run.reset()
        rows = [run["robot.q"]]
        for _ in range(20):
            run.step()
            rows.append(run["robot.q"])
        assert np.array_equal(rows, result["robot.q"])
        assert run.t == pytest.approx(0.2)
    assert run["robot.energy"] == result["robot.energy"][-1]
    assert run["robot.q[2]"] == result["robot.q"][-1, 1]


@FORMS
def test_inputs_and_parameters_change_while_the_run_goes_on(form):
    """The controller is tau = kp (q_ref - q) - kd qd, read at the new time."""
    run = prepare(arm(), 1e-2, form=form)
    run.step(5)
    run["pd.q_ref"] = [0.4, -0.1]
    run["pd.kp"] = 50.0
    run["pd.q_ref[1]"] = 0.5
    run.step()
    assert run["pd.q_ref"].tolist() == [0.5, -0.1]
    tau = 50.0 * (np.array([0.5, -0.1]) - run["robot.q"]) - np.array([8.0, 4.0]) * run["robot.qd"]
    np.testing.assert_allclose(run["pd.tau"], tau, rtol=1e-12)
    run.reset()
    assert run["pd.q_ref"].tolist() == [0.0, 0.0]
    assert run["pd.kp"].tolist() == [60.0, 30.0]


@FORMS
def test_a_saved_moment_is_gone_back_to_as_often_as_one_likes(form):
    run = prepare(wired(parts()), 1e-2, form=form)
    run.step(3)
    moment = run.save()
    run.step(10)
    later, q = run.save(), run["robot.q"]
    for _ in range(2):
        run.restore(moment)
        assert run.t == pytest.approx(0.03)
        run.step(10)
        assert np.array_equal(run["robot.q"], q)
    run.reset(start=START)
    run.restore(later)
    assert np.array_equal(run["robot.q"], q)
    assert run["pd.kp"].tolist() == [1000.0, 1000.0]


def test_values_that_are_read_are_ones_own():
    run = prepare(wired(parts()), 1e-2)
    q = run["robot.q"]
    run.step(5)
    assert not np.array_equal(q, run["robot.q"])
    q[:] = 7.0
    assert run["robot.q"].max() < 7.0


def test_whole_runs_leave_the_steps_alone():
    run = prepare(wired(parts()), 1e-2)
    run.step(3)
    q = run["robot.q"]
    run.simulate(0.1)
    assert np.array_equal(run["robot.q"], q)
    assert run.t == pytest.approx(0.03)


@pytest.mark.parametrize("form", ["compiled", "fused"])
def test_threads_do_not_disturb_each_other(form):
    starts = [{"robot.q": [0.1 * k, -0.1 * k]} for k in range(8)]
    run = prepare(wired(parts()), 1e-3, form=form)
    alone = [run.simulate(0.5, start=start).values for start in starts]

    def stepped(start):
        own = prepare(wired(parts()), 1e-3, form=form)
        own.reset(start)
        own.step(500)
        return run.simulate(0.5, start=start).values, own["robot.q"]

    with ThreadPoolExecutor(4) as pool:
        for values, (found, q) in zip(alone, pool.map(stepped, starts), strict=True):
            assert np.array_equal(values, found)
            assert q.tolist() in [row[:2].tolist() for row in (values[-1],)]


@pytest.fixture(scope="module")
def fmus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fmus")
    return {name: export_fmu(block, folder / f"{name}.fmu") for name, block in parts().items()}


@pytest.mark.slow
@pytest.mark.parametrize("isolated", [False, True])
def test_fmus_step_by_step_are_blocks_step_by_step(fmus, isolated):
    system = System()
    for name, component in parts().items():
        own = fmus[name] if name != "robot" else component
        system.add(name, own, isolated=isolated and name == "pd")
    for target, source in (
        ("pd.q_ref", "command.y"),
        ("pd.qd_ref", "command.slope"),
        ("pd.q", "robot.q"),
        ("pd.qd", "robot.qd"),
        ("robot.tau", "pd.tau"),
    ):
        system.connect(source, target)
    blocks = prepare(wired(parts()), 1e-3)
    with prepare(system, 1e-3) as run:
        for one in (blocks, run):
            one.step(3)
            one["pd.kp"] = [400.0, 300.0]
            moment = one.save()
            one.step(5)
            one.restore(moment)
            one.step(4)
        assert run["pd.kp"].tolist() == [400.0, 300.0]
        np.testing.assert_allclose(run["pd.tau"], blocks["pd.tau"], rtol=1e-12)
        np.testing.assert_allclose(run["robot.q"], blocks["robot.q"], rtol=1e-12)
        run.reset()
        with pytest.raises(ValueError, match=r"the state at t = 0.003 s is not one of this run"):
            run.restore(moment)


@pytest.mark.slow
def test_threads_that_make_fmus_do_not_disturb_each_other(fmus):
    folder = Path.cwd()

    def run(k):
        with prepare(wired(fmus), 1e-3) as own:
            return own.simulate(0.05, start={"robot.q": [0.1 * k, 0.0]}).values

    alone = [run(k) for k in range(6)]
    with ThreadPoolExecutor(6) as pool:
        for values, found in zip(alone, pool.map(run, range(6)), strict=True):
            assert np.array_equal(values, found)
    assert Path.cwd() == folder


@pytest.mark.slow
def test_states_of_fmus_are_freed_with_what_is_saved(fmus):
    system = System()
    system.add("command", fmus["command"])
    with prepare(system, 1e-2) as run:
        moments = [run.save() for _ in range(20)]
        instance = run._network.by_name["command"]
        assert len(instance._kept_by_number) == 20
        del moments
        gc.collect()
        assert len(instance._kept_by_number) == 0


def test_close_ends_the_fmus(tmp_path):
    system = System()
    system.add("part", foreign_fmu(tmp_path / "one.fmu"))
    with prepare(system, 1e-2) as run:
        run.step(2)
    trace = calls(tmp_path / "one.fmu")
    assert trace[-2:] == ["terminate", "free"]
    run.step()  # begins another run
    assert run.t == pytest.approx(0.01)
    run.close()


def test_a_run_that_is_dropped_ends_its_fmus(tmp_path):
    system = System()
    system.add("part", foreign_fmu(tmp_path / "one.fmu"))
    run = prepare(system, 1e-2)
    run.step(2)
    moment = run.save()
    run.step()
    del run
    gc.collect()
    assert calls(tmp_path / "one.fmu")[-1] == "free"
    del moment  # of which nothing is left to be freed


# mistakes


def test_names_and_values_that_are_wrong_are_told_with_what_would_do():
    run = prepare(arm(), 1e-2)
    for name, value, error, message in (
        ("robot.qq", 0.0, KeyError, r"no port 'robot.qq'.*did you mean robot.q"),
        ("pd.q", 0.0, ValueError, r"cannot set pd.q: it is connected to robot.q"),
        ("pd.q[1]", 0.0, ValueError, r"cannot set pd.q\[1\]: it is connected to robot.q"),
        (
            "pd.tau",
            0.0,
            ValueError,
            r"cannot set pd.tau, which is computed; .*: robot.gravity, pd.kp, ",
        ),
        ("robot.q", 0.0, ValueError, r"cannot set robot.q, .* `reset\(start=...\)` takes states"),
        ("pd.q_ref", [1.0] * 3, ValueError, r"pd.q_ref has shape \(3,\); it needs shape \(2,\)"),
        ("pd.q_ref", [np.nan, 0.0], ValueError, r"pd.q_ref must be finite, not \[nan, 0.0\]"),
        ("pd.q_ref", "x", TypeError, r"pd.q_ref takes numbers of shape \(2,\), not 'x'"),
        ("pd.kp", [-1.0, 0.0], ValueError, r"pd.kp\[1\] is -1 .*; it must be at least 0"),
    ):
        with pytest.raises(error, match=message):
            run[name] = value
    with pytest.raises(KeyError, match=r"no port 'pd.taus'.*did you mean pd.tau"):
        _ = run["pd.taus"]
    run[f"pd.{'q_ref'}"] = [0.1, 0.2]
    assert run["pd.q_ref"].tolist() == [0.1, 0.2]


def test_starts_and_options_that_are_wrong_are_told_with_what_would_do():
    run = prepare(arm(), 1e-2)
    for start, error, message in (
        ({"robt.q": 0.0}, KeyError, r"no part 'robt' .*did you mean robot"),
        ({"robot": 0.0}, KeyError, r"write 'robot.' and a port"),
        ({"robot.qq": 0.0}, KeyError, r"'robot' has nothing to start with a value called qq"),
        ({"pd.kp": [-1.0, 0.0]}, ValueError, r"it must be at least 0"),
        ([1.0], TypeError, r"start values are given by name"),
    ):
        with pytest.raises(error, match=message):
            run.reset(start)
    with pytest.raises(ValueError, match="events end the steps of `simulate`"):
        prepare(arm(), 1e-2, events=["robot.q[1]"]).step()
    with pytest.raises(ValueError, match="n must be 1 or more, not 0"):
        run.step(0)
    with pytest.raises(ValueError, match="dt > 0"):
        prepare(arm(), 0.0)
    with pytest.raises(KeyError, match=r"no signal to record matches 'robot.qq'"):
        prepare(arm(), 1e-2, record=["robot.qq"])


def test_another_runs_state_is_refused():
    one, other = prepare(arm(), 1e-2), prepare(arm(), 1e-2)
    one.reset()
    with pytest.raises(ValueError, match="not one of this run"):
        one.restore(other.save())
    with pytest.raises(TypeError, match="restore takes what save gave, not 3"):
        one.restore(3)


@FORMS
def test_after_a_failure_a_run_goes_on_from_what_was_saved(form):
    system = System()
    system.add("fast", Runaway())
    run = prepare(system, 1e-2, form=form)
    run.step(50)
    moment = run.save()
    with pytest.raises((RuntimeError, ArithmeticError), match="not finite at t = "):
        run.step(100)
    with pytest.raises(RuntimeError, match=r"has failed in the step after t = 1"):
        run.step()
    run.restore(moment)
    run.step()
    assert run.t == pytest.approx(0.51)
    run.reset()
    run.step(50)
    assert run["fast.x"] == pytest.approx(2.0, rel=1e-3)


def test_a_fixed_parameter_of_an_fmu_keeps_its_value(tmp_path):
    variables = (
        ("u", "input", 0, "Real"),
        ("y", "output", 1, "Real"),
        ("p", "parameter", 2, "Real"),
    )
    system = System()
    system.add("part", foreign_fmu(tmp_path / "one.fmu", variables=variables))
    for variable in system.parts["part"].component.description.modelVariables:
        variable.variability = "fixed"
    with (
        prepare(system, 1e-2) as run,
        pytest.raises(FmuError, match=r"cannot set 'part.p' while the run goes on"),
    ):
        run["part.p"] = 1.0


def test_a_connected_input_of_a_fused_run_is_read_at_its_source():
    run = prepare(arm(), 1e-2, form="fused")
    with pytest.raises(ValueError, match=r"does not keep pd.q, which is connected"):
        _ = run["pd.q"]


@pytest.mark.slow
def test_a_whole_system_in_a_system_is_prepared_too():
    system = System()
    system.add("all", FusedSystem(wired(parts()), 1e-3))
    fused = prepare(system, 1e-3).simulate(0.05)
    plain = simulate(wired(parts()), 0.05, 1e-3)
    np.testing.assert_allclose(fused["all.robot.q"], plain["robot.q"], rtol=1e-12, atol=1e-15)


def test_an_input_may_be_open_in_part():
    system = System()
    system.add("gravity", GravityCompensation(planar2()), start={"q": [0.0, 0.1]})
    system.add("sine", Sine())
    system.connect("sine.y", "gravity.q[1]")
    for form in ("compiled", "fused"):
        run = prepare(system, 1e-3, form=form)
        run.reset({"gravity.q": [0.0, 0.3]})
        assert run["gravity.q[2]"] == 0.3
        run["gravity.q[2]"] = 0.2
        run.step(5)
        assert run["gravity.q[2]"] == 0.2
        with pytest.raises(
            ValueError, match=r"cannot set gravity.q\[1\]: it is connected to sine.y"
        ):
            run["gravity.q[1]"] = 0.1
