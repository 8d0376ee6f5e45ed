"""Which master a plan gets."""

import contextlib

from rigidblocks.simulation.coupled import CoupledSimulation
from rigidblocks.simulation.looped import LoopedInstances
from rigidblocks.simulation.masters import CompiledLoop, CoSimulation, Master
from rigidblocks.simulation.network import Instances, OneMemory
from rigidblocks.simulation.plan import Plan
from rigidblocks.tracing.cache import CacheError
from rigidblocks.tracing.compiler import CompilerError


def master_of(plan: Plan) -> Master:
    """The fastest master that a plan can have here. The one in Python goes back to events, steps
    what is to run in NumPy, and is there without a compiler.
    """
    if plan.form == "fused":
        return CompiledLoop(plan, OneMemory(plan))
    if not plan.coupling.is_plain:
        return CoupledSimulation(
            plan, LoopedInstances(plan) if plan.coupling.solves else Instances(plan)
        )
    network = Instances(plan)
    if plan.form == "compiled" and not plan.events:
        with contextlib.suppress(CompilerError, CacheError):
            return CompiledLoop(plan, network)
    return CoSimulation(plan, network)
