"""The FMI variables of a block, read off its ports and its trace: the one source of every model
description.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from math import isfinite

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Port, state_outputs
from rigidblocks.block.memory import Memory
from rigidblocks.kernels.evaluator import TracedEvaluator
from rigidblocks.kernels.events import Events
from rigidblocks.kernels.feedthrough import after_sample, after_start, rates
from rigidblocks.tracing.trace import Graph

INDICATORS = "event_indicators"
_NAME = r"(?:[A-Za-z_]\w*|'[^']+')(?:\[\d+(?:,\d+)*\])?"
_STRUCTURED = re.compile(rf"{_NAME}(?:\.{_NAME})*", re.ASCII)


@dataclass(frozen=True)
class Variable:
    """One scalar of a block as FMI describes it.

    `index` is its value reference and its place in the flat memory; the rates of the continuous
    states and the event indicators follow behind it.
    """

    name: str
    index: int
    causality: str
    variability: str
    initial: str | None
    unit: str
    doc: str
    start: float | None
    state: int | None = None  # of the rate of a continuous state: the index of the state
    min: float | None = None
    max: float | None = None
    nominal: float | None = None  # 1 where it is None, as FMI has it


@dataclass(frozen=True, eq=False)
class Variables:
    """The variables of a block in the order of its memory, which starts with the time, and what
    depends on what.

    Raises ValueError for a name that is none in FMI's structured convention.
    """

    evaluator: TracedEvaluator

    def __post_init__(self) -> None:
        for port in self.memory.ports:
            if port.name == "time":
                raise ValueError("an FMU has a variable 'time' already; call the port otherwise")
            if not _STRUCTURED.fullmatch(port.name):
                raise ValueError(
                    f"an FMU cannot have a variable '{port.name}': names of parts and ports must "
                    "be letters, digits and _, with no digit first"
                )

    @property
    def memory(self) -> Memory:
        """The layout of the memory."""
        return self.evaluator.memory

    @cached_property
    def all(self) -> tuple[Variable, ...]:
        """Every variable; `all[k].index == k`."""
        time = Variable("time", 0, "independent", "continuous", None, "s", "time", None)
        return (time, *(v for port in self.memory.ports for v in self._of_port(port)))

    @cached_property
    def rates(self) -> tuple[Variable, ...]:
        """The rates of the continuous states, which model exchange has as variables behind all
        others.
        """
        return tuple(_rate(x, self.memory.size + k) for k, x in enumerate(self.all[self.memory.x]))

    @cached_property
    def events(self) -> Events:
        """What model exchange knows of events."""
        return Events(self.evaluator)

    @cached_property
    def indicators(self) -> tuple[Variable, ...]:
        """The event indicators, which FMI 3.0 has as variables behind the rates."""
        first = self.memory.size + len(self.rates)
        return tuple(_indicator(k, first + k) for k in range(self.events.count))

    @property
    def count(self) -> int:
        """How many numbers have a value reference: the first that is left."""
        return len(self.all) + len(self.rates) + len(self.indicators)

    @cached_property
    def inputs(self) -> tuple[Variable, ...]:
        """The inputs."""
        return self._with_causality("input")

    @cached_property
    def outputs(self) -> tuple[Variable, ...]:
        """The outputs, states among them."""
        return self._with_causality("output")

    @cached_property
    def initial_unknowns(self) -> tuple[Variable, ...]:
        """The outputs that are computed at the start."""
        return tuple(v for v in self.outputs if v.initial == "calculated")

    def direct(self, output: Variable) -> tuple[Variable, ...]:
        """The inputs that the output reads at the same instant."""
        return tuple(v for v in self.inputs if self._after_sample.depends[output.index, v.index])

    def at_start(self, unknown: Variable) -> tuple[Variable, ...]:
        """The inputs, parameters and start values that an initial unknown is computed from."""
        reads = self._reads_at_start[unknown.index]
        return tuple(v for v in self.all if v.initial != "calculated" and reads[v.index])

    def flow(self, unknown: Variable) -> tuple[Variable, ...]:
        """The time, continuous states and inputs that an output or a rate is computed from at the
        same instant.
        """
        reads = self._reads[unknown.index]
        return tuple(
            v for v in (self.all[0], *self.all[self.memory.x], *self.inputs) if reads[v.index]
        )

    @cached_property
    def _reads(self) -> Array:
        """Which variable, a row for each of all, of the rates and of the indicators, reads which of
        the memory after a sample instant.
        """
        return np.vstack([self._after_sample.depends, self._rate_reads, self.events.reads])

    @cached_property
    def _reads_at_start(self) -> Array:
        """The same for the start values."""
        started = self._after_start.depends
        behind = (reads @ started for reads in (self._rate_reads, self.events.reads))
        return np.vstack([started, *behind])

    @cached_property
    def _rate_reads(self) -> Array:
        return rates(self.evaluator).depends

    @cached_property
    def _after_sample(self) -> Graph:
        return after_sample(self.evaluator)

    @cached_property
    def _after_start(self) -> Graph:
        return after_start(self.evaluator)

    def _with_causality(self, causality: str) -> tuple[Variable, ...]:
        return tuple(v for v in self.all if v.causality == causality)

    def _of_port(self, port: Port) -> list[Variable]:
        where = self.memory.where[port.name]
        causality, variability, initial = self._kind(port, where.start)
        starts: list[float | None] = [None] * port.size
        if initial != "calculated":
            starts = self.memory.start()[where].tolist()
        indices = range(where.start, where.stop)
        values = (np.ravel(value).tolist() for value in (port.lowest, port.max, port.nominal))
        return [
            Variable(
                name,
                index,
                causality,
                variability,
                initial,
                unit,
                port.doc,
                start,
                None,
                *_worth_saying(low, high, nominal),
            )
            for index, name, unit, start, low, high, nominal in zip(
                indices, port.element_names, port.units, starts, *values, strict=True
            )
        ]

    def _kind(self, port: Port, index: int) -> tuple[str, str, str | None]:
        """Causality, variability and initial of a port by the segment of the memory that it is
        in.
        """
        memory = self.memory
        if memory.u.start <= index < memory.u.stop:
            return "input", "continuous", None
        if memory.p.start <= index < memory.p.stop:
            return "parameter", "tunable", "exact"
        if memory.s.start <= index:
            return "local", "discrete", "calculated"
        if memory.y.start <= index:
            return "output", "continuous", "calculated"
        causality = "output" if port.name in state_outputs(memory.block) else "local"
        if memory.z.start <= index:
            return (
                causality,
                "discrete",
                "exact" if self._after_start.copies.get(index) == index else "calculated",
            )
        return causality, "continuous", "exact"


def _worth_saying(low: float, high: float, nominal: float) -> tuple[float | None, ...]:
    """The bounds and the nominal value where they say something."""
    return (
        low if isfinite(low) else None,
        high if isfinite(high) else None,
        nominal if nominal != 1 else None,
    )


def _rate(x: Variable, index: int) -> Variable:
    """The rate of change of a continuous state."""
    unit = _per_second(x.unit)
    return Variable(
        f"der({x.name})",
        index,
        "local",
        "continuous",
        "calculated",
        unit,
        f"rate of {x.name}",
        None,
        state=x.index,
    )


def _indicator(k: int, index: int) -> Variable:
    """An event indicator."""
    doc = "event indicators: laws become others where one changes its sign"
    name = f"{INDICATORS}[{k + 1}]"
    return Variable(name, index, "local", "continuous", "calculated", "", doc, None)


def _per_second(unit: str) -> str:
    """The unit of the rate of what has the unit: m/s2 of m/s, N.m/rad.s of N.m/rad."""
    if not unit or unit.endswith("/s"):
        return f"{unit}2" if unit else ""
    return f"{unit}.s" if "/" in unit else f"{unit}/s"
