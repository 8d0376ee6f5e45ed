"""The outputs of a reference run as curves."""

from collections.abc import Iterator
from html import escape

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Port
from rigidblocks.fmi.reference import ReferenceRun, round_to_largest

_COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f")
_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP = 640, 150, 80, 24, 34  # of a plot, and the room around it
_LETTERS = 60  # of a legend beside the name of its port


def curves(run: ReferenceRun) -> str:
    """The outputs of the run over time as SVG, a panel for each port with its elements' names."""
    columns, panels = run.output_columns, list[str]()
    for port in run.memory.block.outputs:
        if shown := {name: columns[name] for name in port.element_names if name in columns}:
            rows, t_stop = run.rows[:, [*shown.values()]], (len(run.rows) - 1) * run.dt
            panel = _panel(port, rows, t_stop, len(panels))
            panels.append(panel + _legend(_names(port, [*shown]), len(panels)))
    height = len(panels) * (_HEIGHT + _GAP) + _TOP
    size = (
        f'viewBox="0 0 {_WIDTH + _LEFT + 20} {height}" width="{_WIDTH + _LEFT + 20}" '
        f'height="{height}"'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" '
        f'font-size="12" fill="currentColor">{"".join(panels)}</svg>'
    )


def _panel(port: Port, rows: Array, t_stop: float, number: int) -> str:
    """The elements of a port over time, below the panels before."""
    values = np.transpose([round_to_largest(column) for column in rows.T])
    low, high = float(values.min()), float(values.max())
    low, high = (low, high) if high > low else (low - 1, high + 1)
    top = _TOP + number * (_HEIGHT + _GAP)
    bottom = top + _HEIGHT
    texts = (
        (_LEFT, top - 6, "start", f"{port.name} [{', '.join(dict.fromkeys(port.units))}]"),
        (_LEFT - 6, top + 10, "end", f"{high:.4g}"),
        (_LEFT - 6, bottom, "end", f"{low:.4g}"),
        (_LEFT + _WIDTH, bottom + 14, "end", f"{t_stop:.4g} s"),
    )
    frame = (
        f'<rect x="{_LEFT}" y="{top}" width="{_WIDTH}" height="{_HEIGHT}" fill="none" '
        'stroke="#aaa"/>'
    )
    lines = _lines(top + _HEIGHT * (high - values) / (high - low))
    return "".join([frame, *lines, *(_text(*text) for text in texts)])


def _names(port: Port, names: list[str]) -> list[str]:
    """The names of elements, of many their indices alone."""
    many = sum(map(len, names)) > _LETTERS
    return [name.removeprefix(port.name) for name in names] if many else names


def _legend(names: list[str], number: int) -> str:
    """The names of several lines in their colours, above the right end of a panel."""
    if len(names) == 1:
        return ""
    place = f'x="{_LEFT + _WIDTH}" y="{_TOP + number * (_HEIGHT + _GAP) - 6}"'
    parts = [f'<tspan fill="{_color(k)}">{escape(name)}</tspan>' for k, name in enumerate(names)]
    return f'<text {place} text-anchor="end">{"  ".join(parts)}</text>'


def _lines(y: Array) -> Iterator[str]:
    """A line for each column of y (n, k) over the width of a panel."""
    x = _LEFT + _WIDTH * np.arange(len(y)) / max(1, len(y) - 1)
    for k, column in enumerate(y.T):
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, column, strict=True))
        yield f'<polyline points="{points}" fill="none" stroke="{_color(k)}"/>'


def _color(k: int) -> str:
    return _COLORS[k % len(_COLORS)]


def _text(x: float, y: float, anchor: str, text: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'
