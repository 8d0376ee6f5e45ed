"""Block that computes the forces of compliant stops at joint limits."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.block.block import Block, Port, Record, Values
from rigidblocks.dynamics.force_laws import stable_step, stop_push
from rigidblocks.dynamics.operational_space import inverse_inertia
from rigidblocks.library.common_ports import joint_ports, joint_units
from rigidblocks.robot.tree import Tree
from rigidblocks.spatial.scalar import less, select
from rigidblocks.spatial.spatial import Array


@dataclass(frozen=True, eq=False)
class JointLimits(Block):
    """Compliant stops at joint limits, which are unilateral springs and dampers (RBDA 11.4, 11.8).

        tau = max(0, K (lower - q) - D qd)         if q < lower
        tau = -max(0, K (q - upper) + D qd)        if q > upper

    A stop never pulls. `lower` and `upper` (nv,) [rad or m] are infinite for joints without a stop.
    The stiffness K [N m/rad or N/m] and the damping D [N m s/rad or N s/m] are scalars or have the
    shape (nv,).

    In a co-simulation, the master holds the force of a stop over a communication step. The function
    `stable_step` returns the longest stable step for K, D and the effective inertia at the joint.

    Raises:
        ValueError: A joint has more positions than velocities, or an upper limit is not above the
            lower limit.
    """

    model: Tree
    lower: Any
    upper: Any
    K: Any
    D: Any

    def __post_init__(self) -> None:
        model = self.model
        if bad := [
            name
            for name, joint in zip(model.joint_names, model.joint, strict=True)
            if joint.nq > joint.nv
        ]:
            raise ValueError(
                "joint limits do not support joints with more positions than velocities: "
                f"{', '.join(bad)}"
            )
        for name in ("lower", "upper"):
            limit = np.array(
                np.broadcast_to(np.asarray(getattr(self, name), dtype=float), (model.nv,))
            )
            if np.any(np.isnan(limit)):
                raise ValueError(
                    f"the {name} limits of model '{model.name}' must not be NaN, but are "
                    f"{limit.tolist()}"
                )
            object.__setattr__(self, name, limit)
        if np.any(self.lower >= self.upper):
            k = int(np.argmax(self.lower >= self.upper))
            raise ValueError(
                f"the upper limit {self.upper[k]} of q[{k}] must be above the lower limit "
                f"{self.lower[k]}"
            )

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Input ports for the joint positions q (nv,) and joint velocities qd (nv,)."""
        return joint_ports(self.model, q="joint positions", qd="joint velocities")

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Ports of the outputs tau (nv,) and at_limit (nv,).

        at_limit is -1 while a lower stop pushes, 1 while an upper stop pushes, and otherwise 0.
        """
        return (
            *joint_ports(self.model, tau="forces of the stops"),
            Port(
                "at_limit",
                (self.model.nv,),
                "1",
                "-1 at a lower, 1 at an upper stop",
                min=-1.0,
                max=1.0,
            ),
        )

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Parameter ports for the stiffness K (nv,) and the damping D (nv,) of the stops."""
        linear = [unit == "N" for unit in joint_units(self.model.joint).tau]
        stiffness = tuple("N/m" if one else "N.m/rad" for one in linear)
        damping = tuple("N.s/m" if one else "N.m.s/rad" for one in linear)
        shape = (self.model.nv,)
        return (
            Port("K", shape, stiffness, "stiffness of the stops", self.K, min=0.0),
            Port("D", shape, damping, "damping of the stops", self.D, min=0.0),
        )

    def longest_hold(self, u: Record, p: Record) -> float:
        """Return the longest communication step [s] for which held stop forces are stable.

        The function neglects the inertial coupling of the joints. Without stops, the result is
        infinite.
        """
        limited = np.isfinite(self.lower) | np.isfinite(self.upper)
        A = inverse_inertia(self.model, np.asarray(u.q, dtype=float), np.eye(self.model.nv))
        each = zip(np.diag(A)[limited], p.K[limited], p.D[limited], strict=True)
        return min((stable_step(K, D, 1.0 / a) for a, K, D in each if K > 0), default=np.inf)

    def output(self, u: Record, p: Record) -> Values:
        up = _stop_forces(self.lower, u.q, u.qd, p, 1.0)
        down = _stop_forces(self.upper, u.q, u.qd, p, -1.0)
        pushing = select(less(0.0, down), 1.0, 0.0) - select(less(0.0, up), 1.0, 0.0)
        return {"tau": up - down, "at_limit": pushing}


def _stop_forces(limits: Array, q: Array, qd: Array, p: Record, sign: float) -> Array:
    """Return the magnitude of the stop force at each joint (nv,), 0 for joints without a stop.

    Args:
        limits: Lower or upper limits (nv,).
        q: Joint positions (nv,).
        qd: Joint velocities (nv,).
        p: Parameters K and D.
        sign: Sign of the force: 1 at lower limits, -1 at upper limits.
    """
    every = zip(limits, q, qd, p.K, p.D, strict=True)
    return np.array(
        [
            stop_push(sign * (limit - s), sign * sd, K, D) if np.isfinite(limit) else 0.0
            for limit, s, sd, K, D in every
        ]
    )
