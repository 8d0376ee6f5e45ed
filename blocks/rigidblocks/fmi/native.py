"""Native FMUs: a block as an FMU in C, as binaries, as sources or as both, which needs no Python at run time."""

import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from xml.etree import ElementTree

from rigidblocks.block import Block
from rigidblocks.ccode import c_number
from rigidblocks.fmi.archive import write_archive
from rigidblocks.fmi.description import LOG_CATEGORIES, model_description
from rigidblocks.fmi.description3 import array_variables, model_description3
from rigidblocks.fmi.documentation import documentation_content
from rigidblocks.fmi.platforms import binaries
from rigidblocks.fmi.source import LICENSE, license_text, source_content, with_source_files
from rigidblocks.fmi.sparsity import sparsity_header
from rigidblocks.fmi.variables import Variable, Variables
from rigidblocks.integrate import RK4, Integrator
from rigidblocks.model_header import model_header
from rigidblocks.tangent import tangent_header
from rigidblocks.traced_block import TracedBlock


@dataclass(frozen=True)
class Runtime:
    """The C runtime of an FMI version: the file to compile, those that it includes, and the headers of the standard."""

    main: str
    included: tuple[str, ...]
    headers: tuple[str, ...]


SHARED = ("instance.h", "pool.h", "run.h", "saved.h", "step.h", "values.h")
RUNTIMES = {
    2: Runtime(
        "fmi2.c",
        ("fmi2_prefix.h", "fmi2_unused.h", "slopes.h", *SHARED),
        ("fmi2Functions.h", "fmi2FunctionTypes.h", "fmi2TypesPlatform.h"),
    ),
    3: Runtime(
        "fmi3.c",
        ("adjoint.h", "depends.h", "fmi3_unused.h", "intermediate.h", *SHARED),
        ("fmi3Functions.h", "fmi3FunctionTypes.h", "fmi3PlatformTypes.h"),
    ),
}
MAIN = RUNTIMES[2].main


def native_fmu(
    block: Block,
    path: str | Path,
    *,
    name: str | None = None,
    method: Integrator = RK4,
    h: float = 1e-3,
    tunable: tuple[str, ...] | None = None,
    fmi: int = 2,
    platforms: str | Iterable[str] | None = None,
    sources: bool = False,
) -> Path:
    """The path of the FMU written there: `block`, stepped by `method` with inner steps of at most `h` [s].

    `name` is the model identifier, the block's type unless given. The parameters named in `tunable`, all by default, can
    be set in the FMU; the others are constants. There is a binary for each of `platforms` as in `platforms.binaries`, with
    `sources` the C code too, and then there may be no platform. The same block gives the same bytes: with `platforms` on
    any machine that has this ziglang, without them where the C compiler is the same.

    Raises ValueError for a name that is no C identifier and for an FMI version that there is no runtime for, and what
    `platforms.binaries` raises.
    """
    runtime = runtime_of(fmi)
    identifier = model_identifier(type(block).__name__ if name is None else name)
    flat = TracedBlock(block, tunable)
    description, texts = fmu_sources(Variables(flat), identifier, method, h, fmi)
    wanted = None if platforms is None else platforms if isinstance(platforms, str) else tuple(platforms)
    with ThreadPoolExecutor(1) as pool:  # the compiler works while the reference run is made
        without = sources and wanted == ()
        built = None if without else pool.submit(binaries, texts, runtime.main, identifier, fmi, wanted)
        content = documentation_content(flat, identifier, method, h)
        content[LICENSE] = license_text({header: texts[header] for header in runtime.headers}).encode()
        content |= built.result() if built else {}
    if sources:
        content |= source_content(texts, runtime.main, identifier, fmi)
        description = with_source_files(description, runtime.main) if fmi == 2 else description
    return write_archive(path, content | {"modelDescription.xml": description.encode()})


def runtime_of(fmi: int) -> Runtime:
    """The runtime of an FMI version; raises ValueError when there is none."""
    if fmi not in RUNTIMES:
        raise ValueError(f"fmi must be one of {', '.join(map(str, RUNTIMES))}, not {fmi!r}")
    return RUNTIMES[fmi]


