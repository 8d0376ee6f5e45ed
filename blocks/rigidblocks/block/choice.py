"""The choice between two implicit methods, by what the steps of each cost for the time they come.

c/kernel/choice.h does the same, by the same arithmetic in the same order.
"""

from typing import NamedTuple

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.adaptive import (
    COST,
    IMPLICIT,
    IS_STIFF,
    OTHER,
    SPAN,
    TRUST,
    WINDOWS,
)
from rigidblocks.block.stiffness import coarse

FIRST_TRUST = 3.0  # comparisons before the other method is tried
MOST_TRUST = 64.0
WINDOW = 8.0  # linearly implicit steps, whose cost is spent before it is compared


class Prices(NamedTuple):
    """What the pieces of implicit steps of n states cost, in evaluations of the rates.

    In a mechanism one takes as long as some 120 n operations of linear equations, which do not wait
    for each other.
    """

    slopes: float
    """the Jacobian by quotients"""
    rosenbrock: float
    """the linear equations and the six stages of a linearly implicit step"""
    factors: float
    """of the three matrices of a collocation method"""
    newton: float
    """a step of Newton's method: its five stages and its equations"""

    @classmethod
    def of(cls, n: int) -> "Prices":
        """The prices for n states."""
        return cls(n + 1.0, 7.5 + n / 10 + n * n / 180, n * n / 20, 7.0 + 3 * n / 20)

    @property
    def window(self) -> float:
        """What is spent before it is compared."""
        return WINDOW * (self.slopes + self.rosenbrock)


def count_cost(s: Array, h: float, window: float) -> None:
    """Counts an implicit step of length h that is taken, whose cost is in s already; where `window`
    is spent, its cost for the time is compared to that of the other method when it was at work.

    A method that is tried and costs more gives way at once, and then twice as many comparisons are
    waited for before the next try: what is spent on tries falls to the 64th.
    """
    s[SPAN] += h
    if s[COST] < window:
        return
    rate = coarse(s[COST] / s[SPAN])
    is_tried, s[COST], s[SPAN] = s[WINDOWS] == 0.0 and s[OTHER] > 0.0, 0.0, 0.0
    s[WINDOWS] += 1.0
    failed = bool(is_tried and rate > s[OTHER])
    if is_tried:
        s[TRUST] = min(2.0 * max(s[TRUST], FIRST_TRUST), MOST_TRUST) if failed else FIRST_TRUST
    if failed or s[WINDOWS] > max(s[TRUST], FIRST_TRUST):
        s[OTHER], s[WINDOWS] = rate, float(failed)
        s[IS_STIFF] = s[IMPLICIT] = 3.0 - s[IS_STIFF]
