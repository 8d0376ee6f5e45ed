"""URDF, the Unified Robot Description Format of ROS, versions 1.0 and 1.1."""

import re
from collections.abc import Container, Iterator, Mapping, Sequence, Set
from math import inf, isfinite, isnan, nan
from pathlib import Path

import numpy as np
from lxml import etree

from rigidblocks.common.arrays import LazyTuple
from rigidblocks.common.xml_reader import (
    HERE,
    Children,
    Element,
    Origin,
    first_of_each,
    floats,
    format_error,
    namespace_warnings,
    nearest,
    number,
    numbers,
    origins,
    place,
    required_attribute,
    table,
)
from rigidblocks.robot.joints import Fixed, Joint, Planar, Prismatic, Revolute, SixDoF, Spherical
from rigidblocks.robot.joints.holonomic import X, Y, Z
from rigidblocks.robot.robot_description import Sensor, Weightless, unused_name
from rigidblocks.robot.shapes import Box, Capsule, Cylinder, Shape, Sphere
from rigidblocks.robot_description.model_from_links import align_parallel_axes
from rigidblocks.robot_description.parsed_links import (
    NOTHING,
    WORLD,
    Assembly,
    Connection,
    Link,
    ParsedMimicJoint,
    ParsedSensor,
    ParsedSpring,
    inertias,
    weightless,
)
from rigidblocks.robot_description.schema_coverage import (
    URDF,
    URDF_ONCE,
    repeated_elements,
    unread_elements,
)
from rigidblocks.robot_description.sdf import extension_sensors, loop_joints
from rigidblocks.robot_description.unit_heuristics import suspicious_units
from rigidblocks.robot_description.urdf_transmissions import transmission_actuators
from rigidblocks.spatial.rigid_motion import (
    SAME,
    normalized_quaternion,
    placement,
    placements,
    quaternion_rotation,
    roll_pitch_yaw,
)
from rigidblocks.spatial.spatial import Array, RigidInertia, Transform, xlt

ZERO = (0.0, 0.0, 0.0)


def shapes_of(link: Element, kind: str, lazy: bool) -> Sequence[Shape]:
    """Return the visual or collision shapes of a <link> in link coordinates.

    `kind` is "visual" or "collision". If `lazy` is True, the shapes are created at their first
    use. The function skips meshes and opens no files.
    """
    return LazyTuple(_shapes, link, kind) if lazy else _shapes(link, kind)


def has_sound_shapes(root: Element) -> bool:
    """Return True if a fast check proves that all shapes in a <robot> are valid.

    Sizes must be nonnegative numbers, and origins must be numbers. Mesh paths must not be empty
    and must not contain "..".
    """
    meshes: set[str] = set()
    lengths: list[str] = []
    sides: list[str] = []
    for solid in _SOLIDS(root):
        match solid.tag:
            case "mesh":
                meshes.add(solid.get("filename", ""))
            case "box":
                sides.append(solid.get("size", ""))
            case "sphere":
                lengths.append(solid.get("radius", ""))
            case "cylinder" | "capsule":
                lengths += (solid.get("radius", ""), solid.get("length", ""))
    try:
        sizes = _values(sides, 3) + _values(lengths, 1)
        _values(_SEEN(root) + _TOUCHING(root), 3)
    except ValueError:
        return False
    sound = all(map(str.strip, meshes)) and ".." not in "\n".join(meshes)
    return sound and min(sizes, default=0.0) >= 0.0


def _values(texts: Sequence[str], count: int) -> list[float]:
    """Return the numbers in strings; raise ValueError unless each string has `count` numbers."""
    if not (different := set(texts) - _NOWHERE):
        return []
    tokens = [text.split() for text in different]
    if any(len(some) != count for some in tokens):
        raise ValueError
    values = [float(token) for some in tokens for token in some]
    text = "".join(different)
    far = max(map(abs, values))
    if not (text.isascii() and "_" not in text and isfinite(sum(values)) and far < _FAR):
        raise ValueError
    return values


