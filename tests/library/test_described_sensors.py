"""Sensors of robot files: values as in MuJoCo, noise and delays as in the file."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rigidblocks import System, export_fmu, simulate
from rigidblocks.block.block import Record, call
from rigidblocks.block.memory_layout import Memory
from rigidblocks.cli import main
from rigidblocks.common.format_error import FormatError
from rigidblocks.dynamics import aba, crba
from rigidblocks.kernels.compiled_stepper import compiled_stepper, numpy_stepper
from rigidblocks.library.plant_from_file import described_plant
from rigidblocks.library.plant_ports import TunableInertia
from rigidblocks.robot.ray_casting import NO_HIT, Obstacle, RayScene
from rigidblocks.robot_description.json_file import save_model
from rigidblocks.robot_description.load import load_model
from rigidblocks.spatial.rigid_motion import quaternion_rotation
from rigidblocks.spatial.spatial import identity
from sensed_robots import (
    ARM_SDF,
    ARM_URDF,
    MJCF_ARM,
    MJCF_FREE,
    MJCF_OF_SDF,
    MJCF_RAYS,
    largest_sensor_error,
    terrain_with_rays,
)

mujoco = pytest.importorskip("mujoco", reason="MuJoCo is not installed (`pip install mujoco`)")

SLIDER_URDF = """<robot name="arm"><link name="base"/><link name="a"><inertial><mass value="2"/>
 <origin xyz="0.3 0 0"/><inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>
 </link><joint name="j" type="prismatic"><parent link="base"/><child link="a"/><axis xyz="1 0 0"/>
 <limit lower="-1" upper="1" effort="9" velocity="1"/></joint>
 <ros2_control name="c" type="system"><joint name="j"><state_interface name="position"/>
 <state_interface name="velocity"/><state_interface name="effort"/>
 <state_interface name="temperature"/></joint></ros2_control></robot>"""
SLIDER = """<mujoco><option gravity="0 0 0" timestep="0.002"/><worldbody><body>
 <joint name="j" type="slide"/><geom size="0.1"/></body></worldbody><sensor>{}</sensor></mujoco>"""


def read(tmp_path, text, suffix=".xml"):
    path = tmp_path / f"robot{suffix}"
    path.write_text(text)
    return load_model(path)


def run(plant, t_stop, dt, **start):
    system = System()
    system.add("robot", plant, start=start)
    return simulate(system, t_stop=t_stop, dt=dt, progress=False)


@pytest.mark.parametrize("text", [MJCF_FREE, MJCF_ARM], ids=["floating base", "fixed base"])
def test_sensor_outputs_in_random_states_equal_the_sensor_data_of_mujoco(text, tmp_path):
    errors = largest_sensor_error(text, tmp_path, states=20)
    assert len(errors) > 40
    assert max(errors.values()) < 1e-9, errors


def test_range_sensor_outputs_in_random_states_equal_the_ray_lengths_of_mujoco(tmp_path):
    errors = largest_sensor_error(MJCF_RAYS, tmp_path, states=60)
    assert len(errors) == 10
    assert max(errors.values()) < 1e-9, errors


MESHES = """<mujoco><asset><mesh name="wedge" vertex="0 0 0 1 0 0 0 2 0 0 0 3 1.5 1 1"/>
<mesh name="notch" scale="3 3 3" vertex="-1 0 -1 0 0 0 1 0 -1 0 0 2 0 0.5 0"
 face="0 2 1 0 1 3 1 2 3 0 4 2 0 3 4 2 4 3"/></asset><worldbody>
<geom type="mesh" mesh="wedge" pos="1 1 0" euler="20 30 40"/>
<geom type="mesh" mesh="notch" pos="-2 0.5 0" euler="0 50 -20"/>
<geom type="mesh" mesh="notch" pos="0 -2 1" euler="90 0 -20"/>
<body name="eye"><freejoint/><geom size=".1"/>EYES<body name="lid" pos="0 0 .4">
 <joint name="j" axis="1 0 0" pos="0 0 -.4"/><geom type="mesh" mesh="wedge"/></body></body>
