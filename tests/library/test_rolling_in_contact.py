"""Published toys on a plane: Euler's disc, a rattleback and a tippe top.

The reference is SciPy's solution of the equations of one rolling or sliding body to 1e-7.
The contact steps have a second-order error, and the tolerances follow from the step of each test.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp

from rigidblocks import Model, SixDoF
from rigidblocks.block.block import Record
from rigidblocks.block.memory_layout import Memory
from rigidblocks.contact import RigidContactPlant, Sphere
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.robot.shapes import Cylinder, Ellipsoid
from rigidblocks.spatial.rigid_motion import quaternion_rotation
from rigidblocks.spatial.spatial import identity, mcI

pytestmark = pytest.mark.slow

G, UP = 9.81, np.array([0.0, 0.0, 1.0])


@dataclass(frozen=True, eq=False)
class Toy:
    """Body of mass m, centre of mass c and central inertia I, in the frame of its shape.

    `support(d)` is its farthest point in the direction d.
    """

    shape: Any
    m: float
    c: np.ndarray
    I: np.ndarray
    support: Any

    def start(self, q, w, v=None):
        """Return the centre of mass, and its velocity in body coordinates.

        The default velocity is that of rolling without slip.
        """
        up = quaternion_rotation(q) @ UP
        rho = self.support(-up) - self.c
        return np.array([0, 0, -rho @ up]), -cross(w, rho) if v is None else v

    @cache  # noqa: B019  (one kernel for all starts)
    def kernel(self, h, mu):
        inertia = mcI(self.m, self.c, self.I)
        model = Model(
            "toy", (-1,), (SixDoF(),), (identity(),), (inertia,), contact=((self.shape,),)
        )
        memory = Memory(RigidContactPlant(model, mu=mu, sample_time=h))
        return memory, compiled_stepper(memory)

    def run(self, q, w, T, h, mu, v=None):
        """Return outputs, centres of mass and body-to-base rotations after each step."""
        memory, step = self.kernel(h, mu)
        x, v = self.start(q, w, v)
        m, at = memory.start(), memory.where
        m[at["q"]] = [*q, *(x - quaternion_rotation(q).T @ self.c)]
        m[at["qd"]] = [*w, *(v - cross(w, self.c))]
        step.initialize(m, 0.0)
        rows = np.empty((round(T / h), memory.size))
        for k in range(len(rows)):
            step.step(m, k * h, h)
            rows[k] = m
        y = Record({name: rows[:, at[name]] for name in ("q", "qd", "depth")})
        R = np.array([quaternion_rotation(one).T for one in y.q[:, :4]])
        return y, y.q[:, 4:] + R @ self.c, R

    def energy(self, y, x, R, h):
        """Return the energy at the midpoints of the steps."""
        w = y.qd[:, :3]
        v = y.qd[:, 3:] + np.cross(w, self.c)
        up = x[:, 2] - h / 2 * np.einsum("ti,ti->t", R[:, 2], v)
        return self.m * ((v**2).sum(axis=1) / 2 + G * up) + (w * (w @ self.I)).sum(axis=1) / 2


def cross(a, b):
    """Return the cross product of two vectors, faster than NumPy's function."""
    x, y, z = a
    u, v, w = b
    return np.array([y * w - z * v, z * u - x * w, x * v - y * u])


def quaternion_rate(q, w):
    """Return the quaternion rate of a body with angular velocity w in body coordinates."""
    return np.array([-q[1:] @ w, *(q[0] * w + cross(q[1:], w))]) / 2


def rolled(toy, q, w, t):
    """Return the angular velocity in rolling without slip.

    I dw/dt + w x I w = rho x F, F = m (dv/dt + g up), v = -w x rho.
    """

    def rates(_, y):
        q, w = y[:4], y[4:]
        up = quaternion_rotation(q / np.linalg.norm(q)) @ UP
        turned = cross(w, up)
        rho = toy.support(-up) - toy.c
        rolls = toy.support(-up + 1e-30j * turned).imag / 1e-30
        bias = cross(w, rolls) + cross(w, cross(w, rho)) - G * up
        inertia = toy.I + toy.m * (rho @ rho * np.eye(3) - np.outer(rho, rho))
        moment = -cross(w, toy.I @ w) - toy.m * cross(rho, bias)
        return np.concatenate([quaternion_rate(q, w), np.linalg.solve(inertia, moment)])

    s = solve_ivp(rates, (0, t[-1]), [*q, *w], "DOP853", t, rtol=1e-7, atol=1e-9)
    return s.y[4:].T


