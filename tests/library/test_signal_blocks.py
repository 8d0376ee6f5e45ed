"""Stateless and sampled signal blocks match their formulas."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rigidblocks import System, simulate
from rigidblocks.library import (
    Compare,
    Constant,
    Counter,
    DeadZone,
    Delay,
    Demux,
    Gain,
    Hysteresis,
    Logic,
    Mux,
    Noise,
    Product,
    RateLimiter,
    RateTransition,
    Saturation,
    Selector,
    Sum,
    Switch,
    TransportDelay,
    UnitDelay,
    ZeroOrderHold,
)
from signal_runs import outputs, value

H = 0.01  # s


def test_stateless_blocks_match_their_formulas(rng):
    a, b, c = rng.normal(size=(3, 2))
    K = rng.normal(size=(3, 2))
    assert_array_equal(value(Constant(K)), K)
    assert_array_equal(value(Gain((2.0, 3.0)), u=a), a * (2.0, 3.0))
    assert_array_equal(value(Gain(2.0, shape=2), u=a), 2 * a)
    assert_allclose(value(Gain(K, matrix=True), u=a), K @ a)
    assert_allclose(value(Sum("-+-", 2), u1=a, u2=b, u3=c), -a + b - c)
    assert_allclose(value(Product("*/*", 2), u1=a, u2=b, u3=c), a / b * c)


def test_mux_demux_selector_and_switch_route_their_signals(rng):
    a, b = rng.normal(size=(2, 2))
    assert_array_equal(value(Mux((2, (), 2)), u1=a, u2=7.0, u3=b), [*a, 7.0, *b])
    demux = Demux((2, (), 1))
    taken = [value(demux, name, u=(1.0, 2.0, 3.0, 4.0)) for name in ("y1", "y2", "y3")]
    assert [one.tolist() for one in taken] == [[1.0, 2.0], 3.0, [4.0]]
    assert_array_equal(value(Selector(4, (3, 1, 3)), u=(1, 2, 3, 4)), [3, 1, 3])
    assert_array_equal(value(Switch(0.2, 2), u1=a, u2=0.2, u3=b), a)
    assert_array_equal(value(Switch(0.2, 2), u1=a, u2=0.1999, u3=b), b)


def test_saturation_and_dead_zone_match_their_formulas():
    u = np.linspace(-2, 2, 81)
    assert_array_equal(value(Saturation(-1, 0.5, shape=81), u=u), np.clip(u, -1, 0.5))
    assert_array_equal(value(Saturation(upper=0.5, shape=81), u=u), np.minimum(u, 0.5))
    assert_array_equal(value(Saturation(lower=0.5, shape=81), u=u), np.maximum(u, 0.5))
    zone = np.where(u > 0.5, u - 0.5, np.where(u < -1, u + 1, 0))
    assert_allclose(value(DeadZone(-1, 0.5, shape=81), u=u), zone, atol=1e-15)


@pytest.mark.parametrize(
    ("operation", "truth"),
    [
        ("and", all),
        ("or", any),
        ("xor", lambda bits: sum(bits) % 2 == 1),
        ("nand", lambda bits: not all(bits)),
        ("nor", lambda bits: not any(bits)),
        ("xnor", lambda bits: sum(bits) % 2 == 0),
    ],
)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_logic_block_matches_its_truth_table(operation, truth, n):
    bits = np.array(np.meshgrid(*[[0.0, 1.0]] * n)).reshape(n, -1)
    given = {f"u{k}": row for k, row in enumerate(bits, 1)}
    found = value(Logic(operation, n, bits.shape[1]), **given)
    assert found.tolist() == [float(truth(column.astype(bool).tolist())) for column in bits.T]


def test_negation_and_comparison_blocks_match_their_definitions():
    assert [float(value(Logic("not"), u1=u)) for u in (0.0, 1.0, 0.4, 0.6)] == [1, 0, 1, 0]
    compared = value(Compare(0.5, 3), u1=(0.4, 0.5, 0.6))
    assert compared.tolist() == [1.0, 0.0, 0.0]
    assert float(value(Compare(), u1=1.0, u2=2.0)) == 1.0


def test_delay_blocks_delay_by_their_number_of_samples(rng):
    u = rng.normal(size=(30, 2))

    def held(t):
        return {"u": u[round(t / H)]}

    assert_array_equal(outputs(ZeroOrderHold(H, 2), H, 29, held), u)
    late = outputs(UnitDelay(H, 2, y0=0.5), H, 29, held)
    assert_array_equal(late, np.vstack([np.full((1, 2), 0.5), u[:-1]]))
    for n in (1, 4, 29, 40):
        late = outputs(Delay(n, H, 2, y0=0.5), H, 29, held)
        assert_array_equal(late, np.vstack([np.full((n, 2), 0.5), u])[:30])


@pytest.mark.parametrize("samples", [1.0, 2.0, 2.3, 7.999])
def test_transport_delay_has_the_error_of_linear_interpolation(samples):
    """The bound max|d2u/dt2| T^2 / 8 is satisfied at all times; a straight line is exact."""
    delay, fine = samples * H, H / 5
    block, omega = TransportDelay(delay, H, y0=0.0), 3.0
    t = np.arange(201) * fine

    def late(u):
        return outputs(block, fine, 200, lambda now: {"u": u(now)})

    after = t > delay + H
    wave = late(lambda now: np.sin(omega * now))
    error = np.abs(wave - np.sin(omega * (t - delay)))[after]
    assert error.max() < omega**2 * H**2 / 8 * (1 + 1e-9)
    assert_allclose(late(lambda now: now)[after], (t - delay)[after], atol=1e-12)
    assert_array_equal(wave[t < delay - 1e-9], 0.0)


def test_rate_transition_holds_signals_for_slower_readers_and_delays_them_for_faster_ones():
    def ramp(t):
        return {"u": t}

    slower = outputs(RateTransition(H, 4 * H), H, 12, ramp)
    assert_allclose(slower, H * np.repeat([0, 4, 8, 12], 4)[:13], atol=1e-15)
    faster = outputs(RateTransition(4 * H, H, y0=-1.0), H, 12, ramp)
    expected = [-1.0] * 4 + [0.0] * 4 + [4 * H] * 4 + [8 * H]
    assert_allclose(faster, expected, atol=1e-15)


def test_rate_limiter_limits_the_slope_of_its_output():
    block = RateLimiter(2.0, -1.0, sample_time=H)
    y = outputs(block, H, 100, lambda t: {"u": 1.0 if t < 0.7 else -1.0})
    t = np.arange(101) * H
    assert_allclose(y, np.where(t < 0.7, np.minimum(2 * t, 1), 1 - (t - 0.7 + H)), atol=1e-12)
    smooth = RateLimiter(2.0, -1.0, time_constant=0.1)
    y = outputs(smooth, 1e-3, 600, lambda _: {"u": 1.0})
    t = np.arange(601) * 1e-3
    lag = np.where(t < 0.4, 2 * t, 1 - 0.2 * np.exp(-(t - 0.4) / 0.1))
    assert_allclose(y, lag, atol=1e-6)


def test_hysteresis_output_is_constant_between_its_thresholds():
    given = [0.0, 0.5, 1.1, 0.5, -0.9, -1.1, 0.9, 1.0, 1.01]
    y = outputs(Hysteresis(-1.0, 1.0, H), H, 8, lambda t: {"u": given[round(t / H)]})
    assert y.tolist() == [0, 0, 1, 1, 1, 0, 0, 0, 1]


def test_counter_counts_rising_edges_up_to_its_limit():
    pulses = [1, 1, 0, 1, 0, 0, 1, 1, 0, 1, 0, 1, 1]

    def given(t):
        k = round(t / H)
        return {"u": pulses[k], "reset": float(k == 11)}

    assert outputs(Counter(H), H, 12, given).tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 0, 0]
    assert outputs(Counter(H, 3), H, 10, given).tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 0, 0]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Gain((1.0, 2.0), shape=3), "a gain of shape (3,) needs k of that shape"),
        (lambda: Gain(2.0, matrix=True), "a matrix gain needs k of shape (m, n)"),
        (lambda: Sum("+*"), "the signs of a sum must be a string of + and -, not '+*'"),
        (lambda: Product(""), "the operations of a product must be a string of * and /"),
        (lambda: Mux(()), "invalid signal lengths () of a mux; expected one length per signal"),
        (lambda: Demux((2, (1, 2))), "invalid signal lengths (2, (1, 2)) of a demux"),
        (lambda: Selector(3, (0, 1)), "must contain one or more indices from 1 to 3, not (0, 1)"),
        (lambda: Saturation(), "needs a lower limit, an upper limit, or both"),
        (lambda: Saturation(1.0, 0.0), "a saturation needs lower <= upper, not 1.0 and 0.0"),
        (
            lambda: RateLimiter(-1.0),
            "must satisfy `rising` > 0 and `falling` < 0, not -1.0 and 1.0",
        ),
        (lambda: Logic("maybe"), "must be one of and, or, xor, nand, nor, xnor, not, not 'maybe'"),
        (lambda: Hysteresis(1.0, 0.0, H), "a hysteresis needs lower < upper"),
        (lambda: Hysteresis(0.0, 1.0, H, 0.5), "y0 of a hysteresis must be 0 or 1, not 0.5"),
        (lambda: Counter(H, 0), "the limit of a counter must be at least 1, not 0"),
        (lambda: Delay(0, H), "a delay must be an integer of at least 1 sample, not 0"),
        (lambda: Delay(10**6, H), "the maximum is 5000 samples"),
        (lambda: TransportDelay(H / 2, H), "must not exceed the delay of"),
        (lambda: RateTransition(0.3, 0.2), "must be a multiple of the other"),
        (lambda: UnitDelay(H, 2, y0=(1.0, 2.0, 3.0)), "of shape (2,) needs y0 of that shape"),
    ],
)
def test_inconsistent_signal_block_arguments_are_rejected(make, said):
    with pytest.raises(ValueError, match=r".") as caught:
        make()
    assert said in caught.value.args[0]


@pytest.mark.slow
@pytest.mark.parametrize("names", [("a", "b", "c"), ("c", "b", "a"), ("b", "c", "a")])
@pytest.mark.parametrize("form", ["numpy", "fused"])
def test_delays_of_blocks_in_series_add_up_for_any_part_names(names, form):
    """The master steps a sampled block without continuous states after its source."""
    source, first, second = names
    system = System()
    system.add(source, Noise(H, 4))
    system.add(first, UnitDelay(H))
    system.add(second, Delay(2, H))
    system.connect(f"{source}.y", f"{first}.u")
    system.connect(f"{first}.y", f"{second}.u")
    run = simulate(system, 20 * H, H, form=form, progress=False)
    assert_array_equal(run[f"{first}.y"][1:], run[f"{source}.y"][:-1])
    assert_array_equal(run[f"{second}.y"][3:], run[f"{source}.y"][:-3])
