"""Free bodies in rigid contact: rest, fall, rolling, impact and conservation laws."""

from dataclasses import replace

import numpy as np
import pytest

import rigid_scenes
from rigidblocks import Model, SixDoF, System, box_inertia, simulate, sphere_inertia
from rigidblocks.block.block import Record
from rigidblocks.block.integrators import RK4
from rigidblocks.block.memory_layout import Memory
from rigidblocks.contact import Plane, RigidContactPlant, SoftContact, Sphere, World
from rigidblocks.kernels.compiled_stepper import compiled_stepper, numpy_stepper
from rigidblocks.kernels.model_header import model_header
from rigidblocks.kernels.traced_evaluator import TracedEvaluator
from rigidblocks.robot.model import cylinder_inertia
from rigidblocks.robot.robots import planar3
from rigidblocks.robot.shapes import Box, Capsule, ConvexHull, Cylinder, Ellipsoid
from rigidblocks.spatial.rigid_motion import quaternion_rotation
from rigidblocks.spatial.spatial import RigidInertia, identity, mcI, xlt
from rigidblocks.tracing.ccode import c_text

UPRIGHT = (1.0, 0.0, 0.0, 0.0)
TURNED = (np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5))  # rotation by 90 degrees about z
LYING = (np.sqrt(0.5), np.sqrt(0.5), 0.0, 0.0)  # rotation by 90 degrees about x


def scene(*bodies):
    """Return a model and q0 of bodies given as (shape, inertia, quaternion, position)."""
    n = len(bodies)
    shapes, inertias, turns, places = zip(*bodies, strict=True)
    model = Model(
        "scene",
        (-1,) * n,
        (SixDoF(),) * n,
        (identity(),) * n,
        inertias,
        contact=tuple((shape,) for shape in shapes),
    )
    return model, np.concatenate([[*q, *r] for q, r in zip(turns, places, strict=True)])


def box(sides, mass, place, turn=UPRIGHT):
    return Box(sides), box_inertia(sides, mass=mass), turn, place


def run(plant, T, stepper=compiled_stepper):
    """Return the outputs after each step by name, with one row per body."""
    y = rigid_scenes.run(plant, T, stepper=stepper)
    found, nb = dict(vars(y)), plant.model.nb
    for name, size in (("q", 7), ("qd", 6), ("f_contact", 6)):
        found[name] = found[name].reshape(-1, nb, size)
    return Record(found)


def energy(plant, y):
    """Return the total energy at the midpoint of the previous step.

    The outputs contain the velocities of this time.
    """
    total, h = 0.0, plant.sample_time
    for i, body in enumerate(plant.model.inertia):
        c = body.h / body.m
        I = body.I - body.m * (c @ c * np.eye(3) - np.outer(c, c))
        w, v = y.qd[:, i, :3], y.qd[:, i, 3:] + np.cross(y.qd[:, i, :3], c)
        turn = [quaternion_rotation(q) for q in y.q[:, i, :4]]
        place = y.q[:, i, 4:] + np.array([E.T @ c for E in turn])
        velocity = np.array([E.T @ one for E, one in zip(turn, v, strict=True)])
        kinetic = body.m / 2 * (v**2).sum(axis=1) + (w * (w @ I)).sum(axis=1) / 2
        total = total + kinetic - body.m * (place - h / 2 * velocity) @ plant.model.gravity
    return total


@pytest.mark.slow
def test_three_stacked_cubes_stay_at_rest():
    model, q0 = scene(*(box((1, 1, 1), 1e3, (0, 0, 0.5 + k)) for k in range(3)))
    y = run(RigidContactPlant(model, q0=q0), 10.0)
    assert np.abs(y.q.reshape(len(y.q), -1) - q0).max() < 1e-6
    assert y.f_contact[-1, :, 5] == pytest.approx(9810, abs=1e-3)
    assert y.left_out.max() == 0


