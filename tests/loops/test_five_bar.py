"""Motion of the five-bar mechanism of Spencer 2004, 3.2, through singular configurations.

The thesis gives a period of 2.82 s for the first example. The samples, the times of the singular
passages and the energy errors come from an independent computation of the null space by singular
values.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.optimize import brentq

from mechanism_runs import plant_run
from rigidblocks.block.adaptive_methods import ADAPTIVE
from rigidblocks.dynamics import crba, energy
from rigidblocks.dynamics.loops import loop_constraints
from rigidblocks.robot.robots import five_bar

PRINTED = 1e-5  # the samples have five decimals
SINGULAR_START = (
    5e-4  # error of the first step from a singular configuration; it depends on the method
)
STEP = 1e-3  # s


@pytest.fixture(scope="module")
def flat():
    """Simulate the first example, which starts at rest with collinear links."""
    return plant_run(five_bar(np.pi, 0.0), 5.0, STEP, method=ADAPTIVE)


@pytest.fixture(scope="module")
def upright():
    """Simulate the second example, which starts at rest with the apex up."""
    return plant_run(five_bar(), 5.0, STEP)


def absolute(q):
    """Return the absolute link angles th1 .. th4 (..., 4) of the thesis."""
    q = q.T
    return np.array([q[0], q[0] + q[1], q[2] + q[3] - np.pi, q[2] - np.pi]).T


def wrap_angle(angle):
    """Wrap an angle to half a turn in both directions."""
    return (angle + np.pi) % (2 * np.pi) - np.pi


def energy_error(y):
    """Return the largest energy error up to each time [J]."""
    return np.maximum.accumulate(np.abs(y["energy"] - y["energy"][0]))


def symmetric(th):
    """Return q and dq/dth of the symmetric configuration with the apex down.

    th is the angle of the lower left link.
    """
    upper = -np.arccos((0.5 - np.cos(th)) / 1.5)
    rate = -np.sin(th) / (1.5 * np.sin(upper))
    return np.array([th, upper - th, np.pi - th, th - upper]), np.array(
        [1.0, rate - 1.0, -1.0, 1.0 - rate]
    )


def return_time():
    """Return the period of the symmetric motion that starts at rest with collinear links.

    The period is twice the integral of dth/th' between the two rest positions.
    """
    model, zero = five_bar().model, np.zeros(4)

    def slowness(th):
        q, G = symmetric(th)
        return np.sqrt(G @ crba(model, q) @ G / (-2 * energy(model, q, zero)))

    middle, end = (
        5.0,
        brentq(lambda th: energy(model, symmetric(th)[0], zero), 6.3, 7.5, xtol=1e-14),
    )
    fall = quad(lambda s: 2 * s * slowness(np.pi + s * s), 0, np.sqrt(middle - np.pi))[0]
    rise = quad(lambda s: 2 * s * slowness(end - s * s), 0, np.sqrt(end - middle))[0]
    return 2 * (fall + rise), end


# the first example


@pytest.mark.slow
def test_period_of_a_planar_five_bar_matches_the_energy_quadrature(flat):
    t, y = flat
    expected, end = return_time()
    later = (t > 2.0) & (t < 3.5)
    back = t[later][np.argmin(np.abs(y["q"][later, 0] - np.pi))]
    assert abs(expected - 2.82) < 0.02
    assert abs(back - expected) < 2 * STEP
    assert_allclose(y["q"][t < 2.5, 0].max(), end, atol=1e-5)


@pytest.mark.slow
def test_motion_of_the_five_bar_from_its_flat_pose_matches_the_reference_samples(flat):
    _, y = flat
    samples = {
        500: ((3.84485, -0.57014, 0.57014, 2.43834), (3.07136, -2.45332, 2.45332, -3.07136)),
        1000: ((6.17166, -1.90624, 1.90624, 0.11153), None),
    }
    for row, (th, w) in samples.items():
        assert_allclose(wrap_angle(absolute(y["q"][row]) - th), 0.0, atol=SINGULAR_START)
        if w:
            assert_allclose(
                np.diff(absolute(np.array([0 * y["qd"][row], y["qd"][row]])), axis=0)[0],
                w,
                atol=2e-3,
            )


@pytest.mark.slow
def test_constraint_rank_of_the_five_bar_is_one_in_its_flat_pose_and_two_afterwards(flat):
    t, y = flat
    assert y["rank"][0] == 1
    assert set(y["rank"][(t > 0) & (t < 2.8)]) == {2}
    assert energy_error(y)[-1] < 1e-3
    assert y["loop_error"].max() < 1e-12


# the second example


@pytest.mark.slow
def test_motion_of_the_five_bar_from_its_upright_pose_matches_the_reference_samples(upright):
    _, y = upright
    assert_allclose(y["energy"][0], 100.8694, atol=5e-5)
    for row, q, qd in ((500, 2.73116, 2.39441), (1000, 4.90235, 8.39103)):
        assert_allclose([y["q"][row, 0], y["qd"][row, 0]], [q, qd], atol=PRINTED)
    assert_allclose(y["q"][2000, 0], 10.2988, atol=5e-5)
    assert_allclose(y["q"][3000, 0], 13.331, atol=5e-4)


@pytest.mark.slow
def test_five_bar_falls_through_three_singular_configurations_at_the_reference_times(upright):
    t, y = upright
    c = y["condition"]
    peaks = t[1:-1][(c[1:-1] > c[:-2]) & (c[1:-1] >= c[2:]) & (c[1:-1] > 100)]
    assert_allclose(peaks, [0.651, 1.854, 3.910], atol=1.5 * STEP)


@pytest.mark.slow
def test_five_bar_with_projection_conserves_energy_at_singular_configurations(upright):
    _, y = upright
    assert energy_error(y)[-1] < 1e-2
    assert y["loop_error"].max() < 1e-12


@pytest.mark.slow
def test_relative_energy_error_of_the_five_bar_for_a_short_step_is_below_1e_6():
    _, y = plant_run(five_bar(), 0.65, 1e-4)
    assert energy_error(y)[-1] < 1e-6 * y["energy"][0]


def test_loop_constraint_forces_of_the_five_bar_do_no_work(upright):
    _, y = upright
    model = five_bar().model
    for q, qd, lam in zip(y["q"][::25], y["qd"][::25], y["lam"][::25], strict=True):
        K = loop_constraints(model, q, qd).K
        assert abs(lam @ K @ qd) <= 1e-12 * (np.abs(lam) @ np.abs(K) @ np.abs(qd)) + 1e-15


# other stabilization methods


@pytest.mark.slow
def test_five_bar_without_stabilization_opens_at_the_third_singular_configuration(upright):
    t, y = plant_run(five_bar(), 5.0, STEP, stabilization="none")
    error = energy_error(y)
    assert y["loop_error"].max() > 1e-4
    assert error[t < 3.5].max() < 0.05
    assert error[-1] > 100 * energy_error(upright[1])[-1]


@pytest.mark.slow
def test_baumgarte_stabilization_has_a_larger_energy_error_than_projection(upright):
    t, y = plant_run(five_bar(), 5.0, STEP, stabilization="baumgarte", T_stab=0.1)
    error = energy_error(y)
    assert error[t < 3.5].max() < 1e-4
    assert error[-1] > 100 * energy_error(upright[1])[-1]
    assert 1e-9 < y["loop_error"].max() < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    "option", [{}, {"stabilization": "none"}, {"stabilization": "baumgarte", "T_stab": 0.1}]
)
def test_energy_error_of_the_five_bar_before_the_first_singularity_is_of_fourth_order(option):
    errors = [energy_error(plant_run(five_bar(), 0.6, h, **option)[1])[-1] for h in (1e-2, 5e-3)]
    assert errors[0] > 14 * errors[1] > 0
