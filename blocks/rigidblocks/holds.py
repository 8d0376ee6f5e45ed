"""Where a system holds outputs longer than is stable."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from rigidblocks.block import Block
from rigidblocks.spatial import Array
from rigidblocks.system import System


def holds_too_long(system: System, dt: float, values: Callable[[str], Array]) -> Iterator[str]:
    """A message for each block of the system whose outputs a step of dt [s], or its own sample time, holds too long.

    `values` gives the values of an output `part.port` at the start of the run. What blocks do not know of
    (`Block.longest_hold` is infinite), and FMUs, are taken to be stable.
    """
    for name, part in system.parts.items():
        block = part.component
        if not isinstance(block, Block):
            continue
        held = max(dt, block.sample_time or 0.0)
        p = SimpleNamespace(**{port.name: part.start.get(port.name, port.start) for port in block.parameters})
        longest = block.longest_hold(_upstream(system, name, values), p)
        if held > longest:
            advice = f"take a step below {longest:.3g} s" if longest > 0 else "no step is short enough without damping"
            yield f"'{name}' holds its outputs for {held:g} s, which is unstable where the run starts: {advice}"


def _upstream(system: System, name: str, values: Callable[[str], Array]) -> SimpleNamespace:
    """The values of the inputs of a part, and of the parts from which those come at once; of one name the nearest."""
    found: dict[str, Any] = {}
    parts, seen = [name], {name}
    for part in parts:  # it grows
        for port in system.parts[part].component.inputs:
            source = system.sources.get((part, port.name))
            start = system.parts[part].start.get(port.name, port.start)
            found.setdefault(port.name, start if source is None else values(".".join(source)))
            if source is not None and source[0] not in seen and _at_once(system, *source):
                parts.append(source[0])
                seen.add(source[0])
    return SimpleNamespace(**found)


def _at_once(system: System, part: str, output: str) -> bool:
    return any(y == output for _, y in system.parts[part].feedthrough)
