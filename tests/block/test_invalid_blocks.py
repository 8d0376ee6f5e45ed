"""Errors of invalid blocks state the mistake, its place and its remedy."""
# ruff: noqa: ARG005 - the functions of invalid blocks need not use their arguments

from dataclasses import dataclass

import numpy as np
import pytest

from rigidblocks.block.block import Block, Port, Record, call
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.memory_layout import Memory
from rigidblocks.library import GravityCompensation, Sine
from rigidblocks.robot.robots import planar2

U, Y = Port("u", unit="N.m"), Port("y", unit="N.m", start=0.0)


@dataclass(frozen=True)
class Lag(Block):
    """A complete first-order lag."""

    T: float = 0.1
    inputs = (U,)
    outputs = states = (Y,)

    @property
    def parameters(self):
        return (Port("T", unit="s", start=self.T, positive=True),)

    def derivative(self, x, u, p):
        return {"y": (u.u - x.y) / p.T}


def made(**members):
    """Return a Lag with these members replaced."""
    return type("Lag", (Lag,), members)()


def derivative(block):
    """Return the state derivatives of a block at its start values."""
    flat = Memory(block)
    return NumpyEvaluator(flat).derivative(flat.start())


def plain_dataclass():
    @dataclass
    class Gain(Block):
        k: float = 1.0

    return Gain()


def without_dataclass():
    class Gain(Block):
        k: float = 1.0

    return Gain(k=2.0)


