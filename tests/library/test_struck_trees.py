"""A robot and a ball without gravity exchange equal and opposite impulses."""

from itertools import combinations

import numpy as np
import pytest

from rigidblocks import World, sphere_inertia
from rigidblocks.block.memory_layout import Memory
from rigidblocks.dynamics import momentum
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.robot.configuration import integrate
from rigidblocks.robot.robots import quadruped
from rigidblocks.robot.shapes import Sphere
from rigidblocks.spatial.rigid_motion import quaternion_rotation

STANCE = np.tile([0.0, 0.7, -1.4], 4)
RATES = 0.5 * np.sin(np.arange(12))
MASS, RADIUS = 10.0, 0.2
H = 1e-3


def flight(h, place, speed, e):
    """Return a quadruped with moving joints, and a ball that starts at `place`."""
    model = quadruped()
    world = World("flight", gravity=(0.0, 0.0, 0.0))
    q0 = np.concatenate([[1.0, 0, 0, 0, 0, 0, 0], STANCE])
    world.add_robot("dog", model, q0=q0, qd0=np.concatenate([np.zeros(6), RATES]))
    for one, other in combinations(model.body_names, 2):  # only the ball touches the robot
        world.exclude_collision(f"dog.{one}", f"dog.{other}")
    inertia = sphere_inertia(RADIUS, mass=MASS)
    world.add_body("ball", inertia, [Sphere(RADIUS)], at=place, qd0=[0.0, 0, 0, *speed])
    return model, world.plant(mu=0.5, e=e, sample_time=h)


def momentum_lost(h, place, speed, e, T=0.5):
    """Return the largest change of the total linear momentum, and the number of contact steps.

    The change is relative to the momentum of the ball. The momentum is evaluated at midpoints of
    steps, to which the velocities belong.
    """
    model, plant = flight(h, place, speed, e)
    memory = Memory(plant)
    m, step, at = memory.start(), compiled_stepper(memory), memory.where
    step.initialize(m, 0.0)
    whole, touching = [], 0
    for k in range(round(T / h)):
        step.step(m, k * h, h)
        q, qd = m[at["dog_q"]], m[at["dog_qd"]]
        ball = quaternion_rotation(m[at["ball_q"]][:4]).T @ m[at["ball_qd"]][3:]
        whole.append(momentum(model, integrate(model, q, -h / 2 * qd), qd)[3:] + MASS * ball)
        touching += m[at["ball_in_contact"]].any()
    lost = np.abs(np.array(whole) - whole[0]).max() / np.linalg.norm(MASS * np.array(speed))
    return lost, touching


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "e"), [(2, 0.0), (6, 0.5)])  # contact of 30 steps; impacts
def test_impact_of_a_ball_on_a_robot_conserves_momentum_to_second_order(seed, e):
    """A quarter of the step size gives a sixteenth of the error."""
    way = np.random.default_rng(seed).normal(size=3)
    way /= np.linalg.norm(way)
    place = np.array([0.02, 0.0, -0.05]) + way
    coarse, touching = momentum_lost(H, place, -4 * way, e)
    fine, _ = momentum_lost(H / 4, place, -4 * way, e)
    assert touching > 0
    assert coarse < 1e-4
    assert fine < coarse / 10
