"""Identities that hold for both planar and spatial vectors.

Each operation equals the product with its matrix, and physical quantities do not depend on the
frame (RBDA 2.8 to 2.16).
"""

from types import ModuleType
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose

from rigidblocks.spatial import planar, spatial

# elements are at most 3, so products of three factors stay below 1e3 (3x3) or 1e4 (6x6, also with
# an articulated inertia L L^T): a thousand rounding errors of such products
ATOL_PLANAR, ATOL = 1e-10, 1e-9
TIGHT = 1e-12  # rounding error of one product

elements = st.floats(-3, 3, allow_subnormal=False)
angles = st.floats(-np.pi, np.pi, allow_subnormal=False)
positive = st.floats(0.1, 3)
vec2, vec3 = (arrays(float, n, elements=elements) for n in (2, 3))
spread = arrays(float, (3, 3), elements=elements)
rotations = st.builds(
    lambda a, b, c: spatial.rz(a) @ spatial.ry(b) @ spatial.rx(c), angles, angles, angles
)


class Algebra(NamedTuple):
    """Module, tolerance and random values of planar or spatial vectors."""

    module: ModuleType
    atol: float
    vectors: st.SearchStrategy
    columns: st.SearchStrategy
    transforms: st.SearchStrategy
    inertias: st.SearchStrategy
    articulated: st.SearchStrategy

    def equal(self, actual, expected, atol=None):
        assert_allclose(actual, expected, rtol=1e-12, atol=self.atol if atol is None else atol)


PLANAR = Algebra(
    planar,
    ATOL_PLANAR,
    vec3,
    arrays(float, (3, 2), elements=elements),
    st.builds(planar.xpln, angles, vec2),
    st.builds(planar.mcI, positive, vec2, positive),
    st.builds(
        lambda L: planar.ArticulatedInertia(
            (L @ L.T)[1:, 1:], (L @ L.T)[1:, :1], (L @ L.T)[:1, :1]
        ),
        arrays(float, (3, 3), elements=elements),
    ),
)
SPATIAL = Algebra(
    spatial,
    ATOL,
    arrays(float, 6, elements=elements),
    arrays(float, (6, 2), elements=elements),
    st.builds(spatial.Transform, rotations, vec3),
    # m > 0 and a rotational inertia about the centre of mass of a mass distribution L L^T
    st.builds(
        lambda m, c, L: spatial.mcI(m, c, np.trace(L @ L.T) * np.eye(3) - L @ L.T),
        positive,
        vec3,
        spread,
    ),
    st.builds(
        lambda L: spatial.ArticulatedInertia(
            (L @ L.T)[3:, 3:], (L @ L.T)[:3, 3:], (L @ L.T)[:3, :3]
        ),
        arrays(float, (6, 6), elements=elements),
    ),
)
both = pytest.mark.parametrize("algebra", [PLANAR, SPATIAL], ids=["planar", "spatial"])


def draw_values(data, *strategies):
    return [data.draw(strategy) for strategy in strategies]


# RBDA Table 2.3


@pytest.mark.slow
@both
@given(st.data())
def test_cross_products_equal_products_with_their_matrices(algebra, data):
    u, v, m, f = draw_values(data, *[algebra.vectors] * 4)
    crm, crf = algebra.module.crm, algebra.module.crf
    cross_motion, cross_force = algebra.module.cross_motion, algebra.module.cross_force
    algebra.equal(cross_motion(v, m), crm(v) @ m, TIGHT)
    algebra.equal(cross_force(v, f), crf(v) @ f, TIGHT)
    algebra.equal(crf(v), -crm(v).T)
    algebra.equal(crm(u + 2 * v), crm(u) + 2 * crm(v))
    algebra.equal(cross_motion(u, v), -cross_motion(v, u))
    algebra.equal(cross_motion(v, v), 0 * v)
    # (u x v) . f = -v . (u x* f)
    algebra.equal(cross_motion(u, v) @ f, -v @ cross_force(u, f))


@both
@given(st.data())
def test_cross_products_satisfy_the_jacobi_identity(algebra, data):
    u, v = draw_values(data, algebra.vectors, algebra.vectors)
    crm, crf, uxv = algebra.module.crm, algebra.module.crf, algebra.module.cross_motion(u, v)
    algebra.equal(crm(uxv), crm(u) @ crm(v) - crm(v) @ crm(u))
    algebra.equal(crf(uxv), crf(u) @ crf(v) - crf(v) @ crf(u))


@pytest.mark.slow
@both
@given(st.data())
def test_cross_product_matrix_of_a_transformed_vector_is_the_transformed_matrix(algebra, data):
    X, v = draw_values(data, algebra.transforms, algebra.vectors)
    M, crm, crf = X.matrix(), algebra.module.crm, algebra.module.crf
    algebra.equal(crm(X @ v), M @ crm(v) @ np.linalg.inv(M))
    algebra.equal(crf(X @ v), np.linalg.inv(M).T @ crf(v) @ M.T)


