"""The inner steps that the methods of a run choose, recorded."""

from dataclasses import replace

import numpy as np

from rigidblocks.block.adaptive import STEP_PORTS
from rigidblocks.simulation.result import Result
from rigidblocks.simulation.run import Run


def inner_steps(run: Run, t_stop: float) -> Result:
    """A run from its start to `t_stop` [s], step by step, and at each communication point what is
    remembered of the inner steps of each part that chooses them: `part.steps.length` of the next
    [s], `part.steps.error` of the last in tolerances, `part.steps.is_stiff`, and the rest of
    `STEP_PORTS`. `plot_steps` draws it.

    Raises ValueError where no part chooses its steps, and what a run raises.
    """
    run.reset()
    rows, names = [], tuple(run.steps)
    if not names:
        raise ValueError(f"no part of {run!r} chooses its inner steps")
    n = round((t_stop - run.t) / run.dt)
    time = run.t + run.dt * np.arange(1, n + 1)
    for _ in range(n):
        run.step()
        rows.append(np.concatenate(list(run.steps.values())))
    values = np.reshape(rows, (n, len(names), len(STEP_PORTS)))
    signals = [
        (replace(port, name=f"{name}.{port.name}"), values[:, i, k])
        for i, name in enumerate(names)
        for k, port in enumerate(STEP_PORTS)
    ]
    return Result.of_signals(time, signals, {})
