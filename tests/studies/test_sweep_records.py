"""Only the same sweep continues a record, and damage to a record is detected.

The reference for each continued sweep is the same sweep without a record.
"""

import importlib
import json
import random
import sys
import types
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import rigidblocks
from foreign_fmu import foreign_fmu
from rigidblocks import (
    Block,
    PDController,
    Port,
    RobotPlant,
    Sine,
    System,
    auto_tree,
    grid,
    simulate,
    sweep,
)
from rigidblocks.block.external_functions import PythonBlock
from rigidblocks.kernels.block_digest import content_digest

DESIGN = grid({"part.u": [0.1, 0.2, 0.3]})
GAIN = 2.0


@dataclass(frozen=True)
class Lag(Block):
    """x' = rate (u - x), a block of the test program."""

    rate: float = 1.0

    inputs = (Port("u", start=0.0),)
    outputs = (Port("x", start=0.0),)
    states = (Port("x", start=0.0),)

    def derivative(self, x, u):
        return {"x": self.rate * (u.u - x.x)}


def of(component, **options):
    system = System()
    system.add("part", component, **options)
    return system


def fast():
    """Return a block with the name and fields of Lag but another derivative."""

    def derivative(_, x, u):
        return {"x": 9.0 * (u.u - x.x)}

    return type("Lag", (Lag,), {"derivative": derivative})()


def last(result):
    return float(result["part.x"][-1])


def scaled(result):
    return GAIN * result["part.x"][-1]


def record(system, measure, path, design=DESIGN, t_stop=0.1, **options):
    options = {"form": "numpy", "progress": False, "threads": 1} | options
    return sweep(system, design, t_stop, 1e-2, {"m": measure}, save=path, **options)


def is_refused(system, measure, path, what, **options):
    before = path.read_bytes()
    with pytest.raises(ValueError, match=rf"belongs to another sweep.*\(it differs in: {what}\)"):
        record(system, measure, path, **options)
    assert path.read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize(
    "other",
    [
        lambda: of(Lag(2.0)),
        lambda: of(fast()),
        lambda: of(Lag(), start={"x": 0.5}),
        lambda: of(Lag(), method="rk4", h=1e-3),
    ],
    ids=["field", "code", "start", "method"],
)
def test_sweep_record_of_another_system_is_rejected(other, tmp_path):
    path = tmp_path / "runs.csv"
    record(of(Lag()), "last part.x", path)
    is_refused(other(), "last part.x", path, "system")
    assert_array_equal(
        record(of(Lag()), "last part.x", path)["m"], record(of(Lag()), last, None)["m"]
    )


def robot(taper=1.0, **options):
    system = System()
    system.add("part", RobotPlant(auto_tree(2, taper=taper), **options))
    return system


def test_sweep_record_of_a_robot_with_other_inertias_is_rejected(tmp_path):
    path, design = tmp_path / "runs.csv", grid({"part.tau[1]": [0.1, 0.2]})
    record(robot(), "last part.q[1]", path, design)
    is_refused(robot(0.5), "last part.q[1]", path, "system", design=design)


@pytest.mark.parametrize(
    "change",
    [
        {"t_stop": 0.2},
        {"form": "traced"},
        {"method": "rk4"},
        {"scenario": {"time": [0.05], "part.u": [1.0]}},
    ],
)
def test_sweep_record_with_other_settings_is_rejected(change, tmp_path):
    path = tmp_path / "runs.csv"
    record(of(Lag()), "last part.x", path)
    is_refused(of(Lag()), "last part.x", path, "settings", **change)


def closure(gain):
    return lambda result: gain * result["part.x"][-1]


class Gain:
    def __init__(self, gain):
        self.gain = gain

    def __call__(self, result):
        return self.gain * result["part.x"][-1]

    def measure(self, result):
        return self(result)


def times(gain, result):
    return gain * result["part.x"][-1]


def by_default(gain):
    def measure(result, gain=gain):
        return gain * result["part.x"][-1]

    return measure


@pytest.mark.slow
@pytest.mark.parametrize(
    "measure",
    [
        closure,
        by_default,
        Gain,
        lambda gain: Gain(gain).measure,
        lambda gain: partial(times, gain),
        lambda gain: lru_cache(lambda result: gain * result["part.x"][-1]),
        lambda gain: eval(f"lambda result: {gain} * result['part.x'][-1]"),
        lambda gain: closure(np.array([[gain]])[0, 0]),
    ],
    ids=["closure", "default", "object", "method", "partial", "cached", "constant", "numpy"],
)
def test_sweep_record_of_another_measure_function_is_rejected(measure, tmp_path):
    path = tmp_path / "runs.csv"
    record(of(Lag()), measure(2.0), path)
    is_refused(of(Lag()), measure(3.0), path, "measures")
    again = record(of(Lag()), measure(2.0), path)
    assert_array_equal(again["m"], 2 * record(of(Lag()), last, None)["m"])


def test_sweep_record_is_rejected_after_a_global_variable_of_its_measure_changed(
    tmp_path, monkeypatch
):
    path = tmp_path / "runs.csv"
    record(of(Lag()), scaled, path)
    monkeypatch.setitem(globals(), "GAIN", 3.0)
    is_refused(of(Lag()), scaled, path, "measures")


