"""Force elements in plants: energy, virtual work and analytic solutions in every plant."""

import re
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import squeezer
from element_models import ELEMENTS, MODEL, PLANTS, SPRINGS
from library_runs import outputs, run
from rigidblocks import linearize
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.integrators import RK4, integrate
from rigidblocks.block.memory_layout import Memory
from rigidblocks.dynamics import aba, energy, point_jacobian, point_position
from rigidblocks.dynamics.force_elements import Between, ForceElement
from rigidblocks.dynamics.force_laws import Friction, Spring, Stop
from rigidblocks.library import ClosedLoopPlant, RobotPlant
from rigidblocks.robot.configuration import random_configuration
from rigidblocks.robot.joints import Prismatic
from rigidblocks.robot.model import Model
from rigidblocks.robot.robots import planar2
from rigidblocks.spatial.spatial import mcI, xlt

RTOL = 1e-10  # rounding of two solutions of the equations of motion
# finite differences of the energy over +-10 us: second-order error, and rounding of some 100 J
# divided by 20 us
DIFFERENCES = 1e-6


def memory_at(plant, rng):
    """Return a memory of the plant with random velocities and zero inputs."""
    flat = Memory(plant)
    m = flat.start()
    for name in ("qd", "velocity"):
        if name in flat.where and not hasattr(plant, "stabilization"):
            m[flat.where[name]] = rng.uniform(-1, 1, flat.where[name].stop - flat.where[name].start)
    return flat, m


def flow(flat, m, h):
    """Return the outputs at time h, after one step of RK4."""
    run, moved = NumpyEvaluator(flat), m.copy()

    def derivative(t, x):
        del t
        there = m.copy()
        there[flat.x] = x
        return run.derivative(there)

    none = np.zeros(flat.x.stop - flat.x.start, dtype=bool)
    moved[flat.x] = integrate(RK4, derivative, 0.0, m[flat.x], h, none)
    moved[flat.y] = run.output(moved)
    return moved


@pytest.mark.parametrize("name", PLANTS)
def test_power_of_force_elements_equals_the_time_derivative_of_the_energy(name, rng):
    # d(energy)/dt = sum over the elements of f sd + dV/dt = power of dampers, friction and stops
    plant = PLANTS[name](ELEMENTS)
    flat, m = memory_at(plant, rng)
    before, now, after = (flow(flat, m, h) for h in (-1e-5, 0.0, 1e-5))
    E = flat.where["energy"]
    rate = (after[E] - before[E])[0] / 2e-5
    power = 0.0
    for element in ELEMENTS:
        s, sd = length(plant, flat, before, now, after, element)
        d = 1e-6
        slope = (element.law.energy(s + d) - element.law.energy(s - d)) / (2 * d)
        force = now[flat.where[f"{element.name}_force"]][0]
        assert_allclose(force, element.law.force(s, sd), rtol=1e-6, atol=1e-6)
        power += force * sd + slope * sd
    assert power < -0.1
    if name == "hybrid":  # and the power of the prescribed joint
        power += now[flat.where["tau_prescribed"]][0] * now[flat.where["qd"]][-1]
    assert_allclose(rate, power, rtol=1e-5, atol=DIFFERENCES * abs(now[E][0]))


def length(plant, flat, before, now, after, element):
    """Return the length of an element, and its rate as a difference of positions."""
    s = [_length(plant, flat, m, element) for m in (before, now, after)]
    return s[1], (s[2] - s[0]) / 2e-5


def _length(plant, flat, m, element):
    plant = getattr(plant, "robot", plant)
    model = getattr(plant, "configuration_model", plant.model)
    parts = ("quaternion", "position", "q") if "quaternion" in flat.where else ("q",)
    q = np.concatenate([m[flat.where[part]] for part in parts])
    along = element.along
    if not isinstance(along, Between):
        return q[model.q_slices[model.joint_names.index(along.joint)]][0]
    one = point_position(model, q, model.body_names.index(along.body), along.point)
    if along.other is None:
        return np.linalg.norm(one - along.other_point)
    two = point_position(model, q, model.body_names.index(along.other), along.other_point)
    return np.linalg.norm(one - two)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTS)
def test_energy_error_of_springs_decreases_with_the_integrator_order(name):
    # (the prescribed joint is at rest, and the ground is out of reach)
    plant = PLANTS[name](SPRINGS)
    errors = []
    for h in (4e-3, 2e-3):
        E = run(plant, 4e-3, 100, h=h)["energy"]
        errors.append(np.abs(E - E[0]).max())
    assert errors[1] < 1e-4 * abs(E[0])
    assert errors[0] > 10.0 * errors[1]  # factor 16, or more if the states are projected


