"""Record of a run: recorded signals, file formats, and no data loss after a failure.

Values are compared bit for bit, because files store doubles unchanged.
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
from rigidblocks.cosim.results import recording
from rigidblocks.cosim.results import result_files as files
from rigidblocks.cosim.results.arrow_log import LoggedValues
from rigidblocks.cosim.results.recording import RowsInMemory
from rigidblocks.cosim.results.result_files import FORMATS

ENDINGS = sorted(FORMATS)


# selection of rows and signals


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("form", ["numpy", "fused"])
def test_saved_and_loaded_result_equals_the_result_in_memory(ending, form, tmp_path):
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
def test_selected_signals_are_recorded_at_every_tenth_communication_point(tmp_path):
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


def test_record_pattern_without_a_match_is_rejected_with_the_known_names():
    with pytest.raises(KeyError, match=r"'robt.q'; available: .*\(did you mean robot.q\?\)"):
        simulate(wired(parts()), 0.1, 1e-3, record=["robt.q"])


@pytest.mark.slow
@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("ending", [None, *ENDINGS])
def test_decimated_record_contains_the_sample_of_every_event(ending, tmp_path):
    path = None if ending is None else tmp_path / f"run{ending}"
    result = simulate(waves(), 4.0, 0.1, events=["a.y[1]", "b.y[2]"], every=10, save=path)
    # falling zero crossings of a sine: 2 pi f t + phase = pi, 3 pi, ...
    falls = [("a.y[1]", (k + 0.5) - 0.1 / (2 * np.pi)) for k in range(4)]
    falls += [("b.y[2]", (2 * k + 1) - 0.1 / np.pi) for k in range(2)]
    falls = sorted((kind, round(t, 9)) for kind, t in falls)
    assert_allclose(result.time, sorted([0.0, 1.0, 2.0, 3.0, 4.0, *(t for _, t in falls)]))
    for run in (result, result if path is None else Result.load(path)):
        assert sorted((event.kind, round(event.t, 9)) for event in run.events) == falls


def test_growth_of_the_sample_buffer_does_not_change_the_recorded_values():
    rows, expected = RowsInMemory(2, 4), np.arange(2000.0).reshape(-1, 2)
    for k in range(0, 1000, 7):
        rows.write(np.arange(k, min(k + 7, 1000.0)), expected[k : k + 7], ())
    time, values = rows.finish(np.empty(0), np.empty((0, 2)))
    assert_array_equal(time, np.arange(1000.0))
    assert_array_equal(values, expected)


@pytest.mark.slow
def test_record_of_a_run_contains_parts_parameters_and_versions(tmp_path):
    fmu = foreign_fmu(tmp_path / "some.fmu")
    system = waves()
    system.add("part", fmu)
    meta = Result.load(simulated(system, tmp_path / "run.parquet")).meta
    reported = json.loads(meta["parts"])
    assert meta["order"] == "gauss-seidel"
    assert (meta["dt"], meta["form"]) == ("0.01", "compiled")
    assert reported["a"]["block"] == "Sine"
    assert reported["a"]["parameters"]["amplitude"] == [1.0, 2.0]
    assert reported["a"]["method"] == "adaptive or stiff"
    assert len(reported["part"]["sha256"]) == 64
    assert set(json.loads(meta["versions"])) == {"numpy", "python", "rigidblocks"}


def simulated(system, path):
    simulate(system, 0.1, 1e-2, save=path)
    return path


# logs


@pytest.mark.usefixtures("small_chunks")
def test_log_of_a_run_is_readable_during_the_run(tmp_path):
    path, seen = tmp_path / "run.arrow", []

    @dataclass(frozen=True, eq=False)
    class Watched(Block):
        outputs = (Port("y"),)

        def output(self, t):
            if path.exists():
                with pytest.warns(RuntimeWarning, match="is incomplete"):
                    seen.append(len(Result.load(path).time))
            return {"y": 1.0 * t}

    system = System()
    system.add("watched", Watched())
    simulate(system, 0.5, 1e-2, form="numpy", save=path)
    assert {16, 32} <= set(seen)
    assert len(Result.load(path).time) == 51


@pytest.mark.usefixtures("small_chunks")
def test_loaded_truncated_log_contains_its_complete_chunks(tmp_path):
    path = tmp_path / "run.arrow"
    whole = simulate(waves(), 1.0, 1e-2, save=path)
    content, read = path.read_bytes(), set()
    for size in range(len(content) - 1, 5000, -97):
        cut = tmp_path / f"cut{size}.arrow"
        cut.write_bytes(content[:size])
        with pytest.warns(
            RuntimeWarning, match=r"is incomplete: .* complete chunks of \d+ samples"
        ):
            some = Result.load(cut)
        n = len(some.time)
        assert n % 16 == 0 or n == 101
        read.add(n)
        assert_array_equal(np.asarray(some.values), whole.values[:n])
        assert some.ports[0].units == ("rad", "rad")
    assert read >= {16, 32, 48, 64, 80, 96}


@pytest.mark.slow
@pytest.mark.usefixtures("small_chunks")
def test_convert_command_reads_a_truncated_log(tmp_path, capsys):
    path = tmp_path / "run.arrow"
    whole = np.array(simulate(waves(), 1.0, 1e-2, save=path).values)
    path.write_bytes(path.read_bytes()[:-200])
    for ending in ENDINGS:
        out = tmp_path / f"converted{ending}"
        assert main(["convert", str(path), str(out)]) == 0
        assert "is incomplete" in capsys.readouterr().err
        converted = Result.load(out)
        assert_array_equal(np.asarray(converted.values), whole[: len(converted.time)])
        assert len(converted.time) >= 64
    assert main(["convert", str(tmp_path / "none.arrow"), "x.csv"]) == 2


@pytest.mark.slow
def test_overwriting_the_log_of_a_run_does_not_change_its_result_in_memory(tmp_path):
    path = tmp_path / "run.arrow"
    first = simulate(waves(), 1.0, 1e-2, save=path)
    second = simulate(waves((3.0, 4.0)), 0.1, 1e-2, save=path)
    assert isinstance(first.values, LoggedValues)
    assert_array_equal(3 * first["a.y[1]"][:11], second["a.y[1]"])


def test_invalid_log_of_a_run_is_rejected(tmp_path):
    for ending in (".arrow", ".csv"):
        path = tmp_path / f"x{ending}"
        path.write_text("this is\nno record\n")
        with pytest.raises(ValueError, match=rf"x{ending}' is not a (log|result)"):
            Result.load(path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "the file has no header line with column names"),
        ("time,a,b\n0,1\n1,2\n2,3\n", "2 numbers, but its header has 3 names"),
    ],
)
def test_csv_file_with_invalid_names_is_rejected(tmp_path, text, why):
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=why):
        Result.load(path)


def test_mf4_file_is_read_by_the_installed_package_and_not_by_its_copy_in_a_python_fmu(
    tmp_path, monkeypatch
):
    path = simulate(waves(), 0.1, 1e-2).save(tmp_path / "run.mf4")
    (tmp_path / "rigidblocks").mkdir()
    (tmp_path / "rigidblocks" / "__init__.py").write_text("raise ImportError('another copy')")
    monkeypatch.syspath_prepend(tmp_path)
    assert Result.load(path).columns == simulate(waves(), 0.1, 1e-2).columns


@pytest.mark.parametrize("ending", [".arrow", ".csv", ".parquet", ".mf4"])
def test_folder_is_rejected_as_a_result_file(tmp_path, ending):
    (tmp_path / f"x{ending}").mkdir()
    with pytest.raises(IsADirectoryError, match=f"x{ending}' is a folder"):
        Result.load(tmp_path / f"x{ending}")


@pytest.mark.slow
@pytest.mark.parametrize("first", [b"\xff\xfe\xfd\xfc", b"\x80\x00\x01\x02", b"PAR1"])
@pytest.mark.parametrize("ending", [".arrow", ".csv", ".parquet", ".mf4"])
def test_file_of_random_bytes_is_rejected_as_a_result_file(tmp_path, ending, first):
    path = tmp_path / f"x{ending}"
    path.write_bytes(first + bytes(range(256)) * 3)
    with pytest.raises(ValueError, match=rf"x{ending}' is not a (log|result)"):
        Result.load(path)


def test_csv_file_with_only_column_names_loads_as_an_empty_result(tmp_path):
    (tmp_path / "x.csv").write_text("time,a\n")
    assert Result.load(tmp_path / "x.csv")["a"].shape == (0,)


def test_foreign_csv_file_gets_its_ports_from_the_column_names(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('time,q[1],q[2],"m[1,1]",z[7]\n0,1,2,3,4\n1,5,6,7,8\n')
    result = Result.load(path)
    assert [(p.name, p.shape) for p in result.ports] == [("q", (2,)), ("m", (1, 1)), ("z[7]", ())]
    assert_array_equal(result["q"], [[1, 2], [5, 6]])


@pytest.mark.parametrize("arrow", [True, False])
def test_csv_file_stores_doubles_bit_for_bit(arrow, tmp_path, monkeypatch, rng):
    if not arrow:
        hide_packages(monkeypatch, "pyarrow")
    bits = rng.integers(0, 2**64, size=(1000, 2), dtype=np.uint64)
    values = np.where(np.isfinite(bits.view(float)), bits.view(float), 0.1)
    values[:4, 0] = 5e-324, 1.7976931348623157e308, -0.0, 2.2250738585072014e-308
    path = Result(np.arange(1000.0), (Port("a", (2,), "m"),), values, {}).save(tmp_path / "x.csv")
    assert_array_equal(Result.load(path).values.view(np.int64), values.view(np.int64))


# errors of the result file, before the first step


def hide_packages(monkeypatch, *packages):
    """Simulate an installation without these packages."""

    def find(name):
        return None if name in packages else object()

    for module in (files, recording):
        monkeypatch.setattr(module, "find_spec", find)


@pytest.fixture
def no_run(monkeypatch):
    monkeypatch.setattr(recording.Recording, "add", lambda *_: pytest.fail("the run has begun"))


@pytest.mark.usefixtures("no_run")
def test_unwritable_result_file_is_rejected_before_the_first_step(tmp_path, monkeypatch):
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
    with pytest.raises(OSError, match=r"need about 72 MB, but .* has only 0 MB free; use `record`"):
        simulate(waves(), 1e4, 1e-2, save=tmp_path / "run.arrow")


@pytest.mark.usefixtures("no_run")
def test_missing_package_for_a_file_format_is_reported_before_the_first_step(tmp_path, monkeypatch):
    hide_packages(monkeypatch, "pyarrow", "asammdf")
    for ending, name in ((".arrow", "pyarrow"), (".parquet", "pyarrow"), (".mf4", "asammdf")):
        with pytest.raises(ImportError, match=rf"run{ending}' needs {name}: pip install {name}$"):
            simulate(waves(), 1.0, 1e-2, save=tmp_path / f"run{ending}")


def test_result_is_saved_as_csv_if_pyarrow_is_not_installed(tmp_path, monkeypatch):
    hide_packages(monkeypatch, "pyarrow")
    result = simulate(waves(), 1.0, 1e-2, save=tmp_path / "run.csv")
    assert isinstance(result.values, np.ndarray)
    assert_array_equal(Result.load(tmp_path / "run.csv").values, result.values)


# invalid arguments


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"t_stop": "10"}, TypeError, "t_stop must be a number, not '10' of type str"),
        ({"dt": None}, TypeError, "dt must be a number, not None"),
        ({"form": 3}, ValueError, "form must be one of compiled, numpy, fused, traced, not 3"),
        ({"events": "a.y"}, TypeError, r"events must be a list of names; write events=\['a.y'\]"),
        ({"record": "a.y"}, TypeError, r"record must be a list of names; write record=\['a.y'\]"),
        ({"record": [1]}, TypeError, r"record must be a list of names, not \[1\] of type list"),
        ({"every": 0}, ValueError, "every must be at least 1, not 0"),
        ({"every": 1.5}, TypeError, "every must be an integer, not 1.5 of type float"),
        ({"save": 3}, TypeError, "save must be the path of a file, not 3 of type int"),
        ({"save": ""}, ValueError, "save must be the path of a file, not ''"),
        ({"save": "/dev/null/run.csv"}, OSError, "cannot save '/dev/null/run.csv': cannot create"),
        (
            {"dt": 1e-30},
            ValueError,
            "steps of 1e-30 s are too short .* use steps of at least 2.8e-14 s",
        ),
        ({"h": "a"}, TypeError, "the inner step h must be a number, not 'a'"),
        (
            {"scenario": "run.txt"},
            ValueError,
            "unsupported file 'run.txt'; expected a .csv, .yaml or .json file",
        ),
        ({"events": ["a.z[1]"]}, ValueError, r"\(did you mean a.y\[1\]\?\)"),
    ],
)
def test_error_for_an_invalid_argument_of_simulate_identifies_the_argument(
    arguments, error, message
):
    with pytest.raises(error, match=message):
        simulate(waves(), **{"t_stop": 1.0, "dt": 1e-2, **arguments})


def test_simulation_of_a_block_that_is_not_part_of_a_system_is_rejected():
    with pytest.raises(TypeError, match="a run needs a System, not a Sine; write system = System"):
        simulate(Sine(), 1.0, 1e-2)
