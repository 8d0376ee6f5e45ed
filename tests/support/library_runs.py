"""Shared functions of the library tests: outputs at times, and runs of a single block."""

import numpy as np

from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.integrators import RK4
from rigidblocks.block.memory_layout import Memory
from rigidblocks.kernels.compiled_stepper import compiled_stepper


def outputs(block, t=0.0, **values):
    """Return all outputs of the block at t, by name.

    `values` are values of inputs, states and parameters.
    """
    flat = Memory(block)
    m = flat.start()
    m[0] = t
    for name, value in values.items():
        m[flat.where[name]] = np.ravel(value)
    m[flat.y] = NumpyEvaluator(flat).output(m)
    return {port.name: m[flat.where[port.name]].reshape(port.shape) for port in block.outputs}


def signal(block, times, name="y"):
    """Return an output of the block at each of the times, (k, ...)."""
    flat = Memory(block)
    rest = flat.start()[1:]
    rows = np.array([NumpyEvaluator(flat).output(np.r_[t, rest]) for t in times])
    place = flat.where[name]
    return rows[:, place.start - flat.y.start : place.stop - flat.y.start]


def run(block, dt, n, h=1e-3, **values):
    """Return the outputs (n + 1, ...) by name, at the start and after each of n steps.

    `values` are inputs and start values.
    """
    flat = Memory(block)
    m, stepper = flat.start(), compiled_stepper(flat, RK4, h)
    for name, value in values.items():
        m[flat.where[name]] = np.ravel(value)
    stepper.initialize(m, 0.0)
    rows = np.empty((n, flat.size))
    first = m.copy()
    assert stepper.run(m, 0.0, dt, rows) == n
    every = np.vstack([first, rows])
    return {
        port.name: every[:, flat.where[port.name]].reshape(n + 1, *port.shape)
        for port in block.outputs
    }
