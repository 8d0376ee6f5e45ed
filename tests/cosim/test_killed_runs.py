"""Faults of runs: kills at random times, a full disk, faulty FMUs and ten million steps.

The recorded samples equal the samples of a complete run bit for bit.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from campaign import sized
from foreign_fmu import foreign_fmu
from rigidblocks import Result, SimulationError, Sine, System, simulate
from rigidblocks.cosim.results.recording import Recording

pytestmark = pytest.mark.slow

FORMS = ("compiled", "fused")
TIMES = sized(8, 4)  # number of repetitions of each fault, at random times
DT = 1e-3
PATIENCE = 60.0  # [s] limit until a run starts to record; the machine may be busy

# a run that writes chunks of a few hundred rows, and prints the number of written rows
PROGRAM = """
import os, sys
from rigidblocks import Sine, System, simulate
from rigidblocks.cosim.results import arrow_log as log, recording
from rigidblocks.cosim.simulate import Interrupted

path, form, t_stop = sys.argv[1], sys.argv[2], float(sys.argv[3])
write, rows = log.LogWriter.write, 0

def write_and_tell(self, time, *rest):
    global rows
    write(self, time, *rest)
    rows += len(time)
    os.write(1, f"{rows}\\n".encode())

log.LogWriter.write, recording._CHUNK = write_and_tell, 1 << 14
system = System()
system.add("a", Sine([1.0, 2.0], [1.0, 0.5]))
system.add("b", Sine([3.0, 4.0], [0.3, 0.7]))
try:
    simulate(system, t_stop, 1e-3, form=form, save=path, progress=False)
    os.write(1, b"done\\n")
except Interrupted as error:
    os.write(1, f"interrupted {len(error.result.time)}\\n".encode())
"""
CHUNK = (1 << 14) // (8 * 9)


def reference(n):
    """Return the first n rows of the run."""
    t = DT * np.arange(n)
    return t, np.sin(2 * np.pi * t), 4.0 * np.sin(2 * np.pi * 0.7 * t)


def end_at_random(tmp_path, name, form, t_stop, number, delay):
    """Start a run, end it by a signal after its first chunk, and return the printed lines."""
    said = tmp_path / "said"
    with open(said, "wb") as out:
        run = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(tmp_path / name), form, str(t_stop)], stdout=out
        )
    try:
        deadline = time.monotonic() + PATIENCE
        while not said.read_bytes().endswith(b"\n"):
            assert run.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.005)
        time.sleep(delay)
        run.send_signal(number)
        run.wait(PATIENCE)
    finally:
        run.kill()
        run.wait()
    return said.read_text().splitlines()


def check(result, least, most):
    """Check the number of rows of a result, and their values."""
    n = len(result.time)
    assert least <= n <= most
    t, a, b = reference(n)
    assert_array_equal(result.time, t)
    np.testing.assert_allclose(result["a.y[1]"], a, atol=1e-8)  # rounding of phases up to 1e4 rad
    np.testing.assert_allclose(result["b.y[2]"], b, atol=4e-8)


def test_record_of_a_killed_run_contains_every_finished_chunk(tmp_path, rng):
    for k, form in zip(range(TIMES), cycle(FORMS)):
        name = f"run{k}.arrow"
        said = end_at_random(tmp_path, name, form, 1e5, signal.SIGKILL, rng.uniform(0, 0.5))
        finished = int(said[-1])
        with pytest.warns(RuntimeWarning, match="is incomplete"):
            result = Result.load(tmp_path / name)
        check(result, finished, finished + CHUNK)  # the last chunk may be written but not printed
        (tmp_path / name).unlink()


def test_record_of_a_run_ended_by_a_termination_signal_contains_all_samples(tmp_path, rng):
    for k, form in zip(range(TIMES), cycle(FORMS)):
        name = f"run{k}.arrow"
        said = end_at_random(tmp_path, name, form, 1e5, signal.SIGTERM, rng.uniform(0, 0.5))
        assert said[-1].startswith("interrupted ")
        rows = int(said[-1].split()[1])
        check(Result.load(tmp_path / name), rows, rows)
        (tmp_path / name).unlink()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_interrupted_save_leaves_either_the_log_or_the_complete_result_file(number, tmp_path, rng):
    """The signal arrives during the run or during the save; both take about equally long."""
    log, whole = tmp_path / "run.csv.arrow", round(50.0 / DT) + 1
    for _ in range(TIMES):
        said = end_at_random(tmp_path, "run.csv", "fused", 50.0, number, rng.uniform(0, 0.6))
        finished = max(int(line) for line in said if line.isdigit())
        if (tmp_path / "run.csv").exists():
            rows = int(said[-1].split()[1]) if said[-1].startswith("interrupted") else whole
            check(Result.load(tmp_path / "run.csv"), rows, rows)
        elif number == signal.SIGTERM:
            rows = int(said[-1].split()[1]) if said[-1].startswith("interrupted") else finished
            check(Result.load(log), rows, rows)
        else:
            check(loaded(log), finished, finished + CHUNK)
        for path in tmp_path.iterdir():
            if number == signal.SIGKILL and path.is_dir():  # the temporary folder of the file
                shutil.rmtree(path)
            else:
                path.unlink()


def loaded(log):
    """Load a complete or truncated log."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return Result.load(log)


# a full disk


