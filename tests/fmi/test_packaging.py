"""What FMUs carry beside their code: who made them, pictures, terminals, licenses, the reference
run by the layered standard, and Python FMUs of what is no script.
"""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import fmpy
import numpy as np
import pytest
from fmpy import simulate_fmu
from fmpy.validation import validate_fmu
from lxml import etree
from matplotlib import image
from numpy.testing import assert_allclose

from planar2ctrl import parts, wired
from rigidblocks import PDController, RobotPlant, System, export_fmu, planar2, simulate
from rigidblocks.fmi.icon import SIZE, icon
from rigidblocks.fmi.metadata import Metadata
from rigidblocks.fmi.related import FOLDER
from rigidblocks.fmi.terminals import terminals

FORMS_AGREE = 1e-12  # a Python FMU runs the kernel that the block runs in memory
METADATA = Metadata("A. Author", "1.2", "(c) A. Author", "MIT", "an arm & its <base>")
WITHOUT = """
import sys
from pathlib import Path
class Blocker:
    def find_spec(self, name, *_):
        if name.split(".")[0] == "rigidblocks":
            raise ImportError("No module named 'rigidblocks'")
sys.meta_path.insert(0, Blocker())
import fmpy
fmpy.simulate_fmu(sys.argv[1], stop_time=0.01, debug_logging=True, logger=lambda *a: print(a[-1]))
"""


def names(fmu: Path) -> set[str]:
    return set(zipfile.ZipFile(fmu).namelist())


@pytest.mark.parametrize(("target", "fmi"), [("native", 2), ("native", 3), ("python", 2)])
def test_metadata_are_in_the_model_description(tmp_path, target, fmi):
    path = tmp_path / "pd.fmu"
    export_fmu(PDController([1.0], [1.0]), path, target, fmi=fmi, metadata=METADATA)
    root = ElementTree.fromstring(zipfile.ZipFile(path).read("modelDescription.xml"))
    assert {name: root.get(name) for name in METADATA.attributes()} == METADATA.attributes()
    assert not validate_fmu(str(path))
    assert "documentation/licenses/license.txt" in names(path)


def test_metadata_are_lines_of_text():
    with pytest.raises(ValueError, match=r"the author of an FMU is one line of text, not 'a\\nb'"):
        Metadata(author="a\nb")


@pytest.mark.slow
def test_a_deflated_archive_is_smaller_and_the_same_each_time(tmp_path):
    block = PDController([1.0], [1.0])
    stored, one, two = (
        export_fmu(block, tmp_path / name, deflate=deflate)
        for name, deflate in (("stored", False), ("one", True), ("two", True))
    )
    assert one.read_bytes() == two.read_bytes()
    assert one.stat().st_size < 0.5 * stored.stat().st_size
    assert {n: zipfile.ZipFile(one).read(n) for n in names(one)} == {
        n: zipfile.ZipFile(stored).read(n) for n in names(stored)
    }


def test_the_icon_is_a_picture(tmp_path):
    path = tmp_path / "icon.png"
    path.write_bytes(icon())
    assert image.imread(path).shape[:2] == (SIZE, SIZE)


def test_robot_and_controller_have_terminals_that_match():
    members = {}
    for block in (RobotPlant(planar2()), PDController([1, 1], [1, 1])):
        text = terminals(port.name for port in (*block.inputs, *block.outputs))
        schema = Path(fmpy.__file__).parent / "schema/fmi3/fmi3TerminalsAndIcons.xsd"
        etree.XMLSchema(file=str(schema)).assertValid(etree.fromstring(text.encode()))
        for terminal in ElementTree.fromstring(text).iter("Terminal"):
            kind = terminal.get("terminalKind")
            members.setdefault(kind, []).append({m.get("memberName") for m in terminal})
    assert members["rigidblocks.joints"] == [{"q", "qd", "tau"}] * 2
    assert members["rigidblocks.reference"] == [{"position", "velocity"}]


def test_the_parts_of_a_system_have_terminals_of_their_own():
    text = terminals(["robot.q", "robot.qd", "pd.tau", "pd.q_ref", "pd.qd_ref"])
    found = [terminal.get("name") for terminal in ElementTree.fromstring(text).iter("Terminal")]
    assert found == ["robot.joints", "pd.reference"]


