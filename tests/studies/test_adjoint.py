"""Gradients of runs by the adjoint method, compared with the variational equations."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks import ClosedLoopPlant, PDController, RobotPlant, System, planar2, simulate
from rigidblocks.cosim.graph.variational_system import StartElement, add_sensitivities
from rigidblocks.library import Integrator
from rigidblocks.robot.robots import five_bar
from rigidblocks.studies.adjoint import prepare_adjoint


def robot_with_controller():
    """Return an arm with 5 inner steps in a communication step, and a sampled controller."""
    system = System()
    system.add("robot", RobotPlant(planar2(), q0=[0.3, -0.2]), method="rk4", h=2e-3)
    gains = {"kp": [30.0, 20.0], "kd": [3.0, 2.0]}
    system.add("pd", PDController(**gains, sample_time=0.01), start={"q_ref": [0.5, 0.1]})
    system.connect("robot.q", "pd.q")
    system.connect("pd.tau", "robot.tau")
    return system


def closed_loop():
    """Return a five-bar linkage, whose states are projected after each inner step."""
    linkage = five_bar()
    system = System()
    plant = ClosedLoopPlant(linkage.model, linkage.q0, linkage.qd0)
    system.add("linkage", plant, method="rk4", h=1e-2)
    return system


def by_variational_equations(system, adjoint, ports, weights, t_stop, dt):
    """Return the gradient from the variational equations, without the inputs that change."""
    numbers = []
    for name in adjoint.names:
        part, _, element = name.partition(".")
        port, _, place = element.partition("[")
        numbers.append(StartElement(part, port, int(place.rstrip("]") or 1) - 1))
    run = simulate(add_sensitivities(system.wiring(), numbers, ports), t_stop, dt)
    tables = [run[f"{port}.sensitivity"].reshape(len(run.time), -1, len(numbers)) for port in ports]
    return np.einsum("km,kmn->n", weights, np.concatenate(tables, axis=1))


def check(system, parameters, ports, t_stop, dt):
    adjoint = prepare_adjoint(system, t_stop, dt, parameters=parameters, outputs=ports)
    y, run = adjoint.run(), simulate(system, t_stop, dt)
    expected = [run[port].reshape(len(y), -1) for port in ports]
    assert_allclose(y, np.concatenate(expected, axis=1), rtol=1e-12, atol=1e-12)
    weights = np.random.default_rng(1).normal(size=y.shape)
    slopes = by_variational_equations(system, adjoint, ports, weights, t_stop, dt)
    gradient = adjoint.gradient(weights).parameters
    assert np.abs(gradient - slopes).max() <= 1e-9 * np.abs(slopes).max()


def test_gradient_of_a_sampled_control_loop_equals_the_solution_of_the_variational_equations():
    parameters = ["robot.q", "robot.qd", "robot.gravity", "pd.kp", "pd.kd", "pd.q_ref"]
    check(robot_with_controller(), parameters, ["robot.q", "robot.qd", "pd.tau"], 0.5, 0.01)


@pytest.mark.slow
def test_gradient_of_a_closed_loop_equals_the_solution_of_the_variational_equations():
    check(closed_loop(), ["linkage.q", "linkage.qd"], ["linkage.q", "linkage.qd"], 0.2, 0.02)


def test_gradient_of_an_integrator_output_is_the_step_size_for_each_input():
    """y_n = y_0 + dt sum u_k, so dy_n/du_k = dt and dy_n/dy_0 = 1."""
    system = System()
    system.add("sum", Integrator(), start={"u": 0.0})
    adjoint = prepare_adjoint(
        system, 1.0, 0.125, parameters=["sum.y"], outputs=["sum.y"], inputs=["sum.u"]
    )
    u = np.arange(8.0)[:, None]
    y = adjoint.run([2.0], u)
    assert_allclose(y[:, 0], 2.0 + 0.125 * np.concatenate([[0.0], np.cumsum(u)]), rtol=1e-12)
    weights = np.zeros((9, 1))
    weights[-1], weights[3] = 1.0, 10.0
    gradient = adjoint.gradient(weights)
    assert_allclose(gradient.parameters, [11.0], rtol=1e-12)
    assert_allclose(gradient.inputs[:, 0], 0.125 * np.array([11.0] * 3 + [1.0] * 5), rtol=1e-12)


def test_gradient_with_respect_to_time_varying_torques_equals_difference_quotients():
    system = System()
    system.add("robot", RobotPlant(planar2()), method="rk4", h=1e-2)
    adjoint = prepare_adjoint(
        system, 0.3, 0.01, parameters=[], outputs=["robot.q"], inputs=["robot.tau"]
    )
    rng = np.random.default_rng(4)
    u, du, weights = rng.normal(size=(30, 2)), rng.normal(size=(30, 2)), rng.normal(size=(31, 2))
    adjoint.run([], u)
    slope = np.sum(adjoint.gradient(weights).inputs * du)
    ends = [np.sum(weights * adjoint.run([], u + step * du)) for step in (1e-4, -1e-4)]
    assert_allclose(slope, (ends[0] - ends[1]) / 2e-4, rtol=1e-7)


def test_gradient_with_respect_to_many_parameters_needs_one_reverse_run():
    """The gradient with respect to 600 torques has as many rows as the run has steps."""
    system = System()
    system.add("robot", RobotPlant(planar2()), method="rk4", h=1e-2)
    adjoint = prepare_adjoint(
        system, 3.0, 0.01, parameters=["robot.q"], outputs=["robot.q"], inputs=["robot.tau"]
    )
    y = adjoint.run(inputs=np.zeros((300, 2)))
    weights = np.zeros_like(y)
    weights[-1] = 1.0
    assert adjoint.gradient(weights).inputs.shape == (300, 2)


def test_adjoint_method_rejects_an_adaptive_part_by_name():
    system = System()
    system.add("robot", RobotPlant(planar2()), method="adaptive")
    with pytest.raises(ValueError, match="fixed steps and traceable blocks; 'robot' has an adapt"):
        prepare_adjoint(system, 1.0, 0.01, parameters=["robot.q"], outputs=["robot.q"])


def test_adjoint_method_rejects_wrong_names_shapes_and_values():
    system = robot_with_controller()
    options = {"parameters": ["robot.q"], "outputs": ["robot.q"]}
    with pytest.raises(KeyError, match=r"the system has no parameter 'robot\.mass'"):
        prepare_adjoint(system, 1.0, 0.01, **{**options, "parameters": ["robot.mass"]})
    with pytest.raises(KeyError, match=r"the system has no output 'robot\.x'"):
        prepare_adjoint(system, 1.0, 0.01, **{**options, "outputs": ["robot.x"]})
    for t_stop, dt in ((1.0, 0.3), (1.0, 0.0), (1.0, -0.1), (1.0, np.nan), (np.inf, 0.1)):
        with pytest.raises(ValueError, match="must consist of one or more communication steps"):
            prepare_adjoint(system, t_stop, dt, **options)
    adjoint = prepare_adjoint(system, 0.1, 0.01, **options)
    with pytest.raises(RuntimeError, match="call the method run"):
        adjoint.gradient(np.zeros((11, 2)))
    with pytest.raises(TypeError, match=r"the parameters must be an array \(2,\) in the order"):
        adjoint.run({"robot.q": [0.0, 0.0]})
    with pytest.raises(ValueError, match=r"the parameters have the shape \(3,\); expected \(2,\)"):
        adjoint.run([0.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="the parameters must be finite"):
        adjoint.run([np.nan, 0.0])


@pytest.mark.slow
def test_gradient_is_rejected_after_a_rejected_adjoint_run():
    """The gradient must not mix the states of one run with the inputs of another run."""
    system = System()
    system.add("sum", Integrator(), start={"u": 0.0})
    adjoint = prepare_adjoint(
        system, 1.0, 0.5, parameters=["sum.y"], outputs=["sum.y"], inputs=["sum.u"]
    )
    adjoint.run([2.0], [[1.0], [2.0]])
    with pytest.raises(ValueError, match="the inputs have the shape"):
        adjoint.run([3.0], [[1.0]])
    with pytest.raises(RuntimeError, match="call the method run"):
        adjoint.gradient(np.ones((3, 1)))


def test_nonfinite_run_of_the_adjoint_method_is_reported_with_its_time():
    system = System()
    system.add("sum", Integrator(), start={"u": 0.0})
    adjoint = prepare_adjoint(
        system, 1.0, 0.25, parameters=["sum.y"], outputs=["sum.y"], inputs=["sum.u"]
    )
    with pytest.raises(ArithmeticError, match="not finite at t = "):
        adjoint.run([1.7e308], np.full((4, 1), 1.7e308))
