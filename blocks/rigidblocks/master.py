"""The master: a fixed-step co-simulation of a system."""

import abc
import contextlib
import logging
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from tqdm import tqdm

from rigidblocks.block import Block
from rigidblocks.flat import FlatBlock, sample_spans
from rigidblocks.fused import GAUSS_SEIDEL, JACOBI, ORDERS, FusedSystem
from rigidblocks.holds import holds_too_long
from rigidblocks.instance import BlockInstance, Instance
from rigidblocks.result import Result
from rigidblocks.spatial import Array
from rigidblocks.stepper import CompiledStepper
from rigidblocks.system import Part, System

LOG = logging.getLogger("rigidblocks")
FORMS = ("compiled", "numpy", "fused")
_CLOSE = 1e-12  # of dt: how closely an event is located
_EVENTS = 100  # in one step of dt: more than that do not end
_CHUNK = 10_000  # fused steps between two looks at the progress bar and at Ctrl-C


class SimulationError(RuntimeError):
    """A run that could not go on; `result` has what there is up to then."""

    def __init__(self, message: str, result: Result):
        super().__init__(message)
        self.result = result


class Interrupted(KeyboardInterrupt):
    """A run that Ctrl-C ended; `result` has what there is up to then."""

    def __init__(self, message: str, result: Result):
        super().__init__(message)
        self.result = result


@dataclass(frozen=True)
class Grid:
    """The communication points t_start + k dt, k = 0 .. n; counted, not summed."""

    t_start: float
    dt: float
    n: int


def simulate(
    system: System,
    t_stop: float,
    dt: float,
    *,
    t_start: float = 0.0,
    order: str = GAUSS_SEIDEL,
    form: str = "compiled",
    events: Sequence[str] = (),
    save: str | Path | None = None,
    progress: bool = True,
) -> Result:
    """All outputs of the system at t_start, t_start + dt, ... t_stop.

    In each step every part goes from t to t + dt with its inputs held. With `order` "gauss-seidel" a part whose outputs
    read its inputs at once steps behind the parts that it reads from, and reads their new outputs; with "jacobi" all read
    the outputs of time t. `form` says how blocks run: "compiled" to C, in plain "numpy", or "fused", the whole system as
    one C loop; FMUs bring their own form.

    `events` names outputs, such as "ball.gap" or "robot.q[1]", whose fall through zero is an event. A step in which one
    falls is taken back, by the saved states of all parts, and repeated until it ends where the first of them has just come
    to zero or below: located to 1e-12 of dt, as exactly as the parts integrate. There all exchange their outputs, the
    result gets a row of its own, and a shorter step leads on to the next multiple of dt. What goes below zero and comes
    back within one step is not seen.

    `save` names a .csv or .parquet file for the result. A run that fails raises SimulationError, and Ctrl-C raises
    Interrupted; both carry the result up to then, which is saved too. Raises ValueError for an algebraic loop, an open
    input without a start value, and a dt that does not divide the run or fit the sample times. Warns where a block among
    the parts knows (`Block.longest_hold`) that dt holds its outputs so long that the wiring is unstable. What blocks have
    to say of the run (`Block.remarks`) goes to the log `rigidblocks`.
    """
    for what, value, known in (("form", form, FORMS), ("order", order, ORDERS)):
        if value not in known:
            raise ValueError(f"{what} must be one of {', '.join(known)}, not '{value}'")
    grid = _grid(system, t_start, t_stop, dt)
    list(system.open_inputs())  # raises for an input left open
    _check_events(system, events, form)
    run = _FusedLoop(system, grid, order, form) if form == "fused" else _CoSimulation(system, grid, order, form, events)
    bar = tqdm(
        total=grid.n, unit="step", delay=1.0, leave=False, disable=None if progress else True
    )  # None: not where there is no terminal
    try:
        with bar, contextlib.closing(run):
            run.start()
            for message in holds_too_long(system, dt, run.values):
                warnings.warn(message, RuntimeWarning, stacklevel=2)
            for steps in run.go():
                bar.update(steps)
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted at t = {run.t:g} s", run.finish(save)) from None
    except (ArithmeticError, RuntimeError) as error:
        raise SimulationError(f"the run stopped at t = {run.t:g} s: {error}", run.finish(save)) from error
    result = run.finish(save)
    for message in _remarks(system, result):
        LOG.info(message)
    return result


def _remarks(system: System, result: Result) -> Iterator[str]:
    for name, part in system.parts.items():
        if isinstance(block := part.component, Block):
            y = SimpleNamespace(**{port.name: result[f"{name}.{port.name}"] for port in block.outputs})
            yield from (f"'{name}' {text}" for text in block.remarks(result.time, y))


