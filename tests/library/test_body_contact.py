"""Wrenches of body contact are opposite, and contact with the base equals ground contact."""

from contextlib import nullcontext

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from library_runs import outputs
from random_models import random_state, random_transform
from rigidblocks.block.block import Record
from rigidblocks.contact import (
    BodyContact,
    Box,
    ContactPair,
    GroundContact,
    Plane,
    PointKinematics,
    PointSet,
    Sphere,
    stable_step,
)
from rigidblocks.cosim.graph.block_merging import ContinuousSystem
from rigidblocks.cosim.graph.system import System
from rigidblocks.cosim.simulate import simulate
from rigidblocks.dynamics import body_poses, momentum
from rigidblocks.library import RobotPlant
from rigidblocks.robot.configuration import integrate
from rigidblocks.robot.joints import Prismatic, SixDoF
from rigidblocks.robot.model import Model
from rigidblocks.robot.robots import gripper, planar2
from rigidblocks.spatial.spatial import identity, mcI

RTOL = 1e-12  # rounding of a few transform products
DRIFT = 1e-9  # relative error of momentum and energy in some thousand RK4 steps
K, D, MU = 1e4, 8.0, 0.4
SIDES = np.array([0.2, 0.3, 0.1])
R = 0.15
SEEDS = range(5)


def brick_and_ball():
    """Return a free brick and a free ball without gravity.

    The brick has contact points at its corners, and the ball has a contact surface.
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
    """Return a random state in which a corner of the brick penetrates the ball."""
    rng, model = np.random.default_rng(seed), brick_and_ball()
    s = random_state(rng, model)
    X, q, away = body_poses(model, s.q)[0], s.q.copy(), rng.normal(size=3)
    corner = X.r + X.E.T @ (SIDES / 2)
    q[11:14] = corner + (R - 0.01) * away / np.linalg.norm(away)
    return model, q, 0.1 * s.qd, 1e-3 * rng.normal(size=(8, 3))


@pytest.fixture(scope="module")
def collision():
    """Return the run of a spinning brick that hits the ball and separates from it."""
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
def test_colliding_bodies_separate_after_contact(collision):
    touched = collision[1]["all.contact.in_contact"].max(axis=1)
    assert (touched[0], touched.max(), touched[-1]) == (0.0, 1.0, 0.0)


@pytest.mark.slow
def test_momentum_of_two_bodies_is_conserved_in_a_collision(collision):
    model, result = collision
    h = np.array(
        [
            momentum(model, q, qd)
            for q, qd in zip(result["all.bodies.q"], result["all.bodies.qd"], strict=True)
        ]
    )
    assert_allclose(h, np.broadcast_to(h[0], h.shape), rtol=0, atol=DRIFT * np.abs(h[0]).max())
    ball = result["all.bodies.qd"][:, 9:]
    assert np.abs(ball[-1] - ball[0]).max() > 0.1  # the collision changes the momentum of the ball


@pytest.mark.slow
def test_energy_of_bodies_is_constant_in_flight_and_decreases_in_a_collision(collision):
    _, result = collision
    energy = result["all.bodies.energy"]
    flying = energy[result["all.contact.depth"].max(axis=1) <= 0]
    assert np.all(np.diff(flying) < DRIFT * energy[0])
    assert energy[-1] < 0.99 * energy[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_contact_wrenches_on_both_bodies_are_opposite(seed):
    model, q, qd, x = overlapping(seed)
    y = outputs(touching(model), q=q, qd=qd, x=x)
    assert y["in_contact"].any()
    assert_array_equal(y["f_ext"][0], -y["f_ext"][1])
    assert_allclose(
        y["f_ext"][0][3:], y["force"].sum(axis=0), rtol=0, atol=RTOL * np.abs(y["force"]).max()
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_contact_between_two_bodies_never_adds_energy(seed):
    # power of the wrenches + power stored in the springs = power of friction and damping <= 0
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
    )  # error of the finite differences


@pytest.mark.parametrize("seed", SEEDS)
def test_contact_forces_between_bodies_rotate_with_the_scene(seed):
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
def test_common_velocity_of_two_bodies_does_not_change_their_contact_forces(seed):
    model, q, qd, x = overlapping(seed)
    v0 = qd[:6]
    together = np.concatenate([X @ v0 for X in body_poses(model, q)])
    moving, resting = (
        outputs(touching(model), q=q, qd=v, x=x)["force"] for v in (together, np.zeros(12))
    )
    assert_allclose(moving, resting, rtol=0, atol=RTOL * K)


@pytest.mark.parametrize("seed", SEEDS)
def test_contact_of_a_body_with_the_base_gives_the_forces_of_ground_contact(seed):
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


def test_gripper_fingers_press_a_block_with_opposite_forces():
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
def test_communication_step_above_the_stability_limit_of_a_contact_gives_a_warning(D, too_long):
    # two masses slide along z: the stable step depends on their reduced mass
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
        ((), "needs one or more pairs"),
        (
            (ContactPair(0, 2, Plane()),),
            r"contact pair 0 has the unknown body 2; model 'thrown' has the bodies 0 \.\. 1",
        ),
        ((ContactPair(-1, 0, Plane()),), "contact pair 0 has the unknown body -1"),
        ((ContactPair(1, 1, Plane()),), "pair 0: body 1 cannot touch itself"),
    ],
)
def test_invalid_contact_pairs_are_rejected(pairs, message):
    with pytest.raises(ValueError, match=message):
        BodyContact(brick_and_ball(), pairs, K, D)


def test_contact_pairs_without_contact_geometry_are_rejected():
    with pytest.raises(TypeError, match="the surface of contact pair 0 must be a Surface"):
        BodyContact(brick_and_ball(), (ContactPair(0, 1, PointSet([[0.0, 0.0, 0.0]])),), K, D)
    with pytest.raises(ValueError, match="pair 0: body hand has no contact shapes"):
        BodyContact(gripper(), (ContactPair(0, 3, Plane()),), K, D)
    with pytest.raises(ValueError, match=r"the start value of D_t is 0 N.s/m; it must be positive"):
        BodyContact(brick_and_ball(), (ContactPair(0, 1, Sphere(R)),), K, 0.0)


def test_contact_surface_is_rejected_if_it_is_smaller_than_the_contact_point_spacing():
    body = mcI(1.0, np.zeros(3), np.eye(3) / 6)
    cube, slab = Box((1.0, 1.0, 1.0)), Box((3.0, 3.0, 0.2))
    model = Model("cubes", (-1, -1), (SixDoF(),) * 2, (identity(),) * 2, (body,) * 2,
                  contact=((cube,), (cube,)))  # fmt: skip
    BodyContact(model, (ContactPair(0, 1, slab),), K, D).outputs  # noqa: B018
    with pytest.raises(ValueError, match=r"up to 1 m apart and can miss a Box with a width of 1 m"):
        BodyContact(model, (ContactPair(0, 1, cube),), K, D).outputs  # noqa: B018
    with pytest.raises(ValueError, match="use RigidContactPlant"):
        BodyContact(model, (ContactPair(0, 1, Sphere(0.1)),), K, D).outputs  # noqa: B018
    with pytest.raises(ValueError, match="use RigidContactPlant"):
        GroundContact(model, K, D, ground=cube)
