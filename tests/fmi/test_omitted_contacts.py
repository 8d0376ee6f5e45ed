"""Contacts that exceed `max_contacts` are omitted and counted exactly.

The counts agree in NumPy, in the kernel, and in native FMUs of both FMI versions.
"""

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose

from contact_runs import G, H, as_fmu, free, without_fmu
from rigidblocks import (
    RigidContactPlant,
    RobotPlant,
    SoftContactPlant,
    box_inertia,
    sphere_inertia,
)
from rigidblocks.contact import TriangleMesh
from rigidblocks.kernels.compiled_stepper import compiled_stepper, numpy_stepper
from rigidblocks.robot.shapes import Box, Sphere

pytestmark = pytest.mark.slow  # each compiles a plant
RADIUS, BALLS, ROOM, STEPS = 0.1, 5, 3, 100
K, SPIKES, NORMALS = 1e4, 12, 8


def balls(n, **options):
    return free(*((Sphere(RADIUS), sphere_inertia(RADIUS, mass=1.0)),) * n, **options)


@cache
def too_many_balls():
    """Return a plant of more balls on a plane than `max_contacts`; each ball has one contact."""
    q0 = np.concatenate([[1, 0, 0, 0, 0.3 * k, 0, RADIUS] for k in range(BALLS)])
    return RigidContactPlant(balls(BALLS), q0=q0, max_contacts=ROOM, sample_time=H)


@cache
def spikes():
    """Return unit vectors (SPIKES, 3) from the ball centre, depths [m], and a mesh of spikes.

    Each spike points along its unit vector and penetrates the ball by its depth.
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
    """Return a ball on spikes, at rest without gravity."""
    robot = RobotPlant(balls(1, gravity=(0, 0, 0)), [1, 0, 0, 0, 0, 0, 0])
    return SoftContactPlant(robot, K, ground=(spikes()[2],))


def check_balls(q, left_out):
    """Check that the first ROOM balls stay on the plane and the others fall through it.

    Each falling ball counts as one omitted contact while it penetrates the plane.
    """
    z = q.reshape(len(q), BALLS, 7)[:, :, 6]
    t = H * np.arange(len(z))[:, None]
    assert_allclose(z[:, :ROOM], RADIUS, atol=1e-9)
    assert_allclose(z[:, ROOM:] + G / 2 * t**2, RADIUS, atol=1e-12)
    assert (left_out[1:] == BALLS - ROOM).all()


@pytest.mark.parametrize("stepper", [numpy_stepper, compiled_stepper])
def test_each_rigid_contact_above_max_contacts_is_counted_once_as_omitted(stepper):
    y = without_fmu(too_many_balls(), ("q", "left_out", "contacts"), STEPS, stepper)
    check_balls(y["q"], y["left_out"])
    assert (y["contacts"][1:] == ROOM).all()


def counted_alike(plant, names, fmi, folder, **tolerance):
    """Assert that the outputs of the plant as an FMU equal the outputs without an FMU."""
    found, expected = as_fmu(plant, names, STEPS, fmi, folder), without_fmu(plant, names, STEPS)
    for name in names:
        assert_allclose(found[name], expected[name][:, -1], **tolerance)
    return found


@pytest.mark.parametrize("fmi", [2, 3])
def test_rigid_contact_fmu_counts_the_same_omitted_contacts_as_its_block(tmp_path, fmi):
    names = ("left_out", "contacts", "q")
    counted_alike(too_many_balls(), names, fmi, tmp_path, atol=1e-15)


def test_numbers_of_solved_and_omitted_contacts_add_up_to_the_number_of_all_contacts():
    """Overlapping boxes at rest keep their number of contacts within a step."""
    rng, n = np.random.default_rng(3), 6
    turns = rng.normal(size=(n, 4))
    turns /= np.linalg.norm(turns, axis=1)[:, None]
    q0 = np.concatenate([[*turn, *rng.uniform(-0.2, 0.2, 3)] for turn in turns])
    sides = (0.3, 0.2, 0.25)
    model = free(*((Box(sides), box_inertia(sides, mass=1.0)),) * n, gravity=(0, 0, 0))

    def counts(room):
        plant = RigidContactPlant(model, q0=q0, max_contacts=room)
        y = without_fmu(plant, ("contacts", "left_out"), 1)
        return y["contacts"][1, 0], y["left_out"][1, 0]

    touching, none = counts(200)
    room = int(touching) - 7
    assert (touching > 30, none) == (True, 0)
    assert counts(room) == (room, 7)


def check_spikes(force, left_out):
    """Check that the NORMALS deepest spikes exert their spring forces."""
    out, depth, _ = spikes()
    kept = np.argsort(depth)[-NORMALS:]
    assert_allclose(force, -K * depth[kept] @ out[kept], rtol=1e-12)
    assert left_out == SPIKES - NORMALS


@pytest.mark.parametrize("stepper", [numpy_stepper, compiled_stepper])
def test_compliant_contact_omits_and_counts_the_contact_normals_of_smallest_depth(stepper):
    y = without_fmu(too_many_normals(), ("f_contact", "left_out"), 0, stepper)
    check_spikes(y["f_contact"][0, 3:], y["left_out"][0, 0])


@pytest.mark.parametrize("fmi", [2, 3])
def test_compliant_contact_fmu_counts_the_same_omitted_contacts_as_its_block(tmp_path, fmi):
    names = ("left_out", "f_contact", "q")
    found = counted_alike(too_many_normals(), names, fmi, tmp_path, rtol=1e-12, atol=1e-15)
    assert len(np.unique(found["left_out"])) > 1  # the ball leaves the spikes
    assert found["left_out"][-1] == 0
