"""Closed-loop robots in rigid contact: free motion, a single step, standing and walking."""

from dataclasses import replace

import numpy as np
import pytest

import rigid_scenes
from published import published
from rigidblocks import (
    Fixed,
    Prismatic,
    Revolute,
    RobotBuilder,
    SixDoF,
    Spherical,
    System,
    box_inertia,
    crba,
    simulate,
)
from rigidblocks.contact import (
    PointContact,
    RigidContactPlant,
    Sphere,
    contact_matrix,
    projected_sweeps,
)
from rigidblocks.contact.joint_tables import LoopTables
from rigidblocks.dynamics import bias_force
from rigidblocks.dynamics.kinematics import point_position
from rigidblocks.dynamics.loops import loop_constraints
from rigidblocks.dynamics.loops.assembly import assemble, closure_errors
from rigidblocks.library import ClosedLoopPlant
from rigidblocks.robot.configuration import neutral
from rigidblocks.robot.joints import Cylindrical, Planar, Universal
from rigidblocks.robot.robots import five_bar, four_bar, spatial_mechanism
from rigidblocks.robot.shapes import PointSet
from rigidblocks.robot_description.load import load_model
from rigidblocks.spatial.spatial import mcI, xlt

CASSIES = published(".sdf")
UP = np.array([0.0, 0.0, 1.0])
UPPER, LOWER, FOOT = 0.1, 0.2, 0.02
HIPS = {"lf": (0.2, 0.1), "rf": (0.2, -0.1), "lh": (-0.2, 0.1), "rh": (-0.2, -0.1)}


def leg_angles(x, z):
    """Return the hip and knee angles of a five-bar leg with its foot at (x, z) below the hips."""
    r, phi = np.hypot(x, z), np.arctan2(-x, -z)
    alpha = np.arccos((r**2 + UPPER**2 - LOWER**2) / (2 * r * UPPER))
    hips, knees = (phi + alpha, phi - alpha), []
    for hip in hips:
        dx, dz = x + UPPER * np.sin(hip), z + UPPER * np.cos(hip)
        knees.append(np.arctan2(-dx, -dz) - hip)
    return (*hips, *knees)


def rod_inertia(length):
    """Return the inertia of a rod of 0.1 kg that hangs from the origin."""
    return mcI(0.1, (0.0, 0.0, -length / 2), 0.1 / 12 * np.diag([length**2, length**2, 1e-4]))


def five_bar_quadruped():
    """Return a quadruped with four five-bar legs.

    Each leg has two hips on one axis, and a loop joint connects its shanks at the foot.
    """
    robot = RobotBuilder("five-bar quadruped")
    robot.add_body("body", joint=SixDoF(), inertia=box_inertia((0.4, 0.2, 0.1), mass=4.0))
    y = Revolute((0.0, 1.0, 0.0))
    for leg, (x, side) in HIPS.items():
        for k in "12":
            thigh, shank = f"{leg}_thigh{k}", f"{leg}_shank{k}"
            rod = rod_inertia(UPPER)
            robot.add_body(thigh, "body", y, (x, side, 0), rod)
            rod = rod_inertia(LOWER)
            foot = [Sphere(FOOT, (0, 0, -LOWER))] if k == "1" else []
            robot.add_body(shank, thigh, y, (0, 0, -UPPER), rod, contact=foot)
        tip = (0, 0, -LOWER)
        robot.add_joint(f"{leg}_foot", f"{leg}_shank1", f"{leg}_shank2", y, tip, tip)
    return robot.model()


def posture(model, height, feet):
    """Return q with the feet at positions (x, z) relative to their hips."""
    q = np.zeros(model.nq)
    q[0], q[6] = 1.0, height
    for leg, place in feet.items():
        names = [f"{leg}_{part}{k}_joint" for part in ("thigh", "shank") for k in "12"]
        for name, angle in zip(names, leg_angles(*place), strict=True):
            q[model.q_slices[model.joint_names.index(name)]] = angle
    return q


