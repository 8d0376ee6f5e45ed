"""The result of a run: every output over time, by name and with its unit."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.util import find_spec
from io import BytesIO
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Port
from rigidblocks.block.record import offer
from rigidblocks.block.signal_types import TEXTUAL, shown
from rigidblocks.extras import module_of
from rigidblocks.pictures import Picture, described, moving_picture
from rigidblocks.simulation import files
from rigidblocks.simulation.log import LoggedValues

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Event(Protocol):
    """What happened in a run: when, and what it was."""

    @property
    def t(self) -> float:
        """The time [s]."""

    @property
    def kind(self) -> str:
        """What it was, in a word."""


@dataclass(frozen=True, eq=False)
class Result:
    """Signals over time: `result["robot.q"]` is an array (n, 2), `result.unit("robot.q")` its unit.

    `time` (n,) [s]; `values` (n, columns) has the elements of all `ports` side by side. Those of a
    run that was recorded to a file are read when they are indexed; `numpy.asarray(values)` is all
    of them. `meta` says how they came about. `events` has what happened at moments of their own,
    in the order of time.
    """

    time: Array
    ports: tuple[Port, ...]
    values: Array | LoggedValues
    meta: dict[str, str]
    events: tuple[Event, ...] = ()

    def __repr__(self) -> str:
        rows = [(port.name, str(port.shape), _units(port), port.doc) for port in self.ports]
        width = [max((len(row[k]) for row in rows), default=0) for k in range(3)]
        lines = ("  ".join((*map(str.ljust, row, width), row[3])).rstrip() for row in rows)
        return "\n  ".join((f"<Result: {self._span()}>", *lines))

    def _repr_html_(self) -> str:
        """What notebooks show: a table of the ports."""
        rows = ((port.name, str(port.shape), _units(port), port.doc) for port in self.ports)
        return described(self._span(), ("port", "shape", "unit", ""), rows)

    def _span(self) -> str:
        """How many rows there are, and from when to when."""
        return f"{len(self.time)} rows{self._when()}, {len(self.ports)} ports"

    def _when(self) -> str:
        return f" from {self.time[0]:g} to {self.time[-1]:g} s" if len(self.time) else ""

    @classmethod
    def of_signals(
        cls,
        time: Array,
        signals: Iterable[tuple[Port, ArrayLike]],
        meta: dict[str, str],
        events: tuple[Event, ...] = (),
    ) -> "Result":
        """The result with these signals, each a port and its values (n, *shape) at the times (n,)
        [s].
        """
        ports, values = zip(*signals, strict=True)
        columns = [np.reshape(value, (len(time), -1)) for value in values]
        return cls(time, ports, np.hstack(columns), meta, events)

    def times(self, kind: str) -> Array:
        """The times of the events of one kind [s]."""
        return np.array([event.t for event in self.events if event.kind == kind])

    def __getitem__(self, name: str) -> Array:
        """A signal, (n, *shape), or one element of it (n,): `robot.q` or `robot.q[1]`. Those of
        FMUs may be whole numbers, truth values and texts.
        """
        if name in self._where:
            port = self.port(name)
            return shown(self.values[:, self._where[name]].reshape(-1, *port.shape), port.type)
        if name in self.columns:
            kinds = [port.type for port in self.ports for _ in port.element_names]
            k = self.columns.index(name)
            return shown(self.values[:, k], kinds[k])
        raise KeyError(f"no signal '{name}'; {offer(name, (port.name for port in self.ports))}")

    def port(self, name: str) -> Port:
        """The description of a signal."""
        for port in self.ports:
            if port.name == name:
                return port
        raise KeyError(f"no signal '{name}'; {offer(name, (port.name for port in self.ports))}")

    def unit(self, name: str) -> str | tuple[str, ...]:
        """The unit of a signal, or one for each of its elements where they differ; or of an element
        alone.
        """
        if name not in self._where and name in self.columns:
            return self.units[self.columns.index(name)]
        units = self.port(name).units
        return units[0] if len(set(units)) == 1 else units

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The name of each column of `values`."""
        return tuple(name for port in self.ports for name in port.element_names)

    @cached_property
    def units(self) -> tuple[str, ...]:
        """The unit of each column of `values`."""
        return tuple(unit for port in self.ports for unit in port.units)

    @cached_property
    def _where(self) -> dict[str, slice]:
        ends = np.cumsum([0, *(port.size for port in self.ports)]).tolist()
        return {
            port.name: slice(a, a + port.size) for port, a in zip(self.ports, ends, strict=False)
        }

    def to_dataframe(self) -> "pandas.DataFrame":
        """A pandas DataFrame with the column `time` and one for each element; units in
        `attrs["units"]`. Raises ImportError without pandas.
        """
        frame: pandas.DataFrame = module_of("data", "pandas", "a DataFrame").DataFrame(
            np.column_stack([self.time, self.values]), columns=["time", *self.columns]
        )
        kinds = [port.type for port in self.ports for _ in port.element_names]
        for name, kind in zip(self.columns, kinds, strict=True):
            if kind != "Real":
                frame[name] = shown(frame[name].to_numpy(), kind)
        frame.attrs["units"] = {"time": "s", **dict(zip(self.columns, self.units, strict=True))}
        return frame

    def save(self, path: str | Path) -> Path:
        """Writes an .arrow, .csv, .parquet or .mf4 file, with the columns of `to_dataframe`, their
        units, the ports, `meta`, and the time and kind of each event. CSV has only the numbers;
        the rest is beside it in NAME.csv-metadata.json.

        The file is replaced whole or not at all. Raises ValueError for another ending, ImportError
        for one that needs a package that is missing, and OSError where the file cannot be written.
        """
        files.save(self, Path(path))
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> "Result":
        """The result in a file that `save` or a run has written; the numbers in an .arrow file are
        read when they are asked for.

        Warns of a log that ends early, as that of a run that was killed, and has its whole chunks.
        Raises ValueError for another ending and for what is no result, ImportError for one that
        needs a package that is missing.
        """
        return cls(*files.load(Path(path)))

    def animate(
        self,
        robot: Any,
        path: str | Path | None = None,
        signals: Sequence[str] = (),
        paths: Sequence[str] = (),
    ) -> Picture:
        """The page that plays the run; `robot` is the system that ran, or the robot in it, as
        of `animate`.
        """
        return moving_picture(self, robot, path, signals, paths)

    def plot(self, *names: str, path: str | Path | None = None) -> "Figure":
        """A figure of the signals over time, one panel for each unit, with a thin line at each
        event; saved to `path` when given. Notebooks show its picture.

        Without names these are all signals of up to 12 numbers, or all where there are no such.
        """
        names = names or self._usual()
        by_unit: dict[Any, list[str]] = {}
        for name in names:
            by_unit.setdefault(self.unit(name), []).append(name)
        figure, axes = panels(len(by_unit), _listed(names) + self._when())
        for axis, (unit, signals) in zip(axes, by_unit.items(), strict=True):
            axis.set_ylabel(unit if isinstance(unit, str) else ", ".join(dict.fromkeys(unit)))
            self._draw(axis, signals)
        return finished_figure(figure, path)

    def _usual(self) -> tuple[str, ...]:
        """The signals that a figure has without being asked for any."""
        numbers = [port for port in self.ports if port.type not in TEXTUAL]
        few = [port.name for port in numbers if port.size <= 12]
        return tuple(few or [port.name for port in numbers])

    def _draw(self, axis: "Axes", names: Sequence[str]) -> None:
        """Draws signals and events into a panel."""
        styles = ("-", "--", "-.", ":")  # one on top of another: both are seen
        for name, style in zip(names, cycle(styles)):
            if len(names) <= len(styles):
                axis.set_prop_cycle(None)  # command and actual of a joint have one colour
            axis.plot(self.time, curves_of(self, name), style, label=names_of(self, name))
        for event in self.events:
            axis.axvline(event.t, color="k", lw=0.4, alpha=0.4)


