"""Bodies on a ground that is a block of its own."""

from contextlib import nullcontext

import numpy as np
import pytest

from rigidblocks.algebra.spatial import identity, mcI
from rigidblocks.contact import PointSet
from rigidblocks.joint import Prismatic, SixDoF
from rigidblocks.library import PointKinematics
from rigidblocks.model.model import Model
from rigidblocks.simulation.simulate import simulate
from rigidblocks.system.system import System

M, R = 2.0, 0.1


def lift(shape=None):
    """A mass on a vertical prismatic joint."""
    return Model(
        "lift", (-1,), (Prismatic(),), (identity(),), (mcI(M, [0, 0, 0], 0.01 * np.eye(3)),),
        contact=((shape or PointSet([[0.0, 0.0, 0.0]]),),),
    )  # fmt: skip


def free(shape, moments=None, **fields):
    """A free body of mass M with its centre in the origin, a homogeneous ball unless there are
    other moments.
    """
    inertia = mcI(M, [0, 0, 0], np.diag([0.4 * M * R**2] * 3 if moments is None else moments))
    return Model(
        "body", (-1,), (SixDoF(),), (identity(),), (inertia,), contact=((shape,),), **fields
    )


def wired(plant, ground, h=1e-3):
    """The robot, its points and the ground, each a part of its own."""
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
    """The start of a run that is to warn where forces are held too long, and only there."""
    return (
        pytest.warns(RuntimeWarning, match="'ground' holds its outputs")
        if too_long
        else nullcontext()
    )
