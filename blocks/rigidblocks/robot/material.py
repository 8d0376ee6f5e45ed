"""What surfaces are made of, and how two of them work together where they touch."""

from dataclasses import dataclass, fields
from math import sqrt
from sys import float_info


@dataclass(frozen=True)
class Material:
    """What the surface of a shape is to others that it touches.

    `mu` is the friction of what slides, `mu_static` that of what sticks, the same unless given, at
    least `mu`; `e` Newton's restitution, 0 to 1. `torsional` [m] times the normal force is the
    largest moment about the normal, `rolling` [m] that about the tangents, at each point of
    contact: a ball on a plane is braked by rolling / radius times its weight. `stiffness` K [N/m]
    and `damping` D [N.s/m] are those of soft contact, and of no meaning where contact is rigid.
    `name` is for pairs of materials.

    Raises ValueError for numbers that are not of these ranges.
    """

    name: str = ""
    mu: float = 0.5
    mu_static: float | None = None
    e: float = 0.0
    torsional: float = 0.0
    rolling: float = 0.0
    stiffness: float | None = None
    damping: float | None = None

    def __post_init__(self) -> None:
        for part in fields(self)[1:]:
            value, most = getattr(self, part.name), 1.0 if part.name == "e" else float_info.max
            if value is not None and not 0.0 <= value <= most:
                raise ValueError(
                    f"{part.name} of material '{self.name}' must be finite, at least 0"
                    f"{' and at most 1' if part.name == 'e' else ''}, not {value}"
                )
        if self.mu_static is not None and self.mu_static < self.mu:
            raise ValueError(
                f"material '{self.name}' sticks with less than it slides: mu_static = "
                f"{self.mu_static} is below mu = {self.mu}"
            )


def combined(a: Material, b: Material) -> Material:
    """The material of a pair that is not named as one.

    mu, mu_static and e are geometric means, torsional and rolling the larger of the two. K is that
    of two springs in series, and D what their dampers lose together:

        K = K_a K_b / (K_a + K_b),  D = D_a (K / K_a)^2 + D_b (K / K_b)^2

    Where one of the two says no K or D, they are those of the other.
    """
    K, D = _in_series(a, b)
    return Material(
        f"{a.name}, {b.name}",
        sqrt(a.mu * b.mu),
        sqrt(sticking(a) * sticking(b)),
        sqrt(a.e * b.e),
        max(a.torsional, b.torsional),
        max(a.rolling, b.rolling),
        K,
        D,
    )


def sticking(material: Material) -> float:
    """The friction of what sticks."""
    return material.mu if material.mu_static is None else material.mu_static


def _in_series(a: Material, b: Material) -> tuple[float | None, float | None]:
    """K and D of two that may say none."""
    if a.stiffness is None or b.stiffness is None:
        one = b if a.stiffness is None else a
        return one.stiffness, one.damping
    whole = a.stiffness + b.stiffness
    if whole == 0.0:
        return 0.0, 0.0
    K = a.stiffness * b.stiffness / whole
    given = ((a.damping, b.stiffness / whole), (b.damping, a.stiffness / whole))
    return K, sum(D * part**2 for D, part in given if D is not None)
