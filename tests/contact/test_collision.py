"""Collisions of two bodies (RBDA 11.7): momentum, restitution and friction."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from random_models import random_inertia, random_transform
from rigidblocks.contact import (
    PointContact,
    collision,
    collision_with_friction,
    impact,
    projected_sweeps,
    pyramid_forces,
)
from rigidblocks.robot.joints import SixDoF
from rigidblocks.robot.model import Model
from rigidblocks.spatial.spatial import RigidInertia, identity, mcI

# rounding of some hundred products, and of solutions with condition numbers of some hundred
RTOL = 1e-10
UP = np.array([0.0, 0.0, 1.0])


def unit_forces(point, directions):
    """Return spatial unit forces (6, k) through a point along the columns of `directions`."""
    return np.vstack([np.cross(point, directions.T).T, directions])


def random_collision(rng):
    """Return two bodies with random poses in one frame that approach each other."""
    I1, I2 = (random_inertia(rng).transform_to_parent(random_transform(rng)) for _ in range(2))
    N = unit_forces(rng.uniform(-1, 1, 3), np.linalg.qr(rng.normal(size=(3, 3)))[0])
    v1, v2 = rng.normal(size=(2, 6))
    if N[:, 2] @ (v2 - v1) > 0:
        v1, v2 = v2, v1
    return I1, I2, v1, v2, N


def energy_of(I1, I2, v1, v2):
    return (v1 @ (I1 @ v1) + v2 @ (I2 @ v2)) / 2


# two bodies


def test_collision_is_perfectly_inelastic_by_default(rng):
    for _ in range(5):
        I1, I2, v1, v2, N = random_collision(rng)
        for dv1, dv2, _ in (
            collision(I1, I2, v1, v2, N[:, 2]),
            collision_with_friction(I1, I2, v1, v2, N, mu=0.0),
        ):
            apart = N[:, 2] @ (v2 + dv2 - v1 - dv1)
            assert abs(apart) < 1e-10 * abs(N[:, 2] @ (v2 - v1))


@pytest.mark.slow
def test_collision_conserves_momentum(rng):
    for _ in range(50):
        I1, I2, v1, v2, N = random_collision(rng)
        for dv1, dv2, lam in (
            collision(I1, I2, v1, v2, N[:, 2], 0.6),
            collision_with_friction(I1, I2, v1, v2, N, 0.6, 0.4),
        ):
            iota = N[:, 2] * lam if np.ndim(lam) == 0 else N @ lam
            assert_allclose(
                I1 @ dv1 + I2 @ dv2, np.zeros(6), rtol=0, atol=RTOL * np.abs(iota).max()
            )
            assert_allclose(I2 @ dv2, iota, rtol=0, atol=RTOL * np.abs(iota).max())


@pytest.mark.parametrize("e", [0.0, 0.3, 1.0])
def test_separation_velocity_and_energy_loss_match_the_analytic_solution(rng, e):
    # zeta+ = -e zeta; energy loss = (1 - e^2) zeta^2 / (2 n . (I1^-1 + I2^-1) n)
    for _ in range(50):
        I1, I2, v1, v2, N = random_collision(rng)
        n = N[:, 2]
        dv1, dv2, lam = collision(I1, I2, v1, v2, n, e)
        zeta, mobility = (
            n @ (v2 - v1),
            n @ (np.linalg.solve(I1.matrix(), n) + np.linalg.solve(I2.matrix(), n)),
        )
        assert_allclose(n @ (v2 + dv2 - v1 - dv1), -e * zeta, rtol=RTOL, atol=RTOL * abs(zeta))
        before, after = energy_of(I1, I2, v1, v2), energy_of(I1, I2, v1 + dv1, v2 + dv2)
        assert_allclose(
            before - after, (1 - e * e) * zeta**2 / (2 * mobility), rtol=0, atol=RTOL * before
        )
        assert_allclose(lam, -(1 + e) * zeta / mobility, rtol=RTOL)


def test_equal_spheres_swap_velocities_if_elastic_and_have_a_common_velocity_if_plastic():
    ball, n = mcI(2.0, np.zeros(3), np.eye(3)), np.array([0, 0, 0, 1.0, 0, 0])
    v1, v2 = np.array([0, 0, 0, 3.0, 0, 0]), np.array([0, 0, 0, -1.0, 0, 0])
    dv1, dv2, _ = collision(ball, ball, v1, v2, n, 1.0)
    assert_allclose([v1 + dv1, v2 + dv2], [v2, v1], rtol=1e-14, atol=1e-14)
    dv1, dv2, _ = collision(ball, ball, v1, v2, n, 0.0)
    assert_allclose([v1 + dv1, v2 + dv2], [n, n], rtol=1e-14, atol=1e-14)


def test_collision_function_does_not_change_the_velocities_of_separating_bodies(rng):
    I1, I2, v1, v2, N = random_collision(rng)
    for dv1, dv2, _ in (
        collision(I1, I2, v2, v1, N[:, 2], 0.5),
        collision_with_friction(I1, I2, v2, v1, N, 0.5, 0.5),
    ):
        assert not dv1.any()
        assert not dv2.any()


def test_collision_with_a_very_heavy_body_approaches_the_collision_with_a_fixed_body(rng):
    _, I2, v1, v2, N = random_collision(rng)
    heavy = RigidInertia(1e12, np.zeros(3), 1e12 * np.eye(3))
    for mu in (0.2, np.inf):
        with_heavy = collision_with_friction(heavy, I2, v1, v2, N, 0.5, mu)
        without = collision_with_friction(None, I2, v1, v2, N, 0.5, mu)
        assert_allclose(without.dv2, with_heavy.dv2, rtol=0, atol=1e-9 * np.abs(without.dv2).max())
        assert not without.dv1.any()


def test_infinite_friction_stops_sliding_if_the_friction_impulse_adds_no_energy(rng):
    # RBDA Eq 11.71, 11.72
    arrested = 0
    for i in range(200):
        I1, I2, v1, v2, N = random_collision(rng)
        if i % 2:  # a normal impulse would stop both bodies, so that friction can only add energy
            v1, v2 = np.linalg.solve(I1.matrix(), N[:, 2]), -np.linalg.solve(I2.matrix(), N[:, 2])
        dv1, dv2, lam = collision_with_friction(I1, I2, v1, v2, N, 0.4)
        zeta = N.T @ (v2 - v1)
        inverse = np.linalg.inv(I1.matrix()) + np.linalg.inv(I2.matrix())
        stick = -np.linalg.solve(N.T @ inverse @ N, np.array([1, 1, 1.4]) * zeta)
        gain = stick @ (zeta + N.T @ inverse @ N @ stick / 2)
        after = N.T @ (v2 + dv2 - v1 - dv1)
        assert_allclose(after[:2], np.zeros(2), rtol=0, atol=1e-9 * np.abs(zeta).max())
        if gain < 0:
            arrested += 1
            assert_allclose(lam, stick, rtol=0, atol=1e-9 * np.abs(stick).max())
            assert_allclose(after[2], -0.4 * zeta[2], rtol=1e-7)
    assert 0 < arrested < 200


@pytest.mark.slow
def test_collision_friction_impulse_is_within_the_friction_cone(rng):
    stuck = 0
    for _ in range(40):
        I1, I2, v1, v2, N = random_collision(rng)
        dv1, dv2, (x, y, z) = collision_with_friction(I1, I2, v1, v2, N, 0.3, 0.5)
        assert np.hypot(x, y) <= 0.5 * z * (1 + 1e-9)
        sliding = (N.T @ (v2 + dv2 - v1 - dv1))[:2]
        stuck += np.hypot(x, y) < 0.49 * z and np.hypot(*sliding) < 1e-9
    assert stuck


def test_friction_impulse_of_a_sliding_sphere_is_mu_times_the_normal_impulse():
    # the friction impulse is mu times the normal impulse of compression and restitution
    ball = mcI(1.0, np.zeros(3), 0.4 * 0.1**2 * np.eye(3))
    model = Model("ball", (-1,), (SixDoF(),), (identity(),), (ball,))
    q = np.array([1.0, 0, 0, 0, 0, 0, 0.1])
    qd, mu, e = np.array([0, 0, 0, 10.0, 0, -1.0]), 0.2, 0.5
    for law in ("newton", "poisson"):
        for solve in (pyramid_forces, projected_sweeps):
            hit = impact(model, q, qd, [PointContact(0, np.zeros(3), UP, mu=mu)], e, law, solve)
            assert_allclose(hit.impulse[0], [1.5, -0.3, 0.0], rtol=1e-9, atol=1e-9)
            assert_allclose(hit.dqd[3:], [-0.3, 0.0, 1.5], rtol=1e-9, atol=1e-9)


# invalid arguments


def test_invalid_collision_arguments_are_rejected(rng):
    I1, I2, v1, v2, N = random_collision(rng)
    nothing = RigidInertia(0.0, np.zeros(3), np.zeros((3, 3)))
    with pytest.raises(
        ValueError, match="the inertia of body 2 of a collision is not positive definite"
    ):
        collision(I1, nothing, v1, v2, N[:, 2])
    with pytest.raises(
        ValueError, match="must have a linear part of length 1; the linear parts are"
    ):
        collision(I1, I2, v1, v2, np.zeros(6))
    with pytest.raises(ValueError, match=r"need 6 rows, not shape \(3, 1\)"):
        collision(I1, I2, v1, v2, UP)
    with pytest.raises(ValueError, match=r"between 0 and 1, not 1\.5"):
        collision(I1, I2, v1, v2, N[:, 2], 1.5)
    with pytest.raises(ValueError, match="the inertia of one body or of both bodies"):
        collision(None, None, v1, v2, N[:, 2])
    with pytest.raises(ValueError, match="must be at least 0, not -1"):
        collision_with_friction(I1, I2, v1, v2, N, 0.5, -1.0)
