import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose

from rigidblocks.spatial import (
    ArticulatedInertia,
    RigidInertia,
    Transform,
    crf,
    crm,
    cross,
    cross_force,
    cross_motion,
    mcI,
    outer,
    rotx,
    roty,
    rotz,
    rx,
    ry,
    rz,
    skew,
    xlt,
)

# elements are at most 3 in size, so products of up to three 6x6 factors stay below 1e4: a thousand roundings of those
ATOL = 1e-9
TIGHT = 1e-12  # one product

elements = st.floats(-3, 3, allow_subnormal=False)
angles = st.floats(-np.pi, np.pi, allow_subnormal=False)
vec3 = arrays(float, 3, elements=elements)
vec6 = arrays(float, 6, elements=elements)
columns = arrays(float, (6, 2), elements=elements)
rotations = st.builds(lambda a, b, c: rz(a) @ ry(b) @ rx(c), angles, angles, angles)
transforms = st.builds(Transform, rotations, vec3)
spread = arrays(float, (3, 3), elements=elements)
# m > 0 and a rotational inertia about the centre of mass that some mass distribution L L^T has
rigid = st.builds(lambda m, c, L: mcI(m, c, np.trace(L @ L.T) * np.eye(3) - L @ L.T), st.floats(0.1, 3), vec3, spread)
articulated = st.builds(
    lambda L: ArticulatedInertia((L @ L.T)[3:, 3:], (L @ L.T)[:3, 3:], (L @ L.T)[:3, :3]),
    arrays(float, (6, 6), elements=elements),
)


def equal(actual, expected, atol=ATOL):
    assert_allclose(actual, expected, rtol=1e-12, atol=atol)


# RBDA Table 2.1


@given(vec3, vec3, rotations)
def test_skew_is_the_cross_product(a, b, E):
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
def test_cross_takes_columns(a, B):
    equal(cross(a, B), skew(a) @ B, TIGHT)


# RBDA Table 2.3


@given(vec6, vec6, vec6, vec6)
def test_spatial_cross_products_are_their_matrices(u, v, m, f):
    equal(cross_motion(v, m), crm(v) @ m, TIGHT)
    equal(cross_force(v, f), crf(v) @ f, TIGHT)
    equal(crf(v), -crm(v).T)
    equal(crm(u + 2 * v), crm(u) + 2 * crm(v))
    equal(cross_motion(u, v), -cross_motion(v, u))
    equal(cross_motion(v, v), np.zeros(6))
    # (u x v) . f = -v . (u x* f)
    equal(cross_motion(u, v) @ f, -v @ cross_force(u, f))


@given(vec6, vec6)
def test_spatial_cross_products_satisfy_jacobi(u, v):
    uxv = cross_motion(u, v)
    equal(crm(uxv), crm(u) @ crm(v) - crm(v) @ crm(u))
    equal(crf(uxv), crf(u) @ crf(v) - crf(v) @ crf(u))


@given(transforms, vec6)
def test_cross_products_transform_with_their_operands(X, v):
    M = X.matrix()
    equal(crm(X @ v), M @ crm(v) @ np.linalg.inv(M))
    equal(crf(X @ v), np.linalg.inv(M).T @ crf(v) @ M.T)


# RBDA 2.8, Tables 2.2, A.4


@given(transforms, transforms, columns)
def test_transforms_compose_as_matrices(X, Y, m):
    equal((X @ Y).matrix(), X.matrix() @ Y.matrix())
    equal(X @ m, X.matrix() @ m)
    equal(X @ (Y @ m), (X @ Y) @ m)


@given(transforms, columns)
def test_force_transform_is_the_inverse_transpose(X, f):
    equal(X.force(f), np.linalg.inv(X.matrix()).T @ f)
    equal(X.T @ f, X.matrix().T @ f)
    equal(X.T @ X.force(f), f)


@given(transforms)
def test_inverse_undoes(X):
    equal((X.inverse() @ X).matrix(), np.eye(6))
    equal((X @ X.inverse()).matrix(), np.eye(6))
    equal(X.inverse().inverse().matrix(), X.matrix())


@given(transforms, vec6, vec6)
def test_power_is_invariant(X, m, f):
    equal((X @ m) @ X.force(f), m @ f)