_NOWHERE = {"0 0 0"}
_SOLIDS = etree.XPath("link/*/geometry/*")
_SEEN = etree.XPath("link/visual/origin/@*", smart_strings=False)
_TOUCHING = etree.XPath("link/collision/origin/@*", smart_strings=False)
_FAR = 1e100  # larger than any shape


def _shapes(link: Element, kind: str) -> tuple[Shape, ...]:
    return tuple(shape for part in link.iterchildren(kind) for shape in _shapes_of(part))


def _shapes_of(element: Element) -> list[Shape]:
    child_map = first_of_each(element)
    geometry, origin = child_map.get("geometry"), child_map.get("origin")
    given = (ZERO, ZERO) if origin is None else place(origin)
    found = []
    for solid in () if geometry is None else geometry:
        if solid.tag == "mesh":
            _check_inside(solid)
        elif (shape := _shape(solid, *given)) is not None:
            found.append(shape)
    return found


def _shape(element: Element, r: Sequence[float], rpy: Sequence[float]) -> Shape | None:
    if element.tag not in ("box", "cylinder", "capsule", "sphere"):
        return None
    X = placement(r, rpy)
    match element.tag:
        case "box":
            sides = numbers(element, "size", 3)
            return Box(sides, X) if _positive(element, sides) else None
        case "cylinder":
            size = [number(element, "radius"), number(element, "length")]
            if _positive(element, size):
                return Cylinder(size[0], size[1], placement=X)
        case "capsule":  # not in URDF, but ROS reads it
            size = [number(element, "radius"), number(element, "length")]
            return Capsule(size[0], size[1], X) if _positive(element, size) else None
        case "sphere":
            radius = number(element, "radius")
            return Sphere(radius, X.r) if _positive(element, [radius]) else None
    return None


def _positive(element: Element, sizes: Sequence[float]) -> bool:
    """Return True if all sizes are positive, False if a size is zero; reject negative sizes."""
    if min(sizes) < 0:
        raise format_error(element, f"a <{element.tag}> has the negative size {min(sizes)} m")
    return min(sizes) > 0


def _check_inside(mesh: Element) -> None:
    """Reject a mesh path that points outside its package."""
    if ".." not in (name := required_attribute(mesh, "filename")):
        return
    scheme, _, path = name.partition("://")
    if scheme in ("package", "model"):
        depth = 0
        for part in path.split("/")[1:]:
            depth += _DEEPER.get(part, 1)
            if depth < 0:
                raise format_error(mesh, f"the mesh '{name}' is outside of the package")


_DEEPER = {"..": -1, ".": 0, "": 0}  # change of the folder depth by a component of a path


def read_urdf(root: Element, path: Path, *, floating: bool, strict: bool) -> Assembly:
    """Return the links, joints and other elements of the <robot> element of a URDF.

    Args:
        root: Root element of the file.
        path: Path of the file.
        floating: True to connect the base link to the fixed base by a joint with six degrees of
            freedom.
        strict: True to reject physically impossible inertias; otherwise they cause warnings.
    """
    read_quaternions(root)
    warnings: list[str] = []
    name = (root.get("name") or "").strip()
    if not name:
        name = path.stem
        warnings.append(
            f"line {root.sourceline}: <robot> has no name; the file name {name} is used"
        )
    sound = has_sound_shapes(root)
    inertials, joints = _INERTIALS(root), _JOINTS(root)
    child_maps = [first_of_each(part) for part in (*inertials, *joints)]
    places, n = _origins(child_maps), len(inertials)
    links = _links(_LINKS(root), inertials, child_maps[:n], places[:n], sound)
    connections = _connections(joints, child_maps[n:], places[n:], warnings)
    extensions, loops = _EXTENSIONS(root), list[Connection]()
    followings = list(_mimic_joints(joints, child_maps[n:]))
    switches = [e for e in extensions if e.tag == "gazebo" and e.get("reference") is not None]
    if extensions:
        connections = _add_springs(connections, switches, warnings)
        connections = _add_rotors(connections, _ROTORS(root), warnings)
    if closing := [extension for extension in extensions if _closes_loops(extension)]:
        connections, loops = _read_loops(links, connections, closing, followings, warnings)
    sensors, unread = list[ParsedSensor](), list[str]()
    every = [*connections, *loops]
    actuators = list(transmission_actuators(root, every, warnings)) if extensions else []
    if extensions:
        sensors += _joint_states(root, connections, warnings)
    if sensing := [e for e in extensions if e.tag == "gazebo" and e.find("sensor") is not None]:
        places_at_rest = _places_at_rest(links, connections)
        sensors += extension_sensors(sensing, connections, places_at_rest, unread)
    return Assembly(
        path,
        name,
        links,
        every,
        followings,
        loops=bool(loops),
        floating=floating,
        strict=strict,
        warnings=warnings,
        report=lambda: (*_report(root), *unread),
        sound_shapes=sound,
        weightless=list(_weightless_links(links, switches, warnings)) if switches else (),
        springs=list(_drake_springs(extensions, {link.name for link in links})),
        sensors=sensors,
        actuators=actuators,
        start=_start_positions(root, connections),
    )


