"""What a run has to keep, and whether it does."""

import abc
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.record import offer
from rigidblocks.simulation.result import Result
from rigidblocks.simulation.scenario import parsed
from rigidblocks.study.temporal import robustness


class Found(NamedTuple):
    """What a requirement found: the number that it is about, whether that is kept, when it was
    worst [s], and a sentence.
    """

    number: float
    kept: bool
    t: float
    text: str


@dataclass(frozen=True)
class Requirement(abc.ABC):
    """Something that a signal `part.port` or `part.port[1]` of a run has to keep, in all of its
    elements, from `after` to `before` [s].
    """

    signal: str

    @abc.abstractmethod
    def found(self, t: Array, y: Array, result: Result) -> Found:
        """What is found in the values y (n, elements) at the times t (n,)."""

    @property
    def kind(self) -> str:
        """Its word, as in files."""
        return next(word for word, kind in KINDS.items() if kind is type(self))

    def check(self, result: Result) -> Found:
        """What is found in a result.

        Raises KeyError for a signal that it does not have, and ValueError for no rows.
        """
        y = _columns(result, self.signal)
        return self.found(*self._part(result.time, y), result)

    def _part(self, t: Array, y: Array) -> tuple[Array, Array]:
        """The rows in its span of time."""
        first, last = getattr(self, "after", 0.0), getattr(self, "before", inf)
        there = (t >= first - 1e-9) & (t <= last + 1e-9)
        if not np.any(there):
            raise ValueError(f"the run has no rows from {first} to {last} s for {self.signal}")
        return t[there], y[there]


@dataclass(frozen=True)
class Always(Requirement):
    """The signal is from `low` to `high` all the time."""

    low: float = -inf
    high: float = inf
    after: float = 0.0
    before: float = inf

    def found(self, t: Array, y: Array, result: Result) -> Found:
        del result
        out = np.maximum(self.low - y, y - self.high).max(axis=1)
        k = int(np.argmax(out))
        worst = float(y[k, np.argmax(np.maximum(self.low - y[k], y[k] - self.high))])
        text = f"is {_number(worst)} at its worst; from {self.low:g} to {self.high:g} are allowed"
        return Found(worst, bool(out[k] <= 0), float(t[k]), text)


@dataclass(frozen=True)
class Eventually(Requirement):
    """The signal is from `low` to `high` at some time, and stays for `hold` [s]."""

    low: float = -inf
    high: float = inf
    hold: float = 0.0
    after: float = 0.0
    before: float = inf

    def found(self, t: Array, y: Array, result: Result) -> Found:
        del result
        inside = np.all((self.low <= y) & (y <= self.high), axis=1)
        begin, longest, when = None, -1.0, float(t[-1])
        for now, there in zip(t.tolist(), inside.tolist(), strict=True):
            begin = (now if begin is None else begin) if there else None
            if begin is not None and now - begin > longest:
                longest, when = now - begin, begin
        kept = longest >= self.hold - 1e-9
        text = "never is" if longest < 0 else f"is for {longest:g} s, from {when:g} s on,"
        bounds = f"{text} from {self.low:g} to {self.high:g}"
        return Found(max(longest, 0.0), kept, when, f"{bounds}; {self.hold:g} s are asked")


@dataclass(frozen=True)
class SettlingTime(Requirement):
    """The signal is within `within` of `value` from `at_most` [s] behind `after` on."""

    value: float
    within: float
    at_most: float
    after: float = 0.0
    before: float = inf

    def found(self, t: Array, y: Array, result: Result) -> Found:
        del result
        off = np.flatnonzero(np.any(np.abs(y - self.value) > self.within, axis=1))
        settles = not len(off) or off[-1] + 1 < len(t)
        k = 0 if not len(off) else min(int(off[-1]) + 1, len(t) - 1)
        time = float(t[k]) - self.after if settles else inf
        text = f"settles in {time:g} s; {self.at_most:g} s are allowed"
        if not settles:
            text = f"does not settle to {self.value:g} +- {self.within:g}"
        return Found(time, time <= self.at_most + 1e-9, float(t[k]), text)


@dataclass(frozen=True)
class Overshoot(Requirement):
    """The signal goes beyond `value`, coming from where it is at `after`, by at most the share
    `at_most` of its way there.
    """

    value: float
    at_most: float
    after: float = 0.0
    before: float = inf

    def found(self, t: Array, y: Array, result: Result) -> Found:
        del result
        way = self.value - y[0]
        if np.any(way == 0.0):
            raise ValueError(
                f"{self.signal} begins at {self.value:g}: there is no way to overshoot"
            )
        beyond = np.maximum((y - self.value) / way, 0.0).max(axis=1)
        k = int(np.argmax(beyond))
        share = float(beyond[k])
        text = f"overshoots {self.value:g} by {share:.3%}; {self.at_most:.3%} are allowed"
        return Found(share, share <= self.at_most, float(t[k]), text)


