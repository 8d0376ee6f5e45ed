"""Signals that are 0 or 1: comparisons, logic, hysteresis and counting."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

from rigidblocks.algebra.scalar import excess, less, piecewise, select
from rigidblocks.block.block import Block, Port, Record, Values
from rigidblocks.library.nonlinear import TRUE
from rigidblocks.library.signals import Shape, Unit, as_shape, filled

_OPERATIONS = ("and", "or", "xor", "nand", "nor", "xnor", "not")
_TABLE: dict[str, Callable[[Any, Any], Any]] = {
    "and": lambda a, b: a * b,
    "or": lambda a, b: a + b - a * b,
    "xor": lambda a, b: a + b - 2.0 * (a * b),
}


def _truth(name: str, shape: tuple[int, ...], doc: str, start: Any = None) -> Port:
    return Port(name, shape, "1", f"{doc}, 0 or 1", start)


def _whether_below(a: Any, b: Any) -> Any:
    """1 where a < b, else 0, as an event."""
    return piecewise(excess(b, a), 1.0, 0.0, select(less(a, b), 1.0, 0.0))


@dataclass(frozen=True, eq=False)
class Compare(Block):
    """Whether u1 < u2, 1 where it is and 0 where it is not, element by element.

    u2 is `threshold` where nothing is connected to it.
    """

    threshold: Any = 0.0
    shape: Shape = ()
    unit: Unit = ""

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """u1 and u2."""
        shape = as_shape(self.shape)
        limit = filled(self.threshold, shape)
        return (
            Port("u1", shape, self.unit, "signal"),
            Port("u2", shape, self.unit, "what it is compared with", limit),
        )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """y."""
        return (_truth("y", as_shape(self.shape), "whether u1 < u2"),)

    def output(self, u: Record) -> Values:
        return {"y": _whether_below(u.u1, u.u2)}


@dataclass(frozen=True, eq=False)
class Logic(Block):
    """Logic of `n` signals u1, u2, ... element by element; what is above 0.5 is true, and the
    result is 0 or 1.

    `operation` is one of and, or, xor, nand, nor, xnor (of all of them: the parity), and not, of
    one.
    """

    operation: str = "and"
    n: int = 2
    shape: Shape = ()

    def __post_init__(self) -> None:
        if self.operation not in _OPERATIONS:
            raise ValueError(
                f"the operation must be one of {', '.join(_OPERATIONS)}, not {self.operation!r}"
            )
        if self.operation == "not":
            object.__setattr__(self, "n", 1)
        if self.n < 1:
            raise ValueError(f"logic needs at least one signal, not {self.n}")

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """u1, u2, ..."""
        shape = as_shape(self.shape)
        return tuple(_truth(f"u{k}", shape, "signal") for k in range(1, self.n + 1))

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """y."""
        return (_truth("y", as_shape(self.shape), f"{self.operation} of all"),)

    def output(self, u: Record) -> Values:
        first, *rest = (_whether_below(TRUE, value) for value in vars(u).values())
        kind = {"nand": "and", "nor": "or", "xnor": "xor"}.get(self.operation, self.operation)
        y = reduce(_TABLE.get(kind, _TABLE["and"]), rest, first)
        return {"y": 1.0 - y if self.operation in ("nand", "nor", "xnor", "not") else y}


@dataclass(frozen=True, eq=False)
class Hysteresis(Block):
    """1 from where u has come above `upper` until it comes below `lower`, looked at every
    `sample_time`; starts as `y0`.
    """

    lower: float
    upper: float
    sample_time: float
    y0: float = 0.0
    unit: str = ""

    def __post_init__(self) -> None:
        if not self.lower < self.upper or self.y0 not in (0, 1):
            raise ValueError(
                "a hysteresis needs lower < upper and y0 of 0 or 1, not "
                f"{self.lower}, {self.upper} and {self.y0}"
            )

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """u."""
        return (Port("u", (), self.unit, "signal"),)

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """y."""
        return (_truth("y", (), "whether u has been above and not yet below", self.y0),)

    @property
    def outputs(self) -> tuple[Port, ...]:
        """y."""
        return self.sampled

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """lower and upper."""
        return (
            Port("lower", (), self.unit, "where y becomes 0", self.lower),
            Port("upper", (), self.unit, "where y becomes 1", self.upper),
        )

    def update(self, x: Record, u: Record, p: Record) -> Values:
        return {"y": select(p.upper < u.u, 1.0, select(u.u < p.lower, 0.0, x.y))}


@dataclass(frozen=True, eq=False)
class Counter(Block):
    """How often u has risen above 0.5, looked at every `sample_time`; a `reset` above 0.5 makes it
    zero.

    With a `limit` it starts again at zero when it reaches that.
    """

    sample_time: float
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"the limit of a counter must be at least 1, not {self.limit}")

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """u and reset."""
        return (
            _truth("u", (), "what is counted"),
            _truth("reset", (), "whether it goes to zero", 0.0),
        )

    @property
    def outputs(self) -> tuple[Port, ...]:
        """y."""
        return self.sampled[:1]

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """y and the last u."""
        return (
            Port("y", (), "1", "count", 0.0),
            _truth("u_last", (), "u at the last sample", 0.0),
        )

    def initial(self, x: Record, u: Record) -> Values:
        return {"y": x.y, "u_last": select(less(TRUE, u.u), 1.0, 0.0)}

    def update(self, x: Record, u: Record) -> Values:
        now = select(less(TRUE, u.u), 1.0, 0.0)
        y = x.y + now * (1.0 - x.u_last)
        y = y if self.limit is None else select(less(y, self.limit - TRUE), y, 0.0)
        return {"y": select(less(TRUE, u.reset), 0.0, y), "u_last": now}
