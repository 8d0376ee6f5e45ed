"""Spatial tendons, sites and slider-cranks of MJCF models compared with MuJoCo.

The tolerances of 1e-9 bound the rounding errors of both libraries.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from library_runs import run
from rigidblocks.block.block import Record, call
from rigidblocks.contact.world import World
from rigidblocks.dynamics.body_lines import AlongSite, SliderCrank, TendonPath
from rigidblocks.dynamics.drives import Drive, Elasticity, Follower
from rigidblocks.dynamics.force_elements import AlongFrame, ForceElement
from rigidblocks.dynamics.force_laws import Spring
from rigidblocks.dynamics.motors import Rotor
from rigidblocks.library.plant_from_file import described_plant
from rigidblocks.library.plants import RobotPlant
from rigidblocks.robot.configuration import random_configuration
from rigidblocks.robot.robots import auto_tree, auto_tree_p
from rigidblocks.robot_description.json_file import save_model
from rigidblocks.robot_description.load import load_model
from rigidblocks.spatial.spatial import Transform, identity
from robots_of_peers import acceleration_from_mujoco, mujoco_state

mujoco = pytest.importorskip("mujoco", reason="MuJoCo is not installed (`pip install mujoco`)")
pytestmark = pytest.mark.interop

GEOM = '<geom type="box" size="0.1 0.2 0.3" pos="0.1 0 0.2" euler="10 20 30"/>'
TREE = f"""<site name="w" pos="0.3 0.2 0.1" euler="10 20 30"/>
    <body name="a"><joint name="j" axis="1 2 0" ref="20"/>{GEOM}
      <site name="s" pos="0.5 0.1 0.2" euler="40 20 30"/>
      <body name="b" pos="0 0 1"><joint name="k" axis="0 1 0"/>{GEOM}
        <site name="t" pos="0.1 0.2 0.3" euler="10 0 70"/></body>
      <body name="c" pos="0 1 1"><joint name="l" axis="1 1 0"/>{GEOM}
        <site name="u" pos="0.1 -0.2 0.3"/><site name="x" pos="0.3 0 0"/>
        <body name="d" pos="0 0 1"><joint name="m" type="ball"/>{GEOM}
          <site name="v" pos="-0.1 -0.2 0.3"/>
          <body pos="1 2 3"><site name="z"/></body></body></body></body>
    <body pos="1 1 1"><site name="y"/></body>"""
THROUGH = '<site site="w"/><site site="s"/><site site="t"/>'
PULLEYS = f"""{THROUGH}<pulley divisor="2"/><site site="t"/><site site="u"/><pulley divisor="4"/>
    <site site="s"/><site site="v"/>"""
TENDON = '<spatial name="p" {}>{}</spatial>'
LINES = {
    "sites": (TENDON.format('stiffness="30" damping="2" springlength="0.9"', THROUGH), ""),
    "pulleys": (
        TENDON.format('stiffness="30" damping="2"', PULLEYS),
        '<position name="p" tendon="p" kp="20" kv="2" gear="1.5" forcerange="-50 50"/>',
    ),
    "slack spring": (TENDON.format('stiffness="30" springlength="0.5 2.5"', PULLEYS), ""),
    "points of one body": (
        TENDON.format('stiffness="30"', '<site site="u"/><site site="x"/><site site="s"/>'),
        '<motor name="p" tendon="p"/>',
    ),
    "springs between fixed bodies": (
        TENDON.format('stiffness="30" springlength="1"', '<site site="w"/><site site="y"/>')
        + '<spatial name="r" stiffness="9"><site site="v"/><site site="z"/></spatial>',
        "",
    ),
    "cable without a spring": (
        TENDON.format("", '<site site="w"/><site site="v"/>'),
        '<motor name="p" tendon="p" gear="-3"/>',
    ),
    "site": ("", '<general name="p" site="v" gear="1 2 3 4 5 6"/>'),
    "site with a reference": (
        "",
        """<position name="p" site="v" refsite="t" gear="1 2 3 0.4 0.5 0.6" kp="5" kv="1"/>
        <position name="r" site="u" refsite="w" gear="0 0 0 1 0 2" kp="5"/>
        <position name="s" site="w" refsite="s" gear="0 2 0 0 0 0" kp="5"/>""",
    ),
    "slider-crank": (
        "",
        """<position name="p" cranksite="t" slidersite="w" cranklength="2.5" kp="5" kv="1"
        gear="2"/>
        <motor name="r" cranksite="v" slidersite="s" cranklength="0.1"/>""",
    ),
}
INCLUDED = "force and torque sensors measure the forces of spatial tendons"
SENSORS = {
    "tendonpos": "tendon", "tendonvel": "tendon", "actuatorpos": "actuator",
    "actuatorvel": "actuator",
}  # fmt: skip


def robot_text(kind, tree=TREE):
    tendons, actuators = LINES[kind]
    sensors = "".join(
        f'<{sensor} name="{sensor}_{name}" {of}="{name}"/>'
        for sensor, of in SENSORS.items()
        for name in "prs"
        if f'name="{name}"' in (tendons if of == "tendon" else actuators)
    )
    return f"""<mujoco><worldbody>{tree}</worldbody><tendon>{tendons}</tendon>
        <actuator>{actuators}</actuator><sensor>{sensors}</sensor></mujoco>"""


@pytest.fixture
def read(tmp_path):
    def read_text(text):
        path = tmp_path / "robot.xml"
        path.write_text(text)
        return load_model(path)

    return read_text


def plant_of(robot):
    options = {"actuators": bool(robot.actuators), "sensors": bool(robot.sensors)}
    return described_plant(robot, joint_friction=True, **options)


@pytest.mark.parametrize("kind", LINES)
def test_accelerations_forces_and_lengths_of_tendons_sites_and_slider_cranks_match_mujoco(
    kind, read, rng
):
    text = robot_text(kind)
    robot = read(text)
    assert [one for one in robot.warnings if "ref of each joint" not in one] == []
    plant, m = plant_of(robot), mujoco.MjModel.from_xml_string(text)
    m.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    data = mujoco.MjData(m)
    p = Record({port.name: np.asarray(port.start) for port in plant.parameters})
    for _ in range(5):
        q, qd = random_configuration(robot.model, rng), rng.normal(size=robot.model.nv)
        data.qpos[:], data.qvel[:] = mujoco_state(robot.model, m, q, qd)
        data.ctrl[:] = rng.normal(size=m.nu)
        mujoco.mj_forward(m, data)
        u = {port.name: np.zeros(port.shape) for port in plant.inputs}
        u |= {f"{m.actuator(k).name}_command": data.ctrl[k] for k in range(m.nu)}
        y = call(plant, "output", 0.0, Record({"q": q, "qd": qd}), Record(u), p)
        expected = acceleration_from_mujoco(robot.model, m, q, qd, data.qacc)
        assert_allclose(y["qdd"], expected, atol=1e-9 * np.abs(expected).max())
        for k in range(m.nu):
            gear = (
                1.0 if m.actuator_trntype[k] == mujoco.mjtTrn.mjTRN_SITE else m.actuator_gear[k, 0]
            )
            force = y[f"{m.actuator(k).name}_force"]
            assert_allclose(force, gear * data.actuator_force[k], rtol=1e-9, atol=1e-9)
        for k in range(m.nsensor):
            assert_allclose(y[m.sensor(k).name], data.sensordata[k], rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize("motor", ["", '<motor name="o" joint="j" gear="3"/>'])
@pytest.mark.parametrize("kind", ["pulleys", "site", "slider-crank"])
def test_force_limits_of_joints_limit_actuators_along_lines_like_in_mujoco(kind, motor, read, rng):
    base = '<joint name="j" axis="1 2 0" ref="20"'
    tree = TREE.replace(base, f'{base} actuatorfrcrange="-0.5 0.5"').replace(
        '<joint name="l"', '<joint name="l" actuatorfrcrange="-0.2 0.2"'
    )
    text = robot_text(kind, tree).replace("</actuator>", f"{motor}</actuator>")
    text = text.replace("<mujoco>", '<mujoco><compiler autolimits="true"/>')
    robot = read(text)
    assert not any("actuatorfrcrange" in said for said in robot.warnings)
    plant, m = plant_of(robot), mujoco.MjModel.from_xml_string(text)
    m.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    data = mujoco.MjData(m)
    p = Record({port.name: np.asarray(port.start) for port in plant.parameters})
    for _ in range(5):
        q, qd = random_configuration(robot.model, rng), rng.normal(size=robot.model.nv)
        data.qpos[:], data.qvel[:] = mujoco_state(robot.model, m, q, qd)
        data.ctrl[:] = 9.0 * rng.normal(size=m.nu)
        mujoco.mj_forward(m, data)
        u = {port.name: np.zeros(port.shape) for port in plant.inputs}
        u |= {f"{m.actuator(k).name}_command": data.ctrl[k] for k in range(m.nu)}
        y = call(plant, "output", 0.0, Record({"q": q, "qd": qd}), Record(u), p)
        expected = acceleration_from_mujoco(robot.model, m, q, qd, data.qacc)
        assert_allclose(y["qdd"], expected, atol=1e-9 * np.abs(expected).max())


def test_floating_base_with_a_tendon_over_a_pulley_moves_like_in_mujoco(read):
    # MuJoCo's RK4 with steps of 0.2 ms and 0.1 ms; their difference bounds the error of its steps
    tree = f'<site name="w"/><body name="o" pos="0 0 1"><freejoint/>{GEOM}{TREE}</body>'
    tree = tree.replace('<site name="w"/>', "", 1).replace(' ref="20"', "")
    text = robot_text("pulleys", tree)
    plant, t = plant_of(read(text)), 0.3
    found = run(plant, 1e-3, round(t * 1e3), h=2.5e-4, p_command=0.7)
    ends = []
    for dt in (2e-4, 1e-4):
        m = mujoco.MjModel.from_xml_string(text)
        m.opt.timestep, m.opt.integrator = dt, mujoco.mjtIntegrator.mjINT_RK4
        m.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
        data = mujoco.MjData(m)
        data.ctrl[:] = 0.7
        for _ in range(round(t / dt)):
            mujoco.mj_step(m, data)
        mujoco.mj_forward(m, data)
        ends.append(np.r_[data.qpos[7:10], data.sensordata])
    limit = (16 * ends[1] - ends[0]) / 15
    y = [found[name][-1] for name in ("tendonpos_p", "tendonvel_p", "actuatorpos_p")]
    assert_allclose(found["q"][-1][:3], limit[:3], atol=1e-6)
    assert_allclose(y, limit[[3, 4, 5]], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", LINES)
def test_tendons_sites_and_slider_cranks_are_equal_after_a_round_trip_through_json(
    kind, read, tmp_path
):
    robot = read(robot_text(kind))
    save_model(robot, tmp_path / "robot.json")
    again = load_model(tmp_path / "robot.json")
    assert repr(again.tendons) == repr(robot.tendons)
    assert repr(again.actuators) == repr(robot.actuators)
    one, two = (
        described_plant(each, True, actuators=bool(robot.actuators)) for each in (robot, again)
    )
    found, expected = (run(each, 1e-3, 3, qd=0.3)["qdd"] for each in (one, two))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
def test_tendon_of_a_robot_in_a_world_acts_at_the_placement_of_the_robot(read):
    robot = read(robot_text("sites"))
    world = World("w")
    world.add_robot("r", robot, at=(1.0, 2.0, 3.0))
    plant, robot_plant = world.soft_plant(1e4), described_plant(robot, joint_friction=True)
    names = [port.name for port in robot_plant.outputs if port.name.endswith("spring_force")]
    assert names
    y = run(plant, 1e-3, 1)
    expected = run(robot_plant, 1e-3, 1)
    for name in names:
        assert_allclose(y[f"r_{name}"][0], expected[name][0], rtol=1e-12)


def test_length_limits_of_spatial_tendons_become_stops(read):
    tendons, _ = LINES["sites"]
    text = robot_text("sites").replace(
        tendons, tendons.replace("<spatial", '<spatial range="0 1.5"')
    )
    plant = described_plant(read(text), stops=(1e3, 10.0))
    assert any(port.name == "p_stop_force" for port in plant.outputs)


def test_ignored_limit_of_the_actuator_force_at_a_tendon_is_reported_with_its_line(read):
    text = robot_text("pulleys").replace("<spatial", '\n<spatial actuatorfrcrange="-1 1"')
    line = text[: text.index("<spatial")].count("\n") + 1
    said = f"line {line}: tendon 'p': the actuatorfrcrange is not read"
    assert said in read(text).warnings


@pytest.mark.parametrize("kind", ["force", "torque"])
def test_force_sensors_of_a_robot_with_a_spatial_tendon_are_reported(kind, read):
    # MuJoCo 4 subtracts the forces of spatial tendons from the readings
    said = f"{INCLUDED} such as 'p', unlike in MuJoCo 4"
    sensor = f'<{kind} name="f" site="v"/></sensor>'
    for name in ("sites", "pulleys", "cable without a spring"):
        assert said in read(robot_text(name).replace("</sensor>", sensor)).warnings
        assert said not in read(robot_text(name)).warnings
    robot = read(robot_text("site").replace("</sensor>", sensor))
    assert not any(INCLUDED in one for one in robot.warnings)


def test_tendon_around_a_geom_without_a_force_is_reported_with_its_line(read):
    geom = '<geom name="g" size="0.1" pos="9 9 9"/>'
    path = """<spatial name="q"><site site="s"/>
        <geom geom="g"/><site site="t"/></spatial>"""
    text = f"<mujoco><worldbody>{geom}{TREE}</worldbody><tendon>{path}</tendon></mujoco>"
    line = text[: text.index("<geom geom")].count("\n") + 1
    said = f"line {line}: <geom> of <spatial> 'q' is not read: a tendon around a geom exerts no"
    assert any(one.startswith(said) for one in read(text).warnings)


def test_joint_force_sensor_with_an_actuator_at_a_site_is_reported(read):
    sensor = '<jointactuatorfrc name="f" joint="j"/></sensor>'
    robot = read(robot_text("site").replace("</sensor>", sensor))
    (said,) = [one for one in robot.warnings if "sensor 'f'" in one]
    assert "forces of actuators at sites and paths are not included" in said


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (TendonPath(((0, (0.0, 0.0)),), ()), "at least two points and one weight for each segment"),
        (TendonPath(((0, (0.0, 0.0, 1.0)), (1, (0.0, 0.0))), (1.0,)), "needs 2 finite coordinates"),
        (AlongSite(0, identity(), (0.0,) * 6), "an AlongSite needs a spatial model; model"),
        (
            SliderCrank(0, (0.0, 0.0), 1, identity(), 1.0),
            "a SliderCrank needs a spatial model; model",
        ),
        (AlongFrame(0, 3, identity()), "an AlongFrame needs a spatial model; model"),
    ],
)
def test_line_with_invalid_points_or_on_a_planar_model_is_rejected(line, reason):
    with pytest.raises(ValueError, match=reason):
        RobotPlant(auto_tree_p(2), elements=(ForceElement("e", line, Spring(1.0)),))


ENDS = ((-1, (0.0, 0.0, 1.0)), (1, (0.0, 0.0, 0.0)))
HERE, GEAR = identity(), (0.0, 0.0, 0.0, 1.0, 0.0, 0.0)
NOWHERE = Transform(np.eye(3), np.array([np.nan, 0.0, 0.0]))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (TendonPath(ENDS, (np.nan,)), r"needs finite weights, not \[nan\]"),
        (TendonPath((ENDS[0], (1, "abc")), (1.0,)), "needs 3 finite coordinates, not abc"),
        (AlongSite(0, HERE, (np.inf, *GEAR[1:])), "gear of 6 finite elements"),
        (AlongSite(0, np.eye(4), GEAR), "placement of the AlongSite must be a Transform"),
        (AlongSite(0, NOWHERE, GEAR), "placement of the AlongSite must be finite"),
        (AlongSite(0, HERE, GEAR, 1), "reference_placement of the AlongSite must be a Transform"),
        (AlongSite(0, HERE, GEAR, 9, HERE), "has no body 9"),
        (AlongSite(0, HERE, GEAR, None, HERE), "with a reference_placement also needs a reference"),
        (SliderCrank(0, (0.0, 0.0), 1, HERE, 1.0), "needs 3 finite coordinates"),
        (SliderCrank(0, np.zeros(3), 1, None, 1.0), "placement of the SliderCrank must be"),
        (AlongFrame(0, 6, HERE), "an AlongFrame needs a component from 0 to 5, not 6"),
        (SliderCrank(0, np.zeros(3), 1, HERE, np.inf), "a rod of positive finite length, not inf"),
    ],
)
def test_line_with_an_invalid_or_missing_argument_is_rejected(line, reason):
    with pytest.raises(ValueError, match=reason):
        RobotPlant(auto_tree(2), elements=(ForceElement("e", line, Spring(1.0)),))


PATH = TendonPath(((-1, (0.0, 0.5)), (1, (0.1, 0.2))), (1.0,))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"effort": 1.0}, "supports neither an effort limit nor the rotor inertia"),
        ({"motor": Rotor(1.0)}, "supports neither an effort limit nor the rotor inertia"),
        ({"follower": Follower(1)}, "does not support a follower"),
        ({"motor": Rotor(1.0), "elasticity": Elasticity(1.0)}, "does not support an elasticity"),
    ],
)
def test_drive_along_a_tendon_rejects_parts_that_need_a_joint(options, reason):
    with pytest.raises(ValueError, match=f"acts on a TendonPath, which {reason}"):
        Drive("d", PATH, **options)


def test_energy_of_a_planar_robot_with_a_spring_along_a_tendon_path_is_constant():
    plant = RobotPlant(auto_tree_p(2), elements=(ForceElement("e", PATH, Spring(20.0, rest=0.3)),))
    y = run(plant, 1e-2, 100, q=[0.3, 0.4])
    assert np.ptp(y["e_force"]) > 1.0
    assert_allclose(y["energy"], y["energy"][0], atol=1e-6)
