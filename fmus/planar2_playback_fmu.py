"""Playback of a recorded command for the planar two-link robot."""

from io import StringIO

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import Playback

# the script contains the recorded values, because a Python FMU contains no data files
RECORD = """\
time,q1,q2
0.0,0.00,0.00
0.2,0.06,0.09
0.4,0.32,0.48
0.6,0.68,1.02
0.8,0.94,1.41
1.0,1.00,1.50
"""


class Planar2Playback(BlockSlave):
    """Recorded positions of both joints over one second."""

    def __init__(self, **kwargs):
        super().__init__(Playback(StringIO(RECORD), columns=("q1", "q2")), **kwargs)
