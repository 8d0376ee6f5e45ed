"""A scenario has the same effect as a program that sets the values between single steps."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from rigidblocks import PDController, RobotPlant, System, planar2, prepare, simulate
from rigidblocks.cli import main
from rigidblocks.cosim.scenario import Scenario
from rigidblocks.fmi.export import export_fmu

DT = 0.01
TABLE = {
    "time": [0.0, 0.05, 0.1],
    "pd.q_ref": [[0.0, 0.2], [0.4, -0.1], [0.4, 0.0]],
    "pd.kp[1]": [100.0, np.nan, 150.0],
    "robot.gravity": [[0.0, -9.81, 0.0], [0.0, -3.7, 0.0], [0.0, -9.81, 0.0]],
}


def arm(pd=None):
    """Return an arm whose command input is not connected."""
    system = System()
    system.add("robot", RobotPlant(planar2()))
    system.add("pd", pd or PDController((60.0, 30.0), (8.0, 4.0)), start={"q_ref": [0.0, 0.0]})
    for a, b in (("robot.q", "pd.q"), ("robot.qd", "pd.qd"), ("pd.tau", "robot.tau")):
        system.connect(a, b)
    return system


def by_hand(system, form="compiled"):
    """Return the joint positions of a run that sets the values of TABLE between single steps."""
    run = prepare(system, DT, form=form)
    run.reset({"pd.q_ref": [0.0, 0.2], "pd.kp": [100.0, 30.0], "robot.gravity": [0.0, -9.81, 0.0]})
    rows = [run["robot.q"]]
    for k in range(20):
        if k in (5, 10):
            row = k // 5
            run["pd.q_ref"], run["robot.gravity"] = (
                TABLE["pd.q_ref"][row],
                TABLE["robot.gravity"][row],
            )
        if k == 10:
            run["pd.kp[1]"] = 150.0
        run.step()
        rows.append(run["robot.q"])
    return np.array(rows)


SLOW = pytest.mark.slow
FORMS = ["compiled", pytest.param("numpy", marks=SLOW), pytest.param("fused", marks=SLOW)]


@pytest.mark.parametrize("form", FORMS)
def test_scenario_table_has_the_same_effect_as_values_set_between_single_steps(form):
    expected = by_hand(arm(), form)
    result = simulate(arm(), 0.2, DT, form=form, scenario=TABLE, progress=False)
    assert_array_equal(result["robot.q"], expected)
    assert '"pd.q_ref"' in result.meta["scenario"]
    run = prepare(arm(), DT, form=form)
    for _ in range(2):  # the second run starts like the first one
        assert_array_equal(run.simulate(0.2, scenario=TABLE, progress=False)["robot.q"], expected)
    assert "scenario" not in run.simulate(0.2, progress=False).meta


@pytest.mark.slow
def test_scenario_sets_inputs_and_parameters_of_an_fmu(tmp_path):
    path = export_fmu(PDController((60.0, 30.0), (8.0, 4.0)), tmp_path / "pd.fmu")
    result = simulate(arm(path), 0.2, DT, scenario=TABLE, progress=False)
    assert np.abs(result["robot.q"] - by_hand(arm())).max() < 1e-12


CSV = """time, pd.q_ref[1], pd.q_ref[2], pd.kp[1]
0,         0.0,         0.2,         100
0.05,      0.4,         -0.1,
0.1,       ,            0.0,         150
"""
YAML = """
- {time: 0.0, "pd.q_ref": [0.0, 0.2], "pd.kp[1]": 100}
- {time: 0.05, "pd.q_ref": [0.4, -0.1]}
- {time: 0.1, "pd.q_ref[2]": 0.0, "pd.kp[1]": 150}
"""
JSON = """{"time": [0, 0.05, 0.1], "pd.q_ref[1]": [0, 0.4, null], "pd.q_ref[2]": [0.2, -0.1, 0],
           "pd.kp[1]": [100, null, 150]}"""


def test_scenario_file_has_the_same_effect_as_a_scenario_table(tmp_path):
    table = {name: values for name, values in TABLE.items() if name != "robot.gravity"}
    run = prepare(arm(), DT)
    expected = run.simulate(0.2, scenario=table, progress=False).values
    for suffix, text in ((".csv", CSV), (".yaml", YAML), (".json", JSON)):
        path = tmp_path / f"story{suffix}"
        path.write_text(text)
        assert_array_equal(run.simulate(0.2, scenario=path, progress=False).values, expected)


def test_scenario_value_takes_effect_at_the_next_communication_point():
    run = prepare(arm(), DT)
    early, late = ({"time": [t], "pd.kp[1]": [200.0]} for t in (0.0501, 0.06))
    first = run.simulate(0.1, scenario=early, progress=False).values
    assert_array_equal(first, run.simulate(0.1, scenario=late, progress=False).values)
    never = run.simulate(0.1, scenario={"time": [5.0], "pd.kp[1]": [0.0]}, progress=False)
    assert_array_equal(never.values, run.simulate(0.1, progress=False).values)


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ({"time": [0.0], "pd.kq": [1.0]}, "kq"),
        ({"time": [0.0], "pod.kp": [1.0]}, "unknown part 'pod'"),
        ({"time": [0.1], "robot.tau": [[1.0, 2.0]]}, "robot.tau: it is connected to pd.tau"),
        ({"time": [0.1], "robot.q": [[1.0, 2.0]]}, "cannot set robot.q, which is computed"),
        ({"time": [0.1], "pd.kp": [[1.0, 2.0, 3.0]]}, r"pd.kp at t = 0.1 s of the scenario has"),
        ({"time": [0.1], "pd.kp[1]": [np.inf]}, "must be finite"),
        ({"time": [0.2, 0.1], "pd.kp[1]": [1.0, 2.0]}, "must be finite and not decrease"),
        ({"time": [0.1], "pd.kp[1]": [1.0, 2.0]}, "has 1 times; 'pd.kp"),
        ({"pd.kp[1]": [1.0, 2.0]}, "needs a column 'time'"),
        ({"time": []}, "one or more times"),
    ],
)
def test_invalid_scenario_table_is_rejected_before_the_run(table, text):
    with pytest.raises((KeyError, ValueError), match=text):
        simulate(arm(), 0.2, DT, scenario=table, form="numpy", progress=False)


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("a.csv", "t,x\n1,2\n", "needs a column 'time'"),
        ("a.csv", "time,pd.kp[1]\n0,x\n", "row 2 of"),
        ("a.csv", "time,pd.kp[1]\n,1\n", "row 2 of"),
        ("a.yaml", "[1, 2", "invalid YAML"),
        ("a.yaml", "- {x: 1}", "each entry of .* needs the key 'time'"),
        ("a.txt", "", "expected a .csv, .yaml or .json file"),
    ],
)
def test_invalid_scenario_file_is_rejected(tmp_path, name, content, text):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(ValueError, match=text):
        Scenario.parse(path)


@pytest.mark.slow
def test_run_command_applies_the_values_of_a_scenario_file(tmp_path, capsys):
    script, story = tmp_path / "bench.py", tmp_path / "story.csv"
    script.write_text(
        "from rigidblocks import PDController, RobotPlant, System, planar2\n"
        "system = System()\n"
        "system.add('robot', RobotPlant(planar2()))\n"
        "system.add('pd', PDController((60., 30.), (8., 4.)), start={'q_ref': [0., 0.]})\n"
        "system.connect('robot.q', 'pd.q')\nsystem.connect('robot.qd', 'pd.qd')\n"
        "system.connect('pd.tau', 'robot.tau')\n"
    )
    story.write_text(CSV)
    words = ["run", str(script), "--stop", "0.2", "--dt", "0.01", "--scenario"]
    assert main([*words, str(story), "--json"]) == 0
    reported = capsys.readouterr().out
    story.write_text(CSV.replace("pd.kp", "pd.kq"))
    assert main([*words, str(story)]) == 2
    assert "kq" in capsys.readouterr().err
    table = {name: values for name, values in TABLE.items() if name != "robot.gravity"}
    end = simulate(arm(), 0.2, DT, scenario=table, progress=False)["robot.q"][-1]
    assert repr(float(end[0])) in reported
