"""Linearization of blocks and systems at an operating point."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.block.block import Block, Port, Record, Values, finite
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.nested_blocks import Composite
from rigidblocks.common.name_hints import AttributeHints, explain_calls, suggestion
from rigidblocks.cosim.graph import linear_analysis
from rigidblocks.cosim.graph.block_merging import ContinuousSystem
from rigidblocks.cosim.graph.linear_analysis import FrequencyResponse, Margins, StepResponse
from rigidblocks.cosim.graph.system import System
from rigidblocks.spatial.linear_algebra import block_diagonal
from rigidblocks.spatial.spatial import Array
from rigidblocks.tracing.trace import Graph, jacobian, trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)  # eq=False, because == compares arrays element by element
class Linearization(AttributeHints):
    """Linear system for deviations from an operating point with states x, inputs u and outputs y.

        d(dx)/dt = A dx + B du + residual        dy = C dx + D du        if dt is None
        dx[k+1]  = A dx[k] + B du[k] + residual,  dy = C dx + D du    with the sample time dt [s]

    dx, du and dy are the deviations, and t [s] is the time of the operating point. The residual is
    the derivative of the states at the operating point, or the change of the states in one sample
    of a sampled system. The residual is zero at an equilibrium.

    The unit of an entry of C or D is the output unit divided by the state or input unit. The unit
    of an entry of A or B is the state unit of the row divided by the state or input unit of the
    column. For a continuous system, it is additionally divided by seconds.

    For a configuration q with quaternions, the states are the tangent coordinates q_tangent[1],
    q_tangent[2], ... These coordinates are zero at the operating point, and their derivative is qd.
    `x` contains the elements of q, not the tangent coordinates. The attributes `state_names`,
    `input_names` and `output_names` contain the element names. `state_units`, `input_units` and
    `output_units` contain the units.

    The object unpacks as A, B, C, D (A, B, C, D, dt for sampled systems). For python-control, use
    `control.ss(*linear)`.
    """

    CALLS: ClassVar = {
        "eig eigenvalues pole": "linear.poles",
        "damp": "linear.poles; the damping ratio of a pole s is -s.real / abs(s)",
        "bode_plot": "linear.bode()",
        "nyquist_plot": "linear.nyquist()",
        "root_locus rlocus minreal": "control.ss(*linear) and the function of python-control",
        "zero": "linear.zeros",
        "step_response": "linear.step()",
        "margin stability_margins": "linear.margins()",
        "freqresp frequency_response": "linear.bode()",
        "to_ss ss": "control.ss(*linear)",
    }

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

    @property
    def poles(self) -> Array:
        """Poles (states,): eigenvalues of A, in [1/s], or dimensionless for a sampled system."""
        return np.linalg.eigvals(self.A).astype(complex)

    @property
    def zeros(self) -> Array:
        """Finite transmission zeros in [1/s], or dimensionless for a sampled system."""
        return linear_analysis.zeros(self.A, self.B, self.C, self.D)

    def select(
        self, u: str | Sequence[str] | None = None, y: str | Sequence[str] | None = None
    ) -> "Linearization":
        """Return the linear system with the selected inputs and outputs.

        Args:
            u: Name or names of inputs, such as "tau[1]". Default: all inputs.
            y: Name or names of outputs. Default: all outputs.

        Raises:
            KeyError: A name does not exist.
        """
        i = _indices("input", self.input_names, u)
        o = _indices("output", self.output_names, y)
        return replace(
            self,
            B=self.B[:, i],
            C=self.C[o],
            D=self.D[np.ix_(o, i)],
            input_names=tuple(self.input_names[k] for k in i),
            output_names=tuple(self.output_names[k] for k in o),
            input_units=tuple(self.input_units[k] for k in i),
            output_units=tuple(self.output_units[k] for k in o),
        )

    def bode(
        self,
        u: str | None = None,
        y: str | None = None,
        omega: ArrayLike | None = None,
    ) -> FrequencyResponse:
        """Return the frequency response from input u to output y; `plot` draws its Bode diagram.

            G = C (s I - A)^-1 B + D,   s = i omega, or s = exp(i omega dt) for a sampled system

        Args:
            u: Name of the input; not required if the system has one input.
            y: Name of the output; not required if the system has one output.
            omega: Frequencies (n,) [rad/s]. Default: a range around the poles and zeros, up to half
                the sampling rate.

        Raises:
            KeyError: A name does not exist.
            ValueError: The system has several inputs or outputs and no name is given.
        """
        one = self._channel(u, y)
        w = one._frequencies if omega is None else np.atleast_1d(np.asarray(omega, dtype=float))
        unit = f"{one.output_units[0] or '1'} per {one.input_units[0] or '1'}"
        return FrequencyResponse(w, one._response(w), one.input_names[0], one.output_names[0], unit)

    def nyquist(
        self,
        u: str | None = None,
        y: str | None = None,
        omega: ArrayLike | None = None,
    ) -> "Figure":
        """Plot the Nyquist curve from input u to output y, and the point -1.

        `bode` has the same arguments.

        Raises:
            KeyError: A name does not exist.
            ValueError: The system has several inputs or outputs and no name is given.
            ImportError: The package matplotlib is not installed.
        """
        return self.bode(u, y, omega).plot(nyquist=True)

    def margins(self, u: str | None = None, y: str | None = None) -> Margins:
        """Return the stability margins of the negative feedback loop that connects y to u.

        The open loop L is the response from u to y. To obtain the open loop of a closed-loop
        system, call `linearize(system, cut="pd.tau")`, for example.

        Args:
            u: Name of the input; not required if the system has one input.
            y: Name of the output; not required if the system has one output.

        Raises:
            KeyError: A name does not exist.
            ValueError: The system has several inputs or outputs and no name is given.
        """
        one = self._channel(u, y)
        return linear_analysis.stability_margins(one._response, one._frequencies, self.dt)

    def step(
        self,
        u: str | None = None,
        t: ArrayLike | None = None,
    ) -> StepResponse:
        """Return the responses of all outputs to a unit step of one input, from zero deviations.

        Args:
            u: Name of the input; not required if the system has one input.
            t: Equally spaced times (n,) [s] from 0; multiples of dt for a sampled system. By
                default, 400 intervals, up to the decay of the slowest stable mode to 0.1 %.

        Raises:
            KeyError: The name does not exist.
            ValueError: The system has several inputs and no name is given. The times do not start
                at 0, are not equally spaced, or are not multiples of the sample time.
            ImportError: The package SciPy is not installed.
        """
        one = self._channel(u, None, all_outputs=True)
        times = self._step_times if t is None else np.atleast_1d(np.asarray(t, dtype=float))
        h = self.dt if self.dt is not None else times[-1] / max(len(times) - 1, 1)
        if not np.allclose(times, h * np.arange(len(times)), rtol=0, atol=1e-9 * (times[-1] + h)):
            raise ValueError(
                "the times of a step response must start at 0 and be equally spaced"
                + ("" if self.dt is None else f" with the interval {self.dt:g} s")
            )
        return linear_analysis.step_response(one.A, one.B, one.C, one.D, self.dt, times)

    def _channel(
        self, u: str | None, y: str | None, *, all_outputs: bool = False
    ) -> "Linearization":
        """Return the system with the input u and the output y, or with all outputs.

        Raises ValueError if the selection of the input or output is ambiguous.
        """
        one = self.select(u, y)
        sides = [("input", "u", one.input_names)]
        sides += [("output", "y", one.output_names)] * (not all_outputs)
        for kind, argument, names in sides:
            if len(names) != 1:
                raise ValueError(
                    f"choose one {kind} by name, such as {argument}='{next(iter(names), '')}'; "
                    f"available: {', '.join(names) or 'none'}"
                )
        return one

    def _response(self, omega: Array) -> Array:
        """Return the response (n,) of a system with one input and one output."""
        found = linear_analysis.response_at(self.A, self.B, self.C, self.D, self.dt, omega)
        return found[:, 0, 0]

    @property
    def _frequencies(self) -> Array:
        roots = np.concatenate([self.poles, self.zeros])
        return linear_analysis.frequency_grid(roots, self.dt)

    @property
    def _step_times(self) -> Array:
        poles = self.poles if self.dt is None else np.log(self.poles + 1e-300) / self.dt
        slow = np.abs(poles.real[poles.real < -1e-9 * np.abs(poles).max(initial=0.0)])
        T = float(np.log(1e3) / slow.min(initial=np.inf)) if len(slow) else 10.0
        if self.dt is None:
            return np.linspace(0.0, T, 401)
        return self.dt * np.arange(min(max(round(T / self.dt), 10), 100_000) + 1)


@explain_calls()
def linearize(
    target: Block | System,
    *,
    at: Mapping[str, Any] | None = None,
    t: float = 0.0,
    inputs: str | Iterable[str] | None = None,
    outputs: str | Iterable[str] | None = None,
    cut: str | None = None,
) -> Linearization:
    """Linearize a block, or a system of continuous blocks, with exact derivatives.

    The result for a sampled block is a discrete-time system with the sample time of the block. The
    vector x then contains the states before a sample instant, and y the outputs after it. For a
    sampled system, pass `FusedSystem(system, dt)`.

    Step size control is not a smooth function, so adaptive parts are linearized with RK4 steps of
    at most 1 ms. For a stiff part, select a linearly implicit method by name. The operating point
    need not be an equilibrium (see `Linearization`).

    Args:
        target: Block or system.
        at: States, inputs and parameters of the operating point by port name (`part.port` in a
            system). All other ports have their start values, or zero for inputs without a start
            value.
        t: Time [s].
        inputs: Name or names of the input ports of the result. Default: all inputs.
        outputs: Name or names of the output ports of the result. Default: all outputs.
        cut: Output of a part, or elements of an output, such as "pd.tau[1]". The result is the open
            loop L, cut at this signal, with the sign for negative feedback: the closed-loop poles
            are the zeros of 1 + L. All other loops stay closed.

    Raises:
        KeyError: A name in `at`, `inputs` or `outputs` is unknown.
        ValueError: A value has a wrong shape or is not finite. A block has both continuous and
            sampled states, or sampled quaternions. `ContinuousSystem` does not support the system.
        TypeError: `target` is neither a block nor a system.
    """
    if cut is not None:
        if inputs is not None or outputs is not None:
            raise ValueError("`cut` selects the input and the output; leave out inputs and outputs")
        return _open_loop(target, cut, at, t)
    memory = Memory(_traceable(target))
    _check_linearizable(memory)
    u_ports = _choose("input", memory.block.inputs, inputs)
    y_ports = _choose("output", memory.block.outputs, outputs)
    m = _operating_point(memory, at or {}, t)
    return _transform_coordinates(memory, m, _point(memory, m, u_ports, y_ports), u_ports, y_ports)


@dataclass(frozen=True, eq=False)
class _Disturbance(Block):
    """Block at the cut of a loop: the sum y = u + d of a signal and a disturbance.

    u, d and y have the shape and the unit of `port`.
    """

    port: Port

    @property
    def inputs(self) -> tuple[Port, ...]:
        """Inputs: signal u and disturbance d, which is 0 at the operating point."""
        start = np.zeros(self.port.shape)
        d = Port("d", self.port.shape, self.port.unit, "disturbance", start)
        return (Port("u", self.port.shape, self.port.unit, "signal"), d)

    @property
    def outputs(self) -> tuple[Port, ...]:
        """Output: disturbed signal y."""
        return (Port("y", self.port.shape, self.port.unit, "signal with disturbance"),)

    def output(self, u: Record) -> Values:
        return {"y": u.u + u.d}


def _open_loop(
    target: Block | System, cut: str, at: Mapping[str, Any] | None, t: float
) -> Linearization:
    """Cut a loop of a system at an output of a part, and return the open loop.

    With a disturbance d added to this output y, the closed loop is

        dx/dt = A x + B d,   y = C x + D d

    Let w = y + d be the disturbed signal, which the other parts receive. The substitution d = w - y
    gives the open loop from w to y:

        y = (I + D)^-1 (C x + D w),   dx/dt = A x + B (w - y)
    """
    if not isinstance(target, System):
        raise ValueError("`cut` needs a System of continuous blocks, because a block has no loops")
    part, name = target._locate(cut)
    chosen = target.parts[part].selected_output(name)
    source, new = (part, chosen.port.name), "cut"
    while new in target.parts:
        new += "_"
    system = System()
    system.parts = dict(target.parts)
    system.add(new, _Disturbance(replace(chosen.port, start=None)))
    if not any(one.source == source for one in target.connections):
        raise ValueError(f"cannot cut {cut}: it is not connected to an input")
    system.connections = [
        one._replace(source=(new, "y"), names=(f"{new}.y", one.names[1]))
        if one.source == source
        else one
        for one in target.connections
    ]
    whole = ".".join(source)
    system.connect(whole, f"{new}.u")
    closed = linearize(system, at=at, t=t, inputs=f"{new}.d", outputs=whole)
    k = list(chosen.places)
    A, B, C, D = closed.A, closed.B[:, k], closed.C[k], closed.D[np.ix_(k, k)]
    inverse = np.linalg.inv(np.eye(len(k)) + D)
    names = tuple(closed.output_names[i] for i in k)
    units = tuple(closed.output_units[i] for i in k)
    return replace(
        closed,
        A=A - B @ inverse @ C,
        B=B - B @ inverse @ D,
        C=-inverse @ C,
        D=-inverse @ D,
        input_names=names,
        output_names=names,
        input_units=units,
        output_units=units,
        u=closed.y[k],
        y=closed.y[k],
    )


def _traceable(target: Block | System) -> Block:
    """Return a traceable block for a block or a system (`ContinuousSystem`)."""
    if isinstance(target, System):
        return ContinuousSystem(target)
    if not isinstance(target, Block):
        raise TypeError(
            f"linearize needs a block or a System, not a {type(target).__name__}; the "
            "block of a model is RobotPlant(model)"
        )
    return target.fixed_step_copy() if isinstance(target, Composite) else target


class _Point(NamedTuple):
    """Operating point: states x, inputs u, outputs y, and the Jacobians of the block.

    `change` contains the derivatives of the states, or the states after a sample. A and B are the
    Jacobians of `change` with respect to x and u; C and D are the Jacobians of y.
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
    graph = _step_graph(memory, inputs, outputs)
    x, u = m[memory.x.start : memory.z.stop], m[_places(memory, inputs)]
    values = np.concatenate([m, u])
    change, y = np.split(graph(values), [len(x)])
    return _Point(x, u, change, y, *_matrices(graph, values))


