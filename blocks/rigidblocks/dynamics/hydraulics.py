"""Hydraulic cylinder with a proportional valve: a motor for drives of prismatic joints."""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from rigidblocks.dynamics.force_laws import Number
from rigidblocks.dynamics.motors import CurrentLoop, Motor, Response, RotorMotion, Signal
from rigidblocks.spatial.scalar import clip_with_events, less, select

_SMOOTH = 1e3  # [Pa] pressure drop below which the flow of the valve becomes laminar


@dataclass(frozen=True)
class HydraulicCylinder(Motor):
    """Double-acting hydraulic cylinder with a 4/3 proportional valve.

        force = area_a p_a - area_b p_b
        dp_a/dt = bulk_modulus / V_a (Q_a - area_a v - leakage (p_a - p_b))
        dp_b/dt = bulk_modulus / V_b (Q_b + area_b v + leakage (p_a - p_b))
        V_a = dead_volume + area_a x,    V_b = dead_volume + area_b (stroke - x)

    p [Pa], V [m^3] and Q [m^3/s] are the pressures, the volumes and the inflows of the chambers a
    and b. x is the position of the piston, which is the position of the prismatic joint minus
    `retracted`, and v is its velocity. Keep x between 0 and `stroke`, for example with a `Stop`.

    The command u from -1 to 1 is the valve opening. For u > 0, the valve connects chamber a with
    the supply and chamber b with the tank. For u < 0, the connections are exchanged. The flow
    through each metering edge of the valve with the pressure drop d is

        Q = flow |u| sqrt(d / drop)

    `flow` [m^3/s] is the rated flow per metering edge at the pressure drop `drop` [Pa]. Below a
    pressure drop of about 1 kPa the flow is laminar. With `time_constant` [s], the opening follows
    the command with a lag. The chambers start at the pressures `start_a` and `start_b`. By default,
    the piston is in equilibrium: area_a start_a = area_b start_b. The sum of both pressures is the
    sum of the supply and tank pressures, and neither pressure exceeds the supply pressure.

    References:
        H. E. Merritt: Hydraulic Control Systems. Wiley, 1967.

    Raises:
        ValueError: The supply pressure is not above the tank pressure, or a start pressure is
            negative or not finite.
    """

    area_a: Any
    area_b: Any
    stroke: Any
    flow: Any
    supply: Any = 2.1e7
    tank: Any = 1e5
    drop: Any = 3.5e6
    dead_volume: Any = 1e-5
    bulk_modulus: Any = 1.4e9
    leakage: Any = 0.0
    retracted: Any = 0.0
    time_constant: Any = None
    start_a: float | None = None
    start_b: float | None = None
    is_linear: ClassVar[bool] = True
    quantities: ClassVar = {
        "area_a": Number("area", "piston area of chamber a", positive=True),
        "area_b": Number("area", "piston area of chamber b", positive=True),
        "stroke": Number("distance", "stroke of the piston", positive=True),
        "flow": Number("flow", "rated flow per edge of the valve", positive=True),
        "supply": Number("pressure", "supply pressure", positive=True),
        "tank": Number("pressure", "tank pressure", 0.0),
        "drop": Number("pressure", "pressure drop at the rated flow", positive=True),
        "dead_volume": Number("volume", "dead volume of each chamber", positive=True),
        "bulk_modulus": Number("pressure", "bulk modulus of the fluid", positive=True),
        "leakage": Number("leakage", "leakage coefficient of the piston", 0.0),
        "retracted": Number("distance", "joint position of the retracted piston"),
        "time_constant": Number("time", "time constant of the valve", positive=True),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.supply > self.tank:
            raise ValueError(
                "the supply pressure of a HydraulicCylinder must be above the tank pressure, not "
                f"{self.supply} and {self.tank} Pa"
            )
        for name in ("start_a", "start_b"):
            value = getattr(self, name)
            if value is None:
                continue
            if not isinstance(value, Real):
                raise TypeError(f"{name} of a HydraulicCylinder must be a number, not {value!r}")
            if not 0.0 <= float(value) < np.inf:
                raise ValueError(
                    f"{name} of a HydraulicCylinder must be finite and not negative, not {value} Pa"
                )

    @property
    def inertia(self) -> Any:
        """Rotor inertia, which is None: the mass of the piston is part of a link."""
        return None

    def commands(self, loop: CurrentLoop | None) -> tuple[Signal, ...]:
        del loop
        return (Signal("command", "number", "valve opening, -1 to 1,"),)

    def states(self, loop: CurrentLoop | None) -> tuple[Signal, ...]:
        del loop
        found = [
            Signal(f"pressure_{name}", "pressure", f"pressure in chamber {name}", start, 1e6)
            for name, start in zip("ab", self._start_pressures(), strict=True)
        ]
        if self.time_constant is not None:
            found.append(Signal("opening", "number", "valve opening"))
        return tuple(found)

    def _start_pressures(self) -> tuple[float, float]:
        """Return the start pressures [Pa] of the chambers a and b."""
        if self.start_a is not None and self.start_b is not None:
            return float(self.start_a), float(self.start_b)
        A_a, A_b = float(self.area_a), float(self.area_b)
        if self.start_a is not None:
            return float(self.start_a), A_a / A_b * float(self.start_a)
        if self.start_b is not None:
            return A_b / A_a * float(self.start_b), float(self.start_b)
        total, most = float(self.supply) + float(self.tank), float(self.supply)
        force = min(total / (1.0 / A_a + 1.0 / A_b), most * min(A_a, A_b))
        return force / A_a, force / A_b

    def poles(self, loop: CurrentLoop | None) -> tuple[complex, ...]:
        del loop
        return () if self.time_constant is None else (-1.0 / self.time_constant,)

    def max_stiffness_and_damping(self, angle: float) -> tuple[float, float]:
        """Return the hydraulic stiffness K [N/m], and zero damping.

        K = bulk_modulus (area_a^2 / V_a + area_b^2 / V_b). V_a and V_b are the chamber volumes at
        the position `angle` [m] of the prismatic joint.
        """
        V_a, V_b = self._volumes(min(max(angle - self.retracted, 0.0), self.stroke))
        return self.bulk_modulus * (self.area_a**2 / V_a + self.area_b**2 / V_b), 0.0

    def _volumes(self, piston: Any) -> tuple[Any, Any]:
        """Return the volumes [m^3] of the chambers a and b at a position of the piston [m]."""
        V_a = self.dead_volume + self.area_a * piston
        return V_a, self.dead_volume + self.area_b * (self.stroke - piston)

    @property
    def outputs(self) -> tuple[Signal, ...]:
        return (
            Signal("flow_a", "flow", "flow into chamber a"),
            Signal("flow_b", "flow", "flow into chamber b"),
        )

    def respond(
        self,
        loop: CurrentLoop | None,
        command: Mapping[str, Any],
        torque: Any,
        rotor: RotorMotion,
        x: Mapping[str, Any],
    ) -> Response:
        del loop
        u = clip_with_events(command["command"] if torque is None else torque, -1.0, 1.0)
        rates = dict[str, Any]()
        if self.time_constant is not None:
            rates["opening"] = (u - x["opening"]) / self.time_constant
            u = x["opening"]
        p_a, p_b = x["pressure_a"], x["pressure_b"]
        piston, v = rotor.angle - self.retracted, rotor.speed
        Q_a, Q_b = self._edge_flow(u, p_a), self._edge_flow(-u, p_b)
        leak = self.leakage * (p_a - p_b)
        V_a, V_b = self._volumes(piston)
        rates["pressure_a"] = self.bulk_modulus / V_a * (Q_a - self.area_a * v - leak)
        rates["pressure_b"] = self.bulk_modulus / V_b * (Q_b + self.area_b * v + leak)
        force = self.area_a * p_a - self.area_b * p_b
        return Response(force, rates, {"flow_a": Q_a, "flow_b": Q_b})

    def _edge_flow(self, opening: Any, pressure: Any) -> Any:
        """Return the flow [m^3/s] through the open metering edge into a chamber.

        `pressure` [Pa] is the pressure in the chamber. A positive `opening` connects the chamber to
        the supply, a negative `opening` connects it to the tank.
        """
        filling = less(0.0, opening)
        d = select(filling, self.supply - pressure, pressure - self.tank)
        root = d / np.sqrt(np.sqrt(d * d + _SMOOTH * _SMOOTH))  # sqrt(d), and linear near d = 0
        return self.flow * opening * root / np.sqrt(self.drop)
