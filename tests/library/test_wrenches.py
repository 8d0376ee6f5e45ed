"""Wrenches at frames, in joints and at the base match virtual work, momentum and RNEA."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from random_models import MODELS, random_state, random_transform
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.memory_layout import Memory
from rigidblocks.contact import (
    Box,
    ContactForces,
    Sphere,
)
from rigidblocks.dynamics import aba, body_poses, joint_wrenches, kinetic_energy, rnea
from rigidblocks.dynamics.energy_momentum import momentum
from rigidblocks.dynamics.kinematics import point_acceleration, point_velocity
from rigidblocks.library import (
    Frame,
    FrameKinematics,
    FrameWrenches,
    JointWrenches,
    WrenchSum,
)
from rigidblocks.robot.configuration import integrate

ROBOTS = ["planar2", "branched", "mixed"]


def outputs(block, **inputs):
    memory = Memory(block)
    m = memory.start()
    for name, value in inputs.items():
        m[memory.where[name]] = np.ravel(value)
    m[memory.y] = NumpyEvaluator(memory).output(m)
    return {port.name: m[memory.where[port.name]].reshape(port.shape) for port in block.outputs}


@pytest.fixture(params=ROBOTS)
def model(request):
    return MODELS[request.param]()


def test_joint_torque_is_the_projection_of_the_joint_wrench(model, rng):
    s = random_state(rng, model)
    f, _ = joint_wrenches(model, s.q, s.qd, s.qdd, s.f_ext)
    tau = rnea(model, s.q, s.qd, s.qdd, s.f_ext)
    for i, joint in enumerate(model.joint):
        S = joint.jcalc(s.q[model.q_slices[i]], s.qd[model.v_slices[i]]).S
        assert_allclose(S.T @ f[i], tau[model.v_slices[i]], atol=1e-11)


def test_momentum_derivative_is_the_sum_of_base_wrench_weight_and_external_wrenches(model, rng):
    """Newton-Euler equation of the robot: dh/dt = f_base + weight + f_ext."""
    s = random_state(rng, model)
    gravity = np.array([0.3, -2.0, -9.0])
    found = outputs(JointWrenches(model), q=s.q, qd=s.qd, qdd=s.qdd, f_ext=s.f_ext, gravity=gravity)
    e = 1e-6
    after, before = (
        momentum(model, integrate(model, s.q, sign * e * s.qd), s.qd + sign * e * s.qdd)
        for sign in (1, -1)
    )
    weight = np.zeros(6)
    for X, I in zip(body_poses(model, s.q), model.inertia, strict=True):
        v = np.concatenate([np.zeros(3), X.E @ gravity])
        weight += X.T @ I.force(np.zeros(6), v)
    change = (after - before) / (2 * e)
    assert_allclose(found["f_base"] + weight + s.f_ext.sum(axis=0), change, atol=1e-6)


def test_power_of_a_frame_wrench_equals_the_power_of_its_body_wrenches(model, rng):
    """The wrench at a frame has the power n . w + f . v."""
    frames = (
        Frame("one", model.nb - 1, random_transform(rng)),
        Frame("two", 0, random_transform(rng)),
    )
    s, wrenches = random_state(rng, model), rng.normal(size=(2, 6))
    f_ext = outputs(
        FrameWrenches(model, frames), q=s.q, wrench_one=wrenches[0], wrench_two=wrenches[1]
    )["f_ext"]
    moving = outputs(FrameKinematics(model, frames), q=s.q, qd=s.qd)
    power = 0.0
    for frame, wrench in zip(frames, wrenches, strict=True):
        R = moving[f"R_{frame.name}"]
        power += (R @ wrench[:3]) @ moving[f"w_{frame.name}"]
        power += (R @ wrench[3:]) @ moving[f"v_{frame.name}"]
    held = rnea(model, s.q, s.qd, s.qdd) - rnea(model, s.q, s.qd, s.qdd, f_ext)
    assert_allclose(held @ s.qd, power, rtol=1e-10)
    assert kinetic_energy(model, s.q, s.qd) > 0


def test_frame_acceleration_is_the_derivative_of_the_frame_velocity(model, rng):
    frame = Frame("tip", model.nb - 1, random_transform(rng))
    s, r = random_state(rng, model), frame.placement.r
    block = FrameKinematics(model, (frame,), accelerations=True)
    found = outputs(block, q=s.q, qd=s.qd, qdd=s.qdd)
    body = model.nb - 1
    assert_allclose(found["v_tip"], point_velocity(model, s.q, s.qd, body, r), atol=1e-12)
    expected = point_acceleration(model, s.q, s.qd, s.qdd, body, r)
    assert_allclose(found["a_tip"], expected, atol=1e-11)
    e = 1e-6
    after, before = (
        outputs(
            block,
            q=integrate(model, s.q, sign * e * s.qd),
            qd=s.qd + sign * e * s.qdd,
            qdd=s.qdd,
        )["w_tip"]
        for sign in (1, -1)
    )
    assert_allclose(found["alpha_tip"], (after - before) / (2 * e), atol=1e-6)


def test_wrench_sum_block_has_the_same_effect_as_the_sum_of_its_input_wrenches(model, rng):
    s = random_state(rng, model)
    parts = rng.normal(size=(3, model.nb, 6))
    together = outputs(WrenchSum(model, 3), f_ext1=parts[0], f_ext2=parts[1], f_ext3=parts[2])[
        "f_ext"
    ]
    assert_allclose(
        aba(model, s.q, s.qd, s.tau, together), aba(model, s.q, s.qd, s.tau, parts.sum(axis=0))
    )


def test_frame_of_an_unknown_body_is_rejected():
    model = MODELS["planar2"]()
    with pytest.raises(ValueError, match=r"unknown body 'hand' of frame 'x' in model"):
        FrameWrenches(model, (Frame("x", "hand"),))
    with pytest.raises(ValueError, match=r"one or more frames with unique names"):
        FrameWrenches(model, (Frame("x", 0), Frame("x", 1)))


def touching():
    """Return a model with a box and a ball on body 1, no shape on body 2 and a ball on body 3."""
    shapes = (Box((0.1, 0.2, 0.3)), Sphere(0.1)), (), (Sphere(0.05),)
    return replace(MODELS["branched"](), contact=(*shapes, *[()] * (MODELS["branched"]().nb - 3)))


def test_contact_force_of_a_body_is_the_sum_over_its_contact_points(rng):
    force = rng.normal(size=(10, 3))
    found = outputs(ContactForces(touching()), force=force)
    assert list(found) == ["force_body1", "force_body3"]
    assert_allclose(found["force_body1"], force[:9].sum(axis=0), atol=1e-14)
    assert_allclose(found["force_body3"], force[9], atol=0)
    one = outputs(ContactForces(touching(), ("body3",)), force=force)
    assert list(one) == ["force_body3"]


@pytest.mark.parametrize(
    ("model", "bodies", "message"),
    [
        (
            touching(),
            ("body2",),
            r"'body2' .*no contact points; bodies with contact points: body1, body",
        ),
        (touching(), ("bod1",), r"\(did you mean body1\?\)"),
        (touching(), ("body1", "body1"), "only one contact force output"),
        (MODELS["branched"](), (), "has no contact shapes"),
        (
            replace(touching(), body_names=("left foot", *touching().body_names[1:])),
            (),
            "the name 'left foot' of a body with a contact force output must have only letters",
        ),
    ],
)
def test_contact_force_output_of_an_unknown_body_is_rejected(model, bodies, message):
    with pytest.raises(ValueError, match=message):
        ContactForces(model, bodies)
