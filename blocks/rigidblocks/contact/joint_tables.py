"""C tables of the joints of a model, for the C code of rigid contact plants.

`TreeTables` contains the joints of the trees, `LoopTables` the loop joints.
`c/contact/articulated_trees.h` uses both tables.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rigidblocks.contact.shape_tables import body_centre, table
from rigidblocks.robot.joints import (
    Cylindrical,
    Fixed,
    Helical,
    Joint,
    Planar,
    Prismatic,
    Revolute,
    SixDoF,
    Spherical,
)
from rigidblocks.robot.model import Model
from rigidblocks.robot.robot_description import JointProperties
from rigidblocks.spatial.spatial import Array, Transform

KINDS: dict[type[Joint], int] = {
    Fixed: 0, Revolute: 1, Prismatic: 1, Helical: 1, Spherical: 2, SixDoF: 3, Planar: 4,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class TreeTables:
    """C tables of the kinematic trees and the free bodies of a model, with the joint properties.

    All bodies except the free bodies (`free_bodies`) are links. The degrees of freedom of the links
    are numbered consecutively.
    """

    model: Model
    joint_properties: JointProperties

    @cached_property
    def free(self) -> tuple[bool, ...]:
        """Mask (nb,) of the free bodies."""
        return free_bodies(self.model)

    @cached_property
    def links(self) -> tuple[int, ...]:
        """Indices of the bodies that are not free (links)."""
        return tuple(i for i, free in enumerate(self.free) if not free)

    @cached_property
    def dofs(self) -> tuple[tuple[int, int], ...]:
        """Link number and index in qd of each degree of freedom of the links."""
        return tuple(
            (k, j)
            for k, i in enumerate(self.links)
            for j in range(self.model.v_slices[i].start, self.model.v_slices[i].stop)
        )

    @cached_property
    def first(self) -> tuple[int, ...]:
        """Index of the first degree of freedom of each link.

        A link without degrees of freedom has the index of the next degree of freedom.
        """
        sizes = [self.model.joint[i].nv for i in self.links]
        return tuple(int(n) for n in np.cumsum([0, *sizes])[:-1])

    @cached_property
    def leaf(self) -> tuple[int, ...]:
        """Index of the last degree of freedom on the path from the base to each body.

        The index is -1 for free bodies and for bodies that are fixed to the base.
        """
        leaf: list[int] = []
        for i, p in enumerate(self.model.parent):
            if self.free[i]:
                leaf.append(-1)
                continue
            n, k = self.model.joint[i].nv, self.links.index(i)
            leaf.append(self.first[k] + n - 1 if n else (leaf[p] if p >= 0 else -1))
        return tuple(leaf)

    @cached_property
    def parent_dof(self) -> tuple[int, ...]:
        """Parent array of the degrees of freedom in the expanded tree, -1 for roots (RBDA 6.5)."""
        found = []
        for d, (k, _) in enumerate(self.dofs):
            p = self.model.parent[self.links[k]]
            found.append(d - 1 if d > self.first[k] else (self.leaf[p] if p >= 0 else -1))
        return tuple(found)

    @cached_property
    def depth(self) -> tuple[int, ...]:
        """Number of ancestors of each degree of freedom in the expanded tree."""
        depth: list[int] = []
        for p in self.parent_dof:
            depth.append(depth[p] + 1 if p >= 0 else 0)
        return tuple(depth)

    def _path(self, d: int) -> Iterator[int]:
        """Yield the index d of a degree of freedom and the indices of all its ancestors."""
        while d >= 0:
            yield d
            d = self.parent_dof[d]

    @cached_property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """First degree of freedom and size of the tree of each degree of freedom, as pairs.

        The size is the number of degrees of freedom from the first to the last one of the tree.
        Loops join the trees that they connect to one tree.
        """
        root: list[int] = []
        for d, p in enumerate(self.parent_dof):
            root.append(root[p] if p >= 0 else d)
        last = {r: d for d, r in enumerate(root)}
        first = {r: r for r in last}
        for one, other in self._trees_joined_by_loops(root):
            low, high = min(first[one], first[other]), max(last[one], last[other])
            for r in (r for r in last if low <= first[r] and last[r] <= high):
                first[r], last[r] = low, high
        return tuple((first[r], last[r] - first[r] + 1) for r in root)

    def _trees_joined_by_loops(self, root: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yield the root degrees of freedom of the two trees that each loop joint connects.

        The method yields the list of all pairs once per pair. One pass may merge only parts of a
        chain of trees; the repetition lets the caller merge the whole chain.
        """
        ends = [
            [self.leaf[i] for i in (loop.predecessor, loop.successor) if i >= 0]
            for loop in self.model.loops
        ]
        pairs = [(root[a], root[b]) for a, b in (e for e in ends if len(e) == 2) if min(a, b) >= 0]
        for _ in pairs:
            yield from pairs

    @cached_property
    def stops(self) -> tuple[tuple[int, int, float, float, float], ...]:
        """Joint stops and dry friction of the joints, as tuples of the same form.

        A tuple contains the degree of freedom, the index in q, the lower and upper limits, and the
        maximum force. The maximum force of a stop is infinite. Dry friction has infinite limits,
        and its maximum force is the friction force.
        """
        n, found = self.joint_properties, []
        for d, (k, j) in enumerate(self.dofs):
            i = self.links[k]
            at = self.model.q_slices[i].start + j - self.model.v_slices[i].start
            if np.isfinite(n.lower[j]) or np.isfinite(n.upper[j]):
                found.append((d, at, float(n.lower[j]), float(n.upper[j]), np.inf))
            if n.friction[j] > 0:
                found.append((d, at, -np.inf, np.inf, float(n.friction[j])))
        return tuple(found)

    def text(self, excluded: Sequence[tuple[int, int]]) -> str:
        """Return the C tables of bodies, links, degrees of freedom, stops and excluded pairs.

        `excluded` contains the collision exclusions as pairs of body indices (`excluded_pairs`).
        The index nb means the ground.
        """
        parts = (self._bodies(), self._links(), self._dofs(), self._stops())
        lines = (line for part in parts for line in part)
        return "\n".join([self._counts, *lines, _excluded_pairs(self.model.nb, excluded)])

    @property
    def _counts(self) -> str:
        rows = sum(d + 1 for d in self.depth)
        counts = {
            "LINKS": len(self.links),
            "DOFS": len(self.dofs),
            "ROWS": rows,
            "DEPTH": max(self.depth, default=0) + 1,
            "SPAN": max((n for _, n in self.spans), default=1),
            "STOPS": len(self.stops),
        }
        return f"enum {{ {', '.join(f'RB_{name} = {n}' for name, n in counts.items())} }};"

    def _bodies(self) -> Iterator[str]:
        model = self.model
        yield table("int", "RB_FREE", map(int, self.free))
        yield table("int", "RB_Q_AT", [s.start for s in model.q_slices])
        yield table("int", "RB_QD_AT", [s.start for s in model.v_slices])
        yield table("int", "RB_LEAF", [*self.leaf, -1])

    def _links(self) -> Iterator[str]:
        model, n = self.model, len(self.links)
        number = {i: k for k, i in enumerate(self.links)}
        joints = [model.joint[i] for i in self.links]
        frames = [np.array([*X.E.T.ravel(), *X.r]) for X in (model.Xtree[i] for i in self.links)]
        yield table("int", "RB_LINK_BODY", [*self.links, model.nb])
        yield table(
            "int", "RB_LINK_PARENT", [*(number.get(model.parent[i], n) for i in self.links), n]
        )
        yield table("int", "RB_LINK_JOINT", [*(KINDS[type(joint)] for joint in joints), 0])
        yield table("int", "RB_LINK_DOF", [*self.first, len(self.dofs)])
        yield table("int", "RB_LINK_DOFS", [*(joint.nv for joint in joints), 0])
        turned = (not np.array_equal(frame[:9], np.eye(3).ravel()) for frame in frames)
        yield table("double", "RB_LINK_FRAME", [*frames, np.zeros(12)])
        yield table("int", "RB_LINK_TURNED", [*map(int, turned), 0])

    def _dofs(self) -> Iterator[str]:
        """Yield the C tables of the degrees of freedom, with a dummy row to avoid empty arrays."""
        rows = np.cumsum([0, *(d + 1 for d in self.depth)])
        yield table("int", "RB_DOF_LINK", [*(k for k, _ in self.dofs), 0])
        yield table("int", "RB_DOF_QD", [*(j for _, j in self.dofs), 0])
        yield table("int", "RB_DOF_Q", [*self._q_indices(), 0])
        yield table("int", "RB_DOF_PARENT", [*self.parent_dof, -1])
        yield table("int", "RB_DOF_DEPTH", [*self.depth, 0])
        yield table("int", "RB_DOF_ROW", map(int, rows))
        yield table(
            "int", "RB_PATH", [*(e for d in range(len(self.dofs)) for e in self._path(d)), 0]
        )
        yield table("int", "RB_DOF_FIRST", [*(r for r, _ in self.spans), 0])
        yield table("int", "RB_DOF_COUNT", [*(n for _, n in self.spans), 0])
        yield table("double", "RB_DOF_COLUMN", [*self._columns(), np.zeros(6)])
        for name in ("armature", "damping", "stiffness", "rest"):
            values = getattr(self.joint_properties, name)
            column = [*(float(values[j]) for _, j in self.dofs), 0.0]
            yield table("double", f"RB_DOF_{name.upper()}", column)

    def _q_indices(self) -> Iterator[int]:
        """Yield the index in q of each degree of freedom."""
        for k, j in self.dofs:
            i = self.links[k]
            yield self.model.q_slices[i].start + j - self.model.v_slices[i].start

    def _columns(self) -> Iterator[Array]:
        """Yield the motion subspace column (6,) of each degree of freedom of the links."""
        for i in self.links:
            joint = self.model.joint[i]
            yield from joint.jcalc(joint.neutral(), np.zeros(joint.nv)).S.T

    def _stops(self) -> Iterator[str]:
        """Yield the C tables of stops and dry friction, with a dummy row to avoid empty arrays."""
        columns = zip(*self.stops, (0, 0, 0.0, 0.0, 0.0), strict=True)
        kinds = ("int", "int", "double", "double", "double")
        for kind, name, column in zip(
            kinds, ("DOF", "Q", "LOW", "HIGH", "MOST"), columns, strict=True
        ):
            yield table(kind, f"RB_STOP_{name}", column)


