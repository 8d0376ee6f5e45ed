"""Runs of plants in rigid contact, step by step."""

import numpy as np

from rigidblocks import Model, RigidContactPlant, SixDoF, box_inertia, sphere_inertia
from rigidblocks.block.block import Record
from rigidblocks.block.memory_layout import Memory
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.spatial.spatial import identity


def run(plant, T, force=None, stepper=compiled_stepper):
    """Return the outputs after all steps, by name; `force` gives tau from q, qd and t."""
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


def free_bodies(shapes, places, qd=None, masses=None, yaw=None, **options):
    """Return a plant of balls and boxes at places [m], in steps of 1 ms.

    The masses are 1 kg by default; `yaw` [rad] is a rotation about z.
    """
    n = len(shapes)
    inertias = [
        box_inertia(shape.sides, mass=m) if hasattr(shape, "sides")
        else sphere_inertia(shape.radius, mass=m)
        for m, shape in zip(masses or [1.0] * n, shapes, strict=True)
    ]  # fmt: skip
    model = Model("free", (-1,) * n, (SixDoF(),) * n, (identity(),) * n, tuple(inertias),
                  contact=tuple((shape,) for shape in shapes))  # fmt: skip
    half, zero = 0.5 * np.zeros(n) if yaw is None else 0.5 * np.asarray(yaw), np.zeros(n)
    turns = np.column_stack([np.cos(half), zero, zero, np.sin(half)])
    q0 = np.hstack([turns, np.array(places, dtype=float)]).ravel()
    return RigidContactPlant(
        model, q0=q0, qd0=None if qd is None else np.ravel(qd), sample_time=1e-3, **options
    )
