"""Controllers, motion sensors and contact blocks of models with loops."""

import re
from io import StringIO

import numpy as np
import pytest
from numpy.testing import assert_allclose

from library_runs import outputs
from loop_models import closed_state, four_bar, loop_model
from rigidblocks import ClosedLoopPlant, simulate
from rigidblocks.cosim.simulate import System
from rigidblocks.dynamics import crba
from rigidblocks.dynamics.loops import (
    closed_loop_dynamics,
    closed_loop_inverse_dynamics,
    loop_constraints,
)
from rigidblocks.library import (
    IMU,
    FeedForward,
    Frame,
    FrameKinematics,
    GravityCompensation,
    InverseDynamicsController,
    Playback,
    Step,
)
from rigidblocks.robot.robots import five_bar, planar2
from rigidblocks.spatial.spatial import xlt

# rounding of inverse and forward dynamics with loops, whose matrices have condition numbers of 1e4
SAME = 1e-9
FOUR_BAR = four_bar()
Q, QD, _, _ = closed_state(FOUR_BAR, np.array([1.0, -0.6, -1.2]), np.random.default_rng(1))
MOTORS = {"first": (0,), "second": (1,), "two": (0, 2), "all": None}


def close(actual, expected):
    assert_allclose(actual, expected, rtol=SAME, atol=SAME * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("actuated", MOTORS.values(), ids=MOTORS)
def test_gravity_compensation_holds_a_four_bar_at_rest(actuated):
    y = outputs(GravityCompensation(FOUR_BAR, actuated), q=Q)
    passive = [k for k in range(3) if actuated is not None and k not in actuated]
    assert np.all(y["tau"][passive] == 0.0)
    close(closed_loop_dynamics(FOUR_BAR, Q, np.zeros(3), y["tau"]).qdd, np.zeros(3))
    close(y["missed"], np.zeros(3))


@pytest.mark.parametrize("actuated", MOTORS.values(), ids=MOTORS)
def test_computed_torque_equals_inverse_dynamics_if_the_reference_keeps_the_loop_closed(
    actuated,
):
    qdd = closed_loop_dynamics(FOUR_BAR, Q, QD, np.array([3.0, 0.0, 0.0])).qdd
    block = InverseDynamicsController(FOUR_BAR, 50.0, 8.0, actuated)
    y = outputs(block, q=Q, qd=QD, q_ref=Q, qd_ref=QD, qdd_ref=qdd)
    expected = closed_loop_inverse_dynamics(FOUR_BAR, Q, QD, qdd, actuated).tau
    close(y["tau"], expected)
    close(closed_loop_dynamics(FOUR_BAR, Q, QD, y["tau"]).qdd, qdd)


@pytest.mark.parametrize("actuated", MOTORS.values(), ids=MOTORS)
def test_feed_forward_torque_equals_the_inverse_dynamics_of_the_reference(actuated):
    qdd = closed_loop_dynamics(FOUR_BAR, Q, QD, np.array([3.0, 0.0, 0.0])).qdd
    y = outputs(FeedForward(FOUR_BAR, actuated), q_ref=Q, qd_ref=QD, qdd_ref=qdd)
    close(y["tau"], closed_loop_inverse_dynamics(FOUR_BAR, Q, QD, qdd, actuated).tau)
    close(closed_loop_dynamics(FOUR_BAR, Q, QD, y["tau"]).qdd, qdd)
    close(y["missed"], np.zeros(3))


def motion_as_csv(plan):
    """Return time, q, qd and qdd of the mechanism `bar` of a run."""
    names = ["time", *(f"{name}{k}" for name in ("q", "qd", "qdd") for k in range(4))]
    table = np.column_stack([plan.time, plan["bar.q"], plan["bar.qd"], plan["bar.qdd"]])
    return "\n".join([",".join(names), *(",".join(map(repr, row)) for row in table.tolist())])


@pytest.mark.slow
def test_feed_forward_torque_moves_a_five_bar_along_the_planned_trajectory():
    # torques at all joints give the planned motion; feed-forward torques of two motors repeat it
    model, q0, _ = five_bar()
    push = np.array([30.0, -10.0, 5.0, 20.0])
    planned, led = (System() for _ in range(2))
    for system in (planned, led):
        system.add("bar", ClosedLoopPlant(model, q0=q0), method="rk4", h=1e-3)
    planned.add("push", Step(0.0, push, push, unit="N.m"))
    planned.connect("push.y", "bar.tau")
    plan = simulate(planned, 0.2, dt=1e-3, progress=False)
    text = motion_as_csv(plan)
    led.add("motors", FeedForward(model, (0, 3)))
    for name, unit in (("q", "rad"), ("qd", "rad/s"), ("qdd", "rad/s2")):
        columns = tuple(f"{name}{k}" for k in range(4))
        led.add(f"plan_{name}", Playback(StringIO(text), columns, unit=(unit,) * 4))
        led.connect(f"plan_{name}.y", f"motors.{name}_ref")
    led.connect("motors.tau", "bar.tau")
    run = simulate(led, 0.2, dt=1e-3, progress=False)
    assert np.all(run["motors.tau"][:, 1:3] == 0.0)
    # the run holds torques for 1 ms, at the planned values of the start of the step
    assert_allclose(run["bar.q"], plan["bar.q"], atol=1e-4)
    assert np.abs(plan["bar.q"][-1] - plan["bar.q"][0]).max() > 0.3


@pytest.mark.parametrize("actuated", MOTORS.values(), ids=MOTORS)
def test_computed_torque_gives_the_nearest_acceleration_that_the_loop_allows(actuated, rng):
    # Gauss' principle: the acceleration error is orthogonal, in the metric H, to all accelerations
    # that the loop allows
    q_ref, qd_ref = Q + rng.normal(0.0, 0.2, 3), rng.normal(size=3)
    y = outputs(
        InverseDynamicsController(FOUR_BAR, 50.0, 8.0, actuated),
        q=Q,
        qd=QD,
        q_ref=q_ref,
        qd_ref=qd_ref,
        qdd_ref=np.zeros(3),
    )
    wanted = 50.0 * (q_ref - Q) + 8.0 * (qd_ref - QD)
    missed = wanted - closed_loop_dynamics(FOUR_BAR, Q, QD, y["tau"]).qdd
    allowed = np.linalg.svd(loop_constraints(FOUR_BAR, Q, QD).K)[2][2:]
    close(allowed @ crba(FOUR_BAR, Q) @ missed, np.zeros(len(allowed)))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["numpy", "compiled"])
