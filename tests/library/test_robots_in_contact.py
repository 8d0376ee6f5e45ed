"""Robots in rigid contact compared with mechanics, analytic solutions and a dense algorithm."""

import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

from random_models import random_tree
from rigid_scenes import free_bodies, run
from rigidblocks import Model, PDController, System, World, box_inertia, simulate
from rigidblocks.block.memory_layout import Memory
from rigidblocks.contact import PointContact, RigidContactPlant, contact_step, projected_sweeps
from rigidblocks.contact.joint_tables import TreeTables, adjacent_bodies
from rigidblocks.dynamics import aba, momentum, point_position
from rigidblocks.dynamics.forward import expanded_parent
from rigidblocks.kernels.compiled_stepper import compiled_stepper, numpy_stepper
from rigidblocks.robot.configuration import neutral, normalize_quaternions, rate
from rigidblocks.robot.joints import (
    Fixed,
    Planar,
    Prismatic,
    Revolute,
    SixDoF,
    Spherical,
    Universal,
)
from rigidblocks.robot.robot_description import JointProperties
from rigidblocks.robot.robots import auto_tree, gripper, quadruped
from rigidblocks.robot.shapes import Box, Plane, PointSet, Sphere
from rigidblocks.spatial.spatial import identity, mcI, xlt

UP = np.array([0.0, 0.0, 1.0])
STANCE = np.tile([0.0, 0.7, -1.4], 4)
STANDING = np.concatenate([[1.0, 0, 0, 0, 0, 0, 0.326], STANCE])
KINDS = (SixDoF(), Revolute((0, 1, 0)), Spherical(), Prismatic(), Planar(), Fixed(), Revolute())


def held(now):
    """Return the joint torques of PD control to the stance of a quadruped."""
    return np.concatenate([np.zeros(6), 150 * (STANCE - now.q[7:]) - 3 * now.qd[6:]])


def with_a_point(model):
    """Return the model with one contact point on its first body."""
    return replace(model, contact=((PointSet(((0.0, 0.0, 0.0),)),), *[()] * (model.nb - 1)))


def flight(model, q, qd, T, steps):
    """Return the configuration of a robot without contact after T, by Runge-Kutta steps."""
    tau, h = np.zeros(model.nv), T / steps

    def slope(q, qd):
        q = normalize_quaternions(model, q)
        return np.array(rate(model, q, qd)), aba(model, q, qd, tau)

    for _ in range(steps):
        a = slope(q, qd)
        b = slope(q + h / 2 * a[0], qd + h / 2 * a[1])
        c = slope(q + h / 2 * b[0], qd + h / 2 * b[1])
        d = slope(q + h * c[0], qd + h * c[1])
        q, qd = (x + h / 6 * (a[k] + 2 * b[k] + 2 * c[k] + d[k]) for k, x in enumerate((q, qd)))
    return normalize_quaternions(model, q)


@pytest.mark.parametrize("seed", range(5))
def test_tree_tables_of_rigid_contact_match_the_expanded_parent_array(seed):
    rng = np.random.default_rng(seed)
    parent = (-1, *(int(rng.integers(-1, i)) for i in range(1, 7)))
    model = random_tree(rng, parent, KINDS)
    tables = TreeTables(model, JointProperties.from_values(model.nv))
    place = {j: d for d, (_, j) in enumerate(tables.dofs)}
    expanded = expanded_parent(model)
    for d, (_, j) in enumerate(tables.dofs):
        assert tables.parent_dof[d] == place.get(expanded[j], -1)
        first, count = tables.spans[d]
        assert first <= d < first + count
    for i, leaf in enumerate(tables.leaf):
        if leaf >= 0 and model.joint[i].nv:
            assert tables.dofs[leaf][1] == model.v_slices[i].stop - 1


