"""Lemke's complementary pivoting (Cottle and Dantzig 1968).

    0 <= z,  w = N z + q >= 0,  z^T w = 0

A covering variable, added to what is below zero, makes the start a solution. It leaves after a way
on which of each w_i and z_i at most one is basic.
"""

import numpy as np

from rigidblocks.algebra.spatial import Array

_LEAST = 1e-11  # a pivot below it, in units of a scaled problem, is rounding


def lemke(N: Array, q: Array, start: Array) -> Array | None:
    """The basis, a mask (n,), of a z >= 0 with N z + q >= 0 and z^T (N z + q) = 0, or None where
    the pivoting ends on a ray.

    It goes from the basis `start`, and adds the covering variable to what is below zero there.
    Where that is the solution of fewer contacts it is most of the way.
    """
    n = len(q)
    if (rows := _rows(N, q, start)) is None:
        return None
    if (rows[:, -1] >= -_LEAST).all():
        return start
    table = _Table(rows, start)
    # the covering variable enters where most is below zero
    row, column = int(rows[:, -1].argmin()), n
    for _ in range(50 * n):
        left = table.exchange(row, column)
        if left == 2 * n:
            return np.isin(np.arange(n, 2 * n), table.basic)
        # what must be zero with the variable that left may enter now
        column = int(table.place[(left + n) % (2 * n)])
        if (first := table.first_at_zero(column)) is None:
            return None
        row = first
    return None


class _Table:
    """The basic variables by the others and 1: `rows` (n, n + 2).

    Variable i is w_i, i + n is z_i, 2n the covering variable; `basic` has that of each row,
    `others` that of each column, and `place` the row or column of each variable.
    """

    def __init__(self, rows: Array, basis: Array):
        n = len(rows)
        self.rows = rows
        self.basic = np.arange(n) + n * basis
        self.others = np.append(np.arange(n) + n * ~basis, 2 * n)
        self.place = np.empty(2 * n + 1, dtype=int)
        self.place[self.basic], self.place[self.others] = np.arange(n), np.arange(n + 1)
        self._change = np.empty_like(rows)

    def first_at_zero(self, column: int) -> int | None:
        """The row whose variable is the first at zero when that of a column grows; None on a
        ray.
        """
        rate = self.rows[:, column]
        room = np.where(rate < -_LEAST, self.rows[:, -1] / np.minimum(rate, -_LEAST), -np.inf)
        row = int(room.argmax())
        return None if room[row] == -np.inf else row

    def exchange(self, row: int, column: int) -> int:
        """Makes the variable of a column basic and that of a row not; the latter."""
        pivot = self.rows[row, column]
        entering = self.rows[row] / -pivot
        entering[column] = 1.0 / pivot
        rate = self.rows[:, column].copy()
        rate[row] = self.rows[:, column] = 0.0
        np.multiply(rate[:, None], entering, out=self._change)
        self.rows += self._change
        self.rows[row] = entering
        entered, left = int(self.others[column]), int(self.basic[row])
        self.basic[row], self.others[column] = entered, left
        self.place[entered], self.place[left] = row, column
        return left


def _rows(N: Array, q: Array, basis: Array) -> Array | None:
    """The basic variables by the others, the covering one and 1, in the places of w and z; None for
    no basis.
    """
    S, R = np.flatnonzero(basis), np.flatnonzero(~basis)
    table = np.hstack([N, np.zeros((len(q), 1)), q[:, None]])
    if len(S):
        try:
            inverse = np.linalg.inv(N[np.ix_(S, S)])
        except np.linalg.LinAlgError:
            return None
        # z_S = N_SS^-1 (w_S - N_SR z_R - q_S)
        table[S] = -inverse @ table[S]
        table[np.ix_(S, S)] = inverse
        down = table[np.ix_(R, S)]
        table[np.ix_(R, S)] = 0.0
        table[R] += down @ table[S]
    table[:, -2] = table[:, -1] < (-_LEAST if len(S) else np.inf)
    return table
