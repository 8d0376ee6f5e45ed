"""Charts: their curves are the numbers that they are made of, and their bytes are the same in every
process.
"""

import os
import re
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

from drawn_curves import SVG, curves_in, legend, marks, plots_of, values_of
from rigidblocks.charts import Chart, chart_style, chart_svg

T = np.linspace(2.0, 5.0, 61)
PLACE = 0.1  # [px], to which places are rounded; a panel is 600 by 130 at least


@pytest.mark.parametrize("scale", [1e-250, 3e-7, 1.0, 4.7e5, 1e250])
@pytest.mark.parametrize("middle", [0.0, 1.0, -30.0])
def test_a_curve_is_where_the_marks_of_its_axes_say(scale, middle):
    y = scale * (middle + np.sin(T))
    (svg,) = plots_of(chart_svg(Chart("y [m]", T, {"y": y})))
    ((t, drawn),) = values_of(svg)
    assert_allclose(t, T, atol=3.0 * 3 * PLACE / 600)
    assert_allclose(drawn, y, atol=scale * np.ptp(y / scale) * 3 * PLACE / 130)


@pytest.mark.parametrize(
    "values",
    [(1e308, -1e308), (5e-324, 0.0), (0.0, 0.0), (1e9, 1e9 + 1.0), (1e300, 1e300), (-7.0, -7.0)],
)
def test_curves_of_any_numbers_are_within_their_panel(values):
    html = chart_svg(Chart("y", np.array([0.0, 1e-9]), {"a": np.array(values), "b": np.zeros(2)}))
    (svg,) = plots_of(html)
    (panel,) = re.findall(r'class="plot"><rect[^>]* width="([\d.]+)" height="([\d.]+)"', html)
    assert "nan" not in html
    for curve in curves_in(svg):
        assert np.all((curve >= 0.0) & (curve <= np.array(panel, dtype=float)))


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-6.014, 6.014), (0.0, 3e-4), (7.0, 9.0)])
def test_marks_of_an_axis_are_few_and_at_equal_distances(low, high):
    (svg,) = plots_of(chart_svg(Chart("y", T, {"y": np.linspace(low, high, len(T))})))
    values, _ = marks(svg, "y")
    assert 3 <= len(values) <= 8
    assert_allclose(np.diff(values), values[1] - values[0], rtol=1e-9)


def test_a_value_that_is_not_finite_is_a_gap():
    y = np.sin(T)
    y[20:23] = np.nan, np.inf, -np.inf
    (svg,) = plots_of(chart_svg(Chart("y", T, {"y": y})))
    before, after = values_of(svg)
    assert (len(before[0]), len(after[0])) == (20, len(T) - 23)
    assert_allclose(after[1], y[23:], atol=2.0 * 3 * PLACE / 130)
    (svg,) = plots_of(chart_svg(Chart("y", T, {"y": np.full(len(T), np.nan)})))
    assert curves_in(svg) == []


def test_levels_and_a_moment_are_dashed_and_every_line_has_its_name_and_colour():
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
def test_names_of_lines_are_whole_and_stand_in_the_chart_one_beside_the_other(count, length):
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


def test_a_chart_has_the_colours_of_its_page_and_runs_and_loads_nothing():
    text = chart_svg(Chart("a < b", T, {"<y>": T, "z": T})) + chart_style(2)
    assert "fill:currentColor" in text
    assert "#chart" not in text
    assert re.findall(r"script|url\(|@import|<!--|\bid=|href=", text) == []
    assert "&lt;y&gt;" in text


PROGRAM = """
import numpy as np
from rigidblocks.charts import Chart, chart_style, chart_svg
t = np.linspace(0, 1, 9)
print(chart_style(3) + chart_svg(Chart("y", t, {"a": t, "b": np.sin(t)}, {"most": 2.0})))
"""


@pytest.mark.slow
def test_what_is_not_there_is_missed_without_a_warning_after_a_chart():
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


def test_a_chart_has_the_same_bytes_in_every_process():
    def text(seed):
        given = {**os.environ, "PYTHONHASHSEED": seed}
        return subprocess.run(
            [sys.executable, "-c", PROGRAM], check=True, env=given, capture_output=True
        )

    assert text("1").stdout == text("2").stdout
