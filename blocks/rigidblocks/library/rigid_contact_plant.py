"""Robots and free bodies in rigid contact, as a block."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.block.block import Port, finite
from rigidblocks.block.written import WrittenBlock
from rigidblocks.contact.scene_tables import scene_tables, shape_count
from rigidblocks.contact.tree_tables import KINDS, TreeTables, neighbours
from rigidblocks.formats.description import Freedoms
from rigidblocks.library.ports import (
    check_open,
    force_port,
    gravity_port,
    motion_states,
    start_configuration,
    wrench_port,
)
from rigidblocks.model.model import Model
from rigidblocks.model.shapes import Plane, Shape, Sphere, Surface

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
    the fastest, at most `sweeps` times. All is C in loops over tables: compile time does not grow
    with the number of pairs.

    `mu` and `e` (friction and Newton's restitution) are numbers or (nb + 1,), of each body and, at
    the end, of what is at rest; a pair has sqrt(mu_i mu_j) and sqrt(e_i e_j). Restitution acts in
    the step in which the gap would close.

    q (nq,) and qd (nv,) are those of the model; qd is the velocity in the middle of the step before
    (leapfrog: free flight is exact, an elastic bounce keeps its energy). Inputs are tau (nv,), the
    joint forces, where there are joints, and f_ext (nb, 6), the wrenches on the bodies in base
    coordinates. f_contact (nb, 6) are the wrenches of all contacts on them over the step,
    in_contact (nb,) is 1 where a body is pushed, centre_of_pressure (nb, 3) [m] the mean of its
    points weighed by their normal forces. `contacts` is their number, `left_out` how many pairs or
    points found no room in `max_contacts`, `residual` [m/s] by how much the last of the
    `sweeps_made` changed a velocity, `depth` [m] how deep the deepest is. Overlaps, as at the
    start, are taken back over some steps, without giving velocity.

    Raises ValueError for a model with loops, one with joints that are not among those above, and
    one without shapes; TypeError for a shape that is not among those above.
    """

    model: Model
    ground: tuple[Shape | Surface, ...] = (Plane(),)
    mu: Any = 0.5
    e: Any = 0.0
    sample_time: float = 1e-3
    q0: Any = None
    qd0: Any = None
    max_contacts: int | None = None
    sweeps: int = 200
    freedoms: Freedoms | None = None
    apart: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        _check_joints(self.model)
        if self.freedoms is None:
            object.__setattr__(self, "freedoms", Freedoms.of(self.model.nv))
        object.__setattr__(self, "ground", tuple(self.ground))
        object.__setattr__(self, "q0", start_configuration(self.model, self.q0))
        qd0 = np.zeros(self.model.nv) if self.qd0 is None else self.qd0
        object.__setattr__(self, "qd0", finite(qd0, (self.model.nv,), "the start value of 'qd'"))
        for name in ("mu", "e"):
            value = np.broadcast_to(np.asarray(getattr(self, name), float), (self.model.nb + 1,))
            object.__setattr__(self, name, value.copy())
        if self.max_contacts is None:
            object.__setattr__(self, "max_contacts", _usual_contacts(self.model))
        if self.max_contacts < 1 or self.sweeps < 1:  # type: ignore[operator]
            raise ValueError(
                "rigid contact needs room for a contact and a sweep at least, not max_contacts = "
                f"{self.max_contacts}, sweeps = {self.sweeps}"
            )
        if not shape_count(self.model, ()):
            raise ValueError(
                f"model '{self.model.name}' has no shapes to touch with: list them in its field "
                "`contact`, body by body"
            )
        _check_freedoms(self.model, self._trees.freedoms)
        object.__setattr__(self, "apart", tuple((a, b) for a, b in self.apart))
        _check_names(self.model, self.apart)

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
        """gravity (3,), and mu and e (nb + 1,)."""
        shape = (self.model.nb + 1,)
        return (
            gravity_port(self.model),
            Port("mu", shape, "1", "friction of each body, and of what is at rest", self.mu, min=0),
            Port("e", shape, "1", "restitution of the same", self.e, min=0, max=1),
        )

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """q, qd, the other outputs, and what the next step starts from."""
        q, qd = motion_states(self.model.joint, self.q0, self.qd0)
        f, n, nb = wrench_port(self.model), self.max_contacts, self.model.nb
        assert n is not None
        stops = tuple("N.m.s" if self._turns(d) else "N.s" for d, *_ in self._trees.stops)
        text = "impulse of each stop and of each dry friction in the last step"
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
            Port("steps", (), "1", "steps made", 0.0, min=0),
            Port("key", (n,), "1", "which contact the impulse is of", 0.0),
            Port("impulse", (n, 3), "N.s", "of each contact in the last step", 0.0),
            *([Port("stop_impulse", (len(stops),), stops, text, 0.0)] if stops else []),
        )

    def _turns(self, d: int) -> bool:
        """Whether a freedom of the trees is an angle."""
        units = [unit for joint in self.model.joint for unit in joint.qd_units]
        return units[self._trees.dofs[d][1]] == "rad/s"

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """q, qd, f_contact, in_contact, centre_of_pressure, contacts, left_out, residual,
        sweeps_made and depth.
        """
        return self.sampled[:10]

    @property
    def function(self) -> str:
        return "robot_contact_step" if self._trees.links else "contact_step"

    @property
    def arguments(self) -> tuple[str, ...]:
        return (*(port.name for port in self.inputs), "gravity", "mu", "e")

    @property
    def headers(self) -> tuple[str, ...]:
        names = ("vector", "shape", "gjk", "epa", "proximity", "boxes", "manifold")
        return tuple(f"contact/{name}.h" for name in (*names, "scene", "trees", "solver", "plant"))

    @cached_property
    def tables(self) -> str:
        shapes, n, at, k = shape_count(self.model, self.ground), self.max_contacts, [], 0
        assert n is not None
        for port in self.sampled:
            at.append(f"RB_AT_{port.name.upper()} = {k}")
            k += port.size
        if not self._trees.stops:
            at.append(f"RB_AT_STOP_IMPULSE = {k}")
        counts = (
            f"RB_BODIES = {self.model.nb}, RB_SHAPES = {shapes}, RB_CONTACTS = {n}, "
            f"RB_PAIRS = {2 * n + shapes}, RB_SCENE_SWEEPS = {self.sweeps}"
        )
        return "\n".join(
            [
                "#define RB_TABLES_H",
                f"enum {{ {counts} }};",
                f"enum {{ {', '.join(at)} }};",
                f"static const double RB_SCENE_STEP = {self.sample_time!r};",
                f"static const double RB_SCENE_TOLERANCE = {TOLERANCE!r};",
                self._trees.text(self._apart),
                scene_tables(self.model, self.ground),
                "",
            ]
        )


