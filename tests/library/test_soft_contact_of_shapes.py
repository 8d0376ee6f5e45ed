"""Soft contact of shapes: analytic solutions, rest, sliding and energy.

The runs use the default tolerances unless a test sets others. The states then have an error of
1e-7.
"""

from dataclasses import replace

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
    sphere_inertia,
)
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.memory_layout import Memory
from rigidblocks.contact import SoftContact
from rigidblocks.contact.shape_tables import polytope_row, shape_rows
from rigidblocks.robot.material import Material, combine_materials
from rigidblocks.robot.model import cylinder_inertia
from rigidblocks.robot.robots import auto_tree_p
from rigidblocks.robot.shapes import Box, ConvexHull, Cylinder, Plane, Sphere
from rigidblocks.spatial.spatial import identity

G = 9.81
CORNERS = 0.2 * np.vstack([np.eye(3), -np.eye(3)])


def free(*bodies, gravity=(0, 0, -G)):
    """Return a model of free bodies from pairs (inertia, shapes)."""
    n = len(bodies)
    inertias, shapes = zip(*bodies, strict=True)
    model = Model("free", (-1,) * n, (SixDoF(),) * n, (identity(),) * n, inertias, contact=shapes)
    return replace(model, gravity=np.asarray(gravity, dtype=float))


def at(*places):
    """Return q (nq,) of bodies given by position, or by (quaternion, position)."""
    parts = (one if len(one) == 2 else ((1, 0, 0, 0), one) for one in places)
    return np.concatenate([[*q, *p] for q, p in parts])


def block(mass=2.0, sides=(0.4, 0.3, 0.2), **material):
    return box_inertia(sides, mass=mass), (Box(sides, **material),)


def ball(mass=1.0, radius=0.1):
    return sphere_inertia(radius, mass=mass), (Sphere(radius),)


def run(plant, t, dt=0.01, **options):
    system = System()
    system.add("bodies", plant)
    return simulate(system, t, dt, progress=False, form="compiled", **options)


def felt(contact, q, qd=None):
    """Return the outputs of a contact block by name, with zero velocity by default."""
    evaluator = NumpyEvaluator(Memory(contact))
    m = evaluator.memory.start()
    m[evaluator.memory.where["q"]] = q
    m[evaluator.memory.where["qd"]] = 0.0 if qd is None else qd
    y, k, found = evaluator.output(m), 0, {}
    for port in contact.outputs:
        found[port.name] = y[k : (k := k + port.size)].reshape(port.shape)
    return found


@pytest.mark.slow
def test_contact_pressure_and_righting_moment_of_a_box_match_the_analytic_solution():
    """The pressure is p = K d / A.

    For small angles the righting moment is K / A times the second moment of area, minus the moment
    of the normal force, whose centre of pressure shifts.
    """
    a, b, c, K, d = 0.4, 0.3, 0.2, 1e5, 1e-3
    contact = SoftContact(free(block(sides=(a, b, c))), K)
    flat = felt(contact, at((0, 0, c / 2 - d)))
    assert flat["f_ext"][0] == pytest.approx([0, 0, 0, 0, 0, K * d], abs=1e-9)
    assert flat["pressure"][0] == pytest.approx(K * d / (a * b), rel=1e-12)
    assert flat["centre_of_pressure"][0, :2] == pytest.approx([0, 0], abs=1e-12)
    angle = 1e-4
    turned = ((np.cos(angle / 2), np.sin(angle / 2), 0, 0), (0, 0, c / 2 - d))
    moment = felt(contact, at(turned))["f_ext"][0, 0]
    righting = K / (a * b) * (a * b**3 / 12) - K * d * (c - d) / 2
    assert moment == pytest.approx(-righting * angle, rel=1e-4)