def _excluded_pairs(nb: int, pairs: Sequence[tuple[int, int]]) -> str:
    keys = sorted({min(pair) * (nb + 1) + max(pair) for pair in pairs})
    count = f"enum {{ RB_APARTS = {len(keys)} }};"
    return f"{count}\n{table('double', 'RB_APART', [*map(float, keys), 0.0])}"


def free_bodies(model: Model) -> tuple[bool, ...]:
    """Return a mask (nb,) of the free bodies.

    A free body has a six-degree-of-freedom joint to the base, at the base origin, and no children
    or loops.
    """
    parents = {
        *model.parent,
        *(i for loop in model.loops for i in (loop.predecessor, loop.successor)),
    }
    return tuple(
        isinstance(joint, SixDoF)
        and model.parent[i] == -1
        and i not in parents
        and np.array_equal(model.Xtree[i].E, np.eye(3))
        and not np.any(model.Xtree[i].r)
        for i, joint in enumerate(model.joint)
    )


def adjacent_bodies(model: Model) -> Iterator[tuple[int, int]]:
    """Yield the pairs of adjacent bodies.

    Adjacent bodies are connected by a joint, or by joints with massless bodies between them.
    """
    yield from (
        (loop.predecessor, loop.successor)
        for loop in model.loops
        if min(loop.predecessor, loop.successor) >= 0
    )
    massless = {model.body_names.index(name) for name in model.massless}
    for i, p in enumerate(model.parent):
        while p >= 0:
            yield p, i
            if p not in massless:
                break
            p = model.parent[p]


