"""Start values of a run, of which some numbers are given."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from rigidblocks.block.block import Port
from rigidblocks.system.selection import Selection, selected, split, whole
from rigidblocks.system.wiring import Wiring


def start_of(wiring: Wiring, given: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The start values of a run by `part.port`; where an element is given, such as `pd.kp[1]`, the
    others are as they are. A name that there is not is left, to be refused with those there are.
    """
    start: dict[str, Any] = {}
    for name, value in given:
        part, rest = wiring.located(name)
        port_name, index = split(rest)
        ports = () if index is None else _ports(wiring, part)
        port = next((port for port in ports if port.name == port_name), None)
        if index is None or port is None:
            start[name] = value
            continue
        key = wiring.whole_name(part, port_name)
        base = start.get(key, wiring.parts[part].start.get(port_name, port.start))
        values = np.array(np.zeros(port.shape) if base is None else base, dtype=float)
        values.reshape(-1)[list(selected(port, index, name).places)] = np.ravel(value)
        start[key] = values
    return start


def startable(wiring: Wiring, part: str) -> dict[str, Port]:
    """The ports of a part that have start values, as they are in the system; none of a part that
    there is not.
    """
    return {
        port.name: _started(port, wiring.parts[part].start.get(port.name))
        for port in _ports(wiring, part)
    }


def _ports(wiring: Wiring, part: str) -> Iterator[Port]:
    """The ports of a part that have start values, without those that it has in the system."""
    if part in wiring.parts:
        of = wiring.parts[part].component
        yield from of.inputs
        for kind in ("states", "sampled", "parameters"):
            yield from getattr(of, kind, ())


def numbers_of(wiring: Wiring, name: str) -> tuple[str, Selection]:
    """The part, and the elements of its port, that a name such as `pd.kp` or `pd.kp[1]` is.

    Raises KeyError and ValueError for a name that there is not.
    """
    part, rest = wiring.located(name)
    ports = startable(wiring, part)
    port_name, index = split(rest)
    if port_name not in ports:
        wiring.started({name: 0.0})  # raises with the names that there are
        raise KeyError(f"'{name}' has no start value")
    port = ports[port_name]
    return part, whole(port) if index is None else selected(port, index, name)


def _started(port: Port, start: Any) -> Port:
    return port if start is None else replace(port, start=start)
