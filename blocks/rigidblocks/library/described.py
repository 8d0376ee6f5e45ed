"""From what a file says of a robot to its plant."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.dynamics.elements import AlongJoint, Between, ForceElement
from rigidblocks.dynamics.laws import Friction, Spring, Stop
from rigidblocks.dynamics.sweeps import behind_six_freedoms
from rigidblocks.dynamics.transmissions import Gear, Rotor
from rigidblocks.formats.description import Freedoms, RobotDescription
from rigidblocks.joint import Prismatic
from rigidblocks.library.closed_loop_plant import ClosedLoopPlant
from rigidblocks.library.floating_plant import FloatingBasePlant
from rigidblocks.library.inertias import TunableInertia
from rigidblocks.library.joint_motors import JointMotors
from rigidblocks.library.plant import Plant, RobotPlant
from rigidblocks.model.model import Model

DIGITS = 1e-6  # to which numbers in files are written, and constraints of theirs mean anything


def described_plant(
    robot: RobotDescription,
    resistance: bool = False,
    inertias: TunableInertia | None = None,
    stops: tuple[float, float] | None = None,
) -> Plant:
    """The plant of a robot that was read from a file: a ClosedLoopPlant where joints close loops, a
    FloatingBasePlant where its base floats, else a RobotPlant; with its `described_elements`.

    With `inertias` that can be tuned a base floats on a joint of a RobotPlant. Raises ValueError
    for a joint that moves no inertia.
    """
    model: Any = robot.model  # a RobotPlant takes planar ones too
    given: dict[str, Any] = {"elements": described_elements(robot, resistance, stops)}
    given["nominal"] = described_scales(robot)
    if model.constrained:
        return ClosedLoopPlant(model, inertias=inertias, tolerance=DIGITS, **given)
    base = behind_six_freedoms(model) if isinstance(model, Model) else None
    if base is not None and inertias is None:
        given["nominal"] = described_scales(robot, base + 1)
        return FloatingBasePlant(model, **given)
    return RobotPlant(model, inertias=inertias, **given)


LEAST, MOST = 1e-3, 1e5  # of a limit that can be an order of magnitude: others stand for none


def described_scales(robot: RobotDescription, first: int = 0) -> dict[str, Array]:
    """The orders of magnitude of q, qd and tau of the joints from number `first` on, as the limits
    of a file have them: those of effort and speed, of positions of sliding joints the larger one.

    It is 1 for what has no limit, and for limits which are zero or so large that they are not
    meant. That of a position or a speed is 10 at most: the tolerances of adaptive steps go by them.
    """
    model, f = robot.model, robot.freedoms
    far = np.maximum(np.abs(f.lower), np.abs(f.upper))
    q = [
        np.minimum(_scale(far[v]), 10.0) if isinstance(joint, Prismatic) else np.ones(joint.nq)
        for joint, v in zip(model.joint, model.v_slices, strict=True)
    ]
    start = sum(joint.nv for joint in model.joint[:first])
    qd, tau = np.minimum(_scale(f.velocity), 10.0), _scale(f.effort)
    return {
        "q": np.concatenate([np.zeros(0), *q[first:]]),
        "qd": qd[start:],
        "tau": tau[start:],
    }


def _scale(limit: Array) -> Array:
    return np.where((limit >= LEAST) & (limit <= MOST), limit, 1.0)


def described_motors(robot: RobotDescription, plant: Plant) -> JointMotors:
    """The actuators of a robot as a block for the joints that its plant has in q, qd and tau: those
    behind the base of one that floats. The sum at a joint is limited by its effort.

    Raises ValueError for a robot of which the file names none.
    """
    if not robot.actuators:
        raise ValueError(f"the file of '{robot.model.name}' has no actuators that are read")
    nv = next(port.shape[0] for port in plant.inputs if port.name == "tau")
    joints, behind = list(robot.model.joint), robot.model.nv - nv
    while behind > 0:
        behind -= joints.pop(0).nv
    first = robot.model.nb - len(joints)
    there = tuple(a._replace(joint=a.joint - first) for a in robot.actuators)
    return JointMotors(tuple(joints), there, robot.freedoms.effort[robot.model.nv - nv :])


def described_elements(
    robot: RobotDescription, resistance: bool = False, stops: tuple[float, float] | None = None
) -> tuple[ForceElement | Rotor | Gear, ...]:
    """What a file says of the rotors of a robot's joints and of joints that follow others, as
    elements of its plant; with `resistance` springs, damping and dry friction too, and with `stops`
    of a stiffness [N.m/rad or N/m] and a damping, which no file says, stops at its limits.

    Those are stiff next to the small inertias of fingers and wrists: a plant with them may need an
    implicit method. An element has the name of its joint with _rotor, _gear, _spring, _friction or
    _stop; what a name cannot have becomes _.
    """
    names, f = _element_names(robot), robot.freedoms
    starts = [v.start for v in robot.model.v_slices]
    elements: list[ForceElement | Rotor | Gear] = []
    for joint, variable, k in _freedoms(robot):
        line, name = AlongJoint(joint, variable), names[k]
        if f.armature[k]:
            elements.append(Rotor(f"{name}_rotor", line, float(f.armature[k])))
        laws = [*(_resistances(f, k) if resistance else ()), *(_stop(f, k, stops) if stops else ())]
        elements += [ForceElement(f"{name}_{kind}", line, law) for kind, law in laws]
    if resistance:
        elements += described_springs(robot)
    elements += [
        Gear(f"{names[starts[c.joint]]}_gear", c.joint, c.source, c.ratio, c.offset)
        for c in robot.couplings
    ]
    return tuple(elements)


def _resistances(f: Freedoms, k: int) -> Iterator[tuple[str, Spring | Friction]]:
    """The spring and the dry friction of freedom k, where it has them, with what their names
    end in.
    """
    if f.stiffness[k] or f.damping[k]:
        yield "spring", Spring(float(f.stiffness[k]), float(f.damping[k]), float(f.rest[k]))
    if f.friction[k] or f.backward[k]:
        backward = float(f.backward[k]) if f.backward[k] != f.friction[k] else None
        yield "friction", Friction(float(f.friction[k]), backward=backward)


def _stop(f: Freedoms, k: int, stops: tuple[float, float]) -> Iterator[tuple[str, Stop]]:
    """That at the limits of freedom k, where it has any."""
    if f.lower[k] < f.upper[k] and np.isfinite([f.lower[k], f.upper[k]]).any():
        yield "stop", Stop(*stops, float(f.lower[k]), float(f.upper[k]))


def described_springs(robot: RobotDescription) -> list[ForceElement]:
    """The springs between points of a robot's bodies, each with its own name."""
    names, found = robot.model.body_names, list[ForceElement]()
    for one in robot.springs:
        other = names[one.other] if one.other >= 0 else None
        line = Between(names[one.body], one.point, other, one.other_point)
        law = Spring(one.stiffness, one.damping, one.rest)
        found.append(ForceElement(_plain(one.name, "spring"), line, law))
    return found


def _plain(name: str, kind: str) -> str:
    """The name as an identifier."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return plain if plain[:1].isalpha() else f"{kind}_{plain}"


def _freedoms(robot: RobotDescription) -> Iterator[tuple[int, int, int]]:
    """The joint, the variable of the joint, and the number of the variable in qd, for each."""
    for i, places in enumerate(robot.model.v_slices):
        for variable, k in enumerate(range(places.start, places.stop)):
            yield i, variable, k


def _element_names(robot: RobotDescription) -> list[str]:
    """A name for each variable that is an identifier and no other's."""
    names: list[str] = []
    for i, variable, _ in _freedoms(robot):
        plain = _plain(robot.model.joint_names[i], "joint")
        name = plain if robot.model.joint[i].nv == 1 else f"{plain}_{variable + 1}"
        names.append(name if name not in names else f"{name}_{len(names)}")
    return names


def resists(robot: RobotDescription) -> bool:
    """Whether a file says anything of springs, damping or dry friction."""
    f = robot.freedoms
    parts = (f.stiffness, f.damping, f.friction, f.backward)
    return bool(robot.springs) or any(bool(np.any(part)) for part in parts)
