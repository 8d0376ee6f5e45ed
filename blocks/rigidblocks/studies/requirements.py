"""Requirements on the signals of a run, their evaluation, and text, HTML and JUnit XML reports."""

import abc
import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import datetime
from importlib import import_module
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from rigidblocks.block.units import unit_text
from rigidblocks.common.arrays import Array
from rigidblocks.common.charts import Chart, chart_style, chart_svg
from rigidblocks.common.escaping import html_text, xml_characters, xml_text
from rigidblocks.common.name_hints import HintedType, argument_hint
from rigidblocks.common.optional_imports import install_command
from rigidblocks.cosim.results.result import Result, curves_of, names_of
from rigidblocks.cosim.scenario import read_data_file

_BOUNDS = re.compile(r"\[\s*([\d.eE+-]+)\s*[a-z]*\s*[:,]\s*([\d.eE+-]+)\s*([a-z]*)\s*\]")
_UNITS = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def robustness(formula: str, t: Array, signals: Mapping[str, Array]) -> float:
    """Return the robustness of a formula of signal temporal logic (STL) at the first sample.

    The robustness is negative if the formula is violated. Examples of formulas:

        always[1:10](abs(y) <= 0.3),    not (y > 1) until[0:2] (r >= 0.5),    y < 0 implies r > 0

    Args:
        formula: STL formula. A time bound [s] is relative to the time at which its operator is
            evaluated.
        t: Times (n,) [s].
        signals: Signal values (n,) by name.

    Raises:
        ValueError: The formula is invalid, or refers to times after the last time.
        ImportError: The package rtamt is not installed.

    References:
        Maler and Nickovic 2004; Donze and Maler 2010.
    """
    _check_bounds(formula, float(t[-1] - t[0]))
    try:
        rtamt: Any = import_module("rtamt")
    except ImportError as error:
        raise ImportError(
            f"STL formulas need the package rtamt ({install_command('rtamt')}): {error}"
        ) from error
    monitor = rtamt.StlDenseTimeSpecification()
    monitor.unit = "s"
    for name in signals:
        monitor.declare_var(name, "float")
    monitor.spec = formula
    rows = [[name, np.stack([t - t[0], y], axis=1).tolist()] for name, y in signals.items()]
    with _silence_rtamt_logs():
        try:
            monitor.parse()
            found = monitor.evaluate(*rows)
        except KeyError as error:
            known = ", ".join(signals)
            raise ValueError(
                f"unknown signal '{error.args[0]}' in STL formula '{formula}'; known signals: "
                f"{known}"
            ) from None
        except Exception as error:
            said = str(error).removeprefix("RTAMT Exception: ").strip()
            raise ValueError(f"invalid STL formula '{formula}': {said}") from None
    return float(found[0][1]) + 0.0


def _check_bounds(formula: str, span: float) -> None:
    """Raise ValueError if a time bound in the formula is reversed or exceeds `span` [s]."""
    for first, last, unit in _BOUNDS.findall(formula):
        try:
            low, high = float(first), float(last)
        except ValueError:
            continue  # the STL parser reports this error
        if low > high:
            raise ValueError(
                f"invalid time bounds {first} to {last} of '{formula}'; expected increasing bounds"
            )
        if high * _UNITS.get(unit, 1.0) > span + 1e-9:
            raise ValueError(
                f"'{formula}' needs a signal of {last} {unit or 's'}, but the run has only "
                f"{span:g} s"
            )


@contextmanager
def _silence_rtamt_logs() -> Iterator[None]:
    """Suppress the log messages of rtamt, because the exceptions of rtamt contain the messages."""
    before = logging.root.level
    logging.root.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logging.root.setLevel(before)


class Evaluation(NamedTuple):
    """Evaluation of a requirement.

    Attributes:
        number: Value that the requirement limits, such as the overshoot or the settling time.
        kept: True if the requirement is satisfied.
        t: Time of the worst value [s].
        text: Description of the evaluation.
    """

    number: float
    kept: bool
    t: float
    text: str