</worldbody><sensor>RANGES</sensor></mujoco>"""
for word, part in (
    ("EYES", '<site name="r{0}" euler="{1} {2} 0"/>'),
    ("RANGES", "<rangefinder site='r{0}'/>"),
):
    MESHES = MESHES.replace(word, " ".join(part.format(k, 40 * k, 70 * k) for k in range(9)))


def test_range_sensor_outputs_near_meshes_equal_the_ray_lengths_of_mujoco(tmp_path):
    robot = read(tmp_path, MESHES)
    assert len(robot.sensors) == 9, robot.warnings
    errors = largest_sensor_error(MESHES, tmp_path, states=60)
    assert max(errors.values()) < 1e-9, errors


def test_ray_length_to_an_octahedron_is_the_distance_to_the_hit_face(rng):
    """The surface of the octahedron is |x| + |y| + |z| = 1, on both sides of each triangle."""
    corners = np.vstack([np.eye(3), -np.eye(3)])
    faces = [[i, j, k] for i in (0, 3) for j in (1, 4) for k in (2, 5)]
    mesh = RayScene((Obstacle("mesh", (), -1, identity(), corners, np.array(faces)),))
    for _ in range(100):
        d = rng.normal(size=3)
        d = d / np.linalg.norm(d)
        expected = 1.0 / np.abs(d).sum()
        assert_allclose(mesh.nearest_hit(np.zeros(3), d)[0], expected, rtol=1e-12)
        start = 5.0 * d
        expected = 5.0 - 1.0 / np.abs(d).sum()
        assert_allclose(mesh.nearest_hit(start, -d)[0], expected, rtol=1e-12)
        assert mesh.nearest_hit(start, d)[0] == NO_HIT


def test_range_sensor_near_shapes_with_too_many_triangles_is_reported_as_ignored(tmp_path):
    field = """<asset><hfield name="m" nrow="300" ncol="300" size="1 1 1 1"/></asset><worldbody>
    <geom type="hfield" hfield="m"/>"""
    text = SLIDER.format('<rangefinder name="r" site="s"/>').replace("<worldbody>", field)
    robot = read(tmp_path, text.replace("<geom size", '<site name="s"/><geom size'))
    reason = "sensor 'r' is not read: the meshes and height fields that its ray can hit have more"
    assert any(reason in one for one in robot.warnings), robot.warnings


def test_range_outputs_near_height_fields_and_fine_meshes_equal_mujoco_ray_lengths(tmp_path):
    text = terrain_with_rays()
    robot = read(tmp_path, text)
    assert len(robot.sensors) == 9, robot.warnings
    errors = largest_sensor_error(text, tmp_path, states=60)
    assert max(errors.values()) < 1e-9, errors


LIDAR_SDF = """<sdf version="1.9"><model name="m"><link name="a"><pose>0 0 1 0 0 0</pose>
 <inertial><mass>1</mass></inertial>
 <collision name="own"><geometry><sphere><radius>0.2</radius></sphere></geometry></collision>
 <sensor name="scan" type="gpu_lidar"><pose>0.1 0 0.3 0.1 0.2 0.3</pose>RATE<lidar><scan>
  <horizontal><samples>12</samples><min_angle>-3</min_angle><max_angle>3</max_angle></horizontal>
  <vertical><samples>4</samples><resolution>2</resolution><min_angle>-1</min_angle>
   <max_angle>0.5</max_angle></vertical></scan>
  <range><min>0.3</min><max>2.5</max></range>NOISE</lidar></sensor></link>
<link name="b"><pose>1.5 0 1 0.3 0 0</pose><inertial><mass>1</mass></inertial>
 <collision name="c"><pose>0.2 0 0 0 0.4 0</pose><geometry><box><size>0.5 2 1</size></box>
 </geometry></collision>
 <collision name="d"><pose>0 1 1 0.5 0 0</pose><geometry><cylinder><radius>0.4</radius>
  <length>1</length></cylinder></geometry></collision>
 <collision name="e"><pose>-3 0 0 0 0 0</pose><geometry><ellipsoid><radii>0.4 1 0.8</radii>
  </ellipsoid></geometry></collision></link>
<joint name="j" type="revolute"><parent>world</parent><child>a</child><axis><xyz>0 0 1</xyz></axis>
</joint><joint name="k" type="revolute"><parent>world</parent><child>b</child>
<axis><xyz>1 0 0</xyz></axis></joint></model></sdf>"""
LIDAR_MJCF = """<mujoco><compiler angle="radian" eulerseq="XYZ"/><worldbody>
<body name="a" pos="0 0 1"><joint axis="0 0 1"/><geom size="0.2"/>
 <site name="s" pos="0.1 0 0.3" euler="0.1 0.2 0.3"/></body>
