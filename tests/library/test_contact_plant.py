"""Contact plants, which compute ground contact in their inner steps, and joint stops."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks import planar2
from rigidblocks.block.block import record
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.integrators import INTEGRATORS
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.stepper import advance
from rigidblocks.contact import (
    Box,
    ContactForces,
    ContactPlant,
    GroundContact,
    Plane,
    PointKinematics,
    Sphere,
)
from rigidblocks.cosim.graph.block_merging import ContinuousSystem
from rigidblocks.cosim.graph.system import System
from rigidblocks.cosim.simulate import simulate
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.library import (
    ClosedLoopPlant,
    FloatingBasePlant,
    JointLimits,
    PDController,
    RobotPlant,
    Step,
)
from rigidblocks.robot.joints import Prismatic, Revolute, SixDoF
from rigidblocks.robot.model import Model
from rigidblocks.robot.robots import four_bar, quadruped, spatial_mechanism
from rigidblocks.spatial.spatial import mcI, xlt

SAME = 1e-11  # rounding of two computations of a trajectory of 0.1 s
G = 9.81
UPRIGHT = (1.0, 0.0, 0.0, 0.0)


def brick():
    """Return a free box of 0.4 x 0.3 x 0.2 m and 2 kg."""
    m, a, b, c = 2.0, 0.4, 0.3, 0.2
    I_C = m / 12 * np.diag([b * b + c * c, a * a + c * c, a * a + b * b])
    inertia = (mcI(m, np.zeros(3), I_C),)
    return Model(
        "brick", (-1,), (SixDoF(),), (xlt(np.zeros(3)),), inertia, contact=((Box((a, b, c)),),)
    )


def mass_on_rail():
    """Return a mass of 1 kg that slides along z, with a contact sphere of 0.1 m radius."""
    inertia = (mcI(1.0, np.zeros(3), 1e-3 * np.eye(3)),)
    return Model(
        "mass", (-1,), (Prismatic(),), (xlt(np.zeros(3)),), inertia, contact=((Sphere(0.1),),)
    )


def run(plant, t_stop, dt=1e-3, method="rk4"):
    """Return the outputs of a compiled run as records of the ports."""
    flat = Memory(plant)
    stepper, m = compiled_stepper(flat, INTEGRATORS[method], dt), flat.start()
    stepper.initialize(m, 0.0)
    rows = np.zeros((round(t_stop / dt), flat.size))
    assert stepper.run(m, 0.0, dt, rows) == len(rows)
    return [record(flat.ports, row[1:]) for row in rows]


@pytest.mark.slow
def test_contact_plant_matches_the_results_of_connected_robot_and_ground_blocks():
    model, law = brick(), {"K": 2e4, "D": 150.0, "mu": 0.4}
    start = [*UPRIGHT, 0.0, 0.0, 0.2]
    parts = System()
    parts.add("robot", RobotPlant(model, start, external_wrenches=True))
    parts.add("points", PointKinematics(model))
    parts.add("ground", GroundContact(model, **law))
    for source, target in (
        ("robot.q", "points.q"),
        ("robot.qd", "points.qd"),
        ("points.p", "ground.p"),
    ):
        parts.connect(source, target)
    parts.connect("points.v", "ground.v")
    parts.connect("ground.f_ext", "robot.f_ext")
    whole = run(ContinuousSystem(parts), 0.2)
    plant = run(ContactPlant(RobotPlant(model, start), **law), 0.2)
    assert plant[-1].in_contact.any()
    assert_allclose(plant[-1].q, getattr(whole[-1], "robot.q"), rtol=0, atol=SAME)


@pytest.mark.slow
def test_contact_plant_with_a_floating_base_falls_like_a_model_with_a_six_dof_joint():
    model, q = quadruped(), np.tile([0.0, 0.7, -1.4], 4)
    law = {"K": 5e3, "D": 60.0, "mu": 0.8}
    floating = ContactPlant(FloatingBasePlant(model, position0=(0.0, 0.0, 0.33), q0=q), **law)
    jointed = ContactPlant(RobotPlant(model, [*UPRIGHT, 0.0, 0.0, 0.33, *q]), **law)
    a, b = run(floating, 0.1)[-1], run(jointed, 0.1)[-1]
    assert a.in_contact.any()
    assert_allclose([*a.quaternion, *a.position, *a.q], b.q, rtol=0, atol=SAME)
    assert_allclose(a.force, b.force, rtol=0, atol=SAME * 5e3 * 60)


@pytest.mark.slow
def test_falling_box_rests_on_four_corners_and_energy_never_increases():
    K = 2e4
    y = run(ContactPlant(RobotPlant(brick(), [*UPRIGHT, 0.0, 0.0, 0.15]), K, 200.0, 0.5), 2.0)
    energy = np.array([row.energy for row in y]) + [
        K / 2 * np.sum(np.maximum(row.depth, 0.0) ** 2) for row in y
    ]
    assert np.all(np.diff(energy) < 1e-9)
    resting = y[-1].in_contact > 0
    assert resting.sum() == 4
    assert_allclose(y[-1].force[resting], [[0.0, 0.0, 2.0 * G / 4]] * 4, atol=1e-8)
    assert_allclose(y[-1].q[6], 0.1 - 2.0 * G / (4 * K), atol=1e-9)


def test_implicit_method_is_stable_for_ground_that_is_too_stiff_for_explicit_steps():
    K, D = 1e9, 1e5
    plant = ContactPlant(RobotPlant(mass_on_rail(), [0.1]), K, D)
    assert 2.5 / D < 1e-3
    y = run(plant, 0.5, method="linearly implicit euler")
    assert_allclose(y[-1].q, [0.1 - G / K], rtol=0, atol=1e-12)


def standing_quadruped():
    """Return a standing quadruped with PD control, and sensors of its foot forces."""
    model, q = quadruped(), np.tile([0.0, 0.7, -1.4], 4)
    system = System()
    robot = FloatingBasePlant(model, position0=(0.0, 0.0, 0.38), q0=q)
    system.add("plant", ContactPlant(robot, K=5e3, D=60.0, mu=0.8))
    system.add("pd", PDController([150.0] * 12, [2.0] * 12))
    system.add("stance", Step(0.0, before=tuple(q), after=tuple(q)))
    system.connect("plant.q", "pd.q")
    system.connect("plant.qd", "pd.qd")
    system.connect("stance.y", "pd.q_ref")
    system.connect("pd.tau", "plant.tau")
    system.add("feet", ContactForces(model))
    system.connect("plant.force", "feet.force")
    return system


@pytest.mark.slow
def test_quadruped_stands_under_pd_control():
    y = simulate(standing_quadruped(), 3.0, 1e-3)
    assert np.all(y["plant.in_contact"][-1] == 1.0)
    assert np.abs(y["plant.quaternion"][-1][1:]).max() < 0.05
    # impulse of the feet over the last second = weight times time + change of momentum
    last = slice(-1001, None)
    legs = [f"{end}_{side}" for end in ("front", "rear") for side in ("left", "right")]
    feet = [y[f"feet.force_{leg}_shank"] for leg in legs]
    impulse = np.trapezoid(np.sum(feet, axis=0)[last], dx=1e-3, axis=0)
    gained = y["plant.momentum"][-1][3:] - y["plant.momentum"][-1001][3:]
    assert_allclose(impulse, np.array([0.0, 0.0, 12.8 * G]) + gained, atol=1e-3)
    assert np.abs(gained).max() < 1.0
    for left, right in (feet[:2], feet[2:]):  # the robot is symmetric
        assert_allclose(left[-1] * (1, -1, 1), right[-1], atol=1e-6)


@pytest.mark.slow
def test_four_bar_loop_stays_closed_in_ground_contact():
    mechanism = spatial_mechanism(four_bar(angle=2.0))
    model = replace(mechanism.model, contact=((Sphere(0.05, (0.5, 0.0, 0.0)),), (), ()))
    ground = Plane((0.0, 1.0, 0.0), (0.0, -0.3, 0.0))
    K = 1e4
    robot = ClosedLoopPlant(model, mechanism.q0, mechanism.qd0)
    y = run(ContactPlant(robot, K, 200.0, 0.3, ground), 1.0)
    assert max(row.in_contact[0] for row in y) == 1.0
    assert max(row.loop_error for row in y) < 1e-12
    # the contact springs still store energy; sliding and damping only dissipate it
    stored = [
        K / 2 * (max(row.depth[0], 0.0) ** 2 + row.x[0] @ row.x[0] * row.in_contact[0]) for row in y
    ]
    energy = np.array([row.energy for row in y]) + stored
    assert np.all(np.diff(energy) < 1e-6)
    assert energy[-1] < energy[0] - 1.0


def test_contact_plant_without_robot_or_shapes_is_rejected():
    with pytest.raises(TypeError, match="the robot of a ContactPlant must be a RobotPlant"):
        ContactPlant(brick(), 1e4, 10.0)
    with pytest.raises(ValueError, match="has no contact shapes"):
        ContactPlant(RobotPlant(planar2()), 1e4, 10.0)


@pytest.mark.interop
def test_box_settles_at_the_same_pose_as_in_mujoco():
    mujoco = pytest.importorskip("mujoco")
    # the box falls tilted and ends flat on the plane, at a position that depends on tilt and
    # friction
    tilt = 0.3
    start = [np.cos(tilt / 2), 0.0, np.sin(tilt / 2), 0.0, 0.0, 0.0, 0.2]
    xml = f"""<mujoco><option timestep="0.0002" cone="elliptic"/><worldbody>
      <geom type="plane" size="5 5 1" friction="0.5 0 0"/>
      <body pos="0 0 0.2" quat="{start[0]} 0 {start[2]} 0"><freejoint/>
      <geom type="box" size="0.2 0.15 0.1" mass="2" friction="0.5 0 0"
        solref="-20000 -200"/></body></worldbody></mujoco>"""
    model = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, nstep=10_000)
    y = run(ContactPlant(RobotPlant(brick(), start), 2e4, 200.0, 0.5), 2.0, 2e-4)[-1]
    assert_allclose(np.abs(y.q[:4]), [1.0, 0.0, 0.0, 0.0], atol=1e-4)
    assert_allclose(np.abs(data.qpos[3:]), [1.0, 0.0, 0.0, 0.0], atol=1e-4)
    assert_allclose(y.q[6], data.qpos[2], atol=1e-3)
    assert_allclose(y.q[4:6], data.qpos[:2], atol=0.02)


def joint_with_stops(K=500.0, D=0.0, lower=-0.5, upper=0.5):
    """Return a bar on a vertical axis with stops.

    The bar and the stops form one continuous block.
    """
    bar = Model(
        "bar", (-1,), (Revolute(),), (xlt(np.zeros(3)),), (mcI(1.0, [0.5, 0, 0], np.eye(3) / 12),)
    )
    system = System()
    system.add("robot", RobotPlant(bar, qd0=[2.0]))
    system.add("stops", JointLimits(bar, lower, upper, K, D))
    system.connect("robot.q", "stops.q")
    system.connect("robot.qd", "stops.qd")
    system.connect("stops.tau", "robot.tau")
    return ContinuousSystem(system)


@pytest.mark.slow
def test_impact_on_an_undamped_joint_stop_reverses_the_velocity():
    I = 1 / 12 + 0.25
    y = run(joint_with_stops(), 1.2, 1e-4)
    q, qd = (np.array([getattr(row, f"robot.{name}")[0] for row in y]) for name in ("q", "qd"))
    assert_allclose(
        np.abs(qd[np.abs(q) < 0.499]), 2.0, atol=1e-4
    )  # the step that contains the impact has an error of h^2
    assert_allclose(np.abs(q).max() - 0.5, 2.0 * np.sqrt(I / 500.0), rtol=1e-3)


@pytest.mark.slow
def test_damped_stops_dissipate_energy_and_never_pull():
    y = run(joint_with_stops(D=5.0), 1.5, 1e-4)
    energy = np.array([getattr(row, "robot.energy") for row in y])
    q, tau = (np.array([getattr(row, name)[0] for row in y]) for name in ("robot.q", "stops.tau"))
    outside = np.abs(q) > 0.5
    assert np.all(tau * np.sign(q) <= 0.0)
    assert np.all(tau[~outside] == 0.0)
    stored = 250.0 * np.maximum(np.abs(q) - 0.5, 0.0) ** 2
    assert np.all(np.diff(energy + stored) < 1e-9)


def test_infinite_joint_limits_have_no_effect_and_reversed_limits_are_rejected():
    stops = JointLimits(planar2(), [-np.inf, -1.0], [np.inf, 1.0], 100.0, 1.0)
    flat = Memory(stops)
    m = flat.start()
    m[flat.u] = [9.0, 1.5, 1.0, 0.0]
    stops_at = record(
        flat.ports, advance(NumpyEvaluator(flat), m, 0.0, 1e-3, INTEGRATORS["rk4"], 1e-3)[1:]
    )
    assert_allclose(stops_at.tau, [0.0, -50.0])
    assert_allclose(stops_at.at_limit, [0.0, 1.0])
    with pytest.raises(
        ValueError, match=r"the upper limit -1.0 of q\[1\] must be above the lower limit 1.0"
    ):
        JointLimits(planar2(), [-1.0, 1.0], [1.0, -1.0], 1.0, 1.0)
    with pytest.raises(
        ValueError, match="do not support joints with more positions than velocities: joint1"
    ):
        JointLimits(brick(), -1.0, 1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="must not be NaN"):
        JointLimits(planar2(), np.nan, 1.0, 1.0, 1.0)
