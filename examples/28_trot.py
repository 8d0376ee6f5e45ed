"""A quadruped trots for ten seconds; PD control of its joints follows a fixed gait.

The gait does not depend on the position of the robot. The plant has rigid contact with Coulomb
friction: feet land, stick, slip and lift off within steps of 1 ms. Diagonally opposite legs swing
together, twice per second.

The script checks the contact forces (no pull, friction within its cone), the trunk height and the
distance covered. It also checks that only the forces on the feet and the weight change the
momentum.

The plant also runs as a native FMU, with the same results. The script writes
build/trot/result.html, which animates the run.
"""

import sys
import time
from pathlib import Path

import numpy as np

from rigidblocks import (
    PDController,
    RepeatingSequence,
    RigidContactPlant,
    System,
    animate,
    export_fmu,
    simulate,
)
from rigidblocks.dynamics import momentum
from rigidblocks.robot.robots import quadruped

BUILD = Path("build/trot")
T_STOP, DT, MU = 10.0, 1e-3, 0.8
PERIOD, LIFT, STRIDE = 0.5, 0.35, 0.18  # [s, rad, rad]
STANCE = np.array([0.0, 0.7, -1.4])  # joints of a leg: abduction, hip, knee
START = np.concatenate([[1, 0, 0, 0, 0, 0, 0.33], np.tile(STANCE, 4)])


def leg(phase):
    """Return the joints of a leg at phases (n,) [rad]; the leg swings forward from 0 to pi."""
    lift = np.maximum(np.sin(phase), 0.0)
    hip = STANCE[1] + LIFT * lift + STRIDE * np.cos(phase)
    return np.stack([0 * phase, hip, STANCE[2] - 2 * LIFT * lift], axis=1)


def gait():
    """Return a gait period as a repeating sequence; diagonally opposite legs move together."""
    t = np.linspace(0, PERIOD, 17)
    phase = 2 * np.pi * t / PERIOD
    shifts = (0.0, np.pi, np.pi, 0.0)
    return RepeatingSequence(t=t, y=np.hstack([leg(phase + shift) for shift in shifts]))


def trot(robot):
    """Return the system of the robot, its controller and the gait."""
    system = System()
    system.add("robot", robot)
    system.add("pd", PDController([150.0] * 12, [3.0] * 12))
    system.add("gait", gait())
    wires = (
        ("gait.y", "pd.q_ref"),
        ("robot.q[8:19]", "pd.q"),
        ("robot.qd[7:18]", "pd.qd"),
        ("pd.tau", "robot.tau[7:18]"),
    )
    for source, target in wires:
        system.connect(source, target)
    return system


def checks(result, model):
    """Yield the name of each check, the computed value, its lower and its upper bound."""
    f = result["robot.f_contact"][:, :, 3:]
    shanks = [k for k, name in enumerate(model.body_names) if name.endswith("shank")]
    feet = f[:, shanks]
    beyond = np.hypot(feet[..., 0], feet[..., 1]) - MU * feet[..., 2]
    yield "the ground pulls [N]", max(0.0, -feet[..., 2].min()), 0.0, 1e-9
    yield "friction beyond its cone [N]", beyond.max(), -np.inf, 1e-9
    yield "momentum from nowhere [N s]", unexplained_momentum(result, model), 0.0, 0.1
    q = result["robot.q"][1000:]
    yield "least height of the trunk [m]", q[:, 6].min(), 0.28, 0.35
    lean = 2 * np.linalg.norm(q[:, 1:3], axis=1)
    yield "it leans by [rad]", lean.max(), 0.0, 0.15
    yield "way in ten seconds [m]", np.linalg.norm(q[-1, 4:6]), 2.0, 10.0
    yield "feet on the ground at a time", result["robot.in_contact"].sum(axis=1).mean(), 1.5, 3.5
    yield "deepest contact [m]", result["robot.depth"].max(), 0.0, 1e-4


def unexplained_momentum(result, model):
    """Return the largest error [N s] of the momentum balance with contact forces and weight."""
    rows = zip(result["robot.q"], result["robot.qd"], strict=True)
    p = np.array([momentum(model, q, qd)[3:] for q, qd in rows])
    weight = sum(body.m for body in model.inertia) * model.gravity
    f = result["robot.f_contact"][:, :, 3:].sum(axis=1)
    given = np.cumsum((f + weight) * DT, axis=0)
    return np.abs((p - p[0]) - (given - given[0])).max()


def main():
    """Run the plant and its FMU, check, and write the page."""
    model = quadruped()
    robot = RigidContactPlant(model, q0=START, mu=MU)
    system = trot(robot)
    result = simulate(system, T_STOP, DT, progress=False)
    fmu = export_fmu(robot, BUILD / "quadruped.fmu")
    begin = time.process_time()
    run = simulate(trot(fmu), T_STOP, DT, progress=False)
    faster = T_STOP / (time.process_time() - begin)
    apart = np.abs(run["robot.q"] - result["robot.q"]).max()
    print(f"native FMU: {faster:.0f} x real time at 1 kHz with its controller,", end=" ")
    print(f"{apart:.1e} from the block without an FMU\n")
    trots = apart < 1e-12
    for name, found, least, most in checks(result, model):
        trots = trots and least <= found <= most
        print(f"{name:32} {found:10.2e}  within {least:g} .. {most:g}")
    begin = time.process_time()
    simulate(system, T_STOP, DT, progress=False)
    print(
        f"\n{T_STOP / (time.process_time() - begin):.0f} x real time at 1 kHz with its controller"
    )
    animate(result, system, BUILD / "result.html", signals=["robot.contacts", "pd.tau"])
    print(f"\nopen {BUILD}/result.html to see it trot")
    if not trots:
        sys.exit("it does not trot as it must")


if __name__ == "__main__":
    main()
