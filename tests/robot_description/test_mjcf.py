"""MJCF models compared with MuJoCo, without contacts and limits.

The relative tolerance of accelerations is 1e-9, a bound on the rounding errors of both libraries.
"""

import os
import re

import numpy as np
import pytest
from lxml import etree
from numpy.polynomial import Polynomial
from numpy.testing import assert_allclose, assert_array_equal

from library_runs import outputs, run
from rigidblocks.block.adaptive_methods import memory_for, method_of
from rigidblocks.block.block import Record, call
from rigidblocks.cli.input_files import wire_robot
from rigidblocks.common.format_error import FormatError
from rigidblocks.contact.world import World, joined_description
from rigidblocks.dynamics import aba, aba_with_rotors, crba, rnea
from rigidblocks.dynamics.kinematics import body_poses, body_velocities
from rigidblocks.dynamics.loops.assembly import closure_errors
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.library.plant_from_file import (
    described_elements,
    described_plant,
)
from rigidblocks.library.plants import RobotPlant
from rigidblocks.robot.configuration import integrate, neutral, random_configuration
from rigidblocks.robot.shapes import Plane
from rigidblocks.robot_description.json_file import save_model
from rigidblocks.robot_description.load import load_model
from rigidblocks.robot_description.schema_coverage import (
    MJCF,
    ReadElement,
    ReportedElement,
    unread_elements,
)
from rigidblocks.spatial.rigid_motion import quaternion_rotation
from rigidblocks.spatial.spatial import identity
from robots_of_peers import acceleration_from_mujoco, mujoco_state

mujoco = pytest.importorskip("mujoco", reason="MuJoCo is not installed (`pip install mujoco`)")
pytestmark = pytest.mark.interop

RTOL = 1e-9

GEOM = '<geom type="box" size="0.1 0.2 0.3" pos="0.1 0 0.2" euler="10 20 30"/>'
BALL = '<geom type="sphere" size="0.1" pos="0 0.1 0"/>'
ROBOTS = {
    "hinges": f"""<body name="a" pos="1 2 3" euler="10 20 30">
        <joint name="j" axis="1 2 0" pos="0 0 0.1" armature="0.1" ref="20"/>{GEOM}
        <body name="b" pos="0 0 1"><joint name="k" axis="0 1 0"/>{BALL}</body></body>""",
    "two free bodies": f"""<body name="a" pos="0 0 1"><freejoint/>{GEOM}
        <body name="b" pos="0 0 1"><joint name="k" axis="0 1 0"/>{BALL}</body></body>
        <body name="c" pos="2 0 1" euler="10 20 30"><freejoint/>{GEOM}</body>""",
    "several joints a body": f"""<body name="a"><joint name="x" type="slide" axis="1 0 0"/>
        <joint name="y" type="slide" axis="0 1 0" pos="1 1 1"/>
        <joint name="r" axis="0 0 1" pos="0.2 0 0" armature="0.2"/>{GEOM}</body>""",
    "ball": f"""<body pos="0 0 1"><joint type="ball" pos="0 0.1 0.2"/>{GEOM}
        <body pos="1 0 0">{BALL}<body pos="0 1 0" euler="0 0 50"><joint axis="1 0 0"/>{GEOM}
        </body></body></body>""",
    "free": f"""<body name="base" pos="0 0 1" euler="1 2 3"><freejoint name="root"/>{GEOM}
        <body pos="0 0.3 0"><joint axis="0 1 1"/>{BALL}</body>
        <body pos="0 -0.3 0"><joint type="slide" axis="0 1 0"/>{GEOM}</body></body>""",
}


def mjcf(bodies, more=""):
    return f"<mujoco><worldbody>{bodies}</worldbody>{more}</mujoco>"


@pytest.fixture
def read(tmp_path):
    def read_text(text):
        path = tmp_path / "robot.xml"
        path.write_text(text)
        return load_model(path)

    return read_text


@pytest.mark.parametrize("name", ROBOTS)
def test_accelerations_of_mjcf_robots_match_mujoco(name, read, tmp_path, rng):
    robot = read(mjcf(ROBOTS[name]))
    model = robot.model
    there = mujoco.MjModel.from_xml_path(str(tmp_path / "robot.xml"))
    there.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    data = mujoco.MjData(there)
    for _ in range(5):
        q, qd = random_configuration(model, rng), rng.normal(size=model.nv)
        data.qpos[:], data.qvel[:] = mujoco_state(model, there, q, qd)
        mujoco.mj_forward(there, data)
        ours = aba_with_rotors(model, q, qd, np.zeros(model.nv), robot.joint_properties.armature)
        theirs = acceleration_from_mujoco(model, there, q, qd, data.qacc)
        assert_allclose(ours, theirs, rtol=0, atol=RTOL * np.abs(theirs).max())
        back = rnea(model, q, qd, theirs) + robot.joint_properties.armature * theirs
        assert_allclose(back, 0.0, atol=RTOL * np.abs(crba(model, q)).max() * np.abs(theirs).max())


BOXES = """<option gravity="0 0 -1.62"/><worldbody>
    <body name="lower" pos="0 0 1"><freejoint/><geom type="box" size=".1 .1 .1"/></body>
    <body name="upper" pos="0.5 0 2" quat="1 0 0 1"><freejoint name="up"/>
      <geom type="box" size=".1 .2 .1"/>
      <body name="arm" pos="0 0 1"><joint name="ball" type="ball" pos="0 0.1 0"/>
        <geom type="box" size=".1 .2 .1"/>
        <body name="hand" pos="0 0.3 0"><joint name="hinge" axis="1 0 0" ref="20"/>
          <geom type="sphere" size=".1"/></body></body></body></worldbody>
    <keyframe><key name="apart" qpos="1 0 3 0 1 0 0  -1 0 3 1 2 3 4  1 0 1 0  0.5"
        qvel="1 2 3 4 5 6  7 8 9 1 2 3  4 5 6  7"/><key/></keyframe>"""


def test_initial_and_keyframe_poses_of_mjcf_robots_match_mujoco(read, tmp_path):
    robot = read(f"<mujoco>{BOXES}</mujoco>")
    there = mujoco.MjModel.from_xml_path(str(tmp_path / "robot.xml"))
    data = mujoco.MjData(there)
    names = robot.model.body_names
    for key, state in (
        (-1, robot),
        (0, robot.select_keyframe("apart")),
        (1, robot.select_keyframe("key1")),
    ):
        if key >= 0:
            mujoco.mj_resetDataKeyframe(there, data, key)
        mujoco.mj_forward(there, data)
        qd0 = np.zeros(robot.model.nv) if state.qd0 is None else state.qd0
        for X, v, body in zip(
            body_poses(robot.model, state.q0),
            body_velocities(robot.model, state.q0, qd0),
            names,
            strict=True,
        ):
            theirs, velocity = data.body(body), np.zeros(6)
            # each joint of a body has a frame; the bodies here have one joint
            frame = robot.frames[body].placement @ X
            assert_allclose(frame.r, theirs.xpos, atol=1e-12)
            assert_allclose(frame.E, theirs.xmat.reshape(3, 3).T, atol=1e-12)
            kind = mujoco.mjtObj.mjOBJ_XBODY
            mujoco.mj_objectVelocity(there, data, kind, there.body(body).id, velocity, 1)
            assert_allclose(robot.frames[body].placement @ v, velocity, atol=1e-12)


@pytest.mark.parametrize("free", ["", '<joint axis="0 1 0"/>'])
def test_initial_state_of_an_mjcf_plant_matches_mujoco(read, free):
    """A single floating base gives a FloatingBasePlant; a second root body gives a RobotPlant."""
    more = f"<body pos='9 0 0'>{free}{BALL}</body>" if free else ""
    body = f"""<body name="a" pos="1 2 3" euler="10 20 30"><freejoint/>{GEOM}
        <body pos="0 0 1"><joint/>{BALL}</body></body>{more}"""
    keys = '<keyframe><key name="k" qpos="{}" qvel="{}"/></keyframe>'
    rest = " 0.3" * (2 if free else 1)
    robot = read(mjcf(body, keys.format(f"3 2 1 0 1 0 0{rest}", f"1 2 3 4 5 6{rest}")))
    for state, position in ((robot, [1, 2, 3]), (robot.select_keyframe("k"), [3, 2, 1])):
        plant = described_plant(state)
        start = {port.name: np.asarray(port.start) for port in plant.states}
        if free:
            assert_allclose(start["q"], state.q0)
            assert_allclose(start["q"][4:7], position)
        else:
            assert_allclose(start["position"], position)
            assert_allclose(start["quaternion"], state.q0[:4])
            assert_allclose(start["q"], state.q0[7:])
            if state.qd0 is not None:
                assert_allclose(start["velocity"], [4, 5, 6, 1, -2, -3], atol=1e-12)
                assert_allclose(start["qd"], 0.3)