def check_kinds(model: Model) -> None:
    """Check that rigid contact supports the types of all tree joints (`KINDS`).

    Raises:
        ValueError: A joint has a type that is not in `KINDS`.
    """
    for name, joint in zip(model.joint_names, model.joint, strict=True):
        if type(joint) not in KINDS:
            known = ", ".join(kind.__name__ for kind in KINDS)
            raise ValueError(
                f"joint '{name}' of model '{model.name}' is of type {type(joint).__name__}; "
                f"rigid contact supports {known}; use a chain of these joints with massless bodies"
            )


CLOSING: tuple[type[Joint], ...] = (Fixed, Revolute, Prismatic, Cylindrical, Spherical, Planar)


@dataclass(frozen=True, eq=False)
class LoopTables:
    """C tables of the loop joints of a model, and of the constraints that they impose.

    A loop joint connects the frame F_p on its predecessor with the frame F_s on its successor. Each
    constraint prevents one relative motion of these frames. The row (6,) of the constraint contains
    the rotation axis or the translation direction of this motion.
    """

    model: Model

    def check(self) -> None:
        """Check that rigid contact supports all loop joints.

        Raises:
            ValueError: A loop joint has a type that is not in `CLOSING`.
        """
        for name, loop in zip(self.model.loop_names, self.model.loops, strict=False):
            if type(loop.joint) not in CLOSING:
                known = ", ".join(kind.__name__ for kind in CLOSING)
                raise ValueError(
                    f"loop joint '{name}' of model '{self.model.name}' is of type "
                    f"{type(loop.joint).__name__}; rigid contact supports loops with {known}"
                )

    @cached_property
    def rows(self) -> tuple[tuple[int, Array], ...]:
        """Loop index and constrained direction (6,) of each constraint.

        The direction is [axis; 0] for a rotation and [0; direction] for a translation.
        """
        found = []
        for k, loop in enumerate(self.model.loops):
            S = _motion_subspace(loop.joint)
            held = (
                np.zeros((3, 0))
                if _rotational_dofs(loop.joint) == 2
                else _orthogonal_complement(S[:3])
            )
            found += [(k, np.array([*way, 0, 0, 0])) for way in held.T]
            found += [(k, np.array([0, 0, 0, *way])) for way in _orthogonal_complement(S[3:]).T]
        return tuple(found)

    def text(self) -> str:
        """Return the C tables of the loop joints, with a dummy row to avoid empty arrays."""
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
                table(
                    "int",
                    "RB_LOOP_TURN",
                    [*(_rotational_dofs(loop.joint) for loop in model.loops), 0],
                ),
                table("double", "RB_LOOP_AXIS", [*axes, np.zeros(3)]),
                table("int", "RB_ROW_LOOP", [*(k for k, _ in rows), 0]),
                table("double", "RB_LOOP_ROW", [*(row for _, row in rows), np.zeros(6)]),
            ]
        )

    def _frames(self) -> Iterator[Array]:
        """Yield the frames F_p and F_s of each loop joint, relative to the body centres of mass."""
        for loop in self.model.loops:
            for body, X in ((loop.predecessor, loop.Xp), (loop.successor, loop.Xs)):
                centre = body_centre(self.model.inertia[body]) if body >= 0 else np.zeros(3)
                yield _row(Transform(X.E, X.r - centre))


