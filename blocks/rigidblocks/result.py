"""The result of a run: every output over time, by name and with its unit."""

import os
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rigidblocks.block import Port
from rigidblocks.spatial import Array

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Result:
    """Signals over time: `result["robot.q"]` is an array (n, 2), `result.unit("robot.q")` its unit.

    `time` (n,) [s]; `values` (n, columns) has the elements of all `ports` side by side; `meta` says how they came about.
    """

    time: Array
    ports: tuple[Port, ...]
    values: Array
    meta: dict[str, str]

    def __getitem__(self, name: str) -> Array:
        """A signal, (n, *shape), or one element of it (n,): `robot.q` or `robot.q[1]`."""
        if name in self._where:
            port = self.port(name)
            return self.values[:, self._where[name]].reshape(-1, *port.shape)
        if name in self.columns:
            return self.values[:, self.columns.index(name)]
        raise KeyError(f"no signal '{name}'; there are: {', '.join(port.name for port in self.ports)}")

    def port(self, name: str) -> Port:
        """The description of a signal."""
        for port in self.ports:
            if port.name == name:
                return port
        raise KeyError(f"no signal '{name}'; there are: {', '.join(port.name for port in self.ports)}")

    def unit(self, name: str) -> str | tuple[str, ...]:
        """The unit of a signal, or one for each of its elements where they differ."""
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
        return {port.name: slice(a, a + port.size) for port, a in zip(self.ports, ends, strict=False)}

    def to_dataframe(self) -> "pandas.DataFrame":
        """A pandas DataFrame with the column `time` and one for each element; units in `attrs["units"]`."""
        import pandas

        frame = pandas.DataFrame(np.column_stack([self.time, self.values]), columns=["time", *self.columns])
        frame.attrs["units"] = {"time": "s", **dict(zip(self.columns, self.units, strict=True))}
        return frame

    def save(self, path: str | Path) -> Path:
        """Writes a .csv or .parquet file, with the columns of `to_dataframe` and in Parquet their units.

        The file is replaced whole or not at all. Raises ValueError for another ending.
        """
        path = Path(path)
        writers = {".csv": self._write_csv, ".parquet": self._write_parquet}
        if path.suffix not in writers:
            raise ValueError(f"cannot save '{path}': the name must end in one of {', '.join(writers)}")
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.part")
        writers[path.suffix](part)
        os.replace(part, path)
        return path

    def _write_csv(self, path: Path) -> None:
        # %.17g gives every number back to the last bit; names with commas are quoted
        names = ["time", *self.columns]
        header = ",".join(f'"{name}"' if "," in name else name for name in names)
        np.savetxt(path, np.column_stack([self.time, self.values]), "%.17g", ",", header=header, comments="")

    def _write_parquet(self, path: Path) -> None:
        import pyarrow
        import pyarrow.parquet

        names, units = ("time", *self.columns), ("s", *self.units)
        fields = [pyarrow.field(n, pyarrow.float64(), metadata={"unit": u}) for n, u in zip(names, units, strict=True)]
        columns = [pyarrow.array(column) for column in (self.time, *self.values.T)]
        pyarrow.parquet.write_table(pyarrow.table(columns, pyarrow.schema(fields, metadata=self.meta)), path)

    def plot(self, *names: str, path: str | Path | None = None) -> "Figure":
        """A figure of the signals over time, one panel for each unit, saved to `path` when given."""
        from matplotlib.figure import Figure

        panels: dict[Any, list[str]] = {}
        for name in names or [port.name for port in self.ports]:
            panels.setdefault(self.unit(name), []).append(name)
        figure = Figure(figsize=(9, 2 + 2.2 * len(panels)), layout="constrained")
        axes = figure.subplots(len(panels), sharex=True, squeeze=False)[:, 0]
        for axis, (unit, signals) in zip(axes, panels.items(), strict=True):
            for name, style in zip(signals, cycle(("-", "--", "-.", ":"))):  # one on top of another: both are seen
                elements = self[name].reshape(len(self.time), -1)
                axis.plot(self.time, elements, style, label=self.port(name).element_names)
            axis.set_ylabel(unit if isinstance(unit, str) else ", ".join(dict.fromkeys(unit)))
            axis.grid(alpha=0.3)
            axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="small")
        axes[-1].set_xlabel("time [s]")
        if path is not None:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, dpi=120)
        return figure
