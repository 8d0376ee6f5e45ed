"""Robots, free bodies and things at rest in one plant in soft contact, with ports by names."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Port, Record, Values, call
from rigidblocks.block.staged import StagedBlock
from rigidblocks.library.soft_contact_plant import SoftContactPlant
from rigidblocks.library.world_plant import OF_MEMBERS, Member, split_ports
from rigidblocks.model.model import Model

OF_SOFT_MEMBERS = (*OF_MEMBERS, "qdd", "normal_force", "depth", "pressure")


@dataclass(frozen=True, eq=False)  # eq=False: the plant has arrays
class SoftWorldPlant(StagedBlock):
    """A `SoftContactPlant` of several robots and bodies, whose ports are those of its members:
    arm_q, arm_tau, ball_f_contact, ...

    `World.soft_plant` makes it. Of a robot `arm` there are arm_q, arm_qd, arm_qdd, arm_tau, and of
    its n bodies arm_f_ext and arm_f_contact (n, 6), arm_in_contact, arm_normal_force, arm_depth and
    arm_pressure (n,) and arm_centre_of_pressure (n, 3); of a free body `ball` the same without tau
    and without the axis of bodies. The other ports, also those of sensors, are those of the plant.
    """

    plant: SoftContactPlant
    members: tuple[Member, ...]

    @property
    def model(self) -> Model:
        """The model of all members."""
        model: Model = self.plant.contact.model
        return model

    @property
    def q0(self) -> Array:
        """Where all members start."""
        return np.ravel(next(port.start for port in self.plant.states if port.name == "q"))

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """tau of each robot and f_ext of each member."""
        return tuple(self._split(self.plant.inputs))

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """q and qd of each member, and the other states of the plant."""
        return tuple(self._split(self.plant.states))

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Those of the plant, by members."""
        return tuple(self._split(self.plant.outputs))

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Those of the plant."""
        return self.plant.parameters

    def _split(self, ports: tuple[Port, ...]) -> Iterator[Port]:
        rates = {f"{member.name}_q": f"{member.name}_qd" for member in self.members}
        for port in split_ports(ports, self.members, OF_SOFT_MEMBERS):
            known = port.name in rates and port.rate is not None
            yield replace(port, rate=rates[port.name]) if known else port

    def _joined(self, values: Record, ports: tuple[Port, ...]) -> Record:
        """Values of the plant's own ports, those that are known, from those by members."""
        given = vars(values)
        known = (p for p in ports if p.name in OF_SOFT_MEMBERS or p.name in given)
        return Record({port.name: self._whole(given, port) for port in known})

    def _whole(self, given: dict[str, Any], port: Port) -> Any:
        if port.name not in OF_SOFT_MEMBERS:
            return given[port.name]
        parts = []
        for member in self.members:
            one = member.of(port)
            size = np.zeros(port.shape)[member.place(port.name)].shape
            parts.append(np.reshape(given.get(one.name, np.zeros(size)), size))
        return np.concatenate(parts)

    def _by_members(self, values: Values) -> Values:
        """Values of the plant's ports, those of members by their names."""
        found: dict[str, Any] = {}
        for name, value in values.items():
            if name not in OF_SOFT_MEMBERS:
                found[name] = value
                continue
            for member in self.members:
                part = np.asarray(value)[member.place(name)]
                alone = member.single and member.place(name) is member.bodies
                found[f"{member.name}_{name}"] = part[0] if alone else part
        return found

    def _own(self, x: Record, u: Record) -> tuple[Record, Record]:
        """The states and inputs of the plant."""
        return self._joined(x, self.plant.states), self._joined(u, self.plant.inputs)

    @property
    def function(self) -> str:
        return self.plant.function

    @property
    def headers(self) -> tuple[str, ...]:
        return self.plant.headers

    @property
    def tables(self) -> str:
        return self.plant.tables

    @property
    def stage_size(self) -> int:
        return self.plant.stage_size

    def before(self, x: Record, u: Record, p: Record) -> Array:
        return self.plant.before(*self._own(x, u), p)

    def rates(self, t: Any, x: Record, u: Record, p: Record, w: Array) -> Values:
        return self._by_members(self.plant.rates(t, *self._own(x, u), p, w))

    def project(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        return self._by_members(call(self.plant, "project", t, *self._own(x, u), p))

    def changes(self, x: Record, u: Record, p: Record, w: Array) -> Array:
        """Those of the plant."""
        return self.plant.changes(*self._own(x, u), p, w)

    def results(self, t: Any, x: Record, u: Record, p: Record, w: Array) -> Values:
        return self._by_members(self.plant.results(t, *self._own(x, u), p, w))

    def suspects(self, x: Record) -> Any:
        return self.plant.suspects(self._joined(x, self.plant.states))

    def modes(self, x: Record, p: Record) -> Array:
        """Those of the plant."""
        return self.plant.modes(self._joined(x, self.plant.states), p)
