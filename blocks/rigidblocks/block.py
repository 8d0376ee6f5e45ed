"""What a block is: typed ports and pure functions, a frozen record with no memory of its own."""

import abc
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np

from rigidblocks.spatial import Array
from rigidblocks.units import base_units

Values = Mapping[str, Any]


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class Port:
    """A named signal of fixed shape with units, the one source of every description of it.

    `unit` is one unit for all elements, or a tuple with one for each (C order). `start` is the value before the first
    one is computed or connected; an input without one must be connected, and a state always has one. A state whose rate
    of change is another state names that in `rate` (q has the rate qd).

    `min` and `max` are bounds that the values keep by a law, `nominal` is their order of magnitude, 1 unless given; each is
    a number or has the port's shape. Where there is no bound it is infinite.
    """

    name: str
    shape: tuple[int, ...] = ()
    unit: str | tuple[str, ...] = "1"
    doc: str = ""
    start: Any = None
    rate: str | None = None
    min: Any = None
    max: Any = None
    nominal: Any = None

    def __post_init__(self) -> None:
        if isinstance(self.unit, tuple) and len(self.unit) != self.size:
            raise ValueError(
                f"port '{self.name}' of shape {self.shape} has {len(self.unit)} units; it needs {self.size} or one"
            )
        for unit in dict.fromkeys(self.units):
            base_units(unit)  # raises for a unit that is not known
        for name, default in (("min", -np.inf), ("max", np.inf), ("nominal", 1.0)):
            given = default if getattr(self, name) is None else getattr(self, name)
            object.__setattr__(self, name, _shaped(given, self.shape, f"the {name} of port '{self.name}'"))
        if not np.all(self.min <= self.max) or not np.all((self.nominal > 0) & np.isfinite(self.nominal)):
            raise ValueError(
                f"port '{self.name}' needs min <= max and positive nominal values, not min {self.min.tolist()}, "
                f"max {self.max.tolist()} and nominal {self.nominal.tolist()}"
            )
        if self.start is not None:
            object.__setattr__(self, "start", finite(self.start, self.shape, f"the start value of port '{self.name}'"))
            self._check_start()

    def _check_start(self) -> None:
        ports = zip(self.element_names, self.units, *map(np.ravel, (self.start, self.min, self.max)), strict=True)
        for name, unit, start, low, high in ports:
            if not low <= start <= high:
                bound = f"at least {low:g}" if start < low else f"at most {high:g}"
                raise ValueError(f"the start value of {name} is {start:g} {unit}; it must be {bound}")

    def within(self, value: float) -> Array:
        """The values nearest to `value` within the bounds."""
        nearest: Array = np.minimum(np.maximum(value, self.min), self.max)
        return nearest

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def units(self) -> tuple[str, ...]:
        """The unit of each element."""
        return self.unit if isinstance(self.unit, tuple) else (self.unit,) * self.size

    @property
    def element_names(self) -> tuple[str, ...]:
        """The name of each element: `q[1]`, `q[2]`, ... or `f[1,1]`, counted from 1 as FMI does; a scalar is its name."""
        if not self.shape:
            return (self.name,)
        return tuple(f"{self.name}[{','.join(str(k + 1) for k in index)}]" for index in np.ndindex(*self.shape))


def finite(value: Any, shape: tuple[int, ...], what: str) -> Array:
    """`value` as a read-only float array of `shape`, a single number filling it.

    Raises ValueError, with `what` in the message, for another shape or for what is not finite.
    """
    array = _shaped(value, shape, what)
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{what} must be finite, not {array.tolist()}")
    return array


def _shaped(value: Any, shape: tuple[int, ...], what: str) -> Array:
    array = np.array(value, dtype=float)
    if array.shape != shape and array.ndim:
        raise ValueError(f"{what} has shape {array.shape}; it needs shape {shape}")
    array = np.broadcast_to(array, shape).copy()
    array.setflags(write=False)
    return array


