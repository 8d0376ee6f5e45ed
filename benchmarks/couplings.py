"""Comparison of the coupling schemes: errors, orders and step size control.

    python benchmarks/couplings.py

The tables are in docs/benchmarks.md. The reference is SciPy's solution of the equations of the
whole system; the tests use the same systems.
"""

import json
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time

import numpy as np

from rigidblocks import System, simulate

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))
from coupled_systems import Case, drivetrain, oscillator, quarter_car, states_of_result

Rows = Iterator[list[str]]
STEPS = (5e-3, 2.5e-3, 1.25e-3)
SCHEMES = {
    "jacobi": {"order": "jacobi"},
    "gauss-seidel": {},
    "jacobi, extrapolate=1": {"order": "jacobi", "extrapolate": 1},
    "jacobi, extrapolate=2": {"order": "jacobi", "extrapolate": 2},
    "iterate=True": {"iterate": True},
    "iterate=True, extrapolate=1": {"iterate": True, "extrapolate": 1},
    'iterate="newton"': {"iterate": "newton"},
    "transparent=True": {"transparent": True},
}


def error_of(case: Case, system: System, dt: float, **options: object) -> float:
    """Return the largest error of all positions and velocities."""
    result = simulate(system, case.t_stop, dt, h=1.25e-3, progress=False, **options)  # type: ignore[arg-type]
    return float(np.abs(states_of_result(result) - case.motion(result.time)).max())


def orders(case: Case) -> Rows:
    """Yield, for each scheme, the errors at several step sizes and the fitted order."""
    system = case.system()
    for scheme, options in SCHEMES.items():
        errors = [error_of(case, system, dt, **options) for dt in STEPS]
        order = f"{np.polyfit(np.log(STEPS), np.log(errors), 1)[0]:.2f}"
        cells = [f"{error:.2g}" for error in errors]
        yield [f"`{scheme}`", *cells, "" if "transparent" in scheme else order]


def long_steps() -> Rows:
    """Yield the errors of two masses over 4 s in steps of 20 ms, too long for held inputs."""
    case = Case(oscillator().driver, oscillator().load, 4.0)
    for scheme, options in SCHEMES.items():
        yield [f"`{scheme}`", f"{error_of(case, case.system(), 0.02, **options):.2g}"]


def tolerances() -> Rows:
    """Yield the tolerance, the error and the step counts of the step size control."""
    case = oscillator(0.0)
    for tolerance in 10.0 ** -np.arange(1, 6):
        result = simulate(
            case.system(), 1.0, 0.1, iterate=True, extrapolate=1, step_tol=tolerance, progress=False
        )
        error = np.abs(states_of_result(result) - case.motion(result.time)).max()
        reported = json.loads(result.meta["coupling"])
        counts = [str(reported["steps"]), str(reported["refused"]), f"{reported['shortest']:.2g}"]
        yield [f"{tolerance:.0e}", f"{error:.1e}", *counts]


def costs() -> Rows:
    """Yield the CPU time per communication step of two compiled blocks with two states [us]."""
    case, n = oscillator(), 1000
    system = case.system()
    for scheme, options in SCHEMES.items():
        times, many = [], 5 if {"extrapolate", "iterate"} & options.keys() else 1000
        for steps in (n, n, many * n):  # the first run compiles
            begin = process_time()
            simulate(system, steps * 1e-3, 1e-3, h=1e-3, progress=False, **options)  # type: ignore[arg-type]
            times.append(process_time() - begin)
        yield [f"`{scheme}`", f"{(times[2] - times[1]) / ((many - 1) * n) * 1e6:.3g}"]


MEASURES: dict[str, Callable[[], Rows]] = {
    "two_masses": lambda: orders(oscillator()),
    "quarter_car": lambda: orders(quarter_car()),
    "drivetrain": lambda: orders(drivetrain()),
    "long_coupling_steps": long_steps,
    "chosen_coupling_steps": tolerances,
    "coupling_costs": costs,
}
_ORDERS = ["options", *(f"{step * 1e3:g} ms" for step in STEPS), "order"]
HEADS = {
    "two_masses": _ORDERS,
    "quarter_car": _ORDERS,
    "drivetrain": _ORDERS,
    "long_coupling_steps": ["options", "largest error"],
    "chosen_coupling_steps": [
        "step_tol",
        "largest error",
        "steps",
        "rejected",
        "shortest step [s]",
    ],
    "coupling_costs": ["options", "us"],
}


def main() -> None:
    """Print the tables."""
    logging.getLogger("rigidblocks").setLevel(logging.ERROR)
    for name, measure in MEASURES.items():
        print(f"\n{name}", *HEADS[name], sep="  ")
        for row in measure():
            print(*(cell.ljust(30) for cell in row), flush=True)


if __name__ == "__main__":
    main()
