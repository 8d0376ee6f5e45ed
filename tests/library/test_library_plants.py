"""Hybrid and floating-base plants: equations of motion, and comparison with other plants."""

import re
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from library_blocks import FLOATING, FLOATING_BODY
from library_runs import outputs, run
from random_models import MODELS, random_state, random_tree
from rigidblocks.dynamics import aba, bias_force, crba, energy, rnea
from rigidblocks.library import FloatingBasePlant, HybridPlant, RobotPlant
from rigidblocks.robot.configuration import integrate, random_configuration
from rigidblocks.robot.joints import Revolute, SixDoF
from rigidblocks.robot.robots import planar2
from rigidblocks.spatial.spatial import identity, mcI

# rounding of two solutions of the equations of motion times the condition number of H, at most some
# thousands
RTOL = 1e-10
# RK4 with 1 ms steps over 0.5 s at some revolutions per second
CONSERVED = 1e-8

MIXED = MODELS["mixed"]()
JOINTS = ("joint3", 5)
PRESCRIBED, FREE = [2, 5], [0, 1, 3, 4, 6]


def test_hybrid_plant_satisfies_the_equation_of_motion(rng):
    s, plant = random_state(rng, MIXED), HybridPlant(MIXED, JOINTS)
    y = outputs(plant, q=s.q, qd=s.qd, tau=s.tau[FREE], qdd_ref=s.qdd[PRESCRIBED])
    assert_allclose(y["qdd"][PRESCRIBED], s.qdd[PRESCRIBED], rtol=1e-14)
    tau = np.zeros(MIXED.nv)
    tau[FREE], tau[PRESCRIBED] = s.tau[FREE], y["tau_prescribed"]
    assert_allclose(
        rnea(MIXED, s.q, s.qd, y["qdd"]), tau, rtol=0, atol=RTOL * np.abs(tau).max() * 10
    )
    assert_allclose(
        aba(MIXED, s.q, s.qd, tau), y["qdd"], rtol=0, atol=RTOL * np.abs(y["qdd"]).max() * 10
    )
    assert_allclose(y["energy"], energy(MIXED, s.q, s.qd), rtol=1e-12)


@pytest.mark.slow
def test_tracking_error_of_a_prescribed_joint_is_critically_damped():
    # constant reference, initial error e0: d2e/dt2 + kd de/dt + kp e = 0, critically damped
    w, e0 = 20.0, 0.3
    plant = HybridPlant(MIXED, JOINTS, kp=w**2, kd=2 * w, q0=0.1)
    result = run(plant, 1e-3, 400, q_ref=[0.1 + e0, 0.1 - e0])
    t = 1e-3 * np.arange(401)
    e = e0 * (1 + w * t) * np.exp(-w * t)
    assert_allclose(
        result["q"][:, PRESCRIBED], np.transpose([0.1 + e0 - e, 0.1 - e0 + e]), atol=1e-8
    )


def test_prescribed_quaternion_joint_rotates_along_the_shortest_path(rng):
    # at rest, with the rotation e from q to q_ref, the acceleration is kp e; only the spherical
    # joint, the last of the model, is prescribed
    q, e = random_configuration(FLOATING, rng), 0.3 * rng.normal(size=3)
    moved = integrate(FLOATING, q, np.r_[np.zeros(FLOATING.nv - 3), e])
    y = outputs(
        HybridPlant(FLOATING, (FLOATING.nb - 1,), kp=4.0), q=q, q_ref=-moved[-4:]
    )  # q and -q are the same rotation
    assert_allclose(y["qdd"][-3:], 4.0 * e, atol=1e-12)


@pytest.mark.slow
def test_work_of_prescribed_joint_torques_equals_the_energy_change():
    # the free joints have zero torque: only the prescribed motion does work
    dt, plant = 1e-3, HybridPlant(MIXED, JOINTS, kp=100.0, kd=20.0, q0=0.1)
    result = run(plant, dt, 300, q_ref=[0.6, -0.4], h=2e-4)
    power = np.sum(result["tau_prescribed"] * result["qd"][:, PRESCRIBED], axis=1)
    # Simpson's rule over the run has a fourth-order error
    weights = np.r_[1, np.tile([4, 2], 149), 4, 1] * dt / 3
    assert_allclose(weights @ power, result["energy"][-1] - result["energy"][0], rtol=1e-5)


