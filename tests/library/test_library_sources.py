"""Signal sources and profiles match analytic formulas, derivatives and limits."""

import re
from io import StringIO

import asammdf
import numpy as np
import pyarrow.parquet
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.interpolate import CubicSpline, make_interp_spline

from library_runs import signal
from rigidblocks.block.block import Port
from rigidblocks.block.memory_layout import Memory
from rigidblocks.cosim.results.result import Result
from rigidblocks.kernels.traced_evaluator import TracedEvaluator
from rigidblocks.library import (
    Chirp,
    Playback,
    Pulse,
    QuinticProfile,
    Ramp,
    RepeatingSequence,
    Sine,
    Step,
    TrapezoidalProfile,
    Waypoints,
)
from rigidblocks.tracing.compiled_functions import CompiledFunction

RTOL = 1e-12
DIFFERENCE = (
    1e-5  # step of central differences, whose error is its square times the third derivative
)


def slopes(block, times, name="y"):
    """Return the central differences of an output."""
    after, before = (signal(block, times + sign * DIFFERENCE, name) for sign in (1, -1))
    return (after - before) / (2 * DIFFERENCE)


def test_step_source_changes_exactly_at_its_step_time():
    block = Step(0.3, before=(1.0, -1.0), after=2.0)
    dust = 0.1 + 0.2 - 0.3  # 5.6e-17: rounding of times just before and after 0.3
    assert_array_equal(
        signal(block, [0.0, 0.2999, 0.3, 0.3 + dust, 0.3 - dust, 1.0]), [[1, -1]] * 2 + [[2, 2]] * 4
    )


@pytest.mark.slow
@pytest.mark.parametrize("tunable", [(), ("before",), ("step_time",)])
def test_compiled_step_source_with_constant_parameters_changes_at_its_step_time(tunable):
    flat = Memory(Step(0.3, before=-1.0, after=2.0), tunable)
    function = CompiledFunction(TracedEvaluator(flat).graph("output"))
    for t in (0.0, 0.2999, 0.3, 0.1 + 0.2, 1.0):
        m = flat.start()
        m[0] = t
        assert function(m)[0] == (2.0 if t >= 0.3 else -1.0)


def test_sine_source_matches_its_formula_and_its_slope_output_is_the_derivative(rng):
    block = Sine((1.0, 0.5), (1.0, 3.0), phase=0.3, offset=(0.1, 0.0))
    t = rng.uniform(-2, 2, 50)
    angle = 2 * np.pi * np.outer(t, [1.0, 3.0]) + 0.3
    assert_allclose(
        signal(block, t), [0.1, 0.0] + np.array([1.0, 0.5]) * np.sin(angle), rtol=RTOL, atol=RTOL
    )
    assert_allclose(signal(block, t, "slope"), slopes(block, t), atol=1e-6)


def test_chirp_phase_is_the_integral_of_its_frequency():
    # f = f0 + (f1 - f0) t / T: the phase is T (f0 + f1) / 2 turns at T, and T (3 f0 + f1) / 8 at
    # T / 2
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


def test_chirp_slope_is_the_derivative_of_its_output(rng):
    block, t = (
        Chirp((0.5, 3.0), (2.0, 1.0), 1.5, amplitude=(1.0, 0.2), offset=0.3),
        rng.uniform(-1, 3, 50),
    )
    assert_allclose(signal(block, t, "slope"), slopes(block, t), atol=1e-6)


def test_quintic_profile_has_zero_velocity_and_acceleration_at_its_ends():
    block, y0, y1 = QuinticProfile((0.5, 1.0), (1.2, -0.7), 0.8, begin=0.1), [0.5, 1.0], [1.2, -0.7]
    for t, y in ((0.0, y0), (0.1, y0), (0.9, y1), (5.0, y1)):
        assert_allclose(signal(block, [t])[0], y, rtol=RTOL)
        for name in ("slope", "curvature"):
            assert_allclose(signal(block, [t], name)[0], 0.0, atol=1e-13)


