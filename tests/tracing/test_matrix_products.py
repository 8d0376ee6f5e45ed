"""Loops in C for products with large constant matrices, and their derivatives."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks.spatial.scalar import LEAST_PRODUCT, matrix_product
from rigidblocks.tracing.ccode import c_function
from rigidblocks.tracing.compiled_functions import CompiledBatch, CompiledFunction
from rigidblocks.tracing.trace import adjoint, directional, jacobian, trace

RNG = np.random.default_rng(11)
W = RNG.normal(size=(37, 21))  # neither size is a multiple of the blocks of rows
FLOATS = RNG.normal(size=(19, 37)).astype(np.float32).astype(float)


def network(x):
    return {"y": matrix_product(FLOATS, np.tanh(matrix_product(W, x)))}


def slopes(x):
    """Return the Jacobian of the network in closed form."""
    return FLOATS @ np.diag(1.0 / np.cosh(W @ x) ** 2) @ W


def test_large_matrix_product_is_one_call_and_small_product_is_straight_line_code():
    assert trace("f", network, {"x": (21,)}).operations == {"call": 2, "tanh": 37}
    small = np.ones((2, LEAST_PRODUCT // 2 - 1))
    graph = trace("f", lambda x: {"y": matrix_product(small, x)}, {"x": small.shape[1:]})
    assert "call" not in graph.operations


def test_code_of_a_matrix_product_depends_on_the_matrix_only_through_its_table():
    graph = trace("f", lambda x: {"y": matrix_product(W, x)}, {"x": (21,)})
    text = c_function(graph)
    assert "matrix_product(W, 37, 21, x, y);" in text
    assert text.count(";") < 300  # 777 multiplications


@pytest.mark.slow
def test_compiled_matrix_products_and_their_derivatives_match_the_closed_form():
    x, v, w = RNG.normal(size=21), RNG.normal(size=21), RNG.normal(size=19)
    graph = trace("f", network, {"x": (21,)})
    tolerance = {"rtol": 1e-12, "atol": 1e-12}
    assert_allclose(CompiledFunction(graph)(x), FLOATS @ np.tanh(W @ x), **tolerance)
    forward = CompiledFunction(directional(graph, 1))(x, v[:, None])
    assert_allclose(forward[:, 0], slopes(x) @ v, **tolerance)
    assert_allclose(CompiledFunction(adjoint(graph))(x, w), slopes(x).T @ w, **tolerance)
    assert_allclose(CompiledFunction(jacobian(graph, "y", "x"))(x), slopes(x), **tolerance)
    hessian = CompiledFunction(jacobian(adjoint(graph), "slopes", "x"))(x, w)
    z = W @ x
    curvature = FLOATS.T @ w * -2.0 * np.tanh(z) / np.cosh(z) ** 2
    assert_allclose(hessian, W.T @ np.diag(curvature) @ W, **tolerance)


@pytest.mark.slow
def test_large_matrix_products_in_simd_lanes_match_the_closed_form():
    x = RNG.normal(size=(5, 21))
    graph = trace("f", network, {"x": (21,)})
    expected = np.tanh(x @ W.T) @ FLOATS.T
    assert_allclose(CompiledBatch(graph, lanes=2)(x), expected, rtol=1e-12, atol=1e-12)
