"""Conversion of python-control systems to blocks and of linearized blocks to python-control."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks import ContinuousSystem, PDController, RobotPlant, System, linearize, planar2
from rigidblocks.block.integrators import RK4
from rigidblocks.library import LowPass, StateSpace, TransferFunction
from signal_runs import outputs

control = pytest.importorskip("control", reason="needs the interop extra (python-control)")
pytestmark = pytest.mark.interop

H = 0.01  # s
SEEDS = range(5)


def held(u):
    """Return inputs (m, n), constant in each of n steps, as a function of time."""
    return lambda t: {"u": u[:, min(round(t / H), u.shape[1] - 1)]}


@pytest.mark.parametrize("seed", SEEDS)
def test_response_of_the_sampled_state_space_block_matches_python_control(seed, rng):
    np.random.seed(seed)  # noqa: NPY002 - the generator of python-control
    theirs = control.drss(4, 2, 3)
    theirs.dt = H
    u = rng.normal(size=(3, 100))
    expected = control.forced_response(theirs, U=u, X0=[0.1, -0.2, 0.3, 0.4]).outputs
    block = StateSpace.from_system(theirs, x0=(0.1, -0.2, 0.3, 0.4))
    assert block.sample_time == H
    y = outputs(block, H, 99, held(u))
    assert_allclose(y, expected.T, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("seed", SEEDS)
def test_continuous_step_response_matches_python_control(seed):
    np.random.seed(seed)  # noqa: NPY002 - the generator of python-control
    theirs = control.rss(4, 2, 1, strictly_proper=True)
    t = H * np.arange(101)
    expected = control.step_response(theirs, t).outputs[:, 0]
    fast = np.abs(control.poles(theirs)).max() * H
    assert fast < 0.5  # the error of an RK4 step of H / 25 is 0.02**5 / 120
    y = outputs(StateSpace.from_system(theirs), H / 25, 2500, lambda _: {"u": 1.0}, method=RK4)[
        ::25
    ]
    assert_allclose(y, expected.T, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("dt", [0, H])
@pytest.mark.parametrize(
    ("num", "den"), [([2.0], [1.0, 3.0]), ([0.5, 0.0, 1.0], [1.0, 0.4, 0.2]), ([0.0], [1.0, 0.1])]
)
def test_frequency_response_of_the_transfer_function_block_matches_python_control(num, den, dt):
    theirs = control.tf(num, den, dt)
    block = TransferFunction.from_system(theirs)
    back = control.ss(*linearize(block))
    assert (block.sample_time or 0) == dt
    w = np.logspace(-1, 2, 20)
    assert_allclose(back(1j * w), theirs(1j * w), rtol=1e-12, atol=1e-15)


def test_unsupported_python_control_systems_are_rejected():
    two = control.tf([[[1.0], [2.0]]], [[[1.0, 2.0], [1.0, 3.0]]])
    with pytest.raises(ValueError, match=r"one input and one output; convert"):
        TransferFunction.from_system(two)
    with pytest.raises(TypeError, match=r"a TransferFunction has no A, B, C, D; pass a state"):
        StateSpace.from_system(two)
    with pytest.raises(TypeError, match=r"a StateSpace has no num and den"):
        TransferFunction.from_system(control.ss([[-1.0]], [[1.0]], [[1.0]], [[0.0]]))
    with pytest.raises(ValueError, match=r"no higher degree"):
        TransferFunction.from_system(control.tf([1.0, 2.0], [1.0]))
    open_time = control.tf([1.0], [1.0, 0.5], True)
    with pytest.raises(ValueError, match=r"dt = True, but the given sample time is None"):
        TransferFunction.from_system(open_time)
    assert TransferFunction.from_system(open_time, sample_time=H).sample_time == H


def test_closed_loop_poles_match_the_poles_of_python_control():
    q = (0.4, -0.3)
    robot, pd = RobotPlant(planar2()), PDController((60.0, 30.0), (8.0, 4.0))
    plant = linearize(robot, at={"q": q, "tau": (0.0, 0.0)}, inputs=["tau"], outputs=["q", "qd"])
    law = linearize(pd, inputs=["q", "qd"])
    loop = control.feedback(control.ss(*plant), control.ss(*law), sign=+1)
    system = System()
    system.add("robot", robot, start={"q": q})
    system.add("pd", pd, start={"q_ref": q})
    for source, target in (("robot.q", "pd.q"), ("robot.qd", "pd.qd"), ("pd.tau", "robot.tau")):
        system.connect(source, target)
    ours = np.linalg.eigvals(linearize(ContinuousSystem(system)).A)
    assert_allclose(np.sort_complex(control.poles(loop)), np.sort_complex(ours), rtol=1e-9)


def test_sampled_low_pass_matches_the_zero_order_hold_discretization_of_python_control():
    theirs = control.c2d(control.tf([1.0], [0.3, 1.0]), H, method="zoh")
    u = np.sin(np.arange(100.0))[None]
    expected = control.forced_response(theirs, U=u).outputs
    ours = linearize(LowPass(0.3, sample_time=H))
    again = control.forced_response(control.ss(*ours), U=u).outputs
    assert_allclose(np.ravel(again)[:-1], np.ravel(expected)[1:], atol=1e-12)
