"""The MJCF files of the package gymnasium move as MuJoCo says, without contacts, limits and forces
of joints.

Both compute with doubles: 1e-9 of the largest element is far above what these robots show (4e-14)
and far below any mistake in a file.
"""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from test_mjcf import mujoco, our_acceleration, their_motion

from rigidblocks.dynamics import aba_with_rotors, crba, rnea
from rigidblocks.formats.load import load_model
from rigidblocks.formats.refusal import FormatError
from rigidblocks.model.configuration import random_configuration

FOUND = find_spec("gymnasium")
FOLDER = Path(FOUND.origin).parent / "envs/mujoco/assets" if FOUND and FOUND.origin else Path("no")
FILES = {path.name: path for path in sorted(FOLDER.glob("*.xml"))}
FLUID = "swimmer.xml"
pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(
        not FILES, reason="gymnasium is not installed (`pip install rigidblocks[interop]`)"
    ),
    pytest.mark.filterwarnings("ignore"),  # of MuJoCo about old files
]
RTOL = 1e-9
OFF = ("CONTACT", "LIMIT", "SPRING", "DAMPER", "FRICTIONLOSS", "EQUALITY")


@pytest.mark.parametrize("name", sorted(FILES.keys() - {FLUID}))
def test_files_of_gymnasium_move_as_mujoco_says(name, rng, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where MuJoCo writes its log
    robot = load_model(FILES[name])
    model, armature = robot.model, robot.freedoms.armature
    there = mujoco.MjModel.from_xml_path(str(FILES[name]))
    for what in OFF:
        there.opt.disableflags |= getattr(mujoco.mjtDisableBit, f"mjDSBL_{what}")
    data = mujoco.MjData(there)
    for _ in range(3):
        q, qd = random_configuration(model, rng), rng.normal(size=model.nv)
        data.qpos[:], data.qvel[:] = their_motion(model, there, q, qd)
        mujoco.mj_forward(there, data)
        ours = aba_with_rotors(model, q, qd, np.zeros(model.nv), armature)
        theirs = our_acceleration(model, q, qd, data.qacc_smooth)
        assert_allclose(ours, theirs, rtol=0, atol=RTOL * np.abs(theirs).max())
        H = crba(model, q) + np.diag(armature)
        back = rnea(model, q, qd, theirs) + armature * theirs
        assert_allclose(back, 0.0, atol=RTOL * np.abs(H).max() * np.abs(theirs).max())


@pytest.mark.skipif(FLUID not in FILES, reason="gymnasium is not installed")
def test_what_changes_the_motion_and_is_not_read_is_refused_with_that_word():
    with pytest.raises(FormatError, match="the file has a fluid"):
        load_model(FILES[FLUID])
