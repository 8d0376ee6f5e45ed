"""An FMU that a server runs."""

from rigidblocks.simulation.distant import DistantInstance, Host
from rigidblocks.system.fmu import Fmu
from rigidblocks.system.part import Part
from rigidblocks.system.remote import RemoteFile


def served_fmu(part: Part) -> DistantInstance:
    """A running instance of a part's FMU at its server."""
    assert isinstance(part.component, Fmu)
    assert isinstance(part.component.path, RemoteFile)
    return DistantInstance(part, Server(part.component.path))


class Server(Host):
    """A server's process for one FMU, at the other end of a connection."""

    place = ""

    def __init__(self, file: RemoteFile) -> None:
        self.channel = file.channel()

    def ending(self) -> str:
        self.close()
        return "lost its server: the connection was closed"

    def abandon(self) -> None:
        self.close()

    @property
    def is_alive(self) -> bool:
        return not self.channel.is_closed

    def close(self) -> None:
        self.channel.close()
