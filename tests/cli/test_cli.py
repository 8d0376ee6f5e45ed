"""The command: what it loads, its exit codes, and JSON for programs."""

import json
import re
import runpy
import subprocess
import sys

import numpy as np
import pytest
from fmpy import simulate_fmu
from numpy.testing import assert_allclose

from any_models import FEEDTHROUGH, any_fmu
from planar2ctrl import REFERENCE
from rigidblocks import load_model, simulate
from rigidblocks.cli import main
from urdf_text import ARM

VARIED = ["--vary", "robot.qd[1]=0,1", "--measure", "last robot.q[1]"]
COMMANDS = (
    "check",
    "convert",
    "demo",
    "doctor",
    "fmu",
    "info",
    "new",
    "page",
    "plot",
    "run",
    "view",
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "arm.urdf").write_text(ARM)
    return tmp_path


def test_help_names_every_command_and_loads_no_library():
    program = "import sys; from rigidblocks.cli import main; main(['--help']); " + (
        "assert not {'numpy', 'casadi', 'fmpy', 'lxml'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    named = [line.split()[0] for line in done.stdout.partition("Commands:")[2].splitlines()[1:]]
    assert set(COMMANDS) <= set(named)


@pytest.mark.usefixtures("folder")
def test_the_package_is_the_command():
    command = [sys.executable, "-m", "rigidblocks", "info", "arm.urdf", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    assert told["name"] == "arm"
    assert [body["joint"] for body in told["bodies"]] == ["shoulder", "elbow"]
    assert told["freedoms"] == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["info"],
        ["nothing"],
        ["info", "none.urdf"],
        ["run", "none.py"],
        ["run", "none.fmu"],
        ["run", "arm.urdf", "--dt", "0"],
        ["run", "arm.urdf", "--extrapolate", "3"],
        ["run", "arm.urdf", "--order", "newton"],
        ["run", "arm.urdf", "--step-min", "0.1"],
        ["info", "none.fmu"],
        ["plot", "none.csv"],
        ["fmu", "arm.urdf", "arm.urdf", "-o", "a.fmu"],
        ["fmu", "arm.urdf", "--frames", "nothing"],
        ["fmu", "arm.urdf", "--controller", "pd", "--floating"],
        ["fmu", "arm.urdf", "--method", "best"],
        ["new", "my block"],
    ],
    ids=" ".join,
)
def test_what_cannot_be_used_is_told_with_exit_code_2(arguments, folder, capsys):
    assert main(arguments) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in error
    assert error
    assert [path.name for path in folder.iterdir()] == ["arm.urdf"]


def test_a_missing_file_and_a_missing_package_of_a_script_are_told_with_their_names(folder, capsys):
    assert main(["run", "arm.urdf", "--scenario", "none.csv"]) == 2
    assert capsys.readouterr().err.endswith("rigidblocks: none.csv: no such file or directory\n")
    (folder / "asks.py").write_text("import no_such_package\nsystem = None\n")
    assert main(["run", "asks.py"]) == 2
    said = f"asks.py: No module named 'no_such_package'; install it for {sys.executable}"
    assert capsys.readouterr().err == f"rigidblocks: {said}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["check", "none.fmu"], "there is no FMU none.fmu"),
        (["info", "none.fmu"], "there is no FMU none.fmu"),
        (["info", "a.py"], "a.py: this is a script; a robot is a URDF file"),
        (["runner", "arm.urdf", "-o", "."], "a program needs a name, such as plant, not '.'"),
    ],
)
def test_what_was_given_is_told(folder, capsys, arguments, said):
    (folder / "a.py").write_text("system = None\n")
    assert main(arguments) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"rigidblocks: {said}"


