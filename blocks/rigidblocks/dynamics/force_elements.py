"""Force elements of a mechanism: springs, dampers, friction and stops at joints or between points.

A force element applies a force law along a line, as a function of the length of the line. The
elements return joint forces and body wrenches, the arguments `tau` and `f_ext` of `rnea`, `aba` and
related algorithms. A force f at a point with the Jacobian J is equivalent to the joint forces J^T
f. The elements use the wrench on the body instead, so they do not compute J.
"""

import abc
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.common.arrays import read_only
from rigidblocks.dynamics.force_laws import ROTATION, TRANSLATION, Law, Number
from rigidblocks.dynamics.inverse import rnea
from rigidblocks.dynamics.joint_kinematics import body_number, joint_number
from rigidblocks.dynamics.kinematics import body_poses, body_velocities
from rigidblocks.robot.joints import SixDoF, Spherical
from rigidblocks.robot.tree import Tree
from rigidblocks.spatial.rigid_motion import quaternion_rotation
from rigidblocks.spatial.scalar import less, select
from rigidblocks.spatial.spatial import Array, cross

NEAR = 1e-12  # [m] below this distance, the direction between two points is undefined


class Motion(NamedTuple):
    """Motion of a model: q (nq,), qd (nv,), and the motion of its bodies.

    `X0` are the transforms from base to body coordinates, `v` the velocities in body coordinates.
    The last entry of each sequence is for the base. `X0` and `v` are empty if no element acts
    between bodies.
    """

    q: Array
    qd: Array
    X0: Sequence[Any] = ()
    v: Sequence[Array] = ()


class Loads(NamedTuple):
    """Loads of force elements on a model, as joint forces and external body wrenches.

    `tau` (nv,) contains the joint forces. `f_ext` (nb, 6), or (nb, 3) in a planar model, contains
    the wrenches on the bodies in base coordinates.
    """

    tau: Array
    f_ext: Array


class Length(NamedTuple):
    """Length s of a line, its time derivative sd, and the map from line force to loads.

    `loads(force)` returns the joint forces and body wrenches that are equivalent to a force along
    the line.
    """

    s: Any
    sd: Any
    loads: Callable[[Any], Loads]


class Line(abc.ABC):
    """Base class of the lines along which force elements act."""

    between_bodies = True

    @abc.abstractmethod
    def units(self, model: Tree) -> dict[str, str]:
        """Return the unit of each quantity of a force law along this line.

        Raises:
            ValueError: The model does not have the joint or the points of this line.
        """

    @abc.abstractmethod
    def length(self, model: Tree, motion: Motion) -> Length:
        """Return the length, its time derivative, and the map from line force to loads."""

    def adapt_to_gravity(self, gravity: Any) -> "Line":
        """Return the line for a plant with the gravity (3,) [m/s^2].

        The default implementation returns the line itself. Lines whose length depends on gravity
        override this method.
        """
        del gravity
        return self


