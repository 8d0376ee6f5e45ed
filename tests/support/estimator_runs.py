"""Runs of a plant with random noise and its estimator, and the consistency of the estimates."""

from typing import NamedTuple

import numpy as np
from scipy.stats import chi2

from rigidblocks import ClosedLoopPlant, Revolute, RobotPlant, SixDoF
from rigidblocks.block.integrators import RK4
from rigidblocks.block.memory_layout import Memory
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.kernels.traced_evaluator import QuickEvaluator
from rigidblocks.library import ExtendedKalmanFilter, Frame
from rigidblocks.library.estimators import deviations
from rigidblocks.library.plant_ports import TunableInertia
from rigidblocks.spatial.spatial import xlt


class Consistency(NamedTuple):
    """Mean normalized estimation error squared, its 95 % band, and the rank of the covariance."""

    nees: float
    low: float
    high: float
    rank: int


def consistency(estimator, runs, steps, seed, torque=1.0):
    """Return the consistency of an estimator in Monte Carlo runs of its plant.

    The true initial states, the parameters, the process noise and the measurement noise are random,
    with the standard deviations that the estimator assumes. The normalized error of the last sample
    of each run has a chi-squared distribution if the estimator is consistent.
    """
    plant, T = estimator.plant, estimator.sample_time
    rng = np.random.default_rng(seed)
    own, other = Memory(plant), Memory(estimator)
    truth, filter_ = compiled_stepper(own, RK4, T), compiled_stepper(other)
    evaluator = QuickEvaluator(own)
    states = [port.name for port in plant.states]
    names = [*states, *estimator.parameters_to_estimate]
    rest = [port.name for port in estimator.plant.inputs]
    start = {name: other.start()[other.where[name]] for name in names}
    noise = {name: deviations(estimator, "process_noise", port) for name, port in zip(
        states, plant.states, strict=True)}  # fmt: skip
    total, rank = 0.0, 0
    for _ in range(runs):
        m, v = own.start(), other.start()
        for port in estimator._states:
            sigma = deviations(estimator, "deviation", port)
            m[own.where[port.name]] = start[port.name] + sigma * rng.normal(size=port.size)
        u = {name: torque * rng.normal(size=own.where[name].stop - own.where[name].start)
             for name in rest}  # fmt: skip
        _put(own, m, u)
        truth.initialize(m, 0.0)
        _put(other, v, u | _measurements(estimator, own, m, rng))
        filter_.initialize(v, 0.0)
        for k in range(steps):
            truth.step(m, k * T, T)
            for name, sigma in noise.items():
                m[own.where[name]] += np.sqrt(T) * sigma * rng.normal(size=len(sigma))
            if evaluator.has_projection:
                m[own.x] = evaluator.project(m)
            m[own.y] = evaluator.output(m)
            u = {name: value + 0.1 * torque * rng.normal(size=len(value)) for name, value in
                 u.items()}  # fmt: skip
            _put(own, m, u)
            _put(other, v, u | _measurements(estimator, own, m, rng))
            filter_.step(v, k * T, T)
        error = np.concatenate([m[own.where[n]] - v[other.where[n]] for n in names])
        P = v[other.where["covariance"]].reshape(estimator._size, -1)
        P = P[: len(error), : len(error)]
        scale = np.sqrt(np.maximum(np.diag(P), 1e-12 * np.diag(P).max()))
        sizes, V = np.linalg.eigh(P / np.outer(scale, scale))
        free = sizes > 1e-7 * sizes[-1]
        total += np.sum((V[:, free].T @ (error / scale)) ** 2 / sizes[free])
        rank = int(free.sum())
    band = chi2.ppf([0.025, 0.975], runs * rank) / runs
    return Consistency(total / runs, *band, rank)


def _put(memory, m, values):
    for name, value in values.items():
        m[memory.where[name]] = value


def _measurements(estimator, own, m, rng):
    return {
        f"{port.name}_measured": m[own.where[port.name]]
        + deviations(estimator, "measurement_noise", port) * rng.normal(size=port.size)
        for port in estimator._measured_ports
    }


def arm_estimator(model, kind=ExtendedKalmanFilter):
    """Return the filter of a 7-axis arm with an unknown payload: 15 states, 7 measurements."""
    tool = Frame("tool", model.body_names[-1], xlt([0.0, 0.0, 0.1]))
    return kind(
        RobotPlant(model, inertias=TunableInertia(payload=tool)),
        "q",
        {"q": 1e-3},
        1e-3,
        process_noise={"qd": 0.05},
        deviation={"q": 1e-2, "qd": 0.05, "payload_mass": 0.2},
        parameters_to_estimate="payload_mass",
    )


def four_bar_estimator(model, q0, kind=ExtendedKalmanFilter):
    """Return the filter of a closed loop with one degree of freedom."""
    return kind(
        ClosedLoopPlant(model, q0=q0),
        "q",
        {"q": 1e-2},
        1e-3,
        process_noise={"qd": 0.5},
        deviation={"q": 1e-2, "qd": 0.1},
    )


def floating_estimator(random_tree, rng, kind=ExtendedKalmanFilter):
    """Return the filter of a floating base with two joints, which has a quaternion."""
    model = random_tree(rng, (-1, 0, 0), (SixDoF(), Revolute(), Revolute()))
    return kind(
        RobotPlant(model),
        "q",
        {"q": 1e-2},
        1e-3,
        process_noise={"qd": 0.2},
        deviation={"q": 1e-2, "qd": 0.1},
    )
