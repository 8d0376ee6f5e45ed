"""A wall of bricks that a ball hits, with different tolerances for moving bodies, and MuJoCo.

    python benchmarks/hit_wall.py

The wall has 10 x 10 bricks in running bond, without mortar. A ball of 5 kg hits it at 8 m/s. Both
engines simulate 0.5 s in steps of 1 ms; MuJoCo has its default settings. The table lists the CPU
time of a step, the Gauss-Seidel sweeps (mean, largest number), the largest penetration depth after
a tenth of the run, the mechanical energy at the end and the height of the centre of mass.
"""

from collections.abc import Iterator
from time import process_time

import mujoco
import numpy as np
from contact_problems import inertia_of
from piles import geom, text, upright

from rigidblocks import Model, RigidContactPlant, SixDoF
from rigidblocks.block.memory_layout import Memory
from rigidblocks.dynamics.energy_momentum import centre_of_mass, energy
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.robot.shapes import Box, Shape, Sphere
from rigidblocks.spatial.spatial import identity

H, T, MU, SPEED = 1e-3, 0.5, 0.5, 8.0
BRICK, BALL = Box((0.4, 0.2, 0.2)), Sphere(0.2)
SHAPES: list[Shape] = [*[BRICK] * 100, BALL]
MASSES = [*[1.0] * 100, 5.0]  # [kg]
BRICKS = [(0.4 * j + 0.2 * (i % 2), 0.0, 0.1 + 0.2 * i) for i in range(10) for j in range(10)]
PLACES = np.array([*BRICKS, (2.0, -1.5, 1.0)])
HEADS = ["", "step", "sweeps, mean and largest", "depth [m]", "energy [J]", "height [m]"]


def wall(moving_tolerance: float) -> RigidContactPlant:
    """Return the wall and the ball as a plant."""
    n, qd = len(SHAPES), np.zeros((len(SHAPES), 6))
    qd[-1, 4] = SPEED
    model = Model("wall", (-1,) * n, (SixDoF(),) * n, (identity(),) * n,
                  tuple(map(inertia_of, SHAPES, MASSES)),
                  contact=tuple((shape,) for shape in SHAPES))  # fmt: skip
    return RigidContactPlant(
        model,
        mu=MU,
        q0=np.hstack([upright(n), PLACES]).ravel(),
        qd0=qd.ravel(),
        sample_time=H,
        moving_tolerance=moving_tolerance,
    )


def here(moving_tolerance: float) -> list[str]:
    """Return the row of a tolerance."""
    plant = wall(moving_tolerance)
    memory = Memory(plant)
    m, stepper, rows = (
        memory.start(),
        compiled_stepper(memory),
        np.empty((round(T / H), memory.size)),
    )
    stepper.initialize(m, 0.0)
    start = process_time()
    stepper.run(m, 0.0, H, rows)
    spent = process_time() - start
    q, qd, depth, sweeps = (
        rows[:, memory.where[name]] for name in ("q", "qd", "depth", "sweeps_made")
    )
    whole = float(energy(plant.model, q[-1], qd[-1]))
    return [
        f"tolerance {moving_tolerance:g}",
        f"{1e6 * spent / len(rows):,.0f} us",
        f"{sweeps.mean():.0f}, {sweeps.max():.0f}",
        f"{depth[len(rows) // 10 :].max():.0e}",
        f"{whole:,.1f}",
        f"{centre_of_mass(plant.model, q[-1])[2]:.3f}",
    ]


def in_mjcf() -> str:
    """Return the scene for MuJoCo."""
    bodies = "".join(
        f'<body pos="{text(x)}"><freejoint/>{geom(shape, m)}</body>'
        for x, shape, m in zip(PLACES, SHAPES, MASSES, strict=True)
    )
    return f"""<mujoco><option timestep="{H}"><flag energy="enable"/></option>
        <size memory="400M"/><default><geom friction="{MU} 0 0" condim="3"/></default>
        <worldbody><geom type="plane" size="0 0 1"/>{bodies}</worldbody></mujoco>"""


def by_mujoco() -> list[str]:
    """Return the row of MuJoCo."""
    model = mujoco.MjModel.from_xml_string(in_mjcf())
    data, steps, spent, depth = mujoco.MjData(model), round(T / H), 0.0, 0.0
    data.qvel[-5] = SPEED
    for k in range(steps):
        start = process_time()
        mujoco.mj_step(model, data)
        spent += process_time() - start
        if k >= steps // 10:
            depth = max(depth, -min([0.0, *data.contact.dist]))
    return [
        "MuJoCo",
        f"{1e6 * spent / steps:,.0f} us",
        "-",
        f"{depth:.0e}",
        f"{data.energy.sum():,.1f}",
        f"{data.subtree_com[0][2]:.3f}",
    ]


def measured() -> Iterator[list[str]]:
    """Yield the rows of the table."""
    yield from map(here, (1e-4, 1e-3, 1e-2))
    yield by_mujoco()


if __name__ == "__main__":
    print(" | ".join(HEADS))
    for row in measured():
        print(" | ".join(row), flush=True)
