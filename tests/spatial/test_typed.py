"""Typed spatial quantities agree with arrays and reject undefined operations (RBDA A.3)."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose

from random_models import random_inertia, random_transform
from rigidblocks.spatial.spatial import crf, crm
from rigidblocks.spatial.typed_vectors import Coordinates, Force, Inertia, InverseInertia, Motion

RTOL = 1e-12  # a few dozen rounding errors of values up to 10; condition numbers up to 1e3


@pytest.fixture
def case(rng):
    inertia = random_inertia(rng)
    return {
        "v": Motion(rng.normal(size=6)),
        "a": Motion(rng.normal(size=6)),
        "f": Force(rng.normal(size=6)),
        "I": Inertia(inertia),
        "Phi": InverseInertia(inertia.inverse()),
        "X": Coordinates(random_transform(rng)),
    }


def test_equations_of_motion_with_typed_vectors_and_with_arrays_agree(case):
    v, a, I = case["v"], case["a"], case["I"]
    f, matrix = I @ a + v.cross(I @ v), I.rigid.matrix()
    expected = matrix @ a.array + crf(v.array) @ matrix @ v.array
    assert_allclose(f.array, expected, atol=RTOL)
    assert_allclose((I.inverse() @ (f - v.cross(I @ v))).array, a.array, atol=1e3 * RTOL)


def test_scalar_products_of_typed_vectors_do_not_depend_on_the_coordinates(case):
    v, f, X, I, Phi = (case[k] for k in ("v", "f", "X", "I", "Phi"))
    assert_allclose((X @ v).dot(X @ f), v.dot(f), atol=RTOL)
    assert_allclose((X @ f).dot(X @ v), f.dot(v), atol=RTOL)
    assert_allclose((X @ v).dot((X @ I) @ (X @ v)), v.dot(I @ v), atol=1e2 * RTOL)
    assert_allclose((X @ f).dot((X @ Phi) @ (X @ f)), f.dot(Phi @ f), rtol=1e2 * RTOL)


def test_change_of_coordinates_commutes_with_the_cross_product(case):
    v, a, f, X = (case[k] for k in ("v", "a", "f", "X"))
    assert_allclose((X @ v.cross(a)).array, (X @ v).cross(X @ a).array, atol=1e2 * RTOL)
    assert_allclose((X @ v.cross(f)).array, (X @ v).cross(X @ f).array, atol=1e2 * RTOL)
    assert_allclose((X.inverse() @ (X @ v)).array, v.array, atol=RTOL)
    assert_allclose(((X @ X) @ v).array, (X @ (X @ v)).array, atol=RTOL)
    assert_allclose(v.cross(a).array, crm(v.array) @ a.array, atol=RTOL)


def test_typed_vectors_support_linear_operations(case):
    v, a = case["v"], case["a"]
    assert_allclose((2 * v - a / 2 + -v).array, v.array - a.array / 2, atol=RTOL)
    assert_allclose((np.float64(2) * v).array, 2 * v.array)
    with pytest.raises(ValueError, match="read-only"):
        v.array[0] = 1.0


MEANING = {
    "plus": {("v", "v"), ("v", "a"), ("a", "v"), ("a", "a"), ("f", "f"), ("I", "I")},
    "matmul": {(x, y) for x, ys in {"I": "va", "X": "vafIX"}.items() for y in ys}
    | {("Phi", "f"), ("X", "Phi")},
    "cross": {("v", y) for y in "vaf"} | {("a", y) for y in "vaf"},
    "dot": {("v", "f"), ("a", "f"), ("f", "v"), ("f", "a")},
    "times": set(),
}
OPERATIONS = {
    "plus": lambda x, y: x + y,
    "matmul": lambda x, y: x @ y,
    "cross": lambda x, y: x.cross(y),
    "dot": lambda x, y: x.dot(y),
    "times": lambda x, y: x * y,
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_undefined_operations_of_typed_vectors_are_rejected(operation, case):
    for pair in product(case, repeat=2):
        x, y = (case[name] for name in pair)
        if pair in MEANING[operation]:
            OPERATIONS[operation](x, y)
        else:
            with pytest.raises((TypeError, AttributeError)):
                OPERATIONS[operation](x, y)


def test_errors_for_undefined_operations_of_typed_vectors_state_the_operand_types(case):
    v, f, I, X = (case[k] for k in ("v", "f", "I", "X"))
    with pytest.raises(TypeError, match="a motion plus a force is not defined; the other operand"):
        v + f
    with pytest.raises(TypeError, match="an inertia of a force is not defined"):
        I @ f
    with pytest.raises(
        TypeError, match=r"a force dot a force is not defined; .* two force vectors"
    ):
        f.dot(f)
    with pytest.raises(TypeError, match="a change of coordinates of a value of type ndarray"):
        X @ np.ones(6)
    with pytest.raises(TypeError, match="a motion plus a value of type ndarray"):
        v + np.ones(6)
    with pytest.raises(TypeError):
        np.ones(6) + v
    with pytest.raises(ValueError, match=r"a force must have 6 components, not shape \(3,\)"):
        Force([1, 2, 3])
