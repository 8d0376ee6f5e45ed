"""Library mechanisms: closed initial states, mobility and closed-form motions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp

from mechanism_runs import plant_run, reduced_acceleration
from rigidblocks.dynamics import body_poses, crba, energy
from rigidblocks.dynamics.loops import closed_loop_dynamics, loop_constraints
from rigidblocks.robot.model import PlanarModel
from rigidblocks.robot.robots import (
    actuator_triangle,
    bennett,
    five_bar,
    four_bar,
    n_four_bar,
    sarrus,
    slider_crank,
    spatial_mechanism,
    stewart_platform,
)

CLOSED = 1e-14  # rad, m: about twelve rounding errors of lengths of 1 m
SAME = 1e-11  # relative: two methods with inertia matrices of condition numbers up to 120

# mechanism and mobility (RBDA 8.10)
MECHANISMS = {
    "four-bar": (four_bar(), 1),
    "four-bar crossed": (four_bar(up=False), 1),
    "one window": (n_four_bar(1, 0.3), 1),
    "four windows": (n_four_bar(4, 2.0, -0.4), 1),
    "five-bar": (five_bar(), 2),
    "five-bar, apex down": (five_bar(2.0, 1.5, apex_up=False), 2),
    "slider-crank": (slider_crank(), 1),
    "slider-crank with offset": (slider_crank(offset=-0.2, angle=4.0), 1),
    "actuator triangle": (actuator_triangle(), 2),
    "bennett": (bennett(), 1),
    "bennett of other twists": (bennett(0.7, 0.4, 2.0, 2.5), 1),
    "sarrus": (sarrus(), 1),
    "stewart platform": (stewart_platform(), 6),
    "stewart platform aside": (stewart_platform(0.8, (0.2, -0.1)), 6),
}
EVERY = pytest.mark.parametrize("name", MECHANISMS)
PLANAR = pytest.mark.parametrize(
    "name", [n for n, (m, _) in MECHANISMS.items() if isinstance(m.model, PlanarModel)]
)


@EVERY
def test_initial_state_of_each_mechanism_satisfies_the_loop_constraints(name):
    (model, q0, qd0), _ = MECHANISMS[name]
    constraints = loop_constraints(model, q0, qd0)
    assert_allclose(constraints.delta, 0.0, atol=CLOSED)
    assert_allclose(constraints.K @ qd0, 0.0, atol=CLOSED)


@EVERY
def test_mechanism_mobility_is_degrees_of_freedom_minus_independent_constraints(name):
    (model, q0, qd0), mobility = MECHANISMS[name]
    assert model.nv - np.linalg.matrix_rank(loop_constraints(model, q0, qd0).K, 1e-9) == mobility
    assert model.nv - closed_loop_dynamics(model, q0, qd0, np.zeros(model.nv)).rank == mobility


@PLANAR
def test_spatial_and_planar_models_of_a_mechanism_have_the_same_accelerations(name):
    planar, _ = MECHANISMS[name]
    spatial, rng = spatial_mechanism(planar), np.random.default_rng(3)
    tau, q = rng.uniform(-5, 5, planar.model.nv), planar.q0
    qd = rng.uniform(-1, 1, planar.model.nv)
    K = loop_constraints(planar.model, q, qd).K
    qd -= np.linalg.lstsq(K, K @ qd)[0]
    assert spatial.model.nc == planar.model.nc + 3 * len(planar.model.loops)
    assert_allclose(crba(spatial.model, q), crba(planar.model, q), rtol=SAME, atol=1e-15)
    a, b = (closed_loop_dynamics(m, q, qd, tau) for m in (planar.model, spatial.model))
    assert_allclose(b.qdd, a.qdd, rtol=SAME, atol=SAME * np.abs(a.qdd).max())
    assert a.rank == b.rank


@pytest.mark.parametrize("up", [True, False])
def test_up_argument_of_the_four_bar_function_selects_the_assembly_branch(up):
    model, q0, _ = four_bar(up=up)
    X0 = body_poses(model, q0)
    tip, support = X0[1].r, np.array([1.2, 0.0])
    pin = (model.loops[0].Xs @ X0[2]).r
    a, b = support - tip, pin - tip
    assert (a[0] * b[1] - a[1] * b[0] > 0) == up


@pytest.mark.parametrize("n", [1, 2, 7])
@pytest.mark.parametrize("angle", [0.0, 0.8, 2.9])
def test_chain_of_four_bars_has_the_acceleration_of_one_pendulum(n, angle):
    model, q, qd = n_four_bar(n, angle, 1.3)
    motion = closed_loop_dynamics(model, q, qd, np.zeros(model.nv))
    thdd = 9.81 * ((n + 1) / 2 + n) * np.sin(angle) / ((n + 1) / 3 + n)
    bars = np.where(np.arange(2 * n + 1) % 2, 1.0, -1.0)
    assert_allclose(motion.qdd, bars * thdd, rtol=SAME, atol=1e-13 * n)


def test_five_bar_initial_state_and_energy_match_spencer_2004():
    model, q, qd = five_bar()
    a = np.arccos(2 / 3)
    assert_allclose(
        [q[0], q[0] + q[1], q[2] + q[3] - np.pi, q[2] - np.pi],
        [2 * np.pi / 3, a, -a, -2 * np.pi / 3],
    )
    assert_allclose(
        energy(model, q, qd), 9.81 * (np.sin(np.pi / 3) * 8 + 3 * 1.5 * np.sin(a)), rtol=1e-15
    )
    flat = five_bar(np.pi, 0.0)
    motion = closed_loop_dynamics(flat.model, flat.q0, flat.qd0, np.zeros(4))
    assert motion.rank == 1
    assert_allclose(
        motion.qdd[[0, 2]], [8.2415, -8.2415], atol=5e-5
    )  # Spencer 2004, 3.2, recomputed
    assert_allclose(motion.qdd[0] + motion.qdd[1], -0.9571, atol=5e-5)


@pytest.mark.parametrize("y1", [0.5, 2.0, -1.2])
def test_accelerations_of_the_actuator_triangle_match_the_closed_form_of_rbda(y1):
    l1, l2, yd = 0.8, 0.5, np.array([0.7, -1.1])
    model, q, _ = actuator_triangle(l1, l2, y1, 0.3)
    c, s, d = np.cos(y1), np.sin(y1), np.sqrt(l1**2 + l2**2 - 2 * l1 * l2 * np.cos(y1))
    assert_allclose(q, [y1, np.arctan2(l2 * s, l2 * c - l1), d, 0.3], rtol=1e-14)
    u1, u2 = (l2**2 - l1 * l2 * c) / d**2, l1 * l2 * s / d
    u3 = (l1**2 - l2**2) * l1 * l2 * s / d**4 * yd[0] ** 2
    u4 = (l1 * l2 * c - u2**2) / d * yd[0] ** 2
    G, g = np.array([[1, 0], [u1, 0], [u2, 0], [0, 1]]), np.array([0, u3, u4, 0])
    constraints = loop_constraints(model, q, G @ yd)
    assert_allclose(constraints.K @ G, 0.0, atol=CLOSED)
    assert_allclose(constraints.K @ g, constraints.k, atol=CLOSED)
    tau = np.array([3.0, -1.0, 20.0, 2.0])
    expected = reduced_acceleration(model, q, G @ yd, tau, G, g)
    assert_allclose(closed_loop_dynamics(model, q, G @ yd, tau).qdd, expected, rtol=SAME)


@pytest.mark.parametrize("angle", [0.3, 1.8, 4.0])
def test_slider_crank_positions_and_velocities_match_the_closed_form(angle):
    # x = r cos a + sqrt(l^2 - r^2 sin^2 a), and its first derivative
    r, l, w = 0.3, 1.0, 2.0
    model, q, _ = slider_crank(r, l, angle=angle)
    root = np.sqrt(l**2 - (r * np.sin(angle)) ** 2)
    rod, x = (
        -r * np.cos(angle) / root - 1,
        -r * np.sin(angle) - r**2 * np.sin(angle) * np.cos(angle) / root,
    )
    assert_allclose(q[2], r * np.cos(angle) + root, rtol=1e-15)
    constraints = loop_constraints(model, q, w * np.array([1, rod, x]))
    assert_allclose(constraints.K @ [1, rod, x], 0.0, atol=CLOSED)


def test_leg_forces_of_the_stewart_platform_satisfy_newtons_law():
    # Newton's law: the sum of the leg forces is m (a - g)
    model, q, qd = stewart_platform(position=(0.1, 0.05))
    motion = closed_loop_dynamics(model, q, qd, np.zeros(model.nv))
    X0 = body_poses(model, q)
    force = np.zeros(3)
    for rows, loop in zip(model.constraint_slices, model.loops, strict=True):
        X = loop.Xs @ X0[0]
        T = loop.joint.constraint(X @ (loop.Xp @ X0[loop.predecessor]).inverse(), np.zeros(6)).T
        force += X.E.T @ (T @ motion.lam[rows])[3:]
    free_fall = X0[0].E.T @ motion.qdd[3:6] - model.gravity
    assert_allclose(force, 10.0 * free_fall, rtol=SAME, atol=1e-10)


IN_SPACE = [
    pytest.param(make, marks=pytest.mark.slow) for make in (sarrus, bennett)
]  # these mechanisms have long compile times


@pytest.mark.slow
@pytest.mark.parametrize("make", [four_bar, slider_crank, actuator_triangle, *IN_SPACE])
def test_energy_of_mechanisms_is_conserved(make):
    _, y = plant_run(make(), 1.0, 1e-3, 1e-2)
    assert np.abs(y["qd"]).max() > 0.3
    assert np.ptp(y["energy"]) < 1e-6 * np.abs(y["energy"]).max() + 1e-6
    assert y["loop_error"].max() < 1e-11


@pytest.mark.slow
@pytest.mark.parametrize(("n", "h"), [(2, 1e-3), (40, 1e-3)])
def test_motion_of_a_chain_of_four_bars_matches_one_pendulum_for_ten_seconds(n, h):
    # the chain passes through the singular collinear configuration about twelve times, where
    # rounding errors grow: the error of 40 windows is 4e-6 with steps of 1 ms, 2e-5 with 2 ms
    t, y = plant_run(n_four_bar(n), 10.0, h, 1e-2)
    rate = 9.81 * ((n + 1) / 2 + n) / ((n + 1) / 3 + n)
    th = solve_ivp(
        lambda _, y: [y[1], rate * np.sin(y[0])],
        (0, t[-1]),
        [0.0, 1.0],
        "DOP853",
        rtol=1e-13,
        atol=1e-13,
    ).y[0, -1]
    assert th > 30
    q = y["q"][-1]
    assert_allclose([np.cos(q[0]), np.sin(q[0])], [np.sin(th), np.cos(th)], atol=1e-5)
    assert y["loop_error"].max() < 1e-10


def test_mechanism_with_dimensions_that_cannot_be_closed_is_rejected():
    refused = [
        (
            lambda: four_bar(0.1, 0.2, 0.3, 5.0),
            r"bars of 0\.2 m and 0\.3 m cannot meet: their ends are .* m apart",
        ),
        (lambda: n_four_bar(0), "at least 1 window, not 0"),
        (
            lambda: slider_crank(1.0, 0.5, angle=1.5),
            r"a rod of 0\.5 m from y = 0\.99\d+ m does not reach",
        ),
        (
            lambda: bennett(alpha=1.0, beta=1.0),
            "two different nonzero twists and a nonzero angle, not alpha = 1.0",
        ),
    ]
    for make, message in refused:
        with pytest.raises(ValueError, match=message):
            make()
    with pytest.raises(TypeError, match="'bennett' is a Model; it must be a PlanarModel"):
        spatial_mechanism(bennett())
