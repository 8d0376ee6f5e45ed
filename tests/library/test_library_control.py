"""Model-based controllers: tracking errors, rest and limits."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from library_blocks import FLOATING
from library_runs import outputs
from random_models import MODELS, random_state
from rigidblocks.cosim.graph.system import System
from rigidblocks.cosim.simulate import simulate
from rigidblocks.dynamics import aba, bias_force, crba, potential_energy
from rigidblocks.dynamics.drives import Drive
from rigidblocks.dynamics.motors import TorqueMotor
from rigidblocks.library import (
    Encoder,
    GravityCompensation,
    InverseDynamicsController,
    RobotPlant,
    Sine,
    TrapezoidalProfile,
)
from rigidblocks.robot.configuration import integrate, random_configuration
from rigidblocks.robot.robots import planar2

# rounding of an inverse and a forward dynamics, whose matrix has a condition number of some 100
RTOL = 1e-11
SIX = ("six-axis", "branched", "mixed")


@pytest.mark.parametrize("name", SIX)
def test_tracking_error_of_computed_torque_satisfies_the_linear_error_equation(name, rng):
    # aba(rnea(a)) = a: d2e/dt2 + kd de/dt + kp e = 0 in every state
    model, kp, kd = (
        MODELS[name](),
        rng.uniform(1, 100, MODELS[name]().nv),
        rng.uniform(1, 20, MODELS[name]().nv),
    )
    block = InverseDynamicsController(model, kp, kd)
    for _ in range(5):
        s, ref = random_state(rng, model), random_state(rng, model)
        tau = outputs(block, q_ref=ref.q, qd_ref=ref.qd, qdd_ref=ref.qdd, q=s.q, qd=s.qd)["tau"]
        qdd = aba(model, s.q, s.qd, tau)
        error = (ref.qdd - qdd) + kd * (ref.qd - s.qd) + kp * (ref.q - s.q)
        scale = (
            np.abs(ref.qdd).max()
            + np.abs(kd * (ref.qd - s.qd)).max()
            + np.abs(kp * (ref.q - s.q)).max()
        )
        assert_allclose(error / scale, 0.0, atol=RTOL * np.linalg.cond(crba(model, s.q)) / 100)


def following_a_sine(w, e0):
    """Return a two-link robot with computed torque and the initial error e0 (2,), at rest."""
    model = planar2().with_gravity((0.0, -9.81, 0.0))
    qd0 = 2 * np.pi * np.array([0.4, 0.6]) * (0.5, 1.0)
    system = System()
    system.add("command", Sine(amplitude=(0.4, 0.6), frequency=(0.5, 1.0)))
    system.add("controller", InverseDynamicsController(model, w**2, 2 * w))
    system.add("robot", RobotPlant(model, q0=-e0, qd0=qd0))
    for source, target in (
        ("command.y", "q_ref"),
        ("command.slope", "qd_ref"),
        ("robot.q", "q"),
        ("robot.qd", "qd"),
    ):
        system.connect(source, f"controller.{target}")
    system.connect("controller.tau", "robot.tau")
    return system


@pytest.mark.slow
def test_tracking_error_of_computed_torque_matches_the_analytic_solution():
    # the error is critically damped: e = e0 (1 + w t) exp(-w t); the held controller output adds
    # an error of O(dt)
    w, e0, dt = 10.0, np.array([0.5, -0.8]), 1e-4
    system = following_a_sine(w, e0)
    result = simulate(system, 1.0, dt, form="fused", progress=False)
    t, e = result.time[:, None], result["command.y"] - result["robot.q"]
    # without qdd_ref the acceleration of the sine excites the error; this is the linear response
    # of the error equation
    amplitude, omega = np.array([0.4, 0.6]), 2 * np.pi * np.array([0.5, 1.0])
    response = -amplitude * omega**2 / (w + 1j * omega) ** 2
    particular = np.imag(response * np.exp(1j * omega * t))
    c, rate = e0 - np.imag(response), 0.0 - np.imag(response * 1j * omega)
    expected = particular + (c + (rate + w * c) * t) * np.exp(-w * t)
    assert_allclose(e, expected, atol=2e-3)
    finer = _error_of_held_output(system, expected[:: len(t) - 1], 5e-5)
    assert (
        finer < 0.6 * np.abs(e - expected)[-1].max()
    )  # first order: half the step, half the error


def _error_of_held_output(system, expected, dt):
    result = simulate(system, 1.0, dt, form="fused", progress=False)
    return np.abs((result["command.y"] - result["robot.q"])[-1] - expected[-1]).max()


def test_computed_torque_rotates_a_quaternion_along_the_shortest_path(rng):
    # at rest, with the rotation e from q to q_ref, the joint acceleration is kp e
    model = FLOATING
    q, e = random_configuration(model, rng), 0.3 * rng.normal(size=model.nv)
    block, still = InverseDynamicsController(model, 4.0, 1.0), np.zeros(model.nv)
    tau = outputs(block, q=q, q_ref=integrate(model, q, e), qd=still)["tau"]
    qdd = aba(model, q, still, tau)
    assert_allclose(qdd, 4.0 * e, atol=RTOL * np.linalg.cond(crba(model, q)))


@pytest.mark.parametrize("name", SIX)
def test_gravity_compensation_equals_the_gradient_of_the_potential_energy(name, rng):
    model, step = MODELS[name](), 1e-5
    q = random_state(rng, model).q
    tau = outputs(GravityCompensation(model), q=q)["tau"]
    gradient = [
        (potential_energy(model, q + step * e) - potential_energy(model, q - step * e)) / (2 * step)
        for e in np.eye(model.nv)
    ]
    assert_allclose(tau, gradient, atol=1e-7)
    assert_allclose(aba(model, q, np.zeros(model.nv), tau), 0.0, atol=1e-9)


@pytest.mark.slow
def test_robot_with_gravity_compensation_stays_at_rest():
    model = planar2().with_gravity((0.0, -9.81, 0.0))
    system = System()
    system.add("robot", RobotPlant(model, q0=(0.4, 0.7)))
    system.add("compensation", GravityCompensation(model))
    system.connect("robot.q", "compensation.q")
    system.connect("compensation.tau", "robot.tau")
    result = simulate(system, 0.5, 1e-3, form="fused", progress=False)
    assert_allclose(result["robot.q"], np.tile([0.4, 0.7], (501, 1)), atol=1e-10)


def test_gravity_compensation_uses_the_gravity_parameter():
    model = MODELS["mixed"]()
    q = np.linspace(0.1, 0.7, model.nv)
    tau = outputs(GravityCompensation(model), q=q, gravity=(1.0, 2.0, 3.0))["tau"]
    assert_allclose(
        tau, bias_force(model, q, np.zeros(model.nv), gravity=np.array([1.0, 2.0, 3.0])), rtol=1e-12
    )


@pytest.mark.slow
@pytest.mark.parametrize("form", ["compiled", "fused"])
def test_robot_with_motors_and_encoders_stops_at_the_end_of_its_profile(form):
    # all ports of the chain are connected with their units; the robot stops within the
    # encoder resolution of 0.1 mrad
    model, end = planar2().with_gravity((0.0, -9.81, 0.0)), np.array([0.8, -0.6])
    motors = tuple(Drive(f"motor{k}", k - 1, TorqueMotor(None, 200.0, 1e-3)) for k in (1, 2))
    parts = {
        "profile": TrapezoidalProfile((0.0, 0.0), end, 3.0, 20.0),
        "controller": InverseDynamicsController(model, 400.0, 40.0),
        "robot": RobotPlant(model, elements=motors),
        "encoders": Encoder((1e-4, 1e-4), 1e-3),
    }
    wires = {
        "profile.y": "controller.q_ref",
        "profile.slope": "controller.qd_ref",
        "profile.curvature": "controller.qdd_ref",
        "encoders.q_meas": "controller.q",
        "encoders.qd_meas": "controller.qd",
        "controller.tau[1]": "robot.motor1_command",
        "controller.tau[2]": "robot.motor2_command",
        "robot.q": "encoders.q",
    }
    system = System()
    for name, part in parts.items():
        system.add(name, part)
    for source, target in wires.items():
        system.connect(source, target)
    result = simulate(system, 1.5, 1e-3, form=form, progress=False)
    assert_array_equal(result["profile.y"][-1], end)
    assert_allclose(result["robot.q"][-1], end, atol=3e-4)
    assert_allclose(result["robot.qd"][-1], 0.0, atol=2e-2)
    assert np.abs(result["profile.y"] - result["robot.q"]).max() < 0.05


BAD = [
    (
        lambda: InverseDynamicsController(planar2(), [1.0], 1.0),
        "the start value of port 'kp' has shape (1,); it needs shape (2,)",
    ),
    (
        lambda: InverseDynamicsController(planar2(), -1.0, 1.0),
        "the start value of kp[1] is -1 1/s2; it must be at least 0",
    ),
    (
        lambda: InverseDynamicsController(planar2(), 1.0, np.nan),
        "the start value of port 'kd' must be finite, not [nan, nan]",
    ),
]


@pytest.mark.parametrize(("make", "message"), BAD, ids=[message[:50] for _, message in BAD])
def test_invalid_controller_arguments_are_rejected(make, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make()
