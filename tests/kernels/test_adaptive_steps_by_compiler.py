"""Adaptive steps are bitwise equal with all compilers.

Only operations with exact rounding determine the step size.
"""

import ctypes
import shutil
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from rigidblocks.block.adaptive_methods import METHODS, memory_for
from rigidblocks.common.compiler import PORTABLE_FLAGS
from rigidblocks.kernels.model_header import KERNEL, model_header
from rigidblocks.kernels.traced_evaluator import TracedEvaluator
from rigidblocks.library import ClosedLoopPlant
from rigidblocks.robot.robots import five_bar
from rigidblocks.tracing.ccode import c_text

COMPILERS = {
    "gcc": ["gcc"],
    "gcc for this machine": ["gcc", "-march=native"],
    "clang": ["clang"],
    "clang for this machine": ["clang", "-march=native"],
    "zig": [sys.executable, "-m", "ziglang", "cc"],
}


def rows(folder, name, memory):
    """Return the memory after each of 200 steps through a singular configuration."""
    library = folder / f"{name.replace(' ', '_')}.so"
    flags = ["-shared", "-fPIC", str(folder / "kernel.c"), "-o", str(library), "-lm"]
    subprocess.run([*COMPILERS[name], *PORTABLE_FLAGS, *flags], check=True)
    kernel, m, done = ctypes.CDLL(str(library)), memory.start(), ctypes.c_int()
    values = np.zeros((200, memory.size))
    at, start, dt = ctypes.c_void_p(m.ctypes.data), ctypes.c_double(0.0), ctypes.c_double(0.01)
    assert kernel.rb_block_initialize(at, start) == 0
    to = ctypes.c_void_p(values.ctypes.data)
    assert kernel.rb_block_run(at, start, dt, 0, len(values), to, ctypes.byref(done)) == 0
    return values


@pytest.mark.interop
@pytest.mark.parametrize("method", ["adaptive", "stiff"])
def test_results_of_adaptive_steps_are_bitwise_equal_for_all_compilers(tmp_path, method):
    mechanism, chosen = five_bar(), METHODS[method]
    memory = memory_for(ClosedLoopPlant(mechanism.model, mechanism.q0), chosen)
    (tmp_path / "model.h").write_text(model_header(TracedEvaluator(memory), chosen, np.inf))
    for name in (*KERNEL, "kernel.c"):
        (tmp_path / name).write_text(c_text(f"kernel/{name}"))
    there = [name for name, (command, *_) in COMPILERS.items() if shutil.which(command)]
    if not find_spec("ziglang"):
        there.remove("zig")
    assert len(there) > 1
    first, *others = (rows(tmp_path, name, memory) for name in there)
    for other in others:
        assert other.tobytes() == first.tobytes()
