"""Where a system holds outputs, or integrates, in longer steps than are stable, or samples what
is late.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeGuard

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Block, Port, Record, state_outputs
from rigidblocks.block.integrators import Integrator
from rigidblocks.block.written import WrittenBlock
from rigidblocks.system.part import Part
from rigidblocks.system.wiring import Wire, Wiring


def holds_too_long(wiring: Wiring, dt: float, values: Callable[[str], Array]) -> Iterator[str]:
    """A message for each block of a system whose outputs a step of dt [s], or its own sample
    time, holds too long.

    `values` gives the values of an output `part.port` at the start of the run. What blocks do not
    know of (`Block.longest_hold` is infinite), and FMUs, are taken to be stable.
    """
    for name, part in wiring.parts.items():
        block = part.component
        if not isinstance(block, Block) or type(block).longest_hold is Block.longest_hold:
            continue
        held = max(dt, block.sample_time or 0.0)
        longest = block.longest_hold(_upstream(wiring, name, values), _parameters(name, part))
        if held > longest:
            advice = (
                f"take a step below {longest:.3g} s"
                if longest > 0
                else "no step is short enough without damping"
            )
            yield (
                f"'{name}' holds its outputs for {held:g} s, which is unstable where the run "
                f"starts: {advice}; a ContinuousSystem holds nothing"
            )


def samples_late(wiring: Wiring) -> Iterator[str]:
    """A message for each block that does nothing but sample and steps before one without continuous
    states that it reads, in the order of Gauss and Seidel: a loop of samples, in which it takes the
    values of the step before, and so those of the sample before. A plant whose step is written in C
    is to take these: its inputs are held from the sample before.
    """
    place = {name: k for k, name in enumerate(wiring.stepping_order)}
    late = {(b, a) for (a, _), (b, _), *_ in wiring.connections if place[b] < place[a]}
    for b, a in sorted(late):
        sampler, source = wiring.parts[b].component, wiring.parts[a].component
        if not isinstance(sampler, Block) or not isinstance(source, Block):
            continue
        holds = isinstance(sampler, WrittenBlock) and not sampler.reads_at_once
        sampled = sampler.sample_time is not None and not sampler.states
        if sampled and not holds and not source.states:
            yield (
                f"'{b}' samples '{a}', which reads it, before that has stepped: around their loop "
                "values come a sample later than the blocks say; write the loop as one block"
            )


def steps_too_long(wiring: Wiring, dt: float, values: Callable[[str], Array]) -> Iterator[str]:
    """A message for each block whose explicit method of fixed steps is unstable for the eigenvalues
    that it may come to (`Block.modes`).
    """
    for name, part in wiring.parts.items():
        block, (method, h) = part.component, part.stepping
        if not isinstance(block, Block) or not _has_known_limit(method):
            continue
        if type(block).modes is Block.modes:
            continue
        shown = {port: values(wiring.whole_name(name, port)) for port in state_outputs(block)}
        modes = block.modes(Record(shown, "state", f"block '{name}'"), _parameters(name, part))
        if grows(method, min(h, dt) * modes):
            fastest = float(np.abs(modes).max())
            yield (
                f"'{name}' is integrated by {method.name} in steps of {min(h, dt):g} s, with which "
                f"its stiffest springs or dampers, of {fastest:.3g} /s, are unstable: take steps "
                f"below {longest_step(method, modes):.3g} s, a linearly implicit method or an "
                "adaptive one"
            )


def _has_known_limit(method: Any) -> TypeGuard[Integrator]:
    """Whether a method is explicit, of fixed steps, and the same for positions and velocities."""
    fixed = isinstance(method, Integrator)
    return fixed and method.implicit is None and method.a_position is None


def _parameters(name: str, part: Part) -> Record:
    """The parameters of a block at the start."""
    ports = part.component.parameters if isinstance(part.component, Block) else ()
    given = {port.name: part.start.get(port.name, port.start) for port in ports}
    return Record(given, "parameter", f"block '{name}'")


def grows(method: Integrator, z: Array) -> bool:
    """Whether a step by an explicit method makes a tenth more, or more than that, of a mode with
    eigenvalue times step z: |R(z)| > 1.1 of R(z) = 1 + z b^T (1 - z A)^-1 1.
    """
    if not len(z):
        return False
    s = method.stages
    A = np.array([[*row, *[0.0] * (s - len(row))] for row in method.a])
    b, ones = np.array(method.b), np.ones(s)
    z = np.minimum(z.real, 0.0) + 1j * z.imag
    factors = [1 + one * (b @ np.linalg.solve(np.eye(s) - one * A, ones)) for one in z]
    return bool(np.any(np.abs(factors) > 1.1))


def longest_step(method: Integrator, modes: Array) -> float:
    """The longest step [s] with which no mode grows, to a percent."""
    h = 4.0 / float(np.abs(modes).max())
    while grows(method, h * modes):
        h *= 0.99
    return h


def _upstream(wiring: Wiring, name: str, values: Callable[[str], Array]) -> Record:
    """The values of the inputs of a part, and of the parts from which those come at once; of one
    name the nearest.
    """
    found: dict[str, Any] = {}
    parts, seen = [name], {name}
    for part in parts:  # it grows
        for port in wiring.parts[part].component.inputs:
            wires = [wire for wire in wiring.wires_to(part) if wire.target[1] == port.name]
            start = wiring.parts[part].start.get(port.name, port.start)

            def read(wire: Wire) -> Array:
                return values(wiring.whole_name(*wire.source))

            found.setdefault(port.name, _read(port, start, wires, read))
            for source in dict.fromkeys(wire.source for wire in wires):
                if source[0] not in seen and _at_once(wiring, *source):
                    parts.append(source[0])
                    seen.add(source[0])
    return Record(found, "input", f"block '{name}'")


def _read(port: Port, start: Any, wires: list[Wire], values: Callable[[Wire], Array]) -> Any:
    """The values of an input: what its wires bring, and elsewhere its start values."""
    if not wires:
        return start
    flat = np.array(np.broadcast_to(0.0 if start is None else start, port.shape)).ravel()
    for wire in wires:
        _, _, begin, to, length = wire
        flat[to : to + length] = np.ravel(values(wire))[begin : begin + length]
    return flat.reshape(port.shape)


def _at_once(wiring: Wiring, part: str, output: str) -> bool:
    return any(y == output for _, y in wiring.parts[part].feedthrough)
