"""Scenarios, which set inputs and parameters during a run; selection of start values by name."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.block.block import Port
from rigidblocks.block.port import TEXTUAL, decode_value, encode_value
from rigidblocks.block.stepper import count_tolerance
from rigidblocks.common.name_hints import suggestion
from rigidblocks.common.optional_imports import module_of
from rigidblocks.common.regular_files import check_regular_file
from rigidblocks.cosim.graph.fmu_file import WORKING_FOLDER
from rigidblocks.cosim.graph.part import Selection, select_all, select_elements, split_name
from rigidblocks.cosim.graph.wiring import Wiring
from rigidblocks.kernels.block_digest import content_digest
from rigidblocks.spatial.spatial import Array

Values = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Scenario:
    """Schedule of new values for inputs and parameters at given times [s].

    The inputs must be unconnected, and the times must not decrease. Each name is `part.port` or
    `part.port[1]`. A value is valid until the next value with the same name.
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
        """Return a scenario from a table or a file.

        A table maps names to columns: {"time": [...], "pd.kp[1]": [...]}. The first line of a .csv
        file contains the names; an empty cell keeps the previous value. A .yaml or .json file
        contains a table of columns, or a list of entries {time: ..., name: value}.

        Raises ValueError for invalid input, and ImportError for YAML if PyYAML is not installed.
        """
        if isinstance(given, Scenario):
            return given
        if isinstance(given, str | Path):
            with WORKING_FOLDER:
                return cls(tuple(_read(Path(given))))
        return cls(tuple(_steps_from_columns(given, "the scenario")))

    def start(self, t_start: float) -> list[tuple[str, Any]]:
        """Return the names and values that apply at the start time [s] of the run."""
        early = [values for t, values in self.steps if t <= t_start]
        return [pair for values in early for pair in values.items()]

    def check(self, wiring: Wiring) -> None:
        """Check all names and values of the scenario.

        Raises KeyError for an unknown name. Raises ValueError for a connected or computed port, and
        for values with a wrong shape or outside the bounds of their port.
        """
        for t, values in self.steps:
            for name, value in values.items():
                _settable(wiring, name)
                _numbers(wiring, name, value, t)

    def text(self) -> str:
        """Return the scenario as JSON."""
        rows = [[t, {k: np.asarray(v).tolist() for k, v in one.items()}] for t, one in self.steps]
        return json.dumps(rows, default=bytes.hex)

    def metadata(self, meta: Mapping[str, str]) -> dict[str, str]:
        """Add the scenario, and a digest that also covers it, to the metadata `meta`."""
        text = self.text()
        return {**meta, "digest": content_digest(meta["digest"], text), "scenario": text}

    def changes(
        self, wiring: Wiring, t_start: float, dt: float, n: int
    ) -> Iterator[tuple[int, Values]]:
        """Yield communication points at which values change: index of the point, and new values.

        A value is set at the first communication point at its time or later. The last item contains
        the index of the end of the run and no values.

        Args:
            wiring: Wiring of the run.
            t_start: Start time of the run [s].
            dt: Communication step [s].
            n: Number of communication steps.
        """
        last = 0
        for t, values in self.steps:
            k = int(np.ceil((t - t_start) / dt - count_tolerance(t / dt)))
            if t > t_start and last <= k < n:
                last = k
                yield k, {name: _numbers(wiring, name, v, t) for name, v in values.items()}
        yield n, {}


def _settable(wiring: Wiring, name: str) -> None:
    """Raise KeyError for an unknown name, and ValueError for a connected or computed port."""
    part, chosen = numbers_of(wiring, name)
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


def _numbers(wiring: Wiring, name: str, value: Any, t: float) -> Array:
    """Return a scenario value as a flat array; raise ValueError for a value out of bounds."""
    _, chosen = numbers_of(wiring, name)
    where = f"{name} at t = {t:g} s of the scenario"
    if chosen.port.type != "Real":
        value = encode_value(value, chosen.port.type, chosen.shape, where)
    given = np.ravel(chosen.port.numbers(value, chosen.shape, where))
    low, high = (np.ravel(b)[list(chosen.places)] for b in _bounds(chosen))
    if not np.all((low <= given) & (given <= high)):
        raise ValueError(f"{where} must be from {low.tolist()} to {high.tolist()}, not {value}")
    return given


