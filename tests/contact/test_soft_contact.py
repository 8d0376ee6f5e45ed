"""The laws of soft contact: no energy from nowhere, the friction cone, restitution, sticking and
slipping, stable steps.
"""

import re
from typing import NamedTuple

import casadi as ca
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rigidblocks.contact import Contact, SoftLaw, Sphere, SurfaceState, contact, stable_step, wrench
from rigidblocks.contact.soft import (
    in_cone,
    in_tangent_plane,
    normal_force,
    surface_after,
    surface_rate,
)
from rigidblocks.tracing.trace import trace

EPS = 1e-12  # rounding of a few operations, relative to the size of what they are made of
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
    """Contacts of all kinds: shallow and deep, with the surface at the body, above it and below,
    fast and slow.
    """
    normal = random_normals(rng, n)
    size = 10.0 ** rng.uniform(-6, -1, (n, 1))
    z = -size[:, 0] * rng.uniform(0, 1, n)
    p = np.where(rng.random(n) < 0.7, z, z + size[:, 0] * rng.normal(size=n))
    v = 10.0 ** rng.uniform(-4, 1, (n, 1)) * rng.normal(size=(n, 3))
    x = in_tangent_plane(size * rng.normal(size=(n, 3)), normal)
    return State(Contact(-p, normal, rng.normal(size=(n, 3))), v, x, z)


def stored(law, z, x):
    """The energy in the springs: of the normal one the integral of K g(z) z, 2/5 K |z|^2.5 where g
    = sqrt(|z| / 1 m).
    """
    normal = (
        law.K * z**2 / 2
        if law.depth_ref is None
        else 0.4 * law.K * np.abs(z) ** 2.5 / np.sqrt(law.depth_ref)
    )
    return normal + law.K_t * dot(x, x) / 2


# forces


def test_surface_pushes_and_friction_is_in_the_cone(law, rng):
    s = random_states(rng, 10_000)
    for force in (law.force(s.touching, s.v, s.x, s.z), law.force(s.touching, s.v, s.x)):
        assert np.all(force.normal >= 0)
        assert np.all(np.linalg.norm(force.friction, axis=1) <= law.mu * force.normal * (1 + EPS))
        assert_allclose(
            dot(force.friction, s.touching.normal), 0, atol=EPS * law.mu * force.normal.max()
        )
    assert np.count_nonzero(force.normal) > 1000


def test_nothing_pulls_and_nothing_pushes_across_a_gap():
    assert_array_equal(
        normal_force(np.array([1e-9, 0.1]), -100.0, 0.0, 1e4, 20.0), 0.0
    )  # fast, but not there yet
    assert normal_force(-1e-3, 10.0, -1e-3, 1e4, 20.0) == 0.0  # the body outruns the surface
    assert normal_force(-1e-3, -1.0, -2e-3, 1e4, 20.0) == 0.0  # the surface has not come back yet
    assert normal_force(-1e-3, -1.0, -1e-3, 1e4, 20.0) == 30.0
    touching = Contact(np.array([-1e-6]), UP[None, :], np.zeros((1, 3)))
    force = LAWS["linear"].force(
        touching, np.array([[1.0, 0.0, -5.0]]), np.array([[1e-3, 0.0, 0.0]])
    )
    assert_array_equal(force.friction, 0.0)


def test_force_goes_with_the_depth_to_the_power_of_three_halves():
    law, d = LAWS["by depth"], np.array([1e-3, 4e-3])
    touching = Contact(d, np.tile(UP, (2, 1)), np.zeros((2, 3)))
    still, zero = np.zeros((2, 3)), -d
    assert_allclose(law.force(touching, still, still, zero).normal, law.K * d**1.5, rtol=EPS)
    sinking = law.force(touching, np.tile([0.0, 0.0, -0.1], (2, 1)), still, zero).normal
    assert_allclose(sinking, law.K * d**1.5 + law.D * d**0.5 * 0.1, rtol=EPS)


