"""Random kinematic trees and states of the tests, reproducible for the same generator."""

from typing import NamedTuple

import numpy as np

from rigidblocks.robot.configuration import random_configuration
from rigidblocks.robot.joints import (
    Cylindrical,
    EulerSpherical,
    Fixed,
    Helical,
    Joint,
    Planar,
    Prismatic,
    RackAndPinion,
    Reversed,
    Revolute,
    SixDoF,
    Spherical,
    Universal,
)
from rigidblocks.robot.model import Model
from rigidblocks.robot.robots import auto_tree, planar2, planar_n
from rigidblocks.spatial.spatial import Array, RigidInertia, Transform, mcI, rx, ry, rz

SIDEWAYS_GRAVITY = (1.5, -9.6, 1.0)  # works on planar robots about z, too


class State(NamedTuple):
    q: Array
    qd: Array
    qdd: Array
    tau: Array
    f_ext: Array


def random_transform(rng: np.random.Generator) -> Transform:
    a, b, c = rng.uniform(-np.pi, np.pi, 3)
    return Transform(rz(a) @ ry(b) @ rx(c), rng.uniform(-1, 1, 3))


def random_inertia(rng: np.random.Generator) -> RigidInertia:
    """Return the inertia of a few point masses.

    It is physical by construction, with products of inertia and an offset centre of mass.
    """
    masses, points = rng.uniform(0.2, 1.0, 6), rng.uniform(-0.5, 0.5, (6, 3))
    m, c = masses.sum(), masses @ points / masses.sum()
    r = points - c
    I_C = sum(
        mass * (p @ p * np.eye(3) - np.outer(p, p)) for mass, p in zip(masses, r, strict=True)
    )
    return mcI(m, c, I_C)


def random_axis(rng: np.random.Generator) -> tuple[float, float, float]:
    x, y, z = rng.normal(size=3).tolist()
    return x, y, z


def joints_of_all_types(rng: np.random.Generator) -> dict[str, Joint]:
    """Return one joint of each type, with random parameters."""
    pitch, radius, axis, other = *rng.uniform(-0.5, 0.5, 2), random_axis(rng), random_axis(rng)
    forward: dict[str, Joint] = {
        "revolute x": Revolute((1.0, 0.0, 0.0)),
        "revolute y": Revolute((0.0, 1.0, 0.0)),
        "revolute z": Revolute(),
        "revolute": Revolute(axis),
        "prismatic x": Prismatic((1.0, 0.0, 0.0)),
        "prismatic z": Prismatic(),
        "prismatic": Prismatic(axis),
        "helical z": Helical(pitch),
        "helical": Helical(pitch, axis),
        "cylindrical": Cylindrical(axis),
        "planar": Planar(),
        "universal": Universal(),
        "skew universal": Universal(axis, other),
        "spherical": Spherical(),
        "euler spherical": EulerSpherical(),
        "six-dof": SixDoF(),
        "fixed": Fixed(),
        "rack and pinion": RackAndPinion(radius),
    }
    return forward | {f"reversed {name}": Reversed(joint) for name, joint in forward.items()}


# in random trees each type of motion has the same probability, for any number of its variants
KINDS = (
    "revolute",
    "revolute z",
    "prismatic",
    "helical",
    "cylindrical",
    "planar",
    "universal",
    "spherical",
    "euler spherical",
    "six-dof",
    "fixed",
    "rack and pinion",
)


def random_joint(rng: np.random.Generator) -> Joint:
    joint = joints_of_all_types(rng)[KINDS[rng.integers(len(KINDS))]]
    return Reversed(joint) if rng.random() < 0.25 else joint


def random_tree(
    rng: np.random.Generator, parent: tuple[int, ...], joints: tuple[Joint, ...] | None = None
) -> Model:
    """Return a tree with the given parents, and gravity in a general direction.

    By default, it has joints of all types.
    """
    return Model(
        name="random tree",
        parent=parent,
        joint=joints or tuple(random_joint(rng) for _ in parent),
        Xtree=tuple(random_transform(rng) for _ in parent),
        inertia=tuple(random_inertia(rng) for _ in parent),
        gravity=rng.uniform(-10, 10, 3),
    )


def random_parents(rng: np.random.Generator, nb: int) -> tuple[int, ...]:
    return tuple(int(rng.integers(-1, i)) for i in range(nb))


def random_state(rng: np.random.Generator, model: Model) -> State:
    return State(
        random_configuration(model, rng),
        rng.uniform(-2, 2, model.nv),
        rng.uniform(-3, 3, model.nv),
        rng.uniform(-10, 10, model.nv),
        rng.uniform(-5, 5, (model.nb, 6)),
    )


def _six_axis() -> Model:
    return random_tree(np.random.default_rng(6), tuple(range(-1, 5)), (Revolute(),) * 6)


def _mixed() -> Model:
    joints = (
        Helical(0.3),
        Revolute(),
        Prismatic(),
        Helical(-0.2),
        Prismatic(),
        Revolute(),
        Revolute(),
    )
    return random_tree(np.random.default_rng(7), (-1, 0, 0, 1, -1, 4, 2), joints)


def _all_joints() -> Model:
    rng = np.random.default_rng(8)
    joints = joints_of_all_types(rng)
    names = (
        "six-dof",
        "spherical",
        "universal",
        "rack and pinion",
        "fixed",
        "planar",
        "euler spherical",
        "cylindrical",
        "reversed helical",
        "reversed rack and pinion",
    )
    return random_tree(rng, (-1, 0, 0, 1, 1, 4, 2, -1, 7, 8), tuple(joints[name] for name in names))


def _satellite() -> Model:
    """Return a free body with an arm of three joints and a wheel."""
    rng = np.random.default_rng(9)
    joints = (SixDoF(), Revolute(), Revolute(), Revolute(), Revolute((0.0, 1.0, 0.0)))
    return random_tree(rng, (-1, 0, 1, 2, 0), joints).with_gravity(np.zeros(3))


MODELS = {
    "pendulum": lambda: planar_n(1).with_gravity(SIDEWAYS_GRAVITY),
    "planar2": lambda: planar2().with_gravity(SIDEWAYS_GRAVITY),
    "six-axis": _six_axis,
    "branched": lambda: auto_tree(7, 1.5, 0.7, 0.9).with_gravity(SIDEWAYS_GRAVITY),
    "mixed": _mixed,
    "all joints": _all_joints,
    "satellite": _satellite,
}

# models whose velocity variables are the rates of their position variables, as Lagrange's equations
# require
COORDINATES = ("pendulum", "planar2", "six-axis", "branched", "mixed")
