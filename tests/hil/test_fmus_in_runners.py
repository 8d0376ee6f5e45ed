"""Foreign FMUs in generated programs: results equal `simulate`, calls follow the order of FMI."""

import csv
import json
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from any_models import (
    BOUNCING_BALL,
    CLOCKS,
    DAHLQUIST,
    FEEDTHROUGH,
    PARTITIONS,
    RESIZABLE,
    RESOURCE,
    STAIR,
    STATE_SPACE,
    TICKS,
    TOLERANCE,
    VAN_DER_POL,
    AnyModel,
    Variable,
    any_fmu,
)
from foreign_fmu import calls, foreign_fmu
from linear_networks import KINDS, random_network
from planar2ctrl import parts
from rigidblocks import Port, Sine, System, build_runner, prepare, simulate
from rigidblocks.block.units import Conversion
from rigidblocks.common.escaping import cmake_name
from rigidblocks.cosim.graph.fmu_part import FmuError
from rigidblocks.hil.links import UdpLink
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
    """Return the robot with an FMU as controller."""
    system = System()
    system.add("robot", parts()["robot"])
    pd = foreign_fmu(folder / "pd.fmu", step=LAW, variables=PD)
    system.add("pd", pd, start={"kp": 1000.0})
    for source, target in (("robot.q", "pd.q"), ("robot.qd", "pd.qd"), ("pd.tau", "robot.tau")):
        system.connect(source, target)
    return system


def system_of_all_kinds(folder):
    """Return connected FMUs of both versions with numbers, strings, events and resources."""
    system = controlled(folder)
    system.add("sine", Sine(amplitude=1.0, frequency=1.0))
    ball = replace(BOUNCING_BALL, attributes=EVENTS)
    system.add("ball", any_fmu(folder, ball, 3), start={"h": 0.4, "e": 0.8})
    system.add("oscillator", any_fmu(folder, VAN_DER_POL, 2), start={"mu": 2.0})
    system.add("stair", any_fmu(folder, replace(STAIR, attributes=EVENTS), 3))
    for version in (2, 3):
        tolerant = any_fmu(folder, TOLERANCE, version)
        system.add(f"tolerant{version}", tolerant, rtol=10.0**-version)
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
    system.add("slow", foreign_fmu(folder / "slow.fmu"), start={"u": 0.0}, dt=4 * DT)
    system.connect("sine.y", "slow.u")
    system.connect("stair.counter", "three.Int16_input")
    system.connect("two.Boolean_output", "three.Boolean_input")
    return system


def recorded(path):
    with open(path) as file:
        names, *rows = csv.reader(file)
    return names, np.array(rows, float)


def ran(program, *options):
    done = subprocess.run([program, *options], capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout.removeprefix("ready\n") or "{}"), done.stderr


def assert_same(program, system, folder, t_stop, order="gauss-seidel"):
    """Check that a program records all numeric values of `simulate`."""
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
def test_generated_program_with_foreign_fmus_matches_the_results_of_simulate_bit_for_bit(
    order, tmp_path
):
    system = system_of_all_kinds(tmp_path)
    program = build_runner(system, tmp_path / "many", DT, order=order)
    found = assert_same(program, system, tmp_path, "1.5", order)
    assert np.ptp(found["robot.q[1]"]) > 0.5
    k = np.arange(4, len(found["slow.y"]))  # the FMU holds its outputs over four steps
    assert_array_equal(found["slow.y"][k], found["slow.y"][k - k % 4])
    assert found["ball.v"].max() > 1  # the ball bounced
    assert found["stair.counter"][-1] == 2
    assert found["tolerant2.y"][-1] == 1e-2
    assert found["tolerant3.y"][-1] == 1e-3
    assert found["file.y"][-1] == ord("a")
    assert found["two.Boolean_output"][-1] == found["three.Boolean_output"][-1] == 1
    assert found["three.UInt64_output"][-1] == 2**53
    assert_array_equal(
        found["three.Float32_output"][-1],
        np.float32(57.3 * found["oscillator.x0"][-2] - 1.0)
        if order == "jacobi"
        else np.float32(57.3 * found["oscillator.x0"][-1] - 1.0),
    )


CLOCK_STEP = 0.05


