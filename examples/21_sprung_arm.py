"""An arm with springs, stops, friction, a rotor and a gear, all inside one plant and one FMU.

Two links under gravity hang on a strut, which is a spring and damper between the upper link and a
wall. A belt turns the third link opposite to the second link, and stops limit its range. A motor
pushes the third link from stop to stop.

The script checks the power balance: the energy grows by the work of the motor and decreases by the
losses of dampers and friction. Then it exports the plant as an FMU, in which all quantities of the
force elements are parameters. It compares the motion of the FMU with the motion of the block, and
writes build/sprung_arm/arm.fmu and result.png.
"""

import sys
from pathlib import Path

import numpy as np

from rigidblocks import (
    ForceElement,
    Friction,
    RobotPlant,
    Sine,
    Spring,
    System,
    export_fmu,
    simulate,
)
from rigidblocks.dynamics.drives import Drive, Follower, Gearbox
from rigidblocks.dynamics.force_elements import Between
from rigidblocks.dynamics.force_laws import Stop
from rigidblocks.dynamics.motors import Rotor
from rigidblocks.robot.robots import planar3

BUILD = Path("build/sprung_arm")
T_STOP, DT = 4.0, 1e-3
VISCOUS = 4.0  # N m s/rad, damping of the bearing
ELEMENTS = (
    ForceElement(
        "strut", Between("body1", (0.7, 0.0, 0.0), None, (0.0, 1.0, 0.0)), Spring(800.0, rest=1.0)
    ),
    ForceElement("bearing", "joint1", Friction(0.0, VISCOUS)),
    ForceElement("end", "joint2", Stop(2e3, lower=-0.8, upper=0.8)),
    Drive("motor", "joint2", Rotor(1e-4), Gearbox(50.0)),
    Drive("belt", "joint2", follower=Follower("joint3", -1.0)),
)


def arm():
    """Return the plant."""
    model = planar3().with_gravity((0.0, -9.81, 0.0))
    return RobotPlant(model, elements=ELEMENTS)


def run(robot):
    """Return the result of the arm, which is a block or an FMU, driven by its motor."""
    system = System()
    system.add("robot", robot)
    system.add("motor", Sine((0.0, 60.0, 0.0), (1.0, 3.0, 1.0), unit="N.m"))
    system.connect("motor.y", "robot.tau")
    return simulate(system, T_STOP, DT, progress=False)


def power_error(result):
    """Return the largest error of the energy, relative to motor work minus bearing losses [J]."""
    qd, tau = result["robot.qd"], result["motor.y"]
    # the motor steps first, so the arm holds the motor force of the end of the step
    work = np.sum(tau[1:] * np.diff(result["robot.q"], axis=0), axis=1)
    taken = VISCOUS * (qd[:-1, 0] ** 2 + qd[1:, 0] ** 2) / 2 * DT
    E = result["robot.energy"]
    return np.abs(E - E[0] - np.concatenate([[0.0], np.cumsum(work - taken)])).max()


def main():
    """Run the arm as a block and as an FMU, and check the power balance."""
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