@pytest.mark.slow
def test_the_reference_run_is_related_as_the_layered_standard_says(tmp_path):
    archive = zipfile.ZipFile(export_fmu(RobotPlant(planar2()), tmp_path / "robot.fmu"))
    manifest = ElementTree.fromstring(archive.read(f"{FOLDER}/fmi-ls-manifest.xml"))
    assert manifest.get("{http://fmi-standard.org/fmi-ls-manifest}fmi-ls-name") == (
        "org.fmi-standard.fmi-ls-ref"
    )
    (experiment,) = ElementTree.fromstring(archive.read(f"{FOLDER}/experiments.xml"))
    sources = [item.get("source") for item in (*manifest, *experiment)]
    for source in sources:
        where = Path("/", FOLDER, source).resolve().relative_to("/").as_posix()
        assert where in archive.namelist()
    (reference,) = (item.get("source") for item in experiment.iter("References"))
    rows = archive.read(reference.removeprefix("../../")).decode().splitlines()
    assert rows[-1].split(",")[0] == experiment.get("stopTime")


# Python FMUs of objects


@pytest.mark.slow
def test_a_python_fmu_of_a_block_object_is_the_block(tmp_path):
    block = RobotPlant(planar2(), q0=(0.3, -0.2))
    path = export_fmu(block, tmp_path / "robot.fmu", "python", name="Arm", tunable=["gravity"])
    theirs = simulate_fmu(str(path), stop_time=0.1, output_interval=1e-3, step_size=1e-3)
    system = System()
    system.add("robot", block)
    ours = simulate(system, 0.1, 1e-3)
    q = np.column_stack([theirs["q[1]"], theirs["q[2]"]])
    assert_allclose(q, ours["robot.q"], rtol=FORMS_AGREE, atol=FORMS_AGREE)


@pytest.mark.slow
def test_a_python_fmu_of_a_system_object_is_the_system(tmp_path):
    path = export_fmu(wired(parts()), tmp_path / "demo.fmu", "python", dt=1e-3)
    theirs = simulate_fmu(str(path), stop_time=0.1, output_interval=1e-3, step_size=1e-3)
    ours = simulate(wired(parts()), 0.1, 1e-3)
    q = np.column_stack([theirs["robot.q[1]"], theirs["robot.q[2]"]])
    assert_allclose(q, ours["robot.q"], rtol=FORMS_AGREE, atol=FORMS_AGREE)


def test_a_python_fmu_runs_again_when_the_folder_of_its_first_run_is_gone(tmp_path):
    block = PDController([1.0], [1.0])
    system = System()
    system.add("pd", export_fmu(block, tmp_path / "pd.fmu", "python"), start={"q_ref": [2.0]})
    for _ in range(5):
        assert_allclose(simulate(system, 0.01, 1e-3).values, 2.0)


OWN = '''
from dataclasses import dataclass
from rigidblocks import Block, Port
from {constants} import GAIN

@dataclass(frozen=True)
class Amplifier(Block):
    """y = GAIN u."""

    @property
    def inputs(self):
        return (Port("u", start=1.0),)

    @property
    def outputs(self):
        return (Port("y"),)

    def output(self, u):
        return {{"y": GAIN * u.u}}
'''
SCRIPT = """
from {module} import Amplifier
from rigidblocks.fmi.slave import BlockSlave

class Amp(BlockSlave):
    def __init__(self, **kwargs):
        super().__init__(Amplifier(), **kwargs)
"""


def beside(folder: Path, gain: float) -> Path:
    """A script with a module and a package beside it, under the same names in every folder."""
    (folder / "constants").mkdir(parents=True)
    (folder / "constants/__init__.py").write_text("from constants.gains import GAIN\n")
    (folder / "constants/gains.py").write_text(f"GAIN = {gain}\n")
    (folder / "amplifier.py").write_text(OWN.format(constants="constants"))
    (folder / "amp_fmu.py").write_text(SCRIPT.format(module="amplifier"))
    return folder / "amp_fmu.py"


