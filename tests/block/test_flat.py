"""The flat memory and the steppers, on small blocks made for it; and what ports and blocks
refuse.
"""

import re
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rigidblocks.block.block import Block, Port, finite, flatten, record
from rigidblocks.block.evaluate import NumpyEvaluator
from rigidblocks.block.integrators import INTEGRATORS, RK4, SEMI_IMPLICIT_EULER
from rigidblocks.block.memory import Memory
from rigidblocks.block.step import is_sample, sample_spans
from rigidblocks.block.stepper import StepError
from rigidblocks.kernels.stepper import compiled_stepper, numpy_stepper
from rigidblocks.library import PDController

STEPPERS = pytest.mark.parametrize("stepper", [numpy_stepper, compiled_stepper])


@dataclass(frozen=True, eq=False)
class Mix(Block):
    """One of each: an oscillator driven by u, a count of the samples, two parameters, two computed
    outputs.
    """

    sample_time: float | None = 3e-3
    states = (Port("q", (2,), "m", "", [1.0, 2.0], rate="qd"), Port("qd", (2,), "m/s", "", 0.5))
    sampled = (Port("count", (), "1", "", 0.0),)
    inputs = (Port("u", (), "m/s2", "", 0.25), Port("w", (2, 2), "N"))
    parameters = (Port("k", (), "1/s2", "", 4.0), Port("d", (), "1/s", "", 0.1))
    outputs = (*states, Port("sum", (), "m"), Port("product", (2,), "N"))

    def derivative(self, t, x, u, p):
        return {"q": x.qd, "qd": -p.k * x.q - p.d * x.qd + u.u * np.cos(t)}

    def update(self, x):
        return {"count": x.count + 1.0}

    def output(self, x, u):
        return {"sum": x.q[0] + x.q[1], "product": u.w @ np.array([1.0, x.count])}


FLAT = Memory(Mix())


def test_memory_is_time_states_inputs_parameters_and_outputs():
    assert [FLAT.x, FLAT.z, FLAT.u, FLAT.p, FLAT.y] == [
        slice(1, 5),
        slice(5, 6),
        slice(6, 11),
        slice(11, 13),
        slice(13, 16),
    ]
    assert FLAT.size == 16
    assert FLAT.where["w"] == slice(7, 11)
    assert [port.name for port in FLAT.ports] == [
        "q",
        "qd",
        "count",
        "u",
        "w",
        "k",
        "d",
        "sum",
        "product",
    ]


def test_memory_starts_with_the_start_values():
    assert FLAT.start().tolist() == [0, 1, 2, 0.5, 0.5, 0, 0.25, 0, 0, 0, 0, 4.0, 0.1, 0, 0, 0]


def test_positions_are_the_states_that_name_a_rate():
    assert FLAT.position.tolist() == [True, True, False, False]


def test_parameters_that_are_not_tunable_are_constants():
    flat = Memory(Mix(), tunable=("d",))
    assert [port.name for port in flat.parameters] == ["d"]
    m = flat.start()
    assert_array_equal(
        NumpyEvaluator(flat).derivative(m), NumpyEvaluator(FLAT).derivative(FLAT.start())
    )


@STEPPERS
def test_samples_fall_on_the_multiples_of_the_sample_time(stepper):
    # three steps a sample, far from the start too; one sample is at the start
    m, dt, first = FLAT.start(), 1e-3, 3_000_000
    run = stepper(FLAT, SEMI_IMPLICIT_EULER, 1e-3)
    run.initialize(m, first * dt)
    for k in range(first, first + 3000):
        run.step(m, k * dt, dt)
        assert m[FLAT.z] == 1 + (k + 1 - first) // 3


@STEPPERS
def test_longer_steps_take_all_their_samples(stepper):
    m, run = FLAT.start(), stepper(FLAT, SEMI_IMPLICIT_EULER, 1e-3)
    run.initialize(m, 0.0)
    for k in range(5):
        run.step(m, k * 12e-3, 12e-3)
        assert m[FLAT.z] == 1 + 4 * (k + 1)


