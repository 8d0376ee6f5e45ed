"""Films: surfaces that are drawn are those of the solids, and a film is the run."""

import numpy as np
import pytest

from rigidblocks import Port, Result, planar2
from rigidblocks.view.film import Camera, film, pictures
from rigidblocks.view.robot import Outlook
from rigidblocks.view.solids import Solid
from rigidblocks.view.surfaces import triangles

SOLIDS = {
    "box": ((1.0, 2.0, 3.0), 6.0),
    "sphere": ((0.5,), 4 / 3 * np.pi * 0.5**3),
    "ellipsoid": ((0.5, 1.0, 2.0), 4 / 3 * np.pi),
    "cylinder": ((0.5, 2.0), np.pi * 0.5),
    "capsule": ((0.5, 2.0), np.pi * 0.5 + 4 / 3 * np.pi * 0.5**3),
    "rod": ((0.5,), np.pi * 0.25),
}


@pytest.mark.parametrize("kind", SOLIDS)
def test_surfaces_are_closed_turned_outward_and_have_the_volume_of_the_solid(kind):
    """Polygons in the place of circles have some 4 % less, of a ball some 6 %."""
    size, volume = SOLIDS[kind]
    a, b, c = np.moveaxis(triangles(Solid(kind, 0, size, (1, 1, 1))), 1, 0)
    np.testing.assert_allclose(np.cross(b - a, c - a).sum(axis=0), 0.0, atol=1e-12)
    assert np.sum(np.cross(a, b) * c) / 6 == pytest.approx(volume, rel=0.08)


def swing(n=21):
    time = np.linspace(0, 1, n)
    q = np.stack([time, 0 * time], axis=1)
    return Result.of_signals(time, [(Port("robot.q", (2,), "rad"), q)], {})


def test_the_robot_is_in_the_picture_and_moves():
    pytest.importorskip("PIL")
    first, last = pictures(swing(), planar2(), np.array([0.0, 1.0]), (160, 100))
    assert first.shape == (100, 160, 3)
    blue = [(one[..., 2].astype(int) - one[..., 0] > 60) for one in (first, last)]
    orange = [(one[..., 0].astype(int) - one[..., 2] > 60) for one in (first, last)]
    for seen in (*blue, *orange):
        assert 0.005 < seen.mean() < 0.3
    assert (first != last).any(axis=2).mean() > 0.03


def test_all_that_is_to_be_seen_is_in_the_picture(rng):
    points = rng.normal(size=(50, 3))
    camera = Camera.before(points, Outlook((0.0, 0.0, 1.0), (1.0, -1.2, 0.7), True), (64, 40))
    at, depth = camera.pixels(points)
    assert (depth > 0).all()
    assert (at >= 0).all()
    assert (at <= np.array(camera.size)).all()


@pytest.mark.slow  # imageio is in the extra `view`
def test_a_film_has_a_picture_for_each_moment(tmp_path):
    pytest.importorskip("imageio")
    image = pytest.importorskip("PIL.Image")
    path = film(swing(), planar2(), tmp_path / "new" / "run.gif", rate=10, width=80, height=50)
    with image.open(path) as gif:
        assert (gif.size, gif.n_frames) == ((80, 50), 11)
        assert gif.info["duration"] == 100
    with pytest.raises(ValueError, match="a film of 100001 pictures is too long"):
        film(swing(), planar2(), tmp_path / "run.gif", rate=1e5)
