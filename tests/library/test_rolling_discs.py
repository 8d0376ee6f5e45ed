"""Energy of thin discs that roll on their rim while the contact point moves fast on the body."""

import numpy as np
import pytest

from rigid_scenes import run
from rigidblocks import Model, RigidContactPlant, SixDoF
from rigidblocks.robot.shapes import Cylinder, Plane
from rigidblocks.spatial.rigid_motion import quaternion_rotation
from rigidblocks.spatial.spatial import identity, mcI

G, TILT = 9.81, np.pi / 6


def lost_energy(radius, thickness, h, T=0.2):
    """Return the relative energy loss of a disc of 1 kg in steady rolling without slip.

    Its angular velocity about the inclined diameter is w = sqrt(4 g sin a / r).
    """
    inertia = np.diag([(3 * radius**2 + thickness**2) / 12] * 2 + [radius**2 / 2])
    model = Model("disc", (-1,), (SixDoF(),), (identity(),), (mcI(1.0, np.zeros(3), inertia),),
                  contact=((Cylinder(radius, thickness),),))  # fmt: skip
    turn = np.array([np.cos(TILT / 2), np.sin(TILT / 2), 0, 0])
    low = np.array([0, -radius, -thickness / 2])
    w = np.array([0, 1, 0]) * np.sqrt(4 * G * np.sin(TILT) / radius)
    height = -(quaternion_rotation(turn).T @ low)[2]
    plant = RigidContactPlant(
        model, ground=(Plane(),), q0=[*turn, 0, 0, height], qd0=[*w, *-np.cross(w, low)], mu=5.0,
        sample_time=h,
    )  # fmt: skip
    y = run(plant, T)
    E = [v[3:] @ v[3:] / 2 + v[:3] @ inertia @ v[:3] / 2 + G * q[6]
         for q, v in zip(y.q, y.qd, strict=True)]  # fmt: skip
    return abs(E[-1] / E[0] - 1)


@pytest.mark.slow
@pytest.mark.parametrize(("radius", "thickness"), [(0.012, 1.75e-3), (0.1, 2e-3), (0.0375, 6.4e-3)])
def test_energy_loss_of_a_rolling_disc_is_small_for_the_default_step(radius, thickness):
    """The coin rotates by 0.04 rad per step, and its energy error is of second order in this."""
    turn = 1e-3 * np.sqrt(4 * G * np.sin(TILT) / radius)
    assert lost_energy(radius, thickness, 1e-3) < 2.0 * turn**2


@pytest.mark.slow
def test_energy_loss_of_a_rolling_coin_is_of_second_order_in_the_step():
    coarse, fine = (lost_energy(0.012, 1.75e-3, h) for h in (1e-3, 5e-4))
    assert 3.0 < coarse / fine < 5.0
