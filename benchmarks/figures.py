"""Measure the tables of the README and the docs, and write them to the pages.

The measurements go to benchmarks/measured.json, with machine and date. The module `tables` inserts
them into the pages. The cache keeps the compiled programs; the programs with Pinocchio's C++
headers take minutes to compile.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from datetime import date
from itertools import chain
from pathlib import Path

import compile_times
import contact_steps
import costs
import couplings
import fmu_kinds
import growing
import hit_wall
import kernels
import loops
import model_exchange
import natural_calls
import numpy as np
import peers
import piles
import random_pairs
import rays
import simbenchmark
import soft_scenes
import solvers
import stabilized
import stacks
import standing
import swinging
import tables
import tolerances
import work_precision
from models import check_equal, models

from rigidblocks import Model, Revolute
from rigidblocks.common.compiler import compiler as c_compiler
from rigidblocks.common.compiler import version
from rigidblocks.kernels.compiled_dynamics import straight_line
from rigidblocks.robot.robots import four_bar, n_four_bar
from rigidblocks.spatial.spatial import RigidInertia, Transform, mcI, rx, xlt

LOOPS = {"four-bar linkage": four_bar(), "40 four-bar linkages": n_four_bar(40)}
COSTS = {
    "planar2ctrl": "controlled planar robot of the README, fused",
    "planar2": "planar robot",
    "7 joints": "arm of seven joints",
    "quadruped": "quadruped",
}
Rows = Iterable[list[str]]


def us(time: float) -> str:
    """Format a time [us] with two digits, or as a whole number."""
    return f"{float(f'{time:.2g}'):,.{2 if time < 1 else 1 if time < 10 else 0}f} us"


def general_chain(n: int, rng: np.random.Generator) -> Model:
    """Return a chain of n revolute joints with general Denavit-Hartenberg parameters."""

    def twisted() -> Transform:
        alpha, a, d = rng.uniform(0.2, 1.0, 3)
        return xlt([0.0, 0.0, d]) @ Transform(rx(alpha), np.array([a, 0.0, 0.0]))

    def body() -> RigidInertia:
        r = rng.uniform(-0.5, 0.5, (6, 3))  # six equal point masses
        c = r.mean(axis=0)
        return mcI(6.0, c, sum(p @ p * np.eye(3) - np.outer(p, p) for p in r - c))

    return Model(
        name="chain",
        parent=tuple(range(-1, n - 1)),
        joint=(Revolute(),) * n,
        Xtree=tuple(twisted() for _ in range(n)),
        inertia=tuple(body() for _ in range(n)),
        gravity=rng.uniform(-10, 10, 3),
    )


def algorithms() -> Rows:
    """Yield operation counts of a general chain, and call times of this library and Pinocchio."""
    model, rng = models()["7 joints"], np.random.default_rng(0)
    general = general_chain(model.nv, rng)
    q, qd, w = rng.normal(size=(3, model.nv))
    others = kernels.pinocchio_calls(model, q, qd, w)
    for name, kernel in kernels.kernels(model).items():
        answer = kernel(*(q, qd, w)[: len(kernel.inputs)])
        for call in others[name]:
            check_equal(name, *map(np.triu, np.atleast_2d(answer, call())))
        count, book = straight_line(general, name).operation_count, kernels.BOOK[name](model.nv)
        ours, *theirs = (loops.microseconds(call, 5000) for call in (kernel.run, *others[name]))
        yield [name, f"{count:,}", f"{book:,}", us(ours), us(min(theirs))]


def linkages() -> Rows:
    """Yield operation counts and call times of closed loops, and Pinocchio's call times."""
    for name, mechanism in LOOPS.items():
        function, other = loops.evaluation(mechanism), loops.in_pinocchio_with_loops(mechanism)
        check_equal(
            name, function(mechanism.q0, mechanism.qd0, loops.forces(mechanism)), other(), 1e-12
        )
        number = max(20, 20_000 // mechanism.model.nv)
        ours, theirs = (
            loops.microseconds(function.run, number),
            loops.microseconds(other, number // 20),
        )
        yield [name, f"{function.graph.operation_count:,}", us(ours), us(theirs)]


def steps() -> Rows:
    """Yield the time of an RK4 step, and the cost of error-controlled steps relative to RK4."""
    for name, said in COSTS.items():
        rk4, *others = costs.measured(name)
        yield [said, us(rk4 * 1e6), *(f"{one / rk4:.2f} x" for one in others)]


SHOWN = (
    ("in_masters", "simulate, 20 FMUs", "libcosimpy"),
    ("in_masters", "simulate, 2 FMUs", "bare loop in C"),
)
SHOWN += (("in_contact", "quadruped, rk4", "MuJoCo's mj_step"),)


def summary() -> Rows:
    """Yield the ratios of the other program's time to the library's time, for the README."""
    model, rng = models()["7 joints"], np.random.default_rng(0)
    q, qd, tau = rng.normal(size=(3, model.nv))
    kernel, peer = kernels.kernels(model)["aba"], kernels.pinocchio_calls(model, q, qd, tau)["aba"]
    for call in peer:
        check_equal("aba", kernel(q, qd, tau), call())
    calls = (kernel.run, lambda: kernel(q, qd, tau), *peer)
    bound, natural, *theirs = (loops.microseconds(call, 5000) for call in calls)
    for call, ours in (("into preallocated arrays", bound), ("call that allocates", natural)):
        task = f"forward dynamics, arm of 7 joints, {call}"
        yield [task, "Pinocchio from Python", f"{min(theirs) / ours:.1f}"]
    measured = json.loads(tables.MEASURED.read_text())
    for table, task, other in SHOWN:
        for row in measured[table]["rows"]:
            if row[0] == task and row[3] == other:
                yield [task, other, f"{float(row[4].removesuffix(' x')):.1f}"]


def demo() -> str:
    """Return the table that the demo prints."""
    return printed("01_planar2ctrl")


def closures() -> str:
    """Return the table that compares the methods of loop closure."""
    return printed("11_four_bar")


def printed(example: str) -> str:
    """Return the first table that an example prints."""
    script = str(tables.ROOT / f"examples/{example}.py")
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, script], cwd=folder, capture_output=True, text=True, check=True
        )
    return done.stdout.partition("\n\n")[0] + "\n"


