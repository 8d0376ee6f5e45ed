"""A plant on a floating base, whose orientation is a quaternion."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np

from rigidblocks.block import Block, Port, Values, finite
from rigidblocks.dynamics.floating import aba_floating, crba_floating, floating_body
from rigidblocks.joint import Joint
from rigidblocks.joint.rotation import normalized_quaternion, quaternion_rate, quaternion_rotation
from rigidblocks.library.ports import check_open, gravity_port, joint_units, motion_states, wrench_port
from rigidblocks.model import Model
from rigidblocks.spatial import Array, Transform

_TWIST = ("rad/s",) * 3 + ("m/s",) * 3
_MOMENTUM = ("N.m.s",) * 3 + ("N.s",) * 3


@dataclass(frozen=True, eq=False)
class FloatingBasePlant(Block):
    """The forward dynamics of a robot on a floating base: joint forces and wrenches in, the motion of base and joints out.

        I0A a0 + p0A = 0        (RBDA Table 9.4)

    The state of the base is its orientation, a unit quaternion with its scalar first (4,), its position (3,) [m], both in
    fixed coordinates, and its velocity [w; v] (6,) in its own. q and qd are the variables of the joints behind it; a model
    without such joints has no ports for them. Quaternions are made unit ones at the start and after every inner step; `q0`
    is the neutral configuration unless given. `com` (3,) is the centre of mass of the whole, `momentum` (6,) its momentum
    [about the fixed origin; linear], both in fixed coordinates. With `external_wrenches` there is an input `f_ext` (nb, 6),
    in fixed coordinates.
    """

    model: Model
    quaternion0: Any = (1.0, 0.0, 0.0, 0.0)
    position0: Any = 0.0
    velocity0: Any = 0.0
    q0: Any = None
    qd0: Any = 0.0
    external_wrenches: bool = False

    def __post_init__(self) -> None:
        check_open(self.model, "FloatingBasePlant")
        quaternion = finite(self.quaternion0, (4,), "the start value of port 'quaternion'")
        if not np.any(quaternion):
            raise ValueError("the quaternion of a floating base must not be zero")
        object.__setattr__(self, "quaternion0", normalized_quaternion(quaternion))
        chosen = self.model.joint[self._joints]
        q0 = np.concatenate([np.zeros(0), *(joint.neutral() for joint in chosen)]) if self.q0 is None else self.q0
        q0 = finite(q0, (sum(joint.nq for joint in chosen),), "the start value of port 'q'")
        object.__setattr__(self, "q0", self._unit_quaternions(q0))
        if not np.all(np.isfinite(self.q0)):
            raise ValueError(f"a quaternion in q0 of a floating base plant is zero: {q0.tolist()}")
        _ = self.states, self.parameters  # their start values are checked where they are given

    @cached_property
    def _joints(self) -> slice:
        """The joints behind the base; raises ValueError for a model without a floating base."""
        return slice(floating_body(self.model) + 1, None)

    @property
    def _articulated(self) -> bool:
        return self.model.nv > 6

    @property
    def _has_quaternions(self) -> bool:
        return any(joint.nq > joint.nv for joint in self.model.joint[self._joints])

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """tau (nv - 6,) where there are joints, and f_ext (nb, 6) when asked for."""
        units = joint_units(self.model.joint[self._joints]).tau
        tau = (Port("tau", (len(units),), units, "joint forces", 0.0),) if self._articulated else ()
        return (*tau, wrench_port(self.model)) if self.external_wrenches else tau

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """quaternion (4,), position (3,), velocity (6,), and q and qd where there are joints."""
        base = (
            Port(
                "quaternion",
                (4,),
                "1",
                "orientation of the base, scalar first",
                self.quaternion0,
                "velocity",
                min=-1.0,
                max=1.0,
            ),
            Port("position", (3,), "m", "position of the base, fixed coordinates", self.position0, "velocity"),
            Port("velocity", (6,), _TWIST, "velocity [w; v] of the base, its own coordinates", self.velocity0),
        )
        return (*base, *motion_states(self.model, self._joints, self.q0, self.qd0)) if self._articulated else base

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """The states, acceleration (6,), qdd where there are joints, com (3,), momentum (6,) and energy."""
        units = joint_units(self.model.joint[self._joints]).qdd
        accelerations = tuple(f"{unit}2" for unit in _TWIST)
        qdd = (Port("qdd", (len(units),), units, "joint accelerations"),) if self._articulated else ()
        return (
            *self.states,
            Port("acceleration", (6,), accelerations, "spatial acceleration of the base, its own coordinates"),
            *qdd,
            Port("com", (3,), "m", "centre of mass, fixed coordinates"),
            Port("momentum", (6,), _MOMENTUM, "momentum [angular; linear] about the fixed origin, fixed coordinates"),
            Port("energy", (), "J", "kinetic and potential energy"),
        )

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """gravity (3,)."""
        return (gravity_port(self.model),)

    def derivative(self, t: Any, x: SimpleNamespace, u: SimpleNamespace, p: SimpleNamespace) -> Values:
        del t
        w, v = x.velocity[:3], x.velocity[3:]
        a, qdd = self._accelerations(x, u, p)
        # the coordinates of v change at the rate a in any frame, for v x v = 0
        rates = {"quaternion": quaternion_rate(x.quaternion, w), "position": _pose(x).E.T @ v, "velocity": a}
        return rates | {"q": self._q_rate(x), "qd": qdd} if self._articulated else rates

    def project(self, t: Any, x: SimpleNamespace, u: SimpleNamespace, p: SimpleNamespace) -> Values:
        del t, u, p
        base = {"quaternion": normalized_quaternion(x.quaternion)}
        return base | {"q": self._unit_quaternions(x.q)} if self._has_quaternions else base

    def output(self, t: Any, x: SimpleNamespace, u: SimpleNamespace, p: SimpleNamespace) -> Values:
        del t
        a, qdd = self._accelerations(x, u, p)
        X, (q, qd) = _pose(x), self._joint_motion(x)
        I0c, F, H = crba_floating(self.model, q)
        h = I0c @ x.velocity + F @ qd
        m, first_moment = I0c[5, 5], np.array([I0c[2, 4], I0c[0, 5], I0c[1, 3]])
        com = X.r + X.E.T @ first_moment / m
        kinetic = (x.velocity @ h + qd @ (F.T @ x.velocity + H @ qd)) / 2
        values = {"acceleration": a, "com": com, "momentum": X.T @ h, "energy": kinetic - m * (p.gravity @ com)}
        return values | {"qdd": qdd} if self._articulated else values

    def _joint_motion(self, x: SimpleNamespace) -> tuple[Array, Array]:
        return (x.q, x.qd) if self._articulated else (np.zeros(0), np.zeros(0))

    def _q_rate(self, x: SimpleNamespace) -> Array:
        velocities = iter(x.qd)
        return self._each_joint(x.q, lambda joint, q: joint.rate(q, np.array([next(velocities) for _ in range(joint.nv)])))

    def _unit_quaternions(self, q: Array) -> Array:
        with np.errstate(invalid="ignore"):
            return self._each_joint(q, lambda joint, part: joint.normalized(part))

    def _each_joint(self, q: Array, function: Callable[[Joint, Array], Array]) -> Array:
        """The results of a function of a joint and its position variables, for the joints behind the base."""
        chosen = self.model.joint[self._joints]
        ends = np.cumsum([joint.nq for joint in chosen])
        return np.concatenate([q[:0], *map(function, chosen, np.split(q, ends[:-1]))]) if chosen else q

    def _accelerations(self, x: SimpleNamespace, u: SimpleNamespace, p: SimpleNamespace) -> tuple[Array, Array]:
        """The spatial acceleration of the base in its own coordinates, and those of the joints."""
        X, (q, qd) = _pose(x), self._joint_motion(x)
        tau = u.tau if self._articulated else np.zeros(0)
        wrenches = u.f_ext if self.external_wrenches else None
        a, qdd = aba_floating(self.model, X, X.inverse() @ x.velocity, q, qd, tau, wrenches, p.gravity)
        return X @ a, qdd


def _pose(x: SimpleNamespace) -> Transform:
    """The transform from fixed to base coordinates."""
    return Transform(quaternion_rotation(x.quaternion), x.position)
