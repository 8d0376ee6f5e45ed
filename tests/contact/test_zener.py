"""Zener element (RBDA 11.8): a spring in series with a spring-damper."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp

from rigidblocks.contact import zener_force
from rigidblocks.contact.compliant_contact import normal_force, surface_rate

K, D, K_S = 2e3, 30.0, 5e3
RTOL = 1e-7  # error of the integration


def relaxation(p, t):
    """Return the force on a body that is placed at p <= 0 at t = 0 and does not move."""

    def rate(_, y):
        return surface_rate(y, zener_force(p, y, K_S), K, D)

    solution = solve_ivp(rate, (0, t[-1]), [0.0], t_eval=t, rtol=1e-10, atol=1e-14)
    return zener_force(p, solution.y[0], K_S)


def test_relaxation_of_the_zener_force_on_a_fixed_body_matches_the_analytic_solution():
    # stiffness K_s at t = 0 and K K_s / (K + K_s) at the end, with time constant D / (K + K_s)
    p, t = -0.01, np.linspace(0, 0.02, 20)
    final = K * K_S / (K + K_S)
    expected = -p * (final + (K_S - final) * np.exp(-t * (K + K_S) / D))
    assert_allclose(relaxation(p, t), expected, rtol=RTOL)


def test_zener_force_is_continuous_at_touchdown_and_never_pulls():
    assert zener_force(0.0, 0.0, K_S) == 0
    assert zener_force(1e-3, -1e-3, K_S) == 0
    assert zener_force(-1e-12, 0.0, K_S) == pytest.approx(0, abs=1e-8)


def test_relaxation_of_a_free_zener_surface_matches_rbda_eq_11_73():
    y = -0.004
    assert surface_rate(y, zener_force(0.0, y, K_S), K, D) == -K * y / D  # RBDA Eq 11.73


@pytest.mark.parametrize("stiff", [1e6, 1e8])
def test_zener_element_with_a_stiff_series_spring_approximates_a_spring_damper(stiff):
    # a body moves down at constant speed: y -> p, and f_n -> -(K p + D dp/dt)
    speed, t = -0.3, 0.02

    def rate(s, y):
        return surface_rate(y, zener_force(speed * s, y, stiff), K, D)

    y = solve_ivp(rate, (0, t), [0.0], method="Radau", rtol=1e-10, atol=1e-14).y[0, -1]
    expected = normal_force(speed * t, speed, speed * t, K, D)
    assert_allclose(zener_force(speed * t, y, stiff), expected, rtol=2 * K / stiff + 1e-6)


def test_bouncing_body_on_a_zener_element_loses_energy():
    m, v0 = 0.5, -1.0

    def rate(_, s):
        p, v, y = s
        f = zener_force(p, y, K_S)
        return [v, f / m, surface_rate(y, f, K, D)]

    def leaves(_, s):
        return s[2] - s[0] + 1e-12

    leaves.terminal, leaves.direction = True, -1
    run = solve_ivp(
        rate, (0, 1), [0.0, v0, 0.0], events=leaves, rtol=1e-10, atol=1e-13, max_step=1e-4
    )
    p, v, y = run.y
    stored = m * v**2 / 2 + K * y**2 / 2 + K_S * np.minimum(p - y, 0) ** 2 / 2
    assert run.status == 1
    assert np.all(np.diff(stored) <= 1e-9)
    assert 0.1 < -v[-1] / v0 < 0.95
