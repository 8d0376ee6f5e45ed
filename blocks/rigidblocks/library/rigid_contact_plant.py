"""Robots and free bodies in rigid contact, as a block."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Port, finite
from rigidblocks.block.written import WrittenBlock
from rigidblocks.contact.loop_tables import LoopTables
from rigidblocks.contact.material_tables import (
    COEFFICIENTS,
    MaterialTables,
    PairOfMaterials,
    checked_pairs,
)
from rigidblocks.contact.scene_tables import scene_tables, shape_count
from rigidblocks.contact.sensor_tables import ContactSensor, SensorTables
from rigidblocks.contact.tree_tables import TreeTables, neighbours
from rigidblocks.formats.description import Freedoms
from rigidblocks.library.contact_checks import (
    check_apart,
    check_freedoms,
    check_joints,
    checked_ground,
    closed_start,
    usual_contacts,
)
from rigidblocks.library.contact_sensors import (
    SHAPES_IN_C,
    checked_sensors,
    sensor_places,
    sensor_ports,
)
from rigidblocks.library.ports import (
    force_port,
    gravity_port,
    motion_states,
    start_configuration,
    wrench_port,
)
from rigidblocks.model.model import Model
from rigidblocks.model.shapes import Plane, Shape, Surface

LAWS = "newton", "poisson"  # of restitution
TOLERANCE = 1e-5  # of the velocities at contacts, relative to the fastest body


@dataclass(frozen=True, eq=False)
class RigidContactPlant(WrittenBlock):
    """Robots and free bodies that touch each other and things at rest, rigidly, with Coulomb
    friction.

        H (qd' - qd) = h (tau - C) + J^T p,
        0 <= p_n  perpendicular to  u_n' >= max(-gap / h, -e u_n),
        |p_t| <= mu p_n, against the sliding velocity u_t'

    The bodies are those of `model`: on trees of joints (revolute, prismatic, helical, spherical,
    planar, fixed, of six freedoms), and free ones, on a joint of six freedoms to the base, at its
    origin. Their shapes are those in the model's field `contact`: spheres, capsules, boxes,
    round cylinders, ellipsoids, convex hulls and point sets; `ground` lists shapes and planes at
    rest, in base coordinates. Bodies that a joint connects do not touch, nor do those that `apart`
    names in pairs, "ground" being what is at rest. `freedoms` has stops, dry friction, dampers,
    springs and rotors of the joints: stops and dry friction are impulses like those of contacts.

    Every step of `sample_time` [s] finds the pairs that may touch (a sweep along an axis), up to
    four points of each with their gaps, and the impulses p by projected sweeps with the friction
    cone, from those of the step before, until no velocity at a contact changes by more than 1e-5 of
    the fastest, after 32 sweeps 1e-4 of the speeds before, at most `sweeps` times. All is C in
    loops over tables: compile time does not grow with the number of pairs.

    `mu`, `e` (friction and Newton's restitution), `mu_static` (friction of what sticks, `mu` unless
    given), `torsional` and `rolling` [m] are numbers or (nb + 1,), of each body and, at the end, of
    what is at rest; a shape with a `Material` has that of its own. Of a pair mu, mu_static and e
    are the geometric means, torsional and rolling the larger of the two, unless `pairs` says it,
    by the names of two materials: (name, name, Material). Moments at each point of contact are at
    most torsional p_n about the normal and rolling p_n about the tangents, against the relative
    spin. Restitution acts in the step in which the gap would close, and what is struck strikes
    the next body in the same step. By `law` "newton" it is e times the velocity of approach with
    which contacts go apart, by "poisson" e times the impulse of the compression that they take
    again, as in `rigidblocks.contact.impact`. The parameters of the block have the numbers of
    materials, in the order in which they come, and of pairs behind those of bodies.

    q (nq,) and qd (nv,) are those of the model; qd is the velocity in the middle of the step before
    (leapfrog: free flight keeps energy and momenta, an elastic bounce its energy). Inputs are tau
    (nv,), the joint forces, where there are joints, and f_ext (nb, 6), the wrenches on the bodies
    in base coordinates. f_contact (nb, 6) are the wrenches of all contacts on them over the step,
    in_contact (nb,) is 1 where a body is pushed, centre_of_pressure (nb, 3) [m] the mean of its
    points weighed by their normal forces. `contacts` is their number, `left_out` how many pairs or
    points found no room in `max_contacts`, `residual` [m/s] by how much the last of the
    `sweeps_made` changed a velocity, `depth` [m] how deep the deepest is. Overlaps, as at the
    start, are taken back over some steps, without giving velocity.

    `sensors` are between two sides each, of bodies, materials or what is at rest. Of one `toe` the
    outputs are toe_wrench (6,) of the other side on the one over the step, toe_normal_force [N],
    toe_in_contact, toe_slip (3,) [m/s] along the surface and toe_centre_of_pressure (3,) [m], both
    means weighed by the normal forces and zero without contact; with `distance` also toe_distance
    [m] at q, and the points toe_on_one and toe_on_other (3,) [m] that have it.

    Loop joints of the model (revolute, prismatic, cylindrical, spherical, planar, fixed) are in the
    same problem: what contacts, stops and dry friction see is the inertia of the closed loops,
    found by elimination, in which dependent constraints are dropped. Every step ends with loops
    that are closed; `loop_error` is how far they were open before the last correction.

    Raises ValueError for joints that are not among those above, for a start that leaves loops open,
    and for a model without shapes; TypeError for a shape that is not among those above.
    """

    model: Model
    ground: tuple[Shape | Surface, ...] = (Plane(),)
    mu: Any = 0.5
    e: Any = 0.0
    sample_time: float = 1e-3
    q0: Any = None
    qd0: Any = None
    max_contacts: int | None = None
    sweeps: int = 320
    freedoms: Freedoms | None = None
    apart: tuple[tuple[str, str], ...] = ()
    mu_static: Any = None
    torsional: Any = 0.0
    rolling: Any = 0.0
    pairs: tuple[PairOfMaterials, ...] = ()
    sensors: tuple[ContactSensor, ...] = ()
    law: str = "newton"

    def __post_init__(self) -> None:
        check_joints(self.model)
        if self.law not in LAWS:
            raise ValueError(
                f"there is no law of restitution '{self.law}'; there are {', '.join(LAWS)}"
            )
        if self.freedoms is None:
            object.__setattr__(self, "freedoms", Freedoms.of(self.model.nv))
        object.__setattr__(self, "ground", checked_ground(self.ground))
        object.__setattr__(self, "sensors", checked_sensors(self.model, self.ground, self.sensors))
        object.__setattr__(self, "q0", start_configuration(self.model, self.q0))
        qd0 = np.zeros(self.model.nv) if self.qd0 is None else self.qd0
        qd0 = finite(qd0, (self.model.nv,), "the start value of 'qd'")
        object.__setattr__(self, "qd0", closed_start(self.model, self.q0, qd0))
        object.__setattr__(self, "pairs", checked_pairs(self.pairs))
        self._set_coefficients()
        _ = self._coefficients
        if not shape_count(self.model, ()):
            raise ValueError(
                f"model '{self.model.name}' has no shapes to touch with: list them in its field "
                "`contact`, body by body"
            )
        if self.max_contacts is None:
            object.__setattr__(self, "max_contacts", usual_contacts(self.model))
        if self.max_contacts < 1 or self.sweeps < 1:  # type: ignore[operator]
            raise ValueError(
                "rigid contact needs room for a contact and a sweep at least, not max_contacts = "
                f"{self.max_contacts}, sweeps = {self.sweeps}"
            )
        check_freedoms(self.model, self._trees.freedoms)
        object.__setattr__(self, "apart", tuple((a, b) for a, b in self.apart))
        check_apart(self.model, self.apart)

    def _set_coefficients(self) -> None:
        """Each as an array (nb + 1,), mu_static where any differs from mu."""
        for name in COEFFICIENTS:
            if (value := getattr(self, name)) is not None:
                size = self.model.nb + 1
                array = finite(np.broadcast_to(np.asarray(value, float), (size,)), (size,), name)
                object.__setattr__(self, name, array)
                if np.any(array < 0.0):
                    raise ValueError(f"{name} must not be negative, as {array.tolist()}")
                if name == "mu_static" and np.any(array < self.mu):
                    raise ValueError(
                        f"what sticks holds at least what slides: mu_static = {array.tolist()} is "
                        f"below mu = {self.mu.tolist()}"
                    )

    @cached_property
    def _trees(self) -> TreeTables:
        assert self.freedoms is not None
        return TreeTables(self.model, self.freedoms)

    @cached_property
    def _apart(self) -> tuple[tuple[int, int], ...]:
        """The pairs of bodies that do not touch, by numbers."""
        names = (*self.model.body_names, "ground")
        named = ((names.index(a), names.index(b)) for a, b in self.apart)
        return (*neighbours(self.model), *named)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """tau (nv,) where there are joints, and f_ext (nb, 6)."""
        wrenches = wrench_port(self.model)
        return (force_port(self.model.joint), wrenches) if self._trees.links else (wrenches,)

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """gravity (3,), and of the bodies, what is at rest, and materials mu and e, and mu_static,
        torsional and rolling where they are not those of plain friction.
        """
        of = "of each body, of what is at rest, of materials"
        texts = {
            "mu": ("1", f"friction {of}"),
            "e": ("1", "restitution of the same"),
            "mu_static": ("1", "friction of the same where they stick"),
            "torsional": ("m", "moment about the normal by the normal force, of the same"),
            "rolling": ("m", "moment about the tangents by the normal force, of the same"),
        }
        return (
            gravity_port(self.model),
            *(
                Port(name, value.shape, unit, text, value, min=0, max=1 if name == "e" else np.inf)
                for name, (unit, text) in texts.items()
                if (value := self._coefficients.get(name)) is not None
            ),
        )

    @cached_property
    def _materials(self) -> MaterialTables:
        return MaterialTables(self.model, self.ground, self.pairs)

    @cached_property
    def _coefficients(self) -> dict[str, Array]:
        """The start values of the parameters by name, those alone that differ from plain
        friction.
        """
        given = {name: getattr(self, name) for name in COEFFICIENTS}
        given["mu_static"] = self.mu if self.mu_static is None else self.mu_static
        all_of = {name: self._materials.joined(name, value) for name, value in given.items()}
        if np.array_equal(all_of["mu_static"], all_of["mu"]):
            del all_of["mu_static"]
        return {name: v for name, v in all_of.items() if name in ("mu", "e") or v.any()}

    @property
    def _turns_resist(self) -> bool:
        """Whether there is torsional or rolling friction."""
        return bool({"torsional", "rolling"} & self._coefficients.keys())

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """q, qd, the other outputs, and what the next step starts from."""
        return (*self._outcome, *self._kept, *self._felt)

    @cached_property
    def _outcome(self) -> tuple[Port, ...]:
        """What a step makes: motion, the contacts, and how they were solved."""
        q, qd = motion_states(self.model.joint, self.q0, self.qd0)
        f, nb = wrench_port(self.model), self.model.nb
        return (
            replace(q, rate=None),
            qd,
            replace(f, name="f_contact", doc="wrench of all contacts, base coordinates"),
            Port("in_contact", (nb,), "1", "1 where contacts push a body", 0.0, min=0, max=1),
            Port("centre_of_pressure", (nb, 3), "m", "of the contacts of each body", 0.0),
            Port("contacts", (), "1", "number of contacts", 0.0, min=0),
            Port("left_out", (), "1", "pairs or points without room", 0.0, min=0),
            Port("residual", (), "m/s", "change of velocities in the last sweep", 0.0, min=0),
            Port("sweeps_made", (), "1", "number of sweeps", 0.0, min=0),
            Port("depth", (), "m", "of the deepest contact", 0.0, min=0),
        )

    @cached_property
    def _kept(self) -> tuple[Port, ...]:
        """What the next step starts from: the impulses of the last one."""
        n = self.max_contacts
        assert n is not None
        impulse = ("N.s",) * 3 + ("N.m.s",) * (3 if self._turns_resist else 0)
        stops = tuple("N.m.s" if self._turns(d) else "N.s" for d, *_ in self._trees.stops)
        text_of_loops = "by how much the loop that is most open is so, rad or m"
        text = "impulse of each stop and of each dry friction in the last step"
        return (
            Port("steps", (), "1", "steps made", 0.0, min=0),
            Port("key", (n,), "1", "which contact the impulse is of", 0.0),
            Port("impulse", (n, len(impulse)), impulse * n, "of each contact's last step", 0.0),
            *([Port("sticks", (n,), "1", "whether it stuck", 0.0)] if self._sticks else []),
            *([Port("loop_error", (), "1", text_of_loops, 0.0)] if self.model.loops else []),
            *([Port("stop_impulse", (len(stops),), stops, text, 0.0)] if stops else []),
        )

    @cached_property
    def _felt(self) -> tuple[Port, ...]:
        """What the sensors measure."""
        return tuple(port for sensor in self.sensors for port in sensor_ports(sensor))

    @property
    def _sticks(self) -> bool:
        """Whether anything sticks with more than it slides."""
        return "mu_static" in self._coefficients

    def _turns(self, d: int) -> bool:
        """Whether a freedom of the trees is an angle."""
        units = [unit for joint in self.model.joint for unit in joint.qd_units]
        return units[self._trees.dofs[d][1]] == "rad/s"

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """q, qd, f_contact, in_contact, centre_of_pressure, contacts, left_out, residual,
        sweeps_made and depth, and those of the sensors.
        """
        return (*self._outcome, *self._felt)

    @property
    def function(self) -> str:
        return "contact_step"

    @property
    def start_function(self) -> str | None:
        return "contact_start" if any(sensor.distance for sensor in self.sensors) else None

    @property
    def arguments(self) -> tuple[str, ...]:
        return tuple(port.name for port in (*self.inputs, *self.parameters))

    @property
    def headers(self) -> tuple[str, ...]:
        names = (
            *("nearest", "scene", "two", "trees", "near", "islands", "reach"),
            *("loops", "mobility", "groups", "solver", "start", "direct", "conjugate"),
            *("free", "together", "impulses"),
            *("rolling", "touch", "felt", "sense", "passive"),
            *("motion", "anew", "strike", "plant"),
        )
        return tuple(f"contact/{name}.h" for name in (*SHAPES_IN_C, *names))

    @property
    def tables(self) -> str:
        names = ", ".join(f"const double *{name}" for name in self.arguments)
        given = ", ".join(f".{name} = {name}" for name in self.arguments)
        arguments = (
            f"#define RB_ARGUMENTS {names}",
            "#define RB_GATHER",
            f"#define RB_GIVEN {given}",
            self.scene,
        )
        return "\n".join(arguments)

    @cached_property
    def scene(self) -> str:
        """The tables without the names of the arguments."""
        shapes, n, at, k = shape_count(self.model, self.ground), self.max_contacts, [], 0
        assert n is not None
        for port in self.sampled:
            at.append(f"RB_AT_{port.name.upper()} = {k}")
            k += port.size
        names = {port.name for port in self.sampled}
        at += [
            f"RB_AT_{name.upper()} = {k}"
            for name in ("sticks", "stop_impulse", "loop_error")
            if name not in names
        ]
        counts = (
            f"RB_BODIES = {self.model.nb}, RB_SHAPES = {shapes}, RB_CONTACTS = {n}, "
            f"RB_PAIRS = {4 * n + shapes}, RB_SCENE_SWEEPS = {self.sweeps}, "
            f"RB_PARTS = {6 if self._turns_resist else 3}, "
            f"RB_POISSON = {LAWS.index(self.law)}"
        )
        return "\n".join(
            [
                "#define RB_TABLES_H",
                f"enum {{ {counts} }};",
                f"enum {{ {', '.join(at)} }};",
                f"static const double RB_SCENE_STEP = {self.sample_time!r};",
                f"static const double RB_SCENE_TOLERANCE = {TOLERANCE!r};",
                LoopTables(self.model).text(),
                self._trees.text(self._apart),
                scene_tables(self.model, self.ground),
                self._materials.text(),
                SensorTables(self.model, self.ground, self.sensors).text(
                    sensor_places(self.sampled, self.sensors)
                ),
                "",
            ]
        )
