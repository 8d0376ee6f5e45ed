"""Fields of a model, and errors of invalid models."""

import re
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace

import numpy as np
import pytest

from random_models import random_transform, random_tree
from rigidblocks import HybridPlant, RobotPlant, compiled_dynamics, derivatives
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.memory_layout import Memory
from rigidblocks.dynamics import aba, hybrid_dynamics, rnea
from rigidblocks.robot.configuration import neutral
from rigidblocks.robot.joints import (
    Fixed,
    Joint,
    JointMotion,
    LoopJoint,
    PlanarRevolute,
    Prismatic,
    Reversed,
    Revolute,
    SixDoF,
    Spherical,
)
from rigidblocks.robot.model import Model, PlanarModel
from rigidblocks.robot.robots import auto_tree, auto_tree_p, bennett, planar2, quadruped
from rigidblocks.spatial import planar
from rigidblocks.spatial.spatial import RigidInertia, Transform, identity, mcI, xlt


def changed(tuple_, i, value):
    return (*tuple_[:i], value, *tuple_[i + 1 :])


def refuses(message, **changes):
    with pytest.raises(ValueError, match=re.escape(message)):
        replace(planar2(), **changes)


def test_numbers_of_model_variables_are_sums_over_the_joints(rng):
    tree = random_tree(rng, (-1, 0, 0), (Revolute(), Prismatic(), Revolute()))
    assert (tree.nb, tree.nq, tree.nv) == (3, 3, 3)
    assert tree.q_slices == tree.v_slices == (slice(0, 1), slice(1, 2), slice(2, 3))
    tree = random_tree(rng, (-1, 0, 0, 1), (Reversed(SixDoF()), Fixed(), Spherical(), Revolute()))
    assert (tree.nb, tree.nq, tree.nv) == (4, 12, 10)
    assert tree.q_slices == (slice(0, 7), slice(7, 7), slice(7, 11), slice(11, 12))
    assert tree.v_slices == (slice(0, 6), slice(6, 6), slice(6, 9), slice(9, 10))


def test_default_body_and_joint_names_are_numbered_from_one():
    assert planar2().body_names == ("body1", "body2")
    assert planar2().joint_names == ("joint1", "joint2")
    assert replace(planar2(), body_names=("upper", "lower")).body_names == ("upper", "lower")


def test_default_gravity_is_9_81_along_minus_z():
    robot = planar2()
    plain = Model("plain", robot.parent, robot.joint, robot.Xtree, robot.inertia)
    assert plain.gravity.tolist() == [0, 0, -9.81]
    assert robot.with_gravity([1, 2, 3]).gravity.tolist() == [1, 2, 3]
    assert robot.gravity.tolist() == [0, 0, -9.81]


def test_model_fields_cannot_be_assigned():
    with pytest.raises(FrozenInstanceError):
        planar2().name = "other"


@pytest.mark.parametrize("parent", [(0, 0), (-1, 1), (-1, 2), (-2, 0)])
def test_parent_with_a_larger_number_than_its_child_is_rejected(parent):
    i = 0 if parent[0] != -1 else 1
    refuses(
        f"body {i} of model 'planar2' has the parent {parent[i]}; a parent must have a "
        "smaller index "
        f"than its child: -1 (the base) .. {i - 1}",
        parent=parent,
    )


@pytest.mark.parametrize(
    "name", ["parent", "joint", "Xtree", "inertia", "body_names", "joint_names"]
)
def test_model_is_rejected_unless_each_list_has_one_entry_per_body(name):
    refuses(
        "every list of model 'planar2' needs one entry for each body, not {'parent': ",
        **{name: getattr(planar2(), name)[:1]},
    )
    refuses(f"joint 1 has no {name}", **{name: getattr(planar2(), name)[:1]})


def test_model_without_bodies_is_rejected():
    with pytest.raises(ValueError, match="model 'empty' has no bodies"):
        Model("empty", (), (), (), ())


@pytest.mark.parametrize("gravity", [(0, 0), (0, 0, 0, 0), 9.81])
def test_gravity_without_three_components_is_rejected(gravity):
    refuses(f"gravity needs 3 components in m/s^2, not shape {np.shape(gravity)}", gravity=gravity)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nonfinite_model_values_are_rejected(bad):
    robot = planar2()
    refuses("gravity must be finite, not", gravity=(0, bad, 0))
    refuses(
        "Xtree[1] (joint2) of model 'planar2' is not finite: E = ",
        Xtree=changed(robot.Xtree, 1, xlt([bad, 0, 0])),
    )
    body = RigidInertia(1.0, np.array([0.5, bad, 0]), np.eye(3))
    refuses(
        "the inertia of body 0 (body1) of model 'planar2' is not finite: m = 1.0",
        inertia=changed(robot.inertia, 0, body),
    )


