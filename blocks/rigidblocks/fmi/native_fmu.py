"""Export of a block as a native FMU, with code generation, compilation and packaging."""

import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.resources import files
from math import inf
from pathlib import Path
from xml.etree import ElementTree

import fmpy
import numpy as np

from rigidblocks.block.adaptive_methods import (
    DEFAULT_METHOD,
    Adaptive,
    Method,
    longest_step,
    memory_for,
)
from rigidblocks.block.block import Block
from rigidblocks.block.memory_layout import Memory
from rigidblocks.common.compiler import (
    PORTABLE_FLAGS,
    cross_compiler,
    kernel_compiler,
    shared_library,
)
from rigidblocks.common.slow_operation_log import log_if_slow
from rigidblocks.fmi.archive import (
    LICENSE,
    add_source_files,
    license_text,
    source_content,
    write_archive,
)
from rigidblocks.fmi.documentation import documentation_content
from rigidblocks.fmi.model_description import (
    ARRAY_SIZE,
    CLOCK,
    CLOCK_KINDS,
    LOG_CATEGORIES,
    SAMPLE_CLOCK,
    TOLERANCE,
    Metadata,
    array_size_reference,
    array_variables,
    model_description,
    model_description3,
    output_order_attribute,
)
from rigidblocks.fmi.run_diagnostics import CLOSE, STEPS, condition_places, step_places
from rigidblocks.fmi.terminals_and_icons import ICON, icon, terminals_content
from rigidblocks.fmi.variables import Variable, Variables, sparsity_header
from rigidblocks.fmi.xcp import FILES as XCP_FILES
from rigidblocks.fmi.xcp import FLAGS as XCP_FLAGS
from rigidblocks.fmi.xcp import XcpAddress, check_platforms, plan_header, xcp_content
from rigidblocks.kernels.block_digest import cached_texts
from rigidblocks.kernels.event_indicators import Tangents, events_header, tangent_header
from rigidblocks.kernels.model_header import KERNEL, model_header
from rigidblocks.kernels.traced_evaluator import TracedEvaluator
from rigidblocks.tracing.c_notation import c_string
from rigidblocks.tracing.ccode import c_number, c_text

ALL = "all"


@dataclass(frozen=True)
class Platform:
    """Target platform of a native FMU.

    Attributes:
        name: FMI 3.0 platform name.
        fmi2_folder: Name of the binary folder in FMI 2.0.
        suffix: Suffix of shared libraries.
        target: Target name of the cross compiler.
        flags: Additional compiler flags.
        link: Additional linker flags.
    """

    name: str
    fmi2_folder: str
    suffix: str
    target: str
    flags: tuple[str, ...] = ()
    link: tuple[str, ...] = ("-lm",)

    def folder(self, fmi: int) -> str:
        """Return the path of the platform's binary folder in an FMI 2 or FMI 3 FMU."""
        return f"binaries/{self.fmi2_folder if fmi == 2 else self.name}"

    def install_name(self, identifier: str) -> tuple[str, ...]:
        """Return the compiler flags that set the install name of a macOS library.

        Without these flags, the install name would be the build path. For other platforms, the
        result is ().
        """
        return (
            (f"-Wl,-install_name,@rpath/{identifier}{self.suffix}",)
            if self.suffix == ".dylib"
            else ()
        )


# without these flags the compilation of a large straight-line function takes over a minute
_WINDOWS_FLAGS = ("-fno-stack-check", "-mno-stack-arg-probe")
# C functions need no tables for exceptions; without tables, the code occupies fewer 16 kB pages
_MAC_FLAGS = ("-fno-asynchronous-unwind-tables",)
_PLATFORMS = (
    Platform("x86_64-linux", "linux64", ".so", "x86_64-linux-gnu.2.17"),
    Platform(
        "aarch64-linux", "aarch64-linux", ".so", "aarch64-linux-gnu.2.17"
    ),  # FMI 2.0.4 (2.3) also uses this name
    Platform("x86_64-windows", "win64", ".dll", "x86_64-windows-gnu", _WINDOWS_FLAGS, ()),
    Platform("x86_64-darwin", "darwin64", ".dylib", "x86_64-macos", _MAC_FLAGS),
    Platform("aarch64-darwin", "aarch64-darwin", ".dylib", "aarch64-macos", _MAC_FLAGS),
)
PLATFORMS = {platform.name: platform for platform in _PLATFORMS}


