"""Mutated MJCF files are read, or rejected with a one-line error that names the file."""

import re

import numpy as np
import pytest

from mutated_text import JUNK, mutated_pieces
from rigidblocks.common.format_error import FormatError
from rigidblocks.robot_description.external_parsers import is_installed
from rigidblocks.robot_description.load import load_model

pytestmark = pytest.mark.slow

MJCF = """\
<mujoco model="arm">
  <option gravity="0 0 -9.81"/>
  <worldbody>
    <body name="upper" pos="0 0 1"><joint name="shoulder" type="hinge" axis="0 1 0" damping="0.1"/>
      <geom type="capsule" size="0.05" fromto="0 0 0 0.5 0 0" mass="2"/>
      <body name="lower" pos="0.5 0 0"><joint name="elbow" type="slide" axis="1 0 0" range="0 1"/>
        <joint name="wrist" type="ball" pos="0.1 0 0"/>
        <geom type="box" size="0.1 0.1 0.2" density="500"/></body></body>
    <body name="free" pos="1 1 1"><freejoint name="f"/><geom size="0.2"/></body>
  </worldbody>
  <equality><connect body1="lower" body2="free" anchor="0 0 0"/></equality>
</mujoco>
"""


def mutated(text, rng):
    """Return the text with random pieces removed, duplicated, exchanged or replaced."""
    pieces = re.findall(r"<[^>\s]*|>|\"[^\"]*\"|\s+|[^<>\"\s]+", text)
    return mutated_pieces(pieces, [*JUNK, "-0"], rng)


def attempted(path):
    """Return the robot and None, or None and the error."""
    try:
        return load_model(path), None
    except FormatError as refusal:
        return None, refusal


@pytest.mark.interop
@pytest.mark.skipif(not is_installed("mujoco"), reason="MuJoCo is not installed")
@pytest.mark.parametrize("seed", range(4))
def test_mutated_mjcf_file_is_read_or_rejected_with_a_one_line_error(tmp_path, seed):
    path, rng = tmp_path / "robot.xml", np.random.default_rng(seed)
    path.write_text(MJCF)
    assert load_model(path).model.nv == 11
    for _ in range(25):
        path.write_text(mutated(MJCF, rng), encoding="utf-8")
        robot, refusal = attempted(path)
        if robot is None:
            assert str(refusal).startswith(str(path))
            assert "\n" not in str(refusal)
        else:
            assert np.all(np.isfinite([body.m for body in robot.model.inertia]))