_JOINT_STATES = {
    "position": "joint_position", "velocity": "joint_velocity", "effort": "joint_force"
}  # fmt: skip


def _joint_states(
    root: Element, connections: Sequence[Connection], warnings: list[str]
) -> Iterator[ParsedSensor]:
    """Yield a joint sensor for each state interface in <ros2_control>; append warnings."""
    by_name = {c.name: c for c in connections}
    found: set[str] = set()
    for element in root.iterfind("ros2_control/joint/state_interface"):
        joint = (element.getparent().get("name") or "").strip()
        kind = (element.get("name") or "").strip()
        name = f"{joint}_{kind}"
        if kind not in _JOINT_STATES or joint not in by_name or by_name[joint].joint.nv != 1:
            text = f"the state '{kind}' of joint '{joint}' in <ros2_control> is not read"
            warnings.append(f"line {element.sourceline}: {text}")
        elif name not in found:
            found.add(name)
            unit = "m" if isinstance(by_name[joint].joint, Prismatic) else "rad"
            quantity, line = _JOINT_STATES[kind], element.sourceline or 0
            sensor = Sensor(name, quantity, coefficients=(1.0,), unit=unit, line=line)
            yield ParsedSensor(sensor, joints=[joint])


def _start_positions(root: Element, connections: Sequence[Connection]) -> dict[str, Array]:
    """Return the start positions by joint: <param name="initial_value"> in <ros2_control>."""
    names = {c.name for c in connections if c.joint.nv == 1}
    start = {}
    for element in root.iterfind("ros2_control/joint/state_interface"):
        joint = (element.getparent().get("name") or "").strip()
        if joint in names and (element.get("name") or "").strip() == "position":
            for param in element.iterfind("param[@name='initial_value']"):
                start[joint] = np.array(floats(param, param.text or "", 1, "an initial_value"))
    return start


_EXTENSIONS = etree.XPath("*[not(self::link or self::joint)]")
_ROTORS = etree.XPath("transmission/actuator[*[contains(local-name(), 'rotor_inertia')]]")


def _add_rotors(
    connections: Sequence[Connection], actuators: Sequence[Element], warnings: list[str]
) -> list[Connection]:
    """Return the joints, extended by the rotor inertias of Drake actuators; append warnings.

    The inertia I of the rotor is reflected to the joint: I ratio^2.
    """
    found = {c.name: c for c in connections}
    for actuator in actuators:
        values = {"rotor_inertia": 0.0, "gear_ratio": 1.0}
        for part in actuator.iterchildren("*"):
            if (name := _local_name(part)) in values and part.tag != name:  # the tag has a prefix
                values[name] = number(part, "value")
        inertia, ratio = values.values()
        if inertia < 0.0:
            raise format_error(actuator, f"the rotor inertia is {inertia}; it must not be negative")
        for part in actuator.getparent().iterchildren("joint"):
            joint = found.get(required_attribute(part, "name"))
            if joint is None or joint.joint.nv != 1:
                why = "is ignored: its joint does not exist or has not one degree of freedom"
                warnings.append(f"line {actuator.sourceline}: the rotor {why}")
                continue
            old = joint.joint_properties
            armature = old.get("armature", 0.0) + inertia * ratio**2
            found[joint.name] = joint._replace(joint_properties={**old, "armature": armature})
    return list(found.values()) if len(found) == len(connections) else list(connections)


