"""The classic set of stiff problems, with the reference values that are published for them (Mazzia
and Magherini, Test Set for Initial Value Problem Solvers; Hairer and Wanner II).

The error at the end is at most ten times the tolerance asked for. It may be much less: the largest
error of all states governs the steps, and the fast ones damp it.
"""

from dataclasses import dataclass, field

import numpy as np
import pytest

from rigidblocks import Block, Port
from rigidblocks.block.adaptive import memory_for, method_of
from rigidblocks.kernels.stepper import compiled_stepper


@dataclass(frozen=True, eq=False)
class Problem(Block):
    """dx/dt = rates(x), to be solved from `start` to `end`."""

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
    return [b, ((1.0 - a * a) * b - a) * 1e6]


def oregonator(a, b, c):
    return [
        77.27 * (b + a * (1.0 - 8.375e-6 * a - b)),
        (c - (1.0 + a) * b) / 77.27,
        0.161 * (a - c),
    ]


PROBLEMS = {
    "robertson": Problem(
        robertson,
        (1.0, 0.0, 0.0),
        1e11,
        (0.2083340149701255e-7, 0.8333360770334713e-13, 0.9999999791665050),
        (1e-8, 1e-13, 1.0),
    ),
    "hires": Problem(
        hires,
        (1.0, *[0.0] * 6, 0.0057),
        321.8122,
        (
            0.7371312573325668e-3,
            0.1442485726316185e-3,
            0.5888729740967575e-4,
            0.1175651343283149e-2,
            0.2386356198831331e-2,
            0.6238968252742796e-2,
            0.2849998395185769e-2,
            0.2850001604814231e-2,
        ),
        1e-4,
    ),
    "van der pol": Problem(
        van_der_pol, (2.0, 0.0), 2.0, (0.1706167732170483e1, -0.8928097010247975)
    ),
    "oregonator": Problem(
        oregonator,
        (1.0, 2.0, 3.0),
        360.0,
        (0.1000814870318523e1, 0.1228178521549917e4, 0.1320554942846706e3),
    ),
}


def error(problem, method, rtol):
    """The largest relative error at the end, in tolerances, and the memory there."""
    method = method_of(method, rtol)
    memory = memory_for(problem, method)
    m, stepper = memory.start(), compiled_stepper(memory, method)
    stepper.initialize(m, 0.0)
    stepper.step(m, 0.0, problem.end)
    return np.max(np.abs(m[memory.x] / problem.solution - 1.0)) / rtol


@pytest.mark.parametrize("rtol", [1e-4, 1e-6, 1e-8])
@pytest.mark.parametrize("method", ["stiff", "adaptive or stiff"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_stiff_problems_are_solved_to_the_tolerance(name, method, rtol):
    assert error(PROBLEMS[name], method, rtol) < 10.0
