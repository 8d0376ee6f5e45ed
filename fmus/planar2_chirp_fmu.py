"""A command of rising frequency for the planar robot of two links."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import Chirp


class Planar2Chirp(BlockSlave):
    """From 0.1 to 5 Hz in ten seconds."""

    def __init__(self, **kwargs):
        super().__init__(Chirp(f0=0.1, f1=5.0, duration=10.0, amplitude=(0.2, 0.1)), **kwargs)
