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
    model, plant = robot.model, described_plant(robot)
    theirs = pin.buildModelFromUrdf(str(ROBOTS[name]), True)
    driven = {c.joint for c in robot.couplings}
    assert theirs.nv == model.nv - len(driven)

    q, qd = random_configuration(model, rng), rng.normal(size=model.nv)
    tau = rng.normal(size=model.nv)
    for c in robot.couplings:
        q[c.joint] = c.ratio * q[c.source] + c.offset
        qd[c.joint], tau[c.joint] = c.ratio * qd[c.source], 0.0
    there, v, f, order = np.zeros(theirs.nq), *np.zeros((2, theirs.nv)), {}
    for i in (i for i in range(model.nb) if i not in driven):
        k = theirs.getJointId(model.joint_names[i])
        at = theirs.idx_qs[k]
        mine = [np.cos(q[i]), np.sin(q[i])] if theirs.nqs[k] == 2 else [q[i]]
        there[at : at + len(mine)] = mine
        order[i] = theirs.idx_vs[k]
        v[order[i]], f[order[i]] = qd[i], tau[i]

    data = theirs.createData()
    bias = pin.rnea(theirs, data, there, v, np.zeros(theirs.nv)).copy()
    H = pin.crba(theirs, data, there)
    H = np.triu(H) + np.triu(H, 1).T
    expected = np.linalg.solve(H, f - bias)

    parameters = Record({port.name: port.start for port in plant.parameters})
    outputs = plant.output(0.0, Record({"q": q, "qd": qd}), Record({"tau": tau}), parameters)
    ours = np.array([outputs["qdd"][i] for i in order])
    theirs_qdd = expected[list(order.values())]
    assert_allclose(ours, theirs_qdd, rtol=0, atol=RTOL * np.abs(theirs_qdd).max())
