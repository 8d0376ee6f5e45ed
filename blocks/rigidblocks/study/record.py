"""The record of a sweep: a line for each run, whole whatever ends the program."""

import contextlib
import csv
import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self, TextIO

from rigidblocks.simulation.provenance import provenance
from rigidblocks.study.design import Design
from rigidblocks.system.wiring import Wiring

_MARK = "# rigidblocks sweep "


class Row(NamedTuple):
    """The measures of a run, and what was said where it failed."""

    values: list[float]
    error: str


def digest(wiring: Wiring, design: Design, settings: list[Any], measures: Mapping[str, str]) -> str:
    """What a sweep is, in 16 digits: its system, its design, how it is run and what is measured."""
    about = provenance(wiring)
    sha = hashlib.sha256()
    for part in (about["parts"], about["connections"], repr(settings), json.dumps(dict(measures))):
        sha.update(part.encode() + b"\0")
    sha.update(repr(design.names).encode())
    for k in range(len(design)):
        sha.update(repr(design.numbers(k)).encode())
    return sha.hexdigest()[:16]


class Record:
    """The `rows` of a sweep by the numbers of their runs, from 0 on, and the .csv file that has
    them, where there is to be one: those that it has already are there from the start.

    Raises ValueError for a file of something else, which is left as it is.
    """

    def __init__(self, path: Path | None, design: Design, measures: tuple[str, ...], key: str):
        self.rows: dict[int, Row] = {}
        self._path, self._design = path, design
        self._file: TextIO | None = None
        self._head = ["run", *design.columns(), *measures, "error"]
        self._mark, self._n = f"{_MARK}{key}", len(measures)
        if path is not None:
            if path.suffix != ".csv":
                raise ValueError(f"the runs of a sweep are saved as .csv, not as '{path}'")
            if path.exists() and path.stat().st_size:
                self.rows |= self._read()

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
        self.rows |= rows
        if self._file is None:
            return
        with self._named():
            for k, row in rows.items():
                numbers = map(repr, (*self._design.numbers(k), *row.values))
                self._file.write(_line([k, *numbers, row.error]))
            self._file.flush()

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

    def _read(self) -> dict[int, Row]:
        """The whole lines of the file; a last one that a kill has cut is taken off it."""
        assert self._path is not None
        data = self._path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        lines = whole.decode().split("\n", 1)
        if lines[0] != self._mark:
            raise ValueError(
                f"'{self._path}' is no record of this sweep, of the same system, design and "
                "measures: give another name, or remove it"
            )
        if whole != data:
            with self._path.open("r+b") as file:
                file.truncate(len(whole))
        rows = list(csv.reader(io.StringIO(lines[1])))[1:]
        first = 1 + len(self._design.columns())
        return {
            int(row[0]): Row([float(v) for v in row[first : first + self._n]], row[-1])
            for row in rows
        }


def _line(cells: list[Any]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()
