"""Commands check their options first, and errors name the option or the allowed values."""

import json

import numpy as np
import pytest

from rigidblocks import Port
from rigidblocks.cli import main
from rigidblocks.cosim.results.result import Result

SYSTEM = """from rigidblocks import RobotPlant, System, planar2

system = System()
system.add("robot", RobotPlant(planar2()))
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "arm.py").write_text(SYSTEM)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "ending"),
    [
        (["ssp", "arm.py", "-o", "arm.zip"], ".ssp"),
        (["fmu", "arm.py", "--dt", "1e-3", "-o", "arm.zip"], ".fmu"),
        (["fmu", "arm.py", "--dt", "1e-3", "-o", "arm"], ".fmu"),
        (["page", "arm.py", "-o", "arm.zip"], ".html or .htm"),
    ],
)
def test_output_file_with_a_wrong_ending_is_rejected(folder, capsys, command, ending):
    assert main(command) == 2
    assert f"the name of '{command[-1]}' must end in {ending}" in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["arm.py"]


@pytest.mark.usefixtures("folder")
def test_error_for_a_system_export_without_a_communication_step_suggests_the_dt_option(capsys):
    assert main(["fmu", "arm.py"]) == 2
    assert "arm.py needs --dt, its communication step [s]" in capsys.readouterr().err


def test_info_command_prints_the_time_span_and_the_signals_of_a_record(folder, capsys):
    ports = (Port("arm.q", (2,), ("rad", "rad")), Port("x", (2,), ("rad", "m")), Port("load"))
    time = np.linspace(0.5, 1.5, 11)
    Result(time, ports, np.zeros((11, 5)), {}).save(folder / "run.csv")
    assert main(["info", "run.csv"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head == "run.csv: 11 samples from 0.5 to 1.5 s, 0 events"
    assert [" ".join(line.split()) for line in lines] == ["arm.q (2) rad", "x (2) rad, m", "load 1"]
    assert main(["info", "run.csv", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["signals"][0] == {"name": "arm.q", "shape": [2], "unit": "rad"}
    assert main(["info", "none.csv"]) == 2
    assert "none.csv" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "meant"),
    {
        "simulate": "run",
        "export": "fmu",
        "validate": "check",
        "show": "view",
        "hil": "runner",
    }.items(),
)
def test_error_for_a_command_name_of_another_tool_suggests_the_similar_command(
    capsys, typed, meant
):
    assert main([typed, "arm.py"]) == 2
    assert f"No such command '{typed}'; write rigidblocks {meant}" in capsys.readouterr().err
    assert main([meant, "--help"]) == 0


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("option", ["--t-stop", "--t-end"])
def test_stop_time_option_also_has_the_name_of_the_python_argument(capsys, option):
    assert main(["run", "arm.py", option, "0.003", "--dt", "1e-3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["time"] == pytest.approx(0.003)
