"""A block as functions of one flat vector, the memory that all its forms share.

    memory = [t | continuous states | sampled states | inputs | tunable parameters | computed outputs]

NumPy runs on this vector, the compiled kernel runs on it, and in an FMU a value reference is an index into it.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np

from rigidblocks.block import Block, Port, Values, computed_outputs, flatten, record
from rigidblocks.implicit import integrate_implicitly
from rigidblocks.integrate import Integrator, inner_steps, integrate
from rigidblocks.scalar import select
from rigidblocks.spatial import Array


@dataclass(frozen=True, eq=False)
class FlatBlock:
    """The functions of `block` on its flat memory, with the parameters named in `tunable` in it, all by default.

    The other parameters are constants. Raises ValueError for two ports with one name, and for a name in `tunable` that
    is no parameter.
    """

    block: Block
    tunable: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        known = [port.name for port in self.block.parameters]
        if unknown := sorted(set(self.tunable or ()) - set(known)):
            raise ValueError(f"{self.name} has no parameter {unknown}; it has: {', '.join(known) or 'none'}")
        names = [port.name for ports in self._segments for port in ports]
        if double := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"{self.name} has two ports with the name {double}")
        for port in (*self.block.states, *self.block.sampled):
            if port.start is None:
                raise ValueError(f"the state '{port.name}' of {self.name} needs a start value")

    @property
    def name(self) -> str:
        """The block's type, for messages."""
        return type(self.block).__name__

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """The tunable parameters."""
        chosen = self.block.parameters
        return chosen if self.tunable is None else tuple(port for port in chosen if port.name in self.tunable)

    @cached_property
    def _segments(self) -> tuple[tuple[Port, ...], ...]:
        block = self.block
        return block.states, block.sampled, block.inputs, self.parameters, computed_outputs(block)

    @cached_property
    def _slices(self) -> tuple[slice, ...]:
        ends = np.cumsum([1, *(sum(port.size for port in ports) for ports in self._segments)]).tolist()
        return tuple(slice(a, b) for a, b in itertools.pairwise(ends))

    @property
    def x(self) -> slice:
        """Where the continuous states are."""
        return self._slices[0]

    @property
    def z(self) -> slice:
        """Where the sampled states are."""
        return self._slices[1]

    @property
    def u(self) -> slice:
        """Where the inputs are."""
        return self._slices[2]

    @property
    def p(self) -> slice:
        """Where the tunable parameters are."""
        return self._slices[3]

    @property
    def y(self) -> slice:
        """Where the computed outputs are."""
        return self._slices[4]

    @property
    def size(self) -> int:
        """The length of the memory."""
        return int(self.y.stop)

    @cached_property
    def where(self) -> dict[str, slice]:
        """Where each port is, by name."""
        places, k = {}, 1
        for ports in self._segments:
            for port in ports:
                places[port.name] = slice(k, k + port.size)
                k += port.size
        return places

    @cached_property
    def ports(self) -> tuple[Port, ...]:
        """All ports in the order of the memory, which starts with the time."""
        return tuple(port for ports in self._segments for port in ports)

    @cached_property
    def position(self) -> Array:
        """Which continuous states are positions: their rate is another state."""
        return np.repeat([port.rate is not None for port in self.block.states], [port.size for port in self.block.states])

    def start(self) -> Array:
        """A new memory with the start values; what has none starts at zero, or as near to it as its bounds let it."""
        memory = np.zeros(self.size)
        for port in self.ports:
            memory[self.where[port.name]] = np.ravel(port.within(0.0) if port.start is None else port.start)
        return memory

    def derivative(self, m: Array) -> Array:
        """The rates of the continuous states."""
        return self._evaluate("derivative", self.block.states, m)

    def slopes(self, m: Array) -> tuple[Array, Array]:
        """The exact derivatives of the rates by the continuous states (n, n) and by the time (n,), from the trace.

        Raises ImportError when there is no CasADi.
        """
        values, n = self._rate_slopes(m), self.x.stop - self.x.start
        return values[: n * n].reshape(n, n), values[n * n :]

    @cached_property
    def _rate_slopes(self) -> Any:
        try:  # imported here: a packaged block steps without it, by its compiled kernel or by an explicit method
            from rigidblocks.model_header import rate_slopes
        except ImportError as error:
            raise ImportError(
                f"the exact Jacobian of {self.name}, which linearly implicit methods use, needs CasADi where there is no "
                "compiled kernel: `pip install casadi`, or choose an explicit method"
            ) from error
        return rate_slopes(self)

    @cached_property
    def projects(self) -> bool:
        """Whether the block moves any continuous state back after an inner step."""
        with np.errstate(all="ignore"):  # only the names count
            return bool(self._values("project", self.start()))

    def project(self, m: Array) -> Array:
        """The continuous states moved back to where they belong."""
        values = dict(vars(record(self.block.states, m[self.x])))
        values.update(self._values("project", m))
        return flatten(self.block.states, values, f"{self.name}.project")

    def initial(self, m: Array) -> Array:
        """The sampled states after the start."""
        return self._evaluate("initial", self.block.sampled, m)

    def update(self, m: Array) -> Array:
        """The sampled states after a sample instant."""
        return self._evaluate("update", self.block.sampled, m)

    def output(self, m: Array) -> Array:
        """The computed outputs."""
        return self._evaluate("output", computed_outputs(self.block), m)

    def arguments(self, m: Array) -> tuple[Any, SimpleNamespace, SimpleNamespace, SimpleNamespace]:
        """What the block's functions get: the time and the records x, u and p."""
        x = record((*self.block.states, *self.block.sampled), m[self.x.start : self.z.stop])
        p = SimpleNamespace(**{port.name: port.start for port in self.block.parameters})
        vars(p).update(vars(record(self.parameters, m[self.p])))
        return m[0], x, record(self.block.inputs, m[self.u]), p

    def _evaluate(self, function: str, ports: Iterable[Port], m: Array) -> Array:
        return flatten(ports, self._values(function, m), f"{self.name}.{function}")

    def _values(self, function: str, m: Array) -> Values:
        values: Values = getattr(self.block, function)(*self.arguments(m))
        return values

    def initialized(self, m: Array, t: Any) -> Array:
        """The memory at the start of a run at t: sampled states and outputs computed from the inputs."""
        m = self.put_back(m, t)
        return self.with_outputs(_with(m, self.z, self.initial(m)))

    def advanced(self, m: Array, t: Any, dt: float, method: Integrator, h: float) -> Array:
        """The memory at t + dt, the inputs held: inner steps of at most h, samples where they fall, then the outputs.

        Raises ValueError when dt is not positive or does not fit the block's sample time.
        """
        inner_steps(dt, h)  # refuses a step without end
        spans = sample_spans(self.block.sample_time, dt)
        span = dt / spans
        n = inner_steps(span, h)
        for k in range(spans):
            for j in range(n if self.block.states else 0):
                m = _with(m, self.x, self.integrated(m, t + k * span + j * (span / n), span / n, method))
                m = self.put_back(m, t + k * span + (j + 1) * (span / n))
            m = _with(m, slice(0, 1), t + (k + 1) * span)
            if self.block.sample_time is not None:
                m = _with(m, self.z, select(is_sample(m[0], self.block.sample_time, span), self.update(m), m[self.z]))
        return self.with_outputs(m)

    def integrated(self, m: Array, t: Any, h: float, method: Integrator) -> Array:
        """The continuous states after one step of length h from t, before they are moved back to where they belong."""
        if method.implicit is not None:
            return integrate_implicitly(method, self.rates(m), self._slopes(m), t, m[self.x], h)
        return integrate(method, self.rates(m), t, m[self.x], h, self.position)

    def put_back(self, m: Array, t: Any) -> Array:
        """The memory at t, its continuous states moved back to where they belong."""
        m = _with(m, slice(0, 1), t)
        return _with(m, self.x, self.project(m)) if self.projects else m

    def rates(self, m: Array) -> Any:
        """The rates as a function of the time and the continuous states, all else as in m."""
        return lambda t, x: self.derivative(_with(_with(m, slice(0, 1), t), self.x, x))

    def _slopes(self, m: Array) -> Any:
        return lambda t, x: self.slopes(_with(_with(m, slice(0, 1), t), self.x, x))

    def with_outputs(self, m: Array) -> Array:
        """The memory with its outputs computed from all else in it."""
        return _with(m, self.y, self.output(m))


def sample_spans(sample_time: float | None, dt: float) -> int:
    """The number of equal parts of the step dt, such that a sample can only fall on the end of one.

    Raises ValueError when neither of dt and the sample time is a multiple of the other.
    """
    if sample_time is None:
        return 1
    longer, shorter = sample_time / dt, dt / sample_time
    if longer >= 0.5 and abs(longer - np.rint(longer)) < 1e-6:
        return 1
    if abs(shorter - np.rint(shorter)) > 1e-6:
        raise ValueError(
            f"the step {dt} s does not fit the sample time {sample_time} s: one must be a multiple of the other"
        )
    return int(np.rint(shorter))


def is_sample(t: Any, sample_time: float, span: float) -> Any:
    """Whether t, the end of a span of time, is a sample instant, a multiple of the sample time."""
    if span > sample_time * (1 - 1e-6):
        return True
    return np.abs(t / sample_time - np.floor(t / sample_time + 0.5)) < 1e-6


def _with(m: Array, where: slice, values: Any) -> Array:
    """A copy of m with other values somewhere."""
    copy = m.astype(object) if np.asarray(values).dtype == object else m.copy()
    copy[where] = values
    return copy
