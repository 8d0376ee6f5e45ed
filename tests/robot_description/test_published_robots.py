"""The robots of PyPI's example-robot-data, read by us and by Pinocchio.

Both compute with doubles from the same file. What differs are the last digits that each sum of
inertias rounds away, which the condition of H carries into accelerations: 1e-9 of the largest
element is far above what these robots show (5e-11 at most) and far below any mistake in a file.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from published import published
from rigidblocks.dynamics import aba, crba, rnea
from rigidblocks.formats.load import load_model
from rigidblocks.formats.refusal import FormatError
from rigidblocks.joint import Revolute, SixDoF
from rigidblocks.model.configuration import random_configuration

pin = pytest.importorskip(
    "pinocchio", reason="Pinocchio is not installed (`pip install rigidblocks[interop]`)"
)
ROBOTS = published(".urdf")
pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(
        not ROBOTS,
        reason="example-robot-data is not installed (`pip install rigidblocks[interop]`)",
    ),
]

RTOL = 1e-9

# whose joints Pinocchio, too, can only move by dividing by zero
IMMOBILE = {
    "romeo_description/urdf/romeo.urdf": "1647: joint RThumb3 of model 'romeo' moves no mass",
    "romeo_description/urdf/romeo_laas_small.urdf": "1037: joint r_gripper_joint .* moves no mass",
}
EMPTY = "ur_description/urdf/ur3.urdf"  # nor does Pinocchio load it
SINGLE = {
    "hector_description/robots/quadrotor_base.urdf",
    "iris_description/robots/iris_simple.urdf",
}


def both(path, floating):
    """The robot as we read it, as Pinocchio does, and where our variables are in theirs."""
    ours = load_model(path, floating=floating).model
    roots = (pin.JointModelFreeFlyer(),) if floating else ()
    theirs = pin.buildModelFromUrdf(str(path), *roots)
    return ours, theirs


def in_pinocchios_order(ours, theirs, q):
    """Pinocchio's configuration, and the indices of its velocities in our order."""
    there, order = np.zeros(theirs.nq), np.zeros(ours.nv, dtype=int)
    for i, (name, joint) in enumerate(zip(ours.joint_names, ours.joint, strict=True)):
        k = theirs.getJointId(name)
        at, mine = theirs.idx_qs[k], q[ours.q_slices[i]]
        order[ours.v_slices[i]] = theirs.idx_vs[k] + np.arange(joint.nv)
        match joint:
            case SixDoF():
                there[at : at + 7] = [*mine[4:], *mine[1:4], mine[0]]
                order[ours.v_slices[i]] = theirs.idx_vs[k] + np.array([3, 4, 5, 0, 1, 2])
            case Revolute() if theirs.nqs[k] == 2:
                there[at : at + 2] = [np.cos(mine[0]), np.sin(mine[0])]
            case _:
                there[at : at + theirs.nqs[k]] = mine
    return there, order


def differences(path, floating, rng):
    ours, theirs = both(path, floating)
    assert ours.nv == theirs.nv
    q = random_configuration(ours, rng)
    qd, qdd, tau = rng.normal(size=(3, ours.nv))
    there, order = in_pinocchios_order(ours, theirs, q)
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
def test_published_robots_move_as_pinocchio_says(name, floating, rng):
    if name in SINGLE and not floating:
        with pytest.raises(FormatError, match="has no joint that moves"):
            load_model(ROBOTS[name])
        return
    for ours, theirs in differences(ROBOTS[name], floating, rng):
        assert_allclose(ours, theirs, rtol=0, atol=RTOL * np.abs(theirs).max())


@pytest.mark.parametrize("name", IMMOBILE)
def test_a_joint_that_moves_nothing_is_refused_with_its_line(name):
    with pytest.raises(FormatError, match=IMMOBILE[name]):
        load_model(ROBOTS[name])


def test_a_robot_without_links_is_refused():
    with pytest.raises(FormatError, match=r"ur3\.urdf: robot 'ur3' has no link"):
        load_model(ROBOTS[EMPTY])
