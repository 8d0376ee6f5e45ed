"""Long C texts are compiled in units side by side, and compute what they compute in one."""

import re
import shutil
import subprocess

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from rigidblocks import auto_tree
from rigidblocks.dynamics import aba
from rigidblocks.tracing import ccode, compiler, pieces, units
from rigidblocks.tracing.ccode import c_function
from rigidblocks.tracing.compiler import CompilerError, shared_library
from rigidblocks.tracing.function import CompiledFunction, compiled_form
from rigidblocks.tracing.trace import trace
from rigidblocks.tracing.units import in_units

N = 6
PUSHED = "#if defined(__clang__)\n#pragma clang attribute push(__attribute__((minsize)))\n#endif\n"
POPPED = "#if defined(__clang__)\n#pragma clang attribute pop\n#endif\n"


@pytest.fixture
def graph(monkeypatch):
    """Forward dynamics, as a long function in short pieces."""
    model = auto_tree(N)
    one = trace("aba", lambda *s: {"qdd": aba(model, *s)}, dict.fromkeys("abc", (N,)))
    monkeypatch.setattr(ccode, "LONG", 100)
    monkeypatch.setattr(pieces, "LONG", 60)
    monkeypatch.setattr(pieces, "PART", 60)
    return one


@pytest.fixture
def _short_units(monkeypatch):
    monkeypatch.setattr(units, "UNIT", 100)


def functions(text):
    return re.findall(r"^(?:static )?void (\w+)\([^)]*\)\n\{", text, re.MULTILINE)


def test_little_is_one_unit(graph):
    sources = {"function.c": c_function(graph)}
    assert in_units(sources) == (sources, ())


@pytest.mark.usefixtures("_short_units")
def test_each_function_is_in_one_unit_and_units_are_of_one_size(graph):
    text = c_function(graph)
    texts, beside = in_units({"function.c": text})
    assert len(beside) == units.MOST - 1
    assert set(texts) == {"function.c", *beside}
    there = [name for one in texts.values() for name in functions(one)]
    assert sorted(there) == sorted(functions(text))
    sizes = [one.count(";\n") for one in texts.values()]
    assert max(sizes) < 1.7 * min(sizes)


@pytest.mark.usefixtures("_short_units")
def test_what_looks_up_tables_stays_with_them_and_small_code_stays_small(graph):
    text = c_function(graph)
    called = text.replace("sin(", f"entry_{'0' * 16}(")
    texts, beside = in_units({"a.c": called, "b.h": PUSHED + text + POPPED})
    for name in beside:
        assert "entry_" not in texts[name]
        assert texts[name].count(PUSHED) == texts[name].count(POPPED) == 1
        assert texts[name].endswith(POPPED)
    assert called.count("entry_") == texts["a.c"].count("entry_")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gcc", "clang"])
def test_units_compute_the_same_bits_and_export_nothing(graph, monkeypatch, name, tmp_path):
    if not shutil.which(name):
        pytest.skip(f"there is no {name}")
    monkeypatch.setenv("CC", name)
    monkeypatch.setenv("RIGIDBLOCKS_CACHE", str(tmp_path))
    compiler.compiler.cache_clear()
    paths = []

    def noted(*arguments):
        paths.append(shared_library(*arguments))
        return paths[-1]

    monkeypatch.setattr("rigidblocks.tracing.function.shared_library", noted)
    whole = CompiledFunction(graph)
    monkeypatch.setattr(units, "UNIT", 100)
    monkeypatch.setenv("RIGIDBLOCKS_CACHE", str(tmp_path / "other"))
    divided = compiled_form(graph, False)
    compiler.compiler.cache_clear()
    for state in np.random.default_rng(0).normal(size=(20, 3, N)):
        assert_array_equal(divided(*state), whole(*state))
    assert paths[0].read_bytes() != paths[1].read_bytes()
    said = subprocess.run(["nm", "-D", paths[1]], capture_output=True, text=True, check=True)
    assert re.findall(r" T (\w+)", said.stdout) == ["call"]


@pytest.mark.usefixtures("_short_units")
def test_a_unit_that_is_refused_says_why(graph, monkeypatch, tmp_path):
    monkeypatch.setenv("RIGIDBLOCKS_CACHE", str(tmp_path))
    text = re.sub(r"(_piece_0\(.*\)\n\{)", r"\1 undeclared();", c_function(graph), count=1)
    text = re.sub(r"(_1\(.*\)\n\{)", r"\1 undeclared thing;", text, count=1)
    with pytest.raises(CompilerError, match=r"(?s)-c .* failed:.*undeclared"):
        shared_library({"function.c": text}, "function.c")
