"""Typed spatial vectors of floats, for scripts (RBDA 1.2, 2.1, A.3).

    f = I @ a + v.cross(I @ v)        X @ v, X @ f, X @ I        v.dot(f)

Forces and motions have different types. The operand types select the operation; an undefined
operation raises TypeError. Constructors accept arrays, and the attribute `array` contains the
components. The algorithms of the package use arrays instead of these types, because arrays are
faster and can be traced.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.common.arrays import read_only
from rigidblocks.spatial import spatial
from rigidblocks.spatial.spatial import Array

Number = (int, float, np.floating, np.integer)


class _Quantity:
    """Base class of typed quantities, which raises TypeError for undefined operations."""

    kind: str
    # prevents NumPy from applying an array operator to the elements of the right operand
    __array_ufunc__ = None

    def _operation_error(self, operation: str, other: Any, right: str) -> TypeError:
        kind = getattr(other, "kind", f"a value of type {type(other).__name__}")
        return TypeError(f"{self.kind} {operation} {kind} is not defined; {right}")


@dataclass(frozen=True, eq=False)
class _Vector(_Quantity):
    """Spatial vector (6,) in Pluecker coordinates, angular part first."""

    array: Array

    def __init__(self, values: ArrayLike):
        array = read_only(np.asarray(values, dtype=float))
        if array.shape != (6,):
            raise ValueError(f"{self.kind} must have 6 components, not shape {array.shape}")
        object.__setattr__(self, "array", array)

    def __add__(self, other: Any) -> Self:
        self._require_same_type("plus", other)
        return type(self)(self.array + other.array)

    def __sub__(self, other: Any) -> Self:
        self._require_same_type("minus", other)
        return type(self)(self.array - other.array)

    def __neg__(self) -> Self:
        return type(self)(-self.array)

    def __mul__(self, factor: Any) -> Self:
        if not isinstance(factor, Number):
            raise self._operation_error(
                "times", factor, "the factor must be a number; use dot or cross for two vectors"
            )
        return type(self)(self.array * factor)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Self:
        return self * (1.0 / divisor)

    def _require_same_type(self, operation: str, other: Any) -> None:
        if type(other) is not type(self):
            raise self._operation_error(operation, other, f"the other operand must be {self.kind}")


class Motion(_Vector):
    """Velocity or acceleration [w; v] (6,)."""

    kind = "a motion"

    def dot(self, other: Any) -> float:
        """Return the power [W] that a force transmits at this velocity (RBDA Eq 2.11)."""
        if not isinstance(other, Force):
            raise self._operation_error(
                "dot",
                other,
                "the other operand must be a force vector: the scalar product of two motion "
                "vectors is not defined",
            )
        return float(self.array @ other.array)

    def cross(self, other: Any) -> Any:
        """Return v x m for a motion m, or v x* f for a force f (RBDA Eq 2.33, 2.34)."""
        if isinstance(other, Motion):
            return Motion(spatial.cross_motion(self.array, other.array))
        if isinstance(other, Force):
            return Force(spatial.cross_force(self.array, other.array))
        raise self._operation_error(
            "cross", other, "the other operand must be a motion vector or a force vector"
        )


class Force(_Vector):
    """Force, impulse or momentum [n; f] (6,)."""

    kind = "a force"

    def dot(self, other: Any) -> float:
        """Return the power [W] that this force transmits at a velocity (RBDA Eq 2.11)."""
        if not isinstance(other, Motion):
            raise self._operation_error(
                "dot",
                other,
                "the other operand must be a motion vector: the scalar product of two force "
                "vectors is not defined",
            )
        return float(self.array @ other.array)


@dataclass(frozen=True, eq=False)
class Inertia(_Quantity):
    """Rigid-body inertia, which maps a motion to a force."""

    rigid: spatial.RigidInertia
    kind = "an inertia"

    def __matmul__(self, other: Any) -> Force:
        if not isinstance(other, Motion):
            raise self._operation_error("of", other, "the other operand must be a motion vector")
        return Force(self.rigid @ other.array)

    def __add__(self, other: Any) -> "Inertia":
        if not isinstance(other, Inertia):
            raise self._operation_error("plus", other, "the other operand must be an inertia")
        return Inertia(self.rigid + other.rigid)

    def inverse(self) -> "InverseInertia":
        """Return the inverse inertia Phi, with a = Phi f (RBDA Eq 2.72)."""
        return InverseInertia(self.rigid.inverse())


@dataclass(frozen=True, eq=False)
class InverseInertia(_Quantity):
    """Inverse inertia (6, 6), the map from the force on a body to the acceleration of the body."""

    array: Array
    kind = "an inverse inertia"

    def __matmul__(self, other: Any) -> Motion:
        if not isinstance(other, Force):
            raise self._operation_error("of", other, "the other operand must be a force vector")
        return Motion(self.array @ other.array)


@dataclass(frozen=True, eq=False)
class Coordinates(_Quantity):
    """Transform X from A to B coordinates (RBDA Table 2.5).

    The operator `@` returns X m for a motion m and X* f for a force f. It returns X* I X^-1 for an
    inertia I and X Phi X^T for an inverse inertia Phi.
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
            return Inertia(other.rigid.transform_to_parent(self.X.inverse()))
        if isinstance(other, InverseInertia):
            X = self.X.matrix()
            return InverseInertia(X @ other.array @ X.T)
        raise self._operation_error(
            "of",
            other,
            "the other operand must be a motion vector, a force vector, an inertia or coordinates",
        )

    def inverse(self) -> "Coordinates":
        """Return the transform from B to A coordinates."""
        return Coordinates(self.X.inverse())
