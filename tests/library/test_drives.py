"""Drives in plants: closed forms of motors, servos, gearboxes, elasticities and friction."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from scipy.optimize import brentq

from element_models import MODEL, PLANTS
from library_runs import outputs, run
from rigidblocks import prepare
from rigidblocks.block.adaptive_methods import longest_step, memory_for, method_of
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.memory_layout import Memory
from rigidblocks.cosim.batch_simulation import _StartValues
from rigidblocks.cosim.graph.fused_system import FusedSystem
from rigidblocks.cosim.graph.system import System
from rigidblocks.dynamics.drives import (
    Drive,
    Elasticity,
    Gearbox,
    PositionServo,
    VelocityServo,
)
from rigidblocks.dynamics.force_elements import JointSum
from rigidblocks.dynamics.force_laws import Friction, LuGre
from rigidblocks.dynamics.hydraulics import HydraulicCylinder
from rigidblocks.dynamics.motors import (
    AffineMotor,
    CurrentLoop,
    DCMotor,
    RotorMotion,
    SynchronousMotor,
    Thermal,
    TorqueMotor,
    bandwidth_gains,
)
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.kernels.traced_evaluator import TracedEvaluator
from rigidblocks.library import RobotPlant
from rigidblocks.robot.joints import Prismatic, Revolute
from rigidblocks.robot.model import Model
from rigidblocks.robot.robots import auto_tree, planar2
from rigidblocks.spatial.spatial import identity, mcI

INERTIA = 0.3  # kg m^2 of the disc
DISC = Model(
    "disc", (-1,), (Revolute(),), (identity(),), (mcI(1.0, np.zeros(3), INERTIA * np.eye(3)),)
)
SLIDE = Model(
    "slide",
    (-1,),
    (Prismatic((1.0, 0.0, 0.0)),),
    (identity(),),
    (mcI(1.0, np.zeros(3), np.eye(3)),),
)
DC = DCMotor(R=0.5, L=1e-3, k=0.05, inertia=2e-5)
PMSM = SynchronousMotor(0.4, 0.8e-3, 1.2e-3, 0.01, 4.0, 2e-5)
N = 50.0


def plant(drive, model=DISC, **settings):
    return RobotPlant(model, elements=(drive,), **settings)


def derivatives(block, **values):
    """Return the derivatives of all states by name, at the given states and inputs."""
    flat = Memory(block)
    m = flat.start()
    for name, value in values.items():
        m[flat.where[name]] = value
    rates, found = NumpyEvaluator(flat).derivative(m), {}
    for port in block.states:
        at = flat.where[port.name]
        found[port.name] = rates[at.start - flat.x.start : at.stop - flat.x.start]
    return found


# ---- motors ----


def test_voltage_step_of_a_dc_motor_equals_the_matrix_exponential():
    # x = (qd, i): (I + N^2 J) dqd/dt = N k i - d qd,  L di/dt = v - R i - k N qd
    friction = Friction(0.0, viscous=0.2)
    block = plant(Drive("a", "joint1", DC, Gearbox(N), friction=friction))
    total, volts, t = INERTIA + N * N * DC.inertia, 12.0, 0.02
    A = np.array([[-0.2 / total, N * DC.k / total], [-DC.k * N / DC.L, -DC.R / DC.L]])
    b = np.array([0.0, volts / DC.L])
    expected = np.linalg.solve(A, (expm(A * t) - np.eye(2)) @ b)
    result = run(block, 1e-3, 20, h=2e-5, a_command=volts)
    assert_allclose(result["qd"][-1, 0], expected[0], rtol=1e-9)
    assert_allclose(result["a_current"][-1], expected[1], rtol=1e-9)


@pytest.mark.parametrize("loop", [None, CurrentLoop(2.0, 300.0)])
def test_electrical_power_of_a_dc_motor_is_the_sum_of_heat_magnetic_and_mechanical_power(loop, rng):
    block = plant(Drive("a", "joint1", DC, Gearbox(N), loop))
    for qd, i, command in rng.uniform(-5, 5, (20, 3)):
        values = {"qd": qd, "a_current": i, "a_command": command}
        y, rates = outputs(block, **values), derivatives(block, **values)
        magnetic, mechanical = DC.L * i * rates["a_current"][0], y["a_torque"] * N * qd
        assert_allclose(y["a_voltage"] * i, DC.R * i * i + magnetic + mechanical, atol=1e-10)


@pytest.mark.parametrize("limit", [None, 6.0])
def test_electrical_power_of_a_synchronous_motor_is_heat_plus_magnetic_plus_mechanical_power(
    limit, rng
):
    motor = replace(PMSM, voltage_max=limit)
    block = plant(Drive("a", "joint1", motor, Gearbox(N)))
    for qd, i_d, i_q, v_d, v_q in rng.uniform(-9, 9, (20, 5)):
        values = {"qd": qd, "a_current_d": i_d, "a_current_q": i_q}
        values |= {"a_voltage_d": v_d, "a_voltage_q": v_q}
        y, rates = outputs(block, **values), derivatives(block, **values)
        applied = np.array([y["a_applied_voltage_d"], y["a_applied_voltage_q"]])
        assert np.hypot(*applied) <= (limit or 20.0) * (1 + 1e-14)
        current = np.array([i_d, i_q])
        change = np.array([rates["a_current_d"][0], rates["a_current_q"][0]])
        magnetic = current @ (np.array([motor.L_d, motor.L_q]) * change)
        power = 1.5 * (motor.R * current @ current + magnetic) + y["a_torque"] * N * qd
        assert_allclose(1.5 * applied @ current, power, atol=1e-9)


@pytest.mark.slow
def test_synchronous_motor_without_saliency_equals_the_equivalent_dc_motor():
    # 3/2 p flux i_q = k i, and the q axis with i_d = 0: v = R i + L di/dt + p flux w
    per_ampere = 1.5 * 4.0 * 0.01
    pmsm = SynchronousMotor(0.5, 1e-3, 1e-3, 0.01, 4.0, 2e-5)
    # the amplitude-invariant motor has 3/2 of the power of its q axis
    dc = DCMotor(1.5 * 0.5, 1.5e-3, per_ampere, 2e-5)
    loops = CurrentLoop(0.5, 100.0), CurrentLoop(0.75, 150.0)
    blocks = [
        plant(Drive("a", "joint1", motor, Gearbox(N), loop))
        for motor, loop in zip((pmsm, dc), loops, strict=True)
    ]
    one, two = (run(block, 1e-3, 20, h=5e-5, a_command=3.0) for block in blocks)
    assert_allclose(one["q"], two["q"], rtol=1e-12)
    assert_allclose(one["a_current_q"], two["a_current"], rtol=1e-12)
    assert_allclose(one["a_current_d"], 0.0, atol=1e-12)


@pytest.mark.parametrize("motor", [DC, PMSM], ids=["dc", "synchronous"])
def test_current_loop_with_bandwidth_gains_is_a_first_order_lag(motor):
    bandwidth, times = 2000.0, np.arange(21) * 1e-4
    loop = bandwidth_gains(motor, bandwidth)
    block = plant(Drive("a", "joint1", motor, Gearbox(N), loop))
    result = run(block, 1e-4, 20, h=5e-6, a_command=3.0)
    name = "a_current" if motor is DC else "a_current_q"
    assert_allclose(result[name], 3.0 * (1.0 - np.exp(-bandwidth * times)), rtol=1e-8)


def test_current_loop_at_its_voltage_limit_does_not_wind_up():
    loop = replace(bandwidth_gains(DC, 2000.0), current_max=10.0)
    block = plant(Drive("a", "joint1", replace(DC, voltage_max=6.0), Gearbox(1.0), loop))
    result = run(block, 1e-3, 400, h=2e-5, a_command=25.0)
    assert np.max(np.abs(result["a_voltage"])) == 6.0
    assert_allclose(result["a_current"].max(), 10.0, rtol=1e-6)  # the limit, without overshoot
    assert_allclose(result["a_current"][60], 10.0, rtol=1e-6)


@pytest.mark.parametrize(
    ("voltage_max", "current_max", "amperes", "volts"),
    [
        (48.0, None, 96.0, 48.0),
        (48.0, 20.0, 20.0, 48.0),
        (None, 20.0, 20.0, 1.0),
        (None, None, 1.0, 1.0),
    ],
)
@pytest.mark.parametrize("motor", [DC, PMSM])
def test_nominal_motor_current_is_the_smallest_current_limit(
    motor, voltage_max, current_max, amperes, volts
):
    motor = replace(motor, R=0.5, voltage_max=voltage_max)
    drive = Drive("a", 0, motor, current_loop=CurrentLoop(1.0, 1.0, current_max))
    nominal = {port.name: port.nominal for port in plant(drive).states}
    kinds = ("",) if isinstance(motor, DCMotor) else ("_d", "_q")
    for kind in kinds:
        assert nominal[f"a_current{kind}"] == amperes
        assert nominal[f"a_voltage_integral{kind}"] == volts


def test_torque_motor_follows_its_torque_speed_envelope():
    motor = TorqueMotor(2e-5, 2.0, None, 100.0, 300.0)
    cases = [(0, 9, 2), (100, 9, 2), (200, 9, 1), (300, 9, 0), (400, 9, 0), (200, -9, -2)]
    for speed, command, expected in cases:
        for sign in (1.0, -1.0):
            rotor = RotorMotion(0.0, sign * speed)
            response = motor.respond(None, {"command": sign * command}, None, rotor, {})
            assert_allclose(response.torque, sign * expected, atol=1e-15)
    result = run(plant(Drive("a", "joint1", motor, Gearbox(10.0))), 1e-2, 1000, a_command=5.0)
    assert_allclose(result["qd"][-1, 0], 30.0, rtol=1e-6)


def test_torque_of_a_motor_with_a_time_constant_is_a_first_order_response():
    drive = Drive("a", "joint1", TorqueMotor(1e-5, 3.0, 0.01), Gearbox(N))
    result = run(plant(drive), 1e-3, 50, h=1e-4, a_command=9.0)
    times = np.arange(51) * 1e-3
    assert_allclose(result["a_torque"], 3.0 * (1.0 - np.exp(-times / 0.01)), rtol=1e-8)


@pytest.mark.slow
def test_winding_temperature_at_constant_current_equals_its_closed_form():
    # C dT/dt = R0 (1 + a (T - T0)) i^2 - (T - T_a) / R_th
    thermal, i = Thermal(2.0, 10.0, 300.0, 0.004, 295.0), 4.0
    heavy = replace(DISC, inertia=(mcI(1.0, np.zeros(3), 1e12 * np.eye(3)),))
    for alpha in (0.0, 0.004):
        motor = replace(DC, thermal=replace(thermal, coefficient=alpha))
        # a stiff loop holds the current against the slow change of the resistance
        loop = bandwidth_gains(DC, 1e4)
        block = plant(Drive("a", "joint1", motor, Gearbox(N), loop), heavy)
        start = {"a_current": i, "a_command": i}
        hot = DC.R * (1.0 + alpha * 5.0)
        result = run(block, 0.1, 100, h=1e-4, a_voltage_integral=hot * i, **start)
        P, slope = DC.R * i * i, alpha * DC.R * i * i
        rate = (1.0 / 2.0 - slope) / 10.0
        end = (P * (1.0 - alpha * 295.0) + 300.0 / 2.0) / (1.0 / 2.0 - slope)
        times = np.arange(101) * 0.1
        expected = end + (300.0 - end) * np.exp(-rate * times)
        # while the resistance rises, the current lags by dR/dt i / ki, 3e-7 of its value
        rtol = 1e-12 if alpha == 0 else 3e-8
        assert_allclose(result["a_temperature"], expected, rtol=rtol)


# ---- servos ----


def test_integral_gain_of_a_position_servo_removes_the_position_error_under_gravity():
    servo = PositionServo(400.0, 800.0, 60.0)
    drive = Drive("a", "joint1", TorqueMotor(1e-4), Gearbox(N), servo=servo)
    hold = Drive("b", "joint2", TorqueMotor(1e-4), Gearbox(N), servo=servo)
    model = planar2().with_gravity((0.0, -9.81, 0.0))
    result = run(RobotPlant(model, elements=(drive, hold)), 0.05, 600, a_command=0.4)
    assert_allclose(result["q"][-1], [0.4, 0.0], atol=1e-7)


def test_velocity_servo_reaches_its_reference_without_windup():
    # 4 N m accelerate 0.3 + 0.05 kg m^2 to 20 rad/s in 1.75 s
    servo = VelocityServo(2.0, 6.0, 4.0)
    drive = Drive("a", "joint1", TorqueMotor(2e-5), Gearbox(N), servo=servo)
    result = run(plant(drive), 0.01, 800, a_command=20.0)
    qd = result["qd"][:, 0]
    assert_allclose(qd[100], 4.0 / 0.35 * 1.0, rtol=1e-9)
    # with windup, the integral is 6 rad/s^2 times 17 rad, and the overshoot is 100 %
    assert result["a_servo_integral"].max() <= 4.0
    assert qd.max() < 20.0 * 1.1
    assert_allclose(qd[-1], 20.0, rtol=1e-5)


WINDUP = {
    "torque_max": {"motor": TorqueMotor(torque_max=0.5)},
    "lag": {"motor": TorqueMotor(torque_max=0.5, time_constant=1e-3)},
    "envelope": {"motor": TorqueMotor(None, 0.5, None, 100.0, 200.0)},
    "affine": {"motor": AffineMotor(torque_limits=(-0.5, 0.5))},
    "effort": {"motor": TorqueMotor(), "effort": 0.5},
    "current_max": {
        "motor": DCMotor(0.5, 1e-3, 0.05),
        "current_loop": CurrentLoop(2.0, 1e3, 10.0),
    },
}


def test_drive_without_a_motor_limits_the_total_force_of_all_drives_of_its_joint():
    drives = Drive("a", "joint1", TorqueMotor()), Drive("limit", "joint1", effort=0.5)
    y = outputs(RobotPlant(planar2(), elements=drives), a_command=3.0)
    bounded = outputs(RobotPlant(planar2()), tau=[0.5, 0.0])
    assert_allclose(y["qdd"], bounded["qdd"], rtol=1e-12)


@pytest.mark.parametrize("name", list(WINDUP))
def test_servo_does_not_wind_up_at_the_torque_limit_of_the_drive(name):
    # the limit of the drive has the effect of an equal force_max of the servo
    servo, parts = PositionServo(20.0, 40.0, 8.0), WINDUP[name]
    limited = plant(Drive("a", "joint1", servo=servo, **parts))
    reference = plant(Drive("a", "joint1", TorqueMotor(), servo=replace(servo, force_max=0.5)))
    q, expected = (
        run(block, 0.02, 150, h=1e-3 if block is reference else 2e-4, a_command=1.0)["q"][:, 0]
        for block in (limited, reference)
    )
    assert_allclose(q, expected, atol=1e-2)


@pytest.mark.parametrize("current_d", [0.0, -8.0, 5.0])
def test_servo_of_a_salient_motor_reaches_its_reference_torque(current_d):
    # at the current with the torque kp c / N, the integrals of the current loop are constant
    motor, servo = replace(PMSM, current_d=current_d), PositionServo(30.0)
    block = plant(Drive("a", "joint1", motor, Gearbox(N), CurrentLoop(2.0, 800.0), servo))
    torque = 30.0 * 0.5 / N
    i_q = torque / (1.5 * 4.0 * (0.01 + (0.8e-3 - 1.2e-3) * current_d))
    values = {"a_command": 0.5, "a_current_d": current_d, "a_current_q": i_q}
    assert_allclose(outputs(block, **values)["a_torque"], torque, rtol=1e-12)
    assert_allclose(derivatives(block, **values)["a_voltage_integral_q"], 0.0, atol=1e-9)


# ---- gearboxes ----


def test_gear_loss_depends_on_the_direction_of_the_power_flow():
    box = Gearbox(N, 0.9, 0.6)
    assert_allclose(box.joint_force(10.0, 1.0), 9.0, rtol=1e-12)
    assert_allclose(box.joint_force(10.0, -1.0), 10.0 / 0.6, rtol=1e-12)
    assert_allclose(box.joint_force(-10.0, -1.0), -9.0, rtol=1e-12)
    assert_allclose(box.joint_force(10.0, 0.0), 10.0, rtol=0)
    assert_allclose(box.motor_force(9.0, 1.0), 10.0, rtol=1e-12)
    assert_allclose(box.motor_force(10.0, -1.0), 6.0, rtol=1e-12)


def test_gear_loss_never_generates_power(rng):
    box = Gearbox(N, 0.7, 0.4, 0.1)
    for force, speed in rng.uniform(-1, 1, (200, 2)):
        assert box.joint_force(force, speed) * speed <= force * speed + 1e-15
        assert box.motor_force(force, speed) * speed >= force * speed - 1e-15


# ---- elasticity ----


def test_elastic_drive_oscillates_at_the_frequency_of_two_inertias():
    # w^2 = K (1 / I + 1 / (N^2 J)); the deflection starts at 0.01 rad
    K = 200.0
    drive = Drive("a", "joint1", TorqueMotor(2e-5), Gearbox(N), elasticity=Elasticity(K))
    result = run(plant(drive), 1e-3, 300, h=1e-4, a_angle=0.01 * N)
    w = np.sqrt(K * (1.0 / INERTIA + 1.0 / (N * N * 2e-5)))
    expected = 0.01 * np.cos(w * np.arange(301) * 1e-3)
    assert_allclose(result["a_deflection"], expected, atol=1e-8)


ELASTIC = [
    Elasticity(300.0),
    Elasticity(300.0, K3=5e4),
    Elasticity(300.0, 0.0, 5e4, 2e-3, 2.0, 0.3),
]


@pytest.mark.parametrize("elasticity", ELASTIC, ids=["linear", "cubic", "kinematic error"])
@pytest.mark.parametrize("backlash", [None, 0.02])
def test_elastic_drive_without_losses_conserves_energy(elasticity, backlash, rng):
    # dE/dt = torque w + tau qd at random states, with dE/dt by central differences along the flow
    box = Gearbox(N, backlash=backlash)
    block = plant(Drive("a", "joint1", TorqueMotor(2e-5), box, elasticity=elasticity))
    for q, qd, twist, w, torque, tau in rng.uniform(-1, 1, (20, 6)):
        state = {"q": q, "qd": qd, "a_angle": N * (q + 0.05 * twist), "a_rotor_speed": 20 * w}
        given = {"a_command": torque, "tau": tau}
        rates = derivatives(block, **state, **given)
        power = torque * 20 * w + tau * qd
        h, ends = 1e-7, []
        for sign in (1.0, -1.0):
            moved = {name: value + sign * h * rates[name][0] for name, value in state.items()}
            ends.append(outputs(block, **moved, **given)["energy"])
        assert_allclose((ends[0] - ends[1]) / (2 * h), power, atol=2e-5)


@pytest.mark.slow
def test_stiff_elastic_drive_approaches_the_rigid_drive():
    rigid = Drive("a", "joint1", TorqueMotor(2e-5), Gearbox(N))
    expected = run(plant(rigid), 1e-3, 100, a_command=0.2)["q"][-1, 0]
    errors = []
    for K in (1e4, 1e5):
        drive = replace(rigid, elasticity=Elasticity(K, 2 * np.sqrt(K * 0.05)))
        q = run(plant(drive), 1e-3, 100, h=5e-5, a_command=0.2)["q"][-1, 0]
        errors.append(abs(q - expected))
    assert errors[0] < 1e-3 * abs(expected)
    assert errors[1] < 0.2 * errors[0]  # proportional to 1 / K


def test_rotor_of_an_elastic_drive_starts_at_the_geared_position_and_speed_of_its_joint():
    drive = Drive("a", "joint1", TorqueMotor(2e-5), Gearbox(N), elasticity=Elasticity(1e3))
    y = outputs(plant(drive, q0=[0.7], qd0=[0.2]))
    assert_allclose([y["a_deflection"], y["a_force"]], 0.0, atol=1e-12)
    assert_allclose(y["a_rotor_speed"], 0.2 * N, rtol=1e-15)


ELASTIC = Drive("a", "joint1", TorqueMotor(2e-5), Gearbox(50.0), elasticity=Elasticity(1e3))


def first_row(start, *, run_start=None, model=DISC):
    """Return the first values of a system with an elastic drive and the given start values."""
    system = System()
    system.add("robot", plant(ELASTIC, model), start={"a_command": 0.0, **start})
    result = prepare(system, 1e-3).simulate(1e-3, start=run_start)
    names = ("q", "a_angle", "a_rotor_speed", "a_deflection", "a_force")
    return {name: float(np.ravel(result[f"robot.{name}"][0])[0]) for name in names}


@pytest.mark.parametrize(
    ("start", "run_start"),
    [
        ({"q": [0.7], "qd": [0.2]}, None),
        ({}, {"robot.q": [0.7], "robot.qd": [0.2]}),
        ({"q": [0.1], "qd": [0.3]}, {"robot.q": [0.7], "robot.qd": [0.2]}),
    ],
)
def test_rotor_of_an_elastic_drive_follows_the_start_values_of_its_joint(start, run_start):
    y = first_row(start, run_start=run_start)
    assert_allclose([y["q"], y["a_angle"], y["a_rotor_speed"]], [0.7, 35.0, 10.0], rtol=1e-14)
    assert_allclose([y["a_deflection"], y["a_force"]], 0.0, atol=1e-9)


def test_start_value_of_the_rotor_angle_has_priority_over_the_joint_position():
    # deflection = angle / ratio - s, force = K deflection
    for given in ({"q": [0.7], "a_angle": 36.0}, {"a_angle": 36.0}):
        y = first_row(given, run_start={"robot.q": [0.7]})
        assert_allclose([y["a_deflection"], y["a_force"]], [0.02, 20.0], rtol=1e-12)


def test_initial_rotor_angle_uses_the_start_value_of_the_gear_ratio():
    y = first_row({"q": [0.7], "a_gearbox_ratio": 20.0})
    assert_allclose([y["a_angle"], y["a_deflection"]], [14.0, 0.0], atol=1e-12)


@pytest.mark.parametrize("as_system", [False, True])
def test_rotors_of_a_batch_follow_the_start_values_of_their_joints(as_system):
    block, prefix = plant(ELASTIC), ""
    if as_system:
        system = System()
        system.add("robot", block, start={"a_command": 0.0, "q": [0.1]})
        block, prefix = FusedSystem(system, 1e-3), "robot."
    start = _StartValues(Memory(block)).memories({f"{prefix}q": np.array([[0.7], [-0.2], [0.0]])})
    angles = start[:, Memory(block).where[f"{prefix}a_angle"]]
    assert_allclose(angles, [[35.0], [-10.0], [0.0]], rtol=1e-14)


@pytest.mark.parametrize("name", PLANTS)
def test_rotors_in_every_plant_follow_the_start_values_of_their_joints(name):
    block = PLANTS[name]((replace(ELASTIC, joint="hinge"),))
    memory = Memory(block)
    start = memory.start()
    q = start[memory.where["q"]] + 0.1
    angle = block.dependent_start_values({"q": q})["a_angle"]
    assert_allclose(angle - start[memory.where["a_angle"]], 0.1 * 50.0, rtol=1e-9)


def test_gear_teeth_transmit_no_force_within_the_backlash_and_never_pull():
    law, play = Elasticity(1e3, 5.0), 0.02
    assert law.force(0.009, 3.0, play) == 0.0
    assert_allclose(law.force(0.015, 0.0, play), 5.0, rtol=1e-12)
    assert_allclose(law.force(-0.015, 0.0, play), -5.0, rtol=1e-12)
    assert law.force(0.015, -9.0, play) == 0.0  # the damper would pull


@pytest.mark.parametrize("compression", [1e-4, 1e-3, 0.02])
def test_contact_force_of_damped_gear_teeth_is_continuous_at_separation(compression):
    law, play = Elasticity(1e3, 5.0, 1e7), 0.02

    def margin(rate):
        return law.margins(compression + play / 2, rate, play)[0]

    rate = brentq(margin, -1e5, 0.0, xtol=1e-14, rtol=1e-14)
    push = 1e3 * compression + 1e7 * compression**3  # K c + K3 c^3
    assert_allclose(push + 5.0 * rate, 0.0, atol=1e-9 * push)


def bounces(method, rtol, count):
    """Return energy errors and deflections after each period of teeth without damping.

    The relative motion is periodic: half a period is the flight through the backlash at the
    relative speed v, and half an oscillation of the teeth, b / v + pi / w.
    """
    K, J, play, speed = 2e4, 2e-5, 2e-3, 50.0
    drive = Drive("a", 0, TorqueMotor(J), Gearbox(N, backlash=play), elasticity=Elasticity(K))
    qd0 = -J * N * speed / INERTIA  # total momentum I qd + N J w = 0
    chosen = method_of(method, rtol)
    memory = memory_for(plant(drive, qd0=qd0), chosen)
    stepper, m = compiled_stepper(memory, chosen, longest_step(chosen)), memory.start()
    m[memory.where["a_rotor_speed"]] = speed
    v, w = speed / N - qd0, np.sqrt(K * (1.0 / INERTIA + 1.0 / (N * N * J)))
    period = 2.0 * (play / v + np.pi / w)
    stepper.initialize(m, 0.0)
    rows = np.zeros((count, memory.size))
    assert stepper.run(m, 0.0, period, rows) == count
    energy = rows[:, memory.where["energy"]][:, 0]
    E0 = J * speed**2 / 2 + INERTIA * qd0**2 / 2
    return energy / E0 - 1.0, rows[:, memory.where["a_deflection"]][:, 0] / v


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "rtol", "energy", "phase"),
    [("radau", 1e-13, 1e-11, 1e-10), ("adaptive or stiff", 1e-10, 1e-6, 1e-7)],
)
def test_energy_and_period_are_constant_for_1000_undamped_tooth_contacts(
    method, rtol, energy, phase
):
    error, late = bounces(method, rtol, 500)
    assert np.abs(error).max() < energy
    assert np.abs(late).max() < phase  # [s] after 500 periods


# ---- hydraulic cylinder ----

CYLINDER = HydraulicCylinder(2e-3, 1.2e-3, 0.5, 6e-4, leakage=0.0)


def test_unloaded_hydraulic_cylinder_reaches_the_velocity_of_the_valve_equation():
    # Q_a = A_a v, Q_b = -A_b v and A_a p_a = A_b p_b yield v^2 =
    # c^2 (p_s - r p_t) / (A_a^2 + r A_b^2) with r = A_b / A_a and c = u flow / sqrt(drop)
    drive = Drive("a", "joint1", CYLINDER, friction=Friction(0.0, 0.0))
    result = run(plant(drive, SLIDE), 1e-3, 900, h=2e-5, a_command=0.2, q=0.1)
    a, b, c = 2e-3, 1.2e-3, 0.2 * 6e-4 / np.sqrt(3.5e6)
    r = b / a
    v = c * np.sqrt((2.1e7 - r * 1e5) / (a * a + r * b * b))
    assert_allclose(result["qd"][-1, 0], v, rtol=2e-6)  # the oscillation decays


def test_hydraulic_cylinder_with_closed_valve_has_the_stiffness_of_its_fluid():
    # K = beta (A_a^2 / V_a + A_b^2 / V_b) for small motion from the equilibrium
    balanced = replace(CYLINDER, start_a=6e6, start_b=1e7)
    q, m = 0.2, 1.0
    block = plant(Drive("a", "joint1", balanced), SLIDE, q0=[q], qd0=[1e-3])
    K = 1.4e9 * (4e-6 / (1e-5 + 2e-3 * q) + 1.44e-6 / (1e-5 + 1.2e-3 * (0.5 - q)))
    w = np.sqrt(K / m)
    result = run(block, 1e-4, 50, h=1e-5)
    expected = q + 1e-3 / w * np.sin(w * np.arange(51) * 1e-4)
    assert_allclose(result["q"][:, 0], expected, atol=1e-9)


def test_hydraulic_power_of_a_cylinder_is_the_sum_of_stored_and_mechanical_power(rng):
    # p_a Q_a + p_b Q_b = force v + d/dt of the compression, V p dp/dt / beta
    block = plant(Drive("a", "joint1", CYLINDER), SLIDE)
    for q, qd, u, *p in rng.uniform(0.1, 0.4, (20, 5)):
        p_a, p_b = 4e7 * np.array(p)
        values = {"q": q, "qd": qd, "a_command": u, "a_pressure_a": p_a, "a_pressure_b": p_b}
        y, rates = outputs(block, **values), derivatives(block, **values)
        V_a, V_b = 1e-5 + 2e-3 * q, 1e-5 + 1.2e-3 * (0.5 - q)
        stored = V_a * p_a * rates["a_pressure_a"] + V_b * p_b * rates["a_pressure_b"]
        power = p_a * y["a_flow_a"] + p_b * y["a_flow_b"]
        assert_allclose(power, y["a_motor_force"] * qd + stored[0] / 1.4e9, rtol=1e-9)


def test_eigenvalues_of_a_hydraulic_cylinder_match_its_natural_frequency_and_valve_lag():
    # w^2 = beta (A_a^2 / V_a + A_b^2 / V_b) / m at the piston position x
    m, x, lag = 1.0, 0.15, 5e-3
    cylinder = replace(CYLINDER, retracted=-0.25, time_constant=lag)
    block = plant(Drive("a", "joint1", cylinder), SLIDE, q0=[x - 0.25])
    w = np.sqrt(1.4e9 * (4e-6 / (1e-5 + 2e-3 * x) + 1.44e-6 / (1e-5 + 1.2e-3 * (0.5 - x))) / m)
    memory = Memory(block)
    _, state, _, p = memory.records(memory.start())
    found = block.modes(state, p)
    expected = [complex(-1.0 / lag), -1j * w, 1j * w]
    assert_allclose(np.sort_complex(found), np.sort_complex(expected), rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("areas", [(2e-3, 1.2e-3), (1e-3, 1e-3), (1e-3, 2e-3), (1e-2, 1e-6)])
@pytest.mark.parametrize("given", [{}, {"start_a": 4e6}, {"start_b": 4e6}])
def test_hydraulic_cylinder_starts_in_equilibrium(areas, given):
    cylinder = replace(CYLINDER, area_a=areas[0], area_b=areas[1], **given)
    y = outputs(plant(Drive("a", "joint1", cylinder), SLIDE))
    scale = areas[0] * y["a_pressure_a"]
    assert_allclose(y["a_motor_force"], 0.0, atol=1e-12 * scale)
    if not given:
        assert max(y["a_pressure_a"], y["a_pressure_b"]) <= 2.1e7


# ---- friction ----


def test_stribeck_friction_equals_its_published_curve():
    # Armstrong-Helouvry 1991: F = F_c + (F_s - F_c) exp(-(v / v_s)^2) + F_v v
    law, v = Friction(1.0, 0.4, 1e-4, static=1.5, stribeck=0.01), np.geomspace(1e-3, 1.0, 30)
    expected = 1.0 + 0.5 * np.exp(-((v / 0.01) ** 2)) + 0.4 * v
    assert_allclose(-law.force(0.0, v), expected, rtol=1e-7)
    assert_allclose(law.force(0.0, -v), expected, rtol=1e-7)


# parameters of Table I in Canudas de Wit et al. 1995
LUGRE = LuGre(1.0, 1e5, np.sqrt(1e5), 0.4, 1.5, 0.001)


def test_lugre_friction_at_constant_velocity_equals_its_closed_form():
    # bend = g / K (1 - exp(-K v t / g)), and at the end F = g + viscous v
    for v in (1e-4, 1e-3, 1e-2):
        g = 1.0 + 0.5 * np.exp(-((v / 0.001) ** 2))
        for distance in (1e-6, 1e-5, 1e-4, 1e-3):
            bend = g / 1e5 * (1.0 - np.exp(-1e5 * distance / g))
            law = LUGRE.replace_parameters(bend=bend)
            rate = v * np.exp(-1e5 * distance / g)
            assert_allclose(law.rates(0.0, v)["bend"], rate, rtol=1e-9, atol=1e-12)
            expected = 1e5 * bend + np.sqrt(1e5) * rate + 0.4 * v
            assert_allclose(law.force(0.0, v), -expected, rtol=1e-9)
        assert_allclose(law.force(0.0, v), -(g + 0.4 * v), rtol=1e-9)


@pytest.mark.slow
def test_lugre_stick_slip_motion_matches_scipy_and_breaks_away_at_static_friction():
    # Canudas de Wit et al. 1995, section IV: 1 kg, spring of 2 N/m, pulled at 0.1 m/s
    drive = Drive("a", "joint1", TorqueMotor(), servo=VelocityServo(1e-9, 2.0), friction=LUGRE)
    times = np.arange(0.0, 12.0, 0.05)
    result = run(plant(drive, SLIDE), 0.05, 239, h=2e-5, a_command=0.1)

    def rates(t, x):
        q, v, z = x
        law = LUGRE.replace_parameters(bend=z)
        return [v, 2.0 * (0.1 * t - q) + law.force(q, v), law.rates(q, v)["bend"]]

    exact = solve_ivp(rates, (0, 12), np.zeros(3), "Radau", times, rtol=1e-10, atol=1e-13)
    assert_allclose(result["q"][:, 0], exact.y[0], atol=2e-4)
    spring = 2.0 * (0.1 * times - result["q"][:, 0])
    assert_allclose(spring.max(), 1.5, rtol=0.02)
    slow = np.abs(result["qd"][:, 0]) < 1e-3
    assert 0.3 < slow.mean() < 0.95  # sticks and slips


# ---- plants ----

PLANT_MODELS = {"hybrid": MODEL, "contact": MODEL}  # plants without `configuration_model`


@pytest.mark.parametrize("name", PLANTS)
def test_drive_is_equivalent_to_its_joint_force_in_every_plant(name):
    drive = Drive(
        "a", "hinge", DCMotor(0.5, 1e-3, 0.05), Gearbox(N, 0.8), friction=Friction(2.0, 0.3)
    )
    driven, free = PLANTS[name]((drive,)), PLANTS[name](())
    y = outputs(driven, a_current=1.7)
    model = getattr(free, "configuration_model", PLANT_MODELS.get(name))
    k = model.v_slices[model.joint_names.index("hinge")].start
    tau = np.zeros(next(port.size for port in free.inputs if port.name == "tau"))
    tau[k - (6 if name == "floating" else 0)] = y["a_force"]
    assert y["a_force"] != 0.0
    assert_allclose(y["qdd"], outputs(free, tau=tau)["qdd"], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", PLANTS)
def test_eigenvalues_of_every_plant_with_an_elastic_drive_are_stable(name):
    loop = CurrentLoop(1.0, 500.0)
    drive = Drive("a", "hinge", DC, Gearbox(N), loop, elasticity=Elasticity(1e3, 1.0))
    block = PLANTS[name]((drive,))
    flat = Memory(block)
    m = flat.start()
    modes = block.modes(flat.argument("x", m), flat.argument("p", m))
    assert np.all(np.isfinite(modes))
    assert np.max(np.real(modes)) < 1e-6
    assert np.max(np.abs(modes)) > 900.0


@pytest.mark.slow
def test_motion_of_an_arm_with_seven_drives_matches_radau_of_scipy():
    # L / R = 0.2 ms, current loops, servos, and harmonic drives with backlash
    motor = DCMotor(0.5, 1e-4, 0.05, 2e-5, 48.0)
    loop, servo = bandwidth_gains(motor, 2000.0), PositionServo(500.0, 300.0, 30.0)
    spring = Elasticity(1e4, 3.0, 1e7, 1e-4)
    rub = Friction(0.01, 1e-5, 5.0)
    drives = tuple(
        Drive(f"d{k}", k, motor, Gearbox(100.0, 0.9, backlash=2e-4), loop, servo, spring, None, rub)
        for k in range(7)
    )
    method = method_of("adaptive or stiff")
    memory = memory_for(RobotPlant(auto_tree(7, skew=0.7), elements=drives), method)
    evaluator, m = TracedEvaluator(memory), memory.start()
    for k in range(7):
        m[memory.where[f"d{k}_command"]] = 0.02 * (-1) ** k
    still = m.copy()

    def rates(t, x):
        still[0], still[memory.x] = t, x
        return evaluator.derivative(still)

    start, end = m[memory.x].copy(), 0.02
    exact = solve_ivp(rates, (0, end), start, "Radau", rtol=1e-9, atol=1e-11).y[:, -1]
    stepper = compiled_stepper(memory, method, longest_step(method))
    stepper.initialize(m, 0.0)
    rows = np.zeros((20, memory.size))
    assert stepper.run(m, 0.0, 1e-3, rows) == 20
    found = rows[-1][memory.x]
    touched = [abs(rows[-1][memory.where[f"d{k}_deflection"]][0]) > 1e-4 for k in range(7)]
    assert any(touched)
    assert_allclose(found, exact, rtol=1e-6, atol=1e-6)


def test_drives_of_a_differential_satisfy_its_torque_equations(rng):
    # tau_1 = n_1 (a_1 t_1 + a_2 t_2), tau_2 = n_2 (a_1 t_1 - a_2 t_2) for the motor torques t
    n, a = (2.0, 3.0), (50.0, 40.0)
    sums = JointSum((0, 1), (n[0], n[1])), JointSum((0, 1), (n[0], -n[1]))
    drives = tuple(
        Drive(name, line, TorqueMotor(), Gearbox(ratio))
        for name, line, ratio in zip("ab", sums, a, strict=True)
    )
    block = RobotPlant(planar2(), elements=drives)
    for q1, q2, t1, t2 in rng.uniform(-1, 1, (10, 4)):
        y = outputs(block, q=[q1, q2], a_command=t1, b_command=t2)
        tau = n[0] * (a[0] * t1 + a[1] * t2), n[1] * (a[0] * t1 - a[1] * t2)
        expected = outputs(RobotPlant(planar2()), q=[q1, q2], tau=tau)["qdd"]
        assert_allclose(y["qdd"], expected, rtol=1e-11)


def test_elastic_differential_conserves_energy():
    line = JointSum((0, 1), (2.0, -3.0))
    drive = Drive("a", line, TorqueMotor(1e-3), Gearbox(10.0), elasticity=Elasticity(20.0))
    block = RobotPlant(planar2(), [0.3, -0.2], [1.0, 0.5], elements=(drive,))
    drifts = []
    for h in (2e-3, 1e-3):
        E = run(block, 1e-2, 100, h=h)["energy"]
        drifts.append(np.abs(E - E[0]).max())
    assert drifts[1] < 1e-6 * abs(E[0])
    assert drifts[0] > 10.0 * drifts[1]  # fourth order


BAD = [
    (
        lambda: Drive("a", JointSum((0, 1), (1.0, 1.0)), DC),
        "acts on a JointSum, which supports neither",
    ),
    (lambda: Drive("a b", 0, DC), "must be an identifier"),
    (lambda: Drive("a", 0, 3.0), "motor of drive 'a' must be a Motor, not 3.0"),
    (lambda: Drive("a", 0, DC, None), "gearbox of drive 'a' must be a Gearbox, not None"),
    (
        lambda: Drive("a", 0, TorqueMotor(), elasticity=Elasticity(1.0)),
        "needs a positive rotor inertia, not None",
    ),
    (lambda: Drive("a", 0, DC, Gearbox(backlash=0.1)), "has backlash and needs an elasticity"),
    (
        lambda: Drive("a", 0, TorqueMotor(), current_loop=CurrentLoop(1.0, 1.0)),
        "has a TorqueMotor, which does not support a current loop",
    ),
    (lambda: Drive("a", 0, DC, servo=PositionServo(1.0)), "which need a current_loop"),
    (lambda: Gearbox(0.0), "the ratio of a Gearbox must not be zero"),
    (lambda: Gearbox(1.0, 1.5), "efficiency of a Gearbox must be positive and at most 1, not 1.5"),
    (lambda: Gearbox("100"), "ratio of a Gearbox must be a number, not '100'"),
    (lambda: Gearbox({}), "ratio of a Gearbox must be a number, not {}"),
    (lambda: Gearbox(Thermal(1.0, 1.0)), "ratio of a Gearbox must be a number, not Thermal"),
    (lambda: Gearbox(np.nan), "ratio of a Gearbox must be finite, not nan"),
    (lambda: Gearbox([100.0]), "ratio of a Gearbox must be a number, not .100.0."),
    (lambda: DCMotor(None, 1.0, 1.0), "R of a DCMotor must be a number, not None"),
    (lambda: PositionServo(1.0, kd=None), "kd of a PositionServo must be a number, not None"),
    (lambda: AffineMotor(command_limits=5.0), "command_limits of an AffineMotor must be .lower"),
    (
        lambda: AffineMotor(torque_limits=(1.0, 0.0)),
        "lower value of torque_limits of an AffineMotor",
    ),
    (lambda: bandwidth_gains(TorqueMotor(), 9.0), "needs a DCMotor or a SynchronousMotor, not a T"),
    (lambda: replace(DC, thermal=25.0), "thermal of a DCMotor must be a Thermal or None, not 25"),
    (lambda: Thermal(2.0, 20.0, 25.0, 0.00393), "give both temperatures in kelvin"),
    (
        lambda: Drive("a", 0, AffineMotor(2.0), servo=PositionServo(1.0)),
        "does not support a servo: its torque must equal its command",
    ),
    (
        lambda: Drive("a", 0, AffineMotor(integrates=True), servo=PositionServo(1.0)),
        "does not support a servo: the motor integrates its command",
    ),
    (
        lambda: Drive(
            "a",
            0,
            SynchronousMotor(0.4, 1e-3, 2e-3, 0.25, 4.0, current_d=250.0),
            current_loop=CurrentLoop(1.0, 1.0),
            servo=PositionServo(1.0),
        ),
        "does not support a servo: flux . .L_d - L_q. current_d is zero",
    ),
    (lambda: replace(CYLINDER, start_a=-1.0), "start_a of a HydraulicCylinder must be finite and"),
    (lambda: replace(CYLINDER, start_b="1e6"), "start_b of a HydraulicCylinder must be a number"),
    (lambda: Gearbox(back_efficiency=0.5), "back_efficiency of a Gearbox needs an efficiency"),
    (lambda: TorqueMotor(corner_speed=1.0), "envelope of a TorqueMotor needs torque_max"),
    (lambda: TorqueMotor(None, 1.0, None, 2.0, 1.0), "must be above corner_speed"),
    (lambda: bandwidth_gains(DC, 0.0), "bandwidth of a current loop must be positive"),
    (lambda: Friction(1.0, static=2.0), "needs both `static` and `stribeck` or neither"),
    (lambda: Friction(2.0, static=1.0, stribeck=0.1), "needs 0 < coulomb <= static"),
    (lambda: LuGre(2.0, 1.0, 1.0, static=1.0), "static of a LuGre must be at least coulomb"),
    (lambda: plant(Drive("a", 0, CYLINDER)), "a HydraulicCylinder needs a prismatic joint"),
    (lambda: Drive("a", 0, CYLINDER, Gearbox(2.0)), "which does not support a gearbox"),
    (lambda: replace(CYLINDER, tank=3e7), "must be above the tank pressure"),
    (lambda: DCMotor(0.0, 1.0, 1.0), "R of a DCMotor must be positive"),
    (lambda: plant(Drive("a", "elbow", DC)), "element 'a': model 'disc' has no joint 'elbow'"),
]


@pytest.mark.parametrize(("make", "message"), BAD, ids=[message for _, message in BAD])
def test_invalid_drives_are_rejected_at_construction(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


GEARED = plant(Drive("a", 0, TorqueMotor(2e-5), Gearbox(N, 0.8, 0.7)))
REVERSED = plant(Drive("a", 0, TorqueMotor(2e-5), Gearbox(-N)))


@pytest.mark.parametrize(
    ("block", "name", "value"),
    [
        (GEARED, "efficiency", 1.5),
        (GEARED, "back_efficiency", 1.5),
        (GEARED, "ratio", 0.0),
        (REVERSED, "ratio", 0.0),
    ],
)
def test_gearbox_values_that_generate_power_or_divide_by_zero_are_rejected(block, name, value):
    with pytest.raises(ValueError, match=f"a_gearbox_{name}"):
        System().add("robot", block, start={f"a_gearbox_{name}": value})