@dataclass(frozen=True)
class AlongJoint(Line):
    """Line whose length is a position variable of a joint [rad or m].

    `joint` is the name or index of the joint. If the joint has several variables, `variable` is the
    index of the position variable within the joint.
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
                f"{name!r}, variable) needs the index of one of them, not {self.variable}"
            )
        variable = self.variable or 0
        unit = np.eye(joint.nv)[variable]
        if joint.nq > joint.nv or not np.array_equal(joint.rate(joint.neutral() + 0.5, unit), unit):
            raise ValueError(
                f"the velocities of {name} of model '{model.name}' are not the derivatives of its "
                "positions; use AlongVelocity for Spherical and SixDoF joints"
            )
        return ROTATION if joint.tau_units[variable] == "N.m" else TRANSLATION

    def variables(self, model: Tree) -> tuple[int, int]:
        """Return the indices of the joint variable in q and in qd."""
        i = joint_number(model, self.joint)
        variable = self.variable or 0
        return model.q_slices[i].start + variable, model.v_slices[i].start + variable

    def length(self, model: Tree, motion: Motion) -> Length:
        position, k = self.variables(model)

        def loads(force: Any) -> Loads:
            tau = [force if j == k else 0.0 for j in range(model.nv)]
            return zero_loads(model)._replace(tau=np.array(tau))

        return Length(motion.q[position], motion.qd[k], loads)


@dataclass(frozen=True)
class AlongVelocity(AlongJoint):
    """Line along a velocity variable of a `Spherical` or `SixDoF` joint.

    The length is a component of the displacement of the joint from its position `rest` (nq,). By
    default, `rest` is the neutral position. The displacement is the rotation vector or the
    translation in coordinates of F_s, the joint frame on the successor. Springs along all three
    components of a rotation should have the same stiffness K. Their torque is then -K times the
    rotation vector.
    """

    rest: tuple[float, ...] | None = None

    def units(self, model: Tree) -> dict[str, str]:
        i = joint_number(model, self.joint)
        joint, name = model.joint[i], model.joint_names[i]
        if not isinstance(joint, Spherical | SixDoF):
            raise ValueError(
                f"{name} of model '{model.name}' is not a Spherical or SixDoF joint; use AlongJoint"
            )
        if self.variable is None or not 0 <= self.variable < joint.nv:
            raise ValueError(
                f"{name} of model '{model.name}' has {joint.nv} velocity variables; the index "
                f"{self.variable} does not exist"
            )
        if self.rest is not None and len(self.rest) != joint.nq:
            raise ValueError(
                f"{name} of model '{model.name}' has {joint.nq} position variables, but rest has "
                f"{len(self.rest)} elements"
            )
        return ROTATION if joint.tau_units[self.variable] == "N.m" else TRANSLATION

    def length(self, model: Tree, motion: Motion) -> Length:
        i, k = joint_number(model, self.joint), self.variable or 0
        joint, q = model.joint[i], motion.q[model.q_slices[i]]
        rest = joint.neutral() if self.rest is None else np.array(self.rest)
        if k < 3:
            s = Spherical().difference(rest[:4], q[:4])[k]
        else:
            s = (quaternion_rotation(q[:4]) @ (q[4:] - rest[4:]))[k - 3]
        return super().length(model, motion)._replace(s=s)


@dataclass(frozen=True)
class JointSum(Line):
    """Line whose length is a weighted sum of joint positions, such as a tendon over pulleys.

        s = sum of coefficients[k] q[joints[k]]

    Joints are given by name or index and have one degree of freedom each.
    """

    joints: tuple[str | int, ...]
    coefficients: tuple[float, ...]
    between_bodies = False

    def units(self, model: Tree) -> dict[str, str]:
        if not self.joints or len(self.joints) != len(self.coefficients):
            raise ValueError(
                f"a JointSum needs one coefficient for each joint, but has {len(self.joints)} "
                f"joints and {len(self.coefficients)} coefficients"
            )
        units = [AlongJoint(joint).units(model) for joint in self.joints]
        return ROTATION if all(one is ROTATION for one in units) else TRANSLATION

    def length(self, model: Tree, motion: Motion) -> Length:
        s, sd, weights = 0.0, 0.0, [0.0] * model.nv
        for joint, coefficient in zip(self.joints, self.coefficients, strict=True):
            position, k = AlongJoint(joint).variables(model)
            s = s + coefficient * motion.q[position]
            sd = sd + coefficient * motion.qd[k]
            weights[k] += coefficient

        def loads(force: Any) -> Loads:
            tau = [weight * force if weight else 0.0 for weight in weights]
            return zero_loads(model)._replace(tau=np.array(tau))

        return Length(s, sd, loads)


@dataclass(frozen=True, eq=False)
class AlongFrame(Line):
    """Line along a velocity component of a frame on a body of a spatial model.

    `placement` is the transform from body to frame coordinates. The components 0 to 2 are the
    angular and 3 to 5 the linear velocity [w; v] in frame coordinates. The length is undefined, and
    `length` returns zero for s. Therefore use only force laws that do not depend on s.
    """

    body: str | int
    component: int
    placement: Any

    def units(self, model: Tree) -> dict[str, str]:
        body_number(model, self.body)
        check_spatial(model, "an AlongFrame")
        if not 0 <= self.component < 6:
            raise ValueError(f"an AlongFrame needs a component from 0 to 5, not {self.component}")
        return ROTATION if self.component < 3 else TRANSLATION

    def length(self, model: Tree, motion: Motion) -> Length:
        i = body_number(model, self.body)
        X = self.placement @ motion.X0[i]

        def loads(force: Any) -> Loads:
            none = zero_loads(model)
            f_ext, wrench = list(none.f_ext), [0.0] * 6
            wrench[self.component] = force
            f_ext[i] = X.T @ np.array(wrench)
            return none._replace(f_ext=np.array(f_ext))

        return Length(0.0, (self.placement @ motion.v[i])[self.component], loads)


@dataclass(frozen=True, eq=False)
class AgainstGravity(Line):
    """Vertical line through a point of a body; a positive force f acts against gravity.

        s = -(g . r) / magnitude,    force on the body = -f g / magnitude

    g (3,) [m/s^2] is the gravity of the plant, which sets the field `gravity`. The default is the
    gravity of the model. `magnitude` [m/s^2] is a constant: the nominal value of |g|. `point` (3,)
    [m] is in body coordinates, and r is its position in base coordinates.
    """

    body: str | int
    point: Any
    magnitude: float
    gravity: Any = None

    def units(self, model: Tree) -> dict[str, str]:
        body_number(model, self.body)
        if not self.magnitude > 0.0:
            raise ValueError(f"the magnitude of gravity must be positive, not {self.magnitude}")
        return TRANSLATION

    def adapt_to_gravity(self, gravity: Any) -> Line:
        return replace(self, gravity=gravity)

    def length(self, model: Tree, motion: Motion) -> Length:
        i = body_number(model, self.body)
        r, v = _point(model, motion, i, np.asarray(self.point, dtype=float))
        gravity = model.gravity if self.gravity is None else self.gravity
        up = -gravity / self.magnitude

        def loads(force: Any) -> Loads:
            none = zero_loads(model)
            f_ext = list(none.f_ext)
            f_ext[i] = point_wrench(model, force * up, r)
            return none._replace(f_ext=np.array(f_ext))

        return Length(up @ r, up @ v, loads)


@dataclass(frozen=True, eq=False)  # eq=False: comparing arrays returns an array
class Between(Line):
    """Line between two points of different bodies.

    The length is the distance between the points [m]. `body` and `other` are names or indices of
    bodies; if `other` is None, it is the base. `point` [m] is on `body` and `other_point` [m] on
    `other`, in the coordinates of the respective body. Both are (3,), or (2,) in a planar model. By
    default, they are the origins of the bodies. If the points coincide, the direction is undefined
    and the force is zero. A spring whose points can coincide needs `rest` 0, so that the force is
    continuous at zero distance. `units` raises ValueError for two points of one body.
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
                f"both points are on {model.body_names[one]}, so their distance is constant; use "
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
        is_positive = less(NEAR * NEAR, squared)
        distance = np.sqrt(
            select(is_positive, squared, 1.0)
        )  # never zero, so the derivative exists
        n = r * select(is_positive, 1.0 / distance, 0.0)

        def loads(force: Any) -> Loads:
            none = zero_loads(model)
            f_ext = list(none.f_ext)
            for body, sign, at in ((one, 1.0, r1), (two, -1.0, r2)):
                if body >= 0:
                    f_ext[body] = point_wrench(model, sign * force * n, at)
            return none._replace(f_ext=np.array(f_ext))

        return Length(select(is_positive, distance, 0.0), n @ (v1 - v2), loads)

    def _bodies(self, model: Tree) -> tuple[int, int]:
        return body_number(model, self.body), (
            -1 if self.other is None else body_number(model, self.other)
        )