<body name="b" pos="1.5 0 1" euler="0.3 0 0"><joint axis="1 0 0"/>
 <geom type="box" size="0.25 1 0.5" pos="0.2 0 0" euler="0 0.4 0"/>
 <geom type="cylinder" size="0.4 0.5" pos="0 1 1" euler="0.5 0 0"/>
 <geom type="ellipsoid" size="0.4 1 0.8" pos="-3 0 0"/></body></worldbody></mujoco>"""


def lidar(tmp_path, rate="", noise=""):
    text = LIDAR_SDF.replace("RATE", rate).replace("NOISE", noise)
    return described_plant(read(tmp_path, text, ".sdf"), sensors=True)


def test_ranges_of_an_sdf_lidar_equal_the_ray_lengths_of_mujoco_within_its_limits(tmp_path):
    plant = lidar(tmp_path)
    p = Record({port.name: np.asarray(port.start) for port in plant.parameters})
    m = mujoco.MjModel.from_xml_string(LIDAR_MJCF)
    d, rng, hits = mujoco.MjData(m), np.random.default_rng(4), 0
    yaw, pitch = np.linspace(-3, 3, 12), np.linspace(-1, 0.5, 8)
    for _ in range(10):
        q, qd = rng.normal(size=(2, 2))
        d.qpos[:] = q
        mujoco.mj_forward(m, d)
        R, r = d.site("s").xmat.reshape(3, 3), d.site("s").xpos
        expected = []
        for b in pitch:
            for a in yaw:
                e = R @ [np.cos(b) * np.cos(a), np.cos(b) * np.sin(a), np.sin(b)]
                t = mujoco.mj_ray(m, d, r + 0.3 * e, e, None, True, 1, np.zeros(1, np.int32))
                expected.append(2.5 if t < 0 else min(t + 0.3, 2.5))
        x, u = Record({"q": q, "qd": qd}), Record({"tau": np.zeros(2)})
        found = call(plant, "output", 0.0, x, u, p)["scan"]
        assert_allclose(found, expected, atol=1e-9)
        hits += (found < 2.5).sum()
    assert hits > 100


@pytest.mark.slow
def test_noisy_quantized_lidar_ranges_stay_within_the_lidar_limits(tmp_path):
    noise = """<noise><type>gaussian</type><mean>0.1</mean><stddev>0.05</stddev></noise>"""
    plant = lidar(tmp_path, "<update_rate>100</update_rate>", noise)
    assert plant.sample_time == 0.01
    found = run(plant, 5.0, 0.01)["robot.scan"]
    exact = run(lidar(tmp_path), 5.0, 0.01)["robot.scan"]
    assert found.min() >= 0.3
    assert_array_equal(found[exact == 2.5], 2.5)  # no noise without a hit
    near = exact < 2.0  # 7 deviations from the limit
    errors = found[near] - exact[near]
    n = near.sum()
    assert n > 1000
    assert abs(errors.mean() - 0.1) < 4 * 0.05 / n**0.5
    assert abs(errors.std() - 0.05) < 4 * 0.05 / (2 * n) ** 0.5
    coarse = LIDAR_SDF.replace("<max>2.5</max>", "<max>2.5</max><resolution>0.125</resolution>")
    text = coarse.replace("RATE", "").replace("NOISE", "")
    plant = described_plant(read(tmp_path, text, ".sdf"), sensors=True)
    assert plant.sample_time == 1e-3
    found = run(plant, 0.1, 1e-3)["robot.scan"]
    inside = found > 0.3
    assert_array_equal(found[inside] % 0.125, 0.0)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("<max>2.5</max>", "<max>0.2</max>", "the <range> is from 0.3 m to 0.2 m"),
        ("<max>2.5</max>", "<max>inf</max>", "<max> must be a finite number, not 'inf'"),
        ("<max>2.5</max>", "", "a lidar needs <lidar> or <ray> with"),
        ("<samples>12<", "<samples>0<", "<horizontal> has 0.0 samples"),
        ("<samples>12<", "<samples>9000<", "the lidar has 72000 rays; at most 10000"),
        ("<min_angle>-1<", "<min_angle>1<", "<min_angle> not above <max_angle>"),
    ],
)
def test_unsupported_lidars_are_reported_with_their_line(old, new, message, tmp_path):
    text = LIDAR_SDF.replace("RATE", "").replace("NOISE", "").replace(old, new)
    robot = read(tmp_path, text, ".sdf")
    assert not robot.sensors
    start = "line 4: sensor 'scan' is not read: "
    assert any(one.startswith(start) and message in one for one in robot.warnings), robot.warnings


def arm_values(plant, q, qd):
    """Return the outputs of the plant of `ARM_SDF` or `ARM_URDF`."""
    p = Record({port.name: np.asarray(port.start) for port in plant.parameters})
    x, u = Record({"q": q, "qd": qd}), Record({"tau": np.array([1.5])})
    return call(plant, "output", 0.0, x, u, p)


@pytest.mark.parametrize(
    ("text", "suffix"), [(ARM_SDF, ".sdf"), (ARM_URDF, ".urdf")], ids=["sdf", "urdf"]
)
def test_force_torque_and_inertial_sensors_of_sdf_and_urdf_match_the_equivalent_mjcf_file(
    text, suffix, tmp_path
):
    robot = read(tmp_path, text, suffix)
    assert not [warning for warning in robot.warnings if "sensor" in warning]
    plant = described_plant(robot, sensors=True)
    field = "1e-5 2e-5 -3e-5" if suffix == ".sdf" else "5.5645e-6 22.8758e-6 -42.3884e-6"
    m = mujoco.MjModel.from_xml_string(
        MJCF_OF_SDF.replace("1e-5 2e-5 -3e-5", field).replace("0 0 -9.81", gravity(robot))
    )
    d = mujoco.MjData(m)
    rng = np.random.default_rng(3)
    for _ in range(10):
        q, qd = rng.normal(size=(2, 1))
        d.qpos[:], d.qvel[:], d.qfrc_applied[:] = q, qd, 1.5
        mujoco.mj_forward(m, d)
        y = arm_values(plant, q, qd)
        for name in ("gyro", "accelerometer"):
            assert_allclose(y[f"imu_{name}"], d.sensor(name).data, atol=1e-12)
        R_child, R_parent = d.site("ft").xmat.reshape(3, 3), d.body("up").xmat.reshape(3, 3)
        R_tilted = d.site("tilted").xmat.reshape(3, 3)
        for name in ("force", "torque"):
            on_child = R_child @ d.sensor(name).data
            assert_allclose(y[f"wrist_{name}"], -(R_tilted.T @ on_child), atol=1e-12)
            assert_allclose(y[f"wrist2_{name}"], R_parent.T @ on_child, atol=1e-12)
            assert_allclose(y[f"wrist3_{name}"], -d.sensor(name).data, atol=1e-12)
        assert_allclose(y["alt_vertical_position"], d.site("imu").xpos[2] - 1.0, atol=1e-12)
        assert_allclose(y["mag"], d.sensor("field").data, atol=1e-18)
        if suffix == ".urdf":
            assert_allclose(y["imu2_accelerometer"], d.sensor("on_up").data, atol=1e-12)


def gravity(robot):
    return " ".join(map(repr, robot.model.gravity.tolist()))


def test_unsupported_urdf_sensors_are_reported_with_their_line_numbers(tmp_path):
    lines = [
        '<gazebo reference="hand"><sensor name="r" type="sonar"><sonar/></sensor></gazebo>',
        '<gazebo reference="up"><sensor name="c" type="contact"/></gazebo>',
        '<gazebo reference="up"><sensor name="f" type="force_torque"/></gazebo>',
        '<gazebo reference="ft"><sensor name="i" type="imu"/></gazebo>',
        '<gazebo><sensor name="m" type="magnetometer"/></gazebo>',
        '<gazebo reference="up"><sensor name="p" type="camera"/></gazebo>',
        '<gazebo reference="up"><sensor name="u"/></gazebo>',
        '<ros2_control name="x"><sensor name="s"/></ros2_control>',
    ]
    first = ARM_URDF.count("\n") + 2
    text = ARM_URDF.replace("</robot>", "\n" + "\n".join(lines) + "</robot>")
    robot = read(tmp_path, text, ".urdf")
    expected = [
        "sensor 'r' of type sonar is not read",
        "sensor 'c' of type contact is not read",
        "sensor 'f' of type force_torque is not read: its reference must be a joint",
        "sensor 'i' of type imu is not read: its reference must be a link",
        "sensor 'm' of type magnetometer is not read: its reference must be a link",
        None,  # cameras do not change the motion and have no numbers
        "sensor 'u' of type None is not read",
        "<sensor> of <ros2_control> 'x' is not read: only sensors in <gazebo> are outputs",
    ]
    reported = [warning for warning in robot.warnings if "sensor" in warning]
    assert sorted(reported) == sorted(
        f"line {first + k}: {text}" for k, text in enumerate(expected) if text
    )


def test_plugins_and_unknown_frames_of_urdf_sensors_are_reported(tmp_path):
    text = ARM_URDF.replace("<imu/>", '<imu/><plugin name="p" filename="q.so"/>', 1)
    assert any(
        "<plugin> of <sensor> 'imu' is not read" in w
        for w in read(tmp_path, text, ".urdf").warnings
    )
    with pytest.raises(FormatError, match="the frame 'upp' does not exist; did you mean 'up'"):
        read(tmp_path, ARM_URDF.replace('relative_to="up"', 'relative_to="upp"'), ".urdf")


def test_joint_states_of_ros2_control_are_outputs_with_the_units_of_the_joint(tmp_path):
    robot = read(tmp_path, SLIDER_URDF, ".urdf")
    plant = described_plant(robot, sensors=True)
    units = {port.name: port.unit for port in plant.outputs}
    assert (units["j_position"], units["j_velocity"], units["j_effort"]) == ("m", "m/s", "N")
    assert any("the state 'temperature' of joint 'j'" in text for text in robot.warnings)
    result = run(plant, 0.1, 0.01, tau=3.0)
    assert_array_equal(result["robot.j_position"], result["robot.q"][:, 0])
    assert_array_equal(result["robot.j_velocity"], result["robot.qd"][:, 0])
    assert_array_equal(result["robot.j_effort"], 3.0)


NOISY = SLIDER.format(
    '<jointpos name="p" joint="j" noise="0.5"/><jointvel name="v" joint="j" noise="2" cutoff="3"/>'
    '<accelerometer name="a" site="s" noise="0.1"/>'
).replace("<geom", '<site name="s"/><geom')


def test_sensor_noise_is_bitwise_equal_in_numpy_and_in_c(tmp_path):
    plant = described_plant(read(tmp_path, NOISY), sensors=True, seed=7)
    assert plant.sample_time == 0.002
    flat, runs = Memory(plant), []
    for stepper in (numpy_stepper, compiled_stepper):
        run_of, m = stepper(flat), flat.start()
        run_of.initialize(m, 0.0)
        rows = [m.copy()]
        for k in range(100):
            run_of.step(m, k * 0.002, 0.002)
            rows.append(m.copy())
        runs.append(np.array(rows))
    assert_array_equal(*runs)
    assert len(np.unique(runs[0][:, flat.where["p"]])) == 101


@pytest.mark.slow
def test_noisy_sensors_have_the_declared_standard_deviation_and_saturate_at_the_cutoff(tmp_path):
    plant = described_plant(read(tmp_path, NOISY), sensors=True, seed=7)
    result = run(plant, 10.0, 0.002, tau=0.0)
    p, v = result["robot.p"], result["robot.v"]
    n = len(p)
    assert abs(p.mean()) < 4 * 0.5 / n**0.5
    assert abs(p.std() - 0.5) < 4 * 0.5 / (2 * n) ** 0.5
    assert np.abs(v).max() == 3.0  # 13 % of normal values exceed 1.5 deviations
    assert abs((np.abs(v) == 3.0).mean() - 0.1336) < 0.02
    assert abs(np.corrcoef(p, v)[0, 1]) < 4 / n**0.5
    other = described_plant(read(tmp_path, NOISY), sensors=True, seed=8)
    assert not np.any(run(other, 0.1, 0.002, tau=0.0)["robot.p"][1:] == p[1:51])


@pytest.mark.skipif("nsample" not in mujoco.mj_printSchema(False, False), reason="older MuJoCo")
def test_values_of_sampled_and_delayed_sensors_equal_the_values_of_mujoco(tmp_path):
    text = SLIDER.format(
        '<clock name="late" delay="0.006" nsample="10"/>'
        '<clock name="slow" interval="0.01" delay="0.02" nsample="10"/>'
    )
    m = mujoco.MjModel.from_xml_string(text)
    d = mujoco.MjData(m)
    expected = []
    for _ in range(60):
        mujoco.mj_step(m, d)  # the sensor data belong to the start of the step
        expected.append(d.sensordata.copy())
    result = run(described_plant(read(tmp_path, text), sensors=True), 0.118, 0.002, tau=0.0)
    found = np.stack([result["robot.late"], result["robot.slow"]], axis=1)
    settled = result.time > 0.0311  # MuJoCo has zeros before the first delayed sample
    assert_allclose(found[settled], np.array(expected)[settled], atol=1e-12)


def test_sensors_without_a_name_are_named_after_their_type_and_object(tmp_path):
    text = SLIDER.format('<jointpos joint="j"/><jointpos joint="j"/><clock/><jointvel name="q"/>')
    robot = read(tmp_path, text.replace('name="q"', 'name="q" joint="j"'))
    assert [one.name for one in robot.sensors] == ["jointpos_j", "jointpos_j_2", "clock", "q"]
    names = [port.name for port in described_plant(robot, sensors=True).outputs]
    assert names[-4:] == ["jointpos_j", "jointpos_j_2", "clock", "sensor_q"]  # q is a state


NAMED = SLIDER.format(
    """
