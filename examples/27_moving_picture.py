"""Animated SVG for the README: the robot of planar2ctrl and its commanded configuration.

Browsers play the SVG without a script. The angles in each frame come from a simulation. The picture
shows the second period of the command, which lasts 4 s. The script writes build/planar2ctrl.svg, or
the file named on the command line.
"""

import argparse
from pathlib import Path

import numpy as np

from rigidblocks import PDController, RepeatingSequence, RobotPlant, System, planar2, simulate
from rigidblocks.dynamics.kinematics import point_position

PERIOD, FRAMES = 4.0, 100
SCALE, ORIGIN = 95.0, (75.0, 222.0)  # pixels per m, and position of the base [pixels]
LEFT, RIGHT, PANELS = 370.0, 700.0, ((30.0, 115.0), (155.0, 240.0))  # plot edges [pixels]
COLOURS = ("#2274a5", "#e08e2b")


def motion():
    """Return the times (n,), the angles and the command (n, 2) of the second period."""
    system = System()
    system.add("robot", RobotPlant(planar2()))
    system.add("pd", PDController(kp=[1000, 1000], kd=[15, 15]))
    corners = [[0, 0], [1, 1.5], [1, 1.5], [0, 0], [0, 0]]
    system.add("command", RepeatingSequence(t=[0, 1, 2, 3, 4], y=corners))
    for source, target in (("y", "q_ref"), ("slope", "qd_ref")):
        system.connect(f"command.{source}", f"pd.{target}")
    for port in ("q", "qd"):
        system.connect(f"robot.{port}", f"pd.{port}")
    system.connect("pd.tau", "robot.tau")
    result = simulate(system, 2 * PERIOD, 1e-3, progress=False)
    rows = np.linspace(PERIOD, 2 * PERIOD, FRAMES + 1) * 1000
    rows = np.round(rows).astype(int)
    return result.time[rows] - PERIOD, result["robot.q"][rows], result["command.y"][rows]


def tip(q):
    """Return the position of the second link's end in pixels."""
    x, y, _ = point_position(planar2(), q, 1, np.array([1.0, 0.0, 0.0]))
    return ORIGIN[0] + SCALE * x, ORIGIN[1] - SCALE * y


def turning(angles, about):
    """Return the SVG animation of a rotation; SVG turns clockwise and uses degrees."""
    values = ";".join(f"{-np.degrees(a):.2f} {about[0]:g} {about[1]:g}" for a in angles)
    return (
        f'<animateTransform attributeName="transform" type="rotate" dur="{PERIOD:g}s" '
        f'repeatCount="indefinite" values="{values}"/>'
    )


def arm(q, style, second=""):
    """Return two links that turn by the angles q (n, 2); `second` styles the second link."""
    x, y = ORIGIN
    elbow = x + SCALE
    return (
        f'<g {style}><g>{turning(q[:, 0], ORIGIN)}<path d="M{x} {y}h{SCALE}"/>'
        f"<g>{turning(q[:, 1], (elbow, y))}"
        f'<path {second} d="M{elbow} {y}h{SCALE}"/></g></g></g>'
    )


def panel(t, q, command, k):
    """Return a plot of an angle and its command, with a moving cursor."""
    top, bottom = PANELS[k]
    low, high = -0.15, 1.7

    def points(values):
        x = LEFT + (RIGHT - LEFT) * t / PERIOD
        y = bottom - (bottom - top) * (values - low) / (high - low)
        return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))

    return (
        f'<rect x="{LEFT}" y="{top}" width="{RIGHT - LEFT}" height="{bottom - top}" fill="#fff" '
        f'stroke="#d5dde3"/><text x="{LEFT}" y="{top - 7}">'
        f"joint {k + 1}: command and actual [rad]</text>"
        f'<polyline points="{points(command[:, k])}" stroke="#9aa7b1" stroke-dasharray="5 4"/>'
        f'<polyline points="{points(q[:, k])}" stroke="{COLOURS[k]}" stroke-width="2"/>'
        f'<path d="M0 {top}V{bottom}" stroke="#d1495b" stroke-width="1.5"><animateTransform '
        f'attributeName="transform" type="translate" dur="{PERIOD:g}s" repeatCount="indefinite" '
        f'values="{LEFT} 0;{RIGHT} 0"/></path>'
    )


def picture():
    """Return the text of the SVG."""
    t, q, command = motion()
    grid = "".join(
        f'<path d="M{ORIGIN[0] + SCALE * x / 2:g} 20V250" stroke="#e3e9ee"/>' for x in range(-1, 6)
    ) + "".join(
        f'<path d="M20 {ORIGIN[1] - SCALE * y / 2:g}H330" stroke="#e3e9ee"/>' for y in range(5)
    )
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(tip, q))
    ghost = 'stroke="#9aa7b1" stroke-width="3" stroke-dasharray="5 5"'
    solid = f'stroke="{COLOURS[0]}" stroke-width="15" stroke-linecap="round"'
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 265" width="720" height="265">'
        "<style>path, polyline {fill: none} text {font: 12px sans-serif; fill: #5b6b78}</style>"
        '<rect width="720" height="265" rx="8" fill="#f4f6f8"/>'
        f'{grid}<polyline points="{path}" stroke="#d1495b" stroke-opacity="0.5"/>'
        f"{arm(q, solid, f'stroke={COLOURS[1]!r}')}{arm(command, ghost)}"
        f'<circle cx="{ORIGIN[0]}" cy="{ORIGIN[1]}" r="11" fill="#22303c"/>'
        f"{panel(t, q, command, 0)}{panel(t, q, command, 1)}</svg>\n"
    )


def main() -> None:
    """Write the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", nargs="?", type=Path, default=Path("build/planar2ctrl.svg"))
    path = parser.parse_args().path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(picture())
    print(f"wrote {path}, {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
