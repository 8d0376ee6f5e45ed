"""Blocks that lead a frame of a robot: inverse kinematics, and control in the space of its task."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.linear import positive_solution
from rigidblocks.algebra.scalar import clip, less, select
from rigidblocks.algebra.spatial import Array, Transform
from rigidblocks.block.block import Block, Port, Record, Values, finite
from rigidblocks.dynamics import rnea
from rigidblocks.dynamics.inverse_kinematics import (
    damped_step,
    frame_jacobian,
    pose_error,
    velocity_product,
)
from rigidblocks.dynamics.jacobian import body_jacobian, body_jacobian_rate
from rigidblocks.dynamics.joint_space import crba
from rigidblocks.dynamics.kinematics import body_poses
from rigidblocks.library.kinematics import Frame
from rigidblocks.library.ports import check_open, gravity_port, joint_ports, joint_units
from rigidblocks.library.ports import start_configuration as started
from rigidblocks.model.model import Model

_PER = ("1/s2", "1/s")


def _goal_ports(model: Model, frame: Frame, q0: Array, rotation: bool) -> tuple[Port, ...]:
    """Where the frame should be and how it should move, in base coordinates; it stays where it is
    at q0 unless these are connected.
    """
    X = frame.placement @ body_poses(model, q0)[frame.body_of(model)]
    place = (
        Port("p_ref", (3,), "m", "position to lead the frame to, base coordinates", X.r),
        Port("v_ref", (3,), "m/s", "its velocity, base coordinates", 0.0),
    )
    if not rotation:
        return place
    text = "rotation to lead it to, columns its axes in base coordinates"
    return (
        *place,
        Port("R_ref", (3, 3), "1", text, X.E.T),
        Port("w_ref", (3,), "rad/s", "its angular velocity, base coordinates", 0.0),
    )


def _lack(u: Record, X: Transform, rotation: bool) -> Array:
    """What the pose lacks, base coordinates: (6,), or (3,) without rotation."""
    if not rotation:
        lack: Array = u.p_ref - X.r
        return lack
    return pose_error(X, Transform(u.R_ref.T, u.p_ref))


def _velocity(u: Record, rotation: bool) -> Array:
    """The velocity that is wanted, [w; v] or v."""
    return np.concatenate([u.w_ref, u.v_ref]) if rotation else u.v_ref


@dataclass(frozen=True, eq=False)
class InverseKinematics(Block):
    """Joint positions and velocities that lead a frame along a path: what a joint controller takes
    as its reference.

        dq/dt = J^T (J J^T + damping^2 1)^-1 (V_ref + gain e)

    e is what the pose of the frame lacks, and J the exact Jacobian: where it has full rank the
    error falls as exp(-gain t), and in singular configurations the damping keeps the velocities
    finite. A joint at its limit `lower` or `upper` (nv,) [rad or m] that would go beyond it stays,
    and the others do what they can. Without `rotation` the orientation is free. `q0` is the
    configuration at the start, the neutral one unless given. Of joints of one freedom each.
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
        object.__setattr__(self, "q0", started(self.model, self.q0))
        for name, none in (("lower", -np.inf), ("upper", np.inf)):
            limit = np.full(self.model.nv, none) if getattr(self, name) is None else None
            value = np.asarray(getattr(self, name), dtype=float) if limit is None else limit
            object.__setattr__(self, name, np.broadcast_to(value, self.model.nv).copy())
        if np.any(self.lower > self.upper):
            raise ValueError("InverseKinematics has limits that are upside down")
        object.__setattr__(self, "q0", np.clip(self.q0, self.lower, self.upper))

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """p_ref (3,), v_ref (3,), and with rotation R_ref (3, 3), w_ref (3,)."""
        return _goal_ports(self.model, self.frame, self.q0, self.rotation)

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """q (nq,)."""
        return (Port("q", (self.model.nq,), joint_units(self.model.joint).q, "positions", self.q0),)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """q (nq,), qd (nv,), and error (), the distance [m] of the frame from p_ref."""
        (qd,) = joint_ports(self.model, qd="joint velocities")
        return (*self.states, qd, Port("error", (), "m", "distance of the frame from p_ref"))

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """gain and damping."""
        return (
            Port("gain", (), "1/s", "how fast the error falls", self.gain, min=0.0),
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
        J = frame_jacobian(self.model, q, self._body, self.frame.placement)
        J = J if self.rotation else J[3:]
        wanted = _velocity(u, self.rotation) + p.gain * _lack(u, self._pose(q), self.rotation)
        qd, free = damped_step(J, wanted, p.damping), np.ones(self.model.nv)
        for _ in range(2 if np.any(np.isfinite([self.lower, self.upper])) else 0):
            free = free * self._free(q, qd)
            qd = damped_step(J * free, wanted, p.damping)
        return qd

    def _free(self, q: Array, qd: Array) -> Array:
        """1 for each joint that may move on, 0 for one that is at its limit and would go beyond."""
        free = [
            select(less(q[k], low), select(less(qd[k], 0.0), 0.0, 1.0), 1.0)
            * select(less(high, q[k]), select(less(0.0, qd[k]), 0.0, 1.0), 1.0)
            for k, (low, high) in enumerate(
                zip(self.lower + AT_LIMIT, self.upper - AT_LIMIT, strict=True)
            )
        ]
        return np.array(free)


AT_LIMIT = 1e-9  # [rad or m] from it


@dataclass(frozen=True, eq=False)
class TaskSpacePD(Block):
    """A spring and a damper between a frame of a robot and where it should be, by joint forces,
    with the weight of the robot held.

        tau = J^T (kp e + kd (V_ref - V)) + gravity forces

    e is what the pose of the frame lacks, V its velocity. `kp` and `kd` are (3,) numbers along the
    base axes for the position [N/m, N s/m]; `kp_rotation` and `kd_rotation` those about them [N
    m/rad, N m s/rad], where the block has `rotation`. It is passive: it adds no energy to a robot
    at rest in its goal, whatever the model's inertia is.
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
        """p_ref, v_ref, with rotation R_ref, w_ref; and q (nq,), qd (nv,)."""
        return _control_ports(self.model, self.frame, self.rotation)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """tau (nv,)."""
        return joint_ports(self.model, tau="joint forces")

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """kp, kd (3,), with rotation kp_rotation, kd_rotation (3,); and gravity (3,)."""
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
        J = frame_jacobian(self.model, u.q, body, self.frame.placement)
        J = J if self.rotation else J[3:]
        kp, kd = p.kp, p.kd
        if self.rotation:
            kp, kd = np.concatenate([p.kp_rotation, kp]), np.concatenate([p.kd_rotation, kd])
        slow = _velocity(u, self.rotation) - J @ u.qd
        f = kp * _lack(u, X, self.rotation) + kd * slow
        return {"tau": J.T @ f + rnea(self.model, u.q, still, still, gravity=p.gravity)}


@dataclass(frozen=True, eq=False)
class OperationalSpaceController(Block):
    """The computed-torque controller of a frame of a robot (Khatib 1987; RBDA 7.2): it leaves the
    pose of the frame a linear error equation, and damps what else moves.

        tau = J^T L (A_ref + kd (V_ref - V) + kp e - dJ/dt qd) + C + N tau_0,  L = (J H^-1 J^T)^-1
        d2e/dt2 + kd de/dt + kp e = 0       for the position, where the model is the robot's

    N = 1 - J^T L J H^-1 takes from the forces tau_0 = -damping H qd those that would move the frame
    (Eq 7.12 and behind). `kp` [1/s^2] and `kd` [1/s] count for position and rotation. In singular
    configurations L grows without bound; `regularity` [kg^-1] is added to the diagonal of its
    inverse, against the exactness of the law there. Without `rotation` the orientation is free.
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
        """p_ref, v_ref, a_ref, with rotation R_ref, w_ref, wd_ref; and q (nq,), qd (nv,)."""
        text = "acceleration, base coordinates"
        more = [Port("a_ref", (3,), "m/s2", f"its {text}", 0.0)]
        if self.rotation:
            more.append(Port("wd_ref", (3,), "rad/s2", f"its angular {text}", 0.0))
        return (*_control_ports(self.model, self.frame, self.rotation), *more)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """tau (nv,)."""
        return joint_ports(self.model, tau="joint forces")

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """kp, kd, damping, regularity and gravity (3,)."""
        return (
            Port("kp", (), _PER[0], "position gain", self.kp, min=0.0),
            Port("kd", (), _PER[1], "velocity gain", self.kd, min=0.0),
            Port("damping", (), _PER[1], "damping of what else moves", self.damping, min=0.0),
            Port("regularity", (), "1/kg", "added to the inverse inertia", self.regularity),
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
        # in the frame's coordinates, where what is wanted becomes a spatial acceleration
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
        """The classical acceleration that is wanted, in the frame's coordinates."""
        E = X.E
        if self.rotation:
            e = pose_error(X, Transform(u.R_ref.T, u.p_ref))
            w = p.kp * (E @ e[:3]) + p.kd * (E @ u.w_ref - v[:3]) + E @ u.wd_ref
        else:
            e, w = np.concatenate([np.zeros(3), u.p_ref - X.r]), np.zeros(3)
        a = p.kp * (E @ e[3:]) + p.kd * (E @ u.v_ref - v[3:]) + E @ u.a_ref
        return np.concatenate([w, a])


def _control_ports(model: Model, frame: Frame, rotation: bool) -> tuple[Port, ...]:
    q0 = started(model, None)
    motion = joint_ports(model, q="measured positions", qd="measured velocities")
    return (*_goal_ports(model, frame, q0, rotation), *motion)


def _check_single(model: Model, block: str) -> None:
    check_open(model, block)
    if model.nq != model.nv:
        raise ValueError(
            f"model '{model.name}' has joints of several freedoms, which {block} does not lead"
        )
