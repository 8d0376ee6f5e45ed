"""What the models of all algebras share: the connectivity of a kinematic tree, and where its joints have their variables."""

import abc
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

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
    X = tree.Xtree[i]
    where = f"Xtree[{i}] ({tree.joint_names[i]}) of model '{tree.name}'"
    if not (np.all(np.isfinite(X.E)) and np.all(np.isfinite(X.r))):
        raise ValueError(f"{where} is not finite: E = {X.E.tolist()}, r = {X.r.tolist()}")
    if np.abs(X.E @ X.E.T - np.eye(len(X.E))).max() > 1e-9 or np.linalg.det(X.E) < 0:
        raise ValueError(f"{where} has no rotation in E = {X.E.tolist()}; E E^T must be 1 and det E = 1")


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
