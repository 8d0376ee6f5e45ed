"""Many runs of one system, on all processors, with a record that a kill leaves whole."""

import itertools
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from tqdm import tqdm

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.record import offer
from rigidblocks.simulation.prepare import prepare
from rigidblocks.simulation.run import Run
from rigidblocks.simulation.scenario import Scenario
from rigidblocks.study.design import Design
from rigidblocks.study.measures import Measure, measure_of
from rigidblocks.study.record import Record, Row, digest
from rigidblocks.system.starting import start_of
from rigidblocks.system.system import System
from rigidblocks.system.wiring import Wiring

if TYPE_CHECKING:
    import pandas
    import xarray

_AHEAD = 4  # runs of each thread that wait to be taken


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

    def to_dataframe(self) -> "pandas.DataFrame":
        """A pandas DataFrame with a row for each run."""
        import pandas

        return pandas.DataFrame({**self.varied, **self.measured})

    def to_xarray(self) -> "xarray.Dataset":
        """An xarray Dataset over the dimension `run`: measures are its variables, what was varied
        its coordinates, and `error` what was said of runs that failed. Its `to_netcdf` writes a
        file.

        Raises ImportError without the package xarray.
        """
        try:
            import xarray
        except ImportError as error:
            raise ImportError("a dataset needs xarray: pip install xarray") from error
        said = [self.failures.get(k, "") for k in range(len(self))]
        variables = {name: ("run", values) for name, values in self.measured.items()}
        coordinates = {name: ("run", values) for name, values in self.varied.items()}
        return xarray.Dataset({**variables, "error": ("run", said)}, coordinates)


def sweep(
    system: System,
    design: Design,
    t_stop: float,
    dt: float,
    measure: Mapping[str, Measure | str],
    *,
    save: str | Path | None = None,
    threads: int | None = None,
    scenario: Scenario | Mapping[str, ArrayLike] | str | Path | None = None,
    progress: bool = True,
    **options: Any,
) -> Sweep:
    """The measures of a run of the system for each row of a design.

        sweep(system, grid({"pd.kp": [20, 40, 80]}), 10.0, 1e-3, {"overshoot": "max robot.q[1]"})

    A measure is a function of the `Result`, or a text (`measure_of`). `options` are those of
    `prepare`; `form` is "fused" unless the system has an FMU or Python among its parts. The system
    is prepared once, and run in as many `threads` at once as there are processors: compiled blocks
    and native FMUs do not wait for each other. What a run has recorded is let go when it is
    measured.

    A `scenario` is that of `simulate`, the same in each run.

    `save` names a .csv file, to which each run is written when it is measured. A sweep that was
    ended, also by a kill, goes on from there when it is called again; the file of another sweep is
    refused. A run that fails is taken once more, then it is reported in `failures`, and the others
    go on. Raises KeyError and ValueError for a design that does not fit the system, before the
    first run.
    """
    measures = {name: measure_of(given) for name, given in measure.items()}
    if not measures:
        raise ValueError("a sweep needs something to measure, such as {'end': 'last robot.q[1]'}")
    wiring = system.wiring()
    options = {"form": "fused" if _is_traced(wiring) else "compiled"} | options
    first = prepare(system, dt, **options)
    wiring.started(_start(wiring, design, 0))  # raises for what does not fit
    told = None if scenario is None else Scenario.of(scenario)
    settings = [t_stop, dt, sorted(options.items()), *([] if told is None else [told.text()])]
    key = digest(wiring, design, settings, _texts(measure))
    record = Record(None if save is None else Path(save), design, tuple(measures), key)
    todo = [k for k in range(len(design)) if k not in record.rows]
    runs = _runs_of(lambda: prepare(system, dt, **options), first)

    def one(k: int) -> Row:
        return _measured(runs, t_stop, _start(wiring, design, k), told, measures)

    count = threads or os.cpu_count() or 1
    with (
        record,
        tqdm(total=len(design), unit="run", disable=None if progress else True, leave=False) as bar,
    ):
        bar.update(len(record.rows))
        for done in _completed(one, todo, count):
            record.add(done)
            bar.update(len(done))
    return _sweep_of(design, tuple(measures), record.rows)


def _texts(measure: Mapping[str, Measure | str]) -> dict[str, str]:
    """What is known of the measures: the texts; of a function there is its name alone."""
    return {name: given if isinstance(given, str) else "" for name, given in measure.items()}


def _start(wiring: Wiring, design: Design, k: int) -> dict[str, Any]:
    """The start values of the k-th run."""
    return start_of(wiring, zip(design.names, design.rows[k], strict=True))


def _is_traced(wiring: Wiring) -> bool:
    """Whether the whole system can be one C loop."""
    from rigidblocks.block.block import Block
    from rigidblocks.block.python_block import PythonBlock

    parts = [part.component for part in wiring.parts.values()]
    return all(isinstance(one, Block) and not isinstance(one, PythonBlock) for one in parts)


def _runs_of(make: Callable[[], Run], first: Run) -> Callable[[], Run]:
    """A prepared run for each thread; what is compiled they share."""
    local, spare, lock = threading.local(), [first], threading.Lock()

    def own() -> Run:
        if not hasattr(local, "run"):
            with lock:
                local.run = spare.pop() if spare else make()
        run: Run = local.run
        return run

    return own


def _measured(
    runs: Callable[[], Run],
    t_stop: float,
    start: Mapping[str, Any],
    scenario: Scenario | None,
    measures: Mapping[str, Measure],
) -> Row:
    """The measures of a run; of one that fails twice, what was said."""
    for attempt in (1, 2):
        try:
            result = runs().simulate(t_stop, start=start, scenario=scenario, progress=False)
            return Row([float(measure(result)) for measure in measures.values()], "")
        except Exception as error:
            if attempt == 2:
                said = " ".join(f"{type(error).__name__}: {error}".split())
    return Row([np.nan] * len(measures), said)


def _completed(
    one: Callable[[int], Row], todo: list[int], threads: int
) -> Iterator[dict[int, Row]]:
    """What is done, as it comes; only so many runs wait that memory does not grow with them."""
    left = iter(todo)
    with ThreadPoolExecutor(threads) as pool:
        try:
            waiting: dict[Future[Row], int] = {
                pool.submit(one, k): k for k in itertools.islice(left, _AHEAD * threads)
            }
            while waiting:
                done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                yield {waiting.pop(future): future.result() for future in done}
                for k in itertools.islice(left, len(done)):
                    waiting[pool.submit(one, k)] = k
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _sweep_of(design: Design, measures: tuple[str, ...], rows: Mapping[int, Row]) -> Sweep:
    numbers = np.array([design.numbers(k) for k in range(len(design))])
    values = np.array([rows[k].values for k in range(len(design))])
    return Sweep(
        dict(zip(design.columns(), numbers.T, strict=True)),
        dict(zip(measures, values.T, strict=True)),
        {k: row.error for k, row in sorted(rows.items()) if row.error},
    )
