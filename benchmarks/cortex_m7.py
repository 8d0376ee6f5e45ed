"""Cost of the step functions on a Cortex-M7: code, data and stack sizes, instructions per step.

qemu counts the instructions. The script needs arm-none-eabi-gcc and qemu-system-arm. Instructions
are not cycles: a Cortex-M7 issues up to two instructions per cycle, and waits for its flash memory.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from rigidblocks import System, build_runner

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/support"))

import planar2ctrl
from six_axis import six_axis

HERE = Path(__file__).parent
STEPS = 1000
FLAGS = ("-mcpu=cortex-m7", "-mfpu=fpv5-d16", "-mfloat-abi=hard", "-std=gnu99", "-O2")
BARE = ("-ffp-contract=off", "-fdata-sections", "-ffunction-sections", "-Wl,--gc-sections")
QEMU = ("-M", "mps2-an500", "-nographic", "-monitor", "none", "-serial", "none")


def cost(system: System, folder: Path) -> tuple[list[str], list[str]]:
    """Return two rows: the section sizes of the compiled code, and the cost per step."""
    build_runner(system, folder, 1e-3, platform="source")

    def said(*command: str | Path) -> list[str]:
        done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
        return done.stdout.split()

    said("arm-none-eabi-gcc", *FLAGS, *BARE, "-c", "bare_metal_step.c")
    sizes = said("arm-none-eabi-size", "core.o")[6:9]
    board = ("--specs=rdimon.specs", "-T", HERE.parent / "tests/support/cortex_m7.ld", "-lm")
    sources = (HERE / "core_cost.c", "bare_metal_step.c", "-I.", f"-DSTEPS={STEPS}")
    said("arm-none-eabi-gcc", *FLAGS, *BARE, *sources, *board, "-o", "cost.elf")
    counted = ("-icount", "shift=0", "-semihosting-config", "enable=on,target=native")
    return sizes, said("qemu-system-arm", *QEMU, *counted, "-kernel", "cost.elf")


def main() -> None:
    """Print the table."""
    print("               text   data    bss   stack  instructions a step    most")
    for name, make in (
        ("planar2ctrl", lambda: planar2ctrl.wired(planar2ctrl.parts())),
        ("planar2ctrl rk4", lambda: planar2ctrl.wired(planar2ctrl.parts(), "rk4")),
        ("six axes", six_axis),
    ):
        with tempfile.TemporaryDirectory() as folder:
            (text, data, bss), (mean, most, stack) = cost(make(), Path(folder))
        print(f"{name:16} {text:>6} {data:>6} {bss:>6} {stack:>6} {mean:>20} {most:>8}", flush=True)


if __name__ == "__main__":
    main()
