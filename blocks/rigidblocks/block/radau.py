"""The step of a collocation method: many implicit stages on one polynomial, by Newton's method.

c/kernel/collocation.h does the same, by the same arithmetic in the same order.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rigidblocks.algebra.linear import linear_solver
from rigidblocks.algebra.spatial import Array
from rigidblocks.block.choice import Prices
from rigidblocks.block.integrators import Collocation, Integrator
from rigidblocks.block.stiffness import coarse

Rates = Callable[[Any, Array], Array]
Slopes = Callable[[Any, Array], Array]  # the Jacobian at a time and states
InTolerances = Callable[[Array, Array, Array], float]

LOOSE = 0.03  # tolerances: what may be left of the stages where Newton's method does no better
MOST_TRIES = 10
CONTRACTION = 0.3  # of Newton's method, that the next step is to have at most
SLOPES_AT = 0.75  # of a step: there the Jacobian is taken
REACH = 10.0  # steps: so far the polynomial of the step before is gone on with
START_PART = 1e-3  # of the size of a state, that the first step is to change it by at most


def close(rtol: float) -> float:
    """What is left of the stages after Newton's method, in tolerances: of a state some 1e-12 of its
    size, and at least a 1e-5th of the tolerance.

    Rounding decides now and then whether there is one more step of Newton's method, and the forms
    of a block differ by what is left then. It costs nothing: the error at the end is much smaller.
    """
    return min(max(1e-12 / rtol, 1e-5), LOOSE)


@dataclass(frozen=True, eq=False)
class Begin:
    """Where a step of length h begins: the states x at t and their rates f."""

    t: float
    h: float
    x: Array
    f: Array


class Stages:
    """The stages z_i = h sum a_ij f(t + c_j h, x + z_j), on the way through a communication step
    from one inner step to the next (Hairer and Wanner II, IV.8; 1999).
    """

    def __init__(
        self, method: Integrator, in_tolerances: InTolerances, close: float, prices: Prices
    ):
        assert method.collocation is not None
        self.data: Collocation = method.collocation
        self.a, self.c = method.a, method.c
        self.in_tolerances, self.close = in_tolerances, close
        self.prices, self.spent = prices, 0.0
        self.z: Array = np.zeros(0)
        self.last = self.z
        self.forget()

    def forget(self) -> None:
        """Forgets the steps before, where another method or law has been at work."""
        self.J: Array | None = None
        self.is_fresh = False
        self.factored = 0.0
        self.last_length, self.rest, self.rate, self.tries = 0.0, 1.0, 0.0, 0
        self.contraction = 0.0  # of its first two steps, which rounding hardly touches

    def attempt(self, at: Begin, rates: Rates, slopes: Slopes) -> tuple[float, Array]:
        """The error of a step in tolerances and the states at its end; 16, which halves the step,
        where no stages are found.
        """
        if at.h > REACH * self.last_length:
            self.last_length, self.rest = 0.0, 1.0
        while True:
            if self.J is None:
                self._renew(at, slopes)
            if self._is_found(at, rates):
                break
            self.J = None
            if self.is_fresh:
                return 16.0, at.x
        y = at.x + self.z[-1]
        error = self._error(at, y)
        if error > 1.0 and not self.is_fresh:
            self.J = None
        return error, y

    def keep(self, h: float, length: float) -> float:
        """Keeps what a step of length h that is taken leaves; the length of the next one, given
        that by its error.
        """
        self.last, self.last_length, self.is_fresh = self.z, h, False
        if self.contraction > 1e-3:
            self.J = None
        if self.contraction * length > CONTRACTION * h:
            length = coarse(CONTRACTION * h / self.contraction)
        return h if self.J is not None and h <= length < 1.2 * h else length

    def _is_found(self, at: Begin, rates: Rates) -> bool:
        """Whether Newton's method converges, or will within its tries, told by its contraction."""
        self._factorize(at.h)
        self.z, before = np.array([self._gone_on(c, at) for c in self.c]), 0.0
        self.rest = float(np.sqrt(self.rest) * np.sqrt(np.sqrt(self.rest)))
        self.rate = self.contraction = 0.0
        for self.tries in range(1, MOST_TRIES + 1):
            self.spent += self.prices.newton
            dz = self._newton_step(at, rates)
            distance = max(self.in_tolerances(one, at.x, at.x) for one in dz)
            self.z = self.z + dz
            if not distance < np.inf:
                return False
            if self.tries > 1 and not self._converges(distance, before):
                return self.is_fresh and self.rest * distance <= LOOSE
            if self.rest * distance <= self.close:
                return True
            before = distance
        return False

    def _converges(self, distance: float, before: float) -> bool:
        """Whether it will within its tries, by the last two of its steps."""
        self.rate = distance / before
        if self.tries == 2:
            self.contraction = self.rate
        if self.rate >= 0.99:
            self.rest = 1.0
            return False
        self.rest = max(self.rate / (1.0 - self.rate), 1e-16)
        left = self.rest * distance
        for _ in range(self.tries, MOST_TRIES):
            left *= self.rate
        return left <= self.close

    def _factorize(self, h: float) -> None:
        """The factors of 1 - h root J for each root, where they are not those of h."""
        if self.factored == h:
            return
        assert self.J is not None
        self.factored = h
        self.spent += self.prices.factors
        first, *pairs = self.data.roots
        one = np.eye(len(self.J))
        self.real = linear_solver(one - (h * first.real) * self.J)
        self.pairs = [
            _Pair(one - (h * root.real) * self.J, -(h * root.imag) * self.J) for root in pairs
        ]

    def _renew(self, at: Begin, slopes: Slopes) -> None:
        """The Jacobian in the part SLOPES_AT of the step, where the polynomial of the step before
        comes to: most stages are nearer to it than to the start, and Newton's method contracts the
        faster.
        """
        place = SLOPES_AT if self.last_length > 0.0 else 0.0
        x = self._gone_on(place, at) + at.x
        self.spent += self.prices.slopes
        self.J = slopes(at.t + place * at.h, x)
        self.is_fresh, self.factored = True, 0.0

    def _gone_on(self, place: float, at: Begin) -> Array:
        """Where the polynomial of the step before comes to in a part of a step, from its start; 0
        without one.
        """
        if self.last_length == 0.0:
            return np.zeros(len(at.x))
        places = np.concatenate([[0.0], self.c])
        z: Array = -self.last[-1]
        where = 1.0 + place * at.h / self.last_length
        for j in range(1, len(places)):
            weight = 1.0
            for k, other in enumerate(places):
                weight *= 1.0 if k == j else (where - other) / (places[j] - other)
            z = z + weight * self.last[j - 1]
        return z

    def _newton_step(self, at: Begin, rates: Rates) -> Array:
        """Newton's step of all stages."""
        f = [rates(at.t + c * at.h, at.x + z) for c, z in zip(self.c, self.z, strict=True)]
        missing = [at.h * _sum(row, f) - z for row, z in zip(self.a, self.z, strict=True)]
        w = [_sum(row, missing) for row in self.data.there]
        w[0] = self.real(w[0])
        for k, pair in enumerate(self.pairs):
            w[1 + 2 * k : 3 + 2 * k] = pair.solution(*w[1 + 2 * k : 3 + 2 * k])
        return np.array([_sum(row, w) for row in self.data.back])

    def _error(self, at: Begin, y: Array) -> float:
        """The difference to a method of order 5, what decays fast taken out of it, in tolerances.

        It is taken out once: twice would hide what swings fast, as on a stiff contact, which the
        stages only damp.
        """
        e = at.h * self.data.roots[0].real * at.f + _sum(self.data.error, self.z)
        return self.in_tolerances(self.real(e), at.x, y)


