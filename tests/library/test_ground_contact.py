"""Ground contact as a separate block: forces on a robot, and stable communication steps."""

import re
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from library_runs import outputs
from on_the_ground import M, R, free, lift, run, start_up, wired
from random_models import random_state
from rigidblocks.contact import GroundContact, Plane, PointKinematics, PointSet, Sphere
from rigidblocks.cosim.graph.block_merging import ContinuousSystem
from rigidblocks.cosim.graph.system import System
from rigidblocks.cosim.simulate import simulate
from rigidblocks.dynamics import aba, point_jacobian
from rigidblocks.fmi.export import export_fmu
from rigidblocks.library import RobotPlant
from rigidblocks.robot.joints import Planar
from rigidblocks.robot.model import Model
from rigidblocks.robot.robots import planar2
from rigidblocks.spatial.spatial import identity, mcI

G = 9.81
RTOL = 1e-10  # rounding of two computations of the dynamics of a few bodies


# ground contact block


def test_joint_torques_of_contact_wrenches_equal_the_torques_of_the_contact_point_forces(rng):
    # the joint torque is the sum of J^T f over all points and bodies
    shapes = (
        (PointSet([[0.3, 0.1, 0.2], [1.0, 0.0, -0.1]]),),
        (PointSet([[1.0, 0.2, 0.1]]), PointSet([[0.4, 0.0, 0.0]])),
    )
    model = replace(planar2(), contact=shapes)
    ground = GroundContact(model, 1e3, 10.0, 0.7, Plane((0.2, 0.4, 1.0), (0.0, 0.0, 0.4)))
    s = random_state(rng, model)
    points = outputs(PointKinematics(model), q=s.q, qd=s.qd)
    y = outputs(ground, p=points["p"], v=points["v"], x=0.01 * rng.normal(size=(4, 3)))
    assert_array_equal(y["in_contact"], 1.0)
    assert_array_equal(y["in_contact"] > 0, np.linalg.norm(y["force"], axis=1) > 0)
    where = [(0, r) for r in shapes[0][0].points] + [(1, shape.points[0]) for shape in shapes[1]]
    tau = sum(
        point_jacobian(model, s.q, i, r).T @ f for (i, r), f in zip(where, y["force"], strict=True)
    )
    assert_allclose(
        aba(model, s.q, s.qd, s.tau, y["f_ext"]), aba(model, s.q, s.qd, s.tau + tau), rtol=RTOL
    )


def test_sphere_contact_force_acts_at_its_lowest_point():
    # a ball spins at a fixed position and slides over the ground below it: the friction opposes
    # w x r and has a moment about the centre
    model, w = free(Sphere(R)), np.array([0.0, 3.0, 0.0])
    depth = 1e-3
    p = np.array([[0.5, 0.2, R - depth]])
    ground = GroundContact(model, 1e4, 50.0, 0.3, K_t=1e4, D_t=1e4)
    y = outputs(ground, p=p, v=np.zeros((1, 3)), w=w[None, :])
    assert_allclose(y["depth"], depth, rtol=1e-12)
    assert_allclose(
        y["force"], [[0.3 * 1e4 * depth, 0, 1e4 * depth]], rtol=1e-12
    )  # the lowest point moves along -x
    about_centre = y["f_ext"][0, :3] - np.cross(p[0], y["f_ext"][0, 3:])
    assert_allclose(about_centre, np.cross([0, 0, -R], y["force"][0]), atol=1e-12)


@pytest.mark.slow
def test_sampled_contact_forces_are_constant_between_samples():
    ground = GroundContact(lift(), 1e4, 50.0, sample_time=4e-3)
    result = run(RobotPlant(lift(), [-1e-3], external_wrenches=True), ground, 0.02, 1e-3)
    for name in ("ground.force", "ground.f_ext"):
        force = result[name].reshape(21, -1)[:, -1]
        assert force[0] == pytest.approx(1e4 * 1e-3)  # the friction patch is undeformed at t = 0
        assert_array_equal(np.flatnonzero(np.diff(force)) + 1, [4, 8, 12, 16, 20])


