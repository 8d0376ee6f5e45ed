"""C from a trace computes what NumPy computes, is compiled once, and needs only some C compiler."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from random_models import random_state
from rigidblocks import auto_tree
from rigidblocks.algebra.scalar import clip, less, select
from rigidblocks.dynamics import aba, crba, rnea
from rigidblocks.tracing import ccode, pieces
from rigidblocks.tracing import compiler as compiling
from rigidblocks.tracing.cache import cache_folder
from rigidblocks.tracing.compiler import CompilerError, compiler, run_compiler, shared_library
from rigidblocks.tracing.function import compiled

RTOL = 1e-12  # the same operations, but for shared subexpressions and reciprocals
SOURCE = "double twice(double x);\ndouble twice(double x) { return 2.0 * x; }\n"


def call(function, *values):
    """The result of the function traced, compiled to C and called on those values."""
    return compiled("traced", lambda *inputs: {"out": function(*inputs)}, shapes(values))(*values)


def shapes(values):
    return {f"in{k}": np.shape(value) for k, value in enumerate(values)}


@pytest.fixture
def _asked_anew():
    """Forgets which compiler was found, before and after."""
    compiler.cache_clear()
    compiling.version.cache_clear()
    yield
    compiler.cache_clear()
    compiling.version.cache_clear()


@pytest.fixture
def counted(tmp_path, monkeypatch, _asked_anew):
    """A compiler in $CC that logs each run; calling the fixture tells how often it has made a
    library.
    """
    real, log, script = compiler()[0], tmp_path / "log", tmp_path / "logged-cc"
    script.write_text(f'#!/bin/sh\necho "$@" >> "{log}"\nexec "{real}" "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    compiler.cache_clear()
    monkeypatch.setenv("CC", str(script))
    monkeypatch.setenv("RIGIDBLOCKS_CACHE", str(tmp_path / "kernels"))
    return lambda: (
        sum("-shared" in line for line in log.read_text().splitlines()) if log.exists() else 0
    )


needs_system_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))),
    reason="there is no system C compiler; the zig tests cover the rest",
)


def test_compiled_dynamics_equal_numpy(model, rng):
    s = random_state(rng, model)
    for function, arguments in (
        (lambda *values: rnea(model, *values), (s.q, s.qd, s.qdd, s.f_ext)),
        (lambda q: crba(model, q), (s.q,)),
        (lambda *values: aba(model, *values), (s.q, s.qd, s.tau, s.f_ext)),
    ):
        expected = function(*arguments)
        size = max(1.0, np.max(np.abs(expected))) * (
            np.linalg.cond(crba(model, s.q)) if len(arguments) > 1 else 1
        )
        assert_allclose(call(function, *arguments), expected, rtol=0, atol=RTOL * size)


def test_every_operation_has_the_same_value_in_c(rng):
    def f(a, b):
        condition = (less(a, b)[0] & (a[1] <= b[1])) | ~(a[2] == b[2]) | (a[0] != b[0])
        trigonometry = (
            np.sin(a)
            + np.cos(b)
            + np.tan(a / 9)
            + np.arcsin(a / 9)
            + np.arccos(b / 9)
            + np.arctan(a)
        )
        rest = (
            np.arctan2(a, b)
            + np.tanh(a)
            + np.exp(b)
            + np.log(np.abs(a))
            + np.sqrt(b * b)
            + np.floor(a)
            + a**3
        )
        return (
            select(condition, trigonometry, rest)
            + rest / a
            + 1.0 / a
            + clip(b, -1.0, np.inf)
            - (a + a)
        )

    for _ in range(5):
        a, b = rng.uniform(-3, 3, (2, 4))
        expected = f(a, b).astype(float)
        assert_allclose(call(f, a, b), expected, rtol=RTOL, atol=RTOL)


@pytest.mark.slow
def test_long_function_in_parts_computes_the_same_bits(monkeypatch, rng):
    model = auto_tree(12, 1.5, 0.4)
    state = random_state(rng, model)
    q, qd, tau = state.q, state.qd, state.tau
    whole = call(lambda *state: aba(model, *state), q, qd, tau)
    monkeypatch.setattr(ccode, "LONG", 400)
    monkeypatch.setattr(pieces, "PART", 300)
    assert_array_equal(call(lambda *state: aba(model, *state), q, qd, tau), whole)


def test_comparisons_have_the_same_value_in_c_at_equality_too():
    def f(a, b):
        conditions = (
            a < b,
            a <= b,
            a > b,
            a >= b,
            a == b,
            a != b,
            (a < b) & (a > 0.0),
            (a < b) | (a > 0.0),
            ~(a < b),
        )
        return np.array([select(condition, 1.0, 0.0) for condition in conditions])

    for a, b in ((1.0, 2.0), (2.0, 2.0), (3.0, 2.0), (-1.0, 2.0), (0.0, -0.0)):
        # on floats of NumPy, whose booleans know ~
        assert_array_equal(call(f, a, b), f(np.float64(a), np.float64(b)))


def test_compiled_function_takes_its_inputs_in_order_and_gives_its_outputs():
    f = compiled(
        "f", lambda a, b: {"y": a @ np.array([1.0, b]), "z": a[0, 0] - b}, {"a": (2, 2), "b": ()}
    )
    y, z = f([[1, 2], [3, 4]], 10)
    assert_array_equal(y, [21, 43])
    assert z == -9
    f([[0, 0], [0, 0]], 0)
    assert_array_equal(y, [21, 43])  # results are the caller's own
    f.inputs["b"][...] = 5.0
    f.run()
    assert f.outputs["z"] == -5
    for wrong in (([[1, 2], [3, 4]],), ([1, 2], 10), ([[1, 2], [3, 4]], [10])):
        with pytest.raises(
            ValueError, match=r"f was given shapes .*; it needs \{'a': \(2, 2\), 'b': \(\)\}"
        ):
            f(*wrong)
    assert_array_equal(f.inputs["a"], 0)  # nothing half done


@needs_system_compiler
def test_second_run_compiles_nothing(counted):
    first = shared_library({"a.c": SOURCE}, "a.c")
    assert counted() == 1
    assert shared_library({"a.c": SOURCE}, "a.c") == first
    assert counted() == 1


@pytest.mark.slow
@needs_system_compiler
def test_second_process_compiles_nothing(counted):
    program = (
        "from rigidblocks import RobotPlant, planar2, RK4\n"
        "from rigidblocks.block.memory import Memory\n"
        "from rigidblocks.kernels.stepper import kernel_library\n"
        "print(kernel_library(Memory(RobotPlant(planar2())), RK4, 1e-3))\n"
    )
    paths = [
        subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout
        for _ in range(2)
    ]
    assert paths[0] == paths[1]
    assert counted() == 1


@needs_system_compiler
def test_libraries_are_cached_by_content(counted):
    original = shared_library({"a.c": SOURCE}, "a.c")
    others = [
        shared_library({"a.c": SOURCE.replace("2.0", "3.0")}, "a.c"),
        shared_library({"b.c": SOURCE}, "b.c"),
        shared_library({"a.c": SOURCE, "a.h": ""}, "a.c"),
        shared_library({"a.c": SOURCE}, "a.c", flags=("-std=c99", "-O1")),
    ]
    assert len({original, *others}) == counted() == 5


@needs_system_compiler
def test_refused_source_leaves_nothing_in_the_cache(counted, tmp_path):
    with pytest.raises(CompilerError):
        shared_library({"a.c": "int f( {"}, "a.c")
    assert counted() == 1
    assert list((tmp_path / "kernels").glob("*")) == []


def test_refused_source_gives_the_compilers_own_words():
    with pytest.raises(CompilerError, match=r"(?s)a\.c -o .*` failed:\n.*undeclared_thing"):
        shared_library({"a.c": "int f(void) { return undeclared_thing; }\n"}, "a.c")


def test_refused_command_gives_the_compilers_own_words(tmp_path):
    with pytest.raises(CompilerError, match=r"`.* missing\.c` failed:\n.*missing\.c"):
        run_compiler((*compiler(), "missing.c"), tmp_path)


@pytest.mark.usefixtures("_asked_anew")
def test_cc_is_the_compiler(monkeypatch):
    monkeypatch.setenv("CC", "ccache some-cc -m64")
    assert compiler() == ("ccache", "some-cc", "-m64")


@needs_system_compiler
@pytest.mark.usefixtures("_asked_anew")
def test_system_compiler_is_used_when_there_is_one(monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    assert Path(compiler()[0]).name in ("cc", "gcc", "clang")


@pytest.fixture
def _hidden_compilers(monkeypatch, tmp_path, _asked_anew):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.usefixtures("_hidden_compilers")
def test_no_compiler_at_all_says_what_to_install(monkeypatch):
    monkeypatch.setattr(compiling, "find_spec", lambda _: None)
    with pytest.raises(
        CompilerError,
        match=r"no C compiler: install one \(cc on the PATH\), or `pip install rigidblocks\[zig\]`",
    ):
        shared_library({"a.c": SOURCE}, "a.c")


@pytest.mark.slow
@pytest.mark.usefixtures("_hidden_compilers")
def test_zig_compiles_where_no_system_compiler_is(rng):
    pytest.importorskip(
        "ziglang", reason="ziglang is not installed (`pip install rigidblocks[zig]`)"
    )
    assert compiler()[:4] == (sys.executable, "-m", "ziglang", "cc")
    a, b = rng.uniform(-3, 3, (2, 4))
    assert_allclose(
        call(lambda a, b: np.sin(a) * b + 1 / b, a, b), np.sin(a) * b + 1 / b, rtol=RTOL
    )


@pytest.mark.usefixtures("_asked_anew")
def test_compiler_that_does_not_exist_is_a_compiler_error(monkeypatch):
    monkeypatch.setenv("CC", os.path.join(os.sep, "missing", "cc"))
    with pytest.raises(
        CompilerError, match=r"the C compiler `.*cc` does not run: .*; set CC to one that does"
    ):
        shared_library({"a.c": SOURCE}, "a.c")


def test_cache_folder_is_the_one_of_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("RIGIDBLOCKS_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("RIGIDBLOCKS_CACHE")
    assert cache_folder().name == "rigidblocks"
