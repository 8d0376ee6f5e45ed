"""URDF and SDF files that contain each element and attribute that the readers support."""

INERTIA = (
    "<inertia><ixx>0.3</ixx><ixy>0.02</ixy><ixz>-0.03</ixz><iyy>0.4</iyy><iyz>0.01</iyz>"
    "<izz>0.5</izz></inertia>"
)
NOISE = """<noise type="gaussian_quantized"><mean>0.1</mean><stddev>0.2</stddev>
 <bias_mean>0.3</bias_mean><bias_stddev>0.4</bias_stddev>
 <dynamic_bias_stddev>0.5</dynamic_bias_stddev><precision>0.7</precision>
 <dynamic_bias_correlation_time>0.6</dynamic_bias_correlation_time></noise>"""
AXES = "".join(f"<{axis}>{NOISE}</{axis}>" for axis in "xyz")
SCAN = """<horizontal><samples>4</samples><resolution>2</resolution><min_angle>-1</min_angle>
 <max_angle>1</max_angle></horizontal>"""
PITCH = SCAN.replace("horizontal", "vertical")
RANGE = "<range><min>0.1</min><max>3</max><resolution>0.9</resolution></range>"
PLACE = "<pose>0.1 0.2 0.3 0.4 0.5 0.6</pose>"
SENSORS = f"""
<sensor name="s1" type="imu">{PLACE}<update_rate>50</update_rate>
 <imu><angular_velocity>{AXES}</angular_velocity><linear_acceleration>{AXES}</linear_acceleration>
 </imu></sensor>
<sensor name="s2" type="altimeter"><altimeter><vertical_position>{NOISE}</vertical_position>
 <vertical_velocity>{NOISE}</vertical_velocity></altimeter></sensor>
<sensor name="s3" type="magnetometer"><magnetometer>{AXES}</magnetometer></sensor>
<sensor name="s4" type="lidar"><lidar><scan>{SCAN}{PITCH}</scan>{RANGE}{NOISE}</lidar></sensor>
<sensor name="s5" type="ray"><ray><scan>{SCAN}</scan>{RANGE}
 <noise><type>gaussian</type><stddev>0.2</stddev></noise></ray></sensor>"""
FORCE = f"""<sensor name="s6" type="force_torque">{PLACE}<force_torque><frame>sensor</frame>
 <measure_direction>parent_to_child</measure_direction><force>{AXES}</force>
 <torque>{AXES}</torque></force_torque></sensor>"""
AXIS = """<axis><xyz expressed_in="FRAME">0.1 0.2 1</xyz><dynamics><damping>0.5</damping>
 <friction>0.1</friction><spring_stiffness>2</spring_stiffness>
 <spring_reference>0.3</spring_reference></dynamics><limit><lower>-0.5</lower><upper>0.7</upper>
 <velocity>3</velocity><effort>9</effort></limit></axis>"""
MIMIC = """<mimic joint="i" axis="axis"><multiplier>2</multiplier><offset>0.3</offset>
 <reference>0.2</reference></mimic>"""
PLAIN = "<axis><xyz>1 2 3</xyz>MORE</axis>"
IN_MODEL = PLAIN.replace("MORE", "<use_parent_model_frame>1</use_parent_model_frame>")
IN_DEGREES = 'degrees="true">0.1 0.2 0.3 4 5 6</pose>'
QUATERNION = '<pose rotation_format="quat_xyzw">0.1 0.2 0.3 0.4 0.5 0.6 1</pose>'


def second(axis):
    """Return an <axis> as <axis2> with another direction."""
    return axis.replace("axis>", "axis2>").replace("0.1 0.2 1", "1 2 0.4")


# ---- URDF ----

URDF_INERTIAL = """<inertial><origin xyz="0.1 0.2 0.3" rpy="0.1 0.2 0.3"/><mass value="2"/>
 <inertia ixx="0.3" ixy="0.02" ixz="-0.03" iyy="0.4" iyz="0.01" izz="0.5"/></inertial>"""
