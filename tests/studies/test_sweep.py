"""Sweeps: each run equals a single run, and no run is lost."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from campaign import sized
from planar2ctrl import parts, wired
from rigidblocks import Block, Port, PythonBlock, System, grid, simulate, sweep
from rigidblocks.cli import main
from rigidblocks.studies.experiment_design import latin_hypercube, sobol, table_design, uniform

DT = 0.01


@dataclass(frozen=True)
class Decay(Block):
    """dx/dt = -k x, which diverges for a large negative k."""

    states = outputs = (Port("x", (), "1", "what decays", 1.0),)
    parameters = (Port("k", (), "1/s", "its rate", 1.0),)

    def derivative(self, x, p):
        return {"x": -p.k * x.x}


def decay():
    system = System()
    system.add("decay", Decay(), method="adaptive or stiff", rtol=1e-10)
    return system


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 3])
def test_sweep_runs_match_the_results_of_single_runs(threads):
    design = grid({"decay.k": [0.5, 1.0, 2.0], "decay.x": [1.0, 3.0]})
    assert (len(design), design.columns()) == (6, ("decay.k", "decay.x"))
    done = sweep(decay(), design, 1.0, DT, {"end": "last decay.x"}, threads=threads, progress=False)
    assert_array_equal(done["decay.k"], [0.5, 0.5, 1.0, 1.0, 2.0, 2.0])
    assert_array_equal(done["decay.x"], [1.0, 3.0] * 3)
    assert_allclose(done["end"], done["decay.x"] * np.exp(-done["decay.k"]), rtol=1e-9)
    assert (len(done), done.failures) == (6, {})
    with pytest.raises(KeyError, match=r"the sweep has no measure or varied parameter 'ends'.*end"):
        done["ends"]


SLOW = pytest.mark.slow


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize(
    "form", [pytest.param("fused", marks=SLOW), "compiled", pytest.param("numpy", marks=SLOW)]
)
def test_sweep_varies_arrays_and_single_elements_in_numpy_in_c_and_in_fused_systems(form):
    system = wired(parts())
    gravities = [[0.0, 0.0, -9.81], [0.0, -3.0, 0.0]]
    design = grid({"robot.gravity": gravities, "pd.kp[2]": [500.0, 900.0]})
    assert design.columns()[1:3] == ("robot.gravity[2]", "robot.gravity[3]")
    measures = {
        "peak": "peak robot.q[2]",
        "mine": lambda result: result["robot.q"][-1] @ [1.0, 2.0],
    }
    done = sweep(system, design, 0.05, DT, measures, form=form, progress=False)
    for k, (gravity, kp) in enumerate((g, kp) for g in gravities for kp in (500.0, 900.0)):
        separate = wired(parts())
        separate.parts.clear()
        separate.connections.clear()
        start = {"robot": {"gravity": gravity}, "pd": {"kp": [1000.0, kp]}}
        for name, block in parts().items():
            separate.add(name, block, start=start.get(name))
        for one in wired(parts()).connections:
            separate.connect(*one.names)
        result = simulate(separate, 0.05, DT, form=form, progress=False)
        assert done["peak"][k] == np.abs(result["robot.q"][:, 1]).max()
        assert done["mine"][k] == result["robot.q"][-1] @ [1.0, 2.0]


@pytest.mark.slow
def test_failed_run_of_a_sweep_is_reported_and_other_runs_continue():
    design = grid({"decay.k": [1.0, -1e6, 2.0]})
    with pytest.warns(RuntimeWarning, match=r"1 of 3 runs failed.* run 1: .*not finite") as caught:
        done = sweep(decay(), design, 1.0, DT, {"end": "last decay.x"}, progress=False)
    assert caught[0].filename == __file__
    assert list(done.failures) == [1]
    assert "not finite" in done.failures[1]
    assert math.isnan(done["end"][1])
    assert_allclose(done["end"][[0, 2]], np.exp([-1.0, -2.0]), rtol=1e-9)
    assert "1 failed" in repr(done)


@pytest.mark.slow
def test_sweep_supports_a_system_with_a_part_that_cannot_be_traced():
    system = decay()
    system.add("echo", PythonBlock(lambda u: 2 * u, [Port("u")], [Port("y")]))
    system.connect("decay.x", "echo.u")
    done = sweep(
        system, grid({"decay.k": [1.0, 2.0]}), 1.0, DT, {"y": "last echo.y"}, progress=False
    )
    assert_allclose(done["y"], 2 * np.exp([-1.0, -2.0]), rtol=1e-9)


def test_random_sweep_designs_are_reproducible_and_cover_the_parameter_ranges():
    ranges = {"a.p": (0.0, 1.0), "b.q": ([-1.0, 10.0], [1.0, 20.0])}
    for make in (latin_hypercube, sobol, uniform):
        design, again, other = make(ranges, 64), make(ranges, 64), make(ranges, 64, seed=1)
        table = design.table
        assert_array_equal(table, again.table)
        assert np.any(table != other.table)
        assert design.columns() == ("a.p", "b.q[1]", "b.q[2]")
        assert np.all((table >= [0, -1, 10]) & (table <= [1, 1, 20]))
        places = np.sort((table - [0, -1, 10]) / [1, 2, 10], axis=0)
        if make is not uniform:  # one sample in each of 64 equal intervals
            assert_array_equal(np.floor(places * 64), np.tile(np.arange(64.0)[:, None], 3))


@pytest.mark.slow
def test_interrupted_sweep_continues_from_its_record(tmp_path):
    path, counted = tmp_path / "runs.csv", tmp_path / "counted"

    def end(result):
        with counted.open("a") as file:  # a list would be part of the digest of the measure
            file.write("1")
        return result["decay.x"][-1]

    design, measure = grid({"decay.k": np.linspace(0.5, 2.0, 8)}), {"end": end}
    first = sweep(decay(), design, 1.0, DT, measure, save=path, progress=False)
    assert len(counted.read_text()) == 8
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(
        "".join(lines[:6]) + lines[6][:-5]
    )  # the state after a kill in the middle of a line
    again = sweep(decay(), design, 1.0, DT, measure, save=path, progress=False)
    assert len(counted.read_text()) == 8 + 4
    assert_array_equal(again["end"], first["end"])
    assert len(path.read_text().splitlines()) == 10
    for other in (
        {"design": grid({"decay.k": [1.0]})},
        {"t_stop": 2.0},
        {"measure": {"last": end}},
    ):
        given = {"design": design, "t_stop": 1.0, "dt": DT, "measure": measure} | other
        with pytest.raises(ValueError, match="belongs to another sweep"):
            sweep(decay(), **given, save=path, progress=False)
    with pytest.raises(ValueError, match=r"for a sweep; expected \.csv, \.nc, \.zarr"):
        sweep(decay(), design, 1.0, DT, measure, save=tmp_path / "runs.txt", progress=False)


@pytest.mark.slow
def test_damaged_sweep_record_is_rejected_and_a_truncated_header_is_rewritten(tmp_path):
    path = tmp_path / "runs.csv"
    design, measure = grid({"decay.k": np.linspace(0.5, 2.0, 8)}), {"end": "last decay.x"}
    first = sweep(decay(), design, 1.0, DT, measure, save=path, progress=False)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("mine")
    with pytest.raises(ValueError, match="belongs to another sweep"):
        sweep(decay(), design, 1.0, DT, measure, save=path, progress=False)
    assert path.read_text() == "mine"
    path.write_text("".join([*lines[:4], "3,what,is,this\n", *lines[4:]]))
    with pytest.raises(ValueError, match=r"line 5 of '.*runs.csv' is damaged or changed"):
        sweep(decay(), design, 1.0, DT, measure, save=path, progress=False)
    for cut in (len(lines[0]) + 9, len(lines[0]), len(lines[0]) - 4):  # killed in the header
        path.write_text("".join(lines[:2])[:cut])
        again = sweep(decay(), design, 1.0, DT, measure, save=path, progress=False)
        assert_array_equal(again["end"], first["end"])
        assert path.read_text().startswith("".join(lines[:2]))


PROGRAM = """
import sys
sys.path[:0] = {paths!r}
from test_sweep import DT, decay
from rigidblocks import grid, sweep
import numpy as np
sweep(decay(), grid({{"decay.k": np.linspace(0.5, 2.0, 3000)}}), 20.0, DT,
      {{"end": "last decay.x"}}, save={save!r}, progress=False)