def hips(model):
    names = [f"{leg}_thigh{k}_joint" for leg in HIPS for k in "12"]
    return np.array([model.v_slices[model.joint_names.index(name)].start for name in names])


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [four_bar, five_bar])
def test_contact_free_motion_of_a_loop_converges_to_the_closed_loop_plant_at_second_order(
    mechanism,
):
    mechanism = spatial_mechanism(mechanism())
    nothing = ((),) * (mechanism.model.nb - 1)
    model = replace(mechanism.model, contact=((PointSet([[0.0, 0, 0]]),), *nothing))
    system, T = System(), 0.4
    system.add("bars", ClosedLoopPlant(model, q0=mechanism.q0), method="adaptive")
    exact = simulate(system, T, dt=T)["bars.q"][-1]
    errors = []
    for h in (2e-3, 1e-3):
        plant = RigidContactPlant(model, (), q0=mechanism.q0, sample_time=h)
        y = rigid_scenes.run(plant, T)
        errors.append(np.abs(y.q[-1] - exact).max())
        assert max(max(e) for e in closure_errors(model, y.q[-1]).values()) < 1e-13
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.15)


def dense_loops(model, q):
    """Return two matrices of the closed-loop dynamics.

    The first matrix (nv, nv) maps joint torques to joint accelerations. The second matrix (nv, nc)
    maps loop accelerations to joint accelerations.
    """
    K, W = loop_constraints(model, q, np.zeros(model.nv)).K, np.linalg.inv(crba(model, q))
    B = W @ K.T @ np.linalg.pinv(K @ W @ K.T, rcond=1e-9)
    return W - B @ K @ W, B


def feet_on_the_ground(model, q, mu):
    """Return the indices of the shanks with feet, and the contacts below the feet."""
    feet = [model.body_names.index(f"{leg}_shank1") for leg in HIPS]
    points = [point_position(model, q, i, np.array([0, 0, -LOWER])) - FOOT * UP for i in feet]
    return feet, [PointContact(i, p, UP, mu=mu) for i, p in zip(feet, points, strict=True)]


@pytest.mark.slow
def test_contact_step_with_loops_satisfies_the_dense_equations_of_loops_and_contacts():
    model, rng = five_bar_quadruped(), np.random.default_rng(3)
    q = posture(model, 0.25, dict.fromkeys(HIPS, (0.02, -0.25 + FOOT)))
    h, mu = 0.5e-3, 0.4  # the first step of the plant is a half step
    P, B = dense_loops(model, q)
    qd, tau = P @ crba(model, q) @ (0.3 * rng.normal(size=model.nv)), np.zeros(model.nv)
    qd[5] -= 1.0
    tau[hips(model)] = rng.normal(size=8)
    drift = B @ loop_constraints(model, q, qd).k
    free = qd + h * (P @ (tau - bias_force(model, q, qd)) + drift)
    feet, contacts = feet_on_the_ground(model, q, mu)
    T = contact_matrix(model, q, contacts)
    lam = projected_sweeps(T.T @ P @ T, T.T @ free, np.full(4, mu), sweeps=2000)
    plant = RigidContactPlant(model, q0=q, qd0=qd, mu=mu)
    y = rigid_scenes.run(plant, 1e-3, lambda _: tau)
    assert y.qd[-1] == pytest.approx(free + P @ T @ lam, abs=1e-3 * np.abs(qd).max())
    f = y.f_contact[-1].reshape(-1, 6)[feet, 5] * plant.sample_time
    assert f == pytest.approx(lam[:4], abs=2e-3 * lam[:4].max())


def held(model, wanted):
    """Return PD torques of the hips for the configuration `wanted(t)`, as a function for `run`."""
    at = hips(model)
    where = at + 1  # q has one more coordinate than qd, because of the quaternion

    def force(now):
        tau = np.zeros(model.nv)
        tau[at] = 40.0 * (wanted(now.t)[where] - now.q[where]) - 1.0 * now.qd[at]
        return tau

    return force


