"""SDF, the Gazebo Simulation Description Format, versions 1.4 to 1.12, with one model."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.common.xml_reader import (
    Element,
    children,
    floats,
    format_error,
    namespace_warnings,
    nearest,
    required_attribute,
)
from rigidblocks.robot.joints import (
    Fixed,
    Helical,
    Joint,
    Prismatic,
    Revolute,
    SixDoF,
    Spherical,
    Universal,
)
from rigidblocks.robot.material import Material
from rigidblocks.robot.model import STANDARD_GRAVITY
from rigidblocks.robot.robot_description import unused_name
from rigidblocks.robot.shapes import Box, Capsule, Cone, Cylinder, Ellipsoid, Shape, Sphere
from rigidblocks.robot_description.model_from_links import align_parallel_axes
from rigidblocks.robot_description.parsed_links import (
    WORLD,
    Assembly,
    Connection,
    Link,
    ParsedMimicJoint,
    ParsedSensor,
    inertia,
    weightless,
)
from rigidblocks.robot_description.schema_coverage import (
    SDF,
    SDF_ONCE,
    repeated_elements,
    unread_elements,
)
from rigidblocks.robot_description.sensor_elements import (
    LARGEST_STEP,
    MAGNETIC_FIELD,
    PICTURES,
    SDF_SENSORS,
    SensorPlace,
    sensor_outputs,
)
from rigidblocks.robot_description.spanning_tree import root_name
from rigidblocks.robot_description.unit_heuristics import suspicious_numbers
from rigidblocks.spatial.rigid_motion import SAME, placement, quaternion_rotation
from rigidblocks.spatial.spatial import Array, RigidInertia, Transform, identity

MODEL = "__model__"


def pose(element: Element) -> Transform:
    """Return the transform in the <pose> of an element, by default the identity."""
    given = element.find("pose")
    if given is None or not (given.text or "").strip():
        return identity()
    form = given.get("rotation_format", "euler_rpy").strip()
    if form not in ("euler_rpy", "quat_xyzw"):
        text = f"the rotation_format of a <pose> must be euler_rpy or quat_xyzw, not '{form[:40]}'"
        raise format_error(given, text)
    if form == "quat_xyzw":
        *r, x, y, z, w = floats(given, given.text, 7, "a <pose> with a quaternion")
        q = np.array([w, x, y, z])
        if not np.any(q):
            raise format_error(given, "the quaternion of a <pose> must not be zero")
        return Transform(quaternion_rotation(q / np.linalg.norm(q)), np.array(r))
    x, y, z, *rpy = floats(given, given.text, 6, "a <pose>")
    in_degrees = _truth(given, "the attribute degrees", given.get("degrees", "false"))
    turn = np.radians(rpy).tolist() if in_degrees else rpy
    return placement([x, y, z], turn)


def base_of(element: Element) -> str:
    """Return the name of the reference frame of an element's <pose>, or "" for the default."""
    given = element.find("pose")
    return "" if given is None else (given.get("relative_to") or given.get("frame") or "").strip()


@dataclass(frozen=True)
class Poses:
    """Poses of the links, joints and frames of a model in world coordinates.

    `attached` maps each name to a pair: the element, and the default reference frame of its <pose>.
    `found` contains the poses that have already been computed, initially the pose of the model.
    """

    attached: dict[str, tuple[Element, str]]
    found: dict[str, Transform] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Transform:
        return self._place(name, ())

    def _place(self, name: str, waiting: tuple[str, ...]) -> Transform:
        if name in ("", "world"):
            return identity()
        if name not in self.found:
            element, default = self.attached[name]
            base = base_of(element) or default
            if base not in self.attached and base not in self.found and base not in ("", "world"):
                hint = nearest(base, list(self.attached))
                raise format_error(
                    element,
                    f"the pose of '{name}' is relative to '{base}', which does not exist{hint}",
                )
            if base in (*waiting, name) or len(waiting) > DEEPEST:
                raise format_error(
                    element,
                    f"the pose of '{name}' is relative to itself; it needs another reference frame",
                )
            self.found[name] = pose(element) @ self._place(base, (*waiting, name))
        return self.found[name]


