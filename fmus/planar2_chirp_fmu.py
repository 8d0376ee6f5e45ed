"""Sine command with increasing frequency for the planar two-link robot."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import Chirp


class Planar2Chirp(BlockSlave):
    """Chirp from 0.1 to 5 Hz in ten seconds."""

    def __init__(self, **kwargs):
        super().__init__(Chirp(f0=0.1, f1=5.0, duration=10.0, amplitude=(0.2, 0.1)), **kwargs)
