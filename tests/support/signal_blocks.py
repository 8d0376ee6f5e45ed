"""One or two signal blocks of every kind, with their direct feedthrough."""

import numpy as np

from rigidblocks import ContinuousSystem, FusedSystem, System
from rigidblocks.library import (
    PID,
    Compare,
    Constant,
    Counter,
    DeadZone,
    Delay,
    Demux,
    Derivative,
    Fault,
    Gain,
    Hysteresis,
    Integrator,
    Logic,
    LookupTable,
    LowPass,
    Mux,
    Noise,
    Product,
    RateLimiter,
    RateTransition,
    Saturation,
    Selector,
    State,
    StateMachine,
    StateSpace,
    Sum,
    Switch,
    TransferFunction,
    Transition,
    TransportDelay,
    UnitDelay,
    ZeroOrderHold,
)

T = 2e-3  # [s] sample time
A, B, C = [[-1.0, 2.0], [-2.0, -1.0]], [[1.0, 0.0], [0.5, 1.0]], [[1.0, 0.0]]
U = {("u", "y")}


def combine_blocks(kind):
    """Return all sampled or all continuous blocks in parallel as one block."""
    system = System()
    for name, (block, _) in SIGNALS.items():
        if (kind == "sampled") == (block.sample_time is not None):
            open_inputs = {port.name: 0.1 for port in block.inputs if port.start is None}
            system.add(name.replace(" ", "_"), block, start=open_inputs)
    return FusedSystem(system, T) if kind == "sampled" else ContinuousSystem(system)


def _all(*names):
    return {(name, "y") for name in names}


SIGNALS = {
    "constant": (Constant([[1.0, 2.0]], unit="N"), set()),
    "gain": (Gain((2.0, -1.0), unit="N.m", unit_in="rad"), U),
    "matrix gain": (Gain(((1.0, 2.0, 0.0), (0.0, -1.0, 0.5)), matrix=True), U),
    "sum": (Sum("+-+", (2,), "m"), _all("u1", "u2", "u3")),
    "product": (Product("**", (2,)), _all("u1", "u2")),
    "mux": (Mux((2, (), 1)), _all("u1", "u2", "u3")),
    "demux": (Demux((2, (), 1)), {("u", "y1"), ("u", "y2"), ("u", "y3")}),
    "selector": (Selector(4, (3, 1, 3)), U),
    "saturation": (Saturation((-0.2, -0.5), 0.4), U),
    "upper limit": (Saturation(upper=0.1, shape=2), U),
    "dead zone": (DeadZone(-0.2, (0.1, 0.3)), U),
    "rate limiter": (RateLimiter(50.0, -20.0, shape=2, time_constant=5e-3), set()),
    "sampled rate limiter": (RateLimiter(50.0, sample_time=T), U),
    "switch": (Switch(0.2, 2), _all("u1", "u2", "u3")),
    "compare": (Compare(0.1, (2,)), _all("u1", "u2")),
    "xor": (Logic("xor", 3, 2), _all("u1", "u2", "u3")),
    "nand": (Logic("nand", 2), _all("u1", "u2")),
    "not": (Logic("not"), {("u1", "y")}),
    "hysteresis": (Hysteresis(-0.3, 0.2, T), U),
    "counter": (Counter(T, 3), _all("u", "reset")),
    "state machine": (
        StateMachine(
            (
                State("rest", {"y": "2 * u"}, entry={"count": "count + 1"}),
                State("move", {"y": "start + elapsed"}, entry={"start": "u"}),
            ),
            (
                Transition("rest", "move", "u > low and elapsed >= 1.5e-3", {"start": -1.0}),
                Transition("move", "rest", "elapsed > 3.3e-3 or u < -1"),
            ),
            T,
            ("u",),
            {"low": -0.3},
            {"start": 0.0, "count": 0.0},
            {"u": "m", "y": "m", "low": "m", "start": "m"},
        ),
        {("u", name) for name in ("state", "elapsed", "entered", "y", "start", "count")},
    ),
    "hold": (ZeroOrderHold(T, 2), U),
    "unit delay": (UnitDelay(T, y0=(0.3, 0.1)), set()),
    "delay": (Delay(3, T, 2, y0=0.5), set()),
    "transport delay": (TransportDelay(2.3 * T, T, 2, y0=0.2), set()),
    "whole transport delay": (TransportDelay(3 * T, T), set()),
    "to slower": (RateTransition(T / 2, T, 2), U),
    "to faster": (RateTransition(T, T / 2, 2), set()),
    "integrator": (Integrator(y0=(0.1, 0.2)), set()),
    "limited integrator": (Integrator(2, lower=-1e-3, upper=2e-3, reset=True), set()),
    "sampled integrator": (
        Integrator(2, lower=-1e-3, upper=2e-3, reset=True, sample_time=T),
        {("reset", "y")},
    ),
    "derivative": (Derivative(5e-3, 2), U),
    "sampled derivative": (Derivative(5e-3, 2, sample_time=T), U),
    "difference": (Derivative(0.0, sample_time=T), U),
    "low pass": (LowPass(5e-3, 2), set()),
    "sampled low pass": (LowPass(5e-3, 2, sample_time=T), U),
    "transfer function": (TransferFunction((2.0, 1.0), (1e-4, 0.02, 2.0), 2), set()),
    "proper transfer function": (TransferFunction((2.0, 1.0), (0.5, 2.0)), U),
    "sampled transfer function": (TransferFunction((0.5, 0.1), (1.0, -0.9, 0.2), 2, T), set()),
    "number": (TransferFunction(3.0, 2.0), U),
    "state space": (StateSpace(A, B, C, x0=(0.1, 0.2)), set()),
    "state space with D": (StateSpace(A, B, C, [[0.0, 2.0]]), U),
    "sampled state space": (
        StateSpace(np.array(A) / 4, B, C, [[0.0, 2.0]], x0=0.3, sample_time=T),
        U,
    ),
    "pid": (
        PID((3.0, 2.0), 40.0, 0.01, 2e-3, (-1.0, -0.5), 0.8, b=0.7, c=0.2),
        _all("ref", "meas"),
    ),
    "p": (PID(2.0), _all("ref", "meas")),
    "sampled pid": (
        PID(3.0, 40.0, 0.01, 0.0, lower=-0.5, Tt=0.02, shape=2, sample_time=T),
        _all("ref", "meas"),
    ),
    "table": (LookupTable((-1.0, 0.0, 0.3, 2.0), (0.0, 1.0, -1.0, 0.5), shape=2), U),
    "endless table": (LookupTable((0.0, 0.1, 0.3), (0.0, 1.0, -1.0), "linear"), U),
    "table of two": (
        LookupTable(((-0.5, 0.0, 0.5), (-0.2, 0.1)), ((0.0, 1.0), (2.0, -1.0), (0.5, 0.7))),
        _all("u1", "u2"),
    ),
    "noise": (Noise(T, 7, (0.5, 2.0), 0.1, shape=2), set()),
    "uniform noise": (Noise(T, 2**40 + 3, distribution="uniform"), set()),
    "fault": (
        Fault(T, 2, "rad", 2, 5, (0.1, -0.2), 0.05, 1.0, spike_rate=0.3, dropout=0.2, y0=0.5),
        set(),
    ),
    "stuck": (Fault(T, bias=0.3, stuck=1.0, y0=0.2), U),
}
