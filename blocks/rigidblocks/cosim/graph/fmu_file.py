"""FMU files: archive checks, model descriptions, binaries and C sources."""

import re
import shutil
import threading
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import IO, Any

import fmpy
from lxml import etree

from rigidblocks.common.compiler import (
    OPTIMIZATION,
    CompilerError,
    cached_library,
    compiler,
    digest,
    run_compiler,
    version,
)
from rigidblocks.common.doc_links import add_doc_link
from rigidblocks.common.regular_files import check_regular_file
from rigidblocks.cosim.graph.fmi1_description import complete_description

# limits of an archive, which are checked before unpacking
MOST_FILES = 20_000
MOST_BYTES = 2 << 30
# maximum compression ratio, and size [bytes] up to which any compression ratio is allowed
MAX_COMPRESSION, UNLIMITED_BYTES = 100, 64 << 20

CO_SIMULATION, MODEL_EXCHANGE = "co-simulation", "model exchange"
SCHEDULED_EXECUTION = "scheduled execution"
KINDS = (CO_SIMULATION, MODEL_EXCHANGE, SCHEDULED_EXECUTION)


# lock for changes of the working directory of the process and for the resolution of relative paths
WORKING_FOLDER_LOCK = threading.RLock()


def absolute_path(path: str | Path) -> Path:
    """Return the absolute path of a file.

    The function waits while another thread has temporarily changed the working directory.
    """
    with WORKING_FOLDER_LOCK:
        return Path(path).absolute()


class FmuError(RuntimeError):
    """Error of an FMU: the file cannot be used, or a call of the FMU fails."""

    def __init__(self, *arguments: object):
        super().__init__(*arguments)
        add_doc_link(self, "FMUs that fail")


_DESCRIPTION = "modelDescription.xml"
_PARSER = etree.XMLParser(resolve_entities=False, no_network=True)

Intervals = dict[str, tuple[float | None, float]]


def read_description(path: Path, name: str | None = None) -> tuple[Any, list[str], Intervals]:
    """Read the model description of an FMU file.

    Args:
        path: Path of the file.
        name: Name of the file in messages, by default its path.

    Returns:
        The model description, the names of the files in the archive, and a mapping of clock names
        to interval and shift [s].
    """
    return description_in(path, name or str(path))


def description_in(file: Path | IO[bytes], path: str) -> tuple[Any, list[str], Intervals]:
    """Read the model description in an FMU archive (results as in `read_description`).

    `path` is the name of the file in error messages.
    """
    if isinstance(file, Path):
        try:
            check_regular_file(file)
        except ValueError as error:
            raise FmuError(str(error)) from None
    try:
        with zipfile.ZipFile(file) as archive:
            names = [use_forward_slashes(name) for name in archive.namelist()]
            check_archive(path, archive.infolist())
            damaged = archive.testzip()
            root = etree.fromstring(archive.read(_DESCRIPTION), _PARSER)
        _check_version(path, root.get("fmiVersion", "without a version"))
        clocks = _intervals(root)
        described = str(file) if isinstance(file, Path) else file
        description = fmpy.read_model_description(described, validate=False)
        _check_names(description)
        _set_derivative_flags(root, description)
        _set_priorities(root, description)
        _set_bounds_of_unsigned_integers(root, description)
        if root.get("fmiVersion") == "1.0":
            complete_description(root, description)
    except FileNotFoundError:
        raise FmuError(f"FMU file '{path}' does not exist") from None
    except FmuError:
        raise
    except IsADirectoryError:
        raise FmuError(f"'{path}' is a folder; an FMU is a file") from None
    except Exception as error:
        reason = str(error)
        if isinstance(error, KeyError):  # the message is only the key
            reason = f"its model structure refers to the unknown variable {reason}"
        raise FmuError(f"the FMU file '{path}' is damaged: {reason}") from error
    if damaged:
        raise FmuError(f"the FMU file '{path}' is damaged: '{damaged}' cannot be unpacked")
    return description, names, clocks


