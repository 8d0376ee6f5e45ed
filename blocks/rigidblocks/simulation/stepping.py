"""How the parts of a run are integrated: by the method of the run where they have none."""

from dataclasses import replace
from typing import Any

from rigidblocks.block.adaptive import ADAPTIVE, DEFAULT_METHOD, Method, longest_step, method_of
from rigidblocks.block.block import Block
from rigidblocks.simulation.exchange_steps import check_method
from rigidblocks.system.fmu import Fmu
from rigidblocks.system.fmu_file import MODEL_EXCHANGE
from rigidblocks.system.part import Part
from rigidblocks.system.wiring import Wiring


def stepped(wiring: Wiring, method: Method | str | None, h: float | None, **bounds: Any) -> Wiring:
    """The wiring whose blocks, of those without a method of their own, have this one; so do FMUs in
    model exchange, if it is explicit. `bounds` are rtol, atol and max_inner_steps.

    Raises ValueError where something is given and all parts are FMUs that do not take it.
    """
    given = {"method": method, "h": h, **bounds}
    named = {name: value for name, value in given.items() if value is not None}
    own = method_of(method or DEFAULT_METHOD, **bounds)
    longest_step(own, h)  # refuses one that is none
    if named and any(isinstance(part.component, Fmu) for part in wiring.parts.values()):
        wiring = _exchanged(wiring, method_of(method or ADAPTIVE, **bounds), h, named)
    return wiring.stepped_by(own, h)


def _exchanged(wiring: Wiring, method: Method, h: float | None, named: dict[str, Any]) -> Wiring:
    """The wiring whose FMUs in model exchange take what was named."""
    takers = [name for name, part in wiring.parts.items() if _takes(part)]
    if not any(isinstance(part.component, Block) for part in wiring.parts.values()):
        if not takers:
            what = ", ".join(f"{name}={value!r}" for name, value in named.items())
            raise ValueError(f"no part takes {what}: {_reason(wiring)}")
        check_method(method)
    if not _fits(method):  # it is for the blocks
        return wiring
    parts = {
        name: replace(part, method=method, h=h if part.h is None else part.h)
        if name in takers
        else part
        for name, part in wiring.parts.items()
    }
    return Wiring(parts, wiring.connections, wiring.merged)


def _takes(part: Part) -> bool:
    is_exchanged = isinstance(part.component, Fmu) and part.component.kind == MODEL_EXCHANGE
    return is_exchanged and part.method is None


def _fits(method: Method) -> bool:
    try:
        check_method(method)
    except ValueError:
        return False
    return True


def _reason(wiring: Wiring) -> str:
    """Why no FMU takes a method."""
    name, part = next(iter(wiring.parts.items()))
    if part.method is not None:
        return f"'{name}' was added with a method of its own"
    both = isinstance(part.component, Fmu) and part.component.description.modelExchange
    mend = f", or add '{name}' with kind='model exchange'" if both else ""
    return f"'{name}' is an FMU in co-simulation, which integrates itself; leave it out{mend}"