def curves_of(result: Result, name: str) -> Array:
    """The elements of a signal, or one of them, side by side (n, elements); raises ValueError for
    texts.
    """
    values = result[name]
    if values.dtype == object:
        raise ValueError(f"'{name}' has texts for values, which have no curve")
    return np.asarray(values, dtype=float).reshape(len(values), int(np.prod(values.shape[1:])))


def names_of(result: Result, name: str) -> list[str]:
    """The names of the elements of a signal, or its own where it is an element."""
    whole = name in {port.name for port in result.ports}
    return list(result.port(name).element_names) if whole else [name]


def panels(n: int, title: str, height: float = 2.2) -> tuple["Figure", Sequence["Axes"]]:
    """A figure with a title and n panels over time, one below the other, each `height` inches;
    raises ImportError without matplotlib.
    """
    if find_spec("matplotlib") is None:
        raise ImportError("a figure needs matplotlib: pip install 'rigidblocks[plot]'")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 2 + height * n), layout="constrained")
    axes = figure.subplots(n, sharex=True, squeeze=False)[:, 0]
    axes[-1].set_xlabel("time [s]")
    figure.suptitle(title, fontsize="medium")
    return figure, list(axes)


def finished_figure(figure: "Figure", path: str | Path | None = None) -> "Figure":
    """The figure with grids and legends beside its panels, which notebooks show as a picture; saved
    to `path` when given.
    """
    for axis in figure.axes:
        axis.grid(alpha=0.3)
        if axis.get_legend_handles_labels()[0]:
            axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="small")
    setattr(figure, "_repr_png_", partial(_png, figure))  # noqa: B010 - what notebooks call
    if path is not None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=120)
    return figure


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{len(names)} signals"


def _png(figure: "Figure") -> bytes:
    """A figure as a PNG file."""
    file = BytesIO()
    figure.savefig(file, format="png", dpi=100)
    return file.getvalue()


def _units(port: Port) -> str:
    return " ".join(dict.fromkeys(port.units))
