"""Derivatives of forward and inverse dynamics: time, compile time and operation counts.

The times are compared with Pinocchio in the same run, and the operation counts with plain automatic
differentiation.
"""

import os
import tempfile
import timeit
from collections.abc import Callable
from unittest.mock import patch

import numpy as np
import pinocchio
from models import chains, check_equal, in_pinocchio

from rigidblocks import Model, aba, auto_tree, rnea
from rigidblocks.kernels.compiled_dynamics import derivatives
from rigidblocks.tracing.trace import jacobian, trace

ALGORITHMS = {
    "rnea": (rnea, pinocchio.computeRNEADerivatives),
    "aba": (aba, pinocchio.computeABADerivatives),
}


def least_times(calls: dict[str, Callable[[], object]], number: int = 20) -> dict[str, float]:
    """Return the least time of each call [us] over many short runs; calls take turns."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(200):
        for name, call in calls.items():
            times[name].append(timeit.timeit(call, number=number) / number * 1e6)
    return {name: min(measured) for name, measured in times.items()}


def plain_operations(model: Model, algorithm: str) -> int:
    """Return the operation count of plain automatic differentiation of the traced algorithm."""
    inputs = dict.fromkeys(("q", "qd", "w"), (model.nv,))
    graph = trace(algorithm, lambda *a: {"y": ALGORITHMS[algorithm][0](model, *a)}, inputs)
    return jacobian(graph, "y", tuple(inputs)).operation_count


def main() -> None:
    """Print a row for each model and algorithm.

    The operation counts do not include the loops that evaluate the traced columns.
    """
    print(
        f"{'derivatives':16} {'traced':>8} {'plain AD':>9} {'call':>9} {'Pinocchio':>12} "
        f"{'ratio':>6} {'compiled in':>12}"
    )
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, RIGIDBLOCKS_CACHE=folder):
        derivatives(auto_tree(1), "rnea")  # compiles the functions that all models share
        rows()


def rows() -> None:
    """Print the rows; the functions of each model are compiled for the first time."""
    rng = np.random.default_rng(0)
    for name, model in chains().items():
        other = in_pinocchio(model)
        data, (q, qd, w) = other.createData(), rng.normal(size=(3, model.nv))
        for algorithm, (_, theirs) in ALGORITHMS.items():
            begin = timeit.default_timer()
            ours = derivatives(model, algorithm)
            compiled_in = timeit.default_timer() - begin
            for mine, other_one in zip(
                ours(q, qd, w)[1:], theirs(other, data, q, qd, w), strict=True
            ):  # the last matrix is symmetric, and Pinocchio may fill only one triangle
                check_equal(f"{name}, {algorithm}", np.triu(mine), np.triu(other_one), 1e-9)
            calls = {"ours": ours.run, "theirs": lambda f=theirs, a=(other, data, q, qd, w): f(*a)}
            times = least_times(calls)
            plain = f"{plain_operations(model, algorithm):9,}" if model.nv <= 7 else f"{'':9}"
            print(
                f"{name:10} {algorithm:5} {ours.graph.operation_count:8,} {plain} "
                f"{times['ours']:6.2f} us "
                f"{times['theirs']:9.2f} us {times['theirs'] / times['ours']:5.1f}x "
                f"{compiled_in:10.1f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