"""


@pytest.mark.slow
def test_killed_sweep_preserves_every_recorded_run(tmp_path):
    path = tmp_path / "runs.csv"
    paths = [os.path.dirname(__file__), *(p for p in sys.path if p)]
    program = PROGRAM.format(paths=paths, save=str(path))
    rng, before = np.random.default_rng(0), 0
    for _ in range(sized(8, 3)):
        running = subprocess.Popen([sys.executable, "-c", program])
        deadline = time.monotonic() + 60.0
        size = path.stat().st_size if path.exists() else 0
        while running.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
            if path.exists() and path.stat().st_size > size + 500:
                break
        time.sleep(float(rng.uniform(0, 0.05)))
        running.send_signal(signal.SIGKILL)
        running.wait()
        written = path.read_bytes().count(b"\n")
        assert written >= before
        before = written
    subprocess.run([sys.executable, "-c", program], check=True)
    table = np.genfromtxt(path, delimiter=",", skip_header=2)[:, :3]
    order = np.argsort(table[:, 0])
    assert_array_equal(table[order, 0], np.arange(3000))
    assert_allclose(table[:, 2], np.exp(-20.0 * table[:, 1]), rtol=1e-6)


@pytest.mark.parametrize(
    ("values", "options", "error", "said"),
    [
        ({"decoy.k": [1.0]}, {}, KeyError, r"unknown part 'decoy'.*decay"),
        ({"decay.rate": [1.0]}, {}, KeyError, "has no start value"),
        ({}, {}, ValueError, "one or more parameters"),
        ({"decay.k": [1.0]}, {"measure": "largest decay.x"}, ValueError, "invalid measure"),
        ({"decay.k": [1.0]}, {"measure": None}, ValueError, "`measure` is empty"),
        ({"decay.k": [1.0]}, {"measure": "last decay.z"}, KeyError, r"decay\.z"),
        (
            {"decay.k": [1.0]},
            {"t_stop": 1.005},
            ValueError,
            "does not divide the duration of the run",
        ),
        (
            {"decay.k": [1.0]},
            {"threads": 2, "scheduler": "tcp://localhost:1"},
            ValueError,
            "threads apply only to a sweep on this machine",
        ),
    ],
)
def test_invalid_sweep_arguments_are_rejected_before_the_first_run(values, options, error, said):
    given = {"t_stop": 1.0, "dt": DT, "measure": "last decay.x"} | options
    measure = given.pop("measure")
    wanted = {} if measure is None else {"end": measure}
    with pytest.raises(error, match=said):
        sweep(decay(), grid(values), **given, measure=wanted, progress=False)


def test_sweep_rejects_a_design_that_is_not_a_table():
    with pytest.raises(TypeError, match=r"a design is a table: the path of a .csv file, .*; not 5"):
        sweep(decay(), 5, 1.0, DT, {"end": "last decay.x"})


def test_invalid_sweep_designs_are_rejected():
    with pytest.raises(ValueError, match="same shape"):
        grid({"decay.k": [1.0, [1.0, 2.0]]})
    with pytest.raises(ValueError, match=r"decay.k needs one or more values"):
        grid({"decay.k": []})
    with pytest.raises(ValueError, match=r"a.p\[2\] occurs twice"):
        grid({"a.p": [[1.0, 2.0]], "a.p[2]": [3.0]})
    with pytest.raises(ValueError, match=r"a.p must be finite in each run, but is nan in run 1"):
        grid({"a.p": [1.0, math.nan]})
    with pytest.raises(ValueError, match=r"the grid has 1,000,000,000 runs"):
        grid({"a.p": range(1000), "b.p": range(1000), "c.p": range(1000)})
    with pytest.raises(ValueError, match="number of runs must be from 1 to"):
        sobol({"a.p": (0.0, 1.0)}, 0)
    with pytest.raises(ValueError, match=r"the smallest value of the range of .* must be at most"):
        uniform({"decay.k": (2.0, 1.0)}, 3)
    with pytest.raises(ValueError, match=r"needs a range \(smallest, largest\)"):
        uniform({"decay.k": 2.0}, 3)


@pytest.fixture
def wave(tmp_path, monkeypatch):
    """Work in a folder with a system whose maximum equals its amplitude."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wave.py").write_text(
        "from rigidblocks import Sine, System\nsystem = System()\n"
        'system.add("wave", Sine(amplitude=2.0, frequency=0.25))\n'
    )
    return tmp_path