def _bounds(chosen: Selection) -> tuple[Array, Array]:
    port: Port = replace(chosen.port, start=None)
    return port.lowest, port.max


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
        raise ValueError(f"each entry of '{path}' needs a time") from None
    except TypeError as error:
        raise ValueError(f"invalid number in '{path}': {error}") from None


def read_data_file(path: Path, others: str = "") -> Any:
    """Return the content of a .yaml or .json file.

    Raises ValueError for an unknown file extension or an invalid file. `others` lists the other
    extensions that the caller supports, for the error message.
    """
    check_regular_file(path)
    if path.suffix.lower() == ".json":
        try:
            return json.loads(path.read_text())
        except ValueError as error:
            raise ValueError(f"invalid JSON in '{path}': {error}") from None
    if path.suffix.lower() not in (".yaml", ".yml"):
        raise ValueError(f"unsupported file '{path}'; expected a {others}.yaml or .json file")
    yaml = module_of("yaml", f"'{path}'")
    try:
        return yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise ValueError(f"invalid YAML in '{path}': {' '.join(str(error).split())}") from None


def _steps_from_csv(path: Path) -> Iterator[tuple[float, Values]]:
    with path.open(newline="") as file:
        rows = [row for row in csv.reader(file, skipinitialspace=True) if any(row)]
    head = [name.strip() for name in rows[0]] if rows else []
    if "time" not in head:
        raise ValueError(f"'{path}' needs a column 'time' in its first line")
    for number, row in enumerate(rows[1:], 2):
        try:
            cells = {n: float(c) for n, c in zip(head, row, strict=True) if c.strip()}
            yield cells.pop("time"), cells
        except (ValueError, KeyError):
            raise ValueError(
                f"invalid row {number} of '{path}': {row}; expected a time, and a number or an "
                "empty cell in each other column"
            ) from None


def start_of(wiring: Wiring, given: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Convert start values of ports and of port elements to start values by `part.port`.

    The value of an element such as `pd.kp[1]` replaces this element in the start value of its port;
    the other elements are unchanged. An unknown name stays in the result; the run then raises an
    error that lists the known names.
    """
    start: dict[str, Any] = {}
    for name, value in given:
        part, rest = wiring.locate_port(name)
        port_name, index = split_name(rest)
        ports = () if index is None else _ports(wiring, part)
        port = next((port for port in ports if port.name == port_name), None)
        if index is None or port is None:
            start[name] = value
            continue
        key = wiring.whole_name(part, port_name)
        base = wiring.parts[part].start.get(port_name, port.start)
        carrier = np.zeros(port.shape) if base is None else np.asarray(base, dtype=float)
        is_text = port.type in TEXTUAL
        before = decode_value(carrier, port.type) if is_text else carrier
        values = np.array(start.get(key, before), dtype=object if is_text else float)
        values.reshape(-1)[list(select_elements(port, index, name).places)] = np.ravel(value)
        start[key] = values
    return start


def settable_start_values(wiring: Wiring, part: str) -> dict[str, Port]:
    """Return the ports of a part that accept start values, by name.

    The start value of each port is the value in the system. The result is empty for an unknown
    part.
    """
    return {
        port.name: _set_start(port, wiring.parts[part].start.get(port.name))
        for port in _ports(wiring, part)
    }


def _ports(wiring: Wiring, part: str) -> Iterator[Port]:
    """Yield the ports of a part that accept start values, with their declared start values."""
    if part in wiring.parts:
        of = wiring.parts[part].component
        yield from of.inputs
        for kind in ("states", "sampled", "parameters"):
            yield from getattr(of, kind, ())


def numbers_of(wiring: Wiring, name: str) -> tuple[str, Selection]:
    """Find the port elements for a name such as `pd.kp` or `pd.kp[1]`; return part and elements.

    Raises:
        KeyError: The part or port is unknown, or has no start value.
        ValueError: The elements do not exist.
    """
    part, rest = wiring.locate_port(name)
    ports = settable_start_values(wiring, part)
    port_name, index = split_name(rest)
    if port_name not in ports:
        wiring.with_start_values({name: 0.0})  # raises an error that lists the known names
        raise KeyError(f"'{name}' has no start value")
    port = ports[port_name]
    return part, select_all(port) if index is None else select_elements(port, index, name)


def _set_start(port: Port, start: Any) -> Port:
    return port if start is None else replace(port, start=start)
