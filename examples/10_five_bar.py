"""A five-bar mechanism passes through singular configurations (Spencer 2004, section 3.2).

In the first example, all links are initially in line, where only one of the two constraints is
independent. This example has no stabilization. In the second example, the mechanism falls from its
upright configuration and passes through three singular configurations.

The script compares the library's plant, which keeps loops closed by projection, with Lagrange
multipliers and Baumgarte's stabilization (alpha = beta = 10). The script writes
build/five_bar/example1.png (Figures 3.3 to 3.6 of the thesis) and example2.png (Figures 3.7 to
3.10).
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from rigidblocks import ContinuousSystem, System, simulate
from rigidblocks.dynamics import kinetic_energy
from rigidblocks.dynamics.loops import loop_constraints
from rigidblocks.library import ClosedLoopPlant, CutLoopPlant, LoopClosure
from rigidblocks.robot.robots import five_bar
from rigidblocks.tracing.compiled_functions import compile_function

BUILD = Path("build/five_bar")
T_STOP, DT = 5.0, 1e-3
ALPHA = 10.0
BAUMGARTE = "multipliers, Baumgarte"
MODEL = five_bar().model


def robust(mechanism, stabilization="projection"):
    """Return a system with the library's plant for closed loops."""
    system = System()
    system.add("plant", ClosedLoopPlant(*mechanism, stabilization=stabilization))
    return system


def multipliers(mechanism):
    """Return a plant with Lagrange multipliers from A lam = b and Baumgarte's stabilization.

    The plant and the multipliers form one continuous system, so no signal is held.
    """
    inner, system = System(), System()
    inner.add("plant", CutLoopPlant(*mechanism))
    inner.add("loops", LoopClosure(MODEL, 1.0 / ALPHA))
    for port in ("A", "b", "delta", "rate"):
        inner.connect(f"plant.{port}", f"loops.{port}")
    inner.connect("loops.lam", "plant.lam")
    system.add("all", ContinuousSystem(inner))
    return system


def absolute(q):
    """Return the absolute link angles along the chain, from the left to the right support."""
    return np.array([q[:, 0], q[:, 0] + q[:, 1], q[:, 2] + q[:, 3] - np.pi, q[:, 2] - np.pi]).T


def constraint_figures(q, qd):
    """Return the condition number of K and the indicator |v_m u_m^T dK/dt qd|.

    u_m and v_m are the singular vectors of the smallest singular value (Spencer 2004, Eq 3.7).
    """
    f = compile_function(
        "constraints",
        lambda q, qd: loop_constraints(MODEL, q, qd)._asdict(),
        {"q": (4,), "qd": (4,)},
    )
    kappa, indicator = np.empty(len(q)), np.empty(len(q))
    for i, state in enumerate(zip(q, qd, strict=True)):
        K, k, _ = f(*state)
        U, s, _ = np.linalg.svd(K)
        kappa[i], indicator[i] = s[0] / max(s[-1], 1e-16), abs(U[:, -1] @ k)
    return kappa, indicator


def panels(rows):
    """Return a figure with two columns of panels over time."""
    figure = Figure(figsize=(11, 3 * rows), layout="constrained")
    axes = figure.subplots(rows, 2).ravel()
    for axis in axes:
        axis.grid(alpha=0.3)
        axis.set_xlabel("time [s]")
    return figure, axes


def trajectories(axis, t, q):
    for k, angle in enumerate(absolute(q).T):
        axis.plot(t, angle - 2 * np.pi * np.round(angle[0] / (2 * np.pi)), label=f"link {k + 1}")
    axis.set_ylabel("link angle [rad]")
    axis.legend(fontsize="small", ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0))


