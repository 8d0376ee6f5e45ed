"""What is varied from run to run."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra.spatial import Array

Range = tuple[ArrayLike, ArrayLike]  # the smallest and the largest values


@dataclass(frozen=True, eq=False)
class Design:
    """Values of what is varied, for each run: start values of inputs, states and parameters by
    `part.port`, or `part.port[1]` for one element.
    """

    names: tuple[str, ...]
    rows: Sequence[tuple[Array, ...]]

    def __post_init__(self) -> None:
        if not self.names or not self.rows:
            raise ValueError("a design needs something to vary, and values for it")
        if len(set(self.names)) < len(self.names):
            raise ValueError(f"a design varies each name once, not {', '.join(self.names)}")

    def __len__(self) -> int:
        return len(self.rows)

    def columns(self) -> tuple[str, ...]:
        """The name of each varied number: `pd.kp[1]`, `pd.kp[2]` of one that is an array."""
        return tuple(
            f"{name}[{','.join(str(k + 1) for k in index)}]" if value.shape else name
            for name, value in zip(self.names, self.rows[0], strict=True)
            for index in np.ndindex(*value.shape)
        )

    def numbers(self, k: int) -> list[float]:
        """The varied numbers of the k-th run, in the order of `columns`."""
        return [number for value in self.rows[k] for number in np.ravel(value).tolist()]


def grid(values: Mapping[str, Iterable[ArrayLike]]) -> Design:
    """Every combination of these values; the last name varies fastest.

    Raises ValueError for values of one name that have different shapes.
    """
    lists = {name: [np.asarray(one, float) for one in given] for name, given in values.items()}
    for name, given in lists.items():
        if len({one.shape for one in given}) > 1:
            raise ValueError(f"the values of {name} must be of one shape")
    return Design(tuple(lists), list(product(*lists.values())))


def latin_hypercube(ranges: Mapping[str, Range], n: int, seed: int = 0) -> Design:
    """n runs, each of whose numbers is alone in its n-th of its range (McKay and others 1979).

    Needs SciPy.
    """
    return _sampled("LatinHypercube", ranges, n, seed)


def sobol(ranges: Mapping[str, Range], n: int, seed: int = 0) -> Design:
    """n runs spread evenly over the ranges (Sobol 1967, scrambled); best with n a power of 2.

    Needs SciPy.
    """
    return _sampled("Sobol", ranges, n, seed)


def uniform(ranges: Mapping[str, Range], n: int, seed: int = 0) -> Design:
    """n runs with independent random numbers, for Monte Carlo."""
    rng = np.random.default_rng(seed)
    return _within(ranges, rng.random((n, _size(ranges))))


def _sampled(sampler: str, ranges: Mapping[str, Range], n: int, seed: int) -> Design:
    try:
        from scipy.stats import qmc
    except ImportError as error:
        raise ImportError("this design needs SciPy: pip install scipy") from error
    return _within(ranges, getattr(qmc, sampler)(_size(ranges), rng=seed).random(n))


def _bounds(name: str, given: Any) -> tuple[Array, Array]:
    try:
        low, high = np.broadcast_arrays(*(np.asarray(one, float) for one in given))
    except (TypeError, ValueError):
        raise ValueError(f"{name} needs a range (smallest, largest), not {given!r}") from None
    if not np.all(low <= high):
        raise ValueError(f"the range of {name} needs its smallest values first, not {given!r}")
    return low, high


def _size(ranges: Mapping[str, Range]) -> int:
    return sum(_bounds(name, given)[0].size for name, given in ranges.items())


def _within(ranges: Mapping[str, Range], shares: Array) -> Design:
    """The design whose numbers lie at these shares of their ranges, (n, numbers)."""
    bounds = {name: _bounds(name, given) for name, given in ranges.items()}
    rows = []
    for share in shares:
        ends = np.cumsum([low.size for low, _ in bounds.values()])[:-1]
        parts = zip(bounds.values(), np.split(share, ends), strict=True)
        rows.append(
            tuple(low + part.reshape(low.shape) * (high - low) for (low, high), part in parts)
        )
    return Design(tuple(bounds), rows)