def test_mirrored_motion_has_mirrored_forces(law, rng):
    s, mirror = random_states(rng, 1000), np.array([1.0, -1.0, 1.0])
    state, force = law.sampled(s.touching, s.v, SurfaceState(s.z, s.x), 1e-3)
    mirrored = Contact(s.touching.depth, s.touching.normal * mirror, s.touching.point * mirror)
    other_state, other = law.sampled(mirrored, s.v * mirror, SurfaceState(s.z, s.x * mirror), 1e-3)
    assert_array_equal(other.normal, force.normal)
    assert_allclose(other.friction, force.friction * mirror, rtol=EPS)
    assert_allclose(other_state.x, state.x * mirror, rtol=EPS)


def test_reversed_slip_has_reversed_friction(law, rng):
    s = random_states(rng, 1000)
    along = dot(s.v, s.touching.normal)[:, None] * s.touching.normal
    back = law.force(s.touching, 2 * along - s.v, -s.x, s.z)
    force = law.force(s.touching, s.v, s.x, s.z)
    assert_allclose(back.normal, force.normal, rtol=1e-9)  # p' is found again from another sum
    assert_allclose(back.friction, -force.friction, rtol=1e-9, atol=1e-9)


def test_wrenches_on_the_two_bodies_do_the_work_of_the_relative_motion(rng):
    f, c = rng.normal(size=(2, 50, 3))
    on_body = wrench(f, c)
    twists = rng.normal(size=(2, 50, 6))
    velocities = [v[:, 3:] + np.cross(v[:, :3], c) for v in twists]
    power = dot(on_body, twists[0]) + dot(-on_body, twists[1])
    assert_allclose(power, dot(f, velocities[0] - velocities[1]), atol=1e-13)


# the surface


def test_free_surface_relaxes_by_the_closed_form_of_its_equation_of_motion(rng):
    K, D, z0 = 1e4, 20.0, -rng.uniform(0, 1e-2, 20)
    step = 1e-9
    slope = (surface_after(z0, step, K, D) - z0) / step
    assert_allclose(
        slope, surface_rate(z0, 0.0, K, D), rtol=1e-6
    )  # step K / D, and the rounding of z0 by step
    assert_allclose(
        surface_after(surface_after(z0, 1e-3, K, D), 2e-3, K, D),
        surface_after(z0, 3e-3, K, D),
        rtol=EPS,
    )
    assert_array_equal(surface_after(z0, 1e-3, K, 0.0), 0.0)  # without a damper it is back at once
    assert_array_equal(
        surface_after(z0, 1e-3, 1e9, 1e-6), 0.0
    )  # and where it would be back long before


def test_surface_follows_the_body_in_contact_and_forgets_it_behind(law):
    n = np.tile(UP, (1, 1))
    state, h = SurfaceState(np.zeros(1), np.zeros((1, 3))), 1e-3
    for k in range(1, 4):  # pushed in and along
        touching = Contact(np.array([1e-3 * k]), n, np.zeros((1, 3)))
        state, force = law.sampled(touching, np.array([[0.05, 0.0, -1.0]]), state, h)
        assert state.z == -touching.depth
    if law.mu:
        assert_allclose(state.x, [[3 * 0.05 * h, 0, 0]], rtol=EPS)  # sticks: it went along
        assert force.friction[0, 0] < 0
    touching = Contact(np.array([-1e-3]), n, np.zeros((1, 3)))  # off
    left, force = law.sampled(touching, np.array([[0.0, 0.0, 4.0]]), state, h)
    assert left.z == surface_after(state.z, h, law.K, law.D)
    assert_array_equal(left.x, 0.0)
    assert_array_equal(force.normal, 0.0)
    back = Contact(
        np.array([1e-2]), n, np.zeros((1, 3))
    )  # on again without sliding: no friction comes of the last contact
    _, force = law.sampled(back, np.array([[0.0, 0.0, -10.0]]), left, h)
    assert force.normal > 0
    assert_array_equal(force.friction, 0.0)


