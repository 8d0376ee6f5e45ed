"""SDF, the Simulation Description Format of Gazebo, versions 1.4 to 1.12, with one model."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array, RigidInertia, Transform
from rigidblocks.formats.closures import with_parallel_axes
from rigidblocks.formats.document import SAME, Element, children, floats, nearest, refused, required
from rigidblocks.formats.inertias import inertia
from rigidblocks.formats.listed import WORLD, Assembly, Connection, Following, Link
from rigidblocks.formats.poses import MODEL, Poses, base_of, pose
from rigidblocks.joint import (
    Fixed,
    Helical,
    Joint,
    Prismatic,
    Revolute,
    Spherical,
    Universal,
)
from rigidblocks.model.convex import Capsule, Ellipsoid
from rigidblocks.model.material import Material
from rigidblocks.model.model import STANDARD_GRAVITY
from rigidblocks.model.shapes import Box, Cylinder, Shape, Sphere

UNLIMITED = 1e16  # what a limit is at least where there is none
VERSIONS = [f"1.{k}" for k in range(4, 13)]


def read_sdf(root: Element, path: Path, *, floating: bool, strict: bool) -> Assembly:
    """What the one <model> in the <sdf> element lists."""
    version = required(root, "version")
    if version not in VERSIONS:
        raise refused(root, f"this is SDF {version}; {VERSIONS[0]} to {VERSIONS[-1]} are read")
    models = list(root.iter("model"))
    if len(models) != 1 or next(root.iter("include"), None) is not None:
        text = f"one <model> is read, without <include>; here are {len(models)}"
        raise refused(models[1] if len(models) > 1 else root, text)
    model, warnings = models[0], list[str]()
    reader = _Reader(model, version, warnings)
    links = [_link(element, warnings) for element in children(model, "link")]
    connections = reader.connections()
    if len(connections) > len(links):  # some close loops
        turned = {c.name: reader.poses[c.name].E for c in connections}
        connections = with_parallel_axes(connections, turned)
    return Assembly(
        path,
        required(model, "name"),
        links,
        connections,
        reader.followings(connections),
        reader.frames(),
        gravity=_gravity(root),
        loops=True,
        floating=floating,
        strict=strict,
        warnings=warnings,
        origin=reader.origin(links, connections),
        apart=_apart(model),
    )


def _apart(model: Element) -> list[tuple[str, str]]:
    """The pairs of links that do not touch: those of which neither has <self_collide>, which a link
    without one of its own takes from the model, and which is false unless it is said.
    """
    whole = _is_true(model, "self_collide", False)
    alone = [
        required(link, "name")
        for link in children(model, "link")
        if not _is_true(link, "self_collide", whole)
    ]
    return list(combinations(alone, 2))


def _is_true(element: Element, name: str, default: bool) -> bool:
    """The text of the child `name`, true or false as XML Schema writes them."""
    found = element.find(name)
    if found is None:
        return default
    text = (found.text or "").strip().lower()
    if text not in _TRUTH:
        raise refused(found, f"<{name}> must be true or false, not '{text[:40]}'")
    return _TRUTH[text]


_TRUTH = {"true": True, "1": True, "false": False, "0": False}


def _gravity(root: Element) -> Sequence[float]:
    given = next(root.iter("gravity"), None)
    if given is None or given.getparent().tag != "world":
        return STANDARD_GRAVITY
    return floats(given, given.text or "", 3, "<gravity>")


def _text(element: Element, path: str, default: str | None = None) -> str:
    """The text of the element at a path below; raises FormatError where it is missing."""
    found = element.find(path)
    text = "" if found is None else (found.text or "").strip()
    if not text and default is None:
        raise refused(element, f"<{element.tag}> needs a <{path}>")
    return text or str(default)


def _number(element: Element, path: str, default: float | None = None) -> float:
    found = element.find(path)
    if found is None and default is not None:
        return default
    return floats(element if found is None else found, _text(element, path), 1, f"<{path}>")[0]


# ---- links ----


def _link(element: Element, warnings: list[str]) -> Link:
    name = required(element, "name")
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
        text = f"link '{name}' has no <inertial>, which in SDF is 1 kg and moments of 1 kg m^2"
        warnings.append(f"line {link.sourceline}: {text}")
        return inertia(link, name, 1.0, SAME, (1.0, 0.0, 0.0, 1.0, 0.0, 1.0))
    if element.get("auto") == "true" or element.find("fluid_added_mass") is not None:
        text = f"the inertia of link '{name}' is to be computed or has added mass: write it out"
        raise refused(element, text)
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
    return [replace(shape.moved(back), material=material) for shape in shapes]


def _material(element: Element) -> Material | None:
    """What the <surface> of a <collision> says, isotropic: of two coefficients of friction the
    smaller; torsional friction is that of a patch, 3 pi / 16 radius coefficient.
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
        raise refused(surface, str(error)) from None


