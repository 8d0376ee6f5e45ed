"""Robot plants: the dynamics of a model as a block."""

from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np

from rigidblocks.block import Block, Port, Values, finite
from rigidblocks.configuration import rate, unit_quaternions
from rigidblocks.dynamics import aba, aba_with_rotors, energy, equivalent
from rigidblocks.library.ports import (
    check_open,
    gravity_port,
    joint_units,
    motion_states,
    start_configuration,
    wrench_port,
)
from rigidblocks.model import Model, aligned


@dataclass(frozen=True, eq=False)
class RobotPlant(Block):
    """The forward dynamics of a robot: joint forces in, joint motion out.

        H(q) qdd + C(q, qd, f_ext) = tau        solved by the articulated-body algorithm (RBDA Table 7.1)

    `q0` and `qd0` are the state at the start: the neutral configuration at rest unless given. The quaternions among the
    positions are made unit ones, in `q0` and after every inner step; a zero one is refused with ValueError. With
    `external_wrenches` there is an input `f_ext` (nb, 6), the wrench [n; f] on each body in base coordinates about the
    base origin. `rotor_inertia` (nv,) [kg m^2] is that of the motors' rotors as felt at the joints, the square of the
    gear ratio times the rotor's own (RBDA 9.6). The parameter `gravity` is the model's unless it is changed.
    """

    model: Model
    q0: Any = None
    qd0: Any = 0.0
    external_wrenches: bool = False
    rotor_inertia: Any = None

    def __post_init__(self) -> None:
        if self.rotor_inertia is not None:
            I_rot = finite(self.rotor_inertia, (self.model.nv,), "rotor_inertia")
            if np.any(I_rot < 0):
                raise ValueError(f"rotor_inertia must not be negative, not {I_rot.tolist()} kg m^2")
            object.__setattr__(self, "rotor_inertia", I_rot)
        check_open(self.model, "RobotPlant")
        object.__setattr__(self, "q0", start_configuration(self.model, self.q0))
        _ = self.states, self.parameters  # their start values are checked where they are given

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """tau (nv,), and f_ext (nb, 6) when asked for."""
        units = joint_units(self.model.joint).tau
        tau = Port("tau", (self.model.nv,), units, "joint forces", 0.0)
        return (tau, wrench_port(self.model)) if self.external_wrenches else (tau,)

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """q (nq,) and qd (nv,)."""
        return motion_states(self.model, slice(None), self.q0, self.qd0)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """q, qd, qdd (nv,) and the mechanical energy."""
        return (
            *self.states,
            Port("qdd", (self.model.nv,), joint_units(self.model.joint).qdd, "joint accelerations"),
            Port("energy", (), "J", "kinetic and potential energy"),
        )

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """gravity (3,)."""
        return (gravity_port(self.model),)

    def derivative(self, t: Any, x: SimpleNamespace, u: SimpleNamespace, p: SimpleNamespace) -> Values:
        del t
        return {"q": rate(self.model, x.q, x.qd), "qd": self._qdd(x, u, p)}

    def project(self, t: Any, x: SimpleNamespace, u: SimpleNamespace, p: SimpleNamespace) -> Values:
        del t, u, p
        return {"q": unit_quaternions(self.model, x.q)} if self.model.nq > self.model.nv else {}

    def output(self, t: Any, x: SimpleNamespace, u: SimpleNamespace, p: SimpleNamespace) -> Values:
        del t
        E = energy(self._aligned, x.q, x.qd, p.gravity)
        if self.rotor_inertia is not None:
            E = E + self.rotor_inertia @ (x.qd * x.qd) / 2
        return {"qdd": self._qdd(x, u, p), "energy": E}

    @cached_property
    def _aligned(self) -> Model:
        return aligned(self.model)

    @cached_property
    def _equivalent(self) -> Model:
        """The cheapest model with the same equation of motion; a planar model is its own."""
        return equivalent(self._aligned) if isinstance(self.model, Model) else self.model

    def _qdd(self, x: SimpleNamespace, u: SimpleNamespace, p: SimpleNamespace) -> Any:
        f_ext = u.f_ext if self.external_wrenches else None
        if self.rotor_inertia is None:
            return aba(self._equivalent, x.q, x.qd, u.tau, f_ext, p.gravity)
        return aba_with_rotors(self._equivalent, x.q, x.qd, u.tau, self.rotor_inertia, f_ext, p.gravity)
