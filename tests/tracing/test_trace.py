"""Traced functions equal NumPy: the same source computes floats and expression graphs."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from random_models import random_state
from rigidblocks.dynamics import aba, bias_force, crba, energy, rnea
from rigidblocks.robot.robots import auto_tree
from rigidblocks.spatial.scalar import clip, less, maximum, minimum, select
from rigidblocks.tracing.ccode import c_function, c_number
from rigidblocks.tracing.trace import TraceError, trace
from traced_lines import ADVICE

# tracing folds constants and shares subexpressions: rounding of some hundred operations
RTOL = 1e-12


def traced(function, *values):
    """Return the result of the traced function for these values, evaluated by CasADi."""
    shapes = {f"in{k}": np.shape(value) for k, value in enumerate(values)}
    graph = trace("f", lambda *inputs: {"out": function(*inputs)}, shapes)
    return graph(np.concatenate([np.ravel(value) for value in values])).reshape(
        graph.outputs["out"]
    )


def same(function, *values):
    expected = function(*values)
    assert_allclose(
        traced(function, *values), expected, rtol=0, atol=RTOL * max(1.0, np.max(np.abs(expected)))
    )


def test_evaluation_of_traced_dynamics_matches_the_results_of_numpy(model, rng):
    s = random_state(rng, model)
    condition = np.linalg.cond(crba(model, s.q))
    same(lambda q, qd, qdd: rnea(model, q, qd, qdd), s.q, s.qd, s.qdd)
    same(lambda q, qd, qdd, f: rnea(model, q, qd, qdd, f), s.q, s.qd, s.qdd, s.f_ext)
    same(lambda q, qd: bias_force(model, q, qd), s.q, s.qd)
    same(lambda q: crba(model, q), s.q)
    same(lambda q, qd: energy(model, q, qd), s.q, s.qd)
    for arguments in (
        (s.q, s.qd, s.tau),
        (s.q, s.qd, s.tau, s.f_ext),
        (s.q, s.qd, s.tau, s.f_ext, rng.uniform(-9, 9, 3)),
    ):
        expected = aba(model, *arguments)
        actual = traced(lambda *values: aba(model, *values), *arguments)
        assert_allclose(
            actual, expected, rtol=0, atol=RTOL * condition * max(1.0, np.max(np.abs(expected)))
        )


# operation counts of RBDA 10.3.2 (multiplications and additions), for a chain of n joints with
# general geometry
BOOK = {
    "rnea": (rnea, 3, lambda n: (93 * n - 108) + (81 * n - 100)),
    "crba": (crba, 1, lambda n: (10 * n**2 + 22 * n - 32) + (6 * n**2 + 37 * n - 43)),
    "aba": (aba, 3, lambda n: (224 * n - 259) + (205 * n - 248)),
}


@pytest.mark.parametrize("name", BOOK)
def test_operation_counts_of_a_chain_do_not_exceed_rbda_section_10_3_2(name):
    function, count, book = BOOK[name]
    chain, n = auto_tree(7, 1, 0.7), 7
    graph = trace(
        name,
        lambda *inputs: {"out": function(chain, *inputs)},
        {f"in{k}": (n,) for k in range(count)},
    )
    assert graph.operation_count <= book(n)


# scalar functions

A, B = np.array([1.0, -2.0, 3.0, 0.0]), np.array([2.0, -3.0, 3.0, -0.5])


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: select(less(a, b), a, 10 * b),
        lambda a, b: select(less(a, 0.5), a, b),
        lambda a, b: select(a[0] < b[0], a, b),
        lambda a, b: select(~(a[0] < b[0]), a, b),
        lambda a, b: select((a[0] < b[0]) & (a[1] > b[1]), a, b),
        lambda a, b: select((a[0] > b[0]) | (a[2] == b[2]), a, b),
        lambda a, b: np.array([select(a[k] >= b[k], 1.0, -1.0) for k in range(4)]),
        lambda a, b: np.array([select(a[k] <= b[k], 1.0, -1.0) for k in range(4)]),
        lambda a, b: np.array([select(a[k] != b[k], 1.0, -1.0) for k in range(4)]),
        lambda a, b: minimum(a, b),
        lambda a, b: maximum(a, b) - minimum(a, 0.5),
        lambda a, b: clip(a, -1.0, 1.0) + clip(b, -np.abs(a), np.abs(a)),
        lambda a, b: np.sin(a) * np.cos(b) + np.sqrt(a * a) - np.tan(a) / np.exp(b) + np.tanh(a),
        lambda a, b: (
            np.arctan2(a, b) + np.arctan(a) + np.floor(a / 2) + np.log(np.abs(b)) + a**3 + -b
        ),
        lambda a, b: np.arcsin(a / 4) + np.arccos(b / 4),
        lambda a, b: 1.0 / b + 2.0 - a + 0.0 * a + 1.0 * b,
    ],
)
def test_traced_and_numpy_values_of_elementary_functions_agree(function):
    same(function, A, B)


def test_select_returns_the_first_value_if_the_condition_is_true():
    assert select(True, 1.0, 2.0) == 1.0
    assert_array_equal(select(np.array([True, False]), [1.0, 2.0], 5.0), [1.0, 5.0])
    assert_array_equal(traced(lambda a: select(less(a, 2.0), 7.0, a), A), [7, 7, 3, 7])


def test_infinite_value_in_the_unselected_branch_of_select_has_no_effect():
    assert_array_equal(
        traced(lambda a: select(less(a, 0.5), 0.0, 1 / a), np.array([0.0, 2.0])), [0, 0.5]
    )


def test_clip_with_infinite_limits_returns_its_argument():
    assert_array_equal(traced(lambda a: clip(a, -np.inf, np.inf), A), A)


# functions that cannot be traced


@pytest.mark.parametrize(
    "function",
    [
        lambda a: a if a[0] > 0 else -a,
        lambda a: np.array([max(a[0], a[1])]),
        lambda a: a > 0,
        lambda a: np.maximum(a, 0.0),
        lambda a: np.clip(a, -1, 1),
        lambda a: np.sign(a),
        lambda a: np.array([float(a[0])]),
        lambda a: np.zeros(2)[int(a[0]) :],
        lambda a: np.array([[1.0, 2.0][a[0]]]),
    ],
    ids=[
        "if",
        "max",
        "array comparison",
        "np.maximum",
        "np.clip",
        "np.sign",
        "float",
        "int",
        "index",
    ],
)
def test_error_for_a_branch_on_a_traced_value_suggests_select(function):
    with pytest.raises(
        TraceError, match=r"replace a data-dependent `if` by select\(condition, a, b\)"
    ):
        traced(function, A)


def clipped(a):
    return np.clip(a, -1, 1)


class Chooser:
    def chosen(self, a):
        return a if a[0] > 0 else -a

    def rounded(self, a):
        return np.array(
            [
                1.0,
                int(a[0]),
            ]
        )


@pytest.mark.parametrize(
    ("function", "where", "line", "wanted"),
    [
        (Chooser().chosen, "Chooser.chosen", "return a if a[0] > 0 else -a", "truth value"),
        (Chooser().rounded, "Chooser.rounded", "int(a[0]),", "number"),
        (lambda a: clipped(a) + 1.0, "clipped", "return np.clip(a, -1, 1)", "truth value"),
    ],
    ids=["if", "int", "in numpy"],
)
def test_error_for_a_branch_on_a_traced_value_identifies_the_line(function, where, line, wanted):
    source = Path(__file__).read_text().splitlines()
    number = next(k for k, text in enumerate(source, 1) if text.strip() == line)
    with pytest.raises(TraceError) as error:
        traced(function, A)
    place = f"{__file__}:{number}, in {where}: `{line}`"
    assert str(error.value) == f"{place} needs the {wanted} {ADVICE}"


def test_traced_value_is_not_hashable():
    with pytest.raises(TypeError, match="unhashable"):
        traced(lambda a: np.array([{a[0]: 1.0}[a[0]]]), A)


def test_nan_constant_is_rejected_in_c_code():
    graph = trace("f", lambda a: {"out": a + np.nan}, {"a": (1,)})
    assert np.isnan(graph(np.zeros(1)))
    with pytest.raises(ValueError, match="NaN has no C literal"):
        c_number(np.nan)
    with pytest.raises(
        ValueError, match=r"the traced function f has the constant NaN in out\[1\]: "
    ):
        c_function(graph)


def test_error_for_a_nan_constant_lists_all_affected_outputs():
    graph = trace(
        "drive",
        lambda a: {
            "x": np.array([a[0], a[0] * np.nan]),
            "H": np.array([[1.0, a[1]], [select(a[0] > 0, np.nan, a[1]), np.sin(a[1] + np.nan)]]),
            "y": np.asarray(a[0] - np.nan),
        },
        {"a": (2,)},
    )
    with pytest.raises(
        ValueError,
        match=r"the traced function drive has the constant NaN in x\[2\], H\[2,1\], H\[2,2\], y: "
        "the NaN does not depend on the inputs; check the constants of the function",
    ):
        c_function(graph)


def test_generated_c_literals_are_exact():
    for value in (0.1, 1 / 3, -2.5e-300, 1e22, 5e-324):
        assert float(c_number(value)) == value
    assert (c_number(np.inf), c_number(-np.inf)) == ("INFINITY", "-INFINITY")


# dependencies


def test_dependency_matrix_marks_the_inputs_that_each_output_depends_on():
    def f(a, b, c):
        del c
        return {"y": np.array([a[0] * b, a[1], 0.0 * a[0]]), "z": a[1] + b}

    graph = trace("f", f, {"a": (2,), "b": (), "c": ()})
    assert (dict(graph.inputs), dict(graph.outputs)) == (
        {"a": (2,), "b": (), "c": ()},
        {"y": (3,), "z": ()},
    )
    expected = [
        [True, False, True, False],
        [False, True, False, False],
        [False] * 4,
        [False, True, True, False],
    ]
    assert graph.depends.tolist() == expected


def test_dependency_matrix_of_aba_excludes_rotation_about_a_vertical_first_axis():
    chain = auto_tree(3, 1, 0.7)
    graph = trace(
        "qdd",
        lambda q, qd, tau: {"qdd": aba(chain, q, qd, tau)},
        {"q": (3,), "qd": (3,), "tau": (3,)},
    )
    assert graph.depends[:, 6:].all()
    # the first axis is vertical, so that rotation about it changes no acceleration
    assert graph.depends[:, 0].tolist() == [False] * 3


def test_expression_graph_lists_the_outputs_that_are_copies_of_inputs():
    graph = trace(
        "f", lambda a, b: {"y": np.array([a[1], a[0] + b, b, 1.0, a[1]])}, {"a": (2,), "b": ()}
    )
    assert graph.copies == {0: 1, 2: 2, 4: 1}


def test_operation_count_excludes_copies_constants_and_sines():
    graph = trace(
        "f",
        lambda a: {"y": np.array([a[0] * a[1] + a[2] - 3.0, np.sin(a[0]), a[1], 4.0])},
        {"a": (3,)},
    )
    assert graph.operations == {"mul": 1, "add": 1, "sub": 1, "sin": 1}
    assert graph.operation_count == 3


def test_common_subexpressions_are_computed_once():
    graph = trace("f", lambda a: {"y": np.array([a[0] * a[1] + 2, a[0] * a[1] - 2])}, {"a": (2,)})
    assert graph.operations["mul"] == 1


def test_traced_function_without_statements_has_no_operations():
    graph = trace("f", dict, {})
    assert graph.operation_count == 0
    assert graph(np.zeros(0)).shape == (0,)
