"""Deadlines of planar2 with its controller at 1 kHz: an empty loop, the runner, and Python.

    python benchmarks/real_time.py                          60 s each, on an idle machine
    python benchmarks/real_time.py --load 4 --fifo 50       under load, with priority

The programs run one after the other. The empty loop shows the noise of the machine. After each step
of a program, an empty section is timed. It lasts as long as a typical step and computes nothing, so
its excess time is also the noise of the machine.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from math import nan
from pathlib import Path
from typing import Any

from rigidblocks import System, build_runner, simulate
from rigidblocks.library import Constant

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/support"))

from planar2ctrl import parts, wired

DT = 1e-3
STEP = 0.9  # [us] typical duration of a step


def empty() -> System:
    """Return a system that computes nothing."""
    system = System()
    system.add("nothing", Constant(1.0))
    return system


def run(program: Path, seconds: float, priority: int) -> dict[str, Any]:
    """Return the report of a program; print rejected privileges to stderr."""
    fifo = ["--fifo", str(priority)] if priority else []
    command = [str(program), "--stop", str(seconds), "--empty", str(STEP), *fifo]
    reported = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    report: dict[str, Any] = json.loads(reported.removeprefix("ready\n"))
    return report


def reported(name: str, report: dict[str, Any]) -> None:
    """Print a row of the table."""
    start, step = report["start after due (us)"], report["step (us)"]
    empty = report.get("empty section (us)", dict.fromkeys(("median", "p99.9", "max"), nan))
    missed = report["missed deadlines"]
    print(
        f"{name:8} {report['steps']:7} {missed:7} {100 * missed / report['steps']:7.3f} "
        f"{report['late starts']:7} {start['median']:9.1f} {start['p99.9']:9.1f} "
        f"{start['max']:9.1f} {step['median']:7.1f} {step['p99.9']:7.1f} {step['max']:9.1f} "
        f"{empty['median']:8.1f} {empty['p99.9']:8.1f} {empty['max']:9.1f}",
        flush=True,
    )


@contextmanager
def load(n: int) -> Iterator[None]:
    """Run n busy processes while the context is active."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n)]
    try:
        yield
    finally:
        for one in busy:
            one.kill()
            one.wait()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--fifo", type=int, default=0)
    parser.add_argument("--load", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        programs = {
            "empty": build_runner(empty(), Path(folder, "empty"), DT),
            "runner": build_runner(wired(parts()), Path(folder, "runner"), DT),
        }
        simulate(wired(parts()), 0.1, DT, progress=False)  # compiles before the measurement
        print(f"{asked.seconds:g} s at 1 kHz, load {asked.load}, SCHED_FIFO {asked.fifo or 'no'}")
        print(
            "            steps  missed       %    late  start us:    p99.9       max  "
            "step us:   p99.9       max empty us:   p99.9       max"
        )
        with load(asked.load):
            for name, program in programs.items():
                reported(name, run(program, asked.seconds, asked.fifo))
            result = simulate(wired(parts()), asked.seconds, DT, real_time=1.0, progress=False)
            reported("Python", json.loads(result.meta["real_time"]))


if __name__ == "__main__":
    main()
