"""Robots with sensors, and the comparison of their outputs with the sensor data of MuJoCo."""

import numpy as np

from rigidblocks.block.block import Record, call
from rigidblocks.library.plant_from_file import described_plant
from rigidblocks.robot_description.load import load_model

_HEAD = """<mujoco><compiler autolimits="true"/>
<option gravity="0.3 -0.2 -9.81" magnetic="0 -0.5 0.1"><flag contact="disable"/></option>
<worldbody><geom name="w" type="box" size=".1 .2 .3" pos="1 2 3" euler="9 8 7"/>
<body name="base" pos="0 0 1">BASE<geom type="box" size=".1 .2 .3" mass="3"/>
 <site name="s0" pos=".1 .2 .3" euler="10 20 30"/><camera name="eye" pos="0 .1 .2" euler="7 3 1"/>
 <body name="a" pos=".1 0 .2" euler="30 0 10">
  <joint name="j" type="hinge" axis="1 2 0" ref="10" armature="0.3" damping="0.1"/>
  <joint name="k" type="slide" axis="0 1 1" pos="0 .1 0" ref="0.2"/>
  <geom name="ga" type="capsule" size=".05 .2" pos=".1 0 0" mass="2"/>
  <site name="sa" pos=".1 0 .1" euler="0 40 0"/>
  <body name="tip" pos=".1 0 0" euler="0 0 50">
   <geom type="box" pos=".2 .1 0" size=".1 .05 .02" mass="1"/>
   <site name="st" pos="0 .1 0" euler="5 6 7"/>
   <body name="ball" pos="0 0 .3"><joint name="b" type="LAST"/>
    <geom type="ellipsoid" size=".1 .2 .15" mass="1.5" pos=".05 0 .1"/>
    <site name="sb" pos="0 .1 .2"/></body></body></body></body></worldbody>
<tendon><fixed name="t"><joint joint="j" coef="2"/><joint joint="k" coef="-3"/></fixed></tendon>
<actuator><motor name="m" joint="j" gear="4"/></actuator>
<sensor>
<accelerometer site="s0"/><accelerometer site="sb"/><velocimeter site="sa"/><gyro site="st"/>
<force name="F" site="st"/><torque site="st"/><force site="sa"/><torque site="sa"/>
<force site="sb"/><torque site="s0"/><magnetometer site="sb"/><jointpos joint="j"/>
<jointvel joint="j"/><jointpos joint="k" cutoff="0.5"/><tendonpos tendon="t"/>
<tendonvel tendon="t"/><actuatorpos actuator="m"/><actuatorvel actuator="m"/>
<actuatorfrc actuator="m"/><jointactuatorfrc joint="j"/>
<framepos objtype="body" objname="tip"/>
<framepos objtype="geom" objname="ga" reftype="site" refname="sb"/>
<framequat objtype="xbody" objname="ball"/><framequat name="R_F" objtype="site" objname="st"/>
<framequat objtype="site" objname="sa" reftype="body" refname="tip"/>
<framequat objtype="geom" objname="w"/><framequat objtype="camera" objname="eye"/>
<framexaxis objtype="site" objname="sa"/>
<frameyaxis objtype="site" objname="sa" reftype="site" refname="s0"/>
<framezaxis objtype="geom" objname="w" reftype="xbody" refname="ball"/>
<framelinvel objtype="body" objname="ball"/>
<framelinvel objtype="site" objname="sb" reftype="site" refname="sa"/>
<frameangvel objtype="site" objname="sb" reftype="site" refname="sa"/>
<frameangvel objtype="site" objname="sb"/><framelinacc objtype="site" objname="st"/>
<frameangacc objtype="site" objname="sb"/><framelinacc objtype="body" objname="ball"/>
<subtreecom body="world"/><subtreecom body="tip"/><subtreelinvel body="a"/>
<subtreeangmom body="a"/><subtreeangmom body="base"/>
<e_potential/><e_kinetic/><clock/>MORE</sensor></mujoco>"""
MJCF_FREE = (
    _HEAD.replace("BASE", '<freejoint name="root"/>')
    .replace("LAST", "ball")
    .replace("MORE", '<ballquat joint="b"/><ballangvel joint="b"/>')
)
MJCF_ARM = _HEAD.replace("BASE", "").replace("LAST", "hinge").replace("MORE", "")

