"""Live tap of a program: the program sends selected signals without delaying the run."""

import json
import socket
import subprocess

import numpy as np
import pytest
from numpy.testing import assert_allclose

from planar2ctrl import parts, wired
from rigidblocks import build_runner, simulate

DT = 1e-3


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return build_runner(wired(parts()), tmp_path_factory.mktemp("tap") / "arm", DT)


def run(program, *options):
    done = subprocess.run([program, *options], capture_output=True, text=True, check=False)
    return json.loads(done.stdout.removeprefix("ready\n") or "{}"), done.stderr


@pytest.mark.slow
def test_generated_program_sends_the_requested_signals_to_the_listener_of_its_tap(program):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.bind(("127.0.0.1", 0))
        own.settimeout(5.0)
        at = f"127.0.0.1:{own.getsockname()[1]}"
        options = ("--tap-rate", "50", "--tap-signal", "robot.q[", "--tap-signal", "pd.tau")
        report, _ = run(program, "--stop", "0.4", "--tap", at, *options)
        rows = [json.loads(own.recv(65536)) for _ in range(report["tap"]["sent"])]
    assert 0 < len(rows) <= 20
    assert len(rows) + report["tap"]["left out"] in (19, 20)  # the last row may remain unsent
    names = ["timestamp", "robot.q[1]", "robot.q[2]", "pd.tau[1]", "pd.tau[2]"]
    assert all(set(row) == set(names) for row in rows)
    result = simulate(wired(parts()), 0.4, DT, progress=False)
    steps = np.rint([row["timestamp"] / DT for row in rows]).astype(int)
    assert set(steps % 20) == {0}
    for name in names[1:]:
        expected = result.values[steps, list(result.columns).index(name)]
        assert_allclose([row[name] for row in rows], expected, rtol=1e-8, atol=1e-12)


@pytest.mark.slow
def test_missing_tap_listener_does_not_delay_the_generated_program(program):
    options = ("--rate", "0", "--stop", "20", "--tap", "127.0.0.1:9", "--tap-rate", "1000")
    report, _ = run(program, *options)
    assert report["steps"] == 20000
    assert report["tap"]["left out"] > 0
    assert 19999 <= report["tap"]["left out"] + report["tap"]["sent"] <= 20000


@pytest.mark.slow
def test_invalid_tap_options_are_rejected(program):
    assert (
        "--tap selects 0 signals" in run(program, "--tap", "127.0.0.1:9", "--tap-signal", "no")[1]
    )
    assert "--tap must be an address such as" in run(program, "--tap", "here")[1]
    assert "usage:" in run(program, "--tap-rate", "0")[1]
