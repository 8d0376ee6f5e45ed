"""Blocks as people write them wrong: each is answered with what is wrong, where, and what would be
right.
"""
# ruff: noqa: ARG005 - the functions of wrong blocks need not use what they take

from dataclasses import dataclass

import numpy as np
import pytest

from rigidblocks.block.block import Block, Port, Record, call
from rigidblocks.block.evaluate import NumpyEvaluator
from rigidblocks.block.memory import Memory
from rigidblocks.library import GravityCompensation, Sine
from rigidblocks.robots import planar2

U, Y = Port("u", unit="N.m"), Port("y", unit="N.m", start=0.0)


@dataclass(frozen=True)
class Lag(Block):
    """A first-order lag with everything that it needs."""

    T: float = 0.1
    inputs = (U,)
    outputs = states = (Y,)

    @property
    def parameters(self):
        return (Port("T", unit="s", start=self.T, positive=True),)

    def derivative(self, x, u, p):
        return {"y": (u.u - x.y) / p.T}


def made(**members):
    """A Lag that differs by these members."""
    return type("Lag", (Lag,), members)()


def derivative(block):
    """Its rates at the start."""
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
    "a state that there is not": (
        lambda: derivative(made(derivative=lambda self, x: {"y": -x.yy})),
        AttributeError,
        "block 'Lag': no state 'yy'; there are: y (did you mean y?)",
    ),
    "an input read as a state": (
        lambda: derivative(made(derivative=lambda self, x: {"y": -x.u})),
        AttributeError,
        "block 'Lag': no state 'u'; there are: y",
    ),
    "a parameter that is no port": (
        lambda: derivative(made(derivative=lambda self, p: {"y": p.gain})),
        AttributeError,
        "block 'Lag': no parameter 'gain'; there are: T",
    ),
    "a state that is assigned": (
        lambda: derivative(made(derivative=lambda self, x: setattr(x, "y", 1.0))),
        AttributeError,
        "block 'Lag': the state 'y' cannot be set to 1.0 here; a function returns new values by "
        "name",
    ),
    "no return": (
        lambda: derivative(made(derivative=lambda self: None)),
        TypeError,
        "Lag.derivative returned None; it must return a mapping with: y",
    ),
    "a number returned": (
        lambda: derivative(made(derivative=lambda self: 1.0)),
        TypeError,
        "Lag.derivative returned a value of type float; it must return a mapping with: y",
    ),
    "a port left out for another": (
        lambda: derivative(made(derivative=lambda self: {"yd": 1.0})),
        ValueError,
        "Lag.derivative left out y and returned the unknown yd; it must return a mapping with: y",
    ),
    "another shape": (
        lambda: derivative(made(derivative=lambda self: {"y": np.zeros(2)})),
        ValueError,
        "Lag.derivative returned 'y' of shape (2,); it needs shape ()",
    ),
    "a wrong argument": (
        lambda: made(derivative=lambda self, time, x: {}),
        TypeError,
        "Lag.derivative takes 'time'; a function of a block takes self and what it uses of "
        "t, x, u, p",
    ),
    "no self": (
        lambda: made(derivative=lambda x, u, p: {}),
        TypeError,
        "Lag.derivative has no self; its first argument is self, then some of t, x, u, p",
    ),
    "no derivative": (
        lambda: type("Lag", (Block,), {"states": (Y,), "derivatives": lambda self: {}})(),
        ValueError,
        "block 'Lag': no function derivative, which has to return: y (did you mean derivatives?)",
    ),
    "no output": (
        lambda: type("Gain", (Block,), {"inputs": (U,), "outputs": (Y,)})(),
        ValueError,
        "block 'Gain': no function output, which has to return: y",
    ),
    "two ports of one name": (
        lambda: made(inputs=(Port("T"),)),
        ValueError,
        "block 'Lag': two ports have the name 'T', of the inputs and the parameters",
    ),
    "two outputs of one name": (
        lambda: made(outputs=(Y, Y)),
        ValueError,
        "block 'Lag': two ports have the name 'y', of the states and the outputs",
    ),
    "a state without a start": (
        lambda: made(outputs=(Port("y"),), states=(Port("y"),)),
        ValueError,
        "block 'Lag': the state 'y' needs a start value: Port(..., start=0.0)",
    ),
    "a rate that is no state": (
        lambda: made(states=(Y, Port("q", start=0.0, rate="qdd"), Port("qd", start=0.0))),
        ValueError,
        "block 'Lag': the rate 'qdd' of the state 'q' is no other state; there are: y, qd (did you "
        "mean qd?)",
    ),
    "an output of another shape than its state": (
        lambda: made(outputs=(Port("y", (2,)),)),
        ValueError,
        "block 'Lag': the output 'y' of shape (2,) is the state of that name, which has shape ()",
    ),
    "a parameter that is not a number": (
        lambda: Lag(T=np.nan),
        ValueError,
        "block 'Lag': the start value of port 'T' must be finite, not nan",
    ),
    "a parameter out of its bounds": (
        lambda: Lag(T=0.0),
        ValueError,
        "block 'Lag': the start value of T is 0 s; it must be positive",
    ),
    "an unknown unit": (
        lambda: made(inputs=property(lambda self: (Port("u", unit="Nm"),))),
        ValueError,
        "block 'Lag': unit 'Nm' has the unknown symbol 'Nm'; known are: 1, kg, m, s, A, K, rad, N, "
        "J, W, Hz, V",
    ),
    "ports as a function": (
        lambda: made(inputs=lambda self: (U,)),
        TypeError,
        "block 'Lag': inputs is a function; write @property above it",
    ),
    "one port without a comma": (
        lambda: made(inputs=U),
        TypeError,
        "block 'Lag': inputs is one port and no tuple; a comma makes it one: (Port(...),)",
    ),
    "names in the place of ports": (
        lambda: made(inputs=("u",)),
        TypeError,
        "block 'Lag': inputs must be a tuple of ports, not ('u',)",
    ),
    "a sample time of zero": (
        lambda: made(sample_time=0.0),
        ValueError,
        "block 'Lag': the sample_time must be positive, not 0.0 s",
    ),
    "sampled states without a sample time": (
        lambda: made(sampled=(Port("n", start=0.0),), update=lambda self, x: {"n": x.n}),
        ValueError,
        "block 'Lag': the sampled states n need a sample_time [s], which is a field of the block",
    ),
    "a dataclass that can be changed": (
        plain_dataclass,
        TypeError,
        "block 'Gain' can be changed; write @dataclass(frozen=True) above its class",
    ),
    "no dataclass": (
        without_dataclass,
        TypeError,
        "block 'Gain' has no fields to take values; write @dataclass(frozen=True) above its class",
    ),
    "a block of the library": (
        lambda: Sine(frequency=(1.0, -2.0)),
        ValueError,
        "block 'Sine': the start value of frequency[2] is -2 Hz; it must be positive",
    ),
}


@pytest.mark.parametrize(("make", "kind", "message"), WRONG.values(), ids=WRONG)
def test_wrong_block_is_told_what_where_and_what_would_be_right(make, kind, message):
    with pytest.raises(kind) as error:
        make()
    assert str(error.value) == message


def test_right_blocks_are_made():
    assert derivative(Lag(T=0.2)).tolist() == [0.0]
    assert Lag(T=0.2).parameters[0].start == 0.2
    assert GravityCompensation(planar2()).outputs[0].name == "tau"


def test_block_with_an_init_of_its_own_is_checked_behind_it():
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