DEEPEST = 500


UNLIMITED = 1e16  # limits of this absolute value or more count as infinite
VERSIONS = [f"1.{k}" for k in range(4, 13)]
SHARED_NAMES = VERSIONS[:3]  # versions in which a joint may have the name of a link
IN_PHYSICS = VERSIONS[:2]  # versions with <gravity> in <physics>
GRAVITY_OF_WORLDS = (0.0, 0.0, -9.8)  # m/s2, the default of <gravity> in the specification


def read_sdf(root: Element, path: Path, *, floating: bool, strict: bool) -> Assembly:
    """Return the links, joints and other elements of the only <model> in an <sdf> element.

    The arguments are as in `read_urdf`.
    """
    version = required_attribute(root, "version")
    if version not in VERSIONS:
        raise format_error(
            root, f"unsupported SDF version {version}; expected {VERSIONS[0]} to {VERSIONS[-1]}"
        )
    models = list(root.iter("model"))
    if len(models) != 1 or next(root.iter("include"), None) is not None:
        text = f"the file must have exactly one <model>, without <include>, but has {len(models)}"
        raise format_error(models[1] if len(models) > 1 else root, text)
    model, warnings = models[0], list[str]()
    reader = _Reader(model, version, warnings)
    links = [_link(element, warnings) for element in children(model, "link")]
    connections = reader.connections()
    if len(connections) > len(links):  # some joints close loops
        turned = {c.name: reader.joint_pose(c.name).E for c in connections}
        connections = align_parallel_axes(connections, turned)
    names = [c.name for c in connections]
    unread = list[str]()
    sensors = list(reader.sensors(connections, unread))
    return Assembly(
        path,
        required_attribute(model, "name"),
        links,
        connections,
        reader.mimic_joints(connections),
        reader.frames(),
        gravity=_gravity(root, version),
        loops=True,
        floating=floating,
        strict=strict,
        warnings=warnings,
        report=lambda: (
            *namespace_warnings(root),
            *unread_elements(root, SDF),
            *repeated_elements(root, SDF_ONCE),
            *unread,
            *(f"line {line}: {why}" for line, why in suspicious_numbers(links, connections)),
        ),
        origin=(origin := reader.origin(links, connections)),
        start={root_name(names): SixDoF().nearest(origin)} if floating and origin else {},
        collision_exclusions=_excluded_pairs(model),
        weightless=[
            (link.name, weightless(link))
            for link, element in zip(links, children(model, "link"), strict=True)
            if not _is_true(element, "gravity", True)
        ],
        sensors=sensors,
    )


def _check_unique(element: Element, attached: Mapping[str, tuple[Element, str]]) -> None:
    """Reject a joint or frame that has the name of another link, joint or frame."""
    name = required_attribute(element, "name")
    if name in attached:
        other = attached[name][0]
        text = f"the name '{name}' of a <{element.tag}> is not unique: the <{other.tag}> in line "
        raise format_error(element, f"{text}{other.sourceline} has the same name")


def _excluded_pairs(model: Element) -> list[tuple[str, str]]:
    """Return the pairs of links without contact: <self_collide> is false for both links.

    The default of a link is <self_collide> of the model. The default of the model is false.
    """
    whole = _is_true(model, "self_collide", False)
    no_collision = [
        required_attribute(link, "name")
        for link in children(model, "link")
        if not _is_true(link, "self_collide", whole)
    ]
    return list(combinations(no_collision, 2))


def _is_true(element: Element, name: str, default: bool) -> bool:
    """Return the child `name` of an element as a boolean in the syntax of XML Schema."""
    found = element.find(name)
    return default if found is None else _truth(found, f"<{name}>", found.text or "")


def _truth(element: Element, subject: str, text: str) -> bool:
    """Return the truth value of a text; `subject` is its name in error messages."""
    word = text.strip().lower()
    if word not in _TRUTH:
        raise format_error(element, f"{subject} must be true or false, not '{word[:40]}'")
    return _TRUTH[word]


