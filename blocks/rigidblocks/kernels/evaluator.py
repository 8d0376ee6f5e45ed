"""The functions of a block as graphs, traced once for all that is made of them."""

import threading
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Block, computed_outputs
from rigidblocks.block.composite import Composite
from rigidblocks.block.evaluate import Evaluator, NumpyEvaluator
from rigidblocks.block.memory import Memory
from rigidblocks.block.port import Port
from rigidblocks.block.staged import STAGED, StagedBlock
from rigidblocks.block.written import WrittenBlock
from rigidblocks.kernels.purity import check_purity
from rigidblocks.tracing.differentiate import jacobian
from rigidblocks.tracing.evaluation import Evaluation
from rigidblocks.tracing.trace import Graph, TraceError, trace
from rigidblocks.tracing.waits import told


@dataclass(frozen=True, eq=False)
class TracedEvaluator(Evaluator):
    """Runs the graphs of the block's functions, on numbers and in other traces.

    Both are much faster than the functions themselves, and give the same numbers but for rounding.
    """

    memory: Memory

    @cached_property
    def _functions(self) -> NumpyEvaluator:
        return NumpyEvaluator(self.memory)

    @cached_property
    def _graphs(self) -> dict[str, Graph]:
        """The graph of each function, made when it is first asked for."""
        return {}

    def graph(self, name: str) -> Graph:
        """The graph from the memory to `out`, the values of a function: derivative, project,
        margins, initial, update or output.

        Raises TraceError where it branches on a traced value, and ImpureBlockError where it does
        not give the same values for the same memory; both name block, function and what it is.
        """
        if name not in self._graphs:
            self._graphs[name] = self._traced(name)
        return self._graphs[name]

    @cached_property
    def stage_numbers(self) -> Graph:
        """The graph from the memory to what the stage of a `StagedBlock` gets."""
        block, memory = self.memory.block, self.memory
        assert isinstance(block, StagedBlock)

        def numbers(m: Array) -> dict[str, Array]:
            return {"out": block.before(*memory.records(m)[1:])}

        return trace("stage_numbers", numbers, {"memory": (memory.size,)})

    def after_stage(self, name: str, title: str | None = None) -> Graph:
        """The graph of a function of a `StagedBlock` from the memory, and behind it what the stage
        writes; called `title`, or as the function with _after.
        """
        block, size = self.memory.block, self.memory.size
        assert isinstance(block, StagedBlock)

        def function(m: Array, w: Array) -> dict[str, Array]:
            after = NumpyEvaluator(replace(self.memory, block=block.with_stage(w)))
            return {"out": getattr(after, name)(m)}

        inputs = {"memory": (size,), "written": (block.stage_size,)}
        return trace(title or f"{name}_after", function, inputs)

    def _traced(self, name: str) -> Graph:
        """The graph, which must give what the function gives."""
        function, title = getattr(self._functions, name), f"{self.memory.name}.{name}"
        try:
            with told(f"tracing {title}"):
                graph = trace(name, lambda m: {"out": function(m)}, {"memory": (self.memory.size,)})
        except TraceError as error:
            raise TraceError(f"{title}: {error}") from error
        ports = (
            (Port("margin", (self.margin_count,)),)
            if name == "margins"
            else results(self.memory.block, name)
        )
        check_purity(function, graph, self.memory.start(), ports, title)
        return graph

    @cached_property
    def rate_slopes(self) -> Graph:
        """The graph from the memory to the derivatives of the rates, by the n continuous states
        (n, n) and by the time (n,).
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
    def projects(self) -> bool:
        return self._functions.projects

    def derivative(self, m: Array) -> Array:
        return self._run("derivative", m)

    def _run(self, name: str, m: Array) -> Array:
        if name in STAGED and isinstance(self.memory.block, StagedBlock):
            values: Array = getattr(self._functions, name)(m)
            return values
        return self.graph(name)(m)

    def slopes(self, m: Array) -> tuple[Array, Array]:
        values, n = self.rate_slopes(m), self.memory.x.stop - self.memory.x.start
        return values[: n * n].reshape(n, n), values[n * n :]

    def project(self, m: Array) -> Array:
        return self._run("project", m)

    @property
    def margin_count(self) -> int:
        return self._functions.margin_count

    def margins(self, m: Array) -> Array:
        return self._run("margins", m)

    def initial(self, m: Array) -> Array:
        if isinstance(self.memory.block, WrittenBlock):
            return self._functions.initial(m)
        block = self.memory.block
        if isinstance(block, Composite) and block.starting_order(self.memory):
            return NumpyEvaluator(replace(self.memory, block=block.by_graphs())).initial(m)
        return self._run("initial", m)

    def update(self, m: Array) -> Array:
        if isinstance(self.memory.block, WrittenBlock):
            return self._functions.update(m)
        if self._of_graphs is not None:
            return self._of_graphs.update(m)
        return self._run("update", m)

    @cached_property
    def _of_graphs(self) -> NumpyEvaluator | None:
        """The functions of a block whose sample cannot be traced, for its inner blocks choose their
        steps; they run the graphs of these.
        """
        block = self.memory.block
        if not (isinstance(block, Composite) and block.inner_blocks(self.memory)):
            return None
        return NumpyEvaluator(replace(self.memory, block=block.by_graphs()))

    def output(self, m: Array) -> Array:
        return self._run("output", m)


@dataclass(frozen=True, eq=False)
class QuickEvaluator(TracedEvaluator):
    """Runs the graphs on numbers again and again, in any number of threads."""

    @cached_property
    def _of_thread(self) -> threading.local:
        """By name, what evaluates each graph in the thread that asks."""
        return threading.local()

    def _run(self, name: str, m: Array) -> Array:
        if m.dtype == object or isinstance(self.memory.block, StagedBlock):
            return super()._run(name, m)
        known = vars(self._of_thread)
        if name not in known:
            known[name] = Evaluation(self.graph(name))
        values: Array = known[name](m)
        return values


def results(block: Block, function: str) -> tuple[Port, ...]:
    """The ports whose values a function of the block gives."""
    return {
        "derivative": block.states,
        "project": block.states,
        "initial": block.sampled,
        "update": block.sampled,
        "output": computed_outputs(block),
    }[function]


def numpy_evaluator(memory: Memory) -> NumpyEvaluator:
    """The block's own functions with their exact Jacobian, which is traced when it is first asked
    for.
    """
    return NumpyEvaluator(memory, TracedEvaluator(memory).slopes)
