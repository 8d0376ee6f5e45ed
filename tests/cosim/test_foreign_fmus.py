"""Foreign FMUs in a run: the order of FMI calls, and errors with part, call and time."""

import logging
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from foreign_fmu import VARIABLES, calls, foreign_fmu
from rigidblocks import SimulationError, Sine, System, simulate
from rigidblocks.cosim.graph.fmu_part import Fmu, FmuError

LIFE = ["instantiate", "setup", "enter", "exit"]
COUNTER = (("n", "output", 0, "Integer"),)


def system_of(fmu, **options) -> System:
    system = System()
    system.add("part", fmu, **options)
    return system


def driven(fmu, **options) -> System:
    """Return a system with an FMU and a sine."""
    system = system_of(fmu, **options)
    system.add("sine", Sine(amplitude=1.0, frequency=1.0))
    return system


@pytest.mark.parametrize("isolated", [False, True])
def test_fmu_without_outputs_is_initialized_stepped_and_terminated(tmp_path, isolated):
    sink = foreign_fmu(tmp_path / "sink.fmu", step="", variables=VARIABLES[:1])
    simulate(system_of(sink, isolated=isolated), 0.03, 0.01)
    assert calls(sink) == [*LIFE, "step", "step", "step", "terminate", "free"]


def test_fmu_with_only_an_integer_output_runs(tmp_path):
    """Stair and Resource of the Reference-FMUs have no Real output either."""
    stair = foreign_fmu(tmp_path / "stair.fmu", step="i->n[0]++;", variables=COUNTER)
    result = simulate(system_of(stair), 0.02, 0.01)
    assert_array_equal(result["part.n"], [0, 1, 2])
    assert result["part.n"].dtype == np.int64
    assert calls(stair) == [*LIFE, "step", "step", "terminate", "free"]


@pytest.mark.slow
def test_integer_and_boolean_fmu_values_are_transferred_exactly(tmp_path):
    variables = (("n", "output", 0, "Integer"), ("m", "input", 1, "Integer"))
    stair = foreign_fmu(tmp_path / "stair.fmu", step="i->n[0] += 7;", variables=variables)
    switch = foreign_fmu(
        tmp_path / "switch.fmu",
        step="i->n[1] = !i->n[0];",
        variables=(("off", "input", 0, "Boolean"), ("on", "output", 1, "Boolean")),
    )
    system = system_of(stair, start={"m": -3})
    system.add("switch", switch, start={"off": True})
    result = simulate(system, 0.02, 0.01)
    assert_array_equal(result["part.n"], [0, 7, 14])
    assert_array_equal(result["switch.on"], [False, False, False])
    with pytest.raises(ValueError, match=r"part.m is of type Integer and cannot be 0.5: it takes"):
        system_of(stair, start={"m": 0.5})


@pytest.mark.slow
def test_error_for_a_noninteger_value_of_an_integer_input_identifies_the_port(tmp_path):
    variables = (("m", "input", 0, "Integer"), ("n", "output", 1, "Integer"))
    system = driven(foreign_fmu(tmp_path / "whole.fmu", step="", variables=variables))
    system.connect("sine.y", "part.m")
    message = r"'part': its m is of type Integer and cannot be 0.06\d+: it takes integers"
    with pytest.raises(SimulationError, match=message):
        simulate(system, 0.1, 0.01)


@pytest.mark.slow
def test_fmu_array_elements_are_ordered_by_their_indices(tmp_path):
    names = ["q[2]", "q[3]", "q[1]"]
    fmu = foreign_fmu(
        tmp_path / "mixed.fmu",
        step="i->r[0] = 10; i->r[1] = 20; i->r[2] = 30;",
        variables=[(name, "output", k, "Real") for k, name in enumerate(names)],
    )
    result = simulate(system_of(fmu), 0.01, 0.01)
    assert_array_equal(result["part.q"][-1], [30.0, 10.0, 20.0])
    assert result["part.q[2]"][-1] == 10.0


def test_elements_of_an_incomplete_fmi2_array_become_scalar_ports(tmp_path):
    names = ["q[7]", "q[2]", "p[0]", "p[1]", "m[1,1]", "m[2,2]", "x", "x[1]", "big[1000000000]"]
    fmu = foreign_fmu(
        tmp_path / "sparse.fmu",
        step="for (int k = 0; k < 9; k++) i->r[k] = k;",
        variables=[(name, "output", k, "Real") for k, name in enumerate(names)],
    )
    result = simulate(system_of(fmu), 0.01, 0.01)
    assert {port.name: port.shape for port in Fmu(fmu).outputs} == dict.fromkeys(names, ())
    assert [result[f"part.{name}"][-1] for name in names] == list(range(9))


def test_fmu_variables_of_different_causality_form_no_array(tmp_path):
    variables = (("a[1]", "input", 0, "Real"), ("a[2]", "output", 1, "Real"))
    fmu = Fmu(foreign_fmu(tmp_path / "halves.fmu", variables=variables))
    assert [port.name for port in fmu.inputs] == ["a[1]"]
    assert [port.name for port in fmu.outputs] == ["a[2]"]


