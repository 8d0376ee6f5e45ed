"""A six-legged Stewart platform follows a commanded pose by PD control of the leg lengths.

The script computes the commanded leg lengths from the commanded pose. The plant closes its six
loops by constraints. The script checks the loop closure error, and compares the work of the leg
forces with the energy change. It writes build/stewart_platform/result.png.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from rigidblocks import Block, Port, System, simulate
from rigidblocks.library import ClosedLoopPlant
from rigidblocks.robot.robots import stewart_platform
from rigidblocks.spatial.spatial import rx, ry

BUILD = Path("build/stewart_platform")
T_STOP, DT = 4.0, 2e-3
MECHANISM = stewart_platform()
MODEL = MECHANISM.model
FEET = np.array([MODEL.Xtree[2 * k + 1].r for k in range(6)])
ENDS = np.array([loop.Xs.r for loop in MODEL.loops])
LENGTHS = slice(9, None, 3)  # indices of the leg lengths in q
FORCES = slice(8, None, 3)  # indices of the leg forces in tau and of the leg velocities in qd


def pose(t):
    """Return commanded position (3,) and rotation (3, 3): rise, circle and tilt, all from rest."""
    grow = 1.0 - np.exp(-((t / 0.5) ** 3))
    place = np.array([0.1 * np.sin(2 * t), 0.1 * (1 - np.cos(2 * t)), 0.1]) * grow
    return place + np.array([0.0, 0.0, 1.0]), (
        rx(0.2 * grow * np.sin(3 * t)) @ ry(0.2 * grow * np.sin(2 * t))
    ).T


def leg_lengths(t):
    """Return the leg lengths (6,) [m] at the commanded pose."""
    place, R = pose(t)
    legs = [place + R @ end - foot for foot, end in zip(FEET, ENDS, strict=True)]
    return np.array([np.sqrt(leg @ leg) for leg in legs])


@dataclass(frozen=True, eq=False)
class LegController(Block):
    """PD control of the leg lengths; all other joint forces are zero."""

    kp: float = 2e4
    kd: float = 1e3

    @property
    def inputs(self):
        plant = ClosedLoopPlant(*MECHANISM)
        return plant.states

    @property
    def outputs(self):
        units = ClosedLoopPlant(*MECHANISM).inputs[0].units
        return (
            Port("tau", (MODEL.nv,), units, "joint forces"),
            Port("wanted", (6,), "m", "commanded lengths"),
        )

    def output(self, t, u):
        wanted = leg_lengths(t)
        tau = np.zeros(MODEL.nv, dtype=object)
        tau[FORCES] = self.kp * (wanted - u.q[LENGTHS]) - self.kd * u.qd[FORCES]
        return {"tau": tau, "wanted": wanted}


def platform():
    """Return the system of the platform and the controller of its legs."""
    system = System()
    system.add("platform", ClosedLoopPlant(*MECHANISM))
    system.add("legs", LegController())
    for port in ("q", "qd"):
        system.connect(f"platform.{port}", f"legs.{port}")
    system.connect("legs.tau", "platform.tau")
    return system


def commanded_places(t):
    """Return the commanded positions (n, 3) of the platform at the times t (n,)."""
    return np.array([pose(time)[0] for time in t])


def check_loops_and_work(result):
    """Print and check the loop closure error, and the work of the legs minus the energy change."""
    t, q, tau = result.time, result["platform.q"], result["legs.tau"]
    # each sampled force is held from its time to the next sample
    work = np.sum(tau[:-1, FORCES] * np.diff(q[:, LENGTHS], axis=0))
    gained = result["platform.energy"][-1] - result["platform.energy"][0]
    lag = np.abs(q[:, 4:7] - commanded_places(t))[t > 1].max()
    opening = result["platform.loop_error"].max()
    print(f"loops open by {opening:.1e} m; rank {set(result['platform.rank'].astype(int))}")
    print(
        f"work of the legs {work:.6f} J, energy gained {gained:.6f} J; the platform is up to "
        f"{lag * 1e3:.1f} mm away"
    )
    moves = np.abs(result["platform.qd"]).max() > 0.1
    return opening < 1e-10 and abs(work - gained) < 1e-5 and moves


def draw(result):
    """Draw the position of the platform, the leg lengths and the leg forces."""
    t, q, commanded = result.time, result["platform.q"], commanded_places(result.time)
    figure = Figure(figsize=(9, 9), layout="constrained")
    place, lengths, forces = figure.subplots(3)
    for k, name in enumerate("xyz"):
        place.plot(t, q[:, 4 + k], f"C{k}", label=name)
        place.plot(t, commanded[:, k], f"C{k}--", label=f"{name} commanded", lw=1)
    place.set_ylabel("place of the platform [m]")
    place.legend(fontsize="small", ncols=3)
    lengths.plot(t, q[:, LENGTHS], label=[f"leg {k + 1}" for k in range(6)])
    lengths.set_ylabel("length [m]")
    lengths.legend(fontsize="small", ncols=6, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    forces.plot(t, result["legs.tau"][:, FORCES])
    forces.set_ylabel("force of the leg [N]")
    forces.set_xlabel("time [s]")
    for axis in (place, lengths, forces):
        axis.grid(alpha=0.3)
    BUILD.mkdir(parents=True, exist_ok=True)
    figure.savefig(BUILD / "result.png", dpi=110)
    print(f"wrote {BUILD}/result.png")


def main():
    """Run the platform, check it, and draw."""
    result = simulate(platform(), T_STOP, DT, progress=False)
    is_accurate = check_loops_and_work(result)
    draw(result)
    if not is_accurate:
        sys.exit("the platform does not do what it must")


if __name__ == "__main__":
    main()
