"""The traced evaluator generates the same C and values as the block functions.

It traces each function once, and calls it twice with values to check that it is pure.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fmu_blocks import BLOCKS
from rigidblocks.block.block import Block, Port
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.integrators import RK4
from rigidblocks.block.memory_layout import Memory
from rigidblocks.kernels.event_indicators import Events, Tangents
from rigidblocks.kernels.model_header import model_header
from rigidblocks.kernels.traced_evaluator import TracedEvaluator, rates, sample_graph, start_graph
from rigidblocks.tracing.ccode import c_function

SAME = 1e-12  # rounding of reordered common subexpressions


@dataclass(frozen=True, eq=False)
class Counted(Block):
    """An integrator that records the calls of its functions."""

    calls: ClassVar[list[str]] = []  # not a field, because blocks store lists as tuples
    inputs = (Port("u", (), "m/s", "rate", 0.0),)
    outputs = (Port("y", (2,), "m", "twice, and a constant"),)
    states = (Port("x", (), "m", "integral", 1.0),)

    def derivative(self, u):
        self.calls.append(f"derivative {type(u.u).__name__}")
        return {"x": u.u}

    def output(self, x):
        self.calls.append(f"output {type(x.x).__name__}")
        return {"y": np.array([2.0 * x.x, 3.0], dtype=object)}


@pytest.mark.parametrize("name", BLOCKS)
def test_traced_and_numpy_evaluators_generate_the_same_c_code(name):
    memory = Memory(BLOCKS[name])
    traced_copy, by_functions = TracedEvaluator(memory), NumpyEvaluator(memory)
    for graph in (sample_graph, start_graph, rates):
        assert c_function(graph(traced_copy)) == c_function(graph(by_functions))


@pytest.mark.parametrize("name", BLOCKS)
def test_traced_and_numpy_evaluators_return_equal_values(name, rng):
    memory = Memory(BLOCKS[name])
    traced_copy, by_functions = TracedEvaluator(memory), NumpyEvaluator(memory)
    m = memory.start() + rng.uniform(0.0, 0.1, memory.size)
    assert traced_copy.has_projection == by_functions.has_projection
    for function in ("derivative", "initial", "update", "output", "project"):
        assert_allclose(
            getattr(traced_copy, function)(m),
            getattr(by_functions, function)(m),
            rtol=SAME,
            atol=SAME,
        )


def test_each_function_of_a_block_is_traced_only_once():
    block = Counted()
    block.calls.clear()
    evaluator = TracedEvaluator(Memory(block))
    model_header(evaluator, RK4, 1e-3)
    sample_graph(evaluator)
    rates(evaluator)
    Tangents(Events(evaluator)).first  # noqa: B018 - traces
    assert sorted(call for call in block.calls if "Traced" in call) == [
        "derivative Traced",
        "output Traced",
    ]
    assert len(block.calls) == 6  # one trace and two calls with values per function
    assert evaluator.output(np.array([0.0, 5.0, 0.0, 0.0, 0.0])).tolist() == [10.0, 3.0]
