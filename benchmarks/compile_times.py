"""What first calls take: the CPU time to trace, write and compile, with an empty cache. Of robots
from files, whose bases float where the files leave them free; of 40 four-bars in a chain; of FMUs
that `rigidblocks fmu` makes; and of each example, by how much longer it takes than with its cache.

    python benchmarks/compile_times.py                 # all of them
    python benchmarks/compile_times.py talos ur5       # what has one of these words in its name
    python benchmarks/compile_times.py 11_four fmu     # an example, and the FMUs

The compilers run side by side, so on two idle cores one waits for our own time and half of theirs.
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

from rigidblocks import compiled, compiled_dynamics, derivatives, load_model
from rigidblocks.block.block import Block
from rigidblocks.block.memory import Memory
from rigidblocks.kernels.stepper import compiled_stepper
from rigidblocks.library import ClosedLoopPlant
from rigidblocks.library.described import described_plant
from rigidblocks.loops import closed_loop_dynamics
from rigidblocks.mechanisms import n_four_bar
from rigidblocks.model.configuration import neutral
from rigidblocks.model.tree import Tree

FOLDER = Path(pinocchio.__file__).parents[4] / "share/example-robot-data/robots"
EXAMPLES = Path(__file__).parents[1] / "examples"
FOUR_BARS = "40 four-bars"
FMUS = ("robots/cassie.sdf", "talos_full_v2.urdf")
SLOWEST = 10  # robots that are shown in the pages
HEADS = ["own + compilers' [s]", "nv", "rnea", "crba", "aba", "d rnea", "d aba", "plant"]
# runs a program and says what it took: our own time, and that of the compilers
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
    """CPU times [s]: our own, and that of the compilers."""

    own: float
    compilers: float

    def __str__(self) -> str:
        return f"{self.own:.1f} + {self.compilers:.1f}"

    @property
    def wait(self) -> float:
        """How long one waits on two idle cores [s]."""
        return self.own + self.compilers / 2


class Row(NamedTuple):
    """What is timed, its freedoms, and the times of its first calls in the order of HEADS."""

    name: str
    nv: int
    times: tuple[Times, ...]

    @property
    def cells(self) -> list[str]:
        return [self.name, str(self.nv), *map(str, self.times)]

    @property
    def wait(self) -> float:
        """The longest of them [s]."""
        return max(one.wait for one in self.times)


def files() -> list[Path]:
    """The robots of example-robot-data."""
    return sorted(path for end in ("urdf", "sdf") for path in FOLDER.rglob(f"*.{end}"))


def first_calls(model: Tree, plant: Block) -> Iterator[Callable[[], object]]:
    """What is called for the first time. With loops the constrained dynamics take the place of aba,
    here and in what is differentiated.
    """
    at = neutral(model), np.zeros(model.nv), np.zeros(model.nv)
    shapes = dict(zip(("q", "qd", "tau"), map(np.shape, at), strict=True))
    yield lambda: compiled_dynamics(model, "rnea")(*at)
    yield lambda: compiled_dynamics(model, "crba")(at[0])
    if model.loops:
        yield lambda: compiled(
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


def taken(call: Callable[[], object]) -> Times:
    """The CPU time of this process and of the compilers that it starts, with an empty cache."""
    with empty_cache():
        begin, children = time.process_time(), of_children()
        call()
        return Times(time.process_time() - begin, of_children() - children)


def of_children() -> float:
    """The CPU time of all compilers so far [s]."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def of_program(*command: str, folder: str) -> Times:
    """The times of a Python program in a folder."""
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
    """The times of a robot; None where its file is refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            robot = load_model(path, floating=True)
        except ValueError:
            return None
        model = robot.model
        loops = f", {len(model.loops)} loops" * bool(model.loops)
        calls = first_calls(model, described_plant(robot))
        return Row(path.stem + loops, model.nv, tuple(map(taken, calls)))


def of_four_bars() -> Row:
    mechanism = n_four_bar(40)
    calls = first_calls(mechanism.model, ClosedLoopPlant(*mechanism))
    return Row(FOUR_BARS, mechanism.model.nv, tuple(map(taken, calls)))


def of_fmu(robot: Path) -> Times:
    """What `rigidblocks fmu` takes for a robot whose base floats."""
    program = str(Path(__file__).parents[1] / "blocks/rigidblocks/__main__.py")
    with empty_cache(), tempfile.TemporaryDirectory() as folder:
        return of_program(program, "fmu", str(robot), "--floating", folder=folder)


def of_example(path: Path) -> Times:
    """How much longer an example takes with an empty cache than with what it left there."""
    with empty_cache(), tempfile.TemporaryDirectory() as folder:
        cold, warm = (of_program(str(path), folder=folder) for _ in range(2))
    return Times(max(cold.own - warm.own, 0.0), max(cold.compilers - warm.compilers, 0.0))


def robots(words: Sequence[str] = ()) -> Iterator[Row]:
    """The rows of all robots, or of those whose path ends with, or has, one of these words."""
    for path in files():
        asked = not words or any(str(path).endswith(one) or one in path.stem for one in words)
        if asked and (row := of_robot(path)):
            yield row


def measured() -> Iterator[list[str]]:
    """The rows for the pages: the slowest of all robots, and 40 four-bars."""
    rows = sorted(robots(), key=lambda row: -row.wait)
    yield from (row.cells for row in rows[:SLOWEST])
    columns = zip(*(row.times for row in rows), strict=True)
    worst = [max(times, key=lambda one: one.wait) for times in columns]
    yield [f"slowest of {len(rows)} robots", "", *map(str, worst)]
    yield of_four_bars().cells


def programs(words: Sequence[str] = ()) -> Iterator[tuple[str, Times]]:
    """FMUs and examples, those whose name has one of these words; all without any."""
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
