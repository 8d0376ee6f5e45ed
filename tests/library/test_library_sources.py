"""Signal sources and profiles: each is its closed form, its slope is its derivative, and its limits
hold.
"""

import re
from io import StringIO

import asammdf
import numpy as np
import pyarrow.parquet
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from library_runs import signal
from rigidblocks.block.block import Port
from rigidblocks.block.memory import Memory
from rigidblocks.kernels.evaluator import TracedEvaluator
from rigidblocks.library import Chirp, Playback, QuinticProfile, Sine, Step, TrapezoidalProfile
from rigidblocks.simulation.result import Result
from rigidblocks.tracing.function import CompiledFunction

RTOL = 1e-12
DIFFERENCE = (
    1e-5  # step of central differences, whose error is its square times the third derivative
)


def slopes(block, times, name="y"):
    """Central differences of an output."""
    after, before = (signal(block, times + sign * DIFFERENCE, name) for sign in (1, -1))
    return (after - before) / (2 * DIFFERENCE)


def test_step_is_reached_at_its_time_and_not_before():
    block = Step(0.3, before=(1.0, -1.0), after=2.0)
    dust = 0.1 + 0.2 - 0.3  # 0.30000000000000004, and a time that rounding has put ahead of 0.3
    assert_array_equal(
        signal(block, [0.0, 0.2999, 0.3, 0.3 + dust, 0.3 - dust, 1.0]), [[1, -1]] * 2 + [[2, 2]] * 4
    )


def test_sine_is_its_formula_and_its_slope_the_derivative(rng):
    block = Sine((1.0, 0.5), (1.0, 3.0), phase=0.3, offset=(0.1, 0.0))
    t = rng.uniform(-2, 2, 50)
    angle = 2 * np.pi * np.outer(t, [1.0, 3.0]) + 0.3
    assert_allclose(
        signal(block, t), [0.1, 0.0] + np.array([1.0, 0.5]) * np.sin(angle), rtol=RTOL, atol=RTOL
    )
    assert_allclose(signal(block, t, "slope"), slopes(block, t), atol=1e-6)


def test_chirp_has_the_phase_that_its_frequency_integrates_to():
    # f = f0 + (f1 - f0) t / T: after a sweep the phase is T (f0 + f1) / 2 turns, half way T (3 f0 +
    # f1) / 8
    f0, f1, T = 1.0, 4.25, 2.0
    turns = np.array(
        [0.0, T * (3 * f0 + f1) / 8, T * (f0 + f1) / 2, T * (f0 + f1) / 2 + f1, -3 * f0]
    )
    t = [0.0, T / 2, T, T + 1.0, -3.0]
    assert_allclose(
        signal(Chirp(f0, f1, T), t)[:, 0], np.sin(2 * np.pi * turns), rtol=0, atol=1e-12
    )
    assert_allclose(
        signal(Chirp(f0, f1, T), t, "frequency")[:, 0], [f0, (f0 + f1) / 2, f1, f1, f0], rtol=RTOL
    )


def test_slope_of_the_chirp_is_its_derivative(rng):
    block, t = (
        Chirp((0.5, 3.0), (2.0, 1.0), 1.5, amplitude=(1.0, 0.2), offset=0.3),
        rng.uniform(-1, 3, 50),
    )
    assert_allclose(signal(block, t, "slope"), slopes(block, t), atol=1e-6)


def test_quintic_profile_is_at_rest_without_acceleration_at_both_ends_and_beyond():
    block, y0, y1 = QuinticProfile((0.5, 1.0), (1.2, -0.7), 0.8, begin=0.1), [0.5, 1.0], [1.2, -0.7]
    for t, y in ((0.0, y0), (0.1, y0), (0.9, y1), (5.0, y1)):
        assert_allclose(signal(block, [t])[0], y, rtol=RTOL)
        for name in ("slope", "curvature"):
            assert_allclose(signal(block, [t], name)[0], 0.0, atol=1e-13)


