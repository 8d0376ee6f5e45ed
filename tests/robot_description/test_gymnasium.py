"""MJCF files of the package gymnasium compared with MuJoCo, without contacts, limits and forces.

Both libraries use double precision. The tolerance is 1e-9 of the largest element; observed
differences are 4e-14.
"""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from test_mjcf import mujoco

from rigidblocks.block.block import Record
from rigidblocks.dynamics import aba_with_rotors, crba, rnea
from rigidblocks.library.plant_from_file import described_plant
from rigidblocks.robot.configuration import random_configuration
from rigidblocks.robot_description.load import load_model
from robots_of_peers import acceleration_from_mujoco, mujoco_state

FOUND = find_spec("gymnasium")
FOLDER = Path(FOUND.origin).parent / "envs/mujoco/assets" if FOUND and FOUND.origin else Path("no")
FILES = {path.name: path for path in sorted(FOLDER.glob("*.xml"))}
FLUID = "swimmer.xml"
pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(not FILES, reason="gymnasium is not installed (`pip install gymnasium`)"),
    pytest.mark.filterwarnings("ignore"),  # warnings of MuJoCo about old files
]
RTOL = 1e-9
OFF = ("CONTACT", "LIMIT", "SPRING", "DAMPER", "FRICTIONLOSS", "EQUALITY")


@pytest.mark.parametrize("name", sorted(FILES.keys() - {FLUID}))
def test_accelerations_of_gymnasium_files_match_mujoco(name, rng, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its log here
    robot = load_model(FILES[name])
    model, armature = robot.model, robot.joint_properties.armature
    there = mujoco.MjModel.from_xml_path(str(FILES[name]))
    for what in OFF:
        there.opt.disableflags |= getattr(mujoco.mjtDisableBit, f"mjDSBL_{what}")
    data = mujoco.MjData(there)
    for _ in range(3):
        q, qd = random_configuration(model, rng), rng.normal(size=model.nv)
        data.qpos[:], data.qvel[:] = mujoco_state(model, there, q, qd)
        mujoco.mj_forward(there, data)
        ours = aba_with_rotors(model, q, qd, np.zeros(model.nv), armature)
        theirs = acceleration_from_mujoco(model, there, q, qd, data.qacc_smooth)
        assert_allclose(ours, theirs, rtol=0, atol=RTOL * np.abs(theirs).max())
        H = crba(model, q) + np.diag(armature)
        back = rnea(model, q, qd, theirs) + armature * theirs
        assert_allclose(back, 0.0, atol=RTOL * np.abs(H).max() * np.abs(theirs).max())


@pytest.mark.skipif(FLUID not in FILES, reason="gymnasium is not installed")
def test_accelerations_of_a_swimmer_in_its_fluid_match_mujoco(rng, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its log here
    robot = load_model(FILES[FLUID])
    model, plant = robot.model, described_plant(robot, joint_friction=True)
    there = mujoco.MjModel.from_xml_path(str(FILES[FLUID]))
    data = mujoco.MjData(there)
    p = Record({port.name: port.start for port in plant.parameters})
    for _ in range(5):
        q, qd = 0.5 * rng.normal(size=model.nv), rng.normal(size=model.nv)
        data.qpos[:], data.qvel[:] = mujoco_state(model, there, q, qd)
        mujoco.mj_forward(there, data)
        x, u = Record({"q": q, "qd": qd}), Record({"tau": np.zeros(model.nv)})
        ours = plant.derivative(0.0, x, u, p)["qd"]
        assert_allclose(ours, data.qacc_smooth, rtol=0, atol=RTOL * np.abs(data.qacc_smooth).max())