def test_quintic_profile_equals_the_quintic_polynomial_of_its_end_conditions():
    # six end conditions determine the six coefficients of the polynomial
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
def test_quintic_profile_outputs_the_derivatives_of_its_position(name):
    block, t = QuinticProfile((0.5, 1.0), (1.2, -0.7), 0.8, begin=0.1), np.linspace(-0.2, 1.2, 57)
    derivative = {"y": "slope", "slope": "curvature"}[name]
    # the third derivative jumps at both ends, so the difference has a first-order error there
    assert_allclose(
        signal(block, t, derivative), slopes(block, t, name), atol=60 * DIFFERENCE * 2 / 0.8**3
    )


TRAPEZOID = {
    "y0": (0.0, 1.0, 0.2, 0.0),
    "y1": (3.0, -0.5, 0.2, 1e-3),
    "slope_max": (2.0, 2.0, 1.0, 1.0),
}


@pytest.mark.slow
def test_trapezoidal_profile_respects_its_limits_and_ends_exactly_at_its_target():
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


def test_trapezoidal_profile_has_the_shortest_duration_within_its_limits():
    # trapezoid: distance / v + v / a; triangle: 2 sqrt(distance / a)
    a, v = 5.0, np.array(TRAPEZOID["slope_max"])
    way = np.abs(np.subtract(TRAPEZOID["y1"], TRAPEZOID["y0"]))
    expected = np.where(way > v**2 / a, way / v + v / a, 2 * np.sqrt(way / a))
    block = TrapezoidalProfile(**TRAPEZOID, curvature_max=a)
    for k, end in enumerate(expected):
        if way[k] > 0:
            before, after = signal(block, [end * (1 - 1e-6), end * (1 + 1e-12)])[:, k]
            assert before != TRAPEZOID["y1"][k]
            assert after == TRAPEZOID["y1"][k]
    assert_array_equal(signal(block, np.linspace(0, 4, 50))[:, 2], 0.2)  # zero distance


def test_trapezoidal_profile_outputs_the_derivatives_of_its_position(rng):
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
def test_playback_block_interpolates_linearly_and_is_constant_outside_its_table(rows, rng):
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


def test_playback_block_reproduces_the_signals_of_a_saved_result(tmp_path):
    time, values = np.linspace(0, 1, 11), np.random.default_rng(0).normal(size=(11, 2))
    path = Result(time, (Port("robot.q", (2,), "rad", "q"),), values, {}).save(tmp_path / "run.csv")
    block = Playback(path, ("robot.q[1]", "robot.q[2]"))
    assert_array_equal(signal(block, time), values)
    path.unlink()
    assert_array_equal(signal(block, time), values)  # the block does not read the file again


def test_slope_and_curvature_have_the_signal_unit_per_second_and_per_second_squared():
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
        "a step needs scalars or arrays of equal length, not before of shape (3,), after of shape "
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
        "a sine needs scalars or arrays of equal length, not amplitude of shape (1, 1)",
    ),
    (
        lambda: Chirp(0.0, 0.0, 1.0),
        "the frequencies of a chirp must be non-negative and not both zero, but f0 = 0.0 Hz",
    ),
    (lambda: Chirp(1.0, 2.0, 0.0), "the start value of duration is 0 s; it must be positive"),
    (
        lambda: QuinticProfile(0.0, 1.0, -1.0),
        "the start value of duration is -1 s; it must be positive",
    ),
    (
        lambda: QuinticProfile([0.0, 1.0], [1.0, 2.0, 3.0], 1.0),
        "a quintic profile needs scalars or arrays of equal length, not y0 of shape (2,), y1 of "
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
        "row 3 of the file needs a number in each of the columns time, a, but is ['1', 'x']",
    ),
    (
        lambda: Playback(StringIO(HEAD + "0,1\n1\n"), ("a",)),
        "row 3 of the file needs a number in each of the columns time, a, but is ['1']",
    ),
    (
        lambda: Playback(StringIO(HEAD + "0,1\n1,nan\n"), ("a",)),
        "the file must have finite values in the columns time, a",
    ),
    (
        lambda: Playback(StringIO(HEAD + "0,1\n0,2\n"), ("a",)),
        "the column 'time' of the file must increase, but 0.0 is followed by 0.0",
    ),
    (
        lambda: Playback(StringIO(HEAD + "0,1\n"), ("a",)),
        "the file needs at least two rows of numbers, not 1",
    ),
    (
        lambda: Playback(StringIO(HEAD), ()),
        "a playback needs a tuple of one or more column names, not ()",
    ),
    (
        lambda: Playback(StringIO(HEAD), "a"),
        "a playback needs a tuple of one or more column names, not 'a'",
    ),
    (
        lambda: Playback(StringIO(HEAD + "0,1\n1,2\n"), ("a",), unit="furlong"),
        "unit 'furlong' has the unknown symbol 'furlong'",
    ),
]


