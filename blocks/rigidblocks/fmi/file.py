"""FMU files: what an FMI 2.0 co-simulation FMU says of itself, as ports."""

import re
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

import fmpy
import numpy as np

from rigidblocks.block import Port

_ELEMENT = re.compile(r"(?P<port>.+)\[(?P<index>\d+(?:,\d+)*)\]")


class FmuError(RuntimeError):
    """An FMU file that cannot be used, or an FMU that reports an error."""


@dataclass(frozen=True, eq=False)
class Fmu:
    """An FMU file with its real variables as ports: `q[1]`, `q[2]`, ... are one port `q`.

    Raises FmuError for a file that is missing, damaged, unsafe to unpack, of another FMI version or kind, or without a
    binary for this platform.
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
        """What else has a start value that may be set: outputs and local variables with an exact or approximate start."""
        ports = (*self._ports("output", ("exact", "approx")), *self._ports("local", ("exact", "approx")))
        return tuple(port for port in ports if port.start is not None)

    @cached_property
    def feedthrough(self) -> frozenset[tuple[str, str]]:
        """The pairs (input, output) that the model structure declares; all pairs of an output that it is silent about."""
        port_of = {v.name: port for port, group in self._groups("input", "output").items() for v in group}
        pairs = set()
        for unknown in self.description.outputs:
            known = unknown.dependencies
            names = [port.name for port in self.inputs] if known is None else [port_of.get(v.name) for v in known]
            pairs |= {(name, port_of[unknown.variable.name]) for name in names if name and unknown.variable.name in port_of}
        inputs = {port.name for port in self.inputs}
        return frozenset(pair for pair in pairs if pair[0] in inputs)

    def references(self, name: str) -> list[int]:
        """The value references of a port's elements, in order."""
        return [v.valueReference for v in self._groups()[name]]

    def _groups(self, *causalities: str) -> dict[str, list[Any]]:
        """The real variables of these causalities, of all without any, by port."""
        groups: dict[str, list[Any]] = {}
        for v in self.description.modelVariables:
            if v.type == "Real" and (not causalities or v.causality in causalities):
                match = _ELEMENT.fullmatch(v.name)
                groups.setdefault(match["port"] if match else v.name, []).append(v)
        return groups

    def _ports(self, causality: str, initial: tuple[str, ...] | None = None) -> tuple[Port, ...]:
        groups = self._groups(causality).items()
        return tuple(_port(name, group) for name, group in groups if initial is None or group[0].initial in initial)


def _port(name: str, group: list[Any]) -> Port:
    """The port of a group of variables. An FMU that names no unit leaves it open: ''."""
    last = _ELEMENT.fullmatch(group[-1].name)
    shape = tuple(int(k) for k in last["index"].split(",")) if last else ()
    if int(np.prod(shape)) != len(group):
        raise FmuError(f"the elements of '{name}' do not fill an array: {', '.join(v.name for v in group)}")
    start = [v.start for v in group]
    known = None if None in start else np.reshape(np.array(start, dtype=float), shape)
    return Port(name, shape, tuple(_unit(v) for v in group), group[0].description or "", known)


def _unit(variable: Any) -> str:
    declared = variable.declaredType.unit if variable.declaredType else None
    return variable.unit or declared or ""


def _read(path: Path) -> Any:
    """The model description of an FMU file that can run here."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            damaged = archive.testzip()
        description = fmpy.read_model_description(str(path), validate=False)
    except FileNotFoundError:
        raise FmuError(f"there is no FMU file '{path}'") from None
    except Exception as error:
        raise FmuError(f"the FMU file '{path}' is damaged: {error}") from error
    if damaged:
        raise FmuError(f"the FMU file '{path}' is damaged: '{damaged}' does not unpack")
    _check_names(path, names)
    if description.fmiVersion != "2.0" or description.coSimulation is None:
        kind = "model exchange" if description.coSimulation is None else "co-simulation"
        raise FmuError(f"'{path}' is an FMI {description.fmiVersion} {kind} FMU; only FMI 2.0 co-simulation can be used")
    binary = f"binaries/{fmpy.platform}/{description.coSimulation.modelIdentifier}{fmpy.sharedLibraryExtension}"
    if binary not in names:
        platforms = sorted({PurePosixPath(name).parts[1] for name in names if re.match(r"binaries/[^/]+/.", name)})
        raise FmuError(f"'{path}' has no binary for {fmpy.platform}; it has: {', '.join(platforms) or 'none'}")
    return description


def _check_names(path: Path, names: Iterable[str]) -> None:
    for name in names:
        if "\\" in name or ":" in name or name.startswith("/") or ".." in PurePosixPath(name).parts:
            raise FmuError(f"'{path}' would unpack outside its folder, to '{name}'")
