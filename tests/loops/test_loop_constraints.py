"""Loop constraints K, k and delta of complete models (RBDA 8.2, Table 8.4).

The tests compare the constraints with the joint models, with each other and with the motion.
"""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from loop_models import INDEPENDENT, LOOP_JOINTS, LOOP_MODELS, four_bar, loop_model, one_loop
from random_models import random_transform
from rigidblocks.dynamics import body_jacobian, body_poses, crba
from rigidblocks.dynamics.loops import closed_loop_dynamics, loop_constraints
from rigidblocks.dynamics.loops.constraints import (
    active_forces,
    baumgarte,
    loop_joint_motion,
    nearest_common_ancestor,
)
from rigidblocks.robot.configuration import integrate
from rigidblocks.robot.joints import Reversed
from rigidblocks.spatial.spatial import Transform, xlt
from rigidblocks.tracing.trace import trace

RTOL = 1e-11  # a few thousand rounding errors of values up to 10
CLOSED = 1e-11  # residual of delta after Newton's iteration
DIFFERENCE = 1e-8  # fourth-order differences with step 1e-3 over five joints


def equal(actual, expected, rtol=RTOL):
    assert_allclose(
        np.asarray(actual, float),
        expected,
        rtol=0,
        atol=rtol * max(1.0, np.max(np.abs(expected), initial=0)),
    )


def slope(f, h=1e-3):
    return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)


@pytest.fixture(params=[*LOOP_MODELS, *(f"one {name}" for name in LOOP_JOINTS)])
def closed_loops(request, rng):
    name = request.param
    return loop_model(name) if name in LOOP_MODELS else one_loop(name.removeprefix("one "), rng)


def test_states_of_the_loop_test_models_satisfy_their_constraints(closed_loops):
    model, s = closed_loops
    c = loop_constraints(model, s.q, s.qd)
    assert c.K.shape == (model.nc, model.nv)
    equal(c.delta, np.zeros(model.nc), CLOSED)
    equal(c.K @ s.qd, np.zeros(model.nc), CLOSED)


def test_constraint_jacobian_gives_the_relative_velocity_along_the_constraints(closed_loops, rng):
    # K qd = T^T (v_s - v_p), from the body Jacobians
    model, s = closed_loops
    qd = rng.uniform(-1, 1, model.nv)
    K = loop_constraints(model, s.q, qd).K
    identity = model.algebra.identity()
    X0 = [*body_poses(model, s.q), identity]
    n = len(model.algebra.zero())
    J = [*(body_jacobian(model, s.q, i) for i in range(model.nb)), np.zeros((n, model.nv))]
    for loop, rows in zip(model.loops, model.constraint_slices, strict=True):
        X = loop.Xs @ X0[loop.successor] @ (loop.Xp @ X0[loop.predecessor]).inverse()
        vJ = loop.Xs @ (J[loop.successor] @ qd) - X @ (loop.Xp @ (J[loop.predecessor] @ qd))
        T = loop.joint.constraint_forces(loop.joint.nearest(X))
        equal(K[rows] @ qd, T.T @ vJ, 1e-10)


def test_loop_velocity_error_is_the_time_derivative_of_the_constraint_error(closed_loops, rng):
    model, s = closed_loops
    qd = rng.uniform(-1, 1, model.nv)
    rate = slope(lambda t: loop_constraints(model, integrate(model, s.q, t * qd), qd).delta)
    equal(loop_constraints(model, s.q, qd).K @ qd, rate, DIFFERENCE)


def test_loop_acceleration_error_is_the_time_derivative_of_the_velocity_error(closed_loops):
    # d(K qd)/dt = K qdd - k
    model, s = closed_loops

    def velocity_error(t):
        qd = s.qd + t * s.qdd
        return loop_constraints(model, integrate(model, s.q, t * s.qd), qd).K @ qd

    c = loop_constraints(model, s.q, s.qd)
    equal(c.K @ s.qdd - c.k, slope(velocity_error), DIFFERENCE)


