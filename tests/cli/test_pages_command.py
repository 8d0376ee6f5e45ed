"""Commands that write web pages."""

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


def test_view_command_writes_the_page_of_a_robot(folder, capsys):
    assert main(["view", "arm.urdf", "--json"]) == 0
    reported = json.loads(capsys.readouterr().out)
    assert reported == {"file": "arm.html", "bytes": (folder / "arm.html").stat().st_size}
    assert "shoulder" in (folder / "arm.html").read_text()


@pytest.mark.slow
def test_view_command_writes_the_page_of_a_run(folder, capsys):
    assert main(["run", "swing.py", "--stop", "0.01", "-o", "run.csv"]) == 0
    assert main(["view", "swing.py", "run.csv", "-o", "run.html"]) == 0
    assert "wrote run.html" in capsys.readouterr().out
    assert '"run":{' in (folder / "run.html").read_text()


def test_runs_from_files_with_equal_names_are_labelled_by_their_folders(folder):
    for name in ("a", "b"):
        assert main(["run", "swing.py", "--stop", "0.01", "-o", f"{name}/run.csv"]) == 0
    assert main(["view", "swing.py", "a/run.csv", "b/run.csv", "-o", "run.html"]) == 0
    assert "translucent: b/run.csv" in (folder / "run.html").read_text()


@pytest.mark.filterwarnings("default")
def test_view_command_prints_a_mesh_warning_in_one_line(folder, capsys):
    pytest.importorskip("trimesh")
    mesh = '<visual><geometry><mesh filename="package://none/a.stl"/></geometry></visual>'
    (folder / "arm.urdf").write_text(ARM.replace("</link>", f"{mesh}</link>", 1))
    assert main(["view", "arm.urdf"]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("rigidblocks: 1 of 1 meshes cannot be read, such as package://none/")
    assert "--packages" in line


@pytest.mark.slow  # the first compilation builds the C library, which takes a minute
def test_page_command_writes_a_page_that_simulates_the_system(folder):
    assert main(["page", "swing.py", "--dt", "0.01"]) == 0
    assert '"kernel":{"wasm":"AGFzbQ' in (folder / "swing_page.html").read_text()


def test_view_command_rejects_a_system_without_a_robot(folder, capsys):
    (folder / "none.py").write_text("from rigidblocks import System\n\nsystem = System()\n")
    assert main(["view", "none.py"]) == 2
    assert "no robot to draw" in capsys.readouterr().err
    assert not (folder / "none.html").exists()


def test_pages_of_two_commands_have_different_default_names(folder, capsys):
    assert main(["view", "swing.py"]) == 0
    made = (folder / "swing.html").read_text()
    assert '<meta name="generator" content="rigidblocks view">' in made
    assert main(["view", "swing.py"]) == 0  # the command may replace its own page
    foreign = "<!DOCTYPE html><p>report</p>"
    for name, command in (("swing.html", "view"), ("swing_page.html", "page")):
        (folder / name).write_text(foreign)
        capsys.readouterr()
        assert main([command, "swing.py"]) == 2
        assert f"cannot overwrite {name}, which `rigidblocks {command}`" in capsys.readouterr().err
        assert (folder / name).read_text() == foreign
    assert main(["view", "swing.py", "-o", "swing.html"]) == 0
    assert (folder / "swing.html").read_text() == made
