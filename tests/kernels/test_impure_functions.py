"""Tracing rejects impure functions and branches on traced values, with the function name."""

import itertools
import re
import time
from pathlib import Path

import numpy as np
import pytest

from rigidblocks import Block, Port, System
from rigidblocks.block.integrators import RK4
from rigidblocks.block.memory_layout import Memory
from rigidblocks.cosim.graph.fused_system import FusedSystem
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.kernels.model_header import model_header
from rigidblocks.kernels.traced_evaluator import ImpureBlockError, TracedEvaluator
from rigidblocks.library import PDController
from rigidblocks.tracing.trace import TraceError
from traced_lines import ADVICE

COUNT, RANDOM = itertools.count(), np.random.default_rng()
PURE = "for the same memory: a block's functions must be pure"


class Noisy(Block):
    """A filter with one impure function, whose value contains `what()`."""

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
def test_error_for_an_impure_block_function_identifies_the_function_and_the_output_element(
    function, element, what
):
    number = r"[-+.e\d]+"
    expected = (
        rf"Noisy\.{function}, called twice, gives {re.escape(element)} = {number} and {number} "
    )
    with pytest.raises(ImpureBlockError, match=expected + PURE):
        model_header(TracedEvaluator(Memory(Noisy(function, what))), RK4, 1e-3)


def test_error_for_different_traced_and_numpy_values_contains_the_function_name():
    def first_time(calls=[]):  # noqa: B006  # the mutable default is intended
        calls.append(None)
        return float(len(calls) == 1)

    expected = r"^Noisy\.output, traced and in NumPy, gives y\[2\] = 2 and 1 " + PURE
    with pytest.raises(ImpureBlockError, match=expected):
        TracedEvaluator(Memory(Noisy("output", first_time))).graph("output")


def test_block_whose_pure_functions_return_nonfinite_values_is_accepted():
    for value in (0.0, np.inf):
        TracedEvaluator(Memory(Noisy("output", lambda value=value: value))).graph("output")


def test_error_for_an_impure_part_of_a_system_identifies_the_part():
    with pytest.raises(
        ImpureBlockError, match=r"^cannot add 'filter': Noisy\.update, called twice,"
    ):
        System().add("filter", Noisy("update", time.time))


def test_error_for_an_impure_part_of_a_fused_system_identifies_the_part():
    system = System()
    noisy = Noisy("derivative", time.time)
    system.add("filter", noisy, method="rk4")  # adding a part evaluates no derivative
    evaluator = TracedEvaluator(Memory(FusedSystem(system, 0.1)))
    expected = r"^FusedSystem\.update, called twice, gives filter\.x\[2\]"
    with pytest.raises(ImpureBlockError, match=expected):
        evaluator.graph("update")


class Chooser(Block):
    """A block with a branch on its input."""

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


def test_error_for_a_branch_on_a_traced_value_identifies_the_function_and_line():
    with pytest.raises(TraceError) as error:
        compiled_stepper(Memory(Chooser()))
    assert str(error.value) == BRANCHES


def test_error_for_a_branch_on_a_traced_value_in_a_part_identifies_the_part():
    system = System()
    system.add("controller", PDController((1.0,), (0.1,)))
    with pytest.raises(TraceError) as error:
        system.add("chooser", Chooser())
    assert str(error.value) == f"cannot add 'chooser': {BRANCHES}"


class Undefined(Block):
    """A block with a NaN constant."""

    inputs = (Port("u", (), "m", "input", 0.0),)
    outputs = (Port("y", (2,), "m", "output"),)

    def output(self, u):
        return {"y": np.array([u.u, u.u + np.nan])}


def test_error_for_a_nan_constant_identifies_the_output():
    with pytest.raises(
        ValueError, match=r"output has the constant NaN in y\[2\]: the NaN does not"
    ):
        model_header(TracedEvaluator(Memory(Undefined())), RK4, 1e-3)
