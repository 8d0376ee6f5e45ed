"""Fields of a planar model, and errors of invalid planar models."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from planar_models import PLANE
from rigidblocks.dynamics import (
    rnea,
)
from rigidblocks.robot.joints import (
    PlanarRevolute,
    Revolute,
)
from rigidblocks.robot.model import PlanarModel
from rigidblocks.robot.robots import auto_tree, auto_tree_p
from rigidblocks.spatial import planar, spatial
from rigidblocks.spatial.planar import RigidInertia, Transform, identity, mcI, xlt

TIGHT = 1e-12  # rounding error of one product


def equal(actual, expected, atol=TIGHT):
    assert_allclose(actual, expected, rtol=1e-12, atol=atol)


def test_planar_auto_tree_matches_the_spatial_auto_tree_with_zero_skew_angle(rng):
    # RBDA 2.16: the planar quantities are the rows and columns 3, 4, 5
    for nb, bf, taper in ((1, 1.0, 1.0), (6, 2.0, 0.9), (9, 1.5, 1.1)):
        tree, full = auto_tree_p(nb, bf, taper), auto_tree(nb, bf, 0.0, taper)
        assert tree.parent == full.parent
        assert tree.joint == (PlanarRevolute(),) * nb
        for i in range(nb):
            equal(tree.Xtree[i].matrix(), full.Xtree[i].matrix()[PLANE], 0)
            equal(tree.inertia[i].matrix(), full.inertia[i].matrix()[PLANE], 0)
        q, qd, qdd = rng.uniform(-1, 1, (3, nb))
        assert_allclose(rnea(tree, q, qd, qdd), rnea(full, q, qd, qdd), rtol=1e-9, atol=1e-12)


def test_auto_tree_p_has_the_documented_lengths_masses_and_parents():
    taper = 0.8
    tree = auto_tree_p(5, 2, taper)
    for i, body in enumerate(tree.inertia):
        l, m = taper**i, taper ** (3 * i)
        equal(body.m, m, TIGHT)
        equal(body.h, [m * l / 2, 0], TIGHT)
        equal(body.I, m * ((l / 20) ** 2 / 2 + l**2 / 12 + l**2 / 4), TIGHT)
        equal(tree.Xtree[i].r, [taper ** tree.parent[i] if i else 0, 0], TIGHT)
    assert auto_tree_p(8).parent == tuple(range(-1, 7))
    assert auto_tree_p(8, 1.5).parent == (-1, 0, 1, 1, 2, 3, 3, 4)
    with pytest.raises(ValueError, match="auto_tree needs bf >= 1"):
        auto_tree_p(3, 0.5)


BODY = mcI(1.0, [0.5, 0.0], 0.1)


def planar_model(**changes):
    parts = {"parent": [-1], "joint": [PlanarRevolute()], "Xtree": [identity()], "inertia": [BODY]}
    return PlanarModel("flat", **{**parts, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"parent": [0]},
            "body 0 of model 'flat' has the parent 0; a parent must have a smaller index",
        ),
        ({"joint": []}, "every list of model 'flat' needs one entry for each body"),
        ({"gravity": [0, 0, -9.81]}, r"gravity needs 2 components in m/s\^2, not shape \(3,\)"),
        ({"gravity": [0, np.nan]}, "gravity must be finite"),
        (
            {"joint": [Revolute()]},
            r"joint\[0\] of planar model 'flat' .*, not a rigidblocks.*Revolute",
        ),
        (
            {"Xtree": [spatial.identity()]},
            r"Xtree\[0\] .*, not a rigidblocks.spatial.spatial.Transform",
        ),
        (
            {"inertia": [spatial.mcI(1, [0, 0, 0], np.eye(3))]},
            r"inertia\[0\] .*, not a rigidblocks.spatial.spatial.RigidInertia",
        ),
        (
            {"Xtree": [Transform(np.diag([1.0, -1.0]), np.zeros(2))]},
            r"Xtree\[0\] \(joint1\) .* is not a rotation",
        ),
        ({"Xtree": [xlt([np.inf, 0])]}, r"Xtree\[0\] \(joint1\) .* is not finite"),
        ({"inertia": [mcI(0.0, [0, 0], 1.0)]}, "has mass 0.0 kg; the mass must be positive"),
        ({"inertia": [mcI(1.0, [0, 0], np.nan)]}, "is not finite"),
        ({"massless": ["body1"]}, "is in `massless` but has m = 1.0"),
        ({"massless": ["hand"]}, "unknown body hand in `massless` of model 'flat'"),
        (
            {"massless": ["body1"], "inertia": [mcI(0.0, [0, 0], 0.0)]},
            "joint1 of model 'flat' moves no mass",
        ),
        (
            {"inertia": [RigidInertia(1.0, np.array([1.0, 0.0]), 0.5)]},
            "has the rotational inertia -0.5 kg",
        ),
    ],
)
def test_planar_model_rejects_spatial_joints_transforms_and_inertias(changes, message):
    with pytest.raises(ValueError, match=message):
        planar_model(**changes)


def test_planar_model_has_default_names_and_consistent_sizes_and_slices():
    tree = auto_tree_p(3)
    assert (tree.nb, tree.nq, tree.nv) == (3, 3, 3)
    assert tree.body_names == ("body1", "body2", "body3")
    assert tree.q_slices[1] == tree.v_slices[1] == slice(1, 2)
    assert tree.algebra is planar
