"""A planar three-link robot whose joints 2 and 3 are coupled by a gear, as a block.

This is demo 6 of spatial_v2. A PD controller (gain 1000, time constant 0.015 s) makes q1 and the
sum q2 + q3 follow a command. The gear imposes q2 = q3.

In this example the constraint holds exactly, because the equations of motion are projected onto the
independent variables, q = G y (RBDA 9.6). A force on the sum acts on both joints. The script
compares the accelerations with a solution that includes the constraint force (RBDA Eq 8.4). The
script writes build/geared_joints/result.png.
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from rigidblocks import (
    Block,
    Model,
    PDController,
    Port,
    RepeatingSequence,
    System,
    crba,
    energy,
    simulate,
)
from rigidblocks.dynamics import bias_force
from rigidblocks.dynamics.transmissions import Gears, geared_forward_dynamics, gears
from rigidblocks.robot.robots import planar3

BUILD = Path("build/geared_joints")
KP, TIME_CONSTANT = 1000.0, 0.015
T_STOP, DT = 10.0, 1e-3
SUMS = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]])  # controlled variables: q1 and q2 + q3
CONSTRAINT = np.array([[0.0, 1.0, -1.0]])  # q2 - q3 = 0


@dataclass(frozen=True, eq=False)
class GearedPlant(Block):
    """Robot with a gear: inputs are forces on q1 and q2 + q3; outputs are these variables and q."""

    model: Model = field(default_factory=planar3)

    @property
    def gears(self) -> Gears:
        """Gear that drives q3 by q2 with the ratio 1."""
        return gears(self.model, {2: {1: 1.0}})

    @property
    def inputs(self):
        return (Port("tau", (2,), "N.m", "forces on q1 and on q2 + q3", 0.0),)

    @property
    def states(self):
        return (
            Port("y", (2,), "rad", "independent joint positions", 0.0, rate="yd"),
            Port("yd", (2,), "rad/s", "independent joint velocities", 0.0),
        )

    @property
    def outputs(self):
        return (
            Port("q", (3,), "rad", "joint positions"),
            Port("qd", (3,), "rad/s", "joint velocities"),
            Port("qdd", (3,), "rad/s2", "joint accelerations"),
            Port("sums", (2,), "rad", "q1 and q2 + q3"),
            Port("rates", (2,), "rad/s", "their rates"),
            Port("energy", (), "J", "mechanical energy"),
        )

    def derivative(self, x, u):
        return {"y": x.yd, "yd": self._ydd(x, u)}

    def output(self, x, u):
        G = self.gears.G
        q, qd = G @ x.y, G @ x.yd
        motion = {"q": q, "qd": qd, "qdd": G @ self._ydd(x, u)}
        return {**motion, "sums": SUMS @ q, "rates": SUMS @ qd, "energy": energy(self.model, q, qd)}

    def _ydd(self, x, u):
        return geared_forward_dynamics(self.model, self.gears, x.y, x.yd, SUMS.T @ u.tau)


def loop():
    """Return the robot, its controller and its command as a system."""
    system = System()
    system.add("robot", GearedPlant())
    system.add(
        "command",
        RepeatingSequence(t=[0, 1, 2, 3, 4], y=[[0, 0], [1, 2.5], [1, 2.5], [0, 0], [0, 0]]),
    )
    system.add("pd", PDController(kp=[KP, KP], kd=[KP * TIME_CONSTANT] * 2))
    wires = {
        "command.y": "q_ref",
        "command.slope": "qd_ref",
        "robot.sums": "q",
        "robot.rates": "qd",
    }
    for source, target in wires.items():
        system.connect(source, f"pd.{target}")
    system.connect("pd.tau", "robot.tau")
    return system


def with_a_constraint_force(model, q, qd, tau):
    """Return the accelerations that solve H qdd + C = tau + K^T lambda, K qdd = 0."""
    H, K = crba(model, q), CONSTRAINT
    A = np.block([[H, K.T], [K, np.zeros((1, 1))]])
    return np.linalg.solve(A, np.concatenate([tau - bias_force(model, q, qd), [0.0]]))[:3]


def main():
    """Run the robot, check the constraint force and the work of the controller, and draw."""
    result = simulate(loop(), T_STOP, DT, form="fused", progress=False)
    q, qd, tau, model = result["robot.q"], result["robot.qd"], result["pd.tau"], planar3()
    # a force acts after its sample, so each acceleration belongs to the force of the previous
    # sample
    rows = range(1, len(q), 500)
    by_force = np.array(
        [with_a_constraint_force(model, q[k], qd[k], SUMS.T @ tau[k - 1]) for k in rows]
    )
    apart = np.abs(result["robot.qdd"][list(rows)] - by_force).max() / np.abs(by_force).max()
    work = np.sum(tau[:-1] * np.diff(result["robot.sums"], axis=0))
    gained = result["robot.energy"][-1] - result["robot.energy"][0]
    figures = {
        "q2 - q3 [rad]": (np.abs(q[:, 1] - q[:, 2]).max(), 1e-15),
        "accelerations from those with a constraint force": (apart, 1e-9),
        "work of the controller less the energy gained [J]": (abs(work - gained), 1e-6),
        "distance from the command [rad]": (
            np.abs(result["command.y"] - result["robot.sums"]).max(),
            0.2,
        ),
    }
    for name, (value, bound) in figures.items():
        print(f"{name:50} {value:9.2e}   at most {bound:.1e}")
    result.plot("command.y", "robot.sums", "robot.q", "pd.tau", path=BUILD / "result.png")
    print(f"\nwrote {BUILD}/result.png")
    if wrong := [name for name, (value, bound) in figures.items() if not value <= bound]:
        sys.exit(f"too large: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
