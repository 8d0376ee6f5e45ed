"""Housner's rocking block (1963) on stiff ground, with the default steps.

The block rotates about one edge like a pendulum. When it lands on the other edge, its angular
momentum about that edge is conserved. Therefore its angular velocity is multiplied by
1 - 3/2 sin^2 of the angle between a side and the diagonal.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad

from rigidblocks.block.adaptive_methods import DEFAULT_METHOD, memory_for
from rigidblocks.contact import ContactPlant, PointSet
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.library import RobotPlant
from rigidblocks.robot.joints import SixDoF
from rigidblocks.robot.model import Model
from rigidblocks.spatial.spatial import mcI, xlt

M, HALF, HEIGHT, G = 2.0, 0.1, 0.4, 9.81  # HEIGHT of the centre of mass above the feet
R, ALPHA = np.hypot(HALF, HEIGHT), np.arctan2(HALF, HEIGHT)
P2 = 0.75 * G / R
KEPT = 1.0 - 1.5 * np.sin(ALPHA) ** 2
STIFFNESS, DAMPING = 1e8, 4e4  # landings without rebound


def block():
    """Return a box of uniform density that rocks about y on four feet."""
    feet = PointSet([[x * HALF, y * HALF, -HEIGHT] for x in (-1, 1) for y in (-1, 1)])
    inertia = mcI(M, np.zeros(3), M / 3 * np.diag([R * R, R * R, 2 * HALF**2]))
    return Model("block", (-1,), (SixDoF(),), (xlt(np.zeros(3)),), (inertia,), contact=((feet,),))


def lift(tilt):
    """Return the height of the centre of mass above its height at rest, in units of R."""
    return np.cos(ALPHA - tilt) - np.cos(ALPHA)


def fall_time(tilt):
    """Return the time from rest at a tilt to the landing, from energy conservation.

    The substitution tilt - s^2 makes the integrand finite at rest.
    """

    def rate(s):
        return 2 * s / np.sqrt(2 * P2 * (lift(tilt) - lift(tilt - s * s)))

    return quad(rate, 0.0, np.sqrt(tilt), epsabs=1e-12)[0]


def rocking(tilt, t_stop, dt):
    """Return times, tilts and energies (heights in units of R) of a block released at a tilt."""
    ground = {"K_t": STIFFNESS, "D_t": DAMPING}
    plant = ContactPlant(RobotPlant(block()), STIFFNESS, DAMPING, 2.0, **ground)
    memory = memory_for(plant, DEFAULT_METHOD)
    stepper, m = compiled_stepper(memory, DEFAULT_METHOD), memory.start()
    over, up = R * np.sin(ALPHA - tilt), R * np.cos(ALPHA - tilt)  # relative to the edge x = HALF
    m[memory.where["q"]] = [np.cos(tilt / 2), 0, np.sin(tilt / 2), 0, HALF - over, 0, up]
    stepper.initialize(m, 0.0)
    rows = np.zeros((round(t_stop / dt), memory.size))
    assert stepper.run(m, 0.0, dt, rows) == len(rows)
    q, energy = (rows[:, memory.where[name]] for name in ("q", "energy"))
    tilts = 2 * np.arctan2(q[:, 2], q[:, 0])
    return dt * np.arange(1, len(rows) + 1), tilts, energy[:, 0] / (M * G * R) - np.cos(ALPHA)


@pytest.mark.slow
@pytest.mark.parametrize("dt", [1e-3, 5e-3])
def test_landing_times_and_energies_of_a_rocking_block_match_housner(dt):
    tilt = 0.6 * ALPHA
    t, tilts, lifts = rocking(tilt, 2.4, dt)
    last = np.flatnonzero(tilts[1:] * tilts[:-1] < 0)
    part = tilts[last] / (tilts[last] - tilts[last + 1])
    assert len(last) >= 4
    expected = lift(tilt) * KEPT ** (2 * np.arange(len(last)))
    farthest = ALPHA - np.arccos(np.cos(ALPHA) + expected)
    times = np.cumsum([fall_time(tilt), *(2 * fall_time(one) for one in farthest[1:])])
    assert_allclose(t[last] + part * dt, times, rtol=0, atol=0.1 * dt)
    between = np.searchsorted(t, (times[1:] + times[:-1]) / 2)
    assert_allclose(lifts[between], expected[1:], rtol=1e-4)
