"""Diagnosis of runs: warnings at the start, remarks of blocks, and the cause of a divergence.

At the start, a run warns about blocks that read an output one sample late, and about holds and
inner steps that exceed a stability limit. At the end, blocks can comment on the run
(`Block.remarks`). For a divergent run, the diagnosis names the signal that grew first. If the hold
causes the divergence, the diagnosis also names a gain that is too high.
"""

import contextlib
import logging
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from rigidblocks.block.adaptive_methods import Adaptive
from rigidblocks.block.block import Block, Port, Record
from rigidblocks.block.external_functions import PythonBlock, WrittenBlock
from rigidblocks.block.integrators import Integrator
from rigidblocks.block.memory_layout import Memory
from rigidblocks.cosim.graph.linearization import linearize, state_matrix_function
from rigidblocks.cosim.graph.part import Part
from rigidblocks.cosim.graph.system import System
from rigidblocks.cosim.graph.wiring import Wire, Wiring
from rigidblocks.cosim.masters.network import Network
from rigidblocks.cosim.masters.run_plan import Coupling, Plan
from rigidblocks.cosim.results.result import Result
from rigidblocks.spatial.spatial import Array

Radius = Callable[[Array], float]  # spectral radius of the loop, for a memory vector

GROWN = 1e3  # growth of a signal that counts as divergence
UNSTABLE = 1.001  # largest |z| of a stable loop, with a margin for rounding errors
MOST_ROWS = 100_000  # maximum number of samples, at the end of a run, that are searched for growth
MAX_MEMORY = 150  # maximum size of a memory vector for the diagnosis of gains, limits the time
HALVINGS = 12  # a gain is reduced by a factor of at least 2^-12
BISECTIONS = 12


def explain_divergence(plan: Plan, result: Result, *, linearizes: bool) -> str:
    """Return the probable cause of infinite or NaN values in a run, as text for an error message.

    The text names the signal that grew first. If `linearizes` is true, the function also linearizes
    the system, and the text names a gain that is too high for the hold. If neither the signal nor
    the gain is found, the text is empty.
    """
    wires = plan.wiring.connections
    connected = {plan.wiring.whole_name(*wire.source) for wire in wires}
    found = [first_growth(result, connected)]
    if linearizes:
        with contextlib.suppress(Exception), np.errstate(all="ignore"):
            found.append(unstable_hold(plan))
    return "".join(f"; {text}" for text in found if text)