@pytest.mark.parametrize("E", [np.diag([1.0, 1, -1]), 1.001 * np.eye(3), np.ones((3, 3))])
def test_tree_transform_with_an_invalid_rotation_matrix_is_rejected(E):
    robot = planar2()
    refuses(
        f"Xtree[1] (joint2) of model 'planar2' has E = {E.tolist()}, which is not a rotation; "
        "E E^T must be 1 and det E must be 1",
        Xtree=changed(robot.Xtree, 1, Transform(E, np.zeros(3))),
    )


@pytest.mark.parametrize("mass", [0.0, -1.0])
def test_body_with_a_nonpositive_mass_is_rejected(mass):
    body = RigidInertia(mass, np.zeros(3), np.eye(3))
    refuses(
        f"body 1 (body2) of model 'planar2' has mass {mass} kg; the mass must be positive",
        inertia=changed(planar2().inertia, 1, body),
    )


@pytest.mark.parametrize("moments", [(1, 1, 3), (-0.1, 1, 1), (0, 0, 1)])
def test_unphysical_rotational_inertia_is_rejected(moments):
    # principal moments must not be negative or larger than the sum of the other two, for any offset
    # of the centre of mass
    refuses(
        "the rotational inertia of body 1 (body2) of model 'planar2' is not physical: its "
        "principal moments about the "
        "centre of mass are",
        inertia=changed(planar2().inertia, 1, mcI(2.0, [0.3, 0.2, -0.1], np.diag(moments))),
    )


@pytest.mark.parametrize("moments", [(0, 0, 0), (0, 1, 1), (1, 1, 2), (1, 2, 2.5)])
def test_inertias_of_point_masses_rods_and_discs_are_accepted(moments):
    body = mcI(2.0, [0.3, 0.2, -0.1], np.diag(moments))
    robot = replace(planar2(), inertia=changed(planar2().inertia, 1, body))
    assert np.array_equal(robot.inertia[1].matrix(), body.matrix())


ASYMMETRIC = np.array([[1.0, 0.1, 0.0], [0.3, 1.0, 0.0], [0.0, 0.0, 1.5]])