def _local_name(element: Element) -> str:
    """Return the name of an element without the namespace prefix, which may be undeclared."""
    return str(element.tag).rpartition("}")[2].rpartition(":")[2]


def _closes_loops(element: Element) -> bool:
    return _local_name(element) == "ball_constraint" or (
        element.tag == "gazebo" and element.find("joint") is not None
    )


def _read_loops(
    links: Sequence[Link],
    connections: Sequence[Connection],
    closing_elements: Sequence[Element],
    mimics: list[ParsedMimicJoint],
    warnings: list[str],
) -> tuple[list[Connection], list[Connection]]:
    """Return the joints `connections` and the loop joints, with exactly parallel joint axes.

    The function makes nearly parallel axes exactly parallel. The XML elements `closing_elements`
    define the loop joints. The function appends the mimic joints of these elements to `mimics`.
    """
    places = _places_at_rest(links, connections)
    if any(link.name not in places for link in links):
        return [*connections], []  # the joints form a cycle; `spanning_tree` raises the error
    turned = {c.name: (c.Xp @ places[c.parent]).E for c in connections if c.parent in places}
    loops = list[Connection]()
    taken = {c.name for c in connections}
    for element in closing_elements:
        if element.tag == "gazebo":
            for found in loop_joints(element, places, warnings):
                loops.append(found.connection)
                turned[found.connection.name] = found.rotation
                mimics += found.mimics
        else:
            loops.append(_ball_constraint(element, {*taken, *(c.name for c in loops)}))
    known = [c for c in (*connections, *loops) if c.name in turned]
    aligned = {c.name: c for c in align_parallel_axes(known, turned)}
    both = [aligned.get(c.name, c) for c in (*connections, *loops)]
    return both[: len(connections)], both[len(connections) :]


def _places_at_rest(
    links: Sequence[Link], connections: Sequence[Connection]
) -> dict[str, Transform]:
    """Return the transforms from base to link coordinates in the zero configuration."""
    children = {c.child for c in connections}
    places = {link.name: SAME for link in links if link.name not in children}
    waiting = list(connections)
    while placed := [c for c in waiting if c.parent in places]:
        waiting = [c for c in waiting if c.parent not in places]
        for c in placed:
            places.setdefault(c.child, c.Xs.inverse() @ (c.Xp @ places[c.parent]))
    return places


def _ball_constraint(element: Element, taken: Container[str]) -> Connection:
    """Return the loop joint of a <drake:ball_constraint>, a ball joint between two points.

    The function selects a name that is not in `taken`.
    """
    (one, p), (two, q) = _drake_ends(element)
    name = unused_name(f"{one or 'world'}_{two or 'world'}_ball", taken)
    Xp, Xs = xlt(p), xlt(q)
    return Connection(name, element.sourceline, one, two, Spherical(), Xp, Xs, closes=True)


def _drake_springs(extensions: Sequence[Element], links: Set[str]) -> Iterator[ParsedSpring]:
    """Yield the springs of <drake:linear_spring_damper> elements; `links` contains all links."""
    found = (e for e in extensions if _local_name(e) == "linear_spring_damper")
    for k, element in enumerate(found):
        law = {}
        for key, default in (("stiffness", None), ("damping", 0.0), ("free_length", None)):
            value = _drake_part(element, key, default is None)
            law[key] = 0.0 if value is None else number(value, "value")
            if law[key] < 0.0:
                raise format_error(
                    element, f"the {key} of a spring must not be negative, but is {law[key]}"
                )
        ends = _drake_ends(element)
        for link, _ in ends:
            if link != WORLD and link not in links:
                hint = nearest(link, sorted(links))
                raise format_error(element, f"the spring ends at '{link}', which is no link{hint}")
        yield ParsedSpring(
            f"spring{k + 1}",
            ends,
            law["stiffness"],
            law["damping"],
            law["free_length"],
        )


