"""A slider-crank without drive, compared with the closed form and with Newton's second law.

The crank starts at 20 rad/s. The crank angle determines the position of the slider. The forces of
the pin and the guide on the slider must equal its mass times its acceleration. The script writes
build/slider_crank/result.png.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from rigidblocks import System, simulate
from rigidblocks.library import ClosedLoopPlant
from rigidblocks.robot.robots import slider_crank

BUILD = Path("build/slider_crank")
T_STOP, DT = 1.0, 5e-4
CRANK, ROD, MASS, SPEED = 0.3, 1.0, 1.0, 20.0


def start():
    """Return the mechanism; its initial velocities correspond to a crank speed of SPEED."""
    mechanism = slider_crank(CRANK, ROD, slider_mass=MASS, angle=1.0)
    root = np.sqrt(ROD**2 - (CRANK * np.sin(1.0)) ** 2)
    rod = -CRANK * np.cos(1.0) / root - 1.0
    slider = -CRANK * np.sin(1.0) * (1.0 + CRANK * np.cos(1.0) / root)
    return mechanism._replace(qd0=SPEED * np.array([1.0, rod, slider]))


def main():
    """Run the mechanism, check it and draw."""
    system = System()
    system.add("engine", ClosedLoopPlant(*start()))
    result = simulate(system, T_STOP, DT, progress=False)
    t, q, qdd, lam, E = (
        result.time,
        *(result[f"engine.{name}"] for name in ("q", "qdd", "lam", "energy")),
    )
    place = CRANK * np.cos(q[:, 0]) + np.sqrt(ROD**2 - (CRANK * np.sin(q[:, 0])) ** 2)
    figures = {
        "slider from its closed form [m]": (np.abs(q[:, 2] - place).max(), 1e-10),
        "force along the guide less mass times acceleration [N]": (
            np.abs(lam[:, 0] - MASS * qdd[:, 2]).max(),
            1e-8,
        ),
        "change of energy [J]": (np.ptp(E), 1e-3),
        "opening of the loop [m]": (result["engine.loop_error"].max(), 1e-10),
    }
    for name, (value, bound) in figures.items():
        print(f"{name:56} {value:9.2e}   at most {bound:.0e}")
    draw(t, q, result["engine.qd"], lam)
    if wrong := [name for name, (value, bound) in figures.items() if not value <= bound]:
        sys.exit(f"too large: {', '.join(wrong)}")


def draw(t, q, qd, lam):
    """Draw the slider position, the crank speed and the forces of the wrist pin."""
    figure = Figure(figsize=(9, 8), layout="constrained")
    slider, crank, force = figure.subplots(3)
    slider.plot(t, q[:, 2])
    slider.set_ylabel("slider [m]")
    crank.plot(t, qd[:, 0])
    crank.set_ylabel("speed of the crank [rad/s]")
    force.plot(t, lam, label=["on the slider, along the guide", "across it"])
    force.set_ylabel("force of the wrist pin [N]")
    force.set_xlabel("time [s]")
    force.legend(fontsize="small", ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    for axis in (slider, crank, force):
        axis.grid(alpha=0.3)
    BUILD.mkdir(parents=True, exist_ok=True)
    figure.savefig(BUILD / "result.png", dpi=110)
    print(f"wrote {BUILD}/result.png")


if __name__ == "__main__":
    main()
