"""Contact between bodies: what one gets the other gives, and where one of them is at rest it is
ground.
"""

from contextlib import nullcontext

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from library_runs import outputs
from random_models import random_state, random_transform
from rigidblocks.algebra.spatial import identity, mcI
from rigidblocks.block.block import Record
from rigidblocks.contact import Box, ContactPair, Plane, PointSet, Sphere, stable_step
from rigidblocks.dynamics import body_poses, momentum
from rigidblocks.joint import Prismatic, SixDoF
from rigidblocks.library import BodyContact, GroundContact, PointKinematics, RobotPlant
from rigidblocks.model.configuration import integrate
from rigidblocks.model.model import Model
from rigidblocks.robots import gripper, planar2
from rigidblocks.simulation.simulate import simulate
from rigidblocks.system.continuous import ContinuousSystem
from rigidblocks.system.system import System

RTOL = 1e-12  # rounding of a few products of transforms
DRIFT = 1e-9  # of momentum and energy over some thousand steps of RK4, whose error this is
K, D, MU = 1e4, 8.0, 0.4
SIDES = np.array([0.2, 0.3, 0.1])
R = 0.15
SEEDS = range(5)


def brick_and_ball():
    """A free brick and a free ball in weightlessness; the brick touches with its corners, the ball
    carries a surface.
    """
    brick = mcI(1.0, np.zeros(3), np.diag(SIDES @ SIDES - SIDES**2) / 12)
    ball = mcI(2.0, np.zeros(3), 0.4 * 2.0 * R**2 * np.eye(3))
    return Model(
        "thrown",
        (-1, -1),
        (SixDoF(), SixDoF()),
        (identity(),) * 2,
        (brick, ball),
        gravity=(0.0, 0.0, 0.0),
        contact=((Box(SIDES),), (Sphere(R),)),
    )


def touching(model):
    return BodyContact(model, (ContactPair(0, 1, Sphere(R)),), K, D, MU)


def overlapping(seed):
    """A random state in which a corner of the brick is a little inside the ball."""
    rng, model = np.random.default_rng(seed), brick_and_ball()
    s = random_state(rng, model)
    X, q, away = body_poses(model, s.q)[0], s.q.copy(), rng.normal(size=3)
    corner = X.r + X.E.T @ (SIDES / 2)
    q[11:14] = corner + (R - 0.01) * away / np.linalg.norm(away)
    return model, q, 0.1 * s.qd, 1e-3 * rng.normal(size=(8, 3))


