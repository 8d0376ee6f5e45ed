"""PD control of a planar two-link robot, run in five forms with the same results.

The parts are the robot, its controller and its command. They run as NumPy blocks, as compiled C
blocks, as one fused C loop, as Python FMUs and as native FMUs. The model is the demo planar2ctrl of
spatial_v1.

The gains are low, so that the tracking error shows the dynamics of the robot. The script writes
build/planar2ctrl/result.csv, result.png and result.html, a page that animates the run.
"""

import argparse
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import numpy as np

from rigidblocks import (
    PDController,
    RepeatingSequence,
    Result,
    RobotPlant,
    System,
    animate,
    export_fmu,
    planar2,
    simulate,
)

HERE = Path(__file__).parent
BUILD = Path("build/planar2ctrl")
T_STOP, DT = 10.0, 1e-3
NUMPY_STOP = 0.5  # [s] duration of the runs in NumPy, which are a hundred times slower
SAME = 1e-11  # largest difference of two runs: amplified rounding errors of values up to 1e3
NEAR = 2e-4  # [rad] largest error relative to the ideal law; the torque is held for DT
# q at t = 10 s with the ideal continuous control law, integrated to 1e-12
IDEAL_Q_END = np.array([0.999242611994, 1.499813042381])


def blocks(gravity=(0.0, 0.0, -9.81)):
    """Return the robot, its controller and its command as blocks."""
    return {
        "robot": RobotPlant(planar2().with_gravity(gravity)),
        "pd": PDController(kp=[1000, 1000], kd=[15, 15]),
        "command": RepeatingSequence(
            t=[0, 1, 2, 3, 4], y=[[0, 0], [1, 1.5], [1, 1.5], [0, 0], [0, 0]]
        ),
    }


@cache
def fmus(target: str) -> dict[str, Path]:
    """Build the FMUs of the three blocks from the scripts in fmus/."""
    scripts = HERE.parent / "fmus"
    return {
        name: export_fmu(scripts / f"planar2_{name}_fmu.py", BUILD / target / f"{name}.fmu", target)
        for name in ("robot", "pd", "command")
    }


def wired(
    parts: Mapping[str, object], start: Mapping[str, Mapping[str, object]] | None = None
) -> System:
    """Connect the three parts, which are blocks or FMU files, to a system."""
    system = System()
    for name, part in parts.items():
        system.add(name, part, start=(start or {}).get(name))
    system.connect("command.y", "pd.q_ref")
    system.connect("command.slope", "pd.qd_ref")
    system.connect("robot.q", "pd.q")
    system.connect("robot.qd", "pd.qd")
    system.connect("pd.tau", "robot.tau")
    return system


def run(form: str, system: System, t_stop: float) -> tuple[Result, float]:
    """Return the result and the wall time [s] of a run in a form; the time excludes compilation."""
    how = {"NumPy blocks": "numpy", "fused": "fused"}.get(form, "compiled")
    simulate(system, DT, DT, form=how, progress=False)
    begin = time.perf_counter()
    result = simulate(system, t_stop, DT, form=how)
    return result, time.perf_counter() - begin


def distance(a: Result, b: Result) -> float:
    """Return the largest difference of all outputs of two results at their common times."""
    n = min(len(a.time), len(b.time))
    return float(np.abs(a.values[:n] - b.values[:n]).max())


def table(forms: Mapping[str, Callable[[], System]], t_stop: float) -> dict[str, Result]:
    """Run all forms of execution, and print the speed and the errors of each when its run ends.

    One error is the largest difference from the results of the previous forms. The other error is
    the difference from the ideal control law at t = 10 s. The NumPy form runs for a shorter time.

    Raises:
        ArithmeticError: If two forms differ by more than rounding, or if the error relative to the
            ideal law is too large for a torque that is held for DT.
    """
    heads = ("run", "wall time", "steps/s", "from those above", "from ideal law at 10 s")
    print(f"{'form':16} {heads[0]:>6} {heads[1]:>10} {heads[2]:>10} {heads[3]:>16} {heads[4]:>23}")
    results: dict[str, Result] = {}
    for form, system in forms.items():
        until = min(t_stop, NUMPY_STOP) if form == "NumPy blocks" else t_stop
        result, seconds = run(form, system(), until)
        apart = max((distance(result, other) for other in results.values()), default=0.0)
        error = np.abs(result["robot.q"][-1] - IDEAL_Q_END).max() if until == T_STOP else 0.0
        ideal = f"{error:.1e} rad" if until == T_STOP else "-"
        print(
            f"{form:16} {until:4.3g} s {seconds:8.3f} s {(len(result.time) - 1) / seconds:10,.0f} "
            f"{apart:16.1e} {ideal:>23}",
            flush=True,
        )
        if not (apart < SAME and error < NEAR):
            raise ArithmeticError(f"the form '{form}' gives another run")
        results[form] = result
    return results


def main() -> None:
    """Run all forms of execution, compare them and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--t-stop", type=float, default=T_STOP, help="end of the run [s], default 10"
    )
    t_stop = parser.parse_args().t_stop
    forms = {
        "NumPy blocks": lambda: wired(blocks()),
        "compiled blocks": lambda: wired(blocks()),
        "fused": lambda: wired(blocks()),
        "Python FMUs": lambda: wired(fmus("python")),
        "native FMUs": lambda: wired(fmus("native")),
    }
    result = table(forms, t_stop)["Python FMUs"]
    print("\nwith gravity (0, -9.81, 0), which does work on the robot:")
    falling = {"robot": {"gravity": [0.0, -9.81, 0.0]}}
    table(
        {
            "NumPy blocks": lambda: wired(blocks((0.0, -9.81, 0.0))),
            "native FMUs": lambda: wired(fmus("native"), falling),
        },
        min(t_stop, NUMPY_STOP),
    )
    result.save(BUILD / "result.csv")
    result.plot("robot.q", "command.y", "pd.tau", path=BUILD / "result.png")
    animate(result, blocks()["robot"], BUILD / "result.html")
    print(
        f"\nwrote {BUILD}/result.csv and {BUILD}/result.png;"
        f" open {BUILD}/result.html to see it move"
    )


if __name__ == "__main__":
    main()
