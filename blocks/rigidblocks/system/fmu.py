"""FMU files as parts of a system: what an FMU says of itself, as ports."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

import fmpy

from rigidblocks.block.block import Port
from rigidblocks.block.quantities import Quantity
from rigidblocks.kernels.feedthrough import ElementPair
from rigidblocks.system.fmu_file import (
    CO_SIMULATION,
    FmuError,
    Intervals,
    chosen_kind,
    no_binary,
    read_description,
)
from rigidblocks.system.fmu_ports import Elements, elements_of, port_of, unit_meanings
from rigidblocks.system.fmu_sources import check_compiler, source_sets
from rigidblocks.system.remote import RemoteFile

__all__ = ["Fmu", "FmuError"]
_SETTABLE = ("exact", "approx")


@dataclass(frozen=True, eq=False)
class Fmu:
    """An FMU file of FMI 2.0 or 3.0 with its variables as ports.

    It is taken as `kind`, "co-simulation" or "model exchange"; without one as the first that it
    is. The variables `q[1]`, `q[2]`, ... of one causality that fill an array, in whatever order the
    file has them, are one port `q`; any others are ports of their own, such as `q[7]`.

    One that a server runs (`RemoteFile`) is described by it. `digest` is that of such a file.

    Without a binary for this platform its C sources are compiled, where it has them and there is a
    compiler: `sources` are the sets of those. Raises FmuError for a file that is missing, damaged,
    unsafe to unpack, of another FMI version or kind, or with neither.
    """

    path: Path | RemoteFile
    kind: str | None = None
    description: Any = field(init=False)
    intervals: Intervals = field(init=False)
    sources: tuple[Any, ...] = field(init=False)
    digest: str = field(init=False, default="")

    def __post_init__(self) -> None:
        names = None
        if isinstance(self.path, RemoteFile):
            description, intervals, digest = self.path.described()
            object.__setattr__(self, "digest", digest)
        else:
            description, names, intervals = read_description(self.path)
        object.__setattr__(self, "intervals", intervals)
        object.__setattr__(self, "description", description)
        object.__setattr__(self, "kind", chosen_kind(self.path, description, self.kind))
        object.__setattr__(self, "sources", () if names is None else self._sources(names))

    def _sources(self, names: list[str]) -> tuple[Any, ...]:
        """The sets of sources of a file with these names in it; none where it has a binary."""
        if self.library in names:
            return ()
        sources = source_sets(self.description, self.interface.modelIdentifier, names)
        if not sources:
            raise no_binary(self.file, names, PurePosixPath(self.library).parts[1])
        check_compiler(self.file)
        return tuple(sources)

    @property
    def file(self) -> Path:
        """The file; raises FmuError for one that a server has."""
        if isinstance(self.path, RemoteFile):
            raise FmuError(f"'{self.path}' is a server's, which alone can open it")
        return self.path

    @property
    def library(self) -> str:
        """The name of its library for this platform among its files."""
        folder = fmpy.platform if self.version == 2 else fmpy.platform_tuple
        name = self.interface.modelIdentifier + fmpy.sharedLibraryExtension
        return f"binaries/{folder}/{name}"

    @property
    def version(self) -> int:
        """The version of FMI, 2 or 3."""
        return int(str(self.description.fmiVersion)[0])

    @property
    def interface(self) -> Any:
        """What the model description says of the kind that it is taken as."""
        is_co_simulation = self.kind == CO_SIMULATION
        return self.description.coSimulation if is_co_simulation else self.description.modelExchange

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """The inputs; FMI gives each a start value."""
        return self._ports("input")

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """The outputs."""
        return self._ports("output")

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """The parameters."""
        return self._ports("parameter")

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """What else has a start value that may be set: outputs and local variables with an exact or
        approximate start.
        """
        ports = (*self._ports("output", settable=True), *self._ports("local", settable=True))
        return tuple(port for port in ports if port.start is not None)

    @cached_property
    def feedthrough(self) -> frozenset[tuple[str, str]]:
        """The pairs (input, output) that the model structure declares; all pairs of an output that
        it is silent about.
        """
        port_of = {v.name: name for name, group in self._arrays.items() for v in group.variables}
        inputs, outputs = ({p.name for p in ports} for ports in (self.inputs, self.outputs))
        pairs = set()
        for unknown in self.description.outputs:
            known = unknown.dependencies
            names = inputs if known is None else {port_of.get(v.name, "") for v in known} & inputs
            output = port_of.get(unknown.variable.name, "")
            pairs |= {(name, output) for name in names if output in outputs}
        return frozenset(pairs)

    @cached_property
    def element_feedthrough(self) -> frozenset[ElementPair]:
        """The same of the elements of ports, each by its place; of an array of FMI 3.0 that is one
        variable, every element depends on what the variable depends on.
        """
        places: dict[str, list[tuple[str, int]]] = {}
        for port in (*self.inputs, *self.outputs):
            names = [v.name for v in self._arrays[port.name].variables]
            several = len(names) > 1
            for k in range(port.size):
                places.setdefault(names[k if several else 0], []).append((port.name, k))
        inputs = {port.name for port in self.inputs}
        every = [place for some in places.values() for place in some if place[0] in inputs]
        pairs = set[ElementPair]()
        for unknown in self.description.outputs:
            known = unknown.dependencies
            read = every if known is None else [u for v in known for u in places.get(v.name, ())]
            for output in places.get(unknown.variable.name, ()):
                pairs |= {(u, output) for u in read if u[0] in inputs}
        return frozenset(pairs)

    @property
    def takes_any_step(self) -> bool:
        """Whether communication steps may differ in length."""
        return self.kind != CO_SIMULATION or bool(
            self.interface.canHandleVariableCommunicationStepSize
        )

    @property
    def clocks(self) -> tuple[Any, ...]:
        """The clocks that the importer ticks: inputs whose intervals the FMU says."""
        return tuple(
            v
            for v in self.description.modelVariables
            if v.type == "Clock" and v.causality == "input" and v.intervalVariability != "triggered"
        )

    @cached_property
    def sample_time(self) -> float | None:
        """The shortest interval [s] of its clocks that tick at equal intervals; None without such
        ones.
        """
        fixed = [v for v in self.clocks if v.intervalVariability in ("constant", "fixed")]
        known = (self.intervals[v.name][0] for v in fixed)
        return min((interval for interval in known if interval), default=None)

    def references(self, name: str) -> list[int]:
        """The value references of a port's variables, in C order of its elements; an array variable
        has one.
        """
        return [v.valueReference for v in self._arrays[name].variables]

    def variable_names(self, name: str) -> tuple[str, ...]:
        """The names of a port's variables, in C order of its elements; an array has one."""
        return tuple(v.name for v in self._arrays[name].variables)

    def is_tunable(self, name: str) -> bool:
        """Whether the values of a parameter may change while a run goes on."""
        return all(v.variability == "tunable" for v in self._arrays[name].variables)

    def is_discrete(self, name: str) -> bool:
        """Whether the values of a port change at events alone."""
        return any(v.variability == "discrete" for v in self._arrays[name].variables)

    def no_port(self, name: str) -> str | None:
        """Why a variable of this name is no port; None where there is no such variable."""
        for v in self.description.modelVariables:
            if v.name != name:
                continue
            if v.alias is not None:
                return f"'{name}' of '{self.path}' is another name of '{v.alias.name}'; take that"
            if v in self.clocks:
                return f"'{name}' of '{self.path}' is a clock that ticks by itself"
            if v.causality not in ("input", "output"):
                return (
                    f"'{name}' of '{self.path}' is a variable of causality {v.causality}; inputs "
                    "and outputs can be connected"
                )
        return None

    @cached_property
    def _arrays(self) -> dict[str, Elements]:
        """The elements of each port by its name."""
        clocks = self.clocks
        usable = (v for v in self.description.modelVariables if v.alias is None)
        return elements_of([v for v in usable if v not in clocks])

    @cached_property
    def _meanings(self) -> dict[str, Quantity | None]:
        """What its units mean."""
        return unit_meanings(self.description)

    def _ports(self, causality: str, settable: bool = False) -> tuple[Port, ...]:
        return tuple(
            port_of(self.path, name, array, self._meanings)
            for name, array in self._arrays.items()
            if {v.causality for v in array.variables} == {causality}
            and (not settable or all(_is_settable(v) for v in array.variables))
        )


def _is_settable(variable: Any) -> bool:
    return variable.initial in _SETTABLE and variable.variability != "constant"
