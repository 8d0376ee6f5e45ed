"""The couplings of a run against each other: errors and orders, what a chosen step makes of its
tolerance, and published cases. The tables of docs/masters.md.

    python benchmarks/couplings.py

The oracle is SciPy on the equations that were not cut; the systems are those of the tests.
"""

import json
import logging
import sys
from pathlib import Path
from time import process_time

import numpy as np

from rigidblocks import System, simulate

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))
from coupled_systems import Case, drivetrain, of_result, oscillator, quarter_car

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
    """The largest error of all positions and velocities."""
    result = simulate(system, case.t_stop, dt, h=1.25e-3, progress=False, **options)  # type: ignore[arg-type]
    return float(np.abs(of_result(result) - case.motion(result.time)).max())


def orders() -> None:
    """Errors at three steps, the order that fits them, and the processor's time for a step."""
    for name, case in (
        ("two masses", oscillator()),
        ("quarter car", quarter_car()),
        ("drivetrain", drivetrain()),
    ):
        print(f"\n{name}: largest error at dt = 5, 2.5, 1.25 ms\n")
        print("| options | 5 ms | 2.5 ms | 1.25 ms | order |\n|---|---|---|---|---|")
        system = case.system()
        for scheme, options in SCHEMES.items():
            errors = [error_of(case, system, dt, **options) for dt in STEPS]
            order = f"{np.polyfit(np.log(STEPS), np.log(errors), 1)[0]:.2f}"
            cells = " | ".join(f"{error:.2g}" for error in errors)
            print(f"| `{scheme}` | {cells} | {'' if 'transparent' in scheme else order} |")


def long_steps() -> None:
    """Steps of 20 ms, at which held inputs are unstable."""
    case = Case(oscillator().driver, oscillator().load, 4.0)
    print("\ntwo masses, 4 s at dt = 20 ms\n\n| options | largest error |\n|---|---|")
    for scheme, options in SCHEMES.items():
        print(f"| `{scheme}` | {error_of(case, case.system(), 0.02, **options):.2g} |")


def tolerances() -> None:
    """What a chosen step makes of its tolerance."""
    case = oscillator(0.0)
    print("\ntwo masses, `iterate=True, extrapolate=1, step_tol=...`, dt = 0.1 s\n")
    print("| step_tol | largest error | steps | taken back | shortest [s] |\n|---|---|---|---|---|")
    for tolerance in 10.0 ** -np.arange(1, 6):
        result = simulate(
            case.system(), 1.0, 0.1, iterate=True, extrapolate=1, step_tol=tolerance, progress=False
        )
        error = np.abs(of_result(result) - case.motion(result.time)).max()
        told = json.loads(result.meta["coupling"])
        print(
            f"| {tolerance:.0e} | {error:.1e} | {told['steps']} | {told['refused']} | "
            f"{told['shortest']:.2g} |"
        )


def costs() -> None:
    """The processor's time of a step of two blocks."""
    case, n = oscillator(), 1000
    system = case.system()
    print("\ntwo compiled blocks, us of the processor a step\n\n| options | us |\n|---|---|")
    for scheme, options in SCHEMES.items():
        times, many = [], 5 if {"extrapolate", "iterate"} & options.keys() else 100
        for steps in (n, n, many * n):  # the first one compiles
            begin = process_time()
            simulate(system, steps * 1e-3, 1e-3, h=1e-3, progress=False, **options)  # type: ignore[arg-type]
            times.append(process_time() - begin)
        print(f"| `{scheme}` | {(times[2] - times[1]) / ((many - 1) * n) * 1e6:.3g} |")


def main() -> None:
    logging.getLogger("rigidblocks").setLevel(logging.ERROR)
    orders()
    long_steps()
    tolerances()
    costs()


if __name__ == "__main__":
    main()
