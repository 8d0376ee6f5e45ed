"""What runs with adaptive steps say, and by what they are chosen."""

import re
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks import Block, Port, System, simulate
from rigidblocks.block.integrators import RK4
from rigidblocks.simulation.simulate import SimulationError


@dataclass(frozen=True)
class Decay(Block):
    """dx/dt = -rate (x - cos t)."""

    rate: float = 1e4
    states = outputs = (Port("x", (), "1", "x", 1.0),)

    def derivative(self, t, x):
        return {"x": -self.rate * (x.x - np.cos(t))}


def system(**options):
    made = System()
    made.add("decay", Decay(), **options)
    return made


@pytest.mark.parametrize("form", ["compiled", "numpy", "fused"])
def test_log_tells_what_is_stiff_and_what_to_take(caplog, form):
    with caplog.at_level("WARNING", "rigidblocks"):
        simulate(system(), 0.1, 0.05, form=form, method="adaptive", rtol=1e-4)
    said = [record.message for record in caplog.records]
    assert len(said) == 1
    told = re.match(r"'decay' is stiff: its fastest eigenvalue is about (\S+) 1/s", said[0])
    assert_allclose(float(told[1]), 1e4, rtol=1e-2)
    caplog.clear()
    with caplog.at_level("WARNING", "rigidblocks"):
        run = simulate(system(), 0.1, 0.05, form=form, method="adaptive or stiff")
    assert not caplog.records
    assert_allclose(run["decay.x"][-1], np.cos(0.1) + 1e-4 * np.sin(0.1), rtol=1e-7)


def test_log_tells_of_inner_steps_that_were_used_up(caplog):
    with caplog.at_level("WARNING", "rigidblocks"):
        simulate(system(method="stiff", rtol=1e-9, max_inner_steps=2), 1.0, 0.5)
    assert "'decay' used up its inner steps in 2 communication steps" in caplog.text


def test_a_method_of_a_part_comes_before_that_of_the_run():
    run = simulate(system(method="stiff"), 0.1, 0.05, method=RK4)
    assert_allclose(run["decay.x"][-1], np.cos(0.1) + 1e-4 * np.sin(0.1), rtol=1e-7)


def test_what_is_not_finite_has_a_suspected_cause():
    cause = r"is not finite .*: x \(it is stiff: its fastest eigenvalue is about 1e\+04 1/s .* 10,"
    with pytest.raises(SimulationError, match=cause):
        simulate(system(method="rk4"), 10.0, 0.05)


def test_stiffness_that_was_dealt_with_is_told_once_and_quietly(caplog):
    with caplog.at_level("INFO", "rigidblocks"):
        simulate(system(), 0.1, 0.05, method="adaptive or stiff", rtol=1e-4)
    said = [record.message for record in caplog.records if "is stiff" in record.message]
    assert len(said) == 1
    assert "from explicit steps to implicit ones 1 times" in said[0]
