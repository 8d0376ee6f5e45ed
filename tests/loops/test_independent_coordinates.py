"""Independent coordinates of closed loops (Spencer 2004, chapter 2; RBDA 8.8): choice, change, and
motion in them.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp

from integration import states
from loop_models import four_bar, loop_model, with_loops
from random_models import random_tree
from rigidblocks import EULER, ROS2, move_independently
from rigidblocks.algebra import spatial
from rigidblocks.algebra.planar import mcI, xlt
from rigidblocks.dynamics import aba, energy
from rigidblocks.joint import (
    Fixed,
    LoopJoint,
    PlanarPrismatic,
    PlanarRevolute,
    Prismatic,
    Revolute,
    RollingBall,
    Spherical,
)
from rigidblocks.loops import (
    assemble,
    closed_loop_dynamics,
    closure_errors,
    loop_constraints,
    position_constraints,
    project,
)
from rigidblocks.loops.coordinates import (
    LinearCoordinates,
    coordinate_condition,
    dependent_positions,
    independent_motion,
    joint_coordinates,
    partitioned_coordinates,
    reduced_dynamics,
    tangent_coordinates,
)
from rigidblocks.model.configuration import random_configuration
from rigidblocks.model.model import Model
from rigidblocks.model.planar import PlanarModel

SAME = 1e-9  # rounding, times the condition of H and of the coordinates, some 1e3
CLOSED = 1e-12  # Newton's iteration ends here


def close(actual, expected, tolerance=SAME):
    assert_allclose(
        actual, expected, rtol=0, atol=tolerance * max(1.0, np.max(np.abs(expected), initial=0.0))
    )


def parallelogram(L1=1.0, L2=0.6):
    """Two chains from one point, of one and of three links, that meet at their ends (Spencer 2004,
    2.4.1).
    """
    link = [mcI(1.0, [L / 2, 0.0], 0.1) for L in (L1, L2, L1, L2)]
    Xtree = (xlt([0.0, 0.0]), xlt([0.0, 0.0]), xlt([L2, 0.0]), xlt([L1, 0.0]))
    loop = LoopJoint(PlanarRevolute(), 0, 3, xlt([L1, 0.0]), xlt([L2, 0.0]))
    return PlanarModel(
        "parallelogram",
        (-1, -1, 1, 2),
        (PlanarRevolute(),) * 4,
        Xtree,
        link,
        np.zeros(2),
        loops=(loop,),
    )


def cartesian_pendulum(m=2.0, I=0.3):
    """A rod on slides along x and y, held at 1 m from its frame to the origin: q = (x, y,
    angle).
    """
    joints = (PlanarPrismatic("x"), PlanarPrismatic("y"), PlanarRevolute())
    nothing = mcI(0.0, [0.0, 0.0], 0.0)
    loop = LoopJoint(PlanarRevolute(), -1, 2, xlt([0.0, 0.0]), xlt([-1.0, 0.0]), "pivot")
    return PlanarModel(
        "pendulum",
        (-1, 0, 1),
        joints,
        (xlt([0.0, 0.0]),) * 3,
        (nothing, nothing, mcI(m, [0.0, 0.0], I)),
        np.array([0.0, -9.81]),
        massless=("body1", "body2"),
        loops=(loop,),
    )


# worked examples of the thesis


@pytest.mark.parametrize("y", [(0.3, 1.1), (-1.0, 0.7), (2.0, 3.0)])
def test_parallelogram(y):
    """Psi = (q1, q2, q1 - q2, q2 - q1 - pi), of the branch of the guess, and G is constant on
    it.
    """
    model, (q1, q2) = parallelogram(), y
    exact = np.array([q1, q2, q1 - q2, q2 - q1 - np.pi])
    coordinates = LinearCoordinates(model, np.eye(4)[:2], np.zeros(4))
    q = dependent_positions(model, coordinates, y, exact + np.array([0.0, 0.0, 0.1, -0.2]))
    assert_allclose(q, exact, atol=CLOSED)
    qd = np.array([0.5, -0.3, 0.8, -0.8])
    G, g = independent_motion(model, coordinates, q, qd, np.array(y))
    assert_allclose(G, [[1, 0], [0, 1], [1, -1], [-1, 1]], atol=1e-14)
    assert_allclose(g, 0, atol=1e-14)


def test_parallelogram_has_no_such_coordinates_where_it_is_flat():
    """Where sin q4 = 0."""
    model = parallelogram()
    with pytest.raises(ValueError, match="mobility 3 in this configuration"):
        joint_coordinates(model, np.array([0.4, 0.4, 0.0, -np.pi]), [0, 1])


@pytest.mark.parametrize("angle", [0.3, 1.2, 1.5, -2.0])
def test_pendulum_in_cartesian_coordinates(angle):
    """y = q1 is one where q2 is not zero: dq2/dq1 = -q1/q2."""
    model, q = cartesian_pendulum(), np.array([np.cos(angle), np.sin(angle), angle])
    coordinates = joint_coordinates(model, q, [0])
    G, _ = independent_motion(model, coordinates, q, np.zeros(3), np.zeros(1))
    assert_allclose(G[:, 0], [1, -q[0] / q[1], -1 / q[1]], rtol=1e-12)


def test_pendulum_has_other_coordinates_where_those_fail():
    model, q = cartesian_pendulum(), np.array([1.0, 0.0, 0.0])
    with pytest.raises(
        ValueError,
        match=r"depend on each other in this configuration: the condition of \[R; K\] is",
    ):
        joint_coordinates(model, q, [0])
    near = np.array([np.cos(1e-4), np.sin(1e-4), 1e-4])
    bad, good = joint_coordinates(model, near, [0]), partitioned_coordinates(model, near)
    assert coordinate_condition(model, bad, near, np.zeros(1)) > 1e3
    assert coordinate_condition(model, good, near, np.zeros(1)) < 10


# choices


def test_quaternions_stay_dependent_where_the_loops_determine_them():
    """An arm of seven freedoms that holds on to the base by a ball joint: 3 constraints eliminate
    its own ball joint.
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
def test_tangents_keep_loops_closed_and_coordinates_what_they_are(name, choose):
    """K G = 0, K g = k, R G = 1 and R g = 0 (Spencer 2004, 2.3.2, 2.4)."""
    model, (q, qd, *_) = loop_model(name)
    coordinates = choose(model, q)
    K, k, _ = loop_constraints(model, q, qd)
    G, g = independent_motion(model, coordinates, q, qd, coordinates.of(q))
    close(K @ G, np.zeros((model.nc, G.shape[1])))
    close(K @ g, k)
    close(coordinates.matrix @ G, np.eye(len(coordinates.matrix)))
    close(coordinates.matrix @ g, np.zeros(len(coordinates.matrix)))
    close(G @ (coordinates.matrix @ qd), qd)


