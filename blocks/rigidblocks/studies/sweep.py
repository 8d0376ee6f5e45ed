"""Parameter sweeps: parallel runs of one system over a design, resumable from a file.

A saved sweep writes a .csv file with one line per run, the record of the sweep. If the user saves
to a .nc or .zarr path, the sweep also writes a dataset at the end.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import os
import shutil
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TextIO

import numpy as np
from numpy.typing import ArrayLike
from tqdm import tqdm

from rigidblocks.block.block import Block, check_count
from rigidblocks.block.external_functions import PythonBlock
from rigidblocks.common.arrays import Array
from rigidblocks.common.escaping import csv_line
from rigidblocks.common.name_hints import explain_calls, suggestion
from rigidblocks.common.optional_imports import module_of
from rigidblocks.cosim.graph.fmu_file import absolute_path
from rigidblocks.cosim.graph.system import System
from rigidblocks.cosim.graph.wiring import Wiring
from rigidblocks.cosim.prepare import Run
from rigidblocks.cosim.results.provenance import start_content, system_content
from rigidblocks.cosim.results.result_files import real_target, reserve, temporary_folder
from rigidblocks.cosim.run_options import PrepareOptions, check_path
from rigidblocks.cosim.scenario import Scenario
from rigidblocks.cosim.simulate import is_live_stream
from rigidblocks.kernels.block_digest import content_digest
from rigidblocks.studies.executors import (
    Child,
    Worker,
    has_python_fmu,
    make_worker,
    run_in_threads,
    run_on_cluster,
    run_with_retry,
    simd_executor,
    thread_local_worker,
)
from rigidblocks.studies.experiment_design import Design, table_design
from rigidblocks.studies.run_task import Measure, Row, Task, run_start_values
from rigidblocks.tracing.compiled_functions import lane_count

if TYPE_CHECKING:
    import pandas
    import xarray

_NEEDS = {".nc": ("xarray", "scipy"), ".zarr": ("xarray", "zarr")}
KINDS = (".csv", *_NEEDS)


def record_of(path: Path) -> Path:
    """Return the path of the .csv file that records the finished runs of a sweep.

    For a .csv file, the result is `path`. For a dataset, the function appends ".csv" to the name,
    such as `runs.nc.csv` for `runs.nc`.

    Raises:
        ValueError: The file extension is unknown, or the dataset exists without its .csv file. A
            dataset without this file does not belong to the sweep.
        ImportError: The packages that write the file are not installed.
    """
    if path.suffix not in KINDS:
        raise ValueError(f"unknown format of '{path}' for a sweep; expected {', '.join(KINDS)}")
    if path.suffix == ".csv":
        return path
    for name in _NEEDS[path.suffix]:
        module_of(name, f"'{path}'")
    record = path.with_name(f"{path.name}.csv")
    if path.exists() and not record.exists():
        raise ValueError(
            f"file '{path}' exists and does not belong to this sweep, because its record "
            f"'{record.name}' is missing; choose another name or delete it"
        )
    return record


def save_dataset(dataset: xarray.Dataset, path: Path) -> None:
    """Write a dataset as netCDF (.nc) or Zarr (.zarr) atomically.

    Raises:
        OSError: The file cannot be written; the error contains the file name.
    """
    target = real_target(path)
    with reserve(target):
        try:
            with temporary_folder(target) as folder:
                part = Path(folder, target.name)
                if path.suffix == ".nc":
                    dataset.to_netcdf(part, engine="scipy")
                else:
                    dataset.to_zarr(part, mode="w", zarr_format=2, consolidated=True)
                if target.is_dir():
                    shutil.rmtree(target)
                part.replace(target)
        except OSError as error:
            raise OSError(error.errno, error.strerror or str(error), str(path)) from error


_MARK = "# rigidblocks sweep "
_PIECE = 1 << 16  # size of a block when reading a file [bytes]


class Key(NamedTuple):
    """Digests of the system, the settings, the design and the measures of a sweep."""

    system: str
    settings: str
    design: str
    measures: str

    def __str__(self) -> str:
        return " ".join(self)

    def differences(self, text: str) -> str:
        """Return the names of the digests that differ between this key and the key text `text`.

        The names are separated by commas. The result is "" if the digests are equal, or if the
        number of digests in `text` is wrong.
        """
        parts = text.split()
        if len(parts) != len(self):
            return ""
        return ", ".join(
            name for name, own, other in zip(self._fields, self, parts, strict=True) if own != other
        )


def key_of(
    wiring: Wiring, design: Design, settings: Sequence[Any], measures: Mapping[str, Any]
) -> Key:
    """Return the digests that identify a sweep; the digest of the measures covers their code."""
    parts = (
        (system_content(wiring)[0], start_content(wiring)),
        settings,
        (design.names, design.shapes, design.table),
        measures,
    )
    return Key(*(content_digest(part)[:16] for part in parts))


class Record:
    """Record of the finished runs of a sweep.

    `values` (n, measures) contains the measures, and NaN for unfinished runs. `done` (n,) marks the
    finished runs. `errors` contains the error messages of the failed runs by run index, from 0. If
    the .csv file exists, the context manager reads the finished runs from this file on entry.

    Raises ValueError if the file belongs to another sweep; the file then stays unchanged. Raises
    OSError if another sweep writes to the file.
    """

    def __init__(self, path: Path | None, design: Design, measures: tuple[str, ...], key: Key):
        n = len(design)
        self.values: Array = np.full((n, len(measures)), np.nan)
        self.done = np.zeros(n, dtype=bool)
        self.errors: dict[int, str] = {}
        self._path, self._design = path, design
        self._file: TextIO | None = None
        self._head = ["run", *design.columns(), *measures, "error", "digest"]
        self._key, self._mark = key, f"{_MARK}{key}"
        self._texts: dict[str, str] = {}  # one string object per distinct error message
        self._reserved = contextlib.ExitStack()

    def __enter__(self) -> Self:
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._reserved.enter_context(reserve(self._path))
            with contextlib.ExitStack() as failed:
                failed.push(self.__exit__)
                self._open(self._path)
                failed.pop_all()
        return self

    def _open(self, path: Path) -> None:
        """Read the finished runs in the file, and open the file for appending."""
        if path.is_fifo():
            raise OSError(f"cannot save '{path}': it is a FIFO, not a file")
        if path.is_file() and path.stat().st_size:
            self._read(path)
        self._file = path.open("a", newline="")
        if self._file.tell() == 0:
            with self._named_errors():
                self._file.write(self._mark + "\n" + csv_line(self._head))
                self._file.flush()

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
        self._reserved.close()

    def add(self, rows: Mapping[int, Row]) -> None:
        """Add finished runs by run index; append them to the .csv file of a saved record.

        Raises OSError with the file name if the runs cannot be written.
        """
        for k, row in rows.items():
            self._keep(k, row)
        if self._file is None:
            return
        with self._named_errors():
            for k, row in rows.items():
                cells = [str(k), *map(repr, (*self._design.table[k].tolist(), *row.values))]
                self._file.write(csv_line([*cells, row.error, self._checksum([*cells, row.error])]))
            self._file.flush()

    def _keep(self, k: int, row: Row) -> None:
        self.values[k], self.done[k] = row.values, True
        if row.error:
            self.errors[k] = self._texts.setdefault(row.error, row.error)

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        """If writing raises OSError, close the file and add the file name to the message."""
        try:
            yield
        except OSError as error:
            assert self._file is not None
            with contextlib.suppress(OSError):  # close() tries to write the buffered rows again
                self._file.close()
            raise OSError(error.errno, error.strerror, str(self._path)) from error

    def _read(self, path: Path) -> None:
        """Read all complete lines of the record, and remove an incomplete last line."""
        head = f"{self._mark}\n{csv_line(self._head)}".encode()
        with path.open("rb") as file:
            begin = file.read(len(head))
        if not head.startswith(begin):
            first = begin.decode(errors="replace").partition("\n")[0]
            found = self._key.differences(first.removeprefix(_MARK))
            raise ValueError(
                f"'{path}' belongs to another sweep, with another system, design or measures"
                f"{f' (it differs in: {found})' if found else ''}; choose another name or "
                "delete it"
            )
        _truncate(path, _complete_length(path) if begin == head else 0)
        with path.open(newline="", encoding="utf-8", errors="replace") as file:
            for number, cells in enumerate(csv.reader(file), 1):
                if number > 2:
                    self._keep(*self._run(path, number, cells))

    def _run(self, path: Path, number: int, cells: list[str]) -> tuple[int, Row]:
        """Parse the cells of line `number` into run index and `Row`; reject a damaged line."""
        first, n = 1 + self._design.table.shape[1], self.values.shape[1]
        damaged = ValueError(
            f"line {number} of '{path}' is damaged or changed; delete the line to repeat its run"
        )
        if len(cells) != len(self._head) or cells[-1] != self._checksum(cells[:-1]):
            raise damaged
        k, numbers = int(cells[0]), [float(cell) for cell in cells[1 : first + n]]
        if k >= len(self.done) or numbers[: first - 1] != self._design.table[k].tolist():
            raise damaged
        return k, Row(numbers[first - 1 :], cells[first + n])

    def _checksum(self, cells: Sequence[str]) -> str:
        """Return the checksum that ends a .csv line; `cells` are the other cells of the line."""
        return hashlib.sha256(f"{self._key}\n{csv_line(cells)}".encode()).hexdigest()[:16]


def _complete_length(path: Path) -> int:
    """Return the length [bytes] of a file up to the end of its last complete line."""
    with path.open("rb") as file:
        end = file.seek(0, io.SEEK_END)
        while end:
            begin = max(0, end - _PIECE)
            file.seek(begin)
            if (last := file.read(end - begin).rfind(b"\n")) >= 0:
                return begin + last + 1
            end = begin
    return 0


def _truncate(path: Path, length: int) -> None:
    if path.stat().st_size > length:
        with path.open("r+b") as file:
            file.truncate(length)


@dataclass(frozen=True, eq=False)
class Sweep:
    """Results of a sweep.

    Attributes:
        varied: Values of the varied parameters, each (n,), by name.
        measured: Values of the measures, each (n,), by name; NaN for failed runs.
        failures: Error messages of the failed runs, by run index.
    """

    varied: Mapping[str, Array]
    measured: Mapping[str, Array]
    failures: Mapping[int, str]

    def __len__(self) -> int:
        return len(next(iter(self.measured.values())))

    def __getitem__(self, name: str) -> Array:
        """Return the values (n,) of a measure or of a varied parameter, one for each run."""
        known = {**self.varied, **self.measured}
        if name not in known:
            raise KeyError(
                f"the sweep has no measure or varied parameter '{name}'; {suggestion(name, known)}"
            )
        return known[name]

    def __repr__(self) -> str:
        failed = f", {len(self.failures)} failed" if self.failures else ""
        return (
            f"<Sweep: {len(self)} runs{failed}; varied {', '.join(self.varied)}; "
            f"measured {', '.join(self.measured)}>"
        )

    def to_dataframe(self) -> pandas.DataFrame:
        """Return a DataFrame with one row per run; raise ImportError if pandas is missing."""
        pandas = module_of("pandas", "a DataFrame")
        return pandas.DataFrame({**self.varied, **self.measured})  # type: ignore[no-any-return]

    def to_xarray(self) -> xarray.Dataset:
        """Return an xarray Dataset over the dimension `run`.

        The variables are the measures and `error`, which contains the error messages of the failed
        runs. The coordinates are the varied parameters. The method `to_netcdf` of the dataset
        writes a file.

        Raises:
            ImportError: The package xarray is not installed.
        """
        xarray = module_of("xarray", "a dataset")
        said = [self.failures.get(k, "") for k in range(len(self))]
        variables = {name: ("run", values) for name, values in self.measured.items()}
        coordinates = {name: ("run", values) for name, values in self.varied.items()}
        return xarray.Dataset({**variables, "error": ("run", said)}, coordinates)


class LocalWorkers(NamedTuple):
    """Numbers of threads and SIMD lanes of a sweep on this machine; None for automatic lanes."""

    threads: int
    lanes: int | None


class SweepOptions(PrepareOptions, total=False):
    """Options that `sweep` accepts and passes to `prepare`."""

    t_start: float
    form: str


@explain_calls(SweepOptions)
def sweep(
    system: System,
    design: Design | Mapping[str, ArrayLike] | str | Path | Any,
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
    """Run a system for each row of a design and return the measures.

        sweep(system, grid({"pd.kp": [20, 40, 80]}), 10.0, 1e-3, {"overshoot": "max robot.q[1]"})

    The system is prepared once. Compiled blocks and native FMUs run in parallel threads. If an FMU
    runs Python, each thread uses its own process. After the measures of a run are computed, the
    recorded signals of the run are discarded.

    A failed run is repeated once. If the run fails again, it is listed in `failures`, and a warning
    at the end reports it. The other runs continue.

    Args:
        system: System to run.
        design: Values of the varied parameters for each run, such as a `grid`; or a table with one
            row per run: the path of a .csv file, a DataFrame or a dict (`table_design`).
        t_stop: End of each run [s].
        dt: Communication step [s].
        measure: Measures by name, each a function of the `Result` or a string (`measure_of`).
        save: Path of a .csv file; the measures of each run are written as soon as the run ends. For
            a .nc or .zarr path, the dataset is written at the end, and a .csv file next to it
            records the runs. If the sweep is interrupted or killed, a second call continues from
            the .csv file. If the file belongs to a different sweep, an exception is raised.
        threads: Number of parallel runs. Default: the number of processors.
        lanes: Number of SIMD lanes, 2, 4 or 8, or 1 for no SIMD. Each lane simulates one fused run
            with fixed step size. The results differ only by rounding errors. By default, lanes are
            used if the number of runs is large enough.
        scheduler: Address of a Dask scheduler, such as "tcp://bench:8786". The workers of the
            scheduler run tasks of about one second.
        scenario: Scenario as in `simulate`, the same for all runs.
        progress: Show a progress bar.
        **options: Options of `prepare`. The default of `form` is "fused", or "compiled" if a part
            is an FMU or Python.

    Returns:
        The varied parameters, the measures and the failures.

    Raises:
        KeyError: A name in the design, the scenario or `record` is unknown; raised before the first
            run.
        ValueError: A value in the design does not fit its port, a measure string is invalid, or dt
            does not divide the duration; raised before the first run.
        OSError: A file cannot be written, or another sweep writes to the same file.
        ConnectionError: The connection to the scheduler is lost; the .csv file contains the
            finished runs.
    """
    if not isinstance(design, Design):
        design = table_design(design)
    if not measure:
        raise ValueError(
            "`measure` is empty; a sweep needs one or more measures, such as "
            "{'end': 'last robot.q[1]'}"
        )
    if threads is not None:
        check_count("threads", threads)
    if lanes is not None:
        check_count("lanes", lanes)
        _ = lanes == 1 or lane_count(lanes)
    for what, given in (("threads", threads), ("lanes", lanes)):
        if given is not None and scheduler is not None:
            raise ValueError(
                f"{what} apply only to a sweep on this machine, not to one with "
                f"scheduler='{scheduler}'"
            )
    check_path("save", save)
    target = None if save is None else absolute_path(save)
    path = None if target is None else record_of(target)
    parsed_scenario = None if scenario is None else Scenario.parse(scenario)
    options = {"form": "fused" if _is_traced(system.wiring()) else "compiled"} | options
    work = Task(system, t_stop, dt, options, parsed_scenario, dict(measure))
    here = LocalWorkers(threads or os.cpu_count() or 1, lanes)
    done = _run_missing(work, design, path, here if scheduler is None else scheduler, progress)
    if target is not None and path != target:
        save_dataset(done.to_xarray(), target)
    if done.failures:
        k, text = next(iter(done.failures.items()))
        warnings.warn(
            f"{len(done.failures)} of {len(done)} runs failed, and their measures are NaN; "
            f"run {k}: {text}",
            RuntimeWarning,
            stacklevel=3,
        )
    return done


def _run_missing(
    work: Task,
    design: Design,
    path: Path | None,
    target: LocalWorkers | str,
    progress: bool,
) -> Sweep:
    """Simulate the runs that are missing in the record `path`, and add them to the record.

    `target` contains the numbers of threads and lanes for runs on this machine, or is the address
    of the Dask scheduler that runs them.
    """
    wiring, first = work.system.wiring(), work.prepare_run()
    work.check(wiring, run_start_values(wiring, design, design.table[0]))
    key = _key(work, wiring, design)
    with Record(path, design, tuple(work.measures), key) as record:
        todo = np.flatnonzero(~record.done).tolist()
        if isinstance(target, str):
            rows = run_on_cluster(target, work, design, todo)
        else:
            rows = _local_rows(work, wiring, design, first, todo, target)
        _record_rows(rows, record, progress)
    return Sweep(
        dict(zip(design.columns(), design.table.T, strict=True)),
        dict(zip(work.measures, record.values.T, strict=True)),
        dict(sorted(record.errors.items())),
    )


def _key(work: Task, wiring: Wiring, design: Design) -> Key:
    """Return the digests of the system, the settings, the design and the measures of a sweep."""
    story = None if work.scenario is None else work.scenario.text()
    settings = [float(work.t_stop), float(work.dt), sorted(work.options.items()), story]
    return key_of(wiring, design, settings, work.measures)


def _record_rows(rows: Iterator[dict[int, Row]], record: Record, progress: bool) -> None:
    """Write the measures of finished runs to the record, and update the progress bar."""
    disable = not (progress and is_live_stream(sys.stderr))
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


def _local_rows(
    work: Task, wiring: Wiring, design: Design, first: Run, todo: list[int], workers: LocalWorkers
) -> Iterator[dict[int, Row]]:
    """Simulate the runs with the indices `todo` on this machine, and yield their measures.

    `first` is a prepared run of the system, and `workers` contains the numbers of threads and
    lanes. If an FMU runs Python, each of several threads uses its own child process.
    """
    with contextlib.ExitStack() as children:
        there = list[Child]()

        def child() -> Worker:
            there.append(Child(work, design))
            children.callback(there[-1].close)
            return there[-1]

        def end() -> None:
            for one in there:
                one.stop()

        def make_own_worker() -> Worker:
            return make_worker(work, wiring, design, work.prepare_run())

        count = workers.threads
        if has_python_fmu(wiring) and count > 1:
            one = thread_local_worker(child)
        else:
            one = thread_local_worker(make_own_worker, make_worker(work, wiring, design, first))

        def run_one(k: int) -> Row:
            return run_with_retry(one, design.table[k])

        lanes = simd_executor(work, wiring, design, first, len(todo), workers.lanes)
        if lanes is None:
            each = ((k,) for k in todo)
            yield from run_in_threads(lambda runs: {k: run_one(k) for k in runs}, each, count, end)
        else:
            groups = lanes.groups(todo, count)
            yield from run_in_threads(lambda runs: lanes(runs, run_one), groups, count, end)


def _is_traced(wiring: Wiring) -> bool:
    """Return True if the whole system can be compiled to one C function (form "fused")."""
    parts = [part.component for part in wiring.parts.values()]
    return all(isinstance(one, Block) and not isinstance(one, PythonBlock) for one in parts)