def test_asymmetric_rotational_inertia_is_rejected():
    message = (
        "the rotational inertia I_C of a body of 2.0 kg must be symmetric: its entries [0, 1] = "
        "0.1 and [1, 0] = 0.3 kg m^2 must be equal"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        mcI(2.0, [0.3, 0.2, -0.1], ASYMMETRIC)
    refuses(
        "the rotational inertia of body 1 (body2) of model 'planar2' must be symmetric: its "
        "entries [0, 1] = 0.1 and [1, 0] = 0.3 kg m^2",
        inertia=changed(planar2().inertia, 1, RigidInertia(1.0, np.zeros(3), ASYMMETRIC)),
    )


def test_inertia_that_is_symmetric_up_to_rounding_is_accepted(rng):
    E = random_transform(rng).E
    I = E @ np.diag([1.0, 2.0, 2.5]) @ E.T
    I[0, 1] = np.nextafter(I[1, 0], np.inf)
    assert mcI(1.0, np.zeros(3), I).m == 1.0


def arrays(part, where):
    """Yield the path and the value of each array in a part of a model."""
    if isinstance(part, np.ndarray):
        yield where, part
    elif isinstance(part, tuple):
        for i, one in enumerate(part):
            yield from arrays(one, f"{where}[{i}]")
    elif is_dataclass(part):
        for member in fields(part):
            yield from arrays(getattr(part, member.name), f"{where}.{member.name}")


MODELS = {
    "tree with loops": lambda: bennett().model,
    "shapes to draw": lambda: auto_tree(3),
    "shapes to touch": quadruped,
    "planar": lambda: auto_tree_p(2),
    "planar loops": lambda: PlanarModel(
        "loop",
        (-1, -1),
        (PlanarRevolute(), PlanarRevolute()),
        (planar.identity(), planar.xlt([1.0, 0.0])),
        (planar.mcI(1.0, [0.5, 0.0], 0.1),) * 2,
        loops=[LoopJoint(PlanarRevolute(), 0, 1, planar.xlt([1.0, 0.0]), planar.xlt([1.0, 0.0]))],
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_all_arrays_of_a_model_are_read_only(name):
    found = dict(arrays(MODELS[name](), name))
    assert len(found) > 4
    assert [where for where, array in found.items() if array.flags.writeable] == []


def test_changing_an_argument_array_does_not_change_the_model():
    I, r, g = np.diag([1.0, 1.0, 1.0]), np.zeros(3), np.array([0.0, 0.0, -1.0])
    body = RigidInertia(1.0, np.zeros(3), I)
    model = Model("own", (-1,), (Revolute(),), (Transform(np.eye(3), r),), (body,), g)
    I *= 10
    r += 1
    g += 1
    assert model.inertia[0].I[2, 2] == 1.0
    assert model.Xtree[0].r[0] == 0.0
    assert model.gravity[2] == -1.0
    with pytest.raises(ValueError, match="read-only"):
        model.inertia[0].I[2, 2] *= 10


# massless bodies

NOTHING = RigidInertia(0.0, np.zeros(3), np.zeros((3, 3)))


def test_body_without_mass_is_accepted_if_it_is_declared_massless():
    robot = replace(planar2(), inertia=changed(planar2().inertia, 0, NOTHING), massless=["body1"])
    assert robot.massless == ("body1",)
    assert robot.with_gravity([0, 0, 0]).massless == ("body1",)


def test_body_without_mass_is_rejected_unless_it_is_declared_massless():
    refuses(
        "body 0 (body1) of model 'planar2' has mass 0.0 kg; the mass must be positive, or the "
        "whole inertia must be 0 and `massless` must contain the body",
        inertia=changed(planar2().inertia, 0, NOTHING),
    )


def test_body_with_inertia_is_rejected_if_it_is_declared_massless():
    refuses(
        "body 0 (body1) of model 'planar2' is in `massless` but has m = 1.0, h = [0.5,",
        massless=("body1",),
    )
    disc = RigidInertia(0.0, np.zeros(3), np.eye(3))
    refuses(
        "body 0 (body1) of model 'planar2' is in `massless` but has m = 0.0",
        inertia=changed(planar2().inertia, 0, disc),
        massless=("body1",),
    )


def test_unknown_name_in_the_list_of_massless_bodies_is_rejected():
    refuses(
        "unknown body link7 in `massless` of model 'planar2'; expected names of ('body1', 'body2')",
        massless=("link7",),
    )


def test_joint_that_moves_only_massless_bodies_is_rejected():
    refuses(
        "joint2 of model 'planar2' moves no mass: body 1 (body2) and all its descendants are "
        "massless",
        inertia=changed(planar2().inertia, 1, NOTHING),
        massless=("body2",),
    )
    # a massless body on a fixed joint is valid: it is a frame
    joint = (Revolute(), Fixed())
    frame = replace(
        planar2(), inertia=changed(planar2().inertia, 1, NOTHING), massless=("body2",), joint=joint
    )
    assert frame.nv == 1


POINT = mcI(1.0, np.zeros(3), np.zeros((3, 3)))
BALL = mcI(1.0, [0.3, 0.0, 0.0], np.eye(3))
DEGENERATE = {
    "joint1": [
        # joints with dependent motions and a massless body between them
        ((Revolute(), Revolute()), (identity(), xlt([0, 0, 0.4])), (NOTHING, BALL)),
        ((Revolute(), Prismatic(), Revolute()), (identity(),) * 3, (NOTHING, NOTHING, BALL)),
        ((Prismatic(), Prismatic()), (identity(), xlt([1, 2, 3])), (NOTHING, BALL)),
        ((Spherical(), Revolute((1, 2, 3))), (identity(),) * 2, (NOTHING, BALL)),
    ],
    "joint2": [
        # a point mass on the joint axis, or a point mass on a spherical joint
        ((Revolute(), Revolute()), (identity(), xlt([1, 0, 0])), (BALL, POINT)),
        ((Revolute(), Spherical()), (identity(),) * 2, (BALL, mcI(1, [1, 2, 3], 0 * np.eye(3)))),
        ((Revolute(), SixDoF()), (identity(),) * 2, (BALL, POINT)),
    ],
}


@pytest.mark.parametrize(
    ("name", "parts"), [(name, parts) for name, some in DEGENERATE.items() for parts in some]
)
def test_joint_without_inertia_is_rejected_by_forward_dynamics(name, parts):
    joint, Xtree, inertia = parts
    massless = tuple(f"body{i + 1}" for i, body in enumerate(inertia) if body is NOTHING)
    model = Model(
        "idle", tuple(range(-1, len(joint) - 1)), joint, Xtree, inertia, massless=massless
    )
    q, zero = neutral(model), np.zeros(model.nv)
    for forward in (
        lambda: aba(model, q, zero, zero),
        lambda: compiled_dynamics(model, "aba"),
        lambda: derivatives(model, "aba"),
        lambda: RobotPlant(model),
    ):
        with pytest.raises(ValueError, match=f"{name} of model 'idle' can move without moving"):
            forward()
    assert np.all(np.isfinite(rnea(model, q, zero, zero)))  # inverse dynamics has a solution


def test_joint_without_inertia_may_have_a_rotor_or_a_prescribed_acceleration():
    parts = (Revolute(),) * 2, (identity(), xlt([1, 0, 0])), (BALL, POINT)
    model, zero = Model("wrist", (-1, 0), *parts), np.zeros(2)
    plant = RobotPlant(model, rotor_inertia=[0.0, 0.1])
    assert np.all(np.isfinite(NumpyEvaluator(Memory(plant)).derivative(Memory(plant).start())))
    assert np.all(np.isfinite(hybrid_dynamics(model, [1, 0], zero, zero, zero, zero).qdd))
    HybridPlant(model, prescribed=("joint2",))
    with pytest.raises(ValueError, match="joint2 of model 'wrist' can move without moving"):
        HybridPlant(model, prescribed=("joint1",))


def test_planar_joint_without_inertia_is_rejected():
    parts = (PlanarRevolute(),) * 2, (planar.identity(),) * 2
    inertia = (planar.RigidInertia(0.0, np.zeros(2), 0.0), planar.mcI(1.0, [0.5, 0.0], 0.1))
    model, zero = PlanarModel("flat", (-1, 0), *parts, inertia, massless=("body1",)), np.zeros(2)
    with pytest.raises(ValueError, match=r"^joint1 of model 'flat' can move without moving any"):
        aba(model, zero, zero, zero)


@pytest.mark.parametrize("size", [1e-6, 1e-3, 1e3])
def test_model_with_very_small_or_large_bodies_and_a_light_parent_is_accepted(size):
    """A ball of radius `size` rotates on an equal body and on a body of a millionth of its mass."""
    ball = mcI(size**3, np.zeros(3), 0.4 * size**5 * np.eye(3))
    light = mcI(1e-6 * size**3, np.zeros(3), 0.4e-6 * size**5 * np.eye(3))
    for first in (ball, light):
        model = Model("small", (-1, 0), (Revolute(),) * 2, (identity(),) * 2, (first, ball))
        assert np.all(np.isfinite(aba(model, np.zeros(2), np.zeros(2), np.ones(2))))


# joints


def test_model_rejects_an_object_that_is_not_a_joint():
    with pytest.raises(
        TypeError,
        match=re.escape("joint[1] (joint2) of model 'planar2' is 'R'; it must be a joint of"),
    ):
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


def test_joint_is_rejected_unless_it_has_one_unit_per_variable():
    refuses(
        "joint[0] (joint1) of model 'planar2' needs one unit per variable; ",
        joint=(UnitsMissing(), Revolute()),
    )


def test_joint_with_a_planar_motion_subspace_is_rejected():
    message = (
        "joint[0] (joint1) of model 'planar2' has an S of shape (3, 1); spatial vectors need (6, 1)"
    )
    refuses(message, joint=(Plane(), Revolute()))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            RigidInertia(1.0, np.zeros(2), np.eye(3)),
            "inertia[1] (joint2) of model 'planar2' has h of shape (2,); it needs (3,)",
        ),
        (
            RigidInertia(1.0, np.zeros(3), np.eye(2)),
            "inertia[1] (joint2) of model 'planar2' has I of shape (2, 2)",
        ),
    ],
)
def test_inertia_with_wrong_array_shapes_is_rejected(body, message):
    refuses(message, inertia=changed(planar2().inertia, 1, body))


def test_planar_tree_transform_in_a_spatial_model_is_rejected():
    X = Transform(np.eye(2), np.zeros(2))
    refuses(
        "Xtree[1] (joint2) of model 'planar2' has E of shape (2, 2)",
        Xtree=changed(planar2().Xtree, 1, X),
    )
