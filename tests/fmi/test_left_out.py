"""Contacts without room: how many are left out is said, exactly, and which are kept is known; in
NumPy, in the kernel, and in native FMUs of both versions.
"""

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose

from contact_runs import G, H, as_fmu, free, in_memory
from rigidblocks import (
    RigidContactPlant,
    RobotPlant,
    SoftContactPlant,
    box_inertia,
    sphere_inertia,
)
from rigidblocks.contact import TriangleMesh
from rigidblocks.kernels.stepper import compiled_stepper, numpy_stepper
from rigidblocks.model.shapes import Box, Sphere

pytestmark = pytest.mark.slow  # each compiles a plant
RADIUS, BALLS, ROOM, STEPS = 0.1, 5, 3, 100
K, SPIKES, NORMALS = 1e4, 12, 8


def balls(n, **options):
    return free(*((Sphere(RADIUS), sphere_inertia(RADIUS, mass=1.0)),) * n, **options)


@cache
def too_many_balls():
    """On a plane, each on a point."""
    q0 = np.concatenate([[1, 0, 0, 0, 0.3 * k, 0, RADIUS] for k in range(BALLS)])
    return RigidContactPlant(balls(BALLS), q0=q0, max_contacts=ROOM, sample_time=H)


@cache
def spikes():
    """Directions (SPIKES, 3) from the middle of a ball, by how much spikes that stand along them
    are in it [m], and their mesh.
    """
    turn, tilt = 2 * np.pi / SPIKES * np.arange(SPIKES), np.tile([0.4, 0.8], SPIKES // 2)
    out = np.stack([np.sin(tilt) * np.cos(turn), np.sin(tilt) * np.sin(turn), -np.cos(tilt)], 1)
    depth = 1e-3 * np.random.default_rng(0).permutation(np.arange(1, SPIKES + 1))
    vertices, triangles = [], []
    for k, n in enumerate(out):
        u = np.cross(n, [0, 0, 1])
        angles = 2 * np.pi / 3 * np.arange(3)
        around = 5e-3 * (np.outer(np.cos(angles), u) + np.outer(np.sin(angles), np.cross(n, u)))
        vertices += [(RADIUS - depth[k]) * n, *(2 * RADIUS * n + around)]
        triangles += [(4 * k, 4 * k + 1 + (i + 1) % 3, 4 * k + 1 + i) for i in range(3)]
    return out, depth, TriangleMesh(vertices, triangles)


@cache
def too_many_normals():
    """A ball on spikes, at rest in no gravity."""
    robot = RobotPlant(balls(1, gravity=(0, 0, 0)), [1, 0, 0, 0, 0, 0, 0])
    return SoftContactPlant(robot, K, ground=(spikes()[2],))


def check_balls(q, left_out):
    """The first ROOM stay, the others fall through; each of those counts once, as long as it is in
    the ground.
    """
    z = q.reshape(len(q), BALLS, 7)[:, :, 6]
    t = H * np.arange(len(z))[:, None]
    assert_allclose(z[:, :ROOM], RADIUS, atol=1e-9)
    assert_allclose(z[:, ROOM:] + G / 2 * t**2, RADIUS, atol=1e-12)
    assert (left_out[1:] == BALLS - ROOM).all()


@pytest.mark.parametrize("stepper", [numpy_stepper, compiled_stepper])
def test_what_finds_no_room_among_rigid_contacts_is_counted_once(stepper):
    y = in_memory(too_many_balls(), ("q", "left_out", "contacts"), STEPS, stepper)
    check_balls(y["q"], y["left_out"])
    assert (y["contacts"][1:] == ROOM).all()


def counted_alike(plant, names, fmi, folder, **tolerance):
    """The outputs of a plant as an FMU, which are those in memory."""
    found, expected = as_fmu(plant, names, STEPS, fmi, folder), in_memory(plant, names, STEPS)
    for name in names:
        assert_allclose(found[name], expected[name][:, -1], **tolerance)
    return found


@pytest.mark.parametrize("fmi", [2, 3])
def test_fmus_of_rigid_contact_count_alike(tmp_path, fmi):
    names = ("left_out", "contacts", "q")
    counted_alike(too_many_balls(), names, fmi, tmp_path, atol=1e-15)


def test_what_is_kept_and_what_is_left_out_are_together_all_that_touches():
    """Boxes thrown into each other, at rest, so that nothing else comes to touch in a step."""
    rng, n = np.random.default_rng(3), 6
    turns = rng.normal(size=(n, 4))
    turns /= np.linalg.norm(turns, axis=1)[:, None]
    q0 = np.concatenate([[*turn, *rng.uniform(-0.2, 0.2, 3)] for turn in turns])
    sides = (0.3, 0.2, 0.25)
    model = free(*((Box(sides), box_inertia(sides, mass=1.0)),) * n, gravity=(0, 0, 0))

    def counts(room):
        plant = RigidContactPlant(model, q0=q0, max_contacts=room)
        y = in_memory(plant, ("contacts", "left_out"), 1)
        return y["contacts"][1, 0], y["left_out"][1, 0]

    touching, none = counts(200)
    room = int(touching) - 7
    assert (touching > 30, none) == (True, 0)
    assert counts(room) == (room, 7)


def check_spikes(force, left_out):
    """Of those with normals of their own the deepest are kept, each on its spring."""
    out, depth, _ = spikes()
    kept = np.argsort(depth)[-NORMALS:]
    assert_allclose(force, -K * depth[kept] @ out[kept], rtol=1e-12)
    assert left_out == SPIKES - NORMALS


@pytest.mark.parametrize("stepper", [numpy_stepper, compiled_stepper])
def test_normals_without_room_in_soft_contact_are_counted_and_are_the_shallowest(stepper):
    y = in_memory(too_many_normals(), ("f_contact", "left_out"), 0, stepper)
    check_spikes(y["f_contact"][0, 3:], y["left_out"][0, 0])


@pytest.mark.parametrize("fmi", [2, 3])
def test_fmus_of_soft_contact_count_alike(tmp_path, fmi):
    names = ("left_out", "f_contact", "q")
    found = counted_alike(too_many_normals(), names, fmi, tmp_path, rtol=1e-12, atol=1e-15)
    assert len(np.unique(found["left_out"])) > 1  # it is thrown out, and leaves the spikes
    assert found["left_out"][-1] == 0
