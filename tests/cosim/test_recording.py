"""The record of a run: what is kept of it, in which files, and that none of it is lost whatever
ends the run or its saving. Numbers are compared to the last bit: files keep doubles as they are.
"""

import json
import shutil
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from foreign_fmu import foreign_fmu
from planar2ctrl import parts, wired
from recorded_waves import logs, waves
from rigidblocks import Block, Port, Result, Sine, System, simulate
from rigidblocks.cli import main
from rigidblocks.simulation import files, recording
from rigidblocks.simulation.files import FORMATS
from rigidblocks.simulation.log import LoggedValues
from rigidblocks.simulation.recording import RowsInMemory

ENDINGS = sorted(FORMATS)


# what is kept


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("form", ["numpy", "fused"])
def test_a_saved_run_is_the_run_in_memory(ending, form, tmp_path):
    path = tmp_path / f"run{ending}"
    plain = simulate(waves(), 1.0, 1e-2, form=form)
    saved = simulate(waves(), 1.0, 1e-2, form=form, save=path)
    loaded = Result.load(path)
    for result in (saved, loaded):
        assert_array_equal(result.time, plain.time)
        assert_array_equal(np.asarray(result.values), plain.values)
        assert_array_equal(result["b.y"], plain["b.y"])
        assert_array_equal(result["b.y[2]"], plain["b.y[2]"])
        assert_array_equal(result.values[5:9, 1:3], plain.values[5:9, 1:3])
        assert [(p.name, p.shape, p.units, p.doc) for p in result.ports] == [
            (p.name, p.shape, p.units, p.doc) for p in plain.ports
        ]
    assert loaded.meta == plain.meta
    assert logs(tmp_path) == (["run.arrow"] if ending == ".arrow" else [])


@pytest.mark.slow
@pytest.mark.usefixtures("small_chunks")
def test_chosen_signals_and_each_tenth_point(tmp_path):
    plain = simulate(wired(parts()), 0.5, 1e-3, form="fused")
    for form, save in (("compiled", None), ("fused", None), ("fused", tmp_path / "run.arrow")):
        some = simulate(
            wired(parts()), 0.5, 1e-3, form=form, record=["robot.q*", "pd.tau"], every=10, save=save
        )
        assert [p.name for p in some.ports] == ["robot.q", "robot.qd", "robot.qdd", "pd.tau"]
        assert_array_equal(some.time, plain.time[::10])
        # the forms differ by rounding
        assert_allclose(some["pd.tau"], plain["pd.tau"][::10], rtol=1e-10, atol=1e-10)
        assert_allclose(some["robot.q"], plain["robot.q"][::10], rtol=1e-10, atol=1e-10)


def test_a_pattern_that_names_nothing_is_told_with_what_there_is():
    with pytest.raises(KeyError, match=r"'robt.q'; there are: .*\(did you mean robot.q\?\)"):
        simulate(wired(parts()), 0.1, 1e-3, record=["robt.q"])


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("ending", [None, *ENDINGS])
def test_every_event_is_kept_beside_each_tenth_point(ending, tmp_path):
    path = None if ending is None else tmp_path / f"run{ending}"
    result = simulate(waves(), 4.0, 0.1, events=["a.y[1]", "b.y[2]"], every=10, save=path)
    # sines fall through zero where 2 pi f t + phase is pi, 3 pi, ...
    falls = [("a.y[1]", (k + 0.5) - 0.1 / (2 * np.pi)) for k in range(4)]
    falls += [("b.y[2]", (2 * k + 1) - 0.1 / np.pi) for k in range(2)]
    falls = sorted((kind, round(t, 9)) for kind, t in falls)
    assert_allclose(result.time, sorted([0.0, 1.0, 2.0, 3.0, 4.0, *(t for _, t in falls)]))
    for run in (result, result if path is None else Result.load(path)):
        assert sorted((event.kind, round(event.t, 9)) for event in run.events) == falls


def test_rows_in_memory_grow_and_keep_what_they_have():
    rows, expected = RowsInMemory(2, 4), np.arange(2000.0).reshape(-1, 2)
    for k in range(0, 1000, 7):
        rows.write(np.arange(k, min(k + 7, 1000.0)), expected[k : k + 7], ())
    time, values = rows.finish(np.empty(0), np.empty((0, 2)))
    assert_array_equal(time, np.arange(1000.0))
    assert_array_equal(values, expected)


def test_the_record_says_how_it_came_about(tmp_path):
    fmu = foreign_fmu(tmp_path / "some.fmu")
    system = waves()
    system.add("part", fmu)
    meta = Result.load(simulated(system, tmp_path / "run.parquet")).meta
    told = json.loads(meta["parts"])
    assert meta["order"] == "gauss-seidel"
    assert (meta["dt"], meta["form"]) == ("0.01", "compiled")
    assert told["a"]["block"] == "Sine"
    assert told["a"]["parameters"]["amplitude"] == [1.0, 2.0]
    assert told["a"]["method"] == "adaptive or stiff"
    assert len(told["part"]["sha256"]) == 64
    assert set(json.loads(meta["versions"])) == {"numpy", "python", "rigidblocks"}