def _check_names(description: Any) -> None:
    """Raise ValueError if an input, output or parameter has the name of another variable.

    Two variables with the same name and the same value reference are accepted.
    """
    found: dict[str, Any] = {}
    for v in description.modelVariables:
        first = found.setdefault(v.name, v)
        is_port = {first.causality, v.causality} & {"input", "output", "parameter"}
        if first.valueReference != v.valueReference and is_port:
            raise ValueError(
                f"its variables {first.valueReference} and {v.valueReference} (value references) "
                f"have the same name '{v.name}'"
            )


def parse_description(path: Path) -> Any:
    """Return the root element of the model description of an FMU file or of an unpacked FMU."""
    if path.is_dir():
        return etree.fromstring((path / _DESCRIPTION).read_bytes(), _PARSER)
    with zipfile.ZipFile(path) as archive:
        return etree.fromstring(archive.read(_DESCRIPTION), _PARSER)


def _set_derivative_flags(root: Any, description: Any) -> None:
    """Add the FMI 3.0 attribute `providesDirectionalDerivatives`, which FMPy does not read."""
    for tag, one in (
        ("ModelExchange", description.modelExchange),
        ("CoSimulation", description.coSimulation),
        ("ScheduledExecution", description.scheduledExecution),
    ):
        for element in root.findall(tag):
            if element.get("providesDirectionalDerivatives") in ("true", "1"):
                one.providesDirectionalDerivative = True


def _set_priorities(root: Any, description: Any) -> None:
    """Add the FMI 3.0 clock priorities to a description; FMPy does not read them."""
    given = {
        clock.get("name"): clock.get("priority") for clock in root.iterfind("ModelVariables/Clock")
    }
    for variable in description.modelVariables:
        if given.get(variable.name) is not None:
            variable.priority = int(given[variable.name])


def _set_bounds_of_unsigned_integers(root: Any, description: Any) -> None:
    """Add the FMI 3.0 bounds of unsigned integer variables, which FMPy does not read."""
    elements = {one.get("name"): one for one in root.iterfind("ModelVariables/*")}
    for variable in description.modelVariables:
        if variable.type.startswith("UInt") and variable.name in elements:
            variable.min = elements[variable.name].get("min")
            variable.max = elements[variable.name].get("max")


def interfaces_of(description: Any) -> dict[str, Any]:
    """Map each interface type to its element in the model description."""
    elements = (
        description.coSimulation,
        description.modelExchange,
        description.scheduledExecution,
    )
    return {
        kind: element for kind, element in zip(KINDS, elements, strict=True) if element is not None
    }


def chosen_kind(path: object, description: Any, wanted: str | None) -> str:
    """Select the interface type of an FMU.

    Args:
        path: Path of the FMU in error messages.
        description: Model description.
        wanted: Requested interface type. None selects the first type that the FMU supports, in
            the order co-simulation, model exchange, scheduled execution.

    Raises:
        FmuError: The FMU does not support the interface type, or declares none. The model
            identifier is invalid.
        ValueError: `wanted` is not the name of an interface type.
    """
    if wanted is not None and wanted not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, not {wanted!r}")
    has = interfaces_of(description)
    kinds = list(has)
    if not kinds:
        raise FmuError(f"'{path}' has no interface type; expected {' or '.join(KINDS)}")
    if wanted is not None and wanted not in kinds:
        raise FmuError(f"'{path}' does not support {wanted}; it supports: {', '.join(kinds)}")
    kind = wanted or kinds[0]
    identifier = has[kind].modelIdentifier
    if not identifier or set(identifier) & set("/\\"):
        raise FmuError(f"'{path}' cannot be used: invalid modelIdentifier {identifier!r}")
    return kind


def missing_binary_error(path: Path, names: Sequence[str], folder: str) -> FmuError:
    """Return the exception for an FMU without a binary for this platform."""
    platforms = sorted(
        {PurePosixPath(name).parts[1] for name in names if re.match(r"binaries/[^/]+/.", name)}
    )
    has = ", ".join(platforms) or "none"
    return FmuError(f"'{path}' has no binary for {folder}; it has: {has}")


def _check_version(path: str, version: str) -> None:
    if not re.fullmatch(r"1\.0|[23]\.\d.*", version):
        raise FmuError(
            f"'{path}' is an FMI {version} FMU; only FMI 1.0, 2.0 and 3.0 are supported: export it "
            "for one of them"
        )