@pytest.mark.slow
def test_soft_contact_force_on_a_polytope_is_conservative():
    """The Jacobian of the force with respect to the position is symmetric: a potential exists."""
    hull = (box_inertia((0.3,) * 3, mass=1.0), (ConvexHull(CORNERS),))
    contact = SoftContact(free(block(), hull), 1e4, ground=())
    rng = np.random.default_rng(1)
    checked = 0
    for _ in range(40):
        turn = rng.normal(size=4)
        q = at((turn / np.linalg.norm(turn), rng.uniform(-0.15, 0.15, 3)), (0.0, 0.0, 0.0))
        if not felt(contact, q)["in_contact"][0]:
            continue
        way = np.eye(3)
        h, K = 1e-5, np.zeros((3, 3))
        for i in range(3):
            for sign in (1, -1):
                there = q.copy()
                there[4:7] += sign * h * way[i]
                K[i] += sign * felt(contact, there)["f_ext"][0, 3:] / (2 * h)
        assert np.abs(K - K.T).max() < 1e-5 * np.abs(K).max()
        checked += 1
    assert checked > 20


@pytest.mark.slow
def test_soft_contact_forces_between_bodies_conserve_momentum():
    contact = SoftContact(free(block(), block(), ball()), 1e4, 30.0, 0.7, ground=())
    rng = np.random.default_rng(2)
    for _ in range(30):
        turns = rng.normal(size=(3, 4))
        turns /= np.linalg.norm(turns, axis=1)[:, None]
        q = at(*((turn, rng.uniform(-0.12, 0.12, 3)) for turn in turns))
        f = felt(contact, q, rng.normal(size=18))["f_ext"]
        assert np.abs(f.sum(axis=0)).max() < 1e-12 * np.abs(f).max()


@pytest.mark.slow
def test_stiffnesses_of_two_contact_materials_combine_in_series():
    one, other = (
        Material("one", 0.5, stiffness=1e4, damping=20.0),
        Material("other", 0.8, stiffness=3e4, damping=90.0),
    )
    model, rest = free(block(material=one)), Plane()
    q, qd = at((0, 0, 0.099)), [0, 0, 0, 0, 0, -0.1]
    object.__setattr__(rest, "material", other)
    pair = combine_materials(one, other)
    contact = SoftContact(model, 1.0, ground=(rest,))
    expected = pair.stiffness * 1e-3 + pair.damping * 0.1
    assert felt(contact, q, qd)["f_ext"][0, 5] == pytest.approx(expected, rel=1e-9)
    named = (("one", "other", Material(stiffness=5e3, damping=0.0)),)
    contact = replace(contact, material_pairs=named)
    assert felt(contact, q, qd)["f_ext"][0, 5] == pytest.approx(5.0, rel=1e-9)


@pytest.mark.slow
def test_ball_restitution_matches_the_hunt_crossley_solution():
    """v / c - log(1 + c v) / c^2 is equal before and after the impact, for any stiffness."""
    c, speeds = 0.3, (0.5, 1.0, 2.0)
    q0 = at(*((k, 0, 0.1) for k in range(3)))
    qd0 = np.concatenate([[0, 0, 0, 0, 0, -v] for v in speeds])
    robot = RobotPlant(free(*[ball()] * 3, gravity=(0, 0, 0)), q0, qd0)
    result = run(SoftContactPlant(robot, 1e7, depth_ref=1.0, dissipation=c), 0.1, rtol=1e-9)

    def work(v):
        return v / c - np.log(1 + c * v) / c**2

    for v, after in zip(speeds, result["bodies.qd"][-1, 5::6], strict=True):
        assert work(-after) == pytest.approx(work(v), rel=1e-6)


@pytest.mark.slow
def test_soft_block_on_a_slope_sticks_or_slides_according_to_coulombs_law():
    angle = np.radians(20)
    model = free(block(), gravity=(G * np.sin(angle), 0, -G * np.cos(angle)))
    q0 = at((0, 0, 0.1 - 2 * G * np.cos(angle) / 1e6))
    stuck = run(SoftContactPlant(RobotPlant(model, q0), 1e6, 2e3, 0.5), 10.0)["bodies.qd"][-1]
    assert np.abs(stuck).max() < 1e-8
    slid = run(SoftContactPlant(RobotPlant(model, q0), 1e6, 2e3, 0.2), 2.0)["bodies.qd"][:, 3]
    gained = G * (np.sin(angle) - 0.2 * np.cos(angle))
    assert slid[-1] - slid[100] == pytest.approx(gained, rel=1e-5)


