"""A falling four-bar whose loop is closed in the plant, by constraint forces, or by springs.

The script compares several step sizes and settings. It prints a table with the loop closure error,
the error of the crank angle, the energy drift and the computing time per step. It writes
build/four_bar/result.png.
"""

import sys
import time
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from rigidblocks import FusedSystem, System, simulate
from rigidblocks.block.memory_layout import Memory
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.library import (
    ClosedLoopPlant,
    CompliantLoopClosure,
    CutLoopPlant,
    LoopClosure,
    RobotPlant,
)
from rigidblocks.robot.robots import four_bar

BUILD = Path("build/four_bar")
T_STOP = 3.0
MECHANISM = four_bar()
MODEL = MECHANISM.model


def inside(h):
    """Return the plant that keeps its loop closed, with inner steps of h [s]."""
    system = System()
    system.add("plant", ClosedLoopPlant(*MECHANISM), h=h)
    return system


def by_forces(T_stab):
    """Return the plant with its loop cut, and the block that computes the constraint forces."""
    system = System()
    system.add("plant", CutLoopPlant(*MECHANISM))
    system.add("loop", LoopClosure(MODEL, T_stab))
    for port in ("A", "b", "delta", "rate"):
        system.connect(f"plant.{port}", f"loop.{port}")
    system.connect("loop.lam", "plant.lam")
    return system


def by_springs(stiffness, damping):
    """Return the plant of the spanning tree, with springs and dampers instead of the loop joint."""
    system = System()
    system.add("plant", RobotPlant(MODEL.spanning_tree, MECHANISM.q0, external_wrenches=True))
    system.add("loop", CompliantLoopClosure(MODEL, stiffness, damping))
    for port in ("q", "qd"):
        system.connect(f"plant.{port}", f"loop.{port}")
    system.connect("loop.f_ext", "plant.f_ext")
    return system


def opening(result):
    """Return the loop closure error [m] at each time."""
    names = {port.name for port in result.ports}
    found = next(
        name for name in ("plant.loop_error", "loop.loop_error", "loop.delta") if name in names
    )
    return np.abs(result[found]).reshape(len(result.time), -1).max(axis=1)


def cost(system, dt):
    """Return the computing time of a step of the whole system in one C loop [us], best of three."""
    flat, times = Memory(FusedSystem(system, dt)), []
    stepper, rows = compiled_stepper(flat, h=dt), np.empty((2000, flat.size))
    for _ in range(3):
        m = flat.start()
        stepper.initialize(m, 0.0)
        begin = time.perf_counter()
        stepper.run(m, 0.0, dt, rows)
        times.append((time.perf_counter() - begin) / len(rows) * 1e6)
    return min(times)


def methods():
    """Yield the name, the system and the step size [s] of each method of loop closure."""
    for dt in (1e-3, 1e-2):
        yield f"inside the plant, {dt * 1e3:g} ms", inside(dt), dt
    for dt in (1e-3, 2e-4):
        yield f"forces, T_stab 10 steps, {dt * 1e3:g} ms", by_forces(10 * dt), dt
    for k, dt in ((1e4, 1e-3), (1e5, 1e-3), (1e6, 2e-4)):
        yield f"springs of {k:.0e} N/m, {dt * 1e3:g} ms", by_springs(k, 0.5 * np.sqrt(k)), dt


def draw(results):
    """Draw the crank angle, the loop closure error and the energy drift of each method."""
    figure = Figure(figsize=(9, 9), layout="constrained")
    crank, open_, energy = figure.subplots(3)
    for name, result in results.items():
        E = result["plant.energy"]
        crank.plot(result.time, result["plant.q"][:, 0], label=name)
        open_.semilogy(result.time, np.maximum(opening(result), 1e-17))
        energy.plot(result.time, E - E[0])
    crank.set_ylabel("crank [rad]")
    crank.legend(fontsize="x-small")
    open_.set_ylabel("opening of the loop [m]")
    energy.set_ylabel("change of energy [J]")
    energy.set_xlabel("time [s]")
    for axis in (crank, open_, energy):
        axis.grid(alpha=0.3)
    BUILD.mkdir(parents=True, exist_ok=True)
    figure.savefig(BUILD / "result.png", dpi=110)
    print(f"\nwrote {BUILD}/result.png")


def main():
    """Run all methods, print the table, draw, and check the ranking of the methods."""
    exact = simulate(inside(1e-4), T_STOP, 1e-4, progress=False)["plant.q"][-1, 0]
    print(f"{'':38} {'opens [m]':>10} {'crank [rad]':>12} {'energy [J]':>11} {'a step':>9}")
    results = {}
    for name, system, dt in methods():
        results[name] = result = simulate(system, T_STOP, dt, progress=False)
        E, off = result["plant.energy"], abs(result["plant.q"][-1, 0] - exact)
        print(
            f"{name:38} {opening(result).max():10.1e} {off:12.1e} {np.abs(E - E[0]).max():11.1e} "
            f"{cost(system, dt):6.2f} us"
        )
    draw(results)
    errors = [opening(result).max() for result in results.values()]
    if not (max(errors[:2]) < 1e-10 < max(errors[2:4]) < min(errors[4:])):
        sys.exit("the methods are not in the order in which they should be")


if __name__ == "__main__":
    main()
