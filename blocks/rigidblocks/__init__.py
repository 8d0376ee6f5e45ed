"""Robot-dynamics simulation blocks for co-simulation."""

from importlib import import_module
from typing import Any

from rigidblocks.block import Block, Port
from rigidblocks.dynamics import aba, bias_force, crba, energy, kinetic_energy, potential_energy, rnea
from rigidblocks.integrate import EULER, HEUN, RK4, SEMI_IMPLICIT_EULER, Integrator
from rigidblocks.joint import Helical, Joint, Prismatic, Revolute
from rigidblocks.library import PDController, RepeatingSequence, RobotPlant
from rigidblocks.model import Model
from rigidblocks.robots import auto_tree, planar2, planar3, planar_n
from rigidblocks.scalar import clip, less, maximum, minimum, select

__version__ = "0.1.0"

__all__ = [
    "EULER",
    "HEUN",
    "RK4",
    "SEMI_IMPLICIT_EULER",
    "Block",
    "FusedSystem",
    "Helical",
    "Integrator",
    "Joint",
    "Model",
    "PDController",
    "Port",
    "Prismatic",
    "RepeatingSequence",
    "Result",
    "Revolute",
    "RobotPlant",
    "SimulationError",
    "System",
    "aba",
    "auto_tree",
    "bias_force",
    "clip",
    "compiled",
    "crba",
    "energy",
    "export_fmu",
    "kinetic_energy",
    "less",
    "maximum",
    "minimum",
    "planar2",
    "planar3",
    "planar_n",
    "potential_energy",
    "rnea",
    "select",
    "simulate",
]

# what needs the tracer is loaded when it is asked for: a packaged block runs on machines without it
_LAZY = {
    "FusedSystem": "fused",
    "Result": "result",
    "SimulationError": "master",
    "System": "system",
    "compiled": "compiled_function",
    "export_fmu": "fmi.export",
    "simulate": "master",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"rigidblocks.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'rigidblocks' has no attribute '{name}'")
