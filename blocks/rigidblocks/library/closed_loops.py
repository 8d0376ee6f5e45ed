"""Plants with kinematic loops, which are kept closed inside the step."""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.scalar import less, maximum, select
from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Port, Record, Values, finite
from rigidblocks.dynamics import energy, equivalent, kinetic_energy, potential_energy, rnea
from rigidblocks.dynamics.elements import Acting
from rigidblocks.dynamics.equivalence import aligned, with_aligned_loops
from rigidblocks.library.elements import Element, with_loads
from rigidblocks.library.inertias import TunableInertia
from rigidblocks.library.plant import JointPlant
from rigidblocks.library.ports import (
    acceleration_port,
    check_model,
    closure_force_port,
    energy_port,
    force_port,
    gravity_port,
    motion_states,
    scaled,
    start_configuration,
    wrench_port,
)
from rigidblocks.loops import (
    DependentMotion,
    LoopMotion,
    active_forces,
    check_independent,
    closed_loop_dynamics,
    dependent_motion,
    drift,
    loop_constraints,
    near_singular,
    position_constraints,
    project,
    project_energy,
    solver,
)
from rigidblocks.loops.choice import velocity_columns
from rigidblocks.loops.elimination import TOLERANCE
from rigidblocks.model.configuration import rate, unit_quaternions
from rigidblocks.model.model import Model
from rigidblocks.model.resistance import check_resistance
from rigidblocks.model.tree import Tree

STABILIZATIONS = ("projection", "baumgarte", "independent", "none")


