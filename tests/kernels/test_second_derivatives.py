"""Second derivatives of dynamics.

The references are automatic differentiation, finite differences and identities of mechanics.
"""

from collections import namedtuple

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from random_models import joints_of_all_types, random_parents, random_state, random_tree
from rigidblocks.dynamics import aba, crba, rnea
from rigidblocks.dynamics.recursive_derivatives import rnea_derivatives
from rigidblocks.kernels.compiled_dynamics import derivatives, second_derivatives
from rigidblocks.robot.configuration import integrate
from rigidblocks.robot.joints import (
    Cylindrical,
    Fixed,
    Helical,
    Planar,
    Prismatic,
    Revolute,
    Rheonomic,
    SixDoF,
    Spherical,
)
from rigidblocks.robot.robots import auto_tree
from rigidblocks.tracing.trace import jacobian, trace

RTOL = 1e-12  # of two exact methods, relative to the largest element
# central differences of the first derivatives: eps / STEP and STEP^2, times the magnitude of higher
# derivatives
STEP, DIFFERENCES = 1e-5, 1e-8

Second = namedtuple("Second", "tau dq dqd H qq qv qa vv")  # in the order of the outputs

ONE_FREEDOM = (
    Revolute((1.0, 2.0, 0.5)),
    Prismatic((0.0, 1.0, 1.0)),
    Helical(0.3),
    Revolute(),
    Prismatic(),
    Revolute(),
)
SEVERAL_FREEDOMS = (
    SixDoF(),
    Spherical(),
    Cylindrical(),
    Fixed(),
    Planar(),
    Revolute((0.0, 1.0, 0.0)),
)
PARENT = (-1, 0, 1, 0, 3, 3)


def close(actual, expected, tolerance=RTOL):
    largest = max(1.0, np.max(np.abs(expected), initial=0.0))
    assert_allclose(actual, expected, rtol=0, atol=tolerance * largest)


def second(model, s):
    return Second(*second_derivatives(model, "rnea")(s.q, s.qd, s.qdd))


def spencer_derivatives(model, s):
    """Return the derivatives by automatic differentiation of Spencer's recursions."""

    def first(dq, q, qd, qdd):
        return rnea_derivatives(model, integrate(model, q, dq), qd, qdd)._asdict()

    values = {"dq": np.zeros(model.nv), "q": s.q, "qd": s.qd, "qdd": s.qdd}
    graph = trace("first", first, {name: value.shape for name, value in values.items()})
    flat = np.concatenate(list(values.values()))
    by_all = jacobian(graph, "dq", ("dq", "qd", "qdd"))(flat).reshape(3, *(model.nv,) * 3)
    by_speed = jacobian(graph, "dqd", "qd")(flat).reshape((model.nv,) * 3)
    return Second(*first(*values.values()).values(), crba(model, s.q), *by_all, by_speed)


def check(model, s):
    found = second(model, s)
    for one, other in zip(found, spencer_derivatives(model, s), strict=True):
        close(one, other)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("joints", [ONE_FREEDOM, SEVERAL_FREEDOMS])
def test_second_derivatives_match_automatic_differentiation_of_recursive_derivatives(joints, rng):
    model = random_tree(rng, PARENT, joints)
    check(model, random_state(rng, model))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_second_derivatives_of_random_trees_match_automatic_differentiation(seed):
    rng = np.random.default_rng(seed)
    parent = random_parents(rng, int(rng.integers(3, 7)))
    kinds = ONE_FREEDOM + SEVERAL_FREEDOMS
    model = random_tree(
        rng, parent, tuple(kinds[k] for k in rng.integers(len(kinds), size=7)[: len(parent)])
    )
    check(model, random_state(rng, model))


@pytest.mark.slow
def test_second_derivatives_match_finite_differences(rng):
    model = random_tree(rng, PARENT, SEVERAL_FREEDOMS)
    s, first = random_state(rng, model), derivatives(model, "rnea")

    def change(k, at):
        steps = STEP * np.eye(model.nv)
        return np.stack([(first(*at(h))[k] - first(*at(-h))[k]) / (2 * STEP) for h in steps], -1)

    found = second(model, s)
    for k, value in enumerate(first(s.q, s.qd, s.qdd)):
        assert_array_equal(found[k], value)
    close(found.qq, change(1, lambda h: (integrate(model, s.q, h), s.qd, s.qdd)), DIFFERENCES)
    close(found.qv, change(1, lambda h: (s.q, s.qd + h, s.qdd)), DIFFERENCES)
    close(found.qa, change(1, lambda h: (s.q, s.qd, s.qdd + h)), DIFFERENCES)
    close(found.vv, change(2, lambda h: (s.q, s.qd + h, s.qdd)), DIFFERENCES)


