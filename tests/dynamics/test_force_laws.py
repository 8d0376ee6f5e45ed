"""Force laws f(s, sd) along a length: closed forms and passivity."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks.dynamics.force_laws import Friction, Law, Spring, Stop
from rigidblocks.library import JointLimits
from rigidblocks.robot.robots import planar2

LAWS = [
    Spring(50.0, 3.0, 0.2, 1.5),
    Friction(2.0, 0.4, 0.05),
    Friction(2.0, 0.4, 0.05, 0.7),
    Stop(300.0, 20.0, -0.4, 0.6),
    Stop(300.0, 20.0, upper=0.6),
]
EXACT = 1e-13  # rounding errors of a few products


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_force_elements_with_damping_never_generate_energy(law, rng):
    # f sd + dV/dt <= 0: dV/dt = dV/ds sd, by differences of an energy that is piecewise quadratic
    s, sd, d = rng.uniform(-1, 1, 500), rng.uniform(-2, 2, 500), 1e-6
    slope = np.array([(law.energy(one + d) - law.energy(one - d)) / (2 * d) for one in s])
    assert np.all(law.force(s, sd) * sd + slope * sd <= 1e-6)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_element_force_at_zero_velocity_is_minus_the_gradient_of_its_energy(law, rng):
    s, d = rng.uniform(-1, 1, 100), 1e-6
    slope = np.array([(law.energy(one + d) - law.energy(one - d)) / (2 * d) for one in s])
    assert_allclose(law.force(s, np.zeros(100)), -slope, atol=1e-6)


def test_spring_force_and_energy_equal_their_closed_forms():
    spring = Spring(K=50.0, D=3.0, rest=0.2, preload=1.5)
    assert_allclose(spring.force(0.7, -2.0), -(50.0 * 0.5 - 3.0 * 2.0 + 1.5), rtol=EXACT)
    assert_allclose(spring.energy(0.7), 50.0 * 0.25 / 2 + 1.5 * 0.5, rtol=EXACT)


def test_friction_force_depends_on_the_sliding_direction():
    friction = Friction(2.0, width=0.01, backward=0.7)
    assert_allclose(friction.force(0.0, np.array([1.0, -1.0])), [-2.0, 0.7], rtol=EXACT)
    assert friction.force(0.0, 0.0) == 0.0


def test_joint_stop_pushes_back_and_never_pulls():
    stop = Stop(300.0, 20.0, -0.4, 0.6)
    s, sd = np.array([0.0, 0.7, 0.7, -0.5, -0.5]), np.array([9.0, 1.0, -9.0, -1.0, 9.0])
    assert_allclose(stop.force(s, sd), [0.0, -50.0, 0.0, 50.0, 0.0], rtol=EXACT)


def test_joint_limits_block_and_stop_force_element_give_the_same_force(rng):
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
        "the upper limit of a Stop must be above the lower limit, but they are 0.5 and 1.0",
    ),
]


@pytest.mark.parametrize(("make", "message"), BAD, ids=[message for _, message in BAD])
def test_invalid_parameters_of_force_elements_are_rejected_at_construction(make, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make()


def test_force_law_class_without_a_force_method_cannot_be_instantiated():
    with pytest.raises(TypeError, match="abstract"):
        Law()
