"""Pinocchio as an oracle. It has the linear part of a 6-vector first, and poses where we have coordinate transforms."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from random_models import random_parents, random_state, random_tree
from rigidblocks.dynamics import aba, bias_force, crba, kinetic_energy, potential_energy, rnea
from rigidblocks.joint import Helical, Prismatic
from rigidblocks.spatial import xlt

pin = pytest.importorskip("pinocchio", reason="Pinocchio is not installed (`pip install rigidblocks[interop]`)")
pytestmark = pytest.mark.interop

RTOL = 1e-10  # relative to the largest element, and to the condition of H where a solution with H is behind it
LINEAR_FIRST = [3, 4, 5, 0, 1, 2]


def pinocchio_joint(joint):
    if isinstance(joint, Helical):
        return pin.JointModelHZ(joint.pitch)
    return pin.JointModelPZ() if isinstance(joint, Prismatic) else pin.JointModelRZ()


def depth_first(parent, root=-1):
    """The bodies in the order that Pinocchio wants: each with its whole subtree behind it."""
    children = [i for i, p in enumerate(parent) if p == root]
    return [k for i in children for k in (i, *depth_first(parent, i))]


class Pinocchio:
    """The same tree in Pinocchio; its joints have one variable each, and `order` says which of ours they are."""

    def __init__(self, model):
        self.order = depth_first(model.parent)
        self.model = pin.Model()
        self.model.gravity.linear = model.gravity
        index = {-1: 0}  # body 0 is the base there
        for i in self.order:
            X, body = model.Xtree[i], model.inertia[i]
            placement = pin.SE3(X.E.T, X.r)
            index[i] = self.model.addJoint(
                index[model.parent[i]], pinocchio_joint(model.joint[i]), placement, model.joint_names[i]
            )
            c = body.h / body.m
            I_C = body.I - body.m * (c @ c * np.eye(3) - np.outer(c, c))
            self.model.appendBodyToJoint(index[i], pin.Inertia(body.m, c, I_C), pin.SE3.Identity())
        self.data = self.model.createData()

    def call(self, function, *vectors, f_ext=None):
        """The result of one of Pinocchio's functions of vectors, in our order."""
        there = [vector[self.order] for vector in vectors]
        wrenches = () if f_ext is None else (self._in_body_coordinates(there[0], f_ext),)
        result = np.asarray(function(self.model, self.data, *there, *wrenches))
        return result[np.ix_(*[np.argsort(self.order)] * result.ndim)]

    def _in_body_coordinates(self, q, f_ext):
        pin.forwardKinematics(self.model, self.data, q)
        forces = pin.StdVec_Force()
        forces.append(pin.Force.Zero())
        for k, i in enumerate(self.order):
            forces.append(self.data.oMi[k + 1].actInv(pin.Force(f_ext[i][LINEAR_FIRST])))
        return forces


def close(actual, expected, condition=1.0):
    assert_allclose(actual, expected, rtol=0, atol=RTOL * condition * max(1.0, np.max(np.abs(expected))))


@pytest.fixture(params=range(12))
def pair(request):
    rng = np.random.default_rng(request.param)
    model = random_tree(rng, random_parents(rng, int(rng.integers(1, 13))))
    return model, Pinocchio(model), random_state(rng, model)


def test_rnea_equals_pinocchio(pair):
    model, other, s = pair
    close(rnea(model, s.q, s.qd, s.qdd), other.call(pin.rnea, s.q, s.qd, s.qdd))
    close(rnea(model, s.q, s.qd, s.qdd, s.f_ext), other.call(pin.rnea, s.q, s.qd, s.qdd, f_ext=s.f_ext))


def test_crba_equals_pinocchio(pair):
    model, other, s = pair
    close(crba(model, s.q), other.call(pin.crba, s.q))


def test_aba_equals_pinocchio(pair):
    model, other, s = pair
    condition = np.linalg.cond(crba(model, s.q))
    close(aba(model, s.q, s.qd, s.tau), other.call(pin.aba, s.q, s.qd, s.tau), condition)
    close(aba(model, s.q, s.qd, s.tau, s.f_ext), other.call(pin.aba, s.q, s.qd, s.tau, f_ext=s.f_ext), condition)


def test_bias_force_and_energy_equal_pinocchio(pair):
    model, other, s = pair
    close(bias_force(model, s.q, s.qd), other.call(pin.nonLinearEffects, s.q, s.qd))
    close(kinetic_energy(model, s.q, s.qd), other.call(pin.computeKineticEnergy, s.q, s.qd))
    close(potential_energy(model, s.q), other.call(pin.computePotentialEnergy, s.q))


def test_pinocchio_has_the_linear_part_first():
    # a spatial transform moves [v; w] there and [w; v] here to the same velocity
    X, m = xlt([0.3, -0.2, 0.5]), np.arange(1.0, 7.0)
    expected = pin.SE3(X.E.T, X.r).actInv(pin.Motion(m[LINEAR_FIRST])).vector
    assert_allclose((X @ m)[LINEAR_FIRST], expected, rtol=1e-14)