# forward dynamics


@pytest.mark.slow
@pytest.mark.parametrize("joints", [ONE_FREEDOM[:4], SEVERAL_FREEDOMS[1:5]])
def test_second_derivatives_of_aba_match_automatic_differentiation(joints, rng):
    """Automatic differentiation of RBDA Table 7.1, applied twice: by coordinate k, then by j."""
    model = random_tree(rng, (-1, 0, 1, 1), joints)
    s, still = random_state(rng, model), np.zeros(model.nv)

    def moved(dk, dj, q, qd, tau):
        return {"qdd": aba(model, integrate(model, integrate(model, q, dk), dj), qd, tau)}

    values = {"dk": still, "dj": still, "q": s.q, "qd": s.qd, "tau": s.tau}
    graph = trace("moved", moved, {name: value.shape for name, value in values.items()})
    flat, cube = np.concatenate(list(values.values())), (model.nv,) * 3
    by_q = jacobian(jacobian(graph, "qdd", "dj"), "dqdd_ddj", ("dk", "qd", "tau"))(flat)
    by_speed = jacobian(jacobian(graph, "qdd", "qd"), "dqdd_dqd", "qd")(flat)
    expected = (*by_q.reshape(3, *cube), by_speed.reshape(cube))
    found = second_derivatives(model, "aba")(s.q, s.qd, s.tau)
    condition = np.linalg.cond(crba(model, s.q))
    for one, other in zip(found[4:], expected, strict=True):
        close(one, other, RTOL * condition)
    for one, other in zip(found, derivatives(model, "aba")(s.q, s.qd, s.tau), strict=False):
        assert_array_equal(one, other)


@pytest.mark.slow
def test_second_derivatives_of_forward_and_inverse_dynamics_are_related_by_the_chain_rule(rng):
    """The second derivative of rnea(q, qd, aba(q, qd, tau)) = tau along any motion is zero."""
    model = auto_tree(9, 2, 0.7)
    s = random_state(rng, model)
    forward = second_derivatives(model, "aba")(s.q, s.qd, s.tau)
    qdd, A, B, _, qq, qv, _, vv = forward
    inverse = Second(*second_derivatives(model, "rnea")(s.q, s.qd, qdd))
    x, y = rng.normal(size=(2, model.nv))  # directions of q and qd
    change = A @ x + B @ y
    curve = qq @ x @ x + 2 * (qv @ y @ x) + vv @ y @ y
    bent = inverse.qq @ x @ x + 2 * (inverse.qv @ y @ x) + inverse.vv @ y @ y
    mixed = 2 * (inverse.qa @ change @ x)
    condition = np.linalg.cond(inverse.H)
    close(inverse.H @ curve + mixed, -bent, RTOL * condition)
    close(qq, qq.transpose(0, 2, 1), RTOL * condition)


# laws of mechanics


@pytest.mark.slow
def test_second_derivatives_with_respect_to_velocity_are_the_christoffel_symbols(rng):
    """C - gravity torques = qd^T (ddtau_dqd_dqd / 2) qd with the Christoffel symbols of H.

    2 G_ijk = dH_ij/dq_k + dH_ik/dq_j - dH_jk/dq_i.
    """
    model = auto_tree(3, skew=0.7)
    s = random_state(rng, model)
    found, still = second(model, s), np.zeros(model.nv)
    weights = rnea(model, s.q, still, s.qdd)
    close(found.vv @ s.qd @ s.qd / 2, rnea(model, s.q, s.qd, s.qdd) - weights)
    dH = found.qa.transpose(0, 2, 1)  # [i, j, k]: H_ij by q_k
    close(found.vv, dH + dH.transpose(0, 2, 1) - dH.transpose(2, 1, 0))
    close(dH, dH.transpose(1, 0, 2))
    assert_array_equal(found.qq, found.qq.transpose(0, 2, 1))
    assert_array_equal(found.vv, found.vv.transpose(0, 2, 1))


