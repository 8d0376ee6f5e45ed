"""The blocks."""

from rigidblocks.library.controllers import PDController
from rigidblocks.library.plant import RobotPlant
from rigidblocks.library.sources import RepeatingSequence

__all__ = ["PDController", "RepeatingSequence", "RobotPlant"]
