"""Force laws of springs, friction and stops along a length, and stability limits of held forces.

A length s is a joint position or the distance between two points, and sd is its derivative. A
positive force increases the length. For forces [N], lengths are distances [m]. For moments [N m],
lengths are angles [rad]. All laws support floats and traced scalars.

`joint_spring`, `viscous_friction` and `coulomb_friction` return joint forces to be added to tau.
Their arguments and results are arrays with one element per variable. Their parameters are arrays,
or one scalar for all variables. The spring does not support joints with a quaternion.

`stable_step` and `stable_spring_hold` return the longest stable step over which a co-simulation
may hold the spring and damper forces.
"""

import abc
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from rigidblocks.spatial.scalar import (
    clip_with_events,
    is_traced,
    less,
    maximum,
    minimum,
    piecewise,
    select,
)
from rigidblocks.spatial.spatial import Array

_LEAST_STIFFNESS = 1e-30  # [N/m] lower bound of K as the divisor in `stop_margin`


class Number(NamedTuple):
    """Description of a parameter: quantity kind, description and bounds.

    `kind` is a key of the unit tables `ROTATION` and `TRANSLATION`. The value is at least `min`, at
    most `max`, and above zero if `positive` is True.
    """

    kind: str
    doc: str
    min: float = -np.inf
    positive: bool = False
    max: float = np.inf


ROTATION = {
    "length": "rad",
    "speed": "rad/s",
    "force": "N.m",
    "stiffness": "N.m/rad",
    "damping": "N.m.s/rad",
    "inertia": "kg.m2",
    "ratio": "1",
    "drag": "N.m.s2/rad2",
    "cubic stiffness": "N.m/rad3",
    "integral gain": "N.m/rad.s",
}
TRANSLATION = {
    "length": "m",
    "speed": "m/s",
    "force": "N",
    "stiffness": "N/m",
    "damping": "N.s/m",
    "inertia": "kg.m2",
    "ratio": "rad/m",
    "drag": "N.s2/m2",
    "cubic stiffness": "N/m3",
    "integral gain": "N/m.s",
}


@dataclass(frozen=True)
class Numbers:
    """Base class of records whose numeric fields can be tunable parameters.

    `quantities` lists these fields. A field may be None only if its default is None.

    Raises:
        TypeError: A parameter is not a number.
        ValueError: A parameter is not finite or is outside its bounds.
    """

    quantities: ClassVar[dict[str, Number]] = {}

    def __post_init__(self) -> None:
        whose = f"of a {type(self).__name__}"
        for name in self.quantities:
            value = getattr(self, name)
            if value is None and getattr(type(self), name, ...) is None:
                continue
            if not _is_number(value):
                raise TypeError(f"{name} {whose} must be a number, not {value!r}")
        for name, (value, about) in self.numbers().items():
            if is_traced(value):
                continue
            least = 0.0 if about.positive else about.min
            allowed = value > least if about.positive else value >= least
            if not (np.isfinite(value) and allowed and value <= about.max):
                bound = "positive" if about.positive else "finite"
                bound += f" and at least {least:g}" if np.isfinite(about.min) else ""
                bound += f" and at most {about.max:g}" if np.isfinite(about.max) else ""
                raise ValueError(f"{name} {whose} must be {bound}, not {value}")

    def numbers(self) -> dict[str, tuple[Any, Number]]:
        """Return the value and the description of each parameter in use, by name."""
        every = ((name, getattr(self, name), about) for name, about in self.quantities.items())
        return {name: (value, about) for name, value, about in every if self._is_used(value)}

    def _is_used(self, value: Any) -> bool:
        """Return True if a parameter with the value `value` is in use."""
        del self
        return value is not None

    def replace_parameters(self, **values: Any) -> Self:
        """Return a copy with new parameter values, floats or traced values, without checks."""
        other = object.__new__(type(self))
        vars(other).update({**vars(self), **values})
        return other


