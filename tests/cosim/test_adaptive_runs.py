"""Log messages of runs with adaptive steps, and the selection of their integration method."""

import re
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks import Block, Port, System, simulate
from rigidblocks.block.integrators import RK4
from rigidblocks.cosim.simulate import SimulationError


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
def test_log_of_a_run_with_stiff_parts_lists_these_parts_and_a_remedy(caplog, form):
    with caplog.at_level("WARNING", "rigidblocks"):
        simulate(system(), 0.1, 0.05, form=form, method="adaptive", rtol=1e-4)
    said = [record.message for record in caplog.records]
    assert len(said) == 1
    reported = re.match(r"'decay' is stiff \(dominant eigenvalue about (\S+) 1/s", said[0])
    assert_allclose(float(reported[1]), 1e4, rtol=1e-2)
    caplog.clear()
    with caplog.at_level("WARNING", "rigidblocks"):
        run = simulate(system(), 0.1, 0.05, form=form, method="adaptive or stiff")
    assert not caplog.records
    assert_allclose(run["decay.x"][-1], np.cos(0.1) + 1e-4 * np.sin(0.1), rtol=1e-7)


def test_log_counts_the_steps_that_reached_max_inner_steps(caplog):
    with caplog.at_level("WARNING", "rigidblocks"):
        simulate(system(method="stiff", rtol=1e-9, max_inner_steps=2), 1.0, 0.5)
    assert "'decay' reached max_inner_steps in 2 communication steps" in caplog.text


def test_integration_method_of_a_part_overrides_the_method_of_the_run():
    run = simulate(system(method="stiff"), 0.1, 0.05, method=RK4)
    assert_allclose(run["decay.x"][-1], np.cos(0.1) + 1e-4 * np.sin(0.1), rtol=1e-7)


def test_divergence_error_states_the_stiff_eigenvalue():
    cause = r"is not finite .*: x \(stiff: dominant eigenvalue about 1e\+04 1/s .* 10;"
    with pytest.raises(SimulationError, match=cause):
        simulate(system(method="rk4"), 10.0, 0.05)


@pytest.mark.slow
def test_switch_to_implicit_steps_is_logged_once_as_info(caplog):
    with caplog.at_level("INFO", "rigidblocks"):
        simulate(system(), 0.1, 0.05, method="adaptive or stiff", rtol=1e-4)
    said = [record.message for record in caplog.records if "is stiff" in record.message]
    assert len(said) == 1
    assert "switched to implicit steps 1 times" in said[0]
