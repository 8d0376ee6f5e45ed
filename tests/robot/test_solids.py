"""Inertias of solids compared with integrals over slices.

The integrands are polynomials, so Gauss quadrature is exact.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks import box_inertia, sphere_inertia
from rigidblocks.robot.model import capsule_inertia, cylinder_inertia
from rigidblocks.spatial.spatial import RigidInertia, rotx, xlt

NODES, WEIGHTS = np.polynomial.legendre.leggauss(8)
R, H, DENSITY = 0.3, 0.8, 1200.0


def turned(pieces):
    """Return mass and moments of a solid of revolution about z.

    Each piece consists of its start, its end and its squared radius as a function of z.
    """
    m = side = along = 0.0
    for a, b, square in pieces:
        z, dz = (a + b) / 2 + (b - a) / 2 * NODES, (b - a) / 2 * WEIGHTS
        dm, r2 = DENSITY * np.pi * square(z) * dz, square(z)
        m, side, along = m + dm.sum(), side + dm @ (r2 / 4 + z * z), along + dm @ r2 / 2
    return m, np.diag([side, side, along])


def ball(centre):
    return lambda z: R * R - (z - centre) ** 2


TUBE = (-H / 2, H / 2, lambda z: R * R + 0 * z)
SOLIDS = {
    "sphere": (sphere_inertia, (R,), [(-R, R, ball(0))]),
    "cylinder": (cylinder_inertia, (R, H), [TUBE]),
    "capsule": (
        capsule_inertia,
        (R, H),
        [TUBE, (H / 2, H / 2 + R, ball(H / 2)), (-H / 2 - R, -H / 2, ball(-H / 2))],
    ),
}


@pytest.mark.parametrize("name", SOLIDS)
def test_inertias_of_solids_of_revolution_equal_integrals_over_slices(name):
    function, sizes, pieces = SOLIDS[name]
    m, moments = turned(pieces)
    for given in ({"density": DENSITY}, {"mass": m}):
        inertia = function(*sizes, **given)
        assert_allclose(inertia.m, m, rtol=1e-13)
        assert_allclose(inertia.I, moments, rtol=1e-13, atol=1e-13)
        assert_allclose(inertia.h, 0.0, atol=1e-15)


def test_sum_of_the_inertias_of_eight_boxes_equals_the_inertia_of_their_union():
    whole = box_inertia((0.2, 0.4, 0.6), density=DENSITY)
    parts = [
        box_inertia((0.1, 0.2, 0.3), density=DENSITY, at=xlt([x, y, z]))
        for x in (-0.05, 0.05)
        for y in (-0.1, 0.1)
        for z in (-0.15, 0.15)
    ]
    total = sum(parts[1:], parts[0])
    assert isinstance(total, RigidInertia)
    assert_allclose(total.matrix(), whole.matrix(), rtol=1e-13, atol=1e-13)


def test_inertia_of_a_solid_is_transformed_to_its_pose():
    X = rotx(0.3) @ xlt([0.1, 0.2, 0.3])
    placed = cylinder_inertia(R, H, mass=2.0, at=X)
    matrix = X.matrix()
    expected = matrix.T @ cylinder_inertia(R, H, mass=2.0).matrix() @ matrix
    assert_allclose(placed.matrix(), expected, atol=1e-13)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "needs either a mass"),
        ({"mass": 1.0, "density": 1.0}, "needs either a mass"),
        ({"mass": 0.0}, "must be positive, not 0.0 kg"),
        ({"density": np.nan}, "must be positive, not nan kg"),
    ],
)
def test_solid_with_invalid_mass_is_rejected(given, message):
    with pytest.raises(ValueError, match=message):
        sphere_inertia(R, **given)
    with pytest.raises(ValueError, match="positive numbers"):
        box_inertia((1.0, -1.0, 1.0), mass=1.0)
