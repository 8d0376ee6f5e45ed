"""Contact sensors, their ports and C tables, and the block `ProximitySensor` for distances."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from rigidblocks.block.block import Port
from rigidblocks.block.external_functions import WrittenBlock
from rigidblocks.contact.contact_checks import check_ground
from rigidblocks.contact.joint_tables import LoopTables, TreeTables, check_kinds
from rigidblocks.contact.shape_tables import (
    number_text,
    scene_tables,
    shape_count,
    shape_rows,
    table,
    workspace_text,
)
from rigidblocks.library.common_ports import check_open, joint_ports
from rigidblocks.robot.model import Model
from rigidblocks.robot.robot_description import JointProperties
from rigidblocks.robot.shapes import HeightField, Plane, Shape, Surface, TriangleMesh

GROUND = "ground"  # name of the fixed shapes


@dataclass(frozen=True)
class ContactSensor:
    """Sensor for the contacts between two sides, `one` and `other`.

    A side is a name or a tuple of names of bodies or shape materials. The name "ground" means all
    fixed shapes. A body takes precedence over a material with an equal name. If `distance` is True,
    the sensor also measures the distance between the sides. `name` is the prefix of its outputs.
    """

    name: str
    one: str | tuple[str, ...]
    other: str | tuple[str, ...] = GROUND
    distance: bool = False

    @property
    def sides(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of the bodies and materials on the two sides of the sensor."""
        one, other = (
            (side,) if isinstance(side, str) else tuple(side) for side in (self.one, self.other)
        )
        return one, other


