"""Random scenes of bodies of all shapes: no body falls through others or gains energy."""

import numpy as np
import pytest

from scripts import script


@pytest.fixture(scope="module")
def scenes():
    return script("benchmarks/random_scenes.py")


# Each world runs its first scenes and one difficult scene. World 2, 1807: a body is jammed in a
# corner with mu = 1. World 1, 2330: a body overlaps, bounces and slides at the start. World 202,
# 241: a body hits a wall faster than any body before. World 218, 2359: a box slides with
# mu = 1 on two corners, and the friction of each corner presses the other corner down
@pytest.mark.slow
@pytest.mark.parametrize("law", ["newton", "poisson"])
@pytest.mark.parametrize(("seed", "hard"), [(2, 1807), (1, 2330), (202, 241), (218, 2359)])
def test_bodies_of_random_scenes_stay_in_a_pit_and_gain_no_energy(scenes, law, seed, hard):
    one = scenes.world(seed, law)
    for number in (*range(12), hard):
        kind = scenes.KINDS[number % 3]
        begin = scenes.start(one, np.random.default_rng([seed, number]), kind)
        found = scenes.evaluate_scene(one, begin, scenes.run(one, begin), kind)
        assert found.finite, (seed, number)
        assert found.inside, (seed, number)
        for name, limit in scenes.LIMITS.items():
            assert getattr(found, name) <= limit, (name, seed, number)
