"""The states inside a step, and the moment in it at which something happens (RBDA 11.5)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Record
from rigidblocks.block.evaluate import Evaluator
from rigidblocks.block.integrators import RK4, Integrator, stage_rates, stepped
from rigidblocks.block.memory import put
from rigidblocks.block.step import inner_step, inner_steps, put_back, put_outputs, rates

Event = Callable[[Any, Record, Record, Record], Any]
HALVINGS = 53  # of a step: then its times are next to each other


@dataclass(frozen=True, eq=False)
class Interpolant:
    """The states inside a step of length h by an explicit method, x(delta) at t + delta h with 0 <=
    delta <= 1.

        x(delta) = x + h sum b_i(delta) k_i                    (RBDA Eq 11.46)

    It is the integral of the polynomial that the method fits to the stage rates k, and so costs no
    further evaluation: of degree 1 for the Euler methods (Eq 11.49), 2 for Heun (Eq 11.51 with
    stages at 0 and 1), 3 for RK4. Its error in a step falls as fast with h as the method's error
    over many does.
    """

    method: Integrator
    h: float
    x: Array
    k: list[Array]
    position: Array

    def __call__(self, delta: float) -> Array:
        b, b_position = (_weights(dense, delta) for dense in _polynomials(self.method))
        return stepped(self.x, self.h, self.k, b, b_position, self.position)


def interpolant(
    method: Integrator,
    derivative: Callable[[Any, Array], Array],
    t: float,
    x: Array,
    h: float,
    position: Array,
) -> Interpolant:
    """The interpolant of the step that `integrate` takes with the same arguments.

    Raises ValueError for a method that has none: a linearly implicit one, or one of higher order
    without `dense`.
    """
    _polynomials(method)
    return Interpolant(method, h, x, stage_rates(method, derivative, t, x, h, position), position)


def _polynomials(
    method: Integrator,
) -> tuple[tuple[tuple[float, ...], ...], tuple[tuple[float, ...], ...]]:
    """The coefficients of b_i(delta), and those of the positions."""
    if method.implicit is None and method.dense is not None:
        return method.dense, method.dense
    if method.implicit is None and method.order == 1:
        b, b_position = method.b, method.position_tableau[1]
        return tuple((w,) for w in b), tuple((w,) for w in b_position)
    raise ValueError(
        f"'{method.name}' has no interpolant: the states inside a step are those of a shorter step"
    )


def _weights(dense: tuple[tuple[float, ...], ...], delta: float) -> tuple[float, ...]:
    return tuple(sum(w * delta ** (j + 1) for j, w in enumerate(row)) for row in dense)


class Reached(NamedTuple):
    """Where `first_event` got to: the time [s], the memory then with its outputs, and whether the
    event happened.
    """

    t: float
    m: Array
    happened: bool


def first_event(
    evaluator: Evaluator,
    m: Array,
    t: float,
    dt: float,
    event: Event,
    method: Integrator = RK4,
    h: float = 1e-3,
) -> Reached:
    """Steps from t to t + dt as `advance` does, but not beyond the first moment at which
    the event happens.

    `event` is a function (t, x, u, p) like those of a block, with a number that is positive until
    the event: a gap, a contact force. The event happens where the number is no longer positive
    after it was; so an event at t itself does not happen again, and a gap that starts at zero and
    opens is waited for. Of several events take the minimum. The moment is where the interpolated
    states say, to the last bit of the step's length, and not before it: there event <= 0. Its error
    falls with h at the method's order. An event that comes and goes within one inner step is not
    seen. A method without an interpolant takes a shorter step instead.

    Raises ValueError for a block that samples, whose steps cannot go on from any moment, and when
    dt is not positive.
    """
    memory = evaluator.memory
    if memory.block.sample_time is not None:
        raise ValueError(
            f"events are located between samples, and {memory.name} samples every "
            f"{memory.block.sample_time} s"
        )
    n = inner_steps(dt, h)
    step = dt / n
    before = event(*memory.records(put(m, 0, t)))
    for j in range(n):
        start = t + j * step
        x = inner_step(evaluator, m, start, step, method)
        after = put_back(evaluator, put(m, memory.x, x), t + (j + 1) * step)
        value = event(*memory.records(after))
        if before > 0 >= value:
            there = _locate(evaluator, m, start, step, event, method, after)
            return Reached(float(there[0]), put_outputs(evaluator, there), True)
        m, before = after, value
    return Reached(t + dt, put_outputs(evaluator, put(m, 0, t + dt)), False)


def _locate(
    evaluator: Evaluator,
    m: Array,
    t: float,
    h: float,
    event: Event,
    method: Integrator,
    after: Array,
) -> Array:
    """The memory at the first moment at which the event is known to have happened; `after` is that
    at the step's end.
    """
    memory, states = evaluator.memory, _course(evaluator, m, t, h, method)
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        there = put_back(evaluator, put(m, memory.x, states(middle)), t + middle * h)
        if event(*memory.records(there)) > 0:
            low = middle
        else:
            high, after = middle, there
    return after


def _course(
    evaluator: Evaluator, m: Array, t: float, h: float, method: Integrator
) -> Callable[[float], Array]:
    """The states inside a step by delta."""
    if method.implicit is not None or (method.order > 1 and method.dense is None):
        return lambda delta: inner_step(evaluator, m, t, delta * h, method)
    memory = evaluator.memory
    return interpolant(method, rates(evaluator, m), t, m[memory.x], h, memory.position)
