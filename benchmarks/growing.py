"""Growth of step time and compile time with the number of bodies in rigid contact.

Three layers of bodies fall on a plane, in separate heaps of ten bodies or all side by side.
"""

import os
import resource
import tempfile
from collections.abc import Iterator
from time import process_time
from unittest.mock import patch

import numpy as np
from contact_problems import inertia_of

from rigidblocks import Model, RigidContactPlant, SixDoF
from rigidblocks.block.memory_layout import Memory
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.robot.shapes import Box, Shape, Sphere
from rigidblocks.spatial.spatial import identity

H, T = 1e-3, 0.3
SIZES = {
    "balls, in heaps of ten": (10, 100, 1000),
    "balls, side by side": (10, 100, 1000),
    "boxes, side by side": (10, 100, 400),
}
HEADS = ["", "bodies", "contacts", "sweeps", "step", "step per body", "compile time"]


def places(n: int) -> np.ndarray:
    """Return the positions (n, 3) [m] of n bodies in three layers with small gaps."""
    side = max(1, round((n / 3) ** 0.5))
    k, layer = np.arange(n), np.minimum(np.arange(n) // side**2, 2)
    inside = k - layer * side**2
    return 0.205 * np.stack([inside % side, inside // side, layer], axis=1) + [0, 0, 0.105]


def layers(shape: Shape, n: int, together: int) -> RigidContactPlant:
    """Return n bodies in heaps of `together` bodies; the heaps are a metre apart."""
    far, across = 1.0 + 0.205 * round((together / 3) ** 0.5), round((n / together) ** 0.5)
    k = np.arange(n // together)
    corner = far * np.column_stack([k % across, k // across, 0 * k])
    x = (corner[:, None] + places(together)).reshape(n, 3)
    x = x + np.random.default_rng(0).uniform(-2e-3, 2e-3, (n, 3))
    inertia = (inertia_of(shape),) * n
    model = Model("layers", (-1,) * n, (SixDoF(),) * n, (identity(),) * n, inertia,
                  contact=((shape,),) * n)  # fmt: skip
    q0 = np.hstack([np.tile([1.0, 0.0, 0.0, 0.0], (n, 1)), x]).ravel()
    return RigidContactPlant(model, q0=q0, sample_time=H)


def compilers() -> float:
    """Return the CPU time of all compilers so far [s]."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measured() -> Iterator[list[str]]:
    """Yield a row for each size: means over the motion, and compile time with an empty cache."""
    for kind, sizes in SIZES.items():
        shape = Sphere(0.1) if kind.startswith("balls") else Box((0.2, 0.2, 0.2))
        for n in sizes:
            memory = Memory(layers(shape, n, 10 if kind.endswith("ten") else n))
            before = compilers()
            with patch.dict(os.environ, RIGIDBLOCKS_CACHE=tempfile.mkdtemp()):
                step = compiled_stepper(memory)
            compiled = compilers() - before
            steps, us = round(T / H), np.inf
            rows = np.zeros((steps, memory.size))
            for _ in range(3):  # the first run includes page faults
                m = memory.start()
                step.initialize(m, 0.0)
                start = process_time()
                step.run(m, 0.0, H, rows)
                us = min(us, 1e6 * (process_time() - start) / steps)
            found = [rows[:, memory.where[name]].mean() for name in ("contacts", "sweeps_made")]
            yield [
                kind if n == sizes[0] else "",
                f"{n:,}",
                *(f"{one:,.0f}" for one in found),
                f"{us:,.3g} us",
                f"{us / n:.2g} us",
                f"{compiled:.1f} s",
            ]


if __name__ == "__main__":
    for row in measured():
        print(" | ".join(row), flush=True)