@pytest.mark.parametrize(("make", "message"), BAD, ids=[message[:50] for _, message in BAD])
def test_invalid_source_arguments_are_rejected(make, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make()


@pytest.mark.slow
def test_compiled_playback_of_20000_samples_interpolates_linearly(rng):
    """The table is data in C, because it is too large for generated code."""
    n = 20_000
    t, y = np.cumsum(rng.uniform(0.01, 0.1, n)), rng.uniform(-2, 2, (2, n))
    flat = Memory(Playback(csv(t, y, ("a", "b")), ("a", "b")))
    function = CompiledFunction(TracedEvaluator(flat).graph("output"))
    for at in (-1.0, t[0], t[7], 0.3 * t[-1], t[-2], t[-1], t[-1] + 5.0):
        m = flat.start()
        m[0] = at
        assert_allclose(function(m)[:2], [np.interp(at, t, column) for column in y], atol=1e-12)


def test_playback_block_reads_parquet_and_mdf4_files(tmp_path):
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


# ramps, pulses and waypoints


def test_ramp_starts_at_its_begin_time_and_its_slope_jumps_at_this_time():
    block, t = Ramp((2.0, -1.0), begin=0.3, y0=(1.0, 5.0)), np.array([-1.0, 0.0, 0.29, 0.3, 1.3])
    s = np.maximum(t - 0.3, 0.0)[:, None]
    assert_allclose(signal(block, t), [1.0, 5.0] + s * [2.0, -1.0], atol=1e-15)
    assert_array_equal(signal(block, t, "slope"), [[0, 0]] * 3 + [[2, -1]] * 2)


def test_single_pulse_has_its_width_and_a_pulse_train_repeats_the_pulse():
    t = np.arange(-3, 60) / 10
    high = lambda s, period: (s >= 0.2 - 1e-12) & (np.mod(s - 0.2 + 1e-12, period) < 0.3 - 1e-9)  # noqa: E731
    single, train = Pulse(0.3, 2.0, begin=0.2, offset=1.0), Pulse(0.3, 2.0, 0.7, 0.2, 1.0)
    assert_array_equal(signal(single, t)[:, 0], 1.0 + 2.0 * high(t, np.inf))
    assert_array_equal(signal(train, t)[:, 0], 1.0 + 2.0 * high(t, 0.7))
    late = 0.2 + 0.7 * 10**9  # the phase is exact to rounding after 10^9 periods
    assert_array_equal(signal(train, late + np.array([-0.2, 0.1, 0.4]))[:, 0], [1.0, 3.0, 1.0])


def test_pulse_wider_than_its_period_is_rejected():
    with pytest.raises(ValueError, match=r"at most its period of 0.2 s, not 0.3 s"):
        Pulse(0.3, period=0.2)


@pytest.mark.parametrize("count", [2, 3, 4, 30])
@pytest.mark.parametrize("kind", ["cubic", "quintic"])
def test_splines_through_waypoints_match_scipy(kind, count, rng):
    t, y = np.cumsum(rng.uniform(0.2, 1.0, count)) - 1.0, rng.normal(size=(count, 2))
    rest = [(1, [0.0, 0.0]), (2, [0.0, 0.0])]
    expected = {
        "cubic": lambda: CubicSpline(t, y, bc_type="clamped"),
        "quintic": lambda: make_interp_spline(t, y, k=5, bc_type=(rest, rest)),
    }[kind]()
    block, at = Waypoints(t, y, kind), rng.uniform(t[0], t[-1] - 1e-6, 200)
    for order, name in enumerate(("y", "slope", "curvature")):
        size = np.abs(expected(at, order)).max()
        assert_allclose(signal(block, at, name), expected(at, order), rtol=0, atol=1e-9 * size)
    assert_allclose(signal(block, t), y, rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", ["hold", "linear", "cubic", "quintic"])
def test_waypoint_signal_is_constant_before_the_first_and_after_the_last_point(kind):
    block = Waypoints([1.0, 2.0, 4.0], [3.0, 7.0, 5.0], kind)
    assert_array_equal(signal(block, [-5.0, 0.99, 4.0, 1e9])[:, 0], [3.0, 3.0, 5.0, 5.0])
    for name in ("slope", "curvature"):
        assert_array_equal(signal(block, [-5.0, 0.99, 4.0, 1e9], name)[:, 0], 0.0)


def test_held_and_linear_waypoint_signals_match_interpolation_in_numpy(rng):
    t, y = np.array([0.0, 0.5, 0.7, 2.0]), rng.normal(size=(4, 3))
    at = rng.uniform(-1, 3, 200)
    linear = np.transpose([np.interp(at, t, column) for column in y.T])
    assert_allclose(signal(Waypoints(t, y), at), linear, atol=1e-14)
    held = y[np.clip(np.searchsorted(t, at, "right") - 1, 0, 3)]
    assert_array_equal(signal(Waypoints(t, y, "hold"), at), held)
    assert_array_equal(signal(Waypoints(t, y, "hold"), [0.1 + 0.2 + 0.2])[0], y[1])


@pytest.mark.parametrize(
    ("t", "y", "kind", "text"),
    [
        ([0.0, 0.0], [1.0, 2.0], "hold", r"two waypoints with increasing times, not \[0.0, 0.0\]"),
        ([0.0], [1.0], "hold", "at least two waypoints"),
        ([0.0, 1.0], [1.0, 2.0, 3.0], "hold", r"2 waypoints need y of shape \(2, n\) or \(2,\)"),
        ([0.0, 1.0], [1.0, np.nan], "hold", "the waypoints must be finite"),
        ([0.0, 1.0], [1.0, 2.0], "cubics", r"unknown kind 'cubics' .*did you mean cubic\?"),
    ],
)
def test_invalid_waypoints_are_rejected(t, y, kind, text):
    with pytest.raises(ValueError, match=text):
        Waypoints(t, y, kind)


@pytest.mark.parametrize(
    "block",
    [
        Step(unit=("rad", "m")),
        Ramp(unit=("rad", "m")),
        Pulse(unit=("rad", "m")),
        Sine(unit=["rad", "m"]),
        Chirp(1.0, 2.0, 1.0, unit=("rad", "m")),
        QuinticProfile(0.0, 1.0, 1.0, unit=("rad", "m")),
        TrapezoidalProfile(0.0, 1.0, 1.0, 1.0, unit=("rad", "m")),
        RepeatingSequence([0, 1], [[0, 0], [1, 1]], unit=("rad", "m")),
        Waypoints([0, 1], [[0, 0], [1, 1]], unit=("rad", "m")),
    ],
    ids=lambda block: type(block).__name__,
)
def test_source_has_one_unit_for_each_element(block):
    units = {port.name: port.units for port in block.outputs}
    assert units["y"] == ("rad", "m")
    assert units.get("slope", ("rad/s", "m/s")) == ("rad/s", "m/s")
    assert units.get("curvature", ("rad/s2", "m/s2")) == ("rad/s2", "m/s2")


def test_number_of_units_must_match_the_number_of_elements():
    with pytest.raises(ValueError, match=r"unit of shape \(3,\)"):
        Step(after=(1.0, 2.0), unit=("rad", "rad", "m"))
