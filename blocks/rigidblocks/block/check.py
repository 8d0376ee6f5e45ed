"""What every block is checked for when it is made."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from rigidblocks.block.port import Port
from rigidblocks.block.record import near, offer

KINDS = ("inputs", "outputs", "states", "sampled", "parameters")
Ports = dict[str, tuple[Port, ...]]


def check(block: Any, base: type) -> None:
    """Raises TypeError or ValueError, naming the block, for what no block may be.

    Its ports are tuples of ports with names of their own, states and parameters have start values,
    rates name states, outputs that are states have their shape, the sample time is positive, and
    there is a function for what is to be computed: one that `base` does not have.
    """
    where = f"block '{type(block).__name__}'"
    parameters = getattr(type(block), "__dataclass_params__", None)
    if parameters is not None and not parameters.frozen:
        raise TypeError(f"{where} can be changed; write @dataclass(frozen=True) above its class")
    T = block.sample_time
    if T is not None and not (np.isfinite(T) and T > 0):
        raise ValueError(f"{where}: the sample_time must be positive, not {T} s")
    try:
        ports = {kind: getattr(block, kind) for kind in KINDS}
    except ValueError as error:  # of a port, or of what the block makes of its fields
        raise ValueError(f"{where}: {error}") from error
    for problem in _wrong_kinds(ports):
        raise TypeError(f"{where}: {problem}")
    functions = (_without_function(block, base, ports), _wrong_sampling(block, ports))
    for problems in (_double_names(ports), _wrong_states(ports), *functions):
        for problem in problems:
            raise ValueError(f"{where}: {problem}")


def _wrong_kinds(ports: dict[str, Any]) -> Iterator[str]:
    for kind, some in ports.items():
        if callable(some):
            yield f"{kind} is a function; write @property above it"
        elif isinstance(some, Port):
            yield f"{kind} is one port and no tuple; a comma makes it one: (Port(...),)"
        elif not isinstance(some, tuple) or not all(isinstance(port, Port) for port in some):
            yield f"{kind} must be a tuple of ports, not {some!r}"


def _double_names(ports: Ports) -> Iterator[str]:
    states = {port.name for port in (*ports["states"], *ports["sampled"])}
    kinds: dict[str, str] = {}
    for kind in ("states", "sampled", "inputs", "outputs", "parameters"):
        own: set[str] = set()
        for port in ports[kind]:
            is_state = kind == "outputs" and port.name in states and port.name not in own
            if port.name in kinds and not is_state:
                pair = dict.fromkeys((kinds[port.name], kind))
                yield f"two ports have the name '{port.name}', of the {' and the '.join(pair)}"
            kinds.setdefault(port.name, kind)
            own.add(port.name)


def _wrong_states(ports: Ports) -> Iterator[str]:
    names = [port.name for port in ports["states"]]
    states = {port.name: port for port in (*ports["states"], *ports["sampled"])}
    for what, some in (("state", states.values()), ("parameter", ports["parameters"])):
        for port in some:
            if port.start is None:
                yield f"the {what} '{port.name}' needs a start value: Port(..., start=0.0)"
    for port in ports["states"]:
        if port.rate is not None and (port.rate not in names or port.rate == port.name):
            others = offer(port.rate, (name for name in names if name != port.name))
            yield f"the rate '{port.rate}' of the state '{port.name}' is no other state; {others}"
    for port in ports["outputs"]:
        if port.name in states and port.shape != states[port.name].shape:
            yield (
                f"the output '{port.name}' of shape {port.shape} is the state of that name, which "
                f"has shape {states[port.name].shape}"
            )


def _wrong_sampling(block: Any, ports: Ports) -> Iterator[str]:
    if block.sample_time is None and ports["sampled"]:
        names = ", ".join(port.name for port in ports["sampled"])
        yield f"the sampled states {names} need a sample_time [s], which is a field of the block"


def _without_function(block: Any, base: type, ports: Ports) -> Iterator[str]:
    states = {port.name for port in (*ports["states"], *ports["sampled"])}
    computed = tuple(port for port in ports["outputs"] if port.name not in states)
    needs = {"derivative": ports["states"], "update": ports["sampled"], "output": computed}
    for function, some in needs.items():
        if some and getattr(type(block), function) is getattr(base, function):
            names = ", ".join(port.name for port in some)
            own = [name for name in dir(type(block)) if not hasattr(base, name)]
            yield f"no function {function}, which has to return: {names}{near(function, own)}"
