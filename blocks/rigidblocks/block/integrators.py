"""One-step integration methods: coefficients, explicit steps and linearly implicit steps."""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from rigidblocks.spatial.linear_algebra import linear_solver
from rigidblocks.spatial.spatial import Array

Tableau = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class LinearlyImplicit:
    """Coefficients of a linearly implicit (Rosenbrock) method.

    The stage derivatives k_i of a step of size h from the states x at time t satisfy

        (1 - gamma h df/dx) k_i
            = gamma (f(t + c_i h, x + h sum a_ij k_j) + sum coupling_ij k_j + time_i h df/dt)

    f(t, x) are the state derivatives, and 1 on the left is the identity matrix. The attributes of
    this class are the number gamma, the matrix `coupling` and the vector `time` with one element
    per stage. The coefficients a and c are attributes of `Integrator`. The Jacobian df/dx and df/dt
    are evaluated at the start of the step. This form avoids products with the Jacobian (Hairer and
    Wanner, Solving Ordinary Differential Equations II, IV.7).
    """

    gamma: float
    coupling: Tableau
    time: tuple[float, ...]


@dataclass(frozen=True)
class Collocation:
    """Coefficients that decouple the equations of the stages z of a collocation method.

        w = to_modal z,    z = from_modal w

    The modal coordinates w diagonalize the Butcher matrix a of the method (Hairer and Wanner II,
    IV.8).

    Attributes:
        roots: Eigenvalues of a: the real eigenvalue, then one eigenvalue of each complex pair.
        to_modal: Transformation matrix. The first row belongs to the real eigenvalue. Two rows
            for the real and the imaginary part follow for each complex pair.
        from_modal: Inverse transformation matrix.
        error: Weights of the error estimate sum error_i z_i + h roots_0 f(t, x), where h is the
            step size and f(t, x) are the state derivatives at the start of the step. The estimate
            is the difference to a method of lower order.
    """

    roots: tuple[complex, ...]
    to_modal: Tableau
    from_modal: Tableau
    error: tuple[float, ...]


@dataclass(frozen=True, repr=False)
class Integrator:
    """One-step integration method with the Butcher tableau a, b, c.

    The method is explicit unless `implicit` or `collocation` is set. Positions are states whose
    derivative is another state.

    Attributes:
        name: Name.
        order: Order of convergence.
        a: Weights of the stage derivatives in the stages.
        b: Weights of the stage derivatives in the step.
        c: Stage times, as fractions of the step.
        a_position: Weights `a` for positions, or None if they equal `a`.
        b_position: Weights `b` for positions, or None if they equal `b`.
        dense: Coefficients of b_i(delta) = sum_j dense_ij delta^j with j >= 1. The state at t +
            delta h is x + h sum b_i(delta) k_i. For linearly implicit methods, the coefficients are
            the smallest coefficients that satisfy the order conditions for each delta.
        implicit: Coefficients of a linearly implicit method.
        error: Weights of the error estimate h sum error_i k_i. The last stage is at the end of the
            step.
        collocation: Coefficients of a collocation method.
    """

    name: str
    order: int
    a: Tableau
    b: tuple[float, ...]
    c: tuple[float, ...]
    a_position: Tableau | None = None
    b_position: tuple[float, ...] | None = None
    dense: Tableau | None = None
    implicit: LinearlyImplicit | None = None
    error: tuple[float, ...] | None = None
    collocation: Collocation | None = None

    def __repr__(self) -> str:
        return f"<{self.name}>"  # without the tableau

    @property
    def stages(self) -> int:
        """Number of derivative evaluations per step."""
        return len(self.b)

    @property
    def position_tableau(self) -> tuple[Tableau, tuple[float, ...]]:
        """Weights a and b of the Butcher tableau for positions."""
        return self.a_position or self.a, self.b_position or self.b


