"""Event-driven runs in rigid contact: the motion does not depend on the recorded samples."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks import Model, Prismatic, SixDoF
from rigidblocks.block.adaptive_methods import STIFF
from rigidblocks.contact import Sphere, plane_contacts, sphere_contacts
from rigidblocks.cosim.contact_events import simulate_contact
from rigidblocks.spatial.spatial import identity, mcI

G = 9.81
R = 0.1
TOLERANCE = 1e-8  # ten times rtol, over about a dozen steps


def ball():
    inertia = mcI(1.0, np.zeros(3), 0.4 * R * R * np.eye(3))
    return Model("ball", (-1,), (SixDoF(),), (identity(),), (inertia,), contact=((Sphere(R),),))


def two_on_a_rail(radii=(0.01, 0.02)):
    inertia = mcI(1.0, np.zeros(3), np.eye(3))
    rails = (Prismatic((1.0, 0.0, 0.0)),) * 2
    shapes = tuple((Sphere(r),) for r in radii)
    return Model("two", (-1, -1), rails, (identity(),) * 2, (inertia,) * 2, contact=shapes)


@pytest.mark.slow
@pytest.mark.parametrize("dt", [0.1, 0.001, 0.5])
@pytest.mark.parametrize("w", [(0.0, 0.0, 0.0), (2.0, 1.0, 3.0)])
def test_slipping_ball_reaches_its_closed_form_rolling_speed_for_any_sample_spacing(dt, w):
    # rolling speed: 5/7 of v plus 2/7 of the rolling velocity; the normal spin is constant
    v, mu = np.array([0.6, -0.5, 0.0]), 0.3
    model = ball()
    contacts = partial(plane_contacts, model, mu=mu)
    run = simulate_contact(model, contacts, [1, 0, 0, 0, 0, 0, R], [*w, *v], 0.5, dt)
    rolling = R * np.cross(w, [0.0, 0.0, 1.0])
    speed = np.linalg.norm(5 / 7 * v + 2 / 7 * rolling)
    assert [event.kind for event in run.events] == ["stick"]
    slip = np.linalg.norm(v - rolling)
    assert_allclose(run.events[0].t, 2 / 7 * slip / (mu * G), rtol=TOLERANCE)
    assert_allclose(np.linalg.norm(run["qd"][-1, 3:]), speed, rtol=TOLERANCE)


@pytest.mark.parametrize("e", [0.0, 0.5, 1.0])
def test_collision_of_a_fast_ball_between_two_recorded_samples_is_detected(e):
    # without the event, the ball would be 50 m past the other ball at the next row
    model = two_on_a_rail()
    contacts = partial(sphere_contacts, model, pairs=[(0, 1)])
    run = simulate_contact(model, contacts, [0.0, 50.003], [100.0, 0.0], 1.0, 1.0, e=e)
    assert_allclose(run.times("impact"), [(50.003 - 0.03) / 100.0], rtol=1e-12)
    assert_allclose(run["qd"][-1], [50.0 * (1 - e), 50.0 * (1 + e)], rtol=1e-12)


def test_crossing_balls_collide_only_if_their_distance_is_below_the_sum_of_radii():
    inertia = mcI(1.0, np.zeros(3), np.eye(3))
    model = Model("two", (-1, 0), (Prismatic((1.0, 0.0, 0.0)), Prismatic((0.0, 1.0, 0.0))),
                  (identity(),) * 2, (inertia,) * 2,
                  contact=((Sphere(1e-3),), (Sphere(1e-3),)))  # fmt: skip
    contacts = partial(sphere_contacts, model, pairs=[(0, 1)])
    for beside, kinds in ((2.1e-3, []), (1.9e-3, ["impact"])):
        # the second ball crosses the path of its parent, which stays at height zero
        start = [0.0, -1.0 if kinds else beside]
        run = simulate_contact(model, contacts, start, [0.0, 10.0], 0.5, 0.5, e=1.0)
        assert [event.kind for event in run.events] == kinds


def test_implicit_method_is_rejected_for_contact_events():
    model = ball()
    start = (partial(plane_contacts, model), [1, 0, 0, 0, 0, 0, 1.0], np.zeros(6), 0.1, 0.1)
    reported = "an explicit method, not 'stiff'; use 'adaptive'"
    with pytest.raises(ValueError, match=reported):
        simulate_contact(model, *start, method=STIFF)
    with pytest.raises(ValueError, match="takes fixed steps and does not support rtol"):
        simulate_contact(model, *start, method="rk4", rtol=1e-6)