@dataclass(frozen=True, eq=False)
class ForceElement:
    """Force law `law` along a line.

    `along` is a `Line`, or the name or index of a joint. `name` is the prefix of the signals of the
    element in a plant, for example `knee_K` and `knee_force`.

    Raises:
        ValueError: The name is not an identifier.
        TypeError: `along` is neither a line nor a joint, or `law` is not a `Law`.
    """

    name: str
    along: Any
    law: Law

    def __post_init__(self) -> None:
        check_name(self.name)
        if isinstance(self.along, str | int):
            object.__setattr__(self, "along", joint_line(self.along))
        if not isinstance(self.along, Line):
            raise TypeError(
                f"`along` of element '{self.name}' must be a joint or a `Between` of two points, "
                f"not {self.along!r}"
            )
        if not isinstance(self.law, Law):
            raise TypeError(
                f"element '{self.name}' needs a force law, for example Spring(K=...), not "
                f"{self.law!r}"
            )

    def units(self, model: Tree) -> dict[str, str]:
        """Return the unit of each quantity of the force law along the line of the element.

        Raises:
            ValueError: The model does not have the joint or the points of the line.
        """
        return self.along.units(model)  # type: ignore[no-any-return]

    def numbers(self) -> dict[str, tuple[Any, Number]]:
        """Return the parameters of the force law by name, each with its description."""
        return self.law.numbers()

    def replace_parameters(self, **values: Any) -> "ForceElement":
        """Return a copy with new parameter values, floats or traced values, without checks."""
        return replace(self, law=self.law.replace_parameters(**values))