_TRUTH = {"true": True, "1": True, "false": False, "0": False}


def _gravity(root: Element, version: str) -> Sequence[float]:
    """Return the gravity [m/s^2] of the world, by default the value of the SDF specification.

    Up to version 1.5, <physics> contains the gravity. If the world has several <physics> elements,
    the default element applies.
    """
    world = root.find("world")
    if world is None:
        return STANDARD_GRAVITY
    given = world.find("gravity")
    if given is None and version in IN_PHYSICS:
        engines = [e for e in children(world, "physics") if e.find("gravity") is not None]
        engines.sort(key=lambda e: e.get("default", "").strip() not in ("1", "true"))
        given = engines[0].find("gravity") if engines else None
    if given is None:
        return GRAVITY_OF_WORLDS
    return floats(given, given.text or "", 3, "<gravity>")


def _text(element: Element, path: str, default: str | None = None) -> str:
    """Return the text of the element at a path; raise FormatError if it is missing."""
    found = element.find(path)
    text = "" if found is None else (found.text or "").strip()
    if not text and default is None:
        raise format_error(element, f"<{element.tag}> needs a <{path}>")
    return text or str(default)


def _limit(axis: Element, name: str, default: float) -> float:
    """Return a value from the <limit> of an axis; values of at least 1e16 become infinite."""
    text = _text(axis, f"limit/{name}", "none").lower()
    if text in _INFINITE:
        return -np.inf if text.startswith("-") else np.inf
    return _number(axis, f"limit/{name}", default)


_INFINITE = {f"{sign}{word}" for sign in ("", "+", "-") for word in ("inf", "infinity")}


def _number(element: Element, path: str, default: float | None = None) -> float:
    found = element.find(path)
    if found is None and default is not None:
        return default
    return floats(element if found is None else found, _text(element, path), 1, f"<{path}>")[0]


# ---- links ----


def _link(element: Element, warnings: list[str]) -> Link:
    name = required_attribute(element, "name")
    return Link(
        name,
        element.sourceline,
        _inertia(element, name, warnings),
        tuple(s for visual in children(element, "visual") for s in _shapes(visual)),
        tuple(s for collision in children(element, "collision") for s in _shapes(collision)),
    )


def _inertia(link: Element, name: str, warnings: list[str]) -> RigidInertia:
    element = link.find("inertial")
    if element is None:
        text = f"link '{name}' has no <inertial>; the SDF default is 1 kg with moments of 1 kg m^2"
        warnings.append(f"line {link.sourceline}: {text}")
        return inertia(link, name, 1.0, SAME, (1.0, 0.0, 0.0, 1.0, 0.0, 1.0))
    if element.get("auto") == "true" or element.find("fluid_added_mass") is not None:
        text = f"the inertia of link '{name}' is automatic or has added mass, which is unsupported"
        raise format_error(element, text)
    moments = [
        _number(element, f"inertia/i{k}", 1.0 if k[0] == k[1] else 0.0)
        for k in ("xx", "xy", "xz", "yy", "yz", "zz")
    ]
    return inertia(element, name, _number(element, "mass", 1.0), pose(element), moments)


def _shapes(element: Element) -> list[Shape]:
    geometry = element.find("geometry")
    solids = [] if geometry is None else list(geometry.iterchildren("*"))
    shapes = [shape for solid in solids if (shape := _shape(solid)) is not None]
    back, material = pose(element).inverse(), _material(element)
    return [replace(shape.transform(back), material=material) for shape in shapes]


def _material(element: Element) -> Material | None:
    """Return the isotropic material in the <surface> of a <collision>.

    The sliding friction coefficient is the smaller of <mu> and <mu2>. The torsional friction is
    3 pi / 16 times the patch radius times the torsional coefficient.
    """
    surface = element.find("surface")
    if surface is None:
        return None
    mu = min(_number(surface, f"friction/ode/{name}", 1.0) for name in ("mu", "mu2"))
    torsional = 3.0 * np.pi / 16.0 * _patch(surface)
    e = _number(surface, "bounce/restitution_coefficient", 0.0)
    stiffness, damping = (
        _number(surface, path) if surface.find(path) is not None else None
        for path in ("contact/ode/kp", "contact/ode/kd")
    )
    try:
        return Material("", mu, None, e, torsional, 0.0, stiffness, damping)
    except ValueError as error:
        raise format_error(surface, str(error)) from None