@dataclass(frozen=True, eq=False)
class SensorTables:
    """C tables of the contact sensors.

    For each sensor, the tables mark the shapes on its first side and on its second side.
    """

    model: Model
    ground: tuple[Shape | Surface, ...]
    sensors: tuple[ContactSensor, ...]

    @cached_property
    def _rows(self) -> tuple[tuple[int, Shape | Surface], ...]:
        """Pairs (body index, shape) in the order of the shape table of the C code.

        The body index of a fixed shape is nb.
        """
        shapes: list[tuple[int, Shape | Surface]] = [
            (i, shape) for i, own in enumerate(self.model.contact) for shape in own
        ]
        shapes += [(self.model.nb, surface) for surface in self.ground]
        return tuple((i, shape) for i, shape in shapes for _ in shape_rows(shape))

    @cached_property
    def sides(self) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
        """Shapes on the two sides of each sensor, as indices into the shape table of the C code.

        Raises:
            ValueError: A name is unknown, both sides contain the same shape, or two sensors have
                the same name.
        """
        found = []
        for k, sensor in enumerate(self.sensors):
            if any(sensor.name == before.name for before in self.sensors[:k]):
                raise ValueError(
                    f"two sensors have the name '{sensor.name}'; sensor names must be unique"
                )
            one, other = (self._side(sensor, names) for names in sensor.sides)
            if common := set(one) & set(other):
                raise ValueError(
                    f"the two sides of sensor '{sensor.name}' have {len(common)} shapes in common; "
                    "each shape may be on only one side"
                )
            ground = (HeightField, TriangleMesh)
            if sensor.distance and any(isinstance(self._rows[k][1], ground) for k in other):
                raise ValueError(
                    f"sensor '{sensor.name}' cannot measure distances to height fields and "
                    "meshes; use convex shapes or planes"
                )
            found.append((one, other))
        return tuple(found)

    def _side(self, sensor: ContactSensor, names: Sequence[str]) -> tuple[int, ...]:
        """Return the sorted shape indices of one side of the sensor.

        `names` are the names of the bodies and materials on this side (`ContactSensor.sides`).

        Raises:
            ValueError: A name has no shapes, or the first side contains a ground surface.
        """
        rows = {row for name in names for row in self._rows_of(sensor, name)}
        flat = [row for row in rows if not isinstance(self._rows[row][1], Shape)]
        if flat and sensor.sides[0] == names:
            raise ValueError(
                f"the first side of sensor '{sensor.name}' must be a body, not the ground"
            )
        return tuple(sorted(rows))

    def _rows_of(self, sensor: ContactSensor, name: str) -> list[int]:
        """Return the indices of all shapes of a body, or of all shapes with a material."""
        bodies = (*self.model.body_names, GROUND)
        if name in bodies:
            found = [k for k, (i, _) in enumerate(self._rows) if i == bodies.index(name)]
        else:
            found = [k for k, (_, shape) in enumerate(self._rows) if _material(shape) == name]
        if not found:
            raise ValueError(
                f"sensor '{sensor.name}': '{name}' has no shapes; expected names of "
                f"{', '.join(self._names())}"
            )
        return found

    def _names(self) -> Iterator[str]:
        """Yield the names of all bodies and materials that have shapes."""
        bodies = (*self.model.body_names, GROUND)
        yield from dict.fromkeys(bodies[i] for i, _ in self._rows)
        yield from dict.fromkeys(name for _, shape in self._rows if (name := _material(shape)))

    def text(self, offsets: Mapping[str, int]) -> str:
        """Return the C tables of the contact sensors.

        Args:
            offsets: Indices from `sensor_offsets`. The name of a sensor maps to the index of its
                first value, and `<name>_distance` to the index of its distance.
        """
        near = [k for k, sensor in enumerate(self.sensors) if sensor.distance]
        rows, first = list[int](), list[tuple[int, int, int]]()
        for one, other in (self.sides[k] for k in near):
            first.append((len(rows), len(rows) + len(one), len(rows) + len(one) + len(other)))
            rows += (*one, *other)
        names = [sensor.name for sensor in self.sensors]
        return "\n".join(
            [
                f"enum {{ RB_SENSORS = {len(names)}, RB_NEARS = {len(near)} }};",
                table("int", "RB_SENSOR_AT", [*(offsets[name] for name in names), 0]),
                table("int", "RB_SENSOR_SIDE", [*map(self._signs, self.sides), [0] * self._count]),
                table("int", "RB_NEAR_AT", [*(offsets[f"{names[k]}_distance"] for k in near), 0]),
                table("int", "RB_NEAR_FIRST", [*first, (0, 0, 0)]),
                table("int", "RB_NEAR_SHAPE", [*rows, 0]),
            ]
        )

    @property
    def _count(self) -> int:
        return max(1, len(self._rows))

    def _signs(self, sides: tuple[tuple[int, ...], tuple[int, ...]]) -> list[int]:
        """Return a number for each shape: 1 on the first side, -1 on the second side, 0 otherwise.

        `sides` contains the shape indices of the two sides of a sensor.
        """
        one, other = map(set, sides)
        return [(k in one) - (k in other) for k in range(self._count)]


def _material(shape: Shape | Surface) -> str:
    return shape.material.name if shape.material is not None else ""


# C headers of the narrow phase
SHAPES_IN_C = ("shapes", "gjk_epa", "narrow_phase", "manifold", "terrain")


_DISTANCES = ("broad_phase", "articulated_trees", "sensors")


def sensor_ports(sensor: ContactSensor) -> Iterator[Port]:
    """Yield the output ports of a contact sensor, in the order of `c/contact/sensors.h`."""
    one, other = (" and ".join(names) for names in sensor.sides)
    newton = ("N.m",) * 3 + ("N",) * 3
    mean = f"of {one} on {other}, mean weighted by normal force"
    yield _sensor_port(
        sensor, "wrench", (6,), newton, f"[n; f] of {other} on {one}, base coordinates"
    )
    yield _sensor_port(
        sensor, "normal_force", (), "N", f"sum of the normal forces of {other} on {one}", 0
    )
    yield _sensor_port(sensor, "in_contact", (), "1", f"1 if {other} pushes {one}", 0)
    yield _sensor_port(sensor, "slip", (3,), "m/s", f"sliding velocity {mean}")
    yield _sensor_port(
        sensor,
        "centre_of_pressure",
        (3,),
        "m",
        f"centre of pressure of the forces of {other} on {one}",
    )
    if sensor.distance:
        yield from distance_ports(sensor)


