"""Rigid contact with height fields and triangle meshes.

A flat ground of triangles equals the plane, and bodies do not fall through uneven ground.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks import Model, RigidContactPlant, SixDoF, box_inertia, sphere_inertia
from rigidblocks.block.memory_layout import Memory
from rigidblocks.contact import ContactSensor, HeightField, Plane, PointSet, Sphere, TriangleMesh
from rigidblocks.contact.shape_distance import proximity
from rigidblocks.kernels.compiled_stepper import compiled_stepper, numpy_stepper
from rigidblocks.robot.shapes import Box, Capsule, ConvexHull, Cylinder, Ellipsoid
from rigidblocks.spatial.rigid_motion import quaternion_rotation
from rigidblocks.spatial.spatial import identity

G, H = 9.81, 1e-3
SLOPE = np.array([0.2, 0.1])  # slope of the ground for x < 0; the rest is uneven
CORNERS = np.random.default_rng(5).normal(size=(12, 3)) * 0.15
SHAPES = (
    Sphere(0.1),
    Box((0.5, 0.4, 0.3)),
    Box((0.05, 0.04, 0.03)),
    Capsule(0.1, 0.5),
    Cylinder(0.2, 0.3),
    Ellipsoid((0.1, 0.2, 0.3)),
    ConvexHull(CORNERS),
    PointSet(CORNERS),
)
INERTIA = (sphere_inertia(0.1, mass=1), *(box_inertia((0.4, 0.3, 0.2), mass=1),) * 7)
LAST = 1200


def heights():
    x = -4 + 0.1 * np.arange(91)
    X, Y = np.meshgrid(x, x, indexing="ij")
    bumps = np.random.default_rng(1).uniform(0, 0.08, X.shape)
    return np.where(X < 0.45, SLOPE[0] * X + SLOPE[1] * Y, SLOPE[1] * Y + 0.09 + bumps)


def mesh_of(field):
    """Return the triangle mesh of a height field."""
    h = np.asarray(field.heights)
    x, y = (field.first[k] + field.spacing[k] * np.arange(h.shape[k]) for k in range(2))
    X, Y = np.meshgrid(x, y, indexing="ij")
    number = np.arange(h.size).reshape(h.shape)
    a, b, c, d = number[:-1, :-1], number[1:, :-1], number[1:, 1:], number[:-1, 1:]
    halves = [np.stack(three, axis=-1).reshape(-1, 3) for three in ((a, b, c), (a, c, d))]
    return TriangleMesh(np.stack([X, Y, h], axis=-1).reshape(-1, 3), np.concatenate(halves))


FIELD = HeightField(heights(), (0.1, 0.1), (-4.0, -4.0))
GROUNDS = {"plane": Plane((*-SLOPE, 1.0)), "field": FIELD, "mesh": mesh_of(FIELD)}


def bodies(ground):
    """Return a plant of all shapes on the ground, without collisions between them."""
    n = len(SHAPES)
    names = tuple(f"b{k}" for k in range(n))
    model = Model(
        "bodies",
        (-1,) * n,
        (SixDoF(),) * n,
        (identity(),) * n,
        INERTIA,
        contact=tuple((shape,) for shape in SHAPES),
        body_names=names,
    )
    apart = tuple((a, b) for i, a in enumerate(names) for b in names[:i])
    return RigidContactPlant(
        model, (ground,), mu=0.4, collision_exclusions=apart, max_contacts=200, sample_time=H
    )


def thrown(ground, q0, qd0, steps, stepper=compiled_stepper):
    """Return q and qd of the bodies after each step."""
    memory = Memory(bodies(ground))
    m, step = memory.start(), stepper(memory)
    m[memory.where["q"]], m[memory.where["qd"]] = np.ravel(q0), np.ravel(qd0)
    step.initialize(m, 0.0)
    q, qd = [], []
    for k in range(steps):
        step.step(m, k * H, H)
        assert m[memory.where["left_out"]] == 0
        q.append(m[memory.where["q"]].reshape(-1, 7).copy())
        qd.append(m[memory.where["qd"]].reshape(-1, 6).copy())
    return np.array(q), np.array(qd)


def start(rng, low, high, height):
    """Return random orientations, positions between two corners, and random velocities."""
    n = len(SHAPES)
    turns = rng.normal(size=(n, 4))
    turns /= np.linalg.norm(turns, axis=1)[:, None]
    q0 = np.hstack([turns, rng.uniform(low, high, (n, 2)), np.full((n, 1), height)])
    return q0, np.hstack([rng.uniform(-5, 5, (n, 3)), rng.uniform(-0.5, 0.5, (n, 3))])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["field", "mesh"])
def test_contact_with_flat_triangle_ground_gives_the_forces_of_contact_with_a_plane(kind, rng):
    q0, qd0 = start(rng, (-2.5, -0.5), (-1.5, 0.5), 0.4)
    # a ball that rolls down from rest has the acceleration 5/7 g sin(slope)
    n = np.array([*-SLOPE, 1.0]) / np.sqrt(1 + SLOPE @ SLOPE)
    q0[0] = [1, 0, 0, 0, *(np.array([-1.5, 0.3, SLOPE @ (-1.5, 0.3)]) + 0.1 * n)]
    qd0[0] = 0.0
    (one, _), (other, _) = (thrown(GROUNDS[k], q0, qd0, 700) for k in ("plane", kind))
    assert_allclose(other, one, atol=1e-9)
    way = np.linalg.norm(other[-1, 0, 4:] - q0[0, 4:])
    assert way == pytest.approx(5 / 14 * G * np.sqrt(1 - n[2] ** 2) * 0.7**2, rel=2e-3)


def ground_at(x, y):
    """Return the ground height of the height field at (x, y)."""
    h = np.asarray(FIELD.heights)
    i, j = (np.clip(np.floor((p + 4) / 0.1).astype(int), 0, 89) for p in (x, y))
    u, v = (x + 4) / 0.1 - i, (y + 4) / 0.1 - j
    a, b, c, d = h[i, j], h[i + 1, j], h[i + 1, j + 1], h[i, j + 1]
    return np.where(u >= v, a + u * (b - a) + v * (c - b), a + v * (d - a) + u * (c - d))


def energy(q, qd):
    """Return the energy of each body (steps, n), at the midpoint of the previous step."""
    rows = []
    for i, body in enumerate(INERTIA):
        v = [quaternion_rotation(r).T @ u for r, u in zip(q[:, i, :4], qd[:, i, 3:], strict=True)]
        z, w = q[:, i, 6] - H / 2 * np.array(v)[:, 2], qd[:, i, :3]
        rows.append(body.m / 2 * np.sum(np.square(v), axis=1) + ((w @ body.I) * w).sum(axis=1) / 2)
        rows[-1] += body.m * G * z
    return np.array(rows).T


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["field", "mesh"])
def test_bodies_do_not_fall_through_uneven_ground(kind, rng):
    q0, qd0 = start(rng, (1.5, -1.0), (3.5, 1.0), 0.8)
    q, qd = thrown(GROUNDS[kind], q0, qd0, LAST)
    for i, shape in enumerate(SHAPES):
        for k in range(0, LAST, 50):
            E, r = quaternion_rotation(q[k, i, :4]), q[k, i, 4:]
            assert ground_at(*r[:2]) < r[2]
            if isinstance(shape, Box | ConvexHull | PointSet):
                p = shape.points @ E + r
                assert np.max(ground_at(p[:, 0], p[:, 1]) - p[:, 2]) < 2e-3
    e = energy(q, qd)
    assert np.max(e - np.minimum.accumulate(e, axis=0)) < 2e-4 * e.max()
    assert e[-1].sum() < 0.6 * e[0].sum()  # the bodies are nearly at rest
    small = slice(0, 60)
    again, _ = thrown(GROUNDS[kind], q0, qd0, 60, numpy_stepper)
    assert again.tobytes() == q[small].tobytes()


def test_invalid_ground_meshes_are_rejected():
    x = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]]
    with pytest.raises(ValueError, match="both traverse the edge from vertex 1 to 2"):
        TriangleMesh(x, [[0, 1, 2], [1, 2, 3]])
    with pytest.raises(ValueError, match="triangle 1 of a mesh has no area"):
        TriangleMesh(x, [[0, 1, 2], [1, 1, 3]])
    with pytest.raises(ValueError, match="must be 0 to 3, but are 0 to 4"):
        TriangleMesh(x, [[0, 1, 4]])
    with pytest.raises(ValueError, match="finite vertices"):
        TriangleMesh([[0, np.nan, 0]], [[0, 0, 0]])
    with pytest.raises(ValueError, match="must be integer vertex indices"):
        TriangleMesh(x, [[0.5, 1, 2]])
    mesh = TriangleMesh(x, [[0, 1, 2], [1, 3, 2]])
    assert mesh.adjacent_triangles.tolist() == [[-1, 1, -1], [-1, -1, 0]]
    with pytest.raises(TypeError, match="compliant contact does not support a triangle mesh"):
        mesh.gap(np.zeros(3))
    with pytest.raises(ValueError, match="triangle meshes are not supported"):
        proximity(Sphere(1.0), identity(), mesh, identity())
    model, sensor = bodies(FIELD).model, ContactSensor("a", "b0", distance=True)
    with pytest.raises(ValueError, match="cannot measure distances to height fields and meshes"):
        RigidContactPlant(model, (mesh,), sensors=(sensor,))
