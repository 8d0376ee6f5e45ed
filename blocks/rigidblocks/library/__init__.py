"""The blocks."""

from rigidblocks.library.actuators import JointActuator
from rigidblocks.library.body_contact import BodyContact
from rigidblocks.library.closed_loop_plant import ClosedLoopPlant
from rigidblocks.library.contact_forces import ContactForces
from rigidblocks.library.contact_plant import ContactPlant
from rigidblocks.library.contact_sensors import ProximitySensor
from rigidblocks.library.controllers import PDController
from rigidblocks.library.delays import (
    Delay,
    RateTransition,
    TransportDelay,
    UnitDelay,
    ZeroOrderHold,
)
from rigidblocks.library.faults import Fault
from rigidblocks.library.filters import Derivative, Integrator, LowPass
from rigidblocks.library.floating_plant import FloatingBasePlant
from rigidblocks.library.ground_contact import GroundContact, PointKinematics
from rigidblocks.library.hybrid_plant import HybridPlant
from rigidblocks.library.impact import BouncingBall
from rigidblocks.library.joint_limits import JointLimits
from rigidblocks.library.joint_motors import JointMotors
from rigidblocks.library.kinematics import Frame, FrameKinematics
from rigidblocks.library.linear_systems import StateSpace, TransferFunction
from rigidblocks.library.logic import Compare, Counter, Hysteresis, Logic
from rigidblocks.library.loop_closure import CompliantLoopClosure, CutLoopPlant, LoopClosure
from rigidblocks.library.model_based import (
    FeedForward,
    GravityCompensation,
    InverseDynamicsController,
)
from rigidblocks.library.noise import Noise
from rigidblocks.library.nonlinear import DeadZone, RateLimiter, Saturation, Switch
from rigidblocks.library.pid import PID
from rigidblocks.library.plant import RobotPlant
from rigidblocks.library.playback import Playback
from rigidblocks.library.profiles import QuinticProfile, TrapezoidalProfile
from rigidblocks.library.rigid_contact_plant import RigidContactPlant
from rigidblocks.library.sensors import IMU, Encoder
from rigidblocks.library.signals import Constant, Demux, Gain, Mux, Product, Selector, Sum
from rigidblocks.library.soft_contact import SoftContact
from rigidblocks.library.soft_contact_plant import SoftContactPlant
from rigidblocks.library.sources import Chirp, RepeatingSequence, Sine, Step
from rigidblocks.library.tables import LookupTable
from rigidblocks.library.task_space import (
    InverseKinematics,
    OperationalSpaceController,
    TaskSpacePD,
)
from rigidblocks.library.world import World
from rigidblocks.library.wrenches import FrameWrenches, JointWrenches, WrenchSum

__all__ = [
    "IMU",
    "PID",
    "BodyContact",
    "BouncingBall",
    "Chirp",
    "ClosedLoopPlant",
    "Compare",
    "CompliantLoopClosure",
    "Constant",
    "ContactForces",
    "ContactPlant",
    "Counter",
    "CutLoopPlant",
    "DeadZone",
    "Delay",
    "Demux",
    "Derivative",
    "Encoder",
    "Fault",
    "FeedForward",
    "FloatingBasePlant",
    "Frame",
    "FrameKinematics",
    "FrameWrenches",
    "Gain",
    "GravityCompensation",
    "GroundContact",
    "HybridPlant",
    "Hysteresis",
    "Integrator",
    "InverseDynamicsController",
    "InverseKinematics",
    "JointActuator",
    "JointLimits",
    "JointMotors",
    "JointWrenches",
    "Logic",
    "LookupTable",
    "LoopClosure",
    "LowPass",
    "Mux",
    "Noise",
    "OperationalSpaceController",
    "PDController",
    "Playback",
    "PointKinematics",
    "Product",
    "ProximitySensor",
    "QuinticProfile",
    "RateLimiter",
    "RateTransition",
    "RepeatingSequence",
    "RigidContactPlant",
    "RobotPlant",
    "Saturation",
    "Selector",
    "Sine",
    "SoftContact",
    "SoftContactPlant",
    "StateSpace",
    "Step",
    "Sum",
    "Switch",
    "TaskSpacePD",
    "TransferFunction",
    "TransportDelay",
    "TrapezoidalProfile",
    "UnitDelay",
    "World",
    "WrenchSum",
    "ZeroOrderHold",
]
