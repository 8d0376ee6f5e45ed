"""Parameters of a system from recorded motion, by least squares, with what the data say of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.record import offer
from rigidblocks.extras import module_of
from rigidblocks.study.estimate import estimated, identifiable
from rigidblocks.study.recording import Data, recording
from rigidblocks.study.replay import Replay, replay_of
from rigidblocks.system.sensitivity import Number
from rigidblocks.system.starting import numbers_of
from rigidblocks.system.system import System

_REWEIGHTED = 3  # times at most that the noise is estimated anew


@dataclass(frozen=True, eq=False)
class Fit:
    """What a fit found of each number.

    `values` and their standard `deviations` are by name, as are the ends of the `intervals` that
    hold the true one with the probability `level`. `noise` has the standard deviation of what was
    measured by column, given or estimated, and `residuals` (rows, columns) what was measured less
    what the system does. `correlation` (n, n) is that of the numbers, in their order; `exact` says
    whether the derivatives were, and `runs` how often the system was run.
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

    def __getitem__(self, name: str) -> float:
        """The value of a number."""
        if name not in self.values:
            raise KeyError(f"the fit has no '{name}'; {offer(name, self.values)}")
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


def fit(
    system: System,
    parameters: Iterable[str] | Mapping[str, ArrayLike],
    data: Data,
    *,
    dt: float | None = None,
    noise: Mapping[str, ArrayLike] | None = None,
    level: float = 0.95,
    exact: bool | None = None,
    **options: Any,
) -> Fit:
    """The numbers with which a system does what was recorded, by least squares (Ljung, System
    Identification, 7).

        fit(system, ["robot.payload_mass", "robot.elbow_viscous"], "motion.csv")
        min over z of the sum of ((measured - y(z)) / noise)^2

    `parameters` names what is to be found: parameters, states at the start and inputs without a
    connection, whole ports or elements, from where they start in the system or, in a mapping, from
    the values there. They stay within the bounds of their ports. `data` is a `Result`, a table of
    columns or a .csv file (`recording`): outputs are compared, NaN is left out, and open inputs
    are set in each row until the next one. `dt` [s] is the communication step, the shortest time
    between two rows unless given; `options` are those of `prepare`.

    `noise` has the standard deviations of what was measured by name; without it they are estimated
    from what is left, for each column. Intervals are those of a system that is linear near the
    result, with white noise in what was measured.

    The derivatives are exact where all parts that depend on the numbers are blocks that can be
    traced, else difference quotients; `exact` asks for one of them. Raises ValueError for numbers
    that the data do not determine, with those that do the same, and for data without noise given
    that are no more than what is to be found; KeyError and ValueError for names
    and data that do not fit; and what the first run raises. Needs SciPy.
    """
    if not 0 < level < 1:
        raise ValueError(f"the level of the intervals must be between 0 and 1, not {level}")
    wiring = system.wiring()
    rows = recording(wiring, data)
    names, numbers, first = _numbers(wiring, parameters)
    dt = float(np.min(np.diff(rows.time))) if dt is None else dt
    options = {"t_start": float(rows.time[0])} | options
    replay = replay_of(system, rows, numbers, dt, exact, options)
    _check_near(replay, names, first)
    z, J, r, sigma = _weighted(replay, first, noise)
    identifiable(names, J, exact=replay.exact)
    if noise is None:
        _check_rest(names, J)
    found = estimated(z, J, r / sigma[replay.column], level, scaled=noise is None)
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
        at_bound=_at_bound(replay, names, z),
    )


def _at_bound(replay: Replay, names: list[str], z: Array) -> tuple[str, ...]:
    """Which of the numbers that were found are at a bound."""
    low, high = replay.bounds
    return tuple(n for n, v, a, b in zip(names, z, low, high, strict=True) if v in (a, b))


def _weighted(
    replay: Replay, first: Array, noise: Mapping[str, ArrayLike] | None
) -> tuple[Array, Array, Array, Array]:
    """The solution of the least squares with its derivatives and what is left, and the noise that
    they are weighted with: the given one, or that of what is left.
    """
    sigma = _given_noise(replay, noise)
    z, J, r = _least_squares(replay, first, sigma if noise is not None else replay.spread)
    for _ in range(0 if noise is not None else _REWEIGHTED):
        last, sigma = sigma, replay.noise(r, len(first))
        z, J, r = _least_squares(replay, z, sigma)
        if np.all(np.abs(sigma - last) <= 1e-3 * sigma):
            break
    return z, J, r, sigma


