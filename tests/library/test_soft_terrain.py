"""Soft contact on height fields and meshes: flat ground equals a plane; energy is conserved."""

import numpy as np
import pytest

from rigidblocks import (
    Model,
    RobotPlant,
    SixDoF,
    SoftContactPlant,
    System,
    box_inertia,
    simulate,
)
from rigidblocks.contact import HeightField, TriangleMesh
from rigidblocks.robot.shapes import Box, ConvexHull, Plane
from rigidblocks.spatial.spatial import identity

pytestmark = pytest.mark.slow  # each test compiles a plant
G, SIDES = 9.81, (0.4, 0.3, 0.2)
OCTAHEDRON = 0.2 * np.vstack([np.eye(3), -np.eye(3)])
FLAT = HeightField(np.zeros((9, 9)), (0.25, 0.25), (-1.0, -1.0))


def mesh_of(field):
    """Return the triangle mesh of a height field."""
    heights, (n, m) = np.asarray(field.heights), np.shape(field.heights)
    x, y = (
        first + spacing * np.arange(count)
        for first, spacing, count in zip(field.first, field.spacing, (n, m), strict=True)
    )
    vertices = np.stack([*np.meshgrid(x, y, indexing="ij"), heights], axis=-1).reshape(-1, 3)
    node = np.arange(n * m).reshape(n, m)
    a, b, c, d = (node[:-1, :-1], node[1:, :-1], node[1:, 1:], node[:-1, 1:])
    halves = (np.stack(three, axis=-1).reshape(-1, 3) for three in ((a, b, c), (a, c, d)))
    return TriangleMesh(vertices, np.concatenate(list(halves)))


def bodies(q0, qd0, *ground, **law):
    """Return a plant with a box and an octahedron on the ground."""
    inertias = (box_inertia(SIDES, mass=2.0), box_inertia((0.3,) * 3, mass=1.0))
    shapes = ((Box(SIDES),), (ConvexHull(OCTAHEDRON),))
    model = Model("two", (-1,) * 2, (SixDoF(),) * 2, (identity(),) * 2, inertias, contact=shapes)
    return SoftContactPlant(RobotPlant(model, q0, qd0), ground=ground, **law)


def run(plant, t, **options):
    system = System()
    system.add("bodies", plant)
    return simulate(system, t, 0.01, progress=False, form="compiled", **options)


@pytest.mark.parametrize("ground", [FLAT, mesh_of(FLAT)], ids=["field", "mesh"])
def test_box_on_flat_terrain_has_the_penetration_depth_and_pressure_of_the_closed_form(ground):
    """The depth is m g / K, and the pressure is m g / A.

    A mesh differs in a strip at the edges as wide as the depth, where a side face is nearest.
    """
    K, a, b = 1e5, SIDES[0], SIDES[1]
    q0 = [1, 0, 0, 0, 0.03, 0.02, 0.1, 1, 0, 0, 0, 5, 0, 9]
    result = run(bodies(q0, 0.0, ground, K=K, D=2e3, mu=0.5), 1.0)
    sunk, strip = 2 * G / K, (1 / a + 1 / b) * 2 * G / K
    off = strip if isinstance(ground, TriangleMesh) else 1e-6
    q = result["bodies.q"][-1]
    assert 0.1 - q[6] == pytest.approx(sunk, rel=1.01 * off)
    assert np.abs(q[4:6] - q0[4:6]).max() < 1e-9
    assert result["bodies.pressure"][-1, 0] == pytest.approx(2 * G / (a * b), rel=2 * off)
    assert not result["bodies.left_out"].any()


@pytest.mark.parametrize("kind", [lambda one: one, mesh_of], ids=["field", "mesh"])
def test_undamped_bodies_thrown_on_rough_ground_conserve_energy(kind):
    """The energy out of contact is constant on slopes of up to 50 degrees without damping."""
    rng = np.random.default_rng(0)
    hills = HeightField(rng.uniform(-0.15, 0.15, (17, 17)), (0.25, 0.25), (-2.0, -2.0))
    turns = rng.normal(size=(2, 4))
    turns /= np.linalg.norm(turns, axis=1)[:, None]
    q0 = np.concatenate([[*turn, 0.1 * k, 0, 0.6 + 0.5 * k] for k, turn in enumerate(turns)])
    plant = bodies(q0, rng.normal(size=12), kind(hills), K=1e5)
    result = run(plant, 2.0, rtol=1e-8)
    touching = result["bodies.in_contact"].any(axis=1)
    E = result["bodies.energy"]
    assert 0.2 < touching.mean() < 0.8
    assert np.ptp(E[~touching]) < 1e-6 * E[0]
    assert E.max() < E[0] * (1 + 1e-6)


def test_body_that_starts_below_a_height_field_rises_to_its_surface():
    q0 = [1, 0, 0, 0, 0, 0, -0.3, 1, 0, 0, 0, 0.6, 0, -0.5]
    q = run(bodies(q0, 0.0, FLAT, K=1e4, D=100.0), 2.0)["bodies.q"][-1]
    assert q[6] > 0.09
    assert q[13] > 0.05


def test_planar_height_field_gives_the_same_motion_as_the_plane():
    """Both bodies start tilted with random contacts of all faces on the inclined ground."""
    slope = 0.3
    x = -8.0 + 0.5 * np.arange(33)
    field = HeightField(np.tile(slope * x[:, None], (1, 33)), (0.5, 0.5), (-8.0, -8.0))
    plane = Plane((-slope, 0.0, 1.0), (0.0, 0.0, 0.0))
    q0 = [0.9, 0.3, 0.1, 0.2, 0, 0, 0.6, 0.9, 0.1, 0.5, 0, 0.2, 1, 0.9]
    q = [
        run(bodies(q0, 1.0, one, K=1e4, D=50.0, mu=0.5), 1.5, rtol=1e-9)["bodies.q"]
        for one in (field, plane)
    ]
    assert np.abs(q[0] - q[1]).max() < 1e-6
