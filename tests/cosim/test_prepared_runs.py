"""Prepared runs: repeated whole runs and single steps equal runs of a new system."""

import gc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from foreign_fmu import calls, foreign_fmu
from planar2ctrl import parts, wired
from rigidblocks import (
    FusedSystem,
    PDController,
    RobotPlant,
    Sine,
    System,
    export_fmu,
    planar2,
    prepare,
    simulate,
)
from rigidblocks.cosim.graph.fmu_part import FmuError
from rigidblocks.library import GravityCompensation
from runaway import Runaway

FORMS = pytest.mark.parametrize("form", ["compiled", "numpy", "fused"])
START = {"robot.q": [0.3, -0.2], "pd.kp": [500.0, 700.0]}


def arm(kp=(60.0, 30.0), **start):
    """Return an arm whose command input is not connected."""
    system = System()
    system.add("robot", RobotPlant(planar2()), start=start)
    system.add("pd", PDController(kp, (8.0, 4.0)), start={"q_ref": [0.0, 0.0]})
    for a, b in (("robot.q", "pd.q"), ("robot.qd", "pd.qd"), ("pd.tau", "robot.tau")):
        system.connect(a, b)
    return system


@pytest.mark.slow
@FORMS
def test_start_values_of_a_prepared_run_have_the_same_effect_as_in_a_new_system(form):
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


@pytest.mark.slow
@FORMS
def test_single_steps_of_a_prepared_run_match_the_results_of_a_complete_run(form):
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


@pytest.mark.slow
@FORMS
def test_inputs_and_parameters_set_between_steps_take_effect_in_the_next_step(form):
    """The controller is tau = kp (q_ref - q) - kd qd, evaluated at the end of the step."""
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
def test_prepared_run_restores_a_saved_state_any_number_of_times(form):
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


def test_values_read_from_a_prepared_run_are_copies():
    run = prepare(wired(parts()), 1e-2)
    q = run["robot.q"]
    run.step(5)
    assert not np.array_equal(q, run["robot.q"])
    q[:] = 7.0
    assert run["robot.q"].max() < 7.0


def test_simulate_of_a_prepared_run_does_not_change_its_current_state():
    run = prepare(wired(parts()), 1e-2)
    run.step(3)
    q = run["robot.q"]
    run.simulate(0.1)
    assert np.array_equal(run["robot.q"], q)
    assert run.t == pytest.approx(0.03)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["compiled", "fused"])
def test_prepared_runs_in_threads_match_the_results_of_sequential_runs(form):
    starts = [{"robot.q": [0.1 * k, -0.1 * k]} for k in range(8)]
    run = prepare(wired(parts()), 1e-3, form=form)
    separate = [run.simulate(0.5, start=start).values for start in starts]

    def stepped(start):
        own = prepare(wired(parts()), 1e-3, form=form)
        own.reset(start)
        own.step(500)
        return run.simulate(0.5, start=start).values, own["robot.q"]

    with ThreadPoolExecutor(4) as pool:
        for values, (found, q) in zip(separate, pool.map(stepped, starts), strict=True):
            assert np.array_equal(values, found)
            assert q.tolist() in [row[:2].tolist() for row in (values[-1],)]


@pytest.fixture(scope="module")
def fmus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fmus")
    return {name: export_fmu(block, folder / f"{name}.fmu") for name, block in parts().items()}


@pytest.mark.slow
@pytest.mark.parametrize("isolated", [False, True])
def test_single_steps_of_fmus_match_the_results_of_their_blocks(fmus, isolated):
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
        if isolated:  # the process of an isolated FMU is new after a reset
            with pytest.raises(
                ValueError, match=r"the state at t = 0.003 s does not belong to this run"
            ):
                run.restore(moment)
        else:
            run.restore(moment)
            run.step(4)
            np.testing.assert_allclose(run["robot.q"], blocks["robot.q"], rtol=1e-12)


@pytest.mark.slow
def test_fmu_runs_in_threads_match_the_results_of_sequential_runs(fmus):
    folder = Path.cwd()

    def run(k):
        with prepare(wired(fmus), 1e-3) as own:
            return own.simulate(0.05, start={"robot.q": [0.1 * k, 0.0]}).values

    separate = [run(k) for k in range(6)]
    with ThreadPoolExecutor(6) as pool:
        for values, found in zip(separate, pool.map(run, range(6)), strict=True):
            assert np.array_equal(values, found)
    assert Path.cwd() == folder


@pytest.mark.slow
def test_deleting_a_saved_state_frees_the_state_of_its_fmu(fmus):
    system = System()
    system.add("command", fmus["command"])
    with prepare(system, 1e-2) as run:
        moments = [run.save() for _ in range(20)]
        instance = run._network.by_name["command"]
        assert len(instance._saved_states) == 20
        del moments
        gc.collect()
        assert len(instance._saved_states) == 0


def test_closing_a_prepared_run_terminates_its_fmus(tmp_path):
    system = System()
    system.add("part", foreign_fmu(tmp_path / "one.fmu"))
    with prepare(system, 1e-2) as run:
        run.step(2)
    trace = calls(tmp_path / "one.fmu")
    assert trace[-2:] == ["terminate", "free"]
    run.step()  # starts another run
    assert run.t == pytest.approx(0.01)
    run.close()


