"""Articulated-body inertias computed by assembly and by projection (RBDA 7.1, 7.2, 7.4, 7.5)."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import null_space

from random_models import MODELS, random_inertia, random_state, random_transform, random_tree
from rigidblocks.dynamics import (
    Handle,
    HandleJoint,
    InverseHandle,
    TwoHandles,
    aba,
    aba_floating,
    articulated_inertias,
    assemble_by_constraint,
    assemble_handle,
    assemble_handles,
    assemble_inverse,
    assemble_two_handles,
    body_accelerations,
    body_jacobian,
    body_poses,
    crba_floating,
    handle_equation,
    inverse_inertia,
    operational_inertia,
)
from rigidblocks.dynamics.joint_kinematics import joint_kinematics
from rigidblocks.robot.joints import SixDoF
from rigidblocks.robot.robots import planar_n
from rigidblocks.spatial.spatial import crf, mcI

RTOL = 1e-11  # rounding errors of a few solutions with condition numbers up to 1e2
SOLVE = 1e-13  # relative error of solutions with H, per unit of its condition number

S_OF = {
    "revolute": np.eye(6)[:, [2]],
    "two axes": np.eye(6)[:, [0, 4]],
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
    """Two moving rigid bodies under forces and a joint between them.

    All quantities are in one coordinate system.
    """

    def __init__(self, rng, S):
        self.S = S
        self.T = null_space(S.T) if S.shape[1] else np.eye(6)
        self.Ta = S @ np.linalg.inv(S.T @ S)
        self.c, self.tau = rng.uniform(-1, 1, 6), rng.uniform(-1, 1, S.shape[1])
        self.handles = []
        for _ in range(2):
            I, v = (
                random_inertia(rng).transform_to_parent(random_transform(rng)).matrix(),
                rng.uniform(-1, 1, 6),
            )
            self.handles.append(Handle(I, crf(v) @ I @ v - rng.uniform(-1, 1, 6)))

    def equations(self, f):
        """Solve the equations of both bodies and the joint for a1 and a2; f acts on handle 1."""
        (I1, p1), (I2, p2) = self.handles
        n = self.S.shape[1]
        K = np.zeros((18 + n, 18 + n))  # a1, a2, fJ, qdd
        K[:6, :6], K[:6, 12:18] = I1, np.eye(6)
        K[6:12, 6:12], K[6:12, 12:18] = I2, -np.eye(6)
        K[12:18, :6], K[12:18, 6:12], K[12:18, 18:] = -np.eye(6), np.eye(6), -self.S
        K[18:, 12:18] = self.S.T
        return np.linalg.solve(K, np.concatenate([f - p1, -p2, self.c, self.tau]))


def invert_handle(handle):
    Phi = np.linalg.inv(handle.I)
    return InverseHandle(Phi, -Phi @ handle.p)


@pytest.fixture(params=S_OF)
def assembly(request, rng):
    return Assembly(rng, S_OF[request.param])


def test_assembled_articulated_inertia_satisfies_the_equations_of_both_bodies(assembly, rng):
    f = rng.uniform(-1, 1, 6)
    a1 = assembly.equations(f)[:6]
    handle = assemble_handle(*assembly.handles, assembly.S, assembly.c, assembly.tau)
    close(handle.I @ a1 + handle.p, f)


def test_three_assembly_formulas_of_rbda_table_7_2_give_the_same_result(assembly):
    # RBDA Table 7.2: standard, variant 2, and the inverse of variant 1
    joint = (assembly.c, assembly.tau)
    standard = assemble_handle(*assembly.handles, assembly.S, *joint)
    constraint = assemble_by_constraint(*assembly.handles, assembly.T, assembly.Ta, *joint)
    inverse = assemble_inverse(
        *map(invert_handle, assembly.handles), assembly.T, assembly.Ta, *joint
    )
    for one, other, third in zip(standard, constraint, invert_handle(standard), strict=True):
        close(other, one)
        close(inverse[0 if third.ndim == 2 else 1], third)


def test_assembly_across_a_fixed_joint_adds_both_inertias(rng):
    rigid = Assembly(rng, S_OF["fixed"])
    (I1, p1), (I2, p2) = rigid.handles
    handle = assemble_handle(*rigid.handles, rigid.S, np.zeros(6), rigid.tau)
    close(handle.I, I1 + I2)
    close(handle.p, p1 + p2)


def test_assembly_across_a_free_joint_adds_no_inertia(rng):
    free = Assembly(rng, S_OF["free"])
    close(assemble_handle(*free.handles, free.S, free.c, free.tau).I, free.handles[0].I)


def test_box_and_cylinder_have_the_articulated_inertia_of_rbda():
    # RBDA Example 7.1: the joint allows rotation about x and translation along y
    I1, I2, m1, m2 = 1.0, 2.0, 3.0, 4.0
    box, cylinder = (
        Handle(mcI(m, np.zeros(3), I * np.eye(3)).matrix(), np.zeros(6))
        for m, I in ((m1, I1), (m2, I2))
    )
    handle = assemble_handle(box, cylinder, S_OF["two axes"], np.zeros(6), np.zeros(2))
    assert_allclose(handle.I, np.diag([1.0, 3, 3, 7, 3, 7]), atol=1e-15)


def test_inverse_assembly_supports_a_body_with_a_singular_inverse_inertia(rng):
    # body 1 can only rotate: its inverse inertia has rank 1, so its inertia is not defined
    case, s = Assembly(rng, S_OF["revolute"]), rng.uniform(-1, 1, (6, 1))
    (I1, p1), two = case.handles
    Phi1 = s @ np.linalg.inv(s.T @ I1 @ s) @ s.T
    one = InverseHandle(Phi1, -Phi1 @ p1)
    result = assemble_inverse(one, invert_handle(two), case.T, case.Ta, case.c, case.tau)
    assert np.linalg.matrix_rank(result.Phi, tol=1e-10) == 1
    # reference: joint-space dynamics of both bodies with the accelerations qdd1 and qdd2
    S = np.block([[s, np.zeros((6, 1))], [s, case.S]])
    H = S.T @ np.block([[I1, np.zeros((6, 6))], [np.zeros((6, 6)), two.I]]) @ S
    C = S.T @ np.concatenate([p1, two.p + two.I @ case.c]) - [0, case.tau[0]]
    close(result.Phi, s @ np.linalg.inv(H)[:1, :1] @ s.T)
    close(result.b, -s @ np.linalg.solve(H, C)[:1])


# two handles


def bodies_with_two_handles(rng):
    """Return two floating chains of three bodies and the joint between them.

    The outer bodies are the handles.
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
def test_assembly_of_two_handles_satisfies_the_equations_with_the_joint_force(rng, name):
    one, two = bodies_with_two_handles(rng)
    case = Assembly(rng, S_OF[name])
    result = assemble_two_handles(one, two, case.T, case.c)
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