@dataclass(frozen=True)
class Requirement(metaclass=HintedType):
    """Requirement on all elements of the signal `part.port` or `part.port[1]` of a run.

    The requirement applies to the times from `after` to `before` [s].
    """

    signal: str

    @abc.abstractmethod
    def evaluate(self, t: Array, y: Array, result: Result) -> Evaluation:
        """Evaluate the requirement for signal values y (n, elements) at the times t (n,) [s]."""

    @property
    def kind(self) -> str:
        """Name of the requirement type in a requirements file."""
        return next(word for word, kind in KINDS.items() if kind is type(self))

    def check(self, result: Result) -> Evaluation:
        """Evaluate the requirement for the result of a run.

        Raises:
            KeyError: The result does not have the signal.
            ValueError: The result has no samples in the time span.
        """
        y = _columns(result, self.signal)
        return self.evaluate(*self._samples_in_span(result.time, y), result)

    def _samples_in_span(self, t: Array, y: Array) -> tuple[Array, Array]:
        """Return the times and values of the samples from `after` to `before`."""
        first, last = getattr(self, "after", 0.0), getattr(self, "before", inf)
        there = (t >= first - 1e-9) & (t <= last + 1e-9)
        if not np.any(there):
            raise ValueError(
                f"the result has no samples from {first} s to {last} s for {self.signal}"
            )
        return t[there], y[there]


@dataclass(frozen=True)
class Always(Requirement):
    """Requirement that the signal stays in [`lower`, `upper`] from `after` to `before` [s]."""

    lower: float = -inf
    upper: float = inf
    after: float = 0.0
    before: float = inf

    def evaluate(self, t: Array, y: Array, result: Result) -> Evaluation:
        del result
        out = np.maximum(self.lower - y, y - self.upper).max(axis=1)
        k = int(np.argmax(out))
        worst = float(y[k, np.argmax(np.maximum(self.lower - y[k], y[k] - self.upper))])
        text = (
            f"has the worst value {_number(worst)}; the allowed range is {self.lower:g} to "
            f"{self.upper:g}"
        )
        return Evaluation(worst, bool(out[k] <= 0), float(t[k]), text)


@dataclass(frozen=True)
class Eventually(Requirement):
    """Requirement that the signal stays in [`lower`, `upper`] for `hold` [s] at least once."""

    lower: float = -inf
    upper: float = inf
    hold: float = 0.0
    after: float = 0.0
    before: float = inf

    def evaluate(self, t: Array, y: Array, result: Result) -> Evaluation:
        del result
        inside = np.all((self.lower <= y) & (y <= self.upper), axis=1)
        begin, longest, when = None, -1.0, float(t[-1])
        for now, there in zip(t.tolist(), inside.tolist(), strict=True):
            begin = (now if begin is None else begin) if there else None
            if begin is not None and now - begin > longest:
                longest, when = now - begin, begin
        kept = longest >= self.hold - 1e-9
        text = (
            "is never in the range"
            if longest < 0
            else f"stays for {longest:g} s, from t = {when:g} s, in the range"
        )
        bounds = f"{text} from {self.lower:g} to {self.upper:g}"
        return Evaluation(
            max(longest, 0.0), kept, when, f"{bounds}; at least {self.hold:g} s is required"
        )


@dataclass(frozen=True)
class SettlingTime(Requirement):
    """Requirement that the settling time of the signal is at most `at_most` [s].

    The signal has settled when its distance from `value` remains at most `within`. The settling
    time begins at the time `after` [s].
    """

    value: float
    within: float
    at_most: float
    after: float = 0.0
    before: float = inf

    def evaluate(self, t: Array, y: Array, result: Result) -> Evaluation:
        del result
        off = np.flatnonzero(np.any(np.abs(y - self.value) > self.within, axis=1))
        settles = not len(off) or off[-1] + 1 < len(t)
        k = 0 if not len(off) else min(int(off[-1]) + 1, len(t) - 1)
        time = float(t[k]) - self.after if settles else inf
        text = f"settles in {time:g} s; at most {self.at_most:g} s is allowed"
        if not settles:
            text = f"does not settle to {self.value:g} +- {self.within:g}"
        return Evaluation(time, time <= self.at_most + 1e-9, float(t[k]), text)


@dataclass(frozen=True)
class Overshoot(Requirement):
    """Requirement that the relative overshoot of the signal is at most `at_most`.

    The relative overshoot of a signal y is the maximum over time of the following ratio, or 0 if
    the ratio is never positive:

        (y(t) - y_ref) / (y_ref - y(t_0))

    The target y_ref is `value`. t_0 is the first sample time in the checked interval, which is from
    `after` to `before` [s].
    """

    value: float
    at_most: float
    after: float = 0.0
    before: float = inf

    def evaluate(self, t: Array, y: Array, result: Result) -> Evaluation:
        del result
        way = self.value - y[0]
        if np.any(way == 0.0):
            raise ValueError(
                f"the overshoot of {self.signal} is undefined, because the signal starts at its "
                f"target {self.value:g}"
            )
        beyond = np.maximum((y - self.value) / way, 0.0).max(axis=1)
        k = int(np.argmax(beyond))
        share = float(beyond[k])
        text = f"overshoots {self.value:g} by {share:.3%}; at most {self.at_most:.3%} is allowed"
        return Evaluation(share, share <= self.at_most, float(t[k]), text)


