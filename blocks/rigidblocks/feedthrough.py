"""What depends on what in a block, read off the trace."""

from rigidblocks.block import Port
from rigidblocks.flat import FlatBlock
from rigidblocks.spatial import Array
from rigidblocks.trace import Graph, trace


def after_sample(flat: FlatBlock) -> Graph:
    """The graph from the memory to the memory after a sample instant, its outputs computed."""
    return _after(flat, "update")


def after_start(flat: FlatBlock) -> Graph:
    """The graph from the start values to the memory after the start of a run, its outputs computed."""
    return _after(flat, "initial")


def rates(flat: FlatBlock) -> Graph:
    """The graph from the memory to the rates of the continuous states."""
    return trace("rates", lambda m: {"rates": flat.derivative(m)}, {"memory": (flat.size,)})


def feedthrough(flat: FlatBlock) -> frozenset[tuple[str, str]]:
    """The pairs (input, output) of port names where the output reads the input at the same instant.

    An output held between samples counts, for at a sample instant it reads its inputs.
    """
    depends = after_sample(flat).depends

    def reads(output: Port, source: Port) -> bool:
        return bool(depends[flat.where[output.name], flat.where[source.name]].any())

    block = flat.block
    return frozenset((u.name, y.name) for y in block.outputs for u in block.inputs if reads(y, u))


def _after(flat: FlatBlock, sample: str) -> Graph:
    def after(m: Array) -> dict[str, Array]:
        sampled = m.copy()
        sampled[flat.z] = getattr(flat, sample)(m)
        sampled[flat.y] = flat.output(sampled)
        return {"memory": sampled}

    return trace("after", after, {"memory": (flat.size,)})
