"""Instances that share a library, or are reset for the next run, equal new instances."""

import gc
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from any_models import BOUNCING_BALL, CLOCKS, AnyModel, Variable, any_fmu
from foreign_fmu import foreign_fmu
from rigidblocks import PDController, RobotPlant, System, export_fmu, planar2, prepare, simulate
from rigidblocks.cosim.fmu_import import fmu_interface, library_sharing
from rigidblocks.cosim.fmu_import.library_sharing import Reuse, examine, reuse_of
from rigidblocks.cosim.graph.fmu_part import Fmu

CO_SIMULATION, MODEL_EXCHANGE = "co-simulation", "model exchange"
PORTS = (
    Variable("u", 1, "input", start=(0.5,)),
    Variable("y", 2, "output"),
    Variable("k", 3, "parameter", variability="fixed", start=(2.0,)),
)


def adder(name, motion, start=""):
    return AnyModel(name, PORTS, motion=motion, start=start)


INDEPENDENT = adder("Independent", "m->v[2][0] = m->v[3][0] * m->v[1][0] + m->t;")
SUM = adder("Sum", "static double sum; sum += m->v[1][0]; m->v[2][0] = sum;")
# the parameter is stored in a global variable when a step begins, and read in the next call
LAST = adder("Last", "static double k; m->v[2][0] = k * m->v[1][0]; k = m->v[3][0];")
ONCE = adder(
    "Once",
    "m->v[2][0] = m->v[1][0];",
    start="static int instances; if (++instances > 1) abort();",
)
CLOCKED_SUM = replace(
    CLOCKS,
    name="ClockedSum",
    update=f"static double sum; sum += m->clock[1]; {CLOCKS.update} m->v[7][0] = sum;",
)
KINDS = [(CO_SIMULATION, 2), (CO_SIMULATION, 3), (MODEL_EXCHANGE, 2), (MODEL_EXCHANGE, 3)]


def system_of_copies(path, n=9, **options):
    """Return a system with n instances of an FMU with different inputs."""
    system = System()
    for k in range(n):
        system.add(f"p{k}", path, start={"u": 0.1 * k, "k": 1.0 + k}, **options)
    return system


@pytest.mark.parametrize(("kind", "fmi"), KINDS)
def test_fmu_without_global_variables_is_classified_as_shareable_and_resettable(
    tmp_path, kind, fmi
):
    for model in (INDEPENDENT, BOUNCING_BALL):
        fmu = Fmu(any_fmu(tmp_path, model, fmi), kind)
        assert examine(fmu, 0.0, 0.01) == Reuse(True, True)


@pytest.mark.parametrize(
    ("kind", "fmi"), [KINDS[0], *(pytest.param(*one, marks=pytest.mark.slow) for one in KINDS[1:])]
)
@pytest.mark.parametrize("model", [SUM, LAST], ids=lambda model: model.name)
def test_fmu_with_a_global_variable_in_c_is_not_classified_as_shareable(tmp_path, model, kind, fmi):
    assert not examine(Fmu(any_fmu(tmp_path, model, fmi), kind), 0.0, 0.01).shares


def test_fmu_whose_reset_does_not_restore_all_values_is_classified_as_not_resettable(tmp_path):
    path = foreign_fmu(tmp_path / "kept.fmu", step="i->r[1] += i->r[0];")
    assert examine(Fmu(path), 0.0, 0.01) == Reuse(shares=True, resets=False)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [CO_SIMULATION, MODEL_EXCHANGE])
def test_global_variable_of_a_clocked_fmu_is_detected_at_its_ticks(tmp_path, kind):
    """The instances of the FMU would count their ticks together."""
    assert examine(Fmu(any_fmu(tmp_path, CLOCKS, 3), kind), 0.0, 0.05) == Reuse(True, True)
    path = any_fmu(tmp_path, CLOCKED_SUM, 3)
    assert examine(Fmu(path, kind), 0.0, 0.05) == Reuse(shares=False, resets=False)
    system = System()
    for k in range(9):
        system.add(f"p{k}", path, start={"u": 0.1 * k}, kind=kind)

    def ticks(_):
        with prepare(system, 0.05) as run:
            results = [run.simulate(0.5) for _ in range(2)]
        return [result[f"p{k}.last"][-1] for result in results for k in range(9)]

    with ThreadPoolExecutor(2) as pool:
        for counts in pool.map(ticks, range(2)):
            assert counts == [6.0] * 18  # ticks at 0, 0.1, ... 0.5 s


