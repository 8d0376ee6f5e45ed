"""The record of a sweep: a line for each run, whole whatever ends the program."""

import contextlib
import csv
import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self, TextIO

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.simulation.provenance import provenance
from rigidblocks.study.design import Design
from rigidblocks.study.work import Row
from rigidblocks.system.wiring import Wiring

_MARK = "# rigidblocks sweep "
_PIECE = 1 << 16  # bytes


def digest(wiring: Wiring, design: Design, settings: list[Any], measures: Mapping[str, str]) -> str:
    """What a sweep is, in 16 digits: its system, its design, how it is run and what is measured."""
    about = provenance(wiring)
    sha = hashlib.sha256()
    for part in (about["parts"], about["connections"], repr(settings), json.dumps(dict(measures))):
        sha.update(part.encode() + b"\0")
    sha.update(repr((design.names, design.shapes)).encode())
    sha.update(np.ascontiguousarray(design.table).data)
    return sha.hexdigest()[:16]


class Record:
    """What is known of the runs of a sweep, by their numbers from 0 on: `values` (n, measures) are
    NaN where there are none, `done` (n,) says which there are, `errors` what was said of those that
    failed. Where there is to be a .csv file of them, those that it has are there from the start.

    Raises ValueError for a file of something else, which is left as it is.
    """

    def __init__(self, path: Path | None, design: Design, measures: tuple[str, ...], key: str):
        n = len(design)
        self.values: Array = np.full((n, len(measures)), np.nan)
        self.done = np.zeros(n, dtype=bool)
        self.errors: dict[int, str] = {}
        self._path, self._design = path, design
        self._file: TextIO | None = None
        self._head = ["run", *design.columns(), *measures, "error"]
        self._mark = f"{_MARK}{key}"
        self._texts: dict[str, str] = {}  # of errors, of which many are the same
        if path is not None and path.exists() and path.stat().st_size:
            self._read(path)

    def __enter__(self) -> Self:
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("a", newline="")
            if self._file.tell() == 0:
                with self._named():
                    self._file.write(self._mark + "\n" + _line(self._head))
                    self._file.flush()
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, rows: Mapping[int, Row]) -> None:
        """Adds rows, and hands them to the operating system; raises OSError with the name of the
        file where it does not take them.
        """
        for k, row in rows.items():
            self._keep(k, row)
        if self._file is None:
            return
        with self._named():
            for k, row in rows.items():
                numbers = map(repr, (*self._design.table[k].tolist(), *row.values))
                self._file.write(_line([k, *numbers, row.error]))
            self._file.flush()

    def _keep(self, k: int, row: Row) -> None:
        self.values[k], self.done[k] = row.values, True
        if row.error:
            self.errors[k] = self._texts.setdefault(row.error, row.error)

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Gives an OSError the name of the file, which is closed."""
        try:
            yield
        except OSError as error:
            assert self._file is not None
            with contextlib.suppress(OSError):  # for what is not written yet
                self._file.close()
            raise OSError(error.errno, error.strerror, str(self._path)) from error

    def _read(self, path: Path) -> None:
        """The whole lines of the file; a last one that a kill has cut is taken off it."""
        head = f"{self._mark}\n{_line(self._head)}".encode()
        with path.open("rb") as file:
            begin = file.read(len(head))
        if not begin.startswith(f"{self._mark}\n".encode()) and not head.startswith(begin):
            raise ValueError(
                f"'{path}' is no record of this sweep, of the same system, design and "
                "measures: give another name, or remove it"
            )
        _cut(path, _whole(path) if len(begin) == len(head) else 0)
        with path.open(newline="", encoding="utf-8", errors="replace") as file:
            for number, cells in enumerate(csv.reader(file), 1):
                if number > 2:
                    self._keep(*self._run(path, number, cells))

    def _run(self, path: Path, number: int, cells: list[str]) -> tuple[int, Row]:
        """The run in a line of the file."""
        first, n = 1 + self._design.table.shape[1], self.values.shape[1]
        try:
            values = [float(cell) for cell in cells[first : first + n]]
            k = range(len(self.done))[int(cells[0])]
            return k, Row(values, cells[first + n])
        except (ValueError, IndexError):
            raise ValueError(f"line {number} of '{path}' is no run: mend or remove it") from None


def _whole(path: Path) -> int:
    """The length of a file up to its last whole line, in bytes."""
    with path.open("rb") as file:
        end = file.seek(0, io.SEEK_END)
        while end:
            begin = max(0, end - _PIECE)
            file.seek(begin)
            if (last := file.read(end - begin).rfind(b"\n")) >= 0:
                return begin + last + 1
            end = begin
    return 0


def _cut(path: Path, length: int) -> None:
    """Takes off a file what is behind its first `length` bytes."""
    if path.stat().st_size > length:
        with path.open("r+b") as file:
            file.truncate(length)


def _line(cells: list[Any]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()