def binaries(
    sources: Mapping[str, str],
    main: str,
    identifier: str,
    fmi: int,
    platforms: str | Iterable[str] | None,
    flags: tuple[str, ...] = (),
) -> dict[str, bytes]:
    """Build the shared libraries of an FMU.

    If `platforms` is None, the C compiler of this machine builds one library for this machine.
    Otherwise ziglang builds the libraries of all platforms in parallel. FMI 2.0
    importers search the folder darwin64 on both Mac architectures. If both are built for FMI 2.0,
    this folder contains one universal library for both.

    Args:
        sources: Text of the C sources by file name.
        main: Name of the source file to compile.
        identifier: Model identifier.
        fmi: FMI version, 2 or 3.
        platforms: FMI 3.0 platform names, "all", or None.
        flags: Additional compiler flags.

    Returns:
        Libraries (bytes) by path in the FMU.

    Raises:
        ValueError: A platform is unknown.
        NotImplementedError: This machine is not a supported platform.
        CompilerError: No C compiler is installed.
    """
    if platforms is None:
        here = _this_platform()
        built = {here: _library(sources, main, identifier, here, flags, cross=False)}
    else:
        wanted = find_platforms(platforms)
        with ThreadPoolExecutor() as pool:
            libraries = pool.map(
                lambda platform: _library(sources, main, identifier, platform, flags, cross=True),
                wanted,
            )
            built = dict(zip(wanted, libraries, strict=True))
    content = {
        f"{platform.folder(fmi)}/{identifier}{platform.suffix}": library
        for platform, library in built.items()
    }
    mac = [
        built[PLATFORMS[name]]
        for name in ("x86_64-darwin", "aarch64-darwin")
        if PLATFORMS[name] in built
    ]
    if fmi == 2 and len(mac) == 2:
        content[f"binaries/darwin64/{identifier}.dylib"] = universal(*mac)
    return content


def _unknown_platform(name: str) -> str:
    """Return the error text for an unknown platform, with a suggestion for a similar name.

    For an FMI 2.0 folder name, such as linux64, the suggestion is the platform of this folder.
    """
    folders = {platform.fmi2_folder: platform.name for platform in _PLATFORMS}
    close = [folders[name]] if name in folders else get_close_matches(name, PLATFORMS, 1)
    return f"unknown platform '{name}'" + (f" (did you mean {close[0]}?)" if close else "")


def find_platforms(platforms: str | Iterable[str]) -> tuple[Platform, ...]:
    """Return the platforms with the given names, or all platforms for "all".

    Raises:
        ValueError: A name is unknown, or the list is empty.
    """
    if isinstance(platforms, str):
        platforms = PLATFORMS if platforms == ALL else [platforms]
    names = tuple(dict.fromkeys(platforms))
    if not names or (unknown := [name for name in names if name not in PLATFORMS]):
        problem = "no platform to build for" if not names else _unknown_platform(unknown[0])
        raise ValueError(f"{problem}; choose among {', '.join(PLATFORMS)}, or {ALL}")
    return tuple(PLATFORMS[name] for name in names)


def universal(x86_64: bytes, arm64: bytes) -> bytes:
    """Combine macOS libraries for x86_64 and arm64 into one universal library.

    The binaries are aligned to 16 KiB. loader.h and fat.h of macOS define the format.
    """
    align = 14
    offsets = [1 << align, (len(x86_64) + (2 << align) - 1) >> align << align]
    header = struct.pack(">2I", 0xCAFEBABE, 2)
    header += struct.pack(">5I", 0x01000007, 3, offsets[0], len(x86_64), align)
    header += struct.pack(">5I", 0x0100000C, 0, offsets[1], len(arm64), align)
    return (header.ljust(offsets[0], b"\0") + x86_64).ljust(offsets[1], b"\0") + arm64


def _library(
    sources: Mapping[str, str],
    main: str,
    identifier: str,
    platform: Platform,
    more: tuple[str, ...],
    *,
    cross: bool,
) -> bytes:
    command = cross_compiler(platform.target) if cross else kernel_compiler()
    flags = (*PORTABLE_FLAGS, *more, *platform.flags, *platform.install_name(identifier))
    name = f"{identifier}{platform.suffix}"
    return shared_library(sources, main, flags, command, name=name, link=platform.link).read_bytes()


