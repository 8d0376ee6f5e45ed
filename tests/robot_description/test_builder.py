"""Robots of `RobotBuilder` compared with models that are written with body numbers."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks import (
    Fixed,
    Prismatic,
    Revolute,
    RobotBuilder,
    aba,
    assemble,
    box_inertia,
    crba,
    rnea,
)
from rigidblocks.dynamics.kinematics import point_position
from rigidblocks.dynamics.loops import closed_loop_dynamics
from rigidblocks.robot.joints import Reversed
from rigidblocks.robot.robots import planar_n
from rigidblocks.spatial.spatial import mcI, rotz, xlt

EXACT = {"rtol": 1e-12, "atol": 1e-12}
ROD = mcI(1.0, [0.5, 0.0, 0.0], np.diag([0.0, 1 / 12, 1 / 12]))


def chain(order=(0, 1, 2)):
    robot = RobotBuilder("chain")
    for k in order:
        parent, at = (f"link{k - 1}", (1, 0, 0)) if k else ("base", (0, 0, 0))
        robot.add_body(f"link{k}", parent, Revolute(), at, ROD)
    return robot


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (2, 1, 0)])
def test_kinematic_tree_does_not_depend_on_the_order_in_which_bodies_are_added(order, rng):
    model = chain(order).model()
    assert model.body_names == ("link0", "link1", "link2")
    assert model.parent == (-1, 0, 1)
    q, qd, qdd = rng.normal(size=(3, 3))
    expected = rnea(planar_n(3), q, qd, qdd)
    assert_allclose(rnea(model, q, qd, qdd), expected, **EXACT)


def test_loop_is_cut_at_the_joint_farthest_from_the_base():
    robot = RobotBuilder("five")
    for name, parent in (("a", "base"), ("b", "a"), ("c", "b"), ("d", "c")):
        robot.add_body(name, parent, Revolute(), (1, 0, 0), ROD)
    robot.add_joint("closing", "base", "d", Revolute(), (0, 1, 0), (1, 0, 0))
    model = robot.model()
    depth = [0] * model.nb
    for i, p in enumerate(model.parent):
        depth[i] = 1 + (depth[p] if p >= 0 else 0)
    assert max(depth) == 2  # the depth is 4 in the given chain
    assert model.loop_names == ("c_joint",)
    assert model.joint_names[model.body_names.index("d")] == "closing"


def linkage(*joints):
    """Return a square four-bar with sides of 1 m and the coupler joints in the given order."""
    robot = RobotBuilder("square")
    robot.add_body("crank", joint=Revolute(), inertia=ROD)
    robot.add_body("rocker", joint=Revolute(), at=(1, 0, 0), inertia=ROD)
    robot.add_body("coupler", None, inertia=ROD)
    for name in joints:
        ends, here, there = COUPLER[name]
        robot.add_joint(name, *ends, Revolute(), here, there)
    return robot.model()


COUPLER = {
    "tip": (("crank", "coupler"), (1, 0, 0), (0, 0, 0)),
    "pin": (("rocker", "coupler"), (1, 0, 0), (1, 0, 0)),
    "turned": (("coupler", "rocker"), (1, 0, 0), (1, 0, 0)),
}


@pytest.mark.parametrize("joints", [("pin", "tip"), ("turned", "tip"), ("tip", "pin")])
def test_accelerations_do_not_depend_on_the_order_of_loop_joints(joints):
    """Crank and rocker are parallel, so both have the acceleration 1 N m / (2/3 + 1) kg m^2.

    2/3 is the inertia of crank and rocker; 1 is the contribution of the coupler, which translates.
    """
    model = linkage(*joints).with_gravity((0.0, 0.0, 0.0))
    names = model.body_names
    guess = np.zeros(3)
    guess[[names.index("crank"), names.index("rocker")]] = np.pi / 2
    k = names.index("coupler")
    guess[k] = np.pi / 2 if isinstance(model.joint[k], Reversed) else -np.pi / 2
    tau = np.zeros(3)
    tau[names.index("crank")] = 1.0
    qdd = closed_loop_dynamics(model, assemble(model, guess), np.zeros(3), tau).qdd
    for name in ("crank", "rocker"):
        assert_allclose(qdd[names.index(name)], 1 / (2 / 3 + 1), rtol=1e-9)


def test_merged_body_has_the_dynamics_of_a_body_on_a_fixed_joint(rng):
    robot = chain()
    robot.merge("link2", 0.7)
    model = robot.model()
    fixed = ROD + ROD.transform_to_parent(rotz(0.7) @ xlt([1.0, 0.0, 0.0]))
    assert model.nb == 2
    assert_allclose(model.inertia[1].matrix(), fixed.matrix(), **EXACT)
    q, qd, tau = rng.normal(size=(3, 2))
    whole = planar_n(3)
    H = crba(whole, np.array([*q, 0.7]))
    assert_allclose(crba(model, q), H[:2, :2], **EXACT)
    assert np.all(np.isfinite(aba(model, q, qd, tau)))


def test_merging_a_body_does_not_change_the_poses_of_its_frames(rng):
    robot = chain()
    robot.add_frame("tool", "link2", (1, 0, 0))
    robot.merge("link2", 0.4)
    described = robot.description()
    q = rng.normal(size=2)
    body, X = described.frames["tool"]
    expected = point_position(planar_n(3), np.array([*q, 0.4]), 2, np.array([1.0, 0.0, 0.0]))
    assert_allclose(point_position(described.model, q, body, X.r), expected, **EXACT)


def test_removing_a_body_removes_its_descendants_frames_and_couplings():
    robot = chain()
    robot.add_body("finger", "link2", Prismatic(), inertia=ROD)
    robot.add_frame("tip", "finger")
    robot.add_coupling("finger_joint", "link0_joint", 2.0)
    robot.cut("link2")
    described = robot.description()
    assert described.model.body_names == ("link0", "link1")
    assert "tip" not in described.frames
    assert described.couplings == ()


def test_robot_builder_stores_the_limits_and_friction_of_joints():
    robot = RobotBuilder("one")
    robot.add_body("a", joint=Revolute(), inertia=ROD, lower=-1.0, upper=2.0, damping=0.5)
    freedoms = robot.description().joint_properties
    assert (freedoms.lower[0], freedoms.upper[0], freedoms.damping[0]) == (-1.0, 2.0, 0.5)


def test_robot_builder_adds_all_inertias_that_belong_to_one_body():
    robot = RobotBuilder("two")
    halves = [box_inertia((1, 1, 1), mass=1.0, at=xlt([s, 0.0, 0.0])) for s in (-0.5, 0.5)]
    robot.add_body("a", joint=Revolute(), inertia=halves)
    whole = box_inertia((2, 1, 1), mass=2.0)
    assert_allclose(robot.model().inertia[0].matrix(), whole.matrix(), **EXACT)


def test_robot_builder_rejects_a_number_as_inertia():
    with pytest.raises(
        TypeError, match=r"the inertia of body 'a' must be a RigidInertia, .* not 3.0"
    ):
        RobotBuilder("one").add_body("a", joint=Revolute(), inertia=3.0)


def at_rest():
    """Return a robot with one body that is fixed to the base."""
    robot = RobotBuilder("post")
    robot.add_body("post", joint=Fixed(), inertia=ROD)
    return robot


WRONG = {
    "twice": (lambda r: r.add_body("link0"), "already has a body or frame 'link0'"),
    "base": (lambda r: r.add_body("base"), "already has a body or frame 'base'"),
    "joint": (
        lambda r: r.add_joint("link1_joint", "base", "link2", Fixed()),
        "already has a joint 'link1_joint'",
    ),
    "parent": (
        lambda r: (r.add_body("x", "lnk1", Revolute(), inertia=ROD), r.model()),
        "is on unknown body 'lnk1'; did you mean 'link1'?",
    ),
    "loose": (
        lambda r: (r.add_body("x", None, inertia=ROD), r.model()),
        "no joints connect x of robot 'chain' to the base",
    ),
    "cut": (lambda r: r.cut("lnk1"), "body 'lnk1' has no joint to a parent"),
    "freedom": (
        lambda r: r.add_body("x", "link0", Revolute(), stiff=1.0),
        "unknown joint property 'stiff'; expected one of lower",
    ),
    "limits": (
        lambda r: r.add_body("x", "link0", Revolute(), inertia=ROD, lower=2.0, upper=1.0),
        "the limits of joint 'x_joint' are reversed: lower = .2.0. must not",
    ),
    "at rest": (
        lambda _: at_rest().model(),
        "no movable joint; for a floating base, use floating=True or the option --floating",
    ),
    "frame": (lambda r: r.add_frame("link1", "link0"), "already"),
    "at": (lambda r: r.add_frame("f", "link0", (np.nan, 0, 0)), "frame 'f'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_robot_builder_errors_identify_the_invalid_argument(name):
    act, message = WRONG[name]
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        act(chain())
