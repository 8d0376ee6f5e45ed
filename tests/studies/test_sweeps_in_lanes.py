"""Sweeps in SIMD lanes: each run equals a single run, and failures have the same messages."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from test_sweep import DT, Decay

from planar2ctrl import parts, wired
from rigidblocks import System, grid, sweep
from rigidblocks.studies import executors as in_lanes

RTOL = 1e-12  # rounding of another sine implementation, over a short run
MEASURES = {"peak": "peak robot.q[2]", "mine": lambda run: run["robot.q"][-1] @ [1.0, 2.0]}


def both(system, design, t_stop, dt, measures, **options):
    """Return the sweep with single runs, and the sweep in lanes."""
    given = (system, design, t_stop, dt, measures)
    return [sweep(*given, lanes=n, progress=False, **options) for n in (1, 4)]


def same(separate, lanes):
    for name, values in separate.measured.items():
        assert_allclose(lanes[name], values, rtol=RTOL, atol=RTOL)
    assert dict(lanes.failures) == dict(separate.failures)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["gauss-seidel", "jacobi"])
def test_sweep_runs_in_simd_lanes_match_the_results_of_single_runs(order):
    system = wired(parts())
    design = grid(
        {
            "robot.q": [[0.1, 0.2], [0.3, -0.4], [1.0, 0.5]],
            "pd.kp[2]": [500.0, 700.0, 900.0],
            "robot.gravity[3]": [-9.81, -1.6],
        }
    )
    how = {"method": "rk4", "order": order, "every": 2, "threads": 2}
    same(*both(system, design, 0.2, 2e-3, MEASURES, **how))


def decays():
    """Return a system with a block that decays in fixed steps from x = 3."""
    system = System()
    system.add("decay", Decay(), method="rk4", h=0.5, start={"x": 3.0})
    return system


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:2 of 26 runs failed")
def test_failed_sweep_run_in_simd_lanes_reports_the_same_error_as_a_single_run():
    rates = [1.0, 0.2, -1e160, 0.3, 0.5, -1e150, *np.linspace(0.0, 1.0, 20)]
    separate, lanes = both(decays(), grid({"decay.k": rates}), 5.0, DT, {"end": "last decay.x"})
    same(separate, lanes)
    assert list(lanes.failures) == [2, 5]
    good = np.delete(lanes["end"], [2, 5])
    assert_allclose(good, 3.0 * np.exp(-5.0 * np.delete(rates, [2, 5])), rtol=1e-9)


@pytest.mark.slow
def test_adaptive_sweep_runs_in_simd_lanes_match_the_results_of_single_runs():
    system = System()
    system.add("decay", Decay(), start={"x": 3.0})
    rates = np.linspace(0.0, 2.0, 11)
    separate, lanes = both(system, grid({"decay.k": rates}), 1.0, DT, {"end": "last decay.x"})
    same(separate, lanes)
    assert_allclose(lanes["end"], 3.0 * np.exp(-rates), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* of 11 runs failed")
def test_failed_measure_in_simd_lanes_reports_the_same_error_as_in_a_single_run(tmp_path):
    def end(result):
        if result["decay.x"][-1] < 1.0:
            raise ArithmeticError(f"too small at dt = {result.meta['dt']}")
        return result["decay.x"][-1]

    design = grid({"decay.k": np.linspace(0.0, 2.0, 11)})
    path = tmp_path / "runs.csv"
    separate, lanes = both(decays(), design, 1.0, DT, {"end": end})
    same(separate, lanes)
    assert lanes.failures[10] == "ArithmeticError: too small at dt = 0.01"
    given = (decays(), design, 1.0, DT, {"end": end})
    saved = sweep(*given, lanes=4, save=path, progress=False)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:7]))
    again = sweep(*given, lanes=4, save=path, progress=False)
    assert_array_equal(again["end"], saved["end"])
    once_more = sweep(*given, lanes=4, save=path, progress=False)  # all runs are recorded
    assert_array_equal(once_more["end"], saved["end"])


@pytest.mark.slow
def test_simd_lanes_are_rejected_and_not_used_by_default_for_unsupported_runs(monkeypatch):
    monkeypatch.setattr(in_lanes, "_WORTH", 0)
    calls = []
    simulate = in_lanes.Batch.simulate
    monkeypatch.setattr(
        in_lanes.Batch,
        "simulate",
        lambda *given, **named: calls.append(1) or simulate(*given, **named),
    )
    design, measure = grid({"decay.k": [0.2, 0.5, 1.0]}), {"end": "last decay.x"}
    expected = 3.0 * np.exp(-design.table[:, 0])
    scenario = {"time": [0.5], "decay.k": [1.0]}
    for system, options, said in (
        (decays(), {"form": "compiled"}, "lanes require a fused system"),
        (decays(), {"scenario": scenario}, "lanes do not support scenarios"),
    ):
        with pytest.raises(ValueError, match=said):
            sweep(system, design, 1.0, DT, measure, lanes=2, progress=False, **options)
        done = sweep(system, design, 1.0, DT, measure, progress=False, **options)
        if "scenario" not in options:
            assert_allclose(done["end"], expected, rtol=1e-9)
    assert not calls
    assert_allclose(
        sweep(decays(), design, 1.0, DT, measure, progress=False)["end"], expected, rtol=1e-9
    )
    assert calls


def test_invalid_number_of_simd_lanes_is_rejected(monkeypatch):
    design, measure = grid({"decay.k": [0.2, 0.5, 1.0]}), {"end": "last decay.x"}
    monkeypatch.setattr(in_lanes, "_ROOM", 100)
    with pytest.raises(ValueError, match="needs too much memory; record fewer signals"):
        sweep(decays(), design, 1.0, DT, measure, lanes=8, progress=False)
    with pytest.raises(ValueError, match="lanes must be one of 2, 4, 8, not 3"):
        sweep(decays(), design, 1.0, DT, measure, lanes=3)
    with pytest.raises(ValueError, match="lanes apply only to a sweep on this machine"):
        sweep(decays(), design, 1.0, DT, measure, lanes=2, scheduler="tcp://localhost:1")
