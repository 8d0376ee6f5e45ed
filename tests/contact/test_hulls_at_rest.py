"""Bodies at rest on faces with any number of corners: velocities after settling are zero."""

import numpy as np
import pytest

from rigidblocks import World
from rigidblocks.block.memory_layout import Memory
from rigidblocks.contact import Plane
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.robot.shapes import Box, ConvexHull, Cylinder
from rigidblocks.spatial.spatial import RigidInertia

RADIUS, HALF, DROP = 0.1, 0.05, 5e-4  # [m]
CORNERS = (3, 4, 5, 8, 12, 13, 16, 31, 32, 33, 48, 64)


def prism(n):
    angle = np.linspace(0.0, 2.0 * np.pi, n, endpoint=False)
    ring = RADIUS * np.column_stack([np.cos(angle), np.sin(angle)])
    return np.vstack([np.column_stack([ring, np.full(n, z)]) for z in (-HALF, HALF)])


def shapes():
    """Return hulls with faces of 3 to 64 corners, and an upright cylinder."""
    hulls = {f"hull{n}": ConvexHull(prism(n)) for n in CORNERS}
    return {**hulls, "cylinder": Cylinder.from_ends((0, 0, -HALF), (0, 0, HALF), RADIUS)}


@pytest.mark.slow
@pytest.mark.parametrize("ground", ["plane", "box"])
def test_body_at_rest_on_a_face_of_many_corners_has_zero_velocity(ground):
    """Each body falls 0.5 mm and then stays at rest, because every impact is inelastic."""
    world, h = World("bodies", gravity=(0.0, 0.0, -9.81)), 1e-3
    inertia = RigidInertia(1.0, np.zeros(3), np.diag([3e-3, 3e-3, 5e-3]))
    for k, (name, shape) in enumerate(shapes().items()):
        world.add_body(name, inertia, [shape], at=(0.5 * k, 0.0, HALF + DROP))
    far = 0.5 * len(shapes())
    slab = Box.from_corners((-far, -far, -0.2), (far, far, 0.0))
    world.add_ground(Plane() if ground == "plane" else slab)
    memory = Memory(world.plant(mu=0.5, sample_time=h))
    m, rows = memory.start(), np.empty((1000, memory.size))
    stepper = compiled_stepper(memory)
    stepper.initialize(m, 0.0)
    stepper.run(m, 0.0, h, rows)
    assert rows[:, memory.where["left_out"]].max() == 0
    for name in shapes():
        end = rows[-200:]
        assert np.abs(end[:, memory.where[f"{name}_qd"]]).max() < 1e-9, name
        assert np.ptp(end[:, memory.where[f"{name}_q"]], axis=0).max() < 1e-9, name
        assert end[:, memory.where[f"{name}_q"]][:, 6] == pytest.approx(HALF, abs=1e-4), name
