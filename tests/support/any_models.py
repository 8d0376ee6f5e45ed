"""Small FMI 2.0 and 3.0 FMUs for co-simulation and model exchange, compiled from `any_fmi.c`.

They behave like the Reference FMUs of the Modelica Association with the same names.
"""

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

import fmpy

from rigidblocks.common.compiler import PORTABLE_FLAGS, shared_library

_HEADERS = (
    "fmi2FunctionTypes.h",
    "fmi2TypesPlatform.h",
    "fmi3FunctionTypes.h",
    "fmi3PlatformTypes.h",
)
_OF_FMI_2 = {"Float64": "Real", "Int32": "Integer"}
_BOTH = ("Float64", "Int32", "Boolean", "Enumeration", "String")


class Variable(NamedTuple):
    """Variable with its value reference; `start` has one value for each element."""

    name: str
    reference: int
    causality: str = "local"
    type: str = "Float64"
    variability: str = "continuous"
    start: tuple[object, ...] = ()
    shape: tuple[int | str, ...] = ()  # or names of structural parameters
    more: str = ""


@dataclass(frozen=True, eq=False)
class AnyModel:
    """Model in C, with the value references of its continuous states and of their derivatives."""

    name: str
    variables: Sequence[Variable]
    states: Sequence[int] = ()
    rates: Sequence[int] = ()
    start: str = ""
    motion: str = ""
    indicators: Sequence[str] = ()
    update: str = ""
    updates: int = 1
    interval: str = "(void)m, (void)r, (void)value; return 0;"
    refuses: str = "return false;"
    longest_step: float = 1e-2
    most_elements: int = 9  # of an array whose shape has structural parameters
    attributes: str = ""
    discards: str = "return false;"  # true for states that the FMU discards
    nominal: str = "return 1.0;"
    # directional derivative df of the rates along dx; the FMU counts the calls in v[39]
    tangent: str = ""
    timed: str = "isfinite(m->next)"  # true if the FMU defines the time of its next event
    monotonic: bool = False  # the FMU rejects times before its last completed integrator step
    strict_end: bool = False  # the FMU rejects times after the stop time of the importer
    strict_parameters: bool = False  # the FMU rejects new parameters outside of event mode
    scheduled: bool = False  # for scheduled execution only
    without_events: str = ""  # function that rejects event mode: "instantiate" or "enter"
    experiment: str = ""  # attributes of DefaultExperiment
    # declared dependencies of outputs and derivatives by value references, and at the start
    dependencies: Mapping[int, Sequence[int]] = field(default_factory=dict)
    start_dependencies: Mapping[int, Sequence[int]] = field(default_factory=dict)


