"""Generated C header `model.h` of a block: its traced functions and its memory layout."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rigidblocks.block.adaptive_methods import (
    ENOUGH_VOTES,
    FIRST_RETRY,
    LAST_RETRY,
    MAX_PATIENCE,
    MAX_TRIES,
    PROBATION_TRIES,
    SCREEN_INTERVAL,
    STABILITY_LIMIT,
    Adaptive,
    Method,
    MethodCosts,
    chooses_steps,
    is_implicit,
    linearly_implicit_part,
    longest_step,
    needs_exact_jacobian,
    nominal_values,
)
from rigidblocks.block.block import Block
from rigidblocks.block.external_functions import STAGED, BlockInC, StagedBlock, WrittenBlock
from rigidblocks.block.integrators import EULER, Collocation, Integrator
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.nested_blocks import Composite, Copy, InnerBlock
from rigidblocks.block.radau import (
    INITIAL_CHANGE,
    JACOBIAN_FRACTION,
    LOOSE_TOLERANCE,
    MAX_CONTRACTION,
    MAX_EXTRAPOLATION,
    MAX_ITERATIONS,
    newton_tolerance,
)
from rigidblocks.common.slow_operation_log import log_if_slow
from rigidblocks.kernels.plant_loops import LOOPED, PlantLoops
from rigidblocks.kernels.traced_evaluator import C_NAMES, SWITCHING, TracedEvaluator
from rigidblocks.tracing.c_notation import c_comment
from rigidblocks.tracing.ccode import c_functions, c_number, c_text

_DEFINED = re.compile(
    r"^static (?:inline )?(?:const )?(?:struct )?\w+ \*?(\w+)\(|^\} (\w+);|^struct (\w+) \{"
    r"|^typedef \w+ (\w+)\[",
    re.MULTILINE,
)


class StepTemplates(NamedTuple):
    """C code templates for the memory vector and the steps of the inner blocks.

    Attributes:
        real: C type of a value.
        large: Name of the C macro that is 1 if the arrays of a step are too large for the stack.
        begin: C code that initializes the memory vector of inner block k from constants.
        step: C code of a step of inner block k by dt [s], which ends at the time in[0].
    """

    real: str
    large: str
    begin: str
    step: str


SCALARS = StepTemplates(
    "double",
    "RB_LARGE",
    "memcpy(m{k}, RB_B{k}_CONSTANTS, RB_B{k}_SIZE * sizeof *m{k});",
    "b{k}_step(m{k}, in[RB_T] - {dt}, {dt}, NULL);",
)
LANES = StepTemplates(  # in SIMD lanes
    "real",
    "RB_LARGE_LANES",
    "for (int i = 0; i < RB_B{k}_SIZE; i++)\n        m{k}[i] = lanes(RB_B{k}_CONSTANTS[i]);",
    "m{k}[0] = in[0] - lanes({dt});\n    b{k}_advance(m{k}, next{k});\n"
    "    memcpy(m{k}, next{k}, RB_B{k}_SIZE * sizeof *m{k});",
)


def prefix_symbols(text: str, number: int) -> str:
    """Add a prefix with the block number to all names that the C code `text` defines."""
    names = {name for found in _DEFINED.findall(text) for name in found if name}
    text = re.sub(r"\b(RB|HAS)_(?!LANES\b)", rf"\1_B{number}_", remove_includes(text))
    return re.sub(rf"\b({'|'.join(sorted(names))})\b", rf"b{number}_\1", text)


def remove_includes(text: str) -> str:
    """Remove the `#include "..."` lines from the C code `text`.

    The caller adds the code of the included files to the same C file.
    """
    return re.sub(r'^#include ".*"\n', "", text, flags=re.MULTILINE)


def constants_text(blocks: Sequence[InnerBlock]) -> str:
    """Return the C constants with the initial memory vectors of the inner blocks."""
    return "\n".join(
        f"static const double RB_B{k}_CONSTANTS[] = "
        f"{{{', '.join(c_number(value) for value in block.start_memory)}}};"
        for k, block in enumerate(blocks)
    )


def start_text(blocks: Sequence[InnerBlock], order: Sequence[int]) -> str:
    """Return the C function `initial` of a block, which initializes its inner blocks in order."""
    lines = list(_memories(blocks, SCALARS))
    for k in order:
        lines += _copy_wired_inputs(k, blocks[k], SCALARS)
        lines.append(f"b{k}_initialize(m{k}, in[RB_T]);")
    return _function("initial", [*lines, *_copy_to_outer_states(blocks, SCALARS)], SCALARS)


def sample_text(
    blocks: Sequence[InnerBlock],
    sample_time: float,
    simultaneous: bool,
    name: str = "update",
    templates: StepTemplates = SCALARS,
) -> str:
    """Return the C function `update` of a block, which steps its inner blocks one after the other.

    Args:
        blocks: Inner blocks.
        sample_time: Length of the step [s].
        simultaneous: True if all inner blocks read the outputs of the previous step.
        name: Name of the C function.
        templates: C code templates, for scalars or for SIMD lanes.
    """
    lines = list(_memories(blocks, templates))
    wired = [list(_copy_wired_inputs(k, block, templates)) for k, block in enumerate(blocks)]
    if simultaneous:
        lines += [line for group in wired for line in group]
    for k, group in enumerate(wired):
        lines += [] if simultaneous else group
        lines.append(templates.step.format(k=k, dt=c_number(sample_time)))
    return _function(name, [*lines, *_copy_to_outer_states(blocks, templates)], templates)


def _memories(blocks: Sequence[InnerBlock], templates: StepTemplates) -> Iterator[str]:
    """Yield the C code that declares and initializes the memory vectors of the inner blocks.

    The values are constants and elements of the outer memory vector.
    """
    for k, block in enumerate(blocks):
        yield f"/* {c_comment(block.name)} */"
        for name in ("m", "next") if templates is LANES else ("m",):
            yield f"RB_WORKSPACE({templates.large}, {templates.real}, {name}{k}, RB_B{k}_SIZE);"
        yield templates.begin.format(k=k)
        yield from _copy_statements(f"m{k}", "in", block.reads, templates)


def _copy_to_outer_states(blocks: Sequence[InnerBlock], templates: StepTemplates) -> Iterator[str]:
    for k, block in enumerate(blocks):
        yield from _copy_statements("out", f"m{k}", block.writes, templates)


def _function(name: str, lines: Sequence[str], templates: StepTemplates) -> str:
    body = "\n".join(f"    {line}" for line in lines)
    real = templates.real
    return f"static inline void {name}(const {real} *in, {real} *out)\n{{\n{body}\n}}\n"


def _copy_wired_inputs(number: int, block: InnerBlock, templates: StepTemplates) -> Iterator[str]:
    for other, copy in block.connections:
        yield from _copy_statements(f"m{number}", f"m{other}", [copy], templates)


def _copy_statements(
    to: str, start: str, runs: Iterable[Copy], templates: StepTemplates
) -> Iterator[str]:
    for run in runs:
        size = f"{run.length} * sizeof({templates.real})"
        yield f"memcpy({to} + {run.to}, {start} + {run.start}, {size});"


KERNEL = (
    "workspace.h",
    "model_interface.h",
    "integrators.h",
    "collocation.h",
    "adaptive_step.h",
    "block_step.h",
)  # each file may use the preceding files
MOST_ON_STACK = 2**15  # largest workspace on the stack [bytes]; a stack may have only 128 kB
FUNCTIONS = ("derivative", "initial", "update", "output")
PROJECTION = "project"  # additional function of blocks with a projection


def model_header(
    evaluator: TracedEvaluator,
    method: Method,
    h: float,
    *,
    in_lanes: bool = False,
    with_start_values: bool = True,
) -> str:
    """Return the C header model.h of a block: layout, constants, integrator and functions.

    Args:
        evaluator: Traced functions of the block.
        method: Integration method.
        h: Largest inner step [s], positive.
        in_lanes: True if the results must be bitwise equal to the results in SIMD lanes; the
            functions then contain no loops over the bodies.
        with_start_values: False for a kernel whose caller initializes the memory vector. Blocks
            that differ only in their start values then have the same header.
    """
    longest_step(method, h)  # rejects an h that is not positive
    memory, projects = evaluator.memory, evaluator.has_projection
    block = memory.block
    inner = block.inner_blocks(memory) if isinstance(block, Composite) else ()
    written = isinstance(block, WrittenBlock)
    start_order = block.starting_order(memory) if isinstance(block, Composite) else ()
    own = {"update"} if written or inner else set()
    own |= {"initial"} if written or start_order else set()
    names = [name for name in FUNCTIONS if name not in own]
    margins = evaluator.switching_count if chooses_steps(method, block) else 0
    loops = None if in_lanes else evaluator.loops
    large = _workspace(evaluator, method, loops) > MOST_ON_STACK
    start = memory.start()
    if not with_start_values:
        start[: memory.s.start] = 0.0  # the step size control starts from its constants
    names += [PROJECTION] * projects + [SWITCHING] * bool(margins)
    staged = STAGED if isinstance(block, StagedBlock) else ()
    graphs = [evaluator.stage_numbers] if staged else [loops.arguments] if loops else []
    for name in names:
        if name in staged:
            graphs.append(evaluator.graph_after_stage(name))
        elif loops and name in LOOPED:
            graphs.append(evaluator.graph_after_loops(name))
        else:
            graphs.append(evaluator.graph(name))
    graphs += [evaluator.rate_slopes] if needs_exact_jacobian(method, block) else []
    counts = ", ".join(f"{graph.name} {graph.operation_count}" for graph in graphs)
    with log_if_slow(f"writing the C code of {memory.name}, operations: {counts}"):
        elements = [_element_names(memory, graph.name) for graph in graphs]
        functions = c_functions(graphs, elements, inline=True)
    return "\n".join(
        [
            f"/* {c_comment(memory.name)}, traced to C. Operations: {counts}.\n",
            *map(c_comment, memory_table(memory)),
            "*/\n",
            "#ifndef RB_MODEL_H\n#define RB_MODEL_H\n\n#include <math.h>\n",
            _layout(memory),
            f"#define RB_LARGE {int(large)}",
            *[c_text("kernel/workspace.h")] * bool(large or inner or staged or loops),
            f"#define RB_PROJECTS {int(projects)}",
            *[f"#define RB_MARGINS {margins}"] * bool(margins),
            f"static const double RB_SAMPLE_TIME = {c_number(memory.block.sample_time or 0.0)};",
            f"static const double RB_INNER_STEP = {c_number(h)};",
            _array("RB_START", start),
            *_tableau(memory, method),
            functions,
            *_inner_text(inner, block, start_order),
            *_written_text(memory),
            *_staged_text(evaluator, names),
            *(loops.text() if loops else ()),
            "#endif\n",
        ]
    )


def _workspace(evaluator: TracedEvaluator, method: Method, loops: PlantLoops | None) -> int:
    """Return an upper bound [bytes] of the memory that the arrays of a step need at the same time.

    `loops` are the C loops of a plant with many bodies, or None.
    """
    memory, block = evaluator.memory, evaluator.memory.block
    nx = memory.x.stop - memory.x.start
    numbers = 3 * memory.size + 60 * nx
    if is_implicit(method):
        numbers += 8 * nx * nx
    if isinstance(block, StagedBlock):
        numbers += memory.size + evaluator.stage_numbers.function.nnz_out() + block.stage_size
    if loops:
        numbers += 2 * memory.size + loops.work
    if isinstance(block, Composite):
        numbers += 2 * sum(inner.memory.size for inner in block.inner_blocks(memory))
    return 8 * int(numbers)


def _inner_text(
    inner: Sequence[InnerBlock], block: Block, start_order: Sequence[int]
) -> Iterator[str]:
    """Yield the C code of the inner blocks: their functions, initialization and step.

    `start_order` lists the indices of the inner blocks in the order of initialization. If the list
    is empty, the code has no initialization.
    """
    for number, one in enumerate(inner):
        text = model_header(TracedEvaluator(one.memory), one.method, one.h)
        text += "".join(c_text(f"kernel/{name}") for name in KERNEL)
        yield prefix_symbols(text, number)
    if inner:
        assert isinstance(block, Composite)
        assert block.sample_time is not None
        yield constants_text(inner)
        if start_order:
            yield start_text(inner, start_order)
        yield sample_text(inner, block.sample_time, block.simultaneous)


def _written_text(memory: Memory) -> Iterator[str]:
    if isinstance(memory.block, BlockInC):
        yield memory.block.written_text()
    if isinstance(memory.block, WrittenBlock):
        yield memory.block.update_text(memory)


def _staged_text(evaluator: TracedEvaluator, names: Sequence[str]) -> Iterator[str]:
    """Yield the C functions of a `StagedBlock`; each calls its C stage, and then a traced function.

    `names` lists the functions of the block.
    """
    block = evaluator.memory.block
    if not isinstance(block, StagedBlock):
        return
    numbers = evaluator.stage_numbers.function.nnz_out()
    yield f"""
