"""Acceptance report of an FMU: validation result, time and memory of a step, and code size."""

import ctypes
import platform
import re
import struct
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import fmpy
import numpy as np

from rigidblocks.cosim.graph.fmu_file import FmuError, check_compiler, compile_sources, source_sets

ALLOCATION = {"malloc", "calloc", "realloc", "free", "posix_memalign", "aligned_alloc"}
STEPS = 500
STACK = 8 << 20  # stack size [bytes] of the thread that measures the stack depth


class Entry(NamedTuple):
    """Line of an acceptance report: the checked subject, the result as text, and the verdict.

    `well` is True if the result is acceptable.
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
