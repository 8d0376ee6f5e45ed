"""Pinocchio as an oracle. It has the linear part of a 6-vector first, and poses where we have
coordinate transforms.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from random_models import joints_of_all_types, random_parents, random_state, random_tree
from rigidblocks.algebra.spatial import xlt
from rigidblocks.dynamics import aba, bias_force, crba, kinetic_energy, potential_energy, rnea
from rigidblocks.joint import (
    Cylindrical,
    EulerSpherical,
    Fixed,
    Helical,
    Planar,
    Prismatic,
    Revolute,
    SixDoF,
    Spherical,
    Universal,
)
from rigidblocks.model.configuration import difference, integrate, neutral

pin = pytest.importorskip(
    "pinocchio", reason="Pinocchio is not installed (`pip install rigidblocks[interop]`)"
)
pytestmark = pytest.mark.interop

# relative to the largest element, and to the condition of H where a solution with H is behind it
RTOL = 1e-10
LINEAR_FIRST = [3, 4, 5, 0, 1, 2]


AXES = {(1.0, 0.0, 0.0): "X", (0.0, 1.0, 0.0): "Y", (0.0, 0.0, 1.0): "Z"}


def about_axis(kind, axis, *parameters):
    """The joint about or along an axis: of a type of its own for a coordinate axis, else the
    unaligned one.
    """
    if axis in AXES:
        return getattr(pin, f"JointModel{kind[0]}{AXES[axis]}")(*parameters)
    names = {
        "Revolute": "RevoluteUnaligned",
        "Prismatic": "PrismaticUnaligned",
        "Helical": "HelicalUnaligned",
    }
    return getattr(pin, f"JointModel{names[kind]}")(np.array(axis), *parameters)


def composite(*joints):
    whole = pin.JointModelComposite()
    for joint in joints:
        whole.addJoint(joint, pin.SE3.Identity())
    return whole


def pinocchio_joint(joint):
    """Pinocchio's joint, and where its position and velocity variables are in ours."""
    one, two, three = np.arange(1), np.arange(2), np.arange(3)
    match joint:
        case Revolute(axis):
            return about_axis("Revolute", axis), one, one
        case Prismatic(axis):
            return about_axis("Prismatic", axis), one, one
        case Helical(pitch, axis):
            return about_axis("Helical", axis, pitch), one, one
        case Cylindrical(axis):
            return composite(about_axis("Revolute", axis), about_axis("Prismatic", axis)), two, two
        case Universal(first, second) if abs(np.dot(first, second)) < 1e-12:
            return pin.JointModelUniversal(np.array(first), np.array(second)), two, two
        case Universal(first, second):
            return (
                composite(about_axis("Revolute", first), about_axis("Revolute", second)),
                two,
                two,
            )
        case EulerSpherical():
            return pin.JointModelSphericalZYX(), three, three
        case Spherical():  # there the scalar comes last
            return pin.JointModelSpherical(), [1, 2, 3, 0], three
        case SixDoF():
            return pin.JointModelFreeFlyer(), [4, 5, 6, 1, 2, 3, 0], LINEAR_FIRST
        case Planar():  # there with the cosine and sine of the angle, see `positions`
            return pin.JointModelPlanar(), [1, 2, 0, 0], [1, 2, 0]
    raise NotImplementedError(joint)


def depth_first(parent, root=-1):
    """The bodies in the order that Pinocchio wants: each with its whole subtree behind it."""
    children = [i for i, p in enumerate(parent) if p == root]
    return [k for i in children for k in (i, *depth_first(parent, i))]


class Pinocchio:
    """The same tree in Pinocchio. A body on a fixed joint is a part of its parent there.

    `q_order` and `v_order` say which of our variables its variables are.
    """

    def __init__(self, model):
        self.ours, self.model = model, pin.Model()
        self.model.gravity.linear = model.gravity
        self.body = {
            -1: (0, pin.SE3.Identity())
        }  # the joint that carries the body, and where the body is on it
        q_order, v_order, self.angles = [], [], []
        for i in depth_first(model.parent):
            X, joint = model.Xtree[i], model.joint[i]
            carrier, place = self.body[model.parent[i]]
            place = place * pin.SE3(X.E.T, X.r)
            if isinstance(joint, Fixed):
                self.body[i] = carrier, place
            else:
                theirs, q_places, v_places = pinocchio_joint(joint)
                if isinstance(joint, Planar):
                    self.angles.append(len(q_order) + 2)
                q_order += [model.q_slices[i].start + k for k in q_places]
                v_order += [model.v_slices[i].start + k for k in v_places]
                self.body[i] = (
                    self.model.addJoint(carrier, theirs, place, model.joint_names[i]),
                    pin.SE3.Identity(),
                )
            self.model.appendBodyToJoint(
                self.body[i][0], _inertia(model.inertia[i]), self.body[i][1]
            )
        self.q_order, self.v_order = np.array(q_order, dtype=int), np.array(v_order, dtype=int)
        self.data = self.model.createData()

    def positions(self, q):
        """The configuration in Pinocchio's variables."""
        there = q[self.q_order]
        for k in self.angles:
            there[k : k + 2] = np.cos(there[k]), np.sin(there[k])
        return there

    def call(self, function, q, *vectors, f_ext=None):
        """The result of one of Pinocchio's functions of a configuration and vectors, in our
        order.
        """
        q = self.positions(q)
        wrenches = () if f_ext is None else (self._in_joint_coordinates(q, f_ext),)
        result = np.asarray(
            function(
                self.model, self.data, q, *(vector[self.v_order] for vector in vectors), *wrenches
            )
        )
        return result[np.ix_(*[np.argsort(self.v_order)] * result.ndim)]

    def _in_joint_coordinates(self, q, f_ext):
        pin.forwardKinematics(self.model, self.data, q)
        wrenches = [pin.Force.Zero() for _ in range(self.model.njoints)]
        for i, force in enumerate(f_ext):
            carrier, _ = self.body[i]
            wrenches[carrier] += self.data.oMi[carrier].actInv(pin.Force(force[LINEAR_FIRST]))
        forces = pin.StdVec_Force()
        forces.extend(wrenches)
        return forces


