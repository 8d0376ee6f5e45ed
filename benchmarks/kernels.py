"""Operation counts of the traced algorithms, and their time against Pinocchio in the same run."""

import timeit
from collections.abc import Callable, Mapping

import numpy as np
import pinocchio
from models import in_pinocchio, models

from rigidblocks import Model, aba, compiled, crba, rnea
from rigidblocks.compiled_function import CompiledFunction

# multiplications and additions for a general chain of n revolute joints (RBDA Table 10.1)
BOOK = {
    "rnea": lambda n: (93 * n - 108) + (81 * n - 100),
    "crba": lambda n: (10 * n**2 + 22 * n - 32) + (6 * n**2 + 37 * n - 43),
    "aba": lambda n: (224 * n - 259) + (205 * n - 248),
}


def kernels(model: Model) -> Mapping[str, CompiledFunction]:
    """The compiled algorithms of a model."""
    n = model.nv
    q, qd, qdd, tau = ({name: (n,)} for name in ("q", "qd", "qdd", "tau"))
    return {
        "rnea": compiled("rnea", lambda *a: {"tau": rnea(model, *a)}, q | qd | qdd),
        "crba": compiled("crba", lambda *a: {"H": crba(model, *a)}, q),
        "aba": compiled("aba", lambda *a: {"qdd": aba(model, *a)}, q | qd | tau),
    }


def pinocchio_calls(model: Model, q: np.ndarray, qd: np.ndarray, w: np.ndarray) -> dict[str, Callable[[], object]]:
    """Pinocchio's algorithms on the same arguments, through its leanest Python call."""
    other = in_pinocchio(model)
    data = other.createData()
    return {
        "rnea": lambda: pinocchio.rnea(other, data, q, qd, w),
        "crba": lambda: pinocchio.crba(other, data, q),
        "aba": lambda: pinocchio.aba(other, data, q, qd, w),
    }


def microseconds(call: Callable[[], object], number: int = 5000) -> float:
    """The least time of a call over several runs [us]."""
    return min(timeit.repeat(call, number=number, repeat=7)) / number * 1e6


def main() -> None:
    """Prints a row for each model and algorithm."""
    print(f"{'model':10} {'':5} {'operations':>10} {'book':>7} {'call':>9} {'Pinocchio':>10} {'ratio':>6}")
    rng = np.random.default_rng(0)
    for name, model in models().items():
        q, qd, w = rng.normal(size=(3, model.nv))
        others = pinocchio_calls(model, q, qd, w)
        for algorithm, kernel in kernels(model).items():
            kernel(*(q, qd, w)[: len(kernel.inputs)])
            ours, theirs = microseconds(kernel.run), microseconds(others[algorithm])
            counts = f"{kernel.graph.operation_count:10,} {BOOK[algorithm](model.nv):7,}"
            print(f"{name:10} {algorithm:5} {counts} {ours:6.2f} us {theirs:7.2f} us {theirs / ours:5.1f}x")


if __name__ == "__main__":
    main()
