"""A block that is traced once: the same C and the same numbers as from its functions, which run once."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.testing import assert_allclose

from native_host import BLOCKS
from rigidblocks.block import Block, Port
from rigidblocks.feedthrough import after_sample, rates
from rigidblocks.flat import FlatBlock
from rigidblocks.integrate import RK4
from rigidblocks.model_header import model_header
from rigidblocks.tangent import tangent
from rigidblocks.traced_block import TracedBlock

SAME = 1e-12  # common subexpressions are computed in another order


@dataclass(frozen=True, eq=False)
class Counted(Block):
    """An integrator that counts how often its functions are called."""

    calls: list[str] = field(default_factory=list)
    inputs = (Port("u", (), "m/s", "rate", 0.0),)
    outputs = (Port("y", (2,), "m", "twice, and a constant"),)
    states = (Port("x", (), "m", "integral", 1.0),)

    def derivative(self, t, x, u, p):
        del t, x, p
        self.calls.append("derivative")
        return {"x": u.u}

    def output(self, t, x, u, p):
        del t, u, p
        self.calls.append("output")
        return {"y": np.array([2.0 * x.x, 3.0], dtype=object)}


@pytest.mark.parametrize("name", BLOCKS)
def test_the_c_is_that_of_the_functions_themselves(name):
    block = BLOCKS[name]
    assert model_header(TracedBlock(block), RK4, 1e-3) == model_header(FlatBlock(block), RK4, 1e-3)


@pytest.mark.parametrize("name", BLOCKS)
def test_the_numbers_are_those_of_the_functions_themselves(name, rng):
    flat, traced = FlatBlock(BLOCKS[name]), TracedBlock(BLOCKS[name])
    m = flat.start() + rng.uniform(0.0, 0.1, flat.size)
    for function in ("derivative", "initial", "update", "output", "project"):
        assert_allclose(getattr(traced, function)(m), getattr(flat, function)(m), rtol=SAME, atol=SAME)


def test_each_function_runs_once_for_all_that_is_made_of_it():
    block = Counted()
    traced = TracedBlock(block)
    model_header(traced, RK4, 1e-3)
    after_sample(traced)
    rates(traced)
    tangent(traced)
    assert sorted(block.calls) == ["derivative", "output"]
    assert traced.output(np.array([0.0, 5.0, 0.0, 0.0, 0.0])).tolist() == [10.0, 3.0]


def test_a_traced_block_is_not_traced_again():
    traced = TracedBlock(BLOCKS["planar2"], ())
    assert TracedBlock.of(traced) is traced
    again = TracedBlock.of(FlatBlock(BLOCKS["planar2"], ()))
    assert (again.block, again.tunable) == (BLOCKS["planar2"], ())