def _check_rest(names: list[str], J: Array) -> None:
    """Raises ValueError where nothing is left that would tell the noise."""
    told = np.count_nonzero(np.any(J != 0.0, axis=1))
    if told <= len(names):
        raise ValueError(
            f"{told} measured numbers depend on the {len(names)} that are to be found, so nothing "
            "is left that tells how noisy they are: give more rows, or their noise"
        )


def _numbers(
    wiring: Any, parameters: Iterable[str] | Mapping[str, ArrayLike]
) -> tuple[list[str], list[Number], Array]:
    """The numbers that are to be found, by name, where they are, and where to begin."""
    given = parameters if isinstance(parameters, Mapping) else dict.fromkeys(parameters)
    if isinstance(parameters, str) or not given:
        raise ValueError(f"a fit needs the names of what is to be found, not {parameters!r}")
    names, numbers, first = [], [], []
    for name, value in given.items():
        part, chosen = numbers_of(wiring, name)
        port = chosen.port
        start = np.zeros(port.size) if port.start is None else np.ravel(port.start)
        values = start[list(chosen.places)] if value is None else np.ravel(value)
        if len(values) not in (1, len(chosen.places)):
            raise ValueError(f"{name} has {len(chosen.places)} numbers, and {len(values)} to begin")
        names += [f"{part}.{port.element_names[k]}" for k in chosen.places]
        numbers += [Number(part, port.name, k) for k in chosen.places]
        first += np.broadcast_to(values, len(chosen.places)).tolist()
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice} is to be found twice")
    return names, numbers, np.array(first, dtype=float)


def _check_near(replay: Replay, names: list[str], first: Array) -> None:
    """Raises ValueError for numbers that are not determined near where the fit begins: a little
    beside it, where nothing is zero by chance.
    """
    if not replay.exact:
        return
    aside = np.random.default_rng(0).uniform(0.005, 0.01, len(first))
    near = np.clip(first + aside * np.where(first == 0.0, 1.0, np.abs(first)), *replay.bounds)
    try:
        J = replay.jacobian(near)
    except (ArithmeticError, RuntimeError):  # as the first run will say, or it will not
        return
    identifiable(names, J / replay.spread[replay.column][:, None], exact=True)


def _given_noise(replay: Replay, noise: Mapping[str, ArrayLike] | None) -> Array:
    """The noise of each column; infinite where it is not given."""
    sigma = np.full(len(replay.columns), np.inf)
    for name, value in (noise or {}).items():
        places = [
            k for k, one in enumerate(replay.columns) if one == name or one.startswith(f"{name}[")
        ]
        if not places or not np.all(np.asarray(value, dtype=float) > 0):
            raise ValueError(
                f"the noise of '{name}' must be positive, and of what was measured, not {value!r}; "
                f"{offer(name, replay.columns)}"
            )
        sigma[places] = np.ravel(value)
    if noise is not None and np.any(np.isinf(sigma)):
        missing = replay.columns[int(np.argmax(np.isinf(sigma)))]
        raise ValueError(f"the noise of {missing} is not given; give that of all, or of none")
    return sigma


def _least_squares(replay: Replay, z: Array, sigma: Array) -> tuple[Array, Array, Array]:
    """The numbers, the weighted Jacobian and the residuals where the weighted sum is least."""
    least_squares = module_of("sparse", "scipy.optimize", "a fit").least_squares
    weight = 1.0 / sigma[replay.column]
    low, high = replay.bounds
    found = least_squares(
        lambda z: -weight * replay.residuals(z),
        np.clip(z, *_inside(low, high)),
        jac=(lambda z: weight[:, None] * replay.jacobian(z)) if replay.exact else "3-point",
        bounds=(low, high),
        x_scale="jac",
        ftol=1e-10,
        xtol=1e-10,
        gtol=1e-10,
        max_nfev=100,
    )
    return found.x, found.jac, replay.residuals(found.x)


def _inside(low: Array, high: Array) -> tuple[Array, Array]:
    """The bounds, a little within."""
    margin = 1e-9 * np.where(np.isfinite(high - low), high - low, 1.0)
    return low + margin, high - margin
