"""One prepared run in several threads, and objects that cannot be copied to other processes.

The reference is a run in one thread. The tests compare the values of each form bit for bit.
"""

import copy
import pickle
import threading

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from planar2ctrl import parts, wired
from rigidblocks import PDController, Result, Sine, System, export_fmu, prepare, simulate
from runaway import Runaway

FORMS = pytest.mark.parametrize("form", ["compiled", "numpy", "fused"])
THREADS, STEPS = 4, 25


def in_threads(action):
    """Run an action in several threads at once, and raise its first exception."""
    errors, start = [], threading.Barrier(THREADS)

    def do():
        start.wait()
        try:
            action()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=do) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.mark.slow
@FORMS
def test_steps_of_one_prepared_run_called_from_several_threads_are_sequential(form):
    run, single = (prepare(wired(parts()), 1e-3, form=form) for _ in range(2))
    run.reset()

    def action():
        for _ in range(STEPS):
            run.step()
            assert np.isfinite(run["robot.q"]).all()

    in_threads(action)
    single.step(THREADS * STEPS)
    assert run.t == single.t
    for name in ("robot.q", "robot.qd", "pd.tau"):
        assert_array_equal(run[name], single[name])


@pytest.mark.slow
@pytest.mark.parametrize("target", ["native", "python"])
def test_threads_can_step_save_and_restore_one_run_of_fmus(target, tmp_path):
    fmu = export_fmu(PDController(kp=[9.0], kd=[0.5]), tmp_path / "pd.fmu", target=target)
    system = System()
    system.add("pd", fmu)
    system.add("wave", Sine(1.0, 2.0))
    system.connect("wave.y", "pd.q")
    with prepare(system, 1e-3) as run:
        run.reset()

        def action():
            for _ in range(STEPS):
                moment = run.save()
                run.step()
                run.restore(moment)

        in_threads(action)
        run.step(3)
        assert np.isfinite(run["pd.tau"]).all()


def test_simultaneous_simulations_of_a_prepared_run_have_equal_results():
    run = prepare(wired(parts()), 1e-3)
    plain, seen = np.asarray(simulate(wired(parts()), 0.1, 1e-3).values), []
    in_threads(lambda: [seen.append(run.simulate(0.1).values) for _ in range(3)])
    for values in seen:
        assert_array_equal(np.asarray(values), plain)


@pytest.mark.slow
def test_step_after_a_failed_step_reports_the_first_error():
    system = System()
    system.add("robot", Runaway())
    run = prepare(system, 1e-2, form="numpy")
    with pytest.raises(RuntimeError, match="not finite") as first:
        run.step(10_000)
    with pytest.raises(RuntimeError, match="the run failed in the step after") as again:
        run.step()
    assert again.value.__cause__ is first.value
    assert str(first.value) in str(again.value)


def test_pickling_or_copying_a_prepared_run_is_rejected():
    run = prepare(wired(parts()), 1e-3)
    run.reset()
    for action in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=r"a prepared run cannot be pickled or copied.*prepare"):
            action(run)
        with pytest.raises(TypeError, match="a saved state belongs to its run"):
            action(run.save())
    result = run.simulate(0.01)
    assert_array_equal(pickle.loads(pickle.dumps(result)).time, result.time)


@pytest.mark.parametrize("save", [None, "run.arrow"])
def test_result_supports_iteration_and_membership_tests_by_signal_name(save, tmp_path):
    path = None if save is None else tmp_path / save
    result = simulate(wired(parts()), 0.01, 1e-3, save=path)
    assert "robot.q" in result
    assert "robot.q[1]" in result
    assert "robot.other" not in result
    assert 3 not in result
    assert list(result) == [port.name for port in result.ports]
    assert all(name in result for name in result)
    assert "robot.q" in (Result.load(path) if path else result)
