"""Gears in models with loops: reduced equations compared with the full equations.

The reduced equations do not contain the driven variables.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from loop_models import closed_state, with_loops
from random_models import random_tree
from rigidblocks.dynamics import bias_force, crba
from rigidblocks.dynamics.loops import (
    closed_loop_dynamics,
    loop_constraints,
    project,
    project_position,
)
from rigidblocks.dynamics.transmissions import (
    GearPair,
    ReflectedRotor,
    gear_constraints,
    transmissions,
)
from rigidblocks.robot.configuration import integrate, neutral
from rigidblocks.robot.joints import Prismatic, Revolute, SixDoF, Spherical

EXACT = 1e-9  # relative error of linear systems with condition numbers up to 1e5
PARENT = (-1, 0, 1, 2, 1, 0, 5, 6, 5, 2)
JOINTS = (SixDoF(), *(Prismatic() if k in (3, 8) else Revolute((0, 0.6, 0.8)) for k in range(9)))
DRIVES = {
    "leaf by its parent": [(9, 2)],
    "body that carries others, by a leaf": [(1, 4)],
    "other branch": [(3, 7)],
    "two by one": [(3, 2), (8, 2)],
    "chain of gears": [(4, 9), (9, 6), (8, 9)],
    "within the loop": [(2, 1)],
    "one of a loop by one outside": [(7, 8)],
}


@pytest.fixture(params=DRIVES)
def geared_model(request, rng):
    """Return a floating tree with loops, rotors and gears, and a state that satisfies them."""
    tree = random_tree(rng, PARENT, JOINTS)
    start = neutral(tree)
    model = with_loops(tree, start, [(Spherical(), 3, 7), (Spherical(), 4, 8)], rng)
    s = closed_state(model, start, rng)
    pairs = []
    for driven, by in DRIVES[request.param]:
        ratio = rng.uniform(0.5, 2.0)
        offset = s.q[driven + 6] - ratio * s.q[by + 6]
        pairs.append(GearPair(driven, by, ratio, offset))
    given = transmissions(model, [ReflectedRotor(2, inertia=0.01, ratio=30.0)], pairs)
    return model, given, s


def all_constraints(model, given, q, qd):
    """Return H, and the stacked K and k of loops and gears."""
    K, k, _ = loop_constraints(model, q, qd)
    Kg, _ = gear_constraints(model, given.driven, q)
    H = crba(model, q, given.rotor_inertia)
    return H, np.vstack([K, Kg]), np.concatenate([k, np.zeros(len(Kg))])


def test_accelerations_of_geared_loops_satisfy_the_constraints_of_gears_and_loops(
    geared_model, rng
):
    model, given, s = geared_model
    tau = rng.normal(size=model.nv)
    H, K, k = all_constraints(model, given, s.q, s.qd)
    qdd, lam, rank, _ = closed_loop_dynamics(model, s.q, s.qd, tau, transmissions=given)
    f = tau - bias_force(model, s.q, s.qd)
    free = np.linalg.solve(H, f)
    A = K @ np.linalg.solve(H, K.T)
    expected = free + np.linalg.solve(H, K.T @ np.linalg.solve(A, k - K @ free))
    size = np.abs(expected).max()
    assert_allclose(qdd, expected, rtol=0, atol=EXACT * size)
    assert_allclose(K.T @ lam, H @ qdd - f, rtol=0, atol=EXACT * np.abs(H @ qdd).max())
    assert rank == len(K)


def test_loop_solvers_give_equal_accelerations_if_gears_and_loops_are_stabilized(geared_model, rng):
    model, given, s = geared_model
    q = integrate(model, s.q, 1e-3 * rng.normal(size=model.nv))
    tau, T = rng.normal(size=model.nv), 0.1
    options = {"transmissions": given, "T_stab": T}
    qdd = closed_loop_dynamics(model, q, s.qd, tau, **options).qdd
    expected = closed_loop_dynamics(model, q, s.qd, tau, **options, method="kkt").qdd
    assert_allclose(qdd, expected, rtol=0, atol=EXACT * np.abs(expected).max())


def test_projected_velocity_is_the_nearest_velocity_that_satisfies_loops_and_gears(
    geared_model, rng
):
    model, given, s = geared_model
    H, K, _ = all_constraints(model, given, s.q, s.qd)
    qd = rng.normal(size=model.nv)
    A = K @ np.linalg.solve(H, K.T)
    expected = qd - np.linalg.solve(H, K.T @ np.linalg.solve(A, K @ qd))
    assert_allclose(project(model, s.q, qd, transmissions=given)[1], expected, rtol=0, atol=EXACT)


def test_projected_position_satisfies_loops_and_gears(geared_model, rng):
    model, given, s = geared_model
    q = integrate(model, s.q, 1e-5 * rng.normal(size=model.nv))
    q1, _ = project(model, q, s.qd, transmissions=given)
    assert np.abs(loop_constraints(model, q1, s.qd).delta).max() < 1e-10
    assert np.abs(gear_constraints(model, given.driven, q1)[1]).max() < 1e-14
    assert np.abs(q1 - project_position(model, q)).max() > 1e-8  # the gears change the result