def test_quintic_profile_is_the_polynomial_of_degree_five_with_these_ends():
    # six conditions determine it: solve for its coefficients
    T, y0, y1 = 0.8, 0.5, 1.2
    powers = np.arange(6)
    rows = [
        [0.0**k for k in powers],
        [float(k == 1) for k in powers],
        [2.0 * (k == 2) for k in powers],
    ]
    rows += [
        T**powers,
        powers * T ** np.maximum(powers - 1, 0),
        powers * (powers - 1) * T ** np.maximum(powers - 2, 0),
    ]
    polynomial = np.polynomial.Polynomial(np.linalg.solve(rows, [y0, 0, 0, y1, 0, 0]))
    block, t = QuinticProfile(y0, y1, T), np.linspace(0, T, 33)
    for order, name in enumerate(("y", "slope", "curvature")):
        assert_allclose(
            signal(block, t, name)[:, 0],
            polynomial.deriv(order)(t) if order else polynomial(t),
            atol=1e-12,
        )


@pytest.mark.parametrize("name", ["y", "slope"])
def test_slope_and_curvature_of_the_quintic_profile_are_derivatives(name):
    block, t = QuinticProfile((0.5, 1.0), (1.2, -0.7), 0.8, begin=0.1), np.linspace(-0.2, 1.2, 57)
    derivative = {"y": "slope", "slope": "curvature"}[name]
    # at the ends the third derivative jumps, so the difference has an error of the first order
    # there
    assert_allclose(
        signal(block, t, derivative), slopes(block, t, name), atol=60 * DIFFERENCE * 2 / 0.8**3
    )


TRAPEZOID = {
    "y0": (0.0, 1.0, 0.2, 0.0),
    "y1": (3.0, -0.5, 0.2, 1e-3),
    "slope_max": (2.0, 2.0, 1.0, 1.0),
}


@pytest.mark.slow
def test_trapezoidal_profile_keeps_its_limits_and_ends_exactly():
    block = TrapezoidalProfile(**TRAPEZOID, curvature_max=5.0, begin=0.25)
    t = np.unique(np.r_[np.linspace(0, 4, 4001), 0.25 + np.array([0.4, 1.5, 1.9])])
    y, slope, curvature = (signal(block, t, name) for name in ("y", "slope", "curvature"))
    assert np.all(np.abs(slope) <= TRAPEZOID["slope_max"])
    assert np.all(np.abs(curvature) <= 5.0)
    assert_array_equal(y[t <= 0.25], [TRAPEZOID["y0"]] * np.count_nonzero(t <= 0.25))
    assert_array_equal(y[-1], TRAPEZOID["y1"])
    assert_array_equal(slope[-1], 0.0)
    low, high = (
        np.minimum(TRAPEZOID["y0"], TRAPEZOID["y1"]),
        np.maximum(TRAPEZOID["y0"], TRAPEZOID["y1"]),
    )
    assert np.all((y >= low - 1e-15) & (y <= high + 1e-15))


def test_trapezoidal_profile_takes_the_shortest_time():
    # full slope: way / v + v / a; triangle: 2 sqrt(way / a)
    a, v = 5.0, np.array(TRAPEZOID["slope_max"])
    way = np.abs(np.subtract(TRAPEZOID["y1"], TRAPEZOID["y0"]))
    expected = np.where(way > v**2 / a, way / v + v / a, 2 * np.sqrt(way / a))
    block = TrapezoidalProfile(**TRAPEZOID, curvature_max=a)
    for k, end in enumerate(expected):
        if way[k] > 0:
            before, after = signal(block, [end * (1 - 1e-6), end * (1 + 1e-12)])[:, k]
            assert before != TRAPEZOID["y1"][k]
            assert after == TRAPEZOID["y1"][k]
    assert_array_equal(signal(block, np.linspace(0, 4, 50))[:, 2], 0.2)  # nowhere to go


