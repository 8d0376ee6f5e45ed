"""Robots with overlapping bodies whose joints cannot separate them."""

from dataclasses import replace

import numpy as np
import pytest

from rigid_scenes import run
from rigidblocks.contact import RigidContactPlant
from rigidblocks.dynamics import energy
from rigidblocks.robot.robots import quadruped
from rigidblocks.robot.shapes import Box, Cylinder

pytestmark = pytest.mark.slow


def bulky():
    """Return a quadruped whose thighs overlap its trunk by 2 mm along their joint axes."""
    model = quadruped()
    own = {"trunk": Box((0.6, 0.2, 0.1)), "thigh": Box((0.06, 0.164, 0.15)),
           "shank": Cylinder(0.02, 0.2)}  # fmt: skip
    kinds = [name.split("_")[-1] for name in model.body_names]
    contact = tuple(
        (*at, own[kind]) if kind in own else at
        for kind, at in zip(kinds, model.contact, strict=True)
    )
    return replace(model, contact=contact)


@pytest.mark.parametrize(("h", "seed"), [(1e-3, 3), (4e-3, 1), (4e-3, 4)])
def test_robot_with_overlapping_bodies_gains_no_energy(h, seed):
    model, rng = bulky(), np.random.default_rng(seed)
    q0 = np.concatenate([rng.normal(size=4), [0, 0, 0.8], rng.uniform(-1.5, 1.5, 12)])
    q0[:4] /= np.linalg.norm(q0[:4])
    qd0 = rng.normal(size=18) * 3
    y = run(RigidContactPlant(model, q0=q0, qd0=qd0, sample_time=h), 0.8)
    rows = zip(y.q[::5], y.qd[::5], strict=True)
    assert max(energy(model, *row) for row in rows) < 1.05 * energy(model, q0, qd0)
    assert np.abs(y.qd).max() < 100
    assert y.depth[0] > 0.03
