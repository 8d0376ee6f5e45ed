"""Blocks for encoders, inertial measurement units, measurement noise and signal faults."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.block.block import Block, Port, Record, Values
from rigidblocks.dynamics.kinematics import body_velocities, specific_force
from rigidblocks.library.common_ports import gravity_port, joint_ports
from rigidblocks.library.frames import Frame
from rigidblocks.library.signals import (
    Shape,
    Unit,
    broadcast_start,
    check_delay,
    sample_buffer,
    shape_tuple,
    shift_buffer,
)
from rigidblocks.robot.model import Model
from rigidblocks.spatial.scalar import select

_WORD = 2.0**26  # words have 26 bits, so a product of two words is exact in double precision
_MULTIPLIER, _KEY_STEP = 56_346_389.0, 41_475_129.0  # odd numbers below 2^26
_ROUNDS = 12
_LN2, _SQRT2 = 0.6931471805599453, 1.4142135623730951
# coefficients of the inverse normal distribution (Wichura 1988, AS 241 PPND16), highest power first
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
    """White noise with a new random value for each element every `sample_time` [s].

    The block holds the values between the samples. `distribution` is "normal" or "uniform". The
    values have the mean `mean` and the standard deviation `deviation`. They depend only on `seed`,
    the sample index and the element index (`uniform_noise`). `seed` is an integer from 0 up to
    2^52 - 1.

    All operations are exact or have a fixed order, and no operation calls the C mathematical
    library. The values are therefore bit-identical in all forms of execution and on all machines.

    To approximate continuous white noise with the two-sided power spectral density S, set the
    deviation to sqrt(S / sample_time).

    Raises:
        ValueError: The distribution is unknown or the seed is invalid.
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
            raise ValueError(
                f"the noise distribution must be normal or uniform, not {self.distribution!r}"
            )
        check_seed(self.seed)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Port of the output y, the random values."""
        return (Port("y", shape_tuple(self.shape), self.unit, f"{self.distribution} noise", 0.0),)

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """Ports of the sampled states: the random values y, and the index k of the next sample."""
        return (*self.outputs, Port("k", (), "1", "index of the next sample", 0.0))

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Ports of the parameters `deviation` and `mean`."""
        shape = shape_tuple(self.shape)
        return (
            Port("deviation", shape, self.unit, "standard deviation", self.deviation, min=0.0),
            Port("mean", shape, self.unit, "mean value", self.mean),
        )

    def update(self, x: Record, p: Record) -> Values:
        shape = shape_tuple(self.shape)
        words = [uniform_noise(self.seed, x.k, k) for k in range(int(np.prod(shape)))]
        spread = normal_quantile if self.distribution == "normal" else _uniform
        values = np.array([spread(word) for word in words]).reshape(shape)
        return {"y": p.mean + p.deviation * (values if shape else values[()]), "k": x.k + 1.0}


