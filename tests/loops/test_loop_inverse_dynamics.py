"""Inverse dynamics of closed loops and the worked example of the book (RBDA 8.12)."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from loop_models import LOOP_MODELS, four_bar, loop_model
from moved_models import AXIS, GAIN, GIVEN, SPEED, crank, crank_angle
from rigidblocks.dynamics import rnea
from rigidblocks.dynamics.loops import (
    active_forces,
    closed_loop_dynamics,
    closed_loop_inverse_dynamics,
    loop_constraints,
)
from rigidblocks.robot.joints import LoopJoint, PlanarPrismatic, PlanarRevolute
from rigidblocks.robot.model import Model, PlanarModel
from rigidblocks.spatial.planar import mcI, xlt
from rigidblocks.spatial.spatial import identity
from rigidblocks.spatial.spatial import xlt as spatial_xlt
from rigidblocks.tracing.trace import trace

# rounding error times the condition numbers of H and of the loops, about 1e3
SAME = 1e-9


def close(actual, expected, tolerance=SAME):
    assert_allclose(
        actual, expected, rtol=0, atol=tolerance * max(1.0, np.max(np.abs(expected), initial=0.0))
    )


def actuator_triangle(l1=0.8, l2=0.5):
    """Return a two-link arm with a linear actuator at its first link (RBDA Fig 8.3).

    The joint variables are theta1, theta2, d and y2.
    """
    link = tuple(
        mcI(m, [c, 0.05], I)
        for m, c, I in ((2.0, 0.5, 0.3), (1.0, 0.1, 0.05), (0.8, -0.1, 0.04), (1.5, 0.3, 0.2))
    )
    joints = (PlanarRevolute(), PlanarRevolute(), PlanarPrismatic("x"), PlanarRevolute())
    Xtree = (xlt([0.0, 0.0]), xlt([l1, 0.0]), xlt([0.0, 0.0]), xlt([1.0, 0.0]))
    loop = LoopJoint(PlanarRevolute(), 2, 0, xlt([0.0, 0.0]), xlt([l2, 0.0]), "pin")
    return PlanarModel(
        "actuator triangle",
        (-1, -1, 1, 0),
        joints,
        Xtree,
        link,
        np.array([0.0, -9.81]),
        loops=(loop,),
    )


def triangle_motion(y, yd, ydd, l1=0.8, l2=0.5):
    """Return q, qd, qdd and G of the actuator triangle from y = (theta1, theta4).

    The values come from the loop-closure function of the book and its derivatives.
    """
    s, c = np.sin(y[0]), np.cos(y[0])
    d = np.sqrt(l1**2 + l2**2 - 2 * l1 * l2 * c)
    u1, u2 = (l2**2 - l1 * l2 * c) / d**2, l1 * l2 * s / d
    u3, u4 = (
        (l1**2 - l2**2) * l1 * l2 * s / d**4 * yd[0] ** 2,
        (l1 * l2 * c - u2**2) / d * yd[0] ** 2,
    )
    G = np.array([[1, 0], [u1, 0], [u2, 0], [0, 1]])
    gamma = np.array([y[0], np.arctan2(l2 * s, l2 * c - l1), d, y[1]])
    return gamma, G @ yd, G @ ydd + np.array([0, u3, u4, 0]), G


# inverse dynamics inverts forward dynamics


@pytest.mark.parametrize("name", LOOP_MODELS)
@pytest.mark.parametrize("seed", [0, 1])
def test_closed_loop_inverse_dynamics_inverts_forward_dynamics(name, seed):
    model, (q, qd, _, tau) = loop_model(name, seed)
    rng = np.random.default_rng(seed)
    loop_tau = rng.uniform(-5, 5, sum(loop.joint.nv for loop in model.loops))
    given = {"gravity": rng.uniform(-5, 5, len(model.gravity)), "loop_tau": loop_tau}
    qdd = closed_loop_dynamics(model, q, qd, tau, **given).qdd
    forces = closed_loop_inverse_dynamics(model, q, qd, qdd, **given)
    close(closed_loop_dynamics(model, q, qd, forces.tau, **given).qdd, qdd)
    close(forces.missed, 0 * qdd)
    # tau has the smallest norm of all forces with this motion, so it contains no constraint forces
    assert forces.tau @ forces.tau <= tau @ tau * (1 + SAME)
    close(loop_constraints(model, q, qd).K @ forces.tau, np.zeros(model.nc))


@pytest.mark.parametrize("name", LOOP_MODELS)
def test_closed_loop_and_tree_inverse_dynamics_have_equal_null_space_projections(name):
    """G^T tau = G^T tau_ID (RBDA Eq 8.62)."""
    model, (q, qd, _, tau) = loop_model(name)
    qdd = closed_loop_dynamics(model, q, qd, tau).qdd
    K = loop_constraints(model, q, qd).K
    _, sizes, Vh = np.linalg.svd(K)
    G = Vh[np.sum(sizes > 1e-9 * sizes[0]) :].T
    forces = closed_loop_inverse_dynamics(model, q, qd, qdd)
    close(G.T @ forces.tau, G.T @ rnea(model, q, qd, qdd))
    assert forces.mobility == forces.rank == G.shape[1]


@pytest.mark.parametrize("actuated", [["joint1"], ["joint2"], [2]])
def test_one_actuator_at_any_joint_is_sufficient_to_drive_a_four_bar(actuated):
    model, (q, qd, _, tau) = loop_model("spatial four-bar")
    qdd = closed_loop_dynamics(model, q, qd, tau).qdd
    forces = closed_loop_inverse_dynamics(model, q, qd, qdd, actuated)
    assert np.count_nonzero(forces.tau) == 1
    close(closed_loop_dynamics(model, q, qd, forces.tau).qdd, qdd)
    assert (forces.rank, forces.mobility) == (1, 1)


def test_closed_loop_inverse_dynamics_compensates_external_forces():
    model, (q, qd, _, tau) = loop_model("planar loops")
    f_ext = np.random.default_rng(4).uniform(-5, 5, (model.nb, 3))
    qdd = closed_loop_dynamics(model, q, qd, tau, f_ext).qdd
    forces = closed_loop_inverse_dynamics(model, q, qd, qdd, f_ext=f_ext)
    close(closed_loop_dynamics(model, q, qd, forces.tau, f_ext).qdd, qdd)


# the actuator triangle (RBDA Fig 8.3, Ex 8.2)

Y, YD, YDD = np.array([0.5, -0.7]), np.array([1.3, -0.4]), np.array([-2.0, 3.0])


def test_loop_closure_function_of_rbda_example_8_2_satisfies_the_loop_constraints():
    """The expected values evaluate the book's formulas at l1 = 0.8, l2 = 0.5, y1 = 0.5."""
    q, qd, qdd, G = triangle_motion(Y, YD, YDD)
    K, k, delta = loop_constraints(actuator_triangle(), q, qd)
    assert_allclose(q[1:3], [2.55568795, 0.43351350], atol=5e-9)
    assert_allclose(G[1:3, 0], [-0.53759858, 0.44236274], atol=5e-9)
    assert_allclose(delta, 0, atol=1e-15)
    assert_allclose(K @ G, 0, atol=1e-15)
    assert_allclose(K @ qdd, k, atol=1e-14)


