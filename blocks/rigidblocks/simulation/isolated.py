"""An FMU in a process of its own: what it does to its process, it does to that one alone."""

import os
import signal
import socket
import subprocess
import sys

from rigidblocks.simulation.distant import DistantInstance, Host
from rigidblocks.system.fmu import FmuError
from rigidblocks.system.messages import Channel
from rigidblocks.system.part import Part

_GRACE = 5.0  # s that the process gets to end by itself


def isolated_fmu(part: Part) -> DistantInstance:
    """A running instance of a part's FMU in a process of its own."""
    if os.name != "posix":
        raise FmuError(f"'{part.name}': FMUs cannot be isolated on this platform")
    return DistantInstance(part, OwnProcess())


class OwnProcess(Host):
    """A process for one FMU, at the other end of a pipe."""

    place = ", in a process of its own"

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self.channel = Channel(ours)
        with theirs:
            command = [sys.executable, "-m", "rigidblocks.simulation.service"]
            self._process = subprocess.Popen(
                [*command, str(theirs.fileno())], pass_fds=(theirs.fileno(),)
            )

    def ending(self) -> str:
        try:
            code = self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            return "closed its connection"
        if code < 0:
            return f"crashed: its process was ended by signal {-code} ({signal.strsignal(-code)})"
        return f"ended its process with exit code {code}"

    def abandon(self) -> None:
        self._process.kill()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None and not self.channel.is_closed

    def close(self) -> None:
        self.channel.close()
        try:
            self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
