"""Newton's cradle: five balls on threads, of which the first is let go, as rigid contact from event
to event.

Each collision is located inside a step and is a sequence of collisions of two balls (RBDA 11.7):
what is handed on is all of the velocity, so that only the last ball leaves. With balls that lose
some of it, all of them come to swing together. Checked are the energy, the momentum through each
impact, and the pendulum's period. Writes build/newtons_cradle/result.png.
"""

import sys
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from rigidblocks import Model, Revolute
from rigidblocks.algebra.spatial import mcI, xlt
from rigidblocks.contact import Sphere, sphere_contacts
from rigidblocks.dynamics import energy
from rigidblocks.simulation.contact_events import simulate_contact

BUILD = Path("build/newtons_cradle")
T_STOP, DT = 3.2, 0.04
BALLS, RADIUS, LENGTH, MASS, G = 5, 0.05, 1.0, 0.2, 9.81
ANGLE = 0.5


def cradle():
    """The balls, each on a thread without mass, side by side."""
    inertia = mcI(MASS, [0.0, 0.0, -LENGTH], 0.4 * MASS * RADIUS**2 * np.eye(3))
    places = tuple(xlt([2 * RADIUS * i, 0.0, 0.0]) for i in range(BALLS))
    shape = (Sphere(RADIUS, (0.0, 0.0, -LENGTH)),)
    joints = (Revolute((0.0, 1.0, 0.0)),) * BALLS
    return Model(
        "cradle", (-1,) * BALLS, joints, places, (inertia,) * BALLS, contact=(shape,) * BALLS
    )


def swinging(e):
    """The motion after the first ball has been let go, with the coefficient of restitution e."""
    model = cradle()
    contacts = partial(sphere_contacts, model, pairs=list(pairwise(range(BALLS))))
    start = np.zeros(BALLS)
    start[0] = ANGLE
    return simulate_contact(
        model, contacts, start, np.zeros(BALLS), T_STOP, DT, e=e, law="sequence"
    )


def quarter():
    """A quarter of the period of one ball [s], by the arithmetic and geometric mean (Gauss)."""
    w = np.sqrt(MASS * G * LENGTH / (MASS * LENGTH**2 + 0.4 * MASS * RADIUS**2))
    a, b = 1.0, np.cos(ANGLE / 2)
    while abs(a - b) > 1e-15:
        a, b = (a + b) / 2, np.sqrt(a * b)
    return np.pi / (2 * w * a)


def draw(runs):
    """The angles of the balls, and the energy."""
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
    """The energy of the balls at each time [J]."""
    return np.array([energy(cradle(), q, qd) for q, qd in zip(run["q"], run["qd"], strict=True)])


def main():
    """Lets the cradles swing, checks what they must keep to, and draws."""
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