def test_forces_of_two_actuators_match_rbda_example_8_2():
    """u = [[1/u2, u1/u2, 1, 0], [0, 0, 0, 1]] tau_ID for joints 3 and 4."""
    model = actuator_triangle()
    q, qd, qdd, G = triangle_motion(Y, YD, YDD)
    u1, u2 = G[1:3, 0]
    expected = np.array([[1 / u2, u1 / u2, 1, 0], [0, 0, 0, 1]]) @ rnea(model, q, qd, qdd)
    forces = closed_loop_inverse_dynamics(model, q, qd, qdd, ["joint3", "joint4"])
    close(forces.tau, [0, 0, *expected])
    assert (forces.rank, forces.mobility) == (2, 2)


@pytest.mark.parametrize("first", [0, 1, 2])
def test_second_actuator_of_an_actuator_triangle_may_be_any_of_three_joints(first):
    model = actuator_triangle()
    q, qd, qdd, _ = triangle_motion(Y, YD, YDD)
    forces = closed_loop_inverse_dynamics(model, q, qd, qdd, [first, 3])
    close(closed_loop_dynamics(model, q, qd, forces.tau).qdd, qdd)


def test_redundant_actuators_have_the_forces_of_smallest_norm():
    model = actuator_triangle()
    q, qd, qdd, G = triangle_motion(Y, YD, YDD)
    forces = closed_loop_inverse_dynamics(model, q, qd, qdd, [0, 2, 3])
    u = np.linalg.lstsq(G[[0, 2, 3]].T, G.T @ rnea(model, q, qd, qdd), rcond=None)[0]
    close(forces.tau, [u[0], 0, u[1], u[2]])
    assert (forces.rank, forces.mobility) == (2, 2)


def test_loop_inverse_dynamics_rejects_too_few_actuators_without_least_squares():
    model = actuator_triangle()
    q, qd, qdd, _ = triangle_motion(Y, YD, YDD)
    message = (
        r"actuators of model 'actuator triangle' move 1 of its 2 degrees of freedom .* largest "
        r"acceleration error is \d"
    )
    for actuated in ([3], [0, 1, 2]):
        with pytest.raises(ValueError, match=message):
            closed_loop_inverse_dynamics(model, q, qd, qdd, actuated)
    forces = closed_loop_inverse_dynamics(model, q, qd, qdd, [0, 1, 2], least_squares=True)
    close(closed_loop_dynamics(model, q, qd, forces.tau).qdd, qdd - forces.missed)
    assert np.max(np.abs(forces.missed)) > 0.1


