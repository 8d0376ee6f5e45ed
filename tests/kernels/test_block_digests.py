"""The digest of a block identifies its kernel in the cache: equal digests mean equal C code."""

import os
import time
from dataclasses import dataclass, replace

import numpy as np
import pytest

from planar2ctrl import parts, wired
from rigidblocks import (
    Block,
    FusedSystem,
    PDController,
    Port,
    RobotPlant,
    Sine,
    auto_tree,
    load_model,
    planar2,
)
from rigidblocks.block.adaptive_methods import ADAPTIVE, STIFF
from rigidblocks.block.integrators import RK4
from rigidblocks.block.memory_layout import Memory
from rigidblocks.common import compiler, package_info
from rigidblocks.cosim.graph.part import component_of
from rigidblocks.fmi.native_fmu import native_fmu
from rigidblocks.kernels import block_digest
from rigidblocks.kernels import compiled_stepper as stepper
from rigidblocks.kernels.block_digest import INTERVAL, fingerprint
from rigidblocks.kernels.compiled_stepper import kernel_library
from rigidblocks.kernels.traced_evaluator import TracedEvaluator
from rigidblocks.library.plant_from_file import described_plant
from urdf_text import ARM


def no_trace(*_, **__):
    pytest.fail("something is traced")


@pytest.fixture
def fresh_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RIGIDBLOCKS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.usefixtures("fresh_cache")
def test_cached_kernel_is_reused_without_tracing(monkeypatch):
    block = Sine([1.0, 2.0], [1.0, 0.5])
    first = kernel_library(Memory(block), RK4, 1e-3)
    pairs = component_of(block)[1]
    monkeypatch.setattr(stepper, "model_header", no_trace)
    monkeypatch.setattr("rigidblocks.kernels.traced_evaluator.sample_graph", no_trace)
    again = Sine([1.0, 2.0], [1.0, 0.5])
    assert kernel_library(Memory(again), RK4, 1e-3) == first
    assert component_of(again)[1] == pairs
    with pytest.raises(pytest.fail.Exception, match="something is traced"):
        kernel_library(Memory(again), RK4, 2e-3)


@pytest.mark.usefixtures("fresh_cache")
def test_kernel_is_compiled_again_for_other_compiler_flags(monkeypatch):
    memory = Memory(Sine())
    first = kernel_library(memory, RK4, 1e-3)
    monkeypatch.setattr(stepper, "PORTABLE_FLAGS", (*compiler.PORTABLE_FLAGS, "-O0"))
    assert kernel_library(memory, RK4, 1e-3) != first


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_cache")
def test_missing_or_damaged_kernel_library_is_rebuilt(fresh_cache):
    memory = Memory(Sine())
    path = kernel_library(memory, RK4, 1e-3)
    path.unlink()
    assert kernel_library(memory, RK4, 1e-3) == path
    path.write_bytes(b"not a library")
    assert kernel_library(memory, RK4, 1e-3).read_bytes() != b"not a library"
    for text in fresh_cache.glob("*.txt"):
        text.write_text("another key")
    assert kernel_library(memory, RK4, 1e-3) == path
    assert compiler.clear_cache(fresh_cache) >= 2
    assert list(fresh_cache.iterdir()) == []


@pytest.mark.slow
def test_blocks_with_different_parameters_or_code_have_different_digests():
    things = [
        Memory(RobotPlant(planar2())),
        Memory(RobotPlant(planar2()), ()),
        Memory(RobotPlant(planar2().with_gravity((0.0, -9.81, 0.0)))),
        Memory(RobotPlant(auto_tree(2))),
        Memory(RobotPlant(auto_tree(2, skew=0.3))),
        Memory(PDController((60.0, 30.0), (8.0, 4.0))),
        Memory(PDController((60.0, 30.0), (8.0, np.nextafter(4.0, 5.0)))),
        Memory(PDController((60.0, 30.0), (8.0, 4.0), sample_time=1e-3)),
        Memory(FusedSystem(wired(parts()), 1e-3)),
        Memory(FusedSystem(wired(parts()), 2e-3)),
        Memory(FusedSystem(wired(parts()), 1e-3, "jacobi")),
        Memory(FusedSystem(wired(parts((0.0, 0.0, 0.0))), 1e-3)),
    ]
    digests = [fingerprint(thing) for thing in things]
    assert None not in digests
    assert len(set(digests)) == len(things)
    assert fingerprint(Memory(RobotPlant(planar2()))) == digests[0]
    assert fingerprint(Memory(FusedSystem(wired(parts()), 1e-3))) == digests[8]


