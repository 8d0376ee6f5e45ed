"""If an impulse would add energy, only the impulses of its contact island are reduced."""

import numpy as np
import pytest

from rigidblocks import World, box_inertia
from rigidblocks.block.memory_layout import Memory
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.robot.shapes import Box, Cylinder, Plane
from rigidblocks.spatial.spatial import rotx, roty, xlt

H, T = 1e-3, 1.5
CUBE = (0.3, 0.3, 0.3)
FASTEST = 20.0  # m/s, speed of a corner of a thrown body
TOLERANCE = 1e-5  # tolerance of the velocities, relative to the fastest body


def world_of(seed):
    """Return a cube at rest, and bodies 20 m away that fall on a heap at 20 rad/s."""
    world = World("yard")
    world.add_body("cube", box_inertia(CUBE, mass=1.0), [Box(CUBE)], at=(-20.0, 0.0, 0.15))
    world.add_ground(Plane())
    rng = np.random.default_rng(seed)
    for k in range(8):
        sides = tuple(rng.uniform(0.05, 0.6, 3))
        shape = Cylinder(sides[0] / 2, sides[2]) if k % 2 else Box(sides)
        mass, turned = rng.uniform(0.1, 5.0), roty(rng.uniform(0, 3)) @ rotx(rng.uniform(0, 3))
        place = xlt((*rng.uniform(-0.8, 0.8, 2), 0.6 + 0.5 * k))
        qd0 = [*20 * rng.normal(size=3), *5 * rng.normal(size=3)]
        inertia = box_inertia(sides, mass=mass)
        world.add_body(f"thrown_{k}", inertia, [shape], at=turned @ place, qd0=qd0)
    return world


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 4])
def test_impulse_reduction_in_a_heap_of_bodies_does_not_move_a_distant_cube(seed):
    memory = Memory(world_of(seed).plant(mu=1.0, sample_time=H))
    m, step, at = memory.start(), compiled_stepper(memory), memory.where
    step.initialize(m, 0.0)
    fastest = 0.0
    for k in range(round(T / H)):
        step.step(m, k * H, H)
        fastest = max(fastest, np.abs(m[at["cube_qd"]]).max())
    assert fastest < TOLERANCE * FASTEST
