"""Messages of runs that diverge: the signal that grew first, and the gain that is too high."""

import re
from dataclasses import dataclass

import numpy as np
import pytest

from rigidblocks import Block, Port, SimulationError, System, simulate
from rigidblocks.cosim.diagnosis import first_growth
from rigidblocks.cosim.results.result import Result

DT, MASS = 0.01, 2.0


@dataclass(frozen=True)
class Cart(Block):
    """A cart on a line: m dv/dt = f, with its kinetic energy."""

    inputs = (Port("f", unit="N", start=0.0),)
    states = (Port("v", unit="m/s", start=1.0),)
    outputs = (Port("v", unit="m/s"), Port("energy", unit="J"))

    def derivative(self, u):
        return {"v": u.f / MASS}

    def output(self, x):
        return {"energy": 0.5 * MASS * x.v * x.v}


@dataclass(frozen=True)
class Damper(Block):
    """Force of a damper: f = -d v."""

    d: float

    inputs = (Port("v", unit="m/s"),)
    outputs = (Port("f", unit="N"),)

    @property
    def parameters(self):
        return (Port("d", unit="N.s/m", start=self.d),)

    def output(self, u, p):
        return {"f": -p.d * u.v}


def damped_cart(d):
    system = System()
    system.add("cart", Cart(), method="rk4")
    system.add("damper", Damper(d))
    system.connect("cart.v", "damper.v")
    system.connect("damper.f", "cart.f")
    return system


def failure(system, t_stop):
    with pytest.raises(SimulationError) as caught:
        simulate(system, t_stop, DT, progress=False)
    return str(caught.value)


def test_divergence_error_identifies_the_gain_that_is_too_high_for_the_communication_step():
    """The held loop is v' = (1 - d dt / m) v, which is unstable for d > 2 m / dt."""
    limit = 2 * MASS / DT
    text = failure(damped_cart(2.5 * limit), 20.0)
    assert "cart.v grew first" in text  # the energy grows faster, but is not connected
    assert "|z| = 4 instead of at most 1 (fastest pole 500 1/s, pole times hold 5)" in text
    found = re.search(r"damper\.d is too high, use at most (\S+) times its value \((\S+)\)", text)
    assert float(found[1]) == pytest.approx(1 / 2.5, rel=0.02)
    assert float(found[2]) == pytest.approx(limit, rel=0.005)


def test_gain_suggested_by_the_divergence_error_gives_a_decaying_motion():
    result = simulate(damped_cart(0.99 * 2 * MASS / DT), 20.0, DT, progress=False)
    assert abs(result["cart.v"][-1]) < 1e-3


def test_divergence_error_identifies_no_gain_if_the_continuous_system_is_unstable():
    """A damper of negative damping: v = exp(-d t / m)."""
    text = failure(damped_cart(-50 * MASS), 20.0)
    assert "grew first" in text
    assert "too high" not in text


def result_of(time, **columns):
    ports = tuple(Port(name) for name in columns)
    return Result(time, ports, np.column_stack(list(columns.values())), {})


def test_first_growing_signal_is_the_first_above_a_thousand_times_its_initial_range():
    """exp(a t) exceeds 1000 exp(a T / 10) at t = ln(1000) / a + T / 10."""
    t = np.linspace(0.0, 10.0, 10_001)
    waves = {"large": 1e5 * np.cos(t), "pulse": 1e4 * np.exp(-((t - 5) ** 2))}
    result = result_of(t, slow=np.exp(t), fast=np.exp(2 * t), **waves)
    text = first_growth(result)
    assert text.startswith("fast grew first, to ")
    assert float(text.split()[-2]) == pytest.approx(np.log(1000) / 2 + 1, abs=1.1e-3)
    assert first_growth(result, {"slow"}).startswith("slow grew first, to ")


def test_no_growing_signal_is_found_in_bounded_signals_or_one_sample():
    t = np.linspace(0.0, 10.0, 101)
    assert first_growth(result_of(t, y=np.sin(t))) == ""
    assert first_growth(result_of(t[:1], y=t[:1])) == ""
