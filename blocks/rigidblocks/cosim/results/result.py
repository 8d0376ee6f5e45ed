"""Result of a run: time series of the outputs, with names and units."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.util import find_spec
from io import BytesIO
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.block.block import Port
from rigidblocks.block.port import TEXTUAL, decode_value
from rigidblocks.block.units import unit_text
from rigidblocks.common.display_hooks import Picture, html_table, moving_picture
from rigidblocks.common.name_hints import AttributeHints, suggestion
from rigidblocks.common.optional_imports import missing_package, module_of
from rigidblocks.cosim.results import result_files as files
from rigidblocks.cosim.results.arrow_log import LoggedValues
from rigidblocks.cosim.results.result_files import Content, Event
from rigidblocks.spatial.spatial import Array

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Result(AttributeHints):
    """Result of a run: `result["robot.q"]` is the array (n, 2) of a signal at n times.

    `result.unit("robot.q")` is the unit of the signal.

    `time` (n,) contains the times [s]. `values` (n, columns) contains one column for each element
    of all `ports`. If the run was recorded to a file, indexing reads the values from the file, and
    `numpy.asarray(values)` reads all values. `meta` contains the metadata of the run. `events`
    contains the events in ascending time order.
    """

    CALLS: ClassVar = {
        "t": "result.time",
        "y data outputs series": "result['part.port']",
        "signals names keys variables": "list(result)",
        "to_csv to_file export write": "result.save('run.csv')",
        "df dataframe pandas to_pandas": "result.to_dataframe()",
        "show view": "result.plot() or result.animate()",
        "time_series get head": "result['part.port']",
        "to_numpy": "result.values",
        "overshoot step_info stepinfo settling_time rise_time": (
            "the requirements Overshoot and SettlingTime of rigidblocks.studies.requirements"
        ),
        "final last": "result['part.port'][-1]",
        "save_csv": "result.save('run.csv')",
        "x states": "result['part.port']; states are outputs of their part",
    }

    time: Array
    ports: tuple[Port, ...]
    values: Array | LoggedValues
    meta: dict[str, str]
    events: tuple[Event, ...] = ()

    def __repr__(self) -> str:
        rows = list(self._rows())
        width = [max((len(row[k]) for row in rows), default=0) for k in range(3)]
        lines = ("  ".join((*map(str.ljust, row, width), row[3])).rstrip() for row in rows)
        return "\n  ".join((f"<Result: {self._span()}>", *lines))

    def _repr_html_(self) -> str:
        """Return an HTML table of the signals, which notebooks display."""
        return html_table(self._span(), ("port", "shape", "unit", ""), self._rows())

    def _rows(self) -> Iterator[tuple[str, str, str, str]]:
        """Yield the name, shape, units and description of each signal."""
        for port in self.ports:
            yield port.name, str(port.shape), unit_text(port.units), port.doc

    def _span(self) -> str:
        """Return a summary: number of samples, start and end time [s], and number of signals."""
        return f"{len(self.time)} rows{self._time_span_text()}, {len(self.ports)} ports"

    def _time_span_text(self) -> str:
        return f" from {self.time[0]:g} to {self.time[-1]:g} s" if len(self.time) else ""

    @classmethod
    def from_signals(
        cls,
        time: Array,
        signals: Iterable[tuple[Port, ArrayLike]],
        meta: dict[str, str],
        events: tuple[Event, ...] = (),
    ) -> "Result":
        """Return a result with the given signals.

        Each signal is a pair: a port and its values (n, *shape) at the times (n,) [s].
        """
        ports, values = zip(*signals, strict=True)
        columns = [np.reshape(value, (len(time), -1)) for value in values]
        return cls(time, ports, np.hstack(columns), meta, events)

    def times(self, kind: str) -> Array:
        """Return the times [s] of all events of the type `kind`."""
        return np.array([event.t for event in self.events if event.kind == kind])

    def __getitem__(self, name: str) -> Array:
        """Return the values of a signal (n, *shape) or of one element (n,).

        `robot.q` is the name of a signal, and `robot.q[1]` is the name of its first element. The
        values of an FMU signal may also be integers, booleans or strings.
        """
        if name in self._column_slices:
            port = self.port(name)
            return decode_value(
                self.values[:, self._column_slices[name]].reshape(-1, *port.shape), port.type
            )
        if name in self.columns:
            kinds = [port.type for port in self.ports for _ in port.element_names]
            k = self.columns.index(name)
            return decode_value(self.values[:, k], kinds[k])
        raise KeyError(
            f"the result has no signal '{name}'; "
            f"{suggestion(name, (port.name for port in self.ports))}"
        )

    def __contains__(self, name: object) -> bool:
        """Return True if the result contains a signal or an element with this name."""
        return name in self._column_slices or name in self.columns

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the signals."""
        return (port.name for port in self.ports)

    def port(self, name: str) -> Port:
        """Return the port that describes a signal: its name, shape and unit.

        Raises:
            KeyError: The signal does not exist.
        """
        for port in self.ports:
            if port.name == name:
                return port
        raise KeyError(
            f"the result has no signal '{name}'; "
            f"{suggestion(name, (port.name for port in self.ports))}"
        )

    def unit(self, name: str) -> str | tuple[str, ...]:
        """Return the unit of a signal or of one element.

        If the elements of a signal have different units, return a tuple with the unit of each
        element.
        """
        if name not in self._column_slices and name in self.columns:
            return self.units[self.columns.index(name)]
        units = self.port(name).units
        return units[0] if len(set(units)) == 1 else units

    @property
    def content(self) -> Content:
        """Data of the result as a `Content` object, for writing to a file."""
        return Content(self.time, self.ports, self.values, self.meta, self.events)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Name of each column of `values`."""
        return self.content.columns

    @cached_property
    def units(self) -> tuple[str, ...]:
        """Unit of each column of `values`."""
        return self.content.units

    @cached_property
    def _column_slices(self) -> dict[str, slice]:
        ends = np.cumsum([0, *(port.size for port in self.ports)]).tolist()
        return {
            port.name: slice(a, a + port.size) for port, a in zip(self.ports, ends, strict=False)
        }

    def to_dataframe(self) -> "pandas.DataFrame":
        """Return a pandas DataFrame with the column `time` and one column for each element.

        The units are in `attrs["units"]`. Raises ImportError if pandas is not installed.
        """
        frame: pandas.DataFrame = module_of("pandas", "a DataFrame").DataFrame(
            np.column_stack([self.time, self.values]), columns=["time", *self.columns]
        )
        kinds = [port.type for port in self.ports for _ in port.element_names]
        for name, kind in zip(self.columns, kinds, strict=True):
            if kind != "Real":
                frame[name] = decode_value(frame[name].to_numpy(), kind)
        frame.attrs["units"] = {"time": "s", **dict(zip(self.columns, self.units, strict=True))}
        return frame

    def save(self, path: str | Path) -> Path:
        """Write an .arrow, .csv, .parquet or .mf4 file and return its path.

        The file contains the columns of `to_dataframe`, their units, the ports, `meta`, and the
        time and type of each event. A CSV file contains only the columns; the file
        NAME.csv-metadata.json contains the units, ports, `meta` and events. An existing file is
        replaced atomically.

        Args:
            path: Path of the file.

        Returns:
            Path of the written file.

        Raises:
            ValueError: The file extension is unknown.
            ImportError: The package for the format is not installed.
            OSError: The file cannot be written.
        """
        files.save(self.content, Path(path))
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> "Result":
        """Return the result in a file that `save` or a run has written.

        The values in an .arrow file are read on access. A log without an end-of-stream marker, such
        as the log of a killed run, causes a warning. The result then contains the complete chunks
        of the log.

        Args:
            path: Path of the file.

        Returns:
            Result with the signals, metadata and events of the file.

        Raises:
            ValueError: The file extension is unknown, or the file contains no result.
            ImportError: The package for the format is not installed.
        """
        return cls(*files.load(Path(path)))

    def animate(
        self,
        robot: Any,
        path: str | Path | None = None,
        signals: Sequence[str] = (),
        paths: Sequence[str] = (),
    ) -> Picture:
        """Return a page with an animation of the run.

        Args:
            robot: Simulated system, or a robot of this system (see `rigidblocks.animate`).
            path: Path to save the page, if given.
            signals: Names of the signals to plot, by default all signals.
            paths: Names of frames or bodies whose paths are drawn.

        Returns:
            Page that notebooks display.
        """
        return moving_picture(self, robot, path, signals, paths)

    def plot(self, *names: str, path: str | Path | None = None) -> "Figure":
        """Return a figure of the signals over time, with one panel for each unit.

        A thin line marks each event. Notebooks display the figure.

        Args:
            *names: Names of signals or of elements. By default, the figure shows all signals with
                at most 12 elements, or all signals if each signal has more than 12 elements.
            path: Path of a picture file for the figure.

        Returns:
            Figure of matplotlib.

        Raises:
            KeyError: A signal does not exist.
            ValueError: The values of a signal are strings.
            ImportError: The package matplotlib is not installed.
        """
        names = names or self._default_signals()
        by_unit: dict[Any, list[str]] = {}
        for name in names:
            by_unit.setdefault(self.unit(name), []).append(name)
        figure, axes = panels(len(by_unit), _names_text(names) + self._time_span_text())
        for axis, (unit, signals) in zip(axes, by_unit.items(), strict=True):
            axis.set_ylabel(unit if isinstance(unit, str) else unit_text(unit))
            self._draw(axis, signals)
        return finish_figure(figure, path)

    def _default_signals(self) -> tuple[str, ...]:
        """Return the names of the signals that `plot` shows by default."""
        numbers = [port for port in self.ports if port.type not in TEXTUAL]
        few = [port.name for port in numbers if port.size <= 12]
        return tuple(few or [port.name for port in numbers])

    def _draw(self, axis: "Axes", names: Sequence[str]) -> None:
        """Draw the signals `names`, and a line at the time of each event, in one panel."""
        styles = ("-", "--", "-.", ":")  # different styles keep coincident curves visible
        for name, style in zip(names, cycle(styles)):
            if len(names) <= len(styles):
                axis.set_prop_cycle(None)  # element k of each signal has the same colour
            axis.plot(self.time, curves_of(self, name), style, label=names_of(self, name))
        for event in self.events:
            axis.axvline(event.t, color="k", lw=0.4, alpha=0.4)


def curves_of(result: Result, name: str) -> Array:
    """Return the values of a signal (n, elements), or of one element (n, 1).

    Raises ValueError for signals with string values.
    """
    values = result[name]
    if values.dtype == object:
        raise ValueError(f"cannot plot '{name}': its values are strings")
    return np.asarray(values, dtype=float).reshape(len(values), int(np.prod(values.shape[1:])))


def names_of(result: Result, name: str) -> list[str]:
    """Return the element names of the signal `name`, or [`name`] for an element name."""
    whole = name in {port.name for port in result.ports}
    return list(result.port(name).element_names) if whole else [name]


def panels(n: int, title: str, height: float = 2.2) -> tuple["Figure", Sequence["Axes"]]:
    """Return a figure with n panels, one below the other, and a common time axis.

    Each panel is `height` inches high. Raises ImportError if matplotlib is not installed.
    """
    if find_spec("matplotlib") is None:
        raise missing_package("matplotlib", "a figure")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 2 + height * n), layout="constrained")
    axes = figure.subplots(n, sharex=True, squeeze=False)[:, 0]
    axes[-1].set_xlabel("time [s]")
    figure.suptitle(title, fontsize="medium")
    return figure, list(axes)


def finish_figure(figure: "Figure", path: str | Path | None = None) -> "Figure":
    """Add grids and legends to a figure, and save the figure if `path` is given.

    The legends are next to the panels. Notebooks display the figure as a picture.
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


def _names_text(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{len(names)} signals"


def _png(figure: "Figure") -> bytes:
    """Return a figure as the bytes of a PNG file."""
    file = BytesIO()
    figure.savefig(file, format="png", dpi=100)
    return file.getvalue()