def machine() -> str:
    """Return processor, number of cores, operating system, Python and compiler."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor() or platform.machine()
    compiler = version(c_compiler()).splitlines()[0]
    return (
        f"{name}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}, "
        f"{compiler}"
    )


MEASURES = (
    {
        "demo": demo,
        "summary": summary,
        "natural_calls": natural_calls.measured,
        "algorithms": algorithms,
        "linkages": linkages,
        "steps": steps,
        "closures": closures,
        "work": work_precision.measured,
        "contact": contact_steps.measured,
        "energy": swinging.measured,
        "rigid": simbenchmark.measured,
        "anymal": simbenchmark.flights,
        "stacks": stacks.measured,
        "soft": soft_scenes.measured,
        "rays": rays.measured,
        "piles": lambda: chain(standing.measured(), piles.measured()),
        "hit_wall": hit_wall.measured,
        "drake": lambda: chain(standing.measured("Drake"), piles.measured("Drake")),
        "growth": growing.measured,
        "pairs": random_pairs.measured,
        "solvers": solvers.measured,
        "tolerances": tolerances.measured,
        "jacobians": costs.jacobians,
        "bounces": contact_steps.bounces,
        "first_calls": compile_times.measured,
        "fmu_kinds": fmu_kinds.measured,
        "fmu_costs": fmu_kinds.foreign,
        "model_exchange": model_exchange.measured,
    }
    | couplings.MEASURES
    | stabilized.MEASURES
    | peers.MEASURES
)
HEADS = (
    {
        "summary": ["task", "other program", "ratio"],
        "natural_calls": peers.HEADS["dynamics"],
        "tolerances": tolerances.HEADS,
        "first_calls": compile_times.HEADS,
        "fmu_kinds": fmu_kinds.HEADS,
        "fmu_costs": fmu_kinds.COST_HEADS,
        "model_exchange": model_exchange.HEADS,
        "jacobians": [
            "",
            "states n",
            "operations of the derivative",
            "operations of the Jacobian",
            "time to trace",
        ],
        "bounces": ["", "gain", "loss", "gain without switching functions"],
        "work": ["", "error", *work_precision.SOLVERS],
        "contact": ["", "conditions", "error"],
        "rigid": ["scene, error of", "step", "here", "MuJoCo"],
        "anymal": ["ANYmal, error of", "step", "here", "MuJoCo, Euler", "MuJoCo, RK4"],
        "stacks": stacks.HEADS,
        "soft": soft_scenes.HEADS,
        "rays": rays.HEADS,
        "piles": ["", "here", "mj_step", "here / mj_step"],
        "hit_wall": hit_wall.HEADS,
        "drake": ["", "here", "Drake", "here / Drake"],
        "growth": growing.HEADS,
        "pairs": random_pairs.HEADS,
        "solvers": solvers.HEADS,
        "energy": ["", "E [J]", "RK4, 1 ms", "1e-5", "1e-6", "1e-7", "1e-8", "time of 1e-7 / RK4"],
        "algorithms": ["", "operations", "book", "call", "Pinocchio's"],
        "linkages": ["", "operations", "call", "Pinocchio's"],
        "steps": ["", "RK4", "adaptive", "adaptive or stiff"],
    }
    | couplings.HEADS
    | stabilized.HEADS
    | peers.HEADS
)


def main() -> None:
    """Measure all or the named tables; write the file and the pages after each table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join(MEASURES)}; all")
    names = parser.parse_args().names or MEASURES
    measured = json.loads(tables.MEASURED.read_text()) if tables.MEASURED.exists() else {}
    for name in names:
        one = {"machine": machine(), "date": date.today().isoformat()}
        one["load"] = round(os.getloadavg()[0], 1)
        found = MEASURES[name]()
        if isinstance(found, str):
            one["printed"] = found
        else:
            one |= {"heads": HEADS[name], "rows": list(found)}
        measured[name] = one
        if name in peers.MEASURES:
            heads, slower = peers.HEADS["dynamics"], peers.behind(measured)
            measured["behind"] = {k: one[k] for k in ("machine", "date", "load")} | {
                "heads": heads,
                "rows": slower,
            }
        tables.MEASURED.write_text(json.dumps(measured, indent=1, ensure_ascii=False) + "\n")
        tables.write(measured)
        print(tables.table(one), flush=True)


if __name__ == "__main__":
    main()
