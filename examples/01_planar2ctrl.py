"""A planar robot of two links follows a command under a PD controller, in five forms that give the same run.

The three blocks run in NumPy, compiled to C, as Python FMUs, as native FMUs, and fused into one C loop. The gains are
chosen such that the robot does not follow its command very well and its dynamics can be seen; the demo planar2ctrl of
spatial_v1 is the model. Writes build/planar2ctrl/result.csv and result.png.
"""

import argparse
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from rigidblocks import PDController, RepeatingSequence, Result, RobotPlant, System, export_fmu, planar2, simulate

HERE = Path(__file__).parent
BUILD = Path("build/planar2ctrl")
T_STOP, DT = 10.0, 1e-3
# q at t = 10 s under the ideal continuous law, integrated to 1e-12
IDEAL_Q_END = np.array([0.999242611994, 1.499813042381])


def blocks(gravity=(0.0, 0.0, -9.81)):
    """The robot, its controller and its command."""
    return {
        "robot": RobotPlant(planar2().with_gravity(gravity)),
        "pd": PDController(kp=[1000, 1000], kd=[15, 15]),
        "command": RepeatingSequence(t=[0, 1, 2, 3, 4], y=[[0, 0], [1, 1.5], [1, 1.5], [0, 0], [0, 0]]),
    }


def fmus(target: str) -> dict[str, Path]:
    """The same three as FMUs, built from the scripts in fmus/."""
    scripts = HERE.parent / "fmus"
    return {
        name: export_fmu(scripts / f"planar2_{name}_fmu.py", BUILD / target / f"{name}.fmu", target)
        for name in ("robot", "pd", "command")
    }


def wired(parts: Mapping[str, object], start: Mapping[str, Mapping[str, object]] | None = None) -> System:
    """The system of three parts, blocks or FMU files."""
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
    """The result of a form and its wall time [s], the compilation done beforehand."""
    how = {"NumPy blocks": "numpy", "fused": "fused"}.get(form, "compiled")
    simulate(system, DT, DT, form=how, progress=False)
    begin = time.perf_counter()
    result = simulate(system, t_stop, DT, form=how)
    return result, time.perf_counter() - begin


def table(systems: Mapping[str, System], t_stop: float) -> dict[str, Result]:
    """Runs all forms and prints how fast each is and how far from the first and from the ideal law."""
    print(f"{'form':16} {'wall time':>10} {'steps/s':>10} {'from NumPy form':>16} {'from ideal law at 10 s':>23}")
    results: dict[str, Result] = {}
    for form, system in systems.items():
        result, seconds = run(form, system, t_stop)
        results[form] = result
        first = next(iter(results.values()))
        deviation = max(np.abs(result[port.name] - first[port.name]).max() for port in first.ports)
        ideal = f"{np.abs(result['robot.q'][-1] - IDEAL_Q_END).max():.1e} rad" if t_stop == T_STOP else "-"
        steps = (len(result.time) - 1) / seconds
        print(f"{form:16} {seconds:8.3f} s {steps:10,.0f} {deviation:16.1e} {ideal:>23}")
    return results


def main() -> None:
    """Builds, runs, compares and writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--t-stop", type=float, default=T_STOP, help="end of the run [s], default 10")
    t_stop = parser.parse_args().t_stop
    parts, python, native = blocks(), fmus("python"), fmus("native")
    systems = {
        "NumPy blocks": wired(parts),
        "compiled blocks": wired(parts),
        "Python FMUs": wired(python),
        "native FMUs": wired(native),
        "fused": wired(parts),
    }
    results = table(systems, t_stop)
    print("\nwith gravity (0, -9.81, 0), which does work on the robot:")
    falling = {"robot": {"gravity": [0.0, -9.81, 0.0]}}
    table({"NumPy blocks": wired(blocks((0.0, -9.81, 0.0))), "native FMUs": wired(native, falling)}, min(t_stop, 2.0))
    result = results["Python FMUs"]
    result.save(BUILD / "result.csv")
    result.plot("robot.q", "command.y", "pd.tau", path=BUILD / "result.png")
    print(f"\nwrote {BUILD}/result.csv and {BUILD}/result.png")


if __name__ == "__main__":
    main()
