"""Work-precision diagrams: final error against evaluations and time, compared with other solvers.

The other solvers are LSODA and Radau from SciPy, and CVODE from SUNDIALS (BDF, from FMPy's
library). All solvers use the same compiled derivative. CVODE and the library call it from C,
SciPy's solvers from Python. All have the same tolerances, two per decade.

For each error, the tables list the cheapest run that is at least as accurate. The reference is the
library's collocation method at 1e-12, which CVODE's best run must confirm. The script writes
build/work_precision/result.png.
"""

import ctypes
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from time import process_time
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from fmpy import sundials
from scipy.integrate import solve_ivp

from rigidblocks import Block, ClosedLoopPlant
from rigidblocks.block.adaptive_methods import Method, longest_step, memory_for, method_of
from rigidblocks.block.radau import newton_tolerance
from rigidblocks.common.compiler import shared_library
from rigidblocks.kernels.model_header import KERNEL, model_header
from rigidblocks.kernels.traced_evaluator import TracedEvaluator
from rigidblocks.tracing.ccode import c_text

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "tests/support"))

import squeezer  # noqa: E402
from stiff_mechanisms import flyball_governor, stiff_arm  # noqa: E402

mpl.use("agg")
from matplotlib import pyplot as plt  # noqa: E402

BUILD = Path("build/work_precision")
TOLERANCES = 10.0 ** -np.arange(2.0, 10.0, 0.5)
OURS = ("adaptive or stiff", "radau")
SOLVERS = (*OURS, "LSODA", "Radau", "CVODE")
ERRORS = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
SETTABLE = re.compile(r"static const (double RB_(?:RTOL|ATOL|NEWTON_CLOSE)\b)")


class Work(NamedTuple):
    """Work of a run: relative final error, evaluations of the derivative, and time [s]."""

    error: float
    evaluations: int
    time: float


@dataclass(frozen=True, eq=False)
class Kernel:
    """Compiled block with a method; it counts evaluations and has a settable tolerance.

    If `inputs` is not given, the inputs have their start values.
    """

    block: Block
    method: Method
    inputs: np.ndarray | None = None

    @cached_property
    def memory(self):
        """Layout of the block's memory."""
        return memory_for(self.block, self.method)

    @cached_property
    def library(self):
        """Loaded kernel."""
        header = model_header(TracedEvaluator(self.memory), self.method, longest_step(self.method))
        sources = {"model.h": SETTABLE.sub(r"static \1", header)} | {
            name: c_text(f"kernel/{name}") for name in (*KERNEL, "kernel.c")
        }
        sources["precision.c"] = (ROOT / "benchmarks/precision.c").read_text()
        library = ctypes.CDLL(str(shared_library(sources, "precision.c")))
        double, address = ctypes.c_double, ctypes.c_void_p
        library.rb_block_initialize.argtypes = (address, double)
        library.rb_block_step.argtypes = (address, double, double)
        library.rates.argtypes = (double, address, address)
        library.take.argtypes = (address,)
        library.tolerate.argtypes = (double, address, double)
        library.counts.restype = ctypes.c_long
        return library

    def start(self) -> np.ndarray:
        """Reset the counter, and return an initialized memory, which the derivative also uses."""
        m = self.memory.start()
        if self.inputs is not None:
            m[self.memory.u] = self.inputs
        self.library.rb_block_initialize(m.ctypes.data, 0.0)
        self.library.take(m.ctypes.data)
        self.library.counts()
        return m

    def tolerate(self, rtol: float) -> None:
        """Set the relative tolerance."""
        absolute = method_of(self.method, rtol).absolute_tolerances(self.block.states)
        self.library.tolerate(rtol, absolute.ctypes.data, newton_tolerance(rtol))

    def states(self, rtol: float, end: float) -> np.ndarray:
        """Return the states at the end of one communication step."""
        self.tolerate(rtol)
        m = self.start()
        assert self.library.rb_block_step(m.ctypes.data, 0.0, end) == 0
        return m[self.memory.x]


