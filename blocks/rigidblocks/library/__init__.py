"""Library of blocks: plants without contact, controllers, signals, sensors, estimators."""

import sys
from typing import TYPE_CHECKING

from rigidblocks.common.name_hints import unknown_name_error
from rigidblocks.library.closed_loops import (
    ClosedLoopPlant,
    CompliantLoopClosure,
    CutLoopPlant,
    LoopClosure,
)
from rigidblocks.library.controllers import (
    PID,
    FeedForward,
    GravityCompensation,
    InverseDynamicsController,
    PDController,
)
from rigidblocks.library.estimators import ExtendedKalmanFilter
from rigidblocks.library.frames import (
    Frame,
    FrameKinematics,
    FrameWrenches,
    JointWrenches,
    WrenchSum,
)
from rigidblocks.library.joint_forces import JointLimits
from rigidblocks.library.linear_systems import (
    Derivative,
    Integrator,
    LowPass,
    StateSpace,
    TransferFunction,
)
from rigidblocks.library.motion_profiles import (
    JerkLimitedProfile,
    QuinticProfile,
    TrapezoidalProfile,
)
from rigidblocks.library.nonlinear_signals import (
    Compare,
    Counter,
    DeadZone,
    Hysteresis,
    Logic,
    LookupTable,
    RateLimiter,
    Saturation,
    Switch,
)
from rigidblocks.library.particle_filter import ParticleFilter
from rigidblocks.library.plants import FloatingBasePlant, HybridPlant, RobotPlant
from rigidblocks.library.policies import load_policy
from rigidblocks.library.sensors import IMU, Encoder, Fault, Noise
from rigidblocks.library.signals import (
    Constant,
    Delay,
    Demux,
    Gain,
    Mux,
    Product,
    RateTransition,
    Selector,
    Sum,
    TransportDelay,
    UnitDelay,
    ZeroOrderHold,
)
from rigidblocks.library.sources import (
    Chirp,
    Playback,
    Pulse,
    Ramp,
    RepeatingSequence,
    Sine,
    Step,
    Waypoints,
)
from rigidblocks.library.state_machine import State, StateMachine, Transition
from rigidblocks.library.task_space import (
    InverseKinematics,
    OperationalSpaceController,
    TaskSpacePD,
)
from rigidblocks.library.unscented_filter import UnscentedKalmanFilter

__all__ = [
    "IMU",
    "PID",
    "Chirp",
    "ClosedLoopPlant",
    "Compare",
    "CompliantLoopClosure",
    "Constant",
    "Counter",
    "CutLoopPlant",
    "DeadZone",
    "Delay",
    "Demux",
    "Derivative",
    "Encoder",
    "ExtendedKalmanFilter",
    "Fault",
    "FeedForward",
    "FloatingBasePlant",
    "Frame",
    "FrameKinematics",
    "FrameWrenches",
    "Gain",
    "GravityCompensation",
    "HybridPlant",
    "Hysteresis",
    "Integrator",
    "InverseDynamicsController",
    "InverseKinematics",
    "JerkLimitedProfile",
    "JointLimits",
    "JointWrenches",
    "Logic",
    "LookupTable",
    "LoopClosure",
    "LowPass",
    "Mux",
    "Noise",
    "OperationalSpaceController",
    "PDController",
    "ParticleFilter",
    "Playback",
    "Product",
    "Pulse",
    "QuinticProfile",
    "Ramp",
    "RateLimiter",
    "RateTransition",
    "RepeatingSequence",
    "RobotPlant",
    "Saturation",
    "Selector",
    "Sine",
    "State",
    "StateMachine",
    "StateSpace",
    "Step",
    "Sum",
    "Switch",
    "TaskSpacePD",
    "TransferFunction",
    "Transition",
    "TransportDelay",
    "TrapezoidalProfile",
    "UnitDelay",
    "UnscentedKalmanFilter",
    "Waypoints",
    "WrenchSum",
    "ZeroOrderHold",
    "load_policy",
]


if not TYPE_CHECKING:

    def __getattr__(name):
        if name.startswith("__"):  # Python protocols
            raise AttributeError(f"module 'rigidblocks.library' has no attribute '{name}'")
        raise unknown_name_error("rigidblocks.library", name, __all__, sys._getframe(1))
