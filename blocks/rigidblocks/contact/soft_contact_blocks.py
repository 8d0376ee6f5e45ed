"""Blocks for compliant contact between shapes, and the C tables of these blocks."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from rigidblocks.block.block import Port, Record, Values
from rigidblocks.block.external_functions import StagedBlock
from rigidblocks.contact.compliant_contact import CompliantPlant, check_depth, check_spatial
from rigidblocks.contact.contact_checks import check_exclusions, check_ground, excluded_pairs
from rigidblocks.contact.contact_sensors import (
    SHAPES_IN_C,
    ContactSensor,
    SensorTables,
    check_sensors,
    sensor_offsets,
    sensor_ports,
)
from rigidblocks.contact.shape_tables import (
    MaterialPair,
    MaterialTables,
    check_material_pairs,
    number_text,
    placed_rows,
    polytope_row,
    shape_count,
    shape_rows,
    shape_tables,
    table,
    workspace_text,
)
from rigidblocks.dynamics.kinematics import body_poses, body_velocities
from rigidblocks.library.common_ports import joint_ports, wrench_port
from rigidblocks.library.plants import Plant
from rigidblocks.robot.material import Material
from rigidblocks.robot.model import Model
from rigidblocks.robot.shapes import Plane, Shape, Surface
from rigidblocks.spatial.spatial import Array, Transform

COLUMNS = {"K": "stiffness", "D": "damping", "mu": "mu"}


@dataclass(frozen=True, eq=False)
class SoftTables:
    """C tables of the shapes of the model and the ground, with candidate pairs and materials.

    In the material tables, the `default_material` comes first. It has the coefficients of the block
    and applies to shapes without a material. The materials of the shapes follow, then the materials
    of `material_pairs`.
    """

    model: Model
    ground: tuple[Shape | Surface, ...]
    default_material: Material
    collision_exclusions: tuple[tuple[str, str], ...] = ()
    material_pairs: tuple[MaterialPair, ...] = ()

    @cached_property
    def bodies(self) -> tuple[int, ...]:
        """Indices of the bodies that have shapes."""
        return tuple(i for i, shapes in enumerate(self.model.contact) if shapes)

    @cached_property
    def rows(self) -> tuple[tuple[int, Array, Transform], ...]:
        """Body number, shape table row and frame of each shape.

        The body number is an index into `bodies`, or len(bodies) for fixed shapes. The frame is
        relative to the body.
        """
        origins, nb = [np.zeros(3)] * self.model.nb, self.model.nb
        at = {**{i: k for k, i in enumerate(self.bodies)}, nb: len(self.bodies)}
        rows = placed_rows(self.model, self.ground, origins)
        return tuple((at[i], row, X) for i, row, X in rows)

    @cached_property
    def candidate_pairs(self) -> tuple[tuple[int, int], ...]:
        """Pairs of shapes that may touch, as indices into the shape table."""
        pairs = excluded_pairs(self.model, self.collision_exclusions)
        excluded = {frozenset(pair) for pair in pairs}
        body = [(*self.bodies, self.model.nb)[k] for k, *_ in self.rows]
        return tuple(
            (i, j)
            for i, j in combinations(range(len(self.rows)), 2)
            if body[i] != body[j] and frozenset((body[i], body[j])) not in excluded
        )

    @cached_property
    def _materials(self) -> MaterialTables:
        return MaterialTables(self.model, self.ground, self.material_pairs)

    @cached_property
    def materials(self) -> tuple[Material, ...]:
        """Materials: first the material of the block, then each distinct material of the shapes."""
        return (self.default_material, *self._materials.shape_materials)

    @property
    def pair_materials(self) -> tuple[Material, ...]:
        """Materials that `material_pairs` assigns to pairs of material names."""
        return tuple(material for *_, material in self._materials.pair_materials)

    def column(self, name: str) -> Array:
        """Return the coefficient `name` (K, D or mu) of all materials and material pairs.

        A material without a value has the value of the block.
        """
        given = [getattr(one, COLUMNS[name]) for one in (*self.materials, *self.pair_materials)]
        usual = getattr(self.default_material, COLUMNS[name])
        return np.array([usual if value is None else value for value in given], dtype=float)

    def text(self) -> str:
        """Return the C tables of shapes, pairs and materials."""
        counts = {
            "RB_SOFT_BODIES": len(self.bodies),
            "RB_SHAPES": len(self.rows),
            "RB_SOFT_PAIRS": len(self.candidate_pairs),
            "RB_MATERIALS": len(self.materials),
            "RB_NAMED_PAIRS": len(self._keys_of_pairs),
        }
        tables = (
            f"enum {{ {', '.join(f'{name} = {n}' for name, n in counts.items())} }};",
            table("double", "RB_SOFT_MASS", [*self._masses, np.inf]),
            shape_tables(self.rows),
            self._polytopes(),
            table("int", "RB_SHAPE_MATERIAL", list(self._row_materials())),
            table("int", "RB_SOFT_PAIR", [np.array(pair) for pair in self.candidate_pairs]),
            table("int", "RB_SAYS_K", self._has_value("stiffness")),
            table("int", "RB_SAYS_D", self._has_value("damping")),
            table("double", "RB_NAMED_PAIR", [*self._keys_of_pairs, 0.0]),
        )
        return "\n".join(tables)

    @property
    def _masses(self) -> list[float]:
        """Mass [kg] of each body with shapes, for the default of D_t.

        For a massless body, the result contains the mass of the whole model.
        """
        whole = sum(body.m for body in self.model.inertia)
        masses = [self.model.inertia[i].m for i in self.bodies]
        return [m if m > 0 else whole for m in masses]

    @property
    def _keys_of_pairs(self) -> list[float]:
        """Integer key of each material pair, for the search in the C code."""
        first, n = self._materials.bodies, len(self.materials)
        return [
            float((i - first + 1) * n + j - first + 1) for i, j, _ in self._materials.pair_materials
        ]

    def _polytopes(self) -> str:
        """Return the C table of all polytopes, and the table index of each shape's polytope.

        The index is -1 for shapes that are not polytopes.
        """
        polytopes = [polytope_row(row) for _, row, _ in self.rows]
        sizes = [0 if row is None else len(row) for row in polytopes]
        starts = np.cumsum([0, *sizes])[:-1]
        flat = [row for row in polytopes if row is not None]
        places = [int(k) if size else -1 for k, size in zip(starts, sizes, strict=True)]
        return "\n".join(
            [
                table("int", "RB_SHAPE_POLY", places),
                table("double", "RB_POLY_TABLE", np.concatenate([*flat, [0.0]])),
            ]
        )

    def _has_value(self, name: str) -> list[int]:
        """Return, for each material, 1 if it defines the property `name`, otherwise 0."""
        return [0, *(int(getattr(one, name) is not None) for one in self.materials[1:])]

    def _row_materials(self) -> Iterator[int]:
        """Yield the index of the material of each shape table row."""
        materials = self._materials.shape_materials
        for _, shape in self._materials.shapes:
            at = 0 if shape.material is None else 1 + materials.index(shape.material)
            yield from (at for _ in shape_rows(shape))


_PATCH = ("m", "m", "m", "rad")


@dataclass(frozen=True, eq=False)
class SoftContact(StagedBlock):
    """Forces of compliant contact between the shapes of bodies and fixed shapes.

        at points      f = g (K d + D dd/dt) (1 + c dd/dt),  g = sqrt(d / depth_ref) or 1
        on polytopes   p = (K d + D dd/dt) (1 + c dd/dt) / A,  |f_t| <= mu f_n

    f [N] is the normal force at a contact point, and p [Pa] the pressure on a polytope. d [m] is
    the penetration depth, K [N/m] the stiffness and D [N.s/m] the damping. If K d + D dd/dt or
    1 + c dd/dt is negative, f and p are 0. f_t and f_n are the friction force and the total normal
    force of a pair of shapes, and mu is the coefficient of friction.

    Shapes. The field `contact` of the model lists the shapes of the bodies. `ground` lists fixed
    shapes and surfaces in base coordinates. The narrow phase uses the C code of rigid contact.
    Polytopes are boxes and hulls of up to 64 vertices. A pressure acts over the overlap of two
    polytopes, or of a polytope and the ground (`c/contact/compliant_forces.h`). For polytopes d is
    the penetration depth of a point, and A the area of the largest face of the smaller of the two
    shapes. A cube of mass m that rests on a plane has the depth d = m g / K. Other shapes have up
    to four contact points along one normal, or along each of eight normals on height fields and
    meshes. Each point has a spring K and a damper D. Adjacent bodies have no contact. The pairs in
    `collision_exclusions`, in which "ground" means all fixed shapes, have no contact either.

    Force law. `dissipation` c [s/m] is the coefficient of Hunt and Crossley. If `depth_ref` [m] is
    given, the stiffness and damping at points are multiplied by g, which models contact between
    round bodies. The elastic forces of polytopes, of spheres and of all shapes on planes have a
    potential energy.

    Materials. K, D and mu apply to a pair of shapes without a `Material`. If the shapes have
    materials, the springs of the two materials are in series, and mu is the geometric mean. The
    damper of the pair dissipates as much power as the dampers of both materials. `material_pairs`
    overrides this rule for a pair of material names: (name, name, Material). If a material has no
    stiffness, the stiffness of the other material applies.

    Friction acts between two shapes as one patch per pair. Within the friction cone, the patch
    sticks to both bodies by a spring K_t and a damper D_t. The default of K_t is K. The default of
    D_t is sqrt(K_t m) with the smaller mass m of the two bodies. The patch also transmits a
    friction moment about the normal. The moment is at most mu times the sum of f r over the
    points, where r is the distance of a point from the centre of pressure. If
    any mu is positive, the displacements and angles of the patches are the states x (pairs, 4).

    Outputs:

    - `f_ext` (nb, 6), the wrenches on the bodies, for the input `f_ext` of a plant or `WrenchSum`;
    - `in_contact` (nb,), 1 if a contact force acts on the body, else 0;
    - `centre_of_pressure` (nb, 3) [m] and `normal_force` (nb,) [N] of all contacts of a body;
    - `depth` (nb,) [m], the largest depth, and `pressure` (nb,) [Pa], the largest pressure;
    - `left_out`, the number of contact points, normals and face pieces that exceed the fixed
      buffers. It is zero unless the ground has details smaller than the shapes on it.

    Each of the `sensors` has the outputs of a sensor of `RigidContactPlant`, as values at the
    current time. As a separate part of a system, this block holds its forces over a
    communication step. `SoftContactPlant` instead computes the forces at each stage of its step.

    Raises:
        ValueError: A value or name is invalid, or no two shapes of the model may touch.
        TypeError: The contact does not support a shape.
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
    collision_exclusions: tuple[tuple[str, str], ...] = ()
    material_pairs: tuple[MaterialPair, ...] = ()
    sensors: tuple[ContactSensor, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "ground", check_ground(self.ground))
        object.__setattr__(self, "material_pairs", check_material_pairs(self.material_pairs))
        check_spatial(self.model)
        object.__setattr__(self, "sensors", check_sensors(self.model, self.ground, self.sensors))
        check_depth(self.depth_ref)
        if not (np.isfinite(self.dissipation) and self.dissipation >= 0.0):
            raise ValueError(f"dissipation must not be negative, but is {self.dissipation} s/m")
        exclusions = check_exclusions(self.model, self.collision_exclusions, only_with_shapes=True)
        object.__setattr__(self, "collision_exclusions", exclusions)
        if not self.shapes.candidate_pairs:
            raise ValueError(
                f"model '{self.model.name}' and the ground have no pair of shapes that may touch; "
                "list the shapes of each body in the field `contact` of the model"
            )

    @cached_property
    def shapes(self) -> SoftTables:
        """C tables of the shapes, candidate pairs and materials."""
        own = Material("", self.mu, stiffness=self.K, damping=self.D)
        return SoftTables(
            self.model, self.ground, own, self.collision_exclusions, self.material_pairs
        )

    @cached_property
    def has_friction(self) -> bool:
        """True if mu is positive for at least one pair of shapes."""
        return bool(self.shapes.column("mu").any())

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Inputs: joint positions q (nq,) and joint velocities qd (nv,)."""
        return joint_ports(self.model, q="joint positions", qd="joint velocities")

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """State x (pairs, 4): displacement (3) and twist angle of each friction patch."""
        n = len(self.shapes.candidate_pairs)
        text = "displacement and rotation of the patch of each pair"
        return (Port("x", (n, 4), _PATCH * n, text, 0.0),) if self.has_friction else ()

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Outputs: f_ext (nb, 6), contact quantities of the bodies, left_out, and sensor outputs.

        The contact quantities are in_contact, centre_of_pressure, normal_force, depth and pressure.
        """
        nb = self.model.nb
        return (
            wrench_port(self.model, None),
            Port("in_contact", (nb,), "1", "1 if contacts push the body", min=0.0, max=1.0),
            Port(
                "centre_of_pressure",
                (nb, 3),
                "m",
                "centre of pressure of all contacts of each body",
            ),
            Port("normal_force", (nb,), "N", "sum of the normal forces on a body", min=0.0),
            Port("depth", (nb,), "m", "largest penetration depth of each body", min=0.0),
            Port("pressure", (nb,), "N/m2", "largest pressure on the faces of each body", min=0.0),
            Port("left_out", (), "1", "dropped points and pieces of faces", min=0.0),
            *self._sensor_ports,
        )

    @cached_property
    def _sensor_ports(self) -> tuple[Port, ...]:
        """Outputs of the contact sensors."""
        ports = (port for sensor in self.sensors for port in sensor_ports(sensor))
        return tuple(replace(port, start=None) for port in ports)

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Parameters: K, D and mu of the contact law, and K_t and D_t if they are set."""
        of = "of the block, of materials, of pairs" if len(self._column("K")) > 1 else "of a pair"
        ports = [
            self._port("K", "N/m", f"stiffness along the normal {of}", positive=True),
            self._port("D", "N.s/m", f"damping along the normal {of}"),
        ]
        if self.has_friction:
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
        return (*shapes, "contact/sensors.h", "contact/compliant_forces.h")

    @cached_property
    def tables(self) -> str:
        given = (("OWN_PATCH", self.K_t), ("OWN_DAMPER", self.D_t))
        felt = sum(port.size for port in self._sensor_ports)
        flags = [f"RB_FRICTION = {int(self.has_friction)}", f"RB_FELT_ALL = {felt}"]
        flags += [f"RB_{name} = {int(value is not None)}" for name, value in given]
        return "\n".join(
            [
                "#define RB_TABLES_H",
                workspace_text(500 * (self.model.nb + shape_count(self.model, self.ground))),
                f"enum {{ {', '.join(flags)} }};",
                f"static const double RB_DEPTH_REF = {number_text(self.depth_ref or 0.0)};",
                f"static const double RB_DISSIPATION = {number_text(self.dissipation)};",
                self.shapes.text(),
                SensorTables(self.model, self.ground, self.sensors).text(
                    sensor_offsets(self._sensor_ports, self.sensors)
                ),
                "",
            ]
        )

    @property
    def _sizes(self) -> tuple[int, ...]:
        """Lengths of the consecutive arrays in the result of the C function `soft_contact`."""
        n, pairs = len(self.shapes.bodies), len(self.shapes.candidate_pairs)
        felt = sum(port.size for port in self._sensor_ports)
        return (6 * n, 4 * pairs if self.has_friction else 0, pairs, n, 3 * n, n, n, n, 1, felt)

    @property
    def stage_size(self) -> int:
        return sum(self._sizes)

    def _parts(self, w: Array) -> list[Array]:
        """Return the arrays in the result vector w of the C function `soft_contact`.

        The arrays are wrenches, patch rates, margins, contact flags, centres of pressure, depths,
        pressures, normal forces, dropped contacts and sensor outputs.
        """
        return np.split(w, np.cumsum(self._sizes)[:-1])

    def stage_numbers(self, model: Model, q: Array, qd: Array, x: Record, p: Record) -> Array:
        """Return the arguments (n,) of the C function `soft_contact` at one integrator stage.

        The arguments are the poses and velocities of the bodies with shapes, the patch states and
        the coefficients.
        """
        X0, v = body_poses(model, q), body_velocities(model, q, qd)
        found: list[Any] = []
        for i in self.shapes.bodies:
            E = X0[i].E
            found += [np.ravel(E.T), X0[i].r, E.T @ v[i][:3], E.T @ v[i][3:]]
        found += [np.ravel(x.x)] if self.has_friction else []
        names = ("K", "D", "mu", "K_t", "D_t")
        found += [np.ravel(np.asarray(getattr(p, n))) for n in names if n in vars(p)]
        return np.concatenate(found)

    def stage_inputs(self, x: Record, u: Record, p: Record) -> Array:
        return self.stage_numbers(self.model, u.q, u.qd, x, p)

    def patch_rates(self, w: Array) -> Values:
        """Return the derivatives of the patch states from the result w of the C function."""
        n = len(self.shapes.candidate_pairs)
        return {"x": self._parts(w)[1].reshape(n, 4)} if self.has_friction else {}

    def wrenches(self, w: Array) -> Array:
        """Return the body wrenches (nb, 6) from the result w of the C function."""
        f = self._parts(w)[0].reshape(-1, 6)
        return self._expand_to_all_bodies(f)

    def contact_outputs(self, w: Array) -> Values:
        """Return all outputs of the block except f_ext from the result w of the C function."""
        *_, there, centre, depth, pressure, normal, left_out, sensed = self._parts(w)
        sizes = np.cumsum([port.size for port in self._sensor_ports])
        felt = (
            zip(self._sensor_ports, np.split(sensed, sizes[:-1]), strict=True) if len(sizes) else ()
        )
        return {
            "in_contact": self._expand_to_all_bodies(there),
            "centre_of_pressure": self._expand_to_all_bodies(centre.reshape(-1, 3)),
            "normal_force": self._expand_to_all_bodies(normal),
            "depth": self._expand_to_all_bodies(depth),
            "pressure": self._expand_to_all_bodies(pressure),
            "left_out": left_out[0],
            **{port.name: values.reshape(port.shape) for port, values in felt},
        }

    def pair_margins(self, w: Array) -> Array:
        """Return the margins (pairs,) [m] from the result w of the C function.

        A margin is positive while a contact force acts between the two shapes; in an open contact,
        it is minus the gap.
        """
        return self._parts(w)[2]

    def _expand_to_all_bodies(self, values: Array) -> Array:
        """Expand an array of the bodies with shapes to all nb bodies; other bodies get zeros."""
        whole = np.zeros((self.model.nb, *values.shape[1:]), dtype=values.dtype)
        for k, i in enumerate(self.shapes.bodies):
            whole[i] = values[k]
        return whole

    def rates(self, t: Any, x: Record, u: Record, p: Record, w: Array) -> Values:
        del t, x, u, p
        return self.patch_rates(w)

    def changes(self, x: Record, u: Record, p: Record, w: Array) -> Array:
        del x, u, p
        return self.pair_margins(w)

    def results(self, t: Any, x: Record, u: Record, p: Record, w: Array) -> Values:
        del t, x, u, p
        return {"f_ext": self.wrenches(w), **self.contact_outputs(w)}


@dataclass(frozen=True, eq=False)
class SoftContactPlant(CompliantPlant, StagedBlock):
    """Forward dynamics of robots and free bodies with compliant contact between shapes.

        H(q) qdd + C(q, qd) = tau + sum J_i^T f_i      f_i by the law of `SoftContact`

    f_i is the contact wrench on body i, and J_i the Jacobian of this body. H is the joint-space
    inertia matrix, and C the bias force. `robot` is a `RobotPlant`, `FloatingBasePlant` or
    `ClosedLoopPlant`. The other fields are the fields of `SoftContact`. The plant evaluates the
    forces at every stage of the integrator instead of holding them. Adaptive steps end when
    contacts open and close. The output `f_contact` (nb, 6) contains the contact wrenches on the
    bodies.

    The number of contacts is unlimited, and the code size does not depend on it. If the contact has
    friction, the plant has four states for each pair of shapes that may touch. List pairs that
    never touch in `collision_exclusions`.

    Raises:
        TypeError: The robot is a block of another type, or an argument of `SoftContact` has an
            invalid type.
        ValueError: An argument of `SoftContact` has an invalid value.
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
    collision_exclusions: tuple[tuple[str, str], ...] = ()
    material_pairs: tuple[MaterialPair, ...] = ()
    sensors: tuple[ContactSensor, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "ground", check_ground(self.ground))
        _ = self.contact

    @cached_property
    def contact(self) -> SoftContact:
        """`SoftContact` block for the model of the robot."""
        law = (self.K, self.D, self.mu, self.ground, self.K_t, self.D_t, self.depth_ref)
        assert isinstance(self.robot.model, Model)
        others = (self.dissipation, self.collision_exclusions, self.material_pairs, self.sensors)
        return SoftContact(self.robot.model, *law, *others)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Outputs of the robot, f_contact (nb, 6), and outputs of `SoftContact` except f_ext."""
        wrench, *rest = self.contact.outputs
        text = "wrench of all contacts, base coordinates"
        f = Port("f_contact", wrench.shape, wrench.units, text)
        return (*self._robot.outputs, f, *rest)

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

    def stage_inputs(self, x: Record, u: Record, p: Record) -> Array:
        del u
        return self.contact.stage_numbers(self._model, *self.robot.configuration(x), x, p)

    def rates(self, t: Any, x: Record, u: Record, p: Record, w: Array) -> Values:
        robot = self._robot_values("derivative", t, x, u, p, self.contact.wrenches(w))
        return {**robot, **self.contact.patch_rates(w)}

    def changes(self, x: Record, u: Record, p: Record, w: Array) -> Array:
        """Return the switching functions of the robot and the margins of the shape pairs.

        w (`stage_size`,) is the result of the C function `soft_contact`.
        """
        del u
        return np.concatenate([self.robot.switching_functions(x, p), self.contact.pair_margins(w)])

    def results(self, t: Any, x: Record, u: Record, p: Record, w: Array) -> Values:
        f = self.contact.wrenches(w)
        robot = self._robot_values("output", t, x, u, p, f)
        return {**robot, "f_contact": f, **self.contact.contact_outputs(w)}

    def modes(self, x: Record, p: Record) -> Array:
        """Return the eigenvalues [1/s] of the robot without the contact stiffness."""
        return self.robot.modes(x, p)
