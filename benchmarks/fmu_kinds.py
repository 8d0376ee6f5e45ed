"""Time per FMU and step of `simulate`, by FMI version, type of FMU and number of FMUs.

`foreign` compares FMUs with event mode and Python FMUs with FMPy, and measures large systems.

The systems consist of pairs of a native robot FMU and its controller FMU, with steps of 1 ms. A
system of all types has at least one pair of each type, so it has 8 FMUs instead of 2. All outputs
of all steps are recorded. The positions of all types of FMUs are compared before the times are
measured. All times are CPU times, the least of several rounds.
"""

import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from time import process_time

import fmpy
import numpy as np
from pythonfmu import FmuBuilder

from rigidblocks import PDController, RobotPlant, System, export_fmu, planar2, prepare
from rigidblocks.cosim.prepare import Run

sys.path.append(str(Path(__file__).parent.parent / "tests/support"))

import any_models

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
EVENT_MODE = 'hasEventMode="true" mightReturnEarlyFromDoStep="true"'
ZERO_INPUTS = {name: np.zeros(2) for name in ("q", "qd", "q_ref")}
COST_HEADS = ["", "rigidblocks", "other", "", "other / rigidblocks"]
PYTHON_FMU = """
import numpy as np
from pythonfmu import Fmi2Causality, Fmi2Slave, Real


class Oscillator(Fmi2Slave):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.A, self.x, self.u, self.y = np.array([[0.0, 1.0], [-4.0, -0.4]]), np.ones(2), 0.0, 0.0
        self.register_variable(Real("u", causality=Fmi2Causality.input))
        self.register_variable(Real("y", causality=Fmi2Causality.output))

    def do_step(self, current_time, step_size):
        self.x = self.x + step_size * (self.A @ self.x + np.array([0.0, self.u]))
        self.y = float(self.x[0])
        return True
"""
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


def time_of_steps(run: Callable[[float], object], n: int, dt: float, rounds: int = 5) -> float:
    """Return the CPU time of a step [s]: the difference of runs of n + 1 steps and of one step."""
    times: list[list[float]] = [[], []]
    for _ in range(rounds):
        for k, steps in enumerate((1, n + 1)):
            begin = process_time()
            run(steps * dt)
            times[k].append(process_time() - begin)
    return (min(times[1]) - min(times[0])) / n


def time_here(path: Path, n: int, dt: float, **options: object) -> float:
    """Return the CPU time of a step of a system with one FMU [s]."""
    system = System()
    system.add("fmu", path, **options)
    with prepare(system, dt) as run:
        return time_of_steps(lambda end: run.simulate(end, progress=False), n, dt)


def time_in_fmpy(path: Path, n: int, dt: float, *, is_reset: bool = True) -> float:
    """Return the CPU time of a step of FMPy [s], with one instance of the FMU."""
    description = fmpy.read_model_description(str(path))
    folder = fmpy.extract(str(path))
    fmu = fmpy.instantiate_fmu(folder, description, "CoSimulation") if is_reset else None

    def run(end: float) -> None:
        if fmu:
            fmu.reset()
        fmpy.simulate_fmu(
            folder,
            validate=False,
            stop_time=end,
            step_size=dt,
            output_interval=dt,
            fmi_type="CoSimulation",
            record_events=False,
            model_description=description,
            fmu_instance=fmu,
            terminate=fmu is None,
        )

    return time_of_steps(run, n, dt)


def row(name: str, ours: float, peer: float, other: str) -> list[str]:
    """Return a row of two times [s]."""
    times = (f"{time:.2f} s" if time > 1e-2 else f"{1e6 * time:.3g} us" for time in (ours, peer))
    return [name, *times, other, f"{peer / ours:.2f} x"]


def foreign() -> Iterable[list[str]]:
    """Yield rows for FMUs with event mode, Python FMUs, and systems of many parts."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for model in (any_models.BOUNCING_BALL, any_models.STATE_SPACE):
            named = replace(model, name=f"{model.name}Events", attributes=EVENT_MODE)
            path = any_models.any_fmu(folder, named, 3)
            times = time_here(path, 100_000, DT), time_in_fmpy(path, 1000, DT)
            yield row(f"step of {model.name}, FMI 3 with event mode", *times, "FMPy")
        yield row(
            "step with an event (clock)", *times_of_events(folder), "the same blocks as FMI 2"
        )
        (folder / "oscillator.py").write_text(PYTHON_FMU)
        path = FmuBuilder.build_FMU(folder / "oscillator.py", dest=folder)
        times = time_here(path, 5000, DT, start={"u": 0.0}), time_in_fmpy(path, 5000, DT)
        yield row("step of a Python FMU (pythonfmu, NumPy)", *times, "FMPy")
    yield from large_systems()


def times_of_events(folder: Path) -> tuple[float, float]:
    """Return the CPU times of a step of the pair of FMUs [s], with a sampled controller.

    The first time is for FMI 3: a clock of the controller ticks in each step. The second time is
    for FMI 2.
    """
    robot, pd = RobotPlant(planar2()), PDController((60.0, 30.0), (8.0, 4.0), sample_time=DT)
    times, ends = [], []
    for fmi, clock in ((3, "periodic"), (2, None)):
        system = System()
        system.add("robot", export_fmu(robot, folder / f"robot{fmi}.fmu", fmi=fmi, method="rk4"))
        path = export_fmu(pd, folder / f"pd{fmi}.fmu", fmi=fmi, clock=clock)
        system.add("pd", path, start={"q_ref": START})
        system.connect("robot.q", "pd.q")
        system.connect("pd.tau", "robot.tau")
        with prepare(system, DT) as run:
            ends.append(run.simulate(1.0, progress=False)["robot.q"][-1])
            simulate = lambda end, run=run: run.simulate(end, progress=False)  # noqa: E731
            times.append(time_of_steps(simulate, 50_000, DT) / 2)
    if not np.allclose(*ends, rtol=0, atol=1e-9):
        raise RuntimeError(f"the clocked controller ends at {ends[0]} instead of {ends[1]}")
    return times[0], times[1]


def large_systems() -> Iterable[list[str]]:
    """Yield the times of a system of 1,000 parts, compared with 10 parts."""
    taken, prepared = {}, {}
    for n in (10, 1000):
        begin = process_time()
        system = System()
        for k in range(n):
            system.add(f"pd{k}", PDController((60.0, 30.0), (8.0, 4.0)), start=ZERO_INPUTS)
        with prepare(system, DT) as run:
            prepared[n] = process_time() - begin
            simulate = lambda end, run=run: run.simulate(end, progress=False)  # noqa: E731
            taken[n] = time_of_steps(simulate, 1_000_000 // n, DT) / n
    yield row("step of a part, 1,000 parts", taken[1000], taken[10], "10 parts")
    yield row("add and prepare 1,000 parts", prepared[1000], prepared[10], "10 parts")


if __name__ == "__main__":
    for cells in (*measured(), *foreign()):
        print(*cells, sep="  ")
