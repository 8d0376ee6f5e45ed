"""Interrupted commands print the reason, the end time and the location of the record."""

from rigidblocks.cli import main

SCRIPT = """
import signal
from rigidblocks import Port, PythonBlock, System

def terminated(t):
    if t > 0.505:
        signal.raise_signal(signal.SIGTERM)
    return {"y": t}

system = System()
system.add("one", PythonBlock(terminated, [], [Port("y")]))
"""


def test_terminated_run_command_prints_the_end_time_of_the_run(tmp_path, capsys):
    script = tmp_path / "system.py"
    script.write_text(SCRIPT)
    command = ["run", str(script), "--stop", "1", "--dt", "0.01"]
    assert main([*command, "-o", str(tmp_path / "run.csv")]) == 130
    assert "rigidblocks: SIGTERM ended the run at t = 0.5 s" in capsys.readouterr().err
    assert (tmp_path / "run.csv").read_text().splitlines()[-1].startswith("0.5,")
