"""Native FMUs: a block as an FMU in C, as binaries, as sources or as both, which needs no Python at
run time.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.resources import files
from math import inf
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from rigidblocks.block.adaptive import DEFAULT_METHOD, Adaptive, Method, longest_step, memory_for
from rigidblocks.block.block import Block
from rigidblocks.block.memory import Memory
from rigidblocks.fmi.archive import write_archive
from rigidblocks.fmi.description import LOG_CATEGORIES, TOLERANCE, model_description
from rigidblocks.fmi.description3 import array_variables, model_description3
from rigidblocks.fmi.documentation import documentation_content
from rigidblocks.fmi.icon import ICON, icon
from rigidblocks.fmi.metadata import Metadata
from rigidblocks.fmi.platforms import binaries
from rigidblocks.fmi.source import LICENSE, license_text, source_content, with_source_files
from rigidblocks.fmi.sparsity import sparsity_header
from rigidblocks.fmi.terminals import terminals_content
from rigidblocks.fmi.variables import Variable, Variables
from rigidblocks.fmi.watch import CLOSE, STEPS, condition_places, step_places
from rigidblocks.fmi.xcp import FILES as XCP_FILES
from rigidblocks.fmi.xcp import FLAGS as XCP_FLAGS
from rigidblocks.fmi.xcp import XcpAddress, check_platforms, plan_header, xcp_content
from rigidblocks.kernels.evaluator import TracedEvaluator
from rigidblocks.kernels.events import events_header
from rigidblocks.kernels.kernel import KERNEL, model_header
from rigidblocks.kernels.tangent import tangent_header
from rigidblocks.tracing.ccode import c_number, c_string, c_text


@dataclass(frozen=True)
class Runtime:
    """The C runtime of an FMI version: the file to compile, all of its files by their path in `c`,
    and the headers of the standard.
    """

    main: str
    files: tuple[str, ...]
    headers: tuple[str, ...]


SHARED = tuple(f"kernel/{name}" for name in KERNEL) + tuple(
    f"fmi/{name}.h"
    for name in (
        "instance",
        "pool",
        "run",
        "saved",
        "settings",
        "sides",
        "state",
        "values",
        "watch",
    )
)
RUNTIMES = {
    2: Runtime(
        "fmi2.c",
        tuple(
            f"fmi/fmi2/{name}"
            for name in (
                "fmi2.c",
                "fmi2_prefix.h",
                "fmi2_settings.c",
                "fmi2_unused.c",
                "host.h",
                "slopes.h",
            )
        )
        + SHARED,
        ("fmi2Functions.h", "fmi2FunctionTypes.h", "fmi2TypesPlatform.h"),
    ),
    3: Runtime(
        "fmi3.c",
        tuple(
            f"fmi/fmi3/{name}"
            for name in (
                "adjoint.h",
                "depends.h",
                "fmi3.c",
                "fmi3_settings.c",
                "fmi3_unused.c",
                "host.h",
                "intermediate.h",
            )
        )
        + SHARED,
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
) -> Path:
    """The path of the FMU written there: `block`, stepped by `method` with inner steps of at most
    `h` [s].

    `name` is the model identifier, the block's type unless given. The parameters named in
    `tunable`, all by default, can be set in the FMU; the others are constants. There is a binary
    for each of `platforms` as in `platforms.binaries`, with `sources` the C code too, and then
    there may be no platform. With an address or a port `xcp` it speaks XCP there, on Linux alone
    (FMI-LS-XCP). The same block gives the same bytes: with `platforms` on any machine
    that has this ziglang, without them where the C compiler is the same.

    Raises ValueError for a name that is no C identifier, for an FMI version that there is no
    runtime for, and for XCP elsewhere or with sources, and what `platforms.binaries` raises.
    """
    runtime = runtime_of(fmi)
    identifier = model_identifier(type(block).__name__ if name is None else name)
    h = longest_step(method, h)
    evaluator = TracedEvaluator(memory_for(block, method, tunable))
    wanted = (
        None if platforms is None else platforms if isinstance(platforms, str) else tuple(platforms)
    )
    address = _xcp_address(xcp, wanted, sources)
    variables = Variables(evaluator)
    description, texts = fmu_sources(variables, identifier, method, h, fmi, metadata, address)
    with ThreadPoolExecutor(1) as pool:  # the compiler works while the reference run is made
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
        content |= _pictures(evaluator.memory, fmi)
        content |= built.result() if built else {}
        if address:
            folders = {path.split("/")[1] for path in content if path.startswith("binaries/")}
            content |= xcp_content(variables, identifier, address, sorted(folders))
    if sources:
        content |= source_content(texts, runtime.main, identifier, fmi)
        description = with_source_files(description, runtime.main) if fmi == 2 else description
    content["modelDescription.xml"] = description.encode()
    return write_archive(path, content, deflate=deflate)


def _pictures(memory: Memory, fmi: int) -> dict[str, bytes]:
    """The icon, in FMI 3.0 with the terminals."""
    return {ICON: icon()} if fmi == 2 else terminals_content(port.name for port in memory.ports)


def _xcp_address(
    xcp: str | None, platforms: str | tuple[str, ...] | None, sources: bool
) -> XcpAddress | None:
    if xcp is None:
        return None
    if sources:
        raise ValueError("XCP is in FMUs that have binaries alone, not in source code")
    check_platforms(platforms)
    return XcpAddress(xcp)


def runtime_of(fmi: int) -> Runtime:
    """The runtime of an FMI version; raises ValueError when there is none."""
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
) -> tuple[str, Mapping[str, str]]:
    """The text of modelDescription.xml, and the C sources by file name; the guid in both is a
    digest of all the rest.
    """
    runtime = runtime_of(fmi)
    sources = {Path(path).name: c_text(path) for path in runtime.files}
    sources |= {
        name: files("fmpy").joinpath(f"c-code/{name}").read_text() for name in runtime.headers
    }
    sources["model.h"] = model_header(variables.evaluator, method, h)
    sources["events.h"] = events_header(variables.events)
    sources["tangent.h"] = tangent_header(variables.events)
    if fmi == 3:
        sources["sparsity.h"] = sparsity_header(variables)
    if xcp:
        sources |= {Path(path).name: c_text(path) for path in XCP_FILES}
        sources["xcp_plan.h"] = plan_header(variables, identifier, xcp)
    content = (part.encode() for item in sorted(sources.items()) for part in item)
    if fmi == 3:
        has_fixed_steps = variables.memory.block.states and not isinstance(method, Adaptive)
        inner_step = h if has_fixed_steps else None
        description = model_description3(variables, identifier, content, metadata, inner_step, xcp)
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
        )
        guid = ElementTree.fromstring(description).attrib["guid"]
    return description, {**sources, "fmu.h": fmu_header(variables, guid, fmi)}


def fmu_header(variables: Variables, guid: str, fmi: int) -> str:
    """The text of fmu.h: what the C runtime knows of an FMU and of its variables, by index."""
    scalars = (*variables.all, *variables.rates, *variables.indicators)
    names = ",\n    ".join(c_string(v.name) for v in scalars)
    settable = ", ".join(_settable(v) for v in scalars)
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
            f"#define RB_SUSPICION {c_string(_suspicion(variables.memory))}",
            f"static const char *const RB_LOG_CATEGORIES[] = {{{categories}, 0}};",
            f"static const char *const RB_NAMES[] = {{\n    {names}}};",
            "/* how many elements the variable with a value reference has; 0 where there is none "
            "*/",
            f"static const unsigned short RB_LENGTH[] = {{{', '.join(map(str, lengths))}}};",
            f"enum {{ RB_LAST_VARIABLE = {last} }};",
            "/* when a variable may be set; a start value until the run starts */",
            "enum { RB_NEVER, RB_START_VALUE, RB_TUNABLE, RB_ALWAYS };",
            f"static const unsigned char RB_SETTABLE[] = {{{settable}}};",
            "/* of the solver of a host that names none */",
            f"static const double RB_TOLERANCE = {TOLERANCE};",
            "/* the bounds that parameters and start values keep */",
            f"static const double RB_MIN[] = {{{lowest}}};",
            f"static const double RB_MAX[] = {{{highest}}};",
            *_watched(variables.memory),
            "/* the order of magnitude of each continuous state, and one more */",
            f"static const double RB_NOMINAL[] = {{{nominals}}};\n",
            "#endif\n",
        ]
    )


def _suspicion(memory: Memory) -> str:
    """What in the states may be why a step fails, in brackets behind a space; empty where there is
    nothing.
    """
    unknown = np.full(memory.size, np.nan)
    suspects = "; ".join(memory.block.suspects(memory.argument("x", unknown)))
    return f" ({suspects})" if suspects else ""


def _watched(memory: Memory) -> Iterator[str]:
    """The lines of fmu.h on what the log is told of."""
    loops, steps = tuple(condition_places(memory)), tuple(step_places(memory))
    yield "/* conditions and ranks of loops, what inner steps count, and one more of each */"
    yield f"enum {{ RB_LOOPS = {len(loops)}, RB_STEPPED = {len(steps)} }};"
    yield f"static const double RB_CLOSE = {c_number(CLOSE)}; /* to a singular configuration */"
    places = {"condition": [one[0] for one in loops], "rank": [one[1] for one in loops]}
    places |= {name: [one[name] for one in steps] for name in STEPS}
    for name, indices in places.items():
        yield f"static const int RB_AT_{name.upper()}[] = {{{', '.join(map(str, [*indices, 0]))}}};"


def _lengths(variables: Variables) -> list[int]:
    """The number of elements of the array that starts at each index, 0 where none does."""
    sizes = {array.reference: len(array.elements) for array in array_variables(variables)}
    every = (*variables.all, *variables.rates, *variables.indicators)
    return [sizes.get(v.index, 0) for v in every]


def _scalar_lengths(variables: Variables) -> list[int]:
    """The same of scalars; FMI 2.0 has no variables for event indicators."""
    return [1] * len((*variables.all, *variables.rates)) + [0] * len(variables.indicators)


def model_identifier(name: str) -> str:
    """The name, which is a C identifier; raises ValueError when it is not."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError(
            f"an FMU cannot have the model identifier '{name}': it must be letters, digits and _, "
            "with no digit first"
        )
    return name


def _settable(variable: Variable) -> str:
    if variable.causality == "input":
        return "RB_ALWAYS"
    if variable.variability == "tunable":
        return "RB_TUNABLE"
    return "RB_START_VALUE" if variable.initial == "exact" else "RB_NEVER"
