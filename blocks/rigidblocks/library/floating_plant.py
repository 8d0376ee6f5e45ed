"""A plant on a floating base, whose orientation is a quaternion."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.rotation import normalized_quaternion, quaternion_rate, quaternion_rotation
from rigidblocks.algebra.spatial import Array, Transform, identity
from rigidblocks.block.block import Port, Record, Values, finite
from rigidblocks.dynamics.elements import Acting
from rigidblocks.dynamics.floating import (
    aba_floating,
    crba_floating,
    floating_body,
    forward_dynamics_crba_floating,
)
from rigidblocks.joint import Joint, SixDoF
from rigidblocks.library.elements import Element, Elements, with_loads
from rigidblocks.library.plant import Plant
from rigidblocks.library.ports import (
    acceleration_port,
    check_open,
    energy_port,
    force_port,
    gravity_port,
    motion_states,
    scaled,
    wrench_port,
)
from rigidblocks.model.model import Model
from rigidblocks.model.resistance import check_resistance

_TWIST = ("rad/s",) * 3 + ("m/s",) * 3
_MOMENTUM = ("N.m.s",) * 3 + ("N.s",) * 3


@dataclass(frozen=True, eq=False)
class FloatingBasePlant(Plant):
    """The forward dynamics of a robot on a floating base: joint forces and wrenches in, the motion
    of base and joints out.

        I_0^A a_0 + p_0^A = 0        (RBDA Table 9.4)

    The state of the base is its orientation, a unit quaternion with its scalar first (4,), its
    position (3,) [m], both in fixed coordinates, and its velocity [w; v] (6,) in its own. q and qd
    are the variables of the joints behind it; a model without such joints has no ports for them.
    Quaternions are made unit ones at the start and after every inner step; `q0` is the neutral
    configuration unless given. `com` (3,) is the centre of mass of the whole, `momentum` (6,) its
    momentum [about the fixed origin; linear], both in fixed coordinates. With `external_wrenches`
    there is an input `f_ext` (nb, 6), in fixed coordinates. `elements` are those of `RobotPlant`,
    at joints behind the base, between bodies, or from them to fixed points.
    `nominal` is that of `RobotPlant`.
    """

    model: Model
    quaternion0: Any = (1.0, 0.0, 0.0, 0.0)
    position0: Any = 0.0
    velocity0: Any = 0.0
    q0: Any = None
    qd0: Any = 0.0
    external_wrenches: bool = False
    elements: tuple[Element, ...] = ()
    nominal: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_open(self.model, "FloatingBasePlant")
        check_resistance(self.model, rotor_inertia=self._elements.rotor_inertia)
        quaternion = finite(self.quaternion0, (4,), "the start value of port 'quaternion'")
        if not np.any(quaternion):
            raise ValueError("the quaternion of a floating base must not be zero")
        object.__setattr__(self, "quaternion0", normalized_quaternion(quaternion))
        chosen, given = self._joints, self.q0 is not None
        q0 = (
            np.concatenate([np.zeros(0), *(joint.neutral() for joint in chosen)])
            if self.q0 is None
            else self.q0
        )
        q0 = finite(q0, (sum(joint.nq for joint in chosen),), "the start value of port 'q'")
        object.__setattr__(self, "q0", self._unit_quaternions(q0))
        if not np.all(np.isfinite(self.q0)):
            raise ValueError(f"a quaternion in q0 of a floating base plant is zero: {q0.tolist()}")
        qd0 = np.concatenate([np.zeros(6), finite(self.qd0, (self.model.nv - 6,), "qd0")])
        start = self._elements.start(np.concatenate([np.zeros(7), self.q0]), qd0, given)
        object.__setattr__(self, "q0", start[7:])

    @cached_property
    def _base(self) -> int:
        """The body that floats; raises ValueError for a model without a floating base."""
        return floating_body(self.model)

    @property
    def _joints(self) -> tuple[Joint, ...]:
        """The joints behind the base."""
        return self.model.joint[self._base + 1 :]

    @cached_property
    def configuration_model(self) -> Model:
        model, base = self.model, self._base
        behind = slice(base + 1, None)
        return Model(
            model.name,
            (-1, *(p - base for p in model.parent[behind])),
            (SixDoF(), *model.joint[behind]),
            (identity(), *model.Xtree[behind]),
            model.inertia[base:],
            body_names=model.body_names[base:],
            joint_names=model.joint_names[base:],
            massless=tuple(name for name in model.massless if name in model.body_names[base:]),
            appearance=model.appearance[base:],
            contact=model.contact[base:],
            unphysical=model.unphysical,
        )

    def configuration(self, x: Record) -> tuple[Array, Array]:
        q, qd = (x.q, x.qd) if self._has_joints else (np.zeros(0), np.zeros(0))
        return np.concatenate([x.quaternion, x.position, q]), np.concatenate([x.velocity, qd])

    def with_wrenches(self) -> "FloatingBasePlant":
        return replace(self, external_wrenches=True)

    @property
    def _has_joints(self) -> bool:
        return self.model.nv > 6

    @property
    def _has_quaternions(self) -> bool:
        return any(joint.nq > joint.nv for joint in self._joints)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """tau (nv - 6,) where there are joints, and f_ext (nb, 6) when asked for."""
        tau = scaled([force_port(self._joints)] if self._has_joints else [], self.nominal)
        return (*tau, wrench_port(self.model)) if self.external_wrenches else tau

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """quaternion (4,), position (3,), velocity (6,), and q and qd where there are joints;
        and what the elements remember.
        """
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
            Port(
                "position",
                (3,),
                "m",
                "position of the base, fixed coordinates",
                self.position0,
                "velocity",
            ),
            Port(
                "velocity",
                (6,),
                _TWIST,
                "velocity [w; v] of the base, its own coordinates",
                self.velocity0,
            ),
        )
        joints = motion_states(self._joints, self.q0, self.qd0) if self._has_joints else ()
        return (*base, *scaled(joints, self.nominal), *self._elements.states)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """The states, acceleration (6,), qdd where there are joints, com (3,), momentum (6,),
        energy, and the forces of the elements.
        """
        accelerations = tuple(f"{unit}2" for unit in _TWIST)
        qdd = (acceleration_port(self._joints),) if self._has_joints else ()
        return (
            *self.states,
            Port(
                "acceleration",
                (6,),
                accelerations,
                "spatial acceleration of the base, its own coordinates",
            ),
            *qdd,
            Port("com", (3,), "m", "centre of mass, fixed coordinates"),
            Port(
                "momentum",
                (6,),
                _MOMENTUM,
                "momentum [angular; linear] about the fixed origin, fixed coordinates",
            ),
            energy_port(),
            *self._elements.outputs,
        )

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """gravity (3,), and the numbers of the elements."""
        return (gravity_port(self.model), *self._elements.parameters)

    def derivative(self, x: Record, u: Record, p: Record) -> Values:
        w, v = x.velocity[:3], x.velocity[3:]
        q, qd = self._joint_motion(x, p)
        acting = self._acting(x, q, qd, p)
        a, qdd = self._accelerations(x, q, qd, u, p, acting)
        # the coordinates of v change at the rate a in any frame, for v x v = 0
        rates = {
            "quaternion": quaternion_rate(x.quaternion, w),
            "position": _pose(x).E.T @ v,
            "velocity": a,
            **self._elements.rates(acting),
        }
        return rates | {"q": self._q_rate(q, qd), "qd": qdd} if self._has_joints else rates

    def project(self, x: Record, p: Record) -> Values:
        base = {"quaternion": normalized_quaternion(x.quaternion)}
        q, qd = self._joint_motion(x, p)
        if self._has_quaternions or self._elements.geared:
            base["q"] = self._unit_quaternions(q)
        return base | {"qd": qd} if self._elements.geared else base

    def output(self, x: Record, u: Record, p: Record) -> Values:
        X, (q, qd) = _pose(x), self._joint_motion(x, p)
        acting = self._acting(x, q, qd, p)
        a, qdd = self._accelerations(x, q, qd, u, p, acting)
        I0c, F, H = crba_floating(self.model, q)
        h = I0c @ x.velocity + F @ qd
        m, first_moment = I0c[5, 5], np.array([I0c[2, 4], I0c[0, 5], I0c[1, 3]])
        com = X.r + X.E.T @ first_moment / m
        kinetic = (x.velocity @ h + qd @ (F.T @ x.velocity + H @ qd)) / 2
        more = self._elements.energy(acting, np.concatenate([x.velocity, qd]), p)
        values = {
            "acceleration": a,
            "com": com,
            "momentum": X.T @ h,
            "energy": kinetic - m * (p.gravity @ com) + more,
            **self._elements.values(acting),
        }
        return values | {"qdd": qdd} if self._has_joints else values

    def _joint_motion(self, x: Record, p: Record) -> tuple[Array, Array]:
        """q and qd of the joints, on their gears."""
        q, qd = self._elements.moving(*self.configuration(x), p)
        return q[7:], qd[6:]

    def _q_rate(self, q: Array, qd: Array) -> Array:
        velocities = iter(qd)
        return self._each_joint(
            q,
            lambda joint, q: joint.rate(q, np.array([next(velocities) for _ in range(joint.nv)])),
        )

    def _unit_quaternions(self, q: Array) -> Array:
        with np.errstate(invalid="ignore"):
            return self._each_joint(q, lambda joint, part: joint.normalized(part))

    def _each_joint(self, q: Array, function: Callable[[Joint, Array], Array]) -> Array:
        """The results of a function of a joint and its position variables, for the joints behind
        the base.
        """
        chosen = self._joints
        ends = np.cumsum([joint.nq for joint in chosen])
        return (
            np.concatenate([q[:0], *map(function, chosen, np.split(q, ends[:-1]))]) if chosen else q
        )

    @property
    def force_elements(self) -> Elements:
        return self._elements

    @cached_property
    def _elements(self) -> Elements:
        return Elements(self.configuration_model, self.elements)

    def _acting(self, x: Record, q: Array, qd: Array, p: Record) -> Acting | None:
        whole = np.concatenate([x.quaternion, x.position, q]), np.concatenate([x.velocity, qd])
        return self._elements.acting(*whole, x, p)

    def _accelerations(
        self, x: Record, q: Array, qd: Array, u: Record, p: Record, acting: Acting | None
    ) -> tuple[Array, Array]:
        """The spatial acceleration of the base in its own coordinates, and those of the joints."""
        X, tau = _pose(x), u.tau if self._has_joints else np.zeros(0)
        wrenches = u.f_ext if self.external_wrenches else None
        tau, wrenches = with_loads(acting, tau, wrenches, 6, self._base)
        state = (self.model, X, X.inverse() @ x.velocity, q, qd, tau, wrenches, p.gravity)
        given = self._elements.transmissions(p)
        if given is None:
            a, qdd = aba_floating(*state)
        else:
            G = given.matrix[6:, 6:] if given.driven else None
            a, qdd = forward_dynamics_crba_floating(
                *state, rotor_inertia=given.rotor_inertia[6:], G=G
            )
        return X @ a, qdd


def _pose(x: Record) -> Transform:
    """The transform from fixed to base coordinates."""
    return Transform(quaternion_rotation(x.quaternion), x.position)