def any_fmu(folder: Path, model: AnyModel, version: int, **options: str) -> Path:
    """Write the FMU of a model to a folder; `options` are texts of resources by file name."""
    variables = [v for v in model.variables if version == 3 or v.type in _BOTH]
    code = Path(__file__).with_name("any_fmi.c").read_text()
    known = {v.name: v.reference for v in model.variables}
    arrays = [v for v in model.variables if v.shape]
    factors = (
        " * ".join(f"(int)m->v[{known[n]}][0]" if isinstance(n, str) else str(n) for n in v.shape)
        for v in arrays
    )
    sizes = "".join(
        f"case {v.reference}: return {text};" for v, text in zip(arrays, factors, strict=True)
    )
    structural = "".join(
        f"case {v.reference}: return true;"
        for v in variables
        if v.causality == "structuralParameter"
    )
    parameters = "".join(
        f"case {v.reference}: return true;" for v in variables if v.causality == "parameter"
    )
    z = " ".join(f"z[{k}] = {text};" for k, text in enumerate(model.indicators))
    references = "".join(f"{k}, " for k in model.states)
    text = f"""
enum {{ INDICATORS = {len(model.indicators)}, UPDATES = {model.updates},
       REFUSES_MADE = {int(model.without_events == "instantiate")},
       REFUSES_ENTRY = {int(model.without_events == "enter")},
       MONOTONIC = {int(model.monotonic)}, STRICT_END = {int(model.strict_end)},
       STRICT_PARAMETERS = {int(model.strict_parameters)} }};
static const double H = {model.longest_step};
static const unsigned X[] = {{{references}0}};
static int size(const Model *m, Reference r)
{{
    (void)m;
    switch (r) {{
    {sizes}
    default: return 1;
    }}
}}
static bool is_structural(Reference r) {{ switch (r) {{ {structural} default: return false; }} }}
static bool is_parameter(Reference r) {{ switch (r) {{ {parameters} default: return false; }} }}
static void start(Model *m) {{ {"".join(map(_started, variables))} {model.start} }}
static void rates(Model *m, double *dx) {{ (void)m, (void)dx; {model.motion} }}
static void indicators(Model *m, double *z) {{ (void)m, (void)z; {z} }}
static void update(Model *m) {{ (void)m; {model.update} }}
static bool refuses(const Model *m, Reference r) {{ (void)m, (void)r; {model.refuses} }}
static bool discards(const Model *m) {{ (void)m; {model.discards} }}
static bool is_timed(const Model *m) {{ (void)m; return {model.timed}; }}
static double nominal(const Model *m) {{ (void)m; {model.nominal} }}
static void tangent(const Model *m, const double *dx, double *df)
{{ (void)m, (void)dx, (void)df; {model.tangent} }}
int interval(Model *m, Reference r, double *value) {{ {model.interval} }}
"""
    headers = Path(fmpy.__file__).parent / "c-code"
    sources = {name: (headers / name).read_text() for name in _HEADERS}
    sources["any.c"] = code.replace("\nMODEL\n", text)
    flags = (
        *PORTABLE_FLAGS,
        "-D_GNU_SOURCE",
        f"-DFMI={version}",
        f"-DELEMENTS={max(model.most_elements, *map(_constant_size, model.variables))}",
        "-fvisibility=hidden",
    )
    library = shared_library(sources, "any.c", flags)
    path = folder / f"{model.name}_{version}.fmu"
    platform = fmpy.platform if version == 2 else fmpy.platform_tuple
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(library, f"binaries/{platform}/any{fmpy.sharedLibraryExtension}")
        archive.writestr("modelDescription.xml", _description(model, variables, version))
        for name, content in options.items():
            archive.writestr(f"resources/{name}.txt", content)
    return path


def _constant_size(v: Variable) -> int:
    """Return the number of elements of an array whose shape has no structural parameter."""
    return 0 if any(isinstance(n, str) for n in v.shape) else prod(v.shape)


def _started(v: Variable) -> str:
    if v.type in ("String", "Binary"):
        data = v.start[0] if v.start else ""
        k = v.reference
        return f'strcpy(m->text[{k}], "{data}"); m->length[{k}] = {len(str(data))};'
    values = (int(one) if isinstance(one, bool) else one for one in v.start)
    return "".join(f"m->v[{v.reference}][{k}] = {one};" for k, one in enumerate(values))


