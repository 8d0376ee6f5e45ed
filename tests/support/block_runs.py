"""Runs of an FMU under FMPy and of its script's block in NumPy, with the same random inputs."""

from pathlib import Path

import numpy as np
from numpy.testing import assert_allclose

from hosts import start
from rigidblocks.fmi.script import slave_of
from rigidblocks.kernels.compiled_stepper import numpy_stepper

AGREE = 1e-12  # rounding differences of NumPy and the kernel; the runs are too short to amplify it
DT = 1e-3


def random_inputs(script: Path, steps: int, seed: int = 0) -> np.ndarray:
    """Return random inputs at the start and before each step, (steps + 1, nu)."""
    flat = slave_of(script).memory
    return np.random.default_rng(seed).normal(size=(steps + 1, flat.u.stop - flat.u.start))


def reference_run(script: Path, inputs: np.ndarray, t: float = 0.0) -> np.ndarray:
    """Return the memory at the start and after each step of the block in NumPy."""
    read = slave_of(script)
    stepper = numpy_stepper(read.memory, read.method, read.h)
    m = read.memory.start()
    m[read.memory.u] = inputs[0]
    stepper.initialize(m, t)
    rows = [m.copy()]
    for k, u in enumerate(inputs[1:]):
        m[read.memory.u] = u
        stepper.step(m, t + k * DT, DT)
        rows.append(m.copy())
    return np.array(rows)


def initialized_slave(slave, script: Path, inputs: np.ndarray, t: float = 0.0):
    """Return the slave, initialized with the first inputs."""
    u = slave_of(script).memory.u
    slave.setReal(list(range(u.start, u.stop)), list(inputs[0]))
    return start(slave, t)


def memory(slave, script: Path) -> np.ndarray:
    """Return all variables of the slave."""
    return np.array(slave.getReal(list(range(slave_of(script).memory.size))))


def continue_steps(
    slave, script: Path, inputs: np.ndarray, first: int = 0, t: float = 0.0
) -> np.ndarray:
    """Step from t + first DT with each of the `inputs`; return the memory after each step."""
    u = slave_of(script).memory.u
    rows = []
    for k, values in enumerate(inputs, first):
        slave.setReal(list(range(u.start, u.stop)), list(values))
        slave.doStep(t + k * DT, DT)
        rows.append(memory(slave, script))
    return np.array(rows)


def assert_same(actual, expected, what: str = "", ports=()) -> None:
    """Assert equality up to rounding errors, relative to the largest value of each variable.

    Variables in the slices `ports` are relative to the largest value of the port. `what` is part of
    the failure message.
    """
    rows = np.atleast_2d(expected)
    scale = np.maximum(1.0, np.abs(rows).max(axis=0))
    for port in ports:
        scale[port] = scale[port].max()
    assert_allclose(np.atleast_2d(actual) / scale, rows / scale, rtol=0, atol=AGREE, err_msg=what)
