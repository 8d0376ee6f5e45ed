"""A quadruped is dropped on the ground, catches itself and stands under PD control.

A free trunk on four legs of three joints falls from half a metre, slightly tilted. The plant
contains the contacts of the four feet, so the integrator evaluates them in each stage. The plant
and the controller form one continuous block, which runs in Python and as a native FMU, with the
same results.

The script checks that contact forces are inside their friction cones and never pull. It also checks
that only the forces on the feet and the weight change the momentum, and that the robot stands at
the end. It writes build/quadruped/result.png.
"""

import shutil
import sys
import time
from pathlib import Path

import fmpy
import numpy as np
from matplotlib.figure import Figure

from rigidblocks import ContinuousSystem, PDController, System, export_fmu, simulate
from rigidblocks.contact import ContactPlant
from rigidblocks.library import FloatingBasePlant, Step
from rigidblocks.robot.robots import quadruped

BUILD = Path("build/quadruped")
T_STOP, DT = 5.0, 1e-3
STANCE = np.tile([0.0, 0.7, -1.4], 4)
ASKEW = np.array([0.99, 0.08, 0.06, 0.0])  # initial orientation of the trunk
MU, G = 0.8, 9.81


def standing():
    """Return the robot above the ground with its controller, as one block."""
    system = System()
    robot = FloatingBasePlant(
        quadruped(), quaternion0=ASKEW / np.linalg.norm(ASKEW), position0=(0.0, 0.0, 0.5), q0=STANCE
    )
    system.add("robot", ContactPlant(robot, K=5e3, D=60.0, mu=MU))
    system.add("pd", PDController([150.0] * 12, [2.0] * 12))
    system.add("stance", Step(0.0, before=tuple(STANCE), after=tuple(STANCE)))
    wires = (
        ("robot.q", "pd.q"),
        ("robot.qd", "pd.qd"),
        ("stance.y", "pd.q_ref"),
        ("pd.tau", "robot.tau"),
    )
    for source, target in wires:
        system.connect(source, target)
    return ContinuousSystem(system)


def run(part):
    """Return the run of the block or of its FMU."""
    system = System()
    system.add("all", part)
    return simulate(system, T_STOP, DT, progress=False)


def real_time_factor(path):
    """Return the simulated seconds per second of CPU time of the FMU in FMPy."""
    folder = fmpy.extract(str(path))
    fmu = fmpy.instantiate_fmu(folder, fmpy.read_model_description(folder), "CoSimulation")
    fmu.setupExperiment()
    fmu.enterInitializationMode()
    fmu.exitInitializationMode()
    begin = time.process_time()
    for k in range(round(T_STOP / DT)):
        fmu.doStep(k * DT, DT)
    factor = T_STOP / (time.process_time() - begin)
    fmu.terminate()
    fmu.freeInstance()
    shutil.rmtree(folder)
    return factor


def checks(result):
    """Yield the name of each check, the computed value and its bound."""
    f, momentum = result["all.robot.force"], result["all.robot.momentum"][:, 3:]
    weight = sum(body.m for body in quadruped().inertia) * G
    yield "the ground pulls [N]", max(0.0, -f[..., 2].min()), 0.0
    yield (
        "friction beyond its cone [N]",
        (np.hypot(f[..., 0], f[..., 1]) - MU * f[..., 2]).max(),
        1e-9,
    )
    change = np.trapezoid(f.sum(axis=1) - [0.0, 0.0, weight], dx=DT, axis=0)
    yield "momentum from nowhere [N s]", np.abs(change - momentum[-1] + momentum[0]).max(), 0.1
    yield "feet in the air at the end", 4 - result["all.robot.in_contact"][-1].sum(), 0
    yield (
        "the trunk leans by [rad]",
        2 * np.linalg.norm(result["all.robot.quaternion"][-1][1:3]),
        0.05,
    )
    yield "its speed at the end [m/s]", np.abs(result["all.robot.velocity"][-1][3:]).max(), 0.02


def draw(result):
    """Draw the trunk, the joints of a leg and the forces on the feet over time."""
    figure = Figure(figsize=(9, 8), layout="constrained")
    height, lean, joints, force = figure.subplots(4, sharex=True)
    height.plot(result.time, result["all.robot.position"][:, 2])
    height.set_ylabel("trunk's height [m]")
    for k, name in ((1, "about x"), (2, "about y"), (3, "about z")):
        lean.plot(result.time, 2 * result["all.robot.quaternion"][:, k], label=name)
    lean.set_ylabel("trunk's angle [rad]")
    for k, name in enumerate(("abduction", "hip", "knee")):
        joints.plot(
            result.time, result["all.robot.q"][:, k] - STANCE[k], label=f"{name}, front left"
        )
    joints.set_ylabel("joint off its stance [rad]")
    for k, name in enumerate(("front left", "front right", "rear left", "rear right")):
        force.plot(result.time, result["all.robot.force"][:, k, 2], label=name)
    force.set(xlabel="time [s]", ylabel="force on the foot [N]")
    for axis in (height, lean, joints, force):
        axis.grid(alpha=0.3)
        if axis is not height:
            axis.legend(fontsize="small", loc="upper right")
    figure.savefig(BUILD / "result.png", dpi=120)


def main():
    """Run the block and its FMU, check and draw."""
    block = standing()
    result, fmu = run(block), export_fmu(block, BUILD / "standing.fmu")
    from_fmu, faster = run(fmu), real_time_factor(fmu)
    draw(result)
    apart = max(np.abs(from_fmu[port.name] - result[port.name]).max() for port in result.ports)
    print(f"native FMU: {faster:.0f} x real time at 1 kHz, {apart:.1e} from the compiled block\n")
    stands = apart == 0
    for name, found, most in checks(result):
        stands = stands and found <= most
        print(f"{name:32} {found:10.2e}  at most {most:g}")
    print(f"\nwrote {BUILD}/result.png")
    if not stands:
        sys.exit("it does not stand as it must")


if __name__ == "__main__":
    main()
