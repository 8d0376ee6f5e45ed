"""Rotors and gears in plants: reduced equations, energy, and analytic solutions of two bodies."""

import re
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from element_models import FLOATING, GEARED_PLANTS, GEARS, MODEL, SPRINGS
from library_runs import outputs, run
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.memory_layout import Memory
from rigidblocks.dynamics import bias_force, crba
from rigidblocks.dynamics.drives import Drive, Follower, Gearbox
from rigidblocks.dynamics.motors import Rotor
from rigidblocks.library import FloatingBasePlant, HybridPlant, RobotPlant
from rigidblocks.robot.configuration import random_configuration
from rigidblocks.robot.joints import Prismatic, Revolute, SixDoF
from rigidblocks.robot.model import Model
from rigidblocks.robot.robots import planar2, planar_n
from rigidblocks.spatial.spatial import mcI, xlt

RTOL = 1e-10  # rounding of two solutions of the equations of motion
RATIO = GEARS[1].follower.ratio
HELD = 1e-12  # rad, m: rounding of a gear constraint


def geared(name, driven, by, *values):
    """Return a drive that only couples two joints, with the ratio and the offset in `values`."""
    return Drive(name, by, follower=Follower(driven, *values))


def two_pulleys():
    """Return two discs on parallel axes, of 0.3 and 0.05 kg m^2."""
    discs = (mcI(1.0, np.zeros(3), 0.3 * np.eye(3)), mcI(1.0, np.zeros(3), 0.05 * np.eye(3)))
    places = (xlt([0.0, 0.0, 0.0]), xlt([1.0, 0.0, 0.0]))
    return Model("pulleys", (-1, -1), (Revolute(),) * 2, places, discs, np.zeros(3))


def test_acceleration_of_a_belt_drive_includes_the_reflected_inertias():
    # (I1 + r^2 I2 + I_rot r_m^2) qdd1 = tau1 + r tau2
    r, elements = (
        -2.5,
        (
            geared("belt", "joint2", "joint1", -2.5),
            Drive("motor", "joint1", Rotor(1e-4), Gearbox(50.0)),
        ),
    )
    y = outputs(RobotPlant(two_pulleys(), elements=elements), tau=[1.3, 0.4])
    expected = (1.3 + r * 0.4) / (0.3 + r * r * 0.05 + 2500 * 1e-4)
    assert_allclose(y["qdd"], [expected, r * expected], rtol=1e-13)


def test_accelerations_of_rack_and_pinion_satisfy_the_reduced_equation():
    model = replace(
        two_pulleys(), joint=(Revolute(), Prismatic((1.0, 0.0, 0.0))), gravity=np.array([3.0, 0, 0])
    )
    plant = RobotPlant(model, elements=(geared("rack", "joint2", "joint1", 0.1, 0.02),))
    assert {p.name: p.unit for p in plant.parameters}["rack_follower_ratio"] == "m/rad"
    # (0.3 + 0.1^2 1) qdd = 0.1 m g with m = 1 kg
    result = run(plant, 1e-2, 100)
    qdd = 0.1 * 3.0 / (0.3 + 0.01)
    assert_allclose(result["q"][-1], [qdd / 2, 0.1 * qdd / 2 + 0.02], rtol=1e-11)


@pytest.mark.parametrize("independent_by", ["joint1", "joint2"])
def test_geared_double_pendulum_accelerations_satisfy_the_reduced_equations(rng, independent_by):
    # H_G ydd + C_G = G^T tau with H_G = G^T H G (RBDA Eq 9.26)
    model = planar2().with_gravity((0.0, -9.81, 0.0))
    r = -0.7 if independent_by == "joint1" else -1 / 0.7
    other = "joint2" if independent_by == "joint1" else "joint1"
    gear = geared("gear", other, independent_by, r, 0.4)
    G = np.array([1.0, r] if independent_by == "joint1" else [r, 1.0])
    o = np.array([0.0, 0.4] if independent_by == "joint1" else [0.4, 0.0])
    for y, yd, *tau in rng.uniform(-2, 2, (10, 4)):
        q, qd = G * y + o, G * yd
        found = outputs(RobotPlant(model, elements=(gear,)), q=q, qd=qd, tau=tau)["qdd"]
        ydd = G @ (tau - bias_force(model, q, qd)) / (G @ crba(model, q) @ G)
        assert_allclose(found, G * ydd, rtol=RTOL)


