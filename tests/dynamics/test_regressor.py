"""Regressor of the inverse dynamics compared with RNEA and Pinocchio."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from loop_models import four_bar
from pinocchio_trees import in_pinocchio
from planar_models import random_planar_state, random_planar_tree
from random_models import MODELS, random_inertia, random_state, random_tree
from rigidblocks import Prismatic, Revolute, Spherical, compiled_dynamics
from rigidblocks.dynamics import (
    inertial_parameters,
    regressor,
    replace_inertial_parameters,
    rnea,
)
from rigidblocks.dynamics.regressor import parameter_names

RTOL = 1e-12  # of two exact methods, relative to the largest element


def close(actual, expected):
    assert_allclose(actual, expected, rtol=0, atol=RTOL * np.max(np.abs(expected)))


@pytest.mark.parametrize("name", MODELS)
def test_regressor_times_the_inertial_parameters_equals_the_joint_forces(name):
    """The regressor does not depend on the bodies: other bodies have the same regressor."""
    rng = np.random.default_rng(11)
    model = MODELS[name]()
    s = random_state(rng, model)
    Y = regressor(model, s.q, s.qd, s.qdd)
    assert Y.shape == (model.nv, 10 * model.nb)
    other = replace_inertial_parameters(
        model,
        np.concatenate(
            [
                [b.m, *b.h, *np.diag(b.I), b.I[0, 1], b.I[0, 2], b.I[1, 2]]
                for b in (random_inertia(rng) for _ in range(model.nb))
            ]
        ),
    )
    for one in (model, other):
        close(Y @ inertial_parameters(one), rnea(one, s.q, s.qd, s.qdd))
    gravity = np.array([0.3, -2.0, 5.0])
    close(
        regressor(model, s.q, s.qd, s.qdd, gravity) @ inertial_parameters(model),
        rnea(model, s.q, s.qd, s.qdd, gravity=gravity),
    )


def test_planar_regressor_times_the_inertial_parameters_equals_the_joint_forces():
    rng = np.random.default_rng(12)
    model = random_planar_tree(rng, (-1, 0, 1, 1, 0)).with_gravity((0.4, -9.0))
    s = random_planar_state(rng, model)
    assert parameter_names(model) == ("m", "hx", "hy", "I")
    close(regressor(model, s.q, s.qd, s.qdd) @ inertial_parameters(model), rnea(model, *s[:3]))


@pytest.mark.parametrize(
    "name", ["planar2", *(pytest.param(n, marks=pytest.mark.slow) for n in ("mixed", "satellite"))]
)
def test_compiled_regressor_equals_the_regressor_in_numpy(name):
    rng = np.random.default_rng(13)
    model = MODELS[name]()
    states = [random_state(rng, model) for _ in range(9)]
    batch = compiled_dynamics(model, "regressor", batch=True)
    together = batch(*(np.array([s[k] for s in states]) for k in range(3)))
    compiled = compiled_dynamics(model, "regressor")
    for s, Y in zip(states, together, strict=True):
        close(compiled(s.q, s.qd, s.qdd), regressor(model, s.q, s.qd, s.qdd))
        close(Y, regressor(model, s.q, s.qd, s.qdd))


@pytest.mark.interop
def test_regressor_equals_the_regressor_of_pinocchio():
    pin = pytest.importorskip("pinocchio", reason="Pinocchio is not installed (`pip install pin`)")
    rng = np.random.default_rng(14)
    ours_of_theirs = [0, 1, 2, 3, 4, 6, 9, 5, 7, 8]  # Pinocchio: m, h, xx, xy, yy, xz, yz, zz
    for joints in (
        (Revolute(),) * 7,
        (Prismatic(), Revolute(), Prismatic(), Revolute()),
        (Revolute(), Spherical(), Revolute()),
    ):
        parent = tuple(range(-1, len(joints) - 1))
        model = random_tree(rng, parent, joints)
        theirs, data = in_pinocchio(pin, model)
        s = random_state(rng, model)
        q = s.q.copy()
        if Spherical() in joints:  # Pinocchio stores quaternions as x, y, z, w
            q[1:5] = np.roll(s.q[1:5], -1)
        expected = pin.computeJointTorqueRegressor(theirs, data, q, s.qd, s.qdd)
        expected = expected.reshape(model.nv, -1, 10)[:, :, ours_of_theirs].reshape(model.nv, -1)
        close(regressor(model, s.q, s.qd, s.qdd), expected)


def test_regressor_columns_of_bodies_outside_the_subtree_of_a_joint_are_zero():
    model = MODELS["branched"]()
    s = random_state(np.random.default_rng(15), model)
    Y = regressor(model, s.q, s.qd, s.qdd)
    for i in range(model.nb):
        for body in range(model.nb):
            above, k = {body}, body
            while (k := model.parent[k]) >= 0:
                above.add(k)
            if i not in above:
                assert_array_equal(Y[model.v_slices[i], 10 * body : 10 * body + 10], 0.0)


def test_inertial_parameters_set_in_a_model_are_read_back_unchanged():
    model = four_bar()
    phi = 2.0 * inertial_parameters(model)
    assert_allclose(inertial_parameters(replace_inertial_parameters(model, phi)), phi)


def test_physically_impossible_inertial_parameters_are_rejected():
    model = four_bar()
    phi = inertial_parameters(model)
    phi[4] = -phi[4]
    with pytest.raises(ValueError, match=r"inertia"):
        replace_inertial_parameters(model, phi)


def test_inertial_parameters_of_the_wrong_length_are_rejected():
    with pytest.raises(ValueError, match=r"have the shape \(3,\); expected \(30,\), 10 for each"):
        replace_inertial_parameters(four_bar(), [1.0, 2.0, 3.0])


def test_wrong_lengths_of_regressor_arguments_are_rejected():
    with pytest.raises(ValueError, match="qdd"):
        regressor(four_bar(), np.zeros(3), np.zeros(3), np.zeros(2))
