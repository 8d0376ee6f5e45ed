"""Projections onto the constraints of closed loops: there, once and for all, and nearest as the
inertia measures it.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from loop_models import LOOP_MODELS, loop_model
from rigidblocks.dynamics import crba, kinetic_energy
from rigidblocks.loops import (
    loop_constraints,
    position_constraints,
    project,
    project_energy,
    project_position,
    project_velocity,
)
from rigidblocks.mechanisms import five_bar
from rigidblocks.model.configuration import integrate

CLOSED = 1e-11  # rad, m: what two Newton steps leave of 1e-4
EXACT = 1e-12  # relative: rounding of a linear system


@pytest.fixture(params=LOOP_MODELS)
def opened(request, rng):
    """A model, a configuration that is 1e-5 off its constraints, and any velocity."""
    model, s = loop_model(request.param)
    return (
        model,
        integrate(model, s.q, 1e-5 * rng.uniform(-1, 1, model.nv)),
        rng.uniform(-1, 1, model.nv),
    )


def test_projected_state_is_on_the_constraints_and_stays_where_it_is(opened):
    model, q, qd = opened
    q1, qd1 = project(model, q, qd)
    K, _, delta = loop_constraints(model, q1, qd1)
    assert np.abs(delta).max() < CLOSED
    assert np.abs(K @ qd1).max() < CLOSED
    assert_allclose(project_position(model, q), q1, rtol=0, atol=0)
    q2, qd2 = project(model, q1, qd1)
    assert_allclose(q2, q1, rtol=0, atol=CLOSED)
    assert_allclose(qd2, qd1, rtol=0, atol=CLOSED)


def test_projected_velocity_is_the_nearest_in_the_metric_of_the_inertia(opened, rng):
    model, q, qd = opened
    q = project_position(model, q)
    nearest, K = project_velocity(model, q, qd), position_constraints(model, q).K
    change = crba(model, q) @ (nearest - qd)
    # H (v - qd) is a combination of constraints alone: it does no work on a motion that keeps them
    anything = rng.uniform(-1, 1, model.nv)
    motion = project_velocity(
        model, q, anything
    )  # nothing but rounding where the loops leave no motion
    assert np.abs(K @ motion).max() < CLOSED
    assert abs(change @ motion) <= EXACT * np.linalg.norm(change) * np.linalg.norm(anything)


def test_projection_onto_an_energy_has_it_and_keeps_the_loops_closed(opened):
    model, q, qd = opened
    q = project_position(model, q)
    qd = project_velocity(model, q, qd)
    T = kinetic_energy(model, q, qd)
    scaled = project_energy(qd, T, 2.0 * T)
    moves = np.linalg.matrix_rank(position_constraints(model, q).K, tol=1e-3) < model.nv
    assert_allclose(kinetic_energy(model, q, scaled), 2.0 * T if moves else T, rtol=EXACT)
    assert np.abs(position_constraints(model, q).K @ scaled).max() < CLOSED
    assert_allclose(project_energy(0.0 * qd, 0.0, 1.0), 0.0)


@pytest.mark.parametrize("angle", [1e-3, 1e-4, 1e-5, 1e-6])
def test_near_a_singular_pose_rounding_is_not_projected(angle):
    """All links of the five-bar are nearly in line: the constraints' smallest singular value is
    about `angle` of the largest, and a position error that rounding made would move the velocities
    by eps / angle^2.
    """
    mechanism = five_bar(np.pi - angle, angle)
    q, qd = project(mechanism.model, mechanism.q0, np.array([1.0, -2.0, 1.5, 0.5]))
    again_q, again_qd = project(mechanism.model, q, qd)
    s = np.linalg.svd(position_constraints(mechanism.model, q).K, compute_uv=False)
    assert s[1] < 10 * angle * s[0]
    assert_allclose(again_q, q, rtol=0, atol=np.finfo(float).eps)
    assert_allclose(again_qd, qd, rtol=0, atol=np.finfo(float).eps * 100 / angle)
