"""Robots as a drawing of some kilobytes, for documents: the outline of each link, those far away
first, the axes of the base, and the names of the joints.
"""

from collections.abc import Iterator, Sequence
from html import escape

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.dynamics.kinematics import body_poses
from rigidblocks.view.film import FINE, Camera, links
from rigidblocks.view.robot import DrawnRobot, outlook, span, twelve_numbers

SIZE = (560, 400)  # pixels
MOST_NAMES, MOST_BODIES = 12, 120  # more would hide each other
SIDES = 64  # of an outline, at most
AXES = (("x", "#c23b3b"), ("y", "#2f8f4e"), ("z", "#2b5fc2"))
LINE, LETTER = 14.0, 7.5  # pixels that a name is high, and a letter wide at most
LONG, ROOM = 0.3, 0.06  # of the axes in lengths of a robot; of the rim in sizes of the picture

Row = tuple[float, float, float]  # from where to where a name goes, and the level of its base


def drawing(robots: Sequence[DrawnRobot]) -> str:
    """Robots where they stand, as SVG; nothing of none, and of so many that one saw little. The
    outline of a link is that of its convex hull; what a function of time moves is where it is at 0.
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
    camera = Camera.before(corners, outlook(robots[0].model), inner)
    far = [float(camera.pixels(seen)[1].mean()) for _, seen in solids]
    order = sorted(range(len(solids)), key=lambda k: -far[k])
    shapes = [_outline(_seen(camera, seen), colour) for colour, seen in (solids[k] for k in order)]
    rows: list[Row] = [(x + 3, x + 3 + LETTER, y - 3) for x, y in _seen(camera, base)[1:]]
    named = placed if bodies <= MOST_NAMES else ()
    names = [name for pair in named for name in _names(camera, *pair, rows)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" '
        f'height="{high}" role="img" font-family="sans-serif" font-size="12">'
        f"{''.join([*shapes, *_axes(camera, base), *names])}</svg>"
    )


def _poses(robot: DrawnRobot) -> Array:
    poses = body_poses(robot.model.at(0.0), robot.q)
    return np.array([twelve_numbers(X) for X in poses], dtype=float)


def _seen(camera: Camera, points: Array) -> Array:
    """Where points (..., 3) are in the drawing (n, 2)."""
    at = camera.pixels(points.reshape(-1, 3))[0] / FINE + ROOM * np.array(SIZE)
    return np.asarray(np.round(at + 1e-6, 1))  # ties of rounding are the same on all machines


def _outline(at: Array, colour: Sequence[float]) -> str:
    """The convex hull of points (n, 2), filled: those that are farthest to one of many sides, which
    go round it as the sides do.
    """
    angle = 2 * np.pi * np.arange(SIDES) / SIDES
    ends = np.argmax(at @ np.array([np.cos(angle), np.sin(angle)]), axis=0)
    corners = " ".join(dict.fromkeys(f"{x:g},{y:g}" for x, y in at[ends]))
    fill, rim = _hex(colour), _hex([0.6 * part for part in colour])
    return f'<polygon points="{corners}" fill="{fill}" stroke="{rim}" stroke-linejoin="round"/>'


def _axes(camera: Camera, base: Array) -> Iterator[str]:
    (x0, y0), *ends = _seen(camera, base)
    for (name, colour), (x, y) in zip(AXES, ends, strict=True):
        line = f'<line x1="{x0:g}" y1="{y0:g}" x2="{x:g}" y2="{y:g}"'
        yield f'{line} stroke="{colour}" stroke-width="2"/>'
        yield _label(x + 3, y - 3, name, colour)


def _names(camera: Camera, robot: DrawnRobot, poses: Array, rows: list[Row]) -> Iterator[str]:
    """The names of joints beside where they are, in free rows: those of joints that stand at one
    place are below and above each other. `rows` gets what they take.
    """
    for name, (x, y) in zip(robot.model.joint_names, _seen(camera, poses[:, 9:]), strict=True):
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
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" {halo}>{escape(text)}</text>'


def _hex(colour: Sequence[float]) -> str:
    return "#" + "".join(f"{round(255 * part):02x}" for part in colour)
