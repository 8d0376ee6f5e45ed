"""Loops whose constraints are dependent in all configurations, compared with reduced models.

The reduced models have independent constraints. They are planar models of the same mechanism and
closed forms q = gamma(y) of one variable (RBDA 8.11).
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mechanism_runs import plant_run, reduced_acceleration
from rigidblocks.dynamics import bias_force, crba
from rigidblocks.dynamics.loops import closed_loop_dynamics, loop_constraints, redundant_constraints
from rigidblocks.robot.robots import (
    bennett,
    five_bar,
    four_bar,
    n_four_bar,
    sarrus,
    spatial_mechanism,
)

SAME = 1e-9  # relative; observed 1e-13
CLOSED = 1e-10  # rad, m at each step; observed 1e-14
NO_WORK = 1e-12  # relative to the sum of the absolute powers of the constraint forces

ONE_ANGLE = {"four-bar": spatial_mechanism(four_bar()), "bennett": bennett(), "sarrus": sarrus()}
RANK = {"four-bar": 2, "bennett": 2, "sarrus": 4}


def planar_acceleration(model, q, qd, tau):
    """Return qdd of a model with independent constraints.

    The equations contain qdd and the constraint forces (RBDA Eq 8.4).
    """
    K, k, _ = loop_constraints(model, q, qd)
    A = np.block([[crba(model, q), K.T], [K, np.zeros((len(K), len(K)))]])
    return np.linalg.solve(A, np.concatenate([tau - bias_force(model, q, qd), k]))[: model.nv]


def assert_same_motion(model, q, qd, tau, expected, rank):
    motion = closed_loop_dynamics(model, q, qd, tau)
    assert_allclose(motion.qdd, expected, rtol=0, atol=SAME * np.abs(expected).max())
    assert motion.rank == rank < model.nc


@pytest.mark.parametrize(
    "mechanism", [four_bar(), five_bar(), five_bar(2.5, 0.2), n_four_bar(3, 0.4)]
)
def test_spatial_and_planar_loops_have_the_same_accelerations(mechanism):
    planar, rng = mechanism.model, np.random.default_rng(7)
    K, tau = loop_constraints(planar, mechanism.q0, mechanism.qd0).K, rng.uniform(-9, 9, planar.nv)
    qd = rng.uniform(-2, 2, planar.nv)
    qd -= np.linalg.lstsq(K, K @ qd)[0]
    expected = planar_acceleration(planar, mechanism.q0, qd, tau)
    assert_same_motion(spatial_mechanism(mechanism).model, mechanism.q0, qd, tau, expected, len(K))


@pytest.mark.parametrize("angle", [0.4, 1.0, 2.5, -1.3])
@pytest.mark.parametrize(("alpha", "beta"), [(np.pi / 3, np.pi / 2), (0.7, 1.9)])
def test_bennett_linkage_accelerations_equal_the_closed_form(angle, alpha, beta):
    # q2 = 2 atan(r cot u), q3 = -q1 with u = q1/2; dq2/dq1 = -r/w, w = sin^2 u + r^2 cos^2 u
    model, q, _ = bennett(1.0, alpha, beta, angle)
    r, s, c, w1 = (
        np.sin((beta + alpha) / 2) / np.sin((beta - alpha) / 2),
        np.sin(angle / 2),
        np.cos(angle / 2),
        1.7,
    )
    w = s**2 + r**2 * c**2
    G, g = (
        np.array([[1.0], [-r / w], [-1.0]]),
        np.array([0.0, r * (1 - r**2) * s * c / w**2 * w1**2, 0.0]),
    )
    tau = np.array([3.0, -2.0, 5.0])
    expected = reduced_acceleration(model, q, G[:, 0] * w1, tau, G, g)
    assert_same_motion(model, q, G[:, 0] * w1, tau, expected, 2)


@pytest.mark.parametrize("angle", [0.2, 0.6, 1.2, 2.0])
def test_sarrus_linkage_accelerations_match_the_straight_line_motion(angle):
    model, q, _ = sarrus(angle=angle)
    G, tau = np.array([[1.0], [-2.0], [1.0], [-1.0], [2.0]]), np.array([5.0, 1.0, -2.0, 3.0, 0.5])
    expected = reduced_acceleration(model, q, 0.9 * G[:, 0], tau, G, np.zeros(5))
    assert_same_motion(model, q, 0.9 * G[:, 0], tau, expected, 4)


@pytest.mark.slow  # long compile time
@pytest.mark.parametrize("name", ONE_ANGLE)
def test_constraint_forces_of_redundant_loops_do_no_work(name):
    mechanism = ONE_ANGLE[name]
    _, y = plant_run(mechanism, 1.0, 1e-3, 1e-2)
    for q, qd, lam in zip(y["q"], y["qd"], y["lam"], strict=True):
        K = loop_constraints(mechanism.model, q, qd).K
        assert abs(lam @ K @ qd) <= NO_WORK * (np.abs(lam) @ np.abs(K) @ np.abs(qd)) + 1e-15
    assert set(y["rank"]) == {RANK[name]}


@pytest.mark.slow
@pytest.mark.parametrize("name", ONE_ANGLE)
def test_redundant_loops_stay_closed_for_a_hundred_thousand_steps(name):
    t, y = plant_run(ONE_ANGLE[name], 100.0, 1e-3)
    assert len(t) == 100_001
    assert y["loop_error"].max() < CLOSED
    assert np.ptp(y["q"][:, 0]) > 0.3


@pytest.mark.parametrize(
    ("name", "joint"), [("four-bar", "pin"), ("bennett", "closure"), ("sarrus", "hinge")]
)
def test_names_of_redundant_constraints_contain_joint_and_direction(name, joint):
    model, q, _ = ONE_ANGLE[name]
    redundant = redundant_constraints(model, q)
    assert len(redundant) == model.nc - RANK[name]
    assert all(
        r.name.startswith((f"{joint}: rotation about ", f"{joint}: translation along "))
        for r in redundant
    )