def test_gravity_compensation_with_one_motor_holds_a_four_bar_at_rest(form):
    system = System()
    system.add("bar", ClosedLoopPlant(FOUR_BAR, q0=Q))
    system.add("hold", GravityCompensation(FOUR_BAR, (0,)))
    system.connect("bar.q", "hold.q")
    system.connect("hold.tau", "bar.tau")
    result = simulate(system, 0.05, dt=1e-3, form=form, progress=False)
    assert_allclose(result["bar.q"][-1], Q, atol=SAME)


def test_inverse_dynamics_of_an_underactuated_mechanism_outputs_the_acceleration_residual():
    model, (q, _, _, _) = loop_model("three loops")
    y = outputs(GravityCompensation(model, (0,)), q=q)
    assert np.abs(y["missed"]).max() > 1e-3
    qdd = closed_loop_dynamics(model, q, np.zeros(model.nv), y["tau"]).qdd
    close(qdd, -y["missed"])


def test_frame_at_a_fixed_pin_has_the_pin_position_and_zero_velocity():
    # the pin of the last link is fixed, 1.5 m from the first joint
    y = outputs(FrameKinematics(FOUR_BAR, (Frame("pin", 2, xlt([1.1, 0.0, 0.0])),)), q=Q, qd=QD)
    close(y["p_pin"], np.array([1.5, 0.0, 0.0]))
    close(y["v_pin"], np.zeros(3))


def test_imu_at_a_fixed_pin_of_a_loop_measures_only_gravity():
    qdd = closed_loop_dynamics(FOUR_BAR, Q, QD, np.array([3.0, 0.0, 0.0])).qdd
    y = outputs(IMU(FOUR_BAR, Frame("pin", 2, xlt([1.1, 0.0, 0.0]))), q=Q, qd=QD, qdd=qdd)
    close(np.linalg.norm(y["accelerometer"]), 9.81)


BAD = [
    (
        lambda: GravityCompensation(FOUR_BAR, ()),
        "`actuated` is empty; it must contain one or more joints of model 'four-bar'",
    ),
    (lambda: InverseDynamicsController(FOUR_BAR, 1.0, 1.0, ("elbow",)), "elbow"),
    (
        lambda: GravityCompensation(planar2(), (0,)),
        "has no loops, so all of its joints are actuated; `actuated` must be None, not 0",
    ),
    (lambda: InverseDynamicsController(planar2(), 1.0, 1.0, (0,)), "has no loops"),
]


@pytest.mark.parametrize(("make", "message"), BAD, ids=[message[:40] for _, message in BAD])
def test_unknown_actuators_are_rejected_at_construction(make, message):
    with pytest.raises((ValueError, KeyError), match=re.escape(message)):
        make()
