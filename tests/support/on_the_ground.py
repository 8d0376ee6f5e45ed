"""Bodies on the ground, with the ground as a separate block."""

from contextlib import nullcontext

import numpy as np
import pytest

from rigidblocks.contact import PointKinematics, PointSet
from rigidblocks.cosim.graph.system import System
from rigidblocks.cosim.simulate import simulate
from rigidblocks.robot.joints import Prismatic, SixDoF
from rigidblocks.robot.model import Model
from rigidblocks.spatial.spatial import identity, mcI

M, R = 2.0, 0.1


def lift(shape=None):
    """Return a mass on a vertical prismatic joint."""
    return Model(
        "lift", (-1,), (Prismatic(),), (identity(),), (mcI(M, [0, 0, 0], 0.01 * np.eye(3)),),
        contact=((shape or PointSet([[0.0, 0.0, 0.0]]),),),
    )  # fmt: skip


def free(shape, moments=None, **fields):
    """Return a free body of mass M with its centre of mass at the origin.

    It is a homogeneous ball unless `moments` are given.
    """
    inertia = mcI(M, [0, 0, 0], np.diag([0.4 * M * R**2] * 3 if moments is None else moments))
    return Model(
        "body", (-1,), (SixDoF(),), (identity(),), (inertia,), contact=((shape,),), **fields
    )


def wired(plant, ground, h=1e-3):
    """Connect robot, contact points and ground, each as a part."""
    system = System()
    system.add("robot", plant, h=h)
    system.add("points", PointKinematics(plant.model))
    system.add("ground", ground, h=h)
    for port in ("q", "qd"):
        system.connect(f"robot.{port}", f"points.{port}")
    for port in ground.inputs:
        system.connect(f"points.{port.name}", f"ground.{port.name}")
    system.connect("ground.f_ext", "robot.f_ext")
    return system


def run(plant, ground, t_stop, dt, **options):
    return simulate(wired(plant, ground), t_stop, dt, progress=False, **options)


def start_up(too_long):
    """Return a context that expects a warning about long hold times only if `too_long` is true."""
    return (
        pytest.warns(RuntimeWarning, match="'ground' holds its outputs")
        if too_long
        else nullcontext()
    )
