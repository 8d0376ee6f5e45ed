"""Scenes of 400 and 1,000 bodies run with the default `max_contacts` and a stack of 8 MiB."""

import resource
import subprocess
import sys

import pytest

SCRIPT = """
import numpy as np
from rigidblocks import Model, RigidContactPlant, SixDoF, box_inertia, sphere_inertia
from rigidblocks.spatial.spatial import identity
from rigidblocks.block.memory_layout import Memory
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.robot.shapes import Box, Sphere
ball = {ball}
n = 1000 if ball else 400
k = np.arange(n)
shape = Sphere(0.1) if ball else Box((0.2, 0.2, 0.2))
inertia = sphere_inertia(0.1, mass=1.0) if ball else box_inertia((0.2, 0.2, 0.2), mass=1.0)
model = Model("heap", (-1,) * n, (SixDoF(),) * n, (identity(),) * n,
              (inertia,) * n, contact=((shape,),) * n)
side = 0.2 if ball else 0.25
x = np.stack([side * (k % 10), side * (k // 10 % 10), 0.2 * (k // 100) + 0.1], axis=1)
q0 = np.hstack([np.tile([1.0, 0, 0, 0], (n, 1)), x]).ravel()
memory = Memory(RigidContactPlant(model, q0=q0))
m, step = memory.start(), compiled_stepper(memory)
step.initialize(m, 0.0)
step.run(m, 0.0, 1e-3, np.empty((20, memory.size)))
assert m[memory.where["contacts"]][0] >= 1000
assert m[memory.where["left_out"]][0] == 0
"""


def _limit_stack() -> None:
    resource.setrlimit(resource.RLIMIT_STACK, (8 << 20, 8 << 20))


@pytest.mark.slow
@pytest.mark.parametrize("ball", [True, False])
def test_scene_of_1000_balls_or_400_boxes_runs_with_a_program_stack_of_8_mib(ball):
    script = SCRIPT.format(ball=ball)
    subprocess.run([sys.executable, "-c", script], check=True, preexec_fn=_limit_stack)