def test_bodies_connected_directly_or_by_a_massless_body_do_not_collide():
    none = mcI(0.0, np.zeros(3), np.zeros((3, 3)))
    box = box_inertia((1, 1, 1), mass=1)
    model = Model("wrist", (-1, 0, 1), (Revolute(),) * 3, (identity(),) * 3, (box, none, box),
                  body_names=("a", "b", "c"), massless=("b",))  # fmt: skip
    assert set(adjacent_bodies(model)) == {(0, 1), (1, 2), (0, 2)}


def test_unsupported_robots_in_rigid_contact_are_rejected():
    model = with_a_point(auto_tree(2))
    with pytest.raises(ValueError, match="of type Universal; rigid contact supports Fixed"):
        RigidContactPlant(replace(model, joint=(Universal(), Revolute())))
    with pytest.raises(ValueError, match="unknown body 'hand'"):
        RigidContactPlant(model, collision_exclusions=(("hand", "ground"),))
    with pytest.raises(ValueError, match="has 3 degrees of freedom"):
        RigidContactPlant(model, joint_properties=JointProperties.from_values(3))
    ball = replace(model, joint=(Spherical(), Revolute()))
    with pytest.raises(ValueError, match="nq > nv"):
        RigidContactPlant(ball, joint_properties=JointProperties.from_values(4, friction=1.0))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1))
def test_contact_free_motion_of_a_robot_converges_to_aba_at_second_order(seed):
    rng = np.random.default_rng(seed)
    parent = (-1, *(int(rng.integers(0, i)) for i in range(1, 7)))
    model = with_a_point(random_tree(rng, parent, KINDS))
    q0 = np.concatenate([joint.random(rng) for joint in model.joint])
    qd0 = rng.normal(size=model.nv) / 2
    exact, errors = flight(model, q0, qd0, 0.4, 100), []
    for h in (2e-3, 1e-3):
        y = run(RigidContactPlant(model, (), q0=q0, qd0=qd0, sample_time=h), 0.4)
        errors.append(np.abs(y.q[-1] - exact).max())
    assert errors[1] < 1e-4
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.15)


@pytest.mark.slow
def test_contact_step_of_robots_matches_the_results_of_the_dense_algorithm():
    model = quadruped()
    rng = np.random.default_rng(3)
    shanks = [i for i, name in enumerate(model.body_names) if name.endswith("shank")]
    q = np.concatenate([[1.0, 0, 0, 0, 0, 0, 0], STANCE])
    foot = np.array([0.0, 0.0, -0.2])
    q[6] = 0.02 - point_position(model, q, shanks[0], foot)[2]
    qd, tau = 0.1 * rng.normal(size=18), rng.normal(size=18)
    qd[5] = -1.0
    plant = RigidContactPlant(model, q0=q, qd0=qd, mu=0.4)
    y = run(plant, 1e-3, lambda _: tau)
    points = [point_position(model, q, i, foot) - [0, 0, 0.02] for i in shanks]
    contacts = [PointContact(i, p, UP, mu=0.4) for i, p in zip(shanks, points, strict=True)]
    # the first step is a half step, because the velocities belong to midpoints of steps
    many = partial(projected_sweeps, sweeps=1000)
    want = contact_step(model, q, qd, tau, contacts, 0.5e-3, correction=0.0, solve=many)
    assert want.residual < 1e-9
    assert y.qd[-1] == pytest.approx(want.qd, abs=1e-4)
    f = y.f_contact[-1].reshape(-1, 6)[shanks, 3:] * plant.sample_time
    assert f[:, 2] == pytest.approx(want.impulse[:, 0], abs=1e-3)


