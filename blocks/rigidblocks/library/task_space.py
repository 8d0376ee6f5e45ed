"""Blocks for the pose of a frame of a robot: inverse kinematics and task-space controllers."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.block.block import Block, Port, Record, Values, finite
from rigidblocks.dynamics import rnea
from rigidblocks.dynamics.forward import crba
from rigidblocks.dynamics.kinematics import (
    base_jacobian,
    body_jacobian,
    body_jacobian_rate,
    body_poses,
    damped_step,
    pose_error,
    velocity_product,
)
from rigidblocks.library.common_ports import (
    check_open,
    gravity_port,
    joint_ports,
    joint_units,
    start_configuration,
)
from rigidblocks.library.frames import Frame
from rigidblocks.robot.model import Model
from rigidblocks.spatial.linear_algebra import positive_solution
from rigidblocks.spatial.scalar import clip, less, select
from rigidblocks.spatial.spatial import Array, Transform

_PER = ("1/s2", "1/s")


def _goal_ports(model: Model, frame: Frame, q0: Array, rotation: bool) -> tuple[Port, ...]:
    """Return the input ports for the reference pose and velocity of a frame, in base coordinates.

    If these inputs are not connected, the reference is the pose of the frame at q0 (nq,), at rest.
    If `rotation` is False, the ports of the rotation are omitted.
    """
    X = frame.placement @ body_poses(model, q0)[frame.body_of(model)]
    place = (
        Port("p_ref", (3,), "m", "reference position of the frame, base coordinates", X.r),
        Port("v_ref", (3,), "m/s", "reference velocity of the frame, base coordinates", 0.0),
    )
    if not rotation:
        return place
    text = "reference rotation; its columns are the axes in base coordinates"
    return (
        *place,
        Port("R_ref", (3, 3), "1", text, X.E.T),
        Port("w_ref", (3,), "rad/s", "reference angular velocity, base coordinates", 0.0),
    )


def _goal_error(u: Record, X: Transform, rotation: bool) -> Array:
    """Return the error from the frame pose X to the reference pose in u, in base coordinates.

    The error is the pose error (6,), or without `rotation` the position error (3,) [m].
    """
    if not rotation:
        lack: Array = u.p_ref - X.r
        return lack
    return pose_error(X, Transform(u.R_ref.T, u.p_ref))


def _reference_velocity(u: Record, rotation: bool) -> Array:
    """Return the reference velocity of a frame, [w; v] (6,), or v (3,) without `rotation`."""
    return np.concatenate([u.w_ref, u.v_ref]) if rotation else u.v_ref


@dataclass(frozen=True, eq=False)
class InverseKinematics(Block):
    """Inverse kinematics of a frame, which computes joint references from a moving reference pose.

        dq/dt = J^T (J J^T + damping^2 1)^-1 (V_ref + gain e)

    e is the pose error of the frame, V_ref is the reference velocity, and J is the exact Jacobian
    of the frame. If J has full rank, the error decreases as exp(-gain t). In singular
    configurations, the damping limits the velocities.

    Joints do not move beyond the position limits `lower` and `upper` (nv,) [rad or m]. While a
    joint is at a limit, the other joints minimize the error.

    If `rotation` is False, the orientation of the frame is free. `q0` is the initial configuration,
    by default the neutral configuration. All joints must have a single degree of freedom.

    Raises:
        ValueError: A lower limit is above its upper limit, a joint has several degrees of freedom,
            or the body of the frame does not exist.
    """

    model: Model
    frame: Frame
    q0: Any = None
    lower: Any = None
    upper: Any = None
    rotation: bool = True
    gain: Any = 20.0
    damping: Any = 1e-3

    def __post_init__(self) -> None:
        _check_single(self.model, "InverseKinematics")
        self.frame.body_of(self.model)
        object.__setattr__(self, "q0", start_configuration(self.model, self.q0))
        for name, none in (("lower", -np.inf), ("upper", np.inf)):
            limit = np.full(self.model.nv, none) if getattr(self, name) is None else None
            value = np.asarray(getattr(self, name), dtype=float) if limit is None else limit
            object.__setattr__(self, name, np.broadcast_to(value, self.model.nv).copy())
        if np.any(self.lower > self.upper):
            raise ValueError(
                f"lower limits must not exceed upper limits: {self.lower} and {self.upper}"
            )
        object.__setattr__(self, "q0", np.clip(self.q0, self.lower, self.upper))

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Input ports p_ref and v_ref; if `rotation` is True, also R_ref (3, 3) and w_ref."""
        return _goal_ports(self.model, self.frame, self.q0, self.rotation)

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """State port for the joint positions q (nq,)."""
        return (Port("q", (self.model.nq,), joint_units(self.model.joint).q, "positions", self.q0),)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output ports for the joint motion q and qd, and the distance [m] from frame to p_ref."""
        (qd,) = joint_ports(self.model, qd="joint velocities")
        return (*self.states, qd, Port("error", (), "m", "distance of the frame from p_ref"))

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Parameter ports for the gain [1/s] of the pose error, and for the damping."""
        return (
            Port("gain", (), "1/s", "decay rate of the error", self.gain, min=0.0),
            Port("damping", (), "1", "damping of the least squares", self.damping, positive=True),
        )

    def derivative(self, x: Record, u: Record, p: Record) -> Values:
        return {"q": self._qd(x.q, u, p)}

    def project(self, x: Record) -> Values:
        if not np.any(np.isfinite([self.lower, self.upper])):
            return {}
        return {"q": clip(x.q, self.lower, self.upper)}

    def output(self, x: Record, u: Record, p: Record) -> Values:
        gap = u.p_ref - self._pose(x.q).r
        return {"qd": self._qd(x.q, u, p), "error": np.sqrt(gap @ gap)}

    def _pose(self, q: Array) -> Transform:
        X: Transform = self.frame.placement @ body_poses(self.model, q)[self._body]
        return X

    @cached_property
    def _body(self) -> int:
        return self.frame.body_of(self.model)

    def _qd(self, q: Array, u: Record, p: Record) -> Array:
        J = base_jacobian(self.model, q, self._body, self.frame.placement)
        J = J if self.rotation else J[3:]
        wanted = _reference_velocity(u, self.rotation) + p.gain * _goal_error(
            u, self._pose(q), self.rotation
        )
        qd, free = damped_step(J, wanted, p.damping), np.ones(self.model.nv)
        for _ in range(2 if np.any(np.isfinite([self.lower, self.upper])) else 0):
            free = free * self._free(q, qd)
            qd = damped_step(J * free, wanted, p.damping)
        return qd

    def _free(self, q: Array, qd: Array) -> Array:
        """Return a vector (nv,) with 0 for each joint at a limit that qd would exceed, else 1."""
        free = [
            select(less(q[k], low), select(less(qd[k], 0.0), 0.0, 1.0), 1.0)
            * select(less(high, q[k]), select(less(0.0, qd[k]), 0.0, 1.0), 1.0)
            for k, (low, high) in enumerate(
                zip(self.lower + AT_LIMIT, self.upper - AT_LIMIT, strict=True)
            )
        ]
        return np.array(free)


