"""What is not pure, or branches on what is traced, is found where a block is traced, and named."""

import itertools
import re
import time
from pathlib import Path

import numpy as np
import pytest

from rigidblocks import Block, Port, System
from rigidblocks.block.integrators import RK4
from rigidblocks.block.memory import Memory
from rigidblocks.kernels.evaluator import TracedEvaluator
from rigidblocks.kernels.kernel import model_header
from rigidblocks.kernels.purity import ImpureBlockError
from rigidblocks.kernels.stepper import compiled_stepper
from rigidblocks.library import PDController
from rigidblocks.system.fused import FusedSystem
from rigidblocks.tracing.trace import TraceError
from traced_lines import ADVICE

COUNT, RANDOM = itertools.count(), np.random.default_rng()
PURE = "for the same memory: a block's functions must be pure"


class Noisy(Block):
    """A filter of which one function is not pure: `what` makes its value."""

    inputs = (Port("u", (2,), "m", "input", 0.0),)
    outputs = (Port("y", (2,), "m", "output"),)
    states = (Port("x", (2,), "m", "filtered", 1.0),)
    sampled = (Port("z", (2,), "m", "held", 0.0),)
    sample_time = 0.1

    def __init__(self, function, what):
        self.function, self.what = function, what

    def value(self, function, pure):
        return pure + np.array([0.0, self.what()]) if function == self.function else pure

    def derivative(self, x, u):
        return {"x": self.value("derivative", u.u - x.x)}

    def initial(self, u):
        return {"z": self.value("initial", u.u)}

    def update(self, x):
        return {"z": self.value("update", x.x)}

    def output(self, x):
        return {"y": self.value("output", x.x)}


@pytest.mark.parametrize(
    ("function", "element"),
    [("derivative", "x[2]"), ("initial", "z[2]"), ("update", "z[2]"), ("output", "y[2]")],
)
@pytest.mark.parametrize(
    "what",
    [lambda: RANDOM.uniform(), lambda: float(next(COUNT)), time.time, time.perf_counter],
    ids=["random", "counter", "time", "perf_counter"],
)
def test_what_is_not_pure_is_named(function, element, what):
    number = r"[-+.e\d]+"
    expected = (
        rf"Noisy\.{function}, called twice, gives {re.escape(element)} = {number} and {number} "
    )
    with pytest.raises(ImpureBlockError, match=expected + PURE):
        model_header(TracedEvaluator(Memory(Noisy(function, what))), RK4, 1e-3)


def test_what_is_otherwise_when_it_is_traced_is_named():
    def first_time(calls=[]):  # noqa: B006  # it remembers on purpose
        calls.append(None)
        return float(len(calls) == 1)

    expected = r"^Noisy\.output, traced and in NumPy, gives y\[2\] = 2 and 1 " + PURE
    with pytest.raises(ImpureBlockError, match=expected):
        TracedEvaluator(Memory(Noisy("output", first_time))).graph("output")


def test_pure_block_is_pure_and_its_functions_may_be_not_finite():
    for value in (0.0, np.inf):
        TracedEvaluator(Memory(Noisy("output", lambda value=value: value))).graph("output")


def test_system_refuses_what_is_not_pure_and_names_the_part():
    with pytest.raises(
        ImpureBlockError, match=r"^cannot add 'filter': Noisy\.update, called twice,"
    ):
        System().add("filter", Noisy("update", time.time))


def test_fused_system_names_the_part():
    system = System()
    noisy = Noisy("derivative", time.time)
    system.add("filter", noisy, method="rk4")  # adding evaluates no derivative
    evaluator = TracedEvaluator(Memory(FusedSystem(system, 0.1)))
    expected = r"^FusedSystem\.update, called twice, gives filter\.x\[2\]"
    with pytest.raises(ImpureBlockError, match=expected):
        evaluator.graph("update")


class Chooser(Block):
    """Branches on its input."""

    inputs = (Port("u", (), "m", "input", 0.0),)
    outputs = (Port("y", (), "m", "output"),)

    def output(self, u):
        if u.u > 0:
            return {"y": u.u}
        return {"y": 0.0}


LINE = next(k for k, t in enumerate(Path(__file__).read_text().splitlines(), 1) if "u.u > 0" in t)
BRANCHES = (
    f"Chooser.output: {__file__}:{LINE}, in Chooser.output: `if u.u > 0:` needs the truth value "
    f"{ADVICE}"
)


def test_if_in_a_block_names_block_function_and_line():
    with pytest.raises(TraceError) as error:
        compiled_stepper(Memory(Chooser()))
    assert str(error.value) == BRANCHES


def test_if_in_a_part_names_part_block_function_and_line():
    system = System()
    system.add("controller", PDController((1.0,), (0.1,)))
    with pytest.raises(TraceError) as error:
        system.add("chooser", Chooser())
    assert str(error.value) == f"cannot add 'chooser': {BRANCHES}"


class Undefined(Block):
    """Has a constant that is not a number."""

    inputs = (Port("u", (), "m", "input", 0.0),)
    outputs = (Port("y", (2,), "m", "output"),)

    def output(self, u):
        return {"y": np.array([u.u, u.u + np.nan])}


def test_constant_that_is_not_a_number_names_the_port():
    with pytest.raises(ValueError, match=r"output has the constant NaN in y\[2\]: something in it"):
        model_header(TracedEvaluator(Memory(Undefined())), RK4, 1e-3)
