"""Compliant contact forces: energy, friction cone, restitution, stick, slip and stable steps."""

import re
from typing import NamedTuple

import casadi as ca
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rigidblocks.contact import Contact, SoftLaw, Sphere, SurfaceState, contact, stable_step, wrench
from rigidblocks.contact.compliant_contact import (
    normal_force,
    project_to_cone,
    relaxed_surface,
    surface_rate,
    tangential_part,
)
from rigidblocks.tracing.trace import trace

EPS = 1e-12  # rounding of a few operations, relative to the magnitude of their operands
UP = np.array([0.0, 0.0, 1.0])

LAWS = {
    "linear": SoftLaw(1e4, 20.0, 0.6, 5e3, 15.0),
    "by depth": SoftLaw(1e6, 2e3, 0.6, 5e3, 15.0, depth_ref=1.0),
    "undamped": SoftLaw(1e4, 0.0, 0.6, 5e3, 15.0),
    "without friction": SoftLaw(1e4, 20.0, 0.0, 5e3, 15.0),
}


@pytest.fixture(params=LAWS)
def law(request):
    return LAWS[request.param]


def dot(a, b):
    return (a * b).sum(-1)


def random_normals(rng, n):
    normal = rng.normal(size=(n, 3))
    return normal / np.linalg.norm(normal, axis=1)[:, None]


class State(NamedTuple):
    touching: Contact
    v: np.ndarray
    x: np.ndarray
    z: np.ndarray


def random_states(rng, n):
    """Return random contacts, shallow and deep, slow and fast.

    The contact surface is above or below the body.
    """
    normal = random_normals(rng, n)
    size = 10.0 ** rng.uniform(-6, -1, (n, 1))
    z = -size[:, 0] * rng.uniform(0, 1, n)
    p = np.where(rng.random(n) < 0.7, z, z + size[:, 0] * rng.normal(size=n))
    v = 10.0 ** rng.uniform(-4, 1, (n, 1)) * rng.normal(size=(n, 3))
    x = tangential_part(size * rng.normal(size=(n, 3)), normal)
    return State(Contact(-p, normal, rng.normal(size=(n, 3))), v, x, z)


def stored_energy(law, z, x):
    """Return the energy of the contact springs.

    The normal spring has the integral of K g(z) z, 2/5 K |z|^2.5 with g = sqrt(|z| / 1 m).
    """
    normal = (
        law.K * z**2 / 2
        if law.depth_ref is None
        else 0.4 * law.K * np.abs(z) ** 2.5 / np.sqrt(law.depth_ref)
    )
    return normal + law.K_t * dot(x, x) / 2


# contact forces


def test_compliant_normal_force_only_pushes_and_friction_is_in_the_friction_cone(law, rng):
    s = random_states(rng, 10_000)
    for force in (law.force(s.touching, s.v, s.x, s.z), law.force(s.touching, s.v, s.x)):
        assert np.all(force.normal >= 0)
        assert np.all(np.linalg.norm(force.friction, axis=1) <= law.mu * force.normal * (1 + EPS))
        assert_allclose(
            dot(force.friction, s.touching.normal), 0, atol=EPS * law.mu * force.normal.max()
        )
    assert np.count_nonzero(force.normal) > 1000


def test_open_compliant_contact_has_no_force_and_closed_contact_never_pulls():
    assert_array_equal(
        normal_force(np.array([1e-9, 0.1]), -100.0, 0.0, 1e4, 20.0), 0.0
    )  # a fast body before contact
    assert normal_force(-1e-3, 10.0, -1e-3, 1e4, 20.0) == 0.0  # the body is faster than the surface
    assert normal_force(-1e-3, -1.0, -2e-3, 1e4, 20.0) == 0.0  # the surface is still below
    assert normal_force(-1e-3, -1.0, -1e-3, 1e4, 20.0) == 30.0
    touching = Contact(np.array([-1e-6]), UP[None, :], np.zeros((1, 3)))
    force = LAWS["linear"].force(
        touching, np.array([[1.0, 0.0, -5.0]]), np.array([[1e-3, 0.0, 0.0]])
    )
    assert_array_equal(force.friction, 0.0)


def test_normal_force_grows_with_depth_to_the_power_of_three_halves():
    law, d = LAWS["by depth"], np.array([1e-3, 4e-3])
    touching = Contact(d, np.tile(UP, (2, 1)), np.zeros((2, 3)))
    still, zero = np.zeros((2, 3)), -d
    assert_allclose(law.force(touching, still, still, zero).normal, law.K * d**1.5, rtol=EPS)
    sinking = law.force(touching, np.tile([0.0, 0.0, -0.1], (2, 1)), still, zero).normal
    assert_allclose(sinking, law.K * d**1.5 + law.D * d**0.5 * 0.1, rtol=EPS)