@pytest.mark.slow
def test_rigid_contact_has_bitwise_equal_results_in_numpy_and_in_c():
    model, q0 = scene(box((1, 0.5, 0.2), 2, (0, 0, 0.3)), box((0.3, 0.3, 0.3), 1, (0.3, 0, 0.8)))
    plant = RigidContactPlant(model, q0=q0, qd0=np.linspace(-1, 1, 12))
    one, two = run(plant, 0.5), run(plant, 0.5, numpy_stepper)
    assert one.q.tobytes() == two.q.tobytes()
    assert one.f_contact.tobytes() == two.f_contact.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("x", [0.45, 0.55])
def test_block_rests_on_a_ledge_only_if_the_ledge_supports_its_centre_of_mass(x):
    model, q0 = scene(box((1, 0.2, 0.2), 1, (x, 0, 0.6)))
    y = run(RigidContactPlant(model, (Box((1, 1, 0.5), xlt((0, 0, 0.25))),), q0=q0), 3.0)
    if x < 0.5:
        assert np.abs(y.q[:, 0] - q0).max() < 1e-9
    else:
        assert y.q[-1, 0, 6] < -10


@pytest.mark.slow
@pytest.mark.parametrize(
    "bodies",
    [
        (box((2, 0.1, 0.1), 1, (0, 0, 0.05)), box((2, 0.1, 0.1), 1, (0, 0, 0.15), TURNED)),
        (box((0.2, 0.2, 0.2), 1, (0, 0, 0.1)), box((2, 0.1, 0.1), 1, (0, 0, 0.25))),
        tuple(box((0.2, 0.1, 0.06), 2, (0.01 * (k % 2), 0, 0.03 + 0.06 * k)) for k in range(10)),
    ],
    ids=["crossed beams", "a peg across a smaller cube", "a tower of ten bricks"],
)
def test_stacked_bodies_stay_at_rest_for_10_s(bodies):
    model, q0 = scene(*bodies)
    y = run(RigidContactPlant(model, q0=q0), 10.0)
    assert np.abs(y.q.reshape(len(y.q), -1) - q0).max() < 1e-6


@pytest.mark.slow
def test_dominoes_of_a_row_fall_one_after_the_other():
    sides = (0.02, 0.1, 0.2)
    model, q0 = scene(*(box(sides, 0.5, (0.1 * k, 0, 0.1)) for k in range(10)))
    qd0 = np.zeros(60)
    qd0[1] = 3.0  # the first domino is pushed
    y = run(RigidContactPlant(model, mu=0.4, q0=q0, qd0=qd0), 3.0)
    assert (y.q[-1, :, 6] < 0.05).all()
    fallen = [np.argmax(y.q[:, k, 6] < 0.09) for k in range(10)]
    assert fallen == sorted(fallen)
    assert y.depth.max() < 0.02 * 0.02


