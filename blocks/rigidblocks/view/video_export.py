"""Video export of runs and SVG drawings of robots, without a browser."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import numpy as np

from rigidblocks.common.escaping import html_text
from rigidblocks.common.optional_imports import missing_package
from rigidblocks.cosim.results.result import Result
from rigidblocks.dynamics.kinematics import body_poses
from rigidblocks.spatial.spatial import Array
from rigidblocks.view.drawn_robot import CameraSetup, DrawnRobot, camera_setup, pose_numbers, span
from rigidblocks.view.robot_page import Drawable, drawn_robots, motion_of
from rigidblocks.view.visual_geometry import Solid, level_ground

SIDES, PIECES = 14, 8  # numbers of facets around and along the axis of a solid; found by trial


def triangles(solid: Solid) -> Array:
    """Return the triangles (n, 3, 3) [m] of a solid in solid coordinates.

    The corners are anti-clockwise as seen from outside. A rod has unit length.
    """
    size = solid.size
    match solid.kind:
        case "mesh":
            return np.asarray(solid.points, dtype=float).reshape(-1, 3, 3)
        case "box":
            return _box(np.array(size))
        case "sphere":
            return revolve(_capsule(size[0], 0.0))
        case "ellipsoid":
            return np.asarray(revolve(_capsule(1.0, 0.0)) * np.array(size))
        case "capsule":
            return revolve(_capsule(size[0], size[1]))
        case "cylinder":
            return revolve(_cylinder(size[0], size[1]))
        case _:
            return revolve(_cylinder(size[0], 1.0))


def revolve(profile: Array) -> Array:
    """Return the triangles of a surface of revolution about z; `profile` (k, 2) is (radius, z)."""
    angle = 2 * np.pi * np.arange(SIDES + 1) / SIDES
    r, z = profile.T[..., None]
    rings = np.stack([r * np.cos(angle), r * np.sin(angle), z + 0 * angle], axis=-1)
    a, b = rings[:-1, :-1], rings[:-1, 1:]
    c, d = rings[1:, :-1], rings[1:, 1:]
    both = np.concatenate([np.stack([a, b, c], axis=2), np.stack([c, b, d], axis=2)])
    flat = both.reshape(-1, 3, 3)
    areas = np.linalg.norm(np.cross(flat[:, 1] - flat[:, 0], flat[:, 2] - flat[:, 0]), axis=1)
    return np.asarray(flat[areas > 0])


def _capsule(radius: float, height: float) -> Array:
    angle = np.linspace(0.0, np.pi / 2, 6)
    cap = radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    up = np.array([0.0, height / 2])
    low, high = cap[::-1] * np.array([1.0, -1.0]) - up, cap + up
    return np.concatenate([low, _side(radius, height)[1:-1] if height else low[:0], high])


def _cylinder(radius: float, height: float) -> Array:
    ends = np.array([[0.0, -height / 2], [0.0, height / 2]])
    return np.concatenate([ends[:1], _side(radius, height), ends[1:]])


def _side(radius: float, height: float) -> Array:
    z = np.linspace(-height / 2, height / 2, PIECES + 1)
    return np.stack([np.full(len(z), radius), z], axis=1)


def _box(sides: Array) -> Array:
    """Return the triangles of a box with the side lengths `sides` [m], 4 x 4 squares per face."""
    found = []
    s = np.linspace(-0.5, 0.5, 5)
    for axis in range(3):
        u, v = np.eye(3)[(axis + 1) % 3], np.eye(3)[(axis + 2) % 3]
        for end in (-0.5, 0.5):
            grid = end * np.eye(3)[axis] + s[:, None, None] * u * (2 * end) + s[None, :, None] * v
            a, b, c, d = grid[:-1, :-1], grid[1:, :-1], grid[:-1, 1:], grid[1:, 1:]
            found += [np.stack([a, b, c], axis=2), np.stack([c, b, d], axis=2)]
    return np.asarray(np.concatenate(found).reshape(-1, 3, 3) * sides)


GROUND, SKY = np.array([0.93, 0.945, 0.955]), np.array([0.80, 0.87, 0.93])
# half the vertical angle of view [rad]; supersampling factor; maximum number of frames
HALF_ANGLE, FINE, MOST = 0.31, 2, 1200
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
    """Write a video of a run, and return its path.

    Args:
        result: Result of the run.
        robot: The simulated system, or a robot of this system (see `animate`).
        path: Path of the file: .gif, or a video .mp4, .mov or .webm.
        speed: Seconds of the run per second of the video.
        rate: Frames per second.
        width: Width [pixels]; rounded up to an even number for a video file.
        height: Height [pixels]; rounded up to an even number for a video file.

    Raises:
        ImportError: The package imageio is missing, or imageio-ffmpeg for a video file.
        ValueError: The suffix is unknown, or a number is not positive. The result has no samples or
            does not contain the motion of the robot. The video needs more than 1,200 frames.
    """
    path = Path(path)
    how = _writer_options(path, rate)
    import imageio.v3 as imageio

    if path.suffix != ".gif":
        width, height = width + width % 2, height + height % 2
    if not len(result.time):
        raise ValueError("the result has no samples to show")
    if not (min(speed, rate) > 0 and min(width, height) > 0):
        raise ValueError(
            f"a video needs a positive speed, rate, width and height, not {speed}, {rate}, "
            f"{width} and {height}"
        )
    time = np.arange(result.time[0], result.time[-1] + 1e-9, speed / rate)
    if len(time) > MOST:
        raise ValueError(
            f"a video of {len(time)} frames is too long; the maximum is {MOST}; use a higher "
            "speed or a lower rate"
        )
    frames = list(pictures(result, robot, time, (width, height)))
    path.parent.mkdir(parents=True, exist_ok=True)
    imageio.imwrite(path, np.stack(frames), **how)
    return path


def _writer_options(path: Path, rate: float) -> dict[str, Any]:
    """Return the imageio options for the file type of a path.

    Raises:
        ValueError: The suffix is unknown.
        ImportError: A package is missing.
    """
    if path.suffix not in (".gif", *CODECS):
        raise ValueError(
            f"{path}: the file name must end in .gif or, for a video, in {', '.join(CODECS)}"
        )
    if find_spec("imageio") is None:
        raise missing_package("imageio", "a video")
    if path.suffix == ".gif":
        return {"duration": 1e3 / rate, "loop": 0}
    if find_spec("imageio_ffmpeg") is None:
        raise missing_package("imageio_ffmpeg", "a video")
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
    """Yield a video frame, bytes (height, width, 3), for each of the times `time` (n,) [s].

    `size` is the pair (width, height) in pixels.
    """
    pairs = list(drawn_robots(robot, None))
    drawn = [one for one, _ in pairs]
    motion = motion_of(result, pairs)
    q = np.column_stack([np.interp(time, result.time, column) for column in motion.T])
    surfaces = [_surfaces(drawn, row) for row in q]
    seen = camera_setup(drawn[0].model)
    some = np.concatenate([one[0] for one in surfaces[:: max(1, len(surfaces) // 40)]])
    camera = Camera.fit_points(some.reshape(-1, 3), seen, size)
    lowest = float((some.reshape(-1, 3) @ camera.up).min())
    level = level_ground(robot, seen.up).get("ground", lowest)
    background = _background(camera, level)
    for one in surfaces:
        yield _picture(camera, background, level, *one)


@dataclass(frozen=True, eq=False)
class Camera:
    """Camera of a rendered image: position, axes, scale and image size.

    Attributes:
        place: Position (3,) of the camera [m].
        right: Axis (3,) of the camera to the right.
        upward: Axis (3,) of the camera towards the upper edge of the image.
        back: Axis (3,) of the camera against the viewing direction.
        up: Vertical direction (3,) of the scene.
        scale: Size of the scene [m].
        size: Width and height of the image [pixels].
    """

    place: Array
    right: Array
    upward: Array
    back: Array
    up: Array
    scale: float
    size: tuple[int, int]

    @classmethod
    def fit_points(cls, points: Array, setup: CameraSetup, size: tuple[int, int]) -> Self:
        """Return the camera that shows all points (n, 3) [m] from the direction of `setup`."""
        up, back = (np.array(v) / np.linalg.norm(v) for v in (setup.up, setup.eye))
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
        """Unit vector (3,) along the light rays.

        The light comes from above the camera and from its left side.
        """
        v = -self.up - 0.6 * self.back + 0.45 * self.right
        return np.asarray(v / np.linalg.norm(v))

    def pixels(self, points: Array) -> tuple[Array, Array]:
        """Return the pixel coordinates (..., 2) and the depths (...) [m] of points (..., 3) [m]."""
        d = points - self.place
        depth = np.maximum(-(d @ self.back), 1e-6 * self.scale)
        focal = self.size[1] / 2 / np.tan(HALF_ANGLE)
        x = self.size[0] / 2 + focal * (d @ self.right) / depth
        y = self.size[1] / 2 - focal * (d @ self.upward) / depth
        return np.stack([x, y], axis=-1), depth

    def rays(self) -> Array:
        """Return the direction of the ray through each pixel, (height, width, 3)."""
        wide, high = self.size
        focal = high / 2 / np.tan(HALF_ANGLE)
        x = (np.arange(wide) + 0.5 - wide / 2) / focal
        y = (high / 2 - np.arange(high) - 0.5) / focal
        ahead = x[None, :, None] * self.right + y[:, None, None] * self.upward - self.back
        return np.asarray(ahead)


def _surfaces(drawn: Sequence[DrawnRobot], q: Array) -> tuple[Array, Array, Array]:
    """Return the n triangles of all links, their colours, and a mask for closed surfaces.

    The shapes are (n, 3, 3) [m], (n, 3) and (n,). The mask is True for a triangle of a closed
    surface, whose inner side is never visible. `q` contains the page variables of all robots.
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
    """Yield pairs (solid, triangles (n, 3, 3) [m]) for the links of a robot.

    The triangles are in base coordinates. `poses` (nb, 12) are body poses as in `pose_numbers`.
    """
    for solid in robot.solids:
        if solid.layer == "links":
            R, r = _solid_pose(solid, poses)
            yield solid, triangles(solid) @ R.T + r