@pytest.mark.slow
@pytest.mark.parametrize("name", GEARED_PLANTS)
def test_gear_constraints_of_every_plant_are_satisfied_up_to_rounding_errors(name):
    plant, errors = GEARED_PLANTS[name]((*SPRINGS, *GEARS)), []
    model = getattr(plant, "configuration_model", plant.model)
    hinge, slide = (joint_variable(model, plant, joint) for joint in ("hinge", "slide"))
    offset = next(d.follower.offset for d in plant.elements if getattr(d, "follower", None))
    for h in (4e-3, 2e-3):
        result = run(plant, 4e-3, 100, h=h)
        E = result["energy"]
        errors.append(np.abs(E - E[0]).max())
        q, qd = result["q"], result["qd"]
        assert_allclose(q[:, slide[0]], RATIO * q[:, hinge[0]] + offset, rtol=0, atol=HELD)
        assert_allclose(qd[:, slide[1]], RATIO * qd[:, hinge[1]], rtol=0, atol=HELD)
    assert np.ptp(q[:, hinge[0]]) > 0.01
    assert errors[1] < 1e-4 * abs(E[0])
    assert errors[0] > 10.0 * errors[1]


def joint_variable(model, plant, joint):
    """Return the indices of a joint coordinate in the outputs q and qd."""
    i = model.joint_names.index(joint)
    before = (7, 6) if isinstance(plant, FloatingBasePlant) else (0, 0)
    return model.q_slices[i].start - before[0], model.v_slices[i].start - before[1]


def test_rotor_has_equal_effects_in_floating_base_and_six_dof_plants():
    # the floating base uses the joint-space inertia, the other plant the articulated bodies
    model = replace(FLOATING, Xtree=(xlt(np.zeros(3)), *FLOATING.Xtree[1:]))
    rotor = Drive("motor", "hinge", Rotor(2e-3), Gearbox(10.0))
    floating = FloatingBasePlant(model, velocity0=0.3, qd0=0.5, elements=(rotor,))
    fixed = RobotPlant(model, qd0=[0.3] * 6 + [0.5] * 2, elements=(rotor,))
    tau = np.array([0.3, -0.2])
    a, b = outputs(floating, tau=tau), outputs(fixed, tau=np.r_[np.zeros(6), tau])
    assert_allclose(a["qdd"], b["qdd"][6:], rtol=1e-9)
    assert_allclose(a["acceleration"], b["qdd"][:6], rtol=1e-9)
    assert_allclose(a["energy"], b["energy"], rtol=1e-12)


def test_rotor_elements_have_the_same_effect_as_the_rotor_inertia_parameter():
    elements = (
        Drive("one", "joint1", Rotor(0.7e-4), Gearbox(100.0)),
        Drive("two", "joint2", Rotor(0.2)),
    )
    model, state = planar2(), {"q": [0.3, -0.5], "qd": [1.0, 2.0], "tau": [3.0, 4.0]}
    a = outputs(RobotPlant(model, elements=elements), **state)
    b = outputs(RobotPlant(model, rotor_inertia=[0.7, 0.2]), **state)
    assert_allclose(a["qdd"], b["qdd"], rtol=1e-13)
    assert_allclose(a["energy"], b["energy"], rtol=1e-13)


def test_torque_of_a_prescribed_joint_includes_the_torques_of_its_driven_joints(rng):
    # u = G^T (H qdd + C - tau) of the prescribed coordinate; two coordinates drive all joints
    elements = (geared("belt", "slide", "screw", 0.3, -0.1), *GEARS[:1])
    plant = HybridPlant(MODEL, ("screw",), elements=elements)
    q, qd = random_configuration(MODEL, rng), rng.uniform(-1, 1, MODEL.nv)
    screw, slide = 5, 1
    q[1], qd[slide] = 0.3 * q[-1] - 0.1, 0.3 * qd[screw]
    tau = rng.uniform(-1, 1, 5)
    y = outputs(plant, q=q, qd=qd, tau=tau, qdd_ref=[0.7])
    assert_allclose(y["qdd"][[screw, slide]], [0.7, 0.21], rtol=1e-13)
    H = crba(MODEL, q)
    H[slide, slide] += 1e-3 * 900
    left = H @ y["qdd"] + bias_force(MODEL, q, qd) - np.r_[tau, 0.0]
    assert_allclose(y["tau_prescribed"], left[screw] + 0.3 * left[slide], rtol=RTOL)
    assert_allclose(left[[0, 2, 3, 4]], 0.0, atol=1e-10)


def test_ratio_of_a_chain_of_gears_is_the_product_of_the_gear_ratios():
    chain = (
        geared("one", "joint2", "joint1", 2.0, 0.1),
        geared("two", "joint3", "joint2", -3.0, 0.2),
    )
    direct = (
        geared("one", "joint2", "joint1", 2.0, 0.1),
        geared("two", "joint3", "joint1", -6.0, -0.1),
    )
    a, b = (
        outputs(RobotPlant(planar_n(3), elements=gears), qd=[1.0, 2.0, -6.0], tau=[1.0, 2.0, 3.0])
        for gears in (chain, direct)
    )
    for name in ("q", "qdd", "energy"):
        assert_allclose(a[name], b[name], rtol=1e-13)