def _this_platform() -> Platform:
    if fmpy.platform_tuple not in PLATFORMS:
        raise NotImplementedError(
            f"native FMUs can be built for {', '.join(PLATFORMS)}, not for {fmpy.platform_tuple}"
        )
    return PLATFORMS[fmpy.platform_tuple]


@dataclass(frozen=True)
class Runtime:
    """C source files of native FMUs for one FMI version.

    Attributes:
        main: Name of the source file to compile.
        files: Paths of the source files in the folder `c`.
        headers: Names of the headers of the FMI standard.
    """

    main: str
    files: tuple[str, ...]
    headers: tuple[str, ...]


SHARED = (
    *(f"kernel/{name}" for name in KERNEL),
    *(
        "fmi/instance.h",
        "fmi/simulation_run.h",
        "fmi/variable_access.h",
    ),
)
RUNTIMES = {
    2: Runtime(
        "fmi2.c",
        ("fmi/fmi2.c", *SHARED),
        ("fmi2Functions.h", "fmi2FunctionTypes.h", "fmi2TypesPlatform.h"),
    ),
    3: Runtime(
        "fmi3.c",
        ("fmi/fmi3.c", "fmi/fmi3_variables.h", *SHARED),
        ("fmi3Functions.h", "fmi3FunctionTypes.h", "fmi3PlatformTypes.h"),
    ),
}
MAIN = RUNTIMES[2].main


def native_fmu(
    block: Block,
    path: str | Path,
    *,
    name: str | None = None,
    method: Method = DEFAULT_METHOD,
    h: float | None = None,
    tunable: tuple[str, ...] | None = None,
    fmi: int = 2,
    platforms: str | Iterable[str] | None = None,
    sources: bool = False,
    metadata: Metadata = Metadata(),  # noqa: B008 - frozen
    deflate: bool = False,
    xcp: str | None = None,
    arrays: bool = True,
    output_derivatives: int | None = None,
    interval: float | None = None,
    clock: str | None = None,
    binary: Iterable[str] = (),
    resizable: bool = False,
) -> Path:
    """Export a block as a native FMU.

    Repeated exports of a block with the same version of the C compiler create identical files. If
    `platforms` is given, all machines with the same ziglang version create identical files.

    Args:
        block: Block to export.
        path: Path of the FMU.
        name: Model identifier; by default the name of the block's class.
        method: Integration method.
        h: Maximum inner step [s].
        tunable: Names of the tunable parameters; by default all. The other parameters are
            constants.
        fmi: FMI version, 2 or 3.
        platforms: Platforms as in `binaries`; may be empty if `sources` is True.
        sources: True to include the C code.
        metadata: Author, version and other attributes.
        deflate: True to compress the archive.
        xcp: Address or port of the XCP server (FMI-LS-XCP), only on Linux.
        arrays: True for one array variable per port in FMI 3.0, False for scalar variables.
        output_derivatives: Highest order of the time derivatives of the outputs, 0 to 2. The
            default is 2 if this adds little code, otherwise 1. If no output changes between
            samples, the default is 0.
        interval: Clock interval [s] of an FMI 3.0 FMU for scheduled execution; None for an
            FMU for co-simulation and model exchange.
        clock: "periodic" or "triggered" for an FMI 3.0 input clock that triggers the samples of the
            block. None: the FMU triggers its samples.
        binary: Names of the ports that become binary variables in FMI 3.0.
        resizable: True for FMI 3.0 arrays with a resizable last dimension.

    Returns:
        Path of the FMU.

    Raises:
        ValueError: The name is not a C identifier, the FMI version is not supported, or a platform
            is unknown. XCP is combined with `sources` or with a platform other than Linux.
            `output_derivatives` is too high, or the block does not support the clock.
        NotImplementedError, CompilerError: As in `binaries`.
    """
    runtime = runtime_of(fmi)
    identifier = model_identifier(type(block).__name__ if name is None else name)
    h = longest_step(method, h)
    evaluator = TracedEvaluator(memory_for(block, method, tunable))
    wanted = (
        None if platforms is None else platforms if isinstance(platforms, str) else tuple(platforms)
    )
    address = _xcp_address(xcp, wanted, sources)
    if (names := frozenset(binary)) and fmi != 3:
        raise ValueError(f"binary variables need FMI 3.0: {', '.join(sorted(names))}")
    variables = Variables(evaluator, arrays, names, resizable)
    description, texts = fmu_sources(
        variables,
        identifier,
        method,
        h,
        fmi,
        metadata,
        address,
        output_derivatives,
        interval,
        clock,
    )
    with ThreadPoolExecutor(1) as pool:  # compile while the reference run is computed
        without = sources and wanted == ()
        built = (
            None
            if without
            else pool.submit(
                binaries, texts, runtime.main, identifier, fmi, wanted, XCP_FLAGS if address else ()
            )
        )
        content = documentation_content(evaluator, identifier, method, h)
        content[LICENSE] = license_text(
            {header: texts[header] for header in runtime.headers}
        ).encode()
        content |= _icon_and_terminals(variables, fmi)
        content |= built.result() if built else {}
        if address:
            folders = {path.split("/")[1] for path in content if path.startswith("binaries/")}
            content |= xcp_content(variables, identifier, address, sorted(folders))
    if sources:
        content |= source_content(texts, runtime.main, identifier, fmi)
        description = add_source_files(description, runtime.main) if fmi == 2 else description
    content[_DESCRIPTION] = description.encode()
    return write_archive(path, content, deflate=deflate)


