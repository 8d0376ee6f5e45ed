"""FMU files in a system run like blocks, and invalid files are rejected before the run."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from planar2ctrl import REFERENCE, parts, wired
from rigidblocks import RobotPlant, SimulationError, System, export_fmu, planar2, simulate
from rigidblocks.cosim.graph.fmu_part import Fmu, FmuError
from runaway import Runaway

FORMS_AGREE = 1e-10  # rounding; the closed loop keeps the difference between the forms bounded
COMMAND = (sys.executable, "-m", "rigidblocks")
SCRIPTS = Path(__file__).parents[2] / "fmus"


@pytest.fixture(scope="module")
def fmus(tmp_path_factory):
    """Return the three parts of the demo as FMUs, by target and name."""
    folder = tmp_path_factory.mktemp("fmus")
    return {
        target: {
            name: export_fmu(
                SCRIPTS / f"planar2_{name}_fmu.py", folder / target / f"{name}.fmu", target
            )
            for name in parts()
        }
        for target in ("python", "native")
    }


def repacked(path: Path, new: Path, change) -> Path:
    """Copy an archive; `change` maps its content (bytes by name) to the new content."""
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(new, "w") as archive:
        for name, data in change(content).items():
            archive.writestr(name, data)
    return new


@pytest.mark.slow
@pytest.mark.parametrize("order", ["gauss-seidel", "jacobi"])
@pytest.mark.parametrize("target", ["python", "native"])
def test_run_of_exported_fmus_matches_the_results_of_their_blocks(fmus, target, order):
    blocks = simulate(wired(parts()), 10.0, 1e-3, order=order)
    other = simulate(wired(fmus[target]), 10.0, 1e-3, order=order)
    assert other.columns == blocks.columns
    assert other.units == blocks.units
    for port in blocks.ports:
        assert_allclose(
            other[port.name],
            blocks[port.name],
            rtol=FORMS_AGREE,
            atol=FORMS_AGREE,
            err_msg=port.name,
        )


@pytest.mark.slow
def test_results_of_a_system_of_blocks_and_fmus_match_the_system_of_blocks(fmus):
    mixed = wired(
        {
            "robot": fmus["native"]["robot"],
            "pd": fmus["python"]["pd"],
            "command": parts()["command"],
        }
    )
    result = simulate(mixed, 1.0, 1e-3)
    assert np.abs(result["robot.q"][-1] - REFERENCE[1.0][:2]).max() < 1e-3
    blocks = simulate(wired(parts()), 1.0, 1e-3)
    assert_allclose(result["robot.q"], blocks["robot.q"], rtol=FORMS_AGREE, atol=FORMS_AGREE)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["python", "native"])
def test_exported_fmu_has_the_ports_and_feedthrough_of_its_block(fmus, target):
    for name, block in parts().items():
        fmu = Fmu(fmus[target][name])
        for ours, theirs in (
            (block.inputs, fmu.inputs),
            (block.outputs, fmu.outputs),
            (block.parameters, fmu.parameters),
        ):
            assert {(p.name, p.shape, p.units) for p in theirs} == {
                (p.name, p.shape, p.units) for p in ours
            }
        system = System()
        system.add("block", block)
        assert fmu.feedthrough == system.parts["block"].feedthrough


@pytest.mark.slow
@pytest.mark.parametrize("target", ["python", "native"])
def test_fmu_and_its_block_have_equal_results_for_the_same_start_values(fmus, target):
    start = {"q": [0.1, -0.2], "qd": [0.3, 0.4], "tau": [0.5, -0.6], "gravity": [0.0, -9.81, 0.0]}
    runs = []
    for component in (RobotPlant(planar2()), fmus[target]["robot"]):
        system = System()
        system.add("robot", component, start=start)
        runs.append(simulate(system, 0.05, 1e-3))
    assert_allclose(runs[1].values, runs[0].values, rtol=FORMS_AGREE, atol=1e-12)


def test_connection_of_different_units_between_fmu_and_block_is_rejected(fmus):
    system = System()
    system.add("robot", fmus["native"]["robot"])
    system.add("pd", parts()["pd"])
    with pytest.raises(
        ValueError, match=r"cannot connect robot.q \(2, rad\) to pd.qd \(2, rad/s\)"
    ):
        system.connect("robot.q", "pd.qd")


def test_missing_or_damaged_fmu_file_is_rejected(fmus, tmp_path):
    with pytest.raises(FmuError, match=r"FMU file 'nowhere.fmu' does not exist"):
        System().add("robot", "nowhere.fmu")
    no_zip = tmp_path / "text.fmu"
    no_zip.write_text("this is no archive")
    with pytest.raises(FmuError, match="is a folder; an FMU is a file"):
        System().add("a", tmp_path)
    with pytest.raises(FmuError, match=r"text.fmu' is damaged: File is not a zip file"):
        System().add("robot", no_zip)
    cut = tmp_path / "cut.fmu"
    cut.write_bytes(fmus["native"]["robot"].read_bytes()[:-2000])
    with pytest.raises(FmuError, match=r"cut.fmu' is damaged"):
        System().add("robot", cut)
    no_description = repacked(
        fmus["native"]["robot"],
        tmp_path / "bare.fmu",
        lambda c: {k: v for k, v in c.items() if "Description" not in k},
    )
    with pytest.raises(FmuError, match=r"bare.fmu' is damaged: .*modelDescription"):
        System().add("robot", no_description)


def test_fmu_file_with_a_flipped_bit_is_rejected(fmus, tmp_path):
    path = tmp_path / "flipped.fmu"
    shutil.copy(fmus["native"]["robot"], path)
    with zipfile.ZipFile(path) as archive:
        entry = max(archive.infolist(), key=lambda item: item.compress_size)
    data = bytearray(path.read_bytes())
    data[entry.header_offset + 200] ^= 0x40
    path.write_bytes(bytes(data))
    with pytest.raises(FmuError, match=r"flipped.fmu' is damaged"):
        System().add("robot", path)


def test_fmu_without_a_binary_for_this_platform_is_rejected(fmus, tmp_path):
    def moved(content):
        return {
            name.replace("binaries/linux64/", "binaries/win64/"): data
            for name, data in content.items()
        }

    other = repacked(fmus["native"]["robot"], tmp_path / "windows.fmu", moved)
    with pytest.raises(FmuError, match=r"windows.fmu' has no binary for linux64; it has: win64"):
        System().add("robot", other)


@pytest.mark.parametrize(
    "name", ["../outside.txt", "/tmp/outside.txt", "resources/../../outside.txt", "C:/outside.txt"]
)
def test_fmu_archive_that_unpacks_outside_its_folder_is_rejected(fmus, tmp_path, name):
    evil = repacked(
        fmus["native"]["robot"], tmp_path / "evil.fmu", lambda content: {**content, name: b"evil"}
    )
    with pytest.raises(
        FmuError, match=r"evil.fmu' contains the entry '.*outside.txt', whose path leads outside"
    ):
        System().add("robot", evil)
    assert not list(tmp_path.rglob("outside.txt"))


def test_fmu_with_an_invalid_library_is_rejected_and_its_folder_removed(
    fmus, tmp_path, monkeypatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def emptied(content):
        return {
            name: b"" if name.startswith("binaries/") else data for name, data in content.items()
        }

    system = System()
    system.add("robot", repacked(fmus["native"]["robot"], tmp_path / "empty.fmu", emptied))
    with pytest.raises(
        FmuError, match=r"'robot' \(.*empty.fmu\) cannot be instantiated: .*file too short"
    ):
        simulate(system, 0.01, 1e-3)
    assert [path.name for path in tmp_path.iterdir()] == ["empty.fmu"]


@pytest.mark.slow
def test_run_that_ends_at_an_fmu_error_returns_the_samples_before_the_error(
    tmp_path,
):
    system = System()
    system.add("runaway", export_fmu(Runaway(), tmp_path / "runaway.fmu"))
    system.add("waiting", export_fmu(parts()["command"], tmp_path / "waiting.fmu"))
    message = (
        r"stopped at t = 1(\.\d+)? s: 'runaway': fmi2DoStep gave status \w+ at t = "
        r"1(\.\d+)?.*; its log ends: .*x"
    )
    with pytest.raises(SimulationError, match=message) as caught:
        simulate(system, 2.0, 1e-2, save=tmp_path / "partial.csv")
    result = caught.value.result
    assert 1.0 <= result.time[-1] < 2.0
    assert_allclose(result["runaway.x"][:50], 1 / (1 - result.time[:50]), rtol=1e-6)
    assert len((tmp_path / "partial.csv").read_text().splitlines()) == len(result.time) + 1


@pytest.mark.slow
def test_fmu_command_builds_python_and_native_fmus(tmp_path):
    for target in ("python", "native"):
        path = tmp_path / f"{target}.fmu"
        command = [
            *COMMAND,
            "fmu",
            str(SCRIPTS / "planar2_pd_fmu.py"),
            "-o",
            str(path),
            "--target",
            target,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == str(path)
        assert {port.name for port in Fmu(path).outputs} == {"tau"}


@pytest.mark.slow
def test_error_of_the_fmu_command_for_a_missing_script_has_one_line(tmp_path):
    done = subprocess.run(
        [*COMMAND, "fmu", str(tmp_path / "no.py")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("rigidblocks: script ")
    assert "Traceback" not in done.stderr
