"""FMUs that run in this process, of either kind."""

from rigidblocks.simulation.exchange_instance import ExchangeInstance
from rigidblocks.simulation.fmu_instance import FmuInstance, RunningFmu
from rigidblocks.system.fmu import Fmu
from rigidblocks.system.fmu_file import CO_SIMULATION
from rigidblocks.system.part import Part


def running_fmu(part: Part) -> RunningFmu:
    """A running instance of a part's FMU; raises FmuError where it cannot be had."""
    assert isinstance(part.component, Fmu)
    is_co_simulation = part.component.kind == CO_SIMULATION
    return FmuInstance(part) if is_co_simulation else ExchangeInstance(part)