def test_patch_moves_with_the_body_where_it_sticks_and_stays_on_the_cone_where_it_slips(rng):
    law, s = LAWS["linear"], random_states(rng, 10_000)
    force = law.force(s.touching, s.v, s.x)
    v_t = in_tangent_plane(s.v, s.touching.normal)
    sticks = np.linalg.norm(force.friction, axis=1) < law.mu * force.normal * (1 - 1e-9)
    slips = (force.normal > 0) & ~sticks
    assert min(np.count_nonzero(sticks), np.count_nonzero(slips)) > 100
    rate = law.rate(s.touching, s.v, s.x)
    scale = 1 + np.abs(v_t) + law.K_t / law.D_t * np.abs(s.x)
    assert_allclose((rate / scale)[sticks], (v_t / scale)[sticks], atol=EPS)
    slip = v_t - rate  # the friction is against the slip, on the cone
    assert np.all(dot(force.friction, slip)[slips] <= 0)
    assert_allclose(
        np.linalg.norm(force.friction, axis=1)[slips], law.mu * force.normal[slips], rtol=1e-9
    )


# energy


def test_law_never_adds_energy_at_any_instant(law, rng):
    # the power that it gives the body and the rate of what its springs hold, of the continuous
    # form, whose surface is at min(p, 0)
    s = random_states(rng, 100_000)
    p, n = -s.touching.depth, s.touching.normal
    xdot, pdot = law.rate(s.touching, s.v, s.x), dot(s.v, n)
    stateless = law.force(s.touching, s.v, s.x)
    inside = np.minimum(p, 0)
    spring = law.K * law.stiffening(inside) * inside * pdot
    size = np.abs(stateless.normal * pdot) + np.abs(spring)
    assert np.all(stateless.normal * pdot + spring <= EPS * size)
    patch = law.K_t * dot(s.x, xdot)
    v_t = in_tangent_plane(s.v, n)
    size = np.linalg.norm(s.x, axis=1) ** 2 * law.K_t**2 / law.D_t + law.D_t * dot(v_t, v_t)
    assert np.all(dot(stateless.friction, v_t) + patch <= 10 * EPS * size)


@pytest.mark.parametrize("law", [law for law in LAWS.values() if law.D])
def test_law_with_a_state_never_adds_energy_at_any_instant(law, rng):
    # the same of the book's form, with its state z, which is not where the body is for damping
    s = random_states(rng, 100_000)
    p, pdot = -s.touching.depth, dot(s.v, s.touching.normal)
    force = law.force(s.touching, s.v, s.x, s.z)
    z = np.where(p <= s.z, p, s.z)
    g = law.stiffening(z)
    zdot = surface_rate(z, force.normal, law.K, law.D, g)
    spring = law.K * g * z * zdot
    size = np.abs(force.normal * pdot) + np.abs(spring) + g * (law.K * z) ** 2 / law.D
    assert np.all(force.normal * pdot + spring <= EPS * size)


@pytest.mark.parametrize("h", [1e-5, 1e-3, 1e-1])
def test_sampled_law_never_adds_energy_on_ten_thousand_random_motions(law, h):
    # motions that go with the sampled velocities, dr = h v, over a plane: the work is that of the
    # force at each step's end
    rng = np.random.default_rng(11)
    n = 10_000
    normal = random_normals(rng, n)
    size = 10.0 ** rng.uniform(-5, -2, (n, 1))
    r, state, given = 0.3 * size * normal, SurfaceState(np.zeros(n), np.zeros((n, 3))), np.zeros(n)
    touched = np.zeros(n, dtype=bool)
    for _ in range(50):
        dr = (
            size * rng.normal(size=(n, 3)) - 0.3 * dot(r, normal)[:, None] * normal
        )  # back to the surface again and again
        r = r + dr
        touching = Contact(-dot(r, normal), normal, r)
        before = stored(law, state.z, state.x)
        state, force = law.sampled(touching, dr / h, state, h)
        work = dot(force.normal[:, None] * normal + force.friction, dr)
        given += work + stored(law, state.z, state.x) - before
        scale = (
            before
            + stored(law, state.z, state.x)
            + np.abs(force.normal) * np.linalg.norm(dr, axis=1)
        )
        assert np.all(work + stored(law, state.z, state.x) - before <= 1e-11 * scale)
        touched |= force.normal > 0
    assert np.all(given <= 0)
    assert touched.mean() > 0.99


