"""MJCF reader: read the model (mjModel) that the package mujoco compiles from a file."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.common.format_error import FormatError, file_error
from rigidblocks.common.optional_imports import install_command
from rigidblocks.common.xml_reader import Element
from rigidblocks.robot.joints import Fixed, Joint, Prismatic, Revolute, SixDoF, Spherical
from rigidblocks.robot.robot_description import (
    Actuator,
    Weightless,
    unused_name,
)
from rigidblocks.robot_description.external_parsers import compiled_model, is_installed
from rigidblocks.robot_description.mjcf_elements import (
    box_drags,
    excluded_geom_pairs,
    placement,
    planes,
    shapes,
)
from rigidblocks.robot_description.mjcf_tendons import (
    AT_JOINT,
    AT_SITE,
    TENDON_LENGTH,
    actuator_line,
    has_unread_tendon,
    is_path,
    point_springs,
    tendons,
    wraps_of,
)
from rigidblocks.robot_description.parsed_links import (
    WORLD,
    Assembly,
    Connection,
    Link,
    ParsedMimicJoint,
    weightless,
)
from rigidblocks.robot_description.schema_coverage import MJCF, unread_elements
from rigidblocks.robot_description.sensor_elements import Names, read_sensors, sensor_names
from rigidblocks.robot_description.unit_heuristics import suspicious_numbers
from rigidblocks.spatial.rigid_motion import (
    IDENTITY,
    quaternion_rotation,
    vector_from_quaternion,
)
from rigidblocks.spatial.spatial import Array, identity, mcI, xlt

REST = "world"  # the name of the fixed base in MuJoCo
FREE, BALL = 0, 1  # mjtJoint: free, ball, slide, hinge
CONNECT, WELD, JOINT, TENDON = range(4)  # mjtEq
BODY, AT_SITES = 1, 6  # mjtObj
INTEGRATOR, FILTER_EXACT = 1, 3  # mjtDyn: 0 is no activation, 2 and 3 are filters
AFFINE = 1  # mjtGain and mjtBias: 0 is a fixed gain or no bias


def read_mjcf(root: Element, path: Path, *, strict: bool) -> Assembly:
    """Return the links, joints and other elements of an MJCF file.

    The MuJoCo compiler reads the file. `root` is the <mujoco> element of the file and provides the
    line numbers of warnings. Positions of hinges and slides are relative to their `ref`. `strict`
    is as in `read_urdf`.

    Raises:
        FormatError: The package mujoco is not installed or rejects the file, or the file has an
            unsupported element that affects the motion.
    """
    if not is_installed("mujoco"):
        text = f"an MJCF file needs the package mujoco: `{install_command('mujoco')}`"
        raise file_error(path, None, text)
    try:
        m = compiled_model(path)
    except FormatError:
        raise
    except ValueError as error:
        line = re.search(r"[Ll]ine(?: number=|s? )(\d+)", str(error))
        text = f"MuJoCo cannot compile the file: {error}"
        raise file_error(path, int(line[1]) if line else None, text) from None
    _disable(m)
    _check_known(path, m)
    reader = _Reader(path, m, root)
    sensors, unread = read_sensors(m, reader.names(), root)
    return Assembly(
        path,
        _name(m.names, 0) or path.stem,
        reader.links,
        reader.connections,
        reader.mimic_joints(),
        gravity=[0.0, 0.0, 0.0] if "gravity" in m.disabled else m.opt.gravity.tolist(),
        loops=True,
        strict=strict,
        warnings=reader.warnings,
        report=lambda: (
            *unread_elements(root, MJCF),
            *unread,
            *(why for _, why in suspicious_numbers(reader.links, reader.connections)),
        ),
        actuators=reader.actuators(),
        springs=point_springs(m, reader.body, reader.tendon),
        collision_exclusions=reader.excluded_pairs(),
        planes=[(reader.body[b] or REST, plane) for b in range(m.nbody) for plane in planes(m, b)],
        start=reader.start(),
        keyframes=reader.keyframes(),
        weightless=reader.weightless(),
        tendons=tendons(m, reader.joint, reader.body, reader.tendon),
        drags=box_drags(m, reader.body),
        sensors=sensors,
    )


def _name(names: bytes, start: int) -> str:
    return names[start : names.index(b"\0", start)].decode(errors="replace")


def _disable(m: Any) -> None:
    """Remove the elements of the model that flags in <option> disable.

    The flags can disable springs, dampers, friction, limits, equality constraints and actuators.
    """
    for flag, arrays in _DISABLED.items():
        if flag in m.disabled:
            for name in arrays:
                if hasattr(m, name):
                    setattr(m, name, np.zeros_like(getattr(m, name)))
    if "actuation" in m.disabled:
        m.nu = 0
    if {"spring", "damper"} <= m.disabled or "passive" in m.disabled:  # disables all passive forces
        m.opt.density = m.opt.viscosity = 0.0
        m.body_gravcomp = np.zeros_like(m.body_gravcomp)


_PASSIVE = {
    "spring": ("jnt_stiffness", "jnt_stiffnesspoly", "tendon_stiffness", "tendon_stiffnesspoly"),
    "damper": ("dof_damping", "dof_dampingpoly", "tendon_damping", "tendon_dampingpoly"),
}
_DISABLED = {
    **_PASSIVE,
    "passive": (*_PASSIVE["spring"], *_PASSIVE["damper"]),  # MuJoCo <= 3.3 has only this flag
    "constraint": (
        "eq_active0", "dof_frictionloss", "tendon_frictionloss", "jnt_limited", "tendon_limited",
    ),
    "equality": ("eq_active0",),
    "frictionloss": ("dof_frictionloss", "tendon_frictionloss"),
    "limit": ("jnt_limited", "tendon_limited"),
    "clampctrl": ("actuator_ctrllimited",),
}  # fmt: skip


def _check_known(path: Path, m: Any) -> None:
    """Reject a model with unsupported elements that affect the motion."""
    unknown = {
        "tendons that are neither sums of joint positions nor paths through sites": (
            has_unread_tendon(m)
        ),
        "wind": np.any(m.opt.wind) and (m.opt.density or m.opt.viscosity),
        "fluid forces on ellipsoids": np.any(m.geom_fluid) and (m.opt.density or m.opt.viscosity),
        "springs with the attribute springyield": _any(m, "jnt_springyield")
        or _any(m, "tendon_springyield"),
        "soft bodies": m.nflex,
        "plugins": m.nplugin,
    }
    for part in ("dof_dampingpoly", "jnt_stiffnesspoly", "actuator_armature", "actuator_damping"):
        unknown[part] = np.any(getattr(m, part, 0))
    if found := [name for name, there in unknown.items() if there]:
        text = f"the file has {' and '.join(found)}, which affect the motion and are not supported"
        raise file_error(path, None, text)


def _any(m: Any, name: str) -> bool:
    """Return True if the array `name` exists in this MuJoCo version and has a nonzero element."""
    return bool(np.any(getattr(m, name, 0)))


class _JointEquation(NamedTuple):
    """Constraint of joint positions q_j, which are relative to `ref`.

        sum_j weights[j] q_j = constant + sum_k curve[k] y^(k + 2)

    `weights` contains the coefficients by joint index, and `line` the line in the file or None. If
    `curve` is not empty, the constraint has two joints, and y is the position of the second one.
    """

    weights: dict[int, float]
    constant: float
    line: int | None
    curve: tuple[float, ...] = ()


class _Reader:
    """Reader that converts the bodies of a compiled model to links and joints."""

    def __init__(self, path: Path, m: Any, root: Element):
        self.path, self.m, self.warnings = path, m, list[str]()
        written = root.findall("equality/*")
        is_whole = len(written) == m.neq  # False if other files contain constraints
        self.equality_lines = [e.sourceline if is_whole else None for e in written]
        self.equality_lines += [None] * (m.neq - len(written))
        motors, count = root.findall("actuator/*"), len(m.actuator_trntype)
        self.actuator_lines = [e.sourceline for e in motors] if len(motors) == count else []
        self.body = [WORLD, *self._names("body", m.nbody)[1:]]
        self.tendon = self._names("tendon", m.ntendon)
        self.joint = self._names("jnt", m.njnt, "joint")
        self.link_names, self.joint_names = {REST, *self.body}, set(self.joint)
        self.links: list[Link] = []
        self.connections: list[Connection] = []
        self.equations = self._insert_locked(self._joint_equations())
        if m.body_geomnum[0] and m.nbody > 1:
            self._add_world()
        for b in range(1, m.nbody):
            self._add(b)
        self.connections += self._loops()
        used = {spring.name for spring in point_springs(m, self.body, self.tendon)}
        used |= {tendon.name for _, tendon in tendons(m, self.joint, self.body, self.tendon)}
        pulled = m.actuator_trnid[m.actuator_trntype == TENDON_LENGTH, 0].tolist()
        used |= {self.tendon[t] for t in pulled}
        lines = [element.sourceline for element in root.findall("tendon/*")]
        tendon_lines = lines if len(lines) == m.ntendon else []
        for t in dict.fromkeys(pulled):
            if getattr(m, "tendon_actfrclimited", [False] * m.ntendon)[t]:  # not in older versions
                where = f"line {tendon_lines[t]}: " if tendon_lines else ""
                text = f"tendon '{self.tendon[t]}': the actuatorfrcrange is not read"
                self.warnings.append(f"{where}{text}")
        for e, _ in self._equalities(TENDON):
            used |= {self.tendon[t] for t in (m.eq_obj1id[e], m.eq_obj2id[e]) if t >= 0}
        paths = [name for t, name in enumerate(self.tendon) if name in used and is_path(m, t)]
        if paths and {"force", "torque"} & {*m.sensor_kind}:
            text = "force and torque sensors measure the forces of spatial tendons such as"
            self.warnings.append(f"{text} '{paths[0]}', unlike in MuJoCo 4")
        if m.ntendon > len(used):
            self.warnings.append("tendons that exert no force are ignored")
        if controlled := [
            f"'{name}'"
            for name, ctrl in zip(self._names("key", m.nkey), m.key_ctrl, strict=True)
            if np.any(ctrl)
        ]:
            text = f"the controls of the keyframes {', '.join(controlled)} are not read"
            self.warnings.append(text)
        if {"contact", "constraint"} & m.disabled:
            self.warnings.append("the flag that disables contact is not read: bodies can touch")
        for b in np.flatnonzero(m.body_mocapid >= 0).tolist():
            text = "is a mocap body, which stays at its pose in the file"
            self.warnings.append(f"body '{self.body[b]}' {text}")
        if np.any(m.qpos0[self._scalar_positions()]):
            self.warnings.append("joint positions are relative to the attribute ref of each joint")

    def _names(self, kind: str, count: int, default: str = "") -> list[str]:
        """Return the names of the first `count` elements of the MuJoCo type `kind`.

        An unnamed element has the name `default` followed by its index. If `default` is empty,
        `kind` replaces it.
        """
        names = [_name(self.m.names, a) for a in getattr(self.m, f"name_{kind}adr")][:count]
        taken = {*names, REST}
        for i, name in enumerate(names):
            if not name:
                names[i] = unused_name(f"{default or kind}{i}", taken)
                taken.add(names[i])
        return names

    def names(self) -> Names:
        return Names(self.body, self.joint, sensor_names(self.m))

    def _joint_name(self, name: str) -> str:
        """Reserve and return a unique joint name, which is or begins with `name`."""
        return self._reserve_name(name, self.joint_names)

    def _link_name(self, name: str) -> str:
        """Reserve and return a unique link name, which is or begins with `name`."""
        return self._reserve_name(name, self.link_names)

    def _reserve_name(self, name: str, taken: set[str]) -> str:
        name = unused_name(name, taken)
        taken.add(name)
        return name

    def _scalar_positions(self) -> list[int]:
        """Return the indices in qpos of hinge and slide joints."""
        return [
            int(a) for a, k in zip(self.m.jnt_qposadr, self.m.jnt_type, strict=True) if k > BALL
        ]

    def _add_world(self) -> None:
        """Add the world body as a link that is fixed to the base of the robot."""
        seen, touching = shapes(self.m, 0, self.warnings)
        self.links.append(Link(REST, 0, appearance=tuple(seen), contact=tuple(touching)))
        name = self._joint_name(f"{REST}_mount")
        self.connections.append(Connection(name, 0, WORLD, REST, Fixed(), identity()))

    def excluded_pairs(self) -> list[tuple[str, str]]:
        """Return the body pairs without contacts; warn if only some geom pairs are excluded."""
        none, some = excluded_geom_pairs(self.m)
        names = [REST, *self.body[1:]]
        if some:
            pairs = ", ".join(f"'{names[a]}' and '{names[b]}'" for a, b in some[:3])
            text = "touch with only some of their geoms in the file, but here with all geoms"
            self.warnings.append(f"{pairs}{' and others' * (len(some) > 3)} {text}")
        return [(names[a], names[b]) for a, b in none]

    def _add(self, b: int) -> None:
        """Add body b and its joints.

        Between two successive joints of the body, the method adds a massless link.
        """
        m, parent = self.m, self.body[self.m.body_parentid[b]]
        X = placement(m.body_pos[b], m.body_quat[b])
        first, count = int(m.body_jntadr[b]), int(m.body_jntnum[b])
        self.links.append(self._link(b))
        if not count:
            name = self._joint_name(f"{self.body[b]}_mount")
            self.connections.append(Connection(name, 0, parent, self.body[b], Fixed(), X))
        held = self._locked_joints()
        for j in range(first, first + count):
            last = j == first + count - 1
            child = self.body[b] if last else self._link_name(f"{self.body[b]}_{self.joint[j]}")
            if not last:
                self.links.append(Link(child, 0))
            anchor = xlt(m.jnt_pos[j].copy())
            joint = self._joint_of(j)
            Xp, Xs = (identity(),) * 2 if isinstance(joint, SixDoF) else (anchor @ X, anchor)
            properties = self._joint_properties(j, joint)
            if j in held:
                Xp = joint.jcalc(np.array([held[j]]), np.zeros(1)).XJ @ Xp
                joint, properties = Fixed(), {}
            self.connections.append(
                Connection(self.joint[j], 0, parent, child, joint, Xp, Xs, properties)
            )
            parent, X = child, identity()

    def _link(self, b: int) -> Link:
        m = self.m
        seen, touching = shapes(m, b, self.warnings)
        X = placement(m.body_ipos[b], m.body_iquat[b])
        I = X.E.T @ np.diag(m.body_inertia[b]) @ X.E
        inertia = mcI(float(m.body_mass[b]), X.r, (I + I.T) / 2)
        return Link(self.body[b], 0, inertia, tuple(seen), tuple(touching))

    def _joint_of(self, j: int) -> Joint:
        x, y, z = self.m.jnt_axis[j].tolist()
        match int(self.m.jnt_type[j]):
            case 0:
                return SixDoF()
            case 1:
                return Spherical()
            case 2:
                return Prismatic((x, y, z))
        return Revolute((x, y, z))

    def _joint_properties(self, j: int, joint: Joint) -> dict[str, Any]:
        m, at = self.m, int(self.m.jnt_dofadr[j])
        dofs = slice(at, at + joint.nv)
        values: dict[str, Any] = {
            "damping": m.dof_damping[dofs],
            "friction": m.dof_frictionloss[dofs],
            "armature": m.dof_armature[dofs],
        }
        if joint.nv > 1:
            return self._add_spring(j, values)
        ref = m.qpos0[m.jnt_qposadr[j]]
        if m.jnt_limited[j]:
            values |= {"lower": m.jnt_range[j, 0] - ref, "upper": m.jnt_range[j, 1] - ref}
        if m.jnt_actfrclimited[j]:
            lower, upper = np.abs(m.jnt_actfrcrange[j])
            values["effort"] = min(lower, upper)
            if lower != upper:
                text = f"joint '{self.joint[j]}' has an asymmetric actuatorfrcrange"
                self.warnings.append(f"{text}; the limit of its force is {values['effort']:g}")
        rest = m.qpos_spring[m.jnt_qposadr[j]] - ref
        return values | {"stiffness": m.jnt_stiffness[j], "rest": rest}

    def _add_spring(self, j: int, values: dict[str, Any]) -> dict[str, Any]:
        """Add the spring of a ball or free joint j to its joint properties; return the properties.

        In MJCF, the stiffness of such a joint is equal in all degrees of freedom. The method adds a
        warning for a joint limit, and for dry friction of a free joint, which are not supported.
        """
        m, at = self.m, int(self.m.jnt_qposadr[j])
        free = m.jnt_type[j] == FREE
        if free and np.any(values["friction"]):
            text = "has dry friction along fixed axes, which is not read"
            self.warnings.append(f"free joint '{self.joint[j]}' {text}")
            values = values | {"friction": 0.0}
        if m.jnt_limited[j]:
            self.warnings.append(f"the limit of ball joint '{self.joint[j]}' is not read")
        if not m.jnt_stiffness[j]:
            return values
        place = m.qpos_spring[at : at + 3] if free else np.zeros(0)
        turn = _unit(m.qpos_spring[at + 3 : at + 7] if free else m.qpos_spring[at : at + 4])
        rest = np.concatenate([vector_from_quaternion(turn), place])
        return values | {"stiffness": m.jnt_stiffness[j], "rest": rest}

    def _equality_error(self, line: int | None, text: str) -> FormatError:
        return file_error(self.path, line, f"an <equality> constraint {text}")

    def _equalities(self, *kinds: int) -> Iterator[tuple[int, Array]]:
        """Yield pairs (index, eq_data) of the active equality constraints of the given types."""
        m = self.m
        for e in range(m.neq):
            if m.eq_active0[e] and m.eq_type[e] in kinds:
                yield e, m.eq_data[e]

    def _locked_joints(self) -> dict[int, float]:
        """Return the positions of locked hinges and slides by joint index, relative to `ref`."""
        return {
            joint: equation.constant / weight
            for equation in self.equations
            if len(equation.weights) == 1
            for joint, weight in equation.weights.items()
        }

    def _joint_equations(self) -> list[_JointEquation]:
        """Return the equality constraints of joints and fixed tendons as equations.

        x and y are joint positions or tendon lengths relative to the initial state. MuJoCo defines
        x = a0 + a1 y + a2 y^2 + a3 y^3 + a4 y^4, or x = a0 without a second joint or tendon. The
        function rejects equations with powers of y if x or y depends on several joints.
        """
        m, found = self.m, []
        for e, data in self._equalities(JOINT, TENDON):
            kind, line = m.eq_type[e], self.equality_lines[e]
            sides = [(int(m.eq_obj1id[e]), 1.0)]
            if m.eq_obj2id[e] >= 0:
                sides.append((int(m.eq_obj2id[e]), -float(data[1])))
                if np.any(data[2:5]):
                    found.append(self._polynomial_equation(kind, e, line))
                    continue
            weights: dict[int, float] = {}
            for number, factor in sides:
                for joint, weight in self._joint_terms(kind, number, line):
                    weights[joint] = weights.get(joint, 0.0) + factor * weight
            weights = {joint: weight for joint, weight in weights.items() if weight}
            if kind == TENDON and len(weights) not in (1, 2):
                text = f"of tendons must couple one or two joints, but couples {len(weights)}"
                raise self._equality_error(line, text)
            found.append(_JointEquation(weights, float(data[0]), line))
        return found

    def _polynomial_equation(self, kind: int, e: int, line: int | None) -> _JointEquation:
        """Return the equality constraint e with powers of y (`_joint_equations`)."""
        sides = (int(self.m.eq_obj1id[e]), int(self.m.eq_obj2id[e]))
        one, two = (
            [(joint, weight) for joint, weight in self._joint_terms(kind, number, line) if weight]
            for number in sides
        )
        polycoef = self.m.eq_data[e][:5]
        if len(one) != 1 or len(two) != 1 or one[0][0] == two[0][0]:
            polynomial = " ".join(f"{value:g}" for value in polycoef)
            text = f"with polycoef {polynomial} needs two tendons of one joint each"
            raise self._equality_error(line, f"of tendons {text}")
        (joint, weight), (source, scale) = one[0], two[0]
        a0, a1, *curve = (polycoef * scale ** np.arange(5.0) / weight).tolist()
        while curve and not curve[-1]:
            curve.pop()
        return _JointEquation({joint: 1.0, source: -a1}, a0, line, tuple(curve))

    def _insert_locked(self, equations: list[_JointEquation]) -> list[_JointEquation]:
        """Insert the positions of locked joints into the other equations, also in chains.

        An equation that locks a joint remains, and an equation of locked joints only is omitted.

        Raises:
            FormatError: An equation contradicts locked positions, or is a polynomial in a joint
                that it would lock.
        """
        locked, found = dict[int, float](), list[_JointEquation]()
        left = [*equations]
        while left:
            # equations with one unknown joint first; other equations only if none of these is left
            left.sort(key=lambda one: sum(joint not in locked for joint in one.weights))
            one = left.pop(0)
            free = [joint for joint in one.weights if joint not in locked]
            joint = next(iter(one.weights))
            if len(free) == 2 or (len(free) == 1 and len(one.weights) == 1):
                found.append(one)
                if len(free) == 1:
                    locked[joint] = one.constant / one.weights[joint]
                continue
            if one.curve and joint in locked and free:
                text = f"'{self.joint[joint]}' and '{self.joint[free[0]]}' by a polynomial, but "
                text += f"another constraint fixes '{self.joint[joint]}'; fix the other joint"
                raise self._equality_error(one.line, f"couples the joints {text}")
            known = [weight * locked[j] for j, weight in one.weights.items() if j in locked]
            constant = one.constant - sum(known)
            if one.curve:
                y = locked[[*one.weights][1]]
                constant += sum(c * y ** (k + 2) for k, c in enumerate(one.curve))
            if free:
                left.append(_JointEquation({free[0]: one.weights[free[0]]}, constant, one.line))
            elif abs(constant) > 1e-9 * max(1.0, abs(one.constant), *map(abs, known)):
                names = " and ".join(f"'{self.joint[joint]}'" for joint in one.weights)
                text = f"contradicts the positions of {names}, which other constraints fix"
                raise self._equality_error(one.line, text)
        return found

    def _joint_terms(self, kind: int, number: int, line: int | None) -> Iterator[tuple[int, float]]:
        """Yield pairs (joint, coefficient) for the joint or fixed tendon with the index `number`.

        The position of the joint or the length of the tendon is the sum of coefficient times joint
        position. `kind` is JOINT or TENDON, and `line` the line in the file for error messages.
        """
        if kind == JOINT:
            yield number, 1.0
            return
        wraps = wraps_of(self.m, number)
        if np.any(self.m.wrap_type[wraps] != AT_JOINT):
            text = f"of tendons needs fixed tendons, but '{self.tendon[number]}' is spatial"
            raise self._equality_error(line, text)
        joints, weights = self.m.wrap_objid[wraps], self.m.wrap_prm[wraps]
        yield from zip(joints.tolist(), weights.tolist(), strict=True)

    def _loops(self) -> list[Connection]:
        """Convert the equality constraints between bodies to joints."""
        m, found = self.m, []
        for e in range(m.neq):
            known = m.eq_type[e] in (JOINT, TENDON) or (
                m.eq_type[e] in (CONNECT, WELD) and m.eq_objtype[e] in (BODY, AT_SITES)
            )
            if m.eq_active0[e] and not known:
                text = "must be of the type connect, weld, joint or tendon"
                raise self._equality_error(self.equality_lines[e], text)
        for e, data in self._equalities(CONNECT, WELD):
            ends = m.eq_obj1id[e], m.eq_obj2id[e]
            sites = m.eq_objtype[e] == AT_SITES
            one, two = (self.body[m.site_bodyid[k] if sites else k] for k in ends)
            if sites:
                joint: Joint = Spherical() if m.eq_type[e] == CONNECT else Fixed()
                Xp, Xs = (placement(m.site_pos[k], m.site_quat[k]) for k in ends)
            elif m.eq_type[e] == CONNECT:
                joint = Spherical()
                Xp, Xs = xlt(data[:3].copy()), xlt(data[3:6].copy())
            else:
                joint = Fixed()
                Xp, Xs = placement(data[3:6], data[6:10]), xlt(data[:3].copy())
            name = self._joint_name(f"equality{e}")
            found.append(Connection(name, 0, one, two, joint, Xp, Xs, closes=True))
        return found

    def weightless(self) -> list[tuple[str, Weightless]]:
        """Return the masses whose weight is cancelled by the attribute gravcomp, by link name."""
        shares = self.m.body_gravcomp.tolist()
        return [
            (link.name, weightless(link, share))
            for link in self.links
            if link.name in self.body and (share := shares[self.body.index(link.name)])
        ]

    def start(self) -> dict[str, Array]:
        """Return the initial pose (quaternion, r) of each free body by joint name."""
        return {
            name: q
            for j, (name, q) in enumerate(self._positions(self.m.qpos0).items())
            if self.m.jnt_type[j] == FREE
        }

    def keyframes(self) -> dict[str, tuple[dict[str, Array], dict[str, Array]]]:
        """Return the joint positions and the joint velocities of each keyframe by name."""
        return {
            name: (self._positions(qpos), self._velocities(qpos, qvel))
            for name, qpos, qvel in zip(
                self._names("key", self.m.nkey), self.m.key_qpos, self.m.key_qvel, strict=True
            )
        }

    def _positions(self, qpos: Array) -> dict[str, Array]:
        """Return the positions of each joint by joint name.

        The position of a free joint is its pose: a quaternion, followed by the position (3,) [m].
        Hinge and slide positions are relative to `ref`.
        """
        m, found = self.m, {}
        for name, kind, at in zip(self.joint, m.jnt_type, m.jnt_qposadr, strict=True):
            if kind == FREE:
                found[name] = np.concatenate([_unit(qpos[at + 3 : at + 7]), qpos[at : at + 3]])
            elif kind == BALL:
                found[name] = _unit(qpos[at : at + 4])
            else:
                found[name] = qpos[at : at + 1] - m.qpos0[at]
        return found

    def _velocities(self, qpos: Array, qvel: Array) -> dict[str, Array]:
        """Return the velocities of each joint by joint name.

        The velocity of a free joint is [w; v] in body coordinates.
        """
        m, found = self.m, {}
        for name, kind, at, dof in zip(
            self.joint, m.jnt_type, m.jnt_qposadr, m.jnt_dofadr, strict=True
        ):
            if kind == FREE:
                E = quaternion_rotation(_unit(qpos[at + 3 : at + 7]))
                found[name] = np.concatenate([qvel[dof + 3 : dof + 6], E @ qvel[dof : dof + 3]])
            else:
                found[name] = qvel[dof : dof + (3 if kind == BALL else 1)]
        return found

    def actuators(self) -> list[tuple[list[str], Actuator]]:
        """Return pairs (names, actuator), and warn about unsupported actuators.

        The names are the joints of the actuator, or the links of its line.
        """
        found, count = [], 0 if "actuation" in self.m.disabled else len(self.m.actuator_trntype)
        for k, name in enumerate(self._names("actuator", count)):
            numbers, weights = self._moved_joints(k)
            links, line = actuator_line(self.m, k, self.body)
            locked = [j for j in numbers if j in self._locked_joints()]
            reason = self._unsupported_law(k) if numbers or line else _NO_JOINTS
            if locked:
                joint = f"'{self.joint[locked[0]]}'"
                text = f"acts on joint {joint}, which is fixed, and is ignored"
                self.warnings.append(f"{self._actuator_line(k)}actuator '{name}' {text}")
            elif reason is not None:
                text = f"actuator '{name}' {reason} and is ignored"
                self.warnings.append(f"{self._actuator_line(k)}{text}")
            elif line is not None:
                found.append((links, self._actuator(k, [], [], name)._replace(line=line)))
            else:
                joints = [self.joint[j] for j in numbers]
                found.append((joints, self._actuator(k, numbers, weights, name)))
        return found

    def _actuator_line(self, k: int) -> str:
        """Return the prefix "line N: " of a warning about actuator k, or "" if N is unknown."""
        return f"line {self.actuator_lines[k]}: " if self.actuator_lines else ""

    def _moved_joints(self, k: int) -> tuple[list[int], list[float]]:
        """Return the hinges and slides that actuator k moves, and their weights.

        The weights are the coefficients of the joint positions in the actuator length. Both lists
        are empty if the length is not a weighted sum of joint positions.
        """
        m, number = self.m, int(self.m.actuator_trnid[k, 0])
        if m.actuator_trntype[k] in (0, 1):
            return ([number], [1.0]) if m.jnt_type[number] > BALL else ([], [])
        wraps = wraps_of(m, number) if m.actuator_trntype[k] == TENDON_LENGTH else None
        if wraps is None or not np.all(m.wrap_type[wraps] == AT_JOINT):
            return [], []
        terms = dict[int, float]()
        for j, weight in zip(m.wrap_objid[wraps], m.wrap_prm[wraps], strict=True):
            terms[int(j)] = terms.get(int(j), 0.0) + float(weight)
        terms = {j: weight for j, weight in terms.items() if weight}
        return list(terms), list(terms.values())

    def _unsupported_law(self, k: int) -> str | None:
        """Return the reason why the force law of actuator k is unsupported, or None."""
        m, dynamics = self.m, int(self.m.actuator_dyntype[k])
        if m.actuator_plugin[k] >= 0 or (hasattr(m, "actuator_delay") and m.actuator_delay[k]):
            return "has a plugin or a delay"
        if dynamics == PID_STATES or m.actuator_gaintype[k] == PID_GAIN:
            inputs = _control_inputs(m, k)
            limited = m.actuator_ctrllimited[self._first_control(k) :][1 : len(inputs)]
            if "position" not in inputs or np.any(limited):
                return "is a PID controller without a position input or with a velocity range"
            return "has a slewmax" if m.actuator_dynprm[k, 1] else None
        if dynamics == DC_STATES:
            return self._unsupported_motor(k)
        if dynamics > FILTER_EXACT or max(m.actuator_gaintype[k], m.actuator_biastype[k]) > AFFINE:
            return "is not an affine actuator, a PID controller or a DC motor"
        return None

    def _unsupported_motor(self, k: int) -> str | None:
        """Return the reason why the law of DC motor k is unsupported, or None."""
        m, control = self.m, self._first_control(k)
        parts = m.actuator_gainprm[k, 2:], m.actuator_biasprm[k], m.actuator_dynprm[k, 1:]
        if _control_inputs(m, k) != ["voltage"] or any(map(np.any, parts)):
            return (
                "is a DC motor with the attribute controller, cogging, lugre, thermal or saturation"
            )
        if not m.actuator_dynprm[k, 0]:
            return None
        lower, upper = m.actuator_ctrlrange[control]
        if m.actuator_forcelimited[k] or (m.actuator_ctrllimited[control] and lower != -upper):
            return "is a DC motor with an inductance and a torque limit or an asymmetric range"
        return None

    def _first_control(self, k: int) -> int:
        """Return the index of the first control of actuator k."""
        return int(self.m.actuator_ctrladr[k]) if hasattr(self.m, "actuator_ctrladr") else k

    def _actuator(self, k: int, numbers: list[int], weights: list[float], name: str) -> Actuator:
        """Return actuator k, with gain and bias as functions of the joint positions.

        `numbers` and `weights` are the joint indices and weights of `_moved_joints`.
        """
        m = self.m
        scale = 1.0 if m.actuator_trntype[k] == AT_SITE else float(m.actuator_gear[k, 0])
        starts = (float(m.qpos0[m.jnt_qposadr[j]]) for j in numbers)
        length_at_zero = scale * sum(w * q for w, q in zip(weights, starts, strict=True))
        control = self._first_control(k)
        command, force = (
            tuple(values[at].tolist()) if limited[at] else (-np.inf, np.inf)
            for limited, values, at in (
                (m.actuator_ctrllimited, m.actuator_ctrlrange, control),
                (m.actuator_forcelimited, m.actuator_forcerange, k),
            )
        )
        first = weights[0] if weights else 1.0
        others = tuple((-1, weight / first) for weight in weights[1:])
        options: dict[str, Any] = {"control": command, "force": force, "others": others}
        options |= self._actuator_law(k, length_at_zero)
        return Actuator(name, -1, scale * first, **options)

    def _actuator_law(self, k: int, length_at_zero: float) -> dict[str, Any]:
        """Return the fields of `Actuator` that define the force law and the dynamics.

        `length_at_zero` is the length of actuator k in MuJoCo at joint position zero.
        """
        m = self.m
        bias = _shift_affine_law(m.actuator_biastype[k], m.actuator_biasprm[k], length_at_zero)
        if m.actuator_gaintype[k] == PID_GAIN:
            kp, kv = -float(m.actuator_biasprm[k, 1]), -float(m.actuator_biasprm[k, 2])
            inputs, most = _control_inputs(m, k), float(m.actuator_dynprm[k, 0])
            ki = float(m.actuator_gainprm[k, 0]), length_at_zero
            return {
                "gain": (kp, 0.0, 0.0),
                "bias": bias,
                "pid": (*ki, kv if "velocity" in inputs else 0.0),
                "feedforward": "feedforward" in inputs,
                **({"activation": (-most, most)} if most else {}),
            }
        if m.actuator_dyntype[k] == DC_STATES:
            R, constant = (float(x) for x in m.actuator_gainprm[k, :2])
            if delay := float(m.actuator_dynprm[k, 0]):
                return {"motor": "dc", "winding": (R, R * delay, constant)}
            return {"gain": (constant / R, 0.0, 0.0), "bias": (0.0, 0.0, -(constant**2) / R)}
        gain = _shift_affine_law(m.actuator_gaintype[k], m.actuator_gainprm[k], length_at_zero)
        return {"gain": gain, "bias": bias, **self._actuator_dynamics(k)}

    def _actuator_dynamics(self, k: int) -> dict[str, Any]:
        """Return the fields of `Actuator` that define the activation dynamics of actuator k."""
        m, kind = self.m, int(self.m.actuator_dyntype[k])
        if kind == 0:
            return {}
        found: dict[str, Any] = {"dynamics": "integrator"}
        time_constant = float(m.actuator_dynprm[k, 0])
        if kind != INTEGRATOR and time_constant > 0.0:
            found = {"dynamics": "filter", "time_constant": time_constant}
        elif kind != INTEGRATOR:
            return {}  # the activation follows the control without a lag
        if m.actuator_actlimited[k]:
            found["activation"] = tuple(m.actuator_actrange[k].tolist())
        return found

    def mimic_joints(self) -> list[ParsedMimicJoint]:
        """Return the joint couplings that equality constraints define."""
        found: dict[int, ParsedMimicJoint] = {}
        # a polynomial determines only its first joint, so linear equations come last
        for weights, constant, line, curve in sorted(self.equations, key=lambda one: not one.curve):
            if len(weights) == 1:
                continue
            free = [joint for joint in [*weights][: 1 if curve else 2] if joint not in found]
            if not free:
                names = " and ".join(f"'{self.joint[joint]}'" for joint in weights)
                determined = f"'{self.joint[next(iter(weights))]}'" if curve else "both"
                text = f"couples the joints {names}, but other constraints already determine "
                text += determined
                raise self._equality_error(line, text)
            one, two = free[0], next(joint for joint in weights if joint != free[0])
            ratio, offset = -weights[two] / weights[one], constant / weights[one]
            pair = self.joint[one], self.joint[two]
            found[one] = ParsedMimicJoint(line or 0, *pair, ratio, offset, curve)
        return list(found.values())


DC_STATES, PID_STATES, PID_GAIN = 5, 6, 5  # mjtDyn and mjtGain of MuJoCo 4
_INPUTS = {1: "position", 2: "velocity", 4: "feedforward", 8: "voltage"}  # mjtCtrlInput
_NO_JOINTS = (
    "does not act on a hinge, a slide, a site, a slider-crank or a tendon without wrapping geoms"
)


def _control_inputs(m: Any, k: int) -> list[str]:
    """Return the kinds of the control inputs of a PID controller or DC motor."""
    return [name for flag, name in _INPUTS.items() if int(m.actuator_ctrlspec[k]) & flag]


def _unit(quaternion: Array) -> Array:
    """Normalize a quaternion; return the identity for a zero quaternion, as MuJoCo does."""
    size = np.linalg.norm(quaternion)
    return quaternion / size if size > 0 else np.array(IDENTITY)


def _shift_affine_law(kind: int, prm: Array, length_at_zero: float) -> tuple[float, float, float]:
    """Return the coefficients of (1, position, velocity) in an actuator's gain or bias.

    `prm` contains the coefficients of (1, length, velocity) in MuJoCo. `length_at_zero` is the
    length in MuJoCo at joint position zero. For a constant gain or bias, only the first coefficient
    is nonzero. All coefficients of a bias without a type are zero.
    """
    first, second, third = (float(x) for x in prm[:3])
    if kind != AFFINE:
        return first, 0.0, 0.0
    return first + second * length_at_zero, second, third
