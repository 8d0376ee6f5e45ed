"""Tables of docs/benchmarks.md: this library compared with Pinocchio, MuJoCo, Drake and others.

Results are compared before they are timed. Each time is the minimum CPU time over many short runs.
All libraries take turns, so that both times of a ratio belong to the same load. All libraries are
called from Python by their fastest call.

A separate table lists the rows in which another library or program is faster.
"""

import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from unittest.mock import patch

import batches
import by_casadi
import by_rbdl
import counted
import derivatives
import grounded
import hosting
import in_cpp
import jax_peers
import kernels
import loops
import masters
import memory
import mujoco
import numpy as np
import pinocchio
from models import chains, check_equal, in_drake, in_mujoco, in_pinocchio, models

from rigidblocks import (
    ClosedLoopPlant,
    Model,
    RobotPlant,
    auto_tree,
    compiled_dynamics,
    load_model,
)
from rigidblocks.block.block import Block
from rigidblocks.block.memory_layout import Memory
from rigidblocks.kernels.compiled_dynamics import derivatives as compiled_derivatives
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.library.plant_from_file import described_plant
from rigidblocks.robot.robots import (
    Mechanism,
    four_bar,
    n_four_bar,
    spatial_mechanism,
    stewart_platform,
)

Row = list[str]
Compared = tuple[str, float, float]  # name, time of this library, time of the other library
Calls = Mapping[str, Callable[[], object]]


def least(calls: Calls, number: int, rounds: int = 60) -> dict[str, float]:
    """Return the least CPU time of each call [us] over many short runs; calls take turns."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            begin = time.process_time()
            for _ in range(number):
                call()
            times[name].append((time.process_time() - begin) / number * 1e6)
    return {name: min(measured) for name, measured in times.items()}


def row(what: str, ours: float, peer: float, name: str) -> Row:
    """Return the row of two times [us] and their ratio."""
    return [what, f"{ours:,.2f} us", f"{peer:,.2f} us", name, f"{peer / ours:.2f} x"]


def behind(measured: Mapping[str, dict]) -> list[Row]:
    """Return the rows of all tables in which the other library or program is faster."""
    rows = (one for name in MEASURES for one in measured.get(name, {}).get("rows", ()))
    slower = [
        one
        for one in rows
        if one[-1].endswith(" x") and float(one[-1].removesuffix(" x").replace(",", "")) < 1.0
    ]
    return slower or [["none of the rows below", "", "", "", ""]]


def dynamics() -> Iterator[Row]:
    """Yield the rows of the tree algorithms, for chains and for a body with four legs."""
    rng = np.random.default_rng(0)
    for name, model in chains().items():
        q, qd, w = rng.normal(size=(3, model.nv))
        for algorithm, calls in kernels.pinocchio_calls(model, q, qd, w).items():
            kernel = compiled_dynamics(model, algorithm)
            ours = kernel(*(q, qd, w)[: len(kernel.inputs)])
            for call in calls:
                check_equal(algorithm, *map(np.triu, np.atleast_2d(ours, call())), 1e-10)
            theirs = {f"peer {k}": call for k, call in enumerate(calls)}
            times = least({"ours": kernel.run, **theirs}, 200)
            quicker = min(times[one] for one in theirs)
            yield row(f"{algorithm}, {name}", times["ours"], quicker, "Pinocchio")
        yield _forward(name, model, q, qd, w)
        yield from _by_drake(name, model, q, qd, w)


def _forward(name: str, model: Model, q: np.ndarray, qd: np.ndarray, w: np.ndarray) -> Row:
    """Return the row of the forward dynamics and MuJoCo's mj_forward, which also computes poses."""
    other = in_mujoco(model)
    data, kernel = mujoco.MjData(other), compiled_dynamics(model, "aba")
    data.qpos[:], data.qvel[:], data.qfrc_applied[:] = q, qd, w
    mujoco.mj_forward(other, data)
    check_equal(f"mj_forward, {name}", kernel(q, qd, w), data.qacc, 1e-8)
    times = least({"ours": kernel.run, "peer": lambda: mujoco.mj_forward(other, data)}, 100)
    return row(f"aba, {name}", times["ours"], times["peer"], "MuJoCo's mj_forward")


