"""Functions that a trace calls instead of repeating their operations, and their derivatives."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rigidblocks.common.compiler import APART, split_translation_units
from rigidblocks.tracing.ccode import c_function
from rigidblocks.tracing.compiled_functions import CompiledBatch, CompiledFunction
from rigidblocks.tracing.trace import adjoint, jacobian, trace

X = np.array([0.3, 0.5, -0.7])


def pendulum(x):
    return {"y": np.array([np.sin(x[0]) * x[1], x[1] ** 2 + x[0], 3.0 + 0.0 * x[0]])}


def graphs():
    """Return y = h(x_1, x_2)_1 h(x_2, x_3)_2 with h = g o g, with calls and without calls."""
    g = trace("g", pendulum, {"x": (2,)})

    def product(call):
        def h(x):
            return call(call(x)[:2])

        return lambda x: {"y": h(x[:2])[:1] * h(x[1:])[1:2]}

    inner = trace("h", lambda x: {"y": g.call(g.call(x)[:2])}, {"x": (2,)})
    called = trace(
        "f", lambda x: {"y": inner.call(x[:2])[:1] * inner.call(x[1:])[1:2]}, {"x": (3,)}
    )
    return called, trace("f", product(g), {"x": (3,)})


def test_code_contains_a_called_function_once():
    called, inlined = graphs()
    assert called.operations == {"call": 2, "mul": 1}
    assert inlined.operations["sin"] == 3  # the second factor needs only one
    assert c_function(called).count("sin(") == 1


def test_name_of_a_called_function_depends_on_its_operations_only():
    """Generated code therefore does not depend on the names in the source of the package."""

    def code(factor, name, variable):
        g = trace(name, lambda x: {"y": np.array([np.sin(x[0]) * factor])}, {variable: (1,)})
        return c_function(trace("f", lambda x: {"y": g.call(x)}, {"x": (1,)}))

    assert code(3.0, "g", "x") == code(3.0, "sine", "angle")
    assert code(3.0, "g", "x").split("(")[0] != code(3.5, "g", "x").split("(")[0]


def test_called_function_returns_the_same_bits_as_its_inlined_operations():
    called, inlined = graphs()
    assert_array_equal(called(X), inlined(X))
    (result,) = called(X)
    a, b = np.sin(np.sin(0.3) * 0.5) * (0.25 + 0.3), (0.49 + 0.5) ** 2 + np.sin(0.5) * -0.7
    assert result == pytest.approx(a * b, rel=1e-14)


def test_derivatives_of_a_called_function_equal_those_of_its_inlined_operations():
    called, inlined = graphs()
    slopes = jacobian(called, "y", "x")
    assert "sin" not in slopes.operations  # the Jacobian calls derivatives
    assert_allclose(slopes(X), jacobian(inlined, "y", "x")(X), rtol=1e-14)
    assert_allclose(adjoint(called)(np.append(X, 2.0)), 2.0 * slopes(X), rtol=1e-14)


@pytest.mark.slow
def test_compiled_calls_and_their_derivatives_equal_the_graph():
    called, _ = graphs()
    assert_array_equal(CompiledFunction(called)(X), called(X))
    assert_allclose(CompiledBatch(called, lanes=2)(X[None])[0], called(X), rtol=1e-14)
    slopes, curvature = (
        jacobian(called, "y", "x"),
        jacobian(adjoint(called), "slopes", "x"),
    )
    assert_allclose(CompiledFunction(slopes)(X).ravel(), slopes(X), rtol=1e-14)
    found = CompiledFunction(curvature)(X, np.ones(1))
    assert_allclose(found.ravel(), curvature(np.append(X, 1.0)), rtol=1e-13)
    assert_allclose(found, found.T, rtol=1e-13)


def test_function_that_calls_a_static_function_stays_in_its_translation_unit():
    """A function in another unit has no access to called functions, tables and products."""
    filler = "    v = 1.0;\n" * 6000
    for name in ("called", "entry", "product"):
        piece = f"{APART}static void p(double *v)\n{{\n    {name}_{'0' * 16}(v);\n{filler}}}\n"
        texts, units = split_translation_units({"a.c": f"{piece}{APART}static void q(double v)\n"
                                                f"{{\n{filler}}}\n"})  # fmt: skip
        assert units
        assert f"{name}_{'0' * 16}(" in texts["a.c"]