def _check_joints(model: Model) -> None:
    """Raises ValueError for joints that rigid contact does not know, and for loops."""
    check_open(model, "RigidContactPlant")
    for name, joint in zip(model.joint_names, model.joint, strict=True):
        if type(joint) not in KINDS:
            known = ", ".join(kind.__name__ for kind in KINDS)
            raise ValueError(
                f"joint '{name}' of model '{model.name}' is of type {type(joint).__name__}, and "
                f"rigid contact knows {known}: take several of these, with massless bodies between"
            )


def _check_names(model: Model, apart: Sequence[tuple[str, str]]) -> None:
    """Raises ValueError for a pair of what are no bodies."""
    names = (*model.body_names, "ground")
    for name in (name for pair in apart for name in pair):
        if name not in names:
            raise ValueError(
                f"'{name}' in `apart` is no body of model '{model.name}': take two of "
                f"{', '.join(names)}"
            )


def _check_freedoms(model: Model, freedoms: Freedoms) -> None:
    """Raises ValueError for what is not of as many freedoms, and for stops and springs of joints
    without coordinates.
    """
    if len(freedoms.lower) != model.nv:
        raise ValueError(
            f"`freedoms` is of {len(freedoms.lower)} freedoms, model '{model.name}' has {model.nv}"
        )
    held = (
        np.isfinite(freedoms.lower)
        | np.isfinite(freedoms.upper)
        | (freedoms.friction > 0)
        | (freedoms.stiffness > 0)
    )
    for i, (name, joint) in enumerate(zip(model.joint_names, model.joint, strict=True)):
        if held[model.v_slices[i]].any() and joint.nq > joint.nv:
            raise ValueError(
                f"joint '{name}' of model '{model.name}' has no coordinates, so it can have "
                "dampers and rotors, but no stops, dry friction or springs"
            )


def _usual_contacts(model: Model) -> int:
    """Room for as many contacts as bodies have in a pile."""
    return sum(
        5 if all(isinstance(shape, Sphere) for shape in shapes) else 12 for shapes in model.contact
    )
