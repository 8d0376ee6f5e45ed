"""Linearization of closed loops (Spencer 2004, chapter 4).

The references are finite differences, traced derivatives and known properties of the eigenvalues.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from loop_models import closed_state, loop_model, with_loops
from random_models import random_tree
from rigidblocks.dynamics import rnea
from rigidblocks.dynamics.loops import (
    LoopLinearization,
    closed_loop_dynamics,
    loop_constraints,
    loop_linearization,
    position_constraints,
)
from rigidblocks.robot.configuration import random_configuration
from rigidblocks.robot.joints import Cylindrical, Helical, LoopJoint, Prismatic, Revolute
from rigidblocks.robot.model import Model
from rigidblocks.spatial.spatial import identity, mcI, xlt
from rigidblocks.tracing.trace import jacobian, trace

# rounding error times the condition numbers of H and of the coordinates, about 1e3
SAME = 1e-9
# central differences of the reduced dynamics: STEP^2, and eps / STEP times these numbers
STEP = 1e-5
DIFFERENCES = 1e-6
# the error of multiple eigenvalues is the square root of a rounding error
MULTIPLE = 1e-4


def close(actual, expected, tolerance=SAME):
    assert_allclose(
        actual, expected, rtol=0, atol=tolerance * max(1.0, np.max(np.abs(expected), initial=0.0))
    )


def spatial_loop():
    """Return a spatial loop of mobility 3 with all supported joint types."""
    rng = np.random.default_rng(61)
    joints = (
        Revolute((1.0, 2.0, 0.5)),
        Prismatic(),
        Cylindrical(),
        Helical(0.3),
        Revolute(),
        Revolute((0.0, 1.0, 1.0)),
    )
    model = random_tree(rng, (-1, 0, 1, -1, 3, 4), joints)
    q = random_configuration(model, rng)
    model = with_loops(model, q, [(Cylindrical((0.0, 1.0, 0.5)), 2, 5)], rng)
    return model, closed_state(model, q, rng)


# each case is a model with two choices of independent joints
CASES = {
    "planar loops": (lambda: loop_model("planar loops"), [0, 2, 5], [4, 3, 6]),
    "redundant constraints": (lambda: loop_model("spatial four-bar"), ["joint1"], ["joint3"]),
    "spatial loop": (spatial_loop, [0, 1, 3], [1, 2]),
}
EACH = pytest.mark.parametrize("name", CASES)


def case(name):
    make, first, second = CASES[name]
    return (*make(), first, second)


def parallelogram(l=0.7, d=1.1):
    """Return two links of length l on supports at distance d, connected by a coupler.

    The function also returns the moments I [kg m^2] and s [kg m].
    """
    link = [
        mcI(m, [c, 0.0, 0.0], np.diag([0.01, 0.1, 0.1]) * m)
        for m, c in ((1.0, 0.3), (2.0, 0.5), (1.5, 0.4))
    ]
    loop = LoopJoint(Revolute(), -1, 2, xlt([d, 0.0, 0.0]), xlt([l, 0.0, 0.0]), "support")
    Xtree = (identity(), xlt([l, 0.0, 0.0]), xlt([d, 0.0, 0.0]))
    model = Model(
        "parallelogram",
        (-1, 0, 1),
        (Revolute(),) * 3,
        Xtree,
        link,
        np.array([0.0, -9.81, 0.0]),
        loops=(loop,),
    )
    # the third link is rotated by half a turn: its centre of mass is l - 0.4 below its support
    I = 1.0 * (0.1 + 0.3**2) + 2.0 * l**2 + 1.5 * (0.1 + (l - 0.4) ** 2)
    return model, I, 1.0 * 0.3 + 2.0 * l + 1.5 * (l - 0.4)


def selection_matrix(model, joints):
    names = [
        model.joint_names.index(joint) if isinstance(joint, str) else joint for joint in joints
    ]
    return np.concatenate([np.eye(model.nv)[model.v_slices[i]] for i in names])


def tangents(R, K):
    """Return G and [R; K]^+."""
    inverse = np.linalg.pinv(np.vstack([R, K]), rcond=1e-9)
    return inverse[:, : len(R)], inverse


def reduced_accelerations(model, q0, R, tau):
    """Return the accelerations of y = R q as a function of y - y0 and dy/dt."""

    def accelerations(dy, yd):
        q = q0
        for _ in range(8):
            K, _, delta = position_constraints(model, q)
            q = q - tangents(R, K)[1] @ np.concatenate([R @ (q - q0) - dy, delta])
        G, _ = tangents(R, position_constraints(model, q).K)
        return R @ closed_loop_dynamics(model, q, G @ yd, tau).qdd

    return accelerations


@EACH
@pytest.mark.parametrize("choice", [0, 1])
def test_loop_linearization_matches_finite_differences_of_the_reduced_dynamics(name, choice):
    model, (q, qd, _, tau), *choices = case(name)
    R = selection_matrix(model, choices[choice])
    linear, f, yd = (
        loop_linearization(model, q, qd, tau, choices[choice]),
        reduced_accelerations(model, q, R, tau),
        R @ qd,
    )
    p = len(R)
    still, steps = np.zeros(p), STEP * np.eye(p)
    A21 = np.stack([(f(h, yd) - f(-h, yd)) / (2 * STEP) for h in steps], axis=1)
    A22 = np.stack([(f(still, yd + h) - f(still, yd - h)) / (2 * STEP) for h in steps], axis=1)
    close(linear.A, np.block([[np.zeros((p, p)), np.eye(p)], [A21, A22]]), DIFFERENCES)
    close(linear.residual, np.concatenate([yd, f(still, yd)]))
    close(linear.G @ yd, qd)


def traced_derivatives(model, q, qd, tau):
    """Return the traced derivatives of qdd and K with respect to q, qd and tau, by name."""
    n = model.nv

    def motion(q, qd, tau):
        return {
            "qdd": closed_loop_dynamics(model, q, qd, tau).qdd,
            "K": loop_constraints(model, q, qd).K,
        }

    graph = trace("motion", motion, {"q": (n,), "qd": (n,), "tau": (n,)})
    parts = jacobian(graph, ["qdd", "K"], ["q", "qd", "tau"])
    sizes = [int(np.prod(shape)) for shape in parts.outputs.values()]
    values = np.split(parts(np.concatenate([q, qd, tau])), np.cumsum(sizes)[:-1])
    return {
        name: value.reshape(shape)
        for (name, shape), value in zip(parts.outputs.items(), values, strict=True)
    }


@pytest.mark.slow
@EACH
@pytest.mark.parametrize("choice", [0, 1])
def test_loop_linearization_matches_the_derivatives_of_the_traced_dynamics(name, choice):
    """The traced accelerations qdd = f(q, qd) give the matrices:

    A21 = R (df/dq G + df/dqd Gdot), A22 = R df/dqd G, B = R df/dtau
    """
    model, (q, qd, _, tau), *choices = case(name)
    R, by = selection_matrix(model, choices[choice]), traced_derivatives(model, q, qd, tau)
    G, inverse = tangents(R, loop_constraints(model, q, qd).K)
    Gdot = -inverse[:, len(R) :] @ (by["dK_dq"] @ qd) @ G
    linear, p = loop_linearization(model, q, qd, tau, choices[choice]), len(R)
    close(linear.A[p:, :p], R @ (by["dqdd_dq"] @ G + by["dqdd_dqd"] @ Gdot))
    close(linear.A[p:, p:], R @ by["dqdd_dqd"] @ G)
    close(linear.B[p:], R @ by["dqdd_dtau"])


@EACH
def test_loop_linearization_uses_the_gravity_argument(name):
    model, (q, qd, _, tau), first, _ = case(name)
    gravity = np.random.default_rng(1).uniform(-5, 5, len(model.gravity))
    given = loop_linearization(model, q, qd, tau, first, gravity)
    own = loop_linearization(model.with_gravity(gravity), q, qd, tau, first)
    close(given.A, own.A)
    close(given.residual, own.residual)


@EACH
def test_linear_combination_of_coordinates_is_a_similarity_transform_of_the_state_matrix(name):
    """y = T R q combines the coordinates of the selected joints by a constant matrix T.

    The state matrix A then transforms with T.
    """
    model, (q, qd, _, tau), first, _ = case(name)
    one, R = loop_linearization(model, q, qd, tau, first), selection_matrix(model, first)
    T = np.random.default_rng(2).uniform(-1, 1, (len(R), len(R))) + 2.0 * np.eye(len(R))
    loop_variables = sum(loop.joint.nv for loop in model.loops)
    other = loop_linearization(
        model, q, qd, tau, np.hstack([T @ R, np.zeros((len(R), loop_variables))])
    )
    assert other.names == tuple(f"y{k + 1}" for k in range(len(R)))
    both = np.kron(np.eye(2), T)
    close(other.A @ both, both @ one.A)


# eigenvalues and the choice of coordinates


def equilibrium_forces(model, q):
    """Return the joint forces of an equilibrium at q."""
    still = np.zeros(model.nv)
    return rnea(model, q, still, still)


def spectral_distance(first, second):
    """Return the distance between two sets of eigenvalues."""
    return max(min(abs(a - b) for b in second) for a in first)


@EACH
def test_eigenvalues_at_an_equilibrium_do_not_depend_on_the_coordinates(name):
    model, (q, *_), first, second = case(name)
    still, tau = np.zeros(model.nv), equilibrium_forces(model, q)
    one, other = (loop_linearization(model, q, still, tau, choice) for choice in (first, second))
    close(one.residual, 0 * one.residual)
    assert spectral_distance(one.eigenvalues, other.eigenvalues) < 1e-6
    # the position of a loop joint is also a valid coordinate
    if name == "redundant constraints":
        third = loop_linearization(model, q, still, tau, ["support"])
        assert third.names == ("support",)
        assert spectral_distance(one.eigenvalues, third.eigenvalues) < 1e-6


@EACH
def test_eigenvalues_away_from_equilibrium_depend_on_the_coordinates(name):
    model, (q, qd, _, tau), first, second = case(name)
    one, other = (
        loop_linearization(model, q, qd, tau, choice).eigenvalues for choice in (first, second)
    )
    assert spectral_distance(one, other) > 1e-2


@EACH
def test_change_of_coordinates_is_a_similarity_transform_of_the_state_matrix_at_equilibrium(name):
    """z = T y: A_z = T A_y T^-1, T = R_z G_y (Spencer 2004, Thm 4.1.2)."""
    model, (q, *_), first, second = case(name)
    still, tau = np.zeros(model.nv), equilibrium_forces(model, q)
    one, other = (loop_linearization(model, q, still, tau, choice) for choice in (first, second))
    T = np.kron(np.eye(2), selection_matrix(model, second) @ one.G)
    close(other.A @ T, T @ one.A, 1e-7)


@pytest.mark.slow
def test_constraint_error_eigenvalues_are_zero_or_minus_one_over_the_time_constant():
    """At an equilibrium the equation of motion has the eigenvalues of A and two per constraint.

    The constraint eigenvalues are 0 without stabilization and -1/T_stab with stabilization
    (Spencer 2004, Thm 4.1.1; RBDA Eq 8.22).
    """
    model, (q, *_), first, _ = case("planar loops")
    n, still, tau = model.nv, np.zeros(model.nv), equilibrium_forces(model, q)
    A = loop_linearization(model, q, still, tau, first).eigenvalues
    for T_stab, drift in ((None, 0.0), (0.2, -5.0)):

        def motion(q, qd, T_stab=T_stab):
            return {"qdd": closed_loop_dynamics(model, q, qd, tau, T_stab=T_stab).qdd}

        parts = jacobian(trace("motion", motion, {"q": (n,), "qd": (n,)}), "qdd", ["q", "qd"])
        by_q, by_qd = parts(np.concatenate([q, still])).reshape(2, n, n)
        full = np.linalg.eigvals(np.block([[np.zeros((n, n)), np.eye(n)], [by_q, by_qd]]))
        assert spectral_distance(A, full) < MULTIPLE
        assert spectral_distance(full, [*A, drift]) < MULTIPLE
        assert np.sum(np.abs(full - drift) < 100 * MULTIPLE) == 2 * model.nc


def test_linearization_of_a_hanging_parallelogram_equals_the_linearization_of_a_pendulum():
    """The coupler of a parallelogram that hangs from two supports does not rotate.

    I th'' = -g s sin(th), with the total moments I and s of all moving bodies.
    """
    model, inertia, moment = parallelogram()
    still = np.zeros(3)
    linear = loop_linearization(
        model, np.array([-np.pi / 2, np.pi / 2, np.pi / 2]), still, still, ["joint1"]
    )
    close(linear.A, [[0, 1], [-9.81 * moment / inertia, 0]], SAME)
    close(linear.B[1], linear.G[:, 0] / inertia)


def test_linearizations_of_the_loader_in_spencer_2004_have_the_published_eigenvalues():
    """The thesis prints the linearizations and the eigenvalues of a loader.

    The loader is at rest but not in equilibrium.
    """
    printed = {
        0.54643 + 1.5734j: [[-2.3763, -0.38157], [7.853, -1.9778]],
        0.37624 + 1.5642j: [[-1.9649, 2.5565], [-0.58728, -2.6457]],
    }
    for value, A21 in printed.items():
        A = np.block([[np.zeros((2, 2)), np.eye(2)], [np.array(A21), np.zeros((2, 2))]])
        linear = LoopLinearization(
            A, np.zeros((4, 1)), np.zeros(4), np.zeros((1, 2)), ("boom", "bucket")
        )
        four = [value, value.conjugate(), -value.conjugate(), -value]
        assert_allclose(linear.eigenvalues, four, atol=1e-4)  # five printed digits


# rejected inputs


def test_loop_linearization_rejects_invalid_coordinates():
    model, (q, qd, _, tau) = loop_model("planar loops")
    with pytest.raises(ValueError, match=r"has the mobility 3 in this configuration .* not 2"):
        loop_linearization(model, q, qd, tau, [0, 1])
    with pytest.raises(ValueError, match="unknown independent joint 'motor'"):
        loop_linearization(model, q, qd, tau, ["motor"])
    with pytest.raises(ValueError, match="R needs a column for each of the 9 variables"):
        loop_linearization(model, q, qd, tau, np.eye(3))
    R = np.zeros((3, 9))
    R[:, 0] = 1.0
    with pytest.raises(
        ValueError,
        match=r"are dependent in this configuration: the condition number of \[R; K\] is",
    ):
        loop_linearization(model, q, qd, tau, R)


def test_loop_linearization_rejects_open_loops_and_trees():
    model, (q, qd, _, tau) = loop_model("planar loops")
    with pytest.raises(ValueError, match=r"loop1 of model .* is open by .* assemble\(\) closes it"):
        loop_linearization(model, q + 0.01, qd, tau, [0, 2, 5])
    with pytest.raises(ValueError, match="velocities violate the loop constraints"):
        loop_linearization(model, q, qd + 0.01, tau, [0, 2, 5])
    with pytest.raises(ValueError, match="has no loops"):
        loop_linearization(model.spanning_tree, q, qd, tau, [0, 2, 5])