def _solid_pose(solid: Solid, poses: Array) -> tuple[Array, Array]:
    """Return the pose R (3, 3), r (3,) [m] of a solid, with p_base = R p_solid + r.

    For a rod, R also scales the solid to the length of the rod.
    """

    def base_point(body: int, point: Any) -> Array:
        p = np.asarray(point, dtype=float)
        return p if body < 0 else poses[body, :9].reshape(3, 3) @ p + poses[body, 9:]

    if solid.kind == "rod":
        a, b = base_point(solid.body, solid.start), base_point(solid.other, solid.end)
        return _rod_matrix(b - a), (a + b) / 2
    own = np.asarray(solid.placement.E, dtype=float).T
    turn = np.eye(3) if solid.body < 0 else poses[solid.body, :9].reshape(3, 3)
    return turn @ own, base_point(solid.body, solid.placement.r)


def _rod_matrix(rod: Array) -> Array:
    """Return a matrix (3, 3) that maps the unit vector z to the vector `rod` (3,)."""
    long = max(float(np.linalg.norm(rod)), 1e-9)
    z = rod / long if long > 1e-9 else np.array([0.0, 0.0, 1.0])
    x = np.cross(z, np.eye(3)[np.argmin(abs(z))])
    x = x / np.linalg.norm(x)
    return np.stack([x, np.cross(z, x), long * z], axis=1)


