"""The joints of a model as the C text of tables, which the C of rigid contact reads
(`c/contact/trees.h`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.contact.scene_tables import table
from rigidblocks.formats.description import Freedoms
from rigidblocks.joint import (
    Fixed,
    Helical,
    Joint,
    Planar,
    Prismatic,
    Revolute,
    SixDoF,
    Spherical,
)
from rigidblocks.model.model import Model

KINDS: dict[type[Joint], int] = {
    Fixed: 0, Revolute: 1, Prismatic: 1, Helical: 1, Spherical: 2, SixDoF: 3, Planar: 4,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class TreeTables:
    """The bodies of a model on trees of joints, and those that are free: on a joint of six freedoms
    to the base, at its origin, and without children.
    """

    model: Model
    freedoms: Freedoms

    @cached_property
    def free(self) -> tuple[bool, ...]:
        """Of each body, whether it is free."""
        return free_bodies(self.model)

    @cached_property
    def links(self) -> tuple[int, ...]:
        """The bodies that are not."""
        return tuple(i for i, free in enumerate(self.free) if not free)

    @cached_property
    def dofs(self) -> tuple[tuple[int, int], ...]:
        """The link of each freedom, and where it is in qd."""
        return tuple(
            (k, j)
            for k, i in enumerate(self.links)
            for j in range(self.model.v_slices[i].start, self.model.v_slices[i].stop)
        )

    @cached_property
    def first(self) -> tuple[int, ...]:
        """The first freedom of each link, or where it would be."""
        sizes = [self.model.joint[i].nv for i in self.links]
        return tuple(int(n) for n in np.cumsum([0, *sizes])[:-1])

    @cached_property
    def leaf(self) -> tuple[int, ...]:
        """The last freedom that moves each body, and -1 for none and for free bodies."""
        leaf: list[int] = []
        for i, p in enumerate(self.model.parent):
            if self.free[i]:
                leaf.append(-1)
                continue
            n, k = self.model.joint[i].nv, self.links.index(i)
            leaf.append(self.first[k] + n - 1 if n else (leaf[p] if p >= 0 else -1))
        return tuple(leaf)

    @cached_property
    def before(self) -> tuple[int, ...]:
        """The freedom before each, -1 for none (the expanded parents of RBDA 6.5)."""
        found = []
        for d, (k, _) in enumerate(self.dofs):
            p = self.model.parent[self.links[k]]
            found.append(d - 1 if d > self.first[k] else (self.leaf[p] if p >= 0 else -1))
        return tuple(found)

    @cached_property
    def depth(self) -> tuple[int, ...]:
        """How many freedoms are before each."""
        depth: list[int] = []
        for p in self.before:
            depth.append(depth[p] + 1 if p >= 0 else 0)
        return tuple(depth)

    def _path(self, d: int) -> Iterator[int]:
        """A freedom and those before it."""
        while d >= 0:
            yield d
            d = self.before[d]

    @cached_property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """The first freedom of the tree of each, and how many there are up to its last one."""
        root: list[int] = []
        for d, p in enumerate(self.before):
            root.append(root[p] if p >= 0 else d)
        last = {r: d for d, r in enumerate(root)}
        first = {r: r for r in last}
        for one, other in self._looped(root):
            low, high = min(first[one], first[other]), max(last[one], last[other])
            for r in (r for r in last if low <= first[r] and last[r] <= high):
                first[r], last[r] = low, high
        return tuple((first[r], last[r] - first[r] + 1) for r in root)

    def _looped(self, root: Sequence[int]) -> Iterator[tuple[int, int]]:
        """The first freedoms of two trees, for each loop between two, until all are named that one
        after the other makes one.
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
        """Of each stop and each dry friction: the freedom, where it is in q, the least and the
        greatest position, and the largest force.
        """
        n, found = self.freedoms, []
        for d, (k, j) in enumerate(self.dofs):
            i = self.links[k]
            at = self.model.q_slices[i].start + j - self.model.v_slices[i].start
            if np.isfinite(n.lower[j]) or np.isfinite(n.upper[j]):
                found.append((d, at, float(n.lower[j]), float(n.upper[j]), np.inf))
            if n.friction[j] > 0:
                found.append((d, at, -np.inf, np.inf, float(n.friction[j])))
        return tuple(found)

    def text(self, apart: Sequence[tuple[int, int]]) -> str:
        """All tables; `apart` are the pairs of bodies that do not touch, nb for what is at rest."""
        parts = (self._bodies(), self._links(), self._dofs(), self._stops())
        lines = (line for part in parts for line in part)
        return "\n".join([self._counts, *lines, _apart(self.model.nb, apart)])

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
        """With one more of each, since C has no array without elements."""
        rows = np.cumsum([0, *(d + 1 for d in self.depth)])
        yield table("int", "RB_DOF_LINK", [*(k for k, _ in self.dofs), 0])
        yield table("int", "RB_DOF_QD", [*(j for _, j in self.dofs), 0])
        yield table("int", "RB_DOF_Q", [*self._places(), 0])
        yield table("int", "RB_DOF_PARENT", [*self.before, -1])
        yield table("int", "RB_DOF_DEPTH", [*self.depth, 0])
        yield table("int", "RB_DOF_ROW", map(int, rows))
        yield table(
            "int", "RB_PATH", [*(e for d in range(len(self.dofs)) for e in self._path(d)), 0]
        )
        yield table("int", "RB_DOF_FIRST", [*(r for r, _ in self.spans), 0])
        yield table("int", "RB_DOF_COUNT", [*(n for _, n in self.spans), 0])
        yield table("double", "RB_DOF_COLUMN", [*self._columns(), np.zeros(6)])
        for name in ("armature", "damping", "stiffness", "rest"):
            values = getattr(self.freedoms, name)
            column = [*(float(values[j]) for _, j in self.dofs), 0.0]
            yield table("double", f"RB_DOF_{name.upper()}", column)

    def _places(self) -> Iterator[int]:
        """Where each freedom is in q."""
        for k, j in self.dofs:
            i = self.links[k]
            yield self.model.q_slices[i].start + j - self.model.v_slices[i].start

    def _columns(self) -> Iterator[Array]:
        for i in self.links:
            joint = self.model.joint[i]
            yield from joint.jcalc(joint.neutral(), np.zeros(joint.nv)).S.T

    def _stops(self) -> Iterator[str]:
        """With one more, for the same reason."""
        columns = zip(*self.stops, (0, 0, 0.0, 0.0, 0.0), strict=True)
        kinds = ("int", "int", "double", "double", "double")
        for kind, name, column in zip(
            kinds, ("DOF", "Q", "LOW", "HIGH", "MOST"), columns, strict=True
        ):
            yield table(kind, f"RB_STOP_{name}", column)


def _apart(nb: int, pairs: Sequence[tuple[int, int]]) -> str:
    keys = sorted({min(pair) * (nb + 1) + max(pair) for pair in pairs})
    count = f"enum {{ RB_APARTS = {len(keys)} }};"
    return f"{count}\n{table('double', 'RB_APART', [*map(float, keys), 0.0])}"


def free_bodies(model: Model) -> tuple[bool, ...]:
    """Of each body, whether it is free: on a joint of six freedoms to the base, at its origin, and
    without children and loops.
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


def neighbours(model: Model) -> Iterator[tuple[int, int]]:
    """The pairs of bodies that a joint connects, or joints with massless bodies between them."""
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
    """Raises ValueError for joints that are not in `KINDS`."""
    for name, joint in zip(model.joint_names, model.joint, strict=True):
        if type(joint) not in KINDS:
            known = ", ".join(kind.__name__ for kind in KINDS)
            raise ValueError(
                f"joint '{name}' of model '{model.name}' is of type {type(joint).__name__}, and "
                f"rigid contact knows {known}: take several of these, with massless bodies between"
            )
