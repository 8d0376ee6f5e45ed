"""Native FMUs: a block as an FMI 2.0 co-simulation FMU in C, which needs no Python at run time."""

import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from xml.etree import ElementTree

import fmpy

from rigidblocks.block import Block
from rigidblocks.compile import shared_library
from rigidblocks.flat import FlatBlock
from rigidblocks.fmi.archive import write_archive
from rigidblocks.fmi.description import LOG_CATEGORIES, model_description
from rigidblocks.fmi.variables import Variable, Variables
from rigidblocks.integrate import RK4, Integrator
from rigidblocks.model_header import model_header

MAIN = "fmi2.c"
RUNTIME = (MAIN, "fmi2_saved.h", "fmi2_unused.h", "step.h")
FMI_HEADERS = ("fmi2Functions.h", "fmi2FunctionTypes.h", "fmi2TypesPlatform.h")
FOLDERS = {"x86_64-linux": "linux64"}  # what FMI 2.0 calls the platforms that FMUs can be built on


def native_fmu(
    block: Block,
    path: str | Path,
    *,
    name: str | None = None,
    method: Integrator = RK4,
    h: float = 1e-3,
    tunable: tuple[str, ...] | None = None,
) -> Path:
    """The path of the FMU written there: `block`, stepped by `method` with inner steps of at most `h` [s].

    `name` is the model identifier, the block's type unless given. The parameters named in `tunable`, all by default, can
    be set in the FMU; the others are constants. The same block gives the same bytes with the same compiler.

    Raises ValueError for a name that is no C identifier, NotImplementedError on a platform without native FMUs, and
    CompilerError when there is no C compiler.
    """
    folder = _platform_folder()
    identifier = model_identifier(type(block).__name__ if name is None else name)
    description, sources = fmu_sources(Variables(FlatBlock(block, tunable)), identifier, method, h)
    library = shared_library(sources, MAIN).read_bytes()
    return write_archive(path, {"modelDescription.xml": description.encode(), f"binaries/{folder}/{identifier}.so": library})


def fmu_sources(variables: Variables, identifier: str, method: Integrator, h: float) -> tuple[str, Mapping[str, str]]:
    """The text of modelDescription.xml, and the C sources by file name; the guid in both is a digest of all the rest."""
    sources = {name: files("rigidblocks").joinpath(f"c/{name}").read_text() for name in RUNTIME}
    sources |= {name: files("fmpy").joinpath(f"c-code/{name}").read_text() for name in FMI_HEADERS}
    sources["model.h"] = model_header(variables.flat, method, h)
    content = (part.encode() for item in sorted(sources.items()) for part in item)
    description = model_description(variables, identifier, content)
    guid = ElementTree.fromstring(description).attrib["guid"]
    return description, {**sources, "fmu.h": fmu_header(variables.all, guid)}


def fmu_header(variables: Iterable[Variable], guid: str) -> str:
    """The text of fmu.h: what the C runtime knows of an FMU and of its variables, by index."""
    names = ",\n    ".join(c_string(v.name) for v in variables)
    settable = ", ".join(_settable(v) for v in variables)
    categories = ", ".join(map(c_string, LOG_CATEGORIES))
    return "\n".join(
        [
            f"#define GUID {c_string(guid)}",
            f"static const char *const LOG_CATEGORIES[] = {{{categories}, 0}};",
            f"static const char *const NAMES[] = {{\n    {names}}};",
            "enum { NEVER, START_VALUE, ALWAYS }; /* when a variable may be set; a start value until the run starts */",
            f"static const unsigned char SETTABLE[] = {{{settable}}};\n",
        ]
    )


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
    if variable.causality == "input" or variable.variability == "tunable":
        return "ALWAYS"
    return "START_VALUE" if variable.initial == "exact" else "NEVER"


def _platform_folder() -> str:
    if fmpy.platform_tuple not in FOLDERS:
        raise NotImplementedError(f"native FMUs can be built on {', '.join(FOLDERS)}, not on {fmpy.platform_tuple}")
    return FOLDERS[fmpy.platform_tuple]