def test_slope_and_curvature_of_the_trapezoidal_profile_are_derivatives(rng):
    block, t = TrapezoidalProfile(**TRAPEZOID, curvature_max=5.0), rng.uniform(-0.5, 3, 300)
    corners = np.array([0.0, 0.4, 1.5, 1.9, 0.75, 1.15, np.sqrt(1e-3 / 5), 2 * np.sqrt(1e-3 / 5)])
    t = t[np.min(np.abs(t[:, None] - corners), axis=1) > 2 * DIFFERENCE]
    assert_allclose(signal(block, t, "slope"), slopes(block, t), atol=1e-9)
    assert_allclose(signal(block, t, "curvature"), slopes(block, t, "slope"), atol=1e-9)


def csv(times, columns, names):
    table = np.column_stack([times, *columns])
    return StringIO(
        "\n".join(
            [",".join(["time", *names]), *(",".join(map(repr, map(float, row))) for row in table)]
        )
    )


@pytest.mark.parametrize("rows", [2, 3, 4, 7, 8, 9, 100])
def test_playback_is_linear_interpolation_and_rests_outside(rows, rng):
    t, y = np.cumsum(rng.uniform(0.01, 0.1, rows)), rng.uniform(-2, 2, (2, rows))
    block = Playback(csv(t, y, ("a", "b")), ("b", "a"))
    at = np.unique(np.r_[0.0, t, rng.uniform(-0.1, t[-1] + 0.5, 200)])
    expected = np.transpose([np.interp(at, t, column) for column in (y[1], y[0])])
    assert_allclose(signal(block, at), expected, rtol=0, atol=1e-13)
    segment = np.searchsorted(t, at, "right") - 1
    inside = (segment >= 0) & (segment < rows - 1)
    rates = np.diff(y[::-1], axis=1) / np.diff(t)
    expected = np.where(inside[:, None], rates[:, np.clip(segment, 0, rows - 2)].T, 0.0)
    assert_allclose(signal(block, at, "slope"), expected, rtol=1e-12)


def test_playback_plays_a_saved_result(tmp_path):
    time, values = np.linspace(0, 1, 11), np.random.default_rng(0).normal(size=(11, 2))
    path = Result(time, (Port("robot.q", (2,), "rad", "q"),), values, {}).save(tmp_path / "run.csv")
    block = Playback(path, ("robot.q[1]", "robot.q[2]"))
    assert_array_equal(signal(block, time), values)
    path.unlink()
    assert_array_equal(signal(block, time), values)  # the file is not read again


def test_units_of_slopes_divide_by_time():
    units = {
        port.name: port.units
        for port in TrapezoidalProfile(0.0, 1.0, 1.0, 1.0, unit="N.m/rad").outputs
    }
    assert units == {"y": ("N.m/rad",), "slope": ("N.m/rad.s",), "curvature": ("N.m/rad.s2",)}
    assert Playback(
        csv([0, 1], [[0, 1], [2, 3]], ("a", "b")), ("a", "b"), unit=("m", "rad")
    ).outputs[1].units == (
        "m/s",
        "rad/s",
    )


