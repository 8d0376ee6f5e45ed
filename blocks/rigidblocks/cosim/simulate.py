"""Co-simulation of a system with a fixed communication step.

A run can have a live view, a progress bar and a saved result, and warns about unstable steps.
`prepare` compiles a system for repeated runs and single steps.
"""

from __future__ import annotations

import abc
import contextlib
import logging
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any, Unpack

from numpy.typing import ArrayLike
from tqdm import tqdm  # in notebooks, a graphical progress bar would need ipywidgets

from rigidblocks.block.adaptive_methods import step_diagnostics
from rigidblocks.block.block import check_count
from rigidblocks.common.doc_links import add_doc_link
from rigidblocks.common.name_hints import explain_calls
from rigidblocks.cosim.diagnosis import block_remarks, explain_divergence, start_warnings
from rigidblocks.cosim.graph.fmu_part import FmuError
from rigidblocks.cosim.graph.system import System
from rigidblocks.cosim.graph.wiring import Wiring
from rigidblocks.cosim.masters.masters import Master, master_of
from rigidblocks.cosim.masters.network import Network, error_text
from rigidblocks.cosim.masters.real_time_pacing import Pace, StepTiming
from rigidblocks.cosim.masters.run_plan import Plan, make_plan
from rigidblocks.cosim.results import result_files as files
from rigidblocks.cosim.results.recording import Recording, RecordOptions
from rigidblocks.cosim.results.result import Result
from rigidblocks.cosim.run_options import (
    CATCH_UP,
    Grid,
    RunOptions,
    add_defaults,
    check_names,
    check_numbers,
    check_path,
    communication_points,
)
from rigidblocks.cosim.scenario import Scenario
from rigidblocks.cosim.signal_handling import Interrupts
from rigidblocks.spatial.spatial import Array


