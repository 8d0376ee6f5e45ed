"""Reports of what a run keeps: as text, as a page with plots, and as JUnit XML."""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise
from pathlib import Path

import numpy as np
from lxml import etree

from rigidblocks.algebra.spatial import Array
from rigidblocks.simulation.result import Result
from rigidblocks.study.requirements import (
    Always,
    Checked,
    Eventually,
    Overshoot,
    SettlingTime,
    TrackingError,
)

_WIDTH, _HEIGHT, _MOST = 640, 180, 800  # of a plot, and its points
_COLORS = ("#1f6fb4", "#d1702a", "#3a923a", "#9467bd", "#8c564b", "#777777")
_STYLE = """body { font: 15px sans-serif; max-width: 46em; margin: 2em auto; }
h2 { font-size: 16px; margin: 1.5em 0 0.2em; } .kept { color: #2a7d2a; } .broken { color: #b3261e; }
svg { background: #f7f7f7; width: 100%; }"""


def text_report(checked: Sequence[Checked]) -> str:
    """A line for each requirement."""
    lines = [
        f"{'kept  ' if one.found.kept else 'BROKEN'}  {one.name} {_said(one)}" for one in checked
    ]
    broken = sum(not one.found.kept for one in checked)
    return "\n".join((*lines, f"{len(checked)} requirements, {broken} broken"))


def junit_report(checked: Sequence[Checked], name: str = "rigidblocks") -> str:
    """The requirements as test cases in JUnit XML."""
    broken = sum(not one.found.kept for one in checked)
    counts = {"tests": str(len(checked)), "failures": str(broken), "errors": "0"}
    root = etree.Element("testsuites", counts)
    suite = etree.SubElement(root, "testsuite", {"name": name, **counts})
    for one in checked:
        case = etree.SubElement(suite, "testcase", {"classname": name, "name": one.name})
        if not one.found.kept:
            said = {
                "message": f"{one.requirement.signal} {_said(one)}",
                "type": one.requirement.kind,
            }
            etree.SubElement(case, "failure", said).text = _said(one)
    kind = {"xml_declaration": True, "encoding": "UTF-8", "pretty_print": True}
    text: bytes = etree.tostring(root, **kind)
    return text.decode()


def html_report(checked: Sequence[Checked], result: Result, name: str = "rigidblocks") -> str:
    """The requirements as a page of its own, each with the plot of its signal and its bounds."""
    broken = sum(not one.found.kept for one in checked)
    parts = [f"<h1>{escape(name)}: {len(checked)} requirements, {broken} broken</h1>"]
    for one in checked:
        word = "kept" if one.found.kept else "broken"
        parts.append(f"<h2><span class={word}>{word}</span> {escape(one.name)}</h2>")
        parts.append(f"<p>{escape(one.requirement.signal)} {escape(_said(one))}</p>")
        parts.append(_plot(one, result))
    title = f"<title>{escape(name)}</title><style>{_STYLE}</style>"
    return f"<!doctype html><meta charset=utf-8>{title}\n" + "\n".join(parts) + "\n"


def save_report(
    path: str | Path, checked: Sequence[Checked], result: Result, name: str = "rigidblocks"
) -> None:
    """Writes the report that the ending of the path asks for: .txt, .html or .xml; whole or not at
    all.
    """
    path = Path(path)
    kinds = {
        ".txt": lambda: text_report(checked) + "\n",
        ".html": lambda: html_report(checked, result, name),
        ".xml": lambda: junit_report(checked, name),
    }
    if path.suffix not in kinds:
        raise ValueError(f"a report is a .txt, .html or .xml file, not '{path}'")
    text = kinds[path.suffix]()
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _said(one: Checked) -> str:
    return f"{one.found.text} (t = {one.found.t:g} s)"


def _plot(one: Checked, result: Result) -> str:
    """The signal over time as SVG, its bounds dashed, the worst moment marked."""
    t, lines = result.time, _signals(one, result)
    levels = [level for level in _levels(one) if np.isfinite(level)]
    low, high = (f([f(y) for y in lines] + levels) for f in (np.min, np.max))
    room = 0.05 * (high - low) or 1.0
    low, high = low - room, high + room
    span = max(float(t[-1] - t[0]), 1e-12)

    def place(time: float, y: float) -> tuple[float, float]:
        return _WIDTH * (time - t[0]) / span, _HEIGHT * (high - y) / (high - low)

    body = [_line(t, y, place, _COLORS[k % len(_COLORS)]) for k, y in enumerate(lines)]
    for level in levels:
        y = place(t[0], level)[1]
        body.append(f'<path d="M0 {y:.1f}H{_WIDTH}" stroke="#888" stroke-dasharray="6 4"/>')
    x = place(one.found.t, low)[0]
    body.append(f'<path d="M{x:.1f} 0V{_HEIGHT}" stroke="#b3261e" stroke-width="0.7"/>')
    texts = ((4, 12, f"{high:.4g}"), (4, _HEIGHT - 4, f"{low:.4g}, from {t[0]:g} to {t[-1]:g} s"))
    body += [f'<text x="{x}" y="{y}" font-size="11">{said}</text>' for x, y, said in texts]
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" fill="none">{"".join(body)}</svg>'.replace(
        "<text", '<text fill="#333"'
    )


def _signals(one: Checked, result: Result) -> list[Array]:
    """The signal of a requirement, and its reference if it has one, element by element."""
    names = [one.requirement.signal]
    if isinstance(one.requirement, TrackingError):
        names.append(one.requirement.reference)
    count = len(result.time)
    found = [np.asarray(result[name], dtype=float).reshape(count, -1) for name in names]
    return [column for values in found for column in values.T]


def _line(t: Array, y: Array, place: object, color: str) -> str:
    """A signal, of many points the smallest and the largest of each piece."""
    assert callable(place)
    points = [place(t[k], y[k]) for k in _few(y)]
    d = "L".join(f"{a:.1f} {b:.1f}" for a, b in points)
    return f'<path d="M{d}" stroke="{color}" stroke-width="1.3"/>'


def _few(y: Array) -> list[int]:
    if len(y) <= _MOST:
        return list(range(len(y)))
    edges = np.linspace(0, len(y), _MOST // 2 + 1).astype(int).tolist()
    found = []
    for a, b in pairwise(edges):
        found += sorted({a + int(np.argmin(y[a:b])), a + int(np.argmax(y[a:b]))})
    return found


def _levels(one: Checked) -> Iterator[float]:
    asked = one.requirement
    if isinstance(asked, Always | Eventually):
        yield from (asked.low, asked.high)
    elif isinstance(asked, SettlingTime):
        yield from (asked.value - asked.within, asked.value + asked.within)
    elif isinstance(asked, Overshoot):
        yield asked.value