class ElementEffects(NamedTuple):
    """Loads, energy, forces and state derivatives of force elements for a motion of the model.

    `loads` is the sum of the loads of all elements, `energy` the potential energy [J], and `force`
    the force of each element [N, N m]. `rates` contains the derivatives of the element states by
    name, for example `rub_bend` for the state `bend` of the element `rub`.
    """

    loads: Loads
    energy: Any
    force: tuple[Any, ...]
    rates: dict[str, Any]


def element_effects(
    model: Tree, elements: Sequence[ForceElement], q: Array, qd: Array
) -> ElementEffects:
    """Return the total loads and energy, and the forces and state derivatives of all elements."""
    motion = motion_of_lines(model, [one.along for one in elements], q, qd)
    loads, energy, forces, rates = zero_loads(model), 0.0, [], dict[str, Any]()
    for element in elements:
        s, sd, along = element.along.length(model, motion)
        forces.append(element.law.force(s, sd))
        one = along(forces[-1])
        loads = Loads(loads.tau + one.tau, loads.f_ext + one.f_ext)
        energy = energy + element.law.energy(s)
        rates |= {f"{element.name}_{name}": v for name, v in element.law.rates(s, sd).items()}
    return ElementEffects(loads, energy, tuple(forces), rates)


def rotor_bias(model: Tree, rotor_inertia: Array, qd: Array) -> Array:
    """Return the bias forces (nv,) of the rotor inertias.

    Only the translations of a SixDoF joint have bias forces. They are the elements of w x v, each
    multiplied by the rotor inertia of its variable. w and v are the angular and the linear velocity
    of the joint in coordinates of F_s, the joint frame on the successor. F_s rotates with w, so the
    acceleration of the rotor is dv/dt + w x v.
    """
    bias = []
    for joint, at in zip(model.joint, model.v_slices, strict=True):
        if isinstance(joint, SixDoF):
            turned = cross(qd[at][:3], qd[at][3:])
            bias += [0.0, 0.0, 0.0, *(rotor_inertia[at][3:] * turned)]
        else:
            bias += [0.0] * joint.nv
    return np.array(bias)


def margins(model: Tree, elements: Sequence[ForceElement], q: Array, qd: Array) -> Array:
    """Return the switching functions of all force elements at q, qd.

    A switching function changes its sign when the force law switches to another branch.
    """
    motion = motion_of_lines(model, [one.along for one in elements], q, qd)
    found = list[Any]()
    for element in elements:
        length = element.along.length(model, motion)
        found += element.law.margins(length.s, length.sd)
    return np.array(found)


class Compliance(NamedTuple):
    """Largest stiffness and damping of n force elements at a configuration.

    The matrix A (n, nv) maps qd to the time derivatives of the element lengths. K and D (n,) are
    the stiffness and the damping along each length.
    """

    A: Array
    K: Array
    D: Array


