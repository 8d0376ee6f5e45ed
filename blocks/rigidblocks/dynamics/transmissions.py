"""Rotors and gears of a mechanism: inertia that joints feel, and joints that move as others do
(RBDA 9.6).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from rigidblocks.algebra.linear import positive_solution
from rigidblocks.algebra.scalar import is_traced
from rigidblocks.algebra.spatial import Array
from rigidblocks.dynamics.elements import AlongJoint, along_joint, check_name
from rigidblocks.dynamics.gears import projected_dynamics
from rigidblocks.dynamics.hybrid import JointDynamics
from rigidblocks.dynamics.inverse import rnea
from rigidblocks.dynamics.joint_space import crba
from rigidblocks.dynamics.laws import Number, Numbers
from rigidblocks.model.tree import Tree


@dataclass(frozen=True)
class Rotor(Numbers):
    """A rotor that turns fast behind the gear of a joint: D_i = S^T U + ratio^2 inertia (RBDA Eq
    9.28).

    `inertia` [kg m^2] is the rotor's own, and `ratio` its speed over the joint's (rad/m at a joint
    that slides). It leaves out what is small: the rotor's mass, and its gyroscopic forces. Raises
    ValueError for an inertia that is negative and a ratio of zero.
    """

    name: str
    joint: str | int | AlongJoint
    inertia: Any
    ratio: Any = 1.0
    quantities: ClassVar = {
        "inertia": Number("inertia", "inertia of the rotor", 0.0),
        "ratio": Number("ratio", "speed of the rotor over speed of the joint"),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_transmission(self)

    def units(self, model: Tree) -> dict[str, str]:
        """The units of its numbers; raises ValueError where the model has no such joint."""
        length = along_joint(self.joint).units(model)["length"]
        return {"inertia": "kg.m2", "ratio": "1" if length == "rad" else "rad/m"}


@dataclass(frozen=True)
class Gear(Numbers):
    """A joint that moves as another one does: a pair of gears, a belt, a rack, a mimic joint.

        q_driven = ratio q_by + offset

    The constraint is kept exactly, by the equations of motion in independent variables or, in a
    plant with loops, by a constraint beside those of the loops. Either joint may have a motor. A
    driven joint may drive others. Raises ValueError for a ratio of zero.
    """

    name: str
    driven: str | int | AlongJoint
    by: str | int | AlongJoint
    ratio: Any = 1.0
    offset: Any = 0.0
    quantities: ClassVar = {
        "ratio": Number("ratio", "speed of the driven joint over speed of the driving one"),
        "offset": Number("length", "position of the driven joint where the driving one has none"),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_transmission(self)

    def units(self, model: Tree) -> dict[str, str]:
        """The units of its numbers; raises ValueError where the model has no such joints."""
        driven, by = (along_joint(one).units(model)["length"] for one in (self.driven, self.by))
        return {"ratio": "1" if driven == by else f"{driven}/{by}", "length": driven}


class Drive(NamedTuple):
    """What drives a variable: number `by` of the independent ones, with q = ratio q_by + offset."""

    by: int
    ratio: Any
    offset: Any


class Transmissions(NamedTuple):
    """The rotors and gears of a model: the inertia (nv,) that is felt at the joints alone [kg m^2,
    kg], and what drives each variable that is driven, by the numbers of variables in qd.
    """

    rotor_inertia: Array
    driven: Mapping[int, Drive]

    @property
    def matrix(self) -> Array:
        """G (nv, ny) of qd = G yd, yd those of the independent variables in order."""
        count = len(self.rotor_inertia)
        independent = [k for k in range(count) if k not in self.driven]
        G = np.zeros((count, len(independent)), dtype=object)
        G[independent, range(len(independent))] = 1.0
        for k, drive in self.driven.items():
            G[k, independent.index(drive.by)] = drive.ratio
        return _plain(G)


def transmissions(model: Tree, parts: Iterable[Rotor | Gear]) -> Transmissions:
    """The rotors and gears together.

    Raises ValueError for a joint that is driven twice, or by itself through others.
    """
    inertia: Array = np.zeros(model.nv, dtype=object)
    given: dict[int, Drive] = {}
    for part in parts:
        if isinstance(part, Rotor):
            k = along_joint(part.joint).variables(model)[1]
            inertia[k] = inertia[k] + part.ratio * part.ratio * part.inertia
            continue
        k, by = (along_joint(joint).variables(model)[1] for joint in (part.driven, part.by))
        if k in given:
            raise ValueError(f"{_joint_of(model, k)} is driven by two gears")
        given[k] = Drive(by, part.ratio, part.offset)
    return Transmissions(_plain(inertia), {k: _from_independent(model, given, k) for k in given})


def on_gears(model: Tree, driven: Mapping[int, Drive], q: Array, qd: Array) -> tuple[Array, Array]:
    """q and qd with the variables that are driven where their gears have them."""
    positions, moved, speeds = _positions(model), list(q), list(qd)
    for k, (by, ratio, offset) in driven.items():
        moved[positions[k]] = ratio * q[positions[by]] + offset
        speeds[k] = ratio * qd[by]
    return np.array(moved), np.array(speeds)


def gear_constraints(model: Tree, driven: Mapping[int, Drive], q: Array) -> tuple[Array, Array]:
    """K (n, nv) and delta (n,): a row for each driven variable, K qd = 0, and how far the positions
    are off.
    """
    positions = _positions(model)
    K: Array = np.zeros((len(driven), model.nv), dtype=object)
    delta = []
    for row, (k, (by, ratio, offset)) in zip(K, driven.items(), strict=True):
        row[k], row[by] = 1.0, -ratio
        delta.append(q[positions[k]] - (ratio * q[positions[by]] + offset))
    return _plain(K), np.array(delta)


def geared_accelerations(
    model: Tree,
    given: Transmissions,
    q: Array,
    qd: Array,
    qdd: Array,
    tau: Array,
    prescribed: tuple[int, ...] = (),
    f_ext: Array | None = None,
    gravity: Array | None = None,
) -> JointDynamics:
    """The accelerations (nv,) of all variables, and the forces (nv,) that the `prescribed` ones
    take, which are independent variables and move with their part of qdd.

        G1^T H G1 ydd1 = G1^T (tau - C - H G2 ydd2)      (RBDA Eq 9.26 and 9.2)

    H has the inertia of rotors on its diagonal.
    """
    G = given.matrix
    independent = [k for k in range(model.nv) if k not in given.driven]
    free = [j for j, k in enumerate(independent) if k not in prescribed]
    ydd2 = np.array([qdd[k] if k in prescribed else 0.0 for k in independent])
    known = G @ ydd2
    H = crba(model, q) + np.diag(given.rotor_inertia)
    bias = rnea(model, q, qd, known, f_ext, gravity) + given.rotor_inertia * known
    H1, u1 = projected_dynamics(H, tau - bias, G[:, free])
    found = G[:, free] @ positive_solution(H1, u1)
    left = G.T @ (bias + H @ found - tau)
    forces = np.zeros(model.nv, dtype=left.dtype)
    for j, k in enumerate(independent):
        if k in prescribed:
            forces[k] = left[j]
    return JointDynamics(known + found, forces)


def _check_transmission(part: Rotor | Gear) -> None:
    check_name(part.name)
    if isinstance(part.ratio, float | int) and part.ratio == 0:
        raise ValueError(f"the ratio of the {type(part).__name__} '{part.name}' must not be zero")


def _from_independent(model: Tree, given: Mapping[int, Drive], k: int) -> Drive:
    """What drives variable k, in the terms of the independent one at the end of the chain."""
    drive, seen = given[k], {k}
    while drive.by in given:
        if drive.by in seen:
            raise ValueError(f"{_joint_of(model, k)} is driven by itself")
        seen.add(drive.by)
        before = given[drive.by]
        offset = drive.ratio * before.offset + drive.offset
        drive = Drive(before.by, drive.ratio * before.ratio, offset)
    if drive.by in seen:
        raise ValueError(f"{_joint_of(model, k)} is driven by itself")
    return drive


def _positions(model: Tree) -> dict[int, int]:
    """Where the variables that are rates of positions have those."""
    joints = zip(model.joint, model.q_slices, model.v_slices, strict=True)
    return {
        v.start + j: q.start + j
        for joint, q, v in joints
        if joint.nq == joint.nv
        for j in range(joint.nv)
    }


def _joint_of(model: Tree, k: int) -> str:
    return next(
        name for name, v in zip(model.joint_names, model.v_slices, strict=True) if k < v.stop
    )


def _plain(array: Array) -> Array:
    """The array as one of floats where nothing in it is traced."""
    return array if any(is_traced(x) for x in array.flat) else array.astype(float)