def _patch(surface: Element) -> float:
    """Return the patch radius times the torsional friction coefficient [m]; 0 by default."""
    inside = surface.find("friction/torsional")
    if inside is None or not _is_true(inside, "use_patch_radius", True):
        return 0.0
    return _number(inside, "coefficient", 1.0) * _number(inside, "patch_radius", 0.0)


def _shape(element: Element) -> Shape | None:
    """Return the shape of a geometry element, or None for meshes and unsupported surfaces."""
    match element.tag:
        case "box":
            sides = floats(element, _text(element, "size"), 3, "<size>")
            return Box(sides) if min(sides) > 0 else None
        case "cylinder":
            radius, length = _number(element, "radius"), _number(element, "length")
            return Cylinder(radius, length) if min(radius, length) > 0 else None
        case "capsule":
            radius, length = _number(element, "radius"), _number(element, "length")
            return Capsule(radius, length) if min(radius, length) > 0 else None
        case "cone":
            radius, length = _number(element, "radius"), _number(element, "length")
            return Cone(radius, length) if min(radius, length) > 0 else None
        case "sphere":
            radius = _number(element, "radius")
            return Sphere(radius) if radius > 0 else None
        case "ellipsoid":
            radii = floats(element, _text(element, "radii"), 3, "<radii>")
            return Ellipsoid(radii) if min(radii) > 0 else None
    return None


# ---- joints ----


