"""What the outputs were at the last communication points, and the polynomials through that."""

from dataclasses import dataclass

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.course import ORDER


class Past:
    """The outputs of the last communication points, the latest first, no more than `most`."""

    def __init__(self, most: int):
        self.most = most
        self.times: tuple[float, ...] = ()
        self.rows: tuple[Array, ...] = ()
        self._next: tuple[float, Array] | None = None

    def begin(self, t: float, row: Array, dt: float) -> None:
        """A step from t begins where the outputs are `row`. Where no step has come to them, as
        after a start, the past is forgotten.
        """
        came = self._next is not None and abs(self._next[0] - t) <= 1e-9 * dt
        if not (came and self._next is not None and np.array_equal(self._next[1], row)):
            self.times = self.rows = ()
        self.times = (t, *self.times)[: self.most]
        self.rows = (row, *self.rows)[: self.most]

    def end(self, t: float, row: Array) -> None:
        """A step has come to t, where the outputs are `row`."""
        self._next = t, row

    def copy(self) -> "Past":
        """The past of this moment."""
        other = Past(self.most)
        other.times, other.rows, other._next = self.times, self.rows, self._next
        return other


@dataclass(frozen=True, eq=False)
class Outlook:
    """The polynomials through the outputs of the last communication points: their coefficients
    (ORDER + 1, n) in the time since the latest, and what they come to at the end of a step of dt.
    `zero` (ORDER + 1,) is the polynomial that is 0 at the times of the past and 1 at that end.
    """

    c: Array
    end: Array
    zero: Array
    dt: float

    def through(self, new: Array, columns: Array, known: Array) -> Array:
        """The coefficients for some columns; where `known`, of the polynomials of a degree more
        that come to the outputs `new` at the end.
        """
        c: Array = self.c[:, columns]
        missing = np.where(known, new[columns] - self.end[columns], 0.0)
        return c + np.multiply.outer(self.zero, missing)


def outlook(past: Past, dt: float) -> Outlook:
    """What is known of the outputs in a step of dt that begins."""
    s = np.subtract(past.times, past.times[0]) / dt
    c = np.zeros((ORDER + 1, len(past.rows[0])))
    c[0] = past.rows[0]
    if len(s) > 1:
        powers = np.arange(1, len(s))
        changes = np.subtract(past.rows[1:], past.rows[0])
        c[1 : len(s)] = np.linalg.solve(s[1:, None] ** powers, changes) / dt ** powers[:, None]
    zero = np.zeros(ORDER + 1)  # at all times of the past, and 1 at the end
    zero[: len(s) + 1] = np.poly(s)[::-1] / np.prod(1.0 - s)
    powers = np.arange(ORDER + 1)
    return Outlook(c, dt**powers @ c, zero / dt**powers, dt)