FLOATING_STATE = {
    "quaternion0": (0.7, 0.1, -0.5, 0.3),
    "position0": (1.0, -2.0, 0.5),
    "velocity0": (1.0, -2.0, 0.5, 0.1, 0.2, 0.3),
}


@pytest.mark.slow
@pytest.mark.parametrize("model", [FLOATING, FLOATING_BODY], ids=["with joints", "one body"])
def test_floating_base_conserves_momentum_and_energy_without_gravity(model):
    plant = FloatingBasePlant(model.with_gravity((0.0, 0.0, 0.0)), **FLOATING_STATE, qd0=1.0)
    result = run(plant, 1e-3, 500)
    for name in ("momentum", "energy"):
        assert np.ptp(result["quaternion"]) > 0.1
        assert_allclose(
            result[name], np.broadcast_to(result[name][0], result[name].shape), atol=CONSERVED
        )
    m = sum(body.m for body in model.inertia)
    path = result["com"][0] + np.outer(1e-3 * np.arange(501), result["momentum"][0, 3:] / m)
    assert_allclose(result["com"], path, atol=CONSERVED)


@pytest.mark.slow
def test_centre_of_mass_of_a_floating_base_falls_freely():
    g = np.array([1.0, 2.0, -9.81])
    plant = FloatingBasePlant(FLOATING.with_gravity(g), **FLOATING_STATE, qd0=1.0)
    result = run(plant, 1e-3, 500)
    t, m = 1e-3 * np.arange(501)[:, None], sum(body.m for body in FLOATING.inertia)
    fall = result["com"][0] + t * result["momentum"][0, 3:] / m + g * t**2 / 2
    assert_allclose(result["com"], fall, atol=CONSERVED)
    assert_allclose(
        result["energy"], result["energy"][0], atol=CONSERVED * np.abs(result["energy"]).max()
    )


@pytest.mark.slow
def test_base_quaternion_has_unit_norm():
    result = run(FloatingBasePlant(FLOATING_BODY, **FLOATING_STATE), 1e-3, 500)
    assert_allclose(np.linalg.norm(result["quaternion"], axis=1), 1.0, atol=1e-14)
    assert_allclose(
        outputs(FloatingBasePlant(FLOATING_BODY, quaternion0=(2.0, 0.0, 0.0, 0.0)))["quaternion"],
        [1, 0, 0, 0],
    )


@pytest.mark.slow
def test_floating_base_plant_moves_like_a_plant_with_a_six_dof_joint():
    # both plants have the same model; the base state is the state of the six-dof joint
    model = random_tree(np.random.default_rng(11), (-1, 0, 1), (SixDoF(), Revolute(), Revolute()))
    model = replace(
        model, Xtree=(identity(), *model.Xtree[1:])
    )  # the joint frame coincides with the world frame
    floating = FloatingBasePlant(model, **FLOATING_STATE, q0=(0.3, -0.5), qd0=(1.0, 2.0))
    quaternion = np.array(FLOATING_STATE["quaternion0"]) / np.linalg.norm(
        FLOATING_STATE["quaternion0"]
    )
    q0 = [*quaternion, *FLOATING_STATE["position0"], 0.3, -0.5]
    fixed = RobotPlant(model, q0=q0, qd0=[*FLOATING_STATE["velocity0"], 1.0, 2.0])
    tau = np.array([0.5, -1.5])
    a, b = run(floating, 1e-3, 200, tau=tau), run(fixed, 1e-3, 200, tau=np.r_[np.zeros(6), tau])
    assert_allclose(a["q"], b["q"][:, 7:], atol=1e-9)
    assert_allclose(np.hstack([a["velocity"], a["qd"]]), b["qd"], atol=1e-9)
    assert_allclose(np.hstack([a["quaternion"], a["position"]]), b["q"][:, :7], atol=1e-9)
    assert_allclose(a["energy"], b["energy"], atol=1e-9)
    assert_allclose(np.hstack([a["acceleration"], a["qdd"]]), b["qdd"], atol=1e-7)


def test_force_at_the_centre_of_mass_of_a_floating_base_causes_no_angular_acceleration():
    m, f = 2.0, np.array([1.0, -2.0, 3.0])
    model = replace(FLOATING_BODY, inertia=(mcI(m, np.zeros(3), np.eye(3)),), gravity=np.zeros(3))
    result = run(FloatingBasePlant(model, external_wrenches=True), 1e-3, 1, f_ext=np.r_[0, 0, 0, f])
    assert_allclose(result["acceleration"][0], np.r_[0, 0, 0, f / m], rtol=1e-12)


