"""A sensor or link fault changes a signal exactly as its parameters specify."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from planar2ctrl import parts, wired
from rigidblocks import System, simulate
from rigidblocks.library import Fault, Noise, Sine

DT = 0.01


def through(n=400, scenario=None, seed=1, form="compiled", **fault):
    """Return the output of a fault with two sines as input, and the sines."""
    system = System()
    system.add("sine", Sine((1.0, 2.0), (3.0, 5.0)))
    system.add("fault", Fault(DT, 2, "rad", seed=seed, **fault))
    system.connect("sine.y", "fault.u")
    run = simulate(system, n * DT, DT, form=form, scenario=scenario, progress=False)
    return run["fault.y"], run["sine.y"]


@pytest.mark.slow
def test_fault_block_without_faults_passes_the_signal():
    y, u = through()
    assert_array_equal(y, u)


@pytest.mark.slow
def test_fault_block_delays_the_signal_and_adds_a_bias():
    y, u = through(delay=3, bias=(0.5, -1.0), y0=7.0)
    assert_allclose(y[3:], u[:-3] + np.array([0.5, -1.0]), rtol=1e-15)
    assert_array_equal(y[:3], np.tile([7.5, 6.0], (3, 1)))


@pytest.mark.slow
def test_noise_of_the_fault_block_equals_the_output_of_the_noise_block():
    y, u = through(deviation=(0.1, 0.2))
    system = System()
    system.add("noise", Noise(DT, 1, shape=2))
    noise = simulate(system, 4.0, DT, progress=False)["noise.y"]
    assert_allclose(y - u, noise * [0.1, 0.2], atol=1e-15)


@pytest.mark.slow
def test_spikes_and_dropouts_of_the_fault_block_have_the_specified_probabilities():
    n = 20_000
    y, u = through(n, spike=(5.0, 3.0), spike_rate=0.1)
    off = np.abs(y - u) > 1.0
    assert_allclose(
        (y - u)[off], np.where((y - u)[off] > 0, 1, -1) * np.tile([5, 3], (n + 1, 1))[off]
    )
    sigma = np.sqrt(0.1 * 0.9 / n)
    assert np.all(np.abs(off.mean(axis=0) - 0.1) < 4 * sigma)
    assert abs(np.mean(off[:, 0] & off[:, 1]) - 0.01) < 4 * np.sqrt(0.01 / n)  # independent
    assert abs(np.mean((y - u)[off] > 0) - 0.5) < 4 * np.sqrt(0.25 / off.sum())
    y, u = through(n, dropout=0.25)
    held = np.all(y[1:] == y[:-1], axis=1)
    assert abs(held.mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / n)
    assert_array_equal(y[1:][~held], u[1:][~held])
    assert_array_equal(through(50, dropout=0.25, seed=2)[0], through(50, dropout=0.25, seed=2)[0])
    assert not np.array_equal(through(50, dropout=0.5, seed=2)[0], through(50, dropout=0.5)[0])


@pytest.mark.slow
def test_scenario_switches_a_fault_on_and_off():
    story = {"time": [1.0, 2.0, 3.0], "fault.stuck": [1.0, 0.0, 0.0], "fault.bias": [0.0, 0.0, 1.0]}
    story["fault.bias"] = [[b, b] for b in story["fault.bias"]]
    y, u = through(scenario=story)
    assert_array_equal(y[:101], u[:101])
    assert_array_equal(y[101:201], np.tile(y[100], (100, 1)))
    assert_array_equal(y[201:301], u[201:301])
    assert_array_equal(y[301:], u[301:] + 1.0)


@pytest.mark.slow
def test_fault_block_can_be_inserted_into_an_existing_connection():
    system, plain = wired(parts()), wired(parts())
    system.insert("encoder", Fault(DT, 2, "rad"), "robot.q", "pd.q")
    assert ("robot.q", "encoder.u") in [one.names for one in system.connections]
    assert ("robot.q", "pd.q") not in [one.names for one in system.connections]
    before = len(plain.connections)
    with pytest.raises(
        KeyError,
        match=r"no connection robot\.q -> pd\.qd; the connections are: .*robot\.q -> pd\.q,",
    ):
        plain.insert("a", Fault(DT, 2, "rad"), "robot.q", "pd.qd")
    with pytest.raises(ValueError, match="cannot connect"):
        plain.insert("a", Fault(DT, 3, "rad"), "robot.q", "pd.q")
    assert len(plain.connections) == before
    assert "a" not in plain.parts
    run = simulate(system, 0.1, DT, progress=False)
    assert_array_equal(run["encoder.y"], run["robot.q"])


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"dropout": 1.5}, "dropout"),
        ({"spike_rate": -0.1}, "spike_rate"),
        ({"deviation": -1.0}, "deviation"),
        ({"delay": -1}, "at least 0 samples"),
        ({"delay": 10**6}, "the maximum is 5000 samples"),
        ({"seed": 0.5}, "seed"),
    ],
)
def test_invalid_parameters_of_the_fault_block_are_rejected(wrong, text):
    with pytest.raises(ValueError, match=text):
        Fault(DT, 2, **wrong)
