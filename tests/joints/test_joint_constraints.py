"""Constraints of each loop joint type, compared with `jcalc` of that joint (RBDA 8.2, 8.3)."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from exponentials import moved, planar_moved
from loop_models import LOOP_JOINTS, PLANAR_LOOP_JOINTS
from random_models import random_transform
from rigidblocks.robot.joints import (
    Cylindrical,
    Fixed,
    Prismatic,
    RackAndPinion,
    Revolute,
    Spherical,
    Universal,
)
from rigidblocks.spatial import planar, spatial
from rigidblocks.spatial.linear_algebra import complement
from rigidblocks.spatial.planar import xpln
from rigidblocks.tracing.trace import trace

RTOL = 1e-12  # a few hundred rounding errors of values up to 10
DIFFERENCE = 1e-9  # fourth-order differences with step 1e-3 (test_joints)


@pytest.fixture(params=LOOP_JOINTS)
def joint(request):
    return LOOP_JOINTS[request.param]


def is_planar(joint):
    return joint in PLANAR_LOOP_JOINTS.values()


def size(joint):
    return 3 if is_planar(joint) else 6


def algebra(joint):
    return planar if is_planar(joint) else spatial


def displacement_transform(joint, u):
    return planar_moved(u) if is_planar(joint) else moved(u)


def elsewhere(joint, rng):
    return (
        xpln(rng.uniform(-1, 1), rng.uniform(-1, 1, 2))
        if is_planar(joint)
        else random_transform(rng)
    )


def still(joint, q):
    return joint.jcalc(q, np.zeros(joint.nv))


def equal(actual, expected, atol=RTOL):
    assert_allclose(
        np.asarray(actual, float),
        expected,
        rtol=0,
        atol=atol * max(1.0, np.max(np.abs(expected), initial=0)),
    )


def slope(f, h=1e-3):
    return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)


def test_constraint_force_subspace_is_the_orthogonal_complement_of_the_motion_subspace(joint, rng):
    q = joint.random(rng)
    T, S = joint.constraint_forces(q), still(joint, q).S
    equal(T.T @ S, np.zeros((size(joint) - joint.nv, joint.nv)))
    assert np.linalg.matrix_rank(np.hstack([T, S])) == size(joint)


def test_columns_of_the_constraint_force_subspace_have_nearly_unit_length(joint, rng):
    # otherwise the singular values of K would depend on the scale of the constraints
    T = joint.constraint(still(joint, joint.random(rng)).XJ, np.zeros(size(joint))).T
    norms = np.linalg.norm(T, axis=0)
    assert np.all((norms > 0.99) & (norms < 1.5))


def test_joint_constraint_error_is_zero_for_each_transform_that_the_joint_allows(joint, rng):
    XJ = still(joint, joint.random(rng)).XJ
    equal(joint.constraint(XJ, np.zeros(size(joint))).delta, np.zeros(size(joint) - joint.nv))


def test_constraint_error_is_the_constraint_jacobian_times_the_displacement_to_first_order(
    joint, rng
):
    # X = exp(-d x) XJ (RBDA Eq 8.25 to 8.27)
    q, d = joint.random(rng), rng.uniform(-1, 1, size(joint))
    T, XJ, scales, errors = (
        joint.constraint_forces(q),
        still(joint, q).XJ,
        np.array([1e-2, 3e-3, 1e-3]),
        [],
    )
    for scale in scales:
        delta = joint.constraint(
            displacement_transform(joint, scale * d) @ XJ, np.zeros(size(joint))
        ).delta
        errors.append(np.linalg.norm(delta - scale * T.T @ d))
    if max(errors) > 1e-13:  # the error is exact for some joints
        assert np.polyfit(np.log(scales), np.log(errors), 1)[0] > 1.9


def test_constraint_error_derivative_is_the_velocity_along_the_constraints(joint, rng):
    q, v = joint.random(rng), rng.uniform(-1, 1, size(joint))
    XJ = still(joint, q).XJ
    rate = slope(
        lambda t: (
            joint.constraint(displacement_transform(joint, t * v) @ XJ, np.zeros(size(joint))).delta
        )
    )
    equal(rate, joint.constraint(XJ, v).T.T @ v, DIFFERENCE)


def test_nearest_configuration_to_a_joint_transform_reproduces_the_transform(joint, rng):
    q = joint.random(rng)
    XJ = still(joint, q).XJ
    equal(still(joint, joint.nearest(XJ)).XJ.matrix(), XJ.matrix())
    equal(joint.closest(XJ).matrix(), XJ.matrix())
    equal(joint.difference(q, joint.nearest(XJ)), np.zeros(joint.nv))


def test_nearest_joint_transform_satisfies_the_constraints_of_the_joint(joint, rng):
    X = joint.closest(elsewhere(joint, rng))
    equal(joint.closest(X).matrix(), X.matrix())
    equal(joint.constraint(X, np.zeros(size(joint))).delta, np.zeros(size(joint) - joint.nv))


def test_joint_velocity_variables_are_recovered_from_the_spatial_joint_velocity(joint, rng):
    q, qd = joint.random(rng), rng.uniform(-2, 2, joint.nv)
    equal(joint.velocity(q, joint.jcalc(q, qd).vJ), qd)


def test_constraint_bias_equals_the_velocity_product_acceleration_of_the_joint(joint, rng):
    q, qd = joint.random(rng), rng.uniform(-2, 2, joint.nv)
    XJ, _, vJ, cJ = joint.jcalc(q, qd)
    equal(joint.constraint(XJ, vJ).c, cJ)


def test_constraint_forces_stay_orthogonal_to_a_moving_motion_subspace(joint, rng):
    # d(T^T S)/dt = 0: Tdot^T S qd = -T^T cJ, as k requires (RBDA Eq 3.41)
    q, qd = joint.random(rng), rng.uniform(-2, 2, joint.nv)
    _, _, vJ, cJ = joint.jcalc(q, qd)
    rate = slope(lambda t: joint.constraint_forces(joint.integrate(q, t * qd)).T @ vJ)
    equal(rate, -(joint.constraint_forces(q).T @ cJ), DIFFERENCE)


@pytest.mark.parametrize("name", LOOP_JOINTS)
def test_traced_and_numpy_values_of_joint_constraints_agree(name, rng):
    joint = LOOP_JOINTS[name]
    n = size(joint)
    X, v = (
        displacement_transform(joint, rng.uniform(-0.1, 0.1, n))
        @ still(joint, joint.random(rng)).XJ,
        rng.uniform(-1, 1, n),
    )
    Transform = algebra(joint).Transform

    def constraint(E, r, v):
        T, delta, c = joint.constraint(Transform(E, r), v)
        return {"T": T, "delta": delta, "c": c}

    graph = trace("constraint", constraint, {"E": X.E.shape, "r": X.r.shape, "v": v.shape})
    expected = np.concatenate([np.ravel(value) for value in constraint(X.E, X.r, v).values()])
    equal(graph(np.concatenate([X.E.ravel(), X.r, v])), expected)


# formulas of the book for axis z in terms of X (RBDA Table 8.1); rows are numbered from 1


def table_8_1(name, X):
    def x(i, j):
        return X[i - 1, j - 1]

    turned = [x(2, 3) - x(3, 2), x(3, 1) - x(1, 3), x(1, 2) - x(2, 1)]
    if name == "fixed":
        return np.array([*turned, x(5, 3) - x(6, 2), x(6, 1) - x(4, 3), x(4, 2) - x(5, 1)]) / 2
    if name == "revolute":
        return np.array(
            [x(2, 3), -x(1, 3), x(5, 3), -x(4, 3), x(4, 1) * x(2, 1) + x(4, 2) * x(2, 2)]
        )
    if name == "prismatic":
        return np.array([*(0.5 * t for t in turned), x(5, 3), -x(4, 3)])
    if name == "cylindrical":
        return np.array([x(2, 3), -x(1, 3), x(5, 3), -x(4, 3)])
    pairs = (5, 3), (6, 1), (4, 2)  # spherical: rows of the lower left block and of E
    return np.array([sum(x(a, k) * x(b, k) for k in (1, 2, 3)) for a, b in pairs])


BOOK = {
    "fixed": Fixed(),
    "revolute": Revolute(),
    "prismatic": Prismatic(),
    "cylindrical": Cylindrical(),
    "spherical": Spherical(),
}


@pytest.mark.parametrize("name", BOOK)
def test_constraint_error_matches_rbda_table_8_1_to_first_order(name, rng):
    joint = BOOK[name]
    XJ, d, scales = (
        still(joint, joint.random(rng)).XJ,
        rng.uniform(-1, 1, 6),
        np.array([1e-2, 3e-3, 1e-3]),
    )
    errors, deltas = [], []
    for scale in scales:
        X = moved(scale * d) @ XJ
        deltas.append(joint.constraint(X, np.zeros(6)).delta)
        errors.append(np.linalg.norm(deltas[-1] - table_8_1(name, X.matrix())))
    assert np.linalg.norm(deltas[0]) > 1e-3
    if max(errors) > 1e-13:
        assert np.polyfit(np.log(scales), np.log(errors), 1)[0] > 1.9


def test_orthogonal_complement_has_unit_columns_normal_to_the_columns_of_its_argument(rng):
    for k in range(7):
        S = rng.normal(size=(6, k))
        T = complement(S)
        assert T.shape == (6, 6 - k)
        equal(T.T @ S, np.zeros((6 - k, k)))
        equal(np.linalg.norm(T, axis=0), np.ones(6 - k))
        assert np.linalg.matrix_rank(T) == 6 - k


def test_nearest_angle_of_helical_and_rack_joints_includes_full_turns():
    for joint in (LOOP_JOINTS["helical z"], RackAndPinion(0.2)):
        for angle in (-20.0, 3.2, 100.0):
            equal(joint.nearest(still(joint, np.array([angle])).XJ), [angle])


def test_universal_joint_at_90_degrees_has_a_finite_constraint():
    # a second angle of 90 degrees is not a special case of the constraint
    joint = Universal()
    q = np.array([0.3, np.pi / 2])
    T, delta, _ = joint.constraint(still(joint, q).XJ, np.zeros(6))
    equal(T.T @ still(joint, q).S, np.zeros((4, 2)))
    equal(delta, np.zeros(4))
