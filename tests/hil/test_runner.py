"""Generated programs that run a system without Python: results equal `simulate`, in real time."""

import csv
import json
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import rigidblocks
from planar2ctrl import parts, wired
from rigidblocks import Port, PythonBlock, System, build_runner, prepare, simulate
from rigidblocks.cli import main
from rigidblocks.common.compiler import compiler
from rigidblocks.library import TransferFunction

DT = 1e-3


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return build_runner(wired(parts()), tmp_path_factory.mktemp("runner") / "planar2ctrl", DT)


def run(program, *options):
    done = subprocess.run([program, *options], capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout.removeprefix("ready\n") or "{}"), done.stderr


def recorded(path):
    with open(path) as file:
        names, *rows = csv.reader(file)
    return names, np.array(rows, float)


def test_generated_program_matches_the_results_of_simulate_bit_for_bit(program, tmp_path):
    path = tmp_path / "run.csv"
    code, report, said = run(program, "--stop", "2", "--rate", "0", "--record", path)
    assert (code, said, report["steps"], report["ended"]) == (0, "", 2000, "at its end")
    names, rows = recorded(path)
    result = simulate(wired(parts()), 2.0, DT, progress=False)
    assert_array_equal(rows[:, 0], result.time)
    assert sorted(names[1:]) == sorted(result.columns)
    for k, name in enumerate(names[1:], 1):
        assert_array_equal(rows[:, k], result.values[:, list(result.columns).index(name)])
    assert np.ptp(rows[:, 1:], axis=0).max() > 1


@pytest.mark.slow
def test_generated_program_runs_in_real_time_and_reports_its_step_times(program, tmp_path):
    began = time.monotonic()
    path = tmp_path / "report.json"
    code, _, _ = run(program, "--stop", "0.3", "--rate", "0.5", "--empty", "2", "--report", path)
    assert code == 0
    assert time.monotonic() - began >= 0.59
    report = json.loads(path.read_text())
    assert (report["steps"], report["dt"], report["rate"]) == (300, DT, 0.5)
    assert report["seconds"] > 0.59
    assert report["empty section (us)"]["median"] > 1
    for times in (report[f"{what} (us)"] for what in ("step", "start after due", "empty section")):
        assert 0 <= times["median"] <= times["p99"] <= times["p99.9"] <= times["max"]
        assert sum(times["octaves"]) == 300
    assert report["step (us)"]["median"] > 0


