"""The group of rigid motions: closed forms against the power series of the matrix, against
differences, and against Pinocchio.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import expm

from random_models import random_transform
from rigidblocks.algebra import lie
from rigidblocks.algebra.displacement import displacement
from rigidblocks.algebra.spatial import crm, cross_motion, identity
from rigidblocks.joint import SixDoF
from rigidblocks.tracing.function import compiled

RTOL = 1e-14  # a few dozen roundings of values up to 10
ANGLES = (0.0, 1e-12, 1e-5, 1e-4, 1.1e-4, 0.3, 1.0, 3.0, np.pi)


def velocity(rng, angle):
    u = rng.normal(size=6)
    return np.concatenate([angle * u[:3] / np.linalg.norm(u[:3]), u[3:]])


@pytest.fixture(params=ANGLES)
def u(request, rng):
    return velocity(rng, request.param)


def test_exp_is_the_power_series_of_the_matrix(u):
    assert_allclose(lie.exp(u).matrix(), expm(-crm(u)), atol=50 * RTOL)


def test_log_undoes_exp(u):
    X = lie.exp(lie.log(lie.exp(u)))
    assert_allclose(X.matrix(), lie.exp(u).matrix(), atol=50 * RTOL)
    if np.linalg.norm(u[:3]) < 3.1:  # at half a turn both senses are right
        assert_allclose(lie.log(lie.exp(u)), u, atol=20 * RTOL)


def test_exp_undoes_log_of_any_transform(rng):
    for _ in range(50):
        X = random_transform(rng)
        assert_allclose(lie.exp(lie.log(X)).matrix(), X.matrix(), atol=50 * RTOL)


def test_motion_is_the_same_in_both_frames(u):
    assert_allclose(lie.exp(u) @ u, u, atol=20 * RTOL)


def test_multiples_of_a_velocity_add(u):
    parts = lie.exp(0.3 * u) @ lie.exp(0.7 * u)
    assert_allclose(parts.matrix(), lie.exp(u).matrix(), atol=20 * RTOL)


def test_book_approximates_the_log(rng):
    # RBDA Table A.2: exact in translation, and the angular part is sin(theta)/theta of it
    u = velocity(rng, 0.2)
    assert_allclose(displacement(lie.exp(u))[:3], u[:3] * np.sin(0.2) / 0.2, atol=RTOL)
    u[:3] = 0
    assert_allclose(displacement(lie.exp(u)), lie.log(lie.exp(u)), atol=RTOL)


def test_laws_of_the_adjoint_representation(u, rng):
    # Spencer 2004, A.1.4: Ad of a product, ad as derivative, Ad ad Ad^-1 = ad of Ad, and Jacobi
    X, Y, w = random_transform(rng), lie.exp(u), rng.normal(size=6)
    assert_allclose(lie.Ad(X @ Y), lie.Ad(Y) @ lie.Ad(X), atol=50 * RTOL)
    assert_allclose(lie.Ad(Y) @ Y.matrix(), np.eye(6), atol=50 * RTOL)
    assert_allclose(lie.Ad(Y) @ lie.ad(w) @ w, np.zeros(6), atol=50 * RTOL)
    moved = lie.ad(lie.Ad(Y) @ w) @ lie.Ad(Y)
    assert_allclose(lie.Ad(Y) @ lie.ad(w), moved, atol=100 * RTOL)
    h = 1e-3
    slope = (lie.Ad(lie.exp(h * u)) - lie.Ad(lie.exp(-h * u))) / (2 * h)
    third = np.linalg.norm(lie.ad(u)) ** 3 * h**2 / 6
    assert_allclose(slope, lie.ad(u), atol=1e-12 + 2 * third)
    a, b = rng.normal(size=(2, 6))
    bracket = cross_motion(a, b)
    assert_allclose(lie.ad(bracket), lie.ad(a) @ lie.ad(b) - lie.ad(b) @ lie.ad(a), atol=50 * RTOL)


def test_dexp_is_the_series_of_powers_of_ad(u):
    term = total = np.eye(6)
    for k in range(1, 60):
        term = -term @ lie.ad(u) / (k + 1)
        total = total + term
    assert_allclose(lie.dexp(u), total, atol=100 * RTOL)
    assert_allclose(lie.dlog(u) @ lie.dexp(u), np.eye(6), atol=1e3 * RTOL)


@pytest.mark.parametrize("angle", [1e-9, 0.5, 3.16, 3.17, 6.2, 20.0, 300.0])
def test_dexp_is_the_mean_of_the_way_whatever_the_angle(angle, rng):
    # J = integral of matrix(exp(s u)) over s from 0 to 1
    u = velocity(rng, angle)
    nodes, weights = np.polynomial.legendre.leggauss(400)
    mean = sum(
        w / 2 * lie.exp((x + 1) / 2 * u).matrix() for x, w in zip(nodes, weights, strict=True)
    )
    assert_allclose(lie.dexp(u), mean, atol=1e3 * RTOL)


def test_frame_at_exp_moves_as_dexp_says(u, rng):
    rate, h = rng.normal(size=6), 1e-4
    ahead, back = lie.exp(u + h * rate), lie.exp(u - h * rate)
    seen = lie.log(ahead @ back.inverse()) / (2 * h)
    assert_allclose(seen, lie.dexp(u) @ rate, atol=1e-6)  # h^2


def test_free_joint_integrates_by_exp_and_differs_by_log(rng):
    joint = SixDoF()
    q, u = joint.random(rng), velocity(rng, 1.0)
    X, moved = (joint.jcalc(k, np.zeros(6)).XJ for k in (q, joint.integrate(q, u)))
    assert_allclose(moved.matrix(), (lie.exp(u) @ X).matrix(), atol=50 * RTOL)
    other = joint.random(rng)
    Y = joint.jcalc(other, np.zeros(6)).XJ
    assert_allclose(joint.difference(q, other), lie.log(Y @ X.inverse()), atol=100 * RTOL)


def test_zero_velocity_leaves_the_frame():
    assert np.array_equal(lie.exp(np.zeros(6)).matrix(), identity().matrix())
    assert np.array_equal(lie.log(identity()), np.zeros(6))
    assert np.array_equal(lie.dexp(np.zeros(6)), np.eye(6))


def test_everything_can_be_traced(rng):
    def both(u):
        X = lie.exp(u)
        return {"u": lie.log(X), "J": lie.dexp(u), "Ad": lie.Ad(X)}

    u = velocity(rng, 0.8)
    for value, expected in zip(
        compiled("lie", both, {"u": (6,)})(u), both(u).values(), strict=True
    ):
        assert_allclose(value, expected, atol=20 * RTOL)


@pytest.mark.interop
def test_group_is_that_of_pinocchio(u):
    pinocchio = pytest.importorskip("pinocchio")
    swap = np.r_[3:6, 0:3]  # linear before angular
    X, M = lie.exp(u), pinocchio.exp6(u[swap])
    assert_allclose(X.E, M.rotation.T, atol=50 * RTOL)
    assert_allclose(X.r, M.translation, atol=50 * RTOL)
    if np.linalg.norm(u[:3]) < 3.1:
        assert_allclose(lie.log(X)[swap], pinocchio.log6(M).vector, atol=1e3 * RTOL)
        # its own power series changes over with an error of 1e-13
        there = np.ix_(swap, swap)
        assert_allclose(lie.dexp(u)[there], pinocchio.Jexp6(pinocchio.Motion(u[swap])), atol=1e-12)
        assert_allclose(lie.dlog(u)[there], pinocchio.Jlog6(M), atol=1e-11)
