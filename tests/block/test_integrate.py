"""Integrators have their declared order, and divide communication steps into inner steps."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from rigidblocks.block.integrators import (
    EULER,
    INTEGRATORS,
    SEMI_IMPLICIT_EULER,
    integrate,
    integrate_implicitly,
)
from rigidblocks.block.stepper import inner_steps

# for order 5 rounding limits the range of step sizes, so that its tolerance is twice as large
ORDER = 0.1  # tolerance of the fitted slope of log error over log step
PENDULUM_POSITION = np.array([True, False])
EXPLICIT = [method for method in INTEGRATORS.values() if method.implicit is None]


def pendulum(t, x):
    del t
    return np.array([x[1], -9.81 * np.sin(x[0])])


def pendulum_slopes(t, x):
    del t
    return np.array([[0.0, 1.0], [-9.81 * np.cos(x[0]), 0.0]]), np.zeros(2)


def driven(t, x):
    return np.array([x[0] * np.cos(t)])  # x = exp(sin t)


def driven_slopes(t, x):
    return np.array([[np.cos(t)]]), np.array([-x[0] * np.sin(t)])


SLOPES = {pendulum: pendulum_slopes, driven: driven_slopes}


def end(method, derivative, x0, t_stop, n, position):
    h, x = t_stop / n, np.array(x0)
    for k in range(n):
        if method.implicit is None:
            x = integrate(method, derivative, k * h, x, h, position)
        else:
            x = integrate_implicitly(method, derivative, SLOPES[derivative], k * h, x, h)
    return x


def fitted_order(error, method):
    first = {1: 512, 2: 512, 3: 32, 4: 32, 5: 48}[method.order]
    counts = first * (np.array([1, 2, 4, 8]) if method.order < 5 else np.array([1, 1.5, 2, 2.5]))
    return -np.polyfit(np.log(counts), np.log([error(int(n)) for n in counts]), 1)[0]


@pytest.mark.parametrize("method", INTEGRATORS.values(), ids=lambda method: method.name)
def test_integration_error_of_a_pendulum_decreases_at_the_declared_order(method):
    x0, t_stop = [1.2, -0.5], 1.0
    exact = solve_ivp(pendulum, (0, t_stop), x0, "DOP853", rtol=1e-13, atol=1e-14).y[:, -1]

    def error(n):
        return np.linalg.norm(end(method, pendulum, x0, t_stop, n, PENDULUM_POSITION) - exact)

    assert abs(fitted_order(error, method) - method.order) < ORDER * (1 + (method.order == 5))


@pytest.mark.parametrize("method", INTEGRATORS.values(), ids=lambda method: method.name)
def test_integration_error_of_a_time_dependent_problem_decreases_at_the_declared_order(method):
    def error(n):
        return abs(end(method, driven, [1.0], 1.0, n, np.array([False]))[0] - np.exp(np.sin(1.0)))

    assert abs(fitted_order(error, method) - method.order) < ORDER * (1 + (method.order == 5))


@pytest.mark.parametrize("method", EXPLICIT, ids=lambda method: method.name)
def test_explicit_butcher_tableau_is_lower_triangular_and_consistent(method):
    for a, b in ((method.a, method.b), method.position_tableau):
        assert sum(b) == pytest.approx(1, rel=1e-15)
        assert len(a) == len(b) == len(method.c) == method.stages
        assert [len(row) for row in a] == list(range(method.stages))
    assert [sum(row) for row in method.a] == pytest.approx(list(method.c), rel=1e-15)


def test_integrators_are_registered_under_their_names():
    explicit = {"euler", "semi-implicit euler", "heun", "rk4", "dormand-prince"}
    assert {method.name for method in EXPLICIT} == explicit
    implicit = {"linearly implicit euler", "ros2", "rodas3", "rodas4p"}
    assert set(INTEGRATORS) == explicit | implicit
    assert all(name == method.name for name, method in INTEGRATORS.items())


def energies(method, n, h):
    x, result = np.array([1.0, 0.0]), []
    for k in range(n):
        x = integrate(method, pendulum, k * h, x, h, PENDULUM_POSITION)
        result.append(x[1] ** 2 / 2 - 9.81 * np.cos(x[0]))
    return np.array(result) + 9.81 * np.cos(1.0)


@pytest.mark.slow
def test_energy_error_grows_with_euler_but_is_bounded_with_semi_implicit_euler():
    # about a hundred swings: the energy error of a symplectic method oscillates with amplitude
    # O(h), that of an explicit method accumulates
    n, h = 20_000, 0.01
    symplectic, explicit = energies(SEMI_IMPLICIT_EULER, n, h), energies(EULER, n, h)
    depth = 9.81 * (1 - np.cos(1.0))
    assert np.max(np.abs(symplectic)) < 0.05 * depth
    assert np.max(np.abs(symplectic[n // 2 :])) < 1.05 * np.max(np.abs(symplectic[: n // 2]))
    assert explicit[n // 10] > depth


def test_semi_implicit_euler_integrates_positions_with_the_new_velocities():
    h, x = 0.1, np.array([0.7, 0.3])
    velocity = x[1] - h * 9.81 * np.sin(x[0])
    expected = [x[0] + h * velocity, velocity]
    np.testing.assert_allclose(
        integrate(SEMI_IMPLICIT_EULER, pendulum, 0.0, x, h, PENDULUM_POSITION), expected, rtol=1e-15
    )


@pytest.mark.parametrize(
    ("dt", "h", "n"),
    [
        (1e-3, 1e-3, 1),
        (1e-3, 1.0, 1),
        (1e-3, 1e-4, 10),
        (0.3, 0.1, 3),
        (1e-3, 0.7e-3, 2),
        (0.1, 1e-3, 100),
    ],
)
def test_inner_steps_divide_the_communication_step_and_are_not_longer_than_h(dt, h, n):
    assert inner_steps(dt, h) == n
    assert dt / n <= h * (1 + 1e-9)