def about(axis, angle):
    return np.array([np.cos(angle / 2), *(np.sin(angle / 2) * np.array(axis, float))])


def ellipsoid(half, m, c, I):
    D = np.array(half) ** 2
    return Toy(Ellipsoid(half), m, np.array(c), np.array(I), lambda d: D * d / np.sqrt(d @ (D * d)))


# Kane and Levinson 1982 (Realistic mathematical modeling of the rattleback), for unit mass
STONE = ellipsoid(
    (0.2, 0.03, 0.02), 1.0, (0, 0, -0.01), [[2e-4, -2e-5, 0], [-2e-5, 16e-4, 0], [0, 0, 17e-4]]
)


def test_rattleback_reverses_in_only_one_direction_of_spin():
    q, T, h = about((1, 0, 0), np.radians(0.5)), 8.0, 2.5e-4
    y, x, R = STONE.run(q, np.array([0, 0, 5.0]), T, h, mu=100.0)
    assert y.qd[:, 2].min() > 4.9
    y, x, R = STONE.run(q, np.array([0, 0, -5.0]), T, h, mu=100.0)
    E = STONE.energy(y, x, R, h)
    assert np.ptp(E) < 1e-2 * E[0]
    assert (y.qd[round(5 / h) :, 2] > 0.1).all()
    assert y.qd[round(7.5 / h) :, 2].mean() == pytest.approx(5.0, rel=0.05)  # initial energy


def test_motion_error_of_rolling_bodies_is_of_second_order_in_the_step():
    q, w, T = about((1, 0, 0), np.radians(0.5)), np.array([0, 0, -5.0]), 1.5
    exact = rolled(STONE, q, w, np.array([0, T]))[-1]
    errors = []
    for h in (1e-3, 2.5e-4):
        y, _, _ = STONE.run(q, w, T + h, h, mu=100.0)
        errors.append(np.abs((y.qd[-1] + y.qd[-2])[:3] / 2 - exact).max())
    assert errors[0] / errors[1] > 10
    assert errors[1] < 2e-2


def euler_disc():
    """Return the toy of Moffatt 2000 (Euler's disc and its finite-time singularity)."""
    r, thick, m = 0.0375, 0.0064, 0.4387
    I = np.diag([m * (3 * r * r + thick**2) / 12] * 2 + [m * r * r / 2])
    rim = lambda d: np.array([*(r * d[:2] / np.hypot(*d[:2])), np.sign(d[2]) * thick / 2])  # noqa: E731
    return Toy(Cylinder(r, thick), m, np.zeros(3), I, rim)


def precession(disc, degrees):
    """Return q of a disc in steady precession, the precession rate and the rotation axis.

    Omega up x I w = rho x m g up. For a thin disc Omega^2 = 4 g / (r sin(inclination)).
    """
    q = about((1, 0, 0), np.radians(degrees))
    up = quaternion_rotation(q) @ UP
    rho = disc.support(-up)
    axis, moment = rho * up[1] / rho[1], cross(rho, disc.m * G * up)  # angular velocity / Omega
    turned = cross(up, disc.I @ axis)
    omega = np.sqrt(moment @ turned / (turned @ turned))
    assert omega**2 * turned == pytest.approx(moment, abs=1e-12)
    thin = 4 * G / (np.hypot(*rho[:2]) * np.sin(np.radians(degrees)))
    assert omega**2 == pytest.approx(thin, rel=0.2)
    return q, omega, axis


@pytest.mark.parametrize("degrees", [60, 30, 10])
def test_rolling_coin_precesses_at_the_analytic_rate_for_its_inclination(degrees):
    disc, h = euler_disc(), 2.5e-4
    q, omega, axis = precession(disc, degrees)
    y, x, R = disc.run(q, omega * axis, 1.0, h, mu=10.0)
    t, turns = h * np.arange(1, len(R) + 1), np.unwrap(np.arctan2(R[:, 1, 2], R[:, 0, 2]))
    assert np.polyfit(t, turns, 1)[0] == pytest.approx(omega, rel=2e-4)
    assert np.degrees(np.arccos(R[:, 2, 2])) == pytest.approx(degrees, abs=0.01)
    assert np.abs(x[:, :2]).max() < 1e-4 * 0.0375
    # the face rotates slowly: at (1 - cos(inclination)) Omega for a thin disc
    face = np.unwrap(np.arctan2(R[:, 1, 0] - R[:, 0, 1], R[:, 0, 0] + R[:, 1, 1]))
    slow = omega * (1 + axis[2] - np.cos(np.radians(degrees)))
    assert np.polyfit(t, face, 1)[0] == pytest.approx(slow, rel=2e-3)
    E = disc.energy(y, x, R, h)
    assert np.ptp(E) < 3e-4 * E[0]


