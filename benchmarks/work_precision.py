"""Work and precision: the error at the end against evaluations and time, of the methods that choose
their steps and of SciPy's LSODA and Radau and SUNDIALS' CVODE (BDF, by FMPy's library).

All solve the same compiled rates: CVODE calls them in C like our own steps, SciPy's solvers by
Python, so that what their evaluations alone take in C is told too. Writes
build/work_precision/result.png.
"""

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import process_time
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from fmpy import sundials
from scipy.integrate import solve_ivp

from rigidblocks import Block, ClosedLoopPlant
from rigidblocks.block.adaptive import Method, longest_step, memory_for, method_of
from rigidblocks.kernels.evaluator import TracedEvaluator
from rigidblocks.kernels.kernel import KERNEL, model_header
from rigidblocks.tracing.ccode import c_text
from rigidblocks.tracing.compiler import shared_library

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "tests/support"))

import squeezer  # noqa: E402
from stiff_mechanisms import flyball_governor, stiff_arm  # noqa: E402

mpl.use("agg")
from matplotlib import pyplot as plt  # noqa: E402

BUILD = Path("build/work_precision")
TOLERANCES = 10.0 ** -np.arange(2.0, 10.0)
OURS = ("adaptive or stiff", "stiff", "radau")


class Work(NamedTuple):
    """What it took: the relative error at the end, evaluations of the rates, time [s]."""

    error: float
    evaluations: int
    time: float


@dataclass(frozen=True, eq=False)
class Kernel:
    """The compiled block that counts, for a method."""

    block: Block
    method: Method
    inputs: np.ndarray

    @cached_property
    def memory(self):
        """The layout of its memory."""
        return memory_for(self.block, self.method)

    @cached_property
    def library(self):
        """The loaded kernel."""
        header = model_header(TracedEvaluator(self.memory), self.method, longest_step(self.method))
        sources = {"model.h": header} | {
            name: c_text(f"kernel/{name}") for name in (*KERNEL, "kernel.c")
        }
        sources["precision.c"] = (ROOT / "benchmarks/precision.c").read_text()
        library = ctypes.CDLL(str(shared_library(sources, "precision.c")))
        double, address = ctypes.c_double, ctypes.c_void_p
        library.block_initialize.argtypes = (address, double)
        library.block_step.argtypes = (address, double, double)
        library.rates.argtypes = (double, address, address)
        library.take.argtypes = (address,)
        library.repeated.argtypes = (address, ctypes.c_int)
        library.counts.restype = ctypes.c_long
        return library

    def start(self) -> np.ndarray:
        """A memory at the start, which the rates know, too; nothing is counted yet."""
        m = self.memory.start()
        m[self.memory.u] = self.inputs
        self.library.block_initialize(m.ctypes.data, 0.0)
        self.library.take(m.ctypes.data)
        self.library.counts()
        return m

    def states(self, end: float) -> np.ndarray:
        """The states at the end of one communication step."""
        m = self.start()
        assert self.library.block_step(m.ctypes.data, 0.0, end) == 0
        return m[self.memory.x]


def by_scipy(kernel: Kernel, name: str, rtol: float, end: float) -> np.ndarray:
    """The states at the end by a solver of SciPy, Radau with the exact Jacobian."""
    m, evaluator = kernel.start(), TracedEvaluator(kernel.memory)
    place, at = kernel.memory.x, np.zeros(kernel.memory.x.stop - kernel.memory.x.start)
    rates, to = kernel.library.rates, np.zeros(len(at))

    def f(t: float, x: np.ndarray) -> np.ndarray:
        at[:] = x
        rates(t, at.ctypes.data, to.ctypes.data)
        return to.copy()

    def jacobian(t: float, x: np.ndarray) -> np.ndarray:
        m[0], m[place] = t, x
        return evaluator.slopes(m)[0]

    exact = {"jac": jacobian} if name == "Radau" else {}
    return solve_ivp(f, (0, end), m[place], name, rtol=rtol, atol=rtol, **exact).y[:, -1]


def by_cvode(kernel: Kernel, rtol: float, end: float) -> np.ndarray:
    """The states at the end by CVODE, its rates in C."""
    n, x = kernel.memory.x.stop - kernel.memory.x.start, kernel.start()[kernel.memory.x]
    context = sundials.SUNContext()
    sundials.SUNContext_Create(sundials.SUN_COMM_NULL, ctypes.byref(context))
    y, tolerance = (sundials.N_VNew_Serial(n, context) for _ in range(2))
    values = np.ctypeslib.as_array(sundials.NV_DATA_S(y), (n,))
    values[:] = x
    np.ctypeslib.as_array(sundials.NV_DATA_S(tolerance), (n,))[:] = rtol
    solver = sundials.CVodeCreate(sundials.CV_BDF, context)
    rates = ctypes.cast(kernel.library.cvode_rates, sundials.CVRhsFn)
    sundials.CVodeInit(solver, rates, 0.0, y)
    sundials.CVodeSVtolerances(solver, rtol, tolerance)
    matrix = sundials.SUNDenseMatrix(n, n, context)
    linear = sundials.SUNLinSol_Dense(y, matrix, context)
    sundials.CVodeSetLinearSolver(solver, linear, matrix)
    sundials.CVodeSetMaxNumSteps(solver, 10_000_000)
    reached = sundials.realtype(0.0)
    flag = sundials.CVode(solver, end, y, ctypes.byref(reached), sundials.CV_NORMAL)
    return values.copy() if flag >= 0 else np.full(n, np.nan)


