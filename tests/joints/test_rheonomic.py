"""Time-dependent joints and loop joints compared with actuated joints."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from moved_models import AXIS, GAIN, GIVEN, SPEED, crank, crank_angle
from rigidblocks import ClosedLoopPlant, RobotPlant
from rigidblocks.block.memory_layout import Memory
from rigidblocks.dynamics import aba, energy, equivalent, hybrid_dynamics, rnea
from rigidblocks.dynamics.loops import (
    SOLVERS,
    assemble,
    closed_loop_dynamics,
    consistent_velocity,
    drift,
    loop_constraints,
    project_velocity,
)
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.library import FloatingBasePlant, HybridPlant
from rigidblocks.robot.configuration import integrate
from rigidblocks.robot.joints import (
    Cylindrical,
    Fixed,
    LoopJoint,
    PlanarPrismatic,
    PlanarRevolute,
    Prismatic,
    RackAndPinion,
    Reversed,
    Revolute,
    Rheonomic,
    Spherical,
)
from rigidblocks.robot.model import Model
from rigidblocks.robot.robots import slider_crank, spatial_mechanism
from rigidblocks.spatial import planar, spatial
from rigidblocks.spatial.spatial import crm, identity, mcI, rotx, xlt

RTOL = 1e-12  # a few dozen rounding errors
STEP, DIFFERENCE = 1e-4, 1e-6  # central differences: truncation h^2, rounding 1e-16 / h
T = 0.7


def wave(t):
    """Return the value of a one-variable drive at time t."""
    return [0.3 + 0.5 * np.sin(2.0 * t) + t * t / (1.0 + t)]


def tumble(t):
    """Return the value of a quaternion drive at time t; its norm is 1 up to rounding."""
    half, axis = 0.4 * t + 0.1 * t * t, np.array([0.6, 0.0, 0.8])
    return [np.cos(half), *(axis * np.sin(half))]


JOINTS = {
    "revolute on revolute": Rheonomic(Revolute((1, 0, 0)), Revolute(), wave),
    "prismatic on helix": Rheonomic(Prismatic((0, 1, 0)), Cylindrical(), lambda t: [*wave(t), t]),
    "ball on tumbling frame": Rheonomic(Spherical(), Spherical(), tumble),
    "pinion on a moved rack": Rheonomic(RackAndPinion(0.3), Prismatic((1, 0, 0)), wave),
    "all given": Rheonomic(Fixed(), Revolute((0, 1, 0)), wave),
    "the other way round": Reversed(Rheonomic(Revolute((1, 0, 0)), Revolute(), wave)),
}


@pytest.mark.parametrize("name", JOINTS)
def test_velocity_and_bias_of_a_rheonomic_joint_match_finite_differences(name, rng):
    joint = JOINTS[name]
    q, qd = joint.random(rng), rng.normal(size=joint.nv)

    def state_at(h):
        there = joint.integrate(q, h * qd)
        return joint.evaluate_at(T + h).jcalc(there, qd)

    low, here, high = state_at(-STEP), joint.evaluate_at(T).jcalc(q, qd), state_at(STEP)
    rate = (high.XJ.matrix() - low.XJ.matrix()) / (2 * STEP)
    assert_allclose(rate, -crm(here.vJ) @ here.XJ.matrix(), atol=DIFFERENCE)
    # at constant velocity variables, the apparent derivative of v_J is c_J
    assert_allclose((high.vJ - low.vJ) / (2 * STEP), here.cJ, atol=DIFFERENCE)


def driven_chains(joint, drive, motion, rng):
    """Return a chain with a rheonomic joint, and the same chain with the drive as a joint."""
    bodies = [mcI(m, rng.uniform(-0.3, 0.3, 3), np.diag([0.2, 0.3, 0.25])) for m in (2.0, 1.0, 0.5)]
    Xtree = [rotx(0.4) @ xlt(rng.uniform(-1, 1, 3)) for _ in range(3)]
    moved = Model(
        "moved",
        (-1, 0, 1),
        (Revolute(), Rheonomic(joint, drive, motion), Revolute((0, 1, 0))),
        Xtree,
        bodies,
    )
    massless = mcI(0.0, np.zeros(3), np.zeros((3, 3)))
    whole = Model(
        "whole",
        (-1, 0, 1, 2),
        (Revolute(), drive, joint, Revolute((0, 1, 0))),
        (*Xtree[:2], identity(), Xtree[2]),
        (bodies[0], massless, *bodies[1:]),
        massless=("body2",),
    )
    return moved, whole


def drive_at_time():
    """Return position, rate and acceleration of the drive at T, checked by finite differences."""
    low, here, high = (wave(t)[0] for t in (T - STEP, T, T + STEP))
    given = JOINTS["all given"]
    exact = given.evaluate_at(T).jcalc(np.zeros(0), np.zeros(0))
    rate, second = exact.vJ[1], exact.cJ[1]
    differences = [(high - low) / (2 * STEP), (high - 2 * here + low) / STEP**2]
    assert_allclose([rate, second], differences, atol=1e-5)
    assert given.evaluate_at(T) is not given
    return here, rate, second


@pytest.mark.parametrize("tree", [lambda model: model, equivalent], ids=["itself", "equivalent"])
def test_rheonomic_joints_match_hybrid_dynamics_with_the_same_acceleration(tree, rng):
    moved, whole = driven_chains(Prismatic((0, 0.6, 0.8)), Revolute((1, 0, 0)), wave, rng)
    q, qd, tau = rng.normal(size=(3, 3))
    here, rate, second = drive_at_time()
    qdd = aba(tree(moved).evaluate_at(T), q, qd, tau)
    all_q, all_qd = np.insert(q, 1, here), np.insert(qd, 1, rate)
    fd, wanted = (True, False, True, True), np.array([0, second, 0, 0])
    expected, forces = hybrid_dynamics(whole, fd, all_q, all_qd, wanted, np.insert(tau, 1, 0.0))
    assert_allclose(qdd, np.delete(expected, 1), rtol=1e-11, atol=1e-11)
    assert_allclose(rnea(moved.evaluate_at(T), q, qd, qdd), tau, atol=1e-11)
    assert_allclose(np.delete(forces, 1), tau, atol=1e-11)
    assert_allclose(
        energy(moved.evaluate_at(T), q, qd), energy(whole, all_q, all_qd), rtol=RTOL
    )  # includes the kinetic energy of the drive


# ---- a crank with a prescribed rotation ----


def held_crank():
    """Return the mechanism with a rheonomic loop joint that drives the crank."""
    return crank(AXIS, (LoopJoint(GIVEN, -1, 0, identity(), identity(), "drive"),))


def run(plant, **inputs):
    """Return the outputs of a compiled run of 1 s with constant inputs."""
    flat = Memory(plant)
    stepper, m = compiled_stepper(flat, h=1e-3), flat.start()
    for name, value in inputs.items():
        m[flat.where[name]] = value
    stepper.initialize(m, 0.0)
    rows = []
    for k in range(1000):
        stepper.step(m, k * 1e-3, 1e-3)
        rows.append(m.copy())
    return {port.name: np.array(rows)[:, flat.where[port.name]] for port in plant.outputs}


@pytest.mark.slow
def test_crank_with_a_rheonomic_joint_moves_like_the_crank_of_a_hybrid_plant():
    start = np.array([crank_angle(0.0)[0], -0.3])
    hybrid = HybridPlant(crank(AXIS), ("joint1",), q0=start, qd0=(SPEED, 0.5))
    expected = run(hybrid, qdd_ref=[GAIN])
    tree = run(RobotPlant(crank(GIVEN), q0=start[1:], qd0=[0.5]))
    loop = run(ClosedLoopPlant(held_crank(), q0=start, qd0=(SPEED, 0.5)))
    assert_allclose(tree["q"][:, 0], expected["q"][:, 1], atol=1e-11)
    assert_allclose(tree["qd"][:, 0], expected["qd"][:, 1], atol=1e-11)
    assert_allclose(loop["q"], expected["q"], atol=1e-11)
    assert_allclose(loop["qd"], expected["qd"], atol=1e-11)
    assert_allclose(tree["energy"], expected["energy"], atol=1e-10)
    # one loop constraint force is the torque that the prescribed crank motion requires
    turning = np.max(np.abs(loop["lam"]), axis=1)
    assert_allclose(turning, np.abs(expected["tau_prescribed"][:, 0]), rtol=1e-9)
    assert loop["loop_error"].max() < 1e-12


def test_slider_crank_with_a_prescribed_crank_angle_matches_the_closed_form():
    mechanism = spatial_mechanism(slider_crank())
    model = mechanism.model
    spin = Rheonomic(Fixed(), model.joint[0], lambda t: [mechanism.q0[0] + SPEED * t])
    driven_model = Model(
        "driven", model.parent, (spin, *model.joint[1:]), model.Xtree, model.inertia,
        model.gravity, loops=model.loops,
    )  # fmt: skip
    r, l = model.Xtree[1].r[0], model.loops[0].Xp.r[0]
    for t in (0.0, 0.3, 1.1):
        theta, now = mechanism.q0[0] + SPEED * t, driven_model.evaluate_at(t)
        q = assemble(now, mechanism.q0[1:])
        qd = project_velocity(now, q, np.zeros(2))
        s, c = np.sin(theta), np.cos(theta)
        root = q[1] - r * c  # the assembly branch of the solution
        assert_allclose(root * root, l * l - r * r * s * s, rtol=1e-9)
        speed = -SPEED * (r * s + r * r * s * c / root)
        assert_allclose(abs(qd[1]), abs(speed), rtol=1e-9, atol=1e-12)
        with pytest.warns(UserWarning, match="open its loops"):
            assert_allclose(consistent_velocity(now, q, np.zeros(2)), qd)


def test_derivatives_of_a_rheonomic_loop_error_match_finite_differences(rng):
    model = held_crank()
    q, qd = rng.normal(size=2) * 0.1 + [crank_angle(T)[0], 0.2], rng.normal(size=2)

    def state_at(h):
        return loop_constraints(model.evaluate_at(T + h), integrate(model, q, h * qd), qd)

    def velocity(h):
        there = integrate(model, q, h * qd)
        return state_at(h).K @ qd + drift(model.evaluate_at(T + h), there)

    rate = (state_at(STEP).delta - state_at(-STEP).delta) / (2 * STEP)
    closed = np.array([crank_angle(T)[0], 0.2])
    exact = loop_constraints(model.evaluate_at(T), closed, qd)
    assert_allclose(rate, velocity(0.0), atol=0.05)  # delta is the constraint error to first order
    bias = (velocity(STEP) - velocity(-STEP)) / (2 * STEP)
    assert_allclose(bias, -state_at(0.0).k, atol=0.5)
    q[:] = closed
    rate = (state_at(STEP).delta - state_at(-STEP).delta) / (2 * STEP)
    assert_allclose(rate, velocity(0.0), atol=DIFFERENCE)
    qd[0] = SPEED + GAIN * T  # equal to the drive velocity
    bias = (velocity(STEP) - velocity(-STEP)) / (2 * STEP)
    assert_allclose(bias, -loop_constraints(model.evaluate_at(T), closed, qd).k, atol=DIFFERENCE)
    assert exact.K.shape == (6, 2)


@pytest.mark.parametrize("method", SOLVERS)
def test_each_loop_solver_satisfies_the_prescribed_crank_acceleration(method):
    model, q = held_crank().evaluate_at(T), np.array([crank_angle(T)[0], 0.2])
    motion = closed_loop_dynamics(model, q, np.array([SPEED + GAIN * T, 0.3]), np.zeros(2),
                                  method=method)  # fmt: skip
    assert_allclose(motion.qdd[0], GAIN, rtol=1e-11)


def test_projected_velocity_of_the_crank_equals_its_prescribed_speed():
    model, q = held_crank().evaluate_at(T), np.array([crank_angle(T)[0], 0.2])
    qd = project_velocity(model, q, np.array([0.0, 0.3]))
    assert_allclose(qd[0], SPEED + GAIN * T, rtol=RTOL)


def test_velocity_and_bias_of_a_planar_rheonomic_joint_match_finite_differences(rng):
    joint = Rheonomic(PlanarRevolute(), PlanarPrismatic(), wave)
    q, qd = rng.normal(size=(2, 1))
    low, here, high = (joint.evaluate_at(T + h).jcalc(q + h * qd, qd) for h in (-STEP, 0.0, STEP))
    rate = (high.XJ.matrix() - low.XJ.matrix()) / (2 * STEP)
    assert_allclose(rate, -planar.crm(here.vJ) @ here.XJ.matrix(), atol=DIFFERENCE)
    assert_allclose((high.vJ - low.vJ) / (2 * STEP), here.cJ, atol=DIFFERENCE)


def test_model_with_rheonomic_joints_is_rejected_without_a_time():
    model = crank(GIVEN)
    with pytest.raises(ValueError, match=r"model\.evaluate_at\(t\)"):
        aba(model, np.zeros(1), np.zeros(1), np.zeros(1))
    with pytest.raises(ValueError, match="depends on time, which HybridPlant does not support"):
        HybridPlant(model, ("joint1",))
    with pytest.raises(ValueError, match="depends on time, which FloatingBasePlant"):
        FloatingBasePlant(model)
    wrong = Rheonomic(Fixed(), Spherical(), wave)
    with pytest.raises(ValueError, match=r"position variable of its drive .*: expected 4, not 1"):
        wrong.evaluate_at(0.0).jcalc(np.zeros(0), np.zeros(0))
    assert crank(AXIS).evaluate_at(1.0) is not None
    assert not crank(AXIS).rheonomic
    still = crank(AXIS)
    assert still.evaluate_at(1.0) is still
    assert_allclose(spatial.zero(), AXIS.bias_velocity(identity()))
