"""Batched functions equal single calls, and lanes and threads do not change their results.

The members of a batch are independent, and sines are accurate to 1 ulp.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rigidblocks import select
from rigidblocks.spatial.piecewise_lookup import count_at_most, entry
from rigidblocks.spatial.scalar import clip, less, maximum, minimum
from rigidblocks.tracing.compiled_functions import (
    LANES,
    compile_function,
    lane_flags,
    run_in_threads,
    widest,
)

RTOL = 1e-14  # two sines within 1 ulp each, and further operations
GRID = np.array([-1.0, 0.0, 0.5, 2.0])


def apply_all_operations(x, y):
    """Return the results of every operation that a trace supports, for x (2,) and a scalar y."""
    a, b = x
    waves = [np.sin(a), np.cos(a), np.sin(b), np.cos(y), np.tan(a)]
    roots = [np.sqrt(abs(a)), np.exp(-b), np.log(abs(b) + 1.0), abs(a) ** 1.5, np.tanh(y)]
    arcs = [np.arctan2(a, b), np.arctan(y), np.arcsin(a / 1e3), np.arccos(b / 1e3)]
    chosen = [
        select(less(a, b), a, y),
        select((a <= b) & (y > 0.0), 1.0, b),
        select((a == b) | ~(y != 0.0), 2.0, -a),
        minimum(a, b),
        maximum(a, y),
        clip(y, -1.0, 1.0),
    ]
    steps = [np.floor(a), np.floor(-y), entry(GRID, y), count_at_most(GRID, a)]
    quotients = [a / b, y / b, 1.0 / y, -a, a * a, b + b]
    return {"out": np.array([*waves, *roots, *arcs, *chosen, *steps, *quotients]), "x": 2.0 * x}


@pytest.fixture(scope="module")
def forms():
    """Return the scalar form, and the batched forms by number of lanes."""
    shapes = {"x": (2,), "y": ()}
    batches = {
        n: compile_function("everything", apply_all_operations, shapes, batch=True, lanes=n)
        for n in LANES
    }
    return compile_function("everything", apply_all_operations, shapes), batches


def arguments(rng, n):
    return rng.normal(scale=3.0, size=(n, 2)), rng.normal(scale=3.0, size=n)


@pytest.mark.slow
@pytest.mark.parametrize("n", [0, 1, 3, 8, 1027])
def test_batched_calls_match_single_calls_for_any_number_of_lanes_and_threads(n, forms, rng):
    scalar, batches = forms
    x, y = arguments(rng, n)
    wide = batches[8](x, y)
    for batch in batches.values():
        for threads in (1, 3):
            for one, other in zip(batch(x, y, threads=threads), wide, strict=True):
                assert_array_equal(one, other)
    assert wide[0].shape == (n, 30)
    for k in range(n):
        for one, other in zip(scalar(x[k], y[k]), (wide[0][k], wide[1][k]), strict=True):
            assert_allclose(other, one, rtol=RTOL, atol=1e-15)


def test_nonfinite_elements_of_a_batch_do_not_change_the_results_of_other_elements(forms, rng):
    scalar, batches = forms
    x, y = arguments(rng, 19)
    bad = {0: np.nan, 5: np.inf, 6: -np.inf, 18: np.nan}
    for batch in batches.values():
        good = batch(x, y)[0]
        spoilt = x.copy()
        spoilt[list(bad), 0] = list(bad.values())
        result = batch(spoilt, y)[0]
        rest = [k for k in range(19) if k not in bad]
        assert_array_equal(result[rest], good[rest])
        for k in bad:
            assert_allclose(result[k], scalar(spoilt[k], y[k])[0], rtol=RTOL, atol=1e-15)


def test_batched_calls_match_single_calls_for_equal_operands_zeros_and_huge_angles(forms):
    scalar, batches = forms
    angles = [0.0, -0.0, 5e-324, 1e-310, 0.25 * np.pi, 0.5 * np.pi, np.pi, 102943.0, 102944.0]
    x = np.array([[a, b] for a in (*angles, 1e15, 1e300, -1e22) for b in (0.5, 0.0, -0.0, 500.0)])
    for batch in batches.values():
        with np.errstate(all="ignore"):
            results = batch(x, x[:, 1])[0]
        for row, result in zip(x, results, strict=True):
            assert_allclose(result, scalar(row, row[1])[0], rtol=RTOL, atol=0.0)


def test_batched_call_converts_real_arrays_and_rejects_other_types_and_shapes(forms, rng):
    batch = forms[1][widest()]
    x, y = arguments(rng, 9)
    expected = batch(x, y)[0]
    rounded = x.astype(np.float32)
    assert_array_equal(batch(rounded, y)[0], batch(rounded.astype(float), y)[0])
    assert_array_equal(batch(np.asfortranarray(x), y)[0], expected)
    assert_array_equal(batch(np.repeat(x, 2, axis=0)[::2], y.tolist())[0], expected)
    assert_array_equal(batch(x[::-1], y[::-1])[0], expected[::-1])
    assert_array_equal(batch(x.astype(">f8"), y)[0], expected)
    for wrong in (x + 0j, x.astype(object), x > 0.0, x.astype(str)):
        with pytest.raises(TypeError, match=r"everything: x has elements of type .*; they must be"):
            batch(wrong, y)
    message = r"the inputs of everything have the shapes .*; expected x \(n, 2\), y \(n,\)"
    for shapes in ((x, y[:4]), (x[:, :1], y), (x,), (x, y, y), (x[0], y), (), (1.0, 1.0)):
        with pytest.raises(ValueError, match=message):
            batch(*shapes)


def test_unsupported_number_of_simd_lanes_is_rejected():
    with pytest.raises(ValueError, match="lanes must be one of 2, 4, 8, not 3"):
        compile_function("f", lambda x: {"out": x}, {"x": ()}, batch=True, lanes=3)
    with pytest.raises(ValueError, match="lanes = 4 needs batch=True"):
        compile_function("f", lambda x: {"out": x}, {"x": ()}, lanes=4)
    assert widest() in LANES
    assert any("RB_LANES=2" in flag for flag in lane_flags(2))


def test_concurrent_batched_calls_return_the_results_of_sequential_calls(forms, rng):
    batch = forms[1][widest()]
    given = [arguments(rng, n) for n in (1, 300, 1500, 700, 5, 2048, 999, 640)]
    expected = [batch(*one, threads=1) for one in given]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            for one, other in zip(pool.map(lambda one: batch(*one), given), expected, strict=True):
                assert_array_equal(one[0], other[0])


def test_error_of_a_batched_call_is_raised_after_all_threads_have_ended():
    parts = []

    def work(first, last):
        parts.append((first, last))
        if first == 40:
            raise RuntimeError(f"rows {first} to {last}")

    with pytest.raises(RuntimeError, match="rows 40 to 80"):
        run_in_threads(work, 100, 2, 40)
    run_in_threads(work, 0, None, 40)  # zero rows
    assert set(parts) <= {(0, 40), (40, 80), (80, 100)}
    with pytest.raises(ValueError, match="threads must be at least 1, not 0"):
        run_in_threads(work, 100, 0, 40)


def angles(rng):
    """Return angles of all magnitudes, and the floats nearest to the zeros of sine and cosine."""
    anything = rng.integers(0, 2**63, size=20_000, dtype=np.int64).view(float)
    quarters = np.arange(-10_000, 10_000) * (np.longdouble(np.pi) / 2)
    near = (quarters + np.longdouble(6.123233995736766e-17) * np.arange(-10_000, 10_000)).astype(
        float
    )
    return np.concatenate(
        [
            anything[np.isfinite(anything)],
            near,
            rng.uniform(-7.0, 7.0, 30_000),
            rng.uniform(-2e5, 2e5, 20_000),
            np.exp(rng.uniform(-50.0, 50.0, 20_000)),
        ]
    )


@pytest.mark.slow
def test_batched_sines_and_cosines_are_within_one_ulp(rng):
    assert np.finfo(np.longdouble).nmant > 60, "needs a long double that is longer than a double"
    batch = compile_function(
        "waves", lambda x: {"s": np.sin(x), "c": np.cos(x)}, {"x": ()}, batch=True
    )
    x = angles(rng)
    assert len(x) > 1e5
    for result, function in zip(batch(x), (np.sin, np.cos), strict=True):
        true = function(x.astype(np.longdouble))
        ulp = np.spacing(np.abs(true.astype(float)))
        assert float(np.max(np.abs(result - true) / ulp)) < 1.0
