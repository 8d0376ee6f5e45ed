"""Block functions read t, x, u and p by the names of their arguments."""

import itertools
import re

import pytest

from rigidblocks.block.block import Block, Port, Record, argument_names, call

GIVEN = {"t": 1.0, "x": Record({"q": 2.0}), "u": Record({"f": 3.0}), "p": Record({"k": 5.0})}


@pytest.mark.parametrize(
    "names",
    [names for n in range(5) for names in itertools.permutations("txup", n)],
    ids=lambda names: "".join(names) or "none",
)
def test_block_function_accepts_its_arguments_in_any_order(names):
    scope = {}
    values = "".join(f"{name}, " for name in names)
    exec(f"def output(self, {values}): return {{'y': ({values})}}", scope)
    block = type("Any", (Block,), {"output": scope["output"]})()
    assert argument_names(type(block).output) == names
    assert call(block, "output", *GIVEN.values()) == {"y": tuple(GIVEN[name] for name in names)}


def test_default_initial_states_are_the_result_of_one_update():
    class Counter(Block):
        sample_time = 1e-3
        sampled = (Port("n", start=0.0),)

        def update(self, x):
            return {"n": x.n + 1.0}

    n = Record({"n": 4.0})
    assert call(Counter(), "initial", 0.0, n, Record({}), Record({})) == {"n": 5.0}


def method(source):
    scope = {}
    exec(source, scope)
    return scope["output"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def output(self, time): ...", "Wrong.output has the argument 'time'"),
        ("def output(self, x, u, q): ...", "Wrong.output has the argument 'q'"),
        ("def output(self, *values): ...", "Wrong.output has the argument '*values'"),
        ("def output(self, **values): ...", "Wrong.output has the argument '**values'"),
        ("def output(self, x, /): ...", "Wrong.output has the argument 'x'"),
    ],
)
def test_block_function_with_unknown_arguments_is_rejected(source, message):
    rest = "; the arguments of a block function must be self and any of t, x, u, p"
    with pytest.raises(TypeError, match=f"^{re.escape(message + rest)}$"):
        type("Wrong", (Block,), {"output": method(source)})


def test_block_function_without_self_is_rejected():
    message = "Wrong.output has no argument self; its arguments must be self and any of t, x, u, p"
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        type("Wrong", (Block,), {"output": method("def output(x, u): ...")})