def length_and_direction(along, q):
    """Return the length of an element and its derivative for each joint coordinate (nv,)."""
    if not isinstance(along, Between):
        i = MODEL.joint_names.index(along.joint)
        return q[MODEL.q_slices[i].start], np.eye(MODEL.nv)[MODEL.v_slices[i].start]
    i = MODEL.body_names.index(along.body)
    J, r = point_jacobian(MODEL, q, i, along.point), point_position(MODEL, q, i, along.point)
    if along.other is None:
        r = r - along.other_point
    else:
        i = MODEL.body_names.index(along.other)
        J = J - point_jacobian(MODEL, q, i, along.other_point)
        r = r - point_position(MODEL, q, i, along.other_point)
    s = np.linalg.norm(r)
    return s, J.T @ r / s


def test_element_forces_act_on_joints_through_the_transposed_jacobian(rng):
    plant = RobotPlant(MODEL, elements=ELEMENTS)
    q, qd = random_configuration(MODEL, rng), rng.uniform(-1, 1, MODEL.nv)
    y = outputs(plant, q=q, qd=qd)
    tau, E = np.zeros(MODEL.nv), energy(MODEL, q, qd)
    for element in ELEMENTS:
        force = y[f"{element.name}_force"]
        s, direction = length_and_direction(element.along, q)
        sd = direction @ qd
        assert_allclose(force, element.law.force(s, sd), rtol=RTOL, atol=1e-10)
        tau = tau + direction * force
        E = E + element.law.energy(s)
    assert_allclose(y["qdd"], aba(MODEL, q, qd, tau), rtol=0, atol=RTOL * np.abs(y["qdd"]).max())
    assert_allclose(y["energy"], E, rtol=RTOL)


@pytest.mark.parametrize("name", PLANTS)
def test_force_element_coefficients_are_tunable_parameters(name, rng):
    plant, other = PLANTS[name](ELEMENTS), PLANTS[name](tuple(map(twice_as_stiff, ELEMENTS)))
    flat, m = memory_at(plant, rng)
    units = {port.name: port.unit for port in plant.parameters}
    assert units["hinge_K"] == "N.m/rad"
    assert units["strut_D"] == "N.s/m"
    for port in plant.parameters:
        if port.name.endswith("_K"):
            m[flat.where[port.name]] *= 2
    changed = NumpyEvaluator(flat).output(m)
    two = Memory(other)
    start = two.start()
    start[two.x] = m[flat.x]
    assert_allclose(changed, NumpyEvaluator(two).output(start), rtol=1e-12)


def twice_as_stiff(element):
    law = element.law
    return replace(element, law=replace(law, K=2 * law.K)) if hasattr(law, "K") else element


def test_linearization_of_a_plant_includes_spring_stiffness_and_damping():
    law = Spring(50.0, 3.0, 0.2, 1.5)
    A = linearize(RobotPlant(slider(), elements=(ForceElement("spring", "joint1", law),))).A
    assert_allclose(A, [[0.0, 1.0], [-50.0 / 2.0, -3.0 / 2.0]], rtol=RTOL)


# analytic solutions


def slider():
    """Return a body of 2 kg on a straight track, without gravity."""
    body = mcI(2.0, np.zeros(3), 0.1 * np.eye(3))
    return Model("slider", (-1,), (Prismatic(),), (xlt(np.zeros(3)),), (body,), np.zeros(3))


@pytest.mark.slow
def test_dry_friction_stops_a_body_after_the_analytic_distance():
    # m v^2 / 2 = f s; the smooth law adds a slow creep if the speed is below `width`
    v, f, m, width = 1.5, 3.0, 2.0, 1e-4
    for forth, back in ((f, 9.0), (9.0, f)):
        law = Friction(forth, width=width, backward=back)
        v0 = v if forth == f else -v
        plant = RobotPlant(slider(), qd0=v0, elements=(ForceElement("track", "joint1", law),))
        result = run(plant, 1e-2, 200, h=2e-5)
        distance = np.sign(v0) * m * v * v / (2 * f)
        assert_allclose(result["q"][-1], distance, atol=2 * m * width * v / f)
        assert abs(result["qd"][-1, 0]) < 1e-6


