"""Requirements of a run, checked against signals with known closed forms."""

import json
import re
import sys

import numpy as np
import pytest
from lxml import etree
from numpy.testing import assert_allclose

from rigidblocks import Port, Result, System, simulate
from rigidblocks.cli import main
from rigidblocks.common.package_info import __version__
from rigidblocks.library import LowPass
from rigidblocks.studies.requirements import (
    Always,
    Eventually,
    Formula,
    Overshoot,
    SettlingTime,
    TrackingError,
    check_requirements,
    html_report,
    junit_report,
    load_requirements,
    save_report,
    text_report,
)

T = np.linspace(0.0, 10.0, 10_001)
ZETA, OMEGA = 0.2, 3.0
DAMPED = OMEGA * np.sqrt(1 - ZETA**2)


def step_answer(t):
    """Return the second-order response to a step of 2 (Franklin, Powell, Emami-Naeini, 3.3)."""
    phase = np.cos(DAMPED * t) + ZETA / np.sqrt(1 - ZETA**2) * np.sin(DAMPED * t)
    return 2.0 * (1.0 - np.exp(-ZETA * OMEGA * t) * phase)


RUN = Result.from_signals(
    T,
    [
        (Port("plant.y", (), "m"), step_answer(T)),
        (Port("plant.r", (), "m"), np.full(len(T), 2.0)),
        (Port("plant.q", (2,), "rad"), np.stack([np.sin(T), 3.0 * np.cos(T)], axis=1)),
    ],
    {},
)


def number(requirement):
    return requirement.check(RUN).number


def test_overshoot_and_settling_time_match_the_formulas_of_a_second_order_system():
    expected = np.exp(-np.pi * ZETA / np.sqrt(1 - ZETA**2))
    assert abs(number(Overshoot("plant.y", 2.0, 0.5)) - expected) < 1e-6
    assert Overshoot("plant.y", 2.0, expected + 1e-6).check(RUN).kept
    assert not Overshoot("plant.y", 2.0, expected - 1e-6).check(RUN).kept
    assert abs(Overshoot("plant.y", 2.0, 0.0).check(RUN).t - np.pi / DAMPED) < 1e-3
    settled = number(SettlingTime("plant.y", 2.0, 0.04, 9.0))
    assert np.all(np.abs(step_answer(T[settled <= T]) - 2.0) <= 0.04)
    assert abs(step_answer(settled - 2e-3) - 2.0) > 0.04
    never = SettlingTime("plant.y", 2.0, 1e-9, 100.0).check(RUN)
    assert (never.kept, never.number) == (False, np.inf)
    assert number(SettlingTime("plant.y", 2.0, 0.04, 9.0, after=8.0)) == 0.0
    falling = Overshoot("plant.q[1]", -0.5, 1.0, after=np.pi / 2, before=2 * np.pi)
    assert abs(number(falling) - 0.5 / 1.5) < 1e-6  # the step from 1 to -0.5 overshoots to -1


def test_always_and_eventually_requirements_check_their_signal_bounds():
    worst = Always("plant.q", -2.0, 5.0, before=5.0).check(RUN)  # worst of both elements
    assert (worst.kept, round(worst.number, 3), round(worst.t, 2)) == (False, -3.0, 3.14)
    assert Always("plant.q", -2.0, 5.0, before=2.0).check(RUN).kept
    assert not Always("plant.q[1]", upper=0.99).check(RUN).kept
    assert Eventually("plant.q[1]", 0.9, 2.0).check(RUN).kept
    width = np.pi - 2 * np.arcsin(0.9)
    assert abs(number(Eventually("plant.q[1]", 0.9, 2.0)) - width) < 2e-3
    assert not Eventually("plant.q[1]", 0.9, 2.0, hold=width + 0.01).check(RUN).kept
    assert not Eventually("plant.q[1]", 1.5, 2.0).check(RUN).kept


def test_tracking_error_requirement_checks_the_maximum_or_rms_error():
    assert number(TrackingError("plant.y", "plant.r", 1.0)) == 2.0
    late = TrackingError("plant.y", "plant.r", 1.0, rms=True, after=5.0)
    rest = step_answer(T[T >= 5.0 - 1e-9]) - 2.0
    assert abs(number(late) - np.sqrt(np.mean(rest**2))) < 1e-12
    with pytest.raises(ValueError, match="different shapes"):
        number(TrackingError("plant.q", "plant.r", 1.0))
    with pytest.raises(KeyError, match=r"no signal 'plant.z'"):
        number(Always("plant.z"))
    with pytest.raises(ValueError, match=r"no samples from 20.0 s to"):
        number(Always("plant.y", after=20.0))
    with pytest.raises(
        ValueError,
        match=r"the overshoot of plant.r is undefined, because the signal starts at its target 2",
    ):
        number(Overshoot("plant.r", 2.0, 0.1))


SOME = (
    Always("plant.y", upper=3.0),
    Always("plant.y", -1.0, 5.0),
    TrackingError("plant.y", "plant.r", 9),
)


