"""Damaged result files: a flipped bit is reported, or it changes no value and no name."""

import random
import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from recorded_waves import waves
from rigidblocks import Result, simulate
from rigidblocks.cosim.results import recording
from rigidblocks.cosim.results import result_files as files

FLIPS = 150


@pytest.fixture(autouse=True)
def several_chunks(monkeypatch):
    """Limit the chunks of a record to 16 rows."""
    monkeypatch.setattr(recording, "_CHUNK", 1)


def content(result):
    """Return all content of a result."""
    ports = [(port.name, port.shape, port.units, port.doc) for port in result.ports]
    events = [(event.t, event.kind) for event in result.events]
    return result.time, np.asarray(result.values), ports, events, dict(result.meta)


def same(found, expected):
    return (
        np.array_equal(found[0], expected[0])
        and np.array_equal(found[1], expected[1])
        and found[2:] == expected[2:]
    )


def run(path, whole):
    """Record a run with events to a file during the run, or save it after the run."""
    options = {"events": ["a.y[1]"], "every": 2}
    if whole:
        simulate(waves(), 1.0, 1e-2, **options).save(path)
    else:
        simulate(waves(), 1.0, 1e-2, save=path, **options)
    return content(Result.load(path))


def flipped(data, rng):
    k, bit = rng.randrange(len(data)), rng.randrange(8)
    return data[:k] + bytes([data[k] ^ 1 << bit]) + data[k + 1 :]


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True], ids=["recorded", "saved"])
@pytest.mark.parametrize("ending", [".arrow", ".parquet"])
def test_result_file_with_a_flipped_bit_is_rejected_or_has_unchanged_values(
    ending, whole, tmp_path
):
    path = tmp_path / f"run{ending}"
    expected, data, rng, noticed = run(path, whole), path.read_bytes(), random.Random(7), 0
    for _ in range(FLIPS):
        path.unlink()  # earlier results have mapped the file
        path.write_bytes(flipped(data, rng))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                found = content(Result.load(path))
        except (ValueError, RuntimeWarning, OSError):
            noticed += 1
        else:
            assert same(found, expected)
    assert noticed > FLIPS / 2


def test_error_for_a_damaged_log_identifies_the_column_and_chunk(tmp_path):
    path = tmp_path / "run.arrow"
    result = simulate(waves(), 1.0, 1e-2, save=path)
    data = path.read_bytes()
    k = data.index(np.float64(result.values[40, 1]).tobytes())
    path.unlink()
    path.write_bytes(data[:k] + bytes([data[k] ^ 1]) + data[k + 1 :])
    loaded = Result.load(path)
    assert_array_equal(loaded["b.y"], result["b.y"])  # undamaged signals are read
    with pytest.raises(ValueError, match=r"run\.arrow' is damaged: column a\.y\[2\] of chunk 2"):
        loaded["a.y"]
    for action in (lambda: np.asarray(loaded.values), lambda: loaded.save(tmp_path / "run.csv")):
        with pytest.raises(ValueError, match="is damaged"):
            action()
    assert not (tmp_path / "run.csv").exists()


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".csv", ".mf4"])
def test_result_file_with_changed_values_gives_a_warning(ending, tmp_path):
    path = tmp_path / f"run{ending}"
    result = simulate(waves(), 0.1, 1e-2)
    result.save(path)
    assert_array_equal(np.asarray(Result.load(path).values), result.values)
    data = path.read_bytes()
    if ending == ".csv":
        line = data.splitlines(keepends=True)[5]
        path.write_bytes(data.replace(line, line.replace(b"1", b"2", 1)))
    else:
        number = np.float64(result.values[5, 0]).tobytes()
        path.write_bytes(data.replace(number, np.float64(7.0).tobytes(), 1))
    with pytest.warns(RuntimeWarning, match="differ from the saved ones") as caught:
        loaded = Result.load(path)
    assert caught[0].filename == __file__
    assert not np.array_equal(np.asarray(loaded.values), result.values)


def test_parquet_file_with_removed_samples_loads_with_a_warning(tmp_path):
    import pyarrow.parquet

    path = tmp_path / "run.parquet"
    result = simulate(waves(), 0.1, 1e-2)
    result.save(path)
    pyarrow.parquet.write_table(pyarrow.parquet.read_table(path).slice(3, 4), path)
    with pytest.warns(RuntimeWarning, match="damaged, or another program has changed it"):
        assert_array_equal(Result.load(path).time, result.time[3:7])


def test_crash_of_the_mdf_reader_raises_an_error(tmp_path, monkeypatch):
    path = simulate(waves(), 0.1, 1e-2).save(tmp_path / "run.mf4")
    crash = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    monkeypatch.setattr(files, "_MDF_READER", crash)
    with pytest.raises(ValueError, match=r"run\.mf4' is not a result: it is damaged.*signal 11"):
        Result.load(path)


@pytest.mark.slow
def test_damaged_mdf_file_raises_an_error(tmp_path):
    path = simulate(waves(), 0.1, 1e-2).save(tmp_path / "run.mf4")
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"run\.mf4' is not a result: .*Error"):
        Result.load(path)
    with pytest.raises(FileNotFoundError):
        Result.load(tmp_path / "none.mf4")