def test_loop_constraint_forces_do_no_work(closed_loops, rng):
    # (K^T lambda) qd = 0 for any lambda (RBDA Eq 8.31)
    model, s = closed_loops
    lam = rng.uniform(-10, 10, model.nc)
    assert abs(lam @ loop_constraints(model, s.q, s.qd).K @ s.qd) <= RTOL * 10 * model.nc


def test_constraint_jacobian_is_zero_for_joints_outside_the_loop(closed_loops):
    # eps_lj = eps_sj - eps_pj (RBDA Eq 8.20): joints that carry both bodies cancel
    model, s = closed_loops
    K = loop_constraints(model, s.q, s.qd).K
    for loop, rows in zip(model.loops, model.constraint_slices, strict=True):
        for j, columns in enumerate(model.v_slices):
            epsilon = carries(model, j, loop.successor) - carries(model, j, loop.predecessor)
            if epsilon == 0:
                assert np.all(K[rows, columns] == 0.0)


def carries(model, j, i):
    """Return eps_ij: 1 if joint j is on the path from the base to body i, else 0."""
    while i >= 0 and i != j:
        i = model.parent[i]
    return int(i == j)


def test_nearest_common_ancestor_is_the_last_body_on_both_paths_from_the_base():
    model, _ = loop_model("three loops")
    for i in range(-1, model.nb):
        for j in range(-1, model.nb):
            both = [b for b in range(model.nb) if carries(model, b, i) and carries(model, b, j)]
            assert nearest_common_ancestor(model, i, j) == max(both, default=-1)


def test_exchange_of_the_two_bodies_of_a_loop_joint_does_not_change_the_accelerations():
    # the rows of K span the same space, and the accelerations are the same
    model, s = loop_model("three loops")
    swapped = replace(
        model,
        loops=tuple(
            replace(
                l,
                joint=Reversed(l.joint),
                predecessor=l.successor,
                successor=l.predecessor,
                Xp=l.Xs,
                Xs=l.Xp,
            )
            for l in model.loops
        ),
    )
    one, two = (closed_loop_dynamics(m, s.q, s.qd, s.tau).qdd for m in (model, swapped))
    equal(one, two, 1e-9)


@pytest.mark.parametrize("name", ["floating loops", "three loops", "planar loops", "doubled"])
def test_traced_and_numpy_values_of_loop_constraints_agree(name):
    model, s = loop_model(name)

    def constraints(q, qd):
        return loop_constraints(model, q, qd)._asdict()

    graph = trace("constraints", constraints, {"q": (model.nq,), "qd": (model.nv,)})
    expected = np.concatenate([np.ravel(value) for value in constraints(s.q, s.qd).values()])
    equal(graph(np.concatenate([s.q, s.qd])), expected)


# far from the base


def test_accelerations_of_a_free_floating_mechanism_do_not_depend_on_its_position():
    # 10 km from the base: no quantity is relative to the base, so no precision is lost; the
    # resolution of the position is 1e-12 m
    model, s = loop_model("floating loops")
    far = s.q.copy()
    far[4:7] += [1e4, -2e4, 5e3]
    near, there = (closed_loop_dynamics(model, q, s.qd, s.tau) for q in (s.q, far))
    scale = np.max(np.abs(near.qdd)) * np.linalg.cond(crba(model, s.q))
    assert_allclose(there.qdd, near.qdd, rtol=0, atol=1e-15 * scale)
    equal(loop_constraints(model, far, s.qd).delta, loop_constraints(model, s.q, s.qd).delta, 1e-15)


def test_accelerations_of_a_mechanism_do_not_depend_on_its_mounting_point_on_the_base():
    # the loop joint frames are far from the origin of the base, where coordinates have a resolution
    # of 4e-12 m
    model, s = loop_model("three loops")
    shift = np.array([1e4, -2e4, 5e3])
    Xtree = [
        Transform(X.E, X.r + shift) if p < 0 else X
        for p, X in zip(model.parent, model.Xtree, strict=True)
    ]
    loops = [replace(l, Xp=l.Xp @ xlt(shift)) if l.predecessor < 0 else l for l in model.loops]
    moved = replace(model, Xtree=tuple(Xtree), loops=tuple(loops))
    near, there = (closed_loop_dynamics(m, s.q, s.qd, s.tau) for m in (model, moved))
    assert_allclose(
        there.qdd, near.qdd, rtol=0, atol=4e-12 * near.condition * np.max(np.abs(near.qdd))
    )
    assert np.max(np.abs(loop_constraints(moved, s.q, s.qd).delta)) < 1e-10


