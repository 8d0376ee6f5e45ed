"""Forward dynamics of 4,096 states in SIMD lanes, and a thousand runs of planar2ctrl, on one core.

The script compares lanes with a loop of the scalar C code and with Pinocchio's parallel function.
Each time is the minimum CPU time over many rounds; each round measures all methods in turn. The
results are compared before the measurement.
"""

import ctypes
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pinocchio
from models import check_equal, in_pinocchio

from rigidblocks import (
    Model,
    PDController,
    RepeatingSequence,
    RobotPlant,
    System,
    auto_tree,
    compiled_dynamics,
    planar2,
    prepare,
    simulate_batch,
)
from rigidblocks.common.compiler import shared_library
from rigidblocks.kernels.compiled_dynamics import straight_line
from rigidblocks.tracing.ccode import c_function
from rigidblocks.tracing.compiled_functions import LANES, widest
from rigidblocks.tracing.trace import Graph

N, ROUNDS = 4096, 40
RUNS, T_STOP, DT = 1000, 10.0, 1e-3


def least_times(calls: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the least CPU time of each call [s], summed over all threads; calls take turns."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            begin = time.process_time()
            call()
            times[name].append(time.process_time() - begin)
    return {name: min(measured) for name, measured in times.items()}


def scalar_loop(graph: Graph, rows: np.ndarray, results: np.ndarray) -> Callable[[], object]:
    """Return a call of the scalar C code in a C loop over `rows`, which writes `results`."""
    text = c_function(graph).replace(f"void {graph.name}(", "void function(")
    with open(__file__.replace(".py", ".c")) as file:
        sources = {"function.h": text, "loop.c": file.read()}
    loop = ctypes.CDLL(str(shared_library(sources, "loop.c"))).loop
    count = ctypes.c_long(len(rows))

    def call() -> None:
        given, found = ctypes.c_void_p(rows.ctypes.data), ctypes.c_void_p(results.ctypes.data)
        loop(given, rows.shape[1], found, results.shape[1], count)

    return call


class Batches(NamedTuple):
    """Calls of the forward dynamics of N states: scalar loop, Pinocchio's parallel function, lanes.

    Each function has already been called once. `answers` contains its results (N, joints).
    """

    calls: dict[str, Callable[[], object]]
    answers: dict[str, np.ndarray]


def batches_of(model: Model, q: np.ndarray, qd: np.ndarray, tau: np.ndarray) -> Batches:
    """Return the calls for positions, velocities and forces (N, joints)."""
    rows, scalar = np.hstack([q, qd, tau]), np.empty_like(q)
    pool = pinocchio.ModelPool(in_pinocchio(model), 1)
    columns, theirs = [np.asfortranarray(v.T) for v in (q, qd, tau)], np.empty(q.T.shape, order="F")
    calls: dict[str, Callable[[], object]] = {
        "scalar loop": scalar_loop(straight_line(model, "aba"), rows, scalar),
        "Pinocchio": lambda: pinocchio.abaInParallel(1, pool, *columns, theirs),
    }
    for call in calls.values():
        call()
    answers = {"scalar loop": scalar, "Pinocchio": theirs.T}
    for n in (n for n in LANES if n <= widest()):
        batch = compiled_dynamics(model, "aba", batch=True, lanes=n)
        calls[f"{n} lanes"] = lambda batch=batch: batch(q, qd, tau, threads=1)
        answers[f"{n} lanes"] = batch(q, qd, tau)
    return Batches(calls, answers)


def dynamics(joints: int) -> None:
    """Print the number of forward dynamics evaluations per core-second of each method."""
    model, rng = auto_tree(joints, skew=0.7), np.random.default_rng(0)
    q, qd, tau = rng.normal(size=(3, N, joints))
    calls, answers = batches_of(model, q, qd, tau)
    first = answers["2 lanes"]
    for name, result in answers.items():
        tolerance = {"scalar loop": 1e-12, "Pinocchio": 1e-11}.get(name, 0.0)
        check_equal(f"{joints} joints, {name} and 2 lanes", result, first, tolerance)
    kernel = compiled_dynamics(model, "aba")
    check_equal(f"{joints} joints, lanes and a call", first[7], kernel(q[7], qd[7], tau[7]))
    times = least_times(calls, ROUNDS)
    for name, seconds in times.items():
        print(
            f"{joints:3} joints  {name:12} {N / seconds / 1e6:6.2f} million a core-second "
            f"{times['scalar loop'] / seconds:6.2f} x the scalar loop "
            f"{times['Pinocchio'] / seconds:6.2f} x Pinocchio"
        )


def planar2ctrl() -> System:
    """Return a two-link robot that follows a command under a PD controller."""
    system = System()
    system.add("robot", RobotPlant(planar2().with_gravity((0.0, 0.0, -9.81))))
    system.add("pd", PDController(kp=[1000, 1000], kd=[15, 15]))
    command = RepeatingSequence(t=[0, 1, 2, 3, 4], y=[[0, 0], [1, 1.5], [1, 1.5], [0, 0], [0, 0]])
    system.add("command", command)
    system.connect("command.y", "pd.q_ref")
    system.connect("command.slope", "pd.qd_ref")
    system.connect("robot.q", "pd.q")
    system.connect("robot.qd", "pd.qd")
    system.connect("pd.tau", "robot.tau")
    return system


def runs(method: str, dt: float = DT) -> None:
    """Print the CPU time of a thousand runs in lanes, and one after another in C."""
    system, rng = planar2ctrl(), np.random.default_rng(0)
    start = {"robot.q": rng.normal(scale=0.3, size=(RUNS, 2))}
    kept = {"record": ["robot.q"], "every": round(0.01 / dt) or 1, "method": method}
    run = prepare(system, dt, form="fused", **kept)
    known = [n for n in LANES if n <= widest()]

    def batch(lanes: int) -> np.ndarray:
        return simulate_batch(system, T_STOP, dt, start=start, lanes=lanes, **kept).values

    def one(k: int) -> np.ndarray:
        own = {"robot.q": start["robot.q"][k]}
        return run.simulate(T_STOP, start=own, progress=False)["robot.q"]

    for lanes in known:
        values = batch(lanes)
        check_equal(f"runs, {lanes} lanes and 2", values, batch(2), 0.0)
        for k in (0, 500, 999):
            check_equal(f"run {k}, {lanes} lanes and fused", values[k], one(k))
    calls: dict[str, Callable[[], object]] = {
        "fused, a tenth": lambda: [one(k) for k in range(100)]
    }
    calls |= {f"{n} lanes": lambda n=n: batch(n) for n in known}
    times = least_times(calls, 5)
    for name, seconds in times.items():
        gain = (
            "" if "tenth" in name else f"{10 * times['fused, a tenth'] / seconds:6.1f} x one by one"
        )
        print(
            f"{RUNS} runs of planar2ctrl, 10 s, dt {dt:g} s, {method}: {name:14} {seconds:6.2f} s "
            f"of CPU time {gain}"
        )


def main() -> None:
    """Print all results."""
    for joints in (7, 18):
        dynamics(joints)
    for method in ("rk4", "adaptive", "adaptive or stiff"):
        runs(method)
    runs("adaptive", 0.02)


if __name__ == "__main__":
    main()