@pytest.mark.slow
def test_html_report_lists_the_version_the_step_and_the_parameters_of_the_run():
    system = System()
    system.add("low <pass>", LowPass(0.25), start={"u": 1.5})
    result = simulate(system, 0.1, 0.01, progress=False)
    page = html_report(check_requirements(result, [Always("low <pass>.y", lower=0.0)]), result)
    assert f"rigidblocks {__version__}" in page
    assert "t = 0 to 0.1 s" in page
    assert "dt = 0.01 s" in page
    assert "<td>low &lt;pass&gt;</td><td>LowPass</td><td>T = 0.25, u = 1.5</td>" in page


@pytest.mark.slow
@pytest.mark.parametrize("parts", ["no JSON", "[1, 2]", '{"arm": 3}', 5])
def test_html_report_of_a_record_of_another_program_has_no_parameters(parts):
    foreign = Result.from_signals(T, [(Port("plant.y"), step_answer(T))], {"parts": parts})
    assert "<table>" not in html_report(check_requirements(foreign, SOME[:1]), foreign)


@pytest.mark.slow
def test_reports_in_every_format_show_violated_requirements(tmp_path):
    checked = check_requirements(RUN, SOME)
    assert text_report(checked).count("BROKEN") == 1
    assert "3 requirements, 1 broken" in text_report(checked)
    suite = etree.fromstring(junit_report(checked, "arm <1>").encode())[0]
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("arm <1>", "3", "1")
    assert [len(case) for case in suite] == [1, 0, 0]
    page = html_report(checked, RUN, "arm <1>")
    assert page.count("<svg") == 3
    assert "arm &lt;1&gt;: 3 requirements, 1 broken" in page
    for svg in page.split("<svg")[1:]:
        etree.fromstring("<svg" + svg.split("</svg>")[0] + "</svg>")
        assert len(svg) < 40_000
    for suffix in (".txt", ".html", ".xml"):
        save_report(tmp_path / f"report{suffix}", checked, RUN)
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        "report.html",
        "report.txt",
        "report.xml",
    ]
    with pytest.raises(ValueError, match=r"expected .txt, .html or .xml"):
        save_report(tmp_path / "report.pdf", checked, RUN)


