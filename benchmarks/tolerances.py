"""Accuracy of the adaptive methods: final error over rtol, and number of method changes.

The default method changes between explicit and implicit steps. The problems are the classic stiff
test set, the flyball governor, Andrews' squeezer, and an arm of seven joints with a stiff
controller. Each problem runs in one communication step.
"""

from collections.abc import Callable, Iterator

import numpy as np
from work_precision import Kernel

import squeezer
from rigidblocks import Block, ClosedLoopPlant
from rigidblocks.block.adaptive_methods import STIFF_DETECTIONS, method_of
from stiff_mechanisms import HEIGHTS, flyball_governor, stiff_arm
from stiff_problems import PROBLEMS

TOLERANCES = {"adaptive or stiff": (1e-4, 1e-5, 1e-6, 1e-7, 1e-8), "stiff": (1e-4, 1e-6, 1e-8)}
HEADS = [
    "",
    *('`"adaptive or stiff"` 1e-4', "1e-5", "1e-6", "1e-7", "1e-8"),
    *('`"stiff"` 1e-4', "1e-6", "1e-8", "changes of the default"),
]
Error = Callable[[np.ndarray], float]


def ends(block: Block, name: str, end: float, tau: np.ndarray | None) -> Iterator[tuple]:
    """Yield each tolerance with the final states and the number of method changes."""
    kernel = Kernel(block, method_of(name), tau)
    for rtol in TOLERANCES[name]:
        kernel.tolerate(rtol)
        m = kernel.start()
        if kernel.library.rb_block_step(m.ctypes.data, 0.0, end) != 0:
            raise ArithmeticError(f"{kernel.memory.name} failed at rtol {rtol}")
        yield rtol, m[kernel.memory.x], int(m[kernel.memory.s][STIFF_DETECTIONS])


def problems() -> Iterator[tuple[str, Block, float, np.ndarray | None, Error]]:
    """Yield name, block, end time, input and error function of each problem."""
    for name, one in PROBLEMS.items():
        yield name, one, one.end, None, lambda x, y=one.solution: np.max(np.abs(x / y - 1.0))
    height = HEIGHTS[5.0]
    yield "flyball, 5 s", flyball_governor(), 5.0, None, lambda x: abs(x[1] / height - 1.0)
    plant = ClosedLoopPlant(
        squeezer.MODEL, squeezer.angles(squeezer.START), elements=(squeezer.SPRING,)
    )
    angles, tau = squeezer.angles(squeezer.END), np.eye(7)[0] * squeezer.TORQUE
    yield (
        "Andrews' squeezer, 0.03 s",
        plant,
        0.03,
        tau,
        lambda x: np.max(np.abs(x[:7] / angles - 1.0)),
    )
    arm = stiff_arm()
    exact = Kernel(arm, method_of("radau")).states(1e-12, 2.0)
    scale = np.maximum(np.abs(exact), 1.0)
    yield (
        "arm under a stiff controller, 2 s",
        arm,
        2.0,
        None,
        lambda x: np.max(np.abs(x - exact) / scale),
    )


def measured() -> Iterator[list[str]]:
    """Yield a row for each problem: errors over rtol, and changes of the default method."""
    for name, block, end, tau, error in problems():
        cells, changes = [], []
        for method in TOLERANCES:
            for rtol, x, n in ends(block, method, end, tau):
                cells.append(f"{error(x) / rtol:.2g}")
                changes += [str(n)] * (method != "stiff")
        yield [name, *cells, ", ".join(dict.fromkeys(changes))]


if __name__ == "__main__":
    for row in measured():
        print(*(cell.ljust(10) for cell in row), flush=True)
