"""Command line: loaded modules, help, exit codes, and JSON output."""

import inspect
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
from rigidblocks.cli.fmu import fmu
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


def test_help_lists_every_command_and_imports_no_library():
    program = "import sys; from rigidblocks.cli import main; main(['--help']); " + (
        "assert not {'numpy', 'casadi', 'fmpy', 'lxml'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    named = [line.split()[0] for line in done.stdout.partition("Commands:")[2].splitlines()[1:]]
    assert set(COMMANDS) <= set(named)


def test_fmu_command_help_lists_each_option_exactly_once(capsys):
    assert main(["fmu", "--help"]) == 0
    groups = dict(re.findall(r"^(\w+):\n((?:  .*\n|\n(?=  ))+)", capsys.readouterr().out, re.M))
    del groups["Arguments"]
    options = {
        name: re.findall(r"^  (?:-\w, )?--([\w-]+)", text, re.M) for name, text in groups.items()
    }
    assert list(options) == ["Options", "Robot", "Policy", "Integration", "Archive", "Metadata"]
    assert {"output", "target", "fmi", "name"} <= set(options["Options"])
    assert len(options["Options"]) <= 10
    listed = [option for group in options.values() for option in group]
    assert len(listed) == len(set(listed))
    parameters = set(inspect.signature(fmu).parameters) - {"files", "as_json"}
    assert set(listed) == {name.replace("_", "-") for name in parameters} | {"json", "help"}


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_python_m_rigidblocks_runs_the_command():
    command = [sys.executable, "-m", "rigidblocks", "info", "arm.urdf", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    reported = json.loads(done.stdout)
    assert reported["name"] == "arm"
    assert [body["joint"] for body in reported["bodies"]] == ["shoulder", "elbow"]
    assert reported["freedoms"] == 2


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
def test_invalid_command_line_gives_exit_code_2_and_writes_no_file(arguments, folder, capsys):
    assert main(arguments) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in error
    assert error
    assert [path.name for path in folder.iterdir()] == ["arm.urdf"]


def test_error_for_a_missing_file_or_package_contains_its_name(folder, capsys):
    assert main(["run", "arm.urdf", "--scenario", "none.csv"]) == 2
    assert capsys.readouterr().err.endswith("rigidblocks: none.csv: no such file or directory\n")
    (folder / "asks.py").write_text("import no_such_package\nsystem = None\n")
    assert main(["run", "asks.py"]) == 2
    said = "asks.py: No module named 'no_such_package'; install the missing package for"
    assert capsys.readouterr().err == f"rigidblocks: {said} {sys.executable}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["check", "none.fmu"], "FMU none.fmu does not exist"),
        (["info", "none.fmu"], "FMU none.fmu does not exist"),
        (["info", "a.py"], "a.py: this is a script; expected a robot file, for example URDF"),
        (
            ["runner", "arm.urdf", "-o", "."],
            "'.' is not a valid program name; give a file name such as 'plant'",
        ),
    ],
)
def test_error_identifies_an_invalid_command_argument(folder, capsys, arguments, said):
    (folder / "a.py").write_text("system = None\n")
    assert main(arguments) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"rigidblocks: {said}"


def test_command_reports_an_error_in_a_script_with_its_line_number(folder, capsys):
    (folder / "wrong.py").write_text(
        "from rigidblocks import PDController, System\n"
        "system = System()\n"
        "system.add('pd', PDController(kp=[-1.0], kd=[1.0]))\n"
    )
    assert main(["run", "wrong.py"]) == 2
    first, second = capsys.readouterr().err.splitlines()[:2]
    assert "kp[1] is -1 N.m/rad" in first
    assert second == "in wrong.py, line 3"


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("given", [[], ["--joint-friction"], ["--stops", "1e4,50"]], ids=" ".join)
def test_option_for_a_property_that_the_robot_file_lacks_is_reported(folder, capsys, given):
    dry = re.sub("<(dynamics|limit)[^>]*>", "", ARM)
    (folder / "dry.urdf").write_text(dry.replace('"revolute"', '"continuous"'))
    asked = {
        "--joint-friction": "dry friction for --joint-friction",
        "--stops": "limits for --stops",
    }
    assert main(["fmu", "dry.urdf", "--target", "source", *given]) == 0
    said = capsys.readouterr().err
    assert [name for name, text in asked.items() if text in said] == given[:1]


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_run_command_reports_omitted_dry_friction_of_a_robot(capsys):
    assert main(["run", "arm.urdf", "--stop", "0.002"]) == 0
    assert "dry friction and fluid drag are omitted; `rigidblocks fmu" in capsys.readouterr().err