# rest and bounces


@pytest.mark.slow
def test_penetration_depth_of_a_resting_mass_is_weight_divided_by_stiffness():
    K, D = 2e4, 150.0
    for ground in (GroundContact(lift(), K, D, sample_time=1e-3), GroundContact(lift(), K, D)):
        result = run(RobotPlant(lift(), [0.05], external_wrenches=True), ground, 2.0, 1e-3)
        assert result["robot.q"][-1, 0] == pytest.approx(-M * G / K, rel=1e-9)
        assert result["ground.depth"][-1, 0] == pytest.approx(M * G / K, rel=1e-9)
        assert result["ground.force"][-1, 0, 2] == pytest.approx(M * G, rel=1e-9)
        assert result["ground.in_contact"][-1, 0] == 1
        assert result["ground.in_contact"][0, 0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("lead", [True, False])
def test_restitution_error_of_sampled_contact_is_of_first_order_in_the_step(lead):
    # without gravity. A held force is delayed by half a step. With lead only the damper force is
    # delayed, which gives a tenth of the error here
    K, D, v0 = 1e4, 40.0, 1.0
    zeta, w0 = D / (2 * np.sqrt(K * M)), np.sqrt(K / M)
    e = np.exp(-zeta * (np.pi - 2 * np.arcsin(zeta)) / np.sqrt(1 - zeta**2))
    model = lift().with_gravity([0, 0, 0])
    steps, errors = np.array([4e-4, 2e-4, 1e-4]), []
    for dt in steps:
        ground = GroundContact(model, K, D, sample_time=float(dt), lead=lead)
        result = run(
            RobotPlant(model, [-1e-9], [-v0], external_wrenches=True), ground, 0.1, float(dt)
        )
        errors.append(abs(result["robot.qd"][-1, 0] / v0 - e))
    assert np.all(np.array(errors) < (0.1 if lead else 1.0) * w0 * steps)
    assert np.polyfit(np.log(steps), np.log(errors), 1)[0] == pytest.approx(1, abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("dt", [8e-4, 2e-4])
def test_elastic_bounces_conserve_energy_only_if_contact_forces_are_extrapolated(dt):
    # a spring force that is delayed by half a step adds pi w0 h / 2 of the energy per bounce. With
    # lead a second-order error of either sign remains. Therefore several masses fall side by side,
    # each on its own slide
    K, n, one = 1e4, 3, lift()
    model = replace(
        one,
        parent=(-1,) * n,
        joint=one.joint * n,
        Xtree=one.Xtree * n,
        inertia=one.inertia * n,
        contact=one.contact * n,
        body_names=(),
        joint_names=(),
    )
    heights, w0, gains = np.linspace(0.02, 0.03, n), np.sqrt(K / M), {}
    for lead in (True, False):
        ground = GroundContact(model, K, 0.0, D_t=1.0, sample_time=dt, lead=lead)
        with start_up(too_long=not lead):
            result = run(RobotPlant(model, heights, external_wrenches=True), ground, 1.6, dt)
        q, qd = result["robot.q"], result["robot.qd"]
        gains[lead] = (((M * G * q + M * qd**2 / 2) / (M * G * heights) - 1)[1000:])[
            q[1000:] > 1e-3
        ]
    assert np.abs(gains[True]).max() < 2 * (w0 * dt) ** 2
    assert gains[False].min() > np.pi / 2 * w0 * dt


@pytest.mark.slow
@pytest.mark.parametrize("form", ["compiled", "numpy", "fused"])
def test_ground_contact_has_equal_results_in_numpy_in_c_and_in_fused_systems(form):
    model = free(Sphere(R))
    plant = RobotPlant(
        model, [1, 0, 0, 0, 0, 0, 0.11], [0, 4.0, 0, 0.3, 0.1, 0], external_wrenches=True
    )
    ground = GroundContact(model, 2e4, 100.0, 0.3, sample_time=1e-3)
    result = run(plant, ground, 0.1, 1e-3, form=form)
    expected = run(plant, ground, 0.1, 1e-3)
    assert_allclose(
        result.values, expected.values, rtol=0, atol=1e-9 * np.abs(expected.values).max()
    )
    assert result["ground.in_contact"].max() == 1


# rolling and sliding


@pytest.mark.slow
@pytest.mark.parametrize(("angle", "mu"), [(0.2, 0.3), (0.5, 0.3), (0.9, 0.3)])
def test_ball_on_an_incline_rolls_below_the_critical_angle_and_slips_above_it(angle, mu):
    # rolling requires 2/7 of the weight along the incline as friction: the acceleration is
    # 5/7 g sin, or g (sin - mu cos) if the friction cone allows less
    model = free(Sphere(R), gravity=G * np.array([np.sin(angle), 0.0, -np.cos(angle)]))
    K, D, dt = 5e4, 200.0, 5e-4
    ground = GroundContact(model, K, D, mu, sample_time=dt)
    assert dt < ground.longest_step([1, 0, 0, 0, 0, 0, R])
    plant = RobotPlant(
        model, [1, 0, 0, 0, 0, 0, R - M * G * np.cos(angle) / K], external_wrenches=True
    )
    result = run(plant, ground, 0.5, dt)
    rolls = np.tan(angle) < 3.5 * mu
    x, half = result["points.v"][:, 0, 0], 500
    a = (x[-1] - x[half]) / 0.25
    assert a == pytest.approx(
        G * (5 / 7 * np.sin(angle) if rolls else np.sin(angle) - mu * np.cos(angle)), rel=1e-3
    )
    slip = x - R * result["points.w"][:, 0, 1]
    assert (
        abs(slip[-1]) < 2e-3
    ) == rolls  # the lowest point is at the depth of the contact, not at R, and the patch yields
    f = result["ground.force"][:, 0]
    assert np.all(np.hypot(f[:, 0], f[:, 1]) <= mu * f[:, 2] * (1 + 1e-12))
    assert np.all(f[:, 2] >= 0)


def disc_of_sixteen_sides():
    angle = 2 * np.pi * np.arange(16) / 16
    rim = PointSet(0.3 * np.column_stack([np.cos(angle), np.sin(angle), np.zeros(16)]))
    return Model(
        "disc",
        (-1,),
        (Planar(),),
        (identity(),),
        (mcI(1.0, [0, 0, 0], np.diag([0.0225, 0.0225, 0.045])),),
        contact=((rim,),),
        gravity=(0.0, -G, 0.0),
    )


@pytest.mark.slow
def test_contact_forces_of_a_polygonal_disc_stay_in_the_friction_cone():
    # demo 7 of spatial_v2, in the plane: one continuous system, without held forces
    disc = disc_of_sixteen_sides()
    ground = GroundContact(
        disc, 1e6, 2e3, 0.1, Plane((0.0, 1.0, 0.0)), K_t=1e6, D_t=2e3, depth_ref=1.0
    )
    plant = RobotPlant(disc, [0.1, 0.0, 0.302], [-2 / 0.3, 2.0, 0.0], external_wrenches=True)
    whole = System()
    whole.add("all", ContinuousSystem(wired(plant, ground)), h=2e-4)
    result = simulate(whole, 1.0, 1e-3, progress=False)
    f = result["all.ground.force"]
    assert np.all(np.linalg.norm(f[..., [0, 2]], axis=-1) <= 0.1 * f[..., 1] * (1 + 1e-12))
    assert result["all.ground.in_contact"].sum() > 50
    # plus the energy of the normal springs, 2/5 K d^2.5; the energy of the friction springs,
    # (mu f)^2 / 2 K_t, is negligible
    E, d = result["all.robot.energy"], np.maximum(result["all.ground.depth"], 0)
    stored = (0.4 * 1e6 * d**2.5).sum(axis=1)
    assert np.all(np.diff(E + stored) <= 1e-9 * E[0])
    assert E[-1] < 0.8 * E[0]
    assert result["all.robot.q"][-1, 0] < -0.5  # it rolls


# invalid arguments


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"K": 0.0}, "the start value of K is 0 N/m; it must be positive"),
        ({"K": np.nan}, "the start value of port 'K' must be finite, not nan"),
        ({"D": -1.0}, "the start value of D is -1 N.s/m; it must be at least 0"),
        ({"mu": -0.1}, "the start value of mu is -0.1; it must be at least 0"),
        ({"K_t": 0.0}, "the start value of K_t is 0 N/m; it must be positive"),
        ({"D_t": -2.0}, "the start value of D_t is -2 N.s/m; it must be"),
        (
            {"D_t": 0.0},
            "ground contact with D_t = 0 needs a sample_time, because the continuous form "
            "divides by D_t",
        ),
        ({"sample_time": 0.0}, "sample_time must be positive, not 0.0"),
        ({"depth_ref": -1.0}, "depth_ref [m] must be positive, not -1.0"),
        ({"model": planar2()}, "model 'planar2' has no contact shapes"),
    ],
)
def test_invalid_ground_parameters_are_rejected(fields, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        GroundContact(**{"model": lift(), "K": 1e4, "D": 10.0} | fields)


def test_ground_that_is_not_a_surface_is_rejected():
    with pytest.raises(
        TypeError,
        match=re.escape("the ground of a contact must be a Surface such as Plane(), not 0.0"),
    ):
        GroundContact(lift(), 1e4, 10.0, 0.1, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["compiled", "fused"])
def test_communication_step_above_the_stability_limit_of_ground_contact_gives_a_warning(form):
    # the check uses the parameters of the run; nonlinear springs have no known stable step
    ground, dt = GroundContact(lift(), 2e4, 100.0, 0.5, sample_time=1e-3), 1e-3
    assert ground.longest_step([0.1]) > dt
    for K, too_long in ((2e4, False), (2e7, True)):
        system = wired(RobotPlant(lift(), [0.1], external_wrenches=True), ground)
        system.parts["ground"] = replace(system.parts["ground"], start={"K": np.array(K)})
        with start_up(too_long):
            simulate(system, 0.01, dt, form=form)
    hard = GroundContact(lift(), 2e7, 100.0, 0.5, sample_time=1e-3, depth_ref=1e-3)
    run(RobotPlant(lift(), [0.1], external_wrenches=True), hard, 0.01, dt, form=form)


@pytest.mark.slow
def test_stability_of_contact_is_checked_for_a_robot_fmu_but_not_for_a_ground_fmu(tmp_path):
    plant = RobotPlant(lift(), [0.1], external_wrenches=True)
    ground = GroundContact(lift(), 2e7, 100.0, 0.5, sample_time=1e-3)
    assert ground.longest_step([0.1]) < 1e-3
    for name, block, too_long in (("robot", plant, True), ("ground", ground, False)):
        system = wired(plant, ground)
        fmu = System()
        fmu.add(name, export_fmu(block, tmp_path / f"{name}.fmu"))
        system.parts[name] = fmu.parts[name]
        with start_up(too_long):
            simulate(system, 0.01, 1e-3)


def test_computation_of_the_longest_stable_step_rejects_nonlinear_springs():
    with pytest.raises(ValueError, match="longest_step supports only linear springs"):
        GroundContact(lift(), 1e4, 10.0, depth_ref=1.0).longest_step([0.0])


def test_point_kinematics_block_of_a_model_without_shapes_is_rejected():
    with pytest.raises(
        ValueError,
        match="model 'planar2' has no contact shapes; list the shapes of each body",
    ):
        PointKinematics(planar2())