class Law(Numbers, abc.ABC):
    """Force law: the force as a function of a length and its derivative.

    `state_fields` lists the fields of a law that are states of the plant.
    """

    state_fields: ClassVar[dict[str, Number]] = {}

    @abc.abstractmethod
    def force(self, s: Any, sd: Any) -> Any:
        """Return the force [N or N m] at length s and its rate sd; positive forces increase s."""

    def rates(self, s: Any, sd: Any) -> dict[str, Any]:
        """Return the derivatives of the states in `state_fields`."""
        del s, sd
        return {}

    def margins(self, s: Any, sd: Any) -> tuple[Any, ...]:
        """Return the switching functions; each changes sign when the law changes its branch."""
        del s, sd
        return ()

    def energy(self, s: Any) -> Any:
        """Return the potential energy [J] at the length s."""
        del s
        return 0.0

    @abc.abstractmethod
    def max_stiffness_and_damping(self) -> tuple[float, float]:
        """Return the largest stiffness -df/ds and the largest damping -df/d(sd) of the force f."""

    def decays(self) -> tuple[float, ...]:
        """Return the decay rates [1/s] of the states in `state_fields`."""
        return ()


@dataclass(frozen=True)
class Spring(Law):
    """Spring with a damper in parallel.

        f = -(K (s - rest) + D sd + preload)

    K [N/m or N m/rad] and D [N s/m or N m s/rad] are not negative. `rest` is the free length of the
    spring. `preload` is an additional constant force that pulls the ends together.
    """

    K: Any
    D: Any = 0.0
    rest: Any = 0.0
    preload: Any = 0.0
    quantities: ClassVar = {
        "K": Number("stiffness", "stiffness", 0.0),
        "D": Number("damping", "damping", 0.0),
        "rest": Number("length", "rest length"),
        "preload": Number("force", "constant tension (preload)"),
    }

    def force(self, s: Any, sd: Any) -> Any:
        return joint_spring(s, self.K, self.rest) + viscous_friction(sd, self.D) - self.preload

    def energy(self, s: Any) -> Any:
        longer = s - self.rest
        return self.K * longer * longer / 2 + self.preload * longer

    def max_stiffness_and_damping(self) -> tuple[float, float]:
        return self.K, self.D


@dataclass(frozen=True)
class ConstantForce(Law):
    """Constant force [N or N m]; a positive force increases the length."""

    level: Any
    quantities: ClassVar = {"level": Number("force", "constant force")}

    def force(self, s: Any, sd: Any) -> Any:
        del s, sd
        return self.level

    def energy(self, s: Any) -> Any:
        return -(self.level * s)

    def max_stiffness_and_damping(self) -> tuple[float, float]:
        return 0.0, 0.0


@dataclass(frozen=True)
class Drag(Law):
    """Fluid drag: viscous drag and drag proportional to the squared speed.

        f = -(linear sd + quadratic |sd| sd)

    `linear` [N s/m or N m s/rad] and `quadratic` [N s^2/m^2 or N m s^2/rad^2] are not negative. If
    a coefficient is None, its term is zero and the law has no parameter for it.
    """

    linear: Any = None
    quadratic: Any = None
    quantities: ClassVar = {
        "linear": Number("damping", "viscous drag coefficient", 0.0),
        "quadratic": Number("drag", "quadratic drag coefficient", 0.0),
    }

    def force(self, s: Any, sd: Any) -> Any:
        del s
        f = 0.0 * sd if self.linear is None else -(self.linear * sd)
        return f if self.quadratic is None else f - self.quadratic * np.abs(sd) * sd

    def max_stiffness_and_damping(self) -> tuple[float, float]:
        return 0.0, self.linear or 0.0