def _transform_coordinates(
    memory: Memory, m: Array, point: _Point, inputs: tuple[Port, ...], outputs: tuple[Port, ...]
) -> Linearization:
    """Return the linear system at an operating point, in independent coordinates of its states."""
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


def _check_linearizable(memory: Memory) -> None:
    block = memory.block
    if block.states and block.sampled:
        names = [", ".join(port.name for port in ports) for ports in (block.states, block.sampled)]
        raise ValueError(
            f"cannot linearize {memory.name}: it has continuous states ({names[0]}) and sampled "
            f"states ({names[1]}); put it into a system and linearize FusedSystem(system, dt)"
        )
    if spare := [
        port.name for port in block.sampled if _has_redundant_elements(block.sampled, port)
    ]:
        raise ValueError(
            f"cannot linearize {memory.name}: its sampled states {', '.join(spare)} have more "
            "elements than degrees of freedom (quaternions); linearize the continuous system"
        )


def _has_redundant_elements(states: Iterable[Port], port: Port) -> bool:
    """Return True if a state has more elements than its velocity, as a quaternion has."""
    return any(other.name == port.rate and other.size < port.size for other in states)


class _Coordinates(NamedTuple):
    """Independent coordinates z (m,) of the states x (n,), defined by dx = E dz.

    E is an (n, m) matrix, and `E_rate` is its time derivative. `names` and `units` contain the
    names and units of the elements of z.
    """

    E: Array
    E_rate: Array
    names: tuple[str, ...]
    units: tuple[str, ...]