@explain_calls(RunOptions)
def simulate(
    system: System,
    t_stop: float,
    dt: float,
    *,
    t_start: float = 0.0,
    form: str = "compiled",
    scenario: Scenario | Mapping[str, ArrayLike] | str | Path | None = None,
    view: Watcher | None = None,
    progress: bool = True,
    **options: Unpack[RunOptions],
) -> Result:
    """Simulate a system and return its outputs at t_start, t_start + dt, ... t_stop.

    In each communication step, every part integrates from t to t + dt with constant inputs. To run
    a system several times, use `prepare`.

    Steps:

    - `order`: "gauss-seidel" or "jacobi". In "gauss-seidel" order, a part with direct feedthrough
      steps after the parts that it reads, and reads their outputs at t + dt. In "jacobi" order, all
      parts read the outputs at time t.
    - `form`: implementation of the blocks. "compiled" runs each block in C, "numpy" in plain NumPy,
      and "fused" runs the whole system as one C loop. "traced" evaluates the expression graphs of
      the blocks in NumPy and needs no C compiler. The option does not affect FMUs.
    - `method`, `h`, `rtol`, `atol` and `max_inner_steps`: as in `System.add`, for all blocks that
      were added without a method. A given method also applies to FMUs for model exchange that
      support the method and were added without a method. `rtol` also applies to co-simulation FMUs
      added without `rtol`.

    Events: `events` lists outputs that are event indicators, such as "ball.gap" or "robot.q[1]". An
    event occurs when an event indicator falls through zero. The run then restores the saved states
    of all parts and repeats the step. The repeated step ends at the first zero crossing, where the
    event indicator is zero or just below zero. The tolerance of the event time is 1e-12 dt, in
    addition to the integration error of the parts.

    At an event, all parts exchange their outputs, and the result contains an additional sample. A
    shorter step then continues to the next multiple of dt. Events do not shift the sample times of
    blocks. `Result.events` contains the time of each event and, as its type, the name of the
    output. The run does not detect an output that falls below zero and rises above zero within one
    step.

    Coupling options (docs/masters.md):

    - `extrapolate`: degree 1 or 2 of the polynomials that extrapolate the inputs from the last
      outputs.
    - `iterate`: True takes each step of the parts in a connection loop twice, from saved states.
      In the second pass, the inputs are polynomials through the outputs of the first pass. "newton"
      repeats the step until the outputs agree to 1e-12, and also solves algebraic loops.
    - `step_tol`: tolerance of the error per second, relative to the magnitude of each output. The
      step size control selects dt, dt / 2, dt / 4 and so on, but no step below `step_min`.
    - `bonds`: pairs of a force output and the output of its conjugate velocity, such as
      ("motor.tau", "load.qd"). True selects all pairs whose product is a power. The log contains
      the energy that the coupling generates at each pair.
    - `transparent`: True integrates all connected continuous blocks as one block
      (`ContinuousSystem`) by the method of the run, without a hold between the blocks. Algebraic
      loops of these blocks are solved, as in a fused run. The log and `meta` list these blocks.

    Recording: `record` contains name patterns of the recorded outputs, such as ["robot.*",
    "pd.tau"]. The result contains every `every`-th communication point, and the events. `save` is
    the path of an .arrow, .csv, .parquet or .mf4 file for the result. The run checks the path
    before the first step.

    If pyarrow is installed, the run writes the recorded signals to a log in chunks of at most 1 MB
    or 1 s. If `save` is an .arrow file, this file is the log. For other formats the log is a file
    next to it, such as `run.csv.arrow`, and is converted at the end. The log of a killed run has
    all complete chunks: `Result.load` opens the log, and `rigidblocks convert` converts it.

    Scenario: `scenario` sets unconnected inputs and parameters during the run. It is a table of
    columns, {"time": [0.5, 1.0], "pd.kp[1]": [20.0, 40.0]}, or a .csv, .yaml or .json file
    (`Scenario.parse`). Each value is set at the first communication point that is not before the
    time of the value.

    Real time: `real_time` is the ratio of simulated time to wall-clock time. `overrun` selects the
    response to a step that ends after the next step is due: "catch-up", "skip" or "stop". "skip"
    delays all later due times by the overrun. `meta["real_time"]` of the result contains the timing
    as JSON. `build_runner` builds a program with more accurate timing.

    Live view: `view`, such as `LiveView(system)`, shows the run in a browser page about ten times
    per second. The run never waits for the view.

    A failed run raises SimulationError, and Ctrl-C or SIGTERM raises Interrupted. Both exceptions
    contain the result up to the interruption, which is also saved. A second Ctrl-C or SIGTERM stops
    the conversion of the log to the file and keeps the log.

    Raises ValueError for an algebraic loop and for an unconnected input without a start value.
    Raises ValueError if the duration or a sample time is not a multiple of dt. Raises TypeError for
    an argument of a wrong type. Raises the exceptions of `Result.save` if the file `save` cannot be
    written.

    The run warns if dt is longer than the longest stable hold of a block (`Block.longest_hold`). It
    also warns if the inner steps of a block exceed the stability limit of an explicit method for
    the eigenvalues that `Block.modes` returns. The remarks of blocks on the run (`Block.remarks`)
    are passed to the logger `rigidblocks`.
    """
    chosen = add_defaults(simulate, options, RunOptions)
    record, every, save = chosen["record"], chosen["every"], chosen["save"]
    real_time, overrun = chosen["real_time"], chosen["overrun"]
    check_numbers({"t_stop": t_stop, "dt": dt, "t_start": t_start})
    check_names({"record": record})
    check_count("every", every)
    check_path("save", save)
    check_watcher(view)
    if real_time is not None:
        check_numbers({"real_time": real_time})
    elif overrun != CATCH_UP:
        raise ValueError(f"overrun={overrun!r} needs real_time")
    grid = communication_points(t_start, t_stop, dt)
    if chosen["transparent"] and scenario is not None:
        raise ValueError(
            "a scenario cannot set values of parts that transparent=True merges; leave out one "
            "of these two options"
        )
    given = None if scenario is None else Scenario.parse(scenario)
    plan = make_plan(system, dt, t_start, form, options, given)
    record_options = RecordOptions(tuple(record), every, None if save is None else Path(save))
    record_options.check(plan.wiring, grid)
    pace = None if real_time is None else Pace(real_time, dt, overrun)
    return execute_run(plan, grid, record_options, progress, 2, pace=pace, view=view)


