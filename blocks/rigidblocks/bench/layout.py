"""Where a program has its numbers: the memory of a system, of whatever parts it is made."""

from collections.abc import Mapping
from dataclasses import dataclass

from rigidblocks.block.memory import Memory
from rigidblocks.block.port import Port


@dataclass(frozen=True, eq=False)
class Layout:
    """The `size` of a memory, and `where` in it the ports are, by `part.port`.

    `inputs` are those that nothing within the system gives, `parameters` those that may be changed
    while it runs.
    """

    size: int
    where: Mapping[str, slice]
    outputs: tuple[Port, ...]
    inputs: tuple[Port, ...]
    parameters: tuple[Port, ...]


def layout_of(memory: Memory) -> Layout:
    """That of a system as one block."""
    block = memory.block
    ports = block.outputs, block.inputs, tuple(memory.parameters)
    return Layout(memory.size, memory.where, *ports)
