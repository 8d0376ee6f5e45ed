"""Nominal values of plant ports from the joint limits of a file."""

import numpy as np
import pytest

from rigidblocks.block.adaptive_methods import method_of
from rigidblocks.block.memory_layout import Memory
from rigidblocks.fmi.variables import Variables
from rigidblocks.kernels.traced_evaluator import TracedEvaluator
from rigidblocks.library.plant_from_file import described_plant
from rigidblocks.robot_description.load import load_model

GRIPPER = """<robot name="gripper">
  <link name="base">{inertia}</link><link name="arm">{inertia}</link>
  <link name="finger">{inertia}</link>
  <joint name="hinge" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="0 1 0"/>
    <limit lower="-3" upper="2" velocity="2.5" effort="87"/></joint>
  <joint name="slide" type="prismatic"><parent link="arm"/><child link="finger"/>
    <limit lower="-0.02" upper="0.04" velocity="{velocity}" effort="{effort}"/></joint>
</robot>""".replace(
    "{inertia}",
    """<inertial><mass value="1"/><origin xyz="0.1 0 0"/>
  <inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>""",
)


def plant_of(tmp_path, velocity="0.2", effort="40", **options):
    path = tmp_path / "gripper.urdf"
    path.write_text(GRIPPER.format(velocity=velocity, effort=effort))
    return described_plant(load_model(path, **options))


def nominal(ports, name):
    return next(port for port in ports if port.name == name).nominal.tolist()


def test_joint_limits_set_the_nominal_values_of_the_ports(tmp_path):
    plant = plant_of(tmp_path)
    assert nominal(plant.states, "q") == [1.0, 0.04]
    assert nominal(plant.states, "qd") == [2.5, 0.2]
    assert nominal(plant.outputs, "qd") == [2.5, 0.2]
    assert nominal(plant.inputs, "tau") == [87.0, 40.0]
    method = method_of("adaptive", 1e-6)
    np.testing.assert_allclose(method.absolute_tolerances(plant.states), [1e-6, 4e-8, 2.5e-6, 2e-7])


@pytest.mark.parametrize(
    ("limit", "qd", "tau"), [("0", 1.0, 1.0), ("1e12", 1.0, 1.0), ("50", 10.0, 50.0)]
)
def test_zero_or_huge_joint_limits_set_no_nominal_values(limit, qd, tau, tmp_path):
    plant = plant_of(tmp_path, limit, limit)
    assert nominal(plant.states, "qd")[1] == qd
    assert nominal(plant.inputs, "tau")[1] == tau


def test_joint_limits_set_the_nominal_values_of_a_floating_base_plant(tmp_path):
    plant = plant_of(tmp_path, floating=True)
    assert nominal(plant.states, "qd") == [2.5, 0.2]
    assert nominal(plant.states, "velocity") == [1.0] * 6
    assert nominal(plant.inputs, "tau") == [87.0, 40.0]


def test_fmu_variables_have_the_nominal_values_of_the_ports(tmp_path):
    evaluator = TracedEvaluator(Memory(plant_of(tmp_path)))
    found = {v.name: v.nominal for v in Variables(evaluator).all}
    assert (found["qd[1]"], found["q[2]"], found["tau[2]"]) == (2.5, 0.04, 40.0)
    assert found["q[1]"] is None  # the FMI default is 1
