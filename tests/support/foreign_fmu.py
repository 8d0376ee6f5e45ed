"""FMUs of other vendors, simulated by `foreign.c`.

They reject FMI calls in a wrong order. C code of the test defines their behaviour.
"""

import zipfile
from collections.abc import Sequence
from pathlib import Path

import fmpy

from rigidblocks.common.compiler import PORTABLE_FLAGS, shared_library

HEADERS = ("fmi2Functions.h", "fmi2FunctionTypes.h", "fmi2TypesPlatform.h")
# name, causality, value reference, type; variables of other types are not used
VARIABLES = (("u", "input", 0, "Real"), ("y", "output", 1, "Real"))


def foreign_fmu(
    path: Path,
    *,
    step: str = "i->r[1] = 2.0 * i->r[0];",
    start: str = "",
    end: str = "",
    variables: Sequence[tuple[str, str, int, str]] = VARIABLES,
    attributes: str = "",
    variable_steps: bool = True,
    **more: str,
) -> Path:
    """Write the FMU to `path`.

    `step`, `start` and `end` are C code with `Instance *i` for each step, instantiation and
    termination; they assign a status other than fmi2OK to `status`. `attributes` belong to
    CoSimulation, `more` to variables by name. The names of the called functions are in `path`
    with the suffix .trace.
    """
    if variable_steps:
        attributes += ' canHandleVariableCommunicationStepSize="true"'
    trace = path.with_suffix(".trace")
    trace.write_text("")
    code = Path(__file__).with_name("foreign.c").read_text()
    for name, text in (("STEP", step), ("START", start), ("END", end)):
        code = code.replace(f"    {name}\n", f"    {text}\n")
    headers = Path(fmpy.__file__).parent / "c-code"
    sources = {name: (headers / name).read_text() for name in HEADERS} | {"foreign.c": code}
    flags = (*PORTABLE_FLAGS, "-D_GNU_SOURCE", f'-DTRACE="{trace}"', "-fvisibility=default")
    library = shared_library(sources, "foreign.c", flags)
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(library, f"binaries/{fmpy.platform}/foreign{fmpy.sharedLibraryExtension}")
        archive.writestr(
            "modelDescription.xml", _description(path.stem, variables, attributes, more)
        )
    return path


def calls(fmu: Path) -> list[str]:
    """Return the functions that were called on the FMU's instances, in order."""
    return fmu.with_suffix(".trace").read_text().split("\n")[:-1]


def _description(
    name: str,
    variables: Sequence[tuple[str, str, int, str]],
    attributes: str,
    more: dict[str, str],
) -> str:
    rows = [
        f'<ScalarVariable name="{v}" valueReference="{reference}" causality="{causality}"'
        f"{_variability(causality, kind)}><{kind}{_start(causality, kind)} {more.get(v, '')}/>"
        "</ScalarVariable>"
        for v, causality, reference, kind in variables
    ]
    outputs = [k + 1 for k, v in enumerate(variables) if v[1] == "output"]
    unknowns = "".join(f'<Unknown index="{k}" dependencies=""/>' for k in outputs)
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<fmiModelDescription fmiVersion="2.0" modelName="{name}" guid="{{{name}}}">
<CoSimulation modelIdentifier="foreign" canGetAndSetFMUstate="true" {attributes}/>
<ModelVariables>{"".join(rows)}</ModelVariables>
<ModelStructure>{f"<Outputs>{unknowns}</Outputs>" if outputs else ""}</ModelStructure>
</fmiModelDescription>"""


def _variability(causality: str, kind: str) -> str:
    if causality == "parameter":
        return ' variability="tunable"'
    return "" if kind == "Real" else ' variability="discrete"'


def _start(causality: str, kind: str) -> str:
    if causality not in ("input", "parameter"):
        return ""
    return f' start="{ {"Boolean": "false", "String": ""}.get(kind, "0") }"'
