"""minimum, maximum and clip propagate a NaN of any argument, in NumPy and in C."""

import itertools

import numpy as np
import pytest

from rigidblocks.spatial.scalar import clip, maximum, minimum
from rigidblocks.tracing.compiled_functions import compile_function
from rigidblocks.tracing.trace import trace

FUNCTIONS = {"minimum": minimum, "maximum": maximum}


def both(a, b):
    return {name: function(a, b) for name, function in FUNCTIONS.items()}


def known(a):
    """Return minimum, maximum and clip with one constant argument."""
    return {
        "values": np.array(
            [minimum(a, 0.5), minimum(0.5, a), maximum(a, 0.5), maximum(0.5, a), clip(a, -1.0, 1.0)]
        )
    }


def test_minimum_and_maximum_of_traced_values_propagate_nan():
    function = compile_function("both", both, {"a": (), "b": ()})
    values = (np.nan, -1.0, 2.0, 0.0, np.inf)
    with np.errstate(invalid="ignore"):
        for a, b in itertools.product(values, values):
            found = [float(one) for one in function(a, b)]
            np.testing.assert_array_equal(found, [np.minimum(a, b), np.maximum(a, b)])


def test_clip_of_traced_values_with_traced_limits_propagates_nan():
    function = compile_function(
        "clipped", lambda x, l, u: {"y": clip(x, l, u)}, dict.fromkeys("xlu", ())
    )
    assert np.isnan(function(np.nan, -1.0, 1.0))
    assert [float(function(x, -1.0, 1.0)) for x in (-3.0, 0.5, 3.0)] == [-1.0, 0.5, 1.0]


@pytest.mark.parametrize("a", [np.nan, -3.0, 0.5, 0.7])
def test_minimum_maximum_and_clip_with_constant_limits_propagate_nan(a):
    function = compile_function("known", known, {"a": ()})
    np.testing.assert_array_equal(function(a), known(a)["values"])


def test_minimum_and_maximum_of_traced_values_are_one_operation_each():
    assert trace("both", both, {"a": (), "b": ()}).operation_count == 2
