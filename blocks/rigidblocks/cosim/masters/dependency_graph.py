"""Signal links and power bonds between parts, and interface equations of loops of parts.

The values w that the parts of a loop exchange solve the interface equations w = y(w).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from rigidblocks.block.block import Block
from rigidblocks.block.external_functions import BlockInC, PythonBlock
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.nested_blocks import Composite
from rigidblocks.block.units import Table, replace_values
from rigidblocks.common.name_hints import suggestion
from rigidblocks.cosim.graph.directed_graphs import ordered_components
from rigidblocks.cosim.graph.part import Part, places
from rigidblocks.cosim.graph.wiring import Wiring
from rigidblocks.cosim.masters.part_instance import Instance
from rigidblocks.kernels.traced_evaluator import TracedEvaluator, sample_graph
from rigidblocks.spatial.spatial import Array


@dataclass(frozen=True, eq=False)
class Link:
    """Signal link from outputs of other parts to the inputs of one part.

        u[to] = factor*y[sources] + offset

    u are the inputs of the part, and y the outputs of all parts. `to` and `sources` (n,) are arrays
    of indices. `tables` maps positions in `to` to lookup tables. If the source value is in the
    table, the linear conversion uses the table entry instead.
    """

    sources: Array
    to: Array
    factor: Array
    offset: Array
    tables: Mapping[int, Table] = field(default_factory=dict)

    def inputs(self, y: Array) -> Array:
        """Convert the polynomials of the outputs y[sources] to the polynomials of the inputs u[to].

        Row k of both arrays contains the coefficients of the k-th power of time (order + 1, n). If
        an input has a lookup table, the table converts the constant coefficient of the output, and
        the input is constant.
        """
        u = self.factor * y
        for k, table in self.tables.items():
            u[0, k] = self.factor[k] * replace_values(y[0, k : k + 1], table)[0]
            u[1:, k] = 0.0
        u[0] += self.offset
        return u


class Links:
    """Signal links of a system with n output elements, and properties of these elements.

    Attributes:
        where: Slice of each output in the array of all output elements, by output name.
        held: Mask (n,) of the outputs that change only at samples and events, or depend only on
            such outputs.
        algebraic: Mask (n,) of the outputs with direct feedthrough from an input.
        owner: Part of each output element.
        nominal: Nominal value (n,) of each output element.
        groups: Strongly connected components of the parts; each component follows the components
            that it reads.
        samplers: Sampled parts without continuous states (`Part.only_samples`).
        stateless: The parts in `samplers`, and the blocks without continuous states. They read held
            outputs at the end of a step.
    """

    def __init__(self, wiring: Wiring):
        outputs = wiring.outputs
        self.where = places(outputs)
        names = [name for name, part in wiring.parts.items() for _ in part.component.outputs]
        sizes = [port.size for port in outputs]
        self.owner = np.repeat(np.array(names, dtype=object), sizes)
        self.nominal = np.concatenate([np.zeros(0), *(np.ravel(port.nominal) for port in outputs)])
        held = _held_outputs(wiring)
        each = [
            ((name, port.name) in held, any(y == port.name for _, y in part.feedthrough))
            for name, part in wiring.parts.items()
            for port in part.component.outputs
        ]
        marks = np.array(each, dtype=bool).reshape(-1, 2)
        self.held, self.algebraic = (np.repeat(column, sizes) for column in marks.T)
        parts = wiring.parts.items()
        self.samplers = frozenset(name for name, part in parts if part.only_samples)
        self.stateless = self.samplers | {
            name
            for name, part in parts
            if isinstance(part.component, Block) and not part.component.states
        }
        self.by_part = {name: _link(wiring, name, self.where) for name in wiring.parts}
        self.groups = ordered_components(
            {
                name: {self.owner[k] for k in link.sources if not self.held[k]}
                for name, link in self.by_part.items()
            },
            _feedthrough_sources(wiring),
        )
        self._at_once, self._wiring = _feedthrough_sources(wiring), wiring

    @cached_property
    def inputs_at_end(self) -> Mapping[str, Array]:
        """Indices of the inputs that need the value at the end of a step, by part name.

        The result contains the inputs in algebraic loops, which must be consistent at the end of a
        step, and all inputs of the parts in `samplers`. If a part does not support polynomial
        inputs, its inputs are constant during a step. An input in the result has the final value of
        its polynomial, and any other input has the mean.
        """
        looped = _algebraic_loop_inputs(self._wiring)
        for name in self.samplers:
            ports = self._wiring.parts[name].component.inputs
            looped[name] = np.arange(sum(port.size for port in ports))
        return looped

    def interface(self, group: tuple[str, ...]) -> Array:
        """Return the indices of the outputs that the parts of a group exchange.

        Held outputs are omitted.
        """
        read = np.concatenate([self.by_part[name].sources for name in group])
        return np.array([k for k in np.unique(read) if self.owner[k] in group and not self.held[k]])

    def sort_by_feedthrough(self, group: tuple[str, ...]) -> tuple[str, ...]:
        """Return the parts of a group, sorted by direct feedthrough.

        If possible, each part follows the parts on which its outputs depend by direct feedthrough.
        """
        levels = {name: self._level(name, group) for name in group}
        return tuple(sorted(group, key=lambda name: (levels[name], name)))

    def depth(self, group: tuple[str, ...]) -> int:
        """Return the length of the longest feedthrough path through the parts of a group."""
        return max(self._level(name, group) for name in group)

    def _level(self, name: str, group: tuple[str, ...]) -> int:
        level, now = 0, {name}
        while level < len(group) and (now := {a for b in now for a in self._at_once[b]}):
            now &= set(group)
            level += bool(now)
        return level

    def readers(self, k: int) -> set[str]:
        """Return the names of the parts that read the output with index k."""
        return {name for name, link in self.by_part.items() if k in link.sources}


def _feedthrough_sources(wiring: Wiring) -> dict[str, set[str]]:
    """Return, for each part, the parts on which its outputs depend by direct feedthrough."""
    found: dict[str, set[str]] = {name: set() for name in wiring.parts}
    for (a, _), (b, u), *_ in wiring.connections:
        if any(source == u for source, _ in wiring.parts[b].feedthrough):
            found[b].add(a)
    return found


def _algebraic_loop_inputs(wiring: Wiring) -> dict[str, Array]:
    reads: dict[str, set[str]] = {}
    for (a, y), (b, u), *_ in wiring.connections:
        reads.setdefault(f"{b}.{u}", set()).add(f"{a}.{y}")
    for name, part in wiring.parts.items():
        for u, y in part.feedthrough:
            reads.setdefault(f"{name}.{y}", set()).add(f"{name}.{u}")
    whole = {name: some & reads.keys() for name, some in reads.items()}
    circles = {name for group in ordered_components(whole) if len(group) > 1 for name in group}
    found = {}
    for name, part in wiring.parts.items():
        where = places(part.component.inputs)
        inside = [where[u] for u in where if f"{name}.{u}" in circles]
        found[name] = np.array([k for one in inside for k in range(one.start, one.stop)], dtype=int)
    return found


def _held_outputs(wiring: Wiring) -> set[tuple[str, str]]:
    """Return the outputs that change only at samples and events.

    The result includes an output of a block without states if the feedthrough inputs of the output
    are held and the output does not depend on time.
    """
    held = {
        (name, port.name)
        for name, part in wiring.parts.items()
        for port in part.component.outputs
        if part.is_held(port.name)
    }
    sources: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for (a, y), (b, u), *_ in wiring.connections:
        for source, output in wiring.parts[b].feedthrough:
            if source == u:
                sources.setdefault((b, output), set()).add((a, y))
    left = {key for key in sources if key not in held and _has_no_memory(wiring.parts[key[0]])}
    while more := {key for key in left if sources[key] <= held}:
        left -= more
        held |= {(name, y) for name, y in more if not _reads_time(wiring.parts[name], y)}
    return held


def _has_no_memory(part: Part) -> bool:
    block = part.component
    return (
        isinstance(block, Block)
        and not isinstance(block, PythonBlock | BlockInC | Composite)
        and not (block.states or block.sampled)
        and block.sample_time is None
    )


def _reads_time(part: Part, output: str) -> bool:
    """Return True if an output of a block is an explicit function of time."""
    assert isinstance(part.component, Block)
    memory = Memory(part.component)
    depends = sample_graph(TracedEvaluator(memory)).depends
    return bool(depends[memory.where[output], 0].any())


def _link(wiring: Wiring, name: str, outputs: Mapping[str, slice]) -> Link:
    inputs = places(wiring.parts[name].component.inputs)
    of, factor, offset = [], [], []
    to: list[Array] = []
    tables: dict[int, Table] = {}
    for wire in wiring.wires_to(name):
        (a, y), (_, u), start, first, n = wire
        conversion = wiring.conversion(wire)
        if conversion is not None and conversion.table:
            first_link = sum(len(one) for one in to)
            tables |= dict.fromkeys(range(first_link, first_link + n), conversion.table)
        of.append(outputs[wiring.whole_name(a, y)].start + start + np.arange(n))
        to.append(inputs[u].start + first + np.arange(n))
        factor.append(np.ones(n) if conversion is None else conversion.factor)
        offset.append(np.zeros(n) if conversion is None else conversion.offset)
    whole, no = np.zeros(0, dtype=int), np.zeros(0)
    return Link(
        np.concatenate([whole, *of]),
        np.concatenate([whole, *to]),
        np.concatenate([no, *factor]),
        np.concatenate([no, *offset]),
        tables,
    )


TOLERANCE = 1e-13  # convergence tolerance, relative to the magnitude of each value
ROUNDING_TOLERANCE = 1e-12  # convergence tolerance if a step no longer reduces the residual
MAX_NEWTON_STEPS = 50  # maximum number of Newton steps


class InterfaceEquations:
    """Equations w = y(w) for the values w (n,) that parts exchange, solved by Newton's method.

    The iteration first uses the Jacobian dy/dw that the parts provide. If this iteration does not
    converge, difference quotients replace the Jacobian. To save evaluations, elements of w are
    perturbed together if no part reads more than one of them. Broyden's method then updates the
    Jacobian, and later calls of `solve` reuse it. If the iteration with the updated Jacobian does
    not converge, the difference quotients are computed anew.

    `readers` contains the parts that read each element of w, and `owners` contains the part that
    computes each element.
    """

    def __init__(self, owners: Sequence[str], readers: Sequence[set[str]], name: str):
        self._owners, self._readers, self._name = list(owners), list(readers), name
        self._colors = _colors(self._readers)
        reads = [[owner in some for some in self._readers] for owner in self._owners]
        self._unknown_jacobian = np.where(np.array(reads, dtype=bool), np.nan, 0.0)
        self._slopes: Array | None = None
        self._trusts = True  # True while Newton's method uses the derivatives of the parts
        self.evaluations = 0

    def solve(
        self,
        outputs: Callable[[Array], Array],
        w: Array,
        scale: Array,
        jacobian: Callable[[], Array] | None = None,
    ) -> Array:
        """Return the solution w (n,) near the initial guess.

        The last call of `outputs` evaluates the parts at the solution, so the parts then contain
        consistent values.

        Args:
            outputs: The function y(w).
            w: Initial guess (n,).
            scale: Magnitudes of the values (n,).
            jacobian: Function that returns dy/dw (n, n) at the last call of `outputs`, with NaN for
                entries that the parts do not provide. The values may be inaccurate.

        Raises:
            ArithmeticError: No solution is found.
        """

        def residual(values: Array) -> Array:
            self.evaluations += 1
            return np.asarray((outputs(values) - values) / scale)

        r, is_fresh = residual(w), False
        for _ in range(MAX_NEWTON_STEPS):
            size = _size(r)
            if size <= TOLERANCE:
                return w
            if self._slopes is None:
                known = self._unknown_jacobian
                if jacobian is not None and self._trusts:
                    known = jacobian()
                self._slopes, is_fresh = (
                    self._difference_jacobian(known, residual, w, r, scale),
                    True,
                )
            step = self._step(r)
            new = residual(w + scale * step)
            if is_fresh:
                step, new = self._shorten_step(residual, w, scale, step, new, size)
            if _size(new) < size:
                self._update(step, new - r, slow=_size(new) > 0.5 * size)
                w, r, is_fresh = w + scale * step, new, False
            elif size <= ROUNDING_TOLERANCE:
                residual(w)  # steps the parts with the solution
                return w
            elif is_fresh and (jacobian is None or not self._trusts):
                break
            else:
                self._slopes, self._trusts = None, False
        self._slopes = None
        raise ArithmeticError(
            f"the values that {self._name} exchange did not converge: relative residual "
            f"{_size(r):.3g}; reduce dt, or check that the algebraic loop has a solution"
        )

    def _update(self, step: Array, change: Array, slow: bool) -> None:
        """Apply Broyden's update to the Jacobian, or discard the Jacobian if `slow` is true.

        The step `step` of the unknowns has changed the residual by `change`. `slow` is true if the
        iteration converges slowly.
        """
        assert self._slopes is not None
        self._trusts = self._trusts and not slow
        off = change - self._slopes @ step
        self._slopes = None if slow else self._slopes + np.outer(off, step) / (step @ step)

    def _step(self, r: Array) -> Array:
        assert self._slopes is not None
        try:
            return np.asarray(np.linalg.solve(self._slopes, -r))
        except np.linalg.LinAlgError:
            raise ArithmeticError(
                f"the algebraic loop between {self._name} has no unique solution: its loop gain "
                "is 1"
            ) from None

    def _shorten_step(
        self,
        residual: Callable[[Array], Array],
        w: Array,
        scale: Array,
        step: Array,
        new: Array,
        size: float,
    ) -> tuple[Array, Array]:
        """Halve the step until the maximum norm of the residual is below `size`.

        The step is halved at most eight times. It changes the unknowns w to w + `scale` * `step`.
        `new` is the residual after the full step, and `size` is the norm before the step. Returns
        the last step and the residual after this step.
        """
        for _ in range(8):
            if _size(new) < size:
                break
            step = 0.5 * step
            new = residual(w + scale * step)
        return step, new

    def _difference_jacobian(
        self,
        known: Array,
        residual: Callable[[Array], Array],
        w: Array,
        r: Array,
        scale: Array,
    ) -> Array:
        """Return the Jacobian dr/ds (n, n); difference quotients replace NaN entries of `known`.

            r = (y(w) - w) / scale,    s = w / scale

        `known` (n, n) is the Jacobian dy/dw, with NaN for unknown entries. r (n,) is the residual
        at w, and `scale` (n,) contains the magnitudes of the unknowns w.
        """
        slopes = known * scale / scale[:, None]
        for color in self._colors:
            change = np.zeros(len(w))
            change[color] = _DIFFERENCE
            if not np.isnan(slopes[:, color]).any():
                continue
            y = residual(w + scale * change) + change  # scaled y(w + scale * change) - w
            for k in color:
                rows = np.isnan(slopes[:, k])
                slopes[rows, k] = (y[rows] - r[rows]) / _DIFFERENCE
        return np.asarray(slopes - np.eye(len(w)))


def equations_of(links: Links, group: tuple[str, ...], columns: Array) -> InterfaceEquations:
    """Return the interface equations for the outputs `columns`, which parts of a group exchange."""
    readers = [links.readers(k) & set(group) for k in columns]
    return InterfaceEquations(list(links.owner[columns]), readers, " and ".join(map(repr, group)))


_DIFFERENCE = 1e-7  # perturbation for difference quotients, relative to the scale of each value


def _size(r: Array) -> float:
    size = float(np.abs(r).max(initial=0.0))
    return size if np.isfinite(size) else np.inf


def _colors(readers: Sequence[set[str]]) -> list[list[int]]:
    """Group values by greedy colouring, so that no part reads two values of the same group.

    `readers` contains the names of the parts that read each value. A group is a list of indices.
    """
    colors: list[tuple[set[str], list[int]]] = []
    for k, some in enumerate(readers):
        for taken, color in colors:
            if not taken & some:
                taken |= some
                color.append(k)
                break
        else:
            colors.append((set(some), [k]))
    return [color for _, color in colors]


class InterfaceJacobian:
    """Jacobian dy/dw (n, n) of the interface equations w = y(w), from directional derivatives.

    w are the outputs with the indices `columns`, which the parts of a group exchange. The row of an
    output is NaN if its part does not provide directional derivatives. The derivatives contain the
    direct feedthrough of the inputs, but not the effect of the inputs on the states during a step.
    """

    def __init__(
        self, links: Links, group: tuple[str, ...], columns: Array, parts: Mapping[str, Instance]
    ):
        self._parts, self._size = parts, len(columns)
        place = {int(k): i for i, k in enumerate(columns)}
        self._links = []
        for name in group:
            own = np.flatnonzero(links.owner == name)
            rows = [place[k] for k in own.tolist() if k in place]
            link = links.by_part[name]
            read = [i for i, k in enumerate(link.sources.tolist()) if k in place]
            outputs = np.flatnonzero(np.isin(own, columns))
            inside = [place[k] for k in link.sources[read].tolist()]
            self._links.append((name, rows, outputs, inside, link.to[read], link.factor[read]))

    def __call__(self, input_weights: Callable[[str, Array], Array]) -> Array:
        """Return the Jacobian at the current state of the parts.

        An input may be constant during a step, with the mean of a polynomial through the old and
        the new values of its source. The function `input_weights(part, inputs)` returns du/dy for
        each input: u is the input value, and y is the new value of its source. Unit conversions
        are not included.
        """
        slopes = np.zeros((self._size, self._size))
        for name, rows, outputs, inside, inputs, factor in self._links:
            if not rows or not inside:
                continue
            derivatives, weight = (
                self._parts[name].output_jacobian(inputs),
                factor * input_weights(name, inputs),
            )
            for k, column in enumerate(inside):
                slopes[rows, column] += (
                    np.nan if derivatives is None else weight[k] * derivatives[outputs, k]
                )
        return slopes


@dataclass(frozen=True, eq=False)
class Bond:
    """Power bond: one part outputs a force and reads the velocity that the other part outputs.

    Attributes:
        name: Names of the force output and of the velocity output, joined by "and".
        parts: Names of the force part and of the velocity part.
        outputs: Indices of the force and of the velocity in the array of all outputs.
        inputs: Indices of the connected inputs: the force input of the velocity part, and the
            velocity input of the force part.
    """

    name: str
    parts: tuple[str, str]
    outputs: tuple[Array, Array]
    inputs: tuple[Array, Array]


def bonds_of(
    wiring: Wiring, links: Links, given: bool | Sequence[tuple[str, str]]
) -> tuple[Bond, ...]:
    """Return the power bonds for pairs of a force output and a velocity output.

    `given` contains the pairs. True selects all pairs whose product is a power, and False selects
    no pair.

    Raises KeyError for an unknown output, and ValueError for a pair that is not a power bond.
    """
    exchanged = {(a, b) for a, b in _exchanged_pairs(wiring)}
    if given is False:
        return ()
    if given is True:
        pairs = [pair for pair in sorted(exchanged) if _is_power(wiring, *pair)]
        return tuple(_bond(links, *pair) for pair in pairs)
    known = [port.name for port in wiring.outputs]
    for pair in given:
        for name in pair:
            if name not in known:
                raise KeyError(f"unknown output '{name}' in bonds; {suggestion(name, known)}")
        if pair not in exchanged:
            raise ValueError(
                f"{pair[0]} and {pair[1]} are not a power bond: the part of each output must "
                "read the whole other output, and both outputs must have the same number of "
                "elements"
            )
    return tuple(_bond(links, *pair) for pair in given)


def _exchanged_pairs(wiring: Wiring) -> Iterator[tuple[str, str]]:
    """Yield pairs of whole outputs that two parts exchange: each part reads the other's output."""
    whole = {
        (one.source, one.target[0])
        for one in wiring.connections
        if len(one.start) == wiring.parts[one.source[0]].output(one.source[1]).size
    }
    for (a, y), b in whole:
        for (other, z), to in whole:
            if (other, to) != (b, a) or a == b:
                continue
            if wiring.parts[a].output(y).size == wiring.parts[b].output(z).size:
                yield wiring.whole_name(a, y), wiring.whole_name(b, z)


_FORCES = {"N": "m/s", "N.m": "rad/s"}


def _is_power(wiring: Wiring, force: str, speed: str) -> bool:
    """Return True if force unit times velocity unit is a unit of power for each element."""
    units = {port.name: port.units for port in wiring.outputs}
    return all(
        _FORCES.get(one) == other for one, other in zip(units[force], units[speed], strict=True)
    )


def _bond(links: Links, force: str, speed: str) -> Bond:
    where = [links.where[name] for name in (force, speed)]
    columns = [np.arange(some.start, some.stop) for some in where]
    giver, mover = (str(links.owner[some[0]]) for some in columns)
    read = []
    for some, reader in zip(columns, (mover, giver), strict=True):
        link = links.by_part[reader]
        read.append(np.array([link.to[np.flatnonzero(link.sources == k)[0]] for k in some]))
    given = columns[0], columns[1]
    return Bond(f"{force} and {speed}", (giver, mover), given, (read[0], read[1]))
