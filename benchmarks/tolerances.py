"""How well the methods that choose their steps keep to the tolerance: the error at the end over
rtol, and how often the choice went from explicit steps to linearly implicit ones.

The problems are the classic stiff set, the flyball governor, Andrews' squeezer and an arm of seven
joints under a stiff controller, in one communication step each.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from rigidblocks import Block, ClosedLoopPlant
from rigidblocks.block.adaptive import STIFFNESS, memory_for, method_of
from rigidblocks.kernels.stepper import compiled_stepper

sys.path.append(str(Path(__file__).parent.parent / "tests/support"))

import squeezer
from stiff_mechanisms import HEIGHTS, flyball_governor, stiff_arm
from stiff_problems import PROBLEMS

TOLERANCES = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
NAMES = ("stiff", "adaptive or stiff")


def end_of(block: Block, name: str, rtol: float, end: float, tau: object = None) -> tuple:
    """The states at the end of one step, and how often the method was changed."""
    method = method_of(name, rtol)
    memory = memory_for(block, method)
    m, stepper = memory.start(), compiled_stepper(memory, method)
    if tau is not None:
        m[memory.where["tau"]] = tau
    stepper.initialize(m, 0.0)
    stepper.step(m, 0.0, end)
    return m[memory.x], int(m[memory.s][STIFFNESS])


def problems() -> Iterator[tuple]:
    """Of each problem the name, the block, its end, its input, and what the error is there."""
    for name, one in PROBLEMS.items():
        yield name, one, one.end, None, lambda x, y=one.solution: np.max(np.abs(x / y - 1.0))
    height = HEIGHTS[5.0]
    yield "flyball, 5 s", flyball_governor(), 5.0, None, lambda x: abs(x[1] / height - 1.0)
    plant = ClosedLoopPlant(
        squeezer.MODEL, squeezer.angles(squeezer.START), elements=(squeezer.SPRING,)
    )
    angles, tau = squeezer.angles(squeezer.END), np.eye(7)[0] * squeezer.TORQUE
    yield "squeezer", plant, 0.03, tau, lambda x: np.max(np.abs(x[:7] / angles - 1.0))
    arm = stiff_arm()
    exact, _ = end_of(arm, "stiff", 1e-11, 2.0)
    scale = np.maximum(np.abs(exact), 1.0)
    yield "arm, 2 s", arm, 2.0, None, lambda x: np.max(np.abs(x - exact) / scale)


def main() -> None:
    """Prints the table."""
    for name, block, end, tau, error in problems():
        for method in NAMES:
            found = [(rtol, *end_of(block, method, rtol, end, tau)) for rtol in TOLERANCES]
            cells = "  ".join(f"{error(x) / rtol:8.2g} ({n})" for rtol, x, n in found)
            print(f"{name:18}{method:18}{cells}", flush=True)


if __name__ == "__main__":
    main()
