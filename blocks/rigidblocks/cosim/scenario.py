"""Scenarios, which set inputs and parameters during a run."""

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.block.block import Port
from rigidblocks.block.stepper import count_tolerance
from rigidblocks.common.name_hints import suggestion
from rigidblocks.common.optional_imports import module_of
from rigidblocks.common.regular_files import check_regular_file
from rigidblocks.cosim.graph.fmu_file import WORKING_FOLDER_LOCK
from rigidblocks.cosim.graph.wiring import Wiring
from rigidblocks.kernels.block_digest import content_digest
from rigidblocks.spatial.spatial import Array

Values = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Scenario:
    """Schedule of new values for inputs and parameters at given times [s].

    Each item of `steps` is a pair: a time [s], and the new values by name (`part.port` or
    `part.port[1]`). The times must not decrease, and the inputs must be unconnected. A value is
    valid until the next value with the same name.

    Raises:
        ValueError: The scenario is empty, or a time is not finite or decreases.
    """

    steps: tuple[tuple[float, Values], ...]

    def __post_init__(self) -> None:
        times = [t for t, _ in self.steps]
        if not self.steps:
            raise ValueError("the scenario is empty; it needs one or more times with values")
        if not np.all(np.isfinite(times)) or np.any(np.diff(times) < 0):
            raise ValueError(f"the times of a scenario must be finite and not decrease: {times}")

    @classmethod
    def parse(cls, given: "Scenario | Mapping[str, ArrayLike] | str | Path") -> "Scenario":
        """Create a scenario from a table or a file; return a scenario unchanged.

        A table maps names to columns: {"time": [...], "pd.kp[1]": [...]}. The first line of a .csv
        file contains the names; an empty cell keeps the previous value. A .yaml or .json file
        contains a table of columns, or a list of entries {time: ..., name: value}.

        Raises ValueError for invalid input, and ImportError for YAML if PyYAML is not installed.
        """
        if isinstance(given, Scenario):
            return given
        if isinstance(given, str | Path):
            with WORKING_FOLDER_LOCK:
                return cls(tuple(_read(Path(given))))
        return cls(tuple(_steps_from_columns(given, "the scenario")))

    def schedule(self, wiring: Wiring, t_start: float) -> "Schedule":
        """Return the schedule of the new values for a run of a system from t_start [s].

        Raises KeyError for an unknown name. Raises ValueError for a connected or computed port, and
        for values with a wrong shape or outside the bounds of their port.
        """
        steps = (
            (t, tuple(_new_values(wiring, name, value, t) for name, value in values.items()))
            for t, values in self.steps
        )
        checked = tuple(steps)
        early = (pair for t, values in self.steps if t <= t_start for pair in values.items())
        return Schedule(self, t_start, wiring.start_by_port(early), checked)

    def text(self) -> str:
        """Return the scenario as JSON."""
        rows = [[t, {k: np.asarray(v).tolist() for k, v in one.items()}] for t, one in self.steps]
        return json.dumps(rows, default=bytes.hex)

    def metadata(self, meta: Mapping[str, str]) -> dict[str, str]:
        """Return metadata with the scenario and a new digest, which also covers the scenario."""
        text = self.text()
        return {**meta, "digest": content_digest(meta["digest"], text), "scenario": text}


class NewValues(NamedTuple):
    """New values for elements of one port.

    Attributes:
        port: Name `part.port` of the port.
        elements: Names of the elements, such as `part.port[1]`.
        places: Indices of the elements in the port.
        values: New value (n,) of each element.
    """

    port: str
    elements: tuple[str, ...]
    places: tuple[int, ...]
    values: Array


@dataclass(frozen=True, eq=False)
class Schedule:
    """Scenario for the runs of a system from the time `t_start` [s].

    Attributes:
        scenario: Scenario of the schedule.
        t_start: Start time [s].
        start: Values that the scenario sets at `t_start` or before, by `part.port`.
        steps: Times [s], and the new values that apply from these times on.
    """

    scenario: Scenario
    t_start: float
    start: Mapping[str, Any]
    steps: tuple[tuple[float, tuple[NewValues, ...]], ...]

    def changes(self, dt: float, n: int) -> Iterator[tuple[int, tuple[NewValues, ...]]]:
        """Yield pairs (index of a communication point, new values that are set at this point).

        A value is set at the first communication point that is not before the time of the value.
        The last pair contains the index of the last communication point, and no values.

        Args:
            dt: Communication step [s].
            n: Number of communication steps.
        """
        last = 0
        for t, values in self.steps:
            k = int(np.ceil((t - self.t_start) / dt - count_tolerance(t / dt)))
            if t > self.t_start and last <= k < n:
                last = k
                yield k, values
        yield n, ()


