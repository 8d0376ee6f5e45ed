"""Early end of a run or of its saving: no recorded sample is lost.

The exception contains the result up to the end.
"""

import errno
import re
import signal
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import rigidblocks.cosim.simulate as simulate_module
from recorded_waves import waves
from rigidblocks import Block, Port, Result, SimulationError, System, simulate
from rigidblocks.cosim.results import recording
from rigidblocks.cosim.results import result_files as files
from rigidblocks.cosim.results.arrow_log import LogWriter
from rigidblocks.cosim.results.result_files import FORMATS
from rigidblocks.cosim.simulate import Interrupted


@dataclass(frozen=True, eq=False)
class Failing(Block):
    """Part that raises an exception of a given type at a given time."""

    error: type[BaseException] = ValueError
    armed: set[bool] = field(default_factory=set)
    outputs = (Port("y"),)

    def output(self, t):
        if self.armed and t >= 0.5:
            raise self.error("no more")
        return {"y": 1.0 * t}


def failing(error):
    system = waves()
    block = Failing(error)
    system.add("bad", block)
    block.armed.add(True)  # only now, because `add` evaluates the block
    return system


@pytest.mark.parametrize("error", [MemoryError, OSError, ValueError, ZeroDivisionError, SystemExit])
@pytest.mark.parametrize("save", [None, "run.csv", "run.arrow"])
def test_error_for_an_exception_in_a_part_identifies_the_part_and_contains_the_partial_result(
    error, save, tmp_path
):
    path = None if save is None else tmp_path / save
    message = rf"the run stopped at t = 0.49 s: 'bad': {error.__name__}: no more"
    with pytest.raises(SimulationError, match=message) as caught:
        simulate(failing(error), 1.0, 1e-2, form="numpy", save=path)
    assert_allclose(caught.value.result.time, np.arange(50) * 1e-2)
    if path:
        assert_array_equal(Result.load(path).time, caught.value.result.time)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("save", ["run.csv", "run.arrow", "run.parquet"])
def test_full_disk_ends_the_run_and_all_samples_remain_readable(save, tmp_path, monkeypatch):
    append, chunks = LogWriter._append, []

    def full(writer, message):
        chunks.append(message)
        if len(chunks) > 3:  # the header and two chunks fit
            raise OSError(errno.ENOSPC, "No space left on device")
        append(writer, message)

    monkeypatch.setattr(LogWriter, "_append", full)
    message = r"the run stopped at t = 0.48 s: .*cannot record to .*arrow': No space left"
    with pytest.raises(SimulationError, match=message) as caught:
        simulate(waves(), 1.0, 1e-2, form="numpy", save=tmp_path / save)
    result = caught.value.result
    plain = simulate(waves(), 1.0, 1e-2, form="numpy")
    assert len(result.time) == 48
    if save != "run.arrow":
        assert_array_equal(Result.load(tmp_path / save).time, result.time)
    assert_array_equal(np.asarray(result.values), plain.values[: len(result.time)])


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), MemoryError("none left")])
def test_failed_save_does_not_remove_the_log_and_the_result_in_memory(error, tmp_path, monkeypatch):
    def fail(*_):
        raise error

    broken = {**FORMATS, ".csv": files.Format(fail, fail, {})}
    monkeypatch.setattr(files, "FORMATS", broken)
    with pytest.raises(SimulationError, match=r"run ended at .* in '.*run.csv.arrow'") as caught:
        simulate(waves(), 1.0, 1e-2, save=tmp_path / "run.csv")
    assert len(caught.value.result.time) == 101
    assert len(Result.load(tmp_path / "run.csv.arrow").time) == 101
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.csv.arrow"]


def test_second_ctrl_c_ends_the_save_and_does_not_remove_the_log(tmp_path, monkeypatch):
    def interrupt(*_):
        signal.raise_signal(signal.SIGINT)

    broken = {**FORMATS, ".csv": files.Format(interrupt, interrupt, {})}
    monkeypatch.setattr(files, "FORMATS", broken)
    add = recording.Recording.add

    def add_and_interrupt(self, row):
        add(self, row)
        if self.k == 20:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(recording.Recording, "add", add_and_interrupt)
    with pytest.raises(Interrupted, match=r"ended the run at t = 0.2 s; .*run.csv.arrow") as caught:
        simulate(waves(), 1.0, 1e-2, form="numpy", save=tmp_path / "run.csv")
    assert len(caught.value.result.time) == 21
    assert len(Result.load(tmp_path / "run.csv.arrow").time) == 21


def test_termination_signals_at_the_end_of_recording_lose_no_samples(tmp_path, monkeypatch):
    finish = recording.Recording.finish

    def interrupted(self):
        for _ in range(3):
            signal.raise_signal(signal.SIGTERM)
        return finish(self)

    monkeypatch.setattr(recording.Recording, "finish", interrupted)
    with pytest.raises(Interrupted, match=r"SIGTERM ended") as caught:
        simulate(waves(), 1.0, 1e-2, save=tmp_path / "run.arrow")
    assert len(caught.value.result.time) == 101
    assert len(Result.load(tmp_path / "run.arrow").time) == 101


def test_simulate_does_not_replace_the_signal_handler_of_the_program():
    seen = []
    before = signal.signal(signal.SIGTERM, lambda *_: seen.append("mine"))
    try:
        system = System()
        system.add("one", Terminated())
        assert len(simulate(system, 0.1, 1e-2, form="numpy").time) == 11
    finally:
        signal.signal(signal.SIGTERM, before)
    assert "mine" in seen


@dataclass(frozen=True, eq=False)
class Terminated(Block):
    """Part that gets a SIGTERM in each step."""

    outputs = (Port("y"),)

    def output(self, t):
        if isinstance(t, float):
            signal.raise_signal(signal.SIGTERM)
        return {"y": 1.0 * t}


@pytest.mark.parametrize("extension", [".csv", ".mf4", ".parquet"])
def test_large_log_is_not_converted_after_a_termination_signal(extension, tmp_path, monkeypatch):
    """The largest number of values to convert is 40 here; the run records 21 rows of 2 values."""
    monkeypatch.setattr(simulate_module, "MOST_CONVERTED", 40)
    broken = {**files.FORMATS, extension: files.Format(pytest.fail, pytest.fail, {})}
    monkeypatch.setattr(files, "FORMATS", broken)
    add = recording.Recording.add

    def add_and_terminate(self, row):
        add(self, row)
        if self.k == 20:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(recording.Recording, "add", add_and_terminate)
    path = tmp_path / f"the run{extension}"
    message = f"'{path}' is not written; convert the log with: rigidblocks convert '{path}.arrow'"
    with pytest.raises(Interrupted, match=re.escape(message)):
        simulate(waves(), 1.0, 1e-2, form="numpy", save=path)
    assert not path.exists()
    assert len(Result.load(f"{path}.arrow").time) == 21
