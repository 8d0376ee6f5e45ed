"""Contact sensors measure the weight and, while a body slides, the friction force mu N."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import rigid_scenes
from rigidblocks import (
    Model,
    RigidContactPlant,
    SixDoF,
    System,
    World,
    box_inertia,
    sphere_inertia,
)
from rigidblocks.block.memory_layout import Memory
from rigidblocks.contact import Material, Plane, ProximitySensor, Sphere
from rigidblocks.contact.contact_sensors import ContactSensor
from rigidblocks.contact.shape_distance import proximity
from rigidblocks.cosim.graph.fused_system import FusedSystem
from rigidblocks.dynamics.kinematics import body_poses
from rigidblocks.kernels.compiled_stepper import compiled_stepper, numpy_stepper
from rigidblocks.kernels.traced_evaluator import TracedEvaluator, feedthrough
from rigidblocks.library.nonlinear_signals import Hysteresis
from rigidblocks.robot.configuration import random_configuration
from rigidblocks.robot.robots import gripper
from rigidblocks.robot.shapes import Box
from rigidblocks.spatial.spatial import identity, xlt

pytestmark = pytest.mark.slow  # C is compiled for each plant
G = 9.81
SIDES = (1.0, 0.5, 0.4)
STACK = (
    ContactSensor("floor", ("low", "high")),
    ContactSensor("between", "high", "low"),
    ContactSensor("turned", "low", "high"),
    ContactSensor("above", "high", distance=True),
)


def stack(**options):
    """Return a box of 1 kg on a box of 2 kg, with a centre offset of 0.1 m in x and 0.05 m in y."""
    model = Model(
        "stack",
        (-1, -1),
        (SixDoF(), SixDoF()),
        (identity(), identity()),
        (box_inertia(SIDES, mass=2.0), box_inertia(SIDES, mass=1.0)),
        contact=((Box(SIDES),), (Box(SIDES),)),
        body_names=("low", "high"),
    )
    q0 = [1, 0, 0, 0, 0, 0, 0.2, 1, 0, 0, 0, 0.1, 0.05, 0.6]
    return RigidContactPlant(model, q0=q0, sensors=STACK, **options)


def test_measured_normal_force_equals_the_weight_and_acts_below_the_centre_of_mass():
    y = rigid_scenes.run(stack(), 1.0)
    assert_allclose(y.floor_normal_force[-1], 3 * G, rtol=1e-9)
    assert_allclose(y.between_normal_force[-1], G, rtol=1e-9)
    assert_allclose(y.floor_centre_of_pressure[-1], [0.1 / 3, 0.05 / 3, 0], atol=1e-9)
    assert_allclose(y.between_centre_of_pressure[-1], [0.1, 0.05, 0.4], atol=1e-9)
    # moment of a weight at (x, y) about the origin, n = r x f
    assert_allclose(y.between_wrench[-1], [0.05 * G, -0.1 * G, 0, 0, 0, G], atol=1e-8)
    assert np.abs(y.between_slip).max() < 1e-7  # 1e-5 of the velocity that gravity adds in a step
    assert_allclose(y.above_distance[:, 0], y.q[:, 13] - 0.2, atol=1e-15)
    assert np.abs(y.above_on_other[:, 2]).max() < 1e-15
    assert not y.above_in_contact.any()
    assert not y.above_wrench.any()


def test_sum_of_contact_pair_wrenches_equals_the_body_wrench_in_every_step():
    plant = stack(qd0=[0.3, 0.2, 1, 2, -1, 0, 1, -2, 0.5, -1, 0, -3])
    y = rigid_scenes.run(plant, 0.3)
    f = y.f_contact.reshape(-1, 2, 6)
    assert_allclose(y.floor_wrench, f.sum(axis=1), atol=1e-9)
    assert_allclose(y.between_wrench + y.above_wrench, f[:, 1], atol=1e-9)
    assert_allclose(y.turned_wrench, -y.between_wrench, atol=1e-9)
    assert_allclose(y.turned_slip, -y.between_slip, atol=1e-12)
    assert y.between_in_contact.any()
    z = rigid_scenes.run(plant, 0.3, stepper=numpy_stepper)
    assert all(getattr(y, name).tobytes() == getattr(z, name).tobytes() for name in vars(y))


def test_measured_sliding_friction_is_mu_times_the_normal_force_and_opposes_sliding():
    rubber = Material("rubber", mu=0.4)
    world = World("slide")
    sides = (0.4, 0.4, 0.1)
    v = np.array([3.0, 2.0, 0.0])
    shapes = [Box(sides, material=rubber)]
    world.add_body("box", box_inertia(sides, mass=2), shapes, (0, 0, 0.05), (0, 0, 0, *v))
    world.add_ground(Plane(material=rubber))
    plant = world.plant(sensors=[ContactSensor("sole", "box")])
    y = rigid_scenes.run(plant, 0.5)
    assert_allclose(y.sole_normal_force[1:, 0], 2 * G, rtol=1e-4)  # the first step is a half step
    assert_allclose(y.sole_slip, y.box_qd[:, 3:] * (1, 1, 0), atol=1e-7)
    against = -y.sole_slip / np.linalg.norm(y.sole_slip, axis=1)[:, None]
    assert_allclose(y.sole_wrench[:, 3:5], 0.4 * y.sole_normal_force * against[:, :2], rtol=1e-5)
    assert np.linalg.norm(y.box_qd[-1]) == pytest.approx(
        np.hypot(3, 2) - 0.4 * G * 0.4995, rel=1e-5
    )


def bouncing():
    """Return a ball with a prescribed push, and a foot switch: on above 15 N, off below 12 N."""
    world = World("yard")
    world.add_body("ball", sphere_inertia(0.1, mass=1), [Sphere(0.1)], at=(0, 0, 0.1))
    world.add_body("bird", sphere_inertia(0.1, mass=1), [Sphere(0.1)], at=(1, 0, 2))
    world.add_robot("hand", gripper(), at=(3, 0, 1))
    world.add_ground(Plane())
    sensors = (
        ContactSensor("sole", "ball"),
        ContactSensor("high", "bird", "ground", distance=True),
        ContactSensor("grip", "hand", "bird", distance=True),
    )
    system = System()
    system.add("world", world.plant(sensors=sensors))
    system.add("switch", Hysteresis(12.0, 15.0, 1e-3))
    system.connect("world.sole_normal_force", "switch.u")
    return system


def test_distance_sensor_measures_the_height_and_contact_switch_has_hysteresis():
    dt = 1e-3
    system = bouncing()
    fused = Memory(FusedSystem(system, dt))
    m, step = fused.start(), compiled_stepper(fused)
    step.initialize(m, 0.0)
    high = fused.where["world.high_distance"]
    assert m[high] == pytest.approx(1.9, abs=1e-15)
    push, switch = fused.where["world.ball_f_ext"], fused.where["switch.y"]
    force, on = [], []
    for k in range(600):
        m[push] = [0, 0, 0, 0, 0, -4 + 4 * np.cos(k / 100)]  # 9.81 to 17.81 N
        step.step(m, k * dt, dt)
        force += m[fused.where["world.sole_normal_force"]].tolist()
        on += m[switch].tolist()
    assert m[high] == pytest.approx(1.9 - G / 2 * 0.36, abs=1e-12)
    expected, state = [], 0.0
    for f in force:
        state = 1.0 if f > 15 else 0.0 if f < 12 else state
        expected.append(state)
    assert on == expected
    assert 0 < sum(on) < 600
    changed = np.flatnonzero(np.diff(on))
    assert [round(force[k + 1]) for k in changed] == [15, 12]


def gap_between(model, X, i, j):
    """Return the smallest gap between the shapes of two bodies at their poses X."""
    return min(proximity(a, X[i], b, X[j]).gap for a in model.contact[i] for b in model.contact[j])


def test_proximity_sensor_measures_the_gap_between_shapes(rng):
    model = gripper()
    far = Box((0.1, 0.2, 0.3), xlt((0.4, 0.1, 0.2)))
    bodies = [name for name, own in zip(model.body_names, model.contact, strict=True) if own]
    sensors = (
        ContactSensor("first", bodies[0]),
        ContactSensor("pair", bodies[0], tuple(bodies[1:])),
    )
    block = ProximitySensor(model, sensors, 1e-2, (far,))
    names = ("distance", "on_one", "on_other")
    assert feedthrough(TracedEvaluator(Memory(block))) == {
        ("q", f"{one}_{name}") for one in ("first", "pair") for name in names
    }
    memory = Memory(block)
    for stepper in (compiled_stepper, numpy_stepper):
        step = stepper(memory)
        for _ in range(5):
            m = memory.start()
            m[memory.where["q"]] = q = random_configuration(model, rng)
            step.initialize(m, 0.0)
            X = body_poses(model, q)
            i, *others = map(model.body_names.index, bodies)
            rest = proximity(model.contact[i][0], X[i], far, identity()).gap
            assert m[memory.where["first_distance"]] == pytest.approx(rest, abs=1e-12)
            found = min(gap_between(model, X, i, j) for j in others)
            assert m[memory.where["pair_distance"]] == pytest.approx(found, abs=1e-12)


def test_invalid_contact_sensors_are_rejected():
    with pytest.raises(
        ValueError, match="'toe' has no shapes; expected names of low, high, ground"
    ):
        RigidContactPlant(stack().model, sensors=(ContactSensor("a", "toe"),))
    with pytest.raises(ValueError, match="shapes in common"):
        RigidContactPlant(stack().model, sensors=(ContactSensor("a", "low", ("low", "high")),))
    with pytest.raises(ValueError, match="two sensors have the name 'a'"):
        RigidContactPlant(stack().model, sensors=(ContactSensor("a", "low"),) * 2)
    with pytest.raises(ValueError, match="must be a body, not the ground"):
        RigidContactPlant(stack().model, sensors=(ContactSensor("a", "ground", "low"),))
    with pytest.raises(TypeError, match="ContactSensor elements"):
        RigidContactPlant(stack().model, sensors=("low",))
    with pytest.raises(ValueError, match="one or more ContactSensor elements"):
        ProximitySensor(stack().model, (), 1e-3)
