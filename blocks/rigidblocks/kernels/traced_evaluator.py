"""Graphs of the functions of a block, and the dependencies of its outputs on its inputs.

An evaluator traces each function once and compares the graph with the original function.
"""

import json
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.block.block import Block, Port, computed_outputs
from rigidblocks.block.evaluators import Evaluator, NumpyEvaluator
from rigidblocks.block.external_functions import STAGED, BlockInC, StagedBlock, WrittenBlock
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.nested_blocks import Composite
from rigidblocks.common.compiler import keep_text, known_text
from rigidblocks.common.slow_operation_log import log_if_slow
from rigidblocks.kernels.block_digest import fingerprint
from rigidblocks.kernels.plant_loops import PlantLoops, plant_loops, structure
from rigidblocks.spatial.spatial import Array
from rigidblocks.tracing.trace import Evaluation, Graph, TraceError, jacobian, trace

# Tolerance between a traced function and NumPy, relative to the largest element of the port. The
# values differ by rounding, which is amplified if a block starts near a singular configuration.
AGREEMENT = 1e-6


class ImpureBlockError(ValueError):
    """Error for a block function that returns different values for equal arguments."""


def check_purity(
    function: Callable[[Array], Array],
    graph: Callable[[Array], Array],
    m: Array,
    ports: Iterable[Port],
    name: str,
) -> None:
    """Check that a function of a block is pure.

    The check calls the function twice with the memory vector m, and compares the results with the
    result of the graph. If the NumPy function fails at m, the check does nothing.

    Args:
        function: Function of the block in NumPy.
        graph: Graph of the function.
        m: Memory vector of the block.
        ports: Ports of the values that the function returns.
        name: Name of the function for the error message.

    Raises:
        ImpureBlockError: The second call or the graph returns different values.
    """
    try:
        with np.errstate(all="ignore"):
            first, second = function(m), function(m)
    except (ArithmeticError, ValueError):  # inputs without a start value are zero, even quaternions
        return
    traced, k = graph(m), 0
    for port in ports:
        part = slice(k, k := k + port.size)
        _compare(port, first[part], second[part], 0.0, f"{name}, called twice,")
        _compare(port, traced[part], second[part], AGREEMENT, f"{name}, traced and in NumPy,")


def _compare(port: Port, a: Array, b: Array, tolerance: float, source: str) -> None:
    """Raise ImpureBlockError if the values a and b of a port differ by more than the tolerance.

    `source` describes the two evaluations in the error message, such as "output, called twice,".
    """
    a, b = a.astype(float), b.astype(float)
    with np.errstate(invalid="ignore"):
        differences = np.where(np.isfinite(a) & np.isfinite(b), a - b, 0.0)
    allowed = tolerance * float(np.max(np.abs(b[np.isfinite(b)]), initial=1.0))
    for name, value, other, difference in zip(port.element_names, a, b, differences, strict=True):
        if abs(difference) > allowed:
            raise ImpureBlockError(
                f"{source} gives {name} = {value:.17g} and {other:.17g} for the same memory: a "
                "block's functions must be pure, so move random numbers, counters and clocks out "
                "of the block, or make them a state or an input"
            )


SWITCHING = "switching_functions"
C_NAMES = {SWITCHING: "margins"}  # C names of functions, if they differ from the Python names


