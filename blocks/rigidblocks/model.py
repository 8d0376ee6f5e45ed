"""The system model of a kinematic tree (RBDA 4.6): structure only, no state and no results."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, pairwise
from types import ModuleType
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks import spatial
from rigidblocks.joint import Joint
from rigidblocks.spatial import Array, RigidInertia, Transform

STANDARD_GRAVITY = (0.0, 0.0, -9.81)


@dataclass(frozen=True)
class Box:
    """A drawing primitive: a box between two corners (3,) [m], in the body's frame."""

    low: tuple[float, float, float]
    high: tuple[float, float, float]


@dataclass(frozen=True)
class Cylinder:
    """A drawing primitive: a cylinder of `radius` and `height` [m] around `centre` along the x, y or z `axis`."""

    centre: tuple[float, float, float]
    radius: float
    height: float
    axis: str


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class Model:
    """A kinematic tree: bodies 0 .. nb-1, joint i from body `parent[i]` to body i, parent -1 the fixed base.

    (The book counts bodies from 1 and calls the base 0.) `Xtree[i]` takes the coordinates of body `parent[i]` to the
    predecessor frame of joint i; `inertia[i]` is in the coordinates of body i; `gravity` (3,) [m/s^2] is in base
    coordinates. `appearance[i]` lists what to draw for body i. The algorithms take vector operations from `algebra`.

    Raises ValueError for a parent not numbered below its child, for tuples of different lengths, for what is not finite,
    and for an inertia that no rigid body has.
    """

    name: str
    parent: tuple[int, ...]
    joint: tuple[Joint, ...]
    Xtree: tuple[Transform, ...]
    inertia: tuple[RigidInertia, ...]
    gravity: Array = field(default_factory=lambda: np.array(STANDARD_GRAVITY))
    body_names: tuple[str, ...] = ()
    joint_names: tuple[str, ...] = ()
    appearance: tuple[tuple[Box | Cylinder, ...], ...] = ()
    algebra: ClassVar[ModuleType] = spatial

    def __post_init__(self) -> None:
        for name in ("parent", "joint", "Xtree", "inertia"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "gravity", _gravity(self.gravity))
        object.__setattr__(self, "body_names", self.body_names or _numbered("body", self.nb))
        object.__setattr__(self, "joint_names", self.joint_names or _numbered("joint", self.nb))
        _check_structure(self)
        for i in range(self.nb):
            _check_transform(self, i)
            _check_inertia(self, i)

    @property
    def nb(self) -> int:
        """The number of bodies, and of tree joints."""
        return len(self.parent)

    @cached_property
    def nq(self) -> int:
        """The number of position variables."""
        return sum(joint.nq for joint in self.joint)

    @cached_property
    def nv(self) -> int:
        """The number of velocity variables."""
        return sum(joint.nv for joint in self.joint)

    @cached_property
    def q_slices(self) -> tuple[slice, ...]:
        """Where joint i has its position variables in q."""
        return _slices([joint.nq for joint in self.joint])

    @cached_property
    def v_slices(self) -> tuple[slice, ...]:
        """Where joint i has its velocity variables in qd, qdd and tau."""
        return _slices([joint.nv for joint in self.joint])

    def with_gravity(self, gravity: ArrayLike) -> "Model":
        """The same model in the gravity field `gravity` (3,) [m/s^2]."""
        return replace(self, gravity=np.asarray(gravity))


def _slices(sizes: Sequence[int]) -> tuple[slice, ...]:
    ends = list(accumulate(sizes, initial=0))
    return tuple(slice(a, b) for a, b in pairwise(ends))


def _numbered(what: str, count: int) -> tuple[str, ...]:
    return tuple(f"{what}{i + 1}" for i in range(count))


def _gravity(value: ArrayLike) -> Array:
    gravity = np.asarray(value)
    if gravity.shape != (3,):
        raise ValueError(f"gravity needs 3 components in m/s^2, not shape {gravity.shape}")
    if gravity.dtype != object and not np.all(np.isfinite(gravity)):
        raise ValueError(f"gravity must be finite, not {gravity}")
    gravity = gravity.copy()
    gravity.setflags(write=False)
    return gravity


def _check_structure(model: Model) -> None:
    lengths = {
        name: len(getattr(model, name)) for name in ("parent", "joint", "Xtree", "inertia", "body_names", "joint_names")
    }
    if len(set(lengths.values())) > 1:
        raise ValueError(f"model '{model.name}' needs one entry a body in every list, not {lengths}")
    for names in (model.body_names, model.joint_names):
        if double := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"model '{model.name}' has two bodies or two joints with the name {', '.join(double)}")
    if not model.parent:
        raise ValueError(f"model '{model.name}' has no bodies")
    for i, p in enumerate(model.parent):
        if not -1 <= p < i:
            raise ValueError(
                f"body {i} of model '{model.name}' has parent {p}; a parent must be numbered below its child, "
                f"so one of -1 (the base) .. {i - 1}"
            )


def _check_transform(model: Model, i: int) -> None:
    X = model.Xtree[i]
    where = f"Xtree[{i}] ({model.joint_names[i]}) of model '{model.name}'"
    if not (np.all(np.isfinite(X.E)) and np.all(np.isfinite(X.r))):
        raise ValueError(f"{where} is not finite: E = {X.E.tolist()}, r = {X.r.tolist()}")
    if np.abs(X.E @ X.E.T - np.eye(3)).max() > 1e-9 or np.linalg.det(X.E) < 0:
        raise ValueError(f"{where} has no rotation in E = {X.E.tolist()}; E E^T must be 1 and det E = 1")


def _check_inertia(model: Model, i: int) -> None:
    """Refuses a mass that is not positive, and moments that break positive definiteness or the triangle inequality."""
    inertia, where = model.inertia[i], f"body {i} ({model.body_names[i]}) of model '{model.name}'"
    m, h, I_O = inertia.m, inertia.h, inertia.I
    if not (np.isfinite(m) and np.all(np.isfinite(h)) and np.all(np.isfinite(I_O))):
        raise ValueError(f"the inertia of {where} is not finite: m = {m}, h = {h.tolist()}, I = {I_O.tolist()}")
    if m <= 0:
        raise ValueError(f"{where} has mass {m} kg; a mass must be positive")
    c = h / m
    moments = np.linalg.eigvalsh(I_O - m * (c @ c * np.eye(3) - np.outer(c, c)))
    slack = 1e-9 * moments[2] + 1e-14 * np.trace(I_O)  # rounding of the moments, and of their shift from the origin
    if moments[0] < -slack or moments[0] + moments[1] < moments[2] - slack:
        raise ValueError(
            f"the rotational inertia of {where} is not physical: its principal moments about the centre of mass are "
            f"{moments.tolist()} kg m^2; none may be negative, and the two smaller must sum to at least the largest"
        )
