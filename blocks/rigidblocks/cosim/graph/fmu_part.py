"""FMU files as parts of a system, with the variables of an FMU as ports."""

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, prod
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import fmpy
import numpy as np

from rigidblocks.block.block import Port
from rigidblocks.block.port import REAL, TEXTUAL, decode_value, encode_value
from rigidblocks.block.units import Quantity, quantity_of
from rigidblocks.cosim.graph.fmi1_description import negated_aliases
from rigidblocks.cosim.graph.fmu_file import (
    CO_SIMULATION,
    MODEL_EXCHANGE,
    FmuError,
    Intervals,
    absolute_path,
    archive_names,
    check_compiler,
    chosen_kind,
    interfaces_of,
    library_in,
    missing_binary_error,
    parse_description,
    read_description,
    source_sets,
)
from rigidblocks.cosim.graph.remote_fmu import RemoteFile
from rigidblocks.kernels.traced_evaluator import DependencyGroup, Element
from rigidblocks.spatial.spatial import Array

_ELEMENT = re.compile(r"(?P<port>.+)\[(?P<index>\d+(?:, ?\d+)*)\]")
_BASE = ("kg", "m", "s", "A", "K", "mol", "cd", "rad")


class Elements(NamedTuple):
    """FMU variables of one port: one scalar variable for each element, or one array variable."""

    shape: tuple[int, ...]
    variables: tuple[Any, ...]


def elements_of(variables: Sequence[Any]) -> dict[str, Elements]:
    """Group FMU variables into ports; return the variables of each port by port name.

    The variables `q[1]`, `q[2]`, ... form one port `q` if no index is missing and all have the same
    causality and type. Their order is arbitrary. Any other variable is a separate port.
    """
    groups: dict[str, dict[tuple[int, ...], Any]] = {}
    found: dict[str, dict[str, Elements]] = {}  # by array name, in the order of the file
    for v in variables:
        if v.shape:
            found[v.name] = {v.name: Elements(tuple(v.shape), (v,))}
        else:
            port, index = _element(v.name)
            groups.setdefault(port, {})[index] = v
            found.setdefault(port, {})
    for name, elements in groups.items():
        found[name] |= _array_or_scalars(name, elements)
    return {name: array for some in found.values() for name, array in some.items()}


def _element(name: str) -> tuple[str, tuple[int, ...]]:
    """Split a variable name into the port name and the indices, such as ("q", (2,)) for `q[2]`."""
    match = _ELEMENT.fullmatch(name)
    return (match["port"], tuple(map(int, match["index"].split(",")))) if match else (name, ())


def _array_or_scalars(name: str, elements: dict[tuple[int, ...], Any]) -> dict[str, Elements]:
    """Return one array port, or a scalar port for each element of an incomplete array.

    `elements` maps indices to FMU variables. An array is complete if no index is missing and all
    variables have the same causality and type.
    """
    shape = tuple(map(max, zip(*elements, strict=False)))
    alike = len({(v.causality, v.type) for v in elements.values()}) == 1
    if alike and {len(i) for i in elements} == {len(shape)} and prod(shape) == len(elements):
        order = [tuple(k + 1 for k in index) for index in np.ndindex(*shape)]
        if set(order) == set(elements):
            return {name: Elements(shape, tuple(elements[index] for index in order))}
    return {v.name: Elements((), (v,)) for v in elements.values()}


def port_of(
    path: object, name: str, elements: Elements, meanings: Mapping[str, Quantity | None]
) -> Port:
    """Return the port that represents FMU variables.

    `meanings` maps unit names to physical quantities. The unit of the port is "" if the FMU
    declares no unit.
    """
    shape, variables = elements
    _check_size(path, name, shape)
    try:
        start = _start(variables, shape)
        low, high = _bounds(variables, shape, start)
        units = tuple(_unit(v) for v in variables)
        return Port(
            name,
            shape,
            units[0] if len(units) != prod(shape) else units,
            variables[0].description or "",
            start,
            min=low,
            max=high,
            type=variables[0].type,
            infinite=variables[0].type in REAL,
            meanings={unit: meanings.get(unit) for unit in units},
        )
    except (ValueError, TypeError) as error:
        raise FmuError(f"'{path}' cannot be used: its variable '{name}': {error}") from error


