"""Chains of impacts within one step: each struck body hits the next one."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import rigid_scenes
from rigidblocks import Model, SixDoF, box_inertia, sphere_inertia
from rigidblocks.contact import PointContact, RigidContactPlant, impact, projected_sweeps
from rigidblocks.robot.shapes import Plane, PointSet, Sphere
from rigidblocks.spatial.spatial import identity

pytestmark = pytest.mark.slow


def velocities(x, v, e, h, T, mass=None, ground=()):
    """Return the velocities (steps, n, 3) of smooth balls of radius 0.1 without gravity.

    The balls start at the positions x (n, 3) with the velocities v (n, 3).
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
    assert y.sweeps_made.max() > 0  # impacts occur
    return y.qd.reshape(-1, n, 6)[..., 3:]  # smooth balls do not rotate


@pytest.mark.parametrize("law", ["newton", "poisson"])
@pytest.mark.parametrize("h", [1e-2, 1e-3])
@pytest.mark.parametrize("height", [0.1, 0.1005])
def test_elastic_impact_in_the_first_step_conserves_energy(law, h, height):
    model = Model("ball", (-1,), (SixDoF(),), (identity(),), (sphere_inertia(0.1, mass=1.0),),
                  contact=((Sphere(0.1),),))  # fmt: skip
    q0, qd0 = [1, 0, 0, 0, 0, 0, height], [0, 0, 0, 0, 0, -2.0]
    plant = RigidContactPlant(model, e=1.0, sample_time=h, q0=q0, qd0=qd0, restitution=law)
    y = rigid_scenes.run(plant, 10 * h)
    v = y.qd.reshape(-1, 6)[:, 5] - 0.5 * h * 9.81  # recorded velocities belong to midpoints
    energy = 0.5 * v**2 + 9.81 * (y.q.reshape(-1, 7)[:, 6] - height)
    assert v[0] > 1.8
    assert energy == pytest.approx(np.full(len(energy), 2.0), abs=1e-9)


@pytest.mark.parametrize("e", [1.0, 0.5])
def test_impact_propagates_through_a_row_of_balls(e):
    # the last of n balls has the speed ((1 + e) / 2)^(n - 1) of the first, by pairwise impacts
    gap, n = 1e-3, 6  # the ball crosses all five gaps within one step
    x = np.array([[k * (0.2 + gap), 0, 0] for k in range(n)])
    v = np.zeros((n, 3))
    v[0, 0] = 5.0
    found = velocities(x, v, e, 4e-3, 0.012)[-1, :, 0]
    assert found[-1] == pytest.approx(5.0 * ((1 + e) / 2) ** (n - 1), abs=1e-9)
    assert found.sum() == pytest.approx(5.0, abs=1e-12)
    if e == 1.0:
        assert found[:-1] == pytest.approx(np.zeros(n - 1), abs=1e-9)


def test_cloud_of_elastic_balls_conserves_energy_at_any_step_size():
    rng = np.random.default_rng(1)
    x = np.stack(np.meshgrid(*(np.arange(3) * 0.22,) * 3), axis=-1).reshape(-1, 3)
    x = x + rng.uniform(-0.005, 0.005, x.shape)
    v = -3.0 * (x - x.mean(axis=0)) + rng.normal(scale=0.3, size=x.shape)
    for h in (8e-3, 1e-3):
        found = velocities(x, v, 1.0, h, 0.4)
        energy = (found**2).sum(axis=(1, 2))
        assert energy == pytest.approx(np.full(len(energy), energy[0]), rel=1e-7)
        assert found.sum(axis=1) == pytest.approx(np.tile(v.sum(axis=0), (len(energy), 1)))
        assert np.abs(found[-1] - found[0]).max() > 0.5  # the balls collided


def test_all_31_impacts_of_galperins_billiard_are_resolved_in_one_step():
    # a mass ratio of 100 gives 31 impacts, the first digits of pi. With the initial velocities no
    # ball reaches the wall within the step
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
    """Return a block that falls on the given lower corners."""
    model = Model("block", (-1,), (SixDoF(),), (identity(),), (box_inertia(BLOCK, mass=2.0),),
                  contact=((PointSet(np.array(points)),),))  # fmt: skip
    q0 = [1, 0, 0, 0, 0, 0, 0.05]
    return RigidContactPlant(model, (Plane(),), q0=q0, qd0=v, **given)


@pytest.mark.parametrize("law", ["newton", "poisson"])
@pytest.mark.parametrize("corners", [1, 2, 3])
def test_single_impact_of_a_block_matches_the_dense_impact_algorithm(law, corners):
    # the step is so short that the block does not rotate; sweeps converge to 1e-8 of the speeds,
    # and sticking contacts have zero velocity half a step later
    rng, points = np.random.default_rng(corners), CORNERS[:corners]
    for mu, e in ((0.0, 0.5), (0.3, 0.9), (0.9, 0.4)):
        v = np.concatenate([3 * rng.normal(size=3), rng.normal(size=2), [-2.0]])
        plant = thrown_block(points, v, mu=mu, e=e, sample_time=1e-7, restitution=law)
        plant = replace(plant, model=replace(plant.model, gravity=np.zeros(3)))
        contacts = [PointContact(0, np.add(p, (0, 0, 0.05)), np.array([0, 0, 1.0]), mu=mu)
                    for p in points]  # fmt: skip
        solve = partial(projected_sweeps, sweeps=2000)
        hit = impact(plant.model, plant.q0, plant.qd0, contacts, e, law, solve)
        found = rigid_scenes.run(plant, 1e-7).qd[-1]
        assert found == pytest.approx(v + hit.dqd, abs=2e-5)
        assert np.abs(hit.dqd).max() > 1.0


def test_unknown_restitution_law_is_rejected():
    with pytest.raises(ValueError, match="unknown restitution law 'stronge'; expected newton, poi"):
        thrown_block(CORNERS, np.zeros(6), restitution="stronge")
