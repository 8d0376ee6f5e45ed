"""Content of FMUs besides their code: metadata, icons, terminals, licenses and reference run.

The reference run follows the layered standard FMI-LS-REF. The module also tests Python FMUs of
block and system objects.
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
from rigidblocks.fmi.documentation import FOLDER
from rigidblocks.fmi.model_description import Metadata
from rigidblocks.fmi.terminals_and_icons import SIZE, icon, terminals

FORMS_AGREE = 1e-12  # a Python FMU runs the same kernel as the block without an FMU
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
def test_model_description_contains_the_metadata_of_the_export(tmp_path, target, fmi):
    path = tmp_path / "pd.fmu"
    export_fmu(PDController([1.0], [1.0]), path, target, fmi=fmi, metadata=METADATA)
    root = ElementTree.fromstring(zipfile.ZipFile(path).read("modelDescription.xml"))
    assert {name: root.get(name) for name in METADATA.attributes()} == METADATA.attributes()
    assert not validate_fmu(str(path))
    assert "documentation/licenses/license.txt" in names(path)


def test_fmu_metadata_with_line_breaks_is_rejected():
    with pytest.raises(
        ValueError, match=r"the author of an FMU must be one line of text, not 'a\\nb'"
    ):
        Metadata(author="a\nb")


@pytest.mark.slow
def test_deflated_fmu_archive_is_smaller_and_reproducible(tmp_path):
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


def test_fmu_icon_is_a_png_image_of_the_declared_size(tmp_path):
    path = tmp_path / "icon.png"
    path.write_bytes(icon())
    assert image.imread(path).shape[:2] == (SIZE, SIZE)


def test_robot_and_controller_fmus_have_matching_terminals():
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


def test_system_fmu_has_separate_terminals_for_each_part():
    text = terminals(["robot.q", "robot.qd", "pd.tau", "pd.q_ref", "pd.qd_ref"])
    found = [terminal.get("name") for terminal in ElementTree.fromstring(text).iter("Terminal")]
    assert found == ["robot.joints", "pd.reference"]


@pytest.mark.slow
def test_reference_run_follows_the_fmi_ls_ref_layered_standard(tmp_path):
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
def test_python_fmu_exported_from_a_block_object_matches_the_results_of_the_block(tmp_path):
    block = RobotPlant(planar2(), q0=(0.3, -0.2))
    path = export_fmu(block, tmp_path / "robot.fmu", "python", name="Arm", tunable=["gravity"])
    theirs = simulate_fmu(str(path), stop_time=0.1, output_interval=1e-3, step_size=1e-3)
    system = System()
    system.add("robot", block)
    ours = simulate(system, 0.1, 1e-3)
    q = np.column_stack([theirs["q[1]"], theirs["q[2]"]])
    assert_allclose(q, ours["robot.q"], rtol=FORMS_AGREE, atol=FORMS_AGREE)


@pytest.mark.slow
def test_python_fmu_exported_from_a_system_object_matches_the_results_of_the_system(tmp_path):
    path = export_fmu(wired(parts()), tmp_path / "demo.fmu", "python", dt=1e-3)
    theirs = simulate_fmu(str(path), stop_time=0.1, output_interval=1e-3, step_size=1e-3)
    ours = simulate(wired(parts()), 0.1, 1e-3)
    q = np.column_stack([theirs["robot.q[1]"], theirs["robot.q[2]"]])
    assert_allclose(q, ours["robot.q"], rtol=FORMS_AGREE, atol=FORMS_AGREE)


@pytest.mark.slow
def test_python_fmu_runs_repeatedly_in_one_process(tmp_path):
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


def script_with_modules(folder: Path, gain: float) -> Path:
    """Write a script with a module and a package of fixed names next to it."""
    (folder / "constants").mkdir(parents=True)
    (folder / "constants/__init__.py").write_text("from constants.gains import GAIN\n")
    (folder / "constants/gains.py").write_text(f"GAIN = {gain}\n")
    (folder / "amplifier.py").write_text(OWN.format(constants="constants"))
    (folder / "amp_fmu.py").write_text(SCRIPT.format(module="amplifier"))
    return folder / "amp_fmu.py"


@pytest.mark.slow
@pytest.mark.parametrize("target", ["python", "native"])
def test_python_fmus_with_modules_of_equal_names_import_their_own_modules(tmp_path, target):
    fmus = [
        export_fmu(script_with_modules(tmp_path / str(k), gain), tmp_path / f"{k}.fmu", target)
        for k, gain in enumerate((2.0, 3.0))
    ]
    assert "amplifier" not in sys.modules
    for path, gain in zip(fmus, (2.0, 3.0), strict=True):  # both in this process
        assert simulate_fmu(str(path), stop_time=0.1, output_interval=0.1)["y"][-1] == gain


@pytest.mark.slow
def test_python_fmu_contains_the_modules_of_its_block(tmp_path, monkeypatch):
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
def test_interpreter_exits_without_a_crash_after_running_a_python_fmu(tmp_path):
    """pythonfmu releases a reference to the script's namespace that it does not own.

    malloc overwrites freed memory, so that a later read of this memory crashes.
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
def test_python_fmu_does_not_access_a_finalized_interpreter(tmp_path):
    # pythonfmu releases the interpreter twice; the second release accesses freed memory
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")
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
def test_python_export_rejects_a_block_defined_in_the_main_program(tmp_path):
    program = OWN.format(constants="math").replace("GAIN", "pi") + (
        "\nfrom rigidblocks import export_fmu\nexport_fmu(Amplifier(), 'amp.fmu', 'python')\n"
    )
    (tmp_path / "program.py").write_text(program)
    run = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "from the main program: move the class to a module" in run.stderr


@pytest.mark.slow
def test_python_fmu_logs_the_install_command_if_rigidblocks_is_missing(tmp_path):
    path = export_fmu(PDController([1.0], [1.0]), tmp_path / "pd.fmu", "python")
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(path)], capture_output=True, text=True, check=False
    )
    assert run.returncode != 0
    assert "install rigidblocks" in run.stdout
    assert "build the FMU with --bundle" in run.stdout
