"""Batches with adaptive steps equal `simulate`, for any numbers of lanes and threads."""

import logging

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from planar2ctrl import parts, wired
from rigidblocks import (
    Block,
    FloatingBasePlant,
    Port,
    System,
    auto_tree,
    floating_base,
    prepare,
    simulate_batch,
)
from rigidblocks.spatial.scalar import maximum
from rigidblocks.tracing.compiled_functions import LANES

RTOL = 1e-12  # rounding in a short run, relative to the largest value
OTHERS = ("stiff", "radau", "adaptive or stiff")


class VanDerPol(Block):
    """x'' = mu (1 - x^2) x' - x, which is stiff for a large mu."""

    states = (Port("x", rate="v", start=2.0), Port("v", start=0.0))
    parameters = (Port("mu", start=1.0),)
    outputs = (Port("x"), Port("v"))

    def derivative(self, x, p):
        return {"x": x.v, "v": p.mu * (1.0 - x.x * x.x) * x.v - x.x}


class Bed(Block):
    """Mass that falls onto a spring bed; the contact force starts where the margin is zero."""

    states = (Port("z", rate="v", start=1.0), Port("v", start=0.0))
    parameters = (Port("k", start=1e4),)
    outputs = (Port("z"), Port("v"))

    def derivative(self, x, p):
        return {"z": x.v, "v": -9.81 + p.k * maximum(-x.z, 0.0)}

    def switching_functions(self, x):
        return np.array([x.z])


class Escape(Block):
    """x' = x^2, which diverges at t = 1 / x(0)."""

    states = (Port("x", start=0.1),)
    outputs = (Port("x"),)

    def derivative(self, x):
        return {"x": x.x * x.x}


def separate_run(block, t_stop, dt, start, **how):
    """Return the outputs (n, rows) of separate runs with these start values."""
    system = System()
    system.add("b", block)
    run = prepare(system, dt, **how)
    n = len(next(iter(start.values())))
    own = [{f"b.{name}": values[k] for name, values in start.items()} for k in range(n)]
    runs = [run.simulate(t_stop, start=one, progress=False) for one in own]
    return {port.name: np.array([one[f"b.{port.name}"] for one in runs]) for port in block.outputs}


def same(batch, expected):
    for name, values in expected.items():
        assert_array_equal(batch[name], values)


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize(
    "method", ["adaptive", *(pytest.param(method, marks=pytest.mark.slow) for method in OTHERS)]
)
def test_adaptive_runs_in_a_batch_match_the_results_of_simulate_bit_for_bit(method, rng):
    start = {"x": rng.normal(size=11), "v": rng.normal(size=11), "mu": rng.uniform(0, 5, 11)}
    for dt in (0.05, 1.0):  # a step that RK4 resolves, and a step that takes many inner steps
        batch = simulate_batch(VanDerPol(), 20 * dt, dt, start=start, method=method)
        same(batch, separate_run(VanDerPol(), 20 * dt, dt, start, method=method))


@pytest.mark.slow
def test_batch_of_stiff_and_nonstiff_runs_matches_the_results_of_simulate_bit_for_bit(rng):
    start = {"mu": np.array([1.0, 3.0, 500.0, 2.0, 1000.0]), "x": rng.uniform(1.0, 2.0, 5)}
    batch = simulate_batch(VanDerPol(), 20.0, 0.5, start=start)
    same(batch, separate_run(VanDerPol(), 20.0, 0.5, start))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["adaptive", "adaptive or stiff"])
def test_inner_steps_of_each_run_in_a_batch_end_at_the_events_of_this_run(method, rng):
    start = {"z": rng.uniform(0.0, 1.0, 9), "k": 10.0 ** rng.uniform(2.0, 6.0, 9)}
    batch = simulate_batch(Bed(), 2.0, 0.01, start=start, method=method)
    same(batch, separate_run(Bed(), 2.0, 0.01, start, method=method))
    z, v = batch["z"], batch["v"]
    energy = 0.5 * v**2 + 9.81 * z + 0.5 * start["k"][:, None] * np.minimum(z, 0.0) ** 2
    assert np.ptp(energy, axis=1).max() < 1e-3


@pytest.mark.slow
def test_max_inner_steps_option_limits_each_run_of_a_batch_separately():
    start = {"mu": np.array([0.0, 1.0, 10.0, 30.0])}
    how = {"method": "adaptive", "max_inner_steps": 12}
    batch = simulate_batch(VanDerPol(), 10.0, 0.5, start=start, **how)
    same(batch, separate_run(VanDerPol(), 10.0, 0.5, start, **how))


def test_failed_run_of_an_adaptive_batch_does_not_affect_the_other_runs(caplog):
    x = np.linspace(0.01, 0.2, 13)
    good = simulate_batch(Escape(), 2.0, 0.01, start={"x": x}, method="adaptive")
    assert_allclose(good["x"][:, -1], x / (1.0 - 2.0 * x), rtol=1e-6)
    x[5] = 1.0
    with caplog.at_level(logging.WARNING, "rigidblocks"):
        bad = simulate_batch(Escape(), 2.0, 0.01, start={"x": x}, method="adaptive")
    assert "1 of 13 runs failed: run 5 at 1" in caplog.text
    assert np.flatnonzero(np.isfinite(bad.failed)).tolist() == [5]
    assert_allclose(bad.failed[5], 1.0, atol=0.01)
    rest = np.arange(13) != 5
    assert_array_equal(bad["x"][rest], good["x"][rest])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["adaptive", "adaptive or stiff"])
def test_adaptive_batch_of_a_system_matches_the_results_of_simulate(method, rng):
    system = wired(parts(), method=method)
    start = {"robot.q": rng.normal(size=(11, 2)), "pd.kp": rng.uniform(50.0, 100.0, (11, 2))}
    dt, t_stop = 5e-3, 1.0
    values = {}
    for lanes in LANES:
        for threads in (1, 3):
            batch = simulate_batch(
                system, t_stop, dt, start=start, lanes=lanes, threads=threads, method=method
            )
            values[lanes, threads] = batch.values
    for one in values.values():
        assert_array_equal(one, values[2, 1])
    run = prepare(system, dt, method=method)
    for k in range(11):
        one = run.simulate(t_stop, start={name: value[k] for name, value in start.items()})
        for port in one.ports:
            size = max(1.0, np.abs(one[port.name]).max())
            assert_allclose(batch[port.name][k], one[port.name], rtol=0.0, atol=RTOL * size)


@pytest.mark.slow
def test_adaptive_batch_of_a_floating_base_plant_matches_the_results_of_simulate(rng):
    plant = FloatingBasePlant(floating_base(auto_tree(2, skew=0.7)))
    start = {"velocity": rng.normal(size=(5, 6)), "qd": rng.normal(size=(5, 1))}
    batch = simulate_batch(plant, 0.5, 0.05, start=start, method="adaptive")
    expected = separate_run(plant, 0.5, 0.05, start, method="adaptive")
    for name, values in expected.items():
        size = max(1.0, np.abs(values).max())
        assert_allclose(batch[name], values, rtol=0.0, atol=RTOL * size)
