"""Joints that roll: no slip, and the closed forms of a ball, a disc and a sleigh."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp

from rigidblocks import ClosedLoopPlant, RobotPlant, System, simulate
from rigidblocks.algebra import planar, spatial
from rigidblocks.algebra.spatial import crm, identity, mcI, rotx
from rigidblocks.dynamics import aba, energy
from rigidblocks.joint import (
    Blade,
    LoopJoint,
    PlanarPrismatic,
    PlanarRevolute,
    Revolute,
    RollingBall,
    RollingDisc,
    SixDoF,
)
from rigidblocks.loops import closed_loop_dynamics
from rigidblocks.model.configuration import rate
from rigidblocks.model.model import Model
from rigidblocks.model.planar import PlanarModel

RTOL = 1e-11  # a few dozen roundings, and solutions of condition 1e2
STEP, DIFFERENCE = 1e-4, 1e-7  # central differences: h^2, and 1e-16 / h
R, MASS, G = 0.3, 2.0, 9.81
ROLLING = {"ball": RollingBall(R), "disc": RollingDisc(R)}


@pytest.fixture(params=ROLLING)
def joint(request):
    return ROLLING[request.param]


def rolling_body(joint, inertia, slope=0.0):
    """A body alone on a plane that falls towards x by the angle `slope`."""
    gravity = G * np.array([np.sin(slope), 0, -np.cos(slope)])
    return Model(
        "roller", (-1,), (joint,), (identity(),), (mcI(MASS, np.zeros(3), inertia),), gravity
    )


def moved(joint, q, qd, h):
    return joint.normalized(q + h * joint.rate(q, qd))


def test_motion_subspace_is_that_of_the_transform(joint, rng):
    q, qd = joint.random(rng), rng.normal(size=joint.nv)
    X = [joint.jcalc(moved(joint, q, qd, h), qd).XJ.matrix() for h in (-STEP, 0, STEP)]
    vJ = joint.jcalc(q, qd).vJ
    assert_allclose((X[2] - X[0]) / (2 * STEP), -crm(vJ) @ X[1], atol=1e2 * DIFFERENCE)


def test_bias_is_the_rate_of_the_subspace(joint, rng):
    q, qd = joint.random(rng), rng.normal(size=joint.nv)
    S = [joint.jcalc(moved(joint, q, qd, h), qd).S for h in (-STEP, STEP)]
    assert_allclose((S[1] - S[0]) / (2 * STEP) @ qd, joint.jcalc(q, qd).cJ, atol=1e2 * DIFFERENCE)


def test_point_of_contact_is_on_the_plane_and_has_no_velocity(joint, rng):
    for _ in range(20):
        q, qd = joint.random(rng), rng.normal(size=3)
        XJ, S, vJ, _ = joint.jcalc(q, qd)
        c, _ = joint.contact(XJ.E[:, 2], qd)
        assert_allclose((XJ.r + XJ.E.T @ c)[2], -R, atol=RTOL)
        assert_allclose(vJ[3:] + np.cross(vJ[:3], c), 0, atol=RTOL)
        assert_allclose(joint.constraint_forces(q).T @ S, 0, atol=RTOL)
        assert_allclose(np.linalg.norm(c), R, rtol=RTOL)


def test_ball_rolls_down_with_five_sevenths():
    slope = 0.2
    model = rolling_body(RollingBall(R), 0.4 * MASS * R**2 * np.eye(3), slope)
    q = model.joint[0].neutral()
    wd = aba(model, q, np.zeros(3), np.zeros(3))
    assert_allclose(wd, [0, 5 / 7 * G * np.sin(slope) / R, 0], atol=RTOL)


def steady_disc(tilt, turn):
    """The spin about its axis with which a disc of this tilt goes round steadily, by moments about
    its centre: c x F = dL/dt, both linear in the spin.
    """
    A, C = MASS * R**2 / 4, MASS * R**2 / 2
    up, axis = np.array([0, 0, 1.0]), np.array([0, np.sin(tilt), np.cos(tilt)])
    across = up - axis * np.cos(tilt)  # of the vertical, in the plane of the disc
    c = -R * across / np.linalg.norm(across)

    def left(spin):
        w = turn * across + spin * axis
        F = MASS * (turn * np.cross(up, -np.cross(w, c)) + G * up)
        L = A * turn * across + C * spin * axis
        return (np.cross(c, F) - turn * np.cross(up, L))[0]

    spin = -left(0.0) / (left(1.0) - left(0.0))
    return spin, turn * across + spin * axis


@pytest.mark.parametrize(("tilt", "turn"), [(1.3, 2.0), (0.8, 4.0), (np.pi / 2, 1.0)])
def test_disc_goes_round_as_the_closed_form_of_its_precession(tilt, turn):
    A, C = MASS * R**2 / 4, MASS * R**2 / 2
    model = rolling_body(RollingDisc(R), np.diag([A, C, A]))
    joint, (_, w) = model.joint[0], steady_disc(tilt, turn)
    # y of the disc along `axis`: turned about x by tilt - 90 degrees
    E = rotx(np.pi / 2 - tilt).E
    q0 = joint.nearest(spatial.Transform(E, np.zeros(3)))
    plant = RobotPlant(model, q0=q0, qd0=E @ w)
    system = System()
    system.add("disc", plant, method="rk4", h=1e-3)
    run = simulate(system, 2.0, 0.1, progress=False)
    # height, energy, and the rate at which the axis goes round
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
def test_tumbling_disc_keeps_its_energy():
    A, C = MASS * R**2 / 4, MASS * R**2 / 2
    model = rolling_body(RollingDisc(R), np.diag([A, C, A]))
    q = model.joint[0].nearest(rotx(0.3) @ spatial.rotz(0.4))
    qd = np.array([0.3, 8.0, -0.5])

    def slope(_, s):
        return np.concatenate([rate(model, s[:7], s[7:]), aba(model, s[:7], s[7:], np.zeros(3))])

    end = solve_ivp(slope, (0, 3), np.concatenate([q, qd]), rtol=1e-10, atol=1e-12).y
    kept = [energy(model, s[:7], s[7:]) for s in end.T]
    assert_allclose(kept, kept[0], rtol=1e-8)
    gap = [s[6] - model.joint[0].normalized(s[:7])[6] for s in end.T]
    assert_allclose(gap, 0, atol=1e-8)


def test_loop_joint_that_rolls_is_the_joint_of_the_tree(joint, rng):
    # a free body that a rolling loop joint holds, and the same on a rolling joint of the tree
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
def test_plant_with_a_rolling_loop_keeps_contact_and_energy():
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


# in the plane


def sleigh(ahead=0.4, moment=0.2):
    """Chaplygin's sleigh: its centre of mass lies ahead of the blade."""
    body = planar.mcI(MASS, np.array([ahead, 0.0]), moment)
    return PlanarModel("sleigh", (-1,), (Blade(),), (planar.identity(),), (body,), np.zeros(2))


