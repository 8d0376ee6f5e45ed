"""Robots, free bodies and things at rest in one plant, with ports by their names."""

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Port
from rigidblocks.block.written import WrittenBlock
from rigidblocks.library.rigid_contact_plant import RigidContactPlant
from rigidblocks.model.model import Model


@dataclass(frozen=True)
class Member:
    """One of a world: its name, its bodies and where it has its variables among those of all.

    `single` is a free body of its own, whose ports have no axis of bodies and no joint forces.
    """

    name: str
    bodies: slice
    q: slice
    qd: slice
    single: bool = False

    def place(self, variable: str) -> slice:
        """Where it is in a variable of all, along the first axis."""
        of_motion = {"q": self.q, "qd": self.qd, "qdd": self.qd, "tau": self.qd}
        return of_motion.get(variable, self.bodies)

    def of(self, port: Port) -> Port:
        """The part of a port of all that is of this member, with its name."""
        part = self.place(port.name)
        index = np.arange(port.size).reshape(port.shape)[part]
        shape = index.shape[1:] if self.single and part is self.bodies else index.shape
        units, flat = port.units, index.ravel()
        values: dict[str, Any] = {
            name: np.ravel(given)[flat]
            for name in ("start", "min", "max", "nominal")
            if (given := getattr(port, name)) is not None
        }
        return replace(
            port,
            name=f"{self.name}_{port.name}",
            shape=shape,
            unit=tuple(units[k] for k in flat),
            **{name: value.reshape(shape) for name, value in values.items()},
        )


OF_MEMBERS = ("q", "qd", "tau", "f_ext", "f_contact", "in_contact", "centre_of_pressure")


def split_ports(
    ports: Iterable[Port], members: Sequence[Member], of_members: Container[str]
) -> Iterator[Port]:
    """The ports, those `of_members` by members; a free body has no joint forces."""
    for port in ports:
        if port.name not in of_members:
            yield port
            continue
        for member in members:
            if not (port.name == "tau" and member.single) and (part := member.of(port)).size:
                yield part


@dataclass(frozen=True, eq=False)  # eq=False: the plant has arrays
class WorldPlant(WrittenBlock):
    """A `RigidContactPlant` of several robots and bodies, whose ports are those of its members:
    arm_q, arm_tau, ball_f_contact, ...

    `World.plant` makes it. Of a robot `arm` there are arm_q, arm_qd, arm_tau, arm_f_ext (n, 6),
    arm_f_contact (n, 6), arm_in_contact (n,) and arm_centre_of_pressure (n, 3) of its n bodies; of
    a free body `ball` the same without tau and without the axis of bodies. The other ports, also
    those of sensors, are those of the plant.
    """

    plant: RigidContactPlant
    members: tuple[Member, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "sample_time", self.plant.sample_time)

    @property
    def model(self) -> Model:
        """The model of all members."""
        return self.plant.model

    @property
    def q0(self) -> Array:
        """Where all members start."""
        start: Array = self.plant.q0
        return start

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """tau of each robot and f_ext of each member."""
        return tuple(self._split(self.plant.inputs))

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Those of the plant."""
        return self.plant.parameters

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """Those of the plant, by members."""
        return tuple(self._split(self.plant.sampled))

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Those of the plant, by members."""
        return tuple(self._split(self.plant.outputs))

    def _split(self, ports: tuple[Port, ...]) -> Iterator[Port]:
        return split_ports(ports, self.members, OF_MEMBERS)

    @property
    def function(self) -> str:
        return self.plant.function

    @property
    def start_function(self) -> str | None:
        return self.plant.start_function

    @property
    def arguments(self) -> tuple[str, ...]:
        return tuple(port.name for port in (*self.inputs, *self.parameters))

    @property
    def headers(self) -> tuple[str, ...]:
        return self.plant.headers

    @cached_property
    def tables(self) -> str:
        names = ", ".join(f"const double *{name}" for name in self.arguments)
        given = ", ".join(f".{name} = {name}" for name in self.plant.arguments)
        return "\n".join(
            [
                f"#define RB_ARGUMENTS {names}",
                f"#define RB_GATHER {' '.join(self._gathered())}",
                f"#define RB_GIVEN {given}",
                self.plant.scene,
            ]
        )

    def _gathered(self) -> Iterator[str]:
        """C that puts the inputs of the members behind each other."""
        for port in self.plant.inputs:
            yield f"double {port.name}[{port.size}] = {{0.0}};"
            start = 0
            for member in self.members:
                part = member.of(port)
                if part.name in self.arguments:
                    yield (
                        f"memcpy({port.name} + {start}, {part.name}, {part.size} * sizeof(double));"
                    )
                start += part.size
