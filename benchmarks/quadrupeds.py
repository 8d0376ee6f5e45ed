"""Conservation laws for ANYmal from example-robot-data, compared with MuJoCo, after SimBenchmark.

In the first scene, a ball hits the robot in zero gravity, and the joints are free; the total
momentum is conserved. In the second scene, the robot falls with moving joints and without contact;
the energy is conserved.
"""

import re
import tempfile
from functools import cache
from itertools import combinations
from pathlib import Path
from time import process_time
from typing import NamedTuple

import mujoco
import numpy as np

from rigidblocks import load_model, sphere_inertia
from rigidblocks.block.memory_layout import Memory
from rigidblocks.contact.world import World
from rigidblocks.dynamics import energy
from rigidblocks.dynamics.energy_momentum import momentum
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.robot.configuration import integrate
from rigidblocks.robot.model import Model
from rigidblocks.robot.shapes import Sphere
from rigidblocks.spatial.rigid_motion import quaternion_rotation

T, RADIUS, MASS = 1.0, 0.2, 10.0
PLACE, SPEED = (0.0, 2.0, 0.0), (0.0, -5.0, 0.0)  # ball [m], [m/s]; misses a falling robot
STANCE = np.array([-0.1, 0.7, -1.0, -0.1, -0.7, 1.0, 0.1, 0.7, -1.0, 0.1, -0.7, 1.0])
RATES = np.random.default_rng(0).normal(size=12)


class Flight(NamedTuple):
    """Error of a run, and CPU seconds per simulated second."""

    error: float
    time: float


@cache
def urdf() -> str:
    """Return the file of ANYmal B without visuals, dry friction, dampers and stops.

    Without these elements, the energy of the robot is conserved.
    """
    folder = Path(mujoco.__file__).parents[1] / "cmeel.prefix/share/example-robot-data/robots"
    text = (folder / "anymal_b_simple_description/robots/anymal.urdf").read_text()
    text = re.sub(r"<visual>.*?</visual>|<dynamics[^>]*/>", "", text, flags=re.DOTALL)
    path = Path(tempfile.mkdtemp(), "anymal.urdf")
    path.write_text(text.replace('type="revolute"', 'type="continuous"'))
    return str(path)


