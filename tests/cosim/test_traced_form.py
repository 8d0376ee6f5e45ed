"""Runs in the traced form equal runs in the other forms, without a C compiler."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rigidblocks import (
    ClosedLoopPlant,
    PDController,
    Port,
    PythonBlock,
    RepeatingSequence,
    RobotPlant,
    System,
    auto_tree,
    prepare,
    simulate,
)
from rigidblocks.common.compiler import CompilerError
from rigidblocks.robot.robots import four_bar

TOLERANCE = 1e-12  # the forms differ only in shared reciprocals


def controlled(method):
    n, system = 3, System()
    system.add("robot", RobotPlant(auto_tree(n, skew=0.7)), method=method)
    system.add("pd", PDController([50.0] * n, [5.0] * n))
    system.add("command", RepeatingSequence(t=[0, 1, 2], y=[[0] * n, [1] * n, [0] * n]))
    system.connect("command.y", "pd.q_ref")
    system.connect("command.slope", "pd.qd_ref")
    system.connect("robot.q", "pd.q")
    system.connect("robot.qd", "pd.qd")
    system.connect("pd.tau", "robot.tau")
    return system


@pytest.fixture
def _no_compiler(monkeypatch):
    """Simulate a machine without a C compiler."""

    def none():
        raise CompilerError("none")

    for function in ("kernels.compiled_stepper.kernel_compiler", "common.compiler.compiler"):
        monkeypatch.setattr(f"rigidblocks.{function}", none)


@pytest.mark.slow
@pytest.mark.usefixtures("_no_compiler")
@pytest.mark.parametrize("method", ["rk4", "adaptive"])
def test_run_of_traced_functions_matches_the_results_of_numpy(method):
    system = controlled(method)
    one, other = (simulate(system, 0.02, 2e-3, form=form) for form in ("traced", "numpy"))
    assert_allclose(one.values, other.values, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.usefixtures("_no_compiler")
def test_four_bar_in_a_traced_run_keeps_its_loop_closed_and_conserves_energy():
    system = System()
    system.add("four_bar", ClosedLoopPlant(*four_bar()), method="rk4")
    run = prepare(system, 5e-4, form="traced", record=["four_bar.loop_error", "four_bar.energy"])
    result = run.simulate(0.3, start={"four_bar.tau": np.zeros(3)}, progress=False)
    assert result["four_bar.loop_error"].max() < 1e-12
    energy = result["four_bar.energy"]
    assert np.ptp(energy) < 1e-9 * np.abs(energy).max()


@pytest.mark.slow
@pytest.mark.usefixtures("_no_compiler")
def test_traced_runs_in_threads_match_the_results_of_sequential_runs():
    run = prepare(controlled("rk4"), 1e-3, form="traced")
    starts = np.random.default_rng(0).normal(scale=0.3, size=(8, 3))

    def last(q):
        return run.simulate(0.05, start={"robot.q": q}, progress=False)["robot.q"][-1]

    single = [last(q) for q in starts]
    with ThreadPoolExecutor(4) as pool:
        assert_array_equal(list(pool.map(last, starts)), single)


@pytest.mark.usefixtures("_no_compiler")
def test_untraceable_parts_run_in_numpy_and_the_others_are_traced():
    system = System()
    block = PythonBlock(
        lambda u: {"y": float(np.floor(u))}, [Port("u", (), "rad")], [Port("y", ())]
    )
    system.add("floor", block)
    system.add("ramp", RepeatingSequence(t=[0, 1], y=[[0.0], [3.0]]))
    system.connect("ramp.y[1]", "floor.u")
    result = simulate(system, 0.9, 0.1, form="traced")
    assert_allclose(result["floor.y"], np.floor(result["ramp.y"][:, 0]))


@pytest.mark.slow
def test_run_of_traced_functions_matches_the_results_of_compiled_functions():
    system = controlled("adaptive or stiff")
    one, other = (simulate(system, 0.2, 2e-3, form=form) for form in ("traced", "compiled"))
    assert_allclose(one.values, other.values, rtol=TOLERANCE, atol=TOLERANCE)