def check_seed(seed: Any) -> None:
    """Raise ValueError if a noise seed is not an integer from 0 to 2^52 - 1."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not (0 <= seed < 2**52):
        raise ValueError(f"the noise seed must be an integer from 0 to 2^52 - 1, not {seed!r}")


def uniform_noise(seed: int, k: Any, stream: int) -> Any:
    """Return a uniformly distributed pseudorandom number in (0, 1).

    The generator is a Feistel network with twelve rounds. It splits k into two words L and R of 26
    bits. Each round computes, modulo 2^26,

        (L, R) <- (R, L + mid(M R + key))

    The function mid returns the middle bits of the square of its argument. M is a constant. The key
    depends on the seed, the stream and the round. The result is (2^26 L + R + 1/2) / 2^52. All
    operations are exact in double precision. Different sample indices give different results.

    Args:
        seed: Integer from 0 to 2^52 - 1.
        k: Sample index below 2^52, as a float or a traced scalar.
        stream: Index of an independent sequence, such as an element index.
    """
    left = np.floor(k * (1.0 / _WORD))
    right = k - left * _WORD
    keys = (float(seed % 2**26), float(seed // 2**26), float(stream % 2**26))
    for index in range(_ROUNDS):
        key = (keys[index % 3] + (index + 1) * _KEY_STEP) % _WORD
        mixed = _low_bits(right * _MULTIPLIER + key)
        middle = _low_bits(np.floor(mixed * mixed * 2.0**-13))
        left, right = right, _low_bits(left + middle)
    return (left * _WORD + right + 0.5) * 2.0**-52


def _low_bits(value: Any) -> Any:
    """Return the lowest 26 bits of a nonnegative integer, given as a float or a traced scalar."""
    return value - np.floor(value * (1.0 / _WORD)) * _WORD


def _uniform(u: Any) -> Any:
    """Scale a uniform random number u in (0, 1) to mean 0 and standard deviation 1."""
    return (u - 0.5) * 12.0**0.5


def normal_quantile(u: Any) -> Any:
    """Return the quantile of the standard normal distribution at the probability u in (0, 1).

    The function is the approximation AS 241 (Wichura 1988) and uses only + - * / and square roots.
    The approximation is designed for u > 1e-11. The relative error of the result is 1e-12 down to u
    = 2^-53, the smallest probability that the noise uses.
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
    """Return the natural logarithm of x in [2^-53, 1], computed without the C library.

    The function decomposes x = m 2^-e with m in [0.7, 1.42] and evaluates the artanh series for m.
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


@dataclass(frozen=True, eq=False)
class Encoder(Block):
    """Incremental encoders of n joints, which measure quantized positions and velocities.

        q_meas[k] = resolution floor(q / resolution + 1/2)
        qd_meas[k] = (q_meas[k] - q_meas[k-1]) / sample_time

    The encoders sample every `sample_time` [s] and hold the outputs between the samples. The error
    of q_meas is at most half the resolution. The velocity qd_meas is zero at the first sample and a
    multiple of resolution / sample_time afterwards. `resolution` (n,) is in rad, or in m for joints
    whose element of `prismatic` is True.

    Raises:
        ValueError: `resolution` is not a vector.
    """

    resolution: Any
    sample_time: float
    prismatic: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        if np.ndim(self.resolution) != 1 or np.size(self.resolution) == 0:
            raise ValueError(
                f"the resolution of an encoder needs shape (n,), not {np.shape(self.resolution)}"
            )

    @property
    def _n(self) -> int:
        return len(self.resolution)

    @cached_property
    def _units(self) -> tuple[str, ...]:
        return tuple("m" if slides else "rad" for slides in self.prismatic or (False,) * self._n)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Input port for the joint positions q (n,)."""
        return (Port("q", (self._n,), self._units, "joint positions"),)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output ports for the measured positions q_meas (n,) and velocities qd_meas (n,)."""
        return (
            Port("q_meas", (self._n,), self._units, "measured positions", 0.0),
            Port(
                "qd_meas",
                (self._n,),
                tuple(f"{unit}/s" for unit in self._units),
                "velocities by backward difference",
                0.0,
            ),
        )

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """Sampled state ports for q_meas, qd_meas, and `primed`.

        `primed` is 0 before the first sample and 1 afterwards.
        """
        return (*self.outputs, Port("primed", (), "1", "1 after the first sample, else 0", 0.0))

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Parameter port for the resolution (n,) [rad or m]."""
        return (
            Port(
                "resolution",
                (self._n,),
                self._units,
                "resolution of the position",
                self.resolution,
                positive=True,
            ),
        )

    def update(self, x: Record, u: Record, p: Record) -> Values:
        q = p.resolution * np.floor(u.q / p.resolution + 0.5)
        return {
            "q_meas": q,
            "qd_meas": select(x.primed, (q - x.q_meas) / self.sample_time, 0.0),
            "primed": 1.0,
        }