def ours(hit: bool, h: float) -> Flight:
    """Run the library; the positions are moved to the times of the velocities, mid-step."""
    model, gravity = load_model(urdf(), floating=True).model, _gravity(hit)
    memory = Memory(scene(model, hit).plant(mu=0.5, sample_time=h))
    rows, time = recorded(memory, h)
    at, kept = memory.where, []
    for row in rows[:: max(1, len(rows) // 200)]:
        q, qd = row[at["anymal_q"]], row[at["anymal_qd"]]
        q = integrate(model, q, -h / 2 * qd)
        if hit:
            ball = row[at["ball_qd"]][3:] @ quaternion_rotation(row[at["ball_q"]][:4])
            kept.append(momentum(model, q, qd)[3:] + MASS * ball)
        else:
            kept.append(np.array([energy(model, q, qd, gravity)]))
    return Flight(_change(kept, hit), time / T)


def scene(model: Model, hit: bool) -> World:
    """Return a world with the robot in its stance and the ball, for the hit or for free fall."""
    world = World("flight", gravity=_gravity(hit))
    q0 = np.concatenate([[1.0, 0, 0, 0, 0, 0, 0], STANCE])
    qd0 = np.concatenate([np.zeros(6), np.zeros(12) if hit else RATES])
    world.add_robot("anymal", urdf(), q0=q0, qd0=qd0, floating=True)
    for one, other in combinations(model.body_names, 2):  # their shapes in the file overlap
        world.exclude_collision(f"anymal.{one}", f"anymal.{other}")
    inertia = sphere_inertia(RADIUS, mass=MASS)
    world.add_body(
        "ball", inertia, [Sphere(RADIUS)], at=PLACE, qd0=[0.0, 0, 0, *np.multiply(SPEED, hit)]
    )
    return world


def recorded(memory: Memory, h: float) -> tuple[np.ndarray, float]:
    """Return the memory after each step of a run, and its CPU time [s]."""
    m, step, steps = memory.start(), compiled_stepper(memory), round(T / h)
    step.initialize(m, 0.0)
    rows = np.empty((steps, m.size))
    start = process_time()
    for k in range(steps):
        step.step(m, k * h, h)
        rows[k] = m
    return rows, process_time() - start


def theirs(hit: bool, h: float, method: str = "Euler") -> Flight:
    """Run MuJoCo from the same file."""
    model = specification(hit, h, method).compile()
    data = mujoco.MjData(model)
    data.qpos[7:19], data.qvel[6:18] = STANCE, np.zeros(12) if hit else RATES
    data.qvel[18:21] = np.multiply(SPEED, hit)
    steps = round(T / h)
    states = np.empty((steps, model.nq + model.nv))
    start = process_time()
    for k in range(steps):
        mujoco.mj_step(model, data)
        states[k, : model.nq], states[k, model.nq :] = data.qpos, data.qvel
    time, kept = process_time() - start, []
    for row in states[:: max(1, steps // 200)]:
        data.qpos, data.qvel = row[: model.nq], row[model.nq :]
        mujoco.mj_forward(model, data)
        kept.append(_momentum_of(model, data) if hit else _energy_of_robot(model, data))
    return Flight(_change(kept, hit), time / T)


def specification(hit: bool, h: float, method: str) -> mujoco.MjSpec:
    """Return MuJoCo's specification of robot and ball, without contacts between robot links."""
    spec = mujoco.MjSpec.from_string(_for_mujoco(Path(urdf()).read_text()))
    base = spec.worldbody.first_body()
    base.add_freejoint()
    base.fullinertia = [2e-6, 2e-6, 2e-6, 0.0, 0.0, 0.0]  # MuJoCo rejects the file's 1e-6
    ball = spec.worldbody.add_body(name="ball", pos=PLACE)
    ball.add_freejoint()
    ball.add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[RADIUS, 0, 0], mass=MASS)
    for geom in spec.geoms:
        geom.contype, geom.conaffinity = (1, 2) if geom.parent.name == "ball" else (2, 1)
    spec.option.timestep = h
    spec.option.gravity = _gravity(hit)
    spec.option.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{method.upper()}")
    return spec


def _gravity(hit: bool) -> np.ndarray:
    return np.array([0.0, 0.0, 0.0 if hit else -9.81])


def _momentum_of(model: mujoco.MjModel, data: mujoco.MjData) -> np.ndarray:
    """Return the momentum of all bodies."""
    mujoco.mj_subtreeVel(model, data)
    total: np.ndarray = data.subtree_linvel[0] * model.body_subtreemass[0]
    return total


def _energy_of_robot(model: mujoco.MjModel, data: mujoco.MjData) -> np.ndarray:
    """Return the energy of all bodies except the ball."""
    mujoco.mj_energyPos(model, data)
    mujoco.mj_energyVel(model, data)
    ball = MASS * (data.qvel[18:21] @ data.qvel[18:21] / 2 + 9.81 * data.qpos[21])
    return np.array([data.energy.sum() - ball])


def _for_mujoco(text: str) -> str:
    """Return the file with options for MuJoCo: no visuals, and links fixed to each other merged."""
    head, robot, rest = text.partition("<robot")
    name, end, body = rest.partition(">")
    options = '<mujoco><compiler discardvisual="true" fusestatic="true"/></mujoco>'
    return head + robot + name + end + options + body


def _change(kept: list[np.ndarray], hit: bool) -> float:
    """Return the largest change of the conserved quantity.

    It is relative to the ball's momentum, or to the energy that the falling robot converts.
    """
    change = np.abs(np.array(kept) - kept[0]).max()
    return float(change / (MASS * 5.0 if hit else 30.0 * (9.81 * T) ** 2 / 2))


if __name__ == "__main__":
    for hit in (True, False):
        for h in (4e-3, 1e-3, 2.5e-4):
            print(hit, h, ours(hit, h), theirs(hit, h), theirs(hit, h, "RK4"), flush=True)
