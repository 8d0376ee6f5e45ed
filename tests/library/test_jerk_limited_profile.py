"""Time-optimal motions with limited jerk: closed forms, limits, and the durations of Ruckig."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rigidblocks import Step, System, simulate
from rigidblocks.library import JerkLimitedProfile
from rigidblocks.library.motion_profiles import Limits, Motion, course_to

T = 1e-3


def random_states(rng, n, excess=1.0):
    """Return states that can keep the velocity limit, their targets and their limits.

    The accelerations are at most `excess` times their limit.
    """
    v_max, a_max, j_max = np.exp(rng.uniform(np.log(0.1), np.log(10.0), (3, n)))
    v, a = rng.uniform(-1, 1, (2, n)) * (v_max, excess * a_max)
    p, target = rng.uniform(-5, 5, (2, n))
    keeps = np.abs(v + a * np.abs(a) / (2 * j_max)) <= v_max
    chosen = [one[keeps] for one in (p, v, a, target, v_max, a_max, j_max)]
    return Motion(*chosen[:3]), chosen[3], Limits(*chosen[4:])


@pytest.mark.parametrize(
    ("distance", "duration"),
    [
        (16.0, 16.0 / 3 + 3 / 4 + 4 / 8),  # reaches all limits: d / v + v / a + a / j
        (2.5, 4 / 8 + np.sqrt((4 / 8) ** 2 + 4 * 2.5 / 4)),  # reaches the acceleration limit
        (0.25, 4 * np.cbrt(0.25 / (2 * 8))),  # reaches neither limit: 4 (d / (2 j))^(1/3)
    ],
)
def test_motion_from_rest_to_rest_has_the_duration_of_the_closed_form(distance, duration):
    limits = Limits(3.0, 4.0, 8.0)
    for target in (distance, -distance):
        course = course_to(Motion(0.0, 0.0, 0.0), target, limits)
        assert course.duration == pytest.approx(duration, rel=1e-13)


def test_jerk_limited_motions_end_at_rest_at_the_target_within_their_limits(rng):
    start, target, limits = random_states(rng, 2000)
    course = course_to(start, target, limits)
    assert_array_equal(course.motion(course.duration * (1 + 1e-9), target).p, target)
    end = course.motion(course.duration * (1 - 1e-14), target)
    assert_allclose(end.p, target, atol=1e-11)
    assert_allclose(end.v, 0.0, atol=1e-10)
    before = start
    for share in np.linspace(0.0, 1.0, 201)[1:]:
        here = course.motion(share * course.duration, target)
        assert np.all(np.abs(here.v) <= limits.v * (1 + 1e-9) + 1e-12)
        assert np.all(np.abs(here.a) <= limits.a * (1 + 1e-9) + 1e-12)
        step = course.duration / 200
        assert np.all(np.abs(here.a - before.a) <= limits.j * step * (1 + 1e-6) + 1e-9)
        before = here


def test_motion_planned_again_from_an_intermediate_state_has_the_remaining_duration(rng):
    """The principle of optimality: each remainder of a time-optimal motion is time-optimal.

    A rounding error d of the position may need a motion of the duration 4 (d / (2 j))^(1/3).
    """
    start, target, limits = random_states(rng, 2000)
    course = course_to(start, target, limits)
    size = np.abs(start.p) + np.abs(target) + limits.v * course.duration
    rounding = 4 * np.cbrt(16 * np.finfo(float).eps * size / (2 * limits.j))
    for share in (0.2, 0.5, 0.9):
        here = course.motion(share * course.duration, target)
        rest = course_to(here, target, limits).duration
        assert np.all(np.abs(rest - (1 - share) * course.duration) <= rounding)


def test_acceleration_above_its_limit_decreases_to_the_limit_with_the_largest_jerk(rng):
    start, target, limits = random_states(rng, 2000, 3.0)
    brake = np.maximum(np.abs(start.a) - limits.a, 0.0) / limits.j
    assert np.sum(brake > 0.0) > 500
    course = course_to(start, target, limits)
    end = course.motion(course.duration * (1 - 1e-14), target)
    assert_allclose(end.p, target, atol=1e-11)
    assert_allclose(end.v, 0.0, atol=1e-10)
    for share in (0.0, 0.3, 1.0):
        here, t = course.motion(share * brake, target), share * brake
        jerk = -np.sign(start.a) * limits.j
        assert_allclose(here.a, start.a + jerk * t, rtol=1e-12, atol=1e-12)
        assert_allclose(here.v, start.v + start.a * t + jerk * t**2 / 2, rtol=1e-9, atol=1e-9)
    step, before = course.duration / 200, start
    for share in np.linspace(0.0, 1.0, 201)[1:]:
        here = course.motion(share * course.duration, target)
        bound = np.maximum(limits.a, np.abs(start.a) - limits.j * share * course.duration)
        assert np.all(np.abs(here.a) <= bound * (1 + 1e-9) + 1e-12)
        assert np.all(np.abs(here.a - before.a) <= limits.j * step * (1 + 1e-6) + 1e-9)
        before = here


def test_profile_satisfies_its_jerk_limit_after_the_acceleration_limit_is_reduced():
    system = System()
    system.add("profile", JerkLimitedProfile(2.0, 4.0, 10.0, sample_time=T), start={"target": 10.0})
    story = {"time": [0.0, 0.35], "profile.curvature_max": [[4.0], [1.0]]}
    result = simulate(system, 9.0, T, scenario=story, progress=False)
    y, bend = (result[f"profile.{name}"][:, 0] for name in ("y", "curvature"))
    k = round(0.35 / T)
    assert bend[k] > 3.0
    assert np.all(np.abs(np.diff(bend)) <= 10.0 * T + 1e-9)
    assert np.all(np.abs(bend[k + round(3.0 / 10.0 / T) + 1 :]) <= 1.0 + 1e-12)
    assert y[-1] == 10.0


@pytest.mark.interop
@pytest.mark.parametrize("excess", [1.0, 3.0])
def test_durations_of_jerk_limited_motions_equal_the_durations_of_ruckig(rng, excess):
    ruckig = pytest.importorskip("ruckig")
    start, target, limits = random_states(rng, 20_000, excess)
    ours = course_to(start, target, limits).duration
    planner, given, found = ruckig.Ruckig(1), ruckig.InputParameter(1), ruckig.Trajectory(1)
    theirs = np.empty(len(ours))
    for k in range(len(ours)):
        given.current_position, given.current_velocity = [start.p[k]], [start.v[k]]
        given.current_acceleration, given.target_position = [start.a[k]], [target[k]]
        given.max_velocity, given.max_acceleration = [limits.v[k]], [limits.a[k]]
        given.max_jerk = [limits.j[k]]
        planner.calculate(given, found)
        theirs[k] = found.duration
    assert_allclose(ours, theirs, rtol=0, atol=1e-9)


@pytest.mark.slow
def test_jerk_limited_profile_moves_to_a_changed_target_within_its_limits():
    system = System()
    system.add("target", Step(0.6, before=(1.0, 2.0), after=(-1.0, 0.5)))
    limits = ((1.0, 2.0), 4.0, (20.0, 40.0))
    system.add("profile", JerkLimitedProfile(*limits, sample_time=T))
    system.connect("target.y", "profile.target")
    result = simulate(system, 4.0, T, progress=False)
    y, slope, bend = (result[f"profile.{name}"] for name in ("y", "slope", "curvature"))
    assert_array_equal(y[0], [0.0, 0.0])
    assert result["profile.remaining"][0, 0] == pytest.approx(1 + 1 / 4 + 4 / 20)
    assert_array_equal(y[-1], [-1.0, 0.5])
    assert_array_equal(result["profile.remaining"][-1], [0.0, 0.0])
    assert np.all(np.abs(slope) <= np.array(limits[0]) + 1e-12)
    assert np.all(np.abs(bend) <= 4.0 + 1e-12)
    assert np.all(np.abs(np.diff(bend, axis=0)) <= np.array(limits[2]) * T + 1e-9)
    assert_allclose(np.diff(y, axis=0), T * (slope[1:] + slope[:-1]) / 2, atol=4e-9)


def test_invalid_limits_of_a_jerk_limited_profile_are_rejected():
    with pytest.raises(ValueError, match="jerk-limited profile needs scalars or arrays of equal"):
        _ = JerkLimitedProfile((1.0, 2.0), (1.0, 2.0, 3.0), 1.0, T).parameters
