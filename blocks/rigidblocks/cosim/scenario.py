"""Scenarios: what happens to the inputs and parameters of a system while it runs."""

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Port, finite
from rigidblocks.block.record import offer
from rigidblocks.extras import module_of
from rigidblocks.simulation.grid import Grid
from rigidblocks.simulation.network import Network
from rigidblocks.simulation.plan import Plan
from rigidblocks.system.selection import Selection
from rigidblocks.system.starting import numbers_of, start_of
from rigidblocks.system.wiring import Wiring

Values = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Scenario:
    """Times [s], which do not decrease, each with values by `part.port` or `part.port[1]`, of
    inputs that nothing is connected to and of parameters; each holds until there is another.
    """

    steps: tuple[tuple[float, Values], ...]

    def __post_init__(self) -> None:
        times = [t for t, _ in self.steps]
        if not self.steps:
            raise ValueError("a scenario needs at least one time with values")
        if not np.all(np.isfinite(times)) or np.any(np.diff(times) < 0):
            raise ValueError(f"the times of a scenario must be finite and not decrease: {times}")

    @classmethod
    def of(cls, given: "Scenario | Mapping[str, ArrayLike] | str | Path") -> "Scenario":
        """A scenario from a table by columns, {"time": [...], "pd.kp[1]": [...]}, or from the path
        of a .csv, .yaml or .json file.

        A .csv file has the names in its first line, and leaves a cell empty where nothing changes;
        the others have such a table, or a list of {time: ..., name: value}. Raises ValueError for
        what is none of these, and ImportError for YAML without PyYAML.
        """
        if isinstance(given, Scenario):
            return given
        if isinstance(given, str | Path):
            return cls(tuple(_read(Path(given))))
        return cls(tuple(_of_columns(given, "the scenario")))

    def start(self, t_start: float) -> list[tuple[str, Any]]:
        """What holds from the start on."""
        early = [values for t, values in self.steps if t <= t_start]
        return [pair for values in early for pair in values.items()]

    def check(self, wiring: Wiring) -> None:
        """Raises KeyError for a name that there is not, and ValueError for what is connected or
        computed, and for values that do not fit their ports.
        """
        for t, values in self.steps:
            for name, value in values.items():
                _settable(wiring, name)
                _numbers(wiring, name, value, t)

    def text(self) -> str:
        """What happens, as JSON."""
        told = [[t, {k: np.asarray(v).tolist() for k, v in one.items()}] for t, one in self.steps]
        return json.dumps(told)

    def course(self, wiring: Wiring, grid: Grid) -> Iterator[tuple[int, Values]]:
        """The numbers of the communication points up to which a run goes on undisturbed, each with
        what is set there: the first point at that time or behind it. The last one is the end.
        """
        last = 0
        for t, values in self.steps:
            k = int(np.ceil((t - grid.t_start) / grid.dt - 1e-6))
            if t > grid.t_start and last <= k < grid.n:
                last = k
                yield k, {name: _numbers(wiring, name, v, t) for name, v in values.items()}
        yield grid.n, {}


def in_scenario(plan: Plan, scenario: Scenario) -> Plan:
    """The plan with what a scenario says of the start; raises for one that does not fit."""
    scenario.check(plan.wiring)
    start = start_of(plan.wiring, scenario.start(plan.t_start))
    return plan.started(plan.wiring.started(start)) if start else plan


def put(wiring: Wiring, network: Network, values: Values) -> None:
    """Sets what a scenario says in a run."""
    for name, value in values.items():
        part, chosen = numbers_of(wiring, name)
        whole, places = wiring.whole_name(part, chosen.port.name), list(chosen.places)
        view = network.view(whole)
        if view is not None:
            view[places] = value
            continue
        names = [wiring.whole_name(part, chosen.port.element_names[k]) for k in places]
        opened = [network.view(one) for one in names]
        if all(one is not None for one in opened):
            for one, number in zip(opened, value, strict=True):
                one[:] = number  # type: ignore[index]
            continue
        all_values = network.read(whole).copy()
        all_values[places] = value
        network.change(whole, all_values)


