"""Rigid contact compared with MuJoCo: error against time in scenes of SimBenchmark.

The scenes follow Hwangbo, Kang and Hutter (leggedrobotics.github.io/SimBenchmark). Both engines
simulate each scene with the same steps. Errors are relative to closed forms and conserved
quantities; times are CPU times per simulated second.

MuJoCo uses its elliptic cone, Newton's method, impratio 100, and the largest contact stiffness that
the step size permits. Elastic scenes have no damping.
"""

import argparse
from collections.abc import Callable, Iterator
from time import process_time
from typing import NamedTuple

import mujoco
import numpy as np
import quadrupeds
from contact_problems import G, inertia_of
from piles import geom, text

from rigidblocks import Model, RigidContactPlant, SixDoF
from rigidblocks.block.memory_layout import Memory
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.robot.shapes import Box, Shape, Sphere
from rigidblocks.spatial.rigid_motion import quaternion_rotation
from rigidblocks.spatial.spatial import identity

SLOPE = np.pi / 6
STEPS = (4e-3, 1e-3, 2.5e-4)


class Run(NamedTuple):
    """Times, positions and velocities of the centres of mass, and CPU seconds per second."""

    t: np.ndarray
    x: np.ndarray
    v: np.ndarray
    time: float


class Scene(NamedTuple):
    """Equal free bodies above a plane, with a function for the error of a run.

    The fields are the shape, the initial positions and velocities (n, 3), the friction, the
    restitution, the gravity and the duration.
    """

    shape: Shape
    x: np.ndarray
    v: np.ndarray
    mu: float
    e: float
    gravity: np.ndarray
    T: float
    error: Callable[[Run], float]


def ours(scene: Scene, h: float) -> Run:
    """Run the library; velocities and positions are the values in the middle of steps."""
    n, memory = len(scene.x), Memory(plant_of(scene, h))
    m, step, steps = memory.start(), compiled_stepper(memory), round(scene.T / h)
    q, qd = np.empty((steps, 7 * n)), np.empty((steps, 6 * n))
    at_q, at_qd = memory.where["q"], memory.where["qd"]
    step.initialize(m, 0.0)
    start = process_time()
    for k in range(steps):
        step.step(m, k * h, h)
        q[k], qd[k] = m[at_q], m[at_qd]
    time = process_time() - start
    q, qd = q.reshape(steps, n, 7), qd.reshape(steps, n, 6)
    turned = np.array([[quaternion_rotation(one).T for one in row] for row in q[..., :4]])
    v = np.einsum("tnij,tnj->tni", turned, qd[..., 3:])
    return Run(h * (np.arange(steps) + 0.5), q[..., 4:] - h / 2 * v, v, time / scene.T)


def plant_of(scene: Scene, h: float) -> RigidContactPlant:
    n = len(scene.x)
    inertia = (inertia_of(scene.shape),) * n
    model = Model("scene", (-1,) * n, (SixDoF(),) * n, (identity(),) * n, inertia,
                  gravity=scene.gravity, contact=((scene.shape,),) * n)  # fmt: skip
    q0 = np.hstack([np.tile([1.0, 0, 0, 0], (n, 1)), scene.x])
    qd0 = np.hstack([np.zeros((n, 3)), scene.v])
    return RigidContactPlant(
        model, q0=q0.ravel(), qd0=qd0.ravel(), mu=scene.mu, e=scene.e, sample_time=h
    )


def stiff(h: float, e: float = 0.0) -> tuple[str, str]:
    """Return the attributes of MuJoCo's option and geoms, with the elliptic cone.

    The contacts have the restitution e and the largest stiffness that steps of h permit.
    """
    solref = f"{2 * h} 1"
    if e > 0.0:  # damped oscillator whose rebound velocity is e times the impact velocity
        stiffness, lost = (0.25 / h) ** 2, -np.log(e)
        solref = f"{-stiffness} {-2 * lost / np.hypot(np.pi, lost) * np.sqrt(stiffness)}"
    solver = 'cone="elliptic" impratio="100" iterations="100"'
    return solver, f'solref="{solref}" solimp="0.9999 0.9999 1e-4"'


def theirs(scene: Scene, h: float) -> Run:
    solver, stiffness = stiff(h, scene.e)
    bodies = "".join(
        f'<body pos="{text(x)}"><freejoint/>{geom(scene.shape)}</body>' for x in scene.x
    )
    spec = f"""<mujoco><option timestep="{h}" {solver} gravity="{text(scene.gravity)}"/>
        <default><geom friction="{scene.mu} 0 0" condim="3" {stiffness}/></default>
        <worldbody><geom type="plane" size="0 0 1"/>{bodies}</worldbody></mujoco>"""
    model = mujoco.MjModel.from_xml_string(spec)
    data, n, steps = mujoco.MjData(model), len(scene.x), round(scene.T / h)
    data.qvel.reshape(n, 6)[:, :3] = scene.v
    x, v = np.empty((steps, n, 3)), np.empty((steps, n, 3))
    start = process_time()
    for k in range(steps):
        mujoco.mj_step(model, data)
        x[k], v[k] = data.qpos.reshape(n, 7)[:, :3], data.qvel.reshape(n, 6)[:, :3]
    return Run(h * np.arange(1, steps + 1), x, v, (process_time() - start) / scene.T)


def sloping(shape: Shape, height: float, mu: float) -> Scene:
    """Return a ball that rolls or a box that slides on a slope; gravity is tilted instead.

    The ball rolls because mu is larger than 2/7 of the slope's tangent.
    """
    down = G * np.array([np.sin(SLOPE), 0.0, -np.cos(SLOPE)])
    rolls = isinstance(shape, Sphere)
    rate = G * (np.sin(SLOPE) / 1.4 if rolls else np.sin(SLOPE) - mu * np.cos(SLOPE))

    def error(run: Run) -> float:
        return float(np.abs(run.v[:, 0, 0] - rate * run.t).max() / (rate * run.t[-1]))

    return Scene(shape, np.array([[0.0, 0.0, height]]), np.zeros((1, 3)), mu, 0.0, down, 2.0, error)


