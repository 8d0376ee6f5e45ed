from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from random_models import joints_of_all_types, random_parents, random_state, random_tree
from rigidblocks.dynamics import aba, crba, rnea
from rigidblocks.dynamics.model_reduction import equivalent, split_inertia
from rigidblocks.robot.joints import Prismatic, Revolute, Spherical
from rigidblocks.robot.robots import auto_tree, planar_n
from rigidblocks.spatial.spatial import crf, rotx, rotz, xlt

# relative to the largest element; for solutions with H also times the condition number of H
RTOL = 1e-10
TABLE = [Revolute(), Prismatic(), Prismatic((0.6, 0.0, 0.8)), Spherical()]  # RBDA Table 9.7


def close(actual, expected, condition=1.0):
    assert_allclose(
        actual, expected, rtol=0, atol=RTOL * condition * max(1.0, np.max(np.abs(expected)))
    )


def tree(seed, joints=None):
    rng = np.random.default_rng(seed)
    joints = joints or tuple(joints_of_all_types(rng).values())
    model = random_tree(rng, random_parents(rng, len(joints)), joints)
    return model, random_state(rng, model)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("joints", [None, (Revolute(),) * 9], ids=["all joints", "revolute"])
def test_equivalent_model_has_the_equation_of_motion_of_the_original_model(seed, joints):
    model, s = tree(seed, joints)
    other = equivalent(model)
    for f_ext in (None, s.f_ext):
        close(rnea(other, s.q, s.qd, s.qdd, f_ext), rnea(model, s.q, s.qd, s.qdd, f_ext))
        condition = np.linalg.cond(crba(model, s.q))
        close(aba(other, s.q, s.qd, s.tau, f_ext), aba(model, s.q, s.qd, s.tau, f_ext), condition)
    close(crba(other, s.q), crba(model, s.q))
    gravity = np.array([1.0, 2.0, 3.0])
    close(
        rnea(other, s.q, s.qd, s.qdd, gravity=gravity),
        rnea(model, s.q, s.qd, s.qdd, gravity=gravity),
    )


@pytest.mark.parametrize("tilt", [1e-1, 1e-2, 3.7e-6, 1e-9, 1e-11, 1e-13, 0.0])
def test_equivalent_model_of_nearly_parallel_axes_has_no_loss_of_precision(tilt, rng):
    """Files that write pi/2 as 1.5708 produce such axes."""
    model = random_tree(rng, (-1, 0, 1, 2, 3), (Revolute(),) * 5)
    s = random_state(rng, model)
    bends = tilt * rng.uniform(0.5, 1.0, 5) + [0.0, 0.0, np.pi / 2, 0.0, np.pi / 2]
    near = tuple(
        rotx(bend) @ rotz(1.0) @ xlt(X.r) for bend, X in zip(bends, model.Xtree, strict=True)
    )
    model = replace(model, Xtree=near)
    other, H = equivalent(model), crba(model, s.q)
    assert_allclose(crba(other, s.q), H, rtol=0, atol=1e-11 * H.max())
    expected = rnea(model, s.q, s.qd, s.qdd)
    actual = rnea(other, s.q, s.qd, s.qdd)
    assert_allclose(actual, expected, rtol=0, atol=1e-11 * np.abs(expected).max())


@pytest.mark.parametrize("joint", TABLE, ids=str)
def test_inertia_transferred_to_the_parent_satisfies_the_conditions_of_rbda_9_7(joint, rng):
    model = random_tree(rng, (-1,), (joint,))
    kept, shared = split_inertia(joint, model.inertia[0])
    D, scale = shared.matrix(), np.abs(model.inertia[0].matrix()).max()
    equal = {"rtol": 0, "atol": 1e-12 * 36 * scale}
    assert_allclose(kept.matrix() + D, model.inertia[0].matrix(), **equal)
    for _ in range(5):
        XJ, S, _, _ = joint.jcalc(joint.random(rng), np.zeros(joint.nv))
        v = rng.normal(size=6)
        assert_allclose(D @ S, 0.0, **equal)
        assert_allclose(XJ.matrix().T @ D @ XJ.matrix(), D, **equal)
        assert_allclose(S.T @ crf(v) @ D @ v, 0.0, **equal)


def test_each_body_on_a_revolute_joint_of_the_equivalent_model_has_seven_inertia_parameters():
    model, _ = tree(0, (Revolute(),) * 6)
    for body in equivalent(model).inertia:
        assert body.m == 0
        assert body.h[2] == 0
        assert_allclose(body.I[0, 0] + body.I[1, 1], body.I[2, 2], rtol=1e-12)


def test_equivalent_revolute_chain_has_denavit_hartenberg_frames():
    rng = np.random.default_rng(3)
    model = equivalent(random_tree(rng, tuple(range(-1, 5)), (Revolute(),) * 6))
    for X in model.Xtree[1:]:
        assert_allclose(X.E[0], [1.0, 0.0, 0.0], atol=1e-12)
        assert_allclose(X.r[1], 0.0, atol=1e-12)


def test_equivalent_model_supports_parallel_and_intersecting_axes(rng):
    for model in (planar_n(3), auto_tree(7, 2.0, np.pi / 2)):
        s = random_state(rng, model)
        close(rnea(equivalent(model), s.q, s.qd, s.qdd), rnea(model, s.q, s.qd, s.qdd))
