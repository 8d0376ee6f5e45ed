import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose

from exponentials import moved, planar_moved
from rigidblocks.spatial import planar
from rigidblocks.spatial.rigid_motion import (
    displacement,
    planar_displacement,
    rough_planar_displacement,
)
from rigidblocks.spatial.spatial import rotx, roty, rotz, xlt
from rigidblocks.tracing.trace import trace

ATOL = 1e-12  # products of three factors of at most 3: a few hundred rounding errors

elements = st.floats(-3, 3, allow_subnormal=False)
angles = st.floats(-np.pi, np.pi, allow_subnormal=False)
vec2 = arrays(float, 2, elements=elements)
vec3 = arrays(float, 3, elements=elements)
transforms = st.builds(
    lambda a, b, c, r: rotz(a) @ roty(b) @ rotx(c) @ xlt(r), angles, angles, angles, vec3
)
planar_transforms = st.builds(planar.xpln, angles, vec2)


def equal(actual, expected, atol=ATOL):
    assert_allclose(actual, expected, rtol=0, atol=atol)


@given(transforms)
def test_spatial_displacement_matches_the_formula_of_rbda_table_a_2(X):
    M = np.vstack([np.zeros(7), np.column_stack([np.zeros(6), X.matrix()])])  # indices start at 1
    pairs = [(2, 3, 3, 2), (3, 1, 1, 3), (1, 2, 2, 1), (5, 3, 6, 2), (6, 1, 4, 3), (4, 2, 5, 1)]
    equal(displacement(X), [(M[a, b] - M[c, d]) / 2 for a, b, c, d in pairs])


@given(planar_transforms)
def test_planar_displacement_matches_the_formula_of_rbda_table_a_1(X):
    M = np.vstack([np.zeros(4), np.column_stack([np.zeros(3), X.matrix()])])
    x21, x22, x23, x31 = M[2, 1], M[2, 2], M[2, 3], M[3, 1]
    equal(
        planar_displacement(X),
        [x23, (x31 + x22 * x31 + x23 * x21) / 2, (-x21 - x22 * x21 + x23 * x31) / 2],
    )
    equal(rough_planar_displacement(X), [x23, x31, -x21])


# examples of the spatial_v1 documentation


def test_displacement_of_small_motions_matches_the_spatial_v1_documentation():
    equal(displacement(xlt([1.0, 2.0, 3.0])), [0, 0, 0, 1, 2, 3], 0)
    equal(displacement(roty(0.01)), [0, 0.01, 0, 0, 0, 0], 0.01**3)
    equal(planar_displacement(planar.xpln(0.0, [1.0, 2.0])), [0, 1, 2], 0)
    equal(planar_displacement(planar.xpln(0.01, [0.0, 0.0])), [0.01, 0, 0], 0.01**3)


@given(vec3)
def test_displacement_of_a_pure_translation_is_exact(r):
    equal(displacement(xlt(r)), [0, 0, 0, *r], 0)
    for approximation in (planar_displacement, rough_planar_displacement):
        equal(approximation(planar.xlt(r[:2])), [0, *r[:2]], 0)


@given(transforms)
def test_displacement_vector_has_equal_components_in_both_frames(X):
    v = displacement(X)
    equal(X @ v, v)
    equal(X.inverse() @ v, v)


@given(planar_transforms)
def test_planar_displacement_vector_is_invariant_under_its_own_transform(X):
    v = planar_displacement(X)
    equal(X @ v, v)
    equal(X.inverse() @ v, v)


@given(transforms, planar_transforms)
def test_displacement_of_the_inverse_is_the_negative_displacement(X, Y):
    equal(displacement(X.inverse()), -displacement(X))
    equal(planar_displacement(Y.inverse()), -planar_displacement(Y))


@pytest.mark.parametrize("seed", range(5))
def test_error_of_the_displacement_between_two_frames_is_of_second_order_in_the_angle(seed):
    rng = np.random.default_rng(seed)
    u = rng.uniform(-1, 1, 6)
    errors = []
    for scale in (0.1, 0.01):
        turn = np.concatenate([scale * u[:3], u[3:]])
        errors.append(np.abs(displacement(moved(turn)) - turn).max())
    assert_allclose(errors[0] / errors[1], 100, rtol=0.1)


@pytest.mark.slow
@given(st.floats(0.01, 3.1), vec3, vec3)
def test_magnitude_of_the_angular_displacement_is_the_sine_of_the_angle(theta, axis, v):
    assume(axis @ axis > 1e-2)
    u = np.array([*(theta * axis / np.sqrt(axis @ axis)), *v])
    equal(
        displacement(moved(u))[:3], u[:3] * np.sin(theta) / theta, 1e-11
    )  # the rounding error of expm is larger than that of a product


def test_displacement_of_a_half_turn_is_zero():
    equal(displacement(rotx(np.pi)), np.zeros(6))
    equal(planar_displacement(planar.xpln(np.pi, [0.0, 0.0])), np.zeros(3))


@pytest.mark.slow
@given(st.floats(0.01, 1.5), vec2)
def test_motion_below_90_degrees_is_recovered_from_its_planar_displacement(theta, v):
    for u in (np.array([theta, *v]), np.array([-theta, *v])):
        X = planar_moved(u)
        s = X.E[0, 1]
        equal(planar_displacement(X) * np.arcsin(s) / s, u, 1e-10)


@pytest.mark.slow
@given(st.floats(1.7, 3.0), vec2)
def test_planar_displacement_of_more_than_90_degrees_gives_the_supplementary_angle(theta, v):
    X = planar_moved(np.array([theta, *v]))
    s = X.E[0, 1]
    equal((planar_displacement(X) * np.arcsin(s) / s)[0], np.pi - theta, 1e-10)


def test_non_invariant_planar_displacement_has_an_error_of_first_order_in_the_angle():
    # the error is of first order; the error of the invariant displacement is of second order
    v = np.array([0.7, -0.4])
    rough, good = [], []
    for theta in (0.1, 0.01):
        X, u = planar_moved(np.array([theta, *v])), np.array([theta, *v])
        rough.append(np.abs(rough_planar_displacement(X) - u).max())
        good.append(np.abs(planar_displacement(X) - u).max())
    assert_allclose(rough[0] / rough[1], 10, rtol=0.1)
    assert_allclose(good[0] / good[1], 100, rtol=0.1)


def test_traced_and_numpy_values_of_displacements_agree():
    def joint_displacements(q):
        return {
            "v": displacement(rotz(q[0]) @ rotx(q[1]) @ xlt(q[:3])),
            "p": planar_displacement(planar.xpln(q[0], q[1:])),
        }

    q = np.array([0.3, -0.2, 0.5])
    expected = joint_displacements(q)
    actual = trace("displacements", joint_displacements, {"q": (3,)})(q)
    equal(actual, np.concatenate([expected["v"], expected["p"]]))