@dataclass(frozen=True, eq=False)
class IMU(Block):
    """Inertial measurement unit (gyroscope and accelerometer) at the origin of the frame `frame`.

        gyro = w,  accelerometer = a' - a_g        both in frame coordinates

    w is the angular velocity of the frame, and a_g is gravity. a' is the classical acceleration of
    the frame origin, the time derivative of its velocity v. The linear component a of the spatial
    acceleration of the frame gives a' = a + w x v (RBDA Eq 2.50). At rest, the accelerometer
    measures an upward acceleration with the magnitude of gravity.
    """

    model: Model
    frame: Frame

    def __post_init__(self) -> None:
        self.frame.body_of(self.model)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Input ports for the joint motion q (nq,), qd (nv,) and qdd (nv,)."""
        return joint_ports(
            self.model, q="joint positions", qd="joint velocities", qdd="joint accelerations"
        )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output ports for the angular velocity `gyro` and the specific force `accelerometer`."""
        return (
            Port("gyro", (3,), "rad/s", f"angular velocity, coordinates of {self.frame.name}"),
            Port(
                "accelerometer",
                (3,),
                "m/s2",
                f"acceleration minus gravity, coordinates of {self.frame.name}",
            ),
        )

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Port of the parameter gravity (3,) [m/s^2]."""
        return (gravity_port(self.model),)

    def output(self, u: Record, p: Record) -> Values:
        body, E, r = self.frame.body_of(self.model), self.frame.placement.E, self.frame.placement.r
        w = body_velocities(self.model, u.q, u.qd)[body][:3]
        f = specific_force(self.model, u.q, u.qd, u.qdd, body, r, p.gravity)
        return {"gyro": E @ w, "accelerometer": E @ f}


_SPIKES, _LOSSES = 2**20, 2**21  # first stream indices of spikes and losses, above the noise


@dataclass(frozen=True, eq=False)
class Fault(Block):
    """Model of a faulty sensor or communication link, which samples and corrupts a signal.

        y = u[k - delay] + bias + deviation n[k] +- spike

    The block samples every `sample_time` [s]. n[k] are standard normal random values that depend on
    `seed` (`Noise`). In each sample, an element has a spike of random sign with the probability
    `spike_rate`. With the probability `dropout`, the whole sample is lost and y does not change. y
    also does not change while `stuck` is not zero. `delay` is a number of samples. Until the first
    sample arrives, y is `y0`.

    bias, deviation, spike, spike_rate, dropout and stuck are parameters, which a scenario can
    change. With the default values, the block samples the signal without errors.
    """

    sample_time: float
    shape: Shape = ()
    unit: Unit = ""
    delay: int = 0
    seed: int = 0
    bias: Any = 0.0
    deviation: Any = 0.0
    spike: Any = 0.0
    spike_rate: float = 0.0
    dropout: float = 0.0
    stuck: float = 0.0
    y0: Any = 0.0

    def __post_init__(self) -> None:
        check_seed(self.seed)
        check_delay("the delay of a fault", self.delay, 0)

    @property
    def _shape(self) -> tuple[int, ...]:
        return shape_tuple(self.shape)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Port of the input signal u."""
        return (Port("u", self._shape, self.unit, "signal"),)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Port of the output y, the faulty signal."""
        start = broadcast_start(self.y0, self._shape)
        return (Port("y", self._shape, self.unit, "received signal", start),)

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """Ports of the sampled states: y, the index of the next sample, and the delayed samples."""
        number = Port("k", (), "1", "index of the next sample", 0.0)
        buffer = sample_buffer(self.delay, self._shape, self.unit, self.y0, "way")
        return (*self.outputs, number, *buffer)

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Ports of the parameters bias, deviation, spike, spike_rate, dropout and stuck."""
        shape, unit = self._shape, self.unit

        def share(name: str, doc: str) -> Port:
            return Port(name, (), "1", doc, getattr(self, name), min=0.0, max=1.0)

        return (
            Port("bias", shape, unit, "added bias", self.bias),
            Port("deviation", shape, unit, "standard deviation of noise", self.deviation, min=0.0),
            Port("spike", shape, unit, "size of spikes", self.spike),
            share("spike_rate", "probability of a spike"),
            share("dropout", "probability that a sample is lost"),
            share("stuck", "1 while the signal is stuck"),
        )

    def update(self, x: Record, u: Record, p: Record) -> Values:
        arrived = x.way[0] if self.delay else u.u
        size = int(np.prod(self._shape))
        noise = self._array([normal_quantile(self._noise(x.k, e)) for e in range(size)])
        spikes = self._array([self._sign(self._noise(x.k, _SPIKES + e), p) for e in range(size)])
        value = arrived + p.bias + p.deviation * noise + p.spike * spikes
        lost = self._noise(x.k, _LOSSES) < p.dropout
        kept = select(lost, 1.0, select(p.stuck > 0.0, 1.0, 0.0)) > 0.5
        y = select(kept, x.y, value)
        under_way = {"way": shift_buffer(x.way, u.u)} if self.delay else {}
        return {"y": y, "k": x.k + 1.0, **under_way}

    def _noise(self, k: Any, stream: int) -> Any:
        return uniform_noise(self.seed, k, stream)

    def _sign(self, noise: Any, p: Record) -> Any:
        """Return the sign of a spike, +1 or -1, or 0 for no spike.

        `noise` is a uniform random number in (0, 1). p contains the probability `spike_rate`.
        """
        half = 0.5 * p.spike_rate
        return select(noise < half, -1.0, select(noise < p.spike_rate, 1.0, 0.0))

    def _array(self, values: list[Any]) -> Any:
        array = np.array(values).reshape(self._shape)
        return array if self._shape else array[()]
