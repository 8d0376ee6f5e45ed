"""Parameter estimation from recorded signals by least squares, with confidence intervals."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Union

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.block.block import Port
from rigidblocks.common.arrays import Array
from rigidblocks.common.name_hints import explain_calls, suggestion
from rigidblocks.common.optional_imports import module_of
from rigidblocks.common.regular_files import check_regular_file
from rigidblocks.cosim.graph.system import System
from rigidblocks.cosim.graph.variational_system import SUFFIX, StartElement, add_sensitivities
from rigidblocks.cosim.graph.wiring import Wiring
from rigidblocks.cosim.prepare import Run, prepare
from rigidblocks.cosim.results.result import Result
from rigidblocks.library.estimators import number_of
from rigidblocks.studies.argument_checks import check_level, check_system, name_list, real_array
from rigidblocks.studies.identification import BaseParameters, independent_columns

if TYPE_CHECKING:
    import pandas

Data = Union[Result, Mapping[str, ArrayLike], "pandas.DataFrame", str, Path]


@dataclass(frozen=True, eq=False)
class Recording:
    """Recorded signals of a system at the times `time` (n,) [s].

    `given` contains the recorded values of unconnected inputs, and `measured` the measured outputs.
    Both map `part.port` to an array (n, size). Missing measurements are NaN.
    """

    time: Array
    given: Mapping[str, Array]
    measured: Mapping[str, Array]

    def steps(self, dt: float) -> Array:
        """Return the numbers (n - 1,) of communication steps dt [s] between successive samples.

        Raises:
            ValueError: The time between two samples is not a multiple of dt.
        """
        steps = np.diff(self.time) / dt
        whole = np.rint(steps)
        wrong = np.flatnonzero((np.abs(steps - whole) > 1e-4) | (whole < 1))
        if len(wrong):
            k = int(wrong[0])
            raise ValueError(
                f"the time between two rows of the data must be a multiple of dt = {dt:g} s; t = "
                f"{self.time[k]:.9g} s is followed by {self.time[k + 1]:.9g} s"
            )
        return whole.astype(int)


def read_recording(wiring: Wiring, data: Data) -> Recording:
    """Read the recorded data of a system.

    The column `time` contains the times [s]. All other columns contain outputs or unconnected
    inputs, each as a whole port (n, *shape) or as one element (n,).

    Args:
        wiring: Wiring of the system.
        data: A `Result`, a table of columns by name, or the path of a .csv file.

    Raises:
        KeyError: A name is neither an output nor an unconnected input.
        ValueError: A column has a wrong shape, the times do not increase, an input is not finite,
            or the data contain no output.
    """
    columns = _columns(data)
    if "time" not in columns:
        raise KeyError(f"the data need a column 'time'; {suggestion('time', columns)}")
    time = real_array(columns.pop("time"), "the column 'time' of the data")
    if time.ndim != 1 or len(time) < 2:
        raise ValueError(
            "the column 'time' of the data needs at least two numbers, not an array of shape "
            f"{time.shape}"
        )
    if not np.all(np.diff(time) > 0):
        k = int(np.argmin(np.diff(time) > 0))
        raise ValueError(
            f"the times of the data must increase, but {time[k]} s is followed by {time[k + 1]} s"
        )
    outputs = {port.name: port for port in wiring.outputs}
    opened = (replace(port, name=f"{part}.{port.name}") for part, port in wiring.open_inputs)
    inputs = {port.name: port for port in opened}
    measured: dict[str, Array] = {}
    given: dict[str, Array] = {}
    for name, values in columns.items():
        arrays, ports = (given, inputs) if _port_name_of(name, inputs) else (measured, outputs)
        _insert_elements(
            arrays, ports, name, real_array(values, f"'{name}' of the data"), len(time)
        )
    if not measured:
        raise ValueError(
            "the data need at least one column whose name is the name of an output; "
            f"{suggestion('', outputs)}"
        )
    for name, table in given.items():
        if not np.all(np.isfinite(table)):
            raise ValueError(f"the input {name} must be finite in every row and every element")
    return Recording(time, given, measured)


def _columns(data: Data) -> dict[str, Any]:
    if isinstance(data, Result):
        return {"time": data.time, **{port.name: data[port.name] for port in data.ports}}
    if isinstance(data, str | Path):
        return _read(Path(data))
    if not callable(getattr(data, "items", None)):
        raise TypeError(
            "the data of a fit must be a Result, a table of columns by name or the path of a .csv "
            f"file, not a {type(data).__name__}"
        )
    return {str(name): values for name, values in data.items()}


def _read(path: Path) -> dict[str, Array]:
    """Read the columns of a .csv file with names in the first line; empty cells become NaN."""
    check_regular_file(path)
    with path.open(newline="") as file:
        rows = [row for row in csv.reader(file) if row and not row[0].startswith("#")]
    head = [name.strip() for name in rows[0]] if rows else []
    try:
        table = [[float(cell) if cell.strip() else np.nan for cell in row] for row in rows[1:]]
        return dict(zip(head, np.array(table).reshape(-1, len(head)).T, strict=True))
    except ValueError:
        raise ValueError(
            f"'{path}' needs a header line with names, and rows with one number for each name"
        ) from None


def _port_name_of(name: str, ports: Mapping[str, Port]) -> str | None:
    """Return the name of the port that is called `name` or has an element `name`, or None."""
    if name in ports:
        return name
    return next((key for key, port in ports.items() if name in port.element_names), None)


def _insert_elements(
    arrays: dict[str, Array], ports: Mapping[str, Port], name: str, values: Array, n: int
) -> None:
    """Insert the data column `name`, a whole port or one element, into the arrays by port name."""
    key = _port_name_of(name, ports)
    if key is None:
        raise KeyError(
            f"column '{name}' of the data is neither an output nor an unconnected input; "
            f"{suggestion(name, ports)}"
        )
    port = ports[key]
    place = None if name == key else port.element_names.index(name)
    shape = (n, *port.shape) if place is None else (n,)
    if values.shape != shape:
        raise ValueError(f"'{name}' of the data has the shape {values.shape}; expected {shape}")
    table = arrays.setdefault(key, np.full((n, port.size), np.nan))
    if place is None:
        table[:] = values.reshape(n, port.size)
    else:
        table[:, place] = values


_RANK = 1e-7  # rank tolerance with exact derivatives, relative to the largest singular value
_ROUGH_RANK = 1e-5  # rank tolerance with difference quotients
_SHARE = 1e-6  # smallest component of a null space vector that counts as nonzero


class Accuracy(NamedTuple):
    """Standard deviations (n,), confidence intervals (n, 2), correlations (n, n) of estimates."""

    deviations: Array
    intervals: Array
    correlation: Array


def estimate_accuracy(z: Array, J: Array, residuals: Array, level: float, scaled: bool) -> Accuracy:
    """Return the standard deviations, confidence intervals and correlations of estimates z (n,).

        C = s^2 (J^T J)^-1,    z +- t(level, m - n) sqrt(diag C)

    C is the covariance matrix. The caller divides the residuals (m,) and their Jacobian J (m, n) by
    the standard deviations of the measurement noise. If `scaled` is True, s^2 is the residual sum
    of squares divided by m - n, else 1. t is the two-sided quantile of Student's t-distribution for
    the confidence level `level`, with m - n degrees of freedom.

    References:
        Seber and Wild, Nonlinear Regression, 5.1.
    """
    from scipy.stats import t

    m, n = J.shape
    freedoms = max(m - n, 1)
    scale = np.linalg.norm(J, axis=0)
    inverse = np.linalg.pinv(J / scale)
    C = inverse @ inverse.T / np.outer(scale, scale)
    deviations = np.sqrt(np.diag(C))
    correlation = C / np.outer(deviations, deviations)
    if scaled:
        deviations = deviations * np.sqrt(residuals @ residuals / freedoms)
    half = t.ppf((1 + level) / 2, freedoms) * deviations
    return Accuracy(deviations, np.stack([z - half, z + half], axis=1), correlation)


def check_identifiable(names: Sequence[str], J: Array, exact: bool) -> None:
    """Raise ValueError if some parameters are not identifiable from the data.

    `J` (m, n) is the Jacobian of the outputs with respect to the parameters `names` (n,). `exact`
    is False if J consists of difference quotients. The message lists parameters without effect on
    the outputs, and groups of parameters that are identifiable only in combination.
    """
    scale = np.linalg.norm(J, axis=0)
    unseen = scale <= 1e-12 * np.max(scale, initial=0.0)
    texts = [f"{name} does not affect the measured outputs" for name in np.array(names)[unseen]]
    seen = np.flatnonzero(~unseen)
    if len(seen):
        _, sizes, V = np.linalg.svd(J[:, seen] / scale[seen], full_matrices=True)
        sizes = np.concatenate([sizes, np.zeros(len(seen) - len(sizes))])
        free = V[sizes <= (_RANK if exact else _ROUGH_RANK) * sizes[0]]
        for group, missing in _groups(free):
            which = ", ".join(names[seen[k]] for k in group)
            count = len(group) - missing
            texts.append(f"the number of identifiable combinations of {which} is only {count}")
    if texts:
        raise ValueError(
            f"the data do not determine all parameters: {'; '.join(texts)}. Fix some of these "
            "parameters at known values, or record outputs that distinguish them"
        )


def _groups(null_space: Array) -> list[tuple[list[int], int]]:
    """Return the groups of parameters that are identifiable only in combination.

    Each group is a pair: the parameter indices, and the dimension of the null space within the
    group. The rows of `null_space` are an orthonormal basis of the null space of the Jacobian.
    """
    shares = null_space.T @ null_space  # projection onto the null space
    left = [k for k in range(null_space.shape[1]) if shares[k, k] > _SHARE]
    groups = []
    while left:
        group = [left.pop(0)]
        for k in group:
            near = [j for j in left if abs(shares[k, j]) > _SHARE]
            group += near
            left = [j for j in left if j not in near]
        groups.append((sorted(group), round(float(sum(shares[k, k] for k in group)))))
    return groups


_LOST = 1e3  # residual of each measurement of a failed run, in standard deviations


@dataclass(eq=False)
class Replay:
    """Simulated outputs at the times of a recording as a function of the parameters.

    The measurements form one vector (m,) of all values that are not NaN, row by row.

    Attributes:
        wiring: Wiring of the system.
        rows: Recording with n samples; each sample is one row.
        numbers: Port elements of the parameters to estimate.
        run: Prepared system.
        variational: Prepared system with exact derivatives, or None for difference quotients.
        dt: Communication step [s].
        fixed: Pairs (port element, value) of parameters that are not estimated.
        runs: Number of simulated runs.
    """

    wiring: Wiring
    rows: Recording
    numbers: list[StartElement]
    run: Run
    variational: Run | None
    dt: float
    fixed: Sequence[tuple[StartElement, float]] = ()
    runs: int = field(default=0, init=False)
    _ran: bool = field(default=False, init=False)

    @property
    def exact(self) -> bool:
        """True if the derivatives are exact, False if they are difference quotients."""
        return self.variational is not None

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the measured columns."""
        ports = {port.name: port for port in self.wiring.outputs}
        return tuple(name for key in self.rows.measured for name in ports[key].element_names)

    @cached_property
    def _all(self) -> Array:
        """Measurements (samples, columns), with NaN for missing measurements."""
        return np.hstack(list(self.rows.measured.values()))

    @cached_property
    def _is_measured(self) -> Array:
        return np.isfinite(self._all)

    @cached_property
    def column(self) -> Array:
        """Column index of each measurement, shape (m,)."""
        return np.broadcast_to(np.arange(len(self.columns)), self._all.shape)[self._is_measured]

    @cached_property
    def spread(self) -> Array:
        """Standard deviation of each measured column; 1 for a constant or empty column."""
        measured = [self._all[self._is_measured[:, k], k] for k in range(len(self.columns))]
        spread = np.array([np.std(numbers) if numbers.size else 0.0 for numbers in measured])
        return np.where(spread > 0, spread, 1.0)

    @cached_property
    def bounds(self) -> tuple[Array, Array]:
        """Lower and upper bounds (n,) of the parameters, as declared by their ports."""
        ends = []
        for one in self.numbers:
            port = self.wiring.parts[one.part].start_ports[one.port]
            ends.append((np.ravel(port.lowest)[one.place], np.ravel(port.max)[one.place]))
        low, high = np.array(ends).T
        return low, high

    def noise(self, residuals: Array, n: int) -> Array:
        """Return the standard deviation of the measurement noise of each column.

        The noise of a column is estimated from the residuals of the column. `residuals` has
        the shape (m,), and `n` is the number of estimated parameters.
        """
        counts = np.bincount(self.column, minlength=len(self.columns))
        squares = np.bincount(self.column, residuals**2, minlength=len(self.columns))
        freedoms = np.maximum(counts - n * counts / max(1, len(residuals)), 1.0)
        return np.maximum(np.sqrt(squares / freedoms), 1e-12 * self.spread)

    def table(self, residuals: Array) -> Array:
        """Return the residuals (m,) as a table (samples, columns), NaN for missing measurements."""
        table = np.full(self._all.shape, np.nan)
        table[self._is_measured] = residuals
        return table

    def residuals(self, z: Array) -> Array:
        """Return the residuals (m,) = measurements - outputs for the parameters z (n,).

        If a run fails, each residual is -1000 times the standard deviation of its column, so that
        the optimizer rejects z. If the first run fails, the method raises the exception of the run.
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
        r: Array = (self._all - outputs)[self._is_measured]
        return r

    def jacobian(self, z: Array) -> Array:
        """Return the Jacobian (m, n) of the measured outputs with respect to the parameters z."""
        assert self.variational is not None
        names = [f"{name}{SUFFIX}" for name in self.rows.measured]
        known = [self._depends_on_parameters(name) for name in names]
        self.runs += 1
        measured = [name for name, one in zip(names, known, strict=True) if one]
        changes = iter(self._outputs(self.variational, z, measured, split=True))
        n, ports = len(self.numbers), {port.name: port for port in self.wiring.outputs}
        tables = [
            next(changes).reshape(len(self.rows.time), -1, n)
            if one
            else np.zeros((len(self.rows.time), ports[name.removesuffix(SUFFIX)].size, n))
            for name, one in zip(names, known, strict=True)
        ]
        J: Array = np.concatenate(tables, axis=1)[self._is_measured]
        return J

    def _depends_on_parameters(self, name: str) -> bool:
        """Return True if the output `name` depends on one of the estimated parameters."""
        assert self.variational is not None
        try:
            self.variational[name]
        except KeyError:
            return False
        return True

    def _outputs(self, run: Run, z: Array, names: list[str], split: bool = False) -> Any:
        """Simulate with the parameters z; return the outputs `names` at all samples.

        The result is one matrix (samples, columns). If `split` is True, the result is a list with
        one matrix for each output.
        """
        numbers = [*zip(self.numbers, z, strict=True), *self.fixed]
        pairs = [(self._name(one), value) for one, value in numbers]
        first = [
            (name, table[0].reshape(self._shapes[name])) for name, table in self.rows.given.items()
        ]
        run.reset(self.wiring.start_by_port([*first, *pairs]))
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

    def _name(self, number: StartElement) -> str:
        port = self.wiring.parts[number.part].start_ports[number.port]
        return f"{number.part}.{port.element_names[number.place]}"


def replay_of(
    system: System,
    rows: Recording,
    numbers: list[StartElement],
    dt: float,
    exact: bool | None,
    options: Mapping[str, Any],
    fixed: Sequence[tuple[StartElement, float]] = (),
) -> Replay:
    """Prepare the simulation of a system at the times of a recording.

    `rows`, `numbers` and `fixed` are the attributes of `Replay`. The derivatives are exact if
    `exact` is True, or if `exact` is None and exact derivatives are available. Raises ValueError if
    `exact` is True and exact derivatives are not available.
    """
    wiring, variational = system.wiring(), None
    rows.steps(dt)  # raises ValueError if the times are not multiples of dt apart
    if exact is not False:
        try:
            other = add_sensitivities(wiring, numbers, rows.measured)
            variational = prepare(other, dt, **options)
        except ValueError:
            if exact:
                raise
    run = prepare(system, dt, **options)
    return Replay(wiring, rows, numbers, run, variational, dt, fixed)


_REWEIGHTED = 3  # maximum number of iterations of the noise estimation


@dataclass(frozen=True, eq=False)
class Fit:
    """Result of a parameter estimation.

    Attributes:
        values: Estimates by name.
        deviations: Standard deviations of the estimates by name.
        intervals: Confidence intervals (low, high) by name.
        level: Confidence level of the intervals.
        noise: Standard deviation of the measurement noise by column, given or estimated.
        residuals: Measurements minus simulated outputs (samples, columns).
        correlation: Correlation matrix (n, n) of the estimates, in the order of `values`.
        exact: True if the derivatives are exact.
        runs: Number of runs of the system.
        at_bound: Names of the parameters whose estimates are at a bound.
        settings: Parameter values by name; a run with these values reproduces the fit. For a fit of
            base parameters, the parameters that were not estimated have their initial values.
    """

    values: Mapping[str, float]
    deviations: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]]
    level: float
    noise: Mapping[str, float]
    residuals: Array
    correlation: Array
    exact: bool
    runs: int
    at_bound: tuple[str, ...] = ()
    settings: Mapping[str, float] = field(default_factory=dict)

    def __getitem__(self, name: str) -> float:
        """Return the estimate of a parameter."""
        if name not in self.values:
            raise KeyError(f"the fit has no parameter '{name}'; {suggestion(name, self.values)}")
        return self.values[name]

    def __repr__(self) -> str:
        width = max(map(len, self.values))
        lines = [
            f"  {name:{width}}  {value:12.6g}  from {low:.6g} to {high:.6g}"
            + (" (at its bound)" if name in self.at_bound else "")
            for (name, value), (low, high) in zip(
                self.values.items(), self.intervals.values(), strict=True
            )
        ]
        how = "exact derivatives" if self.exact else "difference quotients"
        return "\n".join((f"<Fit: {self.level:.0%} intervals, {how}, {self.runs} runs>", *lines))


@explain_calls()
def fit(
    system: System,
    parameters: Iterable[str] | Mapping[str, ArrayLike],
    data: Data,
    *,
    dt: float | None = None,
    noise: Mapping[str, ArrayLike] | None = None,
    level: float = 0.95,
    exact: bool | None = None,
    base: bool = False,
    **options: Any,
) -> Fit:
    """Estimate parameters of a system from recorded signals by least squares.

        fit(system, ["robot.payload_mass", "robot.elbow_viscous"], "motion.csv")
        min over z of the sum of ((measured - y(z)) / noise)^2

    y(z) are the simulated outputs for the parameters z. The estimates stay within the bounds of
    their ports. The confidence intervals assume white measurement noise and outputs that are linear
    in the parameters near the estimates.

    Args:
        system: System to run.
        parameters: Names of the estimated parameters: parameters, start values of states, and
            unconnected inputs, as whole ports or elements. The initial estimates are the start
            values in the system, or the values of a mapping from names to values.
        data: A `Result`, a table of columns or a .csv file (`read_recording`). The fit compares the
            outputs and ignores NaN. An unconnected input holds each sample until the next sample.
        dt: Communication step [s]. Default: the shortest time between two samples.
        noise: Standard deviations of the measurements by name. By default, the fit estimates them
            from the residuals of each column.
        level: Confidence level of the intervals.
        exact: True for exact derivatives, False for difference quotients. The default is True if
            all parts that depend on the parameters are traceable blocks, otherwise False.
        base: True to estimate the identifiable combinations of the parameters (base parameters).
            The fit then keeps some parameters at their initial values. The combinations are linear
            in the parameters, which is exact for the inertial parameters of a plant.
        **options: Options of `prepare`.

    Returns:
        The estimates with their standard deviations and confidence intervals.

    Raises:
        ValueError: The data do not match the system. Some parameters are not identifiable from the
            data; the message lists parameters with the same effect. `noise` is None, and the data
            do not contain more values than parameters. `base` is True, and exact derivatives are
            not available, or no parameter has an effect.
        KeyError: A name in `parameters`, `data` or `noise` is unknown.
        ImportError: SciPy is not installed.

    The function also raises the exceptions of the first run.

    References:
        Ljung, System Identification, 7.
    """
    check_system(system, "a fit")
    check_level(level)
    if dt is not None and not number_of("dt", dt) > 0:
        raise ValueError(f"the communication step dt of a fit must be positive, not {dt} s")
    if exact is not None and not isinstance(exact, bool | np.bool_):
        raise TypeError(f"exact must be True, False or None, not {exact!r}")
    wiring = system.wiring()
    rows = read_recording(wiring, data)
    names, numbers, first = _numbers(wiring, parameters)
    dt = float(np.min(np.diff(rows.time))) if dt is None else dt
    options = {"t_start": float(rows.time[0])} | options
    replay = replay_of(system, rows, numbers, dt, exact, options)
    _given_noise(replay, noise)
    combinations = None
    if base:
        combinations = _base_combinations(replay, names, first)
        kept = [numbers[k] for k in combinations.independent]
        fixed = [one for one in zip(numbers, first, strict=True) if one[0] not in kept]
        all_names, all_first = names, first
        names = [names[k] for k in combinations.independent]
        first = first[combinations.independent]
        replay = replay_of(system, rows, kept, dt, exact, options, fixed)
    else:
        _check_near(replay, names, first)
    z, J, r, sigma = _weighted_estimate(replay, first, noise)
    check_identifiable(names, J, exact=replay.exact)
    if noise is None:
        _check_enough_values(names, J)
    found = estimate_accuracy(z, J, r / sigma[replay.column], level, scaled=noise is None)
    settings = dict(zip(names, z.tolist(), strict=True))
    at_bound = _names_at_bound(replay, names, z)
    if combinations is not None:
        settings = dict(zip(all_names, all_first.tolist(), strict=True)) | settings
        names = list(combinations.names)
        shift = combinations.matrix @ np.array(list(settings.values())) - z
        z = z + shift
        found = found._replace(intervals=found.intervals + shift[:, None])
    return Fit(
        values=dict(zip(names, z.tolist(), strict=True)),
        deviations=dict(zip(names, found.deviations.tolist(), strict=True)),
        intervals=dict(zip(names, map(tuple, found.intervals.tolist()), strict=True)),
        level=level,
        noise={replay.columns[k]: float(sigma[k]) for k in np.unique(replay.column)},
        residuals=replay.table(r),
        correlation=found.correlation,
        exact=replay.exact,
        runs=replay.runs,
        at_bound=at_bound,
        settings=settings,
    )


def _base_combinations(replay: Replay, names: list[str], first: Array) -> BaseParameters:
    """Return the identifiable combinations of parameters near the initial estimates.

    The function evaluates the Jacobian at parameter values near `first`. Exactly at the initial
    estimates, columns of the Jacobian may be linearly dependent by coincidence.
    """
    if not replay.exact:
        raise ValueError(
            "the fit of base parameters needs exact derivatives: all parts that depend on the "
            "parameters must be traceable blocks"
        )
    J = replay.jacobian(_values_near_start(replay, first)) / replay.spread[replay.column][:, None]
    chosen, matrix = independent_columns(J, range(len(names)), _RANK)
    if not chosen:
        raise ValueError(f"no parameter affects the measured outputs: {', '.join(names)}")
    return BaseParameters(tuple(names), np.array(chosen), matrix, ("",) * len(chosen))


def _values_near_start(replay: Replay, first: Array) -> Array:
    """Return parameter values 0.5 % to 1 % away from the initial estimates `first`."""
    aside = np.random.default_rng(0).uniform(0.005, 0.01, len(first))
    moved = first + aside * np.where(first == 0.0, 1.0, np.abs(first))
    return np.asarray(np.clip(moved, *replay.bounds))


def _names_at_bound(replay: Replay, names: list[str], z: Array) -> tuple[str, ...]:
    """Return the names of the parameters whose estimates, in z (n,), are at a bound."""
    low, high = replay.bounds
    return tuple(n for n, v, a, b in zip(names, z, low, high, strict=True) if v in (a, b))


def _weighted_estimate(
    replay: Replay, first: Array, noise: Mapping[str, ArrayLike] | None
) -> tuple[Array, Array, Array, Array]:
    """Estimate the parameters by weighted least squares, and the noise of each column.

    The weights are the reciprocal standard deviations of the measurement noise. If `noise` is None,
    the function estimates the standard deviations iteratively from the residuals. It returns the
    estimates, the Jacobian, the residuals, and the standard deviations of the noise.
    """
    sigma = _given_noise(replay, noise)
    z, J, r = _least_squares(replay, first, sigma if noise is not None else replay.spread)
    for _ in range(0 if noise is not None else _REWEIGHTED):
        last, sigma = sigma, replay.noise(r, len(first))
        z, J, r = _least_squares(replay, z, sigma)
        if np.all(np.abs(sigma - last) <= 1e-3 * sigma):
            break
    return z, J, r, sigma


def _check_enough_values(names: list[str], J: Array) -> None:
    """Raise ValueError if the data are not sufficient to estimate the noise.

    The number of measured values that depend on the parameters must exceed the number of
    parameters. J (m, n) is the Jacobian of the outputs.
    """
    dependent = np.count_nonzero(np.any(J != 0.0, axis=1))
    if dependent <= len(names):
        raise ValueError(
            f"only {dependent} measured values depend on the {len(names)} parameters to "
            "estimate, which is too few to estimate the noise; add rows to the data, or specify "
            "the noise"
        )


def _numbers(
    wiring: Any, parameters: Iterable[str] | Mapping[str, ArrayLike]
) -> tuple[list[str], list[StartElement], Array]:
    """Return the names, the port elements and the initial estimates (n,) of the parameters."""
    given: Mapping[str, Any] = (
        parameters
        if isinstance(parameters, Mapping)
        else dict.fromkeys(name_list(parameters, "the parameters of a fit"))
    )
    if isinstance(parameters, str) or not given:
        raise ValueError(f"a fit needs the names of the parameters to estimate, not {parameters!r}")
    names, numbers, first = [], [], []
    for name, value in given.items():
        part, selected = wiring.locate_elements(name)
        port = selected.port
        start = np.zeros(port.size) if port.start is None else np.ravel(port.start)
        values = start[list(selected.places)]
        if value is not None:
            values = np.ravel(real_array(value, f"the initial estimate of {name}"))
        if len(values) not in (1, len(selected.places)):
            raise ValueError(
                f"the number of initial estimates is {len(values)}, but {name} has "
                f"{len(selected.places)} elements"
            )
        names += [f"{part}.{port.element_names[k]}" for k in selected.places]
        numbers += [StartElement(part, port.name, k) for k in selected.places]
        first += np.broadcast_to(values, len(selected.places)).tolist()
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"parameter {twice} is listed twice; list each parameter once")
    return names, numbers, np.array(first, dtype=float)


def _check_near(replay: Replay, names: list[str], first: Array) -> None:
    """Raise ValueError for parameters that are not identifiable near their initial values `first`.

    Some derivatives may be zero exactly at the initial estimates. The check therefore uses
    parameter values that differ from the initial estimates by 0.5 % to 1 %.
    """
    if not replay.exact:
        return
    try:
        J = replay.jacobian(_values_near_start(replay, first))
    except (ArithmeticError, RuntimeError):  # the first run of the fit raises such an error too
        return
    check_identifiable(names, J / replay.spread[replay.column][:, None], exact=True)


def _given_noise(replay: Replay, noise: Mapping[str, ArrayLike] | None) -> Array:
    """Return the given standard deviation of the noise of each measured column.

    If `noise` is None, the noise is unknown, and the function returns infinite values.

    Raises ValueError if `noise` is invalid, or does not contain all measured outputs.
    """
    sigma = np.full(len(replay.columns), np.inf)
    if not isinstance(noise, Mapping | None):
        raise TypeError(f"the noise of a fit must be a mapping from names to values, not {noise!r}")
    for name, value in (noise or {}).items():
        places = [
            k for k, one in enumerate(replay.columns) if one == name or one.startswith(f"{name}[")
        ]
        deviation = np.ravel(real_array(value, f"the noise of '{name}'"))
        if not places:
            raise ValueError(
                f"'{name}' in `noise` is not a measured output; {suggestion(name, replay.columns)}"
            )
        if not np.all(deviation > 0):
            raise ValueError(
                f"the noise standard deviation of '{name}' must be positive, not {value!r}"
            )
        if len(deviation) not in (1, len(places)):
            raise ValueError(
                f"the noise of '{name}' has {len(deviation)} elements; expected 1 or {len(places)}"
            )
        sigma[places] = deviation
    if noise is not None and np.any(np.isinf(sigma)):
        missing = replay.columns[int(np.argmax(np.isinf(sigma)))]
        raise ValueError(
            f"the noise of {missing} is missing; specify the noise of all measured outputs, or "
            "of none"
        )
    return sigma


def _least_squares(replay: Replay, z: Array, sigma: Array) -> tuple[Array, Array, Array]:
    """Minimize the sum of ((measured - y(z)) / sigma)^2, starting from the initial estimate z.

    Returns the estimate (n,), the Jacobian (m, n) divided by sigma, and the residuals (m,).
    """
    least_squares = module_of("scipy.optimize", "a fit").least_squares
    weight = 1.0 / sigma[replay.column]
    low, high = replay.bounds
    found = least_squares(
        lambda z: -weight * replay.residuals(z),
        np.clip(z, *_inner_bounds(low, high)),
        jac=(lambda z: weight[:, None] * replay.jacobian(z)) if replay.exact else "3-point",
        bounds=(low, high),
        x_scale="jac",
        ftol=1e-10,
        xtol=1e-10,
        gtol=1e-10,
        max_nfev=100,
    )
    return found.x, found.jac, replay.residuals(found.x)


def _inner_bounds(low: Array, high: Array) -> tuple[Array, Array]:
    """Return bounds slightly inside [low, high] for the initial point of the optimizer."""
    margin = 1e-9 * np.where(np.isfinite(high - low), high - low, 1.0)
    return low + margin, high - margin
