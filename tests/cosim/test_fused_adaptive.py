"""Systems as one block whose parts choose their inner steps: the numbers of the parts stepped one
by one, in every form, and the dependencies that such steps have.

The same C for each part gives the same bytes but for the time, which a fused system counts back
from the end of its step.
"""

import fmpy
import fmpy.validation
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import expm

from rigidblocks import FusedSystem, System, export_fmu, linearize, simulate
from rigidblocks.block.evaluate import NumpyEvaluator
from rigidblocks.block.memory import Memory
from rigidblocks.block.step import initialize
from rigidblocks.kernels.evaluator import TracedEvaluator
from rigidblocks.kernels.feedthrough import feedthrough
from rigidblocks.library import ClosedLoopPlant, PDController, RobotPlant
from rigidblocks.mechanisms import five_bar
from rigidblocks.robots import planar2

SAME = 1e-12
ORDERS = ["gauss-seidel", "jacobi"]


def system(method="adaptive", **options):
    """A robot under PD control, and beside it a five-bar that swings freely."""
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
def test_fused_equals_the_parts_one_by_one(method, order):
    fused = simulate(system(method), 1.0, 0.02, form="fused", order=order)
    apart = simulate(system(method), 1.0, 0.02, form="compiled", order=order)
    plain = simulate(system(method), 0.3, 0.02, form="numpy", order=order)
    for name in ("robot.q", "robot.qdd", "pd.tau", "bars.q", "bars.qd", "bars.energy"):
        assert_allclose(fused[name], apart[name], rtol=1e-10, atol=SAME, err_msg=name)
        few = len(plain.time)
        assert_allclose(plain[name], apart[name][:few], rtol=1e-9, atol=SAME, err_msg=name)


def test_a_fused_system_remembers_the_steps_of_its_parts():
    memory = Memory(FusedSystem(system(), 0.02))
    names = [port.name for port in memory.block.sampled]
    assert {"robot.steps.length", "bars.steps.length"} <= set(names)
    assert "pd.steps.length" not in names


@pytest.mark.slow
def test_a_native_fmu_of_the_system_takes_the_same_steps(tmp_path):
    path = export_fmu(system(), tmp_path / "system.fmu", dt=0.02, name="bars_and_robot")
    assert not fmpy.validation.validate_fmu(str(path))
    seen = fmpy.simulate_fmu(
        str(path), stop_time=0.6, step_size=0.02, output_interval=0.02, output=["bars.energy"]
    )
    apart = simulate(system(), 0.6, 0.02)
    assert_allclose(seen["bars.energy"], apart["bars.energy"], rtol=1e-10)


@pytest.mark.slow
def test_all_that_a_part_knows_goes_into_its_steps():
    """With steps of fixed length the acceleration of the robot reads no gain of the controller at a
    sample; the length of adaptive ones may depend on everything.
    """
    fixed = feedthrough(NumpyEvaluator(Memory(FusedSystem(system("rk4"), 0.02))))
    chosen = feedthrough(NumpyEvaluator(Memory(FusedSystem(system(), 0.02))))
    assert fixed <= chosen


def test_the_derivatives_of_a_fused_system_are_those_of_its_exact_flow():
    made = System()
    made.add("robot", RobotPlant(planar2(), [0.3, -0.5]), method="adaptive or stiff")
    sampled, flow = linearize(FusedSystem(made, 2e-3)), linearize(made)
    at = [sampled.state_names.index(name) for name in flow.state_names]
    n, m = len(flow.A), flow.B.shape[1]
    expected = expm(2e-3 * np.block([[flow.A, flow.B], [np.zeros((m, n + m))]]))
    assert_allclose(sampled.A[np.ix_(at, at)], expected[:n, :n], rtol=0, atol=1e-12)
    assert_allclose(sampled.B[at], expected[:n, n:], rtol=0, atol=1e-9)
    assert not any("steps" in name for name in sampled.state_names)


def test_the_sample_by_graphs_is_that_of_the_functions():
    memory = Memory(FusedSystem(system(), 0.02))
    m = initialize(NumpyEvaluator(memory), memory.start(), 0.0)
    m[0] = 0.02
    graphs, functions = TracedEvaluator(memory).update(m), NumpyEvaluator(memory).update(m)
    assert_allclose(graphs, functions, rtol=1e-11, atol=SAME)


@pytest.mark.slow
def test_a_fused_system_in_a_fused_system_takes_the_same_steps():
    outer = System()
    outer.add("inner", FusedSystem(system(), 0.02))
    outer.add("beside", RobotPlant(planar2(), qd0=[1.0, 2.0]), method="adaptive")
    fused, apart = (simulate(outer, 0.4, 0.02, form=form) for form in ("fused", "compiled"))
    for name in ("inner.robot.q", "inner.bars.q", "inner.pd.tau", "beside.q"):
        assert_allclose(fused[name], apart[name], rtol=1e-10, atol=SAME, err_msg=name)


def test_what_cannot_be_traced_says_so():
    memory = Memory(FusedSystem(system(), 0.02))
    with pytest.raises(TypeError, match=r"inner steps of .* by 'adaptive' cannot be traced"):
        TracedEvaluator(memory).graph("update")


@pytest.mark.slow
def test_a_bound_holds_in_the_parts():
    run = simulate(system(rtol=1e-10, max_inner_steps=2), 1.0, 0.02, form="fused")
    apart = simulate(system(rtol=1e-10, max_inner_steps=2), 1.0, 0.02)
    assert_allclose(run["bars.energy"], apart["bars.energy"], rtol=1e-9)
    assert np.ptp(run["bars.energy"]) > 1e-6