def _inertia(body):
    c = body.h / body.m
    return pin.Inertia(body.m, c, body.I - body.m * (c @ c * np.eye(3) - np.outer(c, c)))


def close(actual, expected, condition=1.0):
    assert_allclose(
        actual, expected, rtol=0, atol=RTOL * condition * max(1.0, np.max(np.abs(expected)))
    )


def joints_of_both(rng):
    """A joint of a type that both have, as random as it can be."""
    joints = [
        joint
        for name, joint in joints_of_all_types(rng).items()
        if not (name.startswith("reversed") or name == "rack and pinion")
    ]
    return joints[rng.integers(len(joints))]


@pytest.fixture(params=range(24))
def pair(request):
    rng = np.random.default_rng(request.param)
    parent = random_parents(rng, int(rng.integers(1, 13)))
    model = random_tree(rng, parent, tuple(joints_of_both(rng) for _ in parent))
    return model, Pinocchio(model), random_state(rng, model)


BOTH = [
    name
    for name in joints_of_all_types(np.random.default_rng(0))
    if "reversed" not in name and "rack" not in name
]


@pytest.mark.parametrize("name", BOTH)
def test_each_type_of_joint_equals_pinocchios(name, rng):
    joint = joints_of_all_types(rng)[name]
    model = random_tree(rng, (-1, 0, 1), (joint, Revolute((0.3, 0.4, 0.5)), joint))
    other, s = Pinocchio(model), random_state(rng, model)
    close(
        rnea(model, s.q, s.qd, s.qdd, s.f_ext),
        other.call(pin.rnea, s.q, s.qd, s.qdd, f_ext=s.f_ext),
    )
    condition = np.linalg.cond(crba(model, s.q))
    close(
        aba(model, s.q, s.qd, s.tau, s.f_ext),
        other.call(pin.aba, s.q, s.qd, s.tau, f_ext=s.f_ext),
        condition,
    )


def test_configurations_move_as_pinocchios(pair):
    model, other, s = pair
    dq = s.qd / 2
    moved = integrate(model, s.q, dq)
    there = pin.integrate(other.model, other.positions(s.q), dq[other.v_order])
    same = (
        pin.isSameConfiguration(other.model, there, other.positions(moved), 1e-9)
        if model.nv
        else True
    )
    assert same
    theirs = pin.difference(other.model, other.positions(s.q), there)
    close(difference(model, s.q, moved)[other.v_order], theirs)


def test_rnea_equals_pinocchio(pair):
    model, other, s = pair
    close(rnea(model, s.q, s.qd, s.qdd), other.call(pin.rnea, s.q, s.qd, s.qdd))
    close(
        rnea(model, s.q, s.qd, s.qdd, s.f_ext),
        other.call(pin.rnea, s.q, s.qd, s.qdd, f_ext=s.f_ext),
    )


def test_crba_equals_pinocchio(pair):
    model, other, s = pair
    close(crba(model, s.q), other.call(pin.crba, s.q))


def test_aba_equals_pinocchio(pair):
    model, other, s = pair
    condition = np.linalg.cond(crba(model, s.q))
    close(aba(model, s.q, s.qd, s.tau), other.call(pin.aba, s.q, s.qd, s.tau), condition)
    close(
        aba(model, s.q, s.qd, s.tau, s.f_ext),
        other.call(pin.aba, s.q, s.qd, s.tau, f_ext=s.f_ext),
        condition,
    )


def test_bias_force_and_energy_equal_pinocchio(pair):
    model, other, s = pair
    close(bias_force(model, s.q, s.qd), other.call(pin.nonLinearEffects, s.q, s.qd))
    close(kinetic_energy(model, s.q, s.qd), other.call(pin.computeKineticEnergy, s.q, s.qd))
    # from a reference on, because Pinocchio leaves the bodies out that are fixed to the base
    start = neutral(model)
    theirs = other.call(pin.computePotentialEnergy, s.q) - other.call(
        pin.computePotentialEnergy, start
    )
    close(potential_energy(model, s.q) - potential_energy(model, start), theirs)


def test_pinocchio_has_the_linear_part_first():
    # a spatial transform moves [v; w] there and [w; v] here to the same velocity
    X, m = xlt([0.3, -0.2, 0.5]), np.arange(1.0, 7.0)
    expected = pin.SE3(X.E.T, X.r).actInv(pin.Motion(m[LINEAR_FIRST])).vector
    assert_allclose((X @ m)[LINEAR_FIRST], expected, rtol=1e-14)
