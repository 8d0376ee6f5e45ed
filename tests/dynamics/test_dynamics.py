"""Identities of mechanics for all models of the `model` fixture in random states."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from random_models import MODELS, random_state, random_tree
from rigidblocks.dynamics import (
    aba,
    bias_force,
    crba,
    energy,
    kinetic_energy,
    potential_energy,
    rnea,
)
from rigidblocks.robot.configuration import integrate
from rigidblocks.robot.joints import Helical, Prismatic, Revolute
from rigidblocks.robot.model import Model
from rigidblocks.robot.robots import planar2
from rigidblocks.spatial.spatial import Array, RigidInertia, Transform, rotx, roty, xlt

RTOL = 1e-12  # rounding errors of a few hundred products, relative to the largest element
SOLVE = 1e-13  # relative error of solutions with H, per unit of its condition number
# fourth-order differences with step 1e-3: truncation 3e-14 times the fifth derivative, at most
# (number of angles)^5
DIFFERENCE = 1e-7


def close(actual: Any, expected: Any, rtol: float = RTOL) -> None:
    assert_allclose(actual, expected, rtol=0, atol=rtol * max(1.0, np.max(np.abs(expected))))


def rate(f: Callable[[float], Any], h: float = 1e-3) -> Any:
    """Return the derivative of f at 0, by fourth-order central differences."""
    return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)


def gradient(f: Callable[[Array], Any], model: Model, q: Array) -> Array:
    """Return the derivatives of f along each velocity variable of the model."""
    return np.array([rate(lambda s, e=e: f(integrate(model, q, s * e))) for e in np.eye(model.nv)])


# forward and inverse dynamics


@pytest.mark.parametrize("external", [False, True])
def test_aba_inverts_rnea(model, rng, external):
    s = random_state(rng, model)
    f_ext = s.f_ext if external else None
    condition = np.linalg.cond(crba(model, s.q))
    close(
        aba(model, s.q, s.qd, rnea(model, s.q, s.qd, s.qdd, f_ext), f_ext), s.qdd, SOLVE * condition
    )
    close(
        rnea(model, s.q, s.qd, aba(model, s.q, s.qd, s.tau, f_ext), f_ext), s.tau, SOLVE * condition
    )


def test_rnea_equals_inertia_matrix_times_acceleration_plus_bias_force(model, rng):
    s = random_state(rng, model)
    H, C = crba(model, s.q), bias_force(model, s.q, s.qd, s.f_ext)
    close(rnea(model, s.q, s.qd, s.qdd, s.f_ext), H @ s.qdd + C)


def test_aba_accelerations_satisfy_the_equation_of_motion(model, rng):
    s = random_state(rng, model)
    H = crba(model, s.q)
    expected = np.linalg.solve(H, s.tau - bias_force(model, s.q, s.qd))
    close(aba(model, s.q, s.qd, s.tau), expected, SOLVE * np.linalg.cond(H))


def test_inertia_matrix_is_symmetric_positive_definite(model, rng):
    for _ in range(5):
        H = crba(model, random_state(rng, model).q)
        close(H, H.T)  # to rounding: S^T I S of joints with nv > 1 is computed column by column
        assert np.linalg.eigvalsh(H)[0] > 0


def test_columns_of_the_inertia_matrix_are_joint_forces_of_unit_accelerations(model, rng):
    q, zero = random_state(rng, model).q, np.zeros(model.nv)
    columns = [rnea(model, q, zero, e, gravity=np.zeros(3)) for e in np.eye(model.nv)]
    close(crba(model, q), np.transpose(columns))


def test_inertia_matrix_at_integer_coordinates_is_not_rounded():
    arm = planar2()
    assert_array_equal(crba(arm, np.array([0, 1])), crba(arm, np.array([0.0, 1.0])))


def test_inertia_matrix_is_exactly_zero_between_different_branches(model, rng):
    H, ancestors = crba(model, random_state(rng, model).q), []
    for i, p in enumerate(model.parent):
        ancestors.append({i} | (ancestors[p] if p >= 0 else set()))
    for i in range(model.nb):
        for j in range(model.nb):
            related = i in ancestors[j] or j in ancestors[i]
            block = H[model.v_slices[i], model.v_slices[j]]
            assert related or not block.any(), (i, j)


def test_bias_force_without_gravity_is_quadratic_in_velocity(model, rng):
    s, none = random_state(rng, model), np.zeros(3)
    close(
        bias_force(model, s.q, 3 * s.qd, gravity=none),
        9 * bias_force(model, s.q, s.qd, gravity=none),
    )


def test_scaling_all_masses_and_forces_does_not_change_the_accelerations(model, rng):
    s, k = random_state(rng, model), 7.3
    heavy = replace(
        model, inertia=tuple(RigidInertia(k * b.m, k * b.h, k * b.I) for b in model.inertia)
    )
    qdd = aba(model, s.q, s.qd, s.tau, s.f_ext)
    close(
        aba(heavy, s.q, s.qd, k * s.tau, k * s.f_ext), qdd, SOLVE * np.linalg.cond(crba(model, s.q))
    )


# energy and power


def test_kinetic_energy_is_the_quadratic_form_of_the_inertia_matrix(model, rng):
    s = random_state(rng, model)
    T = kinetic_energy(model, s.q, s.qd)
    assert T > 0
    close(T, s.qd @ crba(model, s.q) @ s.qd / 2)


def test_power_of_joint_torques_equals_the_time_derivative_of_the_total_energy(model, rng):
    s = random_state(rng, model)
    qdd = aba(model, s.q, s.qd, s.tau)
    energy_rate = rate(lambda t: energy(model, integrate(model, s.q, s.qd * t), s.qd + qdd * t))
    close(energy_rate, s.tau @ s.qd, DIFFERENCE)


def test_gravity_forces_are_the_gradient_of_the_potential_energy(model, rng):
    q, zero = random_state(rng, model).q, np.zeros(model.nv)
    close(
        rnea(model, q, zero, zero),
        gradient(lambda q: potential_energy(model, q), model, q),
        DIFFERENCE,
    )


def test_bias_force_satisfies_the_lagrange_equation(coordinate_model, rng):
    # Lagrange: C = Hdot qd - dT/dq without gravity
    model = coordinate_model
    s = random_state(rng, model)
    Hdot = rate(lambda t: crba(model, s.q + s.qd * t))
    dT = gradient(lambda q: kinetic_energy(model, q, s.qd), model, s.q)
    close(bias_force(model, s.q, s.qd, gravity=np.zeros(3)), Hdot @ s.qd - dT, DIFFERENCE)


def test_inertia_derivative_minus_twice_the_coriolis_matrix_is_skew_symmetric(
    coordinate_model, rng
):
    # the Coriolis matrix consists of Christoffel symbols; its product with qd is the bias force
    # without gravity
    model = coordinate_model
    s, none = random_state(rng, model), np.zeros(3)
    Hdot = rate(lambda t: crba(model, s.q + s.qd * t))
    dH = gradient(lambda q: crba(model, q), model, s.q)  # dH[k, i, j] = dH_ij / dq_k
    christoffel = (dH + np.transpose(dH, (2, 1, 0)) - np.transpose(dH, (1, 0, 2))) / 2  # [k, i, j]
    coriolis = np.einsum("kij,k->ij", christoffel, s.qd)
    close(coriolis @ s.qd, bias_force(model, s.q, s.qd, gravity=none), DIFFERENCE)
    close(Hdot - 2 * coriolis, -(Hdot - 2 * coriolis).T, DIFFERENCE)


# gravity and external forces


def base_transforms(model: Model, q: Array) -> list[Transform]:
    X0: list[Transform] = []
    for i, p in enumerate(model.parent):
        Xup = (
            model.joint[i].jcalc(q[model.q_slices[i]], np.zeros(model.joint[i].nv)).XJ
            @ model.Xtree[i]
        )
        X0.append(Xup @ X0[p] if p >= 0 else Xup)
    return X0


def test_gravity_is_equivalent_to_the_body_weights_as_external_forces(model, rng):
    s, a_g = random_state(rng, model), np.concatenate([np.zeros(3), model.gravity])
    X0 = base_transforms(model, s.q)
    weights = np.array(
        [X.T @ (body @ (X @ a_g)) for X, body in zip(X0, model.inertia, strict=True)]
    )
    tau = rnea(model, s.q, s.qd, s.qdd)
    close(rnea(model, s.q, s.qd, s.qdd, weights, gravity=np.zeros(3)), tau)
    close(
        aba(model, s.q, s.qd, s.tau, weights, gravity=np.zeros(3)),
        aba(model, s.q, s.qd, s.tau),
        SOLVE * np.linalg.cond(crba(model, s.q)),
    )


def test_gravity_argument_overrides_the_gravity_of_the_model(model, rng):
    s, g = random_state(rng, model), rng.uniform(-10, 10, 3)
    moved = model.with_gravity(g)
    assert_array_equal(rnea(model, s.q, s.qd, s.qdd, gravity=g), rnea(moved, s.q, s.qd, s.qdd))
    assert_array_equal(aba(model, s.q, s.qd, s.tau, gravity=g), aba(moved, s.q, s.qd, s.tau))
    assert potential_energy(model, s.q, g) == potential_energy(moved, s.q)


def test_power_of_external_forces_is_force_times_body_velocity(model, rng):
    # the body velocity v comes from finite differences of the pose: d(X0)/dt = -v x X0, with v in
    # body coordinates (RBDA Eq 2.45)
    s = random_state(rng, model)
    power = 0.0
    for i, X in enumerate(base_transforms(model, s.q)):
        Xdot = rate(
            lambda t, i=i: base_transforms(model, integrate(model, s.q, s.qd * t))[i].matrix()
        )
        cross = -Xdot @ np.linalg.inv(X.matrix())
        v = np.array([cross[2, 1], cross[0, 2], cross[1, 0], cross[5, 1], cross[3, 2], cross[4, 0]])
        power += v @ X.force(s.f_ext[i])
    tau_ext = rnea(model, s.q, s.qd, s.qdd) - rnea(model, s.q, s.qd, s.qdd, s.f_ext)
    close(tau_ext @ s.qd, power, DIFFERENCE)


def test_relative_motion_in_free_fall_does_not_depend_on_gravity(rng):
    # the first joint slides along gravity and accelerates with g; the accelerations of the other
    # joints are those without gravity
    arm = random_tree(rng, (-1, 0, 1, 1), (Prismatic(), Revolute(), Helical(0.2), Revolute()))
    arm = replace(
        arm, Xtree=(xlt([0.0, 0.0, 0.0]), *arm.Xtree[1:]), gravity=np.array([0.0, 0.0, -9.81])
    )
    s = random_state(rng, arm)
    difference = aba(arm, s.q, s.qd, s.tau) - aba(arm, s.q, s.qd, s.tau, gravity=np.zeros(3))
    close(difference, [-9.81, 0, 0, 0], SOLVE * np.linalg.cond(crba(arm, s.q)))


def test_body_on_three_orthogonal_prismatic_joints_has_the_acceleration_of_gravity(rng):
    slides = random_tree(rng, (-1, 0, 1), (Prismatic(),) * 3)
    slides = replace(slides, Xtree=(xlt([0.1, 0.2, 0.3]), rotx(np.pi / 2), roty(np.pi / 2)))
    zero = np.zeros(3)
    axes = np.array(
        [X.E[2] for X in base_transforms(slides, zero)]
    )  # each body's z axis in base coordinates
    close(axes @ axes.T, np.eye(3))
    close(aba(slides, zero, zero, zero), axes @ slides.gravity)


@pytest.mark.parametrize("algorithm", [aba, rnea])
def test_zero_quaternion_is_rejected_with_the_name_of_its_joint(algorithm):
    model = MODELS["satellite"]()
    q, v = np.zeros(model.nq), np.zeros(model.nv)
    with pytest.raises(
        ValueError, match=r"the quaternion of joint1 of model '.*' must not be zero"
    ):
        algorithm(model, q, v, v)
    with pytest.raises(
        ValueError, match=r"the quaternion of joint1 of model '.*' must not be zero"
    ):
        crba(model, q)