@FLAT
def test_tangent_space_is_the_best_conditioned(name):
    model, (q, *_) = loop_model(name)
    zero = np.zeros(len(tangent_coordinates(model, q).matrix))
    best, good = (
        coordinate_condition(model, choose(model, q), q, zero)
        for choose in (tangent_coordinates, partitioned_coordinates)
    )
    assert 1 <= best <= good < 100


@FLAT
@CHOICES
def test_dependent_positions_close_the_loops_at_the_given_coordinates(name, choose):
    model, (q, *_) = loop_model(name)
    coordinates = choose(model, q)
    y = 0.1 * np.random.default_rng(1).uniform(-1, 1, len(coordinates.matrix))
    moved = dependent_positions(model, coordinates, y, q)
    assert_allclose(coordinates.of(moved), y, atol=CLOSED)
    assert_allclose(position_constraints(model, moved).delta, 0, atol=CLOSED)
    # and the derivative of Psi is G
    h = 1e-5
    for j, unit in enumerate(np.eye(len(y))):
        ahead, behind = (
            dependent_positions(model, coordinates, y + s * h * unit, q) for s in (1, -1)
        )
        G, _ = independent_motion(model, coordinates, moved, np.zeros(model.nv), y)
        close((ahead - behind) / (2 * h), G[:, j], 1e-6)


@FLAT
@CHOICES
def test_velocity_products_vary_with_the_velocities_by_twice_the_rate_of_g(name, choose):
    """dg/dyd = 2 Gdot: the second derivatives of Psi are symmetric (Spencer 2004, App. B)."""
    model, (q, qd, *_) = loop_model(name)
    coordinates, h = choose(model, q), 1e-5
    yd = coordinates.matrix @ qd

    def tangent(q, yd):
        y = coordinates.of(q)
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


