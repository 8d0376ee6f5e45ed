"""The actuators that a file describes, as a block with an input for each by its name."""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.scalar import within
from rigidblocks.block.block import Block, Port, Record, Values
from rigidblocks.formats.description import Actuator
from rigidblocks.joint import Joint
from rigidblocks.library.ports import joint_units


@dataclass(frozen=True, eq=False)
class JointMotors(Block):
    """Motors, position and velocity servos at joints of one freedom, as MJCF has them.

        force = (gain . s) u + bias . s,  s = (1, gear q, gear qd)        tau = gear force

    `actuators` are at `joints` by number; each has an input u under its name, limited to its
    `control` limits, and the parameters NAME_gain and NAME_bias, (3,) each. Its force is limited to
    its `force` limits, and the sum at a joint to [-effort, effort]: `effort` (nv,) [N m or N] is
    without limits unless given. In names _ stands for what an identifier cannot have.
    """

    joints: tuple[Joint, ...]
    actuators: tuple[Actuator, ...]
    effort: Any = np.inf

    def __post_init__(self) -> None:
        for a in self.actuators:
            if not 0 <= a.joint < len(self.joints) or self.joints[a.joint].nv != 1:
                raise ValueError(
                    f"actuator '{a.name}' is at joint {a.joint}, which is none of one freedom of "
                    f"the {len(self.joints)}"
                )
        nv = sum(joint.nv for joint in self.joints)
        effort = np.broadcast_to(np.asarray(self.effort, dtype=float), (nv,))
        if not np.all(effort >= 0.0):
            raise ValueError(f"effort must not be negative, not {effort.tolist()}")
        object.__setattr__(self, "effort", effort)

    @cached_property
    def _names(self) -> list[str]:
        names = ["q", "qd", "tau"]
        for a in self.actuators:
            plain = re.sub(r"[^A-Za-z0-9_]", "_", a.name)
            plain = plain if plain[:1].isalpha() else f"u_{plain}"
            names.append(plain if plain not in names else f"{plain}_{len(names) - 2}")
        return names[3:]

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """A control for each actuator, and q (nq,) and qd (nv,)."""
        units = joint_units(self.joints)
        controls = (
            Port(name, (), "1", f"control of {a.name}", 0.0, min=a.control[0], max=a.control[1])
            for name, a in zip(self._names, self.actuators, strict=True)
        )
        return (
            *controls,
            Port("q", (len(units.q),), units.q, "joint positions"),
            Port("qd", (len(units.qd),), units.qd, "joint velocities"),
        )

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """NAME_gain and NAME_bias (3,) of each actuator."""
        text = "by 1, its length and its velocity"
        return tuple(
            Port(f"{name}_{part}", (3,), "1", f"{part} of {a.name} {text}", values)
            for name, a in zip(self._names, self.actuators, strict=True)
            for part, values in (("gain", a.gain), ("bias", a.bias))
        )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """tau (nv,)."""
        units = joint_units(self.joints).tau
        return (Port("tau", (len(units),), units, "joint forces of the actuators"),)

    def output(self, t: Any, u: Record, p: Record) -> Values:
        del t
        at_q = np.cumsum([0, *(joint.nq for joint in self.joints)])
        at_qd = np.cumsum([0, *(joint.nv for joint in self.joints)])
        tau: list[Any] = [0.0] * int(at_qd[-1])
        for name, a in zip(self._names, self.actuators, strict=True):
            q, k = u.q[at_q[a.joint]], int(at_qd[a.joint])
            s = np.array([1.0, a.gear * q, a.gear * u.qd[k]])
            control = _limited(getattr(u, name), *a.control)
            force = (getattr(p, f"{name}_gain") @ s) * control + getattr(p, f"{name}_bias") @ s
            tau[k] = tau[k] + a.gear * _limited(force, *a.force)
        limits = zip(tau, self.effort, strict=True)
        return {"tau": np.array([_limited(force, -most, most) for force, most in limits])}


def _limited(value: Any, low: float, high: float) -> Any:
    return within(value, low, high) if np.isfinite([low, high]).any() else value
