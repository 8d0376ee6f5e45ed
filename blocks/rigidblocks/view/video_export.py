"""Films of runs, GIF or video, drawn without a browser and written by the package imageio."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.simulation.result import Result
from rigidblocks.view.ground import level_ground
from rigidblocks.view.robot import DrawnRobot, Outlook, outlook
from rigidblocks.view.show import Drawable, drawn_robots, motion_of
from rigidblocks.view.solids import Solid
from rigidblocks.view.surfaces import triangles

GROUND, SKY = np.array([0.93, 0.945, 0.955]), np.array([0.80, 0.87, 0.93])
HALF_ANGLE, FINE, MOST = 0.31, 2, 1200  # [rad] of the view upward; pixels a pixel; frames
CODECS = {".mp4": "libx264", ".mov": "libx264", ".webm": "libvpx-vp9"}


def film(
    result: Result,
    robot: Drawable,
    path: str | Path,
    *,
    speed: float = 1.0,
    rate: float = 20.0,
    width: int = 640,
    height: int = 400,
) -> Path:
    """The path of the film of a run that is written there: a .gif, or a video, .mp4, .mov or .webm,
    of `rate` pictures a second, which shows `speed` seconds of the run in one second.

    `robot` is as in `animate`. A picture of a video has an even number of pixels in each direction,
    one more where need be. Raises ImportError without the package imageio (a video needs
    imageio-ffmpeg too), ValueError for another ending, for a result without rows and for a film of
    more than 1,200 pictures, and what `animate` raises.
    """
    path = Path(path)
    how = _how_written(path, rate)
    import imageio.v3 as imageio

    if path.suffix != ".gif":
        width, height = width + width % 2, height + height % 2
    if not len(result.time):
        raise ValueError("a result without rows has nothing to show")
    if not (min(speed, rate) > 0 and min(width, height) > 0):
        raise ValueError(
            f"a film needs a positive speed, rate, width and height, not {speed}, {rate}, "
            f"{width} and {height}"
        )
    time = np.arange(result.time[0], result.time[-1] + 1e-9, speed / rate)
    if len(time) > MOST:
        raise ValueError(
            f"a film of {len(time)} pictures is too long, the most is {MOST}: take a higher speed "
            "or a lower rate"
        )
    frames = list(pictures(result, robot, time, (width, height)))
    path.parent.mkdir(parents=True, exist_ok=True)
    imageio.imwrite(path, np.stack(frames), **how)
    return path


def _how_written(path: Path, rate: float) -> dict[str, Any]:
    """How imageio writes this kind of file; raises ValueError for one that is no film, ImportError
    where a package is missing.
    """
    if path.suffix not in (".gif", *CODECS):
        raise ValueError(f"{path}: a film is a .gif, or a video, {', '.join(CODECS)}")
    if find_spec("imageio") is None:
        raise ImportError("a film needs imageio: pip install 'rigidblocks[view]'")
    if path.suffix == ".gif":
        return {"duration": 1e3 / rate, "loop": 0}
    if find_spec("imageio_ffmpeg") is None:
        raise ImportError("a video needs imageio-ffmpeg: pip install 'rigidblocks[video]'")
    return {
        "plugin": "FFMPEG",
        "fps": rate,
        "codec": CODECS[path.suffix],
        "macro_block_size": 2,
        "ffmpeg_log_level": "error",
    }


def pictures(
    result: Result, robot: Drawable, time: Array, size: tuple[int, int]
) -> Iterator[Array]:
    """A picture (height, width, 3) of bytes at each time (n,) [s] of a run."""
    pairs = list(drawn_robots(robot, None))
    drawn = [one for one, _ in pairs]
    motion = motion_of(result, pairs)
    q = np.column_stack([np.interp(time, result.time, column) for column in motion.T])
    surfaces = [_surfaces(drawn, row) for row in q]
    seen = outlook(drawn[0].model)
    some = np.concatenate([one[0] for one in surfaces[:: max(1, len(surfaces) // 40)]])
    camera = Camera.before(some.reshape(-1, 3), seen, size)
    lowest = float((some.reshape(-1, 3) @ camera.up).min())
    level = level_ground(robot, seen.up).get("ground", lowest)
    behind = _background(camera, level)
    for one in surfaces:
        yield _picture(camera, behind, level, *one)


@dataclass(frozen=True, eq=False)
class Camera:
    """Where a picture is taken from, `place` (3,) [m], its axes to the right, upward and back, what
    is up, the size of what is seen [m], and that of the picture in pixels.
    """

    place: Array
    right: Array
    upward: Array
    back: Array
    up: Array
    scale: float
    size: tuple[int, int]

    @classmethod
    def before(cls, points: Array, seen: Outlook, size: tuple[int, int]) -> Self:
        """The camera from which points (n, 3) just fill the picture."""
        up, back = (np.array(v) / np.linalg.norm(v) for v in (seen.up, seen.eye))
        right = np.cross(up, back)
        right = right / np.linalg.norm(right)
        upward = np.cross(back, right)
        middle = sum(
            axis * ((points @ axis).min() + (points @ axis).max()) / 2
            for axis in (right, upward, back)
        )
        x, y, z = ((points - middle) @ axis for axis in (right, upward, back))
        tall = np.tan(HALF_ANGLE)
        wide = tall * size[0] / size[1]
        far = 1.1 * np.max(z + np.maximum(abs(x) / wide, abs(y) / tall))
        scale = float(np.linalg.norm(np.ptp(points, axis=0))) or 1.0
        fine = (FINE * size[0], FINE * size[1])
        return cls(middle + far * back, right, upward, back, up, scale, fine)

    @property
    def light(self) -> Array:
        """The direction (3,) in which light falls, from above and beside the camera."""
        v = -self.up - 0.6 * self.back + 0.45 * self.right
        return np.asarray(v / np.linalg.norm(v))

    def pixels(self, points: Array) -> tuple[Array, Array]:
        """Where points (..., 3) are in the picture (..., 2), and how far from the camera [m]."""
        d = points - self.place
        depth = np.maximum(-(d @ self.back), 1e-6 * self.scale)
        focal = self.size[1] / 2 / np.tan(HALF_ANGLE)
        x = self.size[0] / 2 + focal * (d @ self.right) / depth
        y = self.size[1] / 2 - focal * (d @ self.upward) / depth
        return np.stack([x, y], axis=-1), depth

    def rays(self) -> Array:
        """The direction (height, width, 3) in which each pixel looks."""
        wide, high = self.size
        focal = high / 2 / np.tan(HALF_ANGLE)
        x = (np.arange(wide) + 0.5 - wide / 2) / focal
        y = (high / 2 - np.arange(high) - 0.5) / focal
        ahead = x[None, :, None] * self.right + y[:, None, None] * self.upward - self.back
        return np.asarray(ahead)


def _surfaces(drawn: Sequence[DrawnRobot], q: Array) -> tuple[Array, Array, Array]:
    """The triangles (n, 3, 3) of all links at q, their colours (n, 3), and whether they are of a
    closed surface, whose inside is not seen (n,).
    """
    corners, colours, closed, start = list[Array](), list[Array](), list[Array](), 0
    for robot in drawn:
        poses = np.reshape(robot.poses(q[start : start + robot.variables]), (-1, 12))
        for solid, placed in links(robot, poses):
            corners.append(placed)
            colours.append(np.tile(np.array(solid.colour), (len(placed), 1)))
            closed.append(np.full(len(placed), solid.kind != "mesh"))
        start += robot.variables
    return np.concatenate(corners), np.concatenate(colours), np.concatenate(closed)


def links(robot: DrawnRobot, poses: Array) -> Iterator[tuple[Solid, Array]]:
    """The solids of a robot's links with their triangles (n, 3, 3) [m] in base coordinates, its
    bodies being at `poses` (nb, 12), as `twelve_numbers` has them.
    """
    for solid in robot.solids:
        if solid.layer == "links":
            R, r = _where(solid, poses)
            yield solid, triangles(solid) @ R.T + r


def _where(solid: Solid, poses: Array) -> tuple[Array, Array]:
    """What takes the coordinates of a solid to the base: p -> R p + r; R stretches a rod."""

    def placed(body: int, point: Any) -> Array:
        p = np.asarray(point, dtype=float)
        return p if body < 0 else poses[body, :9].reshape(3, 3) @ p + poses[body, 9:]

    if solid.kind == "rod":
        a, b = placed(solid.body, solid.start), placed(solid.other, solid.end)
        return _stretched(b - a), (a + b) / 2
    own = np.asarray(solid.placement.E, dtype=float).T
    turn = np.eye(3) if solid.body < 0 else poses[solid.body, :9].reshape(3, 3)
    return turn @ own, placed(solid.body, solid.placement.r)


def _stretched(way: Array) -> Array:
    """The matrix (3, 3) that turns z to a way and makes it as long."""
    long = max(float(np.linalg.norm(way)), 1e-9)
    z = way / long if long > 1e-9 else np.array([0.0, 0.0, 1.0])
    x = np.cross(z, np.eye(3)[np.argmin(abs(z))])
    x = x / np.linalg.norm(x)
    return np.stack([x, np.cross(z, x), long * z], axis=1)


def _background(camera: Camera, level: float) -> Array:
    """The ground with its grid below the sky (height, width, 3)."""
    rays = camera.rays()
    down = rays @ camera.up
    with np.errstate(divide="ignore", invalid="ignore"):
        far = (level - float(camera.place @ camera.up)) / down
    meets = np.isfinite(far) & (far > 0)
    p = camera.place + np.where(meets, far, 0.0)[..., None] * rays
    cell = 10.0 ** np.round(np.log10(camera.scale / 8))
    across = np.eye(3)[0] if abs(camera.up[0]) < 0.7 else np.eye(3)[1]
    across = across - (across @ camera.up) * camera.up
    across = across / np.linalg.norm(across)
    shade = _grid(p / cell, (across, np.cross(camera.up, across)))
    haze = np.clip(np.linalg.norm(p - camera.place, axis=-1) / (8 * camera.scale) - 0.35, 0, 1)
    haze = np.where(meets, haze, 1.0)[..., None]
    return np.asarray((1 - haze) * GROUND * shade[..., None] + haze * SKY)


def _grid(p: Array, axes: tuple[Array, Array]) -> Array:
    """How bright the ground is at points (height, width, 3) in cells, for the lines of its grid."""
    shade = np.ones(p.shape[:-1])
    for axis in axes:
        x = p @ axis
        step = np.maximum(np.abs(np.gradient(x, axis=0)), np.abs(np.gradient(x, axis=1))) + 1e-12
        for every, dark in ((1.0, 0.86), (5.0, 0.72)):
            near = np.abs((x / every + 0.5) % 1.0 - 0.5) * every < step
            shade = np.where(near & (step < 0.3), np.minimum(shade, dark), shade)
    return shade


def _picture(
    camera: Camera, behind: Array, level: float, corners: Array, colours: Array, closed: Array
) -> Array:
    """The triangles before the background, those far away first, with their shadows (height,
    width, 3).
    """
    from PIL import Image, ImageDraw

    dark = 1.0 - 0.2 * _shadow(camera, level, corners)[..., None]
    picture = Image.fromarray((255 * behind * dark).astype(np.uint8))
    shades, is_front = _lit(camera, corners, colours)
    at, depth = camera.pixels(corners)
    draw = ImageDraw.Draw(picture)
    order = np.argsort(-depth.mean(axis=1))
    for k in order[is_front[order] | ~closed[order]]:
        draw.polygon([*map(tuple, at[k])], fill=tuple(shades[k].tolist()))
    small = picture.resize((camera.size[0] // FINE, camera.size[1] // FINE), Image.Resampling.BOX)
    return np.asarray(small)


def _shadow(camera: Camera, level: float, corners: Array) -> Array:
    """Where the triangles' shadow on the ground is seen (height, width): 1 there, else 0."""
    from PIL import Image, ImageDraw

    mask = Image.new("L", camera.size, 0)
    draw = ImageDraw.Draw(mask)
    above = np.maximum(corners @ camera.up - level, 0.0)
    along = above / (camera.light @ camera.up)
    flat, _ = camera.pixels(corners - along[..., None] * camera.light)
    for one in flat:
        draw.polygon([*map(tuple, one)], fill=255)
    return np.asarray(mask) / 255.0


def _lit(camera: Camera, corners: Array, colours: Array) -> tuple[Array, Array]:
    """The colours (n, 3) of triangles in the light, 0 to 255, and which have their outer side
    before the camera.
    """
    n = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    n = n / np.maximum(np.linalg.norm(n, axis=1), 1e-300)[:, None]
    facing = np.sum(n * (camera.place - corners[:, 0]), axis=1)
    n = n * np.where(facing < 0, -1.0, 1.0)[:, None]
    bright = 0.48 + 0.18 * (0.5 + 0.5 * n @ camera.up) + 0.48 * np.maximum(n @ -camera.light, 0.0)
    return (255 * np.clip(colours * bright[:, None], 0, 1)).astype(int), facing > 0
