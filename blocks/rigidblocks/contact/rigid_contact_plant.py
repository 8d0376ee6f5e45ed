"""Plants with rigid contact: robots and free bodies on a ground, and a bouncing ball."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.block.block import MOST_IN_C, Block, Port, Record, Values, check_count, finite
from rigidblocks.block.external_functions import WrittenBlock
from rigidblocks.contact.contact_checks import (
    check_exclusions,
    check_free_inertias,
    check_ground,
    check_joint_properties,
    check_joints,
    consistent_start_velocity,
    default_max_contacts,
    excluded_pairs,
)
from rigidblocks.contact.contact_sensors import (
    SHAPES_IN_C,
    ContactSensor,
    SensorTables,
    check_sensors,
    sensor_offsets,
    sensor_ports,
)
from rigidblocks.contact.joint_tables import LoopTables, TreeTables
from rigidblocks.contact.shape_tables import (
    COEFFICIENTS,
    MaterialPair,
    MaterialTables,
    check_material_pairs,
    number_text,
    scene_tables,
    shape_count,
    workspace_text,
)
from rigidblocks.library.common_ports import (
    force_port,
    gravity_port,
    motion_states,
    start_configuration,
    wrench_port,
)
from rigidblocks.robot.model import Model
from rigidblocks.robot.robot_description import JointProperties
from rigidblocks.robot.shapes import Plane, Shape, Surface
from rigidblocks.spatial.scalar import less, maximum, piecewise, select
from rigidblocks.spatial.spatial import Array

LAWS = "newton", "poisson"  # restitution laws
# convergence tolerance of contact velocities, relative to the fastest body; found by trial
TOLERANCE = 1e-5


@dataclass(frozen=True, eq=False)
class RigidContactPlant(WrittenBlock):
    """Robots and free bodies with rigid contact and Coulomb friction.

        H (qd' - qd) = h (tau - C) + J^T p,
        0 <= p_n  perpendicular to  u_n' >= max(-gap / h, -e u_n),
        |p_t| <= mu p_n, against the sliding velocity u_t'

    H is the joint-space inertia matrix, C the bias force, and h the step. p contains the contact
    impulses and u the relative velocities at the contacts, with normal (n) and tangential (t)
    components. J is the Jacobian of u, and a prime marks the end of the step.

    Bodies and shapes. The joints of `model` form kinematic trees of revolute, prismatic, helical,
    spherical, planar, fixed and six-degree-of-freedom joints. A free body has a
    six-degree-of-freedom joint to the base, at the base origin. The field `contact` of the model
    lists the contact shapes: spheres, capsules, boxes, cylinders, ellipsoids, convex hulls and
    point sets. `ground` lists fixed shapes and planes in base coordinates. Adjacent bodies have no
    contact. The pairs in `collision_exclusions`, in which "ground" means all fixed shapes, have no
    contact either. `joint_properties` defines stops, dry friction, dampers, springs and rotor
    inertias of the joints. The solver treats stops and dry friction as impulses, like contacts.

    Method. A step has the length `sample_time` [s]. The broad phase finds the pairs that may touch,
    by sweep and prune along one axis. The narrow phase finds up to four contact points of each
    pair, and the gap at each point. Projected Gauss-Seidel sweeps with the friction cone then solve
    for the impulses p, with a warm start from the previous step. The sweeps end when no contact
    velocity changes by more than 1e-5 of the speed of the fastest body. From the 33rd sweep, the
    limit is `moving_tolerance` times the speeds before the step. A larger value saves time for
    moving bodies and does not affect bodies at rest. `max_sweeps` is the maximum number of sweeps.
    The C code loops over tables, so the compile time does not depend on the number of pairs.

    Materials. `mu` and `e` are the coefficients of friction and restitution. `mu_static` is the
    coefficient of static friction, by default `mu`. `torsional` [m] and `rolling` [m] are the
    coefficients of torsional and rolling friction. Each coefficient is a scalar or an array
    (nb + 1,). An array has one value for each body; the last value is for the ground. A shape with
    a `Material` has the coefficients of that material. A contact uses the geometric means of mu,
    mu_static and e of the two shapes. It uses the larger `torsional` and the larger `rolling` of
    the two shapes. `material_pairs` overrides this rule for a pair of material names:
    (name, name, Material). At each contact point, the friction moment is at most `torsional` p_n
    about the normal and `rolling` p_n about the tangents. The moments oppose the relative angular
    velocity. The parameters of the block contain the values of the bodies and the ground, then of
    the materials, then of the material pairs.

    Restitution acts in the step in which the gap would close. An impact propagates through a chain
    of touching bodies in the same step. If `restitution` is "newton", contacts separate at e times
    their approach velocity. If it is "poisson", the restitution impulse is e times the compression
    impulse, as in `rigidblocks.contact.event_driven.impact`.

    Motion. q (nq,) and qd (nv,) are the coordinates and velocities of the model. qd is the velocity
    at the middle of the previous step (leapfrog). Therefore free flight conserves energy and
    momentum, and an elastic bounce conserves energy. The inputs are the joint forces tau (nv,), if
    a body is not free, and the wrenches f_ext (nb, 6) on the bodies in base coordinates.

    Outputs. f_contact (nb, 6) contains the contact wrenches on the bodies over the step. in_contact
    (nb,) is 1 if a contact force acts on the body, else 0. centre_of_pressure (nb, 3) [m] is the
    mean of the contact points of a body, weighted by the normal forces. `contacts` is the number of
    contacts. `left_out` is the number of pairs or points that exceed `max_contacts`. `residual`
    [m/s] is the largest velocity change in the last sweep. Without convergence, the largest error
    of a contact velocity can exceed `residual`. `sweeps_made` is the number of sweeps. `depth` [m]
    is the largest penetration depth. A position correction removes overlaps, such as initial
    overlaps, over several steps without a change of the velocities.

    Sensors. Each of the `sensors` measures the contacts between two sides, `one` and `other`. A
    side is a group of bodies, materials or fixed shapes. A sensor `toe` has the output toe_wrench
    (6,), the wrench of side `other` on side `one` over the step. Other outputs are toe_normal_force
    [N], toe_in_contact, toe_slip (3,) [m/s] along the surface and toe_centre_of_pressure (3,) [m].
    toe_slip and toe_centre_of_pressure are means weighted by the normal forces; they are zero if
    the sides do not touch. If `distance` is True, the sensor also has the outputs toe_distance [m]
    at q, and the nearest points toe_on_one and toe_on_other (3,) [m] of the sides.

    Closed loops. The solver supports revolute, prismatic, cylindrical, spherical, planar and fixed
    loop joints. The solver eliminates the loop constraints from the inverse inertia matrix and
    drops dependent constraints. Contacts, stops and dry friction therefore act on the closed loops.
    Every step ends with a correction that closes the loops. `loop_error` is the loop error before
    this correction.

    Raises:
        ValueError: The plant does not support a joint, the initial configuration leaves loops open,
            the model has no shapes, or the rotational inertia of a free body is singular.
        TypeError: The plant does not support a shape.
    """

    model: Model
    ground: tuple[Shape | Surface, ...] = (Plane(),)
    mu: Any = 0.5
    e: Any = 0.0
    sample_time: float = 1e-3
    q0: Any = None
    qd0: Any = None
    max_contacts: int | None = None
    max_sweeps: int = 320
    joint_properties: JointProperties | None = None
    collision_exclusions: tuple[tuple[str, str], ...] = ()
    mu_static: Any = None
    torsional: Any = 0.0
    rolling: Any = 0.0
    material_pairs: tuple[MaterialPair, ...] = ()
    sensors: tuple[ContactSensor, ...] = ()
    restitution: str = "newton"
    moving_tolerance: float = 1e-4

    def __post_init__(self) -> None:
        check_joints(self.model)
        if self.restitution not in LAWS:
            raise ValueError(
                f"unknown restitution law '{self.restitution}'; expected {', '.join(LAWS)}"
            )
        if self.joint_properties is None:
            object.__setattr__(self, "joint_properties", JointProperties.from_values(self.model.nv))
        object.__setattr__(self, "ground", check_ground(self.ground))
        object.__setattr__(self, "sensors", check_sensors(self.model, self.ground, self.sensors))
        object.__setattr__(self, "q0", start_configuration(self.model, self.q0))
        qd0 = np.zeros(self.model.nv) if self.qd0 is None else self.qd0
        qd0 = finite(qd0, (self.model.nv,), "the start value of 'qd'")
        object.__setattr__(self, "qd0", consistent_start_velocity(self.model, self.q0, qd0))
        object.__setattr__(self, "material_pairs", check_material_pairs(self.material_pairs))
        self._set_coefficients()
        _ = self._coefficients
        if not shape_count(self.model, ()):
            raise ValueError(
                f"model '{self.model.name}' has no contact shapes; list the shapes of each body in "
                "its field `contact`"
            )
        if self.max_contacts is None:
            object.__setattr__(self, "max_contacts", default_max_contacts(self.model))
        check_count("max_contacts", self.max_contacts, MOST_IN_C // 8)  # 8 C indices per contact
        check_count("max_sweeps", self.max_sweeps, MOST_IN_C)
        if not 0.0 < self.moving_tolerance < 1.0:
            raise ValueError(
                f"moving_tolerance must be above 0 and below 1, but is {self.moving_tolerance!r}"
            )
        check_joint_properties(self.model, self._trees.joint_properties)
        check_free_inertias(self.model)
        exclusions = check_exclusions(self.model, self.collision_exclusions)
        object.__setattr__(self, "collision_exclusions", exclusions)

    def _set_coefficients(self) -> None:
        """Convert each material coefficient to an array (nb + 1,) of the bodies and the ground.

        A coefficient that is None stays None.

        Raises:
            ValueError: A coefficient is negative or not finite, or mu_static is below mu.
        """
        for name in COEFFICIENTS:
            if (value := getattr(self, name)) is not None:
                size = self.model.nb + 1
                array = finite(np.broadcast_to(np.asarray(value, float), (size,)), (size,), name)
                object.__setattr__(self, name, array)
                if np.any(array < 0.0):
                    raise ValueError(f"{name} must not be negative, but is {array.tolist()}")
                if name == "mu_static" and np.any(array < self.mu):
                    raise ValueError(
                        f"mu_static must be at least mu: mu_static = {array.tolist()}, "
                        f"mu = {self.mu.tolist()}"
                    )

    @cached_property
    def _trees(self) -> TreeTables:
        assert self.joint_properties is not None
        return TreeTables(self.model, self.joint_properties)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Inputs: joint forces tau (nv,) if a body is not free, and body wrenches f_ext (nb, 6)."""
        wrenches = wrench_port(self.model)
        return (force_port(self.model.joint), wrenches) if self._trees.links else (wrenches,)

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Parameters: gravity (3,), and mu and e of the bodies, the ground and the materials.

        mu_static, torsional and rolling are parameters only if they differ from their defaults.
        """
        of = "of each body, of the ground, of materials"
        texts = {
            "mu": ("1", f"friction coefficient {of}"),
            "e": ("1", f"restitution coefficient {of}"),
            "mu_static": ("1", f"static friction coefficient {of}"),
            "torsional": ("m", f"largest moment about the normal per normal force, {of}"),
            "rolling": ("m", f"largest moment about the tangents per normal force, {of}"),
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
        return MaterialTables(self.model, self.ground, self.material_pairs)

    @cached_property
    def _coefficients(self) -> dict[str, Array]:
        """Material coefficients by name, each in the order of the material table.

        mu and e are always included, mu_static only if it differs from mu, and torsional and
        rolling only if a value is nonzero.
        """
        given = {name: getattr(self, name) for name in COEFFICIENTS}
        given["mu_static"] = self.mu if self.mu_static is None else self.mu_static
        all_of = {
            name: self._materials.coefficient_values(name, value) for name, value in given.items()
        }
        if np.array_equal(all_of["mu_static"], all_of["mu"]):
            del all_of["mu_static"]
        return {name: v for name, v in all_of.items() if name in ("mu", "e") or v.any()}

    @property
    def _has_moment_friction(self) -> bool:
        """True if a contact can have a friction moment (torsional or rolling friction)."""
        return bool({"torsional", "rolling"} & self._coefficients.keys())

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """Sampled states: all outputs, and the impulses for the warm start of the next step."""
        return (*self._result_ports, *self._solver_state_ports, *self._sensor_ports)

    @cached_property
    def _result_ports(self) -> tuple[Port, ...]:
        """Output ports of the motion, of the contacts and of the solver statistics."""
        q, qd = motion_states(self.model.joint, self.q0, self.qd0)
        f, nb = wrench_port(self.model), self.model.nb
        return (
            replace(q, rate=None),
            qd,
            replace(f, name="f_contact", doc="wrench of all contacts, base coordinates"),
            Port("in_contact", (nb,), "1", "1 if contacts push the body", 0.0, min=0, max=1),
            Port(
                "centre_of_pressure",
                (nb, 3),
                "m",
                "mean contact point of each body, weighted by normal force",
                0.0,
            ),
            Port("contacts", (), "1", "number of contacts", 0.0, min=0),
            Port("left_out", (), "1", "dropped pairs and contact points", 0.0, min=0),
            Port("residual", (), "m/s", "largest velocity change in the last sweep", 0.0, min=0),
            Port("sweeps_made", (), "1", "number of Gauss-Seidel sweeps", 0.0, min=0),
            Port("depth", (), "m", "largest penetration depth", 0.0, min=0),
        )

    @cached_property
    def _solver_state_ports(self) -> tuple[Port, ...]:
        """State ports for the warm start of the next step, and the loop error.

        The ports are the step number, the keys and impulses of the contacts, and the impulses of
        stops and dry friction.
        """
        n = self.max_contacts
        assert n is not None
        impulse = ("N.s",) * 3 + ("N.m.s",) * (3 if self._has_moment_friction else 0)
        stops = tuple("N.m.s" if self._is_angle(d) else "N.s" for d, *_ in self._trees.stops)
        text_of_loops = "largest loop closure error, rad or m"
        text = "impulse of each stop and each dry friction in the last step"
        return (
            Port("steps", (), "1", "number of steps", 0.0, min=0),
            Port("key", (n,), "1", "key of the contact of each impulse", 0.0),
            Port(
                "impulse",
                (n, len(impulse)),
                impulse * n,
                "impulse of each contact in the last step",
                0.0,
            ),
            *(
                [Port("sticks", (n,), "1", "1 if the contact stuck", 0.0)]
                if self._has_static_friction
                else []
            ),
            *([Port("loop_error", (), "1", text_of_loops, 0.0)] if self.model.loops else []),
            *([Port("stop_impulse", (len(stops),), stops, text, 0.0)] if stops else []),
        )

    @cached_property
    def _sensor_ports(self) -> tuple[Port, ...]:
        """Outputs of the contact sensors."""
        return tuple(port for sensor in self.sensors for port in sensor_ports(sensor))

    @property
    def _has_static_friction(self) -> bool:
        """True if mu_static differs from mu for a body, a material or a material pair."""
        return "mu_static" in self._coefficients

    def _is_angle(self, d: int) -> bool:
        """Return True if degree of freedom d of the kinematic trees is a rotation."""
        units = [unit for joint in self.model.joint for unit in joint.qd_units]
        return units[self._trees.dofs[d][1]] == "rad/s"

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Outputs: q, qd, the contact quantities, the solver statistics and the sensor outputs.

        The contact quantities are f_contact, in_contact, centre_of_pressure, contacts, left_out and
        depth. The solver statistics are residual and sweeps_made.
        """
        return (*self._result_ports, *self._sensor_ports)

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
            *("broad_phase", "articulated_trees", "delassus", "contact_solver"),
            *("free_body_solver", "islands", "contact_detection"),
            *("sensors", "restitution", "time_step"),
        )
        return tuple(f"contact/{name}.h" for name in (*SHAPES_IN_C, *names))

    @property
    def tables(self) -> str:
        return self.tables_with_arguments(self.arguments)

    def tables_with_arguments(
        self, arguments: Iterable[str], statements: Iterable[str] = ()
    ) -> str:
        """Return the C tables of the plant, and the signature of its C step function.

        Args:
            arguments: Names of the arguments of the step function, which are pointers to double.
            statements: C statements that compute the inputs of this plant from `arguments`.
        """
        names = ", ".join(f"const double *{name}" for name in arguments)
        given = ", ".join(f".{name} = {name}" for name in self.arguments)
        lines = (
            f"#define RB_ARGUMENTS {names}",
            " ".join(("#define RB_GATHER", *statements)),
            f"#define RB_GIVEN {given}",
            self.scene,
        )
        return "\n".join(lines)

    @cached_property
    def _workspace(self) -> int:
        """Upper bound of the memory [bytes] that a step uses, with coefficients found by trial."""
        assert self.max_contacts is not None
        nb, dofs, rows = self.model.nb, len(self._trees.dofs), len(LoopTables(self.model).rows)
        depth = max(self._trees.depth, default=0) + 1
        held = max((n for _, n in self._trees.spans), default=1) if self.model.loops else 1
        parts = 6 if self._has_moment_friction else 3
        of_contact = 2000 + 16 * (parts + 1) * (depth + held)
        blocks = min(nb * (nb + 1) // 2, 2048) if self.max_contacts <= 2048 else 1
        return (
            of_contact * (self.max_contacts + len(self._trees.stops))
            + 1000 * shape_count(self.model, self.ground)
            + 1500 * nb
            + 500 * dofs
            + 16 * sum(d + 1 for d in self._trees.depth)
            + 24 * rows * (dofs + rows)
            + 300 * blocks
        )

    @cached_property
    def scene(self) -> str:
        """C tables of bodies, shapes, joints and materials, for the functions in `c/contact`."""
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
            f"RB_PAIRS = {4 * n + shapes}, RB_SCENE_SWEEPS = {self.max_sweeps}, "
            f"RB_CONTACT_ROWS = {6 if self._has_moment_friction else 3}, "
            f"RB_POISSON = {LAWS.index(self.restitution)}"
        )
        return "\n".join(
            [
                "#define RB_TABLES_H",
                workspace_text(self._workspace),
                f"enum {{ {counts} }};",
                f"enum {{ {', '.join(at)} }};",
                f"static const double RB_SCENE_STEP = {number_text(self.sample_time)};",
                f"static const double RB_SCENE_TOLERANCE = {number_text(TOLERANCE)};",
                f"static const double RB_MOVING_TOLERANCE = {number_text(self.moving_tolerance)};",
                LoopTables(self.model).text(),
                self._trees.text(excluded_pairs(self.model, self.collision_exclusions)),
                scene_tables(self.model, self.ground),
                self._materials.text(),
                SensorTables(self.model, self.ground, self.sensors).text(
                    sensor_offsets(self.sampled, self.sensors)
                ),
                "",
            ]
        )