EULER = Integrator("euler", 1, a=((),), b=(1.0,), c=(0.0,))
# The velocities take an explicit Euler step; the positions take a step with the new velocities.
SEMI_IMPLICIT_EULER = Integrator(
    "semi-implicit euler",
    1,
    a=((), (1.0,)),
    b=(1.0, 0.0),
    c=(0.0, 1.0),
    a_position=((), (0.0,)),
    b_position=(0.0, 1.0),
)
HEUN = Integrator(
    "heun", 2, a=((), (1.0,)), b=(0.5, 0.5), c=(0.0, 1.0), dense=((1.0, -0.5), (0.0, 0.5))
)
RK4 = Integrator(
    "rk4",
    4,
    a=((), (0.5,), (0.0, 0.5), (0.0, 0.0, 1.0)),
    b=(1 / 6, 1 / 3, 1 / 3, 1 / 6),
    c=(0.0, 0.5, 0.5, 1.0),
    dense=((1.0, -3 / 2, 2 / 3), (0.0, 1.0, -2 / 3), (0.0, 1.0, -2 / 3), (0.0, -1 / 2, 2 / 3)),
)
# Dormand and Prince 1980, 5(4), with the interpolant of Shampine 1986. The last stage is at the end
# of the step and is the first stage of the next step.
DORMAND_PRINCE = Integrator(
    "dormand-prince",
    5,
    a=(
        (),
        (1 / 5,),
        (3 / 40, 9 / 40),
        (44 / 45, -56 / 15, 32 / 9),
        (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
        (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
        (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
    ),
    b=(35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0.0),
    c=(0.0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0),
    dense=(
        (1.0, -2.8535800653862835, 3.0717434641059005, -1.1270175653862835),
        (0.0, 0.0, 0.0, 0.0),
        (0.0, 4.023133379230305, -6.249321565289, 2.675424484351598),
        (0.0, -3.7324019615885042, 10.068970589843675, -5.685526961588504),
        (0.0, 2.5548038301849423, -6.399112377351017, 3.5219323679207912),
        (0.0, -1.3744241142186024, 3.272657752246729, -1.7672812570757455),
        (0.0, 1.3824689317781436, -3.764937863556287, 2.382468931778144),
    ),
    error=(
        71 / 57600,
        0.0,
        -71 / 16695,
        71 / 1920,
        -17253 / 339200,
        22 / 525,
        -1 / 40,
    ),
)
# L-stable methods for stiff blocks. Fast modes decay within one step of any size. The one-stage
# method evaluates the forces once per step. Methods with more stages may accelerate bodies wrongly
# if a stiff contact opens or closes within a step.
LINEARLY_IMPLICIT_EULER = Integrator(
    "linearly implicit euler",
    1,
    a=((),),
    b=(1.0,),
    c=(0.0,),
    implicit=LinearlyImplicit(1.0, ((),), (1.0,)),
)
_G = 1 - 1 / sqrt(2)
# Verwer, Spee, Blom and Hundsdorfer 1999
ROS2 = Integrator(
    "ros2",
    2,
    a=((), (1 / _G,)),
    b=(1.5 / _G, 0.5 / _G),
    c=(0.0, 1.0),
    dense=((1.0, 1.5 / _G - 1), (1 - 1 / _G, 1.5 / _G - 1)),
    implicit=LinearlyImplicit(_G, ((), (-2 / _G,)), (_G, -_G)),
)
# Sandu et al. 1997: stiffly accurate
RODAS3 = Integrator(
    "rodas3",
    3,
    a=((), (0.0,), (2.0, 0.0), (2.0, 0.0, 1.0)),
    b=(2.0, 0.0, 1.0, 1.0),
    c=(0.0, 0.0, 1.0, 1.0),
    implicit=LinearlyImplicit(
        0.5, ((), (4.0,), (1.0, -1.0), (1.0, -1.0, -8 / 3)), (0.5, 1.5, 0.0, 0.0)
    ),
    dense=((5.0, -3.0), (-1.0, 1.0), (13 / 12, -1 / 12), (0.75, 0.25)),
    error=(0.0, 0.0, 0.0, 1.0),
)
_A4 = (-7.170454962423024, -4.741636671481785, -16.31002631330971, -1.062004044111401)
# Steinebach 1995, RODAS4P, 4(3): stiffly accurate, no order reduction for linear stiff problems
RODAS4P = Integrator(
    "rodas4p",
    4,
    a=(
        (),
        (3.0,),
        (1.831036793486759, 0.4955183967433795),
        (2.304376582692669, -0.05249275245743001, -1.176798761832782),
        _A4,
        (*_A4, 1.0),
    ),
    b=(*_A4, 1.0, 1.0),
    c=(0.0, 0.75, 0.21, 0.63, 1.0, 1.0),
    implicit=LinearlyImplicit(
        0.25,
        (
            (),
            (-12.0,),
            (-8.791795173947035, -2.207865586973518),
            (10.81793056857153, 6.780270611428266, 19.53485944642410),
            (34.19095006749676, 15.49671153725963, 54.74760875964130, 14.16005392148534),
            (
                34.62605830930532,
                15.30084976114473,
                56.99955578662667,
                18.40807009793095,
                -5.714285714285717,
            ),
        ),
        (0.25, -0.5, -0.023504, -0.0362, 0.0, 0.0),
    ),
    dense=(
        (17.96905173514828, -22.84068920582338, -2.298817491747989),
        (6.860155619858084, -12.6365933675646, 1.034801076224697),
        (12.39230902654984, -16.80457124647968, -11.89776409337999),
        (-6.328279212762339, 27.70991781501948, -22.44364264636857),
        (0.8394895539447477, -4.325186559988873, 4.485697006044133),
        (0.5417506006439328, -1.584880740387615, 2.043130139743681),
    ),
    error=(0.0, 0.0, 0.0, 0.0, 0.0, 1.0),
)

# Radau IIA with five stages, stiffly accurate and of order 9 (Hairer and Wanner 1999). The error
# estimate is the difference to a method of order 5.
RADAU = Integrator(
    "radau",
    9,
    a=(
        (
            0.07299886431790333,
            -0.02673533110794557,
            0.018676929763984353,
            -0.01287910609330644,
            0.005042839233882015,
        ),
        (
            0.15377523147918246,
            0.14621486784749352,
            -0.03644456890512809,
            0.02123306311930472,
            -0.007935579902728777,
        ),
        (
            0.14006304568480987,
            0.29896712949128346,
            0.16758507013524895,
            -0.03396910168661774,
            0.010944288744192253,
        ),
        (
            0.14489430810953477,
            0.2765000687601592,
            0.32579792291042103,
            0.12875675325490976,
            -0.015708917378805327,
        ),
        (0.14371356079122594, 0.28135601514946207, 0.31182652297574126, 0.22310390108357075, 0.04),
    ),
    b=(0.14371356079122594, 0.28135601514946207, 0.31182652297574126, 0.22310390108357075, 0.04),
    c=(0.05710419611451768, 0.2768430136381238, 0.5835904323689168, 0.8602401356562195, 1.0),
    collocation=Collocation(
        roots=(
            (0.15906584442746913 + 0j),
            (0.13317907701829965 + 0.07499451183581861j),
            (0.06506577854574351 + 0.11646852774031705j),
        ),
        to_modal=(
            (
                27.697693775684066,
                12.783337911304407,
                3.2084893867134436,
                -0.9514904122489136,
                0.7415504960259902,
            ),
            (
                -33.041880213518944,
                -17.37695347906356,
                -0.1721290632540259,
                -0.099169777982543,
                0.5312281158383051,
            ),
            (
                8.611443979875306,
                -9.699991409528778,
                -1.914728639696876,
                -2.4186920060849406,
                1.0474634879353364,
            ),
            (
                5.3441864378348845,
                4.593615567759155,
                -3.036360323459418,
                1.0506601902314567,
                -0.27277861186429536,
            ),
            (
                -3.7480598074398097,
                3.9849657363438684,
                1.044415641608016,
                -1.1840985681379481,
                0.44991777015677953,
            ),
        ),
        from_modal=(
            (
                0.013576867344947851,
                -0.011478515255229568,
                0.014019858892875475,
                -0.010242047817908826,
                -0.04767387729029579,
            ),
            (
                0.0016179004017191502,
                -0.007668830749180203,
                -0.024708578426518517,
                0.050172864517371255,
                0.09433181918161158,
            ),
            (
                0.07915785334744688,
                0.019398463998828754,
                -0.0818003537037511,
                -0.23053953404341834,
                -0.10270304538012552,
            ),
            (
                0.4122560826804609,
                0.40760117128019857,
                -0.19968242788680238,
                0.37789390224886105,
                -0.4667441303324945,
            ),
            (1.0, 1.0, 0.0, 1.0, 0.0),
        ),
        error=(
            -4.418997716796381,
            0.57923485225667,
            -0.199237560953468,
            0.09416748369194548,
            -0.03181316888549383,
        ),
    ),
)

INTEGRATORS = {
    method.name: method
    for method in (
        EULER,
        SEMI_IMPLICIT_EULER,
        HEUN,
        RK4,
        DORMAND_PRINCE,
        LINEARLY_IMPLICIT_EULER,
        ROS2,
        RODAS3,
        RODAS4P,
    )
}


def integrate(
    method: Integrator,
    derivative: Callable[[Any, Array], Array],
    t: Any,
    x: Array,
    h: float,
    position: Array,
) -> Array:
    """Return the states (n,) after one step of an explicit method.

        x + h sum b_i k_i,    k_i = derivative(t + c_i h, x_i)

    The method defines the weights b_i, the stage times c_i and the stages x_i.

    Args:
        method: Explicit method.
        derivative: Function (t, x) that returns the state derivatives (n,).
        t: Time at the start [s].
        x: States at the start (n,).
        h: Step size [s].
        position: Mask (n,) of the positions: states whose derivative is another state.
    """
    k = stage_rates(method, derivative, t, x, h, position)
    return combine_stages(x, h, k, method.b, method.position_tableau[1], position)


def stage_rates(
    method: Integrator,
    derivative: Callable[[Any, Array], Array],
    t: Any,
    x: Array,
    h: float,
    position: Array,
) -> list[Array]:
    """Return the stage derivatives k_i (n,) of one explicit step; arguments as in `integrate`."""
    k: list[Array] = []
    for a, a_p, c in zip(method.a, method.position_tableau[0], method.c, strict=True):
        k.append(derivative(t + c * h, combine_stages(x, h, k, a, a_p, position)))
    return k


def combine_stages(
    x: Array,
    h: float,
    k: list[Array],
    b: tuple[float, ...],
    b_position: tuple[float, ...],
    position: Array,
) -> Array:
    """Return the states x + h sum b_i k_i (n,), with the weights `b_position` for positions.

    `position` is the mask (n,) of the positions.
    """
    pairs = zip(k, b, b_position, strict=True)
    x_next: Array = x + h * sum(
        (np.where(position, w_p, w) * k_i for k_i, w, w_p in pairs), start=0.0
    )
    return x_next


def integrate_implicitly(
    method: Integrator,
    derivative: Callable[[Any, Array], Array],
    jacobian: Callable[[Any, Array], tuple[Array, Array]],
    t: Any,
    x: Array,
    h: float,
) -> Array:
    """Return the states x + h sum b_i k_i after one linearly implicit step.

    Args:
        method: Linearly implicit method with the equations of `LinearlyImplicit`.
        derivative: Function (t, x) that returns the state derivatives (n,).
        jacobian: Function (t, x) that returns df/dx (n, n) and df/dt (n,).
        t: Time at the start [s].
        x: States at the start (n,).
        h: Step size [s].

    Returns:
        States at the end (n,).
    """
    k = implicit_stages(method, derivative, jacobian(t, x), t, x, h, derivative(t, x))
    x_next: Array = x + h * weighted_sum(method.b, k)
    return x_next


def implicit_stages(
    method: Integrator,
    derivative: Callable[[Any, Array], Array],
    jacobian: tuple[Array, Array],
    t: Any,
    x: Array,
    h: float,
    f: Array,
) -> list[Array]:
    """Return the stages k_i (n,) of a linearly implicit step (`LinearlyImplicit`).

    The arguments are as in `integrate_implicitly`. `f` contains the state derivatives (n,) at the
    start, and `jacobian` contains df/dx (n, n) and df/dt (n,) at the start.
    """
    assert method.implicit is not None
    gamma, (J, f_t) = method.implicit.gamma, jacobian
    solve = linear_solver(np.eye(len(x)) - (gamma * h) * J)
    k: list[Array] = []
    for a, c, coupling, time in zip(
        method.a, method.c, method.implicit.coupling, method.implicit.time, strict=True
    ):
        if k:
            f = derivative(t + c * h, x + h * weighted_sum(a, k))
        k.append(solve(gamma * (f + weighted_sum(coupling, k) + (time * h) * f_t)))
    return k


def weighted_sum(weights: tuple[float, ...], k: list[Array]) -> Any:
    """Return the weighted sum (n,) of the stage derivatives k_i (n,)."""
    return sum((w * k_i for w, k_i in zip(weights, k, strict=True)), start=0.0)
