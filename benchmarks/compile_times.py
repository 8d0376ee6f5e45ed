"""CPU time of first calls with an empty cache: tracing, code generation and compilation.

    python benchmarks/compile_times.py                 # all models
    python benchmarks/compile_times.py talos ur5       # models with one of these words in the name
    python benchmarks/compile_times.py 11_four fmu     # an example, and the FMUs

The models are robots from files, 40 four-bars in a chain, and FMUs made by `rigidblocks fmu`. The
robots have floating bases unless their files fix the base.

The time of an example is its difference from a run with a full cache. The compilers run in
parallel. On two idle cores, the waiting time is therefore the time of this process plus half the
time of the compilers.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import pinocchio

from rigidblocks import compiled_dynamics, derivatives, load_model
from rigidblocks.block.block import Block
from rigidblocks.block.memory_layout import Memory
from rigidblocks.dynamics.loops import closed_loop_dynamics
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.library import ClosedLoopPlant
from rigidblocks.library.plant_from_file import described_plant
from rigidblocks.robot.configuration import neutral
from rigidblocks.robot.robots import n_four_bar
from rigidblocks.robot.tree import Tree
from rigidblocks.tracing.compiled_functions import compile_function

FOLDER = Path(pinocchio.__file__).parents[4] / "share/example-robot-data/robots"
EXAMPLES = Path(__file__).parents[1] / "examples"
FOUR_BARS = "40 four-bars"
FMUS = ("robots/cassie.sdf", "talos_full_v2.urdf")
SLOWEST = 10  # number of robots in the tables of the docs
HEADS = ["this process + compilers [s]", "nv", "rnea", "crba", "aba", "d rnea", "d aba", "plant"]
# runs a program, and reports the CPU time of the process and of the compilers
_TIMED = """
import resource, runpy, sys, time
sys.argv = sys.argv[1:]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(time.process_time(), used.ru_utime + used.ru_stime, file=sys.stderr)
"""


class Times(NamedTuple):
    """CPU times [s] of the process itself and of the compilers."""

    own: float
    compilers: float

    def __str__(self) -> str:
        return f"{self.own:.1f} + {self.compilers:.1f}"

    @property
    def wait(self) -> float:
        """Waiting time on two idle cores [s]."""
        return self.own + self.compilers / 2


class Row(NamedTuple):
    """Name, number of degrees of freedom, and first-call times in the order of HEADS."""

    name: str
    nv: int
    times: tuple[Times, ...]

    @property
    def cells(self) -> list[str]:
        return [self.name, str(self.nv), *map(str, self.times)]

    @property
    def wait(self) -> float:
        """Longest waiting time of all first calls [s]."""
        return max(one.wait for one in self.times)


def files() -> list[Path]:
    """Return the robot files of example-robot-data."""
    return sorted(path for end in ("urdf", "sdf") for path in FOLDER.rglob(f"*.{end}"))


def first_calls(model: Tree, plant: Block) -> Iterator[Callable[[], object]]:
    """Yield the first calls of a model.

    For models with loops, the constrained dynamics replace aba, also in the derivatives.
    """
    at = neutral(model), np.zeros(model.nv), np.zeros(model.nv)
    shapes = dict(zip(("q", "qd", "tau"), map(np.shape, at), strict=True))
    yield lambda: compiled_dynamics(model, "rnea")(*at)
    yield lambda: compiled_dynamics(model, "crba")(at[0])
    if model.loops:
        yield lambda: compile_function(
            "constrained", lambda *x: {"qdd": closed_loop_dynamics(model, *x).qdd}, shapes
        )(*at)
    else:
        yield lambda: compiled_dynamics(model, "aba")(*at)
    yield lambda: derivatives(model, "rnea")(*at)
    yield lambda: derivatives(model, "closed_loop_dynamics" if model.loops else "aba")(*at)
    yield lambda: compiled_stepper(Memory(plant))


@contextmanager
def empty_cache() -> Iterator[None]:
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.dict(os.environ, RIGIDBLOCKS_CACHE=folder),
    ):
        yield


def measure_call(call: Callable[[], object]) -> Times:
    """Return the CPU times of this process and of its compilers for a call, with an empty cache."""
    with empty_cache():
        begin, children = time.process_time(), of_children()
        call()
        return Times(time.process_time() - begin, of_children() - children)


def of_children() -> float:
    """Return the CPU time of all compilers so far [s]."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def of_program(*command: str, folder: str) -> Times:
    """Return the CPU times of a Python program that runs in `folder`."""
    done = subprocess.run(
        [sys.executable, "-c", _TIMED, *command],
        cwd=folder,
        env={**os.environ, "MPLBACKEND": "agg"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )
    return Times(*map(float, done.stderr.splitlines()[-1].split()))


def of_robot(path: Path) -> Row | None:
    """Return the times of a robot, or None if the loader rejects its file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            robot = load_model(path, floating=True)
        except ValueError:
            return None
        model = robot.model
        loops = f", {len(model.loops)} loops" * bool(model.loops)
        calls = first_calls(model, described_plant(robot))
        return Row(path.stem + loops, model.nv, tuple(map(measure_call, calls)))


def of_four_bars() -> Row:
    mechanism = n_four_bar(40)
    calls = first_calls(mechanism.model, ClosedLoopPlant(*mechanism))
    return Row(FOUR_BARS, mechanism.model.nv, tuple(map(measure_call, calls)))


def of_fmu(robot: Path) -> Times:
    """Return the times of `rigidblocks fmu` for a robot with a floating base."""
    program = str(Path(__file__).parents[1] / "blocks/rigidblocks/__main__.py")
    with empty_cache(), tempfile.TemporaryDirectory() as folder:
        return of_program(program, "fmu", str(robot), "--floating", folder=folder)


def of_example(path: Path) -> Times:
    """Return the additional time of an example with an empty cache, compared with a full cache."""
    with empty_cache(), tempfile.TemporaryDirectory() as folder:
        cold, warm = (of_program(str(path), folder=folder) for _ in range(2))
    return Times(max(cold.own - warm.own, 0.0), max(cold.compilers - warm.compilers, 0.0))


def robots(words: Sequence[str] = ()) -> Iterator[Row]:
    """Yield the rows of all robots, or of robots whose path or name matches one of the words."""
    for path in files():
        asked = not words or any(str(path).endswith(one) or one in path.stem for one in words)
        if asked and (row := of_robot(path)):
            yield row


def measured() -> Iterator[list[str]]:
    """Yield the rows for the docs: the slowest robots, the column maxima, and 40 four-bars."""
    rows = sorted(robots(), key=lambda row: -row.wait)
    yield from (row.cells for row in rows[:SLOWEST])
    columns = zip(*(row.times for row in rows), strict=True)
    worst = [max(times, key=lambda one: one.wait) for times in columns]
    yield [f"slowest of {len(rows)} robots", "", *map(str, worst)]
    yield of_four_bars().cells


def programs(words: Sequence[str] = ()) -> Iterator[tuple[str, Times]]:
    """Yield name and times of the FMUs and examples that match one of the words, or of all."""
    for end in FMUS:
        if wanted(name := f"fmu of {Path(end).stem}", words):
            yield name, of_fmu(next(path for path in files() if str(path).endswith(end)))
    for path in sorted(EXAMPLES.glob("*.py")):
        if wanted(path.stem, words):
            yield path.stem, of_example(path)


def wanted(name: str, words: Sequence[str]) -> bool:
    return not words or any(word in name for word in words)


if __name__ == "__main__":
    asked = sys.argv[1:]
    print(" | ".join([*HEADS, "longest wait"]), flush=True)
    for row in robots(asked):
        print(" | ".join([*row.cells, f"{row.wait:.1f}"]), flush=True)
    if wanted(FOUR_BARS, asked):
        print(" | ".join([*(row := of_four_bars()).cells, f"{row.wait:.1f}"]), flush=True)
    for name, times in programs(asked):
        print(f"{name} | {times} | {times.wait:.1f}", flush=True)
