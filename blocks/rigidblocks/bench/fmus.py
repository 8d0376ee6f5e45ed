"""FMUs of others in a program: their files beside it, and what it knows of them, as C."""

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from rigidblocks.block.port import Port
from rigidblocks.block.signal_types import TEXTUAL, number, text
from rigidblocks.system.fmu import Fmu
from rigidblocks.system.fmu_file import CO_SIMULATION, no_binary
from rigidblocks.system.fmu_sources import compiled
from rigidblocks.system.part import Part
from rigidblocks.system.remote import RemoteFile
from rigidblocks.tracing.ccode import c_number, c_string

_FOLDERS = {  # of FMI 2.0 and 3.0, by the platform of a program
    "x86_64-linux": ("linux64", "x86_64-linux"),
    "aarch64-linux": ("aarch64-linux", "aarch64-linux"),
}
_IN_C = {
    "Real": "double",
    "Float64": "double",
    "Float32": "float",
    **{f"{u}Int{n}": f"{u.lower()}int{n}_t" for u in ("", "U") for n in (8, 16, 32, 64)},
    "String": "char *",
    "Binary": "uint8_t *",
}
DOUBLE = ("Real", "Float64")
MOST_GROUPS = 32  # as fmu.h has it


def check_fmu(part: Part) -> None:
    """Raises ValueError for an FMU that a program cannot step."""
    fmu, name = part.component, part.name
    assert isinstance(fmu, Fmu)
    if isinstance(fmu.path, RemoteFile):
        raise ValueError(f"'{name}' runs at a server ({fmu.path}); a runner has its FMUs beside it")
    if fmu.kind != CO_SIMULATION:
        raise ValueError(
            f"'{name}' is taken for model exchange, whose equations a runner does not integrate: "
            "take one for co-simulation"
        )
    if fmu.interface.needsExecutionTool:
        tool = fmu.description.generationTool or "the one that wrote it"
        raise ValueError(
            f"'{name}' needs its tool while it runs (needsExecutionTool), {tool}, which a runner "
            "has not"
        )
    if part.isolated:
        raise ValueError(f"'{name}' is isolated, and a runner is one process")
    if any(v.type == "Clock" for v in fmu.description.modelVariables):
        raise ValueError(f"'{name}' has clocks, which a runner does not tick")


def carried_ports(ports: Sequence[Port]) -> tuple[Port, ...]:
    """Those whose values are numbers; texts a runner does not carry."""
    return tuple(port for port in ports if port.type not in TEXTUAL)


def tunable_ports(fmu: Fmu) -> tuple[Port, ...]:
    """The parameters that may change while a program runs: real ones of double length, which take
    any number within their bounds.
    """
    return tuple(p for p in fmu.parameters if p.type in DOUBLE and fmu.is_tunable(p.name))


def unpack(parts: Sequence[Part], folder: Path, platform: str | None) -> None:
    """Unpacks FMUs into the folders 0, 1, ... of one, for a platform, this machine's unless given.

    Raises FmuError for one that has no library for it.
    """
    for k, part in enumerate(parts):
        assert isinstance(part.component, Fmu)
        _unpack(part.component, folder / str(k), platform)


def library_of(fmu: Fmu, platform: str | None) -> str:
    """The name of the library among the files of an FMU."""
    if platform is None:
        return fmu.library
    return f"binaries/{_FOLDERS[platform][fmu.version - 2]}/{fmu.interface.modelIdentifier}.so"


def _unpack(fmu: Fmu, folder: Path, platform: str | None) -> None:
    library = library_of(fmu, platform)
    binaries = PurePosixPath(library).parent
    with zipfile.ZipFile(fmu.file) as archive:
        names = archive.namelist()
        if library not in names and (platform is not None or not fmu.sources):
            raise no_binary(fmu.file, names, binaries.name)
        wanted = (str(binaries), "resources", *(["sources"] if fmu.sources else []))
        for name in names:
            if name.startswith(tuple(f"{one}/" for one in wanted)):
                archive.extract(name, folder)
    (folder / "resources").mkdir(parents=True, exist_ok=True)
    if library not in names:
        to = folder / library
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(compiled(fmu.file, folder, fmu.sources, to.name))


def plan_text(
    which: int, part: Part, where: Mapping[str, slice], folder: str, library: str
) -> Iterator[str]:
    """The tables of an FMU, and as the last its plan; its ports are in the memory at `where`."""
    fmu = part.component
    assert isinstance(fmu, Fmu)
    starts = list(_starts(which, part))
    inputs = [
        *_groups(f"{which}_IN", part, carried_ports(fmu.inputs), where),
        *_groups(f"{which}_TUNED", part, tunable_ports(fmu), where, are_parameters=True),
    ]
    outputs = list(_groups(f"{which}_OUT", part, carried_ports(fmu.outputs), where))
    if max(len(inputs), len(outputs)) > MOST_GROUPS:
        raise ValueError(f"'{part.name}' has variables of more than {MOST_GROUPS} types")
    for tables, rows, kind in (
        (starts, f"FMU_{which}_START", "Constant"),
        (inputs, f"FMU_{which}_INPUTS", "Group"),
        (outputs, f"FMU_{which}_OUTPUTS", "Group"),
    ):
        yield from (table for table, _ in tables)
        listed = "".join(f"    {{{row}}},\n" for _, row in tables)
        yield f"static const {kind} {rows}[] = {{\n{listed}    {{0}}}};"
    texts = (part.name, fmu.description.guid, folder, library)
    name, token, at, file = map(c_string, texts)
    counts = f"{len(starts)}, {len(inputs)}, {len(outputs)}"
    lists = f"FMU_{which}_START, FMU_{which}_INPUTS, FMU_{which}_OUTPUTS"
    events = int(_has_events(fmu))
    yield f"{{{name}, {fmu.version}, {events}, {at}, {file}, {token}, {counts}, {lists}}}"