def clocked(folder):
    """Return FMUs with clocks of all kinds, for co-simulation and scheduled execution."""
    system = System()
    system.add("sine", Sine(amplitude=1.0, frequency=0.77, unit="1"))
    system.add("clocks", any_fmu(folder, CLOCKS, 3))
    system.connect("sine.y", "clocks.u")
    ticks = any_fmu(folder, TICKS, 3)
    system.add("a", ticks, start={"fixed": 0.1, "tunable": 0.25})
    system.add("b", ticks, start={"fixed": 0.5})
    system.connect("a.out", "b.hit")
    system.add("partitions", any_fmu(folder, PARTITIONS, 3), kind="scheduled execution")
    system.connect("sine.y", "partitions.u")
    system.connect("a.out", "partitions.hit")
    return system


@pytest.mark.slow
@pytest.mark.parametrize("order", ["gauss-seidel", "jacobi"])
def test_fmu_clocks_tick_at_the_same_times_in_a_generated_program_and_in_simulate(order, tmp_path):
    system, record = clocked(tmp_path), tmp_path / "run.csv"
    program = build_runner(system, tmp_path / "clocked", CLOCK_STEP, order=order)
    options = ("--stop", "0.6", "--rate", "0", "--record", record)
    code, _, said = ran(program, *options)
    assert (code, said) == (0, "")
    names, rows = recorded(record)
    result = simulate(system, 0.6, CLOCK_STEP, order=order, progress=False)
    columns = [list(result.columns).index(name) for name in names[1:]]
    assert_array_equal(rows[:, 1:], result.values[:, columns].astype(float))
    found = dict(zip(names, rows.T, strict=True))
    assert found["a.fixed_ticks"][-1] == 7  # at 0, 0.1, ... 0.6 s
    assert found["clocks.rings"][-1] == 2  # 0.05 s after the third and the sixth tick
    assert found["b.hits"][-1] >= 6
    assert {"1", "2", "5"} <= set(str(int(found["partitions.order"][5])))


@pytest.mark.slow
@pytest.mark.parametrize("refusal", ["instantiate", "enter"])
def test_fmu_that_rejects_event_mode_runs_in_a_generated_program_as_in_simulate(refusal, tmp_path):
    model = replace(STAIR, attributes=EVENTS, without_events=refusal)
    system = System()
    system.add("stair", any_fmu(tmp_path, model, 3))
    record = tmp_path / "run.csv"
    program = build_runner(system, tmp_path / "stair", 0.1)
    code, _, said = ran(program, "--stop", "3.5", "--rate", "0", "--record", record)
    assert code == 0
    assert "'stair': it rejects event mode; it runs without event mode" in said
    result = simulate(system, 3.5, 0.1, progress=False)
    assert_array_equal(recorded(record)[1][:, 1], result["stair.counter"])


@pytest.mark.slow
@pytest.mark.parametrize("attributes", ["", EVENTS])
def test_scenario_with_fmu_parameters_has_equal_results_in_a_program_and_in_simulate(
    attributes, tmp_path
):
    """With event mode, the FMU rejects parameters outside of event mode."""
    model = replace(DAHLQUIST, attributes=attributes, strict_parameters=True)
    system = System()
    system.add("part", any_fmu(tmp_path, model, 3))
    scenario, record = tmp_path / "scenario.csv", tmp_path / "run.csv"
    scenario.write_text("time,part.k\n0,1\n0.5,3\n")
    program = build_runner(system, tmp_path / "part", 0.1)
    options = ("--stop", "1", "--rate", "0", "--record", record, "--scenario", scenario)
    code, _, said = ran(program, *options)
    assert (code, said) == (0, "")
    result = simulate(system, 1.0, 0.1, scenario=scenario, progress=False)
    names, rows = recorded(record)
    assert_array_equal(rows[:, names.index("part.x")], result["part.x"])
    assert rows[-1, names.index("part.x")] == pytest.approx(np.exp(-2.0), rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("interval", "said"),
    [
        ("*value = -1.0;", "the interval -1 s; the interval must be at least 0"),
        ("*value = 0.0;", "it has too many events at the same time at t = 0.1 s"),
    ],
)
def test_generated_program_reports_invalid_intervals_of_clocks(interval, said, tmp_path):
    """From the tick at 0.2 s on, the countdown clock has the given interval."""
    text = f"{interval} return r == 2 && m->t > 0.15 ? 2 : 0;"
    system = System()
    system.add("part", any_fmu(tmp_path, replace(CLOCKS, interval=text), 3), start={"u": 0.0})
    program = build_runner(system, tmp_path / "part", 0.1)
    code, report, reported = ran(program, "--stop", "1", "--rate", "0")
    assert (code, report["ended"]) == (1, "a part has failed")
    assert "'part'" in reported
    assert said in reported