def _by_drake(
    name: str, model: Model, q: np.ndarray, qd: np.ndarray, w: np.ndarray
) -> Iterator[Row]:
    """Yield the rows of the algorithms in Drake; each call has new positions and velocities."""
    for algorithm, call in in_drake(model, q, qd, w).items():
        kernel = compiled_dynamics(model, algorithm)
        ours = kernel(*(q, qd, w)[: len(kernel.inputs)])
        check_equal(f"{algorithm}, {name}", ours, call(), 1e-10)
        times = least({"ours": kernel.run, "peer": call}, 50, 30)
        yield row(f"{algorithm}, {name}", times["ours"], times["peer"], "Drake")


def differentiated() -> Iterator[Row]:
    """Yield the rows of the derivatives of forward and inverse dynamics."""
    rng = np.random.default_rng(0)
    for name, model in chains().items():
        other = in_pinocchio(model)
        data, (q, qd, w) = other.createData(), rng.normal(size=(3, model.nv))
        for algorithm, (_, function) in derivatives.ALGORITHMS.items():
            ours = compiled_derivatives(model, algorithm)
            arguments = (other, data, q, qd, w)
            for one, two in zip(ours(q, qd, w)[1:], function(*arguments), strict=True):
                check_equal(f"d {algorithm}, {name}", np.triu(one), np.triu(two), 1e-9)
            calls = {"ours": ours.run, "peer": lambda f=function, a=arguments: f(*a)}
            times = least(calls, 20)
            yield row(f"d {algorithm}, {name}", times["ours"], times["peer"], "Pinocchio")


def constrained() -> Iterator[Row]:
    """Yield the rows of the forward dynamics of mechanisms with loops."""
    for name, mechanism in {
        "four-bar in the plane": four_bar(),
        "four-bar in space": spatial_mechanism(four_bar()),
        "10 four-bars": n_four_bar(10),
        "40 four-bars": n_four_bar(40),
    }.items():
        function = loops.evaluation(mechanism)
        peer = loops.in_pinocchio_with_loops(four_bar() if "space" in name else mechanism)
        state = mechanism.q0, mechanism.qd0, loops.forces(mechanism)
        check_equal(name, function(*state), peer(), 1e-12)
        times = least({"ours": function.run, "peer": peer}, 20, 30)
        yield row(name, times["ours"], times["peer"], "Pinocchio's constraintDynamics")


def _while_there_is(tool: str, rows: Iterator[Compared]) -> Iterator[Compared]:
    """Yield the rows; if the required tool is missing, print a message instead."""
    if shutil.which(tool):
        yield from rows
    else:
        print(f"not measured, for there is no {tool}", file=sys.stderr)


def called_by_c() -> Iterator[Row]:
    """Yield rows whose times contain no Python: Pinocchio called from C++, our library from C."""
    for what, ours, theirs in _while_there_is("g++", in_cpp.compared()):
        yield row(what, ours, theirs, "Pinocchio in C++")


def rbdl() -> Iterator[Row]:
    """Yield the rows of RBDL called from C++ and our library called from C."""
    for what, ours, theirs in _while_there_is("g++", by_rbdl.compared()):
        yield row(what, ours, theirs, "RBDL")


def casadi_code() -> Iterator[Row]:
    """Yield the rows of CasADi's C code for Pinocchio's algorithms; both are called from C."""
    for what, ours, theirs in _while_there_is("g++", by_casadi.compared()):
        yield row(what, ours, theirs, "CasADi's C of Pinocchio")


def instructions() -> Iterator[Row]:
    """Yield the instruction counts of some of the calls from C and C++."""
    for what, ours, theirs in _while_there_is("valgrind", counted.counted()):
        yield [what, f"{ours:,.0f}", f"{theirs:,.0f}", "Pinocchio in C++", f"{theirs / ours:.2f} x"]


def fmu_steps() -> Iterator[Row]:
    """Yield the times of a 1 ms step of native FMUs in a C host."""
    pairs = (
        ("native, FMI 3", "FMPy's template", "FMPy's template around our kernel"),
        ("native, exchange", "CasADi, exchange", "CasADi's export of the same equations"),
        ("native, FMI 2", "Python FMU", "our Python FMU"),
        ("native, FMI 3, default method", "FMPy's template", "FMPy's template around our RK4"),
    )
    for name in hosting.MODELS:
        with tempfile.TemporaryDirectory() as folder:
            forms = hosting.all_forms(name, Path(folder))
            hosting.check_states(forms, RobotPlant(models()[name]))
            mean = hosting.means(forms)
        for ours, peer, said in pairs:
            yield row(f"a step of {name}, {ours}", mean[ours] / 1e3, mean[peer] / 1e3, said)


