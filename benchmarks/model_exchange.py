"""Work-precision of FMUs for model exchange: error against CPU time, compared with FMPy's CVode.

    python benchmarks/model_exchange.py [FOLDER]

FOLDER contains FMUs that replace the test models of the same names (Dahlquist, VanDerPol,
BouncingBall, StateSpace), for example the Reference FMUs of the Modelica Association. The other
FMUs are exports of this package.

Both importers run the same FMU with the same communication step, and return the outputs at each
communication point. The tolerances cover more than four decades, two per decade. The error is the
largest deviation of an output from the reference, relative to the largest value of the output. The
reference is a closed form, or SciPy's DOP853 or Radau on the derivatives of the FMU. For each
error, the table lists the cheapest run that is at least as accurate.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import fmpy
import numpy as np
from scipy.integrate import solve_ivp

from rigidblocks import (
    Block,
    ClosedLoopPlant,
    RobotPlant,
    System,
    export_fmu,
    prepare,
)
from rigidblocks.robot.robots import four_bar

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "tests/support"))

import any_models  # noqa: E402
import stiff_problems  # noqa: E402
from stiff_mechanisms import arm_of_seven_joints, stiff_arm  # noqa: E402

TOLERANCES = 10.0 ** -np.arange(3.0, 10.5, 0.5)
ERRORS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
HEADS = ["error", *(f"{error:.0e}".replace("e-0", "e-") for error in ERRORS)]
KIND = "model exchange"


class Work(NamedTuple):
    """Work of a run: error relative to the size of the outputs, and CPU time [s]."""

    error: float
    time: float


@dataclass(frozen=True, eq=False)
class Problem:
    """FMU that runs from 0 to `end` with the communication step `dt` [s].

    `exact` returns the outputs (n, m) at the times (n,). Without it, SciPy's `solver` integrates
    the derivatives of the FMU.
    """

    name: str
    path: Path
    end: float
    dt: float
    solver: str = "DOP853"
    exact: Callable[[np.ndarray], np.ndarray] | None = None

    @property
    def times(self) -> np.ndarray:
        """Communication points [s]."""
        return np.arange(round(self.end / self.dt) + 1) * self.dt

    def work(self, run: Callable[[], np.ndarray], reference: np.ndarray) -> Work:
        """Return the work of a run; the time is the best of at most five runs."""
        times: list[float] = []
        while len(times) < 5 and sum(times) < 0.5:
            begin = process_time()
            rows = run()
            times.append(process_time() - begin)
        size = np.abs(reference).max(axis=0)
        size = np.maximum(size, 1e-3 * size.max())  # a loop closure error is near 0
        return Work(float((np.abs(rows - reference) / size).max()), min(times))

    def curves(self) -> tuple[list[Work], list[Work]]:
        """Return the work of this package and of FMPy at each tolerance.

        Raises:
            ValueError: The best run of an importer disagrees with the reference.
        """
        peer = Fmpy(self)
        reference = self.exact(self.times) if self.exact else peer.reference()
        ours, theirs = [], []
        for rtol in TOLERANCES:
            system = System()
            system.add("fmu", self.path, kind=KIND, rtol=float(rtol))
            with prepare(system, self.dt) as prepared:
                ours.append(self.work(lambda one=prepared: self._outputs(one), reference))
            try:
                theirs.append(self.work(lambda rtol=rtol: peer.outputs(rtol), reference))
            except RuntimeError as error:
                print(f"{self.name}: CVode at rtol {rtol:.1e}: {error}", file=sys.stderr)
        for name, runs in (("this package", ours), ("FMPy", theirs)):
            if not min(one.error for one in runs) < 1e-4:
                raise ValueError(f"{name} disagrees with the reference of {self.name}: {runs}")
        return ours, theirs

    def _outputs(self, prepared: Any) -> np.ndarray:
        result = prepared.simulate(self.end)
        n = len(result.time)
        return np.column_stack([result[port.name].reshape(n, -1) for port in result.ports])


class Fmpy:
    """FMPy with one instance of the FMU of a problem, which it resets before each run."""

    def __init__(self, problem: Problem):
        self.problem = problem
        self.description = fmpy.read_model_description(str(problem.path))
        self.folder = fmpy.extract(str(problem.path))
        self.outputs_of = [v for v in self.description.modelVariables if v.causality == "output"]
        self.instance = self._instance()

    def _instance(self) -> Any:
        return fmpy.instantiate_fmu(self.folder, self.description, "ModelExchange")

    def outputs(self, rtol: float) -> np.ndarray:
        """Return the outputs at the communication points."""
        self.instance.reset()
        result = fmpy.simulate_fmu(
            self.folder,
            validate=False,
            stop_time=self.problem.end,
            solver="CVode",
            relative_tolerance=float(rtol),
            output_interval=self.problem.dt,
            record_events=False,
            fmi_type="ModelExchange",
            output=[v.name for v in self.outputs_of],
            model_description=self.description,
            fmu_instance=self.instance,
            terminate=False,
        )
        n = len(result)
        return np.column_stack([result[v.name].reshape(n, -1) for v in self.outputs_of])

    def reference(self) -> np.ndarray:
        """Return the outputs for SciPy's solution of the state equations of the FMU."""
        fmu, is_3 = self._instance(), self.description.fmiVersion == "3.0"
        n = int(self.description.numberOfContinuousStates)
        x, rates = np.zeros(n), np.zeros(n)
        to_x, to_rates = (
            v.ctypes.data_as(fmpy.fmi3.POINTER(fmpy.fmi3.c_double)) for v in (x, rates)
        )
        if is_3:
            fmu.enterInitializationMode(startTime=0.0)
        else:
            fmu.setupExperiment(startTime=0.0)
            fmu.enterInitializationMode()
        fmu.exitInitializationMode()
        (fmu.updateDiscreteStates if is_3 else fmu.newDiscreteStates)()
        fmu.enterContinuousTimeMode()
        fmu.getContinuousStates(to_x, n)
        start = x.copy()

        def set_state(t: float, states: np.ndarray) -> None:
            x[:] = states
            fmu.setTime(t)
            fmu.setContinuousStates(to_x, n)

        def derivative(t: float, states: np.ndarray) -> np.ndarray:
            set_state(t, states)
            (fmu.getContinuousStateDerivatives if is_3 else fmu.getDerivatives)(to_rates, n)
            return rates.copy()

        times = self.problem.times
        found = solve_ivp(
            derivative,
            (0.0, times[-1]),
            start,
            self.problem.solver,
            times,
            rtol=1e-12,
            atol=1e-13 if self.problem.solver == "DOP853" else 1e-15,
        )
        rows = []
        for t, states in zip(times, found.y.T, strict=True):
            set_state(t, states)
            row: list[float] = []
            for v in self.outputs_of:
                size = int(np.prod(v.shape)) if v.shape else 1
                references = [v.valueReference]
                row += fmu.getFloat64(references, size) if is_3 else fmu.getReal(references)
            rows.append(row)
        return np.array(rows)