def test_error_for_an_unknown_keyframe_lists_the_known_keyframes(read, tmp_path):
    read(f"<mujoco>{BOXES}</mujoco>")
    path = tmp_path / "robot.xml"
    assert_array_equal(load_model(path, key="apart").q0[4:7], [1, 0, 3])
    with pytest.raises(FormatError, match="no keyframe 'apar'; its keyframes are 'apart', 'key1'"):
        load_model(path, key="apar")


def test_ignored_actuator_controls_of_mjcf_keyframes_are_reported(read):
    keys = "<keyframe><key name='a' ctrl='1'/><key name='b' ctrl='0'/></keyframe>"
    more = f"<actuator><motor joint='j'/></actuator>{keys}"
    warnings = read(mjcf(ROBOTS["hinges"], more)).warnings
    assert "the controls of the keyframes 'a' are not read" in warnings


def test_world_uses_the_initial_configuration_and_gravity_of_the_mjcf_file(read):
    robot = read(f"<mujoco>{BOXES}</mujoco>")
    world = World("w")
    world.add_robot("r", robot, at=(0, 0, 5))
    world.add_robot("s", robot, at=(9, 0, 5), key="apart")
    assert_array_equal(world.model().gravity, [0, 0, -1.62])
    q = np.split(world.plant().plant.q0, 2)
    assert_allclose(q[0], robot.q0 + np.isin(np.arange(len(q[0])), [6, 13]) * 5.0)
    assert_allclose(q[1][4:7], [10, 0, 8])
    other = World("w", gravity=(0, 0, -9.81))
    other.add_robot("r", robot)
    assert_array_equal(other.model().gravity, [0, 0, -9.81])


def test_robots_with_different_gravity_in_one_world_are_rejected(read):
    world = World("w")
    world.add_robot("r", read(f"<mujoco>{BOXES}</mujoco>"))
    world.add_robot("s", read(mjcf(ROBOTS["free"])))
    with pytest.raises(ValueError, match=r"'r' has the gravity .* but robot 's' has .*World"):
        world.model()


PASSIVE = {
    "ball": f"""<body pos="0.1 0 0" euler="30 20 10">
        <joint axis="1 2 0" pos="0.05 0 0.02" damping="0.3" stiffness="4" springref="0.4"/>{GEOM}
        <body pos="0.3 0 0.1" euler="0 0 50">
          <joint type="ball" pos="0 0.1 0" damping="0.2" armature="0.01" stiffness="3"/>{BALL}
          <body pos="0 0 0.4"><joint axis="0 1 0" armature="0.02" springdamper="0.2 1.5"/>{GEOM}
          </body></body></body>""",
    "free": f"""<body pos="0 0 1" euler="10 50 20">
        <joint type="free" damping="0.5" armature="0.1" stiffness="7"/>{GEOM}</body>""",
    "free with arms": f"""<body pos="0 0 1"><joint type="free" armature="0.3"/>{GEOM}
        <body pos="0 0.3 0"><joint axis="0 1 1" damping="1"/>{BALL}</body>
        <body pos="0 -0.3 0"><joint type="ball" armature="0.1"/>{GEOM}</body></body>
        <body pos="3 0 1"><joint type="free" damping="0.1"/>{GEOM}</body>""",
    "free without armature": f"""<body pos="0 0 1" euler="10 50 20">
        <joint type="free" damping="0.5" stiffness="2"/>{GEOM}
        <body pos="0 0.3 0"><joint axis="0 1 1" damping="1"/>{BALL}</body></body>""",
}


@pytest.mark.parametrize("name", PASSIVE)
def test_passive_forces_and_armature_of_mjcf_robots_match_mujoco(name, read, tmp_path, rng):
    robot = read(mjcf(PASSIVE[name]))
    model, plant = robot.model, described_plant(robot, joint_friction=True)
    there = mujoco.MjModel.from_xml_path(str(tmp_path / "robot.xml"))
    there.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    data = mujoco.MjData(there)
    p = Record({port.name: port.start for port in plant.parameters})
    for scale in (0.0, 1e-3, 1.0, 1.0, 10.0):
        q, qd = random_configuration(model, rng), scale * rng.normal(size=model.nv)
        q = integrate(model, robot.q0 if robot.q0 is not None else neutral(model), qd)
        data.qpos[:], data.qvel[:] = mujoco_state(model, there, q, qd)
        mujoco.mj_forward(there, data)
        x = Record({"q": q, "qd": qd})
        u = Record({"tau": np.zeros(model.nv)})
        ours = plant.derivative(0.0, x, u, p)["qd"]
        theirs = acceleration_from_mujoco(model, there, q, qd, data.qacc)
        assert_allclose(ours, theirs, rtol=0, atol=RTOL * np.abs(theirs).max())


@pytest.mark.parametrize("name", PASSIVE)
def test_energy_of_an_mjcf_robot_decreases_only_by_damping(name, read):
    """The energy of springs, rotors and bodies is constant without damping."""
    text = mjcf(PASSIVE[name])
    undamped = re.sub(r'(damping|springdamper)="[^"]*"', "", text)
    for one, is_damped in ((undamped, False), (text, "damping" in text)):
        robot = read(one)
        plant = described_plant(robot, joint_friction=True)
        memory = memory_for(plant, method_of("rk4"))
        stepper, m = compiled_stepper(memory, method_of("rk4")), memory.start()
        m[memory.where["qd"]] = np.linspace(0.5, 2.0, robot.model.nv)
        rows = np.zeros((500, memory.size))
        stepper.initialize(m, 0.0)
        assert stepper.run(m, 0.0, 1e-3, rows) == len(rows)
        energy = rows[:, memory.where["energy"]].ravel()
        if is_damped:
            assert np.all(np.diff(energy) < 0)
        else:
            assert_allclose(energy, energy[0], atol=1e-7 * np.ptp(rows, axis=0).max())


PAIR = f"""<body name="a" {{}}><joint name="j" axis="1 2 0" ref="20"/>{GEOM}
    <body pos="0 0 1" {{}}><joint name="k" axis="0 1 0"/>{BALL}</body></body>"""
FLOATING = f"""<body name="a" pos="0 0 1" euler="10 20 30" {{}}><freejoint/>{GEOM}
    <body pos="0 0 1" {{}}><joint name="k" axis="0 1 0"/>{BALL}</body></body>"""
ELEMENTS = {
    "gravity compensation": (PAIR.format('gravcomp="0.5"', 'gravcomp="1"'), ""),
    "buoyancy of a floating base": (FLOATING.format('gravcomp="1.2"', ""), ""),
    "a fluid": (FLOATING.format("", ""), '<option density="1000" viscosity="0.7"/>'),
    "air": (PAIR.format("", ""), '<option density="1.2"/>'),
    "a viscous fluid": (PAIR.format("", ""), '<option viscosity="3"/>'),
    "fixed tendons": (
        PAIR.format("", ""),
        """<tendon><fixed name="t" stiffness="30" damping="2" springlength="0.2">
          <joint joint="j" coef="2"/><joint joint="k" coef="-1"/></fixed>
        <fixed stiffness="5" springlength="-0.3 0.4"><joint joint="j" coef="1"/>
          <joint joint="k" coef="0.5"/></fixed>
        <fixed stiffness="4"><joint joint="k" coef="3"/></fixed>
        <fixed damping="4"><joint joint="k" coef="3"/></fixed></tendon>""",
    ),
    "disabled passive forces": (
        PAIR.format('gravcomp="0.5"', ""),
        """<option viscosity="3"><flag spring="disable" damper="disable"/></option>
        <tendon><fixed stiffness="30" damping="2"><joint joint="j" coef="2"/></fixed></tendon>""",
    ),
    "gravity compensation without gravity": (
        PAIR.format('gravcomp="0.5"', ""),
        '<option><flag gravity="disable"/></option>',
    ),
}


