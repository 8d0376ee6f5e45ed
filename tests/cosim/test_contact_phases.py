"""Motion between two events of rigid contact (RBDA Table 11.1): sticking and slipping contacts."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from random_models import MODELS, random_state
from rigidblocks import Model, Prismatic, SixDoF
from rigidblocks.contact import (
    Box,
    PointContact,
    beginning_phase,
    phase_motion,
    plane_contacts,
    rigid_contact,
)
from rigidblocks.dynamics import crba
from rigidblocks.spatial.spatial import RigidInertia, identity, mcI

G = 9.81
ROUNDING = 1e-12  # the integrator is exact; rounding over some hundred steps and some events
PENETRATION = 1e-12  # [m] gap at a located event, plus rounding
ORDER = 0.15  # tolerance of a fitted order
UP = np.array([0.0, 0.0, 1.0])


def brick(sides=(0.4, 0.3, 0.2), m=2.0):
    """Return a free-floating brick."""
    a, b, c = sides
    inertia = mcI(m, np.zeros(3), m / 12 * np.diag([b * b + c * c, a * a + c * c, a * a + b * b]))
    return Model("brick", (-1,), (SixDoF(),), (identity(),), (inertia,), contact=((Box(sides),),))


# contact modes


@pytest.mark.slow
@pytest.mark.parametrize("name", ["six-axis", "satellite", "all joints"])
def test_frictionless_contact_motion_solves_the_complementarity_problem(name, rng):
    model = MODELS[name]()
    for _ in range(10):
        s = random_state(rng, model)
        normals = rng.normal(size=(4, 3))
        contacts = [
            PointContact(model.nb - 1 - i % 2, rng.uniform(-1, 1, 3), n / np.linalg.norm(n))
            for i, n in enumerate(normals)
        ]
        expected = rigid_contact(model, s.q, s.qd, s.tau, contacts)
        phase = beginning_phase(model, s.q, s.qd, s.tau, contacts, range(4))
        motion = phase_motion(model, s.q, s.qd, s.tau, contacts, phase)
        tolerance = 1e-11 * np.linalg.cond(crba(model, s.q))
        assert_allclose(
            motion.qdd, expected.qdd, rtol=0, atol=tolerance * np.abs(expected.qdd).max()
        )
        assert set(np.flatnonzero(expected.lam)) <= set(phase.pressed)
        assert (motion.force[:, 0] >= -1e-9 * np.abs(motion.force).max()).all()


def check_coulombs_law(phase, motion, mu):
    z, t = motion.force[:, 0], np.linalg.norm(motion.force[:, 1:], axis=1)
    a, sliding = motion.acceleration, np.linalg.norm(motion.acceleration[:, 1:], axis=1)
    size, fast = max(np.abs(motion.force).max(), 1.0), np.abs(a).max() + 1.0
    assert (z > -1e-8 * size).all()
    assert (t < mu * z + 1e-8 * size).all()
    assert (a[:, 0] > -1e-8 * fast).all()
    for i in phase.pressed:
        assert abs(a[i, 0]) < 1e-8 * fast
        if i not in phase.slip:
            assert sliding[i] < 1e-8 * fast
        elif sliding[i] > 1e-3 * fast:  # friction opposes the direction of incipient sliding
            assert motion.force[i, 1:] @ a[i, 1:] < -0.99 * mu * z[i] * sliding[i]


@pytest.mark.slow
def test_contact_forces_follow_coulombs_law_in_every_contact_mode(rng):
    # a free brick on three corners under random forces satisfies the law in every contact mode
    model, mu, kinds = brick(), 0.5, set()
    for _ in range(30):
        q = np.array([1.0, 0, 0, 0, 0, 0, 0.1])
        tau = rng.normal(size=6) * np.array([1, 1, 1, 8, 8, 8])
        contacts = plane_contacts(model, q, np.zeros(6), mu=mu)
        phase = beginning_phase(model, q, np.zeros(6), tau, contacts, [0, 2, 4])
        motion = phase_motion(model, q, np.zeros(6), tau, contacts, phase)
        check_coulombs_law(phase, motion, mu)
        kinds |= {
            len(phase.pressed) - len(set(phase.slip) & set(phase.pressed)),
            -len(phase.pressed),
        }
    assert {0, 3, -3} <= kinds  # all slip, all stick, all are pressed


def test_contacts_of_a_ball_in_a_narrowing_slot_have_no_solution():
    # RBDA Example 11.1: the ball moves into the slot, and no forces keep it out of both walls
    inertia = mcI(1.0, np.zeros(3), np.eye(3))
    nothing = RigidInertia(0.0, np.zeros(3), np.zeros((3, 3)))
    model = Model(
        "ball",
        (-1, 0),
        (Prismatic((1.0, 0.0, 0.0)), Prismatic()),
        (identity(),) * 2,
        (nothing, inertia),
        massless=("body1",),
    )
    still = np.zeros(3)
    for turning, possible in ((1.0, True), (-1.0, False)):
        walls = [
            PointContact(1, still, s * UP, point_rate=still, normal_rate=np.array([turning, 0, 0]))
            for s in (1, -1)
        ]
        arguments = model, np.zeros(2), np.array([1.0, 0.0]), np.zeros(2), walls, [0, 1]
        if possible:
            assert len(beginning_phase(*arguments).pressed) == 1
        else:
            with pytest.raises(
                ArithmeticError,
                match="contacts 0, 1 have no possible motion: no forces prevent",
            ):
                beginning_phase(*arguments)
