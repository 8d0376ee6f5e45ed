"""Runs that start far from t = 0 equal runs from t = 0, with events at the shifted times."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from any_models import BOUNCING_BALL, CLOCKS, DAHLQUIST, STAIR, any_fmu
from planar2ctrl import parts, wired
from rigidblocks import BouncingBall, System, prepare, simulate
from rigidblocks.library import Constant, Noise, RepeatingSequence, Step

FAR = [1e6, 1e9, -1e9, 1_764_000_000.0]
DT = 1e-3
BOUNCE = 7.6  # [m/s] speed change at the bounce of a ball dropped from 1 m


def resolution(t0):
    """Return the shortest inner step [s] near t0, which limits the resolution of event times."""
    return 16 * np.finfo(float).eps * abs(t0)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["compiled", "numpy", "fused"])
@pytest.mark.parametrize("t0", FAR)
def test_motion_of_a_controlled_arm_does_not_depend_on_the_start_time(form, t0):
    system = wired(parts())
    near = simulate(system, 0.3, DT, form=form)
    far = simulate(system, t0 + 0.3, DT, t_start=t0, form=form)
    assert_allclose(far.time, t0 + near.time, rtol=0, atol=4e-7)
    assert_allclose(far["robot.q"], near["robot.q"], rtol=0, atol=1e-9 + resolution(t0))
    run = prepare(system, DT, t_start=t0, form=form)
    run.step(300)
    assert_array_equal(run["robot.q"], far["robot.q"][-1])


@pytest.mark.slow
@pytest.mark.parametrize("t0", FAR)
def test_bounce_time_of_a_ball_does_not_depend_on_the_start_time_of_the_run(t0):
    system = System()
    system.add("ball", BouncingBall(z0=1.0, e=0.7))
    near = simulate(system, 0.8, 0.01)["ball.z"]
    far = simulate(system, t0 + 0.8, 0.01, t_start=t0)["ball.z"]
    assert_allclose(far, near, rtol=0, atol=1e-9 + BOUNCE * resolution(t0))


@pytest.mark.parametrize("t0", FAR)
def test_events_of_a_run_are_located_for_any_start_time(tmp_path, t0):
    """A mass that falls from 1 m reaches 0 after sqrt(2 h / g), where the run has a row."""
    falling = replace(BOUNCING_BALL, name="Falling", indicators=(), update="")
    system = System()
    system.add("ball", any_fmu(tmp_path, falling, 2), kind="model exchange")
    result = simulate(system, t0 + 0.5, 0.01, t_start=t0, events=["ball.h"])
    (event,) = result.events
    assert_allclose(event.t - t0, np.sqrt(2 / 9.81), rtol=0, atol=1e-9 + 2 * resolution(t0))


@pytest.mark.parametrize("kind", ["co-simulation", "model exchange"])
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("t0", FAR)
def test_results_of_fmus_do_not_depend_on_the_start_time(tmp_path, version, kind, t0):
    for model, name in ((DAHLQUIST, "x"), (BOUNCING_BALL, "h")):
        events = 'hasEventMode="true" mightReturnEarlyFromDoStep="true"'
        system = System()
        system.add("fmu", any_fmu(tmp_path, replace(model, attributes=events), version), kind=kind)
        near = simulate(system, 0.8, 0.01)[f"fmu.{name}"]
        far = simulate(system, t0 + 0.8, 0.01, t_start=t0)[f"fmu.{name}"]
        assert_allclose(far, near, rtol=0, atol=1e-6 + BOUNCE * resolution(t0))


@pytest.mark.parametrize("t0", FAR)
def test_fmu_clocks_tick_at_multiples_of_their_interval_for_any_start_time(tmp_path, t0):
    system = System()
    system.add("fmu", any_fmu(tmp_path, CLOCKS, 3))
    near = simulate(system, 1.0, 0.01)
    far = simulate(system, t0 + 1.0, 0.01, t_start=t0)
    assert_array_equal(far["fmu.ticks"], near["fmu.ticks"])
    assert_array_equal(far["fmu.rings"], near["fmu.rings"])


@pytest.mark.parametrize("kind", ["co-simulation", "model exchange"])
def test_time_events_of_fmus_at_large_times_do_not_occur_early(tmp_path, kind):
    """The stair rises at whole seconds; at the previous row it has not risen."""
    t0 = 1e9
    stair = replace(
        STAIR,
        update="""
