"""What a block is: typed ports and pure functions, a frozen record with no memory of its own."""

import abc
import inspect
from collections.abc import Callable, Iterable
from functools import cache, cached_property, wraps
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.check import check
from rigidblocks.block.port import Port, finite, flatten, record
from rigidblocks.block.record import Record, Values
from rigidblocks.pictures import described

__all__ = [
    "Block",
    "Port",
    "Record",
    "Values",
    "call",
    "computed_outputs",
    "finite",
    "flatten",
    "record",
    "state_outputs",
    "takes",
]


ARGUMENTS = ("t", "x", "u", "p")
FUNCTIONS = ("derivative", "project", "margins", "initial", "update", "output")


def takes_some(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of a block, typed as one that may take any of t, x, u and p."""
    return function


class Block(abc.ABC):  # noqa: B024 - every function has a default, no block needs all of them
    """A dynamic system with inputs u, outputs y, states x and parameters p.

        dx/dt = derivative(t, x, u, p)        for the continuous `states`
        x     = project(t, x, u, p)        at the start and after every inner step of the integrator
        x     = update(t, x, u, p)            for the `sampled` states, every `sample_time`
        y     = output(t, x, u, p)

    Subclasses are frozen dataclasses: their fields are structure and start values, nothing is
    remembered between calls. The functions take what they name of t [s] and the records x, u, p
    with the ports as attributes, and return their results by port name. They are pure and run on
    floats and on traced scalars: no `if` on a value that they are given, `select` instead.

    An output port with the name of a state is that state; `output` leaves it out.

    Raises TypeError, where the class is made, for a function that takes something else. Raises
    TypeError or ValueError, where a block is made, for what does not fit together (`check`).
    """

    sample_time: float | None = None

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        if "__repr__" not in vars(cls):  # else dataclass would write out every array
            cls.__repr__ = Block.__repr__  # type: ignore[method-assign]
        for name in FUNCTIONS:
            if name in vars(cls):
                _check_arguments(f"{cls.__name__}.{name}", vars(cls)[name])
        for name in ("__init__", "__post_init__"):  # the last thing that makes a block checks it
            if name in vars(cls):
                setattr(cls, name, _then_checked(name, vars(cls)[name]))

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: not what has been found of it meanwhile, such as a loaded library."""
        kind = type(self)
        return {
            name: value
            for name, value in vars(self).items()
            if not isinstance(getattr(kind, name, None), cached_property)
        }

    def __repr__(self) -> str:
        try:
            sides = (", ".join(map(_port_text, ports)) for ports in (self.inputs, self.outputs))
            return f"<{type(self).__name__}: {' -> '.join(sides)}>"
        except Exception:  # one that is not yet whole, in a message of what is wrong with it
            return f"<{type(self).__name__}>"

    def _repr_html_(self) -> str:
        """What notebooks show: a table of the ports."""
        sides = (("input", self.inputs), ("output", self.outputs), ("parameter", self.parameters))
        rows = (
            (side, port.name, str(port.shape), " ".join(dict.fromkeys(port.units)), port.doc)
            for side, ports in sides
            for port in ports
        )
        return described(type(self).__name__, ("", "port", "shape", "unit", ""), rows)

    def __init__(self, *values: Any, **named: Any) -> None:
        if values or named:
            raise TypeError(
                f"block '{type(self).__name__}' has no fields to take values; write "
                "@dataclass(frozen=True) above its class"
            )
        if type(self).__init__ is Block.__init__:
            check(self, Block)

    def __post_init__(self) -> None:
        if type(self).__post_init__ is Block.__post_init__:
            check(self, Block)

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

    @takes_some
    def derivative(self) -> Values:
        """The rates of the continuous states [unit of the state per s]."""
        return {}

    @takes_some
    def project(self) -> Values:
        """The continuous states moved back to where they belong, at the start and after every inner
        step: a quaternion to unit length.

        A state that is left out stays where it is. Which ones are given may not depend on values.
        """
        return {}

    @takes_some
    def margins(self) -> Any:
        """Numbers (n,) by whose signs one law or another holds, such as the gap of a contact.

        Adaptive methods end a step where a sign changes, so that each has one law. Positive is one
        side, zero and negative the other; how many there are may not depend on values.
        """
        return np.zeros(0)

    @takes_some
    def initial(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        """The sampled states after the start of a run at t, which is a sample instant: by default
        one `update`.
        """
        return call(self, "update", t, x, u, p)

    @takes_some
    def update(self) -> Values:
        """The sampled states after the sample instant t."""
        return {}

    @takes_some
    def output(self) -> Values:
        """The outputs that are not states."""
        return {}

    def longest_hold(self, u: Record, p: Record) -> float:
        """The longest communication step [s] over which the outputs may be held before what they
        drive gets unstable.

        `u` has the values, at the start of a run, of the inputs, and of the inputs of the parts
        from which those come at once. Infinite where nothing is known.
        """
        del u, p
        return float("inf")

    def modes(self, x: Record, p: Record) -> Array:
        """Eigenvalues [1/s] of its differential equation that the block knows of and may come to
        from the states x, those of stiff springs; none unless it says so.
        """
        del x, p
        return np.zeros(0)

    @property
    def conditions(self) -> tuple[tuple[str, str], ...]:
        """Names of outputs that tell how near loops are to a singular configuration: of each its
        condition, large near one, and its rank, smaller there.
        """
        return ()

    def suspects(self, x: Record) -> Iterable[str]:
        """What in the states x may be why a run cannot go on from there."""
        del x
        return ()

    def remarks(self, t: Array, y: Record) -> Iterable[str]:
        """What the log is to say of a run, from the times t (n,) and the outputs (n, *shape) of
        each port at them.
        """
        del t, y
        return ()


def _port_text(port: Port) -> str:
    return f"{port.name} ({', '.join(map(str, port.shape))})" if port.shape else port.name


@cache
def takes(function: Callable[..., Values]) -> tuple[str, ...]:
    """Which of t, x, u and p a function of a class of blocks takes, in its own order."""
    return tuple(inspect.signature(function).parameters)[1:]


def call(block: Block, function: str, t: Any, x: Record, u: Record, p: Record) -> Values:
    """The values by name that a function of the block returns, given what it takes."""
    given = {"t": t, "x": x, "u": u, "p": p}
    names = takes(getattr(type(block), function))
    values: Values = getattr(block, function)(**{name: given[name] for name in names})
    return values


def _then_checked(name: str, function: Callable[..., None]) -> Callable[..., None]:
    """A function that makes a block, which then is checked, by the last of several such classes."""

    @wraps(function)
    def make(self: Block, *values: Any, **named: Any) -> None:
        function(self, *values, **named)
        if getattr(type(self), name) is make:
            check(self, Block)

    return make


def _check_arguments(where: str, function: Any) -> None:
    """Raises TypeError for a function of a block that takes anything but some of t, x, u and p."""
    plain = inspect.Parameter.POSITIONAL_OR_KEYWORD
    first, *rest = inspect.signature(function).parameters.values()
    if first.name in ARGUMENTS:
        raise TypeError(f"{where} has no self; its first argument is self, then some of t, x, u, p")
    for argument in rest:
        if argument.name not in ARGUMENTS or argument.kind is not plain:
            raise TypeError(
                f"{where} takes '{argument}'; a function of a block takes self and what it uses "
                "of t, x, u, p"
            )


def state_outputs(block: Block) -> tuple[str, ...]:
    """The names of the outputs that are states."""
    states = {port.name for port in (*block.states, *block.sampled)}
    return tuple(port.name for port in block.outputs if port.name in states)


def computed_outputs(block: Block) -> tuple[Port, ...]:
    """The outputs that `output` computes."""
    return tuple(port for port in block.outputs if port.name not in state_outputs(block))