def _icon_and_terminals(variables: Variables, fmi: int) -> dict[str, bytes]:
    """Return the icon file, and for FMI 3.0 the terminals file (bytes), by path in the FMU."""
    if fmi == 2:
        return {ICON: icon()}
    ports = variables.memory.ports if variables.arrays else ()  # terminals connect array variables
    return terminals_content(port.name for port in ports)


def _xcp_address(
    xcp: str | None, platforms: str | tuple[str, ...] | None, sources: bool
) -> XcpAddress | None:
    if xcp is None:
        return None
    if sources:
        raise ValueError("XCP needs an FMU with binaries; source code FMUs do not support it")
    check_platforms(platforms)
    return XcpAddress(xcp)


def runtime_of(fmi: int) -> Runtime:
    """Return the C source files for an FMI version; raise ValueError for another version."""
    if fmi not in RUNTIMES:
        raise ValueError(f"fmi must be one of {', '.join(map(str, RUNTIMES))}, not {fmi!r}")
    return RUNTIMES[fmi]


def fmu_sources(
    variables: Variables,
    identifier: str,
    method: Method,
    h: float,
    fmi: int = 2,
    metadata: Metadata = Metadata(),  # noqa: B008 - frozen
    xcp: XcpAddress | None = None,
    output_derivatives: int | None = None,
    interval: float | None = None,
    clock: str | None = None,
) -> tuple[str, Mapping[str, str]]:
    """Return the text of modelDescription.xml and the C sources of a native FMU.

    The model description and the header fmu.h contain the guid: a digest of the model description
    and all other sources.

    Args:
        variables: Variables of the block.
        identifier: Model identifier.
        method: Integration method.
        h: Maximum inner step [s].
        fmi: FMI version, 2 or 3.
        metadata: Author, version and other attributes.
        xcp: Address of the XCP server, or None.
        output_derivatives: Highest order of output derivatives, as in `native_fmu`.
        interval: Clock interval [s] for scheduled execution, or None.
        clock: Type of the sampling clock, "periodic" or "triggered", or None.

    Returns:
        XML text, and text of the C sources by file name.

    Raises:
        ValueError: The FMI version, the clock or the order of output derivatives is not supported.
    """
    runtime = runtime_of(fmi)
    if interval is not None:
        _check_interval(interval, variables, fmi, xcp)
    if clock is not None:
        _check_clock(clock, variables, fmi, xcp, interval)
    if variables.resizable:
        _check_resizable(variables, fmi, xcp, interval, output_derivatives)
        output_derivatives = 0
    sources = {Path(path).name: c_text(path) for path in runtime.files}
    sources |= {
        name: files("fmpy").joinpath(f"c-code/{name}").read_text() for name in runtime.headers
    }
    if xcp:
        sources |= {Path(path).name: c_text(path) for path in XCP_FILES}
    options = identifier, method, h, fmi, metadata, xcp, output_derivatives, interval, clock
    ports = variables.memory, variables.arrays, variables.binary, variables.resizable
    texts = cached_texts(
        lambda: _generated_texts(variables, sources, *options),
        *("sources of a native FMU", fmpy.__version__, ports, options),
    )
    return texts.pop(_DESCRIPTION), sources | texts


_DESCRIPTION = "modelDescription.xml"