def _description(model: AnyModel, variables: Sequence[Variable], version: int) -> str:
    state = f'canGetAndSetFMU{"state" if version == 2 else "State"}="true"'
    exchange = state
    if version == 3:
        exchange += ' needsCompletedIntegratorStep="true"'
    if model.tangent:
        exchange += f' providesDirectionalDerivative{"" if version == 2 else "s"}="true"'
    kinds = f"""<ModelExchange modelIdentifier="any" {exchange}/>
<CoSimulation modelIdentifier="any" canHandleVariableCommunicationStepSize="true" {state}
 {model.attributes if version == 3 else ""}/>"""
    if model.scheduled:
        kinds = f'<ScheduledExecution modelIdentifier="any" {state}/>'
    head = (
        f'fmiVersion="2.0" guid="{{1}}" numberOfEventIndicators="{len(model.indicators)}"'
        if version == 2
        else 'fmiVersion="3.0" instantiationToken="{1}"'
    )
    if version == 3:
        variables = [*variables, Variable("time", 0, "independent")]
    known = {v.name: v.reference for v in variables}
    rows = "".join(_scalar(v) if version == 2 else _variable(v, known) for v in variables)
    structure = _structure_2(model, variables) if version == 2 else _structure_3(model, variables)
    experiment = f"<DefaultExperiment {model.experiment}/>" if model.experiment else ""
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<fmiModelDescription modelName="{model.name}" {head}>{kinds}{experiment}
<ModelVariables>{rows}</ModelVariables><ModelStructure>{structure}</ModelStructure>
</fmiModelDescription>"""


def _text(v: Variable) -> str:
    def one(value: object) -> str:
        return str(value).lower() if isinstance(value, bool) else str(value)

    return quoteattr(" ".join(map(one, v.start)))


def _scalar(v: Variable) -> str:
    of_type = _OF_FMI_2.get(v.type, v.type)
    initial = ' initial="exact"' if v.start and v.causality in ("local", "output") else ""
    start = f" start={_text(v)}" if v.start else ""
    of = f' derivative="{_index(v)}"' if "derivative" in v.more else ""
    return (
        f'<ScalarVariable name="{v.name}" valueReference="{v.reference}" causality="{v.causality}" '
        f'variability="{v.variability}"{initial}><{of_type}{start}{of}/></ScalarVariable>'
    )


def _index(v: Variable) -> str:
    return v.more.split('"')[1]  # the models number their variables in order, starting at 1


def _variable(v: Variable, known: Mapping[str, int]) -> str:
    initial = ' initial="exact"' if v.start and v.causality in ("local", "output") else ""
    inside = "".join(
        f'<Dimension valueReference="{known[n]}"/>'
        if isinstance(n, str)
        else f'<Dimension start="{n}"/>'
        for n in v.shape
    )
    start = f" start={_text(v)}" if v.start else ""
    if v.start and v.type in ("String", "Binary"):
        data = str(v.start[0])
        start, data = "", data.encode().hex() if v.type == "Binary" else data
        inside += f'<Start value="{data}"/>'
    kind = "" if v.type == "Clock" else f' variability="{v.variability}"'
    return (
        f'<{v.type} name="{v.name}" valueReference="{v.reference}" causality="{v.causality}"'
        f"{kind}{initial}{start} {v.more}>{inside}</{v.type}>"
    )


def _structure_2(model: AnyModel, variables: Sequence[Variable]) -> str:
    places = {v.reference: k + 1 for k, v in enumerate(variables)}
    outputs = [v.reference for v in variables if v.causality == "output"]
    parts = {
        "Outputs": (outputs, model.dependencies),
        "Derivatives": (model.rates, model.dependencies),
        "InitialUnknowns": (model.start_dependencies, model.start_dependencies),
    }
    found = ""
    for what, (some, reads) in parts.items():
        rows = "".join(f'<Unknown index="{places[r]}"{_depends(r, reads, places)}/>' for r in some)
        found += f"<{what}>{rows}</{what}>" if some else ""
    return found


def _depends(
    reference: int, reads: Mapping[int, Sequence[int]], places: Mapping[int, int] | None = None
) -> str:
    """Return the attribute with the dependencies of an unknown, or none if undeclared."""
    if reference not in reads:
        return ""
    numbers = (r if places is None else places[r] for r in reads[reference])
    return f' dependencies="{" ".join(map(str, numbers))}"'


def _structure_3(model: AnyModel, variables: Sequence[Variable]) -> str:
    outputs = [v.reference for v in variables if v.causality == "output"]
    zs = [v.reference for v in variables if v.name.startswith("z")]
    parts = {
        "Output": (outputs, model.dependencies),
        "ContinuousStateDerivative": (model.rates, model.dependencies),
        "InitialUnknown": (model.start_dependencies, model.start_dependencies),
        "EventIndicator": (zs, {}),
    }
    return "".join(
        f'<{what} valueReference="{r}"{_depends(r, reads)}/>'
        for what, (some, reads) in parts.items()
        for r in some
    )


def _real(name: str, reference: int, start: float | None = None, **more: object) -> Variable:
    started = () if start is None else (start,)
    return Variable(name, reference, start=started, **{"causality": "output"} | more)  # type: ignore[arg-type]


def _parameter(name: str, reference: int, value: float) -> Variable:
    return Variable(name, reference, "parameter", variability="tunable", start=(value,))


def _rate(name: str, reference: int, of: int) -> Variable:
    return Variable(name, reference, more=f'derivative="{of}"')


BOUNCING_BALL = AnyModel(
    "BouncingBall",
    [
        _real("h", 1, 1.0),
        _real("v", 2, 0.0),
        _rate("der_h", 3, 1),
        _rate("der_v", 4, 2),
        _parameter("g", 5, -9.81),
        _parameter("e", 6, 0.7),
        Variable("z", 7),
    ],
    states=(1, 2),
    rates=(3, 4),
    motion="dx[0] = m->v[3][0] = m->v[2][0]; dx[1] = m->v[4][0] = m->v[5][0];",
    indicators=("(double)m->v[1][0]",),
    update="""
