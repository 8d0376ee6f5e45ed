"""Robots built by name are the models written by number."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks import (
    Fixed,
    Prismatic,
    Reversed,
    Revolute,
    RobotBuilder,
    aba,
    assemble,
    box_inertia,
    closed_loop_dynamics,
    crba,
    planar_n,
    rnea,
)
from rigidblocks.algebra.spatial import mcI, rotz, xlt
from rigidblocks.dynamics.kinematics import point_position

EXACT = {"rtol": 1e-12, "atol": 1e-12}
ROD = mcI(1.0, [0.5, 0.0, 0.0], np.diag([0.0, 1 / 12, 1 / 12]))


def chain(order=(0, 1, 2)):
    robot = RobotBuilder("chain")
    for k in order:
        parent, at = (f"link{k - 1}", (1, 0, 0)) if k else ("base", (0, 0, 0))
        robot.add_body(f"link{k}", parent, Revolute(), at, ROD)
    return robot


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (2, 1, 0)])
def test_bodies_in_any_order_make_the_same_tree(order, rng):
    model = chain(order).model()
    assert model.body_names == ("link0", "link1", "link2")
    assert model.parent == (-1, 0, 1)
    q, qd, qdd = rng.normal(size=(3, 3))
    expected = rnea(planar_n(3), q, qd, qdd)
    assert_allclose(rnea(model, q, qd, qdd), expected, **EXACT)


def test_a_loop_is_closed_at_the_joint_that_is_farthest_from_the_base():
    robot = RobotBuilder("five")
    for name, parent in (("a", "base"), ("b", "a"), ("c", "b"), ("d", "c")):
        robot.add_body(name, parent, Revolute(), (1, 0, 0), ROD)
    robot.add_joint("closing", "base", "d", Revolute(), (0, 1, 0), (1, 0, 0))
    model = robot.model()
    depth = [0] * model.nb
    for i, p in enumerate(model.parent):
        depth[i] = 1 + (depth[p] if p >= 0 else 0)
    assert max(depth) == 2  # 4 along the chain as it was given
    assert model.loop_names == ("c_joint",)
    assert model.joint_names[model.body_names.index("d")] == "closing"


def linkage(*joints):
    """Four bars in a square with sides of 1 m; the joints of the coupler in any order."""
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
def test_a_linkage_moves_alike_however_its_joints_are_given(joints):
    """Crank and rocker are parallel bars: the torque of 1 N m moves them alike, against the inertia
    of both and of the coupler, which only moves along: 2/3 + 1 kg m^2.
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


def test_a_merged_body_moves_as_one_on_a_rigid_joint(rng):
    robot = chain()
    robot.merge("link2", 0.7)
    model = robot.model()
    fixed = ROD + ROD.to_parent(rotz(0.7) @ xlt([1.0, 0.0, 0.0]))
    assert model.nb == 2
    assert_allclose(model.inertia[1].matrix(), fixed.matrix(), **EXACT)
    q, qd, tau = rng.normal(size=(3, 2))
    whole = planar_n(3)
    H = crba(whole, np.array([*q, 0.7]))
    assert_allclose(crba(model, q), H[:2, :2], **EXACT)
    assert np.all(np.isfinite(aba(model, q, qd, tau)))


def test_frames_of_merged_bodies_stay_where_they_are(rng):
    robot = chain()
    robot.add_frame("tool", "link2", (1, 0, 0))
    robot.merge("link2", 0.4)
    described = robot.description()
    q = rng.normal(size=2)
    body, X = described.frames["tool"]
    expected = point_position(planar_n(3), np.array([*q, 0.4]), 2, np.array([1.0, 0.0, 0.0]))
    assert_allclose(point_position(described.model, q, body, X.r), expected, **EXACT)


def test_cutting_a_body_removes_what_hangs_on_it():
    robot = chain()
    robot.add_body("finger", "link2", Prismatic(), inertia=ROD)
    robot.add_frame("tip", "finger")
    robot.add_coupling("finger_joint", "link0_joint", 2.0)
    robot.cut("link2")
    described = robot.description()
    assert described.model.body_names == ("link0", "link1")
    assert "tip" not in described.frames
    assert described.couplings == ()


def test_what_is_said_of_a_joint_is_kept():
    robot = RobotBuilder("one")
    robot.add_body("a", joint=Revolute(), inertia=ROD, lower=-1.0, upper=2.0, damping=0.5)
    freedoms = robot.description().freedoms
    assert (freedoms.lower[0], freedoms.upper[0], freedoms.damping[0]) == (-1.0, 2.0, 0.5)


def test_inertias_add_up():
    robot = RobotBuilder("two")
    halves = [box_inertia((1, 1, 1), mass=1.0, at=xlt([s, 0.0, 0.0])) for s in (-0.5, 0.5)]
    robot.add_body("a", joint=Revolute(), inertia=halves)
    whole = box_inertia((2, 1, 1), mass=2.0)
    assert_allclose(robot.model().inertia[0].matrix(), whole.matrix(), **EXACT)


def test_a_mass_is_no_inertia():
    with pytest.raises(TypeError, match=r"the inertia of body 'a' is a RigidInertia, .* not 3.0"):
        RobotBuilder("one").add_body("a", joint=Revolute(), inertia=3.0)


def at_rest():
    """A robot of one body that is fixed to the base."""
    robot = RobotBuilder("post")
    robot.add_body("post", joint=Fixed(), inertia=ROD)
    return robot


WRONG = {
    "twice": (lambda r: r.add_body("link0"), "has a body or frame 'link0' already"),
    "base": (lambda r: r.add_body("base"), "has a body or frame 'base' already"),
    "joint": (
        lambda r: r.add_joint("link1_joint", "base", "link2", Fixed()),
        "has a joint 'link1_joint' already",
    ),
    "parent": (
        lambda r: (r.add_body("x", "lnk1", Revolute(), inertia=ROD), r.model()),
        "is on 'lnk1', which is no body of it; did you mean 'link1'?",
    ),
    "loose": (
        lambda r: (r.add_body("x", None, inertia=ROD), r.model()),
        "nothing connects x of robot 'chain' with the base",
    ),
    "cut": (lambda r: r.cut("lnk1"), "no joint hangs body 'lnk1' on another"),
    "freedom": (
        lambda r: r.add_body("x", "link0", Revolute(), stiff=1.0),
        "a joint has no stiff; it has: lower",
    ),
    "limits": (
        lambda r: r.add_body("x", "link0", Revolute(), inertia=ROD, lower=2.0, upper=1.0),
        "the limits of joint 'x_joint' are upside down: lower = .2.0. must not",
    ),
    "at rest": (
        lambda _: at_rest().model(),
        "no joint that moves; its base can, on a floating base: floating=True, --floating",
    ),
    "frame": (lambda r: r.add_frame("link1", "link0"), "already"),
    "at": (lambda r: r.add_frame("f", "link0", (np.nan, 0, 0)), "frame 'f'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_told_by_name(name):
    act, message = WRONG[name]
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        act(chain())