def test_fmu_without_outputs_is_not_classified_as_shareable(tmp_path):
    silent = AnyModel("Silent", PORTS[::2])
    assert examine(Fmu(any_fmu(tmp_path, silent, 2)), 0.0, 0.01) == Reuse()


def test_fmu_that_crashes_in_the_sharing_test_runs_with_copies_of_its_library(tmp_path):
    path = any_fmu(tmp_path, ONCE, 2)
    assert reuse_of(Fmu(path), 0.0, 0.1) == Reuse()
    result = simulate(system_of_copies(path), 0.3, 0.1)
    assert result["p8.y"][-1] == pytest.approx(0.8)


def test_fmu_sharing_test_starts_no_program_other_than_a_python_interpreter(tmp_path, monkeypatch):
    fmu = Fmu(any_fmu(tmp_path, replace(INDEPENDENT, name="Unknown"), 2))
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert reuse_of(fmu, 0.0, 0.125) == Reuse()
    library_sharing._reuse.cache_clear()
    monkeypatch.undo()
    assert reuse_of(fmu, 0.0, 0.125) == Reuse(True, True)  # the failure was not stored


@pytest.mark.parametrize("fmi", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("model", [INDEPENDENT, SUM, LAST], ids=lambda model: model.name)
def test_instances_that_share_a_library_match_instances_with_their_own_libraries(
    tmp_path, model, fmi
):
    path = any_fmu(tmp_path, model, fmi)
    expected = simulate(system_of_copies(path, isolated="library"), 0.5, 0.1)
    assert_array_equal(simulate(system_of_copies(path), 0.5, 0.1).values, expected.values)


def test_instances_of_a_shareable_fmu_use_the_same_library(tmp_path, monkeypatch):
    unpacked = []
    init = fmu_interface.Unpacked.__init__

    def count(self, fmu):
        unpacked.append(fmu)
        init(self, fmu)

    monkeypatch.setattr(fmu_interface.Unpacked, "__init__", count)
    path = any_fmu(tmp_path, INDEPENDENT, 3)
    simulate(system_of_copies(path), 0.2, 0.1)
    assert len(unpacked) == 1
    simulate(system_of_copies(path, isolated="library"), 0.2, 0.1)
    assert len(unpacked) == 1 + 9


def arm(folder, fmi):
    """Return the planar arm with its controller, both as FMUs."""
    system = System()
    for name, block in (("robot", RobotPlant(planar2())), ("pd", PDController([60.0], [8.0]))):
        if name == "pd":
            block = PDController([60.0, 30.0], [8.0, 4.0])
        system.add(name, export_fmu(block, folder / f"{name}{fmi}.fmu", fmi=fmi))
    for a, b in (("robot.q", "pd.q"), ("robot.qd", "pd.qd"), ("pd.tau", "robot.tau")):
        system.connect(a, b)
    return system


@pytest.mark.parametrize("fmi", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_prepared_run_of_fmus_repeats_its_results_after_a_run_with_other_start_values(
    tmp_path, fmi
):
    system = arm(tmp_path, fmi)
    start = {"robot.q": [0.3, -0.2], "pd.kp": [20.0, 10.0]}
    with prepare(system, 0.01) as run:
        first = run.simulate(0.2)
        other = run.simulate(0.2, start=start)
        again = run.simulate(0.2)
        run.reset(start)
        run.step(20)
        assert_array_equal(run["robot.q"], other["robot.q"][-1])
        run["pd.kp"] = [1.0, 1.0]
        moment = run.save()
        run.step(3)
        expected = run["robot.q"]
        run.reset()
        run.step(20)
        assert_array_equal(run["robot.q"], first["robot.q"][-1])
        run.restore(moment)
        run.step(3)
        assert_array_equal(run["robot.q"], expected)
    assert_array_equal(first.values, again.values)
    assert not np.array_equal(first.values[-1], other.values[-1])
    assert_array_equal(simulate(system, 0.2, 0.01).values, first.values)


@pytest.mark.parametrize("fmi", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", [CO_SIMULATION, MODEL_EXCHANGE])
def test_prepared_run_repeats_the_events_of_an_fmu_in_each_run(tmp_path, kind, fmi):
    system = System()
    system.add("ball", any_fmu(tmp_path, BOUNCING_BALL, fmi), kind=kind)
    expected = simulate(system, 2.0, 0.01).values
    run = prepare(system, 0.01)
    for _ in range(3):
        assert_array_equal(run.simulate(2.0).values, expected)
    run.close()


def test_prepared_run_instantiates_an_fmu_again_only_if_its_reset_is_incomplete(
    tmp_path, monkeypatch
):
    made = []
    instantiate = fmu_interface.Fmi2._instantiate

    def count(self):
        made.append(self)
        instantiate(self)

    monkeypatch.setattr(fmu_interface.Fmi2, "_instantiate", count)
    kept = foreign_fmu(tmp_path / "kept.fmu", step="i->r[1] += i->r[0];")
    for path, instances in ((any_fmu(tmp_path, INDEPENDENT, 2), 1), (kept, 3)):
        system = System()
        system.add("fmu", path, start={"u": 0.5})
        made.clear()
        with prepare(system, 0.1) as run:
            values = [run.simulate(0.3).values for _ in range(3)]
        assert len(made) == instances
        assert_array_equal(values[0], values[1])
        assert_array_equal(values[0], values[2])


def test_fmu_is_instantiated_again_after_an_error(tmp_path):
    step = "if (i->t > 0.15 && i->r[0] > 1) status = fmi2Error; i->r[1] = i->r[0] + i->t;"
    system = System()
    system.add("fmu", foreign_fmu(tmp_path / "fmu.fmu", step=step), start={"u": 0.5})
    run = prepare(system, 0.1)
    expected = run.simulate(0.5).values
    with pytest.raises(RuntimeError, match="fmi2DoStep gave status error"):
        run.simulate(0.5, start={"fmu.u": 2.0})
    assert_array_equal(run.simulate(0.5).values, expected)
    run.close()


def test_threads_that_share_a_prepared_run_of_fmus_get_equal_results(tmp_path):
    run = prepare(system_of_copies(any_fmu(tmp_path, INDEPENDENT, 3)), 0.01)
    expected = run.simulate(0.5).values
    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(lambda _: run.simulate(0.5), range(12)):
            assert_array_equal(result.values, expected)
    run.close()


def test_closed_or_garbage_collected_run_removes_its_unpacked_fmus(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    Path(tempfile.gettempdir()).mkdir()
    system = System()
    system.add("fmu", any_fmu(tmp_path, INDEPENDENT, 2))
    for ends_by_itself in (False, True):
        run = prepare(system, 0.1)
        run.simulate(0.2)
        run.step()
        assert list(Path(tempfile.gettempdir()).glob("rigidblocks_fmu_*"))
        if not ends_by_itself:
            run.close()
        del run
        gc.collect()
        assert not list(Path(tempfile.gettempdir()).glob("rigidblocks_fmu_*"))


def test_prepared_run_continues_after_its_fmu_file_is_removed(tmp_path):
    path = any_fmu(tmp_path, INDEPENDENT, 2)
    run = prepare(system_of_copies(path, 1), 0.1)
    expected = run.simulate(0.2).values
    path.unlink()
    assert_array_equal(run.simulate(0.2).values, expected)
    run.close()


def test_unknown_value_of_the_isolation_option_is_rejected(tmp_path):
    with pytest.raises(ValueError, match="must be False, True, 'process' or 'library', not 'x'"):
        System().add("p", any_fmu(tmp_path, INDEPENDENT, 2), isolated="x")