def _check_size(path: object, name: str, shape: tuple[int, ...]) -> None:
    """Raise FmuError if an array has more elements than a port can have."""
    if prod(shape) > _MOST_ELEMENTS:
        raise FmuError(
            f"'{path}' cannot be used: its variable '{name}' has {prod(shape):,} elements; at most "
            f"{_MOST_ELEMENTS:,} are allowed"
        )


def unit_meanings(description: Any) -> dict[str, Quantity | None]:
    """Map the unit names in a model description to physical quantities.

    The unit definitions of the model description take precedence over rigidblocks units.
    """
    units = {_unit(v) for v in description.modelVariables}
    meanings = {unit: quantity_of(unit) for unit in units}
    for unit in description.unitDefinitions:
        base = unit.baseUnit
        if base is not None and unit.name in units and np.isfinite(base.factor) and base.factor:
            powers = tuple(sorted((n, int(getattr(base, n))) for n in _BASE if getattr(base, n)))
            meanings[unit.name] = Quantity(powers, float(base.factor), float(base.offset))
    return meanings


def _unit(variable: Any) -> str:
    declared = variable.declaredType.unit if variable.declaredType else None
    return variable.unit or declared or ""


def _start(variables: Sequence[Any], shape: tuple[int, ...]) -> Array | None:
    """Return the declared start values as an array, or None if a start value is missing.

    The start value of a triggered input clock is 0 (no tick).
    """
    if (variables[0].type, variables[0].causality) == ("Clock", "input"):
        return np.zeros(shape)
    if any(v.start is None for v in variables):
        return None
    fmi_type = variables[0].type
    if len(variables) == 1 and shape and fmi_type not in TEXTUAL:
        values = [_value(text, fmi_type) for text in variables[0].start.split()]
        if len(values) not in (1, prod(shape)):
            raise ValueError(f"{len(values)} start values do not match the shape {shape}")
        values = values * (prod(shape) if len(values) == 1 else 1)
    elif len(variables) == 1:  # FMPy reads only the first string of a string array
        if prod(shape) > 1:
            return None
        values = [_value(variables[0].start, fmi_type)] * prod(shape)
    else:
        values = [_value(v.start, fmi_type) for v in variables]
    if any(value != value for value in values):  # NaN represents a missing start value
        return None
    flat = (
        encode_value(values, fmi_type, (len(values),), "its start value") if values else np.zeros(0)
    )
    return np.reshape(flat, shape)


def _value(text: str, fmi_type: str) -> Any:
    if fmi_type in REAL:
        return float(text)
    if fmi_type in ("Boolean", "Clock"):
        if text not in ("true", "false", "1", "0"):
            raise ValueError(f"the start value '{text}' is neither true nor false")
        return float(text in ("true", "1"))
    if fmi_type == "String":
        return text
    return bytes.fromhex(text) if fmi_type == "Binary" else int(text)


def _bounds(variables: Sequence[Any], shape: tuple[int, ...], start: Any) -> tuple[Any, Any]:
    """Return the declared minimum and maximum, extended to include all start values."""
    low, high = (
        np.broadcast_to(
            np.reshape(
                [_declared_bound(v, name, default) for v in variables],
                shape if len(variables) > 1 else (),
            ),
            shape,
        )
        for name, default in (("min", -np.inf), ("max", np.inf))
    )
    return (low, high) if start is None else (np.minimum(low, start), np.maximum(high, start))


def _declared_bound(variable: Any, name: str, default: float) -> float:
    """Return the bound that a variable or its type declares, or else `default`."""
    declared = getattr(variable.declaredType, name) if variable.declaredType else None
    text = getattr(variable, name)
    text = declared if text is None else text
    if text is None or " " in text.strip() or variable.type in TEXTUAL:
        return default
    return float(text)


# values of structural parameters and intervals of clocks by port name, in alphabetical order
Configuration = tuple[tuple[str, tuple[float, ...]], ...]

STRUCTURAL = "structuralParameter"
_MOST_ELEMENTS = 10_000_000  # maximum number of elements of an array


