"""FMUs of others in programs: the numbers of `simulate` to the last bit, the calls in FMI's order,
and what goes wrong told by part, call and time.
"""

import csv
import json
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from any_models import (
    BOUNCING_BALL,
    CLOCKS,
    FEEDTHROUGH,
    RESOURCE,
    STAIR,
    STATE_SPACE,
    VAN_DER_POL,
    any_fmu,
)
from foreign_fmu import calls, foreign_fmu
from planar2ctrl import parts
from rigidblocks import Port, Sine, System, UdpLink, build_runner, prepare, simulate
from rigidblocks.block.quantities import Conversion
from rigidblocks.system.fmu import FmuError
from udp_partner import free_ports, partner
from xcp_master import addresses_in, connected

DT = 1e-3
EVENTS = 'hasEventMode="true" mightReturnEarlyFromDoStep="true"'
PD = (
    ("q[1]", "input", 0, "Real"),
    ("q[2]", "input", 1, "Real"),
    ("qd[1]", "input", 2, "Real"),
    ("qd[2]", "input", 3, "Real"),
    ("kp", "parameter", 4, "Real"),
    ("tau[1]", "output", 5, "Real"),
    ("tau[2]", "output", 6, "Real"),
    ("steps", "output", 0, "Integer"),
)
LAW = (
    "i->r[5] = i->r[4] * (1.0 - i->r[0]) - 15 * i->r[2]; "
    "i->r[6] = i->r[4] * (1.5 - i->r[1]) - 15 * i->r[3]; i->n[0]++;"
)


def controlled(folder):
    """The robot with a controller that is an FMU."""
    system = System()
    system.add("robot", parts()["robot"])
    pd = foreign_fmu(folder / "pd.fmu", step=LAW, variables=PD)
    system.add("pd", pd, start={"kp": 1000.0})
    for source, target in (("robot.q", "pd.q"), ("robot.qd", "pd.qd"), ("pd.tau", "robot.tau")):
        system.connect(source, target)
    return system


def many(folder):
    """FMUs of both versions with all types of numbers, events, texts and resources, wired to each
    other and to blocks.
    """
    system = controlled(folder)
    system.add("sine", Sine(amplitude=1.0, frequency=1.0))
    ball = replace(BOUNCING_BALL, attributes=EVENTS)
    system.add("ball", any_fmu(folder, ball, 3), start={"h": 0.4, "e": 0.8})
    system.add("oscillator", any_fmu(folder, VAN_DER_POL, 2), start={"mu": 2.0})
    system.add("stair", any_fmu(folder, replace(STAIR, attributes=EVENTS), 3))
    system.add("space", any_fmu(folder, STATE_SPACE, 3), start={"x": [0.5, 0.0]})
    system.add("file", any_fmu(folder, RESOURCE, 3, y="a"))
    texts = {"String_input": "w\u00f6rld", "Float64_input": 0.5, "Boolean_input": True}
    system.add("two", any_fmu(folder, FEEDTHROUGH, 2), start=texts)
    three = {**texts, "Binary_input": b"\x00\xff", "UInt64_input": 2**53, "Int8_input": -128}
    del three["Boolean_input"]
    system.add("three", any_fmu(folder, FEEDTHROUGH, 3), start=three)
    system.connect("sine.y", "space.u")
    system.connect(
        "oscillator.x0",
        "three.Float32_input",
        conversion=Conversion(np.array([57.3]), np.array([-1.0])),
    )
    system.connect("stair.counter", "three.Int16_input")
    system.connect("two.Boolean_output", "three.Boolean_input")
    return system


def recorded(path):
    with open(path) as file:
        names, *rows = csv.reader(file)
    return names, np.array(rows, float)