BAD = [
    (
        lambda: HybridPlant(planar2(), ()),
        "a hybrid plant needs prescribed and force-driven joints, but 0 of the 2 joints",
    ),
    (
        lambda: HybridPlant(planar2(), (0, 1)),
        "a hybrid plant needs prescribed and force-driven joints, but 2 of the 2 joints",
    ),
    (
        lambda: HybridPlant(planar2(), ("knee",)),
        "model 'planar2' has no joint 'knee'; it has: joint1, joint2, or 0",
    ),
    (lambda: HybridPlant(planar2(), (2,)), "model 'planar2' has no joint 2; it has"),
    (
        lambda: HybridPlant(planar2(), (0,), kp=-1.0),
        "the start value of kp[1] is -1 1/s2; it must be at least 0",
    ),
    (
        lambda: HybridPlant(planar2(), (0,), q0=[0.0]),
        "the start value of port 'q' has shape (1,); it needs shape (2,)",
    ),
    (lambda: FloatingBasePlant(planar2()), "model 'planar2' has no floating base"),
    (
        lambda: FloatingBasePlant(FLOATING, quaternion0=(0.0,) * 4),
        "the quaternion of a floating base must not be zero",
    ),
    (
        lambda: FloatingBasePlant(FLOATING, q0=0.0),
        "a quaternion in q0 of a floating base plant is zero",
    ),
    (
        lambda: FloatingBasePlant(FLOATING, velocity0=np.nan),
        "the start value of port 'velocity' must be finite",
    ),
    (
        lambda: FloatingBasePlant(FLOATING, q0=(1.0, 2.0)),
        "the start value of port 'q' has shape (2,); it needs shape (6,)",
    ),
]


@pytest.mark.parametrize(("make", "message"), BAD, ids=[message[:50] for _, message in BAD])
def test_invalid_plant_arguments_are_rejected(make, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make()


def test_rotor_inertia_adds_to_the_diagonal_of_the_inertia_matrix(rng):
    model, I_rot = planar2().with_gravity((0.0, -9.81, 0.0)), np.array([0.7, 0.2])
    q, qd, tau = rng.normal(size=(3, 2))
    y = outputs(RobotPlant(model, rotor_inertia=I_rot), q=q, qd=qd, tau=tau)
    H = crba(model, q) + np.diag(I_rot)
    assert_allclose(y["qdd"], np.linalg.solve(H, tau - bias_force(model, q, qd)), rtol=RTOL)
    assert_allclose(y["energy"], energy(model, q, qd) + I_rot @ qd**2 / 2, rtol=1e-12)


def test_energy_with_rotor_inertia_is_conserved():
    model = planar2().with_gravity((0.0, -9.81, 0.0))
    result = run(
        RobotPlant(model, q0=(0.3, -0.5), qd0=(1.0, 2.0), rotor_inertia=(0.7, 0.2)), 1e-3, 500
    )
    assert_allclose(result["energy"], result["energy"][0], atol=CONSERVED)


@pytest.mark.parametrize(
    ("rotor_inertia", "message"),
    [
        ((0.1, -0.1), "rotor_inertia must not be negative, not [0.1, -0.1] kg m^2"),
        ((0.1, np.nan), "rotor_inertia must be finite, not [0.1, nan]"),
        ((0.1,), "rotor_inertia has shape (1,); it needs shape (2,)"),
    ],
)
def test_invalid_rotor_inertia_is_rejected(rotor_inertia, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        RobotPlant(planar2(), rotor_inertia=rotor_inertia)


def test_floating_base_acceleration_matches_a_fixed_base_model_with_a_six_dof_joint(rng):
    model = random_tree(rng, (-1, 0), (SixDoF(), Revolute((1.0, 2.0, 3.0))))
    s, plant = random_state(rng, model), FloatingBasePlant(model)
    state = {"quaternion": s.q[:4], "position": s.q[4:7], "velocity": s.qd[:6]}
    y = outputs(plant, **state, q=s.q[7:], qd=s.qd[6:], tau=s.tau[6:])
    free = plant.configuration_model.with_gravity(model.gravity)  # its base frame is at the origin
    expected = aba(free, s.q, s.qd, np.concatenate([np.zeros(6), s.tau[6:]]))
    found = np.concatenate([y["acceleration"], y["qdd"]])
    assert_allclose(found, expected, rtol=0, atol=RTOL * np.abs(expected).max())
