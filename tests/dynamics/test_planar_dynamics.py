"""Planar models compared with equivalent spatial models (spatial_v1's test_p)."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from planar_models import embedded, lifted, random_planar_state, random_planar_tree
from rigidblocks.dynamics import (
    aba,
    bias_force,
    crba,
    energy,
    forward_dynamics_crba,
    hybrid_dynamics,
    inertia_times,
    kinetic_energy,
    potential_energy,
    rnea,
)
from rigidblocks.dynamics.kinematics import body_velocities
from rigidblocks.robot.joints import (
    Joint,
    JointMotion,
    PlanarPrismatic,
    PlanarRevolute,
    RackAndPinion,
    Revolute,
)
from rigidblocks.robot.model import PlanarModel
from rigidblocks.robot.robots import auto_tree_p, planar_n
from rigidblocks.spatial.planar import RigidInertia, identity, mcI, xlt, xpln
from rigidblocks.tracing.trace import trace

# relative to the largest value: rounding errors of a few hundred operations; times cond(H) for
# solutions with H
DYNAMICS = 1e-11
FINITE = 1e-7  # central differences with step 1e-6: rounding errors divided by the step


@pytest.fixture(params=["chain", "tree", "mixed"])
def planar_tree(request):
    rng = np.random.default_rng(16)
    return {
        "chain": lambda: auto_tree_p(5).with_gravity([1.5, -9.6]),
        "tree": lambda: auto_tree_p(8, 1.5, 0.9).with_gravity([1.5, -9.6]),
        "mixed": lambda: random_planar_tree(rng, (-1, 0, 0, 1, -1, 4, 2)),
    }[request.param]()


def test_planar_forward_dynamics_inverts_inverse_dynamics(planar_tree, rng):
    # spatial_v1's test_p: FDabp and FDcrbp against IDp
    q, qd, qdd, _, f_ext = random_planar_state(rng, planar_tree)
    tau = rnea(planar_tree, q, qd, qdd, f_ext)
    H, C = crba(planar_tree, q), bias_force(planar_tree, q, qd, f_ext)
    rtol = DYNAMICS * np.linalg.cond(H)
    assert_allclose(aba(planar_tree, q, qd, tau, f_ext), qdd, rtol=0, atol=rtol * np.abs(qdd).max())
    assert_allclose(
        forward_dynamics_crba(planar_tree, q, qd, tau, f_ext),
        qdd,
        rtol=0,
        atol=rtol * np.abs(qdd).max(),
    )
    assert_allclose(H @ qdd + C, tau, rtol=0, atol=DYNAMICS * np.abs(tau).max())


def test_planar_and_spatial_models_have_the_same_equation_of_motion(planar_tree, rng):
    # spatial_v1's HandCp against HandC, and the other algorithms
    q, qd, qdd, tau, f_ext = random_planar_state(rng, planar_tree)
    full, f6 = embedded(planar_tree), np.array([lifted(f) for f in f_ext])
    H = crba(full, q)
    cond = np.linalg.cond(H)
    for ours, spatials, scale in (
        (crba(planar_tree, q), H, 1),
        (bias_force(planar_tree, q, qd, f_ext), bias_force(full, q, qd, f6), 1),
        (rnea(planar_tree, q, qd, qdd, f_ext), rnea(full, q, qd, qdd, f6), 1),
        (aba(planar_tree, q, qd, tau, f_ext), aba(full, q, qd, tau, f6), cond),
        (kinetic_energy(planar_tree, q, qd), kinetic_energy(full, q, qd), 1),
        (potential_energy(planar_tree, q), potential_energy(full, q), 1),
    ):
        assert_allclose(ours, spatials, rtol=0, atol=DYNAMICS * scale * np.abs(spatials).max())


@pytest.mark.slow
@given(st.integers(0, 10_000), st.integers(1, 8))
def test_random_planar_and_spatial_trees_have_the_same_dynamics(seed, nb):
    rng = np.random.default_rng(seed)
    tree = random_planar_tree(rng, tuple(int(rng.integers(-1, i)) for i in range(nb)))
    q, qd, qdd, tau, f_ext = random_planar_state(rng, tree)
    full, f6 = embedded(tree), np.array([lifted(f) for f in f_ext])
    force = rnea(full, q, qd, qdd, f6)
    assert_allclose(
        rnea(tree, q, qd, qdd, f_ext), force, rtol=0, atol=DYNAMICS * np.abs(force).max()
    )
    a = aba(full, q, qd, tau, f6)
    assert_allclose(
        aba(tree, q, qd, tau, f_ext),
        a,
        rtol=0,
        atol=DYNAMICS * np.linalg.cond(crba(full, q)) * np.abs(a).max(),
    )


def test_planar_hybrid_dynamics_recovers_the_missing_accelerations_and_forces(planar_tree, rng):
    q, qd, qdd, _, f_ext = random_planar_state(rng, planar_tree)
    tau = rnea(planar_tree, q, qd, qdd, f_ext)
    fd = np.arange(planar_tree.nb) % 2 == 0
    found = hybrid_dynamics(
        planar_tree, fd, q, qd, np.where(fd, 0, qdd), np.where(fd, tau, 0), f_ext
    )
    rtol = DYNAMICS * np.linalg.cond(crba(planar_tree, q))
    assert_allclose(found.qdd, qdd, rtol=0, atol=rtol * np.abs(qdd).max())
    assert_allclose(found.tau, tau, rtol=0, atol=rtol * np.abs(tau).max())


def test_product_of_planar_inertia_and_vector_equals_the_matrix_vector_product(planar_tree, rng):
    q, _, qdd, _, _ = random_planar_state(rng, planar_tree)
    product = crba(planar_tree, q) @ qdd
    assert_allclose(
        inertia_times(planar_tree, q, qdd), product, rtol=0, atol=DYNAMICS * np.abs(product).max()
    )


def test_planar_body_velocities_give_the_spatial_kinetic_energy(planar_tree, rng):
    q, qd, _, _, _ = random_planar_state(rng, planar_tree)
    energies = [
        v @ (I @ v) / 2
        for v, I in zip(body_velocities(planar_tree, q, qd), planar_tree.inertia, strict=True)
    ]
    assert_allclose(sum(energies), kinetic_energy(embedded(planar_tree), q, qd), rtol=DYNAMICS)


def test_power_of_planar_joint_forces_equals_the_time_derivative_of_the_total_energy(
    planar_tree, rng
):
    q, qd, _, tau, _ = random_planar_state(rng, planar_tree)
    qdd, step = aba(planar_tree, q, qd, tau), 1e-6
    ahead, behind = (energy(planar_tree, q + s * qd, qd + s * qdd) for s in (step, -step))
    power = tau @ qd
    assert_allclose(
        (ahead - behind) / (2 * step),
        power,
        rtol=FINITE,
        atol=FINITE * abs(energy(planar_tree, q, qd)) * 10,
    )


def test_free_planar_body_satisfies_the_newton_euler_equations():
    # two prismatic joints, a revolute joint and one body: q is x, y and theta of its centre of mass
    m, I_C, g = 2.0, 0.3, np.array([0.0, -9.81])
    nothing = RigidInertia(0.0, np.zeros(2), 0.0)
    body = PlanarModel(
        name="free body",
        parent=(-1, 0, 1),
        joint=(PlanarPrismatic("x"), PlanarPrismatic("y"), PlanarRevolute()),
        Xtree=(identity(),) * 3,
        inertia=(nothing, nothing, mcI(m, [0, 0], I_C)),
        gravity=g,
        massless=("body1", "body2"),
    )
    q, qd, tau = np.array([0.4, -1.0, 0.7]), np.array([1.0, 2.0, 3.0]), np.array([0.5, -0.2, 0.1])
    expected = [*(tau[:2] / m + g), tau[2] / I_C]
    assert_allclose(aba(body, q, qd, tau), expected, rtol=DYNAMICS)
    assert_allclose(crba(body, q), np.diag([m, m, I_C]), rtol=0, atol=DYNAMICS)


def test_planar_and_spatial_models_of_a_three_link_arm_have_equal_accelerations(rng):
    robot = planar_n(3)
    flat = PlanarModel(
        "planar3p",
        robot.parent,
        (PlanarRevolute(),) * 3,
        [xlt(X.r[:2]) for X in robot.Xtree],
        [mcI(1, [0.5, 0], 1 / 12)] * 3,
    )
    q, qd, tau = rng.uniform(-1, 1, (3, 3))
    assert_allclose(aba(flat, q, qd, tau), aba(robot, q, qd, tau), rtol=1e-10)


def test_planar_model_has_zero_gravity_unless_the_gravity_argument_is_given(rng):
    tree = auto_tree_p(3)
    q, qd = rng.uniform(-1, 1, (2, 3))
    assert tree.gravity.tolist() == [0, 0]
    g = np.array([0.5, -9.81])
    assert_allclose(bias_force(tree, q, qd, gravity=g), bias_force(tree.with_gravity(g), q, qd))
    assert np.abs(bias_force(tree, q, qd, gravity=g) - bias_force(tree, q, qd)).max() > 1


# tracing


def trace_algorithm(model, algorithm):
    n = model.nv
    functions = {
        "rnea": (
            lambda q, qd, qdd: {"tau": rnea(model, q, qd, qdd)},
            {"q": (n,), "qd": (n,), "qdd": (n,)},
        ),
        "crba": (lambda q: {"H": crba(model, q)}, {"q": (n,)}),
        "aba": (
            lambda q, qd, tau: {"qdd": aba(model, q, qd, tau)},
            {"q": (n,), "qd": (n,), "tau": (n,)},
        ),
    }
    return trace(algorithm, *functions[algorithm])


@pytest.mark.parametrize("algorithm", ["rnea", "crba", "aba"])
def test_traced_and_numpy_results_of_planar_algorithms_agree(planar_tree, algorithm, rng):
    q, qd, qdd, tau, _ = random_planar_state(rng, planar_tree)
    arguments = {"rnea": (q, qd, qdd), "crba": (q,), "aba": (q, qd, tau)}[algorithm]
    expected = {"rnea": rnea, "crba": crba, "aba": aba}[algorithm](planar_tree, *arguments).ravel()
    actual = trace_algorithm(planar_tree, algorithm)(np.concatenate(arguments))
    scale = np.linalg.cond(crba(planar_tree, q)) * np.abs(expected).max()
    assert_allclose(actual, expected, rtol=0, atol=DYNAMICS * scale)


@pytest.mark.parametrize("algorithm", ["rnea", "crba", "aba"])
@pytest.mark.parametrize("n", [2, 7])
def test_planar_algorithms_need_no_more_operations_than_spatial_algorithms(algorithm, n):
    # general centres of mass, so that zeros in the model favour neither form
    rng = np.random.default_rng(n)
    chain = random_planar_tree(rng, tuple(range(-1, n - 1)), (PlanarRevolute(),) * n)
    assert (
        trace_algorithm(chain, algorithm).operation_count
        <= trace_algorithm(embedded(chain), algorithm).operation_count
    )


# user-defined joint


@dataclass(frozen=True)
class RollingPinion(Joint):
    """Rack and pinion of radius `r` [m] in planar vectors (RBDA Ex 4.6).

    The pinion rolls along the x axis of the predecessor frame.
    """

    r: float = 0.2
    nq = nv = 1
    q_units, qd_units, tau_units = ("rad",), ("rad/s",), ("N.m",)

    def jcalc(self, q, qd):
        c, s = np.cos(q[0]), np.sin(q[0])
        S = np.array([[1.0, self.r * c, -self.r * s]]).T
        cJ = np.array([0.0, -self.r * s, -self.r * c]) * qd[0] ** 2
        return JointMotion(xpln(q[0], [self.r * q[0], 0.0]), S, S @ qd, cJ)


def test_user_defined_planar_joint_moves_like_its_spatial_counterpart(rng):
    # the spatial joint is the reference; S depends on q, so the joint has a bias acceleration
    parts = (
        (-1, 0),
        (RollingPinion(), PlanarRevolute()),
        (identity(), xlt([0.3, 0.1])),
        (mcI(1.0, [0.5, 0.0], 0.1), mcI(0.7, [0.1, 0.2], 0.2)),
    )
    tree = PlanarModel("rolling", *parts, gravity=np.array([0.5, -9.81]))
    still = PlanarModel(
        "rolling", parts[0], (PlanarRevolute(),) * 2, *parts[2:], gravity=tree.gravity
    )
    full = replace(embedded(still), joint=(RackAndPinion(0.2), Revolute()))
    q, qd, tau = rng.uniform(-1, 1, (3, 2))
    assert_allclose(aba(tree, q, qd, tau), aba(full, q, qd, tau), rtol=DYNAMICS)
    assert_allclose(crba(tree, q), crba(full, q), rtol=DYNAMICS)
    assert_allclose(bias_force(tree, q, qd), bias_force(full, q, qd), rtol=DYNAMICS)