def ran(program, *options):
    done = subprocess.run([program, *options], capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


def assert_same(program, system, folder, t_stop, order="gauss-seidel"):
    """All numbers that a program records are those of `simulate`, and it records all numbers."""
    record = folder / "run.csv"
    code, report, said = ran(program, "--stop", t_stop, "--rate", "0", "--record", record)
    assert (code, said, report["ended"]) == (0, "", "at its end")
    result = simulate(system, float(t_stop), DT, order=order, progress=False)
    (time, *names), rows = recorded(record)
    assert time == "time"
    texts = {name for name in result.columns if name.endswith(("String_output", "Binary_output"))}
    assert set(names) == set(result.columns) - texts
    columns = [list(result.columns).index(name) for name in names]
    assert_array_equal(rows[:, 0], result.time)
    assert_array_equal(rows[:, 1:], result.values[:, columns].astype(float))
    return dict(zip(names, rows[:, 1:].T, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("order", ["gauss-seidel", "jacobi"])
def test_program_and_simulate_are_the_same(order, tmp_path):
    system = many(tmp_path)
    program = build_runner(system, tmp_path / "many", DT, order=order)
    found = assert_same(program, system, tmp_path, "1.5", order)
    assert np.ptp(found["robot.q[1]"]) > 0.5
    assert found["ball.v"].max() > 1  # it has bounced
    assert found["stair.counter"][-1] == 2
    assert found["file.y"][-1] == ord("a")
    assert found["two.Boolean_output"][-1] == found["three.Boolean_output"][-1] == 1
    assert found["three.UInt64_output"][-1] == 2**53
    assert_array_equal(
        found["three.Float32_output"][-1],
        np.float32(57.3 * found["oscillator.x0"][-2] - 1.0)
        if order == "jacobi"
        else np.float32(57.3 * found["oscillator.x0"][-1] - 1.0),
    )


@pytest.mark.slow
def test_a_link_and_an_fmu_in_one_program(tmp_path):
    """The command comes from outside, and the calls are those that FMI has."""
    system = System()
    pd = foreign_fmu(tmp_path / "double.fmu")
    system.add("double", pd, start={"u": 0.0})
    peer, listen = free_ports(2)
    ports = [Port("y")], [Port("u")]
    link = UdpLink(*ports, peer=peer, listen=listen, lock_step=True, timeout=2.0)
    system.add("link", link)
    system.connect("double.y", "link.y")
    system.connect("link.u", "double.u")
    program = build_runner(system, tmp_path / "linked", DT)
    pd.with_suffix(".trace").write_text("")
    record = tmp_path / "run.csv"
    with partner(peer, 1, lambda packet: (packet.values[0] / 2 + 1,)):
        code, report, said = ran(program, "--stop", "0.005", "--rate", "0", "--record", record)
    assert (code, said, report["links"]["link"]["received"]) == (0, "", 5)
    assert_array_equal(recorded(record)[1][:, 1], [0.0, 2.0, 4.0, 6.0, 8.0, 10.0])
    life = ["instantiate", "setup", "enter", "exit", *["step"] * 5, "terminate", "free"]
    assert calls(pd) == life


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "said", "ended"),
    [
        ("if (i->t > 0.0015) status = fmi2Error;", "fmi2DoStep gave status error", "a part"),
        ("if (i->t > 0.0015) status = fmi2Fatal;", "fmi2DoStep gave status fatal", "a part"),
        ("if (i->t > 0.0015) i->r[1] = INFINITY;", "", "a value is not finite"),
        ('say(i, fmi2Warning, "hot"); status = fmi2Warning;', "'part': hot", "at its end"),
    ],
)
def test_an_fmu_that_fails_ends_the_run(step, said, ended, tmp_path):
    system = System()
    fmu = foreign_fmu(tmp_path / "bad.fmu", step=step)
    system.add("part", fmu)
    code, report, told = ran(build_runner(system, tmp_path / "bad", DT), "--stop", "0.02")
    assert report["ended"].startswith(ended)
    assert said in told
    if "gave status" in said:
        assert "'part'" in told
        assert "at t = 0.002 s" in told
    assert (code, report["steps"]) == ((0, 20) if ended == "at its end" else (1, 3))
    assert told.count("\n") <= 10
    ends = calls(fmu)[-2:]
    if "fatal" in said:  # nothing may be called after it
        assert ends == ["step", "step"]
    else:
        assert ends == ["step" if "error" in said else "terminate", "free"]


@pytest.mark.slow
def test_a_value_that_an_input_cannot_hold_is_told(tmp_path):
    variables = (("m", "input", 0, "Integer"), ("n", "output", 1, "Integer"))
    system = System()
    system.add("part", foreign_fmu(tmp_path / "whole.fmu", step="", variables=variables))
    system.add("sine", Sine(amplitude=1.0, frequency=1.0))
    system.connect("sine.y", "part.m")
    code, _, told = ran(build_runner(system, tmp_path / "whole", DT), "--stop", "0.02")
    assert code == 1
    assert "'part': an input of type Integer cannot be 0.0062" in told


@pytest.mark.slow
def test_its_files_go_along_and_are_missed(tmp_path):
    system = System()
    system.add("part", any_fmu(tmp_path, RESOURCE, 3, y="z"))
    program = build_runner(system, tmp_path / "made" / "with file", DT)
    moved = tmp_path / "m\u00f6ved %20"
    program.parent.rename(moved)
    record = tmp_path / "run.csv"
    code, _, told = ran(moved / program.name, "--stop", "0.01", "--record", record)
    assert (code, told) == (0, "")
    assert recorded(record)[1][-1, 1] == ord("z")
    (moved / "with file.fmus").rename(moved / "other")
    code, report, told = ran(moved / program.name, "--stop", "0.01")
    assert (code, report["ended"]) == (1, "a part has failed")
    assert "'part' does not load: " in told


@pytest.mark.slow
def test_parameters_of_fmus_are_tuned_while_it_runs(tmp_path):
    """By XCP: the run is that of `simulate` with the same values from the same step on."""
    system = controlled(tmp_path)
    ball = replace(BOUNCING_BALL, attributes=EVENTS)
    system.add("ball", any_fmu(tmp_path, ball, 3), start={"h": 9.0})
    system.add("count", any_fmu(tmp_path, FEEDTHROUGH, 2))
    (address,) = free_ports(1)
    program = build_runner(system, tmp_path / "tuned", DT, xcp=address.partition(":")[2])
    places = addresses_in(program.with_suffix(".a2l").read_text())
    assert "count.Float64_input" in places
    assert "count.Int32_input" not in places  # a tool could give it a half
    signals = ["robot.q[1]", "pd.tau[2]", "ball.h", "ball.v"]
    rows = tuned(program, address, places, [*signals, "pd.kp", "ball.g"])
    steps = np.rint(rows[:, 0] / DT).astype(int)
    scenario = {}
    for k, (name, value) in enumerate((("pd.kp", 2500.0), ("ball.g", -1.62)), 1 + len(signals)):
        first = int(np.argmax(rows[:, k] == value))  # the first step with it ends there
        scenario[name] = [(0.0, rows[0, k]), ((steps[first] - 1) * DT, value)]
    tried = prepared(system, scenario, steps[-1])
    for k, name in enumerate(signals, 1):
        assert_array_equal(rows[:, k], [tried[step][name] for step in steps])


def tuned(program, address, places, names):
    """The times and signals of a run of a program, of which two parameters are changed early on."""
    options = ("--rate", "0.5")
    with subprocess.Popen([program, *options], stdout=subprocess.PIPE) as process:
        try:
            with connected(address) as master:
                master.measure([places[name] for name in names])
                while len(master.samples) < 50:
                    master.receive()
                assert master.read(places["pd.kp"], 1) == (1000.0,)
                assert master.read(places["ball.g"], 1) == (-9.81,)
                master.write(places["pd.kp"], 2500.0)
                master.write(places["ball.g"], -1.62)
                while len(master.samples) < 200:
                    master.receive()
        finally:
            process.terminate()
            process.communicate(timeout=20)
    return np.array(master.rows())


def prepared(system, scenario, n):
    """The values of a run in which what a scenario names changes at its times, by steps."""
    found = {}
    with prepare(system, DT) as run:
        run.reset()
        for k in range(n):
            for name, changes in scenario.items():
                for t, value in changes[1:]:
                    if round(t / DT) == k:
                        run[name] = value
            run.step()
            found[k + 1] = {name: run[name] for name in ("ball.h", "ball.v")}
            found[k + 1] |= {"robot.q[1]": run["robot.q"][0], "pd.tau[2]": run["pd.tau"][1]}
    return found


@pytest.mark.slow
def test_what_a_program_cannot_step_is_refused(tmp_path):
    def refused(error, match, fmu, **options):
        system = System()
        system.add("part", fmu, **options)
        with pytest.raises(error, match=match):
            build_runner(system, tmp_path / "never", DT, platform=options.pop("platform", None))
        assert not list(tmp_path.glob("never*"))

    ball = any_fmu(tmp_path, BOUNCING_BALL, 2)
    refused(ValueError, "'part' is isolated, and a runner is one process", ball, isolated=True)
    refused(ValueError, "'part' is taken for model exchange", ball, kind="model exchange")
    tool = foreign_fmu(tmp_path / "tool.fmu", attributes='needsExecutionTool="true"')
    refused(ValueError, "'part' needs its tool while it runs", tool)
    clocks = any_fmu(tmp_path, CLOCKS, 3)
    refused(ValueError, "'part' has clocks, which a runner does not tick", clocks)


@pytest.mark.slow
def test_an_fmu_without_a_library_for_the_platform_is_refused(tmp_path):
    system = System()
    system.add("part", any_fmu(tmp_path, VAN_DER_POL, 3))
    with pytest.raises(FmuError, match="has no binary for aarch64-linux; it has: x86_64-linux"):
        build_runner(system, tmp_path / "never", DT, platform="aarch64-linux")
    assert not list(tmp_path.glob("never"))