class _Pair:
    """The factors of re + i im, by elimination with the largest pivot of each column."""

    def __init__(self, re: Array, im: Array):
        self.re, self.im = re.copy(), im.copy()
        self.rows: list[int] = []
        for j in range(len(re)):
            self._eliminate(self.re, self.im, j)

    def _eliminate(self, re: Array, im: Array, j: int) -> None:
        """Column j, whose pivot is inverted in its place."""
        row = j + int(np.argmax(np.abs(re[j:, j]) + np.abs(im[j:, j])))
        self.rows.append(row)
        for part in (re, im):
            part[[j, row], j:] = part[[row, j], j:]
        size = re[j, j] * re[j, j] + im[j, j] * im[j, j]
        a, b = re[j, j] / size, -im[j, j] / size
        p, q = re[j + 1 :, j] * a - im[j + 1 :, j] * b, re[j + 1 :, j] * b + im[j + 1 :, j] * a
        re[j + 1 :, j], im[j + 1 :, j] = p, q
        right = slice(j + 1, None)
        re[right, right], im[right, right] = (
            re[right, right] - (np.outer(p, re[j, right]) - np.outer(q, im[j, right])),
            im[right, right] - (np.outer(p, im[j, right]) + np.outer(q, re[j, right])),
        )
        re[j, j], im[j, j] = a, b

    def solution(self, a: Array, b: Array) -> tuple[Array, Array]:
        """(re + i im)^-1 (a + i b)"""
        a, b, (re, im) = a.copy(), b.copy(), (self.re, self.im)
        for j, row in enumerate(self.rows):
            a[[j, row]], b[[j, row]] = a[[row, j]], b[[row, j]]
            self._take(a, b, j, slice(j + 1, None))
        for j in reversed(range(len(a))):
            a[j], b[j] = a[j] * re[j, j] - b[j] * im[j, j], a[j] * im[j, j] + b[j] * re[j, j]
            self._take(a, b, j, slice(0, j))
        return a, b

    def _take(self, a: Array, b: Array, j: int, at: slice) -> None:
        """What column j has in other rows."""
        re, im = self.re[at, j], self.im[at, j]
        a[at], b[at] = a[at] - (re * a[j] - im * b[j]), b[at] - (re * b[j] + im * a[j])


def _sum(weights: Iterable[float], values: Iterable[Array]) -> Array:
    total: Array = sum((w * v for w, v in zip(weights, values, strict=True)), start=np.zeros(1))
    return total
