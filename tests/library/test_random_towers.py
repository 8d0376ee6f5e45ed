"""Towers of bricks with random masses and random offsets stay at rest."""

import numpy as np
import pytest

import rigid_scenes
from rigidblocks.robot.shapes import Box

BRICK = Box((0.2, 0.2, 0.1))


def random_tower(seed, turned):
    """Return a plant of 3 to 12 bricks, and their positions; each brick supports those above it."""
    rng = np.random.default_rng([seed, turned])
    n = int(rng.integers(3, 13))
    masses = [1.0] * (n - 1) + [10.0 ** rng.integers(2, 5)]
    if seed % 3 == 0:
        masses = list(10.0 ** rng.uniform(-2, 2, n))
    places = np.column_stack([rng.uniform(-0.02, 0.02, (n, 2)), 0.05 + 0.1 * np.arange(n)])
    yaw = rng.uniform(-0.5, 0.5, n) if turned else None
    return rigid_scenes.free_bodies([BRICK] * n, places, masses=masses, yaw=yaw), places


@pytest.mark.slow
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_random_towers_of_bricks_stay_at_rest(seed, turned):
    plant, places = random_tower(seed, turned)
    y = rigid_scenes.run(plant, 3.0)
    moved = np.abs(y.q.reshape(-1, len(places), 7)[:, :, 4:] - places)
    assert moved.max() < 1e-6
