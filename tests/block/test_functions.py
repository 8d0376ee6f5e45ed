"""The functions of a block take what they name of t, x, u and p."""

import itertools
import re

import pytest

from rigidblocks.block.block import Block, Port, Record, call, takes

GIVEN = {"t": 1.0, "x": Record({"q": 2.0}), "u": Record({"f": 3.0}), "p": Record({"k": 5.0})}


@pytest.mark.parametrize(
    "names",
    [names for n in range(5) for names in itertools.permutations("txup", n)],
    ids=lambda names: "".join(names) or "none",
)
def test_function_gets_what_it_names_in_any_order(names):
    scope = {}
    values = "".join(f"{name}, " for name in names)
    exec(f"def output(self, {values}): return {{'y': ({values})}}", scope)
    block = type("Any", (Block,), {"output": scope["output"]})()
    assert takes(type(block).output) == names
    assert call(block, "output", *GIVEN.values()) == {"y": tuple(GIVEN[name] for name in names)}


def test_start_is_one_update_unless_a_block_says_otherwise():
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
        ("def output(self, time): ...", "Wrong.output takes 'time'"),
        ("def output(self, x, u, q): ...", "Wrong.output takes 'q'"),
        ("def output(self, *values): ...", "Wrong.output takes '*values'"),
        ("def output(self, **values): ...", "Wrong.output takes '**values'"),
        ("def output(self, x, /): ...", "Wrong.output takes 'x'"),
    ],
)
def test_function_that_takes_something_else_is_refused_where_its_class_is_made(source, message):
    rest = "; a function of a block takes self and what it uses of t, x, u, p"
    with pytest.raises(TypeError, match=f"^{re.escape(message + rest)}$"):
        type("Wrong", (Block,), {"output": method(source)})


def test_function_without_self_is_named():
    message = "Wrong.output has no self; its first argument is self, then some of t, x, u, p"
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        type("Wrong", (Block,), {"output": method("def output(x, u): ...")})
