"""Plants of several robots and bodies, with one set of ports for each member."""

import abc
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.block.block import Port, Record, StartRelation, Values, call
from rigidblocks.block.external_functions import BlockInC, StagedBlock, WrittenBlock
from rigidblocks.contact.rigid_contact_plant import RigidContactPlant
from rigidblocks.contact.soft_contact_blocks import SoftContactPlant
from rigidblocks.robot.model import Model
from rigidblocks.spatial.spatial import Array


@dataclass(frozen=True)
class Member:
    """Robot or free body of a world, with its slices in the arrays of the world.

    `bodies`, `q` and `qd` are slices of the bodies, position variables and velocity variables.
    `single` is True for a free body. A free body has no joint forces. Its ports have no array axis
    for the body index: f_ext has the shape (6,) instead of (1, 6).
    """

    name: str
    bodies: slice
    q: slice
    qd: slice
    single: bool = False

    def slice_of(self, variable: str) -> slice:
        """Return the slice of the member in the array `variable` of the world.

        q, qd, qdd and tau have an element per joint variable, other arrays a row per body.
        """
        of_motion = {"q": self.q, "qd": self.qd, "qdd": self.qd, "tau": self.qd}
        return of_motion.get(variable, self.bodies)

    def member_port(self, port: Port) -> Port:
        """Return the part of a plant port that belongs to this member, as a separate port."""
        part = self.slice_of(port.name)
        index = np.arange(port.size).reshape(port.shape)[part]
        shape = index.shape[1:] if self.single and part is self.bodies else index.shape
        units, flat = port.units, index.ravel()
        values: dict[str, Any] = {
            name: np.ravel(given)[flat]
            for name in ("start", "min", "max", "nominal")
            if (given := getattr(port, name)) is not None
        }
        rate = None if port.rate is None else f"{self.name}_{port.rate}"
        return replace(
            port,
            name=f"{self.name}_{port.name}",
            rate=rate,
            shape=shape,
            unit=tuple(units[k] for k in flat),
            **{name: value.reshape(shape) for name, value in values.items()},
        )


MEMBER_PORTS = (  # ports with an element for each body or joint variable
    *("q", "qd", "qdd", "tau", "f_ext", "f_contact", "in_contact", "centre_of_pressure"),
    *("normal_force", "depth", "pressure"),
)