def _generated_texts(
    variables: Variables,
    handwritten: dict[str, str],
    identifier: str,
    method: Method,
    h: float,
    fmi: int,
    metadata: Metadata,
    xcp: XcpAddress | None,
    output_derivatives: int | None,
    interval: float | None,
    clock: str | None,
) -> dict[str, str]:
    """Return the model description and the generated headers of a native FMU by file name.

    `handwritten` contains the other C sources by file name. The other arguments are as in
    `fmu_sources`.
    """
    texts = {
        "model.h": model_header(variables.evaluator, method, h),
        "events.h": events_header(variables.events),
    }
    tangents = Tangents(variables.events)
    order = 0
    with log_if_slow(f"differentiating {variables.memory.name}"):
        if interval is None:
            order = tangents.output_order(output_derivatives, has_input_rates=fmi == 2)
        elif output_derivatives:
            raise ValueError("FMUs for scheduled execution do not support output derivatives")
        texts["tangent.h"] = tangent_header(tangents, order)
    if fmi == 3:
        texts["sparsity.h"] = sparsity_header(variables)
    if xcp:
        texts["xcp_plan.h"] = plan_header(variables, identifier, xcp)
    content = (part.encode() for item in sorted((handwritten | texts).items()) for part in item)
    if fmi == 3:
        has_fixed_steps = variables.memory.block.states and not isinstance(method, Adaptive)
        inner_step = h if has_fixed_steps else None
        description = model_description3(
            variables, identifier, content, metadata, inner_step, xcp, order, interval, clock
        )
        guid = ElementTree.fromstring(description).attrib["instantiationToken"]
    else:
        description = model_description(
            variables,
            identifier,
            content,
            model_exchange=True,
            metadata=metadata,
            xcp=xcp,
            canInterpolateInputs="true",
            **output_order_attribute(order),
        )
        guid = ElementTree.fromstring(description).attrib["guid"]
    header = fmu_header(
        variables, guid, fmi, scheduled=interval is not None, clocked=clock is not None
    )
    return texts | {"fmu.h": header, _DESCRIPTION: description}


def _check_options(subject: str, fmi: int, **excluded: object) -> None:
    """Raise ValueError if the FMI version is not 3.0 or an excluded option is not None."""
    if fmi != 3:
        raise ValueError(f"{subject} must be exported for FMI 3.0, not for FMI {fmi}.0")
    for option, value in excluded.items():
        if value is not None:
            raise ValueError(f"{subject} does not support the option {option}; leave it out")


def _check_interval(
    interval: float, variables: Variables, fmi: int, xcp: XcpAddress | None
) -> None:
    """Raise ValueError if the options exclude scheduled execution.

    `interval` is the clock interval [s].
    """
    _check_options("an FMU for scheduled execution", fmi, xcp=xcp)
    if not 0.0 < interval < inf:
        raise ValueError(f"the clock interval must be positive, not {interval} s")
    if any(port.name == CLOCK for port in variables.memory.ports):
        raise ValueError(f"the name '{CLOCK}' is reserved for the clock; rename the port")


def _check_clock(
    clock: str, variables: Variables, fmi: int, xcp: XcpAddress | None, interval: float | None
) -> None:
    """Raise ValueError if the block or the options exclude a clock that triggers the samples.

    `interval` is the clock interval for scheduled execution [s], or None.
    """
    if clock not in CLOCK_KINDS:
        raise ValueError(f"clock must be one of {', '.join(CLOCK_KINDS)}, not '{clock}'")
    _check_options("an FMU with a sampling clock", fmi, xcp=xcp, interval=interval)
    block = variables.memory.block
    if not block.sample_time:
        raise ValueError(
            f"a clock needs a block with a sample time; {type(block).__name__} has none"
        )
    if any(port.name == SAMPLE_CLOCK for port in variables.memory.ports):
        raise ValueError(f"the name '{SAMPLE_CLOCK}' is reserved for the clock; rename the port")
    fixed = variables.memory.p
    for name in sorted(variables.binary):
        first = variables.memory.where[name].start
        is_parameter = fixed.start <= first < fixed.stop
        if not is_parameter and first not in variables.sampled_elements:
            raise ValueError(
                f"'{name}' cannot be a binary variable of an FMU with a clock, because it is "
                "continuous; parameters and variables that change only at samples can be binary"
            )


