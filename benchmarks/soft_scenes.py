"""Soft contact beside MuJoCo over stiffness: error against time where there is a closed form.

A ball of 1 kg on a plane. MuJoCo's contacts are springs and dampers of these numbers beside all
other forces at an impedance of 1e-4, its least. Its time is that of `mj_step`; here a communication
step is 10 ms, and inner steps follow their error.
"""

from collections.abc import Callable, Iterator
from time import process_time
from typing import NamedTuple

import mujoco
import numpy as np

from rigidblocks import Model, RobotPlant, SixDoF, SoftContactPlant, sphere_inertia
from rigidblocks.algebra.spatial import identity
from rigidblocks.block.adaptive import DEFAULT_METHOD, memory_for
from rigidblocks.kernels.stepper import compiled_stepper
from rigidblocks.model.shapes import Sphere

G, RADIUS, DT, IMPEDANCE = 9.81, 0.1, 0.01, 1e-4
STIFFNESSES = (1e4, 1e6, 1e8)
PEERS = (("Euler", 1e-3), ("Euler", 1e-4), ("RK4", 1e-4))
HEADS = ["scene, error of", "K [N/m]", "here", *(f"MuJoCo, {m}, {1e3 * h:g} ms" for m, h in PEERS)]


class Run(NamedTuple):
    """Times, height above the plane and velocity after each, and the stiffness."""

    t: np.ndarray
    z: np.ndarray
    v: np.ndarray
    K: float


class Scene(NamedTuple):
    """Gravity, height above the plane and velocity at the start, how long, the ratio of damping and
    the coefficient of Hunt and Crossley [s/m], and the error of a run.
    """

    g: float
    z: float
    v: float
    T: float
    ratio: float
    dissipation: float
    error: Callable[[Run], float]


def ours(scene: Scene, K: float) -> tuple[float, float]:
    """The error, and seconds for a second of motion."""
    inertia, shapes = sphere_inertia(RADIUS, mass=1.0), ((Sphere(RADIUS),),)
    model = Model("ball", (-1,), (SixDoF(),), (identity(),), (inertia,), contact=shapes,
                  gravity=np.array([0.0, 0.0, -scene.g]))  # fmt: skip
    robot = RobotPlant(model, [1, 0, 0, 0, 0, 0, RADIUS + scene.z], [0, 0, 0, 0, 0, scene.v])
    damper = 2.0 * scene.ratio * np.sqrt(K)
    memory = memory_for(
        SoftContactPlant(robot, K, damper, dissipation=scene.dissipation), DEFAULT_METHOD
    )
    m, step, rows = memory.start(), compiled_stepper(memory, DEFAULT_METHOD), []
    step.initialize(m, 0.0)
    start = process_time()
    for k in range(round(scene.T / DT)):
        step.step(m, k * DT, DT)
        rows.append(m.copy())
    time = process_time() - start
    z, v = (np.array(rows)[:, memory.where[name]][:, -1] for name in ("q", "qd"))
    run = Run(DT * np.arange(1, len(z) + 1), z - RADIUS, v, K)
    return scene.error(run), time / scene.T


def theirs(scene: Scene, K: float, method: str, h: float) -> tuple[float, float]:
    damper = 2.0 * scene.ratio * np.sqrt(K)
    spec = f"""<mujoco><option timestep="{h}" gravity="0 0 {-scene.g}" integrator="{method}"/>
        <default><geom condim="1" solref="{-K} {-damper}"
        solimp="{IMPEDANCE} {IMPEDANCE} 1"/></default>
        <worldbody><geom type="plane" size="0 0 1"/><body pos="0 0 {RADIUS + scene.z}"><freejoint/>
        <geom type="sphere" size="{RADIUS}" mass="1"/></body></worldbody></mujoco>"""
    model = mujoco.MjModel.from_xml_string(spec)
    data, rows = mujoco.MjData(model), []
    data.qvel[2] = scene.v
    start = process_time()
    for _ in range(round(scene.T / DT)):
        mujoco.mj_step(model, data, round(DT / h))
        rows.append((data.qpos[2], data.qvel[2]))
    time = process_time() - start
    z, v = np.array(rows).T
    run = Run(DT * np.arange(1, len(z) + 1), z - RADIUS, v, K)
    return scene.error(run), time / scene.T


def bouncing(z0: float) -> Scene:
    """Parabolas, and half waves about where the ball would rest."""

    def error(run: Run) -> float:
        speed, w = np.sqrt(2 * G * z0), np.sqrt(run.K)
        sag, size = G / run.K, np.hypot(G / run.K, speed / w)
        contact = 2 * (np.pi - np.arctan2(speed / w, sag)) / w
        s = np.mod(run.t + speed / G, contact + 2 * speed / G)  # from where it leaves the ground
        deep = s - 2 * speed / G
        wave = -sag - size * np.cos(w * (deep - contact / 2))
        return float(np.abs(run.z - np.where(deep < 0, speed * s - G * s**2 / 2, wave)).max())

    return Scene(G, z0, 0.0, 2.0, 0.0, 0.0, error)


def thrown_back(ratio: float) -> Scene:
    """By a spring and a damper that do not pull (Schwager and Poeschel 2007)."""
    root = np.sqrt(1 - ratio**2)
    e = np.exp(-ratio / root * (np.pi - np.arctan2(2 * ratio * root, 1 - 2 * ratio**2)))

    def error(run: Run) -> float:
        return float(abs(run.v[-1] - e))

    return Scene(0.0, 0.05, -1.0, 0.5, ratio, 0.0, error)


def hunt_crossley(c: float) -> Scene:
    """v / c - log(1 + c v) / c^2 is the same before and behind."""

    def error(run: Run) -> float:
        before, after = (one / c - np.log(1 + c * one) / c**2 for one in (1.0, -run.v[-1]))
        return float(abs(after / before - 1))

    return Scene(0.0, 0.05, -1.0, 0.5, 0.0, c, error)


def at_rest() -> Scene:
    """As deep as m g / K."""

    def error(run: Run) -> float:
        return float(abs(-run.z[-1] * run.K / G - 1))

    return Scene(G, 0.01, 0.0, 2.0, 0.5, 0.0, error)


SCENES = {
    "a ball that bounces on a spring, height over 2 s [m]": bouncing(0.5),
    "spring and damper at 0.2 of the critical, speed that is left": thrown_back(0.2),
    "depth at rest after 2 s": at_rest(),
    "Hunt and Crossley, 0.3 s/m, what decides the speed that is left": hunt_crossley(0.3),
}


def measured() -> Iterator[list[str]]:
    """Scene, stiffness, and error and time of each."""
    for name, scene in SCENES.items():
        for K in STIFFNESSES:
            runs = [ours(scene, K)]
            if not scene.dissipation:
                runs += [theirs(scene, K, *peer) for peer in PEERS]
            shown = [f"{error:.0e}, {1e3 * time:.2g} ms" for error, time in runs]
            shown += ["no such law"] * (1 + len(PEERS) - len(shown))
            yield [name if STIFFNESSES[0] == K else "", f"{K:.0e}", *shown]


if __name__ == "__main__":
    for row in measured():
        print(" | ".join(row), flush=True)
