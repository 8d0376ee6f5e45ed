"""Linearisation of blocks and systems at an operating point."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from rigidblocks.block import Block, Port, finite
from rigidblocks.continuous import ContinuousSystem
from rigidblocks.differentiation import block_diagonal, jacobian
from rigidblocks.flat import FlatBlock
from rigidblocks.spatial import Array
from rigidblocks.system import System
from rigidblocks.trace import Graph, trace


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class Linearization:
    """A linear system near the operating point (x, u, y) at t [s], in the deviations from that point:

        d(dx)/dt = A dx + B du + residual        dy = C dx + D du        where dt is None
        dx[k+1]  = A dx[k] + B du[k] + residual  dy = C dx + D du        with the sample time dt [s] otherwise

    The residual is the rate of change of the states at the point (their change in a sample, when sampled), zero at an
    equilibrium. An entry of C and D has the unit of its row (an output) per unit of its column (a state or an input); so
    has one of A and B, and where dt is None it is per s as well.

    A configuration q with quaternions has tangent coordinates here, q_tangent[1] and so on: what qd is the rate of, zero at
    the point. `x` has the states as they are.

    It unpacks as A, B, C, D, and dt when sampled: for python-control, `control.ss(*linear)`.
    """

    A: Array
    B: Array
    C: Array
    D: Array
    dt: float | None
    state_names: tuple[str, ...]
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    state_units: tuple[str, ...]
    input_units: tuple[str, ...]
    output_units: tuple[str, ...]
    t: float
    x: Array
    u: Array
    y: Array
    residual: Array

    def __iter__(self) -> Iterator[Any]:
        return iter((self.A, self.B, self.C, self.D) if self.dt is None else (self.A, self.B, self.C, self.D, self.dt))


def linearize(
    target: Block | System,
    *,
    at: Mapping[str, Any] | None = None,
    t: float = 0.0,
    inputs: Iterable[str] | None = None,
    outputs: Iterable[str] | None = None,
) -> Linearization:
    """The linearisation of a block, or of a system of continuous blocks, with exact derivatives.

    `at` has the states, inputs and parameters of the operating point by port name (`part.port` in a system); what it
    leaves out is at its start value, an input without one at zero. `inputs` and `outputs` name the ports that the result
    keeps, all by default.

    A sampled block gives the discrete-time system of its sample time, where x is the state before a sample instant and y
    the outputs after it, as they are in every run; for a sampled system give `FusedSystem(system, dt)`. Whether the point
    is an equilibrium is not asked: the residual tells.

    Raises KeyError for a name in `at`, `inputs` or `outputs` that there is not, and ValueError for a value of another
    shape or not finite, for a block with both continuous and sampled states, for sampled quaternions, and for a system
    that `ContinuousSystem` refuses.
    """
    flat = FlatBlock(ContinuousSystem(target) if isinstance(target, System) else target)
    _refuse(flat)
    block = flat.block
    states = block.sampled or block.states
    u_ports, y_ports = _chosen("input", block.inputs, inputs), _chosen("output", block.outputs, outputs)
    m = _operating_point(flat, at or {}, t)
    graph = _after(flat, u_ports, y_ports)
    x, u = m[flat.x.start : flat.z.stop], m[_places(flat, u_ports)]
    change, y = np.split(graph(np.concatenate([m, u])), [len(x)])
    A, B, C, D = _matrices(graph, np.concatenate([m, u]))
    E, E_rate, state_names, state_units = _coordinates(flat, states, m, change)
    inverse = np.linalg.pinv(E) if len(E) > E.shape[1] else E
    return Linearization(
        A=inverse @ (A @ E - E_rate),
        B=inverse @ B,
        C=C @ E,
        D=D,
        dt=block.sample_time if block.sampled else None,
        state_names=state_names,
        input_names=_element_names(u_ports),
        output_names=_element_names(y_ports),
        state_units=state_units,
        input_units=_units(u_ports),
        output_units=_units(y_ports),
        t=t,
        x=x,
        u=u,
        y=y,
        residual=inverse @ (change - x if block.sampled else change),
    )


def _refuse(flat: FlatBlock) -> None:
    block = flat.block
    if block.states and block.sampled:
        names = [", ".join(port.name for port in ports) for ports in (block.states, block.sampled)]
        raise ValueError(
            f"cannot linearize {flat.name}: it has continuous states ({names[0]}) and sampled ones ({names[1]}); "
            "put it into a system and linearize FusedSystem(system, dt)"
        )
    if spare := [port.name for port in block.sampled if _spare(block.sampled, port)]:
        raise ValueError(
            f"cannot linearize {flat.name}: its sampled states {', '.join(spare)} have more elements than freedoms "
            "(quaternions); linearize the continuous system"
        )


def _spare(states: Iterable[Port], port: Port) -> bool:
    """Whether a state has more elements than its rate: a configuration with quaternions."""
    return any(other.name == port.rate and other.size < port.size for other in states)


def _coordinates(
    flat: FlatBlock, states: tuple[Port, ...], m: Array, change: Array
) -> tuple[Array, Array, tuple[str, ...], tuple[str, ...]]:
    """The small changes of the states as E times those of independent coordinates, with dE/dt, their names and units.

    The coordinates are the states themselves, but for a configuration q with quaternions: dq/dt = T(q) qd, and T takes
    tangent coordinates to changes of q.
    """
    blocks: list[Array] = []
    rates: list[Array] = []
    names: list[str] = []
    units: list[str] = []
    for port in states:
        identity = np.eye(port.size)
        T, T_rate = _tangent(flat, port, m, change) if _spare(states, port) else (identity, 0 * identity)
        blocks.append(T)
        rates.append(T_rate)
        if T is identity:
            names += port.element_names
            units += port.units
        else:
            (velocity,) = (other for other in states if other.name == port.rate)
            names += [f"{port.name}_tangent[{k + 1}]" for k in range(velocity.size)]
            units += [unit.removesuffix("/s") for unit in velocity.units]
    return block_diagonal(blocks), block_diagonal(rates), tuple(names), tuple(units)


def _tangent(flat: FlatBlock, port: Port, m: Array, change: Array) -> tuple[Array, Array]:
    """T = d(dq/dt)/d(qd) of a configuration q, and dT/dt along the motion."""

    def rate(t: Array, x: Array, rest: Array) -> dict[str, Array]:
        rates = np.concatenate([t, x, rest])
        rates[flat.x] = flat.derivative(rates)
        return {"rate": rates[flat.where[port.name]]}

    n = len(change)
    first = jacobian(trace("rate", rate, {"t": (1,), "x": (n,), "rest": (flat.size - 1 - n,)}), "rate", "x")
    second = jacobian(first, "drate_dx", "x")
    velocity = _places(flat, tuple(other for other in flat.block.states if other.name == port.rate)) - 1
    T_rate = second(m).reshape(-1, n, n) @ change
    return first(m).reshape(-1, n)[:, velocity], T_rate[:, velocity]


def _after(flat: FlatBlock, inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> Graph:
    """The graph from the memory, with the chosen inputs once more as `u`, to the rates `dx`, or the states after a sample,
    and the outputs `y`; the states that it reads are its input `x`.
    """
    n, sampled = flat.z.stop - flat.x.start, bool(flat.block.sampled)
    places = _places(flat, inputs)

    def after(t: Array, x: Array, rest: Array, u: Array) -> dict[str, Array]:
        m = np.concatenate([t, x, rest])
        m[places] = u
        dx = flat.update(m) if sampled else flat.derivative(m)
        if sampled:
            m[flat.z] = dx
        m[flat.y] = flat.output(m)
        return {"dx": dx, "y": m[_places(flat, outputs)]}

    return trace("after", after, {"t": (1,), "x": (n,), "rest": (flat.size - 1 - n,), "u": (len(places),)})


def _matrices(graph: Graph, values: Array) -> Iterator[Array]:
    """A, B, C and D at the inputs of the graph."""
    derivatives = jacobian(graph, ("dx", "y"), ("x", "u"))
    flat, k = derivatives(values), 0
    for shape in derivatives.outputs.values():
        yield flat[k : k + prod(shape)].reshape(shape)
        k += prod(shape)


def _operating_point(flat: FlatBlock, at: Mapping[str, Any], t: float) -> Array:
    """The memory with the values of `at`."""
    block = flat.block
    ports = {port.name: port for port in (*block.states, *block.sampled, *block.inputs, *block.parameters)}
    m = flat.start()
    m[0] = t
    for name, value in at.items():
        if name not in ports:
            raise KeyError(f"{flat.name} has no state, input or parameter '{name}'; it has: {', '.join(ports) or 'none'}")
        m[flat.where[name]] = np.ravel(finite(value, ports[name].shape, f"the operating point of '{name}'"))
    return m


def _chosen(kind: str, ports: tuple[Port, ...], names: Iterable[str] | None) -> tuple[Port, ...]:
    """The ports of these names, in their order; all without names."""
    if names is None:
        return ports
    by_name = {port.name: port for port in ports}
    wanted = tuple(names)
    if unknown := [name for name in wanted if name not in by_name]:
        raise KeyError(f"there is no {kind} {', '.join(unknown)} to linearize; there are: {', '.join(by_name) or 'none'}")
    return tuple(by_name[name] for name in wanted)


def _places(flat: FlatBlock, ports: tuple[Port, ...]) -> Array:
    """The indices in the memory of the elements of some ports."""
    return np.array([k for port in ports for k in range(flat.size)[flat.where[port.name]]], dtype=int)


def _element_names(ports: tuple[Port, ...]) -> tuple[str, ...]:
    return tuple(name for port in ports for name in port.element_names)


def _units(ports: tuple[Port, ...]) -> tuple[str, ...]:
    return tuple(unit for port in ports for unit in port.units)
