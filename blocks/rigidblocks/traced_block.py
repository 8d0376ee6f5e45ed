"""A block whose functions are traced once, for all that is made of their graphs."""

from dataclasses import dataclass
from functools import cached_property

from rigidblocks.flat import FlatBlock
from rigidblocks.spatial import Array
from rigidblocks.trace import Graph, trace


@dataclass(frozen=True, eq=False)
class TracedBlock(FlatBlock):
    """A flat block that is run by the graphs of its functions, on numbers and in other traces.

    Both are much faster than the functions themselves, and give the same numbers but for rounding.
    """

    @classmethod
    def of(cls, flat: FlatBlock) -> "TracedBlock":
        """`flat` itself if it is one, else a new one of the same block."""
        return flat if isinstance(flat, cls) else cls(flat.block, flat.tunable)

    @cached_property
    def _graphs(self) -> dict[str, Graph]:
        """The graph of each function, made when it is first called."""
        return {}

    def _call(self, name: str, m: Array) -> Array:
        if name not in self._graphs:
            function = getattr(super(), name)
            self._graphs[name] = trace(name, lambda m: {"out": function(m)}, {"memory": (self.size,)})
        return self._graphs[name](m)

    def derivative(self, m: Array) -> Array:
        return self._call("derivative", m)

    def project(self, m: Array) -> Array:
        return self._call("project", m)

    def initial(self, m: Array) -> Array:
        return self._call("initial", m)

    def update(self, m: Array) -> Array:
        return self._call("update", m)

    def output(self, m: Array) -> Array:
        return self._call("output", m)