@pytest.mark.slow
@pytest.mark.parametrize("ground", [Plane(), Box((10, 10, 1), xlt((0, 0, -0.5)))])
def test_wheel_on_a_plane_rolls_without_slip(ground):
    r, v = 0.3, 0.5
    model, q0 = scene((Cylinder(r, 0.1), cylinder_inertia(r, 0.1, mass=5), LYING, (0, 0, r)))
    plant = RigidContactPlant(model, (ground,), q0=q0, qd0=(0, 0, -v / r, v, 0, 0))
    y = run(plant, 4.0)
    assert y.q[-1, 0, 4:] == pytest.approx([2.0, 0, r], abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("mu", [0.2, 0.4])
def test_block_on_a_slope_sticks_or_slides_according_to_coulombs_law(mu):
    angle = 0.3
    slope = Plane((np.sin(angle), 0, np.cos(angle)))
    turn = (np.cos(angle / 2), 0, np.sin(angle / 2), 0)
    model, q0 = scene(box((0.4, 0.4, 0.1), 2, 0.05 * np.asarray(slope.normal), turn))
    y = run(RigidContactPlant(model, (slope,), mu=np.array([0.1, mu**2 / 0.1]), q0=q0), 2.0)
    way = np.linalg.norm(y.q[-1, 0, 4:] - q0[4:])
    slides = 9.81 * (np.sin(angle) - mu * np.cos(angle)) / 2 * 2.0**2
    assert way == pytest.approx(slides, rel=1e-6) if slides > 0 else way < 1e-6


@pytest.mark.slow
def test_bounce_height_is_proportional_to_the_squared_restitution():
    ball = (Sphere(0.1), sphere_inertia(0.1, mass=1), UPRIGHT, (0, 0, 1.1))
    model, q0 = scene(ball)
    elastic = run(RigidContactPlant(model, e=1.0, q0=q0), 20.0)
    assert elastic.q[-2000:, 0, 6].max() == pytest.approx(1.1, abs=1e-5)
    y = run(RigidContactPlant(model, e=0.7, q0=q0), 0.9)
    first = np.argmin(y.q[:, 0, 6])
    assert y.q[first:, 0, 6].max() == pytest.approx(0.1 + 0.49, rel=0.02)


def thrown_rod(rng):
    """Return q and qd of a tilted rod of 0.8 m that falls on its end."""
    angle = rng.uniform(0.2, 1.3)
    turn = np.array([np.cos(angle / 2), 0, np.sin(angle / 2), 0])
    v = np.array([*rng.normal(size=2), -3.0])
    q = [*turn, 0, 0, 0.025 + 0.4 * np.cos(angle)]
    return q, [*rng.normal(size=3) * 3, *(quaternion_rotation(turn) @ v)]


@pytest.mark.slow
def test_elastic_impact_with_friction_adds_no_energy():
    # Newton's restitution may add energy if friction reverses the slip (Kane and Levinson 1985)
    rod = (Capsule(0.02, 0.8), box_inertia((0.05, 0.05, 0.8), mass=1), UPRIGHT, (0, 0, 1))
    model, _ = scene(rod)
    memory = Memory(RigidContactPlant(model, mu=0.8, e=1.0))
    step, rng, at, bounced = compiled_stepper(memory), np.random.default_rng(4), memory.where, 0

    def energy_now(m):
        w, v = m[at["qd"]][:3], m[at["qd"]][3:]
        return (v @ v + w @ model.inertia[0].I @ w) / 2 + 9.81 * m[at["q"]][6]

    for _ in range(60):
        m, energies = memory.start(), []
        m[at["q"]], m[at["qd"]] = thrown_rod(rng)
        for k in range(4):
            energies.append(energy_now(m))
            step.step(m, k * 1e-3, 1e-3)
            bounced += m[at["contacts"]][0] > 0
        assert max(energies) < energies[0] + 9.81 * 3e-3  # q is half a step later than qd
    assert bounced > 50


@pytest.mark.slow
def test_rotational_energy_of_a_free_body_is_conserved():
    # the centre of mass differs from the body origin
    body = box_inertia((0.3, 0.2, 0.1), mass=2)
    body = RigidInertia(body.m, 2 * np.array([0.1, 0, 0]), body.I + 2 * 0.01 * np.diag([0, 1, 1]))
    model, q0 = scene((Box((0.3, 0.2, 0.1)), body, UPRIGHT, (0, 0, 5)))
    model = replace(model, gravity=np.zeros(3))
    plant = RigidContactPlant(model, (), q0=q0, qd0=(0.1, 5.0, 0.2, 0, 0, 0))
    y = run(plant, 10.0)
    E = energy(plant, y)
    assert np.ptp(E) < 1e-10 * E[0]


@pytest.mark.slow
def test_momentum_is_conserved_in_a_collision():
    model, q0 = scene(
        box((0.3, 0.2, 0.1), 2, (0, 0, 5)),
        (Capsule(0.05, 0.4), box_inertia((0.1, 0.1, 0.4), mass=1), TURNED, (0.5, 0.05, 5.02)),
    )
    model = replace(model, gravity=np.zeros(3))
    qd0 = np.array([0, 0, 0, 2.0, 0, 0, 0, 0, 0, 0, 0, 0])
    y = run(RigidContactPlant(model, e=0.5, q0=q0, qd0=qd0), 1.0)
    v = [[quaternion_rotation(q).T @ v for q, v in zip(y.q[:, k, :4], y.qd[:, k, 3:], strict=True)]
         for k in range(2)]  # fmt: skip
    momentum = 2 * np.array(v[0]) + np.array(v[1])
    assert momentum == pytest.approx(np.tile([4.0, 0, 0], (len(momentum), 1)), abs=1e-12)
    assert y.contacts.max() > 0
    assert np.linalg.norm(y.qd[-1, 1, 3:]) > 0.5


def mixed(rng, n):
    """Return bodies of all shapes, placed above each other."""
    hull = rng.normal(size=(10, 3))
    hull = 0.12 * hull / np.linalg.norm(hull, axis=1)[:, None]
    shapes = (
        Sphere(0.1),
        Box((0.2, 0.15, 0.1)),
        Capsule(0.06, 0.15),
        Cylinder(0.1, 0.12),
        Ellipsoid((0.12, 0.08, 0.06)),
        ConvexHull(hull),
    )
    for k in range(n):
        turn = rng.normal(size=4)
        place = (*rng.uniform(-0.15, 0.15, 2), 0.3 + 0.3 * k)
        inertia = box_inertia((0.2, 0.16, 0.12), mass=rng.uniform(0.5, 2))
        yield shapes[k % 6], inertia, turn / np.linalg.norm(turn), place


PIT = (
    Plane(),
    *(Plane((x, y, 0), (-0.4 * x, -0.4 * y, 0)) for x, y in ((1, 0), (-1, 0), (0, 1), (0, -1))),
)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "v", "w"), [(0, 1, 1), (1, 1, 1), (2, 10, 20)])
def test_pile_of_all_shapes_dissipates_energy_and_never_gains_energy(seed, v, w):
    rng = np.random.default_rng(seed)
    model, q0 = scene(*mixed(rng, 12))
    qd0 = np.tile([w, w, w, v, v, v], 12) * rng.normal(size=72)
    plant = RigidContactPlant(model, PIT, q0=q0, qd0=qd0)
    y = run(plant, 3.0)
    assert np.isfinite(y.q).all()
    assert (y.q[:, :, 6] > 0.0).all()  # no body falls through the ground
    assert (np.abs(y.q[:, :, 4:6]) < 0.41).all()
    E = energy(plant, y)
    assert E.max() < (1 + 1e-9) * E[0]
    assert np.diff(E).max() < 1e-7 * E[0]  # the position correction lifts overlapping bodies
    assert E[-1] < 0.5 * E[0]
    assert y.depth.max() < 0.01 * 0.1  # 1 % of the smallest body dimension
    assert y.sweeps_made.max() <= plant.max_sweeps
    # the reported contact forces accelerate the bodies
    m = np.array([body.m for body in model.inertia])[:, None]
    R = np.array([[quaternion_rotation(one).T for one in q] for q in y.q[:, :, :4]])
    momentum = m * np.einsum("tbij,tbj->tbi", R, y.qd[:, :, 3:])
    given = plant.sample_time * (y.f_contact[1:, :, 3:] + m * model.gravity)
    assert np.diff(momentum, axis=0) == pytest.approx(given, abs=1e-9)