@dataclass(frozen=True, eq=False)
class ClosedLoopPlant(JointPlant):
    """The forward dynamics of a robot with kinematic loops: joint forces in, motion of the tree's
    joints out.

        H(q) qdd + C(q, qd, f_ext) = tau + K^T lam        K qdd = k        (RBDA Eq 8.6)

    The loops are those of the model's loop joints. Constraints that depend on others, always or at
    singular configurations, are found by their size and left out, so that there is nothing to tune
    (`closed_loop_dynamics`). `stabilization` says what keeps the loops closed: "projection" moves
    the states back onto the constraints after every inner step (Spencer 2004, 3.1.3), which is the
    default and leaves no error to speak of; "baumgarte" pulls errors back with the time constant
    `T_stab` [s] (RBDA 8.3); with "independent" the joints named in `independent` move alone and the
    others follow in every stage, so that loops cannot open (Spencer 2004, 2.4), as long as these
    are coordinates: the output `coordinate_condition` grows where they are not; "none" lets errors
    grow. With `keep_energy` velocities are scaled after every inner step to the energy that there
    was at the start and the work of tau, loop_tau and f_ext, the state `energy_due` (Spencer 2004,
    3.1.3): for models that do not depend on time, without elements.

    `q0` and `qd0` are the start, which must close the loops: `assemble` finds such a q0. A velocity
    that would open them is projected, with a warning, or refused if `strict`. With
    `external_wrenches` there is an input `f_ext` (nb, 6), as that of `RobotPlant`. With
    `loop_forces` there is an input `loop_tau`, the forces of the loop joints' own freedoms, of
    springs or motors there (RBDA 8.4). `method` is one of `loops.SOLVERS`, of which the default is
    the one to use and the others are there to compare. The parameter `gravity` is the model's
    unless it is changed. `elements` are those of `RobotPlant`, at the joints of the tree and
    between bodies; `inertias` makes masses of links and a payload parameters, as there.

    `tolerance` is the part of the largest below which a constraint counts as dependent on others.
    Numbers that were written with six digits make constraints that are to depend on each other
    independent by 1e-6 of it, and lock a mechanism that is to move: there it must be larger.
    `nominal` is that of `RobotPlant`.

    The log of a run tells near what singular configurations it came. Raises ValueError for a model
    without loops and for a start that leaves them open.
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
        if not self.model.constrained:
            raise ValueError(
                f"model '{self.model.name}' has no loop joints; RobotPlant is the plant of a tree"
            )
        self._check_elements()
        check_resistance(self.model, rotor_inertia=self._elements.rotor_inertia)
        if self.stabilization not in STABILIZATIONS:
            raise ValueError(
                f"stabilization must be one of {', '.join(STABILIZATIONS)}, not "
                f"{self.stabilization!r}"
            )
        if (self.T_stab is not None) != (self.stabilization == "baumgarte"):
            raise ValueError(
                f"T_stab belongs to stabilization='baumgarte'; they were {self.T_stab}, "
                f"{self.stabilization!r}"
            )
        solver(self.method)  # refuses one that there is not
        self._check_options()
        q0 = start_configuration(self.model, self.q0)
        _check_closed(self.model.at(0.0), q0)
        self._elements.start(q0, 0.0, True)
        if self._independent:
            check_independent(self.model.at(0.0), q0, self._independent)
        object.__setattr__(self, "q0", q0)
        qd0 = finite(self.qd0, (self.model.nv,), "the start value of port 'qd'")
        object.__setattr__(self, "qd0", self._closing_velocity(q0, qd0))

    def _check_options(self) -> None:
        if (self.independent is not None) != (self.stabilization == "independent"):
            raise ValueError(
                "independent joints belong to stabilization='independent'; they were "
                f"{self.independent}, {self.stabilization!r}"
            )
        if self.independent is not None and self._elements.geared:
            raise ValueError("what gears drive follows them; joints of gears are not independent")
        if self.keep_energy and (self.elements or self.model.rheonomic):
            raise ValueError(
                f"the energy of model '{self.model.name}' cannot be kept: its elements or what "
                "moves its joints give and take some"
            )

    @cached_property
    def _independent(self) -> list[int]:
        """The places in qd of the independent variables."""
        return velocity_columns(self.model, self.independent or (), "independent")

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """q (nq,) and qd (nv,), what the elements remember, and the energy that there is to be."""
        joints = scaled(motion_states(self.model.joint, self.q0, self.qd0), self.nominal)
        motion = (*joints, *self._elements.states)
        if not self.keep_energy:
            return motion
        return (
            *motion,
            Port("energy_due", (), "J", "energy at the start and work since", 0.0),
            Port("energy_known", (), "1", "1 once the energy at the start is known", 0.0),
        )

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """gravity (3,), the numbers of the elements, and the inertias that can be tuned."""
        tuned = () if self.inertias is None else self.inertias.parameters(self.model)  # type: ignore[arg-type]  # or planar, refused there
        return (gravity_port(self.model), *self._elements.parameters, *tuned)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """tau (nv,), and f_ext (nb, 6) and loop_tau when asked for."""
        ports = [*scaled([force_port(self.model.joint)], self.nominal)]
        if self.external_wrenches:
            ports.append(wrench_port(self.model))
        if self.loop_forces:
            loops, text = (
                [loop.joint for loop in self.model.loops],
                "forces of the loop joints' freedoms",
            )
            ports.append(force_port(loops, "loop_tau", text))
        return tuple(ports)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """q, qd, qdd (nv,), the energy, the constraint forces lam (nc,), how well the loops do, and
        the forces of the elements.

        Of the loops the largest error, the number of independent constraints, and their condition.
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
                "ratio of the constraints' largest and smallest size: large near singular poses",
            ),
            *(
                (Port("coordinate_condition", (), "1", "large where they are no coordinates"),)
                if self._independent
                else ()
            ),
            *self._elements.outputs,
        )

    def with_wrenches(self) -> "ClosedLoopPlant":
        return replace(self, external_wrenches=True)

    def derivative(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        if self._independent:
            q, qd, _ = self._dependent(t, x)
            x = Record({**vars(x), "q": q, "qd": qd})
        acting = self._elements.acting(x.q, x.qd, x, p)
        motion: dict[str, Any] = {"q": rate(self.model, x.q, x.qd)}
        motion["qd"] = self._motion(t, x, u, p, acting).qdd
        if self.keep_energy:
            motion |= {"energy_due": self._power(x, u), "energy_known": 0.0}
        return motion | self._elements.rates(acting)

    def project(self, t: Any, x: Record, p: Record) -> Values:
        q, qd = self._closed(t, x, p)
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

    def _closed(self, t: Any, x: Record, p: Record) -> tuple[Array, Array]:
        """q and qd moved onto the constraints, as the stabilization says."""
        model, tree = self._models(t, p)
        q = unit_quaternions(model, x.q) if model.nq > model.nv else x.q
        if self._independent:
            return self._dependent(t, Record({"q": q, "qd": x.qd}))[:2]
        if self.stabilization != "projection":
            return q, x.qd
        given = self._elements.transmissions(p)
        return project(model, q, x.qd, tree, given, self.tolerance)

    def _dependent(self, t: Any, x: Record) -> DependentMotion:
        return dependent_motion(self._aligned_model.at(t), x.q, x.qd, self._independent)

    def _power(self, x: Record, u: Record) -> Any:
        """The power of the inputs [W]."""
        model, tau = self._aligned_model, u.tau
        if self.loop_forces:
            tau = tau + active_forces(model, x.q, u.loop_tau)
        if self.external_wrenches:
            still, nothing = np.zeros(model.nv), np.zeros(len(model.gravity))
            tau = tau - rnea(model, x.q, still, still, u.f_ext, nothing)
        return x.qd @ tau

    def output(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        acting = self._elements.acting(x.q, x.qd, x, p)
        qdd, lam, rank, condition = self._motion(t, x, u, p, acting)
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
            "energy": E + self._elements.energy(acting, x.qd, p),
            "lam": lam[: self.model.nc],
            "loop_error": error,
            "rank": rank,
            "condition": condition,
            **more,
            **self._elements.values(acting),
        }

    @property
    def conditions(self) -> tuple[tuple[str, str], ...]:
        return (("condition", "rank"),)

    def remarks(self, t: Array, y: Record) -> Iterator[str]:
        for time, condition in near_singular(t, y.rank, y.condition):
            yield (
                f"passed or came near a singular configuration at t = {time:g} s, with the "
                f"condition {condition:.3g}"
            )

    def _motion(self, t: Any, x: Record, u: Record, p: Record, acting: Acting | None) -> LoopMotion:
        tau, f_ext = with_loads(acting, u.tau, u.f_ext if self.external_wrenches else None)
        loop_tau = u.loop_tau if self.loop_forces else None
        model, tree = self._models(t, p)
        given = self._elements.transmissions(p)
        options = (self.T_stab, loop_tau, tree, self.method, given, self.tolerance)
        return closed_loop_dynamics(model, x.q, x.qd, tau, f_ext, p.gravity, *options)

    def _closing_velocity(self, q0: Array, qd0: Array) -> Array:
        """qd0, or the nearest velocity that keeps the loops closed and follows the gears."""
        model = self.model.at(0.0)
        given = self._elements.of_start
        q, qd = project(model, q0, qd0, transmissions=given, tolerance=self.tolerance)
        change = float(np.abs(qd - qd0).max())
        if change <= 1e-4 * (1.0 + float(np.abs(qd0).max())):
            return qd0
        rates = loop_constraints(model, q, qd0).K @ qd0 + drift(model, q)
        error = float(np.abs(rates).max())
        problem = f"qd0 opens the loops of model '{model.name}' at {error:.3g} (rad/s or m/s)"
        if self.strict:
            raise ValueError(f"{problem}; the nearest velocity that does not is {qd.tolist()}")
        warnings.warn(f"{problem}; it is changed by up to {change:.3g}", stacklevel=5)
        return qd

    def _models(self, t: Any, p: Record) -> tuple[Tree, Tree]:
        """The model at the time t [s], and a tree with the same equation of motion; with inertias
        to tune both are the model that the parameters say.
        """
        if self.inertias is None:
            return self._aligned_model.at(t), self._equivalent.at(t)
        tuned = self.inertias.tuned(self._tunable_model, p).at(t)
        return tuned, tuned

    @cached_property
    def _tunable_model(self) -> Model:
        """The model with its loop joints in the frames that they have where nothing is tuned."""
        return with_aligned_loops(self.model)  # type: ignore[arg-type]  # or planar, refused before

    @cached_property
    def _aligned_model(self) -> Tree:
        return aligned(self.model) if isinstance(self.model, Model) else self.model

    @cached_property
    def _equivalent(self) -> Tree:
        """The cheapest tree with the same equation of motion; a planar model is its own."""
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
