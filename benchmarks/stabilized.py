"""Loop closure errors for several time constants of the stabilization, and energy drift.

In the first table, a separate block provides the constraint forces. The second table compares
stabilizations at singular configurations. Both tables are in docs/benchmarks.md.
"""

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from rigidblocks import ClosedLoopPlant, System, simulate
from rigidblocks.library import CutLoopPlant, LoopClosure
from rigidblocks.robot.robots import five_bar, four_bar

DT = 1e-3
TIMES = (1.2e-3, 2e-3, 5e-3, 1e-2, 2e-2, 1e-1)  # [s] time constants T_stab
STABILIZATIONS = {
    "`ClosedLoopPlant`": {},
    'with stabilization="baumgarte", T_stab = 0.1 s': {
        "stabilization": "baumgarte",
        "T_stab": 0.1,
    },
    'with stabilization="none"': {"stabilization": "none"},
}


def closed_by_forces(T_stab: float) -> System:
    """Return a four-bar with its loop cut, and the block that computes its constraint forces."""
    mechanism, system = four_bar(), System()
    system.add("plant", CutLoopPlant(*mechanism))
    system.add("loop", LoopClosure(mechanism.model, T_stab))
    for port in ("A", "b", "delta", "rate"):
        system.connect(f"plant.{port}", f"loop.{port}")
    system.connect("loop.lam", "plant.lam")
    return system


def openings() -> Iterator[list[str]]:
    """Yield the largest loop closure error within 3 s for each T_stab."""
    for T_stab in TIMES:
        result = simulate(closed_by_forces(T_stab), 3.0, DT, progress=False)
        opened = np.abs(result["plant.delta"]).max()
        yield [f"{T_stab * 1e3:g} ms", f"{opened:.0e} m"]


def at_singular_poses() -> Iterator[list[str]]:
    """Yield the energy drift and the loop closure error of the five-bar within 5 s."""
    for name, options in STABILIZATIONS.items():
        system = System()
        system.add("plant", ClosedLoopPlant(*five_bar(), **options), method="rk4")
        result = simulate(system, 5.0, DT, progress=False)
        energy, opened = result["plant.energy"], np.abs(result["plant.loop_error"]).max()
        yield [name, f"{np.abs(energy - energy[0]).max():.0e} J", f"{opened:.0e} m"]


MEASURES: dict[str, Callable[[], Iterable[list[str]]]] = {
    "openings": openings,
    "singular": at_singular_poses,
}
HEADS = {
    "openings": ["T_stab", "loop closure error"],
    "singular": ["", "change of energy in 5 s", "loop closure error"],
}


def main() -> None:
    """Print the tables."""
    for name, measure in MEASURES.items():
        print(f"\n{name}", *HEADS[name], sep="  ")
        for row in measure():
            print("  ".join(row), flush=True)


if __name__ == "__main__":
    main()