@dataclass(frozen=True)
class TrackingError(Requirement):
    """The signal follows another one, `reference`: it is off by at most `at_most`, with `rms` in
    the root of the mean square.
    """

    reference: str
    at_most: float
    rms: bool = False
    after: float = 0.0
    before: float = inf

    def found(self, t: Array, y: Array, result: Result) -> Found:
        _, r = self._part(result.time, _columns(result, self.reference))
        if r.shape != y.shape:
            raise ValueError(f"{self.signal} and {self.reference} have different shapes")
        off = np.abs(y - r).max(axis=1)
        k = int(np.argmax(off))
        error = float(np.sqrt(np.mean((y - r) ** 2, axis=0)).max()) if self.rms else float(off[k])
        what = "in the root of the mean square" if self.rms else "at its worst"
        text = f"is {_number(error)} off {self.reference} {what}; {self.at_most:g} are allowed"
        return Found(error, error <= self.at_most, float(t[k]), text)


_SIGNAL = re.compile(r"\{([^{}]+)\}")  # in a formula


@dataclass(frozen=True)
class Formula(Requirement):
    """A formula of signal temporal logic holds at `after` (`robustness`), in which `y` is the
    signal, each of its elements, and `{part.port[1]}` another one:

        always(y > 1.2 implies eventually[0:0.5](abs({robot.qd[1]}) <= 0.1))
    """

    formula: str
    after: float = 0.0
    before: float = inf

    def found(self, t: Array, y: Array, result: Result) -> Found:
        names = list(dict.fromkeys(name.strip() for name in _SIGNAL.findall(self.formula)))
        others = {}
        for k, name in enumerate(names):
            _, values = self._part(result.time, _columns(result, name))
            if values.shape[1] != 1:
                raise ValueError(f"{name} has {values.shape[1]} numbers: name an element of it")
            others[f"signal_{k}"] = values[:, 0]
        text = _SIGNAL.sub(lambda m: f"signal_{names.index(m[1].strip())}", self.formula)
        worst = min(robustness(text, t, {"y": one, **others}) for one in y.T)
        said = "holds" if worst >= 0 else "does not hold"
        return Found(worst, worst >= 0, float(t[0]), f"{self.formula} {said}, by {worst:.6g}")


KINDS: Mapping[str, type[Requirement]] = {
    "always": Always,
    "eventually": Eventually,
    "settling time": SettlingTime,
    "overshoot": Overshoot,
    "tracking error": TrackingError,
    "formula": Formula,
}


class Checked(NamedTuple):
    """A requirement and what was found."""

    requirement: Requirement
    found: Found

    @property
    def name(self) -> str:
        """The signal and the kind of requirement."""
        return f"{self.requirement.signal}: {self.requirement.kind}"


def check_requirements(result: Result, requirements: Iterable[Requirement]) -> tuple[Checked, ...]:
    """What each requirement finds in a run.

    Raises KeyError for a signal that the run does not have, and ValueError for one that has no rows
    where it is asked for.
    """
    return tuple(Checked(one, one.check(result)) for one in requirements)


def load_requirements(path: str | Path) -> tuple[Requirement, ...]:
    """The requirements in a .yaml or .json file, a list of

        {kind: overshoot, signal: "robot.q[1]", value: 1.0, at_most: 0.05, after: 0.2}

    with the fields of the classes here under their kind: always, eventually, settling time,
    overshoot, tracking error, formula. Raises ValueError for what is none.
    """
    given = parsed(Path(path))
    if not isinstance(given, list) or not given:
        raise ValueError(f"'{path}' needs a list of requirements")
    return tuple(
        _requirement(one, f"requirement {k} of '{path}'") for k, one in enumerate(given, 1)
    )


def _requirement(given: Any, where: str) -> Requirement:
    if not isinstance(given, Mapping) or given.get("kind") not in KINDS:
        kind = given.get("kind") if isinstance(given, Mapping) else given
        raise ValueError(f"{where} is of no kind that there is, but {kind!r}; {offer('', KINDS)}")
    kind = KINDS[given["kind"]]
    values = {str(name): value for name, value in given.items() if name != "kind"}
    known = {one.name: one for one in fields(kind)}
    for name, value in values.items():
        if name not in known:
            raise ValueError(f"{where} has no '{name}'; {offer(name, known)}")
        wanted = str if known[name].type is str else bool if known[name].type is bool else float
        if isinstance(value, bool) is not (wanted is bool) or not isinstance(
            value, (int, float) if wanted is float else wanted
        ):
            raise ValueError(f"{where} has {value!r} as '{name}', which is no {wanted.__name__}")
    try:
        return kind(**values)
    except TypeError as error:
        missing = str(error).partition("missing")[2].rpartition(":")[2]
        raise ValueError(f"{where} leaves out{missing}") from None


def _columns(result: Result, name: str) -> Array:
    """The values of a signal (n, elements)."""
    y = np.asarray(result[name], dtype=float)
    return y.reshape(len(result.time), -1)


def _number(value: float) -> str:
    return f"{value:.6g}"
