"""Compliant contact compared with MuJoCo for several stiffnesses: errors and computing times.

The scene is a ball of 1 kg on a plane. The errors are relative to closed forms. MuJoCo's contacts
are springs and dampers with the same parameters. They are parallel to all other forces, because the
impedance has its smallest value of 1e-4.

MuJoCo's time is the time of `mj_step`. The library uses communication steps of 10 ms and inner
steps with error control.
"""

from collections.abc import Callable, Iterator
from time import process_time
from typing import NamedTuple

import mujoco
import numpy as np

from rigidblocks import Model, RobotPlant, SixDoF, SoftContactPlant, sphere_inertia
from rigidblocks.block.adaptive_methods import DEFAULT_METHOD, memory_for
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.robot.shapes import Sphere
from rigidblocks.spatial.spatial import identity

G, RADIUS, DT, IMPEDANCE = 9.81, 0.1, 0.01, 1e-4
STIFFNESSES = (1e4, 1e6, 1e8)
PEERS = (("Euler", 1e-3), ("Euler", 1e-4), ("RK4", 1e-4))
HEADS = ["scene, error of", "K [N/m]", "here", *(f"MuJoCo, {m}, {1e3 * h:g} ms" for m, h in PEERS)]


class Run(NamedTuple):
    """Times, height above the plane, velocity after each step, and the stiffness."""

    t: np.ndarray
    z: np.ndarray
    v: np.ndarray
    K: float


class Scene(NamedTuple):
    """Scene with a function for the error of a run.

    The fields are the gravity, the initial height above the plane, the initial velocity and the
    duration. The other fields are the damping ratio and the coefficient of Hunt and Crossley [s/m].
    """

    g: float
    z: float
    v: float
    T: float
    ratio: float
    dissipation: float
    error: Callable[[Run], float]


def ours(scene: Scene, K: float) -> tuple[float, float]:
    """Return the error, and CPU seconds per simulated second."""
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
    """Return a bouncing ball: parabolas in flight, and half waves about the rest position."""

    def error(run: Run) -> float:
        speed, w = np.sqrt(2 * G * z0), np.sqrt(run.K)
        sag, size = G / run.K, np.hypot(G / run.K, speed / w)
        contact = 2 * (np.pi - np.arctan2(speed / w, sag)) / w
        s = np.mod(run.t + speed / G, contact + 2 * speed / G)  # time since the last take-off
        deep = s - 2 * speed / G
        wave = -sag - size * np.cos(w * (deep - contact / 2))
        return float(np.abs(run.z - np.where(deep < 0, speed * s - G * s**2 / 2, wave)).max())

    return Scene(G, z0, 0.0, 2.0, 0.0, 0.0, error)


def thrown_back(ratio: float) -> Scene:
    """Return an impact on a spring and damper that never pull (Schwager and Poeschel 2007)."""
    root = np.sqrt(1 - ratio**2)
    e = np.exp(-ratio / root * (np.pi - np.arctan2(2 * ratio * root, 1 - 2 * ratio**2)))

    def error(run: Run) -> float:
        return float(abs(run.v[-1] - e))

    return Scene(0.0, 0.05, -1.0, 0.5, ratio, 0.0, error)


def hunt_crossley(c: float) -> Scene:
    """Return an impact that conserves v / c - log(1 + c v) / c^2."""

    def error(run: Run) -> float:
        before, after = (one / c - np.log(1 + c * one) / c**2 for one in (1.0, -run.v[-1]))
        return float(abs(after / before - 1))

    return Scene(0.0, 0.05, -1.0, 0.5, 0.0, c, error)


def at_rest() -> Scene:
    """Return a ball that rests at the depth m g / K."""

    def error(run: Run) -> float:
        return float(abs(-run.z[-1] * run.K / G - 1))

    return Scene(G, 0.01, 0.0, 2.0, 0.5, 0.0, error)


SCENES = {
    "a ball that bounces on a spring, height over 2 s [m]": bouncing(0.5),
    "impact with 0.2 of the critical damping, rebound velocity": thrown_back(0.2),
    "depth at rest after 2 s": at_rest(),
    "impact of Hunt and Crossley, 0.3 s/m, conserved quantity": hunt_crossley(0.3),
}


def measured() -> Iterator[list[str]]:
    """Yield scene, stiffness, errors and times."""
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
