"""Soft contact between shapes as a block of its own, and within a plant's own step."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Port, Record, Values, call
from rigidblocks.block.staged import StagedBlock
from rigidblocks.contact.material_tables import PairOfMaterials, checked_pairs
from rigidblocks.contact.soft_tables import SoftTables
from rigidblocks.dynamics.kinematics import body_poses, body_velocities
from rigidblocks.library.compliance import check_depth
from rigidblocks.library.contact_sensors import SHAPES_IN_C
from rigidblocks.library.plant import Plant
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
    hulls of up to 64 vertices, press on each other and on planes all over where they overlap
    (`c/soft/pressure.h`): d is how deep a point is inside the other one, A the area of the
    largest face of the smaller one, so that a cube on a plane is d = m g / K deep. Others touch in
    up to four points along one normal, and have a spring K and a damper D at each. `dissipation` c
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
    deepest point, and `pressure` (nb,) [Pa] the largest where there is one. Wired up beside a plant
    the forces are held over a step; `SoftContactPlant` has them in its own.

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

    def __post_init__(self) -> None:
        object.__setattr__(self, "ground", tuple(self.ground))
        object.__setattr__(self, "apart", tuple((a, b) for a, b in self.apart))
        object.__setattr__(self, "pairs", checked_pairs(self.pairs))
        _check_spatial(self.model)
        check_depth(self.depth_ref)
        if not (np.isfinite(self.dissipation) and self.dissipation >= 0.0):
            raise ValueError(f"dissipation must not be negative, not {self.dissipation} s/m")
        _check_names(self.model, self.apart)
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
        """f_ext (nb, 6), and of the bodies in_contact, centre_of_pressure, normal_force, depth and
        pressure.
        """
        nb = self.model.nb
        return (
            wrench_port(self.model, None),
            Port("in_contact", (nb,), "1", "1 where a body is pushed", min=0.0, max=1.0),
            Port("centre_of_pressure", (nb, 3), "m", "of all that pushes a body"),
            Port("normal_force", (nb,), "N", "sum of the normal forces on a body", min=0.0),
            Port("depth", (nb,), "m", "of the deepest point of a body's contacts", min=0.0),
            Port("pressure", (nb,), "N/m2", "largest pressure on a body's faces", min=0.0),
        )

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
        return (*shapes, "soft/pressure.h", "soft/soft.h")

    @cached_property
    def tables(self) -> str:
        given = (("OWN_PATCH", self.K_t), ("OWN_DAMPER", self.D_t))
        flags = [f"RB_FRICTION = {int(self.rubs)}"]
        flags += [f"RB_{name} = {int(value is not None)}" for name, value in given]
        return "\n".join(
            [
                "#define RB_TABLES_H",
                f"enum {{ {', '.join(flags)} }};",
                f"static const double RB_DEPTH_REF = {float(self.depth_ref or 0.0)!r};",
                f"static const double RB_DISSIPATION = {float(self.dissipation)!r};",
                self.shapes.text(),
                "",
            ]
        )

    @property
    def _sizes(self) -> tuple[int, ...]:
        """How many numbers there are of each part that the C writes."""
        n, pairs = len(self.shapes.bodies), len(self.shapes.touching)
        return (6 * n, 4 * pairs if self.rubs else 0, pairs, n, 3 * n, n, n, n)

    @property
    def stage_size(self) -> int:
        return sum(self._sizes)

    def _parts(self, w: Array) -> list[Array]:
        """What the C writes: wrenches, rates of patches, margins, whether there is contact, its
        centre, depth, pressure and normal force.
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
        *_, there, centre, depth, pressure, normal = self._parts(w)
        return {
            "in_contact": self._of_all(there),
            "centre_of_pressure": self._of_all(centre.reshape(-1, 3)),
            "normal_force": self._of_all(normal),
            "depth": self._of_all(depth),
            "pressure": self._of_all(pressure),
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

    def __post_init__(self) -> None:
        if not isinstance(self.robot, Plant):
            raise TypeError(
                "the robot of a plant in soft contact is a RobotPlant, FloatingBasePlant or "
                f"ClosedLoopPlant, not {self.robot!r}"
            )
        object.__setattr__(self, "ground", tuple(self.ground))
        _ = self.contact

    @cached_property
    def _robot(self) -> Plant:
        return self.robot.with_wrenches()

    @cached_property
    def contact(self) -> SoftContact:
        """The contact of the robot's model."""
        _check_spatial(self.robot.model)
        law = (self.K, self.D, self.mu, self.ground, self.K_t, self.D_t, self.depth_ref)
        assert isinstance(self.robot.model, Model)
        return SoftContact(self.robot.model, *law, self.dissipation, self.apart, self.pairs)

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
        """Those of the robot, f_contact (nb, 6), and of the bodies in_contact, centre_of_pressure,
        normal_force, depth and pressure.
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


def _check_spatial(model: Any) -> None:
    if not isinstance(model, Model):
        raise TypeError(f"contact is between spatial bodies; model '{model.name}' is a planar one")


def _check_names(model: Model, apart: Sequence[tuple[str, str]]) -> None:
    """Raises ValueError for a pair of what are no bodies with shapes."""
    names = (*(n for n, s in zip(model.body_names, model.contact, strict=True) if s), "ground")
    for name in (name for pair in apart for name in pair):
        if name not in names:
            raise ValueError(
                f"'{name}' in `apart` is no body of model '{model.name}' with shapes: take two of "
                f"{', '.join(names)}"
            )