@dataclass(frozen=True)
class TrackingError(Requirement):
    """Requirement that the error between the signal and `reference` is at most `at_most`.

    The error is the root mean square error if `rms` is True, else the maximum absolute error.
    """

    reference: str
    at_most: float
    rms: bool = False
    after: float = 0.0
    before: float = inf

    def evaluate(self, t: Array, y: Array, result: Result) -> Evaluation:
        _, r = self._samples_in_span(result.time, _columns(result, self.reference))
        if r.shape != y.shape:
            raise ValueError(
                f"{self.signal} and {self.reference} have different shapes; their shapes must be "
                "equal"
            )
        off = np.abs(y - r).max(axis=1)
        k = int(np.argmax(off))
        error = float(np.sqrt(np.mean((y - r) ** 2, axis=0)).max()) if self.rms else float(off[k])
        what = "in the root mean square" if self.rms else "at the maximum"
        text = (
            f"deviates by {_number(error)} from {self.reference} {what}; at most {self.at_most:g} "
            "is allowed"
        )
        return Evaluation(error, error <= self.at_most, float(t[k]), text)


_SIGNAL = re.compile(r"\{([^{}]+)\}")  # another signal in a formula, such as {robot.q[1]}


@dataclass(frozen=True)
class Formula(Requirement):
    """Requirement that an STL formula is satisfied at the time `after` (see `robustness`).

    In the formula, `y` is each element of the signal, and `{part.port[1]}` is another signal:

        always(y > 1.2 implies eventually[0:0.5](abs({robot.qd[1]}) <= 0.1))
    """

    formula: str
    after: float = 0.0
    before: float = inf

    def evaluate(self, t: Array, y: Array, result: Result) -> Evaluation:
        names = list(dict.fromkeys(name.strip() for name in _SIGNAL.findall(self.formula)))
        others = {}
        for k, name in enumerate(names):
            _, values = self._samples_in_span(result.time, _columns(result, name))
            if values.shape[1] != 1:
                raise ValueError(f"{name} has {values.shape[1]} elements; select one element")
            others[f"signal_{k}"] = values[:, 0]
        text = _SIGNAL.sub(lambda m: f"signal_{names.index(m[1].strip())}", self.formula)
        worst = min(robustness(text, t, {"y": one, **others}) for one in y.T)
        said = "holds" if worst >= 0 else "does not hold"
        return Evaluation(
            worst, worst >= 0, float(t[0]), f"{self.formula} {said}; its robustness is {worst:.6g}"
        )


KINDS: Mapping[str, type[Requirement]] = {
    "always": Always,
    "eventually": Eventually,
    "settling_time": SettlingTime,
    "overshoot": Overshoot,
    "tracking_error": TrackingError,
    "formula": Formula,
}


class Checked(NamedTuple):
    """Requirement together with its evaluation for one run."""

    requirement: Requirement
    found: Evaluation

    @property
    def name(self) -> str:
        """Name of the signal, followed by the type of the requirement."""
        return f"{self.requirement.signal}: {self.requirement.kind}"


def check_requirements(result: Result, requirements: Iterable[Requirement]) -> tuple[Checked, ...]:
    """Evaluate requirements for the result of a run.

    Raises:
        KeyError: The run does not have a signal.
        ValueError: The run has no samples in the time span of a requirement.
    """
    return tuple(Checked(one, one.check(result)) for one in requirements)


def load_requirements(path: str | Path) -> tuple[Requirement, ...]:
    """Load requirements from a .yaml or .json file.

    The file is a list of entries such as

        {kind: overshoot, signal: "robot.q[1]", value: 1.0, at_most: 0.05, after: 0.2}

    `kind` is the requirement type: always, eventually, settling_time, overshoot, tracking_error or
    formula. A space instead of the underscore is allowed. The other keys are the fields of the
    requirement class.

    Raises:
        ValueError: An entry of the file is not a valid requirement.
    """
    given = read_data_file(Path(path))
    if not isinstance(given, list) or not given:
        raise ValueError(f"'{path}' needs a list of requirements")
    return tuple(
        _requirement(one, f"requirement {k} of '{path}'") for k, one in enumerate(given, 1)
    )