def _coordinates(memory: Memory, m: Array, change: Array) -> _Coordinates:
    """Return independent coordinates of the states; quaternions get tangent coordinates.

    `change` contains the state derivatives, or the states after a sample.
    """
    states = memory.block.sampled or memory.block.states
    each = [
        _tangent_coordinates(memory, port, m, change)
        if _has_redundant_elements(states, port)
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
    """Return the tangent coordinates of a configuration q that contains quaternions.

    In dq/dt = T(q) qd, the matrix T maps tangent coordinates to changes of q.
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
    """Return the expression graph of the time derivative of a state."""

    def rate(t: Array, x: Array, rest: Array) -> dict[str, Array]:
        rates = np.concatenate([t, x, rest])
        rates[memory.x] = NumpyEvaluator(memory).derivative(rates)
        return {"rate": rates[memory.where[port.name]]}

    n = memory.x.stop - memory.x.start
    return trace("rate", rate, {"t": (1,), "x": (n,), "rest": (memory.size - 1 - n,)})


def _step_graph(memory: Memory, inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> Graph:
    """Return the expression graph of a block, with the results `dx` and `y` (outputs).

    `dx` contains the derivatives of the states, or the states after a sample. The graph input `x`
    contains the states, and the graph input `u` the selected inputs of the block.
    """
    evaluator, places = NumpyEvaluator(memory), _places(memory, inputs)
    sampled = bool(memory.block.sampled)

    def values_after(t: Array, x: Array, rest: Array, u: Array) -> dict[str, Array]:
        m = np.concatenate([t, x, rest])
        m[places] = u
        dx = evaluator.update(m) if sampled else evaluator.derivative(m)
        if sampled:
            m[memory.z] = dx
        m[memory.y] = evaluator.output(m)
        return {"dx": dx, "y": m[_places(memory, outputs)]}

    n = memory.z.stop - memory.x.start
    shapes = {"t": (1,), "x": (n,), "rest": (memory.size - 1 - n,), "u": (len(places),)}
    return trace("after", values_after, shapes)


def state_matrix_function(memory: Memory) -> Callable[[Array], Array]:
    """Return a function that returns the state matrix for a memory vector m.

    The state matrix is the Jacobian of dx/dt, or of the states after a sample, with respect to the
    states x. The elements of x may be dependent, such as the elements of quaternions.
    """
    derivatives = jacobian(_step_graph(memory, (), ()), ("dx",), ("x",))
    n = memory.z.stop - memory.x.start
    return lambda m: np.reshape(derivatives(m), (n, n))


def _matrices(graph: Graph, values: Array) -> Iterator[Array]:
    """Yield the Jacobians A, B, C and D of the graph at the operating point `values`."""
    derivatives = jacobian(graph, ("dx", "y"), ("x", "u"))
    flat, k = derivatives(values), 0
    for shape in derivatives.outputs.values():
        yield flat[k : k + prod(shape)].reshape(shape)
        k += prod(shape)


def _operating_point(memory: Memory, at: Mapping[str, Any], t: float) -> Array:
    """Return the memory vector of the operating point at the time t [s].

    `at` maps port names to values; other ports have their start values.
    """
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


def _choose(
    kind: str, ports: tuple[Port, ...], names: str | Iterable[str] | None
) -> tuple[Port, ...]:
    """Select ports by name, in the order of the names; None selects all ports.

    Raises KeyError for an unknown name. `kind` names the ports in the message, such as "input".
    """
    if names is None:
        return ports
    by_name = {port.name: port for port in ports}
    wanted = (names,) if isinstance(names, str) else tuple(names)
    if unknown := [name for name in wanted if name not in by_name]:
        raise KeyError(
            f"unknown {kind} {', '.join(unknown)} to linearize; expected: "
            f"{', '.join(by_name) or 'none'}"
        )
    return tuple(by_name[name] for name in wanted)


def _indices(
    kind: str, element_names: tuple[str, ...], names: str | Sequence[str] | None
) -> list[int]:
    """Return the indices of the elements `names` in `element_names`; None selects all elements."""
    if names is None:
        return list(range(len(element_names)))
    wanted = (names,) if isinstance(names, str) else tuple(names)
    for name in wanted:
        if name not in element_names:
            raise KeyError(
                f"the linear system has no {kind} '{name}'; {suggestion(name, element_names)}"
            )
    return [element_names.index(name) for name in wanted]


def _places(memory: Memory, ports: tuple[Port, ...]) -> Array:
    """Return the indices of port elements in the memory vector."""
    return np.array(
        [k for port in ports for k in range(memory.size)[memory.where[port.name]]], dtype=int
    )


def _element_names(ports: tuple[Port, ...]) -> tuple[str, ...]:
    return tuple(name for port in ports for name in port.element_names)


def _units(ports: tuple[Port, ...]) -> tuple[str, ...]:
    return tuple(unit for port in ports for unit in port.units)