@pytest.mark.slow
def test_generated_program_calls_an_fmu_in_the_order_that_fmi_requires(tmp_path):
    """The link provides the FMU input; the FMU receives only calls that FMI permits."""
    system = System()
    pd = foreign_fmu(tmp_path / "double.fmu")
    system.add("double", pd, start={"u": 0.0})
    peer, listen = free_ports(2)
    ports = [Port("y")], [Port("u")]
    link = UdpLink(*ports, peer=peer, listen=listen, lock_step=True, timeout=20.0)
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
def test_fmu_error_ends_a_generated_program_with_a_report(step, said, ended, tmp_path):
    system = System()
    fmu = foreign_fmu(tmp_path / "bad.fmu", step=step)
    system.add("part", fmu)
    code, report, reported = ran(build_runner(system, tmp_path / "bad", DT), "--stop", "0.02")
    assert report["ended"].startswith(ended)
    assert said in reported
    if "gave status" in said:
        assert "'part'" in reported
        assert "at t = 0.002 s" in reported
    assert (code, report["steps"]) == ((0, 20) if ended == "at its end" else (1, 3))
    assert reported.count("\n") <= 10
    ends = calls(fmu)[-2:]
    if "fatal" in said:  # FMI permits no call after a fatal error
        assert ends == ["step", "step"]
    else:
        assert ends == ["step" if "error" in said else "terminate", "free"]


@pytest.mark.slow
def test_generated_program_reports_a_noninteger_value_for_an_integer_fmu_input(tmp_path):
    variables = (("m", "input", 0, "Integer"), ("n", "output", 1, "Integer"))
    system = System()
    system.add("part", foreign_fmu(tmp_path / "whole.fmu", step="", variables=variables))
    system.add("sine", Sine(amplitude=1.0, frequency=1.0))
    system.connect("sine.y", "part.m")
    code, _, reported = ran(build_runner(system, tmp_path / "whole", DT), "--stop", "0.02")
    assert code == 1
    assert "'part': an input of type Integer cannot be 0.0062" in reported


@pytest.mark.slow
def test_generated_program_finds_its_fmu_files_after_a_move_and_reports_missing_files(tmp_path):
    system = System()
    system.add("part", any_fmu(tmp_path, RESOURCE, 3, y="z"))
    program = build_runner(system, tmp_path / "made" / "with file", DT)
    moved = tmp_path / "m\u00f6ved %20"
    program.parent.rename(moved)
    record = tmp_path / "run.csv"
    code, _, reported = ran(moved / program.name, "--stop", "0.01", "--record", record)
    assert (code, reported) == (0, "")
    assert recorded(record)[1][-1, 1] == ord("z")
    (moved / "with file.fmus").rename(moved / "other")
    code, report, reported = ran(moved / program.name, "--stop", "0.01")
    assert (code, report["ended"]) == (1, "a part has failed")
    assert "'part' does not load: " in reported


@pytest.mark.slow
def test_generated_programs_with_similar_names_use_separate_fmu_folders(tmp_path):
    programs = {}
    for name, y in (("two words", "a"), ("two_words", "b")):
        system = System()
        system.add("part", any_fmu(tmp_path, RESOURCE, 3, y=y))
        programs[y] = build_runner(system, tmp_path / "made" / name, DT)
    for y, program in programs.items():
        record = tmp_path / "run.csv"
        assert ran(program, "--stop", "0.01", "--record", record)[0] == 0
        assert recorded(record)[1][-1, 1] == ord(y)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plant", "two words, $b (1)"])
