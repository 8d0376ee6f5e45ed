"""Robot-dynamics simulation blocks for co-simulation."""

from importlib import import_module
from time import time as _time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rigidblocks.algebra.scalar import clip, less, maximum, minimum, piecewise, select
    from rigidblocks.bench.can_link import CanLink
    from rigidblocks.bench.federation import federate
    from rigidblocks.bench.program import build_runner
    from rigidblocks.bench.server import serve_fmus
    from rigidblocks.bench.shared_link import SharedLink
    from rigidblocks.bench.udp_link import UdpLink
    from rigidblocks.block.block import Block, Port
    from rigidblocks.block.dense import first_event
    from rigidblocks.block.integrators import (
        EULER,
        HEUN,
        LINEARLY_IMPLICIT_EULER,
        RK4,
        RODAS3,
        ROS2,
        SEMI_IMPLICIT_EULER,
        Integrator,
    )
    from rigidblocks.block.python_block import PythonBlock, python_block
    from rigidblocks.builder import RobotBuilder
    from rigidblocks.contact.sensor_tables import ContactSensor
    from rigidblocks.dynamics import (
        aba,
        aba_floating,
        bias_force,
        crba,
        energy,
        equivalent,
        forward_dynamics_crba,
        hybrid_dynamics,
        kinetic_energy,
        ltdl,
        ltl,
        potential_energy,
        rnea,
        rnea_floating,
    )
    from rigidblocks.dynamics.elements import AlongJoint, Between, ForceElement
    from rigidblocks.dynamics.inverse_kinematics import Target, inverse_kinematics
    from rigidblocks.dynamics.laws import Friction, Spring, Stop
    from rigidblocks.dynamics.stiction import Stiction
    from rigidblocks.dynamics.transmissions import Gear, Rotor
    from rigidblocks.fmi.export import export_fmu
    from rigidblocks.formats.json_file import save_model
    from rigidblocks.formats.load import load_model
    from rigidblocks.formats.published import puma560
    from rigidblocks.joint import (
        Cylindrical,
        EulerSpherical,
        Fixed,
        Helical,
        Joint,
        LoopJoint,
        Planar,
        Prismatic,
        RackAndPinion,
        Reversed,
        Revolute,
        SixDoF,
        Spherical,
        Universal,
    )
    from rigidblocks.kernels.derivatives import derivatives, second_derivatives
    from rigidblocks.kernels.dynamics import compiled_dynamics
    from rigidblocks.library import (
        IMU,
        BodyContact,
        BouncingBall,
        Chirp,
        ClosedLoopPlant,
        CompliantLoopClosure,
        ContactPlant,
        CutLoopPlant,
        Encoder,
        FloatingBasePlant,
        Frame,
        FrameKinematics,
        GravityCompensation,
        GroundContact,
        HybridPlant,
        InverseDynamicsController,
        InverseKinematics,
        JointActuator,
        JointLimits,
        LoopClosure,
        OperationalSpaceController,
        PDController,
        Playback,
        PointKinematics,
        ProximitySensor,
        QuinticProfile,
        RepeatingSequence,
        RigidContactPlant,
        RobotPlant,
        Sine,
        SoftContact,
        SoftContactPlant,
        Step,
        TaskSpacePD,
        TrapezoidalProfile,
        World,
    )
    from rigidblocks.loops import assemble, closed_loop_dynamics, closed_loop_inverse_dynamics
    from rigidblocks.model.floating_chain import floating_base
    from rigidblocks.model.model import Model
    from rigidblocks.model.planar import PlanarModel
    from rigidblocks.model.solids import (
        box_inertia,
        capsule_inertia,
        cylinder_inertia,
        sphere_inertia,
    )
    from rigidblocks.robots import (
        DHRow,
        auto_tree,
        auto_tree_p,
        dh_chain,
        dh_frames,
        planar2,
        planar3,
        planar_n,
    )
    from rigidblocks.simulation.batch import Batch, BatchResult, simulate_batch
    from rigidblocks.simulation.contact_events import simulate_contact
    from rigidblocks.simulation.independent_motion import move_independently
    from rigidblocks.simulation.prepare import prepare
    from rigidblocks.simulation.result import Result
    from rigidblocks.simulation.simulate import SimulationError, simulate
    from rigidblocks.ssp.load import load_system
    from rigidblocks.ssp.osp import load_osp
    from rigidblocks.ssp.save import save_system
    from rigidblocks.study.design import grid
    from rigidblocks.study.fit import fit
    from rigidblocks.study.sweep import sweep
    from rigidblocks.system.continuous import ContinuousSystem
    from rigidblocks.system.fused import FusedSystem
    from rigidblocks.system.linearization import Linearization, linearize
    from rigidblocks.system.system import System
    from rigidblocks.tracing.differentiate import jacobian
    from rigidblocks.tracing.function import compiled
    from rigidblocks.view.live import LiveView
    from rigidblocks.view.played import animate
    from rigidblocks.view.show import show
    from rigidblocks.view.simulation_page import simulation_page

