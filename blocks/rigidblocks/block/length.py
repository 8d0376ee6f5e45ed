"""The lengths of inner steps: which is tried, and which goes on from a step's error.

c/kernel/length.h does the same, by the same arithmetic in the same order.
"""

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.adaptive import COLLOCATION, ERROR, LENGTH, ROSENBROCK
from rigidblocks.block.stiffness import coarse
from rigidblocks.block.trial import LARGEST


def first_length(h: float, left: float) -> float:
    """The length to try first: what is remembered, and at most `left`, which is halved when there
    are two steps to go.
    """
    if h >= left * (1.0 - 1e-9):
        return left
    return 0.5 * left if h > 0.5 * left else h


def least_length(t: float, end: float) -> float:
    """The shortest step that the numbers of these times can tell."""
    return 16.0 * float(np.finfo(float).eps) * max(abs(t), abs(end))


def is_good(error: float, is_shortest: bool) -> bool:
    """Whether a step with this error is taken: in spite of it where time has no shorter one."""
    return error <= 1.0 or (is_shortest and error <= LARGEST)


def shorter_length(h: float, error: float) -> float:
    """The length to try after a step with this error, infinite where it was not finite."""
    finite = error <= LARGEST
    factor = 0.9 / np.sqrt(np.sqrt(error)) if finite and error > 0 else 0.2
    return coarse(h * min(max(float(factor), 0.2), 0.5))


def _root(error: float, kind: float) -> float:
    """About the root of the error that the length goes with: of fifth order, of fourth in linearly
    implicit steps, of sixth in those of collocation.
    """
    q = np.sqrt(np.sqrt(error))
    root = np.sqrt(q)
    if kind == ROSENBROCK:
        root = np.sqrt(q) * np.sqrt(np.sqrt(q))
    if kind == COLLOCATION:
        root = np.sqrt(q) * np.sqrt(np.sqrt(np.sqrt(q)))
    return float(root)


def remember(s: Array, h: float, error: float, shortened: bool, kind: float) -> None:
    """Keeps what a step of a kind that is taken leaves: the length of the next one, by its error
    and the one before.
    """
    now, last = max(error, 1e-8), s[ERROR] if s[ERROR] > 0.0 else 1e-4
    factor = 0.9 / _root(now, kind) * np.sqrt(_root(last, kind))
    factor = min(max(factor, 0.2), 5.0)
    if shortened and factor > 1.0:
        factor = 1.0
    s[ERROR] = coarse(now)
    # a step that the end has cut short does not shorten the next one
    if h >= s[LENGTH] or factor < 1.0 or h * factor > s[LENGTH]:
        s[LENGTH] = coarse(h * factor)