AT_LIMIT = 1e-9  # [rad or m] a joint within this distance of a limit is at the limit


@dataclass(frozen=True, eq=False)
class TaskSpacePD(Block):
    """Proportional-derivative controller of a frame of a robot, with gravity compensation.

        tau = J^T (kp e + kd (V_ref - V)) + gravity forces

    e is the pose error of the frame, V is its velocity, V_ref is the reference velocity, and J is
    the Jacobian of the frame. The gains act as a spring and a damper between the frame and the
    reference pose. `kp` [N/m] and `kd` [N s/m] (3,) are the position gains along the base axes. If
    `rotation` is True, `kp_rotation` [N m/rad] and `kd_rotation` [N m s/rad] (3,) are the rotation
    gains about the base axes. The controller is passive, even if the inertia of the model is
    inexact.
    """

    model: Model
    frame: Frame
    kp: Any
    kd: Any
    kp_rotation: Any = 0.0
    kd_rotation: Any = 0.0
    rotation: bool = True

    def __post_init__(self) -> None:
        check_open(self.model, "TaskSpacePD")
        self.frame.body_of(self.model)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Input ports p_ref, v_ref, q and qd; if `rotation` is True, also R_ref and w_ref."""
        return _control_ports(self.model, self.frame, self.rotation)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output port for the joint forces tau (nv,)."""
        return joint_ports(self.model, tau="joint forces")

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Parameter ports for the gains kp and kd, the rotation gains if used, and gravity."""
        ports = [
            Port("kp", (3,), "N/m", "stiffness", self.kp, min=0.0),
            Port("kd", (3,), "N.s/m", "damping", self.kd, min=0.0),
        ]
        if self.rotation:
            text = "stiffness of rotation", "damping of rotation"
            ports += [
                Port("kp_rotation", (3,), "N.m/rad", text[0], self.kp_rotation, min=0.0),
                Port("kd_rotation", (3,), "N.m.s/rad", text[1], self.kd_rotation, min=0.0),
            ]
        return (*ports, gravity_port(self.model))

    def output(self, u: Record, p: Record) -> Values:
        body, still = self.frame.body_of(self.model), np.zeros(self.model.nv)
        X = self.frame.placement @ body_poses(self.model, u.q)[body]
        J = base_jacobian(self.model, u.q, body, self.frame.placement)
        J = J if self.rotation else J[3:]
        kp, kd = p.kp, p.kd
        if self.rotation:
            kp, kd = np.concatenate([p.kp_rotation, kp]), np.concatenate([p.kd_rotation, kd])
        slow = _reference_velocity(u, self.rotation) - J @ u.qd
        f = kp * _goal_error(u, X, self.rotation) + kd * slow
        return {"tau": J.T @ f + rnea(self.model, u.q, still, still, gravity=p.gravity)}


@dataclass(frozen=True, eq=False)
class OperationalSpaceController(Block):
    """Computed-torque controller of a frame of a robot (Khatib 1987; RBDA 7.2).

        tau = J^T L (A_ref + kd (V_ref - V) + kp e - dJ/dt qd) + C + N tau_0,  L = (J H^-1 J^T)^-1
        d2e/dt2 + kd de/dt + kp e = 0       for the position, if the model is exact

    e is the pose error of the frame, and V is its velocity. V_ref and A_ref are the reference
    velocity and acceleration. J is the Jacobian of the frame, H is the joint-space inertia matrix,
    and C is the bias force. `kp` [1/s^2] and `kd` [1/s] apply to position and rotation. If
    `rotation` is False, the orientation of the frame is free.

    The forces tau_0 = -damping H qd damp the null-space motion. N = 1 - J^T L J H^-1 removes the
    component of tau_0 that would move the frame (after Eq 7.12). L is unbounded in singular
    configurations. The block therefore adds `regularity` [kg^-1] to the diagonal of L^-1. The
    control law is inexact if `regularity` is not zero.
    """

    model: Model
    frame: Frame
    kp: Any
    kd: Any
    damping: Any = 1.0
    regularity: Any = 0.0
    rotation: bool = True

    def __post_init__(self) -> None:
        check_open(self.model, "OperationalSpaceController")
        self.frame.body_of(self.model)
        finite(self.regularity, (), "regularity")

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Input ports p_ref, v_ref, a_ref, q and qd.

        If `rotation` is True, the block also has the inputs R_ref, w_ref and wd_ref.
        """
        text = "acceleration, base coordinates"
        more = [Port("a_ref", (3,), "m/s2", f"its {text}", 0.0)]
        if self.rotation:
            more.append(Port("wd_ref", (3,), "rad/s2", f"its angular {text}", 0.0))
        return (*_control_ports(self.model, self.frame, self.rotation), *more)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output port for the joint forces tau (nv,)."""
        return joint_ports(self.model, tau="joint forces")

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Parameter ports for the gains, the null-space damping, the regularity and gravity."""
        return (
            Port("kp", (), _PER[0], "position gain", self.kp, min=0.0),
            Port("kd", (), _PER[1], "velocity gain", self.kd, min=0.0),
            Port("damping", (), _PER[1], "damping of the null-space motion", self.damping, min=0.0),
            Port(
                "regularity", (), "1/kg", "regularization of the inverse inertia", self.regularity
            ),
            gravity_port(self.model),
        )

    def output(self, u: Record, p: Record) -> Values:
        model, body, P = self.model, self.frame.body_of(self.model), self.frame.placement
        X = P @ body_poses(model, u.q)[body]
        J, Jdot = (
            P @ body_jacobian(model, u.q, body),
            P @ body_jacobian_rate(model, u.q, u.qd, body),
        )
        v = J @ u.qd
        # spatial reference acceleration, in the coordinates of the frame
        wanted = self._acceleration(u, p, X, v) - velocity_product(v) - Jdot @ u.qd
        rows = slice(0 if self.rotation else 3, 6)
        J, wanted = J[rows], wanted[rows]
        H = crba(model, u.q)
        Y = positive_solution(H, J.T)  # H^-1 J^T
        inverse = J @ Y + p.regularity * np.eye(len(J))
        rest = -p.damping * (H @ u.qd)
        f = positive_solution(inverse, wanted - Y.T @ rest)
        C = rnea(model, u.q, u.qd, np.zeros(model.nv), gravity=p.gravity)
        return {"tau": J.T @ f + rest + C}

    def _acceleration(self, u: Record, p: Record, X: Transform, v: Array) -> Array:
        """Return the commanded classical acceleration [wd; vd] (6,) in frame coordinates.

        X is the pose of the frame, and v (6,) is its velocity in frame coordinates.
        """
        E = X.E
        if self.rotation:
            e = pose_error(X, Transform(u.R_ref.T, u.p_ref))
            w = p.kp * (E @ e[:3]) + p.kd * (E @ u.w_ref - v[:3]) + E @ u.wd_ref
        else:
            e, w = np.concatenate([np.zeros(3), u.p_ref - X.r]), np.zeros(3)
        a = p.kp * (E @ e[3:]) + p.kd * (E @ u.v_ref - v[3:]) + E @ u.a_ref
        return np.concatenate([w, a])


def _control_ports(model: Model, frame: Frame, rotation: bool) -> tuple[Port, ...]:
    q0 = start_configuration(model, None)
    motion = joint_ports(model, q="measured positions", qd="measured velocities")
    return (*_goal_ports(model, frame, q0, rotation), *motion)


def _check_single(model: Model, block: str) -> None:
    check_open(model, block)
    if model.nq != model.nv:
        raise ValueError(
            f"{block} does not support joints with several degrees of freedom: model "
            f"'{model.name}' has nq = {model.nq}, nv = {model.nv}"
        )
