"""Projections onto the loop constraints: closed loops, idempotence and smallest distance.

The inertia matrix is the metric of the distance.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from loop_models import LOOP_MODELS, loop_model
from rigidblocks.dynamics import crba, kinetic_energy, ltl
from rigidblocks.dynamics.loops import (
    loop_constraints,
    position_constraints,
    project,
    project_energy,
    project_position,
    project_velocity,
)
from rigidblocks.dynamics.loops.loop_dynamics import Geared
from rigidblocks.dynamics.transmissions import GearRelation, Transmissions
from rigidblocks.robot.configuration import integrate
from rigidblocks.robot.robots import five_bar, planar_n

CLOSED = 1e-11  # rad, m: residual of an error of 1e-4 after two Newton steps
EXACT = 1e-12  # relative rounding error of a linear system


@pytest.fixture(params=LOOP_MODELS)
def open_state(request, rng):
    """Return a model, a configuration with a constraint error of about 1e-5, and a velocity."""
    model, s = loop_model(request.param)
    return (
        model,
        integrate(model, s.q, 1e-5 * rng.uniform(-1, 1, model.nv)),
        rng.uniform(-1, 1, model.nv),
    )


def test_projected_state_satisfies_the_constraints_and_projection_is_idempotent(open_state):
    model, q, qd = open_state
    q1, qd1 = project(model, q, qd)
    K, _, delta = loop_constraints(model, q1, qd1)
    assert np.abs(delta).max() < CLOSED
    assert np.abs(K @ qd1).max() < CLOSED
    assert_allclose(project_position(model, q), q1, rtol=0, atol=0)
    q2, qd2 = project(model, q1, qd1)
    assert_allclose(q2, q1, rtol=0, atol=CLOSED)
    assert_allclose(qd2, qd1, rtol=0, atol=CLOSED)


def test_projected_velocity_is_the_nearest_admissible_velocity_in_the_inertia_metric(
    open_state, rng
):
    model, q, qd = open_state
    q = project_position(model, q)
    nearest, K = project_velocity(model, q, qd), position_constraints(model, q).K
    change = crba(model, q) @ (nearest - qd)
    # H (v - qd) is a combination of constraint forces, so it does no work in an admissible motion
    anything = rng.uniform(-1, 1, model.nv)
    motion = project_velocity(model, q, anything)  # rounding errors if the mobility is 0
    assert np.abs(K @ motion).max() < CLOSED
    assert abs(change @ motion) <= EXACT * np.linalg.norm(change) * np.linalg.norm(anything)


def test_energy_projection_sets_the_kinetic_energy_and_preserves_the_loop_constraints(open_state):
    model, q, qd = open_state
    q = project_position(model, q)
    qd = project_velocity(model, q, qd)
    T = kinetic_energy(model, q, qd)
    scaled = project_energy(qd, T, 2.0 * T)
    moves = np.linalg.matrix_rank(position_constraints(model, q).K, tol=1e-3) < model.nv
    assert_allclose(kinetic_energy(model, q, scaled), 2.0 * T if moves else T, rtol=EXACT)
    assert np.abs(position_constraints(model, q).K @ scaled).max() < CLOSED
    assert_allclose(project_energy(0.0 * qd, 0.0, 1.0), 0.0)


@pytest.mark.parametrize("angle", [1e-3, 1e-4, 1e-5, 1e-6])
def test_projection_near_a_singular_configuration_ignores_rounding_errors(angle):
    """All links of the five-bar are nearly collinear.

    The smallest singular value of the constraints is about `angle` times the largest. Projecting
    the rounding error of a position would change the velocities by eps / angle^2.
    """
    mechanism = five_bar(np.pi - angle, angle)
    q, qd = project(mechanism.model, mechanism.q0, np.array([1.0, -2.0, 1.5, 0.5]))
    again_q, again_qd = project(mechanism.model, q, qd)
    s = np.linalg.svd(position_constraints(mechanism.model, q).K, compute_uv=False)
    assert s[1] < 10 * angle * s[0]
    assert_allclose(again_q, q, rtol=0, atol=np.finfo(float).eps)
    assert_allclose(again_qd, qd, rtol=0, atol=np.finfo(float).eps * 100 / angle)


def test_factorization_of_the_inertia_of_a_geared_chain_reproduces_it(rng):
    """L^T L = G^T H G: the parent array omits no nonzero element of the right side."""
    chain = planar_n(4)
    relations = {3: GearRelation(driving=2, ratio=0.7, offset=0.0)}
    geared = Geared(chain, Transmissions(np.zeros(4), relations))
    H = crba(chain, rng.uniform(-1, 1, 4))
    reduced = geared.project_columns(geared.project_columns(H).T)
    L = ltl(reduced, geared.parent(chain))
    assert_allclose(np.tril(L).T @ np.tril(L), reduced, rtol=EXACT)
