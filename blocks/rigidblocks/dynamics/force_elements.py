"""Force elements of a mechanism: springs, dampers, friction and stops at joints or between points.

An element is a law of force along a length. What all of them do is summed up as forces at the
joints and wrenches on the bodies, for `rnea`, `aba` and their kin, so that no Jacobian is built:
J^T f of a point is what its body's wrench comes to.
"""

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.frozen import read_only
from rigidblocks.algebra.scalar import less, select
from rigidblocks.algebra.spatial import Array
from rigidblocks.dynamics.inverse import rnea
from rigidblocks.dynamics.kinematics import body_poses, body_velocities
from rigidblocks.dynamics.laws import ROTATION, TRANSLATION, Law, Number
from rigidblocks.dynamics.sweeps import body_number, joint_number
from rigidblocks.model.tree import Tree

NEAR = 1e-12  # m: points that are not farther apart have no direction


class Motion(NamedTuple):
    """The motion of a model: q (nq,), qd (nv,), and of its bodies the transforms from base
    coordinates and the velocities in their own, with those of the base behind the last, where there
    is an element that asks for them.
    """

    q: Array
    qd: Array
    X0: Sequence[Any] = ()
    v: Sequence[Array] = ()


class Loads(NamedTuple):
    """What elements do to a model: tau (nv,) at the joints, and f_ext (nb, 6), or (nb, 3) of a
    planar one, on the bodies in base coordinates.
    """

    tau: Array
    f_ext: Array


class Length(NamedTuple):
    """A length, its rate, and the loads of a force along it."""

    s: Any
    sd: Any
    loads: Callable[[Any], Loads]


class Line(abc.ABC):
    """What an element acts along."""

    between_bodies = True

    @abc.abstractmethod
    def units(self, model: Tree) -> dict[str, str]:
        """The units of the kinds of numbers along it; raises ValueError where the model has nothing
        of the kind.
        """

    @abc.abstractmethod
    def length(self, model: Tree, motion: Motion) -> Length:
        """The length in this motion."""


