"""Acceptance report of an FMU, compared with numbers that the compiler reports."""

import json
import platform
import shutil
import subprocess
import zipfile

import pytest

from any_models import DAHLQUIST, any_fmu
from rigidblocks import PDController, RobotPlant, export_fmu, planar2
from rigidblocks.cli import main
from rigidblocks.cosim.graph.fmu_file import FmuError
from rigidblocks.fmi.fmu_checks import acceptance

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def fmu(tmp_path_factory):
    return export_fmu(RobotPlant(planar2()), tmp_path_factory.mktemp("sheet") / "arm.fmu")


@pytest.fixture(scope="module")
def sheet(fmu):
    return {entry.subject: entry for entry in acceptance(fmu)}


def test_exported_native_fmu_passes_all_acceptance_checks(sheet):
    assert all(entry.well for entry in sheet.values()), sheet
    assert sheet["validation"].text == "FMPy finds nothing wrong"
    assert "no call that allocates" in sheet["allocations"].text
    assert "no growth" in sheet["heap"].text


def test_check_command_prints_the_feature_profiles_of_an_fmu(fmu, capsys):
    assert main(["check", str(fmu)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("output derivatives ") and " yes " in line for line in lines)
    assert any(line.startswith("Basic CS: without arrays of fixed size") for line in lines)
    assert main(["check", str(fmu), "--json"]) == 0
    profiles = json.loads(capsys.readouterr().out)["profiles"]
    assert profiles["support"]["directional"] == "yes"
    assert profiles["missing"]["Basic CS"] == ["arrays", "parameter arrays"]


def test_acceptance_report_runs_a_native_fmu_of_fmi_3(tmp_path):
    fmu = export_fmu(PDController([1.0], [1.0]), tmp_path / "pd.fmu", fmi=3)
    sheet = {entry.subject: entry for entry in acceptance(fmu)}
    assert sheet["run"].text.startswith("500 steps of 0.001 s under FMPy")
    assert sheet["validation"].well


@pytest.mark.skipif(shutil.which("size") is None, reason="the tool `size` is not installed")
def test_reported_code_size_equals_the_size_of_the_text_section(fmu, sheet, tmp_path):
    with zipfile.ZipFile(fmu) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".so"))
        archive.extract(name, tmp_path)
    reported = subprocess.run(
        ["size", "-A", tmp_path / name], capture_output=True, text=True
    ).stdout
    size = next(line.split()[1] for line in reported.splitlines() if line.startswith(".text"))
    assert sheet["code"].text == f"{size} bytes of text"


@pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"),
    reason="the stack is measured on Linux on x86-64",
)
def test_reported_stack_of_an_rk4_step_is_between_200_and_20000_bytes(sheet):
    """RK4 of a two-link arm stores its states and five derivatives: hundreds of bytes."""
    depth = int(sheet["stack"].text.split()[0])
    assert 200 < depth < 20_000


def test_acceptance_report_counts_arithmetic_operations_of_generated_sources(tmp_path, capsys):
    path = export_fmu(PDController([1.0], [1.0]), tmp_path / "pd.fmu", "source")
    assert main(["check", str(path)]) == 0
    assert "+ - * /" in capsys.readouterr().out


@pytest.mark.parametrize("fmi", [2, 3])
def test_acceptance_check_compiles_and_runs_a_source_fmu(fmi, tmp_path):
    path = export_fmu(PDController([1.0], [1.0]), tmp_path / "pd.fmu", "source", fmi=fmi)
    sheet = {entry.subject: entry for entry in acceptance(path)}
    assert sheet["platforms"].text == "none: sources only"
    assert sheet["run"].text.startswith("500 steps of 0.001 s under FMPy")
    assert ("stack" in sheet) == (fmi == 2 and platform.system() == "Linux")
    assert all(entry.well for entry in sheet.values())


def test_acceptance_report_states_that_the_c_compiler_is_missing(tmp_path, monkeypatch):
    path = export_fmu(PDController([1.0], [1.0]), tmp_path / "pd.fmu", "source")

    def refused(path):
        raise FmuError(f"'{path}' has sources, and no C compiler was found")

    monkeypatch.setattr("rigidblocks.fmi.fmu_checks.check_compiler", refused)
    sheet = {entry.subject: entry for entry in acceptance(path)}
    assert sheet["run"].text == f"not run: '{path}' has sources, and no C compiler was found"
    assert "operations" in sheet
    assert "stack" not in sheet


def test_check_command_rejects_an_fmu_that_is_not_a_zip_archive(tmp_path, capsys):
    (tmp_path / "a.fmu").write_text("no archive")
    assert main(["check", str(tmp_path / "a.fmu")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_acceptance_report_does_not_count_operations_of_sources_of_other_tools(tmp_path):
    path = any_fmu(tmp_path, DAHLQUIST, 2)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("sources/model.h", "double get(Model *m, double *x);")
    assert "operations" not in {entry.subject for entry in acceptance(path)}