def test_mirrored_motion_has_mirrored_compliant_contact_forces(law, rng):
    s, mirror = random_states(rng, 1000), np.array([1.0, -1.0, 1.0])
    state, force = law.sample(s.touching, s.v, SurfaceState(s.z, s.x), 1e-3)
    mirrored = Contact(s.touching.depth, s.touching.normal * mirror, s.touching.point * mirror)
    other_state, other = law.sample(mirrored, s.v * mirror, SurfaceState(s.z, s.x * mirror), 1e-3)
    assert_array_equal(other.normal, force.normal)
    assert_allclose(other.friction, force.friction * mirror, rtol=EPS)
    assert_allclose(other_state.x, state.x * mirror, rtol=EPS)


def test_reversed_sliding_velocity_reverses_the_friction_force(law, rng):
    s = random_states(rng, 1000)
    along = dot(s.v, s.touching.normal)[:, None] * s.touching.normal
    back = law.force(s.touching, 2 * along - s.v, -s.x, s.z)
    force = law.force(s.touching, s.v, s.x, s.z)
    assert_allclose(back.normal, force.normal, rtol=1e-9)  # depth rate from a different sum
    assert_allclose(back.friction, -force.friction, rtol=1e-9, atol=1e-9)


def test_total_power_of_both_contact_wrenches_is_contact_force_times_relative_velocity(rng):
    f, c = rng.normal(size=(2, 50, 3))
    on_body = wrench(f, c)
    twists = rng.normal(size=(2, 50, 6))
    velocities = [v[:, 3:] + np.cross(v[:, :3], c) for v in twists]
    power = dot(on_body, twists[0]) + dot(-on_body, twists[1])
    assert_allclose(power, dot(f, velocities[0] - velocities[1]), atol=1e-13)


# contact surface


def test_relaxation_of_a_free_contact_surface_matches_the_analytic_solution(rng):
    K, D, z0 = 1e4, 20.0, -rng.uniform(0, 1e-2, 20)
    step = 1e-9
    slope = (relaxed_surface(z0, step, K, D) - z0) / step
    assert_allclose(
        slope, surface_rate(z0, 0.0, K, D), rtol=1e-6
    )  # relative error step K / D, and rounding of z0 divided by step
    assert_allclose(
        relaxed_surface(relaxed_surface(z0, 1e-3, K, D), 2e-3, K, D),
        relaxed_surface(z0, 3e-3, K, D),
        rtol=EPS,
    )
    assert_array_equal(
        relaxed_surface(z0, 1e-3, K, 0.0), 0.0
    )  # without a damper the surface returns immediately
    assert_array_equal(
        relaxed_surface(z0, 1e-3, 1e9, 1e-6), 0.0
    )  # also if it relaxes long before the end of the step


def test_contact_surface_follows_a_touching_body_and_relaxes_after_separation(law):
    n = np.tile(UP, (1, 1))
    state, h = SurfaceState(np.zeros(1), np.zeros((1, 3))), 1e-3
    for k in range(1, 4):  # the body moves down and sideways
        touching = Contact(np.array([1e-3 * k]), n, np.zeros((1, 3)))
        state, force = law.sample(touching, np.array([[0.05, 0.0, -1.0]]), state, h)
        assert state.z == -touching.depth
    if law.mu:
        assert_allclose(state.x, [[3 * 0.05 * h, 0, 0]], rtol=EPS)  # sticking: x follows the body
        assert force.friction[0, 0] < 0
    touching = Contact(np.array([-1e-3]), n, np.zeros((1, 3)))  # separated
    left, force = law.sample(touching, np.array([[0.0, 0.0, 4.0]]), state, h)
    assert left.z == relaxed_surface(state.z, h, law.K, law.D)
    assert_array_equal(left.x, 0.0)
    assert_array_equal(force.normal, 0.0)
    back = Contact(
        np.array([1e-2]), n, np.zeros((1, 3))
    )  # new contact without sliding: the previous contact leaves no friction
    _, force = law.sample(back, np.array([[0.0, 0.0, -10.0]]), left, h)
    assert force.normal > 0
    assert_array_equal(force.friction, 0.0)


