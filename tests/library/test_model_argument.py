"""Blocks reject an argument that is not a model and explain how to get a model."""

from pathlib import Path

import pytest

from rigidblocks import (
    ClosedLoopPlant,
    FloatingBasePlant,
    InverseDynamicsController,
    RobotPlant,
    export_fmu,
    load_model,
    planar2,
)
from rigidblocks.cosim.graph.system import System
from rigidblocks.fmi.ssp.save import save_system
from rigidblocks.library import GravityCompensation
from urdf_text import ARM

TAKERS = [
    RobotPlant,
    FloatingBasePlant,
    ClosedLoopPlant,
    lambda model: InverseDynamicsController(model, 1.0, 1.0),
    GravityCompensation,
]


@pytest.mark.parametrize("block", TAKERS)
def test_block_argument_that_is_not_a_model_is_rejected(block, tmp_path):
    (tmp_path / "arm.urdf").write_text(ARM)
    robot = load_model(tmp_path / "arm.urdf")
    for given, mend in (
        ("arm.urdf", r"str; use load_model\('arm.urdf'\).model"),
        (Path("arm.urdf"), r"Path; use load_model\('arm.urdf'\).model"),
        (robot, "RobotDescription; use its .model"),
        (None, "NoneType$"),
    ):
        with pytest.raises(TypeError, match=f"must be a Model, not a .*{mend}"):
            block(given)


def test_error_for_the_export_of_a_model_as_fmu_suggests_robot_plant(tmp_path):
    with pytest.raises(TypeError, match=r"not Model; RobotPlant\(model\) is the block"):
        export_fmu(planar2(), tmp_path / "arm.fmu")


@pytest.mark.parametrize("run", [{"dt": float("nan")}, {"dt": -1.0}, {"t_stop": -1.0}])
def test_system_with_invalid_run_settings_is_not_saved(tmp_path, run):
    system = System()
    system.add("robot", RobotPlant(planar2()))
    with pytest.raises(ValueError, match=f"{next(iter(run))}.* -?{abs(next(iter(run.values())))}"):
        save_system(system, tmp_path / "robot.ssp", **run)
    assert [*tmp_path.iterdir()] == []
