"""Consistency of the Kalman filters: mean normalized estimation error squared over 1,000 runs.

    python benchmarks/estimators.py [runs]

The plants are a four-bar, a floating base with two joints and a 7-axis arm with unknown payload.
For a consistent filter, the mean is in the 95 % band of the chi-squared distribution. The script
also prints the computing time of a sample, which includes the call from Python.
"""

import sys
from pathlib import Path
from time import perf_counter

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from estimator_runs import arm_estimator, consistency, floating_estimator, four_bar_estimator
from loop_models import four_bar
from random_models import random_tree
from rigidblocks import Revolute
from rigidblocks.block.memory_layout import Memory
from rigidblocks.dynamics.loops import assemble
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.library import ExtendedKalmanFilter, UnscentedKalmanFilter

STEPS, SAMPLES = 60, 1000


def estimators(kind):
    """Yield the name, the estimator and the seed of each case."""
    yield "four-bar", four_bar_estimator(four_bar(), assemble(four_bar(), [1, -0.5, 1.2]), kind), 45
    yield "floating base", floating_estimator(random_tree, np.random.default_rng(0), kind), 46
    arm = random_tree(np.random.default_rng(0), tuple(range(-1, 6)), (Revolute(),) * 7)
    yield "arm with payload", arm_estimator(arm, kind), 47


def sample_time(estimator):
    """Return the shortest time of a compiled sample of the estimator [s]."""
    memory = Memory(estimator)
    stepper, v, T = compiled_stepper(memory), memory.start(), estimator.sample_time
    stepper.initialize(v, 0.0)
    shortest = np.inf
    for k in range(SAMPLES):
        begin = perf_counter()
        stepper.step(v, k * T, T)
        shortest = min(shortest, perf_counter() - begin)
    return shortest


def main(runs):
    """Print a row for each filter and plant."""
    print(f"{'plant':18}{'filter':24}{'mean':>8}{'band':>18}{'rank':>6}{'us/sample':>11}")
    for kind in (ExtendedKalmanFilter, UnscentedKalmanFilter):
        for name, estimator, seed in estimators(kind):
            found = consistency(estimator, runs, STEPS, seed)
            band = f"{found.low:.2f} to {found.high:.2f}"
            duration = 1e6 * sample_time(estimator)
            print(
                f"{name:18}{kind.__name__:24}{found.nees:8.2f}{band:>18}{found.rank:6}"
                f"{duration:11.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
