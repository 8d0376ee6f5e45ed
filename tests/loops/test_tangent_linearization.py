"""Linearization of closed loops with quaternions and with a variable motion subspace S.

The references are finite differences, the recursions for constant S and known properties of the
eigenvalues.
"""

from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from loop_models import closed_state, loop_model, with_loops
from random_models import random_tree
from rigidblocks.dynamics import rnea
from rigidblocks.dynamics.loops import (
    closed_loop_dynamics,
    loop_linearization,
    position_constraints,
)
from rigidblocks.dynamics.loops.linearization import tangent_linearization
from rigidblocks.robot.configuration import difference, integrate_unchecked, random_configuration
from rigidblocks.robot.joints import (
    EulerSpherical,
    Prismatic,
    RackAndPinion,
    Revolute,
    RollingBall,
    SixDoF,
    Spherical,
    Universal,
)

# rounding error times the condition numbers of H and of the coordinates, about 1e3
SAME = 1e-9
STEP = 1e-4  # step of nested central differences
DIFFERENCES = 1e-5


def close(actual, expected, tolerance=SAME):
    assert_allclose(actual, expected, rtol=0, atol=tolerance * max(1.0, np.abs(expected).max()))


def bent_loop():
    """Return a loop of spherical, rack-and-pinion and Euler joints with a universal loop joint."""
    rng = np.random.default_rng(9)
    joints = (Spherical(), RackAndPinion(0.2), Revolute(), EulerSpherical(), Prismatic())
    model = random_tree(rng, (-1, 0, -1, 2, 3), joints)
    q = random_configuration(model, rng)
    model = with_loops(model, q, [(Universal(), 1, 4)], rng)
    return model, closed_state(model, q, rng)


def flying_loop():
    """Return a loop of spherical joints on a free body."""
    rng = np.random.default_rng(10)
    joints = (SixDoF(), Revolute((0.0, 1.0, 0.0)), Spherical(), Revolute())
    model = random_tree(rng, (-1, 0, 1, 0), joints)
    q = random_configuration(model, rng)
    model = with_loops(model, q, [(Spherical(), 2, 3)], rng)
    return model, closed_state(model, q, rng)


CASES = {
    "three loops": lambda: loop_model("three loops"),
    "bent loop": bent_loop,
    "flying loop": flying_loop,
}


def tangents(R, K):
    inverse = np.linalg.pinv(np.vstack([R, K]), rcond=1e-9)
    return inverse[:, : len(R)], inverse


def choices(model, q):
    """Return the best-conditioned selection of variables, and random combinations of variables."""
    K = position_constraints(model, q).K
    p = model.nv - np.linalg.matrix_rank(K, 1e-9)
    units = np.eye(model.nv)
    some = list(combinations(range(model.nv), p))[::7]
    best = max(
        some,
        key=lambda c: np.linalg.svd(np.vstack([units[list(c)], K]), compute_uv=False)[-1],
    )
    mixed = np.linalg.svd(K)[2][-p:] + 0.1 * np.random.default_rng(3).normal(size=(p, model.nv))
    return units[list(best)], mixed


def reduced_accelerations(model, q0, R, tau):
    """Return the accelerations of y, by finite differences, as a function of y and dy/dt."""

    def y_of(q):
        return R @ difference(model, q0, q)

    def rates(q):
        """Return the derivative of dy/dt with respect to qd, by finite differences."""
        h = 1e-6 * np.eye(model.nv)
        return np.array(
            [
                y_of(integrate_unchecked(model, q, d)) - y_of(integrate_unchecked(model, q, -d))
                for d in h
            ]
        )

    def accelerations(y, yd):
        q = q0
        for _ in range(8):
            K, _, delta = position_constraints(model, q)
            step = tangents(R, K)[1] @ np.concatenate([y_of(q) - y, delta])
            q = integrate_unchecked(model, q, -step)
        G, _ = tangents(rates(q).T / 2e-6, position_constraints(model, q).K)
        qd = G @ yd
        qdd = closed_loop_dynamics(model, q, qd, tau).qdd
        h = 1e-3
        ends = [integrate_unchecked(model, q, s * h * qd + h * h / 2 * qdd) for s in (1.0, -1.0)]
        return (y_of(ends[0]) + y_of(ends[1]) - 2.0 * y_of(q)) / (h * h)

    return accelerations


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "choice"), [("three loops", 0), ("bent loop", 1), ("flying loop", 1)]
)
def test_tangent_linearization_matches_finite_differences(name, choice):
    model, (q, qd, _, tau) = CASES[name]()
    R = choices(model, q)[choice]
    linear = loop_linearization(model, q, qd, tau, R)
    f, yd, p = reduced_accelerations(model, q, R, tau), R @ qd, len(R)
    still, steps = np.zeros(p), STEP * np.eye(p)
    A21 = np.stack([(f(h, yd) - f(-h, yd)) / (2 * STEP) for h in steps], axis=1)
    A22 = np.stack([(f(still, yd + h) - f(still, yd - h)) / (2 * STEP) for h in steps], axis=1)
    close(linear.A[:p], np.hstack([np.zeros((p, p)), np.eye(p)]))
    close(linear.A[p:, :p], A21, DIFFERENCES)
    close(linear.A[p:, p:], A22, DIFFERENCES)
    close(linear.residual, np.concatenate([yd, f(still, yd)]), DIFFERENCES)
    close(linear.G @ yd, qd)
    motions = [
        R @ (closed_loop_dynamics(model, q, qd, tau + unit).qdd
             - closed_loop_dynamics(model, q, qd, tau).qdd)
        for unit in np.eye(model.nv)
    ]  # fmt: skip
    close(linear.B[p:].T, np.array(motions), 1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bent loop", "flying loop"])
def test_eigenvalues_of_tangent_linearization_at_rest_do_not_depend_on_the_coordinates(name):
    model, (q, *_) = CASES[name]()
    still = np.zeros(model.nv)
    one, other = (
        loop_linearization(model, q, still, rnea(model, q, still, still), R).eigenvalues
        for R in choices(model, q)
    )
    size = np.abs(one).max()
    # the error of multiple eigenvalues is the square root of a rounding error
    assert max(np.abs(other - value).min() for value in one) < 1e-4 * size


@pytest.mark.parametrize("name", ["planar loops", "spatial four-bar"])
def test_general_linearization_of_loops_matches_the_recursion_for_constant_motion_subspaces(name):
    model, (q, qd, _, tau) = loop_model(name)
    joints = [0, 2, 5] if name == "planar loops" else [0]
    expected = loop_linearization(model, q, qd, tau, joints)
    R = np.eye(model.nv)[joints]
    for field, value in tangent_linearization(model, q, qd, tau, R)._asdict().items():
        close(value, getattr(expected, field), 1e-11)


def test_loop_linearization_rejects_rolling_joints():
    rng = np.random.default_rng(3)
    model = random_tree(rng, (-1, 0), (RollingBall(0.3), Revolute()))
    q = random_configuration(model, rng)
    model = with_loops(model, q, [(Spherical(), -1, 1)], rng)
    state = closed_state(model, q, rng)
    p = 4 - np.linalg.matrix_rank(position_constraints(model, state.q).K, 1e-9)
    with pytest.raises(
        ValueError, match=r"has 6 degrees of freedom in position but only 3 in velocity"
    ):
        loop_linearization(model, state.q, 0 * state.qd, np.zeros(4), np.eye(4)[:p])