def distance_ports(sensor: ContactSensor) -> Iterator[Port]:
    """Yield the output ports of a sensor's distance [m] and nearest points [m]."""
    one, other = (" and ".join(names) for names in sensor.sides)
    yield _sensor_port(
        sensor, "distance", (), "m", f"distance from {one} to {other}, negative if they overlap"
    )
    yield _sensor_port(sensor, "on_one", (3,), "m", f"nearest point of {one}, base coordinates")
    yield _sensor_port(sensor, "on_other", (3,), "m", f"nearest point of {other}, base coordinates")


def _sensor_port(
    sensor: ContactSensor,
    quantity: str,
    shape: tuple[int, ...],
    unit: str | tuple[str, ...],
    text: str,
    minimum: float | None = None,
) -> Port:
    """Return the port `<sensor>_<quantity>` of a sensor with the description `text`."""
    maximum = 1 if quantity == "in_contact" else None
    return Port(f"{sensor.name}_{quantity}", shape, unit, text, 0.0, min=minimum, max=maximum)


def sensor_offsets(ports: Sequence[Port], sensors: Sequence[ContactSensor]) -> dict[str, int]:
    """Return the index of the first output value of each sensor, by sensor name.

    An index refers to the concatenated values of all `ports`. The key `<name>_distance`
    maps to the index of the distance that the sensor measures.
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
    """Block that measures distances between shapes of a robot, or to fixed shapes.

    The block measures the distances every `sample_time` [s] and holds them between samples.

    Each of the `sensors` has two sides, as in `ContactSensor`. The shapes of the sides are in the
    model's field `contact` and in `ground`. The block supports the joints and shapes that
    `RigidContactPlant` supports. A sensor `hand` has these outputs:

    - hand_distance [m], the signed distance between the sides along the normal, negative if they
      overlap;
    - hand_on_one and hand_on_other (3,) [m], the nearest or deepest points, in base coordinates.

    The distance is the smallest distance of any shape of one side to any shape of the other side.

    Raises:
        ValueError: A name in `sensors` has no shapes.
    """

    model: Model
    sensors: tuple[ContactSensor, ...]
    sample_time: float
    ground: tuple[Shape | Surface, ...] = (Plane(),)

    def __post_init__(self) -> None:
        check_open(replace(self.model, loops=()), "ProximitySensor")
        check_kinds(self.model)
        object.__setattr__(self, "ground", check_ground(self.ground))
        object.__setattr__(self, "sensors", tuple(self.sensors))
        if not self.sensors:
            raise ValueError(
                "`sensors` is empty; a proximity sensor needs one or more ContactSensor elements"
            )
        _ = self._tables.sides

    @cached_property
    def _tables(self) -> SensorTables:
        near = (ContactSensor(one.name, one.one, one.other, True) for one in self.sensors)
        return SensorTables(self.model, self.ground, tuple(near))

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Input: joint positions q (nq,)."""
        return joint_ports(self.model, q="joint positions")

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """Sampled states: the distance and the two nearest points of each sensor."""
        return tuple(port for sensor in self.sensors for port in distance_ports(sensor))

    @property
    def outputs(self) -> tuple[Port, ...]:
        """Outputs: the same ports as `sampled`."""
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
                workspace_text(1500 * self.model.nb + 1000 * count),
                f"enum {{ {sizes} }};",
                f"static const double RB_SCENE_STEP = {number_text(self.sample_time)};",
                LoopTables(self.model).text(),
                TreeTables(self.model, JointProperties.from_values(self.model.nv)).text(()),
                scene_tables(self.model, self.ground),
                self._tables.text(sensor_offsets(self.sampled, self.sensors)),
                "",
            ]
        )


def check_sensors(model: Model, ground: Any, sensors: Any) -> tuple[ContactSensor, ...]:
    """Convert the contact sensors to a tuple, and check the names of their sides.

    Raises:
        TypeError: An element is not a ContactSensor.
        ValueError: A sensor is invalid for the model (see `SensorTables`).
    """
    for sensor in sensors:
        if not isinstance(sensor, ContactSensor):
            raise TypeError(f"`sensors` needs ContactSensor elements, not {sensor!r}")
    tables = SensorTables(model, ground, tuple(sensors))
    _ = tables.sides
    return tables.sensors