def compliance(model: Tree, elements: Sequence[ForceElement], q: Array) -> Compliance:
    """Return the largest stiffness and damping of each element at q.

    For a stop, these are the values in contact, even if the length is within the limits of the
    stop. The damping of dry friction is the damping at zero velocity.
    """
    still = np.zeros(model.nv)
    motion = motion_of_lines(model, [one.along for one in elements], q, still)
    rows = [np.zeros((0, model.nv))]
    rows += [length_jacobian(model, q, one.along.length(model, motion))[None] for one in elements]
    coefficients = np.array(
        [element.law.max_stiffness_and_damping() for element in elements]
    ).reshape(-1, 2)
    return Compliance(np.vstack(rows), *coefficients.T)


def modes(H: Array, elements: Compliance, basis: Array) -> Array:
    """Return the eigenvalues s [1/s] of a model with springs and dampers.

    The eigenvalues are the roots of det(s^2 H + s A^T D A + A^T K A). H (nv, nv) is the inertia
    matrix, and A, K and D are the fields of `elements`. The columns of `basis` (nv, k) span the
    velocities qd that the constraints of the model allow. The function projects H and A onto these
    velocities.
    """
    H, A = basis.T @ H @ basis, elements.A @ basis
    n = len(H)
    stiffness, damping = (np.linalg.solve(H, A.T * size @ A) for size in (elements.K, elements.D))
    state = np.block([[np.zeros((n, n)), np.eye(n)], [-stiffness, -damping]])
    eigenvalues: Array = np.linalg.eigvals(state)
    return eigenvalues


def length_jacobian(model: Tree, q: Array, length: Length) -> Array:
    """Return the Jacobian (nv,) of a length: its product with qd is the derivative of the length.

    The Jacobian is equal to the joint forces of a unit force along the line. `length` is the length
    of the line at the configuration q (nq,).
    """
    still, weightless = np.zeros(model.nv), np.zeros(len(model.gravity))
    tau, f_ext = length.loads(1.0)
    row: Array = tau - rnea(model, q, still, still, f_ext, weightless)
    return row


def motion_of_lines(model: Tree, lines: Iterable[Line], q: Array, qd: Array) -> Motion:
    """Return the motion of the model for the computation of line lengths.

    If no line acts between bodies, the body poses and velocities are omitted.
    """
    if not any(line.between_bodies for line in lines):
        return Motion(q, qd)
    X0 = [*body_poses(model, q), model.algebra.identity()]
    return Motion(q, qd, X0, [*body_velocities(model, q, qd), model.algebra.zero()])


def zero_loads(model: Tree) -> Loads:
    """Return zero joint forces and zero body wrenches."""
    return Loads(np.zeros(model.nv), np.zeros((model.nb, len(model.algebra.zero()))))


def joint_line(joint: str | int | AlongJoint) -> AlongJoint:
    """Convert a joint name or index to a line; return an `AlongJoint` unchanged."""
    return joint if isinstance(joint, AlongJoint) else AlongJoint(joint)


def check_spatial(model: Tree, subject: str) -> None:
    """Raise ValueError if the model of `subject` is planar."""
    if len(model.algebra.zero()) != 6:
        raise ValueError(f"{subject} needs a spatial model; model '{model.name}' is planar")


def check_name(name: str) -> None:
    """Raise ValueError if the name of an element is not an identifier."""
    if not name.isidentifier():
        raise ValueError(f"the name of an element must be an identifier such as knee, not {name!r}")


def _point(model: Tree, motion: Motion, body: int, point: Array | None) -> tuple[Array, Array]:
    """Return the position and velocity (3,) of a point of a body, in base coordinates."""
    X = model.algebra.xlt(np.zeros(len(model.gravity)) if point is None else point)
    at = X @ motion.X0[body]
    return at.r, at.E.T @ (X @ motion.v[body])[-len(model.gravity) :]


def point_wrench(model: Tree, force: Array, point: Array, torque: Array | None = None) -> Array:
    """Return the wrench of a force at a point and of a torque, in base coordinates.

    The wrench is (6,), or (3,) in a planar model. By default, the torque is zero.
    """
    if torque is None:
        torque = np.zeros(len(model.algebra.zero()) - len(force))
    wrench: Array = model.algebra.xlt(point).T @ np.concatenate([torque, force])
    return wrench