class Arc:
    """The angle of a point that the first two joints carry, as a coordinate of the Cartesian
    pendulum: not linear.
    """

    def R(self, q, y):
        return np.array([np.arctan2(q[1], q[0]) - y[0] ** 3])

    def D1(self, q, y):
        del y
        return np.array([[-q[1], q[0], 0.0]]) / (q[0] ** 2 + q[1] ** 2)

    def D2(self, q, y):
        del q
        return np.array([[-3 * y[0] ** 2]])


def test_coordinates_need_not_be_linear():
    model, y = cartesian_pendulum(), np.array([0.9])
    angle = y[0] ** 3
    exact = np.array([np.cos(angle), np.sin(angle), angle])
    q = dependent_positions(model, Arc(), y, exact + np.array([0.05, -0.02, 0.03]))
    assert_allclose(q, exact, atol=CLOSED)
    G, _ = independent_motion(model, Arc(), q, np.zeros(3), y)
    assert_allclose(G[:, 0], 3 * y[0] ** 2 * np.array([-q[1], q[0], 1.0]), rtol=1e-12)


# dynamics


@FLAT
@CHOICES
def test_reduced_dynamics_are_those_of_the_loops(name, choose):
    """G^T H G ydd = G^T (tau - C - H g) gives the accelerations of the elimination (RBDA 8.5,
    methods 2 and 3).
    """
    model, (q, qd, _, tau) = loop_model(name)
    coordinates = choose(model, q)
    tangent = independent_motion(model, coordinates, q, qd, coordinates.of(q))
    ydd, qdd = reduced_dynamics(model, q, qd, tau, tangent)
    close(qdd, closed_loop_dynamics(model, q, qd, tau).qdd)
    close(ydd, coordinates.matrix @ qdd)


def test_nonlinear_coordinates_give_the_same_accelerations():
    model, y = cartesian_pendulum(), np.array([0.9])
    q = np.array([np.cos(y[0] ** 3), np.sin(y[0] ** 3), y[0] ** 3])
    qd, tau = 1.7 * np.array([-q[1], q[0], 1.0]), np.array([3.0, -2.0, 1.0])
    _, qdd = reduced_dynamics(model, q, qd, tau, independent_motion(model, Arc(), q, qd, y))
    close(qdd, closed_loop_dynamics(model, q, qd, tau).qdd)


def free(t, q, qd):
    """No joint forces."""
    del t, q
    return np.zeros(len(qd))


@pytest.mark.slow
def test_pendulum_turns_over_through_all_singular_choices():
    """From y = q1 the coordinates change four times a turn; the angle is that of (I + m) a'' = -m g
    cos a, to order 4.
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
    """Positions (steps + 1, n) of a mechanism that is projected onto its constraints."""
    n = model.nv

    def motion(x):
        return np.concatenate([x[n:], closed_loop_dynamics(model, x[:n], x[n:], np.zeros(n)).qdd])

    def on_the_constraints(x):
        return np.concatenate(project(model, x[:n], x[n:]))

    return states(motion, np.concatenate([q, qd]), h, steps, on_the_constraints)[:, :n]


@pytest.mark.slow
def test_four_bar_moves_as_with_projection():
    """A crank that turns half round, begun in the angle of the rocker, which turns back
    meanwhile.
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
    assert (
        max(max(map(max, closure_errors(model, q).values())) for q in fine["q"][::20]) < 10 * CLOSED
    )
    E = [energy(model, q, qd) for q, qd in zip(fine["q"], fine["qd"], strict=True)]
    assert_allclose(E, E[0], rtol=1e-4)


def test_motion_is_a_result_with_units():
    model = four_bar()
    q = assemble(model, np.array([1.2, -0.4, -1.9]), ["joint1"])
    found = move_independently(model, q, np.zeros(3), free, 0.02, 0.01)
    assert (found.unit("q"), found.unit("qd"), found["q"].shape) == ("rad", "rad/s", (3, 3))
    assert_allclose(found.time, [0.0, 0.01, 0.02], rtol=1e-15)
    assert found.meta["method"] == "rk4"


