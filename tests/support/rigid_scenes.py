"""Runs of plants in rigid contact, step by step."""

import numpy as np

from rigidblocks.block.block import Record
from rigidblocks.block.memory import Memory
from rigidblocks.kernels.stepper import compiled_stepper


def run(plant, T, force=None, stepper=compiled_stepper):
    """The outputs at the ends of all steps, by name; `force` gives tau of q, qd and t."""
    memory = Memory(plant)
    m = memory.start()
    step = stepper(memory)
    step.initialize(m, 0.0)
    h, rows = plant.sample_time, np.empty((round(T / plant.sample_time), memory.size))
    for k in range(len(rows)):
        if force is not None:
            at = memory.where
            m[at["tau"]] = force(Record({"q": m[at["q"]], "qd": m[at["qd"]], "t": k * h}))
        step.step(m, k * h, h)
        rows[k] = m
    return Record({port.name: rows[:, memory.where[port.name]] for port in plant.outputs})