<jointvel name="qd" joint="j"/>
<jointpos name="q" joint="j" noise="0.1"/>
<jointpos name="sensor_q" joint="j" noise="0.1"/>
<clock name="sensor_tick"/>
<clock name="a/b"/><clock name="a.b"/>
<clock name="c_bias"/>
<jointpos name="c" joint="j" noise="0.1"/>
"""
)


def test_sensor_output_with_the_name_of_a_plant_port_has_the_prefix_sensor(tmp_path):
    plant = described_plant(read(tmp_path, NAMED), sensors=True)
    names = [port.name for port in plant.outputs[-8:]]
    expected = ["sensor_qd", "sensor_q", "sensor_q_2", "sensor_sensor_tick", "a_b", "a_b_2"]
    assert names == [*expected, "c_bias", "c_2"]
    each = (*plant.inputs, *plant.outputs, *plant.parameters)
    assert len({port.name for port in each}) == len(each)
    run(plant, 0.01, 0.002, tau=0.0)


def test_check_command_reports_renamed_sensors_with_their_line_numbers(tmp_path, capsys):
    path = tmp_path / "named.xml"
    path.write_text(NAMED)
    first = NAMED[: NAMED.index("<jointvel")].count("\n") + 1
    assert main(["check", str(path)]) == 1
    lines = [line for line in capsys.readouterr().out.splitlines() if "output of sensor" in line]
    expected = [
        (0, "qd", "sensor_qd", "the plant"),
        (1, "q", "sensor_q", "the plant"),
        (2, "sensor_q", "sensor_q_2", "another sensor"),
        (3, "sensor_tick", "sensor_sensor_tick", "the plant"),
        (4, "a.b", "a_b_2", "another sensor"),
        (6, "c", "c_2", "another sensor"),
    ]
    assert lines == [
        f"{path}:{first + k}: the output of sensor '{name}' is {port}: {owner} has this name"
        for k, name, port, owner in expected
    ]


def test_run_command_warns_about_renamed_sensors(tmp_path, capsys):
    path = tmp_path / "named.xml"
    path.write_text(NAMED)
    assert main(["run", str(path), "--sensors", "--stop", "0.01"]) == 0
    assert "the output of sensor 'qd' is sensor_qd" in capsys.readouterr().err


def test_check_command_reports_sensor_sample_times_without_a_common_divisor(tmp_path, capsys):
    path = tmp_path / "arm.sdf"
    rates = ARM_SDF.replace("<altimeter/>", "<update_rate>30</update_rate><altimeter/>")
    path.write_text(rates.replace("<imu/>", "<update_rate>100.0001</update_rate><imu/>"))
    assert main(["check", str(path)]) == 1
    assert "need a common divisor of at least" in capsys.readouterr().out


@pytest.mark.slow
def test_sensors_sampled_at_30_and_40_hz_have_a_common_sample_rate_of_120_hz(tmp_path):
    text = ARM_SDF.replace("<altimeter/>", "<update_rate>30</update_rate><altimeter/>")
    text = text.replace("<imu/>", "<update_rate>40</update_rate><imu/>")
    plant = described_plant(read(tmp_path, text, ".sdf"), sensors=True)
    assert plant.sample_time == 1 / 120
    result = run(plant, 0.5, 1 / 120)
    for name, interval in (("alt_vertical_velocity", 4), ("imu_gyro", 3)):
        values = result[f"robot.{name}"].reshape(61, -1)
        changes = np.flatnonzero(np.any(np.diff(values, axis=0) != 0, axis=1)) + 1
        assert_array_equal(changes % interval, 0)
        assert len(changes) >= 60 // interval - 1


def test_loading_a_json_robot_warns_that_sensors_are_not_stored(tmp_path):
    save_model(read(tmp_path, MJCF_ARM), tmp_path / "arm.json")
    saved = load_model(tmp_path / "arm.json")
    assert saved.sensors == ()
    assert any("sensors are not stored in a JSON file" in text for text in saved.warnings)


def test_sensor_delays_that_are_not_multiples_of_the_sample_time_are_reported(tmp_path):
    robot = read(tmp_path, SLIDER.format('<clock name="c" delay="0.003" nsample="9"/>'))
    assert robot.sensors == ()
    assert any("sensor 'c' is not read: its delay of 0.003 s" in text for text in robot.warnings)


QUANTIZED = """<noise type="gaussian_quantized"><mean>0.25</mean><stddev>0.3</stddev>
 <bias_mean>1</bias_mean><bias_stddev>0.5</bias_stddev><precision>0.125</precision></noise>"""
WALK = """<noise type="gaussian"><dynamic_bias_stddev>0.2</dynamic_bias_stddev>
 <dynamic_bias_correlation_time>0.5</dynamic_bias_correlation_time></noise>"""


@pytest.mark.slow
def test_quantization_bias_and_update_rate_of_sdf_sensors_take_effect(tmp_path):
    text = ARM_SDF.replace(
        "<altimeter/>", f"<altimeter><vertical_velocity>{QUANTIZED}</vertical_velocity></altimeter>"
    )
    text = text.replace("0 0 -9.81", "0 0 0").replace(
        "<magnetometer/>",
        f"""<update_rate>50
        </update_rate><magnetometer><x>{WALK}</x></magnetometer>""",
    )
    biases = set()
    for seed in range(2):
        plant = described_plant(read(tmp_path, text, ".sdf"), sensors=True, seed=seed)
        result = run(plant, 2.0, 0.001, tau=0.0)
        v, field = result["robot.alt_vertical_velocity"], result["robot.mag"]
        assert_array_equal(v, np.round(v * 8) / 8)
        starts = {port.name: port.start for port in plant.parameters}
        bias = starts["alt_vertical_velocity_bias"]
        assert abs(v.mean() - bias) < 4 * 0.3 / 2000**0.5
        biases.add(float(bias))
        changes = np.flatnonzero(np.any(np.diff(field, axis=0) != 0, axis=1)) + 1
        assert_array_equal(changes % 20, 0)
        assert len(changes) > 90
    assert len(biases) == 2


def test_stationary_standard_deviation_of_a_sensor_bias_matches_its_closed_form(tmp_path):
    text = ARM_SDF.replace("0 0 -9.81", "0 0 0").replace(
        "<magnetometer/>",
        f"""<update_rate>20
        </update_rate><magnetometer><x>{WALK}</x><y>{WALK}</y></magnetometer>""",
    )
    plant = described_plant(read(tmp_path, text, ".sdf"), sensors=True)
    walk = run(plant, 1000.0, 0.05, tau=0.0)["robot.mag"][200:, :2]
    expected = 0.2 * (0.5 / 2) ** 0.5  # 1980 correlation times, so the error is about 3 %
    assert_allclose(walk.std(axis=0), expected, rtol=0.12)
    lag = np.mean(walk[10:] * walk[:-10], axis=0) / np.mean(walk**2, axis=0)
    assert_allclose(lag, np.exp(-1.0), atol=0.12)


def test_sensors_option_rejects_tunable_inertias_and_robots_without_sensors(tmp_path):
    robot = read(tmp_path, SLIDER.format(""))
    with pytest.raises(ValueError, match="has no supported sensors"):
        described_plant(robot, sensors=True)
    with pytest.raises(ValueError, match="do not support tunable inertias"):
        described_plant(read(tmp_path, MJCF_ARM), inertias=TunableInertia(True), sensors=True)


def test_force_sensor_measures_an_external_force_on_the_outboard_body(tmp_path):
    plant = described_plant(read(tmp_path, MJCF_ARM), sensors=True).add_wrench_input()
    p = Record({port.name: np.asarray(port.start) for port in plant.parameters})
    x = Record({port.name: np.asarray(port.start) for port in plant.states})
    model, zero = plant.model, np.zeros((plant.model.nb, 6))
    push = zero.copy()
    push[-1] = [0.1, -0.3, 0.2, 3.0, 4.0, -5.0]
    changes = []
    for f_ext in (zero, push):  # forces of the joints that hold the robot at rest
        tau = -aba_forces(model, x.q, f_ext)
        y = call(plant, "output", 0.0, x, Record({"tau": tau, "f_ext": f_ext}), p)
        assert_allclose(y["qdd"], 0.0, atol=1e-9)
        changes.append(y["F"])
    E = quaternion_rotation(y["R_F"])  # from base to sensor coordinates
    assert_allclose(changes[1] - changes[0], -E @ push[-1, 3:], atol=1e-9)


def aba_forces(model, q, f_ext):
    """Return the negative joint forces of a robot at rest, H qdd(tau = 0)."""
    return crba(model, q) @ aba(model, q, np.zeros(model.nv), np.zeros(model.nv), f_ext)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "hits"), [(MJCF_RAYS, 0.3), (MESHES, 0.05)], ids=["simple shapes", "meshes"]
)
def test_range_sensor_outputs_are_equal_in_numpy_and_in_c(text, hits, tmp_path):
    plant = described_plant(read(tmp_path, text), sensors=True)
    flat, runs = Memory(plant), []
    for stepper in (numpy_stepper, compiled_stepper):
        run_of, m = stepper(flat), flat.start()
        m[flat.where["velocity"]] = [3.0, 2.0, -1.0, 0.3, 0.2, 5.0]
        run_of.initialize(m, 0.0)
        rows = []
        for k in range(100):
            run_of.step(m, k * 0.01, 0.01)
            ports = plant.outputs[-len(plant.sensors) :]
            rows.append(np.concatenate([m[flat.where[port.name]] for port in ports]))
        runs.append(np.array(rows))
    assert_allclose(*runs, atol=1e-10)
    assert (runs[0] > 0).mean() > hits
    assert (runs[0] < 0).mean() > 0.05


@pytest.mark.slow
@pytest.mark.parametrize("fmi", [2, 3])
def test_sensor_outputs_of_a_native_fmu_equal_the_outputs_of_the_block(fmi, tmp_path):
    text = NOISY.replace('gravity="0 0 0"', 'gravity="0 0 -1"')
    plant = described_plant(read(tmp_path, text), sensors=True)
    path = export_fmu(plant, tmp_path / "robot.fmu", fmi=fmi, name="robot")
    block, fmu = run(plant, 0.2, 0.002, tau=0.5), run(path, 0.2, 0.002, tau=0.5)
    for name in ("p", "v", "a"):
        assert_allclose(fmu[f"robot.{name}"], block[f"robot.{name}"], atol=1e-12)


def test_run_command_rejects_the_sensors_option_for_scripts_and_records_robot_sensors(
    tmp_path, capsys
):
    path = tmp_path / "arm.xml"
    path.write_text(SLIDER.format('<jointvel name="speed" joint="j"/>'))
    assert main(["run", str(path), "--sensors", "--stop", "0.01"]) == 0
    assert "speed" in capsys.readouterr().out
    script = tmp_path / "s.py"
    script.write_text("system = None")
    assert main(["run", str(script), "--sensors"]) == 2
    assert "leave out --sensors" in capsys.readouterr().err