WRONG = {
    "unknown state": (
        lambda: derivative(made(derivative=lambda self, x: {"y": -x.yy})),
        AttributeError,
        "block 'Lag': no state 'yy'; available: y (did you mean y?)",
    ),
    "input read as a state": (
        lambda: derivative(made(derivative=lambda self, x: {"y": -x.u})),
        AttributeError,
        "block 'Lag': no state 'u'; available: y",
    ),
    "parameter without a port": (
        lambda: derivative(made(derivative=lambda self, p: {"y": p.gain})),
        AttributeError,
        "block 'Lag': no parameter 'gain'; available: T",
    ),
    "assignment to a state": (
        lambda: derivative(made(derivative=lambda self, x: setattr(x, "y", 1.0))),
        AttributeError,
        "block 'Lag': the state 'y' cannot be set to 1.0 here; return the new values by name "
        "instead",
    ),
    "missing return": (
        lambda: derivative(made(derivative=lambda self: None)),
        TypeError,
        "Lag.derivative returned None; it must return a mapping with: y",
    ),
    "number as result": (
        lambda: derivative(made(derivative=lambda self: 1.0)),
        TypeError,
        "Lag.derivative returned a value of type float; it must return a mapping with: y",
    ),
    "missing port in the result": (
        lambda: derivative(made(derivative=lambda self: {"yd": 1.0})),
        ValueError,
        "Lag.derivative did not return y and returned the unknown yd; it must return a mapping "
        "with: y",
    ),
    "wrong shape": (
        lambda: derivative(made(derivative=lambda self: {"y": np.zeros(2)})),
        ValueError,
        "Lag.derivative returned 'y' of shape (2,); it needs shape ()",
    ),
    "unknown argument": (
        lambda: made(derivative=lambda self, time, x: {}),
        TypeError,
        "Lag.derivative has the argument 'time'; the arguments of a block function must be "
        "self and "
        "any of t, x, u, p",
    ),
    "missing self": (
        lambda: made(derivative=lambda x, u, p: {}),
        TypeError,
        "Lag.derivative has no argument self; its arguments must be self and any of t, x, u, p",
    ),
    "missing derivative": (
        lambda: type("Lag", (Block,), {"states": (Y,), "derivatives": lambda self: {}})(),
        ValueError,
        "block 'Lag': the function derivative is missing; it must return: y (did you mean "
        "derivatives?)",
    ),
    "missing output": (
        lambda: type("Gain", (Block,), {"inputs": (U,), "outputs": (Y,)})(),
        ValueError,
        "block 'Gain': the function output is missing; it must return: y",
    ),
    "duplicate port name": (
        lambda: made(inputs=(Port("T"),)),
        ValueError,
        "block 'Lag': two ports have the name 'T', in inputs and parameters",
    ),
    "duplicate output name": (
        lambda: made(outputs=(Y, Y)),
        ValueError,
        "block 'Lag': two ports have the name 'y', in states and outputs",
    ),
    "state without start value": (
        lambda: made(outputs=(Port("y"),), states=(Port("y"),)),
        ValueError,
        "block 'Lag': the state 'y' needs a start value: Port(..., start=0.0)",
    ),
    "rate that is not a state": (
        lambda: made(states=(Y, Port("q", start=0.0, rate="qdd"), Port("qd", start=0.0))),
        ValueError,
        "block 'Lag': the rate 'qdd' of the state 'q' is not another state; available: y, qd (did "
        "you mean qd?)",
    ),
    "output shape differs from the state shape": (
        lambda: made(outputs=(Port("y", (2,)),)),
        ValueError,
        "block 'Lag': the output 'y' has shape (2,); the state of the same name has shape ()",
    ),
    "parameter that is not finite": (
        lambda: Lag(T=np.nan),
        ValueError,
        "block 'Lag': the start value of port 'T' must be finite, not nan",
    ),
    "parameter outside its bounds": (
        lambda: Lag(T=0.0),
        ValueError,
        "block 'Lag': the start value of T is 0 s; it must be positive",
    ),
    "unknown unit": (
        lambda: made(inputs=property(lambda self: (Port("u", unit="Nm"),))),
        ValueError,
        "block 'Lag': unit 'Nm' has the unknown symbol 'Nm'; known symbols: 1, kg, m, s, A, "
        "K, rad, N, "
        "J, W, Hz, V",
    ),
    "ports as a method": (
        lambda: made(inputs=lambda self: (U,)),
        TypeError,
        "block 'Lag': inputs is a function; write @property above it",
    ),
    "one port without a tuple": (
        lambda: made(inputs=U),
        TypeError,
        "block 'Lag': inputs is a single port; it must be a tuple of ports: (Port(...),)",
    ),
    "names instead of ports": (
        lambda: made(inputs=("u",)),
        TypeError,
        "block 'Lag': inputs must be a tuple of ports, not ('u',)",
    ),
    "sample time of zero": (
        lambda: made(sample_time=0.0),
        ValueError,
        "block 'Lag': the sample_time must be positive, not 0.0 s",
    ),
    "sampled states without sample time": (
        lambda: made(sampled=(Port("n", start=0.0),), update=lambda self, x: {"n": x.n}),
        ValueError,
        "block 'Lag': the sampled states n need a sample_time [s], which is a field of the block",
    ),
    "mutable dataclass": (
        plain_dataclass,
        TypeError,
        "block 'Gain' is mutable; write @dataclass(frozen=True) above its class",
    ),
    "missing dataclass decorator": (
        without_dataclass,
        TypeError,
        "block 'Gain' has no fields and takes no arguments; write "
        "@dataclass(frozen=True) above its class",
    ),
    "library block": (
        lambda: Sine(frequency=(1.0, -2.0)),
        ValueError,
        "block 'Sine': the start value of frequency[2] is -2 Hz; it must be positive",
    ),
}


@pytest.mark.parametrize(("make", "kind", "message"), WRONG.values(), ids=WRONG)
def test_error_of_an_invalid_block_states_cause_place_and_remedy(make, kind, message):
    with pytest.raises(kind) as error:
        make()
    assert str(error.value) == message


def test_blocks_with_valid_ports_and_functions_are_accepted():
    assert derivative(Lag(T=0.2)).tolist() == [0.0]
    assert Lag(T=0.2).parameters[0].start == 0.2
    assert GravityCompensation(planar2()).outputs[0].name == "tau"


def test_block_is_validated_after_its_user_defined_init_method():
    class Tank(Block):
        def __init__(self, level):
            super().__init__()
            self.level = level

        @property
        def states(self):
            return (Port("level", start=self.level, positive=True),)

        def derivative(self):
            return {"level": 0.0}

    assert call(Tank(1.0), "derivative", 0.0, *[Record({})] * 3) == {"level": 0.0}
    with pytest.raises(ValueError, match="block 'Tank': the start value of level is -1; it must"):
        Tank(-1.0)
