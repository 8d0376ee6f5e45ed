"""Steppers of blocks, and generation of C code for steps in SIMD lanes.

A stepper runs a compiled kernel, traced graphs or the NumPy functions of a block.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from rigidblocks.block.adaptive_methods import Method, chooses_steps, longest_step
from rigidblocks.block.block import Block
from rigidblocks.block.evaluators import Evaluator
from rigidblocks.block.external_functions import BlockInC, PythonBlock
from rigidblocks.block.integrators import RK4
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.nested_blocks import Composite, InnerBlock
from rigidblocks.block.stepper import (
    CompiledStepper,
    NumpyStepper,
    advance,
    initialize,
    sample_spans,
)
from rigidblocks.common.compiler import (
    PORTABLE_FLAGS,
    keep_text,
    kernel_compiler,
    key_of,
    known_library,
    known_text,
    shared_library,
    version,
)
from rigidblocks.kernels.block_digest import fingerprint
from rigidblocks.kernels.model_header import (
    FUNCTIONS,
    KERNEL,
    LANES,
    MOST_ON_STACK,
    PROJECTION,
    constants_text,
    model_header,
    prefix_symbols,
    remove_includes,
    sample_text,
)
from rigidblocks.kernels.traced_evaluator import (
    SWITCHING,
    QuickEvaluator,
    TracedEvaluator,
    numpy_evaluator,
)
from rigidblocks.spatial.spatial import Array
from rigidblocks.tracing.c_notation import IN_LANES
from rigidblocks.tracing.ccode import c_function, c_functions, c_number, c_text
from rigidblocks.tracing.compiled_functions import header_text
from rigidblocks.tracing.trace import Graph, trace


def compiled_stepper(
    memory: Memory, method: Method = RK4, h: float | None = None, *, follows: bool = False
) -> CompiledStepper:
    """Return a stepper that runs the compiled kernel of a block.

    The function compiles the kernel with the C compiler of this machine, unless the cache contains
    the kernel. If `follows` is True, the stepper also supports inputs that are polynomials in time.
    `h` is the largest inner step [s].
    """
    h = longest_step(method, h)
    path = kernel_library(memory, method, h)
    polynomial_library = kernel_library(memory, method, h, follows=True) if follows else None
    return CompiledStepper(memory, method, h, path=path, follow_path=polynomial_library)


def numpy_stepper(memory: Memory, method: Method = RK4, h: float | None = None) -> NumpyStepper:
    """Return a stepper that runs the NumPy functions of a block, for any integration method.

    At first use, the stepper traces the Jacobian that a linearly implicit method requires.
    """
    return NumpyStepper(memory, method, longest_step(method, h), TracedEvaluator(memory).jacobian)


@dataclass(frozen=True, eq=False)
class TracedStepper(NumpyStepper):
    """Stepper that evaluates the traced graphs of the block functions without a C compiler.

    Evaluating the graphs is about 20 times faster than calling the NumPy functions of the block.
    """

    @cached_property
    def evaluator(self) -> Evaluator:
        return QuickEvaluator(self.memory)


def traced_stepper(
    memory: Memory, method: Method = RK4, h: float | None = None
) -> TracedStepper | NumpyStepper:
    """Return a stepper that evaluates the graphs of a block.

    For a block that cannot be traced, the result is a stepper with the NumPy functions.
    """
    if isinstance(memory.block, PythonBlock | BlockInC):
        return numpy_stepper(memory, method, h)
    return TracedStepper(memory, method, longest_step(method, h))


def kernel_library(memory: Memory, method: Method, h: float, *, follows: bool = False) -> Path:
    """Return the path of the compiled kernel of a block, a shared library.

    The function traces the block and compiles the kernel unless the cache contains the kernel. The
    cache key is the fingerprint of the block, the integration method, `h`, the compiler and the
    compiler flags. `h` is the largest inner step [s]. If `follows` is True, the kernel contains
    only the step for inputs that are polynomials in time.
    """
    command = kernel_compiler()
    kind = "input_polynomials" if follows else "kernel"
    flags = (*PORTABLE_FLAGS, *["-DRB_INPUT_POLYNOMIALS"] * follows)
    key = fingerprint(kind, memory, method, h, command, version(command), flags)
    if key and (known := known_text(key)) and (path := known_library(known)):
        return path
    header = model_header(TracedEvaluator(memory), method, h, with_start_values=False)
    sources = {"model.h": header}
    for name in (*KERNEL, "kernel.c"):
        sources[name] = c_text(f"kernel/{name}")
    path = shared_library(sources, "kernel.c", flags, command)
    if key:
        keep_text(key, key_of(path))
    return path


MOST_LANES = 8


def steps_header(memory: Memory, method: Method, h: float, dt: float) -> str:
    """Return the C code of steps.h, for a step of a block by dt [s] in SIMD lanes.

    c/lanes/lane_library.c includes this code.

    Raises:
        ValueError: The block or an inner block cannot be traced.
    """
    text = _advance(memory, method, h, dt)
    start = c_function(_initial_graph(memory), notation=IN_LANES)
    return header_text("steps", f"{text}\n{start}static const double RB_DT = {c_number(dt)};\n")


def functions_text(evaluator: TracedEvaluator, method: Method, dt: float) -> str:
    """Return the C code of the block functions that a step in SIMD lanes calls."""
    names = [name for name in FUNCTIONS if name != "initial"]
    names += [PROJECTION] * evaluator.has_projection
    names += [SWITCHING] * bool(
        evaluator.switching_count and chooses_steps(method, _block(evaluator))
    )
    graphs = [_lane_graph(evaluator.graph(name)) for name in names]
    text = c_functions(
        graphs, [{}] * len(graphs), inline=True, notation=IN_LANES, with_tables=False
    )
    return f"{_workspace_text(evaluator.memory)}{text}\n{_step_text(_block(evaluator), dt)}"


def check_traced(memory: Memory) -> None:
    """Raise ValueError for a block that cannot be traced or contains an untraceable block."""
    block = memory.block
    if isinstance(block, PythonBlock | BlockInC):
        raise ValueError(
            f"{type(block).__name__} cannot be traced; a batch supports only blocks that can be "
            "traced"
        )
    for inner in _inner_blocks(memory):
        check_traced(inner.memory)


def _advance(memory: Memory, method: Method, h: float, dt: float) -> str:
    """Return the C function `advance`, a step of a block by dt [s] in SIMD lanes."""
    block = memory.block
    if chooses_steps(method, block):
        return _adaptive_lane_text(TracedEvaluator(memory), method, h, dt)
    if inner := _inner_blocks(memory):
        assert isinstance(block, Composite)
        return _inner_block_lane_text(memory, block, inner, dt)
    evaluator = numpy_evaluator(memory)
    graph = _trace_memory_function(
        "advance", memory, lambda m: advance(evaluator, m, m[0], dt, method, h)
    )
    size = f"enum {{ RB_SIZE = {memory.size} }};\n"
    return f"{_workspace_text(memory)}{size}{c_function(graph, notation=IN_LANES)}"


def _adaptive_lane_text(evaluator: TracedEvaluator, method: Method, h: float, dt: float) -> str:
    """Return the C code of adaptive steps of a block, in SIMD lanes and in a single lane."""
    files = (*(f"kernel/{name}" for name in KERNEL), "lanes/lane_step.h")
    *headers, step = (c_text(name) for name in files)
    functions = functions_text(evaluator, method, dt)
    header = model_header(evaluator, method, h, in_lanes=True)
    texts = header, *headers, functions, step
    return remove_includes("\n".join(texts))


def _workspace_text(memory: Memory) -> str:
    """Return the C definition of the step workspace.

    The workspace is on the stack if it has at most `MOST_ON_STACK` bytes (c/kernel/workspace.h).
    """
    numbers = 3 * memory.size + 20 * (memory.x.stop - memory.x.start)
    numbers += 2 * sum(one.memory.size for one in _inner_blocks(memory))
    large = int(numbers * MOST_LANES * 8 > MOST_ON_STACK)
    return f"#define RB_LARGE_LANES {large}\n{c_text('kernel/workspace.h')}"


def _inner_block_lane_text(
    memory: Memory, block: Composite, inner: tuple[InnerBlock, ...], dt: float
) -> str:
    """Return the C code of steps of a composite block in SIMD lanes."""
    sample_time = block.sample_time
    assert sample_time is not None
    texts = [
        prefix_symbols(_advance(one.memory, one.method, one.h, sample_time), k)
        for k, one in enumerate(inner)
    ]
    z, y = memory.z, memory.y
    places = f"RB_T = 0, RB_Z = {z.start}, RB_NZ = {z.stop - z.start}, RB_Y = {y.start}"
    output = _lane_graph(TracedEvaluator(memory).graph("output"))
    return "\n".join(
        [
            "#include <string.h>\n",
            *texts,
            _workspace_text(memory),
            f"enum {{ {places}, RB_NY = {y.stop - y.start}, RB_SIZE = {memory.size} }};",
            "#define RB_ADAPTIVE 0",
            f"static const double RB_SAMPLE_TIME = {c_number(sample_time)};",
            constants_text(inner),
            sample_text(inner, sample_time, block.simultaneous, "lane_update", LANES),
            c_function(output, inline=True, notation=IN_LANES),
            _step_text(block, dt),
            remove_includes(c_text("lanes/lane_step.h")),
        ]
    )


def _initial_graph(memory: Memory) -> Graph:
    """Return the graph that initializes the memory vector of a block."""
    evaluator = numpy_evaluator(memory)
    return _trace_memory_function("begin", memory, lambda m: initialize(evaluator, m, m[0]))


def _trace_memory_function(name: str, memory: Memory, function: Callable[[Array], Array]) -> Graph:
    return trace(name, lambda m: {"m": function(m)}, {"memory": (memory.size,)})


def _lane_graph(graph: Graph) -> Graph:
    return replace(graph, name=f"lane_{graph.name}")


def _step_text(block: Block, dt: float) -> str:
    spans = sample_spans(block.sample_time, dt)
    return f"static const double RB_STEP = {c_number(dt)};\nenum {{ RB_SPANS = {spans} }};\n"


def _block(evaluator: TracedEvaluator) -> Block:
    return evaluator.memory.block


def _inner_blocks(memory: Memory) -> tuple[InnerBlock, ...]:
    block = memory.block
    return tuple(block.inner_blocks(memory)) if isinstance(block, Composite) else ()
