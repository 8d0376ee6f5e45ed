"""The FMI variables of a block, read off its ports and its trace: the one source of every model description."""

from dataclasses import dataclass
from functools import cached_property

from rigidblocks.block import Port, state_outputs
from rigidblocks.feedthrough import after_sample, after_start
from rigidblocks.flat import FlatBlock
from rigidblocks.trace import Graph


@dataclass(frozen=True)
class Variable:
    """One scalar of a block as FMI describes it; `index` is its place in the flat memory and its value reference."""

    name: str
    index: int
    causality: str
    variability: str
    initial: str | None
    unit: str
    doc: str
    start: float | None


@dataclass(frozen=True, eq=False)
class Variables:
    """The variables of a block in the order of its memory, which starts with the time, and what depends on what."""

    flat: FlatBlock

    @cached_property
    def all(self) -> tuple[Variable, ...]:
        """Every variable; `all[k].index == k`."""
        time = Variable("time", 0, "independent", "continuous", None, "s", "time", None)
        return (time, *(v for port in self.flat.ports for v in self._of_port(port)))

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
        return tuple(v for v in self.all if v.initial != "calculated" and self._after_start.depends[unknown.index, v.index])

    @cached_property
    def _after_sample(self) -> Graph:
        return after_sample(self.flat)

    @cached_property
    def _after_start(self) -> Graph:
        return after_start(self.flat)

    def _with_causality(self, causality: str) -> tuple[Variable, ...]:
        return tuple(v for v in self.all if v.causality == causality)

    def _of_port(self, port: Port) -> list[Variable]:
        where = self.flat.where[port.name]
        causality, variability, initial = self._kind(port, where.start)
        starts: list[float | None] = [None] * port.size
        if initial != "calculated":
            starts = self.flat.start()[where].tolist()
        return [
            Variable(name, index, causality, variability, initial, unit, port.doc, start)
            for index, name, unit, start in zip(
                range(where.start, where.stop), port.element_names, port.units, starts, strict=True
            )
        ]

    def _kind(self, port: Port, index: int) -> tuple[str, str, str | None]:
        """Causality, variability and initial of a port by the segment of the memory that it is in."""
        flat = self.flat
        if flat.u.start <= index < flat.u.stop:
            return "input", "continuous", None
        if flat.p.start <= index < flat.p.stop:
            return "parameter", "tunable", "exact"
        if flat.y.start <= index:
            return "output", "continuous", "calculated"
        causality = "output" if port.name in state_outputs(flat.block) else "local"
        if flat.z.start <= index:
            return causality, "discrete", "exact" if self._after_start.copies.get(index) == index else "calculated"
        return causality, "continuous", "exact"