def _patch(surface: Element) -> float:
    """The radius [m] of the patch of torsional friction times its coefficient; zero where it is
    left to the depth of the contact.
    """
    inside = surface.find("friction/torsional")
    if inside is None or _text(inside, "use_patch_radius", "1") in ("0", "false"):
        return 0.0
    return _number(inside, "coefficient", 1.0) * _number(inside, "patch_radius", 0.0)


def _shape(element: Element) -> Shape | None:
    """The solid; none for a mesh, whose file is not opened, and for other surfaces."""
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
        case "sphere":
            radius = _number(element, "radius")
            return Sphere(radius) if radius > 0 else None
        case "ellipsoid":
            radii = floats(element, _text(element, "radii"), 3, "<radii>")
            return Ellipsoid(radii) if min(radii) > 0 else None
    return None


# ---- joints ----


class _Reader:
    """The joints and frames of a model, whose poses are relative to each other."""

    def __init__(self, model: Element, version: str, warnings: list[str]):
        self.model, self.version, self.warnings = model, version, warnings
        self.joints = [j for j in children(model, "joint") if j.get("type") != "gearbox"]
        self.gears = [j for j in children(model, "joint") if j.get("type") == "gearbox"]
        attached = {required(e, "name"): (e, MODEL) for e in children(model, "link")}
        for e in children(model, "frame"):
            attached[required(e, "name")] = (e, (e.get("attached_to") or MODEL).strip())
        self.links = {required(e, "name") for e in children(model, "link")}
        for e in self.joints:
            attached.setdefault(required(e, "name"), (e, _text(e, "child")))
        self.poses = Poses(attached)

    def frames(self) -> list[tuple[str, str, Transform]]:
        """The <frame> elements: name, link, placement in the link."""
        found = []
        for element in children(self.model, "frame"):
            name = required(element, "name")
            link = self._link_of(element, name)
            X = self.poses[name] @ self.poses[link].inverse()
            found.append((name, link, X))
        return found

    def _link_of(self, element: Element, name: str) -> str:
        """The link that a name in an element belongs to: itself, or what it is attached to."""
        seen = set()
        while name not in self.links:
            if name in ("world", MODEL, ""):
                return WORLD
            if name in seen or name not in self.poses.attached:
                hint = nearest(name, sorted(self.links))
                raise refused(element, f"'{name}' is no link and no frame{hint}")
            seen.add(name)
            name = self.poses.attached[name][1]
        return name

    def connections(self) -> list[Connection]:
        """The joints but gearboxes."""
        return [self._connection(element) for element in self.joints]

    def _connection(self, element: Element) -> Connection:
        name, kind = required(element, "name"), required(element, "type")
        parent = self._link_of(element, _text(element, "parent"))
        child = self._link_of(element, _text(element, "child"))
        here = self.poses[name]
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
            self._freedoms(element, name, joint),
        )

    def _joint(self, element: Element, name: str, kind: str) -> Joint:
        match kind:
            case "revolute" | "continuous":
                return Revolute(self._axis(element, name))
            case "prismatic":
                return Prismatic(self._axis(element, name))
            case "screw":
                return Helical(_pitch(element), self._axis(element, name))
            case "universal" | "revolute2":
                first, second = self._axis(element, name), self._axis(element, name, "axis2")
                if np.linalg.norm(np.cross(first, second)) < 1e-6:
                    raise refused(element, f"the two axes of joint '{name}' are parallel")
                return Universal(first, second)
            case "ball":
                return Spherical()
            case "fixed":
                return Fixed()
        known = "revolute, continuous, prismatic, screw, universal, revolute2, ball, fixed, gearbox"
        raise refused(element, f"joint '{name}' has the type '{kind}'; it must be one of {known}")

    def _axis(self, joint: Element, name: str, which: str = "axis") -> tuple[float, float, float]:
        """The unit axis in the coordinates of the joint."""
        axis = joint.find(which)
        if axis is None:
            raise refused(joint, f"joint '{name}' needs an <{which}>")
        u = np.array(floats(axis, _text(axis, "xyz", "0 0 1"), 3, "<xyz>"))
        if not np.any(u):
            raise refused(axis, f"the axis of joint '{name}' is zero; it must have a direction")
        x, y, z = (self._turned(joint, axis, name) @ u).tolist()
        return x, y, z

    def _turned(self, joint: Element, axis: Element, name: str) -> Array:
        """The rotation from the coordinates that an axis is given in to those of its joint."""
        E = self.poses[name].E
        xyz = axis.find("xyz")
        expressed = "" if xyz is None else (xyz.get("expressed_in") or "").strip()
        if expressed:
            if expressed not in self.poses.attached and expressed != MODEL:
                raise refused(
                    joint,
                    f"the axis of joint '{name}' is expressed in '{expressed}', which there is not",
                )
            return np.asarray(E @ self.poses[expressed].E.T)
        in_model = _text(axis, "use_parent_model_frame", "0") in ("1", "true")
        return E if in_model or self.version == "1.4" else np.eye(3)

    def _freedoms(self, element: Element, name: str, joint: Joint) -> dict[str, Any]:
        axes = [a for which in ("axis", "axis2") if (a := element.find(which)) is not None]
        if not axes or joint.nv != len(axes) or isinstance(joint, Spherical):
            return {}
        values = [self._freedom(axis, name) for axis in axes]
        return {key: [v[key] for v in values] for key in values[0]}

    def _freedom(self, axis: Element, name: str) -> dict[str, float]:
        lower, upper = _number(axis, "limit/lower", -np.inf), _number(axis, "limit/upper", np.inf)
        if lower > upper:
            text = f"the limits of joint '{name}' are upside down: lower {lower}, upper {upper}"
            self.warnings.append(f"line {axis.sourceline}: {text}")
        bounds = {key: _number(axis, f"limit/{key}", -1.0) for key in ("velocity", "effort")}
        force = {key: _number(axis, f"dynamics/{key}", 0.0) for key in ("damping", "friction")}
        if min(force.values()) < 0:
            raise refused(axis, f"damping and friction of joint '{name}' must not be negative")
        return {
            "lower": lower if lower > -UNLIMITED else -np.inf,
            "upper": upper if upper < UNLIMITED else np.inf,
            **{k: v if 0 <= v < UNLIMITED else np.inf for k, v in bounds.items()},
            **force,
            "stiffness": _number(axis, "dynamics/spring_stiffness", 0.0),
            "rest": _number(axis, "dynamics/spring_reference", 0.0),
        }

    def followings(self, connections: Sequence[Connection]) -> list[Following]:
        """The gearboxes, theta_2 = -ratio theta_1: the angles from the reference body to the parent
        link about the first axis, and to the child link about the second.
        """
        found = []
        for gear in self.gears:
            reference = _text(gear, "gearbox_reference_body")
            ends = [
                self._angle(gear, connections, reference, _text(gear, role), axis)
                for role, axis in (("parent", "axis"), ("child", "axis2"))
            ]
            (source, s1), (joint, s2) = ends
            ratio = -_number(gear, "gearbox_ratio") * s1 * s2
            found.append(Following(gear.sourceline, joint, source, ratio, 0.0))
        return found

    def _angle(
        self, gear: Element, connections: Sequence[Connection], reference: str, link: str, axis: str
    ) -> tuple[str, float]:
        """The joint from the reference body of a gearbox to a link, and the sign of its angle."""
        name = required(gear, "name")
        for c in connections:
            if {c.parent, c.child} == {reference, link} and isinstance(c.joint, Revolute):
                own = self.poses[c.name].E.T @ np.array(c.joint.axis)
                given = self._gear_axis(gear, axis)
                along = own @ given / np.linalg.norm(given)
                if abs(along) < 0.99:
                    raise refused(gear, f"the {axis} of gearbox '{name}' is not that of '{c.name}'")
                outward = 1.0 if c.parent == reference else -1.0
                return c.name, float(np.sign(along)) * outward
        text = f"gearbox '{name}' needs a revolute joint between '{reference}' and '{link}'"
        raise refused(gear, text)

    def _gear_axis(self, gear: Element, which: str) -> Array:
        """The axis of a gearbox in the coordinates of the model."""
        axis = gear.find(which)
        if axis is None:
            raise refused(gear, f"gearbox '{gear.get('name')}' needs an <{which}>")
        u = np.array(floats(axis, _text(axis, "xyz", "0 0 1"), 3, "<xyz>"))
        if not np.any(u):
            raise refused(axis, f"the axis of gearbox '{gear.get('name')}' is zero")
        in_model = _text(axis, "use_parent_model_frame", "0") in ("1", "true")
        if in_model or self.version == "1.4":
            return u
        E = (pose(gear) @ self.poses[self._link_of(gear, _text(gear, "child"))]).E
        return np.asarray(E.T @ u)

    def origin(self, links: Sequence[Link], connections: Sequence[Connection]) -> Transform | None:
        """Where the link that hangs on no joint is in the coordinates of the model."""
        children_ = {c.child for c in connections}
        roots = [link.name for link in links if link.name not in children_]
        return self.poses[roots[0]] if roots else None


def _pitch(element: Element) -> float:
    """The pitch of a screw [m/rad]: of <screw_thread_pitch>, m a turn, or of the old
    <thread_pitch>, which is -rad/m.
    """
    if element.find("screw_thread_pitch") is not None:
        return _number(element, "screw_thread_pitch") / (2 * np.pi)
    turns = _number(element, "thread_pitch", 1.0)
    if turns == 0.0:
        raise refused(element, "the <thread_pitch> of a screw is zero")
    return -1.0 / turns
