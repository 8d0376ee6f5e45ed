"""The classic set of stiff problems with published solutions.

Sources: Mazzia and Magherini, Test Set for Initial Value Problem Solvers; Hairer and Wanner II,
IV.10.
"""

from dataclasses import dataclass, field

import numpy as np

from rigidblocks import Block, Port


@dataclass(frozen=True, eq=False)
class Problem(Block):
    """dx/dt = rates(x), solved from `start` to `end`."""

    rates: object
    start: tuple[float, ...]
    end: float
    solution: tuple[float, ...] = field(repr=False)
    nominal: tuple[float, ...] | float = 1.0

    @property
    def states(self):
        size = len(self.start)
        return (Port("x", (size,), "1", "x", self.start, nominal=self.nominal),)

    @property
    def outputs(self):
        return self.states

    def derivative(self, x):
        return {"x": np.array(self.rates(*x.x))}


def robertson(a, b, c):
    slow, fast, square = 0.04 * a, 1e4 * b * c, 3e7 * b * b
    return [fast - slow, slow - fast - square, square]


def hires(a, b, c, d, e, f, g, h):
    return [
        -1.71 * a + 0.43 * b + 8.32 * c + 0.0007,
        1.71 * a - 8.75 * b,
        -10.03 * c + 0.43 * d + 0.035 * e,
        8.32 * b + 1.71 * c - 1.12 * d,
        -1.745 * e + 0.43 * f + 0.43 * g,
        -280.0 * f * h + 0.69 * d + 1.71 * e - 0.43 * f + 0.69 * g,
        280.0 * f * h - 1.81 * g,
        -280.0 * f * h + 1.81 * g,
    ]


def van_der_pol(a, b):
    """Return van der Pol's rates in original time, with mu = 1e3."""
    return [b, 1e3 * (1.0 - a * a) * b - a]


def van_der_pol_scaled(a, b):
    """Return van der Pol's rates in the scaled time t / mu, with mu = 1e6."""
    return [b, ((1.0 - a * a) * b - a) * 1e6]


def oregonator(a, b, c):
    return [
        77.27 * (b + a * (1.0 - 8.375e-6 * a - b)),
        (c - (1.0 + a) * b) / 77.27,
        0.161 * (a - c),
    ]


# reactions that produce and consume each substance
MADE = (
    (2, 3, 9, 11, 12, 22, 25), (1, 21), (1, 17, 19, 22), (15,), (4, 4, 6, 7, 13, 20),
    (3, 18, 18), (13,), (4, 5, 6, 7), (), (7, 9), (8, 11), (9,), (10,), (12,), (14,), (16,),
    (), (20,), (23, 25), (24,),
)  # fmt: skip
USED = (
    (1, 10, 14, 23, 24), (2, 3, 9, 12), (15,), (2, 16, 17, 23), (3,), (6, 8, 14, 20),
    (4, 5, 6), (), (7, 8), (12,), (9, 10), (), (11,), (13,), (), (18, 19), (20,), (),
    (21, 22, 24), (25,),
)  # fmt: skip


def pollution(*y):
    """Return the rates of twenty air pollutants with twenty-five reactions."""
    (y1, y2, y3, y4, y5, y6, y7, _, y9, y10, y11, _, y13, y14, _, y16, y17, _, y19, y20) = y
    r = (
        0.35 * y1, 26.6 * y2 * y4, 12300.0 * y5 * y2, 0.00086 * y7, 0.00082 * y7,
        15000.0 * y7 * y6, 0.00013 * y9, 24000.0 * y9 * y6, 16500.0 * y11 * y2, 9000.0 * y11 * y1,
        0.022 * y13, 12000.0 * y10 * y2, 1.88 * y14, 16300.0 * y1 * y6, 4.8e6 * y3,
        0.00035 * y4, 0.0175 * y4, 1e8 * y16, 4.44e11 * y16, 1240.0 * y17 * y6,
        2.1 * y19, 5.78 * y19, 0.0474 * y1 * y4, 1780.0 * y19 * y1, 3.12 * y20,
    )  # fmt: skip
    return [
        sum((r[k - 1] for k in plus), 0.0) - sum((r[k - 1] for k in minus), 0.0)
        for plus, minus in zip(MADE, USED, strict=True)
    ]


AIR = np.zeros(20)
AIR[[1, 3, 6, 7, 8, 16]] = 0.2, 0.04, 0.1, 0.3, 0.01, 0.007
POLLUTION = (
    0.5646255480022769e-1, 0.1342484130422339, 0.4139734331099427e-8, 0.5523140207484359e-2,
    0.2018977262302196e-6, 0.1464541863493966e-6, 0.7784249118997964e-1, 0.3245075353396018,
    0.7494013383880406e-2, 0.1622293157301561e-7, 0.1135863833257075e-7, 0.2230505975721359e-2,
    0.2087162882798630e-3, 0.1396921016840158e-4, 0.8964884856898295e-2, 0.4352846369330103e-17,
    0.6899219696263405e-2, 0.1007803037365946e-3, 0.1772146513969984e-5, 0.5682943292316392e-4,
)  # fmt: skip

PROBLEMS = {
    "Robertson": Problem(
        robertson,
        (1.0, 0.0, 0.0),
        1e11,
        (0.2083340149701255e-7, 0.8333360770334713e-13, 0.9999999791665050),
        (1e-8, 1e-13, 1.0),
    ),
    "HIRES": Problem(
        hires,
        (1.0, *[0.0] * 6, 0.0057),
        321.8122,
        (
            0.7371312573325668e-3, 0.1442485726316185e-3, 0.5888729740967575e-4,
            0.1175651343283149e-2, 0.2386356198831331e-2, 0.6238968252742796e-2,
            0.2849998395185769e-2, 0.2850001604814231e-2,
        ),
        1e-4,
    ),
    "van der Pol, 1e3": Problem(
        van_der_pol, (2.0, 0.0), 2000.0, (0.1706167732170469e1, -0.8928097010248125e-3), (1.0, 1e-3)
    ),
    "van der Pol, 1e6": Problem(
        van_der_pol_scaled, (2.0, 0.0), 2.0, (0.1706167732170483e1, -0.8928097010247975)
    ),
    "pollution": Problem(
        pollution, tuple(AIR), 60.0, POLLUTION, tuple(np.maximum(np.abs(POLLUTION), 1e-12))
    ),
    "Oregonator": Problem(
        oregonator,
        (1.0, 2.0, 3.0),
        360.0,
        (0.1000814870318523e1, 0.1228178521549917e4, 0.1320554942846706e3),
    ),
}  # fmt: skip