def _background(camera: Camera, level: float) -> Array:
    """Return the picture (height, width, 3) of the sky and of the ground at height `level` [m]."""
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
    """Return the brightness (height, width) of the ground grid at the ground points of all pixels.

    The points p (height, width, 3) are in units of the grid spacing. The grid lines are normal to
    the two horizontal unit vectors `axes`.
    """
    shade = np.ones(p.shape[:-1])
    for axis in axes:
        x = p @ axis
        step = np.maximum(np.abs(np.gradient(x, axis=0)), np.abs(np.gradient(x, axis=1))) + 1e-12
        for every, dark in ((1.0, 0.86), (5.0, 0.72)):
            near = np.abs((x / every + 0.5) % 1.0 - 0.5) * every < step
            shade = np.where(near & (step < 0.3), np.minimum(shade, dark), shade)
    return shade


def _picture(
    camera: Camera, background: Array, level: float, corners: Array, colours: Array, closed: Array
) -> Array:
    """Return the picture (height, width, 3) of the background, the shadows and the triangles.

    `level` is the height of the ground [m]. `_surfaces` returns `corners`, `colours` and `closed`.
    """
    from PIL import Image, ImageDraw

    dark = 1.0 - 0.2 * _shadow(camera, level, corners)[..., None]
    picture = Image.fromarray((255 * background * dark).astype(np.uint8))
    shades, is_front = _shade_triangles(camera, corners, colours)
    at, depth = camera.pixels(corners)
    draw = ImageDraw.Draw(picture)
    order = np.argsort(-depth.mean(axis=1))
    for k in order[is_front[order] | ~closed[order]]:
        draw.polygon([*map(tuple, at[k])], fill=tuple(shades[k].tolist()))
    small = picture.resize((camera.size[0] // FINE, camera.size[1] // FINE), Image.Resampling.BOX)
    return np.asarray(small)


def _shadow(camera: Camera, level: float, corners: Array) -> Array:
    """Return a mask (height, width) that is 1 in the shadow of triangles, and 0 elsewhere.

    `corners` (n, 3, 3) [m] are the corners of the triangles. The shadow is on the ground at the
    height `level` [m].
    """
    from PIL import Image, ImageDraw

    mask = Image.new("L", camera.size, 0)
    draw = ImageDraw.Draw(mask)
    above = np.maximum(corners @ camera.up - level, 0.0)
    along = above / (camera.light @ camera.up)
    flat, _ = camera.pixels(corners - along[..., None] * camera.light)
    for one in flat:
        draw.polygon([*map(tuple, one)], fill=255)
    return np.asarray(mask) / 255.0


def _shade_triangles(camera: Camera, corners: Array, colours: Array) -> tuple[Array, Array]:
    """Return the shaded colours (n, 3) of triangles, 0 to 255, and a mask (n,) of front faces."""
    n = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    n = n / np.maximum(np.linalg.norm(n, axis=1), 1e-300)[:, None]
    facing = np.sum(n * (camera.place - corners[:, 0]), axis=1)
    n = n * np.where(facing < 0, -1.0, 1.0)[:, None]
    bright = 0.48 + 0.18 * (0.5 + 0.5 * n @ camera.up) + 0.48 * np.maximum(n @ -camera.light, 0.0)
    return (255 * np.clip(colours * bright[:, None], 0, 1)).astype(int), facing > 0


SIZE = (560, 400)  # width and height of a drawing [pixels]
MOST_NAMES, MOST_BODIES = 12, 120  # maximum number of joint names and bodies in a drawing
OUTLINE_SIDES = 64  # maximum number of corners of an outline
AXES = (("x", "#c23b3b"), ("y", "#27794b"), ("z", "#2b5fc2"))
LINE, LETTER = 14.0, 7.5  # line height of joint names, and maximum width of a letter [pixels]
LONG, ROOM = 0.3, 0.06  # axis length relative to the robot, margin relative to the picture

Row = tuple[float, float, float]  # left end, right end and baseline of a joint name


def drawing(robots: Sequence[DrawnRobot]) -> str:
    """Return an SVG drawing of robots in their configurations.

    The function draws each link as the outline of its convex hull. It draws a time-dependent model
    at time 0. The result is an empty string for no robots or more than `MOST_BODIES` bodies.
    """
    bodies = sum(robot.model.nb for robot in robots)
    if not 0 < bodies <= MOST_BODIES:
        return ""
    placed = [(robot, _poses(robot)) for robot in robots]
    solids = [(solid.colour, seen) for pair in placed for solid, seen in links(*pair)]
    long = LONG * max(span(robot) for robot in robots)
    base = np.vstack([np.zeros(3), long * np.eye(3)])
    corners = np.concatenate([base, *(seen.reshape(-1, 3) for _, seen in solids)])
    wide, high = SIZE
    inner = (round(wide * (1 - 2 * ROOM)), round(high * (1 - 2 * ROOM)))
    camera = Camera.fit_points(corners, camera_setup(robots[0].model), inner)
    far = [float(camera.pixels(seen)[1].mean()) for _, seen in solids]
    order = sorted(range(len(solids)), key=lambda k: -far[k])
    shapes = [
        _outline(_picture_points(camera, seen), colour)
        for colour, seen in (solids[k] for k in order)
    ]
    rows: list[Row] = [(x + 3, x + 3 + LETTER, y - 3) for x, y in _picture_points(camera, base)[1:]]
    named = placed if bodies <= MOST_NAMES else ()
    names = [name for pair in named for name in _names(camera, *pair, rows)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" '
        f'height="{high}" role="img" aria-label="drawing of the robot" '
        'font-family="sans-serif" font-size="12">'
        f"{''.join([*shapes, *_axes(camera, base), *names])}</svg>"
    )


def _poses(robot: DrawnRobot) -> Array:
    poses = body_poses(robot.model.evaluate_at(0.0), robot.q)
    return np.array([pose_numbers(X) for X in poses], dtype=float)


def _picture_points(camera: Camera, points: Array) -> Array:
    """Return the drawing coordinates (n, 2) of points (..., 3) [m]."""
    at = camera.pixels(points.reshape(-1, 3))[0] / FINE + ROOM * np.array(SIZE)
    return np.asarray(np.round(at + 1e-6, 1))  # avoid ties, whose rounding depends on the machine


def _outline(at: Array, colour: Sequence[float]) -> str:
    """Return the filled convex hull of the points `at` (n, 2) as an SVG element.

    The corners are the farthest points in up to `OUTLINE_SIDES` directions, in the order of the
    directions.
    """
    angle = 2 * np.pi * np.arange(OUTLINE_SIDES) / OUTLINE_SIDES
    ends = np.argmax(at @ np.array([np.cos(angle), np.sin(angle)]), axis=0)
    corners = " ".join(dict.fromkeys(f"{x:g},{y:g}" for x, y in at[ends]))
    fill, rim = _hex(colour), _hex([0.6 * part for part in colour])
    return f'<polygon points="{corners}" fill="{fill}" stroke="{rim}" stroke-linejoin="round"/>'


def _axes(camera: Camera, base: Array) -> Iterator[str]:
    (x0, y0), *ends = _picture_points(camera, base)
    for (name, colour), (x, y) in zip(AXES, ends, strict=True):
        line = f'<line x1="{x0:g}" y1="{y0:g}" x2="{x:g}" y2="{y:g}"'
        yield f'{line} stroke="{colour}" stroke-width="2"/>'
        yield _label(x + 3, y - 3, name, colour)


def _names(camera: Camera, robot: DrawnRobot, poses: Array, rows: list[Row]) -> Iterator[str]:
    """Yield the joint names as SVG, next to the joints and without overlaps.

    The names of joints at the same position are stacked. `rows` contains the occupied areas of the
    drawing; the function adds the areas of the names.
    """
    for name, (x, y) in zip(
        robot.model.joint_names, _picture_points(camera, poses[:, 9:]), strict=True
    ):
        yield f'<circle cx="{x:g}" cy="{y:g}" r="3" fill="#fff" stroke="#222"/>'
        left, right = x + 7, x + 7 + LETTER * len(name)
        levels = [y + LINE * (1 + k) for k in sorted(range(-MOST_NAMES, MOST_NAMES + 1), key=abs)]
        free = (
            level
            for level in levels
            if LINE <= level <= SIZE[1]
            and not any(a < right and left < b and abs(at - level) < LINE for a, b, at in rows)
        )
        rows.append((left, right, next(free, y + LINE)))
        yield _label(left, rows[-1][2], name, "#222")


def _label(x: float, y: float, text: str, colour: str) -> str:
    halo = 'stroke="#fff" stroke-width="3" paint-order="stroke"'
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" {halo}>{html_text(text)}</text>'


def _hex(colour: Sequence[float]) -> str:
    return "#" + "".join(f"{round(255 * part):02x}" for part in colour)