def test_gear_ratio_is_a_tunable_parameter():
    def plant(ratio):
        return RobotPlant(two_pulleys(), elements=(geared("belt", "joint2", "joint1", ratio),))

    flat = Memory(plant(2.0))
    m = flat.start()
    m[flat.where["tau"]], m[flat.where["belt_follower_ratio"]] = [1.0, 0.5], 3.0
    y = NumpyEvaluator(flat).output(m)
    assert_allclose(y[:2], outputs(plant(3.0), tau=[1.0, 0.5])["qdd"], rtol=1e-14)


BAD = [
    ((geared("g", "joint2", "joint2"),), "joint2 is driven by itself"),
    (
        (
            geared("g", "joint2", "joint1"),
            geared("h", "joint1", "joint2"),
        ),
        "is driven by itself",
    ),
    (
        (
            geared("g", "joint2", "joint1"),
            geared("h", "joint2", "joint1"),
        ),
        "driven by two gears",
    ),
    (
        (geared("g", "joint2", "knee"),),
        "element 'g': model 'planar2' has no joint 'knee'",
    ),
    ((Drive("r", 7, Rotor(1.0)),), "element 'r': model 'planar2' has no joint 7"),
]


@pytest.mark.parametrize(("elements", "message"), BAD, ids=[message for _, message in BAD])
def test_inconsistent_gears_are_rejected(elements, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        RobotPlant(planar2(), elements=elements)


def test_rotors_and_gears_with_invalid_parameters_are_rejected():
    with pytest.raises(ValueError, match="the ratio of a Follower must not be zero"):
        geared("g", "joint2", "joint1", 0.0)
    with pytest.raises(
        ValueError, match="inertia of a Rotor must be finite and at least 0, not -1"
    ):
        Drive("r", "joint1", Rotor(-1.0))
    with pytest.raises(ValueError, match="identifier"):
        Drive("the rotor", "joint1", Rotor(1.0))


@pytest.mark.parametrize("curve", [0.5, None, "ab", ((1.0,),), (np.nan,), (np.inf, 0.0)])
def test_follower_curve_without_finite_numbers_is_rejected(curve):
    with pytest.raises(ValueError, match="curve of a Follower must be a sequence of finite"):
        Follower(1, curve=curve)


def test_follower_curve_may_be_a_list_or_an_array():
    assert Follower(1, curve=[1, 2]).curve == Follower(1, curve=np.array([1.0, 2.0])).curve


def test_initial_configuration_that_violates_a_gear_is_rejected():
    gear = geared("g", "joint2", "joint1", 2.0, 0.1)
    assert_allclose(RobotPlant(planar2(), elements=(gear,)).q0, [0.0, 0.1])
    with pytest.raises(ValueError, match=re.escape("the gears require [1.0, 2.1]")):
        RobotPlant(planar2(), q0=[1.0, 1.0], elements=(gear,))
    with pytest.raises(ValueError, match=re.escape("qd0 of model 'planar2' violates")):
        RobotPlant(planar2(), qd0=1.0, elements=(gear,))


def test_prescribed_motion_of_a_gear_driven_joint_is_rejected():
    with pytest.raises(ValueError, match="is driven by a gear and cannot be prescribed"):
        HybridPlant(MODEL, ("slide",), elements=GEARS)


def test_rotor_as_a_body_with_a_follower_has_gyroscopic_torques():
    # A free platform carries a link and its rotor, which spin about z with qd and N qd
    N, J = 30.0, 1e-3
    rotor = mcI(0.5, np.zeros(3), np.diag([1e-3, 1e-3, J]))
    platform = mcI(2.0, np.zeros(3), np.diag([0.3, 0.4, 0.5]))
    link = mcI(1.0, np.zeros(3), 0.1 * np.eye(3))
    model = Model(
        "platform",
        (-1, 0, 0),
        (SixDoF(), Revolute(), Revolute()),
        (xlt(np.zeros(3)),) * 3,
        (platform, link, rotor),
        np.zeros(3),
        joint_names=("free", "link", "rotor"),
    )
    drive = Drive("gear", "link", follower=Follower("rotor", N))
    w, speed = np.array([0.7, -0.4, 0.2]), 3.0
    qd = np.r_[w, np.zeros(3), speed, N * speed]
    y = outputs(RobotPlant(model, qd0=qd, elements=(drive,)))
    # Euler's equation of the gyrostat: I dw/dt + z (J_link + N J) qdd = -w x (I w + z h)
    I = np.diag([0.3, 0.4, 0.5]) + 0.1 * np.eye(3) + np.diag([1e-3, 1e-3, J])
    z = np.array([0.0, 0.0, 1.0])
    a, h = 0.1 + N * J, (0.1 + N * J) * speed
    # link: 0.1 (dw_z + qdd) + N J (dw_z + N qdd) = 0
    A = np.block([[I, a * z[:, None]], [a * z[None], np.array([[0.1 + N * N * J]])]])
    expected = np.linalg.solve(A, np.r_[-np.cross(w, I @ w + h * z), 0.0])
    assert_allclose(y["qdd"][[0, 1, 2, 6]], expected, rtol=1e-10)
