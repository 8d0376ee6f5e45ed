"""C tables of the FMUs of a runner: variables, start values, events and clocks."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from math import isnan, nan
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from rigidblocks.block.port import TEXTUAL, Port, number, text
from rigidblocks.cosim.fmu_import.fmu_clocks import order_of_ticks
from rigidblocks.cosim.graph.fmu_file import (
    CO_SIMULATION,
    SCHEDULED_EXECUTION,
    archive_names,
    compile_sources,
    missing_binary_error,
    place_library,
    unpack_files,
)
from rigidblocks.cosim.graph.fmu_part import Fmu
from rigidblocks.cosim.graph.part import Part
from rigidblocks.cosim.graph.remote_fmu import RemoteFile
from rigidblocks.tracing.c_notation import c_string
from rigidblocks.tracing.ccode import c_number

_FOLDERS = {  # FMI 2.0 and FMI 3.0 binary folders, by the platform of the runner
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
_CLOCK_KINDS = {"changing": "RB_CHANGING_INTERVAL", "countdown": "RB_COUNTDOWN"}


def check_fmu(part: Part) -> None:
    """Raise ValueError for an FMU that a runner does not support."""
    fmu, name = part.component, part.name
    assert isinstance(fmu, Fmu)
    if isinstance(fmu.path, RemoteFile):
        raise ValueError(
            f"'{name}' runs on a server ({fmu.path}); a runner supports only local FMUs"
        )
    if fmu.version == 1:
        raise ValueError(
            f"'{name}' is an FMI 1.0 FMU, which a runner does not support; use FMI 2.0 or 3.0"
        )
    if fmu.kind not in (CO_SIMULATION, SCHEDULED_EXECUTION):
        raise ValueError(
            f"'{name}' is a {fmu.kind} FMU, which a runner does not support; "
            "use an FMU for co-simulation or scheduled execution"
        )
    if fmu.interface.needsExecutionTool:
        tool = fmu.description.generationTool or "for export"
        raise ValueError(
            f"'{name}' needs its tool {tool} at run time (needsExecutionTool), which a runner "
            "does not support"
        )
    if part.isolated:
        raise ValueError(f"'{name}' is isolated, but a runner is a single process")
    for clock in fmu.clocks if has_clocks(fmu) else ():
        if clock.intervalVariability == "fixed" and isnan(_interval(part, clock)):
            raise ValueError(
                f"'{name}': its clock {clock.name} has no interval; set the interval [s] in "
                f"System.add, for example start={{'{clock.name}': 0.01}}"
            )


def numeric_ports(ports: Sequence[Port]) -> tuple[Port, ...]:
    """Return the ports with numeric values. A runner does not transfer text or binary values."""
    return tuple(port for port in ports if port.type not in TEXTUAL)


def tunable_ports(fmu: Fmu) -> tuple[Port, ...]:
    """Return the parameters of an FMU that may change during a run.

    Only tunable floating-point parameters may change, because they accept every number within
    their bounds.
    """
    return tuple(p for p in fmu.parameters if p.type in DOUBLE and fmu.is_tunable(p.name))


def has_events(fmu: Fmu) -> bool:
    """Return True if the runner must handle the events of a co-simulation FMU."""
    is_declared = fmu.version == 3 and fmu.kind == CO_SIMULATION
    return is_declared and bool(fmu.interface.hasEventMode)


def has_clocks(fmu: Fmu) -> bool:
    """Return True if the runner must activate the clocks of an FMU."""
    return has_events(fmu) or fmu.kind == SCHEDULED_EXECUTION


def unpack(parts: Sequence[Part], folder: Path, platform: str | None) -> None:
    """Unpack the FMU of each part into a numbered subfolder (0, 1, ...) of `folder`.

    `platform` is the target platform, or None for this machine.

    Raises:
        FmuError: An FMU has no library for the platform.
    """
    for k, part in enumerate(parts):
        assert isinstance(part.component, Fmu)
        _unpack(part.component, folder / str(k), platform)


def library_of(fmu: Fmu, platform: str | None) -> str:
    """Return the path of the FMU's library for a platform, in the folder of the unpacked FMU."""
    if platform is None:
        return fmu.library
    return f"binaries/{_FOLDERS[platform][fmu.version - 2]}/{fmu.interface.modelIdentifier}.so"


