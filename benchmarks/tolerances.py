"""How well the methods that choose their steps keep to the tolerance: the error at the end over
rtol, and how often the choice went from explicit steps to linearly implicit ones.

The problems are the classic stiff set, the flyball governor, Andrews' squeezer and an arm of seven
joints under a stiff controller, in one communication step each.
"""

from collections.abc import Callable, Iterator

import numpy as np
from work_precision import Kernel

import squeezer
from rigidblocks import Block, ClosedLoopPlant
from rigidblocks.block.adaptive import STIFFNESS, method_of
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
    """At each tolerance the states at the end of one step, and how often the method changed."""
    kernel = Kernel(block, method_of(name), tau)
    for rtol in TOLERANCES[name]:
        kernel.tolerate(rtol)
        m = kernel.start()
        if kernel.library.block_step(m.ctypes.data, 0.0, end) != 0:
            raise ArithmeticError(f"{kernel.memory.name} failed at rtol {rtol}")
        yield rtol, m[kernel.memory.x], int(m[kernel.memory.s][STIFFNESS])


def problems() -> Iterator[tuple[str, Block, float, np.ndarray | None, Error]]:
    """Of each problem the name, the block, its end, its input, and what the error is there."""
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
    """A row for each problem: the errors over rtol, and the changes of the default at each."""
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