def _grid(system: System, t_start: float, t_stop: float, dt: float) -> Grid:
    if not (np.isfinite([t_start, t_stop, dt]).all() and dt > 0 and t_stop > t_start):
        raise ValueError(
            f"a run needs finite t_stop > t_start and dt > 0, not t_start = {t_start}, t_stop = {t_stop}, dt = {dt}"
        )
    steps = (t_stop - t_start) / dt
    n = int(np.rint(steps))
    if n < 1 or abs(steps - n) > 1e-6:
        fitting = (t_stop - t_start) / max(1, n)
        raise ValueError(f"dt = {dt} s does not divide the run of {t_stop - t_start} s; {fitting:.9g} s would")
    for name, part in system.parts.items():
        sample_time = getattr(part.component, "sample_time", None)
        try:
            sample_spans(sample_time, dt)
        except ValueError as error:
            raise ValueError(f"'{name}': {error}") from None
        if sample_time is not None and abs(t_start / sample_time - np.rint(t_start / sample_time)) > 1e-6:
            raise ValueError(f"'{name}': t_start = {t_start} s is not a multiple of its sample time {sample_time} s")
    return Grid(t_start, dt, n)


def _check_events(system: System, events: Sequence[str], form: str) -> None:
    if not events:
        return
    if form == "fused":
        raise ValueError("a fused run cannot go back to an event; take the form compiled or numpy")
    for name, part in system.parts.items():
        if getattr(part.component, "sample_time", None) is not None:
            raise ValueError(f"a step that ends at an event does not fit the sample time of '{name}'")
    known = [
        f"{name}.{element}"
        for name, part in system.parts.items()
        for y in part.component.outputs
        for element in y.element_names
    ]
    if unknown := [event for event in events if event not in known]:
        raise ValueError(f"there is no output element '{unknown[0]}' to be an event; there are: {', '.join(known)}")


class _Run(abc.ABC):
    """A run under way: the rows of outputs up to communication point k."""

    def __init__(self, system: System, grid: Grid, order: str, form: str):
        self.grid, self.k, self.time = grid, -1, np.empty(grid.n + 1)
        self.ports = tuple(
            replace(port, name=f"{name}.{port.name}")
            for name, part in system.parts.items()
            for port in part.component.outputs
        )
        self.rows = np.empty((grid.n + 1, sum(port.size for port in self.ports)))
        self.meta = {"order": order, "dt": repr(grid.dt), "form": form}

    @property
    def t(self) -> float:
        """The last time that was reached [s]."""
        return float(self.time[self.k]) if self.k >= 0 else self.grid.t_start

    def finish(self, save: str | Path | None) -> Result:
        """What has been recorded so far, saved where asked."""
        result = Result(self.time[: self.k + 1], self.ports, self.rows[: self.k + 1], self.meta)
        if save is not None:
            result.save(save)
        return result

    def values(self, name: str) -> Array:
        """The last values of the output `part.port`."""
        where = 0
        for port in self.ports:
            if port.name == name:
                return self.rows[self.k, where : where + port.size].reshape(port.shape)
            where += port.size
        raise KeyError(name)

    @abc.abstractmethod
    def start(self) -> None:
        """Computes the outputs at t_start."""

    @abc.abstractmethod
    def go(self) -> Iterator[int]:
        """Runs on from there to the end, yielding how many steps were taken since the last time."""

    @abc.abstractmethod
    def close(self) -> None:
        """Frees what the run holds."""


