"""Every signal block has a linearization, which is what differences of its own functions give."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks import linearize
from rigidblocks.block.evaluate import NumpyEvaluator
from rigidblocks.block.memory import Memory
from rigidblocks.library import Fault, Noise
from signal_blocks import SIGNALS

E = 1e-6  # of a central difference, whose error is its square beside rounding / E


def after(memory, m):
    """The rates of the states, or what they are after a sample, and the outputs then."""
    evaluator, m = NumpyEvaluator(memory), m.copy()
    rates = evaluator.derivative(m)
    m[memory.z] = evaluator.update(m)
    m[memory.y] = evaluator.output(m)
    outputs = [m[memory.where[y.name]] for y in memory.block.outputs]
    return np.concatenate([rates, m[memory.z], *outputs])


@pytest.mark.slow
@pytest.mark.parametrize("name", SIGNALS)
def test_a_linearization_is_what_differences_give(name, rng):
    block, _ = SIGNALS[name]
    memory = Memory(block)
    ports = {port.name: port for port in (*block.inputs, *block.states, *block.sampled)}
    # away from where laws of pieces change
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
    if not isinstance(block, Noise | Fault):  # whose state counts samples: it has no small changes
        assert_allclose(found, expected, rtol=1e-7, atol=1e-7)
