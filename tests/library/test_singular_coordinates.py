"""Errors of Euler angles near their singular pitch contain the joint name."""

from dataclasses import replace

import numpy as np
import pytest

from rigidblocks import (
    Model,
    RobotPlant,
    SimulationError,
    Spherical,
    System,
    export_fmu,
    simulate,
)
from rigidblocks.block.adaptive_methods import ADAPTIVE, memory_for
from rigidblocks.block.block import Record
from rigidblocks.block.integrators import RK4
from rigidblocks.block.stepper import NumpyStepper, StepError
from rigidblocks.contact import ContactPlant, SoftContactPlant, Sphere
from rigidblocks.robot.joints import EulerSpherical, Reversed
from rigidblocks.spatial.spatial import identity, mcI


def top(joint):
    """Return a heavy top on a joint of three rotations, named wrist."""
    body = mcI(1.0, [0.5, 0.1, 0.2], np.diag([0.1, 0.2, 0.3]))
    return Model("top", (-1,), (joint,), (identity(),), (body,), joint_names=("wrist",))


@pytest.mark.parametrize("pitch", [np.pi / 2, -np.pi / 2, 5 * np.pi / 2])
def test_initial_configuration_at_a_singular_pitch_angle_is_rejected(pitch):
    with pytest.raises(
        ValueError, match=r"the motion cannot start at q0: wrist of model 'top' has Euler"
    ):
        RobotPlant(top(EulerSpherical()), q0=[0.3, pitch, 0.1])
    with pytest.raises(
        ValueError, match=r"the motion cannot start at q0: wrist of model 'top' has Euler"
    ):
        RobotPlant(top(Reversed(EulerSpherical())), q0=[0.3, pitch, 0.1])
    RobotPlant(top(EulerSpherical()), q0=[0.3, pitch - 0.1, 0.1])
    RobotPlant(top(Spherical()), q0=[np.sqrt(0.5), 0.0, np.sqrt(0.5), 0.0])


@pytest.mark.parametrize("method", [RK4, ADAPTIVE])
def test_error_for_nonfinite_values_near_a_singular_pitch_angle_identifies_the_joint(method):
    plant = RobotPlant(top(EulerSpherical()), q0=[0.3, 1.0, 0.1], qd0=[1e200, 0.0, 0.0])
    memory = memory_for(plant, method)
    stepper, m = NumpyStepper(memory, method, 1e-3), memory.start()
    m[memory.where["q"]] = 0.3, np.pi / 2, 0.1
    with pytest.raises(StepError, match=r"\(wrist of model 'top' has Euler angles"):
        stepper.step(m, 0.0, 1e-3)
    memory = memory_for(RobotPlant(top(Spherical()), qd0=[1e200, 0.0, 0.0]), method)
    stepper = NumpyStepper(memory, method, 1e-3)
    with pytest.raises(StepError) as elsewhere:
        stepper.step(memory.start(), 0.0, 1e-3)
    assert "Euler" not in str(elsewhere.value)


@pytest.mark.parametrize("kind", [ContactPlant, SoftContactPlant])
def test_log_of_a_contact_plant_lists_the_joints_with_singular_coordinates(kind):
    model = replace(top(EulerSpherical()), contact=((Sphere(0.1),),))
    plant = kind(RobotPlant(model, q0=[0.3, 1.0, 0.1]), 1e4, 10.0)
    states = {port.name: np.array(port.start) for port in plant.states}
    assert list(plant.suspects(Record(states))) == []
    states["q"] = np.array([0.3, np.pi / 2, 0.1])
    (found,) = plant.suspects(Record(states))
    assert "wrist of model 'top' has Euler angles" in found


@pytest.mark.slow
@pytest.mark.parametrize("form", ["native", "python"])
def test_fmu_error_at_a_singular_pitch_angle_identifies_the_joint(tmp_path, form):
    """A body on its centre of mass pitches to the singularity with almost no other rotation."""
    body = mcI(1.0, np.zeros(3), np.diag([0.1, 0.2, 0.3]))
    joint = (EulerSpherical(),)
    model = Model("top", (-1,), joint, (identity(),), (body,), np.zeros(3), joint_names=("wrist",))
    plant = RobotPlant(model, q0=[0.0, 1.0, 0.0], qd0=[0.0, 2.0, 1e-9])
    system = System()
    system.add("top", export_fmu(plant, tmp_path / "top.fmu", form, method="adaptive"))
    with pytest.raises(SimulationError, match="wrist of model 'top' has Euler angles, and is sing"):
        simulate(system, 1.0, 0.01, progress=False)