def _row(X: Transform) -> Array:
    return np.array([*X.E.T.ravel(), *X.r])


def _motion_subspace(joint: Joint) -> Array:
    """Return the motion subspace (6, k) of a joint at its neutral position."""
    return np.asarray(joint.jcalc(joint.neutral(), np.zeros(joint.nv)).S, dtype=float)


def _rotational_dofs(joint: Joint) -> int:
    """Return the number of rotational degrees of freedom: 0, 1, or 2 for two or more."""
    rank = int(np.linalg.matrix_rank(_motion_subspace(joint)[:3])) if joint.nv else 0
    return 2 if rank > 1 else rank


def _axis(joint: Joint) -> Array:
    """Return the rotation axis (3,) of a joint, or a zero vector if no unique axis exists."""
    if _rotational_dofs(joint) != 1:
        return np.zeros(3)
    S = _motion_subspace(joint)[:3]
    return np.asarray(S[:, np.argmax(np.linalg.norm(S, axis=0))])


def _orthogonal_complement(S: Array) -> Array:
    """Return an orthonormal basis (3, k) of the orthogonal complement of the columns of S."""
    if not S.size or not S.any():
        return np.eye(3)
    U, sizes, _ = np.linalg.svd(S)
    return np.asarray(U[:, int((sizes > 1e-9).sum()) :])