class _Reader:
    """Reader of the joints, frames and sensors of a <model>.

    `places` contains the poses of links that are not elements of the <model>.
    """

    def __init__(
        self,
        model: Element,
        version: str,
        warnings: list[str],
        places: Mapping[str, Transform] = MappingProxyType({}),
    ):
        self.model, self.version, self.warnings = model, version, warnings
        self.joints = [j for j in children(model, "joint") if j.get("type") != "gearbox"]
        self.gears = [j for j in children(model, "joint") if j.get("type") == "gearbox"]
        attached = {required_attribute(e, "name"): (e, MODEL) for e in children(model, "link")}
        for e in children(model, "frame"):
            _check_unique(e, attached)
            attached[required_attribute(e, "name")] = (e, (e.get("attached_to") or MODEL).strip())
        self.links = {required_attribute(e, "name") for e in children(model, "link")} | {*places}
        self.joint_frames: dict[str, str] = {}
        for e in self.joints:
            name = required_attribute(e, "name")
            if name in self.joint_frames:
                continue  # `model_from_links` rejects two joints with one name
            if version not in SHARED_NAMES:
                _check_unique(e, attached)
            frame = unused_name(name, {*attached, *places})
            self.joint_frames[name] = frame
            attached[frame] = (e, _text(e, "child"))
        frame_poses = Poses(attached, {MODEL: SAME, **places})
        self.poses = Poses(attached, {MODEL: self._model_pose(frame_poses), **places})

    def joint_pose(self, name: str) -> Transform:
        """Return the pose of the frame of a joint in world coordinates."""
        return self.poses[self.joint_frames[name]]

    def frames(self) -> list[tuple[str, str, Transform]]:
        """Return tuples (name, link, placement on the link) of the <frame> elements."""
        found = []
        for element in children(self.model, "frame"):
            name = required_attribute(element, "name")
            link = self._link_of(element, name)
            X = self.poses[name] @ self.poses[link].inverse()
            found.append((name, link, X))
        return found

    def sensors(
        self, connections: Sequence[Connection], unread: list[str]
    ) -> Iterator[ParsedSensor]:
        """Yield the outputs of the sensors; append warnings about unsupported ones to `unread`."""
        world = self.model.getparent()
        field, step = MAGNETIC_FIELD, LARGEST_STEP
        if world.tag == "world":
            for path in ("magnetic_field", "physics/magnetic_field"):  # 2nd path: SDF <= 1.5
                if (given := world.find(path)) is not None:
                    x, y, z = floats(given, given.text or "", 3, "<magnetic_field>")
                    field = (x, y, z)
                    break
            step = _number(world, "physics/max_step_size", step)
        joints = {c.name: c for c in connections}
        for owner in (*children(self.model, "link"), *self.joints):
            name = required_attribute(owner, "name")
            joint = joints.get(name) if owner.tag == "joint" else None
            frame = self.joint_frames[name] if joint else name
            for element in children(owner, "sensor"):
                kind = element.get("type")
                if kind not in SDF_SENSORS or (kind == "force_torque") != (joint is not None):
                    text = f"sensor '{element.get('name')}' of type {kind} is not read"
                    if kind not in PICTURES:
                        unread.append(f"line {element.sourceline}: {text}")
                    continue
                place = _sensor_place(element, frame, joint, self.poses)
                yield from sensor_outputs(element, place, field, step, unread)

    def _model_pose(self, frame_poses: Poses) -> Transform:
        """Return the pose of the model in its world.

        The <pose> of a model is the pose of the model frame named by the attribute placement_frame.
        `frame_poses` contains the poses of the frames in model coordinates.
        """
        world = self.model.getparent()
        frames = {
            required_attribute(e, "name"): (e, (e.get("attached_to") or "world").strip())
            for e in children(world, "frame")
        }
        placed = Poses({**frames, MODEL: (self.model, "world")})[MODEL]
        name = (self.model.get("placement_frame") or "").strip()
        if not name:
            return placed
        if name not in frame_poses.attached:
            hint = nearest(name, sorted(frame_poses.attached))
            raise format_error(self.model, f"the placement_frame '{name}' does not exist{hint}")
        X: Transform = frame_poses[name].inverse() @ placed
        return X

    def _canonical_link(self) -> str:
        """Return the canonical link, which carries the model frame, or "" if no link exists."""
        names = [required_attribute(e, "name") for e in children(self.model, "link")]
        given = (self.model.get("canonical_link") or "").strip()
        if given and given not in names:
            hint = nearest(given, names)
            raise format_error(self.model, f"the canonical_link '{given}' does not exist{hint}")
        return given or next(iter(names), WORLD)

    def _link_of(self, element: Element, name: str) -> str:
        """Return the link with this name, or the link that carries the frame with this name."""
        seen = set()
        while name not in self.links:
            if name in ("world", ""):
                return WORLD
            if name == MODEL:
                return self._canonical_link()
            if name in seen or name not in self.poses.attached:
                hint = nearest(name, sorted(self.links))
                raise format_error(element, f"'{name}' is neither a link nor a frame{hint}")
            seen.add(name)
            name = self.poses.attached[name][1]
        return name

    def connections(self) -> list[Connection]:
        """Return all joints except gearboxes."""
        return [self.connection(element) for element in self.joints]

    def connection(self, element: Element) -> Connection:
        """Return the joint of a <joint> element."""
        name, kind = required_attribute(element, "name"), required_attribute(element, "type")
        parent = self._link_of(element, _text(element, "parent"))
        child = self._link_of(element, _text(element, "child"))
        here = self.joint_pose(name)
        joint = self._joint(element, name, kind)
        relative = not base_of(element) and _text(element, "child") == child
        return Connection(
            name,
            element.sourceline,
            parent,
            child,
            joint,
            here @ self.poses[parent].inverse() if parent else here,
            pose(element) if relative else here @ self.poses[child].inverse(),
            self._joint_properties(element, name, joint),
        )

    def _joint(self, element: Element, name: str, kind: str) -> Joint:
        match kind:
            case "revolute" | "continuous":
                return Revolute(self._axis(element, name))
            case "prismatic":
                return Prismatic(self._axis(element, name))
            case "screw":
                if not _pitches(element):
                    self.warnings.append(
                        f"line {element.sourceline}: screw joint '{name}' has no "
                        "<screw_thread_pitch>; the reader uses the SDF default, 1 m per turn"
                    )
                return Helical(_pitch(element), self._axis(element, name))
            case "universal" | "revolute2":
                first, second = self._axis(element, name), self._axis(element, name, "axis2")
                if np.linalg.norm(np.cross(first, second)) < 1e-6:
                    raise format_error(element, f"the two axes of joint '{name}' are parallel")
                return Universal(first, second)
            case "ball":
                return Spherical()
            case "fixed":
                return Fixed()
        known = "revolute, continuous, prismatic, screw, universal, revolute2, ball, fixed, gearbox"
        raise format_error(
            element, f"joint '{name}' has the type '{kind}'; it must be one of {known}"
        )

    def _axis(self, joint: Element, name: str, tag: str = "axis") -> tuple[float, float, float]:
        """Return the unit vector along a joint axis, in joint coordinates."""
        axis, u = _axis_vector(joint, f"joint '{name}'", tag)
        x, y, z = (self._axis_rotation(joint, axis, name) @ u).tolist()
        return x, y, z

    def _axis_rotation(self, joint: Element, axis: Element, name: str) -> Array:
        """Return the rotation from the frame of an <axis> to joint coordinates."""
        E = self.joint_pose(name).E
        xyz = axis.find("xyz")
        expressed = "" if xyz is None else (xyz.get("expressed_in") or "").strip()
        if expressed:
            if expressed not in self.poses.attached and expressed != MODEL:
                raise format_error(
                    joint,
                    f"unknown frame '{expressed}' in the axis of joint '{name}'",
                )
            return np.asarray(E @ self.poses[expressed].E.T)
        in_model = _is_true(axis, "use_parent_model_frame", False)
        return E @ self.poses[MODEL].E.T if in_model or self.version == "1.4" else np.eye(3)

    def _joint_properties(self, element: Element, name: str, joint: Joint) -> dict[str, Any]:
        axes = [a for which in ("axis", "axis2") if (a := element.find(which)) is not None]
        if not axes or joint.nv != len(axes) or isinstance(joint, Spherical):
            return {}
        values = [self._axis_properties(axis, name) for axis in axes]
        return {key: [v[key] for v in values] for key in values[0]}

    def _axis_properties(self, axis: Element, name: str) -> dict[str, float]:
        lower, upper = _limit(axis, "lower", -np.inf), _limit(axis, "upper", np.inf)
        if lower > upper:
            text = f"the limits of joint '{name}' are reversed: lower {lower}, upper {upper}"
            self.warnings.append(f"line {axis.sourceline}: {text}")
        bounds = {key: _limit(axis, key, np.inf) for key in ("velocity", "effort")}
        force = {key: _number(axis, f"dynamics/{key}", 0.0) for key in ("damping", "friction")}
        if min(force.values()) < 0:
            raise format_error(axis, f"damping and friction of joint '{name}' must not be negative")
        return {
            "lower": lower if lower > -UNLIMITED else -np.inf,
            "upper": upper if upper < UNLIMITED else np.inf,
            **{key: value if 0 <= value < UNLIMITED else np.inf for key, value in bounds.items()},
            **force,
            "stiffness": _number(axis, "dynamics/spring_stiffness", 0.0),
            "rest": _number(axis, "dynamics/spring_reference", 0.0),
        }

    def mimic_joints(self, connections: Sequence[Connection]) -> list[ParsedMimicJoint]:
        """Return the mimic joints that <mimic> elements and gearboxes define.

        A gearbox has theta_2 = -ratio theta_1. Both angles are relative to the reference body.
        theta_1 is the angle of the link <parent> about <axis>, and theta_2 the angle of the link
        <child> about <axis2>.
        """
        found = [f for joint in self.joints for f in _mimics(joint)]
        for gear in self.gears:
            reference = _text(gear, "gearbox_reference_body")
            ends = [
                self._angle(gear, connections, reference, _text(gear, role), axis)
                for role, axis in (("parent", "axis"), ("child", "axis2"))
            ]
            (source, s1), (joint, s2) = ends
            ratio = -_number(gear, "gearbox_ratio") * s1 * s2
            found.append(ParsedMimicJoint(gear.sourceline, joint, source, ratio, 0.0))
        return found

    def _angle(
        self, gear: Element, connections: Sequence[Connection], reference: str, link: str, axis: str
    ) -> tuple[str, float]:
        """Return the joint that defines an angle of a gearbox, and the sign of the angle.

        The joint connects `link` to the reference body `reference`. The sign is 1 if the angle
        about the axis in the element <axis> or <axis2> increases with the joint position, else -1.
        `axis` is the tag of this element.
        """
        name = required_attribute(gear, "name")
        for c in connections:
            if {c.parent, c.child} == {reference, link} and isinstance(c.joint, Revolute):
                own = self.joint_pose(c.name).E.T @ np.array(c.joint.axis)
                given = self._gear_axis(gear, axis)
                along = own @ given / np.linalg.norm(given)
                if abs(along) < 0.99:
                    raise format_error(
                        gear, f"the {axis} of gearbox '{name}' is not the axis of joint '{c.name}'"
                    )
                outward = 1.0 if c.parent == reference else -1.0
                return c.name, float(np.sign(along)) * outward
        text = f"gearbox '{name}' needs a revolute joint between '{reference}' and '{link}'"
        raise format_error(gear, text)

    def _gear_axis(self, gear: Element, tag: str) -> Array:
        """Return the axis of a gearbox in world coordinates."""
        axis, u = _axis_vector(gear, f"gearbox '{gear.get('name')}'", tag)
        in_model = _is_true(axis, "use_parent_model_frame", False)
        if in_model or self.version == "1.4":
            return np.asarray(self.poses[MODEL].E.T @ u)
        E = (pose(gear) @ self.poses[self._link_of(gear, _text(gear, "child"))]).E
        return np.asarray(E.T @ u)

    def origin(self, links: Sequence[Link], connections: Sequence[Connection]) -> Transform | None:
        """Return the world pose of the root link, which has no parent joint, or None."""
        children_ = {c.child for c in connections}
        roots = [link.name for link in links if link.name not in children_]
        return self.poses[roots[0]] if roots else None