def test_friction_is_inside_the_cone_if_a_contact_sticks_and_on_the_cone_if_it_slips(rng):
    law, s = LAWS["linear"], random_states(rng, 10_000)
    force = law.force(s.touching, s.v, s.x)
    v_t = tangential_part(s.v, s.touching.normal)
    sticks = np.linalg.norm(force.friction, axis=1) < law.mu * force.normal * (1 - 1e-9)
    slips = (force.normal > 0) & ~sticks
    assert min(np.count_nonzero(sticks), np.count_nonzero(slips)) > 100
    rate = law.rate(s.touching, s.v, s.x)
    scale = 1 + np.abs(v_t) + law.K_t / law.D_t * np.abs(s.x)
    assert_allclose((rate / scale)[sticks], (v_t / scale)[sticks], atol=EPS)
    slip = v_t - rate  # friction opposes the slip and lies on the cone
    assert np.all(dot(force.friction, slip)[slips] <= 0)
    assert_allclose(
        np.linalg.norm(force.friction, axis=1)[slips], law.mu * force.normal[slips], rtol=1e-9
    )


# energy


def test_continuous_compliant_contact_never_adds_energy(law, rng):
    # power on the body plus rate of the spring energy <= 0, in the continuous form, whose surface
    # is at min(p, 0)
    s = random_states(rng, 100_000)
    p, n = -s.touching.depth, s.touching.normal
    xdot, pdot = law.rate(s.touching, s.v, s.x), dot(s.v, n)
    stateless = law.force(s.touching, s.v, s.x)
    inside = np.minimum(p, 0)
    spring = law.K * law.stiffening_factor(inside) * inside * pdot
    size = np.abs(stateless.normal * pdot) + np.abs(spring)
    assert np.all(stateless.normal * pdot + spring <= EPS * size)
    patch = law.K_t * dot(s.x, xdot)
    v_t = tangential_part(s.v, n)
    size = np.linalg.norm(s.x, axis=1) ** 2 * law.K_t**2 / law.D_t + law.D_t * dot(v_t, v_t)
    assert np.all(dot(stateless.friction, v_t) + patch <= 10 * EPS * size)


@pytest.mark.parametrize("law", [law for law in LAWS.values() if law.D])
def test_contact_law_with_surface_state_never_adds_energy(law, rng):
    # the same with the state z of the book, which differs from the body position if damped
    s = random_states(rng, 100_000)
    p, pdot = -s.touching.depth, dot(s.v, s.touching.normal)
    force = law.force(s.touching, s.v, s.x, s.z)
    z = np.where(p <= s.z, p, s.z)
    g = law.stiffening_factor(z)
    zdot = surface_rate(z, force.normal, law.K, law.D, g)
    spring = law.K * g * z * zdot
    size = np.abs(force.normal * pdot) + np.abs(spring) + g * (law.K * z) ** 2 / law.D
    assert np.all(force.normal * pdot + spring <= EPS * size)


@pytest.mark.parametrize("h", [1e-5, 1e-3, 1e-1])
def test_sampled_contact_law_never_adds_energy_in_random_motions(law, h):
    # motions over a plane consistent with the sampled velocities, dr = h v; the work is that of the
    # force at the end of each step
    rng = np.random.default_rng(11)
    n = 10_000
    normal = random_normals(rng, n)
    size = 10.0 ** rng.uniform(-5, -2, (n, 1))
    r, state, given = 0.3 * size * normal, SurfaceState(np.zeros(n), np.zeros((n, 3))), np.zeros(n)
    touched = np.zeros(n, dtype=bool)
    for _ in range(50):
        dr = (
            size * rng.normal(size=(n, 3)) - 0.3 * dot(r, normal)[:, None] * normal
        )  # pulls the body back to the surface
        r = r + dr
        touching = Contact(-dot(r, normal), normal, r)
        before = stored_energy(law, state.z, state.x)
        state, force = law.sample(touching, dr / h, state, h)
        work = dot(force.normal[:, None] * normal + force.friction, dr)
        given += work + stored_energy(law, state.z, state.x) - before
        scale = (
            before
            + stored_energy(law, state.z, state.x)
            + np.abs(force.normal) * np.linalg.norm(dr, axis=1)
        )
        assert np.all(work + stored_energy(law, state.z, state.x) - before <= 1e-11 * scale)
        touched |= force.normal > 0
    assert np.all(given <= 0)
    assert touched.mean() > 0.99


# stable steps


def spectral_radius(K, D, m, h, kind):
    """Return the spectral radius of one step of a sampled spring-damper force on a mass.

    The motion of the mass is exact. "held" evaluates the force at the start of the step, "lead"
    half a step ahead. "friction" is the force of the friction patch, which moves by h v at the end
    of the step.
    """
    force = np.array([-K, -(D + K * h / 2 if kind == "lead" else D)])
    v = np.array([0.0, 1.0]) + h / m * force
    p = np.array([1.0, 0.0]) + (
        h * v if kind == "friction" else np.array([0.0, h]) + h * h / (2 * m) * force
    )
    return np.abs(np.linalg.eigvals(np.array([p, v]))).max()