@dataclass(frozen=True)
class Friction(Law):
    """Dry and viscous friction, with the Stribeck effect as an option.

        f = -(level tanh(sd / width) + viscous sd)
        level = coulomb (1 + (static / coulomb - 1) exp(-(sd / stribeck)^2))

    `coulomb` [N or N m] is the dry friction force. `backward` is the dry friction force for a
    decreasing length, by default equal to `coulomb`. `width` is the speed at which the dry friction
    reaches 76 % of `level`. This friction cannot hold a load: under a load f0 below `coulomb` the
    motion creeps at the speed `width` artanh(f0 / coulomb). `viscous` is in N s/m or N m s/rad.

    `static` [N or N m] is the dry friction at low speed. `stribeck` is the Stribeck velocity: at
    this speed, `level` - `coulomb` has decreased to 37 % of `static` - `coulomb`. Without `static`
    and `stribeck`, `level` is `coulomb`. Choose `width` well below `stribeck`.

    Raises:
        ValueError: Only one of `static` and `stribeck` is given, or both are given and not
            0 < coulomb <= static.
    """

    coulomb: Any
    viscous: Any = 0.0
    width: Any = 0.01
    backward: Any = None
    static: Any = None
    stribeck: Any = None
    quantities: ClassVar = {
        "coulomb": Number("force", "dry friction", 0.0),
        "viscous": Number("damping", "viscous friction", 0.0),
        "width": Number(
            "speed", "speed at which friction reaches 76 % of the dry friction", positive=True
        ),
        "backward": Number("force", "dry friction for decreasing length", 0.0),
        "static": Number("force", "dry friction at low speed", 0.0),
        "stribeck": Number("speed", "Stribeck velocity", positive=True),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.static is None) != (self.stribeck is None):
            raise ValueError(
                "a Friction needs both `static` and `stribeck` or neither, not static = "
                f"{self.static} and stribeck = {self.stribeck}"
            )
        if self.static is not None and not 0.0 < self.coulomb <= self.static:
            raise ValueError(
                "a Friction with the Stribeck effect needs 0 < coulomb <= static, not coulomb = "
                f"{self.coulomb} and static = {self.static}"
            )

    def force(self, s: Any, sd: Any) -> Any:
        del s
        level = self.coulomb
        if self.backward is not None:
            whole = select(less(sd, 0.0), self.backward, self.coulomb)
            level = piecewise(-sd, self.backward, self.coulomb, whole)
        if self.static is not None:
            ratio = self.static / self.coulomb - 1.0
            level = level * (1.0 + ratio * np.exp(-((sd / self.stribeck) ** 2)))
        return coulomb_friction(sd, level, self.width) + viscous_friction(sd, self.viscous)

    def max_stiffness_and_damping(self) -> tuple[float, float]:
        level = max(self.coulomb, self.backward or 0.0)
        if self.static is not None:
            level = level * self.static / self.coulomb
        return 0.0, level / self.width + self.viscous