def test_fmu_start_values_outside_the_declared_bounds_are_rejected(tmp_path):
    variables = (*VARIABLES, ("mu", "parameter", 2, "Real"))
    fmu = foreign_fmu(tmp_path / "bound.fmu", variables=variables, mu='min="0" max="2"')
    for value, bound in ((-1.0, "at least 0"), (2.5, "at most 2")):
        with pytest.raises(ValueError, match=rf"part.mu is {value:g}; it must be {bound}"):
            system_of(fmu, start={"mu": value})
    system_of(fmu, start={"mu": 1.0})


@pytest.mark.slow
def test_fmu_variable_with_an_unknown_unit_connects_only_to_an_identical_unit(tmp_path):
    fmu = foreign_fmu(tmp_path / "fresh.fmu", u='unit="twist of lemon"', y='unit="twist of lemon"')
    system = driven(fmu)
    system.add("other", fmu)
    system.connect("part.y", "other.u")
    assert Fmu(fmu).outputs[0].units == ("twist of lemon",)
    with pytest.raises(ValueError, match="unknown unit 'twist of lemon' cannot be converted"):
        system.connect("sine.y", "part.u")
    assert simulate(system, 0.01, 0.01).unit("part.y") == "twist of lemon"


# log messages of FMUs, and their maximum number


def warnings_in(caplog) -> list[logging.LogRecord]:
    """Return the warnings, without messages about compilation."""
    return [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.slow
def test_warnings_of_an_fmu_are_logged_and_the_run_continues(tmp_path, caplog):
    step = 'say(i, fmi2Warning, "it is hot"); status = fmi2Warning;'
    fmu = foreign_fmu(tmp_path / "hot.fmu", step=step)
    with caplog.at_level(logging.WARNING, "rigidblocks"):
        simulate(system_of(fmu), 0.3, 0.01)
    messages = [record.getMessage() for record in warnings_in(caplog)]
    times = [f"'part': it is hot (at t = {0.01 * k:g} s)" for k in range(10)]
    assert messages[:10] == times
    assert messages[10:] == ["'part' has more warnings; they are not shown"]


@pytest.mark.slow
def test_warning_status_without_a_message_is_logged_with_the_name_of_the_fmi_call(tmp_path, caplog):
    fmu = foreign_fmu(tmp_path / "hot.fmu", step="status = fmi2Warning;")
    with caplog.at_level(logging.WARNING, "rigidblocks"):
        simulate(system_of(fmu), 0.01, 0.01)
    (record,) = warnings_in(caplog)
    assert record.getMessage() == "'part': fmi2DoStep gave status warning at t = 0 s"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "name", "end"),
    [
        (2, "discard", ["fmi2GetBooleanStatus", "terminate", "free"]),
        (3, "error", ["free"]),
        (4, "fatal", []),
        (17, "17 (unknown in FMI)", ["free"]),
        (-1, "-1 (unknown in FMI)", ["free"]),
    ],
)
def test_error_status_of_an_fmu_is_reported_with_part_fmi_call_and_time(
    tmp_path, status, name, end
):
    step = f"if (i->steps == 3) status = {status};"
    fmu = foreign_fmu(tmp_path / "bad.fmu", step=step)
    message = re.escape(f"'part': fmi2DoStep gave status {name} at t = 0.02 s")
    with pytest.raises(SimulationError, match=message) as caught:
        simulate(system_of(fmu), 0.1, 0.01)
    assert len(caught.value.result.time) == 3
    assert calls(fmu) == [*LIFE, "step", "step", "step", *end]


@pytest.mark.slow
def test_run_logs_an_fmu_error_at_termination_and_returns_its_result(tmp_path, caplog):
    fmu = foreign_fmu(tmp_path / "late.fmu", end="status = fmi2Error;")
    with caplog.at_level(logging.WARNING, "rigidblocks"):
        result = simulate(system_of(fmu), 0.02, 0.01)
    assert len(result.time) == 3
    assert "'part': fmi2Terminate gave status error" in caplog.text
    assert caplog.text.count("'part'") == 1


@pytest.mark.slow
def test_error_for_a_nonfinite_output_of_an_fmu_identifies_the_output(tmp_path):
    fmu = foreign_fmu(tmp_path / "nan.fmu", step="i->r[1] = i->steps > 1 ? NAN : 0.0;")
    with pytest.raises(SimulationError, match=r"not finite: part.y"):
        simulate(system_of(fmu), 0.1, 0.01)


