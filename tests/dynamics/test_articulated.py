"""Articulated-body inertias by assembly and by projection (RBDA 7.1, 7.2, 7.4, 7.5)."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import null_space

from random_models import MODELS, random_inertia, random_state, random_transform, random_tree
from rigidblocks.algebra.spatial import crf, mcI
from rigidblocks.dynamics import (
    Handle,
    HandleJoint,
    InverseHandle,
    TwoHandles,
    aba,
    aba_floating,
    articulated_inertias,
    assembled,
    assembled_by_constraint,
    assembled_handles,
    assembled_inverse,
    assembled_two_handles,
    body_accelerations,
    body_jacobian,
    body_poses,
    crba_floating,
    handle_equation,
    inverse_inertia,
    operational_inertia,
)
from rigidblocks.dynamics.sweeps import joint_kinematics
from rigidblocks.joint import SixDoF
from rigidblocks.robots import planar_n

RTOL = 1e-11  # a few solutions with matrices of condition 1e2 or less
SOLVE = 1e-13  # what solving with H loses, times its condition

S_OF = {
    "revolute": np.eye(6)[:, [2]],
    "two freedoms": np.eye(6)[:, [0, 4]],
    "planar": np.eye(6)[:, 2:5],
    "rack and pinion": np.array([[0.0, 0, 1, 0.3, -0.1, 0]]).T,
    "fixed": np.zeros((6, 0)),
    "free": np.eye(6),
}


def close(actual, expected, rtol=RTOL):
    assert_allclose(
        actual, expected, rtol=0, atol=rtol * max(1.0, np.max(np.abs(expected), initial=0))
    )


class Assembly:
    """Two rigid bodies that move and are pulled at, and a joint between them, in one coordinate
    system.
    """

    def __init__(self, rng, S):
        self.S = S
        self.T = null_space(S.T) if S.shape[1] else np.eye(6)
        self.Ta = S @ np.linalg.inv(S.T @ S)
        self.c, self.tau = rng.uniform(-1, 1, 6), rng.uniform(-1, 1, S.shape[1])
        self.handles = []
        for _ in range(2):
            I, v = (
                random_inertia(rng).to_parent(random_transform(rng)).matrix(),
                rng.uniform(-1, 1, 6),
            )
            self.handles.append(Handle(I, crf(v) @ I @ v - rng.uniform(-1, 1, 6)))

    def equations(self, f):
        """a1 and a2 from all equations at once, with the force f on the first handle."""
        (I1, p1), (I2, p2) = self.handles
        n = self.S.shape[1]
        K = np.zeros((18 + n, 18 + n))  # a1, a2, fJ, qdd
        K[:6, :6], K[:6, 12:18] = I1, np.eye(6)
        K[6:12, 6:12], K[6:12, 12:18] = I2, -np.eye(6)
        K[12:18, :6], K[12:18, 6:12], K[12:18, 18:] = -np.eye(6), np.eye(6), -self.S
        K[18:, 12:18] = self.S.T
        return np.linalg.solve(K, np.concatenate([f - p1, -p2, self.c, self.tau]))


def inverted(handle):
    Phi = np.linalg.inv(handle.I)
    return InverseHandle(Phi, -Phi @ handle.p)


@pytest.fixture(params=S_OF)
def assembly(request, rng):
    return Assembly(rng, S_OF[request.param])


def test_assembled_handle_accelerates_as_all_equations_together_say(assembly, rng):
    f = rng.uniform(-1, 1, 6)
    a1 = assembly.equations(f)[:6]
    handle = assembled(*assembly.handles, assembly.S, assembly.c, assembly.tau)
    close(handle.I @ a1 + handle.p, f)


def test_variants_of_assembly_agree(assembly):
    # RBDA Table 7.2: standard, variant 2, and the inverse of variant 1
    joint = (assembly.c, assembly.tau)
    standard = assembled(*assembly.handles, assembly.S, *joint)
    constraint = assembled_by_constraint(*assembly.handles, assembly.T, assembly.Ta, *joint)
    inverse = assembled_inverse(*map(inverted, assembly.handles), assembly.T, assembly.Ta, *joint)
    for one, other, third in zip(standard, constraint, inverted(standard), strict=True):
        close(other, one)
        close(inverse[0 if third.ndim == 2 else 1], third)


def test_assembly_across_no_freedom_adds_the_bodies(rng):
    rigid = Assembly(rng, S_OF["fixed"])
    (I1, p1), (I2, p2) = rigid.handles
    handle = assembled(*rigid.handles, rigid.S, np.zeros(6), rigid.tau)
    close(handle.I, I1 + I2)
    close(handle.p, p1 + p2)


def test_assembly_across_all_freedoms_adds_no_inertia(rng):
    free = Assembly(rng, S_OF["free"])
    close(assembled(*free.handles, free.S, free.c, free.tau).I, free.handles[0].I)


def test_box_and_cylinder_of_the_book():
    # RBDA Example 7.1: rotation about x and translation along y between them
    I1, I2, m1, m2 = 1.0, 2.0, 3.0, 4.0
    box, cylinder = (
        Handle(mcI(m, np.zeros(3), I * np.eye(3)).matrix(), np.zeros(6))
        for m, I in ((m1, I1), (m2, I2))
    )
    handle = assembled(box, cylinder, S_OF["two freedoms"], np.zeros(6), np.zeros(2))
    assert_allclose(handle.I, np.diag([1.0, 3, 3, 7, 3, 7]), atol=1e-15)


def test_inverse_assembly_needs_only_one_free_handle(rng):
    # the first body can only turn: its inverse inertia has rank 1, and its inertia does not exist
    case, s = Assembly(rng, S_OF["revolute"]), rng.uniform(-1, 1, (6, 1))
    (I1, p1), two = case.handles
    Phi1 = s @ np.linalg.inv(s.T @ I1 @ s) @ s.T
    one = InverseHandle(Phi1, -Phi1 @ p1)
    result = assembled_inverse(one, inverted(two), case.T, case.Ta, case.c, case.tau)
    assert np.linalg.matrix_rank(result.Phi, tol=1e-10) == 1
    # the same by giving qdd1 and qdd2 as coordinates of the two
    S = np.block([[s, np.zeros((6, 1))], [s, case.S]])
    H = S.T @ np.block([[I1, np.zeros((6, 6))], [np.zeros((6, 6)), two.I]]) @ S
    C = S.T @ np.concatenate([p1, two.p + two.I @ case.c]) - [0, case.tau[0]]
    close(result.Phi, s @ np.linalg.inv(H)[:1, :1] @ s.T)
    close(result.b, -s @ np.linalg.solve(H, C)[:1])


# two handles


def bodies_with_two_handles(rng):
    """Two chains of three bodies, floating, with the outer bodies as handles, and the joint
    between.
    """
    chains = []
    for seed in range(2):
        model = random_tree(
            np.random.default_rng(seed), (-1, 0, 1), (SixDoF(), *MODELS["six-axis"]().joint[:2])
        )
        s = random_state(rng, model)
        both = handle_equation(model, s.q, s.qd, s.tau, (0, 2))
        chains.append(
            TwoHandles(both.Phi[:6, :6], both.Phi[:6, 6:], both.Phi[6:, 6:], both.b[:6], both.b[6:])
        )
    return chains


@pytest.mark.parametrize("name", ["revolute", "planar", "fixed"])
def test_assembly_with_two_handles_is_elimination_of_the_joint(rng, name):
    one, two = bodies_with_two_handles(rng)
    case = Assembly(rng, S_OF[name])
    result = assembled_two_handles(one, two, case.T, case.c)
    f1, f4 = rng.uniform(-1, 1, (2, 6))
    # T^T (a3 - a2) = T^T c with f3 = T lambda = -f2
    Y = case.T.T @ (one.Phi2 + two.Phi1) @ case.T
    apart = two.Phi12 @ f4 + two.b1 - one.Phi12.T @ f1 - one.b2
    f3 = case.T @ np.linalg.solve(Y, case.T.T @ (case.c - apart))
    close(result.Phi1 @ f1 + result.Phi12 @ f4 + result.b1, one.Phi1 @ f1 - one.Phi12 @ f3 + one.b1)
    close(
        result.Phi12.T @ f1 + result.Phi2 @ f4 + result.b2,
        two.Phi12.T @ f3 + two.Phi2 @ f4 + two.b2,
    )
    close(result.Phi1, result.Phi1.T)
    close(result.Phi2, result.Phi2.T)


def test_assembly_with_two_handles_is_that_with_one_where_the_others_are_left_alone(rng):
    one, two = bodies_with_two_handles(rng)
    case = Assembly(rng, S_OF["revolute"])
    both = assembled_two_handles(
        TwoHandles(one.Phi2, one.Phi2, one.Phi2, one.b2, one.b2),
        TwoHandles(two.Phi1, *two[1:]),
        case.T,
        case.c,
    )
    single = assembled_inverse(
        InverseHandle(one.Phi2, one.b2),
        InverseHandle(two.Phi1, two.b1),
        case.T,
        case.Ta,
        case.c,
        np.zeros(1),
    )
    close(both.Phi1, single.Phi)
    close(both.b1, single.b)


# any number of handles


def stacked(body):
    """A body with two handles as one with any number."""
    Phi = np.block([[body.Phi1, body.Phi12], [body.Phi12.T, body.Phi2]])
    return InverseHandle(Phi, np.concatenate([body.b1, body.b2]))


@pytest.mark.parametrize("name", ["revolute", "planar", "fixed", "free"])
def test_assembly_of_all_handles_is_that_of_two(rng, name):
    one, two = bodies_with_two_handles(rng)
    case = Assembly(rng, S_OF[name])
    T = np.zeros((6, 0)) if name == "free" else case.T
    both = stacked(assembled_two_handles(one, two, T, case.c))
    joint = HandleJoint(1, 2, T, case.c)
    result = assembled_handles((stacked(one), stacked(two)), (joint,), (0, 3))
    close(result.Phi, both.Phi)
    close(result.b, both.b)


def test_handles_joined_to_a_ring_are_those_joined_one_after_the_other(rng):
    # two bodies, two joints: the second closes a loop
    one, two = map(stacked, bodies_with_two_handles(rng))
    case, other = Assembly(rng, S_OF["two freedoms"]), Assembly(rng, S_OF["planar"])
    first, second = HandleJoint(1, 2, case.T, case.c), HandleJoint(0, 3, other.T, other.c)
    at_once = assembled_handles((one, two), (first, second), (2, 0))
    chain = assembled_handles((one, two), (first,), (0, 1, 2, 3))
    after = assembled_handles((chain,), (second,), (2, 0))
    for a, b in zip(at_once, after, strict=True):
        close(a, b, 1e-9)  # apparent inertias of condition 1e4


def test_handles_that_are_not_there_and_constraints_twice_are_refused(rng):
    one, two = map(stacked, bodies_with_two_handles(rng))
    case = Assembly(rng, S_OF["revolute"])
    joint = HandleJoint(1, 2, case.T, case.c)
    with pytest.raises(ValueError, match="there is no handle 4; the bodies have 0 to 3"):
        assembled_handles((one, two), (joint,), (4,))
    with pytest.raises(ValueError, match="joint 0 connects handle 2 with itself"):
        assembled_handles((one, two), (joint._replace(near=2),), (0,))
    for joints, keep in (((), (0,)), ((joint,), ())):
        with pytest.raises(ValueError, match="at least one joint, and at least one is kept"):
            assembled_handles((one, two), joints, keep)
    rigid = joint._replace(T=np.hstack([case.T, case.T[:, :1]]))
    with pytest.raises(ValueError, match="positive"):
        assembled_handles((one, two), (rigid,), (0,))


# a whole tree


def test_articulated_inertia_is_symmetric_and_no_more_than_the_composite(model, rng):
    # joints can only make a handle easier to move: I^c - I^A is positive semidefinite
    q = random_state(rng, model).q
    composite = list(model.inertia)
    for i in reversed(range(model.nb)):
        if (p := model.parent[i]) >= 0:
            X = joint_kinematics(model, i, q, np.zeros(model.nv))[0]
            composite[p] = composite[p] + composite[i].to_parent(X)
    for IA, Ic in zip(articulated_inertias(model, q), composite, strict=True):
        assert np.array_equal(IA.matrix(), IA.matrix().T)
        scale = np.max(np.abs(Ic.matrix()))
        assert np.linalg.eigvalsh(IA.matrix())[0] > 0
        assert np.linalg.eigvalsh(Ic.matrix() - IA.matrix())[0] >= -1e-13 * scale


def test_assembly_and_projection_give_the_same_inertia(rng):
    # RBDA Eq 7.12: the handle is the free body, and I^A = (J H^-1 J^T)^-1
    model = MODELS["satellite"]()
    q = random_state(rng, model).q
    by_assembly = articulated_inertias(model, q)[0].matrix()
    close(operational_inertia(model, q, body_jacobian(model, q, 0)), by_assembly)
    I0c, F, H = crba_floating(model, q[7:])
    close(I0c - F @ np.linalg.solve(H, F.T), by_assembly)


def test_handle_equation_says_how_handles_accelerate(model, rng):
    # with forces on two handles as further external forces
    s = random_state(rng, model)
    bodies = (0, model.nb - 1) if model.nb > 1 else (0,)
    Phi, b = handle_equation(model, s.q, s.qd, s.tau, bodies, s.f_ext)
    f = rng.uniform(-1, 1, (len(bodies), 6))
    X0 = body_poses(model, s.q)
    pulled = s.f_ext.copy()
    for body, force in zip(bodies, f, strict=True):
        pulled[body] += X0[body].T @ force
    qdd = aba(model, s.q, s.qd, s.tau, pulled)
    expected = body_accelerations(model, s.q, s.qd, qdd)[list(bodies)].ravel()
    Lambda_condition = np.linalg.cond(inverse_inertia(model, s.q, np.eye(model.nv)))
    close(Phi @ f.ravel() + b, expected, SOLVE * Lambda_condition)


def test_inverse_inertia_has_the_rank_of_the_jacobian(model, rng):
    # RBDA Eq 7.14
    q = random_state(rng, model).q
    J = body_jacobian(model, q, model.nb - 1)
    Phi = inverse_inertia(model, q, J)
    close(Phi, Phi.T)
    assert np.linalg.eigvalsh(Phi)[0] >= -1e-12 * np.linalg.eigvalsh(Phi)[-1]
    assert np.linalg.matrix_rank(
        Phi, tol=1e-9 * np.max(Phi, initial=1e-9)
    ) == np.linalg.matrix_rank(J, tol=1e-9)


def test_free_base_alone_needs_no_handles(rng):
    # with one handle on the base, b is its acceleration
    model = MODELS["satellite"]()
    s = random_state(rng, model)
    tau = np.concatenate([np.zeros(6), s.tau[6:]])
    X = model.joint[0].jcalc(s.q[:7], s.qd[:6]).XJ @ model.Xtree[0]
    a = aba_floating(model, X, X.inverse() @ s.qd[:6], s.q[7:], s.qd[6:], s.tau[6:])[0]
    close(handle_equation(model, s.q, s.qd, tau, (0,)).b, X @ a)


def test_task_with_more_components_than_freedoms_has_no_inertia():
    arm = planar_n(2)
    with pytest.raises(
        ValueError,
        match="the task has 6 components but only 2 independent freedoms, so it has no inertia",
    ):
        operational_inertia(arm, np.array([0.1, 0.7]), body_jacobian(arm, np.array([0.1, 0.7]), 1))
