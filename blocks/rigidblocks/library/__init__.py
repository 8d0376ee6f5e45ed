"""The blocks."""

from rigidblocks.library.actuators import JointActuator
from rigidblocks.library.body_contact import BodyContact
from rigidblocks.library.closed_loop_plant import ClosedLoopPlant
from rigidblocks.library.contact_plant import ContactPlant
from rigidblocks.library.controllers import PDController
from rigidblocks.library.floating_plant import FloatingBasePlant
from rigidblocks.library.ground_contact import GroundContact, PointKinematics
from rigidblocks.library.hybrid_plant import HybridPlant
from rigidblocks.library.joint_limits import JointLimits
from rigidblocks.library.kinematics import Frame, FrameKinematics
from rigidblocks.library.loop_closure import CompliantLoopClosure, CutLoopPlant, LoopClosure
from rigidblocks.library.model_based import GravityCompensation, InverseDynamicsController
from rigidblocks.library.plant import RobotPlant
from rigidblocks.library.playback import Playback
from rigidblocks.library.profiles import QuinticProfile, TrapezoidalProfile
from rigidblocks.library.sensors import IMU, Encoder
from rigidblocks.library.sources import Chirp, RepeatingSequence, Sine, Step

__all__ = [
    "IMU",
    "BodyContact",
    "Chirp",
    "ClosedLoopPlant",
    "CompliantLoopClosure",
    "ContactPlant",
    "CutLoopPlant",
    "Encoder",
    "FloatingBasePlant",
    "Frame",
    "FrameKinematics",
    "GravityCompensation",
    "GroundContact",
    "HybridPlant",
    "InverseDynamicsController",
    "JointActuator",
    "JointLimits",
    "LoopClosure",
    "PDController",
    "Playback",
    "PointKinematics",
    "QuinticProfile",
    "RepeatingSequence",
    "RobotPlant",
    "Sine",
    "Step",
    "TrapezoidalProfile",
]
