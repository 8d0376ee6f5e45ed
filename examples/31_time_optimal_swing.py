"""A five-bar mechanism of a JSON file swings in the least time between two poses at rest.

Two motors at the supports drive the closed loop, with limited torques. `casadi_function` returns
the dynamics of the closed-loop plant, and IPOPT, which is part of CasADi, solves the optimal
control problem by multiple shooting:

    minimize T,   x[k+1] = RK4(x[k], u[k], T / n),   |u| <= u_max

The torques are constant in each of the n intervals. The initial configuration satisfies the loop
constraints, and the dynamics preserve them. The final constraints therefore contain only the angles
of the two motors.
The script simulates the plant with the optimal torques and prints the error of the final pose. It
writes build/time_optimal_swing/result.png with the angles and the torques of the motors.
"""

import sys
from pathlib import Path
from time import process_time
from typing import NamedTuple

import casadi as ca
import numpy as np
from matplotlib.figure import Figure

from rigidblocks import System, casadi_function, load_model, prepare, save_model
from rigidblocks.library import ClosedLoopPlant
from rigidblocks.robot.robots import five_bar

BUILD = Path("build/time_optimal_swing")
FILE = BUILD / "five_bar.json"
START = five_bar(np.radians(160.0), np.radians(100.0)).q0
GOAL = five_bar(np.radians(80.0), np.radians(20.0)).q0
MOTORS = [0, 2]  # joints at the two supports
TORQUE, INTERVALS = 60.0, 30  # largest torque [N m], intervals of constant torque
OPTIONS = {"expand": True, "print_time": False, "ipopt": {"print_level": 0, "sb": "yes"}}


class Swing(NamedTuple):
    """Time-optimal swing.

    Attributes:
        T: Duration [s].
        torques: Torques of the two motors (n, 2) [N m].
        states: States [q; qd] (n + 1, 8) at the ends of the intervals.
        solving: Processor time of the solver [s].
    """

    T: float
    torques: np.ndarray
    states: np.ndarray
    solving: float


def plant_of_file():
    """Write the robot to a JSON file and return the closed-loop plant of the file."""
    BUILD.mkdir(parents=True, exist_ok=True)
    save_model(five_bar().model, FILE)
    return ClosedLoopPlant(load_model(FILE).model, q0=START)


def optimal_swing(plant, gravity=(0.0, -9.81), torque=TORQUE, n=INTERVALS):
    """Return the fastest swing from START to GOAL at rest with torques up to `torque` [N m]."""
    f = casadi_function(plant, "derivative")  # (t, x, u, p) -> xdot
    x, u, h = ca.SX.sym("x", 8), ca.SX.sym("u", 2), ca.SX.sym("h")
    tau = ca.SX.zeros(4)
    tau[MOTORS] = torque * u

    def rate(state):
        return f(0.0, state, tau, list(gravity))

    k1 = rate(x)
    k2 = rate(x + h / 2 * k1)
    k3 = rate(x + h / 2 * k2)
    k4 = rate(x + h * k3)
    step = ca.Function("step", [x, u, h], [x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)])

    X, U, T = ca.MX.sym("X", 8, n + 1), ca.MX.sym("U", 2, n), ca.MX.sym("T")
    gaps = X[:, 1:] - step.map(n)(X[:, :-1], U, T / n)
    problem = {"x": ca.veccat(X, U, T), "f": T, "g": ca.vec(gaps)}
    solver = ca.nlpsol("swing", "ipopt", problem, OPTIONS)

    low, high = np.full((8, n + 1), -np.inf), np.full((8, n + 1), np.inf)
    low[:, 0] = high[:, 0] = np.append(START, np.zeros(4))
    for k in MOTORS:
        low[[k, 4 + k], n] = high[[k, 4 + k], n] = GOAL[k], 0.0
    guess = np.zeros((8, n + 1))
    guess[:4] = START[:, None] + (GOAL - START)[:, None] * np.linspace(0.0, 1.0, n + 1)
    begin = process_time()
    found = solver(
        x0=[*guess.T.ravel(), *np.zeros(2 * n), 1.0],
        lbx=[*low.T.ravel(), *-np.ones(2 * n), 0.05],
        ubx=[*high.T.ravel(), *np.ones(2 * n), 10.0],
        lbg=0.0,
        ubg=0.0,
    )
    solving = process_time() - begin
    if not solver.stats()["success"]:
        raise RuntimeError(f"IPOPT found no swing: {solver.stats()['return_status']}")
    values, size = np.array(found["x"]).ravel(), 8 * (n + 1)
    states, motors = values[:size].reshape(n + 1, 8), values[size:-1].reshape(n, 2)
    return Swing(float(values[-1]), torque * motors, states, solving)


def replay(plant, swing):
    """Return q and qd at the end of a simulation of the plant with the optimal torques."""
    n, system, tau = len(swing.torques), System(), np.zeros(4)
    system.add("plant", plant)
    with prepare(system, swing.T / n, h=swing.T / (20 * n)) as run:
        for motors in swing.torques:
            tau[MOTORS] = motors
            run["plant.tau"] = tau
            run.step()
        return run["plant.q"], run["plant.qd"]


def draw(swing):
    """Write a figure with the angles and the torques of the motors."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    t = np.linspace(0.0, swing.T, len(swing.states))
    labels = [f"motor {k + 1}" for k in range(len(MOTORS))]
    left.plot(t, np.degrees(swing.states[:, MOTORS]), label=labels)
    left.set(xlabel="time [s]", ylabel="angle [deg]", title="motor angles")
    right.step(t, np.vstack([swing.torques, swing.torques[-1:]]), where="post", label=labels)
    right.set(xlabel="time [s]", ylabel="torque [N m]", title="motor torques")
    right.legend()
    figure.savefig(BUILD / "result.png", dpi=120)


def main():
    """Print the optimal swing and return True if the simulated plant reaches the goal."""
    plant = plant_of_file()
    swing = optimal_swing(plant)
    q, qd = replay(plant, swing)
    error, speed = np.abs(q - GOAL).max(), np.abs(qd).max()
    saturated = np.mean(np.abs(swing.torques).max(axis=1) > 0.999 * TORQUE)
    print(f"the swing takes {swing.T:.4f} s; IPOPT solved the problem in {swing.solving:.2f} s")
    print(f"a motor has its largest torque in {100 * saturated:.0f} % of the intervals")
    print(f"the simulated plant ends {error:.1e} rad from the goal, at {speed:.1e} rad/s")
    draw(swing)
    return error < 1e-3 and speed < 1e-2


if __name__ == "__main__":
    sys.exit(not main())