def bouncing(e: float) -> Scene:
    """Return a ball that falls by one metre and rebounds to e^2 m, e^4 m, ..."""
    r, T = 0.1, 4.0
    fall = np.sqrt(2 / G)

    def exact(t: np.ndarray) -> np.ndarray:
        z, rest, v, k = np.empty_like(t), t - fall, G * fall * e, 0
        z[:] = np.where(t <= fall, 1 - G * t**2 / 2, 0.0)
        while v > 1e-3 and k < 50:
            inside = (rest > 0) & (rest <= 2 * v / G)
            z[inside] = v * rest[inside] - G * rest[inside] ** 2 / 2
            rest, v, k = rest - 2 * v / G, e * v, k + 1
        return z + r

    def error(run: Run) -> float:
        return float(np.sqrt(np.mean((run.x[:, 0, 2] - exact(run.t)) ** 2)))

    place = np.array([[0.0, 0.0, 1.0 + r]])
    return Scene(Sphere(r), place, np.zeros((1, 3)), 0.5, e, np.array([0.0, 0.0, -G]), T, error)


def elastic(side: int, count: int | None = None) -> Scene:
    """Return elastic, frictionless balls in a cube that fly towards each other without gravity.

    The error is the change of energy and momentum.
    """
    rng = np.random.default_rng(1)
    x = np.stack(np.meshgrid(*(np.arange(side) * 0.25,) * 3), axis=-1).reshape(-1, 3)[:count]
    x = x + rng.uniform(-0.01, 0.01, x.shape) + [0, 0, 10.0]
    v = -2.0 * (x - x.mean(axis=0)) + rng.normal(scale=0.2, size=x.shape)

    def error(run: Run) -> float:
        energy, momentum = (run.v**2).sum(axis=(1, 2)), run.v.sum(axis=1)
        gained = np.abs(momentum - momentum[0]).max() / np.sqrt(energy[0] * len(x))
        return float(max(abs(energy[-1] / energy[0] - 1), gained))

    return Scene(Sphere(0.1), x, v, 0.0, 1.0, np.zeros(3), 1.0, error)


def dropped(side: int, count: int) -> Scene:
    """Return balls in layers that fall on the ground and roll apart.

    The error is the mean penetration depth of the balls in the ground.
    """
    x = np.stack(np.meshgrid(*(np.arange(side) * 0.21,) * 3), axis=-1).reshape(-1, 3)[:count]
    x = x + np.random.default_rng(1).uniform(-0.004, 0.004, x.shape) + [0, 0, 0.11]

    def error(run: Run) -> float:
        depth = np.maximum(0.1 - run.x[:, :, 2], 0.0)
        return float(depth[depth > 0].mean()) if depth.any() else 0.0

    gravity = np.array([0.0, 0.0, -G])
    return Scene(Sphere(0.1), x, np.zeros_like(x), 0.5, 0.0, gravity, 0.5, error)


def short(scene: Scene, T: float) -> Scene:
    return scene._replace(T=T)


def scenes() -> dict[str, tuple[Scene, tuple[float, ...]]]:
    """Return the measured scenes with their step sizes."""
    return {
        "a ball that rolls down a slope, speed": (sloping(Sphere(0.1), 0.1, 0.5), STEPS),
        "a box that slides down a slope, speed": (sloping(Box((0.4, 0.4, 0.1)), 0.05, 0.3), STEPS),
        "a ball that bounces, e = 1, height over 4 s [m]": (bouncing(1.0), STEPS),
        "the same, e = 0.8": (bouncing(0.8), STEPS),
        "125 elastic balls that fly at each other, energy and momentum": (elastic(5), STEPS),
        "666 elastic balls, 0.5 s": (short(elastic(9, 666), 0.5), STEPS[:2]),
        "666 balls that fall in a heap, 0.5 s, mean depth in the ground [m]": (
            dropped(9, 666),
            STEPS[:2],
        ),
    }


def measured(small: bool = False) -> Iterator[list[str]]:
    """Yield scene, step size, errors and times, in turns; `small` omits the large scenes."""
    for name, (scene, steps) in scenes().items():
        if small and len(scene.x) > 125:
            continue
        for h in steps:
            runs = [ours(scene, h), theirs(scene, h)]
            shown = (f"{scene.error(run):.0e}, {1e3 * run.time:.2g} ms" for run in runs)
            yield [name if h == steps[0] else "", f"{1e3 * h:g} ms", *shown]


def flights() -> Iterator[list[str]]:
    """Yield step size, errors and times of ANYmal: hit by a ball in zero gravity, and falling."""
    scenes = {True: "hit by a ball in zero gravity, momentum", False: "falls, energy"}
    for hit, name in scenes.items():
        for h in STEPS:
            runs = (
                quadrupeds.ours(hit, h),
                quadrupeds.theirs(hit, h),
                quadrupeds.theirs(hit, h, "RK4"),
            )
            shown = (f"{one.error:.0e}, {1e3 * one.time:.2g} ms" for one in runs)
            yield [name if h == STEPS[0] else "", f"{1e3 * h:g} ms", *shown]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="without 666 balls")
    print("scene | step | error, ms a second: rigidblocks | MuJoCo")
    for row in (*measured(parser.parse_args().small), *flights()):
        print(" | ".join(row), flush=True)


if __name__ == "__main__":
    main()
