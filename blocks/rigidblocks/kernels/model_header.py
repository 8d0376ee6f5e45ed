"""The generated C header `model.h` of a block: its traced functions and the layout of its
memory.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from rigidblocks.block.adaptive import (
    ENOUGH_SIGNS,
    MOST_PATIENCE,
    MOST_TRIES,
    SCREEN_PAUSE,
    STABLE,
    TEST_TRIES,
    Adaptive,
    Method,
    chooses_steps,
    has_exact_slopes,
    is_implicit,
    linearly_implicit_part,
    longest_step,
    nominal_values,
)
from rigidblocks.block.block import Block
from rigidblocks.block.choice import FIRST_TRUST, MOST_TRUST, Prices
from rigidblocks.block.collocation import CONTRACTION, LOOSE, REACH, SLOPES_AT, START_PART, close
from rigidblocks.block.collocation import MOST_TRIES as MOST_NEWTON
from rigidblocks.block.composite import Composite, InnerBlock
from rigidblocks.block.integrators import EULER, Collocation, Integrator
from rigidblocks.block.memory import Memory
from rigidblocks.block.staged import STAGED, StagedBlock
from rigidblocks.block.written import BlockInC, WrittenBlock
from rigidblocks.kernels.composite import constants_text, of_its_own, sample_text, start_text
from rigidblocks.kernels.evaluator import TracedEvaluator
from rigidblocks.tracing.ccode import c_functions, c_number, c_text
from rigidblocks.tracing.waits import told

KERNEL = (
    "block.h",
    "course.h",
    "implicit.h",
    "margins.h",
    "stiffness.h",
    "choice.h",
    "trial.h",
    "length.h",
    "methods.h",
    "collocation.h",
    "inner.h",
    "control.h",
    "step.h",
)  # each may use those before
FUNCTIONS = ("derivative", "initial", "update", "output")
PROJECTION = "project"  # a fifth, for the blocks that have one
MARGINS = "margins"  # a sixth, where an adaptive method ends its steps at them


def model_header(evaluator: TracedEvaluator, method: Method, h: float) -> str:
    """The text of model.h for a block stepped by `method` with inner steps of at most `h` [s],
    which must be positive.
    """
    longest_step(method, h)  # refuses one that is none
    memory, projects = evaluator.memory, evaluator.projects
    block = memory.block
    inner = block.inner_blocks(memory) if isinstance(block, Composite) else ()
    written = isinstance(block, WrittenBlock)
    starting = block.starting_order(memory) if isinstance(block, Composite) else ()
    own = {"update"} if written or inner else set()
    own |= {"initial"} if written or starting else set()
    names = [name for name in FUNCTIONS if name not in own]
    margins = evaluator.margin_count if chooses_steps(method, block) else 0
    names += [PROJECTION] * projects + [MARGINS] * bool(margins)
    staged = STAGED if isinstance(block, StagedBlock) else ()
    graphs = [evaluator.stage_numbers] if staged else []
    graphs += [evaluator.after_stage(n) if n in staged else evaluator.graph(n) for n in names]
    graphs += [evaluator.rate_slopes] if has_exact_slopes(method, block) else []
    counts = ", ".join(f"{graph.name} {graph.operation_count}" for graph in graphs)
    with told(f"writing the C of {memory.name}, operations: {counts}"):
        elements = [_element_names(memory, graph.name) for graph in graphs]
        functions = c_functions(graphs, elements, inline=True)
    return "\n".join(
        [
            f"/* {memory.name}, traced to C. Operations: {counts}.\n",
            *memory_table(memory),
            "*/\n",
            "#ifndef RB_MODEL_H\n#define RB_MODEL_H\n\n#include <math.h>\n",
            _layout(memory),
            f"#define RB_PROJECTS {int(projects)}",
            *[f"#define RB_MARGINS {margins}"] * bool(margins),
            f"static const double RB_SAMPLE_TIME = {c_number(memory.block.sample_time or 0.0)};",
            f"static const double RB_INNER_STEP = {c_number(h)};",
            _array("RB_START", memory.start()),
            *_tableau(memory, method),
            functions,
            *_inner_text(inner, block, starting),
            *_written_text(memory),
            *_staged_text(evaluator, names),
            "#endif\n",
        ]
    )


def _inner_text(
    inner: Sequence[InnerBlock], block: Block, starting: Sequence[int]
) -> Iterator[str]:
    """The C of inner blocks, of their start in this order, and of the sample that is their steps,
    where there are any.
    """
    for number, one in enumerate(inner):
        text = model_header(TracedEvaluator(one.memory), one.method, one.h)
        text += "".join(c_text(f"kernel/{name}") for name in KERNEL)
        yield of_its_own(text, number)
    if inner:
        assert isinstance(block, Composite)
        assert block.sample_time is not None
        yield constants_text(inner)
        if starting:
            yield start_text(inner, starting)
        yield sample_text(inner, block.sample_time, block.simultaneous)


def _written_text(memory: Memory) -> Iterator[str]:
    if isinstance(memory.block, BlockInC):
        yield memory.block.written_text()
    if isinstance(memory.block, WrittenBlock):
        yield memory.block.update_text(memory)


def _staged_text(evaluator: TracedEvaluator, names: Sequence[str]) -> Iterator[str]:
    """The C of the functions of a block with a stage: what is before it, the stage, what is
    after.
    """
    block = evaluator.memory.block
    if not isinstance(block, StagedBlock):
        return
    numbers = evaluator.stage_numbers.function.nnz_out()
    yield f"""