def _requirement(entry: Any, place: str) -> Requirement:
    given = entry.get("kind") if isinstance(entry, Mapping) else entry
    kind = KINDS.get(str(given).replace(" ", "_"))
    if isinstance(entry, Mapping) and given is None:
        raise ValueError(
            f"{place} has no 'kind'; write for example {{kind: always, signal: robot.q[1], upper: "
            f"1.5}}; available kinds: {', '.join(KINDS)}"
        )
    if not isinstance(entry, Mapping) or kind is None:
        raise ValueError(f"unknown kind {given!r} of {place}; {argument_hint(str(given), KINDS)}")
    values = {str(name): value for name, value in entry.items() if name != "kind"}
    known = {one.name: one for one in fields(kind)}
    for name, value in values.items():
        if name not in known:
            raise ValueError(f"{place} has no '{name}'; {argument_hint(name, known)}")
        wanted = str if known[name].type is str else bool if known[name].type is bool else float
        if isinstance(value, bool) is not (wanted is bool) or not isinstance(
            value, (int, float) if wanted is float else wanted
        ):
            raise ValueError(
                f"invalid '{name}' of {place}: expected {wanted.__name__}, not {value!r}"
            )
    try:
        return kind(**values)
    except TypeError as error:
        missing = str(error).partition("missing")[2].rpartition(":")[2]
        raise ValueError(f"{place} needs{missing}") from None


def _columns(result: Result, name: str) -> Array:
    """Return the values of a signal as a table (n, elements)."""
    y = np.asarray(result[name], dtype=float)
    return y.reshape(len(result.time), -1)


def _number(value: float) -> str:
    return f"{value:.6g}"


_MOST, _FEWEST = 800, 200  # maximum number of points per chart, minimum number per line
_STYLE = """body { font: 15px sans-serif; max-width: 46em; margin: 1em auto; padding: 0 1em 2em; }
h1 { font-size: 24px; } h2 { font-size: 16px; margin: 1.5em 0 0.2em; } .kept { color: #2a7d2a; }
.broken { color: #b3261e; } .run { color: #4d5a63; } table { border-collapse: collapse; }
td, th { border: 1px solid #cfd6dc; padding: 0.2em 0.6em; text-align: left; vertical-align: top; }
td { overflow-wrap: anywhere; }
"""


def text_report(checked: Sequence[Checked]) -> str:
    """Return a text report with one line for each requirement."""
    lines = [
        f"{'kept  ' if one.found.kept else 'BROKEN'}  {one.name} {_result_text(one)}"
        for one in checked
    ]
    broken = sum(not one.found.kept for one in checked)
    return "\n".join((*lines, f"{len(checked)} requirements, {broken} broken"))


def junit_report(checked: Sequence[Checked], name: str = "rigidblocks") -> str:
    """Return a JUnit XML report with one test case for each requirement."""
    broken = sum(not one.found.kept for one in checked)
    counts = {"tests": str(len(checked)), "failures": str(broken), "errors": "0"}
    root = Element("testsuites", counts)
    suite = SubElement(root, "testsuite", {"name": xml_characters(name), **counts})
    for one in checked:
        names = {"classname": name, "name": xml_characters(one.name)}
        case = SubElement(suite, "testcase", names)
        if not one.found.kept:
            said = {
                "message": f"{one.requirement.signal} {_result_text(one)}",
                "type": one.requirement.kind,
            }
            SubElement(case, "failure", said).text = _result_text(one)
    return xml_text(root)


def html_report(
    checked: Sequence[Checked], result: Result, name: str = "rigidblocks", created: str = ""
) -> str:
    """Return a self-contained HTML page with a plot of signal and bounds for each requirement.

    The page ends with a table of the parts of the run and their parameters, if the metadata of the
    result contain the parts. `created` is the date of the report.
    """
    broken = sum(not one.found.kept for one in checked)
    charts = [_chart(one, result) for one in checked]
    parts = [f"<h1>{html_text(name)}: {len(checked)} requirements, {broken} broken</h1>"]
    parts.append(f"<p class=run>{html_text(_run_text(result, created))}</p>")
    for one, chart in zip(checked, charts, strict=True):
        word = "kept" if one.found.kept else "broken"
        parts.append(f"<h2><span class={word}>{word}</span> {html_text(one.name)}</h2>")
        parts.append(f"<p>{html_text(one.requirement.signal)} {html_text(_result_text(one))}</p>")
        parts.append(chart_svg(chart))
    parts += _parameter_table(result)
    style = _STYLE + chart_style(max((chart.count for chart in charts), default=0))
    title = f"<title>{html_text(name)}</title><style>{style}</style>"
    head = "<meta charset=utf-8><meta name=viewport content='width=device-width'>"
    return (
        f"<!doctype html><html lang=en>{head}{title}\n<main>\n" + "\n".join(parts) + "\n</main>\n"
    )