if (m->v[1][0] <= 0 && m->v[2][0] < 0) {
    m->v[1][0] = 1e-300L, m->v[2][0] *= -m->v[6][0], m->changed = true;
    if (m->v[2][0] < 0.1)
        m->v[2][0] = m->v[5][0] = 0;
}""",
)
DAHLQUIST = AnyModel(
    "Dahlquist",
    [_real("x", 1, 1.0), _rate("der_x", 2, 1), _parameter("k", 3, 1.0)],
    states=(1,),
    rates=(2,),
    motion="dx[0] = m->v[2][0] = -m->v[3][0] * m->v[1][0];",
)
VAN_DER_POL = AnyModel(
    "VanDerPol",
    [
        _real("x0", 1, 2.0),
        _real("x1", 2, 0.0),
        _rate("der_x0", 3, 1),
        _rate("der_x1", 4, 2),
        _parameter("mu", 5, 1.0),
    ],
    states=(1, 2),
    rates=(3, 4),
    motion="""
const double a = m->v[1][0], b = m->v[2][0];
dx[0] = m->v[3][0] = b;
dx[1] = m->v[4][0] = m->v[5][0] * ((1 - a * a) * b) - a;""",
)
STAIR = AnyModel(
    "Stair",
    [Variable("counter", 1, "output", "Int32", "discrete", (1,))],
    update="""
while (m->t >= (double)m->v[1][0] - 1e-9 && !m->ends)
    m->ends = ++m->v[1][0] > 10;
m->next = m->v[1][0];""",
)
RESOURCE = AnyModel(
    "Resource",
    [Variable("y", 1, "output", "Int32", "discrete")],
    start="""
char path[600];
snprintf(path, sizeof path, "%s/y.txt", m->folder);
FILE *file = fopen(path, "r");
if (file) m->v[1][0] = fgetc(file), fclose(file);""",
)
_NUMBERS = ("Float64", "Float32", *(f"{s}Int{n}" for n in (8, 16, 32, 64) for s in ("", "U")))
_TYPES = (*_NUMBERS, "Boolean", "String", "Binary")
FEEDTHROUGH = AnyModel(
    "Feedthrough",
    [
        Variable(
            f"{kind}_{causality}",
            2 * k + j + 1,
            causality,
            kind,
            "continuous" if kind.startswith("Float") else "discrete",
            ()
            if j
            else ("none",)
            if kind in ("String", "Binary")
            else (False,)
            if kind == "Boolean"
            else (0,),
        )
        for k, kind in enumerate(_TYPES)
        for j, causality in enumerate(("input", "output"))
    ],
    motion=f"""
for (int k = 1; k < {2 * len(_TYPES)}; k += 2) {{
    m->v[k + 1][0] = m->v[k][0], m->length[k + 1] = m->length[k];
    memcpy(m->text[k + 1], m->text[k], sizeof m->text[k]);
}}""",
)
TOLERANCE = AnyModel("Tolerance", [_real("y", 1, 0.0)], motion="m->v[1][0] = m->tolerance;")
STATE_SPACE = AnyModel(
    "StateSpace",
    [
        Variable("A", 1, "parameter", start=(0, 1, -4, -0.4), shape=(2, 2), variability="tunable"),
        Variable("B", 2, "parameter", start=(0, 1), shape=(2, 1), variability="tunable"),
        Variable(
            "C", 3, "parameter", start=(1, 0, 0, 1, 1, 1), shape=(3, 2), variability="tunable"
        ),
        Variable("u", 4, "input", start=(0.5,), shape=(1,)),
        Variable("y", 5, "output", shape=(3,)),
        Variable("x", 6, "local", start=(1, 0), shape=(2,)),
        Variable("der_x", 7, shape=(2,), more='derivative="6"'),
    ],
    states=(6,),
    rates=(7,),
    motion="""
