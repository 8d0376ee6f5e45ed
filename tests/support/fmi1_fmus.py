"""FMI 1.0 FMUs, written in C by `fmi1.c`."""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

import fmpy

from rigidblocks.common.compiler import PORTABLE_FLAGS, shared_library


class Variable(NamedTuple):
    """Variable; `value` is for the type element, `more` for ScalarVariable.

    `depends` has the inputs of DirectDependency, or None if it is not declared.
    """

    name: str
    reference: int
    causality: str = "internal"
    type: str = "Real"
    variability: str = "continuous"
    value: str = ""
    more: str = ""
    depends: Sequence[str] | None = None


class Model(NamedTuple):
    """Model in C; each text is the body of the function of this name, with `Model *m`."""

    name: str
    variables: Sequence[Variable]
    start: str = ""
    initialize: str = ""
    rates: str = ""
    indicators: str = ""
    update: str = ""
    step_event: str = "return 0;"
    step: str = ""
    states: Sequence[int] = ()
    n_indicators: int = 0
    types: str = ""
    is_slave: bool = False
    capabilities: str = 'canHandleVariableCommunicationStepSize="true"'
    tool: str = ""
    resets: bool = False
    reads_early: bool = False  # accepts reads before the initialization, which libcosim does


def fmi1_fmu(
    folder: Path,
    model: Model,
    *,
    platform: str = fmpy.platform,
    binary: str | None = None,
    guid: str = "{1}",
) -> Path:
    """Write the FMU to a folder, with its library `binary` in the folder of a platform.

    The library accepts only the guid {1}.
    """
    references = ", ".join(map(str, (*model.states, 0)))
    text = f"""
enum {{ NX = {len(model.states)}, NZ = {model.n_indicators}, RESETS = {int(model.resets)},
       READS_EARLY = {int(model.reads_early)} }};
static const fmi1ValueReference X[] = {{{references}}};
static void start(Model *m) {{ (void)m; {model.start} }}
static void initialize(Model *m) {{ (void)m; {model.initialize} }}
static void rates(Model *m, double *dx) {{ (void)m, (void)dx; {model.rates} }}
static void indicators(Model *m, double *z) {{ (void)m, (void)z; {model.indicators} }}
static void update(Model *m) {{ (void)m; {model.update} }}
static int step_event(Model *m) {{ (void)m; {model.step_event} }}
static int step(Model *m, double dt) {{ (void)m, (void)dt; {model.step or "return 0;"} }}
"""
    header = "fmi1Functions.h"
    sources = {
        header: (Path(fmpy.__file__).parent / "c-code" / header).read_text(),
        "fmi1.c": Path(__file__).with_name("fmi1.c").read_text().replace("\nMODEL\n", text),
    }
    flags = (*PORTABLE_FLAGS, f"-DIDENTIFIER={model.name}", f"-DSLAVE={int(model.is_slave)}")
    library = shared_library(sources, "fmi1.c", (*flags, "-D_GNU_SOURCE", "-fvisibility=default"))
    path = folder / f"{model.name}.fmu"
    name = f"{binary or model.name}{fmpy.sharedLibraryExtension}"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(library, f"binaries/{platform}/{name}")
        archive.writestr("modelDescription.xml", _description(model, guid))
    return path


def _description(model: Model, guid: str) -> str:
    rows = "\n".join(map(_row, model.variables))
    how = "CoSimulation_Tool" if model.tool else "CoSimulation_StandAlone"
    implementation = (
        f"<Implementation><{how}><Capabilities {model.capabilities}/>{model.tool}</{how}>"
        "</Implementation>"
    )
    types = f"<TypeDefinitions>{model.types}</TypeDefinitions>" if model.types else ""
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<fmiModelDescription fmiVersion="1.0" modelName="{model.name}" modelIdentifier="{model.name}"
 guid="{guid}" numberOfContinuousStates="{len(model.states)}"
 numberOfEventIndicators="{model.n_indicators}">{types}
<ModelVariables>{rows}</ModelVariables>
{implementation if model.is_slave else ""}</fmiModelDescription>"""


def _row(v: Variable) -> str:
    names = "".join(f"<Name>{escape(name)}</Name>" for name in v.depends or ())
    direct = "" if v.depends is None else f"<DirectDependency>{names}</DirectDependency>"
    variability = f' variability="{v.variability}"' if v.variability else ""
    return (
        f'<ScalarVariable name="{v.name}" valueReference="{v.reference}" {v.more} '
        f'causality="{v.causality}"{variability}><{v.type} {v.value}/>{direct}'
        "</ScalarVariable>"
    )
