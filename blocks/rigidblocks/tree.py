"""What the models of all algebras share: the connectivity of a kinematic tree, and where its joints have their variables."""

import abc
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate, pairwise
from types import ModuleType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.joint import LoopJoint
from rigidblocks.spatial import Array


class Tree(abc.ABC):
    """A kinematic tree: bodies 0 .. nb-1, joint i from body `parent[i]` to body i, parent -1 the fixed base.

    The algorithms take the transforms, inertias and joints from here and the vector operations from `algebra`.
    """

    algebra: ClassVar[ModuleType]
    name: str
    parent: tuple[int, ...]
    joint: tuple[Any, ...]
    Xtree: tuple[Any, ...]
    inertia: tuple[Any, ...]
    gravity: Array
    body_names: tuple[str, ...]
    joint_names: tuple[str, ...]
    massless: tuple[str, ...]
    loops: tuple[LoopJoint, ...]

    @property
    def nb(self) -> int:
        """The number of bodies, and of tree joints."""
        return len(self.parent)

    @cached_property
    def nq(self) -> int:
        """The number of position variables."""
        return sum(joint.nq for joint in self.joint)

    @cached_property
    def nv(self) -> int:
        """The number of velocity variables."""
        return sum(joint.nv for joint in self.joint)

    @cached_property
    def nc(self) -> int:
        """The number of constraints that the loop joints impose, dependent ones included."""
        return sum(len(self.algebra.zero()) - loop.joint.nv for loop in self.loops)

    @cached_property
    def constraint_slices(self) -> tuple[slice, ...]:
        """Where loop joint l has its constraints among all of them."""
        return _slices([len(self.algebra.zero()) - loop.joint.nv for loop in self.loops])

    @property
    def spanning_tree(self) -> Self:
        """The same tree without its loop joints."""
        return replace(self, loops=())  # type: ignore[type-var]  # the models are dataclasses

    @property
    def loop_names(self) -> tuple[str, ...]:
        """The names of the loop joints, loop1, loop2, ... where they have none of their own."""
        return tuple(loop.name or f"loop{l + 1}" for l, loop in enumerate(self.loops))

    @cached_property
    def q_slices(self) -> tuple[slice, ...]:
        """Where joint i has its position variables in q."""
        return _slices([joint.nq for joint in self.joint])

    @cached_property
    def v_slices(self) -> tuple[slice, ...]:
        """Where joint i has its velocity variables in qd, qdd and tau."""
        return _slices([joint.nv for joint in self.joint])


def _slices(sizes: Sequence[int]) -> tuple[slice, ...]:
    ends = list(accumulate(sizes, initial=0))
    return tuple(slice(a, b) for a, b in pairwise(ends))


def numbered(what: str, count: int) -> tuple[str, ...]:
    """The names `what`1, `what`2, ..., for bodies or joints without names of their own."""
    return tuple(f"{what}{i + 1}" for i in range(count))


def checked_gravity(value: ArrayLike, size: int) -> Array:
    """A read-only copy of a gravity vector, which has `size` components; raises ValueError where it has not."""
    gravity = np.asarray(value)
    if gravity.shape != (size,):
        raise ValueError(f"gravity needs {size} components in m/s^2, not shape {gravity.shape}")
    if gravity.dtype != object and not np.all(np.isfinite(gravity)):
        raise ValueError(f"gravity must be finite, not {gravity}")
    gravity = gravity.copy()
    gravity.setflags(write=False)
    return gravity


def check_structure(tree: Tree) -> None:
    """Raises ValueError for lists of different lengths, names that are not unique, no bodies, and a misnumbered parent."""
    lengths = {
        name: len(getattr(tree, name)) for name in ("parent", "joint", "Xtree", "inertia", "body_names", "joint_names")
    }
    if len(set(lengths.values())) > 1:
        n = min(lengths.values())
        short = " and ".join(name for name, length in lengths.items() if length == n)
        raise ValueError(
            f"model '{tree.name}' needs one entry a body in every list, not {lengths}; joint {n} has no {short}"
        )
    for names in (tree.body_names, tree.joint_names):
        if double := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"model '{tree.name}' has two bodies or two joints with the name {', '.join(double)}")
    if not tree.parent:
        raise ValueError(f"model '{tree.name}' has no bodies")
    for i, p in enumerate(tree.parent):
        if not -1 <= p < i:
            raise ValueError(
                f"body {i} of model '{tree.name}' has parent {p}; a parent must be numbered below its child, "
                f"so one of -1 (the base) .. {i - 1}"
            )


def check_rotation(tree: Tree, i: int) -> None:
    """Raises ValueError where `Xtree[i]` is not finite or its E is no rotation."""
    _check_frame(tree.Xtree[i], f"Xtree[{i}] ({tree.joint_names[i]}) of model '{tree.name}'")


def check_massless(tree: Tree) -> None:
    """Raises ValueError for a massless name that is no body, and for a joint that has only massless bodies to move."""
    if unknown := sorted(set(tree.massless) - set(tree.body_names)):
        raise ValueError(f"model '{tree.name}' has no body {', '.join(unknown)} to be massless; it has {tree.body_names}")
    moved = [name not in tree.massless for name in tree.body_names]
    for i in reversed(range(tree.nb)):
        if tree.joint[i].nv and not moved[i]:
            raise ValueError(
                f"{tree.joint_names[i]} of model '{tree.name}' moves no mass: body {i} ({tree.body_names[i]}) and all "
                "that hangs on it is massless"
            )
        if (p := tree.parent[i]) >= 0:
            moved[p] = moved[p] or moved[i]


def check_loops(tree: Tree) -> None:
    """Raises TypeError or ValueError for a loop joint between a body and itself, of bodies that are not there, of another
    algebra, or with frames that are not finite, and for two with one name.
    """
    names = (*tree.joint_names, *tree.loop_names)
    if double := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"model '{tree.name}' has two joints with the name {', '.join(double)}; a loop joint needs its own")
    for name, loop in zip(tree.loop_names, tree.loops, strict=True):
        where = f"{name} of model '{tree.name}'"
        for role in ("predecessor", "successor"):
            if not -1 <= getattr(loop, role) < tree.nb:
                raise ValueError(
                    f"loop joint {where} has {role} {getattr(loop, role)}; the bodies are -1 (the base) .. {tree.nb - 1}"
                )
        if loop.predecessor == loop.successor:
            body = ("the base", *tree.body_names)[loop.predecessor + 1]
            raise ValueError(f"loop joint {where} is between {body} and itself; it must connect two bodies")
        for role in ("Xp", "Xs"):
            if not isinstance(X := getattr(loop, role), tree.algebra.Transform):
                raise TypeError(f"{role} of loop joint {where} is {X!r}; it must be a {tree.algebra.__name__}.Transform")
            _check_frame(X, f"{role} of loop joint {where}")
        S = loop.joint.jcalc(loop.joint.neutral(), np.zeros(loop.joint.nv)).S
        if len(S) != len(tree.algebra.zero()):
            raise ValueError(f"loop joint {where} is {loop.joint}, which is none for vectors of {len(tree.algebra.zero())}")


def _check_frame(X: Any, where: str) -> None:
    if not (np.all(np.isfinite(X.E)) and np.all(np.isfinite(X.r))):
        raise ValueError(f"{where} is not finite: E = {X.E.tolist()}, r = {X.r.tolist()}")
    if np.abs(X.E @ X.E.T - np.eye(len(X.E))).max() > 1e-9 or np.linalg.det(X.E) < 0:
        raise ValueError(f"{where} has no rotation in E = {X.E.tolist()}; E E^T must be 1 and det E = 1")
