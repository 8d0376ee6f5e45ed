"""Result files that several runs, threads or processes use; links and special files.

The reference is a single run in memory. The tests compare values bit for bit.
"""

import os
import stat
import subprocess
import sys
import threading

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from recorded_waves import waves
from rigidblocks import Result, grid, simulate, sweep
from rigidblocks.cosim.results import result_files as files
from rigidblocks.cosim.results.result_files import FORMATS, reserve

ENDINGS = sorted(FORMATS)


@pytest.mark.slow
@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("ending", ENDINGS)
def test_second_thread_that_records_to_the_same_file_is_rejected(ending, tmp_path):
    path = tmp_path / f"run{ending}"
    plain = {t: simulate(waves(), t, 1e-3) for t in (1.0, 2.0)}
    for _ in range(3):
        results, refused, start = {}, {}, threading.Barrier(2)

        def record(t, results=results, refused=refused, start=start):
            start.wait()
            try:
                results[t] = simulate(waves(), t, 1e-3, save=path)
            except OSError as error:
                refused[t] = str(error)

        threads = [threading.Thread(target=record, args=(t,)) for t in plain]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(results) + len(refused) == 2
        assert results
        assert all("another run is writing to it" in text for text in refused.values())
        for t, result in results.items():
            assert_array_equal(result.time, plain[t].time)
            assert_array_equal(np.asarray(result.values), plain[t].values)
        assert len(Result.load(path).time) in {len(result.time) for result in results.values()}
    assert not [p.name for p in tmp_path.iterdir() if p.name.endswith((".lock", ".part"))]


def test_replacing_a_result_file_does_not_change_the_result_in_memory(tmp_path):
    path = tmp_path / "run.arrow"
    first = simulate(waves(), 1.0, 1e-2, save=path)
    simulate(waves(), 2.0, 1e-2, save=path)
    assert_array_equal(np.asarray(first.values), simulate(waves(), 1.0, 1e-2).values)
    assert len(Result.load(path).time) == 201


HOLDER = """
import sys
from pathlib import Path
from rigidblocks.cosim.results.result_files import reserve
with reserve(Path(sys.argv[1])):
    print("reserved", flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow
def test_result_file_in_use_by_another_process_is_rejected(tmp_path):
    path = tmp_path / "runs.csv"
    other = subprocess.Popen(
        [sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert other.stdout.readline() == b"reserved\n"
        design, measure = grid({"a.phase": [0.0, 1.0]}), {"end": "last a.y[1]"}
        for save in (
            lambda: simulate(waves(), 0.1, 1e-2, save=path),
            lambda: simulate(waves(), 0.1, 1e-2).save(path),
            lambda: sweep(waves(), design, 0.1, 1e-2, measure, save=path, progress=False),
        ):
            with pytest.raises(OSError, match=r"runs\.csv': another run is writing to it"):
                save()
        assert not path.exists()
    finally:
        other.kill()
        other.communicate()
    simulate(waves(), 0.1, 1e-2, save=path)
    assert len(Result.load(path).time) == 11


def test_run_whose_log_file_is_in_use_is_rejected(tmp_path):
    path = tmp_path / "run.csv"
    with reserve(tmp_path / "run.csv.arrow"), pytest.raises(OSError, match="another run"):
        simulate(waves(), 0.1, 1e-2, save=path)
    assert list(tmp_path.iterdir()) == []


def test_result_file_of_another_run_is_rejected_through_links_and_relative_paths(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    link = tmp_path / "link.csv"
    link.symlink_to("run.csv")
    with reserve(tmp_path / "run.csv"):
        for name in ("run.csv", "./run.csv", link):
            with pytest.raises(OSError, match="another run is writing to it"):
                simulate(waves(), 0.1, 1e-2, save=name)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ENDINGS)
def test_saving_through_a_symbolic_link_does_not_replace_the_link(ending, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for name, action in (
        ("a", lambda path: simulate(waves(), 0.1, 1e-2, save=path)),
        ("b", lambda path: simulate(waves(), 0.1, 1e-2).save(path)),
    ):
        link, target = tmp_path / f"{name}{ending}", folder / f"{name}{ending}"
        link.symlink_to(target)
        action(link)
        assert link.is_symlink()
        assert not target.is_symlink()
        assert_array_equal(Result.load(target).time, Result.load(link).time)
        assert len(Result.load(link).meta) > 3  # includes the metadata file next to a CSV file


@pytest.mark.parametrize("ending", ENDINGS)
def test_save_to_a_fifo_is_rejected_and_does_not_remove_the_fifo(ending, tmp_path):
    path = tmp_path / f"run{ending}"
    os.mkfifo(path)
    result = simulate(waves(), 0.1, 1e-2)
    for save in (
        lambda: result.save(path),
        lambda: simulate(waves(), 0.1, 1e-2, save=path),
    ):
        with pytest.raises(OSError, match="it is a FIFO, not a file"):
            save()
        assert stat.S_ISFIFO(path.stat().st_mode)


def test_sweep_record_that_is_a_fifo_is_rejected(tmp_path):
    path = tmp_path / "runs.csv"
    os.mkfifo(path)
    with pytest.raises(OSError, match="is a FIFO"):
        sweep(waves(), grid({"a.phase": [0.0]}), 0.1, 1e-2, {"m": "last a.y[1]"}, save=path)


def test_failed_save_removes_its_temporary_files(tmp_path, monkeypatch):
    def fail(_, path):
        path.write_text("half")
        raise OSError("no room")

    result = simulate(waves(), 0.1, 1e-2)
    monkeypatch.setattr(files, "FORMATS", {".csv": files.Format(fail, fail, {})})
    with pytest.raises(OSError, match="no room"):
        result.save(tmp_path / "run.csv")
    assert list(tmp_path.iterdir()) == []


def test_save_removes_the_temporary_folder_of_a_killed_process(tmp_path):
    result = simulate(waves(), 0.1, 1e-3)
    for name in (".run.csv.part.a1b2c3d4", ".run.csv.arrow.part.a1b2c3d4"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.csv").write_text("half of a file")
    result.save(tmp_path / "run.csv")
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"run.csv", "run.csv-metadata.json", ".run.csv.arrow.part.a1b2c3d4"}
