"""Planar models move as the same spatial mechanisms do (spatial_v1's test_p), and refuse what is none."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from planar_models import PLANE, embedded, lifted, random_planar_state, random_planar_tree
from rigidblocks import RobotPlant, System, planar, simulate, spatial
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
from rigidblocks.dynamics.motion import body_velocities
from rigidblocks.joint import Joint, JointMotion, RackAndPinion, Revolute
from rigidblocks.planar import RigidInertia, Transform, crm, identity, mcI, xlt, xpln
from rigidblocks.planar_model import PlanarModel, PlanarPrismatic, PlanarRevolute, planar_joint_from_code
from rigidblocks.robots import auto_tree, auto_tree_p, planar_n
from rigidblocks.trace import trace

TIGHT = 1e-12  # one product
DYNAMICS = 1e-11  # relative to the largest value: roundings of a few hundred operations; times cond(H) where H is inverted
FINITE = 1e-7  # central differences with a step of 1e-6: the square root of a rounding at best


def equal(actual, expected, atol=TIGHT):
    assert_allclose(actual, expected, rtol=1e-12, atol=atol)


# joints: jcalcp


def test_planar_joints_have_the_codes_of_spatial_v1():
    assert planar_joint_from_code(1) == PlanarRevolute()
    assert planar_joint_from_code(2) == PlanarPrismatic("x")
    assert planar_joint_from_code(3) == PlanarPrismatic("y")
    with pytest.raises(ValueError, match=r"the code 1 \(revolute\), 2 \(prismatic along x\) or 3 \(along y\), not 4"):
        planar_joint_from_code(4)


def test_planar_joint_transforms_and_subspaces_are_those_of_jcalcp():
    q, qd = np.array([0.7]), np.array([2.0])
    expected = {1: xpln(0.7, [0, 0]), 2: xpln(0, [0.7, 0]), 3: xpln(0, [0, 0.7])}
    for code, X in expected.items():
        motion = planar_joint_from_code(code).jcalc(q, qd)
        equal(motion.XJ.matrix(), X.matrix(), 0)
        equal(motion.S, np.eye(3)[:, [code - 1]], 0)
        equal(motion.vJ, motion.S @ qd, 0)
        equal(motion.cJ, np.zeros(3), 0)


@pytest.mark.parametrize("code", [1, 2, 3])
def test_planar_joint_velocity_is_the_rate_of_its_transform(code):
    # d(XJ)/dt = -vJ x XJ (RBDA Eq 2.45)
    joint, q, qd, step = planar_joint_from_code(code), np.array([0.4]), np.array([1.3]), 1e-6
    ahead, behind = (joint.jcalc(q + sign * step * qd, qd).XJ.matrix() for sign in (1, -1))
    XJ, _, vJ, _ = joint.jcalc(q, qd)
    assert_allclose((ahead - behind) / (2 * step), -crm(vJ) @ XJ.matrix(), atol=FINITE)


# spatial_v1's test_p: the algorithms on planar models


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
    assert_allclose(forward_dynamics_crba(planar_tree, q, qd, tau, f_ext), qdd, rtol=0, atol=rtol * np.abs(qdd).max())
    assert_allclose(H @ qdd + C, tau, rtol=0, atol=DYNAMICS * np.abs(tau).max())


def test_planar_model_has_the_equation_of_motion_of_the_spatial_one(planar_tree, rng):
    # HandCp against HandC, and the rest with them
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


@given(st.integers(0, 10_000), st.integers(1, 8))
def test_random_planar_trees_move_as_the_spatial_ones(seed, nb):
    rng = np.random.default_rng(seed)
    tree = random_planar_tree(rng, tuple(int(rng.integers(-1, i)) for i in range(nb)))
    q, qd, qdd, tau, f_ext = random_planar_state(rng, tree)
    full, f6 = embedded(tree), np.array([lifted(f) for f in f_ext])
    force = rnea(full, q, qd, qdd, f6)
    assert_allclose(rnea(tree, q, qd, qdd, f_ext), force, rtol=0, atol=DYNAMICS * np.abs(force).max())
    a = aba(full, q, qd, tau, f6)
    assert_allclose(aba(tree, q, qd, tau, f_ext), a, rtol=0, atol=DYNAMICS * np.linalg.cond(crba(full, q)) * np.abs(a).max())


def test_planar_hybrid_dynamics_is_between_forward_and_inverse(planar_tree, rng):
    q, qd, qdd, _, f_ext = random_planar_state(rng, planar_tree)
    tau = rnea(planar_tree, q, qd, qdd, f_ext)
    fd = np.arange(planar_tree.nb) % 2 == 0
    found = hybrid_dynamics(planar_tree, fd, q, qd, np.where(fd, 0, qdd), np.where(fd, tau, 0), f_ext)
    rtol = DYNAMICS * np.linalg.cond(crba(planar_tree, q))
    assert_allclose(found.qdd, qdd, rtol=0, atol=rtol * np.abs(qdd).max())
    assert_allclose(found.tau, tau, rtol=0, atol=rtol * np.abs(tau).max())


def test_planar_inertia_times_a_vector_is_the_product(planar_tree, rng):
    q, _, qdd, _, _ = random_planar_state(rng, planar_tree)
    product = crba(planar_tree, q) @ qdd
    assert_allclose(inertia_times(planar_tree, q, qdd), product, rtol=0, atol=DYNAMICS * np.abs(product).max())


def test_planar_velocities_of_the_bodies_are_the_spatial_ones(planar_tree, rng):
    q, qd, _, _, _ = random_planar_state(rng, planar_tree)
    energies = [v @ (I @ v) / 2 for v, I in zip(body_velocities(planar_tree, q, qd), planar_tree.inertia, strict=True)]
    assert_allclose(sum(energies), kinetic_energy(embedded(planar_tree), q, qd), rtol=DYNAMICS)


def test_planar_power_equals_energy_rate(planar_tree, rng):
    q, qd, _, tau, _ = random_planar_state(rng, planar_tree)
    qdd, step = aba(planar_tree, q, qd, tau), 1e-6
    ahead, behind = (energy(planar_tree, q + s * qd, qd + s * qdd) for s in (step, -step))
    power = tau @ qd
    assert_allclose((ahead - behind) / (2 * step), power, rtol=FINITE, atol=FINITE * abs(energy(planar_tree, q, qd)) * 10)


def test_free_body_in_the_plane_falls_and_turns_by_newton_and_euler():
    # two slides, a turn, and one body behind them: x, y and theta of its centre of mass
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


def test_planar_n_is_the_same_robot_in_planar_vectors(rng):
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


def test_planar_gravity_is_none_unless_given_and_overridden_by_the_argument(rng):
    tree = auto_tree_p(3)
    q, qd = rng.uniform(-1, 1, (2, 3))
    assert tree.gravity.tolist() == [0, 0]
    g = np.array([0.5, -9.81])
    assert_allclose(bias_force(tree, q, qd, gravity=g), bias_force(tree.with_gravity(g), q, qd))
    assert np.abs(bias_force(tree, q, qd, gravity=g) - bias_force(tree, q, qd)).max() > 1


# tracing


def traced(model, algorithm):
    n = model.nv
    functions = {
        "rnea": (lambda q, qd, qdd: {"tau": rnea(model, q, qd, qdd)}, {"q": (n,), "qd": (n,), "qdd": (n,)}),
        "crba": (lambda q: {"H": crba(model, q)}, {"q": (n,)}),
        "aba": (lambda q, qd, tau: {"qdd": aba(model, q, qd, tau)}, {"q": (n,), "qd": (n,), "tau": (n,)}),
    }
    return trace(algorithm, *functions[algorithm])


@pytest.mark.parametrize("algorithm", ["rnea", "crba", "aba"])
def test_traced_planar_algorithms_give_the_values_of_numpy(planar_tree, algorithm, rng):
    q, qd, qdd, tau, _ = random_planar_state(rng, planar_tree)
    arguments = {"rnea": (q, qd, qdd), "crba": (q,), "aba": (q, qd, tau)}[algorithm]
    expected = {"rnea": rnea, "crba": crba, "aba": aba}[algorithm](planar_tree, *arguments).ravel()
    actual = traced(planar_tree, algorithm)(np.concatenate(arguments))
    scale = np.linalg.cond(crba(planar_tree, q)) * np.abs(expected).max()
    assert_allclose(actual, expected, rtol=0, atol=DYNAMICS * scale)


@pytest.mark.parametrize("algorithm", ["rnea", "crba", "aba"])
@pytest.mark.parametrize("n", [2, 7])
def test_planar_vectors_take_no_more_operations_than_spatial_ones(algorithm, n):
    # the same chain with general mass centres, so that no zero of the model favours either
    rng = np.random.default_rng(n)
    chain = random_planar_tree(rng, tuple(range(-1, n - 1)), (PlanarRevolute(),) * n)
    assert traced(chain, algorithm).operation_count <= traced(embedded(chain), algorithm).operation_count


def test_planar_robot_is_a_block_that_moves_as_the_spatial_one():
    # in NumPy and compiled, with external wrenches and the tunable gravity of two components
    tree = random_planar_tree(np.random.default_rng(3), (-1, 0, 0))
    start = {"q0": [0.1, -0.2, 0.3], "external_wrenches": True}
    plants = RobotPlant(tree, **start), RobotPlant(embedded(tree), **start)
    assert [plant.parameters[0].shape for plant in plants] == [(2,), (3,)]
    assert [plant.inputs[1].shape for plant in plants] == [(3, 3), (3, 6)]
    ends = []
    for plant, form in ((plants[0], "numpy"), (plants[0], "compiled"), (plants[1], "numpy")):
        system = System()
        system.add("robot", plant)
        ends.append(simulate(system, 0.05, 1e-3, form=form, progress=False)["robot.q"][-1])
    assert_allclose(ends[1], ends[0], rtol=1e-9)
    assert_allclose(ends[2], ends[0], rtol=1e-9)


# models


def test_auto_tree_p_is_the_tree_without_skew(rng):
    # RBDA 2.16: the planar quantities are the rows and columns 3, 4, 5
    for nb, bf, taper in ((1, 1.0, 1.0), (6, 2.0, 0.9), (9, 1.5, 1.1)):
        tree, full = auto_tree_p(nb, bf, taper), auto_tree(nb, bf, 0.0, taper)
        assert tree.parent == full.parent
        assert tree.joint == (PlanarRevolute(),) * nb
        for i in range(nb):
            equal(tree.Xtree[i].matrix(), full.Xtree[i].matrix()[PLANE], 0)
            equal(tree.inertia[i].matrix(), full.inertia[i].matrix()[PLANE], 0)
        q, qd, qdd = rng.uniform(-1, 1, (3, nb))
        assert_allclose(rnea(tree, q, qd, qdd), rnea(full, q, qd, qdd), rtol=1e-9, atol=1e-12)


def test_auto_tree_p_has_the_documented_sizes():
    taper = 0.8
    tree = auto_tree_p(5, 2, taper)
    for i, body in enumerate(tree.inertia):
        l, m = taper**i, taper ** (3 * i)
        equal(body.m, m, TIGHT)
        equal(body.h, [m * l / 2, 0], TIGHT)
        equal(body.I, m * ((l / 20) ** 2 / 2 + l**2 / 12 + l**2 / 4), TIGHT)
        equal(tree.Xtree[i].r, [taper ** tree.parent[i] if i else 0, 0], TIGHT)
    assert auto_tree_p(8).parent == tuple(range(-1, 7))
    assert auto_tree_p(8, 1.5).parent == (-1, 0, 1, 1, 2, 3, 3, 4)
    with pytest.raises(ValueError, match="a tree needs bf >= 1"):
        auto_tree_p(3, 0.5)


BODY = mcI(1.0, [0.5, 0.0], 0.1)


def planar_model(**changes):
    parts = {"parent": [-1], "joint": [PlanarRevolute()], "Xtree": [identity()], "inertia": [BODY]}
    return PlanarModel("flat", **{**parts, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parent": [0]}, "body 0 of model 'flat' has parent 0; a parent must be numbered below its child"),
        ({"joint": []}, "model 'flat' needs one entry a body in every list"),
        ({"gravity": [0, 0, -9.81]}, r"gravity needs 2 components in m/s\^2, not shape \(3,\)"),
        ({"gravity": [0, np.nan]}, "gravity must be finite"),
        ({"joint": [Revolute()]}, r"joint\[0\] of planar model 'flat' .*, not a rigidblocks.*Revolute"),
        ({"Xtree": [spatial.identity()]}, r"Xtree\[0\] .*, not a rigidblocks.spatial.Transform"),
        ({"inertia": [spatial.mcI(1, [0, 0, 0], np.eye(3))]}, r"inertia\[0\] .*, not a rigidblocks.spatial.RigidInertia"),
        ({"Xtree": [Transform(np.diag([1.0, -1.0]), np.zeros(2))]}, r"Xtree\[0\] \(joint1\) .* has no rotation"),
        ({"Xtree": [xlt([np.inf, 0])]}, r"Xtree\[0\] \(joint1\) .* is not finite"),
        ({"inertia": [mcI(0.0, [0, 0], 1.0)]}, "has mass 0.0 kg; a mass must be positive"),
        ({"inertia": [mcI(1.0, [0, 0], np.nan)]}, "is not finite"),
        ({"massless": ["body1"]}, "declared massless; it has m = 1.0"),
        ({"massless": ["hand"]}, "model 'flat' has no body hand to be massless"),
        ({"massless": ["body1"], "inertia": [mcI(0.0, [0, 0], 0.0)]}, "joint1 of model 'flat' moves no mass"),
        ({"inertia": [RigidInertia(1.0, np.array([1.0, 0.0]), 0.5)]}, "has the rotational inertia -0.5 kg"),
    ],
)
def test_planar_model_refuses_what_is_no_planar_mechanism(changes, message):
    with pytest.raises(ValueError, match=message):
        planar_model(**changes)


def test_planar_prismatic_joint_refuses_other_axes():
    with pytest.raises(ValueError, match="slides along 'x' or 'y', not along 'z'"):
        PlanarPrismatic("z")


@dataclass(frozen=True)
class RollingPinion(Joint):
    """A pinion of radius `r` [m] that rolls along the x axis of the predecessor frame (RBDA Ex 4.6), in planar vectors."""

    r: float = 0.2
    nq = nv = 1
    q_units, qd_units, tau_units = ("rad",), ("rad/s",), ("N.m",)

    def jcalc(self, q, qd):
        c, s = np.cos(q[0]), np.sin(q[0])
        S = np.array([[1.0, self.r * c, -self.r * s]]).T
        cJ = np.array([0.0, -self.r * s, -self.r * c]) * qd[0] ** 2
        return JointMotion(xpln(q[0], [self.r * q[0], 0.0]), S, S @ qd, cJ)


def test_joint_of_ones_own_with_a_planar_transform_is_one(rng):
    # with the spatial joint as its oracle; its S changes with q, so it has a bias acceleration
    parts = ((-1, 0), (RollingPinion(), PlanarRevolute()), (identity(), xlt([0.3, 0.1])), (BODY, mcI(0.7, [0.1, 0.2], 0.2)))
    tree = PlanarModel("rolling", *parts, gravity=np.array([0.5, -9.81]))
    still = PlanarModel("rolling", parts[0], (PlanarRevolute(),) * 2, *parts[2:], gravity=tree.gravity)
    full = replace(embedded(still), joint=(RackAndPinion(0.2), Revolute()))
    q, qd, tau = rng.uniform(-1, 1, (3, 2))
    assert_allclose(aba(tree, q, qd, tau), aba(full, q, qd, tau), rtol=DYNAMICS)
    assert_allclose(crba(tree, q), crba(full, q), rtol=DYNAMICS)
    assert_allclose(bias_force(tree, q, qd), bias_force(full, q, qd), rtol=DYNAMICS)


def test_planar_model_numbers_its_bodies_and_variables():
    tree = auto_tree_p(3)
    assert (tree.nb, tree.nq, tree.nv) == (3, 3, 3)
    assert tree.body_names == ("body1", "body2", "body3")
    assert tree.q_slices[1] == tree.v_slices[1] == slice(1, 2)
    assert tree.algebra is planar
