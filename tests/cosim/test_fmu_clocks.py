"""Input clocks of FMI 3.0 FMUs, in co-simulation and in model exchange."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from any_models import CLOCKS, TICKS, any_fmu
from rigidblocks import SimulationError, Sine, System, prepare, simulate
from rigidblocks.cosim.graph.fmu_part import Fmu

KINDS = ["co-simulation", "model exchange"]
DT, STEPS = 0.05, 20
INTERVALS = {"fixed": 0.1, "tunable": 0.25}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return any_fmu(tmp_path_factory.mktemp("ticks"), TICKS, 3)


def system_of(path, **options) -> System:
    system = System()
    system.add("part", path, **options)
    return system


@pytest.mark.parametrize("kind", KINDS)
def test_fmu_clock_ticks_at_the_interval_that_the_importer_sets(path, kind):
    result = simulate(system_of(path, kind=kind, start=INTERVALS), STEPS * DT, DT)
    for name, interval in INTERVALS.items():
        ticks = 1 + np.floor(result.time / interval + 1e-9)
        assert_array_equal(result[f"part.{name}_ticks"], ticks)


@pytest.mark.parametrize("kind", KINDS)
def test_fmu_clock_ticks_at_the_changing_interval_that_the_fmu_returns(path, kind):
    """The interval is 0.1 s, and 0.2 s from the second tick on."""
    result = simulate(system_of(path, kind=kind, start=INTERVALS), STEPS * DT, DT)
    ticks = [sum(t <= now + 1e-9 for t in (0, 0.1, 0.3, 0.5, 0.7, 0.9)) for now in result.time]
    assert_array_equal(result["part.changing_ticks"], ticks)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", ["gauss-seidel", "jacobi"])
def test_triggered_clock_ticks_once_in_each_step_in_which_its_source_ticks(path, kind, order):
    """The source ticks in each step; a state event splits the first step of both parts."""
    system = System()
    system.add("a", path, kind=kind, start={"fixed": DT})
    system.add("b", path, kind=kind, start={"fixed": 0.5})
    system.connect("a.out", "b.hit")
    result = simulate(system, STEPS * DT, DT, order=order)
    assert result["a.out"][1:].all()
    assert_array_equal(np.diff(result["b.hits"]), np.ones(STEPS))


@pytest.mark.parametrize("kind", KINDS)
def test_triggered_clock_does_not_tick_without_its_source(path, kind):
    system = System()
    system.add("a", path, kind=kind, start={"fixed": 0.2})
    system.add("b", path, kind=kind, start={"fixed": 0.5})
    system.connect("a.out", "b.hit")
    result = simulate(system, STEPS * DT, DT)
    assert_array_equal(np.diff(result["b.hits"]), result["a.out"][1:])
    assert result["a.out"][1:].sum() == 5


def test_error_for_an_fmu_clock_without_an_interval_identifies_the_clock(path):
    with pytest.raises(SimulationError, match=r"'part': its clock fixed has no interval; .*start"):
        simulate(system_of(path), 0.1, DT)


@pytest.mark.parametrize("interval", [0.0, -1.0])
def test_interval_of_an_fmu_clock_must_be_positive(path, interval):
    with pytest.raises(ValueError, match=r"part\.fixed .*must be positive"):
        system_of(path, start={"fixed": interval})


def test_communication_step_that_does_not_divide_an_fmu_clock_interval_is_rejected(path):
    system = system_of(path, start={"fixed": 0.03})
    assert system.parts["part"].component.sample_time == 0.03
    with pytest.raises(ValueError, match=r"'part': the step 0\.05 s does not fit the sample time"):
        simulate(system, 0.1, DT)


def test_interval_of_a_clock_cannot_change_in_a_prepared_system(path):
    with prepare(system_of(path, start=INTERVALS), DT) as run:
        run.step()
        moment = run.save()
        values = []
        for _ in range(2):
            for _ in range(4):
                run.step()
            values.append([run[f"part.{name}_ticks"] for name in (*INTERVALS, "changing")])
            run.restore(moment)
        assert values[0] == values[1] == [3, 2, 2]
        with pytest.raises(
            ValueError, match=r"'part\.fixed' is the interval of a clock with .* 0.1"
        ):
            run.simulate(0.1, start={"part.fixed": 0.2})


def test_fmu_clocks_tick_at_the_same_times_in_model_exchange_and_co_simulation(tmp_path):
    fmu = any_fmu(tmp_path, CLOCKS, 3)
    results = []
    for kind in KINDS:
        system = system_of(fmu, kind=kind)
        system.add("sine", Sine(amplitude=1.0, frequency=0.3, unit="1"))
        system.connect("sine.y", "part.u")
        results.append(simulate(system, 1.0, 0.025))
    assert Fmu(fmu, "model exchange").sample_time == 0.1
    for name in ("ticks", "last", "rings", "rang"):
        assert_array_equal(results[0][f"part.{name}"], results[1][f"part.{name}"])
    assert_allclose(results[0]["part.sampled"], results[1]["part.sampled"], atol=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", ["gauss-seidel", "jacobi"])
def test_located_events_do_not_change_the_tick_times_of_fmu_clocks(path, tmp_path, kind, order):
    """The events split two communication steps: where a sine becomes negative."""
    frequency = 0.77
    system = System()
    system.add("sine", Sine(amplitude=1.0, frequency=frequency, unit="1"))
    system.add("clocks", any_fmu(tmp_path, CLOCKS, 3), kind=kind)
    system.connect("sine.y", "clocks.u")
    system.add("a", path, kind=kind, start={"fixed": 0.1, "tunable": 0.25})
    system.add("b", path, kind=kind, start={"fixed": 0.5})
    system.connect("a.out", "b.hit")
    expected = simulate(system, 2.0, DT, order=order)
    located = simulate(system, 2.0, DT, order=order, events=["sine.y[1]"])
    zeros = [event.t for event in located.events]
    assert_allclose(zeros, [k / (2 * frequency) for k in (1, 3)], atol=1e-9)
    rows = np.searchsorted(located.time, expected.time - 1e-12)  # first rows at these times
    assert_array_equal(located.time[rows], expected.time)
    for port in expected.ports:
        found, wanted = (np.asarray(run[port.name], dtype=float) for run in (located, expected))
        assert_allclose(found[rows], wanted, rtol=0, atol=1e-12, err_msg=port.name)