@dataclass(frozen=True, eq=False)
class TracedEvaluator(Evaluator):
    """Evaluator that runs the graphs of block functions, with numbers or with traced values.

    The graphs are faster than the NumPy functions. Their results are equal up to rounding errors.
    """

    memory: Memory

    @cached_property
    def _functions(self) -> NumpyEvaluator:
        return NumpyEvaluator(self.memory)

    @cached_property
    def _graphs(self) -> dict[str, Graph]:
        """Cache of the graphs by function name; `graph` adds a graph at the first use."""
        return {}

    def graph(self, name: str) -> Graph:
        """Return the graph of a block function, from the memory vector to the flat result `out`.

        Args:
            name: derivative, project, switching_functions, initial, update or output.

        Raises:
            TraceError: The function branches on a traced value.
            ImpureBlockError: The function returns different values for the same memory.

        Both messages contain the names of the block and the function, and the cause.
        """
        if name not in self._graphs:
            self._graphs[name] = self._trace_function(name)
        return self._graphs[name]

    @cached_property
    def stage_numbers(self) -> Graph:
        """Graph from the memory vector to the inputs of the C function of a `StagedBlock`."""
        block, memory = self.memory.block, self.memory
        assert isinstance(block, StagedBlock)

        def numbers(m: Array) -> dict[str, Array]:
            return {"out": block.stage_inputs(*memory.records(m)[1:])}

        return trace("stage_numbers", numbers, {"memory": (memory.size,)})

    def graph_after_stage(self, name: str, title: str | None = None) -> Graph:
        """Return the graph of a function of a `StagedBlock`, without its C stage.

        The inputs are the memory vector and the values that the C stage computes. `title` is the
        name of the graph, by default the name of the function followed by _after.
        """
        block, size = self.memory.block, self.memory.size
        assert isinstance(block, StagedBlock)

        def function(m: Array, w: Array) -> dict[str, Array]:
            after = NumpyEvaluator(replace(self.memory, block=block.insert_stage_results(w)))
            return {"out": getattr(after, name)(m)}

        inputs = {"memory": (size,), "written": (block.stage_size,)}
        return trace(title or f"{C_NAMES.get(name, name)}_after", function, inputs)

    def _trace_function(self, name: str) -> Graph:
        """Trace a function, and check that its graph returns the same values as the function."""
        function, title = getattr(self._functions, name), f"{self.memory.name}.{name}"
        try:
            with log_if_slow(f"tracing {title}"):
                graph = trace(
                    C_NAMES.get(name, name),
                    lambda m: {"out": function(m)},
                    {"memory": (self.memory.size,)},
                )
        except TraceError as error:
            raise TraceError(f"{title}: {error}") from error
        ports = (
            (Port("margin", (self.switching_count,)),)
            if name == SWITCHING
            else results(self.memory.block, name)
        )
        check_purity(function, graph, self.memory.start(), ports, title)
        return graph

    @cached_property
    def loops(self) -> PlantLoops | None:
        """C loops over the bodies of a plant with many bodies; None for other blocks."""
        return plant_loops(self.memory)

    def graph_after_loops(self, name: str) -> Graph:
        """Return the graph of the last stage of a plant function with loops over the bodies.

        Raises:
            ImpureBlockError: The stages and the original function return different values.
        """
        assert self.loops is not None
        title = f"{self.memory.name}.{name}"
        with log_if_slow(f"tracing {title}"):
            graph = self.loops.last_stage(name)
        ports = results(self.memory.block, name)
        function = getattr(self._functions, name)
        check_purity(function, self.loops.function(graph), self.memory.start(), ports, title)
        return graph

    @cached_property
    def rate_slopes(self) -> Graph:
        """Graph from the memory vector to the partial derivatives of the state derivatives f.

        The outputs are df/dx (n, n) for the n continuous states x, and df/dt (n,).
        """
        x, size = self.memory.x, self.memory.size
        rates = trace(
            "rates",
            lambda t, x, rest: {
                "rates": self.derivative(np.concatenate([[t], x, rest])) if len(x) else x
            },
            {"t": (), "x": (x.stop - x.start,), "rest": (size - x.stop,)},
        )
        slopes = jacobian(rates, "rates", ("x", "t"))
        return Graph("rate_slopes", {"memory": (size,)}, slopes.outputs, slopes.function)

    @property
    def has_projection(self) -> bool:
        return self._functions.has_projection

    def derivative(self, m: Array) -> Array:
        return self._run("derivative", m)

    def _run(self, name: str, m: Array) -> Array:
        if name in STAGED and isinstance(self.memory.block, StagedBlock):
            values: Array = getattr(self._functions, name)(m)
            return values
        return self.graph(name)(m)

    def jacobian(self, m: Array) -> tuple[Array, Array]:
        values, n = self.rate_slopes(m), self.memory.x.stop - self.memory.x.start
        return values[: n * n].reshape(n, n), values[n * n :]

    def project(self, m: Array) -> Array:
        return self._run("project", m)

    @property
    def switching_count(self) -> int:
        return self._functions.switching_count

    def switching_functions(self, m: Array) -> Array:
        return self._run("switching_functions", m)

    def initial(self, m: Array) -> Array:
        if isinstance(self.memory.block, WrittenBlock):
            return self._functions.initial(m)
        block = self.memory.block
        if isinstance(block, Composite) and block.starting_order(self.memory):
            return NumpyEvaluator(replace(self.memory, block=block.traced_copy())).initial(m)
        return self._run("initial", m)

    def update(self, m: Array) -> Array:
        if isinstance(self.memory.block, WrittenBlock):
            return self._functions.update(m)
        if self._graph_evaluator is not None:
            return self._graph_evaluator.update(m)
        return self._run("update", m)

    @cached_property
    def _graph_evaluator(self) -> NumpyEvaluator | None:
        """Evaluator of a block with adaptive inner blocks; None for other blocks.

        It runs the graphs of the inner blocks, because the sample update of the whole block cannot
        be traced.
        """
        block = self.memory.block
        if not (isinstance(block, Composite) and block.inner_blocks(self.memory)):
            return None
        return NumpyEvaluator(replace(self.memory, block=block.traced_copy()))

    def output(self, m: Array) -> Array:
        return self._run("output", m)


