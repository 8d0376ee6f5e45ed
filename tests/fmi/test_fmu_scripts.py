"""A script is all that an FMU is made of: what it can say, and every way that one can be wrong."""

import re
import zipfile
from pathlib import Path

import pytest

from block_runs import assert_same, begun, go_on, random_inputs, reference_run
from hosts import instantiated, references, start
from rigidblocks.fmi.python import python_fmu
from rigidblocks.fmi.script import slave_of


def test_a_kernel_steps_by_the_method_of_the_script(tmp_path):
    script = tmp_path / "euler_fmu.py"
    script.write_text(
        "from rigidblocks.fmi.slave import BlockSlave\n"
        "from rigidblocks.block.integrators import SEMI_IMPLICIT_EULER\n"
        "from rigidblocks.library import RobotPlant\n"
        "from rigidblocks.robots import planar2\n"
        "class Euler(BlockSlave):\n"
        "    def __init__(self, **kwargs):\n"
        "        super().__init__(RobotPlant(planar2()), method=SEMI_IMPLICIT_EULER, h=3e-4, "
        "tunable=(), **kwargs)\n"
    )
    read = slave_of(script)
    assert (read.method.name, read.h, read.memory.parameters) == ("semi-implicit euler", 3e-4, ())
    inputs = random_inputs(script, 10)
    slave = begun(
        instantiated(python_fmu(script, tmp_path / "euler.fmu"), tmp_path / "unpacked"),
        script,
        inputs,
    )
    assert_same(go_on(slave, script, inputs[1:]), reference_run(script, inputs)[1:])
    slave.freeInstance()


def test_a_script_can_have_a_block_of_its_own(tmp_path):
    script = tmp_path / "a block-of its.own.py"  # no name for a module
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
        slave = begun(instantiated(fmu, tmp_path / "unpacked", name), script, inputs)
        assert_same(go_on(slave, script, inputs[1:]), reference_run(script, inputs)[1:])
        slave.freeInstance()


PD_SCRIPT = """
from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import PDController

class Controller(BlockSlave):
    def __init__(self, **kwargs):
        super().__init__(PDController(kp=[{kp}], kd=[0.0]), **kwargs)
"""


def pd_script(folder: Path, kp: float) -> Path:
    """A script that differs from others of its name in the gain alone."""
    folder.mkdir(exist_ok=True)
    (folder / "controller_fmu.py").write_text(PD_SCRIPT.format(kp=kp))
    return folder / "controller_fmu.py"


def test_two_fmus_of_one_name_and_class_each_run_their_own_script(tmp_path):
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


def test_another_script_is_another_guid(tmp_path):
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
            "class B of a_fmu.py needs an __init__ of its own",
        ),
        (
            HEAD + CLASS.format("A") + "B, A = A, None\n",
            "class A of a_fmu.py must be there under its own name",
        ),
        (
            "from pythonfmu import Fmi2Slave\n"
            + HEAD
            + CLASS.format("A").replace("BlockSlave", "Fmi2Slave"),
            "exactly one class derived from BlockSlave; it has: A",
        ),
    ],
)
def test_a_script_without_exactly_one_slave_class_is_refused(tmp_path, text, message):
    script = tmp_path / "a_fmu.py"
    script.write_text(text)
    with pytest.raises(ValueError, match=re.escape(message)) as refusal:
        slave_of(script)
    assert refusal.value.__notes__ == [f"in the FMU script {script}"]
    with pytest.raises(ValueError, match=re.escape(message)):
        python_fmu(script, tmp_path / "a.fmu")
    assert list(tmp_path.iterdir()) == [script]


def test_an_error_of_the_script_says_where_it_is(tmp_path):
    script = tmp_path / "a_fmu.py"
    script.write_text(HEAD + CLASS.format("A").replace("[1], [1]", "[1], [1, 2]"))
    with pytest.raises(ValueError, match="needs one kp and one kd a joint") as refusal:
        slave_of(script)
    assert refusal.value.__notes__ == [f"in the FMU script {script}"]


def test_a_script_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no script .*a_fmu\.py"):
        slave_of(tmp_path / "a_fmu.py")
