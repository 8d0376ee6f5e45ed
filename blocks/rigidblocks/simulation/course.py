"""The course of one run, from its start to its result."""

import contextlib
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeGuard

from tqdm import tqdm  # rich draws nothing in a notebook without ipywidgets

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.adaptive import Adaptive, step_remarks
from rigidblocks.block.block import Block, Record
from rigidblocks.simulation.choice import master_of
from rigidblocks.simulation.ending import ending, saved
from rigidblocks.simulation.grid import Grid
from rigidblocks.simulation.interrupts import Interrupts
from rigidblocks.simulation.masters import Master
from rigidblocks.simulation.network import Network
from rigidblocks.simulation.pace import Turns
from rigidblocks.simulation.plan import Plan
from rigidblocks.simulation.recording import Recording, Wanted
from rigidblocks.simulation.result import Result
from rigidblocks.simulation.scenario import Scenario, put
from rigidblocks.simulation.stability import holds_too_long, samples_late, steps_too_long
from rigidblocks.simulation.watch import Looks, Watcher
from rigidblocks.system.wiring import Wiring

LOG = logging.getLogger("rigidblocks")
DELAY = 1.0  # s after which a run shows how far it is


def course(
    plan: Plan,
    grid: Grid,
    wanted: Wanted,
    progress: bool,
    callers: int,
    idle: list[Master] | None = None,
    pace: Turns | None = None,
    view: Watcher | None = None,
    scenario: Scenario | None = None,
) -> Result:
    """The result of a run, saved where asked, also when the run does not come to its end.

    `callers` is how many functions of this package are between this one and the program, for
    warnings. `idle` has masters of earlier runs that can be used again, and gets this one. With a
    `pace` the result says how it was kept, with a `scenario` what was set behind the start. `view`
    looks on.
    """
    if view is not None:
        view.begin(plan.wiring)
    with Interrupts() as interrupts:
        master = _used_again(idle, plan) or master_of(plan)
        failure: BaseException | None = None
        with contextlib.closing(master.network):
            meta = plan.meta if scenario is None else {**plan.meta, "scenario": scenario.text()}
            rows = Recording(plan.wiring, grid, meta, wanted, interrupts.held_back)
            try:
                try:
                    _go(plan, master, rows, interrupts, progress, callers, pace, view, scenario)
                finally:
                    interrupts.hold_back()
            except (Exception, KeyboardInterrupt, SystemExit) as error:
                failure = error
        result, unwritten = rows.finish()
        if pace is not None:
            result = replace(result, meta={**result.meta, **pace.told()})
        unsaved = saved(result, wanted, unwritten, interrupts)
        if view is not None:
            view.end(result)
    if failure is None and interrupts.came:  # too late to end the run
        failure = KeyboardInterrupt()
    if failure is not None or unsaved is not None:
        raise ending(failure, unsaved, wanted, interrupts.name, rows.t, result) from (
            failure or unsaved
        )
    result = replace(result, meta={**result.meta, **master.report()})
    for level, message in (*remarks(plan.wiring, result), *master.remarks()):
        LOG.log(level, message)
    if idle is not None and master.network.restarts:
        idle.append(master)
    return result


def _used_again(idle: list[Master] | None, plan: Plan) -> Master | None:
    """A master that no run has now, with the start values of a plan."""
    try:
        master = (idle or []).pop()
    except IndexError:
        return None
    return master if master.network.restart(plan) else None


def _go(
    plan: Plan,
    master: Master,
    rows: Recording,
    interrupts: Interrupts,
    progress: bool,
    callers: int,
    pace: Turns | None,
    view: Watcher | None,
    scenario: Scenario | None,
) -> None:
    """A run from its start to its end."""
    looks = Looks(view, master.network)
    with _bar(rows.grid.n, progress) as told:
        master.network.start(plan.t_start)
        if pace is not None:
            pace.begin(master.network)
        rows.add(master.network.row())
        looks.at(rows.t)
        for message in plan.once("warnings", lambda: tuple(warnings_of(plan, master.network))):
            warnings.warn(message, RuntimeWarning, stacklevel=callers + 3)
        for count in _steps(plan, master, rows, interrupts, pace, scenario):
            told(count)
            looks.at(rows.t)
        for name, steps in master.network.steps():
            for level, text in step_remarks(steps):
                LOG.log(level, f"'{name}' {text}")


def _steps(
    plan: Plan,
    master: Master,
    rows: Recording,
    interrupts: Interrupts,
    pace: Turns | None,
    scenario: Scenario | None,
) -> Iterator[int]:
    """The steps of a run, and what its scenario does between them."""
    if scenario is None:
        yield from master.go(rows, interrupts.held_back, pace)
        return
    whole = rows.grid
    for k, values in scenario.course(plan.wiring, whole):
        rows.grid = replace(whole, n=k)
        yield from master.go(rows, interrupts.held_back, pace)
        put(plan.wiring, master.network, values)


@contextlib.contextmanager
def _bar(steps: int, progress: bool) -> Iterator[Callable[[int], Any]]:
    """A progress bar, where it is wanted and seen: who is told of steps taken."""
    if not (progress and is_looked_at(sys.stderr)):
        yield int  # which does nothing
        return
    with tqdm(total=steps, unit="step", delay=DELAY, leave=False) as bar:
        yield bar.update


def is_looked_at(stream: Any) -> bool:
    """Whether someone sees what is written there grow: a terminal, or the cell of a notebook."""
    if stream is None:
        return False
    return stream.isatty() or type(stream).__module__.partition(".")[0] == "ipykernel"


def warnings_of(plan: Plan, network: Network) -> Iterator[str]:
    """What is wrong with the steps of a run that has started."""
    shapes = {
        plan.wiring.whole_name(name, port.name): port.shape
        for name, part in plan.wiring.parts.items()
        for port in part.component.outputs
    }

    def values(name: str) -> Array:
        return network.outputs[name].reshape(shapes[name])

    if not plan.is_simultaneous and not plan.coupling.solves:
        yield from samples_late(plan.wiring)
    yield from holds_too_long(plan.wiring, plan.dt, values)
    yield from steps_too_long(plan.wiring, plan.dt, values)


def has_remarks(wiring: Wiring) -> bool:
    """Whether there is a block that may have something to say of a run."""
    return any(_may_remark(part.component) for part in wiring.parts.values())


def _may_remark(block: Any) -> TypeGuard[Block]:
    return isinstance(block, Block) and type(block).remarks is not Block.remarks


def remarks(wiring: Wiring, result: Result) -> Iterator[tuple[int, str]]:
    """What the blocks have to say of a run that has all their outputs, and how loud: steps of a
    fixed length know nothing of their error there.
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
            knows = isinstance(part.stepping[0], Adaptive)
            advice = "" if knows else "; steps of a fixed length may err there, take 'adaptive'"
            for text in block.remarks(result.time, y):
                yield logging.WARNING, f"'{name}' {text}{advice}"