HEAD = "time,a\n"
BAD = [
    (
        lambda: Step(after=(1.0, 2.0), before=(1.0, 2.0, 3.0)),
        "a step needs numbers or arrays of one length, not before of shape (3,), after of shape "
        "(2,)",
    ),
    (lambda: Step(time=np.nan), "the start value of port 'step_time' must be finite, not nan"),
    (lambda: Sine(frequency=0.0), "the start value of frequency[1] is 0 Hz; it must be positive"),
    (
        lambda: Sine(amplitude=np.inf),
        "the start value of port 'amplitude' must be finite, not [inf]",
    ),
    (
        lambda: Sine(amplitude=[[1.0]]),
        "a sine needs numbers or arrays of one length, not amplitude of shape (1, 1)",
    ),
    (
        lambda: Chirp(0.0, 0.0, 1.0),
        "the frequencies of a chirp must not be negative, nor both zero, not f0 = 0.0 and f1 = 0.0",
    ),
    (lambda: Chirp(1.0, 2.0, 0.0), "the start value of duration is 0 s; it must be positive"),
    (
        lambda: QuinticProfile(0.0, 1.0, -1.0),
        "the start value of duration is -1 s; it must be positive",
    ),
    (
        lambda: QuinticProfile([0.0, 1.0], [1.0, 2.0, 3.0], 1.0),
        "a quintic profile needs numbers or arrays of one length, not y0 of shape (2,), y1 of "
        "shape (3,)",
    ),
    (
        lambda: TrapezoidalProfile(0.0, 1.0, 0.0, 1.0),
        "the start value of slope_max[1] is 0 rad/s; it must be positive",
    ),
    (
        lambda: TrapezoidalProfile(0.0, 1.0, 1.0, -1.0),
        "the start value of curvature_max[1] is -1 rad/s2; it must be positive",
    ),
    (
        lambda: Playback(StringIO(HEAD + "0,1\n1,2\n"), ("b", "c")),
        "the file has no column b, c; it has: time, a",
    ),
    (lambda: Playback(StringIO(""), ("b",)), "the file has no column time, b; it has: none"),
    (
        lambda: Playback(StringIO(HEAD + "0,1\n1,x\n"), ("a",)),
        "row 3 of the file is not a number in each of time, a: ['1', 'x']",
    ),
    (
        lambda: Playback(StringIO(HEAD + "0,1\n1\n"), ("a",)),
        "row 3 of the file is not a number in each of time, a: ['1']",
    ),
    (
        lambda: Playback(StringIO(HEAD + "0,1\n1,nan\n"), ("a",)),
        "the file must be finite in time, a",
    ),
    (
        lambda: Playback(StringIO(HEAD + "0,1\n0,2\n"), ("a",)),
        "the file needs at least two rows with increasing time",
    ),
    (
        lambda: Playback(StringIO(HEAD + "0,1\n"), ("a",)),
        "the file needs at least two rows with increasing time",
    ),
    (
        lambda: Playback(StringIO(HEAD), ()),
        "a playback needs a tuple of at least one column name, not ()",
    ),
    (
        lambda: Playback(StringIO(HEAD), "a"),
        "a playback needs a tuple of at least one column name, not 'a'",
    ),
    (
        lambda: Playback(StringIO(HEAD + "0,1\n1,2\n"), ("a",), unit="furlong"),
        "unit 'furlong' has the unknown symbol 'furlong'",
    ),
]


@pytest.mark.parametrize(("make", "message"), BAD, ids=[message[:50] for _, message in BAD])
def test_bad_arguments_are_refused_where_they_are_given(make, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make()


def test_playback_of_any_length_is_data_in_c(rng):
    """A table that would be too much code: 20,000 rows, in C and in NumPy."""
    n = 20_000
    t, y = np.cumsum(rng.uniform(0.01, 0.1, n)), rng.uniform(-2, 2, (2, n))
    flat = Memory(Playback(csv(t, y, ("a", "b")), ("a", "b")))
    function = CompiledFunction(TracedEvaluator(flat).graph("output"))
    for at in (-1.0, t[0], t[7], 0.3 * t[-1], t[-2], t[-1], t[-1] + 5.0):
        m = flat.start()
        m[0] = at
        assert_allclose(function(m)[:2], [np.interp(at, t, column) for column in y], atol=1e-12)


def test_playback_of_parquet_and_mdf4_is_that_of_the_csv(tmp_path):
    t, a = np.linspace(0.0, 1.0, 11), np.linspace(0.0, 1.0, 11) ** 2
    pyarrow.parquet.write_table(pyarrow.table({"time": t, "a": a}), tmp_path / "run.parquet")
    with asammdf.MDF(version="4.10") as file:
        file.append(asammdf.Signal(a, t, unit="rad", name="a"))
        file.save(tmp_path / "run.mf4")
    at = np.linspace(-0.2, 1.3, 31)
    for name in ("run.parquet", "run.mf4"):
        played = Playback(tmp_path / name, ("a",))
        assert_allclose(signal(played, at)[:, 0], np.interp(at, t, a), atol=1e-13)
        with pytest.raises(ValueError, match=r"has no column b; it has: .*a"):
            Playback(tmp_path / name, ("b",))
