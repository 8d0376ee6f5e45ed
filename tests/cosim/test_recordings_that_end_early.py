"""Whatever ends a run or its saving, the exception has the result, and nothing of the record is
lost.
"""

import errno
import signal
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from recorded_waves import waves
from rigidblocks import Block, Port, Result, SimulationError, System, simulate
from rigidblocks.simulation import files, recording
from rigidblocks.simulation.files import FORMATS
from rigidblocks.simulation.log import LogWriter
from rigidblocks.simulation.simulate import Interrupted


@dataclass(frozen=True, eq=False)
class Failing(Block):
    """Raises an exception of some type at a time."""

    error: type[BaseException] = ValueError
    armed: list[bool] = field(default_factory=list)
    outputs = (Port("y"),)

    def output(self, t):
        if self.armed and t >= 0.5:
            raise self.error("no more")
        return {"y": 1.0 * t}


def failing(error):
    system = waves()
    block = Failing(error)
    system.add("bad", block)
    block.armed.append(True)  # adding it evaluates it
    return system


@pytest.mark.parametrize("error", [MemoryError, OSError, ValueError, ZeroDivisionError, SystemExit])
@pytest.mark.parametrize("save", [None, "run.csv", "run.arrow"])
def test_an_exception_of_any_type_names_its_part_and_has_the_result(error, save, tmp_path):
    path = None if save is None else tmp_path / save
    message = rf"the run stopped at t = 0.49 s: 'bad': {error.__name__}: no more"
    with pytest.raises(SimulationError, match=message) as caught:
        simulate(failing(error), 1.0, 1e-2, form="numpy", save=path)
    assert_allclose(caught.value.result.time, np.arange(50) * 1e-2)
    if path:
        assert_array_equal(Result.load(path).time, caught.value.result.time)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("save", ["run.csv", "run.arrow", "run.parquet"])
def test_a_disk_that_gets_full_ends_the_run_and_nothing_is_lost(save, tmp_path, monkeypatch):
    append, chunks = LogWriter._append, []

    def full(writer, message):
        chunks.append(message)
        if len(chunks) > 3:  # the head and two chunks fit
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
def test_a_saving_that_fails_leaves_the_log_and_the_result(error, tmp_path, monkeypatch):
    def fail(*_):
        raise error

    broken = {**FORMATS, ".csv": files.Format(fail, fail, {})}
    monkeypatch.setattr(files, "FORMATS", broken)
    with pytest.raises(SimulationError, match=r"came to its end .* in '.*run.csv.arrow'") as caught:
        simulate(waves(), 1.0, 1e-2, save=tmp_path / "run.csv")
    assert len(caught.value.result.time) == 101
    assert len(Result.load(tmp_path / "run.csv.arrow").time) == 101
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.csv.arrow"]


def test_a_second_ctrl_c_ends_the_saving_and_loses_nothing(tmp_path, monkeypatch):
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


def test_interrupts_while_the_record_ends_wait_for_it(tmp_path, monkeypatch):
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


def test_a_handler_of_the_program_stays():
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
    """Gets a SIGTERM in each step."""

    outputs = (Port("y"),)

    def output(self, t):
        if isinstance(t, float):
            signal.raise_signal(signal.SIGTERM)
        return {"y": 1.0 * t}