@pytest.mark.slow
def test_tumbling_thin_box_stops_without_penetration():
    turn = (np.cos(0.4), np.sin(0.4), 0, 0)
    model, q0 = scene(
        box((0.4, 0.4, 0.1), 5, (0, 0, 0.05)), box((0.3, 0.3, 0.03), 0.1, (0, 0, 0.4), turn)
    )
    qd0 = np.array([0, 0, 0, 0, 0, 0, 3.0, 2.0, 1.0, 0, 0, -3.0])
    y = run(RigidContactPlant(model, q0=q0, qd0=qd0), 2.5)
    assert y.depth.max() < 0.01 * 0.03
    assert y.q[-1, 1, 6] == pytest.approx(0.015, abs=1e-5)  # it slid off the lower box


@pytest.mark.slow
def test_initial_overlap_of_bodies_is_corrected_without_a_jump():
    model, q0 = scene(box((1, 1, 1), 1, (0, 0, 0.45)), box((1, 1, 1), 1, (0, 0, 1.35)))
    plant = RigidContactPlant(model, q0=q0)
    y = run(plant, 1.0)
    assert y.q[-1, :, 6] == pytest.approx([0.5, 1.5], abs=1e-4)
    assert y.q[:, :, 6].max() < 1.5 + 1e-4
    # the energy gain is the work of lifting the boxes out of the overlap
    assert energy(plant, y).max() < 9.81 * (0.5 + 1.5) * (1 + 1e-6)
    assert np.abs(y.qd[-1]).max() < 1e-4