def simulated(system, path):
    simulate(system, 0.1, 1e-2, save=path)
    return path


# logs


@pytest.mark.usefixtures("small_chunks")
def test_a_log_has_its_chunks_while_the_run_goes_on(tmp_path):
    path, seen = tmp_path / "run.arrow", []

    @dataclass(frozen=True, eq=False)
    class Watched(Block):
        outputs = (Port("y"),)

        def output(self, t):
            if path.exists():
                with pytest.warns(RuntimeWarning, match="has no end"):
                    seen.append(len(Result.load(path).time))
            return {"y": 1.0 * t}

    system = System()
    system.add("watched", Watched())
    simulate(system, 0.5, 1e-2, form="numpy", save=path)
    assert {16, 32} <= set(seen)
    assert len(Result.load(path).time) == 51


@pytest.mark.usefixtures("small_chunks")
def test_of_a_log_cut_anywhere_the_whole_chunks_are_read(tmp_path):
    path = tmp_path / "run.arrow"
    whole = simulate(waves(), 1.0, 1e-2, save=path)
    content, read = path.read_bytes(), set()
    for size in range(len(content) - 1, 5000, -97):
        cut = tmp_path / f"cut{size}.arrow"
        cut.write_bytes(content[:size])
        with pytest.warns(RuntimeWarning, match=r"no end: .* whole chunks of \d+ rows"):
            some = Result.load(cut)
        n = len(some.time)
        assert n % 16 == 0 or n == 101
        read.add(n)
        assert_array_equal(np.asarray(some.values), whole.values[:n])
        assert some.ports[0].units == ("rad", "rad")
    assert read >= {16, 32, 48, 64, 80, 96}


@pytest.mark.usefixtures("small_chunks")
def test_convert_makes_files_of_a_log_that_was_cut(tmp_path, capsys):
    path = tmp_path / "run.arrow"
    whole = simulate(waves(), 1.0, 1e-2, save=path)
    path.write_bytes(path.read_bytes()[:-200])
    for ending in ENDINGS:
        out = tmp_path / f"converted{ending}"
        assert main(["convert", str(path), str(out)]) == 0
        assert "has no end" in capsys.readouterr().err
        converted = Result.load(out)
        assert_array_equal(np.asarray(converted.values), whole.values[: len(converted.time)])
        assert len(converted.time) >= 64
    assert main(["convert", str(tmp_path / "none.arrow"), "x.csv"]) == 2


def test_a_result_outlives_the_next_run_to_the_same_log(tmp_path):
    path = tmp_path / "run.arrow"
    first = simulate(waves(), 1.0, 1e-2, save=path)
    second = simulate(waves((3.0, 4.0)), 0.1, 1e-2, save=path)
    assert isinstance(first.values, LoggedValues)
    assert_array_equal(3 * first["a.y[1]"][:11], second["a.y[1]"])


def test_what_is_no_log_is_refused(tmp_path):
    for ending in (".arrow", ".csv"):
        path = tmp_path / f"x{ending}"
        path.write_text("this is\nno record\n")
        with pytest.raises(ValueError, match=rf"x{ending}' is not a (log|result)"):
            Result.load(path)


@pytest.mark.parametrize(
    ("text", "why"),
    [("", "it has no line of names"), ("time,a,b\n0,1\n1,2\n2,3\n", "2 numbers below 3 names")],
)
def test_a_csv_file_without_its_names_is_refused(tmp_path, text, why):
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=why):
        Result.load(path)


@pytest.mark.parametrize("ending", [".arrow", ".csv", ".parquet", ".mf4"])
def test_a_folder_is_no_result(tmp_path, ending):
    (tmp_path / f"x{ending}").mkdir()
    with pytest.raises(IsADirectoryError, match=f"x{ending}' is a folder"):
        Result.load(tmp_path / f"x{ending}")


@pytest.mark.parametrize("first", [b"\xff\xfe\xfd\xfc", b"\x80\x00\x01\x02", b"PAR1"])
@pytest.mark.parametrize("ending", [".arrow", ".csv", ".parquet", ".mf4"])
def test_noise_is_no_result(tmp_path, ending, first):
    path = tmp_path / f"x{ending}"
    path.write_bytes(first + bytes(range(256)) * 3)
    with pytest.raises(ValueError, match=rf"x{ending}' is not a (log|result)"):
        Result.load(path)


def test_names_alone_are_a_result_without_rows(tmp_path):
    (tmp_path / "x.csv").write_text("time,a\n")
    assert Result.load(tmp_path / "x.csv")["a"].shape == (0,)


