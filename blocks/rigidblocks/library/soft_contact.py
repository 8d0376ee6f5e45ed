"""Soft contact between shapes as a block of its own."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Port, Record, Values
from rigidblocks.block.staged import StagedBlock
from rigidblocks.contact.material_tables import PairOfMaterials, checked_pairs
from rigidblocks.contact.sensor_tables import ContactSensor, SensorTables
from rigidblocks.contact.soft_tables import SoftTables
from rigidblocks.dynamics.kinematics import body_poses, body_velocities
from rigidblocks.library.compliance import check_depth
from rigidblocks.library.contact_checks import check_apart, checked_ground
from rigidblocks.library.contact_sensors import (
    SHAPES_IN_C,
    checked_sensors,
    sensor_places,
    sensor_ports,
)
from rigidblocks.library.ports import joint_ports, wrench_port
from rigidblocks.model.material import Material
from rigidblocks.model.model import Model
from rigidblocks.model.shapes import Plane, Shape, Surface

_PATCH = ("m", "m", "m", "rad")


@dataclass(frozen=True, eq=False)
class SoftContact(StagedBlock):
    """The forces of soft contact between the shapes of bodies, and between them and things at rest.

        of points      f = g (K d + D dd/dt) (1 + c dd/dt),  g = sqrt(d / depth_ref) or 1
        of polytopes   p = (K d + D dd/dt) (1 + c dd/dt) / A  over the faces
        where both factors are positive, else 0,  |f_t| <= mu f_n

    The shapes are those in the model's field `contact`, and `ground` lists shapes and surfaces at
    rest, in base coordinates; where two touch is found by the C that rigid contact runs. Boxes, and
    hulls of up to 64 vertices, press on each other and on all ground all over where they overlap
    (`c/soft/pressure.h`, `c/soft/terrain.h`): d is how deep a point is inside the other one, A the
    area of the largest face of the smaller one, so that a cube on a plane is d = m g / K deep.
    Others touch in up to four points along one normal, along each of eight on fields and meshes,
    and have a spring K and a damper D at each. `dissipation` c
    [s/m] is that of Hunt and Crossley; with `depth_ref` [m] springs and dampers at points are
    stiffer by g, as between round bodies. Elastic forces of polytopes, of balls and of all on
    planes have an energy.

    K, D and mu are numbers of a pair of shapes, unless these have a `Material`: then K is that of
    springs in series, D what their dampers lose together, mu the geometric mean, unless `pairs`
    says it, by the names of two materials: (name, name, Material). Of a material without stiffness
    they are those of the other.

    Friction is of a whole pair: a patch that sticks to both bodies as far as the cone allows, on a
    spring K_t (K unless given) and a damper D_t (sqrt(K_t m) with the lighter mass unless given),
    and turns with them, with a moment that is at most mu times the normal forces by their distances
    from the centre of pressure. What the patches are
    displaced and turned by are the states x (pairs, 4), which are not there where no mu is
    positive. Bodies that a joint connects do not touch, nor do those that `apart` names in pairs,
    "ground" being what is at rest.

    `f_ext` (nb, 6) are the wrenches on the bodies, for the input of that name of a plant or a
    `WrenchSum`. Of each body `in_contact` (nb,) is 1 where it is pushed, `centre_of_pressure`
    (nb, 3) [m] that of all that pushes it, `normal_force` (nb,) [N] its sum, `depth` (nb,) [m] the
    deepest point, and `pressure` (nb,) [Pa] the largest where there is one. `left_out` is how many
    points that overlap, normals and pieces of faces found no room in what they are kept in: zero
    unless the ground is finer than the shapes on it. `sensors` are between two sides each, with the
    outputs of those of `RigidContactPlant`, of the present instant. Wired up beside a plant the
    forces are held over a step; `SoftContactPlant` has them in its own.

    Raises ValueError for numbers that are none of these, for names that are of nothing, and for a
    model of which no two shapes may touch; TypeError for a shape that is not known.
    """

    model: Model
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
        object.__setattr__(self, "ground", checked_ground(self.ground))
        object.__setattr__(self, "apart", tuple((a, b) for a, b in self.apart))
        object.__setattr__(self, "pairs", checked_pairs(self.pairs))
        check_spatial(self.model)
        object.__setattr__(self, "sensors", checked_sensors(self.model, self.ground, self.sensors))
        check_depth(self.depth_ref)
        if not (np.isfinite(self.dissipation) and self.dissipation >= 0.0):
            raise ValueError(f"dissipation must not be negative, not {self.dissipation} s/m")
        check_apart(self.model, self.apart, only_with_shapes=True)
        if not self.shapes.touching:
            raise ValueError(
                f"no two shapes of model '{self.model.name}' and of the ground may touch: list "
                "them in its field `contact`, body by body"
            )

    @cached_property
    def shapes(self) -> SoftTables:
        """The tables of what touches."""
        own = Material("", self.mu, stiffness=self.K, damping=self.D)
        return SoftTables(self.model, self.ground, own, self.apart, self.pairs)

    @cached_property
    def rubs(self) -> bool:
        """Whether there is friction."""
        return bool(self.shapes.column("mu").any())

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """q (nq,) and qd (nv,)."""
        return joint_ports(self.model, q="joint positions", qd="joint velocities")

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """x (pairs, 4), with friction."""
        n = len(self.shapes.touching)
        text = "how far the patch of each pair is displaced and turned"
        return (Port("x", (n, 4), _PATCH * n, text, 0.0),) if self.rubs else ()

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """f_ext (nb, 6), of the bodies in_contact, centre_of_pressure, normal_force, depth and
        pressure, left_out, and those of the sensors.
        """
        nb = self.model.nb
        return (
            wrench_port(self.model, None),
            Port("in_contact", (nb,), "1", "1 where a body is pushed", min=0.0, max=1.0),
            Port("centre_of_pressure", (nb, 3), "m", "of all that pushes a body"),
            Port("normal_force", (nb,), "N", "sum of the normal forces on a body", min=0.0),
            Port("depth", (nb,), "m", "of the deepest point of a body's contacts", min=0.0),
            Port("pressure", (nb,), "N/m2", "largest pressure on a body's faces", min=0.0),
            Port("left_out", (), "1", "points and pieces of faces without room", min=0.0),
            *self._sensed,
        )

    @cached_property
    def _sensed(self) -> tuple[Port, ...]:
        """What the sensors measure."""
        ports = (port for sensor in self.sensors for port in sensor_ports(sensor))
        return tuple(replace(port, start=None) for port in ports)

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """K and D, with friction mu, each of the block and of materials behind it; K_t and D_t
        where they are given.
        """
        of = "of the block, of materials, of pairs" if len(self._column("K")) > 1 else "of a pair"
        ports = [
            self._port("K", "N/m", f"stiffness along the normal {of}", positive=True),
            self._port("D", "N.s/m", f"damping along the normal {of}"),
        ]
        if self.rubs:
            ports.append(self._port("mu", "1", f"friction {of}"))
        given = (("K_t", "N/m", "stiffness"), ("D_t", "N.s/m", "damping"))
        for name, unit, text in given:
            if (value := getattr(self, name)) is not None:
                ports.append(
                    Port(name, (), unit, f"{text} of patches", value, min=0.0, positive=True)
                )
        return tuple(ports)

    def _column(self, name: str) -> Array:
        return self.shapes.column(name)

    def _port(self, name: str, unit: str, text: str, *, positive: bool = False) -> Port:
        values = self._column(name)
        start = values if len(values) > 1 else values[0]
        return Port(name, np.shape(start), unit, text, start, min=0.0, positive=positive)

    @property
    def function(self) -> str:
        return "soft_contact"

    @property
    def headers(self) -> tuple[str, ...]:
        shapes = (f"contact/{name}.h" for name in SHAPES_IN_C)
        others = ("contact/nearest.h", "contact/felt.h", "soft/pressure.h", "soft/terrain.h")
        return (*shapes, *others, "soft/soft.h")

    @cached_property
    def tables(self) -> str:
        given = (("OWN_PATCH", self.K_t), ("OWN_DAMPER", self.D_t))
        felt = sum(port.size for port in self._sensed)
        flags = [f"RB_FRICTION = {int(self.rubs)}", f"RB_FELT_ALL = {felt}"]
        flags += [f"RB_{name} = {int(value is not None)}" for name, value in given]
        return "\n".join(
            [
                "#define RB_TABLES_H",
                f"enum {{ {', '.join(flags)} }};",
                f"static const double RB_DEPTH_REF = {float(self.depth_ref or 0.0)!r};",
                f"static const double RB_DISSIPATION = {float(self.dissipation)!r};",
                self.shapes.text(),
                SensorTables(self.model, self.ground, self.sensors).text(
                    sensor_places(self._sensed, self.sensors)
                ),
                "",
            ]
        )

    @property
    def _sizes(self) -> tuple[int, ...]:
        """How many numbers there are of each part that the C writes."""
        n, pairs = len(self.shapes.bodies), len(self.shapes.touching)
        felt = sum(port.size for port in self._sensed)
        return (6 * n, 4 * pairs if self.rubs else 0, pairs, n, 3 * n, n, n, n, 1, felt)

    @property
    def stage_size(self) -> int:
        return sum(self._sizes)

    def _parts(self, w: Array) -> list[Array]:
        """What the C writes: wrenches, rates of patches, margins, whether there is contact, its
        centre, depth, pressure and normal force, what found no room, and what sensors measure.
        """
        return np.split(w, np.cumsum(self._sizes)[:-1])

    def numbers(self, model: Model, q: Array, qd: Array, x: Record, p: Record) -> Array:
        """What the C gets of a model in motion, and of states and parameters of this block."""
        X0, v = body_poses(model, q), body_velocities(model, q, qd)
        found: list[Any] = []
        for i in self.shapes.bodies:
            E = X0[i].E
            found += [np.ravel(E.T), X0[i].r, E.T @ v[i][:3], E.T @ v[i][3:]]
        found += [np.ravel(x.x)] if self.rubs else []
        names = ("K", "D", "mu", "K_t", "D_t")
        found += [np.ravel(np.asarray(getattr(p, n))) for n in names if n in vars(p)]
        return np.concatenate(found)

    def before(self, x: Record, u: Record, p: Record) -> Array:
        return self.numbers(self.model, u.q, u.qd, x, p)

    def patch_rates(self, w: Array) -> Values:
        """The rates of the patches."""
        n = len(self.shapes.touching)
        return {"x": self._parts(w)[1].reshape(n, 4)} if self.rubs else {}

    def wrenches(self, w: Array) -> Array:
        """The wrenches (nb, 6) on the bodies."""
        f = self._parts(w)[0].reshape(-1, 6)
        return self._of_all(f)

    def felt(self, w: Array) -> Values:
        """The outputs but f_ext."""
        *_, there, centre, depth, pressure, normal, left_out, sensed = self._parts(w)
        sizes = np.cumsum([port.size for port in self._sensed])
        felt = zip(self._sensed, np.split(sensed, sizes[:-1]), strict=True) if len(sizes) else ()
        return {
            "in_contact": self._of_all(there),
            "centre_of_pressure": self._of_all(centre.reshape(-1, 3)),
            "normal_force": self._of_all(normal),
            "depth": self._of_all(depth),
            "pressure": self._of_all(pressure),
            "left_out": left_out[0],
            **{port.name: values.reshape(port.shape) for port, values in felt},
        }

    def pushes(self, w: Array) -> Array:
        """By how much each pair (n,) pushes [m]: positive where there is a force, the negative of
        the gap where there is none.
        """
        return self._parts(w)[2]

    def _of_all(self, values: Array) -> Array:
        """Values of the bodies that have shapes, as those of all."""
        whole = np.zeros((self.model.nb, *values.shape[1:]), dtype=values.dtype)
        for k, i in enumerate(self.shapes.bodies):
            whole[i] = values[k]
        return whole

    def rates(self, t: Any, x: Record, u: Record, p: Record, w: Array) -> Values:
        del t, x, u, p
        return self.patch_rates(w)

    def changes(self, x: Record, u: Record, p: Record, w: Array) -> Array:
        del x, u, p
        return self.pushes(w)

    def results(self, t: Any, x: Record, u: Record, p: Record, w: Array) -> Values:
        del t, x, u, p
        return {"f_ext": self.wrenches(w), **self.felt(w)}


def check_spatial(model: Any) -> None:
    """Raises TypeError for a planar model."""
    if not isinstance(model, Model):
        raise TypeError(f"contact is between spatial bodies; model '{model.name}' is a planar one")