@dataclass(frozen=True)
class AlongJoint(Line):
    """The position of a joint, by its name or number; of one that has several the variable number
    `variable`.
    """

    joint: str | int
    variable: int | None = None
    between_bodies = False

    def units(self, model: Tree) -> dict[str, str]:
        i = joint_number(model, self.joint)
        joint, name = model.joint[i], model.joint_names[i]
        if not (joint.nv == 1 if self.variable is None else 0 <= self.variable < joint.nv):
            raise ValueError(
                f"{name} of model '{model.name}' has {joint.nv} variables; AlongJoint("
                f"{name!r}, variable) says along which an element acts, not {self.variable}"
            )
        variable = self.variable or 0
        unit = np.eye(joint.nv)[variable]
        if joint.nq > joint.nv or not np.array_equal(joint.rate(joint.neutral() + 0.5, unit), unit):
            raise ValueError(
                f"{name} of model '{model.name}' has velocities that are not the rates of its "
                "positions, so that no element acts along one of them: no rotor (the armature of "
                "a file), spring, damper, friction or stop"
            )
        return ROTATION if joint.tau_units[variable] == "N.m" else TRANSLATION

    def variables(self, model: Tree) -> tuple[int, int]:
        """Where the variable is in q and in qd."""
        i = joint_number(model, self.joint)
        variable = self.variable or 0
        return model.q_slices[i].start + variable, model.v_slices[i].start + variable

    def length(self, model: Tree, motion: Motion) -> Length:
        position, k = self.variables(model)

        def loads(force: Any) -> Loads:
            tau = [force if j == k else 0.0 for j in range(model.nv)]
            return unloaded(model)._replace(tau=np.array(tau))

        return Length(motion.q[position], motion.qd[k], loads)


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class Between(Line):
    """The distance of a point of one body from a point of another.

    Bodies are given by name or number; `other` None is the base. The points [m] are (3,), or (2,)
    of a planar model, in the coordinates of their bodies, the origin unless given. Where the points
    meet there is no direction, and so no force; a spring that is to act there has `rest` 0, with
    which its force comes to nothing there anyway. Raises ValueError for two points of one body.
    """

    body: str | int
    point: Any
    other: str | int | None = None
    other_point: Any = None

    def __post_init__(self) -> None:
        for name in ("point", "other_point"):
            if (point := getattr(self, name)) is not None:
                object.__setattr__(self, name, read_only(np.asarray(point, dtype=float)))

    def units(self, model: Tree) -> dict[str, str]:
        one, two = self._bodies(model)
        if one == two:
            raise ValueError(
                f"a length between two points of {model.body_names[one]} never changes; give "
                "points of two bodies"
            )
        for point in (self.point, self.other_point):
            if point is not None and not (
                point.shape == model.gravity.shape and np.all(np.isfinite(point))
            ):
                raise ValueError(
                    f"a point of model '{model.name}' needs {len(model.gravity)} finite "
                    f"coordinates, not {point.tolist()}"
                )
        return TRANSLATION

    def length(self, model: Tree, motion: Motion) -> Length:
        one, two = self._bodies(model)
        r1, v1 = _point(model, motion, one, self.point)
        r2, v2 = _point(model, motion, two, self.other_point)
        r = r1 - r2
        squared = r @ r
        apart = less(NEAR * NEAR, squared)
        distance = np.sqrt(select(apart, squared, 1.0))  # never zero: its derivative exists
        n = r * select(apart, 1.0 / distance, 0.0)

        def loads(force: Any) -> Loads:
            none = unloaded(model)
            f_ext = list(none.f_ext)
            for body, sign, at in ((one, 1.0, r1), (two, -1.0, r2)):
                if body >= 0:
                    f_ext[body] = _wrench(model, sign * force * n, at)
            return none._replace(f_ext=np.array(f_ext))

        return Length(select(apart, distance, 0.0), n @ (v1 - v2), loads)

    def _bodies(self, model: Tree) -> tuple[int, int]:
        return body_number(model, self.body), (
            -1 if self.other is None else body_number(model, self.other)
        )


@dataclass(frozen=True, eq=False)
class ForceElement:
    """A law of force along a joint, which may be given by its name, or along another line.

    The `name` is that of its numbers and its force among the signals of a plant: `knee_K`,
    `knee_force`. Raises ValueError for a name that is no identifier, TypeError for what is neither
    a line nor the name of a joint, and for what is no law.
    """

    name: str
    along: Any
    law: Law

    def __post_init__(self) -> None:
        check_name(self.name)
        if isinstance(self.along, str | int):
            object.__setattr__(self, "along", along_joint(self.along))
        if not isinstance(self.along, Line):
            raise TypeError(
                f"element '{self.name}' acts along a joint or Between two points, not "
                f"{self.along!r}"
            )
        if not isinstance(self.law, Law):
            raise TypeError(
                f"element '{self.name}' needs a law such as Spring(K=...), not {self.law!r}"
            )

    def units(self, model: Tree) -> dict[str, str]:
        """The units of the kinds of its numbers; raises ValueError where the model has nothing of
        what it acts along.
        """
        return self.along.units(model)  # type: ignore[no-any-return]

    def numbers(self) -> dict[str, tuple[Any, Number]]:
        """The numbers of its law."""
        return self.law.numbers()

    def tuned(self, **values: Any) -> "ForceElement":
        """The same with other values of its numbers, floats or traced, which are not checked."""
        return replace(self, law=self.law.tuned(**values))


class Acting(NamedTuple):
    """What elements do in a motion: their loads together, the potential energy [J], the force of
    each [N, N m], and the rates of what they remember, as `rub_bend`.
    """

    loads: Loads
    energy: Any
    force: tuple[Any, ...]
    rates: dict[str, Any]


