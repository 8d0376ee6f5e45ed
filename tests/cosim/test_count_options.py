"""Counts of any size give the same samples in all forms; errors name invalid counts."""

import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from rigid_scenes import free_bodies
from rigidblocks import RobotPlant, System, planar2, prepare, simulate
from rigidblocks.block.adaptive_methods import ADAPTIVE, method_of
from rigidblocks.cosim.batch_simulation import simulate_batch
from rigidblocks.robot.shapes import Sphere

HUGE = [2**31, 2**32 + 1, sys.maxsize, 2**63, 2**64, 2**64 + 1, 2**70, 10**400]
START = {"tau": [0.0, 0.0]}


def arm(**options):
    system = System()
    system.add("arm", RobotPlant(planar2()), start=START, **options)
    return system


def ball(**options):
    """Return a plant in rigid contact."""
    return free_bodies([Sphere(0.1)], [(0.0, 0.0, 1.0)], **options)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["compiled", "numpy", "fused"])
def test_recording_interval_longer_than_the_run_records_only_the_first_sample(form, tmp_path):
    run = prepare(arm(), 0.01, form=form, every=2**64 + 1)
    assert_array_equal(run.simulate(0.05).time, [0.0])
    for every in HUGE:
        assert_array_equal(simulate(arm(), 0.05, 0.01, form=form, every=every).time, [0.0])
    for every in (5, np.int64(5), np.uint8(5)):
        assert_array_equal(simulate(arm(), 0.05, 0.01, form=form, every=every).time, [0.0, 0.05])
    path = tmp_path / "run.arrow"
    assert len(simulate(arm(), 0.05, 0.01, form=form, every=2**64, save=path).time) == 1


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"extrapolate": 1}, {"iterate": True}], ids=str)
def test_coupled_run_with_a_recording_interval_longer_than_the_run_records_one_sample(options):
    system = arm()
    system.add("other", RobotPlant(planar2()), start=START)
    result = simulate(system, 0.05, 0.01, order="jacobi", every=2**64 + 1, **options)
    assert_array_equal(result.time, [0.0])


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [None, 2])
def test_batch_with_a_recording_interval_longer_than_the_run_records_one_sample(lanes):
    start = {"tau": np.zeros((4, 2))}
    for every in HUGE:
        batch = simulate_batch(
            RobotPlant(planar2()), 0.05, 0.01, start=start, every=every, lanes=lanes
        )
        assert_array_equal(batch.time, [0.0])
        assert np.isfinite(batch["q"]).all()


@pytest.mark.parametrize("count", [2**31, 2**64, 2**64 + 1, 10**400])
def test_count_option_beyond_the_range_of_c_integers_is_rejected(count):
    match = r"max_inner_steps must be at most 2147483647, not"
    for make in (
        lambda n: arm(max_inner_steps=n),
        lambda n: method_of(ADAPTIVE, max_inner_steps=n),
    ):
        with pytest.raises(ValueError, match=match):
            make(count)
    with pytest.raises(ValueError, match=match):
        simulate(arm(), 0.01, 0.01, max_inner_steps=count)
    for option in ("max_sweeps", "max_contacts"):
        with pytest.raises(ValueError, match=rf"{option} must be at most \d+, not"):
            ball(**{option: count})


@pytest.mark.parametrize("count", [1.5, True, "9", np.float64(2.0)])
def test_noninteger_count_option_is_rejected(count):
    for make in (
        lambda n: arm(max_inner_steps=n),
        lambda n: simulate(arm(), 0.01, 0.01, every=n),
        lambda n: ball(max_sweeps=n),
        lambda n: ball(max_contacts=n),
    ):
        with pytest.raises(TypeError, match="must be an integer, not"):
            make(count)


@pytest.mark.slow
def test_largest_allowed_max_inner_steps_option_does_not_change_the_results():
    free = simulate(arm(), 0.05, 0.05)
    bound = simulate(arm(max_inner_steps=2**31 - 1), 0.05, 0.05)
    assert_array_equal(bound["arm.q"], free["arm.q"])
