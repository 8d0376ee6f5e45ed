"""The C of a block that steps in lanes: many memories of it at once, each in a lane of its own."""

from collections.abc import Callable
from dataclasses import replace

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.adaptive import Method, chooses_steps
from rigidblocks.block.block import Block
from rigidblocks.block.composite import Composite, InnerBlock
from rigidblocks.block.evaluate import NumpyEvaluator
from rigidblocks.block.memory import Memory
from rigidblocks.block.python_block import PythonBlock
from rigidblocks.block.step import advance, initialize, sample_spans
from rigidblocks.block.written import BlockInC
from rigidblocks.kernels.composite import (
    ABREAST,
    constants_text,
    of_its_own,
    sample_text,
    without_includes,
)
from rigidblocks.kernels.evaluator import TracedEvaluator
from rigidblocks.kernels.kernel import FUNCTIONS, KERNEL, MARGINS, PROJECTION, model_header
from rigidblocks.tracing.batch import in_header
from rigidblocks.tracing.ccode import c_function, c_functions, c_number, c_text
from rigidblocks.tracing.notation import IN_LANES
from rigidblocks.tracing.trace import Graph, trace


def steps_header(memory: Memory, method: Method, h: float, dt: float) -> str:
    """The text of steps.h, which c/lanes/run.c wants: a block whose memories step by dt [s].

    Raises ValueError for a block that is in no trace, and for what has such a block in it.
    """
    text = _advance(memory, method, h, dt)
    start = c_function(_begin(memory), notation=IN_LANES)
    return in_header("steps", f"{text}\n{start}static const double RB_DT = {c_number(dt)};\n")


def functions_text(evaluator: TracedEvaluator, method: Method, dt: float) -> str:
    """The functions of a block in lanes, and its step, which c/lanes/flow.h and advance.h want."""
    names = [name for name in FUNCTIONS if name != "initial"]
    names += [PROJECTION] * evaluator.projects
    names += [MARGINS] * bool(evaluator.margin_count and chooses_steps(method, _block(evaluator)))
    graphs = [_in_lanes(evaluator.graph(name)) for name in names]
    text = c_functions(
        graphs, [{}] * len(graphs), inline=True, notation=IN_LANES, with_tables=False
    )
    return f"{text}\n{_step_text(_block(evaluator), dt)}"


def check_traced(memory: Memory) -> None:
    """Raises ValueError for a block that is in no trace, and for what has such a block in it."""
    block = memory.block
    if isinstance(block, PythonBlock | BlockInC):
        raise ValueError(
            f"{type(block).__name__} is in no trace, and only what is traced runs in a batch"
        )
    for inner in _inner_blocks(memory):
        check_traced(inner.memory)


def _advance(memory: Memory, method: Method, h: float, dt: float) -> str:
    """The text of the function `advance`, which a composite has of each of its blocks, too."""
    block = memory.block
    if chooses_steps(method, block):
        return _of_chosen_steps(TracedEvaluator(memory), method, h, dt)
    if inner := _inner_blocks(memory):
        assert isinstance(block, Composite)
        return _of_inner_blocks(memory, block, inner, dt)
    evaluator = _numpy(memory)
    graph = _traced("advance", memory, lambda m: advance(evaluator, m, m[0], dt, method, h))
    return f"enum {{ RB_SIZE = {memory.size} }};\n{c_function(graph, notation=IN_LANES)}"


def _of_chosen_steps(evaluator: TracedEvaluator, method: Method, h: float, dt: float) -> str:
    """A block that chooses its steps in each lane: its own C besides, for what is done alone."""
    files = (*(f"kernel/{name}" for name in KERNEL), "lanes/flow.h", "lanes/advance.h")
    *alone, flow, step = (c_text(name) for name in files)
    functions = functions_text(evaluator, method, dt)
    texts = model_header(evaluator, method, h), *alone, functions, flow, step
    return without_includes("\n".join(texts))


def _of_inner_blocks(
    memory: Memory, block: Composite, inner: tuple[InnerBlock, ...], dt: float
) -> str:
    """A block whose sample is the steps of others, each with its own `advance`."""
    sample_time = block.sample_time
    assert sample_time is not None
    texts = [
        of_its_own(_advance(one.memory, one.method, one.h, sample_time), k)
        for k, one in enumerate(inner)
    ]
    z, y = memory.z, memory.y
    places = f"RB_T = 0, RB_Z = {z.start}, RB_NZ = {z.stop - z.start}, RB_Y = {y.start}"
    output = _in_lanes(TracedEvaluator(memory).graph("output"))
    return "\n".join(
        [
            "#include <string.h>\n",
            *texts,
            f"enum {{ {places}, RB_NY = {y.stop - y.start}, RB_SIZE = {memory.size} }};",
            "#define RB_ADAPTIVE 0",
            f"static const double RB_SAMPLE_TIME = {c_number(sample_time)};",
            constants_text(inner),
            sample_text(inner, sample_time, block.simultaneous, "lane_update", ABREAST),
            c_function(output, inline=True, notation=IN_LANES),
            _step_text(block, dt),
            without_includes(c_text("lanes/advance.h")),
        ]
    )


def _begin(memory: Memory) -> Graph:
    """The memory at the start of a run."""
    evaluator = _numpy(memory)
    return _traced("begin", memory, lambda m: initialize(evaluator, m, m[0]))


def _traced(name: str, memory: Memory, function: Callable[[Array], Array]) -> Graph:
    return trace(name, lambda m: {"m": function(m)}, {"memory": (memory.size,)})


def _numpy(memory: Memory) -> NumpyEvaluator:
    return NumpyEvaluator(memory, TracedEvaluator(memory).slopes)


def _in_lanes(graph: Graph) -> Graph:
    return replace(graph, name=f"lane_{graph.name}")


def _step_text(block: Block, dt: float) -> str:
    spans = sample_spans(block.sample_time, dt)
    return f"static const double RB_STEP = {c_number(dt)};\nenum {{ RB_SPANS = {spans} }};\n"


def _block(evaluator: TracedEvaluator) -> Block:
    return evaluator.memory.block


def _inner_blocks(memory: Memory) -> tuple[InnerBlock, ...]:
    block = memory.block
    return tuple(block.inner_blocks(memory)) if isinstance(block, Composite) else ()
