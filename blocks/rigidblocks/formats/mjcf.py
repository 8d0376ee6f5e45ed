"""MJCF, MuJoCo's format, as the package mujoco compiles it: what is read are the arrays of its
model.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array, identity, mcI, xlt
from rigidblocks.formats.description import Actuator
from rigidblocks.formats.geoms import pairs_apart, placement, planes, shapes
from rigidblocks.formats.listed import WORLD, Assembly, Connection, Following, Link
from rigidblocks.formats.mujoco_parser import compiled_model, is_installed
from rigidblocks.formats.refusal import FormatError, wrong
from rigidblocks.formats.tendons import acts, point_springs
from rigidblocks.joint import Fixed, Joint, Prismatic, Revolute, SixDoF, Spherical

REST = "world"  # what MuJoCo calls the body that is at rest
BALL = 1  # mjtJoint: free, ball, slide, hinge
CONNECT, WELD, JOINT = range(3)  # mjtEq
BODY = 1  # mjtObj
AFFINE = 1  # mjtGain and mjtBias: fixed or none, affine


def read_mjcf(path: Path, *, strict: bool) -> Assembly:
    """What the model lists that MuJoCo's compiler makes of a file.

    Positions of hinges and slides are counted from their `ref`. Raises FormatError where the
    package mujoco is not installed, where it refuses the file, and for what changes the motion and
    is not known here.
    """
    if not is_installed():
        text = "this is MJCF, which the package mujoco compiles; `pip install rigidblocks[mujoco]`"
        raise wrong(path, None, text)
    try:
        m = compiled_model(path)
    except FormatError:
        raise
    except ValueError as error:
        line = re.search(r"[Ll]ine(?: number=|s? )(\d+)", str(error))
        text = f"MuJoCo cannot compile it: {error}"
        raise wrong(path, int(line[1]) if line else None, text) from None
    _check_known(path, m)
    reader = _Reader(path, m)
    return Assembly(
        path,
        _name(m.names, 0) or path.stem,
        reader.links,
        reader.connections,
        reader.followings(),
        gravity=[0.0, 0.0, 0.0] if m.weightless else m.opt.gravity.tolist(),
        loops=True,
        strict=strict,
        warnings=reader.warnings,
        actuators=reader.actuators(),
        springs=point_springs(m, reader.body, reader.tendon),
        apart=reader.apart(),
        planes=[(REST, plane) for plane in planes(m, 0)],
    )


def _name(names: bytes, start: int) -> str:
    return names[start : names.index(b"\0", start)].decode(errors="replace")


def _check_known(path: Path, m: Any) -> None:
    """Refuses what changes the motion and has no place in the record."""
    unknown = {
        "tendons that act and are no springs between two points": acts(m),
        "a fluid": m.opt.density or m.opt.viscosity,
        "gravity compensation": np.any(m.body_gravcomp),
        "soft bodies": m.nflex,
        "plugins": m.nplugin,
        "moving markers (mocap)": m.nmocap,
    }
    for part in ("dof_dampingpoly", "jnt_stiffnesspoly", "actuator_armature", "actuator_damping"):
        unknown[part] = np.any(getattr(m, part, 0))
    if found := [name for name, there in unknown.items() if there]:
        text = f"the file has {' and '.join(found)}, which change the motion and are not read"
        raise wrong(path, None, text)


class _Reader:
    """The bodies of a compiled model as links, and its joints between them."""

    def __init__(self, path: Path, m: Any):
        self.path, self.m, self.warnings = path, m, list[str]()
        self.body = [WORLD, *self._names("body", m.nbody)[1:]]
        self.tendon = self._names("tendon", m.ntendon)
        self.joint = self._names("jnt", m.njnt, "joint")
        self.links: list[Link] = []
        self.connections: list[Connection] = []
        if m.body_geomnum[0] and m.nbody > 1:
            self._add_rest()
        for b in range(1, m.nbody):
            self._add(b)
        self.connections += self._loops()
        if m.ntendon > len(point_springs(m, self.body, self.tendon)):
            self.warnings.append("its tendons, which have no force of their own, are not read")
        if np.any(m.qpos0[self._single()]):
            self.warnings.append("positions of joints are counted from their ref")

    def _names(self, kind: str, count: int, word: str = "") -> list[str]:
        names = [_name(self.m.names, a) for a in getattr(self.m, f"name_{kind}adr")]
        return [name or f"{word or kind}{i}" for i, name in enumerate(names[:count])]

    def _single(self) -> list[int]:
        """Where the hinges and slides have their positions in qpos."""
        return [
            int(a) for a, k in zip(self.m.jnt_qposadr, self.m.jnt_type, strict=True) if k > BALL
        ]

    def _add_rest(self) -> None:
        """What is at rest, as a link that is fixed to the base."""
        seen, touching = shapes(self.m, 0, self.warnings)
        self.links.append(Link(REST, 0, appearance=tuple(seen), contact=tuple(touching)))
        self.connections.append(Connection(f"{REST}_mount", 0, WORLD, REST, Fixed(), identity()))

    def apart(self) -> list[tuple[str, str]]:
        """The bodies that do not touch each other; a warning says of which some geoms do."""
        none, some = pairs_apart(self.m)
        names = [REST, *self.body[1:]]
        if some:
            pairs = ", ".join(f"'{names[a]}' and '{names[b]}'" for a, b in some[:3])
            text = "touch with some of their geoms by the file, here with all that touch anything"
            self.warnings.append(f"{pairs}{' and others' * (len(some) > 3)} {text}")
        return [(names[a], names[b]) for a, b in none]

    def _add(self, b: int) -> None:
        """Body b, on a chain of its joints with bodies of no mass between them."""
        m, parent = self.m, self.body[self.m.body_parentid[b]]
        X = placement(m.body_pos[b], m.body_quat[b])
        first, count = int(m.body_jntadr[b]), int(m.body_jntnum[b])
        self.links.append(self._link(b))
        if not count:
            name = f"{self.body[b]}_mount"
            self.connections.append(Connection(name, 0, parent, self.body[b], Fixed(), X))
        for j in range(first, first + count):
            last = j == first + count - 1
            child = self.body[b] if last else f"{self.body[b]}_{self.joint[j]}"
            if not last:
                self.links.append(Link(child, 0))
            anchor = xlt(m.jnt_pos[j].copy())
            joint = self._joint_of(j)
            Xp, Xs = (identity(),) * 2 if isinstance(joint, SixDoF) else (anchor @ X, anchor)
            freedoms = self._freedoms(j, joint)
            self.connections.append(
                Connection(self.joint[j], 0, parent, child, joint, Xp, Xs, freedoms)
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

    def _freedoms(self, j: int, joint: Joint) -> dict[str, Any]:
        m, at = self.m, int(self.m.jnt_dofadr[j])
        dofs = slice(at, at + joint.nv)
        values: dict[str, Any] = {
            "damping": m.dof_damping[dofs],
            "friction": m.dof_frictionloss[dofs],
            "armature": m.dof_armature[dofs],
        }
        if joint.nv > 1:
            if m.jnt_stiffness[j]:
                raise self._refused(f"joint '{self.joint[j]}' has a spring and several freedoms")
            return values
        ref = m.qpos0[m.jnt_qposadr[j]]
        if m.jnt_limited[j]:
            values |= {"lower": m.jnt_range[j, 0] - ref, "upper": m.jnt_range[j, 1] - ref}
        if m.jnt_actfrclimited[j]:
            values["effort"] = np.abs(m.jnt_actfrcrange[j]).min()
        rest = m.qpos_spring[m.jnt_qposadr[j]] - ref
        return values | {"stiffness": m.jnt_stiffness[j], "rest": rest}

    def _refused(self, text: str) -> FormatError:
        return wrong(self.path, None, text)

    def _equalities(self, *kinds: int) -> Iterator[tuple[int, Array]]:
        """The numbers and data of the active equality constraints of these kinds."""
        m = self.m
        for e in range(m.neq):
            if m.eq_active0[e] and m.eq_type[e] in kinds:
                yield e, m.eq_data[e]

    def _loops(self) -> list[Connection]:
        """The equality constraints between bodies as joints."""
        m, found = self.m, []
        for e in range(m.neq):
            known = m.eq_type[e] == JOINT or (
                m.eq_type[e] in (CONNECT, WELD) and m.eq_objtype[e] == BODY
            )
            if m.eq_active0[e] and not known:
                raise self._refused(
                    "of equalities connect, weld and joint are read, between bodies"
                )
        for e, data in self._equalities(CONNECT, WELD):
            one, two = (self.body[k] for k in (m.eq_obj1id[e], m.eq_obj2id[e]))
            if m.eq_type[e] == CONNECT:
                joint: Joint = Spherical()
                Xp, Xs = xlt(data[:3].copy()), xlt(data[3:6].copy())
            else:
                joint = Fixed()
                Xp, Xs = placement(data[3:6], data[6:10]), xlt(data[:3].copy())
            found.append(Connection(f"equality{e}", 0, one, two, joint, Xp, Xs))
        return found

    def actuators(self) -> list[tuple[str, Actuator]]:
        """The actuators of hinges and slides; of others there is a warning."""
        m, names = self.m, self._names("actuator", self.m.nu)
        found = []
        for k, name in enumerate(names):
            j = int(m.actuator_trnid[k, 0])
            at_joint = m.actuator_trntype[k] in (0, 1) and m.jnt_type[j] > BALL
            plain = m.actuator_dyntype[k] == 0 and m.actuator_plugin[k] < 0
            if at_joint and plain and max(m.actuator_gaintype[k], m.actuator_biastype[k]) <= AFFINE:
                found.append((self.joint[j], self._actuator(k, j, name)))
            else:
                text = "is no servo without a state at a hinge or slide, and is not read"
                self.warnings.append(f"actuator '{name}' {text}")
        return found

    def _actuator(self, k: int, j: int, name: str) -> Actuator:
        """The actuator, with its length counted as the position of its joint j."""
        m, gear = self.m, float(self.m.actuator_gear[k, 0])
        ahead = gear * float(m.qpos0[m.jnt_qposadr[j]])
        gain, bias = (
            _from_here(m_type[k], prm[k], ahead)
            for m_type, prm in (
                (m.actuator_gaintype, m.actuator_gainprm),
                (m.actuator_biastype, m.actuator_biasprm),
            )
        )
        limits = (
            tuple(values[k].tolist()) if limited[k] else (-np.inf, np.inf)
            for limited, values in (
                (m.actuator_ctrllimited, m.actuator_ctrlrange),
                (m.actuator_forcelimited, m.actuator_forcerange),
            )
        )
        return Actuator(name, j, gear, gain, bias, *limits)

    def followings(self) -> list[Following]:
        """The joints that equality constraints make follow others."""
        found, m = [], self.m
        for e, data in self._equalities(JOINT):
            if m.eq_obj2id[e] < 0 or np.any(data[2:5]):
                raise self._refused("an equality of joints must be linear and of two joints")
            one, two = (self.joint[k] for k in (m.eq_obj1id[e], m.eq_obj2id[e]))
            found.append(Following(0, one, two, float(data[1]), float(data[0])))
        return found


def _from_here(kind: int, prm: Array, ahead: float) -> tuple[float, float, float]:
    """The three numbers of an affine law whose length is `ahead` where ours is 0. A constant has
    one: of a gain the first, of a bias none, whose numbers are zero.
    """
    first, second, third = (float(x) for x in prm[:3])
    if kind != AFFINE:
        return first, 0.0, 0.0
    return first + second * ahead, second, third
