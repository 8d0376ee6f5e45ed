"""What first calls take: the CPU time to trace, write and compile, with an empty cache, of robots
from files, whose bases float where the files leave them free.

    python benchmarks/compile_times.py            # all robots of example-robot-data
    python benchmarks/compile_times.py talos ur5  # files whose path has one of these words
"""

import os
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pinocchio

from rigidblocks import compiled, compiled_dynamics, derivatives, load_model
from rigidblocks.block.memory import Memory
from rigidblocks.formats.description import RobotDescription
from rigidblocks.kernels.stepper import compiled_stepper
from rigidblocks.library.described import described_plant
from rigidblocks.loops import closed_loop_dynamics
from rigidblocks.model.configuration import neutral

FOLDER = Path(pinocchio.__file__).parents[4] / "share/example-robot-data/robots"
LARGEST = (
    "robots/cassie.sdf",
    "cassie_v2.sdf",
    "cassie_simple.sdf",
    "cassie_reduced.sdf",
    "cassie_wo_gearbox_spring.sdf",
    "tiago_dual.urdf",
    "g1_29dof_with_hand_rev_1_0.urdf",
    "talos_full_v2.urdf",
    "icub.urdf",
    "alex_psyonic_hands.urdf",
)
HEADS = ["own + compilers' [s]", "nv", "rnea", "crba", "aba", "d rnea", "d aba", "plant"]


def files(words: tuple[str, ...]) -> list[Path]:
    """The robots of example-robot-data whose path has one of these words; all without any."""
    found = sorted(path for end in ("urdf", "sdf") for path in FOLDER.rglob(f"*.{end}"))
    return [p for p in found if not words or any(str(p).endswith(w) or w in p.stem for w in words)]


def first_calls(robot: RobotDescription) -> Iterator[Callable[[], object]]:
    """What is called for the first time. With loops the constrained dynamics take the place of aba,
    here and in what is differentiated.
    """
    model = robot.model
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
    yield lambda: compiled_stepper(Memory(described_plant(robot)))


def taken(call: Callable[[], object]) -> str:
    """The CPU time of this process and of the compilers that it starts, with an empty cache."""
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.dict(os.environ, RIGIDBLOCKS_CACHE=folder),
    ):
        begin, children = time.process_time(), of_children()
        call()
        own, compilers = time.process_time() - begin, of_children() - children
    return f"{own:.1f} + {compilers:.1f}"


def of_children() -> float:
    """The CPU time of all compilers so far [s]."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measured(words: tuple[str, ...] = LARGEST) -> Iterator[list[str]]:
    """The rows; a robot whose file is refused has none."""
    for path in files(words):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                robot = load_model(path, floating=True)
            except ValueError:
                continue
            loops = f", {len(robot.model.loops)} loops" * bool(robot.model.loops)
            times = [taken(call) for call in first_calls(robot)]
        yield [path.stem + loops, str(robot.model.nv), *times]


if __name__ == "__main__":
    for row in measured(tuple(sys.argv[1:])):
        print(" | ".join(row), flush=True)
