"""Repeat runs of each kind of part, and list the resources that the runs leave in their process.

    python benchmarks/soak.py [--runs 20000] [kind ...]

The exit code is 1 if one of these numbers grows with the number of runs: entries of `sys.path`,
modules, mapped files, open files, threads, child processes, temporary files. The exit code is also
1 if the memory grows by more than a kilobyte per run.
"""

import argparse
import gc
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np

from rigidblocks import PDController, RobotPlant, System, export_fmu, planar2, prepare, simulate
from rigidblocks.block.block import Port
from rigidblocks.block.external_functions import PythonBlock

Run = Callable[[], object]
DT, END = 1e-2, 0.05
WARM_UP = 20  # runs before the first count, which fill caches
MEMORY = 1024.0  # [B] per run: the resident memory of an allocator varies by this amount


def traces() -> dict[str, int]:
    """Return the counts of the resources of this process."""
    gc.collect()
    maps = Path("/proc/self/maps").read_text().splitlines()
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return {
        "entries of sys.path": len(sys.path),
        "cached importers": len(sys.path_importer_cache),
        "modules": len(sys.modules),
        "mapped files": sum("/" in line for line in maps),
        "open files": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "child processes": len(children),
        "files in the temporary folder": len(os.listdir(tempfile.gettempdir())),
    }


def resident() -> int:
    """Return the resident memory of this process [B]."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def growth(run: Run, runs: int) -> tuple[dict[str, int], float]:
    """Return the growth of the resource counts over `runs` runs, and of the memory per run [B]."""
    for _ in range(min(runs, WARM_UP)):
        run()
    before, memory = traces(), resident()
    for _ in range(runs):
        run()
    after = traces()
    grown = {name: after[name] - n for name, n in before.items() if after[name] > n}
    return grown, max(0, resident() - memory) / runs


def of_part(component: object, **options: object) -> Run:
    """Return a function that runs a system with one part."""

    def run() -> object:
        system = System()
        system.add("part", component, **options)  # type: ignore[arg-type]
        return simulate(system, END, DT, progress=False)

    return run


def of_form(form: str) -> Run:
    """Return a function that runs a robot in a form of execution, such as "compiled"."""
    system = System()
    system.add("part", RobotPlant(planar2()), start={"tau": np.zeros(2)})
    return lambda: simulate(system, END, DT, form=form, progress=False)


def prepared(component: object) -> Run:
    """Return a function that saves, steps, restores and runs a prepared system with one part."""
    system = System()
    system.add("part", component)  # type: ignore[arg-type]

    def run() -> object:
        with prepare(system, DT) as steps:
            steps.reset()
            moment = steps.save()
            steps.step(3)
            steps.restore(moment)
            return steps.simulate(END, progress=False)

    return run


def recorded(folder: Path) -> Run:
    """Return a function that records a run to a file."""
    system = System()
    system.add("part", RobotPlant(planar2()), start={"tau": np.zeros(2)})
    return lambda: simulate(system, END, DT, save=folder / "run.arrow", progress=False)


def kinds(folder: Path) -> dict[str, Callable[[], Run]]:
    """Return, for each kind of part, a function that creates its run."""
    block = PDController(kp=[1.0], kd=[0.1])

    def fmu(name: str, **options: object) -> Path:
        path = folder / f"{name}.fmu"
        return path if path.exists() else export_fmu(block, path, **options)  # type: ignore[arg-type]

    def python() -> Path:
        return fmu("python", target="python")

    def native(version: int) -> Path:
        return fmu(f"native{version}", target="native", fmi=version)

    exchange, gain = "model exchange", PythonBlock(lambda t: 2.0 * t, outputs=[Port("y")])
    return {
        "compiled block": lambda: of_form("compiled"),
        "fused block": lambda: of_form("fused"),
        "block in NumPy": lambda: of_form("numpy"),
        "Python block": lambda: of_part(gain),
        "recorded run": lambda: recorded(folder),
        "Python FMU": lambda: of_part(python()),
        "FMI 2": lambda: of_part(native(2)),
        "FMI 3": lambda: of_part(native(3)),
        "FMI 2, model exchange": lambda: of_part(native(2), kind=exchange),
        "FMI 3, model exchange": lambda: of_part(native(3), kind=exchange),
        "isolated FMU": lambda: of_part(native(2), isolated=True),
        "isolated Python FMU": lambda: of_part(python(), isolated=True),
        "prepared FMU": lambda: prepared(native(2)),
        "prepared Python FMU": lambda: prepared(python()),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("kinds", nargs="*")
    given, failed = parser.parse_args(), False
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as temporary:
        os.environ["TMPDIR"] = tempfile.tempdir = temporary  # no other process writes to it
        for name, make in kinds(Path(folder)).items():
            if not given.kinds or name in given.kinds:
                grown, memory = growth(make(), given.runs)
                left = ", ".join(f"{n} {what}" for what, n in grown.items()) or "nothing"
                print(f"{name}: {left} left by {given.runs} runs, {memory:.0f} B each", flush=True)
                failed |= bool(grown) or memory > MEMORY
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