class _CoSimulation(_Run):
    """A run of one instance for each part."""

    def __init__(self, system: System, grid: Grid, order: str, form: str, events: Sequence[str]):
        super().__init__(system, grid, order, form)
        names = [name for port in self.ports for name in port.element_names]
        self._events = np.array([names.index(event) for event in events], dtype=int)
        self._jacobi = order == JACOBI
        self._evaluation_order, self._stepping_order = system.evaluation_order(), system.stepping_order()
        self._instances: dict[str, Instance] = {}
        try:
            for name, part in system.parts.items():
                self._instances[name] = _instance(part, form == "compiled")
        except BaseException:
            self.close()
            raise
        self._wires: dict[str, list[tuple[Array, Array]]] = {name: [] for name in system.parts}
        for (b, u), (a, y) in system.sources.items():
            self._wires[b].append((self._instances[a].output(y), self._instances[b].input(u)))

    def start(self) -> None:
        for name in self._evaluation_order:
            self._read_inputs(name)
            self._instances[name].initialize(self.grid.t_start)
        for instance in self._instances.values():
            instance.begin()
        self._record(self.grid.t_start)

    def go(self) -> Iterator[int]:
        self._steps = [(name, self._instances[name].step) for name in self._stepping_order]
        step = self._step_through_events if len(self._events) else self._step
        for k in range(self.grid.n):
            step(self.grid.t_start + k * self.grid.dt, self.grid.dt)
            self._record(self.grid.t_start + (k + 1) * self.grid.dt)
            yield 1

    def _step(self, t: float, dt: float) -> None:
        if self._jacobi:
            self._read_inputs(*self._stepping_order)
        for name, step in self._steps:
            if not self._jacobi:
                self._read_inputs(name)
            step(t, dt)

    def _step_through_events(self, t: float, dt: float) -> None:
        """Steps from t to t + dt, ending a step and recording a row at each event."""
        start, rest = t, dt
        for _ in range(_EVENTS + 1):
            for instance in self._instances.values():
                instance.save()
            before = self._row()[self._events]
            self._step(start, rest)
            if not self._happened(before):
                return
            start += self._located(start, rest, dt, before)
            rest = t + dt - start
            if rest <= 0:
                return
            self._insert(start)
        raise ArithmeticError(f"more than {_EVENTS} events within one step of dt")

    def _located(self, t: float, length: float, dt: float, before: Array) -> float:
        """Takes the step again, up to the first moment at which an event is known to have happened; returns its length."""
        low, high = 0.0, length
        while high - low > _CLOSE * dt:
            middle = (low + high) / 2
            self._step_again(t, middle)
            low, high = (low, middle) if self._happened(before) else (middle, high)
        self._step_again(t, high)
        return high

    def _step_again(self, t: float, dt: float) -> None:
        for instance in self._instances.values():
            instance.restore()
        self._step(t, dt)

    def _happened(self, before: Array) -> bool:
        return bool(np.any((before > 0) & (self._row()[self._events] <= 0)))

    def _insert(self, t: float) -> None:
        """Records a row between the communication points."""
        self.time = np.append(self.time, 0.0)
        self.rows = np.concatenate([self.rows, np.empty((1, self.rows.shape[1]))])
        self._record(t)

    def close(self) -> None:
        for instance in self._instances.values():
            instance.close()

    def _read_inputs(self, *names: str) -> None:
        for name in names:
            for source, target in self._wires[name]:
                target[:] = source

    def _record(self, t: float) -> None:
        self.time[self.k + 1], row = t, self.rows[self.k + 1]
        np.concatenate([instance.outputs() for instance in self._instances.values()], out=row)
        if not np.isfinite(row).all():
            names = [name for port in self.ports for name in port.element_names]
            bad = [name for name, value in zip(names, row, strict=True) if not np.isfinite(value)]
            raise ArithmeticError(f"not finite: {', '.join(bad[:8])}")
        self.k += 1

    def _row(self) -> Array:
        """All outputs."""
        return np.concatenate([instance.outputs() for instance in self._instances.values()])


def _instance(part: Part, compiled: bool) -> Instance:
    if isinstance(part.component, Block):
        return BlockInstance(part, compiled)
    from rigidblocks.fmi.imported import FmuInstance  # imported here: packaging stands above wiring

    return FmuInstance(part)


class _FusedLoop(_Run):
    """A run of the whole system as one C loop."""

    def __init__(self, system: System, grid: Grid, order: str, form: str):
        super().__init__(system, grid, order, form)
        self._stepper = CompiledStepper(FlatBlock(FusedSystem(system, grid.dt, order)), h=grid.dt)
        where = self._stepper.flat.where
        self._columns = np.concatenate([np.arange(where[port.name].start, where[port.name].stop) for port in self.ports])
        self._memory = self._stepper.flat.start()

    def start(self) -> None:
        self._stepper.initialize(self._memory, self.grid.t_start)
        self.time[0], self.rows[0], self.k = self.grid.t_start, self._memory[self._columns], 0

    def go(self) -> Iterator[int]:
        memory, chunk = self._memory, np.empty((_CHUNK, len(self._memory)))
        while self.k < self.grid.n:
            rows = chunk[: self.grid.n - self.k]
            taken = self._stepper.run(memory, self.t, self.grid.dt, rows)
            new = slice(self.k + 1, self.k + 1 + taken)
            self.rows[new] = rows[:taken, self._columns]
            self.time[new] = self.grid.t_start + self.grid.dt * np.arange(new.start, new.stop)
            self.k += taken
            if taken < len(rows):
                self._stepper.step(memory, self.t, self.grid.dt)  # raises with the reason
            yield taken

    def close(self) -> None:
        """Has nothing to free."""
