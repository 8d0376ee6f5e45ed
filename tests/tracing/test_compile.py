"""Compiled C equals NumPy, is compiled once, and needs only a C compiler."""

import os
import shutil
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from random_models import random_state
from rigidblocks import LowPass, auto_tree, compiled_dynamics
from rigidblocks.block.adaptive_methods import ADAPTIVE, memory_for
from rigidblocks.block.integrators import RK4
from rigidblocks.common import compiler as compiling
from rigidblocks.common.compiler import (
    CompilerError,
    cache_folder,
    compiler,
    kernel_compiler,
    run_compiler,
    shared_library,
)
from rigidblocks.dynamics import aba, crba, rnea
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.spatial.scalar import clip, less, select
from rigidblocks.tracing import ccode, compiled_functions
from rigidblocks.tracing import outlining as pieces
from rigidblocks.tracing.compiled_functions import call_extension, compile_function

RTOL = 1e-12  # rounding of shared subexpressions and reciprocals
SOURCE = "double twice(double x);\ndouble twice(double x) { return 2.0 * x; }\n"


def call(function, *values):
    """Return the result of the traced and compiled function for these values."""
    return compile_function("traced", lambda *inputs: {"out": function(*inputs)}, shapes(values))(
        *values
    )


def shapes(values):
    return {f"in{k}": np.shape(value) for k, value in enumerate(values)}


@pytest.fixture
def _reset_compiler():
    """Clear the cached compiler before and after the test."""
    compiler.cache_clear()
    compiling.version.cache_clear()
    yield
    compiler.cache_clear()
    compiling.version.cache_clear()


@pytest.fixture
def counted(tmp_path, monkeypatch, _reset_compiler):
    """Set $CC to a compiler that logs its runs.

    The fixture is a function that returns the number of compiled libraries.
    """
    call_extension()  # compiled once per process, and not counted
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


def sums_and_products():
    """Return a function with inputs (3,), (2, 2) and (), and outputs (3,) and ()."""
    return compile_function(
        "sums",
        lambda a, b, c: {"y": a * c + b[0, 1], "z": b[0, 0] * b[1, 1] - c},
        {"a": (3,), "b": (2, 2), "c": ()},
    )


ARGUMENTS = (np.array([1.0, -2.0, 3.5]), np.array([[2.0, 3.0], [5.0, 7.0]]), np.array(0.25))


@pytest.mark.parametrize("extension", [True, False])
def test_compiled_function_accepts_all_arguments_that_numpy_converts(extension, monkeypatch):
    if not extension:
        monkeypatch.setattr(compiled_functions, "call_extension", lambda: None)
    else:
        assert compiled_functions.call_extension() is not None
    f, (a, b, c) = sums_and_products(), ARGUMENTS
    wide = np.zeros((3, 2))
    wide[:, 0] = a
    read_only = a.copy()
    read_only.setflags(write=False)
    for first, second, third in (
        (a, b, c),
        (a.tolist(), b.tolist(), 0.25),
        (wide[:, 0], np.asfortranarray(b), np.float32(0.25)),
        (read_only, b.astype(int), c),
        (a.astype(">f8"), b, c),
    ):
        y, z = f(first, second, third)
        assert_array_equal(y, a * 0.25 + 3.0)
        assert z == 13.75
        assert y.shape == (3,)
        assert z.shape == ()
    y[:] = np.nan
    assert_array_equal(f(a, b, c)[0], a * 0.25 + 3.0)  # results do not share memory


def test_long_compiled_function_lets_other_threads_run_during_a_call():
    f, q = compiled_dynamics(auto_tree(60), "crba"), np.zeros(60)
    lock, done = threading.Lock(), threading.Event()
    lock.acquire()
    other = threading.Thread(target=lambda: (lock.acquire(), done.set()))
    other.start()
    f(q)
    interval = sys.getswitchinterval()
    try:
        sys.setswitchinterval(1e4)  # [s] a thread switch needs a call that releases the lock
        lock.release()
        deadline = time.monotonic() + 120.0  # the operating system may start the other thread late
        while not done.is_set() and time.monotonic() < deadline:
            f(q)
        switched = done.is_set()
    finally:
        sys.setswitchinterval(interval)
    other.join()
    assert switched


@pytest.mark.parametrize("extension", [True, False])
@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({0: np.zeros(4)}, ValueError, r"have the shapes \(4,\), \(2, 2\), \(\); expected"),
        ({1: np.zeros(4)}, ValueError, r"have the shapes \(3,\), \(4,\), \(\); expected"),
        ({0: np.zeros(3, dtype=complex)}, TypeError, "a has elements of type complex128"),
        ({2: True}, TypeError, "c has elements of type bool"),
        ({3: 1.0}, ValueError, r"\(\), \(\); expected"),
    ],
)
def test_compiled_function_rejects_arguments_of_wrong_number_shape_or_type(
    extension, changes, error, message, monkeypatch
):
    if not extension:
        monkeypatch.setattr(compiled_functions, "call_extension", lambda: None)
    f = sums_and_products()
    with pytest.raises(error, match=message):
        f(*(dict(enumerate(ARGUMENTS)) | changes).values())
    with pytest.raises(TypeError):
        f(*ARGUMENTS[:2], c=0.25)


