"""FMU files: what their archives may be, and the model description of one that can run here."""

import re
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import IO, Any

import fmpy
from lxml import etree

from rigidblocks.explained import explained

# what an archive may unpack to, before which it is not opened
MOST_FILES = 20_000
MOST_BYTES = 2 << 30
MOST_TIMES_ITS_SIZE, FEW_BYTES = 100, 64 << 20  # the ratio counts for what is not small anyway

CO_SIMULATION, MODEL_EXCHANGE = "co-simulation", "model exchange"
KINDS = (CO_SIMULATION, MODEL_EXCHANGE)


class FmuError(RuntimeError):
    """An FMU file that cannot be used, or an FMU that reports an error."""

    def __init__(self, *arguments: object):
        super().__init__(*arguments)
        explained(self, "FMUs that fail")


_PARSER = etree.XMLParser(resolve_entities=False, no_network=True)

Intervals = dict[str, tuple[float | None, float]]


def read_description(path: Path) -> tuple[Any, list[str], Intervals]:
    """The model description of an FMU file, the names of the files in it, and the interval and the
    shift of each clock by its name [s].
    """
    return description_in(path, str(path))


def description_in(file: Path | IO[bytes], path: str) -> tuple[Any, list[str], Intervals]:
    """The same of an archive, open or by its path; messages call it `path`."""
    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
            check_archive(path, archive.infolist())
            damaged = archive.testzip()
            root = etree.fromstring(archive.read("modelDescription.xml"), _PARSER)
        _check_version(path, root.get("fmiVersion", "without a version"))
        clocks = _intervals(root)
        described = str(file) if isinstance(file, Path) else file
        description = fmpy.read_model_description(described, validate=False)
        _tell_derivatives(root, description)
    except FileNotFoundError:
        raise FmuError(f"there is no FMU file '{path}'") from None
    except FmuError:
        raise
    except IsADirectoryError:
        raise FmuError(f"'{path}' is a folder; an FMU is a file") from None
    except Exception as error:
        raise FmuError(f"the FMU file '{path}' is damaged: {error}") from error
    if damaged:
        raise FmuError(f"the FMU file '{path}' is damaged: '{damaged}' does not unpack")
    return description, names, clocks


def _tell_derivatives(root: Any, description: Any) -> None:
    """Tells a description which interfaces have directional derivatives in FMI 3.0, whose name for
    it FMPy does not read.
    """
    for tag, one in (
        ("ModelExchange", description.modelExchange),
        ("CoSimulation", description.coSimulation),
    ):
        for element in root.findall(tag):
            if element.get("providesDirectionalDerivatives") in ("true", "1"):
                one.providesDirectionalDerivative = True


def chosen_kind(path: object, description: Any, wanted: str | None) -> str:
    """The kind of FMU that an FMU file is taken as: the one wanted, or co-simulation where it has
    both.

    Raises FmuError where it has none that can be used, and ValueError for one that there is not.
    """
    if wanted is not None and wanted not in KINDS:
        raise ValueError(f"an FMU is taken as one of {', '.join(KINDS)}, not {wanted!r}")
    has = {CO_SIMULATION: description.coSimulation, MODEL_EXCHANGE: description.modelExchange}
    kinds = [kind for kind, interface in has.items() if interface is not None]
    if not kinds:
        raise FmuError(
            f"'{path}' is for scheduled execution alone, whose steps its own scheduler takes; "
            f"what can be used is {' or '.join(KINDS)}"
        )
    if wanted is not None and wanted not in kinds:
        raise FmuError(f"'{path}' is no {wanted} FMU; it has: {', '.join(kinds)}")
    kind = wanted or kinds[0]
    identifier = has[kind].modelIdentifier
    if not identifier or set(identifier) & set("/\\"):
        raise FmuError(f"'{path}' cannot be used: its modelIdentifier is no name: {identifier!r}")
    return kind


def no_binary(path: Path, names: Sequence[str], folder: str) -> FmuError:
    """The error of an FMU that has no library for this platform."""
    platforms = sorted(
        {PurePosixPath(name).parts[1] for name in names if re.match(r"binaries/[^/]+/.", name)}
    )
    has = ", ".join(platforms) or "none"
    return FmuError(f"'{path}' has no binary for {folder}; it has: {has}")


def _check_version(path: str, version: str) -> None:
    if not re.fullmatch(r"[23]\.\d.*", version):
        raise FmuError(
            f"'{path}' is an FMI {version} FMU; FMI 2.0 and 3.0 can be used: ask for an export of "
            "one of them"
        )


def _intervals(root: Any) -> Intervals:
    """The intervals and shifts of clocks, which FMPy does not read; None for an interval that the
    description leaves out.
    """
    found: Intervals = {}
    for clock in root.iterfind("ModelVariables/Clock"):
        given = clock.attrib
        resolution = float(given.get("resolution", 1.0))
        count = given.get("intervalCounter")
        interval = given.get("intervalDecimal")
        seconds = float(count) / resolution if interval is None and count is not None else interval
        shift = given.get("shiftDecimal", float(given.get("shiftCounter", 0.0)) / resolution)
        found[given["name"]] = (None if seconds is None else float(seconds), float(shift))
    return found


def check_archive(path: object, entries: Sequence[zipfile.ZipInfo]) -> None:
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
