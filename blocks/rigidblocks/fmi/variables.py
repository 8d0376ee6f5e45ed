"""FMI variables of a block and their dependencies, as input of the model descriptions."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from math import isfinite

import numpy as np

from rigidblocks.block.block import Port, state_outputs
from rigidblocks.block.memory_layout import Memory
from rigidblocks.common.arrays import Array
from rigidblocks.kernels.event_indicators import Events
from rigidblocks.kernels.traced_evaluator import TracedEvaluator, rates, sample_graph, start_graph
from rigidblocks.tracing.trace import Graph

INDICATORS = "event_indicators"
_NAME = r"(?:[A-Za-z_]\w*|'[^']+')(?:\[\d+(?:,\d+)*\])?"
_STRUCTURED = re.compile(rf"{_NAME}(?:\.{_NAME})*", re.ASCII)


@dataclass(frozen=True)
class Variable:
    """Scalar FMI variable of a block.

    `index` is the value reference. For elements of the memory vector, it is also the memory index.
    The state derivatives and event indicators have higher indices. For a state derivative, `state`
    is the index of the state. The other fields are FMI attributes.
    """

    name: str
    index: int
    causality: str
    variability: str
    initial: str | None
    unit: str
    doc: str
    start: float | None
    state: int | None = None  # for a state derivative: the index of its continuous state
    min: float | None = None
    max: float | None = None
    nominal: float | None = None  # None means 1, as in FMI


@dataclass(frozen=True, eq=False)
class Variables:
    """FMI variables of a block and their dependencies.

    The variables are in memory order, and the first variable is the time. In FMI 3.0, a port is an
    array variable. If `arrays` is False, each element of a port is a scalar variable. The ports in
    `binary` are binary variables, which contain the elements as little-endian doubles.

    Raises:
        ValueError: A name does not follow the FMI structured naming convention, or a port cannot be
            a binary variable.
    """

    evaluator: TracedEvaluator
    arrays: bool = True
    binary: frozenset[str] = frozenset()
    resizable: bool = False

    def __post_init__(self) -> None:
        self._check_binary()
        for port in self.memory.ports:
            if port.name == "time":
                raise ValueError("the name 'time' is reserved in an FMU; rename the port")
            if not _STRUCTURED.fullmatch(port.name):
                raise ValueError(
                    f"an FMU cannot have a variable '{port.name}': names of parts and ports must "
                    "consist of letters, digits and _ and must not begin with a digit"
                )

    def _check_binary(self) -> None:
        """Raise ValueError if a port in `binary` is not an input, parameter or computed output."""
        memory = self.memory
        ranges = (memory.u, memory.p, memory.y)
        fitting = [
            port.name
            for port in memory.ports
            if port.size and any(r.start <= memory.where[port.name].start < r.stop for r in ranges)
        ]
        if wrong := sorted(self.binary - set(fitting)):
            raise ValueError(
                f"'{wrong[0]}' cannot be a binary variable; inputs, tunable parameters and outputs "
                f"that are not states can: {', '.join(fitting) or 'none'}"
            )
        if self.binary and not self.arrays:
            raise ValueError("binary variables need arrays=True")

    @property
    def memory(self) -> Memory:
        """Memory layout of the block."""
        return self.evaluator.memory

    @cached_property
    def all(self) -> tuple[Variable, ...]:
        """Variables of the time and of all port elements; `all[k].index == k`."""
        time = Variable("time", 0, "independent", "continuous", None, "s", "time", None)
        return (time, *(v for port in self.memory.ports for v in self._port_variables(port)))

    @cached_property
    def rates(self) -> tuple[Variable, ...]:
        """Derivatives of the continuous states, with indices after the memory indices."""
        return tuple(_rate(x, self.memory.size + k) for k, x in enumerate(self.all[self.memory.x]))

    @cached_property
    def events(self) -> Events:
        """Event indicators, and expression graphs with held branches (see `Events`)."""
        return Events(self.evaluator)

    @cached_property
    def indicators(self) -> tuple[Variable, ...]:
        """Event indicators, with indices after the indices of the state derivatives."""
        first = self.memory.size + len(self.rates)
        return tuple(_indicator(k, first + k) for k in range(self.events.count))

    @property
    def count(self) -> int:
        """Number of value references; this number is also the first unused value reference."""
        return len(self.all) + len(self.rates) + len(self.indicators)

    @cached_property
    def inputs(self) -> tuple[Variable, ...]:
        """Variables of the inputs."""
        return self._filter_by_causality("input")

    @cached_property
    def outputs(self) -> tuple[Variable, ...]:
        """Output variables, including the states."""
        return self._filter_by_causality("output")

    @cached_property
    def initial_unknowns(self) -> tuple[Variable, ...]:
        """Initial unknowns: outputs and dependent start values, which the FMU computes."""
        return tuple(
            v
            for v in self.all
            if v.initial == "approx" or (v.causality == "output" and v.initial == "calculated")
        )

    def feedthrough_inputs(self, output: Variable) -> tuple[Variable, ...]:
        """Return the inputs with direct feedthrough to an output."""
        return tuple(v for v in self.inputs if self._sample_graph.depends[output.index, v.index])

    def start_dependencies(self, unknown: Variable) -> tuple[Variable, ...]:
        """Return the inputs, parameters and initial states on which an initial unknown depends."""
        reads = self._reads_at_start[unknown.index]
        known = (v for v in self.all if v.initial not in ("calculated", "approx"))
        return tuple(v for v in known if reads[v.index])

    def dependencies(self, unknown: Variable) -> tuple[Variable, ...]:
        """Return the time, states and inputs on which an output or derivative depends."""
        reads = self._reads[unknown.index]
        return tuple(
            v for v in (self.all[0], *self.all[self.memory.x], *self.inputs) if reads[v.index]
        )

    @cached_property
    def _reads(self) -> Array:
        """Boolean matrix of dependencies during a run.

        Element (k, i) is True if the variable k depends on the memory element i.
        """
        return np.vstack([self._sample_graph.depends, self._rate_reads, self.events.reads])

    @cached_property
    def _reads_at_start(self) -> Array:
        """Boolean matrix of dependencies at initialization.

        Element (k, i) is True if the variable k depends on the start value i.
        """
        started = self._start_graph.depends
        reads_of_outputs = (reads @ started for reads in (self._rate_reads, self.events.reads))
        return self._replace_dependent_starts(np.vstack([started, *reads_of_outputs]))

    def _replace_dependent_starts(self, reads: Array) -> Array:
        """Replace the dependent start values in a copy of the dependency matrix `reads`.

        A dependent start value is computed from other start values. In the copy, variables depend
        on these other start values instead of the dependent start value.
        """
        found: Array = reads.copy()
        for relation in self.memory.start_relations:
            rows = found[:, relation.state].copy()
            found[:, relation.state] = False
            for cause in relation.source_indices:
                found[:, cause] |= rows
        return found

    @cached_property
    def _dependent_starts(self) -> frozenset[int]:
        """Indices of the states whose start values are computed from other start values."""
        return frozenset(relation.state for relation in self.memory.start_relations)

    @cached_property
    def _rate_reads(self) -> Array:
        return rates(self.evaluator).depends

    @cached_property
    def _sample_graph(self) -> Graph:
        return sample_graph(self.evaluator)

    @cached_property
    def _start_graph(self) -> Graph:
        return start_graph(self.evaluator)

    @cached_property
    def resizable_size(self) -> int:
        """Number of elements in the last dimension of the resizable arrays.

        Raises:
            ValueError: The inputs do not have a common last dimension.
        """
        sizes = {port.shape[-1] for port in self.memory.block.inputs if port.shape}
        if len(sizes) != 1:
            raise ValueError(
                "resizable arrays need inputs with a common last dimension, not inputs of shape "
                + (", ".join(str(port.shape) for port in self.memory.block.inputs) or "none")
            )
        return sizes.pop()

    @cached_property
    def resizable_ports(self) -> frozenset[str]:
        """Names of the ports with a resizable last dimension.

        Raises:
            ValueError: A variable depends on an element of these ports with a different index in
                the last dimension, so the block supports only one size.
        """
        memory, size = self.memory, self.resizable_size
        ports = [port for port in memory.ports if port.shape and port.shape[-1] == size]
        place = np.full(memory.size, -1)  # index in the last dimension, or -1
        for port in ports:
            where = memory.where[port.name]
            place[where] = np.arange(where.stop - where.start) % size
        for graph in (self._sample_graph, self._start_graph):
            for row, column in zip(*np.nonzero(graph.depends), strict=True):
                if place[column] >= 0 and place[row] != place[column]:
                    raise ValueError(
                        f"the arrays cannot be resizable: {self.all[row].name} depends on "
                        f"{self.all[column].name}"
                    )
        return frozenset(port.name for port in ports)

    @cached_property
    def sampled_elements(self) -> frozenset[int]:
        """Indices of the sampled states, the discrete inputs and the discrete outputs.

        Inputs and outputs are continuous or discrete. An output is continuous if it depends on the
        time, on a continuous state or on a continuous input. An input is continuous if a state
        derivative, an event indicator or a continuous output depends on it. If one element of a
        port is continuous, all elements of the port are continuous.
        """
        memory = self.memory
        ports = [memory.where[port.name] for port in memory.ports if port.size]
        reads = np.zeros((memory.size, memory.size), dtype=bool)
        reads[memory.y] = self.evaluator.graph("output").depends
        moving: Array = np.logical_or.reduce(
            [*self._rate_reads, *self.events.reads, np.zeros(memory.size, bool)]
        )
        moving[memory.z] = moving[memory.p] = False
        moving[0] = moving[memory.x] = True
        before = np.zeros_like(moving)
        while not np.array_equal(before, moving):
            before = moving.copy()
            for where in ports:
                moving[where] |= moving[where].any()
            moving |= reads @ moving
            acting: Array = np.logical_or.reduce(reads[moving])
            moving[memory.u] |= acting[memory.u]
        ranges = (memory.z, memory.u, memory.y)
        return frozenset(k for r in ranges for k in range(r.start, r.stop) if not moving[k])

    def _filter_by_causality(self, causality: str) -> tuple[Variable, ...]:
        return tuple(v for v in self.all if v.causality == causality)

    def _port_variables(self, port: Port) -> list[Variable]:
        where = self.memory.where[port.name]
        causality, variability, initial = self._kind(port, where.start)
        if port.name in self.binary and variability == "continuous":
            variability = "discrete"
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
                *_omit_defaults(low, high, nominal),
            )
            for index, name, unit, start, low, high, nominal in zip(
                indices, port.element_names, port.units, starts, *values, strict=True
            )
        ]

    def _kind(self, port: Port, index: int) -> tuple[str, str, str | None]:
        """Return the FMI attributes causality, variability and initial of a port element."""
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
        exact = "approx" if index in self._dependent_starts else "exact"
        if memory.z.start <= index:
            return (
                causality,
                "discrete",
                exact if self._start_graph.copies.get(index) == index else "calculated",
            )
        return causality, "continuous", exact


def _omit_defaults(low: float, high: float, nominal: float) -> tuple[float | None, ...]:
    """Return (minimum, maximum, nominal value), with None in place of FMI default values."""
    return (
        low if isfinite(low) else None,
        high if isfinite(high) else None,
        nominal if nominal != 1 else None,
    )


def _rate(x: Variable, index: int) -> Variable:
    """Return the FMI variable of the time derivative of the continuous state x."""
    unit = _derivative_unit(x.unit)
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
    """Return the FMI variable of the k-th event indicator, counted from 0."""
    doc = "event indicators: a sign change selects another law"
    name = f"{INDICATORS}[{k + 1}]"
    return Variable(name, index, "local", "continuous", "calculated", "", doc, None)


def _derivative_unit(unit: str) -> str:
    """Return the unit of the time derivative of a quantity, for example m/s2 for the unit m/s."""
    if not unit or unit.endswith("/s"):
        return f"{unit}2" if unit else ""
    return f"{unit}.s" if "/" in unit else f"{unit}/s"


def sparsity_header(variables: Variables) -> str:
    """Return the text of sparsity.h, a C header in FMI 3.0 FMUs.

    The header contains the dependencies of each scalar unknown, and the list of variables that are
    available in intermediate updates.
    """
    unknowns = sorted(
        (*variables.outputs, *variables.rates, *variables.indicators), key=lambda v: v.index
    )
    started = sorted((*variables.initial_unknowns, *variables.rates), key=lambda v: v.index)
    every = (*variables.all, *variables.rates, *variables.indicators)
    seen = ", ".join(str(int(is_in_intermediate_updates(v))) for v in every)
    return "\n".join(
        [
            "#ifndef RB_SPARSITY_H\n#define RB_SPARSITY_H\n",
            "/* dependencies of the elements of unknowns: sorted pairs, and one unused pair at "
            "the end */",
            *_table("RB_IN_THE_RUN", unknowns, variables.dependencies),
            *_table("RB_AT_START", started, variables.start_dependencies),
            "/* which variables may be used in intermediate updates */",
            f"static const unsigned char RB_INTERMEDIATE_UPDATE[] = {{{seen}}};\n",
            "#endif\n",
        ]
    )


def is_in_intermediate_updates(variable: Variable) -> bool:
    """Return True if a variable is available in FMI 3.0 intermediate updates.

    Continuous inputs and continuous outputs are available.
    """
    return variable.variability == "continuous" and variable.causality in ("input", "output")


def _table(
    name: str, unknowns: Iterable[Variable], knowns: Callable[[Variable], Iterable[Variable]]
) -> Iterable[str]:
    rows = [
        f"{{{unknown.index}, {known.index}}}" for unknown in unknowns for known in knowns(unknown)
    ]
    yield f"enum {{ {name}_ROWS = {len(rows)} }};"
    yield f"static const unsigned short {name}[][2] = {{{', '.join([*rows, '{0, 0}'])}}};"