@dataclass(frozen=True, eq=False)
class QuickEvaluator(TracedEvaluator):
    """Evaluator that reuses the memory of each graph for repeated numeric evaluation.

    Each thread has its own memory, so several threads may share the evaluator.
    """

    @cached_property
    def _thread_graphs(self) -> threading.local:
        """Compiled graphs of the current thread, by name."""
        return threading.local()

    def _run(self, name: str, m: Array) -> Array:
        if m.dtype == object or isinstance(self.memory.block, StagedBlock):
            return super()._run(name, m)
        known = vars(self._thread_graphs)
        if name not in known:
            known[name] = Evaluation(self.graph(name))
        values: Array = known[name](m)
        return values


def results(block: Block, function: str) -> tuple[Port, ...]:
    """Return the ports of the values that a block function returns, in order."""
    return {
        "derivative": block.states,
        "project": block.states,
        "initial": block.sampled,
        "update": block.sampled,
        "output": computed_outputs(block),
    }[function]


def numpy_evaluator(memory: Memory) -> NumpyEvaluator:
    """Return the evaluator of the NumPy functions of a block, with the exact Jacobian.

    The Jacobian is traced at its first use.
    """
    return NumpyEvaluator(memory, TracedEvaluator(memory).jacobian)


Element = tuple[str, int]  # name of a port, and the index of an element in C order
ElementPair = tuple[Element, Element]  # element of an input, and of an output that depends on it


class DependencyGroup(NamedTuple):
    """Group of output elements that depend on the same input elements."""

    inputs: frozenset[Element]
    outputs: frozenset[Element]


def sample_graph(evaluator: Evaluator) -> Graph:
    """Return the graph of the sample update of a memory vector."""
    return _update_graph(evaluator, "update")


def start_graph(evaluator: Evaluator) -> Graph:
    """Return the graph that initializes a memory vector of start values."""
    return _update_graph(evaluator, "initial")


def rates(evaluator: Evaluator) -> Graph:
    """Return the graph from the memory vector to the state derivatives (output `rates`)."""
    evaluator = _traceable(evaluator)
    return trace(
        "rates", lambda m: {"rates": evaluator.derivative(m)}, {"memory": (evaluator.memory.size,)}
    )


def feedthrough(evaluator: Evaluator) -> frozenset[tuple[str, str]]:
    """Return the pairs (input, output) of port names with direct feedthrough.

    The output of a pair depends on the input at the current time. The pairs include outputs that
    are held between samples, because these outputs depend on the inputs at a sample instant.
    """
    return frozenset((u, y) for u, y in _cached_feedthrough("feedthrough", evaluator, _port_pairs))


