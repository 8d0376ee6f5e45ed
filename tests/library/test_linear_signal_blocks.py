"""The linearization of every signal block equals finite differences of its functions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks import linearize
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.memory_layout import Memory
from rigidblocks.library import Fault, Noise
from signal_blocks import SIGNALS

E = 1e-6  # step of a central difference: its error is E^2 plus rounding / E


def after(memory, m):
    """Return the state derivatives, the next sampled states and the outputs."""
    evaluator, m = NumpyEvaluator(memory), m.copy()
    rates = evaluator.derivative(m)
    m[memory.z] = evaluator.update(m)
    m[memory.y] = evaluator.output(m)
    outputs = [m[memory.where[y.name]] for y in memory.block.outputs]
    return np.concatenate([rates, m[memory.z], *outputs])


@pytest.mark.slow
@pytest.mark.parametrize("name", SIGNALS)
def test_linearization_of_a_signal_block_matches_finite_differences(name, rng):
    block, _ = SIGNALS[name]
    memory = Memory(block)
    ports = {port.name: port for port in (*block.inputs, *block.states, *block.sampled)}
    # inputs and states without kinks of piecewise functions nearby
    at = {p.name: rng.uniform(0.2, 0.4, p.shape) for p in ports.values()}
    m = memory.start()
    for key, value in at.items():
        m[memory.where[key]] = np.ravel(value)
    columns = np.r_[memory.x, memory.z, memory.u]
    differences = [
        (after(memory, m + E * one) - after(memory, m - E * one)) / (2 * E)
        for one in np.eye(memory.size)[columns]
    ]
    n = len(columns) - (memory.u.stop - memory.u.start)
    expected = np.array(differences).T.reshape(len(after(memory, m)), len(columns))
    linear = linearize(block, at=at)
    found = np.block([[linear.A, linear.B], [linear.C, linear.D]])
    assert len(linear.state_names) == n
    assert linear.dt == block.sample_time
    assert np.isfinite(found).all()
    if not isinstance(block, Noise | Fault):  # their state is a sample counter without derivative
        assert_allclose(found, expected, rtol=1e-7, atol=1e-7)
