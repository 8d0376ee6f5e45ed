"""One or two blocks of every kind in the library, with their direct feedthrough.

The plant, the PD controller and the sequence are not included.
"""

from dataclasses import replace
from io import StringIO

import numpy as np

from element_models import ELEMENTS, GEARED_PLANTS, GEARS, PLANTS, SPRINGS
from moved_models import crank, winch
from random_models import MODELS, random_transform, random_tree
from rigidblocks.contact import (
    BodyContact,
    BouncingBall,
    Box,
    ContactForces,
    ContactPair,
    ContactPlant,
    ContactSensor,
    GroundContact,
    HeightField,
    Plane,
    PointKinematics,
    PointSet,
    ProximitySensor,
    SoftContact,
    SoftContactPlant,
    Sphere,
)
from rigidblocks.dynamics.drives import Drive, Elasticity, Gearbox, PositionServo, VelocityServo
from rigidblocks.dynamics.force_laws import Friction, LuGre
from rigidblocks.dynamics.hydraulics import HydraulicCylinder
from rigidblocks.dynamics.motors import (
    AffineMotor,
    CurrentLoop,
    DCMotor,
    SynchronousMotor,
    Thermal,
    TorqueMotor,
)
from rigidblocks.library import (
    IMU,
    Chirp,
    ClosedLoopPlant,
    CompliantLoopClosure,
    CutLoopPlant,
    Encoder,
    ExtendedKalmanFilter,
    FeedForward,
    FloatingBasePlant,
    Frame,
    FrameKinematics,
    FrameWrenches,
    GravityCompensation,
    HybridPlant,
    InverseDynamicsController,
    InverseKinematics,
    JerkLimitedProfile,
    JointLimits,
    JointWrenches,
    LoopClosure,
    OperationalSpaceController,
    ParticleFilter,
    Playback,
    Pulse,
    QuinticProfile,
    Ramp,
    RobotPlant,
    Sine,
    Step,
    TaskSpacePD,
    TrapezoidalProfile,
    UnscentedKalmanFilter,
    Waypoints,
    WrenchSum,
)
from rigidblocks.robot.joints import Prismatic, Revolute, SixDoF, Spherical
from rigidblocks.robot.material import Material
from rigidblocks.robot.robots import five_bar, four_bar, gripper, spatial_mechanism
from sample import hand_and_block, two_boxes

RECORD = "time,a,b\n0.0,1.0,-1.0\n0.011,2.0,3.0\n0.02,-1.0,0.5\n0.09,0.0,0.25\n"
SENSOR = Frame("sensor", "body4", random_transform(np.random.default_rng(4)))
TOOL = Frame("tool", "body7", random_transform(np.random.default_rng(5)))
_rng = np.random.default_rng(6)
FLOATING = random_tree(_rng, (-1, 0, 0, 1), (SixDoF(), Revolute(), Prismatic(), Spherical()))
FLOATING_BODY = random_tree(_rng, (-1,), (SixDoF(),))
TOUCHING = replace(
    MODELS["planar2"](),
    contact=((Sphere(0.2, (0.5, 0.1, 0.0)),), (PointSet([[1.0, 0.0, 0.0], [0.9, 0.1, 0.2]]),)),
)
HARD, SHARP = (
    replace(TOUCHING, contact=((), TOUCHING.contact[1])),
    replace(TOUCHING, contact=((), (Box((0.5, 0.2, 0.3)),))),
)
SOFT = replace(
    TOUCHING,
    contact=(
        (Sphere(0.2, (0.5, 0.1, 0.0)),),
        (Box((0.5, 0.2, 0.3), material=Material("rubber", 0.9, stiffness=2e3, damping=10.0)),),
    ),
)
FELT = ("in_contact", "centre_of_pressure", "normal_force", "depth", "pressure", "left_out")
SLOPE = Plane((0.3, 1.0, -0.2), (0.1, -0.2, 0.0))
HILLS = HeightField([[0.0, 0.2, 0.1], [0.3, -0.1, 0.0]], (0.8, 0.5), (-0.4, -0.5))
TOUCHED = {(u, y) for u in ("p", "v") for y in ("f_ext", "force", "in_contact")} | {("p", "depth")}
FLANGE = Frame("flange", 5, random_transform(np.random.default_rng(3)))
GOAL = ("p_ref", "v_ref", "R_ref", "w_ref")
CONTROLLER_INPUTS = ("q_ref", "qd_ref", "qdd_ref", "q", "qd")


