"""What a model is, and every way that one can be wrong."""

import re
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from random_models import random_tree
from rigidblocks.joint import Fixed, Joint, JointMotion, Prismatic, Reversed, Revolute, SixDoF, Spherical
from rigidblocks.model import Model
from rigidblocks.robots import planar2
from rigidblocks.spatial import RigidInertia, Transform, mcI, xlt


def changed(tuple_, i, value):
    return (*tuple_[:i], value, *tuple_[i + 1 :])


def refuses(message, **changes):
    with pytest.raises(ValueError, match=re.escape(message)):
        replace(planar2(), **changes)


def test_sizes_are_those_of_the_joints(rng):
    tree = random_tree(rng, (-1, 0, 0), (Revolute(), Prismatic(), Revolute()))
    assert (tree.nb, tree.nq, tree.nv) == (3, 3, 3)
    assert tree.q_slices == tree.v_slices == (slice(0, 1), slice(1, 2), slice(2, 3))
    tree = random_tree(rng, (-1, 0, 0, 1), (Reversed(SixDoF()), Fixed(), Spherical(), Revolute()))
    assert (tree.nb, tree.nq, tree.nv) == (4, 12, 10)
    assert tree.q_slices == (slice(0, 7), slice(7, 7), slice(7, 11), slice(11, 12))
    assert tree.v_slices == (slice(0, 6), slice(6, 6), slice(6, 9), slice(9, 10))


def test_names_are_numbered_from_one_unless_given():
    assert planar2().body_names == ("body1", "body2")
    assert planar2().joint_names == ("joint1", "joint2")
    assert replace(planar2(), body_names=("upper", "lower")).body_names == ("upper", "lower")


def test_gravity_is_the_standard_one_unless_given():
    robot = planar2()
    plain = Model("plain", robot.parent, robot.joint, robot.Xtree, robot.inertia)
    assert plain.gravity.tolist() == [0, 0, -9.81]
    assert robot.with_gravity([1, 2, 3]).gravity.tolist() == [1, 2, 3]
    assert robot.gravity.tolist() == [0, 0, -9.81]


def test_model_is_frozen():
    with pytest.raises(FrozenInstanceError):
        planar2().name = "other"


@pytest.mark.parametrize("parent", [(0, 0), (-1, 1), (-1, 2), (-2, 0)])
def test_parent_is_numbered_below_its_child(parent):
    i = 0 if parent[0] != -1 else 1
    refuses(
        f"body {i} of model 'planar2' has parent {parent[i]}; a parent must be numbered below its child, "
        f"so one of -1 (the base) .. {i - 1}",
        parent=parent,
    )


@pytest.mark.parametrize("name", ["parent", "joint", "Xtree", "inertia", "body_names", "joint_names"])
def test_every_list_has_one_entry_a_body(name):
    refuses("model 'planar2' needs one entry a body in every list, not {'parent': ", **{name: getattr(planar2(), name)[:1]})
    refuses(f"joint 1 has no {name}", **{name: getattr(planar2(), name)[:1]})


def test_model_has_bodies():
    with pytest.raises(ValueError, match="model 'empty' has no bodies"):
        Model("empty", (), (), (), ())


@pytest.mark.parametrize("gravity", [(0, 0), (0, 0, 0, 0), 9.81])
def test_gravity_has_three_components(gravity):
    refuses(f"gravity needs 3 components in m/s^2, not shape {np.shape(gravity)}", gravity=gravity)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_model_is_finite(bad):
    robot = planar2()
    refuses("gravity must be finite, not", gravity=(0, bad, 0))
    refuses("Xtree[1] (joint2) of model 'planar2' is not finite: E = ", Xtree=changed(robot.Xtree, 1, xlt([bad, 0, 0])))
    body = RigidInertia(1.0, np.array([0.5, bad, 0]), np.eye(3))
    refuses(
        "the inertia of body 0 (body1) of model 'planar2' is not finite: m = 1.0", inertia=changed(robot.inertia, 0, body)
    )


@pytest.mark.parametrize("E", [np.diag([1.0, 1, -1]), 1.001 * np.eye(3), np.ones((3, 3))])
def test_tree_transform_is_a_rotation(E):
    robot = planar2()
    refuses(
        f"Xtree[1] (joint2) of model 'planar2' has no rotation in E = {E.tolist()}; E E^T must be 1 and det E = 1",
        Xtree=changed(robot.Xtree, 1, Transform(E, np.zeros(3))),
    )


@pytest.mark.parametrize("mass", [0.0, -1.0])
def test_mass_is_positive(mass):
    body = RigidInertia(mass, np.zeros(3), np.eye(3))
    refuses(
        f"body 1 (body2) of model 'planar2' has mass {mass} kg; a mass must be positive",
        inertia=changed(planar2().inertia, 1, body),
    )