def test_underactuated_loop_accepts_a_motion_that_its_actuators_can_cause():
    model = actuator_triangle()
    q, qd, _, _ = triangle_motion(Y, YD, YDD)
    tau = np.array([0.0, 0.0, 0.0, 7.0])
    qdd = closed_loop_dynamics(model, q, qd, tau).qdd
    close(closed_loop_inverse_dynamics(model, q, qd, qdd, [3]).tau, tau)


def test_loop_inverse_dynamics_rejects_an_actuator_at_its_dead_centre():
    """At sin y1 = 0 the linear actuator cannot rotate the link (RBDA Ex 8.2: u2 = 0)."""
    model = actuator_triangle()
    q, qd, qdd, _ = triangle_motion(np.array([np.pi, 0.3]), YD, YDD)
    with pytest.raises(ValueError, match="move 1 of its 2 degrees of freedom"):
        closed_loop_inverse_dynamics(model, q, qd, qdd, [2, 3])


# rejected inputs


def test_loop_inverse_dynamics_rejects_motions_that_open_the_loops():
    model = actuator_triangle()
    q, qd, qdd, _ = triangle_motion(Y, YD, YDD)
    wrong = np.array([0.0, 0.0, 1e-3, 0.0])
    for motion, what in (((q + wrong, qd, qdd), "positions"), ((q, qd + wrong, qdd), "velocities")):
        with pytest.raises(
            ValueError, match=f"the {what} open the loops of .*: the error of pin is 0.00"
        ):
            closed_loop_inverse_dynamics(model, *motion)
    with pytest.raises(
        ValueError, match=r"the accelerations open the loops .* the error of pin is 0.00"
    ):
        closed_loop_inverse_dynamics(model, q, qd, qdd + wrong)


def test_loop_inverse_dynamics_includes_the_prescribed_motion_of_a_loop_joint():
    """The loop joint prescribes the crank angle, so only the second joint is actuated."""
    t = 0.7
    model = Model(
        "held crank", (-1, 0), (AXIS, AXIS), (identity(), spatial_xlt([0.5, 0, 0])),
        crank().inertia, loops=(LoopJoint(GIVEN, -1, 0, identity(), identity(), "drive"),),
    ).evaluate_at(t)  # fmt: skip
    q, qd = np.array([*crank_angle(t), 0.2]), np.array([SPEED + GAIN * t, -0.4])
    tau = np.array([0.0, 1.5])
    qdd = closed_loop_dynamics(model, q, qd, tau).qdd
    assert_allclose(qdd[0], GAIN, rtol=1e-9)
    forces = closed_loop_inverse_dynamics(model, q, qd, qdd, actuated=(1,))
    close(forces.tau, tau)
    with pytest.raises(ValueError, match="the velocities open the loops"):
        closed_loop_inverse_dynamics(model, q, qd * [0.0, 1.0], qdd, actuated=(1,))


def test_loop_inverse_dynamics_rejects_trees_and_invalid_actuators():
    model = four_bar()
    still = np.zeros(3)
    with pytest.raises(ValueError, match=r"model 'four-bar' has no loops; use rnea"):
        closed_loop_inverse_dynamics(model.spanning_tree, still, still, still)
    model, (q, qd, _, tau) = loop_model("spatial four-bar")
    qdd = closed_loop_dynamics(model, q, qd, tau).qdd
    with pytest.raises(
        ValueError,
        match=(
            r"unknown actuated joint 'motor' in model 'four-bar'; expected one of "
            r"joint1, joint2, joint3, or 0 .. 2"
        ),
    ):
        closed_loop_inverse_dynamics(model, q, qd, qdd, ["motor"])
    with pytest.raises(ValueError, match="must contain one or more joints of model 'four-bar'"):
        closed_loop_inverse_dynamics(model, q, qd, qdd, [])


# traced functions


@pytest.mark.parametrize("actuated", [None, [0, 2, 3], [2, 3]])
def test_traced_and_numpy_results_of_closed_loop_inverse_dynamics_agree(actuated):
    model = actuator_triangle()
    q, qd, qdd, _ = triangle_motion(Y, YD, YDD)
    n = model.nv

    def forces(q, qd, qdd):
        found = closed_loop_inverse_dynamics(model, q, qd, qdd, actuated)
        return {"tau": found.tau, "missed": found.missed, "rank": found.rank}

    graph = trace("forces", forces, {"q": (n,), "qd": (n,), "qdd": (n,)})
    found = closed_loop_inverse_dynamics(model, q, qd, qdd, actuated)
    close(
        graph(np.concatenate([q, qd, qdd])),
        np.concatenate([found.tau, found.missed, [found.rank]]),
        1e-12,
    )


def test_active_loop_joint_forces_reduce_the_required_actuator_forces():
    """tau_ID = H qdd + C - tau^a (RBDA Eq 8.61)."""
    model = actuator_triangle()
    q, qd, qdd, G = triangle_motion(Y, YD, YDD)
    forces = closed_loop_inverse_dynamics(model, q, qd, qdd, [2, 3], loop_tau=np.array([4.0]))
    close(
        G.T @ forces.tau, G.T @ (rnea(model, q, qd, qdd) - active_forces(model, q, np.array([4.0])))
    )