static inline void insert_stage_results(const double *in, double *whole)
{{
    RB_WORKSPACE(RB_LARGE, double, numbers, {numbers});
    memcpy(whole, in, RB_SIZE * sizeof *in);
    stage_numbers(in, numbers);
    {block.function}(numbers, whole + RB_SIZE);
}}"""
    for name in names:
        if name in STAGED:
            function = C_NAMES.get(name, name)
            yield f"""
static inline void {function}(const double *in, double *out)
{{
    RB_WORKSPACE(RB_LARGE, double, whole, RB_SIZE + {block.stage_size});
    insert_stage_results(in, whole);
    {function}_after(whole, out);
}}"""


def memory_table(memory: Memory) -> Iterator[str]:
    """Yield the lines of a table with index, port, element and unit of each memory element."""
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
    """Return the name of each element of the memory vector."""
    return ("t", *(name for port in memory.ports for name in port.element_names))


def _element_names(memory: Memory, function: str) -> dict[str, str]:
    """Map C expressions such as in[0] and out[0] to the names of memory elements.

    The expressions are the inputs and outputs of the C function for the block function `function`.
    """
    elements = memory_names(memory)
    x, z, y = elements[memory.x], elements[memory.z], elements[memory.y]
    rates = [f"der({name})" for name in x]
    function = function.removesuffix("_after")
    if function == "rate_slopes":
        out: Sequence[str] = [f"d {rate} / d {name}" for rate in rates for name in x]
        out = [*out, *(f"d {rate} / d t" for rate in rates)]
    else:
        out = {
            "stage_numbers": [],
            "tree_arguments": [],
            "derivative": rates,
            PROJECTION: x,
            C_NAMES[SWITCHING]: [],
            "initial": z,
            "update": z,
            "output": y,
        }[function]
    return named_elements("in", elements) | named_elements("out", out)


def named_elements(array: str, names: Iterable[str]) -> dict[str, str]:
    """Map the C expressions array[0], array[1], ... to `names`."""
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
    """Yield the C constants of the integration method: Butcher tableaux and step size control."""
    stiff, collocation = linearly_implicit_part(method), None
    if isinstance(method, Adaptive):
        explicit = method.explicit
        if chooses_steps(method, memory.block) and method.collocates(
            memory.x.stop - memory.x.start
        ):
            collocation = method.collocation
        yield from _control(memory, method)
        if explicit is stiff is collocation is None:
            explicit = EULER  # collocation steps require states
    else:
        explicit = method if stiff is None else None
    yield f"#define RB_ADAPTIVE {int(chooses_steps(method, memory.block))}"
    yield f"#define RB_EXPLICIT {int(explicit is not None)}"
    yield f"#define RB_IMPLICIT {int(is_implicit(method))}"
    yield f"#define RB_LINEARLY_IMPLICIT {int(stiff is not None)}"
    yield f"#define RB_COLLOCATION {int(collocation is not None)}"
    yield f"#define RB_EXACT_SLOPES {int(needs_exact_jacobian(method, memory.block))}"
    if explicit is not None:
        yield from _explicit_tableau(memory, explicit)
    if stiff is not None:
        yield from _implicit_tableau(stiff)
    if collocation is not None:
        assert collocation.collocation is not None
        yield from _collocation_tableau(collocation, collocation.collocation)
        yield from _method_costs(memory.x.stop - memory.x.start)
        assert isinstance(method, Adaptive)
        yield f"static const double RB_NEWTON_CLOSE = {c_number(newton_tolerance(method.rtol))};"


def _explicit_tableau(memory: Memory, method: Integrator) -> Iterable[str]:
    """Yield the C constants of an explicit method, which has two Butcher tableaux.

    RB_A_POSITION is the tableau for positions, and RB_A for all other continuous states.
    RB_POSITION is 1 for each continuous state that is a position, and 0 for other states.
    """
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
    yield _matrix("RB_THERE", nodes.to_modal)
    yield _matrix("RB_BACK", nodes.from_modal)
    yield _array("RB_NODE_ERROR", nodes.error)
    yield f"enum {{ RB_MOST_NEWTON = {MAX_ITERATIONS} }};"
    yield f"static const double RB_LOOSE = {c_number(LOOSE_TOLERANCE)};"
    yield f"static const double RB_CONTRACTION = {c_number(MAX_CONTRACTION)};"
    yield f"static const double RB_REACH = {c_number(MAX_EXTRAPOLATION)};"
    yield f"static const double RB_SLOPES_AT = {c_number(JACOBIAN_FRACTION)};"
    yield f"static const double RB_START_PART = {c_number(INITIAL_CHANGE)};"


def _method_costs(n: int) -> Iterable[str]:
    """Yield the C constants of the computing costs of the two implicit methods.

    The kernel selects the method with the lower cost per simulated time. `n` is the number of
    continuous states.
    """
    costs = MethodCosts.estimate(n)
    numbers = {
        f"price_of_{'slopes' if name == 'jacobian' else name}": cost
        for name, cost in costs._asdict().items()
    }
    numbers |= {"window": costs.window, "first_trust": FIRST_RETRY, "most_trust": LAST_RETRY}
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
    """Yield the C constants of the tolerances and of step size control."""
    absolute = (*method.absolute_tolerances(memory.block.states), 1.0)
    yield f"static const double RB_RTOL = {c_number(method.rtol)};"
    yield _array("RB_ATOL", absolute)
    yield from _choice(memory, method)
    yield f"enum {{ RB_MAX_INNER_STEPS = {method.max_inner_steps or 0}, "
    yield f"       RB_ENOUGH_SIGNS = {ENOUGH_VOTES}, RB_SCREEN_PAUSE = {SCREEN_INTERVAL},"
    yield f"       RB_MOST_TRIES = {MAX_TRIES}, RB_TEST_TRIES = {PROBATION_TRIES} }};"


def _choice(memory: Memory, method: Adaptive) -> Iterable[str]:
    """Yield the C constants for the selection between an explicit and an implicit method."""
    if method.explicit is not None:
        yield f"static const double RB_STABLE = {c_number(STABILITY_LIMIT)};"
    if is_implicit(method) and not method.exact_jacobian:
        yield _array("RB_USUAL", (*nominal_values(memory.block.states), 1.0))
    if method.explicit is not None and method.stiff is not None:
        n = memory.x.stop - memory.x.start
        yield f"static const double RB_DEARNESS = {c_number(method.relative_cost(n))};"
        yield f"static const double RB_MOST_PATIENCE = {c_number(MAX_PATIENCE)};"


def _matrix(name: str, rows: tuple[tuple[float, ...], ...]) -> str:
    width = len(rows[-1])
    text = ", ".join("{" + _numbers((*row, *[0.0] * (width - len(row)))) + "}" for row in rows)
    return f"static const double {name}[{len(rows)}][{width}] = {{{text}}};"


def _array(name: str, values: Iterable[float]) -> str:
    return f"static const double {name}[] = {{{_numbers(values)}}};"


def _numbers(values: Iterable[float]) -> str:
    return ", ".join(c_number(value) for value in np.asarray(list(values), dtype=float))
