from rigidblocks.block.block import Block, Port
from rigidblocks.block.external_functions import PythonBlock, python_block
from rigidblocks.common.package_info import __version__ as __version__
from rigidblocks.contact import (
    BouncingBall,
    ContactPlant,
    GroundContact,
    RigidContactPlant,
    SoftContactPlant,
    World,
)
from rigidblocks.cosim.batch_simulation import simulate_batch
from rigidblocks.cosim.graph.block_merging import ContinuousSystem
from rigidblocks.cosim.graph.fused_system import FusedSystem
from rigidblocks.cosim.graph.linearization import linearize
from rigidblocks.cosim.graph.system import System
from rigidblocks.cosim.prepare import prepare
from rigidblocks.cosim.results.result import Result
from rigidblocks.cosim.simulate import SimulationError, simulate
from rigidblocks.dynamics import aba, crba, energy, rnea
from rigidblocks.dynamics.floating_base import floating_base
from rigidblocks.dynamics.force_elements import ForceElement
from rigidblocks.dynamics.force_laws import Friction, Law, Spring
from rigidblocks.dynamics.kinematics import (
    Target,
    forward_kinematics,
    frame_jacobian,
    frame_pose,
    inverse_kinematics,
)
from rigidblocks.dynamics.loops import assemble
from rigidblocks.fmi.export import export_fmu
from rigidblocks.fmi.ssp.load import load_system
from rigidblocks.fmi.ssp.save import save_system
from rigidblocks.hil.build_runner import build_runner
from rigidblocks.kernels.compiled_dynamics import compiled_dynamics, derivatives
from rigidblocks.kernels.framework_functions import (
    casadi_function,
    export_acados,
    jax_function,
    torch_function,
)
from rigidblocks.library import (
    ClosedLoopPlant,
    FloatingBasePlant,
    HybridPlant,
    InverseDynamicsController,
    PDController,
    RepeatingSequence,
    RobotPlant,
    Sine,
    Step,
    load_policy,
)
from rigidblocks.robot.joints import Fixed, LoopJoint, Prismatic, Revolute, SixDoF, Spherical
from rigidblocks.robot.model import Model, PlanarModel, box_inertia, sphere_inertia
from rigidblocks.robot.robots import auto_tree, planar2
from rigidblocks.robot_description.builder import RobotBuilder
from rigidblocks.robot_description.json_file import save_model
from rigidblocks.robot_description.load import load_model
from rigidblocks.spatial.scalar import select
from rigidblocks.studies.experiment_design import grid
from rigidblocks.studies.fit import fit
from rigidblocks.studies.sweep import sweep
from rigidblocks.studies.vector_env import vector_env
from rigidblocks.view.robot_page import show
from rigidblocks.view.run_page import LiveView, animate
from rigidblocks.view.simulation_page import simulation_page

__all__ = [
    "Block",
    "BouncingBall",
    "ClosedLoopPlant",
    "ContactPlant",
    "ContinuousSystem",
    "Fixed",
    "FloatingBasePlant",
    "ForceElement",
    "Friction",
    "FusedSystem",
    "GroundContact",
    "HybridPlant",
    "InverseDynamicsController",
    "Law",
    "LiveView",
    "LoopJoint",
    "Model",
    "PDController",
    "PlanarModel",
    "Port",
    "Prismatic",
    "PythonBlock",
    "RepeatingSequence",
    "Result",
    "Revolute",
    "RigidContactPlant",
    "RobotBuilder",
    "RobotPlant",
    "SimulationError",
    "Sine",
    "SixDoF",
    "SoftContactPlant",
    "Spherical",
    "Spring",
    "Step",
    "System",
    "Target",
    "World",
    "aba",
    "animate",
    "assemble",
    "auto_tree",
    "box_inertia",
    "build_runner",
    "casadi_function",
    "compiled_dynamics",
    "crba",
    "derivatives",
    "energy",
    "export_acados",
    "export_fmu",
    "fit",
    "floating_base",
    "forward_kinematics",
    "frame_jacobian",
    "frame_pose",
    "grid",
    "inverse_kinematics",
    "jax_function",
    "linearize",
    "load_model",
    "load_policy",
    "load_system",
    "planar2",
    "prepare",
    "python_block",
    "rnea",
    "save_model",
    "save_system",
    "select",
    "show",
    "simulate",
    "simulate_batch",
    "simulation_page",
    "sphere_inertia",
    "sweep",
    "torch_function",
    "vector_env",
]