def by_scipy(kernel: Kernel, name: str, rtol: float, end: float) -> np.ndarray:
    """Return the final states computed by a SciPy solver; Radau uses the exact Jacobian."""
    m, evaluator = kernel.start(), TracedEvaluator(kernel.memory)
    place, at = kernel.memory.x, np.zeros(kernel.memory.x.stop - kernel.memory.x.start)
    rates, to = kernel.library.rates, np.zeros(len(at))

    def f(t: float, x: np.ndarray) -> np.ndarray:
        at[:] = x
        rates(t, at.ctypes.data, to.ctypes.data)
        return to.copy()

    def jacobian(t: float, x: np.ndarray) -> np.ndarray:
        m[0], m[place] = t, x
        return evaluator.jacobian(m)[0]

    exact = {"jac": jacobian} if name == "Radau" else {}
    return solve_ivp(f, (0, end), m[place], name, rtol=rtol, atol=rtol, **exact).y[:, -1]


def by_cvode(kernel: Kernel, rtol: float, end: float) -> np.ndarray:
    """Return the final states computed by CVODE, with the derivative in C."""
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
    """Block that runs from its start to `end`, with a reference for the first or for all states.

    If no solution is known, the reference run has a tolerance far below the other tolerances.
    """

    name: str
    block: Block
    end: float
    inputs: np.ndarray
    known: np.ndarray | None = None
    kernels: dict[str, Kernel] = field(default_factory=dict)

    @cached_property
    def solution(self) -> np.ndarray:
        """Return the reference for the final states."""
        if self.known is not None:
            return self.known
        return self.kernel("radau").states(1e-12, self.end)

    def kernel(self, name: str) -> Kernel:
        """Return the kernel of one of the library's methods, compiled once."""
        if name not in self.kernels:
            self.kernels[name] = Kernel(self.block, method_of(name), self.inputs)
        return self.kernels[name]

    def work(self, kernel: Kernel, solve: Callable[[], np.ndarray]) -> Work:
        """Return the work of a solution; the time of a short run is the best of five runs."""
        times: list[float] = []
        while len(times) < 5 and sum(times) < 0.2:
            begin = process_time()
            kernel.library.counts()
            x = solve()
            times.append(process_time() - begin)
        error = np.max(
            np.abs(x[: len(self.solution)] - self.solution) / np.maximum(np.abs(self.solution), 1.0)
        )
        return Work(float(error), kernel.library.counts(), min(times))

    def curves(self) -> dict[str, list[Work]]:
        """Return the work of each solver at each tolerance."""
        one, found = self.kernel("adaptive or stiff"), {}
        one.start()

        def solved(name: str, rtol: float) -> Work:
            if name in OURS:
                kernel = self.kernel(name)
                return self.work(kernel, lambda: kernel.states(rtol, self.end))
            if name == "CVODE":
                return self.work(one, lambda: by_cvode(one, rtol, self.end))
            return self.work(one, lambda: by_scipy(one, name, rtol, self.end))

        for name in SOLVERS:
            found[name] = [solved(name, rtol) for rtol in TOLERANCES]
        nearest = min(work.error for work in found["CVODE"])
        if not nearest < 1e-6:
            raise ValueError(f"CVODE comes no nearer than {nearest:g} to what is taken as exact")
        return found


def cheapest(work: list[Work], error: float, column: int) -> float:
    """Return the fewest evaluations or the least time of the runs with at most this error.

    The result is NaN if no run is as accurate.
    """
    return min((one[column] for one in work if one.error <= error), default=np.nan)


def rows(problem: Problem, curves: dict[str, list[Work]]) -> Iterator[list[str]]:
    """Yield rows of evaluations and times: a row per error, a column per solver."""
    for error in ERRORS:
        cells = []
        for work in curves.values():
            evaluations, time = (cheapest(work, error, column) for column in (1, 2))
            known = np.isfinite(evaluations)
            cells.append(f"{evaluations:,.0f}; {time * 1e3:.2g} ms" if known else "not reached")
        yield [problem.name, f"{error:.0e}".replace("e-0", "e-"), *cells]


def draw(found: dict[str, dict[str, list[Work]]]) -> None:
    """Draw evaluations and time over the error, with a column for each problem."""
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
    """Return the flyball governor, Andrews' squeezer, and an arm of seven joints."""
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


def measured() -> Iterator[list[str]]:
    """Yield the rows of all problems, and draw the curves."""
    found = {}
    for problem in problems():
        found[problem.name] = problem.curves()
        yield from rows(problem, found[problem.name])
    draw(found)


def main() -> None:
    """Print the tables and draw the curves."""
    for row in measured():
        print(*(cell.ljust(20) for cell in row), flush=True)
    print(BUILD / "result.png")


if __name__ == "__main__":
    main()
