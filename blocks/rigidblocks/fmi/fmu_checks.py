"""Checks of FMUs: acceptance report, and comparison with the feature profiles of the FMI project.

The acceptance report contains the validation result, time and memory of a step, and the code size.

Source:
    FMI project, FMI 2.0/3.0 Profiles, https://modelica.github.io/fmi-guides/main/fmi-profiles.
"""

import ctypes
import platform
import re
import struct
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import fmpy
import numpy as np
from lxml import etree

from rigidblocks.cosim.graph.fmu_file import FmuError, check_compiler, compile_sources, source_sets

ALLOCATION = {"malloc", "calloc", "realloc", "free", "posix_memalign", "aligned_alloc"}
STEPS = 500
STACK = 8 << 20  # stack size [bytes] of the thread that measures the stack depth


class Entry(NamedTuple):
    """Line of an acceptance report.

    Attributes:
        subject: Name of the check, such as "code".
        text: Result of the check.
        well: True if the result is acceptable.
    """

    subject: str
    text: str
    well: bool = True


def acceptance(path: str | Path, dt: float = 1e-3) -> tuple[Entry, ...]:
    """Return the acceptance report of an FMU.

    The report contains:

    - the results of FMPy's validation and of a simulation with 500 steps,
    - the time, stack depth and heap growth of a step,
    - the code size, and the imported functions that allocate memory,
    - the operation count, if rigidblocks generated the sources.

    If the FMU contains only sources for this platform, the function compiles them, provided that a
    compiler is installed. Stack depth, heap growth and code size are measured for FMI 2.0 FMUs with
    a Linux binary for this machine. For other FMUs, the report says that these values are not
    measured.

    Args:
        path: FMU file.
        dt: Communication step [s].

    Returns:
        Lines of the report.

    Raises:
        ValueError: The file is not an FMU.
    """
    try:
        description = fmpy.read_model_description(str(path), validate=False)
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except Exception as error:
        raise ValueError(f"{path}: this FMU cannot be read: {error}") from None
    return tuple(_entries(Path(path), description, names, dt))


def _entries(path: Path, description: Any, names: list[str], dt: float) -> Iterator[Entry]:
    yield _validation(path)
    yield Entry("platforms", ", ".join(_platforms(names)) or "none: sources only")
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        fmpy.extract(str(path), folder)
        missing = _reason_not_runnable(path, Path(folder), description, names)
        yield Entry("run", f"not run: {missing}") if missing else _run(folder, dt)
        if (description.generationTool or "").startswith("rigidblocks"):
            yield from _operations(Path(folder, "sources"))
        if description.coSimulation is None:
            return
        name = description.coSimulation.modelIdentifier
        library = Path(folder, "binaries", fmpy.platform, f"{name}.so")
        if description.fmiVersion == "2.0" and library.exists():
            yield from _binary(library)
            yield from _steps(folder, description, name, dt)
        else:
            yield Entry("stack, heap", "not measured: this needs FMI 2.0 and a Linux binary")


def _reason_not_runnable(path: Path, folder: Path, description: Any, names: list[str]) -> str:
    """Return the reason why an unpacked FMU cannot run on this platform, or "" if it can run.

    If the FMU contains only sources, the function compiles these into `folder`.
    """
    if {fmpy.platform, fmpy.platform_tuple} & set(_platforms(names)):  # FMI 2 and FMI 3 names
        return ""
    kind = description.coSimulation
    sets = [] if kind is None else source_sets(description, kind.modelIdentifier, names)
    if not sets:
        return f"the FMU has no binary for {fmpy.platform}"
    here = fmpy.platform if description.fmiVersion == "2.0" else fmpy.platform_tuple
    library = folder / "binaries" / here / f"{kind.modelIdentifier}{fmpy.sharedLibraryExtension}"
    try:
        check_compiler(path)
        built = compile_sources(path, folder, sets, library.name)
    except FmuError as error:
        return " ".join(str(error).split())
    library.parent.mkdir(parents=True, exist_ok=True)
    library.write_bytes(built)
    return ""


def _platforms(names: list[str]) -> list[str]:
    return sorted({name.split("/")[1] for name in names if re.match(r"binaries/[^/]+/.", name)})


def _validation(path: Path) -> Entry:
    """Validate an FMU with FMPy, and return the result as a line of the report."""
    from fmpy.validation import validate_fmu

    found = validate_fmu(str(path))
    text = "; ".join(" ".join(problem.split()) for problem in found) or "FMPy finds nothing wrong"
    return Entry("validation", text, not found)


