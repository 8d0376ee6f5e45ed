"""Forward dynamics by the libraries over JAX, on one core in double precision: of one state and of
4,096, beside ours in the same process, answers first.

XLA's compiler for processors fuses the operations of a chain of bodies so that each of them
computes anew what it reads, for which some libraries pay with a hundred times the time: each is
compiled with and without this pass, and the quicker one is shown. Each is a process of its own,
which has so long to compile and to be measured: one that is not installed, does not take the model
or does not come to its end is a row that says so.
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
LONGEST = 2.0  # s of CPU for the rounds of a call, of which there is one at least
ROBOTS = (7, 18)
# what XLA is told, and how the row says it
COMPILED = {"unfused": {"xla_disable_hlo_passes": "fusion"}, "fused": {}}
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
    import jax
    from adam.jax import KinDynComputations
    from jax import numpy as jnp
    from jax.scipy.linalg import solve

    del other
    names = [f"joint{i}" for i in range(model.nv)]
    gravity = jnp.concatenate([jnp.asarray(model.gravity), jnp.zeros(3)])
    robot = KinDynComputations(in_urdf(model), names, gravity=gravity)

    def forward(q: jax.Array, qd: jax.Array, tau: jax.Array) -> object:
        base = jnp.broadcast_to(jnp.eye(4), (*q.shape[:-1], 4, 4))
        still = jnp.zeros((*q.shape[:-1], 6))
        H = robot.mass_matrix(base, q)[..., 6:, 6:]
        f = tau - robot.bias_force(base, q, still, qd)[..., 6:]
        return solve(H, f[..., None], assume_a="pos")[..., 0]

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
OF_MANY = ("adam",)  # take many states themselves, and are not to be mapped over them


def compared(name: str, joints: int, how: str) -> Iterator[Row]:
    """The rows of a library: all states at once, and of seven joints one alone."""
    import jax

    jax.config.update("jax_enable_x64", True)
    model, rng = auto_tree(joints, skew=0.7), np.random.default_rng(0)
    states = rng.normal(size=(3, N, joints))
    forward, what = LIBRARIES[name](model, in_mujoco(model)), f"aba, {joints} joints"
    many, one = compiled_dynamics(model, "aba", batch=True), compiled_dynamics(model, "aba")
    first = states[:, 0]
    calls = {
        "ours": lambda: many(*states, threads=1),
        "peer": _compiled(forward if name in OF_MANY else jax.vmap(forward), states, how),
    }
    yield [f"{what}, {N:,} states, each", *_ratio(calls, f"{name}, {how}", 1, N)]
    if joints == ROBOTS[0]:
        calls = {"ours": lambda: one(*first), "peer": _compiled(forward, first, how)}
        yield [f"{what}, one state", *_ratio(calls, f"{name}, {how}", 50)]


def _compiled(function: Forward, values: np.ndarray, how: str) -> Callable[[], object]:
    import jax

    arrays = [jax.numpy.asarray(one) for one in values]
    ready = jax.jit(function).lower(*arrays).compile(compiler_options=COMPILED[how])
    return lambda: ready(*arrays).block_until_ready()


def _ratio(calls: dict[str, Callable[[], object]], name: str, number: int, n: int = 1) -> Row:
    """The least CPU times of ours and of the library, whose answers must agree, taken in turn."""
    check_equal(name, *(np.asarray(call()) for call in calls.values()), 1e-10)
    times: dict[str, list[float]] = {which: [] for which in calls}
    until = time.process_time() + LONGEST
    for taken in range(30):
        if taken and time.process_time() > until:
            break
        for which, call in calls.items():
            begin = time.process_time()
            for _ in range(number):
                call()
            times[which].append((time.process_time() - begin) / (number * n) * 1e6)
    ours, peer = map(min, times.values())
    return [f"{ours:,.2f} us", f"{peer:,.2f} us", name, f"{peer / ours:,.2f} x"]


def measured() -> Iterator[Row]:
    """The rows of all libraries, each by the quicker way to compile it."""
    for joints in ROBOTS:
        for name in LIBRARIES:
            quickest: dict[str, Row] = {}
            for row in (row for how in COMPILED for row in _in_a_process(name, joints, how)):
                known = quickest.setdefault(row[0], row)
                if known[-1] == "" or (row[-1] and _ratio_of(row) < _ratio_of(known)):
                    quickest[row[0]] = row
            found = [row for row in quickest.values() if row[-1]]
            yield from found or list(quickest.values())[-1:]


def _ratio_of(row: Row) -> float:
    return float(row[-1].removesuffix(" x").replace(",", ""))


def _in_a_process(name: str, joints: int, how: str) -> list[Row]:
    """The rows that came to their end in time; one that says why there is none."""
    command = [sys.executable, __file__, name, str(joints), how]
    why = f"not compiled and measured within {LIMIT:.0f} s"
    with contextlib.suppress(subprocess.TimeoutExpired):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT)
        if done.returncode == 0:
            return json.loads(done.stdout.splitlines()[-1])
        said = re.findall(r"^\w+(?:\.\w+)*Error: .*", done.stderr, re.MULTILINE)
        why = said[-1][:100] if said else f"ended with {done.returncode}"
    return [[f"aba, {joints} joints", "", why, f"{name}, {how}", ""]]


if __name__ == "__main__":
    print(json.dumps(list(compared(sys.argv[1], int(sys.argv[2]), sys.argv[3]))))