def slid(toy, R, mu, q, w, v, t):
    """Return the inclination of a sliding sphere of radius R with an eccentric centre of mass.

    Coulomb friction acts on it, with the sign of the slip smoothed over 1e-4 m/s.
    """
    inward = np.linalg.inv(toy.I)

    def rates(_, y):
        q, w, v = y[:4] / np.linalg.norm(y[:4]), y[4:7], y[7:]
        E = quaternion_rotation(q)
        arm = -toy.c - R * (E @ UP)
        slip = (v + E.T @ cross(w, arm)) * (1, 1, 0)
        force = UP - mu * slip / np.sqrt(slip @ slip + 1e-8)  # for a unit normal force
        free = inward @ -cross(w, toy.I @ w)
        pressed = inward @ cross(arm, E @ force)
        bias = cross(free, toy.c) + cross(w, cross(w, toy.c))
        p = toy.m * (G + (E.T @ bias)[2]) / (1 - toy.m * (E.T @ cross(pressed, toy.c))[2])
        dv = p * force / toy.m - G * UP
        return np.concatenate([quaternion_rate(q, w), free + p * pressed, dv])

    s = solve_ivp(rates, (0, t[-1]), [*q, *w, *v], "LSODA", t, rtol=1e-8, atol=1e-10)
    return np.arccos(1 - 2 * (s.y[1] ** 2 + s.y[2] ** 2) / (s.y[:4] ** 2).sum(axis=0))


# mass and lengths of Rauch-Wojciechowski and Rutstam 2014 (Dynamics of an inverting tippe top)
R_TOP, ALPHA, I_TOP = 0.02, 0.3, 0.02 * 0.02**2 * np.diag([131 / 350, 131 / 350, 2 / 5])
TIPPE_TOP = Toy(Sphere(R_TOP), 0.02, np.array([0, 0, -ALPHA * R_TOP]), I_TOP, lambda d: R_TOP * d)


def jelletts_integral(y, turn):
    """Return Jellett's integral of the tippe top at the midpoint of each step."""
    L = np.einsum("tij,tj->ti", turn, y.qd[:, :3] @ I_TOP)
    arm = R_TOP * (UP - ALPHA * turn[:, :, 2])
    return ((L[1:] + L[:-1]) / 2 * arm[:-1]).sum(axis=1)


def threshold_of_inversion():
    """Return the least Jellett's integral with which the top inverts, for 1 - alpha < I1/I3 < 1."""
    m, gamma = TIPPE_TOP.m, I_TOP[0, 0] / I_TOP[2, 2]
    assert 1 - ALPHA < gamma < 1
    least = np.sqrt(m * G * R_TOP**3 * I_TOP[2, 2] * ALPHA / (1 + ALPHA - gamma))
    return least * (1 + ALPHA) ** 2


def test_tippe_top_inverts_and_conserves_jelletts_integral():
    mu, spin, h, q = 0.05, 130.0, 5e-4, about((1, 0, 0), 0.6)
    w = quaternion_rotation(q) @ (0, 0, spin)
    y, x, turn = TIPPE_TOP.run(q, w, 6.0, h, mu, np.zeros(3))
    jellett = jelletts_integral(y, turn)
    assert jellett[0] > threshold_of_inversion()
    assert_allclose(jellett, jellett[0], rtol=3e-4)

    t, tilt = np.linspace(0, 2.0, 21), np.arccos(turn[:, 2, 2])
    exact = slid(TIPPE_TOP, R_TOP, mu, q, w, np.zeros(3), t)
    assert_allclose(tilt[round(t[1] / h) - 1 :: round(t[1] / h)][:20], exact[1:], atol=0.03)
    assert np.degrees(tilt[-1000:]).min() > 170
    # in the inverted state Jellett's integral determines the spin
    w_end = jellett[0] / (I_TOP[2, 2] * R_TOP * (1 + ALPHA))
    assert -y.qd[-1000:, 2].mean() == pytest.approx(w_end, rel=1e-2)
    assert np.diff(TIPPE_TOP.energy(y, x, turn, h)).max() < 1e-6 * TIPPE_TOP.m * G * R_TOP