LINKS = "".join(f'<link name="{name}">{URDF_INERTIAL}</link>\n' for name in "abc")
LIMIT = '<limit lower="-1" upper="2" effort="30" velocity="4"/>'
JOINTS = f"""<joint name="i" type="revolute"><origin xyz="0.1 0.2 0.3" rpy="0.4 0.5 0.6"/>
 <parent link="base"/><child link="a"/><axis xyz="0.1 0.9 0.2"/>{LIMIT}
 <dynamics damping="0.7" friction="0.2"/></joint>
<joint name="j" type="revolute"><origin xyz="0.5 0.1 0.2" rpy="0.3 0.1 0.2"/><parent link="a"/>
 <child link="b"/><axis xyz="0.3 0.1 1"/>{LIMIT}</joint>
<joint name="k" type="prismatic"><origin xyz="0.2 0.3 0.1" rpy="0.1 0.6 0.2"/><parent link="b"/>
 <child link="c"/><axis xyz="1 0.2 0.3"/>{LIMIT}MORE</joint>"""


def urdf(extensions="", *, in_joint="", attributes="", joints=JOINTS):
    """Return a URDF with three joints, and with extensions."""
    return (
        f'<robot name="r" {attributes}><link name="base"/>\n{LINKS}'
        f"{joints.replace('MORE', in_joint)}\n{extensions}\n</robot>"
    )


def drake(kind, **parts):
    """Return a Drake extension; each part is an attribute name and a value."""
    inside = "".join(
        f'<drake:{kind}_{key} {name}="{value}"/>' for key, (name, value) in parts.items()
    )
    return f"<drake:{kind}>{inside}</drake:{kind}>"


RELATIVE = ' relative_to="b">'
POINTS = {"p_AP": ("value", "0.1 0.2 0.3"), "p_BQ": ("value", "0.1 0.3 0.2")}
SPACE = 'xmlns:drake="http://drake.mit.edu"'
ENDS = "<parent>base</parent><child>c</child>"
REDUCTIONS = ("<mechanicalReduction>2</mechanicalReduction>", "<role>joint1</role>")
IN_ROS2 = "<mechanical_reduction>5</mechanical_reduction>"


def in_gazebo(joint):
    """Return a URDF with an SDF joint in a <gazebo> element."""
    return urdf(f"<gazebo>{joint}</gazebo>")


