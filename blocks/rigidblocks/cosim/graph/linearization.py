"""Linearisation of blocks and systems at an operating point."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.linear import block_diagonal
from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Block, Port, finite
from rigidblocks.block.composite import Composite
from rigidblocks.block.evaluate import NumpyEvaluator
from rigidblocks.block.memory import Memory
from rigidblocks.system.continuous import ContinuousSystem
from rigidblocks.system.system import System
from rigidblocks.tracing.differentiate import jacobian
from rigidblocks.tracing.trace import Graph, trace


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class Linearization:
    """A linear system near the operating point (x, u, y) at t [s], in the deviations from that
    point:

        d(dx)/dt = A dx + B du + residual        dy = C dx + D du        where dt is None
        dx[k+1]  = A dx[k] + B du[k] + residual,  dy = C dx + D du    with the sample time dt [s]

    The residual is the rate of change of the states at the point (their change in a sample, when
    sampled), zero at an equilibrium. An entry of C and D has the unit of its row (an output) per
    unit of its column (a state or an input); so has one of A and B, and where dt is None it is per
    s as well.

    A configuration q with quaternions has tangent coordinates here, q_tangent[1] and so on: what qd
    is the rate of, zero at the point. `x` has the states as they are.

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

    def __repr__(self) -> str:
        names = (self.input_names, self.output_names)
        sides = " -> ".join(", ".join(some) for some in names)
        kind = "continuous" if self.dt is None else f"dt = {self.dt:g} s"
        return f"<Linearization, {kind}, {len(self.state_names)} states: {sides}>"

    def __iter__(self) -> Iterator[Any]:
        return iter(
            (self.A, self.B, self.C, self.D)
            if self.dt is None
            else (self.A, self.B, self.C, self.D, self.dt)
        )


def linearize(
    target: Block | System,
    *,
    at: Mapping[str, Any] | None = None,
    t: float = 0.0,
    inputs: Iterable[str] | None = None,
    outputs: Iterable[str] | None = None,
) -> Linearization:
    """The linearisation of a block, or of a system of continuous blocks, with exact derivatives.

    `at` has the states, inputs and parameters of the operating point by port name (`part.port` in a
    system); what it leaves out is at its start value, an input without one at zero. `inputs` and
    `outputs` name the ports that the result keeps, all by default.

    A sampled block gives the discrete-time system of its sample time, where x is the state before a
    sample instant and y the outputs after it, as they are in every run; for a sampled system give
    `FusedSystem(system, dt)`. What its parts choose of their inner steps is no smooth function: the
    derivatives are those of steps of RK4 of at most 1 ms, and a stiff part is given a linearly
    implicit method by name. Whether the point is an equilibrium is not asked: the residual tells.

    Raises KeyError for a name in `at`, `inputs` or `outputs` that there is not, and ValueError for
    a value of another shape or not finite, for a block with both continuous and sampled states, for
    sampled quaternions, and for a system that `ContinuousSystem` refuses; TypeError for what is
    neither a block nor a system.
    """
    memory = Memory(_traceable(target))
    _refuse(memory)
    u_ports = _choose("input", memory.block.inputs, inputs)
    y_ports = _choose("output", memory.block.outputs, outputs)
    m = _operating_point(memory, at or {}, t)
    return _in_coordinates(memory, m, _point(memory, m, u_ports, y_ports), u_ports, y_ports)


def _traceable(target: Block | System) -> Block:
    """The block whose derivatives are asked for, with steps that can be traced."""
    if isinstance(target, System):
        return ContinuousSystem(target)
    if not isinstance(target, Block):
        raise TypeError(
            f"linearize takes a block or a System, not a {type(target).__name__}; the "
            "block of a model is RobotPlant(model)"
        )
    return target.by_fixed_steps() if isinstance(target, Composite) else target