def test_sleigh_turns_straight_as_the_closed_form():
    # V = U tanh(k t), w = w0 / cosh(k t): with a the distance and J = I + m a^2 about the blade,
    # dV/dt = a w^2 and J dw/dt = -m a V w; so U^2 = J w0^2 / m and k = a w0^2 / U
    a, I, w0 = 0.4, 0.2, 3.0
    J = I + MASS * a**2
    U = w0 * np.sqrt(J / MASS)
    k = a * w0**2 / U
    system = System()
    system.add("sleigh", RobotPlant(sleigh(a, I), qd0=[w0, 0.0]), method="rk4", h=1e-3)
    run = simulate(system, 5.0, 0.1, progress=False)
    assert_allclose(run["sleigh.qd"][:, 0], w0 / np.cosh(k * run.time), atol=1e-9)
    assert_allclose(run["sleigh.qd"][:, 1], U * np.tanh(k * run.time), atol=1e-9)


def test_blade_that_closes_a_loop_is_that_of_the_tree(rng):
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
    assert_allclose(found, [*expected, turning], atol=1e-6)  # the dust


def test_blade_goes_along_the_arc():
    blade = Blade()
    assert_allclose(
        blade.integrate(np.zeros(3), np.array([np.pi, np.pi])), [np.pi, 0, 2], atol=1e-15
    )
    assert_allclose(blade.integrate(np.zeros(3), np.array([0.0, 1.0])), [0, 1, 0])
    q = np.array([0.3, 1.0, 2.0])
    for dq in (np.array([1.2, 0.7]), np.array([1e-9, -2.0])):
        assert_allclose(blade.difference(q, blade.integrate(q, dq)), dq, atol=1e-14)


@pytest.mark.slow
def test_tree_goes_on_behind_a_rolling_joint():
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
def test_radius_must_be_positive(radius):
    with pytest.raises(ValueError, match="the radius of what rolls must be positive, not"):
        RollingBall(radius)