@pytest.mark.parametrize(("option", "code"), [("--help", 0), ("-h", 0), ("--halp", 2)])
def test_generated_program_exits_with_0_for_the_help_option_and_not_for_an_unknown_option(
    program, option, code
):
    done = subprocess.run([program, option], capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert "usage: " in (done.stderr if code else done.stdout)
    assert not (done.stdout if code else done.stderr)


def test_generated_program_decimates_its_record_and_ends_on_a_termination_signal(program, tmp_path):
    path = tmp_path / "run.csv"
    run(program, "--stop", "0.1", "--rate", "0", "--every", "10", "--record", path)
    assert_array_equal(recorded(path)[1][:, 0], np.arange(11) * 10 * DT)
    endless = subprocess.Popen([program], stdout=subprocess.PIPE, text=True)
    time.sleep(0.3)
    endless.send_signal(signal.SIGTERM)
    report = json.loads(endless.communicate(timeout=60)[0].removeprefix("ready\n"))
    assert report["ended"] == "by a signal"
    assert report["steps"] > 0


@pytest.mark.slow
def test_generated_program_handles_missed_deadlines_according_to_its_overrun_option(tmp_path):
    """Steps of 100 ns always miss their deadlines: the program catches up, skips steps, or ends."""
    system = System()
    system.add("lag", TransferFunction([1.0], [1.0, 1.0]), start={"u": 1.0})
    program = build_runner(system, tmp_path / "lag", 1e-7)
    code, report, _ = run(program, "--stop", "1e-4")
    assert (code, report["steps"]) == (0, 1000)
    assert report["missed deadlines"] > 0
    assert report["skipped steps"] == 0
    code, report, _ = run(program, "--stop", "1e-4", "--overrun", "skip")
    assert (code, report["steps"]) == (0, 1000)
    assert report["skipped steps"] >= report["missed deadlines"] > 0
    code, report, _ = run(program, "--stop", "1e-4", "--overrun", "stop")
    assert code == 1
    assert report["missed deadlines"] == 1


def test_generated_program_rejects_invalid_command_line_options(program, tmp_path):
    for options in (["--stop", "x"], ["--every", "0"], ["--overrun", "pray"], ["--nothing"], ["x"]):
        code, report, said = run(program, *options)
        assert (code, report) == (2, {})
        assert "usage:" in said
    code, _, said = run(program, "--record", tmp_path / "no" / "run.csv")
    assert code == 2
    assert "No such file" in said


def test_generated_program_warns_if_it_cannot_run_on_the_requested_processor(program):
    code, _, said = run(program, "--stop", "0.01", "--fifo", "1", "--cpu", "4000")
    assert code == 0
    assert "cannot stay on processor 4000" in said


def test_generated_program_links_only_to_the_c_library(program):
    if shutil.which("ldd") is None:
        pytest.skip("ldd is not installed")
    text = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    names = {line.split()[0].rpartition("/")[2].split(".")[0] for line in text.splitlines() if line}
    assert names <= {
        "linux-vdso",
        "libm",
        "libc",
        "libpthread",
        "ld-linux-x86-64",
        "ld-linux-aarch64",
    }


def test_program_generation_rejects_unsupported_systems(tmp_path):
    system = wired(parts())
    system.add("net", PythonBlock(lambda u: u, [Port("u", start=0.0)], [Port("y")]))
    with pytest.raises(ValueError, match="a runner does not support Python parts; replace 'net'"):
        build_runner(system, tmp_path / "p", DT)
    with pytest.raises(ValueError, match="unknown platform 'vax'"):
        build_runner(wired(parts()), tmp_path / "p", DT, platform="vax")
    assert not (tmp_path / "p").exists()


@pytest.mark.slow
def test_runner_command_builds_a_program(tmp_path, capsys):
    script = tmp_path / "wave.py"
    script.write_text(
        "from rigidblocks import Sine, System\nsystem = System()\n"
        'system.add("wave", Sine(amplitude=2.0, frequency=0.25))\n'
    )
    out = tmp_path / "wave"
    assert main(["runner", str(script), "-o", str(out), "--dt", "0.01"]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    assert run(out, "--stop", "1", "--rate", "0")[1]["steps"] == 100


@pytest.mark.slow
def test_generated_program_sources_build_with_cmake(tmp_path):
    for command in ("cmake", "make"):
        if shutil.which(command) is None:
            pytest.skip(f"{command} is not installed")
    folder = build_runner(wired(parts()), tmp_path / "arm", DT, platform="source")
    build = tmp_path / "build"
    for command in (["cmake", "-S", folder, "-B", build], ["cmake", "--build", build]):
        subprocess.run(command, check=True, capture_output=True)
    assert run(build / "arm", "--stop", "0.5", "--rate", "0")[1]["steps"] == 500


@pytest.mark.interop
def test_step_function_of_a_generated_program_compiles_for_a_bare_metal_processor(tmp_path):
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed")
    folder = build_runner(wired(parts()), tmp_path / "arm", DT, platform="source")
    flags = ("-mcpu=cortex-m7", "-mfpu=fpv5-d16", "-mfloat-abi=hard", "-std=c99", "-O2", "-Werror")
    command = [
        "arm-none-eabi-gcc",
        *flags,
        "-Wall",
        "-Wextra",
        "-c",
        "bare_metal_step.c",
        "-o",
        "core.o",
    ]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    names = subprocess.run(
        ["arm-none-eabi-nm", "--undefined-only", "core.o"],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert {"sin", "cos"} <= set(names)
    assert not {"malloc", "free", "printf", "clock_gettime"} & set(names)


@pytest.mark.interop
def test_generated_program_has_equal_results_on_an_emulated_arm_processor_and_on_the_host(
    program, tmp_path
):
    if shutil.which("qemu-aarch64") is None:
        pytest.skip("qemu-aarch64 is not installed (Debian's qemu-user)")
    other = build_runner(wired(parts()), tmp_path / "arm", DT, platform="aarch64-linux")
    paths = tmp_path / "here.csv", tmp_path / "there.csv"
    options = ["--stop", "1", "--rate", "0", "--record"]
    launcher = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"]
    subprocess.run([program, *options, paths[0]], check=True, capture_output=True)
    subprocess.run([*launcher, other, *options, paths[1]], check=True, capture_output=True)
    (names, here), (same, there) = map(recorded, paths)
    assert names == same
    assert_allclose(there, here, rtol=1e-12, atol=1e-12)


SCENARIO = """time, "pd.kp[1]" , pd.kd
0,,20
0.0105,500,

0.1,  700.5 ,15
0.1,,16.25
5,1,1
"""


def test_scenario_of_a_generated_program_gives_the_results_of_simulate(program, tmp_path):
    scenario, path = tmp_path / "scenario.csv", tmp_path / "run.csv"
    scenario.write_text(SCENARIO)
    command = ["--stop", "0.3", "--rate", "0", "--record", path, "--scenario", scenario]
    code, _, said = run(program, *command)
    assert (code, said) == (0, "")
    names, rows = recorded(path)
    result = simulate(wired(parts()), 0.3, DT, scenario=scenario, progress=False)
    fixed = simulate(wired(parts()), 0.3, DT, progress=False)
    assert np.abs(result.values[-1] - fixed.values[-1]).max() > 1e-3
    for k, name in enumerate(names[1:], 1):
        assert_array_equal(rows[:, k], result.values[:, list(result.columns).index(name)])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("t,pd.kp\n0,1\n", "cannot set 't'; the program has command.table[1,1]"),
        ("pd.kp\n1\n", "needs a column 'time'"),
        ("time,pd.kp\n0,x\n", "line 2 of the scenario: unexpected cell 'x'"),
        ("time,pd.kp\n0,1,2\n", "line 2 of the scenario: unexpected cell '2'"),
        ("time,pd.kp\n1,1\n0,1\n", "line 3 of the scenario needs 2 cells, and a time that does"),
        ("time,pd.kp\n1,\n0,1\n", "line 3 of the scenario needs 2 cells, and a time that does"),
        ("time,pd.kp\n", "has no row with a time"),
        ("time,pd.kp,time\n0,1,2\n", "the first line of the scenario contains 'time' twice"),
        ("time,pd.kp\n0,nan\n", "pd.kp[1] must be from"),
        ("time,robot.tau\n0,1\n", "cannot set 'robot.tau'"),
    ],
)
def test_generated_program_rejects_invalid_scenarios(program, tmp_path, text, message):
    (tmp_path / "scenario.csv").write_text(text)
    options = ["--stop", "0.001", "--scenario", tmp_path / "scenario.csv"]
    code, report, said = run(program, *options)
    assert (code, report) == (2, {})
    assert message in said


@pytest.fixture(scope="module")
def prepared():
    return prepare(wired(parts()), DT)


MARK = "\ufeff"  # byte-order mark


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("time,pd.kp[1]\n0,100\n", True),
        (MARK + "time,pd.kp[1]\r\n0,100\r\n", True),
        (MARK + '"time","pd.kp[1]"\n0,100\n', True),
        ("pd.kp[1],time\n100,0\n", True),
        ("time,pd.kp,pd.kp[1]\n0,100,90\n", True),
        ("time\n0\n", True),
        ("\ntime,pd.kp[1]\n\n,\n0,100\n , \n", True),
        ("time,pd.kp[1]\n0,\n0,1\n", True),
        ("time,pd.kp[1]\n1e-3,+1.5e2\n", True),
        ("", False),
        (MARK, False),
        ("time,pd.kp[1]\n", False),
        ("time,pd.kp[1]\n\n,\n", False),
        ("time,time\n0,0\n", False),
        ("time,pd.kp[1],time\n0,100,1\n", False),
        ("time,pd.kp[1],pd.kp[1]\n0,100,100\n", False),
        ("time,pd.kp[1]\n0.002,\n0.001,100\n", False),
        ("time,pd.kp[1]\n0.002,90\n0.001,\n", False),
        ("time,pd.kp[1]\n0.002,\n0.001,\n0.003,100\n", False),
        ("time,pd.kp[1]\n,100\n", False),
        ("time,pd.kp[1]\nnan,100\n", False),
        ("time,pd.kp[1]\ninf,100\n", False),
        ("time,pd.kp[1]\n0,inf\n", False),
        ("time,pd.kp[1]\n0,nan\n", False),
        ("time,pd.kp[1]\n0,0x10\n", False),
        ("time,pd.kp[1]\n0,1_0\n", False),
        ("time,pd.kp[1]\n0\n", False),
        ("time,pd.kp[1]\n0,1,\n", False),
        ("time,pd.kp[1]\n0,1 2\n", False),
        ("time,pd.kp[1],pd.kq\n0,1,2\n", False),
        ("time,pd.kp,pd.kp[1],pd.kp[2],pd.kd,pd.kd[1],pd.kd[2]\n0,9,8,7,6,5,4\n", True),
    ],
)
def test_generated_program_and_simulate_accept_the_same_scenario_files(
    program, prepared, tmp_path, text, accepted
):
    scenario, path = tmp_path / "scenario.csv", tmp_path / "run.csv"
    scenario.write_bytes(text.encode())
    command = ["--stop", "0.005", "--rate", "0", "--record", path, "--scenario", scenario]
    code, _, said = run(program, *command)
    try:
        result = prepared.simulate(0.005, scenario=scenario, progress=False)
    except (KeyError, ValueError):
        result = None
    assert (code == 0, result is not None) == (accepted, accepted), said
    assert bool(said) != accepted
    if result is not None:
        names, rows = recorded(path)
        for k, name in enumerate(names[1:], 1):
            assert_array_equal(rows[:, k], result.values[:, list(result.columns).index(name)])


