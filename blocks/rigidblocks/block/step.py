"""The step of a block on its flat memory, as pure functions: how every form starts and goes on.

    advance     inner steps of the integrator, samples where they fall, then the outputs
    inner_step  the continuous states after one step of the integrator

What is remembered from step to step is in the memory alone.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from rigidblocks.algebra.scalar import select
from rigidblocks.algebra.spatial import Array
from rigidblocks.block.adaptive import Adaptive, Method
from rigidblocks.block.control import Steps
from rigidblocks.block.evaluate import Evaluator
from rigidblocks.block.implicit import integrate_implicitly
from rigidblocks.block.integrators import Integrator, integrate
from rigidblocks.block.memory import put


def initialize(evaluator: Evaluator, m: Array, t: Any) -> Array:
    """The memory at the start at t, sampled states and outputs computed from the inputs."""
    m = put_back(evaluator, put(m, evaluator.memory.s, 0.0), t)
    return put_outputs(evaluator, put(m, evaluator.memory.z, evaluator.initial(m)))


def advance(evaluator: Evaluator, m: Array, t: Any, dt: float, method: Method, h: float) -> Array:
    """The memory at t + dt, the inputs held: inner steps of at most h, samples where they fall,
    then the outputs.

    Raises ValueError when dt is not positive or does not fit the block's sample time.
    """
    sample_time = evaluator.memory.block.sample_time
    inner_steps(dt, h)  # refuses a step without end
    spans = sample_spans(sample_time, dt)
    span = dt / spans
    for k in range(spans):
        end = t + (k + 1) * span
        m = put(_flow(evaluator, m, t + k * span, end, span, method, h), 0, end)
        if sample_time is not None:
            m = _sampled(evaluator, m, is_sample(m[0], sample_time, span))
    return put_outputs(evaluator, m)


def part_of_step(
    evaluator: Evaluator, m: Array, t: float, end: float, samples: bool, method: Method, h: float
) -> Array:
    """The memory after a part of a step, from t to the end, in which nothing is sampled but, where
    it `samples`, at the end.
    """
    inner_steps(end - t, h)  # refuses a step without end
    m = put(_flow(evaluator, m, t, end, end - t, method, h), 0, end)
    return put_outputs(evaluator, _sampled(evaluator, m, samples))


def _sampled(evaluator: Evaluator, m: Array, now: Any) -> Array:
    """The memory with its sampled states updated where it is time: nothing is called when not."""
    where = evaluator.memory.z
    if isinstance(now, bool | np.bool):
        return put(m, where, evaluator.update(m)) if now else m
    return put(m, where, select(now, evaluator.update(m), m[where]))


def _flow(
    evaluator: Evaluator, m: Array, t: Any, end: Any, span: float, method: Method, h: float
) -> Array:
    """The memory with the continuous states after the span of time from t to the end, in which
    nothing is sampled: by equal inner steps, or by those of an adaptive method.
    """
    if not evaluator.memory.block.states:
        return m
    if isinstance(method, Adaptive):
        if m.dtype == object:
            raise TypeError(
                f"the inner steps of {evaluator.memory.name} by '{method.name}' cannot be traced, "
                "for their number is not known before: give it a method with steps of fixed length"
            )
        return Steps(evaluator, method, h).through(m, t, span, end)
    n = inner_steps(span, h)
    for j in range(n):
        x = inner_step(evaluator, m, t + j * (span / n), span / n, method)
        m = put_back(evaluator, put(m, evaluator.memory.x, x), t + (j + 1) * (span / n))
    return m


def inner_step(evaluator: Evaluator, m: Array, t: Any, h: float, method: Integrator) -> Array:
    """The continuous states after one step of length h from t, before they are moved back to where
    they belong.
    """
    x = m[evaluator.memory.x]
    if method.implicit is None:
        return integrate(method, rates(evaluator, m), t, x, h, evaluator.memory.position)
    evaluator = evaluator.held_at(t + 0.5 * h)
    f = rates(evaluator, m)

    def slopes(t: Any, x: Array) -> tuple[Array, Array]:
        return evaluator.slopes(_put_states(evaluator, m, t, x))

    return integrate_implicitly(method, f, slopes, t, x, h)


def rates(evaluator: Evaluator, m: Array) -> Callable[[Any, Array], Array]:
    """The rates as a function of the time and the continuous states, all else as in m."""
    return lambda t, x: evaluator.derivative(_put_states(evaluator, m, t, x))


def _put_states(evaluator: Evaluator, m: Array, t: Any, x: Array) -> Array:
    return put(put(m, 0, t), evaluator.memory.x, x)


def put_back(evaluator: Evaluator, m: Array, t: Any) -> Array:
    """The memory at t, its continuous states moved back to where they belong."""
    m = put(m, 0, t)
    return put(m, evaluator.memory.x, evaluator.project(m)) if evaluator.projects else m


def put_outputs(evaluator: Evaluator, m: Array) -> Array:
    """The memory with its outputs computed from all else in it."""
    return put(m, evaluator.memory.y, evaluator.output(m))


# what steps are acceptable


def inner_steps(dt: float, h: float) -> int:
    """The number of equal inner steps, none longer than h, that make the step dt.

    Raises ValueError when dt is not finite or not positive, or there are more than 1e9.
    """
    if not (dt > 0 and np.isfinite(dt)):
        law = "positive" if np.isfinite(dt) else "finite"
        raise ValueError(f"a step must be {law}, not {dt} s")
    if dt >= 1e9 * h:
        raise ValueError(
            f"the step {dt} s has too many inner steps of {h} s; at most 1e9 can be taken"
        )
    return max(1, int(np.ceil(dt / h - 1e-9)))


def sample_spans(sample_time: float | None, dt: float) -> int:
    """The number of equal parts of the step dt, such that a sample can only fall on the end of one.

    Raises ValueError when neither of dt and the sample time is a multiple of the other.
    """
    if sample_time is None:
        return 1
    longer, shorter = sample_time / dt, dt / sample_time
    if 0.5 <= longer < np.inf and abs(longer - np.rint(longer)) < 1e-6:
        return 1
    if shorter < 0.5 or abs(shorter - np.rint(shorter)) > 1e-6:
        raise ValueError(
            f"the step {dt} s does not fit the sample time {sample_time} s: one must be a multiple "
            "of the other"
        )
    return int(np.rint(shorter))


def instants(t: float, dt: float, sample_time: float, after: float) -> Iterator[tuple[float, bool]]:
    """The times in the step from t to t + dt at which a sample can fall, from about `after` on, and
    whether one does.
    """
    spans = sample_spans(sample_time, dt)
    span = dt / spans
    for k in range(max(0, int((after - t) / span) - 1), spans):
        instant = t + (k + 1) * span
        yield instant, bool(is_sample(instant, sample_time, span))


def is_sample(t: Any, sample_time: float, span: float) -> Any:
    """Whether t, the end of a span of time, is a sample instant, a multiple of the sample time."""
    if span > sample_time * (1 - 1e-6):
        return True
    return np.abs(t / sample_time - np.floor(t / sample_time + 0.5)) < 1e-6