def test_html_report_without_its_plotting_package_is_rejected_before_the_run(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setitem(sys.modules, "pygal", None)
    command = r"needs pygal: pip install pygal"
    with pytest.raises(ImportError, match=command):
        save_report(tmp_path / "report.html", check_requirements(RUN, SOME), RUN)
    assert not [*tmp_path.iterdir()]
    save_report(tmp_path / "report.xml", check_requirements(RUN, SOME), RUN)
    system, keep = tmp_path / "system.py", tmp_path / "keep.json"
    system.write_text("raise AssertionError('the system must not be loaded')")
    keep.write_text("[]")
    html = str(tmp_path / "report.html")
    assert main(["run", str(system), "--require", str(keep), "--report", html]) != 0
    assert re.search(command, capsys.readouterr().err)


def test_valid_requirement_files_are_loaded_and_invalid_entries_are_rejected(tmp_path):
    path = tmp_path / "keep.yaml"
    path.write_text(
        "- {kind: always, signal: plant.y, upper: 3}\n"
        "- {kind: settling_time, signal: plant.y, value: 2, within: 0.04, at_most: 9}\n"
        "- {kind: tracking error, signal: plant.y, reference: plant.r, at_most: 9, rms: true}\n"
    )
    first, second, third = load_requirements(path)
    assert (first, third) == (SOME[0], TrackingError("plant.y", "plant.r", 9, rms=True))
    assert second == SettlingTime("plant.y", 2, 0.04, 9)
    for text, said in (
        ("{}", "needs a list"),
        ("- {kind: sometimes}", "unknown kind 'sometimes' of requirement 1"),
        (
            "- always: {signal: a.b, upper: 3}",
            "requirement 1 of .* has no 'kind'; write for example",
        ),
        ("- {kind: always, signal: a.b, top: 3}", "no 'top'; available: signal, lower, upper"),
        ("- {kind: always, signal: 3}", "invalid 'signal' of .*: expected str, not 3"),
        (
            "- {kind: always, signal: a.b, upper: much}",
            "invalid 'upper' of .*: expected float, not 'much'",
        ),
        ("- {kind: overshoot, signal: a.b, value: 1}", "needs 'at_most'"),
        ("- kind: [", "invalid YAML"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=said):
            load_requirements(path)


@pytest.mark.interop
@pytest.mark.filterwarnings("ignore:typing.io:DeprecationWarning")  # from antlr in rtamt
def test_values_of_temporal_logic_formulas_match_their_definition(tmp_path):
    y = step_answer(T)
    late = T >= 5.0 - 1e-9
    text = "always[5:10](abs(y - {plant.r}) <= 0.3)"
    formula = Formula("plant.y", text)
    assert_allclose(number(formula), np.min(0.3 - np.abs(y - 2.0)[late]), rtol=1e-12)
    assert formula.check(RUN).kept
    assert not Formula("plant.y", "always(y <= 3.0)").check(RUN).kept
    assert_allclose(number(Formula("plant.y", "eventually[0:2](y > 2.9)")), y.max() - 2.9)
    both = Formula("plant.q", "always[0:1](y >= -0.5)").check(RUN)  # worst of both elements
    assert_allclose(both.number, 0.5, rtol=1e-12)
    # whenever the response is above its final value, it returns within half a period
    back = "always[0:8](y > 2.05 implies eventually[0:1.1](y <= 2.0))"
    assert Formula("plant.y", back).check(RUN).kept
    assert not Formula("plant.y", back.replace("1.1", "0.5")).check(RUN).kept
    held = Formula("plant.y", "(y < 2.0) until[0:1] (y >= 1.9)", before=1.0)
    assert held.check(RUN).kept
    for wrong, said in (
        ("alwys(y > 1", "invalid STL formula .*: .*Syntax ERROR"),
        ("z > 1", "unknown signal 'z' in STL formula 'z > 1'; known signals: y"),
        ("always[2:1](y > 1)", "invalid time bounds 2"),
        ("always[9:11](y > 1)", "needs a signal of 11 s, but the run has only 10 s"),
        ("y > {plant.q}", "plant.q has 2 elements"),
    ):
        with pytest.raises(ValueError, match=said):
            number(Formula("plant.y", wrong))
    path = tmp_path / "keep.yaml"
    path.write_text(f"- {{kind: formula, signal: plant.y, formula: '{text}'}}\n")
    assert load_requirements(path) == (formula,)
    page = html_report(check_requirements(RUN, [formula]), RUN)
    assert "always[5:10](abs(y - {plant.r}) &lt;= 0.3) holds; its robustness" in page


@pytest.mark.slow
def test_run_command_exits_with_1_for_a_violated_requirement(tmp_path, capsys):
    script, keep = tmp_path / "bench.py", tmp_path / "keep.json"
    script.write_text(
        "from rigidblocks import Sine, System\nsystem = System()\n"
        "system.add('sine', Sine((1.0,), (3.0,)))\n"
    )
    words = ["run", str(script), "--dt", "0.01", "--require", str(keep)]
    xml = tmp_path / "keep.xml"
    for high, code in ((1.1, 0), (0.9, 1)):
        keep.write_text(json.dumps([{"kind": "always", "signal": "sine.y", "upper": high}]))
        assert main([*words, "--report", str(xml)]) == code
        assert ("BROKEN" in capsys.readouterr().out) == bool(code)
        assert etree.parse(xml).getroot().get("failures") == str(code)
    keep.write_text("[{")
    assert main(words) == 2
    assert main([*words[:4], "--report", str(xml)]) == 2
    assert "--require" in capsys.readouterr().err


def test_check_command_evaluates_requirements_of_a_record_and_writes_reports(tmp_path, capsys):
    t = np.linspace(0.0, 1.0, 101)
    port = Port("bench.y", (2,), "rad", "angle")
    values = np.stack([t, -t], axis=1)
    record = Result(t, (port,), values, {}).save(tmp_path / "run.csv")
    keep, xml, text = (tmp_path / name for name in ("keep.yaml", "keep.xml", "keep.txt"))
    for upper, code in ((1.0, 0), (0.5, 1)):
        keep.write_text(f"- {{kind: always, signal: 'bench.y[1]', upper: {upper}}}\n")
        words = ["check", str(record), "--require", str(keep)]
        assert main([*words, "--report", str(xml), "--report", str(text)]) == code
        said = capsys.readouterr().out
        assert ("BROKEN" in said) == bool(code)
        assert said.strip() == text.read_text().strip()
        assert etree.parse(xml).getroot().get("failures") == str(code)
        assert main([*words, "--json"]) == code
        (found,) = json.loads(capsys.readouterr().out)["requirements"]
        assert found["kept"] is (code == 0)
        assert found["number"] == 1.0


def test_check_command_rejects_result_files_without_requirements_and_other_files(tmp_path, capsys):
    record = Result(np.zeros(1), (), np.zeros((1, 0)), {}).save(tmp_path / "run.csv")
    keep = tmp_path / "keep.yaml"
    keep.write_text("- {kind: always, signal: a.y, upper: 1}\n")
    robot = tmp_path / "arm.urdf"
    robot.write_text("<robot name='arm'><link name='base'/></robot>")
    for words, said in (
        ([record], "is a result file and needs requirements, such as --require keep.yaml"),
        ([robot, "--require", keep], "'{robot}' is not a result file"),
        ([record, "--require", keep], "no signal 'a.y'"),
        ([record, "--require", keep, "--report", "keep.pdf"], ".txt, .html or .xml"),
    ):
        assert main(["check", *map(str, words)]) == 2
        assert said.format(robot=robot) in capsys.readouterr().err