def test_an_error_in_a_script_is_told_with_its_line(folder, capsys):
    (folder / "wrong.py").write_text(
        "from rigidblocks import PDController, System\n"
        "system = System()\n"
        "system.add('pd', PDController(kp=[-1.0], kd=[1.0]))\n"
    )
    assert main(["run", "wrong.py"]) == 2
    first, second = capsys.readouterr().err.splitlines()[:2]
    assert "kp[1] is -1 N.m/rad" in first
    assert second == "in wrong.py, line 3"


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("given", [[], ["--resistance"], ["--stops", "1e4,50"]], ids=" ".join)
def test_what_a_robot_is_asked_for_and_has_not_is_told(folder, capsys, given):
    dry = re.sub("<(dynamics|limit)[^>]*>", "", ARM)
    (folder / "dry.urdf").write_text(dry.replace('"revolute"', '"continuous"'))
    asked = {"--resistance": "dry friction for --resistance", "--stops": "limits for --stops"}
    assert main(["fmu", "dry.urdf", "--target", "source", *given]) == 0
    said = capsys.readouterr().err
    assert [name for name, text in asked.items() if text in said] == given[:1]


@pytest.mark.usefixtures("folder")
def test_a_run_of_a_robot_says_that_its_friction_is_left_out(capsys):
    assert main(["run", "arm.urdf", "--stop", "0.002"]) == 0
    assert "dry friction are left out; the FMU that" in capsys.readouterr().err


def test_a_run_ends_with_texts_as_texts(folder, capsys):
    assert main(["run", str(any_fmu(folder, FEEDTHROUGH, 3)), "--stop", "0.1", "--json"]) == 0
    end = json.loads(capsys.readouterr().out)["end"]
    texts = {name: value for name, value in end.items() if isinstance(value, str)}
    assert texts == {
        "Feedthrough_3.String_output": "none",
        "Feedthrough_3.Binary_output": b"none".hex(),
    }


def test_a_run_that_fails_has_exit_code_1(folder, capsys):
    (folder / "far.py").write_text(
        "from rigidblocks import RobotPlant, System, planar2\n"
        "system = System()\n"
        "system.add('robot', RobotPlant(planar2(), qd0=[1e9, -1e9]))\n"
    )
    assert main(["run", "far.py", "--stop", "10", "--dt", "1"]) == 1
    assert "robot" in capsys.readouterr().err


@pytest.mark.slow
def test_couplings_are_those_of_simulate(folder, capsys):
    (folder / "wired.py").write_text(
        "from rigidblocks import PDController, RobotPlant, System, planar2\n"
        "system = System()\n"
        "system.add('robot', RobotPlant(planar2(), q0=[0.1, 0.2]))\n"
        "system.add('pd', PDController([9.0, 9.0], [1.0, 1.0]), start={'q_ref': [0.0, 0.5]})\n"
        "for a, b in (('robot.q', 'pd.q'), ('robot.qd', 'pd.qd'), ('pd.tau', 'robot.tau')):\n"
        "    system.connect(a, b)\n"
    )
    system = runpy.run_path(str(folder / "wired.py"))["system"]
    how = ["run", "wired.py", "--stop", "0.1", "--dt", "0.02", "--json"]
    for given, options in (
        (["--newton"], {"iterate": "newton"}),
        (["--order", "jacobi", "--extrapolate", "2"], {"order": "jacobi", "extrapolate": 2}),
        (
            ["--iterate", "--step-tol", "0.1", "--step-min", "0.001"],
            {"iterate": True, "step_tol": 0.1, "step_min": 0.001},
        ),
        (["--bonds"], {"bonds": True}),
        (["--transparent"], {"transparent": True}),
    ):
        assert main(how + given) == 0
        told = json.loads(capsys.readouterr().out)
        result = simulate(system, 0.1, 0.02, progress=False, **options)
        assert told["end"] == dict(zip(result.columns, result.values[-1].tolist(), strict=True))
        assert told.get("coupling") == json.loads(result.meta.get("coupling", "null"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "command", "extra"),
    [
        ("pyarrow", ["run", "robot.py", "-o", "run.parquet"], "data"),
        ("pyarrow", ["run", "robot.py", "-o", "run.arrow"], "data"),
        ("pyarrow", ["convert", "run.csv", "run.parquet"], "data"),
        ("asammdf", ["run", "robot.py", "-o", "run.mf4"], "mdf"),
        ("yaml", ["run", "robot.py", "--require", "keep.yaml"], "yaml"),
        ("yaml", ["run", "robot.py", "--scenario", "told.yaml"], "yaml"),
        ("matplotlib", ["plot", "run.csv"], "plot"),
        ("xarray", ["sweep", "robot.py", *VARIED, "-o", "runs.nc"], "dataset"),
    ],
)
def test_a_package_that_is_missing_has_exit_code_2_and_its_extra(
    folder, monkeypatch, capsys, package, command, extra
):
    (folder / "robot.py").write_text(
        "from rigidblocks import RobotPlant, System, planar2\n"
        "system = System()\n"
        "system.add('robot', RobotPlant(planar2()))\n"
    )
    assert main(["run", "robot.py", "--stop", "0.002", "-o", "run.csv"]) == 0
    for path in ("keep.yaml", "told.yaml"):
        (folder / path).write_text("{}")
    capsys.readouterr()
    loaded = [name for name in sys.modules if name.partition(".")[0] == package]
    for name in {package, *loaded}:
        monkeypatch.setitem(sys.modules, name, None)
    assert main(command) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("rigidblocks: ")
    assert f"pip install 'rigidblocks[{extra}]'" in line


