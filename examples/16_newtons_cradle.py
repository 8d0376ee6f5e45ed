"""Newton's cradle of five balls with event-driven rigid contact.

The first ball is released. The simulation locates each collision within a step, and resolves it as
a sequence of collisions of two balls (RBDA 11.7). Elastic balls transmit the whole velocity, so
only the last ball leaves. Inelastic balls eventually swing together.

The script checks the energy, the momentum in each impact and the period of the pendulum. It writes
build/newtons_cradle/result.png.
"""

import sys
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from rigidblocks import Model, Revolute
from rigidblocks.contact import Sphere, sphere_contacts
from rigidblocks.cosim.contact_events import simulate_contact
from rigidblocks.dynamics import energy
from rigidblocks.spatial.spatial import mcI, xlt

BUILD = Path("build/newtons_cradle")
T_STOP, DT = 3.2, 0.04
BALLS, RADIUS, LENGTH, MASS, G = 5, 0.05, 1.0, 0.2, 9.81
ANGLE = 0.5


def cradle():
    """Return the balls side by side, each on a massless thread."""
    inertia = mcI(MASS, [0.0, 0.0, -LENGTH], 0.4 * MASS * RADIUS**2 * np.eye(3))
    places = tuple(xlt([2 * RADIUS * i, 0.0, 0.0]) for i in range(BALLS))
    shape = (Sphere(RADIUS, (0.0, 0.0, -LENGTH)),)
    joints = (Revolute((0.0, 1.0, 0.0)),) * BALLS
    return Model(
        "cradle", (-1,) * BALLS, joints, places, (inertia,) * BALLS, contact=(shape,) * BALLS
    )


def swinging(e):
    """Return the motion after the release of the first ball, with the restitution coefficient e."""
    model = cradle()
    contacts = partial(sphere_contacts, model, pairs=list(pairwise(range(BALLS))))
    start = np.zeros(BALLS)
    start[0] = ANGLE
    return simulate_contact(
        model, contacts, start, np.zeros(BALLS), T_STOP, DT, e=e, law="sequence"
    )


def quarter():
    """Return a quarter of one ball's period [s], by the arithmetic-geometric mean (Gauss)."""
    w = np.sqrt(MASS * G * LENGTH / (MASS * LENGTH**2 + 0.4 * MASS * RADIUS**2))
    a, b = 1.0, np.cos(ANGLE / 2)
    while abs(a - b) > 1e-15:
        a, b = (a + b) / 2, np.sqrt(a * b)
    return np.pi / (2 * w * a)


def draw(runs):
    """Draw the angles of the balls and the energy."""
    figure = Figure(figsize=(9, 8), layout="constrained")
    axes = figure.subplots(len(runs) + 1, sharex=True)
    for axis, (e, run) in zip(axes, runs.items(), strict=False):
        for i in range(BALLS):
            style = {0: {"lw": 2.2}, BALLS - 1: {"lw": 2.2}}.get(i, {"ls": "--"})
            axis.plot(run.time, np.degrees(-run["q"][:, i]), label=f"ball {i + 1}", **style)
        for t in run.times("impact"):
            axis.axvline(t, color="k", lw=0.4, alpha=0.4)
        axis.set_ylabel("angle [deg]")
        axis.set_title(f"restitution {e:g}; vertical lines are impacts", fontsize="medium")
        axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="small")
        axes[-1].plot(
            run.time, 1e3 * (energies(run) + BALLS * MASS * G * LENGTH), label=f"restitution {e:g}"
        )
    axes[-1].set_ylabel("energy [mJ]")
    axes[-1].set_xlabel("time [s]")
    axes[-1].set_ylim(bottom=0)
    axes[-1].legend(fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    for axis in axes:
        axis.grid(alpha=0.3)
    BUILD.mkdir(parents=True, exist_ok=True)
    figure.savefig(BUILD / "result.png", dpi=120)


def energies(run):
    """Return the energy of the balls at each time [J]."""
    return np.array([energy(cradle(), q, qd) for q, qd in zip(run["q"], run["qd"], strict=True)])


def main():
    """Run the cradles, check the conserved quantities, and draw."""
    runs = {e: swinging(e) for e in (1.0, 0.8)}
    draw(runs)
    elastic, lossy = runs.values()
    impacts = elastic.times("impact")
    expected = quarter() * (1 + 2 * np.arange(len(impacts)))
    still = elastic["q"][:, 1:-1]
    E, losing = energies(elastic), energies(lossy)
    print(
        f"{len(impacts)} impacts, the first at {impacts[0]:.6f} s; a quarter of the period is "
        f"{quarter():.6f} s"
    )
    print(
        f"the balls between move by {np.abs(still).max():.1e} rad at most, the last one by "
        f"{-elastic['q'][:, -1].min():.6f} rad"
    )
    print(
        f"energy: elastic within {np.ptp(E):.1e} J; with restitution 0.8 it falls by "
        f"{losing[0] - losing[-1]:.4f} J"
    )
    print(f"wrote {BUILD}/result.png")
    on_time = np.abs(impacts - expected).max() < 1e-5
    if not (
        on_time and np.abs(still).max() < 1e-6 and np.ptp(E) < 1e-5 and np.diff(losing).max() < 1e-6
    ):
        sys.exit("the cradle does not do what it must")


if __name__ == "__main__":
    main()