@pytest.mark.slow
def test_garbage_collection_of_a_prepared_run_terminates_its_fmus(tmp_path):
    system = System()
    system.add("part", foreign_fmu(tmp_path / "one.fmu"))
    run = prepare(system, 1e-2)
    run.step(2)
    moment = run.save()
    run.step()
    del run
    gc.collect()
    assert calls(tmp_path / "one.fmu")[-1] == "free"
    del moment  # its FMU state is already freed


# invalid arguments


def test_prepared_run_error_for_an_invalid_name_or_value_states_the_allowed_values():
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
        ("robot.q", 0.0, ValueError, r"cannot set robot.q, .* set states by `reset\(start=...\)`"),
        ("pd.q_ref", [1.0] * 3, ValueError, r"pd.q_ref has shape \(3,\); it needs shape \(2,\)"),
        ("pd.q_ref", [np.nan, 0.0], ValueError, r"pd.q_ref must be finite, not \[nan, 0.0\]"),
        ("pd.q_ref", "x", TypeError, r"pd.q_ref needs numbers of shape \(2,\), not 'x'"),
        ("pd.kp", [-1.0, 0.0], ValueError, r"pd.kp\[1\] is -1 .*; it must be at least 0"),
    ):
        with pytest.raises(error, match=message):
            run[name] = value
    with pytest.raises(KeyError, match=r"no port 'pd.taus'.*did you mean pd.tau"):
        _ = run["pd.taus"]
    run[f"pd.{'q_ref'}"] = [0.1, 0.2]
    assert run["pd.q_ref"].tolist() == [0.1, 0.2]


@pytest.mark.slow
def test_invalid_start_values_and_options_are_rejected_with_a_remedy():
    run = prepare(arm(), 1e-2)
    for start, error, message in (
        ({"robt.q": 0.0}, KeyError, r"unknown part 'robt' .*did you mean robot"),
        ({"robot": 0.0}, KeyError, r"write 'robot.' followed by a port"),
        ({"robot.qq": 0.0}, KeyError, r"'robot' has no start value qq"),
        ({"pd.kp": [-1.0, 0.0]}, ValueError, r"it must be at least 0"),
        ([1.0], TypeError, r"start values must be a mapping by name"),
    ):
        with pytest.raises(error, match=message):
            run.reset(start)
    with pytest.raises(ValueError, match="single steps do not support events"):
        prepare(arm(), 1e-2, events=["robot.q[1]"]).step()
    with pytest.raises(ValueError, match="n must be at least 1, not 0"):
        run.step(0)
    with pytest.raises(ValueError, match="dt > 0"):
        prepare(arm(), 0.0)
    with pytest.raises(KeyError, match=r"no signal to record matches 'robot.qq'"):
        prepare(arm(), 1e-2, record=["robot.qq"])


def test_saved_state_of_another_run_is_rejected():
    one, other = prepare(arm(), 1e-2), prepare(arm(), 1e-2)
    one.reset()
    with pytest.raises(ValueError, match="does not belong to this run"):
        one.restore(other.save())
    with pytest.raises(TypeError, match="restore needs a state that `save` returned, not 3"):
        one.restore(3)


@FORMS
def test_prepared_run_continues_from_a_saved_state_after_a_failed_step(form):
    system = System()
    system.add("fast", Runaway())
    run = prepare(system, 1e-2, form=form)
    run.step(50)
    moment = run.save()
    with pytest.raises((RuntimeError, ArithmeticError), match="not finite at t = "):
        run.step(100)
    with pytest.raises(RuntimeError, match=r"failed in the step after t = 1"):
        run.step()
    run.restore(moment)
    run.step()
    assert run.t == pytest.approx(0.51)
    run.reset()
    run.step(50)
    assert run["fast.x"] == pytest.approx(2.0, rel=1e-3)


def test_setting_a_fixed_parameter_of_an_fmu_during_a_run_is_rejected(tmp_path):
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
        pytest.raises(FmuError, match=r"cannot set 'part.p' during the run"),
    ):
        run["part.p"] = 1.0


@pytest.mark.slow
def test_reading_a_connected_input_of_a_fused_run_is_rejected():
    run = prepare(arm(), 1e-2, form="fused")
    with pytest.raises(ValueError, match=r"does not store the connected input pd.q"):
        _ = run["pd.q"]


@pytest.mark.slow
def test_prepared_run_of_a_nested_system_matches_the_results_of_the_flat_system():
    system = System()
    system.add("all", FusedSystem(wired(parts()), 1e-3))
    fused = prepare(system, 1e-3).simulate(0.05)
    plain = simulate(wired(parts()), 0.05, 1e-3)
    np.testing.assert_allclose(fused["all.robot.q"], plain["robot.q"], rtol=1e-12, atol=1e-15)


@pytest.mark.slow
def test_unconnected_element_of_a_partly_connected_input_is_settable():
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