@pytest.mark.slow
def test_correction_of_penetration_does_not_push_bodies_into_a_wall():
    cubes = [box((0.1, 0.1, 0.1), 1, (x, 0, 0)) for x in (0.0502, 0.1482)]  # they overlap by 2 mm
    model, q0 = scene(*cubes)
    model = replace(model, gravity=np.zeros(3))
    y = run(RigidContactPlant(model, (Plane((1, 0, 0)),), q0=q0), 0.02)  # a gap of 0.2 mm
    assert y.q[:, 0, 4].min() > 0.05 - 1e-7
    assert y.q[-1, 1, 4] - y.q[-1, 0, 4] == pytest.approx(0.1, abs=1e-6)
    assert np.abs(y.qd).max() < 1e-12


@pytest.mark.slow
def test_contacts_above_the_max_contacts_limit_are_counted_in_the_left_out_output():
    model, q0 = scene(*(box((0.2, 0.2, 0.2), 1, (0.3 * k, 0, 0.1)) for k in range(3)))
    y = run(RigidContactPlant(model, q0=q0, max_contacts=5), 0.01)
    assert (y.contacts == 5).all()
    assert (y.left_out == 7).all()


def test_rigid_contact_code_size_does_not_depend_on_the_number_of_bodies():
    """The line count excludes the workspace header, which only large models include."""
    lines = []
    for n in (2, 50):
        model, _ = scene(*(box((0.2, 0.2, 0.2), 1, (0, 0, k)) for k in range(n)))
        text = model_header(TracedEvaluator(Memory(RigidContactPlant(model))), RK4, 1e-3)
        text = text.partition("*/")[2]  # drop the memory table
        text = text.replace(c_text("kernel/workspace.h"), "")
        lines.append(sum(map(bool, text.splitlines())))  # count non-empty lines
    assert lines[0] == lines[1]


def test_ground_accepts_only_shapes_and_surfaces():
    model, _ = scene(box((0.2, 0.2, 0.2), 1, (0, 0, 1)))
    assert RigidContactPlant(model, Plane()).ground[0].point[2] == 0.0
    messages_found = r"`ground` must be shapes or surfaces, such as Plane\(\), not"
    for ground in (3, "floor", (Plane(), 3)):
        with pytest.raises(TypeError, match=messages_found):
            RigidContactPlant(model, ground)
        with pytest.raises(TypeError, match=messages_found):
            SoftContact(model, 1e5, ground=ground)
    with pytest.raises(TypeError, match=r"such as Plane\(\), not \(Plane"):
        World("yard").add_ground((Plane(),))


def test_rigid_contact_without_shapes_is_rejected():
    model, _ = scene(box((1, 1, 1), 1, (0, 0, 0)))
    with pytest.raises(ValueError, match="'planar3' has no contact shapes"):
        RigidContactPlant(planar3())
    with pytest.raises(ValueError, match="'scene' has no contact shapes"):
        RigidContactPlant(replace(model, contact=((),)))
    with pytest.raises(ValueError, match="max_contacts"):
        RigidContactPlant(model, max_contacts=0)