@pytest.mark.parametrize("zeta", [0.01, 0.1, 0.3, 0.5, 0.7, 1.0, 3.0])
def test_spectral_radius_of_sampled_contact_is_one_at_its_step_size_limit(zeta):
    K, m = 3e4, 2.5
    D, w0 = 2 * zeta * np.sqrt(K * m), np.sqrt(K / m)
    h = stable_step(K, D, m)
    assert h * w0 == pytest.approx(min(4 * zeta, 1 / zeta), rel=1e-12)
    assert (
        spectral_radius(K, D, m, 0.999 * h, "held")
        < 1
        < spectral_radius(K, D, m, 1.001 * h, "held")
    )
    h = stable_step(K, D, m, lead=True)
    assert h * w0 == pytest.approx(2 * (np.sqrt(1 + zeta**2) - zeta), rel=1e-12)
    for kind in ("lead", "friction"):
        assert (
            spectral_radius(K, D, m, 0.999 * h, kind)
            < 1
            < spectral_radius(K, D, m, 1.001 * h, kind)
        )


def test_undamped_sampled_contact_is_stable_only_if_its_forces_are_extrapolated():
    assert stable_step(1e4, 0.0, 1.0) == 0.0
    assert spectral_radius(1e4, 0.0, 1.0, 1e-6, "held") > 1
    assert stable_step(1e4, 0.0, 1.0, lead=True) == pytest.approx(2e-2)


@pytest.mark.parametrize(
    "numbers", [(0.0, 1.0, 1.0), (1.0, -1.0, 1.0), (1.0, 1.0, 0.0), (np.nan, 1.0, 1.0)]
)
def test_stable_step_function_rejects_invalid_stiffness_damping_or_mass(numbers):
    with pytest.raises(
        ValueError, match=re.escape("a stable step needs a positive stiffness and mass")
    ):
        stable_step(*numbers)


def test_sampled_contact_forces_stay_bounded_for_large_stiffness():
    # D / K is much smaller than the step: the surface returns within the step, the patch has no
    # memory, and no value overflows
    law = SoftLaw(1e9, 1e-3, 0.5, 1e9, 1e-3)
    touching = Contact(np.array([1e-6]), UP[None, :], np.zeros((1, 3)))
    state = SurfaceState(np.zeros(1), np.zeros((1, 3)))
    for k in range(100):
        v = np.array([[np.cos(k), np.sin(k), 0.0]])
        state, force = law.sample(touching, v, state, 1e-3)
        assert force.normal == pytest.approx(1e3, rel=1e-9)
        assert np.linalg.norm(force.friction) == pytest.approx(500.0, rel=1e-9)
        assert np.linalg.norm(state.x) == pytest.approx(500.0 / 1e9, rel=1e-6)


# tracing


def states_near_ball(s):
    """Return the states of points near a ball of radius 1 m, and of three points at rest.

    The three points are at zero gap, at the centre, and far away.
    """
    centre = (1.0 - s.touching.depth)[:, None] * s.touching.normal
    special, still = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.0, 0.0, 2.0]]), np.zeros((3, 3))
    p = np.vstack([centre, special])
    return p, np.vstack([s.v, still]), np.vstack([s.x, still]), np.r_[s.z, np.zeros(3)]


@pytest.mark.parametrize("name", LAWS)
def test_traced_and_numpy_contact_forces_agree_and_have_finite_derivatives(name, rng):
    law, n = LAWS[name], 20
    ball = Sphere(1.0)
    p, v, x, z = states_near_ball(random_states(rng, n))

    def step(p, v, x, z):
        state, force = law.sample(contact(ball, p), v, SurfaceState(z, x), 1e-3)
        return {
            "z": state.z,
            "x": state.x,
            "n": force.normal,
            "t": force.friction,
            "rate": law.rate(contact(ball, p), v, x),
        }

    graph = trace("step", step, {"p": p.shape, "v": v.shape, "x": x.shape, "z": z.shape})
    values = np.concatenate([a.ravel() for a in (p, v, x, z)])
    expected = np.concatenate([np.ravel(a) for a in step(p, v, x, z).values()])
    assert_allclose(graph(values), expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
    memory = ca.SX.sym("m", values.size)
    slopes = ca.Function("slopes", [memory], [ca.jacobian(graph.function(memory), memory)])
    assert np.all(np.isfinite(np.array(slopes(values))))


def test_projection_to_the_friction_cone_does_not_change_forces_inside_the_cone():
    f = np.array([[3.0, 4.0, 0.0], [3.0, 4.0, 0.0], [0.0, 0.0, 0.0]])
    assert_allclose(
        project_to_cone(f, np.array([5.1, 2.5, 0.0])), [[3, 4, 0], [1.5, 2, 0], [0, 0, 0]], rtol=EPS
    )
