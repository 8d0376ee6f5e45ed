"""A run leaves no paths, modules, memory mappings, files, threads or child processes."""

import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from foreign_fmu import foreign_fmu
from rigidblocks import PDController, System, export_fmu, simulate
from rigidblocks.cosim.graph.fmu_part import FmuError
from scripts import script

FEW = ("compiled block", "recorded run", "Python FMU", "FMI 2", "FMI 3")
MORE = (
    "fused block",
    "block in NumPy",
    "Python block",
    "FMI 2, model exchange",
    "FMI 3, model exchange",
    "isolated FMU",
    "isolated Python FMU",
    "prepared FMU",
    "prepared Python FMU",
)


@pytest.fixture(scope="module")
def soak():
    return script("benchmarks/soak.py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("soak")


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("kind", [*FEW, *(pytest.param(k, marks=pytest.mark.slow) for k in MORE)])
def test_finished_run_releases_threads_files_and_memory(kind, soak, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # no other process creates files here
    monkeypatch.setattr(soak, "WARM_UP", 3)
    grown, _ = soak.growth(soak.kinds(folder)[kind](), 4)
    assert grown == {}


def run(fmu):
    system = System()
    system.add("part", fmu)
    return simulate(system, 0.02, 1e-2, progress=False)


def test_modules_and_import_paths_of_a_python_fmu_are_removed_after_the_run(tmp_path):
    fmu = export_fmu(PDController(kp=[1.0], kd=[0.1]), tmp_path / "pd.fmu", target="python")
    before = list(sys.path)
    first, second = run(fmu), run(fmu)
    assert sys.path == before
    assert np.array_equal(np.asarray(first.values), np.asarray(second.values))
    gone = [
        name
        for name, module in sys.modules.items()
        for place in [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
        if place and "rigidblocks_fmu_" in str(place)
    ]
    assert gone == []


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_fmu_that_fails_to_instantiate_leaves_no_mapped_library(tmp_path):
    fmu = foreign_fmu(tmp_path / "bad.fmu", start="return 0;")

    def mapped():
        return Path("/proc/self/maps").read_text().count("/foreign.so")

    before = mapped()  # FMUs with a fatal error in earlier tests stay loaded
    for _ in range(3):
        with pytest.raises(FmuError, match="cannot be instantiated"):
            run(fmu)
    assert mapped() == before
    assert not [name for name in os.listdir(tempfile.gettempdir()) if name == fmu.stem]
