"""A system with FMUs among its parts as tables of a program: `parts.h` of `c/runner/parts.c`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.bench.fmus import (
    DOUBLE,
    carried_ports,
    check_fmu,
    library_of,
    plan_text,
    tunable_ports,
)
from rigidblocks.bench.layout import Layout
from rigidblocks.block.adaptive import memory_for
from rigidblocks.block.block import Block
from rigidblocks.block.memory import Memory
from rigidblocks.block.port import Port
from rigidblocks.kernels.composite import of_its_own
from rigidblocks.kernels.evaluator import TracedEvaluator
from rigidblocks.kernels.kernel import KERNEL, model_header
from rigidblocks.simulation.coupling import PLAIN
from rigidblocks.simulation.plan import Plan
from rigidblocks.simulation.prepare import planned
from rigidblocks.system.fmu import Fmu
from rigidblocks.system.part import Part
from rigidblocks.system.system import System
from rigidblocks.tracing.ccode import c_number, c_text


@dataclass(frozen=True, eq=False)
class PartsInTurn:
    """Parts that step one after the other on one memory: that of each block as it is, and of each
    FMU the values of its inputs and outputs.

    Raises ValueError for an FMU that a program cannot step, and what `simulate` raises for the
    system.
    """

    system: System
    dt: float
    order: str

    def __post_init__(self) -> None:
        for part in self.fmus:
            check_fmu(part)

    @cached_property
    def plan(self) -> Plan:
        """The parts in the order in which `simulate` steps them."""
        how = (None, None, None, None, None, (), PLAIN)
        return planned(self.system, self.dt, 0.0, self.order, "compiled", *how)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The parts in the order of their steps."""
        return tuple(self.plan.wiring.parts[name] for name in self.plan.stepping_order)

    @cached_property
    def fmus(self) -> tuple[Part, ...]:
        """Those that are FMUs, in the order in which they were added."""
        return tuple(p for p in self.system.parts.values() if isinstance(p.component, Fmu))

    @cached_property
    def memories(self) -> dict[str, Memory]:
        """The memories of the blocks, by the names of the parts."""
        return {
            part.name: memory_for(part.component, part.stepping[0])
            for part in self.parts
            if isinstance(part.component, Block)
        }

    @cached_property
    def first(self) -> dict[str, int]:
        """Where the memory of each part begins, and at "" where it ends."""
        ends = np.cumsum([0, *map(self._size, self.parts)]).tolist()
        return dict(zip([*(part.name for part in self.parts), ""], ends, strict=True))

    @cached_property
    def layout(self) -> Layout:
        """Where the signals are."""
        wiring, where = self.plan.wiring, {}
        for part in self.parts:
            first = self.first[part.name]
            for name, place in self._own(part).items():
                there = slice(first + place.start, first + place.stop)
                where[wiring.whole_name(part.name, name)] = there
        outputs = tuple(port for port in wiring.outputs if port.name in where)
        inputs = []
        for name, port in wiring.open_inputs:
            if port.type not in DOUBLE:  # which would not take every number
                continue
            if port.name not in self._own(wiring.parts[name]):  # an element of one
                whole, k = _element(wiring.parts[name], port.name)
                place = where[wiring.whole_name(name, whole)].start + k
                where[wiring.whole_name(name, port.name)] = slice(place, place + 1)
            inputs.append(replace(port, name=wiring.whole_name(name, port.name)))
        return Layout(self.first[""], where, outputs, tuple(inputs), self._parameters())

    def _parameters(self) -> tuple[Port, ...]:
        """Those that are tuned while it runs, by their names in the system."""
        tuned: dict[str, Sequence[Port]] = {
            **{name: memory.parameters for name, memory in self.memories.items()},
            **{part.name: tunable_ports(part.component) for part in self.fmus},  # type: ignore[arg-type]
        }
        return tuple(
            replace(port, name=self.plan.wiring.whole_name(name, port.name))
            for name in tuned
            for port in tuned[name]
        )

    def text(self, folder: str, platform: str | None) -> str:
        """parts.h; the FMUs lie in `folder` beside the program."""
        numbers = {part.name: k for k, part in enumerate(self.fmus)}
        lines = [
            "#ifndef RB_PARTS_H\n#define RB_PARTS_H\n",
            f"enum {{ RUNNER_PARTS = {len(self.parts)}, RUNNER_FMUS = {len(self.fmus)},",
            f"       RUNNER_SIMULTANEOUS = {int(self.plan.is_simultaneous)} }};",
            f"static double memory[{self.first['']} + 1];",
            _doubles("RUNNER_START", (*self._start().tolist(), 0.0)),
        ]
        plans = []
        for k, part in enumerate(self.fmus):
            library = library_of(part.component, platform)  # type: ignore[arg-type]
            own = self.layout.where
            *tables, plan = plan_text(k, part, own, f"{folder}/{k}", library)
            lines += tables
            plans.append(plan)
        lines.append(f"static const FmuPlan FMUS[] = {{\n    {_rows(plans)}}};")
        for k, part in enumerate(self.parts):
            if part.name in self.memories:
                lines.append(self._block_text(k, part))
        lines += self._tables(numbers)
        return "\n".join([*lines, "\n#endif\n"])

    def _tables(self, numbers: dict[str, int]) -> Iterator[str]:
        """The wires, the parts and their orders."""
        rows, starts = [], []
        for k, part in enumerate(self.parts):
            wires, scales = self._wires(part)
            yield f"static const Copy WIRES_{k}[] = {{\n    {_rows(wires)}}};"
            yield f"static const Scale SCALES_{k}[] = {{\n    {_rows(scales)}}};"
            is_block = part.name in self.memories
            starts.append(f"start_{k}" if is_block else "0")
            steps = f".step.block_step = step_{k}, " if is_block else ""
            rows.append(
                f"{{.kind = {'RB_BLOCK' if is_block else 'RB_HOSTED'}, .number = {k}, "
                f".instance = memory + {self.first[part.name]}, {steps}"
                f".wires = WIRES_{k}, .n_wires = {len(wires)}, "
                f".scales = SCALES_{k}, .n_scales = {len(scales)}}}"
            )
        names = [part.name for part in self.parts]
        evaluation = [names.index(name) for name in self.plan.wiring.evaluation_order]
        checked = list(self._checked())
        yield f"static const Part PARTS[] = {{\n    {_rows(rows)}}};"
        yield (
            f"static int (*const STARTS[])(double *m, double t) = {{{', '.join([*starts, '0'])}}};"
        )
        yield _integers("EVALUATION", evaluation)
        yield _integers("FMU_OF", [numbers.get(name, -1) for name in names])
        yield f"static const Copy CHECKED[] = {{\n    {_rows(checked)}}};"
        yield (
            f"enum {{ RUNNER_CHECKED = {len(checked)}, RUNNER_EVALUATIONS = {len(evaluation)} }};"
        )

    def _checked(self) -> Iterator[str]:
        """The outputs that may get infinite without a word of their parts."""
        for part in self.fmus:
            for port in carried_ports(part.component.outputs):
                place = self.layout.where[f"{part.name}.{port.name}"]
                yield f"{{memory + {place.start}, memory + {place.start}, {port.size}}}"

    def _wires(self, part: Part) -> tuple[list[str], list[str]]:
        """The copies to the inputs of a part, and the conversions of their units."""
        wiring, where = self.plan.wiring, self.layout.where
        copies, scales = [], []
        for wire in wiring.wires_to(part.name):
            (a, y), (b, u), start, to, n = wire
            source, target = f"{a}.{y}", f"{b}.{u}"
            for name in (source, target):
                if name not in where:
                    raise ValueError(f"{name} is no number, and a runner carries nothing else")
            first = where[target].start + to
            copies.append(f"{{memory + {where[source].start + start}, memory + {first}, {n}}}")
            if (conversion := wiring.conversion(wire)) is not None:
                pairs = zip(*map(np.atleast_1d, conversion), strict=True)
                scales += [
                    f"{{memory + {first + k}, {c_number(factor)}, {c_number(offset)}}}"
                    for k, (factor, offset) in enumerate(pairs)
                ]
        return copies, scales

    def _block_text(self, number: int, part: Part) -> str:
        """The C of a block, under names of its own."""
        memory, (method, h) = self.memories[part.name], part.stepping
        text = model_header(TracedEvaluator(memory), method, h)
        text += "".join(c_text(f"kernel/{name}") for name in KERNEL)
        first, states = self.first[part.name], (memory.x.start, memory.z.stop)
        head = f"static int start_{number}(double *m, double t)"
        step = f"static int step_{number}(double *m, double t, double dt)"
        own = f"b{number}_"
        return (
            f"{of_its_own(text, number)}\n{head}\n{{\n"
            f"    {own}store(m + {states[0]}, RUNNER_START + {first + states[0]}, "
            f"{states[1] - states[0]});\n"
            f"    return {own}initialize(m, t);\n}}\n{step}\n{{\n"
            f"    const int refusal = {own}step_refusal(t, INFINITY, t, dt, 0);\n"
            f"    return refusal ? refusal : {own}step(m, t, dt, NULL);\n}}"
        )

    def _start(self) -> Array:
        """The memory before a run."""
        start = np.zeros(self.first[""])
        for part in self.parts:
            first = self.first[part.name]
            if part.name in self.memories:
                own = self.memories[part.name].start()
                start[first : first + len(own)] = own
                given = dict(part.start)
            else:
                given = {port.name: _given(part, port) for port in _numbers(part)}
            for name, place in self._own(part).items():
                if name in given:
                    start[first + place.start : first + place.stop] = np.ravel(given[name])
        return start

    def _size(self, part: Part) -> int:
        if part.name in self.memories:
            return self.memories[part.name].size
        return sum(port.size for port in _numbers(part))

    def _own(self, part: Part) -> dict[str, slice]:
        """Where the ports of a part are in its own memory."""
        if part.name in self.memories:
            return dict(self.memories[part.name].where)
        ports = _numbers(part)
        ends = np.cumsum([0, *(port.size for port in ports)]).tolist()
        return {port.name: slice(a, a + port.size) for port, a in zip(ports, ends, strict=False)}


def _numbers(part: Part) -> tuple[Port, ...]:
    """The inputs, outputs and tunable parameters of an FMU that a program carries."""
    fmu = part.component
    assert isinstance(fmu, Fmu)
    return carried_ports((*fmu.inputs, *fmu.outputs, *tunable_ports(fmu)))


def _given(part: Part, port: Port) -> Array:
    value = part.start.get(port.name, 0.0 if port.start is None else port.start)
    return np.broadcast_to(np.ravel(value), (port.size,))


def _element(part: Part, name: str) -> tuple[str, int]:
    """The input that an element is of, and its place there."""
    for port in part.component.inputs:
        if name in port.element_names:
            return port.name, port.element_names.index(name)
    raise KeyError(name)


def _rows(rows: Sequence[str]) -> str:
    return ",\n    ".join([*rows, "{0}"])


def _doubles(name: str, values: Sequence[float]) -> str:
    return f"static const double {name}[] = {{{', '.join(map(c_number, values))}}};"


def _integers(name: str, values: Sequence[int]) -> str:
    return f"static const int {name}[] = {{{', '.join(map(str, (*values, 0)))}}};"
