"""Rigid contact of multibody systems (RBDA 11.1 to 11.4): contact normals, motion and limits."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from contact_scenes import UP, G, brick_model, lying, on_the_ground, random_contacts, unit
from random_models import MODELS, random_inertia, random_state
from rigidblocks.contact import (
    ContactState,
    JointLimit,
    PointContact,
    contact_bias,
    contact_equation,
    contact_matrix,
    contact_state,
    contact_step,
    rigid_contact,
)
from rigidblocks.contact.event_driven.unilateral_constraints import contact_directions
from rigidblocks.dynamics import (
    aba,
    body_poses,
    crba,
    point_acceleration,
    point_velocity,
    rnea,
)
from rigidblocks.robot.configuration import neutral
from rigidblocks.robot.joints import Prismatic, Revolute, SixDoF
from rigidblocks.robot.model import Model
from rigidblocks.spatial.spatial import crf, identity, mcI, xlt

# rounding of some hundred products; a solution with H or M multiplies it by the condition number
RTOL = 1e-10


def body_transform(model, q, body, point):
    """Transform a point (3,) from base coordinates to body coordinates; -1 is the base."""
    if body < 0:
        return point
    X = body_poses(model, q)[body]
    return X.E @ (point - X.r)


# contact vectors


def test_contact_directions_are_orthonormal_and_right_handed(rng):
    for normal in (UP, -UP, *(unit(v) for v in rng.normal(size=(50, 3)))):
        D = contact_directions(normal)
        assert_allclose(D.T @ D, np.eye(3), rtol=0, atol=1e-14)
        assert_allclose(D[:, 0], normal)
        assert_allclose(np.linalg.det(D[:, [1, 2, 0]]), 1.0)


def test_separation_velocity_equals_the_relative_point_velocity_along_the_normal(model, rng):
    # RBDA Eq 11.27, 11.28; the tangential velocities follow the normal velocities
    s = random_state(rng, model)
    contacts = (
        random_contacts(rng, model, mu=0.5) if model.nb > 1 else [PointContact(0, UP, UP, mu=0.5)]
    )
    w = contact_matrix(model, s.q, contacts).T @ s.qd
    for i, c in enumerate(contacts):
        v = np.zeros(3)
        for body, sign in ((c.successor, 1.0), (c.predecessor, -1.0)):
            if body >= 0:
                v += sign * point_velocity(
                    model, s.q, s.qd, body, body_transform(model, s.q, body, c.point)
                )
        given = w[[i, len(contacts) + 2 * i, len(contacts) + 2 * i + 1]]
        assert_allclose(
            given, contact_directions(c.normal).T @ v, rtol=0, atol=RTOL * np.abs(s.qd).max() * 10
        )


def test_separation_acceleration_is_the_second_derivative_of_the_gap(model, rng):
    # a point of the successor on a plane of the predecessor has the gap phi = n . (p_s - p_p). At
    # the contact its second derivative is n . (a_s - a_p) + 2 dn/dt . (v_s - v_p)
    s = random_state(rng, model)
    contacts = random_contacts(rng, model) if model.nb > 1 else [PointContact(0, UP, UP)]
    actual = contact_matrix(model, s.q, contacts).T @ s.qdd + contact_bias(
        model, s.q, s.qd, contacts
    )
    for c, zeta_dot in zip(contacts, actual, strict=True):
        v, a, ndot = np.zeros(3), np.zeros(3), np.zeros(3)
        for body, sign in ((c.successor, 1.0), (c.predecessor, -1.0)):
            if body >= 0:
                point = body_transform(model, s.q, body, c.point)
                v += sign * point_velocity(model, s.q, s.qd, body, point)
                a += sign * point_acceleration(model, s.q, s.qd, s.qdd, body, point)
        if c.predecessor >= 0:
            tip, foot = (
                body_transform(model, s.q, c.predecessor, c.point + k * c.normal)
                for k in (1.0, 0.0)
            )
            ndot = point_velocity(model, s.q, s.qd, c.predecessor, tip)
            ndot = ndot - point_velocity(model, s.q, s.qd, c.predecessor, foot)
        expected = c.normal @ a + 2 * ndot @ v
        assert_allclose(
            zeta_dot, expected, rtol=0, atol=RTOL * (np.abs(a).max() + 10 * np.abs(s.qd).max() ** 2)
        )


def test_separation_acceleration_of_a_rolling_ball_equals_the_acceleration_of_its_centre(rng):
    # the contact point stays below the centre, so it moves like the centre, not like the material
    # of the ball
    model, radius = brick_model(), 0.3
    q, qd, qdd = on_the_ground(radius), rng.normal(size=6), rng.normal(size=6)
    centre = point_velocity(model, q, qd, 0, np.zeros(3))
    ball = PointContact(0, np.zeros(3), UP, point_rate=centre, normal_rate=np.zeros(3))
    expected = point_acceleration(model, q, qd, qdd, 0, np.zeros(3))[2]
    actual = contact_matrix(model, q, [ball]).T @ qdd + contact_bias(model, q, qd, [ball])
    assert_allclose(actual, [expected], rtol=0, atol=1e-14 + RTOL * abs(expected))


def test_sparse_contact_equation_equals_the_dense_formula(model, rng):
    # RBDA Eq 11.35, 11.36; the code omits the zeros of H
    s = random_state(rng, model)
    contacts = random_contacts(rng, model) if model.nb > 1 else [PointContact(0, UP, UP)]
    T, M, d, bias, free, HinvT = contact_equation(model, s.q, s.qd, s.tau, contacts, s.f_ext)
    H, a = crba(model, s.q), aba(model, s.q, s.qd, s.tau, s.f_ext)
    condition = np.linalg.cond(H)
    assert_allclose(free, a, rtol=0, atol=1e-13 * condition * np.abs(a).max())
    assert_allclose(H @ HinvT, T, rtol=0, atol=1e-13 * condition * np.abs(T).max())
    assert_allclose(
        M, T.T @ np.linalg.solve(H, T), rtol=0, atol=1e-13 * condition * np.abs(M).max()
    )
    assert_allclose(
        d,
        T.T @ a + bias,
        rtol=0,
        atol=1e-13 * condition * (np.abs(T).max() * np.abs(a).max() + np.abs(d).max()),
    )


# motion


def wrenches_of(model, contacts, lam):
    """Return the wrenches (nb, 6) of the normal contact forces on the bodies."""
    f_ext = np.zeros((model.nb, 6))
    for c, force in zip(contacts, lam, strict=True):
        wrench = force * np.concatenate([np.cross(c.point, c.normal), c.normal])
        f_ext[c.successor] += wrench
        if c.predecessor >= 0:
            f_ext[c.predecessor] -= wrench
    return f_ext


def test_contact_motion_satisfies_the_equation_of_motion_and_contact_laws(model, rng):
    # rnea with the contact forces as external wrenches does not use T
    s = random_state(rng, model)
    contacts = random_contacts(rng, model, 3) if model.nb > 1 else [PointContact(0, UP, UP)]
    motion = rigid_contact(model, s.q, s.qd, s.tau, contacts)
    assert (motion.lam >= 0).all()
    if not motion.feasible:
        assert np.linalg.matrix_rank(contact_matrix(model, s.q, contacts)) < len(contacts)
        return
    f_ext = wrenches_of(model, contacts, motion.lam)
    size = max(
        np.abs(s.tau).max(), np.abs(f_ext).max(), np.abs(rnea(model, s.q, s.qd, 0 * s.qd)).max()
    )
    tau = rnea(model, s.q, s.qd, motion.qdd, f_ext)
    assert_allclose(tau, s.tau, rtol=0, atol=1e-13 * np.linalg.cond(crba(model, s.q)) * size)
    zeta_dot = contact_matrix(model, s.q, contacts).T @ motion.qdd + contact_bias(
        model, s.q, s.qd, contacts
    )
    tolerance = 1e-13 * np.linalg.cond(crba(model, s.q)) * max(1.0, np.abs(motion.qdd).max())
    assert_allclose(zeta_dot, motion.zeta_dot, rtol=0, atol=tolerance)
    assert (motion.zeta_dot >= 0).all()
    assert not (motion.zeta_dot * motion.lam).any()


@pytest.mark.parametrize("pull", [0.0, 50.0])
def test_force_and_acceleration_at_a_single_contact_match_the_analytic_solution(rng, pull):
    # RBDA Eq 11.8 to 11.10, in body coordinates, which coincide with base coordinates here
    I = random_inertia(rng)
    model = Model("body", (-1,), (SixDoF(),), (identity(),), (I,), gravity=np.zeros(3))
    v, point = rng.uniform(-1, 1, 6), rng.uniform(-1, 1, 3)
    n = np.concatenate([np.cross(point, UP), UP])
    f = np.array([0, 0, 0, 0, 0, pull - 20.0])
    c = PointContact(0, point, UP, point_rate=np.zeros(3), normal_rate=np.zeros(3))
    motion = rigid_contact(model, neutral(model), v, f, [c])
    M, d = (
        n @ np.linalg.solve(I.matrix(), n),
        n @ np.linalg.solve(I.matrix(), f - crf(v) @ I.matrix() @ v),
    )
    assert_allclose(
        [motion.lam[0], motion.zeta_dot[0]], [max(0.0, -d / M), max(0.0, d)], rtol=1e-11, atol=1e-11
    )


def test_resting_brick_has_zero_acceleration_with_redundant_contacts():
    model, q = brick_model(), on_the_ground()
    motion = rigid_contact(model, q, np.zeros(6), np.zeros(6), lying(model, q))
    assert motion.feasible
    assert not motion.unique
    assert motion.active.sum() == 3
    assert motion.redundant.sum() == 1
    assert_allclose(motion.lam.sum(), 2.0 * G, rtol=1e-12)
    assert_allclose(motion.qdd, np.zeros(6), rtol=0, atol=1e-12)


def test_contact_between_the_ends_of_an_edge_does_not_change_the_accelerations(rng):
    # RBDA 11.6: its normal is positively dependent on the normals of the edge ends
    model, q, tau = brick_model(), on_the_ground(), rng.uniform(-3, 3, 6)
    contacts = lying(model, q)
    middle = replace(contacts[0], point=0.3 * contacts[0].point + 0.7 * contacts[1].point)
    without, within = (
        rigid_contact(model, q, np.zeros(6), tau, c) for c in (contacts, [*contacts, middle])
    )
    assert_allclose(within.qdd, without.qdd, rtol=0, atol=1e-11)


def test_separating_contact_of_a_lifted_body_has_no_force():
    model, q = brick_model(), on_the_ground()
    tau = np.array([0, 0, 0, 0, 0, 3.0 * G])  # the lifting force exceeds the weight
    motion = rigid_contact(model, q, np.zeros(6), tau, lying(model, q))
    assert not motion.lam.any()
    assert_allclose(motion.qdd, aba(model, q, np.zeros(6), tau), rtol=1e-13, atol=1e-13)


def slot(speed, narrowing):
    """Return a disc that slides along x between two walls, each inclined by `narrowing` per metre.

    It is RBDA Example 11.1.
    """
    model = Model(
        "disc",
        (-1, 0),
        (Prismatic((1.0, 0.0, 0.0)), Prismatic((0.0, 1.0, 0.0))),
        (xlt(np.zeros(3)),) * 2,
        (mcI(1.0, np.zeros(3), np.eye(3)),) * 2,
    )
    walls = []
    for side in (1.0, -1.0):
        normal, turning = np.array([0.0, side, 0.0]), np.array([-narrowing * speed, 0.0, 0.0])
        walls.append(
            PointContact(1, -0.1 * normal, normal, point_rate=np.zeros(3), normal_rate=turning)
        )
    return rigid_contact(model, np.zeros(2), np.array([speed, 0.0]), np.array([0.0, -5.0]), walls)


def test_rigid_contact_of_a_disc_in_a_narrowing_slot_is_infeasible():
    assert slot(1.0, 0.0).feasible
    assert not slot(1.0, 0.0).unique
    assert not slot(1.0, 2.0).feasible
    widening = slot(1.0, -2.0)
    assert widening.feasible
    assert widening.unique


# joint limits


def test_joint_limit_force_pushes_but_does_not_pull():
    for upper, sign in ((False, 1.0), (True, -1.0)):
        model = Model(
            "arm",
            (-1,),
            (Revolute(),),
            (identity(),),
            (mcI(1.0, [0.5, 0, 0], np.eye(3)),),
            gravity=np.zeros(3),
        )
        limit = JointLimit(0, 0.3, upper)
        assert_array_equal(contact_matrix(model, np.array([0.3]), [limit]), [[sign]])
        held = rigid_contact(model, np.array([0.3]), np.zeros(1), np.array([-2.0 * sign]), [limit])
        assert_allclose([held.lam[0], held.qdd[0]], [2.0, 0.0], rtol=0, atol=1e-14)
        free = rigid_contact(model, np.array([0.3]), np.zeros(1), np.array([2.0 * sign]), [limit])
        assert free.lam[0] == 0
        assert free.qdd[0] * sign > 0


def test_accelerations_satisfy_joint_limits_and_contact_constraints_together(rng):
    model = MODELS["six-axis"]()
    s = random_state(rng, model)
    contacts = [
        JointLimit(2, 0.0),
        PointContact(5, rng.uniform(-1, 1, 3), UP),
        JointLimit(4, 0.0, upper=True),
    ]
    motion = rigid_contact(model, s.q, s.qd, s.tau, contacts)
    assert (motion.zeta_dot >= 0).all()
    assert_allclose(
        motion.qdd[[2, 4]] * [1, -1],
        motion.zeta_dot[[0, 2]],
        rtol=0,
        atol=1e-9 * np.abs(motion.qdd).max(),
    )


# contact states


def test_gap_and_separation_velocity_determine_the_contact_state_of_rbda_figure_11_4():
    # RBDA Fig 11.4
    assert contact_state(0.1, -1.0) is ContactState.APART
    assert contact_state(0.0, -1.0) is ContactState.IMPACT
    assert contact_state(0.0, 1.0) is ContactState.SEPARATING
    assert contact_state(0.0, 0.0) is ContactState.CONTACT
    assert contact_state(-1e-9, 1e-7, 1e-6, 1e-6) is ContactState.CONTACT
    assert [state.value for state in ContactState] == ["1", "2a", "2b", "3"]


# invalid arguments


def test_invalid_rigid_contact_arguments_are_rejected():
    with pytest.raises(
        ValueError,
        match=r"the normal of a contact of body 0 with body -1 must have length 1, not \[0.0",
    ):
        PointContact(0, UP, np.zeros(3))
    with pytest.raises(
        ValueError, match="the point of a contact of body 0 with body -1 must be finite"
    ):
        PointContact(0, np.nan * UP, UP)
    with pytest.raises(
        ValueError,
        match=r"the point of a contact of body 2 with body 1 needs shape \(3,\), not \(2,\)",
    ):
        PointContact(2, np.zeros(2), UP, 1)
    with pytest.raises(ValueError, match=r"must be finite and not negative, not -0\.1"):
        PointContact(0, UP, UP, mu=-0.1)
    with pytest.raises(ValueError, match="needs two different bodies"):
        PointContact(1, UP, UP, 1)
    model, q = brick_model(), on_the_ground()
    with pytest.raises(
        ValueError,
        match=r"contact 1 has unknown body 3; model 'brick' has bodies 0 \.\. 0 and the base",
    ):
        contact_matrix(model, q, [PointContact(0, UP, UP), PointContact(3, UP, UP)])
    with pytest.raises(
        ValueError,
        match=r"is a limit of joint joint1, which has 6 degrees of freedom; .* .model 'brick'",
    ):
        contact_matrix(model, q, [JointLimit(0, 0.0)])
    with pytest.raises(
        ValueError, match=r"contact 0 is a limit of the unknown joint 4; model 'brick' has joints 0"
    ):
        contact_matrix(model, q, [JointLimit(4, 0.0)])
    with pytest.raises(ValueError, match="does not support friction"):
        rigid_contact(model, q, np.zeros(6), np.zeros(6), lying(model, q, 0.5))
    with pytest.raises(ValueError, match="mass 0"):
        replace(model, inertia=(mcI(0.0, np.zeros(3), np.zeros((3, 3))),))


def test_accelerations_without_contacts_match_the_forward_dynamics():
    model, q = brick_model(), on_the_ground()
    motion = rigid_contact(model, q, np.zeros(6), np.zeros(6), [])
    assert_allclose(motion.qdd, aba(model, q, np.zeros(6), np.zeros(6)), rtol=1e-14, atol=1e-14)
    assert contact_step(model, q, np.zeros(6), np.zeros(6), [], 0.1).impulse.shape == (0, 3)