def _resize(path: object, description: Any, configuration: Configuration) -> frozenset[str]:
    """Set structural parameters and the shapes of the arrays that depend on these parameters.

    A resized array keeps its start value if the value is a scalar or has the new number of
    elements.

    Returns:
        Names of the arrays with new shapes.
    """
    ports = elements_of([v for v in description.modelVariables if v.causality == STRUCTURAL])
    for name, values in configuration:
        variables = ports[name].variables if name in ports else ()
        for variable, value in zip(variables, values, strict=False):
            variable.start = str(decode_value(np.array([value]), variable.type).tolist()[0])
            if variable.type in ("Boolean", "Clock"):
                variable.start = variable.start.lower()
    resized = set()
    for v in description.modelVariables:
        sizes = (one.start if one.start is not None else one.variable.start for one in v.dimensions)
        shape = tuple(int(size) for size in sizes)
        if shape == tuple(v.shape or ()):
            continue
        _check_size(path, v.name, shape)
        v.shape = shape
        if v.start is not None and len(v.start.split()) not in (1, prod(shape)):
            v.start = None
        resized.add(v.name)
    return frozenset(resized)


__all__ = ["Fmu", "FmuError", "fmu_at"]
_SETTABLE = ("exact", "approx")


@dataclass(frozen=True, eq=False)
class Fmu:
    """FMI 1.0, 2.0 or 3.0 FMU file with its variables as ports.

    The variables `q[1]`, `q[2]`, ... form one port `q` if no index is missing and all have the same
    causality and type. Any other variable, such as a single `q[7]`, is a separate port.

    If an FMU has no binary for this platform, an installed compiler compiles its C sources.

    Attributes:
        path: Path of the file, or `RemoteFile` for an FMU that a server runs and describes.
        kind: Interface type, "co-simulation" or "model exchange". The default is co-simulation if
            the file supports both types.
        configuration: Structural parameters and clock intervals with values other than in the file.
        description: Model description, with the shapes that follow from `configuration`.
        intervals: Interval and shift of each clock [s], by clock name.
        sources: Sets of C sources, if the file has no binary for this platform.
        digest: Digest of a remote file.

    Raises:
        FmuError: The file is missing, damaged or unsafe to unpack. The FMI version or the interface
            type is not supported. The file has neither a binary for this platform nor sources.
    """

    path: Path | RemoteFile
    kind: str | None = None
    configuration: Configuration = ()
    description: Any = field(init=False)
    intervals: Intervals = field(init=False)
    sources: tuple[Any, ...] = field(init=False)
    digest: str = field(init=False, default="")
    _resized: frozenset[str] = field(init=False, default=frozenset())

    def __post_init__(self) -> None:
        names = None
        if isinstance(self.path, RemoteFile):
            description, intervals, digest = self.path.request_description()
            object.__setattr__(self, "digest", digest)
        else:
            path = absolute_path(self.path)
            description, names, intervals = read_description(path, str(self.path))
            object.__setattr__(self, "path", path)
        if self.configuration:
            resized = _resize(self.path, description, self.configuration)
            object.__setattr__(self, "_resized", resized)
        given = {name: values[0] for name, values in self.configuration if name in intervals}
        intervals |= {name: (interval, intervals[name][1]) for name, interval in given.items()}
        object.__setattr__(self, "intervals", intervals)
        object.__setattr__(self, "description", description)
        object.__setattr__(self, "kind", chosen_kind(self.path, description, self.kind))
        self._warn_of_unlisted_states()
        object.__setattr__(self, "sources", () if names is None else self._sources(names))

    def _warn_of_unlisted_states(self) -> None:
        """Issue a warning if an FMI 2.0 model exchange FMU lists no state derivatives.

        In FMI 2.0 the list determines the number of continuous states. Without the list, the states
        keep their start values.
        """
        about = self.description
        if self.kind != MODEL_EXCHANGE or self.version != 2 or about.derivatives:
            return
        names = [repr(v.name) for v in about.modelVariables if v.derivative is not None]
        if names:
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            warnings.warn(
                f"FMU '{self.path}' has no continuous states, because its model description has "
                "no list ModelStructure/Derivatives; these derivatives are not integrated: "
                f"{', '.join(names[:5])}{more}",
                RuntimeWarning,
                stacklevel=2,
            )

    def _sources(self, names: list[str]) -> tuple[Any, ...]:
        """Return the source sets of the FMU, or an empty tuple if the FMU has a usable binary.

        `names` contains the paths of the files in the archive.
        """
        if self.library in names:
            return ()
        sources = source_sets(self.description, self.interface.modelIdentifier, names)
        if not sources and library_in(names, self.library):
            return ()
        if not sources:
            raise missing_binary_error(self.file, names, PurePosixPath(self.library).parts[1])
        check_compiler(self.file)
        return tuple(sources)

    @cached_property
    def is_python(self) -> bool:
        """True if the resources of the FMU contain Python code; False for a remote FMU."""
        if isinstance(self.path, RemoteFile):
            return False
        names = archive_names(self.path)
        return any(name.startswith("resources/") and name.endswith(".py") for name in names)

    @property
    def file(self) -> Path:
        """Path of the FMU file. For a remote FMU, the property raises FmuError."""
        if isinstance(self.path, RemoteFile):
            raise FmuError(f"'{self.path}' is on a server; only the server can open it")
        return self.path

    @property
    def library(self) -> str:
        """Path of the binary for this platform in the archive."""
        folder = fmpy.platform if self.version < 3 else fmpy.platform_tuple
        name = self.interface.modelIdentifier + fmpy.sharedLibraryExtension
        return f"binaries/{folder}/{name}"

    @property
    def version(self) -> int:
        """Major FMI version: 1, 2 or 3."""
        return int(str(self.description.fmiVersion)[0])

    @property
    def interface(self) -> Any:
        """Element of the model description for the selected interface type."""
        return interfaces_of(self.description)[str(self.kind)]

    @cached_property
    def negated(self) -> frozenset[str]:
        """Names of the FMI 1.0 negated aliases, whose values the FMU stores negated.

        The set is empty for a remote FMU, because the server negates the values.
        """
        if self.version > 1 or isinstance(self.path, RemoteFile):
            return frozenset()
        return negated_aliases(parse_description(self.path))

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Input ports."""
        return self._ports("input")

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output ports."""
        return self._ports("output")

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Parameter ports."""
        return self._ports("parameter")

    @cached_property
    def structural(self) -> tuple[Port, ...]:
        """Ports of the FMI 3.0 structural parameters, such as array sizes."""
        return self._ports(STRUCTURAL)

    @cached_property
    def settable_intervals(self) -> tuple[Port, ...]:
        """Ports for the intervals [s] of the input clocks with a fixed or tunable interval."""
        return tuple(
            Port(v.name, (), "s", v.description or "", self.intervals[v.name][0], positive=True)
            for v in self.clocks
            if v.intervalVariability in ("fixed", "tunable")
        )

    @property
    def configurable(self) -> tuple[Port, ...]:
        """Ports whose values are fixed before a run: structural parameters and clock intervals."""
        return (*self.structural, *self.settable_intervals)

    def replace_configuration(self, values: Mapping[str, Array]) -> "Fmu":
        """Return a copy of the FMU with other structural parameters and clock intervals.

        Call this method only for an FMU whose configuration is empty.

        Args:
            values: Values by the port names in `configurable`. Other ports keep the values of the
                file.

        Raises:
            FmuError: An array would be too large.
        """
        declared = {port.name: port.start for port in self.configurable}
        configuration = tuple(
            (name, tuple(np.ravel(value).astype(float).tolist()))
            for name, value in sorted(values.items())
            if declared[name] is None or not np.array_equal(value, declared[name])
        )
        if not configuration:
            return self
        if isinstance(self.path, RemoteFile):
            return Fmu(self.path, self.kind, configuration)
        return fmu_at(self.path, self.kind, configuration)

    @cached_property
    def local_variables(self) -> tuple[Port, ...]:
        """Ports of the local variables."""
        return self._ports("local")

    @cached_property
    def continuous_states(self) -> tuple[str, ...]:
        """Names of the ports whose derivatives the model description declares."""
        declared = [
            v.derivative for v in self.description.modelVariables if v.derivative is not None
        ]
        references = {v.valueReference for v in declared}
        ports = (*self.outputs, *self.local_variables)
        return tuple(p.name for p in ports if references & {*self.references(p.name)})

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """Ports of the outputs and local variables whose start values can be set.

        A resized array is included even if it has no declared start value.
        """
        ports = (*self._ports("output", settable=True), *self._ports("local", settable=True))
        return tuple(p for p in ports if p.start is not None or p.name in self._resized)

    @cached_property
    def feedthrough(self) -> frozenset[tuple[str, str]]:
        """Pairs (input, output) of ports with direct feedthrough, from the model structure.

        An output without declared dependencies forms a pair with each input.
        """
        port_of = {v.name: name for name, group in self._arrays.items() for v in group.variables}
        inputs, outputs = ({p.name for p in ports} for ports in (self.inputs, self.outputs))
        pairs = {(u, y) for y in {y for y, _ in self.undeclared} for u in inputs}
        for unknown in self.description.outputs:
            output = port_of.get(_base(unknown.variable).name, "")
            names = {port_of.get(_base(v).name, "") for v in unknown.dependencies or ()} & inputs
            pairs |= {(name, output) for name in names if output in outputs}
        return frozenset(pairs)

    @cached_property
    def dependencies(self) -> tuple[DependencyGroup, ...]:
        """Dependencies of outputs on inputs, from the model structure.

        In FMI 3.0 an array is one variable, so each element has all dependencies of the variable.
        """
        return self._dependencies(self.description.outputs)

    @cached_property
    def undeclared(self) -> frozenset[Element]:
        """Output elements without declared dependencies in the model structure."""
        return self._undeclared_elements(self.description.outputs)

    @cached_property
    def start_dependencies(self) -> tuple[DependencyGroup, ...]:
        """Dependencies of outputs on inputs during initialization, from the model structure.

        The result contains the declared dependencies of the outputs and of the initial unknowns.
        """
        return self.dependencies + self._dependencies(self.description.initialUnknowns)

    @cached_property
    def start_undeclared(self) -> frozenset[Element]:
        """Output elements without declared dependencies during initialization.

        Outputs with `initial="exact"` and initial unknowns with dependencies are not included.
        """
        exact = {
            (port.name, k)
            for port in self.outputs
            if all(v.initial == "exact" for v in self._arrays[port.name].variables)
            for k in range(port.size)
        }
        return self._undeclared_elements(self.description.initialUnknowns) - exact

    def _dependencies(self, unknowns: Any) -> tuple[DependencyGroup, ...]:
        """Return the dependencies that the entries `unknowns` of the model structure declare."""
        places = self._elements_by_variable
        inputs, outputs = ({port.name for port in ports} for ports in (self.inputs, self.outputs))

        def elements(variables: Any, ports: set[str]) -> frozenset[Element]:
            found = (one for v in variables for one in places.get(_base(v).name, ()))
            return frozenset(one for one in found if one[0] in ports)

        return tuple(
            DependencyGroup(
                elements(unknown.dependencies, inputs), elements([unknown.variable], outputs)
            )
            for unknown in unknowns
            if unknown.dependencies
        )

    def _undeclared_elements(self, unknowns: Any) -> frozenset[Element]:
        """Return the output elements whose dependencies the model structure does not declare.

        `unknowns` contains the entries of the model structure.
        """
        places = self._elements_by_variable
        declared = {
            y
            for unknown in unknowns
            if unknown.dependencies is not None
            for y in places.get(_base(unknown.variable).name, ())
        }
        every = {(port.name, k) for port in self.outputs for k in range(port.size)}
        return frozenset(every - declared) if self.inputs else frozenset()

    @cached_property
    def _elements_by_variable(self) -> dict[str, list[Element]]:
        """Mapping of FMU variable names to elements of the input and output ports."""
        places: dict[str, list[Element]] = {}
        for port in (*self.inputs, *self.outputs):
            names = [v.name for v in self._arrays[port.name].variables]
            several = len(names) > 1
            for k in range(port.size):
                places.setdefault(names[k if several else 0], []).append((port.name, k))
        return places

    @cached_property
    def only_samples(self) -> bool:
        """True if the FMU is sampled: it has discrete variables and no continuous states.

        An example is the FMU of a delay. FMI requires the declaration of continuous states only for
        model exchange, so a co-simulation FMU may have undeclared states. In a co-simulation FMU
        that this package has exported, a continuous output or local variable with `initial="exact"`
        is a state. For any other co-simulation FMU, the result is True only if it has outputs and
        all outputs are discrete.
        """
        about = self.description
        if about.numberOfContinuousStates:
            return False
        memory = [
            v
            for v in about.modelVariables
            if v.causality in ("output", "local", "internal") and v.type != "Clock"
        ]
        lists_states = about.modelExchange is not None
        if not lists_states and str(about.generationTool).startswith("rigidblocks "):
            lists_states = True
            if any(v.variability == "continuous" and v.initial == "exact" for v in memory):
                return False
        if not lists_states:
            memory = [v for v in memory if v.causality == "output"]
        discrete = [v.variability == "discrete" for v in memory]
        return any(discrete) and (lists_states or all(discrete))

    @property
    def takes_any_step(self) -> bool:
        """True if communication steps may differ in length."""
        return self.kind != CO_SIMULATION or bool(
            self.interface.canHandleVariableCommunicationStepSize
        )

    @cached_property
    def tolerance(self) -> float | None:
        """Relative tolerance of the default experiment, or None if it is missing or invalid."""
        experiment = self.description.defaultExperiment
        try:
            tolerance = float(experiment.tolerance)
        except (AttributeError, TypeError, ValueError):
            return None
        return tolerance if 0.0 < tolerance < inf else None

    @property
    def clocks(self) -> tuple[Any, ...]:
        """Time-based input clocks, which the importer must activate."""
        return tuple(
            v
            for v in self.description.modelVariables
            if v.type == "Clock" and v.causality == "input" and v.intervalVariability != "triggered"
        )

    @cached_property
    def sample_time(self) -> float | None:
        """Shortest interval [s] of the constant and fixed clocks; None if no such clock exists."""
        fixed = [v for v in self.clocks if v.intervalVariability in ("constant", "fixed")]
        known = (self.intervals[v.name][0] for v in fixed)
        return min((interval for interval in known if interval), default=None)

    def references(self, name: str) -> list[int]:
        """Return the value references of the variables of a port.

        The variables are in row-major order of the elements. An array variable has one value
        reference.
        """
        return [v.valueReference for v in self._arrays[name].variables]

    def variable_names(self, name: str) -> tuple[str, ...]:
        """Return the names of the FMU variables of a port; an array variable has one name."""
        return tuple(v.name for v in self._arrays[name].variables)

    def enumeration_items(self, name: str, k: int) -> dict[str, int]:
        """Map the item names of an enumeration to values, for element k of a port."""
        variables = self._arrays[name].variables
        declared = variables[k if len(variables) > 1 else 0].declaredType
        items = declared.items if declared is not None else ()
        return {item.name: int(item.value) for item in items}

    def is_tunable(self, name: str) -> bool:
        """Return True if a parameter may change during a run."""
        return all(v.variability == "tunable" for v in self._arrays[name].variables)

    def is_discrete(self, name: str) -> bool:
        """Return True if a port changes only at events."""
        return any(v.variability == "discrete" for v in self._arrays[name].variables)

    def missing_port_reason(self, name: str) -> str | None:
        """Return the reason why the variable `name` is not a port; None for an unknown variable."""
        for v in self.description.modelVariables:
            if v.name != name:
                continue
            if v.alias is not None:
                return f"'{name}' of '{self.path}' is an alias of '{v.alias.name}'; use that name"
            if v in self.clocks:
                return f"'{name}' of '{self.path}' is a clock, which the importer activates"
            if v.causality not in ("input", "output"):
                return (
                    f"'{name}' of '{self.path}' is a variable of causality {v.causality}; only "
                    "inputs and outputs can be connected"
                )
        return None

    @cached_property
    def _arrays(self) -> dict[str, Elements]:
        """Mapping of port names to FMU variables."""
        clocks = self.clocks
        usable = (v for v in self.description.modelVariables if v.alias is None)
        return elements_of([v for v in usable if v not in clocks])

    @cached_property
    def _meanings(self) -> dict[str, Quantity | None]:
        """Mapping of unit names to physical quantities."""
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


def _base(variable: Any) -> Any:
    """Return the variable that an alias refers to, or the variable itself."""
    return variable if variable.alias is None else variable.alias


_known: WeakValueDictionary[tuple[Any, ...], Fmu] = WeakValueDictionary()


def fmu_at(path: str | Path, kind: str | None, configuration: Configuration = ()) -> Fmu:
    """Return the `Fmu` of a file; reuse an existing `Fmu` if the file is unchanged.

    `configuration` contains the structural parameters and clock intervals that differ from the
    file.

    Raises:
        FmuError: The FMU cannot be used (see `Fmu`).
    """
    try:
        file = absolute_path(path)
        stat = file.stat()
    except (OSError, ValueError):
        return Fmu(Path(path), kind)  # raises FmuError with the reason
    key = file, kind, configuration, stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns
    if (fmu := _known.get(key)) is None:
        _known[key] = fmu = Fmu(Path(path), kind, configuration)
    return fmu
