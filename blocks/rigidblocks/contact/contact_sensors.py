"""Sensors between two sides of a scene as the C text of tables, which the C of contact reads
(`c/contact/felt.h`, `c/contact/nearest.h`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from rigidblocks.contact.scene_tables import table
from rigidblocks.contact.shape_rows import shape_rows
from rigidblocks.model.mesh import TriangleMesh
from rigidblocks.model.model import Model
from rigidblocks.model.shapes import HeightField, Shape, Surface

GROUND = "ground"  # what is at rest


@dataclass(frozen=True)
class ContactSensor:
    """What is felt where one side touches another one: `one` and `other` are names, or tuples of
    several, of bodies, of materials of shapes, or "ground", what is at rest.

    A name that a body has is that of the body. With `distance` it also measures how far the two
    sides are from each other. `name` begins the names of its outputs.
    """

    name: str
    one: str | tuple[str, ...]
    other: str | tuple[str, ...] = GROUND
    distance: bool = False

    @property
    def sides(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names of both sides."""
        one, other = (
            (side,) if isinstance(side, str) else tuple(side) for side in (self.one, self.other)
        )
        return one, other


@dataclass(frozen=True, eq=False)
class SensorTables:
    """Which rows of the shapes of a scene each sensor is between."""

    model: Model
    ground: tuple[Shape | Surface, ...]
    sensors: tuple[ContactSensor, ...]

    @cached_property
    def _rows(self) -> tuple[tuple[int, Shape | Surface], ...]:
        """The body, nb for what is at rest, and the shape of each row."""
        shapes: list[tuple[int, Shape | Surface]] = [
            (i, shape) for i, own in enumerate(self.model.contact) for shape in own
        ]
        shapes += [(self.model.nb, surface) for surface in self.ground]
        return tuple((i, shape) for i, shape in shapes for _ in shape_rows(shape))

    @cached_property
    def sides(self) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
        """The rows of both sides of each sensor.

        Raises ValueError for a name that nothing has, for sides that have a shape in common, and
        for a name of a sensor that is taken.
        """
        found = []
        for k, sensor in enumerate(self.sensors):
            if any(sensor.name == before.name for before in self.sensors[:k]):
                raise ValueError(f"there are two sensors '{sensor.name}'")
            one, other = (self._side(sensor, names) for names in sensor.sides)
            if common := set(one) & set(other):
                raise ValueError(
                    f"sensor '{sensor.name}' has {len(common)} shapes on both sides: a shape does "
                    "not touch itself"
                )
            ground = (HeightField, TriangleMesh)
            if sensor.distance and any(isinstance(self._rows[k][1], ground) for k in other):
                raise ValueError(
                    f"sensor '{sensor.name}' measures no distance to height fields and meshes"
                )
            found.append((one, other))
        return tuple(found)

    def _side(self, sensor: ContactSensor, names: Sequence[str]) -> tuple[int, ...]:
        rows = {row for name in names for row in self._named(sensor, name)}
        flat = [row for row in rows if not isinstance(self._rows[row][1], Shape)]
        if flat and sensor.sides[0] == names:
            raise ValueError(
                f"sensor '{sensor.name}' has ground as its first side: that is what moves"
            )
        return tuple(sorted(rows))

    def _named(self, sensor: ContactSensor, name: str) -> list[int]:
        bodies = (*self.model.body_names, GROUND)
        if name in bodies:
            found = [k for k, (i, _) in enumerate(self._rows) if i == bodies.index(name)]
        else:
            found = [k for k, (_, shape) in enumerate(self._rows) if _material(shape) == name]
        if not found:
            raise ValueError(
                f"sensor '{sensor.name}' is between shapes, and '{name}' has none: take names of "
                f"{', '.join(self._names())}"
            )
        return found

    def _names(self) -> Iterator[str]:
        bodies = (*self.model.body_names, GROUND)
        yield from dict.fromkeys(bodies[i] for i, _ in self._rows)
        yield from dict.fromkeys(name for _, shape in self._rows if (name := _material(shape)))

    def text(self, at: Mapping[str, int]) -> str:
        """The tables; `at` says where the states of each sensor start, by its name, and where its
        distance does, by name_distance.
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
                table("int", "RB_SENSOR_AT", [*(at[name] for name in names), 0]),
                table("int", "RB_SENSOR_SIDE", [*map(self._signs, self.sides), [0] * self._count]),
                table("int", "RB_NEAR_AT", [*(at[f"{names[k]}_distance"] for k in near), 0]),
                table("int", "RB_NEAR_FIRST", [*first, (0, 0, 0)]),
                table("int", "RB_NEAR_SHAPE", [*rows, 0]),
            ]
        )

    @property
    def _count(self) -> int:
        return max(1, len(self._rows))

    def _signs(self, sides: tuple[tuple[int, ...], tuple[int, ...]]) -> list[int]:
        one, other = map(set, sides)
        return [(k in one) - (k in other) for k in range(self._count)]


def _material(shape: Shape | Surface) -> str:
    return shape.material.name if shape.material is not None else ""
