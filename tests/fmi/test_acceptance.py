"""The acceptance sheet of an FMU, against the compiler's own word where it has one."""

import platform
import shutil
import subprocess
import zipfile

import pytest

from any_models import DAHLQUIST, any_fmu
from rigidblocks import PDController, RobotPlant, export_fmu, planar2
from rigidblocks.cli import main
from rigidblocks.fmi.acceptance import acceptance
from rigidblocks.system.fmu_file import FmuError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def fmu(tmp_path_factory):
    return export_fmu(RobotPlant(planar2()), tmp_path_factory.mktemp("sheet") / "arm.fmu")


@pytest.fixture(scope="module")
def sheet(fmu):
    return {entry.subject: entry for entry in acceptance(fmu)}


def test_an_fmu_of_ours_is_accepted(sheet):
    assert all(entry.well for entry in sheet.values()), sheet
    assert sheet["validation"].text == "FMPy finds nothing wrong"
    assert "no call that allocates" in sheet["allocations"].text
    assert "no byte more" in sheet["heap"].text


def test_an_fmu_of_fmi_3_is_run(tmp_path):
    fmu = export_fmu(PDController([1.0], [1.0]), tmp_path / "pd.fmu", fmi=3)
    sheet = {entry.subject: entry for entry in acceptance(fmu)}
    assert sheet["run"].text.startswith("500 steps of 0.001 s under FMPy")
    assert sheet["validation"].well


@pytest.mark.skipif(shutil.which("size") is None, reason="the tool `size` is not installed")
def test_the_size_of_the_code_is_that_of_the_tools(fmu, sheet, tmp_path):
    with zipfile.ZipFile(fmu) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".so"))
        archive.extract(name, tmp_path)
    told = subprocess.run(["size", "-A", tmp_path / name], capture_output=True, text=True).stdout
    size = next(line.split()[1] for line in told.splitlines() if line.startswith(".text"))
    assert sheet["code"].text == f"{size} bytes of text"


@pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"),
    reason="the stack is measured on Linux on x86-64",
)
def test_the_stack_of_a_step_is_that_of_its_frames(sheet):
    """RK4 of two links keeps its memory and five rates: hundreds of bytes, and not pages."""
    depth = int(sheet["stack"].text.split()[0])
    assert 200 < depth < 20_000


def test_sources_tell_their_operations(tmp_path, capsys):
    path = export_fmu(PDController([1.0], [1.0]), tmp_path / "pd.fmu", "source")
    assert main(["check", str(path)]) == 0
    assert "+ - * /" in capsys.readouterr().out


@pytest.mark.parametrize("fmi", [2, 3])
def test_sources_alone_are_compiled_and_run(fmi, tmp_path):
    path = export_fmu(PDController([1.0], [1.0]), tmp_path / "pd.fmu", "source", fmi=fmi)
    sheet = {entry.subject: entry for entry in acceptance(path)}
    assert sheet["platforms"].text == "none: sources alone"
    assert sheet["run"].text.startswith("500 steps of 0.001 s under FMPy")
    assert ("stack" in sheet) == (fmi == 2 and platform.system() == "Linux")
    assert all(entry.well for entry in sheet.values())


def test_where_there_is_no_compiler_the_sheet_says_so(tmp_path, monkeypatch):
    path = export_fmu(PDController([1.0], [1.0]), tmp_path / "pd.fmu", "source")

    def refused(path):
        raise FmuError(f"'{path}' has sources, and no C compiler was found")

    monkeypatch.setattr("rigidblocks.fmi.acceptance.check_compiler", refused)
    sheet = {entry.subject: entry for entry in acceptance(path)}
    assert sheet["run"].text == f"not run: '{path}' has sources, and no C compiler was found"
    assert "operations" in sheet
    assert "stack" not in sheet


def test_what_is_no_fmu_is_told(tmp_path, capsys):
    (tmp_path / "a.fmu").write_text("no archive")
    assert main(["check", str(tmp_path / "a.fmu")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_operations_are_counted_in_c_of_ours_alone(tmp_path):
    path = any_fmu(tmp_path, DAHLQUIST, 2)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("sources/model.h", "double get(Model *m, double *x);")
    assert "operations" not in {entry.subject for entry in acceptance(path)}
