"""What the models of all algebras share: the connectivity of a kinematic tree, and where its joints
have their variables.
"""

import abc
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from itertools import accumulate, pairwise
from math import isfinite
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Self

import numpy as np

from rigidblocks.algebra.frozen import is_frozen, read_only
from rigidblocks.algebra.spatial import Array
from rigidblocks.joint import LoopJoint, StringConstraint
from rigidblocks.model.resistance import find_idle_joint
from rigidblocks.pictures import Picture, described, picture


class Tree(abc.ABC):
    """A kinematic tree: bodies 0 .. nb-1, joint i from body `parent[i]` to body i, parent -1 the
    fixed base.

    The algorithms take the transforms, inertias and joints from here and the vector operations from
    `algebra`.
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
    unphysical: tuple[str, ...] = ()
    loops: tuple[LoopJoint, ...]
    strings: tuple[StringConstraint, ...]

    def __repr__(self) -> str:
        loops = f", {len(self.loops)} loops" if self.loops else ""
        gravity = ", ".join(f"{g:g}" for g in self.gravity)
        return (
            f"<{type(self).__name__} '{self.name}': {self.nb} bodies, nq = {self.nq}, nv = "
            f"{self.nv}{loops}, gravity ({gravity}) m/s2>"
        )

    def _repr_html_(self) -> str:
        """What notebooks show: a table of the bodies."""
        names = ("base", *self.body_names)
        rows = zip(
            self.body_names, self.joint_names, self.joint, self.parent, self.inertia, strict=True
        )
        cells = (
            (body, joint, type(kind).__name__, names[parent + 1], f"{float(inertia.m):.4g}")
            for body, joint, kind, parent, inertia in rows
        )
        return described(repr(self)[1:-1], ("body", "joint", "", "on", "mass [kg]"), cells)

    def show(self, q: Any = None, path: str | Path | None = None) -> Picture:
        """The page of the robot at q (nq,), with a slider for each joint, as of `show`."""
        return picture(self, q, path)

    @property
    def nb(self) -> int:
        """The number of bodies, and of tree joints."""
        return len(self.parent)

    @cached_property
    def idle_joint(self) -> str | None:
        """The name of a joint that can move without moving any inertia, if there is one."""
        return find_idle_joint(self)

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
        """The number of constraints that the loop joints and the strings impose, dependent ones
        included.
        """
        return sum(self._constraint_counts)

    @cached_property
    def constraint_slices(self) -> tuple[slice, ...]:
        """Where loop joint l has its constraints among all of them, and behind them the strings."""
        return _slices(self._constraint_counts)

    @property
    def _constraint_counts(self) -> list[int]:
        size = len(self.algebra.zero())
        return [size - loop.joint.nv for loop in self.loops] + [1] * len(self.strings)

    def at(self, t: Any) -> Self:
        """The model at the time t [s], of joints and strings that depend on time (`Rheonomic`); the
        same where none does. t may be traced.
        """
        if not self.rheonomic:
            return self
        model = copy(self)  # what was worked out of its structure stays
        loops = (replace(loop, joint=loop.joint.at(t)) for loop in self.loops)
        object.__setattr__(model, "joint", tuple(joint.at(t) for joint in self.joint))
        object.__setattr__(model, "loops", tuple(loops))
        object.__setattr__(model, "strings", tuple(string.at(t) for string in self.strings))
        return model

    @cached_property
    def rheonomic(self) -> bool:
        """Whether a joint or a string depends on time."""
        joints = (*self.joint, *(loop.joint for loop in self.loops))
        return any(joint.at(0.0) is not joint for joint in joints) or any(
            string.rheonomic for string in self.strings
        )

    def check_no_strings(self, what: str) -> None:
        """Raises ValueError for a model with strings, of which `what` knows nothing."""
        if self.strings:
            names = ", ".join(self.loop_names[len(self.loops) :])
            raise ValueError(
                f"model '{self.name}' has the strings {names}, and {what} is for loop joints alone"
            )

    @property
    def constrained(self) -> bool:
        """Whether loop joints or strings are beyond the tree."""
        return bool(self.loops or self.strings)

    @property
    def spanning_tree(self) -> Self:
        """The same tree without its loop joints and strings."""
        return replace(self, loops=(), strings=())  # type: ignore[type-var]  # the models are dataclasses

    @property
    def loop_names(self) -> tuple[str, ...]:
        """The names of the loop joints and the strings: loop1, ..., string1, ... where they have
        none of their own.
        """
        loops = (loop.name or f"loop{l + 1}" for l, loop in enumerate(self.loops))
        strings = (string.name or f"string{k + 1}" for k, string in enumerate(self.strings))
        return (*loops, *strings)

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


def complete(tree: Tree, dimensions: int) -> None:
    """Makes the lists of a new model tuples, gives it names where it has none, and refuses a
    gravity that has not `dimensions` finite components, with ValueError.
    """
    for name in ("parent", "joint", "Xtree", "inertia", "massless", "loops", "strings"):
        if type(part := getattr(tree, name)) is not tuple:
            object.__setattr__(tree, name, tuple(part))
    object.__setattr__(tree, "body_names", tree.body_names or numbered("body", tree.nb))
    object.__setattr__(tree, "joint_names", tree.joint_names or numbered("joint", tree.nb))
    gravity = np.asarray(tree.gravity)
    if gravity.shape != (dimensions,):
        raise ValueError(
            f"gravity needs {dimensions} components in m/s^2, not shape {gravity.shape}"
        )
    if gravity.dtype.kind != "O" and not all(map(isfinite, gravity.tolist())):
        raise ValueError(f"gravity must be finite, not {gravity}")
    if gravity is not tree.gravity or not is_frozen(gravity):
        object.__setattr__(tree, "gravity", read_only(gravity))


def freeze(tree: Tree) -> None:
    """Gives a new model read-only copies of the arrays that it was made of; what already is one is
    kept.
    """
    Transform, RigidInertia = tree.algebra.Transform, tree.algebra.RigidInertia

    def frame(X: Any) -> Any:
        return X if is_frozen(X.E, X.r) else Transform(read_only(X.E), read_only(X.r))

    def inertia(body: Any) -> Any:
        m, h, I = body.m, body.h, body.I
        return body if is_frozen(h, I) else RigidInertia(m, read_only(h), _read_only_or_number(I))

    object.__setattr__(tree, "Xtree", tuple(map(frame, tree.Xtree)))
    object.__setattr__(tree, "inertia", tuple(map(inertia, tree.inertia)))
    if tree.loops:
        loops = (replace(loop, Xp=frame(loop.Xp), Xs=frame(loop.Xs)) for loop in tree.loops)
        object.__setattr__(tree, "loops", tuple(loops))


def _read_only_or_number(value: Any) -> Any:
    return read_only(value) if np.ndim(value) else value
