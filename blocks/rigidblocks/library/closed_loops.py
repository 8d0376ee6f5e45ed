"""Plants of robots with kinematic loops, and blocks that close cut loops.

`ClosedLoopPlant` solves the loop constraints inside the step. In a `CutLoopPlant`, the loops are
cut, and a `LoopClosure` block closes them by constraint forces. A `CompliantLoopClosure` block
closes the loops by springs and dampers; the plant is then a `RobotPlant` of the spanning tree.
"""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np

from rigidblocks.block.block import Block, Port, Record, Values, finite
from rigidblocks.dynamics import (
    bias_force,
    body_poses,
    body_velocities,
    crba,
    energy,
    equivalent,
    expanded_parent,
    kinetic_energy,
    ltl,
    mpy_li,
    mpy_lit,
    potential_energy,
    rnea,
)
from rigidblocks.dynamics.force_elements import ElementEffects
from rigidblocks.dynamics.force_laws import stable_spring_hold
from rigidblocks.dynamics.joint_kinematics import velocity_columns
from rigidblocks.dynamics.loops import (
    DependentMotion,
    LoopMotion,
    active_forces,
    check_independent,
    closed_loop_dynamics,
    dependent_motion,
    drift,
    loop_constraints,
    near_singular_intervals,
    position_constraints,
    project,
    project_energy,
    solver,
)
from rigidblocks.dynamics.loops.constraint_solvers import TOLERANCE
from rigidblocks.dynamics.model_reduction import align_joint_axes, align_loop_joints
from rigidblocks.dynamics.operational_space import inverse_inertia
from rigidblocks.library.common_ports import (
    acceleration_port,
    closure_force_port,
    constraint_units,
    energy_port,
    force_port,
    gravity_port,
    joint_ports,
    motion_states,
    set_nominal_values,
    start_configuration,
    wrench_port,
)
from rigidblocks.library.plant_ports import Element, TunableInertia, add_loads
from rigidblocks.library.plants import JointPlant
from rigidblocks.robot.configuration import rate, unit_quaternions
from rigidblocks.robot.joints import LoopJoint
from rigidblocks.robot.model import Model
from rigidblocks.robot.tree import Tree, check_model, check_moved_inertia
from rigidblocks.spatial.scalar import less, maximum, minimum, select
from rigidblocks.spatial.spatial import Array, multiply_transforms

STABILIZATIONS = ("projection", "baumgarte", "independent", "none")