@pytest.mark.slow
def test_second_derivatives_of_gravity_torques_are_symmetric(rng):
    model = random_tree(rng, PARENT, ONE_FREEDOM)
    s, still = random_state(rng, model), np.zeros(model.nv)
    qq = Second(*second_derivatives(model)(s.q, still, still)).qq
    for order in ((1, 0, 2), (2, 1, 0), (0, 2, 1)):
        close(qq, qq.transpose(order))


@pytest.mark.slow
@pytest.mark.parametrize("joint", [Spherical(), SixDoF()])
def test_second_derivatives_of_ball_joints_commute_up_to_the_lie_bracket(joint, rng):
    """The difference of the elements [j, k] and [k, j] is the derivative along S_k x S_j.

    The symmetric part is the Hessian along motions of constant velocity.
    """
    model = random_tree(rng, (-1, 0, 1), (Revolute(), joint, Revolute()))
    s = random_state(rng, model)
    found = second(model, s)
    S = joint.jcalc(s.q[model.q_slices[1]], np.zeros(joint.nv)).S
    bracket, own = np.zeros((model.nv,) * 3), model.v_slices[1]
    for j in range(joint.nv):
        across = -model.algebra.crm(S[:, j]) @ S
        bracket[own, own.start + j, own] = np.linalg.lstsq(S, across, rcond=None)[0]
    by_bracket = np.einsum("il,ljk->ijk", found.dq, bracket)
    close(found.qq - found.qq.transpose(0, 2, 1), by_bracket)
    assert_array_equal(found.vv, found.vv.transpose(0, 2, 1))
    u, h = rng.normal(size=model.nv), 1e-4  # rounding error eps / h^2
    one, other = (rnea(model, integrate(model, s.q, w * u), s.qd, s.qdd) for w in (h, -h))
    close(found.qq @ u @ u, (one - 2 * found.tau + other) / h**2, 1e-6)


@pytest.mark.slow
def test_second_derivatives_between_joints_of_different_branches_are_exactly_zero():
    rng = np.random.default_rng(3)
    model = random_tree(rng, (-1, -1, 0, 1), (Revolute(),) * 4)
    arm = np.array([0, 1, 0, 1])
    i, j, k = np.ix_(arm, arm, arm)
    found = second(model, random_state(rng, model))
    for tensor in found[4:]:
        assert not np.any(tensor[(i != j) | (j != k)])
        assert np.any(tensor)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["rnea", "aba"])
def test_batched_second_derivatives_match_second_derivatives_of_single_states(algorithm, rng):
    model = random_tree(rng, (-1, 0, 0), (Revolute(), Spherical(), Revolute()))
    states = [random_state(rng, model) for _ in range(11)]
    given = {"rnea": "qdd", "aba": "tau"}[algorithm]
    rows = [np.array([getattr(s, part) for s in states]) for part in ("q", "qd", given)]
    rows[1][5, 0] = np.nan
    batches = [second_derivatives(model, algorithm, batch=True, lanes=n)(*rows) for n in (2, 8)]
    for one, same in zip(*batches, strict=True):
        assert_array_equal(one, same)
    single = second_derivatives(model, algorithm)
    rtol = {"rnea": RTOL, "aba": RTOL * np.linalg.cond(crba(model, states[0].q))}[algorithm]
    for k in (n for n in range(11) if n != 5):
        for batched, one in zip(batches[0], single(*(part[k] for part in rows)), strict=True):
            close(batched[k], one, rtol)


# invalid arguments


def test_unsupported_second_derivatives_are_rejected(rng):
    with pytest.raises(ValueError, match="the second derivatives of 'crba' are not available"):
        second_derivatives(auto_tree(2), "crba")
    moved = random_tree(rng, (-1,), (Rheonomic(Revolute(), Revolute(), lambda t: 0.3 * t),))
    with pytest.raises(ValueError, match=r"joint1 of .*, which depends on time; second der"):
        second_derivatives(moved.evaluate_at(0.5))
    refused = {"universal", "skew universal", "euler spherical", "rack and pinion"}
    for name in refused:
        joint = joints_of_all_types(rng)[name]
        with pytest.raises(ValueError, match=r"joint1 of .*, whose S depends on its position"):
            second_derivatives(random_tree(rng, (-1,), (joint,)))