@dataclass(frozen=True, eq=False)
class Problem:
    """A block from its start to `end`, where the first states are known, or all of them are found
    with a tolerance far below the others.
    """

    name: str
    block: Block
    end: float
    inputs: np.ndarray
    known: np.ndarray | None = None

    @cached_property
    def solution(self) -> np.ndarray:
        """The states at the end."""
        if self.known is not None:
            return self.known
        return Kernel(self.block, method_of("stiff", 1e-11), self.inputs).states(self.end)

    @cached_property
    def counting(self) -> Kernel:
        """The kernel whose rates other solvers call."""
        return Kernel(self.block, method_of("adaptive"), self.inputs)

    def work(self, kernel: Kernel, solve: Callable[[], np.ndarray]) -> Work:
        """What a solution takes, the best time of five that are short."""
        times: list[float] = []
        kernel.start()  # compiled here
        while len(times) < 5 and sum(times) < 0.2:
            begin = process_time()
            x = solve()
            times.append(process_time() - begin)
        error = np.max(
            np.abs(x[: len(self.solution)] - self.solution) / np.maximum(np.abs(self.solution), 1.0)
        )
        return Work(float(error), kernel.library.counts(), min(times))

    def curves(self) -> dict[str, list[Work]]:
        """The work at each tolerance by each solver."""
        found: dict[str, list[Work]] = {}
        for name in OURS:
            kernels = [
                Kernel(self.block, method_of(name, rtol), self.inputs) for rtol in TOLERANCES
            ]
            found[name] = [self.work(one, lambda one=one: one.states(self.end)) for one in kernels]
        one = self.counting
        for name in ("LSODA", "Radau"):
            found[name] = [
                self.work(one, lambda name=name, rtol=rtol: by_scipy(one, name, rtol, self.end))
                for rtol in TOLERANCES
            ]
        found["CVODE"] = [
            self.work(one, lambda rtol=rtol: by_cvode(one, rtol, self.end)) for rtol in TOLERANCES
        ]
        return found

    def evaluation_time(self) -> float:
        """The time of one evaluation in C [s]."""
        kernel = self.counting
        x = kernel.start()[kernel.memory.x]
        call, n = kernel.library.repeated, 20_000
        begin = process_time()
        call(x.ctypes.data, n)
        return (process_time() - begin) / n


def at_equal_error(work: list[Work], error: float, column: int) -> float:
    """Evaluations or time at an error, between the measured ones on logarithmic scales."""
    points = sorted((np.log(max(one.error, 1e-16)), np.log(one[column])) for one in work)
    errors, values = np.transpose([point for point in points if np.isfinite(point[0])])
    if not errors[0] <= np.log(error) <= errors[-1]:
        return np.nan
    return float(np.exp(np.interp(np.log(error), errors, values)))


def table(problem: Problem, curves: dict[str, list[Work]]) -> None:
    """Prints evaluations and time at equal errors."""
    each = problem.evaluation_time()
    print(f"{problem.name}: an evaluation takes {each * 1e6:.2f} us in C")
    for error in (1e-4, 1e-5, 1e-6, 1e-7, 1e-8):
        for name, work in curves.items():
            evaluations, time = (at_equal_error(work, error, column) for column in (1, 2))
            alone = evaluations * each
            print(
                f"  error {error:.0e}  {name:18} {evaluations:9.0f} evaluations "
                f"{time * 1e3:9.3f} ms, these alone {alone * 1e3:8.3f} ms"
            )


def draw(found: dict[str, dict[str, list[Work]]]) -> None:
    """Evaluations and time over the error, a column for each problem."""
    figure, axes = plt.subplots(2, len(found), figsize=(4.5 * len(found), 7.5), squeeze=False)
    for column, (name, curves) in enumerate(found.items()):
        for row, unit in ((0, "evaluations"), (1, "time [ms]")):
            axis = axes[row, column]
            for solver, work in curves.items():
                values = [one.evaluations if row == 0 else one.time * 1e3 for one in work]
                style = "-o" if solver in OURS else "--s"
                axis.loglog([one.error for one in work], values, style, ms=4, label=solver)
            axis.set(xlabel="error at the end", ylabel=unit, title=name)
            axis.invert_xaxis()
            axis.grid(alpha=0.3)
    axes[0, 0].legend()
    figure.tight_layout()
    BUILD.mkdir(parents=True, exist_ok=True)
    figure.savefig(BUILD / "result.png", dpi=110)


def problems() -> list[Problem]:
    """The flyball governor, Andrews' squeezer, and an arm of seven joints under stiff control."""
    plant = ClosedLoopPlant(
        squeezer.MODEL, squeezer.angles(squeezer.START), elements=(squeezer.SPRING,)
    )
    return [
        Problem("flyball governor, 5 s", flyball_governor(), 5.0, np.zeros(4)),
        Problem(
            "Andrews' squeezer, 0.03 s",
            plant,
            0.03,
            np.eye(7)[0] * squeezer.TORQUE,
            squeezer.angles(squeezer.END),
        ),
        Problem("arm under stiff control, 1 s", stiff_arm(), 1.0, np.zeros(0)),
    ]


def main() -> None:
    """Prints the tables and draws the curves."""
    found = {}
    for problem in problems():
        found[problem.name] = problem.curves()
        table(problem, found[problem.name])
    draw(found)
    print(BUILD / "result.png")


if __name__ == "__main__":
    main()
