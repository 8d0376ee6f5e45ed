"""Operation counts of the traced algorithms, and times compared with Pinocchio in the same run."""

import ctypes
import os
import resource
import tempfile
import timeit
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pinocchio
from models import check_equal, in_pinocchio, models

from rigidblocks import Model, auto_tree
from rigidblocks.common.compiler import shared_library
from rigidblocks.kernels.compiled_dynamics import compiled_dynamics, straight_line
from rigidblocks.tracing.ccode import c_function
from rigidblocks.tracing.compiled_functions import CompiledFunction
from rigidblocks.tracing.trace import Graph

LOOP = Path(__file__).parent / "loop.c"
CYCLE = (Path(__file__).parent / "cycle.c").read_text()

# multiplications and additions for a general chain of n revolute joints (RBDA Table 10.1)
BOOK = {
    "rnea": lambda n: (93 * n - 108) + (81 * n - 100),
    "crba": lambda n: (10 * n**2 + 22 * n - 32) + (6 * n**2 + 37 * n - 43),
    "aba": lambda n: (224 * n - 259) + (205 * n - 248),
}
CONVENTIONS = (pinocchio.Convention.LOCAL, pinocchio.Convention.WORLD)


def kernels(model: Model) -> Mapping[str, CompiledFunction]:
    """Return the compiled algorithms of a model."""
    return {algorithm: compiled_dynamics(model, algorithm) for algorithm in BOOK}


def bare(graph: Graph, values: np.ndarray) -> float:
    """Return the time of a call of straight-line C code in a C loop [us]."""
    sources = {
        "function.h": c_function(graph).replace(f"void {graph.name}(", "void function("),
        "loop.c": LOOP.read_text(),
    }
    loop = ctypes.CDLL(str(shared_library(sources, "loop.c"))).nanoseconds_per_call
    loop.restype = ctypes.c_double
    memory = values.copy(), np.zeros(graph.function.nnz_out())
    pointers = [ctypes.c_void_p(part.ctypes.data) for part in memory]
    return min(loop(*pointers, 20_000) for _ in range(7)) / 1e3


def cycle() -> float:
    """Return the duration of a processor cycle [us], from dependent integer operations."""
    library = ctypes.CDLL(str(shared_library({"cycle.c": CYCLE}, "cycle.c")))
    library.nanoseconds_per_cycle.restype = ctypes.c_double
    return min(library.nanoseconds_per_cycle(10_000_000) for _ in range(7)) / 1e3


def pinocchio_calls(
    model: Model, q: np.ndarray, qd: np.ndarray, w: np.ndarray
) -> dict[str, tuple[Callable[[], np.ndarray], ...]]:
    """Return calls of Pinocchio's algorithms with the same arguments.

    Each is the fastest call from Python. If an algorithm has two conventions, body and world
    coordinates, the result contains both.
    """
    other = in_pinocchio(model)
    data = other.createData()
    return {
        "rnea": (lambda: pinocchio.rnea(other, data, q, qd, w),),
        "crba": tuple(partial(pinocchio.crba, other, data, q, one) for one in CONVENTIONS),
        "aba": tuple(partial(pinocchio.aba, other, data, q, qd, w, one) for one in CONVENTIONS),
    }


def microseconds(call: Callable[[], object], number: int = 5000) -> float:
    """Return the least time of a call [us] over several runs."""
    return min(timeit.repeat(call, number=number, repeat=7)) / number * 1e6


def main() -> None:
    """Print a row for each model and algorithm."""
    at_a_cycle = cycle()
    print(
        f"one cycle is {at_a_cycle * 1e3:.2f} ns; `bare` is the C alone, `1/cycle` its operations "
        "at one a cycle"
    )
    print(
        f"{'model':10} {'':5} {'operations':>10} {'book':>7} {'bare':>9} {'1/cycle':>9} "
        f"{'call':>9} {'Pinocchio':>10} {'ratio':>6}"
    )
    rng = np.random.default_rng(0)
    for name, model in models().items():
        q, qd, w = rng.normal(size=(3, model.nv))
        others = pinocchio_calls(model, q, qd, w)
        for algorithm, kernel in kernels(model).items():
            values = (q, qd, w)[: len(kernel.inputs)]
            answer = kernel(*values)
            for call in others[algorithm]:
                check_equal(f"{name}, {algorithm}", *map(np.triu, np.atleast_2d(answer, call())))
            ours, theirs = microseconds(kernel.run), min(map(microseconds, others[algorithm]))
            graph = straight_line(model, algorithm)
            times = (
                f"{bare(graph, np.concatenate(values)):6.2f} us "
                f"{graph.operation_count * at_a_cycle:6.2f} us {ours:6.2f} us"
            )
            counts = f"{graph.operation_count:10,} {BOOK[algorithm](model.nv):7,}"
            print(
                f"{name:10} {algorithm:5} {counts} {times} {theirs:7.2f} us {theirs / ours:5.1f}x",
                flush=True,
            )


def public_calls() -> None:
    """Print the time of a call of a public function, including its checks and copies."""
    model, rng = models()["7 joints"], np.random.default_rng(0)
    for algorithm, kernel in kernels(model).items():
        values = rng.normal(size=(len(kernel.inputs), model.nv))
        print(
            f"7 joints, {algorithm}(...) with arrays of the caller's "
            f"{microseconds(partial(kernel, *values)):6.2f} us"
        )


def large() -> None:
    """Print the time per body and the compile time of large chains and binary trees."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, RIGIDBLOCKS_CACHE=folder):
        for bf in (1, 2):
            for nb in (30, 100, 1000):
                model = auto_tree(nb, bf, 0.7)
                for algorithm in ("rnea", "aba", "crba"):
                    begin = timeit.default_timer()
                    kernel = compiled_dynamics(model, algorithm)
                    compiled_in = timeit.default_timer() - begin
                    kernel(*rng.normal(size=(len(kernel.inputs), nb)))
                    each = microseconds(kernel.run, 20_000 // nb) / nb
                    print(
                        f"{nb:5} bodies, bf {bf} {algorithm:5} {each:6.3f} us a body, compiled in "
                        f"{compiled_in:5.2f} s"
                    )
    print(
        "the largest compiler took "
        f"{resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6:.2f} GB"
    )


if __name__ == "__main__":
    main()
    public_calls()
    large()
