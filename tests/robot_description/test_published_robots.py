"""Robots of the PyPI package example-robot-data compared with Pinocchio.

Both libraries read the same file and use double precision. Their rounding errors differ, and the
condition number of H amplifies them in accelerations. The tolerance is 1e-9 of the largest
element; observed differences are at most 5e-11.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from published import published
from rigidblocks.common.format_error import FormatError
from rigidblocks.dynamics import aba, crba, rnea
from rigidblocks.robot.configuration import random_configuration
from rigidblocks.robot_description.load import load_model
from robots_of_peers import pinocchio_state

pin = pytest.importorskip("pinocchio", reason="Pinocchio is not installed (`pip install pin`)")
ROBOTS = published(".urdf")
pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(
        not ROBOTS,
        reason="example-robot-data is not installed (`pip install example-robot-data`)",
    ),
]

RTOL = 1e-9

# Pinocchio also divides by zero for the joints of these robots
IMMOBILE = {
    "romeo_description/urdf/romeo.urdf": "1647: joint RThumb3 of model 'romeo' moves no mass",
    "romeo_description/urdf/romeo_laas_small.urdf": "1037: joint r_gripper_joint .* moves no mass",
}
EMPTY = "ur_description/urdf/ur3.urdf"  # Pinocchio does not load this file either
SINGLE = {
    "hector_description/robots/quadrotor_base.urdf",
    "iris_description/robots/iris_simple.urdf",
}


def both(path, floating):
    """Return the robot, the Pinocchio model and the indices of its variables in that model."""
    ours = load_model(path, floating=floating).model
    roots = (pin.JointModelFreeFlyer(),) if floating else ()
    theirs = pin.buildModelFromUrdf(str(path), *roots)
    return ours, theirs


def differences(path, floating, rng):
    ours, theirs = both(path, floating)
    assert ours.nv == theirs.nv
    q = random_configuration(ours, rng)
    qd, qdd, tau = rng.normal(size=(3, ours.nv))
    there, order = pinocchio_state(ours, theirs, q)
    data = theirs.createData()

    def given(values):
        moved = np.zeros(theirs.nv)
        moved[order] = values
        return moved

    H = pin.crba(theirs, data, there).copy()
    H = np.triu(H) + np.triu(H, 1).T
    yield crba(ours, q), H[np.ix_(order, order)]
    yield (
        rnea(ours, q, qd, qdd),
        pin.rnea(theirs, data, there, given(qd), given(qdd))[order],
    )
    yield (
        aba(ours, q, qd, tau),
        pin.aba(theirs, data, there, given(qd), given(tau))[order],
    )


@pytest.mark.parametrize("floating", [False, True], ids=["fixed", "floating"])
@pytest.mark.parametrize("name", sorted(ROBOTS.keys() - IMMOBILE.keys() - {EMPTY}))
def test_dynamics_of_published_robots_match_pinocchio(name, floating, rng):
    if name in SINGLE and not floating:
        with pytest.raises(FormatError, match="has no movable joint"):
            load_model(ROBOTS[name])
        return
    for ours, theirs in differences(ROBOTS[name], floating, rng):
        assert_allclose(ours, theirs, rtol=0, atol=RTOL * np.abs(theirs).max())


@pytest.mark.parametrize("name", IMMOBILE)
def test_published_robot_with_a_joint_without_inertia_is_rejected(name):
    with pytest.raises(FormatError, match=IMMOBILE[name]):
        load_model(ROBOTS[name])


def test_published_robot_without_links_is_rejected():
    with pytest.raises(FormatError, match=r"ur3\.urdf: robot 'ur3' has no link"):
        load_model(ROBOTS[EMPTY])
