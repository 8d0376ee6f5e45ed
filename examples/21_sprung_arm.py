"""An arm with springs, stops, friction, a motor's rotor and a gear, all inside one plant and so in
one FMU.

Two links in gravity hang on a strut, a spring and damper from the upper one to a wall; a belt turns
the third link against the second, and stops end its way. A motor pushes it from stop to stop. What
the elements do is checked by power: energy grows by the work of the motor and falls by what dampers
and friction take. Then the plant is made an FMU with every number of its elements a parameter, and
the FMU moves as the block does. Writes build/sprung_arm/arm.fmu and result.png.
"""

import sys
from pathlib import Path

import numpy as np

from rigidblocks import (
    Between,
    ForceElement,
    Friction,
    Gear,
    RobotPlant,
    Rotor,
    Sine,
    Spring,
    Stop,
    System,
    export_fmu,
    planar3,
    simulate,
)

BUILD = Path("build/sprung_arm")
T_STOP, DT = 4.0, 1e-3
VISCOUS = 4.0  # N m s/rad, of the bearing
ELEMENTS = (
    ForceElement(
        "strut", Between("body1", (0.7, 0.0, 0.0), None, (0.0, 1.0, 0.0)), Spring(800.0, rest=1.0)
    ),
    ForceElement("bearing", "joint1", Friction(0.0, VISCOUS)),
    ForceElement("end", "joint2", Stop(2e3, lower=-0.8, upper=0.8)),
    Rotor("motor", "joint2", 1e-4, 50.0),
    Gear("belt", "joint3", "joint2", -1.0),
)


def arm():
    """The plant."""
    model = planar3().with_gravity((0.0, -9.81, 0.0))
    return RobotPlant(model, elements=ELEMENTS)


def run(robot):
    """The motion of the arm, a block or an FMU, under its motor."""
    system = System()
    system.add("robot", robot)
    system.add("motor", Sine((0.0, 60.0, 0.0), (1.0, 3.0, 1.0), unit="N.m"))
    system.connect("motor.y", "robot.tau")
    return simulate(system, T_STOP, DT, progress=False)


def power_error(result):
    """How far the energy is from what the motor gave and the bearing took [J]."""
    qd, tau = result["robot.qd"], result["motor.y"]
    # over a step the arm holds the motor's force of its end: the motor has stepped before
    work = np.sum(tau[1:] * np.diff(result["robot.q"], axis=0), axis=1)
    taken = VISCOUS * (qd[:-1, 0] ** 2 + qd[1:, 0] ** 2) / 2 * DT
    E = result["robot.energy"]
    return np.abs(E - E[0] - np.concatenate([[0.0], np.cumsum(work - taken)])).max()


def main():
    """The run as a block and as an FMU, and the balance of power."""
    BUILD.mkdir(parents=True, exist_ok=True)
    block = run(arm())
    error, scale = power_error(block), np.ptp(block["robot.energy"])
    fmu = BUILD / "arm.fmu"
    export_fmu(arm(), fmu)
    apart = np.abs(run(str(fmu))["robot.q"] - block["robot.q"]).max()
    gear = np.abs(block["robot.q"][:, 2] + block["robot.q"][:, 1]).max()
    print(f"energy is off the balance of power by {error:.1e} J of {scale:.0f} J")
    print(f"the belt is off by {gear:.1e} rad, the FMU from the block by {apart:.1e} rad")
    print(f"the strut pulls with up to {-block['robot.strut_force'].min():.0f} N")
    block.plot("robot.q", "robot.end_force", path=BUILD / "result.png")
    return 0 if error < 1e-3 * scale and max(gear, apart) < 1e-9 else 1


if __name__ == "__main__":
    sys.exit(main())