def test_a_csv_file_of_another_program_is_read_by_its_names(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('time,q[1],q[2],"m[1,1]",z[7]\n0,1,2,3,4\n1,5,6,7,8\n')
    result = Result.load(path)
    assert [(p.name, p.shape) for p in result.ports] == [("q", (2,)), ("m", (1, 1)), ("z[7]", ())]
    assert_array_equal(result["q"], [[1, 2], [5, 6]])


@pytest.mark.parametrize("arrow", [True, False])
def test_csv_keeps_every_bit(arrow, tmp_path, monkeypatch, rng):
    if not arrow:
        without(monkeypatch, "pyarrow")
    bits = rng.integers(0, 2**64, size=(1000, 2), dtype=np.uint64)
    values = np.where(np.isfinite(bits.view(float)), bits.view(float), 0.1)
    values[:4, 0] = 5e-324, 1.7976931348623157e308, -0.0, 2.2250738585072014e-308
    path = Result(np.arange(1000.0), (Port("a", (2,), "m"),), values, {}).save(tmp_path / "x.csv")
    assert_array_equal(Result.load(path).values.view(np.int64), values.view(np.int64))


# what cannot be saved is told before the first step


def without(monkeypatch, *packages):
    """As if these packages were not installed."""

    def find(name):
        return None if name in packages else object()

    for module in (files, recording):
        monkeypatch.setattr(module, "find_spec", find)


@pytest.fixture
def no_run(monkeypatch):
    monkeypatch.setattr(recording.Recording, "add", lambda *_: pytest.fail("the run has begun"))


@pytest.mark.usefixtures("no_run")
def test_a_file_that_cannot_be_made_is_refused_before_the_first_step(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.csv").mkdir()
    for name, error, message in (
        ("run.xlsx", ValueError, r"must end in one of .arrow, .csv, .mf4, .parquet"),
        ("file/run.csv", OSError, "file"),
        ("folder.csv", IsADirectoryError, "it is a folder"),
    ):
        with pytest.raises(error, match=message):
            simulate(waves(), 1.0, 1e-2, save=tmp_path / name)
    room = SimpleNamespace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: room)
    with pytest.raises(OSError, match=r"needs about 72 MB and .* has room for 0 MB: take `record`"):
        simulate(waves(), 1e4, 1e-2, save=tmp_path / "run.arrow")


@pytest.mark.usefixtures("no_run")
def test_a_package_that_is_missing_is_named_before_the_first_step(tmp_path, monkeypatch):
    without(monkeypatch, "pyarrow", "asammdf")
    for ending, extra in ((".arrow", "data"), (".parquet", "data"), (".mf4", "mdf")):
        with pytest.raises(ImportError, match=rf"run{ending}' needs .*rigidblocks\[{extra}\]"):
            simulate(waves(), 1.0, 1e-2, save=tmp_path / f"run{ending}")


def test_without_pyarrow_a_run_is_recorded_in_memory_and_saved_as_csv(tmp_path, monkeypatch):
    without(monkeypatch, "pyarrow")
    result = simulate(waves(), 1.0, 1e-2, save=tmp_path / "run.csv")
    assert isinstance(result.values, np.ndarray)
    assert_array_equal(Result.load(tmp_path / "run.csv").values, result.values)


# arguments of a wrong type are named


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"t_stop": "10"}, TypeError, "t_stop must be a number, not '10' of type str"),
        ({"dt": None}, TypeError, "dt must be a number, not None"),
        ({"form": 3}, ValueError, "form must be one of compiled, numpy, fused, traced, not 3"),
        ({"events": "a.y"}, TypeError, r"events must be a list of names; write events=\['a.y'\]"),
        ({"record": "a.y"}, TypeError, r"record must be a list of names; write record=\['a.y'\]"),
        ({"record": [1]}, TypeError, r"record must be a list of names, not \[1\] of type list"),
        ({"every": 0}, ValueError, "every must be 1 or more, not 0"),
        ({"every": 1.5}, TypeError, "every must be a whole number, not 1.5 of type float"),
        ({"save": 3}, TypeError, "save must be the path of a file, not 3 of type int"),
        ({"save": ""}, ValueError, "save must be the path of a file, not ''"),
        ({"save": "/dev/null/run.csv"}, OSError, "cannot save '/dev/null/run.csv': no file can be"),
        ({"dt": 1e-30}, ValueError, r"dt = 1e-30 s makes 1e\+30 steps of a run of 1.0 s"),
        ({"h": "a"}, TypeError, "the inner step h must be a number, not 'a'"),
        ({"scenario": "run.txt"}, ValueError, "is a .csv, .yaml or .json file, not 'run.txt'"),
        ({"events": ["a.z[1]"]}, ValueError, r"\(did you mean a.y\[1\]\?\)"),
    ],
)
def test_a_wrong_argument_is_named(arguments, error, message):
    with pytest.raises(error, match=message):
        simulate(waves(), **{"t_stop": 1.0, "dt": 1e-2, **arguments})


def test_a_run_is_a_run_of_a_system():
    with pytest.raises(TypeError, match="a run takes a System with its parts, not a Sine"):
        simulate(Sine(), 1.0, 1e-2)