@dataclass(frozen=True)
class BouncingBall(Block):
    """Ball that bounces on a floor, with Newton's law of restitution (RBDA 11.7).

        dz/dt = v,  dv/dt = -g         above the floor, z = 0
        v+ = -e v-                     at an impact, with the impulse m (1 + e) |v-|

    z is the height, v the upward velocity, and g gravity. v- and v+ are the velocities before and
    after an impact. The mass m does not affect the motion.

    `e` is the coefficient of restitution, from 0 to 1. The ball stays on the floor if its rebound
    velocity would be below `v_rest` [m/s]. Without this limit, a ball with e < 1 would have
    infinitely many impacts within a finite time proportional to v+ / g (Zeno behaviour). The states
    jump in `Block.project`. A model exchange importer locates the jump as an event, and adaptive
    steps end at the jump. If the step size is fixed, the jump occurs at the end of the step.
    """

    z0: float = 1.0
    v0: float = 0.0
    e: float = 0.7
    g: float = 9.81
    v_rest: float = 1e-3

    outputs = (
        Port("z", (), "m", "height above the floor"),
        Port("v", (), "m/s", "upward velocity"),
        Port("a", (), "m/s2", "upward acceleration"),
    )

    @property
    def states(self) -> tuple[Port, ...]:
        """States: height z [m] and velocity v [m/s]."""
        return (
            Port("z", (), "m", "height above the floor", self.z0, rate="v"),
            Port("v", (), "m/s", "upward velocity", self.v0),
        )

    @property
    def parameters(self) -> tuple[Port, ...]:
        """Parameters: restitution e, gravity g [m/s^2], smallest rebound velocity v_rest [m/s]."""
        return (
            Port("e", (), "1", "coefficient of restitution", self.e, min=0.0, max=1.0),
            Port("g", (), "m/s2", "gravity, downwards", self.g),
            Port(
                "v_rest",
                (),
                "m/s",
                "rebound speed below which the ball rests",
                self.v_rest,
                positive=True,
            ),
        )

    def derivative(self, x: Record, p: Record) -> Values:
        return {"z": x.v, "v": self._acceleration(x, p)}

    def project(self, x: Record, p: Record) -> Values:
        after = maximum(0.0, -p.e * x.v)
        after = select(less(after, p.v_rest), 0.0, after)
        arrives = self._free_margin(x) <= 0.0
        return {"z": select(arrives, 0.0, x.z), "v": select(arrives, after, x.v)}

    def switching_functions(self, x: Record) -> Any:
        return (self._free_margin(x),)

    def output(self, x: Record, p: Record) -> Values:
        return {"a": self._acceleration(x, p)}

    def _free_margin(self, x: Record) -> Any:
        """Return max(z, v), positive if the ball is above the floor or moves upwards."""
        return maximum(x.z, x.v)

    def _acceleration(self, x: Record, p: Record) -> Any:
        return piecewise(self._free_margin(x), -p.g, maximum(-p.g, 0.0))
