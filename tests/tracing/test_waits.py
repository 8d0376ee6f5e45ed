"""A long wait says what it is for; a short one says nothing."""

import subprocess
import sys
import threading

import pytest

from rigidblocks.tracing.waits import logger, told

WAIT = """
import logging, time
from rigidblocks.tracing.waits import logger, told
{}
with told("compiling 3 statements", "about 1 s"):
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
def test_wait_of_more_than_a_second_is_told_on_stderr():
    first, last = said("", 1.5)
    assert first == "rigidblocks: compiling 3 statements, about 1 s ..."
    assert last.startswith("rigidblocks: compiling 3 statements took ")


def test_short_wait_says_nothing():
    assert said("", 0) == []


@pytest.mark.slow
def test_programs_logging_gets_what_is_told_and_can_silence_it():
    first, _ = said("logging.basicConfig(level=logging.INFO)", 1.5)
    assert first == "INFO:rigidblocks.waits:compiling 3 statements, about 1 s ..."
    assert said("logger.setLevel('WARNING')", 1.5) == []


@pytest.mark.slow
def test_wait_is_told_while_it_lasts():
    heard = threading.Event()
    handler = type("Handler", (type(logger.handlers[0]),), {"emit": lambda *_: heard.set()})()
    logger.addHandler(handler)
    try:
        with told("waiting"):
            assert heard.wait(30)
    finally:
        logger.removeHandler(handler)