URDF_FILES = {
    "arm": urdf(in_joint='<mimic joint="i" multiplier="2" offset="0.3"/>'),
    "quaternion": urdf(
        attributes='version="1.1"',
        joints=JOINTS.replace('rpy="0.4 0.5 0.6"', 'quat_xyzw="1 2 3 4"'),
    ),
    "gazebo": urdf(
        f"""<gazebo reference="i"><springStiffness>3</springStiffness>
        <springReference>0.4</springReference></gazebo>
        <gazebo reference="a"><gravity>false</gravity></gazebo>
        <gazebo reference="b"><turnGravityOff>true</turnGravityOff></gazebo>
        <gazebo reference="c">{SENSORS}</gazebo><gazebo reference="j">{FORCE}</gazebo>"""
    ),
    "simple transmissions": urdf(
        f"""<transmission type="SimpleTransmission"><joint name="i">{REDUCTIONS[0]}</joint>
        <actuator name="m"/></transmission>
        <transmission><joint name="j">{IN_ROS2}</joint><actuator name="m2"/></transmission>
        <transmission><joint name="k"/><actuator name="m3"/>{REDUCTIONS[0]}</transmission>"""
    ),
    "differential": urdf(
        f"""<transmission><plugin>transmission_interface/DifferentialTransmission</plugin>
        <joint name="i" role="joint2">{IN_ROS2}</joint><joint name="j">{"".join(REDUCTIONS)}</joint>
        <actuator name="m"><role>actuator2</role>{REDUCTIONS[0]}</actuator>
        <actuator name="m2" role="actuator1">{IN_ROS2}</actuator></transmission>"""
    ),
    "ros2_control": urdf(
        """<ros2_control name="c"><joint name="i"><state_interface name="position">
        <param name="initial_value">0.3</param></state_interface>
        <state_interface name="velocity"/></joint>
        <transmission><joint name="k"/><actuator name="m3"/></transmission></ros2_control>"""
    ),
    "spring": urdf(
        """<transmission><joint name="i"/><actuator name="m"><drake:gear_ratio value="3"/>
        <drake:rotor_inertia value="0.2"/></actuator></transmission>"""
        + drake(
            "linear_spring_damper",
            body_A=("name", "a"),
            body_B=("name", "c"),
            free_length=("value", "0.3"),
            damping=("value", "2"),
            stiffness=("value", "5"),
            **POINTS,
        ),
        attributes=SPACE,
    ),
    "ball constraint": urdf(
        drake("ball_constraint", body_A=("name", "base"), body_B=("name", "c"), **POINTS),
        attributes=SPACE,
    ),
    "revolute loop": in_gazebo(
        f'<joint name="g" type="revolute">{PLACE.replace(">", RELATIVE, 1)}{ENDS}'
        f"{AXIS.replace('FRAME', '__model__')}</joint>"
    ),
    "universal loop": in_gazebo(
        f'<joint name="g" type="universal">{QUATERNION}{ENDS}'
        f"{(AXIS + second(AXIS)).replace('FRAME', '__model__')}</joint>"
    ),
    "screw loop": in_gazebo(
        f'<joint name="g" type="screw"><pose frame="b" {IN_DEGREES}{ENDS}'
        f"<thread_pitch>3</thread_pitch>{IN_MODEL}</joint>"
    ),
    "mimic loop": in_gazebo(
        f'<joint name="g" type="screw">{PLACE}{ENDS}<screw_thread_pitch>3</screw_thread_pitch>'
        f"{PLAIN.replace('MORE', MIMIC)}</joint>"
    ),
}

# ---- SDF ----

SURFACE = """<surface><bounce><restitution_coefficient>0.3</restitution_coefficient></bounce>
 <friction><ode><mu>MU</mu><mu2>0.4</mu2></ode><torsional><coefficient>0.6</coefficient>
 <patch_radius>0.2</patch_radius></torsional></friction>
 <contact><ode><kp>1e4</kp><kd>10</kd></ode></contact></surface>"""
ROD = "<radius>0.1</radius><length>0.3</length>"
SHAPES = {
    "<box><size>0.1 0.2 0.3</size></box>": SURFACE.replace("MU", "0.5"),
    f"<cylinder>{ROD}</cylinder>": SURFACE.replace("MU", "0.2"),
    f"<capsule>{ROD}</capsule>": "",
    f"<cone>{ROD}</cone>": "",
    "<sphere><radius>0.1</radius></sphere>": "",
    "<ellipsoid><radii>0.1 0.2 0.3</radii></ellipsoid>": "",
}
COLLISIONS = "".join(
    f'<collision name="c{k}">{PLACE}<geometry>{shape}</geometry>{surface}</collision>'
    for k, (shape, surface) in enumerate(SHAPES.items())
)
SDF_INERTIAL = f"<inertial>{PLACE}<mass>2</mass>{INERTIA}</inertial>"
MAGNETIC = "<magnetic_field>1e-5 2e-5 3e-5</magnetic_field>"
WORLD_FRAMES = """<frame name="wf"><pose>1 2 3 0.1 0.2 0.3</pose></frame>
 <frame name="wg" attached_to="wf"><pose>1 2 3 0.1 0.2 0.3</pose></frame>"""
MODEL_FRAMES = """<frame name="f" attached_to="a">
 <pose relative_to="b">0.2 0.3 0.1 0.3 0.2 0.1</pose></frame><frame name="h"/>"""