def acting(model: Tree, elements: Sequence[ForceElement], q: Array, qd: Array) -> Acting:
    """What the elements do to a model at q, qd."""
    motion = _motion(model, elements, q, qd)
    loads, energy, forces, rates = unloaded(model), 0.0, [], dict[str, Any]()
    for element in elements:
        s, sd, along = element.along.length(model, motion)
        forces.append(element.law.force(s, sd))
        one = along(forces[-1])
        loads = Loads(loads.tau + one.tau, loads.f_ext + one.f_ext)
        energy = energy + element.law.energy(s)
        rates |= {f"{element.name}_{name}": v for name, v in element.law.rates(s, sd).items()}
    return Acting(loads, energy, tuple(forces), rates)


def margins(model: Tree, elements: Sequence[ForceElement], q: Array, qd: Array) -> Array:
    """The numbers by whose signs the laws of the elements become others."""
    motion, found = _motion(model, elements, q, qd), list[Any]()
    for element in elements:
        length = element.along.length(model, motion)
        found += element.law.margins(length.s, length.sd)
    return np.array(found)


class Compliance(NamedTuple):
    """What elements may come to at a configuration: the rates of their lengths are A qd, A (n, nv),
    with a stiffness K and a damping D (n,) along each.
    """

    A: Array
    K: Array
    D: Array


def compliance(model: Tree, elements: Sequence[ForceElement], q: Array) -> Compliance:
    """The elements where they are stiffest: stops that push, dry friction at rest."""
    still = np.zeros(model.nv)
    motion, rows = _motion(model, elements, q, still), [np.zeros((0, model.nv))]
    for element in elements:
        tau, f_ext = element.along.length(model, motion).loads(1.0)
        weightless = np.zeros(len(model.gravity))
        rows.append((tau - rnea(model, q, still, still, f_ext, weightless))[None, :])
    stiffest = np.array([element.law.stiffest() for element in elements]).reshape(-1, 2)
    return Compliance(np.vstack(rows), *stiffest.T)


def modes(H: Array, given: Compliance, free: Array) -> Array:
    """The eigenvalues [1/s] of what the compliance moves: s^2 H + s A^T D A + A^T K A, in the
    motions qd = free yd.
    """
    H, A = free.T @ H @ free, given.A @ free
    n = len(H)
    stiffness, damping = (np.linalg.solve(H, A.T * size @ A) for size in (given.K, given.D))
    state = np.block([[np.zeros((n, n)), np.eye(n)], [-stiffness, -damping]])
    eigenvalues: Array = np.linalg.eigvals(state)
    return eigenvalues


def _motion(model: Tree, elements: Sequence[ForceElement], q: Array, qd: Array) -> Motion:
    if not any(element.along.between_bodies for element in elements):
        return Motion(q, qd)
    X0 = [*body_poses(model, q), model.algebra.identity()]
    return Motion(q, qd, X0, [*body_velocities(model, q, qd), model.algebra.zero()])


def unloaded(model: Tree) -> Loads:
    """No loads."""
    return Loads(np.zeros(model.nv), np.zeros((model.nb, len(model.algebra.zero()))))


def along_joint(joint: str | int | AlongJoint) -> AlongJoint:
    """The line along a joint that is given by its name or number, or as it is."""
    return joint if isinstance(joint, AlongJoint) else AlongJoint(joint)


def check_name(name: str) -> None:
    """Raises ValueError for the name of an element that is no identifier."""
    if not name.isidentifier():
        raise ValueError(f"the name of an element must be an identifier such as knee, not {name!r}")


def _point(model: Tree, motion: Motion, body: int, point: Array | None) -> tuple[Array, Array]:
    """The position and velocity of a body's point in base coordinates."""
    X = model.algebra.xlt(np.zeros(len(model.gravity)) if point is None else point)
    at = X @ motion.X0[body]
    return at.r, at.E.T @ (X @ motion.v[body])[-len(model.gravity) :]


def _wrench(model: Tree, force: Array, point: Array) -> Array:
    """The spatial force, in base coordinates, of a force at a point of them."""
    turns = len(model.algebra.zero()) - len(force)
    wrench: Array = model.algebra.xlt(point).T @ np.concatenate([np.zeros(turns), force])
    return wrench