@pytest.mark.usefixtures("folder")
def test_a_new_block_runs_as_it_is(capsys):
    assert main(["new", "first_try", "--json"]) == 0
    files = json.loads(capsys.readouterr().out)["files"]
    assert files == ["first_try_fmu.py", "first_try_system.py"]
    assert main(["new", "first_try"]) == 2
    assert "is not overwritten" in capsys.readouterr().err
    assert main(["run", files[1], "--json"]) == 0
    end = json.loads(capsys.readouterr().out)["end"]
    assert end["first_try.y"] == pytest.approx(1 - np.exp(-10), abs=1e-6)


@pytest.mark.slow
def test_the_demo_follows_its_command(folder, capsys):
    assert main(["demo", "--json", "--stop", "1", "-o", "demo.csv"]) == 0
    end = json.loads(capsys.readouterr().out)["end"]
    seen = [end[name] for name in ("robot.q[1]", "robot.q[2]", "robot.qd[1]", "robot.qd[2]")]
    assert_allclose(seen[:2], REFERENCE[1.0][:2], atol=1e-3)
    assert_allclose(seen[2:], REFERENCE[1.0][2:], atol=1e-2)
    assert main(["plot", "demo.csv", "--signals", "robot.q,pd.tau"]) == 0
    assert (folder / "demo.png").stat().st_size > 1000


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_a_controller_and_frames_can_be_inside(capsys):
    arguments = ["--controller", "pd", "--frames", "lower"]
    assert main(["fmu", "arm.urdf", "-o", "arm.fmu", *arguments]) == 0
    result = simulate_fmu(
        "arm.fmu",
        stop_time=5.0,
        output_interval=0.1,
        start_values={"pd.q_ref[1]": 0.3, "robot.gravity[3]": 0.0},
        output=["robot.q[1]", "robot.q[2]", "frames.p_lower[1]"],
    )
    assert abs(result["robot.q[1]"][-1] - 0.3) < 1e-3
    assert abs(result["robot.q[2]"][-1]) < 1e-3
    capsys.readouterr()


@pytest.mark.usefixtures("folder")
def test_a_robot_is_converted_to_nothing_but_json(capsys):
    assert main(["convert", "arm.urdf", "arm.yaml"]) == 2
    assert "'arm.yaml' must end in .json for a robot, for a" in capsys.readouterr().err


@pytest.mark.usefixtures("folder")
def test_a_robot_is_converted_to_json(capsys):
    assert main(["convert", "arm.urdf", "arm.json"]) == 0
    assert capsys.readouterr().out == "arm.json\n"
    assert load_model("arm.json").model.joint_names == load_model("arm.urdf").model.joint_names