__version__ = "0.1.0"
__loaded__ = _time()  # [s]: what is made of sources that change later is not kept for others

__all__ = [
    "EULER",
    "HEUN",
    "IMU",
    "LINEARLY_IMPLICIT_EULER",
    "RK4",
    "RODAS3",
    "ROS2",
    "SEMI_IMPLICIT_EULER",
    "AlongJoint",
    "Batch",
    "BatchResult",
    "Between",
    "Block",
    "BodyContact",
    "BouncingBall",
    "CanLink",
    "Chirp",
    "ClosedLoopPlant",
    "CompliantLoopClosure",
    "ContactPlant",
    "ContactSensor",
    "ContinuousSystem",
    "CutLoopPlant",
    "Cylindrical",
    "DHRow",
    "Encoder",
    "EulerSpherical",
    "Fixed",
    "FloatingBasePlant",
    "ForceElement",
    "Frame",
    "FrameKinematics",
    "Friction",
    "FusedSystem",
    "Gear",
    "GravityCompensation",
    "GroundContact",
    "Helical",
    "HybridPlant",
    "Integrator",
    "InverseDynamicsController",
    "InverseKinematics",
    "Joint",
    "JointActuator",
    "JointLimits",
    "Linearization",
    "LiveView",
    "LoopClosure",
    "LoopJoint",
    "Model",
    "OperationalSpaceController",
    "PDController",
    "Planar",
    "PlanarModel",
    "Playback",
    "PointKinematics",
    "Port",
    "Prismatic",
    "ProximitySensor",
    "PythonBlock",
    "QuinticProfile",
    "RackAndPinion",
    "RepeatingSequence",
    "Result",
    "Reversed",
    "Revolute",
    "RigidContactPlant",
    "RobotBuilder",
    "RobotPlant",
    "Rotor",
    "SharedLink",
    "SimulationError",
    "Sine",
    "SixDoF",
    "SoftContact",
    "SoftContactPlant",
    "Spherical",
    "Spring",
    "Step",
    "Stiction",
    "Stop",
    "System",
    "Target",
    "TaskSpacePD",
    "TrapezoidalProfile",
    "UdpLink",
    "Universal",
    "World",
    "aba",
    "aba_floating",
    "animate",
    "assemble",
    "auto_tree",
    "auto_tree_p",
    "bias_force",
    "box_inertia",
    "build_runner",
    "capsule_inertia",
    "clip",
    "closed_loop_dynamics",
    "closed_loop_inverse_dynamics",
    "compiled",
    "compiled_dynamics",
    "crba",
    "cylinder_inertia",
    "derivatives",
    "dh_chain",
    "dh_frames",
    "energy",
    "equivalent",
    "export_fmu",
    "federate",
    "first_event",
    "fit",
    "floating_base",
    "forward_dynamics_crba",
    "grid",
    "hybrid_dynamics",
    "inverse_kinematics",
    "jacobian",
    "kinetic_energy",
    "less",
    "linearize",
    "load_model",
    "load_osp",
    "load_system",
    "ltdl",
    "ltl",
    "maximum",
    "minimum",
    "move_independently",
    "piecewise",
    "planar2",
    "planar3",
    "planar_n",
    "potential_energy",
    "prepare",
    "puma560",
    "python_block",
    "rnea",
    "rnea_floating",
    "save_model",
    "save_system",
    "second_derivatives",
    "select",
    "serve_fmus",
    "show",
    "simulate",
    "simulate_batch",
    "simulate_contact",
    "simulation_page",
    "sphere_inertia",
    "sweep",
]

