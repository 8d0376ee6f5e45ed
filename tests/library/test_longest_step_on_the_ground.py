"""Longest stable step of ground contact with a robot, and divergence above this step."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from on_the_ground import M, free, lift, run, start_up
from rigidblocks.contact import Box, GroundContact, PointSet, stable_step
from rigidblocks.library import RobotPlant
from rigidblocks.robot.joints import Prismatic
from rigidblocks.robot.model import Model
from rigidblocks.spatial.spatial import RigidInertia, identity, mcI

G = 9.81


FORMS = {"with lead": {"lead": True}, "held": {"lead": False}, "continuous": None}


def step_of_the_wiring(K, D, dt, lead):
    """Return the step matrix (2, 2) of the displacement and the velocity / w0."""
    w0, force = np.sqrt(K / M), np.array([-K, -D - (K * dt / 2 if lead else 0)])
    moved = np.outer([dt**2 / (2 * M), dt / M / w0], force * [1, w0])
    return np.array([[1, dt * w0], [0, 1]]) + moved


def comes_nearer(states):
    apart = np.linalg.norm(states, axis=1)
    return apart[-16:].max() < apart[:16].max()


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("zeta", [0.1, 0.3, 0.7, 1.5])
def test_ground_contact_is_stable_below_and_unstable_above_the_longest_stable_step(zeta, form):
    K = 2e4
    D, w0, lead = 2 * zeta * np.sqrt(K * M), np.sqrt(K / M), bool(form and form["lead"])
    limit = stable_step(K, D, M, lead=lead)
    of_lead = 2 * (np.sqrt(1 + zeta**2) - zeta)
    assert limit * w0 == pytest.approx(of_lead if lead else min(4 * zeta, 1 / zeta))
    rest = -M * G / K
    for factor in (0.97, 1.03):
        dt = factor * limit
        ground = GroundContact(lift(), K, D, **({"sample_time": dt} | form if form else {}))
        plant = RobotPlant(lift(), [rest * (1 + 1e-8)], external_wrenches=True)
        with start_up(too_long=factor > 1):
            result = run(plant, ground, 48 * dt, dt)
        states = np.column_stack([result["robot.q"] - rest, result["robot.qd"]]) * [1, 1 / w0]
        A = step_of_the_wiring(K, D, dt, lead)
        assert_allclose(states[1:], states[:-1] @ A.T, rtol=0, atol=1e-6 * np.abs(states).max())
        assert (np.abs(np.linalg.eigvals(A)).max() < 1) == (factor < 1)
        assert comes_nearer(states) == (factor < 1)
        assert np.all(result["ground.in_contact"] == 1)


def cart():
    """Return a point mass on a horizontal slide on top of a vertical slide."""
    nothing = RigidInertia(0.0, np.zeros(3), np.zeros((3, 3)))
    return Model(
        "cart",
        (-1, 0),
        (Prismatic(), Prismatic((1.0, 0.0, 0.0))),
        (identity(), identity()),
        (nothing, mcI(M, [0, 0, 0], 0.01 * np.eye(3))),
        massless=("body1",),
        contact=((), (PointSet([[0.0, 0.0, 0.0]]),)),
    )


@pytest.mark.slow
@pytest.mark.parametrize("lead", [True, False])
def test_sticking_friction_is_unstable_only_above_the_predicted_step_size(lead):
    model = cart()  # the normal stiffness is low, so that its step limit is far away
    K, D, K_t, zeta = 1e4, 140.0, 8e4, 0.3
    D_t = 2 * zeta * np.sqrt(K_t * M)
    limit = stable_step(K_t, D_t, M, lead=True)
    assert limit < 0.8 * stable_step(K, D, M, lead=lead)
    for factor in (0.97, 1.03):
        dt = factor * limit
        ground = GroundContact(model, K, D, 1.0, K_t=K_t, D_t=D_t, sample_time=dt, lead=lead)
        assert (dt < ground.longest_step([0.0, 0.0])) == (factor < 1)
        plant = RobotPlant(model, [-M * G / K, 0.0], [0.0, 1e-8], external_wrenches=True)
        with start_up(too_long=factor > 1):
            speed = np.abs(run(plant, ground, 48 * dt, dt)["robot.qd"][:, 1])
        assert (speed[-8:].max() < 0.5 * speed[:8].max()) == (factor < 1)
        assert factor < 1 or speed[-8:].max() > 10 * speed[:8].max()


def test_longest_stable_step_of_a_point_mass_in_contact_matches_the_closed_form():
    for fields, lead in (
        ({}, False),
        ({"sample_time": 1e-3}, True),
        ({"sample_time": 1e-3, "lead": False}, False),
    ):
        ground = GroundContact(lift(), 2e4, 30.0, 0.5, K_t=3e4, D_t=50.0, **fields)
        normal, friction = (
            stable_step(2e4, 30.0, M, lead=lead),
            stable_step(3e4, 50.0, M, lead=True),
        )
        assert ground.longest_step([0.1]) == pytest.approx(min(normal, friction))
        assert replace(ground, mu=0.0).longest_step([0.1]) == pytest.approx(normal)


@pytest.mark.slow
def test_box_rests_with_steps_below_the_stability_limit_and_diverges_at_three_times_the_limit():
    sides = np.array([0.4, 0.3, 0.2])
    model = free(Box(sides), M / 12 * (sides @ sides - sides**2))
    K, D = 5e3, 60.0
    rest = [1, 0, 0, 0, 0, 0, 0.1 - M * G / (4 * K)]
    limit = GroundContact(model, K, D, 0.5).longest_step(rest)
    kick = [0.01, -0.02, 0.01, 0.005, 0.003, -0.002]
    speeds = {}
    for factor in (0.99, 3.0):
        dt = factor * limit
        ground = GroundContact(model, K, D, 0.5, sample_time=dt)
        with start_up(too_long=factor > 1):
            result = run(
                RobotPlant(model, rest, kick, external_wrenches=True), ground, 500 * dt, dt
            )
        speeds[factor] = np.abs(result["robot.qd"][-50:]).max()
    assert speeds[0.99] < 1e-3 * np.abs(kick).max()
    assert speeds[3.0] > np.abs(kick).max()
