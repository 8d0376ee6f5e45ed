"""SVG charts: curves, axis ticks, legends and reproducibility."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

from drawn_curves import SVG, curves_in, legend, marks, plots_of, values_of
from rigidblocks.common.charts import Chart, chart_style, chart_svg

T = np.linspace(2.0, 5.0, 61)
PLACE = 0.1  # [px] rounding error of positions; a panel has at least 600 by 130 pixels


@pytest.mark.parametrize("scale", [1e-250, 3e-7, 1.0, 4.7e5, 1e250])
@pytest.mark.parametrize("middle", [0.0, 1.0, -30.0])
def test_chart_curve_positions_agree_with_the_axis_ticks(scale, middle):
    y = scale * (middle + np.sin(T))
    (svg,) = plots_of(chart_svg(Chart("y [m]", T, {"y": y})))
    ((t, drawn),) = values_of(svg)
    assert_allclose(t, T, atol=3.0 * 3 * PLACE / 600)
    assert_allclose(drawn, y, atol=scale * np.ptp(y / scale) * 3 * PLACE / 130)


@pytest.mark.parametrize(
    "values",
    [(1e308, -1e308), (5e-324, 0.0), (0.0, 0.0), (1e9, 1e9 + 1.0), (1e300, 1e300), (-7.0, -7.0)],
)
def test_chart_curves_of_extreme_values_are_within_their_panel(values):
    html = chart_svg(Chart("y", np.array([0.0, 1e-9]), {"a": np.array(values), "b": np.zeros(2)}))
    (svg,) = plots_of(html)
    (panel,) = re.findall(r'class="plot"><rect[^>]* width="([\d.]+)" height="([\d.]+)"', html)
    assert "nan" not in html
    for curve in curves_in(svg):
        assert np.all((curve >= 0.0) & (curve <= np.array(panel, dtype=float)))


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-6.014, 6.014), (0.0, 3e-4), (7.0, 9.0)])
def test_chart_axis_has_three_to_eight_equidistant_ticks(low, high):
    (svg,) = plots_of(chart_svg(Chart("y", T, {"y": np.linspace(low, high, len(T))})))
    values, _ = marks(svg, "y")
    assert 3 <= len(values) <= 8
    assert_allclose(np.diff(values), values[1] - values[0], rtol=1e-9)


def test_chart_curve_has_a_gap_at_nonfinite_values():
    y = np.sin(T)
    y[20:23] = np.nan, np.inf, -np.inf
    (svg,) = plots_of(chart_svg(Chart("y", T, {"y": y})))
    before, after = values_of(svg)
    assert (len(before[0]), len(after[0])) == (20, len(T) - 23)
    assert_allclose(after[1], y[23:], atol=2.0 * 3 * PLACE / 130)
    (svg,) = plots_of(chart_svg(Chart("y", T, {"y": np.full(len(T), np.nan)})))
    assert curves_in(svg) == []


def test_chart_limit_lines_are_dashed_and_each_line_has_a_legend_entry():
    lines = {f"y[{k}]": k * np.sin(T) for k in range(1, 10)}
    chart = Chart("y", T, lines, {"least": -2.0}, {"t = 3 s": 3.0})
    html = chart_svg(chart)
    (svg,) = plots_of(html)
    names = legend(svg)
    assert [*names] == [*lines, "least", "t = 3 s"]
    assert html.count("stroke-dasharray") == 2
    *_, level, moment = values_of(svg)
    assert_allclose(level[1], -2.0, atol=0.1)
    assert_allclose(moment[0], 3.0, atol=0.01)
    style = chart_style(chart.count)
    assert all(f"figure.chart .{kind}," in style for kind in names.values())


@pytest.mark.parametrize("count", [2, 3, 7, 11])
@pytest.mark.parametrize("length", [1, 5, 19, 80])
def test_chart_legend_entries_are_complete_and_do_not_overlap(count, length):
    lines = {f"{k:x}".ljust(length, "n"): T for k in range(count)}
    (svg,) = plots_of(chart_svg(Chart("y", T, lines)))
    assert [*legend(svg)] == [*lines]
    group = next(one for one in svg.iter() if one.get("class") == "legends")
    left, top = map(float, group.get("transform")[len("translate(") : -1].split(","))
    places = [(float(one.get("x")), float(one.get("y"))) for one in group.iter(f"{SVG}text")]
    assert len({*places}) == count
    assert max(y for _, y in places) + top <= float(svg.get("height")) - 2
    assert max(x for x, _ in places) + left + 7.2 * length <= float(svg.get("width"))
    columns = sorted({x for x, _ in places})
    assert np.all(np.diff(columns) >= 7.2 * length)


def test_chart_uses_the_colours_of_the_page_and_contains_no_scripts_or_links():
    text = chart_svg(Chart("a < b", T, {"<y>": T, "z": T})) + chart_style(2)
    assert "fill:currentColor" in text
    assert "#chart" not in text
    assert re.findall(r"script|url\(|@import|<!--|\bid=|href=", text) == []
    assert "&lt;y&gt;" in text


PROGRAM = """
import numpy as np
from rigidblocks.common.charts import Chart, chart_style, chart_svg
t = np.linspace(0, 1, 9)
print(chart_style(3) + chart_svg(Chart("y", t, {"a": t, "b": np.sin(t)}, {"most": 2.0})))
"""


@pytest.mark.slow
def test_import_error_after_a_drawn_chart_causes_no_warning():
    program = (
        PROGRAM
        + """
import warnings
warnings.simplefilter("error")
try:
    import no_such_module
except ModuleNotFoundError:
    print("missed")
"""
    )
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    assert ran.stdout.endswith(b"missed\n")


@pytest.mark.slow
def test_chart_file_is_byte_identical_in_each_process():
    def text(seed):
        given = {**os.environ, "PYTHONHASHSEED": seed}
        return subprocess.run(
            [sys.executable, "-c", PROGRAM], check=True, env=given, capture_output=True
        )

    assert text("1").stdout == text("2").stdout
