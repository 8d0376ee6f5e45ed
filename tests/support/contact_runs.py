"""Plants of free bodies in contact: runs in memory and as FMUs, step by step."""

import fmpy
import numpy as np

from rigidblocks import Model, SixDoF
from rigidblocks.algebra.spatial import identity
from rigidblocks.block.integrators import RK4
from rigidblocks.block.memory import Memory
from rigidblocks.fmi.native import native_fmu
from rigidblocks.kernels.stepper import compiled_stepper

G, H = 9.81, 1e-3


def free(*bodies, gravity=(0.0, 0.0, -G)):
    """Free bodies of these shapes and inertias."""
    n, (shapes, inertias) = len(bodies), zip(*bodies, strict=True)
    return Model("free", (-1,) * n, (SixDoF(),) * n, (identity(),) * n, inertias,
                 gravity=np.array(gravity), contact=tuple((one,) for one in shapes))  # fmt: skip


def in_memory(plant, names, steps, stepper=compiled_stepper):
    """Outputs by name, at the start and after each step of H."""
    memory = Memory(plant)
    m, step = memory.start(), stepper(memory, RK4)
    step.initialize(m, 0.0)
    rows = [m.copy()]
    for k in range(steps):
        step.step(m, k * H, H)
        rows.append(m.copy())
    return {name: np.array(rows)[:, memory.where[name]] for name in names}


def as_fmu(plant, names, steps, fmi, folder):
    """The last number of each output of a native FMU, at the start and after each step of H."""
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