class PlantOfMembers(BlockInC):
    """Plant of several robots and bodies, with one set of ports for each member.

    The names of these ports start with the name of the member. Ports of the whole plant, such as
    sensor ports, have no member prefix. Subclasses have the fields `plant` and `members`.
    """

    plant: RigidContactPlant | SoftContactPlant
    members: tuple[Member, ...]

    @property
    @abc.abstractmethod
    def model(self) -> Model:
        """Model that contains all members."""

    @property
    def q0(self) -> Array:
        """Initial configuration (nq,) of all members."""
        states = (*self.plant.states, *self.plant.sampled)
        return np.ravel(next(port.start for port in states if port.name == "q"))

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Inputs: joint forces <robot>_tau and body wrenches <member>_f_ext."""
        return tuple(self._member_ports(self.plant.inputs))

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """Continuous states of the plant, split by member."""
        return tuple(self._member_ports(self.plant.states))

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """Sampled states of the plant, split by member."""
        return tuple(self._member_ports(self.plant.sampled))

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Outputs of the plant, split by member."""
        return tuple(self._member_ports(self.plant.outputs))

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Parameters of the plant."""
        return self.plant.parameters

    @cached_property
    def start_relations(self) -> tuple[StartRelation, ...]:
        """Start relations of the plant, whose terms refer to the states of the members."""
        return tuple(
            relation._replace(terms=tuple(self._member_term(*term) for term in relation.terms))
            for relation in self.plant.start_relations
        )

    def _member_term(self, name: str, k: int, weight: float) -> tuple[str, int, float]:
        """Convert a term of a start relation from a plant state to a member state.

        The term is `weight` times element k of the plant state `name`. The result contains the name
        of the member state, the index of the element in the member state, and the weight.
        """
        for member in self.members:
            part = member.slice_of(name)
            if part.start <= k < part.stop:
                return f"{member.name}_{name}", k - part.start, weight
        raise AssertionError(f"no member contains {name}[{k}]")

    @property
    def function(self) -> str:
        return self.plant.function

    @property
    def headers(self) -> tuple[str, ...]:
        return self.plant.headers

    def _member_ports(self, ports: tuple[Port, ...]) -> Iterator[Port]:
        """Yield the ports of the plant, split by member.

        A port whose name is in `MEMBER_PORTS` becomes one port per member.
        """
        for port in ports:
            if not is_split(port):
                yield port
                continue
            for member in self.members:
                part = member.member_port(port)
                if part.size and not (port.name == "tau" and member.single):
                    yield part


def is_split(port: Port) -> bool:
    """Return True if this port of the plant is split into one port per member."""
    return port.name in MEMBER_PORTS and bool(port.shape)


@dataclass(frozen=True, eq=False)  # eq=False: the plant has arrays
class WorldPlant(PlantOfMembers, WrittenBlock):
    """`RigidContactPlant` of several robots and bodies, with ports for each member.

    `World.plant` creates this block. The ports of a member start with its name. A robot `arm` with
    n bodies has arm_q, arm_qd, arm_tau, arm_f_ext (n, 6), arm_f_contact (n, 6), arm_in_contact
    (n,) and arm_centre_of_pressure (n, 3). A free body `ball` has these ports except tau; their
    shapes have no n, for example ball_f_ext (6,). Ports of the whole plant, such as sensor ports,
    have no member prefix.
    """

    plant: RigidContactPlant
    members: tuple[Member, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "sample_time", self.plant.sample_time)

    @property
    def model(self) -> Model:
        return self.plant.model

    @property
    def start_function(self) -> str | None:
        return self.plant.start_function

    @property
    def arguments(self) -> tuple[str, ...]:
        return tuple(port.name for port in (*self.inputs, *self.parameters))

    @cached_property
    def tables(self) -> str:
        return self.plant.tables_with_arguments(self.arguments, self._gather_statements())

    def _gather_statements(self) -> Iterator[str]:
        """Yield C statements that copy the inputs of the members to the inputs of the plant."""
        for port in self.plant.inputs:
            yield f"RB_WORKSPACE(RB_LARGE_SCENE, double, {port.name}, {port.size});"
            yield f"memset({port.name}, 0, {port.size} * sizeof(double));"
            start = 0
            for member in self.members:
                part = member.member_port(port)
                if part.name in self.arguments:
                    yield (
                        f"memcpy({port.name} + {start}, {part.name}, {part.size} * sizeof(double));"
                    )
                start += part.size


@dataclass(frozen=True, eq=False)  # eq=False: the plant has arrays
class SoftWorldPlant(PlantOfMembers, StagedBlock):
    """`SoftContactPlant` of several robots and bodies, with ports for each member.

    `World.soft_plant` creates this block. The ports of a member start with its name. A robot `arm`
    with n bodies has arm_q, arm_qd, arm_qdd, arm_tau, arm_f_ext and arm_f_contact (n, 6),
    arm_in_contact, arm_normal_force, arm_depth and arm_pressure (n,) and arm_centre_of_pressure (n,
    3). A free body `ball` has these ports except tau; their shapes have no n, for example
    ball_f_ext (6,). Ports of the whole plant, such as sensor ports, have no member prefix.
    """

    plant: SoftContactPlant
    members: tuple[Member, ...]

    @property
    def model(self) -> Model:
        return self.plant.contact.model

    def _plant_values(self, values: Record, ports: tuple[Port, ...]) -> Record:
        """Concatenate the values of the member ports to the values of the plant ports."""
        given = vars(values)
        known = (port for port in ports if is_split(port) or port.name in given)
        return Record({port.name: self._joined_value(given, port) for port in known})

    def _joined_value(self, values: dict[str, Any], port: Port) -> Any:
        """Concatenate the values of the member ports to the value of one plant port."""
        if not is_split(port):
            return values[port.name]
        parts = []
        for member in self.members:
            one = member.member_port(port)
            size = np.zeros(port.shape)[member.slice_of(port.name)].shape
            parts.append(np.reshape(values.get(one.name, np.zeros(size)), size))
        return np.concatenate(parts)

    def _member_values(self, values: Values) -> Values:
        """Split the values of the plant ports into the values of the member ports."""
        found: dict[str, Any] = {}
        for name, value in values.items():
            if name not in MEMBER_PORTS:
                found[name] = value
                continue
            for member in self.members:
                part = np.asarray(value)[member.slice_of(name)]
                is_scalar = member.single and member.slice_of(name) is member.bodies
                found[f"{member.name}_{name}"] = part[0] if is_scalar else part
        return found

    def _plant_records(self, x: Record, u: Record) -> tuple[Record, Record]:
        """Concatenate the values of the member ports to states and inputs of the plant."""
        return self._plant_values(x, self.plant.states), self._plant_values(u, self.plant.inputs)

    @property
    def tables(self) -> str:
        return self.plant.tables

    @property
    def stage_size(self) -> int:
        return self.plant.stage_size

    def stage_inputs(self, x: Record, u: Record, p: Record) -> Array:
        return self.plant.stage_inputs(*self._plant_records(x, u), p)

    def rates(self, t: Any, x: Record, u: Record, p: Record, w: Array) -> Values:
        return self._member_values(self.plant.rates(t, *self._plant_records(x, u), p, w))

    def project(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        return self._member_values(call(self.plant, "project", t, *self._plant_records(x, u), p))

    def changes(self, x: Record, u: Record, p: Record, w: Array) -> Array:
        """Return the switching functions of the plant, with the results w of the C function."""
        return self.plant.changes(*self._plant_records(x, u), p, w)

    def results(self, t: Any, x: Record, u: Record, p: Record, w: Array) -> Values:
        return self._member_values(self.plant.results(t, *self._plant_records(x, u), p, w))

    def suspects(self, x: Record) -> Any:
        return self.plant.suspects(self._plant_values(x, self.plant.states))

    def modes(self, x: Record, p: Record) -> Array:
        """Return the eigenvalues [1/s] of fast modes of the plant at the states x."""
        return self.plant.modes(self._plant_values(x, self.plant.states), p)
