"""A five-bar robot with motors on its two base joints follows a command, as coupled FMUs.

The robot, its PD controller and its command are native FMUs, which the script builds from the
scripts in fmus/. In the first system, the robot's FMU closes its loop itself. In the second system,
the robot's loop is cut and another FMU provides the constraint forces.

The results of the first system must equal the results of the blocks. The script writes
build/five_bar_fmus/result.png.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from rigidblocks import System, export_fmu, simulate
from rigidblocks.fmi.script import slave_of

SCRIPTS = Path(__file__).parent.parent / "fmus"
BUILD = Path("build/five_bar_fmus")
T_STOP, DT = 4.0, 1e-3


def fmu(name):
    """Build the native FMU of a script."""
    return export_fmu(SCRIPTS / f"five_bar_{name}_fmu.py", BUILD / f"{name}.fmu")


def block(name):
    """Return the block of a script."""
    return slave_of(SCRIPTS / f"five_bar_{name}_fmu.py").memory.block


def wired(part, robot):
    """Connect the robot, its controller and its command.

    If the loop of the robot is cut, also connect the FMU or block of its loop closure.
    """
    system = System()
    for name, script in {"robot": robot, "pd": "pd", "command": "command"}.items():
        system.add(name, part(script))
    wires = {
        "command.y": "pd.q_ref",
        "command.slope": "pd.qd_ref",
        "robot.q": "pd.q",
        "robot.qd": "pd.qd",
    }
    wires |= {"pd.tau": "robot.tau"}
    if robot == "cut":
        system.add("closure", part("closure"))
        wires |= {f"robot.{port}": f"closure.{port}" for port in ("A", "b", "delta", "rate")}
        wires |= {"closure.lam": "robot.lam"}
    for source, target in wires.items():
        system.connect(source, target)
    return system


def main():
    """Run the three systems, compare and draw."""
    memory = simulate(wired(block, "robot"), T_STOP, DT, progress=False)
    inside = simulate(wired(fmu, "robot"), T_STOP, DT, progress=False)
    cut = simulate(wired(fmu, "cut"), T_STOP, DT, progress=False)
    same = np.abs(inside["robot.q"] - memory["robot.q"]).max()
    apart = np.abs(inside["robot.q"] - cut["robot.q"]).max()
    opened, held = cut["closure.loop_error"].max(), inside["robot.loop_error"].max()
    print(f"FMUs and blocks are {same:.1e} apart")
    print(
        f"loop closed inside the robot: it opens by {held:.1e} m; by an FMU of its own: by "
        f"{opened:.1e} m"
    )
    print(f"the two robots are up to {apart:.1e} rad apart")
    draw(inside, cut)
    if not (same < 1e-10 and held < 1e-10 and opened < 1e-3 and apart < 1e-2):
        sys.exit("the co-simulation does not do what it must")


def draw(inside, cut):
    """Draw the base joints, the motor torques, and the loop closure errors of both systems."""
    figure = Figure(figsize=(9, 9), layout="constrained")
    angles, torques, opening = figure.subplots(3)
    for k, joint, name in ((0, 0, "left"), (1, 2, "right")):
        angles.plot(inside.time, inside["robot.q"][:, joint], f"C{k}", label=name)
        angles.plot(
            inside.time, inside["command.y"][:, joint], f"C{k}--", lw=1, label=f"{name}, commanded"
        )
        torques.plot(inside.time, inside["pd.tau"][:, joint], f"C{k}", label=name)
    angles.set_ylabel("base joint [rad]")
    torques.set_ylabel("motor torque [N m]")
    opening.semilogy(
        inside.time, np.maximum(inside["robot.loop_error"], 1e-17), label="closed inside the robot"
    )
    opening.semilogy(
        cut.time, np.maximum(cut["closure.loop_error"], 1e-17), label="closed by an FMU of its own"
    )
    opening.set_ylabel("opening of the loop [m]")
    opening.set_xlabel("time [s]")
    for axis in (angles, torques, opening):
        axis.grid(alpha=0.3)
        axis.legend(fontsize="small")
    BUILD.mkdir(parents=True, exist_ok=True)
    figure.savefig(BUILD / "result.png", dpi=110)
    print(f"wrote {BUILD}/result.png")


if __name__ == "__main__":
    main()