MEASURED = ["--measure", "max wave.y", "--stop", "1", "--dt", "0.25"]


@pytest.mark.slow
def test_sweep_command_runs_grid_and_random_designs(wave, capsys):
    options = [*MEASURED, "-o", "runs.csv"]
    assert main(["sweep", "wave.py", "--vary", "wave.amplitude=1,2:4:3", *options]) == 0
    said = capsys.readouterr().out
    assert "4 runs" in said
    rows = (wave / "runs.csv").read_text().splitlines()
    assert rows[1] == "run,wave.amplitude,max wave.y,error,digest"
    values = sorted(tuple(map(float, row.split(",")[1:3])) for row in rows[2:])
    assert_allclose(values, [(a, a) for a in (1.0, 2.0, 3.0, 4.0)], rtol=1e-12)
    words = ["--vary", "wave.amplitude=1:3", "--sample", "uniform", "--runs", "4", "--json"]
    assert main(["sweep", "wave.py", *words, *MEASURED]) == 0
    columns = json.loads(capsys.readouterr().out)["columns"]
    assert_allclose(columns["wave.amplitude"], columns["max wave.y"], rtol=1e-12)
    assert len(set(columns["wave.amplitude"])) == 4


@pytest.mark.usefixtures("wave")
def test_invalid_arguments_of_the_sweep_command_are_rejected(capsys):
    for words, said in (
        (["wave.amplitude"], "as wave.amplitude=1,2 or wave.amplitude=1:4:7"),
        (
            ["wave.amplitude=1", "--vary", "wave.amplitude=2"],
            "--vary wave.amplitude occurs twice",
        ),
        (["wave.amplitude=1", "--measure", "max wave.y"], "--measure max wave.y occurs twice"),
        (["wave.amplitude=1", "--runs", "3"], "--runs needs --sample"),
        (["wave.amplitude=1:2", "--sample", "latin"], "needs --runs"),
        (["wave.amplitude=1:2", "--sample", "halton"], "one of latin, sobol, uniform"),
        (
            ["wave.amplitude=1", "--sample", "latin", "--runs", "3"],
            "write it as wave.amplitude=1:4",
        ),
        (["wave.amplitude=1", "--scheduler", "bench"], "write it as tcp://bench:8786"),
    ):
        given = MEASURED if "--scheduler" in words else [*MEASURED, "-o", "runs.csv"]
        assert main(["sweep", "wave.py", "--vary", *words, *given]) == 2
        assert said in capsys.readouterr().err


