"""Planar vectors are the rows and columns 3, 4, 5 of spatial ones. The laws that they share are in
test_both_algebras.
"""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose

from planar_models import PLANE, lifted
from rigidblocks.algebra import spatial
from rigidblocks.algebra.planar import (
    coriolis,
    crf,
    crm,
    cross_force,
    cross_motion,
    identity,
    mcI,
    perp,
    spin,
    uniform,
    xlt,
    xpln,
    zero,
)

# elements are at most 3 in size, so products of three 3x3 factors stay below 1e3: a thousand
# roundings
ATOL = 1e-10
TIGHT = 1e-12  # one product

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
def test_planar_cross_products_are_the_spatial_ones(v, m):
    equal(crm(v), spatial.crm(lifted(v))[PLANE], 0)
    equal(crf(v), spatial.crf(lifted(v))[PLANE], 0)
    equal(lifted(cross_motion(v, m)), spatial.cross_motion(lifted(v), lifted(m)))
    equal(lifted(cross_force(v, m)), spatial.cross_force(lifted(v), lifted(m)))


@given(angles, vec2)
def test_planar_transform_is_the_spatial_one(theta, r):
    X = spatial.rotz(theta) @ spatial.xlt([*r, 0])
    equal(xpln(theta, r).matrix(), X.matrix()[PLANE], TIGHT)
    equal((xpln(theta, [0, 0]) @ xpln(0, r)).matrix(), xpln(theta, r).matrix(), TIGHT)


@given(angles, vec2)
def test_planar_transform_is_the_formula_of_rbda_2_77(theta, r):
    c, s, (x, y) = np.cos(theta), np.sin(theta), r
    equal(
        xpln(theta, r).matrix(), [[1, 0, 0], [s * x - c * y, c, s], [c * x + s * y, -s, c]], TIGHT
    )


@given(positive, vec2, positive)
def test_planar_inertia_is_the_spatial_one(m, c, I_C):
    full = spatial.mcI(m, [*c, 0], np.diag([1.0, 1.0, I_C]))
    equal(mcI(m, c, I_C).matrix(), full.matrix()[PLANE], TIGHT)
    x, y = c
    equal(
        mcI(m, c, I_C).matrix(),
        [[I_C + m * (x**2 + y**2), -m * y, m * x], [-m * y, m, 0], [m * x, 0, m]],
        TIGHT,
    )


def test_zero_identity_and_uniform_field():
    equal(zero(), np.zeros(3))
    equal(identity().matrix(), np.eye(3))
    equal(uniform(np.array([1.0, -9.81])), [0, 1, -9.81])
    equal(xlt([1.0, 2.0]).matrix(), xpln(0.0, [1.0, 2.0]).matrix())
    equal(perp(np.array([1.0, 2.0])), [[-2], [1]])


@given(transforms, rigid, vec3, vec3)
def test_planar_accelerations_of_points_give_the_same_forces(X, inertia, v, a):
    # a as a planar acceleration is a classical one less P(vO) w, in A and in B coordinates (RBDA Eq
    # 2.49)
    classical = a + np.array([0, *(perp(v[1:]) @ v[:1])])
    carried, vB = X.carry(v, classical), X @ v
    equal(carried - [0, *(perp(vB[1:]) @ vB[:1])], X @ a)
    equal(inertia.force(v, classical), inertia @ a + cross_force(v, inertia @ v))


@given(vec3, vec3)
def test_planar_coriolis_term_is_that_of_the_spatial_algebra(v, vJ):
    equal(lifted(coriolis(v, vJ)), spatial.coriolis(lifted(v), lifted(vJ)))
    equal(
        spin(v[:1], vJ[:1]), spatial.spin(np.array([0, 0, v[0]]), np.array([0, 0, vJ[0]]))[:2, :2]
    )


@given(positive, positive, vec3, vec3)
def test_planar_equation_of_motion_is_newtons_and_eulers_at_the_centre_of_mass(m, I_C, v, a):
    inertia = mcI(m, np.zeros(2), I_C)
    n, fx, fy = inertia @ a + cross_force(v, inertia @ v)
    # the classical acceleration of the centre is a + w z x v
    equal(n, I_C * a[0])
    equal([fx, fy], m * np.array([a[1] - v[0] * v[2], a[2] + v[0] * v[1]]))