def element_feedthrough(evaluator: Evaluator) -> frozenset[ElementPair]:
    """Return the pairs (input, output) of port elements with direct feedthrough.

    An element consists of the port name and the index in C order.
    """
    pairs = _cached_feedthrough("element feedthrough", evaluator, _sample_pairs)
    return frozenset(((u, i), (y, j)) for (u, i), (y, j) in pairs)


def start_feedthrough(evaluator: Evaluator) -> frozenset[ElementPair]:
    """Return the pairs (input, output) of port elements with feedthrough at initialization.

    At the initialization of the block, the output element depends on the input element.
    """
    if (
        type(evaluator.memory.block).initial is Block.initial
    ):  # the default `initial` calls `update`
        return element_feedthrough(evaluator)
    pairs = _cached_feedthrough(
        "start feedthrough", evaluator, lambda one: _element_pairs(one, start_graph(one))
    )
    return frozenset(((u, i), (y, j)) for (u, i), (y, j) in pairs)


_feedthroughs: dict[str, str] = {}  # dependencies of the blocks of this process by fingerprint


def _cached_feedthrough(
    kind: str, evaluator: Evaluator, compute: Callable[[Evaluator], set[Any]]
) -> list[Any]:
    """Return the dependencies of a block from the cache, or compute and store them.

    `kind` is the type of the dependencies for the cache key, such as "start feedthrough". The
    function `compute` computes the dependencies.
    """
    key = fingerprint(kind, evaluator.memory)
    text = (_feedthroughs.get(key) or known_text(key)) if key else None
    if text is None:
        text = json.dumps(sorted(compute(evaluator)))
        if key:
            keep_text(key, text)
    if key:
        _feedthroughs[key] = text
    pairs: list[Any] = json.loads(text)
    return pairs


def _port_pairs(evaluator: Evaluator) -> set[tuple[str, str]]:
    memory, block = evaluator.memory, evaluator.memory.block
    if _holds_outputs(block):
        return set()
    depends = sample_graph(evaluator).depends

    def reads(output: Port, source: Port) -> bool:
        return bool(depends[memory.where[output.name], memory.where[source.name]].any())

    return {(u.name, y.name) for y in block.outputs for u in block.inputs if reads(y, u)}


def _holds_outputs(block: Block) -> bool:
    """Return True for a block in C whose outputs depend only on its states."""
    return isinstance(block, WrittenBlock) and not block.reads_at_once


def _sample_pairs(evaluator: Evaluator) -> set[ElementPair]:
    if _holds_outputs(evaluator.memory.block):
        return set()
    return _element_pairs(evaluator, sample_graph(evaluator))


def _element_pairs(evaluator: Evaluator, graph: Graph) -> set[ElementPair]:
    memory, depends = evaluator.memory, graph.depends
    pairs = set[ElementPair]()
    for y in memory.block.outputs:
        for u in memory.block.inputs:
            reads = depends[memory.where[y.name], memory.where[u.name]]
            pairs |= {((u.name, int(i)), (y.name, int(j))) for j, i in np.argwhere(reads)}
    return pairs


def _update_graph(evaluator: Evaluator, sample: str) -> Graph:
    evaluator = _traceable(evaluator)

    def memory_after(m: Array) -> dict[str, Array]:
        sampled = m.copy()
        sampled[evaluator.memory.z] = getattr(evaluator, sample)(m)
        sampled[evaluator.memory.y] = evaluator.output(sampled)
        return {"memory": sampled}

    return trace("after", memory_after, {"memory": (evaluator.memory.size,)})


def _traceable(evaluator: Evaluator) -> Evaluator:
    """Return a traceable evaluator for the analysis of dependencies.

    For a composite block, a block in C, or a plant with C loops over the bodies, it evaluates the
    traceable variant of the block (`structure`).
    """
    block = evaluator.memory.block
    analysed = block.structure() if isinstance(block, Composite | BlockInC) else structure(block)
    if analysed is not None:
        return NumpyEvaluator(replace(evaluator.memory, block=analysed))
    return evaluator
