"""URDF, SDF and MJCF elements and attributes: supported, ignored, rejected or reported.

The tables in this module list the known children and attributes of each element. The names of
attributes begin with @. Unknown names are reported like unsupported elements that affect the
motion.

The MJCF table applies to the text of a file. `mjcf` reads the model that MuJoCo compiles, and
checks the elements that default classes or included files define.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from rigidblocks.common.xml_reader import Element


class ReportedElement(NamedTuple):
    """Unsupported element or attribute that affects the motion.

    `effect` describes the simulation without the element. If `harmless` returns True for a value,
    this value does not affect the motion.
    """

    effect: str
    harmless: Callable[[str], bool] = frozenset[str]().__contains__  # false for every value


class ReadElement(NamedTuple):
    """Supported element or attribute of a file format.

    `inside` is the key of a `Table` under which the children of the element are listed. If `inside`
    is empty, the key is the name of the element.
    """

    inside: str = ""


class IgnoredElement(NamedTuple):
    """Element or attribute that does not affect the motion; `reason` says why."""

    reason: str


class RejectedElement(NamedTuple):
    """Element or attribute that the reader rejects; `value` is an example of a rejected value."""

    value: str = ""


Rule = ReportedElement | ReadElement | IgnoredElement | RejectedElement
Table = Mapping[str, Mapping[str, Rule]]


def unread_elements(root: Element, table: Table) -> Iterator[str]:
    """Yield a warning with line numbers for each unsupported element or attribute name."""
    found: dict[tuple[str, str, str], list[Element]] = {}
    for element, name, rule in _reports(root, table, root.tag):
        parent = element.getparent() if name.startswith("<") else element
        found.setdefault((_tag(parent), name, rule.effect), []).append(element)
    for (_, name, effect), elements in found.items():
        owner = elements[0].getparent() if name.startswith("<") else elements[0]
        more = ", ".join(str(element.sourceline) for element in elements[1:])
        also = f" (also in line {more})" if more else ""
        where = f"line {elements[0].sourceline}"
        yield f"{where}: {name} of {_label(owner)} is not read: {effect}{also}"


def repeated_elements(root: Element, once: Mapping[str, str]) -> Iterator[str]:
    """Yield a warning for each repeated child; the reader uses only the first occurrence.

    `once` maps the tag of a parent to the tags of these children, separated by spaces.
    """
    for parent in root.iter(*once):
        first: dict[str, Element] = {}
        for child in parent.iterchildren(*once[str(parent.tag)].split()):
            tag = _tag(child)
            if tag in first:
                text = (
                    f"<{tag}> of {_label(parent)} is repeated and not read: the first one in line "
                )
                yield f"line {child.sourceline}: {text}{first[tag].sourceline} applies"
            first.setdefault(tag, child)


URDF_ONCE = {
    "link": "inertial",
    "inertial": "origin mass inertia",
    "visual": "origin geometry",
    "collision": "origin geometry",
    "joint": "origin parent child axis limit dynamics mimic",
}
SDF_ONCE = {
    "model": "pose static",
    "link": "pose inertial gravity",
    "inertial": "pose mass inertia",
    "visual": "pose geometry",
    "collision": "pose geometry surface",
    "joint": "pose parent child axis axis2 thread_pitch screw_thread_pitch",
    "axis": "xyz limit dynamics mimic",
    "axis2": "xyz limit dynamics",
    "limit": "lower upper velocity effort",
    "dynamics": "damping friction spring_stiffness spring_reference",
    "world": "gravity",
}

_UNKNOWN = ReportedElement("it is unknown")


def _reports(
    element: Element, table: Table, inside: str
) -> Iterator[tuple[Element, str, ReportedElement]]:
    rules = table.get(inside)
    if rules is None:
        return
    for key, value in element.attrib.items():
        if not key.startswith("{"):
            rule = rules.get(f"@{key}", _UNKNOWN)
            if isinstance(rule, ReportedElement) and not rule.harmless(value.strip()):
                yield element, f"the attribute {key}", rule
    for child in element.iterchildren("*"):
        tag = _tag(child)
        rule = rules.get(tag, _UNKNOWN)
        if isinstance(rule, ReadElement):
            yield from _reports(child, table, rule.inside or tag)
        elif isinstance(rule, ReportedElement) and not rule.harmless(_value(child)):
            yield child, f"<{tag}>", rule


def _tag(element: Element) -> str:
    """Return the name of an element, including its namespace prefix."""
    local = str(element.tag).rpartition("}")[2]
    return f"{element.prefix}:{local}" if element.prefix else local


def _value(element: Element) -> str:
    """Return the text of an element, or its attribute `value`."""
    return (element.text or "").strip() or (element.get("value") or "").strip()


def _label(element: Element) -> str:
    """Return the tag of an element, and the name of the element or of a named ancestor."""
    one = element
    while one is not None:
        name = one.get("name") or one.get("reference")
        if name:
            inner = "" if one is element else f" in <{_tag(one)}>"
            return f"<{_tag(element)}>{inner} '{name}'"
        one = one.getparent()
    return f"<{_tag(element)}>"


def _is_number(*values: float) -> Callable[[str], bool]:
    def is_one(text: str) -> bool:
        try:
            return all(float(token) in values for token in text.split())
        except ValueError:
            return False

    return is_one


def _is_false(text: str) -> bool:
    return text.lower() in ("", "0", "false")


def _is_true(text: str) -> bool:
    return text.lower() in ("", "1", "true")


def _is_enabled(text: str) -> bool:
    return text in ("", "enable")


def _is_disabled(text: str) -> bool:
    return text in ("", "disable")


def _is_full_mask(text: str) -> bool:
    return text.lower() in ("65535", "0xffff")


def _is_known_transmission(text: str) -> bool:
    kinds = ("SimpleTransmission", "DifferentialTransmission", "FourBarLinkageTransmission")
    return text.endswith(kinds) or not text


_LENS = (
    "@target @output @fovy @ipd @focal @focalpixel @principal @principalpixel @projection "
    "@resolution @sensorsize"
)
_REASONS = {  # reasons for ignored names
    "it is a label": "@name @class @group @user @type @role role robotNamespace topic frame_id",
    "it only affects pictures and sound": f"{_LENS} @mesh visual material @material "
    "@rgba @width @castshadow visualize laserRetro laser_retro gui scene light road audio "
    "audio_sink audio_source projector particle_emitter actor texture visibility_mask camera "
    "logical_camera",
    "it configures the software of a controller": "hardware gpio command_interface limits param "
    "calibration safety_controller hardwareInterface motorTorqueConstant offset @rw_rate @is_async "
    "@thread_priority @mimic @data_type @size @acceleration @deceleration @jerk",
    "it is a setting of the solver or integrator of another simulator": "@solver @cone @jacobian "
    "@integrator @iterations @tolerance @ls_iterations @ls_tolerance @noslip_iterations "
    "@noslip_tolerance @ccd_iterations @ccd_tolerance @impratio @sdf_initpoints @sdf_iterations "
    "@sleep_tolerance @apirate @o_margin @o_solref @o_solimp @o_friction @mpr_iterations "
    "@mpr_tolerance @collision @warmstart @refsafe @midphase @nativeccd @eulerdamp @autoreset "
    "@island @fwdinv @invdiscrete @multiccd @diagexact @ipc @speculative @fuse @simple @sleep "
    "real_time_factor real_time_update_rate max_contacts dart simbody bullet ode stopCfm stopErp "
    "stopKp stopKd fudgeFactor fudge_factor cfmDamping cfm_damping implicitSpringDamper "
    "implicit_spring_damper cfm erp soft_cfm soft_erp max_vel min_depth limit suspension bounce "
    "velocity preserveFixedJoint disableFixedJointLumping allow_auto_disable size surface_radius "
    "soft_contact poissons_ratio elastic_modulus collide_without_contact_bitmask",
    "the shapes of the plant are read separately": "collision",
    "it only affects sensors that the reader reports": "contact gps navsat rfid rfidtag sonar "
    "transceiver air_pressure air_speed air_flow atmosphere spherical_coordinates",
    "sensors always run, without a transport": "always_on enable_metrics provideFeedback "
    "provide_feedback @energy",
    "it only applies to elements that the reader rejects": "density auto_inertia_params",
    "it is obsolete and has no meaning": "frame must_be_base_link",
    "it only describes the display or the memory of the simulator": "statistic custom",
    "it acts only on links with enable_wind, which the reader reports": "wind",
    "it has no shape": "empty",
    "the plant has no battery": "battery",
    "the plant starts at time 0": "@time",
}
_REASON_OF = {name: reason for reason, names in _REASONS.items() for name in names.split()}


def _rules(read: str, ignored: str = "", **more: Rule) -> dict[str, Rule]:
    """Return a rule for each element or attribute name, by name.

    `read` contains the supported names and `ignored` the ignored names, separated by spaces; the
    reasons are in `_REASONS`. The keyword arguments `more` are the rules of further names. In a
    keyword, two underscores stand for a colon.
    """
    rules: dict[str, Rule] = dict.fromkeys(read.split(), ReadElement())
    rules |= {name: IgnoredElement(_REASON_OF[name]) for name in ignored.split()}
    return rules | {name.replace("__", ":"): rule for name, rule in more.items()}


_NO_OUTPUT = ReportedElement("the plant does not have this output")

# ---- URDF ----

_CONTACT = ReportedElement("contact has the material of the plant")
_TRANSMISSION = ReportedElement("its joints are not coupled", _is_known_transmission)
_ROTOR = ReportedElement("the joint has no rotor inertia", _is_number(0.0))
_OPEN = ReportedElement("the loop that it closes stays open")
_PLUGIN = ReportedElement("plugins of a simulator do not run")
_DECAY = ReportedElement("the velocity of the link does not decay", _is_number(0.0))

_GAZEBO_CONTACT = "mu mu1 mu2 kp kd fdir1 minDepth maxContacts maxVel collision"
_SELF_COLLISION = ReportedElement("links that no joint connects collide", _is_true)

_NO_GAZEBO_SENSOR = ReportedElement("only sensors in <gazebo> are outputs")

_URDF: Table = {
    "robot": _rules(
        "link joint gazebo transmission ros2_control @name @version",
        "material",
        sensor=_NO_GAZEBO_SENSOR,
        loop_joint=_OPEN,
        drake__ball_constraint=ReadElement("ball_constraint"),
        drake__linear_spring_damper=ReadElement("linear_spring_damper"),
        drake__joint=ReportedElement("the joint is left out"),
    ),
    "ros2_control": _rules(
        "",
        "hardware gpio @name @type @rw_rate @is_async @thread_priority",
        sensor=_NO_GAZEBO_SENSOR,
        joint=ReadElement("joint of ros2_control"),
        transmission=ReadElement(),
    ),
    "joint of ros2_control": _rules(
        "@name",
        "command_interface param limits @role @mimic",
        state_interface=ReadElement("state interface"),
    ),
    "state interface": _rules("param @name", "limits @data_type @size"),
    "param": _rules("@name"),
    "ball_constraint": {
        f"drake:ball_constraint_{key}": ReadElement("part of Drake")
        for key in ("body_A", "body_B", "p_AP", "p_BQ")
    },
    "linear_spring_damper": {
        f"drake:linear_spring_damper_{key}": ReadElement("part of Drake")
        for key in ("body_A", "body_B", "p_AP", "p_BQ", "stiffness", "damping", "free_length")
    },
    "part of Drake": _rules("@name @value"),
    "link": _rules(
        "inertial @name", "visual collision @type", sensor=_NO_GAZEBO_SENSOR, contact=_CONTACT
    ),
    "inertial": _rules("origin mass inertia"),
    "origin": _rules("@xyz @rpy @quat_xyzw"),
    "mass": _rules("@value"),
    "inertia": _rules("@ixx @ixy @ixz @iyy @iyz @izz"),
    "joint": _rules(
        "parent child origin axis limit dynamics mimic @name @type", "calibration safety_controller"
    ),
    "parent": _rules("@link"),
    "child": _rules("@link"),
    "axis": _rules("@xyz"),
    "limit": _rules("@lower @upper @effort @velocity", "@acceleration @deceleration @jerk"),
    "dynamics": _rules("@damping @friction"),
    "mimic": _rules("@joint @multiplier @offset"),
    "transmission": _rules(
        "actuator mechanicalReduction",
        "robotNamespace role motorTorqueConstant @name",
        joint=ReadElement("joint of a transmission"),
        type=_TRANSMISSION,
        plugin=_TRANSMISSION,
        **{"@type": _TRANSMISSION},
    ),
    "joint of a transmission": _rules(
        "mechanicalReduction mechanical_reduction role @name @role", "hardwareInterface offset"
    ),
    "actuator": _rules(
        "mechanicalReduction mechanical_reduction role @name @role",
        "hardwareInterface motorTorqueConstant offset",
        drake__gear_ratio=ReadElement("part of Drake"),  # the input is the force of the joint
        drake__rotor_inertia=ReadElement("part of Drake"),
        rotor_inertia=_ROTOR,
        rotorInertia=_ROTOR,
    ),
    "gazebo": _rules(
        "@reference springStiffness springReference turnGravityOff gravity",
        "material visual laserRetro provideFeedback preserveFixedJoint "
        "disableFixedJointLumping stopCfm stopErp stopKp stopKd fudgeFactor cfmDamping "
        "implicitSpringDamper",
        selfCollide=_SELF_COLLISION,
        self_collide=_SELF_COLLISION,
        initial_joint_position=ReportedElement("the joint starts at 0", _is_number(0.0)),
        joint=ReadElement("SDF joint"),
        sensor=ReadElement("SDF sensor"),
        link=ReportedElement("the link is left out"),
        model=ReportedElement("the model is left out"),
        static=ReportedElement("the robot moves", _is_false),
        dampingFactor=_DECAY,
        velocity_decay=_DECAY,
        plugin=_PLUGIN,
        **dict.fromkeys(_GAZEBO_CONTACT.split(), _CONTACT),
    ),
}

# ---- SDF ----

_NOISY_AXES: dict[str, Rule] = dict.fromkeys(("x", "y", "z"), ReadElement("noisy value"))
_EXACT_SENSOR = ReportedElement("the sensor has no noise")
_NO_ORIENTATION = ReportedElement("the orientation is not an output")
_STOPS = "the plant determines the compliance of limits"
_WIND = ReportedElement("no wind acts", _is_false)

SDF: Table = {
    "sdf": _rules("world model @version", "actor light"),
    "world": _rules(
        "model frame gravity magnetic_field",
        "@name audio gui scene light road spherical_coordinates atmosphere actor wind",
        physics=ReadElement("physics of the world"),
        include=RejectedElement(),
        plugin=_PLUGIN,
        joint=ReportedElement("the joint is left out"),
        population=ReportedElement("its models are left out"),
        state=ReportedElement("the models determine the initial state"),
    ),
    "physics of the world": _rules(
        "gravity magnetic_field max_step_size @default",
        "@type @name real_time_factor real_time_update_rate max_contacts dart simbody bullet ode",
    ),
    "model": _rules(
        "link joint frame pose self_collide @name @canonical_link @placement_frame",
        "allow_auto_disable",
        include=RejectedElement(),
        model=RejectedElement(),
        static=ReportedElement("the model moves", _is_false),
        enable_wind=_WIND,
        gripper=ReportedElement("the gripper holds no objects"),
        plugin=_PLUGIN,
    ),
    "frame": _rules("pose @name @attached_to"),
    "link": _rules(
        "inertial self_collide pose gravity sensor @name collision",
        "visual projector audio_sink audio_source battery light particle_emitter must_be_base_link",
        enable_wind=_WIND,
        kinematic=ReportedElement("forces move the link", _is_false),
        velocity_decay=ReadElement(),
        plugin=_PLUGIN,
    ),
    "sensor": _rules(  # the reader reports the other types, except cameras
        "imu force_torque altimeter magnetometer ray lidar pose update_rate @name @type",
        "always_on visualize topic enable_metrics frame_id camera logical_camera contact "
        "gps navsat rfid rfidtag sonar transceiver air_pressure air_speed air_flow",
        plugin=_PLUGIN,
    ),
    "imu": _rules(
        "angular_velocity linear_acceleration",
        "topic",
        noise=_EXACT_SENSOR,
        orientation_reference_frame=_NO_ORIENTATION,
        enable_orientation=ReportedElement("the orientation is not an output", _is_false),
    ),
    "angular_velocity": _NOISY_AXES,
    "linear_acceleration": _NOISY_AXES,
    "noisy value": _rules("noise"),
    "noise": _rules(
        "mean stddev bias_mean bias_stddev dynamic_bias_stddev dynamic_bias_correlation_time "
        "precision type @type"
    ),
    "force_torque": _rules("measure_direction force torque", frame=ReadElement("text")),
    "text": {},
    "force": _NOISY_AXES,
    "torque": _NOISY_AXES,
    "altimeter": _rules(
        "",
        vertical_position=ReadElement("noisy value"),
        vertical_velocity=ReadElement("noisy value"),
    ),
    "magnetometer": _NOISY_AXES,
    **dict.fromkeys(("ray", "lidar"), _rules("scan range noise", "visibility_mask")),
    "scan": _rules("horizontal vertical"),
    **dict.fromkeys(("horizontal", "vertical"), _rules("samples resolution min_angle max_angle")),
    "range": _rules("min max resolution"),
    "velocity_decay": _rules("", linear=_DECAY, angular=_DECAY),
    "inertial": _rules(
        "mass inertia pose",
        "density auto_inertia_params frame",
        fluid_added_mass=RejectedElement(),
        **{"@auto": RejectedElement("true")},
    ),
    "inertia": _rules("ixx ixy ixz iyy iyz izz"),
    "pose": _rules("@relative_to @frame @rotation_format @degrees"),
    "collision": _rules(
        "pose geometry surface",
        "@name laser_retro density auto_inertia_params max_contacts",
    ),
    "geometry": _rules("box cylinder capsule cone sphere ellipsoid", "empty")
    | dict.fromkeys(
        ("mesh", "plane", "heightmap", "image", "polyline"),
        ReportedElement("the shape touches nothing"),
    ),
    "surface": _rules(
        "bounce",
        "soft_contact",
        friction=ReadElement("friction of a surface"),
        contact=ReadElement("contact of a surface"),
    ),
    "bounce": _rules(
        "restitution_coefficient",
        threshold=ReportedElement("slow impacts bounce", lambda text: _is_at_least(text, 1e5)),
    ),
    "friction of a surface": _rules("torsional", "bullet", ode=ReadElement("ode of friction")),
    "ode of friction": _rules(
        "mu mu2",
        slip1=ReportedElement("contact does not slip", _is_number(0.0)),
        slip2=ReportedElement("contact does not slip", _is_number(0.0)),
        fdir1=ReportedElement("friction is isotropic", _is_number(0.0)),
    ),
    "torsional": _rules(
        "coefficient patch_radius",
        "surface_radius",
        use_patch_radius=ReportedElement("no torsional friction acts", _is_true),
        ode=ReadElement("ode of torsional friction"),
    ),
    "ode of torsional friction": _rules(
        "", slip=ReportedElement("contact does not slip", _is_number(0.0))
    ),
    "contact of a surface": _rules(
        "",
        "bullet poissons_ratio elastic_modulus collide_without_contact_bitmask",
        ode=ReadElement("ode of contact"),
        collide_without_contact=ReportedElement("the shapes collide", _is_false),
        collide_bitmask=ReportedElement("the shapes collide", _is_full_mask),
        category_bitmask=ReportedElement("the shapes collide", _is_full_mask),
    ),
    "ode of contact": _rules("kp kd", "soft_cfm soft_erp max_vel min_depth"),
    "joint": _rules(
        "parent child axis pose gearbox_ratio gearbox_reference_body thread_pitch "
        "screw_thread_pitch sensor @name @type",
        axis2=ReadElement("axis"),
        physics=ReadElement("physics of a joint"),
    ),
    "physics of a joint": _rules("", "simbody provide_feedback", ode=ReadElement("ode of a joint")),
    "ode of a joint": _rules(
        "",
        "provide_feedback cfm_damping implicit_spring_damper fudge_factor cfm erp bounce velocity "
        "limit suspension",
        max_force=ReportedElement("the joint has no motor", _is_number(0.0)),
    ),
    "axis": _rules(
        "xyz use_parent_model_frame dynamics limit mimic",
        initial_position=ReportedElement("the joint starts at 0", _is_number(0.0)),
    ),
    "xyz": _rules("@expressed_in"),
    "dynamics": _rules("damping friction spring_stiffness spring_reference", "velocity"),
    "limit": _rules(
        "lower upper effort velocity",
        # the defaults of the specification make the limits rigid
        stiffness=ReportedElement(_STOPS, _is_number(1e8, -1.0)),
        dissipation=ReportedElement(_STOPS, _is_number(1.0, -1.0)),
    ),
    "mimic": _rules("multiplier offset reference @joint @axis"),
}


def _add_prefix(table: Table, prefix: str) -> dict[str, dict[str, Rule]]:
    """Return a copy of a table in which all element names begin with a prefix."""
    return {
        f"{prefix}{kind}": {
            name: ReadElement(f"{prefix}{rule.inside or name}")
            if isinstance(rule, ReadElement)
            else rule
            for name, rule in rules.items()
        }
        for kind, rules in table.items()
    }


_EXTENSIONS_OF_SDF = _add_prefix(SDF, "SDF ")
_GEARBOX = ("gearbox_ratio", "gearbox_reference_body")

URDF: Table = {
    **_URDF,
    **_EXTENSIONS_OF_SDF,
    "SDF joint": _EXTENSIONS_OF_SDF["SDF joint"]
    | dict.fromkeys(_GEARBOX, IgnoredElement("the reader reports each gearbox"))
    | {"sensor": ReportedElement("a sensor of a joint must be in <gazebo> with its reference")},
}

# ---- MJCF ----

_POSE = "@pos @quat @axisangle @euler @xyaxes @zaxis"
_TAGS = "@name @class @user @group"
_COMPLIANCE = ReportedElement("the plant determines the compliance of contacts")
_LIMIT = ReportedElement("the plant determines the compliance of limits")
_FRICTION = ReportedElement("the plant determines dry friction")
_EXACT = ReportedElement("the constraint is exact")
_AT_CONTACT = ReportedElement("contact begins at the distance zero", _is_number(0.0))
_PAIR = ReportedElement("contact has the materials of the two shapes")
_PAIR_CONTACT = "@condim @friction @gap @margin @solimp @solref @solreffriction @adhesion"
_BODY_PARTS = "inertial joint freejoint geom site camera body frame replicate attach include"
_REJECTED_PARTS: dict[str, Rule] = dict.fromkeys(
    ("flexcomp", "composite", "plugin"), RejectedElement()
)
_SOLVER = (  # settings of MuJoCo's solver and integrator, which this package does not have
    "@integrator @solver @cone @jacobian @iterations @tolerance @ls_iterations "
    "@ls_tolerance @noslip_iterations @noslip_tolerance @ccd_iterations @ccd_tolerance @impratio "
    "@sdf_initpoints @sdf_iterations @sleep_tolerance @apirate @o_margin @o_solref "
    "@o_solimp @o_friction @mpr_iterations @mpr_tolerance @collision"
)
_ACTUATOR = _rules(  # `mjcf` reports each actuator that is not supported
    "@name @class @joint @jointinparent @tendon @site @slidersite @refsite @cranksite @body @gear "
    "@cranklength @ctrllimited @ctrlrange @forcelimited @forcerange @lengthrange @inheritrange "
    "@actlimited @actrange @actdim @actearly @dyntype @dynprm @gaintype @gainprm @biastype "
    "@biasprm @kp @kv @ki @kd @dampratio @timeconst @area @diameter @bias @force @scale @lmin "
    "@lmax @vmax @fpmax @fvmax @range @tausmooth @gain @armature @damping @delay @nsample @interp "
    "@input @velrange @posrange @ffrange @imax @slewmax @motorconst @resistance @nominal "
    "@saturation @inductance @cogging @controller @thermal @lugre @plugin @instance config",
    "@user @group",
)
_ACTUATORS = (
    "general motor position velocity intvelocity orientation pid damper cylinder muscle adhesion "
    "dcmotor plugin"
)
_JOINT_FORCES: dict[str, Rule] = {
    "@springyield": RejectedElement("0.1"),
    "@solreflimit": _LIMIT,
    "@solimplimit": _LIMIT,
    "@solreffriction": _FRICTION,
    "@solimpfriction": _FRICTION,
    "@margin": ReportedElement("limit forces begin at the bounds of the range", _is_number(0.0)),
}
_TENDON = _rules(
    "@limited @range @stiffness @damping @frictionloss @springlength @armature "
    "@actuatorfrclimited @actuatorfrcrange",
    f"{_TAGS} @material @rgba @width",
    **_JOINT_FORCES,
)
_ELLIPSOID = IgnoredElement("it applies only to fluidshape ellipsoid, which the reader rejects")
_GEOM_CONTACT: dict[str, Rule] = {
    "@fluidshape": RejectedElement("ellipsoid"),
    "@fluidcoef": _ELLIPSOID,
    "@solref": _COMPLIANCE,
    "@solimp": _COMPLIANCE,
    "@solmix": _COMPLIANCE,
    "@margin": _AT_CONTACT,
    "@gap": _AT_CONTACT,
    "@priority": ReportedElement("contact has the materials of both shapes", _is_number(0.0)),
    "@adhesion": ReportedElement("shapes do not adhere", _is_number(0.0)),
    "@surfacevel": ReportedElement("the surface does not move", _is_number(0.0)),
}
_SITE_SIZE = IgnoredElement("sites and cameras have no shape")
_MOCAP = ReportedElement("mocap bodies stay at their poses in the file")
_MJCF_SENSORS = (
    "accelerometer velocimeter gyro force torque magnetometer jointpos jointvel tendonpos "
    "tendonvel actuatorpos actuatorvel actuatorfrc jointactuatorfrc ballquat ballangvel framepos "
    "framequat framexaxis frameyaxis framezaxis framelinvel frameangvel framelinacc frameangacc "
    "subtreecom subtreelinvel subtreeangmom rangefinder e_potential e_kinetic "
    "clock"
)
_OTHER_MJCF_SENSORS = (
    "touch camprojection tendonactuatorfrc jointlimitpos jointlimitvel jointlimitfrc "
    "tendonlimitpos tendonlimitvel tendonlimitfrc insidesite distance normal fromto contact "
    "tactile user plugin"
)
_EQUALITY: dict[str, Rule] = {"@solref": _EXACT, "@solimp": _EXACT}

_KEY: dict[str, Rule] = {
    "@plastic": RejectedElement("1"),
    "@act": ReportedElement("the activations of the actuators are zero", _is_number(0.0)),
    "@mpos": _MOCAP,
    "@mquat": _MOCAP,
}

MJCF: Table = {
    "mujoco": _rules(
        "compiler option default body contact tendon equality actuator keyframe asset include "
        "sensor @model",
        "size statistic visual custom",
        deformable=RejectedElement(),
        extension=RejectedElement(),
        worldbody=ReadElement("body"),
    ),
    "include": _rules("@file"),
    "option": _rules(
        "flag @gravity @density @viscosity @timestep @magnetic",  # the sensors use the last two
        _SOLVER,
        **{"@wind": RejectedElement("1 0 0")},
        **{"@actuatorgroupdisable": ReportedElement("the actuators of the groups are enabled")},
    ),
    "flag": _rules(
        "@gravity @constraint @equality @frictionloss @limit @contact @spring @damper @passive "
        "@clampctrl @actuation",
        "@warmstart @refsafe @midphase @nativeccd @eulerdamp @autoreset @island @energy "
        "@fwdinv @invdiscrete @multiccd @diagexact @ipc @speculative",
        **{
            "@sensor": ReportedElement("the plant computes the sensors", _is_enabled),
            "@sleep": ReportedElement("bodies do not fall asleep", _is_disabled),
            "@filterparent": ReportedElement("adjacent bodies do not collide", _is_enabled),
            "@override": ReportedElement(
                "contacts have the parameters of their shapes", _is_disabled
            ),
        },
    ),
    "default": _rules(
        f"default joint geom pair equality {_ACTUATORS} @class",
        "texture light",
        mesh=ReadElement("mesh in a default class"),
        site=ReadElement(),
        camera=ReadElement(),
        material=ReadElement("material"),
        tendon=ReadElement("spatial"),
        **dict.fromkeys(_ACTUATORS.split(), ReadElement("motor")),
    ),
    "body": _rules(
        f"{_BODY_PARTS} @gravcomp @mocap @childclass {_POSE}",
        "@name @user @fuse @simple @sleep light",
        **_REJECTED_PARTS,
    ),
    "frame": _rules(f"{_BODY_PARTS} @childclass {_POSE}", "@name light", **_REJECTED_PARTS),
    "replicate": _rules(
        f"{_BODY_PARTS} @count @sep @offset @euler @childclass", "light", **_REJECTED_PARTS
    ),
    "site": _rules(  # sensors, tendons and equality constraints use its frame
        f"@fromto {_POSE}", f"{_TAGS} @material @rgba @mesh @type", **{"@size": _SITE_SIZE}
    ),
    "camera": _rules(  # sensors use its frame, and the reader reports cameras of other modes
        f"@mode {_POSE}", f"{_TAGS} {_LENS}", **{"@size": _SITE_SIZE}
    ),
    "mesh in a default class": _rules("@inertia @maxhullvert @scale"),
    "attach": _rules("@model @body @frame @prefix"),
    "inertial": _rules(f"@mass @diaginertia @fullinertia {_POSE}"),
    "joint": _rules(
        "@type @axis @pos @range @limited @ref @stiffness @springref @springdamper @damping "
        "@frictionloss @armature @actuatorfrclimited @actuatorfrcrange",
        _TAGS,
        **_JOINT_FORCES,
        **{
            "@actuatorgravcomp": ReportedElement(
                "the force limits do not include gravity compensation", _is_false
            )
        },
    ),
    "freejoint": _rules("@align", "@name @group"),
    "geom": _rules(
        f"@type @size @fromto @mesh @hfield @mass @density @shellinertia @contype @conaffinity "
        f"@condim @friction @fitscale @material @rgba {_POSE}",  # rays do not hit invisible shapes
        f"{_TAGS} @castshadow",
        plugin=RejectedElement(),
        **_GEOM_CONTACT,
    ),
    "contact": _rules("pair exclude"),
    "pair": _rules(
        "@geom1 @geom2",
        "@name @class",
        **dict.fromkeys(_PAIR_CONTACT.split(), _PAIR),
    ),
    "exclude": _rules("@body1 @body2", "@name"),
    "tendon": _rules("spatial", fixed=ReadElement("fixed tendon")),
    "spatial": _TENDON
    | _rules(
        "pulley",
        site=ReadElement("site of a tendon"),
        geom=ReportedElement("a tendon around a geom exerts no force"),
    ),
    "fixed tendon": _TENDON | _rules("", joint=ReadElement("joint of a tendon")),
    "site of a tendon": _rules("@site"),
    "pulley": _rules("@divisor"),
    "joint of a tendon": _rules("@joint @coef"),
    "equality": _rules(
        "connect weld @active",
        "@name @class",
        **dict.fromkeys(("flex", "flexvert", "flexstrain", "distance"), RejectedElement()),
        joint=ReadElement("equality of joints"),
        tendon=ReadElement("equality of tendons"),
        **_EQUALITY,
    ),
    "connect": _rules("@active @anchor @body1 @body2 @site1 @site2", "@name @class", **_EQUALITY),
    "weld": _rules(
        "@active @anchor @relpose @body1 @body2 @site1 @site2",
        "@name @class",
        **_EQUALITY,
        **{"@torquescale": _EXACT},
    ),
    "equality of joints": _rules("@active @joint1 @joint2 @polycoef", "@name @class", **_EQUALITY),
    "equality of tendons": _rules(
        "@active @tendon1 @tendon2 @polycoef", "@name @class", **_EQUALITY
    ),
    "actuator": dict.fromkeys(_ACTUATORS.split(), ReadElement("motor")),
    "motor": _ACTUATOR,
    "sensor": dict.fromkeys(_MJCF_SENSORS.split(), ReadElement("one sensor"))
    | dict.fromkeys(_OTHER_MJCF_SENSORS.split(), _NO_OUTPUT),
    "one sensor": _rules(  # the reader reports unsupported values
        "@name @noise @cutoff @delay @interval @nsample @interp @site @joint @tendon @actuator "
        "@body @objtype @objname @reftype @refname @camera @data",
        "@user",
    ),
    "keyframe": _rules("key"),
    "key": _rules(
        "@name @qpos @qvel @ctrl",  # the reader reports `ctrl`
        "@time",
        **_KEY,
    ),
}


def _is_at_least(text: str, least: float) -> bool:
    try:
        return float(text) >= least
    except ValueError:
        return False
