"""Events in systems with sampled parts: each sample is taken once at its own time."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rigidblocks import (
    Block,
    Model,
    Port,
    Prismatic,
    PythonBlock,
    RobotPlant,
    Sine,
    System,
    simulate,
)
from rigidblocks.library import TransferFunction, ZeroOrderHold
from rigidblocks.spatial.scalar import less, select
from rigidblocks.spatial.spatial import identity, mcI

G, HEIGHT, THRUST = 9.81, 1.0, 15.0
FORMS = ("compiled", pytest.param("numpy", marks=pytest.mark.slow))


@dataclass(frozen=True, eq=False)
class SampledThruster(Block):
    """Thruster with full force after the first sample at which the height is below 0.7 m."""

    sample_time: float = 0.1
    inputs = (Port("z", (1,), "m"),)
    sampled = (Port("tau", (1,), "N", start=0.0),)
    outputs = (Port("tau", (1,), "N", start=0.0),)

    def update(self, u):
        return {"tau": select(less(0.7, u.z), 0.0, THRUST)}


def mass():
    """Return a mass that falls from rest."""
    model = Model("mass", (-1,), (Prismatic(),), (identity(),), (mcI(1.0, np.zeros(3), np.eye(3)),))
    return RobotPlant(model, [HEIGHT])


def landing(sample_time):
    system = System()
    system.add("ball", mass(), method="rk4", h=0.1)  # exact for a parabola
    system.add("thruster", SampledThruster(sample_time))
    system.connect("ball.q", "thruster.z")
    system.connect("thruster.tau", "ball.tau")
    return system


def height(t, sample_time):
    """Return the height [m] of the mass; the force acts from the first sample below 0.7 m."""
    on = sample_time * np.ceil(np.sqrt(2 * 0.3 / G) / sample_time)
    s = np.maximum(t - on, 0)
    return HEIGHT - G * np.minimum(t, on) ** 2 / 2 - G * on * s + (THRUST - G) * s**2 / 2


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dt", [0.1, 0.05])
def test_events_do_not_change_the_motion_under_a_sampled_force(dt, form):
    sample_time = 0.1
    system = landing(sample_time)
    system.add("sine", Sine(amplitude=1.0, frequency=2.3, phase=0.3))
    events = ["ball.q[1]", "sine.y[1]"]
    result = simulate(system, 0.6, dt, events=events, form=form)
    assert len(result.events) >= 2
    assert_allclose(result["ball.q[1]"], height(result.time, sample_time), rtol=0, atol=1e-11)
    for t in result.times("ball.q[1]"):
        assert abs(height(t, sample_time)) < 1e-11
    at_points = ~np.isin(result.time, [event.t for event in result.events])
    without = simulate(system, 0.6, dt, form=form)
    assert_allclose(result["ball.q"][at_points], without["ball.q"], rtol=0, atol=1e-12)
    assert_array_equal(result["thruster.tau"][at_points], without["thruster.tau"])


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dt", [0.1, 0.02, 0.005])  # 5, 1 and 0.25 sample times
def test_events_do_not_change_the_number_of_samples(dt, form, rng):
    system = System()
    system.add("on", Sine(amplitude=1.0, frequency=1.0, phase=0.1))
    system.add("filter", TransferFunction((1.0,), (1.0, -0.5), sample_time=0.02))
    counter = TransferFunction((1.0,), (1.0, -1.0), sample_time=0.02)
    system.add("counter", counter, start={"u": 1.0})
    system.connect("on.y[1]", "filter.u")
    frequencies = rng.uniform(3, 20, 5)
    for k, frequency in enumerate(frequencies):
        system.add(f"s{k}", Sine(amplitude=1.0, frequency=frequency, phase=rng.uniform(0, 6)))
    events = [f"s{k}.y[1]" for k in range(5)]
    result = simulate(system, 0.5, dt, events=events, form=form)
    assert len(result.events) > 15
    without = simulate(system, 0.5, dt, form=form)
    at_points = ~np.isin(result.time, [event.t for event in result.events])
    assert result["counter.y"][-1] == 25
    # parts exchange values at events too, so a sample within a step may read newer values
    for name in ("counter.y", "filter.y") if dt <= 0.02 else ("counter.y",):
        assert_allclose(result[name][at_points], without[name], rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sample_time", [0.1, 0.2])
def test_zero_crossing_of_a_sampled_output_is_an_event_at_the_sample(sample_time, form):
    system = System()
    system.add("sine", Sine(amplitude=1.0, frequency=0.9, phase=0.2))
    system.add("hold", ZeroOrderHold(sample_time, shape=(1,)))
    system.connect("sine.y", "hold.u")
    result = simulate(system, 3.0, 0.1, events=["hold.y[1]"], form=form)
    falls = (np.arange(3) + 0.5 - 0.2 / (2 * np.pi)) / 0.9
    falls = falls[falls < 3.0]
    expected = sample_time * np.ceil(falls / sample_time)
    assert_allclose(result.times("hold.y[1]"), expected, rtol=0, atol=2e-12)


def test_sampled_python_function_is_called_once_per_sample_despite_events():
    called = []

    def count(t):
        called.append(t)
        return np.array(float(len(called)))

    system = System()
    counter = PythonBlock(count, (), (Port("y", (), "1", start=0.0),), sample_time=0.1)
    system.add("count", counter)
    system.add("sine", Sine(amplitude=1.0, frequency=3.7, phase=0.2))
    result = simulate(system, 1.0, 0.1, events=["sine.y[1]"])
    assert len(result.events) == 4
    # repeated steps call the function again; each sample instant appears once
    assert np.unique(np.round(called, 9)).tolist() == [round(0.1 * k, 9) for k in range(11)]