def in_masters() -> Iterator[Row]:
    """Yield the times of masters per FMU and 1 ms step, for pairs of robot and controller."""
    with tempfile.TemporaryDirectory() as folder:
        fmus = masters.files(Path(folder))
        for instances, steps in ((2, 20_000), (20, 2_000)):
            times = masters.table(fmus, instances, steps, 5)
            ours = times["simulate"]
            for name in ("bare loop in C", "ecospy", "libcosimpy"):
                if name in times:
                    yield row(f"simulate, {instances} FMUs", ours, times[name], name)


def in_batches() -> Iterator[Row]:
    """Yield the times of the forward dynamics of 4,096 states, each library on one core."""
    peers = {
        "our scalar C in a loop": "scalar loop",
        "Pinocchio's abaInParallel": "Pinocchio",
    }
    for joints in (7, 18):
        model, rng = auto_tree(joints, skew=0.7), np.random.default_rng(0)
        q, qd, tau = rng.normal(size=(3, batches.N, joints))
        calls, answers = batches.batches_of(model, q, qd, tau)
        times = least(calls, 1, 30)
        for lanes in (name for name in calls if name.endswith("lanes")):
            what = f"{joints} joints, {lanes}"
            for said, peer in peers.items():
                check_equal(what, answers[lanes], answers[peer], 1e-11)
                yield row(what, times[lanes] / batches.N, times[peer] / batches.N, said)


def in_contact() -> Iterator[Row]:
    """Yield the times of a 1 ms step of a quadruped that stands on eight contacts."""
    model = grounded.on_pairs()
    other, there, _ = grounded.stepped_by_mujoco(model, "pyramidal", "implicitfast")
    for method in ("rk4", "semi-implicit euler"):
        ours, here = grounded.stepped(model, method)
        grounded.check_stances({"ours": here(), "MuJoCo's": there()})
        times = grounded.least({"ours": ours, "peer": other})
        yield row(f"quadruped, {method}", times["ours"], times["peer"], "MuJoCo's mj_step")


# the largest robots of PyPI's example-robot-data, which is installed next to Pinocchio
ROBOTS = Path(pinocchio.__file__).parents[4] / "share/example-robot-data/robots"
LARGEST = {
    "Alex with hands": "alex_description/urdf/alex_psyonic_hands.urdf",
    "iCub": "icub_description/robots/icub.urdf",
    "Talos": "talos_data/robots/talos_full_v2.urdf",
    "TIAGo with two arms": "tiago_description/robots/tiago_dual.urdf",
}


def blocks() -> dict[str, Block]:
    """Return the compiled blocks: plants of trees, of loops, and of robots from files."""

    def closed(mechanism: Mechanism) -> ClosedLoopPlant:
        return ClosedLoopPlant(*mechanism)

    return {
        "arm of 7 joints": RobotPlant(auto_tree(7, skew=0.7)),
        "chain of 30 joints": RobotPlant(auto_tree(30, skew=0.7)),
        "chain of 100 joints": RobotPlant(auto_tree(100, skew=0.7)),
        "tree of 100 joints": RobotPlant(auto_tree(100, 2.0, 0.7)),
        "four-bar": closed(four_bar()),
        "40 four-bars": closed(n_four_bar(40)),
        "Stewart platform": closed(stewart_platform()),
        **{name: described_plant(load_model(ROBOTS / path)) for name, path in LARGEST.items()},
    }


def compiling() -> Iterator[Row]:
    """Yield the CPU time until the first run of a plant with RK4, with an empty cache."""
    for name, block in blocks().items():
        with (
            tempfile.TemporaryDirectory() as folder,
            patch.dict(os.environ, RIGIDBLOCKS_CACHE=folder),
        ):
            begin, children = time.process_time(), _of_children()
            compiled_stepper(Memory(block))
        own, compiler = time.process_time() - begin, _of_children() - children
        yield [name, f"{own:.1f} s", f"{compiler:.1f} s"]


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


MEASURES: dict[str, Callable[[], Iterable[Row]]] = {
    "dynamics": dynamics,
    "differentiated": differentiated,
    "constrained": constrained,
    "called_by_c": called_by_c,
    "instructions": instructions,
    "rbdl": rbdl,
    "casadi_code": casadi_code,
    "in_batches": in_batches,
    "in_jax": jax_peers.measured,
    "in_contact": in_contact,
    "fmu_steps": fmu_steps,
    "in_masters": in_masters,
    "in_memory": memory.measured,
    "compiling": compiling,
}
HEADS = {name: ["", "rigidblocks", "other", "", "other / rigidblocks"] for name in MEASURES} | {
    "compiling": ["", "trace and C code", "compiled"]
}
