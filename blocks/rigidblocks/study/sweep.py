"""Many runs of one system, on all processors, with a record that a kill leaves whole."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from tqdm import tqdm

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Block
from rigidblocks.block.python_block import PythonBlock
from rigidblocks.block.record import offer
from rigidblocks.extras import module_of
from rigidblocks.simulation.arguments import check_count, check_path
from rigidblocks.simulation.course import is_looked_at
from rigidblocks.simulation.run import Run
from rigidblocks.simulation.scenario import Scenario
from rigidblocks.study.cluster import on_cluster
from rigidblocks.study.dataset import record_of, save_dataset
from rigidblocks.study.design import Design
from rigidblocks.study.lanes import in_lanes
from rigidblocks.study.measures import Measure
from rigidblocks.study.processes import Child, takes_turns
from rigidblocks.study.record import Record, digest
from rigidblocks.study.threads import Hand, hand, in_threads, of_each_thread, twice
from rigidblocks.study.work import Row, Work, started
from rigidblocks.system.system import System
from rigidblocks.system.wiring import Wiring
from rigidblocks.tracing.lanes import lane_count

if TYPE_CHECKING:
    import pandas
    import xarray


@dataclass(frozen=True, eq=False)
class Sweep:
    """The runs of a sweep: `varied` has the numbers that were varied, `measured` the measures, each
    (n,) by name, and `failures` what was said of the runs that failed, whose measures are NaN.
    """

    varied: Mapping[str, Array]
    measured: Mapping[str, Array]
    failures: Mapping[int, str]

    def __len__(self) -> int:
        return len(next(iter(self.measured.values())))

    def __getitem__(self, name: str) -> Array:
        """A measure, or what was varied."""
        known = {**self.varied, **self.measured}
        if name not in known:
            raise KeyError(f"the sweep has no '{name}'; {offer(name, known)}")
        return known[name]

    def __repr__(self) -> str:
        failed = f", {len(self.failures)} failed" if self.failures else ""
        return (
            f"<Sweep: {len(self)} runs{failed}; varied {', '.join(self.varied)}; "
            f"measured {', '.join(self.measured)}>"
        )

    def to_dataframe(self) -> pandas.DataFrame:
        """A pandas DataFrame with a row for each run; raises ImportError without pandas."""
        pandas = module_of("data", "pandas", "a DataFrame")
        return pandas.DataFrame({**self.varied, **self.measured})  # type: ignore[no-any-return]

    def to_xarray(self) -> xarray.Dataset:
        """An xarray Dataset over the dimension `run`: measures are its variables, what was varied
        its coordinates, and `error` what was said of runs that failed. Its `to_netcdf` writes a
        file.

        Raises ImportError without the package xarray.
        """
        xarray = module_of("dataset", "xarray", "a dataset")
        said = [self.failures.get(k, "") for k in range(len(self))]
        variables = {name: ("run", values) for name, values in self.measured.items()}
        coordinates = {name: ("run", values) for name, values in self.varied.items()}
        return xarray.Dataset({**variables, "error": ("run", said)}, coordinates)


class Here(NamedTuple):
    """So many threads of this machine, and so many lanes; None are as many as are worth it."""

    threads: int
    lanes: int | None


def sweep(
    system: System,
    design: Design,
    t_stop: float,
    dt: float,
    measure: Mapping[str, Measure | str],
    *,
    save: str | Path | None = None,
    threads: int | None = None,
    lanes: int | None = None,
    scheduler: str | None = None,
    scenario: Scenario | Mapping[str, ArrayLike] | str | Path | None = None,
    progress: bool = True,
    **options: Any,
) -> Sweep:
    """The measures of a run of the system for each row of a design.

        sweep(system, grid({"pd.kp": [20, 40, 80]}), 10.0, 1e-3, {"overshoot": "max robot.q[1]"})

    A measure is a function of the `Result`, or a text (`measure_of`). `options` are those of
    `prepare`; `form` is "fused" unless the system has an FMU or Python among its parts. The system
    is prepared once, and run in as many `threads` at once as there are processors: compiled blocks
    and native FMUs do not wait for each other. Where an FMU runs Python, each thread has a process
    instead. Fused runs in steps of fixed length go in `lanes` too, 2, 4 or 8 of them in each
    operation of the processor, with the same numbers to rounding: by default where they are so many
    that it is worth it; 1 is one by one. What a run has recorded is let go when it is measured.
    `scheduler` is the address of one of Dask, as "tcp://bench:8786": the runs go to its workers, in
    tasks of about a second. A `scenario` is that of `simulate`, the same in each run.

    `save` names a .csv file, to which each run is written when it is measured, or a dataset, .nc
    or .zarr, which is written at the end and has such a .csv file beside it. A sweep that was
    ended, also by a kill, goes on from there when it is called again; the file of another sweep is
    refused. A run that fails is taken once more, then it is reported in `failures`, and the others
    go on. Raises KeyError and ValueError for a design that does not fit the system, before the
    first run; OSError where a file cannot be written, and ConnectionError where a scheduler goes
    away: what was done until then is in the file.
    """
    if not isinstance(design, Design):
        raise TypeError(
            f"a sweep takes a design, such as grid({{'pd.kp[1]': [20.0, 40.0]}}), not "
            f"{design!r:.60}"
        )
    if not measure:
        raise ValueError("a sweep needs something to measure, such as {'end': 'last robot.q[1]'}")
    if threads is not None:
        check_count("threads", threads)
    if lanes is not None:
        check_count("lanes", lanes)
        _ = lanes == 1 or lane_count(lanes)
    for what, given in (("threads", threads), ("lanes", lanes)):
        if given is not None and scheduler is not None:
            raise ValueError(f"{what} are of this machine, not of the scheduler at '{scheduler}'")
    check_path("save", save)
    path = None if save is None else record_of(Path(save))
    told = None if scenario is None else Scenario.of(scenario)
    options = {"form": "fused" if _is_traced(system.wiring()) else "compiled"} | options
    work = Work(system, t_stop, dt, options, told, dict(measure))
    here = Here(threads or os.cpu_count() or 1, lanes)
    done = _done(work, design, path, here if scheduler is None else scheduler, progress)
    if save is not None and path != Path(save):
        save_dataset(done.to_xarray(), Path(save))
    return done


def _done(
    work: Work,
    design: Design,
    path: Path | None,
    where: Here | str,
    progress: bool,
) -> Sweep:
    """The runs of a sweep, with their record at the path, on this machine or by the scheduler at an
    address.
    """
    wiring, first = work.system.wiring(), work.prepared()
    work.check(wiring, started(wiring, design, design.table[0]))
    key = _key(work, wiring, design)
    with Record(path, design, tuple(work.measures), key) as record:
        todo = np.flatnonzero(~record.done).tolist()
        if isinstance(where, str):
            rows = on_cluster(where, work, design, todo)
        else:
            rows = _here(work, wiring, design, first, todo, where)
        _taken(rows, record, progress)
    return Sweep(
        dict(zip(design.columns(), design.table.T, strict=True)),
        dict(zip(work.measures, record.values.T, strict=True)),
        dict(sorted(record.errors.items())),
    )


def _key(work: Work, wiring: Wiring, design: Design) -> str:
    """What is known of a sweep: of a measure that is a function there is its name alone."""
    told = [] if work.scenario is None else [work.scenario.text()]
    settings = [work.t_stop, work.dt, sorted(work.options.items()), *told]
    texts = {name: one if isinstance(one, str) else "" for name, one in work.measures.items()}
    return digest(wiring, design, settings, texts)


def _taken(rows: Iterator[dict[int, Row]], record: Record, progress: bool) -> None:
    """Records rows as they come, and shows how far that is."""
    disable = not (progress and is_looked_at(sys.stderr))
    count = int(record.done.sum())
    with (
        contextlib.closing(rows),  # type: ignore[type-var]
        tqdm(
            total=len(record.done), initial=count, unit="run", disable=disable, leave=False
        ) as bar,
    ):
        for done in rows:
            record.add(done)
            bar.update(len(done))


def _here(
    work: Work, wiring: Wiring, design: Design, first: Run, todo: list[int], here: Here
) -> Iterator[dict[int, Row]]:
    """The rows of runs on this machine, in processes of their own where Python runs in them."""
    with contextlib.ExitStack() as children:
        there = list[Child]()

        def child() -> Hand:
            there.append(Child(work, design))
            children.callback(there[-1].close)
            return there[-1]

        def end() -> None:
            for one in there:
                one.stop()

        def own() -> Hand:
            return hand(work, wiring, design, work.prepared())

        count = here.threads
        if takes_turns(wiring) and count > 1:
            one = of_each_thread(child)
        else:
            one = of_each_thread(own, hand(work, wiring, design, first))

        def alone(k: int) -> Row:
            return twice(one, design.table[k])

        many = in_lanes(work, wiring, design, first, len(todo), here.lanes)
        if many is None:
            each = ((k,) for k in todo)
            yield from in_threads(lambda runs: {k: alone(k) for k in runs}, each, count, end)
        else:
            parts = many.parts(todo, count)
            yield from in_threads(lambda runs: many(runs, alone), parts, count, end)


def _is_traced(wiring: Wiring) -> bool:
    """Whether the whole system can be one C loop."""
    parts = [part.component for part in wiring.parts.values()]
    return all(isinstance(one, Block) and not isinstance(one, PythonBlock) for one in parts)
