"""Documentation inside an FMU: a page about the block, and a reference run."""

import csv
import re
import sys
import textwrap
import zipfile
from dataclasses import dataclass
from html.parser import HTMLParser

import fmpy
import numpy as np
import pytest
from fmpy.util import read_csv, read_ref_opt_file
from numpy.testing import assert_allclose

from drawn_curves import SVG, curves_in, legend, plots_of
from fmu_blocks import BLOCKS
from fmu_instance import Host
from rigidblocks import (
    Block,
    ContinuousSystem,
    Port,
    RobotPlant,
    System,
    export_fmu,
    planar2,
)
from rigidblocks.block.adaptive_methods import DEFAULT_METHOD, memory_for
from rigidblocks.block.integrators import RK4
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.stepper import NumpyStepper
from rigidblocks.contact import BouncingBall
from rigidblocks.fmi.docstring_html import formulas, html_paragraphs
from rigidblocks.fmi.documentation import (
    ReferenceRun,
    documentation_content,
    names,
    page,
    prose,
    round_to_largest,
)
from rigidblocks.kernels.traced_evaluator import TracedEvaluator
from rigidblocks.library import Constant, Frame, FrameKinematics, Gain
from runaway import Runaway


@dataclass(frozen=True)
class Swing(Block):
    """x'' = -w^2 x from x = 1."""

    w: float
    states = outputs = (
        Port("x", (), "m", "position", 1.0, rate="v"),
        Port("v", (), "m/s", "velocity", 0.0),
    )

    def derivative(self, x):
        return {"x": x.v, "v": -self.w * self.w * x.x}


PRINTED = 1e-6  # the reference has seven digits of the largest value