@pytest.mark.parametrize("moments", [(1, 1, 3), (-0.1, 1, 1), (0, 0, 1)])
def test_rotational_inertia_is_physical(moments):
    # none negative, and no principal moment above the sum of the others, at any offset of the centre of mass
    refuses(
        "the rotational inertia of body 1 (body2) of model 'planar2' is not physical: its principal moments about the "
        "centre of mass are",
        inertia=changed(planar2().inertia, 1, mcI(2.0, [0.3, 0.2, -0.1], np.diag(moments))),
    )


@pytest.mark.parametrize("moments", [(0, 0, 0), (0, 1, 1), (1, 1, 2), (1, 2, 2.5)])
def test_point_masses_rods_and_discs_are_physical(moments):
    body = mcI(2.0, [0.3, 0.2, -0.1], np.diag(moments))
    assert replace(planar2(), inertia=changed(planar2().inertia, 1, body)).inertia[1] is body


# massless bodies

NOTHING = RigidInertia(0.0, np.zeros(3), np.zeros((3, 3)))


def test_body_without_mass_is_accepted_where_it_is_declared():
    robot = replace(planar2(), inertia=changed(planar2().inertia, 0, NOTHING), massless=["body1"])
    assert robot.massless == ("body1",)
    assert robot.with_gravity([0, 0, 0]).massless == ("body1",)


def test_body_without_mass_is_refused_unless_declared():
    refuses(
        "body 0 (body1) of model 'planar2' has mass 0.0 kg; a mass must be positive, unless all of it is 0 and `massless` "
        "says so",
        inertia=changed(planar2().inertia, 0, NOTHING),
    )


def test_massless_body_has_no_inertia_at_all():
    refuses("body 0 (body1) of model 'planar2' is declared massless; it has m = 1.0, h = [0.5,", massless=("body1",))
    disc = RigidInertia(0.0, np.zeros(3), np.eye(3))
    refuses(
        "body 0 (body1) of model 'planar2' is declared massless; it has m = 0.0",
        inertia=changed(planar2().inertia, 0, disc),
        massless=("body1",),
    )


def test_massless_names_are_those_of_bodies():
    refuses(
        "model 'planar2' has no body link7 to be massless; it has ('body1', 'body2')",
        massless=("link7",),
    )


def test_every_joint_moves_a_mass():
    refuses(
        "joint2 of model 'planar2' moves no mass: body 1 (body2) and all that hangs on it is massless",
        inertia=changed(planar2().inertia, 1, NOTHING),
        massless=("body2",),
    )
    # on a fixed joint it may hang: a frame
    joint = (Revolute(), Fixed())
    frame = replace(planar2(), inertia=changed(planar2().inertia, 1, NOTHING), massless=("body2",), joint=joint)
    assert frame.nv == 1


# joints


def test_joint_is_a_joint():
    with pytest.raises(TypeError, match=re.escape("joint[1] (joint2) of model 'planar2' is 'R'; it must be a joint of")):
        replace(planar2(), joint=(Revolute(), "R"))


class UnitsMissing(Joint):
    nq = nv = 2
    q_units, qd_units, tau_units = ("rad",), ("rad/s", "m/s"), ("N.m", "N")

    def jcalc(self, q, qd):
        return Revolute().jcalc(q, qd)


class Plane(Joint):
    nq = nv = 1
    q_units, qd_units, tau_units = ("rad",), ("rad/s",), ("N.m",)

    def jcalc(self, q, qd):
        del q
        return JointMotion(xlt([0, 0, 0]), np.ones((3, 1)), np.ones(3) * qd, np.zeros(3))


def test_joint_has_a_unit_for_each_of_its_variables():
    refuses("joint[0] (joint1) of model 'planar2' needs one unit a variable; ", joint=(UnitsMissing(), Revolute()))


def test_joint_is_for_spatial_vectors():
    message = "joint[0] (joint1) of model 'planar2' has an S of shape (3, 1); spatial vectors need (6, 1)"
    refuses(message, joint=(Plane(), Revolute()))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            RigidInertia(1.0, np.zeros(2), np.eye(3)),
            "inertia[1] (joint2) of model 'planar2' has h of shape (2,); it needs (3,)",
        ),
        (RigidInertia(1.0, np.zeros(3), np.eye(2)), "inertia[1] (joint2) of model 'planar2' has I of shape (2, 2)"),
    ],
)
def test_inertia_has_the_sizes_of_spatial_vectors(body, message):
    refuses(message, inertia=changed(planar2().inertia, 1, body))


def test_tree_transform_has_the_sizes_of_spatial_vectors():
    X = Transform(np.eye(2), np.zeros(2))
    refuses("Xtree[1] (joint2) of model 'planar2' has E of shape (2, 2)", Xtree=changed(planar2().Xtree, 1, X))