@pytest.mark.parametrize("name", ELEMENTS)
def test_forces_of_gravity_compensation_fluids_and_fixed_tendons_match_mujoco(
    name, read, tmp_path, rng
):
    robot = read(mjcf(*ELEMENTS[name]))
    model = robot.model
    plant = RobotPlant(model, elements=described_elements(robot, joint_friction=True))
    there = mujoco.MjModel.from_xml_path(str(tmp_path / "robot.xml"))
    there.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    data = mujoco.MjData(there)
    p = Record({port.name: port.start for port in plant.parameters})
    for scale in (0.0, 1.0, 3.0):
        q, qd = random_configuration(model, rng), scale * rng.normal(size=model.nv)
        data.qpos[:], data.qvel[:] = mujoco_state(model, there, q, qd)
        mujoco.mj_forward(there, data)
        u = Record({"tau": np.zeros(model.nv)})
        ours = plant.derivative(0.0, Record({"q": q, "qd": qd}), u, p)["qd"]
        theirs = acceleration_from_mujoco(model, there, q, qd, data.qacc)
        assert_allclose(ours, theirs, rtol=0, atol=RTOL * np.abs([*theirs, 1.0]).max())


def test_gravity_compensation_of_an_mjcf_robot_is_proportional_to_gravity(read):
    robot = read(mjcf(PAIR.format('gravcomp="1"', 'gravcomp="1"')))
    plant = described_plant(robot)
    p = {port.name: port.start for port in plant.parameters}
    x = Record({"q": np.array([0.3, 0.4]), "qd": np.zeros(2)})
    for gravity in ([0.0, 0.0, -9.81], [0.0, 0.0, -1.62], [3.0, 4.0, 0.0], [0.0, 0.0, 0.0]):
        now = Record({**p, "gravity": np.array(gravity)})
        motion = plant.derivative(0.0, x, Record({"tau": np.zeros(2)}), now)
        assert_allclose(motion["qd"], 0.0, atol=1e-12)


def test_gravity_compensation_of_an_mjcf_robot_uses_the_gravity_of_the_world(read):
    """The file has no gravity, but the world has, and half of the weight remains."""
    body = f'<body pos="0 0 1" gravcomp="0.5"><freejoint/>{BALL}</body>'
    robot = read(mjcf(body, '<option gravity="0 0 0"/>'))
    for gravity in ((0.0, 0.0, -8.0), (0.0, 0.0, 0.0)):
        world = World("w", gravity=gravity)
        world.add_robot("r", robot)
        (weight,) = described_elements(joined_description(world.model(), world._parts))
        plant = RobotPlant(world.model(), elements=(weight,))
        p = Record({port.name: port.start for port in plant.parameters})
        x = Record({"q": plant.q0, "qd": np.zeros(6)})
        motion = plant.derivative(0.0, x, Record({"tau": np.zeros(6)}), p)
        assert_allclose(motion["qd"][3:], np.array(gravity) / 2, atol=1e-14)


def test_compiled_floating_base_sinks_in_a_fluid_at_its_terminal_speed(read):
    """A sphere with half of its weight compensated sinks with 3 pi d beta v + rho d^2 v^2 / 2."""
    rho, beta, radius = 20.0, 0.5, 0.1
    body = (
        f"""<body pos="0 0 1" gravcomp="0.5"><freejoint/><geom size="{radius}" mass="2"/></body>"""
    )
    robot = read(mjcf(body, f'<option density="{rho}" viscosity="{beta}" gravity="0 0 -10"/>'))
    plant = described_plant(robot, joint_friction=True)
    assert type(plant).__name__ == "FloatingBasePlant"
    memory = memory_for(plant, method_of("rk4"))
    stepper, m = compiled_stepper(memory, method_of("rk4")), memory.start()
    rows = np.zeros((200, memory.size))
    stepper.initialize(m, 0.0)
    assert stepper.run(m, 0.0, 0.1, rows) == len(rows)
    d = np.sqrt(6 * 0.4 * radius**2)
    v = -rows[-1, memory.where["velocity"]][-1]
    assert_allclose(3 * np.pi * d * beta * v + rho * d**2 * v**2 / 2, 2 * 10 * 0.5, rtol=1e-6)
    assert_allclose(rows[-1, memory.where["velocity"]][:5], 0.0, atol=1e-12)


def test_length_limits_of_fixed_mjcf_tendons_become_stops(read):
    more = """<tendon><fixed name="t" limited="true" range="-1 2"><joint joint="j" coef="2"/>
        </fixed></tendon>"""
    robot = read(mjcf(PAIR.format("", ""), more))
    (element,) = described_elements(robot, stops=(1e4, 50.0))
    ref = 2 * np.deg2rad(20.0)
    assert element.name == "t_stop"
    assert_allclose([element.law.lower, element.law.upper], [-1 - ref, 2 - ref])
    assert described_elements(robot) == ()
    world = World("w")
    world.add_robot("r", robot)
    with pytest.raises(ValueError, match=r"does not support tendons \(r_t of world 'w'\)"):
        world.plant()


def test_force_elements_of_mjcf_robots_are_preserved_in_json_files_and_worlds(read, tmp_path):
    body, more = FLOATING.format('gravcomp="0.5"', ""), '<option density="9" viscosity="1"/>'
    more += """<tendon><fixed stiffness="3" range="-1 2" springlength="-0.3 0.4">
        <joint joint="k" coef="3"/></fixed></tendon>"""
    robot = read(mjcf(body, more))
    save_model(robot, tmp_path / "robot.json")
    again = load_model(tmp_path / "robot.json")
    names = [e.name for e in described_elements(robot, True)]
    assert len(names) == 1 + 2 * 6 + 1
    assert [e.name for e in described_elements(again, True)] == names
    assert again.weightless == robot.weightless
    assert again.tendons == robot.tendons
    world = World("w")
    for name in "rs":
        world.add_robot(name, robot, at=(0, 3 * (name == "s"), 1))
    plant = world.soft_plant(1e4)
    assert {f"{r}_{name}" for r in "rs" for name in names} <= {
        port.name.removesuffix("_force") for port in plant.outputs
    } | {e.name for e in plant.plant.robot.elements}


def test_mjcf_joint_equality_with_a_constant_fixes_the_joint_at_this_constant(read, rng):
    """A joint that is held at the constant moves like a model without the joint."""
    held = f"""<body name="a"><joint name="j" axis="1 2 0"/>{GEOM}
        <body name="b" pos="0.1 0.2 1"><joint name="k" axis="0 0 1" ref="20"/>{BALL}
        <body pos="0.3 0 0"><joint name="l" axis="0 1 0"/>{GEOM}</body></body></body>"""
    more = """<equality><joint joint1="k" polycoef="0.7 0 0 0 0"/></equality>
        <actuator><motor name="m" joint="k"/></actuator>"""
    robot = read(mjcf(held, more))
    assert robot.model.joint_names == ("j", "l")
    assert any("'m' acts on joint 'k', which is fixed" in said for said in robot.warnings)
    there = mujoco.MjModel.from_xml_string(mjcf(held.replace("ref=", "armature='1e12' ref=")))
    data = mujoco.MjData(there)
    there.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    for _ in range(3):
        q, qd = rng.normal(size=2), rng.normal(size=2)
        data.qpos[:] = [q[0], 0.7 + np.deg2rad(20.0), q[1]]
        data.qvel[:] = [qd[0], 0.0, qd[1]]
        mujoco.mj_forward(there, data)
        theirs = data.qacc[[0, 2]]
        ours = aba_with_rotors(robot.model, q, qd, np.zeros(2), np.zeros(2))
        assert_allclose(ours, theirs, rtol=0, atol=1e-9 * np.abs(theirs).max())