@pytest.fixture(scope="module")
def collision():
    """The run of a spinning brick that is thrown at the ball, and leaves it."""
    model, parts, system = brick_and_ball(), System(), System()
    q0 = [1.0, 0.2, 0.1, 0.0, -0.35, 0.02, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    qd0 = [0.5, 2.0, -3.0, 2.0, 0.1, 0.0, 0.0, 0.0, 4.0, -0.2, 0.0, 0.1]
    parts.add("bodies", RobotPlant(model, q0, qd0, external_wrenches=True))
    parts.add("contact", touching(model))
    for source, target in (
        ("bodies.q", "contact.q"),
        ("bodies.qd", "contact.qd"),
        ("contact.f_ext", "bodies.f_ext"),
    ):
        parts.connect(source, target)
    system.add("all", ContinuousSystem(parts), h=1e-4)
    return model, simulate(system, 0.4, 1e-4, progress=False)


@pytest.mark.slow
def test_bodies_collide_and_part_again(collision):
    touched = collision[1]["all.contact.in_contact"].max(axis=1)
    assert (touched[0], touched.max(), touched[-1]) == (0.0, 1.0, 0.0)


@pytest.mark.slow
def test_momentum_is_conserved_through_a_collision(collision):
    model, result = collision
    h = np.array(
        [
            momentum(model, q, qd)
            for q, qd in zip(result["all.bodies.q"], result["all.bodies.qd"], strict=True)
        ]
    )
    assert_allclose(h, np.broadcast_to(h[0], h.shape), rtol=0, atol=DRIFT * np.abs(h[0]).max())
    ball = result["all.bodies.qd"][:, 9:]
    assert np.abs(ball[-1] - ball[0]).max() > 0.1  # there was something to conserve


@pytest.mark.slow
def test_energy_is_kept_in_flight_and_lost_in_a_collision(collision):
    _, result = collision
    energy = result["all.bodies.energy"]
    flying = energy[result["all.contact.depth"].max(axis=1) <= 0]
    assert np.all(np.diff(flying) < DRIFT * energy[0])
    assert energy[-1] < 0.99 * energy[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_what_touches_and_what_is_touched_get_opposite_wrenches(seed):
    model, q, qd, x = overlapping(seed)
    y = outputs(touching(model), q=q, qd=qd, x=x)
    assert y["in_contact"].any()
    assert_array_equal(y["f_ext"][0], -y["f_ext"][1])
    assert_allclose(
        y["f_ext"][0][3:], y["force"].sum(axis=0), rtol=0, atol=RTOL * np.abs(y["force"]).max()
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_contact_never_adds_energy(seed):
    # the power of the wrenches and what the springs take up: the sum is friction and damping, which
    # is never positive
    model, q, qd, x = overlapping(seed)
    block, step = touching(model), 1e-6
    y = outputs(block, q=q, qd=qd, x=x)
    v0 = [X.inverse() @ v for X, v in zip(body_poses(model, q), qd.reshape(2, 6), strict=True)]
    power = sum(f @ v for f, v in zip(y["f_ext"], v0, strict=True))
    ahead, behind = (
        outputs(block, q=integrate(model, q, s * step * qd), qd=qd)["depth"] for s in (1, -1)
    )
    normal = K * np.maximum(y["depth"], 0.0) @ ((ahead - behind) / (2 * step))
    p = Record({port.name: port.start for port in block.parameters})
    rate = block.derivative(x=Record({"x": x}), u=Record({"q": q, "qd": qd}), p=p)["x"]
    assert (
        power + normal + K * np.sum(x * rate) < 1e-6 * np.abs(y["force"]).max()
    )  # of the differences


@pytest.mark.parametrize("seed", SEEDS)
def test_forces_turn_with_the_whole_scene(seed):
    model, q, qd, x = overlapping(seed)
    y, X = outputs(touching(model), q=q, qd=qd, x=x), random_transform(np.random.default_rng(seed))
    moved = np.concatenate(
        [
            joint.nearest(pose @ X)
            for joint, pose in zip(model.joint, body_poses(model, q), strict=True)
        ]
    )
    z = outputs(touching(model), q=moved, qd=qd, x=x)
    assert_allclose(z["depth"], y["depth"], rtol=0, atol=RTOL)
    assert_allclose(z["force"], y["force"] @ X.E, rtol=0, atol=RTOL * K)


@pytest.mark.parametrize("seed", SEEDS)
def test_bodies_that_move_as_one_feel_no_damping(seed):
    model, q, qd, x = overlapping(seed)
    v0 = qd[:6]
    together = np.concatenate([X @ v0 for X in body_poses(model, q)])
    moving, resting = (
        outputs(touching(model), q=q, qd=v, x=x)["force"] for v in (together, np.zeros(12))
    )
    assert_allclose(moving, resting, rtol=0, atol=RTOL * K)


@pytest.mark.parametrize("seed", SEEDS)
def test_pair_with_the_base_is_ground(seed):
    rng = np.random.default_rng(seed)
    shapes = ((Sphere(0.2, (0.5, 0.1, 0.0)),), (PointSet([[1.0, 0.0, 0.0], [0.9, 0.1, 0.2]]),))
    robot = planar2()
    model = Model(robot.name, robot.parent, robot.joint, robot.Xtree, robot.inertia, contact=shapes)
    slope, s, x = (
        Plane((0.3, 1.0, -0.2), (0.1, 0.8, 0.0)),
        random_state(rng, model),
        0.01 * rng.normal(size=(3, 3)),
    )
    points = outputs(PointKinematics(model), q=s.q, qd=s.qd)
    ground = outputs(GroundContact(model, K, D, MU, slope), x=x, **points)
    pairs = outputs(
        BodyContact(model, (ContactPair(0, -1, slope), ContactPair(1, -1, slope)), K, D, MU),
        q=s.q,
        qd=s.qd,
        x=x,
    )
    for name in ("f_ext", "force", "depth", "in_contact"):
        assert_allclose(
            pairs[name], ground[name], rtol=0, atol=RTOL * (1 + np.abs(ground[name]).max())
        )


def test_block_between_fingers_is_pressed_from_both_sides():
    model = gripper()
    pairs = tuple(ContactPair(3, finger, model.contact[finger][0]) for finger in (1, 2))
    inside = 1e-4
    q = [0.1, 0.025 + inside, 0.025 + inside, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.1]
    y = outputs(BodyContact(model, pairs, K, D, MU), q=q)
    push = 4 * K * inside
    assert_allclose(y["f_ext"][1][3:], [-push, 0.0, 0.0], rtol=0, atol=RTOL * K)
    assert_allclose(y["f_ext"][2][3:], [push, 0.0, 0.0], rtol=0, atol=RTOL * K)
    assert_allclose(y["f_ext"][3], 0.0, rtol=0, atol=RTOL * K)
    assert y["in_contact"].sum() == 8


@pytest.mark.slow
@pytest.mark.parametrize(("D", "too_long"), [(200.0, False), (5.0, True)])
def test_run_that_holds_the_forces_between_two_masses_too_long_warns(D, too_long):
    # two masses that slide along z: a contact between them feels their reduced mass
    masses = (mcI(1.0, np.zeros(3), np.eye(3)), mcI(3.0, np.zeros(3), np.eye(3)))
    model = Model(
        "rail",
        (-1, -1),
        (Prismatic(), Prismatic()),
        (identity(),) * 2,
        masses,
        contact=((Sphere(0.1),), ()),
    )
    contact = BodyContact(model, (ContactPair(0, 1, Plane()),), 2e4, D)
    longest = stable_step(2e4, D, 1.0 * 3.0 / 4.0)
    assert contact.longest_step([0.1, 0.0]) == pytest.approx(longest)
    assert (longest < 1e-3) == too_long
    system = System()
    system.add("bodies", RobotPlant(model, [0.1, 0.0], external_wrenches=True))
    system.add("contact", contact)
    for source, target in (
        ("bodies.q", "contact.q"),
        ("bodies.qd", "contact.qd"),
        ("contact.f_ext", "bodies.f_ext"),
    ):
        system.connect(source, target)
    with (
        pytest.warns(RuntimeWarning, match="'contact' holds its outputs")
        if too_long
        else nullcontext()
    ):
        simulate(system, 0.01, 1e-3)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ((), "needs at least one pair"),
        (
            (ContactPair(0, 2, Plane()),),
            r"pair 0 is of body 2; model 'thrown' has the bodies 0 \.\. 1",
        ),
        ((ContactPair(-1, 0, Plane()),), "pair 0 is of body -1"),
        ((ContactPair(1, 1, Plane()),), "pair 0 is of body 1 against itself"),
    ],
)
def test_pairs_that_are_none_are_refused(pairs, message):
    with pytest.raises(ValueError, match=message):
        BodyContact(brick_and_ball(), pairs, K, D)


def test_what_cannot_touch_is_refused():
    with pytest.raises(TypeError, match="the surface of pair 0 must be a Surface"):
        BodyContact(brick_and_ball(), (ContactPair(0, 1, PointSet([[0.0, 0.0, 0.0]])),), K, D)
    with pytest.raises(ValueError, match="pair 0 has nothing to touch with: list shapes of hand"):
        BodyContact(gripper(), (ContactPair(0, 3, Plane()),), K, D)
    with pytest.raises(ValueError, match=r"the start value of D_t is 0 N.s/m; it must be positive"):
        BodyContact(brick_and_ball(), (ContactPair(0, 1, Sphere(R)),), K, 0.0)


def test_boxes_whose_corners_are_not_enough_are_refused():
    body = mcI(1.0, np.zeros(3), np.eye(3) / 6)
    cube, slab = Box((1.0, 1.0, 1.0)), Box((3.0, 3.0, 0.2))
    model = Model("cubes", (-1, -1), (SixDoF(),) * 2, (identity(),) * 2, (body,) * 2,
                  contact=((cube,), (cube,)))  # fmt: skip
    BodyContact(model, (ContactPair(0, 1, slab),), K, D).outputs  # noqa: B018
    with pytest.raises(ValueError, match="'body1', 1 m long, could pass through a Box 1 m wide"):
        BodyContact(model, (ContactPair(0, 1, cube),), K, D).outputs  # noqa: B018
    with pytest.raises(ValueError, match="use RigidContactPlant"):
        BodyContact(model, (ContactPair(0, 1, Sphere(0.1)),), K, D).outputs  # noqa: B018
    with pytest.raises(ValueError, match="use RigidContactPlant"):
        GroundContact(model, K, D, ground=cube)
