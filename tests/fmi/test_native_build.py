"""Builds of native FMUs: strict C99, reproducible with and without a system compiler.

An importer in plain C runs the built FMUs.
"""

import ctypes
import shutil
import subprocess
import sys
import zipfile
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from fmpy.fmi2 import FMU2Slave
from numpy.testing import assert_allclose

from fmu_blocks import BLOCKS
from fmu_instance import Host
from rigidblocks.block.integrators import RK4
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.stepper import NumpyStepper
from rigidblocks.common.compiler import PORTABLE_FLAGS, compiler, run_compiler, shared_library
from rigidblocks.fmi.native_fmu import MAIN, fmu_sources, model_identifier, native_fmu
from rigidblocks.fmi.variables import Variables
from rigidblocks.kernels.traced_evaluator import TracedEvaluator
from rigidblocks.tracing.c_notation import c_string

SAME = 1e-12  # rounding of reordered operations in a short run
SAME_LONG = 1e-9  # over 10 s an uncontrolled robot amplifies the rounding

ZIG = (sys.executable, "-m", "ziglang", "cc")
FMI_HEADERS = str(files("fmpy").joinpath("c-code"))


@pytest.fixture
def no_system_compiler(monkeypatch, tmp_path):
    """Simulate a machine with only the ziglang package."""
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.delenv("CC", raising=False)
    compiler.cache_clear()
    yield
    compiler.cache_clear()


@pytest.mark.parametrize("name", ["two-link", "2link", "", "a b", "näh"])
def test_native_fmu_with_an_invalid_model_identifier_is_rejected(tmp_path, name):
    reported = f"'{name}' of an FMU: it must consist of letters, digits and _"
    with pytest.raises(ValueError, match=reported):
        native_fmu(BLOCKS["pd"], tmp_path / "pd.fmu", name=name)
    assert list(tmp_path.iterdir()) == []


def test_native_fmu_with_a_nonpositive_inner_step_is_rejected(tmp_path):
    with pytest.raises(ValueError, match="the inner step h must be positive, not 0 s"):
        native_fmu(BLOCKS["planar2"], tmp_path / "a.fmu", h=0)


def sources_of(name):
    return fmu_sources(
        Variables(TracedEvaluator(Memory(BLOCKS[name]))), model_identifier("model"), RK4, 1e-3
    )[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("command", [("gcc",), ZIG], ids=["gcc", "ziglang"])
def test_fmi2_sources_compile_as_strict_c99_without_warnings(command, name):
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not on the PATH")
    shared_library(
        sources_of(name),
        MAIN,
        (*PORTABLE_FLAGS, "-Wall", "-Wextra", "-Wpedantic", "-Werror"),
        command,
    )


@pytest.mark.slow
def test_shared_library_of_an_fmu_exports_only_the_fmi2_functions():
    library = ctypes.CDLL(str(shared_library(sources_of("sampled pd"), MAIN)))
    for name in (name for name in dir(FMU2Slave) if name.startswith("fmi2")):
        assert hasattr(library, name)
    for name in ("step", "initialize", "derivative", "integrate", "report"):
        assert not hasattr(library, name)


def built_twice(tmp_path, monkeypatch):
    """Yield the paths of the same FMU built in two folders, each with an empty cache."""
    for folder in (tmp_path / "one", tmp_path / "another folder"):
        monkeypatch.setenv("RIGIDBLOCKS_CACHE", str(folder / "cache"))
        yield native_fmu(BLOCKS["sampled pd"], folder / "pd.fmu", name="pd")


def assert_identical(paths):
    first, second = paths
    assert first.read_bytes() == second.read_bytes()
    library = zipfile.ZipFile(first).read("binaries/linux64/pd.so")
    assert str(first.parent).encode() not in library


@pytest.mark.slow
def test_two_builds_of_a_native_fmu_are_byte_identical(tmp_path, monkeypatch):
    assert_identical(built_twice(tmp_path, monkeypatch))


@pytest.mark.slow
@pytest.mark.usefixtures("no_system_compiler")
def test_builds_with_ziglang_are_byte_identical_and_match_the_results_of_numpy(
    tmp_path, monkeypatch
):
    assert compiler()[: len(ZIG)] == ZIG
    paths = list(built_twice(tmp_path, monkeypatch))
    assert_identical(paths)
    flat, instance = Memory(BLOCKS["sampled pd"]), Host(paths[0], tmp_path)
    numpy, m = NumpyStepper(flat), flat.start()
    m[flat.where["q_ref"]] = 0.01, 0.02
    instance.set(flat.where["q_ref"], (0.01, 0.02))
    numpy.initialize(m, 0.0)
    instance.initialize()
    numpy.step(m, 0.0, 4e-3)
    instance.fmu.doStep(0.0, 4e-3)
    assert_allclose(instance.m, m, rtol=SAME, atol=SAME)
    instance.fmu.freeInstance()


def test_c_string_literal_escapes_quotes_trigraphs_and_utf8():
    assert c_string('a[1,2] "x"\\??=é%') == '"a[1,2] \\042x\\042\\134\\077\\077=\\303\\251\\045"'


def c_host(folder):
    """Compile the C importer and return its path."""
    program = folder / "host"
    flags = ("-std=c99", "-D_DEFAULT_SOURCE", "-O2", "-rdynamic", "-I", FMI_HEADERS)
    source = Path(__file__).with_name("c_host") / "host.c"
    run_compiler((*compiler(), *flags, str(source), "-o", str(program), "-lm", "-ldl"), folder)
    return program


@pytest.mark.slow
def test_native_fmu_in_a_c_importer_matches_numpy_and_allocates_no_memory_in_steps(tmp_path):
    dt, steps, flat = 1e-2, 1000, Memory(BLOCKS["planar2"])
    program = c_host(tmp_path)
    path = native_fmu(BLOCKS["planar2"], tmp_path / "a.fmu", method=RK4, h=dt)
    loaded = Host(path, tmp_path)
    arguments = (dt, steps, flat.u.start, flat.u.stop - flat.u.start, flat.size)
    command = [str(program), loaded.fmu.dll._name, loaded.description.guid, *map(str, arguments)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    numpy, m, expected = NumpyStepper(flat, RK4, dt), flat.start(), []
    numpy.initialize(m, 0.0)
    for k in range(steps):
        m[flat.u] = np.sin(k * dt + np.arange(2))
        numpy.step(m, k * dt, dt)
        expected.append(m.copy())
    run = np.array([line.split() for line in lines[:-1]], dtype=float)
    assert_allclose(run, expected, rtol=SAME_LONG, atol=SAME_LONG)
    nanoseconds, in_steps, in_all = map(float, lines[-1].split())
    print(
        f"\na step in a C host takes {nanoseconds:.0f} ns; 10 s differ from NumPy by "
        f"{np.abs(run - expected).max():.1e}"
    )
    assert in_all > 0  # the importer counts allocations
    assert in_steps == 0
    loaded.fmu.freeInstance()