FINGERS = f"""<body name="a"><joint name="j" axis="1 2 0" ref="20"/>{GEOM}
    <body name="b" pos="0.1 0.2 1"><joint name="k" type="slide" axis="0 1 1" ref="0.3"/>{BALL}
    <body pos="0.3 0 0"><joint name="l" axis="0 1 0" ref="-15"/>{GEOM}
    <body pos="0 0.2 0"><joint name="o" axis="1 0 0"/>{GEOM}</body></body></body></body>"""
TENDONS = {
    "s": '<fixed name="s"><joint joint="j" coef="2"/><joint joint="k" coef="-3"/></fixed>',
    "t": '<fixed name="t"><joint joint="l" coef="-1.5"/></fixed>',
    "u": '<fixed name="u"><joint joint="k" coef="-3"/><joint joint="l" coef="4"/></fixed>',
    "v": '<fixed name="v"><joint joint="k" coef="0.5"/><joint joint="j" coef="0.25"/></fixed>',
    "x": '<fixed name="x"><joint joint="o" coef="0.8"/></fixed>',
    "w": '<spatial name="w"><site site="x"/><site site="y"/></spatial>',
}


def with_tendons(equality):
    """Return an <equality> element and the tendons that it names."""
    tendons = "".join(text for name, text in TENDONS.items() if f'"{name}"' in equality)
    return f"<tendon>{tendons}</tendon><equality>\n{equality}</equality>"


def polynomial_bend(there, data, e):
    """Return p''(y) (dy/dt)^2 of the equality constraint e of two joints or fixed tendons."""
    other = there.eq_obj2id[e]
    if other < 0:
        return 0.0
    if there.eq_type[e] == mujoco.mjtEq.mjEQ_JOINT:
        y = data.qpos[other] - there.qpos0[other]
        yd = data.qvel[other]
    else:
        y, yd = data.ten_length[other] - there.tendon_length0[other], data.ten_velocity[other]
    return Polynomial(there.eq_data[e, :5]).deriv(2)(y) * yd**2


TENDON_EQUALITIES = {
    "one tendon of two joints": '<tendon tendon1="s" polycoef="0.4 9 9 9 9"/>',
    "two tendons with a common joint": '<tendon tendon1="s" tendon2="u" polycoef="0.3 1 0 0 0"/>',
    "a tendon that fixes a joint": '<tendon tendon1="t" polycoef="0.6 0 0 0 0"/>',
    "a chain": """<tendon tendon1="s" polycoef="0.4 0 0 0 0"/>
        <tendon tendon1="u" polycoef="-0.2 0 0 0 0"/>""",
    "a quartic of two joints": '<joint joint1="l" joint2="j" polycoef="0.1 0.7 -0.3 0.2 0.4"/>',
    "a square without a linear term": '<joint joint1="k" joint2="o" polycoef="0 0 0.5 0 0"/>',
    "a chain of polynomials": """<joint joint1="k" joint2="j" polycoef="0.2 0.3 0.1 0 0"/>
        <joint joint1="o" joint2="k" polycoef="0.1 0.5 0 -0.2 0"/>""",
    "a polynomial before a linear equation": """<joint joint1="j" joint2="o"/>
        <joint joint1="j" joint2="l" polycoef="0 0 0.5 0 0"/>""",
    "a cubic of two tendons": """<tendon tendon1="t" tendon2="x"
        polycoef="0.3 0.5 0.2 0.1 0"/>""",
    "a tendon with a joint equality": """<joint joint1="j" joint2="o" polycoef="0.1 0.7 0 0 0"/>
        <tendon tendon1="v" polycoef="0.4 0 0 0 0"/>""",
}


@pytest.mark.parametrize("kind", TENDON_EQUALITIES)
def test_mjcf_equalities_of_fixed_tendons_constrain_the_accelerations(kind, read, rng):
    """Compare with [M J^T; J 0] [qdd; -f] = [tau - h; k], with M, h and J from MuJoCo.

    k is the second derivative of the polynomials.
    """
    text = mjcf(FINGERS, with_tendons(TENDON_EQUALITIES[kind]))
    robot = read(text)
    assert robot.warnings == ("joint positions are relative to the attribute ref of each joint",)
    plant = described_plant(robot)
    there = mujoco.MjModel.from_xml_string(text)
    there.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    data, names = mujoco.MjData(there), robot.model.joint_names
    of = [there.joint(name).dofadr[0] for name in names]
    p = Record({port.name: np.asarray(port.start) for port in plant.parameters})
    for _ in range(5):
        q, qd = rng.normal(size=(2, len(names)))
        q, qd = plant.force_elements.project_to_gears(q, qd, p)
        tau = rng.normal(size=len(names))
        data.qpos[:] = there.qpos0
        for e in range(there.neq):  # the position of a joint that a tendon fixes
            if there.eq_type[e] == mujoco.mjtEq.mjEQ_TENDON and len(names) < there.nv:
                data.qpos[2] += there.eq_data[e, 0] / -1.5
        data.qpos[of] += q
        data.qvel[:] = 0.0
        data.qvel[of] = qd
        mujoco.mj_forward(there, data)
        assert_allclose(data.efc_pos[: data.ne], 0.0, atol=1e-12)
        J = data.efc_J.reshape(-1, there.nv)[: data.ne]
        assert_allclose(J @ data.qvel, 0.0, atol=1e-12)
        M, h = np.zeros((there.nv, there.nv)), data.qfrc_bias - data.qfrc_passive
        for row, unit in zip(M, np.eye(there.nv), strict=True):
            mujoco.mj_mulM(there, data, row, unit)
        force = np.zeros(there.nv)
        force[of] = tau
        n = len(J)
        K = np.block([[M, J.T], [J, np.zeros((n, n))]])
        bends = np.array([polynomial_bend(there, data, e) for e in range(there.neq)])
        expected = np.linalg.solve(K, np.concatenate([force - h, bends]))[: there.nv]
        x, u = Record({"q": q, "qd": qd}), Record({"tau": tau})
        found = call(plant, "output", 0.0, x, u, p)["qdd"]
        assert_allclose(found, expected[of], atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("equality", "reason"),
    [
        ('<tendon tendon1="s" tendon2="t"/>', "must couple one or two joints, but couples 3"),
        ('<tendon tendon1="w"/>', "needs fixed tendons, but 'w' is spatial"),
        (
            '<tendon tendon1="s" tendon2="v" polycoef="0 1 0 2 0"/>',
            "of tendons with polycoef 0 1 0 2 0 needs two tendons of one joint each",
        ),
    ],
)
def test_unsupported_mjcf_equalities_of_tendons_are_rejected_with_their_line_number(
    equality, reason, read
):
    body = FINGERS.replace('<joint name="o"', '<site name="y"/><joint name="o"')
    text = mjcf(f'<site name="x"/>{body}', with_tendons(equality))
    line = text[: text.index(equality)].count("\n") + 1
    with pytest.raises(FormatError, match=re.escape(reason)) as refusal:
        read(text)
    assert f"robot.xml:{line}: an <equality> constraint" in str(refusal.value)