while (m->t - 1e9 >= (double)m->v[1][0] - 1e-6)
    ++m->v[1][0];
m->next = 1e9 + m->v[1][0];""",
    )
    system = System()
    system.add("fmu", any_fmu(tmp_path, stair, 2), kind=kind)
    result = simulate(system, t0 + 3.0, 0.125, t_start=t0)
    assert_array_equal(result["fmu.counter"], 1 + np.floor(np.arange(25) / 8))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["compiled", "numpy", "fused"])
@pytest.mark.parametrize("t0", [0.0, *FAR])
def test_switching_times_of_sources_do_not_depend_on_the_start_time(form, t0):
    system = System()
    system.add("step", Step(time=t0 + 0.3))
    system.add("saw", RepeatingSequence([0.0, 0.5, 0.5001, 1.0], [[0.0], [0.0], [1.0], [1.0]]))
    result = simulate(system, t0 + 1.0, 0.1, t_start=t0, form=form)
    assert_array_equal(result["step.y"].ravel(), [0] * 3 + [1] * 8)
    assert_array_equal(np.round(result["saw.y"].ravel()), [0] * 6 + [1] * 4 + [0])


@pytest.mark.parametrize("t0", [0.0, *FAR])
def test_scenario_values_take_effect_at_the_scenario_times_for_any_start_time(t0):
    system = System()
    system.add("value", Constant(0.0, "1"))
    (name,) = (port.name for port in system.parts["value"].component.parameters)
    scenario = {"time": [t0 + 0.3, t0 + 0.7], f"value.{name}": [1.0, 2.0]}
    result = simulate(system, t0 + 1.0, 0.1, t_start=t0, scenario=scenario)
    assert_array_equal(np.ravel(result["value.y"]), [0] * 4 + [1] * 4 + [2] * 3)


@pytest.mark.slow
def test_results_with_extrapolated_inputs_do_not_depend_on_the_start_time():
    """Extrapolation uses past values; rounding of large times must not discard them."""
    system = wired(parts())
    options = {"order": "jacobi", "extrapolate": 1}
    near = simulate(system, 0.1, DT, **options)["robot.q"]
    far = simulate(system, 1e9 + 0.1, DT, t_start=1e9, **options)["robot.q"]
    assert_allclose(far, near, atol=1e-6)


@pytest.mark.parametrize(("t0", "dt"), [(1e9, 1e-6), (1e12, 1e-3), (-1e15, 0.1)])
def test_steps_below_the_floating_point_resolution_of_time_are_rejected(t0, dt):
    system = System()
    system.add("ball", BouncingBall())
    for run in (
        lambda: simulate(system, t0 + 10 * dt, dt, t_start=t0),
        lambda: prepare(system, dt, t_start=t0),
    ):
        with pytest.raises(ValueError, match=r"are too short at t = .* use steps of at least"):
            run()


@pytest.mark.parametrize("t0", [1e9 + 3e-3, 1e9 + 5e-3])
def test_start_time_between_two_samples_is_rejected(t0):
    system = System()
    system.add("noise", Noise(0.01))
    with pytest.raises(ValueError, match=r"is not a multiple of its sample time"):
        prepare(system, DT, t_start=t0)


def test_run_at_large_times_is_rejected_if_dt_does_not_divide_its_duration():
    with pytest.raises(ValueError, match=r"does not divide the duration of the run"):
        simulate(wired(parts()), 1e9 + 0.1003, DT, t_start=1e9)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["compiled", "numpy", "fused"])
@pytest.mark.parametrize("t0", FAR)
def test_samples_of_a_noise_block_do_not_depend_on_the_start_time_of_the_run(form, t0):
    """The communication step is a tenth of, equal to, or ten times the sample time."""
    system = System()
    system.add("noise", Noise(0.01))
    for dt in (1e-3, 0.01, 0.1):
        near = simulate(system, 0.5, dt, form=form)["noise.y"]
        far = simulate(system, t0 + 0.5, dt, t_start=t0, form=form)["noise.y"]
        assert_array_equal(far, near)
