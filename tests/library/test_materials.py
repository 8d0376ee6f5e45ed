"""Materials of shapes, torsional and rolling friction, and tops: closed forms and published
motions.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose

import rigid_scenes
from rigidblocks import Model, SixDoF, cylinder_inertia, sphere_inertia
from rigidblocks.algebra.spatial import RigidInertia, identity
from rigidblocks.contact import Material, Plane, Sphere, combined
from rigidblocks.library import RigidContactPlant
from rigidblocks.model.shapes import Box, Cylinder

G, R = 9.81, 0.1


def bodies(*shapes_and_inertias):
    """Free bodies of (shapes, inertia) each."""
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
def test_a_spinning_ball_stops_after_its_angular_momentum_by_the_moment(mu):
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
def test_a_rolling_ball_stops_after_the_distance_of_rolling_friction():
    # (m r^2 + I) dw/dt = -c m g: a ball has 7/5 m r^2
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
def test_a_spinning_coin_is_braked_by_its_rim():
    # lying flat it is pressed at four points of its rim, at the radius r: moment mu m g r
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
def test_what_sticks_holds_until_it_is_pushed(push):
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
def test_each_shape_slides_as_its_material_says_and_pairs_as_they_are_said():
    # three boxes thrown along three strips: combined, of the pair, of the bodies
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
        pairs=(("floor", "b", Material(mu=0.5)),),
    )
    y = rigid_scenes.run(plant, 2.5)
    ways = [y.q[-1, 7 * k + 4] for k in range(3)]
    assert ways == pytest.approx([4 / (2 * mu * G) for mu in (0.2, 0.5, 0.3)], rel=3e-3)


def test_materials_combine_by_their_rules():
    a = Material("a", 0.4, 0.9, 0.5, 1e-3, 2e-3, 1e4, 10.0)
    b = Material("b", 0.1, None, 0.5, 3e-3, 0.0, 3e4, 90.0)
    both = combined(a, b)
    assert both.mu == pytest.approx(0.2)
    assert both.mu_static == pytest.approx(0.3)
    assert (both.torsional, both.rolling) == (3e-3, 2e-3)
    assert both.stiffness == pytest.approx(7.5e3)
    assert both.damping == pytest.approx(10 * 0.75**2 + 90 * 0.25**2)
    assert combined(a, Material()).stiffness == 1e4
    for one, two in product((a, b, Material()), repeat=2):
        assert replace(combined(one, two), name="") == replace(combined(two, one), name="")


@pytest.mark.parametrize(
    "wrong",
    [{"mu": -0.1}, {"e": 1.1}, {"mu": np.nan}, {"rolling": np.inf}, {"mu": 1.0, "mu_static": 0.5}],
)
def test_wrong_materials_are_refused(wrong):
    with pytest.raises(ValueError, match="material 'x'"):
        Material("x", **wrong)


def test_wrong_pairs_and_coefficients_are_refused():
    model = ball(name="steel")
    with pytest.raises(ValueError, match="'ice' in `pairs` is no material"):
        RigidContactPlant(model, pairs=(("steel", "ice", Material()),))
    with pytest.raises(ValueError, match="twice"):
        RigidContactPlant(model, pairs=(("steel", "steel", Material()),) * 2)
    with pytest.raises(TypeError, match="two names and the Material"):
        RigidContactPlant(model, pairs=(("steel", "steel"),))
    with pytest.raises(ValueError, match="what sticks"):
        RigidContactPlant(model, mu=0.5, mu_static=0.2)
    with pytest.raises(ValueError, match="rolling"):
        RigidContactPlant(model, rolling=-1.0)


def test_plain_friction_has_the_parameters_of_plain_friction():
    names = [port.name for port in RigidContactPlant(ball()).parameters]
    assert names == ["gravity", "mu", "e"]
    names = [port.name for port in RigidContactPlant(ball(rolling=1.0), mu_static=1.0).parameters]
    assert names == ["gravity", "mu", "e", "mu_static", "rolling"]
