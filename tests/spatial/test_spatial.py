"""Spatial vectors compared with three-dimensional vectors and with the book.

`test_both_algebras.py` tests the identities that hold for both algebras.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose

from rigidblocks.common.arrays import is_frozen, read_only
from rigidblocks.spatial.spatial import (
    Factor,
    RigidInertia,
    cross,
    cross_force,
    mcI,
    rotx,
    roty,
    rotz,
    rx,
    ry,
    rz,
    skew,
    xlt,
)

# elements are at most 3, so products of up to three 6x6 factors stay below 1e4: a thousand
# rounding errors of such products
ATOL = 1e-9
TIGHT = 1e-12  # rounding error of one product

elements = st.floats(-3, 3, allow_subnormal=False)
angles = st.floats(-np.pi, np.pi, allow_subnormal=False)
vec3 = arrays(float, 3, elements=elements)
vec6 = arrays(float, 6, elements=elements)
rotations = st.builds(lambda a, b, c: rz(a) @ ry(b) @ rx(c), angles, angles, angles)
spread = arrays(float, (3, 3), elements=elements)
# m > 0 and a rotational inertia about the centre of mass of a mass distribution L L^T
rigid = st.builds(
    lambda m, c, L: mcI(m, c, np.trace(L @ L.T) * np.eye(3) - L @ L.T),
    st.floats(0.1, 3),
    vec3,
    spread,
)


def equal(actual, expected, atol=ATOL):
    assert_allclose(actual, expected, rtol=1e-12, atol=atol)


# RBDA Table 2.1


@given(vec3, vec3, rotations)
def test_skew_matrix_satisfies_the_cross_product_identities(a, b, E):
    equal(skew(a) @ b, np.cross(a, b), TIGHT)
    equal(cross(a, b), np.cross(a, b), TIGHT)
    equal(skew(a), -skew(a).T)
    equal(skew(E @ a), E @ skew(a) @ E.T)
    equal(skew(a + 2 * b), skew(a) + 2 * skew(b))
    equal(skew(a) @ b, -skew(b) @ a)
    equal(skew(np.cross(a, b)), skew(a) @ skew(b) - skew(b) @ skew(a))
    equal(skew(np.cross(a, b)), np.outer(b, a) - np.outer(a, b))
    equal(skew(a) @ skew(b), np.outer(b, a) - a @ b * np.eye(3))


@given(vec3, arrays(float, (3, 4), elements=elements))
def test_cross_product_with_a_matrix_applies_to_each_column(a, B):
    equal(cross(a, B), skew(a) @ B, TIGHT)


# RBDA 2.8, Tables 2.2, A.4


@given(angles)
def test_elementary_rotations_match_rbda(a):
    c, s = np.cos(a), np.sin(a)
    equal(rx(a), [[1, 0, 0], [0, c, s], [0, -s, c]])
    equal(ry(a), [[c, 0, -s], [0, 1, 0], [s, 0, c]])
    equal(rz(a), [[c, s, 0], [-s, c, 0], [0, 0, 1]])
    for X, E in ((rotx(a), rx(a)), (roty(a), ry(a)), (rotz(a), rz(a))):
        equal(X.matrix(), np.kron(np.eye(2), E))
        equal(X.E @ X.E.T, np.eye(3))


@given(elements, vec6)
def test_velocity_after_a_shift_along_x_matches_rbda_example_2_2(r, v):
    equal(xlt([r, 0, 0]) @ v, [v[0], v[1], v[2], v[3], v[4] + v[2] * r, v[5] - v[1] * r])


@given(vec6, vec3, vec3)
def test_velocity_field_does_not_depend_on_the_reference_point(v, shift, p):
    moved = xlt(shift) @ v
    equal(v[3:] + np.cross(v[:3], p), moved[3:] + np.cross(moved[:3], p - shift))


# RBDA 2.13, Table A.4


@pytest.mark.slow
@given(rigid, vec6, vec3, vec3)
def test_spatial_equation_of_motion_agrees_with_newton_euler_at_the_centre_of_mass(
    inertia, v, wd, acceleration
):
    # RBDA example 2.6: a frame at the centre of mass
    c = inertia.h / inertia.m
    central = inertia.transform_to_parent(xlt(-c))
    I_C, m, w = central.I, central.m, v[:3]
    a = np.concatenate(
        [wd, acceleration - np.cross(w, v[3:])]
    )  # spatial acceleration from the classical acceleration
    f = central @ a + cross_force(v, central @ v)
    equal(central.h, np.zeros(3))
    equal(f[:3], I_C @ wd + np.cross(w, I_C @ w))
    equal(f[3:], m * acceleration)


def test_rigid_inertia_satisfies_the_parallel_axis_theorem():
    m, c, I_C = 2.0, np.array([0.3, -0.2, 0.5]), np.diag([0.1, 0.2, 0.25])
    inertia = mcI(m, c, I_C)
    assert isinstance(inertia, RigidInertia)
    equal(inertia.I, I_C + m * (c @ c * np.eye(3) - np.outer(c, c)))
    equal(inertia.h, m * c)
    equal(
        inertia.transform_to_parent(xlt(-c)).matrix(),
        np.block([[I_C, np.zeros((3, 3))], [np.zeros((3, 3)), m * np.eye(3)]]),
    )


def test_read_only_view_of_writable_memory_is_not_treated_as_frozen():
    array, kept = np.eye(3), read_only(np.eye(3))
    view = array[0]
    view.setflags(write=False)
    assert is_frozen(1.0, kept, kept[0])
    assert not is_frozen(kept, array)
    assert not is_frozen(view)  # its base array is writable
    of_bytes = np.frombuffer(bytearray(8))
    of_bytes.setflags(write=False)
    assert not is_frozen(of_bytes)


@pytest.mark.parametrize("rotation", [rotx, roty, rotz])
@pytest.mark.parametrize("angle", [0.0, 0.4, -2.0, np.pi / 2])
def test_rotation_of_a_matrix_about_a_coordinate_axis_matches_the_matrix_product(
    rotation, angle, rng
):
    X = Factor.from_transform(rotation(angle))
    A = rng.uniform(-1.0, 1.0, (3, 3))
    assert_allclose(X.turn_back(A), X.E.T @ A @ X.E, rtol=0.0, atol=TIGHT)
    assert_allclose(X.turn_symmetric_back(A + A.T), X.E.T @ (A + A.T) @ X.E, rtol=0.0, atol=TIGHT)