@pytest.mark.slow
def test_ground_forces_of_a_standing_five_bar_quadruped_equal_its_weight():
    model = five_bar_quadruped()
    q0 = posture(model, 0.25, dict.fromkeys(HIPS, (0.0, -0.25 + FOOT)))
    plant = RigidContactPlant(model, q0=q0, mu=0.8)
    y = rigid_scenes.run(plant, 3.0, held(model, lambda _: q0))
    weight = 9.81 * sum(body.m for body in model.inertia)
    force = y.f_contact.reshape(len(y.q), -1, 6)[:, :, 3:].sum(axis=1)
    assert force[-1] == pytest.approx([0, 0, weight], abs=1e-4 * weight)
    assert np.abs(y.qd[-1]).max() < 1e-4
    assert max(max(e) for e in closure_errors(model, y.q[-1]).values()) < 1e-12


@pytest.mark.slow
def test_loops_of_a_trotting_five_bar_quadruped_stay_closed():
    model = five_bar_quadruped()

    def wanted(t):
        feet = {}
        for leg in HIPS:
            phase = (2.0 * t + (0.5 if leg in ("rf", "lh") else 0.0)) % 1.0
            swings = phase < 0.5
            x = 0.04 * np.cos(2 * np.pi * phase) * -1
            z = -0.23 + (0.03 * np.sin(2 * np.pi * phase) if swings else 0.0)
            feet[leg] = (x * min(1.0, t), z)
        return posture(model, 0.25, feet)

    q0 = wanted(0.0)
    y = rigid_scenes.run(RigidContactPlant(model, q0=q0, mu=0.8), 5.0, held(model, wanted))
    assert y.q[-1, 4] > 0.3
    assert y.q[:, 6].min() > 0.2
    assert y.depth.max() < 1e-4
    errors = [max(closure_errors(model, q).values()) for q in y.q[::500]]
    assert np.max(errors) < 1e-10


@pytest.mark.parametrize("joint", [Fixed(), Revolute(), Prismatic(), Cylindrical(), Spherical()])
def test_number_of_constraints_of_a_loop_joint_is_six_minus_its_degrees_of_freedom(joint):
    robot = RobotBuilder("two")
    robot.add_body("a", joint=SixDoF(), inertia=box_inertia((1, 1, 1), mass=1.0))
    robot.add_body("b", joint=Planar(), inertia=box_inertia((1, 1, 1), mass=1.0))
    robot.add_joint("loop", "a", "b", joint)
    assert len(LoopTables(robot.model()).rows) == 6 - joint.nv


def test_unsupported_loops_in_rigid_contact_are_rejected():
    robot = RobotBuilder("two")
    for name in "ab":
        robot.add_body(name, joint=SixDoF(), inertia=box_inertia((1, 1, 1), mass=1.0),
                       contact=[Sphere(0.1)])  # fmt: skip
    robot.add_joint("shaft", "a", "b", Universal())
    reported = "loop joint 'shaft' .* of type Universal; rigid contact supports loops with Fixed"
    with pytest.raises(ValueError, match=reported):
        RigidContactPlant(robot.model())
    model = five_bar_quadruped()
    with pytest.raises(ValueError, match=r"q0 leaves loop joint .* open"):
        RigidContactPlant(model, q0=np.linspace(0.1, 1.0, model.nq))


def pair(joint, as_loop):
    """Return two boxes connected by a joint, which is a tree joint or a loop joint."""
    inertia = box_inertia((0.3, 0.2, 0.1), mass=2.0)
    robot = RobotBuilder("pair")
    robot.add_body("a", joint=SixDoF(), inertia=inertia, contact=[PointSet([[0.0, 0, 0]])])
    if as_loop:
        robot.add_body("b", joint=SixDoF(), inertia=inertia)
        robot.add_joint("loop", "a", "b", joint, (0.2, 0, 0), (-0.1, 0, 0))
    else:
        robot.add_body("b", "a", joint, (0.2, 0, 0), box_inertia((0.3, 0.2, 0.1), mass=2.0,
                       at=xlt((0.1, 0, 0))))  # fmt: skip
    return robot.model()