@pytest.mark.slow
def test_ground_forces_of_a_standing_quadruped_equal_its_weight():
    model = quadruped()
    plant = RigidContactPlant(model, q0=STANDING, mu=0.8)
    y = run(plant, 5.0, held)
    weight = 9.81 * sum(body.m for body in model.inertia)
    f = y.f_contact.reshape(len(y.q), -1, 6)
    assert f[-1, :, 5].sum() == pytest.approx(weight, rel=1e-6)
    assert y.in_contact[-1].sum() == 4
    assert np.abs(y.qd[-1]).max() < 1e-6
    assert y.sweeps_made.max() <= 4  # sticking contacts need one solution, and one more at landing
    centres = y.centre_of_pressure[-1].reshape(-1, 3)
    assert (np.linalg.norm(centres, axis=1) > 0).tolist() == (y.in_contact[-1] != 0).tolist()
    # the wrench of a foot acts at its centre of pressure
    assert np.cross(centres, f[-1, :, 3:]) == pytest.approx(f[-1, :, :3], abs=1e-9)
    h = plant.sample_time
    p = np.array([momentum(model, q, qd)[3:] for q, qd in zip(y.q, y.qd, strict=True)])
    given = np.cumsum(f[:, :, 3:].sum(axis=1) - [0, 0, weight], axis=0) * h
    assert p - p[0] == pytest.approx(given - given[0], abs=2e-3 * weight * h * 10)


@pytest.mark.slow
@pytest.mark.parametrize("mu", [0.5, 0.04])
def test_gripper_holds_a_block_if_and_only_if_the_friction_limit_exceeds_the_weight(mu):
    model = gripper()
    q0 = neutral(model)
    q0[0] = q0[-1] = 0.3
    squeeze, weight = 20.0, 0.2 * 9.81

    def forces(now):
        lift = 1.4 * 9.81 + 200 * (0.3 - now.q[0]) - 40 * now.qd[0]
        return np.array([lift, squeeze, squeeze, *np.zeros(6)])

    holds = 2 * mu * squeeze > weight
    y = run(RigidContactPlant(model, (), q0=q0, mu=mu), 2.0 if holds else 0.1, forces)
    block = y.f_contact.reshape(len(y.q), -1, 6)[-1, 3]
    if holds:
        assert block[5] == pytest.approx(weight, abs=1e-6)
        assert np.ptp(y.q[1000:, -1] - y.q[1000:, 0]) < 1e-7
    else:
        assert 0.97 < block[5] / (2 * mu * squeeze) < 1 + 1e-6  # the block rotates as it slides
        assert y.qd[-1, -1] < -0.1


def pendulum(**freedoms):
    """Return a rod of 1 m on a joint about y, along -z at q = 0, with a box of 10 cm at its end."""
    rod = mcI(1.0, [0, 0, -0.5], np.diag([1 / 12, 1 / 12, 1e-3]))
    end = Box((0.1, 0.1, 0.1), xlt((0, 0, -1.0)))
    model = Model(
        "pendulum", (-1,), (Revolute((0, 1, 0)),), (identity(),), (rod,), contact=((end,),)
    )
    return model, JointProperties.from_values(1, **freedoms)


@pytest.mark.slow
@pytest.mark.parametrize("e", [0.0, 0.5])
def test_pendulum_rebounds_from_a_wall_with_restitution_e(e):
    model, _ = pendulum()
    wall = Plane((1.0, 0, 0), (-0.05, 0, 0))  # the box touches the wall at q = 0
    plant = RigidContactPlant(model, (wall,), q0=[-1.0], e=e, mu=0.0, sample_time=2e-4)
    y = run(plant, 1.6)
    assert y.q.max() < 1e-3
    fastest = np.sqrt(3 * 9.81 * (1 - np.cos(1.0)))
    before, after = y.qd[:, 0].max(), y.qd[:, 0].min()
    assert before == pytest.approx(fastest, rel=1e-3)
    assert after == pytest.approx(-e * fastest, abs=2e-3 * fastest)
    if e == 0:
        assert y.q[-1] == pytest.approx([0.0], abs=1e-5)


@pytest.mark.slow
def test_joint_stop_holds_a_joint_but_never_pulls_it():
    model, freedoms = pendulum(lower=-0.5, upper=0.7)
    y = run(RigidContactPlant(model, (), q0=[0.0], qd0=[2.0], joint_properties=freedoms), 3.0,
            lambda now: np.array([20.0 if now.t < 1.5 else -20.0]))  # fmt: skip
    assert y.q[1000, 0] == pytest.approx(0.7, abs=1e-9)
    assert y.q[-1, 0] == pytest.approx(-0.5, abs=1e-9)
    assert y.q.max() < 0.7 + 1e-9
    assert y.q.min() > -0.5 - 1e-9


