import numpy as np
import pytest
from numpy.testing import assert_allclose

from maximal import forward_dynamics, jacobians, poses
from random_models import random_parents, random_state, random_tree
from rigidblocks.dynamics import aba, crba, kinetic_energy, potential_energy, rnea

# both methods solve linear systems: the rounding error grows with the condition numbers of H and
# of the larger matrix of the oracle
RTOL = 1e-10


def relative(actual, expected, H):
    assert_allclose(
        actual, expected, rtol=0, atol=RTOL * np.linalg.cond(H) * max(1.0, np.max(np.abs(expected)))
    )


@pytest.mark.parametrize("f_ext", [False, True])
def test_accelerations_of_aba_match_maximal_coordinate_dynamics(model, rng, f_ext):
    s = random_state(rng, model)
    wrenches = s.f_ext if f_ext else None
    oracle = forward_dynamics(model, s.q, s.qd, s.tau, wrenches)
    relative(aba(model, s.q, s.qd, s.tau, wrenches), oracle.qdd, crba(model, s.q))


@pytest.mark.parametrize("seed", range(8))
def test_accelerations_of_aba_match_maximal_coordinate_dynamics_on_random_trees(seed):
    rng = np.random.default_rng(seed)
    model = random_tree(rng, random_parents(rng, 8))
    s = random_state(rng, model)
    oracle = forward_dynamics(model, s.q, s.qd, s.tau, s.f_ext)
    relative(aba(model, s.q, s.qd, s.tau, s.f_ext), oracle.qdd, crba(model, s.q))


def test_constraint_forces_do_no_work(model, rng):
    s = random_state(rng, model)
    oracle = forward_dynamics(model, s.q, s.qd, s.tau, s.f_ext)
    size = np.abs(s.tau @ s.qd) + kinetic_energy(model, s.q, s.qd)
    assert abs(oracle.constraint_power) < 1e-9 * size


def test_inertia_matrix_is_the_sum_of_projected_body_inertias(model, rng):
    # H = sum J_i^T I_i J_i, all in base coordinates
    q = random_state(rng, model).q
    X, J = poses(model, q), jacobians(model, q)
    H = sum(
        j.T @ x.T @ body.matrix() @ x @ j for j, x, body in zip(J, X, model.inertia, strict=True)
    )
    assert_allclose(crba(model, q), H, rtol=0, atol=1e-12 * np.max(H))


def test_external_force_reduces_joint_forces_by_the_transposed_jacobian_times_the_force(model, rng):
    # f_ext in base coordinates: tau = H qdd + C - sum J_i^T f_i
    s = random_state(rng, model)
    tau = rnea(model, s.q, s.qd, s.qdd)
    expected = tau - sum(j.T @ f for j, f in zip(jacobians(model, s.q), s.f_ext, strict=True))
    assert_allclose(
        rnea(model, s.q, s.qd, s.qdd, s.f_ext),
        expected,
        rtol=0,
        atol=1e-12 * np.max(np.abs(expected)) * 10,
    )


def test_potential_energy_equals_minus_gravity_times_the_first_moment_of_mass(model, rng):
    # the lower left block of the inertia matrix in base coordinates contains the first moment of
    # mass
    q = random_state(rng, model).q
    V = 0.0
    for x, body in zip(poses(model, q), model.inertia, strict=True):
        inertia = x.T @ body.matrix() @ x
        moment = np.array(
            [inertia[2, 4], inertia[0, 5], inertia[1, 3]]
        )  # h from the skew matrix of h
        V -= model.gravity @ moment
    assert_allclose(potential_energy(model, q), V, rtol=1e-12, atol=1e-12)