@pytest.mark.parametrize("target", ["python", "native"])
def test_a_script_imports_modules_beside_it_and_each_script_its_own(tmp_path, target):
    fmus = [
        export_fmu(beside(tmp_path / str(k), gain), tmp_path / f"{k}.fmu", target)
        for k, gain in enumerate((2.0, 3.0))
    ]
    assert "amplifier" not in sys.modules
    for path, gain in zip(fmus, (2.0, 3.0), strict=True):  # both in this one process
        assert simulate_fmu(str(path), stop_time=0.1, output_interval=0.1)["y"][-1] == gain


@pytest.mark.slow
def test_a_block_of_an_own_module_takes_the_module_along(tmp_path, monkeypatch):
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "numbers_of_mine.py").write_text("GAIN = 5.0\n")
    (folder / "amplifier_of_mine.py").write_text(OWN.format(constants="numbers_of_mine"))
    monkeypatch.syspath_prepend(str(folder))
    from amplifier_of_mine import Amplifier

    path = export_fmu(Amplifier(), tmp_path / "amp.fmu", "python")
    program = (
        "import fmpy, sys; r = fmpy.simulate_fmu(sys.argv[1], stop_time=0.1, output_interval=0.1); "
        "assert r['y'][-1] == 5.0, r"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=True)


@pytest.mark.slow
def test_the_interpreter_of_a_host_ends_without_a_crash(tmp_path):
    """pythonfmu gives back a reference to the script's namespace that is not its own, and malloc
    that overwrites what is freed shows whoever reads it then.
    """
    path = export_fmu(PDController([1.0], [0.1]), tmp_path / "pd.fmu", "python")
    program = (
        "import fmpy, sys\n"
        "for _ in range(2): fmpy.simulate_fmu(sys.argv[1], stop_time=0.1, output_interval=0.1)"
    )
    found = {"MALLOC_PERTURB_": "165", "PYTHONMALLOC": "malloc"}
    command = [sys.executable, "-c", program, str(path)]
    subprocess.run(command, check=True, env={**os.environ, **found})


@pytest.mark.interop
def test_no_library_of_a_python_fmu_touches_memory_after_its_end(tmp_path):
    # pythonfmu gives up its hold of the interpreter twice, once after it is freed
    if shutil.which("valgrind") is None:
        pytest.skip("there is no valgrind")
    path = export_fmu(PDController([1.0], [0.1]), tmp_path / "pd.fmu", "python")
    program = (
        "import sys\n"
        "from fmpy import extract, read_model_description\n"
        "from fmpy.fmi2 import FMU2Slave\n"
        "from pathlib import Path\n"
        "for k in range(2):\n"
        "    extract(sys.argv[1], folder := f'{sys.argv[2]}/{k}')\n"
        "    about = read_model_description(sys.argv[1])\n"
        "    slave = FMU2Slave(guid=about.guid, unzipDirectory=folder,\n"
        "                      modelIdentifier=about.coSimulation.modelIdentifier)\n"
        "    slave.instantiate()\n"
        "    slave.freeInstance()\n"
    )
    log = tmp_path / "log"
    command = ["valgrind", "--error-limit=no", f"--log-file={log}", sys.executable, "-c", program]
    environment = {**os.environ, "PYTHONMALLOC": "malloc"}
    subprocess.run([*command, str(path), str(tmp_path)], check=True, env=environment)
    assert "ERROR SUMMARY" in log.read_text()
    assert "finalizePythonInterpreter" not in log.read_text()


@pytest.mark.slow
def test_a_block_of_the_main_program_is_refused_for_a_python_fmu(tmp_path):
    program = OWN.format(constants="math").replace("GAIN", "pi") + (
        "\nfrom rigidblocks import export_fmu\nexport_fmu(Amplifier(), 'amp.fmu', 'python')\n"
    )
    (tmp_path / "program.py").write_text(program)
    run = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "the main program cannot be imported: put the class into a module" in run.stderr


def test_without_rigidblocks_the_log_says_what_to_do(tmp_path):
    path = export_fmu(PDController([1.0], [1.0]), tmp_path / "pd.fmu", "python")
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(path)], capture_output=True, text=True, check=False
    )
    assert run.returncode != 0
    assert "install rigidblocks" in run.stdout
    assert "build the FMU with --bundle" in run.stdout
