"""Batches of runs: each run equals `simulate`, for any numbers of lanes and threads."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from planar2ctrl import parts, wired
from rigidblocks import (
    FloatingBasePlant,
    FusedSystem,
    RobotPlant,
    System,
    auto_tree,
    floating_base,
    prepare,
    simulate_batch,
)
from rigidblocks.contact import RigidContactPlant
from rigidblocks.cosim.batch_simulation import Batch
from rigidblocks.robot.robots import gripper
from rigidblocks.tracing.compiled_functions import LANES

RTOL = 1e-12  # rounding in a short run, relative to the largest value
T_STOP, DT = 0.2, 1e-3


def starts(rng, n):
    return {"robot.q": rng.normal(size=(n, 2)), "pd.kp": rng.uniform(50.0, 100.0, (n, 2))}


def close(actual, expected):
    assert_allclose(actual, expected, rtol=0.0, atol=RTOL * max(1.0, np.max(np.abs(expected))))


def test_every_run_of_a_batch_matches_the_results_of_simulate(rng):
    system = wired(parts())
    start = starts(rng, 11)
    batch = simulate_batch(system, T_STOP, DT, start=start, every=3, method="rk4")
    run = prepare(system, DT, every=3, method="rk4")
    assert len(batch) == 11
    assert np.isnan(batch.failed).all()
    for k in range(11):
        one = run.simulate(T_STOP, start={name: values[k] for name, values in start.items()})
        assert_array_equal(batch.time, one.time)
        for port in one.ports:
            close(batch[port.name][k], one[port.name])
            close(batch.run(k)[port.name], one[port.name])


@pytest.mark.slow
def test_batch_results_do_not_depend_on_the_numbers_of_lanes_and_threads(rng):
    system, start = wired(parts()), starts(rng, 37)
    expected = simulate_batch(system, T_STOP, DT, start=start, lanes=2, threads=1, method="rk4")
    for lanes in LANES[1:]:
        for threads in (None, 3):
            how = {"lanes": lanes, "threads": threads, "method": "rk4"}
            batch = simulate_batch(system, T_STOP, DT, start=start, **how)
            assert_array_equal(batch.values, expected.values)
    fused = FusedSystem(wired(parts(), method="rk4"), DT)
    assert_array_equal(simulate_batch(fused, T_STOP, DT, start=start).values, expected.values)


@pytest.mark.slow
def test_failed_run_of_a_batch_does_not_affect_the_other_runs(rng):
    system, start = wired(parts()), starts(rng, 9)
    how = {"record": ["robot.q"], "every": 7, "method": "rk4"}
    good = simulate_batch(system, T_STOP, DT, start=start, **how)
    assert [port.name for port in good.ports] == ["robot.q"]
    start["robot.qd"] = np.zeros((9, 2))
    start["robot.qd"][4] = 1e160  # its square is infinite
    bad = simulate_batch(system, T_STOP, DT, start=start, **how)
    assert np.flatnonzero(np.isfinite(bad.failed)).tolist() == [4]
    assert 0.0 <= bad.failed[4] <= T_STOP
    late = bad.time >= bad.failed[4]
    assert np.isnan(bad["robot.q"][4][late]).all()
    rest = np.arange(9) != 4
    assert_array_equal(bad.values[rest], good.values[rest])


@pytest.mark.slow
def test_batch_of_a_floating_base_plant_matches_the_results_of_simulate(rng):
    plant = FloatingBasePlant(floating_base(auto_tree(2, skew=0.7)))
    start = {"velocity": rng.normal(size=(5, 6)), "qd": rng.normal(size=(5, 1))}
    batch = simulate_batch(plant, 0.05, 5e-3, start=start, method="rk4", h=5e-3)
    system = System()
    system.add("robot", plant)
    run = prepare(system, 5e-3, method="rk4", h=5e-3)
    for k in range(5):
        one = run.simulate(0.05, start={f"robot.{name}": start[name][k] for name in start})
        for port in batch.ports:
            close(batch[port.name][k], one[f"robot.{port.name}"])


@pytest.mark.slow
def test_invalid_batch_arguments_are_rejected():
    system = wired(parts())

    def run(start, part=system, **options):
        return simulate_batch(part, 0.01, DT, start=start, **options)

    q = np.zeros((3, 2))
    wrong = [
        (KeyError, "unknown start value 'robot.x'", {"robot.x": q}),
        (KeyError, "unknown start value 'robot.energy'", {"robot.energy": np.zeros(3)}),
        (KeyError, "unknown start value 'pd.q'", {"pd.q": q}),
        (
            ValueError,
            "same n: robot.q 3, pd.kp 2",
            {"robot.q": q, "pd.kp": q[:2]},
        ),
        (
            ValueError,
            "same n: no start value has this shape",
            {"robot.q": q[0]},
        ),
        (
            ValueError,
            r"the shape \(3, 3\); expected \(2,\) for all runs or \(n, 2\)",
            {"robot.q": np.eye(3)},
        ),
        (ValueError, "start values of robot.q are not finite: .*nan", {"robot.q": q * np.nan}),
    ]
    for error, message, start in wrong:
        with pytest.raises(error, match=message):
            run(start)
    with pytest.raises(ValueError, match="takes fixed steps and does not support rtol"):
        run({"robot.q": q}, method="rk4", rtol=1e-6)
    held = (0.1, 0.02, 0.02, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.1)
    with pytest.raises(
        ValueError,
        match="RigidContactPlant cannot be traced; a batch supports only blocks that can be traced",
    ):
        run({"q": q}, part=RigidContactPlant(gripper(), q0=held))
    with pytest.raises(KeyError, match=r"robot\.x"):
        run({"robot.q": q}, record=["robot.x"])
    with pytest.raises(TypeError, match="needs a System or a block, not a dict"):
        run({"robot.q": q}, part={})


def test_batch_without_runs_has_empty_results():
    batch = simulate_batch(
        wired(parts()),
        0.01,
        DT,
        start={"robot.q": np.zeros((0, 2))},
        record=["robot.q"],
        method="rk4",
    )
    assert batch["robot.q"].shape == (0, 11, 2)


# --- runs that step one by one ---


@pytest.mark.parametrize(
    "method", ["rk4", pytest.param("adaptive or stiff", marks=pytest.mark.slow)]
)
def test_single_steps_of_batch_runs_match_complete_runs_bit_for_bit(rng, method):
    block = FusedSystem(wired(parts(), method=method), DT)
    batch, n = Batch(block, DT, lanes=4, method=method), 11
    start = starts(rng, n)
    expected = batch.simulate(5 * DT, start)
    run = batch.start(start)
    for k in range(6):
        for name in ("robot.q", "pd.tau"):
            assert_array_equal(run[name], expected[name][:, k])
        assert_allclose(run.time, expected.time[k], rtol=1e-15)
        run.step(threads=2 if k % 2 else None)
    assert not run.failed.any()


def test_restarted_batch_runs_begin_at_their_start_values_and_other_runs_continue(rng):
    batch, n = Batch(RobotPlant(auto_tree(2)), DT, method="rk4"), 9
    q0, tau = rng.normal(size=(n, 2)), rng.normal(size=(n, 2))
    run, other = (batch.start({"q": q0}) for _ in range(2))
    which = np.arange(n) % 3 == 0
    for one in (run, other):
        one.set("tau", tau)
        for _ in range(3):
            one.step()
    run.restart(which, {"q": q0[which], "tau": tau[which], "qd": [0.0, 0.0]})
    assert_array_equal(run.time, np.where(which, 0.0, 3 * DT))
    assert_array_equal(run["q"], np.where(which[:, None], q0, other["q"]))
    for _ in range(3):
        run.step()
    assert_array_equal(run["q"][which], other["q"][which])


def test_failed_batch_run_is_flagged_until_it_restarts():
    batch = Batch(RobotPlant(auto_tree(2)), DT)
    run = batch.start({"q": np.zeros((10, 2))})
    huge = np.zeros((10, 2))
    huge[4] = 1e160  # its square is infinite
    run.set("qd", huge)
    for _ in range(3):
        run.step()
    assert np.flatnonzero(run.failed).tolist() == [4]
    assert np.isfinite(np.delete(run["q"], 4, axis=0)).all()
    run.restart(run.failed.copy(), {"q": np.zeros((1, 2))})
    run.step()
    assert not run.failed.any()
    assert np.isfinite(run["q"]).all()


def test_batch_runs_reject_unknown_ports_and_wrong_shapes():
    run = Batch(RobotPlant(auto_tree(2)), DT).start({"q": np.zeros((3, 2))})
    assert len(run) == 3
    with pytest.raises(KeyError, match=r"unknown start value 'tua'.*did you mean tau\?"):
        run.set("tua", 0.0)
    with pytest.raises(KeyError, match="unknown port 'p'"):
        run["p"]
    with pytest.raises(ValueError, match="tau is given for 4 runs; expected 3"):
        run.set("tau", np.zeros((4, 2)))
    with pytest.raises(ValueError, match="start values of tau are not finite"):
        run.set("tau", [0.0, np.nan])
    with pytest.raises(ValueError, match=r"the shape \(2,\); expected bool and \(3,\)"):
        run.restart([0, 1], {})
    with pytest.raises(ValueError, match="start value q is given for 3 runs; expected 2"):
        run.restart(np.array([True, True, False]), {"q": np.zeros((3, 2))})
    with pytest.raises(ValueError, match="read-only"):
        run["q"][0] = 1.0
