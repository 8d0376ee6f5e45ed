"""FMU files: what an FMI 2.0 co-simulation FMU says of itself, as ports."""

import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import fmpy
import numpy as np

from rigidblocks.block.block import Port

# what an archive may unpack to, before which it is not opened
MOST_FILES = 20_000
MOST_BYTES = 2 << 30
MOST_TIMES_ITS_SIZE, FEW_BYTES = 100, 64 << 20  # the ratio counts for what is not small anyway
_ELEMENT = re.compile(r"(?P<port>.+)\[(?P<index>\d+(?:, ?\d+)*)\]")
_SETTABLE = ("exact", "approx")


class FmuError(RuntimeError):
    """An FMU file that cannot be used, or an FMU that reports an error."""


class Elements(NamedTuple):
    """The variables that make a port, in C order."""

    shape: tuple[int, ...]
    variables: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Fmu:
    """An FMU file with its real variables as ports.

    The variables `q[1]`, `q[2]`, ... of one causality that fill an array, in whatever order the
    file has them, are one port `q`; any others are ports of their own, such as `q[7]`.

    Raises FmuError for a file that is missing, damaged, unsafe to unpack, of another FMI version or
    kind, or without a binary for this platform, and for a unit that is not known.
    """

    path: Path
    description: Any = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "description", _read(self.path))

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

    @property
    def takes_any_step(self) -> bool:
        """Whether communication steps may differ in length."""
        return bool(self.description.coSimulation.canHandleVariableCommunicationStepSize)

    def references(self, name: str) -> list[int]:
        """The value references of a port's elements, in C order."""
        return [v.valueReference for v in self._arrays[name].variables]

    def is_tunable(self, name: str) -> bool:
        """Whether the values of a parameter may change while a run goes on."""
        return all(v.variability == "tunable" for v in self._arrays[name].variables)

    def no_port(self, name: str) -> str | None:
        """Why a variable of this name is no port; None where there is no such variable."""
        for v in self.description.modelVariables:
            if v.name == name and v.type != "Real":
                return f"'{name}' of '{self.path}' is of type {v.type}; only Real can be connected"
        return None

    @cached_property
    def _arrays(self) -> dict[str, Elements]:
        """The elements of each port by its name."""
        groups: dict[str, dict[tuple[int, ...], Any]] = {}
        for v in self.description.modelVariables:
            if v.type == "Real":
                port, index = _element(v.name)
                groups.setdefault(port, {})[index] = v
        return {name: array for item in groups.items() for name, array in _arrays(*item).items()}

    def _ports(self, causality: str, settable: bool = False) -> tuple[Port, ...]:
        return tuple(
            self._port(name, array)
            for name, array in self._arrays.items()
            if {v.causality for v in array.variables} == {causality}
            and (not settable or all(v.initial in _SETTABLE for v in array.variables))
        )

    def _port(self, name: str, elements: Elements) -> Port:
        """The port of an array of variables. An FMU that names no unit leaves it open: ''."""
        shape, variables = elements
        start = [v.start for v in variables]
        known = None if None in start else np.reshape(np.array(start, dtype=float), shape)
        low, high = _bounds(variables, shape, known)
        doc = variables[0].description or ""
        units = tuple(_unit(v) for v in variables)
        try:
            return Port(name, shape, units, doc, known, min=low, max=high)
        except ValueError as error:
            raise FmuError(
                f"'{self.path}' cannot be used: its variable '{name}': {error}"
            ) from error


def _element(name: str) -> tuple[str, tuple[int, ...]]:
    """The array and the indices of an element: `q[2]` is (q, (2,)), and `q` (q, ())."""
    match = _ELEMENT.fullmatch(name)
    return (match["port"], tuple(map(int, match["index"].split(",")))) if match else (name, ())


def _arrays(name: str, elements: dict[tuple[int, ...], Any]) -> dict[str, Elements]:
    """One array where the indices, from 1 on, fill it and all is of one causality; else each
    variable by itself.
    """
    shape = tuple(map(max, zip(*elements, strict=False)))
    if {len(index) for index in elements} == {len(shape)} and prod(shape) == len(elements):
        order = [tuple(k + 1 for k in index) for index in np.ndindex(*shape)]
        if set(order) == set(elements) and len({v.causality for v in elements.values()}) == 1:
            return {name: Elements(shape, tuple(elements[index] for index in order))}
    return {v.name: Elements((), (v,)) for v in elements.values()}


def _bounds(variables: Sequence[Any], shape: tuple[int, ...], start: Any) -> tuple[Any, Any]:
    """The declared bounds, each as far as the FMU's own start values keep it."""
    low = np.reshape([-np.inf if v.min is None else float(v.min) for v in variables], shape)
    high = np.reshape([np.inf if v.max is None else float(v.max) for v in variables], shape)
    return (low, high) if start is None else (np.minimum(low, start), np.maximum(high, start))


def _unit(variable: Any) -> str:
    declared = variable.declaredType.unit if variable.declaredType else None
    return variable.unit or declared or ""


def _read(path: Path) -> Any:
    """The model description of an FMU file that can run here."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            _check_archive(path, archive.infolist())
            damaged = archive.testzip()
        description = fmpy.read_model_description(str(path), validate=False)
    except FileNotFoundError:
        raise FmuError(f"there is no FMU file '{path}'") from None
    except FmuError:
        raise
    except Exception as error:
        raise FmuError(f"the FMU file '{path}' is damaged: {error}") from error
    if damaged:
        raise FmuError(f"the FMU file '{path}' is damaged: '{damaged}' does not unpack")
    if description.fmiVersion != "2.0" or description.coSimulation is None:
        kind = "model exchange" if description.coSimulation is None else "co-simulation"
        raise FmuError(
            f"'{path}' is an FMI {description.fmiVersion} {kind} FMU; only FMI 2.0 co-simulation "
            "can be used"
        )
    library = description.coSimulation.modelIdentifier + fmpy.sharedLibraryExtension
    binary = f"binaries/{fmpy.platform}/{library}"
    if binary not in names:
        platforms = sorted(
            {PurePosixPath(name).parts[1] for name in names if re.match(r"binaries/[^/]+/.", name)}
        )
        raise FmuError(
            f"'{path}' has no binary for {fmpy.platform}; it has: {', '.join(platforms) or 'none'}"
        )
    return description


def _check_archive(path: Path, entries: Sequence[zipfile.ZipInfo]) -> None:
    """Raises FmuError for an archive that would unpack outside its folder, or to too much."""
    for name in (entry.filename for entry in entries):
        if "\\" in name or ":" in name or name.startswith("/") or ".." in PurePosixPath(name).parts:
            raise FmuError(f"'{path}' would unpack outside its folder, to '{name}'")
    size, packed = sum(e.file_size for e in entries), sum(e.compress_size for e in entries)
    if len(entries) > MOST_FILES or size > MOST_BYTES:
        raise FmuError(
            f"'{path}' would unpack to {len(entries)} files of {size:,} bytes; at most "
            f"{MOST_FILES:,} files of {MOST_BYTES:,} bytes are unpacked"
        )
    if size > FEW_BYTES and size > MOST_TIMES_ITS_SIZE * packed:
        raise FmuError(
            f"'{path}' would unpack to {size:,} bytes, {size / max(packed, 1):.0f} times its size; "
            f"at most {MOST_TIMES_ITS_SIZE} times is unpacked"
        )
