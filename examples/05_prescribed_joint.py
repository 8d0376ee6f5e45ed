"""A chain adrift in space turns its first joint at a constant speed: what does the rest of it do?

Demo 3 of spatial_v2: a free-floating chain whose joint 7, the first behind the six of the floating
base, follows a prescribed motion, the command pi rad/s with position gain 10000 and velocity gain
140; all other joints are free (hybrid dynamics, RBDA chapter 9). Nothing acts from outside, so the
momentum stays zero and the centre of mass at rest, and the work of the prescribed joint is all the
energy there is. Writes build/prescribed_joint/result.png.
"""

import sys
from pathlib import Path

import numpy as np

from rigidblocks import RepeatingSequence, System, auto_tree, simulate
from rigidblocks.dynamics.momentum import centre_of_mass, momentum
from rigidblocks.library import HybridPlant
from rigidblocks.model.floating_chain import floating_base
from rigidblocks.system.continuous import ContinuousSystem

BUILD = Path("build/prescribed_joint")
SPEED, KP, KD = np.pi, 1e4, 140.0
T_STOP, DT, H = 1.0, 1e-3, 0.25e-3
JOINT = 6  # the seventh


def adrift(model):
    """The chain with the command to its joint, as one continuous block in a system of its own."""
    parts = System()
    parts.add("chain", HybridPlant(model, prescribed=(JOINT,), kp=KP, kd=KD))
    parts.add("command", RepeatingSequence(t=[0.0, 10.0], y=[[0.0], [10.0 * SPEED]]))
    parts.connect("command.y", "chain.q_ref")
    parts.connect("command.slope", "chain.qd_ref")
    system = System()
    system.add("all", ContinuousSystem(parts), h=H)
    return system


def error_in_closed_form(t):
    """The error of the prescribed joint: e'' + kd e' + kp e = 0 from e = 0, e' = SPEED on."""
    sigma, omega = KD / 2, np.sqrt(KP - KD**2 / 4)
    return SPEED / omega * np.exp(-sigma * t) * np.sin(omega * t)


def work(power):
    """That of a power (n,), by Simpson's rule [J]."""
    return DT / 3 * (power[0] + 4 * power[1::2].sum() + 2 * power[2:-1:2].sum() + power[-1])


def checks(result, model):
    """What must hold, with what was found and the most that it may be."""
    t, q, qd = result.time, result["all.chain.q"], result["all.chain.qd"]
    every = range(0, len(t), 20)
    size = max(np.abs(body.m) for body in model.inertia) * SPEED  # of a momentum here
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
    """Runs the chain and checks what must be conserved."""
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