class LoopJoint(NamedTuple):
    """Loop joint of a URDF extension.

    Attributes:
        connection: The joint.
        rotation: The rotation (3, 3) from model to joint coordinates.
        mimics: The mimic joint of the <mimic> element, if the joint has one.
    """

    connection: Connection
    rotation: Array
    mimics: Sequence[ParsedMimicJoint]


def loop_joints(
    extension: Element, places: Mapping[str, Transform], warnings: list[str]
) -> Iterator[LoopJoint]:
    """Yield the SDF joints in a <gazebo> element of a URDF as loop joints.

    `places` contains the poses of the links.
    """
    reader = _Reader(extension, VERSIONS[-1], warnings, places)
    for gear in reader.gears:
        name = gear.get("name", "")
        warnings.append(f"line {gear.sourceline}: gearbox '{name}' of an extension is not read")
    for element in reader.joints:
        connection = reader.connection(element)._replace(closes=True)
        yield LoopJoint(connection, reader.joint_pose(connection.name).E, [*_mimics(element)])


def _sensor_place(
    element: Element, name: str, joint: Connection | None, poses: Poses
) -> SensorPlace:
    """Return the link, the joint and the placement of a <sensor> element.

    The default reference frame of the <pose> is the frame `name`. `joint` is the joint of the
    sensor, or None for a sensor of the link `name`.
    """
    base = base_of(element) or name
    if base not in poses.attached and base not in poses.found:
        hint = nearest(base, sorted({*poses.attached, *poses.found}))
        raise format_error(element, f"the frame '{base}' does not exist{hint}")
    link = joint.child if joint else name
    back = poses[link].inverse()
    place = SensorPlace(link, pose(element) @ poses[base] @ back)
    if joint is None:
        return place
    return place._replace(joint=joint.name, origin=poses[name] @ back, parent=joint.parent)


