"""Methods that choose the length of their inner steps by the error that they make, as data, and
what they remember from step to step.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf, isfinite
from numbers import Real

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Block, Port
from rigidblocks.block.integrators import (
    DORMAND_PRINCE,
    INTEGRATORS,
    RADAU,
    RODAS3,
    RODAS4P,
    Integrator,
)
from rigidblocks.block.memory import Memory
from rigidblocks.block.record import offer

MOST_TRIES = 1_000_000  # inner steps in a communication step, beyond which it fails
TEST_TRIES = 10_000  # of which must lead over a hundredth of it
SCREEN_PAUSE = 16  # communication steps that go without the screen after it failed
ENOUGH_SIGNS = 15  # in a row, of stiffness or of its end
MOST_PATIENCE = 63.0
MOST_COLLOCATED = 56  # states, beside another implicit method
# h times the fastest eigenvalue where stability limits the explicit pair: 3.3 is the edge of its
# region, below it the error of what decays fast does, and what is not stiff stays below 1
STABLE = 1.6


@dataclass(frozen=True, repr=False)
class Adaptive:
    """Inner steps that are tried, and taken when their error is at most the tolerance.

    The error of a step from x to x' is the largest |e_i| / (atol_i + rtol max(|x_i|, |x_i'|)) of
    its states, with its estimate e; how far the projection moves them counts as error too. Without
    `atol` it is rtol times the nominal value of a state. The next length follows from the error and
    the one before (Hairer and Wanner II, IV.2).

    `explicit` is an embedded pair. Before it, one step of RK4 over the whole communication step is
    tried, whose change against a method of order 2 costs nothing to know; where nothing happens
    that is all. `stiff` is a linearly implicit pair whose last stage is its error, `collocation` a
    method whose stages are found by Newton's. With an explicit one and implicit ones, the steps
    change from it to those where stability limits them, and back; of two implicit ones to that
    which costs less.

    Without a bound a communication step that takes more than `MOST_TRIES` fails, and soon where the
    first hundredth of those has not led over a hundredth of it.
    After `max_inner_steps` tries in a communication step, for hard real time, one step of linearly
    implicit Euler, or of RK4 where there is no `stiff`, covers the rest, and is counted in what the
    block remembers (`STEP_PORTS`).
    """

    name: str
    explicit: Integrator | None = None
    stiff: Integrator | None = None
    collocation: Integrator | None = None
    rtol: float = 1e-7
    atol: float | None = None
    max_inner_steps: int | None = None
    exact: bool = True

    def __repr__(self) -> str:
        return f"<{self.name}, rtol {self.rtol:g}>"  # without its tableaux

    def __post_init__(self) -> None:
        if not (isfinite(self.rtol) and 1e-13 <= self.rtol <= 0.1):
            raise ValueError(f"rtol must be from 1e-13 to 0.1, not {self.rtol}")
        if self.atol is not None and not (isfinite(self.atol) and self.atol > 0):
            raise ValueError(f"atol must be positive, not {self.atol}")
        if self.max_inner_steps is not None and self.max_inner_steps < 1:
            raise ValueError(f"max_inner_steps must be at least 1, not {self.max_inner_steps}")

    def absolute(self, states: tuple[Port, ...]) -> Array:
        """The absolute tolerance of each element of the states."""
        nominal = nominal_values(states)
        return self.rtol * nominal if self.atol is None else np.full(nominal.shape, self.atol)

    def collocates(self, n: int) -> bool:
        """Whether n states may take steps of collocation.

        Beside linearly implicit ones these need not be: many states would need much memory, six
        matrices of n x n, and a bound on steps is one on their time, where one of these takes more.
        """
        if self.collocation is None or self.stiff is None:
            return self.collocation is not None
        return n <= MOST_COLLOCATED and self.max_inner_steps is None

    def dearness(self, n: int) -> float:
        """How many explicit steps a linearly implicit one of n states costs, by evaluations.

        It takes n + 1 more for the quotients, which is about what an exact Jacobian comes to, and
        linear equations, where an evaluation is some 60 n operations in a mechanism.
        """
        assert self.explicit is not None
        assert self.stiff is not None
        evaluations = n + 1.0 + self.stiff.stages + n / 5 + n * n / 90
        return evaluations / (self.explicit.stages - 1)


def nominal_values(states: tuple[Port, ...]) -> Array:
    """The nominal value of each element of the states."""
    return np.concatenate([np.zeros(0), *(np.ravel(port.nominal) for port in states)])


Method = Integrator | Adaptive

ADAPTIVE = Adaptive("adaptive", DORMAND_PRINCE)
STIFF = Adaptive("stiff", None, RODAS4P)
AUTOMATIC = Adaptive("adaptive or stiff", DORMAND_PRINCE, RODAS4P, RADAU, exact=False)
DEFAULT_METHOD: Method = AUTOMATIC
METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        ADAPTIVE,
        STIFF,
        AUTOMATIC,
        Adaptive("adaptive rodas3", None, RODAS3),
        Adaptive("radau", collocation=RADAU),
    )
} | INTEGRATORS

STEP_PORTS = tuple(
    Port(f"steps.{name}", (), unit, doc, 0.0)
    for name, unit, doc in (
        ("length", "s", "length of the next inner step; 0 before the first"),
        ("error", "1", "error of the last inner step in tolerances; 0 before the first"),
        ("pause", "1", "communication steps in which the single step of RK4 is not tried"),
        ("is_stiff", "1", "1 while the linearly implicit method is at work, 2 collocation"),
        ("signs", "1", "inner steps in a row that speak for the other method"),
        (
            "eigenvalue",
            "1/s",
            "estimate of the fastest eigenvalue, from the last sign of stiffness",
        ),
        ("cut_short", "1", "communication steps whose inner steps were used up"),
        ("spite", "1", "inner steps taken with a larger error, for the time has no shorter ones"),
        ("stiffness", "1", "how often there were signs enough that the block is stiff"),
        ("rival", "s", "length of the explicit steps when the linearly implicit ones took over"),
        ("patience", "1", "how often more signs are waited for, after changes that did not pay"),
        ("implicit", "1", "the method that stiffness asks for: 1 or 2, 0 before it is known"),
        ("cost", "1", "evaluations' worth of the implicit steps that are being compared"),
        ("span", "s", "time over which these steps have come"),
        ("other", "1/s", "cost per time of the other implicit method when it was at work"),
        ("windows", "1", "comparisons since the implicit method was changed; 0 while one is tried"),
        ("trust", "1", "comparisons after which the other implicit method is tried again"),
    )
)
LENGTH, ERROR, PAUSE, IS_STIFF, SIGNS, EIGENVALUE, CUT_SHORT, SPITE, STIFFNESS, RIVAL, PATIENCE = (
    range(11)
)
IMPLICIT, COST, SPAN, OTHER, WINDOWS, TRUST = range(11, 17)
EXPLICIT, ROSENBROCK, COLLOCATION = 0.0, 1.0, 2.0  # is_stiff and implicit


def memory_for(block: Block, method: Method, tunable: tuple[str, ...] | None = None) -> Memory:
    """The memory of a block that a method steps; one without continuous states has nothing to
    remember of that.
    """
    return Memory(block, tunable, STEP_PORTS if chooses_steps(method, block) else ())


def chooses_steps(method: Method, block: Block) -> bool:
    """Whether a method chooses the inner steps of a block, which has continuous states then."""
    return isinstance(method, Adaptive) and bool(block.states)


def longest_step(method: Method, h: float | None = None) -> float:
    """The longest inner step [s] of a method: h, or without it 1 ms of one with steps of fixed
    length and any of an adaptive one.

    Raises ValueError when it is not positive, and not finite where the length is fixed, and
    TypeError for what is no number.
    """
    if h is None:
        return inf if isinstance(method, Adaptive) else 1e-3
    if isinstance(h, bool) or not isinstance(h, Real):
        raise TypeError(f"the inner step h must be a number, not {h!r}")
    if not (h > 0 and (isfinite(h) or isinstance(method, Adaptive))):
        raise ValueError(f"the inner step h must be positive, not {h} s")
    return h


def linearly_implicit_part(method: Method) -> Integrator | None:
    """The linearly implicit method in a method."""
    if isinstance(method, Adaptive):
        return method.stiff
    return method if method.implicit is not None else None


def is_implicit(method: Method) -> bool:
    """Whether a method has steps that need a Jacobian."""
    if isinstance(method, Adaptive) and method.collocation is not None:
        return True
    return linearly_implicit_part(method) is not None


def has_exact_slopes(method: Method, block: Block) -> bool:
    """Whether a method needs the exact Jacobian of a block."""
    if isinstance(method, Adaptive) and block.states:
        return is_implicit(method) and method.exact
    return is_implicit(method)


def _cheaper(steps: Array) -> str:
    """Which implicit steps a block has come to."""
    if steps[IMPLICIT] == COLLOCATION:
        return "of which those of collocation, 'radau', cost the least"
    return "linearly implicit, as 'stiff' takes them"


def step_remarks(steps: Array) -> Iterator[tuple[int, str]]:
    """What is to be said of a run, from what the integrator remembers at its end, and how loud."""
    if steps[CUT_SHORT]:
        yield (
            logging.WARNING,
            f"used up its inner steps in {steps[CUT_SHORT]:g} communication steps, whose rest is "
            "one step without a known error: raise max_inner_steps, or shorten dt",
        )
    if steps[STIFFNESS] and steps[RIVAL]:
        yield (
            logging.INFO,
            f"is stiff, with a fastest eigenvalue of about {steps[EIGENVALUE]:.3g} 1/s: it went "
            f"from explicit steps to implicit ones {steps[STIFFNESS]:g} times, {_cheaper(steps)}",
        )
    elif steps[STIFFNESS]:
        yield (
            logging.WARNING,
            f"is stiff: its fastest eigenvalue is about {steps[EIGENVALUE]:.3g} 1/s, and stability "
            "limits its inner steps; method='stiff' or 'adaptive or stiff' takes longer ones",
        )
    if steps[SPITE]:
        yield (
            logging.WARNING,
            f"took {steps[SPITE]:g} inner steps with an error above the tolerance, for no shorter "
            "ones can be told apart in time: near a singular pose, or rtol is too small",
        )


def method_of(
    method: Method | str,
    rtol: float | None = None,
    atol: float | None = None,
    max_inner_steps: int | None = None,
) -> Method:
    """The method of a name, or the one given, with what is not None of its tolerance and its bound.

    Raises KeyError for a name that there is not, TypeError for what is no method, and ValueError
    for a tolerance of a method that keeps none.
    """
    if isinstance(method, str):
        if method not in METHODS:
            raise KeyError(f"there is no method '{method}'; {offer(method, METHODS)}")
        method = METHODS[method]
    if not isinstance(method, Integrator | Adaptive):
        raise TypeError(
            f"a method is the name of one or an integrator, such as RK4, not {method!r}"
        )
    given = {"rtol": rtol, "atol": atol, "max_inner_steps": max_inner_steps}
    options = {name: value for name, value in given.items() if value is not None}
    if not options:
        return method
    if isinstance(method, Integrator):
        raise ValueError(
            f"'{method.name}' takes steps of fixed length and has no use for "
            f"{' and '.join(options)}; 'adaptive' has"
        )
    return replace(method, **options)  # type: ignore[arg-type]
