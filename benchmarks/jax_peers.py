"""Forward dynamics by the libraries over JAX, on one core in double precision: of one state and of
4,096, beside ours in the same process, answers first.

Each library is a process of its own, which has so long to compile and to be measured: one that is
not installed, does not take the model or does not come to its end is a row that says so.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

# one thread, so that CPU time is what a core takes
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

import numpy as np
from models import check_equal, in_mujoco, in_urdf
from mujoco import MjModel

from rigidblocks import Model, auto_tree, compiled_dynamics

N, LIMIT = 4096, 45.0  # states; s that a process may take
ROBOTS = (7, 18)
Row = list[str]
Forward = Callable[..., object]  # of q, qd, tau (n,): qdd, in JAX


def in_mjx(model: Model, other: MjModel) -> Forward:
    """MuJoCo XLA, without the search for contacts and the solver that its `forward` has."""
    from mujoco import mjx
    from mujoco.mjx._src import smooth

    del model
    system = mjx.put_model(other)
    data = mjx.make_data(system)

    def forward(q: object, qd: object, tau: object) -> object:
        d = data.replace(qpos=q, qvel=qd)
        for pass_of_it in (smooth.kinematics, smooth.com_pos, smooth.crb, smooth.factor_m):
            d = pass_of_it(system, d)
        d = smooth.rne(system, smooth.com_vel(system, d))
        return smooth.solve_m(system, d, tau - d.qfrc_bias)

    return forward


def in_brax(model: Model, other: MjModel) -> Forward:
    """The generalized dynamics of Brax, without its contacts."""
    from brax import kinematics
    from brax.generalized import dynamics, mass
    from brax.generalized.base import State
    from brax.io import mjcf
    from jax.scipy.linalg import solve

    del model
    system = mjcf.load_model(other)

    def forward(q: object, qd: object, tau: object) -> object:
        state = State.init(q, qd, *kinematics.forward(system, q, qd))
        state = dynamics.transform_com(system, state)
        H, f = mass.matrix(system, state), dynamics.forward(system, state, tau)
        return solve(H, f, assume_a="pos")

    return forward


def in_adam(model: Model, other: MjModel) -> Forward:
    """Of adam, which knows free bases alone, the joints of one that is held."""
    from adam.jax import KinDynComputations
    from jax import numpy as jnp
    from jax.scipy.linalg import solve

    del other
    names = [f"joint{i}" for i in range(model.nv)]
    gravity = jnp.concatenate([jnp.asarray(model.gravity), jnp.zeros(3)])
    robot = KinDynComputations(in_urdf(model), names, gravity=gravity)
    base, still = jnp.eye(4), jnp.zeros(6)

    def forward(q: object, qd: object, tau: object) -> object:
        H = robot.mass_matrix(base, q)[6:, 6:]
        return solve(H, tau - robot.bias_force(base, q, still, qd)[6:], assume_a="pos")

    return forward


def in_frax(model: Model, other: MjModel) -> Forward:
    """Of frax, which reads a file."""
    from frax import Robot

    del other
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "robot.urdf")
        path.write_text(in_urdf(model))
        robot = Robot(str(path))
    return lambda q, qd, tau: robot.forward_dynamics(q, qd, tau, None)


LIBRARIES = {"MJX": in_mjx, "Brax": in_brax, "adam": in_adam, "frax": in_frax}


def compared(name: str, joints: int) -> Iterator[Row]:
    """The rows of a library: all states at once, and of seven joints one alone."""
    import jax

    jax.config.update("jax_enable_x64", True)
    model, rng = auto_tree(joints, skew=0.7), np.random.default_rng(0)
    states = rng.normal(size=(3, N, joints))
    forward = LIBRARIES[name](model, in_mujoco(model))
    many, arrays = compiled_dynamics(model, "aba", batch=True), list(map(jax.numpy.asarray, states))
    what = f"aba, {joints} joints"
    theirs = _compiled(jax.jit(jax.vmap(forward)), arrays)
    calls = {"ours": lambda: many(*states, threads=1), "peer": theirs}
    yield [f"{what}, {N:,} states, each", *_ratio(calls, name, 1, 5, N)]
    if joints == ROBOTS[0]:
        kernel = compiled_dynamics(model, "aba")
        first = [one[0] for one in states]
        theirs = _compiled(jax.jit(forward), [jax.numpy.asarray(one) for one in first])
        kernel(*first)
        calls = {"ours": lambda: kernel(*first), "peer": theirs}
        yield [f"{what}, one state", *_ratio(calls, name, 50, 20)]


def _compiled(function: object, arrays: list) -> Callable[[], object]:
    ready = function.lower(*arrays).compile()  # type: ignore[attr-defined]
    return lambda: ready(*arrays).block_until_ready()


def _ratio(
    calls: dict[str, Callable[[], object]], name: str, number: int, rounds: int, n: int = 1
) -> Row:
    """The least CPU times of ours and of the library, whose answers must agree, taken in turn."""
    check_equal(name, *(np.asarray(call()) for call in calls.values()), 1e-10)
    times: dict[str, list[float]] = {which: [] for which in calls}
    for _ in range(rounds):
        for which, call in calls.items():
            begin = time.process_time()
            for _ in range(number):
                call()
            times[which].append((time.process_time() - begin) / (number * n) * 1e6)
    ours, peer = map(min, times.values())
    return [f"{ours:,.2f} us", f"{peer:,.2f} us", name, f"{peer / ours:,.2f} x"]


def measured() -> Iterator[Row]:
    """The rows of all libraries."""
    for joints in ROBOTS:
        for name in LIBRARIES:
            command = [sys.executable, __file__, name, str(joints)]
            why = f"not compiled and measured within {LIMIT:.0f} s"
            with contextlib.suppress(subprocess.TimeoutExpired):
                done = subprocess.run(
                    command, capture_output=True, text=True, check=False, timeout=LIMIT
                )
                if done.returncode == 0:
                    yield from json.loads(done.stdout.splitlines()[-1])
                    continue
                said = re.findall(r"^\w+(?:\.\w+)*Error: .*", done.stderr, re.MULTILINE)
                why = said[-1][:100] if said else f"ended with {done.returncode}"
            yield [f"aba, {joints} joints", "", why, name, ""]


if __name__ == "__main__":
    print(json.dumps(list(compared(sys.argv[1], int(sys.argv[2])))))