def _drake_ends(element: Element) -> tuple[tuple[str, Array], tuple[str, Array]]:
    """Return the links and points (3,) at the two ends of a Drake extension."""
    ends, named = [], any(link.get("name") == "world" for link in _LINKS(element.getparent()))
    for body, point in (("body_A", "p_AP"), ("body_B", "p_BQ")):
        link = required_attribute(_drake_part(element, body, True), "name")
        place = numbers(_drake_part(element, point, True), "value", 3)
        ends.append((WORLD if link == "world" and not named else link, np.array(place)))
    return ends[0], ends[1]


def _drake_part(element: Element, key: str, required: bool) -> Element:
    """Return the child <drake:NAME_KEY> of the Drake extension <drake:NAME>, or None.

    KEY is the argument `key`, for example body_A. The function raises FormatError if a `required`
    child is missing.
    """
    name = f"{_local_name(element)}_{key}"
    found = [child for child in element.iterchildren("*") if _local_name(child) == name]
    if not found and required:
        raise format_error(element, f"<{_local_name(element)}> needs a <drake:{name}>")
    return found[0] if found else None


def _add_springs(
    connections: Sequence[Connection], extensions: Sequence[Element], warnings: list[str]
) -> list[Connection]:
    """Return the joints, extended by the springs in Gazebo extensions; append warnings."""
    found = {c.name: c for c in connections}
    for extension in extensions:
        stiffness = extension.find("springStiffness")
        if stiffness is None:
            continue
        joint = found.get(extension.get("reference").strip())
        if joint is None or joint.joint.nv != 1:
            text = "is ignored: its reference is not a joint with one degree of freedom"
            warnings.append(f"line {stiffness.sourceline}: <springStiffness> {text}")
            continue
        rest = extension.find("springReference")
        law = {
            "stiffness": _number_of(stiffness),
            "rest": 0.0 if rest is None else _number_of(rest),
        }
        if law["stiffness"] < 0.0:
            text = f"the stiffness of joint '{joint.name}' is {law['stiffness']}"
            raise format_error(stiffness, f"{text}; it must not be negative")
        found[joint.name] = joint._replace(joint_properties={**joint.joint_properties, **law})
    return list(found.values()) if len(found) == len(connections) else list(connections)


def _weightless_links(
    links: Sequence[Link], extensions: Sequence[Element], warnings: list[str]
) -> Iterator[tuple[str, Weightless]]:
    """Yield the links whose Gazebo extension disables gravity; append warnings."""
    by_name = {link.name: link for link in links}
    for extension in extensions:
        for tag, weighs in (("turnGravityOff", False), ("gravity", True)):
            switch = extension.find(tag)
            if switch is None:
                continue
            text = (switch.text or "").strip().lower()
            if text not in ("", "0", "1", "true", "false"):
                raise format_error(switch, f"<{tag}> must be true or false, not '{text[:40]}'")
            if text in ("", "1", "true") if weighs else text in ("", "0", "false"):
                continue
            name = extension.get("reference").strip()
            if name in by_name:
                yield name, weightless(by_name.pop(name))
            else:
                why = "is ignored: its reference is not a link"
                warnings.append(f"line {switch.sourceline}: <{tag}> {why}")


def _number_of(element: Element) -> float:
    """Return the number in the text or in the attribute `value` of an element."""
    text = (element.text or "").strip() or element.get("value", "")
    return floats(element, text, 1, f"<{element.tag}>")[0]


def _report(root: Element) -> Iterator[str]:
    """Yield warnings about ignored elements and values in suspicious units."""
    yield from namespace_warnings(root)
    if _version(root) > NEWEST:
        text = f"URDF {root.get('version').strip()} is read as 1.1; newer elements are unknown"
        yield f"line {root.sourceline}: {text}"
    for element in _QUATERNIONS(root):  # not yet replaced only in URDF 1.0
        where = f"line {element.sourceline}: quat_xyzw"
        yield f'{where} is ignored: it needs <robot version="1.1">'
    yield from unread_elements(root, URDF)
    yield from repeated_elements(root, URDF_ONCE)
    for element, text in suspicious_units(root):
        yield f"line {element.sourceline}: {text}"