@pytest.mark.slow
def test_dynamics_compiled_from_a_trace_match_the_results_of_numpy(model, rng):
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


def test_all_traced_operations_have_equal_values_in_c_and_in_numpy(rng):
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
def test_division_of_a_long_c_function_into_parts_does_not_change_its_results(monkeypatch, rng):
    model = auto_tree(12, 1.5, 0.4)
    state = random_state(rng, model)
    q, qd, tau = state.q, state.qd, state.tau
    whole = call(lambda *state: aba(model, *state), q, qd, tau)
    monkeypatch.setattr(ccode, "LONG", 400)
    monkeypatch.setattr(pieces, "PART", 300)
    assert_array_equal(call(lambda *state: aba(model, *state), q, qd, tau), whole)


def test_traced_comparisons_have_equal_values_in_c_and_in_numpy():
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
        # NumPy floats, because their booleans support ~
        assert_array_equal(call(f, a, b), f(np.float64(a), np.float64(b)))


def test_compiled_function_takes_inputs_and_returns_outputs_in_the_order_of_the_trace():
    f = compile_function(
        "f", lambda a, b: {"y": a @ np.array([1.0, b]), "z": a[0, 0] - b}, {"a": (2, 2), "b": ()}
    )
    y, z = f([[1, 2], [3, 4]], 10)
    assert_array_equal(y, [21, 43])
    assert z == -9
    f([[0, 0], [0, 0]], 0)
    assert_array_equal(y, [21, 43])  # results are copies
    f.inputs["b"][...] = 5.0
    f.run()
    assert f.outputs["z"] == -5
    for wrong in (([[1, 2], [3, 4]],), ([1, 2], 10), ([[1, 2], [3, 4]], [10])):
        with pytest.raises(
            ValueError,
            match=r"the inputs of f have the shapes .*; expected \{'a': \(2, 2\), 'b': \(\)\}",
        ):
            f(*wrong)
    assert_array_equal(f.inputs["a"], 0)  # a failed call does not change the inputs


@needs_system_compiler
def test_second_call_reuses_the_compiled_library(counted):
    first = shared_library({"a.c": SOURCE}, "a.c")
    assert counted() == 1
    assert shared_library({"a.c": SOURCE}, "a.c") == first
    assert counted() == 1


@pytest.mark.slow
@needs_system_compiler
def test_second_process_reuses_the_compiled_library(counted):
    program = (
        "from rigidblocks import RobotPlant, planar2\n"
        "from rigidblocks.block.integrators import RK4\n"
        "from rigidblocks.block.memory_layout import Memory\n"
        "from rigidblocks.kernels.compiled_stepper import kernel_library\n"
        "print(kernel_library(Memory(RobotPlant(planar2())), RK4, 1e-3))\n"
    )
    paths = [
        subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout
        for _ in range(2)
    ]
    assert paths[0] == paths[1]
    assert counted() == 1


@needs_system_compiler
@pytest.mark.parametrize("method", [RK4, ADAPTIVE])
def test_blocks_that_differ_only_in_start_values_share_a_compiled_kernel(counted, method):
    """The result is y = u + (y0 - u) exp(-t / T)."""
    for T, y0 in ((0.5, 1.0), (2.0, -3.0)):
        memory = memory_for(LowPass(T, y0=y0), method)
        stepper = compiled_stepper(memory, method, 1e-3)
        m = memory.start()
        m[memory.where["u"]] = 0.25
        stepper.initialize(m, 0.0)
        stepper.step(m, 0.0, 0.125)
        expected = 0.25 + (y0 - 0.25) * np.exp(-0.125 / T)
        assert_allclose(m[memory.where["y"]], expected, rtol=1e-8)
    assert counted() == 1


@needs_system_compiler
def test_compiled_libraries_are_cached_by_the_content_of_their_source(counted):
    original = shared_library({"a.c": SOURCE}, "a.c")
    others = [
        shared_library({"a.c": SOURCE.replace("2.0", "3.0")}, "a.c"),
        shared_library({"b.c": SOURCE}, "b.c"),
        shared_library({"a.c": SOURCE, "a.h": ""}, "a.c"),
        shared_library({"a.c": SOURCE}, "a.c", flags=("-std=c99", "-O1")),
    ]
    assert len({original, *others}) == counted() == 5


