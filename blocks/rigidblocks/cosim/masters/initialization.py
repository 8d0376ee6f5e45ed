"""Initialization: computation of consistent inputs and outputs of all parts at the start time."""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np

from rigidblocks.block.port import REAL
from rigidblocks.block.units import Conversion
from rigidblocks.common.doc_links import add_doc_link
from rigidblocks.cosim.graph.part import Part
from rigidblocks.cosim.graph.wiring import StartGroup
from rigidblocks.cosim.masters.dependency_graph import InterfaceJacobian, Links, equations_of
from rigidblocks.cosim.masters.part_instance import BlockInstance, Instance
from rigidblocks.cosim.masters.run_plan import Plan
from rigidblocks.spatial.spatial import Array

PASSES = 20  # maximum number of fixed-point iterations of a loop before Newton's method
_GROWTH = 1e6  # the iteration diverges if the largest value grows by this factor (found by trial)
_LOOP_GROWTH = 1e3  # limit of the growth if declared dependencies form an algebraic loop
_AGREEMENT = 1e-9  # maximum relative difference between an input and its source in a solution


class _StartWire(NamedTuple):
    """Wire between two parts during the initialization.

    `known` marks the source elements with known values. `is_guess` is true if only the source, not
    the input, has a start value. This value is then the initial guess of the input.
    """

    known: Array
    source: Array
    target: Array
    conversion: Conversion | None
    is_guess: bool


