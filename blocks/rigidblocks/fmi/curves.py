"""The outputs of a reference run as curves.

They are drawn here: matplotlib takes longer to load than an FMU may wait for it, not everybody who
exports has it, and what it writes changes with its version, while an FMU's bytes are to stay.
"""

import math
from collections.abc import Iterator
from html import escape

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Port
from rigidblocks.fmi.reference import ReferenceRun, round_to_largest

_COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f")
_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP = 640, 150, 80, 24, 44  # of a plot, and the room around it
_LEAST, _MOST = 1e-300, 1e300  # of what is between the ends of an axis, and of these
_INTERVALS = 5  # between marks of an axis, about
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
    values = np.clip(values, -_MOST, _MOST)
    low, high = float(values.min()), float(values.max())
    low, high = (low, high) if high - low > _LEAST else (low - 1, high + 1)
    top = _TOP + number * (_HEIGHT + _GAP)
    bottom = top + _HEIGHT
    name = _text(_LEFT, top - 6, "start", f"{port.name} [{', '.join(dict.fromkeys(port.units))}]")
    frame = (
        f'<rect x="{_LEFT}" y="{top}" width="{_WIDTH}" height="{_HEIGHT}" fill="none" '
        'stroke="#aaa"/>'
    )
    marks = [
        *(_level(top + _HEIGHT * (high - mark) / (high - low), mark) for mark in ticks(low, high)),
        *(_instant(_LEFT + _WIDTH * mark / t_stop, bottom, mark) for mark in ticks(0, t_stop)),
    ]
    lines = _lines(top + _HEIGHT * (high - values) / (high - low))
    return "".join([*marks, frame, *lines, name])


def ticks(low: float, high: float) -> list[float]:
    """Round numbers from `low` to `high` > low: multiples of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / _INTERVALS
    power = math.floor(math.log10(rough))
    digit = min((1, 2, 5, 10), key=lambda digit: abs(math.log(digit * 10.0**power / rough)))
    first, last = (side / digit / 10.0**power for side in (low, high))
    counts = range(math.ceil(first - 1e-9), math.floor(last + 1e-9) + 1)
    return [float(f"{k * digit}e{power}") for k in counts]


def _level(y: float, value: float) -> str:
    """A thin line across a panel, with its value beside it."""
    return _rule(_LEFT, y, _LEFT + _WIDTH, y) + _text(_LEFT - 6, y + 4, "end", f"{value:.15g}")


def _instant(x: float, bottom: float, t: float) -> str:
    """A thin line up a panel, with its time [s] below it."""
    unit = " s" if t == 0 else ""
    return _rule(x, bottom - _HEIGHT, x, bottom) + _text(
        x, bottom + 16, "middle", f"{t:.15g}{unit}"
    )


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="#888" stroke-opacity=".25"/>'


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
    return f'<text x="{x:.6g}" y="{y:.6g}" text-anchor="{anchor}">{escape(text)}</text>'
