"""Dynamics compared with Pinocchio.

Pinocchio stores the linear part of 6-vectors first and uses poses instead of transforms.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from random_models import joints_of_all_types, random_parents, random_state, random_tree
from rigidblocks.dynamics import aba, bias_force, crba, kinetic_energy, potential_energy, rnea
from rigidblocks.robot.configuration import difference, integrate, neutral
from rigidblocks.robot.joints import (
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
from rigidblocks.spatial.spatial import xlt

pin = pytest.importorskip("pinocchio", reason="Pinocchio is not installed (`pip install pin`)")
pytestmark = pytest.mark.interop

# relative to the largest element; for solutions with H also times the condition number of H
RTOL = 1e-10
LINEAR_FIRST = [3, 4, 5, 0, 1, 2]


AXES = {(1.0, 0.0, 0.0): "X", (0.0, 1.0, 0.0): "Y", (0.0, 0.0, 1.0): "Z"}


def about_axis(kind, axis, *parameters):
    """Return Pinocchio's joint about or along an axis.

    Pinocchio has one joint type per coordinate axis and an unaligned type for other axes.
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
    """Return the Pinocchio joint and the indices of its variables in the rigidblocks joint."""
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
        case Spherical():  # Pinocchio stores the scalar part last
            return pin.JointModelSpherical(), [1, 2, 3, 0], three
        case SixDoF():
            return pin.JointModelFreeFlyer(), [4, 5, 6, 1, 2, 3, 0], LINEAR_FIRST
        case Planar():  # Pinocchio stores cosine and sine of the angle, see `positions`
            return pin.JointModelPlanar(), [1, 2, 0, 0], [1, 2, 0]
    raise NotImplementedError(joint)


def depth_first(parent, root=-1):
    """Return the bodies in Pinocchio's order: each body is followed by its subtree."""
    children = [i for i, p in enumerate(parent) if p == root]
    return [k for i in children for k in (i, *depth_first(parent, i))]


class Pinocchio:
    """Pinocchio model of the same tree.

    Pinocchio merges a body on a fixed joint into its parent. `q_order` and `v_order` are the
    indices of Pinocchio's variables in the variables of rigidblocks.
    """

    def __init__(self, model):
        self.ours, self.model = model, pin.Model()
        self.model.gravity.linear = model.gravity
        self.body = {-1: (0, pin.SE3.Identity())}  # joint of the body, and pose of the body on it
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
        """Convert the configuration to Pinocchio's variables."""
        there = q[self.q_order]
        for k in self.angles:
            there[k : k + 2] = np.cos(there[k]), np.sin(there[k])
        return there

    def call(self, function, q, *vectors, f_ext=None):
        """Call a Pinocchio function and return its result in the variable order of rigidblocks."""
        q = self.positions(q)
        wrenches = () if f_ext is None else (self._to_joint_coordinates(q, f_ext),)
        result = np.asarray(
            function(
                self.model, self.data, q, *(vector[self.v_order] for vector in vectors), *wrenches
            )
        )
        return result[np.ix_(*[np.argsort(self.v_order)] * result.ndim)]

    def _to_joint_coordinates(self, q, f_ext):
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
    """Return a random joint of a type that both libraries support."""
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
def test_dynamics_of_each_joint_type_match_pinocchio(name, rng):
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


def test_integrate_and_difference_match_pinocchio(pair):
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


def test_rnea_matches_pinocchio(pair):
    model, other, s = pair
    close(rnea(model, s.q, s.qd, s.qdd), other.call(pin.rnea, s.q, s.qd, s.qdd))
    close(
        rnea(model, s.q, s.qd, s.qdd, s.f_ext),
        other.call(pin.rnea, s.q, s.qd, s.qdd, f_ext=s.f_ext),
    )


def test_crba_matches_pinocchio(pair):
    model, other, s = pair
    close(crba(model, s.q), other.call(pin.crba, s.q))


def test_aba_matches_pinocchio(pair):
    model, other, s = pair
    condition = np.linalg.cond(crba(model, s.q))
    close(aba(model, s.q, s.qd, s.tau), other.call(pin.aba, s.q, s.qd, s.tau), condition)
    close(
        aba(model, s.q, s.qd, s.tau, s.f_ext),
        other.call(pin.aba, s.q, s.qd, s.tau, f_ext=s.f_ext),
        condition,
    )


def test_bias_force_and_energy_match_pinocchio(pair):
    model, other, s = pair
    close(bias_force(model, s.q, s.qd), other.call(pin.nonLinearEffects, s.q, s.qd))
    close(kinetic_energy(model, s.q, s.qd), other.call(pin.computeKineticEnergy, s.q, s.qd))
    # relative to a reference configuration: Pinocchio ignores bodies that are fixed to the base
    start = neutral(model)
    theirs = other.call(pin.computePotentialEnergy, s.q) - other.call(
        pin.computePotentialEnergy, start
    )
    close(potential_energy(model, s.q) - potential_energy(model, start), theirs)


def test_pinocchio_motion_vectors_have_the_linear_part_first():
    # both libraries transform the same velocity, [v; w] in Pinocchio and [w; v] in rigidblocks
    X, m = xlt([0.3, -0.2, 0.5]), np.arange(1.0, 7.0)
    expected = pin.SE3(X.E.T, X.r).actInv(pin.Motion(m[LINEAR_FIRST])).vector
    assert_allclose((X @ m)[LINEAR_FIRST], expected, rtol=1e-14)