def read_quaternions(root: Element) -> None:
    """Replace each `quat_xyzw` of an <origin> in a URDF 1.1 file by the equivalent `rpy`.

    URDF 1.0 does not have the attribute `quat_xyzw`. For such a file, a warning lists the ignored
    attributes.

    Raises:
        FormatError: An <origin> has both attributes, or its quaternion is zero.
    """
    if _version(root) < NEWEST:
        return
    for origin in _QUATERNIONS(root):
        if origin.get("rpy") is not None:
            raise format_error(
                origin, "the origin has both rpy and quat_xyzw; it needs one of them"
            )
        x, y, z, w = numbers(origin, "quat_xyzw", 4)
        if not (x or y or z or w):
            raise format_error(origin, "the quaternion of an <origin> must not be zero")
        E = quaternion_rotation(normalized_quaternion(np.array([w, x, y, z])))
        origin.set("rpy", " ".join(map(repr, roll_pitch_yaw(E))))
        del origin.attrib["quat_xyzw"]


def _version(root: Element) -> tuple[int, ...]:
    """Return the URDF version (major, minor); (1, 0) if the attribute is missing or invalid."""
    found = re.fullmatch(r"\s*(\d{1,9})\.(\d{1,9})\s*", root.get("version", ""), re.ASCII)
    return (int(found[1]), int(found[2])) if found else (1, 0)


NEWEST = (1, 1)  # newest supported URDF version, the first version with quaternions
_QUATERNIONS = etree.XPath("//origin[@quat_xyzw]")


_LINKS, _JOINTS, _INERTIALS = map(etree.XPath, ("link", "joint", "link/inertial[1]"))


def read_link(element: Element) -> Link:
    """Return the link of a <link> element.

    Raises:
        FormatError: The element is invalid; the message contains its line number.
    """
    inertials = list(element.iterchildren("inertial"))[:1]
    child_maps = [first_of_each(inertial) for inertial in inertials]
    return _links([element], inertials, child_maps, _origins(child_maps), lazy=False)[0]


def _links(
    elements: Sequence[Element],
    inertials: Sequence[Element],
    child_maps: Sequence[Children],
    places: Sequence[Origin],
    lazy: bool,
) -> list[Link]:
    """Return the links of <link> elements.

    `inertials` contains the first <inertial> of each link that has one. `child_maps` contains the
    children of each <inertial> by tag, and `places` its origin. The function processes all elements
    with array operations, which is faster than a call for each element.
    """
    names = _required_attributes(elements, "name")
    if len(inertials) == len(elements):
        bodies = _inertias(inertials, child_maps, places, names)
    else:
        name_of = dict(zip(elements, names, strict=True))
        owners = [inertial.getparent() for inertial in inertials]
        some = _inertias(inertials, child_maps, places, [name_of[owner] for owner in owners])
        of = dict(zip(owners, some, strict=True))
        bodies = [of.get(element, NOTHING) for element in elements]
    return [
        Link(
            name,
            element.sourceline,
            body,
            shapes_of(element, "visual", lazy),
            shapes_of(element, "collision", lazy),
        )
        for element, name, body in zip(elements, names, bodies, strict=True)
    ]


def _required_attributes(elements: Sequence[Element], attribute: str) -> list[str]:
    """Return an attribute of each element; raise FormatError if one is missing or blank."""
    found = [element.get(attribute, "").strip() for element in elements]
    return found if all(found) else [required_attribute(element, attribute) for element in elements]


def _inertias(
    elements: Sequence[Element],
    child_maps: Sequence[Children],
    places: Sequence[Origin],
    names: Sequence[str],
) -> list[RigidInertia]:
    masses = _required_children(elements, child_maps, "mass")
    moments = _required_children(elements, child_maps, "inertia")
    return inertias(
        (mass, name, m, place, rows)
        for mass, name, (m,), place, rows in zip(
            masses,
            names,
            table(masses, ("value",)),
            places,
            table(moments, ("ixx", "ixy", "ixz", "iyy", "iyz", "izz"), 0.0),
            strict=True,
        )
    )


