"""Largest stable sample time of a sampled PD controller for the planar robot.

The script reproduces demos 1 and 2 of spatial_v2. Demo 1 is planar2ctrl with a gain of 800 and a
command of up to 2 rad for the second joint. Demo 2 runs the same controller at sample instants,
with the backward difference of the error and a held output.

The difference between the two demos is proportional to the sample time, until the loop becomes
unstable. The stretched arm becomes unstable first, because its smallest inertia is lower than in
all other configurations. The script writes build/pd_discrete/result.png.
"""

import sys
from pathlib import Path

import numpy as np

from rigidblocks import PDController, RepeatingSequence, RobotPlant, System, crba, planar2, simulate
from rigidblocks.cosim.graph.block_merging import ContinuousSystem

BUILD = Path("build/pd_discrete")
KP, TIME_CONSTANT = 800.0, 0.015
T_STOP, DT = 4.0, 1e-3
SAMPLE_TIMES = (1e-3, 2e-3, 4e-3, 8e-3)


def loop(sample_time=None):
    """Return the robot, its command and its continuous or sampled controller as a system."""
    kp, kd = [KP, KP], [KP * TIME_CONSTANT] * 2
    system = System()
    system.add("robot", RobotPlant(planar2()), h=0.5e-3)
    system.add(
        "command", RepeatingSequence(t=[0, 1, 2, 3, 4], y=[[0, 0], [1, 2], [1, 2], [0, 0], [0, 0]])
    )
    system.add("pd", PDController(kp, kd, sample_time=sample_time))
    system.connect("command.y", "pd.q_ref")
    system.connect("robot.q", "pd.q")
    system.connect("pd.tau", "robot.tau")
    if sample_time is None:
        system.connect("command.slope", "pd.qd_ref")
        system.connect("robot.qd", "pd.qd")
    return system


def single(block):
    """Return a system with only this block."""
    system = System()
    system.add("all", block, h=0.25e-3)
    return system


def spectral_radius(Ts):
    """Return the spectral radius of the sampled loop, linearized about the stretched arm at rest.

    The loop is stable if the radius is below 1. Both joints have the same gains, so each eigenvalue
    m of H gives a separate loop. Its input u is held for Ts: m dv/dt = u, with u = -kp e - kd (e -
    e_last) / Ts.
    """
    kp, kd = KP, KP * TIME_CONSTANT
    loops = []
    for m in np.linalg.eigvalsh(crba(planar2(), np.zeros(2))):
        u = -np.array([kp + kd / Ts, 0.0, -kd / Ts]) / m
        loops.append(
            [np.array([1, Ts, 0]) + Ts**2 / 2 * u, np.array([0, 1, 0]) + Ts * u, [1, 0, 0]]
        )
    return np.abs(np.linalg.eigvals(loops)).max()


def distance(result, continuous):
    """Return the largest difference of the joint positions at the common times [rad]."""
    stride = round(result.time[1] / continuous.time[1])
    return np.abs(result["robot.q"] - continuous["all.robot.q"][::stride]).max()


def draw(continuous, sampled, path):
    """Draw the command and the joint positions of all runs."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 6), layout="constrained")
    for k, axis in enumerate(figure.subplots(2, sharex=True)):
        axis.plot(continuous.time, continuous["all.command.y"][:, k], "k:", label="command")
        for Ts in (8e-3, 4e-3):
            axis.plot(
                sampled[Ts].time,
                sampled[Ts]["robot.q"][:, k],
                label=f"sampled every {Ts * 1e3:g} ms",
            )
        axis.plot(continuous.time, continuous["all.robot.q"][:, k], label="continuous")
        axis.set_ylabel(f"q[{k + 1}] [rad]")
        axis.grid(alpha=0.3)
        axis.legend(loc="upper right", fontsize="small")
    axis.set_xlabel("time [s]")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main():
    """Run all controllers, print and check the differences, and draw."""
    continuous = simulate(single(ContinuousSystem(loop())), T_STOP, DT, progress=False)
    sampled = {
        Ts: simulate(loop(Ts), T_STOP, Ts, form="fused", progress=False) for Ts in SAMPLE_TIMES
    }
    error = np.abs(continuous["all.robot.q"] - continuous["all.command.y"]).max(axis=0)
    print(
        f"continuous PD, gain {KP:g}: largest distance from the command {error[0]:.3f} and "
        f"{error[1]:.3f} rad"
    )
    print(
        f"\n{'sample time':>12} {'from continuous':>16} {'by sample time':>16} "
        f"{'largest eigenvalue':>20}"
    )
    failed = []
    for Ts, result in sampled.items():
        apart, radius = distance(result, continuous), spectral_radius(Ts)
        stable = "" if radius < 1 else "(unstable)"
        print(
            f"{Ts * 1e3:9.1f} ms {apart:12.2e} rad {apart / Ts:10.2f} rad/s {radius:13.4f} {stable}"
        )
        if not (1.0 < apart / Ts < 2.0 if radius < 1 else apart > 0.1):
            failed.append(Ts)
    draw(continuous, sampled, BUILD / "result.png")
    print(f"\nwrote {BUILD}/result.png")
    if failed:
        sys.exit(f"at the sample times {failed} s the distance is not what the eigenvalues say")


if __name__ == "__main__":
    main()