def _run(folder: str, dt: float) -> Entry:
    """Simulate an unpacked FMU with FMPy, and return the result as a line of the report."""
    stop = STEPS * dt
    try:
        result = fmpy.simulate_fmu(folder, stop_time=stop, output_interval=dt, validate=True)
    except Exception as error:
        return Entry("run", f"it fails under FMPy: {' '.join(str(error).split())}", False)
    columns = [result[name] for name in result.dtype.names]
    finite = all(np.all(np.isfinite(column)) for column in columns)
    text = f"{STEPS} steps of {dt:g} s under FMPy, all outputs finite"
    return Entry("run", text if finite else "outputs that are not finite", finite)


def _operations(sources: Path) -> Iterator[Entry]:
    """Yield a report line with the operation count in model.h, if this file exists."""
    model = sources / "model.h"
    if model.exists():
        text = model.read_text()
        operations = len(re.findall(r"(?<=[\w)\]]) ?[-+*/] ?(?=[\w(])", text))
        calls = len(re.findall(r"\b(?:sin|cos|sqrt|exp|atan2|fabs)\(", text))
        yield Entry("operations", f"{operations} + - * / and {calls} function calls in the C code")


# ---- binary for Linux: a 64-bit ELF file ----


def _binary(library: Path) -> Iterator[Entry]:
    data = library.read_bytes()
    if data[:5] != b"\x7fELF\2":
        return
    sections = _sections(data)
    size = sections.get(".text", (0, 0))[1]
    yield Entry("code", f"{size} bytes of text")
    needed = ALLOCATION & set(_undefined_symbols(data, sections))
    text = (
        f"it calls {', '.join(sorted(needed))}"
        if needed
        else "it has no call that allocates memory"
    )
    yield Entry("allocations", f"{text}; see heap for allocations in steps")


def _sections(data: bytes) -> dict[str, tuple[int, int]]:
    """Return the offset and size [bytes] of each section of an ELF file, by section name."""
    (start,) = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    rows = [struct.unpack_from("<IIQQQQ", data, start + k * size) for k in range(count)]
    text = rows[names][4]
    named = {data[text + row[0] : data.index(b"\0", text + row[0])].decode(): row for row in rows}
    return {name: (row[4], row[5]) for name, row in named.items()}


def _undefined_symbols(data: bytes, sections: dict[str, tuple[int, int]]) -> Iterator[str]:
    """Yield the names of the symbols that an ELF file imports from shared libraries."""
    if not {".dynsym", ".dynstr"} <= sections.keys():
        return
    (at, size), (strings, _) = sections[".dynsym"], sections[".dynstr"]
    for k in range(at, at + size, 24):
        name, _, _, section = struct.unpack_from("<IBBH", data, k)
        if section == 0 and name:
            yield data[strings + name : data.index(b"\0", strings + name)].decode()


# ---- steps ----


def _steps(folder: str, description: Any, name: str, dt: float) -> Iterator[Entry]:
    """Measure time, heap growth and stack depth of steps of an FMI 2.0 FMU; yield report lines.

    `dt` is the communication step [s].
    """
    from fmpy.fmi2 import FMU2Slave

    fmu = FMU2Slave(
        guid=description.guid, unzipDirectory=folder, modelIdentifier=name, instanceName="sheet"
    )
    try:
        fmu.instantiate()
        fmu.setupExperiment(startTime=0.0)
        fmu.enterInitializationMode()
        fmu.exitInitializationMode()
        yield from _measure_steps(fmu, dt)
        fmu.terminate()
        fmu.freeInstance()
    except Exception as error:
        yield Entry("steps", f"a step fails: {' '.join(str(error).split())}", False)


def _measure_steps(fmu: Any, dt: float) -> Iterator[Entry]:
    done = 0

    def step() -> None:
        nonlocal done
        fmu.doStep(done * dt, dt)
        done += 1

    step()
    times = [_step_time(step) for _ in range(STEPS)]
    text = f"median {np.median(times):.3g} us, longest {max(times):.3g} us from Python, of {dt:g} s"
    yield Entry("time of a step", text)
    if grown := _heap_growth(step):
        yield Entry("heap", f"growth of {grown} bytes in {STEPS} steps", False)
    elif grown == 0:
        yield Entry("heap", f"no growth in {STEPS} steps")
    depth = _stack(fmu, done * dt, dt)
    text = "not measured" if depth is None else f"{depth} bytes in a step"
    yield Entry("stack", text)