def _required_children(
    elements: Sequence[Element], child_maps: Sequence[Children], name: str
) -> Sequence[Element]:
    """Return the child `name` of each element; raise FormatError if a child is missing.

    `child_maps` contains the children of each element by tag.
    """
    found = [child_map.get(name) for child_map in child_maps]
    if None in found:
        element = elements[found.index(None)]
        raise format_error(element, f"<{element.tag}> needs a <{name}>")
    return found


def _origins(child_maps: Sequence[Children]) -> list[Origin]:
    """Return the position and the angles in the <origin> of each element, by default `HERE`.

    `child_maps` contains the children of each element by tag.
    """
    given = [child_map["origin"] for child_map in child_maps if "origin" in child_map]
    found = origins(given)
    if len(given) == len(child_maps):
        return found
    known = iter(found)
    return [next(known) if "origin" in child_map else HERE for child_map in child_maps]


# ---- joints ----


def read_connection(element: Element, warnings: list[str]) -> Connection:
    """Return the joint of a <joint> element; append warnings about the element to `warnings`.

    Raises:
        FormatError: The element is invalid.
    """
    child_maps = [first_of_each(element)]
    return _connections([element], child_maps, _origins(child_maps), warnings)[0]


def _connections(
    elements: Sequence[Element],
    child_maps: Sequence[Children],
    places: Sequence[Origin],
    warnings: list[str],
) -> list[Connection]:
    names, kinds = _required_attributes(elements, "name"), _required_attributes(elements, "type")
    parents = _required_attributes(_required_children(elements, child_maps, "parent"), "link")
    children = _required_attributes(_required_children(elements, child_maps, "child"), "link")
    placed_joints = list(map(_joint, elements, child_maps, names, kinds))
    said = _joint_properties(elements, child_maps, names, kinds, placed_joints, warnings)
    return [
        Connection(
            name,
            element.sourceline,
            parent,
            child,
            joint,
            origin if turn is SAME else turn @ origin,
            turn,
            values,
        )
        for element, name, parent, child, (turn, joint), origin, values in zip(
            elements, names, parents, children, placed_joints, placements(places), said, strict=True
        )
    ]


def _joint(element: Element, child_map: Children, name: str, kind: str) -> tuple[Transform, Joint]:
    """Return the transform from link to joint coordinates, and the joint of a <joint> element.

    The transform is SAME if it is the identity. `child_map` contains the children of the element by
    tag.
    """
    match kind:
        case "revolute" | "continuous":
            return SAME, _REVOLUTE.get(axis := _axis(child_map, name)) or Revolute(axis)
        case "prismatic":
            return SAME, Prismatic(_axis(child_map, name))
        case "fixed":
            return SAME, Fixed()
        case "floating":
            return SAME, SixDoF()
        case "planar":
            return Transform(_normal_to_z(np.array(_axis(child_map, name))), np.zeros(3)), Planar()
    known = "revolute, continuous, prismatic, fixed, floating, planar"
    raise format_error(element, f"joint '{name}' has the type '{kind}'; it must be one of {known}")


_REVOLUTE = {axis: Revolute(axis) for x in (X, Y, Z) for axis in (x, (-x[0], -x[1], -x[2]))}


def _axis(child_map: Children, name: str) -> tuple[float, float, float]:
    if (axis := child_map.get("axis")) is None:
        return (1.0, 0.0, 0.0)
    x, y, z = numbers(axis, "xyz", 3, (1.0, 0.0, 0.0))
    if not (x or y or z):
        raise format_error(axis, f"the axis of joint '{name}' is zero; it must have a direction")
    return x, y, z


def _normal_to_z(normal: Array) -> Array:
    """Return a rotation (3, 3) to coordinates whose z axis has the direction of `normal`."""
    z = normal / np.linalg.norm(normal)
    if z[2] == 1.0:
        return np.eye(3)
    x = np.cross(np.eye(3)[np.argmin(np.abs(z))], z)
    x = x / np.linalg.norm(x)
    return np.array([x, np.cross(z, x), z])


