"""Functions of a block between two events, with fixed branches of its piecewise functions.

In the current state the branch functions equal the block functions. Beyond a switching point they
continue the fixed branch. Traced functions order their operations differently, so they differ by
rounding, relative to the largest value.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from element_models import ELEMENTS, PLANTS
from held_laws import sides_at
from library_blocks import BLOCKS
from rigidblocks import Block, ContinuousSystem, Port, System
from rigidblocks.block.external_functions import StagedBlock, WrittenBlock
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.nested_blocks import Composite
from rigidblocks.kernels.event_indicators import Events, Tangents
from rigidblocks.kernels.traced_evaluator import TracedEvaluator
from rigidblocks.library import DeadZone, LookupTable, Saturation
from rigidblocks.spatial.scalar import clip_with_events, excess, piecewise
from signal_blocks import SIGNALS

SAME = 1e-12
CONTINUOUS = {
    name: block
    for name, (block, _) in BLOCKS.items()
    if not isinstance(block, Composite | WrittenBlock | StagedBlock)  # these have laws in C
} | {f"{name} with elements": make(ELEMENTS) for name, make in PLANTS.items()}
WITH_EVENTS = {"ground", "contact of bodies", "actuator", "bouncing ball"}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_fixed_branch_functions_match_the_block_functions_at_the_current_state(name, rng):
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
    """A `piecewise` law that pushes back every state above 0."""

    states = (Port("x", (2,), start=0.0),)
    outputs = (Port("push", (2,)),)

    def derivative(self, x):
        return {"x": self.output(x)["push"]}

    def output(self, x):
        return {"push": piecewise(-x.x, -3.0 * x.x, 0.0)}


def test_branch_of_a_piecewise_function_is_evaluated_beyond_its_switching_point():
    events = Events(TracedEvaluator(Memory(Wall())))
    assert events.count == 2  # derivatives and outputs share their indicators
    m = np.array([0.0, 0.5, -0.5, 0.0, 0.0])
    rates, _, indicators = events.graphs
    assert_allclose(rates(np.array([*m, 1.0, -1.0])), (-1.5, 0.0))
    assert_allclose(rates(np.array([*m, -1.0, 1.0])), (0.0, 1.5))
    assert_allclose(indicators(np.array([*m, 1.0, 1.0])), (-0.5, 0.5))


def test_switching_function_that_is_already_an_event_indicator_is_not_added_twice():
    class Watched(Wall):
        def switching_functions(self, x):
            return np.array([-x.x[0], x.x[0] + x.x[1]])

    events = Events(TracedEvaluator(Memory(Watched())))
    assert events.count == 3
    both = np.array([0.0, 0.5, 0.25, 0.0, 0.0, 1.0, 1.0, 1.0])
    assert_allclose(events.graphs[2](both), (-0.5, -0.25, 0.75))


def test_system_has_the_event_indicators_of_all_its_parts():
    system = System()
    system.add("wall", Wall())
    system.add("limit", Saturation(-1.0, 1.0, shape=(2,)))
    system.add("zone", DeadZone(-0.1, 0.1, shape=(2,)))
    system.connect("wall.push", "limit.u")
    system.connect("limit.y", "zone.u")
    events = Events(TracedEvaluator(Memory(ContinuousSystem(system))))
    assert events.count == 10  # one per element of the wall, two per element of the other parts


def test_saturations_and_a_lookup_table_in_series_compute_the_composed_function():
    system = System()
    system.add("before", Saturation(-1.0, 1.0), start={"u": 0.0})
    system.add("table", LookupTable((-1.0, 0.0, 2.0), (0.0, 1.0, -0.5)))
    system.add("after", Saturation(-0.2, 0.8))
    system.connect("before.y", "table.u")
    system.connect("table.y", "after.u")
    evaluator = TracedEvaluator(Memory(ContinuousSystem(system)))
    assert Events(evaluator).count == 7  # two per limit, one per breakpoint of the table
    m = evaluator.memory.start()
    for u, y in ((-3.0, 0.0), (-0.5, 0.5), (0.1, 0.8), (0.9, 0.325), (5.0, 0.25)):
        m[evaluator.memory.u] = u
        m[evaluator.memory.y] = evaluator.output(m)
        assert_allclose(m[evaluator.memory.where["after.y"]], y, atol=SAME)


@pytest.mark.parametrize("name", SIGNALS)
def test_directional_derivatives_of_fixed_branch_functions_match_finite_differences(name, rng):
    block = SIGNALS[name][0]
    evaluator = TracedEvaluator(Memory(block))
    events, memory = Events(evaluator), evaluator.memory
    graph = Tangents(events).first
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


def test_switching_function_with_a_constant_value_has_no_event_indicator():
    class Constant(Wall):
        def output(self, x):
            return {"push": clip_with_events(x.x, -np.inf, 2.0)}

    assert Events(TracedEvaluator(Memory(Constant()))).count == 2


@pytest.mark.parametrize(("a", "b"), [(2.0, 1.0), (1.0, 1.0), (-1e300, 1e300), (0.0, np.inf)])
def test_event_indicator_of_a_limit_is_bounded_and_has_the_sign_of_signal_minus_limit(a, b):
    found = excess(a, b)
    assert abs(found) <= 1.0
    assert np.isinf(b) or np.sign(found) == np.sign(a - b)


def test_infinite_limit_of_a_saturation_has_no_event_indicator():
    for lower, upper in ((-1.0, None), (None, 1.0)):
        evaluator = TracedEvaluator(Memory(Saturation(lower, upper)))
        assert Events(evaluator).count == 1
        assert evaluator.graph("output").operation_count == 1


def test_piecewise_and_clip_functions_return_numbers_if_their_arguments_are_not_traced():
    assert piecewise(0.0, 1.0, 2.0) == 2.0
    assert_allclose(piecewise(np.array([1.0, -1.0]), 3.0, np.array([4.0, 5.0])), (3.0, 5.0))
    assert_allclose(clip_with_events(np.array([-3.0, 0.5, 9.0]), -1.0, 1.0), (-1.0, 0.5, 1.0))
