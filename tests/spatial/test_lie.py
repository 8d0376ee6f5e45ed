"""Lie group of rigid motions compared with power series, finite differences and Pinocchio."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import expm

from random_models import random_transform
from rigidblocks.robot.joints import SixDoF
from rigidblocks.spatial.rigid_motion import Ad, ad, dexp, displacement, dlog, exp, log
from rigidblocks.spatial.spatial import crm, cross_motion, identity
from rigidblocks.tracing.compiled_functions import compile_function

RTOL = 1e-14  # a few dozen rounding errors of values up to 10
ANGLES = (0.0, 1e-12, 1e-5, 1e-4, 1.1e-4, 0.3, 1.0, 3.0, np.pi)


def velocity(rng, angle):
    u = rng.normal(size=6)
    return np.concatenate([angle * u[:3] / np.linalg.norm(u[:3]), u[3:]])


@pytest.fixture(params=ANGLES)
def u(request, rng):
    return velocity(rng, request.param)


def test_exponential_of_a_velocity_equals_the_matrix_exponential(u):
    assert_allclose(exp(u).matrix(), expm(-crm(u)), atol=50 * RTOL)


def test_logarithm_of_a_transform_inverts_the_exponential_of_a_velocity(u):
    X = exp(log(exp(u)))
    assert_allclose(X.matrix(), exp(u).matrix(), atol=50 * RTOL)
    if np.linalg.norm(u[:3]) < 3.1:  # at half a turn both rotation directions are correct
        assert_allclose(log(exp(u)), u, atol=20 * RTOL)


def test_exponential_of_the_logarithm_of_a_transform_is_the_transform(rng):
    for _ in range(50):
        X = random_transform(rng)
        assert_allclose(exp(log(X)).matrix(), X.matrix(), atol=50 * RTOL)


def test_exponential_of_a_velocity_leaves_this_velocity_unchanged(u):
    assert_allclose(exp(u) @ u, u, atol=20 * RTOL)


def test_product_of_exponentials_of_parallel_velocities_is_the_exponential_of_their_sum(u):
    parts = exp(0.3 * u) @ exp(0.7 * u)
    assert_allclose(parts.matrix(), exp(u).matrix(), atol=20 * RTOL)


def test_displacement_between_two_frames_approximates_the_logarithm_of_their_transform(rng):
    # RBDA Table A.2: translations are exact, and the angular part is scaled by sin(theta)/theta
    u = velocity(rng, 0.2)
    assert_allclose(displacement(exp(u))[:3], u[:3] * np.sin(0.2) / 0.2, atol=RTOL)
    u[:3] = 0
    assert_allclose(displacement(exp(u)), log(exp(u)), atol=RTOL)


def test_adjoint_representation_is_a_homomorphism_with_derivative_ad(u, rng):
    # Spencer 2004, A.1.4: Ad of a product, ad as derivative, Ad ad Ad^-1 = ad of Ad, and Jacobi
    X, Y, w = random_transform(rng), exp(u), rng.normal(size=6)
    assert_allclose(Ad(X @ Y), Ad(Y) @ Ad(X), atol=50 * RTOL)
    assert_allclose(Ad(Y) @ Y.matrix(), np.eye(6), atol=50 * RTOL)
    assert_allclose(Ad(Y) @ ad(w) @ w, np.zeros(6), atol=50 * RTOL)
    moved = ad(Ad(Y) @ w) @ Ad(Y)
    assert_allclose(Ad(Y) @ ad(w), moved, atol=100 * RTOL)
    h = 1e-3
    slope = (Ad(exp(h * u)) - Ad(exp(-h * u))) / (2 * h)
    third = np.linalg.norm(ad(u)) ** 3 * h**2 / 6
    assert_allclose(slope, ad(u), atol=1e-12 + 2 * third)
    a, b = rng.normal(size=(2, 6))
    bracket = cross_motion(a, b)
    assert_allclose(ad(bracket), ad(a) @ ad(b) - ad(b) @ ad(a), atol=50 * RTOL)


def test_derivative_of_the_exponential_equals_the_power_series_of_the_adjoint(u):
    term = total = np.eye(6)
    for k in range(1, 60):
        term = -term @ ad(u) / (k + 1)
        total = total + term
    assert_allclose(dexp(u), total, atol=100 * RTOL)
    assert_allclose(dlog(u) @ dexp(u), np.eye(6), atol=1e3 * RTOL)


@pytest.mark.parametrize("angle", [1e-9, 0.5, 3.16, 3.17, 6.2, 20.0, 300.0])
def test_derivative_of_the_exponential_map_is_the_integral_of_the_transforms_along_the_screw(
    angle, rng
):
    # J = integral of matrix(exp(s u)) over s from 0 to 1
    u = velocity(rng, angle)
    nodes, weights = np.polynomial.legendre.leggauss(400)
    mean = sum(w / 2 * exp((x + 1) / 2 * u).matrix() for x, w in zip(nodes, weights, strict=True))
    assert_allclose(dexp(u), mean, atol=1e3 * RTOL)


def test_frame_velocity_is_dexp_times_the_derivative_of_the_exponential_coordinates(u, rng):
    rate, h = rng.normal(size=6), 1e-4
    ahead, back = exp(u + h * rate), exp(u - h * rate)
    seen = log(ahead @ back.inverse()) / (2 * h)
    assert_allclose(seen, dexp(u) @ rate, atol=1e-6)  # h^2


def test_integrate_and_difference_of_a_six_dof_joint_match_exponential_and_logarithm(rng):
    joint = SixDoF()
    q, u = joint.random(rng), velocity(rng, 1.0)
    X, moved = (joint.jcalc(k, np.zeros(6)).XJ for k in (q, joint.integrate(q, u)))
    assert_allclose(moved.matrix(), (exp(u) @ X).matrix(), atol=50 * RTOL)
    other = joint.random(rng)
    Y = joint.jcalc(other, np.zeros(6)).XJ
    assert_allclose(joint.difference(q, other), log(Y @ X.inverse()), atol=100 * RTOL)


def test_exponential_of_zero_velocity_is_the_identity_transform():
    assert np.array_equal(exp(np.zeros(6)).matrix(), identity().matrix())
    assert np.array_equal(log(identity()), np.zeros(6))
    assert np.array_equal(dexp(np.zeros(6)), np.eye(6))


@pytest.mark.slow
def test_lie_group_functions_have_equal_results_in_numpy_and_in_c(rng):
    def both(u):
        X = exp(u)
        return {"u": log(X), "J": dexp(u), "Ad": Ad(X)}

    u = velocity(rng, 0.8)
    for value, expected in zip(
        compile_function("lie", both, {"u": (6,)})(u), both(u).values(), strict=True
    ):
        assert_allclose(value, expected, atol=20 * RTOL)


@pytest.mark.interop
def test_exponential_logarithm_and_their_derivatives_match_pinocchio(u):
    pinocchio = pytest.importorskip("pinocchio")
    swap = np.r_[3:6, 0:3]  # linear before angular
    X, M = exp(u), pinocchio.exp6(u[swap])
    assert_allclose(X.E, M.rotation.T, atol=50 * RTOL)
    assert_allclose(X.r, M.translation, atol=50 * RTOL)
    if np.linalg.norm(u[:3]) < 3.1:
        assert_allclose(log(X)[swap], pinocchio.log6(M).vector, atol=1e3 * RTOL)
        # Pinocchio switches between two formulas with an error of 1e-13
        there = np.ix_(swap, swap)
        assert_allclose(dexp(u)[there], pinocchio.Jexp6(pinocchio.Motion(u[swap])), atol=1e-12)
        assert_allclose(dlog(u)[there], pinocchio.Jlog6(M), atol=1e-11)
