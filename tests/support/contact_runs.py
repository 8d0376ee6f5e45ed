"""Runs of plants of free bodies in contact, in Python and as FMUs."""

import fmpy
import numpy as np

from rigidblocks import Model, SixDoF
from rigidblocks.block.integrators import RK4
from rigidblocks.block.memory_layout import Memory
from rigidblocks.fmi.native_fmu import native_fmu
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.spatial.spatial import identity

G, H = 9.81, 1e-3


def free(*bodies, gravity=(0.0, 0.0, -G)):
    """Return free bodies with these shapes and inertias."""
    n, (shapes, inertias) = len(bodies), zip(*bodies, strict=True)
    return Model("free", (-1,) * n, (SixDoF(),) * n, (identity(),) * n, inertias,
                 gravity=np.array(gravity), contact=tuple((one,) for one in shapes))  # fmt: skip


def without_fmu(plant, names, steps, stepper=compiled_stepper):
    """Return outputs by name, at the start and after each step of H."""
    memory = Memory(plant)
    m, step = memory.start(), stepper(memory, RK4)
    step.initialize(m, 0.0)
    rows = [m.copy()]
    for k in range(steps):
        step.step(m, k * H, H)
        rows.append(m.copy())
    return {name: np.array(rows)[:, memory.where[name]] for name in names}


def as_fmu(plant, names, steps, fmi, folder):
    """Return the last element of each output of a native FMU, at the start and after each step."""
    file = native_fmu(plant, folder / "it.fmu", name="it", method=RK4, fmi=fmi)
    shapes = {port.name: port.shape for port in plant.outputs}
    last = {
        name: name
        if fmi == 3 or not shapes[name]
        else f"{name}[{','.join(map(str, shapes[name]))}]"
        for name in names
    }
    rows = fmpy.simulate_fmu(
        str(file), fmi_type="CoSimulation", step_size=H, output_interval=H, stop_time=steps * H,
        output=list(last.values()),
    )  # fmt: skip
    return {name: rows[last[name]].reshape(len(rows), -1)[:, -1] for name in names}
