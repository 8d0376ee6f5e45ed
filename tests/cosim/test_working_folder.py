"""FMUs run in any working directory, and no run changes the working directory of other threads."""

import os
import subprocess
import sys
import threading
import zipfile

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from foreign_fmu import foreign_fmu
from rigidblocks import (
    PDController,
    Result,
    System,
    export_fmu,
    grid,
    prepare,
    simulate,
    sweep,
)
from rigidblocks.cosim.graph.fmu_part import Fmu
from rigidblocks.cosim.scenario import Scenario


@pytest.fixture(scope="module")
def fmus(tmp_path_factory):
    folder, block = tmp_path_factory.mktemp("fmus"), PDController(kp=[1.0], kd=[0.1])
    return {
        "foreign": foreign_fmu(folder / "foreign.fmu"),
        "fmi2": export_fmu(block, folder / "fmi2.fmu"),
        "fmi3": export_fmu(block, folder / "fmi3.fmu", fmi=3),
        "python": export_fmu(block, folder / "python.fmu", target="python"),
    }


def of(fmu, **options):
    system = System()
    system.add("part", fmu, **options)
    return system


def values(result):
    return np.asarray(result.values)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("foreign", {}),
        ("fmi2", {}),
        ("fmi3", {}),
        ("python", {}),
        ("fmi2", {"kind": "model exchange"}),
        ("fmi3", {"kind": "model exchange"}),
        ("foreign", {"isolated": True}),
    ],
)
def test_relative_fmu_path_stays_valid_after_a_change_of_the_working_folder(
    name, options, fmus, tmp_path, monkeypatch
):
    absolute = values(simulate(of(fmus[name], **options), 0.02, 1e-2))
    monkeypatch.chdir(fmus[name].parent)
    system = of(fmus[name].name, **options)
    run = prepare(system, 1e-2)
    monkeypatch.chdir(tmp_path)
    assert_array_equal(values(simulate(system, 0.02, 1e-2)), absolute)
    assert_array_equal(values(run.simulate(0.02)), absolute)
    assert os.getcwd() == str(tmp_path)


def test_error_for_a_relative_fmu_path_shows_the_path_as_the_user_wrote_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RuntimeError, match=r"FMU file 'none\.fmu' does not exist"):
        of("none.fmu")
    foreign_fmu(tmp_path / "some.fmu")
    assert Fmu("some.fmu").path == tmp_path / "some.fmu"


@pytest.mark.slow
def test_running_fmus_does_not_change_the_working_directory_of_other_threads(
    fmus, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").write_text("here")
    systems = [of(fmus[name]) for name in ("foreign", "fmi2", "fmi3")]
    over, seen = threading.Event(), []

    def look():
        while not over.is_set():
            if os.getcwd() != str(tmp_path) or not os.path.exists("there"):
                seen.append(os.getcwd())

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        for system in 15 * systems:
            simulate(system, 0.02, 1e-2)
    finally:
        over.set()
        watcher.join()
    assert seen == []


@pytest.mark.slow
def test_sweep_in_threads_with_a_relative_fmu_path_completes_every_run(fmus, monkeypatch):
    monkeypatch.chdir(fmus["foreign"].parent)
    design = grid({"part.u": np.linspace(0.0, 1.0, 60)})
    done = sweep(
        of("foreign.fmu"), design, 0.02, 1e-2, {"y": "last part.y"}, threads=4, progress=False
    )
    assert not done.failures
    assert_array_equal(done["y"], 2.0 * np.linspace(0.0, 1.0, 60))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs the linker of Linux")
def test_fmu_library_that_needs_a_library_in_its_working_folder_is_loaded(tmp_path, monkeypatch):
    """The FMU library depends on a library that the linker searches in the working directory."""
    plain = foreign_fmu(tmp_path / "plain.fmu")
    with zipfile.ZipFile(plain) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    (name,) = (name for name in content if name.endswith(".so"))
    (tmp_path / "code").mkdir()
    (tmp_path / "code/inner.so").write_bytes(content[name])
    (tmp_path / "code/outer.c").write_text("int outer_of_the_fmu;\n")
    link = ["-shared", "-o", "outer.so", "outer.c", "-Wl,--no-as-needed", "-L.", "-l:inner.so"]
    subprocess.run(["gcc", *link, "-Wl,-rpath,."], cwd=tmp_path / "code", check=True)
    nested = tmp_path / "nested.fmu"
    with zipfile.ZipFile(nested, "w") as archive:
        archive.writestr("modelDescription.xml", content["modelDescription.xml"])
        archive.writestr(name, (tmp_path / "code/outer.so").read_bytes())
        archive.writestr(name.replace("foreign.so", "inner.so"), content[name])
    monkeypatch.chdir(tmp_path)
    assert_array_equal(
        values(simulate(of(nested, start={"u": 3.0}), 0.02, 1e-2)),
        values(simulate(of(plain, start={"u": 3.0}), 0.02, 1e-2)),
    )
    assert os.getcwd() == str(tmp_path)


def test_relative_record_path_refers_to_the_folder_at_the_start_of_the_run(
    fmus, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "story.csv").write_text("time,part.u\n0.01,2\n")
    reported = Scenario.parse("story.csv")
    simulate(of(fmus["foreign"]), 0.02, 1e-2, save="run.arrow", scenario=reported)
    assert len(Result.load("run.arrow").time) == 3
