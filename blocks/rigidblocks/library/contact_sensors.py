"""What sensors of contact measure: their ports, and a block that measures distances alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from rigidblocks.block.block import Port
from rigidblocks.block.written import WrittenBlock
from rigidblocks.contact.loop_tables import LoopTables
from rigidblocks.contact.scene_tables import scene_tables, shape_count
from rigidblocks.contact.sensor_tables import ContactSensor, SensorTables
from rigidblocks.contact.tree_tables import TreeTables, check_kinds
from rigidblocks.formats.description import Freedoms
from rigidblocks.library.contact_checks import checked_ground
from rigidblocks.library.ports import check_open, joint_ports
from rigidblocks.model.model import Model
from rigidblocks.model.shapes import Plane, Shape, Surface

# where shapes touch
SHAPES_IN_C = (
    *("vector", "shape", "gjk", "edges", "epa", "polish", "proximity", "boxes", "manifold"),
    *("ground", "patches"),
)


_DISTANCES = ("nearest", "scene", "two", "trees", "near")


def sensor_ports(sensor: ContactSensor) -> Iterator[Port]:
    """The outputs of a sensor, in the order of `c/contact/felt.h`."""
    one, other = (" and ".join(names) for names in sensor.sides)
    newton = ("N.m",) * 3 + ("N",) * 3
    mean = f"of {one} against {other}, mean by normal forces"
    yield _of(sensor, "wrench", (6,), newton, f"[n; f] of {other} on {one}, base coordinates")
    yield _of(sensor, "normal_force", (), "N", f"sum of the normal forces of {other} on {one}", 0)
    yield _of(sensor, "in_contact", (), "1", f"1 where {other} pushes {one}", 0)
    yield _of(sensor, "slip", (3,), "m/s", f"velocity along the surface {mean}")
    yield _of(sensor, "centre_of_pressure", (3,), "m", f"of the forces of {other} on {one}")
    if sensor.distance:
        yield from distance_ports(sensor)


def distance_ports(sensor: ContactSensor) -> Iterator[Port]:
    """How far the sides of a sensor are from each other, and where."""
    one, other = (" and ".join(names) for names in sensor.sides)
    yield _of(sensor, "distance", (), "m", f"from {one} to {other}, negative where they overlap")
    yield _of(sensor, "on_one", (3,), "m", f"nearest point of {one}, base coordinates")
    yield _of(sensor, "on_other", (3,), "m", f"nearest point of {other}, base coordinates")


def _of(
    sensor: ContactSensor,
    what: str,
    shape: tuple[int, ...],
    unit: str | tuple[str, ...],
    text: str,
    least: float | None = None,
) -> Port:
    most = 1 if what == "in_contact" else None
    return Port(f"{sensor.name}_{what}", shape, unit, text, 0.0, min=least, max=most)


def sensor_places(ports: Sequence[Port], sensors: Sequence[ContactSensor]) -> dict[str, int]:
    """Where each sensor has its first number in these ports, by name, and where its distance is, by
    name_distance.
    """
    places, k = dict[str, int](), 0
    for port in ports:
        places[port.name] = k
        k += port.size
    starts = {one.name: places.get(f"{one.name}_wrench", 0) for one in sensors}
    near = {name: places[name] for one in sensors if (name := f"{one.name}_distance") in places}
    return {**starts, **near}


@dataclass(frozen=True, eq=False)  # eq=False: a model has arrays
class ProximitySensor(WrittenBlock):
    """How far shapes of a robot are from each other and from what is at rest, every `sample_time`
    [s].

    Each of `sensors` is between two sides, as in `ContactSensor`, whose shapes are those in the
    model's field `contact` and in `ground`; joints and shapes are those that `RigidContactPlant`
    knows. Of a sensor `hand` the outputs are hand_distance [m], negative where the sides overlap,
    by which the other could move along the normal until they touch, and the points that are
    nearest, or deepest, hand_on_one and hand_on_other (3,) [m], in base coordinates. Every shape of
    one side is measured against every one of the other. Between samples the values are held.

    Raises ValueError for names that are of no shapes.
    """

    model: Model
    sensors: tuple[ContactSensor, ...]
    sample_time: float
    ground: tuple[Shape | Surface, ...] = (Plane(),)

    def __post_init__(self) -> None:
        check_open(replace(self.model, loops=()), "ProximitySensor")
        check_kinds(self.model)
        object.__setattr__(self, "ground", checked_ground(self.ground))
        object.__setattr__(self, "sensors", tuple(self.sensors))
        if not self.sensors:
            raise ValueError("a proximity sensor measures between two sides at least: `sensors`")
        _ = self._tables.sides

    @cached_property
    def _tables(self) -> SensorTables:
        near = (ContactSensor(one.name, one.one, one.other, True) for one in self.sensors)
        return SensorTables(self.model, self.ground, tuple(near))

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """q (nq,)."""
        return joint_ports(self.model, q="joint positions")

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """The distance and the two points of each sensor."""
        return tuple(port for sensor in self.sensors for port in distance_ports(sensor))

    @property
    def outputs(self) -> tuple[Port, ...]:
        """The same."""
        return self.sampled

    @property
    def function(self) -> str:
        return "proximity_step"

    @property
    def start_function(self) -> str:
        return "proximity_step"

    @property
    def reads_at_once(self) -> bool:
        return True

    @property
    def arguments(self) -> tuple[str, ...]:
        return ("q",)

    @property
    def headers(self) -> tuple[str, ...]:
        return tuple(f"contact/{name}.h" for name in (*SHAPES_IN_C, *_DISTANCES))

    @cached_property
    def tables(self) -> str:
        count = shape_count(self.model, self.ground)
        sizes = f"RB_BODIES = {self.model.nb}, RB_SHAPES = {count}, RB_PAIRS = 1"
        return "\n".join(
            [
                "#define RB_TABLES_H",
                f"enum {{ {sizes} }};",
                f"static const double RB_SCENE_STEP = {self.sample_time!r};",
                LoopTables(self.model).text(),
                TreeTables(self.model, Freedoms.of(self.model.nv)).text(()),
                scene_tables(self.model, self.ground),
                self._tables.text(sensor_places(self.sampled, self.sensors)),
                "",
            ]
        )


def checked_sensors(model: Model, ground: Any, sensors: Any) -> tuple[ContactSensor, ...]:
    """The sensors as a tuple. Raises TypeError for what is none, and ValueError as `SensorTables`
    does.
    """
    for sensor in sensors:
        if not isinstance(sensor, ContactSensor):
            raise TypeError(f"`sensors` are of ContactSensor, not {sensor!r}")
    tables = SensorTables(model, ground, tuple(sensors))
    _ = tables.sides
    return tables.sensors
