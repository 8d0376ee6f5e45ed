"""Bricks that are thrown and come to rest, from event to event: by NumPy and compiled."""

from functools import partial

import numpy as np
import pytest

from rigidblocks import Model, SixDoF
from rigidblocks.algebra.spatial import identity, mcI
from rigidblocks.contact import Box, PointContact, plane_contacts
from rigidblocks.dynamics import energy
from rigidblocks.simulation.contact_events import simulate_contact
from rigidblocks.tracing.trace import TraceError

RISE = 1e-9  # of the energy at the start: rtol of the steps
PENETRATION = 1e-12  # [m] the gap at which an event is located, and rounding


def brick(sides=(0.4, 0.3, 0.2), m=2.0):
    a, b, c = sides
    inertia = mcI(m, np.zeros(3), m / 12 * np.diag([b * b + c * c, a * a + c * c, a * a + b * b]))
    return Model("brick", (-1,), (SixDoF(),), (identity(),), (inertia,), contact=((Box(sides),),))


def thrown(rng):
    """Friction, restitution, q and qd of a throw."""
    mu, e = float(rng.choice([0, 0.2, 0.5, 1.0])), float(rng.choice([0, 0.3, 0.5, 0.8]))
    turn = rng.normal(size=4)
    q0 = [*turn / np.linalg.norm(turn), 0, 0, 0.4]
    return mu, e, q0, [*3 * rng.normal(size=3), *rng.normal(size=3)]


# throw 2 slides on four corners until it stops; in throws 1 and 10 the same turns meanwhile, and
# friction held it creeping; others jumped without end by what they fall through a gap that is zero
@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_thrown_bricks_come_to_rest_and_no_energy_is_gained(seed):
    rng, model, resting = np.random.default_rng(seed), brick(), 0
    for _ in range(12):
        mu, e, q0, qd0 = thrown(rng)
        contacts = partial(plane_contacts, model, mu=mu)
        run = simulate_contact(model, contacts, q0, qd0, 2.0, 0.05, e=e)
        E = np.array([energy(model, *state) for state in zip(run["q"], run["qd"], strict=True)])
        states = zip(run["q"], run["qd"], strict=True)
        gap = min(c.gap for state in states for c in contacts(*state))
        assert (E - np.minimum.accumulate(E)).max() < RISE * E[0]
        assert gap > -PENETRATION
        resting += np.abs(run["qd"][-1]).max() < 1e-12
    assert resting > 6


def rocking(form):
    """A brick that jumped on its edge without end: without friction, e = 0.4."""
    turn = np.array([1, 0.05, 0.1, 0]) / np.linalg.norm([1, 0.05, 0.1])
    contacts = partial(plane_contacts, brick())
    start = [*turn, 0, 0, 0.5], [1.0, 2, 0, 1, 0, 0]
    return simulate_contact(brick(), contacts, *start, 0.8, 0.05, e=0.4, form=form)


@pytest.mark.slow
def test_compiled_runs_are_those_of_numpy():
    ours, readable = rocking("compiled"), rocking("numpy")
    assert len(ours.events) == len(readable.events) > 20
    assert ours["q"] == pytest.approx(readable["q"], abs=1e-12)
    assert ours["force"] == pytest.approx(readable["force"], abs=1e-8)
    times = ([event.t for event in run.events] for run in (ours, readable))
    # at 1e-6 m/s a gap of 1e-16 m is passed in 1e-10 s
    assert next(times) == pytest.approx(next(times), abs=1e-10)


def test_contacts_that_branch_need_the_form_that_takes_them():
    def above(q, qd):
        del qd
        return [PointContact(0, q[4:], [0, 0, 1.0], gap=q[6] if q[6] > 0 else -1.0)]

    arguments = brick(), above, [1, 0, 0, 0, 0, 0, 0.3], np.zeros(6), 0.01, 0.01
    with pytest.raises(TraceError, match="form='numpy' takes contacts as they are"):
        simulate_contact(*arguments)
    fallen = simulate_contact(*arguments, form="numpy")["q"][-1, 6]
    assert fallen == pytest.approx(0.3 - 9.81 * 0.01**2 / 2)
    with pytest.raises(
        ValueError, match="no form 'fused' of rigid contact; there are compiled, nu"
    ):
        simulate_contact(*arguments, form="fused")
