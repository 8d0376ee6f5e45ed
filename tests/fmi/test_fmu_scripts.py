"""FMU scripts: their options, and the error message for each type of invalid script."""

import re
import zipfile
from pathlib import Path

import pytest

from block_runs import assert_same, continue_steps, initialized_slave, random_inputs, reference_run
from hosts import instantiated, references, start
from rigidblocks.fmi.export import python_fmu
from rigidblocks.fmi.script import slave_of


@pytest.mark.slow
def test_python_fmu_uses_the_integration_method_of_its_script(tmp_path):
    script = tmp_path / "euler_fmu.py"
    script.write_text(
        "from rigidblocks.fmi.slave import BlockSlave\n"
        "from rigidblocks.block.integrators import SEMI_IMPLICIT_EULER\n"
        "from rigidblocks.library import RobotPlant\n"
        "from rigidblocks.robot.robots import planar2\n"
        "class Euler(BlockSlave):\n"
        "    def __init__(self, **kwargs):\n"
        "        super().__init__(RobotPlant(planar2()), method=SEMI_IMPLICIT_EULER, h=3e-4, "
        "tunable=(), **kwargs)\n"
    )
    read = slave_of(script)
    assert (read.method.name, read.h, read.memory.parameters) == ("semi-implicit euler", 3e-4, ())
    inputs = random_inputs(script, 10)
    slave = initialized_slave(
        instantiated(python_fmu(script, tmp_path / "euler.fmu"), tmp_path / "unpacked"),
        script,
        inputs,
    )
    assert_same(continue_steps(slave, script, inputs[1:]), reference_run(script, inputs)[1:])
    slave.freeInstance()


@pytest.mark.slow
def test_fmu_script_may_define_its_own_block(tmp_path):
    script = tmp_path / "a block-of its.own.py"  # not a valid module name
    script.write_text(
        "from __future__ import annotations\n"
        "from dataclasses import KW_ONLY, dataclass\n"
        "from rigidblocks.block.block import Block, Port\n"
        "from rigidblocks.fmi.slave import BlockSlave\n"
        "@dataclass(frozen=True, eq=False)\n"
        "class Triple(Block):\n"
        "    _: KW_ONLY\n"
        "    factor: float = 3.0\n"
        "    inputs = (Port('u', (), '1', 'input', 0.0),)\n"
        "    outputs = (Port('y'),)\n"
        "    def output(self, t, x, u, p):\n"
        "        return {'y': self.factor * u.u}\n"
        "class Own(BlockSlave):\n"
        "    def __init__(self, **kwargs):\n"
        "        super().__init__(Triple(), **kwargs)\n"
    )
    fmu = python_fmu(script, tmp_path / "own.fmu")
    inputs = random_inputs(script, 3)
    for name in ("first", "second"):
        slave = initialized_slave(instantiated(fmu, tmp_path / "unpacked", name), script, inputs)
        assert_same(continue_steps(slave, script, inputs[1:]), reference_run(script, inputs)[1:])
        slave.freeInstance()


PD_SCRIPT = """
from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import PDController

class Controller(BlockSlave):
    def __init__(self, **kwargs):
        super().__init__(PDController(kp=[{kp}], kd=[0.0]), **kwargs)
"""


def pd_script(folder: Path, kp: float) -> Path:
    """Write a script whose class name is fixed and whose proportional gain is `kp`."""
    folder.mkdir(exist_ok=True)
    (folder / "controller_fmu.py").write_text(PD_SCRIPT.format(kp=kp))
    return folder / "controller_fmu.py"


@pytest.mark.slow
def test_two_fmus_with_the_same_script_name_run_their_own_scripts(tmp_path):
    slaves = []
    for kp in (2.0, 3.0):
        folder = tmp_path / f"{kp}"
        slave = instantiated(
            python_fmu(pd_script(folder, kp), folder / "controller.fmu"), folder / "unpacked"
        )
        slave.setReal([references(folder / "controller.fmu")["q_ref[1]"]], [1.0])
        slaves.append(start(slave))
    assert [
        slave.getReal([references(tmp_path / "2.0" / "controller.fmu")["tau[1]"]])
        for slave in slaves
    ] == [[2.0], [3.0]]
    for slave in slaves:
        slave.freeInstance()


def test_fmus_of_different_scripts_have_different_guids(tmp_path):
    guids = set()
    for kp in (2.0, 3.0):
        with zipfile.ZipFile(
            python_fmu(pd_script(tmp_path / f"{kp}", kp), tmp_path / "a.fmu")
        ) as archive:
            guids.add(archive.read("modelDescription.xml").split(b'guid="')[1][:34])
    assert len(guids) == 2


HEAD = (
    "from rigidblocks.fmi.slave import BlockSlave\nfrom rigidblocks.library import PDController\n"
)
CLASS = (
    "class {}(BlockSlave):\n    def __init__(self, **kwargs):\n        "
    "super().__init__(PDController([1], [1]), **kwargs)\n"
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD, "exactly one class derived from BlockSlave; it has: none"),
        ("", "exactly one class derived from BlockSlave; it has: none"),
        (
            HEAD + CLASS.format("A") + CLASS.format("B"),
            "exactly one class derived from BlockSlave; it has: A, B",
        ),
        (
            HEAD + CLASS.format("A") + "class B(A):\n    pass\n",
            "class B of a_fmu.py needs its own __init__",
        ),
        (
            HEAD + CLASS.format("A") + "B, A = A, None\n",
            "class A of a_fmu.py must be an attribute of the module",
        ),
        (
            "from pythonfmu import Fmi2Slave\n"
            + HEAD
            + CLASS.format("A").replace("BlockSlave", "Fmi2Slave"),
            "exactly one class derived from BlockSlave; it has: A",
        ),
    ],
)
def test_fmu_script_without_exactly_one_slave_class_is_rejected(tmp_path, text, message):
    script = tmp_path / "a_fmu.py"
    script.write_text(text)
    with pytest.raises(ValueError, match=re.escape(message)) as refusal:
        slave_of(script)
    assert refusal.value.__notes__ == [f"in the FMU script {script}"]
    with pytest.raises(ValueError, match=re.escape(message)):
        python_fmu(script, tmp_path / "a.fmu")
    assert list(tmp_path.iterdir()) == [script]


def test_error_for_an_exception_in_an_fmu_script_identifies_the_script(tmp_path):
    script = tmp_path / "a_fmu.py"
    script.write_text(HEAD + CLASS.format("A").replace("[1], [1]", "[1], [1, 2]"))
    with pytest.raises(ValueError, match=r"needs kp and kd of shape \(n,\)") as refusal:
        slave_of(script)
    assert refusal.value.__notes__ == [f"in the FMU script {script}"]


def test_error_for_a_missing_fmu_script_identifies_the_script(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"script .*a_fmu\.py does not exist"):
        slave_of(tmp_path / "a_fmu.py")
