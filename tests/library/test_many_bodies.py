"""A thousand bodies, with the room for contacts that a plant has unless told, on the stack that a
process gets unless told.
"""

import resource
import subprocess
import sys

import pytest

SCRIPT = """
import numpy as np
from rigidblocks import Model, RigidContactPlant, SixDoF, sphere_inertia
from rigidblocks.algebra.spatial import identity
from rigidblocks.block.memory import Memory
from rigidblocks.kernels.stepper import compiled_stepper
from rigidblocks.model.shapes import Sphere
n, k = 1000, np.arange(1000)
model = Model("heap", (-1,) * n, (SixDoF(),) * n, (identity(),) * n,
              (sphere_inertia(0.1, mass=1.0),) * n, contact=((Sphere(0.1),),) * n)
x = 0.2 * np.stack([k % 10, k // 10 % 10, k // 100], axis=1) + [0, 0, 0.1]
q0 = np.hstack([np.tile([1.0, 0, 0, 0], (n, 1)), x]).ravel()
memory = Memory(RigidContactPlant(model, q0=q0))
m, step = memory.start(), compiled_stepper(memory)
step.initialize(m, 0.0)
step.run(m, 0.0, 1e-3, np.empty((20, memory.size)))
assert m[memory.where["contacts"]][0] >= 1000 and m[memory.where["left_out"]][0] == 0
"""


def _limit_stack() -> None:
    resource.setrlimit(resource.RLIMIT_STACK, (8 << 20, 8 << 20))


@pytest.mark.slow
def test_a_thousand_balls_fit_on_the_stack():
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, preexec_fn=_limit_stack)