def _with_elements(name):
    """Yield the plant of this kind with force elements, and with gears if it supports them."""
    yield "elements", PLANTS[name](ELEMENTS)
    if name in GEARED_PLANTS:
        yield "gears", GEARED_PLANTS[name]((*SPRINGS, *GEARS))


TOWARDS = {("target", y) for y in ("y", "slope", "curvature", "remaining")}
# block, and its expected direct feedthrough
DRIVES = (
    Drive(
        "hip",
        "joint1",
        DCMotor(0.5, 1e-3, 0.05, 1e-3, 24.0, Thermal(2.0, 10.0, coefficient=0.004)),
        Gearbox(20.0, 0.9, 0.8, backlash=1e-2),
        CurrentLoop(0.5, 200.0, 8.0),
        PositionServo(50.0, 20.0, 5.0, 40.0),
        Elasticity(500.0, 1.0, 1e3, 1e-3),
        LuGre(0.5, 300.0, 3.0, 0.1, 0.8, 0.1),
        Friction(0.01, width=1.0),
    ),
    Drive(
        "knee",
        "joint2",
        SynchronousMotor(0.5, 1e-3, 2e-3, 0.01, 4.0, 1e-4, 24.0),
        Gearbox(10.0, 0.9),
        CurrentLoop(0.5, 200.0),
        VelocityServo(5.0, 20.0, 9.0),
        friction=Friction(1.0, 0.1, 0.1, static=1.5, stribeck=0.3),
    ),
)
AFFINE = (
    Drive("motor", 0, AffineMotor(command_limits=(-1.0, 1.0)), Gearbox(5.0), effort=4.0),
    Drive("servo", 1, AffineMotor(10.0, 1.0, None, 0.5, -10.0, -2.0), Gearbox(2.0)),
    Drive("brake", 0, AffineMotor(3.0, bias_velocity=-3.0, torque_limits=(-2.0, 2.0))),
    Drive(
        "valve",
        0,
        AffineMotor(3.0, time_constant=0.1, activation_limits=(-0.5, 0.5)),
    ),
    Drive("winch", 1, AffineMotor(3.0, integrates=True), Gearbox(2.0)),
)
BLOCKS = {
    "step": (Step(0.012, before=(0.5, -1.0), after=2.0), set()),
    "sine": (Sine((1.0, 0.5), (1.0, 3.0), phase=0.3, offset=(0.1, 0.0), unit="N.m"), set()),
    "ramp": (Ramp((2.0, -1.0), 0.012, (0.5, 0.0), unit=("rad", "m")), set()),
    "pulse": (Pulse(0.007, (2.0, 1.0), begin=0.004, offset=0.1), set()),
    "pulse_train": (Pulse(0.007, 2.0, period=0.011, begin=0.004), set()),
    "held_waypoints": (Waypoints((0.002, 0.01, 0.02), (1.0, 2.0, 0.5), "hold", unit="m"), set()),
    "waypoints": (
        Waypoints((0.002, 0.01, 0.02), ((1.0, 0.0), (2.0, 1.0), (0.5, 0.5)), "quintic"),
        set(),
    ),
    "chirp": (Chirp(0.5, (2.0, 20.0), 0.05, amplitude=0.4, unit="m"), set()),
    "quintic": (QuinticProfile((0.0, 1.0), (1.0, -0.5), 0.07, begin=0.01), set()),
    "jerk_limited": (JerkLimitedProfile(3.0, 40.0, 900.0, 0.005, unit="m"), TOWARDS),
    "trapezoid": (
        TrapezoidalProfile(
            (0.0, 1.0, 0.2), (1.0, -0.5, 0.2), (30.0, 2000.0, 1.0), 1e3, begin=0.005
        ),
        set(),
    ),
    "playback": (Playback(StringIO(RECORD), ("b", "a"), unit=("rad", "m")), set()),
    "computed torque": (
        InverseDynamicsController(MODELS["mixed"](), kp=100.0, kd=20.0),
        {(name, "tau") for name in CONTROLLER_INPUTS},
    ),
    "feed-forward": (
        FeedForward(MODELS["mixed"]()),
        {(name, "tau") for name in ("q_ref", "qd_ref", "qdd_ref")},
    ),
    "feed-forward of a loop": (
        FeedForward(five_bar().model, (0,)),
        {(u, y) for u in ("q_ref", "qd_ref", "qdd_ref") for y in ("tau", "missed")},
    ),
    "gravity compensation": (GravityCompensation(MODELS["mixed"]()), {("q", "tau")}),
    "inverse kinematics": (
        InverseKinematics(MODELS["six-axis"](), FLANGE, lower=-0.5, gain=2.0, damping=1.0),
        {(u, "qd") for u in ("p_ref", "v_ref", "R_ref", "w_ref")} | {("p_ref", "error")},
    ),
    "task space": (
        TaskSpacePD(MODELS["mixed"](), TOOL, (90.0, 80.0, 70.0), 9.0, 5.0, 0.5),
        {(u, "tau") for u in (*GOAL, "q", "qd")},
    ),
    "operational space": (
        OperationalSpaceController(MODELS["six-axis"](), FLANGE, 100.0, 20.0, regularity=0.1),
        {(u, "tau") for u in (*GOAL, "a_ref", "wd_ref", "q", "qd")},
    ),
    "kinematics": (
        FrameKinematics(MODELS["mixed"](), (TOOL, SENSOR)),
        {("q", f"{letter}_{name}") for letter in "pRvw" for name in ("tool", "sensor")}
        | {("qd", f"{letter}_{name}") for letter in "vw" for name in ("tool", "sensor")},
    ),
    "accelerated frame": (
        FrameKinematics(MODELS["planar2"](), (Frame("tip", 1),), accelerations=True),
        {("q", f"{letter}_tip") for letter in ("p", "R", "v", "a")}
        | {("qd", f"{letter}_tip") for letter in ("v", "w", "a")}
        | {("qdd", "a_tip"), ("qdd", "alpha_tip")},
    ),
    "contact forces": (
        ContactForces(TOUCHING, ("body2",)),
        {("force", "force_body2")},
    ),
    "joint wrenches": (
        JointWrenches(MODELS["branched"]()),
        {(u, y) for u in ("q", "qd", "qdd", "f_ext") for y in ("f", "f_base")},
    ),
    "frame wrenches": (
        FrameWrenches(MODELS["mixed"](), (TOOL, SENSOR)),
        {(u, "f_ext") for u in ("q", "wrench_tool", "wrench_sensor")},
    ),
    "wrench sum": (
        WrenchSum(MODELS["planar2"](), 3),
        {(f"f_ext{k}", "f_ext") for k in (1, 2, 3)},
    ),
    "actuator": (
        RobotPlant(
            MODELS["planar2"](),
            elements=tuple(
                Drive(
                    f"motor{k}",
                    k,
                    TorqueMotor(1e-3, 3.0, 5e-3),
                    Gearbox(50.0 - 30.0 * k),
                    friction=Friction(1.0 + k, 0.4, 0.01),
                )
                for k in range(2)
            ),
        ),
        {("tau", "qdd")},
    ),
    "affine motors": (
        RobotPlant(MODELS["planar2"](), elements=AFFINE),
        {(f"{name}_command", "qdd") for name in ("motor", "servo", "brake")}
        | {
            (f"{name}_command", f"{name}_{y}")
            for name in ("motor", "servo", "brake")
            for y in ("force", "torque")
        }
        | {("tau", "qdd")},
    ),
    "hydraulic cylinder": (
        RobotPlant(
            replace(MODELS["pendulum"](), joint=(Prismatic(),)),
            elements=(
                Drive(
                    "boom",
                    0,
                    HydraulicCylinder(  # values of the order 1, for the tests of derivatives
                        0.5, 0.3, 9.0, 2.0, 30.0, 10.0, 1.0, 1.0, 20.0, 0.01, -4.0, 0.1
                    ),
                    friction=Friction(20.0, 200.0, 0.1),
                ),
            ),
        ),
        {("tau", "qdd")},
    ),
    "drives": (
        RobotPlant(MODELS["planar2"](), elements=DRIVES),
        {("tau", "qdd"), ("hip_command", "hip_voltage")}
        | {("knee_command", f"knee_applied_voltage_{axis}") for axis in "dq"},
    ),
    "encoder": (
        Encoder((1e-3, 2e-4), 2e-3, prismatic=(False, True)),
        {("q", "q_meas"), ("q", "qd_meas")},
    ),
    "kalman filter": (
        ExtendedKalmanFilter(
            RobotPlant(MODELS["pendulum"](), q0=0.3),
            "q",
            {"q": 1e-2},
            2e-3,
            process_noise={"qd": 0.5},
            deviation={"q": 0.1, "qd": 0.2},
            gate=5.0,
        ),
        {("q_measured", y) for y in ("q", "qd", "covariance", "innovation")},
    ),
    "unscented filter": (
        UnscentedKalmanFilter(
            RobotPlant(MODELS["pendulum"](), q0=0.3),
            "q",
            {"q": 1e-2},
            2e-3,
            process_noise={"qd": 0.5},
            deviation={"q": 0.1, "qd": 0.2},
            gate=5.0,
        ),
        {("q_measured", y) for y in ("q", "qd", "covariance", "innovation")},
    ),
    "particle filter": (
        ParticleFilter(
            RobotPlant(MODELS["pendulum"](), q0=0.3),
            "q",
            {"q": 1e-2},
            2e-3,
            process_noise={"qd": 0.5},
            deviation={"q": 0.1, "qd": 0.2},
            gate=5.0,
            particles=20,
        ),
        {
            (u, y)
            for u in ("tau", "q_measured")
            for y in ("q", "qd", "covariance", "innovation", "effective_sample_size")
        },
    ),
    "imu": (
        IMU(MODELS["mixed"](), TOOL),
        {(name, "accelerometer") for name in ("q", "qd", "qdd")} | {("q", "gyro"), ("qd", "gyro")},
    ),
    "hybrid plant": (
        HybridPlant(MODELS["mixed"](), ("joint3", 5), kp=100.0, kd=(20.0, 10.0), q0=0.2),
        {(u, y) for u in ("tau", "q_ref", "qd_ref", "qdd_ref") for y in ("qdd", "tau_prescribed")},
    ),
    "points": (
        PointKinematics(TOUCHING),
        {("q", "p"), ("q", "v"), ("qd", "v"), ("qd", "w")},
    ),
    "ground": (GroundContact(HARD, 1e3, 20.0, 0.5, SLOPE, D_t=30.0), TOUCHED),
    "sampled ground": (
        GroundContact(TOUCHING, 1e4, 20.0, 0.5, Sphere(0.7, (0.1, 0.0, -0.6)), sample_time=2e-3),
        TOUCHED | {("w", "f_ext"), ("w", "force"), ("w", "in_contact")},
    ),
    "hard ground": (
        GroundContact(SHARP, 1e3, 20.0, 0.5, HILLS, depth_ref=1e-2, sample_time=1e-3),
        TOUCHED,
    ),
    "bouncing ball": (BouncingBall(1.2, -0.3), set()),
    "contact of bodies": (
        BodyContact(
            TOUCHING,
            (ContactPair(0, -1, SLOPE), ContactPair(1, 0, Box((3.0, 1.0, 1.0)))),
            1e3,
            20.0,
            0.5,
            D_t=30.0,
        ),
        {(u, y) for u in ("q", "qd") for y in ("f_ext", "force", "in_contact")} | {("q", "depth")},
    ),
    "rigid contact": (two_boxes(), set()),
    "a robot in rigid contact": (hand_and_block(), set()),
    "proximity in rigid contact": (
        ProximitySensor(gripper(), (ContactSensor("near", "block"),), 2e-3),
        {("q", "near_distance"), ("q", "near_on_one"), ("q", "near_on_other")},
    ),
    "joint limits": (
        JointLimits(MODELS["planar2"](), (-0.2, -np.inf), (0.1, 0.3), 200.0, (5.0, 1.0)),
        {(u, y) for u in ("q", "qd") for y in ("tau", "at_limit")},
    ),
    "contact plant": (
        ContactPlant(RobotPlant(TOUCHING, [-0.5, 0.3]), 1e3, 20.0, 0.5, SLOPE),
        {("tau", "qdd")},
    ),
    "soft contact plant": (
        SoftContactPlant(RobotPlant(SOFT, [-0.5, 0.3]), 1e3, 20.0, 0.5, (SLOPE,)),
        {("tau", "qdd")},
    ),
    "soft contact": (
        SoftContact(SOFT, 1e3, 20.0, 0.5, (SLOPE,)),
        {(u, y) for u in ("q", "qd") for y in ("f_ext", *FELT)},
    ),
    "closed loop plant": (
        ClosedLoopPlant(
            spatial_mechanism(five_bar()).model,
            five_bar().q0,
            external_wrenches=True,
            loop_forces=True,
        ),
        {(u, y) for u in ("tau", "f_ext", "loop_tau") for y in ("qdd", "lam")},
    ),
    "cut loop plant": (
        CutLoopPlant(*four_bar()),
        {("tau", "qdd"), ("lam", "qdd"), ("tau", "b")},
    ),
    "loop closure": (
        LoopClosure(four_bar().model, 0.01),
        {(u, "lam") for u in ("A", "b", "delta", "rate")}
        | {("A", "rank"), ("delta", "rank"), ("delta", "loop_error")},
    ),
    "springs in a loop": (
        CompliantLoopClosure(four_bar().model, 1e3, 20.0),
        {(u, y) for u in ("q", "qd") for y in ("f_ext", "lam")} | {("q", "delta")},
    ),
    "moved crank": (RobotPlant(crank(), [-0.3], [0.5]), {("tau", "qdd")}),
    "winch": (ClosedLoopPlant(winch(), [0.0, 0.0], [0.0, 0.1]), {("tau", "qdd"), ("tau", "lam")}),
    "independent loop plant": (
        ClosedLoopPlant(*four_bar(), stabilization="independent", independent=(0,)),
        {("tau", "qdd"), ("tau", "lam")},
    ),
    "loop plant that keeps its energy": (
        ClosedLoopPlant(*four_bar(), keep_energy=True),
        {("tau", "qdd"), ("tau", "lam")},
    ),
    "stabilized loop plant": (
        ClosedLoopPlant(*four_bar(), stabilization="baumgarte", T_stab=0.05),
        {("tau", "qdd"), ("tau", "lam")},
    ),
    **{
        f"{name} plant with {what}": (
            plant,
            {(u, y) for u in inputs for y in outputs},
        )
        for name, inputs, outputs in (
            ("tree", ("tau",), ("qdd",)),
            ("hybrid", ("tau", "q_ref", "qd_ref", "qdd_ref"), ("qdd", "tau_prescribed")),
            ("floating", ("tau",), ("acceleration", "qdd")),
            ("closed loop", ("tau",), ("qdd", "lam")),
            ("contact", ("tau",), ("qdd",)),
        )
        for what, plant in _with_elements(name)
    },
    "floating plant": (
        FloatingBasePlant(
            FLOATING, (1.0, 0.5, 0.0, -0.2), 0.1, (1.0, -2.0, 0.5, 0.1, 0.2, 0.3), qd0=0.5
        ),
        {("tau", "acceleration"), ("tau", "qdd")},
    ),
    "floating body": (
        FloatingBasePlant(
            FLOATING_BODY, velocity0=(1.0, -2.0, 0.5, 0.1, 0.2, 0.3), external_wrenches=True
        ),
        {("f_ext", "acceleration")},
    ),
}