@pytest.mark.slow
def test_position_correction_of_a_violated_joint_stop_adds_no_velocity():
    """The position correction per step is a fifth of the violation, at most 1 rad/s."""
    model, freedoms = pendulum(lower=-0.5, upper=0.7)
    model = replace(model, gravity=np.zeros(3))
    y = run(RigidContactPlant(model, (), q0=[1.0], joint_properties=freedoms), 0.5)
    expected = [1.0]
    for _ in range(500):
        expected.append(expected[-1] - min(1e-3, 0.2 * (expected[-1] - 0.7)))
    assert_allclose(y.q[:, 0], expected[1:], atol=1e-12)
    assert not y.qd.any()


@pytest.mark.slow
def test_dry_friction_holds_a_joint_at_rest_and_brakes_a_moving_joint_with_the_friction_limit():
    model, freedoms = pendulum(friction=2.0)
    model = replace(model, gravity=np.zeros(3))
    I = 1 / 3
    held = run(
        RigidContactPlant(model, (), joint_properties=freedoms), 1.0, lambda _: np.array([1.99])
    )
    assert np.abs(held.q).max() < 1e-12
    y = run(RigidContactPlant(model, (), qd0=[3.0], joint_properties=freedoms), 1.0)
    assert y.q[-1, 0] == pytest.approx(I * 3.0**2 / 2 / 2.0, abs=2e-3)
    assert y.qd[-1, 0] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.slow