const long double *A = m->v[1], *C = m->v[3], *x = m->v[6];
for (int i = 0; i < 2; i++)
    dx[i] = m->v[7][i] = A[2 * i] * x[0] + A[2 * i + 1] * x[1] + m->v[2][i] * m->v[4][0];
for (int i = 0; i < 3; i++)
    m->v[5][i] = C[2 * i] * x[0] + C[2 * i + 1] * x[1];""",
)
RESIZABLE = AnyModel(
    "Resizable",
    [
        *(
            Variable(name, k, "structuralParameter", "UInt64", "tunable", (3,), more='max="5"')
            for k, name in enumerate("mnr", 1)
        ),
        Variable(
            "A",
            4,
            "parameter",
            start=(-1, 0, 0, 0, -1, 0, 0, 0, -1),
            shape=("n", "n"),
            variability="tunable",
        ),
        Variable(
            "B",
            5,
            "parameter",
            start=(1, 0, 0, 0, 1, 0, 0, 0, 1),
            shape=("n", "m"),
            variability="tunable",
        ),
        Variable(
            "C",
            6,
            "parameter",
            start=(1, 0, 0, 0, 1, 0, 0, 0, 1),
            shape=("r", "n"),
            variability="tunable",
        ),
        Variable("D", 7, "parameter", start=(0,), shape=("r", "m"), variability="tunable"),
        Variable("u", 8, "input", start=(1, 2, 3), shape=("m",)),
        Variable("y", 9, "output", shape=("r",)),
        Variable("x", 10, "local", start=(0, 0, 0), shape=("n",)),
        Variable("der_x", 11, shape=("n",), more='derivative="10"'),
    ],
    states=(10,),
    rates=(11,),
    motion="""
const int nu = (int)m->v[1][0], nx = (int)m->v[2][0], ny = (int)m->v[3][0];
const long double *A = m->v[4], *B = m->v[5], *C = m->v[6], *D = m->v[7];
const long double *u = m->v[8], *x = m->v[10];
for (int i = 0; i < nx; i++) {
    long double sum = 0;
    for (int j = 0; j < nx; j++) sum += A[nx * i + j] * x[j];
    for (int j = 0; j < nu; j++) sum += B[nu * i + j] * u[j];
    dx[i] = m->v[11][i] = sum;
}
for (int i = 0; i < ny; i++) {
    long double sum = 0;
    for (int j = 0; j < nx; j++) sum += C[nx * i + j] * x[j];
    for (int j = 0; j < nu; j++) sum += D[nu * i + j] * u[j];
    m->v[9][i] = sum;
}""",
    most_elements=25,
    longest_step=1e-4,
)
_CLOCK = 'intervalVariability="constant" intervalDecimal="0.1"'
_COUNTDOWN = 'intervalVariability="countdown"'
CLOCKS = AnyModel(
    "Clocks",
    [
        Variable("tick", 1, "input", "Clock", more=_CLOCK),
        Variable("later", 2, "input", "Clock", more=_COUNTDOWN),
        Variable("rang", 3, "output", "Clock", more='intervalVariability="triggered"'),
        Variable("u", 4, "input", start=(0.0,), variability="discrete"),
        Variable("sampled", 5, "output", variability="discrete", start=(-1.0,)),
        Variable("ticks", 6, "output", "Int32", "discrete", (0,)),
        Variable("last", 7, "output", variability="discrete", start=(-1.0,)),
        Variable("rings", 8, "output", "Int32", "discrete", (0,)),
    ],
    update="""
