"""The planar robot under a PD controller with a wider command, and under a sampled one: how fast
must it sample?

Demos 1 and 2 of spatial_v2: the demo planar2ctrl with the gain 800 and the second joint's command
up to 2 rad, then the same controller at sample instants, with the backward difference of the error
and its output held. The distance between the two falls in proportion to the sample time, until it
is too long for the loop to be stable: with the arm stretched out, where its smallest inertia is
least, sooner than anywhere else. Writes build/pd_discrete/result.png.
"""

import sys
from pathlib import Path

import numpy as np

from rigidblocks import PDController, RepeatingSequence, RobotPlant, System, crba, planar2, simulate
from rigidblocks.system.continuous import ContinuousSystem

BUILD = Path("build/pd_discrete")
KP, TIME_CONSTANT = 800.0, 0.015
T_STOP, DT = 4.0, 1e-3
SAMPLE_TIMES = (1e-3, 2e-3, 4e-3, 8e-3)


def loop(sample_time=None):
    """The robot, its command and its controller, sampled or not."""
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


def alone(block):
    """The system of nothing but this block."""
    system = System()
    system.add("all", block, h=0.25e-3)
    return system


def spectral_radius(Ts):
    """The largest eigenvalue of the sampled loop about the stretched arm at rest; the loop is
    stable where it is below 1.

    Both joints have the same gains, so each eigenvalue m of H is a loop of its own: m dv/dt = u,
    held for Ts, with u = -kp e - kd (e - e_last) / Ts.
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
    """The largest distance of the joint positions at their common times [rad]."""
    stride = round(result.time[1] / continuous.time[1])
    return np.abs(result["robot.q"] - continuous["all.robot.q"][::stride]).max()


def draw(continuous, sampled, path):
    """Draws the command and the runs."""
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
    """Runs all, prints and checks the distances, and draws."""
    continuous = simulate(alone(ContinuousSystem(loop())), T_STOP, DT, progress=False)
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