def test_motion_errs_at_the_order_of_its_method():
    model = four_bar()
    q = assemble(model, np.array([1.2, -0.4, -1.9]), ["joint1"])
    end = [
        move_independently(model, q, np.zeros(3), free, 0.08, h, method=EULER)["q"][-1]
        for h in (0.01, 0.005, 0.0025)
    ]
    fall = np.linalg.norm(end[0] - end[1]) / np.linalg.norm(end[1] - end[2])
    assert abs(np.log2(fall) - EULER.order) < 0.15


# refusals


def test_steps_that_no_run_can_have_are_refused():
    model = four_bar()
    q = assemble(model, np.array([1.2, -0.4, -1.9]), ["joint1"])
    with pytest.raises(ValueError, match="needs an explicit method, not 'ros2'"):
        move_independently(model, q, np.zeros(3), free, 0.1, 0.01, method=ROS2)
    with pytest.raises(ValueError, match=r"dt = 0.03 s does not divide the run of 0.1 s"):
        move_independently(model, q, np.zeros(3), free, 0.1, 0.03)


def test_wrong_choices_are_refused():
    model, (q, *_) = loop_model("planar loops")
    with pytest.raises(ValueError, match=r"has the mobility 3 in this configuration .* not 1"):
        joint_coordinates(model, q, [0])
    with pytest.raises(ValueError, match="depend on each other in this configuration"):
        joint_coordinates(model, q, [0, 1, 4])  # the three joints of one loop
    with pytest.raises(ValueError, match="no joint 'motor' to be independent"):
        joint_coordinates(model, q, ["motor"])


def test_joints_that_roll_have_no_coordinates():
    rng = np.random.default_rng(3)
    model = random_tree(rng, (-1, 0), (RollingBall(0.3), Revolute()))
    q = random_configuration(model, rng)
    model = with_loops(model, q, [(Spherical(), -1, 1)], rng)
    for choose in (partitioned_coordinates, tangent_coordinates):
        with pytest.raises(ValueError, match="6 freedoms of position and 3 of velocity"):
            choose(model, q)


def door_on(joint, *loops):
    """A body on the base."""
    body = spatial.mcI(2.0, [0.1, 0.3, -0.2], np.diag([0.2, 0.3, 0.25]))
    return Model("door", (-1,), (joint,), (spatial.identity(),), (body,), loops=loops)


@pytest.mark.slow
@CHOICES
def test_quaternions_are_coordinates_and_change_where_they_turn_far(choose):
    """A body on two ball joints, one of which closes a loop, turns about the line between them."""
    axis = np.array([0.6, 0.0, 0.8])
    place = spatial.xlt(axis)
    pin = LoopJoint(Spherical(), -1, 0, place, place, "pin")
    door, hinge = door_on(Spherical(), pin), door_on(Revolute(tuple(axis)))
    q, qd, speed = np.array([1.0, 0.0, 0.0, 0.0]), 14.0 * axis, np.array([14.0])
    run = move_independently(door, q, qd, lambda *_: np.zeros(3), 0.25, 1e-2, choose=choose)
    assert run.events  # it turned by more than half a turn
    expected = solve_ivp(
        lambda _, x: [x[1], aba(hinge, x[:1], x[1:], np.zeros(1))[0]],
        (0.0, 0.25), [0.0, *speed], rtol=1e-10, atol=1e-10,
    ).y[:, -1]  # fmt: skip
    assert abs(expected[0]) > np.pi
    # of RK4 at 10 ms
    assert_allclose(run["qd"][-1], expected[1] * axis, atol=1e-4)
    half = expected[0] / 2
    turned = np.concatenate([[np.cos(half)], np.sin(half) * axis])
    assert_allclose(np.abs(turned @ run["q"][-1]), 1.0, atol=1e-9)


def test_iterations_that_do_not_converge_say_so():
    """A crank of 0.8 m cannot turn the rocker that far."""
    model, q = four_bar(), assemble(four_bar(), np.array([1.2, -0.4, -1.9]), ["joint1"])
    rocker = LinearCoordinates(model, np.ones((1, 3)), q)
    with pytest.raises(
        ValueError,
        match=r"no configuration of model 'four-bar' with the coordinates y = \[2\.0\] was found",
    ):
        dependent_positions(model, rocker, [2.0], q)