if (m->clock[1]) {
    m->v[5][0] = m->v[4][0], m->v[7][0] = m->t, m->v[6][0]++;
    if ((int)m->v[6][0] % 3 == 0) m->v[9][0] = 1;
}
if (m->clock[2]) m->v[8][0]++, m->clock[3] = true;
m->clock[1] = m->clock[2] = false;""",
    interval="""
*value = 0.05;
const int known = r == 2 && m->v[9][0] != 0 ? 2 : 0;
m->v[9][0] = 0;
return known;""",
    attributes='hasEventMode="true" mightReturnEarlyFromDoStep="true"',
)
# clocks whose ticks are counted: `hit` is triggered, the intervals of the others are set or changed
TICKS = AnyModel(
    "Ticks",
    [
        Variable("hit", 1, "input", "Clock", more='intervalVariability="triggered"'),
        Variable("fixed", 2, "input", "Clock", more='intervalVariability="fixed"'),
        Variable(
            "tunable", 3, "input", "Clock", more='intervalVariability="tunable" intervalDecimal="1"'
        ),
        Variable("changing", 4, "input", "Clock", more='intervalVariability="changing"'),
        Variable("out", 5, "output", "Clock", more='intervalVariability="triggered"'),
        Variable("hits", 6, "output", "Int32", "discrete", (0,)),
        Variable("fixed_ticks", 7, "output", "Int32", "discrete", (0,)),
        Variable("tunable_ticks", 8, "output", "Int32", "discrete", (0,)),
        Variable("changing_ticks", 9, "output", "Int32", "discrete", (0,)),
        _real("x", 10, 1.0),
        _rate("der_x", 11, 10),
        Variable("z", 12),
    ],
    states=(10,),
    rates=(11,),
    motion="dx[0] = m->v[11][0] = 1.0;",
    indicators=("(double)m->v[10][0] - 1.0375",),
    update="""
for (int k = 1; k <= 4; k++)
    if (m->clock[k]) m->v[5 + k][0]++, m->clock[k] = false, m->clock[5] |= k == 2;
""",
    interval="""
/* the interval of `changing` is 0.1 s, and 0.2 s from the second tick on */
*value = r == 4 ? (m->v[9][0] >= 2 ? 0.2 : 0.1) : 0.0;
return r == 4 ? 2 : 0;""",
    attributes='hasEventMode="true" mightReturnEarlyFromDoStep="true"',
)
_PERIODIC = 'intervalVariability="constant" intervalDecimal="{}" priority="{}"'
# `order` has the numbers of the clocks as digits, in the order of their ticks
PARTITIONS = AnyModel(
    "Partitions",
    [
        Variable("fast", 1, "input", "Clock", more=_PERIODIC.format(0.1, 2)),
        Variable("slow", 2, "input", "Clock", more=_PERIODIC.format(0.2, 1)),
        Variable("later", 3, "input", "Clock", more=_COUNTDOWN),
        Variable("rang", 4, "output", "Clock", more='intervalVariability="triggered"'),
        Variable("hit", 5, "input", "Clock", more='intervalVariability="triggered"'),
        Variable("u", 6, "input", start=(0.0,), variability="discrete"),
        Variable("order", 7, "output", variability="discrete", start=(0.0,)),
        Variable("sampled", 8, "output", variability="discrete", start=(-1.0,)),
        Variable("last", 9, "output", variability="discrete", start=(-1.0,)),
    ],
    update="""
for (int k = 1; k <= 5; k++)
    if (k != 4 && m->clock[k]) {
        m->v[7][0] = 10 * m->v[7][0] + k, m->v[8][0] = m->v[6][0], m->v[9][0] = m->t;
        m->clock[k] = false;
        if (k == 2) m->v[10][0] = 1;
        if (k == 3) m->clock[4] = true;
    }""",
    interval="""
*value = m->v[6][0] < 0 ? 0 : 0.05; /* a negative u lets `later` tick again at once, for ever */
const int known = r == 3 && (m->v[10][0] != 0 || m->v[6][0] < 0) ? 2 : 0;
m->v[10][0] = 0;
return known;""",
    scheduled=True,
)