def _step_time(step: Callable[[], None]) -> float:
    """Return the duration of one step [us]."""
    start = time.perf_counter_ns()
    step()
    return (time.perf_counter_ns() - start) / 1e3


def _heap_growth(step: Callable[[], None]) -> int | None:
    """Return the heap growth over `STEPS` steps [bytes].

    A growth of less than one byte per step counts as zero. The result is None if the C library does
    not have mallinfo2.
    """
    try:
        mallinfo = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError):
        return None
    mallinfo.restype = type("Mallinfo", (ctypes.Structure,), {"_fields_": _MALLINFO})
    least = []
    for _ in range(3):  # use the minimum, because Python itself may allocate memory
        before = mallinfo().uordblks
        for _ in range(STEPS):
            step()
        least.append(mallinfo().uordblks - before)
    return max(0, min(least)) if min(least) >= STEPS else 0


_MALLINFO = [
    (name, ctypes.c_size_t)
    for name in (
        *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks"),
        *("uordblks", "fordblks", "keepcost"),
    )
]


def _stack(fmu: Any, t: float, dt: float) -> int | None:
    """Return the stack depth [bytes] of a step at the time t [s].

    The step runs in a separate thread. The function fills the stack below the call with zeros,
    steps the FMU, and finds the lowest address with a nonzero value. The result is None on machines
    other than x86-64 Linux, or if the measurement fails.
    """
    if platform.machine() != "x86_64" or platform.system() != "Linux":
        return None
    libc, found = ctypes.CDLL(None), list[int]()
    do_step = fmu.dll.fmi2DoStep
    given = (ctypes.c_void_p(fmu.component), ctypes.c_double(t), ctypes.c_double(dt), 1)

    def measure() -> None:
        low, context = _lowest(libc), ctypes.create_string_buffer(4096)
        libc.getcontext(context)
        (top,) = struct.unpack_from("<Q", context.raw, 40 + 15 * 8)  # RSP register
        libc.memset(ctypes.c_void_p(low), 0, ctypes.c_size_t(top - low - FRAME))
        do_step(*given)
        found.append(top - low - _unused_stack_bytes(low, top - low))

    earlier = threading.stack_size(STACK)
    try:
        thread = threading.Thread(target=measure)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(earlier)
    return found[0] if found else None


FRAME = 512  # bytes below the call that memset itself may use; they are not set to zero


def _lowest(libc: Any) -> int:
    """Return the lowest usable stack address of the current thread."""
    attributes = ctypes.create_string_buffer(128)
    libc.pthread_self.restype = ctypes.c_void_p
    libc.pthread_getattr_np(ctypes.c_void_p(libc.pthread_self()), attributes)
    low, size = ctypes.c_void_p(), ctypes.c_size_t()
    libc.pthread_attr_getstack(attributes, ctypes.byref(low), ctypes.byref(size))
    return int(low.value or 0) + (1 << 16)


def _unused_stack_bytes(low: int, size: int) -> int:
    """Return the number of consecutive zero bytes from the address `low`, at most `size`."""
    page = 1 << 12
    for k in range(0, size, page):
        block = ctypes.string_at(low + k, page)
        if rest := block.lstrip(b"\0"):
            return k + page - len(rest)
    return size


CS, ME, SE = "CoSimulation", "ModelExchange", "ScheduledExecution"  # elements of the interfaces
_PARSER = etree.XMLParser(resolve_entities=False, no_network=True)
_ELEMENTS = {  # types of variables
    *("Float32", "Float64", "Boolean", "String", "Binary", "Enumeration", "Clock"),
    *(f"{sign}{bits}" for sign in ("Int", "UInt") for bits in (8, 16, 32, 64)),
}


class Support(StrEnum):
    """Support of a feature by an FMU: yes, no or not applicable."""

    YES = "yes"
    NO = "no"
    NOT_APPLICABLE = "-"


class Need(StrEnum):
    """Requirement level of a feature in a feature profile: required or recommended."""

    REQUIRED = "X"
    RECOMMENDED = "*"


