"""The joints of a model that close loops as the C text of tables, which the C of rigid contact
reads (`c/contact/loops.h`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rigidblocks.algebra.spatial import Array, Transform
from rigidblocks.contact.scene_tables import body_centre, table
from rigidblocks.joint import Cylindrical, Fixed, Joint, Planar, Prismatic, Revolute, Spherical
from rigidblocks.model.model import Model

CLOSING: tuple[type[Joint], ...] = (Fixed, Revolute, Prismatic, Cylindrical, Spherical, Planar)


@dataclass(frozen=True, eq=False)
class LoopTables:
    """The loop joints of a model, each with what it asks of the frame F_s in F_p: rows of an angle
    and a way.
    """

    model: Model

    def check(self) -> None:
        """Raises ValueError for a loop joint that rigid contact does not know."""
        for name, loop in zip(self.model.loop_names, self.model.loops, strict=False):
            if type(loop.joint) not in CLOSING:
                known = ", ".join(kind.__name__ for kind in CLOSING)
                raise ValueError(
                    f"loop joint '{name}' of model '{self.model.name}' is of type "
                    f"{type(loop.joint).__name__}, and rigid contact closes loops with {known}"
                )

    @cached_property
    def rows(self) -> tuple[tuple[int, Array], ...]:
        """The number of the loop of each row, and the angle and the way (6,) that it takes."""
        found = []
        for k, loop in enumerate(self.model.loops):
            S = _motions(loop.joint)
            held = np.zeros((3, 0)) if _turn(loop.joint) == 2 else _across(S[:3])
            found += [(k, np.array([*way, 0, 0, 0])) for way in held.T]
            found += [(k, np.array([0, 0, 0, *way])) for way in _across(S[3:]).T]
        return tuple(found)

    def text(self) -> str:
        """All tables, with one more of each, since C has no array without elements."""
        model, rows = self.model, self.rows
        n, identity = model.nb, Transform(np.eye(3), np.zeros(3))
        bodies = [
            np.array([end if end >= 0 else n for end in (loop.predecessor, loop.successor)])
            for loop in model.loops
        ]
        counts = {"CLOSURES": len(model.loops), "LOOP_ROWS": len(rows), "POSITIONS": model.nq}
        axes = [_axis(loop.joint) for loop in model.loops]
        return "\n".join(
            [
                f"enum {{ {', '.join(f'RB_{name} = {k}' for name, k in counts.items())} }};",
                table("int", "RB_LOOP_BODY", [*bodies, np.array([n, n])]),
                table("double", "RB_LOOP_FRAME", [*self._frames(), _row(identity)]),
                table("int", "RB_LOOP_TURN", [*(_turn(loop.joint) for loop in model.loops), 0]),
                table("double", "RB_LOOP_AXIS", [*axes, np.zeros(3)]),
                table("int", "RB_ROW_LOOP", [*(k for k, _ in rows), 0]),
                table("double", "RB_LOOP_ROW", [*(row for _, row in rows), np.zeros(6)]),
            ]
        )

    def _frames(self) -> Iterator[Array]:
        """Those of F_p and F_s about the centres of mass of their bodies."""
        for loop in self.model.loops:
            for body, X in ((loop.predecessor, loop.Xp), (loop.successor, loop.Xs)):
                centre = body_centre(self.model.inertia[body]) if body >= 0 else np.zeros(3)
                yield _row(Transform(X.E, X.r - centre))


def _row(X: Transform) -> Array:
    return np.array([*X.E.T.ravel(), *X.r])


def _motions(joint: Joint) -> Array:
    return np.asarray(joint.jcalc(joint.neutral(), np.zeros(joint.nv)).S, dtype=float)


def _turn(joint: Joint) -> int:
    """How many ways it turns: none, about an axis, or all."""
    rank = int(np.linalg.matrix_rank(_motions(joint)[:3])) if joint.nv else 0
    return 2 if rank > 1 else rank


def _axis(joint: Joint) -> Array:
    if _turn(joint) != 1:
        return np.zeros(3)
    S = _motions(joint)[:3]
    return np.asarray(S[:, np.argmax(np.linalg.norm(S, axis=0))])


def _across(S: Array) -> Array:
    """Directions (3, k), each across all those of S (3, n) and the others."""
    if not S.size or not S.any():
        return np.eye(3)
    U, sizes, _ = np.linalg.svd(S)
    return np.asarray(U[:, int((sizes > 1e-9).sum()) :])
