"""Time per FMU and step of `simulate`, by FMI version, type of FMU and number of FMUs.

The systems consist of pairs of a native robot FMU and its controller FMU, with steps of 1 ms. A
system of all types has at least one pair of each type, so it has 8 FMUs instead of 2. All outputs
of all steps are recorded. The positions of all types of FMUs are compared before the times are
measured. All times are CPU times, the least of several rounds.
"""

import tempfile
from collections.abc import Iterable
from pathlib import Path
from time import process_time

import numpy as np

from rigidblocks import PDController, RobotPlant, System, export_fmu, planar2, prepare
from rigidblocks.cosim.prepare import Run

DT, START = 1e-3, [0.3, -0.2]
NUMBERS = (2, 20, 200)
STEPS = 200_000  # steps of all FMUs together in one measurement
WIRES = (("robot.q", "pd.q"), ("robot.qd", "pd.qd"), ("pd.tau", "robot.tau"))
CO_SIMULATION, MODEL_EXCHANGE = "co-simulation", "model exchange"
KINDS = {
    f"FMI {fmi}, {kind}": ((fmi, kind),)
    for kind in (CO_SIMULATION, MODEL_EXCHANGE)
    for fmi in (2, 3)
}
KINDS["all four in turn"] = tuple(pair for (pair,) in KINDS.values())
HEADS = ["time of a step", *(f"{n} FMUs" for n in NUMBERS), "next run of 200 FMUs"]


def files(folder: Path) -> dict[tuple[str, int], Path]:
    """Build the FMUs of the robot and of the controller, by name and FMI version."""
    blocks = {"robot": RobotPlant(planar2()), "pd": PDController((60.0, 30.0), (8.0, 4.0))}
    return {
        (name, fmi): export_fmu(block, folder / f"{name}{fmi}.fmu", fmi=fmi, method="rk4")
        for name, block in blocks.items()
        for fmi in (2, 3)
    }


def system_of(
    fmus: dict[tuple[str, int], Path], kinds: tuple[tuple[int, str], ...], n: int
) -> System:
    """Return a system of n FMUs; the pairs have the kinds (FMI version, type) in turn."""
    system = System()
    for k in range(n // 2):
        fmi, kind = kinds[k % len(kinds)]
        method = {"method": "rk4"} if kind == MODEL_EXCHANGE else {}
        system.add(f"robot{k}", fmus["robot", fmi], kind=kind, **method)
        system.add(f"pd{k}", fmus["pd", fmi], start={"q_ref": START}, kind=kind, **method)
        for source, target in WIRES:
            system.connect(source.replace(".", f"{k}."), target.replace(".", f"{k}."))
    return system


def time_of_run(run: Run, steps: int) -> float:
    """Return the CPU time of a run [s]."""
    begin = process_time()
    run.simulate(steps * DT, progress=False)
    return process_time() - begin


def check(runs: dict[str, Run]) -> None:
    """Compare the positions of all kinds after one second.

    Raises:
        RuntimeError: The positions differ.
    """
    ends = {name: run.simulate(1.0, progress=False)["robot0.q"][-1] for name, run in runs.items()}
    expected = next(iter(ends.values()))
    for name, q in ends.items():
        if not np.allclose(q, expected, rtol=0, atol=1e-9):
            raise RuntimeError(f"{name} ends at q = {q} instead of {expected}")


def measured(rounds: int = 5) -> Iterable[list[str]]:
    """Yield a row for each kind of FMU: time per FMU and step, and time of the next run."""
    with tempfile.TemporaryDirectory() as folder:
        fmus = files(Path(folder))
        times: dict[str, list[float]] = {name: [] for name in KINDS}
        for number in NUMBERS:
            counts = {name: max(number, 2 * len(kinds)) for name, kinds in KINDS.items()}
            runs = {
                name: prepare(system_of(fmus, kinds, counts[name]), DT)
                for name, kinds in KINDS.items()
            }
            check(runs)
            steps = STEPS // number
            taken: dict[str, list[tuple[float, float]]] = {name: [] for name in KINDS}
            for _ in range(rounds):
                for name, run in runs.items():
                    taken[name].append((time_of_run(run, 1), time_of_run(run, steps)))
            for name, pairs in taken.items():
                fixed, whole = (min(values) for values in zip(*pairs, strict=True))
                times[name].append((whole - fixed) / (steps - 1) / counts[name] * 1e6)
                if number == NUMBERS[-1]:
                    times[name].append(fixed * 1e3)
            for run in runs.values():
                run.close()
    for name, (*steps_of, fixed) in times.items():
        yield [name, *(f"{time:.2f} us" for time in steps_of), f"{fixed:.0f} ms"]


if __name__ == "__main__":
    for row in measured():
        print(*row, sep="  ")
