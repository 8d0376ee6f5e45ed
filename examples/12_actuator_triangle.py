"""A linear actuator lifts a two-link arm (RBDA Figure 8.3), by loop constraints and in closed form.

The loop of arm, cylinder and piston is a triangle. The angles y of arm and forearm therefore
determine all joint positions: q = gamma(y). The library's plant closes the loop by constraints; the
block `Triangle` uses the closed form instead (RBDA 8.11).

The actuator force is the same in both runs. The script writes build/actuator_triangle/result.png.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from rigidblocks import Block, Port, System, crba, simulate
from rigidblocks.dynamics import bias_force
from rigidblocks.library import ClosedLoopPlant
from rigidblocks.robot.robots import actuator_triangle
from rigidblocks.spatial.linear_algebra import small_inverse

BUILD = Path("build/actuator_triangle")
T_STOP, DT = 1.0, 1e-3
L1, L2 = 0.8, 0.5
MECHANISM = actuator_triangle(L1, L2, 0.5, 0.3)
FORCES = np.array([0.0, 0.0, 80.0, 5.0])  # N on the piston, N m on the forearm


@dataclass(frozen=True, eq=False)
class Triangle(Block):
    """Block of the mechanism in the independent variables y: the arm and forearm angles.

    The loop closure error is zero by construction.
    """

    inputs = (Port("tau", (4,), ("N.m", "N.m", "N", "N.m"), "joint forces", 0.0),)
    states = (
        Port("y", (2,), "rad", "angles of arm and forearm", (0.5, 0.3), rate="yd"),
        Port("yd", (2,), "rad/s", "their rates", 0.0),
    )
    outputs = (*states, Port("q", (4,), ("rad", "rad", "m", "rad"), "joint positions"))

    def derivative(self, x, u):
        q, G, g = closed_form(x.y, x.yd)
        model = MECHANISM.model
        H, C = crba(model, q), bias_force(model, q, G @ x.yd)
        return {"y": x.yd, "yd": small_inverse(G.T @ H @ G) @ (G.T @ (u.tau - C - H @ g))}

    def output(self, x):
        return {"q": closed_form(x.y, x.yd)[0]}


def closed_form(y, yd):
    """Return gamma (4,), its Jacobian G (4, 2) and the bias g (4,) of qdd = G ydd + g."""
    c, s = np.cos(y[0]), np.sin(y[0])
    d = np.sqrt(L1**2 + L2**2 - 2 * L1 * L2 * c)
    theta2 = np.arctan2(L2 * s, L2 * c - L1)
    u1, u2 = (L2**2 - L1 * L2 * c) / d**2, L1 * L2 * s / d
    u3 = (L1**2 - L2**2) * L1 * L2 * s / d**4 * yd[0] ** 2
    u4 = (L1 * L2 * c - u2**2) / d * yd[0] ** 2
    G = np.array([[1.0, 0.0], [u1, 0.0], [u2, 0.0], [0.0, 1.0]])
    return np.array([y[0], theta2, d, y[1]]), G, np.array([0.0, u3, u4, 0.0])


def run(plant):
    """Return the result of a plant with the constant forces `FORCES`."""
    system = System()
    system.add("plant", plant, start={"tau": FORCES})
    return simulate(system, T_STOP, DT, progress=False)


def draw(loop, apart):
    """Draw the angles, the actuator length, the pin forces and the difference of both methods."""
    figure = Figure(figsize=(9, 9), layout="constrained")
    axes = figure.subplots(4)
    axes[0].plot(loop.time, loop["plant.q"][:, [0, 1, 3]], label=["arm", "cylinder", "forearm"])
    axes[0].set_ylabel("angle [rad]")
    axes[1].plot(loop.time, loop["plant.q"][:, 2], label="actuator")
    axes[1].set_ylabel("length [m]")
    axes[2].plot(
        loop.time, loop["plant.lam"], label=["of the piston's pin, along the arm", "and across"]
    )
    axes[2].set_ylabel("force [N]")
    axes[3].semilogy(loop.time, np.maximum(apart, 1e-17), label="from the closed form")
    axes[3].semilogy(
        loop.time, np.maximum(loop["plant.loop_error"], 1e-17), label="opening of the loop"
    )
    axes[3].set_ylabel("distance [rad, m]")
    axes[3].set_xlabel("time [s]")
    for axis in axes:
        axis.grid(alpha=0.3)
        axis.legend(fontsize="small")
    BUILD.mkdir(parents=True, exist_ok=True)
    figure.savefig(BUILD / "result.png", dpi=110)
    print(f"wrote {BUILD}/result.png")


def main():
    """Run the mechanism with both methods and compare."""
    loop, form = run(ClosedLoopPlant(*MECHANISM)), run(Triangle())
    difference = loop["plant.q"] - form["plant.q"]
    difference[:, 1] = (difference[:, 1] + np.pi) % (
        2 * np.pi
    ) - np.pi  # the closed form has angles within half a turn
    apart = np.abs(difference).max(axis=1)
    q = loop["plant.q"]
    work = FORCES @ (q[-1] - q[0])
    gained = loop["plant.energy"][-1] - loop["plant.energy"][0]
    print(
        f"the arm turns from {q[0, 0]:.2f} rad through {q[:, 0].max():.2f} rad; the actuator is "
        ""
        f"{q[:, 2].min():.3f} m "
        f"to {q[:, 2].max():.3f} m long"
    )
    print(
        f"loop and closed form are {apart.max():.1e} apart, the loop opens by "
        f"{loop['plant.loop_error'].max():.1e}"
    )
    print(f"work of the forces {work:.6f} J, energy gained {gained:.6f} J")
    draw(loop, apart)
    if not (apart.max() < 1e-6 and abs(work - gained) < 1e-6):
        sys.exit("the two ways do not agree")


if __name__ == "__main__":
    main()
