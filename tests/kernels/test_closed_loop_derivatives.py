"""Derivatives of closed-loop dynamics match differences, traced derivatives and Pinocchio."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from loop_models import (
    INDEPENDENT,
    SPATIAL_LOOP_JOINTS,
    closed_state,
    loop_model,
    with_loops,
)
from pinocchio_trees import in_pinocchio
from rigidblocks.dynamics import crba
from rigidblocks.dynamics.loops import closed_loop_dynamics, loop_constraints, project
from rigidblocks.kernels.compiled_dynamics import derivatives
from rigidblocks.robot.configuration import difference, integrate
from rigidblocks.robot.joints import (
    Fixed,
    Helical,
    LoopJoint,
    Prismatic,
    Revolute,
    SixDoF,
    Spherical,
    StringConstraint,
    Universal,
)
from rigidblocks.robot.robots import auto_tree, bennett, stewart_platform
from rigidblocks.spatial.spatial import rotx, xlt
from rigidblocks.tracing.compiled_functions import LANES
from rigidblocks.tracing.trace import jacobian, trace

RTOL = 1e-12  # of two exact methods, relative to the largest element, times the condition number
# central differences: eps / STEP and STEP^2, times the magnitude of higher derivatives
STEP, DIFFERENCES = 1e-6, 1e-7
NAME = "closed_loop_dynamics"


def close(actual, expected, tolerance, condition=1.0):
    largest = max(1.0, np.max(np.abs(expected), initial=0.0))
    assert_allclose(actual, expected, rtol=0, atol=tolerance * condition * largest)


def differences(model, s, part, directions):
    """Return central differences of the accelerations along directions of q, qd or tau."""

    def moved(step):
        parts = [np.zeros(model.nv)] * 3
        parts[part] = step
        dq, dqd, dtau = parts
        state = integrate(model, s.q, dq), s.qd + dqd, s.tau + dtau
        return closed_loop_dynamics(model, *state).qdd

    steps = STEP * directions.T
    return np.array([(moved(step) - moved(-step)) / (2 * STEP) for step in steps]).T


def closing(model, s):
    """Return the velocity directions (nv, p) that keep the loops closed."""
    K = loop_constraints(model, s.q, s.qd).K
    _, sizes, V = np.linalg.svd(K)
    return V[int(np.sum(sizes > 1e-9 * sizes[0])) :].T


def check_in_all_directions(model, s, rng):
    """Check the derivatives in all directions; the constraints must be independent."""
    qdd, *by_all = derivatives(model, NAME)(s.q, s.qd, s.tau)
    close(qdd, closed_loop_dynamics(model, s.q, s.qd, s.tau).qdd, RTOL, 100.0)
    directions = rng.normal(size=(model.nv, 2))
    for part, matrix in enumerate(by_all):
        close(matrix @ directions, differences(model, s, part, directions), DIFFERENCES)


def check_on_the_way(model, s, rng):
    """Check the derivatives along a motion through states with closed loops."""
    qdd, dq, dqd, _ = derivatives(model, NAME)(s.q, s.qd, s.tau)
    close(qdd, closed_loop_dynamics(model, s.q, s.qd, s.tau).qdd, RTOL, 100.0)
    N = closing(model, s)
    along, faster = (N @ rng.normal(size=N.shape[1]) for _ in range(2))
    ends = [
        project(model, integrate(model, s.q, h * along), s.qd + h * faster) for h in (STEP, -STEP)
    ]
    after, before = (closed_loop_dynamics(model, *end, s.tau).qdd for end in ends)
    change_q = difference(model, ends[1][0], ends[0][0])
    expected = (after - before) / (2 * STEP)
    close((dq @ change_q + dqd @ (ends[0][1] - ends[1][1])) / (2 * STEP), expected, DIFFERENCES)


def check_mechanics(model, s):
    """Check that torques do not open loops, and the inertia in the free directions."""
    dtau, N = derivatives(model, NAME)(s.q, s.qd, s.tau)[3], closing(model, s)
    K, H = loop_constraints(model, s.q, s.qd).K, crba(model, s.q)
    condition = np.linalg.cond(H)
    assert_array_equal(dtau, dtau.T)
    close(K @ dtau, 0.0 * K @ dtau, RTOL, condition)
    close(dtau, N @ np.linalg.solve(N.T @ H @ N, N.T), RTOL, condition)


@pytest.mark.slow
def test_derivatives_of_a_linkage_with_redundant_constraints_match_finite_differences(rng):
    model, s = loop_model("spatial four-bar")
    check_on_the_way(model, s, rng)
    check_mechanics(model, s)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["floating loops", "doubled", "welded"])
def test_closed_loop_derivatives_match_finite_differences(name, rng):
    model, s = loop_model(name)
    check_mechanics(model, s)
    if name in INDEPENDENT:
        check_in_all_directions(model, s, rng)
    if closing(model, s).size:
        check_on_the_way(model, s, rng)


@pytest.mark.slow
def test_derivatives_with_a_cable_constraint_match_finite_differences(rng):
    tree = auto_tree(4, 2.0, skew=0.7)
    points = tuple((body, rng.uniform(-1, 1, 3)) for body in (-1, 1, 0, 3, 2))
    model = replace(tree, strings=(StringConstraint(points, 9.0, closed=True),))
    s = closed_state(model, rng.normal(size=4), rng)
    check_in_all_directions(model, s, rng)
    check_on_the_way(model, s, rng)
    check_mechanics(model, s)


@pytest.mark.slow
@pytest.mark.parametrize("joint", [Fixed(), Spherical(), Universal()])
def test_derivatives_of_a_loop_between_rotating_bodies_match_finite_differences(joint, rng):
    """The derivatives in body frames are also correct for loops between rotating bodies."""
    axes = [(0, 0, 1), (1, 0, 0), (0, -1, 0), (0, 0.6, 0.8), (0, 0, -1), (0.6, 0, 0.8)]
    joints = (*(Revolute(axis) for axis in axes), Prismatic((0, 1, 0)), Revolute(), Helical(0.1))
    X = tuple(
        rotx(a) @ xlt(r) for a, r in zip(rng.normal(size=9), rng.normal(size=(9, 3)), strict=True)
    )
    model = with_loops(
        replace(auto_tree(9), joint=joints, Xtree=X), q := rng.normal(size=9), [(joint, 1, 8)], rng
    )
    s = closed_state(model, q, rng)
    check_in_all_directions(model, s, rng)
    check_mechanics(model, s)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [bennett(), stewart_platform()])
def test_derivatives_of_published_mechanisms_match_finite_differences(mechanism, rng):
    """The mechanisms are Bennett's linkage and a Stewart platform.

    The constraints of the linkage are redundant only while it is closed.
    """
    model = mechanism.model
    s = closed_state(model, np.asarray(mechanism.q0, dtype=float), rng)
    check_on_the_way(model, s, rng)
    check_mechanics(model, s)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["universal"])
def test_closed_loop_derivatives_match_automatic_differentiation(name, rng):
    """Automatic differentiation uses the trace of the whole algorithm, with a universal joint."""
    joint = SPATIAL_LOOP_JOINTS[name]
    tree = auto_tree(8, skew=0.7)
    q = rng.normal(size=8)
    model = with_loops(tree, q, [(joint, 2, 7)], rng)
    s = closed_state(model, q, rng)
    values = {"q": s.q, "qd": s.qd, "tau": s.tau}
    shapes = {key: value.shape for key, value in values.items()}
    graph = trace(NAME, lambda *a: {"qdd": closed_loop_dynamics(model, *a).qdd}, shapes)
    exact = jacobian(graph, "qdd", tuple(values))(np.concatenate([*values.values()]))
    condition = np.linalg.cond(crba(model, s.q))
    ours = derivatives(model, NAME)(s.q, s.qd, s.tau)[1:]
    for mine, theirs in zip(ours, exact.reshape(3, 8, 8), strict=True):
        close(mine, theirs, RTOL, condition)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "lanes"), [("floating loops", (None,)), ("spatial four-bar", LANES)]
)
def test_batched_closed_loop_derivatives_match_derivatives_of_single_states(name, lanes):
    """Each row has its own state, and one row is not finite; lanes do not change the bits."""
    model, _ = loop_model(name)
    states = [loop_model(name)[1]]
    rng = np.random.default_rng(7)
    states += [closed_state(model, states[0].q, rng) for _ in range(10)]
    arguments = [np.array([getattr(s, part) for s in states]) for part in ("q", "qd", "tau")]
    arguments[2][5, 0] = np.nan
    one = derivatives(model, NAME)
    batches = [derivatives(model, NAME, batch=True, lanes=n)(*arguments) for n in lanes]
    for other in batches[1:]:
        for mine, theirs in zip(batches[0], other, strict=True):
            assert_array_equal(mine, theirs)
    for k in range(len(states)):
        for batched, single in zip(batches[0], one(*(a[k] for a in arguments)), strict=True):
            if k != 5:
                close(batched[k], single, RTOL, 10.0)


@pytest.mark.slow
def test_torques_do_not_change_the_accelerations_of_an_immobile_mechanism():
    model, s = loop_model("welded")
    qdd, dq, dqd, dtau = derivatives(model, NAME)(s.q, s.qd, s.tau)
    assert np.max(np.abs(dtau)) < RTOL * np.linalg.cond(crba(model, s.q))
    assert all(np.all(np.isfinite(part)) for part in (qdd, dq, dqd))


@pytest.mark.interop
@pytest.mark.parametrize(("bodies", "predecessor"), [(8, -1), (12, 2)])
def test_closed_loop_derivatives_match_pinocchio(bodies, predecessor, rng):
    """Loop joints fix a frame to the base or to another body.

    The check includes all directions, also the directions that open the loop.
    """
    pin = pytest.importorskip("pinocchio", reason="Pinocchio is not installed (`pip install pin`)")
    tree, q = auto_tree(bodies, skew=0.7), rng.normal(size=bodies)
    model = with_loops(tree, q, [(Fixed(), predecessor, bodies - 1)], rng)
    s, (other, data) = closed_state(model, q, rng), in_pinocchio(pin, model)
    held, of_held = held_frames(pin, model.loops[0], other)
    pin.initConstraintDynamics(other, data, held, of_held)
    settings = pin.ProximalSettings(1e-13, 0.0, 1)
    pin.constraintDynamics(other, data, s.q, s.qd, s.tau, held, of_held, settings)
    pin.computeConstraintDynamicsDerivatives(other, data, held, of_held, settings)
    theirs = data.ddq, data.ddq_dq, data.ddq_dv, data.ddq_dtau
    condition = np.linalg.cond(crba(model, s.q))
    for mine, one in zip(derivatives(model, NAME)(s.q, s.qd, s.tau), theirs, strict=True):
        close(mine, one, 1e-11, condition)


def held_frames(pin, loop, other):
    """Return a fixed loop joint as a Pinocchio constraint, and its data."""
    held = pin.StdVec_RigidConstraintModel()
    places = [pin.SE3(X.E.T, np.asarray(X.r, dtype=float)) for X in (loop.Xs, loop.Xp)]
    held.append(
        pin.RigidConstraintModel(
            pin.ContactType.CONTACT_6D,
            other,
            loop.successor + 1,
            places[0],
            loop.predecessor + 1,
            places[1],
            pin.ReferenceFrame.LOCAL,
        )
    )
    of_held = pin.StdVec_RigidConstraintData()
    of_held.append(held[0].createData())
    return held, of_held


def test_closed_loop_derivatives_of_models_without_loops_are_rejected():
    tree = auto_tree(2)
    loop = LoopJoint(SixDoF(), -1, 1, tree.Xtree[0], tree.Xtree[0])
    for model in (tree, replace(tree, loops=(loop,))):
        with pytest.raises(ValueError, match=r"no loop of model .* constrains its joints"):
            derivatives(model, NAME)
