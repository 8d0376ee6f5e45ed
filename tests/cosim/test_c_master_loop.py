"""The master loop in C equals the master loop in Python bit for bit, for every type of part."""

import logging
import signal
import threading

import numpy as np
import pytest

from foreign_fmu import foreign_fmu
from planar2ctrl import parts, wired
from rigidblocks import Block, PDController, Port, Sine, System, export_fmu, prepare, simulate
from rigidblocks.common.compiler import CompilerError
from rigidblocks.cosim import simulate as course
from rigidblocks.cosim.fmu_import.fmu_instance import RunningFmu
from rigidblocks.cosim.masters import masters
from rigidblocks.cosim.masters.c_loop_tables import HOSTED, Entry
from rigidblocks.cosim.masters.masters import CoSimulation
from rigidblocks.cosim.masters.network import Instances
from rigidblocks.cosim.simulate import Interrupted, SimulationError
from runaway import Runaway


def in_python(plan):
    """Return the reference: a master whose loop runs in Python."""
    return CoSimulation(plan, Instances(plan))


@pytest.fixture
def both(monkeypatch):
    """Return a function that runs a system with both loops and returns both results."""

    def run(system, t_stop, dt, **arguments):
        results = []
        for master in (masters.master_of, in_python):
            with monkeypatch.context() as patched:
                patched.setattr(course, "master_of", master)
                if master is in_python:
                    patched.setattr(RunningFmu, "_c_step", lambda _: None)
                results.append(outcome(system, t_stop, dt, **arguments))
        return results

    return run


def outcome(*arguments, **named):
    """Return the times and values of a run, and its error message or None."""
    try:
        result, said = simulate(*arguments, **named), None
    except SimulationError as error:
        result, said = error.result, str(error)
    return result.time, np.asarray(result.values), said


def assert_same(a, b):
    assert np.array_equal(a[0], b[0])
    assert np.array_equal(a[1], b[1])
    assert a[2] == b[2]


@pytest.fixture(scope="module")
def fmus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fmus")
    return {
        name: export_fmu(block, folder / f"{name}.fmu", tunable=())
        for name, block in parts().items()
    }


@pytest.mark.parametrize("order", ["gauss-seidel", "jacobi"])
@pytest.mark.parametrize("kinds", ["blocks", "fmus", "mixed"])
def test_c_and_python_master_loops_have_bitwise_equal_results(kinds, order, fmus, both):
    mixed = {**fmus, "robot": parts()["robot"]}
    components = {"blocks": parts(), "fmus": fmus, "mixed": mixed}[kinds]
    assert_same(*both(wired(components), 1.7, 1e-3, t_start=0.3, order=order, every=7))


@pytest.mark.slow
def test_c_and_python_master_loops_agree_for_sampled_parts_and_element_connections(both):
    system = System()
    system.add("sine", Sine([1.0, 2.0], [1.0, 0.5], phase=0.1))
    pd = PDController((60.0, 30.0), (8.0, 4.0), sample_time=5e-3)
    system.add("pd", pd, start={"q_ref": [0.0, 0.0]})
    system.connect("sine.y[2]", "pd.q[1]")
    system.connect("sine.y[1]", "pd.q[2]")
    assert_same(*both(system, 1.0, 1e-3))


@pytest.mark.slow
def test_c_and_python_master_loops_have_equal_results_for_isolated_fmus(fmus, both):
    system = System()
    for name, component in parts().items():
        system.add(name, fmus["pd"] if name == "pd" else component, isolated=name == "pd")
    for source, target in (
        ("command.y", "pd.q_ref"),
        ("command.slope", "pd.qd_ref"),
        ("robot.q", "pd.q"),
        ("robot.qd", "pd.qd"),
        ("pd.tau", "robot.tau"),
    ):
        system.connect(source, target)
    assert_same(*both(system, 0.05, 1e-3))


@pytest.mark.slow
@pytest.mark.parametrize(
    "step",
    [
        "i->r[1] = 2.0 * i->r[0]; if (t > 0.045) i->r[1] = 0.0 / 0.0;",
        'if (t > 0.045) { say(i, fmi2Error, "broken"); status = fmi2Error; }',
        "if (t > 0.045) status = fmi2Discard;",
    ],
)
def test_c_and_python_master_loops_report_fmu_errors_with_equal_messages(step, tmp_path, both):
    system = System()
    system.add("source", Sine())
    system.add("fmu", foreign_fmu(tmp_path / "bad.fmu", step=step))
    system.connect("source.y", "fmu.u")
    a, b = both(system, 0.2, 0.01)
    assert_same(a, b)
    assert "fmu" in a[2]
    assert len(a[0]) == 6


@pytest.mark.slow
def test_c_and_python_master_loops_report_a_nonfinite_value_with_equal_messages(both):
    system = System()
    system.add("fast", Runaway())
    a, b = both(system, 2.0, 1e-2)
    assert_same(a, b)
    assert "'fast': Runaway is not finite at t = " in a[2]


def test_fmu_warnings_of_a_run_are_logged_with_part_and_time(tmp_path, caplog):
    step = 'if (t > 0.025) { say(i, fmi2Warning, "hot"); status = fmi2Warning; }'
    system = System()
    system.add("heater", foreign_fmu(tmp_path / "hot.fmu", step=step))
    with caplog.at_level(logging.WARNING, "rigidblocks"):
        simulate(system, 0.05, 0.01)
    said = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert said == [
        "'heater': hot (at t = 0.03 s)",
        "'heater': hot (at t = 0.04 s)",
    ]


def test_simulate_uses_the_python_master_loop_if_no_c_compiler_exists(fmus, monkeypatch):
    def none():
        raise CompilerError("no C compiler")

    expected = simulate(wired(fmus), 0.05, 1e-3)
    monkeypatch.setattr("rigidblocks.cosim.masters.c_loop_tables.library", none)
    found = simulate(wired(fmus), 0.05, 1e-3)
    assert np.array_equal(found.values, expected.values)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["compiled", "fused"])
def test_ctrl_c_ends_the_c_master_loop_and_returns_the_recorded_samples(form):
    timer = threading.Timer(0.3, signal.raise_signal, (signal.SIGINT,))
    run = prepare(wired(parts()), 1e-3, form=form, record=["pd.*"], every=1000)
    timer.start()
    with pytest.raises(Interrupted, match="Ctrl-C ended the run at t = ") as caught:
        run.simulate(1e5)
    result = caught.value.result
    assert 0.0 < result.time[-1] < 1e5
    assert np.array_equal(result.time, np.arange(len(result.time)) * 1000 * 1e-3)


def test_python_exception_in_a_part_ends_the_c_master_loop():
    system = System()
    system.add("source", Sine())
    system.add("never", Failing())
    system.connect("source.y", "never.u")
    plan = prepare(system, 1e-2)._plan
    network = Instances(plan)

    def fail(t, _):
        raise ValueError(f"not at {t:g}")

    network.by_name["never"].step = fail
    network.by_name["never"].entry = lambda: Entry(HOSTED)
    master = masters.CompiledLoop(plan, network)
    network.start(0.0)
    with pytest.raises(RuntimeError, match=r"'never': ValueError: not at 0.25"):
        master.step(0.25, 1e-2)


class Failing(Block):
    """Block with one input and no output."""

    inputs = (Port("u", unit="rad"),)
