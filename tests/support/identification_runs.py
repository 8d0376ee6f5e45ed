"""Repeated identifications with random noise: coverage of intervals and physical inertias."""

from typing import NamedTuple

import numpy as np

from rigidblocks import compiled_dynamics
from rigidblocks.dynamics import inertial_parameters
from rigidblocks.studies.identification import base_parameters, identify, pseudo_inertia


class NoisyFits(NamedTuple):
    """Results of repeated identifications with random noise.

    Attributes:
        fits: Number of identifications.
        coverage: Fraction of the confidence intervals that contain the true base parameter.
        impossible: Number of identified bodies whose pseudo-inertia is not positive definite.
        smallest: Smallest ratio of the eigenvalues of a pseudo-inertia.
    """

    fits: int
    coverage: float
    impossible: int
    smallest: float


def noisy_fits(model, fits, seed, samples=40, largest=1.0):
    """Identify a model from random motions, whose joint forces have white noise.

    The standard deviations of the noise of the joints are random: from 1e-4 times up to 10^largest
    times the largest joint force.
    """
    rng = np.random.default_rng(seed)
    base = base_parameters(model)
    true = base.matrix @ inertial_parameters(model)
    rnea = compiled_dynamics(model, "rnea", batch=True)
    inside, impossible, smallest = [], 0, np.inf
    for _ in range(fits):
        motion = tuple(rng.normal(size=(samples, model.nv)) for _ in range(3))
        exact = rnea(*motion)
        size = 10.0 ** rng.uniform(-4, largest, model.nv) * np.abs(exact).max()
        tau = exact + size * rng.normal(size=exact.shape)
        found = identify(model, *motion, tau, base=base)
        low, high = found.intervals.T
        inside.append((low < true) & (true < high))
        for body in inertial_parameters(found.physical_model).reshape(-1, 10):
            sizes = np.linalg.eigvalsh(pseudo_inertia(body))
            impossible += not sizes[0] > 0
            smallest = min(smallest, sizes[0] / sizes[-1])
    return NoisyFits(fits, float(np.mean(inside)), impossible, float(smallest))
