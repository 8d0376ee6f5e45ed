"""Spatial vectors that know what they are, for scripts (RBDA 1.2, 2.1, A.3): a force is no motion,
and what has no meaning is refused where it is written.

    f = I @ a + v.cross(I @ v)        X @ v, X @ f, X @ I        v.dot(f)

The operators choose the operation by the types of the operands. The library's own algorithms use
arrays, for speed and to be traced; `array` is a value's, and the types take arrays. In numbers.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra import spatial
from rigidblocks.algebra.frozen import read_only
from rigidblocks.algebra.spatial import Array

Number = (int, float, np.floating, np.integer)


class _Quantity:
    """A typed value, and the error of what has no meaning with it."""

    kind: str
    # numpy must not take a value apart when it stands on the right of an array
    __array_ufunc__ = None

    def _meaningless(self, what: str, other: Any, right: str) -> TypeError:
        kind = getattr(other, "kind", f"a value of type {type(other).__name__}")
        return TypeError(f"{self.kind} {what} {kind} has no meaning; {right}")


@dataclass(frozen=True, eq=False)
class _Vector(_Quantity):
    """Six numbers in Pluecker coordinates, angular part first."""

    array: Array

    def __init__(self, values: ArrayLike):
        array = read_only(np.asarray(values, dtype=float))
        if array.shape != (6,):
            raise ValueError(f"{self.kind} has 6 components, not shape {array.shape}")
        object.__setattr__(self, "array", array)

    def __add__(self, other: Any) -> Self:
        self._same("plus", other)
        return type(self)(self.array + other.array)

    def __sub__(self, other: Any) -> Self:
        self._same("minus", other)
        return type(self)(self.array - other.array)

    def __neg__(self) -> Self:
        return type(self)(-self.array)

    def __mul__(self, factor: Any) -> Self:
        if not isinstance(factor, Number):
            raise self._meaningless(
                "times", factor, "it is multiplied by numbers; see dot and cross"
            )
        return type(self)(self.array * factor)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Self:
        return self * (1.0 / divisor)

    def _same(self, what: str, other: Any) -> None:
        if type(other) is not type(self):
            raise self._meaningless(what, other, f"only {self.kind} can be there")


class Motion(_Vector):
    """A velocity or an acceleration [w; v] (6,)."""

    kind = "a motion"

    def dot(self, other: Any) -> float:
        """The power of a force with this velocity [W] (RBDA Eq 2.11)."""
        if not isinstance(other, Force):
            raise self._meaningless(
                "dot", other, "only a force can be there: motions have no product"
            )
        return float(self.array @ other.array)

    def cross(self, other: Any) -> Any:
        """v x m of a motion, v x* f of a force (RBDA Eq 2.33, 2.34)."""
        if isinstance(other, Motion):
            return Motion(spatial.cross_motion(self.array, other.array))
        if isinstance(other, Force):
            return Force(spatial.cross_force(self.array, other.array))
        raise self._meaningless("cross", other, "a motion or a force can be there")


class Force(_Vector):
    """A force, an impulse or a momentum [n; f] (6,)."""

    kind = "a force"

    def dot(self, other: Any) -> float:
        """The power of this force with a velocity [W] (RBDA Eq 2.11)."""
        if not isinstance(other, Motion):
            raise self._meaningless(
                "dot", other, "only a motion can be there: forces have no product"
            )
        return float(self.array @ other.array)


@dataclass(frozen=True, eq=False)
class Inertia(_Quantity):
    """The inertia of a rigid body: takes its motion to a force."""

    rigid: spatial.RigidInertia
    kind = "an inertia"

    def __matmul__(self, other: Any) -> Force:
        if not isinstance(other, Motion):
            raise self._meaningless("of", other, "only a motion can be there")
        return Force(self.rigid @ other.array)

    def __add__(self, other: Any) -> "Inertia":
        if not isinstance(other, Inertia):
            raise self._meaningless("plus", other, "only an inertia can be there")
        return Inertia(self.rigid + other.rigid)

    def inverse(self) -> "InverseInertia":
        """Phi with a = Phi f (RBDA Eq 2.72)."""
        return InverseInertia(self.rigid.inverse())


@dataclass(frozen=True, eq=False)
class InverseInertia(_Quantity):
    """An inverse inertia (6, 6), that of a constrained body too: takes a force to a motion."""

    array: Array
    kind = "an inverse inertia"

    def __matmul__(self, other: Any) -> Motion:
        if not isinstance(other, Force):
            raise self._meaningless("of", other, "only a force can be there")
        return Motion(self.array @ other.array)


@dataclass(frozen=True, eq=False)
class Coordinates(_Quantity):
    """A change from A to B coordinates, which every quantity makes in its own way (RBDA Table
    2.5): X m, X* f, X* I X^-1, X Phi X^T.
    """

    X: spatial.Transform
    kind = "a change of coordinates"

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, Coordinates):
            return Coordinates(self.X @ other.X)
        if isinstance(other, Motion):
            return Motion(self.X @ other.array)
        if isinstance(other, Force):
            return Force(self.X.force(other.array))
        if isinstance(other, Inertia):
            return Inertia(other.rigid.to_parent(self.X.inverse()))
        if isinstance(other, InverseInertia):
            X = self.X.matrix()
            return InverseInertia(X @ other.array @ X.T)
        raise self._meaningless(
            "of", other, "a motion, a force, an inertia or a change of coordinates can be"
        )

    def inverse(self) -> "Coordinates":
        """From B to A coordinates."""
        return Coordinates(self.X.inverse())