class Block(abc.ABC):  # noqa: B024 - every function has a default, no block needs all of them
    """A dynamic system with inputs u, outputs y, states x and parameters p.

        dx/dt = derivative(t, x, u, p)        for the continuous `states`
        x     = project(t, x, u, p)           at the start and after every inner step of the integrator
        x     = update(t, x, u, p)            for the `sampled` states, every `sample_time`
        y     = output(t, x, u, p)

    Subclasses are frozen dataclasses: their fields are structure and start values, nothing is remembered between calls.
    The functions get t [s] and records x, u, p with the ports as attributes, and return their results by port name. They
    are pure and run on floats and on traced scalars: no `if` on a value that they are given, `select` instead.

    An output port with the name of a state is that state; `output` leaves it out.
    """

    sample_time: float | None = None

    @property
    def inputs(self) -> tuple[Port, ...]:
        """The input ports."""
        return ()

    @property
    def outputs(self) -> tuple[Port, ...]:
        """The output ports."""
        return ()

    @property
    def states(self) -> tuple[Port, ...]:
        """The continuous states."""
        return ()

    @property
    def sampled(self) -> tuple[Port, ...]:
        """The sampled states."""
        return ()

    @property
    def parameters(self) -> tuple[Port, ...]:
        """The parameters that may stay tunable in a compiled or packaged block."""
        return ()

    def derivative(self, t: Any, x: SimpleNamespace, u: SimpleNamespace, p: SimpleNamespace) -> Values:
        """The rates of the continuous states [unit of the state per s]."""
        del t, x, u, p
        return {}

    def project(self, t: Any, x: SimpleNamespace, u: SimpleNamespace, p: SimpleNamespace) -> Values:
        """The continuous states moved back to where they belong, at the start and after every inner step: a quaternion
        to unit length.

        A state that is left out stays where it is. Which ones are given may not depend on values.
        """
        del t, x, u, p
        return {}

    def initial(self, t: Any, x: SimpleNamespace, u: SimpleNamespace, p: SimpleNamespace) -> Values:
        """The sampled states after the start of a run at t, which is a sample instant: by default one `update`."""
        return self.update(t, x, u, p)

    def update(self, t: Any, x: SimpleNamespace, u: SimpleNamespace, p: SimpleNamespace) -> Values:
        """The sampled states after the sample instant t."""
        del t, x, u, p
        return {}

    def output(self, t: Any, x: SimpleNamespace, u: SimpleNamespace, p: SimpleNamespace) -> Values:
        """The outputs that are not states."""
        del t, x, u, p
        return {}

    def longest_hold(self, u: SimpleNamespace, p: SimpleNamespace) -> float:
        """The longest communication step [s] over which the outputs may be held before what they drive gets unstable.

        `u` has the values, at the start of a run, of the inputs, and of the inputs of the parts from which those come at
        once. Infinite where nothing is known.
        """
        del u, p
        return float("inf")

    def remarks(self, t: Array, y: SimpleNamespace) -> Iterable[str]:
        """What the log is to say of a run, from the times t (n,) and the outputs (n, *shape) of each port at them."""
        del t, y
        return ()


def state_outputs(block: Block) -> tuple[str, ...]:
    """The names of the outputs that are states."""
    states = {port.name for port in (*block.states, *block.sampled)}
    return tuple(port.name for port in block.outputs if port.name in states)


def computed_outputs(block: Block) -> tuple[Port, ...]:
    """The outputs that `output` computes."""
    return tuple(port for port in block.outputs if port.name not in state_outputs(block))


def record(ports: Iterable[Port], flat: Array) -> SimpleNamespace:
    """The flat values of `ports` as a record with an attribute of its shape for each port."""
    values, k = {}, 0
    for port in ports:
        values[port.name] = flat[k : k + port.size].reshape(port.shape) if port.shape else flat[k]
        k += port.size
    return SimpleNamespace(**values)


def flatten(ports: Iterable[Port], values: Values, where: str) -> Array:
    """The values by name as one flat array in the order of `ports`.

    Raises ValueError, naming `where`, when a value is missing, has another shape or belongs to no port.
    """
    ports = tuple(ports)
    names = [port.name for port in ports]
    if set(names) != set(values):
        raise ValueError(f"{where} returned {sorted(values)}; it must return {sorted(names)}")
    for port in ports:
        if np.shape(values[port.name]) != port.shape:
            raise ValueError(f"{where} returned '{port.name}' of shape {np.shape(values[port.name])}; it needs {port.shape}")
    return np.concatenate([np.ravel(values[name]) for name in names]) if names else np.zeros(0)
