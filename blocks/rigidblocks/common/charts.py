"""Time charts for web pages in SVG format, drawn by pygal (the extra `plot`).

Axes and text have the text colour of the page.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from math import ceil, isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from rigidblocks.common.arrays import Array
from rigidblocks.common.escaping import xml_characters
from rigidblocks.common.optional_imports import module_of

if TYPE_CHECKING:
    from pygal.style import Style

_COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#d9690b", "#1292a0", "#8c564b", "#7f7f7f")
_WIDTH, _HEIGHT, _MARGIN, _LINE = 740, 205, 4, 630  # [px], _LINE is the width of the legend
_FONT, _LETTER = 12, 7.2  # font size, and letter width that pygal assumes [px]
_MIN_RANGE = 1e-12  # minimum range of an axis, relative to the largest absolute value
_MAX_VALUE = 1e300  # values of larger magnitude are clipped
_ROOM = 0.04  # margin above and below the curves, relative to the axis range
_MARKS = {  # axis ticks: minimum and maximum number of intervals; no tick is emphasized
    "min_scale": 2,
    "max_scale": 6,
    "x_labels_major_every": 1,
    "y_labels_major_every": 1,
}
_LABEL = 9  # fixed number of characters of a tick label, which aligns the axes of stacked charts
_FIGURE = "figure.chart{margin:.6em 0}figure.chart svg{max-width:100%;height:auto}"
_PLACES = {"d", "x", "y", "width", "height", "transform"}


@dataclass(frozen=True, eq=False)
class Chart:
    """Chart of lines (n,) over the times t (n,) [s].

    Attributes:
        title: Title of the chart.
        t: Times (n,) [s].
        lines: Names of the lines with their values (n,).
        levels: Names of the dashed horizontal lines with their values.
        markers: Names of the dashed vertical lines with their times [s].
    """

    title: str
    t: Array
    lines: Mapping[str, Array]
    levels: Mapping[str, float] = field(default_factory=dict)
    markers: Mapping[str, float] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Number of solid and dashed lines."""
        return len(self.lines) + len(self.levels) + len(self.markers)

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest value on the vertical axis."""
        shown = np.concatenate([*self.lines.values(), [*self.levels.values()]])
        shown = np.clip(shown[np.isfinite(shown)], -_MAX_VALUE, _MAX_VALUE)
        low, high = float(shown.min(initial=_MAX_VALUE)), float(shown.max(initial=-_MAX_VALUE))
        if low > high:
            return -1.0, 1.0
        largest = max(abs(low), abs(high))
        least = _MIN_RANGE * largest if largest > 1 / _MAX_VALUE else 1.0
        room = _ROOM * (high - low) if high - low > least else 0.1 * largest or 1.0
        return low - room, high + room


def chart_style(count: int) -> str:
    """Return the CSS rules that a page needs for charts with at most `count` lines."""
    drawing = _pygal().XY(style=_style(), js=(), show_dots=False)
    for k in range(count):
        drawing.add(f"{k}", [(0, k), (1, k)])
    (style,) = drawing.render_tree().iter("{*}style")
    return _FIGURE + str(style.text).replace(f"#chart-{drawing.uuid}", "figure.chart")


def chart_svg(chart: Chart) -> str:
    """Return a chart as an HTML figure; the page must contain the rules of `chart_style`."""
    from lxml import etree

    low, high = chart.bounds
    lines = {xml_characters(name): y for name, y in chart.lines.items()}
    dashed = {
        **{name: [(t, y) for t in chart.t[[0, -1]].tolist()] for name, y in chart.levels.items()},
        **{name: [(t, low), (t, high)] for name, t in chart.markers.items()},
    }
    drawing = _pygal().XY(**_layout(chart))
    for name, y in lines.items():
        drawing.add(name, [*_points(chart.t, y)])
    for name, ends in dashed.items():
        drawing.add(name, ends)
    svg = drawing.render_tree()
    _dash_lines(svg, range(len(chart.lines), chart.count))
    _strip(svg)
    return f'<figure class="chart">{etree.tostring(svg, encoding="unicode")}</figure>'


def _pygal() -> Any:
    """Import pygal and add the missing method find_spec to its plugin finder.

    Without this method, Python 3.11 issues a warning whenever it does not find a module.
    """
    pygal = module_of("pygal", "a page with curves")
    finder = pygal.PluginImportFixer
    if not hasattr(finder, "find_spec"):
        finder.find_spec = _find_spec
    return pygal


def _find_spec(finder: Any, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
    del path, target
    return spec_from_loader(name, finder) if finder.find_module(name) else None


def _points(t: Array, y: Array) -> Iterator[tuple[float, float | None]]:
    """Yield the points (t, y) of a line.

    If a value is not finite, y is None, and pygal draws a gap.
    """
    for time, value in zip(t.tolist(), y.tolist(), strict=True):
        yield time, min(max(value, -_MAX_VALUE), _MAX_VALUE) if isfinite(value) else None


def _layout(chart: Chart) -> dict[str, Any]:
    """Return the pygal options of a chart."""
    return {
        **_MARKS,
        **(_legend(chart) if chart.count > 1 else {"show_legend": False, "height": _HEIGHT}),
        "width": _WIDTH,
        "explicit_size": True,
        "margin": _MARGIN,
        "margin_right": 24,
        "spacing": 6,
        "style": _style(),
        "js": (),
        "show_dots": False,
        "allow_interruptions": True,
        "show_x_guides": True,
        "title": xml_characters(chart.title),
        "range": chart.bounds,
        "x_value_formatter": lambda t: f"{t:.12g} s",
        "value_formatter": lambda y: f"{y:.12g}".rjust(_LABEL),
    }


def _legend(chart: Chart) -> dict[str, Any]:
    """Return the pygal options of the legend below the chart, including the total height."""
    names = (*chart.lines, *chart.levels, *chart.markers)
    column = _LETTER * (1 + max(map(len, names))) + 1.5 * _FONT
    columns = max(1, min(chart.count, int(_LINE / column)))
    whole, rows = chart.count // columns, ceil(chart.count / columns)
    row = 1.5 * _FONT
    return {
        "legend_at_bottom": True,
        "legend_at_bottom_columns": columns,
        "legend_box_size": 10,
        "height": int(_HEIGHT + row * rows) + _MARGIN,
        "margin_bottom": _MARGIN + row * (rows - whole),  # pygal leaves room only for full rows
    }


def _style() -> "Style":
    from pygal.style import Style

    ink = ("foreground", "foreground_strong", "foreground_subtle")
    fine = {"guide_stroke_color": "#8884", "guide_stroke_dasharray": "none"}
    sizes = {"title": 13} | dict.fromkeys(("label", "major_label", "legend"), _FONT)
    return Style(
        **dict.fromkeys(ink, "currentColor"),
        **dict.fromkeys(("background", "plot_background"), "transparent"),
        **{f"{kind}{name}": value for kind in ("", "major_") for name, value in fine.items()},
        **{f"{name}_font_size": size for name, size in sizes.items()},
        **dict.fromkeys(("opacity", "stroke_opacity"), "1"),
        colors=_COLORS,
        font_family="sans-serif",
        stroke_width="1.3",
        transition="0s",
    )


def _dash_lines(svg: Any, indices: range) -> None:
    """Change the chart lines with the given indices to dashed lines."""
    for k in indices:
        for line in svg.iterfind(f".//{{*}}g[@class='series serie-{k} color-{k}']/{{*}}path"):
            line.set("stroke-dasharray", "6 4")


def _strip(svg: Any) -> None:
    """Reduce the size of an SVG chart, and make the SVG code reproducible.

    The function removes comments, `defs` elements, tooltips and random `id` attributes. It rounds
    coordinates to a tenth of a pixel.
    """
    from lxml import etree

    tooltip = svg.xpath("//*[@class='plot tooltip-overlay']")
    for node in (*svg.iter(etree.Comment, "{*}defs"), *tooltip):
        node.getparent().remove(node)
    for node in svg.iter():
        node.attrib.pop("id", None)
        for name in _PLACES & {*node.attrib}:
            node.set(name, re.sub(r"\d+\.\d{2,}", _tenth, node.get(name)))


def _tenth(number: re.Match[str]) -> str:
    return f"{float(number[0]):.1f}"
