"""Reports of what a run keeps: as text, as a page with plots, and as JUnit XML."""

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from pathlib import Path

import numpy as np
from lxml import etree

from rigidblocks.algebra.spatial import Array
from rigidblocks.charts import Chart, chart_style, chart_svg
from rigidblocks.simulation.result import Result, curves_of, names_of
from rigidblocks.study.requirements import (
    Always,
    Checked,
    Eventually,
    Overshoot,
    SettlingTime,
    TrackingError,
)

_MOST, _FEWEST = 800, 200  # points of a chart's lines, and of each
_STYLE = """body { font: 15px sans-serif; max-width: 46em; margin: 2em auto; }
h2 { font-size: 16px; margin: 1.5em 0 0.2em; } .kept { color: #2a7d2a; } .broken { color: #b3261e; }
"""


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
    charts = [_chart(one, result) for one in checked]
    parts = [f"<h1>{escape(name)}: {len(checked)} requirements, {broken} broken</h1>"]
    for one, chart in zip(checked, charts, strict=True):
        word = "kept" if one.found.kept else "broken"
        parts.append(f"<h2><span class={word}>{word}</span> {escape(one.name)}</h2>")
        parts.append(f"<p>{escape(one.requirement.signal)} {escape(_said(one))}</p>")
        parts.append(chart_svg(chart))
    style = _STYLE + chart_style(max((chart.count for chart in charts), default=0))
    title = f"<title>{escape(name)}</title><style>{style}</style>"
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


def _chart(one: Checked, result: Result) -> Chart:
    """The signal over time with its reference if it has one, of many points the smallest and the
    largest of each piece; its bounds and the worst moment dashed.
    """
    signal, lines = one.requirement.signal, _lines(one, result)
    most = max(_MOST // len(lines), _FEWEST)
    rows = sorted({k for y in lines.values() for k in _few(y, most)})
    levels = {name: level for name, level in _levels(one).items() if np.isfinite(level)}
    unit = result.unit(signal)
    title = f"{signal} [{unit if isinstance(unit, str) else ', '.join(dict.fromkeys(unit))}]"
    moment = {f"t = {one.found.t:g} s": one.found.t}
    drawn = {name: y[rows] for name, y in lines.items()}
    return Chart(title, result.time[rows], drawn, levels, moment)


def _lines(one: Checked, result: Result) -> dict[str, Array]:
    names = [one.requirement.signal]
    if isinstance(one.requirement, TrackingError):
        names.append(one.requirement.reference)
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


def _levels(one: Checked) -> dict[str, float]:
    asked = one.requirement
    if isinstance(asked, Always | Eventually):
        return {"least": asked.low, "most": asked.high}
    if isinstance(asked, SettlingTime):
        return {"least": asked.value - asked.within, "most": asked.value + asked.within}
    return {"value": asked.value} if isinstance(asked, Overshoot) else {}
