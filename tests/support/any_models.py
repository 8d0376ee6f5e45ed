"""Small models as FMUs of FMI 2.0 and 3.0, for co-simulation and model exchange, compiled from
`any_fmi.c`: they behave as the Reference-FMUs of the Modelica Association of the same names do.
"""

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

import fmpy

from rigidblocks.tracing.compiler import PORTABLE_FLAGS, shared_library

_HEADERS = (
    "fmi2FunctionTypes.h",
    "fmi2TypesPlatform.h",
    "fmi3FunctionTypes.h",
    "fmi3PlatformTypes.h",
)
_OF_FMI_2 = {"Float64": "Real", "Int32": "Integer"}
_BOTH = ("Float64", "Int32", "Boolean", "Enumeration", "String")


class Variable(NamedTuple):
    """A variable with its value reference; `start` has one value for each element."""

    name: str
    reference: int
    causality: str = "local"
    type: str = "Float64"
    variability: str = "continuous"
    start: tuple[object, ...] = ()
    shape: tuple[int, ...] = ()
    more: str = ""


@dataclass(frozen=True, eq=False)
class AnyModel:
    """A model in C, with the value references of its continuous states and of their rates."""

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
    longest_step: float = 1e-2
    attributes: str = ""


def any_fmu(folder: Path, model: AnyModel, version: int, **options: str) -> Path:
    """The FMU of a model in a folder; `options` are the texts of resources by file name."""
    variables = [v for v in model.variables if version == 3 or v.type in _BOTH]
    code = Path(__file__).with_name("any_fmi.c").read_text()
    sizes = {v.reference: 1 for v in model.variables}
    for v in model.variables:
        for n in v.shape:
            sizes[v.reference] *= n
    z = " ".join(f"z[{k}] = {text};" for k, text in enumerate(model.indicators))
    references = "".join(f"{k}, " for k in model.states)
    lengths = ", ".join(f"[{r}] = {n}" for r, n in sizes.items())
    text = f"""
enum {{ INDICATORS = {len(model.indicators)}, UPDATES = {model.updates} }};
static const double H = {model.longest_step};
static const unsigned X[] = {{{references}0}};
static const int SIZE[REFERENCES] = {{{lengths}}};
static void start(Model *m) {{ {"".join(map(_started, variables))} {model.start} }}
static void rates(Model *m, double *dx) {{ (void)m, (void)dx; {model.motion} }}
static void indicators(Model *m, double *z) {{ (void)m, (void)z; {z} }}
static void update(Model *m) {{ (void)m; {model.update} }}
int interval(Model *m, Reference r, double *value) {{ {model.interval} }}
"""
    headers = Path(fmpy.__file__).parent / "c-code"
    sources = {name: (headers / name).read_text() for name in _HEADERS}
    sources["any.c"] = code.replace("\nMODEL\n", text)
    flags = (*PORTABLE_FLAGS, "-D_GNU_SOURCE", f"-DFMI={version}", "-fvisibility=hidden")
    library = shared_library(sources, "any.c", flags)
    path = folder / f"{model.name}_{version}.fmu"
    platform = fmpy.platform if version == 2 else fmpy.platform_tuple
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(library, f"binaries/{platform}/any{fmpy.sharedLibraryExtension}")
        archive.writestr("modelDescription.xml", _description(model, variables, version))
        for name, content in options.items():
            archive.writestr(f"resources/{name}.txt", content)
    return path


def _started(v: Variable) -> str:
    if v.type in ("String", "Binary"):
        data = v.start[0] if v.start else ""
        k = v.reference
        return f'strcpy(m->text[{k}], "{data}"); m->length[{k}] = {len(str(data))};'
    values = (int(one) if isinstance(one, bool) else one for one in v.start)
    return "".join(f"m->v[{v.reference}][{k}] = {one};" for k, one in enumerate(values))


def _description(model: AnyModel, variables: Sequence[Variable], version: int) -> str:
    state = f'canGetAndSetFMU{"state" if version == 2 else "State"}="true"'
    kinds = f"""<ModelExchange modelIdentifier="any" {state}/>
<CoSimulation modelIdentifier="any" canHandleVariableCommunicationStepSize="true" {state}
 {model.attributes if version == 3 else ""}/>"""
    head = (
        f'fmiVersion="2.0" guid="{{1}}" numberOfEventIndicators="{len(model.indicators)}"'
        if version == 2
        else 'fmiVersion="3.0" instantiationToken="{1}"'
    )
    if version == 3:
        variables = [*variables, Variable("time", 0, "independent")]
    rows = "".join(map(_scalar if version == 2 else _variable, variables))
    structure = _structure_2(model, variables) if version == 2 else _structure_3(model, variables)
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<fmiModelDescription modelName="{model.name}" {head}>{kinds}
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
    return v.more.split('"')[1]  # the models number their variables from 1 on, in order


def _variable(v: Variable) -> str:
    initial = ' initial="exact"' if v.start and v.causality in ("local", "output") else ""
    inside = "".join(f'<Dimension start="{n}"/>' for n in v.shape)
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
    outputs = [places[v.reference] for v in variables if v.causality == "output"]
    parts = {"Outputs": outputs, "Derivatives": [places[r] for r in model.rates]}
    found = ""
    for what, some in parts.items():
        rows = "".join(f'<Unknown index="{k}"/>' for k in some)
        found += f"<{what}>{rows}</{what}>" if some else ""
    return found


def _structure_3(model: AnyModel, variables: Sequence[Variable]) -> str:
    outputs = [v.reference for v in variables if v.causality == "output"]
    zs = [v.reference for v in variables if v.name.startswith("z")]
    parts = {"Output": outputs, "ContinuousStateDerivative": model.rates, "EventIndicator": zs}
    return "".join(f'<{what} valueReference="{r}"/>' for what, some in parts.items() for r in some)


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