@pytest.mark.slow
def test_sliding_ball_eventually_rolls_without_slip():
    """v / v0 = 1 / (1 + m r^2 / I); the lever r ends at half the depth below the surface."""
    K, v = 1e5, 1.0
    robot = RobotPlant(free(ball()), at((0, 0, 0.1 - G / K)), [0, 0, 0, v, 0, 0])
    result = run(SoftContactPlant(robot, K, 300.0, 0.3), 3.0)
    r = 0.1 - G / K / 2
    part = r**2 / 0.004
    assert np.linalg.norm(result["bodies.qd"][-1, 3:]) == pytest.approx(v * part / (1 + part), 1e-6)


@pytest.mark.slow
def test_cylinder_rolls_without_slip_on_soft_contact():
    K, radius = 1e6, 0.1
    body = (cylinder_inertia(radius, 0.2, mass=1.0), (Cylinder(radius, 0.2),))
    lever = radius - G / (2 * K) / 2
    q0 = at(((np.sqrt(0.5), np.sqrt(0.5), 0, 0), (0, 0, radius - G / (2 * K))))
    qd0 = [0, 0, -1 / lever, 1, 0, 0]  # the cylinder axis z points along -y
    result = run(SoftContactPlant(RobotPlant(free(body), q0, qd0), K, 300.0, 0.5), 2.0)
    assert result["bodies.q"][-1, 4] == pytest.approx(2.0, abs=1e-6)


@pytest.mark.slow
def test_spinning_block_decelerates_by_the_analytic_friction_moment():
    """The friction moment of a square is mu m g times the mean distance, 0.3826 of its side."""
    side, w = 0.3, 3.0
    q0 = at((0, 0, 0.05 - G / 1e6))
    qd0 = [0, 0, w, 0, 0, 0]
    body = block(1.0, (side, side, 0.1))
    robot = RobotPlant(free(body), q0, qd0)
    result = run(SoftContactPlant(robot, 1e6, 1e3, 0.3), 0.1)
    mean = (np.sqrt(2) + np.arcsinh(1)) / 6 * side
    moment, I = 0.3 * G * mean, body[0].I[2, 2]
    slowed = result["bodies.qd"][2, 2] - result["bodies.qd"][9, 2]
    assert slowed == pytest.approx(moment / I * 0.07, rel=1e-2)


@pytest.mark.slow
def test_three_cubes_on_soft_contact_stay_at_rest():
    """The faces of the cubes are exactly aligned.

    The heights follow from the spring deflections; near the edges a strip as wide as the depth
    differs.
    """
    n, K, D = 3, 1e8, 1e5
    cubes = free(*[block(10.0, (1.0, 1.0, 1.0))] * n)
    q0 = at(*((0, 0, 0.5 + k) for k in range(n)))
    result = run(SoftContactPlant(RobotPlant(cubes, q0), K, D, 0.5), 10.0, 0.1)
    q = result["bodies.q"][-1].reshape(n, 7)
    loads = 10.0 * G / K * np.arange(n, 0, -1)
    sunk = np.arange(n) + 0.5 - q[:, 6]
    assert sunk == pytest.approx(np.cumsum(loads), rel=5 * loads[0])
    assert np.abs(q[:, 4:6]).max() < 1e-9
    assert np.abs(result["bodies.qd"][-1]).max() < 1e-6


@pytest.mark.slow
def test_crossed_beams_and_a_peg_on_a_smaller_cube_stay_at_rest():
    half = np.sqrt(0.5)
    beam, cube = block(10.0, (2.0, 0.2, 0.2)), block(10.0, (0.3, 0.3, 0.3))
    peg = block(2.0, (1.0, 0.1, 0.1))
    model = free(beam, beam, cube, peg)
    crossed = ((half, 0, 0, half), (0, 0, 0.3))
    q0 = at((0, 0, 0.1), crossed, (0, 3.0, 0.15), (0.05, 3.0, 0.35))
    result = run(SoftContactPlant(RobotPlant(model, q0), 1e6, 2e3, 0.5), 10.0, 0.1)
    q = result["bodies.q"][-1]
    crossing = 0.2 * 0.2 / (2.0 * 0.2)  # part of the largest face that the other beam covers
    sunk = 20.0 * G / 1e6 + 10.0 * G / (1e6 * crossing)
    assert q0[13] - q[13] == pytest.approx(sunk, rel=0.01)
    assert np.abs(q - q0).max() < 1.01 * sunk
    assert np.abs(result["bodies.qd"][-1]).max() < 1e-6