@STEPPERS
@pytest.mark.parametrize("dt", [2e-3, 4e-3, 7e-3])
def test_step_that_does_not_fit_the_sample_time_is_refused(stepper, dt):
    m, run = FLAT.start(), stepper(FLAT)
    run.initialize(m, 0.0)
    kept = m.copy()
    message = (
        f"the step {dt} s does not fit the sample time 0.003 s: one must be a multiple of the other"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        run.step(m, 0.0, dt)
    assert_array_equal(m, kept)


def test_spans_end_where_samples_may_fall():
    assert [
        sample_spans(None, 0.1),
        sample_spans(0.1, 0.1),
        sample_spans(0.3, 0.1),
        sample_spans(0.1, 0.3),
    ] == [1, 1, 1, 3]
    assert [bool(is_sample(t, 0.3, 0.1)) for t in (0.1, 0.2, 0.1 + 0.2, 0.4, 0.6)] == [
        False,
        False,
        True,
        False,
        True,
    ]


@STEPPERS
def test_step_is_exact_on_the_oscillator(stepper):
    # undriven and undamped: q = q0 cos 2t + qd0 / 2 sin 2t; RK4 at h = 1 ms is good to h^4
    m, run = FLAT.start(), stepper(FLAT, RK4, 1e-3)
    m[FLAT.where["u"]] = m[FLAT.where["d"]] = 0.0
    run.initialize(m, 0.0)
    run.step(m, 0.0, 0.9)
    expected = np.array([1.0, 2.0]) * np.cos(1.8) + 0.25 * np.sin(1.8)
    assert_allclose(m[FLAT.where["q"]], expected, rtol=1e-10)
    assert_allclose(m[FLAT.where["sum"]], np.sum(expected), rtol=1e-10)
    assert m[0] == 0.9


@pytest.mark.parametrize("method", INTEGRATORS.values(), ids=lambda method: method.name)
def test_compiled_stages_are_at_the_times_of_numpys(method):
    # the driving force goes with cos t; a few inner steps a step, and a step a sample
    results = []
    for stepper in (numpy_stepper, compiled_stepper):
        m, run = FLAT.start(), stepper(FLAT, method, 0.25)
        m[FLAT.where["u"]] = 100.0
        run.initialize(m, 2.0)
        run.step(m, 2.0, 0.9)
        results.append(m)
    assert_allclose(*results, rtol=1e-12, atol=1e-12)


def test_run_takes_the_steps_one_by_one():
    one, many, rows = FLAT.start(), FLAT.start(), np.empty((20, FLAT.size))
    run = compiled_stepper(FLAT)
    for m in (one, many):
        run.initialize(m, 0.0)
    assert run.run(many, 0.0, 1e-3, rows) == 20
    for k in range(20):
        run.step(one, k * 1e-3, 1e-3)
        assert_array_equal(rows[k], one)
    assert_array_equal(many, one)


def test_run_stops_at_the_step_that_fails():
    m, rows = FLAT.start(), np.empty((3000, FLAT.size))
    m[FLAT.where["d"]] = -1e4  # a damper that drives
    run = compiled_stepper(FLAT)
    run.initialize(m, 0.0)
    done = run.run(m, 0.0, 1e-3, rows)
    assert 0 < done < 3000
    assert np.all(np.isfinite(rows[:done]))
    assert not np.all(np.isfinite(m))


@STEPPERS
def test_value_that_is_not_finite_is_named_with_its_time(stepper):
    m, run = FLAT.start(), stepper(FLAT)
    m[FLAT.where["w"]] = [0.0, 0.0, np.nan, 0.0]
    with pytest.raises(
        StepError, match=re.escape("Mix is not finite at t = 1.5 s: w[2,1], product[2]")
    ):
        run.initialize(m, 1.5)


@STEPPERS
@pytest.mark.parametrize("h", [0.0, -1e-3, np.nan, np.inf])
def test_inner_step_is_positive(stepper, h):
    with pytest.raises(ValueError, match=f"the inner step h must be positive, not {h} s"):
        stepper(FLAT, RK4, h)


# ports and blocks


def test_elements_are_named_from_one():
    assert Port("f", (2, 3)).element_names == (
        "f[1,1]",
        "f[1,2]",
        "f[1,3]",
        "f[2,1]",
        "f[2,2]",
        "f[2,3]",
    )
    assert Port("e").element_names == ("e",)
    assert Port("q", (2,), ("rad", "m")).units == ("rad", "m")


def test_start_value_fills_the_port_and_is_read_only():
    start = Port("q", (2,), start=1.5).start
    assert start.tolist() == [1.5, 1.5]
    with pytest.raises(ValueError, match="read-only"):
        start[0] = 0.0


def test_records_have_the_shapes_of_their_ports():
    ports = (Port("a", (2, 2)), Port("b"))
    r = record(ports, np.arange(5.0))
    assert_array_equal(r.a, [[0, 1], [2, 3]])
    assert r.b == 4.0
    assert_array_equal(flatten(ports, vars(r), "here"), np.arange(5.0))


def test_port_refuses_units_and_starts_that_do_not_fit():
    with pytest.raises(
        ValueError, match=re.escape("port 'q' of shape (2,) has 3 units; it needs 2 or one")
    ):
        Port("q", (2,), ("rad", "rad", "m"))
    with pytest.raises(
        ValueError,
        match=re.escape("the start value of port 'q' has shape (3,); it needs shape (2,)"),
    ):
        Port("q", (2,), start=[1, 2, 3])
    with pytest.raises(ValueError, match=re.escape("x must be finite, not [nan, 1.0]")):
        finite([np.nan, 1.0], (2,), "x")


@dataclass(frozen=True, eq=False)
class Wrong(Block):
    states: tuple[Port, ...] = (Port("x", (2,), start=0.0),)
    parameters: tuple[Port, ...] = ()
    result: object = None

    def derivative(self):
        return self.result


@pytest.mark.parametrize(
    ("block", "tunable", "message"),
    [
        (Mix(), ("kp",), "Mix has no parameter ['kp']; it has: k, d"),
        (Wrong(), ("kp",), "Wrong has no parameter ['kp']; it has: none"),
    ],
)
def test_block_that_has_no_flat_form_says_why(block, tunable, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Memory(block, tunable)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({}, "Wrong.derivative left out x; it must return a mapping with: x"),
        (
            {"x": np.zeros(2), "y": 0.0},
            "Wrong.derivative returned the unknown y; it must return a mapping with: x",
        ),
        ({"x": np.zeros(3)}, "Wrong.derivative returned 'x' of shape (3,); it needs shape (2,)"),
    ],
)
def test_function_that_returns_something_else_is_named(result, message):
    flat = Memory(Wrong(result=result))
    with pytest.raises(ValueError, match=re.escape(message)):
        NumpyEvaluator(flat).derivative(flat.start())


@pytest.mark.parametrize("kind", [numpy_stepper, compiled_stepper])
@pytest.mark.parametrize("sample_time", [None, 1e-3])
@pytest.mark.parametrize("dt", [0.0, -1e-3, np.nan, np.inf, 1e7])
def test_a_step_that_is_not_positive_or_has_no_end_is_refused(kind, sample_time, dt):
    flat = Memory(PDController((1.0,), (1.0,), sample_time=sample_time))
    m = flat.start()
    kind(flat).initialize(m, 0.0)
    with pytest.raises(
        ValueError, match=r"a step must be (positive|finite), not .* s|too many inner"
    ):
        kind(flat).step(m, 0.0, dt)
