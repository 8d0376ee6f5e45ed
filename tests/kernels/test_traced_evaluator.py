"""A block that is traced once: the same C and the same numbers as from its functions, which run
once for it, and twice on numbers to see that they are pure.
"""

from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fmu_blocks import BLOCKS
from rigidblocks.block.block import Block, Port
from rigidblocks.block.evaluate import NumpyEvaluator
from rigidblocks.block.integrators import RK4
from rigidblocks.block.memory import Memory
from rigidblocks.kernels.evaluator import TracedEvaluator
from rigidblocks.kernels.events import Events
from rigidblocks.kernels.feedthrough import after_sample, after_start, rates
from rigidblocks.kernels.kernel import model_header
from rigidblocks.kernels.tangent import tangent
from rigidblocks.tracing.ccode import c_function

SAME = 1e-12  # common subexpressions are computed in another order


@dataclass(frozen=True, eq=False)
class Counted(Block):
    """An integrator that counts how often its functions are called."""

    calls: list[str] = field(default_factory=list)
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
def test_what_is_made_of_the_graphs_is_that_of_the_functions_themselves(name):
    memory = Memory(BLOCKS[name])
    by_graphs, by_functions = TracedEvaluator(memory), NumpyEvaluator(memory)
    for graph in (after_sample, after_start, rates):
        assert c_function(graph(by_graphs)) == c_function(graph(by_functions))


@pytest.mark.parametrize("name", BLOCKS)
def test_the_numbers_are_those_of_the_functions_themselves(name, rng):
    memory = Memory(BLOCKS[name])
    by_graphs, by_functions = TracedEvaluator(memory), NumpyEvaluator(memory)
    m = memory.start() + rng.uniform(0.0, 0.1, memory.size)
    assert by_graphs.projects == by_functions.projects
    for function in ("derivative", "initial", "update", "output", "project"):
        assert_allclose(
            getattr(by_graphs, function)(m),
            getattr(by_functions, function)(m),
            rtol=SAME,
            atol=SAME,
        )


def test_each_function_is_traced_once_for_all_that_is_made_of_it():
    block = Counted()
    evaluator = TracedEvaluator(Memory(block))
    model_header(evaluator, RK4, 1e-3)
    after_sample(evaluator)
    rates(evaluator)
    tangent(Events(evaluator))
    assert sorted(call for call in block.calls if "Traced" in call) == [
        "derivative Traced",
        "output Traced",
    ]
    assert len(block.calls) == 6  # and each twice on numbers
    assert evaluator.output(np.array([0.0, 5.0, 0.0, 0.0, 0.0])).tolist() == [10.0, 3.0]