# steps


def spectral_radius(K, D, m, h, kind):
    """Of one step of a held spring-damper force on a mass that is moved exactly: from the position
    at the beginning of the step, from that half a step ahead, or from the patch of friction, which
    moves by h v at the end of the step.
    """
    force = np.array([-K, -(D + K * h / 2 if kind == "lead" else D)])
    v = np.array([0.0, 1.0]) + h / m * force
    p = np.array([1.0, 0.0]) + (
        h * v if kind == "friction" else np.array([0.0, h]) + h * h / (2 * m) * force
    )
    return np.abs(np.linalg.eigvals(np.array([p, v]))).max()


@pytest.mark.parametrize("zeta", [0.01, 0.1, 0.3, 0.5, 0.7, 1.0, 3.0])
def test_stable_step_is_where_the_spectral_radius_is_one(zeta):
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


def test_undamped_held_contact_has_no_stable_step_without_lead():
    assert stable_step(1e4, 0.0, 1.0) == 0.0
    assert spectral_radius(1e4, 0.0, 1.0, 1e-6, "held") > 1
    assert stable_step(1e4, 0.0, 1.0, lead=True) == pytest.approx(2e-2)


@pytest.mark.parametrize(
    "numbers", [(0.0, 1.0, 1.0), (1.0, -1.0, 1.0), (1.0, 1.0, 0.0), (np.nan, 1.0, 1.0)]
)
def test_stable_step_refuses_what_is_no_contact(numbers):
    with pytest.raises(
        ValueError, match=re.escape("a stable step needs a positive stiffness and mass")
    ):
        stable_step(*numbers)


def test_forces_stay_bounded_however_stiff_the_surface_is_against_the_step():
    # D / K far below the step: the surface is back within it, the patch has no memory, nothing
    # overflows
    law = SoftLaw(1e9, 1e-3, 0.5, 1e9, 1e-3)
    touching = Contact(np.array([1e-6]), UP[None, :], np.zeros((1, 3)))
    state = SurfaceState(np.zeros(1), np.zeros((1, 3)))
    for k in range(100):
        v = np.array([[np.cos(k), np.sin(k), 0.0]])
        state, force = law.sampled(touching, v, state, 1e-3)
        assert force.normal == pytest.approx(1e3, rel=1e-9)
        assert np.linalg.norm(force.friction) == pytest.approx(500.0, rel=1e-9)
        assert np.linalg.norm(state.x) == pytest.approx(500.0 / 1e9, rel=1e-6)


# traced


def near_a_ball(s):
    """The states as those of points near a ball of radius 1 m, and behind them three at rest: at
    the gap's end, at the centre, far away.
    """
    centre = (1.0 - s.touching.depth)[:, None] * s.touching.normal
    special, still = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.0, 0.0, 2.0]]), np.zeros((3, 3))
    p = np.vstack([centre, special])
    return p, np.vstack([s.v, still]), np.vstack([s.x, still]), np.r_[s.z, np.zeros(3)]


@pytest.mark.parametrize("name", LAWS)
def test_traced_law_is_that_of_numpy_and_has_derivatives_everywhere(name, rng):
    law, n = LAWS[name], 20
    ball = Sphere(1.0)
    p, v, x, z = near_a_ball(random_states(rng, n))

    def step(p, v, x, z):
        state, force = law.sampled(contact(ball, p), v, SurfaceState(z, x), 1e-3)
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


def test_cone_keeps_what_is_in_it():
    f = np.array([[3.0, 4.0, 0.0], [3.0, 4.0, 0.0], [0.0, 0.0, 0.0]])
    assert_allclose(
        in_cone(f, np.array([5.1, 2.5, 0.0])), [[3, 4, 0], [1.5, 2, 0], [0, 0, 0]], rtol=EPS
    )
