"""The benchmark bicycle of Meijaard, Papadopoulos, Ruina and Schwab (2007).

It is a Whipple bicycle with knife-edge wheels. The module also contains the linearized equations of
lean and steer for straight riding.
"""

import numpy as np

from rigidblocks.robot.joints import LoopJoint, Revolute, RollingDisc, SixDoF
from rigidblocks.robot.model import Model
from rigidblocks.robot.robots import Mechanism
from rigidblocks.spatial.spatial import mcI, xlt

GRAVITY = 9.81
REAR, FRONT = 0.3, 0.35  # [m] radii of the wheels
BASE, TRAIL, TILT = 1.02, 0.08, np.pi / 10  # wheel base [m], trail [m], steer axis tilt [rad]

# M d2q/dt2 + v C1 dq/dt + (g K0 + v^2 K2) q = 0 with q = (lean, steer), table 2
M = np.array([[80.81722, 2.31941332208709], [2.31941332208709, 0.29784188199686]])
K0 = np.array([[-80.95, -2.59951685249872], [-2.59951685249872, -0.80329488458618]])
K2 = np.array([[0.0, 76.59734589573222], [0.0, 2.65431523794604]])
C1 = np.array([[0.0, 33.86641391492494], [-0.85035641456978, 1.68540397397560]])


def published_eigenvalues(v):
    """Return the four eigenvalues of lean and steer [1/s] at the speed v [m/s]."""
    inverse = np.linalg.inv(M)
    stiffness = GRAVITY * K0 + v * v * K2
    A = np.block([[np.zeros((2, 2)), np.eye(2)], [-inverse @ stiffness, -inverse @ (v * C1)]])
    return np.linalg.eigvals(A)


def bicycle(v=0.0):
    """Return the bicycle upright on the plane z = 0, riding along x at v [m/s].

    The tree consists of the rear frame, the rear wheel and the front frame on it, and the front
    wheel. The loop joints model the rolling of the wheels.
    """
    hub, axle, foot = (
        np.array([0.0, 0.0, REAR]),
        np.array([BASE, 0.0, FRONT]),
        np.array([BASE + TRAIL, 0.0, 0.0]),  # intersection of the steer axis with the ground
    )
    frame = mcI(85.0, np.array([0.3, 0.0, 0.9]) - hub, _inertia(9.2, 11.0, 2.8, -2.4))
    fork = mcI(4.0, np.array([0.9, 0.0, 0.7]) - foot, _inertia(0.05892, 0.06, 0.00708, 0.00756))
    rear = mcI(2.0, np.zeros(3), np.diag([0.0603, 0.12, 0.0603]))
    front = mcI(3.0, np.zeros(3), np.diag([0.1405, 0.28, 0.1405]))
    wheel, steer = Revolute((0.0, 1.0, 0.0)), Revolute((-np.sin(TILT), 0.0, np.cos(TILT)))
    here = xlt(np.zeros(3))
    loops = (
        LoopJoint(RollingDisc(REAR), -1, 1, xlt(hub), here, "rear"),
        LoopJoint(RollingDisc(FRONT), -1, 3, xlt(axle), here, "front"),
    )
    model = Model(
        "bicycle",
        (-1, 0, 0, 2),
        (SixDoF(), wheel, steer, wheel),
        (here, here, xlt(foot - hub), xlt(axle - foot)),
        (frame, rear, fork, front),
        np.array([0.0, 0.0, -GRAVITY]),
        loops=loops,
    )
    q0 = np.array([1.0, 0.0, 0.0, 0.0, *hub, 0.0, 0.0, 0.0])
    return Mechanism(model, q0, np.array([0.0, 0.0, 0.0, v, 0.0, 0.0, v / REAR, 0.0, v / FRONT]))


def _inertia(xx, yy, zz, xz):
    return np.array([[xx, 0.0, xz], [0.0, yy, 0.0], [xz, 0.0, zz]])
