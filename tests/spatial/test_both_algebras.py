"""The laws that planar and spatial vectors share: every function is its matrix, and what is
physical does not depend on the frame (RBDA 2.8 to 2.16).
"""

from types import ModuleType
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose

from rigidblocks.algebra import planar, spatial

# elements are at most 3 in size, so products of three 3x3 factors stay below 1e3, of 6x6 factors
# below 1e4, and those with an articulated inertia L L^T too: a thousand roundings of those
ATOL_PLANAR, ATOL = 1e-10, 1e-9
TIGHT = 1e-12  # one product

elements = st.floats(-3, 3, allow_subnormal=False)
angles = st.floats(-np.pi, np.pi, allow_subnormal=False)
positive = st.floats(0.1, 3)
vec2, vec3 = (arrays(float, n, elements=elements) for n in (2, 3))
spread = arrays(float, (3, 3), elements=elements)
rotations = st.builds(
    lambda a, b, c: spatial.rz(a) @ spatial.ry(b) @ spatial.rx(c), angles, angles, angles
)


class Algebra(NamedTuple):
    """Planar or spatial vectors: their module, their tolerance, and random values of them."""

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
    # m > 0 and a rotational inertia about the centre of mass that some distribution L L^T has
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


def drawn(data, *strategies):
    return [data.draw(strategy) for strategy in strategies]


# RBDA Table 2.3


@both
@given(st.data())
def test_cross_products_are_their_matrices(algebra, data):
    u, v, m, f = drawn(data, *[algebra.vectors] * 4)
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
def test_cross_products_satisfy_jacobi(algebra, data):
    u, v = drawn(data, algebra.vectors, algebra.vectors)
    crm, crf, uxv = algebra.module.crm, algebra.module.crf, algebra.module.cross_motion(u, v)
    algebra.equal(crm(uxv), crm(u) @ crm(v) - crm(v) @ crm(u))
    algebra.equal(crf(uxv), crf(u) @ crf(v) - crf(v) @ crf(u))


@both
@given(st.data())
def test_cross_products_transform_with_their_operands(algebra, data):
    X, v = drawn(data, algebra.transforms, algebra.vectors)
    M, crm, crf = X.matrix(), algebra.module.crm, algebra.module.crf
    algebra.equal(crm(X @ v), M @ crm(v) @ np.linalg.inv(M))
    algebra.equal(crf(X @ v), np.linalg.inv(M).T @ crf(v) @ M.T)


# RBDA 2.8, Tables 2.2, A.4


@both
@given(st.data())
def test_transforms_compose_as_matrices(algebra, data):
    X, Y, m = drawn(data, algebra.transforms, algebra.transforms, algebra.columns)
    algebra.equal((X @ Y).matrix(), X.matrix() @ Y.matrix())
    algebra.equal(X @ m, X.matrix() @ m)
    algebra.equal(X @ m[:, 0], X.matrix() @ m[:, 0])
    algebra.equal(X @ (Y @ m), (X @ Y) @ m)


@both
@given(st.data())
def test_force_transform_is_the_inverse_transpose(algebra, data):
    X, f = drawn(data, algebra.transforms, algebra.columns)
    algebra.equal(X.force(f), np.linalg.inv(X.matrix()).T @ f)
    algebra.equal(X.T @ f, X.matrix().T @ f)
    algebra.equal(X.T @ X.force(f), f)
    algebra.equal(X.T @ X.force(f[:, 0]), f[:, 0])


@both
@given(st.data())
def test_inverse_undoes(algebra, data):
    X = data.draw(algebra.transforms)
    one = np.eye(len(X.matrix()))
    algebra.equal((X.inverse() @ X).matrix(), one)
    algebra.equal((X @ X.inverse()).matrix(), one)
    algebra.equal(X.inverse().inverse().matrix(), X.matrix())


@both
@given(st.data())
def test_power_is_invariant(algebra, data):
    X, m, f = drawn(data, algebra.transforms, algebra.vectors, algebra.vectors)
    algebra.equal((X @ m) @ X.force(f), m @ f)


# RBDA 2.13, 2.16, 7.1, Table A.4


@both
@given(st.data())
def test_rigid_inertia_is_its_matrix(algebra, data):
    a, b, v = drawn(data, algebra.inertias, algebra.inertias, algebra.columns)
    D = a.matrix()
    algebra.equal(D, D.T)
    algebra.equal(a @ v, D @ v)
    algebra.equal(a @ v[:, 0], D @ v[:, 0])
    algebra.equal((a + b).matrix(), D + b.matrix())
    algebra.equal(a.articulated().matrix(), D)
    algebra.equal(a.articulated() @ v, a @ v)


@both
@given(st.data())
def test_inertia_congruence_keeps_mass_and_definiteness(algebra, data):
    inertia, X = drawn(data, algebra.inertias, algebra.transforms)
    moved = inertia.to_parent(X)
    algebra.equal(moved.matrix(), X.matrix().T @ inertia.matrix() @ X.matrix())
    assert moved.m == inertia.m
    assert np.linalg.eigvalsh(moved.matrix())[0] > -algebra.atol
    algebra.equal(moved.articulated().matrix(), inertia.articulated().to_parent(X).matrix())


@both
@given(st.data())
def test_kinetic_energy_is_invariant(algebra, data):
    inertia, X, v = drawn(data, algebra.inertias, algebra.transforms, algebra.vectors)
    algebra.equal(v @ (inertia.to_parent(X) @ v), (X @ v) @ (inertia @ (X @ v)))


@both
@given(st.data())
def test_articulated_inertia_is_its_matrix(algebra, data):
    A, B, v = drawn(data, algebra.articulated, algebra.articulated, algebra.columns)
    X = data.draw(algebra.transforms)
    M = X.matrix()
    algebra.equal(A @ v, A.matrix() @ v)
    algebra.equal(A @ v[:, 0], A.matrix() @ v[:, 0])
    algebra.equal((A + B).matrix(), A.matrix() + B.matrix())
    algebra.equal((A - B).matrix(), A.matrix() - B.matrix())
    algebra.equal(A.to_parent(X).matrix(), M.T @ A.matrix() @ M, ATOL)


@both
@given(st.data())
def test_outer_is_the_symmetric_product(algebra, data):
    U, L = drawn(data, algebra.columns, spread)
    D = (L @ L.T)[:2, :2]
    algebra.equal(algebra.module.outer(U, U).matrix(), U @ U.T)
    algebra.equal(algebra.module.outer(U @ D, U).matrix(), U @ D @ U.T)


@both
@given(st.data())
def test_gyroscopic_force_does_no_work(algebra, data):
    inertia, v = drawn(data, algebra.inertias, algebra.vectors)
    algebra.equal(v @ algebra.module.cross_force(v, inertia @ v), 0.0)