def test_joint_with_spring_damper_and_armature_matches_the_analytic_solution():
    model, freedoms = pendulum(stiffness=40.0, damping=0.5, armature=0.2, rest=0.3)
    model = replace(model, gravity=np.zeros(3))
    I, h = 1 / 3 + 0.2, 1e-4
    y = run(RigidContactPlant(model, (), joint_properties=freedoms, sample_time=h), 1.0)
    t, d = h * np.arange(1, len(y.q) + 1), 0.5 / 2 / I
    w = np.sqrt(40 / I - d * d)
    exact = 0.3 * (1 - np.exp(-d * t) * (np.cos(w * t) + d / w * np.sin(w * t)))
    assert y.q[:, 0] == pytest.approx(exact, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("angle", [0.9, 1.3])
def test_motion_of_painleves_rod_stays_finite_and_gains_no_energy(angle):
    """A rod slides on its end with large friction; if it jams, no finite force is a solution."""
    q0 = np.array([0.0, np.sin(angle) / 2, angle])
    plant = RigidContactPlant(painleves_rod(), q0=q0, qd0=[2.0, 0, 0], mu=2.5)
    y = run(plant, 2.0)
    assert np.isfinite(y.q).all()
    z = y.q[:, 1] - plant.sample_time / 2 * y.qd[:, 1]
    E = (y.qd[:, 0] ** 2 + y.qd[:, 1] ** 2 + y.qd[:, 2] ** 2 / 12) / 2 + 9.81 * z
    assert np.diff(E).max() < 1e-3 * E[0]
    assert y.depth.max() < 2e-3
    assert np.abs(y.qd[-1]).max() < 1e-3  # the rod lies at rest


def painleves_rod():
    """Return Painleve's rod: a rod of 1 m and 1 kg in a plane."""
    rod = mcI(1.0, np.zeros(3), np.diag([1e-3, 1 / 12, 1 / 12]))
    joints = (Prismatic((1, 0, 0)), Prismatic((0, 0, 1)), Revolute((0, 1, 0)))
    none = mcI(0.0, np.zeros(3), np.zeros((3, 3)))
    ends = PointSet(((-0.5, 0, 0), (0.5, 0, 0)))
    return Model("rod", (-1, 0, 1), joints, (identity(),) * 3, (none, none, rod),
                 body_names=("x", "z", "rod"), massless=("x", "z"),
                 contact=((), (), (ends,)))  # fmt: skip


@pytest.mark.slow
def test_neighbouring_bodies_and_excluded_pairs_do_not_collide():
    ball = Sphere(0.3)
    body = box_inertia((0.3, 0.3, 0.3), mass=1)
    model = Model("chain", (-1, 0, 1), (Prismatic((1, 0, 0)),) * 3,
                  (identity(), xlt((0.4, 0, 0)), xlt((0.1, 0, 0))), (body,) * 3,
                  body_names=("a", "b", "c"), contact=((ball,),) * 3)  # fmt: skip
    y = run(RigidContactPlant(model, ()), 0.01)
    assert (y.contacts == 1).all()  # bodies a and c overlap by 0.1 m
    y = run(RigidContactPlant(model, (), collision_exclusions=(("c", "a"),)), 0.01)
    assert (y.contacts == 0).all()


@pytest.mark.slow
def test_robot_in_contact_has_bitwise_equal_results_in_numpy_and_in_c():
    plant = RigidContactPlant(quadruped(), q0=STANDING)
    one, two = (run(plant, 0.2, held, *stepper) for stepper in ((), (numpy_stepper,)))
    assert one.q.tobytes() == two.q.tobytes()
    assert one.f_contact.tobytes() == two.f_contact.tobytes()


@pytest.mark.slow
def test_controller_torques_take_effect_at_the_next_sample_of_the_plant():
    """The plant reads torques of the previous sample, so that the controller can compute."""
    plant = RigidContactPlant(with_a_point(auto_tree(3)), (), qd0=[0.3, -1.0, 2.0])
    system = System()
    system.add("robot", plant)
    system.add("pd", PDController([40.0] * 3, [5.0] * 3), start={"q_ref": np.zeros(3)})
    for source, target in (("robot.q", "pd.q"), ("robot.qd", "pd.qd"), ("pd.tau", "robot.tau")):
        system.connect(source, target)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = simulate(system, 0.1, plant.sample_time, form="compiled", progress=False)
    y = run(plant, 0.1, lambda now: -40.0 * now.q - 5.0 * now.qd)
    assert_allclose(result["robot.q"][1:], y.q, rtol=0.0, atol=1e-13)


LINK = """<link name="{name}"><inertial><origin xyz="0 0 {z}"/><mass value="{m}"/>
  <inertia ixx="{i}" iyy="{i}" izz="{j}" ixy="0" ixz="0" iyz="0"/></inertial><collision>
  <origin xyz="0 0 {z}"/><geometry>{shape}</geometry></collision></link>"""
JOINT = """<joint name="to {name}" type="continuous"><parent link="{parent}"/>
  <child link="{name}"/><origin xyz="0 0 {z}"/><axis xyz="{axis}"/></joint>"""
CUBE, ROD = '<box size="0.2 0.2 0.2"/>', '<capsule radius="0.03" length="0.2"/>'


@pytest.fixture(scope="module")
def wedged_leg(tmp_path_factory):
    """Return a run of a leg whose light foot jams between two steep walls with mu = 1."""
    text, parent = LINK.format(name="box", z=0, m=2, i=0.02, j=0.02, shape=CUBE), "box"
    for k, (m, axis) in enumerate([(1.0, "0 1 0"), (1.0, "1 0 0"), (1e-6, "0 1 0")]):
        name, z = f"link{k}", -0.2 if k else 0.0
        text += LINK.format(name=name, z=-0.1, m=m, i=4e-3 * m, j=1e-4 * m, shape=ROD)
        text += JOINT.format(name=name, parent=parent, z=z, axis=axis)
        parent = name
    path = tmp_path_factory.mktemp("wedge") / "wedged.urdf"
    path.write_text(f'<robot name="wedged">{text}</robot>')
    world, a = World("wedge", gravity=(0.0, 0.0, -9.81)), np.deg2rad(80.0)
    world.add_robot("leg", path, at=(0.0, 0.0, 0.5), floating=True)
    for side in (1.0, -1.0):
        world.add_ground(Plane((side * np.sin(a), 0.0, np.cos(a)), (-0.02 * side, 0.0, 0.0)))
    memory = Memory(world.plant(mu=1.0, sample_time=5e-3).plant)
    m, stepper, rows = memory.start(), compiled_stepper(memory), np.empty((200, memory.size))
    stepper.initialize(m, 0.0)
    stepper.run(m, 0.0, 5e-3, rows)
    return {name: rows[:, memory.where[name]] for name in ("qd", "residual", "sweeps_made")}


@pytest.mark.slow
def test_contact_residual_of_a_jammed_leg_is_bounded_by_the_speeds_of_the_step(wedged_leg):
    speed = np.abs(wedged_leg["qd"]).max(axis=1)  # [rad/s and m/s], arms are below 1 m
    assert wedged_leg["sweeps_made"].max() > 200  # the sweeps do not converge in some steps
    gravity = 9.81 * 5e-3  # [m/s] change of the velocities in a step
    before = np.append(0.0, speed[:-1])
    assert np.all(wedged_leg["residual"][:, 0] < speed + before + gravity)


@pytest.mark.slow
def test_moving_tolerance_option_does_not_affect_bodies_at_rest():
    def heights(tolerance):
        plant = free_bodies(
            [Box((0.2, 0.2, 0.2))] * 3,
            [(0.0, 0.0, 0.1 + 0.2 * k) for k in range(3)],
            moving_tolerance=tolerance,
        )
        return run(plant, 0.1)

    assert_allclose(heights(1e-4).q, heights(1e-2).q, rtol=0, atol=0)


def test_moving_tolerance_option_must_be_between_zero_and_one():
    for value in (0.0, 1.0, -1e-3, np.nan):
        with pytest.raises(ValueError, match="moving_tolerance must be above 0 and below 1"):
            free_bodies([Sphere(0.1)], [(0.0, 0.0, 0.1)], moving_tolerance=value)


def dragged_rod(angle, mu, torque, h):
    """Return a plant with a rod on a hinge of a cart that moves at 1 m/s, and the normal force.

    The moments about the hinge are in equilibrium:

        N L (sin a + mu cos a) = torque + m g L sin(a) / 2
    """
    length, mass, cart = 0.5, 0.2, 1e6
    middle = (0.0, 0.0, -length / 2)
    model = Model(
        "rod",
        (-1, 0),
        (Prismatic((1, 0, 0)), Revolute((0, 1, 0))),
        (xlt([0.0, 0.0, length * np.cos(angle)]), identity()),
        (mcI(cart, np.zeros(3), np.eye(3)), mcI(mass, middle, 1e-3 * np.eye(3))),
        contact=((), (PointSet(((0.0, 0.0, -length),)),)),
    )
    plant = RigidContactPlant(model, mu=mu, q0=[0.0, angle], qd0=[1.0, 0.0], sample_time=h)
    sine, cosine = np.sin(angle), np.cos(angle)
    return plant, (torque + 0.5 * mass * 9.81 * length * sine) / (length * (sine + mu * cosine))


@pytest.mark.slow
@pytest.mark.parametrize("h", [1e-3, 1e-2])
@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0, 30.0])
def test_gauss_seidel_converges_if_friction_moves_the_contact_along_the_normal(mu, h):
    torque = 5.0
    # mu W_nt / W_nn = mu / tan(angle) is 1.7 to 170
    plant, force = dragged_rod(np.radians(10), mu, torque, h)
    memory = Memory(plant)
    x, stepper = memory.start(), compiled_stepper(memory)
    x[memory.where["tau"]] = [0.0, -torque]
    stepper.initialize(x, 0.0)
    rows = np.empty((50, memory.size))
    stepper.run(x, 0.0, h, rows)
    where = memory.where
    assert rows[:, where["sweeps_made"]].max() < 5
    assert_allclose(
        rows[:, where["f_contact"]][1:, [11, 9]], [force * np.array([1, -mu])] * 49, rtol=1e-5
    )