def _new_values(wiring: Wiring, name: str, value: Any, t: float) -> NewValues:
    """Check one value of a scenario, and return it as `NewValues`.

    `name` is the name of a port or element. The time t [s] is for error messages.
    """
    part, chosen = wiring.locate_elements(name)
    component: Any = wiring.parts[part].component
    inputs = {port.name for port in component.inputs}
    if chosen.port.name not in inputs | {port.name for port in component.parameters}:
        known = [*inputs, *(port.name for port in component.parameters)]
        raise ValueError(
            f"a scenario cannot set {name}, which is computed; {suggestion(name, map(str, known))}"
        )
    for one in wiring.connections:
        if one.target == (part, chosen.port.name) and set(one.to) & set(chosen.places):
            raise ValueError(f"a scenario cannot set {name}: it is connected to {one.names[0]}")
    where = f"{name} at t = {t:g} s of the scenario"
    given = np.ravel(chosen.port.encode(value, chosen.shape, where))
    port: Port = replace(chosen.port, start=None)
    low, high = (np.ravel(bound)[list(chosen.places)] for bound in (port.lowest, port.max))
    if not np.all((low <= given) & (given <= high)):
        raise ValueError(f"{where} must be from {low.tolist()} to {high.tolist()}, not {value}")
    elements = (wiring.whole_name(part, port.element_names[k]) for k in chosen.places)
    return NewValues(wiring.whole_name(part, port.name), tuple(elements), chosen.places, given)


def _steps_from_columns(table: Mapping[str, Any], where: str) -> Iterator[tuple[float, Values]]:
    if not isinstance(table, Mapping) or "time" not in table:
        raise ValueError(
            f"{where} needs a column 'time' and one column for each input or parameter"
        )
    times = np.ravel(np.asarray(table["time"], dtype=float))
    for name, column in table.items():
        if np.ndim(column) == 0 or len(column) != len(times):
            raise ValueError(
                f"{where} has {len(times)} times; '{name}' needs the same number of values"
            )
    for k, t in enumerate(times.tolist()):
        columns = ((name, column[k]) for name, column in table.items() if name != "time")
        yield t, {name: v for name, v in columns if not _is_empty(v)}


def _is_empty(value: Any) -> bool:
    """Return True if a cell has no value: None, or NaN in each element."""
    array = np.asarray(value)
    return value is None or (array.dtype.kind in "fc" and bool(np.all(np.isnan(array))))


def _read(path: Path) -> Iterator[tuple[float, Values]]:
    """Yield each time of a scenario file with its values."""
    check_regular_file(path)
    if path.suffix.lower() == ".csv":
        yield from _steps_from_csv(path)
        return
    try:
        given = read_data_file(path, ".csv, ")
        if isinstance(given, list) and all(isinstance(one, Mapping) for one in given):
            for one in given:
                yield float(one["time"]), {str(k): v for k, v in one.items() if k != "time"}
            return
        yield from _steps_from_columns(given, f"'{path}'")
    except KeyError:
        raise ValueError(f"each entry of '{path}' needs the key 'time'") from None
    except TypeError as error:
        raise ValueError(f"invalid number in '{path}': {error}") from None


def read_data_file(path: Path, other_extensions: str = "") -> Any:
    """Return the content of a .yaml or .json file.

    Raises ValueError for an unknown file extension or an invalid file. `other_extensions` is for
    the error message: it lists the extensions that only the caller supports, such as ".csv, ".
    """
    check_regular_file(path)
    if path.suffix.lower() == ".json":
        try:
            return json.loads(path.read_text())
        except ValueError as error:
            raise ValueError(f"invalid JSON in '{path}': {error}") from None
    if path.suffix.lower() not in (".yaml", ".yml"):
        raise ValueError(
            f"unsupported file '{path}'; expected a {other_extensions}.yaml or .json file"
        )
    yaml = module_of("yaml", f"'{path}'")
    try:
        return yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise ValueError(f"invalid YAML in '{path}': {' '.join(str(error).split())}") from None


def _steps_from_csv(path: Path) -> Iterator[tuple[float, Values]]:
    with path.open(newline="", encoding="utf-8-sig") as file:  # skips a byte-order mark
        rows = [row for row in csv.reader(file, skipinitialspace=True) if any(row)]
    head = [name.strip() for name in rows[0]] if rows else []
    if "time" not in head:
        raise ValueError(f"'{path}' needs a column 'time' in its first line")
    if twice := [name for k, name in enumerate(head) if name in head[:k]]:
        raise ValueError(f"the first line of '{path}' contains '{twice[0]}' twice")
    for number, row in enumerate(rows[1:], 2):
        try:
            cells = {n: _number(c) for n, c in zip(head, row, strict=True) if c.strip()}
            yield cells.pop("time"), cells
        except (ValueError, KeyError):
            raise ValueError(
                f"invalid row {number} of '{path}': {row}; expected a time, and a number or an "
                "empty cell in each other column"
            ) from None


def _number(cell: str) -> float:
    """Return the number of a cell; raise ValueError for digits with underscores."""
    if "_" in cell:
        raise ValueError(f"invalid number '{cell}'")
    return float(cell)