@dataclass(frozen=True)
class Stop(Law):
    """Compliant stops at the limits of a length, softened unilateral constraints (RBDA 11.4, 11.8).

        f = max(0, K (lower - s) - D sd)        where s < lower
        f = -max(0, K (s - upper) + D sd)       where s > upper

    The force of a stop is always directed towards the interval between the limits. An infinite
    limit has no stop and no parameter. Between two points, an upper stop acts like a rope, which
    pulls the points together when it is taut.

    Raises:
        ValueError: The upper limit is not above the lower limit.
    """

    K: Any
    D: Any = 0.0
    lower: Any = -np.inf
    upper: Any = np.inf
    quantities: ClassVar = {
        "K": Number("stiffness", "stiffness of the stops", 0.0),
        "D": Number("damping", "damping of the stops", 0.0),
        "lower": Number("length", "position of the lower stop"),
        "upper": Number("length", "position of the upper stop"),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.lower < self.upper:
            raise ValueError(
                "the upper limit of a Stop must be above the lower limit, but they are "
                f"{self.upper} and {self.lower}"
            )

    def _is_used(self, value: Any) -> bool:
        return is_traced(value) or not np.isinf(value)

    def force(self, s: Any, sd: Any) -> Any:
        up = stop_push(self.lower - s, sd, self.K, self.D) if self._is_used(self.lower) else 0.0
        down = stop_push(s - self.upper, -sd, self.K, self.D) if self._is_used(self.upper) else 0.0
        return up - down

    def margins(self, s: Any, sd: Any) -> tuple[Any, ...]:
        ends = [(self.lower, self.lower - s, sd), (self.upper, s - self.upper, -sd)]
        return tuple(
            stop_margin(depth, rate, self.K, self.D)
            for end, depth, rate in ends
            if self._is_used(end)
        )

    def energy(self, s: Any) -> Any:
        ends = [(self.lower, self.lower - s), (self.upper, s - self.upper)]
        depths = [maximum(0.0, depth) for end, depth in ends if self._is_used(end)]
        return sum(self.K * depth * depth / 2 for depth in depths)

    def max_stiffness_and_damping(self) -> tuple[float, float]:
        return self.K, self.D


def stop_push(depth: Any, rate: Any, K: Any, D: Any) -> Any:
    """Return the force K depth - D rate of a stop; zero if this force is negative or depth <= 0.

    `rate` is the speed at which the penetration depth decreases.
    """
    push = K * depth - D * rate
    whole = select(less(0.0, depth), maximum(0.0, push), 0.0)
    return piecewise(stop_margin(depth, rate, K, D), push, 0.0, whole)


def stop_margin(depth: Any, rate: Any, K: Any, D: Any) -> Any:
    """Return the switching function of a stop [m or rad], positive while the stop pushes.

    The arguments are as in `stop_push`.
    """
    return minimum(depth, depth - D / maximum(K, _LEAST_STIFFNESS) * rate)


def viscous_friction(qd: Array, damping: Any) -> Array:
    """Return the viscous friction -d qd, with the damping d [N m s/rad or N s/m]."""
    force: Array = -(np.asarray(damping) * qd)
    return force


def coulomb_friction(qd: Array, level: Any, width: Any) -> Array:
    """Return the dry friction -f tanh(qd / width) with the friction level f [N m or N].

    The force changes its sign smoothly and reaches 76 % of f at the speed `width` [rad/s or m/s].
    The law does not model stiction: under a load below f, a joint creeps at the speed width
    artanh(load / f).

    Raises:
        ValueError: The width is not positive (not checked for traced values).
    """
    if not _is_positive(width):
        raise ValueError(f"the smoothing width of dry friction must be positive, not {width}")
    force: Array = -(np.asarray(level) * np.tanh(qd / np.asarray(width)))
    return force


def joint_spring(q: Array, stiffness: Any, rest: Any = 0.0) -> Array:
    """Return the spring force -k (q - rest), with k [N m/rad or N/m]."""
    force: Array = -(np.asarray(stiffness) * (q - np.asarray(rest)))
    return force


def _is_number(value: Any) -> bool:
    """Return True if a value is one real number or one traced number."""
    is_array = isinstance(value, np.ndarray) and value.shape == ()
    is_traced_number = is_traced(value) and hasattr(value, "__truediv__") and np.ndim(value) == 0
    return isinstance(value, Real) or is_array or is_traced_number


def _is_positive(value: Any) -> bool:
    array = np.asarray(value)  # a traced value cannot be compared
    return bool(array.dtype == object or np.all(array > 0))


@dataclass(frozen=True)
class Stiction(Law):
    """Dry friction with stiction: massless bristles that bend until they slip (RBDA 11.8).

        f_dry = -(K bend + D sd), limited to [-coulomb, backward]
        f = f_dry - viscous sd
        d(bend)/dt = -(K bend + f_dry) / D,  which is sd while the bristles stick

    Under a load f0 below `coulomb` [N or N m], the length changes by f0 / K and then remains
    constant, without creep. `backward` is the friction force for a decreasing length, by default
    equal to `coulomb`. The bristle deflection `bend` is a state of the plant with this element. The
    bristles store the energy K bend^2 / 2.

    K [N/m or N m/rad] and D [N s/m or N m s/rad] are the positive stiffness and damping of the
    bristles. A large K keeps the deflection f0 / K small. Choose K and D as large as the step size
    of the integrator allows. With the effective mass m, an explicit integrator needs steps below
    about 2.8 sqrt(m / K), 2.8 m / D and 2.8 D / K.
    """

    coulomb: Any
    K: Any
    D: Any
    viscous: Any = 0.0
    backward: Any = None
    bend: Any = 0.0
    quantities: ClassVar = {
        "coulomb": Number("force", "dry friction", 0.0),
        "K": Number("stiffness", "stiffness of the bristles", positive=True),
        "D": Number("damping", "damping of the bristles", positive=True),
        "viscous": Number("damping", "viscous friction", 0.0),
        "backward": Number("force", "dry friction for decreasing length", 0.0),
    }
    state_fields: ClassVar = {"bend": Number("length", "deflection of the bristles")}

    def _bristle_force(self, sd: Any) -> Any:
        """Return the force of sticking bristles; sd is the derivative of the length."""
        return -(self.K * self.bend + self.D * sd)

    @property
    def _largest(self) -> Any:
        return self.coulomb if self.backward is None else self.backward

    def _dry_friction(self, sd: Any) -> Any:
        return clip_with_events(self._bristle_force(sd), -self.coulomb, self._largest)

    def force(self, s: Any, sd: Any) -> Any:
        del s
        return self._dry_friction(sd) - self.viscous * sd

    def rates(self, s: Any, sd: Any) -> dict[str, Any]:
        del s
        return {"bend": -(self.K * self.bend + self._dry_friction(sd)) / self.D}

    def margins(self, s: Any, sd: Any) -> tuple[Any, ...]:
        del s
        force = self._bristle_force(sd)
        return force + self.coulomb, self._largest - force

    def energy(self, s: Any) -> Any:
        del s
        return self.K * self.bend * self.bend / 2

    def max_stiffness_and_damping(self) -> tuple[float, float]:
        return self.K, self.D + self.viscous

    def decays(self) -> tuple[float, ...]:
        return (self.K / self.D,)


@dataclass(frozen=True)
class LuGre(Law):
    """LuGre friction: elastic bristles with the Stribeck effect.

        f = -(K bend + D d(bend)/dt + viscous sd)
        d(bend)/dt = sd - K |sd| bend / g
        g = coulomb + (static - coulomb) exp(-(sd / stribeck)^2)

    The deflection `bend` of the bristles is a state of the plant with this element. K and D are the
    stiffness [N/m or N m/rad] and the damping of the bristles, sigma_0 and sigma_1 in the
    literature. `viscous` is sigma_2. At the constant speed sd the force is -(g sign(sd) + viscous
    sd). `static` is by default equal to `coulomb`.

    References:
        C. Canudas de Wit, H. Olsson, K. J. Astrom, P. Lischinsky: A New Model for Control of
        Systems with Friction. IEEE Transactions on Automatic Control 40 (1995), 419-425.

    Raises:
        ValueError: `static` is less than `coulomb`.
    """

    coulomb: Any
    K: Any
    D: Any
    viscous: Any = 0.0
    static: Any = None
    stribeck: Any = 0.001
    bend: Any = 0.0
    quantities: ClassVar = {
        "coulomb": Number("force", "dry friction", positive=True),
        "K": Number("stiffness", "stiffness of the bristles", positive=True),
        "D": Number("damping", "damping of the bristles", 0.0),
        "viscous": Number("damping", "viscous friction", 0.0),
        "static": Number("force", "dry friction at low speed", positive=True),
        "stribeck": Number("speed", "Stribeck velocity", positive=True),
    }
    state_fields: ClassVar = {"bend": Number("length", "deflection of the bristles")}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.static is not None and self.static < self.coulomb:
            raise ValueError(
                "static of a LuGre must be at least coulomb, not static = "
                f"{self.static} and coulomb = {self.coulomb}"
            )

    def level(self, sd: Any) -> Any:
        """Return the dry friction g [N or N m] at the constant speed sd."""
        if self.static is None:
            return self.coulomb
        rise = self.static - self.coulomb
        return self.coulomb + rise * np.exp(-((sd / self.stribeck) ** 2))

    def _bend_rate(self, sd: Any) -> Any:
        return sd - self.K * np.abs(sd) * self.bend / self.level(sd)

    def force(self, s: Any, sd: Any) -> Any:
        del s
        return -(self.K * self.bend + self.D * self._bend_rate(sd) + self.viscous * sd)

    def rates(self, s: Any, sd: Any) -> dict[str, Any]:
        del s
        return {"bend": self._bend_rate(sd)}

    def energy(self, s: Any) -> Any:
        del s
        return self.K * self.bend * self.bend / 2

    def max_stiffness_and_damping(self) -> tuple[float, float]:
        return self.K, self.D + self.viscous


def stable_step(K: float, D: float, m_eff: float, *, lead: bool = False) -> float:
    """Return the longest step h [s] for which a held contact force is stable.

        w0 h < min(4 zeta, 1 / zeta)              if lead is False
        w0 h < 2 (sqrt(1 + zeta^2) - zeta)        if lead is True
        with w0^2 = K / m_eff and zeta = D / (2 sqrt(K m_eff))

    The force of a linear spring-damper is held over the step, and the plant is integrated exactly.
    The force depends on the velocity dp/dt at the beginning of the step, and on a position. If
    `lead` is False, this is the position p at the beginning of the step. If `lead` is True, it is
    the extrapolated position p + h / 2 dp/dt.

    The limit follows from Jury's stability conditions for the characteristic polynomial. If `lead`
    is False, the polynomial is z^2 + z (a + b - 2) + 1 + a - b. If `lead` is True, the polynomial
    is z^2 + z (2 a + b - 2) + 1 - b. Here a = h^2 K / 2 m_eff and b = h D / m_eff. If D is zero, a
    step is stable only if `lead` is True. The second polynomial also applies to sampled friction
    with the tangential stiffness K_t and damping D_t.

    `m_eff` = 1 / (n I^-1 n) [kg] is the effective mass at the contact (`effective_mass`), with the
    contact normal n and the inverse inertia I^-1 of the contact point. For several contacts with
    equal K and D, 1 / m_eff is the largest eigenvalue of N^T I^-1 N, where the columns of N are the
    normals.

    Args:
        K: Stiffness [N/m].
        D: Damping [N s/m].
        m_eff: Effective mass [kg].
        lead: True if the force depends on the extrapolated position p + h / 2 dp/dt.

    Raises:
        ValueError: K or m_eff is not positive, or D is negative.
    """
    if not (np.isfinite([K, m_eff]).all() and min(K, m_eff) > 0 and np.isfinite(D) and D >= 0):
        raise ValueError(
            "a stable step needs a positive stiffness and mass and a non-negative damping, not "
            f"K = {K} N/m, m_eff = {m_eff} kg and D = {D} N s/m"
        )
    if lead:
        return float(np.sqrt(D * D + 4 * K * m_eff) - D) / K
    return min(2 * D / K, 2 * m_eff / D) if D > 0 else 0.0


def stable_spring_hold(A: Array, K: Array, D: Array) -> float:
    """Return the longest step [s] over which the spring and damper forces may be held.

    The forces of n springs are f = -K x - D dx/dt, with the deflections x (n,) and d^2 x/dt^2 = A
    f. The result is 0 if no step is stable, and infinite if no force acts. K and D are (n,); A (n,
    n) is symmetric and positive semidefinite. A step h maps the state (x, w) with w = h dx/dt to
    the state (x', w'). The function finds, to 1 %, the largest h for which no eigenvalue of this
    map has a magnitude above 1:

        x' = x + w - a/2 x - b/2 w,    w' = w - a x - b w,    a = h^2 A K,  b = h A D

    For one spring, the result equals the result of `stable_step`.
    """
    acting = np.flatnonzero((K > 0) | (D > 0))
    sizes, directions = np.linalg.eigh(A[np.ix_(acting, acting)])
    kept = sizes > 1e-12 * np.max(sizes, initial=0.0)
    if not kept.any():
        return float("inf")
    U = directions[:, kept] * np.sqrt(sizes[kept])  # A = U U^T, without immobile directions
    stiffness, damping = (U.T @ (one[acting, None] * U) for one in (K, D))
    return _longest_stable(stiffness, damping)


def _longest_stable(stiffness: Array, damping: Array) -> float:
    """Return the longest stable step [s] of held spring and damper forces on unit masses."""
    w2, d = (float(np.linalg.eigvalsh(one)[-1]) for one in (stiffness, damping))
    longest = 2.0 * min(1.0 / np.sqrt(w2) if w2 > 0 else np.inf, 1.0 / d if d > 0 else np.inf)
    stable, unstable = 0.0, longest
    for points in (122, 13):  # grid spacing of 10 %, then of 1 %
        steps = np.geomspace(max(stable, 1e-5 * longest), unstable, points)
        grow = np.flatnonzero(_spectral_radii(steps, stiffness, damping) > 1.0 + 1e-11)
        if not len(grow):
            return float(longest)
        if grow[0] == 0:
            return stable
        stable, unstable = steps[grow[0] - 1], steps[grow[0]]
    return float(stable)


def _spectral_radii(h: Array, K: Array, D: Array) -> Array:
    """Return the spectral radius (n,) of a step with held spring forces, for each step h (n,) [s].

    All masses are 1 kg; K is the stiffness matrix and D the damping matrix. A step is stable if the
    spectral radius is at most 1.
    """
    a, b, one = h[:, None, None] ** 2 * K, h[:, None, None] * D, np.eye(len(K))
    step = np.block([[one - a / 2, one - b / 2], [-a, one - b]])
    factors: Array = np.abs(np.linalg.eigvals(step)).max(axis=-1)
    return factors