def _joint_properties(
    elements: Sequence[Element],
    child_maps: Sequence[Children],
    names: Sequence[str],
    kinds: Sequence[str],
    placed_joints: Sequence[tuple[Transform, Joint]],
    warnings: list[str],
) -> list[dict[str, float]]:
    """Return the properties of each joint, and append warnings to `warnings`.

    `child_maps` contains the children of each element by tag, and `placed_joints` the transform and
    the joint that `_joint` returns.
    """
    limits = [child_map["limit"] for child_map in child_maps if "limit" in child_map]
    bounds = iter(table(limits, ("lower", "upper", "velocity", "effort"), nan))
    found = []
    for element, child_map, name, kind in zip(elements, child_maps, names, kinds, strict=True):
        limit = child_map.get("limit")
        values = (
            {} if limit is None else _limit_properties(limit, name, kind, next(bounds), warnings)
        )
        warnings += (
            _nonpositive_limit_warnings(limit, name, values)
            if limit is not None and kind != "fixed"
            else ()
        )
        if kind in _LIMITED and "lower" not in values:
            warnings.append(f"line {element.sourceline}: joint '{name}' has no limits")
        found.append(values)
    warnings += [
        f"line {child_map['dynamics'].sourceline}: damping and friction of joint '{name}' of "
        "several degrees of freedom are not read"
        for child_map, name, (_, joint) in zip(child_maps, names, placed_joints, strict=True)
        if joint.nv > 1
        and "dynamics" in child_map
        and any(map(child_map["dynamics"].get, _RESISTANCE))
    ]
    resisting = [
        (child_map["dynamics"], name, values)
        for child_map, name, (_, joint), values in zip(
            child_maps, names, placed_joints, found, strict=True
        )
        if joint.nv == 1 and "dynamics" in child_map
    ]
    forces = table([element for element, _, _ in resisting], _RESISTANCE, 0.0)
    for (element, name, values), row in zip(resisting, forces, strict=True):
        _check_not_negative(element, name, row)
        values["damping"], values["friction"] = row
    return found


_LIMITED = ("revolute", "prismatic")  # joint types that require limits
_RESISTANCE = ("damping", "friction")


def _limit_properties(
    limit: Element, name: str, kind: str, bounds: Sequence[float], warnings: list[str]
) -> dict[str, float]:
    """Return the joint properties of a <limit> element; append warnings to `warnings`.

    `bounds` contains the attributes lower, upper, velocity and effort, NaN for missing attributes.
    """
    lower, upper, velocity, effort = bounds
    values = {
        "velocity": inf if isnan(velocity) else velocity,
        "effort": inf if isnan(effort) else effort,
    }
    if kind in _LIMITED and not (isnan(lower) and isnan(upper)):
        values["lower"] = lower = 0.0 if isnan(lower) else lower
        values["upper"] = upper = 0.0 if isnan(upper) else upper
        if lower > upper:
            warnings.append(
                f"line {limit.sourceline}: the limits of joint '{name}' are reversed: lower "
                f"{lower:g}, upper {upper:g}"
            )
    return values


def _nonpositive_limit_warnings(
    limit: Element, joint: str, values: Mapping[str, float]
) -> Iterator[str]:
    """Yield a warning for each effort or velocity limit in `values` that is zero or negative."""
    for key in ("effort", "velocity"):
        if values[key] <= 0:
            text = f"the {key} of joint '{joint}' is {values[key]:g}: the joint cannot move"
            yield f"line {limit.sourceline}: {text}"


def _check_not_negative(element: Element, joint: str, forces: Sequence[float]) -> None:
    for key, value in zip(_RESISTANCE, forces, strict=True):
        if value < 0:
            raise format_error(
                element, f"{key} of joint '{joint}' is {value}; it must not be negative"
            )


def _mimic_joints(
    elements: Sequence[Element], child_maps: Sequence[Children]
) -> Iterator[ParsedMimicJoint]:
    for element, child_map in zip(elements, child_maps, strict=True):
        if (mimic := child_map.get("mimic")) is not None:
            yield ParsedMimicJoint(
                mimic.sourceline,
                required_attribute(element, "name"),
                required_attribute(mimic, "joint"),
                number(mimic, "multiplier", 1.0),
                number(mimic, "offset", 0.0),
            )
