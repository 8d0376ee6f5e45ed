"""Fast checks of bodies, joints and frames accept only inputs that the full checks accept.

The samples are random, and many samples are close to the limits.
"""

import numpy as np
import pytest

from rigidblocks.robot import tree
from rigidblocks.robot import validation as checks
from rigidblocks.robot.robots import auto_tree
from rigidblocks.spatial.rigid_motion import placement
from rigidblocks.spatial.spatial import RigidInertia, Transform, check_frame, mcI, rx, ry, rz


def random_body(rng, triangle):
    """Return a body with two equal moments and a third moment of `triangle` times their sum."""
    m, c = 10.0 ** rng.uniform(-6, 3), rng.normal(size=3) * 10.0 ** rng.uniform(-3, 0)
    a, b = m * 10.0 ** rng.uniform(-6, 0) * rng.uniform(1.0, 1.5, 2)
    E = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    return mcI(m, c, E @ np.diag([a, b, triangle * (a + b)]) @ E.T)


@pytest.mark.parametrize("triangle", [0.5, 1.0 - 1e-6, 1.0, 1.0 + 1e-6, 1.5, -1e-6])
def test_fast_inertia_check_agrees_with_the_full_check_of_principal_moments(
    rng, triangle, monkeypatch
):
    bodies = [random_body(rng, triangle) for _ in range(50)]
    quick = [checks.inertia_defect(body) for body in bodies]
    pivots = {checks._is_physical(body.m, body.h.tolist(), body.I.tolist()) for body in bodies}
    monkeypatch.setattr(checks, "_is_physical", lambda *_: False)
    assert quick == [checks.inertia_defect(body) for body in bodies]
    if abs(triangle - 1.0) > 1e-9:
        assert {not text for text in quick} == {0 < triangle < 1} == pivots


@pytest.mark.parametrize("lightest", [1.0, 1e-6, 1e-12, 0.0])
def test_fast_search_for_joints_without_inertia_agrees_with_the_full_search(
    rng, lightest, monkeypatch
):
    model = auto_tree(6, 1.5, skew=0.4)
    scale = rng.permutation([lightest, 1.0, 1.0, lightest, 1.0, 1.0])
    bodies = zip(model.inertia, scale, strict=True)
    inertia = tuple(RigidInertia(b.m * s, b.h * s, b.I * s) for b, s in bodies)
    other = object.__new__(type(model))  # without the checks of the constructor
    vars(other).update({**vars(model), "inertia": inertia})
    quick = tree._is_regular_by_bounds(other)
    assert quick == (lightest > 1e-9)
    monkeypatch.setattr(tree, "_is_regular_by_bounds", lambda _: False)
    assert not quick or tree.find_idle_joint(other) is None


@pytest.mark.parametrize("defect", [0.0, 4e-10, 2e-9, np.nan, np.inf])
def test_fast_check_of_frames_accepts_only_rotation_matrices(rng, defect):
    E = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    X = Transform(E * np.linalg.det(E) * (1.0 + defect), np.zeros(3))
    if defect <= 4e-10:
        check_frame(X, "X")
        with pytest.raises(ValueError, match=r"X has E = .* not a rotation"):
            check_frame(Transform(-X.E, X.r), "X")
        with pytest.raises(ValueError, match="X is not finite"):
            check_frame(Transform(X.E, np.array([0.0, np.nan, 0.0])), "X")
    else:
        with pytest.raises(ValueError, match="X "):
            check_frame(X, "X")


def test_roll_pitch_yaw_placement_is_a_product_of_three_rotations(rng):
    for rpy in rng.uniform(-4, 4, (50, 3)):
        expected = rx(rpy[0]) @ ry(rpy[1]) @ rz(rpy[2])
        np.testing.assert_allclose(placement([0, 0, 0], rpy.tolist()).E, expected, atol=4e-16)