def _unpack(fmu: Fmu, folder: Path, platform: str | None) -> None:
    library = library_of(fmu, platform)
    binaries = PurePosixPath(library).parent
    wanted = (str(binaries), "resources", *(["sources"] if fmu.sources else []))
    unpack_files(fmu.file, folder, tuple(f"{one}/" for one in wanted))
    (folder / "resources").mkdir(parents=True, exist_ok=True)
    if place_library(folder, library):
        return
    if platform is not None or not fmu.sources:
        raise missing_binary_error(fmu.file, archive_names(fmu.file), binaries.name)
    to = folder / library
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_bytes(compile_sources(fmu.file, folder, fmu.sources, to.name))


def fmu_text(
    index: int,
    part_index: int,
    part: Part,
    slices: Mapping[str, slice],
    folder: str,
    library: str,
) -> Iterator[str]:
    """Yield the C tables of an FMU, and then the C struct that refers to the tables.

    `index` is the index of the FMU among the FMUs of the runner, and `part_index` its index among
    all parts of the runner. `slices` maps port names to memory slices. `folder` and `library` are
    the paths of the unpacked FMU and of the library.
    """
    fmu, prefix = part.component, f"FMU_{index}"
    assert isinstance(fmu, Fmu)
    inputs = [port for port in numeric_ports(fmu.inputs) if port.type != "Clock"]
    outputs = [port for port in numeric_ports(fmu.outputs) if port.type != "Clock"]
    discrete = [port for port in inputs if has_events(fmu) and fmu.is_discrete(port.name)]
    groups = {
        "HELD": [port for port in inputs if port not in discrete],
        "DISCRETE": discrete,
        "PARAMETERS": tunable_ports(fmu),
        "OUTPUTS": outputs,
    }
    tables = []
    for name, ports in groups.items():
        found = list(_groups(part, ports, slices))
        yield from _group_tables(f"{prefix}_{name}", found)
        tables.append(f"{{{prefix}_{name}, {prefix}_{name}_TYPES, {len(found)}}}")
    given = [p for p in (*fmu.parameters, *fmu.states) if p.name in part.start]
    given += [port for port in fmu.inputs if port.type in TEXTUAL]
    starts = list(_starts(f"{prefix}_START", part, given))
    yield from _start_tables(f"{prefix}_START", starts)
    is_resized = {port.name for port in fmu.structural} & dict(fmu.configuration).keys()
    sized = [p for p in fmu.structural if p.name in part.start] if is_resized else []
    sizes = list(_starts(f"{prefix}_SIZES", part, sized))
    yield from _start_tables(f"{prefix}_SIZES", sizes)
    values = sum(port.size for port in groups["PARAMETERS"])
    yield f"static double {prefix}_LAST_PARAMETERS[{values + 1}];"
    clocks = list(_clock_tables(prefix, part, slices)) if has_clocks(fmu) else []
    yield from clocks
    if has_events(fmu):
        yield f"static double {prefix}_LAST_INPUTS[{sum(port.size for port in discrete) + 1}];"
        yield (
            f"static Events {prefix}_EVENTS = {{.set = {prefix}_DISCRETE, "
            f".n_set = {prefix}_DISCRETE_COUNT, .last = {prefix}_LAST_INPUTS}};"
        )
    texts = (part.name, fmu.description.guid, folder, library)
    name, token, at, file = map(c_string, texts)
    modes = f"{int(fmu.kind == SCHEDULED_EXECUTION)}, {c_number(part.tolerance or 0.0)}"
    pointers = [
        f"{prefix}_LAST_PARAMETERS",
        f"&{prefix}_EVENTS" if has_events(fmu) else "0",
        f"&{prefix}_CLOCKS" if clocks else "0",
        f"{prefix}_CLOCK_STARTS" if clocks else "0",
    ]
    yield (
        f"{{{name}, {part_index}, {fmu.version}, {modes}, {at}, {file}, {token}, "
        f"{len(sizes)}, {prefix}_SIZES, {len(starts)}, {prefix}_START, "
        f"{', '.join((*tables, *pointers))}}}"
    )


def part_members(index: int, part: Part) -> str:
    """Return the C initializers of an FMU part in the table `PARTS`, such as ".kind = RB_FMI3".

    `index` is the index of the FMU among the FMUs of the runner.
    """
    fmu, prefix = part.component, f"FMU_{index}"
    assert isinstance(fmu, Fmu)
    members = [
        f".kind = RB_FMI{fmu.version}",
        f".set = {prefix}_HELD, .n_set = {prefix}_HELD_COUNT",
        f".get = {prefix}_OUTPUTS, .n_get = {prefix}_OUTPUTS_COUNT",
        ".may_roll_back = &MAY_ROLL_BACK",
    ]
    if has_events(fmu):
        members.append(f".events = &{prefix}_EVENTS")
    if has_clocks(fmu) and _has_any_clock(fmu):
        members.append(f".clocks = &{prefix}_CLOCKS")
    return ", ".join(members)


