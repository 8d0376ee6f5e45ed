"""A free-floating chain whose first joint turns at a prescribed speed.

This is demo 3 of spatial_v2. Joint 7, the first joint after the six of the floating base, follows a
prescribed motion (hybrid dynamics, RBDA chapter 9). The command is pi rad/s with position gain
10000 and velocity gain 140; all other joints are free.

No external force acts, so the momentum stays zero and the centre of mass stays at rest. The energy
of the chain equals the work of the prescribed joint. The script writes
build/prescribed_joint/result.png.
"""

import sys
from pathlib import Path

import numpy as np

from rigidblocks import RepeatingSequence, System, auto_tree, simulate
from rigidblocks.cosim.graph.block_merging import ContinuousSystem
from rigidblocks.dynamics.energy_momentum import centre_of_mass, momentum
from rigidblocks.dynamics.floating_base import floating_base
from rigidblocks.library import HybridPlant

BUILD = Path("build/prescribed_joint")
SPEED, KP, KD = np.pi, 1e4, 140.0
T_STOP, DT, H = 1.0, 1e-3, 0.25e-3
JOINT = 6  # the seventh joint, counted from 0


def adrift(model):
    """Return a system with the chain and the command of its joint as one continuous block."""
    parts = System()
    parts.add("chain", HybridPlant(model, prescribed=(JOINT,), kp=KP, kd=KD))
    parts.add("command", RepeatingSequence(t=[0.0, 10.0], y=[[0.0], [10.0 * SPEED]]))
    parts.connect("command.y", "chain.q_ref")
    parts.connect("command.slope", "chain.qd_ref")
    system = System()
    system.add("all", ContinuousSystem(parts), h=H)
    return system


def error_in_closed_form(t):
    """Return the error of the prescribed joint: e'' + kd e' + kp e = 0, e(0) = 0, e'(0) = SPEED."""
    sigma, omega = KD / 2, np.sqrt(KP - KD**2 / 4)
    return SPEED / omega * np.exp(-sigma * t) * np.sin(omega * t)


def work(power):
    """Return the integral of the power values (n,) over time, by Simpson's rule [J]."""
    return DT / 3 * (power[0] + 4 * power[1::2].sum() + 2 * power[2:-1:2].sum() + power[-1])


def checks(result, model):
    """Yield the name of each check, the computed value and its bound."""
    t, q, qd = result.time, result["all.chain.q"], result["all.chain.qd"]
    every = range(0, len(t), 20)
    size = max(np.abs(body.m) for body in model.inertia) * SPEED  # momentum scale of this example
    h = np.array([momentum(model, q[k], qd[k]) for k in every])
    com = np.array([centre_of_mass(model, q[k]) for k in every])
    e = (result["all.command.y"] - q[:, [JOINT]])[:, 0]
    off = np.abs(e - error_in_closed_form(t)).max()
    spent = work(result["all.chain.tau_prescribed"][:, 0] * qd[:, JOINT])
    energy = result["all.chain.energy"]
    yield "momentum, of about 3 N s", np.abs(h).max() / size, 1e-8
    yield "motion of the centre of mass [m]", np.abs(com - com[0]).max(), 1e-8
    yield "joint 7 from the closed form of its error [rad]", off, 1e-6
    yield "speed of joint 7 at the end from pi [rad/s]", abs(qd[-1, JOINT] - SPEED), 1e-6
    yield "work of joint 7 from the energy [J], relative", abs(spent / energy[-1] - 1), 1e-4
    yield "pitch of the base [rad], singular at 1.57", np.abs(q[:, 4]).max(), 1.5


def main():
    """Run the chain and check the conserved quantities."""
    model = floating_base(auto_tree(4, 1, np.pi / 3)).with_gravity((0.0, 0.0, 0.0))
    result, wrong = simulate(adrift(model), T_STOP, DT, progress=False), []
    for name, value, bound in checks(result, model):
        print(f"{name:50} {value:9.2e}   at most {bound:.1e}")
        wrong += [] if value < bound else [name]
    result.plot(
        "all.chain.q", "all.chain.tau_prescribed", "all.chain.energy", path=BUILD / "result.png"
    )
    print(f"\nwrote {BUILD}/result.png")
    if wrong:
        sys.exit(f"too large: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
