"""Core of a generated program on a bare-metal Cortex-M7 in QEMU, compared with this machine."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from planar2ctrl import parts, wired
from rigidblocks import build_runner
from rigidblocks.common.compiler import PORTABLE_FLAGS, compiler
from six_axis import six_axis

pytestmark = [pytest.mark.interop, pytest.mark.slow]
SUPPORT = Path(__file__).parents[1] / "support"
STEPS = 100
M7 = ("-mcpu=cortex-m7", "-mfpu=fpv5-d16", "-mfloat-abi=hard", "-std=c99", "-O2")
BOARD = ("-M", "mps2-an500", "-nographic", "-monitor", "none", "-serial", "none")


def numbers(command, folder):
    said = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    return np.array([int(line, 16) for line in said.split()], dtype=np.uint64).view(float)


@pytest.mark.parametrize("system", [lambda: wired(parts()), six_axis], ids=["planar2ctrl", "arm"])
def test_generated_step_function_has_equal_results_on_a_cortex_m7_and_on_the_host(tmp_path, system):
    for tool in ("arm-none-eabi-gcc", "qemu-system-arm"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    folder = build_runner(system(), tmp_path / "core", 1e-3, platform="source")
    sources = (
        SUPPORT / "core_steps.c",
        "bare_metal_step.c",
        f"-I{folder}",
        f"-DSTEPS={STEPS}",
        "-lm",
    )
    board = ("--specs=rdimon.specs", "-T", SUPPORT / "cortex_m7.ld")
    own = [flag for flag in PORTABLE_FLAGS if flag not in ("-fPIC", "-shared")]
    for command in (
        ["arm-none-eabi-gcc", *M7, "-ffp-contract=off", *board, *sources, "-o", "there.elf"],
        [*compiler(), *own, *sources, "-o", "here"],
    ):
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    emulated = ["qemu-system-arm", *BOARD, "-semihosting-config", "enable=on,target=native"]
    there = numbers([*emulated, "-kernel", "there.elf"], folder)
    here = numbers([folder / "here"], folder)
    assert len(here) > STEPS
    assert np.ptp(here) > 1
    assert_allclose(there, here, rtol=1e-12, atol=1e-12)
