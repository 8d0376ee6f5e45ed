"""Noisy identifications: coverage of the intervals, physical inertias, and computing times.

    python benchmarks/identification.py [fits]

Each fit of a random arm with three joints has another motion and another noise, from 1e-4 to ten
times the largest joint force. The script prints the fraction of the 95 % intervals that contain the
true value, and the number of bodies with an impossible inertia. It also prints the time of the
identification of a 7-axis arm from 60 s of data at 1 kHz.
"""

import sys
from pathlib import Path
from time import perf_counter

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from identification_runs import noisy_fits
from random_models import random_tree
from rigidblocks import Revolute, compiled_dynamics
from rigidblocks.studies.identification import base_parameters, identify

SEED, CHUNK, SAMPLES = 30, 500, 60_000


def random_arm(n):
    """Return an arm with n skew revolute joints and random inertias."""
    rng = np.random.default_rng(27)
    return random_tree(rng, tuple(range(-1, n - 1)), (Revolute(),) * n)


def long_fit():
    """Return the shortest time of three identifications of a 7-axis arm from 60,000 samples [s]."""
    model, rng = random_arm(7), np.random.default_rng(SEED)
    base = base_parameters(model)
    motion = tuple(rng.normal(size=(SAMPLES, 7)) for _ in range(3))
    tau = compiled_dynamics(model, "rnea", batch=True)(*motion) + rng.normal(size=(SAMPLES, 7))
    times = []
    for _ in range(3):
        begin = perf_counter()
        identify(model, *motion, tau, base=base)
        times.append(perf_counter() - begin)
    return min(times)


def main(fits):
    """Print the results of all fits so far after each chunk of fits."""
    print(f"60 s at 1 kHz of a 7-axis arm: {long_fit():.2f} s")
    model, done, covered, impossible = random_arm(3), 0, 0.0, 0
    while done < fits:
        found = noisy_fits(model, min(CHUNK, fits - done), SEED + done)
        covered += found.coverage * found.fits
        done, impossible = done + found.fits, impossible + found.impossible
        print(
            f"{done:6} fits: {100 * covered / done:.2f} % of the intervals contain the true value, "
            f"{impossible} of {3 * done} inertias are impossible",
            flush=True,
        )
    return impossible == 0 and abs(covered / done - 0.95) < 0.02


if __name__ == "__main__":
    sys.exit(not main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000))
