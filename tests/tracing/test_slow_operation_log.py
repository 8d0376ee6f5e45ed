"""Slow operations are logged with their purpose; short operations are not logged."""

import subprocess
import sys
import threading

import pytest

from rigidblocks.common.compiler import _ZIG, _compiler_name
from rigidblocks.common.slow_operation_log import log_if_slow, logger

WAIT = """
import logging, time
from rigidblocks.common.slow_operation_log import log_if_slow, logger
{}
with log_if_slow("compiling 3 statements", "about 1 s"):
    time.sleep({})
"""


def said(setup, seconds):
    program = WAIT.format(setup, seconds)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == ""
    return done.stderr.splitlines()


@pytest.mark.slow
def test_operation_of_more_than_a_second_is_logged_on_stderr():
    first, last = said("", 1.5)
    assert first == "rigidblocks: compiling 3 statements, about 1 s ..."
    assert last.startswith("rigidblocks: compiling 3 statements took ")


def test_short_operation_is_not_logged():
    assert said("", 0) == []


@pytest.mark.slow
def test_messages_about_slow_operations_are_redirected_or_hidden_by_the_logging_setup():
    first, _ = said("logging.basicConfig(level=logging.INFO)", 1.5)
    assert first == "INFO:rigidblocks.waits:compiling 3 statements, about 1 s ..."
    assert said("logger.setLevel('WARNING')", 1.5) == []


@pytest.mark.slow
def test_slow_operation_is_logged_while_it_runs():
    heard = threading.Event()
    handler = type("Handler", (type(logger.handlers[0]),), {"emit": lambda *_: heard.set()})()
    logger.addHandler(handler)
    try:
        with log_if_slow("waiting"):
            assert heard.wait(30)
    finally:
        logger.removeHandler(handler)


def test_compilation_message_shows_zig_as_the_compiler_if_the_ziglang_package_compiles():
    assert _compiler_name((*_ZIG, "-target", "aarch64-linux-gnu")) == "zig"
    assert _compiler_name(("/usr/bin/clang",)) == "clang"
