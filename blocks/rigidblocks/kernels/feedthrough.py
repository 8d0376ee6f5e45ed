"""What depends on what in a block, read off the trace."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Port
from rigidblocks.block.composite import Composite
from rigidblocks.block.evaluate import Evaluator, NumpyEvaluator
from rigidblocks.block.written import BlockInC, WrittenBlock
from rigidblocks.kernels.fingerprint import fingerprint
from rigidblocks.tracing.cache import keep_text, known_text
from rigidblocks.tracing.trace import Graph, trace

ElementPair = tuple[tuple[str, int], tuple[str, int]]  # of an input, and of an output that reads it


def after_sample(evaluator: Evaluator) -> Graph:
    """The graph from the memory to the memory after a sample instant, its outputs computed."""
    return _after(evaluator, "update")


def after_start(evaluator: Evaluator) -> Graph:
    """The graph from the start values to the memory after the start of a run, its outputs
    computed.
    """
    return _after(evaluator, "initial")


def rates(evaluator: Evaluator) -> Graph:
    """The graph from the memory to the rates of the continuous states."""
    evaluator = _traceable(evaluator)
    return trace(
        "rates", lambda m: {"rates": evaluator.derivative(m)}, {"memory": (evaluator.memory.size,)}
    )


def feedthrough(evaluator: Evaluator) -> frozenset[tuple[str, str]]:
    """The pairs (input, output) of port names where the output reads the input at the same instant.

    An output held between samples counts, for at a sample instant it reads its inputs.
    """
    return frozenset((u, y) for u, y in _kept("feedthrough", evaluator, _of_ports))


def element_feedthrough(evaluator: Evaluator) -> frozenset[ElementPair]:
    """The same of the elements of the ports, each by the port's name and its place in C order."""
    pairs = _kept("element feedthrough", evaluator, _of_elements)
    return frozenset(((u, i), (y, j)) for (u, i), (y, j) in pairs)


def _kept(what: str, evaluator: Evaluator, read_off: Callable[[Evaluator], set[Any]]) -> list[Any]:
    """What was read off a trace, from the cache where it is known."""
    key = fingerprint(what, evaluator.memory)
    text = known_text(key) if key else None
    if text is None:
        text = json.dumps(sorted(read_off(evaluator)))
        if key:
            keep_text(key, text)
    pairs: list[Any] = json.loads(text)
    return pairs


def _of_ports(evaluator: Evaluator) -> set[tuple[str, str]]:
    memory, block = evaluator.memory, evaluator.memory.block
    if isinstance(block, WrittenBlock) and not block.reads_at_once:
        return set()
    depends = after_sample(evaluator).depends

    def reads(output: Port, source: Port) -> bool:
        return bool(depends[memory.where[output.name], memory.where[source.name]].any())

    return {(u.name, y.name) for y in block.outputs for u in block.inputs if reads(y, u)}


def _of_elements(evaluator: Evaluator) -> set[ElementPair]:
    memory, depends = evaluator.memory, after_sample(evaluator).depends
    pairs = set[ElementPair]()
    for y in memory.block.outputs:
        for u in memory.block.inputs:
            reads = depends[memory.where[y.name], memory.where[u.name]]
            pairs |= {((u.name, int(i)), (y.name, int(j))) for j, i in np.argwhere(reads)}
    return pairs


def _after(evaluator: Evaluator, sample: str) -> Graph:
    evaluator = _traceable(evaluator)

    def after(m: Array) -> dict[str, Array]:
        sampled = m.copy()
        sampled[evaluator.memory.z] = getattr(evaluator, sample)(m)
        sampled[evaluator.memory.y] = evaluator.output(sampled)
        return {"memory": sampled}

    return trace("after", after, {"memory": (evaluator.memory.size,)})


def _traceable(evaluator: Evaluator) -> Evaluator:
    """The same, or of a block that is not traced one with its structure."""
    block = evaluator.memory.block
    if isinstance(block, Composite | BlockInC):
        return NumpyEvaluator(replace(evaluator.memory, block=block.structure()))
    return evaluator
