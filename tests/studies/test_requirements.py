"""What a run keeps, against signals in closed form."""

import json

import numpy as np
import pytest
from lxml import etree
from numpy.testing import assert_allclose

from rigidblocks import Port, Result
from rigidblocks.cli import main
from rigidblocks.study.report import html_report, junit_report, save_report, text_report
from rigidblocks.study.requirements import (
    Always,
    Eventually,
    Formula,
    Overshoot,
    SettlingTime,
    TrackingError,
    check_requirements,
    load_requirements,
)

T = np.linspace(0.0, 10.0, 10_001)
ZETA, OMEGA = 0.2, 3.0
DAMPED = OMEGA * np.sqrt(1 - ZETA**2)


def step_answer(t):
    """Of a second-order system to a step of 2 (Franklin, Powell and Emami-Naeini, 3.3)."""
    phase = np.cos(DAMPED * t) + ZETA / np.sqrt(1 - ZETA**2) * np.sin(DAMPED * t)
    return 2.0 * (1.0 - np.exp(-ZETA * OMEGA * t) * phase)


RUN = Result.of_signals(
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


def test_overshoot_and_settling_are_those_of_the_second_order_system():
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
    assert abs(number(falling) - 0.5 / 1.5) < 1e-6  # from 1 to -0.5, and on to -1


def test_bounds_hold_always_or_at_some_time():
    worst = Always("plant.q", -2.0, 5.0, before=5.0).check(RUN)  # of both elements
    assert (worst.kept, round(worst.number, 3), round(worst.t, 2)) == (False, -3.0, 3.14)
    assert Always("plant.q", -2.0, 5.0, before=2.0).check(RUN).kept
    assert not Always("plant.q[1]", high=0.99).check(RUN).kept
    assert Eventually("plant.q[1]", 0.9, 2.0).check(RUN).kept
    width = np.pi - 2 * np.arcsin(0.9)
    assert abs(number(Eventually("plant.q[1]", 0.9, 2.0)) - width) < 2e-3
    assert not Eventually("plant.q[1]", 0.9, 2.0, hold=width + 0.01).check(RUN).kept
    assert not Eventually("plant.q[1]", 1.5, 2.0).check(RUN).kept


def test_tracking_is_measured_at_its_worst_and_in_the_mean():
    assert number(TrackingError("plant.y", "plant.r", 1.0)) == 2.0
    late = TrackingError("plant.y", "plant.r", 1.0, rms=True, after=5.0)
    rest = step_answer(T[T >= 5.0 - 1e-9]) - 2.0
    assert abs(number(late) - np.sqrt(np.mean(rest**2))) < 1e-12
    with pytest.raises(ValueError, match="different shapes"):
        number(TrackingError("plant.q", "plant.r", 1.0))
    with pytest.raises(KeyError, match=r"no signal 'plant.z'"):
        number(Always("plant.z"))
    with pytest.raises(ValueError, match=r"no rows from 20.0 to"):
        number(Always("plant.y", after=20.0))
    with pytest.raises(ValueError, match=r"plant.r begins at 2"):
        number(Overshoot("plant.r", 2.0, 0.1))


SOME = (
    Always("plant.y", high=3.0),
    Always("plant.y", -1.0, 5.0),
    TrackingError("plant.y", "plant.r", 9),
)


def test_reports_say_which_are_broken(tmp_path):
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
    with pytest.raises(ValueError, match=r"a report is a .txt, .html or .xml file"):
        save_report(tmp_path / "report.pdf", checked, RUN)


def test_files_of_requirements(tmp_path):
    path = tmp_path / "keep.yaml"
    path.write_text(
        "- {kind: always, signal: plant.y, high: 3}\n"
        "- {kind: settling time, signal: plant.y, value: 2, within: 0.04, at_most: 9}\n"
        "- {kind: tracking error, signal: plant.y, reference: plant.r, at_most: 9, rms: true}\n"
    )
    first, second, third = load_requirements(path)
    assert (first, third) == (SOME[0], TrackingError("plant.y", "plant.r", 9, rms=True))
    assert second == SettlingTime("plant.y", 2, 0.04, 9)
    for text, said in (
        ("{}", "needs a list"),
        ("- {kind: sometimes}", "requirement 1 of .* no kind"),
        ("- {kind: always, signal: a.b, top: 3}", "no 'top'; there are: signal, low, high"),
        ("- {kind: always, signal: 3}", "3 as 'signal', which is no str"),
        ("- {kind: always, signal: a.b, high: much}", "'much' as 'high', which is no float"),
        ("- {kind: overshoot, signal: a.b, value: 1}", "leaves out 'at_most'"),
        ("- kind: [", "is no YAML"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=said):
            load_requirements(path)


@pytest.mark.interop
@pytest.mark.filterwarnings("ignore:typing.io:DeprecationWarning")  # of antlr, for rtamt
def test_formulas_of_temporal_logic_hold_by_what_their_definition_says(tmp_path):
    y = step_answer(T)
    late = T >= 5.0 - 1e-9
    text = "always[5:10](abs(y - {plant.r}) <= 0.3)"
    formula = Formula("plant.y", text)
    assert_allclose(number(formula), np.min(0.3 - np.abs(y - 2.0)[late]), rtol=1e-12)
    assert formula.check(RUN).kept
    assert not Formula("plant.y", "always(y <= 3.0)").check(RUN).kept
    assert_allclose(number(Formula("plant.y", "eventually[0:2](y > 2.9)")), y.max() - 2.9)
    both = Formula("plant.q", "always[0:1](y >= -0.5)").check(RUN)  # of both elements
    assert_allclose(both.number, 0.5, rtol=1e-12)
    # whenever it is above its end it comes back within half a period
    back = "always[0:8](y > 2.05 implies eventually[0:1.1](y <= 2.0))"
    assert Formula("plant.y", back).check(RUN).kept
    assert not Formula("plant.y", back.replace("1.1", "0.5")).check(RUN).kept
    held = Formula("plant.y", "(y < 2.0) until[0:1] (y >= 1.9)", before=1.0)
    assert held.check(RUN).kept
    for wrong, said in (
        ("alwys(y > 1", "is no formula: .*Syntax ERROR"),
        ("z > 1", "'z' in 'z > 1' is none of: y"),
        ("always[2:1](y > 1)", "in a wrong order"),
        ("always[9:11](y > 1)", "looks 11 s ahead, and the run has 10 s"),
        ("y > {plant.q}", "plant.q has 2 numbers"),
    ):
        with pytest.raises(ValueError, match=said):
            number(Formula("plant.y", wrong))
    path = tmp_path / "keep.yaml"
    path.write_text(f"- {{kind: formula, signal: plant.y, formula: '{text}'}}\n")
    assert load_requirements(path) == (formula,)
    page = html_report(check_requirements(RUN, [formula]), RUN)
    assert "always[5:10](abs(y - {plant.r}) &lt;= 0.3) holds, by" in page


@pytest.mark.slow
def test_the_command_ends_with_1_where_something_is_broken(tmp_path, capsys):
    script, keep = tmp_path / "bench.py", tmp_path / "keep.json"
    script.write_text(
        "from rigidblocks import Sine, System\nsystem = System()\n"
        "system.add('sine', Sine((1.0,), (3.0,)))\n"
    )
    words = ["run", str(script), "--dt", "0.01", "--require", str(keep)]
    xml = tmp_path / "keep.xml"
    for high, code in ((1.1, 0), (0.9, 1)):
        keep.write_text(json.dumps([{"kind": "always", "signal": "sine.y", "high": high}]))
        assert main([*words, "--report", str(xml)]) == code
        assert ("BROKEN" in capsys.readouterr().out) == bool(code)
        assert etree.parse(xml).getroot().get("failures") == str(code)
    keep.write_text("[{")
    assert main(words) == 2
    assert main([*words[:4], "--report", str(xml)]) == 2
    assert "--require" in capsys.readouterr().err