@given(angles)
def test_elementary_transforms_follow_the_book(a):
    c, s = np.cos(a), np.sin(a)
    equal(rx(a), [[1, 0, 0], [0, c, s], [0, -s, c]])
    equal(ry(a), [[c, 0, -s], [0, 1, 0], [s, 0, c]])
    equal(rz(a), [[c, s, 0], [-s, c, 0], [0, 0, 1]])
    for X, E in ((rotx(a), rx(a)), (roty(a), ry(a)), (rotz(a), rz(a))):
        equal(X.matrix(), np.kron(np.eye(2), E))
        equal(X.E @ X.E.T, np.eye(3))


@given(elements, vec6)
def test_shifting_the_origin_along_x_changes_velocity_as_in_rbda_example_2_2(r, v):
    equal(xlt([r, 0, 0]) @ v, [v[0], v[1], v[2], v[3], v[4] + v[2] * r, v[5] - v[1] * r])


@given(vec6, vec3, vec3)
def test_velocity_field_does_not_depend_on_the_reference_point(v, shift, p):
    moved = xlt(shift) @ v
    equal(v[3:] + np.cross(v[:3], p), moved[3:] + np.cross(moved[:3], p - shift))


# RBDA 2.13, Table A.4


@given(rigid, transforms, columns)
def test_rigid_inertia_is_its_matrix(inertia, X, v):
    D, M = inertia.matrix(), X.matrix()
    equal(inertia @ v, D @ v)
    equal(D, D.T)
    equal((inertia + inertia.to_parent(X)).matrix(), D + M.T @ D @ M)
    equal(inertia.articulated().matrix(), D)
    equal(inertia.articulated() @ v, inertia @ v)


@given(rigid, transforms)
def test_inertia_congruence_keeps_mass_and_definiteness(inertia, X):
    moved = inertia.to_parent(X)
    equal(moved.matrix(), X.matrix().T @ inertia.matrix() @ X.matrix())
    assert moved.m == inertia.m
    assert np.linalg.eigvalsh(moved.matrix())[0] > -ATOL
    equal(moved.articulated().matrix(), inertia.articulated().to_parent(X).matrix())


@given(rigid, transforms, vec6)
def test_kinetic_energy_is_invariant(inertia, X, v):
    equal(v @ (inertia.to_parent(X) @ v), (X @ v) @ (inertia @ (X @ v)))


@given(articulated, articulated, transforms, columns)
def test_articulated_inertia_is_its_matrix(A, B, X, v):
    M = X.matrix()
    equal(A @ v, A.matrix() @ v)
    equal((A + B).matrix(), A.matrix() + B.matrix())
    equal((A - B).matrix(), A.matrix() - B.matrix())
    equal(A.to_parent(X).matrix(), M.T @ A.matrix() @ M)


@given(columns, spread)
def test_outer_is_the_symmetric_product(U, L):
    D = (L @ L.T)[:2, :2]
    equal(outer(U @ D, U).matrix(), U @ D @ U.T)


@given(rigid, vec6, vec3, vec3)
def test_spatial_equation_of_motion_is_newton_and_euler_at_the_centre_of_mass(inertia, v, wd, acceleration):
    # RBDA example 2.6: a frame at the centre of mass
    c = inertia.h / inertia.m
    central = inertia.to_parent(xlt(-c))
    I_C, m, w = central.I, central.m, v[:3]
    a = np.concatenate([wd, acceleration - np.cross(w, v[3:])])  # spatial from classical acceleration
    f = central @ a + cross_force(v, central @ v)
    equal(central.h, np.zeros(3))
    equal(f[:3], I_C @ wd + np.cross(w, I_C @ w))
    equal(f[3:], m * acceleration)


@given(rigid, vec6)
def test_gyroscopic_force_does_no_work(inertia, v):
    equal(v @ cross_force(v, inertia @ v), 0.0)


def test_mcI_satisfies_the_parallel_axis_theorem():
    m, c, I_C = 2.0, np.array([0.3, -0.2, 0.5]), np.diag([0.1, 0.2, 0.25])
    inertia = mcI(m, c, I_C)
    assert isinstance(inertia, RigidInertia)
    equal(inertia.I, I_C + m * (c @ c * np.eye(3) - np.outer(c, c)))
    equal(inertia.h, m * c)
    equal(inertia.to_parent(xlt(-c)).matrix(), np.block([[I_C, np.zeros((3, 3))], [np.zeros((3, 3)), m * np.eye(3)]]))
