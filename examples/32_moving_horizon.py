"""Moving-horizon estimation of an arm that drops its payload, with `fit`.

The estimator fits the model to the measurements in a window of 0.3 s. It estimates the joint
positions and velocities at the start of the window, and the mass of the payload. The window then
moves by 0.1 s. The estimates of the previous window predict the velocities at the start of the next
window. These velocities are additional measurements of its first sample (arrival cost):

    min over q_0, qd_0, m of sum of ((q_measured - q) / sigma)^2 + ((qd_predicted - qd_0) / s)^2

The script prints the estimated mass of each window with its 95 % interval, and writes
build/moving_horizon/result.png.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from rigidblocks import RobotPlant, System, planar2, prepare
from rigidblocks.library import Frame
from rigidblocks.library.plant_ports import TunableInertia
from rigidblocks.studies.fit import fit

BUILD = Path("build/moving_horizon")
DT, WINDOW, MOVE, T_STOP = 0.01, 30, 10, 1.6  # s, samples, samples, s
DROP, MASSES = 0.8, (0.7, 0.2)  # time [s] at which the arm drops a part of its payload [kg]
SIGMA, ARRIVAL = 1e-3, 0.05  # standard deviations: measured q [rad], predicted qd [rad/s]


def arm():
    """Return a system with an arm that has an unknown payload at its tool."""
    payload = TunableInertia(payload=Frame("tool", "body2"))
    system = System()
    system.add("arm", RobotPlant(planar2(), inertias=payload))
    return system


def torque(t):
    return np.array([8.0 * np.sin(2 * np.pi * 0.9 * t), 3.0 * np.cos(2 * np.pi * 1.3 * t)])


def measured_run(seed=4):
    """Return times (n,), torques, noisy positions and true velocities (n, 2) of a run."""
    rng, rows = np.random.default_rng(seed), []
    with prepare(arm(), DT) as run:
        run.reset(start={"arm.payload_mass": MASSES[0]})
        for k in range(round(T_STOP / DT) + 1):
            if k:
                run.step()
            rows.append((run.t, torque(run.t), run["arm.q"], run["arm.qd"]))
            run["arm.tau"] = torque(run.t)
            if k == round(DROP / DT):
                run["arm.payload_mass"] = MASSES[1]
    t, tau, q, qd = map(np.array, zip(*rows, strict=True))
    return t, tau, q + SIGMA * rng.normal(size=q.shape), qd


def estimates(t, tau, q_measured):
    """Yield the first sample, the last sample and the `Fit` of each window."""
    system, guess = arm(), {"arm.payload_mass": 0.5, "arm.qd": np.zeros(2)}
    for first in range(0, len(t) - WINDOW, MOVE):
        rows = slice(first, first + WINDOW + 1)
        predicted = np.full((WINDOW + 1, 2), np.nan)  # NaN is ignored
        predicted[0] = guess["arm.qd"]
        data = {"time": t[rows], "arm.tau": tau[rows], "arm.q": q_measured[rows]}
        noise = {"arm.q": SIGMA}
        if first:
            data["arm.qd"], noise["arm.qd"] = predicted, ARRIVAL
        found = fit(system, guess | {"arm.q": q_measured[first]}, data, noise=noise)
        yield first, first + WINDOW, found
        guess = {"arm.payload_mass": max(found["arm.payload_mass"], 0.01)}
        guess["arm.qd"] = velocities_after_move(system, found, tau[rows])


def velocities_after_move(system, found, tau):
    """Return the estimated velocities at the start of the next window."""
    start = {
        f"arm.{name}": [found[f"arm.{name}[{k + 1}]"] for k in range(2)] for name in ("q", "qd")
    }
    with prepare(system, DT) as run:
        run.reset(start=start | {"arm.payload_mass": found["arm.payload_mass"]})
        for k in range(MOVE):
            run["arm.tau"] = tau[k]
            run.step()
        return run["arm.qd"]


def draw(ends, masses, intervals):
    """Write a figure with the estimates at the ends of the windows, and the true mass."""
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    errors = np.abs(np.array(intervals) - np.array(masses)[:, None]).T
    axes.errorbar(ends, masses, errors, fmt="o", capsize=3, label="estimate, 95 % interval")
    axes.step([0.0, DROP, T_STOP], [*MASSES, MASSES[1]], where="post", label="true mass")
    axes.set(xlabel="end of the window [s]", ylabel="payload mass [kg]")
    axes.legend()
    BUILD.mkdir(parents=True, exist_ok=True)
    figure.savefig(BUILD / "result.png", dpi=120)


def main():
    """Print the estimates of all windows, and return True if the intervals contain the masses."""
    t, tau, q_measured, qd = measured_run()
    inside, total, errors = 0, 0, []
    ends, masses, intervals = [], [], []
    for first, last, found in estimates(t, tau, q_measured):
        low, high = found.intervals["arm.payload_mass"]
        ends.append(t[last])
        masses.append(found["arm.payload_mass"])
        intervals.append((low, high))
        print(
            f"{t[first]:.1f} to {t[last]:.1f} s: payload {found['arm.payload_mass']:.3f} kg, "
            f"from {low:.3f} to {high:.3f} kg"
        )
        if not t[first] < DROP < t[last]:
            mass = MASSES[int(t[first] >= DROP)]
            inside, total = inside + (low < mass < high), total + 1
            errors.append([found[f"arm.qd[{k + 1}]"] - qd[first, k] for k in range(2)])
    print(f"{inside} of {total} intervals of windows without the drop contain the true mass")
    print(f"RMS error of the velocities: {np.sqrt(np.mean(np.square(errors))):.1e} rad/s")
    draw(ends, masses, intervals)
    return inside >= total - 2


if __name__ == "__main__":
    sys.exit(not main())