def bounces(t: np.ndarray) -> np.ndarray:
    """Return height and velocity of a ball that falls from 1 m and keeps 0.7 of its velocity."""
    g, e = 9.81, 0.7
    start, v = -np.sqrt(2 / g), np.sqrt(2 * g)  # of the flight that would end in the first bounce
    start = -start - 2 * v / g
    rows = np.zeros((len(t), 2))
    while v > 0.1:
        flying = t >= start
        s = t[flying] - start
        rows[flying] = np.column_stack([v * s - g * s**2 / 2, v - g * s])
        start, v = start + 2 * v / g, e * v
    rows[t >= start] = 0.0
    return rows


def foreign_problems(folder: Path, given: Path | None) -> Iterator[Problem]:
    """Yield the problems of the Reference FMUs, from the folder `given` if it has them."""

    def path(name: str, model: any_models.AnyModel, version: int) -> Path:
        found = sorted(given.rglob(f"*{name}*.fmu")) if given else []
        return found[0] if found else any_models.any_fmu(folder, model, version)

    dahlquist = path("Dahlquist", any_models.DAHLQUIST, 2)
    yield Problem("Dahlquist", dahlquist, 10.0, 0.01, exact=lambda t: np.exp(-t)[:, None])
    yield Problem("VanDerPol", path("VanDerPol", any_models.VAN_DER_POL, 2), 20.0, 0.01)
    ball = path("BouncingBall", any_models.BOUNCING_BALL, 2)
    yield Problem("BouncingBall", ball, 1.5, 0.01, exact=bounces)
    yield Problem("StateSpace", path("StateSpace", any_models.STATE_SPACE, 3), 10.0, 0.01)
    variables = [
        v._replace(start=(1000.0,)) if v.name == "mu" else v
        for v in any_models.VAN_DER_POL.variables
    ]
    stiff = replace(any_models.VAN_DER_POL, name="VanDerPolStiff", variables=variables)
    yield Problem("VanDerPol, mu = 1000", any_models.any_fmu(folder, stiff, 2), 800.0, 1.0, "Radau")


def exported_problems(folder: Path) -> Iterator[Problem]:
    """Yield the problems of FMUs that this package exports."""

    def path(name: str, block: Block) -> Path:
        return export_fmu(block, folder / f"{name}.fmu")

    yield Problem(
        "Robertson", path("robertson", stiff_problems.PROBLEMS["Robertson"]), 1000.0, 10.0, "Radau"
    )
    linkage = four_bar()
    plant = ClosedLoopPlant(linkage.model, linkage.q0)
    yield Problem("four-bar", path("four_bar", plant), 2.0, 0.01)
    arm = stiff_arm()
    yield Problem("7-joint arm, stiff control", path("stiff_arm", arm), 1.0, 0.01, "Radau")
    free = RobotPlant(arm_of_seven_joints(), np.full(7, 0.3))
    yield Problem("7-joint arm", path("arm", free), 1.0, 0.01)


def cheapest(runs: list[Work], error: float) -> float:
    """Return the least time [s] of the runs with at most this error, or NaN."""
    return min((one.time for one in runs if one.error <= error), default=np.nan)


def row(problem: Problem) -> list[str]:
    """Return the row of a problem: for each error, the times of both importers and their ratio."""
    curves, cells = problem.curves(), []
    for error in ERRORS:
        ours, theirs = (1e3 * cheapest(runs, error) for runs in curves)
        texts = [f"{t:.2g} ms" if np.isfinite(t) else "not reached" for t in (ours, theirs)]
        ratio = f" ({ours / theirs:.2g})" if np.isfinite(ours / theirs) else ""
        cells.append(f"{texts[0]}; {texts[1]}{ratio}")
    return [problem.name, *cells]


def measured(given: Path | None = None) -> Iterator[list[str]]:
    """Yield a row for each FMU; FMUs in the folder `given` replace FMUs with the same names."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        yield from map(row, foreign_problems(folder, given))
        yield from map(row, exported_problems(folder))


def main() -> None:
    """Print the table."""
    print(f"| {' | '.join(HEADS)} |\n|{'---|' * len(HEADS)}")
    for cells in measured(Path(sys.argv[1]) if len(sys.argv) > 1 else None):
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
