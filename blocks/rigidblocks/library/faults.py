"""What goes wrong between two ports: a signal that is late, off, noisy, lost or stuck."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.scalar import select
from rigidblocks.block.block import Block, Port, Record, Values
from rigidblocks.library.noise import check_seed, noise_word, normal_quantile
from rigidblocks.library.signals import Shape, Unit, as_shape, filled

_SPIKES, _LOSSES = 2**20, 2**21  # streams of random words, behind those of the noise


@dataclass(frozen=True, eq=False)
class Fault(Block):
    """A signal as a bad sensor or link hands it on, every `sample_time`:

        y = u[k - delay] + bias + deviation n[k] +- spike

    with normal numbers n of the `seed` (`Noise`), and in each element a spike of either sign with
    the probability `spike_rate`. With the probability `dropout` a sample is lost as a whole, and y
    stays what it was; while `stuck` is not zero it stays too. `delay` is a number of samples, whose
    first are `y0`. All but it and the seed are parameters, which a scenario can change: as it is
    made, nothing is wrong with the signal but that it is sampled.
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
        if isinstance(self.delay, bool) or not isinstance(self.delay, int) or self.delay < 0:
            raise ValueError(f"the delay of a fault is a number of samples, not {self.delay!r}")

    @property
    def _shape(self) -> tuple[int, ...]:
        return as_shape(self.shape)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """u."""
        return (Port("u", self._shape, self.unit, "signal"),)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """y."""
        start = filled(self.y0, self._shape)
        return (Port("y", self._shape, self.unit, "signal as it arrives", start),)

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """y, the number of the next sample, and with a delay the samples that are under way."""
        number = Port("k", (), "1", "number of the next sample", 0.0)
        if not self.delay:
            return (*self.outputs, number)
        shape = (self.delay, *self._shape)
        unit = self.unit if isinstance(self.unit, str) else tuple(self.unit) * self.delay
        doc = "samples under way, the oldest first"
        return (*self.outputs, number, Port("way", shape, unit, doc, filled(self.y0, shape)))

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """bias, deviation, spike, spike_rate, dropout and stuck."""
        shape, unit = self._shape, self.unit

        def share(name: str, doc: str) -> Port:
            return Port(name, (), "1", doc, getattr(self, name), min=0.0, max=1.0)

        return (
            Port("bias", shape, unit, "what is added", self.bias),
            Port("deviation", shape, unit, "standard deviation of noise", self.deviation, min=0.0),
            Port("spike", shape, unit, "size of spikes", self.spike),
            share("spike_rate", "probability of a spike"),
            share("dropout", "probability that a sample is lost"),
            share("stuck", "1 while the signal is stuck"),
        )

    def update(self, x: Record, u: Record, p: Record) -> Values:
        arrived = x.way[0] if self.delay else u.u
        size = int(np.prod(self._shape))
        noise = self._array([normal_quantile(self._word(x.k, e)) for e in range(size)])
        spikes = self._array([self._sign(self._word(x.k, _SPIKES + e), p) for e in range(size)])
        value = arrived + p.bias + p.deviation * noise + p.spike * spikes
        lost = self._word(x.k, _LOSSES) < p.dropout
        kept = select(lost, 1.0, select(p.stuck > 0.0, 1.0, 0.0)) > 0.5
        y = select(kept, x.y, value)
        under_way = {"way": np.array([*x.way[1:], u.u])} if self.delay else {}
        return {"y": y, "k": x.k + 1.0, **under_way}

    def _word(self, k: Any, stream: int) -> Any:
        return noise_word(self.seed, k, stream)

    def _sign(self, word: Any, p: Record) -> Any:
        """Which way a spike goes, if there is one."""
        half = 0.5 * p.spike_rate
        return select(word < half, -1.0, select(word < p.spike_rate, 1.0, 0.0))

    def _array(self, values: list[Any]) -> Any:
        array = np.array(values).reshape(self._shape)
        return array if self._shape else array[()]