def test_assembly_with_coincident_handles_matches_the_assembly_with_one_handle(rng):
    one, two = bodies_with_two_handles(rng)
    case = Assembly(rng, S_OF["revolute"])
    both = assemble_two_handles(
        TwoHandles(one.Phi2, one.Phi2, one.Phi2, one.b2, one.b2),
        TwoHandles(two.Phi1, *two[1:]),
        case.T,
        case.c,
    )
    single = assemble_inverse(
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


def stack_handles(body):
    """Convert a body with two handles to the general form with any number of handles."""
    Phi = np.block([[body.Phi1, body.Phi12], [body.Phi12.T, body.Phi2]])
    return InverseHandle(Phi, np.concatenate([body.b1, body.b2]))


@pytest.mark.parametrize("name", ["revolute", "planar", "fixed", "free"])
def test_assembly_for_any_number_of_handles_matches_two_handle_assembly_for_two_bodies(rng, name):
    one, two = bodies_with_two_handles(rng)
    case = Assembly(rng, S_OF[name])
    T = np.zeros((6, 0)) if name == "free" else case.T
    both = stack_handles(assemble_two_handles(one, two, T, case.c))
    joint = HandleJoint(1, 2, T, case.c)
    result = assemble_handles((stack_handles(one), stack_handles(two)), (joint,), (0, 3))
    close(result.Phi, both.Phi)
    close(result.b, both.b)


def test_simultaneous_and_sequential_assembly_of_a_loop_agree(rng):
    # two bodies and two joints; the second joint closes a loop
    one, two = map(stack_handles, bodies_with_two_handles(rng))
    case, other = Assembly(rng, S_OF["two axes"]), Assembly(rng, S_OF["planar"])
    first, second = HandleJoint(1, 2, case.T, case.c), HandleJoint(0, 3, other.T, other.c)
    at_once = assemble_handles((one, two), (first, second), (2, 0))
    chain = assemble_handles((one, two), (first,), (0, 1, 2, 3))
    after = assemble_handles((chain,), (second,), (2, 0))
    for a, b in zip(at_once, after, strict=True):
        close(a, b, 1e-9)  # apparent inertias have condition numbers of 1e4


def test_unknown_handles_and_repeated_constraints_are_rejected(rng):
    one, two = map(stack_handles, bodies_with_two_handles(rng))
    case = Assembly(rng, S_OF["revolute"])
    joint = HandleJoint(1, 2, case.T, case.c)
    with pytest.raises(ValueError, match="unknown handle 4; the bodies have the handles 0 to 3"):
        assemble_handles((one, two), (joint,), (4,))
    with pytest.raises(ValueError, match="joint 0 connects handle 2 with itself"):
        assemble_handles((one, two), (joint._replace(near=2),), (0,))
    for joints, keep, empty in (((), (0,), "joints"), ((joint,), (), "keep")):
        with pytest.raises(ValueError, match=f"`{empty}` of assemble_handles is empty"):
            assemble_handles((one, two), joints, keep)
    rigid = joint._replace(T=np.hstack([case.T, case.T[:, :1]]))
    with pytest.raises(ValueError, match="positive"):
        assemble_handles((one, two), (rigid,), (0,))


# a whole tree


def test_articulated_inertia_is_symmetric_and_at_most_the_composite_inertia(model, rng):
    # joints can only reduce the apparent inertia of a handle: I^c - I^A is positive semidefinite
    q = random_state(rng, model).q
    composite = list(model.inertia)
    for i in reversed(range(model.nb)):
        if (p := model.parent[i]) >= 0:
            X = joint_kinematics(model, i, q, np.zeros(model.nv))[0]
            composite[p] = composite[p] + composite[i].transform_to_parent(X)
    for IA, Ic in zip(articulated_inertias(model, q), composite, strict=True):
        assert np.array_equal(IA.matrix(), IA.matrix().T)
        scale = np.max(np.abs(Ic.matrix()))
        assert np.linalg.eigvalsh(IA.matrix())[0] > 0
        assert np.linalg.eigvalsh(Ic.matrix() - IA.matrix())[0] >= -1e-13 * scale


def test_assembly_and_projection_algorithms_give_the_same_articulated_inertia(rng):
    # RBDA Eq 7.12: the handle is the free body, and I^A = (J H^-1 J^T)^-1
    model = MODELS["satellite"]()
    q = random_state(rng, model).q
    by_assembly = articulated_inertias(model, q)[0].matrix()
    close(operational_inertia(model, q, body_jacobian(model, q, 0)), by_assembly)
    I0c, F, H = crba_floating(model, q[7:])
    close(I0c - F @ np.linalg.solve(H, F.T), by_assembly)


def test_handle_equation_gives_the_body_accelerations_caused_by_forces_on_the_handles(model, rng):
    # the handle forces are additional external forces
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


def test_operational_space_inverse_inertia_has_the_rank_of_the_jacobian(model, rng):
    # RBDA Eq 7.14
    q = random_state(rng, model).q
    J = body_jacobian(model, q, model.nb - 1)
    Phi = inverse_inertia(model, q, J)
    close(Phi, Phi.T)
    assert np.linalg.eigvalsh(Phi)[0] >= -1e-12 * np.linalg.eigvalsh(Phi)[-1]
    assert np.linalg.matrix_rank(
        Phi, tol=1e-9 * np.max(Phi, initial=1e-9)
    ) == np.linalg.matrix_rank(J, tol=1e-9)


def test_handle_equation_of_a_free_base_gives_the_base_acceleration(rng):
    # if the base is the only handle, b is the acceleration of the base
    model = MODELS["satellite"]()
    s = random_state(rng, model)
    tau = np.concatenate([np.zeros(6), s.tau[6:]])
    X = model.joint[0].jcalc(s.q[:7], s.qd[:6]).XJ @ model.Xtree[0]
    a = aba_floating(model, X, X.inverse() @ s.qd[:6], s.q[7:], s.qd[6:], s.tau[6:])[0]
    close(handle_equation(model, s.q, s.qd, tau, (0,)).b, X @ a)


def test_task_with_more_components_than_degrees_of_freedom_is_rejected():
    arm = planar_n(2)
    with pytest.raises(
        ValueError,
        match="the task has 6 components but only 2 independent degrees of freedom",
    ):
        operational_inertia(arm, np.array([0.1, 0.7]), body_jacobian(arm, np.array([0.1, 0.7]), 1))
