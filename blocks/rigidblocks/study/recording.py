"""Recorded motion to compare a system with: what went into it, and what was measured."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Port
from rigidblocks.block.record import offer
from rigidblocks.simulation.result import Result
from rigidblocks.system.wiring import Wiring

if TYPE_CHECKING:
    import pandas

Data = Union[Result, Mapping[str, ArrayLike], "pandas.DataFrame", str, Path]


@dataclass(frozen=True, eq=False)
class Recording:
    """Signals of a system over the times `time` (n,) [s]: `given` are inputs that nothing is
    connected to, `measured` are outputs, each (n, size) by the `part.port` that it is of.

    What was not measured is NaN.
    """

    time: Array
    given: Mapping[str, Array]
    measured: Mapping[str, Array]

    def steps(self, dt: float) -> Array:
        """How many steps of dt there are between the rows (n - 1,).

        Raises ValueError for times that are no multiples of dt apart.
        """
        steps = np.diff(self.time) / dt
        whole = np.rint(steps)
        wrong = np.flatnonzero((np.abs(steps - whole) > 1e-4) | (whole < 1))
        if len(wrong):
            k = int(wrong[0])
            raise ValueError(
                f"the times of the data are no multiples of dt = {dt:g} s apart: t = "
                f"{self.time[k]:.9g} s is followed by {self.time[k + 1]:.9g} s"
            )
        return whole.astype(int)


def recording(wiring: Wiring, data: Data) -> Recording:
    """The data of a `Result`, a table of columns by name or the path of a .csv file, for a system.

    A name is that of an output or of an open input, whole (n, *shape) or one element of it (n,);
    `time` has the times. Raises KeyError for a name that is neither, and ValueError for columns of
    another shape, times that do not increase, inputs that are not finite, and no output at all.
    """
    columns = _columns(data)
    if "time" not in columns:
        raise KeyError(f"the data have no column 'time'; {offer('time', columns)}")
    time = np.asarray(columns.pop("time"), dtype=float)
    if time.ndim != 1 or len(time) < 2 or not np.all(np.diff(time) > 0):
        raise ValueError("the data need at least two rows with increasing times")
    outputs = {port.name: port for port in wiring.outputs}
    opened = (replace(port, name=f"{part}.{port.name}") for part, port in wiring.open_inputs)
    inputs = {port.name: port for port in opened}
    measured: dict[str, Array] = {}
    given: dict[str, Array] = {}
    for name, values in columns.items():
        into, ports = (given, inputs) if _whole(name, inputs) else (measured, outputs)
        _put(into, ports, name, np.asarray(values, dtype=float), len(time))
    if not measured:
        raise ValueError(f"the data have no output to compare with; {offer('', outputs)}")
    for name, table in given.items():
        if not np.all(np.isfinite(table)):
            raise ValueError(f"the input {name} must be finite in every row and every element")
    return Recording(time, given, measured)


def _columns(data: Data) -> dict[str, Any]:
    if isinstance(data, Result):
        return {"time": data.time, **{port.name: data[port.name] for port in data.ports}}
    if isinstance(data, str | Path):
        return _read(Path(data))
    return {str(name): values for name, values in data.items()}


def _read(path: Path) -> dict[str, Array]:
    """The columns of a .csv file with a line of names; empty cells are NaN."""
    with path.open(newline="") as file:
        rows = [row for row in csv.reader(file) if row and not row[0].startswith("#")]
    head = [name.strip() for name in rows[0]] if rows else []
    try:
        table = [[float(cell) if cell.strip() else np.nan for cell in row] for row in rows[1:]]
        return dict(zip(head, np.array(table).reshape(-1, len(head)).T, strict=True))
    except ValueError:
        raise ValueError(f"'{path}' needs a line of names, then rows of as many numbers") from None


def _whole(name: str, ports: Mapping[str, Port]) -> str | None:
    """The port that a name is of, or None."""
    if name in ports:
        return name
    return next((key for key, port in ports.items() if name in port.element_names), None)


def _put(
    into: dict[str, Array], ports: Mapping[str, Port], name: str, values: Array, n: int
) -> None:
    """Puts a column, or the columns of a whole port, where they belong."""
    key = _whole(name, ports)
    if key is None:
        raise KeyError(
            f"the data have '{name}', which is no output and no open input; {offer(name, ports)}"
        )
    port = ports[key]
    place = None if name == key else port.element_names.index(name)
    shape = (n, *port.shape) if place is None else (n,)
    if values.shape != shape:
        raise ValueError(f"'{name}' of the data has the shape {values.shape}; it needs {shape}")
    table = into.setdefault(key, np.full((n, port.size), np.nan))
    if place is None:
        table[:] = values.reshape(n, port.size)
    else:
        table[:, place] = values