static inline void with_stage(const double *in, double *whole)
{{
    double numbers[{numbers}];
    memcpy(whole, in, RB_SIZE * sizeof *in);
    stage_numbers(in, numbers);
    {block.function}(numbers, whole + RB_SIZE);
}}"""
    for name in names:
        if name in STAGED:
            yield f"""
static inline void {name}(const double *in, double *out)
{{
    double whole[RB_SIZE + {block.stage_size}];
    with_stage(in, whole);
    {name}_after(whole, out);
}}"""


def memory_table(memory: Memory) -> Iterator[str]:
    """The lines of a table of the memory: the index, port, element and unit of each number."""
    kinds = {
        "continuous states": memory.x,
        "sampled states": memory.z,
        "inputs": memory.u,
        "tunable parameters": memory.p,
        "computed outputs": memory.y,
        "steps": memory.s,
    }
    starts = {place.start: kind for kind, place in kinds.items() if place.stop > place.start}
    rows = [("index", "port", "element", "unit"), ("0", "t", "", "s")]
    for port in memory.ports:
        for name, unit in zip(port.element_names, port.units, strict=True):
            rows.append((str(len(rows) - 1), port.name, name[len(port.name) :].strip("[]"), unit))
    wide = [max(len(row[column]) for row in rows) for column in range(3)]
    for k, (index, *texts, unit) in enumerate(rows):
        if k - 1 in starts:
            yield f"   {starts[k - 1]}"
        cells = (text.ljust(width) for text, width in zip(texts, wide[1:], strict=True))
        yield f"   {index.rjust(wide[0])}  {'  '.join(cells)}  {unit}"


def memory_names(memory: Memory) -> tuple[str, ...]:
    """The name of each element of the memory."""
    return ("t", *(name for port in memory.ports for name in port.element_names))


def _element_names(memory: Memory, function: str) -> dict[str, str]:
    """What the elements of `in` and `out` of a function of a block are."""
    elements = memory_names(memory)
    x, z, y = elements[memory.x], elements[memory.z], elements[memory.y]
    rates = [f"der({name})" for name in x]
    function = function.removesuffix("_after")
    out = {
        "stage_numbers": [],
        "derivative": rates,
        PROJECTION: x,
        MARGINS: [],
        "initial": z,
        "update": z,
        "output": y,
        "rate_slopes": [f"d {rate} / d {name}" for rate in rates for name in x]
        + [f"d {rate} / d t" for rate in rates],
    }[function]
    return named_elements("in", elements) | named_elements("out", out)


def named_elements(array: str, names: Iterable[str]) -> dict[str, str]:
    """The names by the C text of the elements of an array."""
    return {f"{array}[{k}]": name for k, name in enumerate(names)}


def _layout(memory: Memory) -> str:
    places = {
        "X": memory.x, "Z": memory.z, "U": memory.u, "P": memory.p, "Y": memory.y, "S": memory.s,
    }  # fmt: skip
    entries = [
        f"RB_{name} = {s.start}, RB_N{name} = {s.stop - s.start}" for name, s in places.items()
    ]
    return f"enum {{ RB_T = 0, {', '.join(entries)}, RB_SIZE = {memory.size} }};"


def _tableau(memory: Memory, method: Method) -> Iterable[str]:
    """The tableaux with b as their last row, and how the length of a step is chosen."""
    stiff, collocation = linearly_implicit_part(method), None
    if isinstance(method, Adaptive):
        explicit = method.explicit
        if chooses_steps(method, memory.block) and method.collocates(
            memory.x.stop - memory.x.start
        ):
            collocation = method.collocation
        yield from _control(memory, method)
        if explicit is stiff is collocation is None:
            explicit = EULER  # of no states: collocation has nothing to choose the steps of
    else:
        explicit = method if stiff is None else None
    yield f"#define RB_ADAPTIVE {int(chooses_steps(method, memory.block))}"
    yield f"#define RB_EXPLICIT {int(explicit is not None)}"
    yield f"#define RB_IMPLICIT {int(is_implicit(method))}"
    yield f"#define RB_LINEARLY_IMPLICIT {int(stiff is not None)}"
    yield f"#define RB_COLLOCATION {int(collocation is not None)}"
    yield f"#define RB_EXACT_SLOPES {int(has_exact_slopes(method, memory.block))}"
    if explicit is not None:
        yield from _explicit_tableau(memory, explicit)
    if stiff is not None:
        yield from _implicit_tableau(stiff)
    if collocation is not None:
        assert collocation.collocation is not None
        yield from _collocation_tableau(collocation, collocation.collocation)
        yield from _prices(memory.x.stop - memory.x.start)
        assert isinstance(method, Adaptive)
        yield f"static const double RB_NEWTON_CLOSE = {c_number(close(method.rtol))};"


def _explicit_tableau(memory: Memory, method: Integrator) -> Iterable[str]:
    """The tableau, and that of the states that are positions."""
    a_position, b_position = method.position_tableau
    flags = ", ".join(str(int(flag)) for flag in (*memory.position, False))
    yield f"enum {{ RB_STAGES = {method.stages} }};"
    yield _matrix("RB_A", (*method.a, method.b))
    yield _matrix("RB_A_POSITION", (*a_position, b_position))
    yield _array("RB_C", method.c)
    yield f"static const unsigned char RB_POSITION[RB_NX + 1] = {{{flags}}};"
    if method.error is not None:
        yield _array("RB_ERROR", method.error)


def _collocation_tableau(method: Integrator, nodes: Collocation) -> Iterable[str]:
    roots = [part for root in nodes.roots for part in (root.real, root.imag)]
    yield _matrix("RB_COLLOCATION_A", method.a)
    yield _array("RB_NODE_TIMES", method.c)
    yield _array("RB_ROOTS", (roots[0], *roots[2:]))
    yield _matrix("RB_THERE", nodes.there)
    yield _matrix("RB_BACK", nodes.back)
    yield _array("RB_NODE_ERROR", nodes.error)
    yield f"enum {{ RB_MOST_NEWTON = {MOST_NEWTON} }};"
    yield f"static const double RB_LOOSE = {c_number(LOOSE)};"
    yield f"static const double RB_CONTRACTION = {c_number(CONTRACTION)};"
    yield f"static const double RB_REACH = {c_number(REACH)};"
    yield f"static const double RB_SLOPES_AT = {c_number(SLOPES_AT)};"
    yield f"static const double RB_START_PART = {c_number(START_PART)};"


def _prices(n: int) -> Iterable[str]:
    """What the choice between two implicit methods goes by."""
    prices = Prices.of(n)
    numbers = {f"price_of_{name}": price for name, price in prices._asdict().items()}
    numbers |= {"window": prices.window, "first_trust": FIRST_TRUST, "most_trust": MOST_TRUST}
    for name, value in numbers.items():
        yield f"static const double RB_{name.upper()} = {c_number(value)};"


def _implicit_tableau(method: Integrator) -> Iterable[str]:
    assert method.implicit is not None
    yield f"enum {{ RB_IMPLICIT_STAGES = {method.stages} }};"
    yield f"static const double RB_GAMMA = {c_number(method.implicit.gamma)};"
    yield _matrix("RB_IMPLICIT_A", (*method.a, method.b))
    yield _array("RB_IMPLICIT_C", method.c)
    yield _matrix("RB_COUPLING", (*method.implicit.coupling, (0.0,) * method.stages))
    yield _array("RB_TIME", method.implicit.time)


def _control(memory: Memory, method: Adaptive) -> Iterable[str]:
    """The tolerance, and what the choice of the steps goes by."""
    absolute = (*method.absolute(memory.block.states), 1.0)
    yield f"static const double RB_RTOL = {c_number(method.rtol)};"
    yield _array("RB_ATOL", absolute)
    yield from _choice(memory, method)
    yield f"enum {{ RB_MAX_INNER_STEPS = {method.max_inner_steps or 0}, "
    yield f"       RB_ENOUGH_SIGNS = {ENOUGH_SIGNS}, RB_SCREEN_PAUSE = {SCREEN_PAUSE},"
    yield f"       RB_MOST_TRIES = {MOST_TRIES}, RB_TEST_TRIES = {TEST_TRIES} }};"


def _choice(memory: Memory, method: Adaptive) -> Iterable[str]:
    """What the choice between an explicit and a linearly implicit method goes by."""
    if method.explicit is not None:
        yield f"static const double RB_STABLE = {c_number(STABLE)};"
    if is_implicit(method) and not method.exact:
        yield _array("RB_USUAL", (*nominal_values(memory.block.states), 1.0))
    if method.explicit is not None and method.stiff is not None:
        n = memory.x.stop - memory.x.start
        yield f"static const double RB_DEARNESS = {c_number(method.dearness(n))};"
        yield f"static const double RB_MOST_PATIENCE = {c_number(MOST_PATIENCE)};"


def _matrix(name: str, rows: tuple[tuple[float, ...], ...]) -> str:
    width = len(rows[-1])
    text = ", ".join("{" + _numbers((*row, *[0.0] * (width - len(row)))) + "}" for row in rows)
    return f"static const double {name}[{len(rows)}][{width}] = {{{text}}};"


def _array(name: str, values: Iterable[float]) -> str:
    return f"static const double {name}[] = {{{_numbers(values)}}};"


def _numbers(values: Iterable[float]) -> str:
    return ", ".join(c_number(value) for value in np.asarray(list(values), dtype=float))
