"""A kernel is found by what its block is, and a digest that is the same stands for the same C."""

import os
import time
from dataclasses import dataclass, replace

import numpy as np
import pytest

import rigidblocks
from planar2ctrl import parts, wired
from rigidblocks import (
    RK4,
    Block,
    FusedSystem,
    PDController,
    Port,
    RobotPlant,
    Sine,
    auto_tree,
    planar2,
)
from rigidblocks.block.memory import Memory
from rigidblocks.kernels import stepper
from rigidblocks.kernels.fingerprint import fingerprint
from rigidblocks.kernels.stepper import kernel_library
from rigidblocks.system.part import component_of
from rigidblocks.tracing import cache


def no_trace(*_):
    pytest.fail("something is traced")


@pytest.fixture
def fresh_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RIGIDBLOCKS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.usefixtures("fresh_cache")
def test_what_was_compiled_once_is_found_without_a_trace(monkeypatch):
    block = Sine([1.0, 2.0], [1.0, 0.5])
    first = kernel_library(Memory(block), RK4, 1e-3)
    pairs = component_of(block)[1]
    monkeypatch.setattr(stepper, "model_header", no_trace)
    monkeypatch.setattr("rigidblocks.kernels.feedthrough.after_sample", no_trace)
    again = Sine([1.0, 2.0], [1.0, 0.5])
    assert kernel_library(Memory(again), RK4, 1e-3) == first
    assert component_of(again)[1] == pairs
    with pytest.raises(pytest.fail.Exception, match="something is traced"):
        kernel_library(Memory(again), RK4, 2e-3)


@pytest.mark.usefixtures("fresh_cache")
def test_a_library_that_is_gone_or_damaged_is_made_anew(fresh_cache):
    memory = Memory(Sine())
    path = kernel_library(memory, RK4, 1e-3)
    path.unlink()
    assert kernel_library(memory, RK4, 1e-3) == path
    path.write_bytes(b"not a library")
    assert kernel_library(memory, RK4, 1e-3).read_bytes() != b"not a library"
    for text in fresh_cache.glob("*.txt"):
        text.write_text("another key")
    assert kernel_library(memory, RK4, 1e-3) == path
    assert cache.clear(fresh_cache) >= 2
    assert list(fresh_cache.iterdir()) == []


def test_blocks_that_differ_have_other_digests():
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


def test_use_does_not_change_a_digest():
    memory = Memory(FusedSystem(wired(parts()), 1e-3))
    before = fingerprint(memory)
    memory.start()
    _ = memory.block.outputs, memory.block.sampled, memory.block.parameters
    assert fingerprint(memory) == before


@dataclass(frozen=True)
class Own(Block):
    """A block of somebody else, whose code may change from run to run."""

    outputs = (Port("y"),)

    def output(self, t):
        return {"y": 2.0 * t}


def test_code_from_elsewhere_has_no_digest(monkeypatch):
    assert fingerprint(Memory(Own())) is None
    assert fingerprint(replace(RK4), lambda: 1.0) is None
    system = wired(parts())
    system.add("own", Own())
    assert fingerprint(Memory(FusedSystem(system, 1e-3))) is None
    monkeypatch.setattr(Sine, "output", lambda _, t: {"y": t})
    assert fingerprint(Memory(Sine())) is None


def test_sources_that_changed_after_they_were_loaded_have_no_digest(monkeypatch):
    assert fingerprint(1.0) is not None
    monkeypatch.setattr(rigidblocks, "__loaded__", os.path.getmtime(rigidblocks.__file__) - 1.0)
    assert fingerprint(1.0) is None
    monkeypatch.setattr(rigidblocks, "__loaded__", time.time())
    assert fingerprint(1.0) is not None