class Initialization:
    """Initialization of all parts at the start time, with iterations for loops of parts.

    The value of an input is its start value until the value of its source is known. The parts are
    evaluated in the order of their initialization dependencies (`Wiring.initialization`). A loop of
    parts is evaluated by at most 20 fixed-point iterations, until no value changes. If the
    iteration does not converge, Newton's method solves the loop, with the start values as initial
    guess.
    """

    def __init__(
        self,
        plan: Plan,
        parts: Mapping[str, Instance],
        read_inputs: Callable[[str], None],
        guarded: Callable[[str, Callable[[], None]], None],
    ):
        self._plan, self._parts = plan, parts
        self._read_inputs, self._guarded = read_inputs, guarded
        self._groups = plan.wiring.initialization
        components = {name: part.component for name, part in plan.wiring.parts.items()}
        self._ports = {name: {y.name for y in one.outputs} for name, one in components.items()}
        self._known = {
            (name, port.name): np.zeros(port.size, dtype=bool)
            for name, one in components.items()
            for port in one.outputs
        }
        self._set_start = {name: _start_names(part) for name, part in plan.wiring.parts.items()}
        self._wires = {name: list(self._wires_to(name)) for name in components}

    def _wires_to(self, name: str) -> Iterator[_StartWire]:
        wiring = self._plan.wiring
        for wire in wiring.wires_to(name):
            (a, y), (b, u), start, to, n = wire
            yield _StartWire(
                self._known[a, y][start : start + n],
                self._parts[a].output(y)[start : start + n],
                self._parts[b].input(u)[to : to + n],
                wiring.conversion(wire),
                y in self._set_start[a] and u not in self._set_start[b],
            )

    def run(self, t: float) -> None:
        """Initialize all parts at the time t [s].

        Raises ArithmeticError with the names of the outputs that do not converge.
        """
        self._t = t
        self._inputs: dict[str, Array] = {}  # inputs at the latest evaluation of each part
        self._outputs_read: dict[str, set[str]] = {}
        for known in self._known.values():
            known[:] = False
        for wires in self._wires.values():
            for wire in wires:
                if wire.is_guess:
                    _copy(wire, np.ones(len(wire.target), dtype=bool))
        self._start = {name: part.inputs.copy() for name, part in self._parts.items()}
        for group in self._groups:
            for name, outputs in group.evaluations:
                self._evaluate_known(name, {y for y, _ in outputs})
                for y, k in outputs:
                    self._known[name, y][k] = True
            self._evaluate_group(group)

    def end(self) -> None:
        """End the initialization of each part, in the order of the dependencies.

        If a source changes its outputs at the end of its initialization, the connected parts read
        the new outputs.
        """
        changed: set[str] = set()
        for group in self._groups:
            for name in group.parts:
                part = self._parts[name]
                before = part.outputs().copy()
                if any(a in changed for (a, _), *_ in self._plan.wiring.wires_to(name)):
                    self._refresh(name)
                self._guarded(name, part.begin)
                if not _are_equal(before, part.outputs()):
                    changed.add(name)

    def _evaluate_known(self, name: str, outputs: set[str]) -> None:
        """Evaluate outputs of a part; inputs with unknown sources have their start values.

        A block evaluates all its outputs, including outputs that depend on an unknown input. The
        evaluation of a block may therefore fail.
        """
        for wire in self._wires[name]:
            _copy(wire, wire.known)
        if all(wire.known.all() for wire in self._wires[name]):
            self._evaluate(name, outputs)
        else:
            self._try_evaluation(name, outputs)

    def _try_evaluation(self, name: str, outputs: set[str]) -> bool:
        """Evaluate outputs of a part; return False if the evaluation of a block fails.

        The block may be evaluated again later, with other inputs.
        """
        if not isinstance(self._parts[name], BlockInstance):
            self._evaluate(name, outputs)
            return True
        try:
            self._parts[name].initialize(self._t)
        except Exception:
            self._inputs.pop(name, None)
            return False
        self._store_evaluation(name, outputs)
        return True

    def _evaluate(self, name: str, outputs: set[str]) -> None:
        """Compute outputs of a part, and store the inputs for the comparison in `_is_current`."""
        chosen: Collection[str] | None = None if outputs == self._ports[name] else outputs
        self._guarded(name, partial(self._parts[name].initialize, self._t, chosen))
        self._store_evaluation(name, outputs)

    def _store_evaluation(self, name: str, outputs: set[str]) -> None:
        inputs = self._parts[name].inputs
        if name not in self._inputs or not _are_equal(self._inputs[name], inputs):
            self._inputs[name], self._outputs_read[name] = inputs.copy(), set()
        self._outputs_read[name] |= outputs

    def _is_current(self, name: str) -> bool:
        """Return True if all outputs of the part are computed for its current inputs."""
        return (
            name in self._inputs
            and _are_equal(self._inputs[name], self._parts[name].inputs)
            and self._outputs_read[name] == self._ports[name]
        )

    def _refresh(self, name: str) -> None:
        """Read the inputs of a part, and compute the outputs if the inputs have changed."""
        self._read_inputs(name)
        if not self._is_current(name):
            self._evaluate(name, self._ports[name])

    def _evaluate_group(self, group: StartGroup) -> None:
        """Evaluate a group; solve its loop by fixed-point iteration, or else by Newton's method."""
        if not group.is_cycle:
            self._refresh(group.parts[0])
            return
        row = self._row(group)
        limit = (_LOOP_GROWTH if group.is_loop else _GROWTH) * max(1.0, _maximum_norm(row))
        changes = []
        for _ in range(PASSES):
            current = True
            for name in group.parts:
                self._read_inputs(name)
                if self._is_current(name):
                    continue
                current = False
                if not self._try_evaluation(name, self._ports[name]):
                    self._solve(group, is_near=False)
                    return
            if current:
                return
            before, row = row, self._row(group)
            changes.append(_maximum_norm(row - before))
            if not _maximum_norm(row) <= limit:
                break
        self._solve(group, is_near=changes[-1] < 0.5 * changes[0])

    def _row(self, group: StartGroup) -> Array:
        """Return all outputs of the parts in a group as one array."""
        return np.concatenate([np.zeros(0), *(self._parts[name].outputs() for name in group.parts)])

    def _solve(self, group: StartGroup, is_near: bool) -> None:
        """Solve the loop of a group by Newton's method.

        If `is_near` is true, the initial guess is the current outputs. Otherwise, the initial guess
        is the start values.
        """
        links = self._plan.links
        columns = self._columns(group, links)
        owners = tuple(dict.fromkeys(str(name) for name in links.owner[columns]))

        def outputs(values: Array) -> Array:
            given = self._all_outputs()
            given[columns] = values
            for name in group.parts:
                link = links.by_part[name]
                self._parts[name].inputs[link.to] = link.inputs(given[None, link.sources])[0]
                self._evaluate(name, self._ports[name])
            return self._all_outputs()[columns]

        guess = self._all_outputs()[columns] if is_near else self._guess(group, links, columns)
        scale = np.maximum(links.nominal[columns], np.abs(guess))
        slopes = InterfaceJacobian(links, owners, columns, self._parts)
        equations = equations_of(links, group.parts, columns)
        try:
            equations.solve(
                outputs, guess, scale, lambda: slopes(lambda _, inputs: np.ones(len(inputs)))
            )
            self._check(group)
        except ArithmeticError as error:
            names = [n for port in self._plan.wiring.outputs for n in port.element_names]
            signals = ", ".join(names[k] for k in columns)
            refused = ArithmeticError(
                f"the initialization did not converge: no values of {signals} satisfy the "
                f"equations of the loop: {error}"
            )
            raise add_doc_link(refused, "algebraic loops") from error

    def _columns(self, group: StartGroup, links: Links) -> Array:
        """Return the indices of the real-valued outputs that the parts of a group exchange."""
        types = [p.type for p in self._plan.wiring.outputs for _ in range(p.size)]
        read = np.unique(np.concatenate([links.by_part[name].sources for name in group.parts]))
        own = (k for k in read.tolist() if links.owner[k] in group.parts and types[k] in REAL)
        return np.array(list(own), dtype=int)

    def _guess(self, group: StartGroup, links: Links, columns: Array) -> Array:
        """Return the initial guess of the outputs `columns`: the start values of connected inputs.

        Start values from the user replace declared start values.
        """
        values = self._all_outputs()
        for is_given in (False, True):
            for name in reversed(group.parts):
                part, link = self._plan.wiring.parts[name], links.by_part[name]
                given = np.concatenate(
                    [np.zeros(0, bool)]
                    + [np.full(u.size, u.name in part.start) for u in part.component.inputs]
                )
                chosen = (link.factor != 0.0) & (given[link.to] | (not is_given))
                start = self._start[name][link.to[chosen]] - link.offset[chosen]
                values[link.sources[chosen]] = start / link.factor[chosen]
        return values[columns]

    def _check(self, group: StartGroup) -> None:
        """Raise ArithmeticError if an input differs from its source after a loop has been solved.

        Inputs that are not real numbers may differ, because Newton's method omits them.
        """
        for name in group.parts:
            part = self._parts[name]
            solved = part.inputs.copy()
            self._read_inputs(name)
            off = np.abs(part.inputs - solved) > _AGREEMENT * (1.0 + np.abs(solved))
            part.inputs[:] = solved
            if off.any():
                ports = self._plan.wiring.parts[name].component.inputs
                names = [f"{name}.{one}" for port in ports for one in port.element_names]
                raise ArithmeticError(
                    f"the input {names[int(np.argmax(off))]} differs from the output of its source"
                )

    def _all_outputs(self) -> Array:
        return np.concatenate([np.zeros(0), *(part.outputs() for part in self._parts.values())])


def _copy(wire: _StartWire, elements: Array) -> None:
    """Copy elements of an output to the same elements of an input, and convert the units."""
    wire.target[elements] = wire.source[elements]
    if wire.conversion is not None:
        wire.target[elements] = wire.conversion.apply(wire.source)[elements]


def _start_names(part: Part) -> set[str]:
    """Return the names of ports with a start value that the component or the user defines."""
    component = part.component
    states = getattr(component, "states", ())
    ports = (*component.inputs, *component.outputs, *states)
    return {*part.start, *(port.name for port in ports if port.start is not None)}


def _are_equal(a: Array, b: Array) -> bool:
    return np.array_equal(a, b, equal_nan=True)


def _maximum_norm(values: Array) -> float:
    """Return the largest absolute value in `values`, or NaN if an element is NaN."""
    return float(np.abs(values).max(initial=0.0))
