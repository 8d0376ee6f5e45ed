"""Times of the calls that a newcomer writes, for robots from files and for vector environments.

A call such as `f(q, qd, tau)` allocates its result. The robots are files of `example-robot-data`,
with fixed bases. The vector environment is the cart-pole of examples/30_cart_poles.py, and the
other program is gymnasium's `CartPoleVectorEnv`, which takes one Euler step in single precision.
"""

import importlib.util
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pinocchio
from compile_times import FOLDER
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from models import check_equal, in_pinocchio

from rigidblocks import Model, auto_tree, compiled_dynamics, derivatives, load_model
from rigidblocks.dynamics.model_reduction import align_axes_with_z

ROBOTS = {
    "UR5": "ur_description/urdf/ur5_robot.urdf",
    "solo12": "solo_description/robots/solo12.urdf",
    "Talos": "talos_data/robots/talos_full_v2.urdf",
}
CHAIN = "chain of 300 joints"
EXAMPLE = Path(__file__).parents[1] / "examples/30_cart_poles.py"
CARTS = ((16, "default method"), (256, "default method"), (256, "Euler"), (4096, "Euler"))
PEER, PEER_CARTS = "Pinocchio from Python", "gymnasium's CartPoleVectorEnv"
CONVENTIONS = (pinocchio.Convention.LOCAL, pinocchio.Convention.WORLD)
ROUNDS, ROUND = 25, 2e-3  # number of rounds, and duration of a round [s]

Call = Callable[[], object]


def microseconds(*calls: Call) -> list[float]:
    """Return the least CPU time of each call [us]; each round measures all calls in turn."""
    numbers, least = [], [np.inf] * len(calls)
    for call in calls:
        begin = time.thread_time()
        call()
        numbers.append(max(1, int(ROUND / max(time.thread_time() - begin, 1e-7))))
    for _ in range(ROUNDS):
        for k, (call, number) in enumerate(zip(calls, numbers, strict=True)):
            begin = time.thread_time()
            for _ in range(number):
                call()
            least[k] = min(least[k], (time.thread_time() - begin) / number * 1e6)
    return least


def row(task: str, ours: float, theirs: float, other: str) -> list[str]:
    """Return a row of the table from two times [us]."""
    return [task, f"{ours:,.2f} us", f"{theirs:,.2f} us", other, f"{theirs / ours:.2f} x"]


def robots() -> dict[str, Model]:
    """Return the robots, with the body frames of Pinocchio's joints about z."""
    return {
        name: align_axes_with_z(load_model(FOLDER / path).model) for name, path in ROBOTS.items()
    }


def dynamics() -> Iterator[list[str]]:
    """Yield the rows of inverse and forward dynamics and of the joint-space inertia matrix."""
    for name, model in robots().items():
        other = in_pinocchio(model)
        data = other.createData()
        q, qd, w = 0.5 * np.random.default_rng(0).normal(size=(3, model.nv))
        theirs = {
            "rnea": [partial(pinocchio.rnea, other, data, q, qd, w)],
            "crba": [partial(pinocchio.crba, other, data, q, one) for one in CONVENTIONS],
            "aba": [partial(pinocchio.aba, other, data, q, qd, w, one) for one in CONVENTIONS],
        }
        for algorithm, calls in theirs.items():
            function = compiled_dynamics(model, algorithm)
            ours = partial(function, *(q, qd, w)[: len(function.inputs)])
            for call in calls:
                both = map(np.triu, np.atleast_2d(ours(), call()))
                check_equal(f"{algorithm} of {name}", *both, tolerance=1e-9)
            least, *peers = microseconds(ours, *calls)
            yield row(f"{algorithm} of {name}", least, min(peers), PEER)


def differentiated() -> Iterator[list[str]]:
    """Yield the rows of the derivatives of forward dynamics."""
    for name, model in (("Talos", robots()["Talos"]), (CHAIN, auto_tree(300, 1, 0.7))):
        other = in_pinocchio(model)
        data = other.createData()
        q, qd, tau = 0.3 * np.random.default_rng(0).normal(size=(3, model.nv))
        ours = partial(derivatives(model, "aba"), q, qd, tau)
        theirs = partial(pinocchio.computeABADerivatives, other, data, q, qd, tau)
        theirs()
        check_equal(f"d aba of {name}", ours()[1], data.ddq_dq, tolerance=1e-6)
        yield row(f"derivatives of aba, {name}", *microseconds(ours, theirs), PEER)


def environments() -> Iterator[list[str]]:
    """Yield the rows of a step of a vector environment."""
    spec = importlib.util.spec_from_file_location("cart_poles", EXAMPLE)
    example = sys.modules["cart_poles"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    check_equal("cart-pole", 1.0 + example.off_gymnasium(np.random.default_rng(0)), 1.0, 1e-9)
    for number, method in CARTS:
        options = {"method": "euler", "h": example.DT} if method == "Euler" else {}
        pair = example.CartPoles(number, **options), CartPoleVectorEnv(number)
        actions = np.random.default_rng(0).integers(0, 2, number)
        for envs in pair:
            envs.reset(seed=0)
        times = microseconds(*(partial(envs.step, actions) for envs in pair))
        yield row(f"step of {number:,} cart-poles, {method}", *times, PEER_CARTS)


def measured() -> Iterator[list[str]]:
    """Yield the rows of the table."""
    yield from dynamics()
    yield from differentiated()
    yield from environments()


if __name__ == "__main__":
    for cells in measured():
        print(" | ".join(cells), flush=True)