def test_rebound_from_a_joint_stop_matches_the_damped_oscillator():
    # half a period of m x'' + D x' + K x = 0, until the force becomes zero
    m, K, D, v = 2.0, 2e4, 40.0, 1.0
    law = Stop(K, D, upper=0.1)
    plant = RobotPlant(slider(), qd0=v, elements=(ForceElement("end", "joint1", law),))
    result = run(plant, 1e-3, 400, h=1e-5)
    w0, z = np.sqrt(K / m), D / (2 * np.sqrt(K * m))
    w = w0 * np.sqrt(1 - z * z)
    # the contact ends at K x + D x' = 0 with x = v/w exp(-z w0 t) sin(w t); x' is the exit speed
    t = (np.pi - np.arctan2(2 * z * np.sqrt(1 - z * z), 1 - 2 * z * z)) / w
    speed = v * np.exp(-z * w0 * t)
    assert_allclose(result["qd"][-1, 0], -speed, rtol=1e-4)
    assert result["end_force"].max() == 0.0


def test_upper_stop_on_the_distance_between_two_points_acts_as_a_rope():
    model = slider().with_gravity((0.0, 0.0, -9.81))
    rope = ForceElement(
        "rope", Between("body1", None, None, np.zeros(3)), Stop(1e5, 300.0, upper=1.0)
    )
    result = run(RobotPlant(model, elements=(rope,)), 1e-2, 400, h=1e-4)
    assert_allclose(result["q"][-1], -1.0 - 2.0 * 9.81 / 1e5, atol=1e-8)
    assert_allclose(result["rope_force"][-1], -2.0 * 9.81, rtol=1e-5)
    assert result["rope_force"].max() <= 0.0


@pytest.mark.slow  # the loops of seven bodies take long to compile
def test_andrews_squeezer_with_its_spring_matches_the_published_solution():
    plant = ClosedLoopPlant(
        squeezer.MODEL, squeezer.angles(squeezer.START), elements=(squeezer.SPRING,)
    )
    result = run(plant, 1e-4, 300, h=1e-5, tau=np.eye(7)[0] * squeezer.TORQUE)
    # rad, of 15.8: error with 10 us steps; with 5 us it is that of the published digits, 1.4e-9
    assert_allclose(result["q"][-1], squeezer.angles(squeezer.END), rtol=0, atol=2e-9)
    work = squeezer.TORQUE * (result["q"][:, 0] - result["q"][0, 0])
    assert_allclose(result["energy"], result["energy"][0] + work, rtol=0, atol=1e-9)


def test_spring_force_between_coinciding_points_is_zero():
    spring = ForceElement("spring", Between("body1", None, None, np.zeros(3)), Spring(10.0, 1.0))
    y = outputs(RobotPlant(slider(), elements=(spring,)))
    assert y["spring_force"] == 0.0
    assert_allclose(y["qdd"], 0.0)


BAD = [
    (ForceElement("a", "elbow", Spring(1.0)), "element 'a': model 'planar2' has no joint 'elbow'"),
    (ForceElement("a", Between("hand", None), Spring(1.0)), "'planar2' has no body 'hand'"),
    (
        ForceElement("a", Between("body1", None, "body1", np.ones(3)), Spring(1.0)),
        "both points are on body1, so their distance is constant; use points of two bodies",
    ),
    (
        ForceElement("a", Between("body1", [1.0, 2.0]), Spring(1.0)),
        "a point of model 'planar2' needs 3 finite coordinates, not [1.0, 2.0]",
    ),
]


@pytest.mark.parametrize(("element", "message"), BAD, ids=[message[:50] for _, message in BAD])
def test_force_elements_with_unknown_joints_or_bodies_are_rejected(element, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        RobotPlant(planar2(), elements=(element,))


def test_invalid_and_duplicate_names_of_force_elements_are_rejected():
    with pytest.raises(ValueError, match="must be an identifier such as knee, not 'the knee'"):
        ForceElement("the knee", "joint1", Spring(1.0))
    twice = (ForceElement("a", "joint1", Spring(1.0)), ForceElement("a", "joint2", Spring(1.0)))
    with pytest.raises(ValueError, match="two elements have the name 'a'"):
        RobotPlant(planar2(), elements=twice)


def test_invalid_force_element_is_rejected():
    with pytest.raises(TypeError, match="must be a joint or a `Between` of two points, not None"):
        ForceElement("a", None, Spring(1.0))
    with pytest.raises(TypeError, match="needs a force law, for example Spring"):
        ForceElement("a", "joint1", 100.0)
    with pytest.raises(TypeError, match="`elements` must be a tuple"):
        RobotPlant(planar2(), elements=ForceElement("a", "joint1", Spring(1.0)))
    with pytest.raises(TypeError, match=r"an element must be a ForceElement or a Drive, not "):
        RobotPlant(planar2(), elements=(1.0,))