def test_scenario_with_200_unknown_columns_is_rejected_with_a_message(program, tmp_path):
    path = tmp_path / "scenario.csv"
    names = ",".join(f"x{k}" for k in range(200))
    path.write_text(f"time,{names}\n0,{names}\n")
    code, _, said = run(program, "--stop", "0.001", "--scenario", path)
    assert code == 2
    assert "the scenario cannot set 'x0'; the program has command.table" in said


def test_program_without_inputs_and_parameters_rejects_a_scenario_that_sets_values(tmp_path):
    (tmp_path / "main.c").write_text(
        '#include "scenario.h"\n'
        "int main(int n, char **options)\n"
        "{\n"
        "    static const Settable settable[] = {{0}};\n"
        "    Scenario scenario = {0};\n"
        "    return n == 2 && rb_scenario_read(&scenario, options[1], settable, 0) == 0 ? 0 : 2;\n"
        "}\n"
    )
    path = tmp_path / "main"
    include = Path(rigidblocks.__file__).parent / "c/runner"
    command = [*compiler(), f"-I{include}", tmp_path / "main.c", "-o", path, "-lm"]
    subprocess.run(command, check=True)
    for text, code, message in (
        ("time,pd.kp\n0,1\n", 2, "cannot set 'pd.kp'; the program has no inputs and parameters"),
        ("pd.kp,time\n0,1\n", 2, "cannot set 'pd.kp'; the program has no inputs and parameters"),
        ("time,time\n0,1\n", 2, "contains 'time' twice"),
        ("time\n0\n", 0, ""),
    ):
        (tmp_path / "scenario.csv").write_text(text)
        done = subprocess.run(
            [path, tmp_path / "scenario.csv"], capture_output=True, text=True, check=False
        )
        assert done.returncode == code
        assert message in done.stderr
