"""Distances of random pairs of shapes match the library coal and a numerical search."""

import itertools

import numpy as np
import pytest

from scripts import script

KINDS = ("sphere", "capsule", "box", "cylinder", "ellipsoid", "hull", "plane")
PAIRS = [
    pair for pair in itertools.combinations_with_replacement(KINDS, 2) if pair != ("plane",) * 2
]
CURVED = {"cylinder", "ellipsoid"}


@pytest.fixture(scope="module")
def pairs():
    pytest.importorskip("coal")
    return script("benchmarks/random_pairs.py")


@pytest.mark.interop
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_distances_normals_and_nearest_points_of_random_shapes_have_errors_below_1e_9(pairs, pair):
    found = pairs.concatenate(pairs.batches(pair, 300, seed=8))
    assert np.max(found.beaten) < 1e-9  # separation along the normal of coal
    assert np.max(found.searched, initial=0) < 1e-9
    assert np.max(found.off) < 1e-9
    assert np.max(found.bent) < 1e-9
    if not set(pair) & CURVED or "plane" in pair:  # coal is exact to rounding for these pairs
        assert np.max(abs(found.gap - found.coal)) < 1e-9
        assert np.max(found.turned[found.gap > 0]) < 1e-9
