"""The co-simulation of a system at a fixed communication step."""

import contextlib
import logging
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from rigidblocks.block.adaptive import (
    DEFAULT_METHOD,
    Adaptive,
    Method,
    method_of,
    step_remarks,
)
from rigidblocks.block.block import Block, Record
from rigidblocks.block.record import offer
from rigidblocks.block.step import sample_spans
from rigidblocks.simulation.arguments import check_count, check_names, check_numbers, check_path
from rigidblocks.simulation.grid import Grid, communication_points
from rigidblocks.simulation.interrupts import Interrupts
from rigidblocks.simulation.masters import CoSimulation, FusedLoop, Master, said
from rigidblocks.simulation.provenance import provenance
from rigidblocks.simulation.recording import Recording, Wanted
from rigidblocks.simulation.result import Result
from rigidblocks.simulation.stability import holds_too_long, steps_too_long
from rigidblocks.system.fmu import Fmu
from rigidblocks.system.fused import GAUSS_SEIDEL, ORDERS
from rigidblocks.system.system import System
from rigidblocks.system.wiring import Wiring

LOG = logging.getLogger("rigidblocks")
FORMS = ("compiled", "numpy", "fused")


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


def simulate(
    system: System,
    t_stop: float,
    dt: float,
    *,
    t_start: float = 0.0,
    order: str = GAUSS_SEIDEL,
    form: str = "compiled",
    method: Method | str | None = None,
    h: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    max_inner_steps: int | None = None,
    events: Sequence[str] = (),
    record: Sequence[str] = ("*",),
    every: int = 1,
    save: str | Path | None = None,
    progress: bool = True,
) -> Result:
    """All outputs of the system at t_start, t_start + dt, ... t_stop.

    In each step every part goes from t to t + dt with its inputs held. With `order` "gauss-seidel"
    a part whose outputs read its inputs at once steps behind the parts that it reads from, and
    reads their new outputs; with "jacobi" all read the outputs of time t. `form` says how blocks
    run: "compiled" to C, in plain "numpy", or "fused", the whole system as one C loop; FMUs bring
    their own form. `method`, `h`, `rtol`, `atol` and `max_inner_steps` are those of `System.add`,
    for all blocks that were added without a method.

    `events` names outputs, such as "ball.gap" or "robot.q[1]", whose fall through zero is an event.
    A step in which one falls is taken back, by the saved states of all parts, and repeated until it
    ends where the first of them has just come to zero or below: located to 1e-12 of dt, as exactly
    as the parts integrate. There all exchange their outputs, the result gets a row of its own, and
    a shorter step leads on to the next multiple of dt. The `events` of the result have the time
    and, as their kind, the output. What goes below zero and comes back within one step is not seen.

    `record` names the outputs to keep by patterns, such as ["robot.*", "pd.tau"], and with `every`
    only each such communication point is kept, beside the events. `save` names an .arrow, .csv,
    .parquet or .mf4 file for the result, and is checked before the first step. Where pyarrow is
    installed, the run is recorded while it goes on, in chunks of no more than 1 MB or 1 s, to that
    .arrow file, or for another ending to a log beside it, as `run.csv.arrow`, from which the file
    is made at the end. Of a run that is killed the log has every whole chunk: `Result.load` opens
    it, and `rigidblocks convert` makes the file of it.

    A run that fails raises SimulationError, and Ctrl-C or SIGTERM raises Interrupted; both carry
    the result up to then, which is saved too. A second one ends the making of a file from its log,
    which is kept. Raises ValueError for an algebraic loop, an open input without a start value, and
    a dt that does not divide the run or fit the sample times, TypeError for an argument of a wrong
    type, and what `Result.save` raises for `save`. Warns where a block among the parts knows
    (`Block.longest_hold`) that dt holds its outputs so long that the wiring is unstable, or
    (`Block.modes`) that it is integrated in steps that are too long for its springs. What
    blocks have to say of the run (`Block.remarks`) goes to the log `rigidblocks`.
    """
    if not isinstance(system, System):
        raise TypeError(f"simulate takes a System with its parts, not a {type(system).__name__}")
    check_numbers({"t_stop": t_stop, "dt": dt, "t_start": t_start})
    check_names({"events": events, "record": record})
    check_count("every", every)
    check_path("save", save)
    for what, value, known in (("form", form, FORMS), ("order", order, ORDERS)):
        if value not in known:
            raise ValueError(f"{what} must be one of {', '.join(known)}, not {value!r}")
    chosen = method_of(method or DEFAULT_METHOD, rtol, atol, max_inner_steps)
    wiring = system.wiring().stepped_by(chosen, h)
    grid = _grid(wiring, t_start, t_stop, dt)
    _ = wiring.open_inputs  # raises for an input left open
    _check_events(wiring, events, form)
    wanted = Wanted(tuple(record), every, None if save is None else Path(save))
    wanted.check(wiring, grid)
    result = _run(wiring, grid, order, form, events, wanted, progress)
    for level, message in _remarks(wiring, result):
        LOG.log(level, message)
    return result


def _run(
    wiring: Wiring,
    grid: Grid,
    order: str,
    form: str,
    events: Sequence[str],
    wanted: Wanted,
    progress: bool,
) -> Result:
    """The result of a run, saved where asked, also when the run does not come to its end."""
    meta = {"order": order, "dt": repr(grid.dt), "form": form, **provenance(wiring)}
    with Interrupts() as interrupts:
        rows = Recording(wiring, grid, meta, wanted, interrupts.held_back)
        master: Master = (
            FusedLoop(wiring, rows, order)
            if form == "fused"
            else CoSimulation(wiring, rows, order, form == "compiled", events)
        )
        failure: BaseException | None = None
        try:
            try:
                _go(wiring, master, rows, progress)
            finally:
                interrupts.hold_back()
        except (Exception, KeyboardInterrupt, SystemExit) as error:
            failure = error
        result, unwritten = rows.finish()
        unsaved = _save(result, wanted, unwritten, interrupts)
    if failure is None and interrupts.came:  # too late to end the run
        failure = KeyboardInterrupt()
    if failure is None and unsaved is None:
        return result
    raise _ending(failure, unsaved, wanted, interrupts.name, rows.t, result) from failure or unsaved