def first():
    """Run without stabilization; initially all links are at rest in line.

    The mechanism falls, swings through and returns at 2.82 s.
    """
    result = simulate(robust(five_bar(np.pi, 0.0), "none"), T_STOP, DT, progress=False)
    t, q, qd, E = result.time, result["plant.q"], result["plant.qd"], result["plant.energy"]
    back = (t > 2) & (t < 3.5)
    returned = t[back][np.argmin(np.abs(q[back, 0] - np.pi))]
    kinetic = np.array([kinetic_energy(MODEL, *state) for state in zip(q, qd, strict=True)])
    figure, axes = panels(3)
    trajectories(axes[0], t, q)
    axes[1].semilogy(t, constraint_figures(q, qd)[0])
    axes[1].set_ylabel("condition number of K")
    axes[2].plot(t, kinetic, label="kinetic")
    axes[2].plot(t, E - kinetic, label="potential")
    axes[2].set_ylabel("energy [J]")
    axes[2].legend(fontsize="small")
    axes[3].plot(t, E - E[0])
    axes[3].set_ylabel("change of energy [J]")
    axes[4].semilogy(t, np.maximum(result["plant.loop_error"], 1e-17))
    axes[4].set_ylabel("constraint violation [m]")
    axes[5].plot(t, result["plant.rank"], drawstyle="steps-post")
    axes[5].set_ylabel("independent constraints")
    axes[5].set_yticks([1, 2])
    save(figure, "example1.png")
    print(f"example 1: back in line at {returned:.3f} s, energy changes by {np.ptp(E):.1e} J, "
          f"the loop opens by {result['plant.loop_error'].max():.1e} m")  # fmt: skip
    return abs(returned - 2.82) < 0.02 and np.ptp(E) < 1e-2


def second():
    """Run from upright rest through three singular configurations, with both methods."""
    ours = simulate(robust(five_bar()), T_STOP, DT, progress=False)
    other = simulate(multipliers(five_bar()), T_STOP, DT, progress=False)
    kappa, indicator = constraint_figures(ours["plant.q"], ours["plant.qd"])
    opened = np.abs(other["all.plant.delta"]).max(axis=1)
    change = {
        "projection": ours["plant.energy"] - ours["plant.energy"][0],
        BAUMGARTE: other["all.plant.energy"] - other["all.plant.energy"][0],
    }
    figure, axes = panels(4)
    trajectories(axes[0], ours.time, ours["plant.q"])
    draw_constraints(axes[1:6], ours, other, kappa, indicator)
    draw_energies(axes[6:], ours.time, change)
    save(figure, "example2.png")
    times = ours.time[passages(kappa)]
    print(f"example 2: singular passages at {', '.join(f'{time:.3f}' for time in times)} s")
    for name, value in change.items():
        print(f"{name:24} energy changes by {np.abs(value).max():.1e} J")
    print(
        f"{'':24} the loop opens by {ours['plant.loop_error'].max():.1e} m and {opened.max():.1e} m"
    )
    return (
        np.allclose(times, [0.651, 1.854, 3.910], atol=2 * DT)
        and np.abs(change["projection"]).max() < 1e-2
    )


def passages(kappa):
    """Return the indices of the high peaks of the condition number of K."""
    inside = kappa[1:-1]
    peaks = (inside > kappa[:-2]) & (inside >= kappa[2:]) & (inside > 300)
    return 1 + np.flatnonzero(peaks)


def draw_constraints(axes, ours, other, kappa, indicator):
    """Draw the condition number, the constraint violations and the largest multiplier."""
    t = ours.time
    opened = np.abs(other["all.plant.delta"]).max(axis=1)
    largest = np.abs(other["all.loops.lam"]).max(axis=1)
    axes[0].semilogy(t, kappa)
    axes[0].set_ylabel("condition number of K")
    axes[1].semilogy(t, np.maximum(opened, 1e-17), "C1", label=BAUMGARTE)
    axes[2].semilogy(t, np.maximum(ours["plant.loop_error"], 1e-17), label="projection")
    for axis in axes[1:3]:
        axis.set_ylabel("constraint violation [m]")
    axes[3].semilogy(t, largest, "C1", label=BAUMGARTE)
    axes[3].set_ylabel("largest multiplier [N]")
    axes[4].semilogy(t, np.maximum(indicator, 1e-12))
    axes[4].set_ylabel("$|v_m u_m^T \\dot{K} \\dot{q}|$ [m/s²]")
    for axis in axes[1:4]:
        axis.legend(fontsize="small")


def draw_energies(axes, t, change):
    """Draw the energy drift of each method."""
    for axis, (name, value), color in zip(axes, change.items(), ("C0", "C1"), strict=True):
        axis.plot(t, value, color, label=name)
        axis.set_ylabel("change of energy [J]")
        axis.legend(fontsize="small")


def save(figure, name):
    BUILD.mkdir(parents=True, exist_ok=True)
    figure.savefig(BUILD / name, dpi=110)
    print(f"wrote {BUILD / name}")


def main():
    """Run both examples."""
    if not all([first(), second()]):
        sys.exit("the mechanism does not move as in the thesis")


if __name__ == "__main__":
    main()