def _check_resizable(
    variables: Variables,
    fmi: int,
    xcp: XcpAddress | None,
    interval: float | None,
    output_derivatives: int | None,
) -> None:
    """Raise ValueError if the block or the options exclude resizable arrays.

    `interval` is the clock interval for scheduled execution [s], or None.
    """
    _check_options(
        "an FMU with resizable arrays",
        fmi,
        xcp=xcp,
        interval=interval,
        output_derivatives=output_derivatives or None,
    )
    if not variables.arrays:
        raise ValueError("an FMU with resizable arrays needs arrays=True")
    block = variables.memory.block
    if block.states:
        raise ValueError(
            "resizable arrays need a block without continuous states; "
            f"{type(block).__name__} has {', '.join(port.name for port in block.states)}"
        )
    if any(port.name == ARRAY_SIZE for port in variables.memory.ports):
        raise ValueError(
            f"the name '{ARRAY_SIZE}' is reserved for the structural parameter that sets the array "
            "size; rename the port"
        )
    variables.resizable_ports  # noqa: B018 - rejects blocks whose elements are not independent


def _resizable_lines(variables: Variables, clocked: bool) -> Iterator[str]:
    """Yield the lines of fmu.h that mark the resizable arrays, if the FMU has such arrays."""
    if variables.resizable:
        starts = {variables.memory.where[name].start for name in variables.resizable_ports}
        marks = ", ".join(str(int(k in starts)) for k in range(variables.count))
        yield f"#define RB_RESIZABLE {variables.resizable_size} /* largest size of the arrays */"
        reference = array_size_reference(variables, clocked)
        yield f"#define RB_ARRAY_SIZE {reference}u /* the structural parameter */"
        yield f"static const unsigned char RB_IS_RESIZABLE[] = {{{marks}}};"


def fmu_header(
    variables: Variables, guid: str, fmi: int, *, scheduled: bool = False, clocked: bool = False
) -> str:
    """Return the text of fmu.h, a C header with constants and variable tables of an FMU."""
    scalars = (*variables.all, *variables.rates, *variables.indicators)
    names = ",\n    ".join(c_string(v.name) for v in scalars)
    settable = ", ".join(_settable(v) for v in scalars)
    binary = _binary_elements(variables)
    outputs = ", ".join(
        str(int(v.causality == "output" and v.index not in binary)) for v in scalars
    )
    lengths = _lengths(variables) if fmi == 3 else _scalar_lengths(variables)
    last = max(k for k, length in enumerate(lengths) if length)
    categories = ", ".join(map(c_string, LOG_CATEGORIES))
    nominals = ", ".join(
        c_number(v.nominal or 1.0) for v in (*variables.all[variables.memory.x], variables.all[0])
    )
    lowest = ", ".join(c_number(-inf if v.min is None else v.min) for v in scalars)
    highest = ", ".join(c_number(inf if v.max is None else v.max) for v in scalars)
    return "\n".join(
        [
            "#ifndef RB_FMU_H\n#define RB_FMU_H\n\n#include <math.h>\n",
            f"#define RB_GUID {c_string(guid)}",
            f"#define RB_SCHEDULED {int(scheduled)} /* 1 for scheduled execution */",
            f"#define RB_CLOCK {variables.count}u /* the clock of its model partition */",
            *_resizable_lines(variables, clocked),
            *["#define RB_CLOCKED /* the clock takes the samples in event mode */"] * clocked,
            *_binary_lines(variables),
            f"#define RB_SUSPICION {c_string(_suspected_causes(variables.memory))}",
            f"static const char *const RB_LOG_CATEGORIES[] = {{{categories}, 0}};",
            f"static const char *const RB_NAMES[] = {{\n    {names}}};",
            "/* number of elements of a variable by value reference; 0 for an unknown reference */",
            f"static const unsigned short RB_LENGTH[] = {{{', '.join(map(str, lengths))}}};",
            f"enum {{ RB_LAST_VARIABLE = {last} }};",
            "/* modes in which a variable may be set */",
            "enum { RB_NEVER, RB_START_VALUE, RB_TUNABLE, RB_ALWAYS };",
            f"static const unsigned char RB_SETTABLE[] = {{{settable}}};",
            "/* 1 for outputs, 0 for other variables */",
            f"static const unsigned char RB_IS_OUTPUT[] = {{{outputs}}};",
            "/* solver tolerance if the host does not set a tolerance */",
            f"static const double RB_TOLERANCE = {TOLERANCE};",
            "/* bounds of parameters and start values */",
            f"static const double RB_MIN[] = {{{lowest}}};",
            f"static const double RB_MAX[] = {{{highest}}};",
            *_diagnostics_lines(variables.memory),
            *_dependent_start_lines(variables.memory),
            "/* nominal values of the continuous states, and one unused element */",
            f"static const double RB_NOMINAL[] = {{{nominals}}};\n",
            "#endif\n",
        ]
    )


