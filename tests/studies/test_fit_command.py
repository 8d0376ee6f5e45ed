"""Command that estimates parameters from recorded motion."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks.cli import main

SYSTEM = (
    "from rigidblocks import Sine, System\nsystem = System()\n"
    'system.add("wave", Sine(amplitude=1.0, frequency=0.25))\n'
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Work in a folder with a system and its recorded motion at amplitude 3."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wave.py").write_text(SYSTEM)
    t = np.arange(0.0, 2.01, 0.1)
    rows = np.stack([t, 3.0 * np.sin(0.5 * np.pi * t)], axis=1)
    np.savetxt("seen.csv", rows, delimiter=",", header="time,wave.y[1]", comments="")


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_fit_command_estimates_a_parameter_and_its_standard_deviation(capsys):
    words = ["fit", "wave.py", "seen.csv", "--find", "wave.amplitude=2", "--noise", "wave.y=0.01"]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert_allclose(found["values"]["wave.amplitude[1]"], 3.0, rtol=1e-9)
    sines = np.sin(0.5 * np.pi * np.arange(0.0, 2.01, 0.1))
    assert_allclose(
        found["deviations"]["wave.amplitude[1]"], 0.01 / np.linalg.norm(sines), rtol=1e-6
    )
    assert main(words) == 0
    assert "exact derivatives; intervals of 95%\n  wave.amplitude" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["seen.csv", "--find", "wave.amplitud"], "has no start value"),
        (["seen.csv", "--find", "wave.amplitude=much"], "write it as wave.amplitude=1"),
        (["seen.csv", *2 * ["--find", "wave.amplitude"]], "--find wave.amplitude occurs twice"),
        (["seen.csv", "--find", "wave.amplitude", "--noise", "wave.y"], "needs a number"),
        (["seen.csv", "--find", "wave.amplitude", "--noise", "wave.y=-1"], "must be positive"),
        (["seen.csv", "--find", "wave.amplitude", "--level", "2"], "between 0 and 1"),
        (
            ["heard.csv", "--find", "wave.amplitude"],
            "data file 'heard.csv' does not exist",
        ),
        (["wave.py", "--find", "wave.amplitude"], "wave.py"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_invalid_arguments_of_the_fit_command_give_a_one_line_error(capsys, words, said):
    assert main(["fit", "wave.py", *words]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
