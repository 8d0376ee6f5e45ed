"""Long functions in C: repeated code becomes one shared piece, and results are bitwise equal."""

import ctypes
from collections import defaultdict

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from rigidblocks import auto_tree
from rigidblocks.common.compiler import shared_library
from rigidblocks.dynamics import aba
from rigidblocks.tracing import ccode
from rigidblocks.tracing import outlining as pieces
from rigidblocks.tracing import outlining as repeats
from rigidblocks.tracing.ccode import c_function, c_functions
from rigidblocks.tracing.compiled_functions import compile_function, compiled_form
from rigidblocks.tracing.outlining import repeated_ranges
from rigidblocks.tracing.trace import trace

N = 9  # number of inputs of a random function


def planted(rng):
    """Return statement kinds with patterns at random places, some of them adjacent."""
    patterns = [rng.integers(0, 9, rng.integers(20, 150)) for _ in range(3)]
    parts = [patterns[rng.integers(3)] for _ in range(rng.integers(1, 12))]
    noise = [rng.integers(0, 30, rng.integers(0, 40)) for _ in parts]
    return np.concatenate([one for both in zip(parts, noise, strict=True) for one in both])


@pytest.mark.parametrize("seed", range(5))
def test_code_ranges_cover_all_statements_and_repeated_ranges_have_identical_code(seed):
    form = planted(np.random.default_rng(seed))
    found = repeated_ranges(form)
    assert [one.start for one in found] == [0, *(one.stop for one in found[:-1])]
    assert found[-1].stop == len(form)
    kinds = defaultdict(set)
    for start, stop, kind in found:
        if kind >= 0:
            kinds[kind].add(tuple(form[start:stop]))
    assert all(len(texts) == 1 for texts in kinds.values())


def test_repeated_sequences_of_statements_in_generated_code_are_found():
    rng = np.random.default_rng(1)
    pattern = rng.integers(0, 50, 200)
    rest = [1000 + 10 * k + np.arange(k) for k in range(8)]  # values without repetition
    form = np.concatenate([one for part in rest for one in (part, pattern)])
    found = [one for one in repeated_ranges(form) if one.kind >= 0]
    assert len(found) == 8
    assert {tuple(form[one.start : one.stop]) for one in found} == {tuple(pattern)}


def random_function(rng, blocks):
    """Return a function that repeats blocks of random operations.

    Operands are near values, distant values and constants, some of which differ between blocks.
    """
    plan = rng.integers(0, 8, (40, 3))

    def function(x):
        values = list(x)
        for block in range(blocks):
            for kind, one, other in plan:
                a = values[-1 - one] if other % 3 else values[(7 * block + one) % len(values)]
                b = values[-1 - other] if kind % 2 else 0.1 + (0.01 * block if one % 2 else 0.0)
                made = (a + b, a * b, a - b, np.sin(a), a / (2.0 + b * b), np.sqrt(1.0 + a * a))
                values.append(0.5 * made[min(kind, 5)])
        return {"y": np.array(values[N::5])}

    return function


def graph_of(seed):
    rng = np.random.default_rng(seed)
    return trace(f"random_{seed}", random_function(rng, int(rng.integers(3, 15))), {"x": (N,)})


@pytest.fixture
def short_pieces(monkeypatch):
    """Reduce the length limits of long functions and of repetitions to the size of the test."""
    monkeypatch.setattr(ccode, "LONG", 50)
    monkeypatch.setattr(pieces, "PART", 60)
    monkeypatch.setattr(pieces, "LONG", 45)
    monkeypatch.setattr(pieces, "MANY", 6)
    monkeypatch.setattr(repeats, "LENGTHS", (4, 8, 16, 32))
    monkeypatch.setattr(repeats, "FEWEST", 6)


def graphs_in_common(seed):
    """Return three functions that share statements: all three share some, and two pairs more."""
    rng = np.random.default_rng(seed)
    parts = [random_function(np.random.default_rng(rng.integers(99)), 4) for _ in range(4)]
    plans = {"one": (0, 1), "two": (1, 2, 0), "three": (3, 1)}

    def of(plan):
        return lambda x: {"y": np.concatenate([parts[k](x)["y"] for k in plan])}

    return [trace(name, of(plan), {"x": (N,)}) for name, plan in plans.items()]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_statements_repeated_in_several_functions_are_generated_once_with_equal_results(
    seed, request
):
    graphs, x = graphs_in_common(seed), np.random.default_rng(seed).normal(size=N)
    single = [compiled_form(graph, False) for graph in graphs]
    request.getfixturevalue("short_pieces")
    text = c_functions(graphs, [{}] * 3, inline=True)
    separate = sum(c_function(graph).count(";\n") for graph in graphs)
    assert text.count(";\n") < 0.8 * separate
    assert "for (unsigned k = 0;" in text
    calls = "".join(
        f"void call_{g.name}(const double *, double *);\n"
        f'__attribute__((visibility("default"))) void call_{g.name}(const double *in, double *out)'
        f"\n{{\n    {g.name}(in, out);\n}}\n"
        for g in graphs
    )
    path = shared_library({"all.c": f"#include <math.h>\n{text}{calls}"}, "all.c")
    library = ctypes.CDLL(str(path))
    for graph, own in zip(graphs, single, strict=True):
        y = np.zeros(graph.outputs["y"])
        library[f"call_{graph.name}"](
            ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data)
        )
        assert_array_equal(y, own(x))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_functions_divided_into_smaller_c_functions_give_bitwise_equal_results(seed, request):
    graph, x = graph_of(seed), np.random.default_rng(seed).normal(size=(9, N))
    whole = [compiled_form(graph, batch) for batch in (False, True)]
    assert "left[at[" not in c_function(graph)
    request.getfixturevalue("short_pieces")
    assert "left[at[" in c_function(graph)
    single, batch = (compiled_form(graph, batch) for batch in (False, True))
    for row in x:
        assert_array_equal(single(row), whole[0](row))
    assert_array_equal(batch(x), whole[1](x))


@pytest.mark.slow
def test_code_size_with_shared_c_functions_grows_slower_than_the_number_of_bodies(monkeypatch):
    def traced(n):
        function = auto_tree(n)
        return compile_function(
            "aba", lambda *s: {"qdd": aba(function, *s)}, dict.fromkeys("abc", (n,))
        )

    state = np.random.default_rng(0).normal(size=(3, 40))
    whole = traced(40)
    monkeypatch.setattr(ccode, "LONG", 500)
    long = traced(40)
    assert_array_equal(long(*state), whole(*state))
    sizes = [len(c_function(one.graph)) for one in (long, traced(80))]
    assert sizes[1] < 1.5 * sizes[0]