def extension_sensors(
    extensions: Sequence[Element],
    connections: Sequence[Connection],
    places: Mapping[str, Transform],
    unread: list[str],
) -> Iterator[ParsedSensor]:
    """Yield the outputs of the <sensor> elements in the <gazebo> elements of a URDF.

    The reference of a <gazebo> element is the link of its sensors. For a force-torque sensor, the
    reference is a joint, whose frame is the frame of its child link.

    Args:
        extensions: The <gazebo> elements.
        connections: The joints of the robot.
        places: The transforms from base to link coordinates in the zero configuration, by link.
        unread: The function appends warnings about other sensors to this list.
    """
    joints = {c.name: c for c in connections if c.child in places}
    poses = Poses({}, {**{name: places[c.child] for name, c in joints.items()}, **places})
    for extension in extensions:
        reference = (extension.get("reference") or "").strip()
        for element in children(extension, "sensor"):
            kind = element.get("type")
            joint = joints.get(reference) if kind == "force_torque" else None
            link = joint.child if joint else reference
            if kind in PICTURES:
                continue
            if kind not in SDF_SENSORS:
                why = ""
            elif kind == "force_torque" and joint is None:
                why = ": its reference must be a joint"
            elif link not in places:
                why = ": its reference must be a link"
            else:
                place = _sensor_place(element, link, joint, poses)
                yield from sensor_outputs(element, place, MAGNETIC_FIELD, LARGEST_STEP, unread)
                continue
            name = element.get("name")
            text = f"sensor '{name}' of type {kind} is not read{why}"
            unread.append(f"line {element.sourceline}: {text}")