def _settable(wiring: Wiring, name: str) -> None:
    """Raises for what cannot be set while a run goes on."""
    part, chosen = numbers_of(wiring, name)
    component: Any = wiring.parts[part].component
    inputs = {port.name for port in component.inputs}
    if chosen.port.name not in inputs | {port.name for port in component.parameters}:
        known = [*inputs, *(port.name for port in component.parameters)]
        raise ValueError(
            f"a scenario cannot set {name}, which is computed; {offer(name, map(str, known))}"
        )
    for one in wiring.connections:
        if one.target == (part, chosen.port.name) and set(one.to) & set(chosen.places):
            raise ValueError(f"a scenario cannot set {name}: it is connected to {one.names[0]}")


def _numbers(wiring: Wiring, name: str, value: Any, t: float) -> Array:
    """The flat values of a name, within the bounds of its port."""
    _, chosen = numbers_of(wiring, name)
    where = f"{name} at t = {t:g} s of the scenario"
    given = np.ravel(finite(value, chosen.shape, where))
    low, high = (np.ravel(b)[list(chosen.places)] for b in _bounds(chosen))
    if not np.all((low <= given) & (given <= high)):
        raise ValueError(f"{where} must be from {low.tolist()} to {high.tolist()}, not {value}")
    return given


def _bounds(chosen: Selection) -> tuple[Array, Array]:
    port: Port = replace(chosen.port, start=None)
    return port.lowest, port.max


def _of_columns(table: Mapping[str, Any], where: str) -> Iterator[tuple[float, Values]]:
    if not isinstance(table, Mapping) or "time" not in table:
        raise ValueError(f"{where} needs a column 'time', and one for each name")
    times = np.ravel(np.asarray(table["time"], dtype=float))
    for name, column in table.items():
        if np.ndim(column) == 0 or len(column) != len(times):
            raise ValueError(f"{where} has {len(times)} times; '{name}' needs as many values")
    for k, t in enumerate(times.tolist()):
        columns = ((name, column[k]) for name, column in table.items() if name != "time")
        yield t, {name: v for name, v in columns if v is not None and not np.all(np.isnan(v))}


def _read(path: Path) -> Iterator[tuple[float, Values]]:
    """The steps of a file."""
    if path.suffix.lower() == ".csv":
        yield from _of_csv(path)
        return
    try:
        given = parsed(path, ".csv, ")
        if isinstance(given, list) and all(isinstance(one, Mapping) for one in given):
            for one in given:
                yield float(one["time"]), {str(k): v for k, v in one.items() if k != "time"}
            return
        yield from _of_columns(given, f"'{path}'")
    except KeyError:
        raise ValueError(f"'{path}' needs a time in each of its entries") from None
    except TypeError as error:
        raise ValueError(f"'{path}' has what is no number: {error}") from None


def parsed(path: Path, others: str = "") -> Any:
    """What a .yaml or .json file says; raises ValueError for what is none of them, nor one of the
    `others` that the caller reads.
    """
    if path.suffix.lower() == ".json":
        try:
            return json.loads(path.read_text())
        except ValueError as error:
            raise ValueError(f"'{path}' is no JSON: {error}") from None
    if path.suffix.lower() not in (".yaml", ".yml"):
        raise ValueError(f"what is read here is a {others}.yaml or .json file, not '{path}'")
    yaml = module_of("yaml", "yaml", f"'{path}'")
    try:
        return yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise ValueError(f"'{path}' is no YAML: {' '.join(str(error).split())}") from None


def _of_csv(path: Path) -> Iterator[tuple[float, Values]]:
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
                f"row {number} of '{path}' must have a time, and numbers under the names: {row}"
            ) from None