@pytest.mark.slow
def test_second_instance_of_an_fmu_that_allows_one_instance_is_rejected(tmp_path):
    once = 'canBeInstantiatedOnlyOncePerProcess="true"'
    fmu = foreign_fmu(tmp_path / f"only{time.time_ns()}.fmu", attributes=once)
    system = system_of(fmu)
    system.add("again", fmu)
    with pytest.raises(FmuError, match=r"'again' .*allows only one instance .*isolated=True"):
        simulate(system, 0.01, 0.01)
    both = system_of(fmu, isolated=True)
    both.add("again", fmu, isolated=True)
    assert len(simulate(both, 0.01, 0.01).time) == 2


@pytest.mark.slow
def test_event_location_is_rejected_for_an_fmu_with_a_fixed_step(tmp_path):
    fixed = foreign_fmu(tmp_path / "fixed.fmu", variable_steps=False)
    with pytest.raises(
        ValueError, match=r"events need variable communication step sizes, which 'part' does not"
    ):
        simulate(system_of(fixed), 0.1, 0.01, events=["part.y"])
    simulate(system_of(foreign_fmu(tmp_path / "any.fmu")), 0.1, 0.01, events=["part.y"])


# isolated FMUs, each in its own process


@pytest.mark.slow
def test_results_of_an_fmu_do_not_depend_on_its_isolation_in_a_process(tmp_path):
    variables = (("u[1]", "input", 0, "Real"), VARIABLES[1])
    step = "i->r[1] = 2.0 * i->r[0] + t;"
    fmu = foreign_fmu(tmp_path / "gain.fmu", step=step, variables=variables)
    runs = []
    for isolated in (False, True):
        system = driven(fmu, isolated=isolated)
        system.connect("sine.y", "part.u")
        runs.append(simulate(system, 0.1, 0.01).values)
    assert_array_equal(*runs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("abort();", r"crashed: its process was ended by signal 6 \(Aborted\)"),
        ("raise(SIGSEGV);", r"crashed: .* signal 11 \(Segmentation fault\)"),
        ("exit(3);", r"ended its process with exit code 3"),
        ("for (;;) sleep(1);", r"took longer than 1 s"),
    ],
)
def test_crash_of_an_isolated_fmu_ends_the_run_but_not_the_process(tmp_path, what, message):
    fmu = foreign_fmu(tmp_path / "bad.fmu", step=f"if (i->steps == 5) {what}")
    system = system_of(fmu, isolated=True, time_limit=1.0)
    whole = rf"'part' \(.*bad.fmu\), in its own process: 'step' at t = 0.04 s {message}"
    with pytest.raises(SimulationError, match=whole) as caught:
        simulate(system, 1.0, 0.01)
    assert_allclose(caught.value.result.time, np.arange(5) * 0.01)


@pytest.mark.slow
@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan")])
def test_nonpositive_time_limit_of_an_isolated_fmu_is_rejected(tmp_path, limit):
    with pytest.raises(ValueError, match="the time limit of 'part' must be positive, not"):
        system_of(foreign_fmu(tmp_path / "a.fmu"), isolated=True, time_limit=limit)


@pytest.mark.slow
def test_crash_of_an_isolated_fmu_during_instantiation_is_reported(tmp_path):
    fmu = foreign_fmu(tmp_path / "dead.fmu", start="abort();")
    with pytest.raises(FmuError, match=r"'instantiate' at t = 0 s crashed"):
        simulate(system_of(fmu, isolated=True), 0.1, 0.01)


def folders() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("rigidblocks_fmu_*"))


@pytest.mark.slow
@pytest.mark.parametrize("isolated", [False, True])
def test_temporary_fmu_folders_are_removed_even_after_a_kill(tmp_path, monkeypatch, isolated):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    fmu = foreign_fmu(tmp_path / "slow.fmu", step="sleep(60);")
    program = f"""
from rigidblocks import System, simulate
system = System()
system.add("part", {str(fmu)!r}, isolated={isolated})
simulate(system, 1.0, 0.1)
"""
    run = subprocess.Popen([sys.executable, "-c", program])
    while "step" not in calls(fmu):
        time.sleep(0.05)
    run.kill()
    run.wait()
    assert len(folders()) == 1
    quick = foreign_fmu(tmp_path / "quick.fmu")
    deadline = time.monotonic() + 10
    while folders() and time.monotonic() < deadline:  # an isolated FMU ends with its parent
        simulate(system_of(quick), 0.01, 0.01)
        time.sleep(0.1)
    assert not folders()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("bomb", {"resources/zeros": bytes(200 << 20)}, r"2\d\d,\d+,\d+ bytes, \d+ times its"),
        ("many", {f"resources/{k}": b"" for k in range(20_001)}, r"20\d+ files .* at most 20,000"),
    ],
)
def test_fmu_with_a_decompression_bomb_is_rejected(tmp_path, name, content, message):
    fmu = foreign_fmu(tmp_path / f"{name}.fmu")
    with zipfile.ZipFile(fmu, "a", zipfile.ZIP_DEFLATED) as archive:
        for path, data in content.items():
            archive.writestr(path, data)
    with pytest.raises(FmuError, match=rf"{name}.fmu' would unpack to {message}"):
        system_of(fmu)
