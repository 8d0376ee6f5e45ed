"""FMU files in a system: they run like blocks, and a file that cannot be used is refused before
anything starts.
"""

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
from rigidblocks.system.fmu import Fmu, FmuError
from runaway import Runaway

FORMS_AGREE = 1e-10  # the forms differ by rounding, which the closed loop keeps bounded
COMMAND = (sys.executable, "-m", "rigidblocks")
SCRIPTS = Path(__file__).parents[2] / "fmus"


@pytest.fixture(scope="module")
def fmus(tmp_path_factory):
    """The three parts of the demo as FMUs, by target and name."""
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
    """A copy of an archive with its content, bytes by name, changed."""
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(new, "w") as archive:
        for name, data in change(content).items():
            archive.writestr(name, data)
    return new


@pytest.mark.slow
@pytest.mark.parametrize("order", ["gauss-seidel", "jacobi"])
@pytest.mark.parametrize("target", ["python", "native"])
def test_a_run_of_fmus_is_the_run_of_the_blocks(fmus, target, order):
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
def test_blocks_and_both_kinds_of_fmu_mix_in_one_system(fmus):
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


@pytest.mark.parametrize("target", ["python", "native"])
def test_an_fmu_has_the_ports_and_feedthrough_of_its_block(fmus, target):
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


@pytest.mark.parametrize("target", ["python", "native"])
def test_start_values_reach_an_fmu(fmus, target):
    start = {"q": [0.1, -0.2], "qd": [0.3, 0.4], "tau": [0.5, -0.6], "gravity": [0.0, -9.81, 0.0]}
    runs = []
    for component in (RobotPlant(planar2()), fmus[target]["robot"]):
        system = System()
        system.add("robot", component, start=start)
        runs.append(simulate(system, 0.05, 1e-3))
    assert_allclose(runs[1].values, runs[0].values, rtol=FORMS_AGREE, atol=1e-12)


def test_units_are_checked_between_a_block_and_an_fmu(fmus):
    system = System()
    system.add("robot", fmus["native"]["robot"])
    system.add("pd", parts()["pd"])
    with pytest.raises(
        ValueError, match=r"cannot connect robot.q \(2, rad\) to pd.qd \(2, rad/s\)"
    ):
        system.connect("robot.q", "pd.qd")


def test_a_missing_or_damaged_file_is_refused(fmus, tmp_path):
    with pytest.raises(FmuError, match=r"there is no FMU file 'nowhere.fmu'"):
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


def test_a_flipped_bit_is_found(fmus, tmp_path):
    path = tmp_path / "flipped.fmu"
    shutil.copy(fmus["native"]["robot"], path)
    with zipfile.ZipFile(path) as archive:
        entry = max(archive.infolist(), key=lambda item: item.compress_size)
    data = bytearray(path.read_bytes())
    data[entry.header_offset + 200] ^= 0x40
    path.write_bytes(bytes(data))
    with pytest.raises(FmuError, match=r"flipped.fmu' is damaged"):
        System().add("robot", path)


def test_an_fmu_of_another_platform_is_refused_with_those_it_has(fmus, tmp_path):
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
def test_an_fmu_that_unpacks_outside_its_folder_is_refused(fmus, tmp_path, name):
    evil = repacked(
        fmus["native"]["robot"], tmp_path / "evil.fmu", lambda content: {**content, name: b"evil"}
    )
    with pytest.raises(
        FmuError, match=r"evil.fmu' would unpack outside its folder, to '.*outside.txt'"
    ):
        System().add("robot", evil)
    assert not list(tmp_path.rglob("outside.txt"))


def test_an_fmu_whose_library_does_not_load_is_refused_with_nothing_left_behind(
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
def test_an_fmu_that_reports_an_error_in_the_middle_of_a_run_leaves_the_result_up_to_there(
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
def test_the_command_line_builds_an_fmu_of_either_kind(tmp_path):
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


def test_the_command_line_says_what_is_wrong_in_a_line(tmp_path):
    done = subprocess.run(
        [*COMMAND, "fmu", str(tmp_path / "no.py")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("rigidblocks: there is no script")
    assert "Traceback" not in done.stderr