@pytest.fixture
def small_disk(tmp_path):
    """Mount a disk of 4 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    if os.name != "posix" or os.geteuid() or shutil.which("mount") is None:
        pytest.skip("only root can mount a small disk")
    if (done := subprocess.run(mount, capture_output=True, text=True, check=False)).returncode:
        pytest.skip(f"no small disk can be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)  # a result may be reading it


def waves():
    system = System()
    system.add("a", Sine([1.0, 2.0], [1.0, 0.5]))
    system.add("b", Sine([3.0, 4.0], [0.3, 0.7]))
    return system


def fill(folder):
    """Fill a disk completely."""
    with open(folder / "ballast", "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass


def filled_after(monkeypatch, folder, k):
    """Fill the disk at step k."""
    add = Recording.add

    def add_and_fill(recording, row):
        add(recording, row)
        if recording.k == k:
            fill(folder)

    monkeypatch.setattr(Recording, "add", add_and_fill)


def test_run_that_needs_more_than_the_free_disk_space_is_rejected(small_disk):
    with pytest.raises(OSError, match="has only 4 MB free"):
        simulate(waves(), 100.0, DT, save=small_disk / "run.arrow")
    assert list(small_disk.iterdir()) == []


@pytest.mark.parametrize("name", ["run.arrow", "run.parquet"])
def test_run_ends_on_a_full_disk_and_its_record_contains_all_samples(name, small_disk, monkeypatch):
    filled_after(monkeypatch, small_disk, 5_000)
    monkeypatch.setattr("rigidblocks.cosim.results.recording._CHUNK", 1 << 16)
    with pytest.raises(SimulationError, match="No space left on device") as caught:
        simulate(waves(), 20.0, DT, form="numpy", save=small_disk / name)
    result = caught.value.result
    check(result, 5_001, 7_000)
    log = small_disk / ("run.arrow" if name == "run.arrow" else f"{name}.arrow")
    check(loaded(log), 4_000, len(result.time))


def test_save_on_a_full_disk_does_not_remove_the_log(small_disk, monkeypatch):
    def finish_on_full_disk(recording):
        done = finish(recording)
        fill(small_disk)
        return done

    finish = Recording.finish
    monkeypatch.setattr(Recording, "finish", finish_on_full_disk)
    with pytest.raises(SimulationError, match=r"No space left on device.*in .*run.csv.arrow") as e:
        simulate(waves(), 10.0, DT, save=small_disk / "run.csv")
    check(e.value.result, 10_001, 10_001)
    check(Result.load(small_disk / "run.csv.arrow"), 10_001, 10_001)
    assert {path.name for path in small_disk.iterdir()} == {"ballast", "run.csv.arrow"}


# FMUs that fail while their run is recorded


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("abort();", "signal 6"),
        ("raise(SIGSEGV);", "signal 11"),
        ("exit(3);", "exit code 3"),
        ("for (;;) sleep(1);", "took longer than 1 s"),
        ("status = fmi2Discard;", "status discard"),
        ("status = fmi2Error;", "status error"),
        ("status = fmi2Fatal;", "status fatal"),
        ("status = 17;", "status 17"),
        ("i->r[1] = NAN;", "not finite: part.y"),
        ('say(i, fmi2Warning, "hot"); status = fmi2Error;', "hot"),
    ],
)
def test_record_contains_all_samples_before_a_fault_of_an_fmu(tmp_path, what, message):
    fmu = foreign_fmu(tmp_path / "bad.fmu", step=f"if (i->steps == 50) {{ {what} }}")
    system = System()
    system.add("part", fmu, isolated=True, time_limit=1.0)
    for name in ("run.arrow", "run.csv"):
        with pytest.raises(SimulationError, match=message) as caught:
            simulate(system, 1.0, 0.01, save=tmp_path / name)
        assert len(caught.value.result.time) == 50
        assert_array_equal(Result.load(tmp_path / name).time, caught.value.result.time)


def test_record_contains_the_finished_chunks_after_an_fmu_crashes_the_process(tmp_path):
    fmu = foreign_fmu(tmp_path / "bad.fmu", step="if (i->steps == 5000) abort();")
    program = f"""
from rigidblocks import System, simulate
from rigidblocks.cosim.results import recording
recording._CHUNK = 1 << 10
system = System()
system.add("part", {str(fmu)!r})
simulate(system, 10.0, 1e-3, save={str(tmp_path / "run.arrow")!r}, progress=False)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == -signal.SIGABRT
    with pytest.warns(RuntimeWarning, match="is incomplete"):
        assert 4_900 <= len(Result.load(tmp_path / "run.arrow").time) <= 5_000


# endurance run


@pytest.mark.parametrize(("name", "every"), [("run.arrow", 1), ("run.parquet", 100)])
def test_recording_of_ten_million_steps_needs_at_most_300_mb_of_memory(name, every, tmp_path):
    # not ru_maxrss, because a child process inherits it from a large parent
    program = f"""
from pathlib import Path
from planar2ctrl import parts, wired
from rigidblocks import simulate
how = {{"every": {every}, "save": {str(tmp_path / name)!r}, "progress": False}}
result = simulate(wired(parts()), 1e4, 1e-3, form="fused", **how)
assert len(result.time) == 10_000_000 // {every} + 1
print(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
"""
    support = Path(__file__).parents[1] / "support"
    path = os.pathsep.join([str(support), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < 300 * 1024  # kB
    assert len(Result.load(tmp_path / name).time) == 10_000_000 // every + 1
