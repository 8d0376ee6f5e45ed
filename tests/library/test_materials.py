"""Materials, torsional friction and rolling friction match analytic solutions."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose

import rigid_scenes
from rigidblocks import Model, SixDoF, sphere_inertia
from rigidblocks.contact import Material, Plane, RigidContactPlant, Sphere, combine_materials
from rigidblocks.robot.model import cylinder_inertia
from rigidblocks.robot.shapes import Box, Cylinder
from rigidblocks.spatial.spatial import RigidInertia, identity

G, R = 9.81, 0.1


def bodies(*shapes_and_inertias):
    """Return a model of free bodies from pairs (shapes, inertia)."""
    n = len(shapes_and_inertias)
    shapes, inertias = zip(*shapes_and_inertias, strict=True)
    return Model("s", (-1,) * n, (SixDoF(),) * n, (identity(),) * n, inertias, contact=shapes)


def at(*places):
    return np.concatenate([[1.0, 0, 0, 0, *place] for place in places])


def ball(**material):
    shape = Sphere(R, material=Material(**material) if material else None)
    return bodies(((shape,), sphere_inertia(R, mass=2.0)))


@pytest.mark.slow
@pytest.mark.parametrize("mu", [0.0, 0.3])
def test_torsional_friction_stops_a_spinning_ball_after_the_analytic_time(mu):
    c, w, I = 2e-3, 5.0, 0.4 * 2.0 * R**2
    plant = RigidContactPlant(
        ball(), q0=at((0, 0, R)), qd0=(0, 0, w, 0, 0, 0), mu=mu, torsional=(c, 0.0)
    )
    y = rigid_scenes.run(plant, 3.0)
    moment, t = c * 2.0 * G, 1e-3 * np.arange(1, len(y.qd) + 1)
    assert_allclose(y.qd[:, 2], np.maximum(0, w - moment / I * t), atol=w * 1e-3)
    assert np.abs(y.qd[-100:]).max() < 1e-6
    assert_allclose(y.f_contact[500], [0, 0, -moment, 0, 0, 2 * G], atol=1e-6)


@pytest.mark.slow
def test_rolling_friction_stops_a_ball_after_the_analytic_distance():
    # (m r^2 + I) dw/dt = -c m g with m r^2 + I = 7/5 m r^2 for a ball
    c, v = 5e-3, 0.7
    plant = RigidContactPlant(
        ball(mu=0.6, rolling=c), q0=at((0, 0, R)), qd0=(0, v / R, 0, v, 0, 0), mu=0.6
    )
    y = rigid_scenes.run(plant, 3.0)
    way = v**2 / (2 * c * G / (1.4 * R))
    assert y.q[-1, 4] == pytest.approx(way, rel=2e-3)
    assert np.abs(y.qd[-100:]).max() < 1e-6
    assert np.abs(y.q[:, 5]).max() < 1e-12


@pytest.mark.slow
def test_friction_at_the_rim_brakes_a_spinning_coin():
    # the coin lies flat on four points of its rim, at radius r: friction moment mu m g r
    r, h, mu, w = 0.05, 0.01, 0.2, 20.0
    coin = bodies(((Cylinder(r, h),), cylinder_inertia(r, h, mass=0.3)))
    plant = RigidContactPlant(coin, q0=at((0, 0, h / 2)), qd0=(0, 0, w, 0, 0, 0), mu=mu)
    y = rigid_scenes.run(plant, 0.6)
    t = 1e-3 * np.arange(1, len(y.qd) + 1)
    assert_allclose(y.qd[:, 2], np.maximum(0, w - 2 * mu * G / r * t), atol=w * 2e-3)


def turned(axis, angle):
    return np.array([np.cos(angle / 2), *(np.sin(angle / 2) * np.asarray(axis, dtype=float))])


@pytest.mark.slow
@pytest.mark.parametrize("push", [0.0, 0.05])
def test_box_slides_on_a_slope_only_after_a_push_breaks_static_friction(push):
    slope, mu = 0.4, 0.3  # tan(0.4) = 0.42
    normal = np.array([np.sin(slope), 0, np.cos(slope)])
    box = Box((0.4, 0.4, 0.1), material=Material("wood", mu=mu, mu_static=0.5))
    model = bodies(((box,), RigidInertia(2.0, np.zeros(3), 0.02 * np.eye(3))))
    q0 = np.concatenate([turned((0, 1, 0), slope), 0.05 * normal])
    plane = Plane(normal, material=Material("ice", mu=mu, mu_static=0.5))
    y = rigid_scenes.run(RigidContactPlant(model, (plane,), q0=q0, qd0=(0, 0, 0, push, 0, 0)), 1.0)
    way = np.linalg.norm(y.q[-1, 4:] - q0[4:])
    if push:
        assert way == pytest.approx(push + G * (np.sin(slope) - mu * np.cos(slope)) / 2, rel=1e-2)
    else:
        assert way < 1e-6


@pytest.mark.slow
def test_sliding_distance_depends_on_the_friction_of_the_material_or_of_the_material_pair():
    # three boxes slide on three strips; mu comes from the combined materials, the material pair,
    # and the plant
    materials = (Material("a", mu=0.1), Material("b", mu=0.1), None)
    shapes = [Box((0.2, 0.2, 0.1), material=one) for one in materials]
    inertia = RigidInertia(1.0, np.zeros(3), 0.01 * np.eye(3))
    model = bodies(*(((shape,), inertia) for shape in shapes))
    qd0 = np.tile([0, 0, 0, 2.0, 0, 0], 3)
    plant = RigidContactPlant(
        model,
        (Plane(material=Material("floor", mu=0.4)),),
        mu=0.225,
        q0=at(*((0, k, 0.05) for k in range(3))),
        qd0=qd0,
        material_pairs=(("floor", "b", Material(mu=0.5)),),
    )
    y = rigid_scenes.run(plant, 2.5)
    ways = [y.q[-1, 7 * k + 4] for k in range(3)]
    assert ways == pytest.approx([4 / (2 * mu * G) for mu in (0.2, 0.5, 0.3)], rel=3e-3)


def test_material_properties_of_two_bodies_combine_by_their_rules():
    a = Material("a", 0.4, 0.9, 0.5, 1e-3, 2e-3, 1e4, 10.0)
    b = Material("b", 0.1, None, 0.5, 3e-3, 0.0, 3e4, 90.0)
    both = combine_materials(a, b)
    assert both.mu == pytest.approx(0.2)
    assert both.mu_static == pytest.approx(0.3)
    assert (both.torsional, both.rolling) == (3e-3, 2e-3)
    assert both.stiffness == pytest.approx(7.5e3)
    assert both.damping == pytest.approx(10 * 0.75**2 + 90 * 0.25**2)
    assert combine_materials(a, Material()).stiffness == 1e4
    for one, two in product((a, b, Material()), repeat=2):
        assert replace(combine_materials(one, two), name="") == replace(
            combine_materials(two, one), name=""
        )


@pytest.mark.parametrize(
    "wrong",
    [{"mu": -0.1}, {"e": 1.1}, {"mu": np.nan}, {"rolling": np.inf}, {"mu": 1.0, "mu_static": 0.5}],
)
def test_invalid_materials_are_rejected(wrong):
    with pytest.raises(ValueError, match="material 'x'"):
        Material("x", **wrong)


def test_invalid_material_pairs_and_coefficients_are_rejected():
    model = ball(name="steel")
    with pytest.raises(ValueError, match="unknown material 'ice' in `material_pairs`"):
        RigidContactPlant(model, material_pairs=(("steel", "ice", Material()),))
    with pytest.raises(ValueError, match="twice"):
        RigidContactPlant(model, material_pairs=(("steel", "steel", Material()),) * 2)
    with pytest.raises(TypeError, match="two names and a Material"):
        RigidContactPlant(model, material_pairs=(("steel", "steel"),))
    with pytest.raises(ValueError, match="mu_static must be at least mu"):
        RigidContactPlant(model, mu=0.5, mu_static=0.2)
    with pytest.raises(ValueError, match="rolling"):
        RigidContactPlant(model, rolling=-1.0)


def test_friction_parameters_of_a_plant_exist_only_if_they_are_used():
    names = [port.name for port in RigidContactPlant(ball()).parameters]
    assert names == ["gravity", "mu", "e"]
    names = [port.name for port in RigidContactPlant(ball(rolling=1.0), mu_static=1.0).parameters]
    assert names == ["gravity", "mu", "e", "mu_static", "rolling"]
