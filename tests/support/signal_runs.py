"""Runs of one block with given inputs, in NumPy."""

import numpy as np

from rigidblocks.block.integrators import RK4
from rigidblocks.block.memory_layout import Memory
from rigidblocks.kernels.compiled_stepper import numpy_stepper


def outputs(block, dt, n, inputs, name="y", method=RK4):
    """Return the output at 0, dt, ... n dt; `inputs` are functions of t, held from t on."""
    memory = Memory(block)
    stepper, m = numpy_stepper(memory, method, dt), memory.start()

    def held(t):
        for key, value in inputs(t).items():
            m[memory.where[key]] = np.ravel(value)

    port = next(port for port in block.outputs if port.name == name)
    held(0.0)
    stepper.initialize(m, 0.0)
    rows = []
    for k in range(n + 1):
        rows.append(m[memory.where[name]].reshape(port.shape).copy())
        if k < n:
            # a sample at the end of a step reads the inputs of that step
            held((k + 1) * dt if block.sample_time else k * dt)
            stepper.step(m, k * dt, dt)
    return np.array(rows)


def value(block, name="y", **inputs):
    """Return the output of a block without states."""
    return outputs(block, 1.0, 0, lambda _: inputs, name)[0]
