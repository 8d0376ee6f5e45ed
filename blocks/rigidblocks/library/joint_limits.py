"""The stops at the ends of joints."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.scalar import less, select
from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Block, Port, Record, Values
from rigidblocks.contact.soft import stable_step
from rigidblocks.dynamics.laws import stop_push
from rigidblocks.dynamics.operational import inverse_inertia
from rigidblocks.library.ports import joint_ports, joint_units
from rigidblocks.model.tree import Tree


@dataclass(frozen=True, eq=False)
class JointLimits(Block):
    """The forces of compliant stops that keep joints within limits: unilateral constraints made
    soft (RBDA 11.4, 11.8).

        tau = max(0, K (lower - q) - D qd)     where q < lower, and its mirror image where q > upper

    `lower` and `upper` (nv,) [rad or m] may be infinite, for a joint without a stop there. K and D
    are numbers or (nv,) [N m/rad, N m s/rad; N/m, N s/m]. A stop never pulls. In a co-simulation
    its force is held over a step h, which is stable up to the `contact.stable_step` of K, D and the
    inertia that the joint feels. Raises ValueError for joints whose positions are not coordinates,
    and for limits of which the upper is not above the lower.
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
                "limits need joints whose positions are coordinates, which those of "
                f"{', '.join(bad)} are not"
            )
        for name in ("lower", "upper"):
            limit = np.array(
                np.broadcast_to(np.asarray(getattr(self, name), dtype=float), (model.nv,))
            )
            if np.any(np.isnan(limit)):
                raise ValueError(
                    f"{name} limits of model '{model.name}' must be numbers or infinite, not "
                    f"{limit.tolist()}"
                )
            object.__setattr__(self, name, limit)
        if np.any(self.lower >= self.upper):
            k = int(np.argmax(self.lower >= self.upper))
            raise ValueError(
                f"the upper limit {self.upper[k]} of q[{k}] must be above the lower one, "
                f"{self.lower[k]}"
            )

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """q and qd (nv,)."""
        return joint_ports(self.model, q="joint positions", qd="joint velocities")

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """tau (nv,), and at_limit (nv,), which is -1 at a lower stop that pushes, 1 at an upper
        one, else 0.
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
        """K and D (nv,)."""
        linear = [unit == "N" for unit in joint_units(self.model.joint).tau]
        stiffness = tuple("N/m" if one else "N.m/rad" for one in linear)
        damping = tuple("N.s/m" if one else "N.m.s/rad" for one in linear)
        shape = (self.model.nv,)
        return (
            Port("K", shape, stiffness, "stiffness of the stops", self.K, min=0.0),
            Port("D", shape, damping, "damping of the stops", self.D, min=0.0),
        )

    def longest_hold(self, u: Record, p: Record) -> float:
        """Of the stop that bears the shortest hold, each pushing alone."""
        limited = np.isfinite(self.lower) | np.isfinite(self.upper)
        A = inverse_inertia(self.model, np.asarray(u.q, dtype=float), np.eye(self.model.nv))
        each = zip(np.diag(A)[limited], p.K[limited], p.D[limited], strict=True)
        return min((stable_step(K, D, 1.0 / a) for a, K, D in each if K > 0), default=np.inf)

    def output(self, u: Record, p: Record) -> Values:
        up = _pushes(self.lower, u.q, u.qd, p, 1.0)
        down = _pushes(self.upper, u.q, u.qd, p, -1.0)
        pushing = select(less(0.0, down), 1.0, 0.0) - select(less(0.0, up), 1.0, 0.0)
        return {"tau": up - down, "at_limit": pushing}


def _pushes(limits: Array, q: Array, qd: Array, p: Record, sign: float) -> Array:
    """The size of each stop's force, 0 where there is no stop; `sign` is the direction in which
    they push.
    """
    every = zip(limits, q, qd, p.K, p.D, strict=True)
    return np.array(
        [
            stop_push(sign * (limit - s), sign * sd, K, D) if np.isfinite(limit) else 0.0
            for limit, s, sd, K, D in every
        ]
    )