@dataclass(frozen=True)
class Description:
    """Model description of an FMU, and names of the files in the FMU.

    Attributes:
        root: Root element of modelDescription.xml.
        names: Names of the files in the archive.
    """

    root: Any
    names: tuple[str, ...]

    @property
    def fmi(self) -> int:
        """Major FMI version that the FMU declares, such as 2."""
        return int(self.root.get("fmiVersion", "0").split(".")[0])

    @cached_property
    def interfaces(self) -> dict[str, Any]:
        """XML elements of the FMU's interface types, by interface name."""
        found = {name: self.root.find(name) for name in (CS, ME, SE)}
        return {name: element for name, element in found.items() if element is not None}

    @cached_property
    def variables(self) -> tuple[Any, ...]:
        """XML elements of all variables; in FMI 2.0, the elements `ScalarVariable`."""
        parent = self.root.find("ModelVariables")
        wanted = _ELEMENTS if self.fmi == 3 else {"ScalarVariable"}
        return tuple(one for one in (() if parent is None else parent) if one.tag in wanted)

    def select(self, causalities: Iterable[str]) -> tuple[Any, ...]:
        """Return the XML elements of all variables that have one of the given causalities."""
        return tuple(v for v in self.variables if v.get("causality", "local") in set(causalities))

    def has(self, attribute: str, interfaces: Iterable[str] = (CS, ME, SE)) -> bool:
        """Return True if one of `interfaces` sets `attribute` to a value other than false or 0."""
        values = (self.interfaces[name].get(attribute) for name in interfaces if name in self)
        return any(value not in (None, "false", "0") for value in values)

    def __contains__(self, interface: str) -> bool:
        return interface in self.interfaces

    @cached_property
    def structural(self) -> Counter[str]:
        """Number of array dimensions that a structural parameter sets, by its value reference."""
        counts = Counter[str]()
        for v in self.variables:
            counts.update({d.get("valueReference") for d in v.findall("Dimension")} - {None})
        return counts


SIGNALS, PARAMETERS = ("input", "output"), ("parameter", "calculatedParameter")
Test = Callable[[Description], bool]


def _has_type(tag: str, causalities: Iterable[str]) -> Test:
    return lambda fmu: any(v.tag == tag for v in fmu.select(causalities))


def _has_arrays(causalities: Iterable[str], sized_by: Callable[[Any, Description], bool]) -> Test:
    """Return a predicate for FMUs with an array of one of the given causalities.

    At least one dimension of the array must satisfy the predicate `sized_by`.
    """
    return lambda fmu: any(
        sized_by(dimension, fmu)
        for v in fmu.select(causalities)
        for dimension in v.findall("Dimension")
    )


def _is_fixed(dimension: Any, fmu: Description) -> bool:
    del fmu
    return dimension.get("valueReference") is None


def _is_resizable(dimension: Any, fmu: Description) -> bool:
    return not _is_fixed(dimension, fmu)


def _is_shared(dimension: Any, fmu: Description) -> bool:
    return fmu.structural[dimension.get("valueReference")] > 1


def _has_dependencies(fmu: Description) -> bool:
    """Return True if an FMU declares the dependencies of all outputs and state derivatives."""
    paths = (
        ("Outputs/Unknown", "Derivatives/Unknown")
        if fmu.fmi == 2
        else ("Output", "ContinuousStateDerivative")
    )
    unknowns = [one for path in paths for one in fmu.root.findall(f"ModelStructure/{path}")]
    return bool(unknowns) and all(one.get("dependencies") is not None for one in unknowns)


def _has_sources(fmu: Description) -> bool:
    listed = fmu.root.find(".//SourceFiles/File") is not None
    return listed if fmu.fmi == 2 else "sources/buildDescription.xml" in fmu.names


def _has_clocks(fmu: Description) -> bool:
    return any(v.tag == "Clock" for v in fmu.variables)


def _returns_early(fmu: Description) -> bool:
    flags = ("mightReturnEarlyFromDoStep", "canReturnEarlyAfterIntermediateUpdate")
    return any(fmu.has(flag, (CS,)) for flag in flags)


def _has_layered_standard(name: str) -> Test:
    folder = f"extra/org.fmi-standard.{name}/"
    return lambda fmu: any(file.startswith(folder) for file in fmu.names)


def _has_attribute(*names: str, interface_types: Iterable[str] = (CS, ME, SE)) -> Test:
    return lambda fmu: any(fmu.has(name, interface_types) for name in names)