def test_digest_of_a_block_does_not_change_after_its_memory_is_used():
    memory = Memory(FusedSystem(wired(parts()), 1e-3))
    before = fingerprint(memory)
    memory.start()
    _ = memory.block.outputs, memory.block.sampled, memory.block.parameters
    assert fingerprint(memory) == before


@dataclass(frozen=True)
class Own(Block):
    """A block of user code, which may change from run to run."""

    outputs = (Port("y"),)

    def output(self, t):
        return {"y": 2.0 * t}


def test_block_with_user_code_has_no_digest(monkeypatch):
    assert fingerprint(Memory(Own())) is None
    assert fingerprint(replace(RK4), lambda: 1.0) is None
    system = wired(parts())
    system.add("own", Own())
    assert fingerprint(Memory(FusedSystem(system, 1e-3))) is None
    monkeypatch.setattr(Sine, "output", lambda _, t: {"y": t})
    assert fingerprint(Memory(Sine())) is None


def test_block_whose_source_file_changed_after_import_has_no_digest(monkeypatch):
    assert fingerprint(1.0) is not None
    monkeypatch.setattr(package_info, "IMPORT_TIME", os.path.getmtime(package_info.__file__) - 1.0)
    time.sleep(INTERVAL)
    assert fingerprint(1.0) is None
    monkeypatch.setattr(package_info, "IMPORT_TIME", time.time())
    time.sleep(INTERVAL)
    assert fingerprint(1.0) is not None


def test_precomputed_integrator_digests_equal_digests_computed_at_run_time():
    method = replace(ADAPTIVE, rtol=1e-9)
    known = block_digest._Digest(block_digest._integrator_digests())
    assert known.digest(method) == block_digest._Digest().digest(method)
    assert fingerprint(ADAPTIVE) != fingerprint(method) != fingerprint(STIFF)


def test_cached_library_of_equal_blocks_is_verified_once(monkeypatch):
    """The status of a file shows that its content has not changed since the last check."""
    kernel_library(Memory(Sine()), ADAPTIVE, 0.01)
    time.sleep(0.2)  # a younger file is always checked
    checked = []
    check = compiler._damage
    monkeypatch.setattr(compiler, "_damage", lambda path: checked.append(path) or check(path))
    monkeypatch.setattr(compiler, "_checked", {})
    for _ in range(50):
        kernel_library(Memory(Sine()), ADAPTIVE, 0.01)
    assert len(checked) == len(set(checked)) == 2  # the library, and the text with its key


def test_robot_files_with_equal_content_have_equal_digests(tmp_path):
    file = tmp_path / "arm.urdf"

    def digest(text=ARM):
        file.write_text(text)
        return fingerprint(described_plant(load_model(file)))

    assert digest() == digest() is not None
    assert digest(ARM.replace('mass value="', 'mass value="1')) != digest()


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_cache")
@pytest.mark.parametrize("fmi", [2, 3])
def test_second_export_of_a_block_does_not_trace_again_and_writes_identical_bytes(
    tmp_path, monkeypatch, fmi
):
    def export(**options):
        plant = RobotPlant(planar2())
        return native_fmu(plant, tmp_path / "a.fmu", fmi=fmi, **options).read_bytes()

    first = export()
    with monkeypatch.context() as patch:
        patch.setattr(compiler, "cache_folder", lambda: tmp_path / "other cache")
        assert export() == first
    monkeypatch.setattr(TracedEvaluator, "_trace_function", no_trace)
    assert export() == first
    for options in ({"h": 5e-4}, {"tunable": ()}, {"name": "other"}, {"method": RK4}):
        with pytest.raises(pytest.fail.Exception, match="something is traced"):
            export(**options)
