"""Memory and steppers of small blocks, and rejected ports and blocks."""

import re
from dataclasses import dataclass
from fractions import Fraction
from math import floor

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rigidblocks.block.block import Block, Port, finite, flatten, record
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.integrators import INTEGRATORS, RK4, SEMI_IMPLICIT_EULER
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.stepper import StepError, sample_spans, spans
from rigidblocks.kernels.compiled_stepper import compiled_stepper, numpy_stepper
from rigidblocks.library import PDController

STEPPERS = pytest.mark.parametrize("stepper", [numpy_stepper, compiled_stepper])


@dataclass(frozen=True, eq=False)
class Mix(Block):
    """Oscillator with input u, a sample counter, two parameters and two computed outputs."""

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


def test_block_memory_contains_time_states_inputs_parameters_and_outputs():
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


def test_new_block_memory_contains_the_start_values():
    assert FLAT.start().tolist() == [0, 1, 2, 0.5, 0.5, 0, 0.25, 0, 0, 0, 0, 4.0, 0.1, 0, 0, 0]


def test_states_whose_derivative_is_another_state_are_positions():
    assert FLAT.position.tolist() == [True, True, False, False]


def test_nontunable_parameters_are_constants():
    flat = Memory(Mix(), tunable=("d",))
    assert [port.name for port in flat.parameters] == ["d"]
    m = flat.start()
    assert_array_equal(
        NumpyEvaluator(flat).derivative(m), NumpyEvaluator(FLAT).derivative(FLAT.start())
    )


@pytest.mark.slow
@STEPPERS
def test_samples_occur_at_multiples_of_the_sample_time(stepper):
    # three steps per sample, also far from t = 0; the first sample is at the start
    m, dt, first = FLAT.start(), 1e-3, 3_000_000
    run = stepper(FLAT, SEMI_IMPLICIT_EULER, 1e-3)
    run.initialize(m, first * dt)
    for k in range(first, first + 3000):
        run.step(m, k * dt, dt)
        assert m[FLAT.z] == 1 + (k + 1 - first) // 3


@STEPPERS
def test_step_of_several_sample_times_executes_every_sample(stepper):
    m, run = FLAT.start(), stepper(FLAT, SEMI_IMPLICIT_EULER, 1e-3)
    run.initialize(m, 0.0)
    for k in range(5):
        run.step(m, k * 12e-3, 12e-3)
        assert m[FLAT.z] == 1 + 4 * (k + 1)


@STEPPERS
@pytest.mark.parametrize("dt", [2e-3, 4e-3, 7e-3, 1 / 300, 0.04 / 7, 1e-5, 3.3e-2])
def test_steps_of_any_length_execute_all_samples_within_the_step(stepper, dt):
    m, run = FLAT.start(), stepper(FLAT, SEMI_IMPLICIT_EULER, 1e-3)
    run.initialize(m, 0.0)
    for k in range(60):
        run.step(m, k * dt, dt)
        assert m[FLAT.z] == 1 + floor((k + 1) * Fraction(dt) / Fraction(3e-3) + Fraction(1, 10**6))


@STEPPERS
def test_sample_within_a_step_occurs_at_a_multiple_of_the_sample_time(stepper):
    # the step of 4 ms equals a part of 3 ms with a sample and a part of 1 ms without
    whole, parts = FLAT.start(), FLAT.start()
    run = stepper(FLAT, SEMI_IMPLICIT_EULER, 1e-3)
    for m in (whole, parts):
        run.initialize(m, 0.0)
    run.step(whole, 0.0, 4e-3)
    run.part(parts, 0.0, 3e-3, True)
    run.part(parts, 3e-3, 4e-3, False)
    assert_array_equal(whole, parts)


@pytest.mark.slow
@STEPPERS
def test_rounding_errors_of_summed_step_times_do_not_skip_or_repeat_samples(stepper):
    m, run = FLAT.start(), stepper(FLAT, SEMI_IMPLICIT_EULER, 3e-3)
    t = 10_000_000 * 3e-3 * (1 + 5e-10)  # largest rounding error of a sum of steps
    run.initialize(m, t)
    for k in range(200):
        run.step(m, t, 3e-3)
        assert m[FLAT.z] == 2 + k
        t += 3e-3


def test_step_is_divided_at_the_sample_times_of_the_block():
    assert [
        sample_spans(None, 0.1),
        sample_spans(0.1, 0.1),
        sample_spans(0.3, 0.1),
        sample_spans(0.1, 0.3),
    ] == [1, 1, 1, 3]
    ends = [(span.end, span.samples) for t in (0.0, 0.1, 0.2) for span in spans(0.3, t, 0.1)]
    assert ends == [(0.1, False), (0.2, False), (0.2 + 0.1, True)]
    assert [(span.begin, span.end, span.samples) for span in spans(0.5, 0.25, 1.0)] == [
        (0.25, 0.5, True),
        (0.5, 1.0, True),
        (1.0, 1.25, False),
    ]


