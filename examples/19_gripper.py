"""A two-finger gripper lifts a block from a table if the friction coefficient is large enough.

`BodyContact` models the contacts between the block's corners and the pads of the moving fingers,
and between the corners and the fixed table. The robot, the contact and the hand's controller form
one continuous block. Each finger closes with the force F; the acceleration of the hand is at most
a. By Coulomb's law, the block rises with the hand if

    2 mu F > m (g + a)

Otherwise the block stays on the table, and the fingers then close on each other. The script checks
both cases, and that the forces on fingers and block are opposite. It writes
build/gripper/result.png.
"""

import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from rigidblocks import Block, ContinuousSystem, Model, Port, RobotPlant, System, simulate
from rigidblocks.contact import BodyContact, ContactPair, Plane
from rigidblocks.library import QuinticProfile
from rigidblocks.library.common_ports import joint_ports
from rigidblocks.robot.robots import gripper

BUILD = Path("build/gripper")
T_STOP, DT = 2.0, 1e-3
BEGIN, LASTS, LIFT, LOW = (
    0.6,
    0.8,
    0.2,
    0.03,
)  # start of the lift [s], its duration [s], its distance [m] and its initial height [m]
F, G, M = 5.0, 9.81, 0.2
FINGERS, BLOCK, TABLE = (1, 2), 3, -1


@dataclass(frozen=True, eq=False)
class Grip(Block):
    """Joint forces of hand and fingers.

    The hand follows its reference. The fingers close with the force F and stay centred.
    """

    model: Model

    @cached_property
    def inputs(self):
        """Joint positions q and velocities qd of the robot; the reference of the hand."""
        motion = joint_ports(self.model, q="joint positions", qd="joint velocities")
        return (
            *motion,
            Port("z_ref", (1,), "m", "height of the hand"),
            Port("zd_ref", (1,), "m/s", "its slope"),
        )

    @cached_property
    def outputs(self):
        """Joint forces tau of the robot."""
        return joint_ports(self.model, tau="joint forces")

    def output(self, u):
        carried = sum(body.m for body in self.model.inertia[:BLOCK]) * G
        lift = 2000.0 * (u.z_ref[0] - u.q[0]) + 100.0 * (u.zd_ref[0] - u.qd[0]) + carried
        apart = 200.0 * (u.q[1] - u.q[2]) / 2
        left, right = F - apart - 20.0 * u.qd[1], F + apart - 20.0 * u.qd[2]
        return {"tau": np.array([lift, left, right, *np.zeros(6)])}


def gripping():
    """Return gripper, block, table, controller and contacts as one part."""
    model, parts = gripper(), System()
    fingers = [ContactPair(BLOCK, finger, model.contact[finger][0]) for finger in FINGERS]
    pad = Plane((-1.0, 0.0, 0.0), (-0.01, 0.0, 0.0))  # right pad, which faces the left finger
    pairs = (*fingers, ContactPair(BLOCK, TABLE, Plane()), ContactPair(*FINGERS, pad))
    q0 = [LOW, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.025]
    parts.add("robot", RobotPlant(model, q0, external_wrenches=True))
    parts.add("contact", BodyContact(model, pairs, K=1e4, D=20.0, mu=0.5))
    parts.add("grip", Grip(model))
    parts.add("rise", QuinticProfile((LOW,), (LOW + LIFT,), LASTS, begin=BEGIN, unit="m"))
    wires = {
        "contact.q": "robot.q",
        "contact.qd": "robot.qd",
        "robot.f_ext": "contact.f_ext",
        "grip.q": "robot.q",
        "grip.qd": "robot.qd",
        "grip.z_ref": "rise.y",
        "grip.zd_ref": "rise.slope",
        "robot.tau": "grip.tau",
    }
    for target, source in wires.items():
        parts.connect(source, target)
    return ContinuousSystem(parts)


def run(block, mu):
    """Return the result with the friction coefficient mu."""
    system = System()
    system.add("all", block, start={"contact.mu": mu}, h=2.5e-4)
    return simulate(system, T_STOP, DT, progress=False)


def lifted(result):
    """Return the distance by which the block rises [m]."""
    z = result["all.robot.q"][:, 9]
    return float(z[-1] - z[round(BEGIN / DT)])


def left_over(result):
    """Return the largest magnitude of the sum of all contact forces except table forces [N].

    Opposite forces act on finger and block, so the sum is zero up to rounding errors.
    """
    on_bodies, on_points = result["all.contact.f_ext"][..., 3:], result["all.contact.force"]
    return np.abs(on_bodies.sum(axis=1) - on_points[:, 16:24].sum(axis=1)).max()


def draw(results):
    """Draw heights, finger positions and the force of a finger, for each friction coefficient."""
    figure = Figure(figsize=(9, 7.5), layout="constrained")
    height, finger, push, carry = figure.subplots(4, sharex=True)
    first = next(iter(results.values()))
    height.plot(first.time, first["all.robot.q"][:, 0] - LOW + 0.025, "k--", label="hand")
    for (mu, result), style in zip(results.items(), ("-", "--", "-", "--"), strict=True):
        force = result["all.contact.force"]  # 8 corners per pair: left finger, right finger, ...
        height.plot(result.time, result["all.robot.q"][:, 9], style, label=f"block, mu = {mu:.2f}")
        finger.plot(result.time, 1e3 * result["all.robot.q"][:, 1], style, label=f"mu = {mu:.2f}")
        push.plot(result.time, force[:, :8, 0].sum(axis=1), style, label=f"mu = {mu:.2f}")
        carry.plot(result.time, force[:, :16, 2].sum(axis=1), style, label=f"mu = {mu:.2f}")
    carry.axhline(M * G, color="0.5", linestyle=":", label="weight")
    height.set_ylabel("height [m]")
    finger.set_ylabel("left finger [mm]")
    push.set_ylabel("push of a finger [N]")
    carry.set(xlabel="time [s]", ylabel="friction upward [N]")
    for axis in (height, finger, push, carry):
        axis.grid(alpha=0.3)
        axis.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    BUILD.mkdir(parents=True, exist_ok=True)
    figure.savefig(BUILD / "result.png", dpi=120)


def main():
    """Lift with friction above and below the required value, compare and draw."""
    a = 10 / np.sqrt(3) * LIFT / LASTS**2  # largest acceleration of a quintic profile
    needed = M * (G + a) / (2 * F)
    block, kept = gripping(), True
    results = {
        round(share * needed, 4): run(block, share * needed) for share in (0.5, 0.8, 1.1, 2.0)
    }
    print(
        "to hold the block takes mu = "
        f"{needed:.3f}\n\n{'mu':>8}{'2 mu F / m (g + a)':>22}{'lifted by [m]':>16}"
    )
    for mu, result in results.items():
        up = lifted(result)
        print(f"{mu:8.3f}{mu / needed:22.2f}{up:16.4f}")
        kept = kept and (abs(up - LIFT) < 2e-3 if mu > needed else up < 0.5 * LIFT)
        kept = kept and left_over(result) < 1e-9
    draw(results)
    print(f"\nwrote {BUILD}/result.png")
    if not kept:
        sys.exit("not as friction has it")


if __name__ == "__main__":
    main()
