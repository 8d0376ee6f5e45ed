"""`rigidblocks run --view`: a page shows the run to everyone who has the address of the page."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request

import pytest

SYSTEM = """
from rigidblocks import RobotPlant, System, planar2
system = System()
system.add("robot", RobotPlant(planar2(), qd0=[1.0, -2.0]), start={"tau": [0.0, 0.0]})
"""


@pytest.fixture
def opened(tmp_path):
    """Return a folder with a system, and a browser command that logs the addresses of pages."""
    (tmp_path / "swing.py").write_text(SYSTEM)
    (tmp_path / "browse").write_text('#!/bin/sh\necho "$1" > opened\n')
    (tmp_path / "browse").chmod(0o755)
    return tmp_path


def begun(folder, *options):
    command = [sys.executable, "-m", "rigidblocks", "run", "swing.py", "--view", "--json", *options]
    return subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"BROWSER": f"{folder}/browse %s"},
    )


def addressed(run):
    """Return the address of the page that the command prints."""
    for line in run.stderr:
        if found := re.search(r"the run is shown at (http://127\.0\.0\.1:\d+/\S+/)", line):
            return found[1]
    raise AssertionError("it said no address")


@pytest.mark.slow
def test_view_option_of_the_run_command_sends_each_sample_to_the_page_during_the_run(opened):
    """The server sends rows during the run, and an event at its end."""
    with begun(opened, "--stop", "4", "--dt", "0.01") as run:
        address = addressed(run)
        rest = threading.Thread(target=run.stderr.read)
        rest.start()
        page = urllib.request.urlopen(address, timeout=20).read().decode()
        assert "<canvas" in page
        events = urllib.request.urlopen(f"{address}events", timeout=20)
        kinds = [line.split()[1] for line in events if line.startswith(b"event: ")]
        result = json.loads(run.stdout.read())
        rest.join()
        assert run.wait(20) == 0
    assert (opened / "opened").read_text().strip() == address
    assert set(kinds) <= {b"row", b"over"}
    assert kinds.count(b"row") >= 2
    assert result["time"] == pytest.approx(4.0)
    assert set(result["end"]) >= {"robot.q[1]", "robot.q[2]"}


@pytest.mark.slow
def test_ctrl_c_ends_a_run_with_a_live_page(opened):
    with begun(opened, "--stop", "1e6") as run:
        address = addressed(run)
        urllib.request.urlopen(address, timeout=20).close()
        run.send_signal(signal.SIGINT)
        _, reported = run.communicate(timeout=30)
    assert run.returncode == 130
    assert "Traceback" not in reported
