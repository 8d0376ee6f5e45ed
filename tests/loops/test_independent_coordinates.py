"""Independent coordinates of closed loops: choice, change and motion.

See Spencer 2004, chapter 2, and RBDA 8.8.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp

from loop_models import four_bar, loop_model, with_loops
from random_models import random_tree
from rigidblocks.cosim.independent_motion import move_independently
from rigidblocks.dynamics import aba
from rigidblocks.dynamics.loops import (
    assemble,
    closure_errors,
    loop_constraints,
    position_constraints,
)
from rigidblocks.dynamics.loops.independent_coordinates import (
    LinearCoordinates,
    coordinate_condition,
    dependent_positions,
    independent_motion,
    joint_coordinates,
    partitioned_coordinates,
    tangent_coordinates,
)
from rigidblocks.robot.configuration import random_configuration
from rigidblocks.robot.joints import Fixed, LoopJoint, Prismatic, Revolute, RollingBall, Spherical
from rigidblocks.robot.model import Model
from rigidblocks.spatial import spatial
from thesis_mechanisms import Arc, cartesian_pendulum, parallelogram

SAME = 1e-9  # rounding error times the condition numbers of H and of the coordinates, about 1e3
CLOSED = 1e-12  # tolerance of Newton's iteration


def close(actual, expected, tolerance=SAME):
    assert_allclose(
        actual, expected, rtol=0, atol=tolerance * max(1.0, np.max(np.abs(expected), initial=0.0))
    )


# worked examples of the thesis


@pytest.mark.parametrize("y", [(0.3, 1.1), (-1.0, 0.7), (2.0, 3.0)])
def test_parallelogram_positions_and_jacobian_match_spencer_2004(y):
    """On the branch of the guess Psi = (q1, q2, q1 - q2, q2 - q1 - pi), so G is constant."""
    model, (q1, q2) = parallelogram(), y
    exact = np.array([q1, q2, q1 - q2, q2 - q1 - np.pi])
    coordinates = LinearCoordinates(model, np.eye(4)[:2], np.zeros(4))
    q = dependent_positions(model, coordinates, y, exact + np.array([0.0, 0.0, 0.1, -0.2]))
    assert_allclose(q, exact, atol=CLOSED)
    qd = np.array([0.5, -0.3, 0.8, -0.8])
    G, g = independent_motion(model, coordinates, q, qd, np.array(y))
    assert_allclose(G, [[1, 0], [0, 1], [1, -1], [-1, 1]], atol=1e-14)
    assert_allclose(g, 0, atol=1e-14)


def test_singular_coordinates_of_a_flat_parallelogram_are_rejected():
    """The coordinates (q1, q2) are singular at sin q4 = 0."""
    model = parallelogram()
    with pytest.raises(ValueError, match="mobility 3 in this configuration"):
        joint_coordinates(model, np.array([0.4, 0.4, 0.0, -np.pi]), [0, 1])


@pytest.mark.parametrize("angle", [0.3, 1.2, 1.5, -2.0])
def test_coordinate_jacobian_of_a_cartesian_pendulum_matches_the_closed_form(angle):
    """y = q1 is a valid coordinate if q2 is not zero: dq2/dq1 = -q1/q2."""
    model, q = cartesian_pendulum(), np.array([np.cos(angle), np.sin(angle), angle])
    coordinates = joint_coordinates(model, q, [0])
    G, _ = independent_motion(model, coordinates, q, np.zeros(3), np.zeros(1))
    assert_allclose(G[:, 0], [1, -q[0] / q[1], -1 / q[1]], rtol=1e-12)


def test_partitioned_coordinates_are_regular_if_the_joint_coordinates_are_singular():
    model, q = cartesian_pendulum(), np.array([1.0, 0.0, 0.0])
    with pytest.raises(
        ValueError,
        match=r"are dependent in this configuration: the condition number of \[R; K\] is",
    ):
        joint_coordinates(model, q, [0])
    near = np.array([np.cos(1e-4), np.sin(1e-4), 1e-4])
    bad, good = joint_coordinates(model, near, [0]), partitioned_coordinates(model, near)
    assert coordinate_condition(model, bad, near, np.zeros(1)) > 1e3
    assert coordinate_condition(model, good, near, np.zeros(1)) < 10


# choice of coordinates


def test_quaternions_that_the_loops_determine_are_dependent_coordinates():
    """A fixed loop joint connects an arm with seven degrees of freedom to the base.

    Its constraints determine the variables of the spherical joint of the arm.
    """
    rng = np.random.default_rng(71)
    joints = (
        Revolute(),
        Revolute((0.0, 1.0, 0.0)),
        Revolute((1.0, 0.5, 0.0)),
        Prismatic(),
        Spherical(),
    )
    model = random_tree(rng, (-1, 0, 1, 2, 3), joints)
    q = random_configuration(model, rng)
    model = with_loops(model, q, [(Fixed(), -1, 4)], rng)
    coordinates = partitioned_coordinates(model, q)
    assert coordinates.matrix.shape == (1, 7)
    assert not np.any(coordinates.matrix[:, 4:])
    moved = dependent_positions(model, coordinates, [0.05], q)
    assert max(map(max, closure_errors(model, moved).values())) < CLOSED


CHOICES = pytest.mark.parametrize("choose", [partitioned_coordinates, tangent_coordinates])
FLAT = pytest.mark.parametrize("name", ["planar loops", "spatial four-bar"])


@FLAT
@CHOICES
def test_jacobian_of_independent_coordinates_satisfies_the_loop_constraints(name, choose):
    """K G = 0, K g = k, R G = 1 and R g = 0 (Spencer 2004, 2.3.2, 2.4)."""
    model, (q, qd, *_) = loop_model(name)
    coordinates = choose(model, q)
    K, k, _ = loop_constraints(model, q, qd)
    G, g = independent_motion(model, coordinates, q, qd, coordinates.coordinates_at(q))
    close(K @ G, np.zeros((model.nc, G.shape[1])))
    close(K @ g, k)
    close(coordinates.matrix @ G, np.eye(len(coordinates.matrix)))
    close(coordinates.matrix @ g, np.zeros(len(coordinates.matrix)))
    close(G @ (coordinates.matrix @ qd), qd)


@FLAT
def test_tangent_coordinates_are_conditioned_at_least_as_well_as_partitioned_coordinates(name):
    model, (q, *_) = loop_model(name)
    zero = np.zeros(len(tangent_coordinates(model, q).matrix))
    best, good = (
        coordinate_condition(model, choose(model, q), q, zero)
        for choose in (tangent_coordinates, partitioned_coordinates)
    )
    assert 1 <= best <= good < 100


@FLAT
@CHOICES
def test_dependent_positions_close_the_loops_at_the_specified_independent_coordinates(name, choose):
    model, (q, *_) = loop_model(name)
    coordinates = choose(model, q)
    y = 0.1 * np.random.default_rng(1).uniform(-1, 1, len(coordinates.matrix))
    moved = dependent_positions(model, coordinates, y, q)
    assert_allclose(coordinates.coordinates_at(moved), y, atol=CLOSED)
    assert_allclose(position_constraints(model, moved).delta, 0, atol=CLOSED)
    # the derivative of Psi is G
    h = 1e-5
    for j, unit in enumerate(np.eye(len(y))):
        ahead, behind = (
            dependent_positions(model, coordinates, y + s * h * unit, q) for s in (1, -1)
        )
        G, _ = independent_motion(model, coordinates, moved, np.zeros(model.nv), y)
        close((ahead - behind) / (2 * h), G[:, j], 1e-6)


@FLAT
@CHOICES
def test_velocity_derivative_of_the_bias_acceleration_is_twice_the_tangent_derivative(name, choose):
    """dg/dyd = 2 Gdot: the second derivatives of Psi are symmetric (Spencer 2004, App. B)."""
    model, (q, qd, *_) = loop_model(name)
    coordinates, h = choose(model, q), 1e-5
    yd = coordinates.matrix @ qd

    def tangent(q, yd):
        y = coordinates.coordinates_at(q)
        G, _ = independent_motion(model, coordinates, q, np.zeros(model.nv), y)
        return independent_motion(model, coordinates, q, G @ yd, y)

    along = [dependent_positions(model, coordinates, sign * h * yd, q) for sign in (1, -1)]
    Gdot = (tangent(along[0], yd).G - tangent(along[1], yd).G) / (2 * h)
    units = np.eye(len(yd))
    dg = np.stack(
        [(tangent(q, yd + h * unit).g - tangent(q, yd - h * unit).g) / (2 * h) for unit in units],
        axis=1,
    )
    close(dg, 2.0 * Gdot, 1e-6)
    close(Gdot @ yd, tangent(q, yd).g, 1e-6)


def test_positions_and_jacobian_of_nonlinear_coordinates_match_the_closed_form():
    model, y = cartesian_pendulum(), np.array([0.9])
    angle = y[0] ** 3
    exact = np.array([np.cos(angle), np.sin(angle), angle])
    q = dependent_positions(model, Arc(), y, exact + np.array([0.05, -0.02, 0.03]))
    assert_allclose(q, exact, atol=CLOSED)
    G, _ = independent_motion(model, Arc(), q, np.zeros(3), y)
    assert_allclose(G[:, 0], 3 * y[0] ** 2 * np.array([-q[1], q[0], 1.0]), rtol=1e-12)


# rejected inputs


def test_invalid_choices_of_coordinates_are_rejected():
    model, (q, *_) = loop_model("planar loops")
    with pytest.raises(ValueError, match=r"has the mobility 3 in this configuration .* not 1"):
        joint_coordinates(model, q, [0])
    with pytest.raises(ValueError, match="are dependent in this configuration"):
        joint_coordinates(model, q, [0, 1, 4])  # the three joints of one loop
    with pytest.raises(ValueError, match="unknown independent joint 'motor'"):
        joint_coordinates(model, q, ["motor"])


def test_independent_coordinates_of_rolling_joints_are_rejected():
    rng = np.random.default_rng(3)
    model = random_tree(rng, (-1, 0), (RollingBall(0.3), Revolute()))
    q = random_configuration(model, rng)
    model = with_loops(model, q, [(Spherical(), -1, 1)], rng)
    for choose in (partitioned_coordinates, tangent_coordinates):
        with pytest.raises(
            ValueError, match="6 degrees of freedom in position but only 3 in velocity"
        ):
            choose(model, q)


def door_on(joint, *loops):
    """Return a body that a joint connects to the base."""
    body = spatial.mcI(2.0, [0.1, 0.3, -0.2], np.diag([0.2, 0.3, 0.25]))
    return Model("door", (-1,), (joint,), (spatial.identity(),), (body,), loops=loops)


@pytest.mark.slow
@CHOICES
def test_independent_coordinates_of_quaternions_change_after_large_rotations(choose):
    """A body on a spherical tree joint and a spherical loop joint rotates about their line."""
    axis = np.array([0.6, 0.0, 0.8])
    place = spatial.xlt(axis)
    pin = LoopJoint(Spherical(), -1, 0, place, place, "pin")
    door, hinge = door_on(Spherical(), pin), door_on(Revolute(tuple(axis)))
    q, qd, speed = np.array([1.0, 0.0, 0.0, 0.0]), 14.0 * axis, np.array([14.0])
    run = move_independently(door, q, qd, lambda *_: np.zeros(3), 0.25, 1e-2, choose=choose)
    assert run.events  # the rotation exceeds half a turn
    expected = solve_ivp(
        lambda _, x: [x[1], aba(hinge, x[:1], x[1:], np.zeros(1))[0]],
        (0.0, 0.25), [0.0, *speed], rtol=1e-10, atol=1e-10,
    ).y[:, -1]  # fmt: skip
    assert abs(expected[0]) > np.pi
    # tolerance: error of RK4 at 10 ms
    assert_allclose(run["qd"][-1], expected[1] * axis, atol=1e-4)
    half = expected[0] / 2
    turned = np.concatenate([[np.cos(half)], np.sin(half) * axis])
    assert_allclose(np.abs(turned @ run["q"][-1]), 1.0, atol=1e-9)


def test_unreachable_values_of_independent_coordinates_are_rejected():
    """A crank of 0.8 m cannot rotate the rocker to the angle y = 2 rad."""
    model, q = four_bar(), assemble(four_bar(), np.array([1.2, -0.4, -1.9]), ["joint1"])
    rocker = LinearCoordinates(model, np.ones((1, 3)), q)
    with pytest.raises(
        ValueError,
        match=r"of model 'four-bar' at the coordinates y = \[2\.0\] did not converge",
    ):
        dependent_positions(model, rocker, [2.0], q)
