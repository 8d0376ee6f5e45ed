"""What a newcomer gives a block instead of a model is told, with how the model is had."""

from pathlib import Path

import pytest

from rigidblocks import (
    ClosedLoopPlant,
    FloatingBasePlant,
    GravityCompensation,
    InverseDynamicsController,
    RobotPlant,
    export_fmu,
    load_model,
    planar2,
)
from rigidblocks.ssp.save import save_system
from rigidblocks.system.system import System
from urdf_text import ARM

TAKERS = [
    RobotPlant,
    FloatingBasePlant,
    ClosedLoopPlant,
    lambda model: InverseDynamicsController(model, 1.0, 1.0),
    GravityCompensation,
]


@pytest.mark.parametrize("block", TAKERS)
def test_no_model_is_no_model(block, tmp_path):
    (tmp_path / "arm.urdf").write_text(ARM)
    robot = load_model(tmp_path / "arm.urdf")
    for given, mend in (
        ("arm.urdf", r"str; that of a file is load_model\('arm.urdf'\).model"),
        (Path("arm.urdf"), r"Path; that of a file is load_model\('arm.urdf'\).model"),
        (robot, "RobotDescription; its .model is one"),
        (None, "NoneType$"),
    ):
        with pytest.raises(TypeError, match=f"is a Model, not of type .*{mend}"):
            block(given)


def test_an_fmu_of_a_model_is_that_of_its_plant(tmp_path):
    with pytest.raises(TypeError, match=r"not of a Model; RobotPlant\(model\) is the block"):
        export_fmu(planar2(), tmp_path / "arm.fmu")


@pytest.mark.parametrize("run", [{"dt": float("nan")}, {"dt": -1.0}, {"t_stop": -1.0}])
def test_a_run_that_cannot_be_is_not_saved(tmp_path, run):
    system = System()
    system.add("robot", RobotPlant(planar2()))
    with pytest.raises(ValueError, match=f"{next(iter(run))}.* -?{abs(next(iter(run.values())))}"):
        save_system(system, tmp_path / "robot.ssp", **run)
    assert [*tmp_path.iterdir()] == []