# RBDA 2.8, Tables 2.2, A.4


@pytest.mark.slow
@both
@given(st.data())
def test_matrix_of_a_composed_transform_is_the_matrix_product(algebra, data):
    X, Y, m = draw_values(data, algebra.transforms, algebra.transforms, algebra.columns)
    algebra.equal((X @ Y).matrix(), X.matrix() @ Y.matrix())
    algebra.equal(X @ m, X.matrix() @ m)
    algebra.equal(X @ m[:, 0], X.matrix() @ m[:, 0])
    algebra.equal(X @ (Y @ m), (X @ Y) @ m)


@pytest.mark.slow
@both
@given(st.data())
def test_force_transform_is_the_inverse_transpose_of_the_motion_transform(algebra, data):
    X, f = draw_values(data, algebra.transforms, algebra.columns)
    algebra.equal(X.force(f), np.linalg.inv(X.matrix()).T @ f)
    algebra.equal(X.T @ f, X.matrix().T @ f)
    algebra.equal(X.T @ X.force(f), f)
    algebra.equal(X.T @ X.force(f[:, 0]), f[:, 0])


@both
@given(st.data())
def test_inverse_transform_times_transform_is_the_identity(algebra, data):
    X = data.draw(algebra.transforms)
    one = np.eye(len(X.matrix()))
    algebra.equal((X.inverse() @ X).matrix(), one)
    algebra.equal((X @ X.inverse()).matrix(), one)
    algebra.equal(X.inverse().inverse().matrix(), X.matrix())


@both
@given(st.data())
def test_power_of_a_wrench_and_a_twist_does_not_depend_on_the_frame(algebra, data):
    X, m, f = draw_values(data, algebra.transforms, algebra.vectors, algebra.vectors)
    algebra.equal((X @ m) @ X.force(f), m @ f)


# RBDA 2.13, 2.16, 7.1, Table A.4


@pytest.mark.slow
@both
@given(st.data())
def test_rigid_body_inertia_operations_match_matrix_operations(algebra, data):
    a, b, v = draw_values(data, algebra.inertias, algebra.inertias, algebra.columns)
    D = a.matrix()
    algebra.equal(D, D.T)
    algebra.equal(a @ v, D @ v)
    algebra.equal(a @ v[:, 0], D @ v[:, 0])
    algebra.equal((a + b).matrix(), D + b.matrix())
    algebra.equal(a.articulated_inertia().matrix(), D)
    algebra.equal(a.articulated_inertia() @ v, a @ v)


@pytest.mark.slow
@both
@given(st.data())
def test_transform_of_an_inertia_preserves_mass_and_positive_definiteness(algebra, data):
    inertia, X = draw_values(data, algebra.inertias, algebra.transforms)
    moved = inertia.transform_to_parent(X)
    algebra.equal(moved.matrix(), X.matrix().T @ inertia.matrix() @ X.matrix())
    assert moved.m == inertia.m
    assert np.linalg.eigvalsh(moved.matrix())[0] > -algebra.atol
    algebra.equal(
        moved.articulated_inertia().matrix(),
        inertia.articulated_inertia().transform_to_parent(X).matrix(),
    )


@pytest.mark.slow
@both
@given(st.data())
def test_kinetic_energy_does_not_depend_on_the_frame(algebra, data):
    inertia, X, v = draw_values(data, algebra.inertias, algebra.transforms, algebra.vectors)
    algebra.equal(v @ (inertia.transform_to_parent(X) @ v), (X @ v) @ (inertia @ (X @ v)))


@pytest.mark.slow
@both
@given(st.data())
def test_articulated_inertia_operations_match_matrix_operations(algebra, data):
    A, B, v = draw_values(data, algebra.articulated, algebra.articulated, algebra.columns)
    X = data.draw(algebra.transforms)
    M = X.matrix()
    algebra.equal(A @ v, A.matrix() @ v)
    algebra.equal(A @ v[:, 0], A.matrix() @ v[:, 0])
    algebra.equal((A + B).matrix(), A.matrix() + B.matrix())
    algebra.equal((A - B).matrix(), A.matrix() - B.matrix())
    algebra.equal(A.transform_to_parent(X).matrix(), M.T @ A.matrix() @ M, ATOL)


@pytest.mark.slow
@both
@given(st.data())
def test_outer_product_of_columns_equals_the_matrix_product(algebra, data):
    U, L = draw_values(data, algebra.columns, spread)
    D = (L @ L.T)[:2, :2]
    algebra.equal(algebra.module.outer(U, U).matrix(), U @ U.T)
    algebra.equal(algebra.module.outer(U @ D, U).matrix(), U @ D @ U.T)


@both
@given(st.data())
def test_gyroscopic_force_does_no_work(algebra, data):
    inertia, v = draw_values(data, algebra.inertias, algebra.vectors)
    algebra.equal(v @ algebra.module.cross_force(v, inertia @ v), 0.0)