@dataclass(frozen=True, eq=False)
class ClosedLoopPlant(JointPlant):
    """Plant with the forward dynamics of a robot with kinematic loops.

        H(q) qdd + C(q, qd, f_ext) = tau + K^T lam        K qdd = k        (RBDA Eq 8.6)

    H is the joint-space inertia matrix, C is the bias force, K is the constraint matrix, k is the
    right-hand side of the constraints, and lam are the constraint forces. The loop joints of the
    model define the loops. `closed_loop_dynamics` detects and omits dependent constraints,
    including constraints that are dependent only in singular configurations. The log of the run
    reports approaches to singular configurations.

    `stabilization` selects the method that keeps the loops closed:

    - "projection", the default, projects the states onto the constraints after every inner step
      (Spencer 2004, 3.1.3). The remaining loop error is negligible.
    - "baumgarte" reduces loop errors with the time constant `T_stab` [s] (RBDA 8.3).
    - "independent" integrates only the joints in `independent`. The plant computes the motion of
      the other joints at every stage, so loops cannot open (Spencer 2004, 2.4). The positions of
      the joints in `independent` must be valid independent coordinates. The output
      `coordinate_condition` increases near configurations in which the coordinates are invalid.
    - "none" does not limit the loop error.

    `keep_energy` scales the velocities after every inner step. The energy then equals the state
    `energy_due`: the initial energy plus the work of tau, loop_tau and f_ext (Spencer 2004, 3.1.3).
    This option requires a time-independent model and does not support `elements`.

    `q0` and `qd0` are the initial configuration and velocity. `q0` must close the loops; `assemble`
    finds such a configuration. If `qd0` violates the loop constraints, the plant projects `qd0`
    onto the constraints and issues a warning. If `strict` is True, the plant raises ValueError
    instead.

    `external_wrenches` adds the input `f_ext` (nb, 6), as in `RobotPlant`. `loop_forces` adds the
    input `loop_tau`, the spring or motor forces along the degrees of freedom of the loop joints
    (RBDA 8.4). `elements` apply forces to the joints of the spanning tree and between bodies.
    `elements`, `inertias` and `nominal` are as in `RobotPlant`. The parameter `gravity` defaults to
    the gravity of the model. `method` is one of `loops.SOLVERS`. Use a method other than the
    default only for comparison.

    A constraint counts as dependent if its remainder after orthogonalization against the other
    constraints is below `tolerance` times the largest constraint. Model values with six digits have
    relative errors of 1e-6. Such errors make dependent constraints independent and lock a movable
    mechanism. For such models, increase the tolerance.

    Raises:
        ValueError: The model has no loops, or the initial configuration does not close a loop.
    """

    model: Tree
    q0: Any = None
    qd0: Any = 0.0
    stabilization: str = "projection"
    T_stab: float | None = None
    external_wrenches: bool = False
    loop_forces: bool = False
    strict: bool = False
    method: str = "elimination"
    elements: tuple[Element, ...] = ()
    inertias: TunableInertia | None = None
    independent: tuple[str | int, ...] | None = None
    keep_energy: bool = False
    tolerance: float = TOLERANCE
    nominal: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_model(self.model)
        if not self.model.has_constraints:
            raise ValueError(
                f"model '{self.model.name}' has no loop joints; use RobotPlant for a tree"
            )
        self._check_elements()
        check_moved_inertia(self.model, rotor_inertia=self._elements.rotor_inertia)
        if self.stabilization not in STABILIZATIONS:
            raise ValueError(
                f"stabilization must be one of {', '.join(STABILIZATIONS)}, not "
                f"{self.stabilization!r}"
            )
        if (self.T_stab is not None) != (self.stabilization == "baumgarte"):
            raise ValueError(
                "T_stab must be given if and only if stabilization='baumgarte'; T_stab is "
                f"{self.T_stab} and stabilization is {self.stabilization!r}"
            )
        solver(self.method)  # raises an error if the method is unknown
        self._check_options()
        q0 = start_configuration(self.model, self.q0)
        _check_closed(self.model.evaluate_at(0.0), q0)
        self._elements.start(q0, 0.0, True)
        if self._independent:
            check_independent(self.model.evaluate_at(0.0), q0, self._independent)
        object.__setattr__(self, "q0", q0)
        qd0 = finite(self.qd0, (self.model.nv,), "the start value of port 'qd'")
        object.__setattr__(self, "qd0", self._closing_velocity(q0, qd0))

    def _check_options(self) -> None:
        if (self.independent is not None) != (self.stabilization == "independent"):
            raise ValueError(
                "`independent` must be given if and only if stabilization='independent'; "
                f"`independent` is {self.independent} and stabilization is {self.stabilization!r}"
            )
        if self.independent is not None and self._elements.has_gears:
            raise ValueError("`independent` does not support a model with gears")
        if self.keep_energy and (self.elements or self.model.rheonomic):
            raise ValueError(
                f"keep_energy does not support model '{self.model.name}': its elements or its "
                "time-dependent joints exchange energy"
            )

    @cached_property
    def _independent(self) -> list[int]:
        """Indices in qd of the velocity variables of the joints in `independent`."""
        return velocity_columns(self.model, self.independent or (), "independent")

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """State ports for the joint motion q (nq,) and qd (nv,), and for the element states.

        If `keep_energy` is True, the plant also has the states `energy_due` [J] and `energy_known`,
        which is 1 if the initial energy is known, and otherwise 0.
        """
        joints = set_nominal_values(
            motion_states(self.model.joint, self.q0, self.qd0), self.nominal
        )
        motion = (*joints, *self._elements.states(self.q0, self.qd0))
        if not self.keep_energy:
            return motion
        return (
            *motion,
            Port("energy_due", (), "J", "initial energy plus work of the forces", 0.0),
            Port("energy_known", (), "1", "1 if the initial energy is known, else 0", 0.0),
        )

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Input ports tau (nv,), f_ext and loop_tau if requested, and the drive commands."""
        ports = [*set_nominal_values([force_port(self.model.joint)], self.nominal)]
        if self.external_wrenches:
            ports.append(wrench_port(self.model))
        if self.loop_forces:
            loops, text = (
                [loop.joint for loop in self.model.loops],
                "forces along the degrees of freedom of the loop joints",
            )
            ports.append(force_port(loops, "loop_tau", text))
        return (*ports, *self._elements.inputs)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output ports for the motion, energy, constraint forces, diagnostics and element forces.

        lam (nc,) contains the constraint forces. The diagnostics are the largest loop error, the
        number of independent constraints, and the condition number of the constraints.
        """
        model = self.model
        return (
            *self.states,
            acceleration_port(model.joint),
            energy_port(),
            closure_force_port(model),
            Port("loop_error", (), "1", "largest position error of the constraints, in rad or m"),
            Port("rank", (), "1", "number of independent constraints"),
            Port(
                "condition",
                (),
                "1",
                "condition number of the constraints: large near singular configurations",
            ),
            *(
                (
                    Port(
                        "coordinate_condition",
                        (),
                        "1",
                        "condition number of the coordinates: large near singular configurations",
                    ),
                )
                if self._independent
                else ()
            ),
            *self._elements.outputs,
        )

    def add_wrench_input(self) -> "ClosedLoopPlant":
        return replace(self, external_wrenches=True)

    def derivative(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        if self._independent:
            q, qd, _ = self._dependent(t, x)
            x = Record({**vars(x), "q": q, "qd": qd})
        effects = self._elements.element_effects(x.q, x.qd, x, p, u)
        motion: dict[str, Any] = {"q": rate(self.model, x.q, x.qd)}
        motion["qd"] = self._motion(t, x, u, p, effects).qdd
        if self.keep_energy:
            motion |= {"energy_due": self._power(x, u), "energy_known": 0.0}
        return motion | self._elements.rates(effects)

    def project(self, t: Any, x: Record, p: Record) -> Values:
        q, qd = self._project_to_loops(t, x, p)
        if self.keep_energy:
            model = self._models(t, p)[0]
            kinetic = kinetic_energy(model, q, qd)
            there = kinetic + potential_energy(model, q, p.gravity)
            due = select(less(x.energy_known, 0.5), there, x.energy_due)
            qd = project_energy(qd, kinetic, due - there + kinetic)
            return {"q": q, "qd": qd, "energy_due": due, "energy_known": 1.0}
        if self.stabilization in ("projection", "independent"):
            return {"q": q, "qd": qd}
        return {"q": q} if self.model.nq > self.model.nv else {}

    def _project_to_loops(self, t: Any, x: Record, p: Record) -> tuple[Array, Array]:
        """Return q (nq,) and qd (nv,) after the correction of the loop errors.

        Depending on `stabilization`, the method projects the state onto the constraints, computes
        the dependent coordinates, or only normalizes quaternions.
        """
        model, tree = self._models(t, p)
        q = unit_quaternions(model, x.q) if model.nq > model.nv else x.q
        if self._independent:
            return self._dependent(t, Record({"q": q, "qd": x.qd}))[:2]
        if self.stabilization != "projection":
            return q, x.qd
        given = self._elements.transmissions(p)
        return project(model, q, x.qd, tree, given, self.tolerance)

    def _dependent(self, t: Any, x: Record) -> DependentMotion:
        return dependent_motion(self._aligned_model.evaluate_at(t), x.q, x.qd, self._independent)

    def _power(self, x: Record, u: Record) -> Any:
        """Return the power [W] of the input forces tau, loop_tau and f_ext."""
        model, tau = self._aligned_model, u.tau
        if self.loop_forces:
            tau = tau + active_forces(model, x.q, u.loop_tau)
        if self.external_wrenches:
            still, nothing = np.zeros(model.nv), np.zeros(len(model.gravity))
            tau = tau - rnea(model, x.q, still, still, u.f_ext, nothing)
        return x.qd @ tau

    def output(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        effects = self._elements.element_effects(x.q, x.qd, x, p, u)
        qdd, lam, rank, condition = self._motion(t, x, u, p, effects)
        (model, _), error = self._models(t, p), 0.0
        for delta in position_constraints(model, x.q).delta:
            error = maximum(error, np.abs(delta))
        E = energy(model, x.q, x.qd, p.gravity)
        if self._independent:
            more = {"coordinate_condition": self._dependent(t, x).condition}
        else:
            more = {}
        return {
            "qdd": qdd,
            "energy": E + self._elements.energy(effects, x.qd, p),
            "lam": lam[: self.model.nc],
            "loop_error": error,
            "rank": rank,
            "condition": condition,
            **more,
            **self._elements.values(effects),
        }

    @property
    def conditions(self) -> tuple[tuple[str, str], ...]:
        return (("condition", "rank"),)

    def remarks(self, t: Array, y: Record) -> Iterator[str]:
        for time, condition in near_singular_intervals(t, y.rank, y.condition):
            yield (
                f"passed through or came near a singular configuration at t = {time:g} s, where "
                f"the output `condition` is {condition:.3g}"
            )

    def _motion(
        self, t: Any, x: Record, u: Record, p: Record, effects: ElementEffects | None
    ) -> LoopMotion:
        tau, f_ext = add_loads(effects, u.tau, u.f_ext if self.external_wrenches else None)
        loop_tau = u.loop_tau if self.loop_forces else None
        model, tree = self._models(t, p)
        given = self._elements.transmissions(p)
        options = (self.T_stab, loop_tau, tree, self.method, given, self.tolerance)
        return closed_loop_dynamics(model, x.q, x.qd, tau, f_ext, p.gravity, *options)

    def _closing_velocity(self, q0: Array, qd0: Array) -> Array:
        """Return initial velocities (nv,) that satisfy the loop constraints and gear constraints.

        If the start velocities qd0 satisfy the constraints at the start positions q0, the result is
        qd0. Otherwise it is the nearest consistent velocity.
        """
        model = self.model.evaluate_at(0.0)
        given = self._elements.start_transmissions
        q, qd = project(model, q0, qd0, transmissions=given, tolerance=self.tolerance)
        change = float(np.abs(qd - qd0).max())
        if change <= 1e-4 * (1.0 + float(np.abs(qd0).max())):
            return qd0
        rates = loop_constraints(model, q, qd0).K @ qd0 + drift(model, q)
        error = float(np.abs(rates).max())
        problem = f"qd0 opens the loops of model '{model.name}' at {error:.3g} (rad/s or m/s)"
        if self.strict:
            raise ValueError(
                f"{problem}; the nearest velocity that keeps them closed is {qd.tolist()}"
            )
        warnings.warn(f"{problem}; the plant changes qd0 by up to {change:.3g}", stacklevel=6)
        return qd

    def _models(self, t: Any, p: Record) -> tuple[Tree, Tree]:
        """Return the model at the time t [s], and a model with the same equation of motion.

        The second model has the fewest possible inertial parameters. If the inertias are tunable,
        it is the first model, with the inertias in p.
        """
        if self.inertias is None:
            return self._aligned_model.evaluate_at(t), self._equivalent.evaluate_at(t)
        tuned = self.inertias.model_with_parameters(self._tunable_model, p).evaluate_at(t)
        return tuned, tuned

    @cached_property
    def _tunable_model(self) -> Model:
        """Model with the axes of the loop joints along z if possible, for tunable inertias.

        The body frames, and therefore the meaning of the inertias, do not change.
        """
        return align_loop_joints(self.model)  # type: ignore[arg-type]  # or planar, refused before

    @cached_property
    def _aligned_model(self) -> Tree:
        return align_joint_axes(self.model) if isinstance(self.model, Model) else self.model

    @cached_property
    def _equivalent(self) -> Tree:
        """Tree with the same equation of motion and the fewest possible parameters."""
        return (
            equivalent(self._aligned_model)
            if isinstance(self._aligned_model, Model)
            else self._aligned_model
        )


def _check_closed(model: Tree, q0: Array) -> None:
    delta = position_constraints(model, q0).delta
    error, l = max(
        (float(np.abs(delta[rows]).max(initial=0.0)), l)
        for l, rows in enumerate(model.constraint_slices)
    )
    if error > 1e-4:
        raise ValueError(
            f"q0 leaves {model.loop_names[l]} of model '{model.name}' open by {error:.3g} (rad or "
            "m); "
            "assemble(model, q0) finds a configuration that closes the loops"
        )


@dataclass(frozen=True, eq=False)
class CutLoopPlant(Block):
    """Plant of a robot with cut loops; a `LoopClosure` computes the forces that close the loops.

        H qdd + C = tau + K^T lam,  A = K H^-1 K^T,  b = k - K H^-1 (tau - C)  (RBDA Eq 8.38, 8.39)

    H is the joint-space inertia matrix, C is the bias force, and K qdd = k are the loop
    constraints. The loops stay closed if A lam = b. `LoopClosure` solves this equation. A (nc, nc)
    and b (nc,) do not depend on the constraint forces lam (nc,), so the plant and `LoopClosure`
    form no algebraic loop. `delta` (nc,) contains the position errors of the loops, and `rate`
    (nc,) = K qd contains their time derivatives.

    The plant holds lam over a step but evaluates K at every stage of the integrator. The constraint
    forces therefore do no work in a motion that keeps the loops closed. `q0` and `qd0` are the
    initial values, as in `RobotPlant`. The parameter `gravity` defaults to the gravity of the
    model.

    Raises:
        ValueError: The model has no loops.
    """

    model: Tree
    q0: Any = None
    qd0: Any = 0.0

    def __post_init__(self) -> None:
        _check_loops(self.model)
        check_moved_inertia(self.model)
        object.__setattr__(self, "q0", start_configuration(self.model, self.q0))

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Input ports for the joint forces tau (nv,) and constraint forces lam (nc,)."""
        return (
            force_port(self.model.joint),
            closure_force_port(self.model, 0.0),
        )

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """State ports for the joint positions q (nq,) and joint velocities qd (nv,)."""
        return motion_states(self.model.joint, self.q0, self.qd0)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Ports of the outputs q, qd, qdd, energy, A, b, delta and rate."""
        return (
            *self.states,
            acceleration_port(self.model.joint),
            energy_port(),
            *_closure_ports(self.model),
        )

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Port of the parameter gravity (3,) [m/s^2]."""
        return (gravity_port(self.model),)

    def derivative(self, x: Record, u: Record, p: Record) -> Values:
        return {"q": rate(self.model, x.q, x.qd), "qd": self._motion(x, u, p)["qdd"]}

    def project(self, x: Record) -> Values:
        return {"q": unit_quaternions(self.model, x.q)} if self.model.nq > self.model.nv else {}

    def output(self, x: Record, u: Record, p: Record) -> Values:
        return {**self._motion(x, u, p), "energy": energy(self.model, x.q, x.qd, p.gravity)}

    def _motion(self, x: Record, u: Record, p: Record) -> dict[str, Any]:
        model = self.model
        K, k, delta = loop_constraints(model, x.q, x.qd)
        parent = expanded_parent(model)
        L = ltl(crba(model, x.q), parent)
        Y = mpy_lit(L, parent, K.T)
        z = mpy_lit(L, parent, u.tau - bias_force(model, x.q, x.qd, gravity=p.gravity))
        qdd = mpy_li(L, parent, z + Y @ u.lam)
        return {"qdd": qdd, "A": Y.T @ Y, "b": k - Y.T @ z, "delta": delta, "rate": K @ x.qd}


@dataclass(frozen=True, eq=False)
class LoopClosure(Block):
    """Constraint forces that keep the loops of a `CutLoopPlant` closed.

        A lam = b - (2/T_stab) rate - (1/T_stab^2) delta        (RBDA Eq 8.37, 8.22)

    A, b, rate and delta are the outputs of the plant. Constraint forces that are held over a step
    cause a loop error. The loop error decays with the time constant `T_stab` [s]. T_stab must be
    longer than the communication step; 5 to 20 steps are reasonable.

    The block solves the equation for `lam` (nc,) by conjugate directions d, in the order of
    decreasing d^T A d. The forces of dependent constraints are zero. `rank` is the number of
    independent constraints, and `loop_error` is the largest absolute element of delta.

    Raises:
        ValueError: The model has no loops.
    """

    model: Tree
    T_stab: float

    def __post_init__(self) -> None:
        _check_loops(self.model)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Ports of the inputs A, b, delta and rate, which are outputs of a `CutLoopPlant`."""
        return _closure_ports(self.model)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output ports for the constraint forces lam (nc,), the rank of A, and the loop error."""
        return (
            closure_force_port(self.model),
            Port("rank", (), "1", "number of independent constraints"),
            Port("loop_error", (), "1", "largest position error of the constraints, in rad or m"),
        )

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Parameter port for the time constant T_stab [s] of the stabilization."""
        return (
            Port(
                "T_stab",
                (),
                "s",
                "time constant of the stabilization",
                self.T_stab,
                min=0.0,
                positive=True,
            ),
        )

    def longest_hold(self, u: Record, p: Record) -> float:
        """Return the longest communication step [s] for stable constraint forces: T_stab."""
        del u
        return float(p.T_stab)

    def output(self, u: Record, p: Record) -> Values:
        error = reduce(maximum, np.abs(u.delta))
        # as in ClosedLoopPlant, constraints below the loop error count as dependent; A contains
        # their squares
        tolerance = maximum(1e-12, minimum(1e4 * error * error, 1e-6))
        directions, rank = _conjugate_directions(u.A, tolerance)
        wanted = u.b - (2.0 / p.T_stab) * u.rate - (1.0 / (p.T_stab * p.T_stab)) * u.delta
        lam = directions @ (directions.T @ wanted)
        lam = lam + directions @ (directions.T @ (wanted - u.A @ lam))
        return {"lam": lam, "rank": rank, "loop_error": error}


@dataclass(frozen=True, eq=False)
class CompliantLoopClosure(Block):
    """Springs and dampers that replace the loop joints of a robot.

        lam = -stiffness delta - damping K qd

    The forces act in each direction that a loop joint constrains. `lam` (nc,) contains the forces,
    `delta` (nc,) the position errors, and K qd the velocity errors of the loops. `stiffness`
    [N/m or N m/rad] and `damping` [N s/m or N m s/rad] are scalars or have the shape (nc,). A load
    F opens a loop by F/stiffness. Connect `f_ext` to the plant of the spanning tree,
    RobotPlant(model.spanning_tree, external_wrenches=True).

    A single constraint has the natural frequency w with w^2 = stiffness A, and the damping ratio z
    = damping A/(2 w). A is the output of `CutLoopPlant`. Forces that are held over a communication
    step dt are stable if w dt < min(4 z, 1/z). Without damping, held forces are always unstable.

    Raises:
        ValueError: The model has no loops.
    """

    model: Tree
    stiffness: Any
    damping: Any

    def __post_init__(self) -> None:
        _check_loops(self.model)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Input ports for the joint positions q (nq,) and joint velocities qd (nv,)."""
        return joint_ports(self.model, q="joint positions", qd="joint velocities")

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output ports for the wrenches f_ext (nb, 6), the forces lam and the loop errors delta."""
        wrenches, forces = wrench_port(self.model), constraint_units(self.model)
        return (
            Port("f_ext", wrenches.shape, wrenches.unit, wrenches.doc),
            Port("lam", (self.model.nc,), forces, "forces of the springs in the loops"),
            Port("delta", (self.model.nc,), _error_units(self.model), "loop errors"),
        )

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Parameter ports for stiffness and damping of the springs (nc,)."""
        springs = tuple(
            "N/m" if unit == "N" else "N.m/rad" for unit in constraint_units(self.model)
        )
        dampers = tuple(
            "N.s/m" if unit == "N" else "N.m.s/rad" for unit in constraint_units(self.model)
        )
        shape = (self.model.nc,)
        return (
            Port(
                "stiffness",
                shape,
                springs,
                "stiffness of the springs in the loops",
                self.stiffness,
                min=0.0,
            ),
            Port(
                "damping",
                shape,
                dampers,
                "damping of the dampers in the loops",
                self.damping,
                min=0.0,
            ),
        )

    def longest_hold(self, u: Record, p: Record) -> float:
        model, q = self.model, np.asarray(u.q, dtype=float)
        A = inverse_inertia(model, q, position_constraints(model, q).K)
        return stable_spring_hold(A, np.asarray(p.stiffness), np.asarray(p.damping))

    def output(self, u: Record, p: Record) -> Values:
        model, base = self.model, self.model.algebra
        X0 = [*body_poses(model, u.q), base.identity()]
        v = [*body_velocities(model, u.q, u.qd), base.zero()]
        f_ext: list[Any] = [base.zero()] * (model.nb + 1)
        lam, deltas = [], []
        for loop, rows in zip(model.loops, model.constraint_slices, strict=True):
            T, delta, vJ, X_s = _loop_opening(loop, X0, v)
            lam.append(-p.stiffness[rows] * delta - p.damping[rows] * (T.T @ vJ))
            deltas.append(delta)
            f = X_s.T @ (T @ lam[-1])
            f_ext[loop.successor] = f_ext[loop.successor] + f
            f_ext[loop.predecessor] = f_ext[loop.predecessor] - f
        return {
            "f_ext": np.array(f_ext[:-1]),
            "lam": np.concatenate(lam),
            "delta": np.concatenate(deltas),
        }


def _loop_opening(loop: LoopJoint, X0: list[Any], v: list[Any]) -> tuple[Array, Array, Array, Any]:
    """Return the constraint directions, position error and relative velocity of a loop joint.

    Args:
        loop: Loop joint.
        X0: Transforms from base coordinates to body coordinates; the last element is for the base.
        v: Velocities of the bodies in body coordinates; the last element is for the base.

    Returns:
        Directions T of the constraint forces; position error delta; velocity of the successor frame
        relative to the predecessor frame; transform from base coordinates to the successor frame.
    """
    X_s, X_p = loop.Xs @ X0[loop.successor], loop.Xp @ X0[loop.predecessor]
    X = multiply_transforms(X_s, X_p.inverse())
    vJ = loop.Xs @ v[loop.successor] - X @ (loop.Xp @ v[loop.predecessor])
    T, delta, _ = loop.joint.constraint(X, vJ)
    return T, delta, vJ, X_s


def _conjugate_directions(A: Array, tolerance: Any) -> tuple[Array, Any]:
    """Return conjugate directions of a symmetric matrix A (n, n), and the rank of A.

    The method is Gram-Schmidt in the metric A. It starts with the unit vector d that has the
    largest d^T A d, and drops directions with d^T A d below `tolerance` times this value.

    Returns:
        The directions as columns of D (n, n), zero if dropped, and the number of nonzero columns.
        D^T A D has ones for the nonzero columns on the diagonal, and zeros elsewhere.
    """
    n = len(A)
    limit = tolerance * reduce(maximum, np.diagonal(A))
    columns = [np.concatenate([np.eye(n)[j], A[:, j]]) for j in range(n)]  # stacked d and A d
    done: list[Array] = []
    rank: Any = 0.0
    while columns:
        largest, columns = _split_largest(columns, n)
        for unit in done:  # a second orthogonalization removes rounding errors
            largest = largest - unit * (unit[n:] @ largest[:n])
        square = largest[:n] @ largest[n:]
        keep = less(limit, square)
        unit = largest * select(keep, 1.0 / np.sqrt(select(keep, square, 1.0)), 0.0)
        rank = rank + select(keep, 1.0, 0.0)
        columns = [column - unit * (unit[n:] @ column[:n]) for column in columns]
        done.append(unit)
    return np.array([unit[:n] for unit in done]).T, rank


def _split_largest(columns: list[Array], n: int) -> tuple[Array, list[Array]]:
    """Return the column with the largest d^T A d, and the list of the other columns.

    Each column (2 n,) contains a direction d (n,), followed by A d (n,).
    """
    best, others = columns[0], []
    square = best[:n] @ best[n:]
    for column in columns[1:]:
        other = column[:n] @ column[n:]
        larger = less(square, other)
        others.append(select(larger, best, column))
        best, square = select(larger, column, best), select(larger, other, square)
    return best, others


def _closure_ports(model: Tree) -> tuple[Port, ...]:
    """Return the ports A, b, delta and rate that connect a `CutLoopPlant` to a `LoopClosure`."""
    nc, lengths = model.nc, _error_units(model)
    return (
        Port("A", (nc, nc), "1", "K H^-1 K^T, the inverse inertia of the loops, SI units"),
        Port(
            "b",
            (nc,),
            tuple(f"{unit}/s2" for unit in lengths),
            "accelerations that the constraint forces must produce",
        ),
        Port("delta", (nc,), lengths, "loop errors"),
        Port("rate", (nc,), tuple(f"{unit}/s" for unit in lengths), "rates of the loop errors"),
    )


def _error_units(model: Tree) -> tuple[str, ...]:
    """Return the unit of each loop position error: rad for a rotation, m for a translation."""
    return tuple("m" if unit == "N" else "rad" for unit in constraint_units(model))


def _check_loops(model: Tree) -> None:
    if not model.loops:
        raise ValueError(f"model '{model.name}' has no loop joints to close")
    model.check_no_strings("loop closure by a separate block")
