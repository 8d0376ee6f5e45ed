"""Robot files of a folder, compared with MuJoCo (MJCF), Pinocchio (URDF) and libsdformat (SDF).

    python benchmarks/robot_corpus.py FOLDER...

MuJoCo and Pinocchio compute the accelerations of a file in three random states: at rest and at two
speeds. For an SDF file, Pinocchio uses the links and joints that libsdformat reads
(by_sdformat.py). The table counts the files by result. A file is equal if the residual H (qdd -
qdd_peer) is at most 1e-9 of its largest term. Springs, damping, armature, fluids and tendons are
included; dry friction, limits, contacts and equality constraints are not. The start configuration
and gravity must also be equal. `pip download` and `pip install --no-deps --target FOLDER` give
folders of example-robot-data, dm_control, gymnasium, gymnasium-robotics, robosuite and pybullet.
"""

import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import pinocchio as pin
from by_sdformat import EQUAL, RTOL, SPEEDS, sdf_difference, smooth_elements

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from rigidblocks.block.block import Record
from rigidblocks.dynamics import crba, rnea
from rigidblocks.library.plants import RobotPlant
from rigidblocks.robot.configuration import neutral, random_configuration
from rigidblocks.robot.model import Model
from rigidblocks.robot.robot_description import RobotDescription
from rigidblocks.robot_description.load import load_model
from robots_of_peers import (
    acceleration_from_mujoco,
    mujoco_state,
    pinocchio_state,
)

OFF = ("CONTACT", "LIMIT", "FRICTIONLOSS", "EQUALITY", "ACTUATION")


def spanning_tree(robot: RobotDescription) -> Model:
    """Return the model of a robot without its loop joints."""
    return robot.model.spanning_tree if robot.model.loops else robot.model


def mjcf_result(path: Path) -> str:
    """Compare an MJCF file with MuJoCo."""
    try:
        there = mujoco.MjModel.from_xml_path(str(path))
    except ValueError:
        return "not read by MuJoCo"
    if there.nv == 0:
        return "no joints"
    robot = load_model(path)
    model = spanning_tree(robot)
    if model.nv != there.nv:
        return f"different: {model.nv} velocity variables instead of {there.nv}"
    q0 = neutral(model) if robot.q0 is None else robot.q0
    if not np.allclose(mujoco_state(model, there, q0, np.zeros(model.nv))[0], there.qpos0, 1e-9):
        return "different: start configuration"
    for name in OFF:
        there.opt.disableflags |= getattr(mujoco.mjtDisableBit, f"mjDSBL_{name}")
    data, rng = mujoco.MjData(there), np.random.default_rng(1)
    plant = RobotPlant(model, elements=smooth_elements(robot))
    p = Record({port.name: port.start for port in plant.parameters})
    u = Record({"tau": np.zeros(model.nv)})
    for speed in SPEEDS:
        q, qd = random_configuration(model, rng), speed * rng.normal(size=model.nv)
        data.qpos[:], data.qvel[:] = mujoco_state(model, there, q, qd)
        mujoco.mj_forward(there, data)
        theirs = acceleration_from_mujoco(model, there, q, qd, data.qacc_smooth)
        ours = plant.derivative(0.0, Record({"q": q, "qd": qd}), u, p)["qd"]
        H = crba(model, q) + np.diag(robot.joint_properties.armature[: model.nv])
        terms = [np.abs(H * theirs).max(), np.abs(data.qfrc_bias).max()]
        terms.append(np.abs(data.qfrc_passive).max())
        if not np.abs(H @ (ours - theirs)).max() <= RTOL * max(terms):
            return "different: accelerations"
    return EQUAL


def urdf_result(path: Path) -> str:
    """Compare the inverse dynamics of a URDF file with Pinocchio."""
    try:
        there = pin.buildModelFromUrdf(str(path))
    except (ValueError, RuntimeError):
        return "not read by Pinocchio"
    if there.nv == 0:
        return "no joints"
    model = spanning_tree(load_model(path))
    if model.nv != there.nv:
        return f"different: {model.nv} velocity variables instead of {there.nv}"
    data, rng = there.createData(), np.random.default_rng(1)
    for speed in SPEEDS:
        q, qd = random_configuration(model, rng), speed * rng.normal(size=model.nv)
        qdd = rng.normal(size=model.nv)
        q_there, order = pinocchio_state(model, there, q)
        motion = np.zeros((2, there.nv))
        motion[:, order] = qd, qdd
        theirs = pin.rnea(there, data, q_there, *motion)[order]
        terms = max(np.abs(theirs).max(), np.abs(crba(model, q) * qdd).max())
        if not np.abs(rnea(model, q, qd, qdd) - theirs).max() <= RTOL * terms:
            return "different: inverse dynamics"
    return EQUAL


def sdf_result(path: Path) -> str:
    """Compare an SDF file with libsdformat, with a fixed and with a floating base."""
    result = sdf_difference(path)
    if result not in (EQUAL, "no joints"):
        return result
    try:
        return sdf_difference(path, floating=True)
    except ValueError:  # a link has a joint with the world
        return result


READERS: dict[str, Callable[[Path], str]] = {
    ".xml": mjcf_result,
    ".urdf": urdf_result,
    ".sdf": sdf_result,
}


def main(folders: list[str]) -> None:
    """Print each rejected or different file, and the number of files with each result."""
    warnings.simplefilter("ignore")
    counts: Counter[tuple[str, str]] = Counter()
    for path in sorted(p for folder in folders for p in Path(folder).rglob("*")):
        if path.suffix not in READERS or not path.is_file():
            continue
        try:
            result = READERS[path.suffix](path)
        except ValueError as error:  # FormatError, and models that a plant does not support
            result = f"rejected: {error}"
        counts[path.suffix, result.partition(":")[0]] += 1
        if ":" in result:
            print(f"{path}: {result}", flush=True)
    for (suffix, result), number in sorted(counts.items()):
        print(f"{suffix:6} {result:24} {number}")


if __name__ == "__main__":
    main(sys.argv[1:])