class SimulationError(RuntimeError):
    """Failure of a run; `result` contains all samples up to the failure."""

    def __init__(self, message: str, result: Result):
        super().__init__(message)
        self.result = result


class Interrupted(KeyboardInterrupt):
    """Interrupt of a run by Ctrl-C or SIGTERM; `result` contains all earlier samples."""

    def __init__(self, message: str, result: Result):
        super().__init__(message)
        self.result = result


OFTEN = 0.08  # minimum time between two updates of a live view [s]


class Watcher(abc.ABC):
    """Base class of live views; the methods delay the run and must return quickly."""

    @property
    @abc.abstractmethod
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs, such as `part.port`, in the order of the values in `see`."""

    @abc.abstractmethod
    def begin(self) -> None:
        """Start the view for a run."""

    @property
    @abc.abstractmethod
    def is_waiting(self) -> bool:
        """True if the view has processed the previous sample and can accept the next one."""

    @abc.abstractmethod
    def see(self, t: float, row: Array) -> None:
        """Show the values `row` of all outputs at the time t [s]; the view may store the array."""

    @abc.abstractmethod
    def end(self, result: Result) -> None:
        """Show the result at the end of a run, including a failed run."""


class ObserverThrottle:
    """Limiter of the update rate of a live view.

    The interval between two updates is at least 0.08 s. A view that is not ready gets no update.
    Without a live view, `update` does nothing.
    """

    def __init__(self, watcher: Watcher | None, network: Network):
        self._watcher, self._network, self._due = watcher, network, 0.0

    def update(self, t: float) -> None:
        """Send the current outputs at the time t [s] to the view if an update is due."""
        if self._watcher is not None and (now := monotonic()) >= self._due:
            if self._watcher.is_waiting:
                self._watcher.see(t, self._network.row())
            self._due = now + OFTEN


LOG = logging.getLogger("rigidblocks")
DELAY = 1.0  # time after which a run shows its progress bar [s]


def execute_run(
    plan: Plan,
    grid: Grid,
    record_options: RecordOptions,
    progress: bool,
    callers: int,
    idle: list[Master] | None = None,
    pace: StepTiming | None = None,
    view: Watcher | None = None,
) -> Result:
    """Execute a run, save its result if requested, and return the result.

    The result is also saved after a failure.

    Args:
        plan: Plan of the run.
        grid: Communication points.
        record_options: Recording options.
        progress: Show a progress bar.
        callers: Number of calling stack frames in this package, for the location of warnings.
        idle: Reusable masters of earlier runs; after the run, the function adds its master.
        pace: Step observer, which paces the run or measures the duration of its steps.
        view: Live view of the run.
    """
    with record_options.reserve(), Interrupts() as interrupts:
        if view is not None:
            _check_outputs_of_view(view, plan.wiring)
            view.begin()
        master = _reuse_master(idle, plan) or master_of(plan)
        failure: BaseException | None = None
        is_kept = False
        with contextlib.ExitStack() as ending:
            ending.callback(master.network.close)
            rows = Recording(
                plan.wiring, grid, plan.meta, record_options, interrupts.delayed_interrupts
            )
            try:
                try:
                    _run(plan, master, rows, interrupts, progress, callers, pace, view)
                finally:
                    interrupts.delay_interrupts()
            except (Exception, KeyboardInterrupt, SystemExit) as error:
                failure = error
            if failure is None and idle is not None and master.network.restarts:
                master.network.end()
                ending.pop_all()
                is_kept = True
        result, unwritten = rows.finish()
        if pace is not None:
            result = replace(result, meta={**result.meta, **pace.metadata()})
        is_terminated = isinstance(failure, KeyboardInterrupt) and interrupts.name == "SIGTERM"
        unsaved = save_result(
            result, record_options, unwritten, interrupts, is_terminated=is_terminated
        )
        if view is not None:
            view.end(result)
    if failure is None and interrupts.is_pending:  # an interrupt was delayed until after the run
        failure = KeyboardInterrupt()
    if failure is not None or unsaved is not None:
        if is_kept:
            master.network.close()
        # repeated runs, such as sweeps, omit the linearization because of its computing time
        cause = (
            explain_divergence(plan, result, linearizes=idle is None)
            if _has_diverged(failure)
            else ""
        )
        raise run_error(
            failure, unsaved, record_options, interrupts.name, rows.t, result, cause
        ) from (failure or unsaved)
    result = replace(result, meta={**result.meta, **master.report()})
    for level, message in (*block_remarks(plan.wiring, result), *master.remarks()):
        LOG.log(level, message)
    if idle is not None and is_kept:
        idle.append(master)
    return result


def _reuse_master(idle: list[Master] | None, plan: Plan) -> Master | None:
    """Reset an idle master to the start values of the plan; return None if none is suitable."""
    try:
        master = (idle or []).pop()
    except IndexError:
        return None
    with contextlib.suppress(FmuError):  # an FMU that cannot be reset is instantiated again
        if master.network.restart(plan):
            return master
    master.network.close()
    return None


def _run(
    plan: Plan,
    master: Master,
    rows: Recording,
    interrupts: Interrupts,
    progress: bool,
    callers: int,
    pace: StepTiming | None,
    view: Watcher | None,
) -> None:
    """Take all steps, set the values of the scenario, and update the progress bar and the view."""
    throttle = ObserverThrottle(view, master.network)
    with _bar(rows.grid.n, progress) as count_steps:
        master.network.start(plan.t_start, rows.grid.t_stop)
        if pace is not None:
            pace.begin(master.network)
        rows.add(master.network.row())
        throttle.update(rows.t)
        for message in start_warnings(plan, master.network):
            warnings.warn(message, RuntimeWarning, stacklevel=callers + 3)
        whole, schedule = rows.grid, plan.schedule
        for k, values in (
            ((whole.n, ()),) if schedule is None else schedule.changes(whole.dt, whole.n)
        ):
            rows.grid = replace(whole, n=k)
            for count in master.go(rows, interrupts.delayed_interrupts, pace):
                count_steps(count)
                throttle.update(rows.t)
            if values:
                master.network.set_values(values, rows.t)
        for name, steps in master.network.steps():
            for level, text in step_diagnostics(steps):
                LOG.log(level, f"'{name}' {text}")


@contextlib.contextmanager
def _bar(steps: int, progress: bool) -> Iterator[Callable[[int], Any]]:
    """Show a progress bar in a terminal or notebook; yield a function that advances the bar.

    If no bar is shown, the yielded function does nothing.
    """
    if not (progress and is_live_stream(sys.stderr)):
        yield int  # accepts a number of steps and does nothing
        return
    with tqdm(total=steps, unit="step", delay=DELAY, leave=False) as bar:
        yield bar.update


def is_live_stream(stream: Any) -> bool:
    """Return True if a stream is a terminal or the output of a notebook cell."""
    if stream is None:
        return False
    return stream.isatty() or type(stream).__module__.partition(".")[0] == "ipykernel"


# maximum number of values that a run converts after SIGTERM, which takes less than a second
MOST_CONVERTED = 200_000


class _NotConvertedError(Exception):
    """Error for a log that is not converted, because a signal has terminated the run.

    The conversion of a large log takes time, and a supervisor may soon kill the process.
    """


def save_result(
    result: Result,
    record_options: RecordOptions,
    unwritten: Exception | None,
    interrupts: Interrupts,
    *,
    is_terminated: bool,
) -> BaseException | None:
    """Write the result file; return the exception of a failed write, or None.

    If the result file is the log, nothing is written, because the run has already written the log.
    `unwritten` is the exception of a failed write to the log, or None. If a signal has terminated
    the run, a large log is not converted.
    """
    if record_options.save is None:
        return None
    if record_options.save == record_options.log:
        return unwritten
    is_large = len(result.time) * len(result.columns) > MOST_CONVERTED
    if is_terminated and is_large and record_options.log is not None and unwritten is None:
        return _NotConvertedError(
            f"'{record_options.save}' is not written; convert the log with: rigidblocks convert "
            f"{shlex.quote(str(record_options.log))} {shlex.quote(str(record_options.save))}"
        )
    try:
        if record_options.log is not None:
            # the log is complete, so an interrupt may stop the conversion
            interrupts.release()
        try:
            files.write(result.content, record_options.save)
        finally:
            interrupts.delay_interrupts()
    except (Exception, KeyboardInterrupt) as error:
        return error
    if record_options.log is not None:
        with contextlib.suppress(OSError):  # Windows cannot remove a memory-mapped file
            record_options.log.unlink()
    return None


def run_error(
    failure: BaseException | None,
    unsaved: BaseException | None,
    record_options: RecordOptions,
    signal: str,
    t: float,
    result: Result,
    cause: str,
) -> SimulationError | Interrupted:
    """Return the exception for a failed run, or for a result that is not completely saved.

    Args:
        failure: Exception that ended the run, or None.
        unsaved: Exception of the failed write of the result, or None.
        record_options: Recording options of the run.
        signal: Name of the signal that interrupted the run.
        t: Time of the failure or the interrupt [s].
        result: Result up to this time.
        cause: Probable cause of the failure, or "".
    """
    by_signal = isinstance(failure, KeyboardInterrupt)
    ended = f"{signal} ended the run" if by_signal else "the run stopped"
    text = f"{ended} at t = {t:g} s" if failure else f"the run ended at t = {t:g} s"
    if failure is not None and not by_signal:
        text += f": {error_text(failure)}{cause}"
    if isinstance(unsaved, _NotConvertedError):
        return Interrupted(f"{text}; {unsaved}", result)
    if unsaved is not None and not (failure and error_text(failure) == error_text(unsaved)):
        why = signal if isinstance(unsaved, KeyboardInterrupt) else error_text(unsaved)
        text += f"; the result could not be saved to '{record_options.save}' ({why})"
    if unsaved is not None and record_options.log is not None and record_options.log.exists():
        text += f"; the recorded samples are in '{record_options.log}'"
    interrupted = by_signal or isinstance(unsaved, KeyboardInterrupt)
    if interrupted:
        return Interrupted(text, result)
    error = SimulationError(text, result)
    for note in getattr(failure, "__notes__", ()):
        error.add_note(note)
    return add_doc_link(error, "numbers that are not finite") if _has_diverged(failure) else error


def _has_diverged(failure: BaseException | None) -> bool:
    """Return True if a run has failed because a value is not finite."""
    return isinstance(failure, Exception) and "finite" in error_text(failure)


def check_watcher(watcher: Any) -> None:
    """Raise TypeError for an object that is not a `Watcher`."""
    if watcher is not None and not isinstance(watcher, Watcher):
        raise TypeError(f"view must be a LiveView or another Watcher, not {watcher!r}")


def _check_outputs_of_view(view: Watcher, wiring: Wiring) -> None:
    """Raise ValueError if a live view does not belong to the system of the run."""
    names = tuple(port.name for port in wiring.outputs)
    if view.outputs != names:
        raise ValueError(
            "the live view does not belong to the system of the run; create it after the "
            f"system is complete, with the outputs {', '.join(names)}"
        )
