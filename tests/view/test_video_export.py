"""Videos: triangulated surfaces approximate the solids, and video frames show the run."""

import subprocess

import numpy as np
import pytest

from rigidblocks import Port, Result, planar2
from rigidblocks.view.drawn_robot import CameraSetup
from rigidblocks.view.video_export import Camera, film, pictures, triangles
from rigidblocks.view.visual_geometry import Solid

SOLIDS = {
    "box": ((1.0, 2.0, 3.0), 6.0),
    "sphere": ((0.5,), 4 / 3 * np.pi * 0.5**3),
    "ellipsoid": ((0.5, 1.0, 2.0), 4 / 3 * np.pi),
    "cylinder": ((0.5, 2.0), np.pi * 0.5),
    "capsule": ((0.5, 2.0), np.pi * 0.5 + 4 / 3 * np.pi * 0.5**3),
    "rod": ((0.5,), np.pi * 0.25),
}


@pytest.mark.parametrize("kind", SOLIDS)
def test_triangulated_solids_are_closed_and_their_volume_error_is_below_8_percent(kind):
    """Polygons instead of circles reduce the volume by about 4 %, polyhedra of spheres by 6 %."""
    size, volume = SOLIDS[kind]
    a, b, c = np.moveaxis(triangles(Solid(kind, 0, size, (1, 1, 1))), 1, 0)
    np.testing.assert_allclose(np.cross(b - a, c - a).sum(axis=0), 0.0, atol=1e-12)
    assert np.sum(np.cross(a, b) * c) / 6 == pytest.approx(volume, rel=0.08)


def swing(n=21):
    time = np.linspace(0, 1, n)
    q = np.stack([time, 0 * time], axis=1)
    return Result.from_signals(time, [(Port("robot.q", (2,), "rad"), q)], {})


def test_video_frames_show_the_moving_robot():
    pytest.importorskip("PIL")
    first, last = pictures(swing(), planar2(), np.array([0.0, 1.0]), (160, 100))
    assert first.shape == (100, 160, 3)
    blue = [(one[..., 2].astype(int) - one[..., 0] > 60) for one in (first, last)]
    orange = [(one[..., 0].astype(int) - one[..., 2] > 60) for one in (first, last)]
    for seen in (*blue, *orange):
        assert 0.005 < seen.mean() < 0.3
    assert (first != last).any(axis=2).mean() > 0.03


def test_fitted_video_camera_shows_the_complete_scene(rng):
    points = rng.normal(size=(50, 3))
    camera = Camera.fit_points(
        points, CameraSetup((0.0, 0.0, 1.0), (1.0, -1.2, 0.7), True), (64, 40)
    )
    at, depth = camera.pixels(points)
    assert (depth > 0).all()
    assert (at >= 0).all()
    assert (at <= np.array(camera.size)).all()


@pytest.mark.slow  # imageio is in the extra `view`
def test_gif_video_has_a_frame_for_each_time(tmp_path):
    pytest.importorskip("imageio")
    image = pytest.importorskip("PIL.Image")
    path = film(swing(), planar2(), tmp_path / "new" / "run.gif", rate=10, width=80, height=50)
    with image.open(path) as gif:
        assert (gif.size, gif.n_frames) == ((80, 50), 11)
        assert gif.info["duration"] == 100
    with pytest.raises(ValueError, match="a video of 100001 frames is too long"):
        film(swing(), planar2(), tmp_path / "run.gif", rate=1e5)


@pytest.mark.slow  # imageio-ffmpeg is in the extra `video`
@pytest.mark.parametrize("kind", ["mp4", "webm"])
def test_video_file_contains_the_drawn_frames_of_the_run(kind, tmp_path):
    program = pytest.importorskip("imageio_ffmpeg").get_ffmpeg_exe()
    path = film(swing(), planar2(), tmp_path / f"run.{kind}", rate=10, width=159, height=100)
    command = [program, "-v", "error", "-i", path, "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    raw = subprocess.run(command, capture_output=True, check=True).stdout
    frames = np.frombuffer(raw, np.uint8).reshape(11, 100, 160, 3).astype(float)
    drawn = np.stack(list(pictures(swing(), planar2(), np.linspace(0, 1, 11), (160, 100))))
    assert abs(frames - drawn).mean() < 6.0  # of 255: compression error
    assert abs(frames[0] - drawn[-1]).mean() > 1.5 * abs(frames[0] - drawn[0]).mean()


def test_invalid_video_options_are_rejected_before_drawing(tmp_path, monkeypatch):
    for name in ("run.png", "run", "run.gif.txt"):
        with pytest.raises(ValueError, match=r"must end in \.gif or, for a video, in \.mp4"):
            film(swing(), planar2(), tmp_path / name)
    missing = {"imageio_ffmpeg"}
    monkeypatch.setattr(
        "rigidblocks.view.video_export.find_spec", lambda name: None if name in missing else 1
    )
    with pytest.raises(ImportError, match=r"needs imageio-ffmpeg: pip install imageio-ffmpeg$"):
        film(swing(), planar2(), tmp_path / "run.mp4")
    missing.add("imageio")
    with pytest.raises(ImportError, match=r"a video needs imageio: pip install imageio$"):
        film(swing(), planar2(), tmp_path / "run.gif")
    assert list(tmp_path.iterdir()) == []
