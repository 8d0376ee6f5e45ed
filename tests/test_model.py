"""What a model is, and every way that one can be wrong."""

import re
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from random_models import random_tree
from rigidblocks.joint import Prismatic, Revolute
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