class Feature(NamedTuple):
    """Optional feature of FMUs, such as binary variables.

    Attributes:
        text: Name of the feature.
        test: Predicate that is True if an FMU has the feature.
        fmi: First major FMI version that defines the feature.
        interface_type: Interface type that has the feature, or None for all interface types.
    """

    text: str
    test: Test
    fmi: int = 2
    interface_type: str | None = None


FEATURES: Mapping[str, Feature] = {
    "tunable": Feature(
        "tunable parameters",
        lambda fmu: any(v.get("variability") == "tunable" for v in fmu.select(PARAMETERS)),
    ),
    "store": Feature(
        "saved FMU state", _has_attribute("canGetAndSetFMUState", "canGetAndSetFMUstate")
    ),
    "serialize": Feature(
        "serialized FMU state", _has_attribute("canSerializeFMUState", "canSerializeFMUstate")
    ),
    "binary signals": Feature("binary inputs or outputs", _has_type("Binary", SIGNALS), 3),
    "binary parameters": Feature("binary parameters", _has_type("Binary", PARAMETERS), 3),
    "arrays": Feature("arrays of fixed size", _has_arrays(SIGNALS, _is_fixed), 3),
    "resizable arrays": Feature("resizable arrays", _has_arrays(SIGNALS, _is_resizable), 3),
    "parameter arrays": Feature(
        "parameter arrays of fixed size", _has_arrays(PARAMETERS, _is_fixed), 3
    ),
    "resizable parameters": Feature(
        "resizable parameter arrays", _has_arrays(PARAMETERS, _is_resizable), 3
    ),
    "shared sizes": Feature(
        "parameter arrays with a common size", _has_arrays(PARAMETERS, _is_shared), 3
    ),
    "steps": Feature(
        "communication steps of any size",
        _has_attribute("canHandleVariableCommunicationStepSize", interface_types=(CS,)),
        interface_type=CS,
    ),
    "dependencies": Feature("dependencies of outputs and derivatives", _has_dependencies),
    "output derivatives": Feature(
        "output derivatives",
        _has_attribute("maxOutputDerivativeOrder", interface_types=(CS,)),
        interface_type=CS,
    ),
    "directional": Feature(
        "directional derivatives",
        _has_attribute("providesDirectionalDerivative", "providesDirectionalDerivatives"),
    ),
    "adjoint": Feature("adjoint derivatives", _has_attribute("providesAdjointDerivatives"), 3),
    "early return": Feature("early return", _returns_early, 3, CS),
    "restart": Feature(
        "early return with event mode",
        lambda fmu: _returns_early(fmu) and fmu.has("hasEventMode", (CS,)),
        3,
        CS,
    ),
    "intermediate": Feature(
        "intermediate updates",
        _has_attribute("providesIntermediateUpdate", interface_types=(CS,)),
        3,
        CS,
    ),
    "clocks": Feature("clocks in co-simulation", _has_clocks, 3, CS),
    "scheduled": Feature("scheduled execution", lambda fmu: SE in fmu, 3),
    "clocked exchange": Feature("clocks in model exchange", _has_clocks, 3, ME),
    "bus": Feature("network communication (FMI-LS-BUS)", _has_layered_standard("fmi-ls-bus"), 3),
    "xcp": Feature("calibration (FMI-LS-XCP)", _has_layered_standard("fmi-ls-xcp"), 2),
    "sources": Feature("source code", _has_sources),
}


class Profile(NamedTuple):
    """Feature profile with its required and recommended features (keys of `FEATURES`).

    `required_of` maps a required feature to the only interface type that needs it.
    """

    name: str
    required: tuple[str, ...]
    recommended: tuple[str, ...]
    required_of: Mapping[str, str] = {}  # interface to which a requirement is restricted

    def need(self, key: str) -> Need | None:
        """Return the requirement level of the feature `key`, or None for an omitted feature."""
        if key in self.required:
            return Need.REQUIRED
        return Need.RECOMMENDED if key in self.recommended else None


