"""Lookup tables match SciPy interpolation and their own slopes."""

import numpy as np
import pytest
import scipy.interpolate
from numpy.testing import assert_allclose

from rigidblocks import linearize
from rigidblocks.library import LookupTable
from signal_runs import value


def test_lookup_table_interpolates_linearly(rng):
    x, y = np.cumsum(rng.uniform(0.1, 1.0, 30)), rng.normal(size=30)
    u = np.concatenate([rng.uniform(-1, x[-1] + 1, 200), x])
    found = value(LookupTable(x, y, shape=len(u)), u=u)
    assert_allclose(found, np.interp(u, x, y), atol=1e-13)
    beyond = scipy.interpolate.interp1d(x, y, fill_value="extrapolate")(u)
    assert_allclose(value(LookupTable(x, y, "linear", len(u)), u=u), beyond, atol=1e-12)


def test_lookup_table_of_two_inputs_interpolates_bilinearly(rng):
    x1, x2 = np.cumsum(rng.uniform(0.1, 1.0, (2, 7)), axis=1)
    x2 = x2[:4]
    table = rng.normal(size=(7, 4))
    u1, u2 = rng.uniform(0.1, 3.0, (2, 300))
    held = np.clip(u1, x1[0], x1[-1]), np.clip(u2, x2[0], x2[-1])
    expected = scipy.interpolate.RegularGridInterpolator((x1, x2), table)(np.transpose(held))
    assert_allclose(
        value(LookupTable((x1, x2), table, shape=300), u1=u1, u2=u2), expected, atol=1e-12
    )


def test_linearization_of_a_lookup_table_has_the_slope_of_the_table():
    block = LookupTable((0.0, 1.0, 3.0), (0.0, 2.0, -2.0))
    slopes = [linearize(block, at={"u": u}).D[0, 0] for u in (0.5, 1.5, 2.9, -1.0, 4.0)]
    assert_allclose(slopes, [2.0, -2.0, -2.0, 0.0, 0.0], atol=1e-14)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (((0.0, 1.0), (1.0, 2.0, 3.0)), "expected x (k,) and values (k,)"),
        (((0.0, 0.0), (1.0, 2.0)), "the breakpoints of a lookup table must increase"),
        (((0.0,), (1.0,)), "at least 2 points along each axis"),
        (((0.0, 1.0), (1.0, np.nan)), "the values of a lookup table must be finite"),
        (((0.0, 1.0), (1.0, 2.0), "spline"), "must be hold or linear, not 'spline'"),
    ],
)
def test_invalid_lookup_table_is_rejected(arguments, said):
    with pytest.raises(ValueError, match=r".") as caught:
        LookupTable(*arguments)
    assert said in caught.value.args[0]