def test_cmake_build_of_a_generated_program_copies_its_fmus(name, tmp_path):
    for command in ("cmake", "make"):
        if shutil.which(command) is None:
            pytest.skip(f"{command} is not installed")
    system = System()
    system.add("part", any_fmu(tmp_path, RESOURCE, 3, y="z"))
    folder = build_runner(system, tmp_path / name, DT, platform="source")
    build, record = tmp_path / "build", tmp_path / "run.csv"
    for command in (["cmake", "-S", folder, "-B", build], ["cmake", "--build", build]):
        subprocess.run(command, check=True, capture_output=True)
    assert ran(build / cmake_name(name), "--stop", "0.01", "--record", record)[0] == 0
    assert recorded(record)[1][-1, 1] == ord("z")


@pytest.mark.slow
def test_xcp_sets_fmu_parameters_while_a_generated_program_runs(tmp_path):
    """XCP sets the values; the run equals `simulate` with the same changes at the same steps."""
    system = controlled(tmp_path)
    ball = replace(BOUNCING_BALL, attributes=EVENTS)
    system.add("ball", any_fmu(tmp_path, ball, 3), start={"h": 9.0})
    system.add("count", any_fmu(tmp_path, FEEDTHROUGH, 2))
    (address,) = free_ports(1)
    program = build_runner(system, tmp_path / "tuned", DT, xcp=address.partition(":")[2])
    places = addresses_in(program.with_suffix(".a2l").read_text())
    assert "count.Float64_input" in places
    assert "count.Int32_input" not in places  # an XCP tool could write a noninteger value
    signals = ["robot.q[1]", "pd.tau[2]", "ball.h", "ball.v"]
    rows = tuned(program, address, places, [*signals, "pd.kp", "ball.g"])
    steps = np.rint(rows[:, 0] / DT).astype(int)
    scenario = {}
    for k, (name, value) in enumerate((("pd.kp", 2500.0), ("ball.g", -1.62)), 1 + len(signals)):
        first = int(np.argmax(rows[:, k] == value))  # row at the end of the first step with it
        scenario[name] = [(0.0, rows[0, k]), ((steps[first] - 1) * DT, value)]
    tried = prepared(system, scenario, steps[-1])
    for k, name in enumerate(signals, 1):
        assert_array_equal(rows[:, k], [tried[step][name] for step in steps])


def tuned(program, address, places, names):
    """Return the times and signals of a program while XCP changes two parameters."""
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
            process.communicate(timeout=60)
    return np.array(master.rows())


def prepared(system, scenario, n):
    """Return the values of a prepared run with the changes of a scenario, by step."""
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
def test_program_generation_rejects_unsupported_fmus(tmp_path):
    def refused(error, match, fmu, **options):
        system = System()
        system.add("part", fmu, **options)
        with pytest.raises(error, match=match):
            build_runner(system, tmp_path / "never", DT, platform=options.pop("platform", None))
        assert not list(tmp_path.glob("never*"))

    ball = any_fmu(tmp_path, BOUNCING_BALL, 2)
    refused(ValueError, "'part' is isolated, but a runner is a single process", ball, isolated=True)
    refused(ValueError, "'part' is a model exchange FMU", ball, kind="model exchange")
    tool = foreign_fmu(tmp_path / "tool.fmu", attributes='needsExecutionTool="true"')
    refused(ValueError, r"'part' needs its tool .* at run time", tool)
    ticks = any_fmu(tmp_path, TICKS, 3)
    refused(ValueError, "'part': its clock fixed has no interval; .*'fixed': 0.01", ticks)


@pytest.mark.slow
def test_generated_program_sets_the_sizes_of_fmu_arrays(tmp_path):
    """The response of x' = -x + u to a constant u is u (1 - exp(-t))."""
    system, u = System(), np.array([0.5, -1.0])
    start = {"m": 2, "n": 2, "r": 2, "u": u, "x": np.zeros(2)}
    start |= {name: np.eye(2) for name in "BC"} | {"A": -np.eye(2), "D": np.zeros((2, 2))}
    fmu = any_fmu(tmp_path, RESIZABLE, 3)
    system.add("part", fmu, start=start)
    system.add("declared", fmu)
    program, record = build_runner(system, tmp_path / "sized", 0.1), tmp_path / "run.csv"
    code, _, said = ran(program, "--stop", "1", "--rate", "0", "--record", record)
    assert (code, said) == (0, "")
    names, rows = recorded(record)
    assert names[1:] == [f"part.y[{k}]" for k in (1, 2)] + [f"declared.y[{k}]" for k in (1, 2, 3)]
    result = simulate(system, 1.0, 0.1, progress=False)
    assert_array_equal(rows[:, 1:], result.values.astype(float))
    assert_allclose(rows[-1, 1:3], u * (1 - np.exp(-1.0)), rtol=1e-3)


