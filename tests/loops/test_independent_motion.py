"""Dynamics and motion in independent coordinates of closed loops.

See Spencer 2004, chapter 2, and RBDA 8.8.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from integration import states
from loop_models import four_bar, loop_model
from rigidblocks.block.integrators import EULER, ROS2
from rigidblocks.cosim.independent_motion import move_independently
from rigidblocks.dynamics import energy
from rigidblocks.dynamics.loops import assemble, closed_loop_dynamics, closure_errors, project
from rigidblocks.dynamics.loops.independent_coordinates import (
    LinearCoordinates,
    independent_motion,
    joint_coordinates,
    partitioned_coordinates,
    reduced_dynamics,
    tangent_coordinates,
)
from thesis_mechanisms import Arc, cartesian_pendulum

SAME = 1e-9  # rounding error times the condition numbers of H and of the coordinates, about 1e3
CLOSED = 1e-12  # tolerance of Newton's iteration


def close(actual, expected, tolerance=SAME):
    assert_allclose(
        actual, expected, rtol=0, atol=tolerance * max(1.0, np.max(np.abs(expected), initial=0.0))
    )


CHOICES = pytest.mark.parametrize("choose", [partitioned_coordinates, tangent_coordinates])
FLAT = pytest.mark.parametrize("name", ["planar loops", "spatial four-bar"])


@FLAT
@CHOICES
def test_accelerations_in_independent_coordinates_and_of_the_constrained_system_agree(name, choose):
    """G^T H G ydd = G^T (tau - C - H g) gives the accelerations of the loop solver.

    Source: RBDA 8.5, methods 2 and 3.
    """
    model, (q, qd, _, tau) = loop_model(name)
    coordinates = choose(model, q)
    tangent = independent_motion(model, coordinates, q, qd, coordinates.coordinates_at(q))
    ydd, qdd = reduced_dynamics(model, q, qd, tau, tangent)
    close(qdd, closed_loop_dynamics(model, q, qd, tau).qdd)
    close(ydd, coordinates.matrix @ qdd)


def test_nonlinear_coordinates_and_loop_solver_give_the_same_accelerations():
    model, y = cartesian_pendulum(), np.array([0.9])
    q = np.array([np.cos(y[0] ** 3), np.sin(y[0] ** 3), y[0] ** 3])
    qd, tau = 1.7 * np.array([-q[1], q[0], 1.0]), np.array([3.0, -2.0, 1.0])
    _, qdd = reduced_dynamics(model, q, qd, tau, independent_motion(model, Arc(), q, qd, y))
    close(qdd, closed_loop_dynamics(model, q, qd, tau).qdd)


def free(t, q, qd):
    """Return zero joint forces."""
    del t, q
    return np.zeros(len(qd))


@pytest.mark.slow
def test_rotating_pendulum_changes_coordinates_before_each_singular_configuration():
    """The coordinates start with y = q1 and change four times per turn.

    The angle satisfies (I + m) a'' = -m g cos a; the integration error is of fourth order.
    """
    model = cartesian_pendulum()
    q, qd = np.array([0.0, -1.0, -np.pi / 2]), 20.0 * np.array([1.0, 0.0, 1.0])
    errors = []
    for h, steps in ((4e-3, 90), (2e-3, 180)):
        found = move_independently(
            model, q, qd, free, h * steps, h, joint_coordinates(model, q, [0])
        )
        exact = states(
            lambda x: np.array([x[1], -2.0 * 9.81 * np.cos(x[0]) / 2.3]),
            np.array([-np.pi / 2, 20.0]),
            h / 10,
            10 * steps,
        )
        angle = found["q"][:, 2]
        errors.append(np.max(np.abs(angle - exact[::10, 0])))
        assert angle[-1] > 2 * np.pi - np.pi / 2
        assert len(found.times("change")) >= 4
        assert_allclose(
            found["q"][:, :2], np.stack([np.cos(angle), np.sin(angle)], axis=1), atol=10 * CLOSED
        )
    assert errors[0] / errors[1] > 12
    assert errors[1] < 1e-4


@pytest.mark.slow
def projected_motion(model, q, qd, h, steps):
    """Simulate a mechanism with constraint projection; return the positions (steps + 1, n)."""
    n = model.nv

    def motion(x):
        return np.concatenate([x[n:], closed_loop_dynamics(model, x[:n], x[n:], np.zeros(n)).qdd])

    def project_state(x):
        return np.concatenate(project(model, x[:n], x[n:]))

    return states(motion, np.concatenate([q, qd]), h, steps, project_state)[:, :n]


def largest_error(model):
    """Return a function for the largest constraint error of the model."""
    return lambda q: max(map(max, closure_errors(model, q).values()))


@pytest.mark.slow
def test_four_bar_motions_in_independent_coordinates_and_with_projection_agree():
    """The crank rotates by half a turn, and the rocker reverses its direction.

    The first coordinate is the angle of the rocker.
    """
    model = four_bar()
    q = assemble(model, np.array([1.2, -0.4, -1.9]), ["joint1"])
    crank = joint_coordinates(model, q, [0])
    qd = 16.0 * independent_motion(model, crank, q, np.zeros(3), np.zeros(1)).G[:, 0]
    # the angle of the rocker against the base is q1 + q2 + q3
    rocker = LinearCoordinates(model, np.ones((1, 3)), q)
    h, steps = 2e-3, 100
    projected = projected_motion(model, q, qd, h, steps)
    coarse, fine = (
        move_independently(model, q, qd, free, h * steps, k * h, rocker) for k in (2, 1)
    )
    errors = [np.max(np.abs(found["q"] - projected[::k])) for found, k in ((coarse, 2), (fine, 1))]
    assert projected[-1, 0] - q[0] > np.pi
    assert np.ptp(np.sign(np.diff(projected.sum(axis=1)))) == 2
    assert len(fine.times("change"))
    assert errors[0] / errors[1] > 10
    assert errors[1] < 1e-4
    assert max(map(largest_error(model), fine["q"][::20])) < 10 * CLOSED
    E = [energy(model, q, qd) for q, qd in zip(fine["q"], fine["qd"], strict=True)]
    assert_allclose(E, E[0], rtol=1e-4)


def test_result_of_a_motion_in_independent_coordinates_contains_units_time_and_method():
    model = four_bar()
    q = assemble(model, np.array([1.2, -0.4, -1.9]), ["joint1"])
    found = move_independently(model, q, np.zeros(3), free, 0.02, 0.01)
    assert (found.unit("q"), found.unit("qd"), found["q"].shape) == ("rad", "rad/s", (3, 3))
    assert_allclose(found.time, [0.0, 0.01, 0.02], rtol=1e-15)
    assert found.meta["method"] == "rk4"


@pytest.mark.slow
def test_integration_error_in_independent_coordinates_has_the_order_of_the_method():
    model = four_bar()
    q = assemble(model, np.array([1.2, -0.4, -1.9]), ["joint1"])
    end = [
        move_independently(model, q, np.zeros(3), free, 0.08, h, method=EULER)["q"][-1]
        for h in (0.01, 0.005, 0.0025)
    ]
    fall = np.linalg.norm(end[0] - end[1]) / np.linalg.norm(end[1] - end[2])
    assert abs(np.log2(fall) - EULER.order) < 0.15


def test_motion_in_independent_coordinates_rejects_implicit_methods_and_invalid_steps():
    model = four_bar()
    q = assemble(model, np.array([1.2, -0.4, -1.9]), ["joint1"])
    with pytest.raises(ValueError, match="needs an explicit method, not 'ros2'"):
        move_independently(model, q, np.zeros(3), free, 0.1, 0.01, method=ROS2)
    with pytest.raises(
        ValueError, match=r"dt = 0.03 s does not divide the duration of the run, 0.1 s"
    ):
        move_independently(model, q, np.zeros(3), free, 0.1, 0.03)