def _has_events(fmu: Fmu) -> bool:
    """Whether its events are handled by who runs it, as `simulate` does."""
    return fmu.version == 3 and bool(fmu.interface.hasEventMode)


def _groups(
    name: str,
    part: Part,
    ports: Sequence[Port],
    where: Mapping[str, slice],
    *,
    are_parameters: bool = False,
) -> Iterator[tuple[str, str]]:
    """The tables and the row of each group of values that go to or from an FMU in one call."""
    fmu = part.component
    assert isinstance(fmu, Fmu)

    def kind(port: Port) -> tuple[str, bool]:
        return port.type, fmu.is_discrete(port.name)

    order = list(dict.fromkeys(map(kind, ports)))
    found = groupby(sorted(ports, key=lambda port: order.index(kind(port))), kind)
    for k, ((of_type, discrete), some) in enumerate(found):
        members, own = list(some), f"{name}_{k}"
        references = [r for port in members for r in fmu.references(port.name)]
        places = [p for port in members for p in _range(where[f"{part.name}.{port.name}"])]
        in_c, code = _kind(of_type, fmu.version)
        waits = int((discrete or are_parameters) and _has_events(fmu))
        table = (
            f"static const uint32_t FMU_REFERENCES_{own}[] = {{{_listed(references)}}};\n"
            f"static const int FMU_PLACES_{own}[] = {{{_listed(places)}}};\n"
            f"static {in_c} FMU_VALUES_{own}[{len(places)}];\n"
            f"static double FMU_LAST_{own}[{len(places)}];"
        )
        yield (
            table,
            f"{c_string(_function(of_type, fmu.version))}, {code}, {waits}, {int(are_parameters)}, "
            f"{len(references)}, "
            f"{len(places)}, FMU_REFERENCES_{own}, FMU_PLACES_{own}, FMU_VALUES_{own}, "
            f"FMU_LAST_{own}",
        )


def _starts(which: int, part: Part) -> Iterator[tuple[str, str]]:
    """The same of the start values that the part was given, and of texts among the inputs."""
    fmu = part.component
    assert isinstance(fmu, Fmu)
    given = [p for p in (*fmu.parameters, *fmu.states) if p.name in part.start]
    texts = [port for port in fmu.inputs if port.type in TEXTUAL]
    for k, port in enumerate((*given, *texts)):
        own, references = f"{which}_{k}", fmu.references(port.name)
        values, is_binary = _start_values(part, port), port.type == "Binary"
        in_c = _kind(port.type, fmu.version)[0]
        table = (
            f"static const uint32_t FMU_START_REFERENCES_{own}[] = {{{_listed(references)}}};\n"
            f"static {in_c} FMU_START_{own}[] = {{{', '.join(_values(port, values))}}};"
        )
        sizes_of = f"FMU_SIZES_{own}" if is_binary else "0"
        if is_binary:
            sizes = _listed([len(text(value, port.type)) for value in values])
            table += f"\nstatic const size_t {sizes_of}[] = {{{sizes}}};"
        yield (
            table,
            f"{c_string(_function(port.type, fmu.version))}, {len(references)}, {len(values)}, "
            f"FMU_START_REFERENCES_{own}, FMU_START_{own}, {sizes_of}",
        )


def _start_values(part: Part, port: Port) -> Any:
    """The flat start values of a port as a run carries them."""
    default = port.start
    if default is None and port.type in TEXTUAL:
        default = number("" if port.type == "String" else b"")
    return np.ravel(part.start.get(port.name, default))


def _values(port: Port, values: Any) -> Iterator[str]:
    for value in values:
        if port.type == "String":
            yield c_string(str(text(value, port.type)))
        elif port.type == "Binary":
            data = bytes(text(value, port.type))  # type: ignore[arg-type]
            yield f"(uint8_t[]){{{_listed([*data, 0])}}}"
        elif port.type in ("Real", "Float64", "Float32"):
            yield c_number(float(value))
        else:
            yield str(int(value))


def _function(of_type: str, version: int) -> str:
    """How the functions that move values of a type name it."""
    if of_type == "Enumeration":
        return "Integer" if version == 2 else "Int64"
    return of_type


def _kind(of_type: str, version: int) -> tuple[str, str]:
    """The type of a value in C, and its name in fmu_values.h."""
    if of_type == "Boolean":
        return ("int32_t", "FMU_WHOLE_BOOLEAN") if version == 2 else ("bool", "FMU_BOOLEAN")
    name = {"Integer": "Int32", "Real": "Float64"}.get(of_type, of_type)
    if of_type == "Enumeration":
        name = "Int32" if version == 2 else "Int64"
    return _IN_C[name], f"FMU_{name.upper()}"


def _range(place: slice) -> range:
    return range(place.start, place.stop)


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