def test_program_generation_rejects_a_connection_with_a_value_table(tmp_path):
    variables = (("n", "input", 0, "Integer"), ("y", "output", 1, "Integer"))
    fmu, system = foreign_fmu(tmp_path / "count.fmu", variables=variables), System()
    for name in "ab":
        system.add(name, fmu)
    table = Conversion(np.ones(1), np.zeros(1), ((1.0, 2.0),))
    system.connect("a.y", "b.n", conversion=table)
    with pytest.raises(ValueError, match=r"from a\.y to b\.n maps values with a lookup table"):
        build_runner(system, tmp_path / "never", DT)
    assert not list(tmp_path.glob("never*"))


@pytest.mark.slow
def test_program_generation_rejects_an_fmu_without_a_binary_for_the_platform(tmp_path):
    system = System()
    system.add("part", any_fmu(tmp_path, VAN_DER_POL, 3))
    with pytest.raises(FmuError, match="has no binary for aarch64-linux; it has: x86_64-linux"):
        build_runner(system, tmp_path / "never", DT, platform="aarch64-linux")
    assert not list(tmp_path.glob("never"))


# initialization


def started(system, folder):
    """Return the recorded columns of a short run of the program, by name."""
    program = build_runner(system, folder / "started", 0.1)
    record = folder / "started.csv"
    code, _, said = ran(program, "--stop", "0.3", "--rate", "0", "--record", record)
    assert (code, said) == (0, "")
    names, rows = recorded(record)
    return dict(zip(names, rows.T, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(("n", "kinds"), [(3, KINDS[:3]), (12, KINDS[1:3])])
def test_initial_values_of_a_linear_network_in_a_generated_program_solve_its_equations(
    n, kinds, tmp_path
):
    network = random_network(n, n, kinds)
    error = network.error(started(network.system(tmp_path), tmp_path))
    assert error < 1e-12 * np.abs(network.outputs).max()


@pytest.mark.slow
def test_generated_program_sets_fmu_inputs_before_reading_outputs(tmp_path):
    model = AnyModel(
        "inverse",
        [
            Variable("u", 1, "input", start=(0.0,)),
            Variable("y", 2, "output", start=(1.0,)),
            Variable("z", 3, "output"),
        ],
        motion="if (m->v[1][0] != 0) m->v[3][0] = 1 / m->v[1][0];",
        refuses="return r == 3 && m->v[1][0] == 0;",
        dependencies={2: [], 3: [1]},
        start_dependencies={3: [1]},
    )
    system = System()
    for name in "ab":
        system.add(name, any_fmu(tmp_path, model, 2), kind="co-simulation")
    system.connect("a.y", "b.u")
    system.connect("b.z", "a.u")
    found = started(system, tmp_path)
    assert all((found[name] == 1.0).all() for name in ("a.y", "a.z", "b.z"))


@pytest.mark.slow
def test_generated_program_reports_the_signals_of_an_unsolvable_initialization(tmp_path):
    system = System()
    for name, text in (("a", "1 + 2 * u"), ("b", "u")):
        model = AnyModel(
            name,
            [Variable("u", 1, "input", start=(1.0,)), Variable("y", 2, "output")],
            motion=f"const double u = (double)m->v[1][0]; m->v[2][0] = {text};",
        )
        system.add(name, any_fmu(tmp_path, model, 2), kind="co-simulation")
    system.connect("a.y", "b.u")
    system.connect("b.y", "a.u")
    code, _, said = ran(build_runner(system, tmp_path / "loop", 0.1), "--stop", "0.1")
    assert code != 0
    assert "did not converge in 20 iterations: a.y, b.y still change" in said
