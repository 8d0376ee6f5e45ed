"""The laws of a block between two events: on the sides on which it is they are the block's own, and
beyond them they go on as they are.

The traced laws are the same operations in another order: a rounding apart, relative to the largest.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from element_models import ELEMENTS, PLANTS
from held_laws import sides_at
from library_blocks import BLOCKS
from rigidblocks import Block, ContinuousSystem, Port, System, piecewise
from rigidblocks.algebra.scalar import excess, within
from rigidblocks.block.composite import Composite
from rigidblocks.block.memory import Memory
from rigidblocks.block.staged import StagedBlock
from rigidblocks.block.written import WrittenBlock
from rigidblocks.kernels.evaluator import TracedEvaluator
from rigidblocks.kernels.events import Events
from rigidblocks.kernels.tangent import tangent
from rigidblocks.library import DeadZone, LookupTable, Saturation
from signal_blocks import SIGNALS

SAME = 1e-12
CONTINUOUS = {
    name: block
    for name, (block, _) in BLOCKS.items()
    if not isinstance(block, Composite | WrittenBlock | StagedBlock)  # of which laws are in C
} | {f"{name} with elements": make(ELEMENTS) for name, make in PLANTS.items()}
WITH_EVENTS = {"ground", "contact of bodies", "actuator", "bouncing ball"}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_on_the_sides_on_which_it_is_the_held_law_is_the_block_s_own(name, rng):
    evaluator = TracedEvaluator(Memory(CONTINUOUS[name]))
    events, memory = Events(evaluator), evaluator.memory
    assert events.count or name not in WITH_EVENTS
    if not events.count:
        return
    for _ in range(20):
        m = memory.start()
        for part in (memory.x, memory.u):
            m[part] += rng.normal(0.0, 0.3, part.stop - part.start)
        both = np.append(m, sides_at(events, m))
        for graph, whole in zip(
            events.graphs, (evaluator.derivative(m), evaluator.output(m)), strict=False
        ):
            size = np.abs(whole).max(initial=1.0)
            assert_allclose(graph(both), whole, rtol=0, atol=SAME * size)


class Wall(Block):
    """Whatever is beyond 0 is pushed back, by a law that says where it begins."""

    states = (Port("x", (2,), start=0.0),)
    outputs = (Port("push", (2,)),)

    def derivative(self, x):
        return {"x": self.output(x)["push"]}

    def output(self, x):
        return {"push": piecewise(-x.x, -3.0 * x.x, 0.0)}


def test_a_side_that_is_held_goes_on_beyond_its_end():
    events = Events(TracedEvaluator(Memory(Wall())))
    assert events.count == 2  # the same in the rates and in the outputs
    m = np.array([0.0, 0.5, -0.5, 0.0, 0.0])
    rates, _, indicators = events.graphs
    assert_allclose(rates(np.array([*m, 1.0, -1.0])), (-1.5, 0.0))
    assert_allclose(rates(np.array([*m, -1.0, 1.0])), (0.0, 1.5))
    assert_allclose(indicators(np.array([*m, 1.0, 1.0])), (-0.5, 0.5))


def test_margins_of_a_block_are_indicators_where_no_law_has_the_same():
    class Watched(Wall):
        def margins(self, x):
            return np.array([-x.x[0], x.x[0] + x.x[1]])

    events = Events(TracedEvaluator(Memory(Watched())))
    assert events.count == 3
    both = np.array([0.0, 0.5, 0.25, 0.0, 0.0, 1.0, 1.0, 1.0])
    assert_allclose(events.graphs[2](both), (-0.5, -0.25, 0.75))


def test_laws_of_the_parts_of_a_system_are_its_own():
    system = System()
    system.add("wall", Wall())
    system.add("limit", Saturation(-1.0, 1.0, shape=(2,)))
    system.add("zone", DeadZone(-0.1, 0.1, shape=(2,)))
    system.connect("wall.push", "limit.u")
    system.connect("limit.y", "zone.u")
    events = Events(TracedEvaluator(Memory(ContinuousSystem(system))))
    assert events.count == 10  # one of each element of the wall, two of each of the others


def test_a_law_reads_a_table_and_a_table_a_law():
    system = System()
    system.add("before", Saturation(-1.0, 1.0), start={"u": 0.0})
    system.add("table", LookupTable((-1.0, 0.0, 2.0), (0.0, 1.0, -0.5)))
    system.add("after", Saturation(-0.2, 0.8))
    system.connect("before.y", "table.u")
    system.connect("table.y", "after.u")
    evaluator = TracedEvaluator(Memory(ContinuousSystem(system)))
    assert Events(evaluator).count == 7  # two of each limit, one of each corner of the table
    m = evaluator.memory.start()
    for u, y in ((-3.0, 0.0), (-0.5, 0.5), (0.1, 0.8), (0.9, 0.325), (5.0, 0.25)):
        m[evaluator.memory.u] = u
        m[evaluator.memory.y] = evaluator.output(m)
        assert_allclose(m[evaluator.memory.where["after.y"]], y, atol=SAME)


@pytest.mark.parametrize("name", SIGNALS)
def test_directional_derivatives_are_quotients_of_small_changes(name, rng):
    block = SIGNALS[name][0]
    evaluator = TracedEvaluator(Memory(block))
    events, memory = Events(evaluator), evaluator.memory
    graph = tangent(events)
    nx, ny = (part.stop - part.start for part in (memory.x, memory.y))
    assert graph.function.numel_out() == nx + ny
    m, v = memory.start(), np.zeros(memory.size)
    for part in (memory.x, memory.u):
        n = part.stop - part.start
        m[part] += rng.normal(0.0, 0.3, n)
        v[part] = rng.normal(0.0, 1.0, n)
    sides = sides_at(events, m)
    rates, outputs, _ = (
        lambda m, graph=graph: graph(np.append(m, sides)) for graph in events.graphs
    )
    h = 1e-6
    change = [np.ravel(f(m + h * v) - f(m - h * v)) / (2 * h) for f in (rates, outputs)]
    found = np.ravel(graph(np.concatenate([m, v, sides])))
    assert_allclose(found, np.concatenate(change), atol=1e-6)


def test_a_constant_is_on_one_side_for_ever():
    class Constant(Wall):
        def output(self, x):
            return {"push": within(x.x, -np.inf, 2.0)}

    assert Events(TracedEvaluator(Memory(Constant()))).count == 2


@pytest.mark.parametrize(("a", "b"), [(2.0, 1.0), (1.0, 1.0), (-1e300, 1e300), (0.0, np.inf)])
def test_an_excess_has_the_sign_of_a_difference_and_is_of_the_order_of_one(a, b):
    found = excess(a, b)
    assert abs(found) <= 1.0
    assert np.isinf(b) or np.sign(found) == np.sign(a - b)


def test_a_limit_that_is_not_there_is_in_no_law():
    for lower, upper in ((-1.0, None), (None, 1.0)):
        evaluator = TracedEvaluator(Memory(Saturation(lower, upper)))
        assert Events(evaluator).count == 1
        assert evaluator.graph("output").operation_count == 1


def test_numbers_are_chosen_at_once():
    assert piecewise(0.0, 1.0, 2.0) == 2.0
    assert_allclose(piecewise(np.array([1.0, -1.0]), 3.0, np.array([4.0, 5.0])), (3.0, 5.0))
    assert_allclose(within(np.array([-3.0, 0.5, 9.0]), -1.0, 1.0), (-1.0, 0.5, 1.0))