@needs_system_compiler
def test_failed_compilation_leaves_no_file_in_the_cache(counted, tmp_path):
    with pytest.raises(CompilerError):
        shared_library({"a.c": "int f( {"}, "a.c")
    assert counted() == 1
    assert list((tmp_path / "kernels").glob("*")) == []


def test_error_for_invalid_c_source_contains_the_compiler_message():
    with pytest.raises(CompilerError, match=r"(?s)a\.c -o .*` failed:\n.*undeclared_thing"):
        shared_library({"a.c": "int f(void) { return undeclared_thing; }\n"}, "a.c")


def test_error_for_an_invalid_compiler_command_contains_the_message_of_the_compiler(tmp_path):
    with pytest.raises(CompilerError, match=r"`.* missing\.c` failed:\n.*missing\.c"):
        run_compiler((*compiler(), "missing.c"), tmp_path)


@pytest.mark.usefixtures("_reset_compiler")
def test_cc_variable_selects_the_compiler(monkeypatch):
    monkeypatch.setenv("CC", "ccache some-cc -m64")
    assert compiler() == ("ccache", "some-cc", "-m64")


@needs_system_compiler
@pytest.mark.usefixtures("_reset_compiler")
def test_system_c_compiler_is_used_if_it_exists(monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    assert Path(compiler()[0]).name in ("cc", "gcc", "clang")


@pytest.mark.usefixtures("_reset_compiler")
def test_clang_compiles_kernels_if_it_is_installed_and_cc_is_not_set(monkeypatch):
    installed = {"cc": "/bin/cc", "clang": "/bin/clang"}
    monkeypatch.setattr(compiling.shutil, "which", installed.get)
    monkeypatch.delenv("CC", raising=False)
    assert kernel_compiler() == ("/bin/clang",)
    assert compiler() == ("/bin/cc",)
    del installed["clang"]
    assert kernel_compiler() == ("/bin/cc",)


@pytest.mark.usefixtures("_reset_compiler")
def test_cc_variable_takes_precedence_over_clang_for_kernels(monkeypatch):
    monkeypatch.setattr(compiling.shutil, "which", "/bin/{}".format)
    monkeypatch.setenv("CC", "some-cc -m64")
    assert kernel_compiler() == ("some-cc", "-m64")


@pytest.fixture
def _hidden_compilers(monkeypatch, tmp_path, _reset_compiler):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.usefixtures("_hidden_compilers")
def test_error_for_a_missing_compiler_suggests_a_package(monkeypatch):
    monkeypatch.setattr(compiling, "find_spec", lambda _: None)
    with pytest.raises(
        CompilerError,
        match=r"no C compiler: install one \(cc on the PATH\), or `pip install ziglang`",
    ):
        shared_library({"a.c": SOURCE}, "a.c")


@pytest.mark.slow
@pytest.mark.usefixtures("_hidden_compilers")
def test_zig_compiles_without_a_system_compiler(rng):
    pytest.importorskip("ziglang", reason="ziglang is not installed (`pip install ziglang`)")
    assert compiler()[:4] == (sys.executable, "-m", "ziglang", "cc")
    a, b = rng.uniform(-3, 3, (2, 4))
    assert_allclose(
        call(lambda a, b: np.sin(a) * b + 1 / b, a, b), np.sin(a) * b + 1 / b, rtol=RTOL
    )


@pytest.mark.usefixtures("_reset_compiler")
def test_cc_variable_with_a_nonexistent_compiler_raises_an_error(monkeypatch):
    monkeypatch.setenv("CC", os.path.join(os.sep, "missing", "cc"))
    with pytest.raises(
        CompilerError, match=r"the C compiler `.*cc` does not run: .*; set CC to a working compiler"
    ):
        shared_library({"a.c": SOURCE}, "a.c")


def test_environment_variable_selects_the_folder_of_the_kernel_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("RIGIDBLOCKS_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("RIGIDBLOCKS_CACHE")
    assert cache_folder().name == "rigidblocks"


@pytest.mark.parametrize(
    "value",
    [
        np.array([1.0 + 1.0j, 0.0]),
        ["1", "2"],
        [True, False],
        np.ma.array([1.0, 2.0], mask=[False, True]),
    ],
    ids=["complex", "strings", "booleans", "masked"],
)
def test_compiled_function_rejects_arguments_that_are_not_real(value):
    twice = compile_function("twice", lambda x: {"y": 2.0 * x}, {"x": (2,)})
    with pytest.raises(
        TypeError, match=r"twice: x has elements .*; all elements must be real numbers"
    ):
        twice(value)
    assert twice([1, 2]).tolist() == twice(np.float32([1, 2])).tolist() == [2.0, 4.0]