@pytest.mark.slow
@STEPPERS
def test_rk4_step_matches_the_analytic_oscillator(stepper):
    # without input and damping: q = q0 cos 2t + qd0 / 2 sin 2t; RK4 with h = 1 ms has error h^4
    m, run = FLAT.start(), stepper(FLAT, RK4, 1e-3)
    m[FLAT.where["u"]] = m[FLAT.where["d"]] = 0.0
    run.initialize(m, 0.0)
    run.step(m, 0.0, 0.9)
    expected = np.array([1.0, 2.0]) * np.cos(1.8) + 0.25 * np.sin(1.8)
    assert_allclose(m[FLAT.where["q"]], expected, rtol=1e-10)
    assert_allclose(m[FLAT.where["sum"]], np.sum(expected), rtol=1e-10)
    assert m[0] == 0.9


@pytest.mark.slow
@pytest.mark.parametrize("method", INTEGRATORS.values(), ids=lambda method: method.name)
def test_integrators_in_numpy_and_in_c_evaluate_stages_at_equal_times(method):
    # the input depends on cos t; each step has several inner steps and samples
    results = []
    for stepper in (numpy_stepper, compiled_stepper):
        m, run = FLAT.start(), stepper(FLAT, method, 0.25)
        m[FLAT.where["u"]] = 100.0
        run.initialize(m, 2.0)
        run.step(m, 2.0, 0.9)
        results.append(m)
    assert_allclose(*results, rtol=1e-12, atol=1e-12)


def test_run_of_many_steps_matches_the_results_of_single_steps():
    one, many, rows = FLAT.start(), FLAT.start(), np.empty((20, FLAT.size))
    run = compiled_stepper(FLAT)
    for m in (one, many):
        run.initialize(m, 0.0)
    assert run.run(many, 0.0, 1e-3, rows) == 20
    for k in range(20):
        run.step(one, k * 1e-3, 1e-3)
        assert_array_equal(rows[k], one)
    assert_array_equal(many, one)


def test_stepper_run_stops_at_the_first_failed_step():
    m, rows = FLAT.start(), np.empty((3000, FLAT.size))
    m[FLAT.where["d"]] = -1e4  # negative damping makes the motion diverge
    run = compiled_stepper(FLAT)
    run.initialize(m, 0.0)
    done = run.run(m, 0.0, 1e-3, rows)
    assert 0 < done < 3000
    assert np.all(np.isfinite(rows[:done]))
    assert not np.all(np.isfinite(m))


@STEPPERS
def test_nonfinite_value_is_reported_with_its_time(stepper):
    m, run = FLAT.start(), stepper(FLAT)
    m[FLAT.where["w"]] = [0.0, 0.0, np.nan, 0.0]
    with pytest.raises(
        StepError, match=re.escape("Mix is not finite at t = 1.5 s: w[2,1], product[2]")
    ):
        run.initialize(m, 1.5)


@STEPPERS
@pytest.mark.parametrize("h", [0.0, -1e-3, np.nan, np.inf])
def test_nonpositive_or_nonfinite_inner_step_is_rejected(stepper, h):
    with pytest.raises(ValueError, match=f"the inner step h must be positive, not {h} s"):
        stepper(FLAT, RK4, h)


# ports and blocks


def test_port_element_indices_start_at_one():
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


def test_scalar_start_value_applies_to_each_port_element_and_is_read_only():
    start = Port("q", (2,), start=1.5).start
    assert start.tolist() == [1.5, 1.5]
    with pytest.raises(ValueError, match="read-only"):
        start[0] = 0.0


def test_record_fields_have_the_shapes_of_their_ports():
    ports = (Port("a", (2, 2)), Port("b"))
    r = record(ports, np.arange(5.0))
    assert_array_equal(r.a, [[0, 1], [2, 3]])
    assert r.b == 4.0
    assert_array_equal(flatten(ports, vars(r), "here"), np.arange(5.0))


def test_port_rejects_units_and_start_values_of_wrong_size():
    with pytest.raises(
        ValueError,
        match=re.escape("port 'q' of shape (2,) has 3 units; it needs one unit or 2 units"),
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
def test_memory_layout_of_a_block_with_invalid_ports_or_functions_is_rejected(
    block, tunable, message
):
    with pytest.raises(ValueError, match=re.escape(message)):
        Memory(block, tunable)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({}, "Wrong.derivative did not return x; it must return a mapping with: x"),
        (
            {"x": np.zeros(2), "y": 0.0},
            "Wrong.derivative returned the unknown y; it must return a mapping with: x",
        ),
        ({"x": np.zeros(3)}, "Wrong.derivative returned 'x' of shape (3,); it needs shape (2,)"),
    ],
)
def test_invalid_derivative_result_is_rejected(result, message):
    flat = Memory(Wrong(result=result))
    with pytest.raises(ValueError, match=re.escape(message)):
        NumpyEvaluator(flat).derivative(flat.start())


@pytest.mark.parametrize("kind", [numpy_stepper, compiled_stepper])
@pytest.mark.parametrize("sample_time", [None, 1e-3])
@pytest.mark.parametrize("dt", [0.0, -1e-3, np.nan, np.inf, 1e7])
def test_nonpositive_or_nonfinite_communication_step_is_rejected(kind, sample_time, dt):
    flat = Memory(PDController((1.0,), (1.0,), sample_time=sample_time))
    m = flat.start()
    kind(flat).initialize(m, 0.0)
    with pytest.raises(
        ValueError, match=r"a step must be (positive|finite), not .* s|too many inner"
    ):
        kind(flat).step(m, 0.0, dt)
