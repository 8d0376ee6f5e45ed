"""Sweeps in child processes and on clusters: the runs equal the runs of this process."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rigidblocks import PDController, PythonBlock, System, grid, sweep
from rigidblocks.block.block import Port
from rigidblocks.cli import main
from rigidblocks.fmi.export import python_fmu
from rigidblocks.fmi.native_fmu import native_fmu
from rigidblocks.library.plants import RobotPlant
from rigidblocks.robot.robots import planar2

DT, STOP = 1e-3, 0.2
ROBOT = Path(__file__).parents[2] / "fmus" / "planar2_robot_fmu.py"
MEASURES = {"peak": "peak robot.q[1]", "mine": lambda run: float(run["robot.q"][-1] @ [1.0, 2.0])}
DESIGN = grid({"pd.kp[1]": np.linspace(500.0, 1500.0, 6)})


def held(robot):
    """Return a robot whose controller moves it away from its initial configuration."""
    system = System()
    system.add("robot", robot)
    start = {"q_ref": [0.5, 0.2]}
    system.add("pd", PDController(kp=[1000, 1000], kd=[15, 15]), start=start)
    for wire in (("robot.q", "pd.q"), ("robot.qd", "pd.qd"), ("pd.tau", "robot.tau")):
        system.connect(*wire)
    return system


def swept(system, **options):
    return sweep(system, DESIGN, STOP, DT, MEASURES, progress=False, **options)


@pytest.mark.slow
def test_sweep_repeats_the_runs_of_killed_child_processes(tmp_path):
    fmu = python_fmu(ROBOT, tmp_path / "robot.fmu")
    single = swept(held(fmu), threads=1)
    ended, once = [], threading.Lock()

    def end_children(run):
        with once:  # two threads measure
            if not ended:
                ended.extend(children())
                for pid in ended:
                    os.kill(pid, signal.SIGKILL)
        return run["robot.q"][-1, 0]

    measures = {"end": end_children, **MEASURES}
    killed = sweep(held(fmu), DESIGN, STOP, DT, measures, threads=2, progress=False)
    assert len(ended) == 2
    assert not children()
    assert not killed.failures
    for name in MEASURES:
        assert_array_equal(killed[name], single[name])


def children():
    """Return the process ids of the executors that this process has started."""
    command = ["pgrep", "-P", str(os.getpid()), "-f", "rigidblocks.studies.executors"]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return [int(pid) for pid in said.split()]


@pytest.mark.interop
@pytest.mark.filterwarnings("ignore")  # warnings of foreign packages
def test_sweep_on_a_cluster_matches_the_results_of_a_local_sweep(tmp_path):
    from distributed import LocalCluster

    factor = 2.0
    twice = PythonBlock(  # defined only in this program
        lambda u: factor * u, [Port("u", (), "rad")], [Port("y", (), "rad")]
    )
    ours = held(RobotPlant(planar2()))
    mixed = held(native_fmu(RobotPlant(planar2()), tmp_path / "robot.fmu"))
    mixed.add("twice", twice)
    mixed.connect("robot.q[1]", "twice.u")
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        for count, system in ((2, ours), (2, mixed), (4, ours)):
            cluster.scale(count)
            cluster.wait_for_workers(count)
            here, there = swept(system), swept(system, scheduler=cluster.scheduler_address)
            assert not there.failures
            for name in MEASURES:
                assert_array_equal(there[name], here[name])


@pytest.mark.interop
def test_loss_of_the_cluster_scheduler_is_reported_and_finished_runs_are_preserved(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path("wave.py").write_text(
        "from rigidblocks import Sine, System\nsystem = System()\n"
        'system.add("wave", Sine(amplitude=2.0, frequency=0.25))\n'
    )
    runs = Path("runs.csv")
    with subprocess.Popen([*DASK, "scheduler", *["--port", "0", "--no-dashboard"], *FILE]) as dask:
        while not Path("scheduler.json").exists():
            time.sleep(0.05)
        worker = subprocess.Popen([*DASK, "worker", *["--nthreads", "1", "--no-dashboard"], *FILE])
        threading.Thread(target=end_soon, args=(dask, runs)).start()
        address = json.loads(Path("scheduler.json").read_text())["address"]
        command = ["sweep", "wave.py", "--vary", "wave.amplitude=1:2:100000", "--stop", "10"]
        command += ["--measure", "max wave.y", "--scheduler", address, "-o", "runs.csv"]
        assert main(command) == 1
        worker.kill()
        worker.wait()
    text = capsys.readouterr().err
    (said,) = (line for line in text.splitlines() if line.startswith("rigidblocks:"))
    assert "lost the connection to the scheduler at" in said
    assert "Traceback" not in text
    lines = runs.read_text().splitlines()
    assert len(lines) > 10
    values = np.array([line.split(",")[1:3] for line in lines[2:]], dtype=float)
    assert_allclose(values[:, 1], values[:, 0], rtol=1e-9)
    assert main(command) == 1  # the scheduler does not exist
    assert "no Dask scheduler answers at" in capsys.readouterr().err


DASK = [sys.executable, "-m", "dask"]
FILE = ["--scheduler-file", "scheduler.json"]


def end_soon(dask, runs):
    """Kill the scheduler after about ten runs."""
    for _ in range(1200):
        time.sleep(0.05)
        if runs.exists() and runs.read_bytes().count(b"\n") > 10:
            break
    dask.kill()
