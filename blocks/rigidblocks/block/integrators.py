"""Fixed-step integrators as data, and the one step that every form of a block takes."""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array

Tableau = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class LinearlyImplicit:
    """What makes a one-step method linearly implicit: its stages solve linear equations with the
    Jacobian df/dx.

        (1 - gamma h df/dx) k_i
            = gamma (f(t + c_i h, x + h sum a_ij k_j) + sum coupling_ij k_j + time_i h df/dt)

    with the derivatives of f at the start of the step, in the form without products by the Jacobian
    (Hairer and Wanner, Solving Ordinary Differential Equations II, IV.7).
    """

    gamma: float
    coupling: Tableau
    time: tuple[float, ...]


@dataclass(frozen=True)
class Collocation:
    """How the stages of a collocation method are found: in coordinates w = there z, in which its
    matrix a is diagonal, and z = back w.

    `roots` are the eigenvalues of a, the first one real, of each pair of the others one; a row of
    `there` is of the real one, and two each are the real and the imaginary part of the others.
    sum error_i z_i with h roots_0 times the rates at the start is the difference to a method of
    lower order (Hairer and Wanner II, IV.8).
    """

    roots: tuple[complex, ...]
    there: Tableau
    back: Tableau
    error: tuple[float, ...]


@dataclass(frozen=True, repr=False)
class Integrator:
    """A one-step method: a Butcher tableau a, b, c with the error order `order`, explicit unless
    `implicit` or `collocation` is given.

    `a_position` and `b_position` are the tableau of the states whose rate is another state
    (positions); without them all states share one tableau. `dense` has the coefficients of
    b_i(delta) = sum_j dense_ij delta^j, j from 1 on, with which x + h sum b_i(delta) k_i is the
    state inside a step, at t + delta h. `error` has the weights of h sum error_i k_i, an estimate
    of the error of a step, whose last stage is at its end.
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
        return f"<{self.name}>"  # without its tableau

    @property
    def stages(self) -> int:
        """The number of evaluations of the derivative in a step."""
        return len(self.b)

    @property
    def position_tableau(self) -> tuple[Tableau, tuple[float, ...]]:
        """The tableau (a, b) of the positions."""
        return self.a_position or self.a, self.b_position or self.b


EULER = Integrator("euler", 1, a=((),), b=(1.0,), c=(0.0,))
# velocities by Euler, positions with the new velocities
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
# Dormand and Prince 1980, 5(4), with the interpolant of Shampine 1986; the last stage is at the
# end, where the next step begins
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
# for stiff blocks, L-stable: one step of any length brings what decays fast to rest. This one has
# one stage, and so sees one law of force in a step; those of more stages may throw when a stiff
# contact opens or closes within a step
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
    error=(0.0, 0.0, 0.0, 1.0),
)
_A4 = (-7.170454962423024, -4.741636671481785, -16.31002631330971, -1.062004044111401)
# Steinebach 1995, RODAS4P, 4(3): stiffly accurate, without order reduction of linear stiff parts
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
    error=(0.0, 0.0, 0.0, 0.0, 0.0, 1.0),
)

# Radau IIA with five stages, stiffly accurate and of order 9 (Hairer and Wanner 1999); its error is
# the difference to a method of order 5
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
        there=(
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
        back=(
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
    """The flat states after one step of length h from t by an explicit method:

        x + h sum b_i k_i,    k_i = derivative(t + c_i h, x_i)

    `position` (n,) marks the states that follow the position tableau.
    """
    k = stage_rates(method, derivative, t, x, h, position)
    return stepped(x, h, k, method.b, method.position_tableau[1], position)


def stage_rates(
    method: Integrator,
    derivative: Callable[[Any, Array], Array],
    t: Any,
    x: Array,
    h: float,
    position: Array,
) -> list[Array]:
    """The rates k_i of the stages of one step by an explicit method; the arguments are those of
    `integrate`.
    """
    k: list[Array] = []
    for a, a_p, c in zip(method.a, method.position_tableau[0], method.c, strict=True):
        k.append(derivative(t + c * h, stepped(x, h, k, a, a_p, position)))
    return k


def stepped(
    x: Array,
    h: float,
    k: list[Array],
    b: tuple[float, ...],
    b_position: tuple[float, ...],
    position: Array,
) -> Array:
    """The states x + h sum b_i k_i, where the positions have weights of their own."""
    pairs = zip(k, b, b_position, strict=True)
    x_next: Array = x + h * sum(
        (np.where(position, w_p, w) * k_i for k_i, w, w_p in pairs), start=0.0
    )
    return x_next
