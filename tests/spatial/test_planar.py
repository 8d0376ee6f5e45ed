"""Planar vectors and matrices equal rows and columns 3, 4, 5 of spatial vectors and matrices.

`test_both_algebras.py` tests the identities that hold for both algebras.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose

from planar_models import PLANE, lifted
from rigidblocks.spatial import spatial
from rigidblocks.spatial.planar import (
    ArticulatedInertia,
    coriolis,
    crf,
    crm,
    cross_force,
    cross_motion,
    identity,
    mcI,
    perp,
    spin,
    uniform_field,
    xlt,
    xpln,
    zero,
)

# elements are at most 3, so products of three 3x3 factors stay below 1e3: a thousand rounding
# errors
ATOL = 1e-10
TIGHT = 1e-12  # rounding error of one product

elements = st.floats(-3, 3, allow_subnormal=False)
angles = st.floats(-np.pi, np.pi, allow_subnormal=False)
vec2 = arrays(float, 2, elements=elements)
vec3 = arrays(float, 3, elements=elements)
transforms = st.builds(xpln, angles, vec2)
positive = st.floats(0.1, 3)
rigid = st.builds(mcI, positive, vec2, positive)


def equal(actual, expected, atol=ATOL):
    assert_allclose(actual, expected, rtol=1e-12, atol=atol)


# RBDA 2.16: submatrices of spatial vectors


@given(vec3, vec3)
def test_planar_and_spatial_cross_products_agree(v, m):
    equal(crm(v), spatial.crm(lifted(v))[PLANE], 0)
    equal(crf(v), spatial.crf(lifted(v))[PLANE], 0)
    equal(lifted(cross_motion(v, m)), spatial.cross_motion(lifted(v), lifted(m)))
    equal(lifted(cross_force(v, m)), spatial.cross_force(lifted(v), lifted(m)))


@given(angles, vec2)
def test_planar_transform_is_a_submatrix_of_the_spatial_transform(theta, r):
    X = spatial.rotz(theta) @ spatial.xlt([*r, 0])
    equal(xpln(theta, r).matrix(), X.matrix()[PLANE], TIGHT)
    equal((xpln(theta, [0, 0]) @ xpln(0, r)).matrix(), xpln(theta, r).matrix(), TIGHT)


@given(angles, vec2)
def test_planar_transform_equals_the_formula_of_rbda_2_77(theta, r):
    c, s, (x, y) = np.cos(theta), np.sin(theta), r
    equal(
        xpln(theta, r).matrix(), [[1, 0, 0], [s * x - c * y, c, s], [c * x + s * y, -s, c]], TIGHT
    )


@given(positive, vec2, positive)
def test_planar_inertia_is_a_submatrix_of_the_spatial_inertia(m, c, I_C):
    full = spatial.mcI(m, [*c, 0], np.diag([1.0, 1.0, I_C]))
    equal(mcI(m, c, I_C).matrix(), full.matrix()[PLANE], TIGHT)
    x, y = c
    equal(
        mcI(m, c, I_C).matrix(),
        [[I_C + m * (x**2 + y**2), -m * y, m * x], [-m * y, m, 0], [m * x, 0, m]],
        TIGHT,
    )


def test_planar_zero_vector_identity_and_gravity_match_their_definitions():
    equal(zero(), np.zeros(3))
    equal(identity().matrix(), np.eye(3))
    equal(uniform_field(np.array([1.0, -9.81])), [0, 1, -9.81])
    equal(xlt([1.0, 2.0]).matrix(), xpln(0.0, [1.0, 2.0]).matrix())
    equal(perp(np.array([1.0, 2.0])), [[-2], [1]])


@given(transforms, rigid, vec3, vec3)
def test_classical_and_spatial_planar_accelerations_give_the_same_forces(X, inertia, v, a):
    # planar acceleration = classical acceleration - P(vO) w, in A and in B coordinates (RBDA Eq
    # 2.49)
    classical = a + np.array([0, *(perp(v[1:]) @ v[:1])])
    carried, vB = X.carry(v, classical), X @ v
    equal(carried - [0, *(perp(vB[1:]) @ vB[:1])], X @ a)
    equal(inertia.force(v, classical), inertia @ a + cross_force(v, inertia @ v))


@pytest.mark.slow
@given(vec3, vec3)
def test_coriolis_forces_in_planar_and_in_spatial_algebra_agree(v, vJ):
    equal(lifted(coriolis(v, vJ)), spatial.coriolis(lifted(v), lifted(vJ)))
    equal(
        spin(v[:1], vJ[:1]), spatial.spin(np.array([0, 0, v[0]]), np.array([0, 0, vJ[0]]))[:2, :2]
    )


@given(positive, positive, vec3, vec3)
def test_planar_equation_of_motion_agrees_with_newton_euler_at_the_centre_of_mass(m, I_C, v, a):
    inertia = mcI(m, np.zeros(2), I_C)
    n, fx, fy = inertia @ a + cross_force(v, inertia @ v)
    # the classical acceleration of the centre is a + w z x v
    equal(n, I_C * a[0])
    equal([fx, fy], m * np.array([a[1] - v[0] * v[2], a[2] + v[0] * v[1]]))


@given(transforms, arrays(float, (3, 3), elements=elements))
def test_planar_articulated_inertia_in_parent_coordinates_is_a_congruence_transform(X, A):
    """The inertia in A coordinates is X^T I^A X (RBDA 7.1)."""
    A = A + A.T
    inertia = ArticulatedInertia(A[1:, 1:], A[1:, :1], A[:1, :1]).transform_to_parent(X)
    found = inertia @ np.eye(3)
    matrix = X.matrix()
    assert_allclose(found, matrix.T @ A @ matrix, atol=ATOL * 1e2)