def _save(
    result: Result, wanted: Wanted, unwritten: Exception | None, interrupts: Interrupts
) -> BaseException | None:
    """Makes the file of a result, where that is not the log; returns why it is not there or not
    whole.
    """
    if wanted.save is None:
        return None
    if wanted.save == wanted.log:
        return unwritten
    try:
        if wanted.log is not None:  # which keeps the record when this is interrupted
            interrupts.release()
        try:
            result.save(wanted.save)
        finally:
            interrupts.hold_back()
    except (Exception, KeyboardInterrupt) as error:
        return error
    if wanted.log is not None:
        with contextlib.suppress(OSError):  # Windows removes no file that is mapped
            wanted.log.unlink()
    return None


def _ending(
    failure: BaseException | None,
    unsaved: BaseException | None,
    wanted: Wanted,
    signal: str,
    t: float,
    result: Result,
) -> SimulationError | Interrupted:
    """The exception for a run that failed or could not be saved whole."""
    by_signal = isinstance(failure, KeyboardInterrupt)
    ended = f"{signal} ended the run" if by_signal else "the run stopped"
    text = f"{ended} at t = {t:g} s" if failure else f"the run came to its end at t = {t:g} s"
    if failure is not None and not by_signal:
        text += f": {said(failure)}"
    if unsaved is not None and not (failure and said(failure) == said(unsaved)):
        why = signal if isinstance(unsaved, KeyboardInterrupt) else said(unsaved)
        text += f"; it could not be saved to '{wanted.save}' ({why})"
    if unsaved is not None and wanted.log is not None and wanted.log.exists():
        text += f"; its record is in '{wanted.log}'"
    interrupted = by_signal or isinstance(unsaved, KeyboardInterrupt)
    return Interrupted(text, result) if interrupted else SimulationError(text, result)


def _go(wiring: Wiring, master: Master, rows: Recording, progress: bool) -> None:
    """A run from its start to its end."""
    bar = tqdm(
        total=rows.grid.n, unit="step", delay=1.0, leave=False, disable=None if progress else True
    )  # None: not where there is no terminal
    with bar, contextlib.closing(master):
        master.start()
        start = (wiring, rows.grid.dt, rows.values)
        for message in (*holds_too_long(*start), *steps_too_long(*start)):
            warnings.warn(message, RuntimeWarning, stacklevel=4)
        for count in master.go():
            bar.update(count)
        for name, steps in master.steps():
            for text in step_remarks(steps):
                LOG.warning(f"'{name}' {text}")


def _remarks(wiring: Wiring, result: Result) -> Iterator[tuple[int, str]]:
    """What the blocks have to say of a run that has all their outputs, and how loud: steps of a
    fixed length know nothing of their error there.
    """
    recorded = {port.name for port in result.ports}
    for name, part in wiring.parts.items():
        block = part.component
        if not isinstance(block, Block) or type(block).remarks is Block.remarks:
            continue
        if recorded.issuperset(f"{name}.{port.name}" for port in block.outputs):
            outputs = {port.name: result[f"{name}.{port.name}"] for port in block.outputs}
            y = Record(outputs, "output", f"block '{name}'")
            knows = isinstance(part.stepping[0], Adaptive)
            level, advice = (
                (logging.INFO, "")
                if knows
                else (logging.WARNING, "; steps of a fixed length may err there, take 'adaptive'")
            )
            for text in block.remarks(result.time, y):
                yield level, f"'{name}' {text}{advice}"


def _grid(wiring: Wiring, t_start: float, t_stop: float, dt: float) -> Grid:
    grid = communication_points(t_start, t_stop, dt)
    for name, part in wiring.parts.items():
        sample_time = getattr(part.component, "sample_time", None)
        try:
            sample_spans(sample_time, dt)
        except ValueError as error:
            raise ValueError(f"'{name}': {error}") from None
        if (
            sample_time is not None
            and abs(t_start / sample_time - np.rint(t_start / sample_time)) > 1e-6
        ):
            raise ValueError(
                f"'{name}': t_start = {t_start} s is not a multiple of its sample time "
                f"{sample_time} s"
            )
    return grid


def _check_events(wiring: Wiring, events: Sequence[str], form: str) -> None:
    if not events:
        return
    if form == "fused":
        raise ValueError("a fused run cannot go back to an event; take the form compiled or numpy")
    for name, part in wiring.parts.items():
        if getattr(part.component, "sample_time", None) is not None:
            raise ValueError(
                f"a step that ends at an event does not fit the sample time of '{name}'"
            )
        if isinstance(part.component, Fmu) and not part.component.takes_any_step:
            raise ValueError(
                f"a step that ends at an event is shorter than dt, and '{name}' takes steps of one "
                "length alone (canHandleVariableCommunicationStepSize is false)"
            )
    known = [
        f"{name}.{element}"
        for name, part in wiring.parts.items()
        for y in part.component.outputs
        for element in y.element_names
    ]
    if unknown := [event for event in events if event not in known]:
        raise ValueError(
            f"there is no output element '{unknown[0]}' to be an event; {offer(unknown[0], known)}"
        )