_XIL = Profile(
    "XiL",
    (
        *("tunable", "binary signals", "binary parameters", "arrays", "parameter arrays"),
        *("resizable parameters", "clocks"),
    ),
    ("sources", "steps", "store", "scheduled"),
)
_DYNAMICS = Profile(
    "Dynamics",
    ("tunable", "arrays", "parameter arrays", "dependencies", "directional"),
    (
        *("binary signals", "resizable parameters", "shared sizes", "steps", "early return"),
        *("output derivatives", "intermediate", "store"),
    ),
    {"directional": ME},
)
_CONTROLLER = ("clocked exchange", "steps", "restart", "intermediate", "clocks")
PROFILES = (
    Profile(
        "Basic CS", ("arrays", "parameter arrays"), ("tunable", "sources", "resizable parameters")
    ),
    Profile("Sensor", ("tunable", "binary signals", "binary parameters", "steps"), ("sources",)),
    _XIL,
    Profile("ECU", (*_XIL.required, "bus"), (*_XIL.recommended, "xcp")),
    _DYNAMICS,
    Profile(
        "Dynamics Controller",
        (*_DYNAMICS.required, *_CONTROLLER),
        tuple(key for key in _DYNAMICS.recommended if key not in _CONTROLLER),
        _DYNAMICS.required_of,
    ),
    Profile(
        "Optimization",
        (
            *("tunable", "arrays", "parameter arrays", "dependencies", "directional", "adjoint"),
            *("store", "serialize", "steps", "output derivatives", "intermediate"),
        ),
        ("resizable parameters",),
        {"store": CS, "serialize": CS},
    ),
)


class Matrix(NamedTuple):
    """Supported features of an FMU, and missing required features of each feature profile.

    Attributes:
        support: Support of each feature by the FMU, by key of `FEATURES`.
        missing: Missing required features of the FMU, by profile name.
    """

    support: Mapping[str, Support]
    missing: Mapping[str, tuple[str, ...]]


def profile_matrix(path: str | Path) -> Matrix:
    """Compare the features of an FMU with the feature profiles of the FMI project.

    If an FMU does not have an interface type, the features of this interface type are not
    applicable, and no profile counts them as missing. FMI 3.0 features are missing in all FMI 2.0
    FMUs.

    Args:
        path: FMI 2.0 or 3.0 FMU file.

    Returns:
        Features of the FMU, and missing required features of each profile.

    Raises:
        ValueError: The file is not an FMI 2.0 or 3.0 FMU.
    """
    fmu = _read(path)
    support = {key: _support(feature, fmu) for key, feature in FEATURES.items()}

    def is_missing(profile: Profile, key: str) -> bool:
        needed = profile.required_of.get(key)
        return support[key] is Support.NO and (needed is None or needed in fmu)

    missing = {
        profile.name: tuple(key for key in profile.required if is_missing(profile, key))
        for profile in PROFILES
    }
    return Matrix(support, missing)


def _support(feature: Feature, fmu: Description) -> Support:
    if feature.interface_type is not None and feature.interface_type not in fmu:
        return Support.NOT_APPLICABLE
    return Support.YES if fmu.fmi >= feature.fmi and feature.test(fmu) else Support.NO


def _read(path: str | Path) -> Description:
    try:
        with zipfile.ZipFile(path) as archive:
            root = etree.fromstring(archive.read("modelDescription.xml"), _PARSER)
            names = tuple(name.replace("\\", "/") for name in archive.namelist())
        fmu = Description(root, names)
        known = fmu.fmi in (2, 3)
    except Exception as error:
        raise ValueError(f"{path}: this FMU cannot be read: {error}") from None
    if not known:
        raise ValueError(
            f"{path}: the profiles are for FMI 2.0 and 3.0, not {root.get('fmiVersion')}"
        )
    return fmu


def matrix_lines(matrix: Matrix) -> Iterator[str]:
    """Yield the lines of a text table with one row per feature and one column per profile.

    The lines after the table list the missing features of each profile.
    """
    heads = ("FMU", *(profile.name for profile in PROFILES))
    width = max(len(feature.text) for feature in FEATURES.values())
    rows = [
        (feature.text, matrix.support[key], *(profile.need(key) or "" for profile in PROFILES))
        for key, feature in FEATURES.items()
    ]
    for text, *cells in (("feature", *heads), *rows):
        columns = (f"{cell:<{len(head)}}" for cell, head in zip(cells, heads, strict=True))
        yield f"{text:<{width}}  {'  '.join(columns)}".rstrip()
    yield "X required, * recommended, - not applicable to the interface types of this FMU"
    for name, keys in matrix.missing.items():
        absent = ", ".join(FEATURES[key].text for key in keys)
        yield f"{name}: {f'without {absent}' if absent else 'complete'}"