def _intervals(root: Any) -> Intervals:
    """Return the interval [s] (None if not declared) and the shift [s] of each clock."""
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


def use_forward_slashes(name: str) -> str:
    """Return the name of an archived file with slashes instead of backslashes."""
    return name.replace("\\", "/")


def archive_names(path: Path) -> list[str]:
    """Return the names of the files in an archive."""
    with zipfile.ZipFile(path) as archive:
        return [use_forward_slashes(name) for name in archive.namelist()]


def unpack_files(path: Path, folder: Path, beginnings: tuple[str, ...] = ("",)) -> None:
    """Unpack files of an archive into a folder, if their names begin with one of `beginnings`.

    Raises:
        FmuError: A file would be outside the folder, or the archive exceeds the limits.
    """
    with zipfile.ZipFile(path) as archive:
        check_archive(path, archive.infolist())
        for entry in archive.infolist():
            entry.filename = use_forward_slashes(entry.filename)
            if entry.filename.startswith(beginnings):
                archive.extract(entry, folder)


def library_in(names: Sequence[str], library: str) -> str | None:
    """Return the path of the FMU binary in the archive, or None if no binary is suitable.

    `library` is the path that the FMI standard prescribes. If this file is missing, the function
    searches the folders of the same platform. The name of such a folder may follow another FMI
    version (`win64` instead of `x86_64-windows`) or differ in letter case. In each folder, a binary
    with the prescribed name takes precedence. Otherwise, the folder must contain only one binary.
    """
    expected = PurePosixPath(library)
    if library in names:
        return library
    folders: dict[PurePosixPath, list[str]] = {expected.parent: []}
    for name in map(PurePosixPath, names):
        if name.suffix == expected.suffix and _is_same_platform(name.parent, expected.parent):
            folders.setdefault(name.parent, []).append(str(name))
    for folder, there in folders.items():
        if str(folder / expected.name) in there:
            return str(folder / expected.name)
        if len(there) == 1:
            return there[0]
    return None


def _is_same_platform(folder: PurePosixPath, expected: PurePosixPath) -> bool:
    """Return True if two folders contain binaries for the same platform."""
    one, other = str(folder).lower(), str(expected).lower()
    own = {f"binaries/{name}".lower() for name in (fmpy.platform, fmpy.platform_tuple)}
    return one == other or {one, other} <= own


def place_library(folder: Path, library: str) -> bool:
    """Copy the binary of an unpacked FMU to the path `library`, if it is in another place.

    Returns False if the FMU has no suitable binary (`library_in`).
    """
    expected = folder / library
    names = [path.relative_to(folder).as_posix() for path in folder.glob("*/*/*")]
    found = library_in(names, library)
    if found is not None and found != library:
        there = (folder / found).parent
        if there != expected.parent:  # also copies the libraries that the binary loads
            shutil.copytree(there, expected.parent, dirs_exist_ok=True)
        shutil.copyfile(folder / found, expected)
    return found is not None


def check_archive(path: object, entries: Sequence[zipfile.ZipInfo]) -> None:
    """Raise FmuError if an archive entry has an unsafe path, or the archive exceeds the limits."""
    for name in (use_forward_slashes(entry.filename) for entry in entries):
        if ":" in name or name.startswith("/") or ".." in PurePosixPath(name).parts:
            raise FmuError(
                f"'{path}' contains the entry '{name}', whose path leads outside the archive"
            )
    size, packed = sum(e.file_size for e in entries), sum(e.compress_size for e in entries)
    if len(entries) > MOST_FILES or size > MOST_BYTES:
        raise FmuError(
            f"'{path}' would unpack to {len(entries)} files of {size:,} bytes; at most "
            f"{MOST_FILES:,} files with a total of {MOST_BYTES:,} bytes are allowed"
        )
    if size > UNLIMITED_BYTES and size > MAX_COMPRESSION * packed:
        raise FmuError(
            f"'{path}' would unpack to {size:,} bytes, {size / max(packed, 1):.0f} times its "
            f"size; at most {MAX_COMPRESSION} times is allowed"
        )


