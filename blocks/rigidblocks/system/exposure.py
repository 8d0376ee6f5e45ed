"""Which signals a system shows when it is made one block, and under what names."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from rigidblocks.block.block import Port


@dataclass(frozen=True)
class Exposure:
    """The names of ports `part.port` under which they are shown, and patterns of what is hidden.

    What has a name is shown; what matches a pattern and has none is not.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()

    def name(self, port: str) -> str:
        """The name of a port in the system."""
        return self.names.get(port, port)

    def shows(self, port: str) -> bool:
        """Whether a port is shown."""
        return port in self.names or not any(fnmatchcase(port, one) for one in self.hidden)

    def shown(self, part: str, ports: Iterable[Port]) -> tuple[Port, ...]:
        """Those of a part's ports that are shown."""
        return tuple(port for port in ports if self.shows(f"{part}.{port.name}"))


EVERYTHING = Exposure()