_EYES = " ".join(f'<site name="r{k}" euler="{40 * k} {70 * k} 0"/>' for k in range(9))
_RANGES = " ".join(f'<rangefinder site="r{k}"/>' for k in range(9))
MJCF_RAYS = f"""<mujoco><option><flag contact="disable"/></option><worldbody>
<geom type="plane" size="3 2 .1" pos="0 0 -2" euler="5 6 7"/>
<geom type="plane" size="0 0 .1" pos="0 0 -4"/>
<geom type="sphere" size=".7" pos="1 2 1"/><geom type="capsule" size=".4 .8" pos="-1 1 1"/>
<geom type="cylinder" size=".6 .5" pos="2 -1 0" euler="30 40 0"/>
<geom type="ellipsoid" size=".5 .9 .7" pos="-2 -1 0" euler="0 50 20"/>
<geom type="box" size=".9 .5 .7" pos="0 -2 1" euler="10 50 20"/>
<geom type="box" size="9 9 9" rgba="0 0 0 0"/>
<body name="eye"><freejoint/><geom size=".1"/>{_EYES}<body name="lid" pos="0 0 .4">
 <joint name="j" axis="1 0 0" pos="0 0 -.4"/><geom type="cylinder" size=".15 .01"/></body></body>
</worldbody><sensor>{_RANGES}<rangefinder site="r0" cutoff="0.5"/></sensor></mujoco>"""


def terrain_with_rays():
    """Return an MJCF model with two height fields, a sphere of 796 triangles and nine rays."""
    rng = np.random.default_rng(5)
    z = np.linspace(-0.99, 0.99, 400)
    phi, r = 2.4 * np.arange(400), 0.9 * np.sqrt(1 - z * z)
    points = np.stack([r * np.cos(phi), r * np.sin(phi), 0.9 * z], 1)
    low, high = (" ".join(f"{one:.4f}" for one in rng.uniform(0, 1, n)) for n in (12, 99))
    return f"""<mujoco><option><flag contact="disable"/></option><asset>
<mesh name="m" vertex="{" ".join(f"{one:.6f}" for one in points.ravel())}"/>
<hfield name="low" nrow="3" ncol="4" size="2 1.5 1 .3" elevation="{low}"/>
<hfield name="high" nrow="9" ncol="11" size="3 2 1.5 .5" elevation="{high}"/></asset><worldbody>
<geom type="mesh" mesh="m" pos="1 2 1" euler="20 30 40"/>
<geom type="hfield" hfield="high" pos="0 0 -2" euler="5 6 7"/>
<geom type="hfield" hfield="low" pos="-2 0 1" euler="70 40 0"/>
<body name="eye"><freejoint/><geom size=".1"/>{_EYES}<body name="lid" pos="0 0 .4">
 <joint name="j" axis="1 0 0" pos="0 0 -.4"/><geom type="mesh" mesh="m" pos="2 1 0"/></body></body>
</worldbody><sensor>{_RANGES}</sensor></mujoco>"""


ARM_SDF = """<sdf version="1.9"><world name="w"><gravity>0 0 -9.81</gravity>
<magnetic_field>1e-5 2e-5 -3e-5</magnetic_field><model name="arm"><pose>0 0 1 0 0 0</pose>
<link name="up"><inertial><mass>2</mass><inertia><ixx>.1</ixx><iyy>.1</iyy><izz>.1</izz></inertia>
 </inertial></link>
<link name="hand"><pose>0.5 0 0 0 0 0.3</pose><inertial><pose>0.1 0.2 0 0 0 0</pose><mass>3</mass>
 <inertia><ixx>.1</ixx><iyy>.1</iyy><izz>.1</izz></inertia></inertial>
 <sensor name="imu" type="imu"><pose>0.1 0 0 0 0.2 0</pose><imu/></sensor>
 <sensor name="alt" type="altimeter"><pose>0.1 0 0 0 0.2 0</pose><altimeter/></sensor>
 <sensor name="mag" type="magnetometer"><magnetometer/></sensor></link>
<joint name="j" type="revolute"><parent>world</parent><child>up</child><axis><xyz>0 1 0</xyz></axis>
</joint><joint name="ft" type="fixed"><pose>0 0.1 0 0 0 0</pose><parent>up</parent>
 <child>hand</child>
 <sensor name="wrist" type="force_torque"><pose>0 0 1 0.4 0 0</pose>
  <force_torque><frame>sensor</frame></force_torque></sensor>
 <sensor name="wrist2" type="force_torque"><force_torque><frame>parent</frame>
  <measure_direction>parent_to_child</measure_direction></force_torque></sensor>
 <sensor name="wrist3" type="force_torque"><force_torque/></sensor>
</joint></model></world></sdf>"""
# the same arm, with the frame of the hand in the joint "ft"
ARM_URDF = f"""<robot name="arm"><link name="base"/>
<link name="up"><inertial><mass value="2"/>
 <inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<link name="hand"><inertial><origin xyz="0.1 0.1 0"/><mass value="3"/>
 <inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="j" type="continuous"><origin xyz="0 0 1"/><parent link="base"/><child link="up"/>
 <axis xyz="0 1 0"/></joint>
<joint name="ft" type="fixed"><parent link="up"/><child link="hand"/>
 <origin xyz="{0.5 - 0.1 * np.sin(0.3)} {0.1 * np.cos(0.3)} 0" rpy="0 0 0.3"/></joint>
<gazebo reference="hand">
 <sensor name="imu" type="imu"><pose>0.1 -0.1 0 0 0.2 0</pose><imu/></sensor>
 <sensor name="imu2" type="imu"><pose relative_to="up">0.5 0 0 0 0 0</pose><imu/></sensor>
 <sensor name="alt" type="altimeter"><pose>0.1 -0.1 0 0 0.2 0</pose><altimeter/></sensor>
 <sensor name="mag" type="magnetometer"><magnetometer/></sensor></gazebo>
<gazebo reference="ft">
 <sensor name="wrist" type="force_torque"><pose>0 0 1 0.4 0 0</pose>
  <force_torque><frame>sensor</frame></force_torque></sensor>
 <sensor name="wrist2" type="force_torque"><force_torque><frame>parent</frame>
  <measure_direction>parent_to_child</measure_direction></force_torque></sensor>
 <sensor name="wrist3" type="force_torque"><force_torque/></sensor></gazebo></robot>"""