def _groups(
    part: Part, ports: Sequence[Port], slices: Mapping[str, slice]
) -> Iterator[tuple[str, tuple[str, str], list[int], list[int]]]:
    """Group the ports by FMI type; the runner sets or gets each group with one FMI call.

    The groups equal the groups of `simulate`. Each group is a tuple (FMI type, C type, value
    references, memory indices). The C type is a pair (type of the values, type constant).
    """
    fmu = part.component
    assert isinstance(fmu, Fmu)
    order = list(dict.fromkeys(port.type for port in ports))
    found = groupby(sorted(ports, key=lambda port: order.index(port.type)), lambda p: p.type)
    for fmi_type, some in found:
        members = list(some)
        references = [r for port in members for r in fmu.references(port.name)]
        places = [p for port in members for p in _range(slices[f"{part.name}.{port.name}"])]
        yield _type_suffix(fmi_type, fmu.version), _kind(fmi_type, fmu.version), references, places


def _group_tables(name: str, groups: Sequence[tuple[Any, ...]]) -> Iterator[str]:
    """Yield the C tables of the variable groups from `_groups`.

    The table `name` is an array of `Variables` structs, one per group. Further tables contain the
    value references, memory indices and FMI type names. An enum contains the number of groups.
    """
    rows = []
    for k, (_, (in_c, code), references, places) in enumerate(groups):
        prefix = f"{name}_{k}"
        yield _array(f"static const uint32_t {prefix}_REFERENCES", references)
        yield _array(f"static const int64_t {prefix}_PLACES", places)
        yield f"static {in_c} {prefix}_BUFFER[{len(places)}];"
        rows.append(
            f"{{.references = {prefix}_REFERENCES, .n = {len(references)}, .values = memory, "
            f".n_values = {len(places)}, .type = {code}, .places = {prefix}_PLACES, "
            f".buffer = {prefix}_BUFFER}}"
        )
    yield _array(f"static Variables {name}", rows, "{.n = 0}")
    yield _array(
        f"static const char *const {name}_TYPES", [c_string(one[0]) for one in groups], "0"
    )
    yield f"enum {{ {name}_COUNT = {len(groups)} }};"


def _has_any_clock(fmu: Fmu) -> bool:
    return bool(fmu.clocks) or any(p.type == "Clock" for p in (*fmu.inputs, *fmu.outputs))


def _clock_tables(prefix: str, part: Part, slices: Mapping[str, slice]) -> Iterator[str]:
    """Yield the C tables of the clocks of an FMU.

    The names of the tables begin with `prefix`. `slices` maps port names to memory slices.
    """
    fmu = part.component
    assert isinstance(fmu, Fmu)
    if not _has_any_clock(fmu):
        return
    clocks, n = order_of_ticks(fmu), len(fmu.clocks)
    for name, ports in (("TRIGGERS", fmu.inputs), ("TICKED", fmu.outputs)):
        found = [port for port in ports if port.type == "Clock"]
        yield from _group_tables(f"{prefix}_{name}", list(_groups(part, found, slices)))
    yield _array(
        f"static const uint32_t {prefix}_CLOCK_REFERENCES", [c.valueReference for c in clocks]
    )
    kinds = [_CLOCK_KINDS.get(c.intervalVariability, "RB_FIXED_INTERVAL") for c in clocks]
    yield _array(f"static const int64_t {prefix}_CLOCK_KINDS", kinds)
    yield f"static ClockTicks {prefix}_TICKS[{n + 1}];"
    yield f"static NextTick {prefix}_NEXT_TICK = {{INFINITY, 1.0}};"
    yield f"static int64_t {prefix}_DUE[{n + 1}];"
    yield f"static uint32_t {prefix}_DUE_REFERENCES[{n + 1}];"
    yield _array(f"static const bool {prefix}_ACTIVE", [1] * n)
    yield (
        f"static Clocks {prefix}_CLOCKS = {{.n = {n}, .references = {prefix}_CLOCK_REFERENCES, "
        f".kinds = {prefix}_CLOCK_KINDS, .ticks = {prefix}_TICKS, "
        f".next_tick = &{prefix}_NEXT_TICK, "
        f".triggers = {prefix}_TRIGGERS, .n_triggers = {prefix}_TRIGGERS_COUNT, "
        f".outputs = {prefix}_TICKED, .n_outputs = {prefix}_TICKED_COUNT, .due = {prefix}_DUE, "
        f".due_references = {prefix}_DUE_REFERENCES, .active = {prefix}_ACTIVE}};"
    )
    rows = []
    for clock in clocks:
        interval, is_set = _interval(part, clock), int(clock.name in part.start)
        shift = fmu.intervals.get(clock.name, (None, 0.0))[1]
        text_of_interval = "NAN" if isnan(interval) else c_number(interval)
        rows.append(f"{{{c_string(clock.name)}, {text_of_interval}, {c_number(shift)}, {is_set}}}")
    yield _array(f"static const ClockStart {prefix}_CLOCK_STARTS", rows, "{0}")


