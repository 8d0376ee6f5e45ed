"""Impacts that follow each other within a step: what is struck strikes the next one."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import rigid_scenes
from rigidblocks import Model, SixDoF, box_inertia, sphere_inertia
from rigidblocks.algebra.spatial import identity
from rigidblocks.contact import PointContact, impact, projected_sweeps
from rigidblocks.library import RigidContactPlant
from rigidblocks.model.shapes import Plane, PointSet, Sphere

pytestmark = pytest.mark.slow


def velocities(x, v, e, h, T, mass=None, ground=()):
    """Those of smooth balls of radius 0.1 that start at x (n, 3) with v, without gravity (steps,
    n, 3).
    """
    n = len(x)
    inertias = tuple(sphere_inertia(0.1, mass=m) for m in (mass or np.ones(n)))
    model = Model("balls", (-1,) * n, (SixDoF(),) * n, (identity(),) * n, inertias,
                  contact=((Sphere(0.1),),) * n)  # fmt: skip
    q0 = np.hstack([np.tile([1.0, 0, 0, 0], (n, 1)), x]).ravel()
    qd0 = np.hstack([np.zeros((n, 3)), v]).ravel()
    plant = RigidContactPlant(replace(model, gravity=np.zeros(3)), ground, mu=0.0, e=e, q0=q0,
                              qd0=qd0, sample_time=h)  # fmt: skip
    y = rigid_scenes.run(plant, T)
    assert y.sweeps_made.max() > 0  # strikes are among them
    return y.qd.reshape(-1, n, 6)[..., 3:]  # smooth balls do not turn


@pytest.mark.parametrize("law", ["newton", "poisson"])
@pytest.mark.parametrize("h", [1e-2, 1e-3])
@pytest.mark.parametrize("height", [0.1, 0.1005])
def test_what_strikes_in_the_first_step_of_all_keeps_its_energy(law, h, height):
    model = Model("ball", (-1,), (SixDoF(),), (identity(),), (sphere_inertia(0.1, mass=1.0),),
                  contact=((Sphere(0.1),),))  # fmt: skip
    q0, qd0 = [1, 0, 0, 0, 0, 0, height], [0, 0, 0, 0, 0, -2.0]
    plant = RigidContactPlant(model, e=1.0, sample_time=h, q0=q0, qd0=qd0, law=law)
    y = rigid_scenes.run(plant, 10 * h)
    v = y.qd.reshape(-1, 6)[:, 5] - 0.5 * h * 9.81  # those that are kept are half a step old
    energy = 0.5 * v**2 + 9.81 * (y.q.reshape(-1, 7)[:, 6] - height)
    assert v[0] > 1.8
    assert energy == pytest.approx(np.full(len(energy), 2.0), abs=1e-9)


@pytest.mark.parametrize("e", [1.0, 0.5])
def test_a_row_of_balls_hands_the_blow_on(e):
    # pair by pair: of the last of n the speed is ((1 + e) / 2)^(n - 1) of the first's
    gap, n = 1e-3, 6  # one step goes through five gaps
    x = np.array([[k * (0.2 + gap), 0, 0] for k in range(n)])
    v = np.zeros((n, 3))
    v[0, 0] = 5.0
    found = velocities(x, v, e, 4e-3, 0.012)[-1, :, 0]
    assert found[-1] == pytest.approx(5.0 * ((1 + e) / 2) ** (n - 1), abs=1e-9)
    assert found.sum() == pytest.approx(5.0, abs=1e-12)
    if e == 1.0:
        assert found[:-1] == pytest.approx(np.zeros(n - 1), abs=1e-9)


def test_a_cloud_of_elastic_balls_keeps_its_energy_at_any_step():
    rng = np.random.default_rng(1)
    x = np.stack(np.meshgrid(*(np.arange(3) * 0.22,) * 3), axis=-1).reshape(-1, 3)
    x = x + rng.uniform(-0.005, 0.005, x.shape)
    v = -3.0 * (x - x.mean(axis=0)) + rng.normal(scale=0.3, size=x.shape)
    for h in (8e-3, 1e-3):
        found = velocities(x, v, 1.0, h, 0.4)
        energy = (found**2).sum(axis=(1, 2))
        assert energy == pytest.approx(np.full(len(energy), energy[0]), rel=1e-7)
        assert found.sum(axis=1) == pytest.approx(np.tile(v.sum(axis=0), (len(energy), 1)))
        assert np.abs(found[-1] - found[0]).max() > 0.5  # they met


def test_a_heavy_ball_drives_a_light_one_against_a_wall_pi_times_in_one_step():
    # Galperin's billiard: with masses as 100 to 1 there are 31 impacts, the digits of pi; the wall
    # is farther away than anything would come in the step with the speeds before it
    mass, v, impacts = (100.0, 1.0), [-10.0, 0.0], 0
    while v[0] < v[1] or v[1] < 0.0:
        if v[0] < v[1] and impacts % 2 == 0:
            middle = (mass[0] * v[0] + mass[1] * v[1]) / sum(mass)
            v = [2.0 * middle - one for one in v]
        else:
            v[1] = -v[1]
        impacts += 1
    assert impacts == 31
    x = np.array([[0.3085, 0, 0], [0.108, 0, 0]])
    start = np.array([[-10.0, 0, 0], [0, 0, 0]])
    found = velocities(x, start, 1.0, 1e-3, 2e-3, mass, (Plane((1, 0, 0)),))
    assert found[0, :, 0] == pytest.approx(v, rel=1e-9)


BLOCK, CORNERS = (0.3, 0.2, 0.1), [(0.15, -0.1, -0.05), (-0.15, 0.1, -0.05), (0.15, 0.1, -0.05)]


def thrown_block(points, v, **given):
    """A block that falls on those of its lower corners."""
    model = Model("block", (-1,), (SixDoF(),), (identity(),), (box_inertia(BLOCK, mass=2.0),),
                  contact=((PointSet(np.array(points)),),))  # fmt: skip
    q0 = [1, 0, 0, 0, 0, 0, 0.05]
    return RigidContactPlant(model, (Plane(),), q0=q0, qd0=v, **given)


@pytest.mark.parametrize("law", ["newton", "poisson"])
@pytest.mark.parametrize("corners", [1, 2, 3])
def test_one_strike_is_the_impact_of_the_dense_algorithm(law, corners):
    # of a step so short that nothing turns in it; sweeps end at 1e-8 of the speeds, and what sticks
    # has no velocity half a step later
    rng, points = np.random.default_rng(corners), CORNERS[:corners]
    for mu, e in ((0.0, 0.5), (0.3, 0.9), (0.9, 0.4)):
        v = np.concatenate([3 * rng.normal(size=3), rng.normal(size=2), [-2.0]])
        plant = thrown_block(points, v, mu=mu, e=e, sample_time=1e-7, law=law)
        plant = replace(plant, model=replace(plant.model, gravity=np.zeros(3)))
        contacts = [PointContact(0, np.add(p, (0, 0, 0.05)), np.array([0, 0, 1.0]), mu=mu)
                    for p in points]  # fmt: skip
        solve = partial(projected_sweeps, sweeps=2000)
        hit = impact(plant.model, plant.q0, plant.qd0, contacts, e, law, solve)
        found = rigid_scenes.run(plant, 1e-7).qd[-1]
        assert found == pytest.approx(v + hit.dqd, abs=2e-5)
        assert np.abs(hit.dqd).max() > 1.0


def test_a_law_of_restitution_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="no law of restitution 'stronge'; there are newton, poi"):
        thrown_block(CORNERS, np.zeros(6), law="stronge")
