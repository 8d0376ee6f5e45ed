"""Impacts of systems (RBDA 11.7): restitution, friction and several contacts; no energy gain."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from random_models import MODELS, random_state
from rigidblocks.contact import (
    JointLimit,
    PointContact,
    contact_matrix,
    impact,
    impact_impulse,
    passive_impulse,
    projected_sweeps,
    pyramid_forces,
)
from rigidblocks.dynamics import crba, kinetic_energy, momentum
from rigidblocks.robot.joints import Prismatic
from rigidblocks.robot.model import Model
from rigidblocks.spatial.spatial import identity, mcI
from rigidblocks.tracing.trace import trace

# rounding of some hundred products, and of solutions with condition numbers of some hundred
RTOL = 1e-10
ENERGY = 1e-12  # rounding of the energy, relative to the energy before the impact
ROUNDING = 1e-13  # rounding of a sum of some ten products, relative to the products
UP = np.array([0.0, 0.0, 1.0])


def unit(vector):
    return vector / np.linalg.norm(vector)


# systems


def random_contacts(rng, model, count, mu=None):
    pairs = [(s, p) for s in range(model.nb) for p in range(-1, model.nb) if s != p]
    picked = [pairs[k] for k in rng.integers(len(pairs), size=count)]
    friction = np.zeros(count) if mu is None else rng.uniform(0, mu, count)
    return [
        PointContact(s, rng.uniform(-1, 1, 3), unit(rng.normal(size=3)), p, m)
        for (s, p), m in zip(picked, friction.tolist(), strict=True)
    ]


@pytest.mark.parametrize("law", ["newton", "poisson"])
def test_impact_satisfies_the_impulsive_equation_of_motion(model, rng, law):
    # RBDA Eq 11.57
    s = random_state(rng, model)
    contacts = (
        random_contacts(rng, model, 3, 0.8) if model.nb > 1 else [PointContact(0, UP, UP, mu=0.5)]
    )
    hit = impact(model, s.q, s.qd, contacts, 0.5, law)
    T, n, H = contact_matrix(model, s.q, contacts), len(contacts), crba(model, s.q)
    lam, tolerance = np.r_[hit.impulse[:, 0], hit.impulse[:, 1:].ravel()], 1e-13 * np.linalg.cond(H)
    size = np.abs(T @ lam).max()
    assert_allclose(H @ hit.dqd, T @ lam, rtol=0, atol=tolerance * size + 1e-15)
    assert_allclose(hit.before, (T.T @ s.qd)[:n], rtol=1e-12, atol=1e-12)
    scale = np.abs(T).max() * (np.abs(s.qd).max() + np.abs(hit.dqd).max())
    assert_allclose(hit.after, (T.T @ (s.qd + hit.dqd))[:n], rtol=0, atol=tolerance * scale)
    before, after = (kinetic_energy(model, s.q, qd) for qd in (s.qd, s.qd + hit.dqd))
    assert_allclose(hit.energy, after - before, rtol=0, atol=tolerance * before)
    assert (hit.after >= -tolerance * scale).all()


@pytest.mark.parametrize("law", ["newton", "poisson", "sequence"])
def test_single_contact_impact_matches_the_analytic_restitution_and_energy_loss(model, rng, law):
    for e in (0.0, 0.5, 1.0):
        s = random_state(rng, model)
        (contact,) = (
            random_contacts(rng, model, 1)
            if model.nb > 1
            else [PointContact(0, np.array([1.0, 1.0, 0]), -UP)]
        )
        approach = contact_matrix(model, s.q, [contact])[:, 0] @ s.qd
        qd = s.qd if approach < 0 else -s.qd
        hit = impact(model, s.q, qd, [contact], e, law)
        T, H = contact_matrix(model, s.q, [contact]), crba(model, s.q)
        mobility = (T.T @ np.linalg.solve(H, T))[0, 0]
        if mobility < 1e-12:  # the contact is immovable
            continue
        loss = (1 - e * e) * hit.before[0] ** 2 / (2 * mobility)
        size = np.linalg.cond(H) * kinetic_energy(model, s.q, qd)
        assert_allclose(
            hit.after, -e * hit.before, rtol=0, atol=1e-12 * np.linalg.cond(H) * np.abs(qd).max()
        )
        assert_allclose(-hit.energy, loss, rtol=0, atol=1e-13 * size)


def test_internal_impacts_conserve_momentum_of_a_free_system(rng):
    model = MODELS["satellite"]()
    s = random_state(rng, model)
    contacts = [
        PointContact(3, rng.uniform(-1, 1, 3), unit(rng.normal(size=3)), 0, 0.5),
        JointLimit(2, 0.0),
    ]
    hit = impact(model, s.q, s.qd, contacts, 0.7)
    before, after = (momentum(model, s.q, qd) for qd in (s.qd, s.qd + hit.dqd))
    assert hit.impulse.any()
    assert_allclose(after, before, rtol=0, atol=1e-11 * np.abs(before).max())


def test_joint_rebounds_at_its_limit_with_the_coefficient_of_restitution():
    model = Model(
        "slide", (-1,), (Prismatic(),), (identity(),), (mcI(2.0, np.zeros(3), np.eye(3)),)
    )
    hit = impact(model, np.zeros(1), np.array([-3.0]), [JointLimit(0, 0.0)], 0.5)
    assert_allclose(hit.dqd, [4.5], rtol=1e-14)
    assert_allclose(hit.impulse, [[9.0, 0, 0]], rtol=1e-14)


@pytest.mark.parametrize("law", ["newton", "poisson"])
def test_plastic_impact_gives_the_admissible_velocity_nearest_in_the_inertia_metric(rng, law):
    # Gauss's principle for impulses: (qd+ - qd)^T H (qd+ - qd) is minimal among velocities that do
    # not approach
    model = MODELS["six-axis"]()
    for _ in range(20):
        s = random_state(rng, model)
        contacts = random_contacts(rng, model, 4)
        hit, H = impact(model, s.q, s.qd, contacts, 0.0, law), crba(model, s.q)
        T = contact_matrix(model, s.q, contacts)
        for _ in range(20):
            other = rng.normal(size=6) * rng.uniform(0, 3) + s.qd
            if (T.T @ other >= 0).all():
                assert hit.dqd @ H @ hit.dqd <= (other - s.qd) @ H @ (other - s.qd) * (1 + RTOL)
        assert (T.T @ (s.qd + hit.dqd) >= -1e-9).all()


# simultaneous contacts


def cradle(n):
    """Return M and D of n touching balls in a row: w_i = v_(i+1) - v_i."""
    D = np.diff(np.eye(n), axis=0)
    return D @ D.T, D


def test_impact_law_of_successive_impacts_reproduces_newtons_cradle():
    for n in (2, 3, 5, 8):
        for hit in range(1, n):
            M, D = cradle(n)
            v = np.array([1.0] * hit + [0.0] * (n - hit))
            after = v + D.T @ impact_impulse(M, D @ v, np.ones(n - 1), law="sequence")
            assert_allclose(after, v[::-1], rtol=0, atol=1e-12)
            mirrored = -v[::-1]
            after = mirrored + D.T @ impact_impulse(M, D @ mirrored, np.ones(n - 1), law="sequence")
            assert_allclose(after, -v, rtol=0, atol=1e-12)


@pytest.mark.parametrize("law", ["newton", "poisson"])
def test_impact_law_of_simultaneous_impacts_distributes_the_impulse_over_three_balls(law):
    # these laws treat all contacts simultaneously: the first ball rebounds at a third of its speed,
    # which conserves momentum and energy like the cradle
    M, D = cradle(3)
    v = np.array([1.0, 0, 0])
    assert_allclose(
        v + D.T @ impact_impulse(M, D @ v, np.ones(2), law=law), [-1 / 3, 2 / 3, 2 / 3], rtol=1e-12
    )


def random_impact(rng, friction):
    """Return M, velocities, energy, mu and e of random contacts of a random system."""
    n, k = rng.integers(1, 5), 0
    k = n if friction else 0
    Y = rng.normal(size=(rng.integers(2, 14), n + 2 * k)) * np.exp(rng.normal(size=n + 2 * k) / 2)
    v = rng.normal(size=len(Y))
    e = rng.uniform(0, 1, n) if rng.random() < 0.8 else np.ones(n)
    return Y.T @ Y, Y.T @ v, v @ v / 2, rng.uniform(0, 1.5, k), e


def gain(M, w, lam):
    return lam @ (w + M @ lam / 2)


@pytest.mark.slow
def test_energy_does_not_increase_in_10000_random_impacts(rng):
    few = partial(projected_sweeps, sweeps=3)
    for i in range(10_000):
        law = ("newton", "poisson", "sequence")[i % 3]
        M, w, energy, mu, e = random_impact(rng, friction=law != "sequence" and i % 4 > 0)
        n = len(e)
        solve = few if i % 5 == 0 else pyramid_forces
        lam = impact_impulse(M, w, e, mu, law, solve)
        flow = np.abs(M) @ np.abs(lam)  # magnitude of the terms of the velocities
        assert gain(M, w, lam) <= ENERGY * energy + ROUNDING * (np.abs(lam) @ flow)
        assert (lam[:n] >= 0).all()
        limit = np.repeat(mu * lam[: len(mu)], 2)
        friction = (
            np.abs(lam[n:])
            if solve is pyramid_forces
            else np.repeat(np.hypot(lam[n::2], lam[n + 1 :: 2]), 2)
        )
        assert (friction <= limit * (1 + 1e-9) + 1e-12 * np.abs(lam).max()).all()
        if solve is pyramid_forces:
            assert ((w + M @ lam)[:n] >= -1e-9 * np.abs(w).max() - ROUNDING * flow[:n]).all()


@pytest.mark.parametrize("law", ["newton", "poisson", "sequence"])
def test_elastic_impact_without_friction_conserves_energy(rng, law):
    for _ in range(100):
        Y = rng.normal(size=(8, 3))
        M, v = Y.T @ Y, rng.normal(size=8)
        v = v - Y @ np.linalg.solve(M, Y.T @ v + rng.uniform(0.1, 1, 3))  # all contacts approach
        w, energy = Y.T @ v, v @ v / 2
        assert (w < 0).all()
        lam = impact_impulse(M, w, np.ones(3), law=law)
        assert gain(M, w, lam) <= ENERGY * energy
        if law == "newton":
            assert_allclose(gain(M, w, lam), 0.0, rtol=0, atol=1e-9 * energy)


@pytest.mark.slow
def test_impact_impulse_is_reduced_if_newtons_law_would_add_energy(rng):
    limited = 0
    for _ in range(300):
        M, w, energy, mu, e = random_impact(rng, friction=True)
        n = len(e)
        demanded = pyramid_forces(
            M, w + np.concatenate([e * np.minimum(w[:n], 0), np.zeros(2 * n)]), mu
        )
        lam = impact_impulse(M, w, e, mu)
        grows = gain(M, w, demanded) > 1e-9 * energy
        limited += grows
        if grows and ((w + M @ demanded)[:n] >= -1e-9).all():
            assert_allclose(gain(M, w, lam), 0.0, rtol=0, atol=1e-9 * energy)
    assert limited


def test_impulse_is_scaled_down_just_enough_to_be_passive(rng):
    for _ in range(200):
        Y = rng.normal(size=(6, 4))
        M, w = Y.T @ Y, Y.T @ rng.normal(size=6)
        base = np.maximum(0.0, 0.3 * -np.linalg.solve(M, w))
        base = base if gain(M, w, base) <= 0 else 0 * base
        lam = rng.uniform(0, 3, 4)
        found = passive_impulse(M, w, base, lam)
        s = (found - base) @ (lam - base) / ((lam - base) @ (lam - base))
        assert -1e-12 <= s <= 1 + 1e-12
        assert gain(M, w, found) <= 1e-12 * (w @ w + lam @ lam)
        if s < 1 - 1e-9:
            assert gain(M, w, base + min(1.0, s + 1e-3) * (lam - base)) > 0


def test_impact_is_plastic_if_no_impulse_satisfies_the_restitution_law():
    # a disc in a slot is thrown at one wall: the other wall prevents a rebound
    M, w = np.array([[1.0, -1.0], [-1.0, 1.0]]), np.array([-1.0, 1.0])
    lam = impact_impulse(M, w, np.array([0.5, 0.5]))
    assert_allclose(w + M @ lam, np.zeros(2), rtol=0, atol=1e-12)


def test_plastic_impact_on_a_resting_ball_stops_both_balls():
    # a ball on the ground is hit from above by a ball of the same mass
    D = np.array([[1.0, 0.0], [-1.0, 1.0]])  # ground and lower ball, lower and upper ball
    v = np.array([0.0, -1.0])
    for law in ("newton", "poisson", "sequence"):
        after = v + D.T @ impact_impulse(D @ D.T, D @ v, np.zeros(2), law=law)
        assert_allclose(after, np.zeros(2), rtol=0, atol=1e-12)


@pytest.mark.parametrize("law", ["newton", "poisson", "sequence"])
def test_traced_and_numpy_values_of_impact_velocities_agree(rng, law):
    model = MODELS["six-axis"]()
    s = random_state(rng, model)
    contacts = random_contacts(rng, model, 2, None if law == "sequence" else 0.8)
    few = partial(projected_sweeps, sweeps=4)

    def hit(q, qd, e):
        dqd, impulse, before, after, energy = impact(model, q, qd, contacts, e, law, few)
        return {
            "dqd": dqd,
            "impulse": impulse,
            "before": before,
            "after": after,
            "energy": np.asarray(energy),
        }

    e = rng.uniform(0, 1, 2)
    values = trace("hit", hit, {"q": (6,), "qd": (6,), "e": (2,)})(np.concatenate([s.q, s.qd, e]))
    expected = np.concatenate([np.ravel(value) for value in hit(s.q, s.qd, e).values()])
    assert expected[:6].any()
    assert_allclose(
        values,
        expected,
        rtol=0,
        atol=1e-12 * np.linalg.cond(crba(model, s.q)) * np.abs(expected).max(),
    )


# invalid arguments


def test_invalid_impact_arguments_are_rejected():
    model = MODELS["planar2"]()
    q, qd, contacts = np.zeros(2), np.ones(2), [PointContact(1, UP, UP, mu=0.3)]
    with pytest.raises(ValueError, match=r"between 0 and 1, not \[-0.1\]"):
        impact(model, q, qd, contacts, [-0.1])
    with pytest.raises(ValueError, match=r"one value for each of 1 contacts, not shape \(2,\)"):
        impact(model, q, qd, contacts, [0.1, 0.2])
    with pytest.raises(
        ValueError, match="unknown impact law 'stronge'; expected newton, poisson, sequence"
    ):
        impact(model, q, qd, contacts, law="stronge")
    with pytest.raises(ValueError, match="'sequence' does not support friction"):
        impact(model, q, qd, contacts, law="sequence")


def test_impact_without_contacts_does_not_change_the_velocities():
    model = MODELS["planar2"]()
    assert_array_equal(impact(model, np.zeros(2), np.ones(2), []).dqd, np.zeros(2))