MJCF_OF_SDF = """<mujoco><compiler angle="radian" eulerseq="XYZ"/>
<option gravity="0 0 -9.81" magnetic="1e-5 2e-5 -3e-5"/><worldbody><body name="up" pos="0 0 1">
<joint name="j" axis="0 1 0"/><inertial pos="0 0 0" mass="2" diaginertia=".1 .1 .1"/>
<body name="hand" pos="0.5 0 0" euler="0 0 0.3">
 <inertial pos="0.1 0.2 0" mass="3" diaginertia=".1 .1 .1"/>
 <site name="imu" pos="0.1 0 0" euler="0 0.2 0"/><site name="ft" pos="0 0.1 0"/>
 <site name="tilted" euler="0.4 0 0"/></body><site name="on_up" pos="0.5 0 0"/></body></worldbody>
<sensor><gyro name="gyro" site="imu"/><accelerometer name="accelerometer" site="imu"/>
<force name="force" site="ft"/><torque name="torque" site="ft"/>
<magnetometer name="field" site="ft"/><accelerometer name="on_up" site="on_up"/>
</sensor></mujoco>"""


def _states(m, d):
    """Return q and qd of the model for the state of MuJoCo."""
    import mujoco

    q, qd = d.qpos - m.qpos0 * _single(m), d.qvel.copy()
    if m.jnt_type[0] == mujoco.mjtJoint.mjJNT_FREE:
        R = np.zeros(9)
        mujoco.mju_quat2Mat(R, d.qpos[3:7])
        q[:7] = [*d.qpos[3:7], *d.qpos[:3]]
        qd[:6] = [*d.qvel[3:6], *(R.reshape(3, 3).T @ d.qvel[:3])]
    return q, qd


def _single(m):
    """Return 1 for each position of a hinge or slide, which is relative to qpos0, else 0."""
    mask = np.zeros(m.nq)
    mask[m.jnt_qposadr[m.jnt_type >= 2]] = 1.0
    return mask


def largest_sensor_error(text, folder, states, seed=1):
    """Return the largest error of each sensor in random states, relative to values above 1."""
    import mujoco

    path = folder / "sensed.xml"
    path.write_text(text)
    m = mujoco.MjModel.from_xml_string(text)
    d, robot = mujoco.MjData(m), load_model(path)
    plant = described_plant(robot, joint_friction=True, sensors=True)
    assert len(robot.sensors) == m.nsensor, robot.warnings
    p = Record({port.name: np.asarray(port.start, float) for port in plant.parameters})
    ports = plant.outputs[-m.nsensor :]
    rng, worst = np.random.default_rng(seed), {}
    for _ in range(states):
        d.qpos[:] = m.qpos0
        mujoco.mj_integratePos(m, d.qpos, 2.0 * rng.normal(size=m.nv), 1.0)
        d.qvel[:], d.ctrl[:] = 2.0 * rng.normal(size=m.nv), rng.normal(size=m.nu)
        d.time = rng.uniform()
        mujoco.mj_forward(m, d)
        q, qd = _states(m, d)
        tau = d.qfrc_actuator.copy()
        if any(port.name == "quaternion" for port in plant.states):
            x = {"quaternion": q[:4], "position": q[4:7], "velocity": qd[:6]}
            x, tau = {**x, "q": q[7:], "qd": qd[6:]}, tau[6:]
        else:
            x = {"q": q, "qd": qd}
        y = call(plant, "output", d.time, Record(x), Record({"tau": tau}), p)
        for k, (sensor, port) in enumerate(zip(robot.sensors, ports, strict=True)):
            value = np.ravel(y[port.name])
            expected = d.sensordata[m.sensor_adr[k] :][: m.sensor_dim[k]]
            if sensor.quantity == "quaternion" and value @ expected < 0:
                expected = -expected  # the same rotation
            error = np.abs(value - expected).max() / max(1.0, np.abs(expected).max())
            name = f"{sensor.name} {sensor.quantity}"
            worst[name] = max(worst.get(name, 0.0), error)
    return worst
