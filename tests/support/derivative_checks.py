"""Comparison of exact derivatives of blocks with difference quotients, at any configuration."""

import numpy as np

from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.memory_layout import Memory
from rigidblocks.dynamics.loops import position_constraints, project
from rigidblocks.robot.configuration import integrate
from rigidblocks.tracing.trace import jacobian, trace

RANK = 1e-9  # relative to the largest singular value; smaller ones belong to redundant constraints
LONG, SHORT = 1e-5, 1e-6  # steps of difference quotients, relative for numbers above 1


class Derivatives:
    """Exact derivatives of the rates (or samples) and outputs of a block by memory elements."""

    def __init__(self, block):
        self.memory = Memory(block)
        self._evaluator = NumpyEvaluator(self.memory)
        self.values = trace("values", self._values, {"m": (self.memory.size,)})
        self._graph = jacobian(self.values, "y", "m")

    def _values(self, m):
        """Return the rates of the states, or the states after a sample, and the outputs."""
        m = m.copy()
        if self.memory.block.sampled:
            change = m[self.memory.z] = self._evaluator.update(m)
        else:
            change = self._evaluator.derivative(m)
        return {"y": np.concatenate([change, self._evaluator.output(m)])}

    def exact(self, m):
        """Return the matrix of exact derivatives at a memory."""
        return self._graph(m).reshape(-1, self.memory.size)


def wrong_entries(derivatives, m):
    """Return the entries (value, element of the memory, exact, quotient) with wrong derivatives.

    At a corner of the function the one-sided quotients differ, and any number between them is
    correct. At a jump they grow as the step shrinks, and any finite number is correct.
    """
    memory, f = derivatives.memory, derivatives.values
    exact, at, wrong = derivatives.exact(m), f(m), []
    for k in range(1, memory.size):
        if memory.y.start <= k < memory.y.stop:
            continue
        ahead, behind = {}, {}
        for step in (LONG, SHORT):
            e = np.zeros(memory.size)
            e[k] = step * max(1.0, abs(m[k]))
            ahead[step], behind[step] = (f(m + e) - at) / e[k], (at - f(m - e)) / e[k]
        quotient = (ahead[LONG] + behind[LONG]) / 2
        error = 1e-4 * np.maximum(1.0, np.abs(quotient)) + 1e-6 * np.max(np.abs(quotient))
        low, high = np.sort([ahead[SHORT], behind[SHORT]], axis=0)
        smooth = high - low <= 10 * error
        right = np.where(
            smooth,
            np.abs(exact[:, k] - quotient) <= 3 * error,
            (low - error <= exact[:, k]) & (exact[:, k] <= high + error),
        )
        steepest = {h: np.maximum(np.abs(ahead[h]), np.abs(behind[h])) for h in (LONG, SHORT)}
        jump = ~smooth & (steepest[SHORT] > 4 * steepest[LONG])
        rows = np.flatnonzero(~np.isfinite(exact[:, k]) | ~(right | jump))
        wrong += [(int(i), k, exact[i, k], quotient[i]) for i in rows]
    return wrong


def _smooth_values(memory, unique):
    """Return the indices of all values that vary smoothly.

    The condition number jumps if constraints have equal size. Constraint forces are included only
    if they are unique.
    """
    places = np.arange(memory.size)
    states = places[memory.x.start - 1 : memory.x.stop - 1]
    outputs = places[memory.y]
    kept = np.ones(len(outputs), dtype=bool)
    for name in ("condition",) if unique else ("condition", "lam"):
        where = memory.where[name]
        kept[where.start - memory.y.start : where.stop - memory.y.start] = False
    return np.concatenate([states, len(states) + np.flatnonzero(kept)])


def loop_derivative_error(derivatives, q, qd, tau, step=LONG):
    """Return the largest relative error of the derivatives of a plant with loops.

    The directions are all motions that keep the loops closed, and all inputs. Errors are relative
    to the largest quotient of each direction.
    """
    memory, f = derivatives.memory, derivatives.values
    model = memory.block.model
    m = memory.start()
    m[memory.where["q"]], m[memory.where["qd"]], m[memory.where["tau"]] = q, qd, tau
    exact = derivatives.exact(m)
    _, sizes, V = np.linalg.svd(position_constraints(model, q).K)
    free = V[int(np.sum(sizes > RANK * sizes[0])) :]

    def moved(dq, dqd):
        state = integrate(model, q, dq), qd + dqd
        for _ in range(2):
            state = project(model, *state)
        after = m.copy()
        after[memory.where["q"]], after[memory.where["qd"]] = state
        return after

    pairs = [(moved(step * e, 0.0), moved(-step * e, 0.0)) for e in free]
    pairs += [(moved(0.0 * e, step * e), moved(0.0 * e, -step * e)) for e in free]
    inputs = np.eye(memory.size)[memory.u]
    pairs += [(m + step * e, m - step * e) for e in inputs]
    unique = len(V) - len(free) == model.nc and memory.block.method == "elimination"
    error, smooth = 0.0, _smooth_values(memory, unique)
    for after, before in pairs:
        quotient = (f(after) - f(before))[smooth] / (2 * step)
        change = (exact @ ((after - before) / (2 * step)))[smooth]
        error = max(error, np.max(np.abs(change - quotient)) / max(1.0, np.max(np.abs(quotient))))
    return error