class Tags(HTMLParser):
    """Parser that checks that every tag is closed, and stores the text."""

    def __init__(self):
        super().__init__()
        self.open, self.text = [], []

    def handle_starttag(self, tag, attributes):
        del attributes
        if tag not in ("meta", "rect", "path"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def text_of(html):
    tags = Tags()
    tags.feed(html)
    assert tags.open == []
    return "\n".join(tags.text)


@dataclass(frozen=True)
class Documented(Block):
    """Gain with Google sections.

        y = k u

    Args:
        k: Factor of the output, with a text that
            has two lines.
        label (str): Name on the page.

    Returns:
        Nothing.

    Raises:
        ValueError: k is not finite.

    After the sections.
    """

    k: float = 1.0
    label: str = ""
    inputs = (Port("u", (), "", "input"),)
    outputs = (Port("y", (), "", "output"),)

    def output(self, u):
        return {"y": self.k * u.u}


def test_documentation_page_lists_arguments_and_omits_other_docstring_sections():
    text = prose(Documented())
    assert text.split("\n\n") == [
        "Gain with Google sections.",
        "    y = k u",
        "Arguments:",
        "- `k`: Factor of the output, with a text that has two lines.\n"
        "- `label`: Name on the page.",
        "After the sections.",
    ]
    html = page(ReferenceRun(TracedEvaluator(Memory(Documented())), RK4, 1e-3), "model")
    assert "<li><code>k</code>: Factor of the output" in html
    for absent in ("Args:", "Returns", "Raises", "ValueError", "Nothing."):
        assert absent not in text_of(html)


@pytest.mark.slow
@pytest.mark.parametrize("name", BLOCKS)
def test_documentation_page_shows_the_equations_and_every_port(name):
    flat = Memory(BLOCKS[name], ())
    files = documentation_content(TracedEvaluator(flat), "model", RK4, 1e-3)
    html = files["documentation/index.html"].decode()
    text = text_of(html)
    shown = "".join(text.split())
    for part in prose(flat.block).split("\n\n"):
        if part.startswith("    "):
            assert formulas(textwrap.dedent(part), names(flat.block)) in html
        else:
            items = re.split(r"^- ", part, flags=re.MULTILINE)
            assert all("".join(item.replace("`", "").split()) in shown for item in items)
    for port in (
        *flat.block.inputs,
        *flat.block.outputs,
        *flat.block.states,
        *flat.block.sampled,
        *flat.block.parameters,
    ):
        assert port.name in text.split("\n")
        assert port.doc in text
    assert ("Constants" in text) == bool(flat.block.parameters)


@pytest.mark.slow
def test_documentation_page_separates_tunable_parameters_from_constants():
    both = ReferenceRun(TracedEvaluator(Memory(BouncingBall(), ("e",))), RK4, 1e-3)
    text = text_of(page(both, "model"))
    tunable, rest = text.split("Tunable parameters")[1].split("Constants")
    constants = rest.split("Connections")[0]
    assert "\ne\n" in tunable
    assert "\ng\n" not in tunable
    assert "\ne\n" not in constants
    assert "\ng\n" in constants
    assert "one step later" not in text  # the block has no inputs
    gain = text_of(page(ReferenceRun(TracedEvaluator(Memory(Gain(2.0))), RK4, 1e-3), "model"))
    assert "one step later" not in gain  # the output has direct feedthrough
    assert "Constants" not in gain


@pytest.mark.slow
@pytest.mark.parametrize("name", BLOCKS)
def test_fmu_reproduces_the_reference_run_in_its_archive(tmp_path, name):
    path, flat = export_fmu(BLOCKS[name], tmp_path / "a.fmu", name="model"), Memory(BLOCKS[name])
    zipfile.ZipFile(path).extractall(tmp_path / "files")
    documentation = tmp_path / "files/documentation"
    variables = [v.name for v in fmpy.read_model_description(str(path)).modelVariables]
    reference = read_csv(str(documentation / "model_ref.csv"))
    options = read_ref_opt_file(str(documentation / "model_ref.opt"))
    inputs = (
        np.genfromtxt(documentation / "model_in.csv", delimiter=",", skip_header=1)
        if flat.block.inputs
        else None
    )
    names = header(documentation / "model_ref.csv")
    instance = Host(path, tmp_path)
    dt, rows = options["StepSize"], []
    for k, t in enumerate(reference["time"]):
        if inputs is not None:
            instance.set(flat.u, inputs[k, 1:] if k == 0 else inputs[k - 1, 1:])
        instance.initialize() if k == 0 else instance.fmu.doStep(t - dt, dt)
        rows.append(instance.m[[variables.index(column) for column in names[1:]]])
    values = np.array([list(row) for row in reference])[:, 1:]
    assert options["StopTime"] == reference["time"][-1]
    assert len(rows) > 10
    assert_allclose(rows, values, rtol=PRINTED, atol=PRINTED * max(1.0, np.abs(values).max()))
    instance.fmu.freeInstance()


def header(path):
    return next(csv.reader(path.read_text().splitlines()))


@pytest.mark.slow
def test_reference_result_files_follow_the_fmi_cross_check_rules():
    content = documentation_content(
        TracedEvaluator(Memory(BLOCKS["mixed joints"])), "model", RK4, 1e-3
    )
    for name in ("model_ref.csv", "model_in.csv"):
        lines = content[f"documentation/{name}"].decode().splitlines()
        assert lines[0].startswith('"time","')
        assert len({line.count(",") for line in lines[1:]}) == 1
        assert not any(line.endswith(",") for line in lines)
        assert len(content[f"documentation/{name}"]) < 2**20
    assert (
        len(next(csv.reader([content["documentation/model_ref.csv"].decode().splitlines()[0]])))
        <= 11
    )


def test_traced_reference_run_matches_the_results_of_numpy():
    flat = Memory(BLOCKS["sampled pd"])
    run = ReferenceRun(TracedEvaluator(flat), RK4, 1e-3)
    numpy, m = NumpyStepper(flat), flat.start()
    m[flat.u] = run.inputs(0.0)
    numpy.initialize(m, 0.0)
    for k, row in enumerate(run.rows[:20]):
        assert_allclose(
            row[flat.y], m[flat.y], rtol=1e-12, atol=1e-12
        )  # rounding of reordered operations
        m[flat.u] = run.inputs(k * run.dt)
        numpy.step(m, k * run.dt, run.dt)


@pytest.mark.parametrize("h", [1e-2, 1e-3, 1e-5])
def test_reference_run_has_10_to_100_steps(h):
    run = ReferenceRun(TracedEvaluator(Memory(BLOCKS["planar2"])), RK4, h)
    assert 10 <= len(run.rows) - 1 <= 100
    assert (len(run.rows) - 1) * run.dt / h <= 1000 * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("frequency", [1e5, 1e6])
def test_reference_run_of_a_fast_oscillation_has_ten_or_more_steps_per_period(frequency):
    """A run of x = cos(w t) has at least ten steps, for any number of periods in 10 ms."""
    memory = memory_for(Swing(frequency), DEFAULT_METHOD)
    run = ReferenceRun(TracedEvaluator(memory), DEFAULT_METHOD, np.inf)
    assert 10 < len(run.rows) <= 101
    t = run.dt * np.arange(len(run.rows))
    assert run.dt <= 20.0 / frequency
    assert_allclose(run.rows[:, memory.where["x"]][:, 0], np.cos(frequency * t), atol=1e-3)


@pytest.mark.slow
def test_documentation_page_plots_a_curve_for_each_output_element():
    flat = Memory(BLOCKS["planar2"])
    html = page(ReferenceRun(TracedEvaluator(flat), RK4, 1e-3), "model")
    count = sum(len(curves_in(svg)) for svg in plots_of(html))
    assert count == sum(port.size for port in flat.block.outputs)


def test_documentation_page_shows_the_install_command_instead_of_curves_without_matplotlib(
    monkeypatch,
):
    run = ReferenceRun(TracedEvaluator(Memory(Gain(2.0))), RK4, 1e-3)
    assert plots_of(page(run, "model"))
    monkeypatch.setitem(sys.modules, "pygal", None)
    html = page(run, "model")
    assert plots_of(html) == []
    assert "pip install pygal" in text_of(html)


@pytest.mark.slow
def test_documentation_page_of_a_system_describes_its_parts_and_draws_its_robot():
    system = System()
    system.add("arm", RobotPlant(planar2(), [0.4, -0.8]), start={"tau": [0.0, 0.0]})
    system.add("tip", FrameKinematics(planar2(), [Frame("tip", 1)]))
    for name in ("q", "qd"):
        system.connect(f"arm.{name}", f"tip.{name}")
    run = ReferenceRun(TracedEvaluator(Memory(ContinuousSystem(system))), RK4, 1e-3)
    html = page(run, "model")
    text = text_of(html)
    for kind in (RobotPlant, FrameKinematics):
        assert kind.__doc__.split("\n")[0].strip() in text
    assert "Raises" not in text
    assert "Limits of use" in text
    assert "joint2" in html[html.index("<svg") : html.index("</svg>")]
    assert [*run.output_columns][:4] == ["arm.q[1]", "arm.q[2]", "arm.qd[1]", "arm.qd[2]"]


def test_plot_legends_of_the_documentation_page_have_at_most_60_characters():
    flat = Memory(FrameKinematics(planar2(), [Frame("far_end_of_the_tool", 1)]))
    html = page(ReferenceRun(TracedEvaluator(flat), RK4, 1e-3), "model")
    legends = {len(names): [*names] for svg in plots_of(html) if (names := legend(svg))}
    assert legends[7] == [f"[{i},{j}]" for i in (1, 2, 3) for j in (1, 2, 3)][:7]
    assert all(sum(map(len, names)) <= 60 for names in legends.values())


def test_special_html_characters_in_docstrings_are_escaped():
    class Tricky(type(BLOCKS["pd"])):
        """Text with a < b & <script>."""

    text = page(ReferenceRun(TracedEvaluator(Memory(Tricky((1.0,), (1.0,)))), RK4, 1e-3), "a<b")
    assert "<script>" not in text
    assert "a &lt; b &amp; &lt;script&gt;" in text


def test_docstring_converts_to_html_paragraphs_equations_lists_and_code():
    text = "Some `x` and\nmore.\n\n    a.b(x)\n        + 'b' < 1\n\n- one\n  and on\n- two"
    assert [*html_paragraphs(text)] == [
        "<p>Some <code>x</code> and more.</p>",
        "<pre>a.b(x)\n    + &#x27;b&#x27; &lt; 1</pre>",
        "<ul><li>one and on</li><li>two</li></ul>",
    ]


def test_documentation_page_lists_direct_feedthrough():
    text = page(ReferenceRun(TracedEvaluator(Memory(BLOCKS["pd"])), RK4, 1e-3), "model")
    read = "".join(f"<code>{name}</code>, " for name in ("q_ref", "q", "qd_ref"))
    assert f"<li><code>tau</code> reads {read}<code>qd</code> at the same instant.</li>" in text


@pytest.mark.parametrize(
    ("start", "written"),
    [(1.5, "1.5"), ([0.0] * 3, "0, 0, 0"), ([0.0] * 9, "0 each"), ([0.0] * 8 + [-1], None)],
)
def test_port_table_shows_the_common_start_value_of_many_elements_once(start, written):
    block = Constant(start)
    text = page(ReferenceRun(TracedEvaluator(Memory(block)), RK4, 1e-3), "model")
    assert f"<td>{written or '0, ' * 8 + '-1'}</td>" in text


@pytest.mark.slow
def test_plot_legend_lists_the_elements_of_a_port():
    html = page(ReferenceRun(TracedEvaluator(Memory(BLOCKS["planar2"])), RK4, 1e-3), "model")
    first, second, *_ = plots_of(html)
    assert [*legend(first)] == ["q[1]", "q[2]"]
    assert [*legend(second)] == ["qd[1]", "qd[2]"]
    assert first.findtext(f"{SVG}title") == "q [rad]"


def test_rounding_errors_do_not_change_the_rounded_values_of_reference_results():
    column = np.array([1.0, -1e-17, 1 / 3])
    assert round_to_largest(column).tolist() == round_to_largest(column * (1 + 1e-15)).tolist()
    assert str(round_to_largest(column)[1]) == "0.0"
    assert round_to_largest(np.array([1e-17, -1e-18])).tolist() == [0.0, 0.0]


@pytest.mark.slow
def test_reference_run_of_a_diverging_block_has_only_finite_values():
    run = ReferenceRun(TracedEvaluator(Memory(Runaway())), RK4, 1e-3)
    assert np.all(np.isfinite(run.rows))