MODEL_POSE = '<pose relative_to="wg">0.3 0.2 0.1 0.6 0.5 0.4</pose>'


def link(name, inside="", pose="<pose>0.3 0.2 0.1 0.1 0.2 0.3</pose>"):
    """Return a <link> with a mass."""
    return f'\n<link name="{name}">{pose}{SDF_INERTIAL}{inside}</link>'


def joint(name, kind, parent, child, *inside, pose=PLACE):
    """Return a <joint>."""
    parts = "".join(inside).replace("FRAME", "a").replace("MORE", "")
    return (
        f'\n<joint name="{name}" type="{kind}">{pose}<parent>{parent}</parent>'
        f"<child>{child}</child>{parts}</joint>"
    )


def sdf(*inside, version="1.11", attributes="", pose="", world=""):
    """Return an SDF file with one model in a world."""
    return (
        f'<sdf version="{version}"><world name="w">{world}<model name="m" {attributes}>{pose}'
        f"{''.join(inside)}</model></world></sdf>"
    )


LINKS_OF_SDF = (link("a"), link("b"), link("c"))
IN_PHYSICS = f"""<physics type="ode" default="false"><gravity>0 0 -3</gravity></physics>
 <physics type="ode" default="true"><gravity>1 2 -9</gravity>{MAGNETIC}
 <max_step_size>0.002</max_step_size></physics>"""
SDF_FILES = {
    "world": sdf(
        MODEL_FRAMES,
        link("a", f"{COLLISIONS}<self_collide>0</self_collide>"),
        link("b", f"{SENSORS}{COLLISIONS}<gravity>false</gravity>"),
        link("c", COLLISIONS),
        "<self_collide>true</self_collide>",
        joint("i", "revolute", "world", "a", AXIS, FORCE),
        joint("j", "prismatic", "a", "b", AXIS),
        joint("k", "universal", "b", "c", AXIS, second(AXIS)),
        world=f"<gravity>1 2 -9</gravity>{MAGNETIC}{WORLD_FRAMES}",
        attributes='canonical_link="b" placement_frame="f"',
        pose=MODEL_POSE,
    ),
    "screws": sdf(
        *LINKS_OF_SDF,
        joint(
            *("i", "screw", "world", "a", PLAIN, "<thread_pitch>2</thread_pitch>"),
            pose=f'<pose relative_to="b" {IN_DEGREES}',
        ),
        joint(
            *("j", "screw", "a", "b", PLAIN, "<screw_thread_pitch>2</screw_thread_pitch>"),
            pose=QUATERNION,
        ),
        joint("k", "revolute", "b", "c", PLAIN.replace("MORE", MIMIC)),
        pose=MODEL_POSE.replace("wg", ""),
    ),
    "gearbox": sdf(
        *LINKS_OF_SDF,
        joint("i", "revolute", "world", "a", PLAIN),
        joint("j", "revolute", "a", "b", IN_MODEL),
        joint("k", "revolute", "a", "c", IN_MODEL),
        joint(
            *("g", "gearbox", "b", "c", IN_MODEL, second(IN_MODEL)),
            "<gearbox_ratio>3</gearbox_ratio><gearbox_reference_body>a</gearbox_reference_body>",
        ),
    ),
    "version 1.5": sdf(
        link("a", SENSORS, '<pose frame="b">0.3 0.2 0.1 0.1 0.2 0.3</pose>'),
        link("b"),
        joint("i", "revolute", "world", "b", AXIS.replace(' expressed_in="FRAME"', "")),
        joint("j", "revolute", "b", "a", PLAIN),
        version="1.5",
        world=IN_PHYSICS,
    ),
    "without a world": f'<sdf version="1.9"><model name="m">{"".join(LINKS_OF_SDF)}'
    + joint("i", "revolute", "world", "a", PLAIN)
    + joint("j", "revolute", "a", "b", PLAIN)
    + joint("k", "ball", "b", "c")
    + "</model></sdf>",
}