@pytest.mark.slow
def test_depth_of_a_contact_without_gap_is_positive_zero():
    plant = rigid_scenes.free_bodies([Sphere(0.5)], [(0.0, 0.0, 0.5)], ground=(Plane(),))
    y = rigid_scenes.run(plant, 5e-3)
    assert np.all(y.contacts == 1)
    assert np.all(y.depth == 0.0)
    assert not np.any(np.signbit(y.depth))  # compilers choose different signs for fmax(0.0, -0.0)


@pytest.mark.parametrize("moments", [(0.0, 0.0, 0.0), (0.0, 0.1, 0.1)])
def test_free_body_with_a_singular_inertia_is_rejected(moments):
    """A rod without thickness kept its orientation, whatever its initial angular velocity was."""
    rod = mcI(1.0, np.array([0.1, 0.2, 0.3]), np.diag(moments))
    model = Model("m", (-1,), (SixDoF(),), (identity(),), (rod,), body_names=("rod",))
    model = replace(model, contact=((Sphere(0.05),),))
    with pytest.raises(ValueError, match=r"the free body 'rod' of model 'm' .* is singular"):
        RigidContactPlant(model)


@pytest.mark.slow
def test_small_nutation_of_a_spinning_body_stays_small():
    """A rotation about the axis of the largest moment of inertia is stable.

    The energy and the momentum bound the transverse velocities: the ellipse of the nutation has the
    axis ratio sqrt(I_y (I_z - I_y) / (I_x (I_z - I_x))) = 1 for the moments 1, 2 and 3.
    """
    world = World("spin")
    inertia = mcI(1.0, np.zeros(3), np.diag([1.0, 2.0, 3.0]))
    world.add_body("top", inertia, [Sphere(0.1)], qd0=[1e-9, 0.0, 20.0, 0.0, 0.0, 0.0])
    system = System()
    system.add("world", world.plant(sample_time=0.01))
    result = simulate(system, 50.0, 0.01, progress=False)
    transverse = np.linalg.norm(result["world.top_qd"][:, :2], axis=1)
    assert transverse.max() < 1.01e-9


@pytest.mark.slow
@pytest.mark.parametrize("moments", [(1.0, 2.0, 3.0), (1e-3, 1.0, 1.0), (0.5, 0.5, 1.0)])
@pytest.mark.parametrize("turn", [1.0, 2.0, 4.0])
def test_free_rotation_by_large_angles_per_step_conserves_energy_and_momentum(moments, turn):
    """The energy w . I w / 2 and the magnitude |I w| of the momentum are constant."""
    I, h, spins = np.diag(moments), 0.01, {}
    world = World("spin", gravity=np.zeros(3))
    for k, axis in enumerate([(1.0, 0.01, 0.0), (0.01, 1.0, 0.0), (1.0, 1.0, 1.0)]):
        spins[f"top{k}"] = w = turn / h * np.array(axis) / np.linalg.norm(axis)
        at, qd0 = (3.0 * k, 0.0, 0.0), [*w, 0.0, 0.0, 0.0]
        inertia = mcI(1.0, np.zeros(3), I)
        world.add_body(f"top{k}", inertia, [Sphere(0.1)], at=at, qd0=qd0)
    system = System()
    system.add("world", world.plant(sample_time=h))
    result = simulate(system, 1.0, h, progress=False)
    for name, w0 in spins.items():
        w = result[f"world.{name}_qd"][:, :3]
        energy = np.einsum("ki,ij,kj->k", w, I, w)
        np.testing.assert_allclose(energy, w0 @ I @ w0, rtol=1e-11)
        np.testing.assert_allclose(
            np.linalg.norm(w @ I, axis=1), np.linalg.norm(I @ w0), rtol=1e-11
        )
