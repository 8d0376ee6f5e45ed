"""Recursive derivatives of inverse dynamics and of Jacobians.

The references are finite differences, identities of mechanics and the compiled derivatives.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from planar_models import random_planar_state, random_planar_tree
from random_models import joints_of_all_types, random_state, random_transform, random_tree
from rigidblocks.dynamics import body_jacobian, crba, rnea
from rigidblocks.dynamics.recursive_derivatives import jacobian_derivatives, rnea_derivatives
from rigidblocks.kernels.compiled_dynamics import derivatives
from rigidblocks.robot.configuration import integrate
from rigidblocks.robot.joints import (
    Cylindrical,
    Fixed,
    Helical,
    Planar,
    Prismatic,
    Revolute,
    SixDoF,
    Spherical,
    Universal,
)
from rigidblocks.spatial.spatial import cross_force, cross_motion
from rigidblocks.tracing.trace import trace

SAME = 1e-12  # rounding of two exact algorithms
# central differences: eps / STEP and STEP^2, times the magnitude of higher derivatives
STEP = 1e-5
DIFFERENCES = 2e-8
# second differences: sqrt(eps) of the value
SECOND_STEP = 1e-4
SECOND_DIFFERENCES = 3e-6

JOINTS = {
    "one degree of freedom": (
        Revolute((1.0, 2.0, 0.5)),
        Prismatic((0.0, 1.0, 1.0)),
        Helical(0.3),
        Revolute(),
        Prismatic(),
        Revolute(),
    ),
    "several degrees of freedom": (
        SixDoF(),
        Spherical(),
        Cylindrical(),
        Fixed(),
        Planar(),
        Revolute((0.0, 1.0, 0.0)),
    ),
}
PARENT = (-1, 0, 1, 0, 3, 3)


def models():
    rng = np.random.default_rng(41)
    for name, joints in JOINTS.items():
        model = random_tree(rng, PARENT, joints)
        yield pytest.param(model, random_state(rng, model), id=name)
    model = random_planar_tree(rng, PARENT)
    yield pytest.param(model, random_planar_state(rng, model), id="planar")


MODELS = pytest.mark.parametrize(("model", "state"), list(models()))


def close(actual, expected, tolerance):
    assert_allclose(
        actual, expected, rtol=0, atol=tolerance * max(1.0, np.max(np.abs(expected), initial=0.0))
    )


def differences(function, n, step=STEP):
    """Return the derivative with respect to a displacement (n,) at zero, with its index last."""
    return np.stack([(function(h) - function(-h)) / (2 * step) for h in step * np.eye(n)], axis=-1)


# product rules of the recursions (Spencer 2004, Eq A.1 to A.4)


@pytest.mark.parametrize(
    "joint", [Revolute((1.0, 2.0, 0.5)), Helical(0.3), Cylindrical(), Spherical(), SixDoF()]
)
def test_derivatives_of_transformed_vectors_satisfy_the_product_rule(joint):
    """d(X m)/dq = -S x X m and d(X^T f)/dq = X^T (S x* f), for each column of S."""
    rng = np.random.default_rng(37)
    q, m, f = joint.random(rng), rng.normal(size=6), rng.normal(size=6)
    X, S, _, _ = joint.jcalc(q, np.zeros(joint.nv))

    def moved(h):
        return joint.jcalc(joint.integrate(q, h), np.zeros(joint.nv)).XJ

    motions, forces = (
        differences(lambda h, k=k: (moved(h) @ m, moved(h).T @ f)[k], joint.nv) for k in (0, 1)
    )
    close(motions, np.array([-cross_motion(s, X @ m) for s in S.T]).T, DIFFERENCES)
    close(forces, np.array([X.T @ cross_force(s, f) for s in S.T]).T, DIFFERENCES)


def test_spatial_cross_products_commute_with_transforms():
    """X (a x b) = X a x X b, also for forces (RBDA Table 2.4; Spencer 2004, Eq A.3, A.4)."""
    rng = np.random.default_rng(39)
    X, (a, b, f) = random_transform(rng), rng.normal(size=(3, 6))
    close(X @ cross_motion(a, b), cross_motion(X @ a, X @ b), SAME)
    close(X.force(cross_force(a, f)), cross_force(X @ a, X.force(f)), SAME)


# inverse dynamics


@MODELS
def test_recursive_rnea_derivatives_match_finite_differences(model, state):
    q, qd, qdd, _, _ = state
    found = rnea_derivatives(model, q, qd, qdd)
    close(found.tau, rnea(model, q, qd, qdd), SAME)
    close(
        found.dq,
        differences(lambda h: rnea(model, integrate(model, q, h), qd, qdd), model.nv),
        DIFFERENCES,
    )
    close(found.dqd, differences(lambda h: rnea(model, q, qd + h, qdd), model.nv), DIFFERENCES)


@pytest.mark.slow
@pytest.mark.parametrize("name", JOINTS)
def test_recursive_and_compiled_rnea_derivatives_agree(name):
    """The compiled derivatives use composite bodies, which is a different algorithm."""
    rng = np.random.default_rng(43)
    model = random_tree(rng, PARENT, JOINTS[name])
    q, qd, qdd, _, _ = random_state(rng, model)
    tau, dq, dqd, _ = derivatives(model, "rnea")(q, qd, qdd)
    for one, other in zip(rnea_derivatives(model, q, qd, qdd), (tau, dq, dqd), strict=True):
        close(one, other, SAME)


@MODELS
def test_recursive_rnea_derivatives_use_the_gravity_argument(model, state):
    q, qd, qdd, _, _ = state
    gravity = np.random.default_rng(1).uniform(-5, 5, len(model.gravity))
    close(
        rnea_derivatives(model, q, qd, qdd, gravity).dq,
        rnea_derivatives(model.with_gravity(gravity), q, qd, qdd).dq,
        SAME,
    )


@MODELS
def test_rnea_jacobian_at_rest_is_symmetric_for_q_and_zero_for_qd(model, state):
    """At rest the Coriolis torques are zero to first order.

    The gravity torques of a tree have a potential.
    """
    still = np.zeros(model.nv)
    found = rnea_derivatives(model, state.q, still, still)
    close(found.dqd, np.zeros((model.nv, model.nv)), SAME)
    if all(joint.nv <= 1 for joint in model.joint):
        close(found.dq, found.dq.T, SAME)


# Jacobians


@MODELS
def test_jacobians_returned_with_jacobian_derivatives_equal_the_body_jacobians(model, state):
    found = jacobian_derivatives(model, *state[:3])
    for i in range(model.nb):
        close(found.J[i], body_jacobian(model, state.q, i), SAME)


@MODELS
def test_jacobian_derivatives_match_finite_differences(model, state):
    found = jacobian_derivatives(model, *state[:3])
    for i in range(model.nb):
        along = differences(
            lambda h, i=i: body_jacobian(model, integrate(model, state.q, h), i), model.nv
        )
        close(found.dJ[i], along, DIFFERENCES)


@MODELS
def test_jacobian_derivatives_times_joint_velocities_equal_the_time_derivative(model, state):
    """dJ/dt = sum dJ/dq_j qd_j; the rates of an accelerated motion match differences in time."""
    q, qd, qdd, _, _ = state
    found = jacobian_derivatives(model, q, qd, qdd)
    close(found.Jdot, found.dJ @ qd, SAME)

    def rate(t):
        # to second order in t, the mean velocity qd + qdd t / 2 gives the configuration
        return jacobian_derivatives(
            model, integrate(model, q, qd * t + qdd * t * t / 2), qd + qdd * t, qdd
        ).Jdot

    close(
        found.Jddot,
        (rate(SECOND_STEP) - rate(-SECOND_STEP)) / (2 * SECOND_STEP),
        SECOND_DIFFERENCES,
    )


@MODELS
def test_body_jacobian_does_not_depend_on_joints_that_do_not_move_the_body(model, state):
    found = jacobian_derivatives(model, *state[:3])
    for i in range(model.nb):
        moves, k = set(), i
        while k >= 0:
            moves.add(k)
            k = model.parent[k]
        for j in set(range(model.nb)) - moves:
            assert_array_equal(found.dJ[i][..., model.v_slices[j]], 0)


@MODELS
def test_joint_space_inertia_equals_the_sum_of_projected_body_inertias(model, state):
    """H = sum J^T I J (RBDA Eq 4.7 of a body, 8.1 of a tree)."""
    J = jacobian_derivatives(model, *state[:3]).J
    H = sum(J[i].T @ (model.inertia[i] @ J[i]) for i in range(model.nb))
    close(crba(model, state.q), H, SAME)


# tracing and invalid arguments


def test_traced_and_numpy_values_of_recursive_derivatives_agree():
    rng = np.random.default_rng(47)
    model = random_tree(rng, (-1, 0, 0), (Revolute(), Spherical(), Helical(0.2)))
    state = random_state(rng, model)
    sizes = {"q": (model.nq,), "qd": (model.nv,), "qdd": (model.nv,)}

    def inverse(q, qd, qdd):
        return rnea_derivatives(model, q, qd, qdd)._asdict()

    def jacobians(q, qd, qdd):
        return jacobian_derivatives(model, q, qd, qdd)._asdict()

    at = np.concatenate(state[:3])
    for function, found in (
        (inverse, rnea_derivatives(model, *state[:3])),
        (jacobians, jacobian_derivatives(model, *state[:3])),
    ):
        close(
            trace("derivatives", function, sizes)(at),
            np.concatenate([part.ravel() for part in found]),
            SAME,
        )


def test_derivatives_of_joints_with_variable_axes_are_rejected():
    rng = np.random.default_rng(53)
    refused = {"universal", "skew universal", "euler spherical", "rack and pinion"}
    for name, joint in joints_of_all_types(rng).items():
        model = random_tree(rng, (-1,), (joint,))
        state = random_state(rng, model)
        if name in refused:
            with pytest.raises(
                ValueError,
                match=r"joint1 of model 'random tree' is .*, whose S changes with its position",
            ):
                rnea_derivatives(model, *state[:3])
        elif "reversed" not in name:
            rnea_derivatives(model, *state[:3])
    model = random_tree(rng, (-1,), (Universal(),))
    state = random_state(rng, model)
    with pytest.raises(ValueError, match="whose S changes"):
        jacobian_derivatives(model, *state[:3])
