"""The outputs of a reference run as curves."""

from collections.abc import Iterator

import numpy as np

from rigidblocks.block.block import Port
from rigidblocks.charts import Chart, chart_style, chart_svg
from rigidblocks.fmi.reference import ReferenceRun, round_to_largest

_LETTERS = 60  # of the names of a port's elements in one row


def curves(run: ReferenceRun) -> str:
    """The outputs of the run over time, a chart for each port with its elements' names, and the
    style of these.
    """
    charts = [*_charts(run)]
    style = chart_style(max((chart.count for chart in charts), default=0))
    return "".join([f"<style>{style}</style>", *map(chart_svg, charts)])


def _charts(run: ReferenceRun) -> Iterator[Chart]:
    columns, t = run.output_columns, run.dt * np.arange(len(run.rows))
    for port in run.memory.block.outputs:
        if shown := [name for name in port.element_names if name in columns]:
            rows = [round_to_largest(run.rows[:, columns[name]]) for name in shown]
            title = f"{port.name} [{', '.join(dict.fromkeys(port.units))}]"
            yield Chart(title, t, dict(zip(_names(port, shown), rows, strict=True)))


def _names(port: Port, names: list[str]) -> list[str]:
    """The names of elements, of many their indices alone."""
    many = sum(map(len, names)) > _LETTERS
    return [name.removeprefix(port.name) for name in names] if many else names
