"""A robot of joints and a ball in no gravity: what a blow does to one, it does to the other."""

from itertools import combinations

import numpy as np
import pytest

from rigidblocks import World, sphere_inertia
from rigidblocks.algebra.rotation import quaternion_rotation
from rigidblocks.block.memory import Memory
from rigidblocks.dynamics import momentum
from rigidblocks.kernels.stepper import compiled_stepper
from rigidblocks.model.configuration import integrate
from rigidblocks.model.shapes import Sphere
from rigidblocks.robots import quadruped

STANCE = np.tile([0.0, 0.7, -1.4], 4)
RATES = 0.5 * np.sin(np.arange(12))
MASS, RADIUS = 10.0, 0.2
H = 1e-3


def flight(h, place, speed, e):
    """A quadruped whose joints move, and a ball that comes from a place."""
    model = quadruped()
    world = World("flight", gravity=(0.0, 0.0, 0.0))
    q0 = np.concatenate([[1.0, 0, 0, 0, 0, 0, 0], STANCE])
    world.add_robot("dog", model, q0=q0, qd0=np.concatenate([np.zeros(6), RATES]))
    for one, other in combinations(model.body_names, 2):  # nothing but the ball touches it
        world.set_apart(f"dog.{one}", f"dog.{other}")
    inertia = sphere_inertia(RADIUS, mass=MASS)
    world.add_body("ball", inertia, [Sphere(RADIUS)], at=place, qd0=[0.0, 0, 0, *speed])
    return model, world.plant(mu=0.5, e=e, sample_time=h)


def momentum_lost(h, place, speed, e, T=0.5):
    """The largest change of the linear momentum of both, by that of the ball. It belongs to the
    middle of steps, where the velocities are. Also in how many steps they touch.
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
@pytest.mark.parametrize(("seed", "e"), [(2, 0.0), (6, 0.5)])  # it pushes for 30 steps; strikes
def test_a_blow_keeps_momentum_to_second_order(seed, e):
    """A quarter of the step leaves a sixteenth of the error."""
    way = np.random.default_rng(seed).normal(size=3)
    way /= np.linalg.norm(way)
    place = np.array([0.02, 0.0, -0.05]) + way
    coarse, touching = momentum_lost(H, place, -4 * way, e)
    fine, _ = momentum_lost(H / 4, place, -4 * way, e)
    assert touching > 0
    assert coarse < 1e-4
    assert fine < coarse / 10