def first_growth(result: Result, connected: Collection[str] = ()) -> str:
    """Return a text with the recorded signal that grew first, or "" if no signal grew.

    A signal grows if its absolute value exceeds 1000 times its initial magnitude and stays above
    this limit until the end of the run. The initial magnitude is the largest absolute value in the
    first tenth of the samples, and at least 1. If one of the `connected` outputs grows, all other
    signals, such as energies, are ignored.
    """
    last = slice(max(len(result.time) - MOST_ROWS, 0), None)
    values, time = np.abs(np.asarray(result.values[last])), np.asarray(result.time[last])
    finite = np.isfinite(values).all(axis=1)
    values, time = values[finite], time[finite]
    if len(values) < 2:
        return ""
    scale = np.maximum(values[: 1 + len(values) // 10].max(axis=0), 1.0)
    small = values <= GROWN * scale
    # index of the first sample from which the signal exceeds the limit
    first = len(values) - np.argmax(small[::-1], axis=0)
    first[~small.any(axis=0)] = len(values)
    is_connected = np.array([name.partition("[")[0] in connected for name in result.columns])
    if np.any(first[is_connected] < len(values)):
        first[~is_connected] = len(values)
    begin = int(first.min(initial=len(values)))
    if begin == len(values):
        return ""
    ratios = np.where(first == begin, values[begin] / scale, 0.0)
    k = int(np.argmax(ratios))
    return (
        f"{result.columns[k]} grew first, to {values[begin, k]:.3g} in absolute value at "
        f"t = {time[begin]:g} s"
    )


class _Gain(NamedTuple):
    """Parameter, or all parameters of a part, whose reduction stabilizes a loop.

    `name` contains the names of the parameters, and `places` their indices in the memory vector. If
    these parameters are multiplied by `factor`, the loop is stable.
    """

    name: str
    places: Array
    factor: float


def unstable_hold(plan: Plan) -> str:
    """Return an error text if only the hold makes the system unstable, otherwise "".

    The function linearizes the system at the start of the run, with and without the hold. The text
    recommends a shorter step or a smaller gain (`_stabilizing_gain`). The hold is the cause if both
    conditions are true:

    - With the hold, an eigenvalue z of one step has |z| > 1.
    - Without the hold, all poles lambda satisfy |exp(lambda dt)| <= 1.

    Raises the exceptions of `Plan.fused_block` and `linearize`.
    """
    wiring, dt = plan.wiring, plan.dt
    blocks = [part.component for part in wiring.parts.values()]
    if plan.coupling != Coupling() or not all(map(_is_traced, blocks)):
        return ""
    memory = Memory(plan.fused_block)
    if memory.size > MAX_MEMORY:
        return ""
    m, matrix = plan.fused_start, state_matrix_function(memory)

    def radius(values: Array) -> float:
        return float(np.abs(np.linalg.eigvals(matrix(values))).max(initial=0.0))

    z = radius(m)
    poles = _continuous_poles(wiring)
    growth = float(np.abs(np.exp(poles * dt)).max(initial=1.0))
    is_held = z > UNSTABLE and z - 1.0 > 2.0 * (growth - 1.0)  # the hold causes the growth
    if not is_held:
        return ""
    fastest = float(np.abs(poles).max(initial=0.0))
    text = (
        f"the loop is unstable with the hold of {dt:g} s at the start of the run, |z| = {z:.3g} "
        "instead of at most 1"
    )
    if fastest > 0.0:
        text += f" (fastest pole {fastest:.3g} 1/s, pole times hold {fastest * dt:.3g})"
    gain = _stabilizing_gain(memory, wiring, m, radius)
    if gain is None:
        return text + ": use a shorter step"
    value = np.max(np.abs(m[gain.places]))
    return text + (
        f": {gain.name} is too high, use at most {gain.factor:.2g} times its value "
        f"({gain.factor * value:.3g}) or a shorter step"
    )


def _is_traced(component: object) -> bool:
    return isinstance(component, Block) and not isinstance(component, PythonBlock | WrittenBlock)


def _continuous_poles(wiring: Wiring) -> Array:
    """Return the poles [1/s] of the system without hold; empty if a part is sampled."""
    system = System()
    system.parts, system.connections = dict(wiring.parts), list(wiring.connections)
    with contextlib.suppress(ValueError):
        return np.asarray(linearize(system).poles)
    return np.zeros(0)


def _stabilizing_gain(memory: Memory, wiring: Wiring, m: Array, radius: Radius) -> _Gain | None:
    """Return the smallest gain reduction that stabilizes the loop, or None if none exists.

    m is the memory vector at the start of the run, and `radius` returns the spectral radius of the
    loop for a memory vector. The function first reduces one parameter at a time. If no parameter
    stabilizes the loop, it reduces all parameters of one part together. It considers only parts
    without continuous states, such as controllers.
    """
    names = {
        part: [wiring.whole_name(part, port.name) for port in of.component.parameters]
        for part, of in wiring.parts.items()
        if isinstance(of.component, Block) and not of.component.states
    }
    places = {name: _places(memory, [name]) for group in names.values() for name in group}
    groups = {", ".join(g): _places(memory, g) for g in names.values() if len(g) > 1}
    for candidates in (places, groups):
        found = [
            _Gain(name, where, factor)
            for name, where in candidates.items()
            if (factor := _stable_factor(m, where, radius)) is not None
        ]
        if found:
            return max(found, key=lambda gain: gain.factor)
    return None


def _places(memory: Memory, names: list[str]) -> Array:
    slices = [memory.where[name] for name in names if name in memory.where]
    return np.concatenate([np.zeros(0, int), *(np.arange(s.start, s.stop) for s in slices)])


def _stable_factor(m: Array, where: Array, radius: Radius) -> float | None:
    """Return the largest factor below 1 that stabilizes the loop.

    The factor multiplies the elements `where` of the memory vector m. `radius` returns the spectral
    radius of the loop for a memory vector. The result is None if no factor stabilizes the loop.
    """

    def is_stable(factor: float) -> bool:
        scaled = m.copy()
        scaled[where] *= factor
        return bool(radius(scaled) <= UNSTABLE)

    if not np.any(m[where]):
        return None
    low, high = 0.5, 1.0
    for _ in range(HALVINGS):
        if is_stable(low):
            break
        low, high = low / 2, low
    else:
        return None
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_stable(middle) else (low, middle)
    return low


def start_warnings(plan: Plan, network: Network) -> tuple[str, ...]:
    """Return the warnings at the start of a run: late inputs, unstable holds, unstable steps.

    Plans with the same start values share the warnings, which are therefore computed once.
    """
    if "warnings" not in plan.computed:
        plan.computed["warnings"] = tuple(_find_warnings(plan, network))
    found: tuple[str, ...] = plan.computed["warnings"]
    return found


def _find_warnings(plan: Plan, network: Network) -> Iterator[str]:
    shapes = {
        plan.wiring.whole_name(name, port.name): port.shape
        for name, part in plan.wiring.parts.items()
        for port in part.component.outputs
    }

    def values(name: str) -> Array:
        return network.outputs[name].reshape(shapes[name])

    if not plan.is_simultaneous and not plan.coupling.solves:
        yield from late_sample_warnings(plan.wiring)
    yield from hold_warnings(plan.wiring, plan.dt, values)
    yield from unstable_step_warnings(plan.wiring, plan.dt, values)


def hold_warnings(wiring: Wiring, dt: float, values: Callable[[str], Array]) -> Iterator[str]:
    """Yield a warning for each block whose hold exceeds the stability limit of the block.

    The hold of a block is the maximum of dt [s] and its sample time. `values` returns the values of
    an output `part.port` at the start of the run. FMUs and blocks with an infinite stability limit
    (`Block.longest_hold`) cause no warning.
    """
    for name, part in wiring.parts.items():
        block = part.component
        if not isinstance(block, Block) or type(block).longest_hold is Block.longest_hold:
            continue
        held = max(part.dt or dt, block.sample_time or 0.0)
        longest = block.longest_hold(_upstream(wiring, name, values), _parameters(name, part))
        if held > longest:
            advice = (
                f"use a step below {longest:.3g} s"
                if longest > 0
                else "no step is short enough without damping"
            )
            yield (
                f"'{name}' holds its outputs for {held:g} s, which is unstable at the start of the "
                f"run: {advice}; a ContinuousSystem has no hold"
            )


def late_sample_warnings(wiring: Wiring) -> Iterator[str]:
    """Yield a warning for each sampled block that reads an output one sample late.

    In a loop of connections, the Gauss-Seidel order steps one block before the source of its input.
    If the source has no continuous states, the block reads the output of the previous step. Blocks
    in C that hold their inputs between samples cause no warning.
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
                f"'{b}' is in a loop with '{a}' and samples before '{a}' steps: values in this "
                "loop are delayed by one additional sample; write the loop as one block"
            )


def unstable_step_warnings(
    wiring: Wiring, dt: float, values: Callable[[str], Array]
) -> Iterator[str]:
    """Yield a warning for each block whose explicit method is unstable at its fixed step size.

    `Block.modes` returns the eigenvalues of a block, which limit its step size.
    """
    for name, part in wiring.parts.items():
        block, (method, h) = part.component, part.stepping
        if not isinstance(block, Block) or not _has_known_limit(method):
            continue
        if type(block).modes is Block.modes:
            continue
        shown = {port: values(wiring.whole_name(name, port)) for port in part.state_outputs}
        modes = block.modes(Record(shown, "state", f"block '{name}'"), _parameters(name, part))
        if is_unstable(method, min(h, dt) * modes):
            fastest = float(np.abs(modes).max())
            longest = longest_stable_step(method, modes)
            yield (
                f"'{name}' is integrated by {method.name} in steps of {min(h, dt):g} s, which are "
                f"unstable for its stiffest springs or dampers ({fastest:.3g} /s): use steps "
                f"below {longest:.3g} s, a linearly implicit method or an adaptive one"
            )


def _has_known_limit(method: Any) -> TypeGuard[Integrator]:
    """Return True for an explicit method with fixed steps, whose stability limit is known."""
    fixed = isinstance(method, Integrator)
    return fixed and method.implicit is None and method.a_position is None


def _parameters(name: str, part: Part) -> Record:
    """Return the start values of a block's parameters as a record."""
    ports = part.component.parameters if isinstance(part.component, Block) else ()
    given = {port.name: part.start.get(port.name, port.start) for port in ports}
    return Record(given, "parameter", f"block '{name}'")


def is_unstable(method: Integrator, z: Array) -> bool:
    """Return True if one step of an explicit method amplifies any mode by more than 10 %.

        |R(z)| > 1.1,    R(z) = 1 + z b^T (1 - z A)^-1 1

    z is the eigenvalue of the mode times the step size. R is the stability function of the method,
    and A and b are its Butcher tableau. In R, 1 also stands for the identity matrix and the vector
    of ones.
    """
    if not len(z):
        return False
    s = method.stages
    A = np.array([[*row, *[0.0] * (s - len(row))] for row in method.a])
    b, ones = np.array(method.b), np.ones(s)
    z = np.minimum(z.real, 0.0) + 1j * z.imag
    factors = [1 + one * (b @ np.linalg.solve(np.eye(s) - one * A, ones)) for one in z]
    return bool(np.any(np.abs(factors) > 1.1))


def longest_stable_step(method: Integrator, modes: Array) -> float:
    """Return the longest stable step [s] for the eigenvalues `modes`, accurate to 1 %."""
    h = 4.0 / float(np.abs(modes).max())
    while is_unstable(method, h * modes):
        h *= 0.99
    return h


def _upstream(wiring: Wiring, name: str, values: Callable[[str], Array]) -> Record:
    """Return the inputs of a part, and of upstream parts that affect it by direct feedthrough.

    The result maps input names to values. If several parts have an input of the same name, the
    result contains the input of the nearest part.
    """
    found: dict[str, Any] = {}
    parts, seen = [name], {name}
    for part in parts:  # the loop appends upstream parts to this list
        for port in wiring.parts[part].component.inputs:
            wires = [wire for wire in wiring.wires_to(part) if wire.target[1] == port.name]
            start = wiring.parts[part].start.get(port.name, port.start)

            def read(wire: Wire) -> Array:
                return values(wiring.whole_name(*wire.source))

            found.setdefault(port.name, _read(port, start, wires, read))
            for source in dict.fromkeys(wire.source for wire in wires):
                if source[0] not in seen and _has_feedthrough(wiring, *source):
                    parts.append(source[0])
                    seen.add(source[0])
    return Record(found, "input", f"block '{name}'")


def _read(port: Port, start: Any, wires: list[Wire], values: Callable[[Wire], Array]) -> Any:
    """Return the value of an input port.

    `wires` connect elements of the input to their sources, and `values` returns the value of a
    source. Unconnected elements have their values in `start`.
    """
    if not wires:
        return start
    flat = np.array(np.broadcast_to(0.0 if start is None else start, port.shape)).ravel()
    for wire in wires:
        _, _, begin, to, length = wire
        flat[to : to + length] = np.ravel(values(wire))[begin : begin + length]
    return flat.reshape(port.shape)


def _has_feedthrough(wiring: Wiring, part: str, output: str) -> bool:
    return any(y == output for _, y in wiring.parts[part].feedthrough)


def has_remarks(wiring: Wiring) -> bool:
    """Return True if a block of the system defines `Block.remarks`."""
    return any(_may_remark(part.component) for part in wiring.parts.values())


def _may_remark(block: Any) -> TypeGuard[Block]:
    return isinstance(block, Block) and type(block).remarks is not Block.remarks


def block_remarks(wiring: Wiring, result: Result) -> Iterator[tuple[int, str]]:
    """Yield the remarks of the blocks about a run (`Block.remarks`) as pairs (log level, text).

    The function omits blocks with outputs that are not recorded. Fixed-step methods have no error
    estimate, so the remark on a block with such a method recommends an adaptive method.
    """
    recorded = {port.name for port in result.ports}
    for name, part in wiring.parts.items():
        block = part.component
        if not _may_remark(block):
            continue
        names = {port.name: wiring.whole_name(name, port.name) for port in block.outputs}
        if recorded.issuperset(names.values()):
            outputs = {port: result[whole] for port, whole in names.items()}
            y = Record(outputs, "output", f"block '{name}'")
            has_estimate = isinstance(part.stepping[0], Adaptive)
            advice = "" if has_estimate else "; fixed steps may be inaccurate there, use 'adaptive'"
            for text in block.remarks(result.time, y):
                yield logging.WARNING, f"'{name}' {text}{advice}"
