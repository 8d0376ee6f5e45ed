"""Mimic joints of published robots compared with Pinocchio.

Pinocchio reduces H and C to the free joints. The libraries add the same inertias in a different
order; the tolerance is 1e-9 of the largest acceleration.
"""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from published import published
from rigidblocks.block.block import Record
from rigidblocks.library.plant_from_file import described_plant
from rigidblocks.robot.configuration import random_configuration
from rigidblocks.robot_description.load import load_model

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
MIMICS = (
    "baxter_description/urdf/baxter.urdf",
    "panda_description/urdf/panda.urdf",
    "pr2_description/urdf/pr2.urdf",
    "tiago_pro_description/robots/tiago_pro.urdf",
)


@pytest.mark.parametrize("name", MIMICS)
def test_accelerations_with_mimic_joints_match_pinocchio(name, rng):
    # Pinocchio ignores <turnGravityOff>
    robot = replace(load_model(ROBOTS[name]), weightless=())
    theirs = pin.buildModelFromUrdf(str(ROBOTS[name]), True)
    assert theirs.nv == robot.model.nv - len({c.joint for c in robot.couplings})
    q, qd, tau = geared_motion(robot, rng)
    order = free_joints(robot, theirs)
    expected = reduced_acceleration(theirs, *in_pinocchio(theirs, order, q, qd, tau))
    ours = acceleration(robot, q, qd, tau)[list(order)]
    theirs_qdd = expected[[theirs.idx_vs[k] for k in order.values()]]
    assert_allclose(ours, theirs_qdd, rtol=0, atol=RTOL * np.abs(theirs_qdd).max())


def geared_motion(robot, rng):
    """Return q, qd and tau that satisfy the couplings of the mimic joints."""
    q, qd = random_configuration(robot.model, rng), rng.normal(size=robot.model.nv)
    tau = rng.normal(size=robot.model.nv)
    for c in robot.couplings:
        q[c.joint] = c.ratio * q[c.source] + c.offset
        qd[c.joint], tau[c.joint] = c.ratio * qd[c.source], 0.0
    return q, qd, tau


def free_joints(robot, theirs):
    """Return the Pinocchio index of each joint that is not a mimic joint."""
    driven = {c.joint for c in robot.couplings}
    names = enumerate(robot.model.joint_names)
    return {i: theirs.getJointId(name) for i, name in names if i not in driven}


def in_pinocchio(theirs, order, q, qd, tau):
    """Convert motion and forces of the free joints to the order of Pinocchio's variables."""
    there, v, f = np.zeros(theirs.nq), np.zeros(theirs.nv), np.zeros(theirs.nv)
    for i, k in order.items():
        mine = [np.cos(q[i]), np.sin(q[i])] if theirs.nqs[k] == 2 else [q[i]]
        there[theirs.idx_qs[k] : theirs.idx_qs[k] + len(mine)] = mine
        v[theirs.idx_vs[k]], f[theirs.idx_vs[k]] = qd[i], tau[i]
    return there, v, f


def reduced_acceleration(theirs, q, v, f):
    """Solve H qdd = tau - C with H and C of Pinocchio."""
    data = theirs.createData()
    bias = pin.rnea(theirs, data, q, v, np.zeros(theirs.nv)).copy()
    H = np.triu(pin.crba(theirs, data, q))
    return np.linalg.solve(H + np.triu(H, 1).T, f - bias)


def acceleration(robot, q, qd, tau):
    """Return the acceleration qdd of the plant."""
    plant = described_plant(robot)
    parameters = Record({port.name: port.start for port in plant.parameters})
    x, u = Record({"q": q, "qd": qd}), Record({"tau": tau})
    return plant.output(0.0, x, u, parameters)["qdd"]
