"""A block on an incline sticks below the friction angle, slides above it, and stops when pushed up.

The box touches the plane with its eight corners, with event-driven rigid contact. At each event the
simulation decides between stick and slip; it locates the end of sliding within the step.

The script compares the distance that the released block slides in one second with the closed form,
for inclines of many angles. Then the block is pushed up an incline. It stops there and stays or
slides back. The script writes build/block_on_incline/result.png.
"""

import sys
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from rigidblocks import Model, SixDoF
from rigidblocks.contact import Box, Plane, plane_contacts
from rigidblocks.cosim.contact_events import simulate_contact
from rigidblocks.spatial.spatial import identity, mcI

BUILD = Path("build/block_on_incline")
SIDES, MASS, MU, G = np.array([0.4, 0.3, 0.2]), 2.0, 0.4, 9.81
T_STOP, DT, SPEED = 1.0, 0.1, 2.0


def block():
    """Return a homogeneous block."""
    inertia = mcI(MASS, np.zeros(3), MASS / 12 * np.diag(SIDES @ SIDES - SIDES**2))
    return Model("block", (-1,), (SixDoF(),), (identity(),), (inertia,), contact=((Box(SIDES),),))


def on_incline(angle, speed):
    """Return the block's displacement up the incline at each time, and the result of the run.

    The block starts with the velocity `speed` up the incline.
    """
    up, normal = (
        np.array([np.cos(angle), 0.0, np.sin(angle)]),
        np.array([-np.sin(angle), 0.0, np.cos(angle)]),
    )
    start = np.array([np.cos(angle / 2), 0.0, -np.sin(angle / 2), 0.0, *(SIDES[2] / 2 * normal)])
    contacts = partial(plane_contacts, block(), ground=Plane(normal), mu=MU)
    run = simulate_contact(block(), contacts, start, [0.0, 0.0, 0.0, speed, 0.0, 0.0], T_STOP, DT)
    return (run["q"][:, 4:] - start[4:]) @ up, run


def closed_form(angle, speed, t):
    """Return the displacement up the incline by Coulomb's law."""
    brake = G * (np.sin(angle) + MU * np.cos(angle))
    slide = G * max(np.sin(angle) - MU * np.cos(angle), 0.0)
    stop = speed / brake
    s = np.minimum(t, stop)
    return speed * s - brake * s**2 / 2 - slide * np.maximum(t - stop, 0) ** 2 / 2


def draw(angles, ways, pushed):
    """Plot the displacements: released block against angle, pushed block against time."""
    figure = Figure(figsize=(9, 7), layout="constrained")
    down, up = figure.subplots(2)
    fine = np.linspace(angles[0], angles[-1], 400)
    down.plot(
        np.degrees(fine),
        [-closed_form(a, 0.0, T_STOP) for a in fine],
        "k-",
        lw=1,
        label="closed form",
    )
    down.plot(np.degrees(angles), ways, "o", ms=5, label="block")
    down.axvline(np.degrees(np.arctan(MU)), color="k", ls=":", label="friction angle")
    down.set_xlabel("angle of the incline [deg]")
    down.set_ylabel(f"way down in {T_STOP:g} s [m]")
    for angle, (way, run) in pushed.items():
        (line,) = up.plot(run.time, way, "o", ms=4, label=f"{np.degrees(angle):.0f} deg")
        up.plot(run.time, closed_form(angle, SPEED, run.time), "-", color=line.get_color(), lw=1)
        for event in run.events:
            up.axvline(event.t, color=line.get_color(), lw=0.8, ls=":")
    up.set_xlabel("time [s]; lines: closed form, dotted: where it stops")
    up.set_ylabel("way up, pushed [m]")
    for axis in (down, up):
        axis.grid(alpha=0.3)
        axis.legend(fontsize="small")
    BUILD.mkdir(parents=True, exist_ok=True)
    figure.savefig(BUILD / "result.png", dpi=120)


def main():
    """Release and push the block, compare with the closed form, and draw."""
    friction_angle = np.arctan(MU)
    angles = friction_angle + np.radians([-10.0, -5.0, -1.0, -0.1, 0.1, 1.0, 3.0, 6.0])
    ways = np.array([-on_incline(angle, 0.0)[0][-1] for angle in angles])
    expected = np.array([-closed_form(angle, 0.0, T_STOP) for angle in angles])
    pushed = {angle: on_incline(angle, SPEED) for angle in np.radians([0.0, 15.0, 28.0])}
    draw(angles, ways, pushed)
    print(f"the friction angle is {np.degrees(friction_angle):.3f} deg\n")
    print(f"{'angle [deg]':>12}{'way [m]':>14}{'closed form [m]':>18}")
    for angle, way, exact in zip(angles, ways, expected, strict=True):
        print(f"{np.degrees(angle):12.3f}{way:14.9f}{exact:18.9f}")
    print(f"\n{'pushed up':>12}{'stops at [s]':>14}{'closed form [s]':>18}")
    worst = np.abs(ways - expected).max()
    for angle, (way, run) in pushed.items():
        stop = SPEED / (G * (np.sin(angle) + MU * np.cos(angle)))
        print(f"{np.degrees(angle):12.3f}{run.events[0].t:14.9f}{stop:18.9f}")
        worst = max(
            worst,
            abs(run.events[0].t - stop),
            np.abs(way - closed_form(angle, SPEED, run.time)).max(),
        )
    print(f"\nworst difference {worst:.1e}\nwrote {BUILD}/result.png")
    if not worst < 1e-7:
        sys.exit("not the closed form as closely as it must be")


if __name__ == "__main__":
    main()