@pytest.mark.slow
@pytest.mark.parametrize("joint", [Prismatic((0.0, 0.6, 0.8)), Spherical(), Revolute()])
def test_loop_joint_and_tree_joint_of_equal_type_give_the_same_motion_in_rigid_contact(joint):
    loop, tree = pair(joint, True), pair(joint, False)
    w = np.array([0.5, -1.0, 2.0])
    v = np.cross(w, [0.3, 0, 0])
    one = RigidContactPlant(
        loop, (), q0=[1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0.3, 0, 0], qd0=[*w, 0, 0, 0, *w, *v]
    )
    q0 = np.concatenate([[1.0, 0, 0, 0, 0, 0, 0], joint.neutral()])
    two = RigidContactPlant(tree, (), q0=q0, qd0=np.concatenate([w, np.zeros(3 + joint.nv)]))
    x, y = rigid_scenes.run(one, 0.5), rigid_scenes.run(two, 0.5)
    assert x.q[-1, :7] == pytest.approx(y.q[-1, :7], abs=2e-5)
    assert max(max(e) for e in closure_errors(loop, x.q[-1]).values()) < 1e-12


def cassie_dropped(file, height, T, springs=True):
    """Return the model of a Cassie robot, and its motion over T [s] from a height [m].

    The initial configuration is that of the file.
    """
    robot = load_model(
        next(path for name, path in CASSIES.items() if name.endswith(file)), floating=True
    )
    model = robot.model
    q0 = np.array(assemble(model, neutral(model)))
    q0[6] = height
    freedoms = robot.joint_properties
    if not springs:
        freedoms = replace(freedoms, stiffness=np.zeros_like(freedoms.stiffness))
    plant = RigidContactPlant(model, q0=q0, joint_properties=freedoms, mu=0.8)
    return model, rigid_scenes.run(plant, T)


@pytest.mark.slow
@pytest.mark.interop
@pytest.mark.skipif(
    not CASSIES, reason="example-robot-data is not installed (`pip install example-robot-data`)"
)
@pytest.mark.parametrize("height", [1.0, 0.5, -1.0])
def test_cassie_recovers_from_violated_joint_stops_and_penetration(height):
    """Cassie starts in the configuration of the file and recovers within 60 ms.

    Two joints per leg start 0.6 rad beyond their stops, and the loops are open. Shapes penetrate by
    0.1 m, 0.6 m and 2.1 m. The model has no heel springs, because the position correction would
    compress them.
    """
    model, y = cassie_dropped("cassie.sdf", height, 0.25, springs=False)
    assert y.depth[-1] < 5e-3  # of self-collisions, in which joint springs press shapes together
    assert np.abs(y.qd).max() < 40.0
    assert max(max(e) for q in y.q[60::20] for e in closure_errors(model, q).values()) < 1e-12


@pytest.mark.slow
@pytest.mark.interop
@pytest.mark.skipif(
    not CASSIES, reason="example-robot-data is not installed (`pip install example-robot-data`)"
)
@pytest.mark.parametrize("height", [0.5, -1.0])
def test_cassie_v2_lies_at_rest_after_a_fall(height):
    """Cassie starts 0.6 m and 2.1 m deep in the ground, with springs of 1,250 and 1,500 N.m/rad.

    After the start at 2.1 m a leg still moves after 4 s on some processors.
    """
    model, y = cassie_dropped("cassie_v2.sdf", height, 4.0)
    if height > 0.0:  # otherwise a foot in the air still sinks against its damper, 1 N.m.s/rad
        assert np.abs(y.qd[-100:]).max() < 0.1
    assert y.depth[-1] < 1e-5
    assert max(max(e) for e in closure_errors(model, y.q[-1]).values()) < 1e-12