# stabilization, loop joint motion and loop joint forces


@pytest.mark.parametrize("name", INDEPENDENT)
def test_stabilized_constraint_errors_satisfy_a_critically_damped_oscillator(name, rng):
    # K qdd = k + k_stab: d(K qd)/dt = -2/T K qd - delta/T^2 (RBDA Eq 8.22)
    model, s = loop_model(name)
    q, qd, T = (
        integrate(model, s.q, rng.uniform(-1e-3, 1e-3, model.nv)),
        s.qd + rng.uniform(-0.1, 0.1, model.nv),
        0.1,
    )
    c = loop_constraints(model, q, qd)
    stabilized = baumgarte(c, qd, T)
    equal(stabilized.k - c.k, -2 / T * (c.K @ qd) - c.delta / T**2)
    motion = closed_loop_dynamics(model, q, qd, s.tau, T_stab=T)
    equal(c.K @ motion.qdd, stabilized.k, 1e-9)


def test_constraint_stabilization_rejects_an_invalid_time_constant():
    model, s = loop_model("planar loops")
    with pytest.raises(ValueError, match="T_stab of a stabilization must be positive, not 0"):
        baumgarte(loop_constraints(model, s.q, s.qd), s.qd, 0.0)


def test_loop_joint_variables_reproduce_the_transform_between_the_two_joint_frames(
    closed_loops,
):
    model, s = closed_loops
    X0 = [*body_poses(model, s.q), model.algebra.identity()]
    for loop, q, qd in zip(model.loops, *loop_joint_motion(model, s.q, s.qd), strict=True):
        X = loop.Xs @ X0[loop.successor] @ (loop.Xp @ X0[loop.predecessor]).inverse()
        equal(loop.joint.jcalc(q, qd).XJ.matrix(), X.matrix(), 1e-10)


def test_joint_forces_equivalent_to_loop_joint_forces_have_the_same_power(closed_loops, rng):
    # tau^a qd = sum tau_k qd_k (RBDA Eq 8.33)
    model, s = closed_loops
    _, velocities = loop_joint_motion(model, s.q, s.qd)
    loop_qd = np.concatenate(velocities)
    loop_tau = rng.uniform(-1, 1, len(loop_qd))
    equal(active_forces(model, s.q, loop_tau) @ s.qd, loop_tau @ loop_qd, 1e-10)


def test_wrong_number_of_active_loop_joint_forces_is_rejected():
    with pytest.raises(ValueError, match=r"loop_tau needs 1 elements, not 2"):
        active_forces(four_bar(), np.zeros(3), np.zeros(2))


def test_rotation_of_a_spherical_joint_frame_rotates_the_constraint_error(rng):
    # the components of the error rotate with the frame
    model, s = loop_model("three loops")
    q = integrate(model, s.q, rng.uniform(-0.1, 0.1, model.nv))
    E = random_transform(rng).E
    loop = model.loops[0]
    turned = replace(
        model, loops=(replace(loop, Xs=Transform(E, np.zeros(3)) @ loop.Xs), *model.loops[1:])
    )
    one, two = (loop_constraints(m, q, s.qd) for m in (model, turned))
    rows = model.constraint_slices[0]
    equal(two.delta[rows], E @ one.delta[rows])
    equal(two.K[rows], E @ one.K[rows])


@pytest.mark.parametrize("body", [-2, 3])
@pytest.mark.parametrize("role", ["predecessor", "successor"])
def test_loop_joint_on_an_unknown_body_is_rejected(role, body):
    model = four_bar()
    loop = replace(model.loops[0], **{role: body})
    message = rf"has the unknown {role} {body}; the bodies are -1 \(the base\) .. 2"
    with pytest.raises(ValueError, match=message):
        replace(model, loops=(loop,))