# tables of runs

ROWS = [[0.5, 1.0], [1.0, 3.0], [2.0, 2.0]]


def tables(folder):
    """Return the same table as a file, a dict and a data frame."""
    text = "".join(f"{k},{x}\n" for k, x in ROWS)
    (folder / "plain.csv").write_text("decay.k,decay.x\n" + text)
    (folder / "from_excel.csv").write_bytes(
        b"\xef\xbb\xbf" + ("# three runs\r\n\r\n decay.k , decay.x\r\n" + text).encode()
    )
    columns = dict(zip(("decay.k", "decay.x"), np.transpose(ROWS), strict=True))
    pandas = pytest.importorskip("pandas")
    yield from (str(folder / "plain.csv"), folder / "from_excel.csv", columns)
    yield pandas.DataFrame(columns)


def test_sweep_over_a_table_of_each_form_has_one_run_per_row(tmp_path):
    for table in tables(tmp_path):
        design = table_design(table)
        assert design.names == ("decay.k", "decay.x")
        assert_array_equal(design.table, ROWS)


@pytest.mark.slow
def test_sweep_over_a_table_matches_the_closed_form(tmp_path):
    for table in tables(tmp_path):
        done = sweep(decay(), table, 1.0, DT, {"end": "last decay.x"}, progress=False)
        expected = [x * math.exp(-k) for k, x in ROWS]
        assert_allclose(done["end"], expected, rtol=1e-9)


