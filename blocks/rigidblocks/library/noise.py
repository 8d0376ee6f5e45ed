"""Noise that is the same in every form and on every machine."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.scalar import select
from rigidblocks.block.block import Block, Port, Record, Values
from rigidblocks.library.signals import Shape, Unit, as_shape

_WORD = 2.0**26  # products of two words are exact in doubles
_MULTIPLIER, _KEY_STEP = 56_346_389.0, 41_475_129.0  # odd, below a word
_ROUNDS = 12
_LN2, _SQRT2 = 0.6931471805599453, 1.4142135623730951
# the inverse of the normal distribution (Wichura 1988, AS 241, PPND16), highest power first
_CENTRE = (
    (2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4,
     4.5921953931549871457e4, 1.3731693765509461125e4, 1.9715909503065514427e3,
     1.3314166789178437745e2, 3.3871328727963666080e0),
    (5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4,
     2.1213794301586595867e4, 5.3941960214247511077e3, 6.8718700749205790830e2,
     4.2313330701600911252e1, 1.0),
)  # fmt: skip
_MIDDLE = (
    (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
     1.27045825245236838258e0, 3.64784832476320460504e0, 5.76949722146069140550e0,
     4.63033784615654529590e0, 1.42343711074968357734e0),
    (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
     1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940e0,
     2.05319162663775882187e0, 1.0),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Noise(Block):
    """White noise: every `sample_time` a new number for each element, held in between.

    `distribution` is "normal", with the given mean and standard deviation, or "uniform", with the
    same two. The numbers are a function of `seed`, the sample's number and the element alone
    (`noise_word`), in arithmetic that is exact or in one order, without the mathematical library:
    the same bits in every form and on every machine. `seed` is a whole number of 0 to 2^52 - 1.

    Continuous white noise of power spectral density S, two-sided, has deviation
    sqrt(S / sample_time) here.
    """

    sample_time: float
    seed: int = 0
    deviation: Any = 1.0
    mean: Any = 0.0
    distribution: str = "normal"
    shape: Shape = ()
    unit: Unit = ""

    def __post_init__(self) -> None:
        if self.distribution not in ("normal", "uniform"):
            raise ValueError(f"noise is normal or uniform, not {self.distribution!r}")
        check_seed(self.seed)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """y."""
        return (Port("y", as_shape(self.shape), self.unit, f"{self.distribution} noise", 0.0),)

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """y, and the number of the sample."""
        return (*self.outputs, Port("k", (), "1", "number of the next sample", 0.0))

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """deviation and mean."""
        shape = as_shape(self.shape)
        return (
            Port("deviation", shape, self.unit, "standard deviation", self.deviation, min=0.0),
            Port("mean", shape, self.unit, "mean value", self.mean),
        )

    def update(self, x: Record, p: Record) -> Values:
        shape = as_shape(self.shape)
        words = [noise_word(self.seed, x.k, k) for k in range(int(np.prod(shape)))]
        spread = normal_quantile if self.distribution == "normal" else _uniform
        values = np.array([spread(word) for word in words]).reshape(shape)
        return {"y": p.mean + p.deviation * (values if shape else values[()]), "k": x.k + 1.0}


def check_seed(seed: Any) -> None:
    """Raises ValueError for what is no seed."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not (0 <= seed < 2**52):
        raise ValueError(f"the seed of noise must be a whole number of 0 to 2^52 - 1, not {seed!r}")


def noise_word(seed: int, k: Any, stream: int) -> Any:
    """A number u in (0, 1) from a seed, the number k of a sample below 2^52, and a stream.

    A Feistel network of twelve rounds on two words of 26 bits, whose function is the middle of a
    square:

        (L, R) <- (R, L + mid((M R + key)^2))

    u = (whole number + 1/2) / 2^52: all of it is exact in doubles, and no two k give the same u.
    """
    left = np.floor(k * (1.0 / _WORD))
    right = k - left * _WORD
    keys = (float(seed % 2**26), float(seed // 2**26), float(stream % 2**26))
    for index in range(_ROUNDS):
        key = (keys[index % 3] + (index + 1) * _KEY_STEP) % _WORD
        mixed = _word(right * _MULTIPLIER + key)
        middle = _word(np.floor(mixed * mixed * 2.0**-13))
        left, right = right, _word(left + middle)
    return (left * _WORD + right + 0.5) * 2.0**-52


def _word(value: Any) -> Any:
    """A sum of words without what is above 26 bits."""
    return value - np.floor(value * (1.0 / _WORD)) * _WORD


def _uniform(u: Any) -> Any:
    """A number of mean 0 and deviation 1, even in its interval."""
    return (u - 0.5) * 12.0**0.5


def normal_quantile(u: Any) -> Any:
    """The number below which a standard normal one is with the probability u of (0, 1) (Wichura
    1988, AS 241), in + - * / and square roots alone.

    What is meant there for u > 1e-11 is used as far as 2^-53, where it errs by 1e-12 of the number.
    """
    q = u - 0.5
    r = np.sqrt(-_log(select(q < 0.0, u, 1.0 - u)))
    outside = _ratio(_MIDDLE, r - 1.6)
    inside = q * _ratio(_CENTRE, 0.180625 - q * q)
    return select(abs(q) <= 0.425, inside, select(q < 0.0, -outside, outside))


def _ratio(tables: tuple[tuple[float, ...], tuple[float, ...]], r: Any) -> Any:
    above, below = (_polynomial(table, r) for table in tables)
    return above / below


def _polynomial(coefficients: tuple[float, ...], x: Any) -> Any:
    first, *rest = coefficients
    value: Any = first
    for c in rest:
        value = value * x + c
    return value


def _log(x: Any) -> Any:
    """The natural logarithm of x of [2^-53, 1]: x = m 2^-e with m of [0.7, 1.42], and the series of
    artanh.
    """
    e: Any = 0.0
    for k in (32, 16, 8, 4, 2, 1):
        small = x < 2.0**-k
        x, e = select(small, x * 2.0**k, x), e + select(small, float(k), 0.0)
    small = x < _SQRT2 / 2
    x, e = select(small, x * 2.0, x), e + select(small, 1.0, 0.0)
    s = (x - 1.0) / (x + 1.0)
    odd = tuple(1.0 / k for k in range(21, 0, -2))
    return 2.0 * s * _polynomial(odd, s * s) - e * _LN2
