"""Fused systems whose parts select their inner steps.

In every form, the results equal a run of separately stepped parts, and all dependencies of adaptive
steps are declared. Both runs use the same C code for each part. The values differ only by rounding
errors of the time.
"""

import fmpy
import fmpy.validation
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import expm

from rigidblocks import FusedSystem, System, export_fmu, linearize, simulate
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.stepper import initialize
from rigidblocks.kernels.traced_evaluator import TracedEvaluator, feedthrough
from rigidblocks.library import ClosedLoopPlant, PDController, RobotPlant
from rigidblocks.robot.robots import five_bar, planar2

SAME = 1e-12
ORDERS = ["gauss-seidel", "jacobi"]


def system(method="adaptive", **options):
    """Return a robot under PD control, and a separate five-bar that swings freely."""
    made = System()
    made.add("robot", RobotPlant(planar2(), qd0=[3.0, -1.0]), method=method, **options)
    made.add("pd", PDController(kp=[40.0, 30.0], kd=[2.0, 2.0]), start={"q_ref": [1.0, 0.5]})
    mechanism = five_bar()
    made.add("bars", ClosedLoopPlant(mechanism.model, mechanism.q0), method=method, **options)
    made.connect("robot.q", "pd.q")
    made.connect("robot.qd", "pd.qd")
    made.connect("pd.tau", "robot.tau")
    return made


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("method", ["adaptive", "adaptive or stiff"])
def test_fused_system_with_adaptive_steps_matches_the_results_of_separate_parts(method, order):
    fused = simulate(system(method), 1.0, 0.02, form="fused", order=order)
    apart = simulate(system(method), 1.0, 0.02, form="compiled", order=order)
    plain = simulate(system(method), 0.3, 0.02, form="numpy", order=order)
    for name in ("robot.q", "robot.qdd", "pd.tau", "bars.q", "bars.qd", "bars.energy"):
        assert_allclose(fused[name], apart[name], rtol=1e-10, atol=SAME, err_msg=name)
        few = len(plain.time)
        assert_allclose(plain[name], apart[name][:few], rtol=1e-9, atol=SAME, err_msg=name)


def test_fused_system_stores_the_step_size_of_each_adaptive_part():
    memory = Memory(FusedSystem(system(), 0.02))
    names = [port.name for port in memory.block.sampled]
    assert {"robot.steps.length", "bars.steps.length"} <= set(names)
    assert "pd.steps.length" not in names


@pytest.mark.slow
def test_native_fmu_of_a_fused_system_matches_the_results_of_simulate(tmp_path):
    path = export_fmu(system(), tmp_path / "system.fmu", dt=0.02, name="bars_and_robot")
    assert not fmpy.validation.validate_fmu(str(path))
    seen = fmpy.simulate_fmu(
        str(path), stop_time=0.6, step_size=0.02, output_interval=0.02, output=["bars.energy"]
    )
    apart = simulate(system(), 0.6, 0.02)
    assert_allclose(seen["bars.energy"], apart["bars.energy"], rtol=1e-10)


@pytest.mark.slow
def test_direct_feedthrough_with_adaptive_steps_includes_the_feedthrough_with_fixed_steps():
    """Fixed steps do not read the controller gains at a sample for the robot's acceleration.

    The length of adaptive steps may depend on every value.
    """
    fixed = feedthrough(NumpyEvaluator(Memory(FusedSystem(system("rk4"), 0.02))))
    chosen = feedthrough(NumpyEvaluator(Memory(FusedSystem(system(), 0.02))))
    assert fixed <= chosen


def test_linearization_of_a_fused_system_with_adaptive_steps_is_the_exact_discretization():
    made = System()
    made.add("robot", RobotPlant(planar2(), [0.3, -0.5]), method="adaptive or stiff")
    sampled, flow = linearize(FusedSystem(made, 2e-3)), linearize(made)
    at = [sampled.state_names.index(name) for name in flow.state_names]
    n, m = len(flow.A), flow.B.shape[1]
    expected = expm(2e-3 * np.block([[flow.A, flow.B], [np.zeros((m, n + m))]]))
    assert_allclose(sampled.A[np.ix_(at, at)], expected[:n, :n], rtol=0, atol=1e-12)
    assert_allclose(sampled.B[at], expected[:n, n:], rtol=0, atol=1e-9)
    assert not any("steps" in name for name in sampled.state_names)


@pytest.mark.slow
def test_traced_update_of_an_adaptive_fused_system_matches_the_results_of_numpy():
    memory = Memory(FusedSystem(system(), 0.02))
    m = initialize(NumpyEvaluator(memory), memory.start(), 0.0)
    m[0] = 0.02
    graphs, functions = TracedEvaluator(memory).update(m), NumpyEvaluator(memory).update(m)
    assert_allclose(graphs, functions, rtol=1e-11, atol=SAME)


@pytest.mark.slow
def test_nested_fused_system_with_adaptive_steps_matches_the_results_of_separate_parts():
    outer = System()
    outer.add("inner", FusedSystem(system(), 0.02))
    outer.add("beside", RobotPlant(planar2(), qd0=[1.0, 2.0]), method="adaptive")
    fused, apart = (simulate(outer, 0.4, 0.02, form=form) for form in ("fused", "compiled"))
    for name in ("inner.robot.q", "inner.bars.q", "inner.pd.tau", "beside.q"):
        assert_allclose(fused[name], apart[name], rtol=1e-10, atol=SAME, err_msg=name)


def test_tracing_of_adaptive_steps_to_a_single_expression_graph_is_rejected():
    memory = Memory(FusedSystem(system(), 0.02))
    with pytest.raises(TypeError, match=r"inner steps of .* by 'adaptive' cannot be traced"):
        TracedEvaluator(memory).graph("update")


@pytest.mark.slow
def test_max_inner_steps_option_limits_each_part_of_a_fused_system():
    run = simulate(system(rtol=1e-10, max_inner_steps=2), 1.0, 0.02, form="fused")
    apart = simulate(system(rtol=1e-10, max_inner_steps=2), 1.0, 0.02)
    assert_allclose(run["bars.energy"], apart["bars.energy"], rtol=1e-9)
    assert np.ptp(run["bars.energy"]) > 1e-6
