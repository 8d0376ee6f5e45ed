"""Runs at the pace of the clock: the same numbers, no sooner than they are due."""

import json
import time

import pytest
from numpy.testing import assert_array_equal

from planar2ctrl import parts, wired
from rigidblocks import Port, PythonBlock, SimulationError, System, simulate
from rigidblocks.simulation.pace import Pace

DT = 5e-3


@pytest.mark.parametrize(
    "form", ["compiled", *(pytest.param(one, marks=pytest.mark.slow) for one in ("numpy", "fused"))]
)
def test_the_pace_changes_no_number(form):
    system = wired(parts())
    began = time.perf_counter()
    result = simulate(system, 0.1, DT, form=form, real_time=0.5, progress=False)
    assert time.perf_counter() - began >= 19 * 2 * DT
    expected = simulate(system, 0.1, DT, form=form, progress=False)
    assert_array_equal(result.values, expected.values)
    report = json.loads(result.meta["real_time"])
    assert report["steps"] == 20
    for times in (report["step (us)"], report["start after due (us)"]):
        assert 0 <= times["median"] <= times["p99"] <= times["p99.9"] <= times["max"]
    assert "real_time" not in expected.meta


def slow(seconds):
    system = System()
    wait = PythonBlock(lambda t: time.sleep(seconds) or t, [], [Port("y", unit="s")])
    system.add("slow", wait)
    return system


@pytest.mark.parametrize("overrun", ["catch-up", "skip"])
def test_steps_that_take_too_long_are_counted(overrun):
    result = simulate(slow(0.01), 0.05, DT, real_time=1.0, overrun=overrun, progress=False)
    report = json.loads(result.meta["real_time"])
    assert (report["steps"], report["missed deadlines"]) == (10, 10)
    late = report["start after due (us)"]["max"]
    # behind by more and more, or never by more than a wake-up takes
    assert late > 9e3 * 4 if overrun == "catch-up" else report["late starts"] < 10


def test_they_end_the_run_where_that_is_asked_for():
    with pytest.raises(
        SimulationError, match=r"the step to t = 0\.005 s ended .* ms after"
    ) as caught:
        simulate(slow(0.02), 1.0, DT, real_time=1.0, overrun="stop", progress=False)
    assert len(caught.value.result.time) == 2


def test_what_is_no_pace_is_refused():
    with pytest.raises(ValueError, match="real_time must be positive"):
        simulate(slow(0.0), 1.0, DT, real_time=0.0)
    with pytest.raises(ValueError, match="overrun must be one of catch-up, skip, stop, not 'pray'"):
        Pace(1.0, DT, "pray")
    with pytest.raises(TypeError, match="real_time"):
        simulate(slow(0.0), 1.0, DT, real_time="fast")