@pytest.mark.slow
def test_thrown_bodies_in_soft_contact_gain_no_energy():
    """Springs store energy and friction dissipates it; only the step error can add energy."""
    hull = (box_inertia((0.3,) * 3, mass=1.0), (ConvexHull(CORNERS),))
    rng = np.random.default_rng(4)
    turns = rng.normal(size=(3, 4))
    turns /= np.linalg.norm(turns, axis=1)[:, None]
    q0 = at(*((turn, (0.05 * k, 0, 0.4 + 0.4 * k)) for k, turn in enumerate(turns)))
    robot = RobotPlant(free(block(), hull, ball()), q0, rng.normal(size=18))
    result = run(SoftContactPlant(robot, 1e5, mu=0.5), 1.5)
    E = result["bodies.energy"]
    assert result["bodies.in_contact"].any(axis=0).all()
    assert np.max(E) <= E[0] * (1 + 1e-5)


@pytest.mark.slow
def test_overlapping_cubes_gain_exactly_the_spring_energy_of_the_overlap():
    """The overlap energy is K / A times the integral of the depth, for aligned cubes."""
    overlap, cube = 0.7, block(1000.0, (1.0, 1.0, 1.0))
    q0 = at((0, 0, 0.5), (0, 0, 1.5 - overlap))
    robot = RobotPlant(free(cube, cube, gravity=(0, 0, 0)), q0)
    result = run(SoftContactPlant(robot, 1e6, ground=()), 5.0, rtol=1e-9)
    inside = np.linspace(0, overlap, 401)
    depth = _depths(overlap)
    expected = 1e6 * np.trapezoid(depth, inside)
    assert result["bodies.energy"][-1] == pytest.approx(expected, rel=1e-4)


def _depths(overlap):
    """Return the integral of the depth over each cross-section of the overlap, by height.

    The depth is the smallest distance to the top, the bottom and the sides.
    """
    found = []
    for z in np.linspace(0, overlap, 401):
        most = min(z, 1 - z, 0.5)
        found.append(most * (1 - 2 * most) ** 2 + 4 * most**2 * (0.5 - 2 * most / 3))
    return np.array(found)


def test_convex_hull_of_box_corners_has_the_faces_of_the_box():
    sides = np.array([0.4, 0.3, 0.2])
    signs = np.array(np.meshgrid(*[(-1, 1)] * 3)).reshape(3, 8).T
    (row, _), (hull, _) = (
        next(iter(shape_rows(shape))) for shape in (Box(sides), ConvexHull(signs * sides / 2))
    )
    one, other = polytope_row(row), polytope_row(hull)
    assert (one[0], one[1], one[2]) == (6, 6, pytest.approx(0.12))
    np.testing.assert_allclose(one, other, atol=1e-15)


def test_invalid_arguments_of_compliant_contact_are_rejected():
    robot = RobotPlant(free(block()))
    with pytest.raises(TypeError, match="RobotPlant, FloatingBasePlant or ClosedLoopPlant"):
        SoftContactPlant(SoftContact(free(block()), 1e4), 1e4)
    with pytest.raises(ValueError, match="model 'free' and the ground have no pair of shapes"):
        SoftContactPlant(robot, 1e4, ground=())
    with pytest.raises(ValueError, match="unknown body with shapes 'table'"):
        SoftContactPlant(robot, 1e4, collision_exclusions=(("table", "ground"),))
    with pytest.raises(ValueError, match="dissipation must not be negative"):
        SoftContactPlant(robot, 1e4, dissipation=-1.0)
    with pytest.raises(TypeError, match="planar"):
        SoftContact(auto_tree_p(2), 1e4)