_HEADERS = Path(fmpy.__file__).parent / "c-code"  # FMI headers, which FMUs may omit
_FLAGS = (OPTIMIZATION, "-ffp-contract=off", "-fPIC", "-shared", "-w")
# Source FMUs prefix the FMI function names for static linking. In the FMI 2.0.4 headers and
# newer, these macros remove the prefix. For older headers, `_prefix_options` removes it.
_NAMES = ("-DFMI2_OVERRIDE_FUNCTION_PREFIX", "-DFMI3_OVERRIDE_FUNCTION_PREFIX")


def source_sets(description: Any, identifier: str, names: Sequence[str]) -> list[Any]:
    """Return the C source sets of an FMU, or [] if the archive does not contain all files.

    `identifier` is the model identifier. `names` contains the paths of the files in the archive.
    """
    sets = [
        one
        for build in description.buildConfigurations
        if build.modelIdentifier == identifier
        for one in build.sourceFileSets
        if (one.language or "C99").startswith("C") and "+" not in (one.language or "")
    ]
    files = [f"sources/{file}" for one in sets for file in one.sourceFiles]
    return sets if files and set(files) <= set(names) else []


def check_compiler(path: Path) -> None:
    """Raise FmuError if no compiler is available for the sources of an FMU."""
    try:
        compiler()
    except CompilerError as error:
        raise FmuError(
            f"'{path}' has no binary for this platform, and its sources cannot be compiled: {error}"
        ) from error


def compile_sources(path: Path, folder: Path, sets: Sequence[Any], name: str) -> bytes:
    """Compile the C sources of an FMU to a binary, and return the bytes of the binary.

    The compiled binary is stored in the cache folder.

    Args:
        path: Path of the FMU.
        folder: Folder with the unpacked FMU.
        sets: Source sets.
        name: File name of the binary.

    Raises:
        FmuError: The sources do not compile; the message contains the output of the compiler.
    """
    command = compiler()
    sources, options = folder / "sources", list[str]()
    for one in sets:
        options += [f"-I{sources / include}" for include in one.includeDirectories]
        options += [
            f"-D{d.name}={d.value}" if d.value else f"-D{d.name}"
            for d in one.preprocessorDefinitions
        ]
    files = [file for one in sets for file in one.sourceFiles]
    line = (*command, *_FLAGS, *_NAMES, f"-I{sources}", *options, f"-I{_HEADERS}", *files)

    renaming = _prefix_options(Path(name).stem)

    def build() -> bytes:
        library = folder / name
        run_compiler((*line, "-o", str(library), "-lm"), sources)
        built = library.read_bytes()
        if _has_prefix(built, Path(name).stem):
            run_compiler((*line, *renaming, "-o", str(library), "-lm"), sources)
            built = library.read_bytes()
        return built

    key_text = "\0".join((*command, version(command), *_FLAGS, *_NAMES, *renaming[:1], *files))
    try:
        return cached_library(digest(key_text.encode() + path.read_bytes()), build).read_bytes()
    except CompilerError as error:
        raise FmuError(f"the sources of '{path}' do not compile: {error}") from error


def _prefix_options(identifier: str) -> tuple[str, ...]:
    """Return compiler options that remove the model prefix from the FMI function names.

    Older FMI headers add the prefix to each name. For each prefixed name, the options define a
    macro that expands to the standard name.
    """
    headers = (_HEADERS / name for name in ("fmi2Functions.h", "fmi3Functions.h"))
    text = "".join(header.read_text() for header in headers)
    names = dict.fromkeys(re.findall(r"#define\s+(fmi[23]\w+)\s+fmi[23]FullName", text))
    return tuple(f"-D{identifier}_{name}={name}" for name in names)


def _has_prefix(library: bytes, identifier: str) -> bool:
    """Return True if the names of all FMI functions in a binary begin with the model prefix."""
    functions = (b"fmi2GetVersion", b"fmi3GetVersion")
    prefix = f"{identifier}_".encode()
    return any(
        b"\0" + prefix + name + b"\0" in library and b"\0" + name + b"\0" not in library
        for name in functions
    )