@pytest.mark.slow
def test_final_values_of_string_outputs_are_printed_as_strings(folder, capsys):
    assert main(["run", str(any_fmu(folder, FEEDTHROUGH, 3)), "--stop", "0.1", "--json"]) == 0
    end = json.loads(capsys.readouterr().out)["end"]
    texts = {name: value for name, value in end.items() if isinstance(value, str)}
    assert texts == {
        "Feedthrough_3.String_output": "none",
        "Feedthrough_3.Binary_output": b"none".hex(),
    }


def test_run_command_has_exit_code_1_for_a_failed_run(folder, capsys):
    (folder / "far.py").write_text(
        "from rigidblocks import RobotPlant, System, planar2\n"
        "system = System()\n"
        "system.add('robot', RobotPlant(planar2(), qd0=[1e9, -1e9]))\n"
    )
    assert main(["run", "far.py", "--stop", "10", "--dt", "1"]) == 1
    assert "robot" in capsys.readouterr().err


@pytest.mark.slow
def test_coupling_options_of_the_run_command_have_the_same_effect_as_in_simulate(folder, capsys):
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
        reported = json.loads(capsys.readouterr().out)
        result = simulate(system, 0.1, 0.02, progress=False, **options)
        assert reported["end"] == dict(zip(result.columns, result.values[-1].tolist(), strict=True))
        assert reported.get("coupling") == json.loads(result.meta.get("coupling", "null"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "command", "distribution"),
    [
        ("pyarrow", ["run", "robot.py", "-o", "run.parquet"], "pyarrow"),
        ("pyarrow", ["run", "robot.py", "-o", "run.arrow"], "pyarrow"),
        ("pyarrow", ["convert", "run.csv", "run.parquet"], "pyarrow"),
        ("asammdf", ["run", "robot.py", "-o", "run.mf4"], "asammdf"),
        ("yaml", ["run", "robot.py", "--require", "keep.yaml"], "pyyaml"),
        ("yaml", ["run", "robot.py", "--scenario", "scenario.yaml"], "pyyaml"),
        ("matplotlib", ["plot", "run.csv"], "matplotlib"),
        ("xarray", ["sweep", "robot.py", *VARIED, "-o", "runs.nc"], "xarray"),
    ],
)
def test_command_without_a_required_package_prints_its_install_command(
    folder, monkeypatch, capsys, package, command, distribution
):
    (folder / "robot.py").write_text(
        "from rigidblocks import RobotPlant, System, planar2\n"
        "system = System()\n"
        "system.add('robot', RobotPlant(planar2()))\n"
    )
    assert main(["run", "robot.py", "--stop", "0.002", "-o", "run.csv"]) == 0
    for path in ("keep.yaml", "scenario.yaml"):
        (folder / path).write_text("{}")
    capsys.readouterr()
    loaded = [name for name in sys.modules if name.partition(".")[0] == package]
    for name in {package, *loaded}:
        monkeypatch.setitem(sys.modules, name, None)
    assert main(command) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("rigidblocks: ")
    assert line.endswith(f"needs {distribution}: pip install {distribution}")


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_block_template_of_the_new_command_runs_unchanged(capsys):
    assert main(["new", "first_try", "--json"]) == 0
    files = json.loads(capsys.readouterr().out)["files"]
    assert files == ["first_try_fmu.py", "first_try_system.py"]
    assert main(["new", "first_try"]) == 2
    assert "cannot overwrite first_try_fmu.py, first_try_system.py" in capsys.readouterr().err
    assert main(["run", files[1], "--json"]) == 0
    end = json.loads(capsys.readouterr().out)["end"]
    assert end["first_try.y"] == pytest.approx(1 - np.exp(-10), abs=1e-6)


@pytest.mark.slow
def test_demo_robot_follows_the_reference_trajectory(folder, capsys):
    assert main(["demo", "--json", "--stop", "1", "-o", "demo.csv"]) == 0
    end = json.loads(capsys.readouterr().out)["end"]
    seen = [end[name] for name in ("robot.q[1]", "robot.q[2]", "robot.qd[1]", "robot.qd[2]")]
    assert_allclose(seen[:2], REFERENCE[1.0][:2], atol=1e-3)
    assert_allclose(seen[2:], REFERENCE[1.0][2:], atol=1e-2)
    assert main(["plot", "demo.csv", "--signals", "robot.q,pd.tau"]) == 0
    assert (folder / "demo.png").stat().st_size > 1000


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_fmu_command_adds_a_controller_and_frame_outputs(capsys):
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
def test_convert_command_rejects_robot_formats_other_than_json(capsys):
    assert main(["convert", "arm.urdf", "arm.yaml"]) == 2
    assert (
        "unknown format of 'arm.yaml'; the name must end in .json for a robot"
        in capsys.readouterr().err
    )


@pytest.mark.usefixtures("folder")
def test_convert_command_writes_a_robot_as_json(capsys):
    assert main(["convert", "arm.urdf", "arm.json"]) == 0
    assert capsys.readouterr().out == "arm.json\n"
    assert load_model("arm.json").model.joint_names == load_model("arm.urdf").model.joint_names
