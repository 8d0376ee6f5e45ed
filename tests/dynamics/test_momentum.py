"""Momentum and centre of mass."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from random_models import MODELS, random_state
from rigidblocks.dynamics import (
    aba,
    body_poses,
    body_velocities,
    centre_of_mass,
    centre_of_mass_jacobian,
    centre_of_mass_velocity,
    centroidal_momentum,
    centroidal_momentum_matrix,
    crba_floating,
    kinetic_energy,
    momentum,
    momentum_matrix,
    potential_energy,
    total_mass,
)
from rigidblocks.robot.configuration import integrate

RTOL = 1e-12  # rounding errors of a few hundred products, relative to the largest element
# fourth-order differences with step 1e-3: truncation 3e-14 times the fifth derivative, at most
# (number of angles)^5
DIFFERENCE = 1e-7


def close(actual, expected, rtol=RTOL):
    assert_allclose(
        actual, expected, rtol=0, atol=rtol * max(1.0, np.max(np.abs(expected), initial=0))
    )


def rate(f, h=1e-3):
    """Return the derivative of f at 0, by fourth-order central differences."""
    return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)


def test_total_momentum_is_the_sum_of_the_body_momenta(model, rng):
    s = random_state(rng, model)
    moving = zip(
        body_poses(model, s.q), model.inertia, body_velocities(model, s.q, s.qd), strict=True
    )
    close(momentum(model, s.q, s.qd), sum(X.T @ (body @ v) for X, body, v in moving))


def test_momentum_is_linear_in_the_joint_velocities(model, rng):
    s = random_state(rng, model)
    close(momentum_matrix(model, s.q) @ s.qd, momentum(model, s.q, s.qd))
    close(centroidal_momentum_matrix(model, s.q) @ s.qd, centroidal_momentum(model, s.q, s.qd))


def test_velocity_of_the_centre_of_mass_is_the_time_derivative_of_its_position(model, rng):
    s = random_state(rng, model)
    velocity = centre_of_mass_velocity(model, s.q, s.qd)
    close(
        velocity, rate(lambda t: centre_of_mass(model, integrate(model, s.q, s.qd * t))), DIFFERENCE
    )
    close(centre_of_mass_jacobian(model, s.q) @ s.qd, velocity)


def test_potential_energy_equals_point_mass_energy_at_the_centre_of_mass(model, rng):
    q = random_state(rng, model).q
    close(potential_energy(model, q), -total_mass(model) * model.gravity @ centre_of_mass(model, q))


def test_momentum_about_the_origin_is_centroidal_momentum_plus_moment_of_linear_momentum(
    model, rng
):
    s = random_state(rng, model)
    h, h_G, c = (
        momentum(model, s.q, s.qd),
        centroidal_momentum(model, s.q, s.qd),
        centre_of_mass(model, s.q),
    )
    close(h_G[3:], total_mass(model) * centre_of_mass_velocity(model, s.q, s.qd))
    close(h[:3], h_G[:3] + np.cross(c, h_G[3:]))  # RBDA Eq 2.60


def test_kinetic_energy_is_not_less_than_the_energy_of_the_centre_of_mass(model, rng):
    s = random_state(rng, model)
    v = centre_of_mass_velocity(model, s.q, s.qd)
    assert kinetic_energy(model, s.q, s.qd) >= total_mass(model) * v @ v / 2


@pytest.fixture
def satellite():
    return MODELS["satellite"]()


def test_momentum_derivative_equals_the_sum_of_external_wrenches(satellite, rng):
    # in a free system gravity acts at the centre of mass for any joint forces
    s, g = random_state(rng, satellite), np.array([0.5, -2.0, 1.0])
    tau = np.concatenate([np.zeros(6), s.tau[6:]])
    qdd = aba(satellite, s.q, s.qd, tau, s.f_ext, g)
    h = rate(lambda t: momentum(satellite, integrate(satellite, s.q, s.qd * t), s.qd + qdd * t))
    weight = total_mass(satellite) * g
    expected = s.f_ext.sum(axis=0) + np.concatenate(
        [np.cross(centre_of_mass(satellite, s.q), weight), weight]
    )
    close(h, expected, DIFFERENCE)


def test_momentum_matrix_of_a_free_system_equals_its_floating_base_inertia(satellite, rng):
    # RBDA Example 9.3, with the base velocity in base body coordinates
    q = random_state(rng, satellite).q
    I0c, F, _ = crba_floating(satellite, q[7:])
    X = body_poses(satellite, q)[0]
    close(momentum_matrix(satellite, q), X.T @ np.hstack([I0c, F]))
