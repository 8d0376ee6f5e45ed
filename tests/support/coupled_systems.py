"""Mechanical systems that are divided into two parts, for tests of the coupling methods of a run.

Each part provides the inputs of the other part. SciPy solves the equations of the whole system.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from rigidblocks import Block, Port, System


@dataclass(frozen=True)
class Driver(Block):
    """Body with a spring and damper to another body, whose motion is the input.

    The output is the force on the other body.

        m qd' = outer(t, q, qd) - force,    force = k (q - q_other) + d (qd - qd_other)
    """

    m: float
    k: float
    d: float
    outer: Callable[[Any, Any, Any], Any]
    q0: float = 0.0
    qd0: float = 0.0

    @property
    def inputs(self):
        return (
            Port("q_other", (), "m", "position of the other", 0.0),
            Port("qd_other", (), "m/s", "velocity of the other", 0.0),
        )

    outputs = (
        Port("q", (), "m", "position"),
        Port("qd", (), "m/s", "velocity"),
        Port("force", (), "N", "force on the other"),
    )

    @property
    def states(self):
        return (
            Port("q", (), "m", "position", self.q0, rate="qd"),
            Port("qd", (), "m/s", "velocity", self.qd0),
        )

    def derivative(self, t, x, u):
        force = self.output(x, u)["force"]
        return {"q": x.qd, "qd": (self.outer(t, x.q, x.qd) - force) / self.m}

    def output(self, x, u):
        return {"force": self.k * (x.q - u.q_other) + self.d * (x.qd - u.qd_other)}


@dataclass(frozen=True)
class Load(Block):
    """Body that a force moves.

    m qd' = force + outer(t, q, qd)
    """

    m: float
    outer: Callable[[Any, Any, Any], Any]
    q0: float = 0.0
    qd0: float = 0.0

    inputs = (Port("force", (), "N", "force on it", 0.0),)
    outputs = (Port("q", (), "m", "position"), Port("qd", (), "m/s", "velocity"))

    @property
    def states(self):
        return (
            Port("q", (), "m", "position", self.q0, rate="qd"),
            Port("qd", (), "m/s", "velocity", self.qd0),
        )

    def derivative(self, t, x, u):
        return {"q": x.qd, "qd": (u.force + self.outer(t, x.q, x.qd)) / self.m}


@dataclass(frozen=True)
class Case:
    """Driver and load with the end of their run [s]."""

    driver: Driver
    load: Load
    t_stop: float = 1.0
    wires: tuple[tuple[str, str], ...] = field(
        default=(
            ("load.q", "driver.q_other"),
            ("load.qd", "driver.qd_other"),
            ("driver.force", "load.force"),
        )
    )

    def system(self, parts=None) -> System:
        """Connect driver and load, or the given parts instead."""
        system = System()
        for name, part in (parts or {"driver": self.driver, "load": self.load}).items():
            system.add(name, part)
        for source, target in self.wires:
            system.connect(source, target)
        return system

    def motion(self, times):
        """Return positions and velocities (n, 4) of the uncut system at the times, by SciPy."""
        a, b = self.driver, self.load

        def rates(t, y):
            q1, v1, q2, v2 = y
            force = a.k * (q1 - q2) + a.d * (v1 - v2)
            return [
                v1,
                (float(a.outer(t, q1, v1)) - force) / a.m,
                v2,
                (force + float(b.outer(t, q2, v2))) / b.m,
            ]

        start = [a.q0, a.qd0, b.q0, b.qd0]
        ends = (0.0, float(times[-1]))
        found = solve_ivp(rates, ends, start, "DOP853", times, rtol=1e-12, atol=1e-13)
        return found.y.T


def states_of_result(result):
    """Return positions and velocities of both parts in a result, (n, 4)."""
    names = ("driver.q", "driver.qd", "load.q", "load.qd")
    return np.stack([result[name] for name in names], axis=1)


def oscillator(d=0.5):
    """Return two masses between walls, the usual example of co-simulation (Busch 2012)."""
    return Case(
        Driver(1.0, 60.0, d, lambda _t, q, v: -20.0 * q - 0.2 * v, 0.3, 0.5),
        Load(0.5, lambda _t, q, v: -30.0 * q - 0.1 * v, -0.1, 1.0),
    )


def quarter_car():
    """Return a quarter car on a wavy road.

    Wheel, tyre and suspension are one part, the car body is the other.
    """

    def tyre(t, q, _v):
        return 150e3 * (0.02 * np.sin(12.0 * t) - q)

    return Case(Driver(40.0, 15e3, 1e3, tyre), Load(400.0, lambda _t, q, _v: 0.0 * q), 0.5)


def drivetrain():
    """Return a motor that drives a load with stick and slip through a shaft.

    The load sticks, breaks loose, slips, sticks again, and repeats this once. It has Stribeck
    friction, whose jump at rest is smoothed over 0.1 m/s, a twelfth of the sliding velocity.
    """

    def motor(_t, _q, v):
        return 8.0 * (0.8 - v)

    def friction(_t, _q, v):
        return -np.tanh(v / 0.1) * (1.0 + 4.0 * np.exp(-((v / 0.5) ** 2))) - 0.05 * v

    return Case(Driver(0.3, 40.0, 0.05, motor), Load(0.3, friction), 1.5)
