"""Traced algorithms equal their NumPy form."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from random_models import MODELS, random_state, random_transform
from rigidblocks import dynamics as d
from rigidblocks.dynamics.floating_base import floating_base_coordinates, floating_base_kinematics
from rigidblocks.spatial.spatial import Transform, mcI
from rigidblocks.tracing.trace import trace

# tracing folds constants and shares subexpressions: rounding of some thousand operations, amplified
# by a solution with H
RTOL = 1e-10

ALGORITHMS = {
    "forward_dynamics_crba": lambda m, s: (
        lambda *x: d.forward_dynamics_crba(m, *x),
        s.q,
        s.qd,
        s.tau,
        s.f_ext,
    ),
    "by ltl": lambda m, s: (
        lambda q, qd, tau: d.forward_dynamics_crba(m, q, qd, tau, solve=d.solve_ltl),
        s.q,
        s.qd,
        s.tau,
    ),
    "inertia_times": lambda m, s: (lambda q, qdd: d.inertia_times(m, q, qdd), s.q, s.qdd),
    "mpy_h": lambda m, s: (lambda q, x: d.mpy_h(d.crba(m, q), d.expanded_parent(m), x), s.q, s.qdd),
    "mpy_l": lambda m, s: (lambda q, x: d.mpy_l(d.crba(m, q), d.expanded_parent(m), x), s.q, s.qdd),
    "mpy_lt": lambda m, s: (
        lambda q, x: d.mpy_lt(d.crba(m, q), d.expanded_parent(m), x),
        s.q,
        s.qdd,
    ),
    "hybrid_dynamics": lambda m, s: (
        lambda *x: np.concatenate(d.hybrid_dynamics(m, np.arange(m.nb) % 2, *x)),
        s.q,
        s.qd,
        s.qdd,
        s.tau,
        s.f_ext,
    ),
    "hybrid_dynamics_crba": lambda m, s: (
        lambda *x: np.concatenate(d.hybrid_dynamics_crba(m, np.arange(m.nb) % 2, *x)),
        s.q,
        s.qd,
        s.qdd,
        s.tau,
        s.f_ext,
    ),
    "body_poses": lambda m, s: (lambda q: np.array([X.matrix() for X in d.body_poses(m, q)]), s.q),
    "body_velocities": lambda m, s: (lambda *x: d.body_velocities(m, *x), s.q, s.qd),
    "body_accelerations": lambda m, s: (lambda *x: d.body_accelerations(m, *x), s.q, s.qd, s.qdd),
    "point_position": lambda m, s: (lambda q, p: d.point_position(m, q, m.nb - 1, p), s.q, P),
    "point_velocity": lambda m, s: (
        lambda q, qd, p: d.point_velocity(m, q, qd, m.nb - 1, p),
        s.q,
        s.qd,
        P,
    ),
    "point_acceleration": lambda m, s: (
        lambda q, qd, qdd, p: d.point_acceleration(m, q, qd, qdd, m.nb - 1, p),
        s.q,
        s.qd,
        s.qdd,
        P,
    ),
    "specific_force": lambda m, s: (
        lambda q, qd, qdd, p, g: d.specific_force(m, q, qd, qdd, m.nb - 1, p, g),
        s.q,
        s.qd,
        s.qdd,
        P,
        G,
    ),
    "body_jacobian": lambda m, s: (lambda q: d.body_jacobian(m, q, m.nb - 1), s.q),
    "body_jacobian_rate": lambda m, s: (
        lambda q, qd: d.body_jacobian_rate(m, q, qd, m.nb - 1),
        s.q,
        s.qd,
    ),
    "point_jacobian": lambda m, s: (lambda q, p: d.point_jacobian(m, q, m.nb - 1, p), s.q, P),
    "point_jacobian_rate": lambda m, s: (
        lambda q, qd, p: d.point_jacobian_rate(m, q, qd, m.nb - 1, p),
        s.q,
        s.qd,
        P,
    ),
    "momentum": lambda m, s: (lambda *x: d.momentum(m, *x), s.q, s.qd),
    "momentum_matrix": lambda m, s: (lambda q: d.momentum_matrix(m, q), s.q),
    "centre_of_mass": lambda m, s: (lambda q: d.centre_of_mass(m, q), s.q),
    "centre_of_mass_velocity": lambda m, s: (
        lambda *x: d.centre_of_mass_velocity(m, *x),
        s.q,
        s.qd,
    ),
    "centre_of_mass_jacobian": lambda m, s: (lambda q: d.centre_of_mass_jacobian(m, q), s.q),
    "centroidal_momentum": lambda m, s: (lambda *x: d.centroidal_momentum(m, *x), s.q, s.qd),
    "centroidal_momentum_matrix": lambda m, s: (lambda q: d.centroidal_momentum_matrix(m, q), s.q),
    "energy": lambda m, s: (lambda *x: d.energy(m, *x), s.q, s.qd),
    "inverse_inertia": lambda m, s: (
        lambda q: d.inverse_inertia(m, q, d.body_jacobian(m, q, m.nb - 1)),
        s.q,
    ),
    "operational_inertia": lambda m, s: (
        lambda q: d.operational_inertia(m, q, d.body_jacobian(m, q, m.nb - 1)[:1]),
        s.q,
    ),
    "handle_equation": lambda m, s: (
        lambda q, qd, tau: np.vstack(d.handle_equation(m, q, qd, tau, (0,))),
        s.q,
        s.qd,
        s.tau,
    ),
    "articulated_inertias": lambda m, s: (
        lambda q: np.array([IA.matrix() for IA in d.articulated_inertias(m, q)]),
        s.q,
    ),
    "aba_with_rotors": lambda m, s: (
        lambda q, qd, tau: d.aba_with_rotors(m, q, qd, tau, np.zeros(m.nv)),
        s.q,
        s.qd,
        s.tau,
    ),
}
P, G = np.array([0.1, -0.4, 0.3]), np.array([1.0, -2.0, 3.0])


def same(function, *values):
    expected = function(*values)
    shapes = {f"in{k}": np.shape(value) for k, value in enumerate(values)}
    graph = trace("f", lambda *inputs: {"out": function(*inputs)}, shapes)
    actual = graph(np.concatenate([np.ravel(value) for value in values])).reshape(
        graph.outputs["out"]
    )
    assert_allclose(actual, expected, rtol=0, atol=RTOL * max(1.0, np.max(np.abs(expected))))


@pytest.mark.parametrize("model", ["mixed", "all joints", "satellite"], indirect=True)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_traced_dynamics_algorithms_match_the_results_of_numpy(name, model, rng):
    same(*ALGORITHMS[name](model, random_state(rng, model)))


def test_traced_conversion_of_accelerations_matches_the_results_of_numpy(rng):
    same(
        lambda a, v: d.spatial_acceleration(2.0 * d.classical_acceleration(a, v), v),
        *rng.uniform(-1, 1, (2, 6)),
    )


@pytest.mark.slow
def test_traced_floating_base_dynamics_match_the_results_of_numpy(rng):
    model, X, v = MODELS["satellite"](), random_transform(rng), rng.uniform(-1, 1, 6)
    s = random_state(rng, model)
    q, qd, qdd, tau = s.q[7:], s.qd[6:], s.qdd[6:], s.tau[6:]
    for function, arguments in (
        (d.aba_floating, (q, qd, tau)),
        (d.forward_dynamics_crba_floating, (q, qd, tau)),
        (d.rnea_floating, (q, qd, qdd)),
        (d.bias_force_floating, (q, qd)),
    ):
        same(
            lambda *x, f=function: np.concatenate(f(model, Transform(*x[:2]), *x[2:])),
            X.E, X.r, v, *arguments, s.f_ext, G,
        )  # fmt: skip
    same(lambda q: d.body_jacobian_floating(model, q, 3), q)
    same(
        lambda *x: np.vstack(d.joint_space_floating(model, Transform(*x[:2]), *x[2:])),
        X.E,
        X.r,
        v,
        q,
        qd,
        s.f_ext,
        G,
    )
    for k in range(3):
        same(lambda q, k=k: d.crba_floating(model, q)[k], q)


def test_traced_kinematics_of_a_chain_match_the_results_of_numpy(rng):
    q, qd, qdd = (rng.uniform(-1, 1, 6) for _ in range(3))
    X, v, a = floating_base_kinematics(q, qd, qdd)
    same(lambda *x: np.concatenate(floating_base_kinematics(*x)[1:]), q, qd, qdd)
    same(
        lambda *x: np.concatenate(floating_base_coordinates(Transform(*x[:2]), *x[2:])),
        X.E,
        X.r,
        v,
        a,
    )


def test_traced_assembly_of_articulated_bodies_matches_the_results_of_numpy(rng):
    one, two = (mcI(m, rng.uniform(-1, 1, 3), np.diag([1.0, 2, 2])).matrix() for m in (2.0, 3.0))
    S, T, c, p, tau = (
        np.eye(6)[:, :2],
        np.eye(6)[:, 2:],
        *rng.uniform(-1, 1, (2, 6)),
        rng.uniform(-1, 1, 2),
    )

    def all_ways(I1, I2, p, c, tau):
        bodies = d.Handle(I1, p), d.Handle(I2, p)
        inverse = (
            d.InverseHandle(I1, p),
            d.InverseHandle(I2, p),
        )  # any two symmetric matrices are suitable
        pair = d.TwoHandles(I1, I2, I1, p, c), d.TwoHandles(I2, I1, I2, c, p)
        return np.vstack(
            [
                *d.assemble_handle(*bodies, S, c, tau),
                *d.assemble_by_constraint(*bodies, T, S, c, tau),
                *d.assemble_inverse(*inverse, T, S, c, tau),
                *d.assemble_two_handles(*pair, T, c),
            ]
        )

    same(all_ways, one, two, p, c, tau)


def test_traced_gears_and_friction_match_the_results_of_numpy(rng):
    model = MODELS["mixed"]()
    coupling = d.gears(model, {1: {0: 3.0}, 4: {0: -1.0, 2: 0.5}})
    y, yd, ydd, tau = *rng.uniform(-1, 1, (3, 5)), rng.uniform(-1, 1, 7)
    same(lambda *x: d.geared_forward_dynamics(model, coupling, *x), y, yd, tau)
    same(lambda *x: d.geared_inverse_dynamics(model, coupling, *x), y, yd, ydd)
    rotor = rng.uniform(0, 1, 7)
    same(lambda *x: d.aba_with_rotors(model, *x), *(rng.uniform(-1, 1, 7) for _ in range(3)), rotor)
    same(
        lambda q, qd: (
            d.viscous_friction(qd, 0.3)
            + d.coulomb_friction(qd, 2.0, 0.1)
            + d.joint_spring(q, 3.0, 0.2)
        ),
        tau,
        rotor,
    )
