"""Noise has the specified distribution, is independent, and is bitwise equal in C and NumPy."""

import numpy as np
import pytest
import scipy.special
import scipy.stats

from rigidblocks.block.memory_layout import Memory
from rigidblocks.kernels.compiled_stepper import compiled_stepper, numpy_stepper
from rigidblocks.library import Noise
from rigidblocks.library.sensors import normal_quantile, uniform_noise

N = 100_000
K = np.arange(float(N))


def test_bits_of_the_noise_generator_are_uniform_and_uncorrelated():
    words = uniform_noise(0, K, 0)
    assert words.min() > 0
    assert words.max() < 1
    assert scipy.stats.kstest(words, "uniform").pvalue > 1e-3
    bits = (np.floor(words * 2**52).astype(np.int64)[:, None] >> np.arange(52)) & 1
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 5 * 0.5 / N**0.5
    for lag in (1, 2, 3, 7, 1024):
        together = np.corrcoef(words[:-lag], words[lag:])[0, 1]
        assert abs(together) < 5 / N**0.5


def test_successive_pairs_of_noise_values_are_uniform_in_the_unit_square():
    words = uniform_noise(3, K, 0)
    pairs, _, _ = np.histogram2d(words[::2], words[1::2], bins=16)
    assert scipy.stats.chisquare(pairs.ravel()).pvalue > 1e-3


@pytest.mark.parametrize(
    ("first", "second"),
    [((0, 0), (1, 0)), ((0, 0), (0, 1)), ((5, 1), (5, 2)), ((0, 0), (2**26, 0)), ((1, 0), (0, 1))],
)
def test_noise_of_different_seeds_and_elements_is_independent(first, second):
    a, b = (uniform_noise(seed, K, stream) for seed, stream in (first, second))
    assert not np.any(a == b)
    assert abs(np.corrcoef(a, b)[0, 1]) < 5 / N**0.5
    for lag in (1, 2, 5):
        assert abs(np.corrcoef(a[lag:], b[:-lag])[0, 1]) < 5 / N**0.5


def test_each_bit_of_the_noise_counter_changes_half_of_the_noise_bits():
    counters = np.floor(np.random.default_rng(1).uniform(0, 2**40, 2000))
    plain = np.floor(uniform_noise(9, counters, 0) * 2**52).astype(np.int64)
    for bit in (0, 5, 13, 26, 39):
        flipped = counters + np.where((counters // 2**bit) % 2 == 0, 2.0**bit, -(2.0**bit))
        other = np.floor(uniform_noise(9, flipped, 0) * 2**52).astype(np.int64)
        changed = np.bitwise_count(plain ^ other)
        assert abs(changed.mean() - 26) < 5 * 13**0.5 / 2000**0.5


def test_outputs_of_the_noise_generator_do_not_repeat_in_100000_samples():
    for seed, begin in ((0, 0.0), (123_456_789_012, 2.0**44)):
        assert len(np.unique(uniform_noise(seed, begin + K, 0))) == N


def test_normal_quantile_function_matches_the_values_of_scipy():
    u = np.concatenate([np.linspace(1e-4, 1 - 1e-4, 2001), 10.0 ** -np.arange(1, 16), [2.0**-53]])
    np.testing.assert_allclose(normal_quantile(u), scipy.special.ndtri(u), rtol=1e-12, atol=2e-15)


@pytest.mark.parametrize("distribution", ["normal", "uniform"])
def test_noise_has_mean_zero_and_standard_deviation_one(distribution):
    words = uniform_noise(11, K, 4)
    y = normal_quantile(words) if distribution == "normal" else (words - 0.5) * 12**0.5
    assert abs(y.mean()) < 5 / N**0.5
    assert y.std() == pytest.approx(1.0, abs=0.015)
    if distribution == "normal":
        assert scipy.stats.kstest(y, "norm").pvalue > 1e-3


@pytest.mark.slow
def test_noise_in_numpy_and_in_c_is_bitwise_equal():
    flat = Memory(Noise(1e-3, 2**51 + 12345, (0.3, 2.0, 1.0), 0.1, shape=3))
    runs = []
    for stepper in (numpy_stepper, compiled_stepper):
        run, m = stepper(flat), flat.start()
        run.initialize(m, 0.0)
        rows = [m.copy()]
        for k in range(100):
            run.step(m, k * 1e-3, 1e-3)
            rows.append(m.copy())
        runs.append(np.array(rows))
    np.testing.assert_array_equal(*runs)
    assert len(np.unique(runs[0][:, flat.where["y"]])) == 3 * 101


@pytest.mark.parametrize("seed", [-1, 2**52, 1.5, True])
def test_invalid_noise_seed_is_rejected(seed):
    with pytest.raises(ValueError, match="an integer from 0 to 2\\^52 - 1"):
        Noise(1e-3, seed)
