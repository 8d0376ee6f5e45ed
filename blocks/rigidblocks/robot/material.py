"""Surface materials and their combination for a pair of touching shapes."""

from dataclasses import dataclass, fields
from math import sqrt
from sys import float_info


@dataclass(frozen=True)
class Material:
    """Contact properties of a surface.

    Attributes:
        name: The name of the material, for the option `material_pairs` of contact plants.
        mu: The coefficient of sliding friction.
        mu_static: The coefficient of static friction, at least `mu`; by default `mu`.
        e: Newton's coefficient of restitution, 0 to 1.
        torsional: The maximum friction torque about the normal at each contact point, divided by
            the normal force [m].
        rolling: The maximum rolling friction torque about the tangents at each contact point,
            divided by the normal force [m]. The braking force on a ball on a plane is `rolling`
            divided by the ball radius, times the weight of the ball.
        stiffness: The stiffness K of compliant contact [N/m]; rigid contact ignores it.
        damping: The damping D of compliant contact [N.s/m]; rigid contact ignores it.

    Raises:
        ValueError: A value is outside its range.
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
                f"the static friction of material '{self.name}' must be at least its sliding "
                f"friction, but mu_static = {self.mu_static} is below mu = {self.mu}"
            )


def combine_materials(a: Material, b: Material) -> Material:
    """Return the combined material of the surfaces `a` and `b` of a pair of shapes.

    mu, mu_static and e are the geometric means of the two values. torsional and rolling are the
    larger values. K is the stiffness of the springs K_a and K_b in series. D dissipates the same
    power as the dampers D_a and D_b, which are parallel to these springs:

        K = K_a K_b / (K_a + K_b),  D = D_a (K / K_a)^2 + D_b (K / K_b)^2

    If one material does not define K, the values K and D of the other material apply. If both
    materials define K, an undefined D is zero.
    """
    K, D = _series_spring_damper(a, b)
    return Material(
        f"{a.name}, {b.name}",
        sqrt(a.mu * b.mu),
        sqrt(static_friction(a) * static_friction(b)),
        sqrt(a.e * b.e),
        max(a.torsional, b.torsional),
        max(a.rolling, b.rolling),
        K,
        D,
    )


def static_friction(material: Material) -> float:
    """Return the coefficient of static friction."""
    return material.mu if material.mu_static is None else material.mu_static


def _series_spring_damper(a: Material, b: Material) -> tuple[float | None, float | None]:
    """Return the stiffness K and damping D of two materials a and b in series."""
    if a.stiffness is None or b.stiffness is None:
        one = b if a.stiffness is None else a
        return one.stiffness, one.damping
    whole = a.stiffness + b.stiffness
    if whole == 0.0:
        return 0.0, 0.0
    K = a.stiffness * b.stiffness / whole
    given = ((a.damping, b.stiffness / whole), (b.damping, a.stiffness / whole))
    return K, sum(D * part**2 for D, part in given if D is not None)