def save_report(
    path: str | Path, checked: Sequence[Checked], result: Result, name: str = "rigidblocks"
) -> None:
    """Write a report in the format of the file extension: .txt, .html or .xml.

    The file is written atomically.

    Args:
        path: Path of the report.
        checked: Evaluated requirements of one run (`check_requirements`).
        result: Result of the run, for the plots of an .html report.
        name: Title of an .html report, or name of the test suite of an .xml report.

    Raises:
        ValueError: The file extension is unknown.
    """
    path = Path(path)
    kinds = {
        ".txt": lambda: text_report(checked) + "\n",
        ".html": lambda: html_report(checked, result, name, f"{datetime.now():%Y-%m-%d %H:%M}"),
        ".xml": lambda: junit_report(checked, name),
    }
    if path.suffix not in kinds:
        raise ValueError(f"unknown format of the report '{path}'; expected .txt, .html or .xml")
    text = kinds[path.suffix]()
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _run_text(result: Result, created: str) -> str:
    """Return date, software version, duration, step and digest of the run as one line."""
    meta = result.meta
    texts = [created] if created else []
    texts += [f"{name} {one}" for name, one in _json_object(result, "versions").items()]
    texts.append(f"t = {result.time[0]:g} to {result.time[-1]:g} s")
    texts += [f"dt = {meta['dt']} s"] if "dt" in meta else []
    texts += [f"system {meta['digest'][:12]}"] if "digest" in meta else []
    return ", ".join(texts)


def _json_object(result: Result, key: str) -> dict[str, Any]:
    """Return the JSON object `key` of the metadata; {} if another program wrote the result."""
    try:
        found = json.loads(result.meta.get(key, "{}"))
    except (TypeError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _parameter_table(result: Result) -> list[str]:
    """Return the HTML lines of the table of parts, their blocks or FMUs, and their parameters."""
    parts = _json_object(result, "parts")
    rows = [
        (
            part,
            str(about.get("block") or about.get("fmu") or ""),
            ", ".join(
                f"{name} = {value}"
                for name, value in {**about.get("parameters", {}), **about.get("start", {})}.items()
            ),
        )
        for part, about in parts.items()
        if isinstance(about, dict)
    ]
    cells = ["".join(f"<td>{html_text(one)}</td>" for one in row) for row in rows]
    if not cells:
        return []
    head = "<tr><th>part</th><th>block</th><th>parameters and start values</th></tr>"
    return [
        "<h2>Parameters</h2>",
        "<table>",
        head,
        *(f"<tr>{row}</tr>" for row in cells),
        "</table>",
    ]


def _result_text(checked: Checked) -> str:
    return f"{checked.found.text} (t = {checked.found.t:g} s)"


def _chart(checked: Checked, result: Result) -> Chart:
    """Return a chart of the signal and of the reference signal over time.

    Dashed lines show the bounds and the time of the worst value. For a long signal, the chart shows
    only the minimum and maximum of each segment.
    """
    signal, lines = checked.requirement.signal, _lines(checked, result)
    most = max(_MOST // len(lines), _FEWEST)
    rows = sorted({k for y in lines.values() for k in _few(y, most)})
    levels = {name: level for name, level in _levels(checked).items() if np.isfinite(level)}
    unit = result.unit(signal)
    title = f"{signal} [{unit if isinstance(unit, str) else unit_text(unit)}]"
    moment = {f"t = {checked.found.t:g} s": checked.found.t}
    drawn = {name: y[rows] for name, y in lines.items()}
    return Chart(title, result.time[rows], drawn, levels, moment)


def _lines(checked: Checked, result: Result) -> dict[str, Array]:
    names = [checked.requirement.signal]
    if isinstance(checked.requirement, TrackingError):
        names.append(checked.requirement.reference)
    return {
        element: y
        for name in names
        for element, y in zip(names_of(result, name), curves_of(result, name).T, strict=True)
    }


def _few(y: Array, most: int) -> list[int]:
    if len(y) <= most:
        return list(range(len(y)))
    edges = np.linspace(0, len(y), most // 2 + 1).astype(int).tolist()
    found = list[int]()
    for a, b in pairwise(edges):
        found += {a + int(np.argmin(y[a:b])), a + int(np.argmax(y[a:b]))}
    return [0, *found, len(y) - 1]


def _levels(checked: Checked) -> dict[str, float]:
    asked = checked.requirement
    if isinstance(asked, Always | Eventually):
        return {"lower": asked.lower, "upper": asked.upper}
    if isinstance(asked, SettlingTime):
        return {"lower": asked.value - asked.within, "upper": asked.value + asked.within}
    return {"value": asked.value} if isinstance(asked, Overshoot) else {}