def test_digest_of_a_measure_function_depends_on_its_imported_modules(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_numbers.py").write_text("GAIN = 2.0\ndef gain():\n    return GAIN\n")
    own_numbers = importlib.import_module("own_numbers")

    def by_value(result):
        return own_numbers.GAIN * result["part.x"][-1]

    def by_function(result):
        return own_numbers.gain() * result["part.x"][-1]

    def by_import(result):
        from own_numbers import GAIN

        return GAIN * result["part.x"][-1]

    names = types.SimpleNamespace(by_value=by_value, by_function=by_function, by_import=by_import)
    before = {name: content_digest(one) for name, one in vars(names).items()}
    assert {name: content_digest(one) for name, one in vars(names).items()} == before
    own_numbers.GAIN = 3.0
    (tmp_path / "own_numbers.py").write_text("GAIN = 3.0\ndef gain():\n    return GAIN\n")
    assert all(content_digest(one) != before[name] for name, one in vars(names).items())


@pytest.mark.slow
def test_sweep_record_of_a_changed_fmu_is_rejected(tmp_path):
    fmu, path, design = tmp_path / "some.fmu", tmp_path / "runs.csv", grid({"other.u": [0.1, 0.2]})
    foreign_fmu(fmu)

    def system():
        made = of(fmu)
        made.add("other", Lag())
        return made

    record(system(), "last other.x", path, design)
    record(system(), "last other.x", path, design)
    import zipfile

    with zipfile.ZipFile(fmu, "a") as archive:
        archive.writestr("resources/table.txt", "1 2 3")
    is_refused(system(), "last other.x", path, "system", design=design)


@pytest.mark.slow
def test_digests_of_blocks_and_runs_are_equal_in_all_processes(tmp_path):
    import subprocess

    program = (
        "from test_sweep_records import Lag, closure, scaled, Gain, robot, of\n"
        "from rigidblocks.kernels.block_digest import content_digest\n"
        "from rigidblocks.cosim.prepare import prepare\n"
        "print(content_digest(Lag(), closure(2.0), scaled, Gain(3.0), {'b', 'a', 'c'}))\n"
        "print(prepare(robot(), 1e-2, form='numpy').plan.meta['digest'])"
    )
    # the path of this process may contain folders of other tests with modules of the same names
    modules = (__file__, foreign_fmu.__code__.co_filename, Path(rigidblocks.__file__).parent)
    folders = [str(Path(module).parent) for module in modules]
    printed = {
        subprocess.run(
            [sys.executable, "-c", f"import sys; sys.path[:0] = {folders!r}\n{program}"],
            capture_output=True,
            check=True,
            env={"PYTHONHASHSEED": seed},
            cwd=tmp_path,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1


@pytest.mark.slow
def test_runs_with_options_that_may_change_results_have_different_digests():
    def meta(system, **options):
        options = {"form": "numpy"} | options
        return simulate(system, 0.02, 1e-2, progress=False, **options).meta["digest"]

    plain = {"start": {"u": 0.0}}
    systems = [
        robot(),
        robot(0.5),
        robot(q0=[0.1, 0.0]),
        of(Lag(), **plain),
        of(Lag(2.0), **plain),
        of(fast(), **plain),
        of(Lag(), start={"u": 1.0}),
        of(Sine(1.0)),
        of(Sine(2.0)),
        of(PythonBlock(lambda: 1.0, outputs=[Port("y")])),
        of(PythonBlock(lambda: 2.0, outputs=[Port("y")])),
    ]
    digests = [meta(one) for one in systems]
    assert len(set(digests)) == len(systems)
    assert [meta(one) for one in systems] == digests
    runs = [
        {},
        {"form": "traced"},
        {"method": "rk4"},
        {"t_start": 1e-2},
        {"order": "jacobi"},
        {"scenario": {"time": [0.01], "part.u": [1.0]}},
    ]
    assert len({meta(of(Lag(), **plain), **one) for one in runs}) == len(runs)
    first, second = (meta(of(Lag(), start={"u": 1.0})), meta(of(Lag(), **plain)))
    from rigidblocks import prepare

    run = prepare(of(Lag(), **plain), 1e-2, form="numpy")
    assert run.simulate(0.02).meta["digest"] == second
    assert run.simulate(0.02, start={"part.u": 1.0}).meta["digest"] == first


@pytest.mark.slow
def test_sweep_record_with_a_flipped_bit_is_rejected_or_has_unchanged_results(tmp_path):
    path = tmp_path / "runs.csv"
    design = grid({"part.u": np.linspace(0.1, 2.0, 8)})
    plain = record(of(Lag()), "last part.x", path, design)["m"]
    whole, rng = path.read_bytes(), random.Random(3)
    errors = 0
    for _ in range(200):
        k, bit = rng.randrange(len(whole)), rng.randrange(8)
        path.write_bytes(whole[:k] + bytes([whole[k] ^ 1 << bit]) + whole[k + 1 :])
        try:
            again = record(of(Lag()), "last part.x", path, design)["m"]
        except ValueError:
            errors += 1
        else:
            assert_array_equal(again, plain)
    assert errors > 150


@pytest.mark.slow
def test_line_copied_from_another_sweep_record_is_rejected(tmp_path):
    path, other = tmp_path / "runs.csv", tmp_path / "other.csv"
    record(of(Lag()), "last part.x", path)
    record(of(Lag(2.0)), "last part.x", other)
    lines, foreign = path.read_text().splitlines(True), other.read_text().splitlines(True)
    path.write_text("".join([*lines[:2], foreign[2], *lines[3:]]))
    with pytest.raises(ValueError, match=r"line 3 of '.*runs\.csv' is damaged or changed"):
        record(of(Lag()), "last part.x", path)
    path.write_text("".join([*lines[:2], *lines[3:]]))  # as the message advises
    assert_array_equal(
        record(of(Lag()), "last part.x", path)["m"], record(of(Lag()), last, None)["m"]
    )


def test_digest_of_a_controller_depends_on_its_gains():
    one, same, other = (PDController(kp=[k], kd=[1.0]) for k in (1.0, 1.0, 2.0))
    assert content_digest(one) == content_digest(same) != content_digest(other)
    assert json.dumps(content_digest(one))
