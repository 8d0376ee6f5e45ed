"""Forward dynamics of JAX libraries on one core in double precision, for one state and for 4,096.

The script first compares the results; it measures our library in the same process. XLA's compiler
for CPUs fuses the operations of a chain of bodies, so that each body recomputes its inputs. This
makes some libraries a hundred times slower.

Each library is therefore compiled with and without this fusion pass, and the table contains the
faster variant. Each library runs in a separate process with a time limit for compilation and
measurement. A row reports if a library is not installed, rejects the model or does not finish.
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

# one thread, so that the CPU time is the time of one core
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

import numpy as np
from models import check_equal, in_mujoco, in_urdf
from mujoco import MjModel

from rigidblocks import Model, auto_tree, compiled_dynamics

N, LIMIT = 4096, 45.0  # number of states; time limit of a process [s]
LONGEST = 2.0  # [s] CPU time limit for the rounds of a call; at least one round runs
ROBOTS = (7, 18)
# XLA flags and their labels in the rows
COMPILED = {"unfused": {"xla_disable_hlo_passes": "fusion"}, "fused": {}}
Row = list[str]
Forward = Callable[..., object]  # JAX function from q, qd, tau (n,) to qdd


def in_mjx(model: Model, other: MjModel) -> Forward:
    """Return the dynamics of MuJoCo XLA without contact search and constraint solver."""
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
    """Return the generalized dynamics of Brax without contacts."""
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
    """Return the joint dynamics of adam with the base fixed; adam supports only floating bases."""
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
    """Return the dynamics of frax, which reads the model from a file."""
    from frax import Robot

    del other
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "robot.urdf")
        path.write_text(in_urdf(model))
        robot = Robot(str(path))
    return lambda q, qd, tau: robot.forward_dynamics(q, qd, tau, None)


LIBRARIES = {"MJX": in_mjx, "Brax": in_brax, "adam": in_adam, "frax": in_frax}
OF_MANY = ("adam",)  # libraries whose functions accept many states and must not be mapped over them


def compared(name: str, joints: int, how: str) -> Iterator[Row]:
    """Yield the rows of a library: all states together, and one state if there are seven joints."""
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
    """Compare the results, and return a row with the minimum CPU times of both libraries."""
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
    """Yield the rows of all libraries, each with its faster compilation variant."""
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
    """Return the rows that finished in time, or one row with the reason for a failure."""
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
