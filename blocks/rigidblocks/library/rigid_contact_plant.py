"""Many free bodies in rigid contact, as a block."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.block.block import Port, finite
from rigidblocks.block.written import WrittenBlock
from rigidblocks.contact.scene_tables import scene_tables, shape_count
from rigidblocks.joint import SixDoF
from rigidblocks.library.ports import (
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
    """Free bodies that touch each other and things at rest, rigidly, with Coulomb friction.

        H (v' - v) = h f + J^T p,   0 <= p_n  perpendicular to  u_n' >= max(-gap / h, -e u_n),
        |p_t| <= mu p_n, against the sliding velocity u_t'

    The shapes of the bodies are those in the model's field `contact`: spheres, capsules, boxes,
    round cylinders, ellipsoids, convex hulls and point sets; `ground` lists shapes and planes at
    rest, in base coordinates. Every step of `sample_time` [s] finds the pairs that may touch
    (a sweep along an axis), up to four points of each with their gaps, and the impulses p by
    projected sweeps with the friction cone, from those of the step before, until no velocity at a
    contact changes by more than 1e-5 of the fastest, at most `sweeps` times. All is C in loops over
    tables: compile time does not grow with the number of pairs.

    `mu` and `e` (friction and Newton's restitution) are numbers or (nb + 1,), of each body and, at
    the end, of what is at rest; a pair has sqrt(mu_i mu_j) and sqrt(e_i e_j). Restitution acts in
    the step in which the gap would close.

    q (7 nb,) and qd (6 nb,) are as of joints of six freedoms; qd is the velocity in the middle of
    the step before (leapfrog: free flight is exact, an elastic bounce keeps its energy). The input
    f_ext (nb, 6) has the wrenches on the bodies, in base coordinates, and f_contact (nb, 6) those
    of all contacts, over the step. `contacts` is their number, `left_out` how many pairs or points
    found no room in `max_contacts`, `residual` [m/s] by how much the last of the `sweeps_made`
    changed a velocity, `depth` [m] how deep the deepest is. Overlaps, as at the start, are taken
    back over some steps, without giving velocity.

    Raises ValueError for a model with anything but free bodies, and for one without shapes;
    TypeError for a shape that is not among those above.
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

    def __post_init__(self) -> None:
        _check_free(self.model)
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

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """f_ext (nb, 6)."""
        return (wrench_port(self.model),)

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
        f, n = wrench_port(self.model), self.max_contacts
        assert n is not None
        return (
            replace(q, rate=None),
            qd,
            replace(f, name="f_contact", doc="wrench of all contacts, base coordinates"),
            Port("contacts", (), "1", "number of contacts", 0.0, min=0),
            Port("left_out", (), "1", "pairs or points without room", 0.0, min=0),
            Port("residual", (), "m/s", "change of velocities in the last sweep", 0.0, min=0),
            Port("sweeps_made", (), "1", "number of sweeps", 0.0, min=0),
            Port("depth", (), "m", "of the deepest contact", 0.0, min=0),
            Port("steps", (), "1", "steps made", 0.0, min=0),
            Port("key", (n,), "1", "which contact the impulse is of", 0.0),
            Port("impulse", (n, 3), "N.s", "of each contact in the last step", 0.0),
        )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """q, qd, f_contact, contacts, left_out, residual, sweeps_made and depth."""
        return self.sampled[:8]

    @property
    def function(self) -> str:
        return "contact_step"

    @property
    def arguments(self) -> tuple[str, ...]:
        return ("f_ext", "gravity", "mu", "e")

    @property
    def headers(self) -> tuple[str, ...]:
        names = ("vector", "shape", "gjk", "epa", "proximity", "boxes", "manifold")
        return tuple(f"contact/{name}.h" for name in (*names, "scene", "solver", "plant"))

    @cached_property
    def tables(self) -> str:
        shapes, n, at, k = shape_count(self.model, self.ground), self.max_contacts, [], 0
        assert n is not None
        for port in self.sampled:
            at.append(f"RB_AT_{port.name.upper()} = {k}")
            k += port.size
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
                scene_tables(self.model, self.ground),
                "",
            ]
        )


def _check_free(model: Model) -> None:
    """Raises ValueError for a body that is not free."""
    for i, joint in enumerate(model.joint):
        X = model.Xtree[i]
        still = np.array_equal(X.E, np.eye(3)) and not np.any(X.r)
        if not isinstance(joint, SixDoF) or model.parent[i] != -1 or not still:
            raise ValueError(
                f"body '{model.body_names[i]}' of model '{model.name}' is not free: rigid contact "
                "as a block is of bodies on joints SixDoF() to the base, at its origin; say with "
                "q0 where they start"
            )
    if model.loops:
        raise ValueError(f"model '{model.name}' has loops; rigid contact is of free bodies")


def _usual_contacts(model: Model) -> int:
    """Room for as many contacts as bodies have in a pile."""
    return sum(
        5 if all(isinstance(shape, Sphere) for shape in shapes) else 12 for shapes in model.contact
    )