LOCK = '<joint joint1="k" polycoef="0.5 0 0 0 0"/>'
LOCKS = {  # equalities, positions of the locked joints
    "a constant of two joints": (
        '<joint joint1="j" joint2="o" polycoef="0.3 0 0 0 0"/>', {"j": 0.3},
    ),
    "a line from a locked joint": (
        f'<joint joint1="j" joint2="k" polycoef="0.1 2 0 0 0"/>{LOCK}',
        {"k": 0.5, "j": 1.1},
    ),
    "a line to a locked joint": (
        f'<joint joint1="k" joint2="j" polycoef="0.1 2 0 0 0"/>{LOCK}',
        {"k": 0.5, "j": 0.2},
    ),
    "a chain of polynomials from a locked joint": (
        f"""<joint joint1="o" joint2="l" polycoef="0 0 0 1 0"/>
        <joint joint1="l" joint2="k" polycoef="0.1 2 3 0 4"/>{LOCK}""",
        {"k": 0.5, "l": 2.1, "o": 2.1**3},
    ),
    "a redundant constraint": (
        f'<joint joint1="l" joint2="k" polycoef="0.5 0 1 0 0"/>{LOCK}'
        '<joint joint1="l" polycoef="0.75 0 0 0 0"/>',
        {"k": 0.5, "l": 0.75},
    ),
    "a tendon without a joint": (
        '<tendon tendon1="x" tendon2="z" polycoef="0.4 2 0 0 0"/>', {"o": 0.5},
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", LOCKS)
def test_mjcf_equalities_with_a_locked_joint_lock_the_other_joint(kind, read):
    """MuJoCo places the bodies, and finds no constraint error at the locked positions."""
    equality, locked = LOCKS[kind]
    more = with_tendons(equality).replace("</tendon>", f"{ZERO_TENDON}</tendon>")
    bodies = FINGERS.replace('<body pos="0.3', '<body name="c" pos="0.3')
    text = mjcf(bodies.replace('<body pos="0 0.2', '<body name="d" pos="0 0.2'), more)
    robot = read(text)
    assert robot.couplings == ()
    assert set(robot.model.joint_names) == {"j", "k", "l", "o"} - set(locked)
    there = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(there)
    for name, value in locked.items():
        data.qpos[there.joint(name).qposadr[0]] += value
    mujoco.mj_forward(there, data)
    assert_allclose(data.efc_pos[: data.ne], 0.0, atol=1e-12)
    poses = body_poses(robot.model, neutral(robot.model))
    for name in "abcd":
        place, b = robot.frames[name], there.body(name).id
        X = place.placement @ (poses[place.body] if place.body >= 0 else identity())
        assert_allclose(X.r, data.xpos[b], atol=1e-12)
        assert_allclose(X.E.T, data.xmat[b].reshape(3, 3), atol=1e-12)


ZERO_TENDON = '<fixed name="z"><joint joint="l" coef="0"/></fixed>'


@pytest.mark.parametrize(
    ("equality", "reason"),
    [
        (
            f'{LOCK}<joint joint1="k" joint2="l" polycoef="0 0 1 0 0"/>',
            "couples the joints 'k' and 'l' by a polynomial, but another constraint fixes 'k'",
        ),
        (
            f'{LOCK}<joint joint1="k" polycoef="0.6 0 0 0 0"/>',
            "contradicts the positions of 'k', which other constraints fix",
        ),
        (
            '<tendon tendon1="x" tendon2="z" polycoef="0 1 1 0 0"/>',
            "needs two tendons of one joint each",
        ),
        (
            '<tendon tendon1="z" tendon2="x" polycoef="0 1 1 0 0"/>',
            "needs two tendons of one joint each",
        ),
    ],
)
def test_mjcf_equalities_that_contradict_locked_joints_are_rejected(equality, reason, read):
    more = with_tendons(equality).replace("</tendon>", f"{ZERO_TENDON}</tendon>")
    with pytest.raises(FormatError, match=reason):
        read(mjcf(FINGERS, more))


def test_mjcf_joint_with_two_polynomial_equalities_is_rejected(read):
    more = """<equality><joint joint1="j" joint2="k" polycoef="0 0 1 0 0"/>
        <joint joint1="j" joint2="l" polycoef="0 0 1 0 0"/></equality>"""
    text = "couples the joints 'j' and 'l', but other constraints already determine 'j'"
    with pytest.raises(FormatError, match=text):
        read(mjcf(FINGERS, more))


CURVED = {
    "floating base": (
        f"""<body name="a" pos="0 0 1"><freejoint/>{GEOM}
        <body pos="0 0 1"><joint name="j" axis="0 1 0"/>{BALL}</body>
        <body pos="1 0 0"><joint name="k" axis="1 0 0"/>{GEOM}</body></body>""",
        "",
    ),
    "loop": (
        f"""<body name="a"><joint name="j" axis="0 1 0"/>{GEOM}
        <body name="b" pos="0 0 1"><joint name="m" axis="0 1 0"/>{GEOM}</body></body>
        <body name="c" pos="1 0 0"><joint name="l" axis="0 1 0"/>{GEOM}</body>
        <body name="d" pos="0 1 0"><joint name="k" axis="1 0 0"/>{GEOM}</body>""",
        '<connect body1="b" body2="c" anchor="1 0 1"/>',
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", CURVED)
def test_joints_with_a_polynomial_equality_satisfy_it_and_conserve_energy(kind, read, tmp_path):
    """The constraint force of the equality does no work."""
    body, more = CURVED[kind]
    more += '<joint joint1="k" joint2="j" polycoef="0 0.4 0.5 -0.3 0.2"/>'
    robot = read(mjcf(body, f"<equality>{more}</equality>"))
    save_model(robot, tmp_path / "robot.json")
    plant = described_plant(load_model(tmp_path / "robot.json"))
    names = [*plant.model.joint_names]
    j, k = (names.index(name) for name in "jk")
    shift = {"floating base": 1}.get(kind, 0)  # the state q omits the floating base
    qd = np.zeros(plant.model.nv - 6 * shift)
    qd[j - shift], qd[k - shift] = 1.0, 0.4
    if kind == "loop":  # a parallelogram: the coupler does not turn
        qd[names.index("m")], qd[names.index("l")] = -1.0, 1.0
    y = run(plant, 1e-2, 60, qd=qd)
    q = y["q"].T
    curve = Polynomial([0, 0.4, 0.5, -0.3, 0.2])
    assert np.ptp(q[j - shift]) > 0.3
    assert_allclose(q[k - shift], curve(q[j - shift]), atol=1e-10)
    assert_allclose(y["energy"], y["energy"][0], atol=1e-8)


TWO_SITES = f"""<body name="a" pos="0 0 1"><freejoint/>{GEOM}
    <site name="s" pos="0.5 0 0" euler="10 20 30"/></body>
    <body name="b" pos="1 -0.1 1"><freejoint/>{GEOM}
    <site name="t" pos="-0.5 0.1 0" euler="10 20 30"/></body>"""


@pytest.mark.parametrize("kind", ["connect", "weld"])
def test_mjcf_equality_of_two_sites_connects_the_frames_of_the_sites(read, kind):
    robot = read(mjcf(TWO_SITES, f'<equality><{kind} site1="s" site2="t"/></equality>'))
    (loop,) = robot.model.loops
    assert type(loop.joint).__name__ == {"connect": "Spherical", "weld": "Fixed"}[kind]
    there = mujoco.MjModel.from_xml_string(mjcf(TWO_SITES))
    for X, site in ((loop.Xp, "s"), (loop.Xs, "t")):
        assert_allclose(X.r, there.site(site).pos, atol=1e-12)
        assert_allclose(X.E, quaternion_rotation(there.site(site).quat), atol=1e-12)


def test_mjcf_loops_that_are_open_in_the_file_are_assembled(read):
    """A four-bar linkage whose last pivot is 0.1 m away from the pivot of the coupler."""
    rod = '<geom type="capsule" fromto="0 0 0 {} 0 {}" size="0.05"/>'
    body = f"""<body name="a"><joint axis="0 1 0"/>{rod.format(0, 1)}
        <body name="b" pos="0 0 1"><joint axis="0 1 0"/>{rod.format(1, 0)}
        <site name="s" pos="1 0 0"/></body></body>
        <body name="c" pos="1.1 0 0"><joint axis="0 1 0"/>{rod.format(0, 1)}
        <site name="t" pos="0 0 1"/></body>"""
    robot = read(mjcf(body, '<equality><connect site1="s" site2="t"/></equality>'))
    (said,) = robot.warnings
    assert "the loop of 'equality0' is open by 0.1 rad or m in the file" in said
    assert max(closure_errors(robot.model, robot.q0)["equality0"][1:]) < 1e-9
    assert np.abs(robot.q0).max() < 0.2
    described_plant(robot)


FLAGS = ("gravity", "spring", "damper", "equality", "frictionloss", "limit", "actuation")


@pytest.mark.parametrize("flag", FLAGS)
def test_disabled_mjcf_option_flags_remove_the_corresponding_forces_or_elements(flag, read):
    body = f"""<body name="a"><joint name="j" damping="0.3" stiffness="4" frictionloss="2"
        limited="true" range="-1 1"/>{GEOM}</body>
        <body name="b" pos="3 0 0"><joint name="k" type="ball" damping="0.2" stiffness="2"/>{GEOM}
        </body><body name="c" pos="6 0 0"><joint name="l"/>{GEOM}</body>"""
    more = """<equality><joint joint1="l" joint2="j"/></equality>
        <actuator><motor joint="j"/></actuator>"""
    text = mjcf(body, more)
    robots = [
        read(text.replace("<worldbody>", f"<option><flag {flag}='{value}'/></option><worldbody>"))
        for value in ("enable", "disable")
    ]

    def parts(robot):
        f = robot.joint_properties
        return {
            "gravity": robot.model.gravity,
            "spring": f.stiffness,
            "damper": f.damping,
            "equality": robot.couplings,
            "frictionloss": f.friction,
            "limit": np.isfinite([f.lower, f.upper]),
            "actuation": robot.actuators,
        }

    for name, (one, other) in {
        name: (part, parts(robots[1])[name]) for name, part in parts(robots[0]).items()
    }.items():
        assert np.any(np.asarray(one, dtype=object).ravel() != 0)
        if name == flag:
            assert not np.any(np.asarray(other, dtype=object).ravel() != 0)
        elif name not in ("equality", "actuation"):
            assert_array_equal(one, other)
        else:
            assert one == other


def test_ignored_mjcf_flag_that_disables_contact_gives_a_warning(read):
    text = mjcf(ROBOTS["free"]).replace(
        "<worldbody>", "<option><flag contact='disable'/></option><worldbody>"
    )
    assert any("disables contact is not read" in said for said in read(text).warnings)


def test_mjcf_loop_is_cut_at_its_connect_constraint_and_not_at_a_joint(read):
    """The loop is cut at the connect constraint even if a joint is farther from the base."""
    chain = f"""<body name="a"><joint name="i"/>{GEOM}<body name="b" pos="1 0 0"><joint name="j"
        stiffness="1250" armature="0.1"/>{GEOM}<body name="c" pos="1 0 0"><joint name="k"
        stiffness="7"/>{GEOM}</body></body></body>"""
    more = '<equality><connect body1="world" body2="c" anchor="2 0 0"/></equality>'
    robot = read(mjcf(chain, more))
    assert robot.model.joint_names == ("i", "j", "k")
    assert_array_equal(robot.joint_properties.stiffness, [0, 1250, 7])
    assert robot.model.loop_names == ("equality0",)


@pytest.mark.parametrize("part", ['armature="1"', 'damping="1"'])
def test_rigid_contact_with_armature_or_damping_of_a_free_joint_is_rejected(part, read):
    world = World("w")
    world.add_robot("r", read(mjcf(f'<body><joint type="free" {part}/>{BALL}</body>')))
    with pytest.raises(
        ValueError, match="does not support rotor inertia or damping of the free joint"
    ):
        world.plant()


def test_generated_names_of_unnamed_mjcf_elements_are_unique(read):
    other = f"""<body name="body1"><joint name="joint0"/>{GEOM}
        <body name="a_x"><joint name="a_mount"/>{GEOM}</body></body>
        <body name="a"><joint name="x" type="slide"/><joint name="equality0"/>{GEOM}</body>"""
    body = f"""<geom type="box" size="9 9 9" contype="0"/><body><joint/>{GEOM}{other}
        <body name="a_"><geom size="0.1"/></body><body name="b"><joint name="a__mount"/>{GEOM}
        </body></body>"""
    more = '<equality><weld body1="a" active="true"/></equality>'
    robot = read(mjcf(body, more))
    assert set(robot.frames) >= {"body1", "body1_2", "a", "a_x", "a_x_2"}
    assert {"joint0", "joint0_2", "equality0"} <= {*robot.model.joint_names}
    assert robot.model.loop_names == ("equality0_2",)


def test_unnamed_mjcf_joint_gets_another_name_if_its_generated_name_is_used(read):
    text = mjcf(f'<body><joint/>{GEOM}<body pos="1 0 0"><joint name="joint0"/>{GEOM}</body></body>')
    robot, there = read(text), mujoco.MjModel.from_xml_string(text)
    assert robot.model.joint_names == ("joint0_2", "joint0")
    d = mujoco.MjData(there)
    q, qd = np.array([0.3, -0.7]), np.array([1.0, 2.0])
    d.qpos[:], d.qvel[:] = mujoco_state(robot.model, there, q, qd)
    mujoco.mj_forward(there, d)
    expected = acceleration_from_mujoco(robot.model, there, q, qd, d.qacc)
    assert_allclose(aba(robot.model, q, qd, np.zeros(2)), expected, rtol=1e-9, atol=1e-9)


def test_mjcf_joint_properties_are_read_per_degree_of_freedom(read):
    freedoms = read(
        mjcf(
            f"""<body><joint type="slide" range="-1 2" limited="true" damping="3" frictionloss="4"
            armature="5" stiffness="6" springref="0.5" ref="0.25"/>{GEOM}</body>"""
        )
    ).joint_properties
    given = {"lower": -1.25, "upper": 1.75, "damping": 3, "friction": 4, "armature": 5}
    for name, value in (given | {"stiffness": 6, "rest": 0.25, "effort": np.inf}).items():
        assert_array_equal(getattr(freedoms, name), [value])


def test_mjcf_equality_constraints_become_loop_joints_and_couplings(read):
    two = f"""<body name="a"><joint name="j"/>{GEOM}</body>
        <body name="b"><joint name="k"/>{GEOM}</body>"""
    more = """<equality><connect body1="a" body2="b" anchor="0 0 1"/><weld body1="a"/>
        <joint joint1="k" joint2="j" polycoef="0.5 2 0 0 0"/></equality>"""
    robot = read(mjcf(two, more))
    assert [type(loop.joint).__name__ for loop in robot.model.loops] == ["Spherical", "Fixed"]
    assert [tuple(c) for c in robot.couplings] == [(1, 0, 2.0, 0.5, ())]


def schema_lines():
    """Yield the depth, the name and the attributes of each element of MuJoCo's schema."""
    depth, name, attributes = 0, "", []
    for line in mujoco.mj_printSchema(False, False).splitlines():
        head, tail = line[:30], line[30:].split()
        if head.strip():
            if name:
                yield depth, name, attributes
            depth = (len(head) - len(head.lstrip())) // 3
            name, attributes = head.split()[0], []
        attributes = attributes + tail
    yield depth, name, attributes


def test_mjcf_reader_table_contains_each_element_and_attribute_of_the_schema():
    path, missing, count = ["mujoco"], [], 0
    for depth, name, attributes in schema_lines():
        tag = name.replace("(world)", "")
        inside = path[depth - 1] if depth else None
        if depth:
            if inside not in MJCF:  # inside of an ignored element, or MuJoCo reads all of it
                path[depth:] = [None]
                continue
            rule = MJCF[inside].get(tag, "missing")
            if rule == "missing":
                missing.append((inside, tag))
            path[depth:] = [(rule.inside or tag) if isinstance(rule, ReadElement) else None]
        if path[depth] in MJCF:
            known = MJCF[path[depth]]
            missing += [(path[depth], a) for a in attributes if f"@{a}" not in known]
            count += len(attributes)
    assert count > 400
    assert not missing


def test_ignored_mjcf_content_is_reported_with_its_line_number(read):
    text = mjcf(
        f"""\n<geom type="plane" size="1 1 1" solref="0.01 1"/><body name="a" gravcomp="0">
        <joint name="j" margin="0.1" solreflimit="0.02 1"/>{GEOM}
        <geom size="1" priority="1" gap="0"/></body>""",
        """\n<option><flag filterparent="disable" override="disable"/></option>""",
    )
    found = [
        re.sub(r" is not read: .*", "", said) for said in read(text).warnings if "line" in said
    ]
    assert found == [
        "line 2: the attribute solref of <geom>",
        "line 3: the attribute margin of <joint> 'j'",
        "line 3: the attribute solreflimit of <joint> 'j'",
        "line 4: the attribute priority of <geom> in <body> 'a'",
        "line 5: the attribute filterparent of <flag>",
    ]


@pytest.mark.parametrize("kind", [k for k, v in MJCF.items() if any(map(bool, v.values()))])
def test_each_mjcf_element_or_attribute_marked_as_reported_gives_a_warning(kind):
    for name, rule in MJCF[kind].items():
        if isinstance(rule, ReportedElement):
            value = next(v for v in ("7", "disable", "enable") if not rule.harmless(v))
            tag, key = kind.split()[0], name.removeprefix("@")
            is_attribute = name != key
            text = f"<{tag} {key}='{value}'/>" if is_attribute else f"<{tag}><{key}/></{tag}>"
            root = etree.fromstring(text)
            (said,) = unread_elements(root, {root.tag: {name: rule}})
            assert key in said
            assert rule.effect in said


def test_mjcf_elements_found_only_in_the_compiled_model_are_rejected_or_reported(read):
    """A default class gives the spring a yield limit, so that the text of the joint lacks it."""
    body = f'<body name="a"><joint name="j" stiffness="3"/>{GEOM}</body>'
    if "springyield" in mujoco.mj_printSchema(False, False):
        default = "<default><joint springyield='0.1'/></default>"
        with pytest.raises(FormatError, match="springs with the attribute springyield"):
            read(mjcf(body, default))
    more = """<actuator><pid name="pid" joint="j" kp="1" slewmax="2"/>
        <motor name="late" joint="j" delay="0.1" nsample="9"/>
        <motor name="m" joint="j" ctrlrange="-3 3"/></actuator>"""
    if "nsample" in mujoco.mj_printSchema(False, False):
        robot = read(mjcf(body, more))
        assert [a.name for a in robot.actuators] == ["m"]
        assert robot.actuators[0].control == (-3.0, 3.0)
        for name, reason in (("pid", "has a slewmax"), ("late", "has a plugin or a delay")):
            assert any(f"actuator '{name}' {reason}" in said for said in robot.warnings)


def test_mjcf_mocap_bodies_stay_at_their_poses_with_a_warning(read):
    body = f"""<body name="hand" mocap="true" pos="1 2 3">{BALL}</body>
        <body name="a"><joint/>{GEOM}</body>"""
    robot = read(mjcf(body))
    assert robot.model.nb == 1
    assert robot.frames["hand"].body == -1
    assert_array_equal(robot.frames["hand"].placement.r, [1, 2, 3])
    assert "body 'hand' is a mocap body, which stays at its pose in the file" in robot.warnings


def test_assembly_of_mjcf_loops_preserves_the_couplings_between_joints(read):
    """A third joint of the crank closes the loop, because a coupling holds the other two."""
    rod = '<geom type="capsule" fromto="0 0 0 {} 0 {}" size="0.05"/>'
    body = f"""<body name="a"><joint name="i" axis="0 1 0"/>{rod.format(0, 1)}
        <body name="b" pos="0 0 1"><joint name="j" axis="0 1 0"/>
        <joint name="s" type="slide" axis="1 0 0"/>{rod.format(1, 0)}
        <site name="s" pos="1 0 0"/></body></body>
        <body name="c" pos="1.1 0 0"><joint name="k" axis="0 1 0"/>{rod.format(0, 1)}
        <site name="t" pos="0 0 1"/></body>"""
    more = """<equality><connect site1="s" site2="t"/><joint joint1="i" joint2="k"/></equality>"""
    robot = read(mjcf(body, more))
    names = robot.model.joint_names
    assert_allclose(robot.q0[[names.index("i"), names.index("k")]], 0.0, atol=1e-15)
    assert max(closure_errors(robot.model, robot.q0)["equality0"][1:]) < 1e-9
    described_plant(robot)


def test_mjcf_planes_on_fixed_bodies_become_static_planes(read):
    body = f"""<body pos="0 0 -1" euler="0 90 0"><geom type="plane" size="1 1 1"/></body>
        <body name="a"><joint/>{GEOM}</body>"""
    (plane,) = (shape for shape in read(mjcf(body)).base_contact if isinstance(shape, Plane))
    assert_allclose(plane.normal, [1, 0, 0], atol=1e-12)


FLUID_GEOM = GEOM.replace("/>", " fluidshape='ellipsoid'/>")
BROKEN = {
    "no XML": ("<mujoco>\n<worldbody>", "robot.xml:2: this is not well-formed XML"),
    "an unknown element": (
        "<mujoco>\n<wheel/></mujoco>",
        "robot.xml:2: MuJoCo cannot compile the file",
    ),
    "nothing that moves": (mjcf("<geom size='1'/>"), "has no link"),
    "wind in a fluid": (
        mjcf(f"<body><joint/>{GEOM}</body>", "<option density='1000' wind='1 0 0'/>"),
        "the file has wind, which affect the motion and are not supported",
    ),
    "fluid forces on an ellipsoid": (
        mjcf(f"<body><joint/>{FLUID_GEOM}</body>", "<option density='1000'/>"),
        "the file has fluid forces on ellipsoids",
    ),
    "a spatial tendon around a sphere": (
        mjcf(
            "<site name='s'/><geom name='g' size='0.1' pos='0 0.5 0'/>"
            f"<body><joint/>{GEOM}<site name='t' pos='0 1 0'/></body>",
            "<tendon><spatial stiffness='3'><site site='s'/><geom geom='g'/><site site='t'/>"
            "</spatial></tendon>",
        ),
        "tendons that are neither sums of joint positions nor paths through sites",
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_unsupported_mjcf_features_are_rejected(kind, read):
    text, said = BROKEN[kind]
    with pytest.raises(FormatError, match=re.escape(said)) as refusal:
        read(text)
    assert "\n" not in str(refusal.value)


def test_mjcf_without_the_mujoco_package_is_rejected(read, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "mujoco", None)
    with pytest.raises(FormatError, match="an MJCF file needs the package mujoco"):
        read(mjcf(""))


@pytest.mark.parametrize(
    ("program", "said"),
    [("os.abort()", "ended with -6"), ("sys.exit(3)", "ended with 3")],
)
def test_error_for_a_crash_of_the_mjcf_parser_has_one_line(tmp_path, monkeypatch, program, said):
    """A fake `mujoco` module on the import path ends the parser process."""
    (tmp_path / "mujoco.py").write_text(f"import os, sys\n{program}\n")
    robot = tmp_path / "robot.xml"
    robot.write_text("<mujoco/>")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(FormatError, match=said) as refusal:
        load_model(robot)
    assert "\n" not in str(refusal.value)


SERVOS = """<actuator><motor name="drive" joint="j" gear="5" ctrlrange="-1 1"/>
    <position name="hold" joint="k" kp="10" kv="2" gear="2"/><velocity joint="j" kv="3"/>
    <general name="any" joint="k" gainprm="4" biastype="affine" biasprm="1 -2 -3"/>
    <general name="own" joint="j" gaintype="affine" gainprm="1 2 3"/>
    <position name="weak" joint="k" kp="10" dampratio="1" forcerange="-0.3 0.3"/></actuator>"""


def test_actuator_forces_of_mjcf_robots_match_mujoco(read, rng):
    bodies = ROBOTS["hinges"].replace('name="k"', 'name="k" actuatorfrcrange="-9 9"')
    robot = read(mjcf(bodies, SERVOS))
    names = ["drive", "hold", "actuator2", "any", "own", "weak"]
    assert [a.name for a in robot.actuators] == names
    plant = described_plant(robot, actuators=True)
    there = mujoco.MjModel.from_xml_string(mjcf(bodies, SERVOS))
    data = mujoco.MjData(there)
    p = Record({port.name: port.start for port in plant.parameters})
    for _ in range(20):
        q, qd, u = rng.normal(size=2), rng.normal(size=2), 2 * rng.normal(size=6)
        data.qpos[:], data.qvel[:] = q + there.qpos0, qd
        data.ctrl[:] = u
        mujoco.mj_forward(there, data)
        given = {f"{name}_command": value for name, value in zip(names, u, strict=True)}
        x, u = Record({"q": q, "qd": qd}), Record({**given, "tau": np.zeros(2)})
        tau = plant.force_elements.drive_forces(q, qd, x, p, u)
        assert_allclose(tau, data.qfrc_actuator, rtol=1e-12, atol=1e-12)


def test_joint_force_limit_bounds_the_sum_of_motor_and_tendon_forces(read):
    # MuJoCo limits the sum of the actuator forces at joint j, not the forces at joint k
    world = ROBOTS["hinges"].replace('name="j"', 'name="j" actuatorfrcrange="-2 2"')
    motors = """<motor name="m" tendon="pull" gear="30"/><motor name="n" joint="k"/>"""
    text = mjcf(world, f"{PULL}<actuator>{motors}</actuator>")
    plant, there = described_plant(read(text), actuators=True), mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(there)
    p = Record({port.name: port.start for port in plant.parameters})
    for u in ([0.5, 0.2], [-0.5, 0.2], [0.05, -3.0]):
        data.ctrl[:] = u
        mujoco.mj_forward(there, data)
        inputs = Record({"m_command": u[0], "n_command": u[1], "tau": np.zeros(2)})
        tau = plant.force_elements.drive_forces(np.zeros(2), np.zeros(2), Record({}), p, inputs)
        assert_allclose(tau, data.qfrc_actuator, rtol=1e-12)


def test_asymmetric_force_limit_of_a_joint_is_reported(read):
    world = ROBOTS["hinges"].replace('name="j"', 'name="j" actuatorfrcrange="-2 5"')
    robot = read(mjcf(world))
    assert robot.joint_properties.effort[0] == 2.0
    expected = "joint 'j' has an asymmetric actuatorfrcrange; the limit of its force is 2"
    assert expected in robot.warnings


def test_fmu_command_renames_an_actuator_with_the_name_of_a_rotor(read):
    # the rotor of joint j is the element j_rotor
    robot = read(mjcf(ROBOTS["hinges"], '<actuator><motor name="j_rotor" joint="j"/></actuator>'))
    block = wire_robot(robot, described_plant(robot), (), "actuators")
    assert "robot.j_rotor_2_command" in [port.name for port in block.inputs]


def test_mjcf_actuators_drive_the_joints_of_a_floating_base_robot(read):
    more = '<actuator><motor name="m" joint="lift" gear="3"/></actuator>'
    robot = read(mjcf(ROBOTS["free"].replace('type="slide"', 'name="lift" type="slide"'), more))
    pulled, still = described_plant(robot, actuators=True), described_plant(robot)
    y, pushed = outputs(pulled, m_command=2.0), outputs(still, tau=[0.0, 6.0])
    assert y["m_force"] == 6.0
    assert_allclose(y["qdd"], pushed["qdd"], rtol=1e-12)


KINDS = {
    "motor": '<motor name="m" joint="j" gear="2"/>',
    "position": '<position name="m" joint="j" kp="20" kv="2"/>',
    "position with a filter": '<position name="m" joint="j" kp="20" kv="1" timeconst="0.1"/>',
    "velocity": '<velocity name="m" joint="j" kv="3" gear="1.5"/>',
    "intvelocity": '<intvelocity name="m" joint="j" kp="20" kv="1" actrange="-0.2 0.2"/>',
    "damper": '<damper name="m" joint="j" kv="3" ctrlrange="0 2"/>',
    "cylinder": '<cylinder name="m" joint="j" timeconst="0.05" area="2" bias="0.1 -3 -1"/>',
    "general": """<general name="m" joint="j" dyntype="filter" dynprm="0.1" gaintype="affine"
        gainprm="3 1 -1" biastype="affine" biasprm="0.1 -2 -1" gear="1.5" ctrlrange="-1 1"/>""",
    "integrator": '<general name="m" joint="j" dyntype="integrator" gainprm="4"/>',
    "pid": '<pid name="m" joint="j" kp="20" ki="30" kv="2" gear="1.5"/>',
    "pid with limits": """<pid name="m" joint="j" kp="20" ki="30" kv="2" imax="0.05"
        posrange="-0.4 0.4" forcerange="-9 9" input="pos vel ff"/>""",
    "proportional controller": '<pid name="m" joint="j" kp="20" kv="2" input="pos"/>',
    "dcmotor": '<dcmotor name="m" joint="j" motorconst="0.5" resistance="2" gear="3"/>',
    "dcmotor with inductance": """<dcmotor name="m" joint="j" motorconst="0.5" resistance="2"
        inductance="0.05" gear="3"/>""",
    "tendon": '<position name="m" tendon="pull" kp="20" kv="2" gear="1.5" forcerange="-9 9"/>',
    "limited filter": """<general name="m" joint="j" dyntype="filterexact" dynprm="0.1" gainprm="3"
        actlimited="true" actrange="-1 0.3" forcerange="-1 0.8"/>""",
}


PULL = """<tendon><fixed name="pull"><joint joint="j" coef="0.8"/>
    <joint joint="k" coef="-0.5"/></fixed></tendon>"""


@pytest.mark.parametrize("kind", KINDS)
def test_step_response_of_each_actuator_kind_matches_mujoco(read, kind):
    # MuJoCo's RK4 with steps of 0.2 ms and 0.1 ms; their difference bounds the error of its steps
    more = f"{PULL}<actuator>{KINDS[kind]}</actuator>"
    text, u, t = mjcf(ROBOTS["hinges"], more), 0.7, 0.4
    plant = described_plant(read(text), joint_friction=True, actuators=True)
    commands = {port.name: u for port in plant.inputs if port.name.startswith("m_")}
    result = run(plant, 1e-3, round(t * 1e3), h=2.5e-4, **commands)
    found = np.r_[result["q"][-1], result["qd"][-1]]
    ends = []
    for dt in (2e-4, 1e-4):
        m = mujoco.MjModel.from_xml_string(text)
        m.opt.timestep, m.opt.integrator = dt, mujoco.mjtIntegrator.mjINT_RK4
        data = mujoco.MjData(m)
        data.ctrl[:] = u
        assert m.nu == len(commands)
        for _ in range(round(t / dt)):
            mujoco.mj_step(m, data)
        ends.append(np.r_[data.qpos - m.qpos0, data.qvel])
    assert np.abs(ends[1]).max() > 1e-2
    limit = 2.0 * ends[1] - ends[0]  # an activation that reaches its limit has errors of order dt
    assert_allclose(found, limit, atol=1e-6)


@pytest.mark.parametrize(
    ("actuator", "reason"),
    [
        ('<muscle name="m" joint="j" lengthrange="0 1"/>', "is not an affine actuator, a PID"),
        ('<motor name="m" site="s" gear="0 0 0 0 0 0"/>', "does not act on a hinge, a slide, a"),
        ('<motor name="m" tendon="bent"/>', "or a tendon without wrapping geoms"),
        ('<pid name="m" joint="j" kp="2" slewmax="3"/>', "has a slewmax"),
        ('<pid name="m" joint="j" kp="2" kv="1" velrange="-1 1"/>', "with a velocity range"),
        (
            '<dcmotor name="m" joint="j" motorconst="1" resistance="2" cogging="0.1 6 0"/>',
            "is a DC motor with the attribute controller, cogging",
        ),
        (
            '<dcmotor name="m" joint="j" motorconst="1" resistance="2" inductance="1"'
            ' ctrlrange="-1 2"/>',
            "an asymmetric range",
        ),
    ],
)
def test_unsupported_mjcf_actuators_are_reported_with_their_line_number(read, actuator, reason):
    sites = '<site name="s"/><geom name="g" size="0.1"/></body>'
    bent = '<tendon><spatial name="bent"><site site="s"/><geom geom="g"/><site site="t"/>'
    bent += "</spatial></tendon>"
    world = ROBOTS["hinges"].replace("</body></body>", f'<site name="t"/></body>{sites}')
    text = mjcf(world, f"{bent}<actuator>{actuator}</actuator>")
    robot = read(text)
    assert robot.actuators == ()
    line = text[: text.index('name="m"')].count("\n") + 1
    said = [one for one in robot.warnings if "actuator 'm'" in one]
    assert len(said) == 1
    assert said[0].startswith(f"line {line}: actuator 'm' ")
    assert reason in said[0]
    with pytest.raises(ValueError, match="has no supported actuators"):
        described_plant(robot, actuators=True)


def test_activation_of_an_actuator_is_equal_after_a_round_trip_through_json(read, tmp_path):
    more = PULL + "".join(f"<actuator>{text}</actuator>" for text in KINDS.values())
    for k in range(len(KINDS)):
        more = more.replace('name="m"', f'name="m{k}"', 1)
    robot = read(mjcf(ROBOTS["hinges"], more))
    save_model(robot, tmp_path / "robot.json")
    assert load_model(tmp_path / "robot.json").actuators == robot.actuators
    assert {a.dynamics for a in robot.actuators} == {"none", "filter", "integrator"}