def fmu_sources(
    variables: Variables, identifier: str, method: Integrator, h: float, fmi: int = 2
) -> tuple[str, Mapping[str, str]]:
    """The text of modelDescription.xml, and the C sources by file name; the guid in both is a digest of all the rest."""
    runtime = runtime_of(fmi)
    own = (runtime.main, *runtime.included)
    sources = {name: files("rigidblocks").joinpath(f"c/{name}").read_text() for name in own}
    sources |= {name: files("fmpy").joinpath(f"c-code/{name}").read_text() for name in runtime.headers}
    sources["model.h"] = model_header(variables.flat, method, h)
    sources["tangent.h"] = tangent_header(variables.flat)
    if fmi == 3:
        sources["sparsity.h"] = sparsity_header(variables)
    content = (part.encode() for item in sorted(sources.items()) for part in item)
    if fmi == 3:
        description = model_description3(variables, identifier, content)
        guid = ElementTree.fromstring(description).attrib["instantiationToken"]
    else:
        description = model_description(variables, identifier, content, model_exchange=True, canInterpolateInputs="true")
        guid = ElementTree.fromstring(description).attrib["guid"]
    return description, {**sources, "fmu.h": fmu_header(variables, guid, fmi)}


def fmu_header(variables: Variables, guid: str, fmi: int) -> str:
    """The text of fmu.h: what the C runtime knows of an FMU and of its variables, by index."""
    scalars = (*variables.all, *variables.rates)
    names = ",\n    ".join(c_string(v.name) for v in scalars)
    settable = ", ".join(_settable(v) for v in scalars)
    lengths = _lengths(variables) if fmi == 3 else [1] * len(scalars)
    categories = ", ".join(map(c_string, LOG_CATEGORIES))
    nominals = ", ".join(c_number(v.nominal or 1.0) for v in (*variables.all[variables.flat.x], variables.all[0]))
    return "\n".join(
        [
            f"#define GUID {c_string(guid)}",
            f"static const char *const LOG_CATEGORIES[] = {{{categories}, 0}};",
            f"static const char *const NAMES[] = {{\n    {names}}};",
            "/* how many elements the variable with a value reference has; 0 where there is none */",
            f"static const unsigned short LENGTH[] = {{{', '.join(map(str, lengths))}}};",
            f"enum {{ LAST_VARIABLE = {max(k for k, length in enumerate(lengths) if length)} }};",
            "/* when a variable may be set; a start value until the run starts */",
            "enum { NEVER, START_VALUE, TUNABLE, ALWAYS };",
            f"static const unsigned char SETTABLE[] = {{{settable}}};",
            "/* the order of magnitude of each continuous state, and one more */",
            f"static const double NOMINAL[] = {{{nominals}}};\n",
        ]
    )


def _lengths(variables: Variables) -> list[int]:
    """The number of elements of the array that starts at each index, 0 where none does."""
    sizes = {array.reference: len(array.elements) for array in array_variables(variables)}
    return [sizes.get(v.index, 0) for v in (*variables.all, *variables.rates)]


def model_identifier(name: str) -> str:
    """The name, which is a C identifier; raises ValueError when it is not."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError(
            f"an FMU cannot have the model identifier '{name}': it must be letters, digits and _, with no digit first"
        )
    return name


def c_string(text: str) -> str:
    """The C literal of a text, all but plain characters of its UTF-8 form as octal escapes."""
    plain = re.compile(rb"[A-Za-z0-9_ .,:;()\[\]{}+*/<>=-]")
    return '"' + "".join(chr(b) if plain.match(bytes([b])) else f"\\{b:03o}" for b in text.encode()) + '"'


def _settable(variable: Variable) -> str:
    if variable.causality == "input":
        return "ALWAYS"
    if variable.variability == "tunable":
        return "TUNABLE"
    return "START_VALUE" if variable.initial == "exact" else "NEVER"
