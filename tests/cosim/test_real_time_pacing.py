"""Real-time runs: the results do not change, and no step starts before its due time."""

import json
import time

import pytest
from numpy.testing import assert_array_equal

from planar2ctrl import parts, wired
from rigidblocks import Port, PythonBlock, SimulationError, System, simulate
from rigidblocks.cosim.masters.real_time_pacing import Pace

DT = 5e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    "form", ["compiled", *(pytest.param(one, marks=pytest.mark.slow) for one in ("numpy", "fused"))]
)
def test_real_time_pacing_does_not_change_the_results(form):
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
def test_missed_deadlines_of_slow_communication_steps_are_counted(overrun):
    result = simulate(slow(0.01), 0.05, DT, real_time=1.0, overrun=overrun, progress=False)
    report = json.loads(result.meta["real_time"])
    assert (report["steps"], report["missed deadlines"]) == (10, 10)
    late = report["start after due (us)"]["max"]
    # with catch-up the delay accumulates; with skip it is at most a wake-up time
    assert late > 9e3 * 4 if overrun == "catch-up" else report["late starts"] < 10


def test_missed_deadline_ends_the_run_if_the_overrun_option_is_stop():
    with pytest.raises(
        SimulationError, match=r"missed deadline: the step to t = 0\.005 s ended .* ms late"
    ) as caught:
        simulate(slow(0.02), 1.0, DT, real_time=1.0, overrun="stop", progress=False)
    assert len(caught.value.result.time) == 2


def test_invalid_real_time_options_are_rejected():
    with pytest.raises(ValueError, match="real_time must be positive"):
        simulate(slow(0.0), 1.0, DT, real_time=0.0)
    with pytest.raises(ValueError, match="overrun must be one of catch-up, skip, stop, not 'pray'"):
        Pace(1.0, DT, "pray")
    with pytest.raises(TypeError, match="real_time"):
        simulate(slow(0.0), 1.0, DT, real_time="fast")
