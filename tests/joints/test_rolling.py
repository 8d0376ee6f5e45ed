"""Rolling joints: rolling without slip, and closed-form motions of ball, disc and sleigh."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp

from rigidblocks import ClosedLoopPlant, RobotPlant, System, simulate
from rigidblocks.dynamics import aba, energy
from rigidblocks.dynamics.loops import closed_loop_dynamics
from rigidblocks.robot.configuration import rate
from rigidblocks.robot.joints import (
    Blade,
    LoopJoint,
    PlanarPrismatic,
    PlanarRevolute,
    Revolute,
    RollingBall,
    RollingDisc,
    SixDoF,
)
from rigidblocks.robot.model import Model, PlanarModel
from rigidblocks.spatial import planar, spatial
from rigidblocks.spatial.spatial import crm, identity, mcI, rotx

RTOL = 1e-11  # a few dozen rounding errors, and solutions with condition number 1e2
STEP, DIFFERENCE = 1e-4, 1e-7  # central differences: truncation h^2, rounding 1e-16 / h
R, MASS, G = 0.3, 2.0, 9.81
ROLLING = {"ball": RollingBall(R), "disc": RollingDisc(R)}


@pytest.fixture(params=ROLLING)
def joint(request):
    return ROLLING[request.param]


def rolling_body(joint, inertia, slope=0.0):
    """Return one body on a plane that is inclined downwards along x by the angle `slope`."""
    gravity = G * np.array([np.sin(slope), 0, -np.cos(slope)])
    return Model(
        "roller", (-1,), (joint,), (identity(),), (mcI(MASS, np.zeros(3), inertia),), gravity
    )


def integrate_position(joint, q, qd, h):
    return joint.normalize(q + h * joint.rate(q, qd))


def test_rolling_joint_velocity_matches_the_transform_derivative(joint, rng):
    q, qd = joint.random(rng), rng.normal(size=joint.nv)
    X = [joint.jcalc(integrate_position(joint, q, qd, h), qd).XJ.matrix() for h in (-STEP, 0, STEP)]
    vJ = joint.jcalc(q, qd).vJ
    assert_allclose((X[2] - X[0]) / (2 * STEP), -crm(vJ) @ X[1], atol=1e2 * DIFFERENCE)


def test_rolling_joint_bias_is_the_motion_subspace_derivative_times_qd(joint, rng):
    q, qd = joint.random(rng), rng.normal(size=joint.nv)
    S = [joint.jcalc(integrate_position(joint, q, qd, h), qd).S for h in (-STEP, STEP)]
    assert_allclose((S[1] - S[0]) / (2 * STEP) @ qd, joint.jcalc(q, qd).cJ, atol=1e2 * DIFFERENCE)


def test_rolling_contact_point_is_on_the_plane_and_has_zero_velocity(joint, rng):
    for _ in range(20):
        q, qd = joint.random(rng), rng.normal(size=3)
        XJ, S, vJ, _ = joint.jcalc(q, qd)
        c, _ = joint.contact(XJ.E[:, 2], qd)
        assert_allclose((XJ.r + XJ.E.T @ c)[2], -R, atol=RTOL)
        assert_allclose(vJ[3:] + np.cross(vJ[:3], c), 0, atol=RTOL)
        assert_allclose(joint.constraint_forces(q).T @ S, 0, atol=RTOL)
        assert_allclose(np.linalg.norm(c), R, rtol=RTOL)


def test_rolling_ball_accelerates_with_five_sevenths_of_the_slope_component_of_gravity():
    slope = 0.2
    model = rolling_body(RollingBall(R), 0.4 * MASS * R**2 * np.eye(3), slope)
    q = model.joint[0].neutral()
    wd = aba(model, q, np.zeros(3), np.zeros(3))
    assert_allclose(wd, [0, 5 / 7 * G * np.sin(slope) / R, 0], atol=RTOL)


def steady_disc(tilt, turn):
    """Return the spin and the angular velocity of a tilted disc in steady precession.

    Moments about the centre give c x F = dL/dt; both sides are linear in the spin.
    """
    A, C = MASS * R**2 / 4, MASS * R**2 / 2
    up, axis = np.array([0, 0, 1.0]), np.array([0, np.sin(tilt), np.cos(tilt)])
    across = up - axis * np.cos(tilt)  # component of the vertical in the plane of the disc
    c = -R * across / np.linalg.norm(across)

    def residual(spin):
        w = turn * across + spin * axis
        F = MASS * (turn * np.cross(up, -np.cross(w, c)) + G * up)
        L = A * turn * across + C * spin * axis
        return (np.cross(c, F) - turn * np.cross(up, L))[0]

    spin = -residual(0.0) / (residual(1.0) - residual(0.0))
    return spin, turn * across + spin * axis


@pytest.mark.slow
@pytest.mark.parametrize(("tilt", "turn"), [(1.3, 2.0), (0.8, 4.0), (np.pi / 2, 1.0)])
def test_disc_precession_matches_the_closed_form(tilt, turn):
    A, C = MASS * R**2 / 4, MASS * R**2 / 2
    model = rolling_body(RollingDisc(R), np.diag([A, C, A]))
    joint, (_, w) = model.joint[0], steady_disc(tilt, turn)
    # the y axis of the disc is along `axis`: rotation about x by tilt - 90 degrees
    E = rotx(np.pi / 2 - tilt).E
    q0 = joint.nearest(spatial.Transform(E, np.zeros(3)))
    plant = RobotPlant(model, q0=q0, qd0=E @ w)
    system = System()
    system.add("disc", plant, method="rk4", h=1e-3)
    run = simulate(system, 2.0, 0.1, progress=False)
    # height, energy and direction of the disc axis
    assert_allclose(run["disc.q"][:, 6], q0[6], atol=1e-9)
    assert_allclose(run["disc.energy"], run["disc.energy"][0], rtol=1e-9)
    axes = np.array([joint.jcalc(q, np.zeros(3)).XJ.E[1] for q in run["disc.q"]])
    expected = np.array(
        [
            [-np.sin(tilt) * np.sin(turn * t), np.sin(tilt) * np.cos(turn * t), np.cos(tilt)]
            for t in run.time
        ]
    )
    assert_allclose(axes, expected, atol=1e-7)


@pytest.mark.slow
def test_energy_of_a_tumbling_disc_is_conserved():
    A, C = MASS * R**2 / 4, MASS * R**2 / 2
    model = rolling_body(RollingDisc(R), np.diag([A, C, A]))
    q = model.joint[0].nearest(rotx(0.3) @ spatial.rotz(0.4))
    qd = np.array([0.3, 8.0, -0.5])

    def slope(_, s):
        return np.concatenate([rate(model, s[:7], s[7:]), aba(model, s[:7], s[7:], np.zeros(3))])

    end = solve_ivp(slope, (0, 3), np.concatenate([q, qd]), rtol=1e-10, atol=1e-12).y
    kept = [energy(model, s[:7], s[7:]) for s in end.T]
    assert_allclose(kept, kept[0], rtol=1e-8)
    gap = [s[6] - model.joint[0].normalize(s[:7])[6] for s in end.T]
    assert_allclose(gap, 0, atol=1e-8)


def test_rolling_loop_joint_and_rolling_tree_joint_give_the_same_accelerations(joint, rng):
    # a free body with a rolling loop joint, and the same body on a rolling tree joint
    inertia = np.diag([0.3, 0.4, 0.5])
    tree = rolling_body(joint, inertia, 0.1)
    loop = LoopJoint(joint, -1, 0, identity(), identity(), "rim")
    free = Model(
        "free", (-1,), (SixDoF(),), (identity(),), tree.inertia, tree.gravity, loops=(loop,)
    )
    q, w, tau = joint.random(rng), rng.normal(size=3), rng.normal(size=3)
    motion = joint.jcalc(q, w)
    wd = aba(tree, q, w, tau)
    pull = np.concatenate([tau, np.zeros(3)])
    found = closed_loop_dynamics(free, q, motion.vJ, pull)
    assert_allclose(found.qdd, motion.S @ wd + motion.cJ, atol=1e2 * RTOL)


@pytest.mark.slow
def test_rolling_loop_joint_stays_in_contact_and_conserves_energy():
    wheel = RollingDisc(R)
    A, C = MASS * R**2 / 4, MASS * R**2 / 2
    model = rolling_body(wheel, np.diag([A, C, A]))
    loop = LoopJoint(wheel, -1, 0, identity(), identity(), "rim")
    free = Model(
        "wheel", (-1,), (SixDoF(),), (identity(),), model.inertia, model.gravity, loops=(loop,)
    )
    q0 = wheel.nearest(rotx(0.2))
    qd0 = wheel.jcalc(q0, np.array([0.1, 9.0, 0.2])).vJ
    runs = []
    for plant in (ClosedLoopPlant(free, q0, qd0), RobotPlant(model, q0, qd0[:3])):
        system = System()
        system.add("wheel", plant, method="rk4", h=1e-3)
        runs.append(simulate(system, 1.0, 0.05, progress=False))
    assert_allclose(runs[0]["wheel.q"], runs[1]["wheel.q"], atol=1e-7)
    assert np.max(np.abs(runs[0]["wheel.loop_error"])) < 1e-9
    assert_allclose(runs[0]["wheel.energy"], runs[0]["wheel.energy"][0], rtol=1e-7)


# planar joints


def sleigh(ahead=0.4, moment=0.2):
    """Return a Chaplygin sleigh whose centre of mass is ahead of the blade."""
    body = planar.mcI(MASS, np.array([ahead, 0.0]), moment)
    return PlanarModel("sleigh", (-1,), (Blade(),), (planar.identity(),), (body,), np.zeros(2))


@pytest.mark.slow
def test_chaplygin_sleigh_motion_matches_the_closed_form():
    # V = U tanh(k t), w = w0 / cosh(k t), with the distance a and J = I + m a^2 about the blade:
    # dV/dt = a w^2 and J dw/dt = -m a V w, so U^2 = J w0^2 / m and k = a w0^2 / U
    a, I, w0 = 0.4, 0.2, 3.0
    J = I + MASS * a**2
    U = w0 * np.sqrt(J / MASS)
    k = a * w0**2 / U
    system = System()
    system.add("sleigh", RobotPlant(sleigh(a, I), qd0=[w0, 0.0]), method="rk4", h=1e-3)
    run = simulate(system, 5.0, 0.1, progress=False)
    assert_allclose(run["sleigh.qd"][:, 0], w0 / np.cosh(k * run.time), atol=1e-9)
    assert_allclose(run["sleigh.qd"][:, 1], U * np.tanh(k * run.time), atol=1e-9)


def test_knife_edge_loop_joint_and_tree_joint_give_the_same_accelerations(rng):
    tree = sleigh()
    slide = (PlanarPrismatic("x"), PlanarPrismatic("y"), PlanarRevolute())
    dust = planar.mcI(1e-9, np.zeros(2), 0.0)
    loop = LoopJoint(Blade(), -1, 2, planar.identity(), planar.identity(), "blade")
    places, bodies = (planar.identity(),) * 3, (dust, dust, *tree.inertia)
    free = PlanarModel("free", (-1, 0, 1), slide, places, bodies, np.zeros(2), loops=(loop,))
    angle, x, y = rng.normal(size=3)
    w, v = rng.normal(size=2)
    along = np.array([np.cos(angle), np.sin(angle)])
    found = closed_loop_dynamics(
        free, np.array([x, y, angle]), np.array([*(v * along), w]), np.zeros(3)
    ).qdd
    turning, speeding = aba(tree, np.array([angle, x, y]), np.array([w, v]), np.zeros(2))
    expected = speeding * along + v * w * np.array([-along[1], along[0]])
    assert_allclose(
        found, [*expected, turning], atol=1e-6
    )  # error of the small masses on the auxiliary joints


def test_knife_edge_with_constant_velocities_moves_along_a_circular_arc():
    blade = Blade()
    assert_allclose(
        blade.integrate(np.zeros(3), np.array([np.pi, np.pi])), [np.pi, 0, 2], atol=1e-15
    )
    assert_allclose(blade.integrate(np.zeros(3), np.array([0.0, 1.0])), [0, 1, 0])
    q = np.array([0.3, 1.0, 2.0])
    for dq in (np.array([1.2, 0.7]), np.array([1e-9, -2.0])):
        assert_allclose(blade.difference(q, blade.integrate(q, dq)), dq, atol=1e-14)


@pytest.mark.slow
def test_rolling_joint_with_a_subtree_has_equal_results_in_numpy_and_in_c():
    # a pendulum hangs from the axle of a rolling disc
    A, C = MASS * R**2 / 4, MASS * R**2 / 2
    disc, bob = mcI(MASS, np.zeros(3), np.diag([A, C, A])), mcI(1.0, [0, 0, -0.2], 0.01 * np.eye(3))
    model = Model(
        "cart", (-1, 0), (RollingDisc(R), Revolute((0.0, 1.0, 0.0))), (identity(),) * 2, (disc, bob)
    )
    system = System()
    q0 = [1.0, 0, 0, 0, 0, 0, 0, 0.5]
    system.add("cart", RobotPlant(model, q0=q0), method="rk4", h=1e-3)
    runs = {
        form: simulate(system, 0.2, 0.02, form=form, progress=False)
        for form in ("numpy", "compiled")
    }
    assert_allclose(runs["numpy"]["cart.q"], runs["compiled"]["cart.q"], atol=1e-12)
    assert_allclose(runs["numpy"]["cart.energy"], runs["numpy"]["cart.energy"][0], atol=1e-9)


@pytest.mark.parametrize("radius", [0.0, -1.0, np.inf, np.nan])
def test_rolling_joint_with_a_nonpositive_radius_is_rejected(radius):
    with pytest.raises(
        ValueError, match="the radius of a rolling body must be positive and finite, not"
    ):
        RollingBall(radius)
