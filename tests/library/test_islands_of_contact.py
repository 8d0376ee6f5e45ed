"""Contact islands have independent accuracy, contact detection and solvers."""

import numpy as np
import pytest

import rigid_scenes
from rigid_scenes import free_bodies
from rigidblocks import Model, Revolute, RigidContactPlant, SixDoF, box_inertia
from rigidblocks.robot.shapes import Box, Sphere
from rigidblocks.spatial.spatial import identity, mcI

BRICK, BALL = Box((0.2, 0.2, 0.1)), Sphere(0.05)
FAR = (1e3, 0.0, 500.0)


def tower(n=10):
    return [BRICK] * n, [(0.01 * (-1) ** k, 0.0, 0.05 + 0.1 * k) for k in range(n)]


@pytest.mark.slow
@pytest.mark.parametrize("speed", [1.0, 30.0, 1e3, 1e5])
def test_distant_ball_of_any_speed_does_not_move_a_tower(speed):
    shapes, places = tower()
    qd = np.zeros((11, 6))
    qd[-1, 3:] = speed, -speed, speed
    y = rigid_scenes.run(free_bodies([*shapes, BALL], [*places, FAR], qd), 1.0)
    single = rigid_scenes.run(free_bodies(shapes, places), 1.0)
    assert np.array_equal(y.q[:, :70], single.q)
    assert np.abs(single.q[-1].reshape(10, 7)[:, 4:] - places).max() < 1e-9


@pytest.mark.slow
def test_falling_heap_does_not_move_a_tower():
    shapes, places = tower()
    rng = np.random.default_rng(2)
    heap = [(3 + 0.3 * rng.random(), 0.3 * rng.random(), 0.1 + 0.11 * k) for k in range(20)]
    y = rigid_scenes.run(free_bodies([*shapes, *[BRICK] * 20], [*places, *heap], mu=0.9), 2.0)
    moved = np.abs(y.q[:, :70].reshape(-1, 10, 7)[:, :, 4:] - places).max(axis=(1, 2))
    assert y.sweeps_made.max() > 30  # Gauss-Seidel sweeps of the heap
    assert moved.max() < 1e-9


@pytest.mark.slow
def test_tower_with_a_heavy_box_stays_at_rest_in_a_scene_with_a_robot():
    """A free-body island uses its simultaneous solver even if the scene contains a tree."""
    shapes, places = tower(8)
    n = 8
    inertias = [box_inertia(BRICK.sides, mass=1e4 if k == n - 1 else 1.0) for k in range(n)]
    arm = mcI(1.0, np.zeros(3), 1e-2 * np.eye(3))
    base = identity()
    model = Model("beside", (-1,) * (n + 1), (*(SixDoF(),) * n, Revolute()), (base,) * (n + 1),
                  (*inertias, arm), contact=(*((s,) for s in shapes), ()))  # fmt: skip
    q0 = np.hstack([np.tile([1.0, 0, 0, 0], (n, 1)), np.array(places)])
    y = rigid_scenes.run(RigidContactPlant(model, q0=[*q0.ravel(), 0.3], sample_time=1e-3), 1.0)
    assert np.abs(y.q[-1, : 7 * n].reshape(n, 7)[:, 4:] - places).max() < 1e-6


@pytest.mark.slow
def test_fast_impact_propagates_through_a_row_of_balls():
    """The last ball of a row of equal balls leaves with the speed of the first ball at e = 1.

    The first ball moves at 100 m/s and passes twice the gap in one step. The order is preserved.
    """
    row = [(0.15 * k, 0.0, 0.0) for k in range(6)]
    qd = np.zeros((7, 6))
    qd[-1, 3] = 100.0
    plant = free_bodies([BALL] * 7, [*row, (-0.37, 0.0, 0.0)], qd, ground=(), mu=0.0, e=1.0)
    y = rigid_scenes.run(plant, 0.05)
    v = y.qd[-1].reshape(7, 6)[:, 3]
    assert v[5] == pytest.approx(100.0, rel=1e-6)
    assert np.abs(np.delete(v, 5)).max() < 1e-6
    x = y.q[-1].reshape(7, 7)[:, 4]
    assert np.all(np.diff(x[[6, 0, 1, 2, 3, 4, 5]]) > 0)


@pytest.mark.slow
def test_airborne_robot_does_not_move_a_standing_robot():
    """Each robot is a box with a body on a hinge. The second robot is far away in the air."""

    def run(speed):
        inertia = box_inertia(BRICK.sides, mass=1.0)
        model = Model("two", (-1, 0, -1, 2), (SixDoF(), Revolute()) * 2, (identity(),) * 4,
                      (inertia,) * 4, contact=((BRICK,), (), (BRICK,), ()))  # fmt: skip
        q0 = [1, 0, 0, 0, 0, 0, 0.05, 0.2, 1, 0, 0, 0, *FAR, 0.2]
        qd0 = np.zeros(14)
        qd0[10:12] = speed
        plant = RigidContactPlant(model, q0=q0, qd0=qd0, sample_time=1e-3)
        return rigid_scenes.run(plant, 0.5)

    slow, fast = run(0.0), run(1e4)
    assert slow.contacts[-1] == 4
    assert np.abs(fast.q[:, :8] - slow.q[:, :8]).max() < 1e-9
    assert np.abs(slow.q[-1, :8] - slow.q[0, :8]).max() < 1e-9
