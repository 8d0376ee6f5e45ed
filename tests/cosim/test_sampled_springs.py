"""Springs and constraint forces in separate blocks: unstable sample times are reported."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks import ContinuousSystem, System, simulate
from rigidblocks.block.port import Record
from rigidblocks.dynamics.force_laws import stable_spring_hold, stable_step
from rigidblocks.library import (
    CompliantLoopClosure,
    CutLoopPlant,
    JointLimits,
    LoopClosure,
    RobotPlant,
)
from rigidblocks.robot.robots import bennett, four_bar, planar2

PERCENT = 1e-2  # relative error of the longest hold


def springs(mechanism, stiffness, damping):
    """Return the spanning tree of a mechanism with springs instead of loop joints."""
    system, tree = System(), mechanism.model.spanning_tree
    system.add("plant", RobotPlant(tree, mechanism.q0, external_wrenches=True))
    system.add("loop", CompliantLoopClosure(mechanism.model, stiffness, damping))
    for port in ("q", "qd"):
        system.connect(f"plant.{port}", f"loop.{port}")
    system.connect("loop.f_ext", "plant.f_ext")
    return system


def forces(mechanism, T_stab):
    """Return the plant with its loop cut, and the block of constraint forces."""
    system = System()
    system.add("plant", CutLoopPlant(mechanism.model, mechanism.q0))
    system.add("loop", LoopClosure(mechanism.model, T_stab))
    for port in ("A", "b", "delta", "rate"):
        system.connect(f"plant.{port}", f"loop.{port}")
    system.connect("loop.lam", "plant.lam")
    return system


def stops(K, D):
    """Return the planar robot with joint stops; the second joint has no upper stop."""
    system = System()
    system.add("plant", RobotPlant(planar2()))
    system.add("loop", JointLimits(planar2(), (-1.0, -1.0), (1.0, np.inf), K, D))
    for port in ("q", "qd"):
        system.connect(f"plant.{port}", f"loop.{port}")
    system.connect("loop.tau", "plant.tau")
    return system


def hold_of(system):
    """Return the longest stable hold [s] of the block "loop" at the start."""
    block = system.parts["loop"].component
    q = system.parts["plant"].component.q0
    u = Record({"q": q, "qd": np.zeros(len(q))}, "input", "loop")
    p = Record({port.name: port.start for port in block.parameters}, "parameter", "loop")
    return block.longest_hold(u, p)


def messages_found(system, dt):
    """Return the warnings about holds at the start of a run."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        simulate(system, dt, dt, form="numpy", progress=False)
    return [str(one.message) for one in caught if "holds its outputs" in str(one.message)]


def test_longest_stable_hold_time_of_a_spring_force_satisfies_the_jury_conditions(rng):
    for _ in range(30):
        K, D, m = 10 ** rng.uniform([2, -1, -2], [8, 3, 2])
        found = stable_spring_hold(np.array([[1 / m]]), np.array([K]), np.array([D]))
        z = D / np.sqrt(4 * K * m)
        if 1e-3 < z < 1e3:
            assert_allclose(found, stable_step(K, D, m), rtol=2 * PERCENT)
    one, none = np.ones((1, 1)), np.zeros(1)
    assert stable_spring_hold(one, np.ones(1), none) == 0.0
    assert stable_spring_hold(one, none, none) == np.inf
    assert_allclose(stable_spring_hold(one, none, np.ones(1)), 2.0, rtol=PERCENT)


@pytest.mark.slow
def test_sampled_springs_are_unstable_only_above_the_critical_sample_time(rng):
    for _ in range(10):
        n, rank = 4, rng.integers(1, 5)
        root = rng.normal(size=(n, rank))
        A, K, D = root @ root.T, *(10 ** rng.uniform(0, 3, (2, n)))
        longest = stable_spring_hold(A, K, D)
        for share, grows in ((0.9, False), (1.1, True)):
            h, x, v, sizes = share * longest, root @ rng.normal(size=rank), np.zeros(n), []
            for _ in range(2000):
                a = -A @ (K * x + D * v)
                x, v = x + h * v + h * h / 2 * a, v + h * a
                sizes.append(np.linalg.norm([*x, *h * v]))
                if sizes[-1] > 1e100:
                    break
            assert (sizes[-1] > 10.0 * sizes[0]) == grows


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize(
    "system",
    [
        pytest.param(springs(four_bar(), 1e4, 30.0), marks=pytest.mark.slow),
        springs(bennett(), 1e5, 1e3),
        pytest.param(forces(four_bar(), 0.01), marks=pytest.mark.slow),
        stops(500.0, 5.0),
    ],
    ids=["springs", "springs in space", "forces", "stops"],
)
def test_unstable_hold_of_spring_forces_is_reported_at_the_start_of_the_run(system):
    longest = hold_of(system)
    assert not messages_found(system, 0.98 * longest)
    (text,) = messages_found(system, 1.02 * longest)
    assert text.startswith("'loop' holds its outputs for")
    assert text.endswith(f"use a step below {longest:.3g} s; a ContinuousSystem has no hold")
    single = System()
    single.add("whole", ContinuousSystem(system))
    assert not messages_found(single, 1.02 * longest)


def test_undamped_sampled_springs_are_reported_as_unstable_at_any_step():
    (text,) = messages_found(springs(four_bar(), 1e4, 0.0), 1e-5)
    assert "no step is short enough without damping" in text
