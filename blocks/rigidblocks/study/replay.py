"""A system that does again what was recorded, with other numbers, and how that depends on them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.simulation.prepare import prepare
from rigidblocks.simulation.run import Run
from rigidblocks.study.recording import Recording
from rigidblocks.system.sensitivity import SUFFIX, Number, sensitive
from rigidblocks.system.starting import start_of, startable
from rigidblocks.system.system import System
from rigidblocks.system.wiring import Wiring

_LOST = 1e3  # spreads of what was measured: how far off a run is counted that fails


@dataclass(eq=False)
class Replay:
    """Runs of a system over the times of a recording, for numbers that it starts with.

    What was measured is one vector (m,) of all numbers that are not NaN, row by row; `column` has
    the number of the column of each, whose names are `columns`. `runs` counts them.
    """

    wiring: Wiring
    rows: Recording
    numbers: list[Number]
    run: Run
    variational: Run | None
    dt: float
    runs: int = field(default=0, init=False)
    _ran: bool = field(default=False, init=False)

    @property
    def exact(self) -> bool:
        """Whether the derivatives are."""
        return self.variational is not None

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of what was measured."""
        ports = {port.name: port for port in self.wiring.outputs}
        return tuple(name for key in self.rows.measured for name in ports[key].element_names)

    @cached_property
    def _all(self) -> Array:
        """What was measured (rows, columns)."""
        return np.hstack(list(self.rows.measured.values()))

    @cached_property
    def _there(self) -> Array:
        return np.isfinite(self._all)

    @cached_property
    def column(self) -> Array:
        """The column of each number that was measured (m,)."""
        return np.broadcast_to(np.arange(len(self.columns)), self._all.shape)[self._there]

    @cached_property
    def spread(self) -> Array:
        """How much each column varies; 1 where it does not."""
        there = [self._all[self._there[:, k], k] for k in range(len(self.columns))]
        spread = np.array([np.std(numbers) if numbers.size else 0.0 for numbers in there])
        return np.where(spread > 0, spread, 1.0)

    @cached_property
    def bounds(self) -> tuple[Array, Array]:
        """Between what the ports of the numbers let them be (n,)."""
        ends = []
        for one in self.numbers:
            port = startable(self.wiring, one.part)[one.port]
            ends.append((np.ravel(port.lowest)[one.place], np.ravel(port.max)[one.place]))
        low, high = np.array(ends).T
        return low, high

    def noise(self, residuals: Array, n: int) -> Array:
        """The standard deviation of the residuals of each column, of n numbers that were found."""
        counts = np.bincount(self.column, minlength=len(self.columns))
        squares = np.bincount(self.column, residuals**2, minlength=len(self.columns))
        freedoms = np.maximum(counts - n * counts / max(1, len(residuals)), 1.0)
        return np.maximum(np.sqrt(squares / freedoms), 1e-12 * self.spread)

    def table(self, residuals: Array) -> Array:
        """The residuals as (rows, columns), NaN where nothing was measured."""
        table = np.full(self._all.shape, np.nan)
        table[self._there] = residuals
        return table

    def residuals(self, z: Array) -> Array:
        """What was measured less what the system does with the numbers z (m,).

        A run that fails, but for the first, is far off in all that it did not come to.
        """
        names = list(self.rows.measured)
        self.runs += 1
        try:
            outputs = self._outputs(self.run, z, names)
            self._ran = True
        except (ArithmeticError, RuntimeError):
            if not self._ran:
                raise
            outputs = self._all + _LOST * self.spread
        r: Array = (self._all - outputs)[self._there]
        return r

    def jacobian(self, z: Array) -> Array:
        """The derivatives of what the system does by the numbers (m, n)."""
        assert self.variational is not None
        names = [f"{name}{SUFFIX}" for name in self.rows.measured]
        known = [self._known(name) for name in names]
        self.runs += 1
        there = [name for name, one in zip(names, known, strict=True) if one]
        changes = iter(self._outputs(self.variational, z, there, split=True))
        n, ports = len(self.numbers), {port.name: port for port in self.wiring.outputs}
        tables = [
            next(changes).reshape(len(self.rows.time), -1, n)
            if one
            else np.zeros((len(self.rows.time), ports[name.removesuffix(SUFFIX)].size, n))
            for name, one in zip(names, known, strict=True)
        ]
        J: Array = np.concatenate(tables, axis=1)[self._there]
        return J

    def _known(self, name: str) -> bool:
        """Whether an output depends on the numbers at all."""
        assert self.variational is not None
        try:
            self.variational[name]
        except KeyError:
            return False
        return True

    def _outputs(self, run: Run, z: Array, names: list[str], split: bool = False) -> Any:
        """The outputs of these names in each row, side by side or, `split`, by name."""
        pairs = [(self._name(one), value) for one, value in zip(self.numbers, z, strict=True)]
        first = [
            (name, table[0].reshape(self._shapes[name])) for name, table in self.rows.given.items()
        ]
        run.reset(start_of(self.wiring, [*first, *pairs]))
        kept = [[np.ravel(run[name])] for name in names]
        steps = self.rows.steps(self.dt)
        for k, n in enumerate(steps):
            for name, table in self.rows.given.items():
                run[name] = table[k].reshape(self._shapes[name])
            run.step(int(n))
            for values, name in zip(kept, names, strict=True):
                values.append(np.ravel(run[name]))
        tables = [np.array(values) for values in kept]
        return tables if split else np.hstack(tables)

    @cached_property
    def _shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {f"{part}.{port.name}": port.shape for part, port in self.wiring.open_inputs}

    def _name(self, one: Number) -> str:
        port = startable(self.wiring, one.part)[one.port]
        return f"{one.part}.{port.element_names[one.place]}"


def replay_of(
    system: System,
    rows: Recording,
    numbers: list[Number],
    dt: float,
    exact: bool | None,
    options: Mapping[str, Any],
) -> Replay:
    """The runs of a system, made ready; with exact derivatives unless `exact` is False, or is None
    and they cannot be had.
    """
    wiring, variational = system.wiring(), None
    rows.steps(dt)  # raises for rows that dt does not fit
    if exact is not False:
        try:
            other = sensitive(wiring, numbers, rows.measured)
            variational = prepare(other, dt, **options)
        except ValueError:
            if exact:
                raise
    run = prepare(system, dt, **options)
    return Replay(wiring, rows, numbers, run, variational, dt)