def _mimics(joint: Element) -> Iterator[ParsedMimicJoint]:
    """Yield the mimic joint of <mimic>: q = multiplier (q_leader - reference) + offset."""
    for which in ("axis", "axis2"):
        mimic = joint.find(f"{which}/mimic")
        if mimic is None:
            continue
        name, leader = required_attribute(joint, "name"), required_attribute(mimic, "joint")
        if which == "axis2" or mimic.get("axis", "axis").strip() != "axis":
            text = (
                f"joint '{name}' follows '{leader}'; both need one degree of freedom, without an "
                "axis2"
            )
            raise format_error(mimic, text)
        ratio, offset, reference = (
            _number(mimic, key, default)
            for key, default in (("multiplier", 1.0), ("offset", 0.0), ("reference", 0.0))
        )
        yield ParsedMimicJoint(mimic.sourceline, name, leader, ratio, offset - ratio * reference)


def _pitches(element: Element) -> list[str]:
    """Return the names of the elements that define the pitch of a screw joint."""
    names = ("screw_thread_pitch", "thread_pitch")
    return [name for name in names if element.find(name) is not None]


def _pitch(element: Element) -> float:
    """Return the pitch of a screw joint [m/rad].

    <screw_thread_pitch> is in metres per turn, 1 by default. The older <thread_pitch> is in radians
    per metre, with the opposite sign.
    """
    if _pitches(element) != ["thread_pitch"]:
        return _number(element, "screw_thread_pitch", 1.0) / (2 * np.pi)
    turns = _number(element, "thread_pitch")
    if turns == 0.0:
        raise format_error(element, "the <thread_pitch> of a screw is zero")
    return -1.0 / turns


def _axis_vector(element: Element, subject: str, tag: str) -> tuple[Element, Array]:
    """Return the child `tag` of a joint or gearbox, and the axis vector (3,) in this child.

    `subject` is the name of the joint or gearbox in error messages.
    """
    axis = element.find(tag)
    if axis is None:
        raise format_error(element, f"{subject} needs an <{tag}>")
    u = np.array(floats(axis, _text(axis, "xyz", "0 0 1"), 3, "<xyz>"))
    if not np.any(u):
        raise format_error(axis, f"the axis of {subject} is zero; it must have a direction")
    return axis, u
