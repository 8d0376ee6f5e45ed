"""Differential equations in tests, solved by the integrators of the project."""

import numpy as np

from rigidblocks.block.integrators import RK4, integrate


def states(f, x, h, steps, after=lambda x: x, method=RK4):
    """Return the states (steps + 1, ...) of dx/dt = f(x) from x; `after` completes each step."""
    rows, position = [x], np.array(False)

    def rate(t, x):
        del t
        return f(x)

    for _ in range(steps):
        rows.append(after(integrate(method, rate, 0.0, rows[-1], h, position)))
    return np.array(rows)
