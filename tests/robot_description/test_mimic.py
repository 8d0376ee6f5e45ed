"""Mimic joints of published robots against Pinocchio's, which reduces H and C to the joints that
are free.

Both sum the same inertias in another order: 1e-9 of the largest acceleration is far above that.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from published import published
from rigidblocks.block.block import Record
from rigidblocks.formats.load import load_model
from rigidblocks.library.described import described_plant
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
MIMICS = (
    "baxter_description/urdf/baxter.urdf",
    "panda_description/urdf/panda.urdf",
    "pr2_description/urdf/pr2.urdf",
    "tiago_pro_description/robots/tiago_pro.urdf",
)


@pytest.mark.parametrize("name", MIMICS)
def test_mimic_joints_move_as_pinocchio_says(name, rng):
    robot = load_model(ROBOTS[name])
    theirs = pin.buildModelFromUrdf(str(ROBOTS[name]), True)
    assert theirs.nv == robot.model.nv - len({c.joint for c in robot.couplings})
    q, qd, tau = geared_motion(robot, rng)
    order = free_joints(robot, theirs)
    expected = reduced_acceleration(theirs, *in_pinocchio(theirs, order, q, qd, tau))
    ours = acceleration(robot, q, qd, tau)[list(order)]
    theirs_qdd = expected[[theirs.idx_vs[k] for k in order.values()]]
    assert_allclose(ours, theirs_qdd, rtol=0, atol=RTOL * np.abs(theirs_qdd).max())


def geared_motion(robot, rng):
    """q, qd and tau of which those of joints that follow others are as the gears have them."""
    q, qd = random_configuration(robot.model, rng), rng.normal(size=robot.model.nv)
    tau = rng.normal(size=robot.model.nv)
    for c in robot.couplings:
        q[c.joint] = c.ratio * q[c.source] + c.offset
        qd[c.joint], tau[c.joint] = c.ratio * qd[c.source], 0.0
    return q, qd, tau


def free_joints(robot, theirs):
    """For each joint that follows no other its number in Pinocchio's model."""
    driven = {c.joint for c in robot.couplings}
    names = enumerate(robot.model.joint_names)
    return {i: theirs.getJointId(name) for i, name in names if i not in driven}


def in_pinocchio(theirs, order, q, qd, tau):
    """The motion and forces of the free joints in the order of Pinocchio's variables."""
    there, v, f = np.zeros(theirs.nq), np.zeros(theirs.nv), np.zeros(theirs.nv)
    for i, k in order.items():
        mine = [np.cos(q[i]), np.sin(q[i])] if theirs.nqs[k] == 2 else [q[i]]
        there[theirs.idx_qs[k] : theirs.idx_qs[k] + len(mine)] = mine
        v[theirs.idx_vs[k]], f[theirs.idx_vs[k]] = qd[i], tau[i]
    return there, v, f


def reduced_acceleration(theirs, q, v, f):
    """H qdd = tau - C, both of Pinocchio."""
    data = theirs.createData()
    bias = pin.rnea(theirs, data, q, v, np.zeros(theirs.nv)).copy()
    H = np.triu(pin.crba(theirs, data, q))
    return np.linalg.solve(H + np.triu(H, 1).T, f - bias)


def acceleration(robot, q, qd, tau):
    """qdd of the plant."""
    plant = described_plant(robot)
    parameters = Record({port.name: port.start for port in plant.parameters})
    x, u = Record({"q": q, "qd": qd}), Record({"tau": tau})
    return plant.output(0.0, x, u, parameters)["qdd"]
