"""Long C code is compiled in parallel translation units, with the same results as in one unit."""

import re
import shutil
import subprocess

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from rigidblocks import auto_tree
from rigidblocks.common import compiler
from rigidblocks.common import compiler as units
from rigidblocks.common.compiler import CompilerError, shared_library, split_translation_units
from rigidblocks.dynamics import aba
from rigidblocks.tracing import ccode
from rigidblocks.tracing import outlining as pieces
from rigidblocks.tracing.ccode import c_function
from rigidblocks.tracing.compiled_functions import CompiledFunction, compiled_form
from rigidblocks.tracing.trace import trace

N = 6
PUSHED = "#if defined(__clang__)\n#pragma clang attribute push(__attribute__((minsize)))\n#endif\n"
POPPED = "#if defined(__clang__)\n#pragma clang attribute pop\n#endif\n"


@pytest.fixture
def graph(monkeypatch):
    """Return forward dynamics as a long function in short pieces."""
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


def test_short_generated_code_is_one_translation_unit(graph):
    sources = {"function.c": c_function(graph)}
    assert split_translation_units(sources) == (sources, ())


@pytest.mark.usefixtures("_short_units")
def test_each_function_is_in_one_of_several_translation_units_of_similar_size(graph):
    text = c_function(graph)
    texts, added = split_translation_units({"function.c": text})
    assert len(added) == units.MOST - 1
    assert set(texts) == {"function.c", *added}
    there = [name for one in texts.values() for name in functions(one)]
    assert sorted(there) == sorted(functions(text))
    sizes = [one.count(";\n") for one in texts.values()]
    assert max(sizes) < 1.7 * min(sizes)


@pytest.mark.usefixtures("_short_units")
def test_functions_that_read_a_table_are_in_the_translation_unit_of_the_table(graph):
    text = c_function(graph)
    called = text.replace("sin(", f"entry_{'0' * 16}(")
    texts, added = split_translation_units({"a.c": called, "b.h": PUSHED + text + POPPED})
    for name in added:
        assert "entry_" not in texts[name]
        assert texts[name].count(PUSHED) == texts[name].count(POPPED) == 1
        assert texts[name].endswith(POPPED)
    assert called.count("entry_") == texts["a.c"].count("entry_")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gcc", "clang"])
def test_separate_translation_units_give_equal_results_and_export_one_symbol(
    graph, monkeypatch, name, tmp_path
):
    if not shutil.which(name):
        pytest.skip(f"there is no {name}")
    monkeypatch.setenv("CC", name)
    monkeypatch.setenv("RIGIDBLOCKS_CACHE", str(tmp_path))
    compiler.compiler.cache_clear()
    paths = []

    def noted(*arguments):
        paths.append(shared_library(*arguments))
        return paths[-1]

    monkeypatch.setattr("rigidblocks.tracing.compiled_functions.shared_library", noted)
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
def test_error_for_an_invalid_translation_unit_contains_the_compiler_message(
    graph, monkeypatch, tmp_path
):
    monkeypatch.setenv("RIGIDBLOCKS_CACHE", str(tmp_path))
    text = re.sub(r"(_piece_0\(.*\)\n\{)", r"\1 undeclared();", c_function(graph), count=1)
    text = re.sub(r"(_1\(.*\)\n\{)", r"\1 undeclared thing;", text, count=1)
    with pytest.raises(CompilerError, match=r"(?s)-c .* failed:.*undeclared"):
        shared_library({"function.c": text}, "function.c")
