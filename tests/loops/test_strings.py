"""Cable constraints between several bodies, compared with closed forms of pulleys."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks.block.memory_layout import Memory
from rigidblocks.dynamics.loops import (
    SOLVERS,
    assemble,
    closed_loop_dynamics,
    closed_loop_inverse_dynamics,
    constraint_names,
    constraint_structure,
    drift,
    loop_constraints,
    maximal_dynamics,
    mobility,
    project,
)
from rigidblocks.dynamics.model_reduction import align_joint_axes
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.library import ClosedLoopPlant, RobotPlant
from rigidblocks.robot.configuration import integrate, random_configuration
from rigidblocks.robot.joints import (
    PlanarPrismatic,
    PlanarRevolute,
    Prismatic,
    Revolute,
    Spherical,
    StringConstraint,
)
from rigidblocks.robot.model import Model, PlanarModel
from rigidblocks.robot.robots import four_bar
from rigidblocks.spatial import planar
from rigidblocks.spatial.spatial import mcI, rotx, xlt

G = 9.81
RTOL = 1e-12
STEP, DIFFERENCE = 1e-4, 1e-6  # central differences: truncation h^2, rounding 1e-16 / h


def weights(masses, strings):
    """Return masses on vertical rails at distances of 1 m; positions increase upwards."""
    n = len(masses)
    return PlanarModel(
        "weights",
        (-1,) * n,
        (PlanarPrismatic("y"),) * n,
        [planar.xlt([float(i), 0.0]) for i in range(n)],
        [planar.mcI(m, [0.0, 0.0], 1.0) for m in masses],
        gravity=(0.0, -G),
        strings=strings,
    )


def discs(closed=True):
    """Return three free planar discs of 0.1 m in a closed cable with 3 m of straight segments."""
    X = PlanarPrismatic(), PlanarPrismatic("y"), PlanarRevolute()
    light = planar.mcI(0.0, [0.0, 0.0], 0.0)
    round_string = StringConstraint(
        [(2, [0.0, 0.0]), (5, [0.0, 0.0]), (8, [0.0, 0.0])], 3.0 + 0.2 * np.pi, closed, 0.1
    )
    return PlanarModel(
        "discs",
        (-1, 0, 1, -1, 3, 4, -1, 6, 7),
        X * 3,
        [planar.identity()] * 9,
        [light, light, planar.mcI(2.0, [0.0, 0.0], 0.01)] * 3,
        massless=("body1", "body2", "body4", "body5", "body7", "body8"),
        strings=(round_string,),
    )


def test_atwood_machine_has_the_textbook_acceleration():
    over = StringConstraint([(0, [0, 0]), (-1, [0, 2.0]), (-1, [1.0, 2.0]), (1, [0, 0])], 5.0)
    model = weights((3.0, 1.0), (over,))
    motion = closed_loop_dynamics(model, np.zeros(2), np.array([0.3, -0.3]), np.zeros(2))
    assert_allclose(motion.qdd, [-G / 2, G / 2], rtol=RTOL)
    assert_allclose(motion.lam, [-2 * 3.0 * 1.0 / 4.0 * G], rtol=RTOL)  # minus the tension


def test_block_and_tackle_accelerations_equal_the_closed_form():
    # the string runs from the ceiling around a movable pulley with the load, then over a fixed
    # pulley to the other mass; the two strands at the load have an angle of 45 degrees
    strands = StringConstraint(
        [(-1, [0.0, 1.0]), (0, [1.0, 0.0]), (-1, [2.0, 1.0]), (-1, [1.0, 5.0]), (1, [0.0, 0.0])],
        2 * np.sqrt(2) + np.sqrt(17) + 5.0,
    )
    M, m = 4.0, 3.0
    model = weights((M, m), (strands,))
    assert_allclose(loop_constraints(model, np.zeros(2), np.zeros(2)).delta, 0, atol=1e-15)
    # if the load rises by 1 m, the strands shorten and the other mass sinks by 2 cos 45 m
    ratio = np.sqrt(2)
    motion = closed_loop_dynamics(model, np.zeros(2), np.zeros(2), np.zeros(2))
    T = G * (1 + ratio) / (ratio**2 / M + 1 / m) * 1.0
    up = (ratio * T - M * G) / M
    assert_allclose(motion.qdd, [up, (T - m * G) / m], rtol=RTOL)
    assert_allclose(motion.lam, [-T], rtol=RTOL)
    assert_allclose(motion.qdd[1], -ratio * motion.qdd[0], rtol=1e-11)


def test_three_discs_on_a_cable_have_the_accelerations_of_a_steady_rotation():
    # 2 T cos 30 = m w^2 r for each disc
    model, w, r = discs(), 2.0, 1 / np.sqrt(3)
    angles = np.pi / 2 + 2 * np.pi / 3 * np.arange(3)
    at = r * np.array([np.cos(angles), np.sin(angles)])
    q = np.vstack([at, np.zeros(3)]).T.ravel()
    qd = np.vstack([-w * at[1], w * at[0], [0.4, -0.3, 0.2]]).T.ravel()
    motion = closed_loop_dynamics(model, q, qd, np.zeros(9))
    expected = np.vstack([-w * w * at, np.zeros(3)]).T.ravel()
    assert_allclose(motion.qdd, expected, atol=1e-11)
    assert_allclose(motion.lam, [-2.0 * w * w * r / np.sqrt(3)], rtol=1e-11)
    assert mobility(model, q) == 8


@pytest.mark.slow
def test_three_discs_on_a_cable_conserve_energy_momentum_and_cable_length(rng):
    model = discs()
    q = project(model, np.array([0.0, 0.0, 0.0, 1.0, 0.1, 0.0, 0.4, 0.9, 0.0]), np.zeros(9))[0]
    for _ in range(5):
        q = project(model, q, np.zeros(9))[0]
    qd = project(model, q, rng.normal(size=9))[1]
    plant = ClosedLoopPlant(model, q0=q, qd0=qd)
    flat = Memory(plant)
    stepper, m = compiled_stepper(flat, h=1e-3), flat.start()
    stepper.initialize(m, 0.0)
    momentum, energy = [], []
    for k in range(3000):
        stepper.step(m, k * 1e-3, 1e-3)
        v = m[flat.where["qd"]].reshape(3, 3)
        momentum.append(v[:, :2].sum(axis=0))
        energy.append(m[flat.where["energy"]][0])
        assert m[flat.where["loop_error"]][0] < 1e-12
    assert_allclose(momentum, [momentum[0]] * 3000, atol=1e-10)
    assert_allclose(energy, energy[0], rtol=1e-9)


def tangled_tree(rng):
    """Return a spatial tree with a cable through points of four bodies and the base."""
    body = mcI(1.0, rng.uniform(-0.2, 0.2, 3), np.diag([0.2, 0.3, 0.25]))
    points = [(body, rng.uniform(-1, 1, 3)) for body in (-1, 1, 0, 3, 2)]
    string = StringConstraint(points, 9.0, closed=True, name="cord")
    joints = (Revolute((0.0, 0.6, 0.8)), Spherical(), Prismatic((1, 0, 0)), Revolute((0, 1, 0)))
    Xtree = [rotx(0.3) @ xlt(rng.uniform(-1, 1, 3)) for _ in joints]
    return Model("tangled", (-1, 0, 0, 2), joints, Xtree, (body,) * 4, strings=(string,))


def test_derivative_and_bias_of_a_cable_constraint_match_finite_differences(rng):
    model = tangled_tree(rng)
    q, qd = random_configuration(model, rng), rng.normal(size=model.nv)

    def error_and_rate_at(h):
        there = loop_constraints(model, integrate(model, q, h * qd), qd)
        return np.array([there.delta[0], there.K[0] @ qd])

    rate = (error_and_rate_at(STEP) - error_and_rate_at(-STEP)) / (2 * STEP)
    K, k, _ = loop_constraints(model, q, qd)
    assert_allclose(rate, [K[0] @ qd, -k[0]], atol=DIFFERENCE)
    assert np.all(constraint_structure(model) >= (np.abs(K) > 1e-14))
    assert constraint_names(model, q) == ("cord: length",)
    turned = align_joint_axes(model)
    assert turned is not model
    assert_allclose(loop_constraints(turned, q, qd).K, K, atol=1e-13)


@pytest.mark.parametrize("method", SOLVERS)
def test_each_loop_solver_satisfies_cable_constraints(method, rng):
    model = tangled_tree(rng)
    q, qd = random_configuration(model, rng), rng.normal(size=model.nv)
    tau = rng.normal(size=model.nv)
    motion = closed_loop_dynamics(model, q, qd, tau, method=method)
    K, k, _ = loop_constraints(model, q, qd)
    assert_allclose(K @ motion.qdd, k, rtol=1e-9, atol=1e-9)
    expected = closed_loop_dynamics(model, q, qd, tau)
    assert_allclose(motion.qdd, expected.qdd, rtol=1e-9, atol=1e-9)


def test_inverse_dynamics_of_an_atwood_machine_equals_the_closed_form():
    over = StringConstraint([(0, [0, 0]), (-1, [0, 2.0]), (-1, [1.0, 2.0]), (1, [0, 0])], 5.0)
    model = weights((3.0, 1.0), (over,))
    forces = closed_loop_inverse_dynamics(
        model, np.zeros(2), np.zeros(2), np.array([1.0, -1.0]), [0]
    )
    assert_allclose(forces.tau, [4.0 + 2.0 * G, 0.0], rtol=RTOL)


def test_mass_on_a_winch_follows_the_prescribed_cable_length():
    # the length is a function of time, and the mass has the opposite acceleration of the length
    winch = StringConstraint(
        [(-1, [0.0, 3.0]), (0, [0.0, 0.0])], lambda t: 3.0 - 0.2 * t - 0.5 * 1.5 * t * t
    )
    model = weights((2.0,), (winch,))
    now = model.evaluate_at(0.4)
    q = project(now, np.array([0.1]), np.zeros(1))[0]
    q, qd = project(now, q, np.zeros(1))
    assert_allclose(q, [0.2 * 0.4 + 0.75 * 0.16], rtol=1e-9)
    assert_allclose(qd, [0.2 + 1.5 * 0.4], rtol=RTOL)
    assert_allclose(drift(now, q), qd, rtol=RTOL)
    motion = closed_loop_dynamics(now, q, qd, np.zeros(1))
    assert_allclose([*motion.qdd, *motion.lam], [1.5, -2.0 * (G + 1.5)], rtol=1e-11)


def test_functions_that_support_only_loop_joints_reject_cables():
    over = StringConstraint([(0, [0, 0]), (1, [0, 0])], 1.0)
    model = weights((3.0, 1.0), (over,))
    for refused in (
        lambda: assemble(model, np.zeros(2)),
        lambda: maximal_dynamics(model, np.zeros(2), np.zeros(2), np.zeros(2)),
    ):
        with pytest.raises(
            ValueError, match=r"has the strings string1, but .* supports only loop joints"
        ):
            refused()
    with pytest.raises(ValueError, match="has the loop joints string1"):
        RobotPlant(model)
    assert model.spanning_tree.nc == 0
    assert four_bar().model.strings == ()


@pytest.mark.parametrize(
    ("points", "options", "problem"),
    [
        ([(0, [0, 0])], {}, "has 1 points; it needs at least 2"),
        ([(0, [0, 0]), (1, [0, 0])], {"closed": True}, "has 2 points; it needs at least 3"),
        ([(0, [0, 0]), (2, [0, 0])], {}, "has a point on unknown body 2; the bodies are -1"),
        ([(0, [0, 0]), (1, [0, 0, 1])], {}, "it needs 2 finite coordinates"),
        ([(0, [0, 0]), (0, [0, 0])], {}, "connects a point of body 0 with itself"),
        ([(0, [0, 0]), (1, [0, 0])], {"length": -1.0}, "must be positive and finite, not -1.0"),
        ([(0, [0, 0]), (1, [0, 0])], {"radius": 0.1}, "only a closed string can have a radius"),
    ],
)
def test_cable_constraints_with_invalid_points_or_length_are_rejected(points, options, problem):
    with pytest.raises(ValueError, match=problem):
        weights((1.0, 1.0), (StringConstraint(points, **({"length": 1.0} | options)),))
