"""Linearization: closed forms, central differences, and responses."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import expm

from planar2ctrl import CONNECTIONS, parts, wired
from random_models import MODELS, random_state, random_tree
from rigidblocks import (
    Block,
    FusedSystem,
    PDController,
    Port,
    RobotPlant,
    System,
    planar2,
)
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.integrators import RK4
from rigidblocks.block.integrators import integrate as take_step
from rigidblocks.block.memory_layout import Memory
from rigidblocks.cosim.graph.block_merging import ContinuousSystem
from rigidblocks.cosim.graph.linearization import linearize
from rigidblocks.dynamics import crba
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.robot.configuration import difference, integrate
from rigidblocks.robot.joints import Reversed, SixDoF, Spherical, Universal
from rigidblocks.robot.robots import planar_n

RTOL = 1e-11  # exact derivatives; rounding with a well-conditioned H
# central differences with STEP: rounding eps / STEP and truncation STEP^2, with a margin for the
# size of higher derivatives
STEP = 1e-5
DIFFERENCES = 1e-6
IDEAL_LAW = 1e-6  # error of RK4 at 1 ms on the ideal law [rad, rad/s]
ORDER = 0.1  # tolerance of the fitted slope of log error over log step
DOWN = (0.0, -9.81, 0.0)


def differences(function, x):
    """Return the Jacobian of a function by central differences."""
    return np.stack(
        [(function(x + h) - function(x - h)) / (2 * STEP) for h in STEP * np.eye(len(x))], axis=-1
    )


def close(actual, expected, tolerance):
    assert np.shape(actual) == np.shape(expected)
    assert_allclose(
        actual, expected, rtol=0, atol=tolerance * max(1.0, np.max(np.abs(expected), initial=0.0))
    )


# closed forms


def test_linearization_of_a_pendulum_matches_its_closed_form():
    # a rod of 1 m and 1 kg about its end: inertia 1/3 kg.m2, equivalent pendulum length 2/3 m
    block = RobotPlant(planar_n(1).with_gravity(DOWN))
    for q, sign in ((-np.pi / 2, -1), (np.pi / 2, 1)):
        linear = linearize(block, at={"q": q}, outputs=["q"])
        close(linear.A, [[0, 1], [sign * 9.81 / (2 / 3), 0]], RTOL)
        close(linear.B, [[0], [3]], RTOL)
        assert_array_equal(linear.C, [[1, 0]])
        assert_array_equal(linear.D, [[0]])
        close(linear.residual, [0, 0], 1e-14)
        assert linear.dt is None
    assert linear.state_names == ("q[1]", "qd[1]")
    assert linear.state_units == ("rad", "rad/s")
    assert (linear.input_names, linear.input_units) == (("tau[1]",), ("N.m",))
    assert (linear.output_names, linear.output_units) == (("q[1]",), ("rad",))
    assert_array_equal(linear.x, [np.pi / 2, 0])
    assert_array_equal(linear.y, [np.pi / 2])


def controlled(kp, kd, q_ref, start, **options):
    """Return a two-link robot that a PD controller keeps at q_ref."""
    system = System()
    system.add("robot", RobotPlant(planar2()), start=start, **options)
    system.add("pd", PDController(kp=kp, kd=kd), start={"q_ref": q_ref})
    for target in ("pd.q", "pd.qd", "robot.tau"):
        system.connect(CONNECTIONS[target], target)
    return system


@pytest.mark.parametrize("q", [(1.0, 1.5), (0.0, 0.0), (0.3, -2.0)])
def test_linearized_controlled_robot_is_a_damped_oscillator(q):
    # at rest at the commanded position: A = [[0, 1], [-H^-1 Kp, -H^-1 Kd]]
    linear = linearize(controlled([1000.0, 800.0], [15.0, 10.0], q, {"q": q}))
    H = crba(planar2(), np.array(q))
    K, D = np.linalg.solve(H, np.diag([1000.0, 800.0])), np.linalg.solve(H, np.diag([15.0, 10.0]))
    close(linear.A, np.block([[np.zeros((2, 2)), np.eye(2)], [-K, -D]]), RTOL)
    close(linear.B, np.block([[np.zeros((2, 4))], [K, D]]), RTOL)
    close(linear.residual, np.zeros(4), RTOL)
    # the eigenvalues solve det(H s^2 + D s + K) = 0
    for s in np.linalg.eigvals(linear.A):
        M = H * s**2 + np.diag([15.0, 10.0]) * s + np.diag([1000.0, 800.0])
        assert abs(np.linalg.det(M)) < 1e-9 * np.linalg.norm(M) ** 2
    assert linear.state_names == ("robot.q[1]", "robot.q[2]", "robot.qd[1]", "robot.qd[2]")
    assert linear.input_names == tuple(
        f"pd.{port}[{k}]" for port in ("q_ref", "qd_ref") for k in (1, 2)
    )
    assert linear.input_units == ("rad", "rad", "rad/s", "rad/s")


def test_linearized_direct_feedthrough_is_in_the_matrix_d():
    linear = linearize(PDController(kp=[7.0, 5.0], kd=[3.0, 2.0]))
    kp, kd = np.diag([7.0, 5.0]), np.diag([3.0, 2.0])
    assert_array_equal(linear.D, np.hstack([kp, -kp, kd, -kd]))
    assert linear.A.shape == (0, 0)
    assert linear.C.shape == (2, 0)
    plant = linearize(RobotPlant(planar2()), outputs=["qdd", "q"])
    close(plant.D, np.vstack([np.linalg.inv(crba(planar2(), np.zeros(2))), np.zeros((2, 2))]), RTOL)


def test_linearization_of_a_saturated_controller_has_zero_gain():
    block = PDController(kp=[7.0], kd=[3.0], tau_max=[1.0])
    assert_array_equal(linearize(block, at={"q_ref": 1.0}).D, np.zeros((1, 4)))
    assert_array_equal(linearize(block, at={"q_ref": 0.1}).D, [[7, -7, 3, -3]])


def test_linearization_of_a_sampled_controller_is_a_discrete_time_system():
    # tau[k] = kp e[k] + kd (e[k] - e[k-1]) / dt with the states tau, e_last, primed
    linear = linearize(
        PDController(kp=[10.0], kd=[2.0], sample_time=0.5), at={"primed": 1.0, "q_ref": 0.25}
    )
    assert linear.dt == 0.5
    assert linear.state_names == ("tau[1]", "e_last[1]", "primed")
    A, B, C, D, dt = linear
    assert_array_equal(A, [[0, -4, 0], [0, 0, 0], [0, 0, 0]])
    assert_array_equal(B, [[14, -14], [1, -1], [0, 0]])
    assert_array_equal(C, [[0, -4, 0]])
    assert_array_equal(D, [[14, -14]])
    assert dt == 0.5
    assert_array_equal(linear.residual, [14 * 0.25, 0.25, 0])
    assert_array_equal(linear.y, [14 * 0.25])


# central differences


def rates_and_outputs(flat, m):
    """Return the rates and outputs of a block, and store the outputs in its memory."""
    m[flat.y] = NumpyEvaluator(flat).output(m)
    y = np.concatenate([m[flat.where[port.name]] for port in flat.block.outputs])
    return NumpyEvaluator(flat).derivative(m), y


@pytest.mark.parametrize("name", ["pendulum", "mixed"])
def test_linearization_of_a_system_matches_central_differences(name, rng):
    model = MODELS[name]()
    s = random_state(rng, model)
    flat = Memory(RobotPlant(model, external_wrenches=True))
    m = flat.start()
    at = {port: getattr(s, port) for port in ("q", "qd", "tau", "f_ext")}
    for port, value in at.items():
        m[flat.where[port]] = np.ravel(value)
    linear = linearize(flat.block, at=at)

    def after(places, values):
        changed = m.copy()
        changed[places] = values
        return rates_and_outputs(flat, changed)

    for places, columns in ((flat.x, (linear.A, linear.C)), (flat.u, (linear.B, linear.D))):
        for k in (0, 1):
            expected = differences(
                lambda values, places=places, k=k: after(places, values)[k], m[places]
            )
            close(columns[k], expected, DIFFERENCES * np.linalg.cond(crba(model, s.q)))
    assert_array_equal(linear.x, m[flat.x])
    assert_array_equal(linear.u, m[flat.u])
    rates, y = after(flat.x, m[flat.x])
    close(linear.residual, rates, RTOL)  # far from equilibrium the residual is not zero
    assert np.abs(linear.residual).max() > 1
    close(linear.y, y, RTOL)


def moved(flat, s, xi, h):
    """Return the state after a step h of a plant, from the state s displaced by xi."""
    model, n = flat.block.model, flat.block.model.nv
    x = np.concatenate([integrate(model, s.q, xi[:n]), s.qd + xi[n:]])

    def rates(t, x):
        return NumpyEvaluator(flat).derivative(
            np.concatenate([[t], x, s.tau, flat.start()[flat.u.stop :]])
        )

    return take_step(RK4, rates, 0.0, x, h, flat.position)


def state_difference(model, a, b):
    """Return the tangent vector from state a to state b."""
    nq = model.nq
    return np.concatenate([difference(model, a[:nq], b[:nq]), b[nq:] - a[nq:]])


@pytest.mark.slow
@pytest.mark.parametrize(
    "joints", [None, (Spherical(), Universal(), SixDoF()), (Reversed(SixDoF()), Spherical())]
)
def test_linearization_with_quaternions_predicts_the_divergence_of_neighbouring_motions(
    joints, rng
):
    # two motions that differ by the tangent vector xi diverge at the rate A xi, also far from an
    # equilibrium
    model = MODELS["satellite"]()
    if joints:
        model = random_tree(rng, tuple(range(-1, len(joints) - 1)), joints)
    s, n = random_state(rng, model), model.nv
    flat = Memory(RobotPlant(model))
    linear = linearize(flat.block, at={"q": s.q, "qd": s.qd, "tau": s.tau})
    velocities = tuple(unit for joint in model.joint for unit in joint.qd_units)
    assert linear.state_names == tuple(
        f"{name}[{k + 1}]" for name in ("q_tangent", "qd") for k in range(n)
    )
    assert linear.state_units == tuple(unit.removesuffix("/s") for unit in velocities) + velocities
    assert_array_equal(linear.x, [*s.q, *s.qd])

    h, small = 1e-4, 1e-4
    for k, xi in enumerate(np.eye(2 * n)):
        gaps = {
            end: state_difference(
                model, moved(flat, s, -small * xi, end), moved(flat, s, small * xi, end)
            )
            / (2 * small)
            for end in (-h, h)
        }
        close(
            (gaps[h] - gaps[-h]) / (2 * h),
            linear.A[:, k],
            DIFFERENCES * np.linalg.cond(crba(model, s.q)),
        )


@pytest.mark.slow
def test_response_to_small_perturbations_equals_the_matrix_exponential():
    # at rest under gravity with the controller: x(t) - x0 = exp(A t) (x(0) - x0)
    system = controlled([100.0, 80.0], [5.0, 3.0], [0.3, 0.4], {"q": [0.3, 0.4]})
    linear, small = linearize(system), 1e-6
    stepper = compiled_stepper(Memory(ContinuousSystem(system)))
    for xi in np.eye(4):
        m = stepper.memory.start()
        m[stepper.memory.x] += small * xi
        for k in range(200):
            stepper.step(m, k * 1e-3, 1e-3)
        response = (m[stepper.memory.x] - linear.x) / small
        close(response, expm(0.2 * linear.A) @ xi, 1e-5)  # the terms of second order are small


@pytest.mark.slow
def test_linearization_of_a_fused_system_matches_finite_differences_of_its_step(rng):
    # central differences of the step from k to k + 1
    start = {"q": [0.1, 0.2], "qd": [0.3, -0.4]}
    system = controlled([1000.0, 1000.0], [15.0, 15.0], [0.3, 0.2], start, method="rk4")
    flat = Memory(FusedSystem(system, 2e-3))
    m = flat.start()
    m[flat.z] = rng.normal(size=flat.z.stop - flat.z.start)
    at = {port.name: m[flat.where[port.name]].reshape(port.shape) for port in flat.block.sampled}
    linear = linearize(flat.block, at=at, outputs=["robot.q"])
    assert linear.dt == 2e-3

    def after(places, values):
        changed = m.copy()
        changed[places] = values
        return NumpyEvaluator(flat).update(changed)

    close(linear.A, differences(lambda z: after(flat.z, z), m[flat.z]), DIFFERENCES)
    close(linear.B, differences(lambda u: after(flat.u, u), m[flat.u]), DIFFERENCES)
    close(linear.residual, after(flat.z, m[flat.z]) - m[flat.z], RTOL)
    rows = [linear.state_names.index(f"robot.q[{k}]") for k in (1, 2)]
    assert_array_equal(linear.C, linear.A[rows])  # outputs after the sample
    assert_array_equal(linear.D, linear.B[rows])


# selection of variables, and rejected arguments


def test_linearization_returns_the_selected_inputs_and_outputs_in_the_requested_order():
    block = RobotPlant(planar2(), external_wrenches=True)
    linear = linearize(
        block, inputs=["tau"], outputs=["energy", "qd"], at={"gravity": DOWN, "qd": [1.0, 2.0]}
    )
    whole = linearize(block, at={"gravity": DOWN, "qd": [1.0, 2.0]})
    assert linear.input_names == ("tau[1]", "tau[2]")
    assert linear.output_names == ("energy", "qd[1]", "qd[2]")
    assert linear.output_units == ("J", "rad/s", "rad/s")
    columns = [whole.input_names.index(name) for name in linear.input_names]
    rows = [whole.output_names.index(name) for name in linear.output_names]
    close(linear.B, whole.B[:, columns], RTOL)
    close(linear.C, whole.C[rows], RTOL)
    close(linear.D, whole.D[np.ix_(rows, columns)], RTOL)
    assert_array_equal(linear.u, [0, 0])


@pytest.mark.slow
def test_linearization_of_a_time_dependent_system_uses_the_time_argument():
    system = wired(parts())
    slopes = {t: linearize(system, t=t, outputs=["command.slope"]).y for t in (0.5, 1.5, 2.5)}
    assert_array_equal([*slopes.values()], [[1, 1.5], [0, 0], [-1, -1.5]])


@dataclass(frozen=True)
class Both(Block):
    """Block with a continuous and a sampled state."""

    sample_time: float = 0.1

    @property
    def states(self):
        return (Port("x", start=0.0),)

    @property
    def sampled(self):
        return (Port("z", start=0.0),)

    def derivative(self, x):
        return {"x": x.z}

    def update(self, x):
        return {"z": x.x}


@pytest.mark.slow
def test_linearization_of_unsupported_systems_or_ports_is_rejected():
    with pytest.raises(
        TypeError, match=r"not a Model; the block of a model is RobotPlant\(model\)"
    ):
        linearize(planar2())
    block = RobotPlant(planar2())
    with pytest.raises(
        KeyError,
        match="RobotPlant has no state, input or parameter 'qdd'; it has: q, qd, tau, gravity",
    ):
        linearize(block, at={"qdd": 0.0})
    with pytest.raises(KeyError, match="unknown input torque to linearize; expected: tau"):
        linearize(block, inputs=["torque"])
    with pytest.raises(
        KeyError, match="unknown output tau to linearize; expected: q, qd, qdd, energy"
    ):
        linearize(block, outputs=["q", "tau"])
    with pytest.raises(
        ValueError, match=r"the operating point of 'q' has shape \(3,\); it needs shape \(2,\)"
    ):
        linearize(block, at={"q": [1.0, 2.0, 3.0]})
    with pytest.raises(ValueError, match="the operating point of 'tau' must be finite"):
        linearize(block, at={"tau": [np.nan, 0.0]})
    with pytest.raises(
        ValueError, match=r"Both: it has continuous states \(x\) and sampled states \(z\)"
    ):
        linearize(Both())
    system = System()
    system.add("body", RobotPlant(MODELS["satellite"]()))
    with pytest.raises(
        ValueError,
        match=r"its sampled states body.q have more elements than degrees of freedom",
    ):
        linearize(FusedSystem(system, 1e-3))
