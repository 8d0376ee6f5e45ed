"""The commands that make web pages."""

import json

import pytest

from rigidblocks.cli import main
from urdf_text import ARM

SWING = """from rigidblocks import RobotPlant, System, planar2

system = System()
system.add("robot", RobotPlant(planar2(), qd0=[1.0, -1.0]), start={"tau": [0.0, 0.0]})
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "arm.urdf").write_text(ARM)
    (tmp_path / "swing.py").write_text(SWING)
    return tmp_path


def test_a_robot_is_made_a_page(folder, capsys):
    assert main(["view", "arm.urdf", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"file": "arm.html", "bytes": (folder / "arm.html").stat().st_size}
    assert "shoulder" in (folder / "arm.html").read_text()


def test_a_run_is_made_a_page(folder, capsys):
    assert main(["run", "swing.py", "--stop", "0.01", "-o", "run.csv"]) == 0
    assert main(["view", "swing.py", "run.csv", "-o", "run.html"]) == 0
    assert "wrote run.html" in capsys.readouterr().out
    assert '"run":{' in (folder / "run.html").read_text()


def test_runs_of_one_name_in_two_folders_are_two(folder):
    for name in ("a", "b"):
        assert main(["run", "swing.py", "--stop", "0.01", "-o", f"{name}/run.csv"]) == 0
    assert main(["view", "swing.py", "a/run.csv", "b/run.csv", "-o", "run.html"]) == 0
    assert "shadows: b/run.csv" in (folder / "run.html").read_text()


@pytest.mark.filterwarnings("default")
def test_a_warning_is_one_line_of_the_command(folder, capsys):
    pytest.importorskip("trimesh")
    mesh = '<visual><geometry><mesh filename="package://none/a.stl"/></geometry></visual>'
    (folder / "arm.urdf").write_text(ARM.replace("</link>", f"{mesh}</link>", 1))
    assert main(["view", "arm.urdf"]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("rigidblocks: 1 of 1 meshes cannot be read, such as package://none/")
    assert "--packages" in line


@pytest.mark.slow  # a machine that has compiled none needs a minute for its C library
def test_a_system_is_made_a_page_in_which_it_runs(folder):
    assert main(["page", "swing.py", "--dt", "0.01"]) == 0
    assert '"kernel":{"wasm":"AGFzbQ' in (folder / "swing.html").read_text()


def test_what_has_no_robot_makes_no_page(folder, capsys):
    (folder / "none.py").write_text("from rigidblocks import System\n\nsystem = System()\n")
    assert main(["view", "none.py"]) == 2
    assert "no robot to draw" in capsys.readouterr().err
    assert not (folder / "none.html").exists()
