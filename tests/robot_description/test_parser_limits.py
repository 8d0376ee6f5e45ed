"""FIFOs, devices and endless macro expansions are rejected."""

import os
import sys

import pytest

from rigidblocks import Result, System, load_model
from rigidblocks.cli import main
from rigidblocks.common.format_error import FormatError
from rigidblocks.cosim.graph.fmu_file import FmuError
from rigidblocks.cosim.scenario import read_data_file
from rigidblocks.fmi.ssp.load import load_system
from rigidblocks.library import Playback
from rigidblocks.robot_description import external_parsers
from rigidblocks.studies.requirements import load_requirements

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no FIFOs")

READERS = {
    "a robot": (load_model, "urdf"),
    "a robot of MuJoCo": (load_model, "xml"),
    "a robot of JSON": (load_model, "json"),
    "an FMU": (lambda path: System().add("part", path), "fmu"),
    "a system": (load_system, "ssp"),
    "a scenario": (read_data_file, "yaml"),
    "requirements": (load_requirements, "json"),
    **{f"a result in {suffix}": (Result.load, suffix) for suffix in ("arrow", "csv", "parquet")},
    **{
        f"a recording in {suffix}": (lambda path: Playback(path, ("t", "u")), suffix)
        for suffix in ("csv", "parquet")
    },
}


@pytest.mark.parametrize("what", READERS)
def test_robot_file_readers_reject_a_named_pipe(what, tmp_path):
    read, suffix = READERS[what]
    path = tmp_path / f"file.{suffix}"
    os.mkfifo(path)
    with pytest.raises((ValueError, OSError, FmuError), match=r"file\.") as refusal:
        read(path)
    assert "FIFO" in str(refusal.value) or "does not exist" in str(refusal.value)


@pytest.mark.parametrize("what", READERS)
def test_robot_file_readers_reject_a_device_file(what, tmp_path):
    read, suffix = READERS[what]
    path = tmp_path / f"file.{suffix}"
    path.symlink_to("/dev/zero")
    with pytest.raises((ValueError, OSError, FmuError), match=r"file\.") as refusal:
        read(path)
    assert "device" in str(refusal.value) or "does not exist" in str(refusal.value)


def test_commands_reject_a_named_pipe_as_robot_file_with_exit_code_2(tmp_path, capsys):
    for name, command in (("robot.xml", "info"), ("robot.urdf", "check"), ("robot.xml", "run")):
        path = tmp_path / name
        if not path.exists():
            os.mkfifo(path)
        assert main([command, str(path)]) == 2
        assert "FIFO" in capsys.readouterr().err


XACRO = '<robot xmlns:xacro="http://www.ros.org/wiki/xacro" name="{}">{}</robot>'
ENDLESS = {
    "a power": ("${9**9**9}", ""),
    "macros that double": (
        "x",
        '<xacro:macro name="m" params="n"><a/><xacro:if value="${n}"><xacro:m n="${n-1}"/>'
        '<xacro:m n="${n-1}"/></xacro:if></xacro:macro><xacro:m n="30"/>',
    ),
    "a FIFO": ("x", '<xacro:include filename="pipe"/>'),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", ENDLESS)
def test_endless_xacro_is_rejected_after_the_time_limit(what, tmp_path, monkeypatch):
    pytest.importorskip("xacro", reason="xacro is not installed")
    monkeypatch.setattr(external_parsers, "TIME_LIMIT", 3.0)
    os.mkfifo(tmp_path / "pipe")
    path = tmp_path / "robot.xacro"
    path.write_text(XACRO.format(*ENDLESS[what]))
    with pytest.raises(FormatError, match="xacro took longer than a minute") as refusal:
        load_model(path)
    assert str(refusal.value).startswith(f"{path}: ")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the limit of address space is Linux's")
@pytest.mark.parametrize("text", ["${'x' * 10**10}", "${[0] * 10**10}", "${(1,) * 10**9}"])
def test_xacro_file_above_the_memory_limit_is_rejected(text, tmp_path):
    pytest.importorskip("xacro", reason="xacro is not installed")
    path = tmp_path / "robot.xacro"
    path.write_text(XACRO.format(text, ""))
    with pytest.raises(FormatError, match=r"xacro cannot expand the file: it takes more than 2 GB"):
        load_model(path)


@pytest.mark.slow
def test_recursive_xacro_macros_are_rejected(tmp_path):
    pytest.importorskip("xacro", reason="xacro is not installed")
    path = tmp_path / "robot.xacro"
    loop = '<xacro:macro name="m"><xacro:m/></xacro:macro><xacro:m/>'
    path.write_text(XACRO.format("x", loop))
    with pytest.raises(FormatError, match=r"xacro cannot expand the file: its macros call"):
        load_model(path)


@pytest.mark.slow
def test_xacro_includes_are_relative_to_the_including_file(tmp_path, monkeypatch):
    pytest.importorskip("xacro", reason="xacro is not installed")
    folder = tmp_path / "real"
    folder.mkdir()
    (folder / "part.xacro").write_text(XACRO.format("p", '<link name="part"/>'))
    text = XACRO.format("r", '<xacro:include filename="part.xacro"/><link name="part2"/>')
    (folder / "robot.xacro").write_text(text)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FormatError, match=r"'part2?' has no parent joint"):
        load_model("real/robot.xacro")