# where the names are: each is loaded when it is asked for, so that the command starts at once and a
# packaged block runs on machines without the tracer
_NAMES = {
    "algebra.scalar": "clip less maximum minimum piecewise select",
    "bench.can_link": "CanLink",
    "bench.federation": "federate",
    "bench.program": "build_runner",
    "bench.server": "serve_fmus",
    "bench.shared_link": "SharedLink",
    "bench.udp_link": "UdpLink",
    "block.block": "Block Port",
    "block.dense": "first_event",
    "block.python_block": "PythonBlock python_block",
    "block.integrators": (
        "EULER HEUN Integrator LINEARLY_IMPLICIT_EULER RK4 RODAS3 ROS2 SEMI_IMPLICIT_EULER"
    ),
    "builder": "RobotBuilder",
    "contact.sensor_tables": "ContactSensor",
    "dynamics": (
        "aba aba_floating bias_force crba energy equivalent forward_dynamics_crba "
        "hybrid_dynamics kinetic_energy ltdl ltl potential_energy rnea rnea_floating"
    ),
    "dynamics.elements": "AlongJoint Between ForceElement",
    "dynamics.inverse_kinematics": "Target inverse_kinematics",
    "dynamics.laws": "Friction Spring Stop",
    "dynamics.stiction": "Stiction",
    "dynamics.transmissions": "Gear Rotor",
    "fmi.export": "export_fmu",
    "formats.json_file": "save_model",
    "formats.load": "load_model",
    "formats.published": "puma560",
    "joint": (
        "Cylindrical EulerSpherical Fixed Helical Joint LoopJoint Planar Prismatic "
        "RackAndPinion Reversed Revolute SixDoF Spherical Universal"
    ),
    "kernels.derivatives": "derivatives second_derivatives",
    "kernels.dynamics": "compiled_dynamics",
    "library": (
        "BodyContact BouncingBall Chirp ClosedLoopPlant CompliantLoopClosure ContactPlant "
        "CutLoopPlant Encoder FloatingBasePlant Frame FrameKinematics GravityCompensation "
        "GroundContact HybridPlant IMU InverseDynamicsController InverseKinematics JointActuator "
        "JointLimits LoopClosure OperationalSpaceController PDController Playback PointKinematics "
        "ProximitySensor QuinticProfile RepeatingSequence RigidContactPlant RobotPlant Sine "
        "SoftContact SoftContactPlant Step TaskSpacePD TrapezoidalProfile World"
    ),
    "loops": "assemble closed_loop_dynamics closed_loop_inverse_dynamics",
    "model.floating_chain": "floating_base",
    "model.model": "Model",
    "model.planar": "PlanarModel",
    "model.solids": "box_inertia capsule_inertia cylinder_inertia sphere_inertia",
    "robots": "DHRow auto_tree auto_tree_p dh_chain dh_frames planar2 planar3 planar_n",
    "simulation.batch": "Batch BatchResult simulate_batch",
    "simulation.contact_events": "simulate_contact",
    "simulation.independent_motion": "move_independently",
    "simulation.prepare": "prepare",
    "simulation.result": "Result",
    "simulation.simulate": "SimulationError simulate",
    "ssp.load": "load_system",
    "ssp.osp": "load_osp",
    "ssp.save": "save_system",
    "study.design": "grid",
    "study.fit": "fit",
    "study.sweep": "sweep",
    "system.continuous": "ContinuousSystem",
    "system.fused": "FusedSystem",
    "system.linearization": "Linearization linearize",
    "system.system": "System",
    "tracing.differentiate": "jacobian",
    "tracing.function": "compiled",
    "view.live": "LiveView",
    "view.played": "animate",
    "view.show": "show",
    "view.simulation_page": "simulation_page",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'rigidblocks' has no attribute '{name}'")
    value = globals()[name] = getattr(import_module(f"rigidblocks.{_HOME[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