def _binary_elements(variables: Variables) -> set[int]:
    """Return the memory indices of the elements of binary variables."""
    places = (variables.memory.where[name] for name in variables.binary)
    return {k for where in places for k in range(where.start, where.stop)}


def _binary_lines(variables: Variables) -> Iterator[str]:
    """Yield the lines of fmu.h that mark the binary variables, if the FMU has binary variables."""
    if variables.binary:
        elements = _binary_elements(variables)
        marks = ", ".join(str(int(k in elements)) for k in range(variables.count))
        yield "#define RB_BINARY /* some variables are binary: little-endian doubles */"
        yield f"static const unsigned char RB_IS_BINARY[] = {{{marks}}};"


def _suspected_causes(memory: Memory) -> str:
    """Return the possible causes of a failed step in parentheses, or "" if none are known."""
    unknown = np.full(memory.size, np.nan)
    suspects = "; ".join(memory.block.suspects(memory.argument("x", unknown)))
    return f" ({suspects})" if suspects else ""


def _diagnostics_lines(memory: Memory) -> Iterator[str]:
    """Yield the lines of fmu.h with the memory indices that the run diagnostics read."""
    loops, steps = tuple(condition_places(memory)), tuple(step_places(memory))
    yield "/* memory indices of run diagnostics, with one unused element in each table */"
    yield f"enum {{ RB_LOOPS = {len(loops)}, RB_STEPPED = {len(steps)} }};"
    yield f"static const double RB_CLOSE = {c_number(CLOSE)}; /* to a singular configuration */"
    places = {"condition": [one[0] for one in loops], "rank": [one[1] for one in loops]}
    places |= {name: [one[name] for one in steps] for name in STEPS}
    for name, indices in places.items():
        yield f"static const int RB_AT_{name.upper()}[] = {{{', '.join(map(str, [*indices, 0]))}}};"


def _dependent_start_lines(memory: Memory) -> Iterator[str]:
    """Yield the C function for fmu.h that computes start values from other start values.

    Without such dependent start values, the function yields nothing.
    """
    if not memory.start_relations:
        return
    yield "/* Set start values that follow from others, unless the host has changed them. */"
    yield "#define RB_DEPENDENT_STARTS"
    yield "static inline void set_dependent_start_values(double *m)"
    yield "{"
    start = memory.start()
    for relation in memory.start_relations:
        k = relation.state
        terms = " + ".join(
            f"m[{cause}]" if weight == 1.0 else f"{c_number(weight)} * m[{cause}]"
            for cause, weight in relation.terms
        )
        if relation.offset:
            terms += f" + {c_number(relation.offset)}"
        constant = c_number(relation.constant)
        factor = constant if relation.factor_index is None else f"m[{relation.factor_index}]"
        yield f"    if (m[{k}] == {c_number(start[k])})"
        yield f"        m[{k}] = {factor} * ({terms});"
    yield "}"


def _lengths(variables: Variables) -> list[int]:
    """Return, for each variable index, the length of the array variable that begins there.

    The length is 0 if no array variable begins at an index.
    """
    sizes = {array.reference: len(array.elements) for array in array_variables(variables)}
    every = (*variables.all, *variables.rates, *variables.indicators)
    return [sizes.get(v.index, 0) for v in every]


def _scalar_lengths(variables: Variables) -> list[int]:
    """Return the lengths for FMI 2.0: 1 for a variable, and 0 for an event indicator.

    FMI 2.0 event indicators are not variables.
    """
    return [1] * len((*variables.all, *variables.rates)) + [0] * len(variables.indicators)


def model_identifier(name: str) -> str:
    """Return a model name unchanged; raise ValueError if the name is not a C identifier."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError(
            f"invalid model identifier '{name}' of an FMU: it must consist of letters, digits and "
            "_ and must not begin with a digit"
        )
    return name


def _settable(variable: Variable) -> str:
    if variable.causality == "input":
        return "RB_ALWAYS"
    if variable.variability == "tunable":
        return "RB_TUNABLE"
    return "RB_START_VALUE" if variable.initial in ("exact", "approx") else "RB_NEVER"