class _Point(NamedTuple):
    """What is at an operating point: states x, inputs u, the `change` of the states, which is their
    rate or what they are after a sample, outputs y, and of both the derivatives by x and u.
    """

    x: Array
    u: Array
    change: Array
    y: Array
    A: Array
    B: Array
    C: Array
    D: Array


def _point(memory: Memory, m: Array, inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> _Point:
    graph = _after(memory, inputs, outputs)
    x, u = m[memory.x.start : memory.z.stop], m[_places(memory, inputs)]
    values = np.concatenate([m, u])
    change, y = np.split(graph(values), [len(x)])
    return _Point(x, u, change, y, *_matrices(graph, values))


def _in_coordinates(
    memory: Memory, m: Array, point: _Point, inputs: tuple[Port, ...], outputs: tuple[Port, ...]
) -> Linearization:
    """The linear system of a point in independent coordinates of the states."""
    block = memory.block
    x, u, change, y, A, B, C, D = point
    E, E_rate, state_names, state_units = _coordinates(memory, m, change)
    inverse = np.linalg.pinv(E) if len(E) > E.shape[1] else E
    return Linearization(
        A=inverse @ (A @ E - E_rate),
        B=inverse @ B,
        C=C @ E,
        D=D,
        dt=block.sample_time if block.sampled else None,
        state_names=state_names,
        input_names=_element_names(inputs),
        output_names=_element_names(outputs),
        state_units=state_units,
        input_units=_units(inputs),
        output_units=_units(outputs),
        t=float(m[0]),
        x=x,
        u=u,
        y=y,
        residual=inverse @ (change - x if block.sampled else change),
    )


def _refuse(memory: Memory) -> None:
    block = memory.block
    if block.states and block.sampled:
        names = [", ".join(port.name for port in ports) for ports in (block.states, block.sampled)]
        raise ValueError(
            f"cannot linearize {memory.name}: it has continuous states ({names[0]}) and sampled "
            f"ones ({names[1]}); put it into a system and linearize FusedSystem(system, dt)"
        )
    if spare := [port.name for port in block.sampled if _spare(block.sampled, port)]:
        raise ValueError(
            f"cannot linearize {memory.name}: its sampled states {', '.join(spare)} have more "
            "elements than freedoms "
            "(quaternions); linearize the continuous system"
        )


def _spare(states: Iterable[Port], port: Port) -> bool:
    """Whether a state has more elements than its rate: a configuration with quaternions."""
    return any(other.name == port.rate and other.size < port.size for other in states)


class _Coordinates(NamedTuple):
    """The small changes of states as E times those of independent coordinates, with dE/dt, their
    names and units.
    """

    E: Array
    E_rate: Array
    names: tuple[str, ...]
    units: tuple[str, ...]


def _coordinates(memory: Memory, m: Array, change: Array) -> _Coordinates:
    """The coordinates of all states: the states themselves, but for a configuration q with
    quaternions.
    """
    states = memory.block.sampled or memory.block.states
    each = [
        _tangent_coordinates(memory, port, m, change)
        if _spare(states, port)
        else _Coordinates(
            np.eye(port.size), 0.0 * np.eye(port.size), port.element_names, port.units
        )
        for port in states
    ]
    return _Coordinates(
        block_diagonal([one.E for one in each]),
        block_diagonal([one.E_rate for one in each]),
        tuple(name for one in each for name in one.names),
        tuple(unit for one in each for unit in one.units),
    )


def _tangent_coordinates(memory: Memory, port: Port, m: Array, change: Array) -> _Coordinates:
    """Those of a configuration q with quaternions: in dq/dt = T(q) qd, T takes tangent coordinates
    to changes of q.
    """
    first = jacobian(_rate_graph(memory, port), "rate", "x")
    second = jacobian(first, "drate_dx", "x")
    (qd,) = (other for other in memory.block.states if other.name == port.rate)
    columns, n = _places(memory, (qd,)) - 1, len(change)
    T, T_rate = first(m).reshape(-1, n), second(m).reshape(-1, n, n) @ change
    names = tuple(f"{port.name}_tangent[{k + 1}]" for k in range(qd.size))
    units = tuple(unit.removesuffix("/s") for unit in qd.units)
    return _Coordinates(T[:, columns], T_rate[:, columns], names, units)


def _rate_graph(memory: Memory, port: Port) -> Graph:
    """The graph from the memory to the rate of a state."""

    def rate(t: Array, x: Array, rest: Array) -> dict[str, Array]:
        rates = np.concatenate([t, x, rest])
        rates[memory.x] = NumpyEvaluator(memory).derivative(rates)
        return {"rate": rates[memory.where[port.name]]}

    n = memory.x.stop - memory.x.start
    return trace("rate", rate, {"t": (1,), "x": (n,), "rest": (memory.size - 1 - n,)})


def _after(memory: Memory, inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> Graph:
    """The graph from the memory, with the chosen inputs once more as `u`, to the rates `dx`, or the
    states after a sample, and the outputs `y`; the states that it reads are its input `x`.
    """
    evaluator, places = NumpyEvaluator(memory), _places(memory, inputs)
    sampled = bool(memory.block.sampled)

    def after(t: Array, x: Array, rest: Array, u: Array) -> dict[str, Array]:
        m = np.concatenate([t, x, rest])
        m[places] = u
        dx = evaluator.update(m) if sampled else evaluator.derivative(m)
        if sampled:
            m[memory.z] = dx
        m[memory.y] = evaluator.output(m)
        return {"dx": dx, "y": m[_places(memory, outputs)]}

    n = memory.z.stop - memory.x.start
    shapes = {"t": (1,), "x": (n,), "rest": (memory.size - 1 - n,), "u": (len(places),)}
    return trace("after", after, shapes)


def _matrices(graph: Graph, values: Array) -> Iterator[Array]:
    """A, B, C and D at the inputs of the graph."""
    derivatives = jacobian(graph, ("dx", "y"), ("x", "u"))
    flat, k = derivatives(values), 0
    for shape in derivatives.outputs.values():
        yield flat[k : k + prod(shape)].reshape(shape)
        k += prod(shape)


def _operating_point(memory: Memory, at: Mapping[str, Any], t: float) -> Array:
    """The memory with the values of `at`."""
    block = memory.block
    ports = {
        port.name: port
        for port in (*block.states, *block.sampled, *block.inputs, *block.parameters)
    }
    m = memory.start()
    m[0] = t
    for name, value in at.items():
        if name not in ports:
            raise KeyError(
                f"{memory.name} has no state, input or parameter '{name}'; it has: "
                f"{', '.join(ports) or 'none'}"
            )
        m[memory.where[name]] = np.ravel(
            finite(value, ports[name].shape, f"the operating point of '{name}'")
        )
    return m


def _choose(kind: str, ports: tuple[Port, ...], names: Iterable[str] | None) -> tuple[Port, ...]:
    """The ports of these names, in their order; all without names."""
    if names is None:
        return ports
    by_name = {port.name: port for port in ports}
    wanted = tuple(names)
    if unknown := [name for name in wanted if name not in by_name]:
        raise KeyError(
            f"there is no {kind} {', '.join(unknown)} to linearize; there are: "
            f"{', '.join(by_name) or 'none'}"
        )
    return tuple(by_name[name] for name in wanted)


def _places(memory: Memory, ports: tuple[Port, ...]) -> Array:
    """The indices in the memory of the elements of some ports."""
    return np.array(
        [k for port in ports for k in range(memory.size)[memory.where[port.name]]], dtype=int
    )


def _element_names(ports: tuple[Port, ...]) -> tuple[str, ...]:
    return tuple(name for port in ports for name in port.element_names)


def _units(ports: tuple[Port, ...]) -> tuple[str, ...]:
    return tuple(unit for port in ports for unit in port.units)
