"""Energy drift of linkages that swing freely for 100 s, with the default method and tolerances.

The communication step is 1 ms. The table contains the CPU times relative to RK4.
"""

import ctypes
from collections.abc import Iterator
from time import process_time

import numpy as np
from work_precision import Kernel

from rigidblocks.block.adaptive_methods import method_of
from rigidblocks.library import ClosedLoopPlant
from rigidblocks.robot.robots import bennett, five_bar, four_bar, slider_crank

MECHANISMS = {
    "five-bar": five_bar(),
    "four-bar": four_bar(),
    "slider-crank through its dead centres": slider_crank(),
    "Bennett's linkage": bennett(),
}
TOLERANCES = (1e-5, 1e-6, 1e-7, 1e-8)
T_STOP, DT = 100.0, 1e-3


def drift(kernel: Kernel, rtol: float | None) -> tuple[float, float, float]:
    """Return the initial energy and its largest change [J], and the CPU time [s]."""
    if rtol is not None:
        kernel.tolerate(rtol)
    m, n, taken = kernel.start(), round(T_STOP / DT), ctypes.c_int()
    rows = np.zeros((n, kernel.memory.size))
    places, double = (m.ctypes.data, rows.ctypes.data), ctypes.c_double
    begin = process_time()
    kernel.library.rb_block_run(
        ctypes.c_void_p(places[0]), double(0.0), double(DT), 0, n,
        ctypes.c_void_p(places[1]), ctypes.byref(taken),
    )  # fmt: skip
    time = process_time() - begin
    if taken.value != n:
        raise ArithmeticError(f"{kernel.memory.name} failed after {taken.value} steps")
    energy = kernel.memory.where["energy"]
    start = float(kernel.start()[energy][0])
    return start, float(np.abs(rows[:, energy] - start).max()), time


def measured() -> Iterator[list[str]]:
    """Yield a row for each mechanism."""
    for name, mechanism in MECHANISMS.items():
        plant = ClosedLoopPlant(mechanism.model, mechanism.q0, mechanism.qd0)
        fixed, default = (Kernel(plant, method_of(one)) for one in ("rk4", "adaptive or stiff"))
        start, by_rk4, time = drift(fixed, None)
        found = {rtol: drift(default, rtol) for rtol in TOLERANCES}
        cells = [f"{found[rtol][1]:.0e}" for rtol in TOLERANCES]
        yield [name, f"{start:.2g}", f"{by_rk4:.0e}", *cells, f"{found[1e-7][2] / time:.1f}"]


if __name__ == "__main__":
    for row in measured():
        print(*(cell.ljust(10) for cell in row), flush=True)
