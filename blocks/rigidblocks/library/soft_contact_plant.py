"""Soft contact between shapes within a plant's own step."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Port, Record, Values, call
from rigidblocks.block.staged import StagedBlock
from rigidblocks.contact.material_tables import PairOfMaterials
from rigidblocks.contact.sensor_tables import ContactSensor
from rigidblocks.library.contact_checks import checked_ground
from rigidblocks.library.plant import Plant
from rigidblocks.library.soft_contact import SoftContact, check_spatial
from rigidblocks.model.model import Model
from rigidblocks.model.shapes import Plane, Shape, Surface


@dataclass(frozen=True, eq=False)
class SoftContactPlant(StagedBlock):
    """The forward dynamics of robots and free bodies whose shapes touch softly.

        H(q) qdd + C(q, qd) = tau + sum J_i^T f_i      f_i by the law of `SoftContact`

    `robot` is a `RobotPlant`, `FloatingBasePlant` or `ClosedLoopPlant`; the other fields are those
    of a `SoftContact` of its model. The forces are those of every stage of the integrator: nothing
    is held. The usual steps end where two shapes come to touch or cease to, and their length
    follows their error at any stiffness. `f_contact` (nb, 6) are the wrenches on the bodies. There
    is no limit to the number of contacts; code does not grow with them, states do where there is
    friction, four for each pair of shapes that may touch: name in `apart` those that need not.

    Raises TypeError for another block as the robot, and what `SoftContact` raises.
    """

    robot: Plant
    K: float
    D: float = 0.0
    mu: float = 0.0
    ground: tuple[Shape | Surface, ...] = (Plane(),)
    K_t: float | None = None
    D_t: float | None = None
    depth_ref: float | None = None
    dissipation: float = 0.0
    apart: tuple[tuple[str, str], ...] = ()
    pairs: tuple[PairOfMaterials, ...] = ()
    sensors: tuple[ContactSensor, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.robot, Plant):
            raise TypeError(
                "the robot of a plant in soft contact is a RobotPlant, FloatingBasePlant or "
                f"ClosedLoopPlant, not {self.robot!r}"
            )
        object.__setattr__(self, "ground", checked_ground(self.ground))
        _ = self.contact

    @cached_property
    def _robot(self) -> Plant:
        return self.robot.with_wrenches()

    @cached_property
    def contact(self) -> SoftContact:
        """The contact of the robot's model."""
        check_spatial(self.robot.model)
        law = (self.K, self.D, self.mu, self.ground, self.K_t, self.D_t, self.depth_ref)
        assert isinstance(self.robot.model, Model)
        others = (self.dissipation, self.apart, self.pairs, self.sensors)
        return SoftContact(self.robot.model, *law, *others)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Those of the robot, f_ext only if it had it."""
        return self.robot.inputs

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """Those of the robot, and with friction x (pairs, 4)."""
        return (*self._robot.states, *self.contact.states)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Those of the robot, f_contact (nb, 6), of the bodies in_contact, centre_of_pressure,
        normal_force, depth and pressure, left_out, and those of the sensors.
        """
        wrench, *rest = self.contact.outputs
        text = "wrench of all contacts, base coordinates"
        f = Port("f_contact", wrench.shape, wrench.units, text)
        return (*self._robot.outputs, f, *rest)

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Those of the robot, and of the contact."""
        return (*self._robot.parameters, *self.contact.parameters)

    @property
    def function(self) -> str:
        return self.contact.function

    @property
    def headers(self) -> tuple[str, ...]:
        return self.contact.headers

    @property
    def tables(self) -> str:
        return self.contact.tables

    @property
    def stage_size(self) -> int:
        return self.contact.stage_size

    def before(self, x: Record, u: Record, p: Record) -> Array:
        del u
        model = self.robot.configuration_model
        assert isinstance(model, Model)
        return self.contact.numbers(model, *self.robot.configuration(x), x, p)

    def rates(self, t: Any, x: Record, u: Record, p: Record, w: Array) -> Values:
        robot = call(self._robot, "derivative", t, x, _pushed(u, self.contact.wrenches(w)), p)
        return {**robot, **self.contact.patch_rates(w)}

    def project(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        return call(self._robot, "project", t, x, u, p)

    def changes(self, x: Record, u: Record, p: Record, w: Array) -> Array:
        """Those of the robot, and by how much each pair pushes."""
        del u
        return np.concatenate([self.robot.margins(x, p), self.contact.pushes(w)])

    def results(self, t: Any, x: Record, u: Record, p: Record, w: Array) -> Values:
        f = self.contact.wrenches(w)
        robot = call(self._robot, "output", t, x, _pushed(u, f), p)
        return {**robot, "f_contact": f, **self.contact.felt(w)}

    def suspects(self, x: Record) -> Any:
        return self.robot.suspects(x)

    def modes(self, x: Record, p: Record) -> Array:
        """Those of the robot alone."""
        return self.robot.modes(x, p)


def _pushed(u: Record, f: Array) -> Record:
    """The inputs with wrenches on top of what is there."""
    given = vars(u)
    return Record({**given, "f_ext": given["f_ext"] + f if "f_ext" in given else f})
