"""Laws of force along a length: closed forms, and what no law may do."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks.dynamics.laws import Friction, Law, Spring, Stop
from rigidblocks.library import JointLimits
from rigidblocks.robots import planar2

LAWS = [
    Spring(50.0, 3.0, 0.2, 1.5),
    Friction(2.0, 0.4, 0.05),
    Friction(2.0, 0.4, 0.05, 0.7),
    Stop(300.0, 20.0, -0.4, 0.6),
    Stop(300.0, 20.0, upper=0.6),
]
EXACT = 1e-13  # sums of a few products


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_a_law_never_gives_more_power_than_its_energy_loses(law, rng):
    # f sd + dV/dt <= 0: dV/dt = dV/ds sd, by differences of an energy that is piecewise quadratic
    s, sd, d = rng.uniform(-1, 1, 500), rng.uniform(-2, 2, 500), 1e-6
    slope = np.array([(law.energy(one + d) - law.energy(one - d)) / (2 * d) for one in s])
    assert np.all(law.force(s, sd) * sd + slope * sd <= 1e-6)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_at_rest_the_force_is_the_slope_of_the_energy(law, rng):
    s, d = rng.uniform(-1, 1, 100), 1e-6
    slope = np.array([(law.energy(one + d) - law.energy(one - d)) / (2 * d) for one in s])
    assert_allclose(law.force(s, np.zeros(100)), -slope, atol=1e-6)


def test_a_spring_is_its_formula():
    spring = Spring(K=50.0, D=3.0, rest=0.2, preload=1.5)
    assert_allclose(spring.force(0.7, -2.0), -(50.0 * 0.5 - 3.0 * 2.0 + 1.5), rtol=EXACT)
    assert_allclose(spring.energy(0.7), 50.0 * 0.25 / 2 + 1.5 * 0.5, rtol=EXACT)


def test_friction_backward_is_as_large_as_given():
    friction = Friction(2.0, width=0.01, backward=0.7)
    assert_allclose(friction.force(0.0, np.array([1.0, -1.0])), [-2.0, 0.7], rtol=EXACT)
    assert friction.force(0.0, 0.0) == 0.0


def test_a_stop_pushes_back_and_never_pulls():
    stop = Stop(300.0, 20.0, -0.4, 0.6)
    s, sd = np.array([0.0, 0.7, 0.7, -0.5, -0.5]), np.array([9.0, 1.0, -9.0, -1.0, 9.0])
    assert_allclose(stop.force(s, sd), [0.0, -50.0, 0.0, 50.0, 0.0], rtol=EXACT)


def test_the_block_of_stops_has_the_same_law(rng):
    limits = JointLimits(planar2(), (-0.2, -np.inf), (0.1, 0.3), 200.0, 5.0)
    for q, qd in rng.uniform(-1, 1, (50, 2, 2)):
        stops = Stop(200.0, 5.0, -0.2, 0.1), Stop(200.0, 5.0, upper=0.3)
        expected = [stop.force(s, sd) for stop, s, sd in zip(stops, q, qd, strict=True)]
        u, p = {"q": q, "qd": qd}, {port.name: port.start for port in limits.parameters}
        given = type("Values", (), u), type("Values", (), p)
        assert_allclose(limits.output(*given)["tau"], expected, rtol=EXACT)


BAD = [
    (lambda: Spring(-1.0), "K of a Spring must be finite and at least 0, not -1.0"),
    (lambda: Spring(1.0, D=-2.0), "D of a Spring must be finite and at least 0, not -2.0"),
    (lambda: Spring(1.0, rest=np.nan), "rest of a Spring must be finite, not nan"),
    (lambda: Friction(1.0, width=0.0), "width of a Friction must be positive, not 0.0"),
    (lambda: Friction(1.0, backward=-1.0), "backward of a Friction must be finite and at least 0"),
    (lambda: Stop(1.0, lower=np.nan), "lower of a Stop must be finite, not nan"),
    (
        lambda: Stop(1.0, lower=1.0, upper=0.5),
        "the upper end of a Stop must be above the lower, not 0.5 above 1.0",
    ),
]


@pytest.mark.parametrize(("make", "message"), BAD, ids=[message for _, message in BAD])
def test_numbers_that_no_law_has_are_refused_where_it_is_made(make, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make()


def test_a_law_is_something_that_gives_a_force():
    with pytest.raises(TypeError, match="abstract"):
        Law()