def test_column_of_a_sweep_table_may_vary_a_whole_port():
    design = table_design({"pd.kp": [[1.0, 2.0], [3.0, 4.0]], "pd.kd[1]": (5, 6)})
    assert design.columns() == ("pd.kp[1]", "pd.kp[2]", "pd.kd[1]")
    assert_array_equal(design.table, [[1, 2, 5], [3, 4, 6]])


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ("a.k\n", "needs a header and one or more rows"),
        ("a.k,a.x\n1,2\n3\n", r"line 3 of the design .* a.k, a.x, but is \['3'\]"),
        ("a.k,a.x\n1,two\n", r"line 2 of the design .* is \['1', 'two'\]"),
        ("a.k;a.x\n1;2\n", r"line 2 of the design .*a.k;a.x, but is \['1;2'\]"),
        ("a.k,a.k\n1,2\n", "the column 'a.k' of the design .* occurs twice"),
        ("a.k\nnan\n", "a.k must be finite in each run, but is nan in run 0"),
        ({"a.k": [1, 2], "a.x": [1]}, "equal lengths, but a.k has 2, a.x has 1; for all comb"),
        ({"a.k": 1.0}, r"a.k of the design needs one value per run: a.k=\[1.0\]"),
        ({"a.k": ["one"]}, "a.k of the design needs numbers"),
        ({}, "one or more parameters"),
    ],
)
def test_error_for_an_invalid_sweep_table_identifies_the_invalid_entry(table, text, tmp_path):
    if isinstance(table, str):
        (tmp_path / "params.csv").write_text(table)
        table = tmp_path / "params.csv"
    with pytest.raises(ValueError, match=text):
        table_design(table)


@pytest.mark.slow
def test_sweep_command_reads_a_table(wave, capsys):
    (wave / "params.csv").write_text("wave.amplitude\n1.5\n0.5\n")
    words = ["sweep", "wave.py", *MEASURED, "--json"]
    assert main([*words, "--design", "params.csv"]) == 0
    columns = json.loads(capsys.readouterr().out)["columns"]
    assert columns["wave.amplitude"] == [1.5, 0.5]
    assert_allclose(columns["max wave.y"], [1.5, 0.5], rtol=1e-12)


@pytest.mark.usefixtures("wave")
def test_sweep_command_needs_either_values_or_a_table(capsys):
    both = ["--vary", "wave.amplitude=1", "--design", "params.csv"]
    for given, said in (
        ([], "needs one of --vary pd.kp[1]=20,40 and --design params.csv"),
        (both, "needs one of --vary"),
        (["--design", "params.csv", "--runs", "3"], "--sample and --runs need --vary"),
        (["--design", "params.csv"], "params.csv"),
    ):
        assert main(["sweep", "wave.py", *given, *MEASURED]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_full_disk_error_of_a_sweep_contains_the_path_of_the_record(tmp_path):
    path = tmp_path / "runs.csv"
    path.symlink_to("/dev/full")
    design = grid({"decay.k": [1.0, 2.0]})
    with pytest.raises(OSError, match=r"No space left on device: '.*runs\.csv'"):
        sweep(decay(), design, 1.0, DT, {"end": "last decay.x"}, save=path, progress=False)


@pytest.mark.interop
@pytest.mark.filterwarnings("ignore:1 of 3 runs failed")
@pytest.mark.parametrize("kind", ["nc", "zarr"])
def test_sweep_is_saved_as_an_xarray_dataset(tmp_path, kind):
    import xarray

    path = tmp_path / f"runs.{kind}"

    def go(*values, **options):
        design = grid({"decay.k": values})
        return sweep(decay(), design, 1.0, DT, {"end": "last decay.x"}, progress=False, **options)

    done = go(1.0, -1e6, 2.0, save=path)
    how = {"engine": "scipy"} if kind == "nc" else {"engine": "zarr"}
    for _ in range(2):  # the second time all runs are recorded
        with xarray.open_dataset(path, **how) as read:
            assert_array_equal(read["end"], done["end"])
            assert_array_equal(read["decay.k"], [1.0, -1e6, 2.0])
            assert [bool(said) for said in read["error"].values.tolist()] == [False, True, False]
        assert {one.name for one in tmp_path.iterdir()} == {path.name, f"{path.name}.csv"}
        assert_array_equal(go(1.0, -1e6, 2.0, save=path)["end"], done["end"])
    with pytest.raises(ValueError, match="belongs to another sweep"):
        go(1.0, save=path)
    path.with_name(f"{path.name}.csv").unlink()
    with pytest.raises(ValueError, match="exists and does not belong to this sweep"):
        go(1.0, -1e6, 2.0, save=path)