def _interval(part: Part, clock: Any) -> float:
    """Return the start interval [s] of a clock, or NaN if the FMU defines it at run time."""
    fmu = part.component
    assert isinstance(fmu, Fmu)
    interval = fmu.intervals.get(clock.name, (None, 0.0))[0]
    if interval is None and clock.name in part.start:
        interval = float(part.start[clock.name])
    return nan if interval is None else interval


def _start_tables(name: str, starts: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield the C tables of start values, and then the `Constant` array that refers to them."""
    yield from (table for table, _ in starts)
    yield _array(f"static const Constant {name}", [f"{{{row}}}" for _, row in starts], "{0}")


def _starts(name: str, part: Part, ports: Iterable[Port]) -> Iterator[tuple[str, str]]:
    """Yield pairs for each port: the C tables of its start values, and its `Constant` row."""
    fmu = part.component
    assert isinstance(fmu, Fmu)
    for k, port in enumerate(ports):
        prefix, references = f"{name}_{k}", fmu.references(port.name)
        values, is_binary = _start_values(part, port), port.type == "Binary"
        in_c = _kind(port.type, fmu.version)[0]
        table = (
            f"static const uint32_t {prefix}_REFERENCES[] = {{{_c_list(references)}}};\n"
            f"static {in_c} {prefix}_VALUES[] = {{{', '.join(_values(port, values))}}};"
        )
        sizes_of = f"{prefix}_LENGTHS" if is_binary else "0"
        if is_binary:
            sizes = _c_list([len(text(value, port.type)) for value in values])
            table += f"\nstatic const size_t {sizes_of}[] = {{{sizes}}};"
        yield (
            table,
            f"{c_string(_type_suffix(port.type, fmu.version))}, {len(references)}, {len(values)}, "
            f"{prefix}_REFERENCES, {prefix}_VALUES, {sizes_of}",
        )


def _start_values(part: Part, port: Port) -> Any:
    """Return the start values of a port as a flat list, in the encoding that `simulate` uses."""
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
            yield f"(uint8_t[]){{{_c_list([*data, 0])}}}"
        elif port.type in ("Real", "Float64", "Float32"):
            yield c_number(float(value))
        else:
            yield str(int(value))


def _type_suffix(fmi_type: str, version: int) -> str:
    """Return the type suffix of FMI function names, such as Float64 in fmi3SetFloat64."""
    if fmi_type == "Enumeration":
        return "Integer" if version == 2 else "Int64"
    return fmi_type


def _kind(fmi_type: str, version: int) -> tuple[str, str]:
    """Return the C type for an FMI type, and the type constant in `c/master/loop_tables.h`."""
    if fmi_type == "Clock":
        return "bool", "RB_BOOLEAN"
    if fmi_type == "Boolean":
        return ("int32_t", "RB_INTEGER_BOOLEAN") if version == 2 else ("bool", "RB_BOOLEAN")
    name = {"Integer": "Int32", "Real": "Float64"}.get(fmi_type, fmi_type)
    if fmi_type == "Enumeration":
        name = "Int32" if version == 2 else "Int64"
    return _IN_C[name], f"RB_{name.upper()}"


def _range(place: slice) -> range:
    return range(place.start, place.stop)


def _c_list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _array(declaration: str, items: Iterable[object], last: str = "0") -> str:
    """Return a C array with an additional last element, because C has no empty arrays."""
    return f"{declaration}[] = {{{', '.join(map(str, (*items, last)))}}};"
