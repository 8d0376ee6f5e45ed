"""Robot-dynamics simulation blocks for co-simulation.

Type checkers and editors read the public names from `__init__.pyi`.
"""

import sys
from importlib import import_module
from typing import Any

from rigidblocks.common.package_info import __version__ as __version__

# names by module; each module is imported on first use, so the command starts fast and a packaged
# block runs on machines without the expression tracer
_NAMES = {
    "spatial.scalar": "select",
    "hil.build_runner": "build_runner",
    "block.block": "Block Port",
    "block.external_functions": "PythonBlock python_block",
    "robot_description.builder": "RobotBuilder",
    "dynamics": "aba crba energy rnea",
    "dynamics.force_elements": "ForceElement",
    "dynamics.kinematics": (
        "Target forward_kinematics frame_jacobian frame_pose inverse_kinematics"
    ),
    "dynamics.force_laws": "Friction Law Spring",
    "fmi.export": "export_fmu",
    "robot_description.json_file": "save_model",
    "robot_description.load": "load_model",
    "robot.joints": "Fixed LoopJoint Prismatic Revolute SixDoF Spherical",
    "kernels.framework_functions": "casadi_function export_acados jax_function torch_function",
    "kernels.compiled_dynamics": "compiled_dynamics derivatives",
    "contact": "BouncingBall ContactPlant GroundContact RigidContactPlant SoftContactPlant World",
    "library": (
        "ClosedLoopPlant FloatingBasePlant HybridPlant InverseDynamicsController PDController "
        "RepeatingSequence RobotPlant Sine Step load_policy"
    ),
    "dynamics.loops": "assemble",
    "dynamics.floating_base": "floating_base",
    "robot.model": "Model PlanarModel box_inertia sphere_inertia",
    "robot.robots": "auto_tree planar2",
    "cosim.batch_simulation": "simulate_batch",
    "cosim.results.result": "Result",
    "cosim.prepare": "prepare",
    "cosim.simulate": "SimulationError simulate",
    "fmi.ssp.load": "load_system",
    "fmi.ssp.save": "save_system",
    "studies.experiment_design": "grid",
    "studies.fit": "fit",
    "studies.sweep": "sweep",
    "studies.vector_env": "vector_env",
    "cosim.graph.block_merging": "ContinuousSystem",
    "cosim.graph.fused_system": "FusedSystem",
    "cosim.graph.linearization": "linearize",
    "cosim.graph.system": "System",
    "view.run_page": "LiveView animate",
    "view.robot_page": "show",
    "view.simulation_page": "simulation_page",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        if name.startswith("_"):  # Python protocols, which must not load a subpackage
            raise AttributeError(f"module 'rigidblocks' has no attribute '{name}'")
        return _name_of_subpackage(name)
    value = globals()[name] = getattr(import_module(f"rigidblocks.{_HOME[name]}"), name)
    return value


def _name_of_subpackage(name: str) -> Any:
    """Return the public object `name` of `library`, `contact`, `joints` or `dynamics`."""
    known = list(__all__)
    for subpackage in ("library", "contact", "robot.joints", "dynamics"):
        face = import_module(f"rigidblocks.{subpackage}")
        if name in face.__all__:
            return getattr(face, name)
        known += face.__all__
    hints = import_module("rigidblocks.common.name_hints")
    raise hints.unknown_name_error("rigidblocks", name, known, sys._getframe(2))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
